"""Weights and covariances of the estimates of a tree, from the gains of its two passes."""

from __future__ import annotations

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.estimation.hierarchies._passes import Gains
from dpinfer.queries._tree import Places


def measurement_weights(gains: Gains, target: FloatArray) -> FloatArray:
    """Return what linear functions of the estimates are as functions of the measurements.

    The two passes are gone through backwards, each step transposed.

    Parameters
    ----------
    gains : Gains
        The passes over n places.
    target : array of float, shape (..., n)
        Coefficients of the estimates.

    Returns
    -------
    array of float, shape (..., n)
        Weights of the measurements.
    """
    tree, weight = gains.tree, target.copy()
    returned = []
    for families in reversed(tree.families):
        of_children = weight[..., families.children] * gains.share[families.children]
        back = np.add.reduceat(of_children, families.starts, axis=-1)
        weight[..., families.parents] += back
        returned.append(back)
    for merger, back in zip(gains.mergers, reversed(returned), strict=True):
        families, gain = merger.families, merger.gain
        of_parents = weight[..., families.parents]
        of_sum = (1.0 - gain) * of_parents - back
        weight[..., families.children] += np.repeat(of_sum, families.counts, axis=-1)
        weight[..., families.parents] = gain * of_parents
    return weight


def covariances(gains: Gains, first: Places, second: Places) -> FloatArray:
    """Covariances of the estimates at pairs of places, shape (k,).

    A descendant has with its ancestor the covariance w of the ancestor times the shares on the way
    down. Two children a, b of one parent have -rₐ u_b + rₐ r_b w, and their descendants that times
    the shares on the way down.
    """
    depth = np.zeros(len(gains.tree), dtype=np.intp)
    for families in gains.tree.families:
        depth[families.children] = np.repeat(depth[families.parents] + 1, families.counts)
    parent = gains.tree.parent
    here, there = first.copy(), second.copy()
    factor, found = np.ones(first.size), np.zeros(first.size)
    left = np.arange(first.size)
    while left.size:
        a, b = here[left], there[left]
        same, sisters = a == b, (parent[a] == parent[b]) & (a != b)
        found[left[same]] = gains.variance[a[same]]
        found[left[sisters]] = _of_sisters(gains, a[sisters], b[sisters])
        left, a, b = (x[~(same | sisters)] for x in (left, a, b))
        lower = depth[a] >= depth[b]
        climber = np.where(lower, a, b)
        factor[left] *= gains.share[climber]
        here[left] = np.where(lower, parent[a], a)
        there[left] = np.where(lower, b, parent[b])
    return factor * found


def _of_sisters(gains: Gains, a: Places, b: Places) -> FloatArray:
    """Covariances of children of one parent; roots have none."""
    swap = np.isinf(gains.below[b])
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    parent = gains.tree.parent[a]
    together = gains.share[a] * gains.share[b]
    above = np.where(together > 0.0, gains.variance[parent], 0.0)
    # nothing is known of two that are both unknown, and of those below them by way of these
    apart = np.where(np.isinf(gains.below[b]), 0.0, gains.below[b])
    return np.where(parent < 0, 0.0, together * above - gains.share[a] * apart)
