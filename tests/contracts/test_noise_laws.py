"""One contract for every law of additive noise."""

import copy
import importlib
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    NoiseLaw,
    Rounded,
    Tulap,
)

# the law that the documentation adds to the package
sys.path.append(str(Path(__file__).parents[2] / "vignettes" / "examples"))
Logistic = importlib.import_module("logistic").Logistic

CONTINUOUS = [
    Laplace(scale=0.02),
    Laplace(scale=3.0),
    Gaussian(sigma=0.5),
    Gaussian(sigma=1e6),
    Tulap(scale=0.1),
    Tulap(scale=2.5),
    Tulap(scale=2.5, truncation=1e-6),
    Tulap(scale=2.5, truncation=0.5),
    Tulap(scale=1e6, truncation=0.99999),
    Logistic(scale=0.02),
    Logistic(scale=3.0),
]
INTEGER = [
    Exact(),
    Geometric(scale=0.2),
    Geometric(scale=2.0),
    Geometric(scale=300.0),
    DiscreteGaussian(sigma=0.3),
    DiscreteGaussian(sigma=0.5),
    DiscreteGaussian(sigma=3.0),
    DiscreteGaussian(sigma=400.0),
    Rounded(Laplace(scale=0.2)),
    Rounded(Laplace(scale=50.0)),
    Rounded(Gaussian(sigma=0.4)),
    Rounded(Gaussian(sigma=30.0)),
    Rounded(Tulap(scale=2.0)),
    Rounded(Tulap(scale=2.5, truncation=0.1)),
]
SCALAR = CONTINUOUS + INTEGER
ARRAYS = [
    Laplace(scale=[0.5, 2.0, 1e6]),
    Logistic(scale=[0.5, 2.0, 1e6]),
    Gaussian(sigma=[0.5, 2.0, 1e6]),
    Geometric(scale=[0.3, 5.0, 1e5]),
    DiscreteGaussian(sigma=[0.3, 5.0, 1e5]),
    Tulap(scale=[0.3, 5.0, 1e3], truncation=[0.0, 0.1, 0.9]),
    Tulap(scale=2.0, truncation=[0.0, 0.5, 0.99]),
    Rounded(Laplace(scale=[0.3, 5.0, 1e5])),
    Rounded(Gaussian(sigma=[0.3, 5.0, 1e5])),
    Rounded(Tulap(scale=[0.3, 5.0, 1e3], truncation=[0.0, 0.1, 0.9])),
]
MIXED = IndependentNoise([Laplace(scale=2.0), Exact(), Geometric(scale=[1.0, 3.0])])
ALL = [*SCALAR, *ARRAYS, MIXED]
FAMILIES = [
    (Laplace, "scale"),
    (Gaussian, "sigma"),
    (Geometric, "scale"),
    (DiscreteGaussian, "sigma"),
    (Tulap, "scale"),
    (Logistic, "scale"),
]
PROBABILITIES = np.array([1e-300, 1e-30, 1e-9, 0.01, 0.3, 0.4999, 0.5, 0.5001, 0.7, 0.99])

each_law = pytest.mark.parametrize("law", SCALAR, ids=str)
each_integer_law = pytest.mark.parametrize("law", INTEGER, ids=str)
each_continuous_law = pytest.mark.parametrize("law", CONTINUOUS, ids=str)


def grid(law: NoiseLaw) -> np.ndarray:
    """Points over the whole support, beyond it, and at both infinities."""
    spread = max(law.std, 1.0)
    points = np.concatenate([np.linspace(-45, 45, 181), [-np.inf, np.inf, 1e300, -1e300]]) * spread
    return np.sort(np.round(points) if law.is_integer else points)


def panels(law: NoiseLaw) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights over the support, on pieces where the density is smooth."""
    reach = min(45.0 * law.std, law.isf(0.0))
    edges = np.linspace(0.0, reach, 400)
    if isinstance(law, Tulap) and reach < 1000:
        edges = np.unique(np.append(np.arange(0.5, reach), [0.0, reach]))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(edges)[:, None]
    x, w = (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()
    return np.concatenate([-x, x]), np.concatenate([w, w])


@each_integer_law
def test_pmf_normalises_and_is_the_step_of_the_tail(law):
    reach = int(law.isf(1e-17)) + 1
    k = np.arange(-reach, reach + 1.0)
    assert law.pmf(k).sum() + 2 * law.sf(reach) == pytest.approx(1.0, abs=1e-13)
    upper = k[k >= 0]
    np.testing.assert_allclose(
        law.sf(upper - 1) - law.sf(upper), law.pmf(upper), atol=1e-15, rtol=1e-12
    )
    np.testing.assert_allclose((law.pmf(k) * k**2).sum(), law.variance, rtol=1e-12)
    np.testing.assert_array_equal(law.pmf([0.5, -0.5, np.inf, -np.inf]), 0.0)
    np.testing.assert_array_equal(law.logpmf([0.5, np.inf]), -np.inf)


@each_continuous_law
def test_density_normalises_and_has_the_variance(law):
    x, w = panels(law)
    # the pieces resolve every density but the unit steps of a wide Tulap: those have small steps
    rtol = 1e-6 if isinstance(law, Tulap) and law.scale > 1000 else 1e-11
    assert w @ law.pdf(x) == pytest.approx(1.0, rel=rtol)
    assert w @ (law.pdf(x) * x**2) == pytest.approx(law.variance, rel=rtol)
    np.testing.assert_allclose(np.exp(law.logpdf(x)), law.pdf(x), rtol=1e-12)


@each_law
def test_std_is_the_root_of_the_variance(law):
    assert law.std**2 == pytest.approx(law.variance, rel=1e-14)


@each_law
def test_cdf_and_tail_are_complementary_monotone_and_symmetric(law):
    x = grid(law)
    cdf, sf = law.cdf(x), law.sf(x)
    np.testing.assert_allclose(cdf + sf, 1.0, rtol=1e-15)
    assert (np.diff(cdf) >= 0).all()
    assert (np.diff(sf) <= 0).all()
    step = 1.0 if law.is_integer else 0.0
    np.testing.assert_array_equal(law.cdf(-x - step), sf)
    assert (law.cdf(-np.inf), law.cdf(np.inf)) == (0.0, 1.0)


@each_law
def test_log_tails_are_the_logarithms_of_the_tails(law):
    x = grid(law)
    for tail, logtail in ((law.sf(x), law.logsf(x)), (law.cdf(x), law.logcdf(x))):
        normal = tail > 1e-300
        np.testing.assert_allclose(np.exp(logtail[normal]), tail[normal], rtol=1e-12, atol=0)
        assert not np.isnan(logtail).any()
        assert (logtail[~normal] < -690).all()


@each_integer_law
def test_integer_quantiles_are_the_smallest_points_that_qualify(law):
    q = PROBABILITIES
    k = law.isf(q)
    assert (law.sf(k) <= q).all()
    assert (law.sf(k - 1) > q).all()
    k = law.ppf(q)
    assert (law.cdf(k) >= q).all()
    assert (law.cdf(k - 1) < q).all()


@each_integer_law
def test_integer_quantiles_invert_the_rounded_probabilities(law):
    small = np.arange(0.0, law.isf(1e-100) + 1)
    np.testing.assert_array_equal(law.isf(law.sf(small)), small)
    np.testing.assert_array_equal(law.ppf(law.cdf(-small)), -small)
    # on the other side of the median a float tells neighbours apart where their cdf differs
    resolved = np.arange(1.0, law.isf(1e-14) + 1)
    resolved = resolved[np.minimum(law.pmf(resolved), law.sf(resolved)) > 1e-15]
    np.testing.assert_array_equal(law.ppf(law.cdf(resolved)), resolved)
    np.testing.assert_array_equal(law.isf(law.sf(-resolved)), -resolved)


@each_continuous_law
def test_continuous_quantiles_invert(law):
    q = PROBABILITIES
    x = law.isf(q)
    # closer to the end of a truncated support than its rounding error the tail is ill-conditioned
    well = (x < law.isf(0.0) * (1 - 1e-9)) | (law.isf(0.0) == np.inf)
    slope = 1e-14 * np.abs(x) * law.pdf(x)
    np.testing.assert_array_less(np.abs(law.sf(x) - q)[well], (slope + 1e-12 * q)[well])
    np.testing.assert_array_equal(law.ppf(q), -x)


@each_law
def test_quantiles_at_the_ends(law):
    top = law.isf(0.0)
    assert law.sf(top) == 0.0
    assert law.ppf(1.0) == top
    assert law.ppf(0.0) == law.isf(1.0)
    assert law.ppf(0.0) in (-np.inf, -top)
    assert law.ppf(0.5) == law.isf(0.5) == 0.0


@each_law
def test_characteristic_function_is_the_transform_of_the_law(law):
    t = np.array([0.0, 0.01, 0.4, 1.5, -3.0, 7.0]) / max(law.std, 0.5)
    if law.is_integer:
        k = np.arange(1.0, law.isf(1e-18) + 2)
        brute = law.pmf(0) + 2 * np.cos(np.outer(t, k)) @ law.pmf(k)
    else:
        x, w = panels(law)
        brute = np.cos(np.outer(t, x)) @ (w * law.pdf(x))
    atol = 1e-6 if isinstance(law, Tulap) and law.scale > 1000 else 1e-12
    np.testing.assert_allclose(law.cf(t), brute, atol=atol)


@each_law
def test_cumulant_function_continues_the_characteristic_function(law):
    t = np.array([0.0, 0.01, 0.4, 1.5, -3.0, 7.0]) / max(law.std, 0.5)
    values = np.exp(law._cgf(1j * t))
    np.testing.assert_allclose(values, law.cf(t), rtol=1e-12, atol=1e-15)


@each_law
def test_cumulant_function_is_the_log_of_the_moment_generating_function(law):
    reach = min(float(law._abscissa), 4.0 / max(law.std, 0.5))
    s = np.array([0.0, 0.1, -0.5, 0.9]) * reach
    if law.is_integer:
        k = np.arange(0.0, 800 * max(law.std, 1.0) + 60)
        weights = np.exp(law.logpmf(k) + np.outer(s, k)) + np.exp(law.logpmf(k) - np.outer(s, k))
        brute = weights.sum(axis=1) - law.pmf(0)
    elif isinstance(law, Gaussian):
        brute = np.exp(0.5 * (s * law.sigma) ** 2)
    elif isinstance(law, Laplace):
        brute = 1 / (1 - (s * law.scale) ** 2)
    else:
        x, w = panels(law)
        s = s[:3]
        brute = np.exp(np.outer(s, x)) @ (w * law.pdf(x))
    rtol = 1e-6 if isinstance(law, Tulap) and law.scale > 1000 else 1e-9
    np.testing.assert_allclose(np.exp(law._cgf(s.astype(complex))).real, brute, rtol=rtol)


@pytest.mark.parametrize("size", [20_000, 200_000])
@each_law
def test_draws_follow_the_cdf(law, size):
    draws = law.rvs(size, rng=20)
    assert draws.dtype == (np.int64 if law.is_integer else np.float64)
    x, counts = np.unique(draws, return_counts=True)
    below = np.cumsum(counts) / size
    # Dvoretzky-Kiefer-Wolfowitz-Massart: fails by accident with probability 1e-9
    bound = np.sqrt(np.log(2e9) / (2 * size))
    assert np.abs(below - law.cdf(x)).max() <= bound
    assert np.abs(1 - below + counts / size - law.sf(x - 1) if law.is_integer else 0).max() <= bound


@pytest.mark.parametrize("law", [*ARRAYS, MIXED], ids=str)
def test_arrays_of_parameters_hold_one_law_for_each_cell(law):
    m = law.shape[0]
    cells = [law.take(i) for i in range(m)]
    assert all(cell.shape == () for cell in cells)
    x = np.array([[-2.0], [0.0], [1.0], [7.0]])
    q = np.array([[0.01], [0.4], [0.6]])
    for method, argument in (("cdf", x), ("sf", x), ("logcdf", x), ("logsf", x), ("cf", x)):
        expected = np.hstack([getattr(cell, method)(argument) for cell in cells])
        np.testing.assert_array_equal(getattr(law, method)(argument + np.zeros(m)), expected)
    for method in ("ppf", "isf"):
        expected = np.hstack([getattr(cell, method)(q) for cell in cells])
        np.testing.assert_array_equal(getattr(law, method)(q + np.zeros(m)), expected)
    np.testing.assert_array_equal(law.variance, [cell.variance for cell in cells])
    np.testing.assert_array_equal(law.std, [cell.std for cell in cells])


@pytest.mark.parametrize("law", ARRAYS, ids=str)
def test_array_draws_have_the_variance_of_each_cell(law):
    draws = law.rvs((40_000, 3), rng=5)
    z = (draws / law.std) ** 2
    # six standard errors of the mean of z, whose kurtosis is at most that of a Laplace-like law:
    # fails by accident with probability below 1e-8
    np.testing.assert_array_less(np.abs(z.mean(axis=0) - 1), 6 * z.std(axis=0) / np.sqrt(40_000))
    assert law.rvs(rng=1).shape == (3,)


@pytest.mark.parametrize("law", ARRAYS, ids=str)
def test_parameters_broadcast_against_the_argument(law):
    assert law.sf(np.zeros((5, 1))).shape == (5, 3)
    assert law.isf(np.full((2, 1), 0.1)).shape == (2, 3)
    assert law.cf(np.zeros((2, 3))).shape == (2, 3)
    assert law.take([0, 2]).shape == (2,)
    np.testing.assert_array_equal(law.take(slice(1, 3)).variance, law.variance[1:])
    with pytest.raises(InvalidParameterError, match="broadcast"):
        law.sf(np.zeros(4))
    with pytest.raises(InvalidParameterError, match="broadcast"):
        law.ppf([0.1, 0.2])
    with pytest.raises(InvalidParameterError, match="size"):
        law.rvs((3, 1), rng=0)
    with pytest.raises(InvalidParameterError, match="size"):
        law.rvs(4, rng=0)


@each_law
def test_scalars_give_scalars_and_empty_gives_empty(law):
    for value in (law.cdf(1), law.sf(0.5), law.isf(0.1), law.cf(1.0), law.variance, law.rvs(rng=1)):
        assert np.ndim(value) == 0
        assert not isinstance(value, np.ndarray)
    assert law.sf([]).shape == (0,)
    assert law.isf([]).shape == (0,)
    assert law.rvs(0, rng=1).shape == (0,)
    assert law.rvs((2, 0, 3), rng=1).shape == (2, 0, 3)


@each_law
def test_equal_seeds_give_equal_draws(law):
    np.testing.assert_array_equal(law.rvs((7, 11), rng=3), law.rvs((7, 11), rng=3))
    np.testing.assert_array_equal(
        law.rvs(70_000, rng=3), law.rvs(70_000, rng=np.random.default_rng(3))
    )


@pytest.mark.parametrize("law", [*SCALAR, *ARRAYS], ids=str)
def test_laws_are_values(law):
    law.variance, law.sf(0.5)
    for twin in (pickle.loads(pickle.dumps(law)), copy.deepcopy(law)):
        assert twin == law
        assert hash(twin) == hash(law)
        np.testing.assert_array_equal(twin.sf(1.0), law.sf(1.0))
    assert law != Laplace(scale=0.123)
    assert law != "a law"
    with pytest.raises(AttributeError):
        law.scale = 3.0


def test_equal_parameters_of_different_kinds_are_different_laws():
    laws = {Laplace(scale=2.0), Geometric(scale=2.0), Tulap(scale=2.0), Laplace(scale=[2.0])}
    assert len(laws) == 4
    assert Laplace(scale=2) == Laplace(scale=2.0)


@pytest.mark.parametrize(
    "value", [0, -1.0, np.nan, np.inf, 1j, "2", None, 1e-101, 1e101, [1.0, -2.0], [[1], [2, 3]]]
)
@pytest.mark.parametrize(("family", "field"), FAMILIES)
def test_bad_parameters_are_refused(family, field, value):
    with pytest.raises(InvalidParameterError, match=field):
        family(**{field: value})


@pytest.mark.parametrize("value", [-0.1, 1.0, np.nan])
def test_bad_truncation_is_refused(value):
    with pytest.raises(InvalidParameterError, match="truncation"):
        Tulap(scale=1.0, truncation=value)
    with pytest.raises(InvalidParameterError, match="truncation"):
        Tulap(scale=[1.0, 2.0], truncation=[0.1, 0.2, 0.3])


@pytest.mark.parametrize("law", ALL, ids=str)
def test_bad_arguments_are_refused(law):
    for method in ("cdf", "sf", "logcdf", "logsf", "cf"):
        for value in (np.nan, 1j, "a", None):
            with pytest.raises(InvalidParameterError):
                getattr(law, method)(value)
    for method in ("ppf", "isf"):
        for value in (np.nan, -0.1, 1.1, 1j):
            with pytest.raises(InvalidParameterError, match="q must"):
                getattr(law, method)(value)
    with pytest.raises(InvalidParameterError, match="rng"):
        law.rvs(rng="seed")
    with pytest.raises(InvalidParameterError, match="size"):
        law.rvs(-1, rng=0)


scales = st.floats(1e-3, 1e9)
anywhere = st.floats(allow_nan=False)
fuzz = settings(derandomize=True, deadline=None, max_examples=150)


@fuzz
@given(family=st.sampled_from(FAMILIES), scale=scales, x=anywhere, q=st.floats(0, 1))
def test_fuzz_gives_probabilities_and_quantiles(family, scale, x, q):
    law = family[0](**{family[1]: scale})
    cdf, sf = law.cdf(x), law.sf(x)
    assert 0 <= cdf <= 1
    assert 0 <= sf <= 1
    assert cdf + sf == pytest.approx(1.0, rel=1e-15)
    assert law.logsf(x) <= 0
    assert law.logcdf(x) <= 0
    assert not np.isnan(law.isf(q))
    x = law.isf(q)
    beside = 0.0 if law.is_integer or np.isinf(x) else 1e-9 * (scale + abs(x))
    assert law.sf(x + beside) <= q * (1 + 1e-9)
    assert -1e-15 <= law.cf(min(max(x, -1e6), 1e6)) + 1 <= 2
    density = law.logpmf if law.is_integer else law.logpdf
    assert not np.isnan(density(x))


@fuzz
@given(scale=scales, truncation=st.floats(0, 1 - 1e-9), x=anywhere, q=st.floats(0, 1))
def test_fuzz_truncated_tulap(scale, truncation, x, q):
    law = Tulap(scale=scale, truncation=truncation)
    assert 0 <= law.sf(x) <= 1
    assert law.cdf(x) + law.sf(x) == pytest.approx(1.0, rel=1e-15)
    assert abs(law.isf(q)) <= law.isf(0.0)
    assert 0 < law.variance <= law.isf(0.0) ** 2
    assert abs(law.cf(min(max(x, -1e6), 1e6))) <= 1 + 1e-12
