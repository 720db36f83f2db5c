"""Docstrings of the public names pass the checks of numpydoc, but for those listed here."""

import inspect

import pytest
from public_names import documented, public, public_names

validation = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")

NOT_ASKED_FOR = {
    "ES01": "a summary may say it all",
    "PR04": "arguments of another function are named, without repeating their types",
    "SA01": "few names need a See Also",
    "SA03": "descriptions in See Also are no sentences",
    "SA04": "names in See Also may speak for themselves",
    "SS02": "a summary may start with ε, and RST literals",
    "SS05": "takes McNemar's and bounds for verbs",
    "RT02": "a tuple of results is described by name",
    "RT04": "as SS02, for what is returned",
}
"""Checks of numpydoc that the house does without, and why; all others are made."""

IN_PAIRS = {"poisson_2indep", "proportions_2indep", "optimal_shares"}
"""Functions whose arguments are documented in pairs, such as count1, count2 (no PR03)."""

OF_FILES = {
    "LibraryCertificates",
    "certify_library",
    "from_smartnoise",
    "smartnoise_laws",
    "census_parts",
    "read_marginals_parquet",
    "read_release",
    "validate_release",
    "write_marginals_parquet",
    "write_release",
}
"""What takes files or much time: examples are in the vignettes and the guide (no EX01)."""

PUBLIC = sorted(n for n in documented() if n in public_names() and callable(public(n)))


def checks_left_out(name: str) -> set[str]:
    """Return the codes of the checks that are not made of a name."""
    value = public(name)
    left_out = set(NOT_ASKED_FOR)
    if inspect.isclass(value):
        if issubclass(value, Exception):
            left_out |= {"EX01"}
        if not value.__doc__.count("Parameters\n    ---"):
            # results are made by functions, which have the example; their fields are Attributes
            left_out |= {"EX01", "PR01"}
    if name in IN_PAIRS:
        left_out |= {"PR03"}
    if name in OF_FILES:
        left_out |= {"EX01"}
    return left_out


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_is_valid(name):
    left_out = checks_left_out(name)
    found = validation.validate(f"{public_names()[name]}.{name}")["errors"]
    assert [f"{code}: {text}" for code, text in found if code not in left_out] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_of_methods_are_valid(name):
    value = public(name)
    if not inspect.isclass(value):
        return
    checked = {"GL03", "GL08", "PR02", "SS03"}  # short methods have one line of documentation
    for member, method in inspect.getmembers(value, inspect.isroutine):
        home = getattr(method, "__module__", None) or ""
        if member.startswith("_") or not home.startswith("dpinfer"):
            continue
        found = validation.validate(f"{public_names()[name]}.{name}.{member}")["errors"]
        assert [f"{code}: {text}" for code, text in found if code in checked] == [], member
