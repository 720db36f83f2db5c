"""Noise laws from the events of Google's dp-accounting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpinfer._validation import check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace, NoiseLaw

LAWS: dict[str, Callable[[Any, float | None], NoiseLaw]] = {
    "GaussianDpEvent": lambda event, norm: Gaussian(sigma=_scaled(event, norm)),
    "LaplaceDpEvent": lambda event, norm: Laplace(scale=_scaled(event, norm)),
    "DiscreteLaplaceDpEvent": lambda event, norm: Geometric(scale=1 / _rate(event)),
}

REASONS = {
    "ComposedDpEvent": "it holds several mechanisms: convert each of its events",
    "SelfComposedDpEvent": "it holds several runs of a mechanism: convert its event",
    "PoissonSampledDpEvent": "the answer is one on a random sample: convert its event, and allow "
    "for the sampling error of the sample",
    "SampledWithoutReplacementDpEvent": "the answer is one on a random sample: convert its event, "
    "and allow for the sampling error of the sample",
    "SampledWithReplacementDpEvent": "the answer is one on a random sample: convert its event, "
    "and allow for the sampling error of the sample",
    "ZCDpEvent": "a guarantee does not determine the law of the noise",
    "NonPrivateDpEvent": "it does not say what was computed: use Exact() for a value without noise",
    "NoOpDpEvent": "it publishes nothing",
    "RandomizedResponseDpEvent": "randomized response adds no noise to a number",
}
"""Why an event has no law of additive noise."""


def from_dp_event(event: Any, *, sensitivity: float | None = None) -> NoiseLaw:
    """Return the law of the noise that a ``dp_accounting`` event stands for.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        A ``GaussianDpEvent``, ``LaplaceDpEvent`` or ``DiscreteLaplaceDpEvent``.
    sensitivity : float, optional
        The sensitivity (L2 for Gaussian, L1 for Laplace noise) by which the noise multiplier of
        the first two is multiplied, in units of the answer; they need it.

    Returns
    -------
    NoiseLaw
        ``Gaussian(sigma=noise_multiplier * sensitivity)``,
        ``Laplace(scale=noise_multiplier * sensitivity)`` or
        ``Geometric(scale=1 / noise_parameter)``.

    Raises
    ------
    InvalidParameterError
        If the event does not stand for one run of an additive mechanism; the message says why.

    Examples
    --------
    >>> import pytest
    >>> dp_accounting = pytest.importorskip("dp_accounting")
    >>> from_dp_event(dp_accounting.GaussianDpEvent(1.5), sensitivity=2.0)
    Gaussian(sigma=3.0)
    """
    kind = type(event)
    if not kind.__module__.startswith("dp_accounting"):
        raise InvalidParameterError(f"event must be a DpEvent of dp_accounting, got {show(event)}")
    if kind.__name__ not in LAWS:
        reason = REASONS.get(kind.__name__, "it is not one run of an additive mechanism")
        raise InvalidParameterError(
            f"event must be one of {', '.join(LAWS)}, got {kind.__name__}: {reason}"
        )
    norm = None if sensitivity is None else check_scalar(sensitivity, "sensitivity", gt=0)
    return LAWS[kind.__name__](event, norm)


def _scaled(event: Any, norm: float | None) -> float:
    multiplier = check_scalar(event.noise_multiplier, "noise_multiplier", gt=0)
    if norm is None:
        raise InvalidParameterError(
            f"sensitivity must be given with a {type(event).__name__}, got None: its noise is "
            "noise_multiplier times the sensitivity"
        )
    return multiplier * norm


def _rate(event: Any) -> float:
    return check_scalar(event.noise_parameter, "noise_parameter", gt=0)
