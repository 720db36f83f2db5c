"""Blocks of replicates: their length is part of what a seed stands for."""

import pytest

from dpinfer.hypothesis_tests._blocks import draws_in_block


@pytest.mark.parametrize(
    ("cells", "draws"), [(1, 65_536), (2, 32_768), (3, 21_845), (65_536, 1), (10**9, 1)]
)
def test_so_many_tables_that_they_have_65536_cells(cells, draws):
    assert draws_in_block(cells) == draws
