"""Posteriors of confidential counts given the published ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    FloatArray,
    check_alpha,
    check_array,
    check_broadcast,
    check_option,
    check_scalar,
    show,
)
from dpinfer._numerics.lattice import alike
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.intervals._windows import (
    LOG_LEFT_OUT,
    MOST_COLUMNS,
    Flat,
    Functional,
    Ladder,
    Panjer,
    Part,
    Point,
    Rows,
    Table,
    WeighedRows,
    Window,
    bound,
    check_law,
    log_density,
    reach,
)
from dpinfer.mechanisms.independent import Mechanism, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.priors.counts import (
    LARGEST_COUNT,
    CountPrior,
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
)
from dpinfer.releases.coerce import noisy
from dpinfer.releases.noises import Rule
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, CredibleIntervals
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table as ResultTable

if TYPE_CHECKING:
    import pandas as pd


# From checked arguments to rows whose posteriors can be computed.


MOST_WORK = float(1 << 34)
"""Columns of all windows together: some two minutes."""

_SETTLED = 1e-15
_SMALLEST_MEAN = 1e-100
_CONSTANT = Gaussian(sigma=1e50)


def ladder_of(prior: CountPrior, x: NoisyValues) -> Ladder | None:
    """Return a prior in the form from which windows are climbed, where it has one."""
    if isinstance(prior, FlatPrior):
        return Flat()
    if isinstance(prior, PoissonPrior):
        return Panjer(x.setting(prior.rate, "rate"), np.zeros(()))
    if isinstance(prior, NegativeBinomialPrior):
        return Panjer(x.setting(prior.mean, "mean"), x.setting(prior.dispersion, "dispersion"))
    return None


def _parts(
    count: FloatArray,
    law: NoiseLaw,
    prior: Ladder | Table,
    lower: float,
    upper: float,
    rule: Rule | None,
) -> list[Part]:
    """Return the rows of each kind of noise; equal rows once where that is worth it."""
    parts = []
    for own, cells in groups(law, count.size):
        belief = prior.take(cells) if isinstance(prior, Panjer) and not prior.shared else prior
        shared = isinstance(belief, Table) or belief.shared
        values, inverse = count[cells], None
        if own.shape == () and shared and own.is_integer and rule is None:
            first, inverse = alike([values])
            values = values[first]
        low, high = np.full(values.size, lower), np.full(values.size, upper)
        if isinstance(belief, Table):
            low, high = (np.full(values.size, belief.possible[end]) for end in (0, -1))
        elif isinstance(belief, Panjer):
            low = np.maximum(low, 0.0)
            high = np.where(belief.mean == 0, np.minimum(high, 0.0), high)
            belief = Panjer(np.maximum(belief.mean, _SMALLEST_MEAN), belief.dispersion)
        limits = None
        if rule is not None:
            bounds = (rule.threshold, rule.lowest, rule.highest)
            limits = np.stack([np.broadcast_to(limit, count.size)[cells] for limit in bounds])
            _check_ends(values, limits, belief, low, high)
        low, high = _reached(values, own, limits, belief, low, high)
        if isinstance(belief, Table) or limits is not None:
            parts.append(Part(WeighedRows(values, own, belief, low, high, limits), cells, inverse))
        else:
            parts.append(Part(Rows(values, own, belief, low, high), cells, inverse))
    work = sum(float(part.rows.width.sum()) for part in parts)
    if work > MOST_WORK:
        raise InvalidParameterError(
            "count must have posteriors over at most 2^34 counts in all, for memory and time, got "
            f"about {work:.2g}: pass fewer rows, or a narrower prior"
        )
    return parts


def _check_ends(
    values: FloatArray,
    limits: FloatArray,
    prior: Ladder | Table,
    lower: FloatArray,
    upper: FloatArray,
) -> None:
    """Refuse a support without an end where a publishing rule makes that matter."""
    threshold, lowest, highest = limits
    if ((np.isfinite(threshold) | (values == lowest)) & np.isinf(lower)).any():
        raise InvalidParameterError(
            "lower must be given for values with a threshold or at a clamping bound: however far "
            "below a count may be, the value says little against it"
        )
    if ((values == highest) & np.isinf(upper)).any() and not isinstance(prior, Panjer):
        raise InvalidParameterError(
            "upper must be given for values at an upper clamping bound: no count is too large for "
            "them"
        )


def _reached(
    values: FloatArray,
    law: NoiseLaw,
    limits: FloatArray | None,
    prior: Ladder | Table,
    lower: FloatArray,
    upper: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the support from which the noise reaches each value; refuse none."""
    ends = bound(law)
    low, high = (
        np.maximum(lower, np.ceil(values - ends)),
        np.minimum(upper, np.floor(values + ends)),
    )
    if limits is not None:
        _, lowest, highest = limits
        low, high = np.where(values == lowest, lower, low), np.where(values == highest, upper, high)
    possible = low <= high
    if isinstance(prior, Table):
        nearest = np.searchsorted(prior.possible, low)
        reached = prior.possible[np.minimum(nearest, prior.possible.size - 1)] <= high
        possible &= reached & (nearest < prior.possible.size)
    if not possible.all():
        raise InvalidParameterError(
            f"count must be possible under mechanism, prior, lower and upper, got "
            f"{values[~possible][0]:g}: no whole number of the support could have given it"
        )
    return low, high


def log_prior_mass(part: Part, lower: float, upper: float) -> FloatArray:
    """Return the logarithm of the prior probability of the support, one for each cell.

    It is a posterior's normaliser again, under noise so wide that its density is constant.
    """
    rows = part.rows
    assert not isinstance(rows.prior, Table)
    size = 1 if rows.prior.shared else rows.count.size
    low, high = np.full(size, max(lower, 0.0)), np.full(size, upper)
    alone = Part(Rows(np.zeros(size), _CONSTANT, rows.prior, low, high), np.arange(size))
    mass = alone.apply(lambda window, _: window.log_total()[None])[0]
    return np.broadcast_to(mass - log_density(_CONSTANT, np.zeros(())), part.cells.shape)


def table_of(prior: TablePrior, lower: float, upper: float) -> Table:
    """Return the logarithms of the prior on the support, where it sums to 1."""
    pmf = np.asarray(prior.pmf)
    k = prior.first + np.arange(pmf.size)
    inside = (k >= lower) & (k <= upper)
    if not pmf[inside].any():
        raise InvalidParameterError(
            f"prior must give lower..upper a probability, got none for {lower:g} to {upper:g}"
        )
    with np.errstate(divide="ignore"):
        logpmf = np.log(pmf[inside]) - np.log(pmf[inside].sum())
    return Table(float(k[inside][0]), logpmf)


def tabulate(
    prior: FunctionPrior,
    count: FloatArray,
    law: NoiseLaw,
    lower: float,
    upper: float,
    rule: Rule | None,
) -> Table:
    """Return the values of a function prior as far as any posterior has mass.

    The table is doubled until the posteriors of the smallest and of the largest counts have
    nothing left in the outer quarter on either side.
    """
    if upper - lower < MOST_COLUMNS:
        return _checked_table(prior, lower, upper)
    if rule is not None:
        raise InvalidParameterError(
            "lower and upper must be given for a prior that is a function and values with a "
            f"threshold or clamping bounds, less than {MOST_COLUMNS} apart, got {lower:g} and "
            f"{upper:g}"
        )
    centre = np.clip(np.rint(count), lower, upper)
    widest = max(
        float(np.max(reach(own, np.asarray(LOG_LEFT_OUT)))) for own, _ in groups(law, count.size)
    )
    room = 16.0 + np.ceil(widest)
    while True:
        low, high = max(lower, centre.min() - room), min(upper, centre.max() + room)
        if high - low > MOST_COLUMNS:
            raise InvalidParameterError(
                "prior must make the posterior proper, within "
                f"{MOST_COLUMNS} counts: it falls too slowly, or not at all where the noise does. "
                "Give lower and upper, or a prior that falls"
            )
        table = _checked_table(prior, low, high)
        if _settled(table, count, law, 0.25 * room, (low > lower, high < upper)):
            return table
        room *= 2.0


def _checked_table(prior: FunctionPrior, low: float, high: float) -> Table:
    values = prior.values(low + np.arange(high - low + 1.0))
    if not np.isfinite(values).any():
        raise InvalidParameterError(
            f"prior must give some count a probability, got none from {low:g} to {high:g}"
        )
    peak = values.max()
    return Table(low, values - peak - np.log(np.exp(values - peak).sum()))


def _settled(
    table: Table, count: FloatArray, law: NoiseLaw, margin: float, cut: tuple[bool, bool]
) -> bool:
    """Whether the posteriors of the extreme counts have no mass near ends that were cut."""
    for own, cells in groups(law, count.size):
        values = count[cells]
        for row in {int(values.argmin()), int(values.argmax())}:
            alone = own.take([int(np.argmax(own.std))]) if own.shape else own
            open_ = np.full(1, np.inf)
            window = WeighedRows(values[[row]], alone, table, -open_, open_).window()
            k = window.first + np.arange(len(window.mass))
            outer = (cut[0] & (k < table.first + margin)) | (
                cut[1] & (k > table.first + table.log_table.size - margin)
            )
            if window.mass[outer].sum() > _SETTLED:
                return False
    return True


# Posteriors of confidential counts as a value.


Kind = Literal["hdi", "equal-tailed"]
PriorOf = Literal["published", "all"]

KINDS: tuple[Kind, ...] = ("hdi", "equal-tailed")
PRIORS_OF: tuple[PriorOf, ...] = ("published", "all")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountPosterior(Listed, Plotted):
    """Posteriors of confidential counts, one for each published value.

    Made by :func:`count_posterior`. Values are in units of the counts, and are Series where there
    are labels. They are computed when asked for, in blocks of rows.

    Parameters
    ----------
    count : float, array or Series
        The published values.
    prior : CountPrior
        The prior.
    lower, upper : float
        Ends of the support, which may be infinite.
    labels : pandas.Index, optional
        One label for each posterior.
    notes : tuple of str
        What else the reader has to know, one remark each.
    parts : tuple
        The rows by kinds of noise, for internal use.

    Examples
    --------
    >>> from dpinfer.intervals import count_posterior
    >>> from dpinfer.priors import PoissonPrior
    >>> from dpinfer.mechanisms import Laplace
    >>> posterior = count_posterior(7.3, mechanism=Laplace(scale=2.0), prior=PoissonPrior(3.0))
    >>> posterior.mean.round(4), posterior.std.round(4), posterior.mode
    (np.float64(4.5329), np.float64(1.8295), np.float64(4.0))
    >>> posterior.sf(6).round(4)
    np.float64(0.155)
    """

    count: Any
    prior: CountPrior
    lower: float
    upper: float
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[Part, ...] = field(repr=False)

    @property
    def mean(self) -> Any:
        """Posterior mean, which minimises the expected squared error."""
        return self._labelled(self._moments[0])

    @property
    def std(self) -> Any:
        """Posterior standard deviation."""
        return self._labelled(self._moments[1])

    @property
    def mode(self) -> Any:
        """Most probable count."""
        return self._labelled(self._moments[2])

    @property
    def median(self) -> Any:
        """Smallest count that is not exceeded with probability 1/2 or more."""
        return self.quantile(0.5)

    @property
    def log_marginal(self) -> Any:
        """Logarithm of the density (or probability) of each published value under the prior.

        Raises
        ------
        NotEstimableError
            If the prior is known up to a constant only: flat or a function, on a support without
            ends.
        """
        mass = self._log_prior_mass
        values = self._apply(lambda window, _: window.log_total()[None], 1)
        return self._labelled(values.reshape(np.shape(self.count)) - mass)

    def quantile(self, q: ArrayLike) -> Any:
        """Smallest count with cdf of at least ``q``.

        Parameters
        ----------
        q : float or array of float
            Probabilities in (0, 1).

        Returns
        -------
        float, array or Series
            The shape of ``q``, followed by that of the posteriors.
        """
        level = check_array(q, "q", gt=0, lt=1)
        values = self._apply(lambda window, _: window.quantiles(level.ravel()), level.size)
        values = values.reshape(level.shape + np.shape(self.count))
        return self._labelled(values) if level.ndim == 0 else values

    def pmf(self, k: ArrayLike) -> Any:
        """Posterior probability of exactly ``k``.

        Parameters
        ----------
        k : float or array of float
            Counts that broadcast against the posteriors.

        Returns
        -------
        float, array or Series
            In the shape to which ``k`` and the posteriors broadcast.
        """
        return self._at(k, "pmf")

    def cdf(self, k: ArrayLike) -> Any:
        """Posterior probability of at most ``k``; see :meth:`pmf`."""
        return self._at(k, "cdf")

    def sf(self, k: ArrayLike) -> Any:
        """Posterior probability of more than ``k``, summed as a tail; see :meth:`pmf`."""
        return self._at(k, "sf")

    def interval(self, alpha: float = 0.05, kind: Kind = "hdi") -> CredibleIntervals:
        """Credible intervals: they hold the count with posterior probability 1 - alpha or more.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the probability, in (0, 1).
        kind : {"hdi", "equal-tailed"}
            ``"hdi"``: the shortest run of whole numbers that holds 1 - alpha; where the posterior
            has one peak these are the most probable counts. ``"equal-tailed"``: at most alpha/2
            is left out on either side.

        Returns
        -------
        CredibleIntervals
            One interval for each value, about the posterior mean; unpacks as ``lower, upper``.
        """
        alpha = check_alpha(alpha)
        kind = check_option(kind, "kind", KINDS)

        def ends(window: Window, _: NDArray[np.intp]) -> FloatArray:
            return window.shortest(alpha) if kind == "hdi" else window.equal_tailed(alpha)

        shape = np.shape(self.count)
        low, high, probability = (line.reshape(shape) for line in self._apply(ends, 3))
        return CredibleIntervals(
            estimate=self._moments[0],
            lower=low,
            upper=high,
            alpha=alpha,
            method=f"posterior, {kind}",
            uncertainty="noise",
            labels=self.labels,
            notes=self.notes,
            prior=self.prior.description,
            probability=probability,
        )

    def summary_frame(self, alpha: float = 0.05, kind: Kind = "hdi") -> pd.DataFrame:
        """Return the posteriors as a DataFrame, with intervals as :meth:`interval` has them.

        One row a posterior, with the columns ``count``, ``mean``, ``std``, ``mode``, ``ci_lower``,
        ``ci_upper`` and ``probability``, that of the interval. ``attrs`` holds ``alpha``,
        ``method``, ``uncertainty``, ``simultaneous`` and ``prior``.
        """
        frame = self.interval(alpha, kind).summary_frame().rename(columns={"estimate": "mean"})
        frame.insert(0, "count", np.ravel(self.count))
        frame.insert(2, "std", np.ravel(self._moments[1]))
        frame.insert(3, "mode", np.ravel(self._moments[2]))
        return frame

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.count), self.labels

    def _table(self, alpha: float = 0.05, kind: Kind = "hdi") -> ResultTable:
        frame = self.summary_frame(alpha, kind)
        return ResultTable(
            "Posteriors of confidential counts",
            [
                ("Prior", self.prior.description),
                ("Support", f"{self.lower:g} to {self.upper:g}"),
                ("Intervals", f"{1 - alpha:.6g} credible, {kind}"),
                ("Posteriors", len(frame)),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            frame,
            index=frame.index if self.labels is not None else None,
            notes=self.notes,
            alike=("count", "mean", "std", "mode", "ci_lower", "ci_upper"),
        )

    def __repr__(self) -> str:
        return f"CountPosterior({np.size(self.count)} posteriors, prior {self.prior.description})"

    @cached_property
    def _moments(self) -> FloatArray:
        values = self._apply(lambda window, _: window.moments(), 3)
        return values.reshape(3, *np.shape(self.count))

    @property
    def _log_prior_mass(self) -> FloatArray:
        """Logarithm of the prior probability of the support, in the shape of the posteriors."""
        if isinstance(self.prior, (FlatPrior, FunctionPrior)):
            if np.isinf(self.upper - self.lower):
                raise NotEstimableError(
                    "log_marginal needs a prior that is a probability: give lower and upper, or "
                    f"a prior other than {self.prior.description}"
                )
            flat = isinstance(self.prior, FlatPrior)
            return np.asarray(np.log(self.upper - self.lower + 1.0) if flat else 0.0)
        if isinstance(self.prior, TablePrior) or (self.lower <= 0 and np.isinf(self.upper)):
            return np.zeros(())
        out = np.empty(np.size(self.count))
        for part in self.parts:
            out[part.cells] = log_prior_mass(part, self.lower, self.upper)
        return out.reshape(np.shape(self.count))

    def _apply(self, functional: Functional, lines: int) -> FloatArray:
        """Return what a functional reads off the windows, shape (lines, rows)."""
        if len(self.parts) == 1:
            return self.parts[0].apply(functional)
        out = np.empty((lines, np.size(self.count)))
        for part in self.parts:
            out[:, part.cells] = part.apply(functional)
        return out

    def _at(self, k: ArrayLike, kind: Point) -> Any:
        points = check_array(k, "k", finite=False)
        rows = np.shape(self.count)
        shape = check_broadcast(k=points.shape, count=rows)
        size = int(np.prod(rows, dtype=int))
        table = np.broadcast_to(points, shape).reshape(-1, size)
        values = np.empty(table.shape)
        for part in self.parts:
            values[:, part.cells] = part.each().apply(_reader(table[:, part.cells], kind))
        values = values.reshape(shape)
        return self._labelled(values) if shape == rows else values

    def _labelled(self, values: FloatArray) -> Any:
        return attach_labels(values, self.labels)


def _reader(points: FloatArray, kind: Point) -> Functional:
    """Return what reads probabilities off windows at counts of shape (m, rows)."""
    return lambda window, rows: window.at(points[:, rows], kind)


EMPIRICAL = (
    "Empirical Bayes: the prior was estimated from the published counts themselves, and its own "
    "uncertainty is not included."
)


def count_posterior(
    count: Any,
    *,
    mechanism: Mechanism | None = None,
    threshold: Any = None,
    clamp: Any = None,
    prior: CountPrior | None = None,
    prior_of: PriorOf = "published",
    lower: float | None = 0,
    upper: float | None = None,
) -> CountPosterior:
    """Exact posteriors of confidential whole numbers given their published values.

    Parameters
    ----------
    count : float, array of shape (m,), Series, DataFrame, Release or estimate
        The published values: the confidential counts plus noise. Within ±2^52. Each is taken by
        itself, by the law of its own error.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all values, or one for each. Laplace, Geometric, Gaussian,
        DiscreteGaussian, Tulap, Rounded or Exact. Left out where ``count`` carries its law.
    threshold, clamp : optional
        How the values were published, as for :func:`~dpinfer.count_confint`.
    prior : FlatPrior, PoissonPrior, NegativeBinomialPrior, TablePrior or FunctionPrior, optional
        What is believed of the counts beforehand, independently of each other. By default flat.
        See :func:`empirical_prior` for one from the table itself.
    prior_of : {"published", "all"}
        Of values with a threshold: whether ``prior`` is that of the counts whose values reached it,
        or of all counts, many of whose values did not.
    lower, upper : float, optional
        Ends of the support; by default the whole numbers from 0 on. ``None`` is no end.

    Returns
    -------
    CountPosterior
        One posterior for each value, with the labels of ``count``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, ``mechanism`` does not fit ``count``, a value
        could not have come from any count of the support, or the posterior would be improper.

    Notes
    -----
    For a prior π and noise of density (or probability) g, P(f = k | y) ∝ π(k)·g(y - k). The sum
    runs over a window around its largest term; what is left out is below 1e-14 of it. Where y is
    far from all counts that the prior allows, that window is far from y.

    Under a flat prior without ends, and symmetric noise on the whole numbers, the posterior is
    the law of the noise around y. Of a value that a clamp moved to
    its lower (upper) bound c, P(k + e ≤ c) (P(k + e ≥ c)) takes the place of g(y - k).

    Where a value was published because it reached a threshold τ, the meaning of the prior matters.
    For counts that were drawn from it one by one, each published by noise that reached τ, the
    likelihood is g(y - k)/P(k + e ≥ τ) (``prior_of="published"``). Where the prior is that of all
    counts, and those whose values fell short were left out, it is g(y - k) as ever
    (``prior_of="all"``): counts far below τ are then rare among the published ones. See Yekutieli
    (2012) for the two. By the first one, a value says little against counts far below τ: ``lower``
    must be given there unless the prior has an end, as must ``upper`` at an upper clamping bound
    unless it falls. Other selections, such as the largest of many, are not known to this function.

    References
    ----------
    Ghosh, A., Roughgarden, T. and Sundararajan, M. (2012). Universally utility-maximizing privacy
    mechanisms. SIAM Journal on Computing 41(6), 1673-1693. doi:10.1137/09076828X.
    Yekutieli, D. (2012). Adjusted Bayesian inference for selected parameters. Journal of the Royal
    Statistical Society B 74(3), 515-541. doi:10.1111/j.1467-9868.2011.01016.x.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> posterior = count_posterior([-3, 2, 10], mechanism=Geometric(scale=2.0))
    >>> posterior.mean.round(3)
    array([ 1.541,  2.733, 10.032])
    >>> lower, upper = posterior.interval(alpha=0.1)
    >>> lower, upper
    (array([0., 0., 6.]), array([ 4.,  5., 14.]))
    >>> count_posterior([22, 40], mechanism=Geometric(scale=2.0), threshold=20).mean.round(3)
    array([12.889, 39.989])
    """
    belief = FlatPrior() if prior is None else prior
    if not isinstance(belief, CountPrior):
        raise InvalidParameterError(
            f"prior must be a prior such as PoissonPrior(5.0), got {show(prior)}: priors of whole "
            "tables are for table_posterior"
        )
    low, high = _support(lower, upper)
    x = noisy(count, mechanism=mechanism, threshold=threshold, clamp=clamp, name="count")
    check_array(x.values, "count", ge=-LARGEST_COUNT, le=LARGEST_COUNT)
    _check_laws(x)
    ladder = ladder_of(belief, x)
    shape, rows, law = x.values.shape if x.labels is not None else x.shape, x.values, x.marginal
    if len(shape) > 1:
        raise InvalidParameterError(f"count must be a number or one-dimensional, got shape {shape}")
    if isinstance(ladder, Panjer):
        shape = np.broadcast_shapes(shape, ladder.mean.shape, ladder.dispersion.shape)
        rows = np.broadcast_to(rows, max(1, *shape)) if shape else rows
        ladder = Panjer(*(_flat(part, shape) for part in (ladder.mean, ladder.dispersion)))
        law = law if law.shape in ((), rows.shape) else law.take(np.zeros(rows.size, dtype=int))
    rule, of_all = x.rule, check_option(prior_of, "prior_of", PRIORS_OF) == "all"
    if rule is not None and of_all:
        rule = replace(rule, threshold=-np.inf)
    known: Ladder | Table
    if ladder is not None:
        known = ladder
    elif isinstance(belief, TablePrior):
        known = table_of(belief, low, high)
    elif isinstance(belief, FunctionPrior):
        known = tabulate(belief, rows, law, low, high, rule)
    else:
        raise InvalidParameterError(
            f"prior must be one of this package, got {show(prior)}: pass the logarithms of its "
            "probabilities as FunctionPrior"
        )
    notes = (EMPIRICAL,) if getattr(belief, "empirical", False) else ()
    if x.rule is not None:
        about = "of all counts" if of_all else "of the counts that were published"
        notes = (*notes, f"some values {x.rule.kind()}: the prior is taken to be that {about}")
    return CountPosterior(
        count=attach_labels(rows.reshape(shape), x.labels),
        prior=belief,
        lower=low,
        upper=high,
        labels=x.labels,
        notes=notes,
        parts=tuple(_parts(rows, law, known, low, high, rule)),
    )


def _check_laws(x: NoisyValues) -> None:
    """Refuse errors without a density in closed form, and rules that posteriors do not know."""
    if x.rule is not None and (x.rule.after > 0 or np.any(np.greater(x.rule.before, 1))):
        x.need(unruled=True, who="count_posterior")
    x.need(marginal=True, who="count_posterior")
    for law, _ in x.laws():
        check_law(law)


def _support(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Return the smallest and the largest whole number between the bounds."""
    most = LARGEST_COUNT
    low = -np.inf if lower is None else np.ceil(check_scalar(lower, "lower", ge=-most, le=most))
    high = np.inf if upper is None else np.floor(check_scalar(upper, "upper", ge=-most, le=most))
    if low > high:
        raise InvalidParameterError(
            f"lower must be <= upper with a whole number between, got {lower} and {upper}"
        )
    return float(low), float(high)


def _flat(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return parameters as a number, or as one for each row."""
    return values if values.ndim == 0 else np.ravel(np.broadcast_to(values, shape))


# Priors estimated from the published counts themselves.


Family = Literal["poisson", "negative-binomial"]

FAMILIES: tuple[Family, ...] = ("poisson", "negative-binomial")

_LARGEST = 1e14
"""Counts that leave room above them for the rates of a prior that are tried."""

_SMALLEST = 1e-9
"""A rate whose likelihood still falls from here is 0."""

_SMALLEST_START = 0.1
_FLAT = 1e-5
_ROUNDING = 1e-12
_DISPERSIONS = (1e-6, 1e4)
"""Where the dispersion is looked for; at the lower end it is taken to be 0."""


def empirical_prior(
    count: Any, *, mechanism: Mechanism | None = None, family: Family = "poisson"
) -> PoissonPrior | NegativeBinomialPrior:
    """Prior shared by all counts of a table, estimated from their published values.

    Parameters
    ----------
    count : array, Series, DataFrame, Release or estimate
        The published values, as for :func:`count_posterior`, at most 1e14.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise.
    family : {"poisson", "negative-binomial"}
        The family of the prior.

    Returns
    -------
    PoissonPrior or NegativeBinomialPrior
        The prior under which the published values are most likely, marked as ``empirical``:
        posteriors under it say so in their notes.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    ConvergenceError
        If the maximum of the likelihood was not found.

    Notes
    -----
    The marginal likelihood Π_i Σ_k π(k)·g_i(y_i - k) is maximised. Its derivative by the rate λ
    of a Poisson prior is Σ_i (E[f_i | y_i]/λ - 1): at the maximum the rate is the mean of the
    posterior means. For log-concave noise the posteriors are ultra-log-concave, and a posterior
    variance is at most the posterior mean (Johnson 2007). The second derivative by log λ is then
    negative wherever the first is zero: there is one maximum. The negative binomial likelihood is
    climbed from moment estimates, and may have other maxima.

    Intervals under an estimated prior leave out its own uncertainty, which matters in small
    tables. Counts that are not alike, such as those of large and small areas, are better served
    by a prior mean of each, from a source other than these values.

    References
    ----------
    Johnson, O. (2007). Log-concavity and the maximum entropy property of the Poisson distribution.
    Stochastic Processes and their Applications 117(6), 791-802. doi:10.1016/j.spa.2006.10.006.
    Robbins, H. (1956). An empirical Bayes approach to statistics. Proceedings of the Third
    Berkeley Symposium on Mathematical Statistics and Probability 1, 157-163.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> empirical_prior([7, 4, 5, -1, 6, 3], mechanism=Geometric(scale=1.0)).description
    'Poisson, mean 4.22401'
    """
    family = check_option(family, "family", FAMILIES)
    x = noisy(count, mechanism=mechanism, name="count")
    check_array(x.values, "count", le=_LARGEST)
    if x.is_selected:
        x.need(unruled=True, who="empirical_prior")
    if family == "poisson":
        return PoissonPrior(_rate(x), empirical=True)
    return _negative_binomial(x)


def _rate(x: NoisyValues) -> float:
    """Return the root of mean(E[f | y])/λ = 1, which is 0 where the left side is always less."""
    from scipy import optimize

    def excess(log_rate: float) -> float:
        rate = float(np.exp(log_rate))
        posterior = count_posterior(x, prior=PoissonPrior(rate))
        return float(np.mean(posterior.mean)) / rate - 1.0

    start = np.log(max(float(np.mean(x.values)), 0.1))
    low, high = start - 0.25, start + 0.25
    while excess(high) > 0:
        low, high = high, high + 2.0
    while excess(low) < 0:
        low, high = low - 2.0 * (start - low), low
        if low < np.log(_SMALLEST):
            return 0.0
    return float(np.exp(optimize.brentq(excess, low, high, xtol=1e-12, rtol=1e-12)))


def _negative_binomial(x: NoisyValues) -> NegativeBinomialPrior:
    """Maximise the likelihood by the logarithms of mean and dispersion."""
    from scipy import optimize

    poisson = _rate(x)
    rate = poisson or _SMALLEST_START
    spread = float(np.var(x.values) - np.mean(x.variance)) - rate
    start = [np.log(rate), np.log(np.clip(spread / rate**2, 0.01, 100.0))]
    bounds = [(np.log(_SMALLEST), start[0] + 5.0), tuple(np.log(_DISPERSIONS))]

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        mean, dispersion = (float(parameter) for parameter in np.exp(point))
        posterior = count_posterior(x, prior=NegativeBinomialPrior(mean, dispersion))
        return -float(np.mean(posterior.log_marginal)), -_gradient(posterior, mean, dispersion)

    options = {"ftol": 1e-14, "gtol": 1e-9}
    fit = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    at_bound = bool(fit.x[1] <= bounds[1][0] + 1e-6)
    # rounding may end the search at a point that is a maximum all the same
    if not fit.success and np.abs(fit.jac[: 1 if at_bound else 2]).max() > _FLAT:
        raise ConvergenceError(
            f"the maximum of the likelihood was not found: {fit.message}; use family='poisson', or "
            "a prior from another source"
        )
    if poisson == 0:
        nothing = count_posterior(x, prior=PoissonPrior(0.0))
        if -float(np.mean(nothing.log_marginal)) <= fit.fun + _ROUNDING:
            return NegativeBinomialPrior(0.0, 0.0, empirical=True)
    mean, dispersion = (float(parameter) for parameter in np.exp(fit.x))
    return NegativeBinomialPrior(mean, 0.0 if at_bound else dispersion, empirical=True)


def _gradient(posterior: CountPosterior, mean: float, dispersion: float) -> FloatArray:
    """Mean derivative of the log marginal by the logarithms of mean and dispersion.

    Those of log π(k), averaged over the posterior (Fisher's identity).
    """
    size = 1.0 / dispersion

    def averages(window: Window, _: Any) -> FloatArray:
        k = np.maximum(window.first + np.arange(len(window.mass))[:, None], 0.0)
        ratio = (k - mean) / (size + mean)
        by_mean = size * ratio
        by_size = special.digamma(k + size) - special.digamma(size) - np.log1p(mean / size) - ratio
        parts = [by_mean, -size * by_size]
        return np.stack([(part * window.mass).sum(axis=0) for part in parts])

    return np.asarray(posterior._apply(averages, 2).mean(axis=1))
