"""`import dpinfer` stays light: the slow libraries are loaded by the functions that use them."""

import subprocess
import sys

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
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


REGRESSION = {"NoisyRegression", "noisy_ols"}
"""Their results are results of statsmodels, which has to be there."""

USE_ALL = f"import dpinfer; [getattr(dpinfer, name) for name in set(dir(dpinfer)) - {REGRESSION}]"


def test_no_slow_library_is_loaded_until_it_is_needed():
    # the special functions of SciPy before 1.16 load its sparse matrices
    assert not SLOW & (loaded_after(USE_ALL) - loaded_after("import scipy.special"))


def test_import_loads_nothing_but_itself():
    third_party = {name.split(".")[0] for name in loaded_after("import dpinfer")}
    third_party -= set(sys.stdlib_module_names) | loaded_after("pass")
    assert third_party == {"dpinfer", "lazy_loader"}
