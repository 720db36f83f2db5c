"""Trees of tables gone through part by part: as in memory, whoever does it and how often."""

import os
import signal
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import (
    NoisyMarginal,
    StructuralZeros,
    TreePart,
    combine_marginals,
    read_marginals_parquet,
    stream_marginals,
    write_marginals_parquet,
)
from dpinfer.estimation._table_fit import problem
from dpinfer.queries import Hierarchy

DOMAIN = dpi.Domain({"sex": ["F", "M"], "race": ["a", "b", "c"], "home": ["x", "y", "z"]})
GROUPINGS = {"group": ("home", {"x": "own", "y": "other", "z": "other"})}
MARGINALS = [(), ("sex",), ("race", "home"), ("home", "race", "sex")]
WANTED = [(), ("race", "sex"), ("sex", "race", "home")]


@dataclass(frozen=True)
class Given:
    """A function that returns what it is given, and may leave a file to say so."""

    hierarchy: object
    marginals: list
    zeros: object = None
    folder: str | None = None
    seconds: float = 0.0

    def __call__(self):
        time.sleep(self.seconds)
        if self.folder is not None:
            name = f"{os.getpid()}-{self.hierarchy.labels[0]}-{time.monotonic_ns()}"
            with open(os.path.join(self.folder, name), "w"):
                pass
        return self.hierarchy, self.marginals, self.zeros


def draw(seed, grouped=False, zeroed=False, exact=True):
    """A random tree of the codes of its units, each with what was published of it."""
    rng = np.random.default_rng(seed)
    codes = ["0"]
    for level in range(3):
        for code in [one for one in codes if len(one) == level + 1]:
            codes += [code + "123456789"[at] for at in range(rng.integers(1, 5))]
    hierarchy = Hierarchy.from_codes(codes)
    truth = pd.Series(dict.fromkeys(codes), dtype=object)
    zeros = []
    leaves = [
        code for code in codes if not any(one.startswith(code) and one != code for one in codes)
    ]
    empty = [code for code in leaves if zeroed and rng.random() < 0.4]
    for code in leaves:
        truth[code] = rng.poisson(5.0, DOMAIN.shape).astype(float)
        if code in empty:
            truth[code][:, :, 1] = 0.0
    for code in sorted(set(codes) - set(leaves), key=len, reverse=True):
        truth[code] = sum(truth[one] for one in codes if one[:-1] == code)
    if empty:
        zeros.append(StructuralZeros({"home": "y"}, units=empty))
    marginals = []
    names = [*MARGINALS, ("group", "sex")] if grouped else MARGINALS
    for number, kept in enumerate(names):
        some = [code for code in codes if kept == names[3] or rng.random() < 0.8] or codes
        rows = []
        for code in some:
            found = truth[code]
            if "group" in kept:
                found = np.stack([found[..., :1].sum(-1), found[..., 1:].sum(-1)], axis=-1)
            axes = [*DOMAIN.attributes[:2], "group" if "group" in kept else "home"]
            gone = tuple(at for at, name in enumerate(axes) if name not in kept)
            left = [name for name in axes if name in kept]
            rows.append(found.sum(axis=gone).transpose([left.index(name) for name in kept]))
        scale = rng.uniform(0.5, 3.0, len(some))
        laws = [
            dpi.Exact() if exact and number < 2 and rng.random() < 0.1 else dpi.Laplace(scale=one)
            for one in scale
        ]
        values = np.array(rows)
        noise = np.array([0.0 if law == dpi.Exact() else 1.0 for law in laws]) * scale
        values = values + rng.laplace(size=values.shape) * noise.reshape((-1, *(1,) * len(kept)))
        marginals.append(NoisyMarginal(kept, values, laws, some))
    return hierarchy, marginals, zeros


def cut(hierarchy, marginals, zeros, nested=True, **options):
    """The parts of a tree of codes: below each unit of depth 1 and, nested, of depth 2."""
    codes = list(hierarchy.labels)
    inner = {code[:-1] for code in codes}
    roots = {"0": [codes[0]]}
    for code in codes:
        if len(code) == 2 or (nested and len(code) == 3 and code in inner):
            roots[code] = [code]
    owner = {code: max((one for one in roots if code.startswith(one)), key=len) for code in codes}
    parts = {}
    for name in roots:
        own = [code for code in codes if owner[code] == name]
        borders = [one for one in roots if owner.get(one[:-1]) == name]
        parent = pd.Series({code: None if code == name else code[:-1] for code in own + borders})
        given = []
        for one in marginals:
            at = [row for row, code in enumerate(one.units) if owner[code] == name]
            if at:
                laws = [one.mechanism[row] for row in at]
                units = [one.units[row] for row in at]
                given.append(NoisyMarginal(one.attributes, one.values[at], laws, units))
        known = [replace(one, units=[u for u in one.units if owner[u] == name]) for one in zeros]
        known = [one for one in known if one.units]
        load = Given(Hierarchy(parent), given, known or None, **options)
        parts[name] = TreePart(load, None if name == "0" else owner[name[:-1]])
    return parts


def assert_as_in_memory(found, whole, wanted=WANTED):
    for names in wanted:
        for method in ("marginal", "marginal_variance"):
            expected = getattr(whole, method)(names)
            own = getattr(found, method)(names)
            assert sorted(own.index) == sorted(expected.index)
            own = own.loc[expected.index]
            if names:
                assert list(own.columns) == list(expected.columns)
            size = 1e-10 * np.abs(expected.to_numpy()).max()
            np.testing.assert_allclose(own, expected, rtol=1e-10, atol=size)


@pytest.mark.thinned("seed", "grouped", "nested", every=3)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("grouped", "zeroed"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("seed", range(3))
def test_parts_give_what_the_whole_gives(seed, grouped, zeroed, nested, tmp_path):
    hierarchy, marginals, zeros = draw(seed, grouped, zeroed)
    options = {"domain": DOMAIN, "groupings": GROUPINGS if grouped else None}
    whole = combine_marginals(marginals, hierarchy, zeros=zeros, **options)
    found = stream_marginals(
        cut(hierarchy, marginals, zeros, nested),
        tmp_path / "work",
        zero_attributes="home" if zeroed else (),
        marginals_wanted=WANTED,
        **options,
    )
    assert_as_in_memory(found, whole)
    units = list(found.top.hierarchy.labels)
    expected = whole.marginal("race", units)
    np.testing.assert_allclose(found.top.marginal("race"), expected, rtol=1e-9)
    with pytest.raises(InvalidParameterError, match="combine_marginals"):
        found.top.consistency_test()


@pytest.mark.parametrize("zeroed", [False, True])
def test_tables_made_when_asked_for_are_those_that_are_held(zeroed):
    for seed in range(4):
        hierarchy, marginals, zeros = draw(seed, True, zeroed)
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.array(hierarchy.labels, dtype=object))
        above = pd.Series(hierarchy.labels.to_numpy(dtype=object)[hierarchy.parent])
        above[hierarchy.parent < 0] = None
        shuffled = Hierarchy(above.set_axis(hierarchy.labels).loc[labels])
        options = {"domain": DOMAIN, "groupings": GROUPINGS, "zeros": zeros}
        fit = combine_marginals(marginals, shuffled, **options)._fit
        part = problem(fit.schema, fit.read, fit.placed, fit.zeros).part(shuffled.tree)
        held, made = fit.solution.tables, part.solve(held=False).tables
        for _ in range(5):
            places = rng.permutation(len(shuffled.tree))[: rng.integers(1, len(shuffled.tree) + 1)]
            wanted = held.at(places)
            size = np.abs(wanted).max()
            np.testing.assert_allclose(made.at(places), wanted, rtol=1e-12, atol=1e-13 * size)


def contents(found):
    return {name: path.read_bytes() for name, path in found.files.items()}


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_workers_write_the_same_files(n_jobs, tmp_path):
    pytest.importorskip("joblib", reason="joblib is not installed")
    parts = cut(*draw(1))
    alone = stream_marginals(parts, tmp_path / "alone", domain=DOMAIN)
    found = stream_marginals(parts, tmp_path / "work", domain=DOMAIN, n_jobs=n_jobs)
    assert contents(alone) == contents(found)


@pytest.mark.slow
def test_a_dask_cluster_of_which_a_worker_is_killed_writes_the_same_files(tmp_path):
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    calls = tmp_path / "calls"
    calls.mkdir()
    options = {"domain": DOMAIN, "groupings": GROUPINGS}
    tree = draw(3, grouped=True)
    alone = stream_marginals(cut(*tree), tmp_path / "alone", **options)
    parts = cut(*tree, folder=str(calls), seconds=0.1)
    killed = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))

        def kill_half_way():
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                done = list(calls.iterdir())
                if len(done) >= 5 and any(f.name.startswith(f"{victim}-") for f in done):
                    os.kill(victim, signal.SIGKILL)
                    killed.append(len(done))
                    return
                time.sleep(0.01)

        killer = threading.Thread(target=kill_half_way)
        killer.start()
        with joblib.parallel_config(backend="dask"):
            found = stream_marginals(parts, tmp_path / "work", n_jobs=-1, **options)
        killer.join()
    assert killed, "the worker ought to have read some parts"
    assert killed[0] < len(parts), "the worker ought to have been killed before the end"
    assert len(list(calls.iterdir())) <= len(parts) + 3  # what it was on was done again
    assert contents(alone) == contents(found)
    assert not list((tmp_path / "work").glob("**/.*"))


@dataclass(frozen=True)
class Failing:
    """A function that fails as long as a file is there."""

    given: Given
    file: str

    def __call__(self):
        if os.path.exists(self.file):
            raise OSError("not now")
        return self.given()


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_restart_does_what_is_left(way, tmp_path):
    calls, folder = tmp_path / "calls", tmp_path / "work"
    calls.mkdir()
    tree = draw(1)
    parts = cut(*tree, folder=str(calls))
    total = 2 * len(parts) - 1
    last = list(parts)[-1]
    broken = tmp_path / "broken"
    failing = {**parts, last: replace(parts[last], load=Failing(parts[last].load, str(broken)))}
    if way == "up":
        broken.touch()
    else:

        @dataclass(frozen=True)
        class FailingTop:
            given: Given

            def __call__(self):
                broken.touch()
                (folder / "kept" / f"{last}.npy").unlink()  # so that it is read again
                return self.given()

        failing["0"] = replace(parts["0"], load=FailingTop(parts["0"].load))
    with pytest.raises(OSError, match="not now"):
        stream_marginals(failing, folder, domain=DOMAIN)
    assert not list(folder.glob("**/.*"))  # nothing half written
    done = len(list(folder.glob("up/*.npy"))) + len(list(folder.glob("estimates/*.parquet")))
    again = way == "down"
    assert len(list(calls.iterdir())) == len(list(folder.glob("up/*.npy"))) + again
    broken.unlink()
    found = stream_marginals(parts, folder, domain=DOMAIN)
    assert len(found.seconds) == total - done
    assert len(list(calls.iterdir())) == len(parts) + again
    again = stream_marginals(parts, folder, domain=DOMAIN)
    assert not again.seconds
    alone = stream_marginals(cut(*tree), tmp_path / "alone", domain=DOMAIN)
    assert contents(alone) == contents(again)


def test_a_folder_belongs_to_one_plan(tmp_path):
    parts = cut(*draw(1))
    stream_marginals(parts, tmp_path / "work", domain=DOMAIN)
    newer = {**parts, "0": replace(parts["0"], version="2")}
    for changed, options in [
        (newer, {}),
        (parts, {"marginals_wanted": [()]}),
        (parts, {"groupings": GROUPINGS}),
        (parts, {"zeros": StructuralZeros({"home": "x"})}),
        (parts, {"unestimable": "nan"}),
    ]:
        with pytest.raises(InvalidParameterError, match="another one"):
            stream_marginals(changed, tmp_path / "work", domain=DOMAIN, **options)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(InvalidParameterError, match="other files"):
        stream_marginals(parts, tmp_path / "other", domain=DOMAIN)
    (tmp_path / "work" / "plan.json").write_text("{")
    with pytest.raises(InvalidParameterError, match="damaged"):
        stream_marginals(parts, tmp_path / "work", domain=DOMAIN)


def test_parts_from_parquet(tmp_path):
    hierarchy, marginals, zeros = draw(2)
    for name, part in cut(hierarchy, marginals, zeros).items():
        tree, given, _ = part.load()
        write_marginals_parquet(tmp_path / "in", name, tree, given, part.parent)
    parts = read_marginals_parquet(tmp_path / "in")
    found = stream_marginals(parts, tmp_path / "out", domain=DOMAIN, marginals_wanted=WANTED)
    assert_as_in_memory(found, combine_marginals(marginals, hierarchy, domain=DOMAIN))


def test_units_that_are_not_exhausted_and_whole_numbers_keep_their_meaning(tmp_path):
    noise = dpi.Gaussian(sigma=2.0)
    rng = np.random.default_rng(1)
    above = Hierarchy(pd.Series({1: None, 2: 1, 3: 1}, dtype=object), not_exhausted=[1])
    below = Hierarchy(pd.Series({2: None, 5: 2, 7: 2}, dtype=object), not_exhausted=[2])
    parent = pd.Series({1: None, 2: 1, 3: 1, 5: 2, 7: 2}, dtype=object)
    values = pd.DataFrame(rng.normal(size=(5, 18)), index=[1, 2, 3, 5, 7], columns=DOMAIN.cells())
    names = DOMAIN.attributes

    def of(units):
        tables = values.loc[units].to_numpy().reshape((-1, *DOMAIN.shape))
        return [NoisyMarginal(names, tables, noise, units)]

    write_marginals_parquet(tmp_path / "in", "top", above, of([1, 3]))
    write_marginals_parquet(tmp_path / "in", "low", below, of([2, 5, 7]), "top")
    found = stream_marginals(
        read_marginals_parquet(tmp_path / "in"), tmp_path / "out", domain=DOMAIN
    )
    whole = combine_marginals(
        of([1, 2, 3, 5, 7]), Hierarchy(parent, not_exhausted=[1, 2]), domain=DOMAIN
    )
    assert_as_in_memory(found, whole, [names])


def test_progress_counts_tasks(tmp_path, capsys):
    parts = cut(*draw(1))
    stream_marginals(parts, tmp_path / "work", domain=DOMAIN, progress=True)
    assert f"{2 * len(parts) - 1:.1f}/{2 * len(parts) - 1:.1f}" in capsys.readouterr().err
