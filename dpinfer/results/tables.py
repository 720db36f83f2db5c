"""One table of a result, as plain text, HTML, Markdown and LaTeX: the same numbers in each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 60
"""Of a longer body, only the first and last rows are shown as text and in notebooks."""

_ROUNDING = 1e-12
"""Numbers this small, relative to the largest beside them, are zero but for rounding."""

_ORDERS = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of characters that a line does not have."""

_WIDTH = 72
_GAP = 2

_LOWER, _UPPER = "ci_lower", "ci_upper"

_HEADS = {
    "estimate": "Estimate",
    "std_err": "Std. error",
    "pvalue": "p",
    "pvalue_adjusted": "Adjusted p",
    "t": "t",
    "z": "z",
    "mc_error": "MC error",
    "published_std_err": "Published std. error",
    "naive_std_err": "Naive std. error",
    "sd": "Std. deviation",
    "sd_noise": "Std. error, noise",
    "sd_sampling": "Std. error, sampling",
}
"""Columns under other names than their own, outside of plain text."""


class _Body(NamedTuple):
    """The cells of a table as strings: those of the labels in a tuple for each row."""

    names: tuple[str, ...]  # of the parts of labels
    labels: list[tuple[str, ...]]
    columns: dict[str, list[str]]
    gap: int | None  # where rows are left out
    left_out: int


@dataclass(frozen=True)
class Table:
    """A title, pairs of facts, a body of columns and notes, from which all renderings are made.

    Parameters
    ----------
    title : str
        What the table is about.
    facts : sequence of pairs
        Names and values for the head.
    columns : DataFrame, or mapping of str to array, shape (n,)
        The body, by the names of the columns of ``summary_frame``; none for facts alone.
    index : sequence, optional
        The labels of the rows; an Index gives the names of its levels as well.
    notes : sequence of str
        What is said below the body.
    alike : sequence of str
        Columns of one unit, which have the same number of decimals.
    bounds : mapping of str to array of float
        Errors of some columns, of p-values: a number no larger than its error is printed as a
        bound, "< 1e-12".
    level : float, optional
        The level of the intervals, for the heads of their columns.
    interval : str
        What the intervals are called there.
    after : Table, optional
        A further table of the same result.

    >>> print(Table("Counts", [("Method", "exact"), ("Values", 2)],
    ...             {"estimate": [3.5, 12], "lower": [1, 9.25]}, index=["a", "b"]).text())
                                     Counts
    ========================================================================
    Method:                      exact    Values:                          2
    ========================================================================
                                                             estimate  lower
    ------------------------------------------------------------------------
    a                                                            3.50  1.000
    b                                                           12.00  9.250
    ========================================================================
    """

    title: str
    facts: Sequence[tuple[str, object]] = ()
    columns: Mapping[str, Any] | pd.DataFrame | None = None
    _: KW_ONLY
    index: Any = None
    notes: Sequence[str] = ()
    alike: Sequence[str] = ()
    bounds: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    interval: str = "CI"
    after: Table | None = None

    def __post_init__(self) -> None:
        if hasattr(self.columns, "to_numpy"):
            frame: Any = self.columns
            columns = {name: frame[name].to_numpy() for name in frame.columns}
            object.__setattr__(self, "columns", columns)

    def __len__(self) -> int:
        return 0 if not self.columns else len(next(iter(self.columns.values())))

    def __bool__(self) -> bool:
        return True

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Return the table of some rows, which says of how many they are."""
        columns = {name: np.asarray(values) for name, values in (self.columns or {}).items()}
        length = len(self)
        index = self.index
        if index is not None:
            own = hasattr(index, "take")
            index = index.take(rows.ravel()) if own else [index[int(row)] for row in rows.flat]
        return replace(
            self,
            facts=[*self.facts, ("Rows", f"{rows.size} of {length}")],
            columns={name: values[rows.ravel()] for name, values in columns.items()},
            index=index,
            bounds={
                name: np.broadcast_to(error, (length,))[rows.ravel()]
                for name, error in self.bounds.items()
            },
        )

    def text(self) -> str:
        """Return plain text of 72 letters a line, or as wide as the body needs."""
        body = self._body(MAX_ROWS)
        rows = [[name, *cells] for name, cells in body.columns.items()]
        if self.index is not None and self.columns:
            labels = (", ".join(label) for label in (body.names, *body.labels))
            rows.insert(0, list(labels))
        cells = list(zip(*rows, strict=True))
        widths = [max(map(len, column)) for column in rows]
        width = max(_WIDTH, len(self.title), sum(widths) + _GAP * (len(widths) - 1))
        lines = [self.title.center(width).rstrip(), "=" * width]
        if self.facts:
            lines += [*_facts(self.facts, width), "=" * width]
        if cells:
            widths[0] += width - sum(widths) - _GAP * (len(widths) - 1)
            head, *shown = (_join(row, widths, self.index is not None) for row in cells)
            if body.gap is not None:
                shown.insert(body.gap, f"... {_left_out(body)} ...")
            lines += [head, "-" * width, *shown, "=" * width]
        if self.notes:
            lines.append("Notes:")
            for note in self.notes:
                lines += wrap(note, width, initial_indent="  ", subsequent_indent="    ")
        text = "\n".join(map(_without_orders, lines))
        return text if self.after is None else f"{text}\n\n{self.after.text()}"

    def html(self) -> str:
        """Return a table for a notebook, which takes the colours that it finds there."""
        heads, rows, labels, body = self._cells(MAX_ROWS, None, brackets=False)
        said = "" if not body.columns else _said(self.facts)
        lines = [
            '<table class="dpinfer" style="border-collapse:collapse;'
            'font-variant-numeric:tabular-nums;color:inherit;background:none">',
            '<caption style="caption-side:top;text-align:left;color:inherit;padding:.3em .6em">'
            f"<strong>{_html(self.title)}</strong>{said and '<br>'}{_html(said)}</caption>",
        ]
        if any(heads):
            cells = (
                _html_cell("th", head, left=place < labels) for place, head in enumerate(heads)
            )
            lines.append(f'<thead><tr style="{_RULE}">{"".join(cells)}</tr></thead>')
        lines.append(f'<tbody style="{_RULE}">')
        span = f'colspan="{max(len(heads), 1)}"'
        for place, row in enumerate(rows):
            if place == body.gap:
                lines.append(
                    f'<tr><td {span} style="text-align:center">… {_left_out(body)} …</td></tr>'
                )
            cells = (
                _html_cell("th" if at < labels else "td", cell, left=at < labels)
                for at, cell in enumerate(row)
            )
            lines.append(f"<tr>{''.join(cells)}</tr>")
        lines.append("</tbody>")
        if self.notes:
            lines.append("<tfoot>")
            lines += [
                f'<tr><td {span} style="text-align:left;white-space:normal">{_html(note)}</td></tr>'
                for note in self.notes
            ]
            lines.append("</tfoot>")
        lines.append("</table>")
        page = "\n".join(lines)
        return page if self.after is None else f"{page}\n{self.after.html()}"

    def markdown(
        self, *, caption: str | None = None, digits: int | None = None, brackets: bool = False
    ) -> str:
        """Return a table with pipes, as GitHub reads them, with all rows."""
        heads, rows, labels, body = self._cells(None, digits, brackets=brackets)
        title = f"**{_markdown(self.title if caption is None else caption)}**"
        said = "" if not body.columns else _said(self.facts)
        rule = [":--" if place < labels else "--:" for place in range(len(heads))]
        lines = [f"{title}  \n{_markdown(said)}" if said else title, ""]
        lines += [_piped([_markdown(head) for head in heads]), _piped(rule)]
        lines += [_piped([_markdown(cell) for cell in row]) for row in rows]
        lines += [line for note in self.notes for line in ("", _markdown(note))]
        text = "\n".join(lines)
        if self.after is None:
            return text
        return f"{text}\n\n{self.after.markdown(digits=digits, brackets=brackets)}"

    def latex(
        self,
        *,
        caption: str | None = None,
        label: str | None = None,
        digits: int | None = None,
        brackets: bool = False,
    ) -> str:
        """Return a table environment with all rows, which needs the package booktabs."""
        heads, rows, labels, body = self._cells(None, digits, brackets=brackets)
        said = [_said(self.facts)] if body.columns and self.facts else []
        form = "".join("l" if place < labels else "r" for place in range(len(heads)))
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.title if caption is None else caption)}}}",
            *([] if label is None else [rf"\label{{{label}}}"]),
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
        ]
        if any(heads):
            shown = (_latex_head(head, at < labels) for at, head in enumerate(heads))
            lines += [" & ".join(shown) + r" \\", r"\midrule"]
        for row in rows:
            shown = (_latex_cell(cell, at < labels) for at, cell in enumerate(row))
            lines.append(" & ".join(shown) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        if notes := [_latex(note) for note in (*said, *self.notes)]:
            lines += ["", r"\medskip", r"\begin{minipage}{\linewidth}\footnotesize"]
            lines += ["\\par\n".join(notes), r"\end{minipage}"]
        lines.append(r"\end{table}")
        text = "\n".join(lines)
        if self.after is None:
            return text
        return f"{text}\n\n{self.after.latex(digits=digits, brackets=brackets)}"

    def _body(self, most: int | None, digits: int | None = None) -> _Body:
        """Return the cells as strings, without the middle of what has more rows than ``most``."""
        if not self.columns:
            return _Body((), [], {}, None, 0)
        arrays = {name: np.asarray(values) for name, values in self.columns.items()}
        length = len(next(iter(arrays.values())))
        shown, gap, left_out = np.arange(length), None, 0
        if most is not None and length > most:
            gap, left_out = most // 2, length - 2 * (most // 2)
            shown = np.r_[:gap, length - gap : length]
        taken = {name: values[shown] for name, values in arrays.items()}
        shared = np.concatenate(
            [taken[name] for name in self.alike if name in taken] or [np.empty(0)]
        )
        columns = {}
        for name, values in taken.items():
            unit = shared if name in self.alike else values
            error = self.bounds.get(name, 0.0)
            error = np.broadcast_to(np.asarray(error, dtype=np.float64), (length,))[shown]
            columns[name] = _column(values, unit, error, digits, name.startswith("pvalue"))
        if self.index is None:
            return _Body((), [()] * len(shown), columns, gap, left_out)
        names = tuple(str(name) for name in getattr(self.index, "names", ()) if name is not None)
        labels = [label_parts(self.index[int(row)]) for row in shown]
        return _Body(names, labels, columns, gap, left_out)

    def _cells(
        self, most: int | None, digits: int | None, *, brackets: bool
    ) -> tuple[list[str], list[list[str]], int, _Body]:
        """Return heads, rows, and how many of their cells are labels; facts where there is no body.

        Labels of as many parts each have a column for each part.
        """
        body = self._body(most, digits)
        if not body.columns:
            return ["", ""], [[name, str(value)] for name, value in self.facts], 1, body
        level = "" if self.level is None else f"{100 * self.level:.6g} % "
        lower, upper = (f"{level}{self.interval}, {side}" for side in ("lower", "upper"))
        own = {**_HEADS, _LOWER: lower, _UPPER: upper}
        cells = dict(body.columns)
        if brackets and {_LOWER, _UPPER} <= cells.keys():
            own[_LOWER] = f"{level}{self.interval}"
            ends = zip(cells[_LOWER], cells.pop(_UPPER), strict=True)
            cells[_LOWER] = [_bracketed(*pair) for pair in ends]
        heads = [own.get(name, name[:1].upper() + name[1:].replace("_", " ")) for name in cells]
        columns = list(cells.values())
        labels = 0
        if self.index is not None:
            sizes = {len(label) for label in body.labels}
            labels = sizes.pop() if len(sizes) == 1 else 1
            parts = body.labels if not sizes else [(", ".join(label),) for label in body.labels]
            names = body.names if len(body.names) == labels else ("",) * labels
            heads = [*names, *heads]
            columns = [*map(list, zip(*parts, strict=True)), *columns]
        rows = [[_without_orders(cell) for cell in row] for row in zip(*columns, strict=True)]
        return heads, rows, labels, body


def format_numbers(
    numbers: NDArray[Any], unit: NDArray[Any] | None = None, digits: int | None = None
) -> list[str]:
    """Return numbers as strings with as many decimals as all of ``unit`` needs, the same in each.

    By default ``unit`` is the numbers themselves. With ``digits``, so many decimals.
    """
    if numbers.dtype.kind in "biu":
        return [str(number) for number in numbers]
    scale = numbers if unit is None else unit
    size = np.abs(scale[np.isfinite(scale) & (scale != 0)], dtype=np.float64)
    largest = size.max(initial=0.0) if size.size else 1.0
    smallest = size[size > _ROUNDING * largest].min(initial=largest)
    if largest >= 1e12 or (largest < 1e-3 and digits is None):
        return [f"{number:.{4 if digits is None else digits}e}" for number in numbers]
    decimals = int(np.clip(3 - np.floor(np.log10(largest)), 2, 6)) if digits is None else digits
    if digits is None:
        decimals = max(decimals, int(np.clip(-np.floor(np.log10(smallest)), 0, 4)))
    # adding 0.0 turns -0.0 into 0.0
    return [f"{number:.{decimals}f}" for number in np.round(numbers, decimals) + 0.0]


def printed_pvalue(pvalue: float, error: float, digits: int) -> str:
    """Return a p-value with so many digits, as a bound where it is no larger than its error."""
    return f"< {error:.1g}" if 0.0 < pvalue <= error else f"{pvalue:.{digits}g}"


def _column(
    values: NDArray[Any],
    unit: NDArray[Any],
    error: NDArray[np.float64],
    digits: int | None,
    is_pvalue: bool,
) -> list[str]:
    """Return the entries of a column as strings, numbers with the decimals that ``unit`` needs."""
    if values.dtype.kind not in "iuf":
        return [str(value) for value in values]
    if values.dtype.kind == "f" and is_pvalue and digits:
        least = 0.5 * 10.0**-digits
        small = (values > 0) & (values < least) & (error <= 2.0 * least)
        error = np.where(small, 2.0 * least, error)
    bounded = (error > 0) & (values <= error)
    if not bounded.any() and not is_pvalue:
        return format_numbers(values, unit, digits)
    known = iter(format_numbers(values[~bounded], None, digits))
    printed = [
        f"< {least:.1g}" if at_bound else next(known)
        for least, at_bound in zip(error, bounded, strict=True)
    ]
    return [
        f"{value:.1e}" if value > 0 and not set(cell) - {"0", "."} else cell
        for value, cell in zip(values, printed, strict=True)
    ]


def label_parts(label: object) -> tuple[str, ...]:
    """Return the parts of the label of a row as strings, a day without the time of its midnight."""
    parts = label if isinstance(label, tuple) else (label,)
    return tuple(
        str(part).removesuffix(" 00:00:00") if isinstance(part, datetime) else str(part)
        for part in parts
    )


def label_text(label: object) -> str:
    """Return the label of a row as it stands in a table; the parts of a tuple with commas."""
    return ", ".join(label_parts(label))


def _bracketed(lower: str, upper: str) -> str:
    """Return an interval, which does not hold an end at infinity."""
    if (lower, upper) == ("inf", "-inf"):
        return "empty"
    return f"{'(' if lower == '-inf' else '['}{lower}, {upper}{')' if upper == 'inf' else ']'}"


def _left_out(body: _Body) -> str:
    return f"{body.left_out} {'row' if body.left_out == 1 else 'rows'} left out"


def _said(facts: Sequence[tuple[str, object]]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts)


# Plain text.


def _without_orders(line: str) -> str:
    """Return a line in which control characters, which are orders to a terminal, are escaped."""
    if line.isprintable():
        return line
    return "".join(
        letter.encode("unicode_escape").decode() if category(letter) in _ORDERS else letter
        for letter in line
    )


def _join(row: Sequence[str], widths: Sequence[int], labelled: bool) -> str:
    """Return a row of cells as a line: labels to the left, everything else to the right."""
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    if labelled:
        cells[0] = row[0].ljust(widths[0])
    return (" " * _GAP).join(cells).rstrip()


def _facts(header: Sequence[tuple[str, object]], width: int) -> Iterator[str]:
    """Yield the facts as lines, two on a line where both fit in half of it."""
    half = (width - 4) // 2
    waiting: str | None = None
    for name, value in header:
        fact = _fact(name, str(value), half)
        if len(fact) > half:
            if waiting is not None:
                yield waiting
                waiting = None
            yield _fact(name, str(value), width)
        elif waiting is None:
            waiting = fact
        else:
            yield f"{waiting}    {fact}"
            waiting = None
    if waiting is not None:
        yield waiting


def _fact(name: str, value: str, width: int) -> str:
    """Return one fact, its value pushed to the right."""
    return f"{name}: " + value.rjust(width - len(name) - 2)


# HTML, Markdown and LaTeX.


_RULE = "border-top:1px solid currentColor;border-bottom:1px solid currentColor"


def _html(text: str) -> str:
    from html import escape  # slow to import

    return escape(_without_orders(text))


def _html_cell(tag: str, cell: str, *, left: bool) -> str:
    side = "left" if left else "right"
    weight = ";font-weight:normal" if tag == "th" and left else ""
    style = f"text-align:{side};padding:.15em .6em;background:none;color:inherit{weight}"
    return f'<{tag} style="{style}">{_html(cell)}</{tag}>'


_PUNCTUATION = re.compile(r"([\\`*_\[\]<>|~$#&])")


def _markdown(text: str) -> str:
    """Return a text in which nothing is an order to Markdown."""
    return _PUNCTUATION.sub(r"\\\1", _without_orders(text))


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # an option, after the end of a row, where a star is another order
    "*": "{*}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "…": r"\dots{}",
    "–": "--",
    "—": "---",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "„": ",,",
    "«": r"$\ll$",
    "»": r"$\gg$",
    "№": "No.",
    "→": r"$\to$",
    "≈": r"$\approx$",
    "√": r"$\surd$",
    "²": "$^2$",
    "³": "$^3$",
    "½": r"$\frac12$",
    "⁻": "$^-$",
    "\N{MINUS SIGN}": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≠": r"$\ne$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "θ": r"$\theta$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "π": r"$\pi$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "φ": r"$\varphi$",
    "χ": r"$\chi$",
    "ω": r"$\omega$",
    "Σ": r"$\Sigma$",
    "Π": r"$\Pi$",
    "Φ": r"$\Phi$",
} | {letter: f"\\{letter}" for letter in "&%$#_{}"}
"""Characters that LaTeX takes for orders, or does not know without further packages."""

_NUMBER = re.compile(r"(-?(?:\d+(?:\.\d+)?|inf\b))(?:e([+-]\d+))?")


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in _without_orders(text))


def _latex_head(head: str, is_label: bool) -> str:
    return f"${head}$" if head in ("p", "t", "z") and not is_label else _latex(head)


def _latex_cell(cell: str, is_label: bool) -> str:
    """Return a label as text and a number, a bound of one or an interval as mathematics."""
    bare = cell.removeprefix("< ")
    inner = bare[1:-1].split(", ") if bare[:1] in ("[", "(") else [bare]
    if is_label or not all(map(_NUMBER.fullmatch, inner)):
        return _latex(cell)
    written = _NUMBER.sub(_latex_number, cell)
    return cell if cell.replace(".", "").isdigit() else f"${written}$"


def _latex_number(found: re.Match[str]) -> str:
    number = found[1].replace("inf", r"\infty")
    return number if found[2] is None else rf"{number}\times10^{{{int(found[2])}}}"
