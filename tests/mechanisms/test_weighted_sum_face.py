"""Weighted sums behave like laws, whatever their route, and refuse bad arguments."""

import numpy as np
import pytest
from scipy import integrate, sparse

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
    WeightedSum,
    as_frozen,
    weighted_sums,
)

Q = np.array([0.4, 0.1, 0.025, 0.005, 1e-6])


MIXES = [
    ([1.0, 0.5, 0.5], [Laplace(scale=2.0), Gaussian(sigma=1.0), Laplace(scale=0.1)]),
    ([1, 1, 2], Geometric(scale=[2.0, 4.0, 1.0])),
    ([1, 1], [Geometric(scale=3.0), DiscreteGaussian(sigma=2.0)]),
    ([1.0, 2**0.5], Geometric(scale=[2.0, 4.0])),
    ([1.0, 1.5], [Geometric(scale=2.0), Laplace(scale=1.0)]),
    ([1.0, 1.0], [Tulap(scale=2.0), Gaussian(sigma=1.0)]),
    (np.sqrt([2, 3, 5, 7, 11, 13, 17]), Geometric(scale=3.0)),
]


@pytest.mark.parametrize(("weights", "mechanism"), MIXES)
def test_against_simulation(weights, mechanism):
    total = WeightedSum(weights, mechanism)
    n = 200_000
    draws = total.rvs(n, rng=7)
    for x in total.std * np.array([-1.7, -0.4, 0.0, 0.2, 1.0, 2.5]):
        p = total.cdf(x)
        # 6.5 standard deviations of a share of n draws: a false alarm has chance 1e-10
        assert abs(np.mean(draws <= x + 1e-9) - p) < 6.5 * np.sqrt(p * (1 - p) / n) + 1e-4 / n
    kurtosis = np.mean(draws**4) / total.variance**2
    assert abs(draws.var() / total.variance - 1) < 6.5 * np.sqrt(kurtosis / n)


@pytest.mark.parametrize(("weights", "mechanism"), MIXES)
def test_cf_against_the_laws(weights, mechanism):
    total = WeightedSum(weights, mechanism)
    t = np.linspace(-2, 2, 9)
    laws = mechanism if isinstance(mechanism, list) else [mechanism] * len(weights)
    if not isinstance(mechanism, list) and mechanism.shape:
        laws = [mechanism.take(j) for j in range(len(weights))]
    expected = np.prod([law.cf(w * t) for w, law in zip(weights, laws, strict=True)], axis=0)
    assert np.allclose(total.cf(t), expected, rtol=1e-12, atol=1e-15)
    expected = sum(w**2 * law.variance for w, law in zip(weights, laws, strict=True))
    assert total.variance == pytest.approx(expected, rel=1e-13)
    assert total.std == pytest.approx(np.sqrt(expected), rel=1e-13)


@pytest.mark.parametrize(("weights", "mechanism"), MIXES)
def test_chernoff_is_above_the_quantile(weights, mechanism):
    total = WeightedSum(weights, mechanism)
    q = np.array([0.4, 0.1, 0.01, 1e-5])
    assert np.all(total.chernoff(q) >= total.isf(q) * (1 - 1e-9))
    assert np.all(total.chernoff(q) < 3 * total.isf(q) + 2 * total.std)


@pytest.mark.parametrize(("weights", "mechanism"), MIXES)
def test_tiny_probabilities(weights, mechanism):
    total = WeightedSum(weights, mechanism)
    q = np.array([1e-9, 1e-12, 1e-16, 1e-20, 1e-50, 1e-150, 1e-300])
    x = total.isf(q)
    assert np.all(np.diff(x) > 0)
    assert np.all(total.logsf(x) <= np.log(q) + 1e-2 + (total.error_bound > 1e-9))
    # the Chernoff bound exceeds the exact quantile by less than a few standard deviations
    assert np.all(x <= total.chernoff(q) * (1 + 1e-9))
    assert np.all(x >= total.chernoff(q) - 6 * total.std)
    assert np.allclose(total.ppf(q), -x, rtol=1e-9, atol=1.0)


def test_chernoff_of_one_laplace():
    # min over s of (log(1/q) - log(1 - s²))/s for scale 1
    s = np.linspace(1e-6, 1 - 1e-6, 2_000_001)
    expected = np.min((-np.log(0.05) - np.log1p(-(s**2))) / s)
    assert WeightedSum([1.0], Laplace(scale=1.0)).chernoff(0.05) == pytest.approx(expected, 1e-6)


@pytest.mark.parametrize(
    "total", [WeightedSum([], Exact()), WeightedSum([0, 2], [Laplace(scale=1.0), Exact()])]
)
def test_no_noise_is_a_point_mass(total):
    assert total.variance == 0
    assert total.sf([-1.0, 0.0, 1.0]).tolist() == [1.0, 0.0, 0.0]
    assert total.cdf([-1.0, 0.0, 1.0]).tolist() == [0.0, 1.0, 1.0]
    assert total.isf([0.0, 0.05, 0.95]).tolist() == [0.0, 0.0, 0.0]
    assert total.ppf([0.0, 0.05, 1.0]).tolist() == [-np.inf, 0.0, 0.0]
    assert total.cf([0.0, 3.0]).tolist() == [1.0, 1.0]
    assert total.rvs(3, rng=1).tolist() == [0, 0, 0]
    assert total.chernoff([0.1]).tolist() == [0.0]
    assert total.is_integer
    assert "no noise" in repr(total)


def test_ends_of_the_probability_scale():
    for weights, mechanism in MIXES:
        total = WeightedSum(weights, mechanism)
        assert total.isf([0.0, 1.0]).tolist() == [np.inf, -np.inf]
        assert total.ppf([0.0, 1.0]).tolist() == [-np.inf, np.inf]
        assert total.sf([-np.inf, np.inf]).tolist() == [1.0, 0.0]
        assert total.cdf([-np.inf, np.inf]).tolist() == [0.0, 1.0]
        assert total.logsf([-np.inf, np.inf]).tolist() == [0.0, -np.inf]


def test_shapes_follow_numpy():
    total = WeightedSum([1, 1], Laplace(scale=1.0))
    assert total.shape == ()
    assert np.ndim(total.sf(0.3)) == 0
    assert total.sf(np.zeros((2, 3))).shape == (2, 3)
    assert total.isf(np.full((2, 1), 0.1)).shape == (2, 1)
    assert total.sf([]).shape == (0,)
    assert total.rvs((2, 3), rng=1).shape == (2, 3)
    assert np.ndim(total.rvs(rng=1)) == 0


def test_integer_sums_draw_integers():
    assert WeightedSum([1, 2], Geometric(scale=1.0)).is_integer
    assert WeightedSum([1, 2], Geometric(scale=1.0)).rvs(4, rng=1).dtype == np.int64
    assert not WeightedSum([1, 0.5], Geometric(scale=1.0)).is_integer
    beyond_int64 = WeightedSum([1e99, -1e99], Geometric(scale=1.0)).rvs(4, rng=1)
    assert np.array_equal(beyond_int64, np.rint(beyond_int64 / 1e99) * 1e99)


def test_repr_names_terms_and_route():
    text = repr(WeightedSum([1, 1, 3], [Laplace(scale=1.0), Laplace(scale=1.0), Gaussian(sigma=1)]))
    assert text == "WeightedSum(2 × Laplace + 1 × Gaussian; by contour integral)"


def test_sums_are_laws_like_any_other():
    inner = WeightedSum([1, 2], Geometric(scale=2.0))
    outer = WeightedSum([2, 1], [inner, Laplace(scale=3.0)])
    flat = WeightedSum([2, 4, 1], [Geometric(scale=2.0), Geometric(scale=2.0), Laplace(scale=3.0)])
    assert outer.sf(5.0) == flat.sf(5.0)
    table = IndependentNoise([inner, Laplace(scale=3.0), inner])
    assert np.array_equal(
        table.isf(0.025), [law.isf(0.025) for law in (inner, Laplace(scale=3.0), inner)]
    )


# ---- many sums at once ----


def test_rows_share_what_they_have_in_common():
    laws = [Laplace(scale=1.0), Laplace(scale=1.0), Geometric(scale=2.0)]
    matrix = np.array(
        [[1, 0, 2], [0, -1, -2], [1, 1, 0], [0, 0, 0], [2, 0, 1], [3 * 0.1, 0, 0], [0, 0.3, 0]]
    )
    sums = weighted_sums(matrix, laws)
    assert sums[0] is sums[1]
    assert sums[5] is sums[6]
    assert len({id(law) for law in sums}) == 5
    for row, law in zip(matrix, sums, strict=True):
        assert law.variance == pytest.approx(WeightedSum(row, laws).variance)
        assert law.sf(0.7) == pytest.approx(WeightedSum(row, laws).sf(0.7), rel=1e-12)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_rows_give_what_dense_rows_give(form):
    drawn = np.random.default_rng(1)
    matrix = np.where(drawn.random((60, 12)) < 0.2, drawn.integers(0, 5, (60, 12)), 0).astype(float)
    mechanism = Geometric(scale=np.repeat([1.0, 3.0], 6))
    dense, thin = weighted_sums(matrix, mechanism), weighted_sums(form(matrix), mechanism)
    assert [law.variance for law in dense] == [law.variance for law in thin]
    assert len({id(law) for law in dense}) == len({id(law) for law in thin})


def test_ten_thousand_rows_make_few_objects():
    matrix = sparse.kron(sparse.eye_array(10_000), np.ones((1, 4)), format="csr")
    assert len({id(law) for law in weighted_sums(matrix, Laplace(scale=2.0))}) == 1


# ---- bad input ----


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, np.nan], "weights must not contain NaN at position 1"),
        ([np.inf], "weights must be finite"),
        ([1e-310, 1.0], "between 1e-100 and 1e\\+100 in size, got 1e-310 at position 0"),
        ([1e200], "rescale"),
        ([[1.0]], "one-dimensional"),
        (3.0, "one-dimensional"),
        ([1j], "real"),
        (["a"], "real numbers"),
        ([None], "real numbers"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(InvalidParameterError, match=message):
        WeightedSum(weights, Laplace(scale=1.0))


@pytest.mark.parametrize(
    "mechanism", [None, 2.0, "Laplace", [Laplace(scale=1.0)], Laplace(scale=[1.0])]
)
def test_bad_mechanisms_are_refused(mechanism):
    with pytest.raises(InvalidParameterError):
        WeightedSum([1.0, 2.0], mechanism)
    with pytest.raises(InvalidParameterError):
        weighted_sums([[1.0, 2.0]], mechanism)


@pytest.mark.parametrize("call", ["cdf", "isf", "chernoff", "cf"])
def test_nan_arguments_are_refused(call):
    with pytest.raises(DPInferError):
        getattr(WeightedSum([1.0, 2.0], Laplace(scale=1.0)), call)([0.1, np.nan])


@pytest.mark.parametrize(
    ("weights", "law", "message"),
    [
        ([90.0], Laplace(scale=1e100), r"scale must be <= 1e\+100"),
        ([1e100, 1.0], Gaussian(sigma=1e100), r"sigma must be <= 1e\+100"),
        ([1e-3], Gaussian(sigma=1e-100), "sigma must be >= 1e-100"),
    ],
)
def test_noise_that_leaves_the_range_of_its_law_is_refused(weights, law, message):
    with pytest.raises(InvalidParameterError, match=f"^weights must keep the noise .*: {message}"):
        WeightedSum(weights, law)
    with pytest.raises(InvalidParameterError, match=r"^weights must keep the noise"):
        weighted_sums([weights], law)


X = np.array([0.0, 0.3, 1.0, -2.5, 7.0, 20.0])


def by_quadrature(law, x):
    """The density, from the characteristic function."""
    if x == 0.0:
        return integrate.quad(lambda t: float(law.cf(t)) / np.pi, 0, np.inf, epsabs=1e-12)[0]
    options = {"weight": "cos", "wvar": x, "epsabs": 1e-12}
    return integrate.quad(lambda t: float(law.cf(t)) / np.pi, 0, np.inf, **options)[0]


@pytest.mark.parametrize(
    ("weights", "laws"),
    [
        ([-3.0], [Laplace(scale=2.0)]),
        ([1, 1, 1], [Laplace(scale=2.0)] * 3),
        ([1, 2, -0.5], [Laplace(scale=1.0), Gaussian(sigma=0.5), Laplace(scale=3.0)]),
        ([1, -1], [Geometric(scale=2.0), Gaussian(sigma=3.0)]),
        ([2, 1], [Tulap(scale=1.0), Gaussian(sigma=2.0)]),
    ],
)
def test_densities(weights, laws):
    total = WeightedSum(weights, laws)
    expected = [by_quadrature(total, abs(x)) for x in X[:4]]
    np.testing.assert_allclose(total.pdf(X[:4]), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.exp(total.logpdf(X)), total.pdf(X), rtol=1e-12)
    # and the distribution function by Gauss's rule on 400 panels
    nodes, shares = np.polynomial.legendre.leggauss(10)
    edges = np.linspace(-5.0, 7.0, 401)
    half = 0.5 * np.diff(edges)
    points = (edges[:-1] + half)[:, None] + half[:, None] * nodes
    mass = (total.pdf(points) @ shares) @ half
    assert mass == pytest.approx(total.cdf(7.0) - total.cdf(-5.0), abs=1e-6)
    assert total.pdf([np.inf, -np.inf]).tolist() == [0.0, 0.0]


def test_densities_of_a_lattice_and_a_narrow_noise():
    """Atoms with a density of their own: a sum over the whole numbers."""
    whole, narrow = Geometric(scale=5e4), Laplace(scale=0.3)
    total = WeightedSum([1, 1], [whole, narrow])
    k = np.arange(-60.0, 61.0)
    for x in (0.0, 0.4, 1234.5, -3.0):
        middle = np.floor(x)
        expected = whole.pmf(middle + k) @ narrow.pdf(x - middle - k)
        assert total.pdf(x) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("weights", "laws"),
    [
        ([1.5], [Geometric(scale=3.0)]),
        ([1, 1, 1], [Geometric(scale=1.0)] * 3),
        ([1, 2], [Geometric(scale=1.0), DiscreteGaussian(sigma=2.0)]),
        ([1, 2**0.5], [Geometric(scale=1.0), DiscreteGaussian(sigma=2.0)]),
        ([1, 2**0.5, np.pi], [Geometric(scale=0.5)] * 3),
        ([1, 3, 7], [DiscreteGaussian(sigma=1.0)] * 3),
    ],
)
def test_probabilities_of_atoms_and_moments(weights, laws):
    """Against lists of all values."""
    total = WeightedSum(weights, laws)
    values, chances = np.zeros(1), np.ones(1)
    for weight, law in zip(weights, laws, strict=True):
        k = np.arange(-40.0, 41.0) if len(laws) > 1 else np.arange(-200.0, 201.0)
        values = np.add.outer(values, weight * k).ravel()
        chances = np.multiply.outer(chances, law.pmf(k)).ravel()
    points = np.unique(np.round(values[chances > 1e-8], 9))[::37]
    expected = [chances[np.abs(values - x) < 1e-8].sum() for x in points]
    atoms = [values[np.argmin(np.abs(values - x))] for x in points]
    np.testing.assert_allclose(total.pmf(atoms), expected, rtol=1e-9, atol=1e-16)
    np.testing.assert_allclose(np.exp(total.logpmf(atoms)), expected, rtol=1e-9, atol=1e-16)
    assert total.pmf([0.123, np.inf]).tolist() == [0.0, 0.0]
    mean, variance, skewness, kurtosis = total.stats("mvsk")
    assert (mean, skewness) == (0.0, 0.0)
    assert variance == pytest.approx(chances @ values**2, rel=1e-10)
    assert kurtosis == pytest.approx((chances @ values**4) / variance**2 - 3.0, abs=1e-7)
    assert as_frozen(total).stats("k") == kurtosis
    assert as_frozen(total, loc=2.0).pmf(2.0 + atoms[0]) == pytest.approx(expected[0], rel=1e-9)


def test_wide_lattices_by_their_contour():
    total = WeightedSum([1, 1, 1], Geometric(scale=2e4))
    k = np.array([0.0, 7.0, -5e4, 3e5])
    difference = total.sf(np.abs(k) - 1.0) - total.sf(np.abs(k))
    np.testing.assert_allclose(total.pmf(k), difference, rtol=0, atol=4e-12)
    # the density of three Laplace noises, the same but for the lattice
    smooth = WeightedSum([1, 1, 1], Laplace(scale=2e4))
    np.testing.assert_allclose(total.pmf(k), smooth.pdf(k), rtol=1e-8)


def test_probabilities_far_smaller_than_tails():
    """One of two noises is so wide that its atoms are rounding beside its tails."""
    wide, narrow = Geometric(scale=1e12), Geometric(scale=2.0)
    k = np.arange(-60.0, 61.0)
    for weight in (1.0, 2.0**0.5):
        total = WeightedSum([1.0, weight], [narrow, wide])
        # atoms that are the same for both, where the lattice is one
        expected = narrow.pmf(k) @ wide.pmf(3.0 - k) if weight == 1.0 else wide.pmf(0.0)
        expected *= 1.0 if weight == 1.0 else narrow.pmf(3.0)
        assert total.pmf(3.0) == pytest.approx(expected, rel=1e-10)


def test_moments_of_each_kind_of_noise():
    tulap = WeightedSum([1, 1], [Tulap(scale=2.0), Tulap(scale=2.0, truncation=0.05)])
    draws = tulap.rvs(400_000, rng=5)
    sixth = np.mean(draws**8) / tulap.variance**4
    found = np.mean(draws**4) / tulap.variance**2 - 3.0
    # 6.5 standard deviations
    assert abs(found - tulap.stats("k")) < 6.5 * np.sqrt(sixth / draws.size)
    assert WeightedSum([1, 2], Laplace(scale=1.0)).stats("k") == pytest.approx(
        3.0 * (1.0 + 2.0**4) / (1.0 + 2.0**2) ** 2, rel=1e-12
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WeightedSum([1], Geometric(scale=1.0)).pdf(0.0), "pdf must be of a law with a"),
        (lambda: WeightedSum([1], Laplace(scale=1.0)).pmf(0.0), "pmf must be of a law of atoms"),
        (lambda: WeightedSum(*MIXES[-1]).pmf(0.0), "pmf must be of a law that is not known by its"),
        (
            lambda: WeightedSum([1, 1, 1], [*[Tulap(scale=1.0)] * 2, Laplace(scale=1.0)]).pdf(0.0),
            "by its Fourier series only",
        ),
        (lambda: WeightedSum([0], Laplace(scale=1.0)).stats("k"), "a sum without noise"),
        (lambda: WeightedSum([1], Laplace(scale=1.0)).stats("w"), "moments must be letters"),
        (lambda: WeightedSum([1], Laplace(scale=1.0)).pdf(np.nan), "x must not contain NaN"),
    ],
)
def test_what_has_no_density_or_atoms_or_moments(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_no_noise_is_an_atom():
    nothing = WeightedSum([0.0], Laplace(scale=1.0))
    assert nothing.pmf([0.0, 1.0]).tolist() == [1.0, 0.0]
    assert [float(x) for x in nothing.stats("mv")] == [0.0, 0.0]
