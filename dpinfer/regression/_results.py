"""What regressions of all kinds say of their coefficients."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_alpha,
    check_array,
    check_option,
    one_line,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.regression._errors import LARGEST
from dpinfer.regression._formula import Design, rebuilt
from dpinfer.regression._moments import Covariance
from dpinfer.regression._score_sets import ScoreSets
from dpinfer.results.intervals import Intervals, Uncertainty
from dpinfer.results.labels import attach_labels
from dpinfer.results.presentation import Listed, Plotted

if TYPE_CHECKING:
    import pandas as pd


class RegressionResult(Listed, Plotted):
    """Coefficients with a covariance matrix, and a design with the names of its columns.

    Names follow ``RegressionResults`` of statsmodels; results are Series and DataFrames where the
    data had labels, otherwise arrays.
    """

    design: Any
    covariance: FloatArray

    @property
    @abstractmethod
    def _params(self) -> FloatArray: ...

    @property
    @abstractmethod
    def _pvalues(self) -> FloatArray: ...

    @property
    def _wald_pvalues(self) -> FloatArray:
        return np.asarray(2.0 * self._reference.sf(np.abs(np.asarray(self.tvalues))))

    @property
    def _names(self) -> list[Any]:
        return list(self.design.names)

    @property
    def _degrees(self) -> float:
        """Degrees of freedom of Student's t distribution, infinite for the normal one."""
        return np.inf

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
        return self._name(self._pvalues)

    def cov_params(self) -> Any:
        """Return the covariance matrix of the coefficients, one row and column for each."""
        return self._square(self.covariance)

    def t_test(self, r_matrix: Any) -> Any:
        """Test linear functions of the coefficients, one at a time: ContrastResults of statsmodels.

        ``r_matrix`` is ``"x1 = x2"``, or holds the weights of each function in a row.
        """
        return self._through_statsmodels("t_test", r_matrix)

    def wald_test(self, r_matrix: Any) -> Any:
        """Test linear hypotheses together, as statsmodels does.

        By F where intervals are by Student's t distribution, otherwise by χ². ``r_matrix`` is
        ``"x1 = 0, x2 = 0"``, or holds the weights of each function in a row.
        """
        return self._through_statsmodels("wald_test", r_matrix, scalar=True)

    def _rows(self) -> tuple[int, pd.Index | None]:
        import pandas as pd

        return len(self._names), pd.Index(self._names)

    @cached_property
    def _std(self) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0)))

    @property
    def _reference(self) -> Any:
        from scipy import stats

        return stats.t(self._degrees) if np.isfinite(self._degrees) else stats.norm()

    def _shown(self) -> str:
        pairs = zip(self._names, self._params, strict=True)
        return show(", ".join(f"{name} {value:.6g}" for name, value in pairs))[1:-1]

    def _name(self, values: FloatArray) -> Any:
        if not self.design.labelled:
            return values
        import pandas as pd

        return pd.Series(values, index=self._names)

    def _square(self, values: FloatArray) -> Any:
        if not self.design.labelled:
            return values
        import pandas as pd

        return pd.DataFrame(values, self._names, self._names)

    def _new_rows(self, exog: Any) -> tuple[FloatArray, pd.Index | None]:
        """Return the design matrix of other data, one row or many, and the labels of its rows."""
        exog = as_pandas(exog, "exog")
        labels = exog.index if hasattr(exog, "columns") else None
        names = self.design.names
        if self.design.spec is not None:
            exog = rebuilt(self.design.spec, exog)
        elif labels is not None and list(exog.columns) != names:
            raise InvalidParameterError(f"exog must have the columns {show(names)}, in this order")
        matrix = check_array(exog, "exog", ge=-LARGEST, le=LARGEST)
        if matrix.ndim not in (1, 2) or matrix.shape[-1] != len(names):
            raise InvalidParameterError(
                f"exog must have {len(names)} columns, got shape {matrix.shape}"
            )
        return matrix, labels

    def _through_statsmodels(self, test: str, r_matrix: Any, **details: Any) -> Any:
        from statsmodels.base.model import LikelihoodModelResults

        names = SimpleNamespace(cov_names=[str(name) for name in self._names])
        fitted = LikelihoodModelResults(
            SimpleNamespace(data=names),
            self._params,
            normalized_cov_params=self.covariance,
            scale=1.0,
        )
        fitted.use_t = bool(np.isfinite(self._degrees))
        fitted.df_resid = self._degrees
        try:
            return getattr(fitted, test)(r_matrix, **details)
        except Exception as error:  # statsmodels checks in its own ways
            raise InvalidParameterError(
                "r_matrix must be hypotheses about the coefficients as statsmodels takes them, "
                f"got {show(r_matrix)}: {one_line(error)}"
            ) from error


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ColumnsResult(RegressionResult):
    """Coefficients of columns whose noise was taken off, beside those of the published columns."""

    design: Design
    covariance: FloatArray
    cov_type: Covariance
    groups: Any
    uncertainty: Uncertainty
    use_t: bool
    method: Any

    @property
    @abstractmethod
    def naive(self) -> Any:
        """The fit that takes the published values for the confidential ones."""

    @property
    @abstractmethod
    def reliability(self) -> Any:
        """Share of each column's variation that is not noise."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Remarks on how far the numbers can be relied on."""

    @cached_property
    def params(self) -> Any:
        """The p corrected coefficients."""
        return self._name(self._params)

    @abstractmethod
    def conf_int(
        self, alpha: float = 0.05, *, method: Literal["score", "wald"] | None = None
    ) -> Intervals:
        """Return intervals for the coefficients."""

    @property
    @abstractmethod
    def _score_sets(self) -> ScoreSets | None: ...

    @property
    def _pvalues(self) -> FloatArray:
        if self._score_sets is None:
            return self._wald_pvalues
        return np.asarray(
            2.0 * self._reference.sf(np.sqrt(self._score_sets.squared_ratio(-self._params)))
        )

    def _sets(self, alpha: float, method: Any, offered: str) -> Intervals:
        """Intervals by score sets where they are there, unless others are asked for."""
        if method is None:
            method = "score" if self._score_sets is not None else "wald"
        if check_option(method, "method", ("score", "wald")) == "wald":
            return self._wald(alpha)
        level = check_alpha(alpha)
        if self._score_sets is None:
            raise InvalidParameterError(f"method must be 'wald' here: score sets are for {offered}")
        below, above = self._score_sets.ends(float(self._reference.isf(level / 2.0)))
        unbounded = (
            "the rows do not bound every coefficient: the variation of a noisy covariate that is "
            "not noise is not clearly there, and infinite ends are right",
        )
        notes = unbounded if np.isinf(below).any() or np.isinf(above).any() else ()
        return self._intervals(level, below, above, f"{self.method}, score sets", *notes)

    def _wald(self, alpha: float) -> Intervals:
        level = check_alpha(alpha)
        reach = self._reference.isf(level / 2.0) * self._std
        return self._intervals(level, -reach, reach, f"{self.method}, {self.cov_type}")

    def _intervals(
        self, level: float, below: FloatArray, above: FloatArray, method: str, *notes: str
    ) -> Intervals:
        """Intervals by the distances of their ends from the estimates."""
        import pandas as pd

        return Intervals(
            estimate=self._params,
            lower=self._params + below,
            upper=self._params + above,
            alpha=level,
            method=method,
            uncertainty=self.uncertainty,
            labels=pd.Index(self.design.names) if self.design.labelled else None,
            notes=self.notes + notes,
        )

    @property
    def nobs(self) -> float:
        """Number n of rows."""
        return float(len(self.design.endog))

    @property
    def df_resid(self) -> float:
        """Rows less coefficients, n - p, and less absorbed groups."""
        return self.nobs - self.design.parameters

    @property
    def df_inference(self) -> float:
        """Degrees of freedom of tests and intervals: n - p, or one less than the groups."""
        return self.df_resid if self.groups is None else float(self.groups.max())

    def _frame(self, alpha: float) -> pd.DataFrame:
        import pandas as pd

        lower, upper = map(np.asarray, self.conf_int(alpha))
        columns = {
            "estimate": self._params,
            "std_err": self._std,
            "t" if self.use_t else "z": np.asarray(self.tvalues),
            "pvalue": np.asarray(self.pvalues),
            "ci_lower": lower,
            "ci_upper": upper,
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

    def __repr__(self) -> str:
        rows = f"{int(self.nobs)} rows, {self.method}"
        return f"{type(self).__name__}({self._shown()}; {rows})"

    @property
    def _degrees(self) -> float:
        return self.df_inference if self.use_t else np.inf

    def _by_row(self, values: FloatArray) -> Any:
        return attach_labels(values, self.design.row_labels)
