"""Tails of counts with Gaussian noise row by row, each computed or shared with others.

Of many rows that share all but n and t, tails are interpolated: the integrals that give them are
analytic in n and t. Beside narrow noise, what recurs with the period 2πi of E[exp(zX)] is one such
integral for each period, and a wave in the fraction of t; where X varies too little for that, rows
around one whole number share the sums over the reach of the noise, as polynomials in t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval

from dpinfer._check import FloatArray
from dpinfer.mechanisms._gaussian_lines import (
    LINES,
    MANY,
    NARROW,
    NARROWEST,
    GaussianNoise,
    Lines,
    between,
    chebyshev,
    circle,
    polynomials,
    reach_of,
    sums_at,
    tail_ratio,
    taken,
    within,
)
from dpinfer.mechanisms._row_tails import Counts, Fall, Rows, Trials

_HOPELESS = 40.0

_FURTHEST = 3.0
_LEAST = 1e-3
"""Both tails are found as the rest of the whole up to so many standard deviations, from here on."""


def gaussian_tail(
    counts: Counts, noise: GaussianNoise, t: FloatArray, side: FloatArray
) -> FloatArray:
    """P(T >= t) (side 1) or P(T <= t) (side -1); t whole where the noise is."""
    sigma = np.broadcast_to(np.asarray(noise.sigma, dtype=np.float64), t.shape)
    excess = counts.excess(t)
    # of the two tails the smaller one is computed
    other = side * excess < 0.0
    if other.any():
        step = np.where(other, side, 0.0) * float(noise.is_integer)
        t, excess = t - step, excess - step
    sign = np.where(other, -side, side)
    # so far beyond all counts the noise alone is 0 in floats
    nothing = np.where(sign > 0.0, t - counts.last, -t) > _HOPELESS * sigma
    if nothing.any():
        t, excess = np.where(nothing, t - excess, t), np.where(nothing, 0.0, excess)
    tail = _smooth_tail(counts, noise, sigma, t, excess, sign)
    with np.errstate(all="ignore"):
        left = np.flatnonzero(np.isnan(tail))
        beyond = np.full(t.size, np.nan)
        beyond[left] = _beyond_reach(Lines(counts, sigma, t, excess, sign).take(left))
        for start in range(0, left.size, LINES):
            rows = left[start : start + LINES]
            lines = Lines(counts.take(rows), sigma[rows], t[rows], excess[rows], sign[rows])
            narrow, up = sigma[rows] < NARROW, sign[rows] > 0.0
            for chosen in (~narrow, narrow & up, narrow & ~up):
                if chosen.any():
                    at = np.flatnonzero(chosen)
                    some, law = lines.take(at), taken(noise, rows[at])
                    if narrow[at[0]]:
                        tail[rows[at]] = some.by_terms(law, beyond[rows[at]])
                    else:
                        tail[rows[at]] = some.by_rule(law)
    tail = np.where(nothing, 0.0, tail)
    return np.where(other, 1.0 - tail, tail)


def gaussian_outside(
    counts: Counts, noise: GaussianNoise, low: FloatArray, high: FloatArray
) -> FloatArray:
    """P(T <= low) + P(T >= high), as exact as :func:`gaussian_tail`; whole ends as there."""
    sigma = np.broadcast_to(np.asarray(noise.sigma, dtype=np.float64), low.shape)
    left, right = counts.excess(low), counts.excess(high)
    lower, upper = (
        _smooth_tail(counts, noise, sigma, t, np.where(side * excess >= 0.0, excess, np.nan), side)
        for side, t, excess in (
            (-np.ones(low.size), low, left),
            (np.ones(low.size), high, right),
        )
    )
    outside = lower + upper
    spread = np.sqrt(np.square(sigma) + counts.variance)
    near = (np.maximum(-left, right) <= _FURTHEST * spread) & (right >= left)
    near &= np.isnan(outside)
    wide, many = sigma >= NARROW, counts.variance >= MANY
    waves = ~wide & (sigma >= NARROWEST) & many & (not noise.is_integer)
    with np.errstate(all="ignore"):
        for chosen in (wide, waves):
            inner = np.flatnonzero(near & chosen)
            for start in range(0, inner.size, LINES):
                rows = inner[start : start + LINES]
                own, ends = (counts.take(rows), sigma[rows]), (left[rows], right[rows])
                if chosen is wide:
                    both = 1.0 - within(*own, *ends, noise.is_integer)
                else:
                    whole = np.round(0.5 * (low[rows] + high[rows]))
                    part = 0.5 * ((low[rows] - whole) + (high[rows] - whole))
                    both = 1.0 - between(*own, *ends, part)
                outside[rows] = np.where(both >= _LEAST, both, np.nan)
    rest = np.flatnonzero(np.isnan(outside))
    if rest.size:
        some, law, one = counts.take(rest), taken(noise, rest), np.ones(rest.size)
        outside[rest] = gaussian_tail(some, law, low[rest], -one)
        outside[rest] += gaussian_tail(some, law, high[rest], one)
    return outside


# Rows that differ in their number of trials, or rate, and their t only.

_WORTHWHILE = 1 << 12
"""Fewer rows are not looked through for those that are interpolated."""

_DEGREES = 12, 22
"""Chebyshev nodes along half an octave of n and along two units of the distance."""

_SLICES, _DEEP, _CELLS = 2.0, 2.0, 4

_NARROWEST_SMOOTH = 0.3
_NO_TURN = 1.9
"""Beyond m = √(this/σ²), what turns m times, as exp(-2π²σ²m²) at most, is below 1e-16."""

_UNRESOLVED, _NEGLIGIBLE = 1e-14, 1e-16
"""Where the last coefficients are larger than so much of the least value, none is interpolated.

They fall by a factor of ten or more from one to the next, or are rounding.
"""

_BREAK_EVEN = 1.3

_LITTLE, _DEGREES_AT_PLACES, _BREAK_EVEN_AT_PLACES = 64.0, 20, 3.0
"""Where X varies less than this, places are gone through; nodes along n, and rows for each."""

Method = Callable[[Counts, FloatArray, FloatArray], FloatArray]


def _is_shared(counts: Counts, sigma: FloatArray) -> bool:
    if sigma.size < _WORTHWHILE or not counts[0].ndim:
        return False
    return all(bool((x == x.flat[0]).all()) for x in (*counts[1:], sigma))


def _by_surface(
    counts: Counts,
    variance: float,
    z: FloatArray,
    sign: FloatArray,
    method: Method,
    waves: Sequence[FloatArray] = (),
) -> FloatArray:
    """Interpolate in n, which need not be whole, and in z = distance/spread; NaN where not.

    Transforms and integrals of counts are analytic in both. Chebyshev's polynomials of two
    variables serve all rows of half an octave of n and two units of z, where these are many, and
    where the last coefficients show that the degrees suffice. Where the method has several values,
    the first is by far the largest; they are added up, with ``waves`` as their factors.
    """
    found = np.full(z.size, np.nan)
    shared = [x.ravel()[0, ...] for x in counts[1:]]
    place, depth = _SLICES * np.log2(counts[0]), z / _DEEP
    low, step = np.floor(place), np.floor(depth)
    suits = (z >= 0.0) & (z < _CELLS * _DEEP) & (low >= 0.0) & (low < 1e3)
    key = np.where(suits, (low * _CELLS + step) * 2.0 + (sign > 0.0), -1.0).astype(np.int16)
    order = np.argsort(key, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(key[order])) + 1, key.size)
    (along, fit), (across, fit_across) = map(chebyshev, _DEGREES)
    for cell in np.split(order, ends[:-1]):
        one = cell[0]
        if cell.size < _BREAK_EVEN * along.size * across.size or not suits[one]:
            continue
        grid = 2.0 ** ((low[one] + 0.5 * (1.0 + along)) / _SLICES)
        law = type(counts)(np.repeat(grid, across.size), *shared)
        distance = np.tile(_DEEP * (step[one] + 0.5 * (1.0 + across)), along.size)
        distance *= np.sqrt(law.variance + variance)
        values = method(law, distance, np.full(distance.size, sign[one]))
        values = values.reshape(-1, along.size, across.size)
        tables, least = fit @ values @ fit_across.T, values[0].min()
        last = max(np.abs(tables[:, -1]).max(), np.abs(tables[:, :, -1]).max())
        if not last < _UNRESOLVED * least:
            continue
        short = [_shortened(table.T, _NEGLIGIBLE * least) for table in tables]
        for start in range(0, cell.size, LINES):
            rows = cell[start : start + LINES]
            u, w = 2.0 * (place[rows] - low[one]) - 1.0, 2.0 * (depth[rows] - step[one]) - 1.0
            terms = polynomials(u, along.size)
            total = chebval(w, sums_at(short[0], terms), tensor=False)
            for wave, table in zip(waves, short[1:], strict=True):
                if table.size:
                    total += wave[rows] * chebval(w, sums_at(table, terms), tensor=False)
            found[rows] = total
    return found


class _Place(NamedTuple):
    """Rows with like n whose t is nearest to one whole number, and the n that give their tails."""

    rows: Rows
    nodes: FloatArray
    whole: bool

    @classmethod
    def of(cls, rows: Rows, n: FloatArray, low: float, unit: float) -> _Place:
        along, least = chebyshev(_DEGREES_AT_PLACES)[0], n.min()
        if n.max() - least < along.size and (n == np.rint(n)).all():
            return cls(rows, np.arange(least, n.max() + 1.0), whole=True)
        return cls(rows, np.square((low + 0.5 * (1.0 + along)) / unit), whole=False)

    @property
    def is_worthwhile(self) -> bool:
        return self.rows.size >= _BREAK_EVEN_AT_PLACES * self.nodes.size

    def interpolated(self, tables: FloatArray, scale: FloatArray) -> FloatArray:
        """Return tables of coefficients as they are, for whole n, or scaled and fitted, or NaN."""
        if self.whole:
            return tables
        tables = tables * scale
        least = chebval(chebyshev(len(tables))[0][:, np.newaxis], tables, tensor=False).min()
        tables = tables @ chebyshev(_DEGREES_AT_PLACES)[1].T
        return tables if np.abs(tables[:, -1]).max() < _UNRESOLVED * least else tables * np.nan

    def terms(self, table: FloatArray, n: FloatArray, u: FloatArray) -> FloatArray:
        """Return coefficients for each row, (degrees, m)."""
        if self.whole:
            return table[:, (n - self.nodes[0]).astype(np.intp)]
        return sums_at(table, polynomials(u, _DEGREES_AT_PLACES))


def _by_places(
    counts: Counts,
    noise: GaussianNoise,
    middle: FloatArray,
    part: FloatArray,
    excess: FloatArray,
    sign: FloatArray,
) -> FloatArray:
    """Tails beside narrow noise where X varies little, at t = middle + part; or NaN.

    Rows of like n and one whole number ``middle`` nearest to t share the sums over the reach of the
    noise, which are polynomials in t: for each n where these are few whole numbers, or else
    interpolated in n, over what P(X = middle) falls by, where the last coefficients show that the
    degree suffices.
    """
    if isinstance(counts, Trials) and counts.p.flat[0] > 0.5:
        # few rows with a number of successes in common may have one of failures
        failures = Trials(counts.n, counts.q, counts.p)
        return _by_places(failures, noise, counts.n - middle, -part, -excess, -sign)
    found, variance = np.full(part.size, np.nan), counts.variance
    suits = (sign * excess >= 0.0) & (variance > 0.0) & (variance < _LITTLE)
    at = np.flatnonzero(suits & (middle >= 0.0) & (middle <= counts.last))
    if at.size < _WORTHWHILE:
        return found
    # with a step of one, the mean moves by about the standard deviation of X
    one = counts.take(at[:1])
    unit = (2.0 * one.mean / np.sqrt(one.variance * one[0]))[0]
    depth = unit * np.sqrt(counts[0][at])
    low, k, up = np.floor(depth), middle[at], sign[at] > 0.0
    key = (low * (k.max() + 1.0) + k) * 2.0 + up
    order = np.argsort(key, kind="stable")
    places = [
        _Place.of(cell, counts[0][at[cell]], low[cell[0]], unit)
        for cell in np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
    ]
    places = [place for place in places if place.is_worthwhile]
    if not places:
        return found
    sizes = [place.nodes.size for place in places]
    first = np.repeat([place.rows[0] for place in places], sizes)
    nodes = np.concatenate([place.nodes for place in places])
    law = type(counts)(nodes, *(x.ravel()[0, ...] for x in counts[1:]))
    noise = noise._take(np.zeros(1, dtype=np.intp)) if noise.shape else noise
    away, sigma = law.excess(k[first]), np.full(nodes.size, np.ravel(noise.sigma)[0])
    tables = Lines(law, sigma, k[first], away, sign[at][first]).polynomials(noise)
    scale = np.exp(law.log_decline(away))
    for place, end in zip(places, np.cumsum(sizes), strict=True):
        own = slice(end - place.nodes.size, end)
        table = place.interpolated(tables[:, own], scale[own])
        for start in range(0, place.rows.size, LINES):
            some = place.rows[start : start + LINES]
            rows = at[some]
            u = 2.0 * (depth[some] - low[some]) - 1.0
            terms = place.terms(table, counts[0][rows], u)
            tail = chebval(2.0 * sign[rows] * part[rows], terms, tensor=False)
            if not place.whole:
                tail *= np.exp(-counts.take(rows).log_decline(excess[rows] - part[rows]))
            found[rows] = tail
    return found


def _shortened(table: FloatArray, negligible: float) -> FloatArray:
    """Leave out the last degrees that are negligible."""
    rows, columns = (np.abs(table) > negligible).nonzero()
    return table[: rows.max(initial=-1) + 1, : columns.max(initial=-1) + 1]


def _smooth_tail(
    counts: Counts,
    noise: GaussianNoise,
    sigma: FloatArray,
    t: FloatArray,
    excess: FloatArray,
    sign: FloatArray,
) -> FloatArray:
    """Tails where many rows share the noise, and sums or integrals of others serve them; or NaN."""
    if not _is_shared(counts, sigma) or sigma[0] < _NARROWEST_SMOOTH:
        return np.full(sigma.size, np.nan)
    with np.errstate(all="ignore"):
        found = _by_integrals(counts, noise, float(sigma[0]), t, excess, sign)
        left, middle = np.flatnonzero(np.isnan(found)), np.rint(t)
        if left.size and sigma[0] < NARROW:
            some = middle[left], (t - middle)[left], excess[left], sign[left]
            found[left] = _by_places(counts.take(left), noise, *some)
        return found


def _by_integrals(
    counts: Counts,
    noise: GaussianNoise,
    sigma: float,
    t: FloatArray,
    excess: FloatArray,
    sign: FloatArray,
) -> FloatArray:
    """Interpolate integrals on a vertical line, one for each period that matters; or NaN."""
    variance, narrow = sigma * sigma, sigma < NARROW
    turns = int(np.sqrt(_NO_TURN / variance)) if narrow else 0
    # cosines and sines of m times 2πt
    waves: list[FloatArray] = []
    if turns and not noise.is_integer:
        cosine, sine = circle(2.0 * np.pi * (sign * (t - np.rint(t))))
        waves = [cosine, sine]
        while len(waves) < 2 * turns:
            x, y = waves[-2:]
            waves += [x * cosine - y * sine, x * sine + y * cosine]

    def method(law: Counts, distance: FloatArray, sign: FloatArray) -> FloatArray:
        away, own = sign * distance, np.full(distance.size, sigma)
        lines = Lines(law, own, law.mean + away, away, sign)
        found = lines.by_turns(noise, turns) if narrow else lines.by_rule(noise)
        return found * np.exp(0.5 * np.square(distance) / (law.variance + variance))

    z = sign * excess / np.sqrt(counts.variance + variance)
    return _by_surface(counts, variance, z, sign, method, waves) * np.exp(-0.5 * np.square(z))


def _beyond_reach(lines: Lines) -> FloatArray:
    """P(X beyond the reach of narrow noise around t)/P(X = the last within)."""
    counts, sigma, t, excess, sign = lines

    def method(law: Counts, distance: FloatArray, sign: FloatArray) -> FloatArray:
        away = sign * distance
        return tail_ratio(law, law.mean + away, away, sign, Fall._integral)

    narrow = sigma < NARROW
    found = np.full(t.size, np.nan)
    if narrow.all() and _is_shared(counts, sigma):
        away = sign * (excess + (np.rint(t) - t)) + reach_of(sigma)
        found = _by_surface(counts, 0.0, away / np.sqrt(counts.variance), sign, method)
    left = np.flatnonzero(np.isnan(found) & narrow)
    for start in range(0, left.size, LINES):
        rows = left[start : start + LINES]
        law, end = counts.take(rows), np.rint(t[rows]) + sign[rows] * reach_of(sigma[rows])
        found[rows] = tail_ratio(law, end, law.excess(end), sign[rows], Fall.value)
    return found
