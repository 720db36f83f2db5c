"""Two noisy counts whose test is that of a share of their total, as of rates and of paired answers.

Given the total M of the published counts the test compares T₁ - share·M with a law that depends on
M through whole numbers only: so the critical contrast is constant between the totals at which the
test turns to another number of trials.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dpinfer._check import FloatArray
from dpinfer.estimation.unknown_trials import UnknownTrials
from dpinfer.hypothesis_tests._plug_in import work as guaranteed_work
from dpinfer.hypothesis_tests.power._two_counts import Method, TwoCounts
from dpinfer.hypothesis_tests.proportions import NOISY_TRIALS_NULLS as NULLS
from dpinfer.results.simulation import Simulation

_UNUSED = Simulation(reps=1, rng=np.random.default_rng(0))

_MOST_KNOTS = 64
"""Numbers of totals up to which critical contrasts are found between all turns."""

_MOST_KNOWN = 1 << 20
"""P-values that are kept: some 200 MB."""

_SMOOTH = 0.1
"""Counts by which critical ones go up from total to total at most, where noise is not narrow."""

_PVALUE: dict[Method, float] = {"exact": 4e3, "plug-in": 3e2}
"""Work of a p-value beside its sums."""

Known = dict[tuple[Method, float, float], float]
"""P-values of pairs of published counts, by the version of the test."""


@dataclass(frozen=True, eq=False)
class ShareOfTotal(TwoCounts):
    """Two noisy counts, of which the first has a certain share under the null hypothesis.

    P-values depend on the published counts, the share and the noise only. Those that take time are
    kept, for further true laws and levels.

    Parameters
    ----------
    known : dict
        P-values for this share and noise; more are added.
    """

    known: Known = field(default_factory=dict, kw_only=True)

    def pvalues(
        self, first: FloatArray, second: FloatArray, method: Method | None = None
    ) -> FloatArray:
        """P-values of pairs of published counts, shape (m,)."""
        method = method or self.method
        if method == "normal":
            return NULLS[method](self._test(first, second), self.alternative, _UNUSED)[0]
        keys = [(method, *pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
        if len(self.known) + len(keys) > _MOST_KNOWN:
            self.known.clear()
        if new := {key: row for row, key in enumerate(keys) if key not in self.known}:
            rows = list(new.values())
            test = self._test(first[rows], second[rows])
            found = NULLS[method](test, self.alternative, _UNUSED)[0]
            self.known.update(zip(new, found.tolist(), strict=True))
        return np.array([self.known[key] for key in keys])

    @property
    @abstractmethod
    def _share(self) -> float:
        """Share of the total that the first count has under the null hypothesis."""

    def _test(self, first: FloatArray, second: FloatArray) -> UnknownTrials:
        return UnknownTrials(
            count=first,
            nobs=first + second,
            value=np.full(first.shape, self._share),
            noise=self.laws[0].noise,
            nobs_noise=self.laws[1].noise,
            is_total=True,
            nuisance_alpha=self.nuisance_alpha,
            shape=first.shape,
            labels=None,
        )

    def _contrast(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray((first - self._share * (first + second)) / self._unit)

    def _first(self, total: FloatArray, contrast: FloatArray) -> FloatArray:
        return np.asarray(self._share * total + contrast * self._unit)

    @cached_property
    def _unit(self) -> float:
        """Standard deviation of T₁ - share·M under the null hypothesis, about."""
        share = self._share
        sampling = share * (1.0 - share) * max(self._moments[0], 1.0)
        return float(np.sqrt(sampling + self._noise_variance))

    @property
    def _noise_variance(self) -> float:
        """Variance of the noise in T₁ - share·M."""
        first, second = (float(law.noise.variance) for law in self.laws)
        return (1.0 - self._share) ** 2 * first + self._share**2 * second

    @cached_property
    def _least_pvalue(self) -> float:
        """The chance that the confidence set misses the total, which has no noise to be missed."""
        if self.method != "exact":
            return 0.0
        nothing = np.zeros(1)
        return float(self._test(nothing, nothing).confidence_set[2][0])

    @property
    def _work(self) -> float:
        if self.method == "normal":
            return 0.0
        total = np.array([self._moments[0]])
        test = self._test(self._share * total, (1.0 - self._share) * total)
        if self.method == "exact":
            work = float(guaranteed_work(test, self.alternative)[0])
        else:
            work = float(test.work(self.alternative, is_guaranteed=False)[0])
        return _PVALUE[self.method] + 2.0 * work

    @cached_property
    def _turns(self) -> FloatArray:
        """Totals at which the tests turn to another number of trials; none if they are too many.

        They take the whole numbers nearest to the total and near to a certain distance from it.
        """
        knots = super()._knots
        low, high = np.floor(knots[0]), np.ceil(knots[-1])
        offsets = np.array([0.5])
        if self.method == "exact" and not self._is_whole:
            _, law, _ = self._test(np.zeros(1), np.zeros(1)).groups[0]
            reach = float(law._isf(np.asarray(0.5 * self.nuisance_alpha))) % 1.0
            offsets = np.unique([0.5, reach, 1.0 - reach])
        if (high - low) * offsets.size > _MOST_KNOTS:
            return np.zeros(0)
        return np.sort(np.add.outer(np.arange(low - 1.0, high + 1.0), offsets).ravel())

    @property
    def _knots(self) -> FloatArray:
        """Totals in the middle between turns, or some that are far apart."""
        turns = self._turns
        if turns.size:
            return np.asarray(0.5 * (turns[1:] + turns[:-1]))
        return np.rint(super()._knots) if self._is_whole else super()._knots

    def _missed(self, contrast: FloatArray) -> float:
        """How far critical contrasts may be from those between which they lie."""
        if self._turns.size:  # whole totals are knots themselves
            return 0.0 if self._is_whole else float(np.abs(np.diff(contrast)).max())
        narrow = self._is_whole or self._noise_variance < 1.0
        return super()._missed(contrast) + (1.0 if narrow else _SMOOTH) / self._unit
