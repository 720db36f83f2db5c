"""Correlation of ordered attributes: pairs by hand, exact moments, refusals, coverage."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import ordinal_correlation_confint
from dpinfer.regression import association

COUNTS = np.array(
    [[64, 94, 58, 46], [57, 94, 54, 40], [57, 105, 65, 60], [72, 141, 77, 94], [36, 97, 54, 78],
     [21, 71, 54, 71]]
)  # fmt: skip
LAW = dpi.Geometric(scale=2.0)
STATISTICS = ("pearson", "kendall", "gamma")


def of_units(counts, statistic):
    """The statistic from one row for each unit."""
    at = np.repeat(list(np.ndindex(counts.shape)), counts.ravel(), axis=0)
    if statistic == "pearson":
        return np.corrcoef(at.T)[0, 1]
    if statistic == "kendall":
        return stats.kendalltau(*at.T).statistic
    sign = np.sign(np.subtract.outer(at[:, 0], at[:, 0]) * np.subtract.outer(at[:, 1], at[:, 1]))
    return sign.sum() / np.abs(sign).sum()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_without_noise_it_is_that_of_the_units(statistic):
    found = ordinal_correlation_confint(COUNTS, statistic, mechanism=dpi.Exact())
    assert found.estimate == pytest.approx(of_units(COUNTS, statistic), rel=1e-12)
    assert found.lower == pytest.approx(found.estimate, rel=1e-9)
    assert found.upper == pytest.approx(found.estimate, rel=1e-9)


def test_sampling_errors_without_noise():
    """Delta method for multinomial sampling by differences; large counts, where sets are alike."""
    counts, whole = COUNTS * 1000, {"mechanism": dpi.Exact(), "uncertainty": "noise+sampling"}
    for statistic in STATISTICS:
        found = ordinal_correlation_confint(counts, statistic, **whole)
        slopes = np.empty(COUNTS.size)
        for cell in range(COUNTS.size):
            moved = np.repeat(counts[np.newaxis].astype(float), 2, axis=0).reshape(2, -1)
            moved[:, cell] += [100.0, -100.0]
            one, other = (
                ordinal_correlation_confint(x.reshape(6, 4), statistic, mechanism=dpi.Exact())
                for x in moved
            )
            slopes[cell] = (one.estimate - other.estimate) / 200.0
        n, f = counts.sum(), counts.ravel()
        std = np.sqrt(f @ slopes**2 - (f @ slopes) ** 2 / n)
        half = 0.5 * (found.upper - found.lower)
        assert half == pytest.approx(1.959964 * std, rel=1e-4)


def test_the_score_statistic_of_linear_association_is_n_r_squared():
    r = of_units(COUNTS, "pearson")
    fit = association(COUNTS, "independence", mechanism=dpi.Exact())
    found = fit.test("uniform", method="asymptotic")
    assert found.statistic == pytest.approx(COUNTS.sum() * r**2, rel=1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_numerator_and_its_variance_are_unbiased(statistic):
    """By sums over all noises of a two by two table, whose γ and r are of three products."""
    f, law = np.array([[5.0, 2.0], [3.0, 6.0]]), dpi.Geometric(scale=0.4)
    e = np.arange(-9.0, 10.0)
    mass, noises = law.pmf(e), np.array(list(product(e[6:13], repeat=4)))
    weight = np.prod(law.pmf(noises), axis=1) / mass[6:13].sum() ** 4
    y = f.ravel() + noises
    above = y[:, 0] * y[:, 3] - y[:, 1] * y[:, 2]
    centre = weight @ above
    variance = (weight * law.variance)[0] / weight[0]
    truth = weight @ above**2 - centre**2
    linear = np.square(y).sum(axis=1) * variance
    assert centre == pytest.approx(f[0, 0] * f[1, 1] - f[0, 1] * f[1, 0], rel=1e-9)
    assert weight @ linear - 2 * variance**2 == pytest.approx(truth, rel=0.02)
    found = ordinal_correlation_confint(f + 20, statistic, mechanism=law)
    assert found.lower < of_units((f + 20).astype(int), statistic) < found.upper


@pytest.mark.parametrize("uncertainty", ["noise", "noise+sampling"])
def test_at_the_ends_the_ratio_is_the_quantile_of_students_law(uncertainty):
    """γ by pairs of cells, and degrees of freedom by differences of the variance."""
    counts = np.array([[30, 15, 10], [15, 20, 12], [8, 14, 26]])
    signs = [np.sign(np.subtract.outer(x, x)) for x in np.indices((3, 3)).reshape(2, -1)]
    above, c = signs[0] * signs[1], counts.ravel() * 1.0
    ratio = (c @ above @ c) / (c @ np.abs(above) @ c)
    sampling = "sampling" in uncertainty

    def spread(c):
        return LAW.variance + c * sampling

    def linear(c, r):
        return np.square((above - r * np.abs(above)) @ c) @ spread(c)

    steps = 1e-3 * np.eye(9)
    slopes = np.array([linear(c + h, ratio) - linear(c - h, ratio) for h in steps]) / 2e-3
    degrees = 2.0 * linear(c, ratio) ** 2 / (np.square(slopes) @ spread(c))
    assert degrees < 100.0
    own = {"mechanism": LAW, "uncertainty": uncertainty}
    for r in ordinal_correlation_confint(counts, "gamma", alpha=0.1, **own):
        form = above - r * np.abs(above)
        variance = linear(c, r) - spread(c) @ np.square(form) @ spread(c) / 2.0
        t = abs(c @ form @ c / 2.0) / np.sqrt(variance)
        assert t == pytest.approx(stats.t.isf(0.05, degrees), rel=1e-6)


def test_order_labels_and_scores():
    table = pd.DataFrame(COUNTS, list("ABCDEF"), ["well", "mild", "moderate", "impaired"])
    cells = pd.Series(COUNTS.ravel(), pd.MultiIndex.from_product(table.axes))
    mixed = cells.sample(frac=1.0, random_state=2)
    scores = {"row_scores": dict(zip("ABCDEF", range(6), strict=True))}
    scores["column_scores"] = pd.Series(range(4), table.columns)
    one = ordinal_correlation_confint(table, mechanism=LAW)
    other = ordinal_correlation_confint(mixed, mechanism=LAW, **scores)
    np.testing.assert_allclose(tuple(one), tuple(other), rtol=1e-9)
    scaled = ordinal_correlation_confint(
        table, row_scores=[1e3 * k for k in range(6)], mechanism=LAW
    )
    np.testing.assert_allclose(tuple(one), tuple(scaled), rtol=1e-9)
    turned = ordinal_correlation_confint(table, row_scores=range(6, 0, -1), mechanism=LAW)
    np.testing.assert_allclose(tuple(one), [-turned.upper, -turned.lower], rtol=1e-9)
    wider = ordinal_correlation_confint(table, mechanism=LAW, uncertainty="noise+sampling")
    assert wider.upper - wider.lower > 2 * (one.upper - one.lower)
    assert one.guarantee == "asymptotic"


def test_much_noise_leaves_every_number():
    found = ordinal_correlation_confint(COUNTS // 10, mechanism=dpi.Laplace(scale=25.0))
    assert tuple(found) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"statistic": "spearman"}, InvalidParameterError, "statistic"),
        ({"table": COUNTS.ravel()}, InvalidParameterError, "two levels"),
        ({"table": COUNTS * 1e12}, InvalidParameterError, "within 1e12"),
        ({"table": np.diag([30, -30, 0])}, NotEstimableError, "vary by more than noise"),
        (
            {"table": dpi.noisy(COUNTS, mechanism=LAW, threshold=5), "mechanism": None},
            InvalidParameterError,
            "ordinal_correlation_confint does not take",
        ),
    ],
)
def test_refusals(change, error, message):
    with pytest.raises(error, match=message):
        ordinal_correlation_confint(**{"table": COUNTS, "mechanism": LAW} | change)


@pytest.mark.slow
@pytest.mark.parametrize("uncertainty", ["noise", "noise+sampling"])
def test_coverage(uncertainty):
    """240 tables each: six standard errors below 95 % are .866."""
    rng, law = np.random.default_rng(4), dpi.Laplace(scale=4.0)
    counts = np.array([[40, 10, 2], [8, 30, 12], [1, 9, 38]])
    for statistic in STATISTICS:
        truth, hits = of_units(counts, statistic), 0
        for _ in range(240):
            f = rng.poisson(counts) if "sampling" in uncertainty else counts
            found = ordinal_correlation_confint(
                f + law.rvs((3, 3), rng=rng), statistic, mechanism=law, uncertainty=uncertainty
            )
            hits += found.lower <= truth <= found.upper
        assert hits / 240 > 0.866
