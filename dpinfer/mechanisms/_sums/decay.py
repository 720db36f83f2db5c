"""Known decay of characteristic functions: what a truncated Fourier series leaves out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import ContinuousLaw, IntegerLaw, ParametricLaw
from dpinfer.mechanisms._sums.terms import Block, Terms
from dpinfer.mechanisms._sums.uniform import CentredUniform
from dpinfer.mechanisms.discrete_gaussian import DiscreteGaussian
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.laplace import Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.tulap import Tulap

Decay = tuple[FloatArray, FloatArray]
"""Log of a bound on the modulus of a factor at T and beyond, decreasing in T, and a bound on
∫ modulus(t) dt/(πt) from T on, relative to it."""


def left_out(terms: Terms, cutoff: FloatArray) -> FloatArray:
    """Bound on the sum of abs(φ(t))/(πn) over the nodes t > ``cutoff``; inf if none is known."""
    smooth = terms.continuous
    level, beyond = _smooth_left_out(smooth, cutoff)
    first = _first_return(terms.integer)
    if first is None:
        return beyond
    # up to the first return of the periodic factors, everything decreases
    turn, height = first
    level_at_turn, beyond_turn = _smooth_left_out(smooth, np.array([turn]))
    # the sum of a periodic factor over its nodes in one period is its period times P(0)
    returns = 2.0 * height * (2.0 / np.pi * level_at_turn + beyond_turn)
    periodic = np.abs(terms.integer.cf(cutoff)) + np.exp(-40.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = periodic * level * np.log(turn / cutoff) / np.pi
    return np.where(cutoff < turn, np.minimum(beyond, before + returns), beyond)


def _smooth_left_out(terms: Terms, cutoff: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound on the product of the factors with a density, and on its sum beyond the cutoff."""
    log_level = np.zeros(cutoff.shape)
    integral = np.full(cutoff.shape, np.inf)
    for block in terms.blocks:
        decay = DECAYS.get(type(block.law))
        if decay is not None:
            log_factor, own = decay(block, cutoff[:, None])
            log_level += log_factor @ block.counts
            integral = np.minimum(integral, own.min(axis=1))
    level = np.exp(log_level)
    return level, level * integral


def _first_return(terms: Terms) -> tuple[float, float] | None:
    """Half of the shortest period of the periodic factors, and P(0) of that noise."""
    if not len(terms) or not all(is_unimodal_periodic(block.law) for block in terms.blocks):
        return None
    widest = max((float(block.weights.max()), number) for number, block in enumerate(terms.blocks))
    block = terms.blocks[widest[1]]
    law = block.law.take(int(np.argmax(block.weights)))
    assert isinstance(law, IntegerLaw)
    return np.pi / widest[0], float(np.exp(law._logpmf(np.zeros(()))))


def _laplace(block: Block, cutoff: FloatArray) -> Decay:
    # 1/(1 + b²t²) <= (T/t)²·(1 + b²T²)/(b²T²) times its value at T
    square = np.square(block.law._parameters()["scale"] * block.weights * cutoff)
    return -np.log1p(square), (1.0 + square) / (2.0 * np.pi * square)


def _gaussian(block: Block, cutoff: FloatArray) -> Decay:
    square = np.square(block.law._parameters()["sigma"] * block.weights * cutoff)
    return -0.5 * square, 1.0 / (np.pi * square)


def _unimodal(block: Block, cutoff: FloatArray) -> Decay:
    # abs(φ(t)) <= (total variation of the density)/t
    assert isinstance(block.law, ContinuousLaw)
    variation = 2.0 * np.exp(block.law._logpdf(np.zeros(()))) / block.weights
    bound = variation / cutoff
    return np.minimum(np.log(bound), 0.0), np.where(bound < 1.0, 1.0 / np.pi, np.inf)


DECAYS: dict[type[ParametricLaw], Callable[[Block, FloatArray], Decay]] = {
    Laplace: _laplace,
    Gaussian: _gaussian,
    CentredUniform: _unimodal,
    Tulap: _unimodal,
}


def is_unimodal_periodic(law: ParametricLaw) -> bool:
    """Whether the characteristic function of a whole-numbered law falls from 0 to π, above 0."""
    if isinstance(law, Rounded):
        return isinstance(law.law, (Laplace, Gaussian))
    return isinstance(law, (Geometric, DiscreteGaussian))
