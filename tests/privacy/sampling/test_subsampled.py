"""Losses of subsampled steps, beside enumeration, high precision and ``dp-accounting``."""

import functools
import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from dpinfer.errors import ConvergenceError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.privacy import (
    GDP,
    AmplifiedDP,
    PureDP,
    SubsampledLoss,
    amplified_epsilon,
    amplify,
    compose,
    privacy_loss,
)

SIDES = ("remove", "add")


def two_laws(law, rate, change):
    """Probabilities of a whole-numbered noise on a sample with and without the record."""
    reach = int(30 * float(np.max(law.std))) + 5
    at = np.arange(-reach, reach + change + 1.0)
    without = np.exp(law.logpmf(at))
    with_it = np.exp(law.logpmf(at - change))
    return rate * with_it + (1 - rate) * without, without


def enumerated_delta(pairs, epsilon, side):
    """Σ (P - e^ε·Q)₊ over all outputs of independent steps."""
    top, bottom = np.ones(1), np.ones(1)
    for first, second in pairs:
        if side == "add":
            first, second = second, first
        top = np.outer(top, first).ravel()
        bottom = np.outer(bottom, second).ravel()
    return np.maximum(top - np.exp(epsilon) * bottom, 0.0).sum()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("law", "rate", "change", "count"),
    [
        (Geometric(scale=1.0), 0.2, 1, 6),
        (Geometric(scale=1.5), 0.1, 3, 3),
        (DiscreteGaussian(sigma=0.8), 0.3, 1, 3),
        (DiscreteGaussian(sigma=1.3), 0.02, 2, 2),
    ],
)
def test_few_steps_of_whole_noise_by_enumeration(law, rate, change, count, side):
    if isinstance(law, Geometric):
        # one output for each loss: up to 0, between, and from the change on
        top, bottom = two_laws(law, rate, change)
        zero = int(np.flatnonzero(np.diff(np.log(top / bottom)) > 1e-9)[0])
        ends = [zero + 1 + np.arange(change - 1), [zero + 1]]
        cut = np.r_[0, zero + 1 + np.arange(change)]
        assert len(ends[0]) == change - 1
        top, bottom = np.add.reduceat(top, cut), np.add.reduceat(bottom, cut)
    else:
        top, bottom = two_laws(law, rate, change)
        kept = bottom > 1e-18
        top, bottom = top[kept], bottom[kept]
    loss = SubsampledLoss(law, rate=rate, count=count, sensitivity=float(change))
    for epsilon in (0.0, 0.01, 0.1, 0.4, 1.0):
        exact = enumerated_delta([(top, bottom)] * count, epsilon, side)
        lower, upper = loss.delta_bounds(epsilon, direction=side)
        assert lower <= exact + 1e-14
        assert exact <= upper + 1e-14
        assert upper - lower < 1e-5


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("law", "change", "count"),
    [
        (Geometric(scale=0.8), 1, 2000),
        (Geometric(scale=1.5), 2, 40),
        (DiscreteGaussian(sigma=0.6), 1, 3),
    ],
)
def test_steps_of_few_values_are_exact(law, change, count, side):
    rate = 0.07
    x = np.arange(-12.0, change + 13.0)
    without, with_it = law.pmf(x), law.pmf(x - change)
    if isinstance(law, Geometric):  # outputs beyond the ends have one loss
        x = np.arange(change + 1.0)
        without = law.pmf(x)
        without[0], without[-1] = law.cdf(0), law.sf(change - 1)
        with_it = without[::-1]
    top, bottom = rate * with_it + (1 - rate) * without, without
    if side == "add":
        top, bottom = bottom, top
    # how often each value occurs: multinomial
    if x.size == 2:
        times = np.stack([np.arange(count + 1), count - np.arange(count + 1)], axis=1)
    else:
        every = itertools.combinations_with_replacement(range(x.size), count)
        times = np.array([np.bincount(one, minlength=x.size) for one in every])
    log_times = special.gammaln(count + 1) - special.gammaln(times + 1).sum(axis=1)
    losses = times @ np.log(top / bottom)
    mass = np.exp(log_times + times @ np.log(top))
    loss = SubsampledLoss(law, rate=rate, count=count, sensitivity=float(change))
    spread = np.sqrt(count) * 0.07
    for epsilon in (0.1 * spread, spread):
        exact = np.sum(mass * -np.expm1(np.minimum(epsilon - losses, 0.0)))
        lower, upper = loss.delta_bounds(epsilon, direction=side)
        # gammaln of 2000 has 12 digits
        assert lower <= exact * (1 + 1e-11)
        assert exact * (1 - 1e-11) <= upper <= lower * (1 + 1e-9)
        low, high = loss.epsilon_bounds(exact, direction=side)
        assert low <= epsilon * (1 + 1e-10)
        assert epsilon * (1 - 1e-10) <= high <= low + 1e-8


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-14])
def test_one_gaussian_step_in_forty_digits(side, delta):
    rate, sigma = mp.mpf("0.03"), mp.mpf("1.2")
    loss = SubsampledLoss(Gaussian(sigma=1.2), rate=0.03)
    epsilon = loss.epsilon_at(delta, direction=side)
    if epsilon == 0.0:
        assert loss.delta_at(0.0, direction=side) <= delta
        return
    with mp.workdps(40):
        e = mp.exp(mp.mpf(epsilon))
        inner = ((e if side == "remove" else 1 / e) - 1 + rate) / rate
        x = sigma**2 * mp.log(inner) + mp.mpf(1) / 2
        sign = -1 if side == "remove" else 1
        without = mp.ncdf(sign * x / sigma)
        mixed = rate * mp.ncdf(sign * (x - 1) / sigma) + (1 - rate) * without
        exact = mixed - e * without if side == "remove" else without - e * mixed
    assert float(exact) == pytest.approx(delta, rel=1e-9)


def integral_of_two(q, epsilon, side):
    """δ of two Gaussian steps of σ = 1: one is integrated, the other in closed form."""
    x = np.linspace(-14.0, 16.0, 600_001)
    mixture = 1 - q + q * np.exp(x - 0.5)
    e = np.exp(epsilon)
    share = ((e if side == "remove" else 1 / e) / mixture - 1 + q) / q
    y = np.where(share > 0, np.log(np.maximum(share, 1e-300)) + 0.5, -np.inf)
    sign = -1 if side == "remove" else 1
    without = special.ndtr(sign * y)
    mixed = q * special.ndtr(sign * (y - 1)) + (1 - q) * without
    first, second = mixture * mixed, without
    if side == "add":
        first, second = without, mixture * mixed
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return np.trapezoid(density * (first - e * second), x)


@pytest.mark.parametrize(("side", "epsilon"), [("remove", 0.4), ("remove", 0.02), ("add", 0.015)])
def test_two_gaussian_steps_by_an_integral(side, epsilon):
    loss = SubsampledLoss(Gaussian(sigma=1.0), rate=0.01, count=2)
    exact = integral_of_two(0.01, epsilon, side)
    lower, upper = loss.delta_bounds(epsilon, direction=side)
    # the integral errs by 1e-9 of it, where the second mass begins
    assert lower <= exact * (1 + 2e-9)
    assert exact <= upper * (1 + 2e-9)
    assert upper - lower < 1e-5 * exact


@pytest.mark.parametrize(
    ("rate", "sigma", "count", "remove", "add"),
    [
        # trapezoid rule with steps of σ/16, σ/24 and σ/40, computed apart
        (0.01, 1.0, 10**4, 6.9073844950, 6.2074843788),
        (0.01, 2.0, 10**5, 8.98484725, 8.88291464),
        (0.01, 1.0, 10**2, 0.95421707362, 0.37946087360),
    ],
)
def test_many_gaussian_steps(rate, sigma, count, remove, add):
    loss = SubsampledLoss(Gaussian(sigma=sigma), rate=rate, count=count)
    for side, known in (("remove", remove), ("add", add)):
        lower, upper = loss.epsilon_bounds(1e-6, direction=side)
        assert lower <= upper < lower + 1e-9
        assert upper == pytest.approx(known, rel=3e-10)
    assert loss.epsilon_at(1e-6) == loss.epsilon_at(1e-6, direction="remove")


@pytest.mark.parametrize(
    ("law", "rate", "width"),
    [
        (Gaussian(sigma=0.8), 0.003, 1e-9),
        (Laplace(scale=1.5), 0.01, 1e-9),
        (Geometric(scale=2.0), 0.01, 1e-9),
        (DiscreteGaussian(sigma=1.0), 0.01, 1e-5),
    ],
)
def test_many_steps_have_narrow_bounds_and_add_up(law, rate, width):
    loss = SubsampledLoss(law, rate=rate, count=3000)
    # 40 steps more that lose next to nothing change next to nothing
    more = loss + SubsampledLoss(law, rate=1e-9, count=40)
    for side in SIDES:
        lower, upper = loss.epsilon_bounds(1e-8, direction=side)
        assert lower <= upper <= lower + width
        below, above = loss.delta_bounds(upper, direction=side)
        assert below <= 1e-8 * (1 + 1e-12)
        assert above == pytest.approx(1e-8, rel=100 * width)
        low, high = more.epsilon_bounds(1e-8, direction=side)
        assert lower <= high + 1e-9
        assert low <= upper + 1e-4


@pytest.mark.thinned("law", "rate", every=2)
@pytest.mark.parametrize(
    ("law", "build"),
    [
        (Gaussian(sigma=2.0), lambda pld: (pld.from_gaussian_mechanism, 2.0)),
        (Laplace(scale=2.0), lambda pld: (pld.from_laplace_mechanism, 2.0)),
        (Geometric(scale=2.0), lambda pld: (pld.from_discrete_laplace_mechanism, 0.5)),
        (DiscreteGaussian(sigma=2.0), lambda pld: (pld.from_discrete_gaussian_mechanism, 2.0)),
    ],
)
@pytest.mark.parametrize(("rate", "count"), [(0.02, 30), (0.1, 200)])
def test_within_the_brackets_of_dp_accounting(law, build, rate, count):
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution

    make, parameter = build(privacy_loss_distribution)
    loss = SubsampledLoss(law, rate=rate, count=count)
    lower, upper = loss.epsilon_bounds(1e-6)
    ends = []
    for pessimistic in (False, True):
        peer = make(
            parameter,
            sampling_prob=rate,
            value_discretization_interval=1e-4,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        ends.append(peer.self_compose(count).get_epsilon_for_delta(1e-6))
    assert ends[0] <= upper
    assert lower <= ends[1]
    # of the peer only the upper one is close
    assert upper == pytest.approx(ends[1], rel=1e-3)
    assert upper - lower < 1e-4


def test_certain_sampling_is_no_sampling():
    for law in (Gaussian(sigma=10.0), DiscreteGaussian(sigma=10.0)):
        loss = SubsampledLoss(law, rate=1.0, count=100)
        deltas = [1e-6, 1e-3]
        exact = privacy_loss(law, compositions=100).epsilon_at(deltas)
        assert loss.epsilon_at(deltas) == pytest.approx(exact, rel=1e-12)
    # beside a step that is sampled it goes through the same sums
    whole = SubsampledLoss(Gaussian(sigma=10.0), rate=1.0, count=99)
    nearly = SubsampledLoss(Gaussian(sigma=10.0), rate=1.0 - 1e-12)
    for side in SIDES:
        lower, upper = (whole + nearly).epsilon_bounds(1e-6, direction=side)
        assert lower == pytest.approx(GDP(1.0).epsilon_at(1e-6), rel=1e-9)
        assert upper == pytest.approx(lower, rel=1e-8)


def test_one_step_is_the_amplified_guarantee():
    loss = SubsampledLoss(Laplace(scale=1.0), rate=0.05)
    assert loss.epsilon_at(1e-14) == pytest.approx(amplified_epsilon(1.0, 0.05), rel=1e-9)
    # all of δ is 0 beyond the largest loss
    assert loss.delta_at(0.0825) == 0.0


def test_near_the_largest_loss():
    # two of two steps with their largest losses: δ = p²(1 - e^(ε - 2ℓ))
    loss = SubsampledLoss(Laplace(scale=1.0), rate=0.05, count=2)
    largest = float(amplified_epsilon(1.0, 0.05))
    p = 0.05 * 0.5 + 0.95 * 0.5 * np.exp(-1.0)
    for delta in (1e-8, 1e-12, 1e-14):
        # and with what is not quite the largest it is a little more
        exact = 2 * largest + np.log1p(-delta / p**2)
        lower, upper = loss.epsilon_bounds(delta, direction="remove")
        assert lower <= exact * (1 + 1e-14) + 10 * (delta / p**2) ** 2
        assert exact <= upper * (1 + 1e-14)
        assert upper == pytest.approx(exact, rel=1e-9)


def test_bounds_hold_at_all_points_and_shapes():
    loss = SubsampledLoss(Laplace(scale=2.0), rate=0.02, count=400)
    epsilon = np.array([[0.0, 0.1], [0.3, 0.5], [0.8, 30.0]])
    lower, upper = loss.delta_bounds(epsilon)
    assert lower.shape == upper.shape == (3, 2)
    assert (lower <= upper).all()
    assert (np.diff(upper.ravel()) < 0).all()
    assert upper[-1, -1] == 0.0
    back = loss.epsilon_at(upper.ravel()[1:-1])
    assert back == pytest.approx(epsilon.ravel()[1:-1], rel=1e-4)
    # where δ(0) is less
    assert loss.epsilon_bounds(0.9) == (0.0, 0.0)
    assert loss.delta_at(epsilon) == pytest.approx(
        np.maximum(*(loss.delta_at(epsilon, direction=side) for side in SIDES)), rel=1e-12
    )


def test_simulated_losses():
    # E[(1 - e^(ε - L))₊] of 2e5 draws; the bound of 5 standard errors fails once in 10⁶
    rng = np.random.default_rng(7)
    rate, sigma, count = 0.2, 1.5, 12
    x = sigma * rng.standard_normal((200_000, count))
    x += rng.random(x.shape) < rate
    loss = np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2))).sum(axis=1)
    steps = SubsampledLoss(Gaussian(sigma=sigma), rate=rate, count=count)
    for epsilon in (0.2, 1.0):
        draws = np.maximum(-np.expm1(epsilon - loss), 0.0)
        error = 5 * draws.std() / np.sqrt(draws.size)
        found = steps.delta_at(epsilon, direction="remove")
        assert found == pytest.approx(draws.mean(), abs=error)


def test_guarantee_is_marked_as_amplified():
    loss = SubsampledLoss(Laplace(scale=2.0), rate=0.01, count=1000)
    guarantee = loss.to_approx_dp(1e-6)
    assert type(guarantee) is AmplifiedDP
    assert guarantee.epsilon == loss.epsilon_bounds(1e-6)[1]
    # 0.61388510 on a grid of 1e-4
    assert guarantee.epsilon == pytest.approx(0.613853, rel=1e-6)
    with pytest.raises(IncompatibleReleaseError, match="amplified already"):
        amplify(guarantee, rate=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": Exact()}, "mechanism must be"),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "one scale"),
        ({"mechanism": Geometric(scale=1.0), "sensitivity": 0.5}, "whole-number"),
        ({"rate": 0.0}, "rate must be > 0"),
        ({"count": 0}, "count must be >= 1"),
        ({"mechanism": Gaussian(sigma=1e-4)}, "sensitivity 1 is too large"),
        ({"mechanism": Gaussian(sigma=1e7)}, "sensitivity 1 is too small"),
        ({"mechanism": DiscreteGaussian(sigma=1e5)}, "must have a sigma of at most 4681"),
        ({"others": (3,)}, "others must hold single losses"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        SubsampledLoss(**({"mechanism": Laplace(scale=1.0), "rate": 0.1} | arguments))


def test_bad_points():
    loss = SubsampledLoss(Laplace(scale=1.0), rate=0.1)
    with pytest.raises(InvalidParameterError, match="delta must be >= 1e-20"):
        loss.epsilon_bounds(1e-22)
    with pytest.raises(InvalidParameterError, match="direction must be one of"):
        loss.delta_at(1.0, direction="replace")


def test_extreme_rates_and_scales():
    # at most k times the rate can be told at all
    assert SubsampledLoss(Laplace(scale=1.0), rate=1e-100, count=100).epsilon_at(1e-6) == 0.0
    for law in (Gaussian(sigma=1.0), Laplace(scale=1.0), DiscreteGaussian(sigma=1.0)):
        loss = SubsampledLoss(law, rate=1e-12, count=1000)
        lower, upper = loss.epsilon_bounds(1e-20)
        assert 0.0 <= lower <= upper < 1e-6
        assert upper > 0.0
    loss = SubsampledLoss(Gaussian(sigma=0.05), rate=1.0 - 2.0**-53, count=2)
    with pytest.raises(ConvergenceError, match="use a rate of 1"):
        loss.epsilon_at(1e-20)


def test_losses_on_one_sample_do_not_compose():
    first = SubsampledLoss(Laplace(scale=1.0), rate=0.05)
    second = SubsampledLoss(Laplace(scale=2.0), rate=0.05)

    @functools.cache
    def approx(loss, name):
        return loss.to_approx_dp(1e-6, sample=name)

    for names in ((None, None), ("wave 1", None), ("wave 1", "wave 1")):
        parts = [approx(one, name) for one, name in zip((first, second), names, strict=True)]
        with pytest.raises(IncompatibleReleaseError, match="must be for samples drawn independ"):
            compose(parts)
    parts = [approx(first, "wave 1"), approx(second, "wave 2")]
    total = compose(parts)
    assert total.delta == 2e-6
    assert [source.sample for source in total.sources] == ["wave 1", "wave 2"]
    # with one name given to several, the sum of ε would be too small: one sample, both releases
    joint = amplify([PureDP(1.0), PureDP(0.5)], rate=0.05)
    assert joint.epsilon > total.epsilon_at(2e-6)


def test_sums_of_sampled_losses():
    first = SubsampledLoss(Laplace(scale=2.0), rate=0.05, count=20)
    second = SubsampledLoss(Gaussian(sigma=3.0), rate=0.1, count=50)
    total = first + second
    assert total.epsilon_at(1e-5) == total.epsilon_bounds(1e-5)[1]
    assert total.delta_at(0.5) == total.delta_bounds(0.5)[1]
    # more than either alone, less than both at half of δ
    parts = [one.epsilon_at(0.5e-5) for one in (first, second)]
    assert max(parts) < total.epsilon_at(0.5e-5)
    assert total.epsilon_at(1e-5) < sum(parts)
    assert sum([first, first]).epsilon_at(1e-5) == (2 * first).epsilon_at(1e-5)
    assert (3 * total).others[0].count == 150
    assert [source.rate for source in total.to_approx_dp(1e-5, sample="x").sources] == [0.05, 0.1]
    with pytest.raises(TypeError, match="unsupported operand"):
        first + 1.0


def test_different_whole_noises_by_enumeration():
    laws = [(Geometric(scale=0.8), 0.3), (DiscreteGaussian(sigma=0.7), 0.1)]
    pairs = []
    for law, rate in laws:
        top, bottom = two_laws(law, rate, 1)
        kept = bottom > 1e-25
        pairs.append((top[kept], bottom[kept]))
    total = sum(SubsampledLoss(law, rate=rate) for law, rate in laws)
    for side, epsilon in itertools.product(SIDES, (0.1, 0.5)):
        exact = enumerated_delta(pairs, epsilon, side)
        lower, upper = total.delta_bounds(epsilon, direction=side)
        assert lower <= exact + 1e-14 <= upper + 2e-14
        assert upper - lower < 1e-7
