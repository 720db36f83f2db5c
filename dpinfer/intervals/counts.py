"""Intervals for published counts, each with its own noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._validation import FloatArray, check_alpha, check_flag, check_option
from dpinfer.estimation.pivots import Method, sidak
from dpinfer.mechanisms import Mechanism, NoiseLaw, as_noise
from dpinfer.mechanisms.independent import refuse_selected
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import split_labels


def count_confint(
    count: Any,
    mechanism: Mechanism,
    *,
    alpha: float = 0.05,
    method: Method = "exact",
    simultaneous: bool = False,
    integer: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    bin_size: ArrayLike = 1,
) -> Intervals:
    """Confidence intervals for confidential counts (or any other values) published with noise.

    Parameters
    ----------
    count : float, array, Series or DataFrame
        The published values: the confidential values plus noise, not clamped since. Where they
        were rounded since, ``mechanism`` is :class:`~dpinfer.Rounded` noise.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound", "normal"}
        ``"exact"``: the quantile of the noise. ``"tail-bound"``: the union bound over all values,
        which holds for all of them together whatever ``simultaneous`` says. ``"normal"``: the
        normal quantile times the standard deviation, offered for comparison; it does not have
        the stated coverage unless the noise is Gaussian.
    simultaneous : bool, default False
        Whether the intervals shall cover all confidential values together with probability
        1 - ``alpha``, rather than each of them.
    integer : bool, default False
        Whether the confidential values are whole numbers; the ends are then rounded inward.
    lower, upper : float, optional
        Bounds that the confidential values respect, such as ``lower=0`` for counts. The intervals
        are intersected with them, which keeps their coverage.
    bin_size : float or array of float, default 1
        The counts were rounded up to multiples of this whole number *before* the noise was added,
        as Tor does. The intervals are those for the counts themselves; see
        :meth:`Intervals.unbinned <dpinfer.Intervals.unbinned>`.

    Returns
    -------
    Intervals
        One interval for each value, with the labels of ``count``; unpacks as ``lower, upper``.
        They cover the noise only: they are about the confidential values. An interval that
        ``integer``, ``lower`` or ``upper`` leaves without any value is marked as empty.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``mechanism`` does not fit ``count``.

    Warns
    -----
    RoundedValuesWarning
        If all values under noise with a density (Laplace, Gaussian, Tulap) are whole numbers, which
        happens with probability 0 unless they were rounded. At ε = 3 a nominal 90 % interval of
        rounded Laplace noise would cover 77.7 %: give ``Rounded(Laplace(...))``.

    Notes
    -----
    For symmetric noise e and a published y = f + e, the interval y ± t with t the smallest number
    for which P(e > t) ≤ α/2 covers f with probability at least 1 - α, and exactly 1 - α for
    continuous noise. For Laplace noise t = b·ln(1/α). For k independent noises,
    α is replaced by 1 - (1 - α)^(1/k) if ``simultaneous``, and by α/k in the union bound, which
    for Laplace noise is t = b·ln(k/α) (Dwork and Roth 2014, Theorem 3.8) and never narrower. Values
    published as they are (:class:`~dpinfer.mechanisms.Exact`) do not count towards k.

    The noise has to be independent of the selection of the values: for values that were published
    because they passed a threshold, or that were clamped, these intervals do not hold.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The Algorithmic Foundations of Differential Privacy.
    doi:10.1561/0400000042.
    Šidák, Z. (1967). Rectangular confidence regions for the means of multivariate normal
    distributions. doi:10.1080/01621459.1967.10482935.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> lower, upper = count_confint(4.2, Laplace.from_epsilon(1), alpha=0.1)
    >>> lower.round(2), upper.round(2)
    (np.float64(1.9), np.float64(6.5))
    >>> noise = Laplace.from_epsilon(1, sensitivity=3)
    >>> intervals = count_confint([5.3, -2.8, 1.1], noise, method="tail-bound")
    >>> intervals.upper - [5.3, -2.8, 1.1]
    array([12.28303369, 12.28303369, 12.28303369])

    Where the noisy number was rounded, and where counts were rounded up before the noise:

    >>> from dpinfer import Rounded
    >>> count_confint(4, Rounded(Laplace.from_epsilon(1)), alpha=0.1)
    Intervals([2, 6], level 0.9, exact)
    >>> count_confint(813.6, Laplace(scale=10.0), bin_size=8)
    Intervals([777, 840], level 0.95, exact)
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", HALF_WIDTHS)
    values, labels = split_labels(count, "count")
    together = check_flag(simultaneous, "simultaneous") or method == "tail-bound"
    law = _law_of(mechanism, values, np.shape(count), together=together)
    warn_of_rounding(values, law, "count")
    noisy = np.count_nonzero(law.variance) if law.shape else values.size
    half = HALF_WIDTHS[method](law, alpha, max(1, int(noisy)) if together else 1)
    half = half.reshape(values.shape if law.shape else ())
    intervals = Intervals(
        estimate=values,
        lower=values - half,
        upper=values + half,
        alpha=alpha,
        method=method,
        uncertainty="noise",
        simultaneous=together,
        labels=labels,
    )
    return intervals.unbinned(bin_size).restrict(lower=lower, upper=upper, integer=integer)


def _law_of(
    mechanism: Mechanism, values: FloatArray, shape: tuple[int, ...], *, together: bool
) -> NoiseLaw:
    """Return the law of the noise: one for all values, or in the shape in which they came."""
    if isinstance(mechanism, NoiseLaw) and mechanism.shape == shape:
        refuse_selected([mechanism])
        return mechanism
    return as_noise(mechanism, values.size, dependence="refused" if together else "irrelevant")


def _exact(law: NoiseLaw, alpha: float, tests: int) -> FloatArray:
    return np.asarray(law.isf(sidak(alpha, tests) / 2))


def _tail_bound(law: NoiseLaw, alpha: float, tests: int) -> FloatArray:
    return np.asarray(law.isf(alpha / (2 * tests)))


def _normal(law: NoiseLaw, alpha: float, tests: int) -> FloatArray:
    return np.asarray(-special.ndtri(sidak(alpha, tests) / 2) * law.std)


HALF_WIDTHS: dict[Method, Callable[[NoiseLaw, float, int], FloatArray]] = {
    "exact": _exact,
    "tail-bound": _tail_bound,
    "normal": _normal,
}
