"""All that the report compares.

Each comparison makes its problem once and gives two calls on it, and a check that their answers
agree as far as they should. The problems and the other ways are those of the benchmarks beside
this file.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for pytest, which imports this file by its path

import comparisons_of_estimates
import comparisons_of_files
import comparisons_of_tests

COMPARISONS = [
    *comparisons_of_estimates.ROWS,
    *comparisons_of_tests.ROWS,
    *comparisons_of_files.ROWS,
]
