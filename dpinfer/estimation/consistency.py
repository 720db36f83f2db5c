"""Whether overlapping published values agree as well as their noise says that they should."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer._check import RNG, FloatArray, check_option
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact, Gaussian
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import BLOCK, Simulation, simulate_null

if TYPE_CHECKING:
    import pandas as pd


# Intervals and p-values from the normal law, and the noise for which they are exact.


def is_gaussian(mechanism: NoiseLaw, size: int) -> bool:
    """Whether the noise of all of so many values is Gaussian, if they have any."""
    return all(isinstance(law, (Gaussian, Exact)) for law, _ in groups(mechanism, size))


_METHODS = ("exact", "monte-carlo", "asymptotic")
_NOISES_IN_BLOCK = 4_000_000  # largest number of noises drawn at a time, replicates times m
CHECKED = 1e-9
"""Share of its variance by which a value has to be checked by others, not to be left out."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """Values more than needed, and the statistic Q of how much they disagree."""

    degrees: int  # number of noisy values beyond those needed to determine the others
    mechanism: NoiseLaw  # the law of the noise
    size: int  # number of values
    observed: Callable[[], FloatArray]  # Q of the published values
    # that many replicates of Q: the confidential values drop out
    draw: Callable[[int, np.random.Generator], FloatArray]
    of: Callable[[FloatArray], FloatArray] | None = None  # Q for other values, one column each
    published: int | None = None  # number of published values, where that is another


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
        overlap = self._overlap()
        if overlap is None or overlap.degrees == 0:
            raise NotEstimableError(
                "the release has no overlapping values: every published value is needed to "
                "determine the estimates, so that there is nothing that could disagree"
            )
        gaussian = is_gaussian(overlap.mechanism, overlap.size)
        if method is None:
            method = "exact" if gaussian else "monte-carlo"
        chosen = check_option(method, "method", _METHODS)
        if chosen == "exact" and not gaussian:
            raise InvalidParameterError(
                "method must be 'monte-carlo' or 'asymptotic' unless all noise is Gaussian, got "
                "'exact'"
            )
        statistic = overlap.observed()
        chi2 = AsymptoticNull.chi2(overlap.degrees)
        null: NullDistribution = chi2
        if chosen == "exact":  # not a limit there
            null = ExactNull(chi2.larger, chi2.smaller)
        elif chosen == "monte-carlo":
            block = min(BLOCK, max(1, _NOISES_IN_BLOCK // overlap.size))
            null = simulate_null([overlap.draw], statistic, simulation, block=block)
        return HypothesisResult(
            name="Consistency of a release",
            statistic=statistic,
            pvalue=null.pvalue(statistic, "larger"),
            alternative="larger",
            method=chosen,
            null_distribution=null,
            uncertainty="noise",
            nobs=overlap.size if overlap.published is None else overlap.published,
            mc_error=null.mc_error(statistic, "larger"),
            notes=(
                f"{overlap.degrees} values more than needed; a small p-value says that they "
                "disagree more than the noise allows.",
            ),
        )

    @abstractmethod
    def _overlap(self) -> Overlap | None:
        """Return the statistic of disagreement; None where no value overlaps with others."""


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
