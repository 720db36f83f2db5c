"""Docstrings of plans are complete, though what they share is written once."""

import inspect

import pytest

import dpinfer
from dpinfer.planning.documentation import fill
from dpinfer.planning.plan import Plan

PLANS = {name: getattr(dpinfer, name) for name in dir(dpinfer) if name.endswith(("Power", "Width"))}


def documented(texts):
    """Return a class whose docstrings have places for texts."""

    class Made:
        """Made.

        %(first)s
        """

        def solve_power(self, *, rate, nobs=None, power=None):
            """Solve.

            %(arguments)s
            """

        def silent(self):
            pass

    fill(Made, texts, "power")
    return Made


def test_texts_are_put_where_they_belong_with_the_indentation_of_the_place():
    made = documented({"first": "a : int\n    A number.", "wanted": "power : float\n    Wanted."})
    assert inspect.getdoc(made) == "Made.\n\na : int\n    A number."
    assert inspect.getdoc(made.solve_power) == (
        "Solve.\n\nrate, nobs\n    As for :meth:`power`, as single numbers; ``rate`` has to be "
        "given.\npower : float\n    Wanted."
    )
    assert made.silent.__doc__ is None


def test_a_place_without_a_text_is_an_error():
    with pytest.raises(KeyError, match="first"):
        documented({"wanted": ""})


def test_all_plans_are_seen():
    assert len(PLANS) == 13
    assert all(issubclass(plan, Plan) for plan in PLANS.values())


@pytest.mark.parametrize("name", PLANS)
def test_public_docstrings_name_every_argument(name):
    plan = PLANS[name]
    methods = [getattr(plan, method) for method in ("power", "width") if hasattr(plan, method)]
    methods += [getattr(plan, m) for m in dir(plan) if m.startswith("solve_")]
    assert len(methods) == 2
    for documented in (plan, *methods):
        text = inspect.getdoc(documented)
        assert "%(" not in text
        _, _, rest = text.partition("Parameters\n----------\n")
        described = rest.partition("\n\n")[0]
        named = {
            argument
            for line in described.splitlines()
            if not line.startswith(" ")
            for argument in line.partition(" : ")[0].split(", ")
        }
        assert named == set(inspect.signature(documented).parameters) - {"self"}, documented
    for method in methods:
        assert "Returns\n-------\n" in inspect.getdoc(method)
        assert "Raises\n------\nInvalidParameterError\n" in inspect.getdoc(method)
