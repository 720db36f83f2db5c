"""Releases in frames and labelled tables: laws by the names of files, labels, queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    FloatArray,
    as_pandas,
    check_array,
    check_items,
    check_parameter,
    show,
    show_some,
    step_and_way,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import IndependentNoise, as_noise, groups
from dpinfer.mechanisms.law import ContinuousLaw, NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.queries.domain import SUMMED, Domain, check_domain, is_summed, refusing
from dpinfer.queries.workload import Workload
from dpinfer.results.labels import stack_labels

if TYPE_CHECKING:
    import pandas as pd


# Noise laws by the names that files use, and joint laws of many rows.


KINDS: dict[str, type[NoiseLaw]] = {
    "laplace": Laplace,
    "geometric": Geometric,
    "gaussian": Gaussian,
    "discrete_gaussian": DiscreteGaussian,
    "tulap": Tulap,
    "exact": Exact,
}
"""Laws by the name under which files hold them."""

BUDGETS: dict[str, dict[str, Callable[..., NoiseLaw]]] = {
    "laplace": {"epsilon": Laplace.from_epsilon},
    "geometric": {"epsilon": Geometric.from_epsilon},
    "gaussian": {"rho": Gaussian.from_rho, "mu": Gaussian.from_mu},
    "discrete_gaussian": {"rho": DiscreteGaussian.from_rho},
}
"""The budgets that fix the noise of a law together with a sensitivity."""

BUDGET_NAMES = ("epsilon", "rho", "mu")

INTEGER_KINDS = ("geometric", "discrete_gaussian")
"""Laws that are for integer-valued queries."""

ALIASES = {"discrete_laplace": "geometric", "two_sided_geometric": "geometric", "none": "exact"}
"""Other names under which published files hold the same laws."""

_TIMES_AS_MANY = 4
"""Times as many cells as rows, up to which rows are counted by cell to find those given twice."""

ROUNDED = "rounding"
"""The entry that says by 1 whether the noisy values were rounded to whole numbers."""


def parameters(law: NoiseLaw) -> dict[str, Any]:
    """Return the parameters of a law by name: floats or arrays."""
    if isinstance(law, Rounded):
        return parameters(law.law) | {ROUNDED: 1}
    return {field.name: getattr(law, field.name) for field in fields(law)}  # type: ignore[arg-type]


def kind_of(law: NoiseLaw) -> str:
    """Return the name under which files hold a law."""
    if isinstance(law, Rounded):
        return kind_of(law.law)
    for name, kind in KINDS.items():
        if type(law) is kind:
            return name
    raise IncompatibleReleaseError(
        f"mechanism must be one of {', '.join(KINDS)} to be written to a file, got {show(law)}"
    )


def join_laws(laws: Sequence[NoiseLaw], sizes: Sequence[int]) -> NoiseLaw:
    """Joint law of consecutive blocks of rows, each with its own law."""
    parts, start = [], 0
    for law, size in zip(laws, sizes, strict=True):
        parts += [(part, cells + start) for part, cells in groups(law, size)]
        start += size
    first = parts[0][0]
    if first.shape == () and all(part == first for part, _ in parts):
        return first
    return IndependentNoise.from_groups(parts, start)


def spread_laws(mechanism: Any, sizes: Sequence[int]) -> NoiseLaw:
    """Joint law of the rows of several tables from what a ``mechanism=`` argument takes.

    One law rules all rows; a sequence holds one law for each table, or one for each row.
    """
    total = sum(sizes)
    if isinstance(mechanism, NoiseLaw) or not isinstance(mechanism, (list, tuple)):
        return as_noise(mechanism, total)
    if len(mechanism) != len(sizes):
        if len(mechanism) == total:
            return as_noise(mechanism, total)
        raise InvalidParameterError(
            f"mechanism must be one law, one for each of the {len(sizes)} tables or one for each "
            f"of the {total} values, got {len(mechanism)}"
        )
    named = enumerate(zip(mechanism, sizes, strict=True))
    laws = [as_noise(law, size, name=f"mechanism of table {k}") for k, (law, size) in named]
    return join_laws(laws, sizes)


def laws_of_rows(
    kinds: Any, columns: Mapping[str, float | FloatArray], rows: int, sensitivity: Any = None
) -> NoiseLaw:
    """Joint law of rows from the name of each row's law and columns of parameters or budgets.

    ``kinds`` is one name for all rows, or a column with the name for each.
    """
    import pandas as pd

    if isinstance(kinds, str):
        _refuse_unknown(kinds, columns)
        found = _laws_of_kind(kinds, columns, np.arange(rows), sensitivity)
        return IndependentNoise.from_groups(found, rows)
    with refusing(kinds, "mechanism"):
        member, names = pd.factorize(kinds)
    parts: list[tuple[NoiseLaw, NDArray[np.intp]]] = []
    for number, name in enumerate(names):
        cells = np.flatnonzero(member == number)
        parts += _laws_of_kind(name, columns, cells, sensitivity)
    return IndependentNoise.from_groups(parts, rows)


def _refuse_unknown(name: str, given: Iterable[str]) -> None:
    """Refuse parameters and budgets that are not those of a law."""
    kind = canonical_kind(name)
    budgets, own = BUDGETS.get(kind, {}), parameters_of_kind(kind)
    for entry in given:
        if entry in own or entry in budgets or entry == ROUNDED:
            continue
        fixes = [parameter for parameter, required in own.items() if required] + list(budgets)
        why = f"{name} noise is fixed by its {' or '.join(fixes) or 'name alone'}"
        if entry == "epsilon" and kind == "gaussian":
            why += (
                ", and ε by itself fixes no such noise: where δ is known as well, pass mechanism="
                "Gaussian.from_epsilon_delta(epsilon, delta, sensitivity=...)"
            )
        raise InvalidParameterError(f"{entry} must be left out: {why}")


def canonical_kind(name: str) -> str:
    """Return the name in ``KINDS`` of the law that a file calls by some name."""
    key = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    key = ALIASES.get(key, key)
    if key not in KINDS:
        known = ", ".join([*KINDS, *ALIASES])
        raise InvalidParameterError(f"mechanism must be one of {known}, got {show(name)}")
    return key


def parameters_of_kind(kind: str) -> dict[str, bool]:
    """Return the names of the parameters of a law, and whether each must be given."""
    own = {field.name: field.default is MISSING for field in fields(KINDS[kind])}  # type: ignore[arg-type]
    return own | ({ROUNDED: False} if issubclass(KINDS[kind], ContinuousLaw) else {})


def parameter_names() -> tuple[str, ...]:
    """Return the names of the parameters of all laws."""
    return tuple(dict.fromkeys(name for kind in KINDS for name in parameters_of_kind(kind)))


def _laws_of_kind(
    name: str,
    columns: Mapping[str, float | FloatArray],
    cells: NDArray[np.intp],
    sensitivity: Any,
) -> list[tuple[NoiseLaw, NDArray[np.intp]]]:
    kind = canonical_kind(name)
    columns = _with_budget(name, columns, cells, sensitivity)
    chosen: dict[str, Any] = {}
    for parameter, required in parameters_of_kind(kind).items():
        if parameter in columns:
            values = np.asarray(columns[parameter], dtype=np.float64)
            if parameter == ROUNDED:
                values = np.nan_to_num(values, nan=0.0)
                if (bad := (values != 0) & (values != 1)).any():
                    raise InvalidParameterError(
                        "rounding must be 1 or 0, or a column of these, where it is part of a law, "
                        f"got {values[bad][0]:g}: another step is rounding= of the release"
                    )
            chosen[parameter] = float(values) if values.ndim == 0 else values[cells]
            _check_rows(np.asarray(chosen[parameter]), parameter, name, cells, required)
        elif required:
            raise InvalidParameterError(
                f"mechanism {name} must have a {' or '.join([parameter, *BUDGETS.get(kind, {})])}"
            )
    rounded = np.broadcast_to(chosen.pop(ROUNDED, 0.0), cells.shape)
    law = KINDS[kind](**chosen)
    if not rounded.any():
        return [(law, cells)]
    parts = [(law.take(own), cells[own]) for own in (rounded == 0, rounded == 1)]
    plain, whole = parts
    return [part for part in (plain, (Rounded(whole[0]), whole[1])) if part[1].size]  # type: ignore[arg-type]


def _with_budget(
    name: str, columns: Mapping[str, Any], cells: NDArray[np.intp], sensitivity: Any
) -> Mapping[str, Any]:
    """Return the columns with that of the scale or σ that a budget and a sensitivity fix."""
    kind = canonical_kind(name)
    for budget, build in BUDGETS.get(kind, {}).items():
        if budget not in columns:
            continue
        parameter = next(iter(parameters_of_kind(kind)))
        others = [one for one in (parameter, *BUDGETS[kind]) if one in columns and one != budget]
        if others:
            raise InvalidParameterError(
                f"{budget} must be left out beside {others[0]}: each of them fixes the noise"
            )
        values = np.asarray(columns[budget], dtype=np.float64)
        norm = "l1" if budget == "epsilon" else "l2"
        change = sensitivity.get(norm) if isinstance(sensitivity, Mapping) else sensitivity
        if change is None:
            raise InvalidParameterError(
                f"sensitivity must be given with {budget}, its {norm.upper()} norm: how far one "
                "person, or what else is protected, can move all values together; it is 1 where "
                "each is counted once, in one value"
            )
        _check_rows(values if values.ndim == 0 else values[cells], budget, name, cells, True)
        own = build(values if values.ndim == 0 else values[cells], sensitivity=change)
        found = np.asarray(getattr(own, parameter))
        if found.ndim:
            spread = np.full(values.shape, np.nan)
            spread[cells] = found
            found = spread
        return {**columns, parameter: found}
    return columns


def _check_rows(
    values: FloatArray, parameter: str, name: str, cells: NDArray[np.intp], positive: bool
) -> None:
    """Name the row of a parameter that no law can have."""
    low = values <= 0 if positive else values < 0
    bad = low | ~np.isfinite(values)
    if values.ndim and bad.any():
        position = int(np.flatnonzero(bad)[0])
        raise InvalidParameterError(
            f"{parameter} of {name} noise must be a finite number {'>' if positive else '>='} 0, "
            f"got {values[position]} in row {int(cells[position])}"
        )


def columns_of_law(law: NoiseLaw, rows: int) -> dict[str, Any]:
    """Columns that say the law of each row: its name and its parameters, NaN where it has none."""
    names = np.empty(rows, dtype=object)
    columns: dict[str, Any] = {"mechanism": names}
    for part, cells in groups(law, rows):
        names[cells] = kind_of(part)
        for parameter, value in parameters(part).items():
            columns.setdefault(parameter, np.full(rows, np.nan))[cells] = value
    return columns


def rows_of_tables(
    tables: Any, mechanism: Any, domain: Domain | None
) -> tuple[FloatArray, Workload, NoiseLaw]:
    """Return the values, the queries and the noise of labelled tables."""
    if not isinstance(tables, (list, tuple)) or not tables:
        raise InvalidParameterError(
            f"tables must be a list of Series, DataFrames and numbers, got {show(tables)}"
        )
    parts = [_split(table, f"table {k}") for k, table in enumerate(tables)]
    if isinstance(mechanism, (list, tuple)) and len(mechanism) == len(parts):
        # laws of all cells of a table are those of its published cells
        mechanism = [
            law.take(mask)
            if isinstance(law, NoiseLaw) and law.shape == mask.shape and not mask.all()
            else law
            for law, (_, _, mask) in zip(mechanism, parts, strict=True)
        ]
    law = spread_laws(mechanism, [len(values) for values, _, _ in parts])
    values = np.concatenate([values for values, _, _ in parts])
    frames = [labels for _, labels, _ in parts]
    return values, workload_of_labels(frames, [len(v) for v, _, _ in parts], domain), law


def workload_of_labels(
    tables: Sequence[dict[str, Any]], sizes: Sequence[int], domain: Domain | None
) -> Workload:
    """Return the queries that labelled rows answer.

    Each table maps its attributes to the label of each of its rows; a row sums over an attribute
    that the table does not have or whose label says so.
    """
    given = domain is not None
    domain = _infer(tables) if domain is None else check_domain(domain)
    codes = np.full((sum(sizes), len(domain.attributes)), -1, dtype=np.int32)
    start = 0
    for labels, size in zip(tables, sizes, strict=True):
        domain.check_attributes(labels)
        for axis, attribute in enumerate(domain.attributes):
            if attribute in labels:
                codes[start : start + size, axis] = _codes(domain, attribute, labels[attribute])
        start += size
    _refuse_duplicates(domain, codes)
    if not given and not (codes < 0).any() and len(codes) < domain.size:
        labels = domain.label_rows(codes)
        return Workload._build(None, (len(codes), len(codes)), labels, labels)
    return Workload._of_codes(domain, codes)


def is_single_column(frame: pd.DataFrame) -> bool:
    """Whether a DataFrame is a Series in all but type: one column that no attribute names."""
    return bool(frame.shape[1] == 1 and frame.columns.names == [None])


def is_counting(labels: Any) -> bool:
    """Whether labels are 0, 1, ..., which pandas gives where there are none."""
    import pandas as pd

    plain = isinstance(labels, pd.RangeIndex) and labels.equals(pd.RangeIndex(len(labels)))
    return plain and labels.name is None


def _split(table: Any, name: str) -> tuple[FloatArray, dict[str, Any], NDArray[np.bool_]]:
    """Return the values of a table, its labels by attribute, and which cells it published."""
    import pandas as pd

    table = as_pandas(table, name, index="all but last")
    if isinstance(table, pd.DataFrame) and not is_single_column(table):
        labels = stack_labels(table)
        values = table.to_numpy().ravel()
        published = ~pd.isna(values)
        stacked = check_array(values[published], name)
        return stacked, _by_attribute(labels[published], name), published
    table = table.iloc[:, 0] if isinstance(table, pd.DataFrame) else table
    if isinstance(table, pd.Series):
        values = check_array(table.to_numpy(), name, ndim=1)
        if len(values) == 1 and table.index.names == [None]:
            return values, {}, np.ones(1, dtype=bool)
        return values, _by_attribute(table.index, name), np.ones(len(values), dtype=bool)
    total = check_array(table, name, ndim=0)
    return total.reshape(1), {}, np.ones(1, dtype=bool)


def _by_attribute(labels: pd.Index, name: str) -> dict[str, Any]:
    unnamed = [k for k, attribute in enumerate(labels.names) if attribute is None]
    if unnamed:
        raise InvalidParameterError(
            f"{name} must have its index levels and columns named after attributes, level "
            f"{unnamed[0]} has no name: use rename_axis"
        )
    if len(set(labels.names)) < len(labels.names):
        raise InvalidParameterError(f"{name} must name an attribute once, got {labels.names}")
    return {attribute: labels.get_level_values(attribute) for attribute in labels.names}


def _infer(tables: Sequence[dict[str, Any]]) -> Domain:
    """Domain of the attributes and levels that the tables show."""
    seen: dict[str, dict[Hashable, None]] = {}
    for labels in tables:
        for attribute, column in labels.items():
            levels = seen.setdefault(attribute, {})
            with refusing(column, f"labels of {attribute}"):
                levels |= dict.fromkeys(level for level in _shown(column) if not is_summed(level))
    for attribute, levels in seen.items():
        _refuse_mixed_types(attribute, list(levels))
    return Domain({attribute: list(levels) for attribute, levels in seen.items()})


def _refuse_mixed_types(attribute: str, levels: list[Hashable]) -> None:
    """Refuse 1 beside "1": the same level in tables that were read with different types."""
    written: dict[str, Hashable] = {}
    for level in levels:
        other = written.setdefault(str(level), level)
        if other is not level:
            raise InvalidParameterError(
                f"levels of {attribute} must be of one type, got {show(other)} and "
                f"{show(level)}: convert one of the tables"
            )


def _shown(column: Any) -> list[Hashable]:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        held = set(column.dropna().unique())
        return [level for level in column.dtype.categories if level in held]
    return list(pd.unique(column))


def _codes(domain: Domain, attribute: str, column: Any) -> NDArray[np.intp]:
    """Level numbers of a column of labels, -1 where it says "summed over"."""
    import pandas as pd

    with refusing(column, f"labels of {attribute}"):
        numbers, found = pd.factorize(column)
    distinct = np.empty(len(found), dtype=object)
    distinct[:] = found.tolist()  # at once: an index of categories takes a microsecond an item
    known = np.full(len(distinct) + 1, -1, dtype=np.intp)
    shown = np.flatnonzero(distinct != SUMMED)  # what is missing has the number -1 already
    if len(shown):
        known[shown] = domain.codes(attribute, distinct[shown], of="label")
    return np.asarray(known[numbers])


def _refuse_duplicates(domain: Domain, codes: NDArray[np.int32]) -> None:
    import pandas as pd

    # rows are numbered with one more level an attribute, which stands for "summed over"
    sizes = [size + 1 for size in domain.shape]
    number = np.zeros(len(codes), dtype=np.int64 if prod(sizes) < 2**63 else object)
    for column, size in zip(codes.T, sizes, strict=True):
        number *= size
        number += column
        number += 1
    if prod(sizes) <= _TIMES_AS_MANY * len(codes) and np.bincount(number).max() == 1:
        return
    repeated = np.flatnonzero(pd.Series(number).duplicated())
    if len(repeated):
        label = show(domain.label_rows(codes[repeated[:1]])[0])
        raise IncompatibleReleaseError(
            f"labels must be distinct, {label} is published twice (again in row {repeated[0]}): "
            "give repeated measurements of one query as Release(values, workload=matrix, "
            "mechanism=...) with labels of your own"
        )


# Long tables: one row a value, with the law of its noise in columns.


def check_frame(frame: Any) -> pd.DataFrame:
    """Return a table of pandas, or of a library that shares its columns, as a DataFrame."""
    import pandas as pd

    table = as_pandas(frame)
    if isinstance(table, pd.DataFrame):
        return table
    raise InvalidParameterError(
        f"frame must be a DataFrame of pandas, polars, pyarrow or the like, got {show(frame)}"
    )


def published_in_frame(
    frame: pd.DataFrame,
    value: str,
    mechanism: Any,
    threshold: Any,
    clamp: Any,
    bin_size: Any,
    rounding: Any = None,
    given: Mapping[str, Any] | None = None,
    sensitivity: Any = None,
) -> dict[str, Any]:
    """Return values, noise and publishing rule of the rows, each a number, a column, or its own.

    ``given`` holds parameters and budgets beside the name or class of a law.
    """
    law = None if mechanism is None else law_of_frame(frame, mechanism, given or {}, sensitivity)
    return {
        "values": _published(column(frame, value), value),
        "mechanism": law,
        "threshold": numbers(frame, threshold, "threshold", -np.inf),
        "clamp": bounds(frame, clamp),
        "bin_size": _steps(frame, bin_size, "bin_size", 1.0),
        "rounding": _steps(frame, rounding, "rounding", 0.0),
    }


def _published(values: pd.Series, name: str) -> FloatArray:
    """Return the published values, of which none is missing."""
    if (lost := values.isna().to_numpy()).any():
        check_array(values[~lost].to_numpy(), name, ndim=1, nonempty=False)
        rows = show_some(np.flatnonzero(lost).tolist(), 5)
        raise InvalidParameterError(
            f"{name} must not contain NaN at position {rows}: leave these rows out with "
            "missing='drop'"
        )
    return check_array(values.to_numpy(), name, ndim=1)


def column(frame: pd.DataFrame, name: Any) -> pd.Series:
    """Return a column of a frame, or say that it is not there."""
    found = sum(_same(name, known) for known in frame.columns)
    if found != 1:
        raise InvalidParameterError(
            f"frame must have {'one' if found else 'a'} column {show(name)}, "
            f"got {show_some(frame.columns)}"
        )
    return frame[name]


def numbers(frame: pd.DataFrame, spec: Any, name: str, missing: float | None = None) -> Any:
    """Return a number, or the numbers of the column that ``{"column": ...}`` names.

    Missing values of the column become ``missing``; without it they stay NaN.
    """
    if isinstance(spec, str):
        raise InvalidParameterError(
            f"{name} must be a number or {{'column': name}}, got {show(spec)}"
        )
    if not isinstance(spec, Mapping):
        return spec
    values = _floats(column(frame, _column_name(spec, name)))
    return values if missing is None else np.where(np.isnan(values), missing, values)


def _steps(frame: pd.DataFrame, spec: Any, name: str, none: float) -> Any:
    """Return a step, or those of a column, with the way of rounding where it is stated."""
    given, way = step_and_way(spec, name, "up")
    found = numbers(frame, given, name, none)
    return found if given is spec else (found, way)


def bounds(frame: pd.DataFrame, clamp: Any) -> tuple[Any, ...] | None:
    """Return clamping bounds, each of which may be a number or a column."""
    if clamp is None:
        return None
    ends = clamp if isinstance(clamp, (tuple, list)) else (clamp, None)
    none = [np.inf if at else -np.inf for at in range(len(ends))]
    return tuple(numbers(frame, end, "clamp", each) for end, each in zip(ends, none, strict=True))


def law_of_frame(
    frame: pd.DataFrame, mechanism: Any, given: Mapping[str, Any], sensitivity: Any
) -> NoiseLaw:
    """Return the noise of the rows of a frame: a law, or its name with the names of columns."""
    named = next((name for name, kind in KINDS.items() if mechanism is kind), mechanism)
    if isinstance(named, str):
        named = {"mechanism": named}
    if not isinstance(named, Mapping):
        if given:
            raise InvalidParameterError(
                f"{next(iter(given))} must be left out beside a law that has its parameters, got "
                f"mechanism {show(mechanism)}: give the name or the class of the law, or the law "
                "alone"
            )
        return as_noise(named, len(frame), selected=True)
    if "mechanism" not in named:
        raise InvalidParameterError(
            f"mechanism must have the entry 'mechanism', got {show(dict(named))}"
        )
    known = (*parameter_names(), *BUDGET_NAMES)
    unknown = [key for key in named if key not in ("mechanism", *known)]
    if unknown:
        raise InvalidParameterError(
            f"mechanism must have the entries mechanism and {', '.join(known)}, "
            f"got {show(unknown[0])}"
        )
    if twice := [key for key in given if key in named]:
        raise InvalidParameterError(f"{twice[0]} must not be given twice, also in mechanism")
    parameters = {
        key: _parameter(frame, spec, key)
        for key, spec in {**named, **given}.items()
        if key != "mechanism"
    }
    return laws_of_rows(_names(frame, named["mechanism"]), parameters, len(frame), sensitivity)


def workload_of_frame(
    frame: pd.DataFrame, attributes: Sequence[str] | str | None, domain: Domain | None
) -> Workload:
    """Return the queries of the rows of a frame from its columns of attributes."""
    if attributes is None:
        named = any(name is not None for name in frame.index.names)
        return Workload.identity(len(frame), frame.index if named else None)
    names = [attributes] if isinstance(attributes, str) else attributes
    names = check_items(names, "attributes", "names of columns")
    labels = {name: column(frame, name) for name in names}
    return workload_of_labels([labels], [len(frame)], domain)


def labels_of_frame(frame: pd.DataFrame, names: Sequence[str]) -> pd.Index | None:
    """Return labels from columns, with the mark of "summed over" in empty cells."""
    import pandas as pd

    columns = [frame[name].astype(object).fillna(SUMMED).infer_objects() for name in names]
    if len(columns) == 1:
        return pd.Index(columns[0])
    return pd.MultiIndex.from_arrays(columns, names=names) if columns else None


def _same(name: object, known: object) -> bool:
    """Whether a name is that of a column; what does not compare or hash is not."""
    try:
        return hash(name) == hash(known) and bool(name == known)
    except (TypeError, ValueError):
        return False


def _floats(values: pd.Series) -> FloatArray:
    if values.dtype.kind == "f" and isinstance(values.dtype, np.dtype):
        return np.asarray(values, dtype=np.float64)
    missing = values.isna().to_numpy()
    if not missing.any():
        return check_array(values.to_numpy(), str(values.name), ndim=1, finite=False)
    filled = values.astype(object).where(~missing, 0.0)
    out = check_array(filled.to_numpy(), str(values.name), ndim=1, finite=False, nonempty=False)
    return np.where(missing, np.nan, out)


def _parameter(frame: pd.DataFrame, spec: Any, name: str) -> Any:
    if isinstance(spec, (Mapping, str)):
        return numbers(frame, spec, name)
    if name == ROUNDED and isinstance(spec, (bool, np.bool_)):
        return float(spec)
    index = getattr(spec, "index", None) if hasattr(spec, "iloc") else None
    same = index is not None and index.equals(frame.index)
    values = check_array(spec, name) if same else check_parameter(spec, name)
    if values.shape not in ((), (len(frame),)):
        raise InvalidParameterError(
            f"{name} must be a number, {{'column': name}}, or have {len(frame)} entries, one for "
            f"each of the rows, got shape {values.shape}"
        )
    return values


def _names(frame: pd.DataFrame, spec: Any) -> str | pd.Series:
    if isinstance(spec, str):
        return spec
    if not isinstance(spec, Mapping):
        raise InvalidParameterError(
            f"mechanism must be a name or {{'column': name}}, got {show(spec)}"
        )
    values = column(frame, _column_name(spec, "mechanism"))
    if (missing := values.isna().to_numpy()).any():
        row = int(np.flatnonzero(missing)[0])
        raise InvalidParameterError(f"mechanism must have a name in every row, got none in {row}")
    return values


def _column_name(spec: Mapping[str, Any], name: str) -> Any:
    if set(spec) != {"column"}:
        raise InvalidParameterError(f"{name} must be {{'column': name}}, got {show(dict(spec))}")
    return spec["column"]
