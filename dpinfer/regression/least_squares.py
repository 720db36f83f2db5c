"""Least squares with noisy columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_flag,
    check_option,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression._errors import Across, NoiseOf, published_columns, without_missing
from dpinfer.regression._formula import (
    Design,
    Nonlinear,
    array_design,
    column_of,
    formula_design,
    refuse_many,
)
from dpinfer.regression._formula import absorb as absorb_groups
from dpinfer.regression._instruments import second_measurements, solve_instruments
from dpinfer.regression._moments import (
    COVARIANCES,
    SOLVERS,
    Covariance,
    Method,
    Moments,
    Solution,
    between_covariance,
    clustered,
    group_codes,
    noise_covariance,
    solve_moments,
)
from dpinfer.regression._results import ColumnsResult
from dpinfer.regression._score_sets import ScoreSets
from dpinfer.releases.coerce import MISSING, Missing
from dpinfer.results.intervals import ERROR_COVERED, Intervals, Uncertainty
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


def reliability(moments: Moments) -> FloatArray:
    """Share of each column's variation, given those without noise, that is not noise."""
    noisy, share = moments.noisy, np.ones(len(moments.cross))
    triangle = moments.design.triangle[:-1, :-1]
    clean = len(share) - int(noisy.sum())
    ordered = triangle[:, np.argsort(noisy, kind="stable")]
    beyond = np.asarray(np.linalg.qr(ordered, mode="r"))[clean:, clean:]
    variation = np.square(beyond).sum(axis=0) / moments.mean_weight
    if moments.design.curves:
        units = triangle / np.sqrt(moments.mean_weight)
        lost = np.diagonal(units.T @ moments.noise @ units)[noisy]
    else:
        lost = (np.diagonal(moments.errors) * np.square(moments.reach))[moments.design.noisy > 0]
    share[noisy] = 1.0 - lost / variation
    return share


def attenuation(moments: Moments) -> FloatArray:
    """Return the matrix (XᵀWX)⁻¹(XᵀWX - noise) in units of the data."""
    triangle = moments.design.triangle[:-1, :-1] / np.sqrt(moments.mean_weight)
    return np.asarray(np.eye(len(triangle)) - moments.to_units @ moments.noise @ triangle)


_METHODS = {
    "moments": "least squares, noise taken off the moments",
    "fuller": "least squares, noise taken off (Fuller)",
    "instruments": "instrumental variables (second measurements)",
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NoisyRegression(ColumnsResult):
    """Least squares corrected for the noise in published columns.

    Made by :func:`noisy_ols`. Names follow ``RegressionResults`` of statsmodels; with n rows and
    p coefficients, results are Series and DataFrames where the data had labels, otherwise arrays.
    Standard errors, tests and intervals cover ``uncertainty`` by the estimator ``cov_type``, with
    Student's t where ``use_t``; ``method`` says how the noise was taken off.

    Examples
    --------
    >>> import numpy as np
    >>> from dpinfer.regression import noisy_ols
    >>> exog = [[1, 0.1], [1, 0.8], [1, 2.2], [1, 3.1], [1, 3.8]]
    >>> fit = noisy_ols([1.0, 2.9, 5.2, 7.1, 8.8], exog, noise={"x1": 0.2})
    >>> fit.params.round(3), fit.naive.params.round(3), fit.reliability.round(3)
    (array([0.883, 2.059]), array([0.952, 2.024]), array([1.   , 0.983]))
    """

    solution: Solution
    method: Method | Literal["instruments"]
    remarks: tuple[str, ...] = ()

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
            ``"score"``: those values at which the sum of the corrected scores is within t of its
            standard error, after Fieller. It holds its level for few rows and low reliability,
            and is infinite where the rows do not bound a coefficient. ``"wald"``: coefficients
            within t standard errors, a limit for many rows. By default ``"score"`` wherever it is
            there: for the method of moments, noisy covariates without squares,
            ``uncertainty="noise+sampling"``, and rows that are not clustered, or absorbed groups.

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
        With ψ the effective score of a row, the part of its score for the coefficient θ that is
        not that of the others, linear in θ as the others are solved for given θ, the set is
        (Σψ)² ≤ t²·max(V₁, V₂). V₁ = n/(n - p)·Σψ² with products of residuals divided by one less
        the leverage of the covariates without noise, as in a jackknife. V₂ is what Σψ² would be on
        average if the residuals had one variance and the noise its published moments: few rows
        with heavy-tailed noise rarely show them.

        How often 95 % intervals of the slope covered, in per cent, at worst over 5 populations
        (normal, skew and log-normal covariates, errors of one variance or growing with the
        covariate, Laplace and Gaussian noise; 6,000 tables each) against ``"wald"`` (HC1; 4,000
        tables each):

        ====  ===========  =====  ====  ==============
        rows  reliability  score  wald  score infinite
        ====  ===========  =====  ====  ==============
        20    1/3          96.6   80.7  99 or more
        20    0.5          97.1   85.0  98 or more
        30    1/3          97.0   81.7  96 or more
        30    0.8          98.1   79.7  11 to 82
        100   1/3          96.0   89.0  38 to 86
        100   0.8          95.5   81.7  0 to 15
        250   1/3          95.7   90.8  2 to 42
        250   0.8          95.5   84.9  0 to 4
        ====  ===========  =====  ====  ==============

        References
        ----------
        E. C. Fieller (1954), Some problems in interval estimation, Journal of the Royal Statistical
        Society B 16. doi:10.1111/j.2517-6161.1954.tb00159.x.
        """
        return self._sets(
            alpha,
            method,
            "noisy covariates without squares or products of noisy columns, fitted by the method "
            "of moments, with uncertainty='noise+sampling' and without groups, unless some are "
            "absorbed",
        )

    @cached_property
    def fittedvalues(self) -> Any:
        """The published design matrix times the coefficients, with absorbed effects, shape (n,)."""
        absorbed = self.design.absorbed
        published = self.design.endog if absorbed is None else absorbed.endog
        return self._by_row(published - np.asarray(self.resid))

    @cached_property
    def resid(self) -> Any:
        """Published response minus :attr:`fittedvalues`, noise of both included, shape (n,)."""
        return self._by_row(self.design.endog - self.design.exog @ self._params)

    @cached_property
    def scale(self) -> float:
        """Variance of the confidential response around the line, the noise taken off; >= 0.

        The weighted mean of squared residuals less the variance of their errors, with n - p in
        the denominator; for a response in rows of weight 1.
        """
        moments = self.solution.moments
        total = self.design.weights @ np.square(np.asarray(self.resid))
        noise = self.solution.error_variance * moments.unit**2 * moments.mean_weight
        return max(0.0, float((total - noise) / self.df_resid))

    @cached_property
    def naive(self) -> Any:
        """What statsmodels gives for the published columns, with the same kind of covariance.

        Its standard errors are those of the attenuated coefficients.
        """
        if self.design.absorbed is not None:
            plain = replace(
                self.design, noisy=self.design.noisy[:0], loadings=self.design.loadings[:, :0]
            )
            solution = solve_moments(Moments.of(plain), plain.names)
            covariance = _covariance(solution, self.cov_type, self.groups, "noise+sampling")
            return replace(
                self, design=plain, solution=solution, covariance=covariance, method="moments"
            )
        details = {} if self.groups is None else {"groups": self.groups}
        return self.design.model.fit(
            cov_type=self.cov_type, cov_kwds=details or None, use_t=self.use_t
        )

    @cached_property
    def reliability(self) -> Any:
        """Share of each column's variation that is not noise, 1 for columns without noise.

        Of the variation that is left after regression on the columns without noise, the constant
        among them. With a single noisy covariate it is what ordinary least squares multiplies its
        coefficient with, on average.
        """
        return self._name(reliability(self.solution.moments))

    @cached_property
    def attenuation(self) -> Any:
        """The matrix that ordinary least squares multiplies the coefficients with, shape (p, p).

        (XᵀWX)⁻¹(XᵀWX - noise): the naive coefficients are this matrix times those by the method
        of moments, plus what errors that covariates and response share bring in.
        """
        return self._square(attenuation(self.solution.moments))

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on how far the numbers can be relied on."""
        return self.design.notes + self.solution.notes + self._assumed + self.remarks

    def predict(self, exog: Any = None) -> Any:
        """Return the expected response, shape (m,), at confidential values of the covariates.

        ``exog`` is data with the columns of the formula, or a design matrix, shape (m, p); by
        default that of the fit. A copy by pickle has lost a formula read by patsy, and takes design
        matrices. Columns that do not fit and missing values are refused. For covariates that carry
        the same noise as those of the fit, ``naive.predict`` is right.
        """
        if exog is None:
            return self.fittedvalues
        if self.design.absorbed is not None:
            raise InvalidParameterError(
                "exog must be left out with absorb: the effects of groups are known for the rows "
                "of the fit, and only from them"
            )
        matrix, labels = self._new_rows(exog)
        return attach_labels(np.asarray(matrix @ self._params), labels)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return coefficients, standard errors, tests and intervals beside the naive fit.

        A DataFrame with a row for each coefficient and the columns ``estimate``, ``std_err``, ``t``
        (``z`` with normal quantiles), ``pvalue``, ``ci_lower``, ``ci_upper`` (level 1 - ``alpha``,
        in (0, 1)), ``naive``, ``naive_std_err`` and ``reliability``; ``attrs`` holds ``alpha``,
        ``method``, ``cov_type`` and ``uncertainty``.
        """
        return self._frame(alpha)

    def _table(self, alpha: float = 0.05) -> Table:
        frame = self.summary_frame(alpha).drop(columns="naive_std_err")
        covered = self.cov_type if self.uncertainty == "noise+sampling" else "of the noise"
        return Table(
            "Regression on noisy columns",
            [
                ("Response", self.design.response),
                ("Method", _METHODS[self.method]),
                ("Observations", int(self.nobs)),
                ("Df residuals", int(self.df_resid)),
                ("Covariance", covered),
                ("Level", f"{1 - alpha:.6g}"),
                ("Residual std. dev.", f"{np.sqrt(self.scale):.6g}"),
                ("Error covered", ERROR_COVERED[self.uncertainty]),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index,
            notes=self.notes,
            alike=("estimate", "std_err", "ci_lower", "ci_upper", "naive"),
        )

    @cached_property
    def _score_sets(self) -> ScoreSets | None:
        offered = (
            self.method != "fuller"
            and self.uncertainty == "noise+sampling"
            and (self.groups is None or self.design.absorbed is not None)
            and bool(self.solution.moments.noisy.any())
            and not self.design.curves
        )
        return ScoreSets.of(self.solution, self.groups) if offered else None

    @cached_property
    def _params(self) -> FloatArray:
        return self.solution.in_units(self.solution.coefficients)

    @property
    def _assumed(self) -> tuple[str, ...]:
        if self.uncertainty == "noise" and None in self.design.errors.laws:
            return ("errors without a law are taken to have the fourth moment of Gaussian ones",)
        return ()


_NONLINEAR: tuple[Nonlinear, ...] = ("refuse", "delta")
UNCERTAINTIES: tuple[Uncertainty, ...] = ("noise+sampling", "noise")


def noisy_ols(
    endog: Any,
    exog: Any,
    *,
    noise: NoiseOf | None = None,
    instrument: Mapping[Any, Any] | None = None,
    weights: Any = None,
    absorb: Any = None,
    method: Method = "moments",
    cov_type: Covariance | None = None,
    groups: Any = None,
    uncertainty: Uncertainty = "noise+sampling",
    nonlinear: Nonlinear = "refuse",
    use_t: bool = True,
    missing: Missing = "raise",
) -> NoisyRegression:
    """Least squares when response, covariates or both were published with noise.

    Noise in a covariate pulls ordinary coefficients towards zero, however many rows there are,
    and the coefficients of the other covariates anywhere. The variance of the noise is published:
    taking it off the moments gives coefficients without that bias.

    Parameters
    ----------
    endog : str, array of float, shape (n,), Series, Release or estimate
        A formula such as ``"cases ~ population + region"``, read by the library that statsmodels
        uses; or the published response.
    exog : DataFrame, array of float, shape (n, p), or mapping
        For a formula, the data; otherwise the design matrix,
        to which no constant is added. Frames and series may be those of pandas, polars, pyarrow or
        the like. A mapping of names to columns may hold releases, estimates and
        :class:`~dpinfer.NoisyValues`, which bring the law of their errors, with what columns and
        rows share of it, as where a column is part of a combined table.
    noise : mapping, optional
        For each noisy column the law of its errors (a law, or a sequence with one for each row)
        or their standard deviation, a number or one for each row. With a formula, keys are
        columns of the data, and a string names the column that holds standard deviations; without,
        the names of the response and of the columns of ``exog``: ``"y"``, ``"const"``, ``"x1"``, …
        for arrays, as in statsmodels. A key that is a pair of such columns gives the covariance of
        their errors within a row; by default they are independent. Other columns have no errors.
        Noisy values, whose values are those of the column, bring their law; a covariance matrix,
        shape (n, n), is that of Gaussian errors that rows share.
    instrument : mapping, optional
        For noisy covariates a second measurement of the same column with independent noise, shape
        (n,), as where a table was published twice: its numbers, noisy values, or, with a formula,
        the name of a column. It takes the place of the correction by the variance of the noise; the
        noise of the other columns is taken off as ever.
    weights : array of float, shape (n,), Series or str, optional
        Weights > 0 of the rows, free of noise; with a formula also the name of a column.
    absorb : array of shape (n,), Series or str, optional
        Group of each row whose effects, one for each group, are taken out of response and
        covariates, the constant with them, in linear time; with a formula also the name of a
        column. Coefficients are those with ``C(group)``. For the method of moments, and terms
        linear in the noisy columns.
    method : {"moments", "fuller"}
        ``"moments"`` takes off all of the noise. ``"fuller"`` takes off a little less: in small
        or very noisy tables the estimates have less bias and smaller errors, and always exist.
    cov_type : {"HC1", "HC0", "HC3", "cluster"}, optional
        The covariance estimator, named as in statsmodels, to which it comes down without noise.
        ``"HC3"`` leaves out one row at a time: the default below 250 rows, where the fit without
        each exists; from there on it is ``"HC1"``. ``"cluster"`` needs ``groups``; with 50 or more
        absorbed groups it is the default, and takes these.
    groups : array of shape (n,), Series or str, optional
        Group of each row; with a formula also the name of a column. Errors may be correlated within
        groups, as where rows share a noisy denominator. With ``absorb``, groups hold absorbed ones
        whole, and it is the errors of the response that may be correlated, not the noise.
    uncertainty : {"noise+sampling", "noise"}
        Whether the coefficients are those of a population from which the rows are a sample, or
        those that least squares would give for the confidential values of these very rows.
    nonlinear : {"refuse", "delta"}
        What to do with terms of a formula that are not of degree two at most in the noisy columns,
        such as a share with a noisy denominator: ``"delta"`` linearises all that are not linear,
        at the published values. Squares and products of two noisy columns in covariates,
        ``I(x**2)`` and ``x:z``, are exact by default.
    use_t : bool, default True
        Whether tests and intervals use Student's t distribution with n - p degrees of freedom (one
        less than the number of groups for ``"cluster"``), or the normal one.
    missing : {"raise", "drop"}
        What to do with missing values: ``"drop"`` leaves out the rows that have some in the
        response, the design matrix or the columns that the formula names, ``noise``, ``weights`` or
        ``groups``. Where what is missing depends on the values, this biases the coefficients.

    Returns
    -------
    NoisyRegression
        Coefficients, standard errors, tests and intervals, with ``naive``, what least squares
        gives that takes the published values for the confidential ones, and ``reliability``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, a term of the formula is not of degree two at
        most in the noisy columns, or a published value is not a whole number although its noise is.
    NotEstimableError
        If the columns are linearly dependent, there are too few rows, or the noise is as wide as
        the variation of the noisy covariates.

    Notes
    -----
    Published are Y + ε and X + U; the errors of row i have a known covariance matrix, Σᵢ for
    (U), σᵢ for (U, ε). With weights wᵢ,

    b = (XᵀWX - Σ wᵢ(1 - hᵢ) Σᵢ)⁻¹ (XᵀWY - Σ wᵢ(1 - hᵢ) σᵢ)

    solves equations without bias, hᵢ the leverage of row i in regression on the columns without
    noise alone: what that leaves of a noisy column has Σ wᵢ(1 - hᵢ)vᵢ of noise of variances vᵢ in
    its sum of squares (with a constant only, 1 - 1/n of each, as in Fuller 1987, section 2.2). The
    matrix inverted must be positive definite. A product of a noisy column and one without noise is
    linear in the noise, so that its errors are known exactly, as are those of columns made of
    several noisy ones; that a formula is linear in them is checked numerically. The covariance of b
    is that of an M-estimator, M⁻¹(Σ ψᵢ ψᵢᵀ)M⁻¹ with ψᵢ what row i adds to the equations: it holds
    whatever the variance of each row, and has the noise in it. It is a limit for many rows.

    Squares and products of two noisy columns share the noise of these: products of covariates are
    corrected as polynomials in the counts, not column by column. With errors of variance v and
    fourth moment m₄, z³ is estimated by y³ - 3vy and z⁴ by y⁴ - 6vy² + 6v² - m₄. Intervals of such
    coefficients are limits for many rows, more than others: in 300 tables of 4,000 rows with
    geometric noise of scale 1.5 and z of variance 6, 95 % intervals covered 94.7 %,
    with medians of 2.95, 0.514 and -0.0807 for 3, 0.5 and -0.08.

    With instruments Z, the design matrix in which second measurements take the place of the first,

    b = (ZᵀWX - Σ wᵢ Cov(zᵢ, xᵢ))⁻¹ (ZᵀWY - Σ wᵢ Cov(zᵢ, yᵢ)),

    where the covariances are those of errors that are in both, none where all noisy covariates have
    a second measurement: the just-identified estimate by instrumental variables. It needs no
    variance of the noise, but fails where the two errors are dependent. The default intervals are
    those of Anderson and Rubin (1949), which hold where the two measurements have little in common.
    In 300 tables each with Laplace and with Gaussian noise, 95 % intervals of the slope covered
    99 % or more (20 rows and reliability 1/3, 30 and 0.5; 56 % or more infinite), 98 % (100 and
    1/3) and 95 to 97 % (250 and 0.8); those by standard errors 92 to 95 %.

    ``"fuller"`` takes the noise off c times, c = min(1, λ - 1/d) - (k + 1)/d, with k noisy
    covariates, d = n less the covariates without noise, and λ the smallest root of
    det(XᵀWX - λ Σ wᵢ Σᵢ) = 0 (after Fuller 1987, section 2.5, whose root has the response in
    it: where that is nearly an exact function of the covariates, the estimates would be held back
    by more). The constant k + 1 removes the bias of order 1/n for Gaussian values of high
    reliability.

    How often 95 % intervals cover, in 1,500 simulated tables with skew counts, Laplace noise and
    errors that grow with the counts, the reliability of the noisy covariate being 0.95, 0.8 or 0.6:
    with 50 rows 92 to 96 % (``"HC1"``) or 94 to 98 % (``"HC3"``), with 200 or 1,000 rows 94 to
    97 %, and with ``uncertainty="noise"`` 94 to 97 %. Naive intervals for the coefficient of the
    noisy covariate cover 85, 57 and 34 % with 50 rows, and 7, 0 and 0 % with 1,000. Where the
    noise is so wide that what is left of a covariate is not clearly there, ``summary`` says so.
    Those are intervals by standard errors; the default ones of the method of moments, score sets,
    hold where the former do not (``conf_int`` of the result has figures), and ``pvalues`` are
    theirs. ``t_test`` and ``wald_test`` are by standard errors.

    Of groups with k rows each, as ``C(group)`` or ``absorb``, hᵢ is 1/k and more: without that
    share the mean slope would be 2.67 for 2 with pairs of rows at a reliability of 0.8 within
    groups, and 2.13 with groups of 5; it is 2.00 in both. Degrees of freedom are n - p - G with G
    absorbed groups, as in ``areg``, and for ``"cluster"`` one less than the clusters, in which
    absorbed groups are nested and not counted: its factor is (n - 1)/(n - p - 1) G/(G - 1), as in
    ``xtreg``. A row alone in its group has no part in the coefficients. How often default 95 %
    intervals, score sets with scores added up within absorbed groups, covered in 1,000 tables with
    Laplace noise at reliabilities within groups of 0.8 and 0.5: 50 groups of 2 rows 97 and 99.7 %
    (infinite in 37 % at 0.5), of 3 rows 97 and 99 %, of 5 rows 97 and 98 %; 200 of 2 rows 97 and
    96 %; groups of 1, 2, 3 and 10 rows 98 and 97 %; with skew covariates, errors that grow with
    them and noise of unequal variances at 0.8, 96 to 97 %. Those of 10 to 30 groups, by rows, 95 to
    99.7 %; with ``uncertainty="noise"``, weighted or not, 95 %. As ``C(group)``, intervals are by
    rows and far too wide where groups are small: use ``absorb``.

    Where rows share errors, as in combined tables, hᵢ is taken from the whole covariance matrix of
    the noise, and the covariance of b has what scores of two rows share: with residuals eᵢ free of
    each other, errors with covariances Vᵢⱼ of one covariate and slope β, β²(Vᵢⱼ xᵢxⱼ + Vᵢⱼ²) for
    each pair (noises that are not Gaussian add their fourth cumulants). It takes n² products for
    dense covariances. Default 95 % intervals of the slope covered 96 % for estimates from cells and
    their totals (100 rows, Laplace noise, 400 tables), 98 % for blocks of five rows with a common
    error, 96 % for one error of all rows, and 97 % for autoregressive Gaussian errors of 400 rows
    (200 tables each). Not with ``absorb``, ``instrument``, ``"fuller"`` or squares.

    Errors of different rows are otherwise independent, unless ``groups`` says otherwise. For
    ``uncertainty="noise"``, errors known by their standard deviations only, or with covariances,
    are taken to have the fourth cumulant 0 of Gaussian ones; all must be symmetric.

    To predict a response from covariates that carry the same noise, use ``naive``: its attenuation
    is right for that.

    References
    ----------
    T. W. Anderson, H. Rubin (1949), Estimation of the parameters of a single equation in a complete
    system of stochastic equations, Annals of Mathematical Statistics 20.
    doi:10.1214/aoms/1177730090.

    W. A. Fuller (1987), Measurement Error Models, Wiley. doi:10.1002/9780470316665.

    R. J. Carroll, D. Ruppert, L. A. Stefanski, C. M. Crainiceanu (2006), Measurement Error in
    Nonlinear Models, 2nd ed., chapters 3 and 7 and appendix A. doi:10.1201/9781420010138.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from dpinfer import Laplace, Release
    >>> rng = np.random.default_rng(1)
    >>> people = rng.gamma(4.0, 25.0, 500)
    >>> law = Laplace(scale=25.0)
    >>> table = pd.DataFrame({
    ...     "people": people + law.rvs(500, rng=rng),
    ...     "visits": 10.0 + 0.5 * people + rng.normal(0.0, 5.0, 500),
    ... })
    >>> fit = noisy_ols("visits ~ people", table, noise={"people": law})
    >>> fit.naive.params.round(3).to_list(), fit.params.round(3).to_list()
    ([26.553, 0.334], [8.592, 0.52])

    A column that carries its own law:

    >>> data = {"people": Release(table["people"], mechanism=law), "visits": table["visits"]}
    >>> noisy_ols("visits ~ people", data).params.round(3).to_list()
    [8.592, 0.52]

    A second measurement, as an instrument:

    >>> table["again"] = people + law.rvs(500, rng=rng)
    >>> again = {"people": "again"}
    >>> fit = noisy_ols("visits ~ people", table, noise={"people": law}, instrument=again)
    >>> fit.params.round(3).to_list()
    [10.987, 0.495]
    """
    check_option(method, "method", SOLVERS)
    if cov_type is not None:
        check_option(cov_type, "cov_type", COVARIANCES)
    check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    check_option(nonlinear, "nonlinear", _NONLINEAR)
    again: dict[Any, Any] = {}
    if absorb is not None and (instrument is not None or method == "fuller"):
        beside = "method='fuller'" if instrument is None else "instrument"
        raise InvalidParameterError(
            f"absorb must be left out with {beside}, "
            "for which no intervals are known that hold with the effects of many groups: give few "
            "groups as C(group)"
        )
    if instrument is not None:
        if method != "moments" or uncertainty == "noise" or nonlinear == "delta":
            raise InvalidParameterError(
                "instrument must be left out unless method='moments', "
                "uncertainty='noise+sampling' and nonlinear='refuse': the estimate rests on a "
                "population with a line, and on terms that are linear in the noise"
            )
        again = second_measurements(instrument, endog, exog)
    across: Across = "keep" if groups is None or absorb is not None else "ignore"
    endog, exog, noise, between = published_columns(
        endog, exog, noise, across=across, who="noisy_ols"
    )
    if between is not None and missing == "drop":
        raise InvalidParameterError(
            "missing must be 'raise' where rows share errors: leave rows out of the data first"
        )
    if check_option(missing, "missing", MISSING) == "drop":
        endog, exog, noise, weights, groups, absorb, again = without_missing(
            endog, exog, noise, weights, groups, absorb, again
        )
    if isinstance(endog, str):
        exog = as_pandas(exog, "exog")
        design = formula_design(endog, exog, noise, weights, nonlinear, depth=2)
        groups = column_of(exog, groups) if isinstance(groups, str) else groups
        absorb = column_of(exog, absorb) if isinstance(absorb, str) else absorb
    else:
        design = array_design(endog, exog, noise, weights)
    if design.curves:
        refuse_many(design)
    asked: Covariance = cov_type or ("HC3" if len(design.endog) < _FEW_ROWS else "HC1")
    if absorb is not None:
        codes = group_codes(absorb, "absorb", design.row_labels, len(design.endog))
        design = absorb_groups(design, codes)
        clusters = groups is not None or codes.max() + 1 >= _MANY_GROUPS
        if cov_type is None and uncertainty == "noise+sampling" and clusters:
            asked = "cluster"
    codes = checked_groups(groups, asked, uncertainty, design)
    if between is not None:
        unfit = {
            "absorb": absorb is not None,
            "instrument": bool(again),
            "method='fuller'": method == "fuller",
            "squares or products of noisy columns": bool(design.curves),
        }
        if any(unfit.values()):
            what = next(name for name, found in unfit.items() if found)
            raise InvalidParameterError(
                f"noise must have errors that are independent from row to row with {what}, got "
                "errors that rows share: leave it out, or give groups of rows that share errors "
                "and cov_type='cluster'"
            )
        design = replace(design, errors=replace(design.errors, between=between))
    moments = Moments.of(design)
    if again:
        assert noise is not None  # plain numbers without were refused
        solution: Solution = solve_instruments(moments, exog, again, noise)
    else:
        solution = SOLVERS[method](moments, design.names)
    remarks: tuple[str, ...] = ()
    try:
        covariance = _covariance(solution, asked, codes, uncertainty)
    except NotEstimableError:
        if cov_type is not None or uncertainty == "noise":
            raise
        asked = "HC1"
        covariance = _covariance(solution, asked, codes, uncertainty)
        remarks = ("HC1, as some row holds all variation of a covariate and HC3 leaves it out",)
    return NoisyRegression(
        design=design,
        solution=solution,
        covariance=covariance,
        method="instruments" if again else method,
        cov_type=asked,
        groups=codes,
        uncertainty=uncertainty,
        use_t=check_flag(use_t, "use_t"),
        remarks=remarks,
    )


_FEW_ROWS = 250
_MANY_GROUPS = 50


def _covariance(
    solution: Solution, cov_type: Covariance, groups: Any, uncertainty: Uncertainty
) -> FloatArray:
    """Covariance matrix of the coefficients, in units of the data."""
    found = noise_covariance if uncertainty == "noise" else COVARIANCES[cov_type]
    covariance = found(solution, groups)
    if solution.moments.between is not None and uncertainty == "noise+sampling":
        covariance = covariance + between_covariance(solution)
    return solution.in_units(solution.in_units(covariance).T)


def checked_groups(groups: Any, cov_type: str, uncertainty: str, design: Design) -> Any:
    """Return groups as numbers, None without; refused where they do not fit the covariance."""
    size, absorbed = len(design.endog), design.absorbed
    codes = clustered(groups, cov_type, design.row_labels, size, absorbed=absorbed)
    if codes is not None and uncertainty == "noise":
        raise InvalidParameterError(
            "groups must not be given for uncertainty='noise', which takes the errors of the rows "
            "to be independent"
        )
    return codes
