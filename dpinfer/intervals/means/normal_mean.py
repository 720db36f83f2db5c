"""Differentially private intervals for the mean of a normal sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_length,
    check_option,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.means._plans import (
    HALF_WIDTHS,
    SMALLEST_STD,
    Answer,
    HalfWidth,
    KnownStd,
    Plan,
    UnknownStd,
    mean_bins,
    scale_bins,
)
from dpinfer.intervals.means._range_finding import HistogramMode
from dpinfer.mechanisms.samplers import Sampler, noise_source
from dpinfer.privacy.guarantees import ApproxDP, Guarantee, PureDP
from dpinfer.privacy.guarantees.drawn import Drawn
from dpinfer.results.intervals import Intervals

LARGEST = 1e40
"""Largest size of a value: the fourth powers of it have to stay within float64."""

_HISTOGRAM_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
"""Shares of the budget that are tried for each histogram, the smallest first."""

_RARE = 0.05
"""Share of alpha below which the failures of the histograms need no more budget."""

_MOST_BINS = 2.0**52
"""Beyond it, neighbouring bins are one float64."""

_MOST_DRAWN_BINS = 2**20

_NO_BIN = "the stability-based histogram showed no bin: the interval is mean_bounds"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrivateMeanInterval(Drawn, Intervals):
    """Confidence interval for a mean, with the budget it took and the parts of its width.

    Made by :func:`normal_mean_confint`. It is used like any :class:`~dpinfer.results.Intervals`.

    Attributes
    ----------
    sampler : {"simulated", "opendp"}
        What drew the noise. A simulated interval carries no ``guarantee``.
    nominal : PureDP or ApproxDP
        What the budget guarantees of the interval, and everything else here, where noise is drawn
        and added exactly: the ``guarantee`` if OpenDP drew it. Neighbouring samples differ in the
        value of one record.
    epsilon, delta : float
        The budget: the parameters of ``nominal``.
    half_width_sampling : float
        Part of the half-width that sampling alone would need at this level; inf without a bound.
    half_width_noise : float
        The rest of it, due to the noise.
    clipping : tuple of float
        The range that was found, to which the observations were clipped.
    """

    sampler: Sampler
    nominal: Guarantee
    epsilon: float
    delta: float
    half_width_sampling: float
    half_width_noise: float
    clipping: tuple[float, float]


def normal_mean_confint(
    data: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    std: float | None = None,
    mean_bounds: tuple[float, float] | None = None,
    std_bounds: tuple[float, float] | None = None,
    alpha: float = 0.05,
    method: HalfWidth | None = None,
    split: ArrayLike | None = None,
    sampler: Sampler = "simulated",
    rng: RNG = None,
) -> PrivateMeanInterval:
    """Differentially private confidence interval for the mean of a normal population.

    It takes the *confidential* sample and spends the stated budget: it is for those who hold the
    data, and for studies of what such a release would be worth. By default the draws are those of a
    simulation, and the result carries no guarantee; see ``sampler``.

    Parameters
    ----------
    data : array of float, shape (n,)
        The confidential sample, independent draws from one normal law. Its size n is taken to be
        public.
    epsilon : float
        Budget, > 0.
    delta : float, default 0
        Budget, in [0, 1); the mean, or the standard deviation, may be unbounded if it is positive.
    std : float, optional
        The standard deviation of the population, if it is known.
    mean_bounds : (float, float), optional
        Public bounds that the mean of the population respects. Without them, or where one is
        infinite, ``delta`` has to be positive.
    std_bounds : (float, float), optional
        Public bounds that the standard deviation respects; without them, ``std`` has to be known,
        or ``delta`` positive.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1).
    method : {"exact", "tail-bound"}, optional
        ``"exact"``, for known ``std`` only and then the default: quantile of the law of sampling
        error plus noise. ``"tail-bound"``: the sum of a quantile for each, as Karwa and Vadhan have
        it; wider.
    split : array of float, optional
        Shares of the budget, which are scaled to sum 1: range and mean for known ``std``; scale,
        range, mean and variance for unknown. By default each histogram gets the smallest of 1/32,
        1/16, 1/8 and 1/4 with which its failures take less than a twentieth of alpha, and the
        others have equal shares of the rest; all steps have equal shares where none is enough.
    sampler : {"simulated", "opendp"}, default "simulated"
        ``"simulated"``: draws in floating point, for studies; such outputs can rule out one of two
        neighbouring samples. ``"opendp"``: exact draws of OpenDP, of the extra ``release``, from
        the randomness of the operating system; at most 2^20 bins of a histogram without ``delta``.
        How long it takes is not protected.
    rng : None, int or numpy.random.Generator, optional
        Source of the noise of a simulation; None for ``"opendp"``.

    Returns
    -------
    PrivateMeanInterval
        The interval, intersected with ``mean_bounds``. Where n is too small, or the histogram shows
        no bin, it is ``mean_bounds`` itself, and a note says so.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``delta`` is 0 where bounds are missing.
    MissingExtraError
        If ``sampler`` is ``"opendp"`` and OpenDP is not installed.

    Notes
    -----
    The algorithms are those of Karwa and Vadhan (2017), with constants from exact probabilities
    where the paper has inequalities, so that the guarantee holds for each n. With known σ:

    1. A noisy histogram with bins of width σ (their Algorithm 1). The bin shown with the largest
       count is that of μ or one beside it, but for a probability β₁ that is bounded by Chernoff's
       inequality from n, epsilon and the number of bins alone. So its centre c is within 1.5σ of μ.
    2. Observations are clipped to c ± (1.5 + q)σ, with q such that n normal observations are
       all within qσ of μ with probability 1 - β₂, β₂ = α/10.
    3. The clipped mean plus Laplace noise of scale b = 2(1.5 + q)σ/(n·epsilon₂). Unless one of the
       two events took place, its error is a normal one with variance σ²/n plus the noise. The
       half-width is the quantile of this law at (α - β₁ - β₂)/2.

    With unknown σ a histogram of log₂ abs(X₂ᵢ - X₂ᵢ₋₁) finds a bin (2ʲ, 2ʲ⁺¹] (their Algorithm 2);
    2ʲ⁺² bounds σ from above but for a probability β₀. The range is found from the pair means
    (X₂ᵢ + X₂ᵢ₋₁)/2, which are independent of the differences, so that what was found from these
    does not bear on it. The variance of the
    clipped sample, of sensitivity (range)²/n, gets noise and is raised by the quantile of the noise
    at α/10; its root takes the place of s in the half-width t·s/√n, to which the quantile of the
    noise in the mean is added. The probabilities of all failures add up to α.

    So the coverage is at least 1 - α for each n, not only for large ones: where the failure
    probabilities of the range exceed α/4, which depends on public numbers only, nothing is spent
    and the interval is ``mean_bounds``. It is not for populations that are not normal, whose tails
    are clipped more often.

    Without bounds, or where there are more than 2/delta bins, the histogram is the stability-based
    one (Bun, Nissim and Stemmer 2016); otherwise Laplace noise is on every bin and the step takes
    no delta.

    References
    ----------
    Karwa, V. and Vadhan, S. (2017). Finite sample differentially private confidence intervals.
    arXiv:1711.03908.
    Bun, M., Nissim, K. and Stemmer, U. (2016). Simultaneous private learning of multiple concepts.
    arXiv:1511.08552.

    Examples
    --------
    >>> sample = np.random.default_rng(1).normal(70.0, 5.0, 2000)
    >>> interval = normal_mean_confint(sample, epsilon=1, std=5.0, mean_bounds=(0, 200), rng=2)
    >>> interval
    PrivateMeanInterval([69.6258, 70.1179], level 0.95, exact)
    >>> interval.nominal, interval.guarantee
    (PureDP(epsilon=1.0, neighbours='replace'), None)
    """
    values = check_array(data, "data", ndim=1, ge=-LARGEST, le=LARGEST)
    alpha, source = check_alpha(alpha), noise_source(sampler, rng)
    plan = checked_plan(values.size, epsilon, delta, std, mean_bounds, std_bounds, alpha, split)
    chosen = checked_method(method, known=std is not None)
    if plan.failure > plan.affordable(alpha):
        note = (
            f"{values.size} observations at this budget and level are too few to find their range "
            "with certainty enough: the interval is mean_bounds, and nothing was spent"
        )
        return _result(plan, None, alpha, chosen, source.sampler, (0.0, 0.0), (note,))
    if not source.simulated:
        _check_bins(plan)
    answer = plan.run(values, alpha, chosen, source)
    notes = (_NO_BIN,) if answer is None else ()
    return _result(plan, answer, alpha, chosen, source.sampler, plan.budget, notes)


def _check_bins(plan: Plan) -> None:
    """Refuse more bins than noise is drawn on one by one."""
    parts = [plan.range, *([plan.scale] if isinstance(plan, UnknownStd) else [])]
    if (
        most := max((part.bins for part in parts if part.delta == 0), default=0.0)
    ) > _MOST_DRAWN_BINS:
        raise InvalidParameterError(
            f"mean_bounds and std_bounds must span at most {_MOST_DRAWN_BINS} bins of one standard "
            f"deviation for sampler='opendp', got {most:.3g}: give narrower bounds, or delta > 0 "
            "and no bounds"
        )


def _result(
    plan: Plan,
    answer: Answer | None,
    alpha: float,
    method: HalfWidth,
    sampler: Sampler,
    budget: tuple[float, float],
    notes: tuple[str, ...],
) -> PrivateMeanInterval:
    """Make the interval; without an answer it is the bounds on the mean."""
    low, high = plan.mean_bounds
    if answer is None:
        middle = 0.5 * low + 0.5 * high if np.isfinite(low + high) else np.clip(0.0, low, high)
        answer = Answer(
            estimate=float(middle),
            half_width_sampling=np.inf,
            half_width_noise=np.inf,
            clipping=(-np.inf, np.inf),
        )
    half = answer.half_width_sampling + answer.half_width_noise
    lower, upper = max(answer.estimate - half, low), min(answer.estimate + half, high)
    empty = lower > upper
    epsilon, delta = budget
    spent = f"epsilon {epsilon:g}, delta {delta:g}; neighbours differ in one value"
    if sampler == "simulated":
        spent = f"simulated: carries no guarantee; a release would spend {spent}"
    else:
        spent = f"budget spent: {spent}"
    nominal: Guarantee = PureDP(epsilon, neighbours="replace")
    if delta > 0:
        nominal = ApproxDP(epsilon, delta, neighbours="replace")
    return PrivateMeanInterval(
        estimate=answer.estimate,
        lower=np.inf if empty else lower,
        upper=-np.inf if empty else upper,
        alpha=alpha,
        method=method,
        uncertainty="noise+sampling",
        notes=(*notes, spent),
        sampler=sampler,
        nominal=nominal,
        epsilon=epsilon,
        delta=delta,
        half_width_sampling=answer.half_width_sampling,
        half_width_noise=answer.half_width_noise,
        clipping=answer.clipping,
    )


def checked_method(method: object, *, known: bool) -> HalfWidth:
    """Return how the half-width is found: by default the tightest way that there is."""
    if method is None:
        return "exact" if known else "tail-bound"
    chosen = check_option(method, "method", HALF_WIDTHS)
    if chosen == "exact" and not known:
        raise InvalidParameterError(
            "method must be 'tail-bound' where std is not known, got 'exact': sampling error and "
            "noise then have separate bounds"
        )
    return chosen


def checked_plan(
    nobs: int,
    epsilon: object,
    delta: object,
    std: object,
    mean_bounds: Any,
    std_bounds: Any,
    alpha: float,
    split: Any,
) -> Plan:
    """Check what is public, and share out the budget."""
    known = std is not None
    if nobs < (least := 2 if known else 4):
        raise InvalidParameterError(f"data must hold at least {least} values, got {nobs}")
    total = check_scalar(epsilon, "epsilon", gt=0, ge=1e-10, le=1e10)
    spare = check_scalar(delta, "delta", ge=0, lt=1)
    bounds = _checked_bounds(mean_bounds, "mean_bounds", (-np.inf, np.inf))
    plan: Callable[[FloatArray], Plan]
    if known:
        if std_bounds is not None:
            raise InvalidParameterError("std_bounds must not be given where std is known")
        sigma = check_scalar(std, "std", ge=SMALLEST_STD, le=LARGEST)
        plan = partial(_known, nobs, spare, bounds, sigma)
    else:
        sigmas = _checked_bounds(std_bounds, "std_bounds", (0.0, np.inf))
        if std_bounds is not None:
            check_array(sigmas, "std_bounds", ge=SMALLEST_STD, le=LARGEST)
        plan = partial(_unknown, nobs, spare, bounds, sigmas)
    steps = 2 if known else 4
    if split is not None:
        shares = check_array(split, "split", ndim=1, ge=1e-10, le=1e10)
        check_length(shares, "split", steps, "the steps")
        return plan(total * shares / shares.sum())
    for share in _HISTOGRAM_SHARES:
        found = plan(total * _shares(share, steps))
        if found.failure <= _RARE * alpha:
            return found
    return plan(np.full(steps, total / steps))


def _shares(histogram: float, steps: int) -> FloatArray:
    """Give a share to each of the first half of the steps, and what is left to the others."""
    half = steps // 2
    return np.repeat([histogram, 1.0 / half - histogram], half)


def _known(
    nobs: int, delta: float, bounds: tuple[float, float], std: float, epsilons: FloatArray
) -> KnownStd:
    """Return the plan for known variance; ``epsilons`` are those of range and mean."""
    return KnownStd(
        nobs=nobs,
        mean_bounds=bounds,
        range=_histogram(epsilons[0], delta, mean_bins(bounds, std), "mean_bounds"),
        epsilon_mean=float(epsilons[1]),
        std=std,
    )


def _unknown(
    nobs: int,
    delta: float,
    bounds: tuple[float, float],
    stds: tuple[float, float],
    epsilons: FloatArray,
) -> UnknownStd:
    """Return the plan for unknown variance; its epsilons: scale, range, mean and variance."""
    with np.errstate(divide="ignore"):
        first, last = scale_bins(stds)
        most = mean_bins(bounds, stds[0] / np.sqrt(2.0)) if stds[0] > 0 else np.inf
    return UnknownStd(
        nobs=nobs,
        mean_bounds=bounds,
        scale=_histogram(epsilons[0], delta / 2, last - first + 1.0, "std_bounds"),
        range=_histogram(epsilons[1], delta / 2, most, "mean_bounds and std_bounds"),
        epsilon_mean=float(epsilons[2]),
        epsilon_variance=float(epsilons[3]),
        std_bounds=stds,
    )


def _histogram(epsilon: float, delta: float, bins: float, name: str) -> HistogramMode:
    """Return the histogram with noise on all bins where it serves, else the stability-based one."""
    if bins <= min(2.0 / delta if delta > 0 else np.inf, _MOST_BINS):
        return HistogramMode(epsilon=float(epsilon), delta=0.0, bins=bins)
    if delta == 0:
        raise InvalidParameterError(
            f"{name} must be given and finite where delta is 0, and span at most {_MOST_BINS:.2g} "
            "bins of one standard deviation: give narrower bounds, or delta > 0"
        )
    return HistogramMode(epsilon=float(epsilon), delta=delta, bins=np.inf)


def _checked_bounds(bounds: Any, name: str, widest: tuple[float, float]) -> tuple[float, float]:
    """Return lower and upper bound."""
    if bounds is None:
        return widest
    array = check_array(bounds, name, ndim=1, finite=False)
    if array.size != 2 or not array[0] < array[1]:
        raise InvalidParameterError(
            f"{name} must be two numbers, the smaller one first, got {show(bounds)}"
        )
    finite = array[np.isfinite(array)]
    check_array(finite, name, ge=-LARGEST, le=LARGEST, nonempty=False)
    return float(array[0]), float(array[1])
