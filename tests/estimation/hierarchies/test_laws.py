"""Intervals and p-values of trees by the laws of their errors."""

import numpy as np
import pytest

from dpinfer.estimation import combine_hierarchy
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
    WeightedSum,
)


def irregular(seed, widths=(1, 4, 4, 4)):
    """Parents of a tree with from half to one and a half times so many children."""
    rng = np.random.default_rng(seed)
    parent, level = [-1], [0]
    for width in widths[1:]:
        counts = rng.integers(max(1, width // 2), width + width // 2 + 1, len(level))
        first = len(parent)
        parent += np.repeat(level, counts).tolist()
        level = list(range(first, len(parent)))
    return np.array(parent)


def half_widths(fit, **options):
    found = fit.conf_int(**options)
    return (np.asarray(found.upper) - np.asarray(found.lower)) / 2, found


@pytest.mark.parametrize(
    ("law", "alpha", "half"),
    [
        (Geometric(scale=0.442), 0.05, 1.0),  # where normal intervals cover .811
        (DiscreteGaussian(sigma=0.6), 0.10, 1.0),  # .664
        (Laplace(scale=2.0), 0.05, 2.0 * np.log(20.0)),
    ],
)
def test_the_default_is_the_law_of_the_noise_where_nothing_else_is_known(law, alpha, half):
    fit = combine_hierarchy([20.0, 7.0], [-1, -1], mechanism=law)
    found, intervals = half_widths(fit, alpha=alpha)
    assert intervals.method == "exact"
    np.testing.assert_allclose(found, half, rtol=1e-12)
    assert fit.summary_frame(alpha).attrs["method"] == "exact"
    normal = fit.conf_int(alpha, "asymptotic")
    covered = 1.0 - 2.0 * law.sf(np.asarray(normal.upper)[0] - 20.0)
    assert f"covers {covered:.4f}" in normal.notes[0]


LAWS = {
    "laplace": Laplace(scale=2.0),
    "geometric": Geometric(scale=2.0),
    "coarse": Geometric(scale=1.0),
    "discrete": DiscreteGaussian(sigma=2.0),
    "wide": DiscreteGaussian(sigma=30.0),
    "smooth": Laplace(scale=3.0),
}


@pytest.mark.parametrize("name", [*LAWS, "mixed", "missing", "exact", "repeated"])
def test_laws_found_at_once_are_those_of_single_errors(name):
    """The weights of every unit, summed one by one, are the other way to the same law."""
    parent = irregular(3)
    rng = np.random.default_rng(7)
    size, units = parent.size, None
    law = LAWS.get(name, Laplace(scale=2.0))
    if name == "mixed":
        laws = [Laplace(scale=1.0), Gaussian(sigma=3.0), Laplace(scale=9.0)]
        law = [laws[at] for at in rng.integers(0, 3, size)]
    elif name == "missing":  # an inner unit, and one child of a family each
        units = np.delete(np.arange(size), [1, size - 1])
    elif name == "exact":
        law = [Exact(), *[law] * (size - 1)]
    elif name == "repeated":
        units = np.append(np.arange(size), np.arange(0, size, 3))
    number = size if units is None else units.size
    fit = combine_hierarchy(np.zeros(number), parent, mechanism=law, units=units)
    found, intervals = half_widths(fit)
    assert intervals.method == "exact"
    std = np.asarray(fit.bse)
    for unit in rng.choice(size, 2, replace=False):
        error = fit.noise(int(unit))
        if std[unit] == 0.0:
            assert found[unit] == 0.0
            continue
        tail = float(error.sf(found[unit] - 1e-9))
        assert tail <= 0.025 + 1e-8 + error.error_bound
        # errors of whole-numbered noise may have been moved, by 1 % at most
        room = 0.01 if name == "coarse" else 1e-4
        assert found[unit] <= float(error.isf(0.025 - 2e-6 - error.error_bound)) * (1.0 + room)
        single, _ = half_widths(fit, units=[int(unit)])
        assert single[0] == pytest.approx(float(error.isf(0.025)), rel=1e-9)


LEVELS = {
    "fine leaves": lambda depth: Laplace(scale=np.where(depth == depth.max(), 0.1, 2.0)),
    "coarse leaves": lambda depth: Laplace(scale=np.where(depth == depth.max(), 20.0, 2.0)),
    "whole": lambda depth: Geometric(scale=np.array([1.0, 3.0, 2.0, 0.7])[depth]),
    "mixed": lambda depth: IndependentNoise(
        [
            (Geometric(scale=1.0), Laplace(scale=2.0), DiscreteGaussian(sigma=1.5), LAWS["smooth"])[
                level
            ]
            for level in depth
        ]
    ),
}


def largest_error(intervals):
    """What tail probabilities err by at most, from the notes."""
    return float(intervals.notes[0].split(" err by ")[1].split()[0])


@pytest.mark.parametrize("name", [*LEVELS, "some 30 times finer"])
def test_tails_are_as_near_as_stated(name):
    """Laws of single errors know theirs to ``error_bound``, which is 0 for none here but lattices.

    Half-widths are found at level α/2 less the error stated, so that tails lie up to two of them
    below α/2, and never above it.
    """
    parent = irregular(12, (1, 6, 7, 8))
    depth = np.zeros(parent.size, dtype=int)
    for unit in range(1, parent.size):
        depth[unit] = depth[parent[unit]] + 1
    rng = np.random.default_rng(3)
    if name in LEVELS:
        law = LEVELS[name](depth)
    else:
        law = Laplace(scale=np.where(rng.random(parent.size) < 0.3, 0.07, 2.0))
    fit = combine_hierarchy(np.zeros(parent.size), parent, mechanism=law)
    found, intervals = half_widths(fit, alpha=0.1)
    stated = largest_error(intervals)
    assert stated < 1e-6
    room = 1.0 if name in {"fine leaves", "coarse leaves", "some 30 times finer"} else 1.01
    for unit in rng.choice(parent.size, 2, replace=False):
        error = fit.noise(int(unit))
        # the stated error is rounded to a digit, half-widths to a few roundings
        room_of_tail = 1.5 * stated + error.error_bound
        assert float(error.sf(found[unit] * (1.0 + 1e-11))) <= 0.05 + error.error_bound
        assert float(error.sf(found[unit] / room * (1.0 - 1e-11))) >= 0.05 - 2.0 * room_of_tail


def test_laws_of_a_tree_too_large_for_single_ones_are_found(monkeypatch):
    """The time for single laws is 0; whole-numbered errors in trees of three levels have a step."""
    monkeypatch.setattr("dpinfer.estimation.pivots.SECONDS", 0.0)
    for law, widths in ((Geometric(scale=2.0), (1, 4, 4, 3)), (Laplace(scale=2.0), (1, 6, 9))):
        parent = irregular(3, widths)
        fit = combine_hierarchy(np.zeros(parent.size), parent, mechanism=law)
        found, intervals = half_widths(fit)
        assert intervals.method == "exact"
        for unit in (0, 1, parent.size - 1):
            exact = float(fit.noise(unit).isf(0.025))
            assert exact * (1.0 - 1e-5) <= found[unit] <= exact * 1.01
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 0)
    parent = np.repeat(
        [-1, 0, 1, 2, 3], [1, 3, 5, 7, 8]
    )  # weights are multiples of 1/360 times one
    fit = combine_hierarchy(np.zeros(parent.size), parent, mechanism=Geometric(scale=2.0))
    found, intervals = half_widths(fit)
    assert intervals.method == "exact"
    assert "too large by" in intervals.notes[0]
    for unit in (0, 1, parent.size - 1):
        exact = float(fit.noise(unit).isf(0.025))
        assert exact * (1.0 - 1e-9) <= found[unit] <= exact * 1.01


def test_units_of_one_form_share_a_law():
    parent = np.concatenate([[-1], np.zeros(10, int), np.repeat(np.arange(1, 11), 10)])
    fit = combine_hierarchy(np.zeros(111), parent, mechanism=Geometric(scale=2.0))
    found, intervals = half_widths(fit)
    assert intervals.notes == ()
    assert np.unique(found).size == 3
    for unit in (0, 5, 60):
        assert found[unit] == pytest.approx(float(fit.noise(unit).isf(0.025)), rel=1e-9)


def test_laws_that_would_take_long_are_bounded_and_that_is_said(monkeypatch):
    monkeypatch.setattr("dpinfer.estimation.pivots.SECONDS", 0.0)
    parent = irregular(3)
    fit = combine_hierarchy(np.zeros(parent.size), parent, mechanism=Tulap(scale=1.0))
    found, intervals = half_widths(fit)
    assert intervals.method == "bound"
    assert fit.summary_frame().attrs["method"] == "bound"
    assert "intervals are bounds" in intervals.notes[0]
    assert "Chernoff" in intervals.notes[0]
    bound, _ = half_widths(fit, method="bound")
    assert (found <= bound * (1.0 + 1e-12)).all()
    exact = [float(fit.noise(unit).isf(0.025)) for unit in (0, 3, parent.size - 1)]
    assert (bound[[0, 3, -1]] >= exact).all()
    assert "bound" in fit.summary()


def test_pvalues_are_those_of_the_laws():
    """P(|L + L'| >= x) = (1 + x/2)e⁻ˣ for Laplace noises of scale 1; the normal law says .0027."""
    fit = combine_hierarchy([6.0, 0.0], [-1, 0], mechanism=Laplace(scale=1.0))
    exact = 4.0 * np.exp(-6.0)
    assert fit.parent_tests()["pvalue"][0] == pytest.approx(exact, rel=1e-9)
    np.testing.assert_allclose(fit.disagreements()["pvalue"], exact, rtol=1e-9)
    fit = combine_hierarchy([3.0, 0.0, 0.0], [-1, 0, 0], mechanism=DiscreteGaussian(sigma=0.5))
    law = WeightedSum([1.0, 1.0, 1.0], DiscreteGaussian(sigma=0.5))
    exact = 2.0 * float(law.sf(2.0))
    tests = fit.parent_tests()
    assert tests["pvalue"][0] == pytest.approx(exact, rel=1e-9)
    assert tests.attrs == {"method": "exact"}
    # residuals of three values that have to add up are the same but for a factor
    worst = fit.disagreements()
    assert worst.attrs == {"method": "exact", "values": 3}
    np.testing.assert_allclose(worst["pvalue"], exact, rtol=1e-9)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=3.0)])
def test_pvalues_of_many_parents(law):
    parent = irregular(5, (1, 5, 6, 3))
    rng = np.random.default_rng(2)
    values = np.asarray(law.rvs(parent.size, rng=rng), dtype=float)
    values[0] += np.rint(60.0 * float(law.std))  # far beyond what is found at once
    fit = combine_hierarchy(values, parent, mechanism=law)
    tests = fit.parent_tests()
    assert len(tests) > 20
    assert tests.attrs["method"] == "exact"
    assert 0.0 <= tests["pvalue"][0] < 1e-10
    # units whose children are leaves: the noises of both, with the weight 1 each
    for unit in tests.index[-4:]:
        children = np.flatnonzero(parent == unit).size
        error = WeightedSum(np.ones(1 + children), law)
        exact = 2.0 * float(error.cdf(-abs(tests["difference"][unit])))
        assert exact <= tests["pvalue"][unit] <= min(1.0, exact + 1e-3)


@pytest.mark.parametrize(
    "widths",
    [
        pytest.param((1, 20, 12, 8, 12), marks=pytest.mark.slow),
        pytest.param((1, 30, 15, 10, 20), marks=pytest.mark.study),
    ],
    ids=str,
)
@pytest.mark.parametrize("law", [Laplace(scale=2.0), DiscreteGaussian(sigma=3.0)])
def test_a_large_tree(law, widths):
    parent = irregular(1, widths)
    fit = combine_hierarchy(np.zeros(parent.size), parent, mechanism=law)
    found, intervals = half_widths(fit)
    assert intervals.method == "exact"
    for unit in (0, 7, 100, parent.size - 1):
        assert found[unit] == pytest.approx(float(fit.noise(unit).isf(0.025)), rel=1e-4)
    assert isinstance(fit.mechanism, (Laplace, DiscreteGaussian, IndependentNoise))


def test_laws_of_noises_of_very_different_size_are_found(monkeypatch):
    """Some discrete Gaussian noise is all but 0; none of the tails is above α/2."""
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 0)
    monkeypatch.setattr("dpinfer.estimation.pivots.SECONDS", 0.0)
    rng = np.random.default_rng(6)
    parent = irregular(8, (1, 4, 4, 3))
    sigma = 10.0 ** rng.integers(0, 4, parent.size)
    sigma[1] = 0.3
    fit = combine_hierarchy(np.zeros(parent.size), parent, mechanism=DiscreteGaussian(sigma=sigma))
    found, _ = half_widths(fit)
    for unit in (0, parent.size - 1):
        error = fit.noise(unit)
        assert float(error.sf(found[unit] * (1.0 + 1e-11))) <= 0.025 + error.error_bound


def test_many_laws_are_those_of_few():
    """Units with 600 parents of different laws; few laws are found from the weights of each."""
    parent = np.concatenate([[-1], np.zeros(600, dtype=int), np.repeat(np.arange(1, 601), 4)])
    scale = np.random.default_rng(2).uniform(1.0, 3.0, parent.size)
    fit = combine_hierarchy(scale, parent, mechanism=Laplace(scale=scale))
    found, intervals = half_widths(fit)
    assert intervals.method == "exact"
    some = np.array([0, 1, 601, 3_000])
    np.testing.assert_allclose(half_widths(fit, units=some)[0], found[some], rtol=1e-6)
