"""The corrected normal equations, and what remains of each row in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpinfer._check import FloatArray, as_table, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._corrected_scores import Law, Rows, Source
from dpinfer.regression._errors import by_row
from dpinfer.regression._formula import Absorbed, Design, nested, row_blocks
from dpinfer.regression._polynomials import PolynomialScores, of_rows, sources_of
from dpinfer.results.labels import check_order


class Block(NamedTuple):
    """Some rows, in the coordinates of the moments."""

    response: FloatArray  # shape (b,)
    covariates: FloatArray  # shape (b, p)
    weights: FloatArray  # shape (b,)
    errors: FloatArray  # covariance matrices of the noisy columns, shape (1 or b, m, m)
    rest: FloatArray  # one less the leverage of what has no noise, shape (b,)


@dataclass(frozen=True)
class Moments:
    """Response, covariates and their errors, in coordinates in which Σ w x xᵀ is the identity.

    Normal equations square the condition number of the covariates; here they are well conditioned
    before the noise is taken off, whatever the units and the means of the columns. Rows are gone
    through in blocks, and errors are those of the m noisy columns, in units of their largest: no
    array has more than n × m entries beside the data.
    """

    design: Design
    mean_weight: float  # weights are divided by it
    unit: float  # largest entry of the response, which is divided by it
    to_units: FloatArray  # what covariates of the design are multiplied with, shape (p, p)
    cross: FloatArray  # Σ w x y: the coefficients of ordinary least squares, shape (p,)
    reach: FloatArray  # unit of the errors of each noisy column, shape (m,)
    errors: FloatArray  # Σ w(1 - h) times their covariance matrices, shape (m, m)
    rest: FloatArray  # one less h, the leverage of what has no noise, shape (n,)
    between: Between | None = None  # what rows share of the errors, in their units

    @classmethod
    def of(cls, design: Design) -> Moments:
        mean_weight = float(design.weights.mean())
        unit = float(max(design.endog.max(), -design.endog.min())) or 1.0
        triangle = design.triangle / np.sqrt(mean_weight)
        reach, errors = np.zeros(len(design.noisy)), np.zeros((len(design.noisy),) * 2)
        rest = _rest(design)
        for rows in row_blocks(len(design.endog)):
            covariance = design.error_covariance(rows)
            reach = np.maximum(reach, np.diagonal(covariance, axis1=1, axis2=2).max(axis=0))
            weights = design.weights[rows] * rest[rows] / mean_weight
            errors += np.einsum("i,ijk->jk", weights, covariance)
        reach = np.sqrt(reach)
        errors = errors / reach / reach[:, np.newaxis]
        between = _between(design, reach, mean_weight, rest)
        if between is not None:
            lone = design.weights / mean_weight * rest
            errors += np.einsum("i,ijk->jk", lone, between.shift)
        return cls(
            design,
            mean_weight,
            unit,
            linalg.solve_triangular(triangle[:-1, :-1], np.eye(len(triangle) - 1)),
            triangle[:-1, -1] / unit,
            reach,
            errors,
            rest,
            between,
        )

    @cached_property
    def noisy(self) -> NDArray[np.bool_]:
        """Which columns of the design matrix have errors, shape (p,)."""
        return np.isin(np.arange(len(self.cross)) + 1, self.design.noisy)

    @cached_property
    def to_response(self) -> FloatArray:
        """What an error, in its units, adds to the response, shape (m,)."""
        return np.where(self.design.noisy == 0, self.reach / self.unit, 0.0)

    @cached_property
    def to_covariates(self) -> FloatArray:
        """What an error, in its units, adds to the covariates, shape (m, p)."""
        rows = np.vstack([np.zeros(len(self.cross)), self.to_units])[self.design.noisy]
        return np.asarray(rows * self.reach[:, np.newaxis])

    @cached_property
    def noise(self) -> FloatArray:
        """Σ w(1 - h) times the covariance matrices of the errors of the covariates, shape (p, p).

        Where covariates have squares, what noise adds to their products on average.
        """
        if self.design.curves:
            total = np.eye(len(self.cross))
            for rows in row_blocks(len(self.design.endog)):
                total -= np.einsum("i,ijk->jk", self.weights(rows), self.polynomial(rows).squares())
            return total
        return np.asarray(self.to_covariates.T @ self.errors @ self.to_covariates)

    @cached_property
    def _sources(self) -> list[Source]:
        if self.design.errors.shared:
            raise InvalidParameterError(
                "noise must have independent errors of columns where formulas have squares or "
                "products of noisy columns, got covariances"
            )
        return [source for source, _, _ in sources_of(self.design)]

    def polynomial(self, rows: slice) -> PolynomialScores:
        """Return the scores of some rows of covariates with squares."""
        design, none = self.design, np.zeros(1)
        response = design.endog[rows] / self.unit
        variance = np.zeros(len(response))
        if (place := np.flatnonzero(design.noisy == 0)).size:
            own = design.error_covariance(rows)[:, place[0], place[0]] / self.unit**2
            variance = np.broadcast_to(own, len(response))
        return PolynomialScores(
            Law("gaussian", "identity"),
            Rows(
                design.exog[rows] @ self.to_units,
                response,
                variance,
                np.ones(1),
                none,
                self.weights(rows),
                none,
            ),
            [of_rows(one, rows, self.to_units) for one in self._sources],
            {pair: curve[rows] @ self.to_units for pair, curve in design.curves.items()},
        )

    def blocks(self) -> Iterator[tuple[slice, Block]]:
        """Yield the rows."""
        for rows in row_blocks(len(self.design.endog)):
            yield rows, self.block(rows)

    def block(self, rows: slice) -> Block:
        """Return some rows."""
        return Block(
            self.design.endog[rows] / self.unit,
            self.design.exog[rows] @ self.to_units,
            self.weights(rows),
            self.error_covariance(rows),
            self.rest[rows],
        )

    def weights(self, rows: slice) -> FloatArray:
        """Weights with mean 1."""
        return np.asarray(self.design.weights[rows] / self.mean_weight)

    def error_covariance(self, rows: slice) -> FloatArray:
        """Covariance matrices of the errors of the noisy columns, in their units."""
        found = self.design.error_covariance(rows) / self.reach / self.reach[:, np.newaxis]
        return found if self.between is None else found + self.between.shift[rows]

    def noise_shares(self) -> tuple[float, FloatArray]:
        """Largest share of the noise in the variation of a combination of covariates, and which."""
        shares, vectors = linalg.eigh(self.noise)
        return max(float(shares[-1]), 0.0), vectors[:, -1]


def _rest(design: Design) -> FloatArray:
    """Return one less the leverage of the covariates without noise, and of absorbed groups.

    What is left of a column after regression on those holds this share of the noise of each row.
    Of covariates with squares, all of the noise is taken off; they come with few others.
    """
    out = np.ones(len(design.endog))
    if design.curves:
        return out
    for rows in row_blocks(len(out)):
        own = np.square(_clean_basis(design, rows)).sum(axis=1)
        out[rows] -= own * design.weights[rows]
        if design.absorbed is not None:
            out[rows] -= design.absorbed.leverage(rows)
    return np.where(out > _ROUNDING, out, 0.0)


def _clean_basis(design: Design, rows: slice) -> FloatArray:
    """Return a basis of the covariates without noise with Σ w f fᵀ = 1, shape (rows, k)."""
    clean = ~np.isin(np.arange(design.exog.shape[1]) + 1, design.noisy)
    triangle = np.linalg.qr(design.triangle[:-1, :-1][:, clean], mode="r")
    flat = linalg.solve_triangular(triangle, np.eye(int(clean.sum())))
    return np.asarray(design.exog[rows][:, clean] @ flat)


def _between(
    design: Design, reach: FloatArray, mean_weight: float, rest: FloatArray
) -> Between | None:
    shared = design.errors.between
    if shared is None or not len(reach):
        return None
    from scipy import sparse

    nothing = sparse.csr_array((len(design.endog), len(shared.excess)))
    given = [shared.weights.get(column, nothing) for column in design.errors.columns]
    columns = []
    for slopes, unit in zip(np.moveaxis(design.loadings, 1, 0), reach, strict=True):
        held = nothing
        for slope, own in zip(slopes.T, given, strict=True):
            held = held + sparse.csr_array(own).multiply(slope[:, np.newaxis] / unit)
        columns.append(sparse.csr_array(held))
    basis = _clean_basis(design, slice(None)) * np.sqrt(mean_weight)
    return Between.of(columns, shared.excess, design.weights / mean_weight, basis, rest)


Method = Literal["moments", "fuller"]

_LARGEST_SHARE = 1.0 - 1e-9
_HOPELESS = 1e6
_CLEAR = 4.0


@dataclass(frozen=True)
class Solution:
    """Coefficients that solve corrected normal equations, in the coordinates of the moments."""

    moments: Moments
    factor: float  # of the covariances of the errors: 1 in the method of moments
    notes: tuple[str, ...] = ()

    @cached_property
    def matrix(self) -> FloatArray:
        """Moments of the covariates less the errors, shape (p, p)."""
        return np.asarray(np.eye(len(self.moments.cross)) - self.factor * self.moments.noise)

    @cached_property
    def coefficients(self) -> FloatArray:
        """The solution β, shape (p,)."""
        moments = self.moments
        if moments.design.curves:
            nothing = np.zeros(len(moments.cross))
            blocks = row_blocks(len(moments.design.endog))
            return self.solve(
                sum(
                    (moments.weights(x) @ moments.polynomial(x).scores(nothing) for x in blocks),
                    nothing,
                )
            )
        shared = moments.to_covariates.T @ (moments.errors @ moments.to_response)
        return self.solve(moments.cross - self.factor * shared)

    @cached_property
    def to_residual(self) -> FloatArray:
        """What an error, in its units, adds to the residual, shape (m,)."""
        return self.moments.to_response - self.moments.to_covariates @ self.coefficients

    @property
    def error_variance(self) -> float:
        """Σ w times the variances of the errors of the residuals."""
        if self.moments.design.curves:
            return self._curved_variance
        return float(self.to_residual @ self.moments.errors @ self.to_residual)

    @cached_property
    def _curved_variance(self) -> float:
        moments, beta = self.moments, self.coefficients
        found = float(beta @ moments.noise @ beta)
        for rows in row_blocks(len(moments.design.endog)):
            held, weights = moments.polynomial(rows), moments.weights(rows)
            added = (weights * held.rows.response) @ held.rows.exog
            added -= weights @ held.scores(np.zeros(len(beta)))
            found += float(weights @ held.rows.response_variance - 2.0 * beta @ added)
        return found

    def residuals(self, block: Block) -> FloatArray:
        """Return the published response less xβ, shape (b,)."""
        return np.asarray(block.response - block.covariates @ self.coefficients)

    def scores(self, *, leave_out: bool = False) -> Iterator[tuple[slice, FloatArray]]:
        """Yield what each row adds to the normal equations at β, shape (b, p); the sum is 0.

        With ``leave_out``, M times what leaving the row out takes from β.
        """
        if self.moments.design.curves:
            yield from self._curved_scores(leave_out)
            return
        for rows, block in self.moments.blocks():
            residuals = self.residuals(block)
            shared = self.factor * (self.shared_errors(rows, block) @ self.to_residual)
            if leave_out:
                block = self._alone(rows, block)
                residuals, shared = self._left_out(block, residuals, shared)
            else:
                shared = shared * block.rest[:, np.newaxis]
            scores = self.instruments(rows, block) * residuals[:, np.newaxis]
            scores -= shared @ self.moments.to_covariates
            scores *= block.weights[:, np.newaxis]
            yield rows, scores

    def _curved_scores(self, leave_out: bool) -> Iterator[tuple[slice, FloatArray]]:
        moments = self.moments
        for rows in row_blocks(len(moments.design.endog)):
            held, weights = moments.polynomial(rows), moments.weights(rows)[:, np.newaxis]
            scores = weights * held.scores(self.coefficients)
            if leave_out:
                rest = self.matrix - weights[:, :, np.newaxis] * held.squares()
                if (np.linalg.eigvalsh(rest)[:, 0] < _ROUNDING).any():
                    raise NotEstimableError(_ALONE)
                without = np.linalg.solve(rest, scores[:, :, np.newaxis])[:, :, 0]
                scores = without @ self.matrix
            yield rows, scores

    def _alone(self, rows: slice, block: Block) -> Block:
        """Return rows as what their absence takes from the sums of all.

        Leaving a row out moves the mean of its group: deviations count 1/(1 - h) times, and the
        noise, of variances that are alike, once, as others of the group then hold more of theirs.
        """
        absorbed = self.moments.design.absorbed
        if absorbed is None:
            return block
        rest = 1.0 - absorbed.leverage(rows)
        single = rest <= _ROUNDING
        weights = np.where(single, 0.0, block.weights / np.where(single, 1.0, rest))
        return block._replace(
            weights=weights, errors=block.errors * rest[:, np.newaxis, np.newaxis]
        )

    def _left_out(
        self, block: Block, residuals: FloatArray, shared: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return r and e for which w(x r - Nᵀe) is M times what a row's absence takes from β.

        Without the row the equations are (M - A)b = M β - (A β + ψ), so that b - β = -(M - A)⁻¹ψ,
        with A = w(x xᵀ - NᵀΣN). Let H = M + wNᵀΣN, K = N M⁻¹Nᵀ, B = I + wΣK and a = B⁻¹wΣN M⁻¹x.
        By Woodbury M H⁻¹x = x - Nᵀa and M H⁻¹Nᵀe = NᵀB⁻¹e, and by Sherman and Morrison with the
        leverage h = w xᵀH⁻¹x the result is r' = (r - w eᵀN H⁻¹x)/(1 - h), e' = B⁻¹e + r'a.
        """
        along = self.solve(self.moments.to_covariates.T)
        inner = self.moments.to_covariates @ along
        scaled = (self.factor * block.weights)[:, np.newaxis, np.newaxis] * block.errors
        own = block.covariates @ along
        shared = np.broadcast_to(shared, own.shape)
        right = np.stack([np.einsum("ijk,ik->ij", scaled, own), shared], axis=2)
        back, rest = np.moveaxis(np.linalg.solve(np.eye(len(inner)) + scaled @ inner, right), 2, 0)
        inverse = self.solve(block.covariates.T).T
        leverage = (block.covariates * inverse).sum(axis=1) - (own * back).sum(axis=1)
        left = 1.0 - block.weights * leverage
        if (left <= _ROUNDING).any():
            raise NotEstimableError(_ALONE)
        cross = (shared * (own - back @ inner)).sum(axis=1)
        residuals = (residuals - block.weights * cross) / left
        return residuals, rest + residuals[:, np.newaxis] * back

    def instruments(self, rows: slice, block: Block) -> FloatArray:
        """Return what residuals are multiplied with: the covariates."""
        return block.covariates

    def shared_errors(self, rows: slice, block: Block) -> FloatArray:
        """Return the covariances of the errors of instruments and columns, (1 or b, m, m)."""
        return block.errors

    def own_sources(self, sources: FloatArray) -> FloatArray:
        """Return what sources add to the instruments of those that they add to the columns."""
        return sources

    def solve(self, right: FloatArray, *, transposed: bool = False) -> FloatArray:
        """Solve with :attr:`matrix`, which is symmetric here."""
        return np.asarray(linalg.solve(self.matrix, right, assume_a="pos"))

    def in_units(self, coefficients: FloatArray) -> FloatArray:
        """Bring coefficients, shape (p,) or (p, m), from the coordinates to units of the data."""
        return np.asarray(self.moments.to_units @ coefficients * self.moments.unit)


def solve_moments(moments: Moments, names: list[str]) -> Solution:
    """Take off all of the noise: the method of moments.

    ``names`` are those of the covariates, for the message.
    """
    share, direction = moments.noise_shares()
    if share > _LARGEST_SHARE and moments.design.curves:
        raise NotEstimableError(
            f"the noise drowns the covariates: it would explain {share:.3g} times the variation of "
            "a combination of the noisy terms. Leave squares or products out, or use rows with "
            "less noise"
        )
    if share > _LARGEST_SHARE:
        own = np.sqrt(np.diagonal(moments.errors)) * np.abs(moments.to_covariates @ direction)
        worst = int(moments.design.noisy[np.argmax(own)]) - 1
        raise NotEstimableError(
            f"the noise drowns the covariates, {names[worst]!r} above all: it would explain "
            f"{share:.3g} times the variation of a combination of the noisy columns. Leave the "
            "column out, use rows with less noise, or method='fuller', whose intervals are then "
            "no more than indicative"
        )
    return Solution(moments, 1.0, weakness(moments, direction))


def solve_fuller(moments: Moments, names: list[str]) -> Solution:
    """Fuller's modification: take off a little less, and never more than there is.

    With k noisy covariates and d rows beyond the covariates without noise, the noise is taken off
    min(1, λ - 1/d) - (k + 1)/d times, λ the smallest root of det(XᵀWX - λ·noise) = 0.
    """
    if not moments.noisy.any():
        return Solution(moments, 1.0)
    if moments.design.curves:
        raise InvalidParameterError(
            "method must be 'moments' where formulas have squares or products of noisy columns, "
            "got 'fuller', which is for terms linear in them"
        )
    share, direction = moments.noise_shares()
    if share > _HOPELESS:
        raise NotEstimableError(
            f"the noise is {share:.1e} times what varies in the noisy covariates: nothing is left "
            "of a covariate. Leave it out, or check the units of its noise"
        )
    rows = len(moments.design.endog) - np.count_nonzero(~moments.noisy)
    factor = min(1.0, 1.0 / share - 1.0 / rows) - (np.count_nonzero(moments.noisy) + 1.0) / rows
    if share <= rows / (rows + 1.0):
        return Solution(moments, factor, weakness(moments, direction))
    note = (
        "the noise explains all variation of a combination of the noisy covariates: Fuller's "
        "modification holds the estimates back, and the intervals are no more than indicative"
    )
    return Solution(moments, factor, (note,))


SOLVERS = {"moments": solve_moments, "fuller": solve_fuller}


def weakness(moments: Moments, direction: FloatArray) -> tuple[str, ...]:
    """Remark where the variation that is not noise is itself not clearly there."""
    if not moments.noisy.any():
        return ()
    weights, errors = moments.to_units @ direction, moments.to_covariates @ direction
    sums = np.zeros(2)
    for rows in row_blocks(len(moments.design.endog)):
        if moments.design.curves:
            squares = moments.polynomial(rows).squares()
            own = moments.weights(rows) * (squares @ direction @ direction)
            sums += own.sum(), np.square(own).sum()
            continue
        noise = moments.error_covariance(rows) @ errors @ errors
        own = moments.weights(rows) * (np.square(moments.design.exog[rows] @ weights) - noise)
        sums += own.sum(), np.square(own).sum()
    if sums[0] >= _CLEAR * np.sqrt(sums[1]):
        return ()
    return (
        "the variation of the noisy covariates that is not noise is known to a quarter of itself "
        "at best: the intervals may cover too rarely",
    )


# Covariance matrices of corrected coefficients: M-estimation, with the noise in each row.


Covariance = Literal["HC0", "HC1", "HC3", "cluster"]

_ROUNDING = 1e-9
_ALONE = (
    "cov_type='HC3' needs estimates without each of the rows, and some single row holds all "
    "variation of a covariate that is not noise: use cov_type='HC1'"
)


def hc0(solution: Solution, groups: Any) -> FloatArray:
    """M⁻¹(Σ ψψᵀ)M⁻¹."""
    return _sandwich(solution, np.add.reduce([own.T @ own for _, own in solution.scores()]))


def hc1(solution: Solution, groups: Any) -> FloatArray:
    """n/(n - p) times that."""
    design = solution.moments.design
    rows = len(design.endog)
    return np.asarray(hc0(solution, groups) * (rows / (rows - design.parameters)))


def hc3(solution: Solution, groups: Any) -> FloatArray:
    """Σ of the squared changes of β when a row is left out."""
    changes = solution.scores(leave_out=True)
    return _sandwich(solution, np.add.reduce([own.T @ own for _, own in changes]))


def cluster(solution: Solution, groups: Any) -> FloatArray:
    """HC1 with scores added up within groups, in which absorbed ones are nested: not counted."""
    design = solution.moments.design
    rows, columns = design.exog.shape
    count = int(groups.max()) + 1
    totals = np.zeros((count, columns))
    for block, own in solution.scores():
        add_by_group(totals, groups[block], own)
    correction = cluster_correction(count, rows, columns + (design.absorbed is not None))
    return np.asarray(_sandwich(solution, totals.T @ totals) * correction)


def add_by_group(totals: FloatArray, groups: Any, scores: FloatArray) -> None:
    """Add the scores of rows to the totals of their groups."""
    order = np.argsort(groups, kind="stable")
    found, first = np.unique(groups[order], return_index=True)
    totals[found] += np.add.reduceat(scores[order], first)


def cluster_correction(count: int, rows: int, columns: int) -> float:
    """Return the factor for few groups, as in statsmodels."""
    return count / (count - 1.0) * (rows - 1.0) / (rows - columns)


COVARIANCES = {"HC0": hc0, "HC1": hc1, "HC3": hc3, "cluster": cluster}


def noise_covariance(solution: Solution, groups: Any) -> FloatArray:
    """Covariance matrix due to the noise alone, the confidential values being fixed."""
    meat = noise_of_scores(solution)
    if solution.moments.between is not None:
        meat += between_scores(solution, noise_alone=True)
    covariance = _sandwich(solution, meat)
    size = np.sqrt(np.abs(np.diagonal(covariance)))
    size[size == 0] = 1.0
    if np.linalg.eigvalsh(covariance / size[:, None] / size)[0] < -_ROUNDING:
        raise NotEstimableError(
            "the rows are too few, or the noise too wide, to tell the variance due to the noise: "
            "use uncertainty='noise+sampling'"
        )
    return covariance


def noise_of_scores(solution: Solution) -> FloatArray:
    """Estimate without bias the covariance matrix that the noise gives to the sum of the scores.

    With x and q the confidential covariates and residual of a row, u and v their errors, and the
    covariances Σ of u, κ of u and v, τ of v, the row's score x q + x v + u q + u v - κ has the
    covariance x xᵀτ + q²Σ + q(xκᵀ + κxᵀ) + Στ + κκᵀ + C, C the fourth cumulants. The published
    row gives x xᵀ + Σ, q² + τ and x q + κ without bias. Cumulants are Σ γ (a aᵀ) b², over sources
    of excess γ that covariates hold a times, the residual b.

    Deviations from what has no noise hold the noises of all rows, by a projection A: products of
    two errors then count Σ A²ᵢⱼ times, which is summed over the rows of absorbed groups, and is
    1 - h in a row for other covariates, the variances taken as alike.
    """
    moments = solution.moments
    if moments.design.curves:
        found = np.zeros_like(solution.matrix)
        for rows, own in solution.scores():
            found += own.T @ own - moments.polynomial(rows).products(solution.coefficients)
        return found
    to_residual = solution.to_residual
    design, excess = moments.design, moments.design.errors.excess()
    outer = np.zeros((len(moments.cross), len(moments.cross)))
    mixed, inner = np.zeros((len(moments.cross), len(to_residual))), np.zeros_like(moments.errors)
    absorbed, size = design.absorbed, len(to_residual)
    groups = np.zeros((0 if absorbed is None else len(absorbed.totals), size**2 + size + 1))
    for rows, block in moments.blocks():
        residual, squares = solution.residuals(block), np.square(block.weights)
        cross = block.errors @ to_residual
        variance = cross @ to_residual
        outer += block.covariates.T @ (block.covariates * (squares * variance)[:, None])
        mixed += block.covariates.T @ (cross * (squares * residual)[:, None])
        twice = block.rest
        if absorbed is not None:
            twice = twice - absorbed.leverage(rows)
            parts = np.broadcast_to(block.errors, (len(twice), size, size)).reshape(-1, size**2)
            wide = np.broadcast_to(cross, (len(twice), size))
            parts = np.column_stack([parts, wide, np.broadcast_to(variance, len(twice))])
            add_by_group(groups, absorbed.codes[rows], parts * squares[:, np.newaxis])
        twice = twice * squares
        lone = squares * np.square(residual) - twice * variance
        inner += np.einsum("i,ijk->jk", lone, block.errors)
        inner -= np.einsum("i,ij,ik->jk", twice, cross, cross)
        sources = by_row(design.loadings, rows) * by_row(design.errors.std, rows)[:, None, :]
        sources = sources / moments.reach[:, None]
        along = np.square(np.einsum("j,ijk->ik", to_residual, sources)) * by_row(excess, rows)
        fourth = squares * np.square(block.rest)
        inner += np.einsum("i,ijk,ik,ilk->jl", fourth, sources, along, sources)
    if absorbed is not None:
        groups *= moments.mean_weight / absorbed.totals[:, np.newaxis]
        shared, cross = groups[:, : size**2], groups[:, size**2 : -1]
        inner -= (groups[:, -1] @ shared).reshape(size, size) + cross.T @ cross
    half = mixed @ moments.to_covariates
    return np.asarray(
        outer + half + half.T + moments.to_covariates.T @ inner @ moments.to_covariates
    )


def between_covariance(solution: Solution) -> FloatArray:
    """Return what errors that rows share add to the covariance of the coefficients."""
    return _sandwich(solution, between_scores(solution, noise_alone=False))


def between_scores(solution: Solution, *, noise_alone: bool) -> FloatArray:
    """Estimate without bias the covariance of the scores of different rows, summed over pairs.

    With ``noise_alone`` residuals are held fixed; otherwise they are independent from row to row,
    of mean 0.
    """
    moments, to_residual = solution.moments, solution.to_residual
    between = moments.between
    assert between is not None
    block = moments.block(slice(None))
    levers = block.covariates
    inner = between.products if not noise_alone else -between.products
    total = np.einsum("acdb,c,d->ab", inner, to_residual, to_residual)
    known = any(law is not None for law in moments.design.errors.laws)
    cumulants = between.cumulants(within=noise_alone and not known)
    total += np.einsum("acdb,c,d->ab", cumulants, to_residual, to_residual)
    sums, own = between.held(levers, to_residual), between.own
    lone = np.square(block.weights)[:, np.newaxis]
    outer = -(levers * lone * (own @ to_residual @ to_residual)[:, np.newaxis]).T @ levers
    if noise_alone:
        residual = solution.residuals(block)[:, np.newaxis]
        units = np.eye(len(to_residual))
        both = np.stack([between.held(residual, unit)[0] for unit in units])
        sums = sums + moments.to_covariates.T @ both
        mixed = -(levers * lone * residual).T @ (own @ to_residual) @ moments.to_covariates
        outer = outer + mixed + mixed.T
        total -= np.einsum("i,iab->ab", (lone * np.square(residual))[:, 0], own)
        total -= np.einsum("abcd,c,d->ab", between.products, to_residual, to_residual)
    return np.asarray(
        outer + sums @ sums.T + moments.to_covariates.T @ total @ moments.to_covariates
    )


def clustered(
    groups: Any, cov_type: str, labels: Any, size: int, *, absorbed: Absorbed | None = None
) -> Any:
    """Return groups as numbers from 0, one for each row, None unless they are asked for."""
    if groups is None and absorbed is not None and cov_type == "cluster":
        return absorbed.codes
    if (groups is None) == (cov_type == "cluster"):
        raise InvalidParameterError(
            f"groups must be given for cov_type='cluster', and only then, got {show(groups)} for "
            f"{cov_type!r}"
        )
    codes = None if groups is None else group_codes(groups, "groups", labels, size)
    if codes is not None and absorbed is not None and not nested(absorbed, codes):
        raise InvalidParameterError(
            "groups must hold absorbed groups whole, as the rows of one share its mean: leave "
            "groups out to have the absorbed ones, or give coarser ones"
        )
    return codes


def group_codes(groups: Any, name: str, labels: Any, size: int) -> Any:
    """Return groups as numbers from 0, one for each row."""
    import pandas as pd

    groups = as_table(groups, name)
    own = getattr(groups, "index", None) if hasattr(groups, "to_numpy") else None
    check_order(own, labels, name, "the data")
    try:
        codes, found = pd.factorize(np.asarray(groups))
    except Exception as error:  # pandas says in its own ways what it cannot compare
        raise InvalidParameterError(
            f"{name} must be labels, one for each row, got {show(groups)}"
        ) from error
    if codes.shape != (size,):
        raise InvalidParameterError(
            f"{name} must have {size} entries, one for each row, got {len(codes)}"
        )
    if (codes < 0).any():
        raise InvalidParameterError(f"{name} must not have missing values")
    if len(found) < 2:
        raise InvalidParameterError(f"{name} must hold at least two different groups, got one")
    return codes


def _sandwich(solution: Solution, meat: FloatArray) -> FloatArray:
    covariance = solution.solve(solution.solve(meat).T)
    return np.asarray((covariance + covariance.T) / 2.0)


# Errors that rows share, and what they add to the covariance of sums of corrected scores.
#
# With x and q the covariates and the residual of a row, u and η their errors, and the covariances
# Σᵢⱼ of uᵢ and uⱼ, κᵢⱼ of uᵢ and ηⱼ, τᵢⱼ of ηᵢ and ηⱼ, the corrected scores of two rows have the
# covariance xᵢxⱼᵀτᵢⱼ + qᵢqⱼΣᵢⱼ + qⱼxᵢκⱼᵢᵀ + qᵢκᵢⱼxⱼᵀ + Σᵢⱼτᵢⱼ + κᵢⱼκⱼᵢᵀ + Cᵢⱼ, C fourth cumulants.
# The published rows give xᵢxⱼᵀ + Σᵢⱼ, qᵢqⱼ + τᵢⱼ and xᵢqⱼ + κᵢⱼ without bias.

_DENSE = 0.1
_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Between:
    """Errors of m noisy columns of n rows as sums of s independent noises of variance 1.

    Regression on the k columns without noise takes its part of them, which is most where many rows
    share an error: sums over pairs of rows are those of deviations, by the projection 1 - FFᵀ.
    """

    columns: list[Any]  # √w times what they hold of the noises, m of shape (n, s)
    excess: FloatArray  # kurtosis of the noises, shape (s,)
    weights: FloatArray  # w of the rows, shape (n,)
    basis: FloatArray  # F, shape (n, k)
    rest: FloatArray  # one less the leverage of the columns without noise, shape (n,)

    @classmethod
    def of(
        cls,
        columns: list[Any],
        excess: FloatArray,
        weights: FloatArray,
        basis: FloatArray,
        rest: FloatArray,
    ) -> Between:
        """Scale columns, and hold them in the form that is quick to multiply."""
        root = np.sqrt(weights)[:, np.newaxis]
        full = sum(x.nnz for x in columns) > _DENSE * sum(x.shape[0] * x.shape[1] for x in columns)
        held = [x.multiply(root).toarray() if full else x.multiply(root).tocsr() for x in columns]
        return cls(held, excess, weights, basis * root, rest)

    def held(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return Σ w over rows of values, (n, p), times what Σ slopes·columns holds, (p, s)."""
        scaled = values * np.sqrt(self.weights)[:, np.newaxis]
        parts = [a * (x.T @ scaled).T for a, x in zip(slopes, self.columns, strict=True)]
        return np.asarray(np.add.reduce(parts))

    @cached_property
    def _beside_basis(self) -> FloatArray:
        """Covariances of columns a and c of the errors, times F, shape (m, m, n, k)."""
        inner = [x.T @ self.basis for x in self.columns]
        return np.array([[np.asarray(x @ part) for part in inner] for x in self.columns])

    @cached_property
    def _in_basis(self) -> FloatArray:
        return np.asarray(np.swapaxes(self.basis, 0, 1) @ self._beside_basis)

    @cached_property
    def _alone(self) -> FloatArray:
        size = len(self.columns)
        out = np.empty((len(self.weights), size, size))
        for i, one in enumerate(self.columns):
            for j, other in enumerate(self.columns):
                out[:, i, j] = np.asarray(_times(one, other).sum(axis=1)).ravel()
        return out

    @cached_property
    def shift(self) -> FloatArray:
        """What sharing takes from the covariance matrices of rows, in deviations, (n, m, m)."""
        return np.asarray(self.own - self._alone / self.weights[:, np.newaxis, np.newaxis])

    @cached_property
    def own(self) -> FloatArray:
        """Covariance matrices of deviations over 1 - h, of rows if unshared, (n, m, m)."""
        out = self._alone.copy()
        both = self._beside_basis + np.swapaxes(self._beside_basis, 0, 1)
        out -= np.einsum("nk,acnk->nac", self.basis, both)
        out += np.einsum("nk,ackl,nl->nac", self.basis, self._in_basis, self.basis, optimize=True)
        scale = np.where(self.rest > 0.0, self.rest, np.inf) * self.weights
        return np.asarray(out / scale[:, np.newaxis, np.newaxis])

    @cached_property
    def products(self) -> FloatArray:
        """Σ over i ≠ j of wᵢwⱼ Cov(eᵢᵃ, eⱼᶜ) Cov(eᵢᵈ, eⱼᵇ), shape (m, m, m, m) of (a, c, d, b)."""
        from scipy import sparse

        size, rows = len(self.columns), len(self.weights)
        total = np.zeros((size**2, size**2))
        step = max(1, _ENTRIES // (rows * size**2))
        for start in range(0, rows, step):
            part = slice(start, start + step)
            blocks = [one[part] @ other.T for one in self.columns for other in self.columns]
            if isinstance(blocks[0], np.ndarray):
                flat: Any = np.stack([x.ravel() for x in blocks])
                total += flat @ flat.T
            else:
                flat = sparse.vstack([x.reshape(1, -1) for x in blocks]).tocsr()
                total += (flat @ flat.T).toarray()
        out = total.reshape((size,) * 4)
        beside, inner = self._beside_basis, self._in_basis
        out = out - np.einsum("cank,bdnk->acdb", beside, beside, optimize=True)
        out -= np.einsum("dbnk,acnk->acdb", beside, beside, optimize=True)
        out += np.einsum("ackl,bdlk->acdb", inner, inner, optimize=True)
        lone = np.square(self.weights) * self.rest
        return np.asarray(
            out - np.einsum("n,nac,ndb->acdb", lone, self.own, self.own, optimize=True)
        )

    def cumulants(self, *, within: bool) -> FloatArray:
        """Fourth cumulants of wᵢeᵢᵃeᵢᶜ and wⱼeⱼᵈeⱼᵇ, summed over rows, of one row if ``within``."""
        size = len(self.columns)
        total = np.zeros((size**2, size**2))
        if self.excess.any():
            pairs = [_times(one, other) for one in self.columns for other in self.columns]
            shared = [x.T @ self.basis for x in self.columns]
            sums = np.stack([np.asarray(x.sum(axis=0)).ravel() for x in pairs])
            sums -= np.stack([(x * y).sum(axis=1) for x in shared for y in shared])
            total += (sums * self.excess) @ sums.T
            lone = np.square(self.rest)
            for i, one in enumerate(pairs if not within else []):
                for j, other in enumerate(pairs):
                    total[i, j] -= lone @ np.asarray(_times(one, other) @ self.excess).ravel()
        return total.reshape((size,) * 4)


def _times(one: Any, other: Any) -> Any:
    return one * other if isinstance(one, np.ndarray) else one.multiply(other).tocsr()
