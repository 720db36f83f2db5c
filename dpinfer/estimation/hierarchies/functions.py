"""Linear functions of the units of a hierarchy, estimated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import RNG, FloatArray, freeze
from dpinfer.estimation.pivots import Method, Pivots, clean_weights
from dpinfer.estimation.summaries import covariance_frame, estimates_frame
from dpinfer.mechanisms import NoiseLaw
from dpinfer.mechanisms._shared import Origin
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HierarchyFunctions:
    """Estimates of linear functions of units; made by :meth:`HierarchyEstimate.functions`.

    Attributes
    ----------
    params : Series, array of float, shape (k,), or float
        The estimates.
    weights : array of float, shape (k, m)
        Weights by which they combine the m published values.
    values : array of float, shape (m,)
        These values.
    mechanism : NoiseLaw
        The law of their noise.
    labels : pandas.Index, optional
        Labels of the functions.
    """

    params: Any
    weights: FloatArray
    values: FloatArray
    mechanism: NoiseLaw
    labels: pd.Index | None
    _origin: Origin

    @property
    def bse(self) -> Any:
        """Standard errors of the estimates, due to the noise."""
        found = np.sqrt(np.square(self.weights) @ self._variance)
        return attach_labels(freeze(found.reshape(np.shape(self.params))), self.labels)

    def cov_params(self) -> Any:
        """Covariance matrix of the estimates, due to the noise.

        Returns
        -------
        array of float, shape (k, k), or DataFrame
            A DataFrame where the functions have labels.
        """
        return covariance_frame((self.weights * self._variance) @ self.weights.T, self.labels)

    def noise(self, function: int = 0) -> WeightedSum:
        """Return the law of the error of one estimate.

        Parameters
        ----------
        function : int, default 0
            The position of the function.

        Returns
        -------
        WeightedSum
            The law of estimate minus confidential value.
        """
        weights = clean_weights(self.weights[function])
        return WeightedSum.of_origin(weights, self.mechanism, self._origin)

    def conf_int(
        self,
        alpha: float = 0.05,
        method: Method = "exact",
        *,
        simultaneous: bool = False,
        reps: int = 10_000,
        rng: RNG = None,
    ) -> Intervals:
        """Confidence intervals for the confidential values of the functions.

        Parameters
        ----------
        alpha, method, simultaneous, reps, rng
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        Intervals
            One interval a function; unpacks as ``lower, upper``.
        """
        size = self.values.size
        pivots = Pivots(
            std_errors=np.atleast_1d(np.asarray(self.bse)),
            mechanism=self.mechanism,
            blocks=self._blocks,
            draw_errors=self._draw_errors,
            noises=size,
            magnitude=np.abs(self.weights) @ np.abs(self.values),
        )
        return pivots.intervals(
            np.atleast_1d(np.asarray(self.params)),
            alpha=alpha,
            method=method,
            simultaneous=simultaneous,
            reps=reps,
            rng=rng,
            labels=self.labels,
        )

    def summary_frame(self, alpha: float = 0.05, method: Method = "exact") -> pd.DataFrame:
        """Return estimates, standard errors and intervals as a DataFrame, a row a function.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``ci_lower`` and ``ci_upper``. ``attrs`` holds
            ``alpha``, ``method``, ``uncertainty`` and ``simultaneous``.
        """
        return estimates_frame(self.conf_int(alpha, method), self.bse)

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"HierarchyFunctions({len(self)} functions of {self.values.size} values)"

    @property
    def _variance(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self.mechanism.variance), self.values.shape)

    def _blocks(self) -> Iterator[FloatArray]:
        yield self.weights

    def _draw_errors(self, reps: int, rng: np.random.Generator) -> FloatArray:
        noise = self.mechanism.rvs((reps, self.values.size), rng=rng)
        return np.asarray(np.asarray(noise, dtype=np.float64) @ self.weights.T)
