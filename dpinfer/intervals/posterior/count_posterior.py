"""Posteriors of confidential counts given the published ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, check_array, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import check_published, common_shape
from dpinfer.intervals.posterior._ladder import Panjer
from dpinfer.intervals.posterior._likelihood import check_law
from dpinfer.intervals.posterior._setup import (
    ladder_of,
    ladder_parts,
    table_of,
    table_parts,
    tabulate,
)
from dpinfer.intervals.posterior.priors import (
    LARGEST_COUNT,
    CountPrior,
    FlatPrior,
    FunctionPrior,
    TablePrior,
)
from dpinfer.intervals.posterior.result import CountPosterior
from dpinfer.mechanisms import Mechanism, as_noise
from dpinfer.mechanisms.independent import groups
from dpinfer.results.labels import attach_labels, split_labels

EMPIRICAL = (
    "Empirical Bayes: the prior was estimated from the published counts themselves, and its own "
    "uncertainty is not included."
)


def count_posterior(
    count: Any,
    *,
    mechanism: Mechanism,
    prior: CountPrior | None = None,
    lower: float | None = 0,
    upper: float | None = None,
) -> CountPosterior:
    """Exact posteriors of confidential whole numbers given their published values.

    Parameters
    ----------
    count : float, array of shape (m,), Series or DataFrame
        The published values: the confidential counts plus noise, not rounded or clamped since.
        Within ±2^52.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each. Laplace, Geometric, Gaussian,
        DiscreteGaussian, Tulap or Exact.
    prior : FlatPrior, PoissonPrior, NegativeBinomialPrior, TablePrior or FunctionPrior, optional
        What is believed of the counts beforehand, independently of each other. By default flat.
        See :func:`empirical_prior` for one from the table itself.
    lower, upper : float, optional
        Ends of the support; by default the whole numbers from 0 on. ``None`` is no end.

    Returns
    -------
    CountPosterior
        One posterior for each value, with the labels of ``count``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, ``mechanism`` does not fit ``count``, a value
        could not have come from any count of the support, or the posterior would be improper.

    Notes
    -----
    For a prior π and noise of density (or probability) g, P(f = k | y) ∝ π(k)·g(y - k). The sum
    runs over a window around its largest term; what is left out is below 1e-14 of it. Where y is
    far from all counts that the prior allows, that window is far from y.

    Under a flat prior without ends, and symmetric noise on the whole numbers, the posterior is
    the law of the noise around y. Values published after others of the table were looked at
    (thresholded, clamped, the largest of many) need the law of that selection as well.

    References
    ----------
    Ghosh, A., Roughgarden, T. and Sundararajan, M. (2012). Universally utility-maximizing privacy
    mechanisms. SIAM Journal on Computing 41(6), 1673-1693. doi:10.1137/09076828X.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> posterior = count_posterior([-3, 2, 10], mechanism=Geometric(scale=2.0))
    >>> posterior.mean.round(3)
    array([ 1.541,  2.733, 10.032])
    >>> lower, upper = posterior.interval(alpha=0.1)
    >>> lower, upper
    (array([0., 0., 6.]), array([ 4.,  5., 14.]))
    """
    values, labels = split_labels(count, "count")
    check_array(values, "count", ge=-LARGEST_COUNT, le=LARGEST_COUNT)
    belief = FlatPrior() if prior is None else prior
    if not isinstance(belief, CountPrior):
        raise InvalidParameterError(
            f"prior must be a prior such as PoissonPrior(5.0), got {show(prior)}"
        )
    low, high = _support(lower, upper)
    ladder = ladder_of(belief, labels)
    shape = values.shape
    if isinstance(ladder, Panjer):
        shape = common_shape(count=values, mean=ladder.mean, dispersion=ladder.dispersion)
        ladder = Panjer(*(_flat(part, shape) for part in (ladder.mean, ladder.dispersion)))
    elif values.ndim > 1:
        common_shape(count=values)
    if labels is not None and shape != values.shape:
        raise InvalidParameterError(
            f"count must have one value for each of the {shape[0]} entries of prior, got "
            f"{values.size} with labels"
        )
    law = as_noise(mechanism, max(1, int(np.prod(shape, dtype=int))))
    rows = np.ravel(np.broadcast_to(values, shape))
    for own, _ in groups(law, rows.size):
        check_law(own)
    check_published(rows, "count", law)
    if ladder is not None:
        parts = ladder_parts(rows, law, ladder, low, high)
    elif isinstance(belief, TablePrior):
        parts = table_parts(rows, law, table_of(belief, low, high))
    elif isinstance(belief, FunctionPrior):
        parts = table_parts(rows, law, tabulate(belief, rows, law, low, high))
    else:
        raise InvalidParameterError(
            f"prior must be one of this package, got {show(prior)}: pass the logarithms of its "
            "probabilities as FunctionPrior"
        )
    return CountPosterior(
        count=attach_labels(np.broadcast_to(values, shape), labels),
        prior=belief,
        lower=low,
        upper=high,
        labels=labels,
        notes=(EMPIRICAL,) if getattr(belief, "empirical", False) else (),
        parts=tuple(parts),
    )


def _support(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Return the smallest and the largest whole number between the bounds."""
    most = LARGEST_COUNT
    low = -np.inf if lower is None else np.ceil(check_scalar(lower, "lower", ge=-most, le=most))
    high = np.inf if upper is None else np.floor(check_scalar(upper, "upper", ge=-most, le=most))
    if low > high:
        raise InvalidParameterError(
            f"lower must be <= upper with a whole number between, got {lower} and {upper}"
        )
    return float(low), float(high)


def _flat(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return parameters as a number, or as one for each row."""
    return values if values.ndim == 0 else np.ravel(np.broadcast_to(values, shape))
