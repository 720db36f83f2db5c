"""Goodness-of-fit test for a table of noisy counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_array,
    check_integer,
    check_length,
    check_option,
    show,
)
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.hypothesis_tests._noisy_table import (
    SMALL_EXPECTED,
    STATISTICS,
    NoisyTable,
    Statistic,
)
from dpinfer.hypothesis_tests._published import LARGEST_NOBS, check_published, unlabelled
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.labels import split_labels
from dpinfer.results.null_distribution import AsymptoticNull, NullDistribution
from dpinfer.results.simulation import BLOCK, Simulation, simulate_null

Method = Literal["monte-carlo", "asymptotic"]

_CELLS_IN_BLOCK = 1 << 16
"""Cells drawn at a time, replicates times k: few enough to stay in the cache."""

_ROUNDING = 1e-9
"""Relative error allowed to the sum of the expected counts."""


def chisquare(
    f_obs: Any,
    f_exp: Any = None,
    *,
    mechanism: Mechanism,
    nobs: int | None = None,
    statistic: Statistic = "pearson",
    method: Method = "monte-carlo",
    reps: int = 10_000,
    rng: RNG = None,
    progress: bool = False,
) -> HypothesisResult:
    """Test whether noisy counts agree with given expected counts.

    Parameters
    ----------
    f_obs : array of shape (k,) or Series
        The published counts of k >= 2 cells: counts plus noise, not clamped or rounded since.
        Negative counts are ordinary values.
    f_exp : array of shape (k,) or Series, optional
        Expected counts under the null hypothesis, > 0, that add up to the public number of
        observations. By default all cells are equally likely, and ``nobs`` is needed.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all cells, or one for each.
    nobs : int, optional
        The public number of observations n >= 1. By default the sum of ``f_exp``; the sum of the
        noisy counts does not tell it.
    statistic : {"pearson", "projected"}
        ``"pearson"``: Σ (f_obs - f_exp)²/f_exp. ``"projected"``: a quadratic form that weighs the
        deviations by their sampling and noise variance, see Notes.
    method : {"monte-carlo", "asymptotic"}
        Where the null distribution comes from: ``"monte-carlo"`` simulates tables and noise;
        ``"asymptotic"``, for ``"projected"`` only, is χ² with k - 1 degrees of freedom.
    reps : int, default 10_000
        Number of replicates for ``"monte-carlo"``.
    rng : None, int or numpy.random.Generator
        Source of the replicates; an int is a seed. A generator is asked for a seed once.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    HypothesisResult
        Statistic and p-value, which accounts for sampling and noise; unpacks as
        ``statistic, pvalue``. ``notes`` says where an expected count is below 5.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the arguments do not fit together.

    Warns
    -----
    ApproximationWarning
        If ``"asymptotic"`` is asked for where an expected count is below 5 or the noise is not
        Gaussian.

    Notes
    -----
    Under the null hypothesis the table is multinomial(n, p) with p = f_exp/n, plus noise. The
    p-value is (1 + b)/(R + 1) when b of R simulated tables have at least the observed statistic
    (Gaboardi et al. 2016, MCGOF). The null hypothesis is simple, so that the level holds at any n
    and R. It does not hold where f_exp was estimated from the table.

    The projected statistic is, with d = f_obs - f_exp, V the variances of the noise and
    Σ = n(diag(p) - ppᵀ) + diag(V), the minimum over c of (d - c·1)ᵀ Σ⁻¹ (d - c·1). That is the
    generalised least-squares form in the contrasts of d: the total of d, which holds nothing but
    noise, is taken out. With one V for all cells it is the projected statistic of Kifer and Rogers
    (2017, §5.2). Its limit for large n under Gaussian noise, however large V, is χ² with k - 1
    degrees of freedom. Without noise both statistics are Pearson's.

    References
    ----------
    Gaboardi, M., Lim, H., Rogers, R. and Vadhan, S. (2016). Differentially private chi-squared
    hypothesis testing: goodness of fit and independence testing. ICML. arXiv:1602.03090.
    Kifer, D. and Rogers, R. (2017). A new class of private chi-square hypothesis tests. AISTATS,
    PMLR 54:991-1000. Sections as in arXiv:1610.07662.

    Examples
    --------
    >>> from dpinfer.mechanisms import Gaussian
    >>> published = [31.2, 54.9, 119.5, 198.1]
    >>> result = chisquare(published, [40, 60, 100, 200], mechanism=Gaussian(sigma=5.0),
    ...                    statistic="projected", method="asymptotic")
    >>> result.statistic.round(4), result.pvalue.round(4)
    (np.float64(4.737), np.float64(0.1921))
    """
    method = check_option(method, "method", _NULLS)
    statistic = check_option(statistic, "statistic", STATISTICS)
    simulation = Simulation.checked(reps, rng, progress)
    deviations, table = _checked(f_obs, f_exp, nobs, mechanism)
    value = STATISTICS[statistic](table)(deviations)
    null, notes = _NULLS[method](table, statistic, value, simulation)
    return HypothesisResult(
        name="Goodness of fit",
        statistic=value,
        pvalue=null.pvalue(value, "larger"),
        alternative="larger",
        method=method,
        null_distribution=null,
        uncertainty="noise+sampling",
        nobs=table.nobs,
        mc_error=null.mc_error(value, "larger"),
        notes=(f"{table.expected.size} cells, {statistic} statistic", *notes),
    )


def _checked(
    f_obs: Any, f_exp: Any, nobs: object, mechanism: Mechanism
) -> tuple[FloatArray, NoisyTable]:
    """Check the arguments against each other; return the deviations and their law."""
    values, labels = split_labels(f_obs, "f_obs")
    observed = check_array(values, "f_obs", ndim=1)
    if observed.size < 2:
        raise InvalidParameterError(f"f_obs must have at least 2 cells, got {observed.size}")
    total = None if nobs is None else check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS))
    if f_exp is not None:
        expected = check_array(
            unlabelled(f_exp, "f_exp", labels, "f_obs"), "f_exp", gt=0, le=LARGEST_NOBS, ndim=1
        )
        check_length(expected, "f_exp", observed.size, "the cells of f_obs")
        total = _checked_total(expected, total)
    elif total is not None:
        expected = np.full(observed.size, total / observed.size)
    else:
        raise InvalidParameterError(
            "nobs must be given where f_exp is not: the sum of noisy counts does not tell it"
        )
    noise = as_noise(mechanism, observed.size)
    check_published(observed, "f_obs", noise)
    return observed - expected, NoisyTable(total, expected, noise)


def _checked_total(expected: FloatArray, nobs: int | None) -> int:
    """Return the number of observations, to which the expected counts have to add up."""
    found = float(expected.sum())
    total = round(found) if nobs is None else nobs
    if not 1 <= total <= LARGEST_NOBS or abs(found - total) > _ROUNDING * total:
        wanted = "a whole number >= 1" if nobs is None else f"nobs = {nobs}"
        raise InvalidParameterError(
            f"f_exp must add up to {wanted}, got {found:.15g}: multiply proportions by the number "
            "of observations"
        )
    return total


def _small_expected(table: NoisyTable) -> list[str]:
    """Return what is to be said about small expected counts, if anything."""
    small = np.count_nonzero(table.expected < SMALL_EXPECTED)
    return [f"expected counts below {SMALL_EXPECTED:g} in {small} cells"] if small else []


def _monte_carlo(
    table: NoisyTable, statistic: Statistic, value: FloatArray, simulation: Simulation
) -> tuple[NullDistribution, tuple[str, ...]]:
    form = STATISTICS[statistic](table)
    null = simulate_null(
        [lambda size, rng: form(table.draw_deviations(size, rng))],
        value,
        simulation,
        block=min(BLOCK, max(1, _CELLS_IN_BLOCK // table.expected.size)),
    )
    notes = [f"{note}; the simulated p-value is valid" for note in _small_expected(table)]
    return null, tuple(notes)


def _asymptotic(
    table: NoisyTable, statistic: Statistic, value: FloatArray, simulation: Simulation
) -> tuple[NullDistribution, tuple[str, ...]]:
    if statistic != "projected":
        raise InvalidParameterError(
            f"statistic must be 'projected' with method='asymptotic', got {show(statistic)}, whose "
            "limit is not chi-squared under noise: use method='monte-carlo'"
        )
    doubts = _small_expected(table)
    if not table.has_gaussian_noise:
        doubts.append("noise that is not Gaussian")
    notes = tuple(f"{doubt}; the chi-squared limit is not to be trusted" for doubt in doubts)
    for note in notes:
        warnings.warn(note, ApproximationWarning, stacklevel=3)
    return AsymptoticNull.chi2(table.expected.size - 1), notes


_NULLS: dict[
    Method,
    Callable[
        [NoisyTable, Statistic, FloatArray, Simulation], tuple[NullDistribution, tuple[str, ...]]
    ],
] = {"monte-carlo": _monte_carlo, "asymptotic": _asymptotic}
