"""Generalised linear models with noisy columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import special

from dpinfer._check import FloatArray, as_pandas, check_flag, check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.regression._corrected_scores import (
    LEAST_DISPERSION,
    MOST_DISPERSION,
    ConditionalScores,
    CorrectedScores,
    GlmFamily,
    Law,
    Link,
    Root,
    noise_meat,
    noise_part,
    sandwich,
)
from dpinfer.regression._errors import LARGEST, NoiseOf, column_errors, one_each, published_columns
from dpinfer.regression._formula import Design, array_design, column_of, formula_design, refuse_many
from dpinfer.regression._generalized_model import COUNTS, Model, scaled, to_units
from dpinfer.regression._moments import Covariance, Moments
from dpinfer.regression._polynomials import PolynomialScores
from dpinfer.regression._results import ColumnsResult
from dpinfer.regression._score_sets import ScoreSets
from dpinfer.regression.least_squares import UNCERTAINTIES, checked_groups, reliability
from dpinfer.releases.coerce import noisy
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

_MEANS: dict[Link, Callable[[Any], Any]] = {
    "identity": np.asarray,
    "logit": special.expit,
    "probit": special.ndtr,
    "cloglog": lambda eta: -np.expm1(-np.exp(np.minimum(eta, _LARGEST_LOG))),
    "log": np.exp,
}
_LARGEST_LOG = 300.0
_LINKS: dict[GlmFamily, tuple[Link, ...]] = {
    "gaussian": ("identity",),
    "binomial": ("logit", "probit", "cloglog"),
    "poisson": ("log",),
    "negative-binomial": ("log",),
}
"""Links of each family, the default first."""

_COVARIANCES: tuple[Covariance, ...] = ("HC1", "HC0", "cluster")
_METHODS = {
    "corrected score": "corrected scores, exact for the law of the noise",
    "conditional score": "conditional scores (Gaussian noise)",
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NoisyGLM(ColumnsResult):
    """A generalised linear model corrected for the noise in published columns.

    Made by :func:`noisy_glm`. Names follow ``GLMResults`` of statsmodels; with n rows and p
    coefficients, results are Series and DataFrames where the data had labels, otherwise arrays.
    Standard errors, tests and intervals cover ``uncertainty`` by the estimator ``cov_type``, with
    Student's t where ``use_t``; all are limits for many rows: ``guarantee`` is ``"asymptotic"``.
    ``conf_int`` and ``pvalues`` are by score sets, which allow for little information, ``t_test``
    and ``wald_test`` by standard errors.

    Attributes
    ----------
    family, link, method : str
        The model, and how the noise was taken off: ``"corrected score"``, ``"conditional score"``.
    dispersion : float
        What variances μ + dispersion·μ² have beyond Poisson ones, for ``"negative-binomial"``.
    roots : array of float, shape (r, p)
        The solutions of the equations that were found from several starts; the first is taken.
    iterations : int
        Steps of Newton's method to it, from a root nearby where the dispersion is estimated.
    noise_of_predictor : float
        The largest standard deviation of the noise in a row's linear predictor; its root mean
        square where formulas have squares or products of noisy columns.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> exog = [[1, 0], [1, 2], [1, 5], [1, 7], [1, 10], [1, 13], [1, 14], [1, 20]]
    >>> visits = [3, 2, 5, 4, 8, 12, 11, 25]
    >>> fit = dpi.noisy_glm(
    ...     visits, exog, family="poisson", noise={"x1": dpi.Geometric(scale=1.5)}
    ... )
    >>> fit.params.round(3), fit.naive.params.round(3)
    (array([0.618, 0.137]), array([0.828, 0.119]))
    """

    guarantee: ClassVar[str] = "asymptotic"

    family: GlmFamily
    link: Link
    dispersion: float
    method: str
    uncorrected: NoisyGLM | None
    roots: FloatArray
    iterations: int
    noise_of_predictor: float
    exposure: FloatArray
    offset: FloatArray
    moments: Moments
    equations: CorrectedScores | ConditionalScores | PolynomialScores | None
    root: FloatArray
    remarks: tuple[str, ...]

    @property
    def naive(self) -> NoisyGLM:
        """The fit that takes the published values for the confidential ones.

        Its coefficients and standard errors are those of statsmodels' GLM, also where noisy
        responses or exposures are below 0, which statsmodels refuses.
        """
        return self if self.uncorrected is None else self.uncorrected

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on how far the numbers can be relied on."""
        return self.remarks

    @property
    def converged(self) -> bool:
        """True: where no root is found, :func:`noisy_glm` raises ``ConvergenceError``."""
        return True

    @cached_property
    def fittedvalues(self) -> Any:
        """Expected responses at the published covariates and exposures, shape (n,)."""
        eta = self.design.exog @ self._params + self.offset
        return self._by_row(np.asarray(self.exposure * _MEANS[self.link](eta)))

    @cached_property
    def reliability(self) -> Any:
        """Share of each column's variation that is not noise, 1 for columns without noise.

        Of the variation that is left after regression on the columns without noise.
        """
        return self._name(reliability(self.moments))

    def conf_int(
        self, alpha: float = 0.05, *, method: Literal["score", "wald"] | None = None
    ) -> Intervals:
        """Return :class:`~dpinfer.Intervals` for the coefficients.

        They unpack as ``lower, upper``; ``np.asarray`` of them has the ends in two columns, as in
        statsmodels.

        Parameters
        ----------
        alpha : float, default 0.05
            Level 1 - alpha, in (0, 1).
        method : {"score", "wald"}, optional
            ``"score"``: those values at which the sum of the scores, made linear at the estimates,
            is within t of its standard error, after Fieller. Infinite where the rows do not bound
            a coefficient. ``"wald"``: coefficients within t standard errors, a limit for many rows
            that covers too rarely where the reliability is low. By default ``"score"`` where
            covariates have noise.

        Returns
        -------
        Intervals
            One for each of the p coefficients.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or there is no score set for the fit.

        Notes
        -----
        With c the row that takes a coefficient θ from the equations' coordinates, J = -Σ∂S/∂β,
        e = S J⁻¹c the effective scores at the estimates, and d minus their derivatives along
        J⁻¹c/(cᵀJ⁻¹c), where the other coefficients go as θ moves, the set is
        h² ≤ t²·Σ(e - hd)²·n/(n - p), h = θ - the estimate (Σd = 1; sums within groups for
        ``"cluster"``, without the factor for ``"HC0"``). Where t²·Σd²·n/(n - p) ≥ 1, J is not
        clearly above 0 for the θ, and the set is the line. Without d it is ``"wald"``, which takes
        J for known. Derivatives are differences, right to about 1e-8.

        For the noise alone the set is h² ≤ t²·V(h). The others go as the noise has them, along
        J⁻¹NJ⁻ᵀc, with N the covariance matrix of ΣS by the noise. V has the value and the slope of
        cᵀJ⁻¹NJ⁻ᵀc along that line, as N changes, and Σ(d - d̄)²·n/(n - p) times h², which is above
        what the noise adds.

        Scores are linear in h for ``"gaussian"`` only; for the others the set is a limit for many
        rows too. Tables without a root, or that are refused, have none. How often 95 % intervals
        of the slope covered, in per cent of those that were not refused (normal covariate, Laplace
        and other noise; simulation errors 1 to 3):

        =================  ====  ===========  =====  ====  ==============
        model              rows  reliability  score  wald  score infinite
        =================  ====  ===========  =====  ====  ==============
        logistic           30    0.8          99.1   98.3  6
        logistic           100   0.3          97.8   94.9  34
        Poisson            100   0.3          97.7   83.6  71
        Poisson            100   0.6          98.9   97.3  14
        negative binomial  100   0.3          100    87.1  60
        negative binomial  100   0.6          96.1   94.7  0
        noise alone:
        logistic           100   0.3          97.3   87.7  16
        Poisson            100   0.3          98.4   87.9  72
        Poisson            100   0.6          98.2   95.2  15
        negative binomial  100   0.3          99.0   92.5  46
        negative binomial  100   0.6          97.5   96.7  0
        =================  ====  ===========  =====  ====  ==============

        References
        ----------
        E. C. Fieller (1954), Some problems in interval estimation, Journal of the Royal Statistical
        Society B 16. doi:10.1111/j.2517-6161.1954.tb00159.x.
        """
        return self._sets(alpha, method, "noise in covariates")

    def predict(self, exog: Any = None, *, exposure: Any = None, offset: Any = None) -> Any:
        """Return the expected response, shape (m,), at confidential values of the covariates.

        ``exog`` is data with the columns of the formula, or a design matrix, shape (m, p); by
        default that of the fit. ``exposure`` and ``offset``, numbers or one for each row, are those
        of the model, 1 and 0 for new data by default. Columns that do not fit are refused.
        """
        if exog is None:
            for name, given in (("exposure", exposure), ("offset", offset)):
                if given is not None:
                    raise InvalidParameterError(f"{name} must be left out without exog")
            return self.fittedvalues
        matrix, labels = self._new_rows(exog)
        eta = np.asarray(matrix @ self._params)
        if offset is not None:
            offset = one_each(
                offset, "offset", len(np.atleast_1d(eta)), labels, ge=-LARGEST, le=LARGEST
            )
            eta = np.reshape(eta + offset, np.shape(eta))
        if exposure is not None:
            _check_exposed(self.family)
            exposure = one_each(
                exposure, "exposure", len(np.atleast_1d(eta)), labels, ge=0.0, le=LARGEST
            )
        with np.errstate(over="ignore"):
            means = _MEANS[self.link](eta)
        if not np.isfinite(means).all():
            raise InvalidParameterError(
                f"exog must be within the reach of the {self.link} link, got linear predictors up "
                f"to {np.max(eta):.3g}"
            )
        means = means * (1.0 if exposure is None else exposure)
        return attach_labels(np.reshape(means, np.shape(eta)), labels)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return coefficients, standard errors, tests and intervals beside the naive fit.

        A DataFrame with a row for each coefficient and the columns ``estimate``, ``std_err``, ``t``
        (``z`` with normal quantiles), ``pvalue``, ``ci_lower``, ``ci_upper`` (level 1 - ``alpha``,
        in (0, 1)), ``naive``, ``naive_std_err`` and ``reliability``; ``attrs`` holds ``alpha``,
        ``family``, ``link``, ``method``, ``cov_type``, ``uncertainty`` and ``guarantee``.
        """
        frame = self._frame(alpha)
        frame.attrs |= {"family": self.family, "link": self.link, "guarantee": self.guarantee}
        return frame

    def _table(self, alpha: float = 0.05) -> Table:
        frame = self.summary_frame(alpha).drop(columns="naive_std_err")
        covered = self.cov_type if self.uncertainty == "noise+sampling" else "of the noise"
        return Table(
            "Generalised linear model on noisy columns",
            [
                ("Response", self.design.response),
                ("Family", f"{self.family}, {self.link} link"),
                *([("Dispersion", f"{self.dispersion:.6g}")] if self.dispersion else []),
                ("Method", _METHODS[self.method]),
                ("Guarantee", self.guarantee),
                ("Observations", int(self.nobs)),
                ("Df residuals", int(self.df_resid)),
                ("Covariance", covered),
                ("Level", f"{1 - alpha:.6g}"),
                ("Roots found", len(self.roots)),
                ("Error covered", ERROR_COVERED[self.uncertainty]),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index,
            notes=self.notes,
            alike=("estimate", "std_err", "ci_lower", "ci_upper", "naive"),
        )

    @cached_property
    def _params(self) -> FloatArray:
        return np.asarray(self.roots[0])

    @cached_property
    def _score_sets(self) -> ScoreSets | None:
        equations, noise = self.equations, None
        if equations is None:
            return None
        if self.uncertainty == "noise" and not isinstance(equations, ConditionalScores):
            noise = partial(noise_part, equations)
        return ScoreSets.linearised(
            equations,
            self.root,
            to_units(self.moments),
            lambda scores: scaled(scores, self.cov_type, self.groups),
            noise,
        )


def noisy_glm(
    endog: Any,
    exog: Any,
    *,
    family: GlmFamily,
    link: Link | None = None,
    dispersion: float | None = None,
    noise: NoiseOf | None = None,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    exposure_noise: Any = None,
    response_noise: Any = None,
    cov_type: Covariance = "HC1",
    groups: Any = None,
    uncertainty: Uncertainty = "noise+sampling",
    use_t: bool = True,
) -> NoisyGLM:
    """Generalised linear models when columns were published with noise.

    Noise in a covariate pulls ordinary coefficients towards zero, however many rows there are,
    and the coefficients of the other covariates anywhere. The law of the noise is published:
    equations whose mean over it is that of the confidential equations have no such bias, and
    assume nothing of the law of the covariates.

    Parameters
    ----------
    endog : str, array of float, shape (n,), Series, Release or estimate
        A formula such as ``"cases ~ people + region"``, read by the library that statsmodels
        uses; or the published response: a share or 0 and 1 for ``"binomial"``.
    exog : DataFrame, array of float, shape (n, p), or mapping
        For a formula, the data; otherwise the design matrix, to which no constant is added. A
        mapping of names to columns may hold releases, which bring the law of their errors.
    family : {"gaussian", "binomial", "poisson", "negative-binomial"}
        The law of the confidential response.
    link : {"identity", "logit", "probit", "cloglog", "log"}, optional
        What makes means of linear predictors: ``"logit"`` (default), ``"probit"`` or ``"cloglog"``
        for ``"binomial"``, ``"log"`` for counts, ``"identity"`` for ``"gaussian"``.
    dispersion : float, optional
        For ``"negative-binomial"``, with variance μ + dispersion·μ² (``alpha`` in statsmodels), in
        [1e-6, 1e4]; by default it is estimated.
    noise : mapping, optional
        For each noisy column the law of its errors: one, or a sequence with one for each row. Keys
        are as for :func:`noisy_ols`. For ``"gaussian"``, and for the response, standard
        deviations do.
    weights : array of float, shape (n,), Series or str, optional
        Weights > 0 of the rows, free of noise, ``var_weights`` in statsmodels: for shares, the
        number of trials. With a formula also the name of a column.
    offset : float, array of float, shape (n,), Series or str, optional
        Free of noise, added to the linear predictor; with a formula also the name of a column.
    exposure : float, array of float, shape (n,), Series, Release or str, optional
        What expected counts are proportional to; > 0, unless it is noisy. Give the published
        exposure, not its logarithm as an offset, and keep rows where noise made it negative: for
        ``"poisson"`` it enters linearly, and has no bias. For ``"negative-binomial"`` it must be
        free of noise.
    exposure_noise, response_noise : NoiseLaw, float, array of float, shape (n,), or str, optional
        The law or the standard deviations of the errors of the exposure and of the response.
    cov_type : {"HC1", "HC0", "cluster"}
        The covariance estimator, named as in statsmodels, to which it comes down without noise.
        ``"cluster"`` needs ``groups``.
    groups : array of shape (n,), Series or str, optional
        Group of each row; with a formula also the name of a column.
    uncertainty : {"noise+sampling", "noise"}
        Whether the coefficients are those of a population from which the rows are a sample, or
        those that the model would give for the confidential values of these very rows.
    use_t : bool, default True
        Whether tests and intervals use Student's t distribution with n - p degrees of freedom (one
        less than the number of groups for ``"cluster"``), or the normal one.

    Returns
    -------
    NoisyGLM
        Coefficients, standard errors, tests and intervals, with ``naive``, ``reliability`` and
        ``roots``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed; if a term of the formula is not of degree two at
        most in the noisy columns; if there is no exact correction for the laws of the noise and the
        family.
    NotEstimableError
        If the columns are linearly dependent, there are too few rows, the noise is as wide as
        the variation of the noisy covariates, or the noise of a linear predictor has a standard
        deviation above 1.2, or 2 for ``"logit"``; if counts vary no more than Poisson ones do.
    ConvergenceError
        If no root was found, or the equations have no finite variance at it.

    Notes
    -----
    With f(η) the log-likelihood of a row, η = xᵀβ, and δ what a unit of noise of variance v adds
    to η, the corrected log-likelihood G has E[G] = f over the noise:

    - two-sided geometric noise of a whole number: G = f(η) - (v/2)[f(η + δ) - 2f(η) + f(η - δ)],
      exact;
    - Laplace noise: G = f(η) - (v/2)δ²f''(η), exact;
    - ``"poisson"``, any law with a moment generating function M: exp(η) is divided by M(δ). It
      needs abs(δ) < 1/(2·scale) for Laplace and geometric noise, as otherwise there is no variance;
    - ``"gaussian"``: variance and fourth cumulant are enough.

    Squares and products of two noisy columns, ``I(x**2)`` and ``x:z``, under geometric or Laplace
    noise, and under any for ``"gaussian"``: the same operators are applied to the score as a
    function of the columns themselves. Where scores grow with exp(η), for ``"poisson"`` and
    ``"cloglog"``, coefficients of squares must be below 0, and products of two noisy columns are
    refused, as there is no mean over the noise.

    The likelihoods of ``"probit"``, ``"cloglog"`` and ``"negative-binomial"`` are linear in the
    response too, and corrected likewise, under geometric and Laplace noise. The dispersion solves
    Σ(f'² - μ/(1 + dispersion·μ)) = 0, corrected, by which squared scores are as large as the model
    says; the coefficients do not depend on its error to the first order.

    Corrections of several noises are applied one after the other, to at most four. The scores are
    S = ∂G/∂β, and with J = Σ∂S/∂β the covariance is J⁻¹(ΣSSᵀ)J⁻ᵀ; with ``uncertainty="noise"`` it
    is J⁻¹(ΣSSᵀ - C)J⁻ᵀ, C the same correction of the products of the confidential scores, that of
    r² and of squared exposures being to take off their variances; as rounding may hide noise that
    is very small, 1e-13 of the squared scores are added, where there is any noise.

    Logistic regression under Gaussian noise, for which there is no corrected score, is by
    conditional scores: with Ω the covariance of the errors of x, Δ = x + rΩβ is sufficient for the
    confidential covariates, P(r = 1 | Δ) = expit(Δᵀβ - βᵀΩβ/2), and the scores are (r - P)Δ. This
    needs a response of 0 and 1 without noise, and ``uncertainty="noise+sampling"``. Discrete
    Gaussian noise counts as Gaussian from σ = 1 on: moments agree to 1e-7.

    Corrected likelihoods are not concave and can have several maxima: starts are the naive fit
    and that fit with the attenuation taken off, only roots with -J positive definite count, and the
    one nearest the second start is taken.

    Default intervals and ``pvalues`` are those of score sets, infinite where the rows do not bound
    a coefficient, as few rows of low reliability often do not. ``t_test`` and ``wald_test`` are by
    standard errors, which are too small there: with 100 rows at a reliability of 0.3 such 95 %
    intervals cover 84 to 96 % of slopes, or 88 to 93 % for the noise alone. ``conf_int`` of the
    result has figures for both.

    References
    ----------
    T. Nakamura (1990), Corrected score function for errors-in-variables models: methodology and
    application to generalized linear models, Biometrika 77. doi:10.1093/biomet/77.1.127.

    L. A. Stefanski and R. J. Carroll (1987), Conditional scores and optimal scores for generalized
    linear measurement-error models, Biometrika 74. doi:10.1093/biomet/74.4.703.

    R. J. Carroll, D. Ruppert, L. A. Stefanski, C. M. Crainiceanu (2006), Measurement Error in
    Nonlinear Models, 2nd ed., chapter 7. doi:10.1201/9781420010138.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from dpinfer import Geometric, noisy_glm
    >>> rng = np.random.default_rng(1)
    >>> z, law = rng.poisson(12.0, 2000), Geometric(scale=2.0)
    >>> sick = rng.random(2000) < 1.0 / (1.0 + np.exp(4.0 - 0.25 * z))
    >>> table = pd.DataFrame({"beds": z + law.rvs(2000, rng=rng), "sick": sick * 1.0})
    >>> fit = noisy_glm("sick ~ beds", table, family="binomial", noise={"beds": law})
    >>> fit.naive.params.round(3).to_list(), fit.params.round(3).to_list()
    ([-2.792, 0.149], [-4.179, 0.26])
    """
    law = _law(family, link, dispersion)
    check_option(cov_type, "cov_type", _COVARIANCES)
    check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    check_flag(use_t, "use_t")
    noise = _with_response(endog, noise, response_noise)
    endog, exog, noise, _ = published_columns(
        endog, exog, noise, across="refuse" if groups is None else "ignore", who="noisy_glm"
    )
    frame = None
    if isinstance(endog, str):
        frame = as_pandas(exog, "exog")
        design = formula_design(endog, frame, noise, weights, None, depth=2)
        groups = column_of(frame, groups) if isinstance(groups, str) else groups
    else:
        design = array_design(endog, exog, noise, weights)
    refuse_many(design)
    codes = checked_groups(groups, cov_type, uncertainty, design)
    exposed = _exposure(exposure, exposure_noise, family, design, frame)
    added = np.broadcast_to(_exact(offset, "offset", design, frame), len(design.endog))
    model = Model.of(design, law, *exposed, added)
    if family == "negative-binomial" and dispersion is None:
        if uncertainty == "noise":
            raise InvalidParameterError(
                "dispersion must be given for uncertainty='noise': an estimated one has an error "
                "that only the model of the response tells"
            )
        return _dispersed(model, cov_type, codes, use_t)
    return _fitted(model, cov_type, codes, uncertainty, use_t)


# Arguments.


def _law(family: Any, link: Any, dispersion: Any) -> Law:
    check_option(family, "family", _LINKS)
    link = _LINKS[family][0] if link is None else check_option(link, "link", _LINKS[family])
    if family != "negative-binomial":
        if dispersion is not None:
            raise InvalidParameterError(
                f"dispersion must be left out for family={family!r}: it is that of "
                "'negative-binomial'"
            )
        return Law(family, link)
    if dispersion is None:
        return Law(family, link, 1.0)
    given = check_scalar(dispersion, "dispersion", ge=LEAST_DISPERSION, le=MOST_DISPERSION)
    return Law(family, link, given)


def _exact(given: Any, name: str, design: Design, frame: Any) -> FloatArray:
    """Numbers without noise, one for each row; 0 where there are none."""
    if given is None:
        return np.zeros(1)
    if hasattr(given, "__noisy__") or (isinstance(given, str) and given in design.errors.columns):
        raise InvalidParameterError(
            f"{name} must be free of noise, got {show(given)}: a noisy one is a covariate, whose "
            "coefficient is estimated"
        )
    if isinstance(given, str):
        if frame is None:
            raise InvalidParameterError(
                f"{name} must be numbers where there is no formula, got {show(given)}"
            )
        given = column_of(frame, given)
    size = len(design.endog)
    return one_each(given, name, size, design.row_labels, ge=-_LARGEST_LOG, le=_LARGEST_LOG)


def _with_response(endog: Any, noise: Any, response_noise: Any) -> Any:
    """Return the noise of all columns, the response among them."""
    if response_noise is None:
        return noise
    if isinstance(endog, str):
        key = endog.split("~", 1)[0].strip()
    else:
        name = getattr(as_pandas(endog, "endog"), "name", None)
        key = "y" if name is None else name
    if noise is not None and not isinstance(noise, Mapping):
        return noise  # refused with the others
    if noise is not None and key in noise:
        raise InvalidParameterError(f"response_noise must be left out where noise has {key!r}")
    return {**(noise or {}), key: response_noise}


def _check_exposed(family: GlmFamily) -> None:
    if family not in COUNTS:
        raise InvalidParameterError(
            f"exposure must be left out for family={family!r}: it is that of counts, 'poisson'"
        )


def _exposure(
    exposure: Any, given: Any, family: GlmFamily, design: Design, frame: Any
) -> tuple[FloatArray, FloatArray]:
    """Return exposures and the variances of their errors, one for each row."""
    size = len(design.endog)
    if exposure is None:
        if given is not None:
            raise InvalidParameterError("exposure_noise must be left out without exposure")
        return np.ones(size), np.zeros(size)
    _check_exposed(family)
    if isinstance(exposure, str):
        if frame is None:
            raise InvalidParameterError(
                f"exposure must be numbers where there is no formula, got {show(exposure)}"
            )
        if exposure in design.errors.columns:
            raise InvalidParameterError(
                f"exposure must have its noise in exposure_noise, got {exposure!r}, which noise has"
            )
        exposure = column_of(frame, exposure)
    if hasattr(exposure, "__noisy__"):
        held = noisy(exposure, name="exposure")
        if given is not None:
            raise InvalidParameterError("exposure_noise must be left out: exposure has its own law")
        held.need(unruled=True, independent=True, who="noisy_glm")
        exposure, given = held.values, held.marginal
    least = -LARGEST if given is not None else 1e-50
    values = one_each(exposure, "exposure", size, design.row_labels, ge=least, le=LARGEST)
    variance = np.zeros(1)
    if given is not None:
        read = None if frame is None else lambda column: column_of(frame, column)
        errors = column_errors({"exposure": given}, size, design.row_labels, lambda key: True, read)
        values = errors.checked("exposure", np.broadcast_to(values, size))
        variance = errors.variance[:, 0]
        if family == "negative-binomial" and variance.any():
            raise InvalidParameterError(
                "exposure must be free of noise for family='negative-binomial': family='poisson' "
                "takes noisy ones, and its standard errors hold for overdispersed counts too"
            )
    return np.broadcast_to(values, size), np.broadcast_to(variance, size)


# Estimation.


def _dispersed(model: Model, cov_type: Covariance, groups: Any, use_t: bool) -> NoisyGLM:
    """Return the fit at the dispersion at which squared scores are as large as they should."""
    plain = replace(model, sources=[]) if model.sources else model
    naive, first = plain.settled(None)
    at_naive = _fitted(
        replace(plain, law=naive), cov_type, groups, "noise+sampling", use_t, (first.beta, None)
    )
    if not model.sources:
        return at_naive
    found, root = replace(model, law=naive).settled(first)
    near = first.beta, root.beta
    fit = _fitted(replace(model, law=found), cov_type, groups, "noise+sampling", use_t, near)
    return replace(fit, uncorrected=at_naive.naive)


def _fitted(
    model: Model,
    cov_type: Covariance,
    groups: Any,
    uncertainty: Uncertainty,
    use_t: bool,
    near: tuple[FloatArray | None, FloatArray | None] = (None, None),
) -> NoisyGLM:
    """Return the corrected fit, with the naive one, from roots of a near law if there are."""
    if uncertainty == "noise" and model.is_conditional:
        raise InvalidParameterError(
            "uncertainty must be 'noise+sampling' for family='binomial' with Gaussian noise: "
            "conditional scores rest on the model of the response"
        )
    first = model.naive_root(near[0])
    roots = model.found_roots(first.beta, near[1])
    at_naive = model.covariance(first, cov_type, groups)
    naive = _result(
        model, [first], at_naive, None, 0.0, (), cov_type, groups, "noise+sampling", use_t
    )
    if not roots:
        roots = [first]
    width = model.width(roots[0])
    covariance = model.covariance(roots[0], cov_type, groups)
    if uncertainty == "noise":
        equations = model.equations()
        assert not isinstance(equations, ConditionalScores)  # they were refused
        covariance = sandwich(roots[0].slope, noise_meat(equations, roots[0]))
    remarks = model.remarks(roots, width, uncertainty)
    return _result(
        model, roots, covariance, naive, width, remarks, cov_type, groups, uncertainty, use_t
    )


def _result(
    model: Model,
    roots: list[Root],
    covariance: FloatArray,
    naive: NoisyGLM | None,
    width: float,
    remarks: tuple[str, ...],
    cov_type: Covariance,
    groups: Any,
    uncertainty: Uncertainty,
    use_t: bool,
) -> NoisyGLM:
    conditional = naive is not None and model.is_conditional
    has_sets = naive is not None and model.sources
    return NoisyGLM(
        design=model.design,
        covariance=np.asarray(model.to_units @ covariance @ model.to_units.T),
        cov_type=cov_type,
        groups=groups,
        uncertainty=uncertainty,
        use_t=use_t,
        method="conditional score" if conditional else "corrected score",
        family=model.family,
        link=model.law.link,
        dispersion=model.law.dispersion,
        uncorrected=naive,
        roots=np.array([model.to_units @ x.beta for x in roots]),
        iterations=roots[0].iterations,
        noise_of_predictor=width,
        exposure=model.exposure,
        offset=model.offset,
        moments=model.moments,
        equations=model.equations() if has_sets else None,
        root=roots[0].beta,
        remarks=remarks,
    )
