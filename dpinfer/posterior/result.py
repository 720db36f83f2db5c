"""Draws of tables and of functions of them, and what is read off them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    as_table,
    check_alpha,
    check_array,
    check_integer,
    check_option,
    one_line,
    require,
    show,
)
from dpinfer.errors import (
    ApproximationWarning,
    ConvergenceError,
    InvalidParameterError,
    PriorConflictWarning,
)
from dpinfer.estimation.fieller import tail_of
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals.posterior import KINDS, Kind
from dpinfer.posterior._model import TableModel
from dpinfer.posterior.beside import LARGEST, MOST_ROWS, Unbiased, release_of, sums
from dpinfer.posterior.diagnostics import (
    LARGEST_RHAT,
    LEAST_ESS,
    ess_bulk,
    ess_tail,
    mean_error,
    quantile_error,
    rhat,
)
from dpinfer.results.intervals import ERROR_COVERED, CredibleIntervals, Intervals
from dpinfer.results.labels import attach_labels, labelled_frame
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.simulation import Simulation, child_seed
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

Unmixed = Literal["raise", "warn"]
Form = Literal["tables", "records", "frequencies"]

UNMIXED: tuple[Unmixed, ...] = ("raise", "warn")
FORMS: tuple[Form, ...] = ("tables", "records", "frequencies")

_AT_ONCE = 1024

_CALIBRATED = (
    "a 95 % interval covers in 95 % of the tables that are drawn from the prior, and need not for "
    "any one table; under a flat prior sums of many small cells are far too high"
)
_BESIDE = (
    "unbiased: estimates and intervals by the law of the noise alone, which hold for every table"
)
_FAR = (
    "the published values conflict with what is exact, the prior or the law of the noise: they are "
    "farther from the drawn tables than new noise was in 1,000 simulations"
)
_FEW_DRAWS = (
    f"few draws: ends of intervals need {LEAST_ESS:.0f} at least; quantile_error says how they err"
)
_PREDICTED = 1000
_LEVEL = 0.05  # at which prior and data are compared
_MOST_RECORDS = 50_000_000


class Draws(Listed, Plotted):
    """Draws from a posterior, of one number or of several, and what is read off them."""

    title: ClassVar[str]
    counted: ClassVar[str]
    _drawing: ClassVar[str] = "plot_trace"

    draws: NDArray[Any]
    prior: Any
    sampler: str
    notes: tuple[str, ...]

    @abstractmethod
    def _labels(self) -> pd.Index | None:
        """Return the labels of the numbers."""

    @abstractmethod
    def _ends_beside(self, alpha: float) -> FloatArray | None:
        """Return unbiased estimates and the ends of their intervals, (3, k), where there are."""

    @abstractmethod
    def _conflict(self) -> str | None:
        """Return what prior and data disagree about."""

    @property
    def mean(self) -> Any:
        """Posterior means."""
        return attach_labels(self.draws.mean(axis=(0, 1)), self._labels())

    @property
    def std(self) -> Any:
        """Posterior standard deviations."""
        return attach_labels(self.draws.std(axis=(0, 1)), self._labels())

    def cov(self) -> FloatArray:
        """Return the posterior covariance matrix, (k, k)."""
        flat = self._flat.astype(np.float64)
        centred = flat - flat.mean(axis=0)
        return np.asarray(centred.T @ centred / len(flat))

    def quantile(self, q: ArrayLike, *, unmixed: Unmixed = "raise") -> Any:
        """Smallest numbers that so large a share of the draws does not exceed.

        Parameters
        ----------
        q : float or array of float
            Probabilities in (0, 1).
        unmixed : {"raise", "warn"}
            What to do where chains have not mixed, as for :meth:`interval`.

        Returns
        -------
        array or Series
            The shape of ``q``, followed by that of one draw.
        """
        level = check_array(q, "q", gt=0, lt=1)
        self._refuse(unmixed)
        found = np.quantile(self._flat, level, axis=0, method="inverted_cdf").astype(np.float64)
        return self._shaped(found, level.shape)

    def quantile_error(self, q: ArrayLike) -> Any:
        """Monte Carlo standard errors of :meth:`quantile`, of the same shape, as ArviZ has them."""
        level = check_array(q, "q", gt=0, lt=1)
        tables = np.moveaxis(self._by_chain, 2, 0)
        alone = self.sampler != _CHAIN
        found = [
            [quantile_error(one, float(at), independent=alone) for one in tables]
            for at in level.ravel()
        ]
        return self._shaped(np.array(found).reshape(*level.shape, -1), level.shape)

    def interval(
        self, alpha: float = 0.05, kind: Kind = "hdi", *, unmixed: Unmixed = "raise"
    ) -> CredibleIntervals:
        """Credible intervals, each on its own.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the probability, in (0, 1).
        kind : {"hdi", "equal-tailed"}
            ``"hdi"``: the shortest interval that holds 1 - alpha of the draws. ``"equal-tailed"``:
            alpha/2 at most is left out on either side.
        unmixed : {"raise", "warn"}
            What to do where R-hat is above 1.01, or an effective number of draws below 400, of
            any of the numbers.

        Returns
        -------
        CredibleIntervals
            One interval for each number, about its posterior mean.

        Raises
        ------
        ConvergenceError
            If the chains have not mixed, unless ``unmixed="warn"``.

        Warns
        -----
        ApproximationWarning
            If they have not mixed, with ``unmixed="warn"``.
        PriorConflictWarning
            If a posterior mean is outside of the 95 % interval that uses no prior: of a linear
            function, or, of a table, of the total of its cells or a sum over one level of their
            labels, each at 5 % divided by their number. Of a table also if the published values
            are farther from the drawn tables than new noise was in 1,000 simulations.
        """
        alpha = check_alpha(alpha)
        kind = check_option(kind, "kind", KINDS)
        self._refuse(unmixed)
        said = self._warn_of_conflict()
        held = np.sort(self._flat, axis=0)
        size = len(held)
        if kind == "hdi":
            inside = min(int(np.ceil((1.0 - alpha) * size)), size)
            first = (held[inside - 1 :] - held[: size - inside + 1]).argmin(axis=0)
            last = first + inside - 1
        else:
            first = np.full(held.shape[1], int(0.5 * alpha * size))
            last = size - 1 - first
        low, high = (np.take_along_axis(held, at[None], axis=0)[0] for at in (first, last))
        share = ((self._flat >= low) & (self._flat <= high)).mean(axis=0)
        form = self.draws.shape[2:]
        return CredibleIntervals(
            estimate=np.asarray(self.mean, dtype=np.float64),
            lower=low.astype(np.float64).reshape(form),
            upper=high.astype(np.float64).reshape(form),
            alpha=alpha,
            method=f"posterior draws, {kind}",
            uncertainty="noise",
            labels=self._labels(),
            notes=(*self.notes, *said, _CALIBRATED),
            prior=self.prior.description,
            probability=share.reshape(form),
        )

    def diagnostics(self) -> pd.DataFrame:
        """Return R-hat and effective numbers of draws as ArviZ has them, a row for each number.

        Columns ``rhat``, ``ess_bulk``, ``ess_tail`` and ``mc_error``, the standard error of the
        posterior mean; NaN for numbers that have one value in all draws. Independent draws have no
        R-hat, and are as many as they are.
        """
        found = self._mixing
        columns = {"rhat": found[0], "ess_bulk": found[1], "ess_tail": found[2]}
        return labelled_frame(columns | {"mc_error": self._mean_error}, self._labels())

    def summary_frame(
        self, alpha: float = 0.05, kind: Kind = "hdi", *, unmixed: Unmixed = "raise"
    ) -> pd.DataFrame:
        """Return the posteriors as a DataFrame.

        One row a number, with the columns ``mean``, ``std``, ``mc_error``, ``ci_lower``,
        ``ci_upper``, ``rhat`` and ``ess_bulk``; the arguments are those of :meth:`interval`. Of
        linear functions, and of the cells of tables of at most 1,000, ``unbiased``,
        ``unbiased_lower`` and ``unbiased_upper`` are the best linear unbiased estimates and their
        exact intervals at the same level, which need no prior: NaN for what the published values
        do not determine. They are left out where values were not published as they were drawn.
        """
        frame = self.interval(alpha, kind, unmixed=unmixed).summary_frame()
        frame = frame.rename(columns={"estimate": "mean"}).drop(columns="probability")
        frame.insert(1, "std", np.ravel(np.asarray(self.std, dtype=np.float64)))
        frame.insert(2, "mc_error", self._mean_error)
        ends = self._ends_beside(alpha)
        if ends is not None:
            frame["unbiased"], frame["unbiased_lower"], frame["unbiased_upper"] = ends
        frame["rhat"], frame["ess_bulk"] = self._mixing[0], self._mixing[1]
        return frame

    def to_datatree(self) -> Any:
        """Return the draws as ArviZ reads them: an xarray DataTree with the group ``posterior``.

        The variable is called ``table`` or ``function``, with the dimensions ``chain``, ``draw``
        and, of several numbers, ``cell`` or ``row``, whose coordinates are the labels, their parts
        joined by commas.

        Raises
        ------
        MissingExtraError
            If xarray is not installed.
        """
        xarray = require("xarray", "arviz")
        chains, draws = self.draws.shape[:2]
        row = {"Cells": "cell"}.get(self.counted, "row")
        name = {"Cells": "table"}.get(self.counted, "function")
        coords: dict[str, Any] = {"chain": np.arange(chains), "draw": np.arange(draws)}
        dims = ["chain", "draw"]
        labels = self._labels()
        if self.draws.ndim > 2:
            dims.append(row)
            size = self.draws.shape[2]
            coords[row] = np.arange(size) if labels is None else list(map(_joined, labels))
        data = xarray.Dataset({name: (dims, self.draws)}, coords=coords)
        data.attrs["prior"], data.attrs["sampler"] = self.prior.description, self.sampler
        return xarray.DataTree.from_dict({"posterior": data})

    def _drawn(self) -> str:
        chains, draws = self.draws.shape[:2]
        if self.sampler != _CHAIN:
            return f"{chains * draws} independent draws"
        return f"{chains} chain{'s' * (chains > 1)} of {draws} draws"

    @property
    def _by_chain(self) -> NDArray[Any]:
        return self.draws.reshape(*self.draws.shape[:2], -1)

    @property
    def _flat(self) -> NDArray[Any]:
        return self.draws.reshape(self.draws.shape[0] * self.draws.shape[1], -1)

    def _shaped(self, found: FloatArray, before: tuple[int, ...]) -> Any:
        found = found.reshape((*before, *self.draws.shape[2:]))
        return found[()] if before else attach_labels(found, self._labels())

    @cached_property
    def _mixing(self) -> FloatArray:
        """R-hat, bulk and tail effective numbers, (3, k)."""
        if self.sampler != _CHAIN:
            varied = np.ptp(self._flat, axis=0) > 0
            size = np.where(varied, float(len(self._flat)), np.nan)
            return np.stack([np.full(len(size), np.nan), size, size])
        tables = np.moveaxis(self._by_chain, 2, 0)
        return np.array([[rhat(one), ess_bulk(one), ess_tail(one)] for one in tables]).T

    @cached_property
    def _mean_error(self) -> FloatArray:
        if self.sampler != _CHAIN:
            spread = self._flat.std(axis=0, ddof=1) / np.sqrt(len(self._flat))
            return np.asarray(np.where(np.isnan(self._mixing[1]), np.nan, spread))
        return np.array([mean_error(one) for one in np.moveaxis(self._by_chain, 2, 0)])

    def _refuse(self, unmixed: Unmixed) -> None:
        """Refuse, or warn of, chains that have not mixed."""
        choice = check_option(unmixed, "unmixed", UNMIXED)
        if self.sampler != _CHAIN:
            return
        ratio, bulk, tail = self._mixing
        with np.errstate(invalid="ignore"):
            bad = (ratio > LARGEST_RHAT) | (bulk < LEAST_ESS) | (tail < LEAST_ESS)
        if not bad.any():
            return
        at = int(np.nanargmax(np.where(bad, ratio, np.nan)))
        labels = self._labels()
        name = at if labels is None else show(labels[at])
        said = (
            f"the chains have not mixed for {np.count_nonzero(bad)} of {len(bad)} "
            f"{self.counted.lower()}: R-hat is {ratio[at]:.3f} for {name}, and effective draws are "
            f"{bulk[at]:.0f} (bulk) and {tail[at]:.0f} (tail), where at most {LARGEST_RHAT} and at "
            f"least {LEAST_ESS:.0f} are wanted: ask for more draws"
        )
        if choice == "raise":
            raise ConvergenceError(f"{said}, or pass unmixed='warn'")
        warnings.warn(said, ApproximationWarning, stacklevel=3)

    def _warn_of_conflict(self) -> tuple[str, ...]:
        said = self._conflict()
        if said is None:
            return ()
        warnings.warn(said, PriorConflictWarning, stacklevel=3)
        return (said,)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return self._flat.shape[1], self._labels()

    def _table(
        self, alpha: float = 0.05, kind: Kind = "hdi", *, unmixed: Unmixed = "raise"
    ) -> Table:
        frame = self.summary_frame(alpha, kind, unmixed=unmixed)
        said = self._conflict()
        return Table(
            self.title,
            [
                ("Prior", self.prior.description),
                (self.counted, len(frame)),
                ("Draws", self._drawn().removesuffix(" draws")),
                *self._further(),
                ("Intervals", f"{1 - alpha:.6g} credible, {kind}"),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            frame,
            index=self._labels(),
            notes=(
                *self.notes,
                *(() if said is None else (said,)),
                *(_FEW_DRAWS for _ in range(len(self._flat) < LEAST_ESS)),
                _CALIBRATED,
                *((_BESIDE,) if "unbiased" in frame else ()),
            ),
            alike=(
                *("mean", "std", "ci_lower", "ci_upper"),
                *("unbiased", "unbiased_lower", "unbiased_upper"),
            ),
        )

    @abstractmethod
    def _further(self) -> list[tuple[str, object]]:
        """Return what else the head of the summary says."""


_CHAIN = "chain"


def _joined(label: object) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _conflict_said(names: list[str], mean: FloatArray, ends: FloatArray) -> str:
    first = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"prior and data conflict: the posterior means of {first} are outside of the intervals "
        f"that use no prior, {mean[0]:.6g} and [{ends[1, 0]:.6g}, {ends[2, 0]:.6g}] for the first; "
        "do not use the posterior for such sums, or take a prior that fits"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FunctionPosterior(Draws):
    """Draws from the posterior of functions of a table; made by a ``TablePosterior``.

    Attributes
    ----------
    draws : array of float, shape (chains, draws) or (chains, draws, k)
        The functions at each drawn table.
    labels : pandas.Index or None
        Labels of the functions.
    prior : FlatPrior or another prior
        The prior of the table.
    sampler : str
        How the tables were drawn.
    notes : tuple of str
        What else the reader has to know.
    """

    title: ClassVar[str] = "Posterior of functions of a table"
    counted: ClassVar[str] = "Functions"

    draws: FloatArray
    prior: Any
    sampler: str
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()
    _beside: Unbiased | None = None

    def unbiased(self, alpha: float = 0.05) -> Intervals:
        """Return the exact intervals around the unbiased estimates of linear functions.

        They need no prior, and cover every table with probability 1 - alpha at least.

        Raises
        ------
        NotEstimableError
            If the published values do not determine a function.
        InvalidParameterError
            If the functions were not given by weights, or values were not published as drawn.
        """
        level = 2.0 * tail_of(check_alpha(alpha), "two-sided")
        if self._beside is None:
            raise InvalidParameterError(
                "the functions must be linear ones of values published as they were drawn, made by "
                "linear(weights), to have unbiased intervals"
            )
        return self._beside.intervals(level, self.labels, self.draws.shape[2:])

    def _labels(self) -> pd.Index | None:
        return self.labels

    def _ends_beside(self, alpha: float) -> FloatArray | None:
        return None if self._beside is None else self._beside.ends(alpha)

    def _conflict(self) -> str | None:
        return self._compared

    def _further(self) -> list[tuple[str, object]]:
        return []

    @cached_property
    def _compared(self) -> str | None:
        if self._beside is None:
            return None
        mean = self._flat.mean(axis=0)
        far = self._beside.outside(mean, _LEVEL)
        if not far.any():
            return None
        names = np.arange(len(far)) if self.labels is None else self.labels
        named = [f"function {at}" if self.labels is None else _joined(at) for at in names[far]]
        return _conflict_said(named, mean[far], self._beside.ends(_LEVEL)[:, far])

    def __repr__(self) -> str:
        return f"FunctionPosterior({len(self)} functions, {self._drawn()})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TablePosterior(Draws):
    """Draws of the cells of a table from their joint posterior; made by ``table_posterior``.

    Attributes
    ----------
    draws : array of int64, shape (chains, draws, cells)
        The tables.
    model : TableModel
        What is known of the cells, for internal use.
    prior : FlatPrior or another prior
        The prior.
    sampler : {"exact", "enumeration", "chain"}
        How the tables were drawn; all but those of a chain are independent.
    left_out : float
        A bound on the posterior probability of the tables that could not be drawn: 0 of a chain,
        and at most 1e-12 else.
    hyper : dict of str to array of float, shape (chains, draws)
        Draws of the parameters of a hierarchical prior; empty of others.
    connectivity : {"proved", "enumerated", "unverified"}
        Whether the moves of the chain lead from every table to every other.
    thin : int
        Sweeps over all moves from one draw to the next.
    notes : tuple of str
        What else the reader has to know.
    """

    title: ClassVar[str] = "Joint posterior of a table"
    counted: ClassVar[str] = "Cells"

    draws: NDArray[np.int64]
    model: TableModel
    prior: Any
    sampler: str
    left_out: float = 0.0
    hyper: Mapping[str, FloatArray] = field(default_factory=dict)
    connectivity: str = "proved"
    thin: int = 1
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the cells."""
        return self.model.labels

    def function(self, f: Callable[[NDArray[np.int64]], ArrayLike]) -> FunctionPosterior:
        """Posterior of any function of the table.

        Parameters
        ----------
        f : callable
            Takes tables, an array of int64 of shape (k, cells), and returns k numbers, or an array
            of shape (k, p).

        Returns
        -------
        FunctionPosterior
            Draws, mean, intervals and Monte Carlo errors of f, or of its p parts.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> found = dpi.table_posterior([3, 9], mechanism=dpi.Geometric(scale=1.0), rng=1)
        >>> share = found.function(lambda tables: tables[:, 0] / tables.sum(axis=1).clip(1))
        >>> share
        FunctionPosterior(1 functions, 1000 independent draws)
        """
        if not callable(f):
            raise InvalidParameterError(f"f must be a function of tables (k, cells), got {show(f)}")
        try:
            given = f(self._flat.copy())
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise InvalidParameterError(
                f"f must be a function of tables (k, cells), an array, got {show(f)}: "
                f"{one_line(str(error))}"
            ) from error
        labels = getattr(given, "columns", None)
        found = check_array(given, "f(tables)")
        if found.ndim not in (1, 2) or len(found) != len(self._flat):
            raise InvalidParameterError(
                f"f must return one number, or p numbers, for each of {len(self._flat)} tables, "
                f"got shape {found.shape}"
            )
        return FunctionPosterior(
            draws=found.reshape(*self.draws.shape[:2], *found.shape[1:]),
            prior=self.prior,
            sampler=self.sampler,
            labels=labels,
            notes=self.notes,
        )

    def predictive_pvalue(self, *, rng: RNG = None) -> float:
        """Return how often new noise would be as far from the tables as the published values are.

        The statistic is T = Σ(yᵣ - (Ax)ᵣ)²/vᵣ over the values with noise, of variances vᵣ, and the
        p-value the share of the draws of x at which new noise has a T at least as large. A p-value
        near 0 says that prior and values disagree, or that the noise is another; one near 1 that
        the prior is so wide that it follows the values. It is not uniform under the model but
        nearer to ½, as the values are used twice (Gelman, Meng and Stern 1996).

        Parameters
        ----------
        rng : None, int or numpy.random.Generator, optional
            Source of randomness of the new noise; an int is a seed.

        Raises
        ------
        InvalidParameterError
            If values were rounded, moved to a bound or not published, so that their noise is not
            seen; or if none has noise.
        """
        model = self.model
        if not len(model.y) or (model.kind != "value").any() or model.bins is not None:
            raise InvalidParameterError(
                "predictive_pvalue needs values with noise that were published as they are, none "
                "of them rounded, clamped or below a threshold"
            )
        seed = Simulation.checked(1, rng).draw_seed()
        return self._beyond(self._flat, seed) / len(self._flat)

    def _beyond(self, tables: NDArray[np.int64], seed: np.random.SeedSequence) -> int:
        """Return at how many tables new noise is at least as far away as the published values."""
        model, beyond = self.model, 0
        for number, begin in enumerate(range(0, len(tables), _AT_ONCE)):
            some = tables[begin : begin + _AT_ONCE]
            off = np.square(model.y - model.answers(some)) / model.variance
            new = np.square(model.noise(len(some), child_seed(seed, number))) / model.variance
            beyond += int((new.sum(axis=1) >= off.sum(axis=1) * (1.0 - 1e-12)).sum())
        return beyond

    def linear(self, weights: Any) -> FunctionPosterior:
        """Posterior of linear functions of the cells, with unbiased estimates beside.

        Parameters
        ----------
        weights : array of float, shape (n,) or (k, n), Series, DataFrame or mapping
            The weights of one function, or of k functions, one a row, as in
            :func:`~dpinfer.linear_confint`; labels are those of the cells.

        Returns
        -------
        FunctionPosterior
            The posterior; its ``unbiased`` and ``summary_frame`` have the best linear unbiased
            estimates and their exact intervals, which need no prior.

        Examples
        --------
        Fifty cells of which none is above zero. A flat prior finds a hundred persons there:

        >>> import numpy as np
        >>> import dpinfer as dpi
        >>> law = dpi.Geometric(scale=2.0)
        >>> found = dpi.table_posterior(law.rvs(50, rng=1), mechanism=law, draws=400, rng=1)
        >>> total = found.linear(np.ones(50))
        >>> bool(total.mean > 90), total.unbiased().contains(0)
        (True, np.True_)
        """
        table = as_table(weights, "weights")
        matrix = checked_weights(table, self.labels, self.model.cells)
        rows = np.atleast_2d(matrix)
        found = self._flat @ rows.T
        release = self._release
        return FunctionPosterior(
            draws=found.reshape(*self.draws.shape[:2], *matrix.shape[:-1]),
            prior=self.prior,
            sampler=self.sampler,
            labels=table.index if hasattr(table, "columns") else None,
            notes=self.notes,
            _beside=None if release is None else Unbiased(release, rows),
        )

    def imputations(
        self, m: int = 20, as_: Form = "tables", *, unmixed: Unmixed = "raise"
    ) -> list[Any]:
        """Completed tables for other software, to be analysed one by one and pooled.

        Parameters
        ----------
        m : int, default 20
            Number of tables, at least 2: draws as far from each other as there are.
        as_ : {"tables", "records", "frequencies"}
            ``"tables"``: Series of counts under the labels of the cells. ``"records"``: DataFrames
            with a row for each person, whose columns are the parts of the labels, or ``cell``.
            ``"frequencies"``: DataFrames with a row for each cell that is not empty, these columns
            and ``count``, for software that takes frequency weights.
        unmixed : {"raise", "warn"}
            What to do where chains have not mixed, as for :meth:`interval`.

        Returns
        -------
        list of Series or DataFrame
            The tables.

        Raises
        ------
        ConvergenceError
            If chains have not mixed, or there are fewer than ``m`` effective draws, so that tables
            would depend on each other.

        Warns
        -----
        PriorConflictWarning
            As :meth:`interval`: what the prior distorts, pooling cannot repair.

        See Also
        --------
        dpinfer.pool : estimates from imputations, with the variance that they have.

        Examples
        --------
        >>> import pandas as pd
        >>> import dpinfer as dpi
        >>> counts = pd.Series([3, 9], index=pd.Index(["no", "yes"], name="smokes"))
        >>> found = dpi.table_posterior(counts, mechanism=dpi.Geometric(scale=1.0), rng=1)
        >>> records = found.imputations(5, "records")
        >>> len(records), records[0].columns.tolist()
        (5, ['smokes'])
        """
        import pandas as pd

        form = check_option(as_, "as_", FORMS)
        size = len(self._flat)
        count = check_integer(m, "m", ge=2, le=size)
        self._refuse(unmixed)
        least = np.nanmin(self._mixing[1], initial=np.inf)
        if least < count:
            raise ConvergenceError(
                f"m must be at most the effective number of draws, {least:.0f}, got {count}: ask "
                "for more draws"
            )
        self._warn_of_conflict()
        chosen = self._flat[(np.arange(count) * size) // count]
        labels = self.labels
        if form == "tables":
            if labels is None:
                return [pd.Series(table, name="count") for table in chosen]
            return [pd.Series(table, index=labels, name="count") for table in chosen]
        if form == "records" and (most := chosen.sum(axis=1).max()) > _MOST_RECORDS:
            raise InvalidParameterError(
                f"as_ must be 'frequencies' for tables of more than {_MOST_RECORDS} records, got "
                f"'records' for {most}"
            )
        cells = _frame_of_cells(labels, self.model.cells)
        found = []
        for table in chosen:
            if form == "records":
                at = np.repeat(np.arange(len(table)), table)
                found.append(cells.iloc[at].reset_index(drop=True))
            else:
                held = np.flatnonzero(table)
                rows = cells.iloc[held].reset_index(drop=True)
                found.append(rows.assign(count=table[held]))
        return found

    @cached_property
    def _release(self) -> Any:
        return release_of(self.model)

    def _labels(self) -> pd.Index | None:
        return self.labels

    def _ends_beside(self, alpha: float) -> FloatArray | None:
        if self._release is None or self.model.cells > MOST_ROWS:
            return None
        return self._cells_beside.ends(alpha)

    @cached_property
    def _cells_beside(self) -> Unbiased:
        return Unbiased(self._release, np.eye(self.model.cells))

    def _conflict(self) -> str | None:
        return self._compared

    @cached_property
    def _compared(self) -> str | None:
        if self._release is None or self.model.cells > LARGEST:
            return None
        names, rows = sums(self.model)
        beside = Unbiased(self._release, rows)
        mean = rows @ self._flat.mean(axis=0)
        far = beside.outside(mean, _LEVEL)
        if not far.any():
            return self._far()
        named = [name for name, off in zip(names, far, strict=True) if off]
        return _conflict_said(named, mean[far], beside.ends(_LEVEL)[:, far])

    def _far(self) -> str | None:
        """Say whether new noise was never as far from tables as the published values are."""
        if not 0 < len(self.model.y) <= MOST_ROWS:
            return None
        tables = self._flat[np.linspace(0, len(self._flat) - 1, _PREDICTED).astype(np.intp)]
        return None if self._beyond(tables, child_seed(np.random.SeedSequence(0), 0)) else _FAR

    def _further(self) -> list[tuple[str, object]]:
        if self.sampler == _CHAIN:
            return [("Moves lead everywhere", self.connectivity)]
        return [("Sampler", self.sampler), ("Posterior left out", f"<= {self.left_out:.1g}")]

    def __repr__(self) -> str:
        return f"TablePosterior({self.model.cells} cells, {self._drawn()})"


def _frame_of_cells(labels: pd.Index | None, cells: int) -> pd.DataFrame:
    import pandas as pd

    if labels is None:
        return pd.DataFrame({"cell": np.arange(cells)})
    names = [
        (f"part {place}" if labels.nlevels > 1 else "cell") if name is None else name
        for place, name in enumerate(labels.names)
    ]
    if len(set(names)) < len(names) or "count" in names:
        raise InvalidParameterError(
            f"labels must have levels of different names, none of them 'count', got {show(names)}: "
            "rename them first"
        )
    return labels.to_frame(index=False, name=names if labels.nlevels > 1 else names[0])
