"""Whether overlapping published values agree as well as their noise says that they should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_option
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms import Exact, Gaussian, NoiseLaw, groups
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import BLOCK, Simulation, simulate_null

if TYPE_CHECKING:
    from dpinfer.estimation.design import Design
    from dpinfer.estimation.solvers import Solver
    from dpinfer.releases import Release

Method = Literal["exact", "monte-carlo", "asymptotic"]

_NOISES_IN_BLOCK = 4_000_000
"""Largest number of noises drawn at a time, replicates times m."""


class Overlap(Protocol):
    """Values more than needed, and the statistic Q of how much they disagree."""

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of the noise."""

    @property
    def size(self) -> int:
        """Number of values."""

    def observed(self) -> FloatArray:
        """Q of the published values."""

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw that many replicates of Q."""


@dataclass(frozen=True)
class Disagreement:
    """The statistic Q = (y - Ax̂)ᵀV⁻¹(y - Ax̂) as a function of values or of noise."""

    release: Release
    design: Design
    solver: Solver

    @property
    def degrees(self) -> int:
        """Number of noisy values beyond those needed to determine the others."""
        from dpinfer.estimation.design import independent_rows

        exact = self.release.variance == 0
        constraints = independent_rows(self.design.matrix[exact]) if exact.any() else ()
        return int(np.count_nonzero(~exact)) - (self.design.rank - len(constraints))

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of the noise."""
        return self.release.mechanism

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.release)

    def observed(self) -> FloatArray:
        """Q of the published values.

        The confidential values drop out of Q, but not out of its rounding error, which would tell
        equal values of whole-numbered noise apart. Whole numbers close to the estimates are taken
        off first: for whole coefficients and values, that is exact.
        """
        values = self.release.values
        nearest = np.rint(self.solver.coefficients(values))
        return self.of(values - self.design.matrix @ nearest)

    def of(self, values: FloatArray) -> FloatArray:
        """Q for values (m,) or, one column each, (m × k)."""
        fitted = self.design.matrix @ self.solver.coefficients(values)
        noisy = self.release.variance > 0
        precision = 1.0 / self.release.variance[noisy]
        return np.asarray(precision @ np.square((values - fitted)[noisy]))

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw that many replicates of Q: the confidential values drop out."""
        noise = self.release.mechanism.rvs((size, len(self.release)), rng=rng)
        return self.of(np.asarray(noise, dtype=np.float64).T)


def consistency_test(
    overlap: Overlap | None,
    *,
    method: str | None,
    reps: int,
    rng: RNG,
    progress: bool,
) -> HypothesisResult:
    """Test the agreement of a release; see :meth:`CombinedEstimate.consistency_test`."""
    simulation = Simulation.checked(reps, rng, progress)
    if overlap is None or overlap.degrees == 0:
        raise NotEstimableError(
            "the release has no overlapping values: every published value is needed to determine "
            "the estimates, so that there is nothing that could disagree"
        )
    if method is None:
        method = "exact" if _is_gaussian(overlap) else "monte-carlo"
    chosen = check_option(method, "method", _NULLS)
    statistic = overlap.observed()
    null = _NULLS[chosen](overlap, statistic, simulation)
    return HypothesisResult(
        name="Consistency of a release",
        statistic=statistic,
        pvalue=null.pvalue(statistic, "larger"),
        alternative="larger",
        method=chosen,
        null_distribution=null,
        uncertainty="noise",
        nobs=overlap.size,
        mc_error=null.mc_error(statistic, "larger"),
        notes=(
            f"{overlap.degrees} values more than needed; a small p-value says that they disagree "
            "more than the noise allows.",
        ),
    )


def _is_gaussian(overlap: Overlap) -> bool:
    """Whether all noise is Gaussian."""
    laws = [law for law, _ in groups(overlap.mechanism, overlap.size)]
    return all(isinstance(law, (Gaussian, Exact)) for law in laws)


def _exact(overlap: Overlap, statistic: FloatArray, simulation: Simulation) -> NullDistribution:
    if not _is_gaussian(overlap):
        raise InvalidParameterError(
            "method must be 'monte-carlo' or 'asymptotic' unless all noise is Gaussian, got 'exact'"
        )
    law = AsymptoticNull.chi2(overlap.degrees)  # not a limit here: Gaussian noise has this law
    return ExactNull(law.larger, law.smaller)


def _monte_carlo(
    overlap: Overlap, statistic: FloatArray, simulation: Simulation
) -> NullDistribution:
    block = min(BLOCK, max(1, _NOISES_IN_BLOCK // overlap.size))
    return simulate_null([overlap.draw], statistic, simulation, block=block)


def _asymptotic(
    overlap: Overlap, statistic: FloatArray, simulation: Simulation
) -> NullDistribution:
    return AsymptoticNull.chi2(overlap.degrees)


_NULLS: dict[Method, Callable[[Overlap, FloatArray, Simulation], NullDistribution]] = {
    "exact": _exact,
    "monte-carlo": _monte_carlo,
    "asymptotic": _asymptotic,
}
