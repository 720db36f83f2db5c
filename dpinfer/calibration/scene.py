"""What is simulated: confidential values, the noise, and the rule by which they are published."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_array, freeze, show
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._size_tests import StudyModel
from dpinfer.hypothesis_tests.models import NullModel
from dpinfer.mechanisms import Mechanism, NoiseLaw, as_noise
from dpinfer.releases._fields import Bound, check_bound, check_clamp

_REPS_IN_BLOCK = 4096
_VALUES_IN_BLOCK = 1 << 18
"""Releases, and values, drawn at a time."""


class Drawn(NamedTuple):
    """Confidential values, what was published, and where: arrays of shape (r,) or (r, m)."""

    counts: FloatArray
    published: FloatArray
    shown: NDArray[np.bool_]


@dataclass(frozen=True)
class Scene:
    """How releases arise; can be pickled, for workers.

    Parameters
    ----------
    truth : array of float, shape () or (m,), or a model
        The confidential values, or the law from which they are drawn anew for each release.
    noise : NoiseLaw
        The law of the noise, of shape () or (m,).
    threshold : float or array of float, shape (m,)
        Noisy values are published if they reach it; -inf publishes all.
    clamp : pair of float or arrays of float, shape (m,)
        The bounds into which noisy values are moved before.
    """

    truth: FloatArray | StudyModel
    noise: NoiseLaw
    threshold: Bound
    clamp: tuple[Bound, Bound]

    @classmethod
    def checked(
        cls, truth: Any, mechanism: Mechanism, threshold: Any = None, clamp: Any = None
    ) -> Self:
        """Check the arguments of a study."""
        known = truth if isinstance(truth, get_args(StudyModel)) else _checked_values(truth)
        size = max(1, prod(known.shape))
        noise = as_noise(mechanism, size, selected=True)
        if not known.shape and noise.shape:
            noise = noise.take(0)
        bound = -np.inf if threshold is None else check_bound(threshold, "threshold", size)
        ends = check_clamp(clamp, size) or (-np.inf, np.inf)
        return cls(known, noise, bound, ends)

    @property
    def shape(self) -> tuple[int, ...]:
        """``()`` for one value, ``(m,)`` for m values."""
        return self.truth.shape

    @property
    def block(self) -> int:
        """Releases drawn at a time."""
        return min(_REPS_IN_BLOCK, max(1, _VALUES_IN_BLOCK // max(1, prod(self.shape))))

    def draw(self, size: int, seed: np.random.SeedSequence) -> Drawn:
        """Draw independent releases."""
        rng = np.random.default_rng(seed)
        if isinstance(self.truth, NullModel):
            counts = self.truth.draw(size, rng)
        else:
            counts = np.array(np.broadcast_to(self.truth, (size, *self.shape)))
        noisy = np.clip(counts + self.noise.rvs(counts.shape, rng=rng), *self.clamp)
        for array in (counts, noisy):
            array.flags.writeable = False  # no procedure shall change what the next one looks at
        return Drawn(counts, noisy, np.asarray(noisy >= self.threshold))

    def published_share(self) -> float:
        """Probability that a value is published, that of the least likely one of several."""
        if not np.any(np.isfinite(self.threshold)):
            return 1.0
        known = self.truth
        if isinstance(known, NullModel):  # about, from some of them
            known = known.draw(_REPS_IN_BLOCK, np.random.default_rng(0))
        reached = np.where(
            np.asarray(self.clamp[0]) >= self.threshold,
            1.0,
            self.noise.cdf(known - self.threshold),  # P(e >= x) = P(e <= -x)
        )
        return float(reached.reshape(-1, *self.shape).mean(axis=0).min())

    def facts(self) -> dict[str, str]:
        """Describe the scene in words, for those who want to set it up again."""
        known = self.truth
        truth = show(known) if isinstance(known, NullModel) else show(known.tolist())
        facts = {"truth": truth, "mechanism": show(self.noise)}
        if np.any(np.isfinite(self.threshold)):
            facts["threshold"] = show(np.asarray(self.threshold).tolist())
        if np.any(np.isfinite(self.clamp[0])) or np.any(np.isfinite(self.clamp[1])):
            facts["clamp"] = show(tuple(np.asarray(end).tolist() for end in self.clamp))
        return facts


def _checked_values(truth: Any) -> FloatArray:
    try:
        values = check_array(truth, "truth")
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"{error}; truth is confidential values, or a model of dpinfer.hypothesis_tests.models"
        ) from error
    if values.ndim > 1:
        raise InvalidParameterError(
            f"truth must be a number or one-dimensional, got shape {values.shape}"
        )
    return freeze(values)
