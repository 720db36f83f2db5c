"""What is read from the files of estimates: intervals, and whether they cover the truth."""

import shutil

import numpy as np
import pytest
from scipy import stats

from dpinfer.datasets import synthetic_population
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import census_parts, stream_marginals
from dpinfer.releases.census import write_census_measurements
from dpinfer.releases.census.geography import CODE_LENGTHS, PL94_DOMAIN, PL94_GROUPINGS

WANTED = [(), ("hhgq", "votingage"), ("hispanic", "cenrace"), PL94_DOMAIN.attributes]
LEVEL_OF = {length: level for level, length in CODE_LENGTHS.items()}
ALPHA = 0.1


def streamed(folder, truth, seed, **options):
    """Noisy files of a true population, and the estimates from them."""
    write_census_measurements(folder / "in", truth, rng=seed)
    return stream_marginals(
        census_parts(folder / "in", **options),
        folder / "out",
        domain=PL94_DOMAIN,
        groupings=PL94_GROUPINGS,
        zero_attributes=("hhgq", "votingage"),
        marginals_wanted=WANTED,
    )


def true_tables(truth):
    """The true table of each unit, by its code."""
    tables, found = truth.tables(), {}
    for length in CODE_LENGTHS.values():
        codes = truth.codes.astype(f"U{length}")
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        found |= zip(codes[starts].tolist(), np.add.reduceat(tables, starts), strict=True)
    return found


def true_marginal(tables, names):
    gone = [at for at, name in enumerate(PL94_DOMAIN.attributes, 1) if name not in names]
    return tables.sum(axis=tuple(gone)).reshape(len(tables), -1)


def coverage(found, truth, parts=(None,)):
    """Share of intervals that cover, by state: of marginals and of cells, each by level."""
    covered = {}
    for part in parts:
        units = found.marginal((), part).index
        tables = np.array([truth[unit] for unit in units])
        levels = [LEVEL_OF[len(unit)] for unit in units]
        for names in WANTED:
            intervals = found.conf_int(names, part, ALPHA, "asymptotic")
            bounds = found.conf_int(names, part, ALPHA)
            assert (bounds.lower <= intervals.lower).all()
            assert (bounds.method, bounds.assurance) == ("envelope", "checked")
            ends = intervals.lower, intervals.upper, intervals.estimate
            lower, upper, estimate = (np.asarray(one).reshape((len(units), -1)) for one in ends)
            true = true_marginal(tables, names)
            known = upper - lower < 1e-4
            np.testing.assert_allclose(estimate[known], true[known], atol=1e-4)
            inside = (lower <= true) & (true <= upper)
            kind = "cells" if names == PL94_DOMAIN.attributes else "marginals"
            for unit, level, own, exact in zip(units, levels, inside, known, strict=True):
                sums = covered.setdefault(unit[:3], {}).setdefault((level, kind), np.zeros(2))
                sums += own[~exact].sum(), np.count_nonzero(~exact)
    return [{key: hits / count for key, (hits, count) in one.items()} for one in covered.values()]


def assert_covers(shares, chance):
    """The mean over independent replicates is the stated level within simulation error.

    Within a replicate intervals depend on one another, through common values above them and as
    cells of one table; means of replicates are independent, and their spread is that of the
    replicates themselves, whatever the dependence.
    """
    table = {key: np.array([one[key] for one in shares]) for key in shares[0]}
    quantile = stats.t.isf(chance / (2 * len(table)), len(shares) - 1)
    assert {level for level, _ in table} == set(CODE_LENGTHS)
    for key, own in table.items():
        error = own.std(ddof=1) / np.sqrt(len(own))
        print(f"{key}: {own.mean():.5f}, standard error {error:.5f}, {len(own)} replicates")
        assert 0.0 < error < 0.01, key
        assert abs(own.mean() - (1 - ALPHA)) <= quantile * error, (key, own.mean(), error)


def test_intervals_are_those_of_the_estimates(tmp_path):
    truth = synthetic_population(counties=2, tracts=1, block_groups=1, blocks=2, seed=1)
    found = streamed(tmp_path, truth, 1, states="01", cut="County")
    names = ("votingage", "hhgq")
    intervals = found.conf_int(names, alpha=ALPHA, method="asymptotic")
    estimate, std_err = found.marginal(names), found.marginal_bse(names)
    half = stats.norm.isf(ALPHA / 2) * std_err
    unit, age, quarters = estimate.index[-1], "18-and-over", "nursing"
    cell = (unit, age, quarters)
    assert intervals.labels.names == ["unit", *names]
    assert intervals.lower[cell] == pytest.approx(
        estimate.loc[unit, (age, quarters)] - half.loc[unit, (age, quarters)], rel=1e-12
    )
    np.testing.assert_allclose(intervals.upper, (estimate + half).to_numpy().ravel(), rtol=1e-12)
    total = found.conf_int((), "top", method="asymptotic")
    assert total.labels.tolist() == found.marginal((), "top").index.tolist()
    assert "approximate" in " ".join(total.notes)
    # the noises of all parts were written; half a step of one is added to normal half-widths
    bounds = found.conf_int(names, alpha=ALPHA)
    noisy = std_err.to_numpy().ravel() > 1e-6
    more = np.asarray(bounds.upper - intervals.upper)[noisy]
    assert (more > 0.0).all()
    own = std_err.to_numpy().ravel()[noisy]
    # half a step, and a variance larger by a twelfth
    assert (more < 0.5 + 1e-3 * own + stats.norm.isf(ALPHA / 2) / (24.0 * own)).all()
    assert "half a step" in bounds.notes[0]
    state = found.conf_int((), "top")
    again = found.part("top").conf_int((), state.labels)
    np.testing.assert_allclose(again.upper, state.upper, rtol=1e-9)
    proved = found.conf_int(names, alpha=ALPHA, method="bound")
    assert proved.assurance == "bound"
    assert (np.asarray(proved.upper - bounds.upper)[noisy] > 0.0).all()
    for options in (
        {"alpha": 2.0},
        {"method": "score"},
        {"attributes": "hhgq"},
        {"method": "envelope", "alpha": 1e-4},
    ):
        with pytest.raises(InvalidParameterError):
            found.conf_int(**{"attributes": (), **options})


def test_intervals_cover_the_truth(tmp_path):
    # 16 states of some 10 blocks, each a replicate since the nation is not used; the chance of
    # failing by accident is 1e-9 if means over the intervals of a state are normal
    truth = synthetic_population(states=16, counties=2, tracts=1, block_groups=2, blocks=3, seed=1)
    states = sorted({code[1:3] for code in truth.codes.tolist()})
    found = streamed(tmp_path, truth, 1, states=states, memory=5e8)
    shares = coverage(found, true_tables(truth))
    assert len(shares) == 16
    assert_covers(shares, 1e-9)


@pytest.mark.study
def test_intervals_of_a_state_cover_the_truth(tmp_path):
    # 30 replicates of a state of some 6,000 blocks, in parts of counties and of tracts; the chance
    # of failing by accident is 1e-9 if means over the intervals of a level are normal
    truth = synthetic_population(counties=4, tracts=20, block_groups=3, blocks=24, seed=4)
    tables = true_tables(truth)
    shares = []
    for seed in range(30):
        found = streamed(tmp_path / "work", truth, seed, states="01", memory=5.1e8)
        assert len(found.files) > 3
        shares += coverage(found, tables, found.files)
        shutil.rmtree(tmp_path / "work")
    assert_covers(shares, 1e-9)
