"""Bounds on the tails of sums of noises, beside the exact laws of sums."""

import numpy as np
import pytest

from dpinfer.estimation.bounds import NoiseBound
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap, WeightedSum

LAWS = [
    Laplace(scale=1.0),
    Geometric(scale=5.0),
    Geometric(scale=0.442),
    DiscreteGaussian(sigma=0.6),
    DiscreteGaussian(sigma=4.0),
    Gaussian(sigma=2.0),
    Tulap(scale=1.0),
]


def sums():
    rng = np.random.default_rng(1)
    for law in LAWS:
        yield [1.0], [law]
    for _ in range(12):
        terms = int(rng.integers(2, 6))
        yield (
            rng.choice([1.0, 0.5, 0.3, 0.07], terms),
            [LAWS[at] for at in rng.integers(0, len(LAWS), terms)],
        )


@pytest.mark.parametrize(
    "alpha", [0.05, 1e-4, *(pytest.param(alpha, marks=pytest.mark.slow) for alpha in (0.1, 0.01))]
)
def test_bounds_hold_for_exact_laws(alpha):
    for weights, laws in sums():
        law = WeightedSum(weights, laws)
        std = float(law.std)
        shares = [
            np.array([float(w**2 * one.variance) / std**2])
            for w, one in zip(weights, laws, strict=True)
        ]
        bound = NoiseBound(tuple(laws), tuple(shares))
        (half,), how = bound.half_widths(alpha, np.array([std]))
        assert 2.0 * float(law.sf(half)) <= alpha * (1.0 + 1e-6), (weights, laws, how)
        score = np.array([0.5, 1.0, 2.5, 6.0])
        assert (2.0 * law.cdf(-score * std) <= bound.pvalues(score) * (1.0 + 1e-9)).all()


def test_sums_that_are_nearly_gaussian_are_bounded_nearly_normally():
    many = NoiseBound((Laplace(scale=1.0),), (np.array([0.01]),))
    (half,), how = many.half_widths(0.05, np.ones(1))
    assert 2.15 < half < 2.17
    assert "equal Laplace noises" in how
    (half,), how = many.half_widths(1e-5, np.ones(1))
    assert 4.5 < half < 4.94
    (half,), _ = many.half_widths(0.05, np.ones(1), np.array([1e-3]))
    assert 2.15 < half < 2.155
    whole = NoiseBound((Geometric(scale=5.0),), (np.array([0.01]),))
    assert "Chernoff" in whole.half_widths(0.05, np.ones(1))[1]


def test_shares_of_equal_laws_are_joined():
    law = Laplace(scale=np.array([1.0, 2.0, 1.0]))
    bound = NoiseBound.of([(law, 3, np.array([0.1, 0.2, 0.3]))])
    np.testing.assert_array_equal(bound.laws[0].scale, [1.0, 2.0])
    np.testing.assert_array_equal(bound.shares[0], [0.3, 0.2])


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Laplace, "scale"), (Gaussian, "sigma"), (Geometric, "scale"), (DiscreteGaussian, "sigma")],
)
def test_bounds_of_many_scales_hold_for_each_of_them(kind, name):
    rng = np.random.default_rng(7)
    law, share = kind(**{name: rng.uniform(0.3, 5.0, 300)}), rng.uniform(0.01, 0.9, 300)
    together = NoiseBound((law,), (share,))
    most = max(
        NoiseBound((law.take(np.array([at])),), (share[[at]],)).chernoff(0.01)
        for at in range(0, 300, 3)
    )
    assert most * (1.0 - 1e-12) <= together.chernoff(0.01) <= 1.15 * most
