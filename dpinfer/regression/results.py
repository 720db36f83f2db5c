"""What a regression on noisy columns gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from statsmodels.base.model import LikelihoodModelResults

from dpinfer._interchange import as_pandas
from dpinfer._validation import FloatArray, check_alpha, check_array, one_line, show
from dpinfer.errors import InvalidParameterError
from dpinfer.regression._attenuation import attenuation, reliability
from dpinfer.regression._covariance import Covariance
from dpinfer.regression._design import Design
from dpinfer.regression._errors import LARGEST
from dpinfer.regression._formula import rebuilt
from dpinfer.regression._solution import Method, Solution
from dpinfer.results.intervals import ERROR_COVERED, Uncertainty
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

_METHODS = {
    "moments": "least squares, noise taken off the moments",
    "fuller": "least squares, noise taken off (Fuller)",
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NoisyRegression:
    """Least squares corrected for the noise in published columns.

    Made by :func:`noisy_ols`. Names follow ``RegressionResults`` of statsmodels; with n rows and
    p coefficients, results are Series and DataFrames where the data had labels, otherwise arrays.

    Parameters
    ----------
    design : Design
        The published columns and their errors.
    solution : Solution
        The corrected normal equations.
    covariance : array of float, shape (p, p)
        Covariance matrix of the coefficients.
    method : {"moments", "fuller"}
        How the noise was taken off.
    cov_type : {"HC1", "HC0", "HC3", "cluster"}
        The covariance estimator.
    groups : array of int, shape (n,), or None
        Group of each row, for ``"cluster"``.
    uncertainty : {"noise+sampling", "noise"}
        Which error standard errors, tests and intervals cover.
    use_t : bool
        Whether tests and intervals use Student's t distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from dpinfer.regression import noisy_ols
    >>> exog = [[1, 0.1], [1, 0.8], [1, 2.2], [1, 3.1], [1, 3.8]]
    >>> fit = noisy_ols([1.0, 2.9, 5.2, 7.1, 8.8], exog, noise={"x1": 0.2})
    >>> fit.params.round(3), fit.naive.params.round(3), fit.reliability.round(3)
    (array([0.865, 2.067]), array([0.952, 2.024]), array([1.   , 0.979]))
    """

    design: Design
    solution: Solution
    covariance: FloatArray
    method: Method
    cov_type: Covariance
    groups: Any
    uncertainty: Uncertainty
    use_t: bool

    @cached_property
    def params(self) -> Any:
        """The p corrected coefficients."""
        return self._name(self._params)

    @cached_property
    def bse(self) -> Any:
        """Standard errors of the coefficients."""
        return self._name(self._std)

    @cached_property
    def tvalues(self) -> Any:
        """Coefficients in standard errors; 0 where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._name(np.where(self._params == 0, 0.0, self._params / self._std))

    @cached_property
    def pvalues(self) -> Any:
        """Two-sided p-values of the hypotheses that a coefficient is 0."""
        return self._name(2.0 * self._reference.sf(np.abs(np.asarray(self.tvalues))))

    def cov_params(self) -> Any:
        """Covariance matrix of the coefficients.

        Returns
        -------
        array of float, shape (p, p), or DataFrame
            Variances and covariances.
        """
        return self._square(self.covariance)

    def conf_int(self, alpha: float = 0.05) -> Any:
        """Confidence intervals for the coefficients.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        array of float, shape (p, 2), or DataFrame
            Lower and upper ends, in columns 0 and 1 as in statsmodels.
        """
        reach = self._reference.isf(check_alpha(alpha) / 2.0) * self._std
        ends = np.column_stack([self._params - reach, self._params + reach])
        if not self.design.labelled:
            return ends
        import pandas as pd

        return pd.DataFrame(ends, index=self.design.names)

    @property
    def nobs(self) -> float:
        """Number n of rows."""
        return float(len(self.design.endog))

    @property
    def df_resid(self) -> float:
        """Rows less coefficients, n - p."""
        return self.nobs - len(self.design.names)

    @property
    def df_inference(self) -> float:
        """Degrees of freedom of tests and intervals: n - p, or one less than the groups."""
        return self.df_resid if self.groups is None else float(self.groups.max())

    @cached_property
    def fittedvalues(self) -> Any:
        """The published design matrix times the coefficients, shape (n,)."""
        return self._by_row(self.design.exog @ self._params)

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
        noise = self.solution.error_variance / self.solution.moments.to_units[0, 0] ** 2
        own = np.square(np.asarray(self.resid)) - noise
        return max(0.0, float((self.design.weights * own).sum() / self.df_resid))

    @cached_property
    def naive(self) -> Any:
        """What statsmodels gives for the published columns, with the same kind of covariance.

        Its standard errors are those of the attenuated coefficients.
        """
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
        return self._name(reliability(self.design, self.solution.moments.noisy))

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
        return self.design.notes + self.solution.notes + self._assumed

    def predict(self, exog: Any = None) -> Any:
        """Return the expected response at confidential values of the covariates.

        For covariates that carry the same noise as those of the fit, ``naive.predict`` is right.

        Parameters
        ----------
        exog : DataFrame or array of float, shape (m, p), optional
            For a fit by formula, data with its columns; otherwise a design matrix. By default the
            one of the fit, which gives :attr:`fittedvalues`. A copy by pickle has lost a formula
            read by patsy, and takes design matrices.

        Returns
        -------
        array of float, shape (m,), or Series
            The expected responses.

        Raises
        ------
        InvalidParameterError
            If the columns do not fit, or values are missing.
        """
        if exog is None:
            return self.fittedvalues
        exog = as_pandas(exog, "exog")
        labels = exog.index if hasattr(exog, "columns") else None
        if self.design.spec is not None:
            exog = rebuilt(self.design.spec, exog)
        elif hasattr(exog, "columns") and list(exog.columns) != self.design.names:
            raise InvalidParameterError(
                f"exog must have the columns {show(self.design.names)}, in this order"
            )
        matrix = check_array(exog, "exog", ge=-LARGEST, le=LARGEST)
        if matrix.ndim not in (1, 2) or matrix.shape[-1] != len(self._params):
            raise InvalidParameterError(
                f"exog must have {len(self._params)} columns, got shape {matrix.shape}"
            )
        return attach_labels(np.asarray(matrix @ self._params), labels)

    def t_test(self, r_matrix: Any) -> Any:
        """Test linear functions of the coefficients, one at a time.

        Parameters
        ----------
        r_matrix : str or array of float
            As in statsmodels: ``"x1 = x2"``, or the weights of each function in a row.

        Returns
        -------
        statsmodels ContrastResults
            Estimates, standard errors, tests and intervals.
        """
        return self._through_statsmodels("t_test", r_matrix)

    def wald_test(self, r_matrix: Any) -> Any:
        """Test several linear hypotheses about the coefficients together.

        Parameters
        ----------
        r_matrix : str or array of float
            As in statsmodels: ``"x1 = 0, x2 = 0"``, or the weights of each function in a row.

        Returns
        -------
        statsmodels ContrastResults
            Statistic (F where ``use_t``, otherwise χ²) and p-value.
        """
        return self._through_statsmodels("wald_test", r_matrix, scalar=True)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return coefficients, standard errors, tests and intervals beside the naive fit.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        DataFrame
            A row for each coefficient, with the columns ``estimate``, ``std_err``, ``t`` (``z``
            with normal quantiles), ``pvalue``, ``ci_lower``, ``ci_upper``, ``naive``,
            ``naive_std_err`` and ``reliability``. ``attrs`` holds ``alpha``, ``method``,
            ``cov_type`` and ``uncertainty``.
        """
        import pandas as pd

        ends = np.asarray(self.conf_int(alpha))
        columns = {
            "estimate": self._params,
            "std_err": self._std,
            "t" if self.use_t else "z": np.asarray(self.tvalues),
            "pvalue": np.asarray(self.pvalues),
            "ci_lower": ends[:, 0],
            "ci_upper": ends[:, 1],
            "naive": np.asarray(self.naive.params),
            "naive_std_err": np.asarray(self.naive.bse),
            "reliability": np.asarray(self.reliability),
        }
        frame = pd.DataFrame(columns, index=self.design.names)
        frame.attrs = {
            "alpha": float(alpha),
            "method": self.method,
            "cov_type": self.cov_type,
            "uncertainty": self.uncertainty,
        }
        return frame

    def summary(self, alpha: float = 0.05) -> str:
        """Return :meth:`summary_frame` as a plain-text table that says which error it covers.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        str
            The table.
        """
        frame = self.summary_frame(alpha).drop(columns="naive_std_err")
        covered = self.cov_type if self.uncertainty == "noise+sampling" else "of the noise"
        return render_table(
            "Regression on noisy columns",
            [
                ("Response", self.design.model.endog_names),
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

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name} {value:.6g}"
            for name, value in zip(self.design.names, self._params, strict=True)
        )
        return f"{type(self).__name__}({show(shown)[1:-1]}; {int(self.nobs)} rows, {self.method})"

    def __str__(self) -> str:
        return self.summary()

    @cached_property
    def _params(self) -> FloatArray:
        return self.solution.in_units(self.solution.coefficients)

    @cached_property
    def _std(self) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0)))

    @property
    def _reference(self) -> Any:
        return stats.t(self.df_inference) if self.use_t else stats.norm()

    @property
    def _assumed(self) -> tuple[str, ...]:
        if self.uncertainty == "noise" and None in self.design.errors.laws:
            return ("errors without a law are taken to have the fourth moment of Gaussian ones",)
        return ()

    def _name(self, values: FloatArray) -> Any:
        if not self.design.labelled:
            return values
        import pandas as pd

        return pd.Series(values, index=self.design.names)

    def _square(self, values: FloatArray) -> Any:
        if not self.design.labelled:
            return values
        import pandas as pd

        return pd.DataFrame(values, self.design.names, self.design.names)

    def _by_row(self, values: FloatArray) -> Any:
        return attach_labels(values, self.design.row_labels)

    def _through_statsmodels(self, test: str, r_matrix: Any, **details: Any) -> Any:
        fitted = LikelihoodModelResults(
            self.design.model, self._params, normalized_cov_params=self.covariance, scale=1.0
        )
        fitted.use_t = self.use_t
        fitted.df_resid = self.df_resid
        fitted.df_resid_inference = self.df_inference
        try:
            return getattr(fitted, test)(r_matrix, **details)
        except Exception as error:  # statsmodels checks in its own ways
            raise InvalidParameterError(
                "r_matrix must be hypotheses about the coefficients as statsmodels takes them, "
                f"got {show(r_matrix)}: {one_line(error)}"
            ) from error
