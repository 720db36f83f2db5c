"""Best linear unbiased estimates of vectors in all nodes of a tree: one pass up, one pass down.

Every node carries a vector x of g levels; those of the children add up to that of the parent. Nodes
are measured through fixed 0/1 matrices, y = Qx + noise, with one precision a node and matrix: 0
where nothing is measured, infinite where there is no noise. Levels of single nodes can be 0 by
structure. The matrices made here are the same for all right-hand sides.

Up: the children's estimates, of covariances U, have a sum s, of covariance S. Own measurements, of
information J and score h, make U = (I + SJ)⁻¹S and z = s + U(h - Js) of it. Down: a child takes
U_c t of what its parent's final estimate x, of covariance W, differs from s by, t = S⁺(x - s); its
covariance becomes (I-G)U(I-G)' + G(S - U)G' + GWG' with G = U_c S⁺, S - U being summed over the
other children. Where something is unknown, or known exactly, the rules of `vectors.update` hold:
S⁺ is T0 + T1/κ, and G = D T1 + U T0.

Errors of rounding grow with the ratio of the precisions in a node, 1e-16 times that ratio. Ranks,
and with them what is estimable and what is exact, do not depend on precisions.

Most nodes are leaves, of which only a few numbers are kept (`vectors.leaves`). Other nodes are
dense: inner nodes, roots, leaves that do not measure all their levels or have exact values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.estimation.vectors.exact import known
from dpinfer.estimation.vectors.final import Final, final_beliefs, variances
from dpinfer.estimation.vectors.layout import VectorLayout
from dpinfer.estimation.vectors.leaves import grouped
from dpinfer.estimation.vectors.queries import VectorQueries
from dpinfer.estimation.vectors.up import Below, Message
from dpinfer.estimation.vectors.update import Beliefs
from dpinfer.estimation.vectors.values import Collected, collect, spread
from dpinfer.queries._tree import Places, Tree


@dataclass(frozen=True, eq=False)
class VectorGains:
    """How estimates depend on what was measured; the same for all values.

    `of` makes them of a tree that is all there is. A part of a tree, of which ``message`` at the
    roots goes to the tree above it, is made by `up`; `down` adds what comes back. In the tree
    above, the roots of the parts are leaves.

    Parameters
    ----------
    below : Below
        What is known from measurements in each node and below it.
    final : Final or None
        What is known from all measurements; None before `down`.
    """

    below: Below
    final: Final | None = None

    @classmethod
    def of(
        cls,
        tree: Tree,
        queries: Sequence[FloatArray],
        precision: FloatArray,
        zeros: NDArray[np.bool_] | None = None,
        message: Message | None = None,
    ) -> VectorGains:
        """Go up and down.

        Parameters
        ----------
        tree : Tree
            The tree of n places.
        queries : sequence of array of float, shape (r_i, g)
            The q matrices, of 0 and 1.
        precision : array of float, shape (n, q)
            Of the measurement of each place through each matrix.
        zeros : array of bool, shape (n, g), optional
            Levels that are 0.
        message : Message, optional
            What is known of leaves from trees below them; these have no precisions of their own.
        """
        return cls.up(tree, queries, precision, zeros, message).down()

    @classmethod
    def up(
        cls,
        tree: Tree,
        queries: Sequence[FloatArray],
        precision: FloatArray,
        zeros: NDArray[np.bool_] | None = None,
        message: Message | None = None,
    ) -> VectorGains:
        """Go up only."""
        asked = VectorQueries.of(queries)
        identity = precision[:, asked.identity].sum(axis=1)
        dense = ~((identity > 0.0) & np.isfinite(precision).all(axis=1))
        if message is not None:
            dense[message.places] = True
        layout = VectorLayout.of(tree, dense)
        places = np.flatnonzero(layout.dense_of < 0)
        leaves = grouped(
            asked,
            places,
            layout.inner_of[tree.parent[places]],
            precision[places],
            None if zeros is None else ~zeros[places],
        )
        return cls(Below.of(layout, asked, precision, zeros, leaves, message))

    def down(self, above: Beliefs | None = None) -> VectorGains:
        """Go down, from what is known of the roots in the end.

        Without that, no more is known of them than from this tree.
        """
        return VectorGains(self.below, final_beliefs(self.below, above))

    def message(self) -> Message:
        """Return what is known of the roots, for the tree above."""
        layout = self.below.layout
        roots = np.flatnonzero(layout.parent < 0)
        return Message(layout.dense[roots], self.below.beliefs(roots))

    def answer(self, places: Places) -> Beliefs:
        """Return what is known of dense nodes in the end, for the trees below them."""
        rows = self.below.layout.dense_of[places]
        final = self._completed()
        exact = known(self.below, final.exact, rows)
        return Beliefs(final.finite[rows], final.unknown.get(rows), exact)

    def collect(
        self,
        values: Sequence[FloatArray],
        message: FloatArray | None = None,
        out: FloatArray | None = None,
    ) -> Collected:
        """Estimate all nodes from the values in them and below them.

        Parameters
        ----------
        values : sequence of array of float, shape (n, r_i, k)
            The k values of each place and row of each query; any finite number where nothing is
            measured.
        message : array of float, shape (m, g, k), optional
            Estimates of the leaves with a message.
        out : array of float, shape (n, g, k), optional
            Where to put the estimates; it may be the values of an identity, which are lost then.
        """
        return collect(self.below, values, message, out)

    def spread(self, collected: Collected, above: FloatArray | None = None) -> FloatArray:
        """Make the collected estimates, in place, final ones, shape (n, g, k).

        ``above`` are final estimates of the roots, shape (roots, g, k), from the tree above. What
        is not estimable is arbitrary.
        """
        return spread(self.below, collected, above)

    def estimates(self, values: Sequence[FloatArray]) -> FloatArray:
        """Estimate all nodes from values, shape (n, r_i, k) each; returns the shape (n, g, k)."""
        return self.spread(self.collect(values))

    @property
    def known(self) -> bool:
        """Whether everything is estimable."""
        return self._completed().unknown.empty

    def variance(self, functionals: FloatArray, places: Places | None = None) -> FloatArray:
        """Return final variances, shape (m, k), of functionals, shape (k, g), of some places.

        Infinite for those that are not estimable.
        """
        layout = self.below.layout
        chosen = np.arange(len(layout.tree)) if places is None else np.asarray(places)
        return variances(self.below, self._completed(), np.asarray(functionals, float), chosen)

    def _completed(self) -> Final:
        """Return what `down` has found."""
        if self.final is None:
            raise ValueError("the pass down has not been made")
        return self.final
