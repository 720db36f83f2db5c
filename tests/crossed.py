"""Grids of settings that are thinned where each setting takes long."""

from itertools import product

import pytest


def in_turn(*axes):
    """Every choice from all axes but the last, each with one of the last; the others in a study.

    The one is another for the next choice, so that each meets everything on the other axes.
    """
    found = []
    for places in product(*(range(len(axis)) for axis in axes)):
        chosen = [axis[place] for axis, place in zip(axes, places, strict=True)]
        rest = sum(places) % len(axes[-1])
        found.append(pytest.param(*chosen, marks=[pytest.mark.study] if rest else []))
    return found
