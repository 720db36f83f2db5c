"""Expands the lists of public names in the pages of the reference.

A page of `reference/` lists names of the package, one a line, in a block

    ```{api} dpinfer
    count_confint
    ```

Here each list becomes a table of one-line summaries and the documentation of every name. References
in docstrings to the module that a name comes from lead to where it is documented, and so do links
in listings of source code.
"""

import importlib
import inspect
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

BACK = re.compile(
    r'id="(?P<name>[\w.]+)">\n<a class="viewcode-back" href="(?P<page>[^"#]*)#(?P<place>[^"]*)"'
)
MEMBERS = {"attribute", "method", "property", "classmethod", "staticmethod"}
BLOCK = re.compile(r"^```\{api\} (?P<module>[\w.]+)\n(?P<names>[\w\n]*?)^```$", re.MULTILINE)


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of everything that a page documents."""
    for block in BLOCK.finditer(text):
        for name in block["names"].split():
            yield block["module"], name


def names_of_the_reference(folder: Path) -> list[tuple[str, str]]:
    """Return module and name of everything that the pages of a folder document."""
    pages = sorted(folder.glob("*.md"))
    return [name for page in pages for name in names_in(page.read_text(encoding="utf-8"))]


def _directive(module: str, name: str) -> str:
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        if issubclass(value, Exception):
            return f".. autoexception:: {name}\n"
        return f".. autoclass:: {name}\n   :members:\n   :inherited-members:\n"
    if inspect.isfunction(value):
        return f".. autofunction:: {name}\n"
    return f".. autodata:: {name}\n   :no-value:\n"


def _expanded(block: re.Match[str]) -> str:
    module, names = block["module"], block["names"].split()
    table = "".join(f"   {name}\n" for name in names)
    entries = "\n".join(_directive(module, name) for name in names)
    return (
        f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n"
        f".. autosummary::\n   :nosignatures:\n\n{table}\n{entries}```"
    )


def _expand(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname.startswith("reference/"):
        content[0] = BLOCK.sub(_expanded, content[0])


def _find_home(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Link a name of any module, or of none, to its one entry in the reference."""
    if node.get("refdomain") != "py" or not node.get("reftarget"):
        return None
    objects = env.domains.python_domain.objects
    if node["reftype"] == "mod":
        found = {n: e for n, e in objects.items() if n.rpartition(".")[0] == node["reftarget"]}
        return _link(app, node, content, *next(iter(found.items()))) if found else None
    # what follows the modules, whose names are in lower case: Release.from_tables, combine
    parts = node["reftarget"].split(".")
    start = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    ending = parts[start:]
    found = {
        name: entry
        for name, entry in objects.items()
        if name.split(".")[-len(ending) :] == ending and not entry.aliased
    }
    if len(ending) == 1:  # a function or class, not a method of that name
        found = {name: entry for name, entry in found.items() if entry.objtype not in MEMBERS}
    if len(found) != 1:
        return None
    return _link(app, node, content, *next(iter(found.items())))


def _link(
    app: Sphinx, node: pending_xref, content: nodes.TextElement, name: str, entry: ObjectEntry
) -> nodes.reference:
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)


def _mend_ways_back(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Lead from source code to the names that are documented; viewcode knows one name a module."""
    if not pagename.startswith("_modules/"):
        return
    objects = app.env.domains.python_domain.objects

    def mended(link: re.Match[str]) -> str:
        page = posixpath.normpath(posixpath.join(posixpath.dirname(pagename), link["page"]))
        places = {
            entry.node_id
            for name, entry in objects.items()
            if f"{entry.docname}.html" == page and f".{name}".endswith("." + link["name"])
        }
        if len(places) == 1 and link["place"] not in places:
            return link[0].replace("#" + link["place"], "#" + places.pop())
        return link[0]

    context["body"] = BACK.sub(mended, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Expand the lists when a page is read."""
    app.connect("source-read", _expand)
    app.connect("missing-reference", _find_home)
    app.connect("html-page-context", _mend_ways_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
