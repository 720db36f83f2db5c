"""Draws the page of the sidecar's format from its JSON Schema and from the examples."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpinfer.releases.sidecar_format import allowed, resolved, sidecar_schema

EXAMPLES = Path(__file__).parents[1] / "examples" / "sidecars"

PARTS = {
    "The document": (),
    "`schema`": ("schema",),
    "A field, in `schema.fields`": ("schema", "fields", 0),
    "`privacy`, in the field of noisy values": ("schema", "fields", 0, "privacy"),
    "`workload`, where the labels do not say what the rows sum over": ("workload",),
    "`weights`, in `privacy`, where values share noises": (
        *("schema", "fields", 0, "privacy"),
        "weights",
    ),
}
"""The objects of a sidecar by their headings."""


def spec_at(place: tuple[str | int, ...]) -> Mapping[str, Any]:
    """Return what the schema says about a part of a sidecar."""
    spec = sidecar_schema()
    for key in place:
        inner = spec["items"] if isinstance(key, int) else spec["properties"][key]
        spec = resolved(inner)
    return spec


def tables() -> str:
    """Return a table of entries for each object of a sidecar, in Markdown."""
    return "\n\n".join(f"### {heading}\n\n{table(place)}" for heading, place in PARTS.items())


def table(place: tuple[str | int, ...]) -> str:
    """Return the entries of one object."""
    spec = spec_at(place)
    lines = ["| entry | what it says | allowed | such as |", "|---|---|---|---|"]
    for name, inner in spec["properties"].items():
        entry = resolved(inner)
        needed = " (needed)" if name in spec.get("required", ()) else ""
        shown = json.dumps(entry["examples"][0], ensure_ascii=False)
        shown = shown if len(shown) < 60 else "…"
        says = entry.get("description", "")
        lines.append(f"| `{name}`{needed} | {says} | {cell(words(entry))} | `{shown}` |")
    return "\n".join(lines)


def words(entry: Mapping[str, Any]) -> str:
    """Say what an entry may be; objects have tables of their own, or speak by their example."""
    return "an object" if entry.get("type") == "object" else allowed(entry)


def cell(text: str) -> str:
    """Return a text as it stands in a cell of a table, with what is JSON in it as code."""
    code = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"", lambda found: f"`{found[0]}`", text)
    return code.replace("|", "\\|")


def examples() -> Iterator[str]:
    """Yield each example: its title and source, its first rows, and its sidecar."""
    for path in sorted(EXAMPLES.glob("*.csv")):
        sidecar = json.loads((EXAMPLES / f"{path.name}-metadata.json").read_text("utf-8"))
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        shown = [head, ["---"] * len(head), *rows]
        privacy = next(one for one in sidecar["schema"]["fields"] if "privacy" in one)
        yield "\n".join(
            [
                f"### {sidecar['title']}",
                "",
                sidecar["description"],
                "",
                *("| " + " | ".join(row) + " |" for row in shown),
                "",
                "```json",
                json.dumps(privacy, indent=2, ensure_ascii=False),
                "```",
            ]
        )
