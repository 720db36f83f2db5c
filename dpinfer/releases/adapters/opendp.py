"""Noise laws from OpenDP measurements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dpinfer._validation import check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, NoiseLaw

LAWS: dict[tuple[str, str], Callable[[float], NoiseLaw]] = {
    ("laplace", "integer"): lambda scale: Geometric(scale=scale),
    ("laplace", "float"): lambda scale: Laplace(scale=scale),
    ("gaussian", "integer"): lambda scale: DiscreteGaussian(sigma=scale),
    ("gaussian", "float"): lambda scale: Gaussian(sigma=scale),
}

CONSTRUCTORS = {
    "make_laplace": "laplace",
    "then_laplace": "laplace",
    "make_geometric": "laplace",
    "then_geometric": "laplace",
    "make_gaussian": "gaussian",
    "then_gaussian": "gaussian",
}

MEASURES = {"MaxDivergence": "laplace", "ZeroConcentratedDivergence": "gaussian"}
"""The law that ``make_noise`` chooses for a privacy measure."""


def from_opendp(measurement: Any) -> NoiseLaw:
    """Return the law of the noise that an OpenDP measurement adds.

    Parameters
    ----------
    measurement : opendp.mod.Measurement or mapping
        A measurement built by ``make_laplace``, ``make_geometric``, ``make_gaussian`` or
        ``make_noise``, also behind a chain of transformations; or what identifies it:
        ``{"constructor": "make_laplace", "scale": 2.0, "T": "int"}``, where ``T`` is the type of
        the query's answer (``"int"``, ``"float"``, ``"i32"``, ``"f64"``, ...).

    Returns
    -------
    NoiseLaw
        Integers get the discrete laws (:class:`~dpinfer.mechanisms.Geometric`,
        :class:`~dpinfer.mechanisms.DiscreteGaussian`), floats the continuous ones.

    Raises
    ------
    InvalidParameterError
        If the measurement is something else than additive noise (a composition, randomized
        response, a selection), clamps or thresholds its output, or rounds to multiples of 2ᵏ.

    Notes
    -----
    OpenDP draws noise for floats on a grid so fine (2⁻¹⁰⁷⁴ by default) that the continuous law
    holds to rounding error. It samples the discrete laws of Canonne, Kamath and Steinke (2020).

    Examples
    --------
    >>> from_opendp({"constructor": "make_laplace", "scale": 2.0, "T": "int"})
    Geometric(scale=2.0)
    """
    if isinstance(measurement, Mapping):
        constructor, arguments = _given(measurement)
    else:
        constructor, arguments = _built(measurement)
    _refuse_rules(constructor, arguments)
    family = CONSTRUCTORS.get(constructor)
    if constructor == "make_noise":
        family = MEASURES.get(str(arguments["output_measure"]))
    if family is None:
        raise InvalidParameterError(
            f"measurement must add Laplace or Gaussian noise, got one built by {constructor}: "
            "give the law of the noise itself as mechanism="
        )
    return LAWS[family, _number_kind(arguments["input_domain"])](arguments["scale"])


def _given(parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the constructor and its arguments from what the user wrote."""
    if missing := {"constructor", "scale", "T"} - set(parameters):
        raise InvalidParameterError(
            f"measurement must have the entries constructor, scale and T, without: "
            f"{', '.join(sorted(missing))}"
        )
    constructor = check_option(parameters["constructor"], "constructor", CONSTRUCTORS)
    answer = parameters["T"]
    name = answer.__name__ if isinstance(answer, type) else str(answer)
    return constructor, dict(parameters) | {"input_domain": f"AtomDomain(T={name})"}


def _built(measurement: Any) -> tuple[str, dict[str, Any]]:
    """Return the constructor and its arguments that a measurement remembers."""
    record = getattr(measurement, "__opendp_dict__", None)
    if not isinstance(record, Mapping) or "__function__" not in record:
        raise InvalidParameterError(
            "measurement must be an OpenDP measurement or a mapping with constructor, scale and "
            f"T, got {type(measurement).__name__}"
        )
    arguments = dict(record.get("__kwargs__", {}))
    if record["__function__"] == "make_chain_mt":
        return _built(arguments["measurement1"])
    return str(record["__function__"]), arguments


def _refuse_rules(constructor: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what changes the output after the noise was added."""
    if arguments.get("bounds") is not None:
        raise InvalidParameterError(
            f"measurement must not clamp its output, got bounds {show(arguments['bounds'])}: build "
            "the release with the law Geometric(scale=...) and clamp=(lower, upper)"
        )
    if arguments.get("threshold") is not None:
        raise InvalidParameterError(
            f"measurement must not threshold its output, got {constructor} with threshold "
            f"{show(arguments['threshold'])}: build the release with the law of the noise and "
            "threshold="
        )
    if arguments.get("k") is not None:
        raise InvalidParameterError(
            f"measurement must not round its output, got k = {show(arguments['k'])}: noise on "
            "multiples of 2^k is not among the laws"
        )


def _number_kind(domain: Any) -> str:
    """Say whether the answers in an input domain are integers or floats."""
    found = re.search(r"\bT=(int|float|[iu]\d+|usize|isize|f\d+)\b", str(domain))
    if found is None:
        raise InvalidParameterError(
            f"T must be a type of integers or floats, got {show(str(domain))}"
        )
    return "float" if found.group(1).startswith("f") else "integer"
