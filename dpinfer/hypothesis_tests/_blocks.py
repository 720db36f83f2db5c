"""How many tables a simulation draws at a time."""

from dpinfer.results.simulation import BLOCK

_CELLS = 1 << 16
"""Cells drawn at a time: few enough to stay in the cache."""


def draws_in_block(cells: int) -> int:
    """Return the number of tables of so many cells that are drawn at a time."""
    return min(BLOCK, max(1, _CELLS // cells))
