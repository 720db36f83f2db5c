"""The reference has every public name once, in the page of one topic."""

import importlib
import sys
from collections import Counter
from inspect import ismodule
from pathlib import Path

import pytest

import dpinfer

pytest.importorskip("docutils", reason="the extra [docs] is not installed")

VIGNETTES = Path(__file__).parents[2] / "vignettes"
sys.path.append(str(VIGNETTES / "extensions"))
names_of_the_reference = importlib.import_module("api_topics").names_of_the_reference


def test_every_public_name_is_in_one_topic():
    documented = names_of_the_reference(VIGNETTES / "reference")
    times = Counter(name for module, name in documented if module == "dpinfer")
    offered = set(dir(dpinfer)) - {"__version__"}
    public = {name for name in offered if not ismodule(getattr(dpinfer, name))}
    assert public - set(times) == set(), "add a line to a page of vignettes/reference"
    assert set(times) - public == set(), "these are documented, but not public"
    assert [name for name, count in times.items() if count > 1] == []


def test_names_of_other_modules_are_there_once():
    documented = names_of_the_reference(VIGNETTES / "reference")
    assert len(documented) == len(set(documented))
    for module, name in documented:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_every_page_of_the_reference_is_listed():
    folder = VIGNETTES / "reference"
    listed = (folder / "index.md").read_text(encoding="utf-8").splitlines()
    assert {page.stem for page in folder.glob("*.md")} - {"index"} <= set(listed)
