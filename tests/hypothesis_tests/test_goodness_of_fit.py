"""The goodness-of-fit test against dense algebra, enumeration and scipy."""

from itertools import product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import ApproximationWarning, DPInferError, InvalidParameterError
from dpinfer.hypothesis_tests import chisquare
from dpinfer.hypothesis_tests._noisy_table import NoisyTable, pearson, projected
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
)

EXPECTED = np.array([40.0, 60.0, 100.0, 200.0])
PUBLISHED = np.array([31.2, 54.9, 119.5, 198.1])
MIXED = (Laplace(scale=2.0), Exact(), Gaussian(sigma=5.0), Laplace(scale=0.5))


def dense_projected(deviations, expected, variance):
    """The form in the contrasts with a pseudo-inverse of their covariance."""
    k, n = expected.size, expected.sum()
    projection = np.eye(k) - np.ones((k, k)) / k
    covariance = np.diag(expected + variance) - np.outer(expected, expected) / n
    contrast = projection @ deviations
    inverse = np.linalg.pinv(projection @ covariance @ projection, rcond=1e-11)
    return contrast @ inverse @ contrast


class TestStatistics:
    @pytest.mark.parametrize(
        "noise",
        [Laplace(scale=2.0), Gaussian(sigma=30.0), IndependentNoise(MIXED), Gaussian(sigma=1e-4)],
        ids=repr,
    )
    def test_projected_is_the_form_in_the_contrasts(self, noise):
        table = NoisyTable(400, EXPECTED, noise)
        deviations = np.random.default_rng(1).normal(0, 9, (20, 4))
        expected = [dense_projected(d, EXPECTED, table.variance) for d in deviations]
        np.testing.assert_allclose(projected(table)(deviations), expected, rtol=1e-8)
        assert projected(table)(deviations[0]).shape == ()

    def test_projected_ignores_what_is_added_to_all_cells(self):
        form = projected(NoisyTable(400, EXPECTED, IndependentNoise(MIXED)))
        deviations = PUBLISHED - EXPECTED
        np.testing.assert_allclose(form(deviations + 1234.5), form(deviations), rtol=1e-9)

    def test_without_noise_both_are_that_of_pearson(self):
        counts = np.array([31.0, 55.0, 116.0, 198.0])
        theirs = stats.chisquare(counts, EXPECTED)
        for statistic in (pearson, projected):
            form = statistic(NoisyTable(400, EXPECTED, Exact()))
            np.testing.assert_allclose(form(counts - EXPECTED), theirs.statistic, rtol=1e-12)
        ours = chisquare(
            counts, EXPECTED, mechanism=Exact(), statistic="projected", method="asymptotic"
        )
        np.testing.assert_allclose(tuple(ours), tuple(theirs), rtol=1e-12)


def enumerated(observed, n, p, scale):
    """P(statistic >= observed) for Pearson's statistic, listing tables and geometric noises."""
    reach = int(30 * scale)
    noise = np.arange(-reach, reach + 1)
    pmf = Geometric(scale=scale).pmf(noise)
    expected = n * np.asarray(p)
    total = 0.0
    for counts in product(range(n + 1), repeat=len(p)):
        if sum(counts) != n:
            continue
        weight = factorial(n) * np.prod(
            [q**k / factorial(k) for k, q in zip(counts, p, strict=True)]
        )
        cells = [(k + noise - f) ** 2 / f for k, f in zip(counts, expected, strict=True)]
        statistic = cells[0][:, None, None] + cells[1][:, None] + cells[2]
        chance = pmf[:, None, None] * pmf[:, None] * pmf
        total += weight * chance[statistic >= observed - 1e-9].sum()
    return total


@pytest.mark.parametrize("table", [(3, 1, -1), (0, 5, 2), (2, 2, 1)])
def test_monte_carlo_agrees_with_enumeration(table):
    n, p, scale, reps = 4, [0.2, 0.5, 0.3], 0.7, 200_000
    result = chisquare(
        np.array(table), n * np.array(p), mechanism=Geometric(scale=scale), reps=reps, rng=3
    )
    exact = enumerated(result.statistic, n, p, scale)
    # 6 standard errors and one replicate for the (1 + b)/(R + 1): 2e-9
    assert abs(result.pvalue - exact) < 6 * np.sqrt(exact * (1 - exact) / reps) + 1 / reps


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("mechanism", [Laplace(scale=2.0), MIXED], ids=repr)
def test_simulated_pvalues_follow_a_second_simulation(mechanism, statistic):
    """The same null distribution written plainly with NumPy."""
    published = np.array([31.2, 55.0, 119.5, 198.1])
    options = {"mechanism": mechanism, "statistic": statistic}
    result = chisquare(published, EXPECTED, **options, reps=100_000, rng=4)
    rng, reps = np.random.default_rng(40), 100_000
    noise = np.column_stack(
        [
            rng.laplace(0, 2, reps),
            np.zeros(reps) if mechanism is MIXED else rng.laplace(0, 2, reps),
            rng.normal(0, 5, reps) if mechanism is MIXED else rng.laplace(0, 2, reps),
            rng.laplace(0, 0.5 if mechanism is MIXED else 2, reps),
        ]
    )
    deviations = rng.multinomial(400, EXPECTED / 400, reps) + noise - EXPECTED
    variance = np.array([8, 0, 25, 0.5]) if mechanism is MIXED else np.full(4, 8.0)
    if statistic == "pearson":
        replicates = (deviations**2 / EXPECTED).sum(axis=1)
    else:
        k, n = 4, 400
        projection = np.eye(k) - 1 / k
        covariance = np.diag(EXPECTED + variance) - np.outer(EXPECTED, EXPECTED) / n
        inverse = np.linalg.pinv(projection @ covariance @ projection, rcond=1e-11)
        replicates = np.einsum("ri,ij,rj->r", deviations, inverse, deviations)
    share = np.mean(replicates >= result.statistic)
    # 6 standard errors of a difference: 2e-9
    assert abs(result.pvalue - share) < 6 * np.sqrt(2 * share * (1 - share) / reps) + 1e-5


@pytest.mark.parametrize("noise", [Gaussian(sigma=5.0), DiscreteGaussian(sigma=40.0)], ids=repr)
def test_asymptotic_is_the_limit_under_gaussian_noise(noise):
    expected = EXPECTED * 100
    published = np.round(expected + np.array([-90.0, 30.0, 160.0, -60.0]))
    options = {"f_exp": expected, "mechanism": noise, "statistic": "projected"}
    limit = chisquare(published, **options, method="asymptotic")
    simulated = chisquare(published, **options, reps=100_000, rng=5)
    assert limit.statistic == simulated.statistic
    # 6 standard errors, and the distance from the limit at n = 40,000
    assert abs(limit.pvalue - simulated.pvalue) < 6 * simulated.mc_error + 1e-3


def test_uniform_by_default():
    given_all = chisquare([10.5, 3.5, -0.5], [5, 5, 5], mechanism=Laplace(scale=1.0), rng=1)
    default = chisquare([10.5, 3.5, -0.5], nobs=15, mechanism=Laplace(scale=1.0), rng=1)
    assert tuple(default) == tuple(given_all)
    assert default.nobs == 15


def test_a_wrong_null_hypothesis_is_rejected():
    result = chisquare([200, 100, 60, 40], EXPECTED, mechanism=Geometric(scale=2.0), rng=1)
    assert result.pvalue == 1 / 10_001
    assert result.alternative == "larger"
    assert result.statistic >= result.null_distribution.critical_value(0.001, "larger")


def test_labels_have_to_agree_and_order_does_not_matter():
    published = pd.Series(PUBLISHED, index=list("abcd"))
    expected = pd.Series(EXPECTED, index=list("abcd"))
    options = {"mechanism": Gaussian(sigma=5.0), "statistic": "projected", "method": "asymptotic"}
    forth = chisquare(published, expected, **options)
    back = chisquare(published[::-1], expected[::-1], **options)
    assert forth.pvalue == pytest.approx(back.pvalue, rel=1e-12)
    with pytest.raises(InvalidParameterError, match="labels of f_obs"):
        chisquare(published, expected[::-1], **options)


def test_small_expected_counts_are_flagged():
    valid = chisquare([3, -1, 2], [1, 1, 2], mechanism=Geometric(scale=1.0), rng=1)
    assert any("below 5 in 3 cells" in note and "valid" in note for note in valid.notes)
    assert "below 5" in valid.summary()
    with pytest.warns(ApproximationWarning, match="below 5 in 3 cells"):
        doubtful = chisquare(
            [3.0, -1.0, 2.0],
            [1, 1, 2],
            mechanism=Gaussian(sigma=1.0),
            statistic="projected",
            method="asymptotic",
        )
    assert any("not to be trusted" in note for note in doubtful.notes)


def test_the_limit_under_other_noise_is_flagged():
    with pytest.warns(ApproximationWarning, match="not Gaussian"):
        chisquare(
            PUBLISHED,
            EXPECTED,
            mechanism=Laplace(scale=2.0),
            statistic="projected",
            method="asymptotic",
        )


def test_seeds():
    options = {"f_exp": EXPECTED, "mechanism": Laplace(scale=2.0), "reps": 2000}
    one, two = (chisquare(PUBLISHED, **options, rng=1).pvalue for _ in range(2))
    assert one == two
    assert chisquare(PUBLISHED, **options, rng=2).pvalue != one


def test_summary_names_what_was_done():
    text = chisquare(PUBLISHED, EXPECTED, mechanism=Laplace(scale=2.0), rng=1).summary()
    for part in ("Goodness of fit", "4 cells, pearson statistic", "monte-carlo", "400", "mc_error"):
        assert part in text


GOOD = {"f_obs": PUBLISHED, "f_exp": EXPECTED, "mechanism": Laplace(scale=2.0)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"f_obs": [3.0]}, "f_obs must have at least 2 cells"),
        ({"f_obs": []}, "f_obs must hold at least one"),
        ({"f_obs": [1.0, np.nan]}, "f_obs must not contain NaN"),
        ({"f_obs": [1.0, 2.0, 3.0, 1e200]}, "f_obs must be <="),
        ({"f_obs": np.ones((2, 2))}, "f_obs must be one-dimensional"),
        ({"f_obs": [1.0, 2.0]}, "f_exp must have 2 entries, one for each of the cells of f_obs"),
        ({"f_obs": [1.0, 1j]}, "f_obs must be real"),
        ({"f_exp": [40.0, 60.0, 100.0, 0.0]}, "f_exp must be > 0, got 0.0 at position 3"),
        ({"f_exp": [40.0, 60.0, 100.0, np.inf]}, "f_exp must be finite"),
        ({"f_exp": [0.1, 0.2, 0.3, 0.1]}, "f_exp must add up to a whole number >= 1, got 0.7"),
        ({"nobs": 300}, "f_exp must add up to nobs = 300, got 400"),
        ({"f_exp": None}, "nobs must be given where f_exp is not"),
        ({"f_exp": None, "nobs": 10.5}, "nobs must be a whole number"),
        ({"f_exp": None, "nobs": 0}, "nobs must be >= 1"),
        ({"f_exp": None, "nobs": 10**17}, "nobs must be <="),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "mechanism must have one law"),
        ({"mechanism": Geometric(scale=2.0)}, "f_obs must hold whole numbers where the noise"),
        ({"mechanism": "laplace"}, "mechanism must be a noise law"),
        ({"statistic": "neyman"}, "statistic must be one of 'pearson', 'projected'"),
        ({"method": "exact"}, "method must be one of 'monte-carlo', 'asymptotic'"),
        ({"method": "asymptotic"}, "statistic must be 'projected' with method='asymptotic'"),
        ({"reps": 0.5}, "reps must be a whole number"),
        ({"rng": "x"}, "rng must be"),
    ],
)
def test_bad_arguments_say_what_is_wrong(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        chisquare(**{**GOOD, **changes})


anything = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.lists(st.one_of(st.floats(), st.integers(-5, 200), st.none()), max_size=4),
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(f_obs=anything, f_exp=anything, nobs=anything)
def test_only_our_own_errors_escape(f_obs, f_exp, nobs):
    try:
        result = chisquare(f_obs, f_exp, nobs=nobs, mechanism=Laplace(scale=2.0), reps=10, rng=1)
    except DPInferError:
        return
    assert 0 < result.pvalue <= 1
    assert np.isfinite(result.statistic)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    cells=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20),
    nobs=st.integers(1, 10**9),
    scale=st.floats(1e-3, 1e9),
)
def test_projected_is_never_negative(cells, nobs, scale):
    table = NoisyTable(nobs, np.full(len(cells), nobs / len(cells)), Laplace(scale=scale))
    assert projected(table)(np.array(cells)) >= 0
