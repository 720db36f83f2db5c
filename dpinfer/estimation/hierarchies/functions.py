"""Linear functions of the units of a hierarchy, estimated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import RNG, FloatArray, freeze
from dpinfer.estimation.pivots import Method, Pivots, clean_weights
from dpinfer.mechanisms import NoiseLaw
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

    @property
    def bse(self) -> Any:
        """Standard errors of the estimates, due to the noise."""
        found = np.sqrt(np.square(self.weights) @ self._variance)
        return attach_labels(freeze(found.reshape(np.shape(self.params))), self.labels)

    def cov_params(self) -> Any:
        """Covariance matrix of the estimates, due to the noise; a DataFrame under labels."""
        covariance = (self.weights * self._variance) @ self.weights.T
        if self.labels is None:
            return covariance
        import pandas as pd

        return pd.DataFrame(covariance, self.labels, self.labels)

    def noise(self, function: int = 0) -> WeightedSum:
        """Return the law of the error of one estimate, by its position."""
        return WeightedSum(clean_weights(self.weights[function]), self.mechanism)

    def conf_int(
        self,
        alpha: float = 0.05,
        method: Method = "exact",
        *,
        simultaneous: bool = False,
        reps: int = 10_000,
        rng: RNG = None,
    ) -> Intervals:
        """Confidence intervals; as :meth:`CombinedEstimate.conf_int`."""
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
        """Return estimates, standard errors and intervals as a DataFrame, a row a function."""
        frame = self.conf_int(alpha, method).summary_frame()
        frame.insert(1, "std_err", np.asarray(self.bse))
        return frame

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
