"""`import dpinfer` stays light: the slow libraries are loaded by the functions that use them."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dpinfer

ROOT = Path(dpinfer.__file__).parent

SLOW = {
    "pandas",
    "scipy.stats",
    "scipy.sparse",
    "statsmodels",
    "matplotlib",
    "pyarrow",
    "jsonschema",
    "joblib",
    "distributed",
    "tqdm",
}


def loaded_after(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


REGRESSION = {"NoisyRegression", "noisy_glm", "noisy_ols"}
"""Their results are results of statsmodels, which has to be there."""

USE_ALL = f"import dpinfer; [getattr(dpinfer, name) for name in set(dir(dpinfer)) - {REGRESSION}]"


def test_no_slow_library_is_loaded_until_it_is_needed():
    # the special functions of SciPy before 1.16 load its sparse matrices
    assert not SLOW & (loaded_after(USE_ALL) - loaded_after("import scipy.special"))


FIRST_TEST = """
import dpinfer as dpi
dpi.proportions_ztest(34.21, 100, 0.255, mechanism=dpi.Laplace(scale=2.0)).pvalue
"""

IDLE = {
    "dpinfer.estimation.unknown_trials",
    "dpinfer.hypothesis_tests._plug_in",
    "dpinfer.mechanisms.weighted_sum",
    "dpinfer.queries.workload",
    "dpinfer.releases.frames",
    "decimal",
    "fractions",
}
"""What one test of one number with one known law does without."""


def test_a_first_z_test_loads_what_it_needs():
    loaded = loaded_after(FIRST_TEST) - loaded_after("import numpy, scipy.special")
    assert not (SLOW | IDLE) & loaded
    others = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert others == {"dpinfer", "lazy_loader"}


def test_import_loads_nothing_but_itself():
    third_party = {name.split(".")[0] for name in loaded_after("import dpinfer")}
    third_party -= set(sys.stdlib_module_names) | loaded_after("pass")
    assert third_party == {"dpinfer", "lazy_loader"}


PACKAGES = sorted(
    ".".join(file.relative_to(ROOT.parent).parts[:-1]) for file in ROOT.rglob("__init__.py")
)


def run_python(code):
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_every_public_package_is_found_from_the_first():
    public = [name for name in PACKAGES if "._" not in name]
    run_python(f"import dpinfer\nfor name in {public}: assert eval(name).__name__ == name")


def test_packages_load_none_of_their_modules():
    """Who imports a module holds its lock and asks for that of its package, never the reverse."""
    loading = f"for name in {PACKAGES}: importlib.import_module(name)"
    names = run_python(f"import sys, importlib\n{loading}\nprint(*sys.modules)")
    assert sorted(name for name in names.split() if name.split(".")[0] == "dpinfer") == PACKAGES


def modules_that(file):
    """Return the modules that a module imports while it is loaded, names looked up in stubs."""
    pending = list(ast.parse(file.read_text("utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpinfer":
            for alias in node.names:
                yield defining(node.module, alias.name)
        elif isinstance(node, ast.ClassDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING"
        ):
            pending += node.body


@cache
def offered(module):
    """Return what a package offers, by the module that it is from; None for a module."""
    folder = ROOT.parent.joinpath(*module.split("."))
    if not (stub := folder / "__init__.pyi").exists():
        return None if folder.with_suffix(".py").exists() else {}
    imports = [node for node in ast.parse(stub.read_text("utf-8")).body if hasattr(node, "module")]
    return {alias.name: node.module for node in imports if node.module for alias in node.names}


def defining(module, name):
    """Return the module that defines a name which a module or a package offers."""
    names = offered(module)
    if names is None:
        return module
    return defining(f"{module}.{names[name]}", name) if name in names else f"{module}.{name}"


def test_modules_import_each_other_in_one_order():
    files = [file for file in ROOT.rglob("*.py") if file.name != "__init__.py"]
    graph = {
        ".".join(file.relative_to(ROOT.parent).with_suffix("").parts): set(modules_that(file))
        for file in files
    }
    assert set().union(*graph.values()) <= {*graph, *PACKAGES, "dpinfer.__version__"}
    list(TopologicalSorter(graph).static_order())  # raises where there is a circle


MEETING = """
import sys, threading, time
from importlib.machinery import SourceFileLoader
import dpinfer, numpy, scipy.special

class Late(SourceFileLoader):
    def create_module(self, spec):
        other.start()
        time.sleep(0.3)  # the other thread takes the lock of the module and waits for ours

class Finder:
    def find_spec(name, path, target=None):
        if name != "dpinfer.estimation":
            return None
        spec = sys.meta_path[-1].find_spec(name, path)
        spec.loader = Late(name, spec.origin)
        return spec

failed = []
def load():
    try:
        import dpinfer.estimation.pivots
    except BaseException as error:
        failed.append(error)

other = threading.Thread(target=load)
sys.meta_path.insert(0, Finder)
import dpinfer.estimation
dpinfer.estimation.combine
other.join()
sys.exit(repr(failed) if failed else 0)
"""


def test_two_threads_that_load_a_package_and_its_module_do_not_wait_for_each_other():
    run_python(MEETING)


CROWD = """
import random, sys, threading
import dpinfer

sys.setswitchinterval(1e-5)
choice = random.Random({seed})
together = threading.Barrier(16)
failed = []
def load(names):
    together.wait()
    try:
        for name in names:
            getattr(dpinfer, name)
    except BaseException as error:
        failed.append(error)

samples = [choice.sample(dpinfer.__all__, 5) for _ in range(16)]
crowd = [threading.Thread(target=load, args=(names,)) for names in samples]
for thread in crowd:
    thread.start()
for thread in crowd:
    thread.join()
sys.exit(repr(failed) if failed else 0)
"""


@pytest.mark.parametrize(
    "seeds",
    [
        range(1),
        pytest.param(range(1, 6), marks=pytest.mark.slow),
        pytest.param(range(6, 16), marks=pytest.mark.study),
    ],
    ids=["few", "many", "more"],
)
def test_threads_that_use_a_fresh_import_load_it_together(seeds):
    for seed in seeds:
        run_python(CROWD.format(seed=seed))


ONE_THREAD = """
import sys, threading, dpinfer

found = set()

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("numpy") and "numpy.typing" not in sys.modules:
            found.add(threading.get_ident())

sys.setswitchinterval(1e-5)
sys.meta_path.insert(0, Watch())
names = ["combine", "count_confint", "Laplace", "Release", "errors", "Intervals", "PureDP"]
meeting = threading.Barrier(len(names))

def use(name):
    meeting.wait()
    getattr(dpinfer, name)

threads = [threading.Thread(target=use, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 1, found
"""


def test_numpy_is_loaded_by_one_thread():
    run_python(ONE_THREAD)
