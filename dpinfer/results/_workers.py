"""Where tasks are run: here, or on the workers of joblib, which may be those of a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Any, Literal, TypeVar

from dpinfer._validation import require, show
from dpinfer.errors import InvalidParameterError

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_EXTRA = "distributed"

_LONG = 3.0
"""Seconds of work for which processes are worth their start: they do not wait for each other."""

_TELLING = 0.2
"""A first task that takes so many seconds tells how long all take; a shorter one warms up."""


def count_workers(n_jobs: int | None) -> int:
    """Return how many workers there are, as joblib counts them."""
    if n_jobs == 1:
        return 1
    return int(require("joblib", _EXTRA).effective_n_jobs(n_jobs))


def run_tasks(
    function: Callable[[Task], Answer],
    tasks: Iterable[Task],
    n_jobs: int | None,
    remaining: Callable[[Task], float],
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
        Number of workers as joblib takes it; 1 does without joblib. Threads for short work and
        processes for long, as the first tasks show, unless ``joblib.parallel_config`` chooses.
    remaining : callable
        ``remaining(task)``: how many times the work of a task is left to do.

    Yields
    ------
    object
        ``function(task)``.
    """
    if n_jobs == 1:
        yield from map(function, tasks)
        return
    workers = _workers(n_jobs, "threads")
    rest = iter(tasks)
    seconds = 0.0
    for task, last in zip(rest, (False, True), strict=False):
        begun = perf_counter()
        answer = function(task)
        seconds = perf_counter() - begun
        yield answer
        if last or seconds > _TELLING:
            break
    else:
        return
    if seconds * remaining(task) > _LONG and _can_be_sent((function, task)):
        workers = _workers(n_jobs, "processes")
    delayed = require("joblib", _EXTRA).delayed(function)
    yield from workers(delayed(task) for task in rest)


def _workers(n_jobs: int | None, prefer: Literal["threads", "processes"]) -> Any:
    """Return workers of that kind, or of the kind that the user has chosen."""
    try:
        return require("joblib", _EXTRA).Parallel(
            n_jobs=n_jobs, prefer=prefer, batch_size=1, return_as="generator"
        )
    except ValueError as error:
        raise InvalidParameterError(
            f"n_jobs = {show(n_jobs)} needs a joblib backend that returns answers one by one, such "
            f"as 'threading', 'loky' or 'dask': {error}"
        ) from error


def _can_be_sent(task: object) -> bool:
    """Whether a task can be sent to another process."""
    try:
        pickle.dumps(task)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True
