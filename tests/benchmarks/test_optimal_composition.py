"""The exact composition of equal ε-DP mechanisms beside the accountant of ``dp-accounting``.

What is compared: ε at δ = 10⁻⁶. Losses of the accountant are rounded up to its grid.
"""

import numpy as np
import pytest

from dpinfer.privacy import PureDP, compose_optimal

DELTA = 1e-6


def by_dpinfer(epsilon, count):
    return compose_optimal(PureDP(epsilon), count).epsilon_at(DELTA)


def by_dp_accounting(epsilon, count):
    from dp_accounting.pld import privacy_loss_distribution as pld

    # probability 2/(1 + e^ε) of an answer drawn from both at random is a lie half of the time
    law = pld.from_randomized_response(2.0 / (1.0 + np.exp(epsilon)), 2)
    return law.self_compose(count).get_epsilon_for_delta(DELTA)


WAYS = {"dpinfer": by_dpinfer, "dp-accounting": by_dp_accounting}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("epsilon", "count"),
    [(0.1, 100), (0.01, 10_000), pytest.param(0.001, 1_000_000, marks=pytest.mark.slow)],
)
def test_epsilon_of_a_composition(benchmark, way, epsilon, count):
    if way == "dp-accounting":
        pytest.importorskip("dp_accounting")
    benchmark.group = f"ε = {epsilon}, k = {count}"
    found = benchmark(WAYS[way], epsilon, count)
    exact = by_dpinfer(epsilon, count)
    benchmark.extra_info["excess"] = found - exact
    # an accountant is never below the exact value but for its rounding
    assert found >= exact * (1 - 1e-6)
