"""Priors estimated from the published counts themselves."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray, check_array, check_option
from dpinfer.errors import ConvergenceError
from dpinfer.intervals.posterior._window import Window
from dpinfer.intervals.posterior.count_posterior import count_posterior
from dpinfer.intervals.posterior.priors import NegativeBinomialPrior, PoissonPrior
from dpinfer.intervals.posterior.result import CountPosterior
from dpinfer.mechanisms import Mechanism, as_noise
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.results.labels import split_labels

Family = Literal["poisson", "negative-binomial"]

FAMILIES: tuple[Family, ...] = ("poisson", "negative-binomial")

_LARGEST = 1e14
"""Counts that leave room above them for the rates of a prior that are tried."""

_SMALLEST = 1e-9
"""A rate whose likelihood still falls from here is 0."""

_SMALLEST_START = 0.1
_FLAT = 1e-5
_ROUNDING = 1e-12
_DISPERSIONS = (1e-6, 1e4)
"""Where the dispersion is looked for; at the lower end it is taken to be 0."""


def empirical_prior(
    count: Any, *, mechanism: Mechanism, family: Family = "poisson"
) -> PoissonPrior | NegativeBinomialPrior:
    """Prior shared by all counts of a table, estimated from their published values.

    Parameters
    ----------
    count : array, Series or DataFrame
        The published values, as for :func:`count_posterior`, at most 1e14.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise.
    family : {"poisson", "negative-binomial"}
        The family of the prior.

    Returns
    -------
    PoissonPrior or NegativeBinomialPrior
        The prior under which the published values are most likely, marked as ``empirical``:
        posteriors under it say so in their notes.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    ConvergenceError
        If the maximum of the likelihood was not found.

    Notes
    -----
    The marginal likelihood Π_i Σ_k π(k)·g_i(y_i - k) is maximised. Its derivative by the rate λ
    of a Poisson prior is Σ_i (E[f_i | y_i]/λ - 1): at the maximum the rate is the mean of the
    posterior means. For log-concave noise the posteriors are ultra-log-concave, and a posterior
    variance is at most the posterior mean (Johnson 2007). The second derivative by log λ is then
    negative wherever the first is zero: there is one maximum. The negative binomial likelihood is
    climbed from moment estimates, and may have other maxima.

    Intervals under an estimated prior leave out its own uncertainty, which matters in small
    tables. Counts that are not alike, such as those of large and small areas, are better served
    by a prior mean of each, from a source other than these values.

    References
    ----------
    Johnson, O. (2007). Log-concavity and the maximum entropy property of the Poisson distribution.
    Stochastic Processes and their Applications 117(6), 791-802. doi:10.1016/j.spa.2006.10.006.
    Robbins, H. (1956). An empirical Bayes approach to statistics. Proceedings of the Third
    Berkeley Symposium on Mathematical Statistics and Probability 1, 157-163.

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> empirical_prior([7, 4, 5, -1, 6, 3], mechanism=Geometric(scale=1.0)).description
    'Poisson, mean 4.22401'
    """
    family = check_option(family, "family", FAMILIES)
    if family == "poisson":
        return PoissonPrior(_rate(count, mechanism), empirical=True)
    return _negative_binomial(count, mechanism)


def _rate(count: Any, mechanism: Mechanism) -> float:
    """Return the root of mean(E[f | y])/λ = 1, which is 0 where the left side is always less."""
    from scipy import optimize

    def excess(log_rate: float) -> float:
        rate = float(np.exp(log_rate))
        posterior = count_posterior(count, mechanism=mechanism, prior=PoissonPrior(rate))
        return float(np.mean(posterior.mean)) / rate - 1.0

    values, _ = split_labels(count, "count")
    check_array(values, "count", le=_LARGEST)
    start = np.log(max(float(np.mean(values)), 0.1))
    low, high = start - 0.25, start + 0.25
    while excess(high) > 0:
        low, high = high, high + 2.0
    while excess(low) < 0:
        low, high = low - 2.0 * (start - low), low
        if low < np.log(_SMALLEST):
            return 0.0
    return float(np.exp(optimize.brentq(excess, low, high, xtol=1e-12, rtol=1e-12)))


def _negative_binomial(count: Any, mechanism: Mechanism) -> NegativeBinomialPrior:
    """Maximise the likelihood by the logarithms of mean and dispersion."""
    from scipy import optimize

    values, _ = split_labels(count, "count")
    law = as_noise(mechanism, values.size)
    warn_of_rounding(values, law, "count")
    poisson = _rate(count, mechanism)
    rate = poisson or _SMALLEST_START
    spread = float(np.var(values) - np.mean(law.variance)) - rate
    start = [np.log(rate), np.log(np.clip(spread / rate**2, 0.01, 100.0))]
    bounds = [(np.log(_SMALLEST), start[0] + 5.0), tuple(np.log(_DISPERSIONS))]

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        mean, dispersion = (float(x) for x in np.exp(point))
        prior = NegativeBinomialPrior(mean, dispersion)
        posterior = count_posterior(count, mechanism=mechanism, prior=prior)
        return -float(np.mean(posterior.log_marginal)), -_gradient(posterior, mean, dispersion)

    options = {"ftol": 1e-14, "gtol": 1e-9}
    fit = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    at_bound = bool(fit.x[1] <= bounds[1][0] + 1e-6)
    # rounding may end the search at a point that is a maximum all the same
    if not fit.success and np.abs(fit.jac[: 1 if at_bound else 2]).max() > _FLAT:
        raise ConvergenceError(
            f"the maximum of the likelihood was not found: {fit.message}; use family='poisson', or "
            "a prior from another source"
        )
    if poisson == 0:
        nothing = count_posterior(count, mechanism=mechanism, prior=PoissonPrior(0.0))
        if -float(np.mean(nothing.log_marginal)) <= fit.fun + _ROUNDING:
            return NegativeBinomialPrior(0.0, 0.0, empirical=True)
    mean, dispersion = (float(x) for x in np.exp(fit.x))
    return NegativeBinomialPrior(mean, 0.0 if at_bound else dispersion, empirical=True)


def _gradient(posterior: CountPosterior, mean: float, dispersion: float) -> FloatArray:
    """Mean derivative of the log marginal by the logarithms of mean and dispersion.

    Those of log π(k), averaged over the posterior (Fisher's identity).
    """
    size = 1.0 / dispersion

    def averages(window: Window, _: Any) -> FloatArray:
        k = np.maximum(window.first + np.arange(len(window.mass))[:, None], 0.0)
        ratio = (k - mean) / (size + mean)
        by_mean = size * ratio
        by_size = special.digamma(k + size) - special.digamma(size) - np.log1p(mean / size) - ratio
        parts = [by_mean, -size * by_size]
        return np.stack([(part * window.mass).sum(axis=0) for part in parts])

    return np.asarray(posterior._apply(averages, 2).mean(axis=1))
