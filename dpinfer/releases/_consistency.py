"""Whether the parts of a release fit together."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.mechanisms import Exact, NoiseLaw, groups
from dpinfer.mechanisms.rounded import warn_of_rounding
from dpinfer.queries import Workload, check_counting
from dpinfer.queries.domain import show_label
from dpinfer.releases._fields import Bound


class Published(Protocol):
    """What of a release has to fit together."""

    @property
    def values(self) -> FloatArray:
        """The published values."""
        ...

    @property
    def workload(self) -> Workload:
        """The queries that they answer."""
        ...

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of their noise."""
        ...

    @property
    def threshold(self) -> Bound | None:
        """The least value that is published."""
        ...

    @property
    def clamp(self) -> tuple[Bound, Bound] | None:
        """The bounds that values were moved into."""
        ...


def check_consistency(release: Published) -> None:
    """Refuse values and queries that the noise and the publishing rule exclude."""
    check_counting(release.workload, release.mechanism)
    _check_publishing_rule(release)
    _check_whole_values(release)
    lower, upper = release.clamp if release.clamp is not None else (-np.inf, np.inf)
    free = np.flatnonzero((release.values != lower) & (release.values != upper))
    warn_of_rounding(release.values[free], release.mechanism.take(free), "values")


def _check_publishing_rule(release: Published) -> None:
    values = release.values
    lower, upper = release.clamp if release.clamp is not None else (-np.inf, np.inf)
    _refuse(release, values < lower, "below its clamping bound", lower)
    _refuse(release, values > upper, "above its clamping bound", upper)
    if release.threshold is not None:
        below = values < release.threshold
        _refuse(release, below, "below the threshold of publication", release.threshold)


def _refuse(release: Published, bad: NDArray[np.bool_], words: str, bound: Bound) -> None:
    if bad.any():
        position = int(np.flatnonzero(bad)[0])
        limit = np.broadcast_to(bound, bad.shape)[position]
        raise IncompatibleReleaseError(
            f"the value {release.values[position]:g} in {_row(release, position)} must not be "
            f"{words} {limit:g}"
        )


def _check_whole_values(release: Published) -> None:
    """Refuse fractions where integer noise was added to whole numbers.

    Such a value was post-processed (scaled, averaged, fitted), so that its error does not have
    the law of the noise any more. A value at a clamping bound is that bound.
    """
    fraction = release.values != np.floor(release.values)
    if not fraction.any():
        return
    if release.clamp is not None:
        lower, upper = release.clamp
        fraction &= (release.values != lower) & (release.values != upper)
    for law, cells in groups(release.mechanism, len(release.values)):
        if law.is_integer and not isinstance(law, Exact) and fraction[cells].any():
            position = int(cells[np.flatnonzero(fraction[cells])[0]])
            raise IncompatibleReleaseError(
                f"the value in {_row(release, position)} must be a whole number under "
                f"{type(law).__name__} noise, got {release.values[position]}: a value that was "
                "scaled or fitted after the noise was added does not have this law"
            )


def _row(release: Published, position: int) -> str:
    """Name a value in a message: its position and its label."""
    labels = release.workload.labels
    label = "" if labels is None else f" ({show_label(labels[position])})"
    return f"row {position}{label}"
