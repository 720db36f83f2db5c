"""Estimating functions of covariates that are polynomials in noisy columns.

With t the errors of the columns, the confidential covariates x(-t) are polynomials whose
coefficients the published row gives. A function h(x) of finite degree in t, or smooth, is corrected
by an operator for each noise: h(y) - (v/2)[h(y + 1) - 2h(y) + h(y - 1)] for geometric noise, and
Σ c_k h⁽ᵏ⁾(y) for others, Σ c_k sᵏ = 1/E[exp(se)], of which Laplace noise has only c₀ and c₂.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import factorial
from typing import Any

import numpy as np

from dpinfer._check import FloatArray, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import groups as parts_of
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.regression._corrected_scores import (
    Derivatives,
    Kind,
    Law,
    Rows,
    Source,
    likelihood,
    overdispersion,
    squared_score,
)
from dpinfer.regression._errors import by_row
from dpinfer.regression._formula import Design

LEAST_SIGMA = 1.0
"""From here on, in units of a count, discrete Gaussian noise has the moments of Gaussian noise."""


def sources_of(design: Design) -> Iterator[tuple[Source, Any, Any]]:
    """Yield the noises of the covariates, each with its column and, if known, its law."""
    errors, size = design.errors, len(design.endog)
    of_covariates = design.noisy > 0
    excess = errors.excess()
    for j, column in enumerate(errors.columns):
        slopes = np.zeros((len(design.loadings), design.exog.shape[1]))
        slopes[:, design.noisy[of_covariates] - 1] = design.loadings[:, of_covariates, j]
        bent = any(j in pair for pair in design.curves)
        if not (slopes.any() or bent) or not errors.variance[:, j].any():
            continue
        if design.loadings[:, ~of_covariates, j].any():
            raise InvalidParameterError(
                f"endog must not be made of a noisy column that is in a covariate too, got "
                f"{column!r} in both: noisy_ols takes that, for terms linear in it"
            )
        variance = errors.variance[:, j]
        fourth = excess[:, j] * np.square(variance)
        law = errors.laws[j]
        if law is None:
            yield Source("other", slopes, variance, fourth, j), column, law
            continue
        for part, cells in parts_of(law, size):
            if isinstance(part, Exact):
                continue
            own, its = variance, fourth
            if len(cells) < size:
                inside = np.isin(np.arange(size), cells)
                own, its = np.where(inside, own, 0.0), np.where(inside, its, 0.0)
            yield Source(_kind(part), slopes, own, its, j), column, part


def _kind(law: Any) -> Kind:
    if isinstance(law, Laplace):
        return "laplace"
    if isinstance(law, Geometric):
        return "geometric"
    if isinstance(law, Gaussian):
        return "gaussian"
    if isinstance(law, DiscreteGaussian) and np.min(law.sigma) >= LEAST_SIGMA:
        return "gaussian"
    return "other"


def corrected_sources(design: Design, response: Law) -> list[Source]:
    """Return the noises of the covariates, refusing those that scores are not corrected for."""
    errors = design.errors
    if errors.shared:
        raise InvalidParameterError(
            "noise must have independent errors of columns for noisy_glm, got covariances: "
            "noisy_ols takes them, for least squares"
        )
    bent = {i for pair in design.curves for i in pair}
    return [
        _allowed(source, response, column, law, source.column in bent)
        for source, column, law in sources_of(design)
    ]


def _allowed(source: Source, response: Law, column: Any, law: Any, bent: bool) -> Source:
    if bent and response.family != "gaussian" and source.kind not in _ANY_SCORE:
        raise InvalidParameterError(
            f"noise[{column!r}] must be Laplace or Geometric where the formula has its square or "
            f"its product with another noisy column, for family={response.family!r}, got "
            f"{show(law)}"
        )
    taken = {
        "gaussian": ("laplace", "geometric", "gaussian", "other"),
        "poisson": ("laplace", "geometric", "gaussian"),
        "logit": ("laplace", "geometric", "gaussian"),
    }.get(response.link if response.family == "binomial" else response.family, _ANY_SCORE)
    if source.kind in taken:
        return source
    gaussian = (
        f", Gaussian, or DiscreteGaussian with sigma >= {LEAST_SIGMA:g}"
        if "gaussian" in taken
        else " (Gaussian noise has an exact correction for the logit and the Poisson model only)"
    )
    raise InvalidParameterError(
        f"noise[{column!r}] must be a law that scores are corrected for, Laplace, Geometric"
        f"{gaussian}, for family={response.family!r} and link={response.link!r}, got "
        f"{'standard deviations' if law is None else show(law)}: least squares takes any, by "
        "noisy_ols or family='gaussian'"
    )


_ANY_SCORE = ("laplace", "geometric")
"""Noises whose corrections are exact for any score."""


def of_rows(source: Source, rows: slice, to_units: FloatArray) -> Source:
    """Return a noise of some rows, for covariates in other coordinates."""
    return replace(
        source,
        slopes=np.asarray(by_row(source.slopes, rows) @ to_units),
        variance=by_row(source.variance, rows),
        fourth=by_row(source.fourth, rows),
    )


Powers = tuple[int, ...]
Polynomial = dict[Powers, Any]
"""Coefficients, with an entry for each row, by the powers of the errors."""

_GAUSSIAN_DEGREE = 8


@dataclass(frozen=True)
class PolynomialScores:
    """Scores of the corrected log-likelihood, of degree two at most in the errors together."""

    law: Law
    rows: Rows
    sources: list[Source]
    curves: dict[tuple[int, int], FloatArray]  # of x, by the columns multiplied, shape (n, p)

    def at(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the rows, (n, p), and the derivative of their sum, (p, p)."""
        weights = self.rows.weights[:, np.newaxis]
        return weights * self.scores(beta), self._outer(beta, likelihood, self.rows.weights)

    def scores(self, beta: FloatArray) -> FloatArray:
        """Return the scores of the rows without their weights, shape (n, p)."""
        out = np.zeros(self.rows.exog.shape)
        for factor, x in self._nodes():
            slope = self._along(x, beta, likelihood, 1)
            for powers, value in x.items():
                out += value * (factor * self._mean(slope, powers))[:, np.newaxis]
        return out

    def squares(self) -> FloatArray:
        """Return the corrected products of the covariates of each row, shape (n, p, p)."""
        size, count = self.rows.exog.shape
        out = np.zeros((size, count, count))
        one: Polynomial = {(0,) * len(self.sources): np.ones(size)}
        for factor, x in self._nodes():
            for (first, a), (second, b) in product(x.items(), repeat=2):
                own = factor * self._mean(one, _plus(first, second))
                if own.any():
                    out += (a * own[:, np.newaxis])[:, :, np.newaxis] * b[:, np.newaxis, :]
        return out

    def products(self, beta: FloatArray) -> FloatArray:
        """Sum of the products of the confidential scores, estimated without bias."""
        return self._outer(beta, squared_score, np.square(self.rows.weights))

    def excess(self, beta: FloatArray) -> float:
        """Sum of the squared scores less their mean in the model: 0 at the right dispersion."""
        none = (0,) * len(self.sources)
        return float(
            sum(
                self.rows.weights
                @ (factor * self._mean(self._along(x, beta, overdispersion), none))
                for factor, x in self._nodes()
            )
        )

    def _outer(
        self,
        beta: FloatArray,
        function: Callable[[FloatArray, Rows, Law], Derivatives],
        weights: FloatArray,
    ) -> FloatArray:
        out = np.zeros((len(beta), len(beta)))
        for factor, x in self._nodes():
            bend = self._along(x, beta, function)
            for (first, a), (second, b) in product(x.items(), repeat=2):
                own = weights * factor * self._mean(bend, _plus(first, second))
                if own.any():
                    wide = np.broadcast_to(a, self.rows.exog.shape) * own[:, np.newaxis]
                    out += wide.T @ np.broadcast_to(b, wide.shape)
        return out

    def _nodes(self) -> Iterator[tuple[FloatArray, Polynomial]]:
        """Yield the points at which geometric noise has functions taken, with their weights.

        At each, the covariates as polynomials in the errors of other noises.
        """
        size = len(self.sources)
        none = (0,) * size
        steps = [j for j, one in enumerate(self.sources) if one.kind == "geometric"]
        for node in product((-1.0, 0.0, 1.0), repeat=len(steps)):
            move = dict(zip(steps, node, strict=True))
            factor = np.ones(len(self.rows.response))
            shifts: dict[int, Polynomial] = {}
            slopes = {}
            for j, one in enumerate(self.sources):
                if j in move:
                    factor = factor * (-one.variance / 2.0 if move[j] else 1.0 + one.variance)
                axis: Powers = tuple(int(i == j) for i in range(size))
                own: Polynomial = {none: move[j]} if j in move else {axis: 1.0}
                shifts[one.column] = _sum(shifts.get(one.column, {}), own)
                slopes[one.column] = one.slopes
            x: Polynomial = {none: self.rows.exog}
            for column, shift in shifts.items():
                x = _sum(x, {powers: value * slopes[column] for powers, value in shift.items()})
            for (i, j), curve in self.curves.items():
                if i in shifts and j in shifts:
                    both = _product(shifts[i], shifts[j])
                    x = _sum(x, {powers: value * curve for powers, value in both.items()})
            yield factor, {powers: value for powers, value in x.items() if np.any(value)}

    def _along(
        self,
        x: Polynomial,
        beta: FloatArray,
        function: Callable[[FloatArray, Rows, Law], Derivatives],
        order: int = 2,
    ) -> Polynomial:
        """Return the derivative of an order, by η, as a polynomial in the errors."""
        none = (0,) * len(self.sources)
        most = tuple(2 if one.kind == "laplace" else _GAUSSIAN_DEGREE for one in self.sources)
        bends = sum(n for n, one in zip(most, self.sources, strict=True) if one.kind != "geometric")
        eta = {powers: np.asarray(value @ beta) for powers, value in x.items()}
        derivative = function(eta.pop(none) + self.rows.offset, self.rows, self.law)
        out: Polynomial = {none: derivative(order)}
        power: Polynomial = {none: 1.0}
        for k in range(1, 1 + (min(bends, 2) if self.law.family == "gaussian" else bends)):
            power = {
                powers: value
                for powers, value in _product(power, eta).items()
                if all(n <= top for n, top in zip(powers, most, strict=True))
            }
            if not power:
                break
            own = derivative(order + k) / factorial(k)
            out = _sum(out, {powers: value * own for powers, value in power.items()})
        return out

    def _mean(self, polynomial: Polynomial, powers: Powers) -> FloatArray:
        """Correct a polynomial times powers of the errors."""
        out = np.zeros(len(self.rows.response))
        for other, value in polynomial.items():
            factor: Any = 1.0
            for source, power in zip(self.sources, _plus(powers, other), strict=True):
                factor = factor * _corrected_power(source, power)
            out = out + factor * value
        return out


def _corrected_power(source: Source, power: int) -> Any:
    """Return k!·c_k."""
    v = source.variance
    if power % 2 or (power > 2 and source.kind == "laplace"):
        return 0.0
    if power > 4 and source.kind == "other":
        raise InvalidParameterError(
            "noise must be Laplace, Geometric, Gaussian, or DiscreteGaussian with sigma >= "
            f"{LEAST_SIGMA:g}, for uncertainty='noise' where formulas have squares of its column: "
            "of other laws the moments beyond the fourth are not used"
        )
    return {0: 1.0, 2: -v, 4: 3.0 * v**2 - source.fourth, 6: -15.0 * v**3, 8: 105.0 * v**4}[power]


def _plus(first: Powers, second: Powers) -> Powers:
    return tuple(map(sum, zip(first, second, strict=True)))


def _sum(first: Polynomial, second: Polynomial) -> Polynomial:
    out = dict(first)
    for powers, value in second.items():
        out[powers] = out[powers] + value if powers in out else value
    return out


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for (i, a), (j, b) in product(first.items(), second.items()):
        out = _sum(out, {_plus(i, j): a * b})
    return out
