"""How well chains have mixed, as ArviZ computes it (Vehtari et al. 2021).

Draws that are independent, shown as one chain, need none of it: each is worth one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray

LARGEST_RHAT = 1.01
LEAST_ESS = 400.0

_ONE_ERROR = special.ndtr(np.array([-1.0, 1.0]))


def rhat(draws: NDArray[np.generic]) -> float:
    """Return the rank-normalised split R-hat of draws (chains, n); NaN of a constant."""
    split = _split(draws)
    folded = np.abs(split - np.median(split))
    return max(_rhat(_scores(split)), _rhat(_scores(folded)))


def ess_bulk(draws: NDArray[np.generic]) -> float:
    """Return the effective number of draws (chains, n) for their middle; NaN of a constant."""
    return _ess(_scores(_split(draws)))


def ess_tail(draws: NDArray[np.generic]) -> float:
    """Return the least effective number of draws for their 5 % and 95 % quantiles."""
    split = _split(draws)
    found = [_ess((split <= np.quantile(split, q)).astype(float)) for q in (0.05, 0.95)]
    known = [one for one in found if not np.isnan(one)]
    return min(known) if known else float("nan")


def mean_error(draws: NDArray[np.generic]) -> float:
    """Return the standard error of the mean of draws (chains, n)."""
    x = np.asarray(draws, dtype=np.float64)
    return float(x.std(ddof=1) / np.sqrt(_ess(_split(x))))


def quantile_error(draws: NDArray[np.generic], q: float, *, independent: bool = False) -> float:
    """Return the standard error of a quantile of draws (chains, n); 0 where it is certain.

    Half the range that the quantile has between the 15.9 % and the 84.1 % point of the beta law of
    the share of draws below it.
    """
    x = np.asarray(draws, dtype=np.float64)
    if not np.ptp(x):
        return 0.0
    below = x <= np.quantile(x, q)
    size = float(x.size) if independent else _ess(_split(below.astype(float)))
    if np.isnan(size):
        return 0.0
    ends = special.betaincinv(size * q + 1.0, size * (1.0 - q) + 1.0, _ONE_ERROR) * x.size - 1.0
    held = np.sort(x, axis=None)
    first, last = int(max(np.floor(ends[0]), 0)), int(min(np.ceil(ends[1]), x.size - 1))
    return float(0.5 * (held[last] - held[first]))


def _split(draws: NDArray[np.generic]) -> FloatArray:
    x = np.asarray(draws, dtype=np.float64)
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _scores(x: FloatArray) -> FloatArray:
    """Return normal scores of the ranks, of ties those of their mean rank."""
    _, number, count = np.unique(x, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - 0.5 * (count - 1))[number.reshape(x.shape)]
    return np.asarray(special.ndtri((rank - 0.375) / (x.size + 0.25)))


def _rhat(x: FloatArray) -> float:
    n = x.shape[1]
    within = float(np.mean(x.var(axis=1, ddof=1)))
    if not np.ptp(x):
        return float("nan")
    between = n * float(x.mean(axis=1).var(ddof=1))
    if within == 0:
        return float("inf")
    return float(np.sqrt((between / within + n - 1.0) / n))


def _ess(x: FloatArray) -> float:
    """Return the effective number of draws by Geyer's initial monotone sequence."""
    m, n = x.shape
    if not np.ptp(x):
        return float("nan")
    centred = x - x.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size, axis=1)
    power = np.fft.irfft(np.square(spectrum.real) + np.square(spectrum.imag), size, axis=1)
    lagged = power[:, :n].mean(axis=0) / n
    mean_var = lagged[0] * n / (n - 1.0)
    var_plus = lagged[0] + x.mean(axis=1).var(ddof=1)
    rho = 1.0 - (mean_var - lagged) / var_plus
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2)[: max((n - 1) // 2, 1)]
    falls = np.flatnonzero(pairs.sum(axis=1) < 0)
    last = int(falls[0]) if falls.size else len(pairs)
    kept = np.minimum.accumulate(pairs[:last].sum(axis=1))
    after = float(pairs[last, 0]) if last < len(pairs) else 0.0
    tau = -1.0 + 2.0 * float(kept.sum()) + max(after, 0.0)
    return float(m * n / max(tau, 1.0 / np.log10(m * n)))
