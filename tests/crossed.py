"""Grids of settings that are thinned where each setting takes long."""

from itertools import product

import pytest


def in_turn(*axes, every=1):
    """Every choice from all axes but the last, each with one of the last; the others in a study.

    The one is another for the next choice, so that each meets everything on the other axes. Of
    these, one in `every`, where each setting but not each pair of them is to be met.
    """
    found = []
    for places in product(*(range(len(axis)) for axis in axes)):
        chosen = [axis[place] for axis, place in zip(axes, places, strict=True)]
        rest = sum(places) % len(axes[-1]) or sum(places[:-1]) % every
        found.append(pytest.param(*chosen, marks=[pytest.mark.study] if rest else []))
    return found
