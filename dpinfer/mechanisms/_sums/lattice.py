"""Sums with atoms: on a lattice, in a table, or one part's against the tail of the other.

Windows keep logarithms of tails at several tilts, relatively accurate; the lattice of losses on
Poisson samples keeps masses at one, of a law that is spread on purpose, between bounds of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpinfer._check import FloatArray
from dpinfer._numerics.atoms import Atoms, AtomTails
from dpinfer._numerics.inversion import SaddleGrid
from dpinfer._numerics.lattice import GIVEN, masses, slices
from dpinfer.mechanisms._sums.contour import LatticeContour
from dpinfer.mechanisms._sums.terms import (
    Block,
    Route,
    Tails,
    Terms,
    atom_at,
    lattice_floor,
    quantiles,
)

BLOCK = 1 << 18

_TINY = 1e-300
"""Less than this is left out only by what floats cannot hold."""


class ConvolvedSum(Route):
    """S = A + B with A atomic: P(S > x) = Σ P(A = a)·P(B > x - a), a sum of positive terms.

    ``atoms``: places, increasing, and probabilities of A, which is log-concave; ``missing``: bound
    on the probability that A takes a value that is not listed; ``reach``: abs(A) exceeds it with
    probability 1e-17 at most; ``rest``: the law of B; ``grid``: of S, for brackets; ``spacing``: of
    the lattice of S; 0 if there is none.
    """

    name = "convolution"
    rounding = 1e-13

    def __init__(
        self,
        atoms: Atoms,
        missing: float,
        reach: float,
        rest: Tails,
        grid: SaddleGrid,
        spacing: float = 0.0,
    ) -> None:
        self._places, self._probabilities = atoms
        with np.errstate(divide="ignore"):  # probabilities may underflow
            self._logs = np.log(self._probabilities)
        self._missing = missing
        self._reach = reach
        self._rest = rest
        self._grid = grid
        self.spacing = spacing
        self.error_bound = missing + rest.error_bound + 2e-12
        self.floor = rest.floor + (missing if missing > _TINY else 0.0)

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        order = np.argsort(x)
        out = np.empty(x.shape)
        for part in slices(len(x), BLOCK // len(self._places)):
            some = order[part]
            out[some] = self._block(x[some], closed)
        with np.errstate(divide="ignore"):
            out = np.logaddexp(out, np.log(self._missing))
        return np.minimum(out, self._grid.log_chernoff(x))

    def _block(self, x: FloatArray, closed: bool) -> FloatArray:
        used = self._relevant(x[0], x[-1])
        distance = x[:, None] - self._places[used]
        with np.errstate(divide="ignore"):
            out = np.log(self._rest.tail(distance, closed=closed) @ self._probabilities[used])
        # far out, where the terms underflow
        deep = out < -600.0
        if deep.any():
            logs = self._rest.logtail(distance[deep], closed=closed) + self._logs[used]
            out[deep] = np.logaddexp.reduce(logs, axis=1)
        return out

    def log_mass(self, x: FloatArray) -> FloatArray | None:
        return self._mixed(x, self._rest.log_mass)

    def log_density(self, x: FloatArray) -> FloatArray | None:
        return self._mixed(x, self._rest.log_density)

    def _mixed(
        self, x: FloatArray, own: Callable[[FloatArray], FloatArray | None]
    ) -> FloatArray | None:
        out = np.empty(x.shape)
        for place, point in enumerate(x):
            used = self._relevant(point, point)
            logs = own(np.abs(point - self._places[used]))
            if logs is None:
                return None
            out[place] = np.logaddexp.reduce(logs + self._logs[used])
        return out

    def _relevant(self, low: float, high: float) -> slice:
        """Select the atoms that matter between two points: log-concave, the others add 1e-17."""
        start, stop = np.searchsorted(self._places, [-self._reach, high + self._reach])
        return slice(int(start), int(stop))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        """Smallest x with P(S > x) <= q, or < q if ``strict``.

        An atom where B has a lattice or is a table; otherwise from above, to 1e-13 relative.
        """
        step = self.spacing or self._rest.spacing
        low, high = _bracket(self, self._grid, q, tie=-1e-17, atol=0.4 * step)
        if self.spacing:
            return np.asarray(np.floor(high / self.spacing) * self.spacing)
        inside = np.flatnonzero(high > 0)
        if step:
            high[inside] = [
                self._last_atom(*ends, strict)
                for ends in zip(low[inside], high[inside], q[inside], strict=True)
            ]
        elif isinstance(self._rest, AtomTable):
            high[inside] = [self._atom_reached(x, self._rest) for x in high[inside]]
        return high

    def _atom_reached(self, x: float, table: AtomTable) -> float:
        """Find the atom that is counted from ``x`` on, for B a table: it is just above ``x``."""
        limit = x * (1.0 + 2e-13) + 2.0 * table.tolerance
        places = self._places[self._relevant(x, limit)]
        atom = float(np.max(places + table.last_place(limit - places)))
        return max(atom, x)

    def _last_atom(self, low: float, high: float, q: float, strict: bool) -> float:
        """Find the atom in (low, high] that is the quantile; B has at most one atom there."""
        ends = np.array([high, low])
        used = self._relevant(low, high)
        distance = ends[:, None] - self._places[used]
        tails = self._rest.tail(distance)
        jumps = (tails[1] - tails[0]) * self._probabilities[used]
        crossed = np.flatnonzero(jumps > 0)
        if not crossed.size:
            return high
        spacing = self._rest.spacing
        steps = lattice_floor(distance[0, crossed] / spacing, False)
        places = self._places[used][crossed] + steps * spacing
        order = np.argsort(-places)
        above = np.append(0.0, np.cumsum(jumps[crossed][order])[:-1])
        tail = np.exp(self.upper(ends[:1], closed=False)[0]) + above
        enough = np.flatnonzero(tail < q if strict else tail <= q)
        return float(places[order[enough[-1]]]) if enough.size else high


def _between(tails: FloatArray, edges: FloatArray) -> FloatArray:
    """Probabilities between neighbouring edges, by the tails at their sizes."""
    # both tails on one side of zero, so that small masses keep their accuracy
    apart = np.abs(np.diff(tails, axis=1))
    across = edges[:, 1:] * edges[:, :-1] < 0
    return np.where(across, 1.0 - tails[:, 1:] - tails[:, :-1], apart)


class SteppedSum(Route):
    """S = A + B with A continuous and narrow, B on a lattice and wide.

    P(S > x) = Σ_k P(x - A in [kh, (k+1)h))·P(B > kh), over the few cells that A reaches.
    """

    name = "convolution"

    def __init__(self, narrow: Tails, reach: float, wide: Tails, grid: SaddleGrid) -> None:
        self._narrow = narrow
        self._wide = wide
        cells = np.ceil(reach / wide.spacing)
        self._cells = np.arange(-cells - 1.0, cells + 1.0)
        self._grid = grid
        self.floor = self.error_bound = narrow.error_bound + wide.error_bound + 1e-15

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        h = self._wide.spacing
        out = np.empty(x.shape)
        for part in slices(len(x), BLOCK // len(self._cells)):
            some = x[part, None]
            k = np.floor(some / h) + self._cells
            edges = np.concatenate([some - k * h, some - (k[:, -1:] + 1.0) * h], axis=1)
            tails = self._narrow.tail(np.abs(edges))
            mass = _between(tails, edges)
            logs = self._wide.logtail(k * h)
            with np.errstate(divide="ignore"):
                out[part] = np.logaddexp.reduce(np.log(mass) + logs, axis=1)
        return out

    def log_density(self, x: FloatArray) -> FloatArray | None:
        places = (np.floor(x / self._wide.spacing)[:, None] + self._cells) * self._wide.spacing
        own = self._narrow.log_density(np.abs(x[:, None] - places).ravel())
        chance = self._wide.log_mass(np.abs(places).ravel())
        if own is None or chance is None:
            return None
        return np.asarray(np.logaddexp.reduce((own + chance).reshape(places.shape), axis=1))

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        return _bracket(self, self._grid, q)[1]


class PiecewiseSum(Route):
    """S = a·T + b·Z where T has a density in steps, and E[max(Z - y, 0)] is known.

    P(S > x) = Σ over the steps of their probability times the mean of P(Z > y) over an interval,
    which is a difference of that expectation: a sum of positive terms. It loses as many digits as
    b·(scale of Z)/a has.

    ``edges``, ``densities``: of the steps of T, upwards from 0; the law is symmetric; ``missing``:
    bound on the probability of the steps that are not listed; ``scales``: a and b; ``excess``:
    E[max(Z - y, 0)] at y >= 0; ``tail``: P(Z > y); ``grid``: of S, for brackets.
    """

    name = "steps"
    error_bound = 2e-12

    def __init__(
        self,
        edges: FloatArray,
        densities: FloatArray,
        missing: float,
        scales: tuple[float, float],
        excess: Callable[[FloatArray], FloatArray],
        tail: Callable[[FloatArray], FloatArray],
        grid: SaddleGrid,
    ) -> None:
        self._tail = tail
        self._edges = np.concatenate([-edges[:0:-1], edges])
        self._densities = np.concatenate([densities[::-1], densities])
        self._missing = missing
        self._scales = scales
        self._excess = excess
        self._grid = grid
        self.floor = missing

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        a, b = self._scales
        out = np.empty(x.shape)
        for part in slices(len(x), BLOCK // len(self._edges)):
            y = (x[part, None] - a * self._edges) / b
            # E[max(Z - y, 0)] = E[max(Z + y, 0)] - y for y < 0
            means = np.diff(self._excess(np.abs(y)), axis=1)
            means -= np.diff(np.minimum(y, 0.0), axis=1)
            out[part] = (b / a) * (means @ self._densities)
        with np.errstate(divide="ignore"):
            out = np.log(np.maximum(out, 0.0) + self._missing)
        far = out < np.log(self._missing + _TINY) + 1.0
        if self._missing and far.any():
            out[far] = np.minimum(out[far], self._grid.log_chernoff(x[far]))
        return out

    def log_density(self, x: FloatArray) -> FloatArray:
        a, b = self._scales
        out = np.empty(x.shape)
        for part in slices(len(x), BLOCK // len(self._edges)):
            y = (x[part, None] - a * self._edges) / b
            mass = _between(self._tail(np.abs(y)), y)
            with np.errstate(divide="ignore"):
                out[part] = np.log(mass @ self._densities / a)
        return out

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
        return np.minimum(_bracket(self, self._grid, q)[1], self.supremum)


def _bracket(
    route: Route, grid: SaddleGrid, q: FloatArray, *, tie: float = 0.0, atol: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    tail = partial(route.upper, closed=False)
    return quantiles(tail, q, grid.chernoff(q), tie=tie, atol=atol)


class AtomTable(Tails):
    """A purely atomic law as a sorted table of its atoms, which begin ``tolerance`` before them."""

    def __init__(self, atoms: Atoms, missing: float, *, tolerance: float) -> None:
        self._law = AtomTails(*atoms)
        self.tolerance = tolerance
        self.floor = self.error_bound = missing + 1e-14

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        shift = -self.tolerance if closed else self.tolerance
        with np.errstate(divide="ignore"):
            return np.log(self._law.upper(x + shift))

    def last_place(self, x: FloatArray) -> FloatArray:
        """Last atom that is at most ``x``; -inf where there is none."""
        at = np.searchsorted(self._law.values, x, side="right")
        return np.asarray(np.where(at > 0, self._law.values[at - 1], -np.inf))


# Sums of integer noises on a common lattice: tilted Fourier windows, accurate in the tails.


LOG_LOSS = 46.0
"""Mass exp(-46) = 1e-20, at most, is wrapped around at each end of a window."""

ACCURATE = np.log(1e4)
"""A window answers where its tail is within this factor of the largest: relative error 1e-11."""

PASSABLE = np.log(1e11)
"""The same between the peaks of a sparse lattice, where no tilt does better."""

SPARSE = np.log(1e5)
"""A tail this far below the most probable point, at each point of a window, is lost in rounding."""

LARGEST_WINDOW = 1 << 23
"""Far tails that take more points than this, half a gigabyte of memory, are bounded from above."""

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
        self, terms: Terms, spacing: float, *, atol: float = GIVEN, tabulated: bool = False
    ) -> None:
        self._terms = in_spacings(terms, spacing)
        self.spacing = spacing
        self._atol = atol
        self._grid = self._terms.grid
        self._windows: list[Window] = []
        self._window_at(0)
        takes = LatticeContour.takes(self._terms, 1.0)
        self._tail = LatticeContour(self._terms, 1.0, tabulated=tabulated) if takes else None

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        k = lattice_floor(x / self.spacing, closed, self._atol)
        # P(J > -1) = 1 - P(J > 0), the law being symmetric
        out = np.empty(k.shape)
        below = k < 0
        out[~below] = self._lookup(k[~below])
        if below.any():
            out[below] = np.log1p(-np.exp(self._lookup(np.zeros(1))))
        return out

    def log_mass(self, x: FloatArray) -> FloatArray:
        k, at_atom = atom_at(x / self.spacing, self._atol)
        out = np.where(at_atom & (k <= self._terms.supremum), np.nan, -np.inf)
        far = np.isnan(out) & (k > self._grid.slope[-1])
        out[far] = self._grid.log_chernoff(k[far])
        if self._tail is not None:
            far = np.isnan(out) & (k > self._windows[0].last)
            out[far] = self._tail.log_mass(k[far])
        for window in self._covering(out, k, 0.0):
            held = np.isnan(out) & (k >= window.first) & (k <= window.last)
            out[held] = window.logpmf[(k[held] - window.first).astype(np.intp)]
        return out

    def upper_isf(self, q: FloatArray, strict: bool) -> FloatArray:
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
            if window is None:
                far = pending[q[pending] <= q[pending[0]]]
                out[far], moved = np.ceil(self._grid.chernoff(q[far])), 0
                continue
            at = np.searchsorted(-window.logsf, -logq[pending], side="right" if strict else "left")
            inside = (at < len(window.logsf)) & ((at > 0) | (window.first == 0))
            out[pending[inside]] = at[inside] + window.first
            # where the first one pending is not in this window, it is in a neighbour
            moved = 0 if inside[0] else (-1 if at[0] == 0 else 1)
            k = window.first - 1 if moved < 0 else window.last + 1
        return out * self.spacing

    def atoms(self) -> tuple[FloatArray, FloatArray, float]:
        k, pmf = tilted_pmf(self._terms, 0.0)
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
        for window in self._covering(out, k, 1.0):
            held = np.isnan(out) & (k >= window.first) & (k <= window.last)
            out[held] = window.logsf[(k[held] - window.first).astype(np.intp)]
        return out

    def _covering(self, out: FloatArray, k: FloatArray, beyond: float) -> Iterator[Window]:
        """Yield windows until none is missing, or Chernoff's bound, so far beyond, is what is left.

        A caller fills in what each window holds.
        """
        yield from tuple(self._windows)
        while (missing := np.isnan(out)).any():
            window = self._window_at(int(np.min(k[missing])))
            if window is None:
                out[missing] = self._grid.log_chernoff(k[missing] + beyond)
            else:
                yield window

    def _window_at(self, k: int) -> Window | None:
        for window in self._windows:
            if window.first <= k <= window.last:
                return window
        for window in self._candidates(k):
            if window.first <= k <= window.last:
                self._windows.append(window)
                return window
        return None

    def _candidates(self, k: int) -> Iterator[Window]:
        if not self._windows:
            yield self._window(0.0)
        mean = max(float(k), 1.0)
        spread = self._grid.spread_at(self._grid.tilt_at(mean))
        # first try a window that begins near k, so that few windows cover a range
        for shift, keep in ((2.5, None), (1.0, None), (0.0, k)):
            tilt = self._grid.tilt_at(mean + shift * spread)
            first, last = _extent(self._terms, tilt)
            if last - first < LARGEST_WINDOW:
                yield self._window(tilt, keep)

    def _window(self, tilt: float, keep: int | None = None) -> Window:
        """Compute the window of one tilt: where it is accurate, and at ``keep`` if given."""
        k, tilted = tilted_pmf(self._terms, tilt)
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


class LatticeTable(Tails):
    """The same for very many points: one table, of which far tails are not accurate relatively.

    Places are found by arithmetic, 1.3 to 1.7 times as fast as a search among the same atoms.
    """

    error_bound = floor = 1e-13

    def __init__(self, terms: Terms, spacing: float, *, atol: float) -> None:
        k, pmf = tilted_pmf(in_spacings(terms, spacing), 0.0)
        # P(J > k) from k = -1 on; rounding errors have mean 0 and must not make it rise
        tails = np.cumsum(np.append(pmf[k >= 0], 0.0)[::-1])
        self._tails = np.maximum.accumulate(tails)[::-1]
        self.spacing = spacing
        self._atol = atol

    def upper(self, x: FloatArray, closed: bool) -> FloatArray:
        k = lattice_floor(x / self.spacing, closed, self._atol)
        at = np.minimum(k + 1.0, len(self._tails) - 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._tails[at.astype(np.intp)]))


def in_spacings(terms: Terms, spacing: float) -> Terms:
    """Return the terms with the whole numbers of spacings that their weights are."""
    return Terms(
        Block(block.law, np.rint(block.weights / spacing), block.counts) for block in terms.blocks
    )


def tilted_pmf(terms: Terms, tilt: float) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the tilted law, with rounding errors near 1e-18, some below 0."""
    from scipy.fft import next_fast_len

    first, last = _extent(terms, tilt)
    size = int(next_fast_len(last - first + 1, real=True))
    t = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.conj(terms.tilted_cf(t, tilt)) if tilt else terms.cf(t)
    return np.arange(first, first + size, dtype=np.float64), masses(transform, size, first)


def _extent(terms: Terms, tilt: float) -> tuple[int, int]:
    """First and last point of all but a negligible part of the tilted law."""
    end = terms.supremum
    low, high = np.clip(terms.grid.tilted_range(tilt, LOG_LOSS), -end, end)
    return int(np.floor(low)), int(np.ceil(high))


def _run_above(level: FloatArray, depth: float) -> slice:
    """Find the run of entries around the largest that are at most ``depth`` below it."""
    top = int(np.argmax(level))
    good = level >= level[top] - depth
    start = top - int(np.argmin(good[top::-1])) + 1 if not good[: top + 1].all() else 0
    stop = top + int(np.argmin(good[top:])) if not good[top:].all() else len(good)
    return slice(start, stop)
