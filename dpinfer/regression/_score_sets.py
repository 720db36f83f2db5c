"""Confidence sets of coefficients from corrected normal equations, without an inverse of them.

With θ one coefficient and b(θ) the others solved for given θ, the effective score of row i is
e - hd at a distance h = θ - b from the estimate: linear in h. The set of those θ at which the sum
of the scores is within t of its standard error is Fieller's; it needs no moment of the estimate,
and is the whole line where the variation of a covariate is not clearly above that of its noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.regression._formula import by_row
from dpinfer.regression._moments import Solution


@dataclass(frozen=True)
class ScoreSets:
    """Sums of scores at all θ, a column for each coefficient: (total - h·slope)² ≤ t²·variance.

    Variances are v[0] - 2h·v[1] + h²·v[2]. The first is empirical, with products of residuals
    scaled up as in a jackknife by the leverage of the covariates without noise. Few rows often hold
    no error far from zero, and then show neither the variation of the noise nor its fourth moment;
    so the second takes the errors of response and covariates as unrelated, and the noise's part
    from its law. The larger counts.
    """

    total: FloatArray  # shape (p,)
    slope: FloatArray
    variances: FloatArray  # shape (2, 3, p)

    @classmethod
    def of(cls, solution: Solution) -> ScoreSets:
        """Sum over the rows, in the coordinates of the moments, for coefficients in units."""
        moments = solution.moments
        design, to_units = moments.design, moments.to_units
        size, count = design.exog.shape
        along = solution.solve(to_units.T)  # M⁻¹c for c the rows of to_units
        along = along / (to_units.T * along).sum(axis=0)
        turned = solution.solve(to_units.T, transposed=True)
        turned = turned / (to_units.T * turned).sum(axis=0)
        held, pulled = moments.to_covariates @ along, moments.to_covariates @ turned
        clean = ~moments.noisy
        triangle = np.linalg.qr(design.triangle[:-1, :-1][:, clean], mode="r")
        flat = np.linalg.inv(triangle * (1.0 / np.sqrt(moments.mean_weight)))
        excess = design.errors.excess()
        total, slope = np.zeros(count), np.zeros(count)
        empirical, noise = np.zeros((3, count)), np.zeros((3, count))
        spread, squares = np.zeros(count), np.zeros((3, count))
        for rows, block in moments.blocks():
            weights, residual = block.weights[:, None], solution.residuals(block)[:, None]
            leverage = np.square(design.exog[rows][:, clean] @ flat).sum(axis=1)[:, None] * weights
            rest = np.maximum(1.0 - leverage, _LEAST_REST)
            across, lever = block.covariates @ along, solution.instruments(rows, block) @ turned
            errors = solution.shared_errors(rows, block)
            cross = (errors @ solution.to_residual) @ pulled
            own = np.einsum("jk,ijl,lk->ik", pulled, errors, held, optimize=True)
            total += (weights * leverage * cross).sum(axis=0)
            slope += (weights * (lever * across - (1.0 - leverage) * own)).sum(axis=0)
            first = weights * (lever * residual / rest - cross)
            second = weights * (lever * across / rest - own)
            empirical += _quadratic(first, second)
            spread += (weights * np.square(lever)).sum(axis=0)
            squares += _quadratic(np.sqrt(weights) * residual, np.sqrt(weights) * across)
            noise += _quadratic(weights * cross, weights * own)
            sources = by_row(design.loadings, rows) * by_row(design.errors.std, rows)[:, None, :]
            sources = sources / moments.reach[:, None]
            fourth = by_row(excess, rows)[:, :, None] * np.square(weights)[:, :, None]
            reach = np.einsum("ijk,jl->ikl", sources, held)
            pull = np.einsum("ijk,jl->ikl", solution.own_sources(sources), pulled)
            shift = np.einsum("ijk,j->ik", sources, solution.to_residual)[:, :, None]
            noise += [
                (fourth * np.square(pull) * part).sum(axis=(0, 1))
                for part in (np.square(shift), shift * reach, np.square(reach))
            ]
        degrees = size - count
        modelled = spread * squares / degrees + noise
        variances = np.stack([empirical * (size / degrees), modelled])
        unit = moments.unit ** np.arange(3)[:, None]
        return cls(total, slope / moments.unit, variances / unit)

    def variance(self, distance: FloatArray) -> FloatArray:
        """Return the variance of the scores at distances from the estimates, shape (p,)."""
        powers = np.stack([np.ones_like(distance), -2.0 * distance, np.square(distance)])
        return np.asarray((self.variances * powers).sum(axis=1).max(axis=0))

    def squared_ratio(self, distance: FloatArray) -> FloatArray:
        """Return squared sums over variances; 0 where both are 0."""
        square, variance = np.square(self.total - distance * self.slope), self.variance(distance)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(square == 0.0, 0.0, square / np.maximum(variance, 0.0))

    def ends(self, reach: float) -> tuple[FloatArray, FloatArray]:
        """Return distances to the ends of the sets for a quantile, infinite where unbounded."""
        lower, upper = np.zeros_like(self.total), np.zeros_like(self.total)
        for constant, mixed, square in self.variances:
            # in units of the standard error of the sum and of the slope, so that nothing overflows
            unit = np.sqrt(np.maximum(constant, 0.0))
            unit = np.where(unit > 0.0, unit, np.maximum(np.abs(self.total), 1e-300))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                total = self.total / unit
                bend = 1.0 - reach**2 * (square / self.slope / self.slope)
                half = total - reach**2 * (mixed / unit / self.slope)
                rest = np.square(total) - reach**2 * (constant / unit / unit)
                root = np.sqrt(np.maximum(np.square(half) - bend * rest, 0.0))
                ends = np.stack([half - root, half + root]) / bend * (unit / self.slope)
            bounded = (bend > _ROUNDING) & np.isfinite(ends).all(axis=0)
            lower = np.minimum(lower, np.where(bounded, ends.min(axis=0), -np.inf))
            upper = np.maximum(upper, np.where(bounded, ends.max(axis=0), np.inf))
        return lower, upper


_LEAST_REST = 1e-9
_ROUNDING = 1e-12


def _quadratic(first: FloatArray, second: FloatArray) -> FloatArray:
    """Σ(first - h·second)², as 1, -2h and h² times what is returned, shape (3, p)."""
    products = (np.square(first), first * second, np.square(second))
    return np.stack([np.broadcast_to(x.sum(axis=0), second.shape[1:]) for x in products])
