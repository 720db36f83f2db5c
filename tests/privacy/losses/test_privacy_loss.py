"""Mixed losses, inverse curves, trade-off curves and draws, each by a second route."""

import functools
import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Tulap,
)
from dpinfer.privacy import GDP, ZCDP, PrivacyLoss, privacy_loss

RESPONSE = RandomizedResponse(p=0.6, categories=3)


def listed(mechanism, sensitivity=1):
    """Values of the loss and their probabilities under P, from the probabilities of the outputs."""
    if isinstance(mechanism, RandomizedResponse):
        p, q = mechanism.matrix[0], mechanism.matrix[1]
    else:
        # far enough for 1e-20, and not so far that a probability underflows
        deviations = 12 if isinstance(mechanism, DiscreteGaussian) else 35
        reach = int(deviations * np.sqrt(mechanism.variance)) + 4
        x = np.arange(-reach, reach + sensitivity + 1)
        p, q = mechanism.pmf(x), mechanism.pmf(x - sensitivity)
    return np.log(p / q), p


def enumerated(*parts):
    """Values and probabilities of a sum of independent losses."""
    values, mass = np.zeros(1), np.ones(1)
    for at, p in parts:
        values = np.add.outer(values, at).ravel()
        mass = np.multiply.outer(mass, p).ravel()
    return values, mass


def delta_of(values, mass, epsilon):
    return np.sum(mass * -np.expm1(np.minimum(epsilon - values, 0.0)))


def brackets(loss, epsilon, exact, rtol=1e-11):
    lower, upper = loss.delta_bounds(epsilon)
    assert lower <= exact * (1 + rtol)
    assert exact * (1 - rtol) <= upper
    assert loss.delta_at(epsilon) == pytest.approx(exact, rel=rtol)


GEOMETRIC = Geometric(scale=1.3)
DISCRETE = DiscreteGaussian(sigma=0.9)
OTHER = DiscreteGaussian(sigma=1.7)


@pytest.mark.parametrize(
    "parts",
    [
        [(RESPONSE, 1), (RESPONSE, 1), (GEOMETRIC, 2)],
        [(GEOMETRIC, 1), (Geometric(scale=2.1), 3)],
        [(DISCRETE, 1), (OTHER, 1)],
        [(DISCRETE, 2), (GEOMETRIC, 1), (RESPONSE, 1)],
        [(DISCRETE, 1), (DiscreteGaussian(sigma=1.8), 1)],  # steps 4 : 1, one lattice
    ],
)
def test_mixed_lattices_by_enumeration(parts):
    values, mass = enumerated(*(listed(*part) for part in parts))
    loss = sum_of(privacy_loss(*part) for part in parts)
    for epsilon in (0.0, 0.2, 0.77, 1.9, 2.5):
        brackets(loss, epsilon, delta_of(values, mass, epsilon))
    for alpha in (1e-4, 0.03, 0.2, 0.5, 0.8, 0.99):
        assert loss.power(alpha) == pytest.approx(neyman_pearson(values, mass, alpha), rel=1e-11)
    at = np.array([-2.01, -0.4, 0.033, 1.1])
    exact = [mass[values <= x].sum() for x in at]
    assert loss.cdf(at) == pytest.approx(np.array(exact), abs=1e-12)


def sum_of(losses):
    total, *rest = losses
    for loss in rest:
        total = total + loss
    return total


def neyman_pearson(values, mass, alpha):
    """Best power by taking outputs in falling order of the likelihood ratio, the last at random."""
    order = np.argsort(-values)
    level = np.concatenate([[0.0], np.cumsum(mass[order] * np.exp(-values[order]))])
    power = np.concatenate([[0.0], np.cumsum(mass[order])])
    return np.interp(alpha, level / level[-1], power / power[-1])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_power_by_enumeration_of_all_outputs(count):
    for mechanism, sensitivity in ((RESPONSE, 1), (GEOMETRIC, 1), (GEOMETRIC, 3)):
        values, mass = listed(mechanism, sensitivity)
        values, keep = np.round(values, 9), mass > 0
        values = np.unique(values[keep])
        single = np.array(
            [
                mass[keep & (np.round(listed(mechanism, sensitivity)[0], 9) == v)].sum()
                for v in values
            ]
        )
        all_values, all_mass = enumerated(*[(values, single)] * count)
        loss = privacy_loss(mechanism, sensitivity, count)
        for alpha in (1e-6, 0.01, 0.05, 0.3, 0.5, 0.7, 0.999):
            exact = neyman_pearson(all_values, all_mass, alpha)
            assert loss.power(alpha) == pytest.approx(exact, rel=1e-7)


def laplace_delta(t, epsilon):
    """δ of one Laplace loss, at an ε of either sign."""
    inside = -np.expm1((epsilon - t) / 2)
    return np.where(epsilon >= t, 0.0, np.where(epsilon <= -t, -np.expm1(epsilon), inside))


def test_laplace_beside_lattices():
    t = 0.8
    for parts in ([(RESPONSE, 1), (GEOMETRIC, 1)], [(DISCRETE, 1)], [(DISCRETE, 1), (OTHER, 1)]):
        values, mass = enumerated(*(listed(*part) for part in parts))
        loss = sum_of(privacy_loss(*part) for part in parts)
        loss = loss + privacy_loss(Laplace(scale=1 / t))
        for epsilon in (0.0, 0.3, 1.1, 2.6):
            brackets(loss, epsilon, np.sum(mass * laplace_delta(t, epsilon - values)))


def test_laplace_beside_a_wide_lattice():
    sigma, count, t = 12.0, 100, 0.3
    x = np.arange(-1500, 1501)
    # the sum of 100 discrete Gaussians by its characteristic function, which is all but normal
    frequency = 2 * np.pi * x / 3001
    transform = DiscreteGaussian(sigma=sigma).cf(frequency) ** count
    sums = np.fft.fftshift(np.fft.fft(np.fft.ifftshift(transform)).real) / 3001
    values = count / (2 * sigma**2) - x / sigma**2
    loss = privacy_loss(DiscreteGaussian(sigma=sigma), compositions=count)
    loss = loss + privacy_loss(Laplace(scale=1 / t))
    for epsilon in (0.0, 0.5, 1.4):
        exact = np.sum(sums * laplace_delta(t, epsilon - values))
        brackets(loss, epsilon, exact, rtol=1e-11)


def repeated_laplace_delta(t, count, epsilon):
    """δ of ``count`` Laplace losses, term by term from the residues at the poles of M(z)^count.

    M(z) = (e^(zt)(z+1)/w + e^(-(z+1)t)z/w)/2 with w = z + 1/2, and the payoff 1/(z(z+1)).
    """
    if epsilon < 0:
        return -mp.expm1(epsilon) + mp.exp(epsilon) * repeated_laplace_delta(t, count, -epsilon)
    total, t, epsilon = mp.mpf(0), mp.mpf(t), mp.mpf(epsilon)
    for low in range(count + 1):
        x = t * (count - 2 * low) - epsilon
        if x <= 0:
            break
        # (1+2w)^p·(1-2w)^q = Σ cₙwⁿ, times e^(wx)/w^count
        p, q = count - low - 1, low - 1
        c = [mp.mpf(1), mp.mpf(2 * (p - q))]
        for n in range(1, count - 1):
            c.append((2 * (p - q) * c[n] - 4 * (p + q - n + 1) * c[n - 1]) / (n + 1))
        residue, power = mp.mpf(0), mp.mpf(1)
        for i in range(count):
            residue += power * c[count - 1 - i]
            power *= x / (i + 1)
        residue *= (-1) ** q * mp.mpf(2) ** (2 - count) * mp.exp(-x / 2)
        residue += 2**count * ((low == 0) - (low == count) * mp.exp(-x))
        total += mp.binomial(count, low) * mp.mpf(2) ** -count * mp.exp(-low * t) * residue
    return total


@pytest.mark.parametrize(
    ("t", "count", "mechanism", "times", "epsilon"),
    [
        # few values of the others are near: the integral of all of them passes too near the poles
        (1e-2, 190, Geometric(scale=0.25), 90, 340.0),
        (1e-4, 1300, Geometric(scale=0.43), 45, 71.1),
        (0.1, 80, DiscreteGaussian(sigma=0.55), 20, 36.0),
        # the tilt is large, and both reach far
        (0.11, 61, DiscreteGaussian(sigma=0.485), 60, 158.7),
        # many are
        (0.37, 90, Geometric(scale=0.789), 4, 1.75),
        # a tilt so small that terms with many low atoms grow from next to nothing
        (0.0335, 24, RandomizedResponse(p=0.6656, categories=3), 402, 254.8),
    ],
)
def test_many_tiny_laplace_losses_beside_wide_lattices(t, count, mechanism, times, epsilon):
    if isinstance(mechanism, Geometric):
        rate = 1.0 / mechanism.scale
        lies = np.arange(times + 1)
        values = rate * (times - 2 * lies)
        mass = stats.binom.pmf(lies, times, 1 / (1 + np.exp(rate)))
    else:
        one, mass = listed(mechanism)
        order = np.argsort(one)
        one, mass = one[order], np.array(functools.reduce(np.convolve, [mass[order]] * times))
        values = np.linspace(times * one[0], times * one[-1], len(mass))
    x = epsilon - values
    near = (np.abs(x) < t * count) & (mass > 1e-17)
    exact = np.sum(mass[x <= -t * count] * -np.expm1(x[x <= -t * count]))
    with mp.workdps(2 * count + 20 if near.any() else 40):
        exact += sum(
            p * float(repeated_laplace_delta(t, count, y))
            for y, p in zip(x[near], mass[near], strict=True)
        )
    loss = privacy_loss(Laplace(scale=1 / t), compositions=count)
    loss = loss + privacy_loss(mechanism, compositions=times)
    brackets(loss, epsilon, exact)


def test_gaussian_beside_few_values():
    values, mass = enumerated(listed(RESPONSE), listed(GEOMETRIC))
    pair = privacy_loss(RESPONSE) + privacy_loss(GEOMETRIC)
    for mu in (1.0, 0.1, 1e-3, 1e-6):
        loss = pair + privacy_loss(Gaussian(sigma=1 / mu))
        for epsilon in (0.0, 0.4, 1.3):
            x = epsilon - values
            size = np.abs(x)
            delta = GDP(mu).delta_at(size)
            delta = np.where(x < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
            brackets(loss, epsilon, np.sum(mass * delta))


def test_little_gaussian_noise_beside_laplace():
    t = 0.8
    laplace = privacy_loss(Laplace(scale=1 / t))
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    for mu in (1e-2, 1e-4, 1e-7):
        loss = laplace + privacy_loss(Gaussian(sigma=1 / mu))
        for epsilon in (0.0, 0.3, 0.6):
            # δ of the Laplace loss is smooth there, and the Gaussian loss is N(μ²/2, μ²)
            at = epsilon - (0.5 * mu**2 + mu * nodes)
            exact = weights @ laplace_delta(t, at) / weights.sum()
            brackets(loss, epsilon, exact, rtol=1e-9)


def test_seven_steps_with_one_common_step_are_one_lattice():
    # shares of a budget in tenths of a percent, ρ = 3.65, as in the census of 2020
    shares = {20: 10, 274: 10, 85: 10, 262: 20, 238: 10, 118: 10, 3: 10}
    rho, sums = 3.65, np.ones(1)
    loss = PrivacyLoss(())
    width = 2 * rho / 1000 / 10
    for share, uses in shares.items():
        sigma = np.sqrt(uses / (2 * rho * share / 1000))
        loss += privacy_loss(DiscreteGaussian(sigma=sigma), compositions=uses)
        # the sum of the noises by its characteristic function, spread out over the common lattice
        reach = int(13 * sigma * np.sqrt(uses))
        frequency = 2 * np.pi * np.arange(-reach, reach + 1) / (2 * reach + 1)
        transform = DiscreteGaussian(sigma=sigma).cf(frequency) ** uses
        masses = np.fft.fftshift(np.fft.fft(np.fft.ifftshift(transform)).real) / (2 * reach + 1)
        spread = np.zeros(2 * reach * (share * 10 // uses) + 1)
        spread[:: share * 10 // uses] = masses
        sums = signal.fftconvolve(sums, spread)
    steps = np.arange(len(sums)) - len(sums) // 2
    values = loss.mean + width * steps
    for epsilon in (0.0, 3.0, 8.0):
        exact = delta_of(values, sums, epsilon)
        brackets(loss, epsilon, exact, rtol=1e-11 + 1e-15 / exact)
        assert loss.sf(epsilon) == pytest.approx(sums[values > epsilon].sum(), rel=1e-10)
    # by a tilted transform over all 82,320 points
    assert loss.epsilon_at(1e-10) == pytest.approx(20.324689750789723, rel=1e-14)
    lower, upper = loss.epsilon_bounds(1e-10)
    assert upper - lower < 1e-12


def test_a_curve_agrees_with_its_points():
    loss = privacy_loss(DiscreteGaussian(sigma=3.0), compositions=20)
    loss = loss + privacy_loss(DiscreteGaussian(sigma=2.0), compositions=7)
    epsilon = np.linspace(0.0, 25.0, 50).reshape(2, 25)
    single = np.array([[loss.delta_at(e) for e in row] for row in epsilon])
    assert loss.delta_at(epsilon) == pytest.approx(single, rel=1e-14)
    delta = np.geomspace(1e-30, 0.1, 20)
    assert loss.delta_at(loss.epsilon_at(delta)) == pytest.approx(delta, rel=1e-11)
    x = np.linspace(-20.0, 20.0, 41)
    assert loss.sf(x) + loss.cdf(x) == pytest.approx(np.ones(41), rel=1e-14)
    assert (np.diff(loss.sf(x)[15:]) < 0).all()


def test_lattices_without_a_common_step_stay_in_their_bracket():
    # too many values to list: the bracket is wide, and the Gaussian of the same variance is near
    wide = privacy_loss(DiscreteGaussian(sigma=300.0), compositions=90_000)
    loss = wide + privacy_loss(DiscreteGaussian(sigma=417.77), compositions=10_000)
    mu = float(np.sqrt(1 + (100 / 417.77) ** 2))
    for epsilon in (0.0, 1.0, 5.0, 20.0):
        lower, upper = loss.delta_bounds(epsilon)
        assert lower <= loss.delta_at(epsilon) <= upper
        assert upper - lower <= 1e-7 * upper
        assert loss.delta_at(epsilon) == pytest.approx(GDP(mu).delta_at(epsilon), rel=1e-5)


def test_laplace_power_in_closed_form():
    t = 1.5
    loss = privacy_loss(Laplace(scale=2.0), 3.0)
    alpha = np.array([0.0, 1e-300, 1e-9, 0.05, 0.11, 0.12, 0.3, 0.5, 0.51, 0.9, 1 - 1e-9, 1.0])
    edge = np.exp(-t) / 2
    with np.errstate(divide="ignore"):
        middle = 1 - np.exp(-t) / (4 * alpha)
    exact = np.where(alpha < edge, np.exp(t) * alpha, middle)
    exact = np.where(alpha > 0.5, 1 - np.exp(-t) * (1 - alpha), exact)
    assert loss.power(alpha) == pytest.approx(exact, rel=1e-12)


def test_gaussian_power_in_closed_form():
    loss = privacy_loss(Gaussian(sigma=2.0), 3.0, compositions=4)
    alpha = np.array([1e-300, 1e-12, 0.01, 0.05, 0.4, 0.6, 0.99, 1 - 1e-9])
    assert loss.power(alpha) == pytest.approx(stats.norm.cdf(3.0 + stats.norm.ppf(alpha)), rel=1e-9)


def test_composition_is_associative():
    a, b = privacy_loss(Laplace(scale=2.0)), privacy_loss(Gaussian(sigma=3.0))
    assert a + a + b == b + 2 * a
    assert (a + b) * 3 == privacy_loss(Laplace(scale=2.0), 1.0, 3) + b + b + b
    assert hash(a * 2) == hash(a + a)
    assert privacy_loss(Laplace(scale=2.0), [1.0, 1.0]) == a * 2
    assert privacy_loss(Laplace(scale=[2.0, 4.0]), [1.0, 2.0]) == a * 2
    assert privacy_loss(Gaussian(sigma=[1.0, 2.0]), [3.0, 8.0]) == privacy_loss(
        Gaussian(sigma=1.0), 5.0
    )
    # 3-4-5, of the cell with the least noise
    assert privacy_loss(Gaussian(sigma=[1.0, 2.0]), 5.0).mean == pytest.approx(12.5, rel=1e-15)


def test_nothing_moves():
    for mechanism in (Laplace(scale=1.0), Gaussian(sigma=1.0), DiscreteGaussian(sigma=1.0)):
        loss = privacy_loss(mechanism, 0.0)
        assert loss.delta_at(0.0) == 0.0
        assert loss.epsilon_at(1e-9) == 0.0
        assert loss.epsilon_bounds(0.0) == (0.0, 0.0)
        assert loss.delta_bounds([0.0, 1.0])[1].tolist() == [0.0, 0.0]
        assert loss.power([0.0, 0.3]).tolist() == [0.0, 0.3]
        assert loss.cdf([-1e-300, 0.0]).tolist() == [0.0, 1.0]
        assert loss.sf([-1e-300, 0.0]).tolist() == [1.0, 0.0]
        assert loss.mean == loss.variance == loss.rvs() == 0.0
    assert privacy_loss(RandomizedResponse(p=0.5)).epsilon_at(0.0) == 0.0


@pytest.mark.parametrize(
    "loss",
    [
        privacy_loss(Laplace(scale=3.0), compositions=40),
        privacy_loss(Geometric(scale=3.0), 2, compositions=40),
        privacy_loss(DiscreteGaussian(sigma=30.0), compositions=700),
        privacy_loss(Gaussian(sigma=3.0)) + privacy_loss(RESPONSE, compositions=3),
        privacy_loss(DISCRETE) + privacy_loss(Laplace(scale=2.0), compositions=2),
    ],
    ids=["laplace", "geometric", "discrete", "gaussian", "mixed"],
)
def test_epsilon_inverts_delta(loss):
    for delta in (0.2, 1e-3, 1e-6) if loss.cdf(27.0) == 1.0 else (0.2, 1e-6, 1e-40, 1e-250):
        epsilon = loss.epsilon_at(delta)
        assert loss.delta_at(epsilon) == pytest.approx(delta, rel=1e-10, abs=1e-300)
        lower, upper = loss.epsilon_bounds(delta)
        assert lower <= epsilon <= upper
        assert upper - lower <= 1e-10 * upper
        assert loss.delta_bounds(upper)[1] <= delta <= loss.delta_bounds(lower)[1]


def test_epsilon_at_zero_delta_is_the_largest_loss():
    loss = privacy_loss(Laplace(scale=2.0), compositions=3) + privacy_loss(RESPONSE)
    assert loss.epsilon_at(0.0) == pytest.approx(1.5 + RESPONSE.epsilon, rel=1e-15)
    assert loss.delta_at(loss.epsilon_at(0.0) * (1 + 1e-12)) == 0.0
    assert loss.epsilon_at(0.999) == 0.0


def test_curves_are_monotone_and_bounded_by_named_guarantees():
    loss = privacy_loss(DiscreteGaussian(sigma=5.0), compositions=20)
    epsilon = np.linspace(0.0, 12.0, 25)
    delta = loss.delta_at(epsilon)
    assert (np.diff(delta) < 0).all()
    assert (delta <= ZCDP(0.4).delta_at(epsilon)).all()
    alpha = np.linspace(0.0, 1.0, 21)
    power = loss.power(alpha)
    assert (np.diff(power) > 0).all()
    assert (np.diff(power, 2) < 1e-12).all()


@pytest.mark.parametrize(
    "loss",
    [
        privacy_loss(Laplace(scale=2.0), compositions=5),
        privacy_loss(Geometric(scale=2.0), compositions=7),
        privacy_loss(Geometric(scale=2.0), 3, compositions=4),
        privacy_loss(DiscreteGaussian(sigma=1.5), compositions=3),
        privacy_loss(RESPONSE, compositions=6) + privacy_loss(Gaussian(sigma=2.0)),
    ],
    ids=["laplace", "response", "geometric", "discrete", "mixed"],
)
def test_draws(loss):
    size = 40_000
    draws = loss.rvs((2, size // 2), rng=7)
    assert draws.shape == (2, size // 2)
    # six standard deviations each: 2e-9 a test
    assert abs(draws.mean() - loss.mean) < 6 * np.sqrt(loss.variance / size)
    for x in np.quantile(draws, [0.01, 0.2, 0.5, 0.9]):
        at = x + 1e-9  # a draw and an atom may differ in the last digit
        p = loss.cdf(at)
        assert abs((draws <= at).mean() - p) < 6 * np.sqrt(p * (1 - p) / size) + 1e-12
    # δ(ε) is a mean of the draws: E[(1 - e^(ε-L))₊], between 0 and 1
    payoff = -np.expm1(np.minimum(0.5 - draws, 0.0))
    assert abs(payoff.mean() - loss.delta_at(0.5)) < 6 * payoff.std() / np.sqrt(size)


def test_within_the_brackets_of_dp_accounting():
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld

    def both(make, *args, count, **kwargs):
        return [
            make(
                *args,
                value_discretization_interval=1e-3,
                pessimistic_estimate=upper,
                use_connect_dots=False,
                **kwargs,
            ).self_compose(count)
            for upper in (False, True)
        ]

    cases = [
        (privacy_loss(Laplace(scale=4.0), compositions=20),
         both(pld.from_laplace_mechanism, 4.0, count=20)),
        (privacy_loss(Gaussian(sigma=4.0), compositions=20),
         both(pld.from_gaussian_mechanism, 4.0, count=20)),
        (privacy_loss(Geometric(scale=4.0), 2, compositions=20),
         both(pld.from_discrete_laplace_mechanism, 0.25, sensitivity=2, count=20)),
        (privacy_loss(DiscreteGaussian(sigma=4.0), compositions=20),
         both(pld.from_discrete_gaussian_mechanism, 4.0, count=20)),
    ]  # fmt: skip
    cases += [
        (a + b, [p.compose(q) for p, q in zip(x, y, strict=True)])
        for (a, x), (b, y) in itertools.pairwise(cases)
    ]
    for loss, (optimistic, pessimistic) in cases:
        for epsilon in np.linspace(0.0, 8.0, 17):
            lower, upper = loss.delta_bounds(epsilon)
            # what they truncate and round, and do not count
            assert optimistic.get_delta_for_epsilon(epsilon) - 1e-10 <= upper
            assert lower <= pessimistic.get_delta_for_epsilon(epsilon) + 1e-10


def test_shapes():
    loss = privacy_loss(Laplace(scale=1.0), compositions=2)
    assert isinstance(loss.delta_at(0.5), float)
    assert isinstance(loss.epsilon_at(0.1), float)
    assert isinstance(loss.power(0.1), float)
    assert isinstance(loss.cdf(0.1), float)
    assert loss.delta_at([[0.1, 0.2], [0.2, 0.1]]).shape == (2, 2)
    assert loss.delta_bounds([0.1, 0.2])[0].shape == (2,)
    assert loss.rvs(3, rng=1).shape == (3,)
    assert "2 * LaplaceLoss(shift=1.0)" in repr(loss)
    assert loss != 1
    with pytest.raises(TypeError):
        loss + 1
    assert isinstance(loss * 2, PrivacyLoss)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy_loss(Exact()), "it adds no noise"),
        (lambda: privacy_loss(Tulap(scale=1.0)), "mechanism must be"),
        (lambda: privacy_loss(1.0), "mechanism must be"),
        (lambda: privacy_loss(Geometric(scale=1.0), 0.5), "whole number"),
        (lambda: privacy_loss(DiscreteGaussian(sigma=1.0), np.sqrt(2)), "whole number"),
        (lambda: privacy_loss(Laplace(scale=[1.0, 2.0]), 1.0), "one entry for each cell"),
        (lambda: privacy_loss(RESPONSE, 2.0), "must be left at 1"),
        (lambda: privacy_loss(Laplace(scale=1.0), -1.0), "sensitivity must be >= 0"),
        (lambda: privacy_loss(Laplace(scale=1.0), np.nan), "NaN"),
        (lambda: privacy_loss(Laplace(scale=1.0), [1.0, 2.0], 0), "compositions must be >= 1"),
        (lambda: privacy_loss(Laplace(scale=1e-9)), "too large"),
        (lambda: privacy_loss(Laplace(scale=1e20)), "too small"),
        (lambda: privacy_loss(Laplace(scale=1.0)) * 0, "compositions must be >= 1"),
        (lambda: privacy_loss(Laplace(scale=1.0)) * 1.5, "whole number"),
        (lambda: privacy_loss(Laplace(scale=1.0)).delta_at(-0.1), "epsilon must be >= 0"),
        (lambda: privacy_loss(Laplace(scale=1.0)).delta_at(np.inf), "finite"),
        (lambda: privacy_loss(Laplace(scale=1.0)).epsilon_at(1.0), "delta must be < 1"),
        (lambda: privacy_loss(Gaussian(sigma=1.0)).epsilon_at(0.0), "the loss is unbounded"),
        (lambda: privacy_loss(Gaussian(sigma=1.0)).power(1.1), "alpha must be <= 1"),
        (lambda: privacy_loss(Gaussian(sigma=1.0)).cdf(np.nan), "NaN"),
        (lambda: privacy_loss(Gaussian(sigma=1e-5)) * 10**9, "nothing is private there"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


MECHANISMS = st.one_of(
    st.floats(1e-3, 1e3).map(lambda b: Laplace(scale=b)),
    st.floats(1e-2, 1e3).map(lambda b: Geometric(scale=b)),
    st.floats(1e-2, 1e3).map(lambda s: Gaussian(sigma=s)),
    st.floats(0.05, 50.0).map(lambda s: DiscreteGaussian(sigma=s)),
    st.integers(2, 9).flatmap(
        lambda k: st.floats(1.01 / k, 0.999).map(lambda p: RandomizedResponse(p=p, categories=k))
    ),
)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(MECHANISMS, st.integers(1, 30)), min_size=1, max_size=2),
    st.floats(0.0, 1.5),
    st.floats(1e-12, 1 - 1e-12),
)
def test_any_composition_is_sound(parts, place, alpha):
    loss = sum_of(privacy_loss(mechanism, compositions=k) for mechanism, k in parts)
    epsilon = place * (loss.mean + 5 * np.sqrt(loss.variance))
    lower, upper = loss.delta_bounds(epsilon)
    delta = loss.delta_at(epsilon)
    assert 0 <= lower <= delta <= upper <= 1
    assert upper - lower <= 1e-3 * upper + 1e-300
    power = loss.power(alpha)
    assert alpha * (1 - 1e-9) <= power <= 1
    # a test at level α has power at most e^ε·α + δ
    with np.errstate(over="ignore"):
        assert power <= np.exp(min(epsilon, 700.0)) * alpha + upper + 1e-9
    assert 0 <= loss.cdf(epsilon) <= 1


LAPLACE = privacy_loss(Laplace(scale=2.0))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.one_of(st.floats(), st.none(), st.text(max_size=2), st.lists(st.floats(), max_size=3)),
    st.sampled_from(
        ["delta_at", "delta_bounds", "epsilon_at", "epsilon_bounds", "power", "cdf", "sf", "rvs"]
    ),
)
def test_junk_is_refused(value, name):
    try:
        result = getattr(LAPLACE, name)(value)
    except DPInferError:
        return
    assert np.isfinite(np.asarray(result)).all()


@pytest.mark.parametrize("parts", [1.0, None, "ab", [1.0], [(1.0, 2)], [(None,)]])
def test_parts_that_are_no_losses(parts):
    with pytest.raises(InvalidParameterError, match=r"^parts must"):
        PrivacyLoss(parts)


def test_sum_is_plus():
    parts = [privacy_loss(Laplace(scale=2.0)), privacy_loss(Gaussian(sigma=3.0))]
    assert sum(parts) == parts[0] + parts[1]
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + parts[0]
