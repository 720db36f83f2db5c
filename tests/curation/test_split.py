"""Dividing a budget between a release and its error estimate, and when that is worth it."""

from contextlib import suppress

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.curation import best_split, compare_spending
from dpinfer.curation.spending import final_law
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, WeightedSum
from dpinfer.privacy import GDP, ZCDP, PureDP


@pytest.mark.parametrize("budget", [PureDP(2.0), ZCDP(0.5), GDP(1.0)])
def test_without_unprocessed_values_the_error_gets_all_that_is_left(budget):
    split = best_split(budget, unprocessed=False, release_at_least=0.3, alpha=0.1)
    assert split.release_share == pytest.approx(0.3)
    assert split.width == pytest.approx(2 * split.error_mechanism.isf(0.05))
    assert split.widths[-1] == np.inf
    assert (np.diff(split.widths[:-1]) > 0).all()


def test_pure_budgets_are_best_undivided():
    split = best_split(PureDP(2.0), alpha=0.1)
    assert (split.release_share, split.error_share) == (1.0, 0.0)
    assert split.width == pytest.approx(2 * 0.5 * np.log(10))
    assert split.error_mechanism is None
    # every division is wider, and the equal one is nearly the worst
    assert (split.widths[1:-1] > split.width).all()
    half = split.widths[np.argmin(np.abs(split.shares - 0.5))]
    law = WeightedSum([0.5, 0.5], Laplace(scale=1.0))
    assert half == pytest.approx(2 * law.isf(0.05), rel=1e-9)
    # P(average of two Laplace noises of scale 1 > t) = (1 + t)·exp(-2t)/2
    t = mpmath.findroot(lambda t: (1 + t) * mpmath.exp(-2 * t) / 2 - mpmath.mpf("0.05"), 1.5)
    assert half == pytest.approx(2 * float(t), rel=1e-9)


@pytest.mark.parametrize("budget", [ZCDP(0.5), GDP(1.0)])
def test_gaussian_widths_do_not_depend_on_the_division(budget):
    split = best_split(budget)
    np.testing.assert_allclose(split.widths, split.width, rtol=1e-9)
    assert split.release_share == 1.0


@pytest.mark.parametrize(
    ("budget", "mechanism"), [(PureDP(1.0), Geometric), (ZCDP(0.2), DiscreteGaussian)]
)
def test_whole_numbered_noise(budget, mechanism):
    split = best_split(budget, mechanism=mechanism, sensitivity=2)
    assert split.width == split.widths.min()
    at_end = best_split(budget, mechanism=mechanism, sensitivity=2, release_at_least=1.0)
    assert at_end.width >= split.width
    assert len(at_end.shares) == 1
    assert "Division of a budget" in str(split)
    assert list(split.summary_frame().columns) == ["release_share", "error_share", "width"]


def test_whole_numbered_noise_may_be_narrower_divided_by_enumeration():
    epsilon, alpha = 1.026, 0.5
    k = np.arange(-150, 151)

    def quantile(share):
        """Upper quantile of the average by inverse variance, from all pairs of noises."""
        rates = epsilon * np.array([share, 1.0 - share])
        precision = np.square(np.sinh(rates / 2))
        weights = precision / precision.sum()
        pmf = [np.tanh(rate / 2) * np.exp(-rate * np.abs(k)) for rate in rates]
        values = np.add.outer(weights[0] * k, weights[1] * k).ravel()
        order = np.argsort(-values)
        tail = np.cumsum(np.multiply.outer(*pmf).ravel()[order])
        return values[order][np.searchsorted(tail, alpha / 2 * (1 + 1e-12), side="right")]

    split = best_split(PureDP(epsilon), mechanism=Geometric, alpha=alpha)
    assert split.release_share == pytest.approx(0.844, abs=1e-3)
    assert split.width == pytest.approx(2 * quantile(split.release_share), rel=1e-9)
    # undivided, the noise is within ±1 with probability 1/2 or more
    assert split.widths[-1] == 2.0
    for share in np.linspace(0.02, 0.98, 97):
        assert 2 * quantile(share) >= split.width * (1 - 1e-3)


def test_budgets_that_leave_no_variance():
    # geometric noise with ε = 2000 and 1600 is 0 in every float
    split = best_split(PureDP(2000.0), mechanism=Geometric, release_at_least=0.8)
    assert (split.width, split.release_share) == (0.0, 1.0)
    assert (split.widths == 0.0).all()
    equal = final_law(Geometric(scale=1 / 30), Geometric(scale=1 / 2000))
    assert equal == Geometric(scale=1 / 2000)


@pytest.mark.parametrize(("budget", "law"), [(PureDP(2.0), Laplace), (ZCDP(0.5), Gaussian)])
def test_expected_widths_by_simulation(budget, law):
    truth = np.array([1.0, 1.5, 4.0, 60.0])
    found = compare_spending(budget, truth, alpha=0.1, lower=1.0)
    rng = np.random.default_rng(3)
    full = law.from_epsilon(2.0) if law is Laplace else law.from_rho(0.5)
    half = law.from_epsilon(1.0) if law is Laplace else law.from_rho(0.25)
    reps = 40_000
    for at, value in enumerate(truth):
        noisy = value + full.rvs(reps, rng=rng)
        first = count_confint(noisy, mechanism=full, alpha=0.1, lower=1.0).width
        clamped = count_confint(
            np.maximum(noisy, 1.0), mechanism=full, clamp=1.0, alpha=0.1, lower=1.0
        ).width
        error = count_confint(
            value + half.rvs(reps, rng=rng), mechanism=half, alpha=0.1, lower=1.0
        ).width
        both = WeightedSum([0.5, 0.5], half)
        t = both.isf(0.05)
        average = value + (half.rvs((2, reps), rng=rng)).mean(axis=0)
        final = np.maximum(average + t - 1.0, 0.0) - np.maximum(average - t - 1.0, 0.0)
        names = ("undivided", "clamped", "error", "both")
        for name, widths in zip(names, (first, clamped, error, final), strict=True):
            # six standard errors of a mean
            room = 6 * widths.std() / np.sqrt(reps) + 1e-9
            assert getattr(found, name)[at] == pytest.approx(widths.mean(), abs=room), name


def test_far_from_the_bound_widths_are_those_of_the_laws():
    found = compare_spending(PureDP(2.0), 1e6, release_share=0.25, alpha=0.05)
    assert found.undivided == pytest.approx(np.log(20), rel=1e-9)
    assert found.clamped == pytest.approx(np.log(20), rel=1e-9)
    assert found.error == pytest.approx(np.log(20) / 0.75, rel=1e-9)
    assert found.ratio == pytest.approx(4 / 3)


def test_expected_width_at_the_bound_in_closed_form():
    # ∫ of the Laplace distribution function over ±t is t, as it is symmetric about 1/2
    found = compare_spending(PureDP(1.0), 0.0, alpha=0.1)
    assert found.undivided == pytest.approx(np.log(10), rel=1e-12)
    # clamped: t + ∫ from t to 2t of (cdf - sf) + ... = t + (1 - e^-t)²/2 ... by quadrature
    t = np.log(10)
    cdf = lambda u: 1 - mpmath.exp(-u) / 2  # noqa: E731
    low = mpmath.quad(cdf, [t, 2 * t])
    rest = mpmath.quad(lambda u: mpmath.exp(-u) / 2, [0, 2 * t])
    assert found.clamped == pytest.approx(float(low + rest), rel=1e-12)


def test_an_error_estimate_never_beats_a_known_law():
    truth = pd.Series(np.linspace(0, 20, 41))
    for budget in (PureDP(0.5), ZCDP(0.1), GDP(1.0)):
        found = compare_spending(budget, truth)
        assert (found.ratio >= 1.0).all()
        assert (found.both >= found.undivided - 1e-9).all()
        assert found.error.index.equals(truth.index)
    assert "Expected widths" in str(found)
    assert repr(found).startswith("SpendingComparison(41 values")


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (best_split, {"budget": 1.0}, "budget must be"),
        (best_split, {"budget": PureDP(1.0), "alpha": 0.0}, "alpha must be > 0"),
        (best_split, {"budget": PureDP(1.0), "unprocessed": 1}, "unprocessed must be True"),
        (best_split, {"budget": PureDP(1.0), "release_at_least": 1.5}, "release_at_least"),
        (best_split, {"budget": PureDP(1.0), "sensitivity": 0}, "sensitivity must be > 0"),
        (compare_spending, {"budget": PureDP(1.0), "truth": -1.0}, "truth must be >= lower"),
        (
            compare_spending,
            {"budget": PureDP(1.0), "truth": 1.0, "mechanism": Geometric},
            "continuous",
        ),
        (
            compare_spending,
            {"budget": PureDP(1.0), "truth": 1.0, "release_share": 1.0},
            "release_share",
        ),
    ],
)
def test_refusals(function, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        function(**arguments)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(
    budget=st.one_of(
        st.floats(0, 1e30).map(PureDP), st.floats(0, 1e30).map(ZCDP), st.floats(0, 1e30).map(GDP)
    ),
    sensitivity=st.floats(),
    alpha=st.floats(0, 1),
    truth=st.lists(st.floats(), max_size=3),
)
def test_only_own_errors_escape(budget, sensitivity, alpha, truth):
    for run in (
        lambda: best_split(budget, sensitivity=sensitivity, alpha=alpha).width,
        lambda: compare_spending(budget, truth, sensitivity=sensitivity, alpha=alpha).both,
    ):
        with suppress(DPInferError):
            assert not np.isnan(run()).any()
