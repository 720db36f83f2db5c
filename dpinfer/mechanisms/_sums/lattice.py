"""Sums of integer noises on a common lattice: tilted Fourier windows, accurate in the tails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpinfer._numerics.saddle import SaddleGrid
from dpinfer._validation import FloatArray
from dpinfer.mechanisms._sums.contour import LatticeContour, TabulatedLatticeContour
from dpinfer.mechanisms._sums.route import ATOM_ATOL, Route, lattice_floor
from dpinfer.mechanisms._sums.terms import Block, Terms

LOG_LOSS = 46.0
"""Mass exp(-46) = 1e-20, at most, is wrapped around at each end of a window."""

ACCURATE = np.log(1e4)
"""A window answers where its tail is within this factor of the largest: relative error 1e-11."""

PASSABLE = np.log(1e11)
"""The same between the peaks of a sparse lattice, where no tilt does better."""

SPARSE = np.log(1e5)
"""A tail this far below the most probable point, at each point of a window, is lost in rounding."""

NOISE = 1e-19
"""Probabilities below this are rounding errors."""


@dataclass(frozen=True)
class Window:
    """log P(J > k) and log P(J = k) at consecutive k, from ``first``."""

    first: int
    logsf: FloatArray
    logpmf: FloatArray

    @property
    def last(self) -> int:
        """Last k of the window."""
        return self.first + len(self.logsf) - 1


class LatticeSum(Route):
    """S = spacing·J with J a whole number, by inversion of tilted characteristic functions.

    The discrete Fourier transform of E[exp((θ + it)J)]/E[exp(θJ)] gives the probabilities of
    the tilted law with an absolute error near 1e-16; undoing the tilt turns that into a relative
    error around the tilted mean. Windows are made where they are asked for, and kept.
    """

    name = "lattice"
    error_bound = 1e-12

    def __init__(
        self, terms: Terms, spacing: float, *, atol: float = ATOM_ATOL, tabulated: bool = False
    ) -> None:
        self._terms = in_spacings(terms, spacing)
        self.spacing = spacing
        self._atol = atol
        self._grid = SaddleGrid(self._terms.cgf, self._terms.abscissa, self._terms.std)
        self._windows: list[Window] = []
        self._window_at(0)
        contour = TabulatedLatticeContour if tabulated else LatticeContour
        takes = LatticeContour.takes(self._terms, 1.0)
        self._tail = contour(self._terms, 1.0) if takes else None

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``, at finite x >= 0."""
        k = lattice_floor(x / self.spacing, closed, self._atol)
        # P(J > -1) = 1 - P(J > 0), the law being symmetric
        out = np.empty(k.shape)
        below = k < 0
        out[~below] = self._lookup(k[~below])
        if below.any():
            out[below] = np.log1p(-np.exp(self._lookup(np.zeros(1))))
        return out

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``."""
        logq = np.log(q)
        out = np.full(q.shape, np.nan)
        if self._tail is not None:
            far = logq < self._windows[0].logsf[-1]
            far &= self._windows[0].last >= LatticeContour.SAFE_FROM
            if far.any():
                out[far] = self._tail.upper_isf(q[far], strict)
        moved = 0
        while (pending := np.flatnonzero(np.isnan(out))).size:
            if moved == 0:
                k = int(self._grid.quantile_guess(float(q[pending[0]])))
            window = self._window_at(k)
            at = np.searchsorted(-window.logsf, -logq[pending], side="right" if strict else "left")
            inside = (at < len(window.logsf)) & ((at > 0) | (window.first == 0))
            out[pending[inside]] = at[inside] + window.first
            # where the first one pending is not in this window, it is in a neighbour
            moved = 0 if inside[0] else (-1 if at[0] == 0 else 1)
            k = window.first - 1 if moved < 0 else window.last + 1
        return out * self.spacing

    def atoms(self) -> tuple[FloatArray, FloatArray, float]:
        """Atoms, their probabilities, and a bound on the probability that is left out."""
        k, pmf = tilted_pmf(self._terms, self._grid, 0.0)
        kept = pmf > NOISE
        missing = 2.0 * np.exp(-LOG_LOSS) + NOISE * len(k)
        return k[kept] * self.spacing, pmf[kept], float(missing)

    def _lookup(self, k: FloatArray) -> FloatArray:
        """Log P(J > k) at whole numbers k >= 0."""
        out = np.full(k.shape, np.nan)
        far = k > self._grid.slope[-1]
        out[far] = self._grid.log_chernoff(k[far] + 1.0)
        out[k >= self._terms.supremum] = -np.inf
        if self._tail is not None:
            far = (k > self._windows[0].last) & (k >= LatticeContour.SAFE_FROM) & ~far
            out[far] = self._tail.upper(k[far], closed=False)
        for window in self._covering(out, k):
            held = np.isnan(out) & (k >= window.first) & (k <= window.last)
            out[held] = window.logsf[(k[held] - window.first).astype(np.intp)]
        return out

    def _covering(self, out: FloatArray, k: FloatArray) -> Iterator[Window]:
        """Yield windows, the ones at hand first, until every entry is filled."""
        yield from tuple(self._windows)
        while (missing := np.isnan(out)).any():
            yield self._window_at(int(np.min(k[missing])))

    def _window_at(self, k: int) -> Window:
        """Return a window that holds k."""
        for window in self._windows:
            if window.first <= k <= window.last:
                return window
        window = next(window for window in self._candidates(k) if window.first <= k <= window.last)
        self._windows.append(window)
        return window

    def _candidates(self, k: int) -> Iterator[Window]:
        """Yield windows around k, the last of which holds it."""
        if not self._windows:
            yield self._window(0.0)
        mean = max(float(k), 1.0)
        spread = self._grid.spread_at(self._grid.tilt_at(mean))
        # first try a window that begins near k, so that few windows cover a range
        for shift in (2.5, 1.0):
            yield self._window(self._grid.tilt_at(mean + shift * spread))
        yield self._window(self._grid.tilt_at(mean), k)

    def _window(self, tilt: float, keep: int | None = None) -> Window:
        """Compute the window of one tilt: where it is accurate, and at ``keep`` if given."""
        k, tilted = tilted_pmf(self._terms, self._grid, tilt)
        with np.errstate(divide="ignore"):
            logpmf = np.log(np.maximum(tilted, 0.0)) + self._grid.log_mgf(tilt) - tilt * k
        logtail = np.logaddexp.accumulate(logpmf[::-1])[::-1]
        # the tail at k leaves out k itself
        k, logsf, logpmf = k[:-1], logtail[1:], logpmf[:-1]
        level = np.where(k >= 0, logsf + tilt * k, -np.inf)
        accurate = _run_above(level, ACCURATE if keep is None else PASSABLE)
        if keep is not None:
            at = keep - int(k[0])
            accurate = slice(min(accurate.start, at), max(accurate.stop, at + 1))
        elif level.max() + tilt < np.max(logpmf + tilt * k) - SPARSE:
            # even P(J > k) ≈ P(J = k + 1), next to the peak of the tilted law, is too small
            accurate = slice(0, 0)
        return Window(int(k[accurate.start]), logsf[accurate], logpmf[accurate])


class LatticeTable(Route):
    """The same for very many points: one table, of which far tails are not accurate relatively."""

    name = "table"
    error_bound = floor = 1e-13

    def __init__(self, terms: Terms, spacing: float, *, atol: float) -> None:
        unit = in_spacings(terms, spacing)
        grid = SaddleGrid(unit.cgf, unit.abscissa, unit.std)
        k, pmf = tilted_pmf(unit, grid, 0.0)
        # P(J > k) from k = -1 on; rounding errors have mean 0 and must not make it rise
        tails = np.cumsum(np.append(pmf[k >= 0], 0.0)[::-1])
        self._tails = np.maximum.accumulate(tails)[::-1]
        self.spacing = spacing
        self._atol = atol

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        """Log P(S > x), or log P(S >= x) if ``closed``, at finite x >= 0."""
        k = lattice_floor(x / self.spacing, closed, self._atol)
        at = np.minimum(k + 1.0, len(self._tails) - 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._tails[at.astype(np.intp)]))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``."""
        at = np.searchsorted(-self._tails, -q, side="right" if strict else "left")
        return np.asarray(np.maximum(at - 1.0, 0.0) * self.spacing)


def in_spacings(terms: Terms, spacing: float) -> Terms:
    """Return the terms with the whole numbers of spacings that their weights are."""
    return Terms(
        Block(block.law, np.rint(block.weights / spacing), block.counts) for block in terms.blocks
    )


def tilted_pmf(terms: Terms, grid: SaddleGrid, tilt: float) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the tilted law, with rounding errors near 1e-18, some below 0."""
    from scipy.fft import irfft, next_fast_len

    end = terms.supremum
    low, high = np.clip(grid.tilted_range(tilt, LOG_LOSS), -end, end)
    first = int(np.floor(low))
    size = int(next_fast_len(int(np.ceil(high)) - first + 1, real=True))
    t = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.conj(terms.tilted_cf(t, tilt)) if tilt else terms.cf(t)
    pmf = np.roll(np.asarray(irfft(transform, size)), -(first % size))
    return np.arange(first, first + size, dtype=np.float64), pmf


def _run_above(level: FloatArray, depth: float) -> slice:
    """Find the run of entries around the largest that are at most ``depth`` below it."""
    top = int(np.argmax(level))
    good = level >= level[top] - depth
    start = top - int(np.argmin(good[top::-1])) + 1 if not good[: top + 1].all() else 0
    stop = top + int(np.argmin(good[top:])) if not good[top:].all() else len(good)
    return slice(start, stop)
