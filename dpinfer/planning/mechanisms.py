"""The noise of a plan: a law, or what makes one from a privacy budget."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from dpinfer._check import show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.law import NoiseLaw

NoisePlan = NoiseLaw | Callable[[float], NoiseLaw]
"""A law of noise, or what makes one from a privacy budget, as ``Laplace.from_epsilon`` does."""


def check_plan(
    mechanism: Any, cells: tuple[int, ...] = (), *, name: str = "mechanism"
) -> NoisePlan:
    """Return a law, or what makes one; refuse what is neither."""
    if isinstance(mechanism, NoiseLaw) or (cells and isinstance(mechanism, (list, tuple))):
        return check_law(mechanism, cells, name=name)
    if isinstance(mechanism, type) or not callable(mechanism):
        raise InvalidParameterError(
            f"{name} must be a law of noise, such as Laplace(scale=2.0), or a function that "
            f"makes one from a budget, such as Laplace.from_epsilon, got {show(mechanism)}"
        )
    made: NoisePlan = mechanism
    return made


def check_law(
    mechanism: Any,
    cells: tuple[int, ...],
    budget: float | None = None,
    *,
    name: str = "mechanism",
) -> NoiseLaw:
    """Return a law of one noise, or of one for each cell."""
    if cells and isinstance(mechanism, (list, tuple)):
        return as_noise(mechanism, prod(cells), name=name, selected=True)
    if not isinstance(mechanism, NoiseLaw):
        raise InvalidParameterError(
            f"{name} must return a noise law, got {show(mechanism)} for the budget {budget:g}"
        )
    if mechanism.shape not in ((), cells):
        raise InvalidParameterError(
            f"{name} must have scalar parameters{f' or shape {cells}' if cells else ''}, got "
            f"shape {mechanism.shape}"
        )
    return mechanism
