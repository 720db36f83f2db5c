"""The report as one HTML page: nothing of it comes from anywhere else, and nothing of it runs."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpinfer._style import GRID, INK, PALE
from dpinfer._validation import one_line
from dpinfer.reporting._forest_svg import forest_svg
from dpinfer.reporting.analysis import Analysis
from dpinfer.reporting.forest import forest_of, label_text
from dpinfer.reporting.tables import write_text
from dpinfer.results.intervals import ERROR_COVERED
from dpinfer.results.tables import format_numbers, printed_pvalue

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1000
"""A longer table shows only its first rows; all are in the other formats."""

MOST_DRAWN = 40
"""A forest plot shows no more rows."""

_LONGEST_LABEL = 200

_INTERVALS = {
    "exact": "The ends are quantiles of the exact law of each error, a weighted sum of the noises.",
    "normal": "The ends are normal quantiles times the standard errors: exact for Gaussian noise, "
    "approximate for other noise.",
    "tail-bound": "The ends are Chernoff bounds joined by a union bound: the intervals hold for "
    "all rows together, and are wider than they need be.",
    "conditional": "The ends follow from the law that the publishing rule gives each value: that "
    "of reaching its threshold, or of being moved to a bound, where an interval is open.",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: {ink}; background: #fff; }}
body {{ margin: 1.5rem auto; max-width: 62rem; padding: 0 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; }}
h2 {{ font-size: 1.2rem; margin: 2rem 0 .5rem; }}
.scroll {{ overflow: auto; max-height: 75vh; border: 1px solid {pale}; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }}
.scroll table {{ min-width: 100%; font-size: .9rem; }}
th, td {{ border-bottom: 1px solid {grid}; padding: .25rem .6rem; text-align: right; }}
th, td {{ unicode-bidi: isolate; vertical-align: top; }}
.scroll td, .scroll thead th {{ white-space: nowrap; }}
.scroll thead th {{ position: sticky; top: 0; background: {pale}; z-index: 1; }}
tbody th, thead th:first-child {{ text-align: left; font-weight: normal; }}
.scroll tbody th {{ min-width: 8rem; max-width: 24rem; overflow-wrap: anywhere; }}
.facts td {{ text-align: left; }}
.facts th {{ padding-left: 0; color: #555; }}
.forest {{ display: block; overflow: visible; font-family: inherit; }}
.warning {{ border-left: 4px solid {ink}; background: {pale}; padding: .5rem 1rem; }}
footer {{ margin-top: 2rem; color: #555; font-size: .9rem; }}
@media (min-width: 48rem) {{
  .scroll tbody th {{ position: sticky; left: 0; background: #fff; }}
}}
@media print {{ .scroll {{ max-height: none; overflow: visible; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
{warnings}
<table class="facts"><tbody>
{facts}
</tbody></table>
{estimates}
<h2>How these numbers were made</h2>
<ul>
{notes}
</ul>
<footer>dpinfer {version}, seed {seed}.</footer>
</body>
</html>
"""


def write_html(analysis: Analysis, path: Path) -> None:
    """Write the page."""
    write_text(path, page_of(analysis))


def page_of(analysis: Analysis) -> str:
    """Return the page as text, which depends on the analysis alone."""
    from dpinfer import __version__

    return _PAGE.format(
        title=_text(analysis.release.name or "release"),
        ink=INK,
        pale=PALE,
        grid=GRID,
        warnings="\n".join(
            f'<p class="warning">Warning: {_text(message, 1000)}</p>'
            for message in analysis.warnings
        ),
        facts="\n".join(
            f'<tr><th scope="row">{name}</th><td>{_text(value)}</td></tr>'
            for name, value in _facts(analysis)
        ),
        estimates=_estimates(analysis),
        notes="\n".join(f"<li>{_text(note, 1000)}</li>" for note in _notes(analysis)),
        version=_text(__version__),
        seed=analysis.seed,
    )


def _facts(analysis: Analysis) -> Iterator[tuple[str, object]]:
    release, attrs = analysis.release, analysis.frame.attrs
    yield "Error covered", ERROR_COVERED[attrs["uncertainty"]]
    yield "Intervals", f"{_percent(analysis)}, {analysis.method}"
    yield "Published values", len(release)
    if exact := int(np.count_nonzero(release.variance == 0)):
        yield "… without noise", exact
    if ruled := int(np.count_nonzero(release.has_rule)):
        yield "… with a threshold, bounds or bins", ruled
    yield "Noise", repr(release.mechanism)
    if release.neighbours is not None:
        yield "Neighbours", release.neighbours
    if analysis.fit is not None:
        yield "Estimates", len(analysis.fit)
        yield "Overlapping values", analysis.fit.overlap


def _estimates(analysis: Analysis) -> str:
    if analysis.fit is None:
        return f"<h2>Each published value by itself</h2>\n{_table(analysis)}"
    return (
        f"<h2>Before and after combining</h2>\n{_forest(analysis)}\n"
        f"<h2>Combined estimates</h2>\n{_table(analysis)}\n"
        f"<h2>Do the published values agree?</h2>\n{_consistency(analysis)}"
    )


def _forest(analysis: Analysis) -> str:
    frame, rows = analysis.frame, len(analysis.frame)
    labels = _labels(analysis, min(rows, MOST_DRAWN))
    forest = forest_of(analysis.fit, frame, labels, rows)
    axis, beside = "value", []
    if forest.narrow:
        forest = forest.around_estimates()
        axis = "difference from the combined estimate"
        beside = _rounded(frame.iloc[: len(labels)])["estimate"].to_list()
    first = "" if rows <= MOST_DRAWN else f"The first {MOST_DRAWN} of {rows} rows. "
    what = f"{first}Estimates with {_percent(analysis)} intervals, before and after combining."
    if forest.centred:
        what += " Each row is centred at its combined estimate, which stands beside its label."
    drawing = forest_svg(forest, what, [axis, "in units of the published values"], beside)
    return f"<p>{what}</p>\n{drawing}"


def _table(analysis: Analysis) -> str:
    frame = _rounded(analysis.frame.iloc[:MOST_ROWS])
    index = analysis.frame.index
    names = [str(name) for name in index.names if name is not None]
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in (", ".join(names), *frame))
    labels = _labels(analysis, len(frame))
    rows = "\n".join(
        f'<tr><th scope="row">{_text(label)}</th>{_cells(row)}</tr>'
        for label, row in zip(labels, frame.itertuples(index=False, name=None), strict=True)
    )
    rest = ""
    if len(analysis.frame) > MOST_ROWS:
        rest = (
            f"<p>The first {MOST_ROWS} of {len(analysis.frame)} rows. All of them: "
            "<code>dpinfer analyze … --output report.csv</code> (or .json, .parquet).</p>\n"
        )
    return (
        f'{rest}<div class="scroll" role="region" aria-label="Estimates" tabindex="0">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def _consistency(analysis: Analysis) -> str:
    test = analysis.consistency
    if test is None:
        return "<p>No published value overlaps with others, so that nothing can disagree.</p>"
    pvalue = printed_pvalue(float(test.pvalue), float(test.pvalue_error), 4)
    numbers = [("Statistic", f"{float(test.statistic):.6g}"), ("p-value", pvalue)]
    if np.any(test.mc_error):
        numbers.append(("Monte Carlo error of it", f"{float(test.mc_error):.2g}"))
    numbers.append(("Method", test.method))
    rows = "\n".join(
        f'<tr><th scope="row">{name}</th><td>{_text(value)}</td></tr>' for name, value in numbers
    )
    notes = "".join(f"<p>{_text(note, 1000)}</p>" for note in test.notes)
    return f'<table class="facts"><tbody>\n{rows}\n</tbody></table>\n{notes}'


def _notes(analysis: Analysis) -> Iterator[str]:
    together = analysis.frame.attrs["simultaneous"]
    if analysis.fit is None:
        yield (
            "Estimates: the most likely confidential value behind each published one, given its "
            "rule. They are biased, as every estimate of a selected value is, and do not add up."
        )
        yield from (f"Of all {len(analysis.release)}: {note}." for note in analysis.intervals.notes)
    else:
        yield (
            "Estimates: the best linear unbiased combination of all published values. They are "
            "exactly unbiased for the confidential values, and neither rounded nor clipped."
        )
    yield f"Error covered: {ERROR_COVERED[analysis.frame.attrs['uncertainty']]}. " + (
        "The intervals are about the confidential values. They do not cover the error of sampling, "
        "if the data are a sample of a population."
    )
    yield _INTERVALS[analysis.method]
    yield "The level holds for " + (
        "all intervals together." if together else "each interval on its own, not for all together."
    )
    if analysis.fit is not None:
        yield "published: the value as it was published, with its interval by the same method."
    if analysis.consistency is not None:
        yield (
            "Agreement: the sum of squared differences of published and combined values, in units "
            "of their noise. Its law under the stated noise is "
            f"{'simulated' if np.any(analysis.consistency.mc_error) else 'computed'}."
        )


def _labels(analysis: Analysis, rows: int) -> list[str]:
    """Return the labels of the first rows."""
    return [label_text(analysis.label(row)) for row in range(rows)]


def _cells(row: Iterable[object]) -> str:
    return "".join(f"<td>{_text(value)}</td>" for value in row)


def _percent(analysis: Analysis) -> str:
    return f"{100 * (1 - analysis.alpha):.6g} %"


def _text(value: object, most: int = _LONGEST_LABEL) -> str:
    """Return a value as it stands in the page: on one line, nothing in it taken for HTML."""
    return html.escape(one_line(value, most))


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates as they stand in a summary; what was not published is left empty."""
    unit = frame[["estimate", "ci_lower", "ci_upper"]].to_numpy(dtype=np.float64).ravel()
    errors = [name for name in frame.columns if name.endswith("std_err")]
    columns = {
        name: format_numbers(frame[name].to_numpy(), None if name in errors else unit)
        for name in frame.columns
    }
    return frame.assign(**columns).mask(frame.isna(), "")
