"""The guarantee of answers to a workload, whose noise may be shared: y = A x + W z."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import NEIGHBOURS, FloatArray, Neighbours, check_array, check_option, show
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms.independent import as_noise
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.privacy.guarantees import GDP, ZCDP, Guarantee, PureDP
from dpinfer.queries.sensitivity import l1_sensitivity, l2_sensitivity
from dpinfer.queries.workload import Workload

_MOST_ENTRIES = 40_000_000
_MOST_PROGRAMMES = 2000
"""Linear programmes that are solved, of a few milliseconds each for a hundred noises."""

_MOST_NODES = 10_000
"""Nodes of an integer programme: where no whole move is, its search may have no end."""

_ROUNDING = 1e-9
"""Rounding error of a whole number that is overlooked."""

_NOISELESS, _MISSED = 1e-13, 1e-11
"""Noise below this, of the largest, is rounding, and so is a change where there is no noise."""


def guarantee_of_workload(
    workload: Any,
    mechanism: Any,
    *,
    weights: Any = None,
    neighbours: Neighbours = "add-remove",
) -> Guarantee:
    """Guarantee of answers A x + W z to a workload A, with independent noises z.

    Parameters
    ----------
    workload : Workload or matrix, shape (m, n)
        The queries A on n cells.
    mechanism : Laplace, Geometric, Gaussian or DiscreteGaussian
        The law of the noises z: one scale for all, or one for each of the q noises. Rounded noise
        is that of whole-numbered queries, and has the guarantee of what was rounded.
    weights : array or sparse array, shape (m, q), optional
        The matrix W; by default each answer has a noise of its own, W = I.
    neighbours : {"add-remove", "replace"}
        One record more or less, or one record in another cell.

    Returns
    -------
    PureDP, GDP or ZCDP
        ε for Laplace and geometric noise, μ for Gaussian, ρ for discrete Gaussian noise.

    Raises
    ------
    InvalidParameterError
        If there is no guarantee: a record moves the answers where no noise does, or moves
        whole-numbered noise by fractions. Also if W has columns that depend on one another and
        discrete Gaussian noise, or too many cells for that.

    Notes
    -----
    A change of the data by d moves A x as a move s of the noises with W s = A d does, so that the
    guarantee is that of a sensitivity of s: Σ abs(sᵢ)/bᵢ for scales b, and √Σ(sᵢ/σᵢ)² for Gaussian
    noise, the largest over all neighbours. Under ``"replace"`` d is the difference of two unit
    vectors, for every pair, whose columns of A may be close: twice the largest column is only a
    bound.

    Where the columns of W are independent, there is one s. Otherwise the smallest is taken: for
    Gaussian noise in closed form, aⱼᵀ(W V Wᵀ)⁺aⱼ with V = diag(σ²), which is sharp; for Laplace
    noise by a linear programme for each cell, and for geometric noise, whose move has to be whole,
    by one in whole numbers, of 10,000 nodes at most, of which the best found is taken. These two
    are guarantees, but a smaller ε may hold. With ``"replace"`` there is a programme for each pair,
    for at most 64 cells or so.

    References
    ----------
    Li, C., Miklau, G., Hay, M., McGregor, A. and Rastogi, V. (2015). The matrix mechanism:
    optimizing linear counting queries under differential privacy. The VLDB Journal 24, 757-781.
    doi:10.1007/s00778-015-0398-x.

    Examples
    --------
    A tree of four cells, each node with Laplace noise of scale 1, and its best estimates of the
    cells, from whose seven noises the same guarantee is found:

    >>> import numpy as np
    >>> from dpinfer import Laplace, Workload
    >>> tree = Workload.tree(4)
    >>> guarantee_of_workload(tree, Laplace(scale=1.0))
    PureDP(epsilon=3.0, neighbours='add-remove')
    >>> weights = np.linalg.pinv(tree.matrix.toarray())
    >>> cells = guarantee_of_workload(np.eye(4), Laplace(scale=1.0), weights=weights)
    >>> round(cells.epsilon, 9)
    3.0
    """
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    whole = bool(getattr(mechanism, "is_integer", False))
    law = mechanism.law if isinstance(mechanism, Rounded) else mechanism
    kind = next((one for one in _ORDER if isinstance(law, one)), None)
    if kind is None:
        raise InvalidParameterError(
            "mechanism must be Laplace, Geometric, Gaussian or DiscreteGaussian noise, got "
            f"{show(mechanism)}: compose the guarantees of answers with other noise"
        )
    order = _ORDER[kind]
    if weights is None:
        count = len(queries)
        scale = _scales(law, count)
        if whole:
            _demand_whole(queries.matrix, relation, mechanism)
        moves = queries.matrix * (1.0 / scale)[:, np.newaxis]
        change = _sensitivity(moves, order, relation)
    else:
        shared = _Shared(queries, weights, law, relation)
        if order == 2 and not whole:
            change = _sensitivity(shared.shortest, 2, relation)
        elif shared.is_unique:
            moves = shared.back(shared.shortest)
            if whole:
                _demand_whole(moves * shared.scale[:, np.newaxis], relation, mechanism)
            change = _sensitivity(moves, order, relation)
        elif order == 2:
            raise InvalidParameterError(
                f"weights must have independent columns for {show(mechanism)}, got {shared.count} "
                f"columns of rank {shared.rank}: give the noises in fewer columns, or the "
                "measurements that they were made from"
            )
        else:
            change = shared.programmes(whole=whole)
    if kind is Gaussian:
        return GDP(change, neighbours=relation)
    if kind is DiscreteGaussian:
        return ZCDP(0.5 * change * change, neighbours=relation)
    return PureDP(change, neighbours=relation)


_ORDER: dict[type, int] = {Laplace: 1, Geometric: 1, Gaussian: 2, DiscreteGaussian: 2}
"""The norm of moves that the guarantee of a law depends on."""


def _scales(law: Any, count: int) -> FloatArray:
    as_noise(law, count)  # that there are as many
    scale = law.scale if hasattr(law, "scale") else law.sigma
    return np.array(np.broadcast_to(scale, count), dtype=np.float64)


def _sensitivity(moves: Any, order: int, neighbours: Neighbours) -> float:
    return (l1_sensitivity, l2_sensitivity)[order - 1](Workload(moves), neighbours)


def _demand_whole(moves: Any, neighbours: Neighbours, mechanism: Any) -> None:
    """Refuse moves that are no whole numbers, up to rounding."""
    if isinstance(moves, np.ndarray):
        held = moves - moves[:, :1] if neighbours == "replace" else moves
    else:  # a row of fractions has differences of whole numbers if it has no zeros
        held, counts = moves.data, np.diff(moves.indptr)
        if neighbours == "replace":
            full = np.flatnonzero(counts == moves.shape[1])
            less = np.zeros(counts.size)
            less[full] = held[moves.indptr[full]]
            held = held - np.repeat(less, counts)
    off = np.abs(held - np.rint(held))
    if (off > _ROUNDING * np.maximum(np.abs(held), 1.0)).any():
        raise InvalidParameterError(
            f"workload must move the noises by whole numbers for {show(mechanism)}, as otherwise "
            "the answers of neighbouring data sets have no value in common: use continuous noise"
        )


class _Shared:
    """Moves of shared noises that answer to changes of the data, in units of their scales.

    With W diag(scale) = U diag(s) Vᵀ the moves t of a change a satisfy Vᵀt = diag(1/s) Uᵀa.
    """

    def __init__(self, queries: Workload, weights: Any, law: Any, neighbours: Neighbours) -> None:
        dense = weights.toarray() if hasattr(weights, "toarray") else weights
        w = check_array(dense, "weights", ndim=2)
        if len(w) != len(queries):
            raise InvalidParameterError(
                f"weights must have {len(queries)} rows, one for each query, got {len(w)}"
            )
        self.count = w.shape[1]
        if max(w.size, len(queries) * queries.shape[1]) > _MOST_ENTRIES:
            raise InvalidParameterError(
                f"weights must have at most {_MOST_ENTRIES} entries, as must workload, got "
                f"{w.size} and {len(queries) * queries.shape[1]}"
            )
        self.neighbours = neighbours
        self.scale = _scales(law, self.count)
        a = np.asarray(Workload(queries.matrix).matrix @ np.eye(queries.shape[1]))
        rounding = 0.0
        if neighbours == "replace":
            rounding = 8.0 * np.finfo(float).eps * float(np.abs(a).max())
            a = a - a[:, :1]
        left, sizes, right = np.linalg.svd(w * self.scale, full_matrices=False)
        kept = sizes > _NOISELESS * sizes[0]
        self.rank = int(np.count_nonzero(kept))
        if not self.rank:
            raise InvalidParameterError("weights must not be 0: there is no noise")
        left = left[:, kept]
        inside = left.T @ a
        missed = np.abs(a - left @ inside).max(axis=0)
        off = missed > np.maximum(_MISSED * np.abs(a).max(axis=0), rounding)
        if off.any():
            raise InvalidParameterError(
                f"workload has no guarantee with these weights: a record in cell "
                f"{int(off.argmax())} moves the answers where no noise does, so that they tell "
                "whether it is there"
            )
        self._right = right[kept]
        self.shortest = inside / sizes[kept][:, np.newaxis]

    @property
    def is_unique(self) -> bool:
        """Whether one move answers to each change."""
        return self.rank == int(self.count)

    def back(self, coordinates: FloatArray) -> FloatArray:
        """Return the shortest moves, in the L2 norm, of these coordinates."""
        return np.asarray(self._right.T @ coordinates)

    def programmes(self, *, whole: bool) -> float:
        """Return the largest, over changes, of the smallest L1 norms of moves."""
        size = np.abs(self.shortest).max() or 1.0
        distinct = np.unique(np.round(self.shortest / size, 13), axis=1, return_index=True)[1]
        columns = self.shortest[:, np.sort(distinct)]
        if self.neighbours == "replace":
            first, second = np.triu_indices(columns.shape[1], 1)
            columns = columns[:, first] - columns[:, second]
        bounds = np.abs(self.back(columns)).sum(axis=0)
        best = 0.0
        for solved, at in enumerate(np.argsort(-bounds, kind="stable")):
            if not whole and bounds[at] <= best:
                break
            if solved == _MOST_PROGRAMMES:
                raise InvalidParameterError(
                    f"workload must have fewer cells, or weights independent columns: more than "
                    f"{_MOST_PROGRAMMES} linear programmes would have to be solved"
                )
            best = max(best, (self._whole if whole else self._smallest)(columns[:, at]))
        return best

    def _smallest(self, coordinates: FloatArray) -> float:
        """Return the smallest L1 norm of moves, found by a linear programme."""
        from scipy.optimize import linprog

        size = np.abs(coordinates).max()
        if size == 0:
            return 0.0
        both = np.hstack([self._right, -self._right])
        found = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=coordinates / size)
        if found.status != 0:
            raise ConvergenceError(f"a linear programme of the noises failed: {found.message}")
        moves = size * (found.x[: self.count] - found.x[self.count :])
        # what rounding left over is moved, too: the norm is that of a move that answers
        moves = moves + self._right.T @ (coordinates - self._right @ moves)
        return float(np.abs(moves).sum())

    def _whole(self, coordinates: FloatArray) -> float:
        """Return the smallest sum of whole moves over scales, found by an integer programme."""
        from scipy.optimize import LinearConstraint, milp

        if not coordinates.any():
            return 0.0
        both = np.hstack([self._right / self.scale, -self._right / self.scale])
        cost = np.concatenate([1.0 / self.scale] * 2)
        equal = LinearConstraint(both, coordinates, coordinates)
        found = milp(
            cost,
            constraints=equal,
            integrality=np.ones(len(cost)),
            options={"node_limit": _MOST_NODES},
        )
        moves: NDArray[Any] | None = None
        if found.x is not None:
            moves = np.rint(found.x[: self.count] - found.x[self.count :])
            off = np.abs(self._right @ (moves / self.scale) - coordinates).max()
            if off > _ROUNDING * max(1.0, float(np.abs(coordinates).max())):
                moves = None
        if moves is None:
            raise InvalidParameterError(
                "workload must move the noises by whole numbers under whole-numbered noise, and "
                "none was found that a change of one record is: use continuous noise"
            )
        return float((np.abs(moves) / self.scale).sum())
