"""The universe of records: named attributes with their levels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_array,
    check_items,
    check_length,
    one_line,
    plain,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    import pandas as pd


SUMMED = "*"  # label of an attribute that a row sums over
MAX_CELLS = 2**28  # cells up to which vectors over a whole domain are formed (2 GiB of float64)
MAX_ATTRIBUTES = 62
"""Attributes of a domain at most: sets of them are held as the bits of a 64-bit integer."""


@final
class Domain:
    """Named attributes with ordered levels: a cell is one combination of levels.

    Cells are numbered in row-major order: the last attribute changes fastest.

    Parameters
    ----------
    levels : mapping of str to iterable
        The levels of each attribute, in order. Levels are distinct hashable scalars such as
        strings or integers; ``"*"``, the label of "summed over", and missing values are refused.

    Raises
    ------
    InvalidParameterError
        If a name is not a non-empty string, an attribute has no levels, or a level is repeated.

    Examples
    --------
    >>> domain = Domain({"sex": ["Male", "Female"], "married": [True, False]})
    >>> domain.shape, domain.size
    ((2, 2), 4)
    >>> domain.histogram([("Male", True), ("Female", True), ("Male", True)])
    array([2., 0., 1., 0.])
    """

    __slots__ = ("_levels",)

    def __init__(self, levels: Mapping[str, Iterable[Hashable]]) -> None:
        if not isinstance(levels, Mapping):
            raise InvalidParameterError(
                f"levels must be a mapping of attribute names to levels, got {show(levels)}"
            )
        if len(levels) > MAX_ATTRIBUTES:
            raise InvalidParameterError(
                f"levels must name at most {MAX_ATTRIBUTES} attributes, got {len(levels)}"
            )
        self._levels = {
            _check_attribute(name): _check_levels(name, values) for name, values in levels.items()
        }

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes, in order."""
        return tuple(self._levels)

    @property
    def levels(self) -> dict[str, tuple[Hashable, ...]]:
        """Levels of each attribute, in order."""
        return dict(self._levels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(levels) for levels in self._levels.values())

    @property
    def size(self) -> int:
        """Number of cells: the product of the numbers of levels, 1 without attributes."""
        return prod(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return list(self._levels.items()) == list(other._levels.items())

    def __hash__(self) -> int:
        return hash(tuple(self._levels.items()))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(levels)}" for name, levels in self._levels.items())
        return f"Domain({sizes}; {self.size} cells)"

    def cells(self) -> pd.Index:
        """Return the labels of at most 2²⁸ cells in row-major order.

        An index with a level for each attribute; a plain one for a domain of one attribute.
        """
        self.check_size()
        codes = np.indices(self.shape, dtype=np.int32).reshape(len(self.shape), self.size).T
        return self.label_rows(codes)

    def label_rows(self, codes: NDArray[np.integer[Any]]) -> pd.Index:
        """Return the labels of rows, as :meth:`cells` has them, from their level numbers.

        These have shape (rows, attributes), with -1, which becomes ``"*"``, where a row sums over
        the attribute.
        """
        import pandas as pd

        if not self._levels:
            return pd.Index([SUMMED] * len(codes), dtype=object, name="total")
        levels, numbers = [], []
        for column, values in zip(codes.T, self._levels.values(), strict=True):
            summed = column < 0
            marked = summed.any()
            levels.append(pd.Index([*values, SUMMED] if marked else list(values)))
            numbers.append(np.where(summed, len(values), column) if marked else column)
        if len(levels) == 1:
            return levels[0].take(numbers[0]).rename(self.attributes[0])
        return pd.MultiIndex(
            levels=levels, codes=numbers, names=self.attributes, verify_integrity=False
        )

    def codes(self, attribute: str, values: Any, *, of: str = "value") -> NDArray[np.intp]:
        """Return the positions of values among the levels of one attribute.

        Of a value that is not a level, the error names the position, called ``of``: ``"row"``, say.
        """
        import pandas as pd

        self.check_attributes([attribute])
        levels = self._levels[attribute]
        with refusing(values, f"{of}s of {attribute}"):
            wanted = pd.Index(values)
            numbers = np.asarray(pd.Index(list(levels)).get_indexer(wanted), dtype=np.intp)
        if (numbers < 0).any():
            position = int(np.flatnonzero(numbers < 0)[0])
            value = wanted[position]
            raise InvalidParameterError(
                f"{attribute} must be one of {show_some(levels)}, got {show(value)} "
                f"at {of} {position}"
            )
        return numbers

    def histogram(self, records: Any, weights: ArrayLike | None = None) -> FloatArray:
        """Count the records of a table in each cell, in row-major order of these.

        Parameters
        ----------
        records : DataFrame, or sequence of mappings or tuples
            One record a row, with a column for each attribute; further columns are ignored.
            Tuples hold the levels in the order of the attributes.
        weights : array of float, shape (rows,), optional
            What each record counts for; 1 by default.
        """
        import pandas as pd

        self.check_size()
        records = as_pandas(records, "records")
        frame = records if isinstance(records, pd.DataFrame) else self._frame(records)
        if missing := [name for name in self.attributes if name not in frame.columns]:
            raise InvalidParameterError(
                f"records must have a column for each attribute, without: {', '.join(missing)}"
            )
        codes = tuple(self.codes(name, frame[name], of="row") for name in self.attributes)
        cells = np.ravel_multi_index(codes, self.shape) if codes else np.zeros(len(frame), np.intp)
        if weights is None:
            return np.bincount(cells, minlength=self.size).astype(np.float64)
        weight = check_array(weights, "weights", ndim=1, nonempty=False)
        check_length(weight, "weights", len(frame), "the records")
        total = np.asarray(np.bincount(cells, weights=weight, minlength=self.size), np.float64)
        if np.isinf([total.min(), total.max()]).any():
            raise InvalidParameterError(
                "weights must add up to at most 1.8e308 in each cell, the range of float64"
            )
        return total

    def check_attributes(self, names: Iterable[str]) -> None:
        """Refuse names that are not attributes of this domain."""
        known = self.attributes
        if unknown := [name for name in names if not isinstance(name, str) or name not in known]:
            raise InvalidParameterError(
                f"attributes must be among {show_some(self.attributes)}, got {show(unknown[0])}"
            )

    def check_size(self) -> None:
        """Refuse a domain too large to hold a vector over all of its cells."""
        if self.size > MAX_CELLS:
            raise InvalidParameterError(
                f"the domain must have at most {MAX_CELLS} cells to be listed, got {self.size}: "
                "use fewer attributes or coarser levels"
            )

    def _frame(self, records: Any) -> pd.DataFrame:
        import pandas as pd

        width = len(self.attributes)
        rows = check_items(records, "records", "mappings or tuples")
        if rows and all(isinstance(row, Mapping) for row in rows):
            return pd.DataFrame.from_records(rows)
        for position, row in enumerate(rows):
            if not isinstance(row, (tuple, list, np.ndarray)) or np.shape(row)[:1] != (width,):
                raise InvalidParameterError(
                    f"records must be a DataFrame, mappings, or tuples of {width} levels, "
                    f"got {show(row)} at position {position}"
                )
        frame = pd.DataFrame(index=range(len(rows)))
        for position, name in enumerate(self.attributes):
            column = np.empty(len(rows), dtype=object)
            column[:] = [plain(row[position]) for row in rows]
            frame[name] = pd.Series(column, dtype=object).infer_objects()
        return frame


def _check_attribute(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise InvalidParameterError(f"attribute names must be non-empty strings, got {show(name)}")


def _check_levels(name: str, values: object) -> tuple[Hashable, ...]:
    items = check_items(values, f"levels of {name}", "levels")
    if set(map(type, items)) == {str}:  # as nearly always, and there may be many
        texts = set(items)
        if len(texts) == len(items) and SUMMED not in texts and _is_level("".join(texts)):
            return tuple(items)
    levels = tuple(plain(value) for value in items)
    if not levels:
        raise InvalidParameterError(f"levels of {name} must hold at least one level, got none")
    seen: set[Hashable] = set()
    for level in levels:
        if not _is_level(level) or is_summed(level):
            raise InvalidParameterError(
                f"levels of {name} must be scalars such as strings and numbers, hashable and "
                f"other than {SUMMED!r} and missing values, got {show(level)}"
            )
        if level in seen:
            raise InvalidParameterError(
                f"levels of {name} must be distinct, got {show(level)} twice"
            )
        seen.add(level)
    return levels


def _is_level(level: object) -> bool:
    """Whether pandas can hold a value as one label: hashable, not a tuple, of whole characters."""
    if isinstance(level, str):
        return level.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in level)
    if isinstance(level, (tuple, np.generic)):
        return False
    try:
        hash(level)
    except TypeError:
        return False
    return True


def check_domain(domain: object) -> Domain:
    """Return ``domain`` if it is one."""
    if isinstance(domain, Domain):
        return domain
    raise InvalidParameterError(
        f"domain must be a Domain, such as Domain({{'sex': ['F', 'M']}}), got {show(domain)}"
    )


@contextmanager
def refusing(labels: Any, name: str) -> Iterator[None]:
    """Turn what pandas raises on labels that it cannot hold or hash into an error of ours."""
    try:
        yield
    except (TypeError, ValueError, NotImplementedError) as error:
        if isinstance(error, InvalidParameterError):
            raise
        raise InvalidParameterError(
            f"{name} must be a one-dimensional sequence of labels that are scalars or tuples of "
            f"scalars, got {show(labels)}: {one_line(error)}"
        ) from error


def is_summed(level: object) -> bool:
    """Whether a label says "summed over": ``"*"``, None, NaN or pandas' missing values."""
    if level is None or (isinstance(level, str) and level == SUMMED):
        return True
    # NaN and NaT differ from themselves; pandas.NA refuses a truth value and has this name
    return type(level).__name__ in ("NAType", "NaTType") or (
        isinstance(level, float) and level != level
    )


# Labels of queries and cells.


def check_labels(labels: Any, name: str, length: int, of: str) -> pd.Index | None:
    """Return labels as an index of distinct entries, one for each of ``of``; None stays None."""
    if labels is None:
        return None
    labels = as_pandas(labels, name)
    if isinstance(labels, (str, bytes, Set)) or not hasattr(labels, "__len__"):
        raise InvalidParameterError(f"{name} must be a sequence of labels, got {show(labels)}")
    import pandas as pd

    with refusing(labels, name):
        index = labels if isinstance(labels, pd.Index) else pd.Index(labels)
        check_length(index, name, length, of)
        check_distinct(index, name)
    return index


def check_distinct(index: pd.Index, name: str) -> None:
    """Refuse labels of which two are the same."""
    if not index.is_unique:
        repeated = show(index[index.duplicated()][0])
        raise InvalidParameterError(f"{name} must be distinct, got {repeated} twice")


def match_labels(histogram: Any, columns: pd.Index | None) -> Any:
    """Put a histogram into the order of the cells, if it has labels."""
    if columns is None or not hasattr(histogram, "reindex") or histogram.index.equals(columns):
        return histogram
    if len(histogram) != len(columns) or not histogram.index.isin(columns).all():
        raise InvalidParameterError(
            "histogram must be labelled with the cells of the workload; pass its values as an "
            "array to go by position"
        )
    return histogram.reindex(columns)
