"""Reads the vignettes, scripts with `# %%` cells, as the notebooks that the site executes.

A reader of the page is spared what is there for the tests: top-level statements that assert
something go into a hidden cell after the one that they are in. A cell that draws starts with
`#| alt: what the picture shows`, which may go on in further lines that start with `#|`.
"""

import ast
import os
import re

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

NOT_EXECUTED = """:::{note}
This page uses a published release that is not part of the package, and was **not run** here: the
site was built without the data, so the code is shown and its results are not. Run the vignette
with the environment variable `DPINFER_DATA` set to their folder to see them.
:::"""
ALT = re.compile(r"\A#\| alt: (?P<text>.*\n(?:#\| .*\n)*)")


def without_checks(source: str) -> tuple[str, str]:
    """Return what a cell shows, and the statements with assertions that it hides."""
    lines = source.splitlines()
    hidden: set[int] = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if any(isinstance(node, ast.Assert) for node in ast.walk(statement)):
            start = statement.lineno - 1
            while start and lines[start - 1].startswith("#"):  # what is said about it
                start -= 1
            hidden.update(range(start, statement.end_lineno or start))
    shown = "\n".join(line for at, line in enumerate(lines) if at not in hidden)
    return shown.strip("\n"), "\n".join(lines[at] for at in sorted(hidden))


def _cells(cell: NotebookNode) -> list[NotebookNode]:
    if cell.cell_type != "code":
        return [cell]
    described = ALT.match(cell.source)
    if described:
        text = " ".join(line.removeprefix("#| ") for line in described["text"].splitlines())
        cell.metadata["mystnb"] = {"image": {"alt": text}}
        cell.source = cell.source[described.end() :]
    cell.source, checks = without_checks(cell.source)
    check = new_code_cell(checks, metadata={"tags": ["remove-cell"]})
    return [part for part in (cell, check) if part.source]


def read_vignette(text: str) -> NotebookNode:
    """Return a vignette as a notebook; without results if the data that it needs are not there."""
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    notebook.cells = [part for cell in notebook.cells for part in _cells(cell)]
    if "set DPINFER_DATA" in text and not os.environ.get("DPINFER_DATA"):
        notebook.cells.insert(1, new_markdown_cell(NOT_EXECUTED))
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.metadata.setdefault("tags", []).append("skip-execution")
    return notebook
