"""Bayes' rule over a finite set of possible data sets, for many outputs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.semantics._channels import Channel

_BLOCK = 4_000_000
"""Log likelihoods that are held at a time."""


@dataclass(frozen=True, eq=False)
class Worlds:
    """Possible data sets, their prior, their secrets, and the world without the record."""

    prior: FloatArray
    channel: Channel
    secrets: tuple[Any, ...]
    group: NDArray[np.intp]
    without: Channel | None
    rest: NDArray[np.intp] | None

    @classmethod
    def build(
        cls,
        prior: FloatArray,
        channel: Channel,
        names: Sequence[Any],
        without: Channel | None,
        rest: Sequence[Any] | None,
    ) -> Worlds:
        """Return them with numbers for the secrets and the rests."""
        secrets, group = _numbered(names, "secret")
        others = None if rest is None else _numbered(rest, "rest")[1]
        return cls(prior, channel, secrets, group, without, others)

    @property
    def secret_prior(self) -> FloatArray:
        """Prior probability of each secret."""
        count = len(self.secrets)
        return np.asarray(np.bincount(self.group, weights=self.prior, minlength=count) * 1.0)

    def believe(self, outputs: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Return the posterior of the secrets after each output, with the record and without."""
        size = max(1, _BLOCK // (self.prior.size * self.channel.width))
        pairs = [
            self._block(outputs[start : start + size]) for start in range(0, len(outputs), size)
        ]
        return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])

    def _block(self, outputs: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        likelihood = self.channel.log_likelihood(outputs)
        posterior = self._posterior(likelihood)
        if self.without is not None:
            return posterior, self._posterior(self.without.log_likelihood(outputs))
        if self.rest is not None:
            return posterior, self._posterior(self._drawn(likelihood, self.rest))
        return posterior, np.broadcast_to(self.secret_prior, posterior.shape)

    def _posterior(self, likelihood: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            joint = likelihood + np.log(self.prior)
        top = joint.max(axis=1, keepdims=True)
        if np.isneginf(top).any():
            raise InvalidParameterError(
                "outputs must be possible for some data set with a positive prior"
            )
        weight = np.exp(joint - top)
        weight /= weight.sum(axis=1, keepdims=True)
        return self._sum(weight, self.group, len(self.secrets))

    def _drawn(self, likelihood: FloatArray, rest: NDArray[np.intp]) -> FloatArray:
        """Log likelihood with the record drawn from the prior given the rest."""
        with np.errstate(divide="ignore"):
            joint = likelihood + np.log(self.prior)
            top = joint.max(axis=1, keepdims=True)
            mixed = self._sum(np.exp(joint - top), rest, int(rest.max()) + 1)
            total = np.bincount(rest, weights=self.prior)
            log_mixed = np.log(mixed) - np.log(np.where(total > 0, total, 1.0)) + top
        return np.asarray(log_mixed[:, rest])

    @staticmethod
    def _sum(weight: FloatArray, group: NDArray[np.intp], count: int) -> FloatArray:
        """Add up the columns of each group."""
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(count))
        return np.asarray(np.add.reduceat(weight[:, order], starts, axis=1))


def _numbered(names: Sequence[Any], name: str) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Return the different names in the order of their first appearance, and their numbers."""
    numbers: dict[Any, int] = {}
    try:
        group = [numbers.setdefault(item, len(numbers)) for item in names]
    except TypeError as error:
        raise InvalidParameterError(f"{name} must hold hashable values: {error}") from error
    return tuple(numbers), np.array(group, dtype=np.intp)
