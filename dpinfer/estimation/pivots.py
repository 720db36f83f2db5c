"""Intervals for linear combinations of noisy values, from the laws of their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_alpha,
    check_flag,
    check_option,
    check_reps,
    check_rng,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.bounds import NoiseBound
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd


# The largest studentised error of many dependent estimates, simulated from the known noise.


_BLOCK_SIZE = 4_000_000  # largest number of noises, and of errors, drawn at a time
_WEIGHTS = 20_000_000  # weights that are looked at together


@dataclass(frozen=True)
class CriticalPivot:
    """A quantile of the largest studentised error, and how certain it is."""

    value: float
    mc_error: float
    reps: int

    @property
    def note(self) -> str:
        """A remark for the reader of the intervals."""
        return (
            f"Half-widths are {self.value:.6g} standard errors, from {self.reps} simulated errors; "
            f"from one simulation to another the coverage varies by {self.mc_error:.2g}."
        )


def critical_pivot(
    draw_errors: Callable[[int, np.random.Generator], FloatArray],
    std_errors: FloatArray,
    alpha: float,
    reps: int,
    rng: RNG,
    *,
    noises: int = 1,
    one_sided: bool = False,
) -> CriticalPivot:
    """Return c such that all errors stay within ± c standard errors with probability 1 - alpha.

    Or such that all stay below c, as by symmetry above -c, if one-sided.

    c is the ⌈(1 - α)(R + 1)⌉-th smallest of R simulated values of the largest studentised error.
    The one that was realised is equally likely to take any rank among these R + 1, so the
    intervals cover with probability >= 1 - α, the simulation included (Davison and Hinkley 1997,
    §4.2.1, doi:10.1017/CBO9780511802843). Given the simulation, the coverage has standard
    deviation √(α(1 - α)/R). ``noises`` is the number of noises drawn for one set of errors.
    """
    fewest = int(np.ceil(min(1.0 / alpha, 1e18))) - 1
    number = check_reps(reps, ge=max(fewest, 1))
    generator = check_rng(rng)
    noisy = std_errors > 0
    block = max(1, _BLOCK_SIZE // max(len(std_errors), noises))
    largest = np.empty(number)
    for start in range(0, number, block):
        stop = min(start + block, number)
        errors = draw_errors(stop - start, generator)[:, noisy]
        errors = errors if one_sided else np.abs(errors)
        largest[start:stop] = (errors / std_errors[noisy]).max(axis=1, initial=0.0)
    rank = min(int(np.ceil((1.0 - alpha) * (number + 1) * (1.0 - 1e-12))), number)
    value = float(np.partition(largest, rank - 1)[rank - 1])
    return CriticalPivot(value, float(np.sqrt(alpha * (1.0 - alpha) / number)), number)


Method = Literal["exact", "tail-bound", "asymptotic"]
METHODS: tuple[Method, ...] = ("exact", "tail-bound", "asymptotic")
ManyMethod = Literal["exact", "bound", "asymptotic"]
MANY_METHODS: tuple[ManyMethod, ...] = ("exact", "bound", "asymptotic")
"""Methods for many errors of fewer laws."""

_NEGLIGIBLE = 1e-13
"""Weights smaller than this, relative to the largest of a target, are rounding."""

FEW = 20  # laws that are always found one by one
_WIDE = 0.01
"""Part of a half-width, or of a standard deviation, by which what was found for many laws at once
may be too large; otherwise laws are found one by one, as far as there is time."""

_UNSURE = 5e-4  # the same for what tail probabilities err by, as a part of alpha
_SMALL_TAIL = 1e-4  # P-values below this are found one by one
NORMAL_NOTE = "Normal quantiles, which are approximate as the noise is not Gaussian."
ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of an estimate and its interval, relative to the size of their terms."""

SECONDS = 20.0  # time that exact laws may take, about; beyond, intervals are bounds


@dataclass(frozen=True)
class Found:
    """Quantiles or tails of many laws, which are never too small."""

    value: FloatArray  # (l,): NaN where nothing was found
    error: FloatArray  # (l,): what tail probabilities err by at most; it is allowed for
    excess: FloatArray  # (l,): largest distance that an error was moved by

    @classmethod
    def none(cls, size: int) -> Found:
        """Return that nothing was found."""
        return cls(np.full(size, np.nan), np.zeros(size), np.zeros(size))


@dataclass(frozen=True, kw_only=True)
class ManyErrors:
    """The errors of many estimates, which have fewer different laws."""

    std_errors: FloatArray  # (l,): standard deviation of the errors of each law
    # the law of number i; None where single laws are not to be found
    law: Callable[[int], WeightedSum] | None
    terms: int  # about the number of terms of a law
    gaussian: bool  # whether all noise is Gaussian
    integer: bool  # whether some takes whole numbers
    bound: Callable[[], NoiseBound]  # the bound on tails that holds for all laws
    magnitude: float  # size of the values
    heaviest: Callable[[], int] = lambda: 0  # the number of a law that one noise dominates
    largest: float = 1.0  # the largest weight of a noise in an error: 1 in that of a unit or cell
    together: Callable[[float], Found] | None = None  # upper quantiles of all laws

    def intervals(
        self,
        estimate: FloatArray,
        number: NDArray[np.intp] | slice,
        alpha: float,
        method: str,
        labels: pd.Index | None,
    ) -> Intervals:
        """Return intervals around estimates whose errors have laws of these numbers.

        All numbers in order may be given as a slice.
        """
        alpha = check_alpha(alpha)
        chosen = check_option(method, "method", MANY_METHODS)
        notes = tuple[str, ...]()
        if chosen == "asymptotic" or self.gaussian:
            half = -special.ndtri(0.5 * alpha) * self.std_errors
            if not self.gaussian and self.std_errors.size:
                notes = (self._normal_note(alpha),)
        elif chosen == "bound":
            half, how = self.bound().half_widths(alpha, self.std_errors, self.largest)
            notes = (f"Half-widths are bounds: {how}.",)
        else:
            half, bounded, notes = self._exact(alpha, number)
            chosen = "bound" if bounded else "exact"
        if self.integer and chosen != "asymptotic":
            half = np.where(half > 0.0, half + ROUNDING * (self.magnitude + half), half)
        half = half[number]
        return Intervals(
            estimate=estimate,
            lower=estimate - half,
            upper=estimate + half,
            alpha=alpha,
            method=chosen,
            uncertainty="noise",
            labels=labels,
            notes=notes,
        )

    def _exact(
        self, alpha: float, number: NDArray[np.intp] | slice
    ) -> tuple[FloatArray, bool, tuple[str, ...]]:
        """Return the half-width of each law, whether some are bounds, and what is to be said."""
        half = np.where(self.std_errors > 0.0, np.nan, 0.0)
        half[np.isinf(self.std_errors)] = np.inf
        wide = np.zeros(half.size, dtype=bool)
        notes = []
        if self.together is not None and half.size > FEW:
            found = self.together(0.5 * alpha)
            half = np.fmax(half, found.value)
            wide = (found.excess > _WIDE * half) | (found.error > _UNSURE * alpha)
            notes = _found_note(found, half, ~wide)
        lost = np.flatnonzero(np.isnan(half) | wide)
        cheap = not wide.any() or lost.size * law_seconds(self.terms) <= SECONDS
        if (
            self.law is not None
            and cheap
            and affordable(lost.size, self.terms, SECONDS) == lost.size
        ):
            half[lost] = [float(self.law(int(at)).isf(0.5 * alpha)) for at in lost]
            return half, False, tuple(notes)
        bound, how = self.bound().half_widths(alpha, self.std_errors[lost], self.largest)
        half[lost] = np.fmin(half[lost], bound)
        number = np.arange(half.size)[number]
        share = int(np.isin(number, lost).sum())
        why = (
            "as single laws are not found for tables with groupings, zeros or further parts"
            if self.law is None
            else f"as their {lost.size} laws would take about "
            f"{lost.size * law_seconds(self.terms):.0f} seconds: those of fewer units at a time "
            "are exact"
        )
        notes.append(f"{share} of {number.size} intervals are bounds ({how}), {why}.")
        return half, lost.size > 0, tuple(notes)

    def _normal_note(self, alpha: float) -> str:
        """Say how often normal intervals cover where one noise matters most."""
        if self.law is None:
            return NORMAL_NOTE
        at = self.heaviest()
        law = self.law(at)
        covered = 1.0 - 2.0 * float(law.sf(-special.ndtri(0.5 * alpha) * self.std_errors[at]))
        return (
            f"{NORMAL_NOTE} Where a single noise matters most, such an interval of level "
            f"{1.0 - alpha:.6g} covers {covered:.4f}."
        )


def _found_note(found: Found, half: FloatArray, used: NDArray[np.bool_]) -> list[str]:
    """Say how half-widths of many laws were found, and how well."""
    at = np.flatnonzero(used & (found.error > 0.0) & np.isfinite(found.value))
    if not at.size:
        return []
    note = (
        f"Half-widths of {at.size} different laws are from their characteristic functions; tail "
        f"probabilities err by {found.error[at].max():.1g} at most, as estimated, which is allowed "
        "for."
    )
    moved = at[found.excess[at] > 1e-6 * half[at]]
    if moved.size:
        most = float((found.excess[moved] / half[moved]).max())
        note += (
            f" Those of {moved.size} laws, of whole-numbered noise, are too large by "
            f"{100.0 * most:.2g} % at most."
        )
    return [note]


def exact_pvalues(
    error: FloatArray,
    std_err: FloatArray,
    *,
    law: Callable[[int], WeightedSum] | None,
    terms: int,
    gaussian: bool,
    bound: Callable[[], NoiseBound],
    together: Callable[[FloatArray, float], Found] | None = None,
) -> tuple[FloatArray, str]:
    """Return P(|X| >= |error|) for errors X of these standard deviations, and by which method.

    ``law(i)`` is the law of the i-th; ``together(size, small)`` are bounds on the tails
    P(X >= size) of all but those below ``small``. Small ones are found again one by one, those that
    take too long bounded.
    """
    score = np.divide(error, std_err, out=np.zeros(error.shape), where=std_err > 0.0)
    if gaussian:
        return np.asarray(special.erfc(np.abs(score) / np.sqrt(2.0))), "exact"
    found = np.full(score.size, np.nan)
    if together is not None and score.size > FEW:
        tails = together(np.abs(error), 0.5 * _SMALL_TAIL)
        found = np.minimum(2.0 * tails.value, 1.0)
        found[tails.excess > _WIDE * std_err] = np.nan
    again = np.flatnonzero(~(found > _SMALL_TAIL))
    again = again[np.argsort(-np.abs(score[again]), kind="stable")]
    most = 0 if law is None else affordable(again.size, terms, SECONDS)
    if law is not None:
        single = [float(law(int(at)).cdf(-abs(error[at]))) for at in again[:most]]
        found[again[:most]] = np.minimum(2.0 * np.array(single), 1.0)
    left = again[most:]
    left = left[np.isnan(found[left])]
    if left.size:
        found[left] = bound().pvalues(score[left])
    return found, "bound" if left.size else "exact"


def law_seconds(terms: int) -> float:
    """Return about how long one law of so many terms takes, as measured on one core."""
    return 0.1 + 1.5e-5 * terms


def affordable(laws: int, terms: int, seconds: float) -> int:
    """Return how many of so many laws can be found in some time, at least a few."""
    return min(laws, max(FEW, int(seconds / law_seconds(terms))))


def pivot_intervals(
    x: NoisyValues,
    magnitude: FloatArray,
    *,
    alpha: float,
    method: str,
    simultaneous: bool,
    reps: int,
    rng: RNG,
    alternative: Alternative = "two-sided",
    std: FloatArray | None = None,
) -> Intervals:
    """Return intervals around linear functions of noises, as :func:`dpinfer.linear_confint`.

    ``magnitude`` is the size of the terms of which each is the sum; ``std``, where it is known
    better than from the variances, their standard deviations.
    """
    alpha = check_alpha(alpha)
    method = check_option(method, "method", METHODS)
    side = check_option(alternative, "alternative", ALTERNATIVES)
    together = check_flag(simultaneous, "simultaneous")
    if side != "two-sided" and alpha >= 0.5:
        raise InvalidParameterError(f"alpha must be < 0.5 for one-sided intervals, got {alpha:g}")
    std = x.std if std is None else std
    uncertain = max(1, int(np.count_nonzero(std)))
    mc_error, notes = 0.0, tuple[str, ...]()
    if together and method == "exact" and uncertain > 1 and _share_noises(x):
        pivot = critical_pivot(
            lambda size, generator: x.draw(size, rng=generator),
            std,
            alpha,
            reps,
            rng,
            noises=x.noises.size,
            one_sided=side != "two-sided",
        )
        half, mc_error, notes = pivot.value * std, pivot.mc_error, (pivot.note,)
    else:
        # the union bound always holds for all together
        tests = uncertain if together or method == "tail-bound" else 1
        each = alpha / tests if method == "tail-bound" else sidak(alpha, tests)
        q = each / 2.0 if side == "two-sided" else each
        half = -special.ndtri(q) * std if method == "asymptotic" else _half_widths(x, q, method)
    estimate = x.values
    if x.weights is not None and any(law.is_integer for law, _ in groups(x.noises.law, 1)):
        # ends may be on atoms of the errors, which rounding shall not cut off; whole ones are exact
        exact = (half == np.rint(half)) & (estimate == np.rint(estimate))
        half = half + np.where(exact | (std == 0), 0.0, ROUNDING * (magnitude + half))
    lower = estimate - half if side != "smaller" else np.full_like(half, -np.inf)
    upper = estimate + half if side != "larger" else np.full_like(half, np.inf)
    return Intervals(
        estimate=estimate.reshape(x.shape),
        lower=lower.reshape(x.shape),
        upper=upper.reshape(x.shape),
        alpha=alpha,
        method=method,
        uncertainty="noise",
        simultaneous=together or method == "tail-bound",
        labels=x.labels,
        notes=notes,
        mc_error=mc_error,
    )


def _weight_blocks(x: NoisyValues) -> Iterator[FloatArray]:
    """Yield the weights of values on noises, some rows at a time."""
    step = max(1, _WEIGHTS // max(x.noises.size, 1))
    held = hasattr(x.weights, "indices")
    for start in range(0, max(1, len(x)), step):
        at = np.arange(start, min(start + step, len(x)))
        yield clean_weights(x._rows(at).toarray() if held else x.weights.dense(at))


def _share_noises(x: NoisyValues) -> bool:
    """Whether a noise that is not always 0 has a part in two of the values."""
    if x.weights is None:
        return False
    used, noisy = np.zeros(1), x._noise_variance() > 0
    for block in _weight_blocks(x):
        used = used + np.count_nonzero(block * noisy, axis=0)
        if used.max() > 1:
            return True
    return False


def _half_widths(x: NoisyValues, q: float, method: str) -> FloatArray:
    """Quantiles of the errors, or Chernoff bounds; that of one noise is the noise's own."""
    law = x._own_law() if x.weights is None else x.noises.law
    single = np.asarray(law.isf(q))
    if x.weights is None:
        return np.broadcast_to(single, len(x))
    widths = []
    for weights in _weight_blocks(x):
        width = np.abs(weights * single).sum(axis=1)
        several = np.flatnonzero(np.count_nonzero(weights, axis=1) > 1)
        sums = weighted_sums(weights[several], law) if len(several) else []
        width[several] = [
            float(one.isf(q) if method == "exact" else one.chernoff(q)) for one in sums
        ]
        widths.append(width)
    return np.concatenate(widths)


def sidak(alpha: float, tests: int) -> float:
    """Error probability of each of several independent intervals that have ``alpha`` together."""
    return float(-np.expm1(np.log1p(-alpha) / tests))


def clean_weights(weights: FloatArray) -> FloatArray:
    """Set weights to zero that differ from it by rounding only."""
    largest = np.abs(weights).max(axis=-1, keepdims=True)
    return np.where(np.abs(weights) > _NEGLIGIBLE * largest, weights, 0.0)
