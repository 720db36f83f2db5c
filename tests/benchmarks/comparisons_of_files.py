"""Files beside what a user would do without the library."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for pytest, which imports this file by its path

import test_files
from comparing import Calls, adding_to

ROWS = []
comparison = adding_to(ROWS)

BARE = "the same numbers; checks nothing, knows no noise"


@comparison(
    "Files",
    "combine",
    "`dpinfer analyze`, to CSV",
    "pandas",
    BARE,
    "rows",
    1_000_000,
    ending=".csv",
)
@comparison(
    "Files",
    "combine",
    "`dpinfer analyze`, to Parquet",
    "pandas",
    BARE,
    "rows",
    1_000_000,
    ending=".parquet",
)
def analyzed(size, _peer_size, ending):
    path = test_files.release_of(size)
    return Calls(
        lambda: test_files.analyzed(path, ending),
        lambda: test_files.by_pandas(path, ending),
        test_files.same_table,
    )


@comparison(
    "Files",
    "read_census_measurements",
    "values of noisy measurement files by query",
    "pyarrow",
    "the same values; checks nothing, no units",
    "tracts a county",
    test_files.TRACTS,
)
def census(size, _peer_size):
    root = test_files.census_files(size)
    return Calls(
        lambda: test_files.census_values(root),
        lambda: test_files.by_pyarrow(root),
        lambda ours, theirs: ours == theirs,
    )
