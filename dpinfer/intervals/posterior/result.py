"""Posteriors of confidential counts as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._validation import (
    FloatArray,
    check_alpha,
    check_array,
    check_broadcast,
    check_option,
)
from dpinfer.errors import NotEstimableError
from dpinfer.intervals.posterior._parts import Functional, Part
from dpinfer.intervals.posterior._setup import log_prior_mass
from dpinfer.intervals.posterior._window import Point, Window
from dpinfer.intervals.posterior.credible import CredibleIntervals
from dpinfer.intervals.posterior.priors import CountPrior, FlatPrior, FunctionPrior, TablePrior
from dpinfer.results.intervals import ERROR_COVERED
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["hdi", "equal-tailed"]

KINDS: tuple[Kind, ...] = ("hdi", "equal-tailed")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountPosterior:
    """Posteriors of confidential counts, one for each published value.

    Made by :func:`count_posterior`. Values are in units of the counts, and are Series where there
    are labels. They are computed when asked for, in blocks of rows.

    Parameters
    ----------
    count : float, array or Series
        The published values.
    prior : CountPrior
        The prior.
    lower, upper : float
        Ends of the support, which may be infinite.
    labels : pandas.Index, optional
        One label for each posterior.
    notes : tuple of str
        What else the reader has to know, one remark each.
    parts : tuple
        The rows by kinds of noise, for internal use.

    Examples
    --------
    >>> from dpinfer.intervals.posterior.count_posterior import count_posterior
    >>> from dpinfer.intervals.posterior.priors import PoissonPrior
    >>> from dpinfer.mechanisms import Laplace
    >>> posterior = count_posterior(7.3, mechanism=Laplace(scale=2.0), prior=PoissonPrior(3.0))
    >>> posterior.mean.round(4), posterior.std.round(4), posterior.mode
    (np.float64(4.5329), np.float64(1.8295), np.float64(4.0))
    >>> posterior.sf(6).round(4)
    np.float64(0.155)
    """

    count: Any
    prior: CountPrior
    lower: float
    upper: float
    labels: pd.Index | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[Part, ...] = field(repr=False)

    @property
    def mean(self) -> Any:
        """Posterior mean, which minimises the expected squared error."""
        return self._labelled(self._moments[0])

    @property
    def std(self) -> Any:
        """Posterior standard deviation."""
        return self._labelled(self._moments[1])

    @property
    def mode(self) -> Any:
        """Most probable count."""
        return self._labelled(self._moments[2])

    @property
    def median(self) -> Any:
        """Smallest count that is not exceeded with probability 1/2 or more."""
        return self.quantile(0.5)

    @property
    def log_marginal(self) -> Any:
        """Logarithm of the density (or probability) of each published value under the prior.

        Raises
        ------
        NotEstimableError
            If the prior is known up to a constant only: flat or a function, on a support without
            ends.
        """
        mass = self._log_prior_mass
        values = self._apply(lambda window, _: window.log_total()[None], 1)
        return self._labelled(values.reshape(np.shape(self.count)) - mass)

    def quantile(self, q: ArrayLike) -> Any:
        """Smallest count with cdf of at least ``q``.

        Parameters
        ----------
        q : float or array of float
            Probabilities in (0, 1).

        Returns
        -------
        float, array or Series
            The shape of ``q``, followed by that of the posteriors.
        """
        level = check_array(q, "q", gt=0, lt=1)
        values = self._apply(lambda window, _: window.quantiles(level.ravel()), level.size)
        values = values.reshape(level.shape + np.shape(self.count))
        return self._labelled(values) if level.ndim == 0 else values

    def pmf(self, k: ArrayLike) -> Any:
        """Posterior probability of exactly ``k``.

        Parameters
        ----------
        k : float or array of float
            Counts that broadcast against the posteriors.

        Returns
        -------
        float, array or Series
            In the shape to which ``k`` and the posteriors broadcast.
        """
        return self._at(k, "pmf")

    def cdf(self, k: ArrayLike) -> Any:
        """Posterior probability of at most ``k``; see :meth:`pmf`."""
        return self._at(k, "cdf")

    def sf(self, k: ArrayLike) -> Any:
        """Posterior probability of more than ``k``, summed as a tail; see :meth:`pmf`."""
        return self._at(k, "sf")

    def interval(self, alpha: float = 0.05, kind: Kind = "hdi") -> CredibleIntervals:
        """Credible intervals: they hold the count with posterior probability 1 - alpha or more.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the probability, in (0, 1).
        kind : {"hdi", "equal-tailed"}
            ``"hdi"``: the shortest run of whole numbers that holds 1 - alpha; where the posterior
            has one peak these are the most probable counts. ``"equal-tailed"``: at most alpha/2
            is left out on either side.

        Returns
        -------
        CredibleIntervals
            One interval for each value, about the posterior mean; unpacks as ``lower, upper``.
        """
        alpha = check_alpha(alpha)
        kind = check_option(kind, "kind", KINDS)

        def ends(window: Window, _: NDArray[np.intp]) -> FloatArray:
            return window.shortest(alpha) if kind == "hdi" else window.equal_tailed(alpha)

        shape = np.shape(self.count)
        low, high, probability = (line.reshape(shape) for line in self._apply(ends, 3))
        return CredibleIntervals(
            estimate=self._moments[0],
            lower=low,
            upper=high,
            alpha=alpha,
            method=f"posterior, {kind}",
            uncertainty="noise",
            labels=self.labels,
            notes=self.notes,
            prior=self.prior.description,
            probability=probability,
        )

    def summary_frame(self, alpha: float = 0.05, kind: Kind = "hdi") -> pd.DataFrame:
        """Return the posteriors as a DataFrame.

        Parameters
        ----------
        alpha, kind
            As for :meth:`interval`.

        Returns
        -------
        DataFrame
            One row a posterior, with the columns ``count``, ``mean``, ``std``, ``mode``,
            ``ci_lower``, ``ci_upper`` and ``probability``, that of the interval. ``attrs`` holds
            ``alpha``, ``method``, ``uncertainty``, ``simultaneous`` and ``prior``.
        """
        frame = self.interval(alpha, kind).summary_frame().rename(columns={"estimate": "mean"})
        frame.insert(0, "count", np.ravel(self.count))
        frame.insert(2, "std", np.ravel(self._moments[1]))
        frame.insert(3, "mode", np.ravel(self._moments[2]))
        return frame

    def summary(self, alpha: float = 0.05, kind: Kind = "hdi") -> str:
        """Return the posteriors as a plain-text table that names the prior.

        Parameters
        ----------
        alpha, kind
            As for :meth:`interval`.

        Returns
        -------
        str
            :meth:`summary_frame` with the facts about the posteriors, rounded for reading.
        """
        frame = self.summary_frame(alpha, kind)
        return render_table(
            "Posteriors of confidential counts",
            [
                ("Prior", self.prior.description),
                ("Support", f"{self.lower:g} to {self.upper:g}"),
                ("Intervals", f"{1 - alpha:.6g} credible, {kind}"),
                ("Posteriors", len(frame)),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index if self.labels is not None else None,
            notes=self.notes,
            alike=("count", "mean", "std", "mode", "ci_lower", "ci_upper"),
        )

    def __repr__(self) -> str:
        return f"CountPosterior({np.size(self.count)} posteriors, prior {self.prior.description})"

    def __str__(self) -> str:
        return self.summary()

    @cached_property
    def _moments(self) -> FloatArray:
        values = self._apply(lambda window, _: window.moments(), 3)
        return values.reshape(3, *np.shape(self.count))

    @property
    def _log_prior_mass(self) -> FloatArray:
        """Logarithm of the prior probability of the support, in the shape of the posteriors."""
        if isinstance(self.prior, (FlatPrior, FunctionPrior)):
            if np.isinf(self.upper - self.lower):
                raise NotEstimableError(
                    "log_marginal needs a prior that is a probability: give lower and upper, or "
                    f"a prior other than {self.prior.description}"
                )
            flat = isinstance(self.prior, FlatPrior)
            return np.asarray(np.log(self.upper - self.lower + 1.0) if flat else 0.0)
        if isinstance(self.prior, TablePrior) or (self.lower <= 0 and np.isinf(self.upper)):
            return np.zeros(())
        out = np.empty(np.size(self.count))
        for part in self.parts:
            out[part.cells] = log_prior_mass(part, self.lower, self.upper)
        return out.reshape(np.shape(self.count))

    def _apply(self, functional: Functional, lines: int) -> FloatArray:
        """Return what a functional reads off the windows, shape (lines, rows)."""
        if len(self.parts) == 1:
            return self.parts[0].apply(functional)
        out = np.empty((lines, np.size(self.count)))
        for part in self.parts:
            out[:, part.cells] = part.apply(functional)
        return out

    def _at(self, k: ArrayLike, kind: Point) -> Any:
        points = check_array(k, "k", finite=False)
        rows = np.shape(self.count)
        shape = check_broadcast(k=points.shape, count=rows)
        size = int(np.prod(rows, dtype=int))
        table = np.broadcast_to(points, shape).reshape(-1, size)
        values = np.empty(table.shape)
        for part in self.parts:
            own = table[:, part.cells]
            values[:, part.cells] = part.each().apply(_reader(own, kind))
        values = values.reshape(shape)
        return self._labelled(values) if shape == rows else values

    def _labelled(self, values: FloatArray) -> Any:
        return attach_labels(values, self.labels)


def _reader(points: FloatArray, kind: Point) -> Functional:
    """Return what reads probabilities off windows at counts of shape (m, rows)."""
    return lambda window, rows: window.at(points[:, rows], kind)
