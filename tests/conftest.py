"""What holds for every test: the same draws in every run."""

import itertools

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _unseeded_draws_repeat(monkeypatch):
    """Number the generators made from ``rng=None`` in a test, so that a rerun repeats them."""
    numbers = itertools.count()
    seeded = np.random.default_rng

    def numbered(seed=None):
        return seeded([0x5EED, next(numbers)] if seed is None else seed)

    monkeypatch.setattr(np.random, "default_rng", numbered)
