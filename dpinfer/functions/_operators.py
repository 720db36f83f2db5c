"""Operators T with E T(f + e) = g(f) for every confidential count f: stencils and series.

Two-sided geometric noise of variance v has 1/E exp(te) = 1 - (v/2)(exp(t) - 2 + exp(-t)), so that
T = g(y) - (v/2)(g(y-1) - 2g(y) + g(y+1)); Laplace noise has 1 - b²t², and T = g - b²g'' for any
function with an absolutely continuous g' that has the right values at whole numbers: cubics between
them. Where counts are known to be >= L, all y <= L say the same about them, as the likelihoods of
any two counts have one ratio there: T is constant below L, and needs g at L and beyond only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from dpinfer._check import FloatArray, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import Exact, Geometric, Laplace
from dpinfer.releases.values import NoisyValues, row_name

LARGEST = 2**50
"""Beyond it, neighbours of a whole number are no longer told apart."""

_ANGLES = np.exp(2j * np.pi * (np.arange(16) + 0.5) / 64.0)
"""A quarter of the circle on which cumulants are found, by symmetry all of it."""

Found = tuple[FloatArray, FloatArray, FloatArray]
"""The estimates, their estimated variances, and what plugging in gives, each (m,)."""


class Stencil(NamedTuple):
    """T(y) = Σ wⱼ g(kⱼ), with weights that add up to 1."""

    nodes: FloatArray  # shape (m, j)
    weights: FloatArray  # shape (m, j)
    centre: FloatArray  # shape (m,): the possible count next to y


def stencil_of(x: NoisyValues, lower: float | None) -> Stencil:
    """Return the stencils for noisy values, each of which has one noise of its own."""
    at = int(np.abs(x.values).argmax())
    if abs(x.values[at]) > LARGEST:
        raise InvalidParameterError(
            f"{x.name} must be at most 2**50 in size, got {x.values[at]:g}{row_name(at, x)}"
        )
    floor = -np.inf if lower is None else lower
    nodes, weights = np.zeros((len(x), 4)), np.zeros((len(x), 4))
    centre = np.maximum(x.values, floor)
    for law, cells in x.laws():
        y = x.values[cells]
        if isinstance(law, Exact):
            _refuse_below(x, cells[y < floor], floor)
            nodes[cells], weights[cells] = y[:, np.newaxis], np.eye(4)[0]
        elif isinstance(law, Geometric):
            nodes[cells], weights[cells] = _geometric(y, np.asarray(law.variance), law, floor)
        elif isinstance(law, Laplace):
            nodes[cells], weights[cells] = _laplace(y, np.asarray(law.scale), floor)
            centre[cells] = np.rint(centre[cells])
        else:
            raise InvalidParameterError(
                "unbiased has estimates of any function under two-sided geometric and Laplace "
                f"noise only, got {show(law)}: under other laws give a numpy Polynomial or "
                "functions.Exponential, as no unbiased estimate of functions with kinks or poles "
                "exists, or use functions.function_confint with method='bound' or 'simulate'"
            )
    return Stencil(nodes, weights, centre)


def _refuse_below(x: NoisyValues, cells: Any, floor: float) -> None:
    if len(cells):
        raise InvalidParameterError(
            f"{x.name} must be >= lower={floor:g} where there is no noise, got "
            f"{x.values[cells[0]]:g}{row_name(int(cells[0]), x)}"
        )


def _geometric(
    y: FloatArray, variance: FloatArray, law: Geometric, floor: float
) -> tuple[FloatArray, FloatArray]:
    half = np.broadcast_to(0.5 * variance, y.shape)
    beyond = y > floor
    # a/(1-a): below the bound g goes on as c + B a^(L-y), with T = c
    odds = np.broadcast_to(1.0 / np.expm1(1.0 / np.asarray(law.scale)), y.shape)
    first = np.where(beyond, y - 1.0, floor)
    nodes = first[:, np.newaxis] + np.array([0.0, 1.0, 2.0, 0.0])
    inside = np.column_stack([-half, 1.0 + 2.0 * half, -half, np.zeros(y.size)])
    below = np.column_stack([1.0 + odds, -odds, np.zeros((y.size, 2))])
    return nodes, np.where(beyond[:, np.newaxis], inside, below)


def _laplace(y: FloatArray, scale: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    b = np.broadcast_to(scale, y.shape)
    start = np.maximum(np.floor(y), floor)
    t = np.where(y > floor, y - start, 0.0)
    # the cubic with central differences as slopes, less b² times its second derivative
    value = np.column_stack(
        [
            -t + 2.0 * t**2 - t**3,
            2.0 - 5.0 * t**2 + 3.0 * t**3,
            t + 4.0 * t**2 - 3.0 * t**3,
            -(t**2) + t**3,
        ]
    )
    bend = np.column_stack([4.0 - 6.0 * t, -10.0 + 18.0 * t, 8.0 - 18.0 * t, -2.0 + 6.0 * t])
    weights = 0.5 * (value - np.square(b)[:, np.newaxis] * bend)
    nodes = start[:, np.newaxis] + np.array([-1.0, 0.0, 1.0, 2.0])
    if np.isfinite(floor):
        # next to the bound the point below it is on the parabola through the three above
        edge = start == floor
        parabola = weights[:, :1] * np.array([-1.0, 3.0, -3.0, 1.0])
        weights = np.where(edge[:, np.newaxis], weights + parabola, weights)
        nodes = np.maximum(nodes, floor)
        # below it g goes on as c + B exp((y-L)/b), with T = c = g(L) - b g'(L)
        flat = np.column_stack([np.zeros(y.size), 1.0 + 1.5 * b, -2.0 * b, 0.5 * b])
        weights = np.where((y <= floor)[:, np.newaxis], flat, weights)
    return nodes, weights


def by_stencils(
    function: Callable[..., Any], stencils: Sequence[Stencil], names: Sequence[str]
) -> Found:
    """Apply one stencil in each argument.

    With c = g at the centre, V = T² - T(g²) is the same for g - c, whose squares cancel less.
    """
    plug_in = _values(function, [one.centre for one in stencils], names)
    shift, square = np.zeros_like(plug_in), np.zeros_like(plug_in)
    used = [np.flatnonzero(one.weights.any(axis=0)) for one in stencils]
    for columns in product(*used):
        weight = np.ones_like(plug_in)
        for one, column in zip(stencils, columns, strict=True):
            weight = weight * one.weights[:, column]
        nodes = [one.nodes[:, column] for one, column in zip(stencils, columns, strict=True)]
        change = _values(function, nodes, names) - plug_in
        shift += weight * change
        square += weight * np.square(change)
    return plug_in + shift, np.square(shift) - square, plug_in


def _values(function: Callable[..., Any], nodes: list[FloatArray], names: Sequence[str]) -> Any:
    """Evaluate a function of whole numbers."""
    found = np.asarray(function(*(node.copy() for node in nodes)))
    if found.shape != nodes[0].shape or found.dtype.kind not in "buif":
        raise InvalidParameterError(
            f"function must take arrays and return as many real numbers, got {show(found)} for "
            f"{nodes[0].size} counts: use numpy functions, or numpy.vectorize"
        )
    found = found.astype(np.float64)
    if not (fine := np.isfinite(found) & (np.abs(found) < 1e150)).all():
        at = int(np.argmin(fine))
        where = ", ".join(f"{name}={node[at]:g}" for name, node in zip(names, nodes, strict=True))
        raise InvalidParameterError(
            f"function must be finite and below 1e150 at every possible count, got {found[at]} at "
            f"{where}: define it there, as 0 for x log x at 0, or say with lower from where on "
            "counts are possible"
        )
    return found


# Polynomials and exponentials, under any law with exponential moments.


def by_series(coefficients: FloatArray, x: NoisyValues) -> Found:
    """Estimate a polynomial, of which Σ g⁽ʲ⁾(y) aⱼ is the estimate, 1/E exp(te) = Σ aⱼtʲ."""
    degree = len(coefficients) - 1
    series = _inverse_series(x, 2 * degree)
    # of g(y + u) - g(y) in powers of u
    powers = [
        np.polynomial.polynomial.polyval(
            x.values, np.polynomial.polynomial.polyder(coefficients, order)
        )
        / factorial(order)
        for order in range(degree + 1)
    ]
    shift, square = np.zeros(len(x)), np.zeros(len(x))
    for i in range(1, degree + 1):
        shift += powers[i] * series[:, i] * factorial(i)
        for j in range(1, degree + 1):
            square += powers[i] * powers[j] * series[:, i + j] * factorial(i + j)
    return powers[0] + shift, np.square(shift) - square, powers[0]


def _inverse_series(x: NoisyValues, order: int) -> FloatArray:
    """Return the series of 1/E exp(te) for the error of each value, shape (m, order + 1)."""
    noises = x.noises
    of_noise = np.zeros((noises.size, order + 1))
    for law, cells in groups(noises.law, noises.size):
        of_noise[cells] = _cumulants(law, order)
    rows = x._rows(np.arange(len(x)))
    cumulants = np.column_stack([rows.power(i) @ of_noise[:, i] for i in range(1, order + 1)])
    series = np.zeros((len(x), order + 1))
    series[:, 0] = 1.0
    for n in range(1, order + 1):
        terms = [i * cumulants[:, i - 1] * series[:, n - i] for i in range(2, n + 1, 2)]
        series[:, n] = -sum(terms, start=np.zeros(len(x))) / n
    return series


def _cumulants(law: NoiseLaw, order: int) -> FloatArray:
    """Return κᵢ/i! for i = 0 ... order, by Cauchy's formula, shape (cells or 1, order + 1)."""
    std = np.atleast_1d(np.asarray(law.std, dtype=np.float64))
    found = np.zeros((std.size, order + 1))
    noisy = std > 0.0
    if isinstance(law, Exact) or not noisy.any():
        return found
    if not isinstance(law, ParametricLaw):
        raise InvalidParameterError(f"the moments of {show(law)} are not known")
    # within the strip, and away from the zeros of E exp(te), which are π and more from 0
    radius = np.minimum(0.5 / std, 1.0)
    logs = law._cgf(_ANGLES[:, np.newaxis] * radius)
    for i in range(2, order + 1, 2):
        found[:, i] = (logs / _ANGLES[:, np.newaxis] ** i).real.mean(axis=0) / radius**i
    return found


def by_rate(rate: float, x: NoisyValues) -> Found:
    """Estimate exp(rate·f) by exp(rate·y)/E exp(rate·e)."""
    once, twice = np.zeros(len(x)), np.zeros(len(x))
    for law, cells in x.laws():
        if isinstance(law, Exact):
            continue
        if not isinstance(law, ParametricLaw):
            raise InvalidParameterError(
                "functions.Exponential is estimated for values with a noise of their own each, got "
                f"weighted sums of noises in {x.name}: give the published values"
            )
        if not (2.0 * abs(rate) < law._abscissa).all():
            raise InvalidParameterError(
                f"rate must be below {0.5 * float(np.min(law._abscissa)):g} in size under "
                f"{show(law)}, half of where its exponential moments end, got {rate:g}: the "
                "estimate has no variance beyond"
            )
        once[cells] = law._cgf(np.array(rate, dtype=np.complex128)).real
        twice[cells] = law._cgf(np.array(2.0 * rate, dtype=np.complex128)).real
    with np.errstate(over="ignore", invalid="ignore"):
        plug_in = np.exp(rate * x.values)
        estimate = np.exp(rate * x.values - once)
        variance = np.exp(2.0 * (rate * x.values - once)) * -np.expm1(2.0 * once - twice)
    if not (np.isfinite(variance).all() and np.isfinite(plug_in).all()):
        raise InvalidParameterError(
            f"rate * {x.name} must be below 300, got {np.max(rate * x.values):g}: rescale it"
        )
    return estimate, variance, plug_in
