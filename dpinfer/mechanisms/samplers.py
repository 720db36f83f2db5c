"""Where the noise on confidential data comes from: a simulation, or the samplers of OpenDP.

A float that was made from another one, such as Laplace noise from a uniform draw, takes some values
and skips others, and which ones a sum with it can take depends on the other summand: an output may
rule out one of two neighbouring truths, whatever the law says (Mironov 2012,
doi:10.1145/2382196.2382264). So only noise that is added in exact arithmetic keeps the guarantee of
its law. Here that is noise on whole numbers: what is confidential is counted, or rounded record by
record, before noise is added, and everything else is done to the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from dpinfer._check import RNG, FloatArray, check_option, check_rng, require, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import ExponentialMechanism
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace

Sampler = Literal["simulated", "opendp"]
SAMPLERS: tuple[Sampler, ...] = ("simulated", "opendp")

LARGEST_WHOLE = 2.0**53
"""Whole numbers up to this are floats, and so are their sums."""

_ROUNDED_UP = 1.0 + 1e-14
"""Scales, and guarantees computed from them, are rounded: the noise is larger by as much."""

_LARGEST_STEPS = 1e15
"""Geometric noise of this scale ends at ±2^63 with a probability below e^-9000."""


class NoiseSource(ABC):
    """What draws all noise on confidential data; made by :func:`noise_source`."""

    sampler: Sampler
    simulated: bool
    """Whether the draws are floats of a simulation, which keep no guarantee."""

    @abstractmethod
    def add(self, values: FloatArray, law: NoiseLaw) -> FloatArray:
        """Return confidential values plus noise, of any shape; whole numbers for a release."""

    @abstractmethod
    def steps(self, scale: float) -> int:
        """Return a whole number with the two-sided geometric law of a scale."""

    @abstractmethod
    def choose(self, scores: FloatArray, epsilon: float) -> int:
        """Return the choice of the exponential mechanism; whole scores of sensitivity 1."""


class Simulation(NoiseSource):
    """Draws of NumPy's generators."""

    sampler: Sampler = "simulated"
    simulated = True

    def __init__(self, rng: RNG) -> None:
        self.rng = check_rng(rng)

    def add(self, values: FloatArray, law: NoiseLaw) -> FloatArray:
        """Return values plus noise."""
        return np.asarray(values + law.rvs(values.shape, rng=self.rng))

    def steps(self, scale: float) -> int:
        """Return rounded Laplace noise, which has about that law where the scale is large."""
        return round(self.rng.laplace(0.0, scale))

    def choose(self, scores: FloatArray, epsilon: float) -> int:
        """Return the choice of the exponential mechanism."""
        return int(ExponentialMechanism(epsilon=epsilon).rvs(scores, rng=self.rng))


class _OpenDP(NoiseSource):
    """Draws of OpenDP: exact laws, from the randomness of the operating system."""

    sampler: Sampler = "opendp"
    simulated = False

    def __init__(self) -> None:
        self._dp: Any = require("opendp.prelude", "release")
        self._dp.enable_features("contrib")

    def add(self, values: FloatArray, law: NoiseLaw) -> FloatArray:
        flat = np.ravel(values)
        if not ((flat == np.floor(flat)) & (np.abs(flat) <= LARGEST_WHOLE)).all():
            raise InvalidParameterError(
                "confidential values must be whole numbers of at most 2^53 for sampler='opendp': "
                "sums of other floats are rounded, by which one record can move them further than "
                "their sensitivity; count in smaller units, and round each record to them"
            )
        noisy = np.empty(flat.shape)
        for part, cells in groups(law, flat.size):
            if (found := _MEASUREMENTS.get(type(part))) is None:
                raise InvalidParameterError(
                    f"mechanism must be {', '.join(kind.__name__ for kind in _MEASUREMENTS)} noise "
                    f"for sampler='opendp', got {show(part)}"
                )
            name, parameter = found
            scales = np.broadcast_to(getattr(part, parameter), cells.shape)
            for scale in np.unique(scales):
                at = cells[scales == scale]
                measure = self._measurement(name, float(scale), whole=part.is_integer)
                kind: Callable[[float], float] = int if part.is_integer else float
                noisy[at] = measure([kind(value) for value in flat[at]])
        return noisy.reshape(np.shape(values))

    def steps(self, scale: float) -> int:
        if scale > _LARGEST_STEPS:
            raise InvalidParameterError(
                f"guarantee must be larger for sampler='opendp': noise of scale {scale:g} in the "
                f"steps of whole-number arithmetic is more than {_LARGEST_STEPS:g}"
            )
        return int(self._measurement("make_laplace", scale, whole=True)([0])[0])

    def choose(self, scores: FloatArray, epsilon: float) -> int:
        # the score that is largest after Gumbel noise of scale 2/ε
        dp = self._dp
        largest = dp.m.make_noisy_max(
            dp.vector_domain(dp.atom_domain(T="i64")),
            dp.linf_distance(T="i64"),
            dp.zero_concentrated_divergence(),
            scale=2.0 / epsilon * _ROUNDED_UP,
        )
        return int(largest([int(score) for score in scores]))

    def _measurement(self, name: str, scale: float, *, whole: bool) -> Any:
        dp = self._dp
        atom = dp.atom_domain(T="i64") if whole else dp.atom_domain(T="f64", nan=False)
        if name == "make_gaussian":
            metric = dp.l2_distance(T="f64")
        else:
            metric = dp.l1_distance(T="i64" if whole else "f64")
        return getattr(dp.m, name)(dp.vector_domain(atom), metric, scale * _ROUNDED_UP)


_MEASUREMENTS: dict[type[NoiseLaw], tuple[str, str]] = {
    Laplace: ("make_laplace", "scale"),
    Geometric: ("make_laplace", "scale"),
    Gaussian: ("make_gaussian", "sigma"),
    DiscreteGaussian: ("make_gaussian", "sigma"),
}
"""The constructor of each law, and its parameter that is the scale there."""


def noise_source(sampler: object, rng: RNG) -> NoiseSource:
    """Return what draws the noise; with the samplers of OpenDP there is no seed."""
    if check_option(sampler, "sampler", SAMPLERS) == "simulated":
        return Simulation(rng)
    if rng is not None:
        raise InvalidParameterError(
            f"rng must be None for sampler='opendp', got {show(rng)}: a release takes its "
            "randomness from the operating system, as who knows a seed knows the noise"
        )
    return _OpenDP()
