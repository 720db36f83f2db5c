"""Whether overlapping published values agree as well as their noise says that they should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from dpinfer._validation import (
    ALTERNATIVES,
    RNG,
    FloatArray,
    check_integer,
    check_option,
    check_rng,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms import Exact, Gaussian, groups
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.monte_carlo_null import MonteCarloNull, count_extreme
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution

if TYPE_CHECKING:
    from dpinfer.estimation.design import Design
    from dpinfer.estimation.solvers import Solver
    from dpinfer.releases import Release

Method = Literal["exact", "monte-carlo", "asymptotic"]

_BLOCK_SIZE = 4_000_000
"""Largest number of noises drawn at a time."""


@dataclass(frozen=True)
class Disagreement:
    """The statistic Q = (y - Ax̂)ᵀV⁻¹(y - Ax̂) as a function of values or of noise."""

    release: Release
    design: Design
    solver: Solver
    reps: int
    rng: RNG

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""
        from dpinfer.estimation.design import independent_rows

        exact = self.release.variance == 0
        constraints = independent_rows(self.design.matrix[exact]) if exact.any() else ()
        return int(np.count_nonzero(~exact)) - (self.design.rank - len(constraints))

    @property
    def is_gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        laws = [law for law, _ in groups(self.release.mechanism, len(self.release))]
        return all(isinstance(law, (Gaussian, Exact)) for law in laws)

    def of(self, values: FloatArray) -> FloatArray:
        """Q for values (m,) or, one column each, (m × k)."""
        fitted = self.design.matrix @ self.solver.coefficients(values)
        noisy = self.release.variance > 0
        precision = 1.0 / self.release.variance[noisy]
        return np.asarray(precision @ np.square((values - fitted)[noisy]))

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw that many replicates of Q: the confidential values drop out."""
        length = len(self.release)
        block = max(1, _BLOCK_SIZE // length)
        out = np.empty(size)
        for start in range(0, size, block):
            stop = min(start + block, size)
            noise = self.release.mechanism.rvs((stop - start, length), rng=rng)
            out[start:stop] = self.of(np.asarray(noise, dtype=np.float64).T)
        return out


def consistency_test(
    release: Release,
    design: Design | None,
    solver: Solver,
    *,
    method: str | None,
    reps: int,
    rng: RNG,
) -> HypothesisResult:
    """Test the agreement of a release; see :meth:`CombinedEstimate.consistency_test`."""
    overlap = None if design is None else Disagreement(release, design, solver, reps, rng)
    if overlap is None or overlap.degrees == 0:
        raise NotEstimableError(
            "the release has no overlapping values: every published value is needed to determine "
            "the estimates, so that there is nothing that could disagree"
        )
    if method is None:
        method = "exact" if overlap.is_gaussian else "monte-carlo"
    chosen = check_option(method, "method", _NULLS)
    statistic = overlap.of(release.values)
    null = _NULLS[chosen](overlap, statistic)
    return HypothesisResult(
        name="Consistency of a release",
        statistic=statistic,
        pvalue=null.pvalue(statistic, "larger"),
        alternative="larger",
        method=chosen,
        null_distribution=null,
        uncertainty="noise",
        nobs=len(release),
        mc_error=null.mc_error(statistic, "larger"),
        notes=(
            f"{overlap.degrees} values more than needed; a small p-value says that they disagree "
            "more than the noise allows.",
        ),
    )


def _exact(overlap: Disagreement, statistic: FloatArray) -> NullDistribution:
    if not overlap.is_gaussian:
        raise InvalidParameterError(
            "method must be 'monte-carlo' or 'asymptotic' unless all noise is Gaussian, got 'exact'"
        )
    df = overlap.degrees
    return ExactNull(
        lambda q: np.asarray(special.chdtrc(df, np.maximum(q, 0.0))),
        lambda q: np.asarray(special.chdtr(df, np.maximum(q, 0.0))),
    )


def _monte_carlo(overlap: Disagreement, statistic: FloatArray) -> NullDistribution:
    reps = check_integer(overlap.reps, "reps", ge=1)
    replicates = overlap.draw(reps, check_rng(overlap.rng))
    extreme = {name: count_extreme(replicates, statistic, name) for name in ALTERNATIVES}
    return MonteCarloNull(sample=replicates, reps=reps, statistic=statistic, extreme=extreme)


def _asymptotic(overlap: Disagreement, statistic: FloatArray) -> NullDistribution:
    return AsymptoticNull.chi2(overlap.degrees)


_NULLS: dict[Method, Callable[[Disagreement, FloatArray], NullDistribution]] = {
    "exact": _exact,
    "monte-carlo": _monte_carlo,
    "asymptotic": _asymptotic,
}
