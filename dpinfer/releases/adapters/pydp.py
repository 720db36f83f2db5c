"""Noise laws from PyDP, the Python face of Google's differential privacy library."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from dpinfer._validation import check_flag, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, Laplace, NoiseLaw, Rounded
from dpinfer.releases.adapters.google_sigma import google_sigma

KINDS = ("LaplaceMechanism", "GaussianMechanism", "Count", "BoundedSum")

WHOLE = ("int", "int64")
"""What an algorithm says of its ``dtype`` where it publishes whole numbers."""


def from_pydp(
    algorithm: Any,
    *,
    bounds: tuple[float, float] | None = None,
    whole: bool | None = None,
) -> NoiseLaw:
    """Return the law of the noise that an algorithm or mechanism of PyDP adds.

    Parameters
    ----------
    algorithm : object of PyDP, or mapping
        A ``LaplaceMechanism`` or ``GaussianMechanism`` of
        ``pydp.algorithms.numerical_mechanisms``, or a ``Count`` or ``BoundedSum`` of
        ``pydp.algorithms.laplacian``; or what identifies it:
        ``{"algorithm": "Count", "epsilon": 1.0, "l0_sensitivity": 1, "linf_sensitivity": 1}``,
        for the mechanisms ``epsilon``, ``sensitivity`` and ``delta``.
    bounds : (float, float), optional
        The bounds of the values of a ``BoundedSum``, which does not reveal them.
    whole : bool, optional
        Whether the published values are whole numbers. By default so for algorithms of
        ``dtype="int"`` or ``"int64"``, as a ``Count`` is, and not for mechanisms, which answer an
        ``int`` by an ``int`` and a ``float`` by a ``float``.

    Returns
    -------
    NoiseLaw
        :class:`~dpinfer.Laplace` of scale l0·linf/ε (times the largest magnitude within the bounds,
        for a sum) or :class:`~dpinfer.Gaussian`; for whole numbers :class:`~dpinfer.Rounded` noise,
        as PyDP rounds what it publishes of them.

    Raises
    ------
    InvalidParameterError
        If the algorithm does not add one noise to a number (means, variances, percentiles), or a
        parameter is missing.

    Notes
    -----
    Checked against the objects and the draws of python-dp 1.1.5.

    Examples
    --------
    >>> from_pydp({"algorithm": "LaplaceMechanism", "epsilon": 0.5, "sensitivity": 1.0})
    Laplace(scale=2.0)
    """
    kind, source = _identified(algorithm)
    rounded = getattr(source, "dtype", "float") in WHOLE if whole is None else whole
    rounded = check_flag(rounded, "whole")
    if bounds is not None and kind != "BoundedSum":
        raise InvalidParameterError(f"bounds must be None for a {kind}, got {show(bounds)}")
    if kind == "GaussianMechanism":
        sigma = _sigma(source)
        return Rounded(Gaussian(sigma=sigma)) if rounded else Gaussian(sigma=sigma)
    scale = _laplace_scale(kind, source, bounds)
    return Rounded(Laplace(scale=scale)) if rounded else Laplace(scale=scale)


def _identified(algorithm: Any) -> tuple[str, Any]:
    """Return the name of an algorithm and what holds its parameters."""
    if isinstance(algorithm, Mapping):
        kind = algorithm.get("algorithm")
        defaults = {"dtype": "int"} if kind == "Count" else {}
        named = {str(key): value for key, value in algorithm.items()}
        source: Any = SimpleNamespace(**defaults | named)
    else:
        kind, source = type(algorithm).__name__, algorithm
        if type(algorithm).__module__.partition(".")[0] != "pydp":
            raise InvalidParameterError(
                f"algorithm must be an object of PyDP or a mapping, got {show(algorithm)}"
            )
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidParameterError(
            f"algorithm must be one of {', '.join(KINDS)}, got {show(kind)}: others do not add one "
            "noise to a number"
        )
    return kind, source


def _parameter(source: Any, name: str, **bounds: Any) -> float:
    if getattr(source, name, None) is None:
        raise InvalidParameterError(f"algorithm must have the entry {name}")
    return check_scalar(getattr(source, name), name, **bounds)


def _sigma(source: Any) -> float:
    if getattr(source, "std", None) is not None:
        return _parameter(source, "std", gt=0)
    name = "l2_sensitivity" if hasattr(source, "l2_sensitivity") else "sensitivity"
    return google_sigma(
        _parameter(source, "epsilon", ge=1e-12, le=1e12),
        _parameter(source, "delta", gt=0, lt=1),
        _parameter(source, name, ge=1e-100, le=1e100),
    )


def _laplace_scale(kind: str, source: Any, bounds: Any) -> float:
    epsilon = _parameter(source, "epsilon", ge=1e-12, le=1e12)
    if kind == "LaplaceMechanism":
        return _parameter(source, "sensitivity", gt=0, le=1e80) / epsilon
    l0 = _parameter(source, "l0_sensitivity", gt=0, le=1e40)
    linf = _parameter(source, "linf_sensitivity", gt=0, le=1e40)
    return l0 * linf * (_magnitude(bounds) if kind == "BoundedSum" else 1.0) / epsilon


def _magnitude(bounds: Any) -> float:
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidParameterError(
            "bounds must be the pair (lower, upper) of a BoundedSum, whose noise depends on them, "
            f"got {show(bounds)}"
        )
    low, high = (check_scalar(end, "bounds", ge=-1e20, le=1e20) for end in bounds)
    if not low < high:
        raise InvalidParameterError(f"bounds must have lower < upper, got {show(bounds)}")
    return max(abs(low), abs(high))
