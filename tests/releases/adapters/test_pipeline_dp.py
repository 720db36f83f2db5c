from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import Gaussian, Laplace
from dpinfer.releases import from_pipeline_dp
from dpinfer.releases.adapters import google_sigma

PARAMS = {
    "noise_kind": "laplace",
    "max_partitions_contributed": 4,
    "max_contributions_per_partition": 3,
    "min_value": -1,
    "max_value": 2,
}
GAUSSIAN = PARAMS | {"noise_kind": "gaussian"}


def test_from_parameters():
    assert from_pipeline_dp(PARAMS, "count", 0.5) == Laplace(scale=24.0)
    assert from_pipeline_dp(PARAMS, "sum", 0.5) == Laplace(scale=48.0)
    assert from_pipeline_dp(PARAMS, "PRIVACY_ID_COUNT", (0.5, 0)) == Laplace(scale=8.0)
    sigma = google_sigma(0.5, 1e-6, 6.0)
    assert from_pipeline_dp(GAUSSIAN, "count", (0.5, 1e-6)) == Gaussian(sigma=sigma)
    per_partition = {"min_sum_per_partition": -5, "max_sum_per_partition": 2}
    bounded = {**PARAMS, "min_value": None, "max_value": None, **per_partition}
    assert from_pipeline_dp(bounded, "sum", 1.0) == Laplace(scale=20.0)
    few = PARAMS | {"max_contributions": 7}
    assert from_pipeline_dp(few, "count", 1.0) == Laplace(scale=7.0)
    assert from_pipeline_dp(few, "sum", 1.0) == Laplace(scale=14.0)
    law = from_pipeline_dp(few | {"noise_kind": "gaussian"}, "privacy_id_count", (1.0, 1e-6))
    assert law == Gaussian(sigma=google_sigma(1.0, 1e-6, np.sqrt(7.0)))


@pytest.mark.parametrize(
    ("params", "metric", "budget", "message"),
    [
        (3, "count", 1.0, "AggregateParams of PipelineDP or a mapping"),
        ({}, "count", 1.0, "noise_kind must be one of"),
        (PARAMS, "mean", 1.0, "metric must be one of"),
        (PARAMS, 4, 1.0, "metric must be one of"),
        (PARAMS, "count", 0.0, "epsilon of the budget"),
        (PARAMS, "count", None, "epsilon of the budget"),
        (PARAMS, "count", (1, 2, 3), "epsilon or"),
        (GAUSSIAN, "count", 1.0, "got no delta"),
        (PARAMS | {"min_value": None}, "sum", 1.0, "entry min_sum_per_partition"),
        (PARAMS | {"max_partitions_contributed": 0}, "sum", 1.0, "must be > 0"),
        (
            PARAMS | {"post_aggregation_thresholding": True},
            "privacy_id_count",
            1.0,
            "post_aggregation_thresholding",
        ),
    ],
)
def test_bad_input(params, metric, budget, message):
    with pytest.raises(InvalidParameterError, match=message):
        from_pipeline_dp(params, metric, budget)


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text("a1.é", max_size=3))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    changes=st.dictionaries(st.sampled_from(sorted(PARAMS)), JUNK),
    metric=st.sampled_from(["count", "sum", "privacy_id_count"]),
    budget=st.one_of(JUNK, st.tuples(JUNK, JUNK), st.just((1.0, 1e-6))),
)
def test_only_errors_of_the_library_escape(changes, metric, budget):
    try:
        law = from_pipeline_dp(GAUSSIAN | changes, metric, budget)
    except DPInferError:
        return
    assert np.isfinite(law.variance)


class NoiseKind(Enum):
    """The enumeration of pipeline-dp 0.3.1."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass
class Metric:
    """Stands in for a metric of pipeline-dp 0.3.1, such as ``Metrics.COUNT``."""

    name: str
    parameter: float | None = None


@dataclass
class AggregateParams:
    """Stands in for the parameters of pipeline-dp 0.3.1, with all that the law depends on."""

    metrics: list
    noise_kind: NoiseKind = NoiseKind.LAPLACE
    max_partitions_contributed: int | None = None
    max_contributions_per_partition: int | None = None
    max_contributions: int | None = None
    budget_weight: float = 1
    min_value: float | None = None
    max_value: float | None = None
    min_sum_per_partition: float | None = None
    max_sum_per_partition: float | None = None
    post_aggregation_thresholding: bool = False


@dataclass
class MechanismSpec:
    """Stands in for what an accountant gives: nothing before the budgets are computed."""

    mechanism_type: NoiseKind
    _noise_standard_deviation: float | None = None
    _eps: float | None = None
    _delta: float | None = None

    @property
    def eps(self):
        if self._eps is None:
            raise AssertionError("Privacy budget is not calculated yet.")
        return self._eps

    @property
    def delta(self):
        if self._delta is None:
            raise AssertionError("Privacy budget is not calculated yet.")
        return self._delta


for kind in (NoiseKind, Metric, AggregateParams):
    kind.__module__ = "pipeline_dp.aggregate_params"
MechanismSpec.__module__ = "pipeline_dp.budget_accounting"


@pytest.mark.parametrize(
    ("metric", "l1", "l2"),
    [("COUNT", 12.0, 6.0), ("SUM", 60.0, 30.0), ("PRIVACY_ID_COUNT", 4.0, 2.0)],
)
@pytest.mark.parametrize("noise", NoiseKind)
def test_objects_like_those_of_pipeline_dp(metric, l1, l2, noise):
    """Four partitions, three contributions to each, of magnitudes up to five."""
    params = AggregateParams([Metric(metric)], noise, 4, 3, min_value=-1, max_value=5)
    spec = MechanismSpec(noise)
    with pytest.raises(InvalidParameterError, match="compute_budgets"):
        from_pipeline_dp(params, Metric(metric), spec)
    spec._eps, spec._delta = 0.5, 0.0 if noise is NoiseKind.LAPLACE else 1e-6
    law = from_pipeline_dp(params, Metric(metric), spec)
    if noise is NoiseKind.LAPLACE:
        assert law == Laplace(scale=l1 / 0.5)
    else:  # 8.0625 is what python-dp 1.1.5 has for the sensitivity 1; it bisects from there on
        assert isinstance(law, Gaussian)
        assert law.sigma == pytest.approx(8.0625 * l2, rel=1.1e-3)
    # composed privacy losses give the deviation for the sensitivity 1
    found = from_pipeline_dp(params, Metric(metric), MechanismSpec(noise, 3.0))
    assert found.variance == pytest.approx((3.0 * (l1 if noise is NoiseKind.LAPLACE else l2)) ** 2)


def test_the_sigma_is_that_of_pydp():
    """Sensitivity 2 = sqrt(4) partitions: the deviation that python-dp 1.1.5 states."""
    params = AggregateParams([Metric("COUNT")], NoiseKind.GAUSSIAN, 4, 1)
    spec = MechanismSpec(NoiseKind.GAUSSIAN, None, 1.0, 1e-5)
    assert from_pipeline_dp(params, Metric("COUNT"), spec) == Gaussian(sigma=7.46484375)


def test_metrics_of_several_noises_are_refused():
    params = AggregateParams([Metric("MEAN")], NoiseKind.LAPLACE, 4, 3, min_value=0, max_value=1)
    for metric in (Metric("MEAN"), Metric("VARIANCE"), Metric("PERCENTILE", 50)):
        with pytest.raises(InvalidParameterError, match="metric must be one of"):
            from_pipeline_dp(params, metric, MechanismSpec(NoiseKind.LAPLACE, None, 1.0, 0.0))


@pytest.mark.parametrize("kind", ["LAPLACE", "GAUSSIAN"])
@pytest.mark.parametrize("accountant", ["NaiveBudgetAccountant", "PLDBudgetAccountant"])
def test_the_objects_of_pipeline_dp(kind, accountant):
    dp = pytest.importorskip("pipeline_dp", reason="PipelineDP is not installed")
    computations = pytest.importorskip("pipeline_dp.dp_computations")
    if accountant == "PLDBudgetAccountant":
        pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    metrics = [dp.Metrics.COUNT, dp.Metrics.SUM, dp.Metrics.PRIVACY_ID_COUNT]
    params = dp.AggregateParams(
        metrics=metrics,
        noise_kind=dp.NoiseKind[kind],
        max_partitions_contributed=2,
        max_contributions_per_partition=3,
        min_value=-1,
        max_value=4,
    )
    budget = getattr(dp, accountant)(total_epsilon=1, total_delta=1e-6)
    specs = [budget.request_budget(params.noise_kind.convert_to_mechanism_type()) for _ in metrics]
    if accountant == "NaiveBudgetAccountant":
        with pytest.raises(InvalidParameterError, match="compute_budgets"):
            from_pipeline_dp(params, "count", specs[0])
    budget.compute_budgets()
    for metric, spec in zip(metrics, specs, strict=True):
        sensitivities = computations.compute_sensitivities(metric, params)
        theirs = computations.create_additive_mechanism(spec, sensitivities)
        law = from_pipeline_dp(params, metric, spec)
        found = law.scale if kind == "LAPLACE" else law.sigma
        np.testing.assert_allclose(found, theirs.noise_parameter, rtol=1e-12)
