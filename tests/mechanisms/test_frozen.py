import inspect

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InvalidParameterError
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
)

PAIRS = {
    "laplace": (Laplace(scale=2.5), stats.laplace(scale=2.5)),
    "gaussian": (Gaussian(sigma=0.3), stats.norm(scale=0.3)),
    "geometric": (Geometric(scale=2.5), stats.dlaplace(1 / 2.5)),
    "narrow": (Geometric(scale=0.2), stats.dlaplace(5.0)),
}
Q = np.array([1e-12, 0.01, 0.3, 0.5, 0.77, 0.999])
X = np.array([-7.5, -2.0, -0.4, 0.0, 1.0, 3.0, 12.2])


@pytest.mark.parametrize("loc", [0, 3])
@pytest.mark.parametrize("name", PAIRS)
def test_it_answers_as_scipy_does(name, loc):
    law, theirs = PAIRS[name]
    mine, theirs = as_frozen(law, loc=loc), theirs.dist(*theirs.args, **theirs.kwds, loc=loc)
    for method in ("cdf", "sf", "logcdf", "logsf"):
        wanted = getattr(theirs, method)(X)
        held = np.isfinite(wanted)  # the logarithms of scipy underflow in the tails of dlaplace
        found = getattr(mine, method)(X)
        np.testing.assert_allclose(found[held], wanted[held], rtol=1e-9, atol=1e-13)
    for method in ("ppf", "isf"):
        wanted = getattr(theirs, method)(Q)
        np.testing.assert_allclose(getattr(mine, method)(Q), wanted, rtol=1e-10, atol=1e-12)
    mass = ("pmf", "logpmf") if law.is_integer else ("pdf", "logpdf")
    points = np.round(X) if law.is_integer else X
    for method in mass:
        wanted = getattr(theirs, method)(points)
        np.testing.assert_allclose(getattr(mine, method)(points), wanted, rtol=1e-10)
    for method in ("mean", "median", "var", "std", "entropy"):
        wanted = float(getattr(theirs, method)())
        assert getattr(mine, method)() == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(mine.stats("mvsk"), theirs.stats("mvsk"), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mine.interval(0.9), theirs.interval(0.9), rtol=1e-12)
    assert mine.support() == theirs.support()


@pytest.mark.parametrize("name", PAIRS)
def test_it_has_the_arguments_of_scipy(name):
    law, theirs = PAIRS[name]
    mine = as_frozen(law)
    for method in ("cdf", "sf", "ppf", "isf", "rvs", "stats", "interval", "entropy", "support"):
        own = list(inspect.signature(getattr(mine, method)).parameters)
        assert own == list(inspect.signature(getattr(theirs, method)).parameters), method


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 3.9, 4.0, 1e6])
def test_the_shape_of_discrete_gaussian_noise(sigma):
    law = as_frozen(DiscreteGaussian(sigma=sigma))
    if sigma > 100:
        assert law.entropy() == pytest.approx(stats.norm(scale=sigma).entropy(), rel=1e-12)
        assert law.stats("k") == 0
        return
    k = np.arange(-200.0, 201.0)
    p = np.exp(-0.5 * (k / sigma) ** 2)
    p /= p.sum()
    kurtosis = (p @ k**4) / (p @ k**2) ** 2 - 3
    assert law.stats("k") == pytest.approx(kurtosis, rel=1e-9, abs=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(p > 0, p * np.log(p), 0).sum()
    if sigma > 0.1:  # below, log(1 - tiny) is lost in this sum
        assert law.entropy() == pytest.approx(entropy, rel=1e-9)


def test_draws():
    law = as_frozen(Geometric(scale=2.0), loc=10)
    assert law.rvs(size=(2, 3), random_state=1).shape == (2, 3)
    assert law.rvs(size=3, random_state=1).dtype == np.int64
    assert np.ndim(law.rvs(random_state=1)) == 0
    np.testing.assert_array_equal(law.rvs(5, 7), 10 + Geometric(scale=2.0).rvs(5, rng=7))
    generator = np.random.default_rng(7)
    np.testing.assert_array_equal(law.rvs(5, generator), law.rvs(5, 7))
    legacy = [law.rvs(5, np.random.RandomState(3)) for _ in range(2)]
    np.testing.assert_array_equal(*legacy)
    assert as_frozen(Geometric(scale=2.0), loc=0.5).rvs(random_state=1) % 1 == 0.5


@pytest.mark.parametrize("loc", [2.0**53 + 2, 1e300])
def test_draws_do_not_leave_the_whole_numbers_of_int64(loc):
    draws = as_frozen(Geometric(scale=2.0), loc=loc).rvs(5, 7)
    np.testing.assert_array_equal(draws, loc + Geometric(scale=2.0).rvs(5, rng=7))
    assert draws.dtype == np.float64


def test_places_at_the_ends_of_the_floats():
    largest = np.finfo(float).max
    law = as_frozen(Laplace(scale=1e100), loc=-largest)
    assert (law.cdf(largest), law.sf(largest)) == (1.0, 0.0)
    assert law.ppf(0.0) == -np.inf


def test_scipy_takes_it():
    law = Laplace(scale=2.0)
    draws = law.rvs(2000, rng=3)
    # of a true hypothesis: fails by accident with probability 1e-9
    assert stats.kstest(draws, as_frozen(law).cdf).pvalue > 1e-9
    assert stats.kstest(draws + 1, as_frozen(law).cdf).pvalue < 1e-9


def test_arrays_of_parameters_and_places():
    law = as_frozen(Laplace(scale=[1.0, 2.0]), loc=[[0.0], [5.0], [6.0]])
    assert law.mean().shape == law.var().shape == law.entropy().shape == (3, 2)
    assert law.ppf(0.9).shape == law.cdf(1.0).shape == law.rvs(random_state=1).shape == (3, 2)
    assert law.stats("k").shape == (3, 2)
    np.testing.assert_allclose(law.pdf(5.0)[1], [0.5, 0.25])


def test_laws_without_a_density():
    mixed = IndependentNoise([Laplace(scale=1.0), Geometric(scale=2.0)])
    total = WeightedSum([1.0, 1.0], Laplace(scale=1.0))
    for law in (mixed, total, Tulap(scale=1.0)):
        frozen = as_frozen(law)
        np.testing.assert_array_equal(frozen.cdf(1.0), law.cdf(1.0))
        np.testing.assert_array_equal(frozen.var(), law.variance)
        with pytest.raises(InvalidParameterError, match="known entropy"):
            frozen.entropy()
    assert as_frozen(total, loc=3.0).pdf(3.0) == total.pdf(0.0)
    assert not hasattr(as_frozen(total), "pmf")
    assert not hasattr(as_frozen(Laplace(scale=1.0)), "pmf")
    exact = as_frozen(Exact(), loc=4)
    assert (exact.mean(), exact.var(), exact.entropy(), exact.pmf(4)) == (4, 0, 0, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda law: as_frozen(3), "law must be a NoiseLaw"),
        (lambda law: as_frozen(Laplace(scale=1.0), loc=np.nan), "loc must not contain NaN"),
        (lambda law: as_frozen(Laplace(scale=[1.0, 2.0]), loc=[1, 2, 3]), "broadcast"),
        (lambda law: law.cdf(np.nan), "x must not contain NaN"),
        (lambda law: law.pdf("a"), "x must hold real"),
        (lambda law: law.ppf(2), "q must be <= 1"),
        (lambda law: law.interval(1.5), "confidence must be <= 1"),
        (lambda law: law.stats("mx"), "moments must be letters"),
        (lambda law: law.stats(3), "moments must be letters"),
        (lambda law: law.rvs(-1), "size must be >= 0"),
        (lambda law: law.rvs(1, "a"), "rng must be"),
        (lambda law: as_frozen(Exact()).stats("k"), "known kurtosis"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(as_frozen(Laplace(scale=1.0)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda law: law.ppf([0.1, 0.2]), "shapes of law and loc must broadcast"),
        (lambda law: law.isf([0.1, 0.2]), "shapes of law and loc must broadcast"),
        (lambda law: law.interval([0.1, 0.2]), "shapes of law and loc must broadcast"),
        (lambda law: law.cdf([1.0, 2.0]), "shapes of x and loc must broadcast"),
        (lambda law: law.rvs(2), "shapes of law and size must broadcast"),
        (lambda law: law.rvs(1), r"size must be a shape .* of shape \(3,\), broadcast, got \(1,\)"),
        (lambda law: law.rvs((3, 1)), "size must be a shape"),
    ],
)
def test_shapes_that_do_not_fit_the_places(call, message):
    for noise in (Laplace(scale=1.0), Geometric(scale=1.0)):
        with pytest.raises(InvalidParameterError, match=message):
            call(as_frozen(noise, loc=[1.0, 2.0, 3.0]))
