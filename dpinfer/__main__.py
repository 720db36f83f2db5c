"""The command line: ``dpinfer analyze``, ``dpinfer validate`` and ``dpinfer certify``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpinfer import __version__
from dpinfer._check import check_alpha, one_line
from dpinfer.errors import DPInferError, InvalidParameterError

OK, FAILED = 0, 2


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


def analyze(options: argparse.Namespace) -> int:
    """Print the combined estimates of a release, and write them where asked."""
    from dpinfer.datasets import anes96_path
    from dpinfer.releases import read_release
    from dpinfer.releases.sidecar import default_sidecar
    from dpinfer.reporting import Analysis, check_report_paths, write_reports

    alpha = check_alpha(options.alpha)
    check_report_paths(options.output)
    path = anes96_path() if options.release is None else options.release
    release = read_release(path, options.metadata, max_bytes=options.max_bytes)
    sidecar = options.metadata or default_sidecar(path)
    for output in options.output:
        if os.path.realpath(output) in (os.path.realpath(path), os.path.realpath(sidecar)):
            raise InvalidParameterError(
                f"output must not be a file of the release itself, got {output}"
            )
    analysis = Analysis.of(release, alpha=alpha, method=options.method, seed=options.seed)
    print(analysis.text())
    write_reports(analysis, options.output)
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
        prog="dpinfer", description="Valid inference from differentially private noisy counts."
    )
    parser.add_argument("--version", action="version", version=f"dpinfer {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "analyze",
        help="combine the published values of a release",
        description="Print combined estimates with intervals, and whether the tables agree; for "
        "values with a threshold or a clamp, an interval for each by itself.",
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
    _add_output(command, "also write a report: .html, .csv, .json or .parquet")
    command.set_defaults(run=analyze)

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
