"""Generalised linear models with noisy columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import linalg, special

from dpinfer._check import FloatArray, as_pandas, check_flag, check_option, check_scalar, show
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.regression._corrected_scores import (
    LEAST_DISPERSION,
    MOST_DISPERSION,
    ConditionalScores,
    CorrectedScores,
    GlmFamily,
    Law,
    Link,
    Root,
    Rows,
    Source,
    finite_moment,
    noise_meat,
    noise_part,
    sandwich,
    settled_dispersion,
    solve,
)
from dpinfer.regression._errors import LARGEST, NoiseOf, column_errors, one_each, published_columns
from dpinfer.regression._formula import Design, array_design, column_of, formula_design, refuse_many
from dpinfer.regression._moments import (
    Covariance,
    Moments,
    add_by_group,
    cluster_correction,
    weakness,
)
from dpinfer.regression._polynomials import PolynomialScores, corrected_sources, of_rows
from dpinfer.regression._results import ColumnsResult
from dpinfer.regression._score_sets import ScoreSets
from dpinfer.regression.least_squares import (
    UNCERTAINTIES,
    checked_groups,
    reliability,
)
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

_COUNTS = ("poisson", "negative-binomial")
_COVARIANCES: tuple[Covariance, ...] = ("HC1", "HC0", "cluster")
_METHODS = {
    "corrected score": "corrected scores, exact for the law of the noise",
    "conditional score": "conditional scores (Gaussian noise)",
}

_FEW_ROWS = 50
_WIDE: dict[str, float] = {"identity": np.inf, "logit": 1.2} | dict.fromkeys(
    ("probit", "cloglog", "log"), 0.8
)
_TOO_WIDE: dict[str, float] = {"identity": np.inf, "logit": 2.0} | dict.fromkeys(
    ("probit", "cloglog", "log"), 1.2
)
"""Standard deviations of the noise in a linear predictor: for a remark, and for a refusal."""

_MOST_NOISES = 4
_NAIVE_REACH, _REACH = 2.0, 0.5
_SAME_ROOT = 1e-6
_DISPERSION_STEPS = 100


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
            _to_units(self.moments),
            lambda scores: _scaled(scores, self.cov_type, self.groups),
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
    r² and of squared exposures being to take off their variances.

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
    model = _Model.of(design, law, *exposed, added)
    if family == "negative-binomial" and dispersion is None:
        if uncertainty == "noise":
            raise InvalidParameterError(
                "dispersion must be given for uncertainty='noise': an estimated one has an error "
                "that only the model of the response tells"
            )
        return model.dispersed(cov_type, codes, use_t)
    return model.fitted(cov_type, codes, uncertainty, use_t)


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
    if family not in _COUNTS:
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


def _response_variance(design: Design) -> FloatArray:
    size = len(design.endog)
    if 0 not in design.noisy:
        return np.zeros(size)
    place = int(np.flatnonzero(design.noisy == 0)[0])
    found = design.error_covariance(slice(None))[:, place, place]
    return np.broadcast_to(found, size)


def _check_response(family: GlmFamily, response: FloatArray, variance: FloatArray) -> None:
    exact = response[variance == 0]
    most = 1.0 if family == "binomial" else np.inf
    least = -np.inf if family == "gaussian" else 0.0
    if ((exact < least) | (exact > most)).any():
        allowed = "from 0 to 1" if family == "binomial" else "0 or more"
        raise InvalidParameterError(
            f"endog must be {allowed} for family={family!r} where it has no noise, got "
            f"{exact.min():g} to {exact.max():g}: give response_noise if it was published with some"
        )


# Estimation.


def _to_units(moments: Moments) -> FloatArray:
    """Return what makes coefficients from those of covariates with mean products 1."""
    return np.asarray(moments.to_units * np.sqrt(len(moments.design.endog)))


def _scaled(scores: FloatArray, cov_type: Covariance, groups: Any) -> FloatArray:
    """Add scores up within groups, and scale them so that their products sum to a covariance."""
    rows, columns = scores.shape
    if groups is not None:
        count = int(groups.max()) + 1
        sums = np.zeros((count, columns))
        add_by_group(sums, groups, scores)
        return np.asarray(np.sqrt(cluster_correction(count, rows, columns)) * sums)
    return scores * np.sqrt(rows / (rows - columns)) if cov_type == "HC1" else scores


@dataclass(frozen=True)
class _Model:
    """A design, in coordinates in which the mean of w·x·xᵀ is the identity."""

    design: Design
    law: Law
    moments: Moments
    exposure: FloatArray
    offset: FloatArray
    to_units: FloatArray
    rows: Rows
    sources: list[Source]

    @classmethod
    def of(
        cls,
        design: Design,
        law: Law,
        exposure: FloatArray,
        exposure_variance: FloatArray,
        offset: FloatArray,
    ) -> _Model:
        response_variance = _response_variance(design)
        _check_response(law.family, design.endog, response_variance)
        moments = Moments.of(design)
        to_units = _to_units(moments)
        sources = [of_rows(x, slice(None), to_units) for x in corrected_sources(design, law)]
        rows = Rows(
            design.exog @ to_units,
            design.endog,
            response_variance,
            exposure,
            exposure_variance,
            design.weights,
            offset + np.log(exposure) if law.family == "negative-binomial" else offset,
        )
        return cls(design, law, moments, exposure, offset, to_units, rows, sources)

    @property
    def family(self) -> GlmFamily:
        return self.law.family

    @cached_property
    def is_conditional(self) -> bool:
        """Whether scores are conditional, not corrected."""
        kinds = {x.kind for x in self.sources}
        if self.family != "binomial" or "gaussian" not in kinds:
            return False
        if kinds != {"gaussian"}:
            raise InvalidParameterError(
                "noise must be Gaussian in all covariates or in none for family='binomial', got "
                "laws of both kinds: no exact scores are known for the two together"
            )
        response = self.rows.response
        if self.rows.response_variance.any() or not np.isin(response, (0.0, 1.0)).all():
            raise InvalidParameterError(
                "endog must be 0 and 1, without noise, for family='binomial' with Gaussian noise "
                "in covariates: give a row for each trial, or use shares with covariates that have "
                "geometric or Laplace noise"
            )
        return True

    def equations(self) -> CorrectedScores | ConditionalScores | PolynomialScores:
        """Return the estimating equations for the confidential coefficients."""
        if self.is_conditional:
            spread = [x.slopes * np.sqrt(x.variance)[:, np.newaxis] for x in self.sources]
            return ConditionalScores(self.rows, spread)
        if self.family not in ("gaussian", "poisson") and len(self.sources) > _MOST_NOISES:
            raise InvalidParameterError(
                f"noise must be that of at most {_MOST_NOISES} columns for family="
                f"{self.family!r}, got {len(self.sources)}: each triples the terms"
            )
        return self.corrected(self.law)

    def corrected(self, law: Law) -> CorrectedScores | PolynomialScores:
        """Return the corrected scores of a law of the response."""
        if not self.design.curves:
            return CorrectedScores(law, self.rows, self.sources)
        curves = {pair: curve @ self.to_units for pair, curve in self.design.curves.items()}
        return PolynomialScores(law, self.rows, self.sources, curves)

    def naive_root(self, near: FloatArray | None = None) -> Root:
        """Fit the published values as if they were confidential, from a root of a near law."""
        rows = self.rows
        if near is not None:
            return solve(CorrectedScores(self.law, rows, []), near, _NAIVE_REACH)
        start = np.zeros(rows.exog.shape[1])
        if self.family in _COUNTS:
            size = self.exposure * np.exp(self.offset)
            total, exposed = rows.weights @ rows.response, rows.weights @ size
            if total <= 0 or exposed <= 0:
                raise NotEstimableError(
                    f"endog and exposure must have sums above 0 for family={self.family!r}, got "
                    f"{total:g} and {exposed:g}"
                )
            share = rows.weights / rows.weights.sum()
            start = np.log(total / exposed) * (share @ rows.exog)
        reach = np.inf if self.family == "gaussian" else _NAIVE_REACH
        try:
            return solve(CorrectedScores(self.law, rows, []), start, reach)
        except ConvergenceError as error:
            raise ConvergenceError(
                "not even the fit without correction was found: look for covariates that separate "
                "responses of 0 from others, and for exposures that are mostly noise"
            ) from error

    def found_roots(self, naive: FloatArray, near: FloatArray | None = None) -> list[Root]:
        """Roots of the equations, nearest first to the naive fit without attenuation.

        From a root of a near law, where there is one, in place of that fit.
        """
        equations = self.equations()
        if not self.sources:
            return []
        share, _direction = self.moments.noise_shares()
        if share > 1.0 - 1e-9:
            raise NotEstimableError(
                "the noise drowns the covariates: it would explain "
                f"{share:.3g} times the variation of a combination of the noisy columns. Leave a "
                "column out, or use rows with less noise"
            )
        calibrated = linalg.solve(np.eye(len(naive)) - self.moments.noise, naive)
        reach = np.inf if self.family == "gaussian" else _REACH
        roots: list[Root] = []
        first = calibrated if near is None else near
        for start in [first] if self.family == "gaussian" else [first, naive]:
            try:
                root = solve(equations, start, reach)
            except ConvergenceError:
                continue
            apart = [np.linalg.norm(root.beta - x.beta) for x in roots]
            if all(gap > _SAME_ROOT * (1.0 + np.linalg.norm(root.beta)) for gap in apart):
                roots.append(root)
        if not roots:
            raise ConvergenceError(
                "no root of the corrected equations was found: the noise is too wide for these "
                f"rows (reliability {np.min(reliability(self.moments)):.3g}). Use more rows, or a "
                "coarser table with less noise beside its values"
            )
        return sorted(roots, key=lambda x: float(np.linalg.norm(x.beta - calibrated)))

    def width(self, root: Root) -> float:
        """Return the largest standard deviation of the noise in a linear predictor.

        Its root mean square where it grows with the published values, as that of a square does.
        """
        deltas = [x.slopes @ root.beta for x in self.sources]
        pairs = list(zip(self.sources, deltas, strict=True))
        found = np.sqrt(sum((x.variance * delta**2 for x, delta in pairs), np.zeros(1)))
        if self.design.curves:
            weights = self.rows.weights
            mean = weights @ np.broadcast_to(np.square(found), weights.shape) / weights.sum()
            found = np.sqrt(mean)
        width, most = float(np.max(found)), _TOO_WIDE[self.law.link]
        self._check_bends(root)
        if self._is_steep and not all(finite_moment(x, d, 2) for x, d in pairs):
            raise ConvergenceError(
                "the corrected equations have no finite variance at their root: the coefficient "
                "of a column with Laplace or geometric noise is above half of one over its scale. "
                "Use a coarser table with less noise beside its values"
            )
        if width > most:
            raise NotEstimableError(
                f"the noise of a linear predictor has standard deviation {width:.3g} at the "
                f"estimates, above {most:g}, where intervals do not hold their level: leave "
                "out rows or columns with so much noise"
            )
        return width

    @property
    def _is_steep(self) -> bool:
        """Whether scores grow with exp(η), and no square in η comes in between."""
        return (self.family == "poisson" or self.law.link == "cloglog") and not self.design.curves

    def _check_bends(self, root: Root) -> None:
        if self.family != "poisson" and self.law.link != "cloglog":
            return
        curves = {
            pair: curve @ (self.to_units @ root.beta) for pair, curve in self.design.curves.items()
        }
        if any((i != j and curve.any()) or (curve > 0.0).any() for (i, j), curve in curves.items()):
            raise ConvergenceError(
                "the exponential of a product of two noisy columns, or of a square with a "
                "coefficient above 0, has no mean over the noise: leave the term out, or use "
                "family='negative-binomial' or the logit link, whose scores do not grow so"
            )

    def dispersed(self, cov_type: Covariance, groups: Any, use_t: bool) -> NoisyGLM:
        """Return the fit at the dispersion at which squared scores are as large as they should."""
        model = replace(self, sources=[]) if self.sources else self
        naive, first = model._settled(None)
        at_naive = replace(model, law=naive).fitted(
            cov_type, groups, "noise+sampling", use_t, (first.beta, None)
        )
        if not self.sources:
            return at_naive
        found, root = replace(self, law=naive)._settled(first)
        fit = replace(self, law=found).fitted(
            cov_type, groups, "noise+sampling", use_t, (first.beta, root.beta)
        )
        return replace(fit, uncorrected=at_naive.naive)

    def _settled(self, naive: Root | None) -> tuple[Law, Root]:
        """Estimate coefficients and dispersion in turn; the former hardly move with the latter."""
        law, near = self.law, None
        log: float | None = None
        for _ in range(_DISPERSION_STEPS):
            model = replace(self, law=law)
            if naive is None:
                root = model.naive_root(near)
            elif near is None:
                root = model.found_roots(naive.beta)[0]
            else:
                root = solve(model.equations(), near, _REACH)
            near = root.beta
            at = CorrectedScores(law, self.rows, []) if naive is None else self.corrected(law)

            def excess(log: float, at: Any = at, beta: FloatArray = root.beta) -> float:
                other = at.law._replace(dispersion=float(np.exp(log)))
                return float(replace(at, law=other).excess(beta))

            log = settled_dispersion(excess, log)
            before, law = law, law._replace(dispersion=float(np.exp(log)))
            if abs(law.dispersion - before.dispersion) <= 1e-10 * law.dispersion:
                return law, root
        raise ConvergenceError("coefficients and dispersion did not settle together")

    def fitted(
        self,
        cov_type: Covariance,
        groups: Any,
        uncertainty: Uncertainty,
        use_t: bool,
        near: tuple[FloatArray | None, FloatArray | None] = (None, None),
    ) -> NoisyGLM:
        """Return the corrected fit, with the naive one, from roots of a near law if there are."""
        if uncertainty == "noise" and self.is_conditional:
            raise InvalidParameterError(
                "uncertainty must be 'noise+sampling' for family='binomial' with Gaussian noise: "
                "conditional scores rest on the model of the response"
            )
        first = self.naive_root(near[0])
        roots = self.found_roots(first.beta, near[1])
        at_naive = self._covariance(first, cov_type, groups)
        naive = self._result(
            [first], at_naive, None, 0.0, (), cov_type, groups, "noise+sampling", use_t
        )
        if not roots:
            roots = [first]
        width = self.width(roots[0])
        covariance = self._covariance(roots[0], cov_type, groups)
        if uncertainty == "noise":
            equations = self.equations()
            assert not isinstance(equations, ConditionalScores)  # they were refused
            covariance = sandwich(roots[0].slope, noise_meat(equations, roots[0]))
        remarks = self._remarks(roots, width, uncertainty)
        return self._result(
            roots, covariance, naive, width, remarks, cov_type, groups, uncertainty, use_t
        )

    def _covariance(self, root: Root, cov_type: Covariance, groups: Any) -> FloatArray:
        scores = _scaled(root.scores, cov_type, groups)
        return sandwich(root.slope, scores.T @ scores)

    def _remarks(
        self, roots: list[Root], width: float, uncertainty: Uncertainty
    ) -> tuple[str, ...]:
        design, found = self.design, list(self.design.notes)
        if self.sources:
            _, direction = self.moments.noise_shares()
            found += weakness(self.moments, direction)
            if len(design.endog) < _FEW_ROWS:
                found.append(
                    f"fewer than {_FEW_ROWS} rows: intervals are limits for many, and may cover "
                    "too rarely"
                )
        if width > _WIDE[self.law.link]:
            found.append(
                f"the noise of a linear predictor has standard deviation {width:.2g}, above "
                f"{_WIDE[self.law.link]:g}: intervals may cover too rarely"
            )
        if self._is_steep and not all(
            finite_moment(x, x.slopes @ roots[0].beta, 4) for x in self.sources
        ):
            found.append(
                "the equations have no fourth moment, as the coefficient of a column is above a "
                "quarter of one over the scale of its noise: intervals may cover too rarely"
            )
        if len(roots) > 1:
            found.append(
                f"the equations have {len(roots)} roots: the one nearest the naive fit with its "
                "attenuation taken off was taken"
            )
        if uncertainty == "noise" and None in design.errors.laws and self.family == "gaussian":
            found.append(
                "errors without a law are taken to have the fourth moment of Gaussian ones"
            )
        return tuple(found)

    def _result(
        self,
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
        conditional = naive is not None and self.is_conditional
        has_sets = naive is not None and self.sources
        return NoisyGLM(
            design=self.design,
            covariance=np.asarray(self.to_units @ covariance @ self.to_units.T),
            cov_type=cov_type,
            groups=groups,
            uncertainty=uncertainty,
            use_t=use_t,
            method="conditional score" if conditional else "corrected score",
            family=self.family,
            link=self.law.link,
            dispersion=self.law.dispersion,
            uncorrected=naive,
            roots=np.array([self.to_units @ x.beta for x in roots]),
            iterations=roots[0].iterations,
            noise_of_predictor=width,
            exposure=self.exposure,
            offset=self.offset,
            moments=self.moments,
            equations=self.equations() if has_sets else None,
            root=roots[0].beta,
            remarks=remarks,
        )
