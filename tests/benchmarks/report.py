"""Write the figures of the performance page: every part beside what a user would do without it.

``python tests/benchmarks/report.py --output vignettes/about/performance.json``

Times are of the processor, of this process and the ones that it starts, with linear algebra held to
one thread: what else runs on the machine matters little. Ours and theirs run in turn, and the least
of the rounds counts. Answers that should agree are compared before they are timed.
"""

import argparse
import gc
import importlib
import json
import math
import os
import platform
import resource
import shlex
import sys
import tracemalloc
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("dpinfer", "numpy", "scipy", "statsmodels", "dp-accounting")
CLOCK = (
    "seconds of the processor, of the process and those that it starts; linear algebra on one "
    "thread; the least of the rounds, in which ours and theirs run in turn"
)
PART = 8
"""Growth is measured from this part of the size to all of it."""
SHORTEST = 0.02
"""Seconds of one reading of the clock; a shorter call is repeated within it."""


def clock():
    """Return seconds of the processor that this process and its children have had."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def seconds_of(call, times):
    start = clock()
    for _ in range(times):
        call()
    return (clock() - start) / times


def least_seconds(calls, rounds, budget):
    """Return the least seconds of each call, and the rounds that a budget of seconds allowed.

    Every call has two rounds at least, after one that does not count.
    """
    first = [seconds_of(call, 1) for call in calls]
    times = [max(1, math.ceil(SHORTEST / max(one, 1e-6))) for one in first]
    found = [[] for _ in calls]
    gc.collect()
    gc.disable()
    for done in range(rounds):
        for call, repeats, own in zip(calls, times, found, strict=True):
            if done < 2 or sum(own) * repeats < budget:
                own.append(seconds_of(call, repeats))
    gc.enable()
    return [min(own) for own in found], [len(own) for own in found]


def peak_of(call):
    """Return the most bytes that a call holds at a time, of what Python and NumPy ask for.

    None for a call that starts processes, which hold what is theirs.
    """
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    tracemalloc.start()
    try:
        call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak if resource.getrusage(resource.RUSAGE_CHILDREN) == before else None


def exponent_of(one, seconds):
    """Return the power of the size with which time grows up to it; None where the size is small."""
    if one.size < 64:
        return None
    fewer = one.calls(one.size // PART, max(1, one.peer_size // PART))
    (before,), _ = least_seconds([fewer.ours], 5, 1.0)
    return round(math.log(seconds / before) / math.log(PART), 2)


def rounded(value):
    return float(f"{value:.4g}")


def compared(one, rounds, budget):
    """Return a comparison as an entry of the report."""
    calls = one.calls(one.size, one.peer_size)
    if not calls.agree(calls.ours(), calls.theirs()):
        raise ArithmeticError(f"{one.function} and {one.peer} do not agree: {one.what}")
    (ours, theirs), done = least_seconds([calls.ours, calls.theirs], rounds, budget)
    keys = ("part", "function", "what", "peer", "gives", "unit", "size", "peer_size")
    return {key: getattr(one, key) for key in keys} | {
        "seconds": rounded(ours),
        "peer_seconds": rounded(theirs),
        "ratio": rounded(theirs / one.peer_size / (ours / one.size)),
        "rounds": done,
        "exponent": exponent_of(one, ours),
        "peak_bytes": [peak_of(call) for call in (calls.ours, calls.theirs)],
    }


def grown(one, rounds, budget):
    """Return the times of a part by size, with those of other ways."""
    lines = {name: {"sizes": list(sizes), "seconds": []} for name, (_, sizes) in one.ways.items()}
    for size in sorted({size for _, sizes in one.ways.values() for size in sizes}):
        problem = one.problem(size)
        names = [name for name, (_, sizes) in one.ways.items() if size in sizes]
        calls = [lambda way=one.ways[name][0]: way(*problem) for name in names]  # noqa: B023
        for name, seconds in zip(names, least_seconds(calls, rounds, budget)[0], strict=True):
            lines[name]["seconds"].append(rounded(seconds))
    keys = ("function", "what", "unit")
    return {key: getattr(one, key) for key in keys} | {"lines": lines}


def versions():
    """Return the versions of what takes part; None for what is not installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, help="a JSON file to write; printed by default")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: in five minutes")
    parser.add_argument("--only", default="", help="those whose function or text has this in it")
    return parser.parse_args(argv)


def measured(options):
    """Return the report."""
    # imported now, as linear algebra reads its number of threads when it is loaded
    comparisons = importlib.import_module("comparisons").COMPARISONS
    growth = importlib.import_module("growth").GROWTH
    rounds, budget = (7, 1.0) if options.quick else (25, 10.0)

    def chosen(rows):
        return [one for one in rows if options.only in f"{one.function}: {one.what}"]

    found = versions()
    report = {"clock": CLOCK, "versions": found, "comparisons": [], "growth": []}
    for one in chosen(comparisons):
        if one.peer in found and found[one.peer] is None:
            print(f"left out, as {one.peer} is not installed: {one.what}", file=sys.stderr)
            continue
        report["comparisons"].append(compared(one, rounds, budget))
        last = report["comparisons"][-1]
        print(f"{last['ratio']:>10,g}  {one.function}: {one.what} | {one.peer}", file=sys.stderr)
    for one in chosen(growth):
        report["growth"].append(grown(one, rounds, budget))
        print(f"growth of {one.function}", file=sys.stderr)
    return report


def main(argv):
    options = arguments(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    command = shlex.join(["python", "tests/benchmarks/report.py", *argv])
    text = json.dumps({"command": command} | measured(options), ensure_ascii=False, indent=1)
    if options.output:
        options.output.write_text(f"{text}\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
