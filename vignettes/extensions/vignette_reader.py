"""Reads the vignettes, scripts with `# %%` cells, as the notebooks that the site executes."""

import os

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

NOT_EXECUTED = """:::{note}
This page uses a published release that is not part of the package. The site was built without the
data, so the results are not shown: run the vignette with the environment variable `DPINFER_DATA`
set to their folder to see them.
:::"""


def read_vignette(text: str) -> NotebookNode:
    """Return a vignette as a notebook; without results if the data that it needs are not there."""
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    if "set DPINFER_DATA" in text and not os.environ.get("DPINFER_DATA"):
        notebook.cells.insert(1, new_markdown_cell(NOT_EXECUTED))
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.metadata["tags"] = ["skip-execution"]
    return notebook
