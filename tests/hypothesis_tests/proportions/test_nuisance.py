"""Maxima over a nuisance parameter against brute force."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.hypothesis_tests import mcnemar, poisson_2indep, proportions_2indep
from dpinfer.mechanisms import Exact, Geometric, Laplace


def plug_in_order(counts, nobs, alternative):
    """Where pairs of counts come in the order of their normal p-values at the pooled estimate."""
    (c1, c2), (n1, n2) = counts, nobs
    m = np.clip(c1 + c2, 0.5, n1 + n2 - 0.5)
    spread = np.sqrt(np.maximum(m * (1.0 - m / (n1 + n2)), 1.0) / (n1 * n2))
    z = (c1 / n1 - c2 / n2) / spread
    return {"two-sided": np.abs(z), "larger": z, "smaller": -z}[alternative]


@pytest.mark.thinned("counts", "alternative", "beta", every=3)
@pytest.mark.parametrize("counts", [(5, 3), (1, 7), (12, 11), (3, 20), (0, 1), (15, 24)], ids=str)
@pytest.mark.parametrize("alternative", ["two-sided", "larger", "smaller"])
@pytest.mark.parametrize("beta", [1e-2, 1e-4])
def test_the_maximum_bounds_the_chance_at_any_proportion(counts, alternative, beta):
    """Sums over all pairs of counts, on a fine grid over the confidence set, without noise."""
    n1, n2 = 15, 24
    first, second = np.meshgrid(np.arange(n1 + 1.0), np.arange(n2 + 1.0), indexing="ij")
    key = plug_in_order((first, second), (n1, n2), alternative)
    own = plug_in_order(np.array(counts, dtype=float), (n1, n2), alternative)
    event = (key >= own - 1e-9).astype(float)
    total = sum(counts)
    ends = stats.beta.ppf([beta / 2, 1 - beta / 2], [total, total + 1], [40 - total, 39 - total])
    low, high = np.arcsin(np.sqrt(np.where(np.isnan(ends), [0.0, 1.0], ends)))
    p = np.sin(np.linspace(low, high, 4001)) ** 2
    chances = [stats.binom.pmf(np.arange(n + 1)[:, None], n, p) for n in (n1, n2)]
    largest = np.einsum("im,ij,jm->m", chances[0], event, chances[1]).max()
    found = proportions_2indep(
        counts[0], n1, counts[1], n2, mechanism=Exact(), alternative=alternative,
        nuisance_alpha=beta,
    ).pvalue  # fmt: skip
    assert min(largest + beta, 1.0) - 1e-9 <= found <= largest + 1.5 * beta + 1e-9


@pytest.mark.parametrize(
    ("alternative", "theirs"), [("larger", "greater"), ("smaller", "less")], ids=str
)
def test_one_sided_tails_without_noise_are_binomial(alternative, theirs):
    null = mcnemar([12, 5], mechanism=Exact()).null_distribution
    for first in range(18):
        found = null.pvalue((2 * first - 17) / np.sqrt(17), alternative)
        expected = stats.binomtest(first, 17, 0.5, alternative=theirs).pvalue
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alternative", ["larger", "smaller"])
def test_one_null_distribution_serves_every_alternative(alternative):
    """The law that comes with the two-sided test gives the p-values of the one-sided ones."""
    for test, data, noise in (
        (poisson_2indep, ([60.3, 20.0], 10.0, [29.8, 31.0], 9.0), Laplace(scale=2.0)),
        (proportions_2indep, (61, 200, 42, 210), Geometric(scale=2.0)),
    ):
        both = test(*data, mechanism=noise)
        one_sided = test(*data, mechanism=noise, alternative=alternative)
        found = both.null_distribution.pvalue(both.statistic, alternative)
        np.testing.assert_allclose(found, one_sided.pvalue, rtol=1e-9)


def test_the_summary_says_what_is_guaranteed():
    null = mcnemar([12, 5], mechanism=Exact()).null_distribution
    assert "the largest over a confidence set" in null.summary()
