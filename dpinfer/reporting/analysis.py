"""What a report says about a release."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from dpinfer.errors import DPInferWarning, NotEstimableError
from dpinfer.estimation import CombinedEstimate, combine
from dpinfer.releases import Release

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.pivots import Method
    from dpinfer.results.hypothesis import HypothesisResult


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Combined estimates of a release with intervals and, where values overlap, their agreement."""

    fit: CombinedEstimate
    alpha: float
    method: Method
    seed: int
    consistency: HypothesisResult | None
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, release: Release, *, alpha: float, method: Method, seed: int) -> Self:
        """Analyze a release; warnings become part of the report."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DPInferWarning)
            fit = combine(release)
            try:
                consistency = fit.consistency_test(rng=seed)
            except NotEstimableError:  # no noisy value overlaps with others
                consistency = None
        messages = tuple(str(warning.message) for warning in caught)
        return cls(
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
        return self.fit.summary_frame(alpha=self.alpha, method=self.method)

    def text(self) -> str:
        """Return the analysis as plain text, in which nothing is a command to a terminal."""
        parts = [self.fit.summary(alpha=self.alpha, method=self.method)]
        if self.consistency is not None:
            parts.append(self.consistency.summary())
        parts += [f"Warning: {message}" for message in self.warnings]
        return "".join(map(_shown, "\n\n".join(parts)))


def _shown(letter: str) -> str:
    """Return a letter, or an escape for one that does not print, such as those of a label."""
    if letter == "\n" or letter.isprintable():
        return letter
    return letter.encode("unicode_escape").decode()
