"""Noise laws from Tumult Analytics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dpinfer._validation import check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, NoiseLaw

LAWS: dict[str, Callable[[float], NoiseLaw]] = {
    "LAPLACE": lambda scale: Laplace(scale=scale),
    "GEOMETRIC": lambda alpha: Geometric(scale=alpha),
    "DISCRETE_GAUSSIAN": lambda variance: DiscreteGaussian(sigma=float(np.sqrt(variance))),
    "GAUSSIAN": lambda variance: Gaussian(sigma=float(np.sqrt(variance))),
}
"""The law of each mechanism by the parameter that Tumult gives for it."""


def from_tumult(noise_info: Any) -> NoiseLaw:
    """Return the law of the noise that Tumult Analytics adds to the answers of a query.

    Parameters
    ----------
    noise_info : list of mappings, or one mapping
        What ``session._noise_info(query, privacy_budget)`` returns, called before ``evaluate``; or
        the same by hand: ``{"noise_mechanism": "GEOMETRIC", "noise_parameter": 2}``. The parameter
        is the scale of ``"LAPLACE"`` and ``"GEOMETRIC"`` noise, the variance proxy σ² of
        ``"GAUSSIAN"`` and ``"DISCRETE_GAUSSIAN"`` noise.

    Returns
    -------
    NoiseLaw
        The law of the noise of each answer of the query.

    Raises
    ------
    InvalidParameterError
        If the query does not add one noise to one number: a quantile, or an average or variance,
        which Tumult computes from several noisy numbers.

    Notes
    -----
    A ``count`` under ``PureDPBudget(epsilon)`` and ``AddOneRow`` has geometric noise of scale
    1/ε; under ``RhoZCDPBudget(rho)`` discrete Gaussian noise with σ² = 1/(2ρ). Where the query
    suppresses small answers (``suppress``), give the release its ``threshold``.

    Checked against what sessions of tmlt.analytics 0.21.0 return, which the tests hold; they run no
    session, as it needs Spark.

    Examples
    --------
    >>> from_tumult([{"noise_mechanism": "DISCRETE_GAUSSIAN", "noise_parameter": 16.0}])
    DiscreteGaussian(sigma=4.0)
    """
    parts = [noise_info] if isinstance(noise_info, Mapping) else _listed(noise_info)
    if len(parts) != 1 or not isinstance(parts[0], Mapping):
        raise InvalidParameterError(
            "noise_info must have one entry, that of the one noisy number which the query returns, "
            f"got {show(noise_info)}"
        )
    if missing := {"noise_mechanism", "noise_parameter"} - set(parts[0]):
        raise InvalidParameterError(
            "noise_info must have the entries noise_mechanism and noise_parameter, without: "
            f"{', '.join(sorted(missing))}"
        )
    mechanism = parts[0]["noise_mechanism"]
    kind = str(getattr(mechanism, "name", mechanism)).upper()
    if kind not in LAWS:
        raise InvalidParameterError(
            f"noise_mechanism must be one of {', '.join(LAWS)}, got {show(mechanism)}"
        )
    return LAWS[kind](check_scalar(parts[0]["noise_parameter"], "noise_parameter", gt=0))


def _listed(noise_info: Any) -> list[Any]:
    if isinstance(noise_info, Iterable) and not isinstance(noise_info, (str, bytes)):
        return list(noise_info)
    raise InvalidParameterError(
        "noise_info must be what session._noise_info(query, privacy_budget) returns, got "
        f"{show(noise_info)}"
    )
