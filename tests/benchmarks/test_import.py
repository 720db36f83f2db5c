"""Time of `import dpinfer` and of a first test beside NumPy and scipy.special, needed anyway."""

import subprocess
import sys

import pytest

FIRST_TEST = (
    "import dpinfer as dpi; "
    "dpi.proportions_ztest(34.21, 100, 0.255, mechanism=dpi.Laplace(scale=2.0)).pvalue"
)


@pytest.mark.benchmark(group="import")
@pytest.mark.parametrize("statement", ["import numpy, scipy.special", "import dpinfer", FIRST_TEST])
def test_import_time(benchmark, statement):
    command = [sys.executable, "-c", statement]
    benchmark.pedantic(
        subprocess.run, args=(command,), kwargs={"check": True}, rounds=15, warmup_rounds=2
    )
