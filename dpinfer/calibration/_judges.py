"""Procedures applied to simulated releases, and what counts as an error of each.

Judges are objects, so that other processes can be sent them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_array, show
from dpinfer.calibration._tally import ROUNDING, Judged
from dpinfer.calibration.scene import Drawn
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.consistency import Disagreement
from dpinfer.intervals import release_confint
from dpinfer.releases import Release

Procedure = Callable[[FloatArray], Any]
"""A function of published values: of many releases at once, or of one."""


def procedures(function: Any, which: str, beside: Any) -> list[tuple[Procedure, str]]:
    """Return what is to be judged, and what is looked at beside, with their names in messages."""
    given = [(function, which)] if beside is None else [(function, which), (beside, "beside")]
    for one, name in given:
        if not callable(one):
            raise InvalidParameterError(
                f"{name} must be a function of published values, got {show(one)}"
            )
    return given


def name_of(function: Any, name: str | None) -> str:
    """Return the name of a procedure: that given, or that of the function, which may be partial."""
    if name is not None:
        if not isinstance(name, str):
            raise InvalidParameterError(f"name must be a string, got {show(name)}")
        return name
    inner = getattr(function, "func", function)
    found = str(getattr(inner, "__name__", type(inner).__name__))
    return "as given" if found == "<lambda>" else found


@dataclass(frozen=True)
class IntervalJudge:
    """Counts intervals that miss what they are about."""

    function: Procedure
    which: str
    target: Any
    alpha: float
    one_by_one: bool
    together: bool

    def __call__(self, drawn: Drawn) -> Judged | None:
        counts, published = drawn.counts, drawn.published
        if not published.ndim > 1:
            counts, published = counts[drawn.shown], published[drawn.shown]
        if not len(published):
            return None
        aim = self._aim(counts)
        if self.one_by_one:
            each = aim if self._is_drawn else np.broadcast_to(aim, (len(published), *aim.shape))
            rows = [self._measured(*pair) for pair in zip(published, each, strict=True)]
            inside, width = (np.array(part) for part in zip(*rows, strict=True))
        else:
            inside, width = self._measured(published, aim)
        inside, width = (
            _by_release(part, len(published), self.which, "an interval") for part in (inside, width)
        )
        if self.together:
            inside = np.asarray(inside.all(axis=1, keepdims=True))
            width = width.mean(axis=1, keepdims=True)
        return Judged(~inside, width)

    @property
    def _is_drawn(self) -> bool:
        """Whether each release has a target of its own."""
        return self.target is None or callable(self.target)

    def _aim(self, counts: FloatArray) -> FloatArray:
        """Return what is to be covered, in a shape that broadcasts against the intervals."""
        if self.target is None:
            return counts
        if callable(self.target):
            aim = check_array(self.target(counts), "target(counts)")
            if aim.ndim not in (1, 2) or len(aim) != len(counts):
                raise InvalidParameterError(
                    f"target must return an answer for each of {len(counts)} releases, got shape "
                    f"{aim.shape}"
                )
            return aim
        return np.asarray(self.target)

    def _measured(
        self, published: FloatArray, aim: FloatArray
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """Return which intervals hold what they are about, and their widths."""
        found = self.function(published)
        stated = getattr(found, "alpha", self.alpha)
        if not np.isclose(stated, self.alpha, rtol=1e-9, atol=0.0):
            raise InvalidParameterError(
                f"alpha must be that of the intervals, {stated:g}, got {self.alpha:g}"
            )
        if not hasattr(found, "contains"):
            lower, upper = self._ends(found)
            self._check_shapes(lower.shape, np.shape(aim))
            with np.errstate(invalid="ignore"):  # of two infinite ends on one side
                width = np.where(lower < upper, upper - lower, 0.0)
            return (lower <= aim) & (aim <= upper), width
        width = np.asarray(found.width)
        self._check_shapes(width.shape, np.shape(aim))
        return np.asarray(found.contains(aim)), width

    def _ends(self, found: Any) -> tuple[FloatArray, FloatArray]:
        try:
            low, high = found
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"{self.which} must return intervals, or a pair of their ends, got {show(found)}"
            ) from error
        name = f"the ends that {self.which} returns"
        lower, upper = (check_array(end, name, finite=False) for end in (low, high))
        if lower.shape != upper.shape:
            raise InvalidParameterError(
                f"{name} must have one shape, got {lower.shape} and {upper.shape}"
            )
        return lower, upper

    def _check_shapes(self, found: tuple[int, ...], aim: tuple[int, ...]) -> None:
        """Refuse intervals that do not fit what they are about, one for each."""
        fits = aim == found if self._is_drawn else aim in (found, found[-1:], ())
        if not fits:
            raise InvalidParameterError(
                f"target must have the shape of the intervals that {self.which} returns, {found}, "
                f"got {aim}: give what the intervals are about"
            )


@dataclass(frozen=True)
class TestJudge:
    """Counts hypotheses that are rejected, which are true."""

    function: Procedure
    which: str
    alpha: float
    one_by_one: bool

    def __call__(self, drawn: Drawn) -> Judged:
        published = drawn.published
        if self.one_by_one:
            found = np.array([self._pvalues(release) for release in published])
        else:
            found = self._pvalues(published)
        pvalue = _by_release(found, len(published), self.which, "a p-value")
        return Judged(pvalue <= self.alpha * (1.0 + ROUNDING))

    def _pvalues(self, published: FloatArray) -> FloatArray:
        found = self.function(published)
        pvalue: Any = getattr(found, "pvalue", found)
        return check_array(pvalue, f"what {self.which} returns", ge=0, le=1)


@dataclass(frozen=True)
class ValuesJudge:
    """Counts misses of the intervals of published values."""

    release: Release
    alpha: float
    method: Literal["conditional", "naive"]

    def __call__(self, drawn: Drawn) -> Judged | None:
        release, shown = self.release, drawn.shown
        if not shown.any():
            return None
        column = np.nonzero(shown)[1]

        def each(bound: Any) -> Any:
            return bound if np.ndim(bound) == 0 else bound[column]

        clamp = None if release.clamp is None else tuple(each(end) for end in release.clamp)
        law = release.mechanism.take(column) if release.mechanism.shape else release.mechanism
        published = Release(
            drawn.published[shown],
            mechanism=law,
            threshold=None if release.threshold is None else each(release.threshold),
            clamp=clamp,
        )
        found = release_confint(published, alpha=self.alpha, method=self.method)
        wrong, width = np.zeros(shown.shape, dtype=bool), np.zeros(shown.shape)
        wrong[shown] = ~np.asarray(found.contains(drawn.counts[shown]))
        width[shown] = found.width
        return Judged(wrong, width, shown)


@dataclass(frozen=True)
class LinearJudge:
    """Counts misses of estimates that are linear, with intervals of a fixed width."""

    weights: Any
    target: FloatArray
    half: FloatArray

    def __call__(self, drawn: Drawn) -> Judged:
        errors = np.abs(np.asarray(self.weights @ drawn.published.T).T - self.target)
        return Judged(errors > self.half, np.broadcast_to(2.0 * self.half, errors.shape))


@dataclass(frozen=True)
class ConsistencyJudge:
    """Counts releases that the consistency test finds to disagree."""

    overlap: Disagreement
    critical: float

    def __call__(self, drawn: Drawn) -> Judged:
        statistic = self.overlap.of((drawn.published - drawn.counts).T)
        return Judged((statistic >= self.critical)[:, np.newaxis])


def _by_release(found: NDArray[Any], releases: int, which: str, what: str) -> NDArray[Any]:
    """Return answers as rows, one for each release; refuse those of another shape."""
    if found.ndim not in (1, 2) or len(found) != releases:
        raise InvalidParameterError(
            f"{which} must return {what}, or k of them, for each of {releases} releases, got shape "
            f"{found.shape}"
        )
    return found.reshape(releases, -1)
