"""Draws the performance page from the figures that `tests/benchmarks/report.py` wrote."""

import io
from collections.abc import Mapping
from statistics import median
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from dpinfer._style import REFERENCE, add_legend, marker, series, styled_axes

Report = Mapping[str, Any]


def shown(ratio: float) -> str:
    """Return a ratio with two digits."""
    return f"{float(f'{ratio:.2g}'):,g}"


def held(size: int) -> str:
    """Return a number of bytes in a unit in which it has one to three digits."""
    unit = min(3, max(0, len(str(size)) - 1) // 3)
    return f"{size / 1000**unit:.0f} {('B', 'kB', 'MB', 'GB')[unit]}"


def named(function: str) -> str:
    """Return a public name as a link to its page in the reference."""
    return f"{{py:obj}}`~dpinfer.{function}`" if function else "dpinfer"


def problem(row: Mapping[str, Any]) -> str:
    """Return what was done and its size, with that of the peer where it was given less."""
    if row["size"] == 1:
        return row["what"]
    size = f"{row['size']:,} {row['unit']}"
    fewer = "" if row["size"] == row["peer_size"] else f" (peer: {row['peer_size']:,})"
    return f"{row['what']}; {size}{fewer}"


def table(report: Report) -> str:
    """Return all comparisons as a table in Markdown."""
    lines = [
        "| dpinfer | beside | ratio | growth | memory, peer | what | the peer gives |",
        "|---|---|--:|--:|--:|---|---|",
    ]
    part = ""
    for row in report["comparisons"]:
        if row["part"] != part:
            part = row["part"]
            lines.append(f"| **{part}** | | | | | | |")
        growth = "" if row["exponent"] is None else f"{row['exponent']:.2f}"
        memory = "" if None in row["peak_bytes"] else ", ".join(map(held, row["peak_bytes"]))
        figures = (shown(row["ratio"]), growth, memory)
        cells = (named(row["function"]), row["peer"], *figures, problem(row), row["gives"])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def overview(report: Report) -> str:
    """Return in words how the comparisons went, in Markdown."""
    rows = report["comparisons"]
    ratios = [row["ratio"] for row in rows]
    same = [row["ratio"] for row in rows if row["gives"] == "the same"]
    slower = [row for row in rows if row["ratio"] < 1.0]
    text = (
        f"In {len(rows) - len(slower)} of {len(rows)} comparisons dpinfer takes less time. "
        f"The ratios go from {shown(min(ratios))} to {shown(max(ratios))}, half of them are above "
        f"{shown(median(ratios))}; among those with a peer that gives the same, half are above "
        f"{shown(median(same))}."
    )
    if slower:
        text += "\n\nIt takes longer than:\n\n" + "\n".join(
            f"- {row['peer']} beside {named(row['function'])}, {shown(1.0 / row['ratio'])} times "
            f"({problem(row)}; the peer gives: {row['gives']})"
            for row in slower
        )
    return text


def growth_in_words(report: Report) -> str:
    """Return how many times as long the last tenfold of size takes, in Markdown."""
    lines = []
    for part in report["growth"]:
        ours = part["lines"]["dpinfer"]
        (before, last), (less, more) = ours["sizes"][-2:], ours["seconds"][-2:]
        lines.append(
            f"- {named(part['function'])}: from {before:,} to {last:,} {part['unit']}, "
            f"{last / before:g} times as many, time grows {shown(more / less)}-fold."
        )
    return "\n".join(lines)


def growth_figure(report: Report) -> Figure:
    """Draw time by size, as multiples of the time of dpinfer for the smallest of its sizes."""
    parts = report["growth"]
    figure = Figure(figsize=(6.4, 3.3 * len(parts)), layout="constrained")
    for axes, part in zip(figure.subplots(len(parts), squeeze=False)[:, 0], parts, strict=True):
        styled_axes(axes)
        base = part["lines"]["dpinfer"]["seconds"][0]
        for place, (name, line) in enumerate(part["lines"].items()):
            times = [seconds / base for seconds in line["seconds"]]
            axes.plot(line["sizes"], times, label=name, **series(place), **marker(place))
        ends = part["lines"]["dpinfer"]["sizes"]
        last = part["lines"]["dpinfer"]["seconds"][-1] / base
        linear = [last * size / ends[-1] for size in ends]
        axes.plot(ends, linear, ":", color=REFERENCE, label="proportional to size", zorder=1)
        axes.set(xscale="log", yscale="log", xlabel=part["unit"])
        first = ends[0]
        axes.set_ylabel(f"time\n(dpinfer for {first:,} {part['unit']} = 1)")
        axes.set_title(f"{part['function']}: {part['what']}", fontsize=10, loc="left")
        add_legend(axes)
    return figure


def growth_picture(report: Report) -> str:
    """Return the drawing of growth as SVG, the same each time."""
    file = io.StringIO()
    with rc_context({"svg.hashsalt": "growth"}):
        growth_figure(report).savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
