"""What makes an output of a query's answer, and how likely each output is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._validation import FloatArray, check_array, check_integer_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import (
    ContinuousLaw,
    ExponentialMechanism,
    IntegerLaw,
    NoiseLaw,
    RandomizedResponse,
)


@dataclass(frozen=True, eq=False)
class Channel(ABC):
    """The answers on m possible data sets, shape (m, q), and the mechanism behind them."""

    mechanism: Any
    answers: FloatArray
    flat: bool
    """Whether the answers came without a second axis, as the outputs then do."""

    @property
    def width(self) -> int:
        """Number of answers on each data set."""
        return int(self.answers.shape[1])

    def check_outputs(self, outputs: ArrayLike) -> NDArray[Any]:
        """Return observed outputs as an array with one row, or one entry, each."""
        array = check_array(outputs, "outputs")
        wanted = 1 if self.flat or not self.wide_output else 2
        if array.ndim != wanted or (wanted == 2 and array.shape[1] != self.width):
            shape = "(n,)" if wanted == 1 else f"(n, {self.width})"
            raise InvalidParameterError(f"outputs must have shape {shape}, got {array.shape}")
        return array

    @property
    def wide_output(self) -> bool:
        """Whether an output has as many values as an answer."""
        return True

    @abstractmethod
    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        """Return ln P(output | data set), shape (n, m)."""

    @abstractmethod
    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        """Return one output for each chosen data set."""

    def _columns(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return outputs[:, None] if outputs.ndim == 1 else outputs

    def _shaped(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return outputs[:, 0] if self.flat else outputs


class NoiseChannel(Channel):
    """Independent noise on every answer."""

    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        """Return the sum of the log densities of the noise."""
        noise = self._columns(outputs)[:, None, :] - self.answers
        law = self.mechanism
        density = law.logpmf(noise) if law.is_integer else law.logpdf(noise)
        return np.asarray(density.sum(axis=2))

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        """Return answers plus noise."""
        answers = self.answers[chosen]
        return self._shaped(answers + self.mechanism.rvs(answers.shape, rng=rng))


class ResponseChannel(Channel):
    """Randomized response of every respondent."""

    def check_outputs(self, outputs: ArrayLike) -> NDArray[Any]:
        """Return observed reports, which are categories."""
        return _categories(super().check_outputs(outputs), self.mechanism, "outputs")

    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        """Return the sum of the log probabilities of the reports."""
        kept = self._columns(outputs)[:, None, :] == self.answers
        channel = self.mechanism
        other = (1.0 - channel.p) / (channel.categories - 1)
        return np.asarray(np.where(kept, np.log(channel.p), np.log(other)).sum(axis=2))

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        """Return reports."""
        return self._shaped(self.mechanism.randomize(self.answers[chosen], rng=rng))


class ChoiceChannel(Channel):
    """The option that the exponential mechanism chooses."""

    @property
    def wide_output(self) -> bool:
        """Whether an output has as many values as an answer: it is one option."""
        return False

    def check_outputs(self, outputs: ArrayLike) -> NDArray[Any]:
        """Return observed choices, which are positions of options."""
        array = check_integer_array(super().check_outputs(outputs), "outputs", ge=0)
        if (array >= self.width).any():
            raise InvalidParameterError(
                f"outputs must be options 0 to {self.width - 1}, got {array.max():g}"
            )
        return array

    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        """Return the log probability of the choice."""
        table = self.mechanism.log_probabilities(self.answers)
        return np.asarray(table.T[outputs.astype(np.intp)])

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        """Return choices, by the Gumbel-max trick."""
        table = self.mechanism.log_probabilities(self.answers)[chosen]
        return np.asarray(np.argmax(table + rng.gumbel(size=table.shape), axis=1))


def channel_of(mechanism: Any, answers: ArrayLike, name: str) -> Channel:
    """Return the channel of a mechanism, with its answers checked."""
    array = check_array(answers, name, finite=not isinstance(mechanism, ExponentialMechanism))
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidParameterError(
            f"{name} must have one row, or one entry, for each data set, got shape {array.shape}"
        )
    table = array[:, None] if array.ndim == 1 else array
    for kind, rule in _CHANNELS.items():
        if isinstance(mechanism, kind):
            return rule(mechanism, table, array.ndim == 1, name)
    raise InvalidParameterError(
        "mechanism must be a law of noise with a density or probabilities, a RandomizedResponse or "
        f"an ExponentialMechanism, got {show(mechanism)}"
    )


def _noise(law: Any, table: FloatArray, flat: bool, name: str) -> Channel:
    if not isinstance(law, (ContinuousLaw, IntegerLaw)):
        raise InvalidParameterError(
            f"mechanism must have a density or probabilities for a likelihood, got {show(law)}"
        )
    if law.shape not in ((), (1,), (table.shape[1],)):
        raise InvalidParameterError(
            f"mechanism must be one law, or have one scale for each of {table.shape[1]} answers, "
            f"got scales of shape {law.shape}"
        )
    if law.is_integer:
        check_integer_array(table, name)
    return NoiseChannel(law, table, flat)


def _response(channel: RandomizedResponse, table: FloatArray, flat: bool, name: str) -> Channel:
    return ResponseChannel(channel, _categories(table, channel, name), flat)


def _choice(mechanism: Any, table: FloatArray, flat: bool, name: str) -> Channel:
    if flat:
        raise InvalidParameterError(
            f"{name} must be scores of shape (m, options) for the exponential mechanism"
        )
    return ChoiceChannel(mechanism, table, flat)


def _categories(table: NDArray[Any], channel: RandomizedResponse, name: str) -> NDArray[Any]:
    whole = check_integer_array(table, name, ge=0)
    if (whole >= channel.categories).any():
        raise InvalidParameterError(
            f"{name} must be coded 0 to {channel.categories - 1}, got {whole.max():g}"
        )
    return whole


_CHANNELS: dict[type, Callable[[Any, FloatArray, bool, str], Channel]] = {
    NoiseLaw: _noise,
    RandomizedResponse: _response,
    ExponentialMechanism: _choice,
}
