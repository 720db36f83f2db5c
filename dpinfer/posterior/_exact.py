"""Independent draws of cells that have weights of their own and one total, exact or noisy."""

from __future__ import annotations

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, IncompatibleReleaseError
from dpinfer.posterior._sums import Made, Whole, Windows, add_up, draw_apart

MOST_LEFT_OUT = 1e-12
"""Posterior mass that windows may leave out, by a bound that is proved of each answer."""

_MOST_WORK = 1e13
_CUTS = (1e-24, 1e-60, 1e-150)
"""Shares of a window that are dropped at its ends; the later ones where the first do not do."""

_STEPS = 200
_PEAKS = 30


def draw_given_total(
    log_weights: FloatArray, total: int | FloatArray, draws: int, rng: np.random.Generator
) -> tuple[Whole, float]:
    """Draw cells (draws, cells) given their total, and bound the posterior mass left out.

    ``log_weights`` (cells, n): of 0, …, n - 1 in each cell, -inf where impossible. ``total``: the
    sum of all cells, or the logarithms of weights of the sums 0, 1, …

    Weights times e^(κx) have the same law given the sum, for any κ. It is chosen so that their
    mean sum is where the posterior of the sum has its peak: no weight that matters is small then.
    """
    weight = _total_weights(log_weights, total)
    possible = np.isfinite(log_weights)
    if not possible.any(axis=1).all():
        raise IncompatibleReleaseError("a cell has no possible count")
    lowest = possible.argmax(axis=1).sum()
    highest = (log_weights.shape[1] - 1 - possible[:, ::-1].argmax(axis=1)).sum()
    sums = np.flatnonzero(np.isfinite(weight))
    sums = sums[(sums >= lowest) & (sums <= highest)]
    if not sums.size:
        raise IncompatibleReleaseError("no total is possible for the counts that the cells allow")
    peak = int(sums[weight[sums].argmax()])
    seen: set[int] = set()
    for _ in range(_PEAKS):
        tilt = _tilt(log_weights, peak, float(lowest), float(highest))
        seen.add(peak)
        found = _best(log_weights, weight, tilt)
        if found is not None and found[3] <= MOST_LEFT_OUT:
            added, rounds, mass, left_out = found
            drawn = rng.choice(mass.size, draws, p=mass / mass.sum()) + int(added.first[0])
            return draw_apart(rounds, drawn[None], rng).T, left_out
        step = _next_peak(log_weights, weight, sums, tilt, peak)
        if step in seen:
            break
        peak = step
    raise ConvergenceError("windows of counts left out more than 1e-12 of the posterior")


def _total_weights(log_weights: FloatArray, total: int | FloatArray) -> FloatArray:
    if np.ndim(total):
        return np.asarray(total, dtype=np.float64)
    most = len(log_weights) * (log_weights.shape[1] - 1)
    if not 0 <= total <= most:
        raise IncompatibleReleaseError(f"the total must be within 0 and {most}, got {total}")
    weight = np.full(int(total) + 1, -np.inf)
    weight[-1] = 0.0
    return weight


def _tilted(log_weights: FloatArray, tilt: float) -> tuple[FloatArray, FloatArray]:
    exponent = log_weights + tilt * np.arange(log_weights.shape[1])
    peak = exponent.max(axis=1)
    return np.exp(exponent - peak[:, None]), peak


def _mean_sum(log_weights: FloatArray, tilt: float) -> float:
    weights, _ = _tilted(log_weights, tilt)
    return float(((weights @ np.arange(log_weights.shape[1])) / weights.sum(axis=1)).sum())


def _tilt(log_weights: FloatArray, target: float, lowest: float, highest: float) -> float:
    """Return κ under which the mean sum is the target, or next to it at an end of its range."""
    target = min(max(target, lowest + 0.25), highest - 0.25) if highest > lowest else target
    if highest <= lowest:
        return 0.0
    low, high, step = 0.0, 0.0, 1.0
    while _mean_sum(log_weights, low) > target:
        low, step = low - step, 2.0 * step
    step = 1.0
    while _mean_sum(log_weights, high) < target:
        high, step = high + step, 2.0 * step
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if high - low < 1e-10 * max(1.0, abs(low), abs(high)):
            break
        if _mean_sum(log_weights, middle) < target:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _best(log_weights: FloatArray, weight: FloatArray, tilt: float) -> tuple | None:  # type: ignore[type-arg]
    """Return sums, rounds, weights of the sums and what is left out, by the first cut that does."""
    found = None
    for cut in _CUTS:
        summed = add_up(
            _cells(log_weights, tilt, cut), np.array([len(log_weights)]), cut, _MOST_WORK
        )
        if summed is None:
            return found
        added, rounds = summed
        place = added.first[0] + np.arange(added.width[0])
        inside = place < weight.size
        exponent = np.where(inside, weight[np.minimum(place, weight.size - 1)], -np.inf)
        exponent -= tilt * place
        # over all sums, also those that the window leaves out
        highest = float(np.max(weight - tilt * np.arange(weight.size)))
        mass = added.flat[added.start[0] :][: added.width[0]] * np.exp(exponent - highest)
        total = float(mass.sum())
        if total > 0:
            found = added, rounds, mass, float(added.left_out[0]) / total
            if found[3] <= MOST_LEFT_OUT:
                return found
    return found


def _cells(log_weights: FloatArray, tilt: float, cut: float) -> Windows:
    weights, peak = _tilted(log_weights, tilt)
    made, rows = Made(len(weights)), np.arange(len(weights))
    first = np.zeros(len(weights), dtype=np.int64)
    made.put(rows, first, weights, peak, np.zeros(len(weights)), cut)
    return made.windows()


def _next_peak(
    log_weights: FloatArray, weight: FloatArray, sums: Whole, tilt: float, peak: int
) -> int:
    """Return the likeliest sum by the normal law that the tilted sum is close to."""
    weights, _ = _tilted(log_weights, tilt)
    share = weights / weights.sum(axis=1, keepdims=True)
    k = np.arange(log_weights.shape[1])
    mean = share @ k
    variance = float((share @ np.square(k) - np.square(mean)).sum())
    away = sums - mean.sum()
    return int(
        sums[(weight[sums] - tilt * sums - 0.5 * np.square(away) / max(variance, 0.25)).argmax()]
    )
