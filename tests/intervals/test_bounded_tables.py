"""Intervals for functions of overlapping tables of which no cell is below zero."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import dpinfer as dpi
from dpinfer import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.intervals import bounded_confint, table_confint

NOISE = Geometric(scale=2.0)
SMALL = Geometric(scale=0.5)
WIDE = np.vstack([np.eye(4), [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]])
FEW = {"reps": 499, "rng": 1}


def test_disjoint_counts_have_the_intervals_of_bounded_confint():
    rng = np.random.default_rng(3)
    y = rng.poisson(2, 5) + NOISE.rvs(5, rng=rng)
    rows = np.array([[1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, -1, 0], [2, 4, 0, 0, 0]])
    for how in ({}, {"total": 9}, {"zeros": [1]}, {"total": 9, "zeros": [0, 4]}):
        found = table_confint(y, rows, mechanism=NOISE, method="exact", **how)
        other = bounded_confint(y, rows, mechanism=NOISE, **how)
        np.testing.assert_allclose(np.asarray(found), np.asarray(other), atol=1e-9)
        np.testing.assert_allclose(found.unbiased_lower, other.unbiased_lower, atol=1e-9)


def tables_of(total, cells):
    grid = np.stack([one.ravel() for one in np.indices((total + 1,) * cells)], axis=1)
    return grid[grid.sum(axis=1) == total]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_regions_are_those_of_all_tables_listed(seed):
    """Ranges over tables within simulated half-widths, simulated and listed another way."""
    rng = np.random.default_rng(seed)
    truth = np.array([0, 5, 1, 0])
    y = WIDE @ truth + NOISE.rvs(8, rng=rng)
    rows = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, -1, 0, 0], [0, 1, 1, 0]])
    found = table_confint(
        y, rows, workload=WIDE, mechanism=NOISE, total=6, simultaneous=True, rng=seed
    )
    # least squares under the total: x = 6/4 + B z with B a basis of what adds up to zero
    basis = np.linalg.svd(np.ones((1, 4)))[2][1:].T
    fitted = WIDE @ basis @ np.linalg.pinv(WIDE @ basis)
    std, better = np.full(8, NOISE.std), NOISE.std * np.sqrt(np.diagonal(fitted))
    errors = NOISE.rvs((20_000, 8), rng=rng)
    combined = errors @ fitted.T
    largest = np.maximum(
        (np.abs(errors) / std).max(axis=1), (np.abs(combined) / better).max(axis=1)
    )
    # simulated quantiles differ by a few per cent: bracketed, which fails once in 1e10 or less
    centre = WIDE @ np.full(4, 1.5)
    centre = centre + fitted @ (y - centre)
    ends = []
    for share in (0.965, 0.935):
        kappa = np.quantile(largest, share)
        x = tables_of(6, 4)
        answers = x @ WIDE.T
        kept = (np.abs(answers - y) <= kappa * std).all(axis=1)
        kept &= (np.abs(answers - centre) <= kappa * better + 1e-9).all(axis=1)
        values = x[kept] @ rows.T
        ends.append((values.min(axis=0), values.max(axis=0)))
    assert (found.lower <= ends[1][0]).all()
    assert (found.upper >= ends[1][1]).all()
    # ends over fractions, rounded inward, are at most one beyond those over whole tables
    assert (found.lower >= ends[0][0] - 1).all()
    assert (found.upper <= ends[0][1] + 1).all()
    assert found.consistency > 0.01


def test_auto_looks_at_the_queries_only():
    how = {"workload": WIDE, "mechanism": NOISE, "total": 40, "rng": 1}
    rows = np.vstack([np.eye(4)[0], [1, 0, -1, 0]])
    notes = {
        table_confint(y, rows, **how).notes
        for y in ([10] * 4 + [20] * 4, [40, 0, 1, -2, 38, 0, 41, -1])
    }
    assert len(notes) == 1
    assert "region" in " ".join(notes.pop())
    # cells by themselves: counts could only be larger together, so that nothing can be gained
    alone = table_confint([1, 9, 0, 4], rows[:1], mechanism=NOISE)
    exact = table_confint([1, 9, 0, 4], rows[:1], mechanism=NOISE, method="exact")
    np.testing.assert_array_equal(np.asarray(alone), np.asarray(exact))
    assert "upper ends of 1 of 1" in " ".join(alone.notes)


@pytest.mark.parametrize(
    "how", [{}, {"method": "region"}, {"simultaneous": True}, "guess"], ids=str
)
def test_a_region_is_within_what_is_possible(how):
    given = {"guess": [9, 0, 1, 0]} if how == "guess" else how
    y = np.array([11, -3, 2, 0, 9, 1, 12, -2])
    rows = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, -1, 0, 0], [1, 1, 1, 0]])
    found = table_confint(
        y, rows, workload=WIDE, mechanism=NOISE, total=10, zeros=[3], **given, **FEW
    )
    assert (found.lower >= [0, 0, -10, 10]).all()
    assert (found.upper <= [10, 10, 10, 10]).all()
    assert found.lower[3] == found.upper[3] == 10
    if given.get("method") != "region" and "simultaneous" not in given:
        exact = table_confint(
            y, rows, workload=WIDE, mechanism=NOISE, total=10, zeros=[3], method="exact"
        )
        assert (found.width <= exact.width + 2).all()


def test_a_right_guess_narrows():
    rng = np.random.default_rng(8)
    truth = np.array([40, 20] + [0] * 10)
    row = np.array([1] + [0] * 11)
    widths = {"guess": 0.0, "exact": 0.0}
    for _ in range(4):
        y = truth + NOISE.rvs(12, rng=rng)
        how = {"mechanism": NOISE, "total": 60, "rng": 1}
        widths["guess"] += table_confint(y, row, guess=truth, **how).width
        widths["exact"] += table_confint(y, row, method="exact", **how).width
    assert widths["guess"] < 0.9 * widths["exact"]


def test_the_end_that_a_guess_gives_and_its_error_by_enumeration():
    """From a guess of all in the third cell, the test of s looks at y1 - y3 only."""
    errors = np.arange(-60, 61)
    mass = NOISE.pmf(errors)
    difference, chance = (errors[:, None] - errors).ravel(), np.outer(mass, mass).ravel()
    q = min(q for q in range(60) if chance[difference > q].sum() <= 0.025)
    # the largest error is that of s and 12 - s in the first and the third cell
    assert chance[difference < -q].sum() == pytest.approx(0.021518, abs=5e-7)
    assert q == 8
    for d in range(-21, -3, 4):  # without ties, at which the last digits of the weights decide
        y = [d, 2 * d, 0]  # the unbiased estimate is 4, which excludes nothing below 10
        found = table_confint(y, [1, 0, 0], mechanism=NOISE, total=12, guess=[0, 0, 12])
        assert found.lower == 0
        assert found.upper == max((d + 12 + q) // 2, 0)


@pytest.mark.parametrize(
    ("workload", "total", "row", "verdict"),
    [
        (np.eye(4), None, [1, 1, 0, 0], "no gain"),
        (WIDE, 12, [1, 1, 1, 0], "gain"),
        (WIDE, 12, [1, 0, 0, 0], "gain"),
        (np.vstack([np.eye(4), [1, 1, 1, 1]]), None, [1, 1, 1, 1], "no gain"),
    ],
    ids=str,
)
def test_where_nothing_can_be_gained_the_unbiased_end_is_at_the_floor(
    workload, total, row, verdict
):
    """A table is as far from those with larger values of a function as the unbiased one tells."""
    law, truth = Gaussian(sigma=2.0), np.array([0, 0, 0, 12])
    found = table_confint(
        workload @ truth, row, workload=workload, mechanism=law, total=total, method="exact"
    )
    said = any(note.startswith("upper ends of 1 of 1") for note in found.notes)
    assert said == (verdict == "no gain")
    std = (found.unbiased_upper - found.estimate) / stats.norm.isf(0.025)
    known = [row] if total is None else [row, np.ones(4)]
    away = []
    for more in (1.0, 4.0, 8.0):
        # the nearest table >= 0 with a function that is larger by so much, by a sharp penalty
        moved = [row @ truth + more] if total is None else [row @ truth + more, total]
        left = np.vstack([workload / law.sigma, 1e4 * np.array(known)])
        right = np.concatenate([workload @ truth / law.sigma, 1e4 * np.array(moved)])
        nearest = optimize.nnls(left, right)[0]
        away.append(np.linalg.norm(workload @ (nearest - truth)) / law.sigma * std / more)
    if said:
        np.testing.assert_allclose(away, 1.0, rtol=1e-5)
    else:
        assert min(away) > 1.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "guess"), [((0, 0, 6), (0, 0, 6)), ((3, 3, 0), (6, 0, 0))], ids=str
)
def test_tests_for_a_guess_cover_by_enumeration(counts, guess):
    errors = np.array(list(product(range(-3, 4), repeat=3)))
    mass = np.prod(SMALL.pmf(errors), axis=1)
    kept = mass > 5e-4
    missed = mass[~kept].sum()  # what is left out counts as missed
    how = {"mechanism": SMALL, "total": 6, "guess": guess}
    for error, share in zip(errors[kept], mass[kept], strict=True):
        found = table_confint(error + counts, [1, 0, 0], **how)
        missed += share * (not found.lower <= counts[0] <= found.upper)
    missed += 1.0 - mass.sum()
    assert missed <= 0.05 + mass[~kept].sum() + 1.0 - mass.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "truth", "together"),
    [
        (Geometric(scale=1.0), (0, 0, 0, 12), False),
        (Laplace(scale=1.0), (3, 3, 3, 3), False),
        (Gaussian(sigma=2.0), (0, 0, 0, 12), True),
    ],
    ids=str,
)
def test_regions_cover_in_simulations(law, truth, together):
    rng, reps = np.random.default_rng(4), 18
    rows = np.array([[1, 0, 0, 0], [1, 0, 0, -1], [1, 1, 0, 0]])
    known = rows @ truth
    how = {"workload": WIDE, "mechanism": law, "total": 12, "reps": 499, "simultaneous": together}
    missed = []
    for number in range(reps):
        found = table_confint(WIDE @ truth + law.rvs(8, rng=rng), rows, rng=number, **how)
        missed.append((known < found.lower) | (known > found.upper))
    missed = np.array(missed)
    # binomial tails of 18 at 0.05: more than 8 once in 1e7 or less
    assert (missed.any(axis=1).sum() if together else missed.sum(axis=0).max()) <= 8


def test_what_contradicts_the_noise_is_empty_and_says_so():
    found = table_confint(
        [50, 60, 0], [1, 0, 0], mechanism=NOISE, total=8, simultaneous=True, rng=1
    )
    assert found.empty
    assert found.consistency < 0.001
    assert "contradict the noise" in " ".join(found.notes)


def test_functions_that_nothing_determines_are_bounded_by_what_is_known():
    found = table_confint(
        [5.0, 9.0],
        [[1, 0, 0], [1, 1, 0], [1, -1, 0]],
        workload=[[1, 1, 0], [0, 0, 1]],
        mechanism=NOISE,
        simultaneous=True,
        rng=1,
    )
    assert found.estimate[0] == (found.lower[0] + found.upper[0]) / 2
    assert np.isinf(found.unbiased_upper).tolist() == [True, False, True]
    assert found.lower[0] == 0
    assert found.upper[0] == found.upper[1] < np.inf
    open_ = table_confint([5.0], [0, 1], workload=[[1, 0]], mechanism=NOISE, method="exact")
    assert open_.lower == 0
    assert np.isinf(open_.upper)


def test_labels_of_a_release_are_kept():
    cells = pd.MultiIndex.from_product([["F", "M"], ["y", "o"]], names=["sex", "age"])
    table = pd.Series([4, -1, 9, 3], cells)
    release = dpi.Release.from_tables(
        [table, pd.Series([2, 13], pd.Index(["F", "M"], name="sex")), 16],
        mechanism=[NOISE, DiscreteGaussian(sigma=1.5), Exact()],
    )
    rows = pd.DataFrame([[1, 0, 0, -1]], ["difference"], release.workload.columns)
    found = table_confint(release, rows, rng=1)
    assert found.summary_frame().index.tolist() == ["difference"]
    assert found["difference"].upper <= 16


@pytest.mark.parametrize(
    ("error", "change", "message"),
    [
        (InvalidParameterError, {"method": "profile"}, "44.7"),
        (InvalidParameterError, {"method": "clip"}, "method must be one of"),
        (InvalidParameterError, {"guess": [1, 2]}, "3 entries"),
        (InvalidParameterError, {"guess": [1, -2, 0]}, "guess must be >= 0"),
        (InvalidParameterError, {"guess": [1, 2, 3], "simultaneous": True}, "region alone"),
        (InvalidParameterError, {"total": 4.5}, "whole number"),
        (InvalidParameterError, {"reps": 20, "method": "region"}, "reps must be"),
        (InvalidParameterError, {"alpha": 0.5}, "alpha must be < 0.5"),
        (IncompatibleReleaseError, {"total": 3, "zeros": [0, 1, 2]}, "no table agrees"),
        (
            IncompatibleReleaseError,
            {"values": dpi.Release([1, 2, 3], mechanism=NOISE, clamp=0), "mechanism": None},
            "must not be bounded",
        ),
        (
            InvalidParameterError,
            {"values": dpi.Release([1, 2, 3], weights=np.tri(3), mechanism=NOISE)}
            | {"mechanism": None},
            "share noises",
        ),
    ],
)
def test_refusals(error, change, message):
    how = {"values": [4, 2, 3], "weights": [1, 0, 0], "mechanism": NOISE} | change
    with pytest.raises(error, match=message):
        table_confint(how.pop("values"), how.pop("weights"), **how)


def test_cells_known_by_their_sum_only_are_bounded_by_it():
    law = dpi.Geometric(scale=2.0)
    found = table_confint([7], np.eye(2), workload=[[1, 1]], mechanism=law, rng=1, reps=1000)
    assert (found.lower == 0).all()
    assert (found.upper < 30).all()
    assert not any("no gain" in note for note in found.notes)


def test_without_noise_all_ranges_are_points():
    found = table_confint([3, 4], np.eye(2), mechanism=dpi.Exact(), simultaneous=True, rng=1)
    np.testing.assert_array_equal(found.lower, [3, 4])
    np.testing.assert_array_equal(found.upper, [3, 4])


def test_guesses_as_tables():
    table = pd.DataFrame([[3, 40], [1, 2.0]], index=list("ab"), columns=list("cd"))
    law = dpi.Geometric(scale=2.0)
    one, other = (
        table_confint(table, np.eye(4), mechanism=law, guess=guess, rng=1)
        for guess in (table, table.to_numpy().ravel())
    )
    np.testing.assert_array_equal(one.upper, other.upper)


def test_sparse_bounds_of_disjoint_counts_are_those_of_bounded_confint():
    y = np.random.default_rng(1).permutation([300] + [0, 1, -1, 2, -2, 3, -4] * 7)
    rows = np.vstack([np.ones(50), np.arange(50) < 25, np.where(np.arange(50) < 10, 1, -1)])
    found = table_confint(y, rows, mechanism=NOISE, method="sparse")
    other = bounded_confint(y, rows, mechanism=NOISE, method="sparse")
    np.testing.assert_array_equal(np.asarray(found), np.asarray(other))
    assert found.upper[0] - found.lower[0] < 60
    assert bounded_confint(y, rows, mechanism=NOISE).width[0] > 75


def test_a_sparse_bound_by_hand():
    """30 cells of which one is large, and their noisy sum: the law of the bound by convolution."""
    cells, whole, number = Geometric(scale=1.0), Geometric(scale=9.0), 30
    y, total = np.array([60, -1, 0, 1, 0, 2] + [0] * 24), 60
    how = {"workload": np.vstack([np.eye(number), np.ones(number)]), "integer": False}
    how |= {"mechanism": [cells] * number + [whole]}
    found = table_confint([*y, total], np.ones(number), method="sparse", **how)
    ends, z, e, wide = [], stats.norm, np.arange(-60, 61), np.arange(-300, 301)
    for times in (1.0, 2.0):
        # weights (a, ..., a, 1 - a), the best ones if noise is normal and the cells are zero
        mean = z.pdf(times) - times * z.sf(times)
        left = (1 + times**2) * z.sf(times) - times * z.pdf(times) - mean**2
        a = whole.variance / (whole.variance + number * left * cells.variance)
        tau = int(np.ceil(times * cells.std))
        one, chance = np.bincount(np.maximum(e - tau, 0), cells.pmf(e)), np.ones(1)
        for _ in range(number):
            chance = np.convolve(chance, one)[:200]
        at = np.add.outer(a * np.arange(200), (1 - a) * wide).ravel()
        order = np.argsort(at)
        tail = np.cumsum(np.outer(chance, whole.pmf(wide)).ravel()[order][::-1])[::-1]
        q = at[order][tail > 0.0025].max()
        ends.append(a * np.maximum(y - tau, 0).sum() + (1 - a) * total - q)
    assert found.lower == pytest.approx(max(ends), abs=0.1)
    assert found.lower <= max(ends) + 1e-9  # what is rounded is rounded to the safe side
    assert found.lower > table_confint([*y, total], np.ones(number), **how).lower + 1


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "total"), [((0, 0, 0), False), ((0, 0, 6), True)], ids=str)
def test_sparse_bounds_cover_by_enumeration(counts, total):
    queries = np.vstack([np.eye(3), [1, 1, 0]])
    rows = np.array([[1, 1, 0 if total else 1], [1, -1, 0]])
    errors = np.array(list(product(range(-3, 4), repeat=4)))
    mass = np.prod(SMALL.pmf(errors), axis=1)
    kept = mass > 1.5e-3
    missed = np.full(len(rows), 1.0 - mass[kept].sum())  # what is left out counts as missed
    how = {"workload": queries, "mechanism": SMALL, "method": "sparse"}
    if total:
        how["total"] = sum(counts)
    for error, share in zip(errors[kept], mass[kept], strict=True):
        found = table_confint(queries @ counts + error, rows, **how)
        truth = rows @ counts
        missed += share * ~((found.lower <= truth) & (truth <= found.upper))
    assert (missed <= 0.05 + 1.0 - mass[kept].sum()).all()
    assert (missed > 0.002).any()


def test_sparse_bounds_are_for_one_function_each():
    for given in ({"simultaneous": True}, {"guess": [9, 0, 1, 0]}):
        with pytest.raises(InvalidParameterError, match="'sparse'"):
            table_confint([9, 1, 0, 2], np.eye(4), mechanism=NOISE, method="sparse", **given)
