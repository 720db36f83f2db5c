"""Design-based estimates from noisy counts, with both components of their variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray, check_alpha, check_option, freeze
from dpinfer.intervals.linear import linear_confint
from dpinfer.intervals.surveys._exact import invert_strata, invert_total
from dpinfer.intervals.surveys.designs import Design
from dpinfer.mechanisms import Gaussian, IndependentNoise, NoiseLaw, WeightedSum, groups
from dpinfer.results.intervals import Intervals, Uncertainty
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

Quantity = Literal["total", "mean"]
SurveyMethod = Literal["exact", "convolution", "normal"]

_APPROXIMATE = "the sampling error is taken as normal, with an estimated variance: approximate"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SurveyEstimate:
    """Totals or means of a population, estimated from noisy counts in probability samples.

    Made by :func:`survey_total`, :func:`survey_mean`, :func:`stratified_total` and
    :func:`stratified_mean`.

    Parameters
    ----------
    quantity : {"total", "mean"}
        What is estimated.
    params : float, array or Series
        The estimates.
    variance_noise : float, array or Series
        Variance that the noise of the mechanism adds to each; known, not estimated.
    variance_sampling : float, array or Series
        Estimated variance due to sampling.
    count : array of float, shape (m,)
        The noisy counts.
    weights : array of float, shape (m,)
        What each noisy count is multiplied with.
    mechanism : NoiseLaw
        The law of their noise.
    design : Design
        The sampling design.
    labels : pandas.Index, optional
        One label for each estimate.
    strata : SurveyEstimate, optional
        For a stratified estimate, the part of each stratum: the estimate is their sum.
    notes : tuple of str
        What else the reader has to know.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> from dpinfer.intervals.surveys.totals import survey_total
    >>> total = survey_total(120.3, mechanism=Laplace(scale=2.0), sample_size=1000,
    ...                      population_size=50_000)
    >>> total.params, total.bse.round(1)
    (np.float64(6015.0), np.float64(528.7))
    >>> total.conf_int(uncertainty="noise")
    Intervals([5715.43, 6314.57], level 0.95, exact)
    >>> total.conf_int()
    Intervals([5035, 7106], level 0.95, exact)
    >>> total.conf_int(method="convolution")
    Intervals([4978.26, 7051.74], level 0.95, convolution)
    """

    quantity: Quantity
    params: Any
    variance_noise: Any
    variance_sampling: Any
    count: FloatArray
    weights: FloatArray
    mechanism: NoiseLaw
    design: Design
    labels: pd.Index | None = None
    strata: SurveyEstimate | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("params", "variance_noise", "variance_sampling"):
            values = freeze(np.asarray(getattr(self, name), dtype=np.float64))
            object.__setattr__(self, name, attach_labels(values, self.labels))
        for name in ("count", "weights"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @property
    def bse(self) -> Any:
        """Standard errors: square roots of the sums of both variances."""
        return np.sqrt(self.variance_noise + self.variance_sampling)

    def conf_int(
        self,
        alpha: float = 0.05,
        *,
        uncertainty: Uncertainty = "noise+sampling",
        method: SurveyMethod | None = None,
    ) -> Intervals:
        """Confidence intervals for the totals or means.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        uncertainty : {"noise+sampling", "noise"}
            ``"noise+sampling"``: for the quantity in the population. ``"noise"``: for what the
            confidential sample would have given without noise.
        method : {"exact", "convolution", "normal"}, optional
            For noise alone: ``"exact"`` (default), quantiles of the law of the noise, or
            ``"normal"``. For both: ``"exact"`` (default), inversion of the exact laws of the
            noisy counts over all possible totals; ``"convolution"``, a normal sampling error plus
            noise of its exact law; ``"normal"``, a normal quantile times ``bse``.

        Returns
        -------
        Intervals
            One for each estimate.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed.

        Notes
        -----
        In a census ``"exact"`` and ``"convolution"`` are the intervals for noise alone. Without
        noise, ``"convolution"`` and ``"normal"`` are the textbook interval, and ``"exact"`` the
        hypergeometric one (or, in Poisson sampling, that for the number of binomial trials). Exact
        intervals cover with probability 1 - α or more. The others lean on an estimated variance
        and on a normal law: where the expected count, or the number of those who do not count, is
        below about ten, their coverage falls below 1 - α.

        The exact interval of a sum over strata holds every sum of totals Kₕ that are not rejected
        together by the scores zₕ of their exact p-values: Σ cₕzₕ >= -z‖c‖ at either side, with cₕ
        the standard deviation of the estimate of Kₕ (Stouffer et al. 1949), within Fisher's region
        of the two-sided p-values, which misses with probability α/20. It holds its level whatever
        the shares of the strata, and it pays for not knowing them: with 40 counted of 200 in each
        stratum of 5,000 it is 1.03 times as long as the normal one for 10 strata under Gaussian
        noise of σ = 5, 1.2 times under Laplace noise of scale 2, and 1.3 times under noise on the
        whole numbers, of which each stratum takes half a unit; for 50 strata 1.1 to 1.7 times.

        References
        ----------
        Stouffer, S. A. et al. (1949). The American Soldier, volume 1. Princeton University Press.
        """
        alpha = check_alpha(alpha)
        covered = check_option(uncertainty, "uncertainty", _METHODS)
        table = _METHODS[covered]
        chosen = next(iter(table)) if method is None else check_option(method, "method", table)
        lower, upper = table[chosen](self, alpha)
        approximate = covered == "noise+sampling" and chosen != "exact"
        return Intervals(
            estimate=np.asarray(self.params),
            lower=np.reshape(lower, np.shape(self.params)),
            upper=np.reshape(upper, np.shape(self.params)),
            alpha=alpha,
            method=chosen,
            uncertainty=covered,
            labels=self.labels,
            notes=(*self.notes, _APPROXIMATE) if approximate else self.notes,
        )

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return estimates, both components of their error, and intervals as a DataFrame.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the level of the intervals.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``sd_noise``, ``sd_sampling``, ``ci_lower`` and
            ``ci_upper``; the intervals cover noise and sampling.
        """
        import pandas as pd

        intervals = self.conf_int(alpha)
        columns = {
            "estimate": self.params,
            "std_err": self.bse,
            "sd_noise": np.sqrt(self.variance_noise),
            "sd_sampling": np.sqrt(self.variance_sampling),
            "ci_lower": intervals.lower,
            "ci_upper": intervals.upper,
        }
        return pd.DataFrame(
            {name: np.ravel(values) for name, values in columns.items()}, index=self.labels
        )

    def summary(self, alpha: float = 0.05) -> str:
        """Return a plain-text table of the estimates, their errors and intervals.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the level of the intervals.

        Returns
        -------
        str
            :meth:`summary_frame`, rounded for reading.
        """
        frame = self.summary_frame(alpha)
        return render_table(
            f"Survey estimate of a {self.quantity}",
            [
                ("Design", self.design.name),
                ("Strata", "none" if self.strata is None else self.count.size),
                ("Level", f"{1 - alpha:.6g}"),
                ("Error covered", "noise and sampling"),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index if self.labels is not None else None,
            notes=self.notes,
            alike=tuple(frame.columns),
        )

    def __repr__(self) -> str:
        size = np.size(self.params)
        shown = f"{float(self.params):.6g}" if np.ndim(self.params) == 0 else f"{size} estimates"
        return f"SurveyEstimate({self.quantity}, {shown})"

    def __str__(self) -> str:
        return self.summary()

    @property
    def _one_count_each(self) -> bool:
        return self.strata is None

    def _around(self, half: FloatArray) -> tuple[FloatArray, FloatArray]:
        centre = np.atleast_1d(np.asarray(self.params))
        return centre - half, centre + half


Ends = tuple[FloatArray, FloatArray]


def _noise_exact(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Quantiles of the law of the noise."""
    count, weights, noise = estimate.count, estimate.weights, estimate.mechanism
    if not estimate._one_count_each:
        lower, upper = linear_confint(count, weights, noise, alpha=alpha)
        return np.atleast_1d(lower), np.atleast_1d(upper)
    # ends of counts first: they may be attained, and rounding is monotone
    half = np.asarray(noise.isf(alpha / 2))
    return weights * (count - half), weights * (count + half)


def _noise_normal(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Use normal quantiles for the noise."""
    sd = np.sqrt(np.atleast_1d(np.asarray(estimate.variance_noise)))
    return estimate._around(-special.ndtri(alpha / 2) * sd)


def _normal(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Use normal quantiles times standard errors."""
    return estimate._around(-special.ndtri(alpha / 2) * np.atleast_1d(np.asarray(estimate.bse)))


def _convolution(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Quantiles of a normal sampling error plus the noise."""
    sd = np.sqrt(np.atleast_1d(np.asarray(estimate.variance_sampling)))
    if not estimate._one_count_each:
        law = _with_normal(float(sd[0]), estimate.weights, estimate.mechanism)
        return estimate._around(np.asarray(law.isf(alpha / 2)))
    rows = enumerate(zip(sd, estimate.weights, strict=True))
    half = [
        float(_with_normal(s, np.array([w]), estimate.mechanism.take(i)).isf(alpha / 2))
        for i, (s, w) in rows
    ]
    return estimate._around(np.array(half))


def _with_normal(sd: float, weights: FloatArray, noise: NoiseLaw) -> WeightedSum:
    """Law of a normal error with standard deviation ``sd`` plus the weighted noises."""
    size = weights.size
    error = (Gaussian(sigma=1.0), np.array([size]))
    joint = IndependentNoise.from_groups([error, *groups(noise, size)], size + 1)
    return WeightedSum(np.append(weights, sd), joint)


def _exact(estimate: SurveyEstimate, alpha: float) -> Ends:
    """Invert the law of the noisy count; in a census, that of the noise."""
    if estimate.count.size > 1 and not estimate._one_count_each:
        if estimate.design.is_census.all():
            return _noise_exact(estimate, alpha)
        low, high = invert_strata(estimate.count, estimate.mechanism, estimate.design, alpha)
        whole = np.rint(estimate.design.expansion[0] / estimate.weights[0])
        return np.array([low / whole]), np.array([high / whole])
    lower, upper = _noise_exact(estimate, alpha)
    rows = np.flatnonzero(~estimate.design.is_census)
    if rows.size:
        design = estimate.design.take(rows)
        # the total that one unit of the estimate is, a whole number: a share k/N may be an end
        unit = np.rint(design.expansion / estimate.weights[rows])
        guesses = np.stack([ends[rows] * unit for ends in _normal(estimate, alpha)])
        noise = estimate.mechanism.take(rows)
        ends = invert_total(estimate.count[rows], noise, design, alpha, guesses)
        lower[rows], upper[rows] = (end / unit for end in ends)
    return lower, upper


_METHODS: dict[Uncertainty, dict[SurveyMethod, Callable[[SurveyEstimate, float], Ends]]] = {
    "noise+sampling": {"exact": _exact, "convolution": _convolution, "normal": _normal},
    "noise": {"exact": _noise_exact, "normal": _noise_normal},
}
"""Procedures by the error that they cover; the first one is the default."""
