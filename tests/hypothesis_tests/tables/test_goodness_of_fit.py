"""The goodness-of-fit test against dense algebra, enumeration and scipy."""

import pickle
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
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    RandomizedResponse,
    Tulap,
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


def statistic_of(published, mechanism, statistic="projected", expected=EXPECTED):
    options = {"mechanism": mechanism, "statistic": statistic}
    return chisquare(published, expected, **options, method="monte-carlo", reps=1, rng=1).statistic


class TestStatistics:
    @pytest.mark.parametrize(
        "noise",
        [Laplace(scale=2.0), Gaussian(sigma=30.0), IndependentNoise(MIXED), Gaussian(sigma=1e-4)],
        ids=repr,
    )
    def test_projected_is_the_form_in_the_contrasts(self, noise):
        variance = np.broadcast_to(noise.variance, 4)
        for deviations in np.random.default_rng(1).normal(0, 9, (20, 4)):
            deviations[1] = np.round(deviations[1])  # a cell without noise in one case
            found = statistic_of(EXPECTED + deviations, noise)
            assert found == pytest.approx(dense_projected(deviations, EXPECTED, variance), rel=1e-8)

    def test_projected_ignores_what_is_added_to_all_cells(self):
        noise = IndependentNoise([Gaussian(sigma=3.0), *MIXED[::2], MIXED[3]])
        found = statistic_of(PUBLISHED + 1234.5, noise)
        assert found == pytest.approx(statistic_of(PUBLISHED, noise), rel=1e-9)

    def test_without_noise_both_are_that_of_pearson(self):
        counts = np.array([31.0, 55.0, 116.0, 198.0])
        theirs = stats.chisquare(counts, EXPECTED)
        for statistic in ("pearson", "projected"):
            found = statistic_of(counts, Exact(), statistic)
            assert found == pytest.approx(theirs.statistic, rel=1e-12)
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
def test_exact_and_monte_carlo_agree_with_enumeration(table):
    n, p, scale, reps = 4, [0.2, 0.5, 0.3], 0.7, 200_000
    options = {"f_exp": n * np.array(p), "mechanism": Geometric(scale=scale)}
    result = chisquare(np.array(table), **options, method="monte-carlo", reps=reps, rng=3)
    exact = enumerated(result.statistic, n, p, scale)
    computed = chisquare(np.array(table), **options)
    assert computed.method == "exact"
    assert computed.pvalue == pytest.approx(exact, abs=1e-12)
    # 6 standard errors and one replicate for the (1 + b)/(R + 1): 2e-9
    assert abs(result.pvalue - exact) < 6 * np.sqrt(exact * (1 - exact) / reps) + 1 / reps


@pytest.mark.parametrize("statistic", ["pearson", "projected"])
@pytest.mark.parametrize("mechanism", [Laplace(scale=2.0), MIXED], ids=repr)
def test_simulated_pvalues_follow_a_second_simulation(mechanism, statistic):
    """The same null distribution written plainly with NumPy."""
    published = np.array([31.2, 55.0, 119.5, 198.1])
    options = {"mechanism": mechanism, "statistic": statistic}
    result = chisquare(published, EXPECTED, **options, method="monte-carlo", reps=100_000, rng=4)
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
    options = {"f_exp": EXPECTED, "mechanism": Geometric(scale=2.0)}
    result = chisquare([200, 100, 60, 40], **options, method="monte-carlo", rng=1)
    assert result.pvalue == 1 / 10_001
    assert result.alternative == "larger"
    assert result.statistic >= result.null_distribution.critical_value(0.001, "larger")
    assert chisquare([200, 100, 60, 40], **options).pvalue < 1e-10


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
    small = {"f_exp": [1, 1, 2], "mechanism": Geometric(scale=1.0)}
    valid = chisquare([3, -1, 2], **small, method="monte-carlo", rng=1)
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


def test_the_limit_of_pearsons_statistic_under_gaussian_noise():
    expected = EXPECTED * 1000
    published = expected + np.array([-300.0, 90.0, 500.0, -200.0])
    noise = Gaussian(sigma=150.0)
    limit = chisquare(published, expected, mechanism=noise, method="asymptotic")
    exact = chisquare(published, expected, mechanism=noise)
    assert exact.method == "exact"
    assert limit.pvalue == pytest.approx(exact.pvalue, abs=1e-3)
    # the same by simulation of the limiting form
    share = expected / expected.sum()
    values = np.linalg.eigvalsh(np.diag(1 + 150**2 / expected) - np.sqrt(np.outer(share, share)))
    normal = np.random.default_rng(6).standard_normal((100_000, 4))
    found = np.mean(np.square(normal) @ values >= limit.statistic)
    # 6 standard errors: 2e-9
    assert abs(limit.pvalue - found) < 6 * np.sqrt(found * (1 - found) / 100_000)
    assert limit.null_distribution.pvalue(500.0, "larger") > 0


def test_without_noise_the_limit_is_that_of_scipy():
    counts = np.array([31.0, 55.0, 116.0, 198.0])
    theirs = stats.chisquare(counts, EXPECTED)
    for noise in (Exact(), Gaussian(sigma=1e-7), DiscreteGaussian(sigma=1e-3)):
        ours = chisquare(counts, EXPECTED, mechanism=noise, method="asymptotic")
        np.testing.assert_allclose(tuple(ours), tuple(theirs), rtol=1e-12)
    exact = chisquare(counts, EXPECTED, mechanism=Exact())
    assert exact.pvalue == pytest.approx(theirs.pvalue, abs=0.01)


def test_reports_are_tested_through_their_channel():
    channel = RandomizedResponse(p=0.8, categories=3)
    reports = np.array([52, 31, 17])
    result = chisquare(reports, [60, 40, 0], mechanism=channel)
    expected = np.array([60, 40, 0]) @ channel.matrix
    plain = chisquare(reports, expected, mechanism=Exact())
    assert tuple(result) == tuple(plain)
    assert result.nobs == 100
    # respondents one by one
    rng, reps = np.random.default_rng(10), 20_000
    truth = rng.choice(3, p=[0.6, 0.4, 0.0], size=(reps, 100))
    answers = channel.randomize(truth, rng=rng)
    counts = np.stack([(answers == i).sum(axis=1) for i in range(3)], axis=1)
    share = np.mean(np.square(counts - expected) @ (1 / expected) >= result.statistic - 1e-9)
    # 6 standard errors: 2e-9
    assert abs(result.pvalue - share) < 6 * np.sqrt(share * (1 - share) / reps)
    assert chisquare(reports, mechanism=channel).nobs == 100


@pytest.mark.thinned("noise", "cells", every=2)
@pytest.mark.parametrize("noise", [Geometric(scale=2.0), DiscreteGaussian(sigma=3.0)], ids=repr)
@pytest.mark.parametrize("cells", [6, 8])
def test_uneven_cells_with_whole_numbered_noise_have_exact_pvalues(cells, noise):
    rng, reps = np.random.default_rng(cells), 100_000
    expected = 1000.0 * rng.dirichlet(np.full(cells, 5.0))
    published = rng.multinomial(1000, expected / 1000.0) + noise.rvs(cells, rng=3)
    result = chisquare(published, expected, mechanism=noise)
    assert result.method == "exact"
    assert 1e-8 < result.pvalue_error <= 1e-3 * result.pvalue
    assert any("which is added to it" in note for note in result.notes)
    drawn = rng.multinomial(1000, expected / 1000.0, reps) + noise.rvs((reps, cells), rng=4)
    statistic = np.square(drawn - expected) @ (1.0 / expected)
    share = np.mean(statistic >= result.statistic * (1.0 - 1e-12))
    # 6 standard errors of each of four: 8e-9 in all
    assert abs(result.pvalue - share) < 6.0 * np.sqrt(share * (1.0 - share) / reps)


def test_exact_where_it_is_available_else_simulated():
    assert chisquare(PUBLISHED, EXPECTED, mechanism=Laplace(scale=2.0)).method == "exact"
    noise = Tulap(scale=1.0, truncation=0.1)
    result = chisquare(PUBLISHED, EXPECTED, mechanism=noise, reps=100, rng=1)
    assert result.method == "monte-carlo"
    assert any("not available for this table" in note for note in result.notes)
    uneven = [33, 66, 101, 57, 88, 99]
    result = chisquare(uneven, uneven[::-1], mechanism=Geometric(scale=2.0), reps=100, rng=1)
    assert result.method == "monte-carlo"
    assert any("could be had with an error of" in note for note in result.notes)
    projected_one = chisquare(
        PUBLISHED, EXPECTED, mechanism=Laplace(scale=2.0), statistic="projected", reps=100, rng=1
    )
    assert projected_one.method == "monte-carlo"


@pytest.mark.parametrize("method", ["exact", "monte-carlo", "asymptotic"])
def test_results_can_be_pickled(method):
    result = chisquare(
        PUBLISHED, EXPECTED, mechanism=Gaussian(sigma=4.0), method=method, reps=100, rng=1
    )
    copy = pickle.loads(pickle.dumps(result))
    assert copy.null_distribution.pvalue(5.0, "larger") == pytest.approx(
        result.null_distribution.pvalue(5.0, "larger"), abs=1e-12
    )


def test_workers_do_not_change_the_answer():
    options = {"f_exp": EXPECTED, "mechanism": Laplace(scale=2.0), "method": "monte-carlo"}
    one, two = (chisquare(PUBLISHED, **options, rng=1, n_jobs=n).pvalue for n in (1, 2))
    assert one == two


def test_sampling_ends_once_the_pvalue_is_precise():
    options = {"f_exp": EXPECTED, "mechanism": Laplace(scale=2.0), "method": "monte-carlo"}
    result = chisquare(PUBLISHED, **options, rng=1, reps=10**6, precision=0.1)
    exact = chisquare(PUBLISHED, EXPECTED, mechanism=Laplace(scale=2.0)).pvalue
    # relative standard error 0.1: 6 of them
    assert abs(result.pvalue - exact) < 0.6 * exact


def test_critical_values_of_the_exact_law():
    null = chisquare(PUBLISHED, EXPECTED, mechanism=Gaussian(sigma=3.0)).null_distribution
    value = null.critical_value(0.05, "larger")
    assert null.pvalue(value, "larger") == pytest.approx(0.05, abs=1e-9)


def test_seeds():
    options = {"f_exp": EXPECTED, "mechanism": Laplace(scale=2.0), "reps": 2000}
    options["method"] = "monte-carlo"
    one, two = (chisquare(PUBLISHED, **options, rng=1).pvalue for _ in range(2))
    assert one == two
    assert chisquare(PUBLISHED, **options, rng=2).pvalue != one


def test_summary_names_what_was_done():
    options = {"mechanism": Laplace(scale=2.0), "method": "monte-carlo", "rng": 1}
    text = chisquare(PUBLISHED, EXPECTED, **options).summary()
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
        (
            {"f_obs": [1.0, 2.0]},
            "f_exp must be a number, or have one entry for each of the 2 values",
        ),
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
        ({"method": "guess"}, "method must be one of 'exact', 'monte-carlo', 'asymptotic'"),
        (
            {"method": "exact", "statistic": "projected"},
            "statistic must be 'pearson' with method='exact'",
        ),
        (
            {"method": "exact", "mechanism": Tulap(scale=1.0, truncation=0.1)},
            "the exact law is not available for this table",
        ),
        ({"mechanism": Exact(), "f_obs": [40, 60, 100, 199]}, "f_obs must add up to nobs"),
        ({"ddof": 1}, "ddof must be 0, got 1: .*chisquare_fit"),
        ({"ddof": 0.5}, "ddof must be a whole number"),
        ({"mechanism": RandomizedResponse(p=0.7, categories=3)}, "4 cells of f_obs"),
        ({"mechanism": RandomizedResponse(p=0.7, categories=4)}, "f_obs must hold whole numbers"),
        ({"n_jobs": 0.5}, "n_jobs must be"),
        ({"precision": 2.0}, "precision must be"),
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


@settings(derandomize=True, deadline=None, max_examples=100)
@given(f_obs=anything, f_exp=anything, nobs=anything)
def test_only_our_own_errors_escape(f_obs, f_exp, nobs):
    try:
        result = chisquare(f_obs, f_exp, nobs=nobs, mechanism=Laplace(scale=2.0), reps=10, rng=1)
    except DPInferError:
        return
    assert 0 <= result.pvalue <= 1
    # 0 is an answer only where the result says that it has an absolute error
    assert result.pvalue > 0 or any("absolute error" in note for note in result.notes)
    assert np.isfinite(result.statistic)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    cells=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20),
    nobs=st.integers(1, 10**9),
    scale=st.floats(1e-3, 1e9),
)
def test_projected_is_never_negative(cells, nobs, scale):
    expected = np.full(len(cells), nobs / len(cells))
    assert statistic_of(cells, Laplace(scale=scale), expected=expected) >= 0
