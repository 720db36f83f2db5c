"""Half-widths of cells from cumulants of their errors, beside the weights of all noises."""

from itertools import combinations

import numpy as np
import pytest

from dpinfer.estimation import NoisyMarginal, combine_hierarchy, combine_marginals
from dpinfer.estimation.bounds import envelope, kurtosis
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    WeightedSum,
)
from dpinfer.mechanisms.independent import groups
from dpinfer.queries import Domain

PARENT = [-1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
DOMAIN = Domain({"sex": ["F", "M"], "age": ["a", "b", "c"]})
SIZES = {"sex": 2, "age": 3}


def published(laws, parent=PARENT, seed=0):
    """Tables of total, sex, and sex by age, under these laws of noise."""
    rng = np.random.default_rng(seed)
    given = [
        NoisyMarginal(names, law.rvs((len(parent), *(SIZES[name] for name in names)), rng=rng), law)
        for names, law in zip([(), ("sex",), ("sex", "age")], laws, strict=True)
    ]
    return combine_marginals(given, parent, domain=DOMAIN)


def half_widths(fit, names, **options):
    intervals = fit.conf_int(names, **options)
    half = np.asarray(intervals.upper - intervals.lower).reshape((len(fit), -1)) / 2.0
    return half[:, 0], intervals


def listed(fit, names, unit):
    """Weights of all noises in the first cell of a unit, with their laws, by one pass."""
    place = int(fit._fit.places(np.array([unit]))[0])
    target = np.zeros((1, *fit._fit.schema.shape(names)))
    target[(0,) * target.ndim] = 1.0
    inner = np.ascontiguousarray(fit._fit.schema.inward(target, names))
    return fit._fit.laws.weights(names, place, inner).toarray()[0]


def law_of(fit, names, unit):
    return WeightedSum(listed(fit, names, unit), fit._fit.noises.law)


def of_each(fit, number):
    out = np.zeros(fit._fit.noises.size)
    for law, cells in groups(fit._fit.noises.law, out.size):
        out[cells] = 0.0 if isinstance(law, Exact) else number(law)
    return out


RANDOM = [
    lambda n, rng: Laplace(scale=rng.uniform(0.5, 4, n)),
    lambda n, rng: Geometric(scale=rng.uniform(0.3, 4, n)),
    lambda n, rng: DiscreteGaussian(sigma=rng.uniform(0.4, 4, n)),
    lambda n, rng: Gaussian(sigma=rng.uniform(0.4, 4, n)),
]


def random_tables(seed):
    """A random tree or forest with random marginals of random units."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 5, int(rng.integers(1, 4)))
    size = int(rng.integers(1, 16))
    parent = [-1, *(int(rng.integers(-int(rng.random() < 0.1), at)) for at in range(1, size))]
    names = tuple(f"a{at}" for at in range(shape.size))
    marginals = []
    for kept in range(shape.size + 1):
        for some in combinations(range(shape.size), kept):
            whole = kept == shape.size
            units = np.flatnonzero(rng.random(size) < (1.0 if whole else 0.6))
            if not units.size or (not whole and rng.random() < 0.3):
                continue
            law = RANDOM[int(rng.integers(len(RANDOM)))](units.size, rng)
            if kept == 0 and rng.random() < 0.3:
                units, law = np.array([0]), Exact()
            values = np.full((units.size, *shape[list(some)]), 0.5)
            kept_names = tuple(names[at] for at in some)
            marginals.append(NoisyMarginal(kept_names, values, law, units=units))
    domain = Domain({name: range(each) for name, each in zip(names, shape, strict=True)})
    return combine_marginals(marginals, parent, domain=domain), names


@pytest.mark.filterwarnings("ignore::dpinfer.errors.RoundedValuesWarning")
@pytest.mark.thinned("seed", every=2)
@pytest.mark.parametrize("seed", range(8))
def test_fourth_cumulants_by_passes_are_those_of_listed_weights(seed):
    fit, every = random_tables(seed)
    variance, excess = (of_each(fit, of) for of in (lambda law: law.variance, kurtosis))
    compared = 0
    for kept in range(len(every) + 1):
        for names in combinations(every, kept):
            places = fit._fit.places(None)
            spread = fit._fit.cell_variance(names, places)
            errors, number = fit._fit.laws.cells(names, places, spread)
            for unit in range(len(fit)):
                if spread[unit, 0] < 1e-9:
                    continue
                squares = np.square(listed(fit, names, unit)) * variance
                total = squares.sum()
                at = int(number[unit, 0])
                assert total == pytest.approx(spread[unit, 0], rel=1e-9)
                fourth = (squares**2 * excess).sum() / total**2
                assert errors.moments.kurtosis[at] == pytest.approx(fourth, rel=1e-12, abs=1e-12)
                # bounds on single weights hold, if all classes were at their largest together
                assert errors.moments.share[at] >= squares.max() / total * (1.0 - 1e-9)
                compared += 1
    assert compared > 0


def test_excess_kurtosis_is_that_of_the_law():
    assert kurtosis(Laplace(scale=2.3))[0] == pytest.approx(3.0, rel=1e-12)
    assert kurtosis(Gaussian(sigma=2.0))[0] == pytest.approx(0.0, abs=1e-12)
    for scale in (0.2, 0.442, 2.0, 30.0):
        q = np.exp(-1.0 / scale)
        expected = 3.0 + (1.0 - q) ** 2 / (2.0 * q)
        assert kurtosis(Geometric(scale=scale))[0] == pytest.approx(expected, rel=1e-9)
    k = np.arange(-200.0, 201.0)
    for sigma in (0.3, 0.6, 1.0, 3.0):
        p = np.exp(-(k**2) / (2.0 * sigma**2))
        p /= p.sum()
        expected = (p * k**4).sum() / (p * k**2).sum() ** 2 - 3.0
        found = kurtosis(DiscreteGaussian(sigma=sigma))[0]
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(
    "alpha",
    [0.05, 0.001, *(pytest.param(a, marks=pytest.mark.slow) for a in (0.5, 0.2, 0.1, 0.01))],
)
def test_the_envelope_is_no_shorter_than_exact_laws(alpha):
    rng = np.random.default_rng(int(1e6 * alpha))
    for number in range(18):
        size = int(rng.integers(1, 30))
        weights = rng.uniform(0.0, 1.0, size) ** rng.integers(1, 6)
        if number % 3 == 0:  # few large ones and many small ones
            weights = np.concatenate([[1.0], np.full(size, rng.uniform(0.02, 0.4))])
        laws = [Laplace(scale=1.0)] * weights.size + [Gaussian(sigma=1.0)]
        weights = np.append(weights, rng.choice([0.0, 0.3, 1.0]))
        law = WeightedSum(weights, laws)
        excess = 12.0 * (weights[:-1] ** 4).sum() / float(law.variance) ** 2
        half = envelope(alpha, np.array([excess]))[0] * float(law.std)
        assert half >= float(law.isf(0.5 * alpha))


SETTINGS = {
    "laplace": ([Laplace(scale=1.0)] * 3, 1.0),
    "finer tables": ([Laplace(scale=10.0), Laplace(scale=10.0), Laplace(scale=1.0)], 1.0),
    "geometric": ([Geometric(scale=2.0)] * 3, 1.01),
    "discrete gaussian": ([DiscreteGaussian(sigma=1.0)] * 3, 1.01),
    "mixed": ([Geometric(scale=2.0), Laplace(scale=3.0), DiscreteGaussian(sigma=3.0)], 1.01),
}


@pytest.mark.thinned("setting", "steps", every=2)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("steps", ["found", "added"])
def test_many_laws_are_covered_by_the_envelope_and_proved_by_the_bound(setting, steps, monkeypatch):
    fit = published(SETTINGS[setting][0])
    names = ("sex", "age")
    exact, intervals = half_widths(fit, names)
    assert (intervals.method, intervals.assurance) == ("exact", "exact")
    bound, proved = half_widths(fit, names, method="bound")
    assert (proved.method, proved.assurance) == ("bound", "bound")
    # time for how much steps matter, and for no law itself; or for neither
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 0)
    monkeypatch.setattr("dpinfer.estimation.pivots._LAWS", 0)
    monkeypatch.setattr("dpinfer.estimation.pivots.SECONDS", 20.0 if steps == "found" else 0.0)
    close, found = half_widths(fit, names)
    assert (found.method, found.assurance) == ("envelope", "checked")
    assert "checked and not proved" in found.notes[0]
    assert ("half a step" in found.notes[0]) == (
        steps == "added" and "lapl" not in setting and setting != "finer tables"
    )
    again, asked = half_widths(fit, names, method="envelope")
    assert asked.assurance == "checked"
    for unit in (0, 3, 13):
        law = law_of(fit, names, unit)
        assert exact[unit] == pytest.approx(float(law.isf(0.025)), rel=1e-9)
        assert 2.0 * float(law.sf(close[unit] * (1.0 + 1e-9))) <= 0.05
        assert 2.0 * float(law.sf(again[unit] * (1.0 + 1e-9))) <= 0.05
        assert 2.0 * float(law.sf(bound[unit] * (1.0 + 1e-9))) <= 0.05
        most = 1.05 if steps == "found" else 1.25
        assert close[unit] <= most * exact[unit]
        assert bound[unit] <= 1.95 * exact[unit]
    if setting in ("laplace", "finer tables"):
        assert (close <= 1.015 * exact).all()
        assert (bound <= 1.23 * exact).all()


def test_steps_that_hardly_matter_are_no_reason_to_cover_less(monkeypatch):
    laws = [
        DiscreteGaussian(sigma=0.584857),
        Laplace(scale=5.87409),
        DiscreteGaussian(sigma=0.6814),
    ]
    fit = published(laws, [-1, 0, 0, 0, 2, 0, 0, 1, 1, 2, 1])
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 0)
    monkeypatch.setattr("dpinfer.estimation.pivots._LAWS", 0)
    half, intervals = half_widths(fit, ("sex",))
    assert "steps of whole-numbered noise matter" in intervals.notes[0]
    for unit in range(len(fit)):
        law = law_of(fit, ("sex",), unit)
        assert 2.0 * float(law.sf(half[unit] * (1.0 + 1e-9))) <= 0.05
        assert half[unit] <= 1.01 * float(law.isf(0.025))


def test_steps_finer_than_those_of_the_heaviest_noise_count_too(monkeypatch):
    # weights of 6, 3 and 1 twentieths: all errors are multiples of the last, .044 standard errors
    fit = published([DiscreteGaussian(sigma=2.0832138592731133)] * 3, [-1, 0])
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 0)
    monkeypatch.setattr("dpinfer.estimation.pivots._LAWS", 0)
    half, _ = half_widths(fit, ())
    for unit in range(len(fit)):
        assert 2.0 * float(law_of(fit, (), unit).sf(half[unit] * (1.0 + 1e-9))) <= 0.05


def test_coarse_noise_is_exact_and_ends_on_its_steps(monkeypatch):
    law = Geometric(scale=0.442)
    given = [NoisyMarginal("sex", law.rvs((6, 2), rng=np.random.default_rng(1)), law)]
    fit = combine_marginals(given, [-1] * 6, domain=DOMAIN)
    half, intervals = half_widths(fit, ("sex",))
    assert intervals.assurance == "exact"
    # normal ends, at 1.2, cover .811
    np.testing.assert_allclose(half, 1.0, atol=1e-9)
    monkeypatch.setattr("dpinfer.estimation.pivots.FEW", 0)
    monkeypatch.setattr("dpinfer.estimation.pivots._LAWS", 0)
    half, intervals = half_widths(fit, ("sex",))
    assert intervals.assurance == "bound"
    assert (half >= 1.0).all()


def test_all_cells_of_a_marginal_of_a_group_have_one_law():
    fit = published(SETTINGS["mixed"][0], [-1, 0, 0, 1, 1, 2, 2])
    for names in ((), ("sex",), ("age",), ("sex", "age")):
        places = fit._fit.places(None)
        errors, number = fit._fit.laws.cells(names, places, fit._fit.cell_variance(names, places))
        assert errors.std_errors.size == 3  # root, its children, leaves
        assert number.shape == (7, 1)
        half = np.asarray(fit.conf_int(names).width).reshape((7, -1))
        np.testing.assert_allclose(half, half[:, :1].repeat(half.shape[1], axis=1), rtol=1e-9)
        np.testing.assert_allclose(half[3:], half[[3]].repeat(4, axis=0), rtol=1e-9)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Geometric(scale=2.0)])
def test_tables_of_one_cell_have_the_laws_of_numbers(law):
    values = np.asarray(law.rvs(14, rng=np.random.default_rng(2)), dtype=float)
    numbers = combine_hierarchy(values, PARENT, mechanism=law)
    one = combine_marginals([NoisyMarginal((), values, law)], PARENT, domain=Domain({"x": ["all"]}))
    for method in ("exact", "asymptotic"):
        same, found = numbers.conf_int(0.1, method), one.conf_int((), alpha=0.1, method=method)
        np.testing.assert_allclose(np.ravel(found.lower), same.lower, rtol=1e-8)


def test_many_marginals_have_a_bound_on_the_kurtosis(monkeypatch):
    fit = published(SETTINGS["laplace"][0])
    names = ("sex", "age")
    places = fit._fit.places(None)
    variance = fit._fit.cell_variance(names, places)
    exact = fit._fit.laws.cells(names, places, variance)[0].moments.kurtosis
    monkeypatch.setattr("dpinfer.estimation._table_laws._MOST_SUMS", 0)
    bound = fit._fit.laws.cells(names, places, variance)[0].moments.kurtosis
    assert (bound >= exact).all()
    assert (bound <= 3.0 + 1e-9).all()


def test_the_envelope_is_refused_where_it_was_not_checked():
    fit = published([Geometric(scale=0.442)] * 3)
    with pytest.raises(ValueError, match="'envelope'"):
        fit.conf_int("sex", method="envelope")
    with pytest.raises(ValueError, match="alpha must be between"):
        published(SETTINGS["laplace"][0]).conf_int("sex", alpha=1e-4, method="envelope")
