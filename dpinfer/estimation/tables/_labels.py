"""Numbers of units and cells under the labels that these have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.estimation.tables._schema import Names, TableSchema
from dpinfer.queries import Hierarchy
from dpinfer.queries._tree import Places

if TYPE_CHECKING:
    import pandas as pd


def labelled(
    found: FloatArray, hierarchy: Hierarchy, schema: TableSchema, names: Names, units: Places | None
) -> Any:
    """Return a marginal of some or all units as DataFrame or Series, if units have labels."""
    labels = hierarchy.labels
    if labels is None:
        return found
    import pandas as pd

    index = labels if units is None else labels[units]
    if not names:
        return pd.Series(found, index=index)
    columns = schema.cells(names)
    return pd.DataFrame(found.reshape((len(found), len(columns))), index=index, columns=columns)


def joined(
    hierarchy: Hierarchy, schema: TableSchema, names: Names, units: Places | None
) -> pd.Index:
    """Return labels of unit, or its number, and levels, for each cell of some or all units."""
    import pandas as pd

    labels: Any = np.arange(len(hierarchy)) if hierarchy.labels is None else hierarchy.labels
    index = pd.Index(labels if units is None else labels[units], tupleize_cols=False)
    if not names:
        return index.rename("unit")
    levels = [list(schema.levels_of(name)) for name in names]
    cells = np.indices([len(one) for one in levels]).reshape((len(names), -1))
    codes = [np.repeat(np.arange(len(index)), cells.shape[1])]
    codes += [np.tile(row, len(index)) for row in cells]
    return pd.MultiIndex(
        levels=[index, *levels], codes=codes, names=["unit", *names], verify_integrity=False
    )
