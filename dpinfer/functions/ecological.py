"""Ecological inference: an outcome in a group, from the composition of precincts and totals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_option,
    check_reps,
    check_rng,
    freeze,
    show,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.estimation.pivots import sidak
from dpinfer.functions.segregation import PROVED, IndexIntervals, PairMechanism, upper_point
from dpinfer.functions.unbiased import areas_of, only_noise, refuse_shared, unbiased
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.coerce import noisy, noisy_pair
from dpinfer.releases.noises import Positions
from dpinfer.releases.values import NoisyValues, row_name
from dpinfer.results.intervals import Intervals, Uncertainty
from dpinfer.results.labels import attach_labels, check_order, split_labels

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["soft", "bound", "box"]
Laws = PairMechanism | tuple[Mechanism | None, Mechanism | None, Mechanism | None]
METHODS: tuple[Method, ...] = ("bound", "soft", "box")

_OF_COUNTED = (
    "the bounds are on how many of those who were counted have the outcome; rates behind them take "
    "a model, as that of functions.goodman"
)

_FEWEST = 30
"""Precincts from which on sums are taken for normal."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IdentifiedBounds(Intervals):
    """Bounds on what the data do not identify, with confidence intervals that hold both of them.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes, mc_error
        As for :class:`~dpinfer.results.Intervals`. The interval holds both bounds, and so what is
        asked for. The estimate is the middle of the estimated bounds, and no estimate of it: none
        exists without assumptions.
    assurance : {"exact", "checked", "bound"}, optional
        As for :class:`~dpinfer.results.Intervals`.
    least, most : array of float
        The estimated bounds.
    plug_in_least, plug_in_most : array of float
        The bounds of the published counts clipped at 0: too narrow on average.
    guarantee : str
        What is known of the intervals.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=1.0)
    >>> found = dpi.functions.ecological_bounds(
    ...     [30, 55, 12], [70, 41, 90], [45, 60, 20], mechanism=noise, rng=1
    ... )
    >>> found.plug_in_least, found.plug_in_most
    (np.float64(19.0), np.float64(97.0))
    """

    title: ClassVar[str] = "Bounds on what is not identified"
    _by_row: ClassVar[tuple[str, ...]] = (
        *("estimate", "lower", "upper", "least", "most"),
        *("plug_in_least", "plug_in_most"),
    )

    least: Any
    most: Any
    plug_in_least: Any
    plug_in_most: Any
    guarantee: str

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self._by_row[3:]:
            held = freeze(check_array(getattr(self, name), name))
            object.__setattr__(self, name, attach_labels(held, self.labels))

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says: the guarantee as well."""
        return [("Guarantee", self.guarantee), *super().facts]

    def summary_frame(self) -> pd.DataFrame:
        """Return the table of intervals with the estimated and the plug-in bounds."""
        frame = super().summary_frame()
        for name in self._by_row[3:]:
            frame[name] = np.ravel(np.asarray(getattr(self, name)))
        frame.attrs["guarantee"] = self.guarantee
        return frame


def ecological_bounds(
    group: Any,
    rest: Any,
    outcome: Any,
    *,
    sizes: Any = None,
    by: Any = None,
    mechanism: Laws = None,
    method: Method = "bound",
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
    reps: int = 999,
    rng: RNG = None,
) -> IdentifiedBounds:
    """Bounds on how many of a group have an outcome, where only totals by precinct are known.

    Parameters
    ----------
    group : array, Series, Release or estimate
        The published sizes a of the group by precinct, with independent noises. Each row of a
        two-dimensional array is an area of its own.
    rest : array, Series, Release or estimate, or None
        The published sizes b of all others by precinct, with noises independent of those of
        ``group``. None where ``sizes`` are given.
    outcome : array, Series, Release or estimate
        The numbers t with the outcome by precinct, such as votes: known exactly, or published with
        independent noises of their own, which they carry or ``mechanism`` has.
    sizes : array or Series, optional
        The sizes of the precincts where they are known exactly, in the place of ``rest``.
    by : list, mapping, Series or str, optional
        Which precincts are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw, pair or triple
        The law of the noise of ``group`` and ``rest``, or of each; left out where they carry their
        own. A triple has that of ``outcome`` as well; None in it for what has no noise of its own
        or carries it.
    method : {"bound", "soft", "box"}
        - ``"bound"``: proved, under any symmetric law.
        - ``"soft"``: unbiased estimates of smooth functions that are beyond the bounds, under
          geometric and Laplace noise of the sizes, exact outcomes and 30 precincts or more, by the
          normal law: narrower where the noise is small next to the sizes, wider where it is not.
        - ``"box"``: an interval for each precinct, all of an area together, proved.
    uncertainty : {"noise"}
        What is covered. ``"noise+sampling"`` is refused: the bounds
        are on those who were counted; rates behind them take a model, as :func:`goodman` has it.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1); half of it is for each end.
    reps : int, default 999
        How many errors ``"bound"`` draws, at least 2/alpha - 1.
    rng : None, int, Generator or SeedSequence
        The source of the draws.

    Returns
    -------
    IdentifiedBounds
        One interval for each area, or for each precinct.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, errors share noises, or numbers without noise
        contradict each other: more with the outcome in a precinct than persons, say.

    See Also
    --------
    goodman : rates under the assumption that they are the same everywhere.

    Notes
    -----
    Of T = Σ (outcome in the group) nothing is identified but L <= T <= U, L = Σ max(0, tᵢ - x₂ᵢ)
    and U = Σ min(x₁ᵢ, tᵢ), for sizes x₁ and x₂; no law of the noise makes that narrower. Plugging
    in a and b makes it too narrow, as E min(a, t) <= min(x₁, t).

    *Bound.* As min(x₁, t) - min(a, t) <= max(0, x₁ - a), U <= Σ min(aᵢ, tᵢ) + q with q the upper
    α/2 point of the sum of the negative parts of the errors, an order statistic of draws; L alike.
    With an outcome t + ε each part is the larger of both negative ones, and for L it is max(0,
    ε - u) with the error u of the rest: proved as well.

    *Soft.* With the unbiased estimate of r(x) = s(x) + h(x), s the bound min(x, t) rounded off
    within w = 2·(scale) of t and h = (4w/9)(1 - ((x - t)/2w)²)² within 2w, r >= min(x, t): its sum
    plus z standard errors. Shares of 200 or 400 releases whose 95 % interval held both bounds, and
    widths over Σ x₁, under geometric noise:

    ====================  ===========  =========  =========  ==========  =====
    precincts, scale      U - L        bound      soft       plugged in  box
    ====================  ===========  =========  =========  ==========  =====
    30, 7                 .614         1.00 .716  1.00 .694  .14         .871
    300, 7                .697         1.00 .775  1.00 .743  .03         1.002
    300, 28               .667         1.00 .875  1.00 .953  .00         .985
    ====================  ===========  =========  =========  ==========  =====

    *Box.* x₁ᵢ <= aᵢ + h for all i together, and so for outcomes.

    References
    ----------
    Duncan, O. D. and Davis, B. (1953). An alternative to ecological correlation. American
    Sociological Review 18(6), 665-666. doi:10.2307/2088122.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> noise = dpi.Geometric(scale=1.0)
    >>> black, white, votes = [30, 55, 12], [70, 41, 90], [45, 60, 20]
    >>> dpi.functions.ecological_bounds(black, white, votes, mechanism=noise, rng=1)
    IdentifiedBounds([14, 102], level 0.95, bound)
    """
    only_noise(uncertainty, "ecological_bounds", _OF_COUNTED)
    alpha, reps = check_alpha(alpha), check_reps(reps)
    way = check_option(method, "method", METHODS)
    if reps + 1 < 2.0 / alpha:
        raise InvalidParameterError(
            f"reps must be >= {np.ceil(2.0 / alpha) - 1:.6g} for alpha = {alpha:g}, got {reps}"
        )
    given = _precincts(group, rest, outcome, sizes, mechanism, "ecological_bounds")
    first = given.first
    cells, shape, labels = areas_of(first, by)
    if way == "soft" and min(map(len, cells)) < _FEWEST:
        raise InvalidParameterError(
            f"method must be 'bound' or 'box' with fewer than {_FEWEST} precincts in an area, as "
            f"'soft' takes sums for normal, got {min(map(len, cells))}"
        )
    if way == "soft" and given.third is not None:
        raise InvalidParameterError(
            "method must be 'bound' or 'box' where outcome is noisy, as 'soft' smooths at exact "
            "outcomes"
        )
    t = given.outcome
    plain_most = np.minimum(first.values, t)
    other = given.second.values if given.sizes is None else given.sizes - first.values
    plain_least = t - np.minimum(other, t)
    clipped = np.maximum(np.minimum(first.values, t), 0.0)
    clipped_least = np.maximum(t - np.maximum(other, 0.0), 0.0)
    if way == "box":
        parts = [one for one in (first, given.second, given.third) if one is not None]
        reach = [_reaches(one, cells, 0.5 * alpha, len(parts) - 1) for one in parts]
        over = reach[2] if len(parts) > 2 else 0.0
        columns = np.array(
            [
                *(np.maximum(plain_least, 0.0), np.maximum(plain_most, 0.0)),
                *(clipped_least, clipped),
                np.maximum(t - over - other - reach[1], 0.0),
                np.minimum(first.values + reach[0], t + over),
            ]
        )
        shape = first.shape if first.labels is None else (len(first),)
        labels = first.labels
    else:
        add = np.array([[one[own].sum() for own in cells] for one in (clipped_least, clipped, t)])
        ends = _soft(given, by, alpha) if way == "soft" else None
        if ends is None:
            low = np.array([plain_least[own].sum() for own in cells])
            high = np.array([plain_most[own].sum() for own in cells])
            draw = _Parts(given, reps, check_rng(rng), 0.5 * alpha)
            reached = np.array([draw.of(own) for own in cells]).reshape(-1, 2).T
            columns = np.array([low, high, add[0], add[1], low - reached[1], high + reached[0]])
        else:
            columns = np.array([ends[0], ends[1], add[0], add[1], ends[2], ends[3]])
        t = add[2]
    columns[4:] = np.clip(columns[4:], 0.0, t if given.third is None else np.inf)
    columns[5] = np.maximum(columns[5], columns[4])
    least, most, clip_least, clip_most, lower, upper = columns.reshape(6, *shape)
    return IdentifiedBounds(
        estimate=0.5 * (least + most),
        lower=lower,
        upper=upper,
        least=least,
        most=most,
        plug_in_least=clip_least,
        plug_in_most=clip_most,
        alpha=alpha,
        method=way,
        uncertainty="noise",
        simultaneous=way == "box",
        labels=labels,
        assurance=None if way == "soft" else "bound",
        guarantee="asymptotic, conservative" if way == "soft" else PROVED,
        notes=("nothing beyond the bounds is identified without assumptions on the precincts",),
    )


def goodman(
    group: Any,
    rest: Any,
    outcome: Any,
    *,
    assume: str,
    sizes: Any = None,
    mechanism: Laws = None,
    alpha: float = 0.05,
) -> IndexIntervals:
    """Rates of an outcome in a group and the rest, if they are the same in all precincts.

    Parameters
    ----------
    group, rest, outcome
        As for :func:`ecological_bounds`; all precincts are one area, at least 10 of them.
    assume : {"constant rates"}
        Says that the rates do not depend on the composition of the precincts. Nothing in the data
        can show whether that is so.
    sizes, mechanism
        As for :func:`ecological_bounds`.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).

    Returns
    -------
    IndexIntervals
        The rates p₁ and p₂ under the labels ``"group"`` and ``"rest"``. The bounds that hold
        without the assumption are in a note.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``assume`` is not said.
    NotEstimableError
        If the noise leaves nothing of the differences in composition, or the fit is outside of the
        interval for the bounds, which refutes the assumption.

    Notes
    -----
    Least squares of t = p₁x₁ + p₂x₂ without a constant: the scores Σ zᵢ(tᵢ - zᵢᵀp) + Vᵢp with the
    noisy sizes z = (a, b) and the covariance matrices Vᵢ of their errors have mean 0 at constant
    rates, whereas without the last term noise moves p towards 0. Standard errors are by the
    sandwich of the scores. If p₁ depends on the share of the group, the estimate is off by an
    aggregation bias that is no smaller without noise: with p₁ = 0.6 - 0.4·(share - 0.5) in 300
    precincts intervals of 95 % cover in no case.

    References
    ----------
    Goodman, L. A. (1953). Ecological regressions and behavior of individuals. American Sociological
    Review 18(6), 663-664. doi:10.2307/2088121.
    Fuller, W. A. (1987). Measurement Error Models. Wiley. doi:10.1002/9780470316665.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> black, white = rng.poisson(rng.uniform(20, 200, (2, 100)))
    >>> votes = rng.binomial(black, 0.6) + rng.binomial(white, 0.3)
    >>> noise = dpi.Laplace(scale=10.0)
    >>> a, b = (x + noise.rvs(100, rng=rng) for x in (black, white))
    >>> rates = dpi.functions.goodman(
    ...     a, b, votes, mechanism=noise, assume="constant rates"
    ... )
    >>> bool(rates["group"].lower < 0.6 < rates["group"].upper)
    True
    """
    import pandas as pd

    alpha = check_alpha(alpha)
    if type(assume) is not str or assume != "constant rates":
        raise InvalidParameterError(
            'assume must be "constant rates", said in the call: rates that depend on the '
            f"composition bias the fit, and no data show it, got {show(assume)}. Without it use "
            "ecological_bounds"
        )
    given = _precincts(group, rest, outcome, sizes, mechanism, "goodman")
    first, t = given.first, given.outcome
    if len(first) < 10:
        raise InvalidParameterError(f"group must have at least 10 precincts, got {len(first)}")
    other = given.second.values if given.sizes is None else given.sizes - first.values
    z = np.column_stack([first.values, other])
    v = np.zeros((len(z), 2, 2))
    v[:, 0, 0], v[:, 1, 1] = first.variance, given.second.variance
    if given.sizes is not None:
        v[:, 0, 1] = v[:, 1, 0] = -first.variance
    whole = z.T @ z
    moments = whole - v.sum(axis=0)
    values = np.linalg.eigvalsh(moments)
    if not values[0] > 0.0 or values[0] < 5.0 * _spread(z, v):
        raise NotEstimableError(
            "goodman needs compositions that differ by more than the noise: what is left of the "
            f"least eigenvalue of their moments is {values[0]:.3g}, with a standard error of "
            f"{_spread(z, v):.3g}. Use ecological_bounds, or coarser precincts"
        )
    rates = np.linalg.solve(moments, z.T @ t)
    scores = z * (t - z @ rates)[:, np.newaxis] + v @ rates
    inverse = np.linalg.inv(moments)
    covariance = inverse @ (scores.T @ scores) @ inverse * len(z) / (len(z) - 2.0)
    half = -special.stdtrit(len(z) - 2.0, 0.5 * alpha) * np.sqrt(covariance.diagonal())
    flat = [
        None if x is None else replace(x, labels=None, shape=(len(x),))
        for x in (first, given.second, given.third)
    ]
    bounds = ecological_bounds(
        flat[0],
        None if given.sizes is not None else flat[1],
        t if given.third is None else flat[2],
        sizes=given.sizes,
        alpha=max(alpha, 0.01),
        rng=1,
    )
    low, high = (float(np.ravel(np.asarray(one))[0]) for one in bounds)
    size = float(first.values.sum())
    reach = half[0] * size
    implied = rates[0] * size
    if implied - reach > high or implied + reach < low:
        raise NotEstimableError(
            f"the fit has {implied:.6g} with the outcome in the group, and what was published "
            f"allows {low:.6g} to {high:.6g} without any assumption: rates are not constant. Use "
            "ecological_bounds"
        )
    naive = np.linalg.solve(whole, z.T @ t)
    return IndexIntervals(
        estimate=rates,
        lower=rates - half,
        upper=rates + half,
        plug_in=naive,
        alpha=alpha,
        method="asymptotic",
        uncertainty="noise+sampling",
        labels=pd.Index(["group", "rest"]),
        guarantee="model: constant rates, not checked",
        notes=(
            f"without the assumption {low:.6g} to {high:.6g} have the outcome in the group; with "
            f"it {implied:.6g}",
            "a dependence of the rates on the composition biases them, and is not seen",
        ),
    )


class _Precincts(NamedTuple):
    first: NoisyValues
    second: NoisyValues
    """The rest, or the group again where sizes are known."""
    outcome: FloatArray
    sizes: FloatArray | None
    third: NoisyValues | None
    """The outcome where it is noisy."""


def _precincts(
    group: Any, rest: Any, outcome: Any, sizes: Any, mechanism: Any, who: str
) -> _Precincts:
    if (rest is None) == (sizes is None):
        raise InvalidParameterError("rest must be given, or sizes in its place, and not both")
    laws, own_law = mechanism, None
    if isinstance(mechanism, tuple) and len(mechanism) == 3:
        laws, own_law = mechanism[:2], mechanism[2]
    if rest is None:
        own = laws[0] if isinstance(laws, tuple) else laws
        first = second = noisy(group, mechanism=own, name="group")
    else:
        first, second = noisy_pair(group, rest, laws, ("group", "rest"))
    if len(first) != len(second):
        raise InvalidParameterError(
            f"group and rest must have as many precincts, got {len(first)} and {len(second)}"
        )
    third = None
    if own_law is not None or hasattr(outcome, "__noisy__"):
        third = first.aligned(noisy(outcome, mechanism=own_law, name="outcome"))
        laid_out = third.shape if third.labels is None else (len(third),)
        t = _known(third.values.reshape(laid_out), "outcome", first, least=-1e15)
        third = third if third.variance.any() else None
    else:
        t = _known(outcome, "outcome", first)
    parts = [first] if rest is None else [first, second]
    parts += [] if third is None else [third]
    for at, x in enumerate(parts):
        x.need(unruled=True, independent=True, who=who)
        for other in parts[:at]:
            refuse_shared(other, x)
    known = None if sizes is None else _known(sizes, "sizes", first)
    given = _Precincts(first, second, t, known, third)
    _refuse_contradictions(given)
    return given


def _refuse_contradictions(given: _Precincts) -> None:
    """Refuse numbers without noise that cannot be of one precinct."""
    first, t = given.first, given.outcome
    for x in (first, given.second):
        below = (x.variance == 0.0) & (x.values < 0.0)
        if below.any():
            at = int(below.argmax())
            raise InvalidParameterError(
                f"{x.name} must be >= 0 where it has no noise, got {x.values[at]:g}"
                f"{row_name(at, x)}"
            )
    exact = first.variance == 0.0
    persons = given.sizes
    whole = np.ones(len(first), dtype=np.bool_)
    if persons is None:
        persons = first.values + given.second.values
        whole = exact & (given.second.variance == 0.0)
    else:
        _refuse_first(exact & (first.values > persons), "group", first.values, persons, first)
    whole &= True if given.third is None else given.third.variance == 0.0
    _refuse_first(whole & (t > persons), "outcome", t, persons, first)


def _refuse_first(
    bad: Any, name: str, values: FloatArray, persons: FloatArray, x: NoisyValues
) -> None:
    if bad.any():
        at = int(bad.argmax())
        raise InvalidParameterError(
            f"{name} must be at most the persons of its precinct where both are known exactly, got "
            f"{values[at]:g} of {persons[at]:g}{row_name(at, x)}: the columns contradict each other"
        )


def _known(given: Any, name: str, x: NoisyValues, least: float = 0.0) -> FloatArray:
    array, own = split_labels(given, name, ge=least, le=1e15)
    check_order(own, x.labels, name, "the precincts")
    if array.size != len(x) or (array.ndim > 1 and x.labels is None and array.shape != x.shape):
        raise InvalidParameterError(
            f"{name} must be known for each of the {len(x)} precincts, as they are laid out, got "
            f"shape {array.shape}"
        )
    return array.ravel()


def _soft(given: _Precincts, by: Any, alpha: float) -> list[FloatArray]:
    """Return estimates of both bounds, and ends beyond them."""
    z = -special.ndtri(0.5 * alpha)
    t, total = given.outcome, np.zeros(0)
    found: list[FloatArray] = []
    for x, turned in ((given.first, False), (given.second, True)):
        width = np.maximum(np.sqrt(2.0 * x.variance), 1e-9)
        size = given.sizes if turned else None

        def above(
            count: FloatArray, width: FloatArray = width, size: FloatArray | None = size
        ) -> FloatArray:
            return _rounded_off(count if size is None else size - count, t, width)

        plain = replace(x, labels=given.first.labels, shape=given.first.shape)
        sums = unbiased(above, plain).sum(by)
        value = np.ravel(np.asarray(sums.params))
        reach = z * np.sqrt(np.maximum(np.ravel(np.asarray(sums.variance)), 0.0))
        found += [value, value + reach]
    cells = areas_of(given.first, by)[0]
    total = np.array([t[own].sum() for own in cells])
    return [total - found[2], found[0], total - found[3], found[1]]


def _rounded_off(x: FloatArray, t: FloatArray, w: FloatArray) -> FloatArray:
    """Return a smooth function that is min(x, t) or more."""
    u = x - t
    top = np.where(u <= -w, x, np.where(u >= w, t, t - np.square(w - u) / (4.0 * w)))
    hat = 4.0 * w / 9.0 * np.square(np.maximum(1.0 - np.square(u / (2.0 * w)), 0.0))
    return np.asarray(top + hat)


class _Parts:
    """Upper points of sums of the parts of the errors that move the bounds."""

    def __init__(self, given: _Precincts, reps: int, rng: np.random.Generator, tail: float):
        self.given, self.reps, self.rng, self.tail = given, reps, rng, tail
        self.parts = [x for x in (given.first, given.second, given.third) if x is not None]
        self.alike = all(x.weights is None and x.marginal.shape == () for x in self.parts)
        self.points: dict[int, tuple[float, float]] = {}

    def of(self, cells: Positions) -> tuple[float, float]:
        key = len(cells)
        if not self.alike or key not in self.points:
            errors = [x._take(cells).draw(self.reps, rng=self.rng) for x in self.parts]
            if self.given.sizes is not None:
                errors[1] = -errors[1]
            first, second, *own = errors
            most, least = -first, -second
            if own:
                most, least = np.maximum(most, -own[0]), own[0] - second
            sums = [np.maximum(one, 0.0).sum(axis=1) for one in (most, least)]
            self.points[key] = upper_point(sums[0], self.tail), upper_point(sums[1], self.tail)
        return self.points[key]


def _reaches(x: NoisyValues, cells: list[Positions], tail: float, columns: int) -> FloatArray:
    """Return h with x <= noisy x + h for all precincts of an area in so many columns."""
    found, each = np.zeros(len(x)), np.zeros(len(x))
    for own in cells:
        each[own] = sidak(tail, columns * len(own))
    for law, at in x.laws():
        found[at] = law.isf(each[at])
    return found


def _spread(z: FloatArray, v: FloatArray) -> float:
    """Return a standard error, due to the noise, of the least eigenvalue of the moments."""
    vectors = np.linalg.eigh(z.T @ z)[1][:, 0]
    along = np.einsum("i,nij,j->n", vectors, v, vectors)
    return float(np.sqrt((4.0 * np.square(z @ vectors) * along + 2.0 * np.square(along)).sum()))
