"""Unbiased estimates of confidential values from an error estimate, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray, Locked, check_alpha, check_flag, check_option, freeze
from dpinfer.estimation.pivots import METHODS, Method, sidak
from dpinfer.mechanisms import (
    Gaussian,
    IndependentNoise,
    Laplace,
    NoiseLaw,
    WeightedSum,
    groups,
    weighted_sums,
)
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import render_table
from dpinfer.spending._laplace_pairs import laplace_pair_isf

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 64 * np.finfo(float).eps
"""Rounding error of an estimate and its interval, relative to the size of their terms."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CorrectedEstimate(Locked):
    """Published values corrected by their estimated errors; made by ``ErrorEstimate.corrected``.

    The estimates are unbiased for the confidential values, whatever was done to the published ones.

    Attributes
    ----------
    published : float or array of float, shape (k,), or Series
        The values as they were published.
    params : float or array of float, shape (k,), or Series
        The estimates, in units of the values.
    bse : float or array of float, shape (k,), or Series
        Standard errors of the estimates, due to the noise.
    weights : float or array of float, shape (k,), or Series
        The weight of the unprocessed value in each estimate; 0 where there was none.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.spending import spend_on_error
    >>> error = spend_on_error(3, 0, mechanism=dpi.Laplace.from_epsilon(1.0), rng=1)
    >>> fit = error.corrected()
    >>> fit.params.round(3), fit.bse.round(3)
    (np.float64(4.073), np.float64(1.414))
    """

    published: Any
    params: Any
    bse: Any
    weights: Any
    labels: pd.Index | None
    _values: tuple[FloatArray, ...]
    _laws: tuple[NoiseLaw, ...]

    @classmethod
    def of(
        cls,
        published: FloatArray,
        values: tuple[FloatArray, ...],
        laws: tuple[NoiseLaw, ...],
        labels: pd.Index | None,
    ) -> CorrectedEstimate:
        """Weight the corrected values, and perhaps unprocessed ones, by inverse variance.

        Parameters
        ----------
        published : array of float, shape () or (k,)
            The values as they were published.
        values : one or two arrays of float, of the same shape
            Unbiased values of the same k things: the corrected, and perhaps the unprocessed ones.
        laws : one or two laws of noise, each of shape () or (k,)
            Their noises, which are independent.
        labels : Index, optional
            One label for each.
        """
        shape = values[0].shape
        variance = [np.broadcast_to(np.asarray(law.variance), shape) for law in laws]
        weight = np.zeros(shape)
        params, spread = values[0], variance[0]
        if len(values) == 2:
            # in this form it is exact where one variance is 0, or tiny
            weight = variance[0] / np.where(variance[0] + variance[1] > 0, sum(variance), 1.0)
            params = values[0] + weight * (values[1] - values[0])
            spread = weight * variance[1]
        return cls(
            published=attach_labels(freeze(published), labels),
            params=attach_labels(freeze(params), labels),
            bse=attach_labels(freeze(np.sqrt(spread)), labels),
            weights=attach_labels(freeze(weight), labels),
            labels=labels,
            _values=values,
            _laws=laws,
        )

    def conf_int(
        self,
        alpha: float = 0.05,
        method: Method = "exact",
        *,
        simultaneous: bool = False,
        integer: bool = False,
        lower: float | None = None,
        upper: float | None = None,
    ) -> Intervals:
        """Confidence intervals for the confidential values.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        method : {"exact", "tail-bound", "normal"}
            ``"exact"``: quantiles of the noise, or of the weighted sum of two noises.
            ``"tail-bound"``: for all values together, by the union bound, and Chernoff's for a
            weighted sum. ``"normal"``: normal quantiles, offered for comparison.
        simultaneous : bool, default False
            Whether all values shall be covered together with probability 1 - ``alpha``.
        integer, lower, upper
            What is known of the confidential values; see :func:`dpinfer.count_confint`.

        Returns
        -------
        Intervals
            One interval a value; unpacks as ``lower, upper``. They cover the noise only.
        """
        alpha = check_alpha(alpha)
        method = check_option(method, "method", METHODS)
        together = check_flag(simultaneous, "simultaneous") or method == "tail-bound"
        params, std = np.asarray(self.params), np.asarray(self.bse)
        tests = max(1, int(np.count_nonzero(std))) if together else 1
        half = self._half_widths(alpha, method, tests)
        intervals = Intervals(
            estimate=params,
            lower=params - half,
            upper=params + half,
            alpha=alpha,
            method=method,
            uncertainty="noise",
            simultaneous=together,
            labels=self.labels,
        )
        return intervals.restrict(lower=lower, upper=upper, integer=integer)

    def summary_frame(self, alpha: float = 0.05, method: Method = "exact") -> pd.DataFrame:
        """Return estimates, standard errors and intervals as a DataFrame, a row for each value.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``std_err``, ``ci_lower``, ``ci_upper`` and ``published``.
        """
        frame = self.conf_int(alpha, method).summary_frame()
        frame.insert(1, "std_err", np.ravel(self.bse))
        frame["published"] = np.ravel(self.published)
        return frame

    def summary(self, alpha: float = 0.05, method: Method = "exact") -> str:
        """Return :meth:`summary_frame`, with the same arguments, as a plain-text table."""
        frame = self.summary_frame(alpha, method)
        return render_table(
            "Corrected values",
            [
                ("Method", method),
                ("Level", f"{1 - alpha:.6g}"),
                ("Estimates from", ("error estimate", "both values")[len(self._values) - 1]),
                ("Values", len(frame)),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
            index=frame.index if self.labels is not None else None,
            notes=("unbiased whatever was done to the published values",),
            alike=tuple(frame.columns),
        )

    def __repr__(self) -> str:
        return f"CorrectedEstimate({np.size(self.params)} values)"

    def __str__(self) -> str:
        return self.summary()

    def _half_widths(self, alpha: float, method: Method, tests: int) -> FloatArray:
        gaussian = all(isinstance(law, Gaussian) for law in self._laws)
        if method == "normal" or (gaussian and method == "exact"):
            return np.asarray(-special.ndtri(sidak(alpha, tests) / 2) * np.asarray(self.bse))
        q = alpha / (2 * tests) if method == "tail-bound" else sidak(alpha, tests) / 2
        if len(self._laws) == 1:
            return np.asarray(self._laws[0].isf(q))
        if (half := self._laplace_half_widths(q, method)) is not None:
            return half
        laws = self._sums()
        bounds = {
            id(law): float(law.chernoff(q) if method == "tail-bound" else law.isf(q))
            for law in laws
        }
        half = np.array([bounds[id(law)] for law in laws]).reshape(
            np.shape(self.params) if len(laws) > 1 else ()
        )
        atoms = any(part.is_integer for law in self._laws for part, _ in groups(law, 1))
        if not atoms:
            return half
        # keeps rounding from cutting off an atom of the error at the end of an interval
        with np.errstate(over="ignore"):
            size = sum(np.abs(value) for value in self._values) + half
        return np.asarray(half + _ROUNDING * size)

    def _laplace_half_widths(self, q: float, method: Method) -> FloatArray | None:
        """Return quantiles in closed form where many different sums of Laplace noises are asked."""
        scales = [law.scale for law in self._laws if isinstance(law, Laplace)]
        if (
            method == "tail-bound"
            or len(scales) < 2
            or np.ndim(scales[0]) + np.ndim(scales[1]) == 0
        ):
            return None
        weight = np.asarray(self.weights)
        return laplace_pair_isf(q, (1.0 - weight) * scales[0], weight * scales[1])

    def _sums(self) -> list[WeightedSum]:
        """Return the law of the error of each estimate; one, where all have the same."""
        second, first = np.ravel(self.weights), 1.0 - np.ravel(self.weights)
        if all(law.shape == () for law in self._laws):
            return weighted_sums(np.array([[first[0], second[0]]]), list(self._laws))
        from scipy.sparse import csr_array

        size = len(first)
        cells = np.arange(size)
        joint = IndependentNoise.from_groups(
            [(law, cells + size * part) for part, law in enumerate(self._laws)], 2 * size
        )
        columns = np.stack([cells, cells + size], axis=1).ravel()
        entries = np.stack([first, second], axis=1).ravel()
        ends = 2 * np.arange(size + 1)
        return weighted_sums(csr_array((entries, columns, ends), shape=(size, 2 * size)), joint)
