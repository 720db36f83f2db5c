"""Laws and releases from what other tools say: SmartNoise, OpenDP, Tumult, PyDP and more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_array,
    check_flag,
    check_items,
    check_option,
    check_scalar,
    one_line,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import IndependentNoise
from dpinfer.mechanisms.law import ContinuousLaw, NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.releases.frames import KINDS, canonical_kind, check_frame, column, parameters_of_kind
from dpinfer.releases.release import Release

if TYPE_CHECKING:
    import pandas as pd


ALPHAS = (0.05, 0.5)
"""Two levels tell the laws apart, whose quantiles grow differently."""

AGREEMENT = 1e-6


def smartnoise_laws(reader: Any, query: str) -> list[NoiseLaw | None]:
    """Return the law of the noise in each column that a SmartNoise query returns.

    Parameters
    ----------
    reader : snsql.sql.private_reader.PrivateReader
        The reader that ran the query, or another with the same privacy parameters and metadata.
    query : str
        The query.

    Returns
    -------
    list of NoiseLaw and None
        In the order of the columns: None for grouping columns and for what is computed from
        several noisy numbers, such as ``AVG``.

    Raises
    ------
    InvalidParameterError
        If the reader does not know the query, or states an accuracy of no known law.

    Notes
    -----
    The laws are found from the accuracies that ``reader.get_simple_accuracy(query, alpha)``
    states, which spends no budget. An expression of one noisy number gets the law of that number:
    right for ``COUNT(*) * 1.0``, wrong for ``COUNT(*) * 2``. Checked against smartnoise-sql 1.0.10.
    """
    try:
        stated = [list(reader.get_simple_accuracy(query, alpha)) for alpha in ALPHAS]
    except Exception as error:  # of whatever kind its parser and its database raise
        raise InvalidParameterError(
            f"reader must be a PrivateReader of SmartNoise that knows the query {show(query)}: "
            f"{one_line(error)}"
        ) from error
    return [None if None in pair else _law(*pair) for pair in zip(*stated, strict=True)]


def from_smartnoise(
    reader: Any,
    query: str,
    result: Any,
    *,
    value: str,
    attributes: str | Sequence[str] | None = None,
    **details: Any,
) -> Release:
    """Build a release from what a SmartNoise query returned.

    Parameters
    ----------
    reader : snsql.sql.private_reader.PrivateReader
        The reader that ran the query.
    query : str
        The query.
    result : list of rows, or DataFrame
        What ``reader.execute(query)``, whose first row holds the names of the columns, or
        ``reader.execute_df(query)`` returned.
    value : str
        The column of noisy counts or sums.
    attributes : str or sequence of str, optional
        The grouping columns.
    **details
        The further arguments of :meth:`~dpinfer.releases.Release.from_frame`: ``clamp=0`` where
        the metadata say ``clamp_counts: True``.

    Returns
    -------
    Release
        The values of the column, with the law of their noise.

    Raises
    ------
    InvalidParameterError
        If a column is missing, or ``value`` is not one number with one noise.

    Notes
    -----
    Of a column of whole numbers SmartNoise has cut the decimals off: the release has
    ``rounding=(1, "toward zero")``, by which intervals for its values and their sums are widened,
    so that they hold, and other inference is refused. ``COUNT(*) * 1.0`` is not cut, and has no
    such limit.

    With ``censor_dims: True`` groups are left out whose noisy number of people, of another draw, is
    below a threshold. Where the column is that number itself, give ``threshold=``. Checked against
    smartnoise-sql 1.0.10.
    """
    frame = _frame(result)
    names = [str(name) for name in frame.columns]
    if not isinstance(value, str) or names.count(value) != 1:
        raise InvalidParameterError(f"value must be one of the columns {names}, got {show(value)}")
    laws = smartnoise_laws(reader, query)
    if len(laws) != len(names):
        raise InvalidParameterError(
            f"result must have the {len(laws)} columns of the query, got {len(names)}"
        )
    law = laws[names.index(value)]
    if law is None:
        raise InvalidParameterError(
            f"value must be a column with noise of its own, got {show(value)}: it is a group, or "
            "is computed from several noisy numbers"
        )
    frame.columns = names
    if frame[value].dtype.kind in "iu" and not law.is_integer:
        if details.get("threshold") is not None:
            raise InvalidParameterError(
                "threshold must be None for whole numbers, from which SmartNoise has cut the "
                "decimals: query COUNT(*) * 1.0, which is not cut"
            )
        details = {"rounding": (1, "toward zero")} | details
    return Release.from_frame(frame, value=value, mechanism=law, attributes=attributes, **details)


def _frame(result: Any) -> Any:
    import pandas as pd

    table = as_pandas(result, "result")
    if isinstance(table, pd.DataFrame):
        return table.copy()
    rows = [
        check_items(row, "rows of result", "values") for row in check_items(table, "result", "rows")
    ]
    named = bool(rows) and all(isinstance(name, str) for name in rows[0])
    if not named or len(rows) < 2 or len({len(row) for row in rows}) > 1:
        raise InvalidParameterError(
            "result must hold a row of names and rows of values of the same length, got "
            f"{show(result)}"
        )
    return pd.DataFrame(rows[1:], columns=rows[0])


def _law(narrow: Any, wide: Any) -> NoiseLaw:
    """Return the law whose accuracies are stated: P(abs(e) > accuracy) = alpha."""
    small, large = (check_scalar(found, "accuracy", gt=0, le=1e15) for found in (wide, narrow))
    level = np.array(ALPHAS)
    normal = -ndtri(0.5 * level)
    # OpenDP's accuracy of discrete Laplace noise is b log(2/(alpha (exp(1/b) + 1))) + 1; below a
    # scale of 0.01 no accuracy at two levels tells it
    b = max((large - small) / np.log(level[1] / level[0]), 1e-2)
    scale, sigma = large / np.log(1.0 / level[0]), large / float(normal[0])
    for law, accuracy in (
        (Laplace(scale=scale), scale * np.log(1.0 / level)),
        (Geometric(scale=b), b * (np.log(2.0 / level) - np.logaddexp(0.0, 1.0 / b)) + 1.0),
        (Gaussian(sigma=sigma), sigma * normal),
    ):
        if np.allclose(accuracy, [large, small], rtol=AGREEMENT, atol=0.0):
            return law
    raise InvalidParameterError(
        f"reader must state the accuracy of Laplace, geometric or Gaussian noise, got {large:g} at "
        f"the level {ALPHAS[0]} and {small:g} at {ALPHAS[1]}"
    )


# Noise laws from OpenDP measurements.


LAWS: dict[tuple[str, str], Callable[..., NoiseLaw]] = {
    ("laplace", "integer"): lambda scale: Geometric(scale=scale),
    ("laplace", "float"): lambda scale: Laplace(scale=scale),
    ("gaussian", "integer"): lambda scale: DiscreteGaussian(sigma=scale),
    ("gaussian", "float"): lambda scale: Gaussian(sigma=scale),
}

CONSTRUCTORS = {
    f"{way}_{kind}": "gaussian" if kind == "gaussian" else "laplace"
    for kind in ("laplace", "geometric", "gaussian")
    for way in ("make", "then")
}

TYPES = {"integer": "int", "float": "float"}

DISTRIBUTIONS = ("Integer Laplace", "Integer Gaussian", "Float Laplace", "Float Gaussian")
"""What summaries of queries on frames call the laws."""

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
        A row of ``query.summarize()`` of a query on frames is such a mapping too:
        ``{"distribution": "Integer Laplace", "scale": 2.0, ...}``.

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

    In queries on frames a count by ``dp.len()`` is moved to zero where it is below, unless it has
    ``signed=True``: give the release ``clamp=0``. A column with two rows in the summary, such as a
    mean, is computed from two noisy numbers.

    Examples
    --------
    >>> from_opendp({"constructor": "make_laplace", "scale": 2.0, "T": "int"})
    Geometric(scale=2.0)
    >>> from_opendp({"column": "len", "distribution": "Integer Gaussian", "scale": 4.5})
    DiscreteGaussian(sigma=4.5)
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
    if "distribution" in parameters:  # a row of a summary
        found = check_option(parameters["distribution"], "distribution", DISTRIBUTIONS)
        kind, family = found.lower().split()
        parameters = {**parameters, "constructor": f"make_{family}", "T": TYPES[kind]}
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


# Releases from tables that state the size of the noise in a bare column.


FROM_VARIANCE: dict[str, Callable[[FloatArray], NoiseLaw]] = {
    "laplace": lambda variance: Laplace(scale=np.sqrt(variance / 2)),
    "gaussian": lambda variance: Gaussian(sigma=np.sqrt(variance)),
    # variance = 1/(2 sinh²(1/(2 scale))), solved for the scale
    "geometric": lambda variance: Geometric(scale=0.5 / np.arcsinh(np.sqrt(0.5 / variance))),
}

MEANINGS = ("parameter", "std", "variance")


def from_scale_column(
    frame: pd.DataFrame,
    mechanism: str,
    *,
    value: str,
    scale: str = "scale",
    given: str = "parameter",
    **details: Any,
) -> Release:
    """Build a release from a table that has the size of the noise in a column.

    Parameters
    ----------
    frame : DataFrame of pandas, polars, pyarrow or the like
        One published value in each row.
    mechanism : {"laplace", "geometric", "gaussian", "discrete_gaussian", "tulap"}
        The kind of noise.
    value : str
        The column of published values.
    scale : str
        The column of the size of the noise, >= 0; a value with size 0 is exact.
    given : {"parameter", "std", "variance"}
        What the column holds: the parameter of the law (``scale`` or ``sigma``), the standard
        deviation of the noise or its variance. A discrete Gaussian or Tulap law is given by its
        parameter only.
    **details
        The further arguments of :meth:`~dpinfer.releases.Release.from_frame`.

    Returns
    -------
    Release
        The values with the noise of each row, in the order of the rows.

    Raises
    ------
    InvalidParameterError
        If a column is missing, or the size of the noise is negative or not a number.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"count": [10.5, 20.1], "sd": [2.0, 4.0]})
    >>> from_scale_column(frame, "gaussian", value="count", scale="sd", given="std").mechanism
    Gaussian(sigma=array([2., 4.]))
    """
    frame = check_frame(frame)
    kind = canonical_kind(mechanism) if isinstance(mechanism, str) else ""
    meaning = check_option(given, "given", MEANINGS)
    if kind not in KINDS or kind == "exact":
        raise InvalidParameterError(
            f"mechanism must be the name of a noise law, got {show(mechanism)}"
        )
    if meaning != "parameter" and kind not in FROM_VARIANCE:
        raise InvalidParameterError(
            f"given must be 'parameter' for {kind} noise, got {show(given)}: its {given} does not "
            "determine the law in closed form"
        )
    size = check_array(column(frame, scale).to_numpy(), scale, ndim=1, ge=0)
    noisy, exact = np.flatnonzero(size > 0), np.flatnonzero(size == 0)
    if meaning == "parameter":
        law = KINDS[kind](**{next(iter(parameters_of_kind(kind))): size[noisy]})
    else:
        law = FROM_VARIANCE[kind](size[noisy] if meaning == "variance" else size[noisy] ** 2)
    joint = IndependentNoise.from_groups([(law, noisy), (Exact(), exact)], len(size))
    return Release.from_frame(frame, value=value, mechanism=joint, **details)


# Noise laws from the events of Google's dp-accounting.


DP_ACCOUNTING_LAWS: dict[str, Callable[[Any, float | None], NoiseLaw]] = {
    "GaussianDpEvent": lambda event, norm: Gaussian(sigma=_scaled(event, norm)),
    "LaplaceDpEvent": lambda event, norm: Laplace(scale=_scaled(event, norm)),
    "DiscreteLaplaceDpEvent": lambda event, norm: Geometric(
        scale=1 / check_scalar(event.noise_parameter, "noise_parameter", gt=0)
    ),
}

REASONS = {
    "ComposedDpEvent": "it holds several mechanisms: convert each of its events",
    "SelfComposedDpEvent": "it holds several runs of a mechanism: convert its event",
    **dict.fromkeys(
        (
            "PoissonSampledDpEvent",
            "SampledWithoutReplacementDpEvent",
            "SampledWithReplacementDpEvent",
        ),
        "the answer is one on a random sample: convert its event, and allow for the sampling error "
        "of the sample",
    ),
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
    if kind.__name__ not in DP_ACCOUNTING_LAWS:
        reason = REASONS.get(kind.__name__, "it is not one run of an additive mechanism")
        raise InvalidParameterError(
            f"event must be one of {', '.join(DP_ACCOUNTING_LAWS)}, got {kind.__name__}: {reason}"
        )
    norm = None if sensitivity is None else check_scalar(sensitivity, "sensitivity", gt=0)
    return DP_ACCOUNTING_LAWS[kind.__name__](event, norm)


def _scaled(event: Any, norm: float | None) -> float:
    multiplier = check_scalar(event.noise_multiplier, "noise_multiplier", gt=0)
    if norm is None:
        raise InvalidParameterError(
            f"sensitivity must be given with a {type(event).__name__}, got None: its noise is "
            "noise_multiplier times the sensitivity"
        )
    return multiplier * norm


# Noise laws from Tumult Analytics.


TUMULT_LAWS: dict[str, Callable[[float], NoiseLaw]] = {
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
    suppresses small answers (``suppress``), give the release its ``threshold``. Checked against
    what sessions of tmlt.analytics 0.21.0 return.

    Examples
    --------
    >>> from_tumult([{"noise_mechanism": "DISCRETE_GAUSSIAN", "noise_parameter": 16.0}])
    DiscreteGaussian(sigma=4.0)
    """
    if isinstance(noise_info, (str, bytes)) or not isinstance(noise_info, Iterable):
        raise InvalidParameterError(
            "noise_info must be what session._noise_info(query, privacy_budget) returns, got "
            f"{show(noise_info)}"
        )
    parts = [noise_info] if isinstance(noise_info, Mapping) else list(noise_info)
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
    if kind not in TUMULT_LAWS:
        raise InvalidParameterError(
            f"noise_mechanism must be one of {', '.join(TUMULT_LAWS)}, got {show(mechanism)}"
        )
    return TUMULT_LAWS[kind](check_scalar(parts[0]["noise_parameter"], "noise_parameter", gt=0))


# The standard deviation of Gaussian noise in Google's libraries, as they find it.


ACCURACY = 1e-3
"""Relative width at which Google's libraries end their bisection."""

LARGEST_EXPONENT = 700.0


def google_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the σ that ``GaussianMechanism(epsilon, delta, sensitivity)`` of PyDP has.

    It is the upper end of a bisection for the analytic Gaussian mechanism (Balle and Wang 2018,
    arXiv:1805.06530, Theorem 8) that ends at a relative width of 0.001: larger than the σ that is
    just enough, and published noise has this larger one.
    """
    low, high = 0.0, sensitivity
    while _delta(high, epsilon, sensitivity) > delta:
        low, high = high, 2.0 * high
    while high - low > ACCURACY * low:
        middle = 0.5 * low + 0.5 * high
        if _delta(middle, epsilon, sensitivity) > delta:
            low = middle
        else:
            high = middle
    return high


def _delta(sigma: float, epsilon: float, sensitivity: float) -> float:
    a, b = 0.5 * sensitivity / sigma, epsilon * sigma / sensitivity
    below = float(ndtr(a - b))
    if epsilon > LARGEST_EXPONENT:
        return below
    return below - exp(epsilon) * float(ndtr(-a - b))


# Noise laws from PipelineDP, which runs Google's mechanisms on Beam and Spark.


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

    The noise of a partition that was selected privately is drawn afresh: intervals hold as they
    are. Checked against the objects of pipeline-dp 0.3.1.

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
    noise = getattr(source, "noise_kind", None)
    noise = check_option(getattr(noise, "value", noise), "noise_kind", ("laplace", "gaussian"))
    if name == "privacy_id_count" and getattr(source, "post_aggregation_thresholding", None):
        raise InvalidParameterError(
            "params must not have post_aggregation_thresholding with privacy_id_count: its noise "
            "is that of the selection of partitions; build the release with its law and threshold="
        )
    l1, l2 = _sensitivities(source, name)
    deviation = getattr(budget, "_noise_standard_deviation", None)
    if deviation is not None:  # of noise for the sensitivity 1, found by composing privacy losses
        deviation = check_scalar(deviation, "budget", gt=0, le=LARGEST)
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


def _entry(source: Any, called: str, name: str, **bounds: Any) -> float:
    """Return a parameter that an object must have."""
    if getattr(source, name, None) is None:
        raise InvalidParameterError(f"{called} must have the entry {name}")
    return check_scalar(getattr(source, name), name, **bounds)


def _sensitivities(source: Any, metric: str) -> tuple[float, float]:
    """Return the L1 and the L2 sensitivity of a metric."""

    def positive(name: str) -> float:
        return _entry(source, "params", name, gt=0, le=LARGEST)

    def magnitude(low: str, high: str) -> float:
        ends = (_entry(source, "params", name, ge=-LARGEST, le=LARGEST) for name in (low, high))
        return check_scalar(max(map(abs, ends)), f"the larger magnitude of {low} and {high}", gt=0)

    if getattr(source, "max_contributions", None) is not None:
        total = positive("max_contributions")
        if metric == "privacy_id_count":
            return total, float(np.sqrt(total))
        size = magnitude("min_value", "max_value") if metric == "sum" else 1.0
        return size * total, size * total
    l0 = positive("max_partitions_contributed")
    if metric == "privacy_id_count":
        linf = 1.0
    elif metric == "sum" and getattr(source, "min_value", None) is None:
        linf = magnitude("min_sum_per_partition", "max_sum_per_partition")
    else:
        size = magnitude("min_value", "max_value") if metric == "sum" else 1.0
        linf = size * positive("max_contributions_per_partition")
    return l0 * linf, float(np.sqrt(l0)) * linf


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


# Noise laws from PyDP, the Python face of Google's differential privacy library.


PYDP_KINDS = ("LaplaceMechanism", "GaussianMechanism", "Count", "BoundedSum")

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
        for a sum) or :class:`~dpinfer.Gaussian`; for whole numbers
        :class:`~dpinfer.mechanisms.Rounded` noise, as PyDP rounds what it publishes of them.

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
    if kind == "GaussianMechanism" and getattr(source, "std", None) is not None:
        law: ContinuousLaw = Gaussian(sigma=_entry(source, "algorithm", "std", gt=0))
    elif kind == "GaussianMechanism":
        change = "l2_sensitivity" if hasattr(source, "l2_sensitivity") else "sensitivity"
        sigma = google_sigma(
            _entry(source, "algorithm", "epsilon", ge=1e-12, le=1e12),
            _entry(source, "algorithm", "delta", gt=0, lt=1),
            _entry(source, "algorithm", change, ge=1e-100, le=1e100),
        )
        law = Gaussian(sigma=sigma)
    else:
        epsilon = _entry(source, "algorithm", "epsilon", ge=1e-12, le=1e12)
        if kind == "LaplaceMechanism":
            norm = _entry(source, "algorithm", "sensitivity", gt=0, le=1e80)
        else:
            l0, linf = (
                _entry(source, "algorithm", name, gt=0, le=1e40)
                for name in ("l0_sensitivity", "linf_sensitivity")
            )
            norm = l0 * linf * (_largest(bounds) if kind == "BoundedSum" else 1.0)
        law = Laplace(scale=norm / epsilon)
    return Rounded(law) if rounded else law


def _largest(bounds: Any) -> float:
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidParameterError(
            "bounds must be the pair (lower, upper) of a BoundedSum, whose noise depends on them, "
            f"got {show(bounds)}"
        )
    low, high = (check_scalar(end, "bounds", ge=-1e20, le=1e20) for end in bounds)
    if not low < high:
        raise InvalidParameterError(f"bounds must have lower < upper, got {show(bounds)}")
    return max(abs(low), abs(high))


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
    if not isinstance(kind, str) or kind not in PYDP_KINDS:
        raise InvalidParameterError(
            f"algorithm must be one of {', '.join(PYDP_KINDS)}, got {show(kind)}: "
            "others do not add one noise to a number"
        )
    return kind, source


__all__ = [
    "from_dp_event",
    "from_opendp",
    "from_pipeline_dp",
    "from_pydp",
    "from_scale_column",
    "from_smartnoise",
    "from_tumult",
    "smartnoise_laws",
]
