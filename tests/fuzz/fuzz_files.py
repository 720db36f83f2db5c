"""Coverage-guided fuzzing of what reads files: sidecars, tables and the command line.

Not part of the tests. In an environment of its own, from the root of the repository::

    pip install atheris -e .
    python tests/fuzz/fuzz_files.py release corpus/release -max_total_time=300 -rss_limit_mb=4096
    python tests/fuzz/fuzz_files.py parquet corpus/parquet -max_total_time=300 -rss_limit_mb=4096
    python tests/fuzz/fuzz_files.py parts corpus/parts -max_total_time=300 -rss_limit_mb=4096
    python tests/fuzz/fuzz_files.py census corpus/census -max_total_time=300 -rss_limit_mb=4096
    python tests/fuzz/fuzz_files.py command corpus/command -max_total_time=300 -rss_limit_mb=4096

The folder holds what was found so far and is filled with valid files first. Anything but an answer
or a ``DPInferError`` stops a run and writes the input to ``crash-…``, to be given instead of the
folder to see it again; so does an input that takes 4 GB or, by ``-timeout=20``, 20 seconds.
"""

import contextlib
import io
import sys
import tempfile
import warnings
from pathlib import Path

import atheris
import pyarrow as pa
from pyarrow import parquet

with atheris.instrument_imports(include=["dpinfer", "jsonschema"]):
    import dpinfer
    from dpinfer.__main__ import main
    from dpinfer.datasets import anes96_path
    from dpinfer.releases import census

BETWEEN = b"\n\0\n"
"""What stands between a table and its sidecar in one input."""

FOLDER = Path(tempfile.mkdtemp(prefix="dpinfer-fuzz-"))
PART = FOLDER / "parts" / "top"
CENSUS = FOLDER / "census" / "State.parquet"
FILES = ("part.json", "units.parquet", "marginal-0.parquet")


def default_sidecar(path):
    """Return where the sidecar of a table is looked for."""
    return path.with_name(path.name + "-metadata.json")


def read(path):
    """Read a release, and list its problems."""
    with contextlib.suppress(dpinfer.DPInferError):
        dpinfer.read_release(path)
        problems = dpinfer.releases.validate_release(path)
        assert not problems, problems


def fuzz_release(data):
    """Read a CSV file and its sidecar."""
    table, _, sidecar = data.partition(BETWEEN)
    path = FOLDER / "table.csv"
    path.write_bytes(table)
    default_sidecar(path).write_bytes(sidecar)
    read(path)


def fuzz_parquet(data):
    """Read a Parquet file and its sidecar."""
    table, _, sidecar = data.partition(BETWEEN)
    path = FOLDER / "table.parquet"
    path.write_bytes(table)
    default_sidecar(path).write_bytes(sidecar)
    read(path)


def fuzz_parts(data):
    """Read a part of a tree of tables."""
    for name, content in zip(FILES, data.split(BETWEEN), strict=False):
        (PART / name).write_bytes(content)
    with contextlib.suppress(dpinfer.DPInferError):
        for part in dpinfer.estimation.read_marginals_parquet(PART.parent).values():
            part.load()


def fuzz_census(data):
    """Read a file of the census that stands for one of a state, and one of its constraints."""
    for kind, content in zip(("DPQuery", "Constraint"), data.split(BETWEEN), strict=False):
        (CENSUS / kind / "State=001" / "part-0.parquet").write_bytes(content)
    root = CENSUS.parent
    for call in (
        lambda: census.census_codes(root, "State"),
        lambda: list(census.read_census_rows(root, product="pl94", queries="total")),
        lambda: census.read_census_measurements(root),
    ):
        with contextlib.suppress(dpinfer.DPInferError):
            call()


def fuzz_command(data):
    """Run the command line: the first line holds its arguments, then the files follow."""
    line, _, files = data.partition(b"\n")
    table, _, sidecar = files.partition(BETWEEN)
    path = FOLDER / "table.csv"
    path.write_bytes(table)
    default_sidecar(path).write_bytes(sidecar)
    words = line.decode("utf-8", "surrogateescape").split()
    if any("/" in word for word in words):  # nothing outside is to be written
        return
    unseen = io.StringIO()
    with (
        contextlib.chdir(FOLDER),
        contextlib.redirect_stdout(unseen),
        contextlib.redirect_stderr(unseen),
    ):
        try:
            status = main(words)
        except SystemExit as stop:  # of argparse
            status = stop.code
    assert status in (0, 2), status


def census_seed():
    """Return a file of measurements and one of constraints."""
    rows = {"geocode": ["001"] * 2, "query_name": ["total_dpq", "hispanic_dpq"]}
    rows |= {"query_shape": [[1, 1, 1, 1], [1, 1, 2, 1]], "value": [[5], [3, 1]]}
    files = (
        rows | {"variance": [2.0, 3.5]},
        {name: cells[:1] for name, cells in rows.items()}
        | {"query_name": ["total_con"], "sign": ["="]},
    )
    contents = []
    for kind, table in zip(("DPQuery", "Constraint"), files, strict=True):
        path = CENSUS / kind / "State=001" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        parquet.write_table(pa.table(table), path, compression="none")
        contents.append(path.read_bytes())
    assert len(list(census.read_census_rows(CENSUS.parent, product="pl94"))) == 2
    return BETWEEN.join(contents)


def seeds():
    """Return valid inputs for each target."""
    table, sidecar = anes96_path(), default_sidecar(anes96_path())
    release = dpinfer.read_release(table)
    path = FOLDER / "table.parquet"
    dpinfer.write_release(release, path)
    queries = dpinfer.Release(
        [1, 2.5], mechanism=dpinfer.Laplace(scale=[1.0, 2.0]), workload=[[1, 1], [1, -1]]
    )
    dpinfer.write_release(queries, FOLDER / "table.csv")
    small = [FOLDER / "table.csv", default_sidecar(FOLDER / "table.csv")]
    totals = dpinfer.Release(
        [1, 3], mechanism=dpinfer.Geometric(scale=2.0), weights=[[1, 0], [1, 1]]
    )
    dpinfer.write_release(totals, FOLDER / "totals.csv")
    shared = BETWEEN.join(
        (FOLDER / name).read_bytes().replace(b"totals.csv", b"table.csv")
        for name in ("totals.csv", "totals.csv-metadata.json")
    )
    units = dpinfer.Hierarchy.from_codes(["4", "44"])
    values = dpinfer.estimation.NoisyMarginal(
        "sex", [[51, 49], [30, 31]], dpinfer.Gaussian(sigma=2.0)
    )
    dpinfer.estimation.write_marginals_parquet(PART.parent, "top", units, [values])
    csv = BETWEEN.join(
        (table.read_bytes(), sidecar.read_bytes().replace(b"anes96.csv", b"table.csv"))
    )
    plain = BETWEEN.join(one.read_bytes() for one in small)
    return {
        "release": [csv, plain, shared],
        "parquet": [BETWEEN.join((path.read_bytes(), default_sidecar(path).read_bytes()))],
        "parts": [BETWEEN.join((PART / name).read_bytes() for name in FILES)],
        "census": [census_seed()],
        "command": [
            line + b"\n" + plain
            for line in (
                b"analyze table.csv --alpha 0.1 --method asymptotic --seed 1 --output r.html",
                b"validate table.csv",
                b"analyze table.csv --output r.csv --output r.json --output r.parquet",
            )
        ],
    }


TARGETS = {
    "release": fuzz_release,
    "parquet": fuzz_parquet,
    "parts": fuzz_parts,
    "census": fuzz_census,
    "command": fuzz_command,
}

if __name__ == "__main__":
    name, *options = sys.argv[1:]
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", dpinfer.DPInferWarning)
    for number, seed in enumerate(seeds()[name]):
        if options and not options[0].startswith("-") and not Path(options[0]).is_file():
            Path(options[0]).mkdir(parents=True, exist_ok=True)
            Path(options[0], f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()
