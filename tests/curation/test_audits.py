"""Attacks on releases: by hand, by formulas of the literature, and never beyond the bound."""

import numpy as np
import pytest
from scipy import special

import dpinfer as dpi
from dpinfer.curation import audit_differences, audit_membership, audit_reconstruction
from dpinfer.datasets import load_anes96
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, Rounded

TABLE = np.array(
    [
        [1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 1],
        [1, 0, 0, 1, 0, 0],
        [0, 1, 0, 0, 1, 0],
        [1, 1, 1, 1, 1, 0],
    ],
    dtype=float,
)
NOISE = dpi.Laplace(scale=2.0)


def test_cells_that_differences_lay_open():
    found = audit_differences(TABLE, mechanism=NOISE, largest=1)
    assert found.groups == ((2,), (5,))
    np.testing.assert_allclose(found.sd, [4.8989794856, 3.6514837167], rtol=1e-10)
    np.testing.assert_allclose(found.weights @ TABLE, np.eye(6)[[2, 5]], atol=1e-12)
    pairs = audit_differences(TABLE, mechanism=NOISE)
    assert {(0, 1), (3, 4)} <= set(pairs.groups)
    assert "lower bound" in pairs.summary()
    assert list(pairs.summary_frame()["success"]) == sorted(pairs.success, reverse=True)


def test_groups_by_brute_force():
    """All groups of up to three cells, by the rank of the queries with each beside them."""
    from itertools import combinations

    rng = np.random.default_rng(3)
    for _ in range(8):
        a = rng.integers(0, 2, (4, 7)).astype(float)
        a = a[a.any(axis=1)]
        rank, wanted = np.linalg.matrix_rank(a), []
        for size in (1, 2, 3):
            for group in combinations(range(7), size):
                t = np.isin(np.arange(7), group).astype(float)
                new = not any(set(g) < set(group) for g in wanted)
                if new and np.linalg.matrix_rank(np.vstack([a, t])) == rank:
                    wanted.append(group)
        found = audit_differences(a, mechanism=NOISE, largest=3)
        assert sorted(found.groups) == sorted(wanted)


@pytest.mark.parametrize(
    "law", [NOISE, dpi.Gaussian(sigma=1.5), dpi.Geometric(scale=2.0), dpi.DiscreteGaussian(sigma=2)]
)
def test_success_is_never_above_what_the_noise_allows(law):
    found = audit_differences(TABLE, mechanism=law)
    assert (found.success <= found.most + 1e-12).all()
    assert (found.success > 0.5).all()


def test_one_bit_by_the_difference_of_two():
    """P(e₁ - e₂ < 1/2) for Laplace noise of scale 2: an error of .4381, at least 1/(1 + e)."""
    found = audit_differences([[1, 1], [1, 0]], mechanism=NOISE, groups=[[0, 1], [0, 1]][1:])
    assert found.groups == ((1,),)
    t = 0.25
    assert found.success[0] == pytest.approx(1 - 0.5 * np.exp(-t) * (1 + 0.5 * t), rel=1e-10)
    alone = audit_differences([[1, 0]], mechanism=dpi.Laplace(scale=1.0))
    assert alone.most[0] == pytest.approx(1 - 0.5 * np.exp(-0.5), rel=1e-9)


def test_best_estimates_with_exact_rows():
    """An exact total takes the noise of one row away; least squares by elimination."""
    law = [Exact(), NOISE, NOISE]
    found = audit_differences([[1, 1], [1, 0], [0, 1]], mechanism=law)
    np.testing.assert_allclose(found.sd, [2.0, 2.0], rtol=1e-10)
    assert found.most.tolist() == [1.0, 1.0]
    none = audit_differences(np.eye(2), mechanism=Exact())
    assert none.success.tolist() == [1.0, 1.0]


def test_embedded_release():
    release = load_anes96().release
    found = audit_differences(release, largest=1)
    assert len(found) == release.workload.shape[1]
    fit = dpi.combine(release)
    np.testing.assert_allclose(
        found.estimate, np.asarray(fit.params)[: len(found)], rtol=1e-9, atol=1e-7
    )
    assert (found.success <= found.most + 1e-12).all()
    assert list(found.summary_frame())[:2] == ["cells", "estimate"]


@pytest.mark.parametrize(("rows", "c"), [(128, 0.25), (128, 0.5), (256, 0.5)])
def test_reconstruction_follows_the_formula(rows, c):
    """Φ(√(m - n)/(4s)): within .03 and 6 standard errors (2e-9 each, 3 of them)."""
    n, rng = 64, np.random.default_rng(5)
    s = c * np.sqrt(n)
    subsets = rng.integers(0, 2, (rows, n))
    found = audit_reconstruction(subsets, mechanism=dpi.Gaussian(sigma=s), reps=30, rng=rng)
    formula = special.ndtr(np.sqrt(rows - n) / (4.0 * s))
    assert abs(found.expected - formula) < 0.03
    assert abs(found.rate - found.expected) < 6.0 * found.mc_error + 1e-3
    assert found.rate < found.most
    assert found.baseline < 0.6


def test_reconstruction_with_little_noise_and_none():
    rng = np.random.default_rng(6)
    subsets = rng.integers(0, 2, (40, 24))
    for method in ("least-squares", "boxed", "integer"):
        found = audit_reconstruction(subsets, mechanism=Exact(), method=method, reps=2, rng=rng)
        assert found.rate == 1.0
        assert found.expected == found.most == 1.0
    few = rng.integers(0, 2, (15, 24))
    whole = audit_reconstruction(few, mechanism=Exact(), method="integer", reps=8, rng=7)
    plain = audit_reconstruction(few, mechanism=Exact(), reps=8, rng=7)
    assert whole.rate > plain.rate
    assert np.isnan(plain.expected)


def test_a_published_table_is_attacked_as_it_is():
    truth = np.array([3, 0, 7, 2])
    queries = np.vstack([np.eye(4), np.ones(4)])
    release = dpi.Release(queries @ truth, mechanism=Exact(), workload=queries)
    found = audit_reconstruction(release, truth=truth, upper=9)
    assert (found.rate, found.reps, found.mc_error) == (1.0, 1, 0.0)
    assert {"Reconstruction", "least-squares"} <= set(found.summary().split())
    with pytest.raises(InvalidParameterError, match="truth must be given"):
        audit_reconstruction(release)


@pytest.mark.parametrize(
    ("n", "m", "sigma", "bound"),
    [(100, 100, None, 1.0), (100, 400, 0.2, 0.2595), (50, 300, 0.5, 0.17)],
)
def test_membership(n, m, sigma, bound):
    """The simulated power within 6 standard errors of the normal law's (2e-9 each, 3 of them)."""
    law = Exact() if sigma is None else dpi.Gaussian(sigma=sigma)
    found = audit_membership(np.full(m, 0.5), n, mechanism=law, rng=1)
    assert abs(found.power - found.expected) < 6.0 * found.mc_error + 0.01
    assert found.power <= found.most
    if sigma is None:
        assert found.expected == pytest.approx(special.ndtr(np.sqrt(m / n) - 1.6448536269514722))
    else:
        mu = np.sqrt(m) / (n * sigma)
        assert found.most == pytest.approx(special.ndtr(mu - 1.6448536269514722), rel=1e-9)
    assert found.most == pytest.approx(bound, abs=0.02)
    assert "Membership" in found.summary()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: audit_differences(np.eye(2)), "mechanism must be given"),
        (
            lambda: audit_differences(dpi.Release([1.5], mechanism=NOISE), mechanism=NOISE),
            "mechanism must be left out",
        ),
        (
            lambda: audit_differences([[1, 1]], mechanism=NOISE, groups=[[1, 0]]),
            "row 0 is not",
        ),
        (lambda: audit_differences(np.eye(2), mechanism=NOISE, groups=[[0, 0]]), "0 and 1"),
        (lambda: audit_differences(np.ones((1, 4000)), mechanism=NOISE), "at most 3,000 cells"),
        (lambda: audit_differences(np.ones((1, 500)), mechanism=NOISE, largest=3), "at most 2"),
        (
            lambda: audit_reconstruction(np.eye(2), mechanism=NOISE, truth=[0, 5]),
            "from 0 to upper = 1",
        ),
        (
            lambda: audit_membership([0.5], 10, mechanism=dpi.Geometric(scale=1.0)),
            "Laplace, Gaussian or Exact",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_a_law_without_a_known_loss_has_no_bound():
    found = audit_differences(np.eye(2), mechanism=Rounded(NOISE))
    assert np.isnan(found.most).all()


def test_queries_in_units_of_their_own_lay_open_the_same():
    total, row, column = np.ones(6), np.repeat([1.0, 0.0], 3), np.tile([1.0, 0.0, 0.0], 2)
    second = np.roll(column, 1)
    queries = np.array([total, row, 1.0 - row, column, second, [1, 1, 1, 1, 1, 0]])
    unit = np.array([1.0, 1e-8, 1e8, 1.0, 30.0, 1e14])
    plain = audit_differences(queries, mechanism=dpi.Laplace(scale=2.0))
    other = audit_differences(queries * unit[:, None], mechanism=dpi.Laplace(scale=2.0 * unit))
    assert other.groups == plain.groups
    np.testing.assert_allclose(other.weights * unit, plain.weights, atol=1e-12)
    for name in ("sd", "success", "most"):
        np.testing.assert_allclose(getattr(other, name), getattr(plain, name), rtol=1e-9)


def test_the_commonest_of_many_values():
    found = audit_reconstruction(
        np.eye(4), mechanism=NOISE, truth=[500, 500, 500, 2], upper=1000, reps=2, rng=1
    )
    assert found.baseline == 0.75


def test_errors_of_one_half_are_ties():
    """A sum estimated as the mean of two: (e₁ + e₂)/2 is 1/2 with a chance of its own."""
    law = dpi.DiscreteGaussian(sigma=0.8)
    rng, x = np.random.default_rng(3), np.arange(-8, 9)
    total = np.add.outer(x, x)
    mass = np.outer(law.pmf(x), law.pmf(x))
    mean = mass[total < 1].sum() + 0.5 * mass[total == 1].sum()
    found = audit_differences([[1, 0], [1, 0], [0, 1]], mechanism=law)
    np.testing.assert_allclose(found.success, [mean, law.cdf(0)], rtol=1e-9)
    for _ in range(20):  # however the weights are rounded, no attack is above the bound
        found = audit_differences(rng.integers(0, 2, (5, 3)), mechanism=law, largest=3)
        assert (found.success <= found.most + 1e-9).all()
