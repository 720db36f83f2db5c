"""Confidence sets of coefficients from corrected normal equations, without an inverse of them.

With θ one coefficient and b(θ) the others solved for given θ, the effective score of row i is
e - hd at a distance h = θ - b from the estimate: linear in h. The set of those θ at which the sum
of the scores is within t of its standard error is Fieller's; it needs no moment of the estimate,
and is the whole line where the variation of a covariate is not clearly above that of its noise.
Scores of generalised linear models are linear in h near the estimate only, and taken as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from dpinfer._check import FloatArray
from dpinfer.regression._corrected_scores import Equations
from dpinfer.regression._errors import by_row
from dpinfer.regression._moments import Solution, add_by_group


@dataclass(frozen=True)
class ScoreSets:
    """Sums of scores at all θ, a column for each coefficient: (h·slope)² ≤ t²·variance.

    Variances are v[0] - 2h·v[1] + h²·v[2]. Of least squares, the first is empirical, with products
    of residuals scaled up as in a jackknife by the leverage of the covariates without noise, or
    with scores added up within groups. Few rows often hold no error far from zero, and then show
    neither the variation of the noise nor its fourth moment; so the second takes the errors of
    response and covariates as unrelated, and the noise's part from its law. The larger counts.
    """

    slope: FloatArray  # shape (p,)
    variances: FloatArray  # shape (2, 3, p); (1, 3, p) of linearised scores

    @classmethod
    def of(cls, solution: Solution, groups: Any) -> ScoreSets:
        """Sum over the rows, in the coordinates of the moments, for coefficients in units."""
        moments = solution.moments
        design, to_units = moments.design, moments.to_units
        size, count = design.exog.shape
        along = solution.solve(to_units.T)  # M⁻¹c for c the rows of to_units
        along = along / (to_units.T * along).sum(axis=0)
        turned = solution.solve(to_units.T, transposed=True)
        turned = turned / (to_units.T * turned).sum(axis=0)
        held, pulled = moments.to_covariates @ along, moments.to_covariates @ turned
        excess = design.errors.excess()
        slope = np.zeros(count)
        empirical, noise = np.zeros((3, count)), np.zeros((3, count))
        many = 0 if groups is None else int(groups.max()) + 1
        sums = np.zeros((many, 2 * count))
        spread, squares = np.zeros(count), np.zeros((3, count))
        for rows, block in moments.blocks():
            weights, residual = block.weights[:, None], solution.residuals(block)[:, None]
            rest = block.rest[:, None]
            across, lever = block.covariates @ along, solution.instruments(rows, block) @ turned
            errors = solution.shared_errors(rows, block)
            cross = (errors @ solution.to_residual) @ pulled
            own = np.einsum("jk,ijl,lk->ik", pulled, errors, held, optimize=True)
            first = weights * (lever * residual - rest * cross)
            second = weights * (lever * across - rest * own)
            slope += second.sum(axis=0)
            if groups is None:
                scale = np.where(rest > 0.0, 1.0 / np.maximum(rest, _LEAST_REST), 0.0)
                empirical += _quadratic(scale * first, scale * second)
            else:
                add_by_group(sums, groups[rows], np.hstack([first, second]))
            spread += (weights * np.square(lever)).sum(axis=0)
            squares += _quadratic(np.sqrt(weights) * residual, np.sqrt(weights) * across)
            noise += _quadratic(weights * np.sqrt(rest) * cross, weights * np.sqrt(rest) * own)
            sources = by_row(design.loadings, rows) * by_row(design.errors.std, rows)[:, None, :]
            sources = sources / moments.reach[:, None]
            fourth = by_row(excess, rows)[:, :, None] * np.square(weights * rest)[:, :, None]
            reach = np.einsum("ijk,jl->ikl", sources, held)
            pull = np.einsum("ijk,jl->ikl", solution.own_sources(sources), pulled)
            shift = np.einsum("ijk,j->ik", sources, solution.to_residual)[:, :, None]
            noise += [
                (fourth * np.square(pull) * part).sum(axis=(0, 1))
                for part in (np.square(shift), shift * reach, np.square(reach))
            ]
        between = _between(solution, turned, held, pulled)
        modelled = spread * squares / (size - design.parameters) + noise + between
        if groups is None:
            empirical = empirical * (size / (size - count)) + between
        else:
            empirical = _quadratic(sums[:, :count], sums[:, count:]) * (many / (many - 1.0))
        unit = moments.unit ** np.arange(3)[:, None]
        return cls(slope / moments.unit, np.stack([empirical, modelled]) / unit)

    @classmethod
    def linearised(
        cls,
        equations: Equations,
        root: FloatArray,
        to_units: FloatArray,
        scaled: Callable[[FloatArray], FloatArray],
        noise: Callable[[FloatArray], FloatArray] | None = None,
    ) -> ScoreSets:
        """Return those of scores that are not linear, by their derivatives at a root.

        ``scaled`` adds scores up within groups, and makes their squares sum to a variance.
        ``noise`` returns the covariance matrix of their sum by the noise alone, where only that
        counts. The others then move along with θ as the noise has them, not as the rows would, and
        what derivatives vary by between the rows is an upper bound of their part.
        """
        scores, change = equations.at(root)
        turned = linalg.solve(-change.T, to_units.T)
        along = linalg.solve(-change, to_units.T)
        first, second = scores @ turned, np.empty((len(scores), len(to_units)))
        if noise is not None:
            pulled = noise(root) @ turned
            alone = (turned * pulled).sum(axis=0)
            moved = alone > _UNMOVED * np.square(first).sum(axis=0)
            along = np.where(moved, linalg.solve(-change, pulled), along)
            mixed = np.empty(len(to_units))
        along = along / (to_units.T * along).sum(axis=0)
        for k, (pull, own) in enumerate(zip(turned.T, along.T, strict=True)):
            step = _STEP / np.linalg.norm(own)
            below, above = (equations.at(root + h * own)[0] @ pull for h in (-step, step))
            second[:, k] = (below - above) / (2.0 * step)
            if noise is not None:
                less, more = (pull @ noise(root + h * own) @ pull for h in (-step, step))
                mixed[k] = (less - more) / (4.0 * step)
        if noise is None:
            found = _quadratic(scaled(first), scaled(second))
        else:
            square = np.square(scaled(second - second.mean(axis=0))).sum(axis=0)
            alone = np.maximum(alone, 0.0)
            most = np.sqrt(alone * square)
            found = np.stack([alone, np.clip(mixed, -most, most), square])
        return cls(np.ones(len(to_units)), found[np.newaxis])

    def variance(self, distance: FloatArray) -> FloatArray:
        """Return the variance of the scores at distances from the estimates, shape (p,)."""
        powers = np.stack([np.ones_like(distance), -2.0 * distance, np.square(distance)])
        return np.asarray((self.variances * powers).sum(axis=1).max(axis=0))

    def squared_ratio(self, distance: FloatArray) -> FloatArray:
        """Return squared sums over variances; 0 where both are 0."""
        square, variance = np.square(distance * self.slope), self.variance(distance)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(square == 0.0, 0.0, square / np.maximum(variance, 0.0))

    def ends(self, reach: float) -> tuple[FloatArray, FloatArray]:
        """Return distances to the ends of the sets for a quantile, infinite where unbounded."""
        lower, upper = np.zeros_like(self.slope), np.zeros_like(self.slope)
        for constant, mixed, square in self.variances:
            # in units of the standard error of the sum and of the slope, so that nothing overflows
            unit = np.sqrt(np.maximum(constant, 0.0))
            unit = np.where(unit > 0.0, unit, 1e-300)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                bend = 1.0 - reach**2 * (square / self.slope / self.slope)
                half = -(reach**2) * (mixed / unit / self.slope)
                rest = reach**2 * (constant / unit / unit)
                root = np.sqrt(np.maximum(np.square(half) + bend * rest, 0.0))
                ends = np.stack([half - root, half + root]) / bend * (unit / self.slope)
            bounded = (bend > _ROUNDING) & np.isfinite(ends).all(axis=0)
            lower = np.minimum(lower, np.where(bounded, ends.min(axis=0), -np.inf))
            upper = np.maximum(upper, np.where(bounded, ends.max(axis=0), np.inf))
        return lower, upper


_LEAST_REST = 1e-9
_ROUNDING = 1e-12
_UNMOVED = 1e-10
_STEP = 6e-6  # a cube root of the rounding, of covariates with mean square 1


def _between(
    solution: Solution, turned: FloatArray, held: FloatArray, pulled: FloatArray
) -> FloatArray:
    """Return what rows that share errors add to variances, as :func:`_quadratic`."""
    moments, start = solution.moments, solution.to_residual
    between = moments.between
    out = np.zeros((3, pulled.shape[1]))
    if between is None:
        return out
    block = moments.block(slice(None))
    levers = block.covariates @ turned
    lone = np.square(block.weights[:, None] * levers)
    inner = between.products + between.cumulants(within=False)
    for k, (own, pull) in enumerate(zip(held.T, pulled.T, strict=True)):
        lever = levers[:, k : k + 1]
        ends = np.stack([start, own])
        sums = np.vstack([between.held(lever, end) for end in ends])
        both = sums @ sums.T - ends @ np.einsum("i,iab->ab", lone[:, k], between.own) @ ends.T
        both += np.einsum("acdb,a,b,ic,jd->ij", inner, pull, pull, ends, ends)
        out[:, k] = both[0, 0], (both[0, 1] + both[1, 0]) / 2.0, both[1, 1]
    return out


def _quadratic(first: FloatArray, second: FloatArray) -> FloatArray:
    """Σ(first - h·second)², as 1, -2h and h² times what is returned, shape (3, p)."""
    products = (np.square(first), first * second, np.square(second))
    return np.stack([np.broadcast_to(x.sum(axis=0), second.shape[1:]) for x in products])
