"""What the docstrings of plans share: written once, and put in where they say ``%(name)s``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import isfunction, signature
from textwrap import indent
from typing import Any

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def fill(plan: type, texts: Mapping[str, str], quantity: str) -> None:
    """Put texts into the docstrings of a plan of some quantity and of the methods it defines.

    ``%(arguments)s`` is special: it stands for the arguments of a method that solves for one.
    """
    members: list[Any] = [plan, *filter(isfunction, vars(plan).values())]
    for member in members:
        own = dict(texts)
        if member.__name__.startswith("solve_"):
            own["arguments"] = _arguments(member, texts["wanted"], quantity)
        if member.__doc__:
            member.__doc__ = _filled(member.__doc__, own)


def _filled(docstring: str, texts: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: indent(texts[place[2]], place[1]), docstring)


def _arguments(solve: Callable[..., Any], wanted: str, quantity: str) -> str:
    """Describe the arguments of a method that solves for one of them, by its signature."""
    own = [x for x in list(signature(solve).parameters.values())[1:] if x.name != quantity]
    given = " and ".join(f"``{x.name}``" for x in own if x.default is x.empty)
    have = "have" if " and " in given else "has"
    return f"""\
{", ".join(x.name for x in own)}
    As for :meth:`{quantity}`, as single numbers{f"; {given} {have} to be given" * bool(given)}.
{wanted}"""


def mechanism_text(kinds: str, law: str) -> str:
    """Describe the argument ``mechanism``, that is a law of noise or a function of the budget."""
    return f"""\
mechanism : {kinds}
    {law} that makes
    it from a privacy budget, such as :meth:`Laplace.from_epsilon`. With a function ``budget`` is
    one of the arguments."""


MECHANISMS = {
    "mechanism": mechanism_text(
        "NoiseLaw or callable", "The law of the noise in a published count, or a function"
    ),
    "mechanism_of_cells": mechanism_text(
        "NoiseLaw, sequence of NoiseLaw or callable",
        "The law of the noise: one for all counts, or one for each. Or a function",
    ),
    "mechanism_of_values": mechanism_text(
        "NoiseLaw, sequence of NoiseLaw or callable",
        "The law of the noise: one for all values, or one for each. Or a function",
    ),
}
"""Descriptions of the noise by their names, for the plans of all kinds."""
