"""Rows of a workload that count the records of a marginal cell."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import check_integer_array, check_items, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import Domain

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
