"""Every vignette runs from start to end; the numbers that its prose states are asserted in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

VIGNETTES = Path(__file__).parent.parent / "vignettes"
QUICK = {"02_a_real_release_page_views", "quickstart"}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow, id=path.stem)
        for path in sorted(VIGNETTES.glob("*.py"))
        if path.stem != "conf"
    ],
)
def test_vignette_runs(script):
    needs_data = "set DPINFER_DATA" in script.read_text(encoding="utf-8")
    if needs_data and not os.environ.get("DPINFER_DATA"):
        pytest.skip(f"{script.name} uses a published release: set DPINFER_DATA to its folder")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
