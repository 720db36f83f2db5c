"""Differences of rates and of paired proportions, against enumeration and statsmodels."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from crossed import in_turn
from duality import ALTERNATIVES, check_dual
from scipy import stats
from statsmodels.stats.rates import test_poisson_2indep as rates_of_statsmodels

from dpinfer import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Release,
    mcnemar,
    poisson_2indep,
)
from dpinfer.errors import InvalidParameterError

NOISES = [Exact(), Geometric(scale=1.2), DiscreteGaussian(sigma=1.5)]


def rates(a, b, value, noise, **how):
    return poisson_2indep(a, 1.5, b, 1.0, value=value, compare="diff", mechanism=noise, **how)


def pairs(a, b, value, noise, nobs=9, **how):
    return mcnemar([a, b], nobs, value=value, compare="diff", mechanism=noise, **how)


def pmf_of_rates(first, second, counts):
    means = 1.5 * first, 1.0 * second
    return np.outer(*(stats.poisson.pmf(counts, mean) for mean in means))


def pmf_of_pairs(first, second, counts, nobs=7):
    a, b = np.meshgrid(counts, counts, indexing="ij")
    rest = np.maximum(nobs - a - b, 0)
    chances = [first, second, max(1.0 - first - second, 0.0)]
    found = stats.multinomial.pmf(np.stack([a, b, rest], axis=-1), nobs, chances)
    return np.where(a + b <= nobs, found, 0.0)


KINDS = {
    "rates": (rates, pmf_of_rates, 12, np.linspace(0.02, 2.5, 16), (-0.5, 0.0, 0.7)),
    "pairs": (pairs, pmf_of_pairs, 8, np.linspace(0.01, 0.4, 14), (-0.15, 0.0, 0.15)),
}


def law(noise, counts, published):
    """P(published | count), a row for each count."""
    apart = published - counts[:, np.newaxis]
    return (apart == 0).astype(float) if isinstance(noise, Exact) else noise.pmf(apart)


@pytest.mark.parametrize(
    ("kind", "noise", "alternative"),
    [  # with noise one alternative for each kind, and all in a study
        pytest.param(*case, marks=pytest.mark.slow if chosen else pytest.mark.study)
        for case in product(KINDS, [NOISES[0], Geometric(scale=0.4)], ALTERNATIVES)
        for chosen in [
            case[1] == NOISES[0] or case[::2] in {("rates", "larger"), ("pairs", "two-sided")}
        ]
    ],
    ids=str,
)
def test_no_more_is_rejected_than_the_level_by_enumeration(kind, noise, alternative):
    test, pmf, size, plausible, values = KINDS[kind]
    counts = np.arange(size)
    reach = 0 if isinstance(noise, Exact) else 2
    published = np.arange(-reach, size + reach)
    value = values[ALTERNATIVES.index(alternative)]
    # 1 for the others makes what is rejected less, by what is hardly ever published, if at all
    pvalue = np.ones((published.size, published.size))
    some = np.nonzero(np.add.outer(published, published) <= (14 if kind == "rates" else 7 + reach))
    pairs = [published[places] for places in some]
    if kind == "rates":
        pvalue[some] = test(*pairs, value, noise, alternative=alternative).pvalue
    else:  # a table at a time
        how = {"nobs": 7, "alternative": alternative}
        pvalue[some] = [
            test(*pair, value, noise, **how).pvalue for pair in zip(*pairs, strict=True)
        ]
    blur = law(noise, counts, published)
    largest = dict.fromkeys((0.05, 0.1), 0.0)
    for second in plausible + max(0.0, -value):
        chances = blur.T @ pmf(second + value, second, counts) @ blur
        for level in largest:
            rejected = chances[pvalue <= level].sum()
            largest[level] = max(largest[level], rejected)
            assert rejected <= level
    assert largest[0.1] > 0.02  # not idle


@pytest.mark.parametrize(
    ("kind", "noise", "method", "alternative"),
    in_turn(list(KINDS), NOISES, ["exact", "plug-in", "asymptotic"], ALTERNATIVES, every=2),
    ids=str,
)
def test_intervals_invert_the_test(kind, noise, alternative, method):
    values = np.concatenate([np.linspace(-0.6, 0.8, 4), [0.0]])
    how = {"alternative": alternative, "method": method}
    held = check_dual(lambda v: KINDS[kind][0](6, 2, v, noise, **how), values, near=2e-4)
    assert held.estimate == pytest.approx(6 / 1.5 - 2.0 if kind == "rates" else 4 / 9)


@pytest.mark.parametrize("noise", [Laplace(scale=1.0), Gaussian(sigma=1.5)], ids=str)
def test_intervals_with_continuous_noise(noise):
    values = np.array([0.0, 1.5])
    check_dual(lambda v: rates(6.3, 2.2, v, noise), values, near=1e-3)
    check_dual(lambda v: pairs(6.3, 2.2, v, noise), values[:1], near=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_is_near_to_the_exact_law_at_the_estimate(kind):
    test, noise = KINDS[kind][0], Geometric(scale=1.2)
    for value in (0.0, 0.2):
        plug_in = test(6, 2, value, noise, alternative="larger", method="plug-in")
        how = {"alternative": "larger", "method": "monte-carlo", "reps": 20_000, "rng": 3}
        simulated = test(6, 2, value, noise, **how)
        # 5 standard errors: fails by accident once in a million
        assert simulated.pvalue == pytest.approx(plug_in.pvalue, abs=5 * simulated.mc_error)


def test_asymptotic_tests_without_noise_are_those_of_statsmodels_and_mcnemar():
    for alternative in ALTERNATIVES:
        how = {"alternative": alternative, "method": "asymptotic", "mechanism": Exact()}
        found = poisson_2indep(60, 51.5, 29, 54.3, compare="diff", **how)
        theirs = rates_of_statsmodels(
            60, 51.5, 29, 54.3, method="score", compare="diff", alternative=alternative
        )
        assert found.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert found.pvalue == pytest.approx(theirs.pvalue, rel=1e-9)
        both = [mcnemar([[50, 31], [14, 25]], *n, **how) for n in ((), (120,))]
        found = mcnemar([[50, 31], [14, 25]], 120, compare="diff", **how)
        assert found.statistic == pytest.approx(17 / np.sqrt(45))
        for one in both:
            assert found.pvalue == pytest.approx(one.pvalue, rel=1e-9)


def test_unconditional_test_of_rates_is_near_to_the_e_test():
    """Krishnamoorthy and Thomson take the estimate for the rates, where the largest is taken."""
    values = {"value": 0.2, "compare": "diff"}
    theirs = rates_of_statsmodels(20, 10.0, 9, 12.0, method="etest-score", **values)
    how = {**values, "mechanism": Exact()}
    assert poisson_2indep(20, 10.0, 9, 12.0, **how).pvalue == pytest.approx(theirs[1], abs=0.012)


def test_rates_in_other_units_are_the_same():
    noise = Geometric(scale=2.0)
    found = poisson_2indep(18, 51.5, 7, 54.3, compare="diff", value=0.1, mechanism=noise)
    scaled = poisson_2indep(18, 51.5e6, 7, 54.3e6, compare="diff", value=1e-7, mechanism=noise)
    assert scaled.pvalue == pytest.approx(found.pvalue, rel=1e-6)
    # the intervals of this method are the quicker ones
    how = {"compare": "diff", "mechanism": noise, "method": "plug-in"}
    found = poisson_2indep(18, 51.5, 7, 54.3, **how)
    scaled = poisson_2indep(18, 51.5e6, 7, 54.3e6, **how)
    np.testing.assert_allclose(np.asarray(scaled.conf_int()) * 1e6, found.conf_int(), rtol=1e-6)


def test_odds_of_pairs_that_differ():
    noise = Geometric(scale=1.0)
    how = {"mechanism": noise, "alternative": "larger"}
    found = mcnemar([41, 19], value=1.3, **how)
    rates = poisson_2indep(41, 1.0, 19, 1.0, value=1.3, **how)
    assert found.pvalue == rates.pvalue
    np.testing.assert_array_equal(found.conf_int(), rates.conf_int())


def test_rows_and_labels():
    counts = pd.Series([20, 12], index=["a", "b"])
    how = {"compare": "diff", "mechanism": Geometric(scale=1.0)}
    found = poisson_2indep(counts, [16.0, 20.0], [11, 14], 54.0, value=[0.1, 0.0], **how)
    one = poisson_2indep(12, 20.0, 14, 54.0, **how)
    assert list(found.pvalue.index) == ["a", "b"]
    assert found.pvalue["b"] == one.pvalue
    how["method"] = "plug-in"  # whose intervals are the quicker ones
    rows = poisson_2indep(counts, [16.0, 20.0], [11, 14], 54.0, value=[0.1, 0.0], **how)
    one = poisson_2indep(12, 20.0, 14, 54.0, **how)
    assert rows["b"].conf_int().lower == pytest.approx(one.conf_int().lower)
    table = Release([101, 41, 19, 33], mechanism=Geometric(scale=1.0))
    result = mcnemar(table, 194, compare="diff")
    assert result.effect == "difference"
    assert result.nobs == 194
    assert "difference" in result.summary()


def test_refusals():
    how = {"mechanism": Geometric(scale=1.0), "compare": "diff"}
    with pytest.raises(InvalidParameterError, match="nobs must be given"):
        mcnemar([[5, 3], [4, 1]], **how)
    with pytest.raises(InvalidParameterError, match="value"):
        mcnemar([[5, 3], [4, 1]], 13, value=1.0, **how)
    with pytest.raises(InvalidParameterError, match="compare"):
        mcnemar([[5, 3], [4, 1]], 13, mechanism=Exact(), compare="ratio")
    with pytest.raises(InvalidParameterError, match="compare"):
        poisson_2indep(5, 1.0, 3, 1.0, mechanism=Exact(), compare="odds-ratio")
    with pytest.raises(InvalidParameterError, match="method must be 'asymptotic'"):
        poisson_2indep(4e11, 1.0, 4e11, 1.0, **how)
    with pytest.raises(InvalidParameterError, match="value times exposure"):
        poisson_2indep(5, 1.0, 3, 1.0, value=1e90, method="plug-in", **how)
