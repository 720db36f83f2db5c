"""Weighted sums against closed forms, brute force, high precision and simulation."""

from functools import reduce
from itertools import accumulate

import mpmath
import numpy as np
import pytest
from scipy import special

from dpinfer.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
    as_noise,
)
from dpinfer.mechanisms._sums import series as fourier
from dpinfer.mechanisms._sums.series import FourierSum
from dpinfer.mechanisms.weighted_sum import fast_sum

Q = np.array([0.4, 0.1, 0.025, 0.005, 1e-6])


def relative(log_value, reference):
    """Relative error of exp(log_value), which may underflow, against mpmath numbers."""
    pairs = zip(np.ravel(log_value), reference, strict=True)
    return max(abs(float(mpmath.exp(mpmath.mpf(float(v))) / r - 1)) for v, r in pairs)


def laplace_sum_tail(x, scales):
    """P(S > x) for Laplace noises of different scales, by partial fractions in 120 digits."""
    with mpmath.workdps(120):
        b = [mpmath.mpf(float(scale)) for scale in scales]
        total = mpmath.mpf(0)
        for j, bj in enumerate(b):
            share = mpmath.mpf(1)
            for k, bk in enumerate(b):
                if k != j:
                    share *= bj**2 / (bj**2 - bk**2)
            total += share * mpmath.exp(-mpmath.mpf(float(x)) / bj) / 2
        return total


def laplace_normal_tail(x, b, sigma):
    """P(L + N > x) for Laplace L and normal N, in closed form."""
    with mpmath.workdps(60):
        x, b, s = mpmath.mpf(float(x)), mpmath.mpf(b), mpmath.mpf(sigma)
        upper = lambda z: mpmath.erfc(z / mpmath.sqrt(2)) / 2  # noqa: E731
        half = s**2 / (2 * b**2)
        left = mpmath.exp(half - x / b) * upper(s / b - x / s)
        right = mpmath.exp(half + x / b) * upper(s / b + x / s)
        return upper(x / s) + (left - right) / 2


def pmf(law, weight, reach):
    """Probabilities of weight·noise on the whole numbers -reach..reach."""
    out = np.zeros(2 * reach + 1)
    k = np.arange(-(reach // weight), reach // weight + 1)
    out[reach + weight * k] = law.pmf(k)
    return out


def brute_tails(laws, weights, reach):
    """P(S > k) and P(S >= k) for k = 0..reach, by direct convolution of positive numbers."""
    total = np.ones(1)
    for law, weight in zip(laws, weights, strict=True):
        total = np.convolve(total, pmf(law, weight, reach))
    centre = len(total) // 2
    closed = np.cumsum(total[::-1])[::-1][centre:]
    return closed[1 : reach + 2], closed[: reach + 1]


# ---- closed forms ----


def test_one_term_is_the_scaled_law():
    law = Geometric(scale=3.0)
    total = WeightedSum([-0.1], law)
    k = np.arange(-40, 41)
    # 0.1·k is not exactly a multiple of 0.1 as a float: it must count as the atom
    assert np.allclose(total.sf(0.1 * k), law.sf(k), rtol=1e-14)
    assert np.allclose(total.cdf(0.1 * k), law.cdf(k), rtol=1e-14)
    assert np.allclose(total.sf(0.1 * k + 0.05), law.sf(k), rtol=1e-14)
    assert np.allclose(total.isf(Q), 0.1 * law.isf(Q))
    assert np.allclose(total.ppf(Q), 0.1 * law.ppf(Q))


def test_sum_of_gaussians():
    total = WeightedSum([3, -4, 0.5], Gaussian(sigma=[1.0, 2.0, 3.0]))
    sigma = np.sqrt(9 + 64 + 2.25)
    x = np.linspace(-30, 300, 40)
    assert np.allclose(total.logsf(x), special.log_ndtr(-x / sigma), rtol=1e-13)
    assert np.allclose(total.isf(Q), -special.ndtri(Q) * sigma, rtol=1e-13)


def test_difference_of_two_laplace_of_equal_scale():
    total = WeightedSum([1, -1], Laplace(scale=2.0))
    x = np.concatenate([[0.0], np.logspace(-6, np.log10(1380), 60)])
    expected = -x / 2 + np.log(0.5 + x / 8)
    assert np.max(np.abs(np.expm1(total.logsf(x) - expected))) < 1e-12
    assert np.allclose(total.cdf(-x), total.sf(x), rtol=1e-14)


@pytest.mark.parametrize("scale", [0.02, 0.4, 3.0, 60.0])
def test_two_geometric_of_equal_scale(scale):
    total = WeightedSum([0.3, -0.3], Geometric(scale=scale))
    reach = np.unique(np.rint(np.append(np.arange(4.0), scale * np.array([0.7, 5.0, 40.0]))))
    with mpmath.workdps(50):
        a = mpmath.exp(-1 / mpmath.mpf(scale))
        mass = ((1 - a) / (1 + a)) ** 2
        # either noise between 0 and k, or both beyond, where distances add up
        beyond = 2 * mpmath.nsum(lambda j: a ** (2 * j), [1, mpmath.inf])
        atoms = [mass * a**k * (k + 1 + beyond) for k in range(int(reach[-1] + 100 * scale) + 2)]
        tails = list(accumulate(reversed(atoms)))[::-1]
        assert relative(total.logpmf(0.3 * reach), [atoms[int(k)] for k in reach]) < 1e-13
        assert relative(total.logsf(0.3 * reach), [tails[int(k) + 1] for k in reach]) < 1e-13
    q = np.array([float(tails[int(k) + 1]) for k in reach])
    held = q > 1e-300
    np.testing.assert_allclose(total.isf(q[held] * (1 + 1e-9)), 0.3 * reach[held], atol=1e-9)
    near = q > 1e-3
    np.testing.assert_allclose(total.ppf(1 - q[near] * (1 + 1e-9)), 0.3 * reach[near], atol=1e-9)


@pytest.mark.parametrize("ratio", [1.0 + 1e-6, 1.5, 40.0, 1e5, 1e9])
def test_two_laplace_of_unequal_scale(ratio):
    total = WeightedSum([1, 1], Laplace(scale=[1.0, ratio]))
    x = np.concatenate([[0.0], np.logspace(-6, 2.8, 25)]) * ratio
    reference = [laplace_sum_tail(v, [1.0, ratio]) for v in x]
    assert relative(total.logsf(x), reference) < 1e-11


def test_many_laplace_terms_far_in_the_tail():
    scales = [1.0, 1.1, 2.0, 3.5, 3.6, 10.0, 11.0]
    total = WeightedSum(np.ones(7), Laplace(scale=scales))
    x = np.array([0.0, 0.3, 5.0, 40.0, 300.0, 2000.0, 7000.0])
    assert relative(total.logsf(x), [laplace_sum_tail(v, scales) for v in x]) < 1e-11


@pytest.mark.parametrize(
    ("b", "sigma"),
    [(1.0, 1.0), (1e-3, 1.0), (1.0, 1e-3), (1.0, 1e-9), (1e-6, 1.0), (3.0, 0.5), (0.1, 1.0)],
)
def test_laplace_plus_normal(b, sigma):
    total = WeightedSum([1, 2], [Laplace(scale=b), Gaussian(sigma=sigma / 2)])
    x = np.array([0.0, 1e-4, 0.1, 1.0, 3.0, 10.0, 25.0]) * total.std
    with mpmath.workdps(60):
        reference = [laplace_normal_tail(v, b, sigma) for v in x]
    assert relative(total.logsf(x), reference) < 2e-12


def test_thousand_laplace_terms():
    weights = np.random.default_rng(1).uniform(1, 2, 1000)
    total = WeightedSum(weights, Laplace(scale=1.0))
    # the sum of squares and the fourth cumulant give the Edgeworth tail, off by 1/m²
    z = 1.5
    kurtosis = 12 * np.sum(weights**4) / np.sum(2 * weights**2) ** 2
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    expected = special.ndtr(-z) + density * kurtosis / 24 * (z**3 - 3 * z)
    assert total.sf(z * total.std) == pytest.approx(expected, abs=3e-6)


# ---- whole numbers ----

LATTICES = [
    ([Geometric(scale=1.0)] * 3, [1, 1, 1]),
    ([Geometric(scale=0.3), Geometric(scale=4.0)], [1, 2]),
    ([Geometric(scale=2.0), Geometric(scale=5.0), DiscreteGaussian(sigma=3.0)], [3, 1, 2]),
    ([DiscreteGaussian(sigma=0.4), DiscreteGaussian(sigma=6.0)], [1, 1]),
    ([Geometric(scale=3.0)] * 8, [1, 1, 1, 1, 2, 2, 3, 5]),
    ([Geometric(scale=1.0), Geometric(scale=0.5)], [1, 7]),
]


@pytest.mark.thinned("laws", "unit", every=2)
@pytest.mark.parametrize(("laws", "weights"), LATTICES)
@pytest.mark.parametrize("unit", [1.0, 1 / 7])
def test_lattice_against_brute_force(laws, weights, unit):
    total = WeightedSum(unit * np.array(weights), laws)
    reach = 900
    open_, closed = brute_tails(laws, weights, reach)
    # far enough from the ends of the brute-force arrays
    k = np.arange(reach // 4)
    k = k[open_[k] > 1e-300]
    assert np.max(np.abs(total.sf(unit * k) - open_[k])) < 1e-14
    assert np.max(np.abs(total.cdf(-unit * k) - closed[k])) < 1e-14
    assert np.max(np.abs(np.expm1(total.logsf(unit * k) - np.log(open_[k])))) < 1e-10
    between = unit * (k + 0.5)
    assert np.max(np.abs(total.sf(between) - open_[k])) < 1e-14


@pytest.mark.parametrize(("laws", "weights"), LATTICES)
def test_lattice_quantiles_are_the_smallest_lattice_points(laws, weights):
    total = WeightedSum(weights, laws)
    q = np.array([0.9, 0.5, 0.3, 0.1, 0.025, 0.005, 1e-4, 1e-9, 1e-15, 1e-40])
    k = total.isf(q)
    assert np.all(k == np.round(k))
    assert np.all(total.sf(k) <= q)
    assert np.all(total.sf(k - 1) > q)
    k = total.ppf(q)
    assert np.all(total.cdf(k) >= q)
    assert np.all(total.cdf(k - 1) < q)
    assert np.array_equal(
        total.isf(total.sf(np.arange(-5.0, 30.0))) <= np.arange(-5, 30), [True] * 35
    )


def test_sparse_lattice_keeps_its_plateaus():
    # between multiples of 1000 the tail is flat once the small noise has died out
    total = WeightedSum([1000, 1], Geometric(scale=[0.05, 0.1]))
    with mpmath.workdps(60):
        far = mpmath.exp(-20) / (1 + mpmath.exp(-20))
        assert relative(total.logsf(np.array([200.0, 500.0])), [far, far]) < 1e-10


def test_large_scales_on_a_lattice():
    # P(J > k) of two geometric noises of ratio a: see the law of the sum of two of them
    scale = 1e6
    total = WeightedSum([1, 1], Geometric(scale=scale))
    x = np.array([0.0, 1e3, 1e6, 2e7, 5e8])
    # a sum over k of positive terms is within 1/scale² of the Laplace law at k + 1/2
    z = (x + 0.5) / scale
    assert np.allclose(total.logsf(x), -z + np.log(0.5 + z / 4), rtol=1e-11, atol=2e-12)
    assert total.sf(total.isf(0.025)) <= 0.025 < total.sf(total.isf(0.025) - 1)


@pytest.mark.parametrize(
    ("weights", "mechanism"),
    [
        ([1, 2, 3], Geometric(scale=1e4)),
        ([1, 2, 4], DiscreteGaussian(sigma=1e4)),
        ([1, 2, 3], [Geometric(scale=1e4), DiscreteGaussian(sigma=2e4), Geometric(scale=9e3)]),
    ],
)
def test_unequal_weights_on_a_wide_lattice(weights, mechanism):
    by_transform = WeightedSum(weights, mechanism)
    assert "by lattice)" in repr(by_transform)
    # for very many points a path that ends where all else vanishes, in a table
    noise = as_noise(mechanism, 3)
    laws = [noise.take(i) if noise.shape else noise for i in range(3)]
    by_path = fast_sum(np.asarray(weights, dtype=float), laws)
    x = np.concatenate([np.arange(4.0), np.rint(by_transform.std * np.linspace(0.05, 2.5, 40))])
    expected = by_transform.cdf(-x)
    np.testing.assert_allclose(by_path.cdf(-x), expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.log(by_path.cdf(-x)), np.log(expected), rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_a_lattice_too_wide_to_transform(scale):
    total = WeightedSum([1, 2, 3], Geometric(scale=scale))
    assert total.error_bound <= 1e-12
    quantiles = total.isf(Q)
    assert (quantiles == np.rint(quantiles)).all()
    assert (total.sf(quantiles) <= Q).all()
    assert (total.sf(quantiles - 1) > Q).all()
    # the continuous law with the same decay differs by a lattice point in scale at most
    smooth = WeightedSum([1, 2, 3], Laplace(scale=scale))
    np.testing.assert_allclose(quantiles, smooth.isf(Q), rtol=0, atol=2.0 + 1e-9 * scale)


def test_terms_that_recur_together_are_not_cut_off():
    # 6 and 10 are both 1 again at π, where 15 is not: no path serves, and the bound says so
    total = WeightedSum([6, 10, 15], Geometric(scale=1e6))
    assert "contour" not in repr(total)
    assert 1e-9 < total.error_bound < 1e-4


def test_windows_and_contour_against_convolutions():
    scales = [9.0, 8.0, 7.0, 6.0, 5.0]
    total = WeightedSum(np.ones(5), Geometric(scale=scales))
    # sums of positive terms
    pmf = reduce(np.convolve, [Geometric(scale=s).pmf(np.arange(-1200, 1201)) for s in scales])
    beyond = np.cumsum(pmf[::-1])[::-1]
    k = np.array([0, 5, 30, 60, 100, 300, 900])
    np.testing.assert_allclose(total.sf(k), beyond[k + 6001], rtol=1e-10)


# ---- mixed kinds, and lattices that do not fit ----


def test_integer_plus_laplace_against_a_sum():
    total = WeightedSum([1, 1], [Geometric(scale=3.0), Laplace(scale=2.0)])
    k = np.arange(-3000, 3001)
    x = np.array([0.0, 0.3, 1.0, 7.7, 40.0, 400.0])
    expected = Laplace(scale=2.0).sf(x[:, None] - k) @ Geometric(scale=3.0).pmf(k)
    assert np.max(np.abs(total.sf(x) / expected - 1)) < 1e-12


def test_integers_plus_laplace_and_normal():
    laws = [Geometric(scale=3.0), Geometric(scale=1.0), Laplace(scale=2.0), Gaussian(sigma=1.5)]
    total = WeightedSum([1, 2, 1, 1], laws)
    x = np.array([0.0, 0.3, 1.0, 7.7, 30.0])
    open_, closed = brute_tails(laws[:2], [1, 2], 150)
    mass = np.concatenate([(closed - open_)[:0:-1], closed - open_])
    k = np.arange(-150, 151)
    with mpmath.workdps(40):
        smooth = np.array(
            [
                [float(laplace_normal_tail(v, 2.0, 1.5)) for v in row]
                for row in np.abs(x[:, None] - k)
            ]
        )
    smooth = np.where(x[:, None] >= k, smooth, 1 - smooth)
    assert np.max(np.abs(total.sf(x) - smooth @ mass)) < 1e-12


def test_incommensurate_lattices_against_all_pairs():
    laws = Geometric(scale=[2.0, 5.0])
    weights = np.array([1.0, np.sqrt(2)])
    total = WeightedSum(weights, laws)
    k = np.arange(-250, 251)
    places = np.add.outer(weights[0] * k, weights[1] * k).ravel()
    mass = np.multiply.outer(laws.take(0).pmf(k), laws.take(1).pmf(k)).ravel()
    # atoms themselves (either side of the jump) and points between
    some = np.argsort(-mass)[:200]
    x = np.concatenate([places[some], np.linspace(-60, 60, 101)])
    for point, tail, cdf in zip(x, total.sf(x), total.cdf(x), strict=True):
        at = np.abs(places - point) < 1e-9
        assert tail == pytest.approx(mass[~at & (places > point)].sum(), abs=1e-13)
        assert cdf == pytest.approx(mass[at | (places < point)].sum(), abs=1e-13)
    for q in Q:
        point = total.isf(q)
        assert np.min(np.abs(places - point)) < 1e-9
        assert total.sf(point) <= q < total.sf(point - 1e-6)


@pytest.mark.parametrize(
    ("weights", "scale"),
    [
        (np.sqrt([1, 2, 3]), [1.0, 2.0, 3.0]),
        (np.sqrt([1, 2, 3, 5]), [0.7, 1.0, 0.5, 1.0]),
        ([1.0, np.pi], [2.0, 5.0]),
    ],
)
def test_the_bracket_holds_where_the_exact_law_is_known(weights, scale, monkeypatch):
    monkeypatch.setattr(fourier, "MAX_DEGREE", 1 << 13)
    law = Geometric(scale=scale)
    exact = WeightedSum(weights, law)
    assert exact.error_bound < 1e-11
    bracket = FourierSum(exact._terms)
    assert 1e-8 < bracket.error_bound < 0.1
    x = np.concatenate([np.linspace(0, 4 * exact.std, 100), exact.isf(Q)])
    assert np.max(np.abs(bracket.tail(x) - exact.sf(x))) <= bracket.error_bound
    assert np.max(np.abs(bracket.tail(x, closed=True) - exact.cdf(-x))) <= bracket.error_bound
    # quantiles err on the safe side
    for strict in (False, True):
        assert np.all(exact.sf(bracket.isf(Q, strict=strict)) <= Q)
    assert np.all(bracket.isf(np.array([1e-12])) <= exact.chernoff(1e-12) * (1 + 1e-9))


def test_many_incommensurate_terms():
    weights = np.random.default_rng(3).uniform(1, 2, 200)
    total = WeightedSum(weights, Geometric(scale=4.0))
    assert 1e-8 < total.error_bound < 1e-4
    smooth = WeightedSum(weights, Laplace(scale=np.sqrt(Geometric(scale=4.0).variance / 2)))
    # fourth cumulants are close as well, so the laws nearly agree
    assert total.sf(total.std) == pytest.approx(smooth.sf(smooth.std), abs=1e-4)
    assert total.sf(total.isf(0.025)) < 0.025 < total.sf(total.isf(0.025)) + 3 * total.error_bound


@pytest.mark.parametrize("wide", [1e3, 1e6])
def test_narrow_laplace_on_a_wide_lattice(wide):
    total = WeightedSum([1, 1], [Geometric(scale=wide), Laplace(scale=5.0)])
    x = np.array([0.0, 0.5, 3.2, wide, 20.25 * wide])
    k = np.arange(-400.0, 401.0)
    for point, tail in zip(x, total.sf(x), strict=True):
        near = np.floor(point) + k
        expected = Laplace(scale=5.0).sf(point - near) @ Geometric(scale=wide).pmf(near)
        expected += Geometric(scale=wide).sf(near[-1])
        assert tail == pytest.approx(expected, rel=1e-9)


def test_wide_laplace_on_a_wide_lattice():
    total = WeightedSum([1, 1], [Geometric(scale=1e6), Laplace(scale=1e5)])
    assert total.error_bound < 1e-10
    # two Laplace noises, the first shifted by half a lattice step on average: 1e-13 away
    x = np.array([0.0, 1e4, 1e6, 8e6])
    expected = [float(laplace_sum_tail(v, [1e6, 1e5])) for v in x]
    assert np.max(np.abs(total.sf(x) - expected)) < 1e-10


# ---- Tulap ----


def tulap_sum_tail(x, laws):
    """P(T₁ + T₂ > x) by Gauss's rule on the pieces between the jumps of both densities."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    pieces = np.arange(-400.0, 400.0) + 0.5
    # both densities are constant on unit pieces around whole numbers, up to their ends
    ends = np.array([law.isf(0.0) if law.truncation else 401.0 for law in laws])
    first = np.concatenate([pieces, [-ends[0], ends[0]]])
    second = x - np.concatenate([pieces, [-ends[1], ends[1]]])
    edges = np.unique(np.concatenate([first, second]))
    mid, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    y = mid[:, None] + half[:, None] * nodes
    return float(np.sum(laws[0].pdf(y) * laws[1].sf(x - y) * weights * half[:, None]))


@pytest.mark.parametrize("truncation", [0.0, 0.02])
def test_two_tulap_noises(truncation):
    laws = [Tulap(scale=1.0, truncation=truncation), Tulap(scale=2.0, truncation=truncation)]
    total = WeightedSum([1, -1], laws)
    assert total.error_bound <= 1e-10 or truncation
    for x in (0.0, 0.25, 1.0, 3.3, 8.0):
        expected = tulap_sum_tail(x, laws)
        assert total.sf(x) == pytest.approx(expected, abs=1e-11 + (1e-9 if truncation else 0))


def test_truncated_sums_are_bounded():
    law = Tulap(scale=1.0, truncation=0.02)
    total = WeightedSum([1, 2], law)
    assert total.isf(0.0) == pytest.approx(3 * law.isf(0.0))
    assert total.isf(1e-9) <= total.isf(0.0)


def quadrature(weights, laws, x):
    """P(w1*e1 + w2*e2 > x) for e1 Tulap: Gauss's rule between the points where anything breaks."""
    first, second = laws
    end = min(float(first.isf(0.0)), float(first.isf(1e-40)))
    other = min(float(second.isf(0.0)), float(second.isf(1e-40)))
    breaks = [np.append(np.arange(np.ceil(c)) + 0.5, [0.0, c]) for c in (end, other)]
    places = np.concatenate([breaks[0], -breaks[0], (x - weights[1] * breaks[1]) / weights[0]])
    places = np.append(places, (x + weights[1] * breaks[1]) / weights[0])
    places = np.unique(np.clip(places, -end, end))
    nodes, each = np.polynomial.legendre.leggauss(12)
    half, middle = 0.5 * np.diff(places), 0.5 * (places[1:] + places[:-1])
    u = middle[:, None] + half[:, None] * nodes
    tail = second.sf((x - weights[0] * u) / weights[1])
    return float((first.pdf(u) * tail * each * half[:, None]).sum())


@pytest.mark.thinned("weights", "laws", every=2)
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 0.37), (0.37, 1.0), (1.0, 0.001)])
@pytest.mark.parametrize(
    "laws",
    [
        (Tulap(scale=1.0, truncation=0.05), Tulap(scale=1.0, truncation=0.05)),
        (Tulap(scale=3.0), Tulap(scale=0.4, truncation=0.2)),
        (Tulap(scale=0.2, truncation=0.5), Tulap(scale=0.2, truncation=0.9)),
        (Tulap(scale=20.0), Tulap(scale=20.0)),
        (Tulap(scale=2.0, truncation=1e-6), Laplace(scale=3.0)),
        (Tulap(scale=2.0), Gaussian(sigma=2.0)),
    ],
    ids=repr,
)
def test_tulap_noise_and_another_have_a_sum_in_closed_form(laws, weights):
    total = WeightedSum(weights, list(laws))
    points = np.array([0.0, 0.1, 1.0, 2.0, 3.7]) * float(total.std)
    got = total.sf(points)
    assert total.error_bound < 1e-11
    # beyond the Fourier series, whose error was up to 2e-4, tails are accurate relatively
    want = [quadrature(weights, laws, x) for x in points]
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-15)
    q = np.array([1e-3, 0.2])
    np.testing.assert_allclose(total.sf(total.isf(q)), q, rtol=1e-9)
