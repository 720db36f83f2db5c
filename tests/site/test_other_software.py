"""What the pages for R, Stata and SPSS tell their users to type runs, and gives what they show."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import dpinfer

GUIDE = Path(__file__).parents[2] / "vignettes" / "guide"
BLOCK = re.compile(r"^```(r|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def numbers_and_words(text):
    """What is printed, without the spaces of a width; numbers as R rounds them."""
    return [word for word in text.split() if set(word) - {"=", "-"}]


def test_the_code_for_r_prints_what_the_page_shows(tmp_path):
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("R is not installed (Debian: r-base-core)")
    found = subprocess.run(
        [rscript, "-e", 'quit(status = !requireNamespace("reticulate", quietly = TRUE))'],
        check=False,
    )
    if found.returncode:
        pytest.skip("reticulate is not installed (Debian: r-cran-reticulate)")
    blocks = BLOCK.findall((GUIDE / "from_r.md").read_text(encoding="utf-8"))
    code = "".join(text for language, text in blocks if language == "r")
    shown = "".join(text for language, text in blocks if language == "text")
    script = tmp_path / "page.R"
    script.write_text("options(width = 100)\n" + code, encoding="utf-8")
    place = str(Path(dpinfer.__file__).parents[1])
    run = subprocess.run(
        [rscript, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"RETICULATE_PYTHON": sys.executable, "PYTHONPATH": place},
    )
    assert run.returncode == 0, run.stderr
    assert len(blocks) > 5
    assert numbers_and_words(run.stdout) == numbers_and_words(shown)


def python_of(name):
    text = (GUIDE / name).read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [cell for cell in cells if not cell.startswith(":tags:")]


def test_files_of_stata_and_spss_keep_what_the_page_says(tmp_path, monkeypatch):
    pytest.importorskip("pyreadstat", reason="the extra [spss] is not installed")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in python_of("from_stata_spss.md"):
        exec(cell, names)
    again = pd.read_stata("intervals.dta")
    assert list(again) == ["region", "sex", "estimate", "ci_lower", "ci_upper"]
    assert again["ci_lower"].tolist() == names["table"]["ci_lower"].tolist()
    assert pd.read_spss("intervals.sav")["ci_upper"].tolist() == names["table"]["ci_upper"].tolist()
