"""A published estimate of the error of what was published, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    FloatArray,
    Locked,
    check_alpha,
    check_array,
    check_flag,
    check_option,
    freeze,
)
from dpinfer._numerics.roots import find_root
from dpinfer.curation._measures import MEASURES, Measure
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation.pivots import METHODS, ROUNDING, Method, sidak
from dpinfer.intervals.counts import count_confint
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Gaussian, Laplace
from dpinfer.mechanisms.samplers import Sampler
from dpinfer.mechanisms.weighted_sum import WeightedSum, weighted_sums
from dpinfer.privacy.composition import compose
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.privacy.of_mechanisms import Drawn
from dpinfer.releases.coerce import noisy
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import attach_labels, check_order
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


def laplace_pair_isf(q: float, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return t with P(sum > t) = q, for q <= 1/2 and scales >= 0 of which one at least is > 0.

    With the scales a >= b, r = b/a and x = t/a, P(sum > t) = e^-x/2·(1 + r·x·φ(z)/(1 + r)) where
    z = x(1 - r)/r and φ(z) = (1 - e^-z)/z, which loses no digits where the scales are alike.
    """
    large, small = np.maximum(first, second), np.minimum(first, second)
    ratio = small / large
    start = np.full(ratio.shape, -np.log(2.0 * q))

    def excess(x: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        r = ratio[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = x * (1.0 - r) / r
            phi = np.where(z > 0, -np.expm1(-z) / z, 1.0)
        part = np.where(r > 0, r * x * phi / (1.0 + r), 0.0)
        return start[index] - x + np.log1p(part)

    # the bracket grows to where the second noise has been paid for
    return large * find_root(excess, start, start + 1.0, expand=True)[1]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CorrectedEstimate(Locked, Listed, Plotted):
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
        """Weight corrected values, and perhaps independent unprocessed ones, by their variances."""
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
        method : {"exact", "tail-bound", "asymptotic"}
            ``"exact"``: quantiles of the noise, or of the weighted sum of two noises.
            ``"tail-bound"``: for all values together, by the union bound, and Chernoff's for a
            weighted sum. ``"asymptotic"``: normal quantiles, offered for comparison.
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
        """Return a DataFrame with a row for each value; arguments are those of :meth:`conf_int`.

        Its columns are ``estimate``, ``std_err``, ``ci_lower``, ``ci_upper`` and ``published``.
        """
        frame = self.conf_int(alpha, method).summary_frame()
        frame.insert(1, "std_err", np.ravel(self.bse))
        frame["published"] = np.ravel(self.published)
        return frame

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.params), self.labels

    def _table(self, alpha: float = 0.05, method: Method = "exact") -> Table:
        frame = self.summary_frame(alpha, method)
        return Table(
            "Corrected values",
            [
                ("Method", method),
                ("Level", f"{1 - alpha:.6g}"),
                ("Estimates from", ("error estimate", "both values")[len(self._values) - 1]),
                ("Values", len(frame)),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            frame,
            index=frame.index if self.labels is not None else None,
            notes=("unbiased whatever was done to the published values",),
            alike=tuple(frame.columns),
        )

    def __repr__(self) -> str:
        return f"CorrectedEstimate({np.size(self.params)} values)"

    def _half_widths(self, alpha: float, method: Method, tests: int) -> FloatArray:
        laws, weight = self._laws, np.asarray(self.weights)
        gaussian = all(isinstance(law, Gaussian) for law in laws)
        if method == "asymptotic" or (gaussian and method == "exact"):
            return np.asarray(-special.ndtri(sidak(alpha, tests) / 2) * np.asarray(self.bse))
        q = alpha / (2 * tests) if method == "tail-bound" else sidak(alpha, tests) / 2
        if len(laws) == 1:
            return np.asarray(laws[0].isf(q))
        scales = [law.scale for law in laws if isinstance(law, Laplace) and method == "exact"]
        if len(scales) == 2 and np.ndim(scales[0]) + np.ndim(scales[1]):
            return laplace_pair_isf(q, (1.0 - weight) * scales[0], weight * scales[1])
        sums = self._sums()
        bounds = {
            id(law): float(law.chernoff(q) if method == "tail-bound" else law.isf(q))
            for law in sums
        }
        half = np.array([bounds[id(law)] for law in sums])
        half = half.reshape(weight.shape if len(sums) > 1 else ())
        if not any(part.is_integer for law in laws for part, _ in groups(law, 1)):
            return half
        # keeps rounding from cutting off an atom of the error at the end of an interval
        with np.errstate(over="ignore"):
            size = sum(np.abs(value) for value in self._values) + half
        return np.asarray(half + ROUNDING * size)

    def _sums(self) -> list[WeightedSum]:
        """Return the law of the error of each estimate; one, where all have the same."""
        second = np.ravel(self.weights)
        entries = np.stack([1.0 - second, second], axis=1)
        if all(law.shape == () for law in self._laws):
            return weighted_sums(entries[:1], list(self._laws))
        from scipy.sparse import csr_array

        size = second.size
        cells = np.arange(size)
        joint = IndependentNoise.from_groups(
            [(law, cells + size * part) for part, law in enumerate(self._laws)], 2 * size
        )
        columns = np.stack([cells, cells + size], axis=1).ravel()
        ends = 2 * np.arange(size + 1)
        matrix = csr_array((entries.ravel(), columns, ends), shape=(size, 2 * size))
        return weighted_sums(matrix, joint)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ErrorEstimate(Drawn, Locked, Listed, Plotted):
    """Noisy error of published values; made by :func:`dpinfer.curation.spend_on_error`.

    Everything in it is public, unless it is ``simulated``: then it carries no ``guarantee``. A
    positive error says that too little was published.

    Attributes
    ----------
    published : float or array of float, shape (k,), or Series
        The values whose error it is.
    estimate : float or array of float, shape (k,), or Series
        The error plus noise: one for each value where ``measure`` is ``"signed"``, one number for
        all values otherwise.
    mechanism : NoiseLaw
        The law of that noise.
    measure : {"signed", "l1", "squared"}
        What it estimates: truth minus published, Σ abs(truth - published), or
        Σ min(abs(truth - published), clip)².
    clip : float or None
        The bound C of each error in the squared error.
    sensitivity : float
        How far one record can move the measure, with the published values fixed.
    sampler : {"simulated", "opendp"}
        What drew the noise.
    nominal : Guarantee
        What noise of this law guarantees where it is drawn and added exactly: the ``guarantee`` of
        the error estimate itself if it was drawn by OpenDP.
    release : Guarantee or None
        That of the release, where it was stated.
    """

    published: Any
    estimate: Any
    mechanism: NoiseLaw
    measure: Measure
    clip: float | None
    sensitivity: float
    sampler: Sampler
    nominal: Guarantee
    release: Guarantee | None
    labels: pd.Index | None

    @property
    def spent(self) -> Guarantee:
        """Guarantee of release and error estimate together, by sequential composition.

        Raises
        ------
        InvalidParameterError
            If the guarantee of the release was not stated.
        IncompatibleReleaseError
            If the error estimate is simulated, and guarantees nothing.
        """
        if self.release is None:
            raise InvalidParameterError(
                "release must be given to spend_on_error for the budget spent in all: the "
                "guarantee of what was published, such as PureDP(1.0)"
            )
        if self.guarantee is None:
            raise IncompatibleReleaseError(
                "the error estimate is simulated and guarantees nothing: draw it with "
                "sampler='opendp'; what both would spend is compose([release, nominal])"
            )
        return compose([self.release, self.guarantee])

    def conf_int(
        self, alpha: float = 0.05, method: Method = "exact", *, simultaneous: bool = False
    ) -> Intervals:
        """Confidence intervals for the error.

        Parameters
        ----------
        alpha : float, default 0.05
            One minus the confidence level, in (0, 1).
        method : {"exact", "tail-bound", "asymptotic"}
            As for :func:`dpinfer.count_confint`.
        simultaneous : bool, default False
            Whether the errors of all values shall be covered together.

        Returns
        -------
        Intervals
            Error estimate ± t, with t the quantile of the noise; intersected with what a measure
            can be: no less than 0, and no more than k·clip² for the squared error of k values.
        """
        intervals = count_confint(
            self.estimate,
            mechanism=self.mechanism,
            alpha=alpha,
            method=method,
            simultaneous=simultaneous,
        )
        if self.measure == "signed":
            return intervals
        most = None if self.clip is None else np.size(self.published) * self.clip**2
        return intervals.restrict(lower=0.0, upper=most)

    def value_conf_int(
        self,
        alpha: float = 0.05,
        method: Method = "exact",
        *,
        simultaneous: bool = False,
        integer: bool = False,
        lower: float | None = None,
        upper: float | None = None,
    ) -> Intervals:
        """Confidence intervals for the confidential values: published plus error.

        Parameters
        ----------
        alpha, method
            As for :meth:`conf_int`.
        simultaneous : bool, default False
            Whether all values shall be covered together. From an L1 or a squared error they are.
        integer, lower, upper
            What is known of the confidential values; see :func:`dpinfer.count_confint`.

        Returns
        -------
        Intervals
            Published + (error estimate ± t) from signed errors; the estimates are the corrected
            values. From an L1 error, published ± u with u its upper bound at the full ``alpha``;
            from a squared error, published ± √u. They cover the noise only.

        Notes
        -----
        No value is further from the truth than the L1 error, nor than the root of the squared
        error if that is below the clipping bound; otherwise the intervals are the whole line.
        Where the bound on a measure is below 0, which no error is, the interval is empty.
        """
        if self.measure == "signed":
            return self.corrected().conf_int(
                alpha,
                method,
                simultaneous=simultaneous,
                integer=integer,
                lower=lower,
                upper=upper,
            )
        alpha = check_alpha(alpha)
        published = np.asarray(self.published)
        half = self._largest_error(alpha, method)
        with np.errstate(over="ignore"):  # an infinite end is no narrower than it should be
            ends = (published - half, published + half)
        if half < 0:
            ends = (np.full(published.shape, np.inf), np.full(published.shape, -np.inf))
        intervals = Intervals(
            estimate=published,
            lower=ends[0],
            upper=ends[1],
            alpha=alpha,
            method=method,
            uncertainty="noise",
            simultaneous=True,
            labels=self.labels,
        )
        return intervals.restrict(lower=lower, upper=upper, integer=integer)

    def corrected(
        self, unprocessed: Any = None, *, mechanism: Mechanism | None = None
    ) -> CorrectedEstimate:
        """Unbiased estimates of the confidential values.

        Parameters
        ----------
        unprocessed : float, array of float, shape (k,), Series, Release or fit, optional
            The noisy values before the processing, where they were published as well. They must
            have been, whatever they are: to take as unprocessed only those values that a bound
            happened to leave alone makes the estimates biased.
        mechanism : NoiseLaw or sequence of NoiseLaw, optional
            The law of their noise; left out where ``unprocessed`` carries it.

        Returns
        -------
        CorrectedEstimate
            Published plus error estimate; combined with the unprocessed values by inverse variance.

        Raises
        ------
        IncompatibleReleaseError
            If the measure is not the signed error, which alone says in which direction the
            published values are off.

        Notes
        -----
        Published + (truth - published + noise) is truth + noise: the corrected value is what a
        noisy release of the truth with the budget of the error estimate would have been, and the
        published value has no part in it. Only a second unbiased value makes it better.
        """
        if self.measure != "signed":
            raise IncompatibleReleaseError(
                f"measure must be 'signed' to correct the published values, got {self.measure!r}: "
                "an error without its sign does not say in which direction they are off"
            )
        published = np.asarray(self.published)
        with np.errstate(over="ignore"):
            values = check_array(published + np.asarray(self.estimate), "published + estimate")
        if unprocessed is None:
            if mechanism is not None:
                raise InvalidParameterError("mechanism must be left out without unprocessed values")
            return CorrectedEstimate.of(published, (values,), (self.mechanism,), self.labels)
        second = noisy(unprocessed, mechanism=mechanism, name="unprocessed")
        second.need(independent=True, unruled=True, who="corrected")
        if second.shape != values.shape:
            raise InvalidParameterError(
                f"unprocessed must have the shape {values.shape} of what was published, got "
                f"{second.shape}"
            )
        check_order(second.labels, self.labels, "unprocessed", "what was published")
        return CorrectedEstimate.of(
            published,
            (values, second.values.reshape(second.shape)),
            (self.mechanism, second.marginal),
            second.labels if self.labels is None else self.labels,
        )

    def summary_frame(self, alpha: float = 0.05, method: Method = "exact") -> pd.DataFrame:
        """Return a DataFrame; arguments are those of :meth:`conf_int`.

        For signed errors it has a row for each value, with the columns ``published``, ``error``,
        ``std_err``, ``error_lower``, ``error_upper``, ``value_lower`` and ``value_upper``; for
        other measures one row without published values.
        """
        import pandas as pd

        errors = self.conf_int(alpha, method)
        columns = {
            "error": self.estimate,
            "std_err": np.broadcast_to(self.mechanism.std, np.shape(self.estimate)),
            "error_lower": errors.lower,
            "error_upper": errors.upper,
        }
        if self.measure == "signed":
            value = self.value_conf_int(alpha, method)
            columns = {"published": self.published, **columns}
            columns |= {"value_lower": value.lower, "value_upper": value.upper}
        index = self.labels if self.measure == "signed" else None
        frame = pd.DataFrame({name: np.ravel(x) for name, x in columns.items()}, index=index)
        frame.attrs = {"alpha": alpha, "method": method, "uncertainty": "noise"}
        return frame

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.estimate), self.labels if self.measure == "signed" else None

    def _table(self, alpha: float = 0.05, method: Method = "exact") -> Table:
        frame = self.summary_frame(alpha, method)
        facts: list[tuple[str, object]] = [
            ("Measure", self.measure),
            ("Level", f"{1 - alpha:.6g}"),
            ("Noise", type(self.mechanism).__name__),
            ("Sensitivity", f"{self.sensitivity:.6g}"),
        ]
        if self.clip is not None:
            facts.append(("Clipped at", f"{self.clip:.6g}"))
        facts += [
            ("Error covered", ERROR_COVERED["noise"]),
            *self._facts("Spent on the error estimate"),
        ]
        if self.release is not None:
            total = compose([self.release, self.nominal]).in_words()
            facts.append(("Would be: spent in all" if self.simulated else "Spent in all", total))
        return Table(
            MEASURES[self.measure].title,
            facts,
            frame,
            index=frame.index if self.labels is not None and self.measure == "signed" else None,
            alike=tuple(frame.columns),
        )

    def __repr__(self) -> str:
        return (
            f"ErrorEstimate({self.measure}, {np.size(self.published)} values, {self.mechanism!r}, "
            f"{'simulated: no guarantee' if self.simulated else self.guarantee})"
        )

    def _largest_error(self, alpha: float, method: Method) -> float:
        """Return a bound on the error of every value, at the full ``alpha``; negative if none."""
        quantile = self.mechanism.isf(alpha)
        if check_option(method, "method", METHODS) == "asymptotic":
            quantile = -special.ndtri(alpha) * self.mechanism.std
        bound = float(np.asarray(self.estimate) + quantile)
        if self.clip is None or bound < 0:
            return bound
        return float(np.sqrt(bound)) if bound < self.clip**2 else np.inf
