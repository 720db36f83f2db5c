"""The estimates as CSV, JSON and Parquet: all rows, all digits."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.reporting.analysis import Analysis
from dpinfer.results.intervals import ERROR_COVERED

if TYPE_CHECKING:
    import pandas as pd


def write_csv(analysis: Analysis, path: Path) -> None:
    """Write the table of the estimates, with labels as they are.

    A label that begins with =, +, - or @ is a formula to a spreadsheet, as in any CSV file; the
    other formats have no such cells.
    """
    write_text(path, table_of(analysis).to_csv(index=False, lineterminator="\n"))


def write_json(analysis: Analysis, path: Path) -> None:
    """Write the estimates, the test of consistency and what they stand on."""
    test = analysis.consistency
    table = table_of(analysis)
    columns = [[_plain(value) for value in table[name].tolist()] for name in table]
    document = {
        **facts_of(analysis),
        "estimates": [
            dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)
        ],
        "consistency": None
        if test is None
        else {"statistic": test.statistic, "pvalue": test.pvalue, "method": test.method},
        "warnings": list(analysis.warnings),
    }
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(analysis: Analysis, path: Path) -> None:
    """Write the table of the estimates; what they stand on is in the metadata of the schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = table_of(analysis)
    labels = frame.columns[: frame.shape[1] - analysis.frame.shape[1]]
    # labels of one column may be of several types, of which a Parquet column has but one
    columns = {
        _sound(name): [_sound(str(label)) for label in frame[name]]
        if name in labels and frame[name].dtype.kind not in "iufbM"
        else frame[name].to_numpy()
        for name in frame
    }
    facts = {"dpinfer": json.dumps(facts_of(analysis), ensure_ascii=True)}
    pq.write_table(pa.table(columns).replace_schema_metadata(facts), path)


def facts_of(analysis: Analysis) -> dict[str, Any]:
    """Return what the numbers stand on."""
    from dpinfer import __version__

    return {
        "dpinfer": __version__,
        "alpha": analysis.alpha,
        "method": analysis.method,
        "uncertainty": "noise",
        "error_covered": ERROR_COVERED["noise"],
        "seed": analysis.seed,
    }


def table_of(analysis: Analysis) -> pd.DataFrame:
    """Return the estimates with their labels as columns in front, each of its own name."""
    import pandas as pd

    frame = analysis.frame
    if analysis.labels is None:
        labels = pd.DataFrame({"target": [analysis.label(row) for row in range(len(frame))]})
    else:
        labels = frame.index.to_frame(index=False)
        labels.columns = pd.Index(_own_names(frame.index.names, taken=list(frame.columns)))
    return pd.concat([labels, frame.reset_index(drop=True)], axis=1)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, with escapes for halves of characters, which UTF-8 does not have."""
    path.write_bytes(text.encode("utf-8", errors="backslashreplace"))


def _own_names(names: Sequence[Any], taken: list[str]) -> list[str]:
    """Return a name for each column of labels that no other column has."""
    found: list[str] = []
    for position, name in enumerate(names):
        unnamed = "target" if len(names) == 1 else f"target_{position}"
        own = unnamed if name is None else str(name)
        while own in (*taken, *found):
            own += "_label"
        found.append(own)
    return found


def _plain(value: Any) -> Any:
    """Return what JSON has for a value: nothing for what is not finite, text for other kinds."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else str(value)


def _sound(text: object) -> str:
    return str(text).encode("utf-8", errors="backslashreplace").decode()
