"""Time of `import dpinfer` beside the NumPy and scipy.special that it needs anyway."""

import subprocess
import sys

import pytest


@pytest.mark.benchmark(group="import")
@pytest.mark.parametrize("statement", ["import numpy, scipy.special", "import dpinfer"])
def test_import_time(benchmark, statement):
    command = [sys.executable, "-c", statement]
    benchmark.pedantic(
        subprocess.run, args=(command,), kwargs={"check": True}, rounds=15, warmup_rounds=2
    )
