"""Every error and warning that dpinfer raises on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DPInferError(Exception):
    """Base of every error that dpinfer raises on purpose."""


class InvalidParameterError(DPInferError, ValueError):
    """An argument is outside what is allowed; the message names it, its value and what to do."""


class IncompatibleReleaseError(DPInferError, ValueError):
    """The parts of a release, or a release and a request, do not fit together.

    ``problems`` holds all that is wrong with the files of a release, each a
    :class:`~dpinfer.releases.Problem`; it is empty where the error is about something else.
    """

    def __init__(self, *message: object, problems: Sequence[Any] = ()) -> None:
        super().__init__(*message)
        self.problems: tuple[Any, ...] = tuple(problems)


class NotEstimableError(DPInferError, ValueError):
    """The published values do not determine the requested quantity."""


class ConvergenceError(DPInferError, RuntimeError):
    """A numerical method could not reach the accuracy that its result states."""


class MissingExtraError(DPInferError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class DPInferWarning(UserWarning):
    """Base of every warning that dpinfer issues."""


class RoundedValuesWarning(DPInferWarning):
    """Whole numbers were given noise with a density, which leaves none: state the rounding."""


class ApproximationWarning(DPInferWarning):
    """The result is an approximation where an exact one was expected."""


class PriorConflictWarning(DPInferWarning):
    """A posterior mean is outside of what the published values say without a prior."""
