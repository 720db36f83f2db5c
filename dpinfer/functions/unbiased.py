"""Unbiased estimates of functions of noisy counts, with unbiased variances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from dpinfer._check import FloatArray, check_alpha, check_integer, check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions._operators import LARGEST, Found, by_rate, by_series, by_stencils, stencil_of
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.queries.domain import SUMMED
from dpinfer.releases.by_label import groups_of
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, UNCERTAINTIES, Intervals
from dpinfer.results.labels import (
    attach_labels,
    check_order,
    hold_arrays,
    labelled_frame,
    split_labels,
)
from dpinfer.results.presentation import Rows
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

    from dpinfer.releases.noises import Positions

_FEWEST = 30
"""Counts, by their shares in the variance, from which on sums of estimates are taken for normal."""

_MOST_ARGUMENTS = 5
_MOST_DEGREES = 8


_EXACT = "exactly unbiased, with an unbiased variance"


@dataclass(frozen=True)
class Exponential:
    """The function exp(rate·f) of a count f, of which every law has an unbiased estimate.

    Parameters
    ----------
    rate : float
        The rate, of either sign, in units of one over those of the counts.

    Raises
    ------
    InvalidParameterError
        If ``rate`` is not a finite number.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> decay = dpi.functions.Exponential(-0.1)
    >>> dpi.unbiased(decay, [3.0, 20.5], mechanism=dpi.Gaussian(sigma=2.0)).params.round(4)
    array([0.7261, 0.1262])
    """

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", check_scalar(self.rate, "rate"))

    def __call__(self, count: Any) -> Any:
        """Return exp(rate·count)."""
        return np.exp(self.rate * np.asarray(count))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FunctionEstimate(Rows):
    """Estimates of functions of confidential counts, with their errors; made by ``unbiased``.

    Attributes
    ----------
    params : float, array of float or Series
        The estimates.
    variance : like ``params``
        Unbiased estimates of their variances, due to the noise. They can be negative, and are
        reported as they are.
    plug_in : like ``params``
        The function of the published counts, moved up to the least possible count: for comparison,
        as it is biased.
    counts : like ``params``
        How many noisy counts each is of.
    effective : like ``params``
        So many counts of equal variance would tell as much of it: (Σ abs V)²/Σ V².
    guarantee : str
        What is known of the estimates.
    labels : pandas.Index or None
        Their labels.
    notes : tuple of str
        What else the reader has to know.
    independent : bool
        Whether no noise has a part in two of them.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import numpy as np
    >>> noise = dpi.Geometric(scale=2.0)
    >>> found = dpi.unbiased(np.sqrt, [3, 20, 110], mechanism=noise)
    >>> found.params.round(3), found.plug_in.round(3)
    (array([ 1.927,  4.483, 10.489]), array([ 1.732,  4.472, 10.488]))
    >>> found.sum().params.round(3)
    np.float64(16.9)
    """

    title: ClassVar[str] = "Estimates of functions of noisy counts"
    _by_row: ClassVar[tuple[str, ...]] = (
        *("params", "variance", "plug_in", "counts"),
        *("_size", "_squares"),
    )

    params: Any
    variance: Any
    plug_in: Any
    counts: Any
    _size: Any  # Σ abs V over the counts
    _squares: Any  # Σ V²
    guarantee: str
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()
    independent: bool = True
    _noisy: tuple[NoisyValues, ...] = ()

    def __post_init__(self) -> None:
        hold_arrays(self, self._by_row, self.labels)

    @property
    def bse(self) -> Any:
        """Standard errors due to the noise; NaN where the estimated variance is negative."""
        variance = np.asarray(self.variance)
        root = np.sqrt(np.where(variance < 0.0, np.nan, variance))
        return attach_labels(np.asarray(root), self.labels)

    @property
    def effective(self) -> Any:
        """Number of counts of equal variance that would tell as much of it."""
        size, squares = np.asarray(self._size), np.asarray(self._squares)
        found = np.square(size) / np.where(squares > 0.0, squares, 1.0)
        exact = np.asarray(self.counts) == 0.0
        return attach_labels(np.asarray(np.where(exact, np.inf, found)), self.labels)

    def sum(self, by: Any = None) -> FunctionEstimate:
        """Estimate sums of the functions: over the cells of each area, or over all.

        Parameters
        ----------
        by : list, mapping, Series or str, optional
            As for :meth:`dpinfer.Release.sum`: a level of the labels, for a sum
            for each label there; labels to groups; or a list of labels. By default all are added
            up; of counts in a two-dimensional array those of each row.

        Returns
        -------
        FunctionEstimate
            The sums, whose variances are the sums of the variances.

        Raises
        ------
        NotEstimableError
            If the errors depend on each other, as those of a combined estimate do.
        InvalidParameterError
            If a label is not one of the estimates.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> import numpy as np
        >>> table = np.array([[12, 30, 8], [41, 0, 55]])
        >>> squares = dpi.unbiased(np.square, table, mechanism=dpi.Geometric(scale=2.0))
        >>> squares.sum().params.round(1)
        array([1084.5, 4688.8])
        """
        if not self.independent:
            raise NotEstimableError(
                "sum needs estimates with independent errors, as their variances are added up: "
                "give the published values and not a combined estimate of them"
            )
        if by is None and self.labels is None and np.ndim(self.params) > 1:
            added = {name: np.asarray(getattr(self, name)).sum(axis=-1) for name in self._by_row}
            return replace(self, **added)
        groups, index = groups_of(self.labels, len(self), by)
        refuse_totals(groups, self.labels)
        shape = () if index is None else (len(index),)
        added = {
            name: (groups @ np.ravel(np.asarray(getattr(self, name)))).reshape(shape)
            for name in self._by_row
        }
        distinct = bool((np.asarray(groups.sum(axis=0)) <= 1.0).all())
        return replace(self, **added, labels=index, independent=distinct)

    def times(self, other: FunctionEstimate) -> FunctionEstimate:
        """Estimate products of functions of counts whose noises are independent.

        Parameters
        ----------
        other : FunctionEstimate
            As many estimates, in the same order.

        Returns
        -------
        FunctionEstimate
            The products T₁T₂, with the unbiased variance T₁²T₂² - (T₁² - V₁)(T₂² - V₂).

        Raises
        ------
        InvalidParameterError
            If the shapes or labels differ, or the two share a noise.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> first = dpi.unbiased(lambda f: f**2, [30, 41], mechanism=dpi.Geometric(scale=2.0))
        >>> second = dpi.unbiased(lambda f: f, [12, 15], mechanism=dpi.Geometric(scale=2.0))
        >>> first.times(second).params.round(1)
        array([10706. , 25097.5])
        """
        if not isinstance(other, FunctionEstimate):
            raise InvalidParameterError(
                f"other must be a FunctionEstimate, as dpinfer.unbiased makes them, got "
                f"{show(other)}"
            )
        labelled = self.labels is None or other.labels is None or self.labels.equals(other.labels)
        if np.shape(self.params) != np.shape(other.params) or not labelled:
            raise InvalidParameterError(
                "other must have the shape and labels of these estimates in their order: choose "
                "rows by indexing"
            )
        for own, theirs in product(self._noisy, other._noisy):
            refuse_shared(own, theirs)
        one, its = (np.asarray(part.params) for part in (self, other))
        rest = [np.square(np.asarray(p.params)) - np.asarray(p.variance) for p in (self, other)]
        variance = np.square(one * its) - rest[0] * rest[1]
        effective = np.minimum(np.asarray(self.effective), np.asarray(other.effective))
        return replace(
            self,
            params=one * its,
            variance=variance,
            _size=np.abs(variance),
            _squares=np.square(variance) / np.maximum(effective, 1.0),
            plug_in=np.asarray(self.plug_in) * np.asarray(other.plug_in),
            counts=np.asarray(self.counts) + np.asarray(other.counts),
            labels=other.labels if self.labels is None else self.labels,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
            independent=self.independent and other.independent,
            _noisy=self._noisy + other._noisy,
        )

    def conf_int(self, alpha: float = 0.05) -> Intervals:
        """Confidence intervals for sums over many counts, by the normal law.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        Intervals
            The estimates ± z standard errors.

        Raises
        ------
        NotEstimableError
            If none has a variance that rests on 30 counts or more.

        Notes
        -----
        Valid as the number of counts grows, none of which outweighs the others. Where the
        :attr:`effective` number of counts is below 30, or the estimated variance is negative,
        the interval is every number. With this rule intervals of level 95 % of sums of squares,
        roots, f log f, abs(f - 10) and the number of zeros of 30 to 400 counts, from all zeros to
        log-normal ones, under noise of scales 0.5 to 5, covered in 93 % of cases or more; without
        it in 84 %. What is left is due to functions with kinks at which few of the counts are. Of
        one count, the ends of ``count_confint`` through a monotone function are exact.
        """
        alpha = check_alpha(alpha)
        variance = np.asarray(self.variance)
        without = (variance < 0.0) | (np.asarray(self.effective) < _FEWEST)
        if without.all():
            raise NotEstimableError(
                f"conf_int needs sums over many noisy counts, as it takes their errors for normal, "
                f"got variances that are negative or rest on {np.max(self.effective):.3g} counts "
                f"or less, where {_FEWEST} are needed: add up more with sum, or, of one count, "
                "take the ends of count_confint through the function where it is monotone"
            )
        half = np.where(without, np.inf, -special.ndtri(0.5 * alpha) * np.sqrt(np.abs(variance)))
        estimate = np.asarray(self.params)
        lost = int(np.count_nonzero(without))
        said = (
            f"{lost} of {without.size} variances are negative, or rest on too few counts: every "
            "number is left there"
        )
        return Intervals(
            estimate=estimate,
            lower=estimate - half,
            upper=estimate + half,
            alpha=alpha,
            method="asymptotic",
            uncertainty="noise",
            labels=self.labels,
            notes=(*self.notes, said) if lost else self.notes,
        )

    def summary_frame(self) -> pd.DataFrame:
        """Return the columns ``estimate``, ``variance``, ``plug_in`` and ``counts``, by row."""
        columns = {"estimate": self.params, "variance": self.variance}
        columns |= {"plug_in": self.plug_in, "counts": self.counts}
        return labelled_frame(columns, self.labels, guarantee=self.guarantee, uncertainty="noise")

    def _table(self) -> Table:
        facts: list[tuple[str, object]] = [
            ("Guarantee", self.guarantee),
            ("Estimates", len(self)),
            ("Error covered", ERROR_COVERED["noise"]),
        ]
        return Table(
            self.title,
            facts,
            self.summary_frame(),
            index=self.labels,
            notes=self.notes,
            alike=("estimate", "plug_in"),
        )

    def __repr__(self) -> str:
        if len(self) != 1:
            return f"FunctionEstimate({len(self)} estimates, {self.guarantee})"
        return f"FunctionEstimate({np.asarray(self.params).item():.6g}, {self.guarantee})"

    def _scaled(self, factor: Any, shift: Any = 0.0) -> Self:
        """Return shift + factor·T."""
        found = {"params": shift + factor * np.asarray(self.params)}
        found["plug_in"] = shift + factor * np.asarray(self.plug_in)
        for name, power in (("variance", 2), ("_size", 2), ("_squares", 4)):
            found[name] = np.power(factor, power) * np.asarray(getattr(self, name))
        return replace(self, **found)


def unbiased(
    function: Callable[..., Any],
    values: Any,
    *,
    mechanism: Mechanism | tuple[Mechanism | None, ...] | None = None,
    lower: int | None = 0,
) -> FunctionEstimate:
    """Estimate a function of confidential counts without bias, and its variance without bias.

    Parameters
    ----------
    function : callable, numpy Polynomial or functions.Exponential
        The function g. A callable takes arrays of whole numbers >= ``lower``, one array for each
        count that it is of, and returns as many real numbers.
    values : float, array, Series, DataFrame, Release or estimate; or a tuple of them
        The published counts. A tuple is one argument of ``function`` each, of one length and with
        independent noises: ``unbiased(g, (y1, y2), mechanism=law)`` estimates g(f₁, f₂); at most 5.
    mechanism : NoiseLaw, sequence of NoiseLaw, or tuple of them
        The law of the noise: one for all values, or one for each; a tuple has that of each
        argument. Left out where ``values`` carries its own.
    lower : int or None, default 0
        The least possible confidential count. With None they are whole numbers of any sign, and
        ``function`` is asked for those as well. Polynomials and exponentials make no use of it.

    Returns
    -------
    FunctionEstimate
        An estimate for each value, with its variance and the plug-in value beside. Its ``sum`` adds
        up over cells, and has intervals.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the noise allows no unbiased estimate of the
        function, or two arguments share a noise.

    See Also
    --------
    dpinfer.count_confint : the counts themselves.
    dpinfer.linear_confint : linear functions.

    Notes
    -----
    For two-sided geometric noise of variance v = 2a/(1-a)²,

        T(y) = g(y) - (v/2)[g(y-1) - 2g(y) + g(y+1)]   for y > lower,

    has E T(f + e) = g(f) for all whole f >= lower, and at y <= lower it is the constant
    g(L) - a/(1-a)·[g(L+1) - g(L)] with L = ``lower``: all such y say the same about the counts, so
    that no estimate that depends on more has a smaller variance. For Laplace noise of scale b it is
    s(y) - b²s''(y), and s(L) - b·s'(L) for y <= L, with s the cubics that pass through g at the
    whole numbers with central differences as slopes: exact for whole counts, whatever g is. In
    several counts these act one after the other. The estimated variance is T(y)² less the estimate
    of g², as E T² - g² is the variance.

    A polynomial has Σ g⁽ʲ⁾(y) aⱼ with 1/E exp(te) = Σ aⱼtʲ under every law: y² - v for f², and
    exp(rate·f) has exp(rate·y)/E exp(rate·e). Under Gaussian and discrete Gaussian noise no others
    can be estimated: no unbiased estimate of abs(f), f·log f, 1/f or of whether f = 0 exists.

    Unbiased does not mean precise. Where g has a kink or a jump, each noisy count near it adds a
    variance of about (v/2)² times the squared second difference of g there, and
    about (v₁v₂/4)² for a kink in two counts: look at ``variance``.
    Estimates can be impossible values, such as negative ones of squares; to clip them makes a bias.

    References
    ----------
    Ghosh, A., Roughgarden, T. and Sundararajan, M. (2012). Universally utility-maximizing privacy
    mechanisms. SIAM Journal on Computing 41(6), 1673-1693. doi:10.1137/09076828X.
    Stefanski, L. A. (1989). Unbiased estimation of a nonlinear function of a normal mean with
    application to measurement error models. Communications in Statistics 18(12), 4335-4358.

    Examples
    --------
    The number of empty cells, of which noise hides which they are:

    >>> import dpinfer as dpi
    >>> import numpy as np
    >>> noise = dpi.Geometric(scale=0.5)
    >>> empty = dpi.unbiased(lambda f: f == 0, [0, 0, -1, 1, 5, 0, 2, 1], mechanism=noise)
    >>> empty.sum().params.round(2), empty.sum().bse.round(2)
    (np.float64(4.26), np.float64(1.07))

    Squares under Gaussian noise, and a product of two counts:

    >>> square = np.polynomial.Polynomial([0, 0, 1])
    >>> dpi.unbiased(square, 12.5, mechanism=dpi.Gaussian(sigma=2.0)).params
    np.float64(152.25)
    >>> dpi.unbiased(lambda x, y: x * y, (12, 30), mechanism=noise).params.round(9)
    np.float64(360.0)
    """
    bound = None if lower is None else float(check_integer(lower, "lower", ge=-LARGEST, le=LARGEST))
    parts, names = arguments(values, mechanism)
    for one in parts:
        one.need(unruled=True, who="unbiased")
    if isinstance(function, (Polynomial, Exponential)):
        found = _known_everywhere(function, parts)
    elif callable(function):
        for one, other in combinations(parts, 2):
            refuse_shared(one, other)
        stencils = [stencil_of(one, bound) for one in parts]
        found = by_stencils(function, stencils, names)
    else:
        raise InvalidParameterError(
            f"function must be a callable, a numpy Polynomial or functions.Exponential, got "
            f"{show(function)}"
        )
    return _estimates(parts, found)


def arguments(values: Any, mechanism: Any) -> tuple[list[NoisyValues], list[str]]:
    """Return the noisy counts of each argument, in the order of the first."""
    if not isinstance(values, tuple):
        return [noisy(values, mechanism=mechanism)], ["count"]
    if not 1 <= len(values) <= _MOST_ARGUMENTS:
        raise InvalidParameterError(
            f"values must be noisy counts, or a tuple of at most {_MOST_ARGUMENTS} of them, one "
            f"for each argument of function, got a tuple of {len(values)}"
        )
    carried = [hasattr(one, "__noisy__") for one in values]
    laws = mechanism
    if not isinstance(mechanism, tuple):
        laws = [None if own and not all(carried) else mechanism for own in carried]
    if len(laws) != len(values):
        raise InvalidParameterError(
            f"mechanism must be one law, or a tuple with one for each of the {len(values)} "
            f"arguments, got a tuple of {len(laws)}"
        )
    names = [f"values[{at}]" for at in range(len(values))]
    parts = [
        noisy(one, mechanism=law, name=name)
        for one, law, name in zip(values, laws, names, strict=True)
    ]
    first = parts[0]
    parts = [first, *(first.aligned(one) for one in parts[1:])]
    for one in parts[1:]:
        if len(one) != len(first):
            raise InvalidParameterError(
                f"values must be of one length, got {len(first)} and {len(one)}: one count that "
                "serves all rows would make their errors depend on each other"
            )
        if first.labels is None and one.labels is None and one.shape != first.shape:
            raise InvalidParameterError(
                f"values must be of one shape, got {first.shape} and {one.shape}"
            )
    return parts, names


def area_table(
    x: NoisyValues, by: Any
) -> tuple[sparse.csr_array, tuple[int, ...], pd.Index | None]:
    """Return which values are of one area, as ones in a sparse array, its shape and labels."""
    from scipy import sparse

    if by is None and x.labels is None and len(x.shape) > 1:
        size = len(x) // x.shape[-1]
        at = np.arange(0, len(x) + 1, x.shape[-1])
        table = sparse.csr_array((np.ones(len(x)), np.arange(len(x)), at), shape=(size, len(x)))
        return table, x.shape[:-1], None
    table, labels = groups_of(x.labels, len(x), by)
    refuse_totals(table, x.labels)
    return sparse.csr_array(table), () if labels is None else (len(labels),), labels


def refuse_totals(table: Any, labels: pd.Index | None) -> None:
    """Refuse areas whose cells come with sums of these, which are no cells themselves."""
    for level in range(0 if labels is None else labels.nlevels):
        held = labels.get_level_values(level)  # type: ignore[union-attr]
        if getattr(held.dtype, "kind", "O") != "O":
            continue
        summed = np.array([1.0 * (isinstance(label, str) and label == SUMMED) for label in held])
        each = table @ summed
        mixed = (each > 0.0) & (each < table @ np.ones(len(summed)))
        if mixed.any():
            name = f"level_{level}" if held.name is None else held.name
            raise InvalidParameterError(
                f"values must be the cells of an area and not their sums as well, got labels with "
                f"{SUMMED!r} for {name} beside others: choose one table first, as by "
                f"where(\"{name} != '{SUMMED}'\") of a release, or rows of a fit by their labels"
            )


def within_areas(areas: pd.Index | None, size: int, inner: pd.Index) -> pd.Index:
    """Return labels of rows within each of so many areas, numbered where they have none."""
    import pandas as pd

    own = pd.RangeIndex(size, name="area") if areas is None else areas
    outer = own.repeat(len(inner))
    levels = [outer.get_level_values(at) for at in range(own.nlevels)]
    for at in range(inner.nlevels):
        held = inner.get_level_values(at)
        levels.append(held.take(np.tile(np.arange(len(inner)), size)))
    return pd.MultiIndex.from_arrays(levels, names=[*own.names, *inner.names])


def areas_of(x: NoisyValues, by: Any) -> tuple[list[Positions], tuple[int, ...], pd.Index | None]:
    """Return the cells of each area, and the shape and labels of the areas."""
    table, shape, labels = area_table(x, by)
    return np.split(table.indices.astype(np.intp), table.indptr[1:-1]), shape, labels


def refuse_shared(one: NoisyValues, other: NoisyValues) -> None:
    """Refuse counts whose errors depend on each other."""
    if one.weights is None and other.weights is None and one.apart_from(other):
        return
    if not one.beside(other).are_independent():
        raise InvalidParameterError(
            f"{one.name} and {other.name} must have independent noises, got some that they share: "
            "give the published values themselves"
        )


def _known_everywhere(function: Polynomial | Exponential, parts: list[NoisyValues]) -> Found:
    if len(parts) > 1:
        raise InvalidParameterError(
            f"{type(function).__name__} is a function of one count, got {len(parts)}: multiply "
            "estimates of each with times"
        )
    if isinstance(function, Exponential):
        return by_rate(function.rate, parts[0])
    coefficients: FloatArray = np.asarray(function.convert().coef)
    if coefficients.dtype.kind not in "iuf" or not np.isfinite(coefficients).all():
        raise InvalidParameterError(f"function must have real coefficients, got {show(function)}")
    if len(coefficients) > _MOST_DEGREES + 1:
        raise InvalidParameterError(
            f"function must be a polynomial of degree {_MOST_DEGREES} or less, got one of "
            f"{len(coefficients) - 1}"
        )
    return by_series(coefficients.astype(np.float64), parts[0])


def _estimates(parts: list[NoisyValues], found: Found) -> FunctionEstimate:
    first = parts[0]
    shape = (len(first),) if first.labels is not None else first.shape
    noisy_ones = sum(np.asarray(one.variance > 0.0, dtype=np.float64) for one in parts)
    spread = np.abs(found[1]), np.square(found[1])
    columns = [np.asarray(one).reshape(shape) for one in (*found, noisy_ones, *spread)]
    named: dict[str, Any] = dict(zip(FunctionEstimate._by_row, columns, strict=True))
    return FunctionEstimate(
        **named,
        guarantee=_EXACT,
        labels=first.labels,
        independent=all(one.are_independent() for one in parts),
        _noisy=tuple(parts),
    )


OF_CELLS = (
    "by itself sampling looks like segregation, by an amount that depends on who could be in which "
    "cell, which counts do not tell"
)


def only_noise(uncertainty: Any, who: str, why: str) -> None:
    """Refuse sampling where nothing is known of it."""
    if check_option(uncertainty, "uncertainty", UNCERTAINTIES) != "noise":
        raise InvalidParameterError(
            f"uncertainty must be 'noise' for {who}, which is about the confidential counts: {why}"
        )


def totals_of(
    given: Any, name: str, x: NoisyValues, shape: tuple[int, ...], labels: pd.Index | None
) -> FloatArray | None:
    """Return totals known exactly, one for all areas or one each; None for counts without noise."""
    if given is None:
        if (x.variance > 0.0).any():
            raise InvalidParameterError(
                f"{name} must be given where {x.name} is noisy: numbers known exactly, as totals "
                "published without noise, and not sums of noisy counts. No unbiased estimate of a "
                "ratio to a noisy total exists: estimate the numerator with dpinfer.unbiased, or "
                "use functions.function_confint with method='simulate', which is approximate"
            )
        return None
    return known_total(given, shape, labels, name).reshape(shape)


def known_total(
    total: Any, shape: tuple[int, ...], labels: pd.Index | None, name: str = "total"
) -> FloatArray:
    """Return the total of each area, (areas,), where it is known exactly."""
    given, own = split_labels(total, name, ge=1, le=1e15)
    check_order(own, labels, name, "the areas")
    if given.shape not in ((), shape):
        raise InvalidParameterError(
            f"{name} must be a number or have one entry for each area, of shape {shape}, got "
            f"{given.shape}"
        )
    return np.broadcast_to(given.ravel() if given.ndim else given, int(np.prod(shape)))
