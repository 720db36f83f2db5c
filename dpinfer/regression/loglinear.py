"""Log-linear models of tables of noisy counts, with the noise in the likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._check import RNG, FloatArray, check_option, show
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.regression._formula import read_formula
from dpinfer.regression._selected_counts import (
    Likelihood,
    poisson_information,
    poisson_maximum,
)
from dpinfer.regression._tables import (
    NO_FIT,
    STATISTICS,
    TEST_METHODS,
    Statistic,
    TableModel,
    TestMethod,
    attributes,
    hypothesis_of,
    parts_of,
)
from dpinfer.regression.thresholded import CountDesign
from dpinfer.releases.coerce import noisy
from dpinfer.releases.values import NoisyValues
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.intervals import Intervals
from dpinfer.results.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd

_COUNT = "_count_of_the_cell"
_RANK = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoglinearFit(TableModel):
    """A log-linear model of a table of noisy counts.

    Made by :func:`loglinear`. Counts are Poisson about their means, and the noise is in the
    likelihood. ``guarantee`` is ``"asymptotic"``: standard errors are limits for large counts.

    Attributes
    ----------
    formula : str
        The terms of the model.
    llf : float
        The logarithm of the likelihood at its maximum.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpinfer import Geometric
    >>> from dpinfer.regression import loglinear
    >>> table = pd.DataFrame({"ill": [41, 27], "well": [62, 118]}, index=["old", "young"])
    >>> fit = loglinear(table, "C(row) * C(column)", mechanism=Geometric(scale=3.0))
    >>> fit.params.round(2).iloc[-1], fit.bse.round(2).iloc[-1]
    (np.float64(1.06), np.float64(0.34))
    """

    design: CountDesign
    covariance: FloatArray
    x: NoisyValues
    frame: pd.DataFrame
    formula: str
    beta: FloatArray
    likelihood: Likelihood

    @property
    def llf(self) -> float:
        """Logarithm of the likelihood."""
        return -self.likelihood.value(np.append(self.beta, 0.0))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers rest on."""
        return self._few

    def test(
        self,
        formula: str,
        *,
        statistic: Statistic = "score",
        method: TestMethod = "monte-carlo",
        reps: int = 499,
        rng: RNG = None,
    ) -> HypothesisResult:
        """Test this model against a larger one.

        Parameters
        ----------
        formula : str
            The larger model, with all terms of this one, such as ``"row * column"``.
        statistic : {"score", "lr"}
            The score test fits this model only; twice the difference of log-likelihoods fits both.
        method : {"monte-carlo", "asymptotic"}
            Whether the law of the statistic is simulated, Poisson counts with the means of this
            model and noise, fitted anew; or χ² with as many degrees of freedom as there are terms
            more.
        reps : int, default 499
            Replicates.
        rng : None, int or numpy.random.Generator
            Their source of randomness; an int makes results repeatable.

        Returns
        -------
        HypothesisResult
            The test of this model as null hypothesis.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or the other model does not hold this one.
        """
        check_option(statistic, "statistic", STATISTICS)
        check_option(method, "method", TEST_METHODS)
        simulation = Simulation.checked(reps, rng)
        larger, _, _ = _matrix(self.frame, formula, 3)
        own, other = (np.linalg.qr(m)[0] for m in (self.design.exog, larger))
        inside = np.linalg.norm(own - other @ (other.T @ own))
        degrees = larger.shape[1] - own.shape[1]
        if np.linalg.matrix_rank(larger) < larger.shape[1]:
            raise InvalidParameterError(
                f"formula must have terms that are linearly independent, got {show(formula)}"
            )
        if inside > _RANK * np.sqrt(own.shape[1]) or degrees < 1:
            raise InvalidParameterError(
                f"formula must be a larger model with all terms of {show(self.formula)}, got "
                f"{show(formula)}"
            )
        value = _statistic(self.likelihood, self.beta, self.x, larger, statistic)
        draw = partial(_draw, self.x, self.design.exog, larger, self.beta, statistic)
        name = "Score" if statistic == "score" else "Likelihood-ratio"
        return hypothesis_of(
            f"{name} test of a log-linear model",
            value,
            degrees,
            draw if method == "monte-carlo" else None,
            simulation,
            nobs=self.nobs,
            notes=(f"{self.formula} against {formula}",),
        )

    def _facts(self) -> tuple[str, list[tuple[str, object]]]:
        facts: list[tuple[str, object]] = [("Model", self.formula)]
        facts.append(("Coefficients", len(self.beta)))
        return "Log-linear model of noisy counts", facts

    @property
    def _sets(self) -> None:
        return None

    @property
    def _eta(self) -> FloatArray:
        return np.asarray(self.design.exog @ self.beta)

    def __repr__(self) -> str:
        return f"LoglinearFit({self._shown()}; {len(self.x)} cells)"

    @property
    def _params(self) -> FloatArray:
        return self.beta


def loglinear(table: Any, formula: str, *, mechanism: Mechanism | None = None) -> LoglinearFit:
    """Fit a log-linear model to a table of counts that were published with noise.

    Margins of a noisy table are noisy, and its cells may be negative: the noise is in the
    likelihood of each cell, so that standard errors have its share and small cells theirs.

    Parameters
    ----------
    table : DataFrame, Series, Release or array of float
        The published counts, a row of the index for each cell. The levels of its labels are the
        attributes, by their names; without names ``row``, ``column`` and ``layer``.
    formula : str
        The terms, of the attributes, as statsmodels reads them: ``"sex + age"`` for independence,
        ``"sex * age"`` for any table; ``"a*s + b*s"`` for independence given s. Attributes that
        are numbers are covariates: ``"C(a) + C(b) + I(a*b)"`` is linear-by-linear association.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all cells, or one for each. A release brings its own.

    Returns
    -------
    LoglinearFit
        Coefficients with standard errors, expected counts, score and likelihood-ratio tests against
        larger models.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed; if errors are dependent between cells, or values
        were selected, clamped or rounded.
    NotEstimableError
        If terms are linearly dependent, or some means are estimated as 0.
    ConvergenceError
        If no maximum was found.

    Notes
    -----
    Counts are Poisson with means exp(xᵀβ), independent, and y = f + e: the likelihood is the
    product over cells of Σ_f Poisson(f; μ)·g(y - f), g the law of the noise. Scores are
    E[f given y] - μ, and the information is X^T diag(μ - Var[f given y]) X, exactly. Coefficients
    of interactions are those of multinomial sampling too, whose total is not used.

    Standard errors and χ² are limits for large counts. In 600 simulated tables of 3 x 3 cells with
    means 8 to 30 and geometric noise of scale 3, the score test with the χ² law rejected
    independence at 5 % in 5.7 %.

    References
    ----------
    A. Agresti (2013), Categorical Data Analysis, 3rd ed., chapters 9 and 10.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> index = pd.MultiIndex.from_product([["f", "m"], [1, 2, 3]], names=["sex", "grade"])
    >>> counts = pd.Series([31, 52, 18, 60, 48, 9], index=index)
    >>> law = dpi.Geometric(scale=2.0)
    >>> fit = dpi.regression.loglinear(counts, "sex + C(grade)", mechanism=law)
    >>> fit.test("sex * C(grade)", method="asymptotic").pvalue.round(4)
    np.float64(0.0101)
    >>> terms = "sex + C(grade) + I((sex == 'm') * grade)"
    >>> dpi.regression.loglinear(counts, terms, mechanism=law).params.round(2).iloc[-1]
    np.float64(-0.71)
    """
    x = noisy(table, mechanism=mechanism, name="table")
    x = x.need(independent=True, unruled=True, marginal=True, who="loglinear")
    frame = attributes(x)
    matrix, names, spec = _matrix(frame, formula, 3)
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise NotEstimableError(
            f"formula must have terms that are not linearly dependent, got {matrix.shape[1]} of "
            f"rank {np.linalg.matrix_rank(matrix)} for {len(x)} cells: leave out some"
        )
    beta, likelihood = poisson_maximum(matrix, parts_of(x, x.values))
    information = likelihood.hessian(np.append(beta, 0.0))[:-1, :-1]
    return LoglinearFit(
        design=CountDesign(matrix, np.zeros(len(x)), names, frame.index, None, spec),
        covariance=np.asarray(np.linalg.inv(information)),
        x=x,
        frame=frame,
        formula=formula,
        beta=beta,
        likelihood=likelihood,
    )


def cochran_mantel_haenszel(
    table: Any,
    *,
    mechanism: Mechanism | None = None,
    method: TestMethod = "monte-carlo",
    reps: int = 499,
    rng: RNG = None,
) -> HypothesisResult:
    """Test the independence of two attributes in strata, and estimate their common odds ratio.

    Parameters
    ----------
    table : Series, DataFrame, Release or array of float, shape (R, C, K)
        The published counts, with labels of three levels: the two attributes, and the stratum
        last.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise. A release brings its own.
    method, reps, rng
        As for the tests of :class:`LoglinearFit`.

    Returns
    -------
    HypothesisResult
        The score test of no association within strata against one association in all of them, with
        (R - 1)(C - 1) degrees of freedom. For two by two tables, ``estimate`` is the common odds
        ratio by maximum likelihood, and ``conf_int`` its interval. It compares the second level of
        each attribute, as they first appear in the labels, to the first; ``notes`` name them.

    Raises
    ------
    InvalidParameterError
        If labels do not have three levels, or as for :func:`loglinear`.
    NotEstimableError
        If a margin of a stratum is no more than noise.

    Notes
    -----
    Without noise the statistic is that of Cochran and of Mantel and Haenszel, with n in the place
    of n - 1 in the variance of each stratum. Each stratum has margins of its own to be estimated:
    with many small strata the estimate of the odds ratio is too far from 1, while the simulated
    test holds its level.

    References
    ----------
    N. Mantel and W. Haenszel (1959), Statistical aspects of the analysis of data from
    retrospective studies of disease, JNCI 22, 719-748. doi:10.1093/jnci/22.4.719.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> levels = [["case", "control"], ["smoker", "not"], ["young", "old"]]
    >>> names = ["status", "smoking", "age"]
    >>> index = pd.MultiIndex.from_product(levels, names=names)
    >>> counts = pd.Series([40, 62, 31, 48, 25, 40, 60, 81], index=index)
    >>> test = dpi.regression.cochran_mantel_haenszel(
    ...     counts, mechanism=dpi.Geometric(scale=2.0), method="asymptotic"
    ... )
    >>> test.estimate.round(2), test.pvalue.round(5)
    (np.float64(2.8), np.float64(1e-05))
    """
    x = noisy(table, mechanism=mechanism, name="table")
    frame = attributes(x)
    if frame.shape[1] != 3:
        raise InvalidParameterError(
            "table must have labels of three levels, the two attributes and the stratum, got "
            f"{frame.shape[1]}"
        )
    import pandas as pd

    codes = [pd.factorize(frame[name])[0] for name in frame]
    plain = x.relabelled(pd.MultiIndex.from_arrays(codes, names=["a", "b", "s"]))
    given = "C(a) * C(s) + C(b) * C(s)"
    null = loglinear(plain, given)
    test = null.test(f"{given} + C(a):C(b)", method=method, reps=reps, rng=rng)
    found: dict[str, Any] = {"name": "Cochran-Mantel-Haenszel test", "notes": null.notes}
    if codes[0].max() == codes[1].max() == 1:
        fit = loglinear(plain, f"{given} + C(a):C(b)")
        at = next(k for k, name in enumerate(fit._names) if "C(a)" in name and "C(b)" in name)
        found |= {
            "effect": "common odds ratio",
            "notes": (*null.notes, f"the odds ratio is that of {_cells(frame)}"),
            "estimate": float(np.exp(fit.beta[at])),
            "inversion": partial(_odds_ratio, fit, at),
        }
    return replace(test, **found)


def _cells(frame: pd.DataFrame) -> str:
    """Say which cells of two attributes an odds ratio has above the line."""
    one, other = (list(dict.fromkeys(frame[name])) for name in list(frame)[:2])
    return f"{one[1]} to {one[0]}, for {other[1]} to {other[0]}"


def _odds_ratio(fit: LoglinearFit, at: int, alpha: float) -> Intervals:
    whole = fit.conf_int(alpha)
    estimate, lower, upper = (
        np.exp(np.asarray(end)[at]) for end in (whole.estimate, whole.lower, whole.upper)
    )
    return Intervals(
        estimate=estimate,
        lower=lower,
        upper=upper,
        alpha=whole.alpha,
        method="asymptotic",
        uncertainty="noise+sampling",
        notes=fit.notes,
    )


def _matrix(frame: pd.DataFrame, formula: Any, depth: int) -> tuple[FloatArray, list[Any], Any]:
    if not isinstance(formula, str) or "~" in formula:
        raise InvalidParameterError(
            "formula must be the terms of a model of the attributes, without ~, such as "
            f"{show(' * '.join(frame.columns))}, got {show(formula)}"
        )
    parsed, terms = read_formula(f"{_COUNT} ~ {formula}", frame.assign(**{_COUNT: 0.0}), depth)
    matrix = np.asarray(parsed.exog, dtype=np.float64)
    if not np.isfinite(matrix).all() or np.abs(matrix).max(initial=0.0) > 1e6:
        raise InvalidParameterError("formula must have terms within ±1e6")
    return matrix, list(parsed.exog_names), terms.design


def _statistic(
    likelihood: Likelihood, beta: FloatArray, x: Any, larger: FloatArray, statistic: Statistic
) -> float:
    theta = np.append(beta, 0.0)
    if statistic == "lr":
        start = np.linalg.lstsq(larger, likelihood.basis @ beta, rcond=None)[0]
        found, other = poisson_maximum(larger, likelihood.parts, np.asarray(start))
        return 2.0 * (likelihood.value(theta) - other.value(np.append(found, 0.0)))
    rows = likelihood.rows(theta)
    score = larger.T @ rows.first[:, 0]
    of_cells = poisson_information(likelihood.parts, likelihood.basis @ beta)
    information = larger.T @ (of_cells[:, np.newaxis] * larger)
    return float(score @ np.linalg.solve(information, score))


def _draw(
    x: NoisyValues,
    exog: FloatArray,
    larger: FloatArray,
    beta: FloatArray,
    statistic: Statistic,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw statistics of tables under the smaller model; beyond all where there is no fit."""
    mean = np.exp(exog @ beta)
    tables = rng.poisson(mean, (size, len(mean))) + x.draw(size, rng=rng)
    found = np.full(size, NO_FIT)
    for row, y in enumerate(tables):
        try:
            own, likelihood = poisson_maximum(exog, parts_of(x, y), beta)
            found[row] = _statistic(likelihood, own, x, larger, statistic)
        except (ConvergenceError, NotEstimableError, np.linalg.LinAlgError):
            continue
    return found
