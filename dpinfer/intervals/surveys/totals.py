"""Population totals and means from noisy counts in probability samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, check_array
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import check_published
from dpinfer.intervals.surveys.designs import DesignName, checked_design
from dpinfer.intervals.surveys.estimate import Quantity, SurveyEstimate
from dpinfer.mechanisms import Mechanism, as_noise
from dpinfer.results.labels import split_labels


def survey_total(
    count: Any,
    *,
    mechanism: Mechanism,
    sample_size: Any = None,
    population_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate how many in the population have a property, from a noisy count in a sample.

    Parameters
    ----------
    count : float, array of shape (m,) or Series
        Noisy counts of the units in the sample that have the property, one for each of m
        properties, areas or times: each gives an estimate of its own.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    sample_size, population_size : int, array or Series
        Sizes n and N of the sample and of the population, for ``design="srs"``. Under
        ``design="poisson"`` there is no fixed sample size, and N, if given, bounds exact intervals.
    rate : float, array or Series
        Probability π in (0, 1] with which each unit is sampled, for ``design="poisson"``.
    design : {"srs", "poisson"}
        ``"srs"``: simple random sampling without replacement. ``"poisson"``: each unit is sampled
        independently of the others.

    Returns
    -------
    SurveyEstimate
        The estimates, the variance due to noise and that due to sampling; ``conf_int`` gives
        intervals for either source of error.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    See Also
    --------
    stratified_total : the sum over strata.

    Notes
    -----
    With a noisy count y = x + e and noise variance v, the Horvitz-Thompson estimate is N·y/n, or
    y/π. Noise adds (N/n)²v, or v/π², to its variance. The part due to sampling is estimated
    without bias: as E[y(n - y)] = x(n - x) - v,

    - simple random sampling: N²(1 - n/N)·s²/n with s² = (y(n - y) + v)/(n(n - 1));
    - Poisson sampling: (1 - π)y/π².

    Where that is negative, which noise may bring about, 0 takes its place and a note says so.

    References
    ----------
    Cochran, W. G. (1977). Sampling Techniques, 3rd edition, Theorems 2.2 and 3.2.
    Horvitz, D. G. and Thompson, D. J. (1952). A generalization of sampling without replacement
    from a finite universe. doi:10.1080/01621459.1952.10483446.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> total = survey_total([120.3, 34.8], mechanism=Laplace(scale=2.0), sample_size=1000,
    ...                      population_size=50_000)
    >>> total.params
    array([6015., 1740.])
    >>> np.sqrt(total.variance_noise).round(1), np.sqrt(total.variance_sampling).round(1)
    (array([141.4, 141.4]), array([509.5, 287. ]))
    >>> total.conf_int(method="exact").upper
    array([7106., 2439.])
    """
    return _estimate(count, mechanism, "total", False, sample_size, population_size, rate, design)


def survey_mean(
    count: Any,
    *,
    mechanism: Mechanism,
    population_size: Any,
    sample_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate the share of the population that has a property, from a noisy count in a sample.

    It is :func:`survey_total` divided by the size of the population.

    Parameters
    ----------
    count, mechanism, population_size, sample_size, rate, design
        As for :func:`survey_total`; ``population_size`` is needed under both designs.

    Returns
    -------
    SurveyEstimate
        The shares, with the components of their variances.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> share = survey_mean(120.3, mechanism=Laplace(scale=2.0), sample_size=1000,
    ...                     population_size=50_000)
    >>> share.params, share.bse.round(5)
    (np.float64(0.1203), np.float64(0.01057))
    """
    return _estimate(count, mechanism, "mean", False, sample_size, population_size, rate, design)


def stratified_total(
    counts: Any,
    *,
    mechanism: Mechanism,
    sample_size: Any = None,
    population_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate a population total from the noisy counts in independently sampled strata.

    Parameters
    ----------
    counts : array of float, shape (H,), or Series
        The noisy count of each stratum.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all strata, or one for each.
    sample_size, population_size, rate : array or Series, shape (H,), or number
        Sizes n and N, or rates π, of the strata; see :func:`survey_total`.
    design : {"srs", "poisson"}
        How each stratum was sampled.

    Returns
    -------
    SurveyEstimate
        One estimate; its ``strata`` are those of the strata, with their variances.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    Notes
    -----
    The estimate is the sum of those of the strata, and so are its variances. Estimated sampling
    variances are added before negative ones become 0, so that the sum has less bias.
    ``conf_int(uncertainty="noise")`` is exact: it uses the law of the weighted sum of the noises.

    References
    ----------
    Cochran, W. G. (1977). Sampling Techniques, 3rd edition, Section 5.3.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> total = stratified_total([40.2, 74.9], mechanism=Laplace(scale=2.0), sample_size=[200, 500],
    ...                          population_size=[10_000, 4_000])
    >>> total.params.round(1), total.bse.round(1), total.strata.params
    (np.float64(2609.2), np.float64(321.4), array([2010. ,  599.2]))
    """
    return _estimate(counts, mechanism, "total", True, sample_size, population_size, rate, design)


def stratified_mean(
    counts: Any,
    *,
    mechanism: Mechanism,
    population_size: Any,
    sample_size: Any = None,
    rate: Any = None,
    design: DesignName = "srs",
) -> SurveyEstimate:
    """Estimate a population share from the noisy counts in independently sampled strata.

    It is :func:`stratified_total` divided by the size of the population, the sum of the sizes of
    the strata.

    Parameters
    ----------
    counts, mechanism, population_size, sample_size, rate, design
        As for :func:`stratified_total`; ``population_size`` is needed under both designs.

    Returns
    -------
    SurveyEstimate
        One share. Its ``strata`` are the parts that the strata have in it, which add up to it; for
        the shares within the strata use :func:`survey_mean`.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or the parts do not fit together.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> share = stratified_mean([40.2, 74.9], mechanism=Laplace(scale=2.0), sample_size=[200, 500],
    ...                         population_size=[10_000, 4_000])
    >>> share.params.round(5), share.bse.round(5)
    (np.float64(0.18637), np.float64(0.02295))
    """
    return _estimate(counts, mechanism, "mean", True, sample_size, population_size, rate, design)


def _estimate(
    count: Any,
    mechanism: Mechanism,
    quantity: Quantity,
    stratified: bool,
    sample_size: Any,
    population_size: Any,
    rate: Any,
    design: DesignName,
) -> SurveyEstimate:
    """Horvitz-Thompson estimates of each count and, for strata, of their sum."""
    name = "counts" if stratified else "count"
    values, labels = split_labels(count, name)
    if values.ndim > 1 or (stratified and values.ndim == 0):
        kind = "one-dimensional" if stratified else "a number or one-dimensional"
        raise InvalidParameterError(f"{name} must be {kind}, got shape {values.shape}")
    published = values.reshape(-1)
    noise = as_noise(mechanism, published.size)
    check_published(published, name, noise)
    sampling = checked_design(
        design,
        values,
        labels,
        sample_size=sample_size,
        population_size=population_size,
        rate=rate,
    )
    weights = sampling.expansion
    if quantity == "mean":
        size = sampling.population_size
        if size is None:
            raise InvalidParameterError("population_size must be given for a mean, got None")
        weights = weights / (size.sum() if stratified else size)
    ratio = weights / sampling.expansion
    noise_variance = np.broadcast_to(np.asarray(noise.variance), published.shape)
    unbiased = np.square(ratio) * sampling.sampling_variance(published, noise_variance)
    cells = SurveyEstimate(
        quantity=quantity,
        params=check_array((weights * published).reshape(values.shape), "weighted count"),
        variance_noise=(np.square(weights) * noise_variance).reshape(values.shape),
        variance_sampling=np.maximum(unbiased, 0.0).reshape(values.shape),
        count=published,
        weights=weights,
        mechanism=noise,
        design=sampling,
        labels=labels,
        notes=_clipped(unbiased),
    )
    if not stratified:
        return cells
    total = unbiased.sum(keepdims=True)
    return SurveyEstimate(
        quantity=quantity,
        params=np.sum(cells.params),
        variance_noise=np.sum(cells.variance_noise),
        variance_sampling=max(float(total[0]), 0.0),
        count=published,
        weights=weights,
        mechanism=noise,
        design=sampling,
        strata=cells,
        notes=_clipped(total),
    )


def _clipped(unbiased: FloatArray) -> tuple[str, ...]:
    """Say where an unbiased estimate of a variance was negative."""
    negative = int(np.count_nonzero(unbiased < 0))
    if not negative:
        return ()
    return (
        f"{negative} of {unbiased.size} estimated sampling variances were negative because of the "
        "noise and are set to 0: intervals that rest on them are too short; use method='exact'",
    )
