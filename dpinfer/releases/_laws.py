"""Noise laws by the names that files use, and joint laws of many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import (
    ContinuousLaw,
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    NoiseLaw,
    Rounded,
    Tulap,
    as_noise,
    groups,
)
from dpinfer.queries.domain import refusing

KINDS: dict[str, type[NoiseLaw]] = {
    "laplace": Laplace,
    "geometric": Geometric,
    "gaussian": Gaussian,
    "discrete_gaussian": DiscreteGaussian,
    "tulap": Tulap,
    "exact": Exact,
}
"""Laws by the name under which files hold them."""

INTEGER_KINDS = ("geometric", "discrete_gaussian")
"""Laws that are for integer-valued queries."""

ALIASES = {"discrete_laplace": "geometric", "two_sided_geometric": "geometric", "none": "exact"}
"""Other names under which published files hold the same laws."""


ROUNDED = "rounded"
"""The entry that says whether the noisy values were rounded to whole numbers."""


def parameters(law: NoiseLaw) -> dict[str, Any]:
    """Return the parameters of a law by name: floats or arrays."""
    if isinstance(law, Rounded):
        return parameters(law.law) | {ROUNDED: True}
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


def laws_of_rows(kinds: Any, columns: Mapping[str, float | FloatArray], rows: int) -> NoiseLaw:
    """Joint law of rows from the name of each row's law and columns of parameters.

    ``kinds`` is one name for all rows, or a column with the name for each.
    """
    import pandas as pd

    if isinstance(kinds, str):
        return IndependentNoise.from_groups(_laws_of_kind(kinds, columns, np.arange(rows)), rows)
    with refusing(kinds, "mechanism"):
        member, names = pd.factorize(kinds)
    parts: list[tuple[NoiseLaw, NDArray[np.intp]]] = []
    for number, name in enumerate(names):
        cells = np.flatnonzero(member == number)
        parts += _laws_of_kind(name, columns, cells)
    return IndependentNoise.from_groups(parts, rows)


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
    name: str, columns: Mapping[str, float | FloatArray], cells: NDArray[np.intp]
) -> list[tuple[NoiseLaw, NDArray[np.intp]]]:
    """Return the law of the cells of one kind: two where only some of them were rounded."""
    kind = canonical_kind(name)
    chosen: dict[str, Any] = {}
    for parameter, required in parameters_of_kind(kind).items():
        if parameter in columns:
            values = np.asarray(columns[parameter], dtype=np.float64)
            if parameter == ROUNDED:
                values = np.nan_to_num(values, nan=0.0)
                _check_choice(values)
            chosen[parameter] = float(values) if values.ndim == 0 else values[cells]
            _check_rows(np.asarray(chosen[parameter]), parameter, name, cells, required)
        elif required:
            raise InvalidParameterError(f"mechanism {name} must have a {parameter}")
    rounded = np.broadcast_to(chosen.pop(ROUNDED, 0.0), cells.shape)
    law = KINDS[kind](**chosen)
    if not rounded.any():
        return [(law, cells)]
    parts = [(law.take(own), cells[own]) for own in (rounded == 0, rounded == 1)]
    plain, whole = parts
    return [part for part in (plain, (Rounded(whole[0]), whole[1])) if part[1].size]  # type: ignore[arg-type]


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


def _check_choice(rounded: FloatArray) -> None:
    if (bad := (rounded != 0) & (rounded != 1)).any():
        raise InvalidParameterError(
            f"rounded must be True or False, or a column of 1 and 0, got {rounded[bad][0]:g}"
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
