"""Where tasks are run: here, or on the workers of joblib, which may be those of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dpinfer._validation import require, show
from dpinfer.errors import InvalidParameterError

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_EXTRA = "distributed"


def count_workers(n_jobs: int | None) -> int:
    """Return how many workers there are, as joblib counts them."""
    if n_jobs == 1:
        return 1
    return int(require("joblib", _EXTRA).effective_n_jobs(n_jobs))


def run_tasks(
    function: Callable[[Task], Answer], tasks: Iterable[Task], n_jobs: int | None
) -> Iterator[Answer]:
    """Yield the answer to each task, in the order of the tasks.

    Tasks are taken one by one, so that they may depend on earlier answers: with one worker on
    all of them, with several on all but those that are under way.

    Parameters
    ----------
    function : callable
        What to do with a task. Workers may be processes: both have to be picklable.
    tasks : iterable
        The tasks.
    n_jobs : int or None
        Number of workers as joblib takes it; 1 does without joblib. Threads, unless
        ``joblib.parallel_config`` chooses another backend.

    Yields
    ------
    object
        ``function(task)``.
    """
    if n_jobs == 1:
        yield from map(function, tasks)
        return
    joblib = require("joblib", _EXTRA)
    try:
        parallel = joblib.Parallel(
            n_jobs=n_jobs, prefer="threads", batch_size=1, return_as="generator"
        )
    except ValueError as error:
        raise InvalidParameterError(
            f"n_jobs = {show(n_jobs)} needs a joblib backend that returns answers one by one, such "
            f"as 'threading', 'loky' or 'dask': {error}"
        ) from error
    yield from parallel(joblib.delayed(function)(task) for task in tasks)
