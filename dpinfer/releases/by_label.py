"""Values by their labels: which are chosen, and which belong together in sums."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import pairwise
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import as_table, one_line, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.queries.domain import SUMMED
from dpinfer.queries.workload import entries
from dpinfer.releases.noises import Positions

if TYPE_CHECKING:
    import pandas as pd

_UNLIKE = (TypeError, ValueError, KeyError, NotImplementedError)
"""What pandas raises on labels of another kind than its own."""


def levels_of(labels: pd.Index | None, size: int) -> pd.DataFrame:
    """Return labels as a table with a column for each of their levels.

    One without a name is ``label``, or ``level_0``, ``level_1``, ... where there are several.
    """
    import pandas as pd

    index = pd.RangeIndex(size) if labels is None else labels
    parts = [index.get_level_values(at) for at in range(index.nlevels)]
    names = [
        (f"level_{at}" if index.nlevels > 1 else "label") if name is None else name
        for at, name in enumerate(index.names)
    ]
    if len(set(names)) < len(names):
        raise InvalidParameterError(
            f"levels of labels must have names of their own, got {show_some(names)}: rename them, "
            "as by index.set_names"
        )
    return pd.DataFrame({name: part.array for name, part in zip(names, parts, strict=True)})


def _check_levels(names: Any, frame: pd.DataFrame, what: str) -> None:
    for name in names:
        if not isinstance(name, str) or name not in frame.columns:
            raise InvalidParameterError(
                f"{what} must name levels of the labels, {show_some(frame.columns)}, got "
                f"{show(name)}"
            )


# Which values are chosen.


def having(labels: pd.Index | None, size: int, wanted: Mapping[str, Any]) -> Positions:
    """Return the positions of the labels that have one of the values wanted in each level."""
    frame = levels_of(labels, size)
    _check_levels(wanted, frame, "select")
    chosen = np.ones(size, dtype=bool)
    for name, given in wanted.items():
        held = frame[name]
        items = [given] if _is_one(given) else list(as_table(given, name))
        try:
            found = [_equal(held, item) for item in items]
        except _UNLIKE as error:
            raise InvalidParameterError(
                f"{name} must be a label of that level, or a list of labels, got {show(given)}"
            ) from error
        for item, rows in zip(items, found, strict=True):
            if not rows.any():
                raise InvalidParameterError(
                    f"{name} must be one of {show_some(held.unique())}, got {show(item)}"
                )
        chosen &= np.any(found, axis=0) if found else False
    return np.flatnonzero(chosen)


def without_levels(labels: pd.Index | None, wanted: Mapping[str, Any]) -> pd.Index | None:
    """Return labels without the levels of which one label is wanted, unless none would be left."""
    if labels is None or labels.nlevels == 1:
        return labels
    names = levels_of(labels, len(labels)).columns
    fixed = [names.get_loc(name) for name, given in wanted.items() if _is_one(given)]
    return labels.droplevel(fixed) if 0 < len(fixed) < labels.nlevels else labels


def _is_one(given: Any) -> bool:
    """Whether a label is wanted, and not a list of them."""
    table = as_table(given, "level")
    several = isinstance(table, (list, set, frozenset, range)) or hasattr(table, "dtype")
    return not (several and np.ndim(table))


def _equal(held: Any, item: Any) -> NDArray[np.bool_]:
    """Return where a level has a label; a date or period may be given in words."""
    in_words = isinstance(item, str) and (held.dtype.kind == "M" or hasattr(held.dtype, "freq"))
    return _truth(held == item if in_words else held.isin([item]))


def meeting(labels: pd.Index | None, size: int, condition: Any) -> Positions:
    """Return the positions of the labels that meet a condition, in words or as a function."""
    frame = levels_of(labels, size)
    if isinstance(condition, str):
        found = _meaning(condition, frame)
    elif callable(condition):
        try:
            found = condition(frame)
        except (AttributeError, *_UNLIKE) as error:
            raise InvalidParameterError(
                "condition must work on the levels of the labels, "
                f"{show_some(frame.columns)}, as whole columns, with & and | in place of `and` and "
                f"`or`: {one_line(error)}; {_NOT_VALUES}"
            ) from error
    else:
        raise InvalidParameterError(
            "condition must be text, such as \"week > 3 and country in ['DE', 'FR']\", or a "
            f"function of the table of labels, got {show(condition)}: select takes masks, "
            "positions and labels"
        )
    mask = np.asarray(found)
    if mask.dtype != np.bool_ or mask.shape != (size,):
        raise InvalidParameterError(
            f"condition must be true or false of each of the {size} labels, got "
            f"{show(condition)}, of which came {mask.dtype} of shape {mask.shape}"
        )
    if not mask.any():
        raise InvalidParameterError(
            f"condition must be true of at least one label, got {show(condition)} of labels that "
            f"are {_held(frame)}"
        )
    return np.flatnonzero(mask)


def _held(frame: pd.DataFrame) -> str:
    """Return the levels with some of their labels as messages name them."""
    return "; ".join(f"{name}: {show_some(frame[name].unique(), 5)}" for name in frame.columns)


_NOT_VALUES = (
    "values are not among them, as the noise of values that are chosen for their size has another "
    "law: fix a list beforehand, or see count_confint and intervals.thresholded_sum_confint, which "
    "take a threshold"
)

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda held, items: _isin(held, items),
    ast.NotIn: lambda held, items: ~_isin(held, items),
}


def _isin(held: Any, items: Any) -> Any:
    if not hasattr(held, "dtype") or not isinstance(items, list):
        raise TypeError("`in` stands between a level and a list, as in week in [1, 2]")
    return np.any([np.zeros(len(held), bool), *(_truth(held == one) for one in items)], axis=0)


def _truth(found: Any) -> NDArray[np.bool_]:
    """Return booleans, of which those of other libraries may be missing."""
    if isinstance(found, np.ndarray):
        return found
    if not hasattr(found, "fillna") or found.dtype.kind != "b":
        raise TypeError("`and`, `or` and `not` join comparisons, such as week == 1")
    return np.asarray(found.fillna(False).to_numpy(), dtype=np.bool_)


_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]*)`""")
"""A text, or the name of a level in backticks, as ``DataFrame.query`` has them."""


def _meaning(text: str, frame: pd.DataFrame) -> Any:
    """Return whether each label meets a condition: comparisons, joined by and, or, not."""
    in_backticks: dict[str, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        word = f"level_in_backticks_{len(in_backticks)}"
        in_backticks[word] = found[2]
        return f" {word} "

    def of(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return -value
            case ast.List(parts) | ast.Tuple(parts) | ast.Set(parts):
                return [of(part) for part in parts]
            case ast.Name(word):
                name = in_backticks.get(word, word)
                if name not in frame.columns:
                    raise InvalidParameterError(
                        f"condition must be about levels of the labels, "
                        f"{show_some(frame.columns)}, got {name!r} in {show(text)}; {_NOT_VALUES}"
                    )
                return frame[name]
            case ast.UnaryOp(ast.Not(), inner):
                return ~_truth(of(inner))
            case ast.BoolOp(way, parts):
                joined = operator.and_ if isinstance(way, ast.And) else operator.or_
                return reduce(joined, (_truth(of(part)) for part in parts))
            case ast.Compare(left, kinds, others) if _COMPARISONS.keys() >= set(map(type, kinds)):
                sides: list[Any] = [of(left), *map(of, others)]
                ways = [_COMPARISONS[type(kind)] for kind in kinds]
                both = [way(*pair) for way, pair in zip(ways, pairwise(sides), strict=True)]
                return both[0] if len(both) == 1 else reduce(operator.and_, map(_truth, both))
        raise InvalidParameterError(
            f"condition must be made of comparisons of levels with values, `in` lists, `and`, `or` "
            f"and `not`, got {show(text)}: give other conditions as a function of the labels"
        )

    try:
        found = of(ast.parse(_QUOTED.sub(stand_in, text).strip(), mode="eval").body)
        return _truth(found) if getattr(found, "dtype", np.dtype(int)).kind == "b" else found
    except InvalidParameterError:
        raise
    except (SyntaxError, AttributeError, RecursionError, *_UNLIKE) as error:
        why = str(error)
        if isinstance(error, SyntaxError):  # its place is in what stands for the text
            names = [name for name in map(str, frame.columns) if not _is_word(name)]
            why = error.msg + (f"; write `{names[0]}` in backticks" if names else "")
        elif frame.astype(object).isin([SUMMED]).any(axis=None):
            why += f"; leave out what sums over a level first, as by where(\"level != '{SUMMED}'\")"
        raise InvalidParameterError(
            f"condition must be one that labels can be put to, got {show(text)}: {one_line(why)}"
        ) from error


def _is_word(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)


# Which values belong together in sums.


def groups_of(
    labels: pd.Index | None, size: int, by: Any = None, over: Any = None
) -> tuple[Any, pd.Index | None]:
    """Return a sparse array (k × m) of ones where a value is in a group, and labels of the groups.

    ``by`` names levels to keep, ``over`` those to sum over; or ``by`` is a list of labels, which
    are one group without a label, a mapping or Series of labels to groups, or a mapping of groups
    to lists of labels; or a list of levels, mappings, Series and arrays of a group for each value,
    whose combinations are the groups.
    """
    if over is not None:
        if by is not None:
            raise InvalidParameterError("by or over must be given, and not both")
        frame = levels_of(labels, size)
        summed = [over] if isinstance(over, str) else _listed(over, "over")
        _check_levels(summed, frame, "over")
        return _by_levels(frame, [name for name in frame.columns if name not in summed])
    if by is None:
        return _ones([np.arange(size)], size), None
    by = as_table(by, "by")
    if hasattr(by, "columns"):
        raise InvalidParameterError(
            "by must be a Series, got a DataFrame: pass the column that holds the groups"
        )
    if isinstance(by, Mapping) or (hasattr(by, "reindex") and hasattr(by, "iloc")):
        return _by_mapping(labels, size, by)
    frame = levels_of(labels, size)
    named = [by] if isinstance(by, str) else _listed(by, "by")
    if any(_maps(one) for one in named):
        return _by_keys(labels, frame, named)
    if named and all(isinstance(name, str) and name in frame.columns for name in named):
        return _by_levels(frame, named)
    if isinstance(by, str):
        _check_levels(named, frame, "by")
    return _ones([places_of(labels, size, named, "by")], size), None


def _listed(given: Any, name: str) -> list[Any]:
    if isinstance(given, (bytes, tuple)) or not hasattr(given, "__len__"):
        raise InvalidParameterError(
            f"{name} must be a level of the labels or a list of them, a list of labels, or a "
            f"mapping of labels to groups, got {show(given)}"
        )
    return list(given)


def _maps(one: Any) -> bool:
    """Whether an entry of a list says the groups of all values."""
    if isinstance(one, (str, int, float, tuple)):
        return False
    return isinstance(one, (Mapping, np.ndarray)) or hasattr(as_table(one, "by"), "iloc")


def _by_keys(
    labels: pd.Index | None, frame: pd.DataFrame, by: list[Any]
) -> tuple[Any, pd.Index | None]:
    """Return groups of all combinations, without the values that a Series or mapping leaves out."""
    import pandas as pd

    keys: dict[str, Any] = {}
    there = np.ones(len(frame), dtype=bool)
    for place, one in enumerate(by):
        if _maps(one):
            name, column = _key_of(labels, frame, one, f"group_{place}")
            there &= column.notna().to_numpy()
        else:
            _check_levels([one], frame, "by")
            name, column = one, frame[one]
        if name in keys:
            raise InvalidParameterError(
                f"by must have groups of different names, got {name!r} twice"
            )
        keys[name] = column
    table = pd.DataFrame(keys)
    at = np.flatnonzero(there)
    if not len(at):
        raise InvalidParameterError("by must put at least one label into a group, got none")
    found, index = _by_levels(table.take(at).infer_objects(), list(table.columns))
    return _of_numbers(_owners(found), at, len(frame)), index


def _owners(groups: Any) -> NDArray[np.intp]:
    """Return the one group of each value."""
    return np.asarray(groups.tocsc().indices, dtype=np.intp)


def _key_of(
    labels: pd.Index | None, frame: pd.DataFrame, one: Any, name: str
) -> tuple[str, pd.Series]:
    """Return the group of each value, missing where it has none, and what it is called."""
    import pandas as pd

    if isinstance(one, np.ndarray):
        if one.shape != (len(frame),):
            raise InvalidParameterError(
                f"by must hold arrays of a group for each of the {len(frame)} values, got shape "
                f"{one.shape}: give a Series, whose index holds labels, or one level of them"
            )
        return name, pd.Series(one)
    table = as_table(one, "by")
    table = pd.Series(table, dtype=object) if isinstance(table, Mapping) else table
    if hasattr(table, "columns") or not table.index.is_unique:
        raise InvalidParameterError("by must hold Series of labels to groups, each label once")
    levels = list(table.index.names)
    if all(level in frame.columns for level in levels):
        keys = pd.MultiIndex.from_frame(frame[levels]) if len(levels) > 1 else frame[levels[0]]
    elif table.index.nlevels == (1 if labels is None else labels.nlevels):
        keys = pd.RangeIndex(len(frame)) if labels is None else labels
    else:
        raise InvalidParameterError(
            f"by must hold Series whose index has the names of levels, {show_some(frame.columns)}, "
            f"got {show_some(levels)}: name it with rename_axis"
        )
    places = table.index.get_indexer(pd.Index(keys))
    if (table.index.size > 0) and (places < 0).all():
        raise InvalidParameterError(
            f"by must hold labels such as {show(pd.Index(keys)[0])}, got {show(table.index[0])}"
        )
    values = table.astype(object).reset_index(drop=True).reindex(places).reset_index(drop=True)
    return name if table.name is None else str(table.name), values


def _by_levels(frame: pd.DataFrame, kept: list[str]) -> tuple[Any, pd.Index | None]:
    import pandas as pd

    size = len(frame)
    if not kept:
        return _ones([np.arange(size)], size), None
    number = frame.groupby(kept, sort=False, dropna=False, observed=True).ngroup().to_numpy()
    first = np.unique(number, return_index=True)[1]
    rows = frame[kept].take(first)
    index = pd.MultiIndex.from_frame(rows) if len(kept) > 1 else pd.Index(rows[kept[0]])
    return _of_numbers(number, np.arange(size), size), index


def _by_mapping(labels: pd.Index | None, size: int, by: Any) -> tuple[Any, pd.Index | None]:
    import pandas as pd

    if not len(by):
        raise InvalidParameterError("by must name at least one label, got none")
    if isinstance(by, Mapping):
        lists = [isinstance(one, (list, pd.Index, np.ndarray)) for one in by.values()]
        if all(lists):
            rows = [places_of(labels, size, list(one), "by") for one in by.values()]
            return _ones(rows, size), pd.Index(list(by), tupleize_cols=True)
        if any(lists):
            raise InvalidParameterError(
                "by must map labels to groups, or groups to lists of labels, got both"
            )
        named = pd.Index(list(by), tupleize_cols=labels is not None and labels.nlevels > 1)
        by = pd.Series(list(by.values()), index=named, dtype=object).infer_objects()
    at = places_of(labels, size, by.index, "by")
    try:
        number, groups = pd.factorize(by.array)
    except _UNLIKE as error:
        raise InvalidParameterError(
            f"by must map labels to groups that are labels themselves: {one_line(error)}"
        ) from error
    there = number >= 0
    if not there.any():
        raise InvalidParameterError("by must put at least one label into a group, got none")
    found = _of_numbers(number[there], at[there], size)
    return found, pd.Index(groups, name=by.name)


def places_of(labels: pd.Index | None, size: int, wanted: Any, name: str) -> Positions:
    """Return the positions of labels, each of them once."""
    import pandas as pd

    index = pd.RangeIndex(size) if labels is None else labels
    try:
        listed = wanted
        if not isinstance(wanted, pd.Index):
            listed = pd.Index(list(wanted), tupleize_cols=index.nlevels > 1)
        if len(listed) and listed.nlevels != index.nlevels:
            raise ValueError("labels of another kind")
        found = np.asarray(index.get_indexer(listed), dtype=np.intp)
    except _UNLIKE as error:
        raise InvalidParameterError(
            f"{name} must hold labels such as {show(index[0])}, got {show(wanted)}"
        ) from error
    if not len(found):
        raise InvalidParameterError(f"{name} must name at least one label, got none")
    if (found < 0).any():
        raise InvalidParameterError(
            f"{name} must hold labels such as {show(index[0])}, got {show(listed[found < 0][0])}"
        )
    if len(np.unique(found)) < len(found):
        raise InvalidParameterError(
            f"{name} must name each label once, got {show(listed[listed.duplicated()][0])} twice"
        )
    return found


def counted_twice(groups: Any, matrix: Any, sums: Any) -> tuple[int, int, int] | None:
    """Return a group, and two values of it that count the same cell, where there are some.

    ``sums`` is ``groups @ matrix``; what does not count, as a difference, may share cells.
    """
    from scipy.sparse import csr_array

    data = entries(matrix)
    if not ((data == 0) | (data == 1)).all() or entries(sums).max(initial=0.0) <= 1.0:
        return None
    rows, cells = (csr_array(sums) > 1).nonzero()
    group = groups.indices[slice(*groups.indptr[rows[0] : rows[0] + 2])]
    column = matrix[:, [int(cells[0])]]
    there = np.asarray(column.toarray() if hasattr(column, "tocsr") else column).ravel() > 0
    one, other = group[there[group]][:2]
    return int(rows[0]), int(one), int(other)


def _ones(rows: list[Positions], size: int) -> Any:
    from scipy.sparse import csr_array

    stops = np.cumsum([0, *map(len, rows)])
    return csr_array(
        (np.ones(int(stops[-1])), np.concatenate(rows), stops), shape=(len(rows), size)
    )


def _of_numbers(number: NDArray[np.intp], at: Positions, size: int) -> Any:
    from scipy.sparse import csr_array

    entries = np.ones(len(at)), (number, at)
    return csr_array(entries, shape=(int(number.max()) + 1, size))
