"""The curator's side of error estimates: sensitivities, budgets, what is refused."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.curation import spend_on_error
from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
)
from dpinfer.privacy import GDP, ZCDP, BudgetLedger, PureDP, compose
from dpinfer.queries import Workload

UNIT = Laplace(scale=1.0)
REDUCED = {
    "signed": lambda errors, clip: errors,
    "l1": lambda errors, clip: np.abs(errors).sum(axis=-1, keepdims=True),
    "squared": lambda errors, clip: np.square(np.minimum(np.abs(errors), clip)).sum(
        axis=-1, keepdims=True
    ),
}
"""What is published of errors, shape (..., k)."""


def moved_counts(counts, neighbours):
    """All count vectors that are one record away."""
    steps = np.eye(len(counts))
    if neighbours == "add-remove":
        return [counts + sign * step for step in steps for sign in (1, -1)]
    pairs = itertools.permutations(range(len(counts)), 2)
    return [counts + steps[i] - steps[j] for i, j in pairs]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("measure", "clip", "order"),
    [("signed", None, 1), ("signed", None, 2), ("l1", None, 1)]
    + [("squared", clip, 1) for clip in (0.5, 0.9, 1.0, 1.5, 2.0, 3.0, 4.5)],
)
def test_sensitivity_is_attained_and_never_exceeded(measure, clip, order, neighbours):
    # every vector of two counts up to 12 against published values on a fine grid
    budget = PureDP(1.0) if order == 1 else ZCDP(1.0)
    budget = replace(budget, neighbours=neighbours)
    claimed = spend_on_error(
        [0, 0], [0, 0], budget=budget, measure=measure, clip=clip, neighbours=neighbours, rng=1
    ).sensitivity
    grid = np.arange(-6.0, 6.25, 0.25)
    errors = np.stack(np.meshgrid(grid, grid), axis=-1)
    largest = 0.0
    for step in moved_counts(np.zeros(2), neighbours):
        change = REDUCED[measure](errors + step, clip) - REDUCED[measure](errors, clip)
        largest = max(largest, np.linalg.norm(change, order, axis=-1).max())
    assert largest <= claimed * (1 + 1e-12)
    # errors just below the clipping bound are on the grid
    assert largest == pytest.approx(claimed, rel=1e-12)


def test_sensitivities_of_a_single_count_do_not_depend_on_the_relation():
    for measure, clip in (("signed", None), ("l1", None), ("squared", 3.0)):
        options = {"mechanism": UNIT, "measure": measure, "clip": clip, "rng": 1}
        one = [
            spend_on_error(3, 0, neighbours=n, **options).sensitivity
            for n in ("add-remove", "replace")
        ]
        assert one[0] == one[1]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_sensitivity_with_a_workload_by_brute_force(neighbours):
    matrix = np.array([[1, 0, 2], [1, 1, 0], [0, 1, -1]])
    workload = Workload(matrix)
    rng = np.random.default_rng(3)
    deltas = moved_counts(np.zeros(3), neighbours)
    for measure, clip in (("signed", None), ("l1", None), ("squared", 2.5)):
        options = {"mechanism": UNIT, "measure": measure, "clip": clip, "neighbours": neighbours}
        claimed = spend_on_error(
            np.zeros(3), np.zeros(3), workload=workload, rng=1, **options
        ).sensitivity
        errors = rng.uniform(-5, 5, (1500, 3))
        largest = 0.0
        for delta in deltas:
            moved = REDUCED[measure](errors + matrix @ delta, clip)
            change = moved - REDUCED[measure](errors, clip)
            largest = max(largest, np.abs(change).sum(axis=-1).max())
        assert largest <= claimed * (1 + 1e-12)
        assert largest > (0.5 if measure == "squared" else 0.99) * claimed


@pytest.mark.parametrize(
    ("mechanism", "neighbours", "expected"),
    [
        (Laplace(scale=2.0), "add-remove", PureDP(0.5)),
        (Laplace(scale=2.0), "replace", PureDP(1.0, neighbours="replace")),
        (Geometric(scale=2.0), "replace", PureDP(1.0, neighbours="replace")),
        (Gaussian(sigma=2.0), "add-remove", GDP(0.5)),
        (Gaussian(sigma=2.0), "replace", GDP(np.sqrt(2) / 2, neighbours="replace")),
        (DiscreteGaussian(sigma=2.0), "replace", ZCDP(0.25, neighbours="replace")),
        (Laplace(scale=[1.0, 2.0]), "add-remove", PureDP(1.0)),
    ],
)
def test_guarantee_of_the_signed_errors_of_two_counts(mechanism, neighbours, expected):
    error = spend_on_error([3, 5], [0, 7], mechanism=mechanism, neighbours=neighbours, rng=1)
    assert type(error.nominal) is type(expected)
    assert error.nominal.neighbours == expected.neighbours
    for name in ("epsilon", "mu", "rho"):
        if hasattr(expected, name):
            assert getattr(error.nominal, name) == pytest.approx(getattr(expected, name), rel=1e-12)


def test_noise_is_that_of_the_mechanism():
    # the same seed gives the same noise, whatever the truth
    first = spend_on_error([3, 5], [0, 7], mechanism=UNIT, rng=5)
    second = spend_on_error([30, 50], [0, 7], mechanism=UNIT, rng=5)
    np.testing.assert_allclose(second.estimate - first.estimate, [27.0, 45.0], atol=1e-12)
    noise = UNIT.rvs((2,), rng=5)
    np.testing.assert_allclose(first.estimate - noise, [3.0, -2.0])
    total = spend_on_error([3, 5], [0, 7], mechanism=UNIT, measure="l1", rng=5)
    assert total.estimate == pytest.approx(5.0 + UNIT.rvs(rng=5))
    square = spend_on_error([3, 5], [0, 7], mechanism=UNIT, measure="squared", clip=2, rng=5)
    assert square.estimate == pytest.approx(8.0 + UNIT.rvs(rng=5))
    assert (total.sensitivity, square.sensitivity) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("measure", "clip"), [("signed", None), ("l1", None), ("squared", 0.5), ("squared", 4.5)]
)
def test_what_is_published_of_errors(measure, clip):
    published = np.random.default_rng(2).uniform(-9, 9, 5)
    options = {"mechanism": Laplace(scale=1e-12), "measure": measure, "clip": clip, "rng": 1}
    found = spend_on_error(np.zeros(5), published, **options)
    expected = REDUCED[measure](-published, clip)
    np.testing.assert_allclose(np.ravel(found.estimate), expected, atol=1e-9)


def test_nothing_confidential_is_kept():
    error = spend_on_error([31337, 5], [0, 7], mechanism=Laplace(scale=1e6), rng=5)
    held = [np.asarray(value, dtype=object).ravel() for value in vars(error).values()]
    assert not any(31337 in values.tolist() for values in held)
    copy = pickle.loads(pickle.dumps(error))
    np.testing.assert_array_equal(copy.estimate, error.estimate)


def test_labels_travel():
    truth = pd.Series({"men": 3, "women": 5})
    error = spend_on_error(truth, [0, 7], mechanism=UNIT, rng=1)
    assert error.estimate.index.equals(truth.index)
    assert error.conf_int().lower.index.equals(truth.index)
    assert error.summary_frame().index.equals(truth.index)
    with pytest.raises(InvalidParameterError, match="labels"):
        spend_on_error(truth, pd.Series({"women": 7, "men": 0}), mechanism=UNIT)
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert len(spend_on_error(frame, frame, mechanism=UNIT, rng=1).estimate) == 4


def test_a_ledger_is_charged_before_noise_is_drawn():
    ledger = BudgetLedger(PureDP(2.0))
    ledger.record("counts", PureDP(1.0))
    error = spend_on_error(3, 0, mechanism=UNIT, ledger=ledger, release=PureDP(1.0), rng=1)
    assert ledger.spent == compose([PureDP(1.0), error.nominal]) == PureDP(2.0)
    assert [entry.name for entry in ledger.entries] == ["counts", "error estimate (simulated)"]
    rng = np.random.default_rng(1)
    state = rng.bit_generator.state
    with pytest.raises(IncompatibleReleaseError, match="overspend"):
        spend_on_error(3, 0, mechanism=UNIT, ledger=ledger, name="more", rng=rng)
    assert rng.bit_generator.state == state
    with pytest.raises(IncompatibleReleaseError, match="neighbours"):
        spend_on_error(3, 0, mechanism=UNIT, ledger=ledger, name="x", neighbours="replace")


@pytest.mark.parametrize("law", [Geometric(scale=2.0), DiscreteGaussian(sigma=2.0)])
def test_whole_numbered_noise_needs_whole_numbers(law):
    # signed errors: a fraction that was published is known, and shifts everything alike
    spend_on_error([3, 5], [0.5, 7.25], mechanism=law)
    with pytest.raises(IncompatibleReleaseError, match="truth must hold whole"):
        spend_on_error([3.5, 5], [0, 7], mechanism=law)
    with pytest.raises(IncompatibleReleaseError, match="published must hold whole"):
        spend_on_error([3, 5], [0.5, 7.5], mechanism=law, measure="l1")
    spend_on_error([3, 5], [0, 7], mechanism=law, measure="squared", clip=2, rng=1)
    with pytest.raises(DPInferError, match="whole"):
        spend_on_error([3, 5], [0, 7], mechanism=law, measure="squared", clip=2.5, rng=1)
    with pytest.raises(IncompatibleReleaseError, match="fractional"):
        spend_on_error([3], [0], mechanism=law, workload=[[0.5, 1.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"measure": "squared"}, "clip must be given"),
        ({"clip": 2.0}, "clip must be None"),
        ({"measure": "mean"}, "measure must be one of"),
        ({"neighbours": "both"}, "neighbours must be one of"),
        ({"sensitivity": 0.0}, "sensitivity must be > 0"),
        ({"sensitivity": 1.0, "workload": np.eye(2)}, "sensitivity must be left out"),
        ({"workload": np.eye(3)}, "workload must have a row for each"),
        ({"workload": [[0.5, 0], [0, 1]], "measure": "squared", "clip": 2}, "whole-number"),
        ({"release": 1.0}, "release must be a guarantee"),
        ({"ledger": 1.0}, "ledger must be a BudgetLedger"),
        ({"published": [1.0]}, "published must have the shape"),
        ({"truth": [[1.0, 2.0]]}, "truth must be a number or one-dimensional"),
        ({"truth": [1.0, np.nan]}, "truth must not contain NaN"),
        ({"truth": [1.7e308, 0], "published": [-1.7e308, 0]}, "truth - published"),
        ({"mechanism": 3}, "mechanism must be"),
        ({"mechanism": Laplace(scale=[1.0, 2.0]), "measure": "l1"}, "mechanism must have one law"),
        ({"mechanism": IndependentNoise([UNIT, Gaussian(sigma=1.0)])}, "no guarantee"),
        ({"mechanism": Tulap(scale=[1.0, 2.0])}, "one scale"),
        ({"clip": 0.0, "measure": "squared"}, "clip must be > 0"),
    ],
)
def test_refusals(arguments, message):
    default = {"truth": [3.0, 5.0], "published": [0.0, 7.0], "mechanism": UNIT}
    with pytest.raises(InvalidParameterError, match=message):
        spend_on_error(**{**default, **arguments})


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("budget", "mechanism", "kind", "order"),
    [
        (PureDP(0.3), None, Laplace, 1),
        (PureDP(0.3), Geometric, Geometric, 1),
        (ZCDP(0.3), None, Gaussian, 2),
        (ZCDP(0.3), DiscreteGaussian, DiscreteGaussian, 2),
        (GDP(0.3), Gaussian, Gaussian, 2),
    ],
)
def test_noise_for_a_budget_costs_just_that(budget, mechanism, kind, order, neighbours):
    budget = replace(budget, neighbours=neighbours)
    moved = {"add-remove": 1, "replace": 2}[neighbours]
    # a square moves by 2·3 - 1 at most, and two of them do under "replace"
    sizes = {"signed": moved ** (1 / order), "l1": moved, "squared": 5 * moved}
    for measure, size in sizes.items():
        clip = 3.0 if measure == "squared" else None
        error = spend_on_error(
            [3, 5], [0, 7], budget=budget, mechanism=mechanism, measure=measure, clip=clip
        )
        assert type(error.mechanism) is kind
        assert error.sensitivity == pytest.approx(size, rel=1e-15)
        if isinstance(budget, PureDP):
            assert error.mechanism.scale == pytest.approx(size / 0.3, rel=1e-14)
            assert error.nominal.epsilon == pytest.approx(0.3, rel=1e-14)
        elif isinstance(budget, ZCDP):
            assert error.mechanism.sigma == pytest.approx(size / np.sqrt(0.6), rel=1e-14)
            assert error.nominal.to_zcdp().rho == pytest.approx(0.3, rel=1e-14)
        else:
            assert error.mechanism.sigma == pytest.approx(size / 0.3, rel=1e-14)
            assert error.nominal.mu == pytest.approx(0.3, rel=1e-14)
        assert error.nominal.neighbours == neighbours


def test_a_budget_is_for_the_sensitivity_that_is_given_and_fits_its_ledger():
    ledger = BudgetLedger(PureDP(0.7))
    error = spend_on_error([3], [0], budget=PureDP(0.7), sensitivity=4.0, ledger=ledger)
    assert error.mechanism.scale == pytest.approx(4.0 / 0.7)
    assert ledger.remaining.epsilon == pytest.approx(0.0, abs=1e-15)
    queries = spend_on_error([3, 3], [0, 0], budget=PureDP(1.0), workload=[[1, 0], [1, 1]])
    assert queries.mechanism.scale == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "mechanism must be given, or else the budget"),
        ({"budget": 1.0}, "budget must be a PureDP"),
        ({"budget": PureDP(0.0)}, "budget must be > 0"),
        ({"budget": PureDP(1.0), "mechanism": UNIT}, "mechanism must be the class Laplace"),
        ({"budget": PureDP(1.0), "mechanism": Gaussian}, "mechanism must be the class Laplace"),
        ({"mechanism": Laplace}, "mechanism must be"),
    ],
)
def test_a_law_or_a_budget(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        spend_on_error([3.0, 5.0], [0.0, 7.0], **arguments)


def test_relations_do_not_mix():
    with pytest.raises(IncompatibleReleaseError, match="neighbours must be 'add-remove', as for"):
        spend_on_error(3, 0, budget=PureDP(1.0), neighbours="replace")
    with pytest.raises(IncompatibleReleaseError, match="do not compose"):
        spend_on_error(3, 0, mechanism=UNIT, release=PureDP(1.0, neighbours="replace"))
    error = spend_on_error(3, 0, mechanism=UNIT)
    with pytest.raises(InvalidParameterError, match="release must be given"):
        _ = error.spent


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.floats(),
    st.integers(-(10**20), 10**20),
    st.lists(st.floats(), max_size=3),
    st.complex_numbers(),
)


@settings(derandomize=True, deadline=None, max_examples=37)
@given(
    truth=ANYTHING,
    published=ANYTHING,
    measure=st.sampled_from(["signed", "l1", "squared", "x"]),
    clip=st.one_of(st.none(), st.floats()),
    sensitivity=st.one_of(st.none(), st.floats()),
    law=st.sampled_from([UNIT, Geometric(scale=1.0), Gaussian(sigma=2.0), None]),
)
def test_only_own_errors_escape(truth, published, measure, clip, sensitivity, law):
    try:
        error = spend_on_error(
            truth,
            published,
            mechanism=law,
            measure=measure,
            clip=clip,
            sensitivity=sensitivity,
            rng=1,
        )
        assert np.isfinite(np.asarray(error.estimate)).all()
        assert not np.isnan(np.asarray(error.value_conf_int())).any()
        error.summary()
    except DPInferError:
        pass
