"""(α, β)-usefulness by formula, by simulation, and by brute force."""

from contextlib import suppress

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.curation import usefulness
from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    IndependentNoise,
    Laplace,
    Tulap,
)
from dpinfer.queries import Workload

LAWS = [
    Laplace(scale=2.0),
    Geometric(scale=2.0),
    Gaussian(sigma=3.0),
    DiscreteGaussian(sigma=3.0),
    Tulap(scale=2.0),
]


@pytest.mark.parametrize("queries", [1, 3, 10**6, 10**12])
@pytest.mark.parametrize("beta", [1e-12, 0.05, 0.9])
def test_laplace_noise_in_closed_form(queries, beta):
    with mpmath.workdps(60):
        share = 1 - (1 - mpmath.mpf(beta)) ** (mpmath.mpf(1) / queries)
        exact = -2 * mpmath.log(share)
        union = 2 * mpmath.log(queries / mpmath.mpf(beta))
    law = Laplace(scale=2.0)
    found = usefulness(law, queries=queries, beta=beta)
    assert found.alpha == pytest.approx(float(exact), rel=1e-12)
    assert found.beta == pytest.approx(beta, rel=1e-9)
    bound = usefulness(law, queries=queries, beta=beta, method="union")
    assert bound.alpha == pytest.approx(float(union), rel=1e-12)
    assert bound.alpha >= found.alpha


@pytest.mark.parametrize("law", LAWS)
def test_alpha_is_the_smallest(law):
    for queries, beta in ((1, 0.1), (7, 0.05), (1000, 1e-9)):
        for method in ("exact", "union"):
            alpha, attained = usefulness(law, queries=queries, beta=beta, method=method)
            assert attained <= beta * (1 + 1e-9)
            step = 1.0 if law.is_integer else 1e-6 * alpha
            fewer = usefulness(law, queries=queries, alpha=alpha - step, method=method)
            assert fewer.beta > beta
            assert fewer.queries == queries


@pytest.mark.parametrize("law", LAWS)
def test_simulation_agrees(law):
    reps = 40_000
    alpha, beta = usefulness(law, queries=5, beta=0.1)
    found = usefulness(law, queries=5, alpha=alpha, method="monte-carlo", reps=reps, rng=1)
    # six standard errors of a share, and one replicate
    assert found.beta == pytest.approx(beta, abs=6 * np.sqrt(beta / reps) + 1 / reps)
    assert found.mc_error == pytest.approx(np.sqrt(found.beta * (1 - found.beta) / reps))
    other = usefulness(law, queries=5, beta=0.1, method="monte-carlo", reps=reps, rng=2)
    tail = usefulness(law, queries=5, alpha=other.alpha).beta
    below = usefulness(law, queries=5, alpha=other.alpha - law.is_integer).beta
    assert tail <= 0.1 + 6 * 0.3 / np.sqrt(reps)
    assert below >= 0.1 - 6 * 0.3 / np.sqrt(reps)


@pytest.mark.parametrize(
    "laws",
    [
        [Laplace(scale=1.0), Laplace(scale=4.0), Gaussian(sigma=2.0)],
        [Geometric(scale=1.0), DiscreteGaussian(sigma=2.0)],
        [Geometric(scale=1.0), Laplace(scale=3.0), Exact()],
    ],
)
def test_answers_with_noises_of_their_own(laws):
    for method in ("exact", "union"):
        alpha, beta = usefulness(laws, beta=0.1, method=method)
        tails = [2 * law.sf(alpha) for law in laws]
        expected = sum(tails) if method == "union" else 1 - np.prod([1 - tail for tail in tails])
        assert beta == pytest.approx(expected, rel=1e-12)
        assert beta <= 0.1
        below = usefulness(laws, alpha=alpha * (1 - 1e-7), method=method)
        assert below.beta > 0.1
    assert usefulness(IndependentNoise(laws), beta=0.1) == usefulness(laws, beta=0.1)
    known = usefulness([Geometric(scale=1.0), Exact()], beta=0.1)
    assert tuple(known) == tuple(usefulness(Geometric(scale=1.0), beta=0.1))
    single = usefulness(Laplace(scale=[3.0]), beta=0.1)
    assert single.alpha == pytest.approx(3.0 * np.log(10.0), rel=1e-15)
    array = usefulness(Laplace(scale=[1.0, 4.0]), beta=0.1)
    assert array.queries == 2
    assert usefulness(Laplace(scale=3.0), beta=0.1).queries == 1


def test_queries_of_noisy_cells():
    law = Geometric(scale=1.0)
    matrix = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]])
    # all values of three noises within ±40, whose tails are below 1e-17
    k = np.arange(-40, 41)
    pmf = law.pmf(k)
    joint = pmf[:, None, None] * pmf[:, None] * pmf
    cells = np.stack(np.meshgrid(k, k, k, indexing="ij"), axis=-1)
    errors = np.abs(cells @ matrix.T)
    largest = errors.max(axis=-1)
    for alpha in (2.0, 5.0, 9.0):
        exact = joint[largest > alpha].sum()
        union = sum(joint[errors[..., row] > alpha].sum() for row in range(3))
        bound = usefulness(law, workload=Workload(matrix), alpha=alpha)
        assert bound.method == "union"
        assert bound.beta == pytest.approx(min(union, 1.0), abs=1e-12)
        found = usefulness(
            law, workload=matrix, alpha=alpha, method="monte-carlo", reps=50_000, rng=1
        )
        # six standard errors
        assert found.beta == pytest.approx(exact, abs=6 * np.sqrt(exact / 50_000) + 2e-5)
    found = usefulness(law, workload=matrix, beta=0.05)
    assert found.alpha == np.rint(found.alpha)
    assert usefulness(law, workload=matrix, alpha=found.alpha - 1).beta > 0.05


def test_any_mechanism_by_simulation():
    rng = np.random.default_rng(1)

    def rounded(generator):
        return np.maximum(Laplace(scale=1.0).rvs((4,), rng=generator), -2.0)

    found = usefulness(rounded, beta=0.1, reps=2000, rng=rng)
    assert (found.queries, found.method) == (4, "monte-carlo")
    # above -2 only the upper tail is left: 1 - (1 - e^-α/2)^4 = 0.1 for α > 2
    tail = 1 - (1 - 0.5 * np.exp(-found.alpha)) ** 4
    assert tail == pytest.approx(0.1, abs=6 * 0.3 / np.sqrt(2000))
    assert usefulness(rounded, alpha=100.0, reps=99, rng=rng).beta == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of alpha and beta must be given, got none"),
        ({"alpha": 1.0, "beta": 0.1}, "exactly one of alpha and beta must be given, got both"),
        ({"alpha": -1.0}, "alpha must be >= 0"),
        ({"beta": 1.0}, "beta must be < 1"),
        ({"beta": 0.1, "queries": 0}, "queries must be >= 1"),
        ({"beta": 0.1, "method": "x"}, "method must be one of"),
        ({"beta": 0.1, "workload": np.eye(2), "method": "exact"}, "dependent errors"),
        ({"beta": 0.1, "workload": np.eye(2), "queries": 2}, "queries must be left out"),
        ({"beta": 0.1, "mechanism": "laplace"}, "mechanism must be"),
        ({"beta": 0.1, "mechanism": lambda rng: [1.0], "queries": 2}, "function of a generator"),
        ({"beta": 0.1, "mechanism": lambda rng: [np.nan]}, "the errors must not contain NaN"),
        ({"beta": 0.001, "method": "monte-carlo", "reps": 100}, "reps must be at least .* = 999"),
        ({"beta": 0.1, "queries": 10**9, "method": "monte-carlo"}, "queries must be at most 1e7"),
        ({"beta": 0.1, "mechanism": Laplace(scale=[1.0, 2.0]), "queries": 3}, "one law for all"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        usefulness(**{"mechanism": Laplace(scale=1.0), **arguments})


ANYTHING = st.one_of(st.none(), st.text(max_size=2), st.floats(), st.lists(st.floats(), max_size=3))


@settings(derandomize=True, deadline=None, max_examples=37)
@given(
    law=st.sampled_from([*LAWS, None, 3, Exact(), Laplace(scale=[1e-50, 1e50])]),
    alpha=st.one_of(st.none(), st.floats()),
    beta=st.one_of(st.none(), st.floats(0, 1)),
    queries=st.one_of(st.none(), st.integers(-1, 10**13)),
    workload=ANYTHING,
    method=st.sampled_from(["exact", "union", "monte-carlo", None]),
)
def test_only_own_errors_escape(law, alpha, beta, queries, workload, method):
    for asked in (None, workload):
        with suppress(DPInferError):
            found = usefulness(
                law,
                alpha=alpha,
                beta=beta,
                queries=None if queries == 10**13 else queries and min(queries, 1000),
                workload=asked,
                method=method,
                reps=50,
                rng=1,
            )
            assert 0 <= found.beta <= 1
            assert found.alpha >= 0
