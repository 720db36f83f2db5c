"""Noise on confidential data: what a simulation gives away, and OpenDP's samplers do not."""

import sys
from functools import partial

import numpy as np
import pytest
from scipy import stats

from dpinfer import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Release,
    Tulap,
    normal_mean_confint,
)
from dpinfer.curation import OnlineMultiplicativeWeights, multiplicative_weights, spend_on_error
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, MissingExtraError
from dpinfer.mechanisms import IndependentNoise
from dpinfer.mechanisms.samplers import noise_source
from dpinfer.privacy import ZCDP, ApproxDP, BudgetLedger, PureDP

SWAP = PureDP(50.0, neighbours="replace")
COUNTS, QUERIES = [900, 50, 30, 20], [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
ATTACKED = 4000

CURATORS = {
    "error": partial(spend_on_error, [3, 5], [0, 7], mechanism=Laplace(scale=1.0)),
    "squares": partial(spend_on_error, [3, 5], [0, 7], budget=ZCDP(0.5), measure="squared", clip=3),
    "offline": partial(multiplicative_weights, COUNTS, QUERIES, guarantee=SWAP),
    "online": partial(multiplicative_weights, COUNTS, QUERIES, guarantee=SWAP, form="online"),
    "concentrated": partial(
        multiplicative_weights, COUNTS, QUERIES, guarantee=ZCDP(5.0, neighbours="replace")
    ),
    "one by one": partial(OnlineMultiplicativeWeights, COUNTS, guarantee=SWAP, queries=3),
    "mean": partial(
        normal_mean_confint,
        np.random.default_rng(0).normal(3.0, 1.0, 4000),
        epsilon=2.0,
        std_bounds=(0.1, 10.0),
        mean_bounds=(-50.0, 50.0),
    ),
    "mean without bounds": partial(
        normal_mean_confint,
        np.random.default_rng(0).normal(3.0, 1.0, 4000),
        epsilon=2.0,
        delta=1e-6,
    ),
}


@pytest.fixture
def release():
    pytest.importorskip("opendp", reason="OpenDP is not installed")


def impossible(outputs):
    """Share of the outputs in (-1/4, 1/4) that no float 1 + noise is.

    Where 1 + noise is that small, noise is in [-5/4, -3/4], where floats are 2^-53 apart or more.
    """
    small = outputs[np.abs(outputs) < 0.25]
    # P(small) is .221 under truth 0, .083 under truth 1; below 100 of 4,000 has chance 1e-50
    assert small.size > 100
    return np.mean(np.mod(small * 2.0**53, 1.0) != 0.0)


def outputs_of(truth, sampler, rng=None):
    """Noisy error of a count that is 0 or 1, of which 0 was published."""
    true = np.full(ATTACKED, float(truth))
    found = spend_on_error(
        true, np.zeros(ATTACKED), mechanism=Laplace(scale=1.0), sampler=sampler, rng=rng
    )
    return np.asarray(found.estimate)


def test_the_attack_on_floating_point_noise_succeeds_on_a_simulation():
    # an output that 1 + noise cannot be rules out the truth 1, whatever ε = 1 says
    assert impossible(outputs_of(0, "simulated", rng=1)) > 0.5
    assert impossible(outputs_of(1, "simulated", rng=2)) == 0.0


def test_the_attack_fails_on_a_release(release):
    for truth in (0, 1):
        assert impossible(outputs_of(truth, "opendp")) > 0.5


@pytest.mark.parametrize("curator", CURATORS.values(), ids=CURATORS.keys())
def test_a_simulation_carries_no_guarantee(curator):
    found = curator(rng=1)
    assert found.simulated
    assert found.sampler == "simulated"
    assert found.guarantee is None
    assert found.nominal is not None
    if hasattr(found, "summary"):
        assert "simulat" in found.summary()
        assert found.nominal.neighbours in found.summary() or "differ in" in found.summary()
        assert "no guarantee" in " ".join(found.summary().split())


@pytest.mark.parametrize("curator", CURATORS.values(), ids=CURATORS.keys())
def test_a_release_carries_one_and_draws_nothing_from_numpy(curator, release, monkeypatch):
    nominal = curator(rng=1).nominal

    def forbidden(*_):
        raise AssertionError("a release must not draw from NumPy")

    monkeypatch.setattr(np.random, "default_rng", forbidden)
    found = curator(sampler="opendp")
    assert not found.simulated
    assert found.guarantee == found.nominal == nominal
    if hasattr(found, "summary"):
        assert "no guarantee" not in found.summary()
    if isinstance(found, OnlineMultiplicativeWeights):
        answers = [found.answer(query) for query in QUERIES]
        # missed with a probability of beta = .05 at most; bounded by far more here
        assert np.abs(np.array(answers) - [900, 80, 20]).max() < 20 * found.accuracy


@pytest.mark.parametrize("curator", CURATORS.values(), ids=CURATORS.keys())
def test_a_release_has_no_seed(curator):
    for seed in (1, np.random.default_rng(1)):
        with pytest.raises(InvalidParameterError, match="rng must be None for sampler='opendp'"):
            curator(sampler="opendp", rng=seed)
    with pytest.raises(InvalidParameterError, match="sampler must be one of 'simulated', 'opendp'"):
        curator(sampler="secure")


def test_the_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingExtraError, match=r"dpinfer\[release\]"):
        spend_on_error(3, 0, mechanism=Laplace(scale=1.0), sampler="opendp")


def test_budgets_of_releases(release):
    ledger = BudgetLedger(PureDP(2.0))
    error = spend_on_error(
        3, 0, budget=PureDP(0.5), ledger=ledger, release=PureDP(1.0), sampler="opendp"
    )
    assert error.spent == PureDP(1.5)
    assert ledger.entries[0].name == "error estimate"
    simulated = spend_on_error(3, 0, budget=PureDP(0.5), release=PureDP(1.0), rng=1)
    with pytest.raises(IncompatibleReleaseError, match="simulated and guarantees nothing"):
        _ = simulated.spent


LAWS = [
    Laplace(scale=2.5),
    Gaussian(sigma=2.5),
    Geometric(scale=2.5),
    DiscreteGaussian(sigma=2.5),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_releases_have_the_law_that_they_state(law, release):
    import opendp.prelude as dp

    values = np.repeat([0.0, 7.0], 1500)
    noise = noise_source("opendp", None).add(values, law) - values
    if law.is_integer:
        at = np.arange(-6.0, 7.0)
        counts = [(noise < -6).sum(), *(noise == k for k in at), (noise > 6).sum()]
        counts = np.array([np.sum(one) for one in counts])
        expected = 3000 * np.array([law.sf(6.0), *law.pmf(at), law.sf(6.0)])
        assert stats.chisquare(counts, expected).pvalue > 1e-9
    else:
        assert stats.kstest(noise, law.cdf).pvalue > 1e-9
    # what OpenDP says of its own measurement is what is stated, or less
    from dpinfer.privacy import guarantee_of

    source = noise_source("opendp", None)
    scale = getattr(law, "scale", None) or law.sigma
    gaussian = isinstance(law, (Gaussian, DiscreteGaussian))
    measure = source._measurement(
        "make_gaussian" if gaussian else "make_laplace", float(scale), whole=law.is_integer
    )
    stated = guarantee_of(law, 3.0)
    change = 3 if law.is_integer and not gaussian else 3.0
    most = stated.to_zcdp().rho if gaussian else stated.epsilon
    assert most * (1 - 1e-12) < measure.map(change) <= most
    assert isinstance(measure, dp.Measurement)


def test_mixed_scales_and_laws(release):
    law = IndependentNoise([Laplace(scale=1e-9), Geometric(scale=1e-3), Laplace(scale=1e-6)])
    found = noise_source("opendp", None).add(np.array([1.0, 2.0, 3.0]), law)
    # a Laplace noise of 40 scales has a chance of 4e-18
    np.testing.assert_allclose(found, [1.0, 2.0, 3.0], atol=4e-5)
    assert found[1] == 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spend_on_error(3.5, 0, mechanism=LAWS[0], sampler="opendp"), "be whole numbers"),
        (lambda: spend_on_error(2.0**60, 0, mechanism=LAWS[0], sampler="opendp"), "at most 2"),
        (
            lambda: spend_on_error(3, 0, mechanism=Tulap(scale=1.0), sampler="opendp"),
            "mechanism must be Laplace, Geometric, Gaussian, DiscreteGaussian noise",
        ),
        (
            lambda: spend_on_error([3], [0.5], mechanism=LAWS[0], measure="l1", sampler="opendp"),
            "published must hold whole numbers for sampler='opendp'",
        ),
        (
            lambda: spend_on_error(
                [3], [0], mechanism=LAWS[0], measure="squared", clip=0.5, sampler="opendp"
            ),
            "clip must hold whole numbers for sampler='opendp'",
        ),
        (
            lambda: multiplicative_weights([5, 6], [[0.5, 1]], guarantee=SWAP, sampler="opendp"),
            "workload must count each record as 0 or 1",
        ),
        (
            lambda: OnlineMultiplicativeWeights(
                [5, 6], guarantee=SWAP, queries=1, sampler="opendp"
            ).answer([0.5, 0.25]),
            "query must count each record as 0 or 1",
        ),
        (
            lambda: normal_mean_confint(
                np.arange(1e4), epsilon=1, std=1.0, mean_bounds=(0, 1e9), sampler="opendp"
            ),
            "at most 1048576 bins",
        ),
    ],
)
def test_what_is_not_exact_is_refused(call, message, release):
    with pytest.raises(InvalidParameterError, match=message):
        call()


def test_fractions_that_were_published_are_taken_off_after_the_noise(release):
    error = spend_on_error([3, 5], [0.25, 7.5], mechanism=Geometric(scale=1e-3), sampler="opendp")
    np.testing.assert_array_equal(error.estimate, [2.75, -2.5])


@pytest.mark.thinned("unknown", "delta", every=2)
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_released_intervals_cover_the_mean(unknown, delta, release):
    rng = np.random.default_rng(9)
    known = {} if unknown else {"std": 2.0}
    if delta == 0:
        known |= {"mean_bounds": (-40.0, 60.0)} | ({"std_bounds": (0.5, 8.0)} if unknown else {})
    missed = 0
    for _ in range(30):
        data = rng.normal(5.0, 2.0, 2000)
        lower, upper = normal_mean_confint(
            data, epsilon=1.0, delta=delta, sampler="opendp", **known
        )
        missed += not lower <= 5.0 <= upper
    # of 30 misses of probability .05, 13 or more have a chance of 6e-10
    assert missed < 13


def test_an_attained_accuracy_of_released_answers(release):
    rng = np.random.default_rng(3)
    counts = rng.multinomial(20_000, rng.dirichlet(np.full(16, 0.3))).astype(float)
    queries = rng.integers(0, 2, (20, 16)).astype(float)
    for budget in (PureDP(1.0, neighbours="replace"), ApproxDP(1.0, 1e-6, neighbours="replace")):
        for form in ("offline", "online"):
            missed = 0
            for _ in range(15):
                found = multiplicative_weights(
                    counts, queries, guarantee=budget, form=form, sampler="opendp"
                )
                missed += np.abs(found.answers - queries @ counts).max() > found.accuracy
            # of 15 misses of probability .05, 10 or more have a chance of 3e-10
            assert missed < 10


def test_releases_drawn_with_opendp(release):
    cells, rows = [10, 20, 30], [[1, 1, 1], [0, 1, -2]]
    law = Geometric(scale=1e-3)
    stated = {"epsilon": 1000.0}
    one = Release.draw(cells, mechanism=law, sampler="opendp", guarantee=stated)
    np.testing.assert_array_equal(one.values, cells)
    assert one.guarantee == stated
    two = Release.draw(cells, mechanism=law, workload=rows, sampler="opendp")
    np.testing.assert_array_equal(two.values, [60.0, -40.0])
    for bad, message in (
        ({"workload": [[0.5, 0.5, 1]]}, "workload must hold whole numbers"),
        ({"workload": rows, "histogram": [0.5, 1, 2]}, "histogram must hold whole numbers"),
        ({"workload": rows, "histogram": [2**52, 2**53, 2]}, "answers below 2"),
        ({"histogram": [0.5, 1, 2]}, "must be whole numbers of at most"),
        ({"rng": 1}, "rng must be None"),
        ({"sampler": "simulated", "guarantee": stated}, "guarantee must be left out"),
    ):
        arguments = {"histogram": cells, "mechanism": Laplace(scale=1.0), "sampler": "opendp"} | bad
        with pytest.raises(InvalidParameterError, match=message):
            Release.draw(arguments.pop("histogram"), **arguments)
