"""Draws of tables, and what is read off them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import RNG, FloatArray, check_alpha, check_array, check_option, one_line, show
from dpinfer.errors import ApproximationWarning, ConvergenceError, InvalidParameterError
from dpinfer.posterior._model import TableModel
from dpinfer.posterior.diagnostics import LARGEST_RHAT, LEAST_ESS, ess_bulk, ess_tail, rhat
from dpinfer.results.intervals import ERROR_COVERED, CredibleIntervals
from dpinfer.results.labels import attach_labels, labelled_frame
from dpinfer.results.presentation import Listed
from dpinfer.results.simulation import Simulation, child_seed
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["hdi", "equal-tailed"]
Unmixed = Literal["raise", "warn"]

KINDS: tuple[Kind, ...] = ("hdi", "equal-tailed")
UNMIXED: tuple[Unmixed, ...] = ("raise", "warn")

_AT_ONCE = 1024

_CALIBRATED = (
    "a 95 % interval covers in 95 % of the tables that are drawn from the prior, and need not for "
    "any one table; under a flat prior sums of many small cells are far too high"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TablePosterior(Listed):
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

    @property
    def mean(self) -> Any:
        """Posterior means of the cells."""
        return attach_labels(self.draws.mean(axis=(0, 1)), self.labels)

    @property
    def std(self) -> Any:
        """Posterior standard deviations of the cells."""
        return attach_labels(self.draws.std(axis=(0, 1)), self.labels)

    def cov(self) -> FloatArray:
        """Return the posterior covariance matrix of the cells, (cells, cells)."""
        flat = self._flat.astype(np.float64)
        centred = flat - flat.mean(axis=0)
        return np.asarray(centred.T @ centred / len(flat))

    def quantile(self, q: ArrayLike, *, unmixed: Unmixed = "raise") -> Any:
        """Smallest counts that so large a share of the draws does not exceed.

        Parameters
        ----------
        q : float or array of float
            Probabilities in (0, 1).
        unmixed : {"raise", "warn"}
            What to do where chains have not mixed, as for :meth:`interval`.

        Returns
        -------
        array or Series
            The shape of ``q``, followed by that of the cells.
        """
        level = check_array(q, "q", gt=0, lt=1)
        self._refuse(unmixed)
        found = np.quantile(self._flat, level, axis=0, method="inverted_cdf").astype(np.float64)
        return attach_labels(found, self.labels) if level.ndim == 0 else found

    def interval(
        self, alpha: float = 0.05, kind: Kind = "hdi", *, unmixed: Unmixed = "raise"
    ) -> CredibleIntervals:
        """Credible intervals of the cells, each on its own.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the probability, in (0, 1).
        kind : {"hdi", "equal-tailed"}
            ``"hdi"``: the shortest interval that holds 1 - alpha of the draws. ``"equal-tailed"``:
            alpha/2 at most is left out on either side.
        unmixed : {"raise", "warn"}
            What to do where R-hat is above 1.01, or an effective number of draws below 400, for a
            cell.

        Returns
        -------
        CredibleIntervals
            One interval for each cell, about its posterior mean.

        Raises
        ------
        ConvergenceError
            If the chains have not mixed, unless ``unmixed="warn"``.

        Warns
        -----
        ApproximationWarning
            If they have not mixed, with ``unmixed="warn"``.
        """
        alpha = check_alpha(alpha)
        kind = check_option(kind, "kind", KINDS)
        self._refuse(unmixed)
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
        return CredibleIntervals(
            estimate=np.asarray(self.mean, dtype=np.float64),
            lower=low.astype(np.float64),
            upper=high.astype(np.float64),
            alpha=alpha,
            method=f"posterior draws, {kind}",
            uncertainty="noise",
            labels=self.labels,
            notes=(*self.notes, _CALIBRATED),
            prior=self.prior.description,
            probability=share,
        )

    def function(self, f: Callable[[NDArray[np.int64]], ArrayLike]) -> FloatArray:
        """Return a function of the table at each draw.

        Parameters
        ----------
        f : callable
            Takes tables, an array of int64 of shape (k, cells), and returns k numbers.

        Returns
        -------
        array of float, shape (chains, draws)
            Draws from the posterior of f.
        """
        if not callable(f):
            raise InvalidParameterError(f"f must be a function of tables (k, cells), got {show(f)}")
        try:
            given = f(self._flat.copy())
        except (TypeError, ValueError, IndexError) as error:
            raise InvalidParameterError(
                f"f must be a function of tables (k, cells), an array, got {show(f)}: "
                f"{one_line(str(error))}"
            ) from error
        found = check_array(given, "f(tables)")
        if found.shape != (len(self._flat),):
            raise InvalidParameterError(
                f"f must return one number for each of {len(self._flat)} tables, got shape "
                f"{found.shape}"
            )
        return found.reshape(self.draws.shape[:2])

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
        tables, beyond = self._flat, 0
        for number, begin in enumerate(range(0, len(tables), _AT_ONCE)):
            some = tables[begin : begin + _AT_ONCE]
            off = np.square(model.y - model.answers(some)) / model.variance
            new = np.square(model.noise(len(some), child_seed(seed, number))) / model.variance
            beyond += int((new.sum(axis=1) >= off.sum(axis=1) * (1.0 - 1e-12)).sum())
        return beyond / len(tables)

    def diagnostics(self) -> pd.DataFrame:
        """Return R-hat and effective numbers of draws as ArviZ has them, a row for each cell.

        Columns ``rhat``, ``ess_bulk``, ``ess_tail`` and ``mc_error``, the standard error of the
        posterior mean; NaN for cells that have one value in all draws.
        """
        found = self._mixing
        spread = np.where(np.isnan(found[0]), np.nan, np.asarray(self.std, dtype=np.float64))
        columns = {"rhat": found[0], "ess_bulk": found[1], "ess_tail": found[2]}
        return labelled_frame(columns | {"mc_error": spread / np.sqrt(found[1])}, self.labels)

    def summary_frame(
        self, alpha: float = 0.05, kind: Kind = "hdi", *, unmixed: Unmixed = "raise"
    ) -> pd.DataFrame:
        """Return the posteriors of the cells as a DataFrame.

        One row a cell, with the columns ``mean``, ``std``, ``ci_lower``, ``ci_upper``, ``rhat``
        and ``ess_bulk``; the arguments are those of :meth:`interval`.
        """
        frame = self.interval(alpha, kind, unmixed=unmixed).summary_frame()
        frame = frame.rename(columns={"estimate": "mean"}).drop(columns="probability")
        frame.insert(1, "std", np.asarray(self.std, dtype=np.float64))
        frame["rhat"], frame["ess_bulk"] = self._mixing[0], self._mixing[1]
        return frame

    @property
    def _flat(self) -> NDArray[np.int64]:
        return self.draws.reshape(-1, self.draws.shape[2])

    @cached_property
    def _mixing(self) -> FloatArray:
        """R-hat, bulk and tail effective numbers, (3, cells)."""
        tables = np.moveaxis(self.draws, 2, 0)
        if self.sampler != "chain":  # independent: nothing is to be found out
            size = float(len(self._flat))
            constant = (self._flat == self._flat[0]).all(axis=0)
            found = np.repeat([[1.0], [size], [size]], len(tables), axis=1)
            return np.where(constant, np.nan, found)
        return np.array([[rhat(one), ess_bulk(one), ess_tail(one)] for one in tables]).T

    def _refuse(self, unmixed: Unmixed) -> None:
        """Refuse, or warn of, chains that have not mixed."""
        choice = check_option(unmixed, "unmixed", UNMIXED)
        if self.sampler != "chain":
            return
        ratio, bulk, tail = self._mixing
        with np.errstate(invalid="ignore"):
            bad = (ratio > LARGEST_RHAT) | (bulk < LEAST_ESS) | (tail < LEAST_ESS)
        if not bad.any():
            return
        at = int(np.nanargmax(np.where(bad, ratio, np.nan)))
        name = at if self.labels is None else show(self.labels[at])
        said = (
            f"the chains have not mixed for {np.count_nonzero(bad)} of {len(bad)} cells: R-hat is "
            f"{ratio[at]:.3f} for the cell {name}, and effective draws are {bulk[at]:.0f} (bulk) "
            f"and {tail[at]:.0f} (tail), where at most {LARGEST_RHAT} and at least {LEAST_ESS:.0f} "
            "are wanted: ask for more draws"
        )
        if choice == "raise":
            raise ConvergenceError(f"{said}, or pass unmixed='warn'")
        warnings.warn(said, ApproximationWarning, stacklevel=3)

    def _rows(self) -> tuple[int, pd.Index | None]:
        return self.draws.shape[2], self.labels

    def _table(
        self, alpha: float = 0.05, kind: Kind = "hdi", *, unmixed: Unmixed = "raise"
    ) -> Table:
        frame = self.summary_frame(alpha, kind, unmixed=unmixed)
        chains, draws, cells = self.draws.shape
        return Table(
            "Joint posterior of a table",
            [
                ("Prior", self.prior.description),
                ("Cells", cells),
                *(
                    [
                        ("Draws", f"{chains} chains of {draws}"),
                        ("Moves lead everywhere", self.connectivity),
                    ]
                    if self.sampler == "chain"
                    else [
                        ("Draws", f"{draws}, independent, by {self.sampler}"),
                        ("Posterior left out", f"<= {self.left_out:.1g}"),
                    ]
                ),
                ("Intervals", f"{1 - alpha:.6g} credible, {kind}"),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=self.labels,
            notes=(*self.notes, _CALIBRATED),
            alike=("mean", "std", "ci_lower", "ci_upper"),
        )

    def __repr__(self) -> str:
        chains, draws, cells = self.draws.shape
        drawn = f"{chains} chains of {draws}" if self.sampler == "chain" else f"{draws} independent"
        return f"TablePosterior({cells} cells, {drawn} draws)"
