"""The analysis of a release as text, HTML, CSV and JSON."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import numpy as np

from dpinfer._validation import show
from dpinfer.errors import DPInferWarning, InvalidParameterError, NotEstimableError
from dpinfer.estimation import CombinedEstimate, combine
from dpinfer.releases import Release
from dpinfer.results.tables import format_numbers

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.estimation.pivots import Method
    from dpinfer.results.hypothesis import HypothesisResult


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Combined estimates of a release with intervals and, where values overlap, their agreement."""

    fit: CombinedEstimate
    alpha: float
    method: Method
    seed: int
    consistency: HypothesisResult | None
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, release: Release, *, alpha: float, method: Method, seed: int) -> Self:
        """Analyze a release; warnings become part of the report."""
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DPInferWarning)
            fit = combine(release)
            try:
                consistency = fit.consistency_test(rng=seed)
            except NotEstimableError:  # no noisy value overlaps with others
                consistency = None
        messages = tuple(str(warning.message) for warning in caught)
        return cls(
            fit=fit,
            alpha=alpha,
            method=method,
            seed=seed,
            consistency=consistency,
            warnings=messages,
        )

    def frame(self) -> pd.DataFrame:
        """Return the estimates, one row a target."""
        return self.fit.summary_frame(alpha=self.alpha, method=self.method)

    def text(self) -> str:
        """Return the analysis as plain text."""
        parts = [self.fit.summary(alpha=self.alpha, method=self.method)]
        if self.consistency is not None:
            parts.append(self.consistency.summary())
        parts += [f"Warning: {message}" for message in self.warnings]
        return "\n\n".join(parts)


def check_report_path(path: Path) -> None:
    """Refuse a report that could not be written, before any work is done."""
    if path.suffix not in WRITERS:
        raise InvalidParameterError(
            f"output must end in one of {', '.join(WRITERS)}, got {show(path.name)}"
        )
    if not path.parent.is_dir():
        raise InvalidParameterError(f"output must be in an existing folder, got {path}")
    if path.is_dir():
        raise InvalidParameterError(f"output must be a file, got the directory {path}")


def write_report(analysis: Analysis, path: Path) -> None:
    """Write an analysis in the format that the ending of the path names, all of it or nothing."""
    check_report_path(path)
    text = WRITERS[path.suffix](analysis)
    try:
        with TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            draft.write_text(text, encoding="utf-8")
            os.replace(draft, path)
    except OSError as error:
        raise InvalidParameterError(f"output must be writable, got {path}: {error}") from error


def _as_csv(analysis: Analysis) -> str:
    return str(analysis.frame().to_csv())


def _as_json(analysis: Analysis) -> str:
    test = analysis.consistency
    document = {
        "dpinfer": _version(),
        "alpha": analysis.alpha,
        "method": analysis.method,
        "uncertainty": "noise",
        "estimates": json.loads(analysis.frame().reset_index().to_json(orient="records")),
        "consistency": None
        if test is None
        else {"statistic": test.statistic, "pvalue": test.pvalue, "method": test.method},
        "seed": analysis.seed,
        "warnings": list(analysis.warnings),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; }}
body {{ margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }}
.table {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .25rem .75rem; text-align: right; }}
tbody th {{ text-align: left; font-weight: normal; }}
pre {{ overflow-x: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>Combined estimates with {level} % intervals ({method}). Error covered: noise, that is, the
intervals are for the confidential values and not for a population.</p>
<div class="table">
{table}
</div>
{consistency}
{warnings}
<p>dpinfer {version}, seed {seed}.</p>
</body>
</html>
"""


def _as_html(analysis: Analysis) -> str:
    test = analysis.consistency
    summary = "" if test is None else f"<pre>{html.escape(test.summary())}</pre>"
    return _PAGE.format(
        title=html.escape(analysis.fit.release.name or "release"),
        level=f"{100 * (1 - analysis.alpha):g}",
        method=html.escape(analysis.method),
        table=_rounded(analysis.frame()).to_html(border=0),
        consistency=summary,
        warnings="".join(f"<p>Warning: {html.escape(text)}</p>" for text in analysis.warnings),
        version=_version(),
        seed=analysis.seed,
    )


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates as they stand in a summary; what was not published is left empty."""
    unit = frame[["estimate", "ci_lower", "ci_upper"]].to_numpy(dtype=np.float64).ravel()
    errors = [name for name in frame.columns if name.endswith("std_err")]
    columns = {
        name: format_numbers(frame[name].to_numpy(), None if name in errors else unit)
        for name in frame.columns
    }
    return frame.assign(**columns).mask(frame.isna(), "")


def _version() -> str:
    from dpinfer import __version__

    return __version__


WRITERS: dict[str, Callable[[Analysis], str]] = {
    ".html": _as_html,
    ".csv": _as_csv,
    ".json": _as_json,
}
