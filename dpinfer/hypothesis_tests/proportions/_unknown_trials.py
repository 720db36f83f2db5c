"""Tests of a proportion where the number of trials is known only with noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from dpinfer._numerics.integer_maximum import ENUMERATED
from dpinfer._validation import Alternative, FloatArray
from dpinfer.estimation.unknown_trials import UnknownTrials
from dpinfer.hypothesis_tests.proportions._nuisance import GuaranteedNull
from dpinfer.hypothesis_tests.proportions._one_count import DrawZ
from dpinfer.hypothesis_tests.proportions._plug_in import largest
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.noisy_binomial import NoisyBinomial
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.null_distribution import AsymptoticNull, ExactNull, NullDistribution
from dpinfer.results.simulation import Simulation, simulate_null

Method = Literal["exact", "plug-in", "monte-carlo", "normal"]


def exact(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values that hold whatever the number of trials."""
    pvalue = largest(test, alternative, test.difference).reshape(test.shape)
    null = GuaranteedNull(
        partial(_largest_tail, test, "larger"),
        partial(_largest_tail, test, "smaller"),
        partial(_largest_tail, test, "two-sided"),
    )
    return pvalue, null


def _largest_tail(test: UnknownTrials, alternative: Alternative, z: FloatArray) -> FloatArray:
    """P-value at a statistic with the published number of trials."""
    point = np.broadcast_to(z, test.shape).reshape(-1) * test.spread
    return largest(test, alternative, point).reshape(test.shape)


def plug_in(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values at the estimated number of trials."""
    rows = np.arange(test.count.size)
    pvalue = test.tail(alternative, test.difference, test.trials, rows).reshape(test.shape)
    null = ExactNull(
        partial(test.plug_in_tail, "larger"),
        partial(test.plug_in_tail, "smaller"),
        error=test.error.reshape(test.shape),
    )
    return pvalue, null


def monte_carlo(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values by simulation at the estimated number of trials."""
    n, p = test.trials, test.value
    laws: dict[int, NoiseLaw] = {int(row): law for law, _, rows in test.groups for row in rows}
    draws = [
        DrawZ(
            NoisyBinomial(nobs=n[row], value=p[row], noise=laws[row]),
            float(n[row] * p[row]),
            float(test.spread[row]),
        )
        for row in range(test.count.size)
    ]
    statistic = test.statistic.reshape(test.shape)
    null = simulate_null(draws, statistic, simulation, alternative=alternative)
    return null.pvalue(statistic, alternative), null


def normal(
    test: UnknownTrials, alternative: Alternative, simulation: Simulation
) -> tuple[FloatArray, NullDistribution]:
    """P-values in the limit of many trials, at their estimated number."""
    scale = np.sqrt(1.0 + test.variance / np.square(test.spread))
    null = AsymptoticNull.normal(np.broadcast_to(scale, test.count.shape).reshape(test.shape))
    statistic = test.statistic.reshape(test.shape)
    return null.pvalue(statistic, alternative), null


NULLS: dict[
    Method,
    Callable[[UnknownTrials, Alternative, Simulation], tuple[FloatArray, NullDistribution]],
] = {"exact": exact, "plug-in": plug_in, "monte-carlo": monte_carlo, "normal": normal}
"""The p-values and the null distribution of each method."""


def run(
    name: str,
    test: UnknownTrials,
    alternative: Alternative,
    method: Method,
    simulation: Simulation,
) -> HypothesisResult:
    """Test and report; the number of observations is the estimated one."""
    pvalue, null = NULLS[method](test, alternative, simulation)
    statistic = test.statistic.reshape(test.shape)
    return HypothesisResult(
        name=name,
        statistic=statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=test.nobs.reshape(test.shape),
        mc_error=null.mc_error(statistic, alternative),
        labels=test.labels,
        notes=_notes(test, method),
    )


def _notes(test: UnknownTrials, method: Method) -> tuple[str, ...]:
    """Say what the p-values take for granted, unless the number of trials is known after all."""
    noisy = np.any(test.nobs_noise.variance) or (test.is_total and np.any(test.noise.variance))
    if not noisy:
        return ()
    if method != "exact":
        return ("p-values take the estimated number as the true one",)
    note = f"p-values hold whatever the true number; they include {test.nuisance_alpha:g} for that"
    low, high, _ = test.confidence_set
    if (high - low < ENUMERATED).all():
        return (note,)
    return (note, "the maximum over long ranges of that number is a numerical one, on a fine grid")
