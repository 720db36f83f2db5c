"""Sets for the largest, ranks and the value of the winner: constants, enumeration, refusals."""

from functools import cache
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals import ranking, winner_confint
from dpinfer.mechanisms import Tulap

UNIT = dpi.Laplace(scale=1.0)
WHOLE = dpi.DiscreteGaussian(sigma=0.6)


@pytest.mark.parametrize(
    ("law", "number", "c"),
    [
        (UNIT, 2, 3.27181),
        (UNIT, 10, 5.39004),
        (UNIT, 100, 7.77472),
        (dpi.Gaussian(sigma=1.0), 2, 2.32617),
        (dpi.Gaussian(sigma=1.0), 10, 3.41818),
    ],
)
def test_set_of_the_largest(law, number, c):
    """Gupta's constants: the gap at which the p-value is .05."""
    for gap, kept in ((c - 1e-4, True), (c + 1e-4, False)):
        found = ranking([gap, *np.zeros(number - 1)], mechanism=law).best()
        assert found["best"].iloc[1] == kept
        assert found["pvalue"].iloc[1] == pytest.approx(0.05, abs=1e-4)
    assert found["pvalue"].iloc[0] == 1.0


@pytest.mark.parametrize(
    ("number", "one", "every"), [(2, 4.11300, 4.11300), (10, 6.24252, 7.63759)]
)
def test_ranks(number, one, every):
    for c, simultaneous in ((one, False), (every, True)):
        for gap, decided in ((c - 1e-4, 0), (c + 1e-4, 1)):
            y = np.zeros(number)
            y[0] = gap
            found = ranking(y, mechanism=UNIT).ranks(simultaneous=simultaneous)
            assert found["upper"].iloc[0] == (1 if decided else number)
            assert found["lower"].iloc[1] == 1 + decided


@pytest.mark.parametrize(("m", "c"), [(1, 5.39004), (3, 6.18873), (5, 6.35327)])
def test_top(m, c):
    for gap, sure in ((c - 1e-4, False), (c + 1e-4, True)):
        y = np.zeros(10)
        y[:m] = gap
        found = ranking(y, mechanism=UNIT).top(m)
        assert found["surely"].to_numpy()[:m].all() == sure
        assert found["possibly"].to_numpy()[m:].any() != sure


@cache
def _statements(y, law, alpha):
    """Of values in a tuple, once for all truths."""
    found = ranking(y, mechanism=law, alpha=alpha)
    one, every = found.ranks(), found.ranks(simultaneous=True)
    top = found.top(2)
    interval = winner_confint(y, mechanism=law, alpha=alpha)
    return found.best()["best"], one, every, top, interval


@pytest.mark.slow
@pytest.mark.parametrize("truth", [(2, 2, 2), (2, 2, 1), (3, 2, 0)])
def test_levels_by_enumeration(truth):
    """Every outcome of three discrete Gaussian noises: each statement misses at most a tenth."""
    alpha, f = 0.1, np.array(truth, dtype=float)
    support = np.arange(-3.0, 4.0)
    beyond = 1.0 - WHOLE.pmf(support).sum() ** 3  # counts as missed
    missed = dict.fromkeys(("best", "one", "every", "winner"), 0.0)
    for e in product(support, repeat=3):
        p = float(np.prod(WHOLE.pmf(np.array(e))))
        y = f + e
        best, one, every, top, interval = _statements(tuple(y - y[0]), WHOLE, alpha)
        winner, moved = int(np.argmax(y)), y[0]
        largest = np.flatnonzero(f == f.max())
        missed["best"] = missed["best"] + p * (~best.to_numpy()[largest]).astype(float)
        # a rank of each of equal values, in any order
        low, high = 1 + (f[:, None] < f).sum(axis=1), (f[:, None] <= f).sum(axis=1)
        ok = [(t["lower"] <= low) & (t["upper"] >= high) for t in (one, every)]
        missed["one"] = missed["one"] + p * (~ok[0].to_numpy()).astype(float)
        missed["every"] += p * (not ok[1].all())
        sure, possible = top["surely"].to_numpy(), top["possibly"].to_numpy()
        for group in combinations(range(3), 2):
            if min(f[list(group)]) >= np.delete(f, group).max():  # of equal ones, either
                fits = set(np.flatnonzero(sure)) <= set(group) <= set(np.flatnonzero(possible))
                missed[group] = missed.get(group, 0.0) + p * (not fits)
        inside = interval.lower + moved <= f[winner] <= interval.upper + moved
        missed["winner"] += p * (not inside)
    assert all(np.max(share) + beyond <= alpha for share in missed.values())
    assert len(missed) >= 5


@pytest.mark.parametrize("law", [UNIT, dpi.Geometric(scale=2.0), Tulap(scale=1.3)], ids=repr)
def test_pvalues_by_simulation(law):
    """Within 6 standard errors: 2e-9 each, 9 of them."""
    y = np.array([3.0, 1.0, 0.0]) + (0.0 if law.is_integer else 0.25)
    e = law.rvs((100_000, 3), rng=5).astype(float)
    behind = e.max(axis=1, keepdims=True) - e
    p = ranking(y, mechanism=law).best()["pvalue"].to_numpy()
    freq = (behind >= y.max() - y).mean(axis=0)
    assert (np.abs(freq - p) <= 6.0 * np.sqrt(p * (1.0 - p) / 100_000)).all()


def test_scales_of_their_own():
    law = dpi.Laplace(scale=np.array([1.0, 1.0, 5.0]))
    found = ranking(pd.Series([12.0, 0.2, 0.1], index=list("abc")), mechanism=law)
    assert list(found.best().index) == list("abc")
    assert list(found.best()["best"]) == [True, False, True]
    assert len(found) == 3
    assert "2 of which may be the largest" in repr(found)
    with pytest.raises(InvalidParameterError, match="top needs noises of one law"):
        found.top(1)


def test_winner():
    counts = [100.4, 97.9, 80.2, 61.0, 55.5]
    law = dpi.Laplace(scale=2.0)
    found = winner_confint(counts, mechanism=law)
    each = 1.0 - 0.975 ** (1 / 5)
    assert found.lower == pytest.approx(100.4 - law.isf(each), rel=1e-14)
    assert found.upper == pytest.approx(100.4 + law.isf(0.025), rel=1e-14)
    near = winner_confint(counts, mechanism=law, method="conditional")
    assert near.lower == -np.inf
    assert not any("lower=" in note for note in near.notes)
    far = winner_confint([130.4, *counts[1:]], mechanism=law, method="conditional")
    assert far.width == pytest.approx(2 * law.isf(0.025), rel=1e-4)
    wide = winner_confint(counts, mechanism=law, method="simultaneous")
    assert found.width < wide.width
    # one before it would have won with the same value, and one after it would not
    whole = dpi.DiscreteGaussian(sigma=2.0)
    after, before = (
        winner_confint(y, mechanism=whole, method="conditional") for y in ([5, 9], [9, 5])
    )
    wanted = [dpi.count_confint(9, mechanism=whole, threshold=threshold) for threshold in (6, 5)]
    assert (after.lower, after.upper) == (wanted[0].lower, wanted[0].upper)
    assert (before.lower, before.upper) == (wanted[1].lower, wanted[1].upper)
    assert after.lower < before.lower


@pytest.mark.parametrize(
    ("values", "mechanism", "message"),
    [
        ([3.5], UNIT, "at least two values"),
        ([3.5, 2.0], [UNIT, dpi.Geometric(scale=1.0)], "with both"),
        ([3.5, 2.0], [UNIT, dpi.Exact()], "one is exact"),
        ([3, 2], dpi.Geometric(scale=1e9), "values worth a mention"),
    ],
)
def test_refusals(values, mechanism, message):
    with pytest.raises(InvalidParameterError, match=message):
        ranking(values, mechanism=mechanism).best()


def test_dependent_and_selected_values_are_refused():
    fit = dpi.combine([5.5, 4.0, 9.9], workload=[[1, 0], [0, 1], [1, 1]], mechanism=UNIT)
    with pytest.raises(InvalidParameterError, match="independent errors"):
        ranking(fit)
    x = dpi.noisy([12.5, 30.1], mechanism=UNIT, threshold=10)
    with pytest.raises(InvalidParameterError, match="does not take values that"):
        winner_confint(x)


@pytest.mark.parametrize("narrow", [1e-6, 0.03, 1.0])
def test_laws_of_very_different_scales(narrow):
    """Of two normal noises the difference is normal, whatever their scales are."""
    law, wide = dpi.Gaussian(sigma=[narrow, 1000.0]), np.hypot(narrow, 1000.0)
    for gap in (100.5, 1500.5, 2500.5):
        pvalue = ranking([0.0, gap], mechanism=law).best()["pvalue"].iloc[0]
        assert pvalue == pytest.approx(stats.norm.sf(gap / wide), rel=1e-9)
    cut = stats.norm.isf(0.025) * wide
    for gap, upper in ((0.9999 * cut, 2), (1.0001 * cut, 1)):
        found = ranking([0.0, gap], mechanism=law)
        for together in (False, True):
            assert found.ranks(simultaneous=together)["upper"].iloc[1] == upper


def test_noise_too_wide_to_enumerate_is_refused():
    wide = ranking([1, 2, 3], mechanism=dpi.DiscreteGaussian(sigma=1e8))
    for statement in (wide.best, wide.ranks, lambda: wide.ranks(simultaneous=True)):
        with pytest.raises(InvalidParameterError, match="1,048,576 values"):
            statement()


@pytest.mark.parametrize("method", ["adjusted", "conditional", "simultaneous"])
def test_a_winner_that_happens_to_be_whole(method):
    """It is named, and nothing is said of rounded values, as the other one is not whole."""
    found = winner_confint(pd.Series({"a": 1.5, "b": 7.0}), mechanism=UNIT, method=method)
    assert found.notes[0] == "of the largest of 2 values, b"
    assert (found.method, float(found.estimate) <= 7.0) == (method, True)
    assert found.lower < 7.0 < found.upper
