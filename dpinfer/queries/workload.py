"""Linear queries on a histogram: the workload matrix with its labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    FloatArray,
    as_table,
    check_array,
    check_flag,
    check_index,
    check_integer,
    check_integer_array,
    check_items,
    check_length,
    freeze,
    one_line,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.queries.domain import Domain, check_domain, check_labels, match_labels

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array


# Rows of a workload that count the records of a marginal cell.


Codes = NDArray[np.int32]

MAX_ENTRIES = 2**28
"""Entries up to which a marginal workload is formed (about 3 GiB in sparse form)."""


def marginal_codes(domain: Domain, attributes: str | Iterable[str]) -> Codes:
    """Level numbers (rows × attributes) of the cells of a marginal, -1 where summed over."""
    given = (attributes,) if isinstance(attributes, str) else attributes
    names = tuple(check_items(given, "a marginal", "attributes"))
    domain.check_attributes(names)
    if len(set(names)) < len(names):
        raise InvalidParameterError(f"a marginal must name an attribute once, got {names}")
    sizes = [
        levels if name in names else 1
        for name, levels in zip(domain.attributes, domain.shape, strict=True)
    ]
    check_entries(prod(sizes))
    codes = np.indices(sizes, dtype=np.int32).reshape(len(sizes), prod(sizes)).T.copy()
    codes[:, [name not in names for name in domain.attributes]] = -1
    return codes


def check_codes(domain: Domain, codes: Any) -> Codes:
    """Return level numbers (rows × attributes), -1 where summed over, as a read-only array."""
    array = codes
    if not (isinstance(codes, np.ndarray) and codes.dtype.kind == "i"):
        array = check_integer_array(codes, "codes", ge=-1)
    width = len(domain.attributes)
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise InvalidParameterError(
            f"codes must have a row for each query and {width} columns, one for each attribute, "
            f"got shape {array.shape}"
        )
    bad = (array < -1) | (array >= np.array(domain.shape, dtype=np.int64))
    if bad.any():
        row, axis = (int(axis[0]) for axis in np.nonzero(bad))
        raise InvalidParameterError(
            f"codes of {domain.attributes[axis]} must be between -1 and "
            f"{domain.shape[axis] - 1}, got {array[row, axis]:g} in row {row}"
        )
    if array.dtype == np.int32 and not array.flags.writeable:
        return codes  # type: ignore[no-any-return]
    return freeze(array.astype(np.int32))


def marginal_matrix(domain: Domain, codes: Codes) -> csr_array:
    """Return the counting matrix of rows given by level numbers, -1 where summed over.

    The cells that a row counts form a box of the domain, so all rows that sum over the same
    attributes are gathered at once from the reshaped array of cell numbers.
    """
    from scipy.sparse import csr_array

    domain.check_size()
    patterns, member = _summed_patterns(codes)
    shape = np.array(domain.shape, dtype=np.int64)
    width = np.where(patterns, shape, 1).prod(axis=1)[member]
    check_entries(int(width.sum()))
    cell = np.int32 if max(domain.size, int(width.sum())) < 2**31 else np.int64
    start: NDArray[np.integer[Any]] = np.concatenate([[0], np.cumsum(width)]).astype(cell)
    indices = np.empty(int(start[-1]), dtype=cell)
    cells = np.arange(domain.size, dtype=cell).reshape(domain.shape)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(member == number)
        kept, over = np.flatnonzero(~pattern), np.flatnonzero(pattern)
        size = prod(domain.shape[axis] for axis in over)
        boxes = cells.transpose(*kept, *over).reshape(-1, size)
        at = _ravel(codes[rows][:, kept], [domain.shape[axis] for axis in kept])
        indices[start[rows][:, np.newaxis] + np.arange(size)] = boxes[at]
    ones = np.ones(len(indices))
    return csr_array((ones, indices, start), shape=(len(codes), domain.size))


def is_row_major(domain: Domain, codes: Codes) -> bool:
    """Whether the rows are all cells of the domain in their order."""
    if len(codes) != domain.size or (codes < 0).any():
        return False
    return bool((_ravel(codes, domain.shape) == np.arange(domain.size)).all())


def check_entries(entries: int) -> None:
    """Refuse a workload with more non-zero entries than fit into memory."""
    if entries > MAX_ENTRIES:
        raise InvalidParameterError(
            f"the workload must have at most {MAX_ENTRIES} non-zero entries, got {entries}: "
            "use fewer attributes, coarser levels or fewer rows that sum over large tables"
        )


def _summed_patterns(codes: Codes) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Which attributes rows sum over: the distinct patterns, and the pattern of each row."""
    number = np.zeros(len(codes), dtype=np.int64)
    for axis, column in enumerate(codes.T):
        number |= (column < 0).astype(np.int64) << axis
    distinct, member = np.unique(number, return_inverse=True)
    axes = np.arange(codes.shape[1])
    return (distinct[:, np.newaxis] >> axes & 1).astype(bool), member


def _ravel(codes: NDArray[Any], sizes: Iterable[int]) -> NDArray[np.int64]:
    """Row-major numbers of tuples of level numbers; zero for the empty tuple."""
    number = np.zeros(len(codes), dtype=np.int64)
    for column, size in zip(codes.T, sizes, strict=True):
        number = number * size + column
    return number


# The matrix of a workload: a dense array or a sparse one by compressed rows.


Matrix = Any
"""A float64 array of shape (m, n), or a scipy.sparse.csr_array (which has no type stubs)."""


def check_matrix(matrix: Any) -> Matrix:
    """Return a read-only dense array or canonical CSR array of finite real numbers."""
    if not hasattr(matrix, "tocsr"):
        return freeze(check_array(matrix, "matrix", ndim=2))
    from scipy.sparse import csr_array

    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidParameterError(
            f"matrix must be two-dimensional and not empty, got shape {matrix.shape}"
        )
    rows = matrix.tocsr()
    entries = check_array(rows.data, "matrix", nonempty=False), rows.indices, rows.indptr
    sparse = csr_array(entries, shape=rows.shape, copy=True)
    sparse.sum_duplicates()
    if not sparse.data.all():
        sparse.eliminate_zeros()
    return read_only(sparse)


def stack_rows(parts: Sequence[Matrix]) -> Matrix:
    """Put matrices one below the other; the result is sparse if any of them is."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(part) for part in parts], format="csr"))


def read_only(matrix: Matrix) -> Matrix:
    """Make the arrays of a matrix read-only and return it."""
    dense = isinstance(matrix, np.ndarray)
    for part in (matrix,) if dense else (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def entries(matrix: Matrix) -> FloatArray:
    """Return the stored entries of a matrix, those that are zero in a sparse one left out."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.data)


def lone_entries(matrix: csr_array) -> NDArray[np.integer[Any]]:
    """Return the places of the entries that are the only ones stored in their rows."""
    starts = matrix.indptr
    return np.asarray(starts[:-1][starts[1:] - starts[:-1] == 1])


def is_identity(matrix: Matrix) -> bool:
    """Whether a matrix is the identity."""
    rows, columns = matrix.shape
    if rows != columns:
        return False
    if isinstance(matrix, np.ndarray):
        return bool((matrix.diagonal() == 1).all() and np.count_nonzero(matrix) == rows)
    return bool(
        matrix.nnz == rows
        and (matrix.data == 1).all()
        and (matrix.indices == np.arange(rows)).all()
        and (matrix.indptr == np.arange(rows + 1)).all()
    )


def integer_rows(matrix: Matrix) -> NDArray[np.bool_]:
    """Return for each row whether all of its entries are whole numbers."""
    if isinstance(matrix, np.ndarray):
        return np.asarray((matrix == np.floor(matrix)).all(axis=1))
    whole = np.ones(matrix.shape[0], dtype=bool)
    fractions = np.flatnonzero(matrix.data != np.floor(matrix.data))
    whole[np.searchsorted(matrix.indptr, fractions, side="right") - 1] = False
    return whole


# Cells of a domain that meet a condition.


Condition = Mapping[str, Any] | Callable[[Any], Any]
"""A mapping of attributes to levels, or a function of the frame of all cells."""


def mask_of(domain: Domain, label: str, given: Condition) -> NDArray[np.bool_]:
    """Cells that meet a condition."""
    if isinstance(given, Mapping):
        return _box(domain, given)
    if not callable(given):
        raise InvalidParameterError(
            f"predicate {show(label)} must be a mapping of attributes to levels or a function, "
            f"got {show(given)}"
        )
    cells = domain.cells().to_frame(index=False)
    try:
        mask = np.asarray(given(cells))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidParameterError(
            f"predicate {show(label)} must work on whole columns, with & and | in place of "
            f"`and` and `or`: {one_line(error)}"
        ) from error
    if mask.dtype != np.bool_ or mask.shape != (domain.size,):
        raise InvalidParameterError(
            f"predicate {show(label)} must return a boolean for each of the {domain.size} cells, "
            f"got an array of {mask.dtype} and shape {mask.shape}"
        )
    return mask


def _box(domain: Domain, given: Mapping[str, Any]) -> NDArray[np.bool_]:
    mask = np.ones(domain.shape, dtype=bool)
    domain.check_attributes(given)
    for axis, (attribute, levels) in enumerate(domain.levels.items()):
        if attribute not in given:
            continue
        wanted = given[attribute]
        several = isinstance(wanted, (list, tuple, set, frozenset, range, np.ndarray))
        chosen = np.zeros(len(levels), dtype=bool)
        items = check_items(wanted, f"levels of {attribute}", "levels") if several else [wanted]
        chosen[domain.codes(attribute, items)] = True
        mask &= chosen.reshape([-1 if k == axis else 1 for k in range(mask.ndim)])
    return mask.ravel()


@final
class Workload:
    """A set of linear queries f(x) = A x on the histogram x of a database.

    Parameters
    ----------
    matrix : array of float, shape (m, n), or scipy.sparse matrix or array
        The coefficients A: one row a query, one column a cell of the histogram. A sparse matrix
        stays sparse, in the compressed-row form; either is copied and read-only afterwards.
    labels : sequence of length m, optional
        Labels of the queries.
    columns : sequence of length n, optional
        Labels of the cells.
    domain : Domain, optional
        The domain whose cells the columns are, in row-major order; it gives their labels.

    Raises
    ------
    InvalidParameterError
        If the matrix is empty, not two-dimensional or not finite, or labels do not fit it.

    See Also
    --------
    Workload.from_marginals, Workload.from_predicates, Workload.identity, Workload.vstack,
    Workload.ranges, Workload.prefixes, Workload.tree, Workload.haar, Workload.square_root

    Examples
    --------
    >>> workload = Workload([[1, 0], [0, 1], [1, 1]], labels=["a", "b", "total"])
    >>> workload.answer([3, 4])
    array([3., 4., 7.])
    """

    def __init__(
        self,
        matrix: ArrayLike | Matrix,
        labels: Sequence[Hashable] | pd.Index | None = None,
        columns: Sequence[Hashable] | pd.Index | None = None,
        *,
        domain: Domain | None = None,
    ) -> None:
        self._matrix: Matrix | None = check_matrix(matrix)
        self._shape: tuple[int, int] = self._matrix.shape
        self._domain = domain
        self._codes: Codes | None = None
        if domain is not None and (
            check_domain(domain).size != self._shape[1] or columns is not None
        ):
            raise InvalidParameterError(
                f"domain must have {self._shape[1]} cells, one for each column, and stand in "
                f"place of columns, got {show(domain)}"
            )
        self._labels = check_labels(labels, "labels", self._shape[0], "the rows")
        self._columns = check_labels(columns, "columns", self._shape[1], "the columns")

    @classmethod
    def identity(
        cls, cells: int | Domain, labels: Sequence[Hashable] | pd.Index | None = None
    ) -> Self:
        """Ask for every cell by itself: of a domain, or of so many with these labels."""
        if isinstance(cells, Domain):
            if labels is not None:
                raise InvalidParameterError("labels must be left out: the domain has labels")
            return cls._of_codes(cells, marginal_codes(cells, cells.attributes))
        size = check_integer(cells, "cells", ge=1)
        names = check_labels(labels, "labels", size, "the cells")
        return cls._build(None, (size, size), labels=names, columns=names)

    @classmethod
    def from_marginals(cls, domain: Domain, marginals: Iterable[str | Iterable[str]]) -> Self:
        """Ask for marginal tables of a domain.

        Parameters
        ----------
        domain : Domain
            The attributes and their levels.
        marginals : sequence of tuples of str
            The attributes of each table, for example ``[("sex", "age"), ("sex",), ()]``: the
            empty tuple is the total.

        Returns
        -------
        Workload
            The tables one below the other, each in row-major order of the domain. The labels
            have one level for each attribute, which holds ``"*"`` where a row sums over it.

        Raises
        ------
        InvalidParameterError
            If a table names an attribute that the domain does not have.

        Examples
        --------
        >>> domain = Domain({"sex": ["F", "M"], "age": ["young", "old"]})
        >>> workload = Workload.from_marginals(domain, [("sex",), ()])
        >>> workload.matrix.toarray()
        array([[1., 1., 0., 0.],
               [0., 0., 1., 1.],
               [1., 1., 1., 1.]])
        >>> workload.labels.to_list()
        [('F', '*'), ('M', '*'), ('*', '*')]
        """
        check_domain(domain)
        tables = check_items(marginals, "marginals", "tuples of attributes")
        if not tables:
            raise InvalidParameterError("marginals must hold at least one table, got none")
        check_entries(domain.size * len(tables))
        codes = [marginal_codes(domain, names) for names in tables]
        return cls._of_codes(domain, np.concatenate(codes))

    @classmethod
    def from_predicates(cls, domain: Domain, predicates: Mapping[str, Condition]) -> Self:
        """Count the records that meet conditions.

        Parameters
        ----------
        domain : Domain
            The attributes and their levels.
        predicates : mapping of str to condition
            The label of each query and its condition: a mapping of attributes to a level or a
            list of levels, all of which must hold (``{"sex": "F", "age": ["15-24", "25-34"]}``),
            or a function that receives the cells as a DataFrame with a column for each attribute
            and returns a boolean for each (``lambda cells: cells["age"] >= 18``).

        Raises
        ------
        InvalidParameterError
            If a condition names an unknown attribute or level, or does not return booleans.

        Examples
        --------
        >>> domain = Domain({"sex": ["F", "M"], "age": [17, 18, 19]})
        >>> Workload.from_predicates(
        ...     domain,
        ...     {"girls": {"sex": "F", "age": 17}, "adults": lambda cells: cells["age"] >= 18},
        ... ).matrix.toarray()
        array([[1., 0., 0., 0., 0., 0.],
               [0., 1., 1., 0., 1., 1.]])
        """
        from scipy.sparse import csr_array, vstack

        check_domain(domain).check_size()
        if not isinstance(predicates, Mapping) or not predicates:
            got = show(predicates)
            raise InvalidParameterError(f"predicates must hold at least one condition, got {got}")
        masks = [mask_of(domain, label, given) for label, given in predicates.items()]
        matrix = vstack([csr_array(mask[None, :].astype(np.float64)) for mask in masks], "csr")
        workload = cls._build(csr_array(matrix), matrix.shape)
        workload._labels = check_labels(list(predicates), "labels", len(masks), "the rows")
        workload._domain = domain
        return workload

    @classmethod
    def prefixes(cls, cells: int | Domain) -> Self:
        """Ask for the running totals of n cells: row k sums the cells 0 to k.

        Parameters
        ----------
        cells : int or Domain
            The number n of cells, or a domain of one attribute, whose levels are in order.

        Returns
        -------
        Workload
            n queries, labelled by the first and the last cell that they sum: numbers from 0, or
            levels.

        Examples
        --------
        >>> Workload.prefixes(3).matrix.toarray()
        array([[1., 0., 0.],
               [1., 1., 0.],
               [1., 1., 1.]])
        """
        size, _ = _in_order(cells)
        last = np.arange(size)
        return cls._of_runs(cells, np.zeros_like(last), last)

    @classmethod
    def ranges(cls, cells: int | Domain) -> Self:
        """Ask for every sum of neighbouring cells, of which n cells have n(n + 1)/2.

        Parameters
        ----------
        cells : int or Domain
            The number n of cells, or a domain of one attribute, whose levels are in order.

        Returns
        -------
        Workload
            The queries, by their first and then their last cell, which label them.

        Examples
        --------
        >>> workload = Workload.ranges(Domain({"age": ["0-17", "18-64", "65+"]}))
        >>> workload.labels.to_list()[:3]
        [('0-17', '0-17'), ('0-17', '18-64'), ('0-17', '65+')]
        >>> workload.answer([3, 4, 5])
        array([ 3.,  7., 12.,  4.,  9.,  5.])
        """
        size, _ = _in_order(cells)
        check_entries(size * (size + 1) * (size + 2) // 6)
        return cls._of_runs(cells, *np.triu_indices(size))

    @classmethod
    def tree(cls, cells: int | Domain, *, branching: int = 2, root: bool = True) -> Self:
        """Ask for the nodes of a tree over n cells: a hierarchical histogram.

        The cells are cut into ``branching`` runs as equal as can be, these again, down to single
        cells. A run that a coarser level has already is not asked for twice.

        Parameters
        ----------
        cells : int or Domain
            The number n of cells, or a domain of one attribute, whose levels are in order.
        branching : int, default 2
            Children of a node.
        root : bool, default True
            Whether to ask for the total.

        Returns
        -------
        Workload
            The nodes, level by level, labelled by their first and last cell. One record counts in
            one node of each level, of which there are ⌈log n⌉ + 1 with the root.

        Notes
        -----
        Published with noise and combined (:func:`dpinfer.combine`), its nodes answer ranges of many
        cells better than the cells do, but not those of few: compare
        (:func:`dpinfer.curation.compare_strategies`). For n = 8 and Laplace noise the cells are
        better also for prefixes, by 9 to 21.9 in the mean of variances.

        References
        ----------
        Hay, M., Rastogi, V., Miklau, G. and Suciu, D. (2010). Boosting the accuracy of
        differentially private histograms through consistency. arXiv:0904.0942.

        Examples
        --------
        >>> Workload.tree(4, root=False).matrix.toarray()
        array([[1., 1., 0., 0.],
               [0., 0., 1., 1.],
               [1., 0., 0., 0.],
               [0., 1., 0., 0.],
               [0., 0., 1., 0.],
               [0., 0., 0., 1.]])
        """
        size, _ = _in_order(cells)
        ways = min(check_integer(branching, "branching", ge=2), max(size, 2))
        seen = {(0, size)} if not check_flag(root, "root") and size > 1 else set()
        levels: list[Iterable[int]] = []
        parts = 1
        while parts < size:
            levels.append([part * size // parts for part in range(parts + 1)])
            parts *= ways
        levels.append(range(size + 1))
        runs: list[tuple[int, int]] = []
        for cuts in levels:
            fresh = [run for run in pairwise(cuts) if run[0] < run[1] and run not in seen]
            seen.update(fresh)
            runs += fresh
        first, end = np.array(runs).T
        return cls._of_runs(cells, first, end - 1)

    @classmethod
    def haar(cls, cells: int | Domain) -> Self:
        """Ask for the Haar wavelet of n cells: their total, then left halves less right halves.

        Parameters
        ----------
        cells : int or Domain
            The number n of cells, a power of two, or a domain of one attribute with as many levels.

        Returns
        -------
        Workload
            n orthogonal queries with coefficients 0, 1 and -1, of which each record moves
            log₂ n + 1 by one.

        References
        ----------
        Xiao, X., Wang, G. and Gehrke, J. (2011). Differential privacy via wavelet transforms.
        IEEE Transactions on Knowledge and Data Engineering 23, 1200-1214. arXiv:0909.5530.

        Examples
        --------
        >>> Workload.haar(4).matrix.toarray()
        array([[ 1.,  1.,  1.,  1.],
               [ 1.,  1., -1., -1.],
               [ 1., -1.,  0.,  0.],
               [ 0.,  0.,  1., -1.]])
        """
        from scipy.sparse import csr_array, eye_array, kron, vstack

        size, domain = _in_order(cells)
        if size & (size - 1):
            raise InvalidParameterError(
                f"cells must be a power of two for the Haar wavelet, got {size}: add cells that "
                "are known to be empty, or use Workload.tree"
            )
        check_entries(size * size.bit_length())
        rows = [csr_array(np.ones((1, size)))]
        for level in range(size.bit_length() - 1):
            half = size >> (level + 1)
            split = np.repeat([1.0, -1.0], half)[np.newaxis]
            rows.append(csr_array(kron(eye_array(1 << level), split, format="csr")))
        matrix = csr_array(vstack(rows, format="csr"))
        matrix.eliminate_zeros()
        return cls._build(matrix, (size, size))._on(domain)

    @classmethod
    def square_root(cls, cells: int | Domain) -> Self:
        """Ask for sums of n cells whose matrix S is the square root of the running totals.

        Parameters
        ----------
        cells : int or Domain
            The number n of cells, or a domain of one attribute, whose levels are in order.

        Returns
        -------
        Workload
            n queries: row i has the coefficient C(2k, k)/4ᵏ, k = i - j, for the cells j <= i, so
            that S S is the matrix of :meth:`prefixes`. For running totals with Gaussian noise its
            largest variance is within a constant of the best that any strategy has.

        References
        ----------
        Fichtenberger, H., Henzinger, M. and Upadhyay, J. (2023). Constant matters: fine-grained
        error bound on differentially private continual observation. arXiv:2202.11205.

        Examples
        --------
        >>> Workload.square_root(3).matrix
        array([[1.   , 0.   , 0.   ],
               [0.5  , 1.   , 0.   ],
               [0.375, 0.5  , 1.   ]])
        """
        size, domain = _in_order(cells)
        check_entries(size * size)
        steps = np.arange(1.0, size)
        column = np.cumprod(np.concatenate([[1.0], (steps - 0.5) / steps]))
        lag = np.arange(size)[:, None] - np.arange(size)
        matrix = np.where(lag >= 0, column[np.abs(lag)], 0.0)
        return cls._build(matrix, matrix.shape)._on(domain)

    @classmethod
    def _of_runs(cls, cells: int | Domain, first: NDArray[Any], last: NDArray[Any]) -> Self:
        """Sum neighbouring cells, which label the queries by the first and the last of them."""
        import pandas as pd
        from scipy.sparse import csr_array

        size, domain = _in_order(cells)
        width = last - first + 1
        check_entries(int(width.sum()))
        start = np.concatenate([[0], np.cumsum(width)])
        within = np.arange(start[-1]) - np.repeat(start[:-1], width)
        entries = np.ones(len(within)), np.repeat(first, width) + within, start
        matrix = csr_array(entries, shape=(len(first), size))
        levels = np.arange(size) if domain is None else domain.cells()
        labels = pd.MultiIndex.from_arrays([levels[first], levels[last]], names=["first", "last"])
        return cls._build(matrix, matrix.shape, labels=labels)._on(domain)

    def _on(self, domain: Domain | None) -> Self:
        self._domain = domain
        return self

    @classmethod
    def vstack(cls, workloads: Iterable[Workload]) -> Self:
        """Put the queries of workloads on the same cells one below the other.

        Labels are kept where every workload has them.
        """
        parts = check_items(workloads, "workloads", "Workload objects")
        if not parts or not all(isinstance(part, Workload) for part in parts):
            raise InvalidParameterError("workloads must hold Workload objects, at least one")
        domain = parts[0].domain
        for part in parts[1:]:
            _check_same_cells(parts[0], part)
        codes = [part._codes for part in parts]
        if domain is not None and all(code is not None for code in codes):
            return cls._of_codes(domain, np.concatenate([c for c in codes if c is not None]))
        matrix = stack_rows([part.matrix for part in parts])
        stacked = cls._build(matrix, matrix.shape, columns=parts[0]._columns)
        stacked._domain = domain
        labels = [part.labels for part in parts if part.labels is not None]
        if len(labels) == len(parts):
            stacked._labels = labels[0].append(labels[1:])
        return stacked

    @classmethod
    def from_codes(cls, domain: Domain, codes: Codes) -> Self:
        """Count boxes of a domain by level numbers (m × attributes), -1 where summed over."""
        return cls._of_codes(domain, check_codes(check_domain(domain), codes))

    @classmethod
    def _of_codes(cls, domain: Domain, codes: Codes) -> Self:
        """Count boxes by level numbers of the domain, which nobody else holds."""
        codes.flags.writeable = False
        identity = is_row_major(domain, codes)
        matrix = None if identity else marginal_matrix(domain, codes)
        workload = cls._build(matrix, (len(codes), domain.size))
        workload._domain = domain
        workload._codes = codes
        return workload

    @classmethod
    def _build(
        cls,
        matrix: Matrix | None,
        shape: tuple[int, int],
        labels: pd.Index | None = None,
        columns: pd.Index | None = None,
    ) -> Self:
        """Assemble a workload from checked parts; no matrix stands for the identity."""
        workload = cls.__new__(cls)
        workload._matrix = None if matrix is None else read_only(matrix)
        workload._shape = (int(shape[0]), int(shape[1]))
        workload._domain = None
        workload._codes = None
        workload._labels = labels
        workload._columns = columns
        return workload

    @property
    def matrix(self) -> Matrix:
        """The coefficients, m × n: a read-only array, or a sparse array in CSR form."""
        if self._matrix is None:
            from scipy.sparse import csr_array, eye_array

            check_entries(self._shape[0])
            self._matrix = read_only(csr_array(eye_array(self._shape[0], format="csr")))
        return self._matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and of cells."""
        return self._shape

    @property
    def domain(self) -> Domain | None:
        """The domain whose cells the columns are, if the workload was built from one."""
        return self._domain

    @property
    def codes(self) -> Codes | None:
        """Level numbers of the attributes of each query, -1 where it sums over the attribute.

        An array of shape (m, attributes); None unless every query is a cell of a marginal table.
        """
        return self._codes

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the queries, or None."""
        if self._labels is None and self._domain is not None and self._codes is not None:
            self._labels = self._domain.label_rows(self._codes)
        return self._labels

    @property
    def columns(self) -> pd.Index | None:
        """Labels of the cells, or None."""
        if self._columns is None and self._domain is not None:
            self._columns = self._domain.cells()
        return self._columns

    @property
    def is_sparse(self) -> bool:
        """Whether :attr:`matrix` is sparse; the identity is."""
        return not isinstance(self._matrix, np.ndarray)

    @cached_property
    def is_identity(self) -> bool:
        """Whether every query asks for one cell, in the order of the cells."""
        return self._matrix is None or is_identity(self._matrix)

    @cached_property
    def is_integer(self) -> bool:
        """Whether all coefficients are whole numbers, so that every answer is one."""
        data = np.ones(1) if self._matrix is None else entries(self._matrix)
        return bool((data == np.floor(data)).all())

    @cached_property
    def is_counting(self) -> bool:
        """Whether all coefficients are 0 or 1, so that every answer counts records."""
        data = np.ones(1) if self._matrix is None else entries(self._matrix)
        return bool(((data == 0) | (data == 1)).all())

    def integer_rows(self) -> NDArray[np.bool_]:
        """Return for each of the m queries whether all of its coefficients are whole numbers."""
        if self._matrix is None or self.is_integer:
            check_entries(self._shape[0])
            return np.ones(self._shape[0], dtype=bool)
        return integer_rows(self._matrix)

    def take(self, index: Any) -> Workload:
        """Return the workload of the queries that a mask, positions or a slice selects."""
        check_entries(self._shape[0])
        check_index(index, self._shape[:1])
        rows = np.arange(self._shape[0])[index].reshape(-1)
        if self._domain is not None and self._codes is not None:
            return Workload.from_codes(self._domain, self._codes[rows])
        matrix = self.matrix[rows]
        taken = Workload._build(matrix, matrix.shape, columns=self._columns)
        taken._labels = None if self.labels is None else self.labels[rows]
        taken._domain = self._domain
        return taken

    def with_labels(self, labels: Sequence[Hashable] | pd.Index | None) -> Workload:
        """Return the same queries under m other labels, or under none."""
        checked = check_labels(labels, "labels", self._shape[0], "the rows")
        renamed = Workload._build(self._matrix, self._shape, checked, self._columns)
        renamed._domain = self._domain
        return renamed

    def answer(self, histogram: ArrayLike | pd.Series) -> Any:
        """Return the m answers A x on a histogram of n counts.

        A Series is matched with the cells by its labels, and gives a labelled Series.
        """
        histogram = as_table(histogram, "histogram")
        labelled = hasattr(histogram, "reindex")
        x = check_array(match_labels(histogram, self.columns), "histogram", ndim=1)
        check_length(x, "histogram", self._shape[1], "the cells")
        with np.errstate(over="ignore", invalid="ignore"):
            answers = x if self._matrix is None else np.asarray(self._matrix @ x)
        check_array(answers, "matrix @ histogram")
        if not labelled:
            return answers.copy() if answers is x else answers
        import pandas as pd

        return pd.Series(answers, index=self.labels)

    def __matmul__(self, histogram: ArrayLike | pd.Series) -> Any:
        return self.answer(histogram)

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        rows, cells = self._shape
        kind = "identity" if self.is_identity else "sparse" if self.is_sparse else "dense"
        return f"Workload({rows} queries on {cells} cells, {kind})"


def _in_order(cells: Any) -> tuple[int, Domain | None]:
    """Return the number of cells in order, and the domain whose levels they are, if any."""
    if not isinstance(cells, Domain):
        return check_integer(cells, "cells", ge=1, le=MAX_ENTRIES), None
    if len(cells.attributes) != 1:
        raise InvalidParameterError(
            "cells must be a number or a domain of one attribute, whose levels are in order, got "
            f"{show(cells)}"
        )
    return cells.size, cells


def _check_same_cells(first: Workload, other: Workload) -> None:
    if first.shape[1] != other.shape[1] or first.domain != other.domain:
        raise InvalidParameterError(
            f"workloads must be on the same cells, got {show(first)} and {show(other)}"
        )


# Integer noise goes with integer-valued queries only.


def check_counting(workload: Workload, mechanism: NoiseLaw) -> None:
    """Refuse integer noise on queries whose answers need not be whole numbers.

    Parameters
    ----------
    workload : Workload
        The queries, m of them.
    mechanism : NoiseLaw
        The noise, one law for all queries or one for each.

    Raises
    ------
    IncompatibleReleaseError
        If a query with a fractional coefficient carries integer noise.

    Notes
    -----
    If neighbouring databases have answers that differ by less than one, whole-numbered noise gives
    outputs with disjoint supports: the output says which database it was, at any scale. See Ghosh,
    Roughgarden and Sundararajan (2012, doi:10.1137/09076828X), and Canonne, Kamath and Steinke
    (2020, doi:10.48550/arXiv.2004.00010).
    """
    if workload.is_integer or not mechanism_has_integers(mechanism):
        return
    fractional = ~workload.integer_rows()
    for law, cells in groups(mechanism, len(workload)):
        if law.is_integer and not isinstance(law, Exact) and (bad := fractional[cells]).any():
            row = int(cells[np.flatnonzero(bad)[0]])
            label = "" if workload.labels is None else f" ({show(workload.labels[row])})"
            if isinstance(law, Rounded):
                raise IncompatibleReleaseError(
                    "Rounded noise must be that of integer-valued queries, got a query with "
                    f"fractional coefficients in row {row}{label}: the error of a rounded fraction "
                    "depends on the fraction; give the law before rounding, and widen intervals by "
                    "1/2 on either side"
                )
            raise IncompatibleReleaseError(
                f"{type(law).__name__} noise must be added to integer-valued queries, got a "
                f"query with fractional coefficients in row {row}{label}: neighbouring databases "
                "would give outputs with disjoint supports, which is not private; use continuous "
                "noise or whole coefficients"
            )


def mechanism_has_integers(mechanism: NoiseLaw) -> bool:
    """Whether some of the noises take whole numbers only."""
    size = mechanism.shape[0] if mechanism.shape else 1
    return any(law.is_integer for law, _ in groups(mechanism, size))
