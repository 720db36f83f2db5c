"""The report as one HTML page: nothing of it comes from anywhere else, and nothing of it runs."""

from __future__ import annotations

import csv
import html
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from dpinfer._check import one_line, show, show_some
from dpinfer._style import GRID, INK, PALE
from dpinfer.errors import DPInferWarning, InvalidParameterError, NotEstimableError
from dpinfer.estimation.combined import CombinedEstimate, add_published, summary_table
from dpinfer.estimation.gls import combine
from dpinfer.intervals.counts import count_confint, linear_confint
from dpinfer.intervals.thresholded import thresholded_sum_confint
from dpinfer.mechanisms.law import in_short
from dpinfer.queries.domain import SUMMED, is_summed
from dpinfer.queries.workload import Workload
from dpinfer.releases.by_label import counted_twice, groups_of
from dpinfer.releases.release import Release
from dpinfer.releases.tables import check_path, write_table
from dpinfer.reporting.forest import Forest, forest_svg, layers_of
from dpinfer.results.files import check_output, write_whole
from dpinfer.results.intervals import ERROR_COVERED
from dpinfer.results.tables import format_numbers, label_text, printed_pvalue

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.pivots import Method
    from dpinfer.results.hypothesis import HypothesisResult
    from dpinfer.results.intervals import Intervals


# What a report says about a release.


@dataclass(frozen=True)
class Analysis:
    """Combined estimates of a release with intervals and, where values overlap, their agreement.

    Where values have a threshold, clamping bounds, steps or bins, nothing is combined: each value,
    or each of the ``sums`` that are asked for, has the interval that its publishing rule leaves,
    and ``fit`` is None.
    """

    release: Release
    fit: CombinedEstimate | None
    alpha: float
    method: str
    seed: int
    consistency: HypothesisResult | None
    warnings: tuple[str, ...]
    sums: Intervals | None = None

    @classmethod
    def of(
        cls,
        release: Release,
        *,
        alpha: float,
        method: Method,
        seed: int,
        target: Sequence[str] | None = None,
        by: str | None = None,
    ) -> Self:
        """Analyze a release, or some of its values or cells; warnings are part of the report.

        ``by`` names levels by which values with a rule are summed.
        """
        if by is not None and release.has_rule.any():
            if target is not None:
                raise InvalidParameterError(
                    "target must be left out with by, where values have a threshold, bounds, steps "
                    f"or bins, got {show(target)}: choose values by where"
                )
            sums, words = _sums_by_rule(release, _levels(by), alpha, method)
            return cls(release, None, alpha, sums.method, seed, None, (words,), sums)
        labels = None if target is None else [_label_of(text, release) for text in target]
        if labels is not None and release.has_rule.any():
            release = release.select(labels)
        asked = None if labels is None else _asked(labels, release)
        if release.has_rule.any():
            _check_exact(method)
            return cls(release, None, alpha, "conditional", seed, None, (_not_combined(release),))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DPInferWarning)
            fit = combine(release, target=asked)
            try:
                consistency = fit.consistency_test(rng=seed)
            except NotEstimableError:  # no noisy value overlaps with others
                consistency = None
        messages = tuple(str(warning.message) for warning in caught)
        return cls(release, fit, alpha, method, seed, consistency, messages)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The estimates, one row a target."""
        if self.fit is not None:
            return self.fit.frame_of(self.intervals)
        frame, release = self.intervals.summary_frame(), self.release
        if self.sums is not None:
            return frame
        add_published(frame, np.True_, release.values, release.variance)
        return frame

    @cached_property
    def intervals(self) -> Intervals:
        """Those of the estimates; where none are made, those that each publishing rule leaves."""
        if self.fit is not None:
            return self.fit.conf_int(self.alpha, self.method)  # type: ignore[arg-type]
        if self.sums is not None:
            return self.sums
        return count_confint(self.release, alpha=self.alpha)

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the estimates."""
        if self.sums is not None:
            return self.sums.labels
        return self.release.labels if self.fit is None else self.fit.targets.labels

    def label(self, row: int) -> object:
        """Name of one estimate."""
        if self.fit is not None:
            return self.fit.targets[row]
        return f"value {row}" if self.labels is None else self.labels[row]

    def text(self) -> str:
        """Return the analysis as plain text, in which nothing is a command to a terminal."""
        if self.fit is None:
            own = self.intervals
            index = [self.label(row) for row in range(len(self.frame))]
            title = _title(self)
            parts = [
                summary_table(title, own.facts, self.frame, index=index, notes=own.notes).text()
            ]
        else:
            parts = [self.fit.table_of(self.intervals, self.frame).text()]
        if self.consistency is not None:
            parts.append(self.consistency.summary())
        parts += [f"Warning: {message}" for message in self.warnings]
        return "".join(map(_shown, "\n\n".join(parts)))


def chosen(release: Release, where: str | None, by: str | None) -> Release:
    """Return the values whose labels meet a condition, summed by levels."""
    try:
        found = release if where is None else release.where(where)
    except InvalidParameterError as error:  # which has the name of the option on the command line
        what = str(error).removeprefix("condition")
        raise InvalidParameterError(f"where{what}") from error
    return found if by is None or found.has_rule.any() else found.sum(_levels(by))


def _levels(by: str) -> Any:
    levels = [name.strip() for name in by.split(",")]
    return levels[0] if len(levels) == 1 else levels


def _sums_by_rule(release: Release, by: Any, alpha: float, method: Method) -> tuple[Intervals, str]:
    """Return intervals for sums of values with a publishing rule, and what to say of them."""
    import pandas as pd

    weights, labels = groups_of(release.labels, len(release), by)
    queries = release.workload
    if not queries.is_identity:
        twice = counted_twice(weights, queries.matrix, weights @ queries.matrix)
        if twice is not None:
            release._refuse_overlap(*twice, labels)
    if release.threshold is None:
        table = pd.DataFrame(weights.toarray(), index=labels, columns=release.labels)
        return linear_confint(release, table, alpha=alpha, method=method), (
            "Values were rounded, clamped or binned, as the notes say, so that sums of them are "
            "not sums of counts plus noise. Intervals allow for that, whatever the counts are; "
            "estimates are in the middle of what is possible."
        )
    _check_exact(method)
    found = thresholded_sum_confint(release, target="published", by=by, alpha=alpha)
    return found, (
        "Rows below a threshold were not published, and which these are the noise decided. The "
        "sums are of the counts of the rows that are here. For those of a list that was made "
        "beforehand, with rows that are not here, use intervals.thresholded_sum_confint with "
        "target='cells'; for what exceeds the threshold, in rows here or not, target='soft'."
    )


def _check_exact(method: Method) -> None:
    if method != "exact":
        raise InvalidParameterError(
            "method must be left out for a release with a threshold, clamping bounds or "
            f"bins, got {method!r}: its intervals are conditional on the publishing rule"
        )


def _title(analysis: Analysis) -> str:
    """Return what intervals are for where nothing is combined."""
    if analysis.sums is None:
        return "Each published value by itself"
    return f"Sums of {len(analysis.release)} published values"


def _label_of(text: str, release: Release) -> Any:
    """Return the label that is written with commas between its parts."""
    labels = release.labels
    if labels is None:
        raise InvalidParameterError(f"target must be left out without labels, got {show(text)}")
    domain = release.domain
    levels = [dict.fromkeys(labels.get_level_values(at)) for at in range(labels.nlevels)]
    if domain is not None and len(domain.attributes) == labels.nlevels:
        levels = [dict.fromkeys([*own, SUMMED]) for own in domain.levels.values()]
    written = [{str(level): level for level in own} for own in levels]
    parts = next(csv.reader([text], skipinitialspace=True), []) if len(levels) > 1 else [text]
    if len(parts) != len(levels):
        raise InvalidParameterError(
            f"target must have {len(levels)} parts with commas between, in quotes where they have "
            f"commas themselves, as {show(label_text(labels[0]))}, got {show(text)}"
        )
    found = []
    for part, known in zip(parts, written, strict=True):
        if part.strip() not in known:
            raise InvalidParameterError(
                f"target must be a label of a value or a cell, got {show(text)}: there is no "
                f"{show(part.strip())} among {show_some(known)}"
            )
        found.append(known[part.strip()])
    return tuple(found) if labels.nlevels > 1 else found[0]


def _asked(labels: list[Any], release: Release) -> Any:
    """Return published values, or sums of cells of a domain, as the target of an estimate."""
    domain = release.domain
    if domain is None or set(labels) <= set(cast("pd.Index", release.labels)):
        return labels
    sums = {}
    for label in labels:
        parts = zip(domain.attributes, label if isinstance(label, tuple) else [label], strict=True)
        sums[label] = {name: level for name, level in parts if not is_summed(level)}
    return Workload.from_predicates(domain, sums)


PRINTED_DIGITS = 12
"""Significant digits of CSV and JSON that are printed: what is beyond is rounding, as a rule."""


def rendered(analysis: Analysis, form: str) -> str:
    """Return the analysis as text in one of the formats of the command line."""
    if form == "text":
        return analysis.text()
    if form in ("markdown", "latex"):
        if analysis.fit is None:
            return str(getattr(analysis.intervals, f"to_{form}")())
        return str(getattr(analysis.fit, f"to_{form}")(analysis.alpha, analysis.method))
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"report.{form}"
        shown = {"digits": PRINTED_DIGITS} if form in ("csv", "json") else {}
        WRITERS[path.suffix](analysis, path, **shown)
        return path.read_text(encoding="utf-8").rstrip("\n")


def _not_combined(release: Release) -> str:
    """Say why a release with a publishing rule has no combined estimates."""
    ruled = int(np.count_nonzero(release.has_rule))
    free = len(release) - ruled
    rest = (
        f" Values without a rule, {free} of {len(release)}, can be combined by themselves: "
        "combine(release.select(~release.has_rule))."
        if free
        else ""
    )
    return (
        f"{ruled} of {len(release)} values have a threshold, clamping bounds, steps or bins, so "
        "that what is published of them is not the count plus noise. Sums and other "
        "combinations of them are biased: "
        f"nothing is combined, and each value has its own interval, by its rule.{rest} Sums have "
        "intervals of their own: name levels by --by."
    )


def _shown(letter: str) -> str:
    """Return a letter, or an escape for one that does not print, such as those of a label."""
    if letter == "\n" or letter.isprintable():
        return letter
    return letter.encode("unicode_escape").decode()


# The estimates as CSV, JSON and Parquet: all rows, and all digits unless fewer are asked for.


_COMPUTED = ("estimate", "std_err", "ci_lower", "ci_upper", "published_std_err")


def _in_digits(table: pd.DataFrame, digits: int | None) -> pd.DataFrame:
    """Return the table with so many significant digits of what was computed."""
    if digits is not None:
        for name in (name for name in _COMPUTED if name in table):
            numbers = table[name].to_numpy(dtype=np.float64)
            table[name] = [float(f"{number:.{digits}g}") for number in numbers.tolist()]
    return table


def write_csv(analysis: Analysis, path: Path, *, digits: int | None = None) -> None:
    """Write the table of the estimates, with labels as they are.

    A label that begins with =, +, - or @ is a formula to a spreadsheet, as in any CSV file; the
    other formats have no such cells.
    """
    write_table(_in_digits(_with_texts(analysis, "iuf"), digits), path)


def write_json(analysis: Analysis, path: Path, *, digits: int | None = None) -> None:
    """Write the estimates, the test of consistency and what they stand on."""
    test = analysis.consistency
    table = _in_digits(table_of(analysis), digits)
    columns = [[_plain(value) for value in table[name].tolist()] for name in table]
    document = {
        **facts_of(analysis),
        "estimates": [
            dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)
        ],
        "consistency": None
        if test is None
        else {"statistic": test.statistic, "pvalue": test.pvalue, "method": test.method},
        "warnings": list(analysis.warnings),
    }
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(analysis: Analysis, path: Path) -> None:
    """Write the table of the estimates; what they stand on is in the metadata of the schema."""
    facts = {"dpinfer": json.dumps(facts_of(analysis), ensure_ascii=True)}
    write_table(_with_texts(analysis, "iufbM"), path, facts)


def _with_texts(analysis: Analysis, kept: str) -> pd.DataFrame:
    """Return the estimates with labels as text, but for columns of the kinds that are kept.

    Labels of one column may be of several types, of which a column of a file has but one.
    """
    import pandas as pd

    frame = table_of(analysis)
    for position in range(frame.shape[1] - analysis.frame.shape[1]):
        labels = frame.iloc[:, position]
        if labels.dtype.kind not in kept:
            numbers, distinct = pd.factorize(labels, use_na_sentinel=False)
            texts = np.array([_sound(label) for label in distinct.tolist()], dtype=object)
            of_label, texts = pd.factorize(texts)
            frame.isetitem(position, pd.Categorical.from_codes(of_label[numbers], texts))
    frame.columns = pd.Index([_sound(name) for name in frame.columns], dtype=object)
    return frame


def facts_of(analysis: Analysis) -> dict[str, Any]:
    """Return what the numbers stand on."""
    from dpinfer import __version__

    return {
        "dpinfer": __version__,
        "alpha": analysis.alpha,
        "method": analysis.method,
        "uncertainty": "noise",
        "error_covered": ERROR_COVERED["noise"],
        "seed": analysis.seed,
    }


def table_of(analysis: Analysis) -> pd.DataFrame:
    """Return the estimates with their labels as columns in front, each of its own name."""
    import pandas as pd

    frame = analysis.frame
    if analysis.labels is None:
        labels = pd.DataFrame({"target": [analysis.label(row) for row in range(len(frame))]})
    else:
        names = _own_names(frame.index.names, taken=list(frame.columns))
        labels = pd.DataFrame({name: _level(frame.index, k) for k, name in enumerate(names)})
    return pd.concat([labels, frame.reset_index(drop=True)], axis=1)


def _level(labels: pd.Index, number: int) -> Any:
    """Return the labels of a level, as categories where they are texts of several levels."""
    import pandas as pd

    if isinstance(labels, pd.MultiIndex) and labels.levels[number].dtype.kind not in "iufbM":
        return pd.Categorical.from_codes(labels.codes[number], labels.levels[number])
    return labels.get_level_values(number)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, with escapes for halves of characters, which UTF-8 does not have."""
    path.write_bytes(text.encode("utf-8", errors="backslashreplace"))


def _own_names(names: Sequence[Any], taken: list[str]) -> list[str]:
    """Return a name for each column of labels that no other column has."""
    found: list[str] = []
    for position, name in enumerate(names):
        unnamed = "target" if len(names) == 1 else f"target_{position}"
        own = unnamed if name is None else str(name)
        while own in (*taken, *found):
            own += "_label"
        found.append(own)
    return found


def _plain(value: Any) -> Any:
    """Return what JSON has for a value: nothing for what is not finite, text for other kinds."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else label_text(value)


def _sound(text: object) -> str:
    return label_text(text).encode("utf-8", errors="backslashreplace").decode()


MOST_ROWS = 1000
"""A longer table shows only its first rows; all are in the other formats."""

MOST_DRAWN = 40
"""A forest plot shows no more rows."""

_LONGEST_LABEL = 200

_INTERVALS = {
    "exact": "The ends are quantiles of the exact law of each error, a weighted sum of the noises.",
    "asymptotic": "The ends are normal quantiles times the standard errors: exact for Gaussian "
    "noise, approximate for other noise.",
    "tail-bound": "The ends are Chernoff bounds joined by a union bound: the intervals hold for "
    "all rows together, and are wider than they need be.",
    "tilted": "The ends are proved bounds for the sum of those counts that were published: the "
    "noise of what is published is larger than the noise that was drawn.",
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
    yield "Noise", in_short(release.mechanism)
    if release.neighbours is not None:
        yield "Neighbours", release.neighbours
    if analysis.fit is not None:
        yield "Estimates", len(analysis.fit)
        yield "Overlapping values", analysis.fit.overlap


def _estimates(analysis: Analysis) -> str:
    if analysis.fit is None:
        return f"<h2>{_title(analysis)}</h2>\n{_table(analysis)}"
    return (
        f"<h2>Before and after combining</h2>\n{_forest(analysis)}\n"
        f"<h2>Combined estimates</h2>\n{_table(analysis)}\n"
        f"<h2>Do the published values agree?</h2>\n{_consistency(analysis)}"
    )


def _forest(analysis: Analysis) -> str:
    frame, rows = analysis.frame, len(analysis.frame)
    labels = _labels(analysis, min(rows, MOST_DRAWN))
    forest = Forest(tuple(labels), layers_of(analysis.fit, frame, len(labels)), rows)
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
    if analysis.sums is not None:
        yield from (f"{note[0].upper()}{note[1:]}." for note in analysis.sums.notes)
    elif analysis.fit is None:
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


WRITERS: dict[str, Callable[..., None]] = {
    ".html": write_html,
    ".csv": write_csv,
    ".json": write_json,
    ".parquet": write_parquet,
}


def check_report_paths(paths: Sequence[Path]) -> None:
    """Refuse reports that could not be written, before any work is done."""
    for path in paths:
        check_output(check_path(path, "output"), WRITERS)
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise InvalidParameterError("output must be another file each time it is given")


def write_reports(analysis: Analysis, paths: Sequence[Path]) -> None:
    """Write an analysis in the formats that the endings of the paths name: all files, or none."""
    check_report_paths(paths)
    write_whole([(path, partial(WRITERS[path.suffix], analysis)) for path in paths])
