"""Condenses the certificates of the full grid into what the page of certificates shows.

``python vignettes/extensions/certificates.py certificates.json`` reads what ``python -m dpinfer
certify --grid full --output certificates.json`` wrote, and writes `about/certificates.json`.
"""

import datetime
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

STORED = Path(__file__).parents[1] / "about" / "certificates.json"
COMMAND = "python -m dpinfer certify --grid full --output certificates.json"
ROLES = ("procedure", "approximation", "control")
LAWS = {
    "Laplace": "La\u00adplace",
    "Geometric": "geo\u00admetric",
    "Gaussian": "Gauss\u00adian",
    "DiscreteGaussian": "discrete Gauss\u00adian",
    "Tulap": "Tulap",
}
"""The laws in the order of the columns, with soft hyphens for narrow screens."""
MARKS = {"fails": " fails", "undecided": "\u202f?", "holds": ""}
"""What stands beside a rate where some certificate has that verdict."""

Report = Mapping[str, Any]


def condensed(grid: Report) -> dict[str, Any]:
    """Return, for each procedure under each law, its verdicts and the rate with the most errors."""
    rows = []
    for role in ROLES:
        ordered = sorted(grid[f"{role}s"], key=_place)
        for (procedure, law), group in groupby(ordered, _place):
            members = list(group)
            rates = [rate for one in members for rate in _rates(one)]
            worst = max(rates, key=lambda rate: rate["times_alpha"])
            rows.append(
                {
                    "role": role,
                    "procedure": procedure,
                    "law": law,
                    "certificates": len(members),
                    "rates": len(rates),
                    "verdicts": dict(sorted(Counter(one["verdict"] for one in members).items())),
                    "worst": worst,
                    **_beside(members),
                }
            )
    return {
        "command": COMMAND,
        "dpinfer": grid["dpinfer"],
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "verdict": grid["verdict"],
        "rows": rows,
    }


def _beside(certificates: list[Report]) -> dict[str, Any]:
    """Return the name and the largest rate of errors of what was looked at beside."""
    rates = [
        (1.0 - rate if one["kind"] == "coverage" else rate) / one["alpha"]
        for one in certificates
        for rate in one["beside_rate"] or ()
        if rate is not None
    ]
    names = {one["beside"] for one in certificates if one["beside"]}
    if not rates:
        return {"beside": "", "beside_times_alpha": None}
    return {"beside": ", ".join(sorted(names)), "beside_times_alpha": round(max(rates), 4)}


def defaults_table(rows: list[dict[str, Any]]) -> str:
    """Return the worst error of each default, a row a procedure."""
    lines = [
        "| procedure | default | laws and truths | | most errors, times α | where |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row['procedure']}` | {row['default']} | {row['grid']}; {row['laws']} laws, "
        f"{row['settings']} settings | {row['how']} | {row['times_alpha']:.2f} | {row['at']} |"
        for row in rows
    ]
    return "\n".join(lines)


def law_of(certificate: Report) -> str:
    """Return the name of the law of the noise."""
    found = re.match(r"\w+", certificate["settings"]["mechanism"])
    return found[0] if found else ""


def table(report: Report, role: str, *, beside: bool = False) -> str:
    """Return the worst rates as a table in Markdown, in multiples of the nominal ones."""
    rows = [row for row in report["rows"] if row["role"] == role and (row["beside"] or not beside)]
    show = _cell_beside if beside else _cell
    cells = {(row["procedure"], row["law"]): show(row) for row in rows}
    laws = [law for law in LAWS if any(row["law"] == law for row in rows)]
    lines = [f"| | {' | '.join(LAWS[law] for law in laws)} |", f"|---|{'--:|' * len(laws)}"]
    for procedure in dict.fromkeys(row["procedure"] for row in rows):
        shown = " | ".join(cells.get((procedure, law), "–") for law in laws)
        lines.append(f"| {_breakable(procedure)} | {shown} |")
    return "\n".join(lines)


def overview(report: Report) -> str:
    """Return in words what the grid found."""
    counts: Counter[str] = Counter()
    for row in report["rows"]:
        if row["role"] == "procedure":
            counts.update(row["verdicts"])
    rates = sum(row["rates"] for row in report["rows"] if row["role"] == "procedure")
    parts = [f"{counts[verdict]:,} {words}" for verdict, words in _IN_WORDS.items()]
    return (
        f"{counts.total():,} certificates with {rates:,} rates: {', '.join(parts)}. "
        f"Made with dpinfer {report['dpinfer']} on {report['date']}."
    )


_IN_WORDS = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}


def _place(certificate: Report) -> tuple[str, str]:
    return certificate["procedure"], law_of(certificate)


def _rates(certificate: Report) -> Iterator[dict[str, Any]]:
    """Yield the rates of errors of a certificate that are about something published."""
    alpha, coverage = certificate["alpha"], certificate["kind"] == "coverage"
    for place, rate in enumerate(certificate["rate"]):
        if rate is None:
            continue
        error = 1.0 - rate if coverage else rate
        yield {
            "times_alpha": round(error / alpha, 4),
            "mc_error": round(certificate["mc_error"][place] / alpha, 4),
            "alpha": alpha,
            "verdict": certificate["verdicts"][place],
            "about": certificate["labels"][place],
            "seed": certificate["seed"],
            "settings": certificate["settings"],
        }


def _cell_beside(row: Report) -> str:
    return f"{row['beside_times_alpha']:.2f}"


def _cell(row: Report) -> str:
    mark = "".join(MARKS[verdict] for verdict in row["verdicts"])
    return f"{row['worst']['times_alpha']:.2f}{mark if row['role'] == 'procedure' else ''}"


def _breakable(name: str) -> str:
    """Return a name that may break after its underscores."""
    return name.replace("_", "_\u200b")


if __name__ == "__main__":
    full = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    text = json.dumps(condensed(full), indent=1, ensure_ascii=False)
    STORED.write_text(f"{text}\n", encoding="utf-8")
