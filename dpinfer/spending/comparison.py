"""Whether an error estimate is worth its budget: expected widths of the final intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, Locked, check_alpha, check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import NoiseLaw
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.results.labels import attach_labels, split_labels
from dpinfer.results.tables import render_table
from dpinfer.spending._families import find_family
from dpinfer.spending.split import final_law

if TYPE_CHECKING:
    import pandas as pd

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = 24
_LEAST_ALPHA = 1e-300


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SpendingComparison(Locked):
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

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import ZCDP
    >>> from dpinfer.spending import compare_spending
    >>> comparison = compare_spending(ZCDP(0.5), 100.0)
    >>> comparison.undivided.round(3), comparison.error.round(3), comparison.ratio.round(3)
    (np.float64(3.92), np.float64(5.544), np.float64(1.414))
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

    @property
    def ratio(self) -> Any:
        """Width with the error estimate over that of the undivided budget, whose law is known."""
        return self.error / self.undivided

    def summary_frame(self) -> pd.DataFrame:
        """Return the expected widths, a row for each supposed truth."""
        import pandas as pd

        names = ("undivided", "clamped", "error", "both")
        columns = {name: np.ravel(getattr(self, name)) for name in names}
        return pd.DataFrame({"truth": np.ravel(self.truth), **columns}, index=self.labels)

    def summary(self) -> str:
        """Return :meth:`summary_frame` as a plain-text table."""
        frame = self.summary_frame()
        return render_table(
            "Expected widths of intervals",
            [
                ("Budget", self.budget),
                ("Share of the release", f"{self.release_share:.6g}"),
                ("Level", f"{1 - self.alpha:.6g}"),
                ("Values are at least", f"{self.lower:.6g}"),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=None if self.labels is None else frame.index,
            notes=(
                "undivided: all on one noisy value; clamped: the same, clamped before publication",
                "error: an error estimate from the rest; both: and the unprocessed value",
            ),
            alike=("undivided", "clamped", "error", "both"),
        )

    def __repr__(self) -> str:
        return f"SpendingComparison({np.size(self.truth)} values, {self.budget})"

    def __str__(self) -> str:
        return self.summary()


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

    A value that was merely clamped has its exact interval (:func:`dpinfer.clamped_confint`), and an
    error estimate would only make it wider. It is worth its budget where what was done to the value
    is not known, or has no law that could be inverted; the comparison says what that knowledge
    would have saved.

    References
    ----------
    Pratt, J. W. (1961). Length of confidence intervals. Journal of the American Statistical
    Association 56(295), 549-567. doi:10.1080/01621459.1961.10480644.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
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
    """Return the expected width of y ± half, restricted to values above the bound."""
    return _integral(law.cdf, above - half, above + half)


def _clamped(law: NoiseLaw, above: FloatArray, half: float) -> FloatArray:
    """Return the expected width of intervals for values that were clamped at the bound.

    Of one at the bound the interval reaches from there to half. A value x <= half is in the
    interval wherever y <= x + half; larger ones as without clamping.
    """
    low = _integral(law.cdf, half - above, 2.0 * half - above)
    return low + _integral(law.sf, -above, 2.0 * half - above)


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
