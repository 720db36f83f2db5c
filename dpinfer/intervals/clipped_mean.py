"""Intervals for the mean of a clipped variable that was published with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_alpha, check_array, check_option
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS
from dpinfer.intervals.normal_mean import LARGEST, checked_bounds
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.releases.coerce import noisy
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty

ClippedMethod = Literal["exact", "asymptotic", "tail-bound"]

_STEPS = 4096
"""Steps of the bound on the sampling error, each counted at its far end."""

_BEYOND = 1e-6
"""Part of the error probability beyond the last step."""


def clipped_mean_confint(
    mean: Any,
    nobs: Any,
    *,
    bounds: tuple[float, float],
    mechanism: Mechanism | None = None,
    std: Any = None,
    alpha: float = 0.05,
    method: ClippedMethod | None = None,
    uncertainty: Uncertainty = "noise+sampling",
) -> Intervals:
    """Confidence intervals for the mean of a clipped variable, from its noisy sample mean.

    Parameters
    ----------
    mean : float, array of shape (m,), Series, Release or estimate
        Published means of values that were clipped to ``bounds``, plus noise; not clipped again.
    nobs : int, array or Series
        Numbers n of the values behind each mean.
    bounds : (float, float)
        The bounds a < b of the clipping.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise *in the mean*: if noise of scale b was added to the sum of n values,
        its scale is b/n here. One for all means, or one for each. Left out where ``mean`` carries
        its law.
    std : float, array or Series, optional
        Standard deviation of the clipped variable, at most (b - a)/2, where it is known.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "asymptotic", "tail-bound"}, optional
        ``"exact"``, for noise alone: quantiles of the law of the noise. For noise and sampling,
        ``"asymptotic"`` if ``std`` is given: a normal sampling error plus noise of its exact law;
        ``"tail-bound"`` otherwise: Hoeffding's bound on the sampling error plus noise of its exact
        law.
    uncertainty : {"noise+sampling", "noise"}
        ``"noise+sampling"``: for the mean of the clipped variable in the population, the sample
        being independent draws. ``"noise"``: for the mean of the clipped values in the
        confidential sample.

    Returns
    -------
    Intervals
        One for each mean, intersected with ``bounds``, with the labels of ``mean``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    normal_mean_confint : finds the bounds itself, for normal samples.

    Notes
    -----
    The intervals are about the mean of the *clipped* variable: what clipping takes off the mean of
    the variable itself is not covered, and cannot be known from the published mean.

    With sampling error S and noise e, the half-width is the smallest t with a bound of at most
    α/2 on P(S + e > t).

    - ``"asymptotic"``: S is normal with standard deviation ``std``/√n. That is approximate, and
      good where n is large and the clipped variable not very skew.
    - ``"tail-bound"``: P(S >= s) <= exp(-2ns²/(b - a)²) for every law on [a, b] (Hoeffding 1963,
      Theorem 2), so that S lies below a random variable R with this tail, and P(S + e > t) <=
      P(R + e > t). R is taken to the far end of one of 4096 steps, and so errs by at most 1 in
      1000 to the safe side. It is guaranteed for every n, and narrower than a sum of two bounds,
      one for each error.

    References
    ----------
    Hoeffding, W. (1963). Probability inequalities for sums of bounded random variables.
    doi:10.1080/01621459.1963.10500830.

    Examples
    --------
    A mean of 500 values clipped to [0, 100], with Laplace noise for epsilon 1:

    >>> from dpinfer.mechanisms import Laplace
    >>> noise = Laplace.from_epsilon(1, sensitivity=100 / 500)
    >>> clipped_mean_confint(37.2, 500, bounds=(0, 100), mechanism=noise, uncertainty="noise")
    Intervals([36.6009, 37.7991], level 0.95, exact)
    >>> clipped_mean_confint(37.2, 500, bounds=(0, 100), mechanism=noise, std=20.0)
    Intervals([35.3602, 39.0398], level 0.95, asymptotic)
    >>> clipped_mean_confint(37.2, 500, bounds=(0, 100), mechanism=noise)
    Intervals([31.0826, 43.3174], level 0.95, tail-bound)
    """
    alpha = check_alpha(alpha)
    covered = check_option(uncertainty, "uncertainty", ERROR_COVERED)
    low, high = checked_bounds(bounds, "bounds", finite=True)
    x = noisy(mean, mechanism=mechanism, name="mean")
    x.need(unruled=True, who="clipped_mean_confint")
    check_array(x.values, "mean", ge=-LARGEST, le=LARGEST)
    sizes = x.setting(nobs, "nobs", whole=True, ge=1, le=LARGEST_NOBS)
    # rounding of (b - a)/2 shall not refuse the largest one that there is (Popoviciu)
    most = (high - low) * (0.5 + 1e-12)
    known = None if std is None else x.setting(std, "std", ge=0, le=most)
    settings = [sizes] if known is None else [sizes, known]
    shape = x.shape if x.labels is None else (len(x),)
    if len(shape) > 1:
        raise InvalidParameterError(f"mean must be a number or one-dimensional, got shape {shape}")
    shape = np.broadcast_shapes(shape, *(setting.shape for setting in settings))
    size = max(1, *shape) if shape else 1
    noise = x.marginal if len(x) == size or not x.marginal.shape else x.marginal.take(0)
    if covered == "noise":
        table: dict[ClippedMethod, HalfWidths] = {"exact": _noise_only}
    else:
        table = {"tail-bound": _hoeffding} if known is None else {"asymptotic": _normal}
    chosen = next(iter(table)) if method is None else check_option(method, "method", table)
    spread = np.full(size, high - low) if known is None else np.broadcast_to(known, shape)
    half = table[chosen](noise, np.broadcast_to(sizes, shape).ravel(), spread.ravel(), alpha)
    centre = np.broadcast_to(x.values, size).reshape(shape)
    half = half.reshape(shape)
    intervals = Intervals(
        estimate=centre,
        lower=centre - half,
        upper=centre + half,
        alpha=alpha,
        method=chosen,
        uncertainty=covered,
        labels=x.labels,
        notes=("the sampling error is taken as normal: approximate",)
        if chosen == "asymptotic"
        else (),
    )
    return intervals.restrict(lower=low, upper=high)


HalfWidths = Callable[[NoiseLaw, FloatArray, FloatArray, float], FloatArray]


def _noise_only(noise: NoiseLaw, nobs: FloatArray, spread: FloatArray, alpha: float) -> FloatArray:
    return np.broadcast_to(np.asarray(noise.isf(alpha / 2)), nobs.shape)


def _normal(noise: NoiseLaw, nobs: FloatArray, spread: FloatArray, alpha: float) -> FloatArray:
    """Quantiles of a normal sampling error with known standard deviation plus noise."""

    def half(error: float, law: NoiseLaw) -> float:
        total = WeightedSum([1.0, error], IndependentNoise([law, Gaussian(sigma=1.0)]))
        return float(total.isf(alpha / 2))

    return _by_setting(half, spread / np.sqrt(nobs), noise)


def _hoeffding(noise: NoiseLaw, nobs: FloatArray, spread: FloatArray, alpha: float) -> FloatArray:
    """Quantiles of Hoeffding's bound on the sampling error plus noise."""

    def half(unit: float, law: NoiseLaw) -> float:
        # P(R > r) = exp(-2(r/unit)²), cut into steps that count at their far end
        farthest = unit * np.sqrt(-0.5 * np.log(_BEYOND * alpha / 2))
        steps = np.linspace(0.0, farthest, _STEPS + 1)
        tail = np.exp(-2.0 * np.square(steps / unit))
        weights = -np.diff(tail)

        def excess(t: FloatArray, index: NDArray[np.intp]) -> FloatArray:
            beyond = law.sf(t[:, np.newaxis] - steps[1:])
            return np.asarray(beyond @ weights + tail[-1] - alpha / 2)

        most = farthest + law.isf(alpha / 2 * (1.0 - 2.0 * _BEYOND))
        return float(find_root(excess, np.zeros(1), np.array([most]))[1][0])

    return _by_setting(half, spread / np.sqrt(nobs), noise)


def _by_setting(
    half: Callable[[float, NoiseLaw], float], spread: FloatArray, noise: NoiseLaw
) -> FloatArray:
    """Half-widths of all rows, each setting computed once."""
    found: dict[tuple[float, NoiseLaw], float] = {}
    out = np.empty(spread.shape)
    for row, size in enumerate(spread.tolist()):
        key = size, noise.take(row)
        if key not in found:
            found[key] = half(*key)
        out[row] = found[key]
    return out
