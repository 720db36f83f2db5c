import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import Gaussian, Laplace
from dpinfer.releases.adapters import from_pipeline_dp
from dpinfer.releases.adapters.google_sigma import google_sigma

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


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@settings(derandomize=True, deadline=None, max_examples=80)
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
