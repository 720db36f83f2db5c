"""Tails of a count with Laplace or geometric noise at many points, by recursions."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.laplace import Laplace


def filtered_tail(
    k: FloatArray, pmf: FloatArray, noise: Laplace | Geometric, t: FloatArray
) -> FloatArray:
    """P(X + e >= t) at many points, where P(e > x + 1) = exp(-rate)·P(e > x) for x >= 0.

    ``k`` are consecutive whole numbers, ``pmf`` their probabilities. With m = floor(t) and
    f = t - m, the tail is P(e >= f)·A(m) + C(m) - P(e > 1-f)·B(m), where
    A(m) = Σ_{k<=m} pmf(k)·exp(-(m-k)·rate), B(m) = Σ_{k>m} pmf(k)·exp(-(k-m-1)·rate) and
    C(m) = P(X > m): recursions over the counts, then one look-up for each point. What is
    subtracted is at most half of C(m).
    """
    rate = 1.0 / float(noise.scale)
    below = np.append(0.0, decaying_sums(pmf, rate))
    above = np.append(decaying_sums(pmf[::-1], rate)[::-1], 0.0)
    beyond = np.append(decaying_sums(pmf[::-1], 0.0)[::-1], 0.0)
    m = np.floor(t)
    near = np.clip(m, k[0] - 1.0, k[-1])
    place = (near - (k[0] - 1.0)).astype(np.intp)
    decay = np.exp(-np.abs(m - near) * rate)
    part = t - m
    reach = noise._cdf(-part) * below[place]
    miss = noise._sf(1.0 - part) * above[place]
    return np.asarray(reach * decay + beyond[place] - miss * decay)


def decaying_sums(x: FloatArray, rate: float) -> FloatArray:
    """y[m] = Σ_{k<=m} x[k]·exp(-(m-k)·rate), by doubling: as accurate as pairwise summation."""
    y = np.array(x)
    step = 1
    while step < y.shape[-1] and (factor := np.exp(-step * rate)) > 0.0:
        y[..., step:] += factor * y[..., :-step]
        step *= 2
    return y
