import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import DPInferError, InvalidParameterError, NotEstimableError
from dpinfer.intervals import count_confint, count_posterior, empirical_prior
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)
from dpinfer.priors.counts import (
    CountPrior,
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)

NOISES = [
    Laplace(scale=0.05),
    Laplace(scale=2.3),
    Laplace(scale=30.0),
    Geometric(scale=2.3),
    Gaussian(sigma=0.1),
    Gaussian(sigma=4.0),
    DiscreteGaussian(sigma=4.0),
    Tulap(scale=2.0),
    Tulap(scale=2.0, truncation=0.001),
    Exact(),
]
BUMPS = np.r_[np.ones(20), np.zeros(5), 2 * np.ones(1000), 7.0]


def negative_binomial(dispersion):
    size = 1 / dispersion
    return lambda k: stats.nbinom.logpmf(k, size, size / (size + 20.0))


def table(k):
    inside = (k >= 0) & (k < BUMPS.size)
    with np.errstate(divide="ignore"):
        values = np.log(BUMPS[np.where(inside, k, 0).astype(int)] / BUMPS.sum())
    return np.where(inside, values, -np.inf)


PRIORS = {
    "flat": (FlatPrior(), np.zeros_like),
    "Poisson": (PoissonPrior(20.0), lambda k: stats.poisson.logpmf(k, 20.0)),
    "nb 0.3": (NegativeBinomialPrior(20.0, 0.3), negative_binomial(0.3)),
    "nb 1": (NegativeBinomialPrior(20.0, 1.0), negative_binomial(1.0)),
    "nb 8": (NegativeBinomialPrior(20.0, 8.0), negative_binomial(8.0)),
    "table": (TablePrior(BUMPS), table),
    "function": (FunctionPrior(lambda k: -2 * np.log1p(k)), lambda k: -2 * np.log1p(k)),
}


class OwnPrior(CountPrior):
    """A prior that the package does not know."""

    description = "of one's own"


def by_sums(y, noise, logprior, k):
    """Prior times likelihood at all k, with the logarithm of their sum."""
    density = noise.logpmf if noise.is_integer else noise.logpdf
    logarithm = logprior(k) + density(y - k)
    weight = np.exp(logarithm - logarithm.max())
    return weight / weight.sum(), np.log(weight.sum()) + logarithm.max()


def values_for(noise):
    values = np.array([0.0, 3.0, 17.0, 60.0, 400.0, 2.5, 17.25, 18.5, -1.0, -30.0, -500.0])
    if noise.is_integer:
        values = values[values == np.floor(values)]
    if isinstance(noise, Tulap):  # its density jumps at the halves
        values = values[np.mod(values, 1.0) != 0.5]
    least = 0.0 if isinstance(noise, Exact) else -4.0 if np.any(noise.sf(15.0) == 0) else -np.inf
    return values[values >= least]


@pytest.mark.thinned("noise", "name", every=3)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("name", PRIORS)
def test_is_prior_times_likelihood(noise, name):
    prior, logprior = PRIORS[name]
    values = values_for(noise)
    if name == "table":
        # a gap of the table that this noise hardly or cannot leave
        values = values[(values < 20) | (values > 25)]
    posterior = count_posterior(values, mechanism=noise, prior=prior)
    k = np.arange(4000.0)
    got = posterior.pmf(k[:, None]).T
    cdf, sf = posterior.cdf(k[:, None]).T, posterior.sf(k[:, None]).T
    for row, y in enumerate(values):
        expected, log_total = by_sums(y, noise, logprior, k)
        np.testing.assert_allclose(got[row], expected, rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(cdf[row], np.cumsum(expected), rtol=1e-11, atol=1e-13)
        upper = np.cumsum(expected[::-1])[::-1] - expected
        np.testing.assert_allclose(sf[row], upper, rtol=1e-9, atol=1e-14)
        mean = expected @ k
        np.testing.assert_allclose(posterior.mean[row], mean, rtol=1e-12, atol=1e-14)
        std = np.sqrt(expected @ np.square(k - mean))
        np.testing.assert_allclose(posterior.std[row], std, rtol=1e-9, atol=1e-8)
        assert expected[int(posterior.mode[row])] >= expected.max() * (1 - 1e-12)
        if name not in ("flat", "function"):
            marginal = posterior.log_marginal[row]
            np.testing.assert_allclose(marginal, log_total, rtol=1e-12, atol=1e-12)


@pytest.mark.thinned("noise", "name", every=3)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("name", PRIORS)
def test_quantiles_and_intervals_by_brute_force(noise, name):
    prior, logprior = PRIORS[name]
    values = values_for(noise)[:8]
    posterior = count_posterior(values, mechanism=noise, prior=prior)
    k = np.arange(4000.0)
    levels = np.array([0.003, 0.4001, 0.7003, 0.99])
    quantiles = posterior.quantile(levels)
    shortest, equal = posterior.interval(0.1003), posterior.interval(0.1003, "equal-tailed")
    for row, y in enumerate(values):
        pmf, _ = by_sums(y, noise, logprior, k)
        below = np.cumsum(pmf)
        np.testing.assert_array_equal(quantiles[:, row], np.searchsorted(below, levels))
        ends = np.searchsorted(below, below - pmf + 0.8997)
        inside = np.where(ends < k.size, below[np.minimum(ends, k.size - 1)] - below + pmf, 0)
        length = np.where(ends < k.size, ends - k + 1, np.inf)
        assert shortest.upper[row] - shortest.lower[row] + 1 == length.min()
        best = inside[length == length.min()].max()
        np.testing.assert_allclose(shortest.probability[row], best, rtol=1e-12)
        low, high = equal.lower[row], equal.upper[row]
        assert pmf[k < low].sum() <= 0.05015 < pmf[k <= low].sum()
        assert pmf[k > high].sum() <= 0.05015 < pmf[k >= high].sum()
        np.testing.assert_allclose(
            equal.probability[row], pmf[(k >= low) & (k <= high)].sum(), rtol=1e-12
        )


@pytest.mark.thinned("noise", "y", every=2)
@pytest.mark.parametrize("noise", [Laplace(scale=1.7), Gaussian(sigma=2.0)], ids=repr)
@pytest.mark.parametrize("y", [-7.5, 12.25, 2e6 + 0.5])
def test_poisson_prior_by_mpmath(noise, y):
    rate = 20.0 if y < 100 else 2e6
    posterior = count_posterior(y, mechanism=noise, prior=PoissonPrior(rate))
    with mpmath.workdps(60):
        centre = int(posterior.mode)
        weights = {}
        for k in range(max(0, centre - 150), centre + 150):
            x = abs(mpmath.mpf(y) - k)
            loss = x / noise.scale if isinstance(noise, Laplace) else x**2 / (2 * noise.sigma**2)
            norm = (
                2 * mpmath.mpf(noise.scale)
                if isinstance(noise, Laplace)
                else noise.sigma * mpmath.sqrt(2 * mpmath.pi)
            )
            log_prior = k * mpmath.log(rate) - rate - mpmath.loggamma(k + 1)
            weights[k] = mpmath.exp(log_prior - loss) / norm
        total = sum(weights.values())
        mean = sum(k * w for k, w in weights.items()) / total
        variance = sum((k - mean) ** 2 * w for k, w in weights.items()) / total
        assert float(abs(posterior.mean / mean - 1)) < 1e-13
        assert float(abs(posterior.std / mpmath.sqrt(variance) - 1)) < 1e-12
        assert float(abs(posterior.pmf(centre + 3) / (weights[centre + 3] / total) - 1)) < 1e-12
        assert float(abs(posterior.log_marginal - mpmath.log(total))) < 1e-12 * max(1, abs(y))


@pytest.mark.parametrize("noise", [Geometric(scale=3.0), DiscreteGaussian(sigma=3.0)], ids=repr)
def test_flat_prior_without_ends_is_the_noise_around_the_count(noise):
    posterior = count_posterior([-4, 0, 10**9], mechanism=noise, lower=None)
    offset = np.arange(-30.0, 31.0)
    k = posterior.count + offset[:, None]
    np.testing.assert_allclose(
        posterior.pmf(k), np.tile(noise.pmf(offset), (3, 1)).T, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(posterior.sf(k)[:, 0], noise.sf(offset), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(posterior.mean, posterior.count, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(posterior.std, noise.std, rtol=1e-12)
    interval = count_confint(posterior.count, mechanism=noise, alpha=0.1)
    credible = posterior.interval(0.1, kind="equal-tailed")
    np.testing.assert_array_equal(np.asarray(credible), np.asarray(interval))


def test_tulap_noise_at_the_jumps_of_its_density():
    # 2 and 3 are as far from 2.5, and so are 1 and 4
    noise = Tulap(scale=1.0)
    posterior = count_posterior(2.5, mechanism=noise, lower=None)
    ratio = np.exp(-1.0)
    pmf = 0.5 * (1 - ratio) * ratio ** np.arange(4)
    np.testing.assert_allclose(posterior.pmf([3, 4, 5, 6]), pmf, rtol=1e-13)
    np.testing.assert_allclose(posterior.pmf([2, 1, 0, -1]), pmf, rtol=1e-13)


def test_flat_prior_far_below_zero_forgets_how_far():
    # Laplace noise has no memory: below the support, y does not matter
    posterior = count_posterior([-500.0, -0.5, -1e9], mechanism=Laplace(scale=2.0))
    ratio = np.exp(-0.5)
    np.testing.assert_allclose(posterior.mean, ratio / (1 - ratio), rtol=1e-13)
    np.testing.assert_allclose(posterior.pmf(3), (1 - ratio) * ratio**3, rtol=1e-13)


@pytest.mark.parametrize("noise", [Laplace(scale=1e6), Gaussian(sigma=1e6)], ids=repr)
def test_wide_noise_leaves_the_prior(noise):
    posterior = count_posterior(5.0, mechanism=noise, prior=PoissonPrior(7.0))
    k = np.arange(30)
    np.testing.assert_allclose(posterior.pmf(k), stats.poisson.pmf(k, 7.0), rtol=1e-4)


@pytest.mark.parametrize("noise", [Exact(), Laplace(scale=1e-3), Gaussian(sigma=1e-3)], ids=repr)
@pytest.mark.parametrize("name", PRIORS)
def test_no_noise_leaves_the_count(noise, name):
    posterior = count_posterior([0, 9, 31], mechanism=noise, prior=PRIORS[name][0])
    np.testing.assert_allclose(posterior.mean, [0, 9, 31], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(posterior.std, 0, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(posterior.interval()), [[0, 0], [9, 9], [31, 31]])


def test_priors_that_are_the_same():
    noise = Laplace(scale=2.0)
    values = np.array([-4.0, 3.3, 11.8])
    poisson = count_posterior(values, mechanism=noise, prior=PoissonPrior(6.0))
    pmf = stats.poisson.pmf(np.arange(200), 6.0)
    for prior in (
        NegativeBinomialPrior(6.0, 0.0),
        NegativeBinomialPrior(6.0, 1e-13),
        TablePrior(pmf),
        FunctionPrior(lambda k: stats.poisson.logpmf(k, 6.0)),
    ):
        other = count_posterior(values, mechanism=noise, prior=prior)
        np.testing.assert_allclose(other.mean, poisson.mean, rtol=1e-11)
        np.testing.assert_allclose(other.std, poisson.std, rtol=1e-10)
        if not isinstance(prior, FunctionPrior):
            np.testing.assert_allclose(other.log_marginal, poisson.log_marginal, rtol=1e-10)


@pytest.mark.thinned("bounds", "name", every=2)
@pytest.mark.parametrize("bounds", [(3, 12), (30, None), (None, 4), (7, 7), (2.5, 9.5)])
@pytest.mark.parametrize("name", ["flat", "Poisson", "nb 8", "table", "function"])
def test_bounds_condition_the_prior(bounds, name):
    prior, logprior = PRIORS[name]
    lower, upper = bounds
    if name in ("function", "flat") and lower is None:
        lower = 0
    k = np.arange(np.ceil(lower or 0), (upper or 8000) + 0.5)
    for noise in (Laplace(scale=2.0), Gaussian(sigma=5.0)):
        posterior = count_posterior(
            [-3.0, 8.5, 70.0], mechanism=noise, prior=prior, lower=lower, upper=upper
        )
        mass = np.exp(logprior(k)).sum()
        for row, y in enumerate([-3.0, 8.5, 70.0]):
            expected, log_total = by_sums(y, noise, logprior, k)
            np.testing.assert_allclose(posterior.pmf(k[:, None])[:, row], expected, atol=1e-13)
            if name in ("Poisson", "nb 8", "table") or (name == "flat" and upper is not None):
                np.testing.assert_allclose(
                    posterior.log_marginal[row], log_total - np.log(mass), rtol=1e-11, atol=1e-11
                )


def test_each_row_has_its_own_prior_and_noise():
    # widths that differ by far, so that rows are sorted into blocks
    rng = np.random.default_rng(5)
    size = 150
    rates, dispersion = 10.0 ** rng.uniform(-1, 3, size), 10.0 ** rng.uniform(-2, 1, size)
    scales = 10.0 ** rng.uniform(-1, 2, size)
    values = rng.poisson(rates) + rng.laplace(0, scales)
    noise = Laplace(scale=scales)
    for prior, one in (
        (PoissonPrior(rates), lambda i: PoissonPrior(rates[i])),
        (
            NegativeBinomialPrior(rates, dispersion),
            lambda i: NegativeBinomialPrior(rates[i], dispersion[i]),
        ),
        (FlatPrior(), lambda i: FlatPrior()),
        (TablePrior(BUMPS), lambda i: TablePrior(BUMPS)),
    ):
        together = count_posterior(values, mechanism=noise, prior=prior)
        lower, upper = together.interval(0.2)
        below, quantile = together.cdf(9), together.quantile(0.3)
        for i in range(0, size, 7):
            alone = count_posterior(values[i], mechanism=Laplace(scale=scales[i]), prior=one(i))
            np.testing.assert_allclose(together.mean[i], alone.mean, rtol=1e-12)
            np.testing.assert_allclose(together.std[i], alone.std, rtol=1e-9)
            np.testing.assert_allclose(below[i], alone.cdf(9), rtol=1e-11, atol=1e-15)
            assert quantile[i] == alone.quantile(0.3)
            assert (lower[i], upper[i]) == tuple(alone.interval(0.2))


def test_kinds_of_noise_may_be_mixed():
    laws = [
        Geometric(scale=2.0),
        Laplace(scale=1.0),
        Exact(),
        Geometric(scale=2.0),
        Laplace(scale=3),
    ]
    values = [3, 4.5, 6, 9, 0.25]
    together = count_posterior(values, mechanism=laws, prior=PoissonPrior(5.0))
    for i, law in enumerate(laws):
        alone = count_posterior(values[i], mechanism=law, prior=PoissonPrior(5.0))
        np.testing.assert_allclose(together.mean[i], alone.mean, rtol=1e-13)
        np.testing.assert_allclose(together.pmf(4)[i], alone.pmf(4), rtol=1e-13)
        np.testing.assert_allclose(together.log_marginal[i], alone.log_marginal, rtol=1e-13)


def test_counts_of_zero_mean_are_zero():
    posterior = count_posterior(
        [4.0, 4.0], mechanism=Laplace(scale=1e-50), prior=PoissonPrior([0.0, 3.0])
    )
    np.testing.assert_array_equal(posterior.mean, [0.0, 4.0])


@pytest.mark.thinned("kind", "noise", "prior", every=2)
@pytest.mark.parametrize("kind", ["hdi", "equal-tailed"])
@pytest.mark.parametrize("noise", [Laplace(scale=3.0), Geometric(scale=3.0)], ids=repr)
@pytest.mark.parametrize(
    "prior", [PoissonPrior(8.0), NegativeBinomialPrior(8.0, 3.0)], ids=lambda p: p.description
)
def test_intervals_cover_counts_from_the_prior(prior, noise, kind):
    rng = np.random.default_rng(11)
    reps = 20_000
    dispersion = getattr(prior, "dispersion", 0.0)
    rates = 8.0 * (rng.gamma(1 / dispersion, dispersion, reps) if dispersion else np.ones(reps))
    truth = rng.poisson(rates)
    intervals = count_posterior(truth + noise.rvs(reps, rng=rng), mechanism=noise, prior=prior)
    credible = intervals.interval(0.1, kind)
    covered = credible.contains(truth)
    # the chance of each row is its posterior probability: 6 sigma, two-sided 2e-9
    probability = credible.probability
    spread = np.sqrt(np.sum(probability * (1 - probability)))
    assert abs(covered.sum() - probability.sum()) < 6 * spread
    assert (probability >= 0.9).all()


def test_hdi_is_the_smallest_set_of_one_peak():
    posterior = count_posterior([-2.0, 4.4, 30.1], mechanism=Laplace(scale=4.0))
    k = np.arange(400)
    for row in range(3):
        pmf = posterior.pmf(k[:, None])[:, row]
        order = np.argsort(-pmf, kind="stable")
        smallest = order[: np.searchsorted(np.cumsum(pmf[order]), 0.95) + 1]
        interval = posterior.interval()
        inside = np.arange(interval.lower[row], interval.upper[row] + 1)
        np.testing.assert_array_equal(np.sort(smallest), inside)


def test_labels_come_back():
    counts = pd.Series([3.0, -1.0, 8.0], index=list("abc"), name="n")
    rates = pd.Series([2.0, 2.0, 9.0], index=list("abc"))
    posterior = count_posterior(counts, mechanism=Laplace(scale=1.0), prior=PoissonPrior(rates))
    for values in (
        posterior.mean,
        posterior.std,
        posterior.mode,
        posterior.median,
        posterior.sf(1),
    ):
        assert list(values.index) == list("abc")
    assert list(posterior.interval().lower.index) == list("abc")
    assert list(posterior.log_marginal.index) == list("abc")
    assert posterior.quantile([0.1, 0.9]).shape == (2, 3)
    frame = posterior.summary_frame(0.1)
    assert list(frame.index) == list("abc")
    assert list(frame) == ["count", "mean", "std", "mode", "ci_lower", "ci_upper", "probability"]
    assert frame.attrs["method"] == "posterior, hdi"
    assert frame.attrs["prior"] == "Poisson, mean 2 to 9"
    with pytest.raises(InvalidParameterError, match="rate must have the labels of count"):
        count_posterior(counts, mechanism=Laplace(scale=1.0), prior=PoissonPrior(rates[::-1]))
    with pytest.raises(InvalidParameterError, match="rate must be a number, or have one entry"):
        count_posterior(counts[:1], mechanism=Laplace(scale=1.0), prior=PoissonPrior([1.0, 2.0]))


def test_a_table_is_stacked():
    table = pd.DataFrame({"x": [3, 4], "y": [0, 7]}, index=["a", "b"])
    posterior = count_posterior(table, mechanism=Geometric(scale=1.0))
    assert posterior.mean[("b", "y")] == pytest.approx(7.0, abs=1e-2)


def test_summaries_say_what_they_are():
    posterior = count_posterior([3, 9], mechanism=Geometric(scale=1.0), prior=PoissonPrior(4.0))
    text = str(posterior)
    for words in ("Posteriors of confidential counts", "Poisson, mean 4", "0 to inf", "noise ("):
        assert words in text
    intervals = posterior.interval()
    assert "Credible intervals" in str(intervals)
    assert "Confidence" not in str(intervals)
    assert "Poisson, mean 4" in str(intervals)
    assert repr(posterior) == "CountPosterior(2 posteriors, prior Poisson, mean 4)"
    assert repr(intervals) == "CredibleIntervals(2 intervals, level 0.95, posterior, hdi)"
    with pytest.raises(InvalidParameterError, match="count_posterior"):
        intervals.restrict(lower=0)
    assert intervals.restrict(integer=True).probability.shape == (2,)


def test_shapes():
    noise = Laplace(scale=1.0)
    one = count_posterior(4.2, mechanism=noise)
    assert np.shape(one.mean) == np.shape(one.pmf(3)) == np.shape(one.interval().lower) == ()
    assert one.pmf(np.arange(6)).shape == (6,)
    assert one.quantile([[0.1, 0.2]]).shape == (1, 2)
    many = count_posterior(4.2, mechanism=noise, prior=PoissonPrior([1.0, 2.0, 3.0]))
    assert many.mean.shape == (3,)
    assert many.cdf(np.zeros((5, 1))).shape == (5, 3)
    np.testing.assert_array_equal(one.pmf([-1, 2.5, np.inf, -np.inf]), 0)
    np.testing.assert_array_equal(one.cdf([-1, -np.inf, np.inf]), [0, 0, 1])
    np.testing.assert_array_equal(one.sf([-1, -np.inf, np.inf]), [1, 1, 0])
    assert one.cdf(2.5) == one.cdf(2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior": "flat"}, "prior must be"),
        ({"prior": 3.0}, "prior must be"),
        (
            {"mechanism": WeightedSum([1.0, 1.0], Laplace(scale=1.0))},
            "needs noise of a known density",
        ),
        ({"mechanism": Geometric(scale=1.0), "count": [0.5, 1]}, "count must hold whole numbers"),
        ({"mechanism": Exact(), "count": -1}, "count must be possible"),
        (
            {"mechanism": Exact(), "count": 6, "prior": TablePrior([1, 0, 3], 5), "clamp": (5, 7)},
            "count must be possible",
        ),
        ({"mechanism": Exact(), "count": 3, "prior": TablePrior([1, 1, 0, 0, 1])}, "possible"),
        ({"mechanism": Tulap(scale=1.0, truncation=0.1), "count": -50.0}, "possible"),
        ({"lower": 3, "upper": 2}, "lower must be <= upper"),
        ({"lower": 2.2, "upper": 2.8}, "lower must be <= upper"),
        ({"prior": TablePrior([1.0, 1.0]), "lower": 5}, "prior must give lower..upper"),
        ({"prior": PoissonPrior(3.0), "lower": None, "upper": -1}, "possible"),
        ({"mechanism": Laplace(scale=1e9)}, "count must have posteriors over at most 2.34 counts"),
        ({"mechanism": Laplace(scale=1e6)}, "mechanism must have a scale .* at most 4194304"),
        ({"prior": OwnPrior()}, "prior must be one of this package, got .*: pass .* FunctionPrior"),
        # wide noise: the first table is almost as long as tables may be
        (
            {"prior": FunctionPrior(lambda k: k), "mechanism": Laplace(scale=7e4)},
            "prior must make the posterior proper",
        ),
        (
            {"prior": FunctionPrior(np.square), "mechanism": Laplace(scale=7e4)},
            "prior must make the posterior proper",
        ),
        ({"prior": FunctionPrior(lambda k: k[:-1])}, "logpmf must return one value"),
        ({"prior": FunctionPrior(lambda k: np.full(k.shape, np.nan))}, "NaN"),
        ({"prior": FunctionPrior(lambda k: np.full(k.shape, -np.inf))}, "some count a prob"),
        ({"count": 2.0**53}, "count must be <="),
        ({"count": []}, "count must hold at least one"),
        ({"count": np.zeros((2, 2))}, "count must be a number or one-dimensional"),
        (
            {"count": [1.0, 2.0], "prior": PoissonPrior([1.0, 2.0, 3.0])},
            "rate .* one entry for each",
        ),
        ({"mechanism": [Laplace(scale=1.0)] * 3}, "mechanism must have one law"),
    ],
)
def test_refusals(options, words):
    arguments = {"count": 2.0, "mechanism": Laplace(scale=1.0)} | options
    count = arguments.pop("count")
    with pytest.raises(InvalidParameterError, match=words):
        count_posterior(count, **arguments).mean  # noqa: B018


def test_refusals_of_the_result():
    posterior = count_posterior([2.0, 3.0], mechanism=Laplace(scale=1.0))
    for call in (
        lambda: posterior.interval(0.0),
        lambda: posterior.interval(0.1, "shortest"),
        lambda: posterior.quantile(1.0),
        lambda: posterior.quantile([]),
        lambda: posterior.pmf(np.nan),
        lambda: posterior.cdf([1, 2, 3]),
    ):
        with pytest.raises(InvalidParameterError):
            call()
    with pytest.raises(NotEstimableError, match="log_marginal"):
        posterior.log_marginal  # noqa: B018
    function = FunctionPrior(lambda k: -2 * np.log1p(k))
    with pytest.raises(NotEstimableError, match="log_marginal"):
        count_posterior(2.0, mechanism=Laplace(scale=1.0), prior=function).log_marginal  # noqa: B018


def test_a_prior_that_grows_more_slowly_than_the_noise_falls():
    prior = FunctionPrior(lambda k: 0.9 * k)
    posterior = count_posterior(2.0, mechanism=Laplace(scale=1.0), prior=prior)
    k = np.arange(3000.0)
    expected, _ = by_sums(2.0, Laplace(scale=1.0), lambda k: 0.9 * k, k)
    np.testing.assert_allclose(posterior.mean, expected @ k, rtol=1e-11)


NUMBERS = st.one_of(
    st.floats(), st.floats(-50, 50), st.integers(-5, 40), st.sampled_from([None, "x", 1j, 10**400])
)


@given(
    count=st.one_of(NUMBERS, st.lists(NUMBERS, max_size=3)),
    law=st.sampled_from([Laplace, Geometric, Gaussian, DiscreteGaussian, Tulap]),
    scale=st.sampled_from([1e-100, 1e-9, 0.3, 2.0, 50.0, 1e4]),
    prior=st.sampled_from(["flat", "Poisson", "nb", "table", "function"]),
    parameters=st.tuples(NUMBERS, NUMBERS),
    bounds=st.tuples(NUMBERS, NUMBERS),
)
@settings(derandomize=True, deadline=None, max_examples=37)
def test_only_errors_of_the_package_escape(count, law, scale, prior, parameters, bounds):
    name = "sigma" if law in (Gaussian, DiscreteGaussian) else "scale"
    try:
        belief = {
            "flat": FlatPrior,
            "Poisson": lambda: PoissonPrior(parameters[0]),
            "nb": lambda: NegativeBinomialPrior(*parameters),
            "table": lambda: TablePrior([0, 1, 5, 0, 2], first=parameters[0]),
            "function": lambda: FunctionPrior(lambda k: -np.abs(k)),
        }[prior]()
        posterior = count_posterior(
            count, mechanism=law(**{name: scale}), prior=belief, lower=bounds[0], upper=bounds[1]
        )
        values = [posterior.mean, posterior.std, posterior.mode, posterior.median]
        values += [*posterior.interval(0.3), *posterior.interval(0.3, "equal-tailed")]
        values.append(posterior.pmf(3))
    except DPInferError:
        return
    assert all(np.isfinite(value).all() for value in values)
    assert (posterior.interval(0.3).probability >= 0.7 - 1e-12).all()


def weights_of(law, y, k, threshold, lowest, highest):
    """Likelihood of counts by the definition: the law of the published value."""
    whole = law.is_integer
    if y == lowest:
        drawn = law.cdf(lowest - k)
    elif y == highest:
        drawn = law.sf(highest - k - 1) if whole else law.sf(highest - k)
    else:
        drawn = law.pmf(y - k) if whole else law.pdf(y - k)
    if threshold <= lowest:
        return drawn
    return drawn / (law.sf(np.ceil(threshold) - k - 1) if whole else law.sf(threshold - k))


SELECTED = [
    ([60.0, 64.0, 90.0, 400.0], {"threshold": 60}),
    ([0.0, 3.0, 40.0], {"clamp": 0}),
    ([0.0, 3.0, 50.0], {"clamp": (0, 50)}),
    ([40.0, 45.0, 50.0], {"clamp": (0, 50), "threshold": 40}),
]


@pytest.mark.thinned("values", "law", "name", every=3)
@pytest.mark.parametrize(("values", "rule"), SELECTED, ids=["threshold", "from 0", "both", "all"])
@pytest.mark.parametrize(
    "law",
    [Laplace(scale=4.0), Geometric(scale=4.0), Gaussian(sigma=5.0), Tulap(scale=3.0)],
    ids=repr,
)
@pytest.mark.parametrize("name", ["flat", "Poisson", "nb 0.3", "nb 8", "table", "function"])
def test_selected_values_are_weighed_by_the_law_of_what_was_published(name, law, values, rule):
    prior, log_prior = PRIORS[name]
    k = np.arange(0.0, 2001.0)
    posterior = count_posterior(values, mechanism=law, prior=prior, upper=2000, **rule)
    low, high = (
        (rule.get("clamp"), np.inf)
        if np.isscalar(rule.get("clamp", ()))
        else rule.get("clamp", (-np.inf, np.inf))
    )
    log_belief = log_prior(k)
    for i, y in enumerate(values):
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = weights_of(law, y, k, rule.get("threshold", -np.inf), low, high)
            mass = np.exp(log_belief - log_belief.max()) * np.nan_to_num(likelihood)
        mass /= mass.sum()
        mean = k @ mass
        np.testing.assert_allclose(posterior.mean[i], mean, rtol=1e-9)
        np.testing.assert_allclose(posterior.pmf(k[:, None])[:, i], mass, rtol=1e-7, atol=1e-13)


def test_a_release_gives_the_same_posteriors_and_a_fit_that_sums_is_refused():
    counts = pd.Series([61.0, 75.0, 130.0], index=list("abc"))
    law = Geometric(scale=5.0)
    release = dpi.Release(counts, mechanism=law, threshold=60)
    asked = count_posterior(counts, mechanism=law, threshold=60)
    found = count_posterior(release)
    pd.testing.assert_frame_equal(found.summary_frame(), asked.summary_frame())
    assert "selected by a threshold" in found.notes[0]
    fit = dpi.combine(
        [4.2, 4.9, 10.3], workload=[[1, 0], [0, 1], [1, 1]], mechanism=Laplace(scale=1.0)
    )
    with pytest.raises(
        InvalidParameterError, match="count_posterior needs noise of a known density"
    ):
        count_posterior(fit)
    with pytest.raises(InvalidParameterError, match="lower must be given"):
        count_posterior(release, lower=None)
    with pytest.raises(InvalidParameterError, match="upper must be given"):
        count_posterior([0.0, 50.0], mechanism=law, clamp=(0, 50))
    with pytest.raises(InvalidParameterError, match="lower and upper must be given"):
        count_posterior(release, prior=FunctionPrior(lambda k: -k))
    with pytest.raises(InvalidParameterError, match="empirical_prior does not take values"):
        empirical_prior(release)


@pytest.mark.parametrize("prior_of", ["published", "all", "clamped"])
def test_credible_intervals_of_selected_values_hold_counts_drawn_from_the_prior(prior_of):
    """Chance of failing by accident below 1e-6: 450 posteriors or more, 5 standard errors."""
    rng = np.random.default_rng(5)
    law, prior = Laplace(scale=6.0), NegativeBinomialPrior(15.0, 0.4)
    truth = stats.nbinom.rvs(2.5, 2.5 / 17.5, size=1_500, random_state=rng).astype(float)
    published = truth + law.rvs(truth.size, rng=rng)
    rule = {"threshold": 20.0, "prior_of": prior_of}
    if prior_of == "published":  # for each of them the noise is drawn until it is published
        while (short := published < 20.0).any():
            published[short] = truth[short] + law.rvs(int(short.sum()), rng=rng)
    elif prior_of == "all":
        truth, published = truth[published >= 20.0], published[published >= 20.0]
    else:
        rule, published = {"clamp": 15.0}, np.maximum(published, 15.0)
    intervals = count_posterior(published, mechanism=law, prior=prior, **rule).interval(0.1)
    held = np.mean((intervals.lower <= truth) & (truth <= intervals.upper))
    assert abs(held - intervals.probability.mean()) < 5 * 0.4 / np.sqrt(truth.size)
