"""Risks of the two groups of noisy 2 × 2 tables, and what the noise leaves possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.intervals.ratios.ratio import share_confint
from dpinfer.mechanisms import NoiseLaw
from dpinfer.mechanisms.weighted_sum import weighted_sums

ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of an end, relative to its terms."""


@dataclass(frozen=True)
class Risks:
    """Risks of two groups, shape (m, 2), with their variances.

    Parameters
    ----------
    estimate : array of float
        The estimated risks; they may lie outside [0, 1].
    noise, sampling : array of float
        Variances due to the noise, and due to sampling as a binomial proportion.
    """

    estimate: FloatArray
    noise: FloatArray
    sampling: FloatArray


def _weights(law: NoiseLaw) -> FloatArray:
    """Return the weight of the first cell in the estimate of a row's count, by known total.

    a and n - b estimate the same: they are weighted by the inverse of their variances.
    """
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), 4).reshape(2, 2)
    total = variance.sum(axis=1)
    return np.asarray(np.where(total > 0, variance[:, 1] / np.where(total > 0, total, 1.0), 1.0))


def estimated_risks(counts: FloatArray, law: NoiseLaw, totals: FloatArray | None) -> Risks:
    """Return the estimated risks."""
    variance = np.broadcast_to(np.asarray(law.variance, dtype=np.float64), 4).reshape(2, 2)
    events, others = counts[..., 0], counts[..., 1]
    if totals is not None:
        weight = _weights(law)
        size = totals
        risk = (weight * events + (1.0 - weight) * (totals - others)) / totals
        noise = (weight**2 * variance[:, 0] + (1.0 - weight) ** 2 * variance[:, 1]) / totals**2
    else:
        size = events + others
        safe = np.where(size > 0, size, 1.0)
        # a risk outside (0, 1) marks rows of which nothing can be said
        risk = np.where(size > 0, events / safe, 0.0)
        noise = ((1.0 - risk) ** 2 * variance[:, 0] + risk**2 * variance[:, 1]) / safe**2
    inside = np.clip(risk, 0.0, 1.0)
    return Risks(risk, noise, inside * (1.0 - inside) / np.where(size > 0, size, 1.0))


def exact_risks(
    counts: FloatArray, law: NoiseLaw, totals: FloatArray | None, risks: Risks, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends of the risks of both rows, (m, 2); inf and -inf where empty."""
    low, high = np.empty(risks.estimate.shape), np.empty(risks.estimate.shape)
    if totals is not None:
        weight = _weights(law)
        cells = np.zeros((2, 4))
        cells[0, :2], cells[1, 2:] = np.column_stack([weight, 1.0 - weight])
        reach = np.array([float(one.isf(alpha / 2)) for one in weighted_sums(cells, law)])
        # rounding must not take away an end that is attained
        half = reach / totals + ROUNDING * (np.abs(risks.estimate) + reach / totals)
        low = np.maximum(risks.estimate - half, 0.0)
        high = np.minimum(risks.estimate + half, 1.0)
        return np.where(low > high, np.inf, low), np.where(low > high, -np.inf, high)
    for row in range(2):
        laws = [law.take(2 * row + cell) if law.shape else law for cell in range(2)]
        sets = share_confint(
            counts[:, row, 0], counts[:, row, 1], mechanism=(laws[0], laws[1]), alpha=alpha
        ).restrict(lower=0.0, upper=1.0)
        low[:, row], high[:, row] = sets
    return low, high
