"""Differences, ratios and odds ratios of two proportions: tests of any value, and intervals."""

import numpy as np
import pytest
from crossed import in_turn
from duality import ALTERNATIVES, check_dual
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from dpinfer import Exact, Gaussian, Geometric, Laplace, proportions_2indep
from dpinfer.errors import InvalidParameterError

COMPARED = {"diff": 0.0, "ratio": 1.0, "odds-ratio": 1.0}
VALUES = {
    "diff": np.linspace(-0.5, 0.7, 5),
    "ratio": np.geomspace(0.2, 8, 5),
    "odds-ratio": np.geomspace(0.1, 20, 5),
}
NEAR = {"asymptotic": 1e-6, "exact": 1e-4, "plug-in": 1e-4}


@pytest.mark.parametrize(
    ("compare", "method", "alternative"),
    in_turn(list(COMPARED), ["exact", "plug-in", "asymptotic"], ALTERNATIVES, every=2),
)
def test_interval_inverts_the_test(compare, alternative, method):
    how = {"mechanism": Geometric(scale=1.0), "compare": compare, "alternative": alternative}
    check_dual(
        lambda v: proportions_2indep(14, 20, 9, 24, **how, method=method, value=v),
        VALUES[compare],
        near=NEAR[method],
    )


@pytest.mark.parametrize("noise", [Laplace(scale=1.5), Gaussian(sigma=2.0)], ids=str)
def test_interval_inverts_the_test_with_continuous_noise(noise):
    check_dual(
        lambda v: proportions_2indep(14.3, 20, 9.2, 24, mechanism=noise, value=v),
        VALUES["diff"][1:2],
        near=1e-3,
    )


@pytest.mark.thinned("noise", "compare", every=2)
@pytest.mark.parametrize("noise", [Exact(), Geometric(scale=2.0), Laplace(scale=2.0)], ids=str)
@pytest.mark.parametrize(("compare", "alternative"), list(zip(COMPARED, ALTERNATIVES, strict=True)))
def test_near_equality_it_is_the_test_of_equality(noise, compare, alternative):
    counts = (61, 200, 42, 210) if noise.is_integer else (61.3, 200, 42.2, 210)
    how = {"mechanism": noise, "compare": compare, "alternative": alternative}
    for method, within in (("exact", 2e-4), ("plug-in", 1e-5), ("asymptotic", 1e-6)):
        beside = COMPARED[compare] + 1e-9
        equal = proportions_2indep(*counts, **how, method=method)
        near = proportions_2indep(*counts, **how, method=method, value=beside)
        assert near.pvalue == pytest.approx(equal.pvalue, abs=within)
        assert near.statistic == pytest.approx(equal.statistic, rel=1e-6)
        assert (
            equal.pvalue
            == proportions_2indep(*counts, **how, method=method, value=beside - 1e-9).pvalue
        )


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_asymptotic_odds_ratio_without_noise_is_the_score_interval_of_statsmodels():
    how = {"mechanism": Exact(), "compare": "odds-ratio", "method": "asymptotic"}
    for counts in ((61, 200, 42, 210), (3, 17, 9, 30), (50, 60, 4, 20)):
        peer = confint_proportions_2indep(
            *counts, method="score", compare="odds-ratio", correction=False
        )
        np.testing.assert_allclose(proportions_2indep(*counts, **how).conf_int(), peer, rtol=1e-6)


def curve(compare, value, second):
    if compare == "diff":
        return second + value
    if compare == "ratio":
        return second * value
    return value * second / (1 - second + value * second)


@pytest.mark.parametrize(
    ("compare", "value", "alternative"),
    [
        ("diff", 0.2, "two-sided"),
        pytest.param("diff", 1e-3, "two-sided", marks=pytest.mark.study),
        ("ratio", 1.8, "larger"),
        ("odds-ratio", 0.3, "smaller"),
        ("odds-ratio", 300.0, "two-sided"),
    ],
)
def test_size_by_enumeration(compare, value, alternative):
    """All outcomes of two small samples without noise: no level is exceeded along the curve."""
    n1, n2 = 3, 4
    x1, x2 = (part.ravel().astype(float) for part in np.meshgrid(range(n1 + 1), range(n2 + 1)))
    found = proportions_2indep(
        x1, n1, x2, n2, mechanism=Exact(), compare=compare, value=value, alternative=alternative
    ).pvalue
    for second in np.linspace(0.02, 0.98, 33):
        first = curve(compare, value, second)
        if 0 < first < 1:
            chances = stats.binom.pmf(x1, n1, first) * stats.binom.pmf(x2, n2, second)
            for alpha in (0.01, 0.05, 0.1, 0.3):
                assert chances[found <= alpha].sum() <= alpha


@pytest.mark.slow
@pytest.mark.parametrize(("compare", "value"), [("diff", 0.2), ("odds-ratio", 0.3)])
def test_size_by_enumeration_with_noise(compare, value):
    n1, n2, noise, reach = 3, 4, Geometric(scale=0.5), 3  # beyond it with a chance of 6e-4
    grids = np.meshgrid(np.arange(-reach, n1 + reach + 1.0), np.arange(-reach, n2 + reach + 1.0))
    y1, y2 = (part.ravel() for part in grids)
    how = {"mechanism": noise, "compare": compare, "value": value}
    found = proportions_2indep(y1, n1, y2, n2, **how).pvalue

    def law(y, n, p):
        x = np.arange(n + 1)
        return noise.pmf(y[:, None] - x) @ stats.binom.pmf(x, n, p)

    for second in np.linspace(0.05, 0.95, 19):
        first = curve(compare, value, second)
        if 0 < first < 1:
            chances = law(y1, n1, first) * law(y2, n2, second)
            for alpha in (0.05, 0.1, 0.3):
                assert chances[found <= alpha].sum() <= alpha


@pytest.mark.parametrize("compare", COMPARED)
def test_simulated_p_values_and_intervals(compare):
    value = {"diff": 0.05, "ratio": 1.1, "odds-ratio": 1.2}[compare]
    how = {"mechanism": Geometric(scale=2.0), "compare": compare, "value": value}
    simulated = proportions_2indep(61, 200, 42, 210, **how, method="monte-carlo", rng=4)
    known = proportions_2indep(61, 200, 42, 210, **how, method="plug-in")
    assert abs(simulated.pvalue - known.pvalue) < 6 * simulated.mc_error  # chance 2e-9
    inside = bool(simulated.conf_int(0.2).contains(value))
    assert inside == (simulated.pvalue >= 0.2)
    np.testing.assert_allclose(simulated.conf_int(), known.conf_int(), rtol=0.06, atol=0.006)


def test_rows_and_labels_and_refusals():
    noise = Geometric(scale=1.0)
    rows = proportions_2indep([14, 3], 20, [9, 0], 24, mechanism=noise, value=[0.1, 0.0])
    single = proportions_2indep(14, 20, 9, 24, mechanism=noise, value=0.1)
    assert rows.pvalue[0] == pytest.approx(single.pvalue, rel=1e-12)
    assert rows.estimate[1] == pytest.approx(0.15)
    quick = {"mechanism": noise, "value": [0.1, 0.0], "method": "plug-in"}
    assert proportions_2indep([14, 3], 20, [9, 0], 24, **quick).conf_int().lower.shape == (2,)
    ratio = proportions_2indep(3, 20, 0, 24, mechanism=noise, compare="ratio", method="asymptotic")
    assert ratio.estimate == np.inf
    assert ratio.conf_int().lower > 0
    for wrong in ({"value": 1.0}, {"compare": "ratio", "value": 0.0}, {"compare": "log"}):
        with pytest.raises(InvalidParameterError, match=next(reversed(wrong))):
            proportions_2indep(14, 20, 9, 24, mechanism=noise, **wrong)
    with pytest.raises(InvalidParameterError, match="equal proportions"):
        proportions_2indep(14, 20, 9, 24, mechanism=noise, nobs_mechanism=noise, value=0.1)
    unknown = proportions_2indep(14, 20, 9, 24, mechanism=noise, nobs_mechanism=noise, rng=1)
    with pytest.raises(InvalidParameterError, match="risk_difference_confint"):
        unknown.conf_int()
    both = {"mechanism": (Geometric(scale=1.0), Laplace(scale=1.0)), "value": 0.1}
    with pytest.raises(InvalidParameterError, match="asymptotic"):
        proportions_2indep(14, 20, 9.2, 24, **both)


def test_what_is_far_on_the_other_side_is_not_rejected():
    for compare, value in (("diff", -0.9), ("ratio", 1e-4), ("odds-ratio", 1e-5)):
        how = {"mechanism": Geometric(scale=1.0), "compare": compare, "value": value}
        for counts, side in (((190, 200, 10, 200), "smaller"), ((190, 200, 10, 200), "larger")):
            pvalue = proportions_2indep(*counts, **how, alternative=side).pvalue
            assert pvalue == 1.0 if side == "smaller" else pvalue < 1e-3
