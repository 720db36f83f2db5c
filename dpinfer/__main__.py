"""The command line: ``dpinfer analyze``, ``init``, ``explain``, ``validate`` and ``certify``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from dpinfer import __version__
from dpinfer._check import check_alpha, one_line, require
from dpinfer.errors import DPInferError, InvalidParameterError

if TYPE_CHECKING:
    from dpinfer.releases import Release

OK, FAILED = 0, 2

LARGE = 2**20
"""Bytes of a table from which on a bar shows how far the work is."""

STATUS = """\
exit status:
  0  it is done: what was asked is printed and written, the release is valid, the certificates hold
  2  it is not: wrong usage, a release that is not valid or does not allow what was asked, a file
     that cannot be read or written, a certificate that fails; standard error says what
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, or 2 after one line of what is wrong."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may not have every character
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = int(options.run(options))
        print(end="", flush=True)  # which does without an output that is closed
    except BrokenPipeError:  # whoever reads the output has seen enough
        _give_up_output()
        return OK
    except DPInferError as error:
        return _refuse(error)
    except EOFError:
        return _refuse("not all questions were answered; nothing was written")
    except OSError as error:  # the disk that the output goes to is full, say
        _give_up_output()
        return _refuse(f"the output must be writable: {error}")
    return status


def _refuse(what: object) -> int:
    print(f"dpinfer: {one_line(what, most=1000)}", file=sys.stderr)
    return FAILED


def _give_up_output() -> None:
    """Send what is still to be printed nowhere, lest it fails once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


EMBEDDED = """\
No file was named, so this is the release that comes with dpinfer: 944 respondents of the American
National Election Study of 1996 by education, party and vote, in four tables that overlap, each with
noise of its own. Together they satisfy {guarantee}.
"""

READING = """\
How to read this
  estimate, std_err             the best combination of all values, and its standard error
  ci_lower, ci_upper            an interval for the confidential count, with the level in the head
  published, published_std_err  the value as it was published, and the error of its noise alone
  Cells, Rank                   what is unknown, and how much of it the values determine
  Overlapping values            those more than needed: they make the estimates better
  Consistency                   whether the tables disagree by more than their noise explains

Next: dpinfer explain says what was published and what protects it; dpinfer init TABLE describes
a table of your own, and dpinfer analyze TABLE does for it what it did here."""


def analyze(options: argparse.Namespace) -> int:
    """Print the combined estimates of a release, and write them where asked."""
    from dpinfer.releases.sidecar import default_sidecar
    from dpinfer.releases.tables import check_table_path
    from dpinfer.reporting import Analysis, check_report_paths, write_reports
    from dpinfer.reporting.explanation import guarantee_in_words
    from dpinfer.reporting.report import chosen, rendered

    alpha = check_alpha(options.alpha)
    check_report_paths(options.output)
    path = check_table_path(_table(options))
    sidecar = options.metadata or default_sidecar(path)
    for output in options.output:
        if os.path.realpath(output) in (os.path.realpath(path), os.path.realpath(sidecar)):
            raise InvalidParameterError(
                f"output must not be a file of the release itself, got {output}"
            )
    with _stages(path, ("reading", "combining", "intervals")) as stage:
        stage()
        release = chosen(_read(options), options.where, options.by)
        stage()
        analysis = Analysis.of(
            release,
            alpha=alpha,
            method=options.method,
            seed=options.seed,
            target=options.target or None,
            by=options.by,
        )
        stage()
        text = rendered(analysis, options.format)
    plain = options.release is None and options.format == "text"
    if plain:
        print(EMBEDDED.format(guarantee=guarantee_in_words(release)))
    print(text)
    if plain:
        print(f"\n{READING}")
    write_reports(analysis, options.output)
    return OK


def explain(options: argparse.Namespace) -> int:
    """Say in plain words what was published, with what noise, and what that protects."""
    from dpinfer.reporting.explanation import explanation

    print(explanation(_read(options)))
    name = "" if options.release is None else f" {quote(str(options.release))}"
    print(f"\nNext: {one_line(f'dpinfer analyze{name}', 1000)}")
    return OK


def _table(options: argparse.Namespace) -> Path:
    from dpinfer.datasets import anes96_path

    return anes96_path() if options.release is None else Path(options.release)


def _read(options: argparse.Namespace) -> Release:
    from dpinfer.releases import read_release

    return read_release(_table(options), options.metadata, max_bytes=options.max_bytes)


@contextmanager
def _stages(path: Path, names: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Yield what begins the next stage, with a bar on a terminal where the table is large."""
    large = os.path.isfile(path) and os.path.getsize(path) > LARGE
    if not (large and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm import tqdm

    left = list(names)
    form = "{desc:12} {bar} {n_fmt}/{total_fmt} {elapsed}"
    with tqdm(total=len(names), leave=False, bar_format=form) as bar:

        def begin() -> None:
            bar.update(len(left) < len(names))
            bar.set_description(left.pop(0))

        yield begin


def init(options: argparse.Namespace) -> int:
    """Write the sidecar of a table from options, answers and what the table says by itself."""
    from dpinfer.reporting.description import (
        READERS,
        Answers,
        Columns,
        check_new,
        option_text,
        write_description,
    )

    table, place = check_new(options.release, options.metadata, force=options.force)
    answers = Answers(Columns.of(table, options.max_bytes), {})
    for entry in READERS:
        if (text := getattr(options, entry)) is not None:
            answers.take(entry, text)
    asked = sys.stdin is not None and sys.stdin.isatty()
    if asked:
        try:
            answers.ask(input, print)
        except KeyboardInterrupt:  # Ctrl-C is an end, as Ctrl-D is
            raise EOFError from None
    else:
        answers.fill()
    if wanted := answers.unknown():
        raise InvalidParameterError(f"these must be given: {'; '.join(wanted)}")
    problems = write_description(table, place, answers.descriptor(), options.max_bytes)
    for problem in problems:
        _refuse(problem)
    if asked:
        print(f"Without questions: {one_line(answers.command(), 1000)}")
    if problems:
        return FAILED
    print(f"{one_line(place.name)}: written, valid with {one_line(table.name)}")
    for entry, value in answers.known.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if isinstance(value, dict):
            shown = f"the column {value['column']}" if "column" in value else option_text(value)
        print(f"  {entry:12} {one_line(shown)}")
    print(f"Next: dpinfer explain {quote(str(options.release))}")
    return OK


def validate(options: argparse.Namespace) -> int:
    """Print what is wrong with a release's files, a line a problem."""
    from dpinfer.releases import validate_release

    problems = validate_release(options.release, options.metadata, max_bytes=options.max_bytes)
    for problem in problems:
        _refuse(problem)
    if problems:
        return FAILED
    print(f"{one_line(options.release.name)}: valid")
    return OK


def certify(options: argparse.Namespace) -> int:
    """Certify the library by simulation; fails where one of its procedures fails."""
    from dpinfer.calibration import certify_library, check_certificates_path, write_certificates

    for output in options.output:
        check_certificates_path(output)
    found = certify_library(
        options.grid, rng=options.seed, n_jobs=options.jobs, progress=sys.stderr.isatty()
    )
    print(found)
    for output in options.output:
        write_certificates(found, output)
    return FAILED if found.verdict == "fails" else OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpinfer",
        description="Valid inference from differentially private noisy counts.",
        epilog=STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpinfer {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=["bash", "zsh", "tcsh"],
        help="print what completes commands in a shell (extra: completion)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "analyze",
        help="combine the published values of a release",
        description="Print combined estimates with intervals, and whether the tables agree; for "
        "values with a threshold, a clamp, steps or bins, an interval for each by itself, or with "
        "--by for sums of them.",
    )
    _add_files(command, nargs="?", help="CSV or Parquet table (default: the embedded release)")
    command.add_argument(
        "--alpha", type=float, default=0.05, help="one minus the confidence level (default: 0.05)"
    )
    command.add_argument(
        "--method",
        choices=["exact", "asymptotic", "tail-bound"],
        default="exact",
        help="how the intervals are made (default: exact)",
    )
    command.add_argument(
        "--seed", type=int, default=0, help="seed of the simulated null distribution (default: 0)"
    )
    command.add_argument(
        "--where",
        metavar="CONDITION",
        help='use only values whose labels meet a condition, such as "year >= 2020"',
    )
    command.add_argument(
        "--by",
        metavar="LEVELS",
        help="analyze sums of values for each label of these levels, with commas between",
    )
    command.add_argument(
        "--target",
        metavar="LABEL",
        action="append",
        default=[],
        help="estimate only this value, cell or sum of cells: the parts of its label with commas "
        "between, * where it is summed over; may be given several times",
    )
    command.add_argument(
        "--format",
        choices=["text", "csv", "json", "html", "markdown", "latex"],
        default="text",
        help="what is printed (default: text)",
    )
    _add_output(command, "also write a report: .html, .csv, .json or .parquet")
    command.set_defaults(run=analyze)

    command = commands.add_parser(
        "explain",
        help="say in plain words what was published, and what protects it",
        description="Say in plain words what a release holds, how large its noise is, and what "
        "somebody who sees it can find out about one person or record.",
    )
    _add_files(command, nargs="?", help="CSV or Parquet table (default: the embedded release)")
    command.set_defaults(run=explain)

    command = commands.add_parser(
        "init",
        help="describe a published table in a JSON sidecar",
        description="Write the JSON sidecar of a table, which says how its numbers were protected. "
        "Asks for what is not given, if it runs in a terminal; elsewhere it takes what the columns "
        "say by themselves, and says what is missing. Writes nothing that is not valid.",
    )
    _add_files(command, help="CSV or Parquet table")
    for name, what in {
        "value": "column of noisy values",
        "labels": "columns that label the rows, with commas between",
        "mechanism": "laplace, geometric, gaussian, discrete_gaussian, tulap, exact, or a column",
        "epsilon": "ε of laplace or geometric noise, of all values together",
        "rho": "ρ of gaussian or discrete_gaussian noise, of all values together",
        "mu": "μ of gaussian noise, of all values together",
        "sensitivity": "how far one unit moves all values together: L1 with ε, L2 with ρ or μ",
        "scale": "scale of laplace, geometric or tulap noise, or a column",
        "sigma": "σ of gaussian or discrete_gaussian noise, or a column",
        "rounding": "yes if the noisy values were rounded to whole numbers, no if not, or the step "
        "to the nearest multiple of which they were; 5,down, 5,up or 5,toward zero for another way",
        "bin-size": "number to a multiple of which counts were rounded up before the noise; "
        "8,nearest and 8,down say another way",
        "threshold": "bound below which values were not published, or a column",
        "clamp": "bounds into which noisy values were moved: 0, or 0,100, or columns",
        "unit": "what is protected, such as person, household or user-day",
        "neighbours": "add-remove or replace",
        "name": "a name for the release",
        "title": "a title",
    }.items():
        command.add_argument(f"--{name}", metavar=name.upper().replace("-", "_"), help=what)
    command.add_argument("--force", action="store_true", help="replace a sidecar that is there")
    command.set_defaults(run=init)

    command = commands.add_parser("validate", help="check a release and its sidecar")
    _add_files(command, help="CSV or Parquet table")
    command.set_defaults(run=validate)

    command = commands.add_parser(
        "certify",
        help="simulate the coverage and size of the library's own intervals and tests",
        description="Print certificates of intervals and tests; exits with 2 where one fails.",
    )
    command.add_argument(
        "--grid",
        choices=["small", "full"],
        default="small",
        help="settings: small takes seconds, full far longer (default: small)",
    )
    command.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    command.add_argument("--jobs", type=int, default=1, help="number of workers (default: 1)")
    _add_output(command, "also write them: .json or .csv")
    command.set_defaults(run=certify)
    return parser


class _Completion(argparse.Action):
    """Prints the completion of a shell and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        try:
            print(require("shtab", "completion").complete(parser, given[1]))
        except DPInferError as error:
            parser.exit(_refuse(error))
        parser.exit(OK)


def _add_files(command: argparse.ArgumentParser, **settings: Any) -> None:
    command.add_argument("release", type=Path, metavar="RELEASE", **settings)
    command.add_argument(
        "--metadata",
        type=Path,
        metavar="FILE",
        help="JSON sidecar (default: RELEASE followed by -metadata.json)",
    )
    command.add_argument(
        "--max-bytes",
        type=int,
        metavar="N",
        help="most bytes that the table may take when it is decompressed and read (default: 256 "
        "MB, or 100 times the size of the file)",
    )


def _add_output(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help=f"{what}; may be given several times",
    )


if __name__ == "__main__":
    sys.exit(main())
