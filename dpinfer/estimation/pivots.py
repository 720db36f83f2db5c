"""Intervals for linear combinations of noisy values, from the laws of their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

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
from dpinfer.estimation.bounds import LEVELS, NoiseBound, envelope
from dpinfer.mechanisms._sums.terms import Terms
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import Assurance, Intervals

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
ManyMethod = Literal["exact", "envelope", "bound", "asymptotic"]
MANY_METHODS: tuple[ManyMethod, ...] = ("exact", "envelope", "bound", "asymptotic")
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

SECONDS = 20.0  # time that exact laws may take, about; beyond, intervals are not exact
_LAWS = 2_000  # most laws that are found one by one
_COARSE = 0.005  # part of a half-width from which on half a step of whole-numbered noise counts
_RIPPLE = 1e-3  # most that steps of an error may matter where the envelope is used as it is
_RIPPLE_OF_ALPHA = 0.05  # the same as a part of alpha
_SHORT = 0.016  # part of alpha that the envelope at alpha - 2R was short of coverage by at most
_RIPPLES = np.array([0.0, 1e-5, 3e-5, 1e-4, 3e-4, _RIPPLE])  # up to which they are rounded
_WHOLE_KURTOSIS = 1.5  # up to which the envelope was checked for whole-numbered noise of few steps
_RIPPLE_PART = 0.2  # seconds that it takes to find how much steps matter, as a part of a law's
_PERIODS = 64  # as sums of noises may have steps that are a small part of the largest weight
_FACTORS = 100  # terms of an error whose characteristic functions are looked at
_NODES = 33  # points from the middle between returns of a characteristic function to one


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


class Moments(Protocol):
    """What is known of the errors of each law without the law itself, shape (l,)."""

    @property
    def checked(self) -> bool:
        """Whether the envelope was compared with sums of such noise."""

    @property
    def kurtosis(self) -> FloatArray:
        """Excess kurtosis, or a bound on it."""

    @property
    def share(self) -> FloatArray | None:
        """Bounds on the largest share of one noise in the variance."""

    @property
    def step(self) -> FloatArray:
        """Bounds on the largest weight of whole-numbered noise."""


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
    moments: Moments | None = None  # of all laws; None where no more is known than for all errors
    patience: float = 1.0  # by which the time is multiplied that exact laws may take

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
        assurance: Assurance | None = "exact" if self.gaussian else None
        if chosen == "asymptotic" or self.gaussian:
            half = -special.ndtri(0.5 * alpha) * self.std_errors
            if not self.gaussian and self.std_errors.size:
                notes = (self._normal_note(alpha),)
        elif chosen == "bound":
            half, how = self._bounds(alpha)
            notes, assurance = (f"Half-widths are bounds: {how}.",), "bound"
        elif chosen == "envelope":
            self._refuse_unchecked(alpha)
            half, said = self._enveloped(alpha, np.arange(self.std_errors.size))
            notes, assurance = (f"Half-widths are {said}.",), "checked"
        else:
            half, kind, notes = self._exact(alpha, number)
            chosen = _METHOD_OF[kind]
            assurance = "checked" if notes and kind == "exact" else kind
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
            assurance=assurance,
        )

    def _exact(
        self, alpha: float, number: NDArray[np.intp] | slice
    ) -> tuple[FloatArray, Assurance, tuple[str, ...]]:
        """Return the half-width of each law, what the weakest is, and what is to be said."""
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
        if not wide.any() or lost.size * self._law_seconds <= self._seconds:
            lost = self._single(half, lost, alpha)
        if not lost.size:
            return half, "exact", tuple(notes)
        number = np.arange(half.size)[number]
        why = (
            "as single laws are not found for tables with groupings, zeros or further parts"
            if self.law is None
            else f"as their {lost.size} laws would take about "
            f"{lost.size * self._law_seconds:.0f} seconds: those of fewer units at a time are exact"
        )
        close = lost[:0]
        if self._is_checked(alpha):
            close, rest, said = self._close(half, lost, alpha)
            if close.size:
                share = int(np.isin(number, close).sum())
                notes.append(f"{share} of {number.size} intervals are {said}, {why}.")
            lost = rest
        if lost.size:
            found_bound, how = self._bounds(alpha, lost)
            half[lost] = np.fmin(half[lost], found_bound)
            share = int(np.isin(number, lost).sum())
            notes.append(f"{share} of {number.size} intervals are bounds ({how}), {why}.")
        return half, "checked" if close.size else "bound" if lost.size else "exact", tuple(notes)

    def _single(self, half: FloatArray, at: NDArray[np.intp], alpha: float) -> NDArray[np.intp]:
        """Find laws one by one, if that is possible in the time; return those that are left."""
        few = at.size <= FEW or (at.size <= _LAWS and at.size * self._law_seconds <= self._seconds)
        if self.law is None or not few:
            return at
        half[at] = [float(self.law(int(one)).isf(0.5 * alpha)) for one in at]
        return at[:0]

    def _close(
        self, half: FloatArray, at: NDArray[np.intp], alpha: float
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], str]:
        """Find half-widths by the envelope; return where, where not, and what is to be said.

        Half a step of whole-numbered noise is added, unless steps are known to matter little. Laws
        of which neither would do are found one by one, as many as there is time for.
        """
        std, excess, step = self._moments(at)
        fine = 0.5 * step <= _COARSE * envelope(alpha, excess) * std
        ripple, coarse = np.full(at.size, np.inf), np.flatnonzero(~fine)
        if self.law is not None and coarse.size * self._law_seconds <= self._seconds / _RIPPLE_PART:
            ripple[coarse] = [_ripple(self.law(int(one))) for one in at[coarse]]
        most = min(_RIPPLE, _RIPPLE_OF_ALPHA * alpha)
        smooth = ~fine & (ripple <= most) & (excess <= _WHOLE_KURTOSIS)
        again = np.flatnonzero(~(fine | smooth))
        left = np.isin(at, self._single(half, at[again], alpha))
        stepped = np.flatnonzero(fine | (left & (excess <= _WHOLE_KURTOSIS)))
        said = []
        if stepped.size:
            half[at[stepped]], how = self._enveloped(alpha, at[stepped])
            said.append(how)
        level = _RIPPLES[np.searchsorted(_RIPPLES, np.where(smooth, ripple, 0.0))]
        for one in np.unique(level[smooth]):
            some = np.flatnonzero(smooth & (level == one))
            half[at[some]] = envelope(alpha * (1.0 - _SHORT) - 2.0 * one, excess[some]) * std[some]
        if smooth.any():
            how = _envelope_said(excess[smooth], half[at[smooth]] / std[smooth])
            said.append(
                f"{how}; steps of whole-numbered noise matter by R = {ripple[smooth].max():.2g} at "
                "most, and the "
                f"envelope is of the level {1.0 - _SHORT:g} alpha - 2R: no law that was looked at "
                "was short of coverage by that"
            )
        smooth[stepped] = True
        return at[smooth], at[left & ~smooth], ", or ".join(said)

    def _enveloped(self, alpha: float, at: NDArray[np.intp]) -> tuple[FloatArray, str]:
        """Return half-widths by the envelope and half a step of whole-numbered noise.

        The error with the steps of the heaviest noise made even has a variance larger by step²/12,
        and is at most half a step from it.
        """
        std, excess, step = self._moments(at)
        finite = np.where(np.isfinite(std), std, 0.0)
        size = envelope(alpha, excess) * np.hypot(finite, step / np.sqrt(12.0))
        half = np.where(finite > 0.0, size + 0.5 * step, std)
        there = finite > 0.0
        said = _envelope_said(excess[there], half[there] / finite[there])
        if (step[there] > 0.0).any():
            most = float((0.5 * step[there] / half[there]).max())
            said += f"; {100.0 * most:.2g} % of one at most is half a step of whole-numbered noise"
        return half, said

    def _moments(self, at: NDArray[np.intp]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return standard deviations, excess kurtosis and steps of laws."""
        std = self.std_errors[at]
        if self.moments is not None:
            return std, self.moments.kurtosis[at], self.moments.step[at]
        bound = self.bound()
        step = np.minimum(np.where(np.isfinite(std), std, 0.0) * bound.step, self.largest)
        return std, np.full(std.size, bound.kurtosis or 0.0), step

    def _bounds(
        self, alpha: float, at: NDArray[np.intp] | slice = slice(None)
    ) -> tuple[FloatArray, str]:
        """Return proved half-widths of laws."""
        share = None if self.moments is None else self.moments.share
        return self.bound().half_widths(
            alpha, self.std_errors[at], None if share is None else share[at]
        )

    def _is_checked(self, alpha: float) -> bool:
        """Whether the envelope has been compared with laws like these at this level."""
        return LEVELS[0] <= alpha <= LEVELS[1] and self._has_kurtosis

    @property
    def _has_kurtosis(self) -> bool:
        if self.moments is not None:
            return self.moments.checked
        return self.bound().kurtosis is not None

    def _refuse_unchecked(self, alpha: float) -> None:
        if not LEVELS[0] <= alpha <= LEVELS[1]:
            raise InvalidParameterError(
                f"alpha must be between {LEVELS[0]:g} and {LEVELS[1]:g} for the method 'envelope', "
                f"which was checked there only, got {alpha:g}: use 'exact' or 'bound'"
            )
        if not self._has_kurtosis or (self.integer and self._too_coarse):
            raise InvalidParameterError(
                "method must be 'exact' or 'bound' for this noise, got 'envelope': that was "
                "checked for Laplace, Gaussian, geometric and discrete Gaussian noise only, and "
                f"for whole-numbered noise up to an excess kurtosis of {_WHOLE_KURTOSIS:g} or of "
                "steps that are fine beside the error"
            )

    @property
    def _too_coarse(self) -> bool:
        """Whether some error may have few steps and more kurtosis than was checked."""
        at = np.flatnonzero(np.isfinite(self.std_errors) & (self.std_errors > 0.0))
        std, excess, step = self._moments(at)
        return bool(((excess > _WHOLE_KURTOSIS) & (0.5 * step > 2.0 * _COARSE * std)).any())

    @property
    def _seconds(self) -> float:
        return SECONDS * self.patience

    @property
    def _law_seconds(self) -> float:
        return law_seconds(self.terms, self.integer)

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


_METHOD_OF: dict[Assurance, ManyMethod] = {
    "exact": "exact",
    "checked": "envelope",
    "bound": "bound",
}


def _envelope_said(excess: FloatArray, size: FloatArray) -> str:
    """Say what an envelope is, from the excess kurtosis and half-widths in standard errors."""
    most, low, high = excess.max(initial=0.0), size.min(initial=np.inf), size.max(initial=0.0)
    return (
        f"{low:.4g} to {high:.4g} standard errors, by an envelope of exact laws of the same excess "
        f"kurtosis, {most:.3g} at most, that is checked and not proved: no law that was looked at "
        "exceeds it"
    )


def _ripple(law: WeightedSum) -> float:
    """Return how much the steps of whole-numbered noise may matter in tails of an error.

    (1/π)∫ abs(φ(t))/t dt from π/w to 128π/w, with w the weight of the whole-numbered noise that has
    most of the variance: φ is near 1 around multiples of 2π/w only, closer to them the wider all
    the error is.
    """
    blocks = law._terms.blocks
    sizes = [np.square(block.weights) * np.asarray(block.law.variance) for block in blocks]
    whole = [number for number, block in enumerate(blocks) if block.law.is_integer]
    if not whole:
        return 0.0
    weights = np.concatenate([blocks[number].weights for number in whole])
    heaviest = int(np.argmax(np.concatenate([sizes[number] for number in whole])))
    period = 2.0 * np.pi / float(weights[heaviest])
    # the other factors of φ are at most 1
    sizes = [size * block.counts for size, block in zip(sizes, blocks, strict=True)]
    every = np.concatenate(sizes)
    least = np.sort(every)[-min(_FACTORS, every.size)]
    some = Terms(
        block.take(np.flatnonzero(size >= least)) for size, block in zip(sizes, blocks, strict=True)
    )
    scale = 1.0 / float(law.std)
    x = np.linspace(0.0, np.arcsinh(0.5 * period / scale), _NODES)
    away, spacing = scale * np.sinh(x), scale * np.cosh(x) * x[1]
    spacing[[0, -1]] *= 0.5
    total = 0.0
    for number in range(1, _PERIODS + 1):
        for side in (-1.0, 1.0) if number < _PERIODS else (-1.0,):
            t = number * period + side * away
            total += float((np.abs(some.cf(t, negligible=0.0)) / t) @ spacing)
    return total / np.pi


def law_seconds(terms: int, integer: bool = True) -> float:
    """Return about how long one law of so many terms takes, as measured on one core."""
    return 0.1 + 1.5e-5 * terms if integer else 0.008 + 5e-6 * terms


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
