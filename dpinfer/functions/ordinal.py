"""Correlation of two ordered attributes, from the noisy counts of their cells."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy import special

from dpinfer._check import FloatArray, check_alpha, check_option
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions.segregation import IndexIntervals
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.regression.associations import TwoWay, two_way
from dpinfer.releases.coerce import noisy
from dpinfer.results.intervals import Uncertainty

OrdinalStatistic = Literal["pearson", "kendall", "gamma"]

_LARGEST = 1e12
_FEWEST = 30
_MOST_BENT = 0.25
"""Share of the variance that products of noises may make where there are few."""


def ordinal_correlation_confint(
    table: Any,
    statistic: OrdinalStatistic = "pearson",
    *,
    row_scores: Any = None,
    column_scores: Any = None,
    mechanism: Mechanism | None = None,
    uncertainty: Uncertainty = "noise",
    alpha: float = 0.05,
) -> IndexIntervals:
    """Confidence interval for the correlation of two ordered attributes of a table.

    Parameters
    ----------
    table : DataFrame, Series, Release or array of float, shape (R, C)
        The published counts of all R x C cells, with labels of two levels and independent noises.
    statistic : {"pearson", "kendall", "gamma"}
        Pearson's correlation of scores; Kendall's τ_b; or the γ of Goodman and Kruskal, the
        share of concordant less that of discordant pairs among all that are either.
    row_scores, column_scores : array of float, mapping or Series, optional
        Scores of the levels, in the order in which they first appear, or by their labels. By
        default 1, 2, 3 ... Only their order matters for the last two.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all cells, or one for each. A release brings its own.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the correlation in the confidential table. ``"noise+sampling"``: that in the
        population from which its units are an independent sample.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).

    Returns
    -------
    IndexIntervals
        The interval, within -1 and 1; ``guarantee`` is ``"asymptotic"``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or cells are missing; if errors are dependent
        between cells, or values were selected, clamped or rounded.
    NotEstimableError
        If an attribute varies no more than noise does, or no pair is estimated to be ordered.

    See Also
    --------
    dpinfer.regression.association : tests of independence against linear-by-linear association,
        whose score statistic is n·r² without noise.

    Notes
    -----
    Over all pairs of units, r = A/√(B₁B₂) with A = ½Σ k(xᵢ, xⱼ)·k(yᵢ, yⱼ), k the difference of two
    scores for Pearson and its sign for Kendall, and B those of the squares of each; γ = A/B with B
    the pairs of which both signs are not 0. No cell is paired with itself, so that these are
    quadratic forms without squares of counts: noisy counts estimate them, and the variance of
    A - rB, without bias. With B linear about its estimate, the interval has all r with
    (A - rB)² <= t²·V(r), the set of Fieller, which allows for the error of B, and has every number
    where B is not clearly above 0; t is a quantile of Student's law with 2V²/Var(V) degrees of
    freedom, as V is estimated. Sampling is Poisson or multinomial, which are the same here.
    Every number is left where the products of noises make more than a quarter of the variance and
    fewer than 30 cells are noisy.

    How often intervals of level 95 % covered, in per cent of 300 to 1,500 tables for each statistic
    (simulation errors 0.6 to 1.3), and how many had every number:

    ===========  =====  ============  ================  ==========  ============
    table        r      noise         uncertainty       covered     every number
    ===========  =====  ============  ================  ==========  ============
    6 x 4, 1660  0.15   geometric 2   noise+sampling    95 to 97    0
    3 x 3, 180   0      geometric 2   noise+sampling    96 to 97    0
    3 x 3, 180   0      geometric 2   noise             94 to 96    0
    3 x 3, 180   0      Laplace 6     noise             96 to 98    2 to 3
    3 x 3, 150   0.75   geometric 2   noise+sampling    94 to 96    0
    3 x 3, 150   0.75   geometric 2   noise             94 to 96    0
    3 x 3, 150   0.75   Laplace 6     noise+sampling    99          29 to 48
    3 x 3, 150   0.75   Laplace 6     noise             97 to 99    8 to 20
    3 x 3, 45    0.74   geometric .7  noise+sampling    100         19 to 53
    ===========  =====  ============  ================  ==========  ============

    The fewest, 93.9, were of γ (0.89) in the fifth row, where normal quantiles gave 91.3.

    References
    ----------
    A. Agresti (2010), Analysis of Ordinal Categorical Data, 2nd ed., chapter 7.
    doi:10.1002/9780470594001.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.functions import ordinal_correlation_confint
    >>> table = [[64, 94, 58, 46], [57, 94, 54, 40], [57, 105, 65, 60], [72, 141, 77, 94]]
    >>> law = dpi.Geometric(scale=2.0)
    >>> ordinal_correlation_confint(table, mechanism=law, uncertainty="noise+sampling")
    IndexIntervals([0.0116067, 0.134229], level 0.95, pearson)
    >>> ordinal_correlation_confint(table, "gamma", mechanism=law)
    IndexIntervals([0.0582765, 0.103595], level 0.95, gamma)
    """
    check_option(statistic, "statistic", get_args(OrdinalStatistic))
    check_option(uncertainty, "uncertainty", ("noise", "noise+sampling"))
    alpha = check_alpha(alpha)
    x = noisy(table, mechanism=mechanism, name="table")
    x = x.need(independent=True, unruled=True, who="ordinal_correlation_confint")
    if (size := float(np.abs(x.values).max())) > _LARGEST or x.variance.max() > _LARGEST**2:
        raise InvalidParameterError(f"table must have counts within 1e12, got {size:g}")
    levels = two_way(x, row_scores, column_scores)
    counts, noise = (_in_cells(levels, values) for values in (x.values, x.variance))
    spread = noise + counts if uncertainty == "noise+sampling" else noise
    kernels = _kernels(levels, statistic)
    a, b = _ratio(kernels, counts)
    if not b:
        raise NotEstimableError(
            "table must have attributes that vary by more than noise, and ordered pairs of units: "
            "some of these are estimated as 0 or less"
        )
    above, below = _value(a, counts), _value(b, counts)
    (aa, bent), (ab, _), (bb, _) = (
        _covariance(one, other, counts, spread) for one, other in ((a, a), (a, b), (b, b))
    )
    error = [*a, *(kernel._replace(weight=-above / below * kernel.weight) for kernel in b)]
    degrees = _degrees(error, counts, spread, uncertainty == "noise+sampling")
    t, notes = -float(special.stdtrit(degrees, alpha / 2.0)), []
    low, high = _fieller(above, below, aa, ab, bb, t)
    if bent > _MOST_BENT * abs(aa) and np.count_nonzero(noise) < _FEWEST:
        low, high = -1.0, 1.0
        notes.append("products of noises make much of the error: every number is left")
    clipped, of_clipped = np.maximum(counts, 0.0), 0.0
    top, bottom = _ratio(kernels, clipped)
    if bottom:
        of_clipped = _value(top, clipped) / _value(bottom, clipped)
    estimate, low, high = np.clip([above / below, low, high], -1.0, 1.0)
    return IndexIntervals(
        estimate=estimate,
        lower=low,
        upper=high,
        plug_in=of_clipped,
        alpha=alpha,
        method=statistic,
        uncertainty=uncertainty,
        notes=tuple(notes),
        guarantee="asymptotic",
    )


class _Kernel(NamedTuple):
    """A form ½·weight·Σ f(i, j) f(k, l) rows(i, k) columns(j, l) in the counts f of cells."""

    weight: float
    rows: FloatArray
    columns: FloatArray

    def slopes(self, counts: FloatArray) -> FloatArray:
        """Return half of the derivatives by the counts."""
        return np.asarray(0.5 * self.weight * (self.rows @ counts @ self.columns.T))


def _in_cells(levels: TwoWay, values: FloatArray) -> FloatArray:
    out = np.empty(tuple(map(len, levels.scores)))
    out[levels.codes] = values
    return out


def _kernels(levels: TwoWay, statistic: OrdinalStatistic) -> tuple[_Kernel, ...]:
    """Return that of the numerator, and those of the denominator."""
    one, other = (np.subtract.outer(scores, scores) for scores in levels.scores)
    one, other = one / np.abs(one).max(), other / np.abs(other).max()
    if statistic != "pearson":
        one, other = np.sign(one), np.sign(other)
    if statistic == "gamma":
        return _Kernel(1.0, one, other), _Kernel(1.0, np.abs(one), np.abs(other))
    squares = np.square(one), np.square(other)
    every = np.ones_like(one), np.ones_like(other)
    return (
        _Kernel(1.0, one, other),
        _Kernel(1.0, squares[0], every[1]),
        _Kernel(1.0, every[0], squares[1]),
    )


Form = list[_Kernel]


def _ratio(kernels: tuple[_Kernel, ...], counts: FloatArray) -> tuple[Form, Form]:
    """Return numerator and denominator, the root of a product linear about its estimate."""
    above, *below = kernels
    values = [_value([kernel], counts) for kernel in below]
    if min(values) <= 0:
        return [above], []
    root = np.sqrt(np.prod(values)) if len(values) > 1 else values[0]
    return [above], [
        kernel._replace(weight=float(root / value) / len(values))
        for kernel, value in zip(below, values, strict=True)
    ]


def _value(form: Form, counts: FloatArray) -> float:
    return float(sum((counts * kernel.slopes(counts)).sum() for kernel in form))


def _covariance(
    one: Form, other: Form, counts: FloatArray, spread: FloatArray
) -> tuple[float, float]:
    """Return the unbiased estimate of the covariance of two forms, and its part by products."""
    slopes = [sum(kernel.slopes(counts) for kernel in form) for form in (one, other)]
    linear = 4.0 * float((slopes[0] * slopes[1] * spread).sum())
    products = 0.0
    for p in one:
        for q in other:
            inner = (p.rows * q.rows) @ spread @ (p.columns * q.columns).T
            products += 0.5 * p.weight * q.weight * float((spread * inner).sum())
    return linear - products, products


def _degrees(form: Form, counts: FloatArray, spread: FloatArray, sampling: bool) -> float:
    """Return 2 over the squared coefficient of variation of the estimated variance of a form."""
    slopes = np.asarray(sum(kernel.slopes(counts) for kernel in form))
    change = np.asarray(2.0 * sum(kernel.slopes(slopes * spread) for kernel in form))
    change += sampling * np.square(slopes)
    variance = float((np.square(slopes) * spread).sum())
    error = float((np.square(change) * np.maximum(spread, 0.0)).sum())
    return max(2.0 * variance**2 / error, 1.0) if error > 0.0 else np.inf


def _fieller(
    above: float, below: float, aa: float, ab: float, bb: float, t: float
) -> tuple[float, float]:
    """Return the ends of {r: (above - r·below)² <= t²(aa - 2r·ab + r²bb)}."""
    square = below**2 - t**2 * bb
    middle, last = above * below - t**2 * ab, above**2 - t**2 * aa
    inside = middle**2 - square * last
    if square <= 0 or inside < 0:
        return -1.0, 1.0
    root = float(np.sqrt(inside))
    return (middle - root) / square, (middle + root) / square
