"""The loss of one use of a mechanism, and of simple compositions, against 40-digit arithmetic."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, RandomizedResponse
from dpinfer.privacy import privacy_loss

# at a larger rate·steps probabilities are beyond the exponents of a float
SHIFTS = [1e-8, 1e-3, 0.1, 1.0, 5.0, 40.0, 700.0]
FRACTIONS = [0.0, 1e-3, 0.3, 0.9, 0.999999]


@pytest.fixture(autouse=True)
def _forty_digits():
    with mp.workdps(40):
        yield


def agrees(loss, epsilon, exact, rtol=1e-12):
    """δ(ε) is right, and its bounds bracket it."""
    exact = float(exact)
    lower, upper = loss.delta_bounds(epsilon)
    assert lower <= exact * (1 + 1e-15) + 1e-320
    assert exact * (1 - 1e-15) - 1e-320 <= upper
    assert loss.delta_at(epsilon) == pytest.approx(exact, rel=rtol, abs=1e-307)


@pytest.mark.thinned("shift", "fraction", every=2)
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_laplace(shift, fraction):
    loss = privacy_loss(Laplace(scale=1.0 / shift))
    t = 1 / mp.mpf(1.0 / shift)
    epsilon = fraction * shift
    gap = t - mp.mpf(epsilon)
    agrees(loss, epsilon, -mp.expm1(-gap / 2), rtol=1e-12 + 1e-15 / (1.0 - fraction))


@pytest.mark.thinned("rate", "fraction", every=3)
@pytest.mark.parametrize(
    ("rate", "steps"), [(r, m) for r in SHIFTS for m in (1, 2, 5, 40) if r * m <= 1000]
)
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_geometric(rate, steps, fraction):
    law = Geometric(scale=1.0 / rate)
    r = 1 / mp.mpf(1.0 / rate)
    a = mp.exp(-r)
    epsilon = fraction * rate * steps
    exact = mp.mpf(0)
    for x in range(steps + 1):
        mass = (1 if x in (0, steps) else 1 - a) * a**x / (1 + a)
        exact += mass * max(-mp.expm1(mp.mpf(epsilon) - r * (steps - 2 * x)), 0)
    agrees(privacy_loss(law, steps), epsilon, exact, rtol=1e-12 + 1e-15 / (1.0 - fraction))


@pytest.mark.parametrize(("p", "categories"), [(0.75, 2), (0.5, 5), (0.9999, 3), (0.1001, 10)])
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_randomized_response(p, categories, fraction):
    channel = RandomizedResponse(p=p, categories=categories)
    other = (1 - mp.mpf(p)) / (categories - 1)
    epsilon = fraction * channel.epsilon
    exact = p - mp.exp(mp.mpf(epsilon)) * other
    # the channel's ε, a rounded logarithm, is what its δ starts from
    rounding = 1e-15 * max(p, 1.0) / float(exact)
    agrees_roughly = privacy_loss(channel).delta_at(epsilon)
    assert agrees_roughly == pytest.approx(float(exact), rel=1e-12 + rounding)


@pytest.mark.thinned("mu", "compositions", "deviations", every=2)
@pytest.mark.parametrize("mu", [1e-8, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("compositions", [1, 1000, 10**6])
@pytest.mark.parametrize("deviations", [0.0, 0.5, 3.0, 30.0, 36.5])
def test_gaussian(mu, compositions, deviations):
    loss = privacy_loss(Gaussian(sigma=1.0 / mu), compositions=compositions)
    m = mp.sqrt(compositions) / mp.mpf(1.0 / mu)
    epsilon = float(m * m / 2 + deviations * m)
    e = mp.mpf(epsilon)
    with mp.workdps(400):
        exact = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
    # ε is a float: where it is large, its last digit moves δ
    rtol = 1e-12 + 4e-16 * epsilon * (deviations + 1) / float(m)
    assert loss.delta_at(epsilon) == pytest.approx(float(exact), rel=rtol, abs=1e-307)


@pytest.mark.thinned("sigma", "steps", "deviations", every=3)
@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0, 7.5, 100.0])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("deviations", [0.0, 0.3, 5.0, 30.0])
def test_discrete_gaussian(sigma, steps, deviations):
    loss = privacy_loss(DiscreteGaussian(sigma=sigma), steps)
    s = mp.mpf(sigma)
    mean, width = steps**2 / (2 * s**2), steps / s**2
    epsilon = float(mean + mp.mpf(deviations * (1 + 1e-9)) * steps / s) + 1e-6 * float(width)
    # L = mean - width·X > ε for X below this
    highest = int(mp.floor((mean - epsilon) / width))
    reach = int(13 * sigma) + 5
    total = mp.fsum(mp.exp(-(k**2) / (2 * s**2)) for k in range(-reach, reach + 1))
    exact = mp.fsum(
        mp.exp(-(k**2) / (2 * s**2)) * -mp.expm1(epsilon - mean + width * k)
        for k in range(highest - reach, highest + 1)
    )
    agrees(loss, epsilon, exact / total, rtol=1e-11)


@pytest.mark.parametrize(
    ("compositions", "epsilon"),
    [(k, e) for k in (3, 100, 1000) for e in (1e-8, 1e-3, 0.1, 2.0)]
    + [(10**6, 1e-8), (10**6, 2.0)],
)
def test_repeated_response(compositions, epsilon):
    loss = privacy_loss(Geometric(scale=1.0 / epsilon), compositions=compositions)
    e = 1 / mp.mpf(1.0 / epsilon)
    p = 1 / (1 + mp.exp(-e))
    sd = float(loss.variance) ** 0.5
    for deviations in (0.5, 35.0) if compositions == 10**6 else (0.5, 8.0, 20.0, 35.0):
        bound = float(loss.mean) + deviations * sd
        if bound >= compositions * epsilon:
            continue
        first = int(mp.floor((mp.mpf(bound) / e + compositions) / 2)) + 1
        term = mp.binomial(compositions, first) * p**first * (1 - p) ** (compositions - first)
        exact, kept = mp.mpf(0), first
        while kept <= compositions and term > exact * mp.mpf(10) ** -25:
            exact += term * -mp.expm1(bound - e * (2 * kept - compositions))
            kept += 1
            term *= mp.mpf(compositions - kept + 1) / kept * p / (1 - p)
        # K(θ) - θε is a difference of numbers as large as the loss, in units of its deviation
        rtol = 1e-11 + 1e-14 * (deviations + 1.0) * bound / sd + 4e-16 * compositions * epsilon
        agrees(loss, bound, exact, rtol=rtol)


def residue_delta(t, k, epsilon):
    """δ of k Laplace losses: the exponentials of M^k/(z(z+1)), each by its residue at -1/2."""
    total = mp.mpf(0)
    for j in range(k + 1):
        x = (k - 2 * j) * t - epsilon
        if x <= 0:
            continue
        front = mp.binomial(k, j) * mp.exp(-j * t) / mp.mpf(2) ** k
        # e^(sx)(s+1/2)^(k-j-1)(s-1/2)^(j-1)/s^k in s = z + 1/2, and the poles left at ±1/2
        up, down = k - j - 1, j - 1
        series = mp.taylor(
            lambda s, x=x, up=up, down=down: (
                mp.exp(s * x) * (s + mp.mpf(1) / 2) ** up * (s - mp.mpf(1) / 2) ** down
            ),
            0,
            k - 1,
        )
        value = series[k - 1]
        if down < 0:  # at z = 0
            value += mp.exp(x / 2) * 2**k * mp.mpf(1) ** up
        if up < 0:  # at z = -1
            value += mp.exp(-x / 2) * (mp.mpf(-1)) ** down / (-mp.mpf(1) / 2) ** k
        total += front * mp.exp(-x / 2) * value
    return total


@pytest.mark.parametrize(("t", "k"), [(1.0, 2), (0.25, 5), (3.0, 8), (1e-3, 4)])
def test_repeated_laplace(t, k):
    loss = privacy_loss(Laplace(scale=1.0 / t), compositions=k)
    for fraction in (0.0, 0.1, 0.5, 0.95):
        epsilon = fraction * k * t
        with mp.workdps(80):
            exact = residue_delta(1 / mp.mpf(1.0 / t), k, mp.mpf(epsilon))
        agrees(loss, epsilon, exact, rtol=1e-12)


def test_figures_of_the_discrete_gaussian():
    for sigma, compositions in ((100.0, 10**4), (1000.0, 10**6)):
        loss = privacy_loss(DiscreteGaussian(sigma=sigma), compositions=compositions)
        lower, upper = loss.epsilon_bounds(1e-6)
        assert lower <= loss.epsilon_at(1e-6) <= upper
        assert upper - lower < 1e-12
        assert round(upper, 3) == 4.887


def test_moments():
    for mechanism, sensitivity in (
        (Laplace(scale=1.0), 1e-6),
        (Laplace(scale=1.0), 2e-2),
        (Laplace(scale=0.5), 1.0),
        (Laplace(scale=0.01), 1.0),
    ):
        loss = privacy_loss(mechanism, sensitivity)
        t = mp.mpf(sensitivity) / mp.mpf(mechanism.scale)
        atoms = {t: mp.mpf(1) / 2, -t: mp.exp(-t) / 2}

        def density(u, t=t):
            return mp.exp((u - t) / 2) / 4

        moments = [
            sum(x**n * p for x, p in atoms.items())
            + mp.quad(lambda u, n=n: u**n * density(u), mp.linspace(-t, t, 9))
            for n in (1, 2)
        ]
        assert loss.mean == pytest.approx(float(moments[0]), rel=1e-12)
        assert loss.variance == pytest.approx(float(moments[1] - moments[0] ** 2), rel=1e-11)
    geometric = privacy_loss(Geometric(scale=2.0), 3, compositions=5)
    x = np.arange(-2000, 2001)
    pmf = Geometric(scale=2.0).pmf(x)
    values = 0.5 * (np.abs(x - 3) - np.abs(x))
    mean = values @ pmf
    assert geometric.mean == pytest.approx(5 * mean, rel=1e-13)
    assert geometric.variance == pytest.approx(5 * ((values - mean) ** 2 @ pmf), rel=1e-13)
    # many values: closed forms against the sum
    many = privacy_loss(Geometric(scale=2000.0), 3000)
    x = np.arange(-100_000, 100_001)
    pmf = Geometric(scale=2000.0).pmf(x)
    values = (np.abs(x - 3000) - np.abs(x)) / 2000.0
    assert many.mean == pytest.approx(values @ pmf, rel=1e-11)
    assert many.variance == pytest.approx((values - many.mean) ** 2 @ pmf, rel=1e-11)
    discrete = privacy_loss(DiscreteGaussian(sigma=0.4), 2)
    assert discrete.mean == pytest.approx(2 / 0.16, rel=1e-14)
    variance = DiscreteGaussian(sigma=0.4).variance
    assert discrete.variance == pytest.approx(4 * variance / 0.4**4, rel=1e-13)


@pytest.mark.parametrize(
    ("mechanism", "sensitivity", "values", "exact"),
    [
        (Laplace(scale=1.0), 2.0, [-2.1, -2.0, 0.5, 1.999, 2.0], None),
        (Geometric(scale=1.0), 2, [-2.5, -2.0, -1.0, 0.0, 1.9, 2.0], None),
        (Gaussian(sigma=2.0), 1.0, [-3.0, -0.1, 0.0, 0.7], None),
        (DiscreteGaussian(sigma=2.0), 1, [-1.0, 0.1, 0.125, 0.374, 0.375], None),
    ],
)
def test_cdf_follows_from_the_noise(mechanism, sensitivity, values, exact):
    loss = privacy_loss(mechanism, sensitivity)
    rounding = 1e-12
    if isinstance(mechanism, (Laplace, Geometric)):
        # L <= x if and only if X >= (Δ - bx)/2, for x below Δ/b, in steps of 2 for whole X
        scale = float(mechanism.scale)
        at = (sensitivity - scale * np.array(values)) / 2.0
        inside = np.abs(values) * scale <= sensitivity
        reached = np.clip(at, 0.0, sensitivity)
        if mechanism.is_integer:
            exact = mechanism.sf(np.ceil(reached - 1e-12) - 1.0)
        else:
            exact = mechanism.sf(reached)
        exact = np.where(inside, exact, 0.0)
        exact = np.where(np.array(values) * scale >= sensitivity, 1.0, exact)
    else:
        sigma = float(mechanism.sigma)
        at = (sensitivity**2 / (2 * sigma**2) - np.array(values)) * sigma**2 / sensitivity
        exact = mechanism.sf(np.ceil(at - 1e-12) - 1.0) if mechanism.is_integer else None
        if exact is None:
            exact = mechanism.sf(at)
    assert loss.cdf(values) == pytest.approx(exact, rel=rounding, abs=1e-14)
    assert math.isclose(loss.cdf(values[-1]), float(exact[-1]), rel_tol=rounding)


@pytest.mark.parametrize(("p", "categories"), [(0.7, 2), (0.7, 4), (0.26, 4)])
def test_cdf_of_answers(p, categories):
    channel = RandomizedResponse(p=p, categories=categories)
    wrong = (1.0 - p) / (categories - 1)
    at = float(channel.epsilon) * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    exact = [wrong, wrong, 1.0 - p, 1.0 - p, 1.0]
    assert privacy_loss(channel).cdf(at) == pytest.approx(exact, rel=1e-12)
    # all three of three answers have to be the least likely
    assert privacy_loss(channel, compositions=3).cdf(3 * at[0]) == pytest.approx(
        wrong**3, rel=1e-12
    )


@pytest.mark.parametrize(
    ("mechanism", "sensitivity"),
    [
        (Laplace(scale=1.0), 0.7),
        (Geometric(scale=2.0), 3),
        (RandomizedResponse(p=0.7, categories=4), 1),
        (Gaussian(sigma=1.0), 1.0),
        (DiscreteGaussian(sigma=1.0), 1),
    ],
)
def test_what_a_law_says_of_its_largest_value(mechanism, sensitivity):
    loss = privacy_loss(mechanism, sensitivity)
    law = loss._parts[0][0]
    if np.isinf(law.largest):
        assert law.log_top == -np.inf
    else:
        below = 1.0 - loss.cdf(law.largest * (1.0 - 1e-7))
        # beside the atom a Laplace loss has a density
        smooth = isinstance(mechanism, Laplace)
        assert np.exp(law.log_top) == pytest.approx(below, rel=1e-7 if smooth else 1e-12)
    atoms = law.tilted_atoms(0.0)
    assert (atoms is None) is isinstance(mechanism, Gaussian)
    if law.lattice is not None:
        values, mass = atoms
        first, step = law.lattice
        assert np.diff(values) == pytest.approx(step, rel=1e-12)
        assert (values - first) / step == pytest.approx(np.rint((values - first) / step), abs=1e-9)
        assert mass.sum() == pytest.approx(1.0, rel=1e-12)
        assert mass @ values == pytest.approx(loss.mean, rel=1e-9)


def test_just_below_the_largest_loss_its_atom_decides():
    loss = privacy_loss(Geometric(scale=1.0), 2, compositions=300)
    top = mp.mpf(1) / (1 + mp.exp(-1))
    for gap in (0.6, 1e-3):
        epsilon = 600.0 - gap
        agrees(loss, epsilon, top**300 * -mp.expm1(mp.mpf(epsilon) - 600), rtol=1e-10)


def test_epsilon_at_the_smallest_delta():
    count = 3000
    loss = privacy_loss(RandomizedResponse(p=0.7, categories=2), compositions=count)
    p = mp.mpf(0.7)
    each = mp.log(p / (1 - p))
    for delta in (1e-300, 1e-100):
        epsilon = mp.mpf(loss.epsilon_at(delta))
        exact = mp.fsum(
            mp.binomial(count, lies)
            * p ** (count - lies)
            * (1 - p) ** lies
            * -mp.expm1(epsilon - (count - 2 * lies) * each)
            for lies in range(int(mp.ceil((count - epsilon / each) / 2)))
        )
        # ε is found to 2e-15 of itself, and δ falls by less than e per unit
        assert float(exact) == pytest.approx(delta, rel=1e-9)
