"""Checks of published tables, their noise and what is known of their totals."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._validation import FloatArray, check_array, check_integer, check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import LARGEST_NOBS, check_published
from dpinfer.hypothesis_tests.tables._fitted_tables import split_channel
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.randomized_response import RandomizedResponse

LARGEST = 1e30
"""Beyond it, the products of counts and variances that are formed here could overflow."""

_ROUNDING = 1e-9
"""Relative error allowed to totals that are known."""

_SMALLEST_SLOPE = 1e-6
"""Reports that depend on the answers less than this are worth nothing."""


def check_noise(cells: FloatArray, mechanism: Any, name: str) -> tuple[NoiseLaw, FloatArray]:
    """Return the law of the noise, shape () or (k,), and its variance in the shape of the cells."""
    if isinstance(mechanism, NoiseLaw) and mechanism.shape == cells.shape:
        mechanism = mechanism.take(np.ones(cells.shape, dtype=bool))
    noise = as_noise(mechanism, cells.size)
    check_published(cells.ravel(), name, noise)
    variance = np.broadcast_to(noise.variance, cells.size).reshape(cells.shape)
    return noise, check_array(variance, "the variance of mechanism", le=LARGEST**2)


def check_nobs(
    cells: FloatArray, variance: FloatArray, nobs: Any, nobs_mechanism: Any, name: str
) -> tuple[float | None, NoiseForm, NoiseLaw | None]:
    """Return the published number of observations, the form, and the law of the noise in it."""
    if nobs is None:
        if nobs_mechanism is not None:
            raise InvalidParameterError("nobs must be given with nobs_mechanism, got None")
        return None, NoiseForm.published(variance, np.inf), None
    if nobs_mechanism is None:
        total = float(check_integer(nobs, "nobs", ge=1, le=int(LARGEST_NOBS)))
        if not variance.any():
            check_sums(cells.sum(), total, name, "nobs")
        return total, NoiseForm.published(variance, 0.0), None
    law = as_noise(nobs_mechanism, 1, name="nobs_mechanism")
    law = law.take(0) if law.shape else law
    total = check_scalar(nobs, "nobs", ge=-LARGEST, le=LARGEST)
    check_published(np.array([total]), "nobs", law)
    spread = check_array(law.variance, "the variance of nobs_mechanism", le=LARGEST**2).item()
    if spread == 0.0:
        return check_nobs(cells, variance, nobs, None, name)
    return total, NoiseForm.published(variance, spread), law


def check_reports(cells: FloatArray, nobs: Any, nobs_mechanism: Any, name: str) -> float:
    """Return the number of reports, which are counted without noise."""
    if nobs_mechanism is not None:
        raise InvalidParameterError(
            "nobs_mechanism must not be given with randomized response, whose reports are counted "
            "without noise"
        )
    check_published(cells.ravel(), name, Exact())
    total = float(check_array(cells, name, ge=0, le=LARGEST_NOBS).sum())
    if not 1 <= total <= LARGEST_NOBS:
        raise InvalidParameterError(
            f"{name} must hold between 1 and {LARGEST_NOBS:.0f} reports, got {total:g}"
        )
    if nobs is not None:
        check_sums(total, float(check_integer(nobs, "nobs", ge=1)), name, "nobs")
    return total


def check_channel(channel: RandomizedResponse, size: int, of: str) -> None:
    """Refuse a channel for another number of categories, or one whose reports say nothing."""
    if channel.categories != size:
        raise InvalidParameterError(
            f"mechanism must have a category for each of the {size} {of}, got "
            f"{channel.categories} categories"
        )
    if split_channel(channel)[0] < _SMALLEST_SLOPE:
        raise InvalidParameterError(
            f"mechanism must have p > 1/categories, got p = {channel.p}: its reports say nothing "
            "about the answers"
        )


def check_sums(found: Any, wanted: Any, name: str, other: str) -> None:
    """Refuse sums without noise that are not what they are known to be."""
    if np.any(np.abs(found - wanted) > _ROUNDING * np.abs(wanted)):
        raise InvalidParameterError(
            f"{name} must add up to {other} where there is no noise, got {found} instead of "
            f"{wanted}"
        )
