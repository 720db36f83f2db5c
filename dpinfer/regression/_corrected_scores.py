"""Estimating functions of generalised linear models with the noise of the covariates taken off.

The log-likelihood f of a row is a function of its linear predictor η and linear in the response.
Its corrected form G(η, δ), with δ what a unit of each noise adds to η, has the mean f over the
noise. Scores and products of scores follow from its derivatives by (η, δ), as both are linear in β.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from itertools import product
from math import comb
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from scipy import linalg, special

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, NotEstimableError

GlmFamily = Literal["gaussian", "binomial", "poisson", "negative-binomial"]
Link = Literal["identity", "logit", "probit", "cloglog", "log"]
Kind = Literal["laplace", "geometric", "gaussian", "other"]

Derivatives = Callable[[int], FloatArray]
"""The derivative of an order, for each row."""


@dataclass(frozen=True)
class Source:
    """A noise, and what it adds to the covariates of each row."""

    kind: Kind
    slopes: FloatArray  # shape (1 or n, p)
    variance: FloatArray  # shape (1 or n,); 0 in rows that do not have it
    fourth: FloatArray  # its cumulant, shape (1 or n,)
    column: int = 0  # of the noisy columns of the data


class Rows(NamedTuple):
    """The data of n rows."""

    exog: FloatArray  # shape (n, p)
    response: FloatArray
    response_variance: FloatArray
    exposure: FloatArray
    exposure_variance: FloatArray
    weights: FloatArray
    offset: FloatArray


# Derivatives of log-likelihoods by the linear predictor.


class Piece(NamedTuple):
    """A part of a log-likelihood: a number that may be noisy times a function of η."""

    multiplier: FloatArray
    variance: FloatArray  # of the error of the multiplier
    function: Derivatives  # from order 1 on


class Law(NamedTuple):
    """The law of a response, given η."""

    family: GlmFamily
    link: Link
    dispersion: float = 0.0  # variance of a negative binomial: μ + dispersion·μ²


_EXACT = np.zeros(1)
_ONE = np.ones(1)


def _linear(order: int) -> FloatArray:
    return _ONE if order == 1 else _EXACT


def _solution(start: FloatArray, base: Derivatives) -> Derivatives:
    """Return the derivatives, from order 0 on, of u with u' = u(base - u)."""
    found = [start]

    def derivative(order: int) -> FloatArray:
        while len(found) <= order:
            k = len(found) - 1
            terms = (comb(k, i) * found[i] * (base(k - i) - found[k - i]) for i in range(k + 1))
            found.append(np.asarray(sum(terms)))
        return found[order]

    return derivative


def _chance(eta: FloatArray) -> Derivatives:
    return _solution(special.expit(eta), lambda order: _EXACT if order else _ONE)


def _gaussian(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    square = {1: -eta, 2: -_ONE}
    return [
        Piece(rows.response, rows.response_variance, _linear),
        Piece(_ONE, _EXACT, lambda order: square.get(order, _EXACT)),
    ]


def _logit(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    chance = _chance(eta)
    return [
        Piece(rows.response, rows.response_variance, _linear),
        Piece(-_ONE, _EXACT, lambda order: chance(order - 1)),
    ]


def _probit(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    def mills(points: FloatArray) -> Derivatives:  # φ/Φ, the derivative of log Φ
        ratio = np.sqrt(2.0 / np.pi) / special.erfcx(-points / np.sqrt(2.0))
        base = {0: -points, 1: -_ONE}
        return _solution(ratio, lambda order: base.get(order, _EXACT))

    up, down = mills(eta), mills(-eta)

    def none(order: int) -> FloatArray:
        return np.asarray((-1.0) ** order * down(order - 1))

    return [
        Piece(rows.response, rows.response_variance, lambda order: up(order - 1) - none(order)),
        Piece(_ONE, _EXACT, none),
    ]


def _cloglog(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    mean = np.exp(eta)
    one = _solution(1.0 / special.exprel(mean), lambda order: (order == 0) - mean)
    return [
        Piece(rows.response, rows.response_variance, lambda order: one(order - 1) + mean),
        Piece(-_ONE, _EXACT, lambda order: mean),
    ]


def _poisson(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    mean = np.exp(eta)
    return [
        Piece(rows.response, rows.response_variance, _linear),
        Piece(-rows.exposure, rows.exposure_variance, lambda order: mean),
    ]


def _negative_binomial(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    chance = _chance(eta + np.log(law.dispersion))
    return [
        Piece(
            rows.response,
            rows.response_variance,
            lambda order: _linear(order) - chance(order - 1),
        ),
        Piece(np.array([-1.0 / law.dispersion]), _EXACT, lambda order: chance(order - 1)),
    ]


_LIKELIHOODS: dict[Link | GlmFamily, Callable[[FloatArray, Rows, Law], list[Piece]]] = {
    "identity": _gaussian,
    "logit": _logit,
    "probit": _probit,
    "cloglog": _cloglog,
    "poisson": _poisson,
    "negative-binomial": _negative_binomial,
}


def pieces(eta: FloatArray, rows: Rows, law: Law) -> list[Piece]:
    """Return the log-likelihoods of rows, at other linear predictors than theirs."""
    return _LIKELIHOODS[law.family if law.link == "log" else law.link](eta, rows, law)


def likelihood(eta: FloatArray, rows: Rows, law: Law) -> Derivatives:
    """Return the derivatives of log-likelihoods, from order 1 on."""
    parts = pieces(eta, rows, law)
    return lambda order: np.asarray(sum(x.multiplier * x.function(order) for x in parts))


def squared_score(eta: FloatArray, rows: Rows, law: Law) -> Derivatives:
    """Return derivatives, from order 2 on, of R: R'' is f'² less what noisy multipliers add."""
    parts = pieces(eta, rows, law)
    score = likelihood(eta, rows, law)

    def square(function: Derivatives, k: int) -> Any:
        return sum(comb(k, i) * function(1 + i) * function(1 + k - i) for i in range(k + 1))

    def derivative(order: int) -> FloatArray:
        k = order - 2
        noise = sum(x.variance * square(x.function, k) for x in parts if x.variance.any())
        return np.asarray(square(score, k) - noise)

    return derivative


def overdispersion(eta: FloatArray, rows: Rows, law: Law) -> Derivatives:
    """Return derivatives, from order 2 on, of R: R'' is f'² less its mean, μ/(1 + dispersion·μ)."""
    squared, chance = squared_score(eta, rows, law), _chance(eta + np.log(law.dispersion))
    return lambda order: squared(order) - chance(order - 2) / law.dispersion


# Corrections: operators whose mean over the noise is the function itself.


class Jet(NamedTuple):
    """Derivatives of corrected functions by (η, δ₁, ..., δ_q)."""

    first: list[FloatArray]
    second: dict[tuple[int, int], FloatArray]


def _series(source: Source, delta: FloatArray, times: int) -> dict[int, FloatArray]:
    """Differentiate 1 - (v/2)δ²∂² + (v²/8 - κ/24)δ⁴∂⁴ by δ: coefficients of the powers of ∂."""
    half = source.variance / 2.0
    found = [
        {0: np.ones(1), 2: -half * delta**2},
        {2: -2.0 * half * delta},
        {2: -2.0 * half * np.ones_like(delta)},
    ][times]
    quartic = half**2 / 2.0 - source.fourth / 24.0
    if source.kind != "laplace" and quartic.any():  # it vanishes for Laplace noise
        found[4] = quartic * [delta**4, 4.0 * delta**3, 12.0 * delta**2][times]
    return found


def _times(a: dict[int, FloatArray], b: dict[int, FloatArray]) -> dict[int, FloatArray]:
    out: dict[int, FloatArray] = {}
    for (i, x), (j, y) in product(a.items(), b.items()):
        out[i + j] = out.get(i + j, np.zeros(1)) + x * y
    return out


def _pairs(size: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(size) for j in range(i + 1))


def corrected(
    sources: list[Source],
    eta: FloatArray,
    deltas: list[FloatArray],
    function: Callable[[FloatArray], Derivatives],
    *,
    first: bool = True,
) -> Jet:
    """Correct any function under geometric and Laplace noise, and quartic ones under any.

    Geometric noise: f(η) - (v/2)[f(η + δ) - 2f(η) + f(η - δ)], evaluated at whole steps.
    """
    size = len(sources) + 1
    steps = [j for j, one in enumerate(sources, 1) if one.kind == "geometric"]
    bends = [j for j in range(1, size) if j not in steps]
    series = {
        (j, times): _series(sources[j - 1], deltas[j - 1], times)
        for j in bends
        for times in range(3)
    }
    gradient = [np.zeros_like(eta) for _ in range(size)]
    hessian = {pair: np.zeros_like(eta) for pair in _pairs(size)}
    for node in product((-1, 0, 1), repeat=len(steps)):
        move = dict(zip(steps, node, strict=True))
        weight, shift = np.ones(1), np.zeros(1)
        for j, k in move.items():
            variance = sources[j - 1].variance
            weight = weight * (-variance / 2.0 if k else 1.0 + variance)
            shift = shift + k * deltas[j - 1]
        derivatives = cache(function(eta + shift))

        def along(
            *indices: int,
            move: dict[int, int] = move,
            weight: FloatArray = weight,
            derivatives: Derivatives = derivatives,
        ) -> Any:
            factor = np.prod([move.get(i, 1) for i in indices])
            if not factor:
                return 0.0
            order = sum(i not in bends for i in indices)
            operator = reduce(_times, (series[j, indices.count(j)] for j in bends), {0: np.ones(1)})
            terms = (value * derivatives(order + k) for k, value in operator.items())
            return factor * weight * sum(terms)

        if first:
            for i in range(size):
                gradient[i] += along(i)
        for pair in hessian:
            hessian[pair] += along(*pair)
    return Jet(gradient, hessian)


def _factor(source: Source, delta: FloatArray, times: int) -> FloatArray:
    """Differentiate by δ, some times, 1/E[exp(δe)]."""
    v = source.variance
    if source.kind == "laplace":
        return np.asarray([1.0 - v * delta**2 / 2.0, -v * delta, -v * np.ones_like(delta)][times])
    if source.kind == "geometric":
        cosh, sinh = np.cosh(delta), np.sinh(delta)
        return np.asarray([1.0 - v * (cosh - 1.0), -v * sinh, -v * cosh][times])
    return np.asarray(
        [1.0, -v * delta, np.square(v * delta) - v][times] * np.exp(-v * delta**2 / 2.0)
    )


def corrected_exp(sources: list[Source], eta: FloatArray, deltas: list[FloatArray]) -> Jet:
    """Correct exp(η): it is divided by the moment generating functions of the noises at δ."""
    size = len(sources) + 1
    rate = np.exp(eta)

    def along(*indices: int) -> FloatArray:
        factors = (_factor(x, deltas[j], indices.count(j + 1)) for j, x in enumerate(sources))
        return np.asarray(reduce(np.multiply, factors, rate))

    return Jet([along(i) for i in range(size)], {pair: along(*pair) for pair in _pairs(size)})


def finite_moment(source: Source, delta: FloatArray, order: int) -> bool:
    """Whether exp(δe) has a finite moment of some order in every row."""
    if source.kind == "gaussian":
        return True
    with np.errstate(over="ignore"):
        return bool((_factor(source, order * delta, 0) > 0).all())


# Equations for β.


class Equations(Protocol):
    """Estimating equations Σ S = 0."""

    def at(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the rows, (n, p), and the derivative of their sum, (p, p)."""


@dataclass(frozen=True)
class CorrectedScores:
    """Scores of the corrected log-likelihood."""

    law: Law
    rows: Rows
    sources: list[Source]

    def predictors(self, beta: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return η, and what a unit of each noise adds to it."""
        eta = self.rows.exog @ beta + self.rows.offset
        return eta, [x.slopes @ beta for x in self.sources]

    def at(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the rows, (n, p), and the derivative of their sum, (p, p)."""
        eta, deltas = self.predictors(beta)
        rows = self.rows
        if self.law.family == "poisson":
            jet = corrected_exp(self.sources, eta, deltas)
            first = [-rows.exposure * x for x in jet.first]
            first[0] += rows.response
            second = {pair: -rows.exposure * x for pair, x in jet.second.items()}
        else:
            first, second = corrected(
                self.sources, eta, deltas, lambda points: likelihood(points, rows, self.law)
            )
        scores = rows.exog * (rows.weights * first[0])[:, np.newaxis]
        for one, value in zip(self.sources, first[1:], strict=True):
            scores += one.slopes * (rows.weights * value)[:, np.newaxis]
        return scores, self._summed(second, rows.weights)

    def products(self, beta: FloatArray) -> FloatArray:
        """Sum of the products of the confidential scores, estimated without bias."""
        eta, deltas = self.predictors(beta)
        rows, sources = self.rows, self.sources
        if self.law.family == "poisson":
            once = corrected_exp(sources, eta, deltas).second
            twice = corrected_exp(sources, 2.0 * eta, [2.0 * x for x in deltas]).second
            line = Law("gaussian", "identity")
            flat = corrected(sources, eta, deltas, lambda x: likelihood(x, rows, line)).second
            exposure = np.square(rows.exposure) - rows.exposure_variance
            squared = {
                pair: exposure * twice[pair]
                - 2.0 * rows.response * rows.exposure * once[pair]
                - (np.square(rows.response) - rows.response_variance) * flat[pair]
                for pair in once
            }
        else:
            squared = self._second(squared_score, beta)
        return self._summed(squared, np.square(rows.weights))

    def excess(self, beta: FloatArray) -> float:
        """Sum of the squared scores less their mean in the model: 0 at the right dispersion."""
        return float(self.rows.weights @ self._second(overdispersion, beta)[0, 0])

    def _second(
        self, function: Callable[[FloatArray, Rows, Law], Derivatives], beta: FloatArray
    ) -> dict[tuple[int, int], FloatArray]:
        eta, deltas = self.predictors(beta)
        return corrected(
            self.sources,
            eta,
            deltas,
            lambda points: function(points, self.rows, self.law),
            first=False,
        ).second

    def _summed(self, second: dict[tuple[int, int], FloatArray], weights: FloatArray) -> FloatArray:
        """Second derivatives by β from those by (η, δ)."""
        directions = [self.rows.exog, *(x.slopes for x in self.sources)]
        out = np.zeros((self.rows.exog.shape[1],) * 2)
        for (i, j), value in second.items():
            own = weights * value
            if len(directions[i]) == 1 and len(directions[j]) == 1:
                part = np.outer(directions[i], directions[j]) * own.sum()
            else:
                left = np.broadcast_to(directions[i], self.rows.exog.shape)
                part = (left * own[:, np.newaxis]).T @ np.broadcast_to(directions[j], left.shape)
            out += part if i == j else part + part.T
        return out


@dataclass(frozen=True)
class ConditionalScores:
    """Logistic scores given what is sufficient for the confidential covariates, x + rΩβ.

    For responses 0 and 1 and Gaussian noise with covariance Ω = LᵀL.
    """

    rows: Rows
    spread: list[FloatArray]  # the rows of L, shapes (1 or n, p)

    def at(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the rows, (n, p), and the derivative of their sum, (p, p)."""
        rows = self.rows
        r, w = rows.response, rows.weights
        loads = [x @ beta for x in self.spread]
        drift = np.zeros((1, rows.exog.shape[1]))  # Ωβ
        for x, load in zip(self.spread, loads, strict=True):
            drift = drift + x * load[:, np.newaxis]
        size = sum((load**2 for load in loads), np.zeros(1))
        chance = special.expit(rows.exog @ beta + rows.offset + (r - 0.5) * size)
        sufficient = rows.exog + r[:, np.newaxis] * drift
        slope = rows.exog + (2.0 * r - 1.0)[:, np.newaxis] * drift
        own = w * chance * (1.0 - chance)
        change = -(sufficient * own[:, np.newaxis]).T @ slope
        for x in self.spread:
            wide = np.broadcast_to(x, slope.shape)
            change += (wide * (w * r * (r - chance))[:, np.newaxis]).T @ wide
        return sufficient * (w * (r - chance))[:, np.newaxis], change


class Root(NamedTuple):
    """A solution of estimating equations."""

    beta: FloatArray
    scores: FloatArray
    slope: FloatArray  # of minus their sum, shape (p, p)
    iterations: int


_MOST_STEPS = 100
_SETTLED = 1e-9
_HALVINGS = 12


def solve(equations: Equations, start: FloatArray, reach: float) -> Root:
    """Newton's method with steps of at most ``reach``; the slope must be positive definite."""
    beta = start
    with np.errstate(over="ignore", invalid="ignore"):
        scores, change = equations.at(beta)
        for count in range(1, _MOST_STEPS + 1):
            total = scores.sum(axis=0)
            if not (np.isfinite(total).all() and np.isfinite(change).all()):
                break
            step = _uphill(-change, total)
            step = step * min(1.0, reach / max(float(np.linalg.norm(step)), 1e-300))
            settled = np.linalg.norm(step) <= _SETTLED * (1.0 + np.linalg.norm(beta))
            for _ in range(_HALVINGS):
                scores, change = equations.at(beta + step)
                if settled or np.linalg.norm(scores.sum(axis=0)) <= np.linalg.norm(total):
                    break
                step = step / 2.0
            beta = beta + step
            if settled:
                if _is_positive(-change):
                    return Root(beta, scores, -change, count)
                break
    raise ConvergenceError("no root of the estimating equations with a positive definite slope")


def _uphill(slope: FloatArray, total: FloatArray) -> FloatArray:
    """Return a Newton step; by absolute curvatures where the slope is not positive definite."""
    if _is_positive(slope):
        return np.asarray(linalg.solve(slope, total))
    values, vectors = np.linalg.eigh((slope + slope.T) / 2.0)
    least = 1e-6 * max(float(np.abs(values).max()), 1e-300)
    return np.asarray(vectors @ ((vectors.T @ total) / np.maximum(np.abs(values), least)))


def _is_positive(slope: FloatArray) -> bool:
    values = np.linalg.eigvalsh((slope + slope.T) / 2.0)
    return bool(values[0] > 1e-12 * values[-1] > 0)


def sandwich(slope: FloatArray, meat: FloatArray) -> FloatArray:
    """Return slope⁻¹ · meat · slope⁻ᵀ."""
    found = linalg.solve(slope, linalg.solve(slope, meat).T)
    return np.asarray((found + found.T) / 2.0)


class WithProducts(Equations, Protocol):
    """Estimating equations whose products of scores are corrected too."""

    @property
    def rows(self) -> Rows:
        """The published rows."""

    @property
    def sources(self) -> list[Source]:
        """The noises of the covariates."""

    def products(self, beta: FloatArray) -> FloatArray:
        """Sum of the products of the confidential scores, estimated without bias."""


def noise_part(equations: WithProducts, beta: FloatArray) -> FloatArray:
    """Estimate the covariance matrix of the sum of the scores that is due to the noise alone.

    A difference of sums, which rounding may make larger or smaller, is made larger by as much.
    """
    rows, (scores, _) = equations.rows, equations.at(beta)
    if not (equations.sources or rows.response_variance.any() or rows.exposure_variance.any()):
        return np.zeros((len(beta), len(beta)))
    rounding = np.diag(_ROUNDED * np.square(scores).sum(axis=0))
    return np.asarray(scores.T @ scores - equations.products(beta) + rounding)


def noise_meat(equations: WithProducts, root: Root) -> FloatArray:
    """Return it at a root, refusing one that is no covariance matrix."""
    meat = noise_part(equations, root.beta)
    size = np.sqrt(np.abs(np.diagonal(meat)))
    size[size == 0] = 1.0
    if np.linalg.eigvalsh(meat / size / size[:, np.newaxis])[0] < -_ROUNDING:
        raise NotEstimableError(
            "the rows are too few, or the noise too wide, to tell the variance due to the noise: "
            "use uncertainty='noise+sampling'"
        )
    return meat


_ROUNDED = 1e-13
_ROUNDING = 1e-9


LEAST_DISPERSION, MOST_DISPERSION = 1e-6, 1e4
_ROUGHLY = 1e-4


def settled_dispersion(excess: Callable[[float], float], near: float | None) -> float:
    """Return the logarithm of a dispersion without excess: roughly, or exactly from a near one."""
    from scipy import optimize

    if near is not None:
        with np.errstate(all="ignore"):
            root, found = optimize.newton(
                excess,
                near,
                x1=near + _ROUGHLY,
                tol=1e-12,
                maxiter=12,
                full_output=True,
                disp=False,
            )
        if found.converged and abs(root - near) < 1.0:
            return float(root)
    ends = np.log([LEAST_DISPERSION, MOST_DISPERSION])
    if excess(ends[0]) <= 0.0:
        raise NotEstimableError(
            "the responses vary no more than Poisson ones do around their means, which leaves "
            "nothing for a dispersion: use family='poisson', or give dispersion"
        )
    if excess(ends[1]) >= 0.0:
        raise NotEstimableError(
            f"the dispersion would be above {MOST_DISPERSION:g}: give dispersion, or use "
            "family='poisson', whose standard errors hold for overdispersed counts too"
        )
    rough = _ROUGHLY if near is None else 1e-12
    return float(optimize.brentq(excess, *ends, xtol=rough))
