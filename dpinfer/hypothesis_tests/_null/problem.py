"""Statistics of noisy counts by name, or the user's own, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal, get_args

import numpy as np

from dpinfer._validation import FloatArray, check_array, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.models import Binomial, Model, Multinomial
from dpinfer.hypothesis_tests.tables._noisy_table import NoisyTable, projected
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.independent import Mechanism, as_noise

Statistic = Callable[[FloatArray], Any]
"""Maps published counts, shape (..., k), or (...) where there is one, to statistics, (...)."""

StatisticName = Literal["pearson", "projected", "z"]


@dataclass(frozen=True)
class Problem:
    """A null model, the law of the noise, and a statistic."""

    model: Model
    noise: NoiseLaw
    name: StatisticName | None
    statistic: Statistic

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw replicates of the statistic."""
        counts = self.model.draw(size, rng)
        counts += self.noise.rvs(counts.shape, rng=rng)
        return self.evaluate(counts)

    def evaluate(self, counts: FloatArray) -> FloatArray:
        """Compute the statistic, which may be the user's own, and check what comes back."""
        wanted = counts.shape[: counts.ndim - len(self.model.shape)]
        values = check_array(self.statistic(counts), "statistic")
        if values.shape != wanted:
            raise InvalidParameterError(
                f"statistic must map counts of shape {counts.shape} to shape {wanted}, got "
                f"{values.shape}: let it work along the last axis"
            )
        return values


def checked_problem(model: Model, mechanism: Mechanism, statistic: Any) -> Problem:
    """Check the three parts against each other."""
    if not isinstance(model, get_args(Model)):
        raise InvalidParameterError(
            "model must be a Binomial, Poisson, Multinomial or ProductMultinomial of "
            f"dpinfer.hypothesis_tests.models, got {show(model)}"
        )
    noise = as_noise(mechanism, max(1, prod(model.shape)))
    if not model.shape and noise.shape:
        noise = noise.take(0)
    if callable(statistic):
        return Problem(model, noise, None, statistic)
    name = check_option(statistic, "statistic", get_args(StatisticName))
    return Problem(model, noise, name, _BUILT_IN[name](model, noise))


def _pearson(model: Model, noise: NoiseLaw) -> Statistic:
    return partial(_pearson_of, model.expected, 1.0 / model.expected)


def _pearson_of(expected: FloatArray, weights: FloatArray, counts: FloatArray) -> FloatArray:
    squares = np.square(counts - expected)
    return np.asarray(squares @ weights if weights.ndim else squares * weights)


def _projected(model: Model, noise: NoiseLaw) -> Statistic:
    if not isinstance(model, Multinomial):
        raise InvalidParameterError(
            "statistic must be 'pearson' or a function unless the model is a Multinomial, got "
            "'projected'"
        )
    return partial(_projected_of, model, noise)


def _projected_of(model: Multinomial, noise: NoiseLaw, counts: FloatArray) -> FloatArray:
    table = NoisyTable(model.nobs, model.expected, noise)
    return projected(table)(counts - model.expected)


def _z(model: Model, noise: NoiseLaw) -> Statistic:
    if model.shape:
        raise InvalidParameterError(
            "statistic must be 'pearson' or a function unless the model is of one count, got 'z'"
        )
    return partial(_z_of, model.expected, spread(model))


def _z_of(centre: FloatArray, spread: FloatArray, counts: FloatArray) -> FloatArray:
    return np.asarray((counts - centre) / spread)


_BUILT_IN: dict[StatisticName, Callable[[Model, NoiseLaw], Statistic]] = {
    "pearson": _pearson,
    "projected": _projected,
    "z": _z,
}


def spread(model: Model) -> FloatArray:
    """Return the standard deviation of one count, without the noise."""
    failure = 1.0 - model.value if isinstance(model, Binomial) else 1.0
    return np.asarray(np.sqrt(model.expected * failure))
