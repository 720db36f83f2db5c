"""The curator's side: a noisy error of what was published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer._check import (
    NEIGHBOURS,
    RNG,
    FloatArray,
    Locked,
    Neighbours,
    check_alpha,
    check_array,
    check_flag,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer.curation._measures import (
    MEASURES,
    Measure,
    check_workload,
    enter,
    find_family,
)
from dpinfer.curation.error_estimates import ErrorEstimate
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import Mechanism, as_noise, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.samplers import Sampler, noise_source
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.privacy.guarantees import GDP, ZCDP, Guarantee
from dpinfer.privacy.ledger import BudgetLedger
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.queries.workload import check_counting
from dpinfer.results.labels import attach_labels, check_order, split_labels
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


def spend_on_error(
    truth: Any,
    published: Any,
    *,
    mechanism: Mechanism | type[NoiseLaw] | None = None,
    budget: Guarantee | None = None,
    measure: Measure = "signed",
    clip: float | None = None,
    neighbours: Neighbours | None = None,
    workload: Any = None,
    sensitivity: float | None = None,
    release: Guarantee | None = None,
    ledger: BudgetLedger | None = None,
    name: str = "error estimate",
    sampler: Sampler = "simulated",
    rng: RNG = None,
) -> ErrorEstimate:
    """Estimate the error of what was published, for more privacy budget.

    For the curator, who holds the confidential values. When published values were clipped, rounded
    or fitted, the law of their errors depends on the truth. A noisy error says how far off they
    are, for the budget of one more release.

    Parameters
    ----------
    truth : float, array of float, shape (k,), or Series
        The confidential values.
    published : float, array of float, shape (k,), or Series
        The values that were published for them, by whatever way.
    mechanism : NoiseLaw, sequence of NoiseLaw, or type
        The law of the noise of the error estimate; of each of the k for signed errors. With a
        ``budget`` the class of the noise, or nothing for that which goes with the budget; see
        :func:`plan_release`.
    budget : PureDP, ZCDP or GDP, optional
        What to spend, in place of a law: noise is scaled to the sensitivity of the measure.
    measure : {"signed", "l1", "squared"}
        What to publish with noise: the k errors truth - published; their sum of absolute values;
        or the sum of their squares, each error cut off at ``clip``.
    clip : float, optional
        The bound C > 0 of an error in the squared error, and only there: without it one record
        could move the square of a large error by any amount. State it before seeing the errors.
    neighbours : {"add-remove", "replace"}, optional
        Whether neighbouring data sets differ by one record more, or by one that is changed. By
        default that of the budget, and ``"add-remove"`` without one.
    workload : Workload or matrix, shape (k, n), optional
        The queries that the values answer. By default every record is counted in one value, at
        most, as in the cells of a table.
    sensitivity : float, optional
        How far one record can move the measure, where the values are no such counts: in the L2
        norm for signed errors under (discrete) Gaussian noise, in the L1 norm otherwise.
    release : Guarantee, optional
        The guarantee of what was published, for the budget spent in all.
    ledger : BudgetLedger, optional
        Where to enter the expense, by a name that says so if it is simulated. One that has too
        little left refuses it before any noise is drawn.
    name : str
        What the expense is called there.
    sampler : {"simulated", "opendp"}, default "simulated"
        ``"simulated"``: draws in floating point, for studies. The result carries no guarantee, as
        such outputs can rule out one of two neighbouring truths. ``"opendp"``: exact draws of
        OpenDP, of the extra ``release``, from the randomness of the operating system, for
        whole ``truth``, and whole ``published`` and ``clip`` too unless errors are signed.
    rng : None, int or numpy.random.Generator, optional
        Source of the noise of a simulation; None for ``"opendp"``.

    Returns
    -------
    ErrorEstimate
        The noisy error and what it says about the confidential values. It holds nothing that is
        confidential.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the mechanism has no guarantee, or OpenDP does
        not have it, or values are not whole for ``sampler="opendp"``.
    MissingExtraError
        If OpenDP is not installed.
    IncompatibleReleaseError
        If noise that takes whole numbers only is to be added to something that does not, the
        ledger has too little left, or its guarantee, the budget or that of the release is for
        other neighbours.

    Notes
    -----
    The published values are known to everybody and count as fixed, so that the sensitivity of the
    error is that of the query itself, and release and error estimate compose sequentially. One
    record moves the signed errors of disjoint counts, and their L1 error, by 1; under
    ``"replace"`` it leaves one count and enters another, and moves them by 2 (√2 in the L2 norm).
    A squared error cut off at C moves by at most C² - (C - 1)² = 2C - 1 for each count that
    moves by 1 (C² where C < 1): it grows fastest just below the bound.

    See :func:`dpinfer.curation.compare_spending` for when it is worth its budget.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Theorems 3.6 and 3.16.

    Examples
    --------
    Two counts (3, 5) were published with noise, and the negative one rounded up to zero:

    >>> from dpinfer import Laplace
    >>> from dpinfer.privacy import PureDP
    >>> error = spend_on_error([3, 5], [0, 7], mechanism=Laplace.from_epsilon(1.0),
    ...                        release=PureDP(1.0), rng=1)
    >>> error.conf_int(alpha=0.1).width.round(4)
    array([4.6052, 4.6052])
    >>> error.value_conf_int(alpha=0.1).contains([3, 5])
    array([ True,  True])
    >>> error.sensitivity, error.nominal, error.guarantee
    (1.0, PureDP(epsilon=1.0, neighbours='add-remove'), None)
    """
    source = noise_source(sampler, rng)
    kind = MEASURES[check_option(measure, "measure", MEASURES)]
    relation = _check_neighbours(neighbours, budget)
    bound = _check_clip(clip, measure)
    true, known, labels = _check_values(truth, published)
    queries = check_workload(workload, true.size, measure)
    order, noise = _read_noise(mechanism, budget, true.size if kind.vector else 1)
    change = kind.sensitivity(queries, true.size, relation, bound, order)
    if sensitivity is not None:
        if workload is not None:
            raise InvalidParameterError("sensitivity must be left out where a workload is given")
        change = check_scalar(sensitivity, "sensitivity", gt=0)
    law = noise(change)
    guarantee = guarantee_of(law, change, relation)
    check_relation(budget, guarantee)
    check_relation(release, guarantee)
    if queries is not None:
        check_counting(queries, law)
    _check_whole(law, true, known, bound, kind.vector, source.simulated)
    with np.errstate(over="ignore"):
        value = check_array(kind.reduce(true - known, bound), "truth - published")
    check_relation(ledger.budget if isinstance(ledger, BudgetLedger) else None, guarantee)
    enter(ledger, name, source, guarantee, mechanism=law, sensitivity=change)
    # what was published is known, and is taken off the noisy truth for a release: it may be no
    # whole number
    exact = kind.vector and not source.simulated
    noisy = source.add(true, law) - known if exact else source.add(value, law)
    return ErrorEstimate(
        published=attach_labels(freeze(known), labels),
        estimate=attach_labels(freeze(noisy), labels if kind.vector else None),
        mechanism=law,
        measure=measure,
        clip=None if measure != "squared" else bound,
        sensitivity=change,
        sampler=source.sampler,
        nominal=guarantee,
        release=release,
        labels=labels,
    )


def check_relation(release: object, guarantee: Guarantee) -> None:
    """Refuse another guarantee, of the release or a ledger, for another neighbour relation."""
    if release is None:
        return
    if not isinstance(release, Guarantee):
        raise InvalidParameterError(
            f"release must be a guarantee, such as PureDP(1.0), got {show(release)}"
        )
    if release.neighbours != guarantee.neighbours:
        raise IncompatibleReleaseError(
            f"neighbours must be {release.neighbours!r}, as for {release}, got "
            f"{guarantee.neighbours!r}: guarantees for different relations do not compose"
        )


def _check_neighbours(neighbours: object, budget: object) -> Neighbours:
    if neighbours is None:
        return budget.neighbours if isinstance(budget, Guarantee) else "add-remove"
    return check_option(neighbours, "neighbours", NEIGHBOURS)


def _read_noise(
    mechanism: Any, budget: Guarantee | None, size: int
) -> tuple[int, Callable[[float], NoiseLaw]]:
    """Return the order of the norm of the sensitivity, and the law of the noise by it."""
    if budget is not None:
        whole, family = find_family(budget, mechanism)
        return family.order, lambda change: as_noise(family.law(family.unit(whole, change)), size)
    if mechanism is None:
        raise InvalidParameterError("mechanism must be given, or else the budget to spend")
    law = as_noise(mechanism, size)
    return 2 if isinstance(guarantee_of(law), (GDP, ZCDP)) else 1, lambda _: law


def _check_clip(clip: object, measure: Measure) -> float:
    if measure == "squared":
        if clip is None:
            raise InvalidParameterError(
                "clip must be given for measure='squared': without a bound on each error one "
                "record can move its square by any amount, and no finite noise makes it private"
            )
        return check_scalar(clip, "clip", gt=0, le=1e50)
    if clip is not None:
        raise InvalidParameterError(f"clip must be None for measure={measure!r}, got {show(clip)}")
    return np.inf


def _check_values(truth: Any, published: Any) -> tuple[FloatArray, FloatArray, Any]:
    true, labels = split_labels(truth, "truth")
    known, own = split_labels(published, "published")
    if true.ndim > 1 and labels is None:
        raise InvalidParameterError(
            f"truth must be a number or one-dimensional, got shape {true.shape}"
        )
    if true.shape != known.shape:
        raise InvalidParameterError(
            f"published must have the shape {true.shape} of truth, got {known.shape}"
        )
    check_order(labels, own, "truth", "what was published")
    return true, known, own if labels is None else labels


def _check_whole(
    law: NoiseLaw,
    true: FloatArray,
    known: FloatArray,
    bound: float,
    vector: bool,
    simulated: bool,
) -> None:
    """Refuse sums that are no whole numbers, where noise is whole or nothing may be rounded.

    Outputs of neighbouring data sets had no value in common under whole-numbered noise. Signed
    errors of whole counts differ from whole numbers by what was published, which is known.
    """
    values = {"published": known, "clip": np.asarray(bound)}
    broken = [
        name
        for name, held in values.items()
        if not vector and not np.isinf(held).any() and (held != np.floor(held)).any()
    ]
    if any(part.is_integer for part, _ in groups(law, 1)):
        if (true != np.floor(true)).any():
            broken.insert(0, "truth")
        if broken:
            raise IncompatibleReleaseError(
                f"{broken[0]} must hold whole numbers under {type(law).__name__} noise, which "
                "takes whole numbers only: outputs of neighbouring data sets would have no value "
                "in common, which is not private; use continuous noise"
            )
    if broken and not simulated:
        raise InvalidParameterError(
            f"{broken[0]} must hold whole numbers for sampler='opendp' and a sum of errors, which "
            "is otherwise rounded: round what was published, or use measure='signed'"
        )


# How to divide a budget between a release and an estimate of its error.


_GRID = 32
"""Shares at which widths are compared before the best is refined."""

_REFINED = 1e-6
_TIE = 1e-9
"""Widths this close, relatively, count as the same."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BudgetSplit(Locked, Listed, Plotted):
    """The division of a budget with the narrowest final interval; made by ``best_split``.

    Attributes
    ----------
    release_share, error_share : float
        Shares of the budget for the release and for the error estimate.
    release_mechanism, error_mechanism : NoiseLaw or None
        Their noise; None where nothing is spent.
    width : float
        Width of the final interval, before it is restricted to possible values.
    shares, widths : array of float
        Shares of the release and the widths that they lead to; infinite where there is no interval.
    budget : Guarantee
        The budget in all.
    alpha : float
        One minus the level of the interval.
    unprocessed : bool
        Whether the unprocessed noisy value is published as well.
    """

    release_share: float
    error_share: float
    release_mechanism: NoiseLaw | None
    error_mechanism: NoiseLaw | None
    width: float
    shares: FloatArray
    widths: FloatArray
    budget: Guarantee
    alpha: float
    unprocessed: bool

    _drawing: ClassVar[str] = "plot_spending"

    def summary_frame(self) -> pd.DataFrame:
        """Return a DataFrame of ``release_share``, ``error_share`` and ``width``, as compared."""
        import pandas as pd

        return pd.DataFrame(
            {"release_share": self.shares, "error_share": 1.0 - self.shares, "width": self.widths}
        )

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.shares), None

    def _table(self) -> Table:
        frame = self.summary_frame()
        published = "release, error estimate" + ", unprocessed" * self.unprocessed
        return Table(
            "Division of a budget",
            [
                ("Budget", self.budget),
                ("Published", published),
                ("Level", f"{1 - self.alpha:.6g}"),
                ("Best share of the release", f"{self.release_share:.6g}"),
                ("Width there", f"{self.width:.6g}"),
            ],
            frame,
        )

    def __repr__(self) -> str:
        return (
            f"BudgetSplit(release_share={self.release_share:.6g}, "
            f"error_share={self.error_share:.6g}, width={self.width:.6g})"
        )


def best_split(
    budget: Guarantee,
    *,
    mechanism: type[NoiseLaw] | None = None,
    sensitivity: float = 1.0,
    alpha: float = 0.05,
    unprocessed: bool = True,
    release_at_least: float = 0.0,
) -> BudgetSplit:
    """Divide a budget between a release and its error estimate: the narrowest final interval.

    Parameters
    ----------
    budget : PureDP, ZCDP or GDP
        What may be spent in all; the shares are those of ε, of ρ, or of μ².
    mechanism : type, optional
        The class of the noise of both; see :func:`plan_release`.
    sensitivity : float, default 1
        The sensitivity of the query, in the norm that the noise needs.
    alpha : float, default 0.05
        One minus the level of the interval for a confidential value.
    unprocessed : bool, default True
        Whether the noisy value before the processing is published as well, so that the final
        interval combines it with the corrected value by inverse variance.
    release_at_least : float, default 0
        The share that the release needs to be of use itself, within [0, 1].

    Returns
    -------
    BudgetSplit
        The best division, and the widths of others. Of divisions that are as good, the one that
        gives most to the release.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    Without the unprocessed value only the error estimate bears on the confidential value, and all
    that the release does not need belongs there. With it, precisions of Gaussian noise add up to
    the same whatever the division, under ZCDP and GDP; under pure differential privacy they go with
    ε₁² + ε₂², which is largest where everything is spent on one of the two. What an error estimate
    buys is an interval for a value whose processing is not known or has no law that is free of the
    truth; it does not make one narrower that can be had without.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> best_split(PureDP(2.0))
    BudgetSplit(release_share=1, error_share=0, width=2.99573)
    >>> best_split(PureDP(2.0), unprocessed=False, release_at_least=0.5, alpha=0.1)
    BudgetSplit(release_share=0.5, error_share=0.5, width=4.60517)
    """
    whole, family = find_family(budget, mechanism)
    unit = family.unit(whole, check_scalar(sensitivity, "sensitivity", gt=0, le=1e50))
    level = check_alpha(alpha)
    both = check_flag(unprocessed, "unprocessed")
    least = check_scalar(release_at_least, "release_at_least", ge=0, le=1)

    def widths_at(shares: FloatArray) -> FloatArray:
        out = np.full(len(shares), np.inf)
        for at, share in enumerate(shares):
            release = family.law_of(unit, share) if both else None
            law = final_law(release, family.law_of(unit, 1.0 - share))
            if law is not None:
                out[at] = 2.0 * float(law.isf(0.5 * level))
        return out

    def place(widths: FloatArray) -> int:
        return int(np.flatnonzero(widths <= widths.min() * (1.0 + _TIE))[-1])

    shares = np.linspace(least, 1.0, _GRID + 1) if least < 1 else np.ones(1)
    widths = widths_at(shares)
    best = place(widths)
    while 0 < best < len(shares) - 1:
        low, high = shares[best - 1], shares[best + 1]
        if high - low <= _REFINED:
            break
        new = np.linspace(low, high, 7)[1:-1]
        widths = np.concatenate([widths, widths_at(new)])
        shares, order = np.unique(np.concatenate([shares, new]), return_index=True)
        widths = widths[order]
        best = place(widths)
    share = float(shares[best])
    return BudgetSplit(
        release_share=share,
        error_share=1.0 - share,
        release_mechanism=family.law_of(unit, share),
        error_mechanism=family.law_of(unit, 1.0 - share),
        width=float(widths[best]),
        shares=freeze(shares),
        widths=freeze(widths),
        budget=whole,
        alpha=level,
        unprocessed=both,
    )


def final_law(release: NoiseLaw | None, error: NoiseLaw | None) -> NoiseLaw | None:
    """Return the law of the best estimate from an unprocessed and a corrected value."""
    if release is None or error is None:
        return error if release is None else release
    variance = check_array([release.variance, error.variance], "variance")
    if variance.min() == 0.0:
        return release if variance[0] == 0.0 else error
    precision = variance.min() / variance
    return WeightedSum(precision / precision.sum(), [release, error])


# Whether an error estimate is worth its budget: expected widths of the final intervals.


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = 24
_LEAST_ALPHA = 1e-300


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpendingComparison(Locked, Listed, Plotted):
    """Expected widths under several ways to spend a budget; made by ``compare_spending``.

    Attributes
    ----------
    truth : array of float, shape (k,)
        The confidential values that were supposed.
    undivided, clamped, error, both : float, array of float, shape (k,), or Series
        Expected widths: everything spent on a value published with its noise; the same, clamped to
        the lower bound before it is published; an error estimate from what the release leaves; the
        same with the unprocessed value published as well.
    budget, release_share, alpha, lower
        What they were computed for.
    """

    truth: FloatArray
    undivided: Any
    clamped: Any
    error: Any
    both: Any
    budget: Guarantee
    release_share: float
    alpha: float
    lower: float
    labels: pd.Index | None

    _drawing: ClassVar[str] = "plot_spending"

    @property
    def ratio(self) -> Any:
        """Width with the error estimate over that of the undivided budget, whose law is known."""
        return self.error / self.undivided

    def summary_frame(self) -> pd.DataFrame:
        """Return a DataFrame of the expected widths, with a row for each supposed truth."""
        import pandas as pd

        names = ("undivided", "clamped", "error", "both")
        columns = {name: np.ravel(getattr(self, name)) for name in names}
        return pd.DataFrame({"truth": np.ravel(self.truth), **columns}, index=self.labels)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.truth), self.labels

    def _table(self) -> Table:
        frame = self.summary_frame()
        return Table(
            "Expected widths of intervals",
            [
                ("Budget", self.budget),
                ("Share of the release", f"{self.release_share:.6g}"),
                ("Level", f"{1 - self.alpha:.6g}"),
                ("Values are at least", f"{self.lower:.6g}"),
            ],
            frame,
            index=None if self.labels is None else frame.index,
            notes=(
                "undivided: all on one noisy value; clamped: the same, clamped before publication",
                "error: an error estimate from the rest; both: and the unprocessed value",
            ),
            alike=("undivided", "clamped", "error", "both"),
        )

    def __repr__(self) -> str:
        return f"SpendingComparison({np.size(self.truth)} values, {self.budget})"


def compare_spending(
    budget: Guarantee,
    truth: Any,
    *,
    release_share: float = 0.5,
    mechanism: type[NoiseLaw] | None = None,
    sensitivity: float = 1.0,
    alpha: float = 0.05,
    lower: float = 0.0,
) -> SpendingComparison:
    """Compare an error estimate with spending everything on the release.

    Parameters
    ----------
    budget : PureDP, ZCDP or GDP
        What may be spent in all.
    truth : float, array of float, shape (k,), or Series
        Confidential values to suppose: the widths depend on them near the lower bound.
    release_share : float, default 0.5
        The share of the release where an error estimate has the rest, in (0, 1).
    mechanism : type, optional
        The class of the noise, a continuous one: :class:`~dpinfer.Laplace` or
        :class:`~dpinfer.Gaussian`, whichever goes with the budget.
    sensitivity : float, default 1
        The sensitivity of the query, in the norm that the noise needs.
    alpha : float, default 0.05
        One minus the level of the intervals.
    lower : float, default 0
        The bound that confidential values respect, with which all intervals are intersected.

    Returns
    -------
    SpendingComparison
        The expected widths.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The expected width of an interval is the integral, over all values, of the probability that it
    holds them (Pratt 1961). For y ± t restricted to values above the bound, with a truth that is d
    above it, this is the integral of the distribution function of the noise over d ± t.

    A value that was merely clamped has its exact interval (:func:`dpinfer.count_confint`). An error
    estimate is worth its budget where what was done to the value is not known, or has no law that
    could be inverted.

    References
    ----------
    Pratt, J. W. (1961). Length of confidence intervals. Journal of the American Statistical
    Association 56(295), 549-567. doi:10.1080/01621459.1961.10480644.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> compare_spending(PureDP(2.0), [0, 3, 100]).summary_frame().round(2)
       truth  undivided  clamped  error  both
    0    0.0       1.50     1.74   3.00  2.06
    1    3.0       2.98     2.98   5.49  4.02
    2  100.0       3.00     3.00   5.99  4.11
    """
    whole, family = find_family(budget, mechanism)
    unit = family.unit(whole, check_scalar(sensitivity, "sensitivity", gt=0, le=1e50))
    level = check_scalar(check_alpha(alpha), "alpha", ge=_LEAST_ALPHA)
    bound = check_scalar(lower, "lower")
    part = check_scalar(release_share, "release_share", gt=0, lt=1)
    true, labels = split_labels(truth, "truth")
    if (true < bound).any():
        raise InvalidParameterError(f"truth must be >= lower = {bound:g}, got {true.min():g}")
    full, release, error = (family.law(share * unit) for share in (1.0, part, 1.0 - part))
    if full.is_integer:
        raise InvalidParameterError("mechanism must be a class of continuous noise: Laplace")
    combined = final_law(release, error)
    assert combined is not None
    above = true - bound

    def labelled(law: NoiseLaw, width: Callable[[NoiseLaw, FloatArray, float], FloatArray]) -> Any:
        return attach_labels(width(law, above, float(law.isf(0.5 * level))), labels)

    return SpendingComparison(
        truth=true,
        undivided=labelled(full, _restricted),
        clamped=labelled(full, _clamped),
        error=labelled(error, _restricted),
        both=labelled(combined, _restricted),
        budget=whole,
        release_share=part,
        alpha=level,
        lower=bound,
        labels=labels,
    )


def _restricted(law: NoiseLaw, above: FloatArray, half: float) -> FloatArray:
    return _integral(law._cdf, above - half, above + half)


def _clamped(law: NoiseLaw, above: FloatArray, half: float) -> FloatArray:
    """Return the expected width of intervals for values that were clamped at the bound.

    Of one at the bound the interval reaches from there to half. A value x <= half is in the
    interval wherever y <= x + half; larger ones as without clamping.
    """
    low = _integral(law._cdf, half - above, 2.0 * half - above)
    return low + _integral(law._sf, -above, 2.0 * half - above)


def _integral(
    function: Callable[[FloatArray], FloatArray], start: FloatArray, stop: FloatArray
) -> FloatArray:
    """Integrate by Gauss-Legendre panels on both sides of 0, where densities may have a kink."""
    middle = np.clip(0.0, start, stop)
    total = np.zeros(np.shape(start))
    edges = np.linspace(0.0, 1.0, _PANELS + 1)
    points = (edges[:-1, None] + np.diff(edges)[0] * 0.5 * (_NODES + 1.0)).ravel()
    weights = np.tile(_WEIGHTS, _PANELS) * 0.5 / _PANELS
    for low, high in ((start, middle), (middle, stop)):
        span = (high - low)[..., None]
        total = total + np.asarray(function(low[..., None] + span * points) * weights * span).sum(
            axis=-1
        )
    return total
