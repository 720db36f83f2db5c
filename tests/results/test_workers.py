"""Where tasks are run: in order, here or by workers, of the kind that the work is worth."""

import sys
import threading

import pytest

from dpinfer.errors import InvalidParameterError, MissingExtraError
from dpinfer.results import simulation as _workers
from dpinfer.results.simulation import count_workers, run_tasks


def square(number):
    return number * number


def seven_left(task):
    return 7.0


@pytest.fixture
def chosen(monkeypatch):
    """Record the kinds of workers that are chosen, and use threads for all."""
    pytest.importorskip("joblib")
    kinds, made = [], _workers._workers

    def record(n_jobs, prefer):
        kinds.append(prefer)
        return made(n_jobs, "threads")

    monkeypatch.setattr(_workers, "_workers", record)
    return kinds


@pytest.mark.parametrize("n_jobs", [1, 2, None])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 9])
def test_answers_come_in_the_order_of_the_tasks(n_jobs, number):
    if n_jobs != 1:
        pytest.importorskip("joblib")
    found = list(run_tasks(square, range(number), n_jobs, seven_left))
    assert found == [k * k for k in range(number)]


@pytest.mark.parametrize(
    ("function", "longest", "kinds"),
    [
        (square, 1e9, ["threads"]),
        (square, 0.0, ["threads", "processes"]),
        (lambda number: number * number, 0.0, ["threads"]),  # which cannot be sent anywhere
    ],
    ids=["short", "long", "long but not to be sent"],
)
def test_processes_are_for_long_work_that_can_be_sent(
    chosen, monkeypatch, function, longest, kinds
):
    monkeypatch.setattr(_workers, "_LONG", longest)
    assert list(run_tasks(function, range(6), 2, seven_left)) == [0, 1, 4, 9, 16, 25]
    assert chosen == kinds


def test_a_long_first_task_tells_enough(chosen, monkeypatch):
    monkeypatch.setattr(_workers, "_TELLING", -1.0)
    here = threading.get_ident()
    ran_in = list(run_tasks(lambda _: threading.get_ident(), range(4), 2, seven_left))
    assert ran_in[0] == here
    assert here not in ran_in[1:]


def test_no_task_is_tried_of_which_the_time_is_known():
    here = threading.get_ident()
    for number in (1, 4):
        ran_in = list(run_tasks(lambda _: threading.get_ident(), range(number), 2, seven_left, 9.0))
        assert len(ran_in) == number
        assert here not in ran_in
    assert not list(run_tasks(square, [], 2, seven_left, 9.0))


def test_one_worker_takes_a_task_when_its_answer_is_asked_for():
    taken = []

    def tasks():
        for number in range(3):
            taken.append(number)
            yield number

    answers = run_tasks(square, tasks(), 1, seven_left)
    assert next(answers) == 0
    assert taken == [0]


def test_what_can_be_sent():
    assert _workers._can_be_sent((square, 3))
    for cannot in (lambda: 3, threading.Lock(), (number for number in range(3))):
        assert not _workers._can_be_sent((cannot, 3))


def test_workers_are_counted_as_joblib_does(monkeypatch):
    joblib = pytest.importorskip("joblib")
    assert count_workers(1) == 1
    assert count_workers(3) == 3
    assert count_workers(-1) == joblib.cpu_count()
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert count_workers(1) == 1
    with pytest.raises(MissingExtraError, match=r"dpinfer\[distributed\]"):
        count_workers(2)


def test_a_backend_that_does_not_stream_is_named():
    joblib = pytest.importorskip("joblib")
    with (
        joblib.parallel_config(backend="multiprocessing", n_jobs=2),
        pytest.raises(InvalidParameterError, match="n_jobs = None needs a joblib backend"),
    ):
        list(run_tasks(square, range(3), None, seven_left))
