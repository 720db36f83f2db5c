"""Tests about confidential counts, in which nothing is random but the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._interchange import as_table
from dpinfer._validation import (
    ALTERNATIVES,
    RNG,
    Alternative,
    FloatArray,
    check_array,
    check_option,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import check_published, common_shape, unlabelled
from dpinfer.estimation.weights import checked_weights
from dpinfer.hypothesis_tests._published import law_pair
from dpinfer.hypothesis_tests.counts._noise_only import NULLS, Method, NoiseOnly
from dpinfer.mechanisms._fast_sum import fast_sum
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms._sums.collect import kinds
from dpinfer.mechanisms.independent import Dependence, Mechanism, as_noise, groups
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import split_labels
from dpinfer.results.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd


def linear_ztest(
    values: Any,
    weights: Any,
    value: Any = 0.0,
    *,
    mechanism: Mechanism,
    alternative: Alternative = "two-sided",
    method: Method = "exact",
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test whether linear functions of the confidential values have given values.

    Parameters
    ----------
    values : array of float, shape (m,), or Series
        The published values: confidential values plus noise, not clamped or rounded since.
    weights : array of float, shape (m,) or (k, m), Series, DataFrame or mapping
        The weights of one linear function, or of k functions, one a row. Where ``values`` has
        labels, the index of a Series, the columns of a DataFrame or the keys of a mapping say
        which value each weight is for, and values without a weight have no part; the index of a
        DataFrame labels the tests.
    value : float, array of shape (k,) or Series, default 0
        What each function is under the null hypothesis.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the function differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "normal"}
        ``"exact"``: the law of the weighted sum of the noises. ``"monte-carlo"`` simulates it.
        ``"normal"``: the normal law with its variance.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.
    precision : float, optional
        Relative standard error of the p-value at which to stop simulating.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    HypothesisResult
        Statistics z = (Σ cᵢyᵢ - value)/√(Σ cᵢ²vᵢ) and p-values. They account for the noise only:
        the hypothesis is about the confidential values.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the parts do not fit together, or a function
        has no noise.

    See Also
    --------
    dpinfer.linear_confint : the interval that holds the values this test does not reject.
    dpinfer.counts_2indep : many differences of two counts.

    Notes
    -----
    The error of Σ cᵢyᵢ is Σ cᵢeᵢ, whose law is that of :class:`~dpinfer.WeightedSum`. It is
    symmetric: the two-sided p-value is 2·P(Σ cᵢeᵢ ≥ abs(deviation)), at most 1. ``"normal"`` is
    exact for Gaussian noise. For three Laplace or geometric noises of ε = 0.05, 0.2 or 1 it rejects
    up to 2.1, 6.4 and 12.6 % at levels 1, 5 and 10 %, and more for fewer; the other methods keep
    every level.

    The test assumes that the values were published whatever they are. It does not hold for values
    that were published because they passed a threshold.

    Examples
    --------
    Two published counts of a county whose population is known to be 29277:

    >>> from dpinfer import DiscreteGaussian
    >>> linear_ztest([14619, 14629], [1, 1], 29277, mechanism=DiscreteGaussian(sigma=8.0))
    HypothesisResult('Test of a linear function', statistic=-2.56326, pvalue=0.0117392)
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    published, labels = split_labels(values, "values")
    if published.ndim != 1:
        raise InvalidParameterError(f"values must be one-dimensional, got shape {published.shape}")
    noise = as_noise(mechanism, published.size, dependence="used")
    check_published(published, "values", noise)
    weights = as_table(weights, "weights")
    matrix = checked_weights(weights, labels, published.size)
    rows = weights.index if hasattr(weights, "columns") else None
    problem = _linear(published, matrix, _target(value, rows, matrix.shape[:-1]), noise)
    _check_noise(problem)
    return _result("Test of a linear function", problem, alternative, method, simulation, rows)


def counts_2indep(
    count1: Any,
    count2: Any,
    value: Any = 0.0,
    *,
    mechanism: Mechanism | tuple[Mechanism, Mechanism],
    alternative: Alternative = "two-sided",
    method: Method = "exact",
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    precision: float | None = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test whether two confidential counts are equal, row by row.

    Parameters
    ----------
    count1, count2 : float, array of shape (m,) or Series
        The published counts: confidential counts plus independent noise, not clamped or rounded
        since. Two Series have the same labels in the same order.
    value : float, array of shape (m,) or Series, default 0
        The difference, first less second, under the null hypothesis.
    mechanism : NoiseLaw or (NoiseLaw, NoiseLaw)
        The law of the noise: one for both counts, or a pair. Each has scalar parameters or one
        for each of the m rows. Laws that a fit gave of its estimates know how they depend.
    alternative : {"two-sided", "larger", "smaller"}
        Whether the difference differs from ``value``, exceeds it, or falls short of it.
    method : {"exact", "monte-carlo", "normal"}
        ``"exact"``: the law of the difference of the noises. ``"monte-carlo"`` simulates it.
        ``"normal"``: the normal law with its variance.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed.
    n_jobs : int or None, default 1
        Number of workers that simulate, as joblib takes it.
    precision : float, optional
        Relative standard error of the p-value at which to stop simulating.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    HypothesisResult
        Statistics z = (y₁ - y₂ - value)/√(v₁ + v₂) and p-values, with the labels of the counts.
        They account for the noise only: the hypothesis is about the confidential counts.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the parts do not fit together, or a difference
        has no noise.

    See Also
    --------
    dpinfer.poisson_2indep, dpinfer.proportions_2indep : whether populations differ, of which the
        counts are samples.
    dpinfer.adjust_pvalues : many tests at once.

    Notes
    -----
    The law of e₁ - e₂ is symmetric: the two-sided p-value is 2·P(e₁ - e₂ ≥ abs(deviation)), at
    most 1. Where there are many rows it is tabulated, to 1e-12. ``"normal"`` is exact for Gaussian
    noise; for two Laplace or geometric noises of ε = 0.05 to 3 it rejects up to 3.2, 7.5 and
    10.6 % at levels 1, 5 and 10 %. The other methods keep every level.

    Examples
    --------
    >>> from dpinfer import Geometric
    >>> result = counts_2indep([530, 118], [498, 121], mechanism=Geometric(scale=10.0))
    >>> result.pvalue.round(6)
    array([0.110204, 0.875947])
    """
    alternative = check_option(alternative, "alternative", ALTERNATIVES)
    method = check_option(method, "method", NULLS)
    simulation = Simulation.checked(reps, rng, progress, n_jobs, precision)
    problem, labels = differences(count1, count2, value, mechanism, dependence="used")
    name = "Test of two counts"
    return _result(name, problem, alternative, method, simulation, labels)


def differences(
    count1: Any,
    count2: Any,
    value: Any,
    mechanism: Mechanism | tuple[Mechanism, Mechanism],
    *,
    dependence: Dependence = "refused",
) -> tuple[NoiseOnly, pd.Index | None]:
    """Check two rows of counts against each other; return their differences and the labels."""
    first, labels = split_labels(count1, "count1")
    second, shift = unlabelled(count2, "count2", labels, "count1"), _target(value, labels)
    shape = common_shape(count1=first, count2=second, value=shift)
    if dependence == "refused" and first.shape != second.shape:
        raise InvalidParameterError(
            "count1 and count2 must have one value for each cell, got shapes "
            f"{first.shape} and {second.shape}: a value that stands in several differences makes "
            "them dependent"
        )
    pair = law_pair(mechanism, shape[0] if shape else 1, "mechanism", dependence=dependence)
    shape = np.broadcast_shapes(shape, pair[0].shape, pair[1].shape)
    for name, count, noise in zip(("count1", "count2"), (first, second), pair, strict=True):
        check_published(np.broadcast_to(count, shape), name, noise)
    laws, which = _laws_of(pair, shape)
    problem = NoiseOnly(
        deviation=np.broadcast_to((first - second) - shift, shape),
        magnitude=np.broadcast_to(np.abs(first) + np.abs(second) + np.abs(shift), shape),
        laws=laws,
        which=which,
    )
    _check_noise(problem)
    return problem, labels


def _result(
    name: str,
    problem: NoiseOnly,
    alternative: Alternative,
    method: Method,
    simulation: Simulation,
    labels: pd.Index | None,
) -> HypothesisResult:
    """Test, and say what was tested."""
    pvalue, null = NULLS[method](problem, alternative, simulation)
    return HypothesisResult(
        name=name,
        statistic=problem.statistic,
        pvalue=pvalue,
        alternative=alternative,
        method=method,
        null_distribution=null,
        uncertainty="noise",
        mc_error=null.mc_error(problem.statistic, alternative),
        labels=labels,
    )


def _check_noise(problem: NoiseOnly) -> None:
    """Refuse what is not random."""
    if any(float(law.std) == 0.0 for law in problem.laws):
        raise InvalidParameterError(
            "mechanism must have noise in every value that is tested: without noise there is "
            "nothing to test, compare the values"
        )


def _target(
    value: Any, labels: pd.Index | None, shape: tuple[int, ...] | None = None
) -> FloatArray:
    """Return what is expected under the null hypothesis, one number or one for each row."""
    target = check_array(
        unlabelled(value, "value", labels, "the rows"), "value", ge=-1e100, le=1e100
    )
    if target.ndim and shape is not None and target.shape != shape:
        raise InvalidParameterError(
            f"value must be a number, or have one entry for each row of weights, {shape}, got "
            f"shape {target.shape}"
        )
    return target


def _linear(
    published: FloatArray, matrix: FloatArray, target: FloatArray, noise: NoiseLaw
) -> NoiseOnly:
    """Deviations of linear functions, and their laws, each once."""
    rows = weighted_sums(np.atleast_2d(matrix), noise)
    laws = list({id(law): law for law in rows}.values())
    place = {id(law): number for number, law in enumerate(laws)}
    shape = matrix.shape[:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = check_array(matrix @ published - target, "weights @ values - value")
    return NoiseOnly(
        deviation=deviation,
        magnitude=np.abs(matrix) @ np.abs(published) + np.abs(target),
        laws=[*laws],
        which=np.array([place[id(law)] for law in rows], dtype=np.intp).reshape(shape),
    )


def _laws_of(
    pair: tuple[NoiseLaw, NoiseLaw], shape: tuple[int, ...]
) -> tuple[list[NoiseLaw], NDArray[np.intp]]:
    """Laws of the differences of two noises, each once, and the number of that of each row."""
    size = shape[0] if shape else 1
    numbers = [kinds(groups(law, size), size) for law in pair]
    _, first, which = np.unique(np.stack(numbers), axis=1, return_index=True, return_inverse=True)
    parts = [[law.take(row) if law.shape else law for law in pair] for row in first]
    laws = [
        # errors that share noises need their signs, of which other sums have no need
        WeightedSum([1.0, -1.0], part)
        if any(law._shares for law in part)
        else fast_sum(np.ones(2), part)
        for part in parts
    ]
    return laws, which.reshape(shape)
