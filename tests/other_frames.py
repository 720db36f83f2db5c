"""Frames of pandas as those of other libraries."""

import pytest


def polars(frame):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    return pl.DataFrame({name: frame[name].to_list() for name in frame.columns})


def arrow(frame):
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)
