"""Every name that the package offers, at the root or in one of its parts, and where it is."""

import functools
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import dpinfer

PARTS = ["dpinfer"] + [
    f"dpinfer.{part.name}"
    for part in pkgutil.iter_modules(dpinfer.__path__)
    if part.ispkg and not part.name.startswith("_")
]


@functools.cache
def public_names():
    """Return the module that offers each name, the root first."""
    homes = {}
    for part in PARTS:
        module = importlib.import_module(part)
        for name in getattr(module, "__all__", []):
            if not inspect.ismodule(getattr(module, name)):
                homes.setdefault(name, part)
    return homes


def public(name):
    """Return what a name stands for, wherever it is."""
    return getattr(importlib.import_module(public_names()[name]), name)


@functools.cache
def documented():
    """Return the module that each name of the reference is documented under."""
    pages = sorted((Path(__file__).parents[1] / "vignettes" / "reference").glob("*.md"))
    blocks = re.compile(r"^```\{api\} ([\w.]+)\n([\w\n]*?)^```$", re.MULTILINE)
    return {
        name: module
        for page in pages
        for module, names in blocks.findall(page.read_text(encoding="utf-8"))
        for name in names.split()
    }
