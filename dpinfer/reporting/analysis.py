"""What a report says about a release."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from dpinfer.errors import DPInferWarning, InvalidParameterError, NotEstimableError
from dpinfer.estimation import CombinedEstimate, combine
from dpinfer.estimation.summaries import add_published, summary_table
from dpinfer.intervals import release_confint
from dpinfer.releases import Release

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.pivots import Method
    from dpinfer.results.hypothesis import HypothesisResult
    from dpinfer.results.intervals import Intervals


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Combined estimates of a release with intervals and, where values overlap, their agreement.

    Where values have a threshold or clamping bounds, nothing is combined: each value has the
    interval that its publishing rule leaves, and ``fit`` is None.
    """

    release: Release
    fit: CombinedEstimate | None
    alpha: float
    method: str
    seed: int
    consistency: HypothesisResult | None
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, release: Release, *, alpha: float, method: Method, seed: int) -> Self:
        """Analyze a release; warnings become part of the report."""
        if release.has_rule.any():
            if method != "exact":
                raise InvalidParameterError(
                    "method must be left out for a release with a threshold, clamping bounds or "
                    f"bins, got {method!r}: its intervals are conditional on the publishing rule"
                )
            return cls(
                release=release,
                fit=None,
                alpha=alpha,
                method="conditional",
                seed=seed,
                consistency=None,
                warnings=(_not_combined(release),),
            )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DPInferWarning)
            fit = combine(release)
            try:
                consistency = fit.consistency_test(rng=seed)
            except NotEstimableError:  # no noisy value overlaps with others
                consistency = None
        messages = tuple(str(warning.message) for warning in caught)
        return cls(
            release=release,
            fit=fit,
            alpha=alpha,
            method=method,
            seed=seed,
            consistency=consistency,
            warnings=messages,
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The estimates, one row a target."""
        if self.fit is not None:
            return self.fit.summary_frame(alpha=self.alpha, method=self._method)
        frame, release = self.intervals.summary_frame(), self.release
        add_published(frame, np.True_, release.values, release.variance)
        return frame

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals of the published values, each by its publishing rule."""
        return release_confint(self.release, alpha=self.alpha)

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the estimates."""
        return self.release.labels if self.fit is None else self.fit.targets.labels

    def label(self, row: int) -> object:
        """Name of one estimate."""
        if self.fit is not None:
            return self.fit.targets[row]
        return f"value {row}" if self.labels is None else self.labels[row]

    @property
    def _method(self) -> Method:
        return self.method  # type: ignore[return-value]

    def text(self) -> str:
        """Return the analysis as plain text, in which nothing is a command to a terminal."""
        if self.fit is None:
            own = self.intervals
            index = [self.label(row) for row in range(len(self.frame))]
            title = "Each published value by itself"
            parts = [summary_table(title, own.facts, self.frame, index=index, notes=own.notes)]
        else:
            parts = [self.fit.summary(alpha=self.alpha, method=self._method)]
        if self.consistency is not None:
            parts.append(self.consistency.summary())
        parts += [f"Warning: {message}" for message in self.warnings]
        return "".join(map(_shown, "\n\n".join(parts)))


def _not_combined(release: Release) -> str:
    """Say why a release with a publishing rule has no combined estimates."""
    ruled = int(np.count_nonzero(release.has_rule))
    free = len(release) - ruled
    rest = (
        f" Values without a rule, {free} of {len(release)}, can be combined by themselves: "
        "combine(release.select(~release.has_rule))."
        if free
        else ""
    )
    return (
        f"{ruled} of {len(release)} values have a threshold, clamping bounds or bins, so "
        "that what is published of them is not the count plus noise. Sums and other "
        "combinations of them are biased: "
        f"nothing is combined, and each value has its own interval, by its rule.{rest}"
    )


def _shown(letter: str) -> str:
    """Return a letter, or an escape for one that does not print, such as those of a label."""
    if letter == "\n" or letter.isprintable():
        return letter
    return letter.encode("unicode_escape").decode()
