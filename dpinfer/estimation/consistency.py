"""Whether overlapping published values agree as well as their noise says that they should."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from dpinfer._check import RNG, FloatArray, check_option
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.estimation.design import OVERFLOW
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact, Gaussian
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import BLOCK, Simulation, simulate_null

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.design import Design, Solver
    from dpinfer.releases.release import Release


# Intervals and p-values from the normal law, and the noise for which they are exact.


def is_gaussian(mechanism: NoiseLaw, size: int) -> bool:
    """Whether the noise of all of so many values is Gaussian, if they have any."""
    return all(isinstance(law, (Gaussian, Exact)) for law, _ in groups(mechanism, size))


Method = Literal["exact", "monte-carlo", "asymptotic"]

_NOISES_IN_BLOCK = 4_000_000
"""Largest number of noises drawn at a time, replicates times m."""

CHECKED = 1e-9
"""Share of its variance by which a value has to be checked by others, not to be left out."""


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


class OverlappingEstimate(ABC):
    """Estimates from values of which some may be more than needed."""

    def consistency_test(
        self,
        method: str | None = None,
        *,
        reps: int = 10_000,
        rng: RNG = None,
        progress: bool = False,
    ) -> HypothesisResult:
        """Test whether overlapping values disagree more than their noise allows.

        Parameters
        ----------
        method : {"exact", "monte-carlo", "asymptotic"}, optional
            ``"exact"``: the chi-squared law, for Gaussian noise only; ``"monte-carlo"``: the law
            simulated from the noise; ``"asymptotic"``: the chi-squared law as an approximation.
            By default exact where all noise is Gaussian, and Monte Carlo otherwise.
        reps : int, default 10_000
            Number of replicates for ``"monte-carlo"``.
        rng : None, int or numpy.random.Generator, optional
            Source of these; an int is a seed. A generator is asked for a seed once.
        progress : bool, default False
            Whether to show a progress bar while simulating.

        Returns
        -------
        HypothesisResult
            The statistic Q = Σ (y - x̂)²/v over all noisy values with its p-value; it unpacks as
            ``statistic, pvalue``.

        Raises
        ------
        NotEstimableError
            If no published value overlaps with the others, so that nothing can disagree.

        Notes
        -----
        A value y, with noise of variance v, is compared with x̂, which the combined estimates have
        in its place. The law of Q depends on the noise alone, not on the confidential values. For
        Gaussian noise it is chi-squared, with as many degrees of freedom as there are noisy values
        beyond those needed to determine the others. A small p-value says that the stated noise, the
        stated queries or hierarchy, or the published values are not what they are said to be. The
        simulated p-value is (1 + b)/(R + 1).
        """
        simulation = Simulation.checked(reps, rng, progress)
        return consistency_test(self._overlap(), method, simulation)

    @abstractmethod
    def _overlap(self) -> Overlap | None:
        """Return the statistic of disagreement; None where no value overlaps with others."""


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
        noisy = self.release.variance > 0
        precision = 1.0 / self.release.variance[noisy]
        with np.errstate(over="ignore", invalid="ignore"):  # refused here
            fitted = self.design.matrix @ self.solver.coefficients(values)
            found = np.asarray(precision @ np.square((values - fitted)[noisy]))
        if not np.isfinite(found).all():
            raise ConvergenceError(OVERFLOW)
        return found

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw that many replicates of Q: the confidential values drop out."""
        noise = self.release.mechanism.rvs((size, len(self.release)), rng=rng)
        return self.of(np.asarray(noise, dtype=np.float64).T)


def disagreement_frame(
    published: FloatArray,
    estimate: FloatArray,
    residual: FloatArray,
    std_err: FloatArray,
    score: FloatArray,
    pvalue: FloatArray,
    *,
    index: pd.Index,
    method: str,
    compared: int,
) -> pd.DataFrame:
    """Return values beside their estimates, out of so many that were compared."""
    import pandas as pd

    columns = {
        "published": published,
        "estimate": estimate,
        "residual": residual,
        "std_err": std_err,
        "z": score,
        "pvalue": pvalue,
    }
    frame = pd.DataFrame(columns, index=index)
    frame.attrs = {"method": method, "values": compared}
    return frame


def consistency_test(
    overlap: Overlap | None, method: str | None, simulation: Simulation
) -> HypothesisResult:
    """Test the agreement of values; see :meth:`OverlappingEstimate.consistency_test`."""
    if overlap is None or overlap.degrees == 0:
        raise NotEstimableError(
            "the release has no overlapping values: every published value is needed to determine "
            "the estimates, so that there is nothing that could disagree"
        )
    if method is None:
        method = "exact" if is_gaussian(overlap.mechanism, overlap.size) else "monte-carlo"
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


def _exact(overlap: Overlap, statistic: FloatArray, simulation: Simulation) -> NullDistribution:
    if not is_gaussian(overlap.mechanism, overlap.size):
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
