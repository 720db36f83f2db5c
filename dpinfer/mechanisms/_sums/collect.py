"""From weights and laws to the normal form of a weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms._sums.terms import Block, Terms
from dpinfer.mechanisms._sums.uniform import CentredUniform
from dpinfer.mechanisms.exact import Exact
from dpinfer.mechanisms.gaussian import Gaussian
from dpinfer.mechanisms.geometric import Geometric
from dpinfer.mechanisms.independent import join
from dpinfer.mechanisms.laplace import Laplace
from dpinfer.mechanisms.tulap import Tulap

Parts = Iterable[tuple[NoiseLaw, NDArray[np.intp]]]
"""Laws and the cells that each rules."""

MERGE_RTOL = 1e-12


def collect(weights: FloatArray, parts: Parts, counts: FloatArray | None = None) -> Terms:
    """Bring the terms ``weights[cells] * law``, each so many times, to their normal form.

    Zero weights and exact values drop out, Gaussian noises become one, Laplace weights are absorbed
    in the scales, Tulap noises are taken apart, and equal terms are counted.
    """
    found: list[Block] = []
    for law, cells in parts:
        scaled = np.abs(weights[cells])
        used = np.flatnonzero(scaled > 0)
        if not used.size or isinstance(law, Exact):
            continue
        times = np.ones(cells.size) if counts is None else counts[cells]
        found.extend(_blocks_of(law, scaled, used, times))
    found = list(filter(len, map(_not_constant, found)))
    few = sum(float(block.counts.sum()) for block in found) <= 2.0
    apart = [part for block in found for part in EXPANSIONS.get(type(block.law), _as_it_is)(block)]
    by_kind: dict[Any, list[Block]] = {}
    for block in filter(len, map(_not_constant, apart)):
        by_kind.setdefault(block.law._kind, []).append(block)
    return Terms(
        (NORMAL_FORMS.get(kind, merge)(_concatenate(same)) for kind, same in by_kind.items()),
        pair=Terms(found) if few else None,
    )


def _not_constant(block: Block) -> Block:
    """Leave out terms that are 0 but for a chance that is no float."""
    return block.take(np.flatnonzero(np.broadcast_to(block.law._variance(), len(block)) > 0))


def merge(block: Block) -> Block:
    """Merge terms with the same law and the same weight, up to rounding of the weights."""
    columns = [np.broadcast_to(value, len(block)) for value in block.law._parameters().values()]
    return _merge_equal(block, columns)


def _merge_equal(block: Block, columns: list[FloatArray]) -> Block:
    """Merge terms with equal ``columns`` and with weights equal up to rounding."""
    order = np.lexsort((block.weights, *columns))
    fresh = np.zeros(len(block), dtype=bool)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= np.diff(column[order]) != 0
    ordered = block.weights[order]
    fresh[1:] |= np.diff(ordered) > MERGE_RTOL * ordered[1:]
    firsts = np.flatnonzero(fresh)
    counts = np.add.reduceat(block.counts[order], firsts)
    chosen = order[firsts]
    return Block(block.law.take(chosen), block.weights[chosen], counts)


def _merge_laplace(block: Block) -> Block:
    """Absorb the weights in the scales: a weighted Laplace noise is Laplace noise."""
    scales = block.law._parameters()["scale"] * block.weights
    merged = _merge_equal(Block(Laplace(scale=scales), scales, block.counts), [])
    return Block(merged.law, np.ones(len(merged)), merged.counts)


def _merge_gaussian(block: Block) -> Block:
    """Replace weighted Gaussian noises by their sum, which is Gaussian."""
    parts = block.law._parameters()["sigma"] * block.weights * np.sqrt(block.counts)
    largest = np.max(parts)
    sigma = largest * np.sqrt(np.sum(np.square(parts / largest)))
    return Block(Gaussian(sigma=np.array([sigma])), np.ones(1), np.ones(1))


NORMAL_FORMS: dict[type[ParametricLaw], Callable[[Block], Block]] = {
    Laplace: _merge_laplace,
    Gaussian: _merge_gaussian,
}


def _as_it_is(block: Block) -> list[Block]:
    return [block]


def _expand_tulap(block: Block) -> list[Block]:
    """Take untruncated Tulap noises apart: a whole number plus a uniform part."""
    cut = np.asarray(block.law._parameters()["truncation"]) > 0
    whole, kept = block.take(np.flatnonzero(~cut)), block.take(np.flatnonzero(cut))
    scale = whole.law._parameters()["scale"]
    uniform = CentredUniform(width=np.ones(len(whole)))
    return [
        kept,
        Block(Geometric(scale=scale), whole.weights, whole.counts),
        Block(uniform, whole.weights, whole.counts),
    ]


EXPANSIONS: dict[type[ParametricLaw], Callable[[Block], list[Block]]] = {Tulap: _expand_tulap}


def _blocks_of(
    law: NoiseLaw, weights: FloatArray, used: NDArray[np.intp], times: FloatArray
) -> list[Block]:
    """List the terms of one law, or of a sum that is itself a term, at the weights used."""
    if isinstance(law, ParametricLaw):
        return [Block(_stretch(law, used, len(weights)), weights[used], times[used])]
    inner: Terms = law._terms  # type: ignore[attr-defined]
    return [
        Block(block.law, block.weights * float(weights[j]), block.counts * times[j])
        for j in used
        for block in inner.blocks
    ]


def _stretch(law: ParametricLaw, used: NDArray[np.intp], size: int) -> ParametricLaw:
    """Return the law with one parameter entry for each used cell."""
    return law._with(
        {name: np.broadcast_to(value, (size,))[used] for name, value in law._parameters().items()}
    )


def _concatenate(blocks: list[Block]) -> Block:
    """Join blocks of one kind."""
    return Block(
        join([(block.law, len(block)) for block in blocks]),
        np.concatenate([block.weights for block in blocks]),
        np.concatenate([block.counts for block in blocks]),
    )


def kinds(parts: Parts, size: int) -> NDArray[np.intp]:
    """Give the ``size`` cells numbers that are equal where their laws are."""
    out = np.zeros(size, dtype=np.intp)
    used = 0
    for law, cells in parts:
        same = np.zeros((len(cells), 0))
        if isinstance(law, ParametricLaw) and law.shape:
            same = np.column_stack(
                [np.broadcast_to(value, len(cells)) for value in law._parameters().values()]
            )
        number = np.unique(same, axis=0, return_inverse=True)[1].ravel() if same.size else 0
        out[cells] = used + number
        used = int(out[cells].max(initial=used)) + 1
    return out
