"""What all tests end with: p-values and their null law, by simulation or a limit, and a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import Alternative, FloatArray
from dpinfer.hypothesis_tests._inversion import Effect, Inversion
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.intervals import Uncertainty
from dpinfer.results.null import AsymptoticNull, NullDistribution, _KnownTails
from dpinfer.results.simulation import BLOCK, Draw, Simulation, simulate_null

Found = tuple[FloatArray, NullDistribution]
"""P-values, and the null law that they come from."""


@final
@dataclass(frozen=True, eq=False)
class ThreeTails(_KnownTails):
    """A null law whose two-sided p-values are not sums of its tails."""

    both: Callable[[FloatArray], FloatArray]
    kind: str

    def _extreme(self, statistic: FloatArray, alternative: Alternative) -> FloatArray:
        if alternative == "two-sided":
            return np.asarray(self.both(statistic))
        return super()._extreme(statistic, alternative)

    def _facts(self) -> list[tuple[str, object]]:
        return [("Kind", self.kind)]


GUARANTEED = "exact, the largest over a confidence set for the nuisance parameter"


def simulated(
    draws: Sequence[Draw],
    statistic: FloatArray,
    alternative: Alternative,
    simulation: Simulation,
    block: int = BLOCK,
) -> Found:
    """Find p-values by simulation, from one law or one for each statistic."""
    null = simulate_null(draws, statistic, simulation, alternative=alternative, block=block)
    return null.pvalue(statistic, alternative), null


def in_the_limit(statistic: FloatArray, alternative: Alternative, scale: ArrayLike = 1.0) -> Found:
    """Find p-values of the normal law."""
    null = AsymptoticNull.normal(scale)
    return null.pvalue(statistic, alternative), null


def answer(
    name: str,
    statistic: FloatArray,
    found: Found,
    alternative: Alternative,
    method: str,
    *,
    uncertainty: Uncertainty = "noise+sampling",
    effect: Effect | None = None,
    **details: Any,
) -> HypothesisResult:
    """Return a result with the Monte Carlo error, if there is one, and what makes its intervals."""
    pvalue, null = found
    if effect is not None:
        details["effect"] = effect.name
        details["estimate"] = np.asarray(effect.estimate).reshape(np.shape(statistic))
        details["inversion"] = Inversion(
            effect=effect,
            pvalue=pvalue,
            alternative=alternative,
            method=method,
            uncertainty=uncertainty,
            labels=details.get("labels"),
        )
    return HypothesisResult(
        name=name,
        statistic=statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty=uncertainty,
        mc_error=null.mc_error(statistic, alternative) if method == "monte-carlo" else 0.0,
        **details,
    )
