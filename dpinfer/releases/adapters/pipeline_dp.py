"""Noise laws from PipelineDP, which runs Google's mechanisms on Beam and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpinfer._validation import check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, Laplace, NoiseLaw
from dpinfer.releases.adapters.google_sigma import google_sigma

METRICS = ("count", "sum", "privacy_id_count")

LARGEST = 1e20
"""Bound of each parameter, so that no product of them overflows."""


def from_pipeline_dp(params: Any, metric: Any, budget: Any) -> NoiseLaw:
    """Return the law of the noise of a metric that PipelineDP published.

    Parameters
    ----------
    params : pipeline_dp.AggregateParams, or mapping
        The parameters of the aggregation; a mapping has the same names: ``noise_kind``
        (``"laplace"`` or ``"gaussian"``), ``max_partitions_contributed``,
        ``max_contributions_per_partition``, ``min_value``, ``max_value``, ...
    metric : pipeline_dp.Metric or {"count", "sum", "privacy_id_count"}
        The published metric.
    budget : pipeline_dp.budget_accounting.MechanismSpec, float, or (float, float)
        What the accountant gave to this metric, after ``compute_budgets()``: its specification, or
        ε, or (ε, δ), which Gaussian noise needs. ``NaiveBudgetAccountant`` splits the total
        equally among the metrics of an aggregation and the selection of private partitions.

    Returns
    -------
    NoiseLaw
        :class:`~dpinfer.Laplace` or :class:`~dpinfer.Gaussian`, the same for all partitions.

    Raises
    ------
    InvalidParameterError
        If the metric is not one number with one noise (means, variances, percentiles), the budget
        is not known yet, a parameter is missing, or counts below a threshold were left out.

    Notes
    -----
    With l0 = ``max_partitions_contributed`` and linf = ``max_contributions_per_partition``, times
    the largest magnitude of a value for a sum, Laplace noise has the scale l0·linf/ε, and Gaussian
    noise the σ of Google's library for the L2 sensitivity √l0·linf.

    A partition that was selected privately was published only because enough people were in it. The
    noise of its metrics is drawn afresh, so that intervals for published partitions hold as they
    are.

    Checked against the objects of pipeline-dp 0.3.1.

    Examples
    --------
    >>> params = {
    ...     "noise_kind": "laplace",
    ...     "max_partitions_contributed": 2,
    ...     "max_contributions_per_partition": 3,
    ... }
    >>> from_pipeline_dp(params, "count", 0.5)
    Laplace(scale=12.0)
    """
    source = _source(params)
    name = metric if isinstance(metric, str) else getattr(metric, "name", metric)
    name = name.lower() if isinstance(name, str) else name
    name = check_option(name, "metric", METRICS)
    noise = _get(source, "noise_kind")
    noise = check_option(getattr(noise, "value", noise), "noise_kind", ("laplace", "gaussian"))
    if name == "privacy_id_count" and _get(source, "post_aggregation_thresholding"):
        raise InvalidParameterError(
            "params must not have post_aggregation_thresholding with privacy_id_count: its noise "
            "is that of the selection of partitions; build the release with its law and threshold="
        )
    l1, l2 = _sensitivities(source, name)
    deviation = _deviation(budget)
    if deviation is not None:  # of noise for the sensitivity 1
        if noise == "laplace":
            return Laplace(scale=deviation / np.sqrt(2.0) * l1)
        return Gaussian(sigma=deviation * l2)
    epsilon, delta = _epsilon_delta(budget)
    if noise == "laplace":
        return Laplace(scale=l1 / epsilon)
    if not delta:
        raise InvalidParameterError(
            "budget must be (epsilon, delta) for Gaussian noise, got no delta"
        )
    return Gaussian(sigma=google_sigma(epsilon, delta, l2))


def _source(params: Any) -> Any:
    if isinstance(params, Mapping):
        return SimpleNamespace(**{str(key): value for key, value in params.items()})
    if not hasattr(params, "noise_kind"):
        raise InvalidParameterError(
            f"params must be AggregateParams of PipelineDP or a mapping, got {show(params)}"
        )
    return params


def _get(source: Any, name: str) -> Any:
    return getattr(source, name, None)


def _number(source: Any, name: str) -> float:
    if _get(source, name) is None:
        raise InvalidParameterError(f"params must have the entry {name}")
    return check_scalar(_get(source, name), name, ge=-LARGEST, le=LARGEST)


def _positive(source: Any, name: str) -> float:
    return check_scalar(_number(source, name), name, gt=0)


def _sensitivities(source: Any, metric: str) -> tuple[float, float]:
    """Return the L1 and the L2 sensitivity of a metric."""
    if _get(source, "max_contributions") is not None:
        total = _positive(source, "max_contributions")
        if metric == "privacy_id_count":
            return total, float(np.sqrt(total))
        size = _magnitude(source, "min_value", "max_value") if metric == "sum" else 1.0
        return size * total, size * total
    l0 = _positive(source, "max_partitions_contributed")
    if metric == "privacy_id_count":
        linf = 1.0
    elif metric == "sum" and _get(source, "min_value") is None:
        linf = _magnitude(source, "min_sum_per_partition", "max_sum_per_partition")
    else:
        size = _magnitude(source, "min_value", "max_value") if metric == "sum" else 1.0
        linf = size * _positive(source, "max_contributions_per_partition")
    return l0 * linf, float(np.sqrt(l0)) * linf


def _magnitude(source: Any, low: str, high: str) -> float:
    largest = max(abs(_number(source, low)), abs(_number(source, high)))
    return check_scalar(largest, f"the larger magnitude of {low} and {high}", gt=0)


def _deviation(budget: Any) -> float | None:
    """Return the deviation of a specification that was found by composing privacy losses."""
    deviation = getattr(budget, "_noise_standard_deviation", None)
    return None if deviation is None else check_scalar(deviation, "budget", gt=0, le=LARGEST)


def _epsilon_delta(budget: Any) -> tuple[float, float]:
    if hasattr(budget, "mechanism_type"):
        try:
            budget = (budget.eps, budget.delta)
        except AssertionError as error:
            raise InvalidParameterError(
                "budget must be known, got a specification before accountant.compute_budgets()"
            ) from error
    pair = budget if isinstance(budget, (tuple, list)) else (budget, 0.0)
    if len(pair) != 2:
        raise InvalidParameterError(
            f"budget must be epsilon or (epsilon, delta), got {show(budget)}"
        )
    epsilon = check_scalar(pair[0], "epsilon of the budget", ge=1e-12, le=1e12)
    return epsilon, check_scalar(pair[1] or 0.0, "delta of the budget", ge=0, lt=1)
