"""Intervals for linear combinations of noisy values, from the laws of their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from dpinfer._validation import RNG, FloatArray, check_alpha, check_flag, check_option
from dpinfer.estimation.simultaneous import critical_pivot
from dpinfer.mechanisms import NoiseLaw, groups
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["exact", "tail-bound", "normal"]

_NEGLIGIBLE = 1e-13
"""Weights smaller than this, relative to the largest of a target, are rounding."""

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of an estimate and its interval, relative to the size of their terms."""


@dataclass(frozen=True, kw_only=True)
class Pivots:
    """The errors W e of targets W y, by which intervals for the targets are found.

    Parameters
    ----------
    std_errors : array of float, shape (k,)
        Standard deviations of the errors.
    mechanism : NoiseLaw
        The law of the m noises e.
    blocks : callable, optional
        Yields the rows of W (k × m) in order, some at a time, as arrays. Without it each value is
        its own target.
    draw_errors : callable
        ``draw_errors(reps, rng)`` draws joint errors, shape (reps, k).
    noises : int
        Number m of noises, which ``draw_errors`` draws for each set of errors.
    magnitude : array of float, shape (k,)
        Size of the terms of which the estimates are sums.
    """

    std_errors: FloatArray
    mechanism: NoiseLaw
    blocks: Callable[[], Iterable[FloatArray]] | None
    draw_errors: Callable[[int, np.random.Generator], FloatArray]
    noises: int
    magnitude: FloatArray

    def intervals(
        self,
        estimate: FloatArray,
        *,
        alpha: float,
        method: Method,
        simultaneous: bool,
        reps: int,
        rng: RNG,
        labels: pd.Index | None,
    ) -> Intervals:
        """Return intervals around the estimates, which have as many entries as there are targets.

        The arguments are those of :meth:`~dpinfer.estimation.CombinedEstimate.conf_int`.
        """
        alpha = check_alpha(alpha)
        method = check_option(method, "method", _HALF_WIDTHS)
        together = check_flag(simultaneous, "simultaneous")
        mc_error, notes = 0.0, tuple[str, ...]()
        if together and method == "exact" and not self._independent():
            pivot = critical_pivot(
                self.draw_errors, self.std_errors, alpha, reps, rng, noises=self.noises
            )
            half, mc_error, notes = pivot.value * self.std_errors, pivot.mc_error, (pivot.note,)
        else:
            half = _HALF_WIDTHS[method](self, alpha, self._uncertain if together else 1)
        half = (half + self._slack(np.ravel(estimate), half)).reshape(np.shape(estimate))
        return Intervals(
            estimate=estimate,
            lower=estimate - half,
            upper=estimate + half,
            alpha=alpha,
            method=method,
            uncertainty="noise",
            simultaneous=together or method == "tail-bound",
            labels=labels,
            notes=notes,
            mc_error=mc_error,
        )

    def _slack(self, estimate: FloatArray, half: FloatArray) -> FloatArray:
        """Return what keeps rounding from cutting off an atom at the end of an interval.

        An end is on an atom of the error where noise takes whole numbers; whole ends are exact.
        """
        atoms = any(law.is_integer for law, _ in groups(self.mechanism, 1))
        if self.blocks is None or not atoms:
            return np.zeros(half.shape)
        exact = (half == np.rint(half)) & (estimate == np.rint(estimate))
        width = _ROUNDING * (self.magnitude + half)
        return np.where(exact | (self.std_errors == 0), 0.0, width)

    @property
    def _uncertain(self) -> int:
        """Number of targets that have an error, at least one."""
        return max(1, int(np.count_nonzero(self.std_errors)))

    def _independent(self) -> bool:
        """Whether no noisy value has a part in two targets."""
        if self.blocks is None or self._uncertain == 1:
            return True
        used = np.zeros(1)
        noisy = np.asarray(self.mechanism.variance) > 0
        for block in self.blocks():
            used = used + np.count_nonzero(clean_weights(block) * noisy, axis=0)
            if used.max() > 1:
                return False
        return True


def sidak(alpha: float, tests: int) -> float:
    """Error probability of each of several independent intervals that have ``alpha`` together."""
    return float(-np.expm1(np.log1p(-alpha) / tests))


def clean_weights(weights: FloatArray) -> FloatArray:
    """Set weights to zero that differ from it by rounding only."""
    largest = np.abs(weights).max(axis=-1, keepdims=True)
    return np.where(np.abs(weights) > _NEGLIGIBLE * largest, weights, 0.0)


def _exact(pivots: Pivots, alpha: float, tests: int) -> FloatArray:
    """Quantiles of the laws of the errors."""
    return _by_law(pivots, sidak(alpha, tests) / 2, lambda law, q: float(law.isf(q)))


def _tail_bound(pivots: Pivots, alpha: float, tests: int) -> FloatArray:
    """Union bound over the targets, the tails of sums bounded by Chernoff's inequality."""
    each = alpha / (2 * pivots._uncertain)
    return _by_law(pivots, each, lambda law, q: float(law.chernoff(q)))


def _normal(pivots: Pivots, alpha: float, tests: int) -> FloatArray:
    """Use normal quantiles times standard errors."""
    return np.asarray(-special.ndtri(sidak(alpha, tests) / 2) * pivots.std_errors)


def _by_law(pivots: Pivots, q: float, bound: Callable[[WeightedSum, float], float]) -> FloatArray:
    """Bounds on the errors; an error that is one noise only has the quantile of that noise."""
    single = np.asarray(pivots.mechanism.isf(q))
    if pivots.blocks is None:
        return np.broadcast_to(single, pivots.std_errors.shape)
    widths = []
    for block in pivots.blocks():
        weights = clean_weights(block)
        width = np.abs(weights * single).sum(axis=1)
        several = np.flatnonzero(np.count_nonzero(weights, axis=1) > 1)
        laws = weighted_sums(weights[several], pivots.mechanism) if len(several) else []
        width[several] = [bound(law, q) for law in laws]
        widths.append(width)
    return np.concatenate(widths)


_HALF_WIDTHS: dict[Method, Callable[[Pivots, float, int], FloatArray]] = {
    "exact": _exact,
    "tail-bound": _tail_bound,
    "normal": _normal,
}

METHODS = tuple(_HALF_WIDTHS)
