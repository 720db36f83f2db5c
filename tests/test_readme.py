"""The figures of the README are what the library computes."""

import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dpi

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def true_size_of_naive_test(nobs, epsilon):
    noise = dpi.Laplace.from_epsilon(epsilon)
    null = dpi.proportions_ztest(0.5, nobs, 0.255, mechanism=noise).null_distribution
    return null.pvalue(1.959963984540054)


@pytest.mark.parametrize(("nobs", "shown"), [(100, "n = 100"), (1000, "n = 1,000")])
def test_table_of_sizes(nobs, shown):
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {shown},")]
    figures = [float(figure) for figure in re.findall(r"([\d.]+) %", row)]
    sizes = [true_size_of_naive_test(nobs, epsilon) for epsilon in (2, 1, 0.5, 0.1)]
    assert figures == [round(100 * size, 1) for size in sizes]


def test_interval_of_the_notebook_example():
    interval = dpi.count_confint(4.2, mechanism=dpi.Laplace.from_epsilon(1), alpha=0.1)
    assert np.round([*interval], 2).tolist() == [1.90, 6.50]


def test_the_notebook_example_runs_as_pasted(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    names = {}
    exec(code, names)
    printed = capsys.readouterr().out
    assert re.search(r"4\.200 +1\.897 +6\.503", printed)
    assert "0.09224" in printed
    assert names["fit"].summary_frame().shape[0] == 7
    assert names["fit"].consistency_test().pvalue > 0.05


def test_names_in_the_table_of_calls_exist():
    table = README[README.index("| you have |") : README.index("[`vignettes/`]")]
    for name in re.findall(r"`([\w.]+)`", table):
        assert attrgetter(name)(dpi), name


def test_rooms_in_the_tour_of_the_house_are_there():
    guide = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = re.findall(r"`(\w+/[\w/]+\.py)`", guide)
    assert len(rooms) > 20
    for room in rooms:
        assert (
            Path(dpi.__file__).with_name(room.split("/")[0]).joinpath(*room.split("/")[1:]).exists()
        )
