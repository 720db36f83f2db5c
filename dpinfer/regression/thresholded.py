"""Models of counts that are published, with noise, only where the noisy value reaches a threshold.

The laws of the counts are assumed, which nothing that was published guarantees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_alpha,
    check_array,
    check_length,
    check_option,
    check_scalar,
    show,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.mechanisms.independent import Mechanism, groups
from dpinfer.mechanisms.law import ParametricLaw
from dpinfer.regression._errors import LARGEST, numbered_names, one_each
from dpinfer.regression._formula import (
    checked_frame,
    checked_triangle,
    column_of,
    matrix_of,
    read_formula,
)
from dpinfer.regression._moments import clustered
from dpinfer.regression._results import RegressionResult
from dpinfer.regression._selected_counts import (
    FAMILIES,
    Cells,
    Estimates,
    Part,
    derivatives,
    estimated,
)
from dpinfer.releases.coerce import ListedCells, listed_cells
from dpinfer.results.hypothesis import HypothesisResult
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels, check_order
from dpinfer.results.null import AsymptoticNull
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

CountFamily = Literal["negative-binomial", "lognormal-poisson"]
Universe = Literal["known", "unknown"]
CountCovariance = Literal["nonrobust", "HC0", "cluster"]

UNIVERSES: tuple[Universe, ...] = ("known", "unknown")
COVARIANCES: tuple[CountCovariance, ...] = ("nonrobust", "HC0", "cluster")


@dataclass(frozen=True)
class CountDesign:
    """Covariates of n cells, with the logarithms of their exposures."""

    exog: FloatArray
    offset: FloatArray
    names: list[Any]
    labels: pd.Index | None
    groups: NDArray[np.intp] | None = None
    spec: Any = None

    @property
    def labelled(self) -> bool:
        """Whether results carry the names of the columns."""
        return self.labels is not None

    def take(self, rows: Any) -> CountDesign:
        """Return the covariates of some cells."""
        labels = None if self.labels is None else self.labels[rows]
        groups = None if self.groups is None else self.groups[rows]
        return replace(
            self, exog=self.exog[rows], offset=self.offset[rows], labels=labels, groups=groups
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a specification by patsy, which cannot be pickled."""
        picklable = self.spec is None or hasattr(self.spec, "get_model_matrix")
        return self.__dict__ | ({} if picklable else {"spec": None})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ThresholdedRegression(RegressionResult):
    """A regression for counts of which only those above a threshold were published.

    Made by :func:`thresholded_glm`. ``guarantee`` is ``"model"``: intervals cover where the counts
    have the law that was assumed. With p covariates there are p + 1 parameters, the last of which
    is alpha, the overdispersion, as in statsmodels; results are Series and DataFrames where the
    data had labels.

    Attributes
    ----------
    family, universe, cov_type : str
        What was assumed, and the kind of covariance.
    llf : float
        The logarithm of the likelihood at its maximum.

    Examples
    --------
    >>> from dpinfer import DiscreteGaussian
    >>> from dpinfer.regression import thresholded_glm
    >>> views = [160, 131, None, 120, 260, 205, None, 181, 330, 236, 240, 101]
    >>> x = [[1, 0], [1, 0], [1, 0], [1, 0], [1, 1], [1, 1], [1, 1], [1, 1]] + [[1, 2]] * 4
    >>> law = {"mechanism": DiscreteGaussian(sigma=18.23), "threshold": 90}
    >>> fit = thresholded_glm(views, x, universe="known", **law)
    >>> fit.params.round(2), fit.guarantee
    (array([4.81, 0.32, 0.13]), 'model')
    """

    guarantee: ClassVar[str] = "model"

    design: CountDesign
    cells: ListedCells
    estimates: Estimates
    covariance: FloatArray
    family: CountFamily
    universe: Universe
    cov_type: CountCovariance

    @cached_property
    def params(self) -> Any:
        """The p coefficients, and alpha."""
        return self._name(self._params)

    def conf_int(self, alpha: float = 0.05) -> Intervals:
        """Return :class:`~dpinfer.Intervals` of level 1 - ``alpha`` in (0, 1) for the parameters.

        They are normal, that of the overdispersion on the scale of its logarithm.
        """
        level = check_alpha(alpha)
        reach = -special.ndtri(level / 2.0) * self._std
        lower, upper = self._params - reach, self._params + reach
        factor = np.exp(reach[-1] / self._params[-1])
        lower[-1], upper[-1] = self._params[-1] / factor, self._params[-1] * factor
        import pandas as pd

        labels = pd.Index(self._names) if self.design.labelled else None
        return self._intervals(self._params, lower, upper, level, labels)

    @property
    def llf(self) -> float:
        """Logarithm of the likelihood."""
        return self.estimates.llf

    @property
    def nobs(self) -> float:
        """Number of cells in the likelihood: all of a list, or those published."""
        return float(len(self.design.exog))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers rest on."""
        law = "published cells only: the shape of the law of the counts decides what was not seen"
        known = "all cells of a fixed list, of which unpublished ones are below their threshold"
        return (
            f"guarantee: model. Counts are taken to be {self.family} about their means, "
            "independent given the covariates, which nothing that was published shows",
            f"the likelihood is that of {known if self.universe == 'known' else law}",
        )

    def predict(self, exog: Any = None, *, exposure: Any = None) -> Any:
        """Return the expected counts exp(η), shape (m,); by default of the cells of the fit.

        ``exog`` is data with the columns of the formula, or a design matrix, shape (m, p), and
        ``exposure`` > 0 a number or one for each row, by default 1 for new data.
        """
        design = self._new(exog, exposure)
        return attach_labels(self._means(design), design.labels)

    def total(self, exog: Any = None, *, exposure: Any = None, alpha: float = 0.05) -> Intervals:
        """Return an interval for the sum of the expected counts, whether published or not.

        Parameters
        ----------
        exog, exposure
            The cells, as for :meth:`predict`; by default those of the fit, which are the published
            ones only with ``universe="unknown"``.
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        Intervals
            The sum T of the expected counts, with the ends T·exp(±z·s/T); the notes say its
            standard error s, which is that of the coefficients: that counts vary about their
            means is not in it.
        """
        level = check_alpha(alpha)
        design = self._new(exog, exposure)
        means = self._means(design)
        total, slope = float(means.sum()), means @ design.exog
        std = float(np.sqrt(slope @ self.covariance[:-1, :-1] @ slope))
        factor = np.exp(-special.ndtri(level / 2.0) * std / total)
        return self._intervals(
            total, total / factor, total * factor, level, None, f"standard error {std:.6g}"
        )

    def at_threshold(self, threshold: float) -> ThresholdedRegression:
        """Return the fit that takes values below a higher threshold as unpublished."""
        cells = self._above(threshold)
        return _fitted(self.design, cells, self.family, self.universe, self.cov_type)

    def threshold_test(self, threshold: float) -> HypothesisResult:
        """Test whether the estimates agree with those at a higher threshold, chosen beforehand.

        Parameters
        ----------
        threshold : float
            The higher threshold.

        Returns
        -------
        HypothesisResult
            A score test: the scores s₂ of cells with the higher threshold, at the estimates, less
            J₂J₁⁻¹ times those of the fit, J being information matrices, have mean 0; χ² with p + 1
            degrees of freedom, by the sum of their squares and products, added up within
            ``groups``. A small p-value speaks against the model.

        Raises
        ------
        InvalidParameterError
            If no cell has a lower threshold.
        NotEstimableError
            If there are fewer than 15 published cells (or groups) for each parameter on either
            side of the threshold.

        Notes
        -----
        Rejected at 5 % in 200 simulated tables of 300 cells (the law of the examples, published
        cells only, 123, 64 and 31 above the higher threshold): 7, 5 and 8 %. A Wald test of the
        difference of the estimates rejects 4, 10 and 27 %.
        """
        cells = self._above(threshold)
        self._refuse_few(self.cells.there & ~cells.there, "below")
        self._refuse_few(cells.there, "at or above")
        above, design = cells, self.design
        kept = np.arange(len(cells.x)) if self.universe == "known" else np.flatnonzero(cells.there)
        if self.universe == "unknown":
            above, design = _published(cells, kept), design.take(kept)
        found = self.estimates
        scores, information = derivatives(
            design.exog, design.offset, _parts(above, self.universe), self.family, found.theta
        )
        gap = -found.influence @ information
        gap[kept] += scores
        q, r = np.linalg.qr(_summed(gap, self.design.groups))
        if (np.abs(np.diagonal(r)) <= _DEPENDENT * np.linalg.norm(r, axis=0)).any():
            raise NotEstimableError("the cells above the threshold do not determine the model")
        statistic = float(np.square(q.sum(axis=0)).sum())
        null = AsymptoticNull.chi2(len(found.theta))
        return HypothesisResult(
            name="Agreement with what is above a higher threshold",
            statistic=statistic,
            pvalue=null.pvalue(statistic, "larger"),
            alternative="larger",
            method="asymptotic",
            null_distribution=null,
            uncertainty="noise+sampling",
            nobs=self.nobs,
            notes=self.notes,
        )

    def _above(self, threshold: float) -> ListedCells:
        bound = check_scalar(threshold, "threshold")
        x = self.cells
        first = np.maximum(x.first, bound)
        if not (bound > x.first).any():
            raise InvalidParameterError(
                f"threshold must be above that of some cell, {x.first.min():g}, got {bound:g}"
            )
        there = x.there & (x.x.values >= first)
        last = np.where(x.last < x.first, np.ceil(first) - 1.0, first)
        return x._replace(there=there, first=first, last=last, given=True)

    def _refuse_few(self, chosen: NDArray[np.bool_], side: str) -> None:
        groups = self.design.groups
        count = int(chosen.sum()) if groups is None else len(np.unique(groups[chosen]))
        if count < (least := _PER_PARAMETER * len(self._params)):
            what = "published cells" if groups is None else "groups with published cells"
            raise NotEstimableError(
                f"the test needs at least {least} {what} {side} the threshold, got {count}: with "
                "fewer it does not hold its level. Choose another threshold"
            )

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a row for each parameter, with standard errors, tests and intervals.

        The columns are ``estimate``, ``std_err``, ``z``, ``pvalue``, ``ci_lower``, ``ci_upper``
        (level 1 - ``alpha``); ``attrs`` holds ``alpha``, ``guarantee`` and what was assumed.
        """
        import pandas as pd

        lower, upper = map(np.asarray, self.conf_int(alpha))
        columns = {
            "estimate": self._params,
            "std_err": self._std,
            "z": np.asarray(self.tvalues),
            "pvalue": np.asarray(self.pvalues),
            "ci_lower": lower,
            "ci_upper": upper,
        }
        frame = pd.DataFrame(columns, index=self._names)
        frame.attrs = {
            "alpha": float(alpha),
            "guarantee": self.guarantee,
            "family": self.family,
            "universe": self.universe,
            "cov_type": self.cov_type,
        }
        return frame

    def _table(self, alpha: float = 0.05) -> Table:
        frame = self.summary_frame(alpha)
        return Table(
            "Regression for counts above a threshold",
            [
                ("Guarantee", self.guarantee),
                ("Family", self.family),
                ("Universe", self.universe),
                ("Covariance", self.cov_type),
                ("Cells", int(self.nobs)),
                ("Published", int(self.cells.there.sum())),
                ("Log-likelihood", f"{self.llf:.6g}"),
                ("Level", f"{1 - alpha:.6g}"),
            ],
            frame,
            index=frame.index,
            notes=self.notes,
            alike=("estimate", "std_err", "ci_lower", "ci_upper"),
        )

    def __repr__(self) -> str:
        how = f"{int(self.nobs)} cells, {self.family}, model"
        return f"{type(self).__name__}({self._shown()}; {how})"

    @property
    def _names(self) -> list[Any]:
        return [*self.design.names, "alpha"]

    @property
    def _pvalues(self) -> FloatArray:
        return self._wald_pvalues

    @cached_property
    def _params(self) -> FloatArray:
        return np.append(self.estimates.theta[:-1], np.exp(self.estimates.theta[-1]))

    def _intervals(
        self, estimate: Any, lower: Any, upper: Any, alpha: float, labels: Any, *notes: str
    ) -> Intervals:
        return Intervals(
            estimate=estimate,
            lower=lower,
            upper=upper,
            alpha=alpha,
            method=f"model: {self.family}, {self.cov_type}",
            uncertainty="noise+sampling",
            labels=labels,
            notes=(*notes, *self.notes),
        )

    def _means(self, design: CountDesign) -> FloatArray:
        with np.errstate(over="ignore"):
            means = np.exp(design.exog @ self._params[:-1] + design.offset)
        if not np.isfinite(means).all():
            raise InvalidParameterError(
                "exog must be such that expected counts are finite, got some beyond 1e308"
            )
        return np.asarray(means)

    def _new(self, exog: Any, exposure: Any) -> CountDesign:
        if exog is None:
            if exposure is not None:
                raise InvalidParameterError("exposure must be left out without exog")
            return self.design
        matrix, labels = self._new_rows(exog)
        matrix = np.atleast_2d(matrix)
        offset = _offset(exposure, len(matrix), labels)
        return replace(self.design, exog=matrix, offset=offset, labels=labels)


def thresholded_glm(
    endog: Any,
    exog: Any,
    *,
    universe: Universe,
    mechanism: Mechanism | None = None,
    threshold: Any = None,
    family: CountFamily = "negative-binomial",
    exposure: Any = None,
    cov_type: CountCovariance = "nonrobust",
    groups: Any = None,
) -> ThresholdedRegression:
    """Regression for counts that are published, with noise, where they reach a threshold.

    The answer rests on a model of the counts: it is for questions that intervals without one,
    :func:`~dpinfer.intervals.thresholded_sum_confint`, leave open.

    Parameters
    ----------
    endog : str, array of float, shape (n,), Series or Release
        A formula such as ``"views ~ year"``, with the column of published values on its left; or
        the published values. NaN is a cell that was not published.
    exog : DataFrame or array of float, shape (n, p)
        For a formula, the data; otherwise the design matrix, to which no constant is added.
    universe : {"known", "unknown"}
        ``"known"``: the cells are a fixed list, made without looking at what was published, and
        unpublished ones, NaN, are known to be below their threshold. ``"unknown"``: only cells that
        were published are there. There is no default, as the likelihoods differ.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all cells, or one for each. A release brings its own.
    threshold : float, array, Series or str, optional
        Cells were published if their *noisy* value was at least this: one for all, or one for each;
        with a formula also the name of a column.
    family : {"negative-binomial", "lognormal-poisson"}
        The law of the counts: Poisson with a rate that has a gamma or a lognormal law.
    exposure : float, array, Series or str, optional
        Numbers > 0 to which expected counts are proportional, free of noise; with a formula also
        the name of a column.
    cov_type : {"nonrobust", "HC0", "cluster"}
        By the second derivatives of the likelihood; by the sandwich of them with the products of
        the scores of cells; or with those of groups, whose cells may be dependent.
    groups : array of shape (n,), Series or str, optional
        Group of each cell, for ``"cluster"``; with a formula also the name of a column.

    Returns
    -------
    ThresholdedRegression
        Coefficients and alpha, standard errors, intervals, totals, and the check at a higher
        threshold, ``threshold_test``. Its ``guarantee`` is ``"model"``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed; if errors are dependent; if the noise is so wide
        that there are more than 2.7e8 terms in the sums; if ``universe="known"`` and that every
        cell was published is next to impossible.
    NotEstimableError
        If columns are linearly dependent, or too few cells were published; if counts vary no more
        than Poisson ones, so that alpha is at the end of what is possible; if estimates run off.
    ConvergenceError
        If no maximum was found.

    Notes
    -----
    The counts f are independent, with means μ = exposure·exp(x'β) and variances μ + αμ². With π
    their law, g that of the noise and t the threshold, the likelihood is the product over
    published cells of Σ_f π(f)·g(y - f), times that over unpublished ones of
    Σ_f π(f)·P(e < t - f) where the universe is known; where it is not, each published cell is
    divided by Σ_f π(f)·P(e ≥ t - f). Sums run over all counts that matter, to 1e-12; integrals
    over lognormal rates, with standard deviation √log(1 + α) of the logarithm, are by the
    trapezoid rule in a variable in which it is exact to rounding. β and α are the maximum;
    covariances are limits for many cells.

    The truncated form rests on the shape of the tail of π: a wrong one biases the coefficients,
    and ``threshold_test`` is there to find out.

    References
    ----------
    A. C. Cameron and P. K. Trivedi (2013), Regression Analysis of Count Data, 2nd ed., chapters 3
    and 4. doi:10.1017/CBO9781139013567.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from dpinfer import DiscreteGaussian
    >>> rng = np.random.default_rng(1)
    >>> law, x = DiscreteGaussian(sigma=18.23), rng.normal(size=400)
    >>> views = rng.poisson(np.exp(4.6 + 0.35 * x) * rng.gamma(20.0, 0.05, 400))
    >>> views = views + law.rvs(400, rng=rng)
    >>> table = pd.DataFrame({"views": views, "x": x})[views >= 90]
    >>> fit = thresholded_glm(
    ...     "views ~ x", table, universe="unknown", mechanism=law, threshold=90
    ... )
    >>> fit.params.round(2).to_dict()
    {'Intercept': 4.53, 'x': 0.4, 'alpha': 0.05}
    >>> fit.threshold_test(110).pvalue.round(2)
    np.float64(0.14)
    """
    check_option(universe, "universe", UNIVERSES)
    check_option(family, "family", FAMILIES)
    check_option(cov_type, "cov_type", COVARIANCES)
    if isinstance(endog, str):
        frame = checked_frame(as_pandas(exog, "exog"))
        left = endog.split("~", 1)[0].strip()
        if "~" not in endog or left not in frame.columns:
            raise InvalidParameterError(
                "endog must be a formula with a column of exog on its left, such as "
                f"'views ~ year', or published values, got {show(endog)}"
            )
        if isinstance(threshold, str):
            threshold = column_of(frame, threshold)
        if isinstance(exposure, str):
            exposure = column_of(frame, exposure)
        if isinstance(groups, str):
            groups = column_of(frame, groups)
        given = frame[left]
        frame[left] = 0.0
        parsed, terms = read_formula(endog, frame, 2)
        matrix, names, labels = parsed.exog, list(parsed.exog_names), frame.index
        cells = listed_cells(
            given.to_numpy(), mechanism, _in_order(threshold, labels), name="endog"
        )
        spec = terms.design
    else:
        matrix, columns, labels = matrix_of(exog)
        cells = listed_cells(endog, mechanism, threshold, name="endog")
        own = cells.x.labels
        check_order(labels, own, "exog", "endog")
        labels = own if labels is None else labels
        names, spec = numbered_names(matrix) if columns is None else list(columns), None
    check_length(matrix, "exog", len(cells.x), "the values of endog")
    if "alpha" in names:
        raise InvalidParameterError("exog must not have a column alpha, a parameter of the model")
    matrix = check_array(matrix, "exog", ge=-LARGEST, le=LARGEST, ndim=2)
    offset = _offset(exposure, len(matrix), labels)
    cells.x.need(independent=True, marginal=True, who="thresholded_glm")
    if cells.is_processed:
        raise InvalidParameterError(
            "endog must be counts with a noise and a threshold only, got values that were clamped, "
            "rounded or weighted, or are about rounded counts"
        )
    if universe == "unknown" and not cells.there.all():
        raise InvalidParameterError(
            "endog must hold published cells only with universe='unknown', got "
            f"{int((~cells.there).sum())} unpublished ones: use universe='known' where the list "
            "was made without looking at what was published"
        )
    codes = clustered(groups, cov_type, labels, len(matrix))
    design = CountDesign(matrix, offset, names, labels, codes, spec)
    fit = _fitted(design, cells, family, universe, cov_type)
    _check_complete(fit)
    return fit


def _in_order(threshold: Any, labels: Any) -> Any:
    if hasattr(threshold, "iloc"):
        if not threshold.index.equals(labels):
            raise InvalidParameterError(
                "threshold must have the labels of the data in the same order: reindex it first"
            )
        return threshold.to_numpy()
    return threshold


def _offset(exposure: Any, size: int, labels: Any) -> FloatArray:
    if exposure is None:
        return np.zeros(size)
    found = one_each(exposure, "exposure", size, labels, ge=1e-50, le=LARGEST)
    return np.broadcast_to(np.log(found), size)


def _fitted(
    design: CountDesign,
    cells: ListedCells,
    family: CountFamily,
    universe: Universe,
    cov_type: CountCovariance,
) -> ThresholdedRegression:
    if universe == "unknown":
        kept = np.flatnonzero(cells.there)
        design, cells = design.take(kept), _published(cells, kept)
    columns = design.exog.shape[1]
    if (count := int(cells.there.sum())) < columns + 2:
        raise NotEstimableError(
            f"{columns} coefficients and alpha need at least {columns + 2} published cells, got "
            f"{count}"
        )
    if design.groups is not None and np.ptp(design.groups) == 0:
        raise NotEstimableError("groups must be two or more among the cells that are left, got one")
    checked_triangle(np.zeros(len(design.exog)), design.exog, np.ones(len(design.exog)))
    found = estimated(design.exog, design.offset, _parts(cells, universe), family)
    return ThresholdedRegression(
        design=design,
        cells=cells,
        estimates=found,
        covariance=_covariance(found, cov_type, design.groups),
        family=family,
        universe=universe,
        cov_type=cov_type,
    )


def _published(cells: ListedCells, kept: NDArray[np.intp]) -> ListedCells:
    return cells._replace(
        x=cells.x.take(kept),
        there=cells.there[kept],
        first=cells.first[kept],
        last=cells.last[kept],
    )


def _covariance(found: Estimates, cov_type: CountCovariance, groups: Any) -> FloatArray:
    """Covariance matrix of the coefficients and alpha."""
    if cov_type == "nonrobust":
        covariance = np.linalg.inv(found.information)
    else:
        changes = _summed(found.influence, groups)
        covariance = changes.T @ changes
    if groups is not None:  # as statsmodels corrects it
        count, (cells, columns) = len(changes), found.scores.shape
        covariance *= count / (count - 1.0) * (cells - 1.0) / (cells - columns)
    units = np.append(np.ones(len(covariance) - 1), np.exp(found.theta[-1]))
    return np.asarray(covariance * units * units[:, np.newaxis])


def _summed(rows: FloatArray, groups: Any) -> FloatArray:
    """Return the sums of rows within groups, where there are some."""
    if groups is None:
        return rows
    found, codes = np.unique(groups, return_inverse=True)
    out = np.zeros((len(found), rows.shape[1]))
    np.add.at(out, codes, rows)
    return out


def _parts(cells: ListedCells, universe: Universe) -> list[Part]:
    parts = []
    for law, own in groups(cells.x._own_law(), len(cells.x)):
        assert isinstance(law, ParametricLaw)  # others were refused
        there = cells.there[own]
        bound = np.isfinite(cells.last[own])
        kinds = [(there, cells.x.values, False, False)]
        if universe == "known":
            kinds.append((~there, cells.last, True, False))
        else:
            kinds.append((there & bound, cells.last, True, True))
        for chosen, y, below, hidden in kinds:
            places = np.flatnonzero(chosen)
            if len(places):
                kind = law.take(places) if law.shape else law
                rows = own[places]
                parts.append(Part(rows, Cells(kind, y[rows], below), hidden))
    return parts


def _check_complete(fit: ThresholdedRegression) -> None:
    """Refuse a list that holds published cells only where that is next to impossible."""
    cells = fit.cells
    if fit.universe == "unknown" or not cells.there.all() or not np.isfinite(cells.first).any():
        return
    mean, alpha = fit._means(fit.design), float(fit._params[-1])
    variance = mean + alpha * mean**2 + np.broadcast_to(cells.x.variance, mean.shape)
    with np.errstate(invalid="ignore"):
        seen = special.log_ndtr((mean - cells.first) / np.sqrt(variance))
    chance = float(np.exp(seen[np.isfinite(cells.first)].sum()))
    if chance < _IMPOSSIBLE:
        raise InvalidParameterError(
            "universe must be 'unknown' for a list of published cells only, got 'known', of which "
            f"under the fit all would be published with probability {chance:.1e}: give the cells "
            "that were not published as NaN"
        )


_IMPOSSIBLE = 1e-4
_DEPENDENT = 1e-9

_PER_PARAMETER = 15
"""Cells on either side of a threshold with which its test holds its level."""
