"""Certificates: right intervals and tests hold, wrong ones fail, and the seed gives them again.

The seeds are fixed. With others a right procedure would fail with probability at most 1e-3, and be
left undecided with probability 1e-2, as the verdict says of itself.
"""

import contextlib
import json
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpinfer as dpi
from dpinfer import DPInferError
from dpinfer.calibration import Certificates, certify, certify_interval, certify_model, certify_test
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.hypothesis_tests import Binomial, Multinomial, Poisson

LAPLACE = dpi.Laplace(scale=4.0)
WORKLOAD = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])


def count(y, noise=LAPLACE, alpha=0.05, method="exact"):
    return dpi.count_confint(y, mechanism=noise, alpha=alpha, method=method)


def ignorant(y):
    """An interval that takes a published Poisson count as if it had no noise."""
    half = 1.96 * np.sqrt(np.maximum(y, 1.0))
    return y - half, y + half


quick = partial(certify_interval, margin=0.2, rng=1)


def test_right_interval_holds():
    found = quick(count, 40, LAPLACE, beside=partial(count, method="asymptotic"))
    assert found.verdict == "holds"
    # 6 standard errors: by accident below 2e-9
    assert abs(found.rate[0] - 0.95) <= 6 * found.mc_error[0]
    normal = 1 - 2 * LAPLACE.sf(stats.norm.isf(0.025) * LAPLACE.std)
    assert abs((1 - found.beside_error_rate[0]) - normal) <= 6 * found.mc_error[0]
    np.testing.assert_allclose(found.mean_width, 2 * LAPLACE.isf(0.025))
    np.testing.assert_allclose(found.beside_width, 2 * stats.norm.isf(0.025) * LAPLACE.std)
    low, high = found.bounds()
    errors = round(found.error_rate[0] * found.reps[0])
    test = stats.binomtest(found.reps[0] - errors, found.reps[0])
    exact = test.proportion_ci(1 - 2e-3, method="exact")
    np.testing.assert_allclose([low[0], high[0]], [exact.low, exact.high], rtol=1e-9)
    assert found.limit == pytest.approx(0.94)


def test_interval_that_ignores_the_noise_fails():
    found = quick(ignorant, Poisson(rate=30.0), LAPLACE, target=30.0)
    assert found.verdict == "fails"
    assert found.bounds()[1][0] < 0.94
    assert found.procedure == "ignorant"


def test_interval_that_is_wrong_by_less_than_the_margin_holds_within_it():
    noise = dpi.Gaussian(sigma=3.0)
    half = stats.norm.isf(0.0525) * 3.0  # misses 10.5 % at alpha = 0.1
    found = certify_interval(
        lambda y: (y - half, y + half), 0.0, noise, alpha=0.1, margin=0.2, rng=3
    )
    assert found.verdict == "holds"
    half = stats.norm.isf(0.065) * 3.0
    found = certify_interval(
        lambda y: (y - half, y + half), 0.0, noise, alpha=0.1, margin=0.2, rng=3
    )
    assert found.verdict == "fails"


def test_too_few_replicates_are_undecided():
    assert quick(count, 40, LAPLACE, reps=50).verdict == "undecided"


def test_a_conservative_interval_needs_no_margin():
    wide = certify_interval(
        partial(count, alpha=0.01), 5, LAPLACE, alpha=0.01, margin=1.0, reps=2000, rng=1
    )
    assert wide.alpha == 0.01
    bound = partial(dpi.count_confint, mechanism=LAPLACE, method="tail-bound")
    found = certify_interval(
        lambda y: bound(y), [5.0, 6.0], LAPLACE, margin=0.0, reps=4000, rng=1, one_by_one=True
    )
    assert found.verdict == "holds"
    assert found.labels == ("0", "1")


def test_population_parameter_and_functions_of_the_counts():
    model = Binomial(nobs=60, value=0.3)
    found = quick(
        lambda y: dpi.proportion_confint(y, 60, mechanism=LAPLACE), model, LAPLACE, target=0.3
    )
    assert found.verdict == "holds"
    # a sum of counts that are drawn anew, and its interval by the noise alone
    law = dpi.WeightedSum([1.0, 1.0], LAPLACE)
    half = law.isf(0.025)

    def of_sums(y):
        return y.sum(axis=1) - half, y.sum(axis=1) + half

    table = Multinomial(nobs=50, value=[0.5, 0.5])
    found = quick(of_sums, table, LAPLACE, target=lambda counts: counts.sum(axis=1))
    assert found.verdict == "holds"


def test_one_by_one_is_the_same():
    many = quick(count, [3.0, 9.0], LAPLACE, reps=500)
    single = quick(count, [3.0, 9.0], LAPLACE, reps=500, one_by_one=True)
    np.testing.assert_array_equal(many.rate, single.rate)
    np.testing.assert_allclose(many.mean_width, single.mean_width)
    one = quick(count, 3.0, LAPLACE, reps=500, one_by_one=True)
    np.testing.assert_array_equal(one.rate, quick(count, 3.0, LAPLACE, reps=500).rate)


def test_together():
    joint = partial(dpi.count_confint, mechanism=LAPLACE, simultaneous=True)
    found = quick(
        lambda y: joint(y), [0.0, 0.0, 0.0], LAPLACE, one_by_one=True, together=True, reps=1500
    )
    assert found.rate.shape == (1,)
    assert abs(found.rate[0] - 0.95) <= 6 * np.sqrt(0.95 * 0.05 / 1500)


def test_coverage_given_publication():
    noise = dpi.Geometric(scale=10.0)
    by_rule, naive = (
        partial(dpi.count_confint, mechanism=noise, threshold=90, method=method)
        for method in ("exact", "naive")
    )
    found = quick(by_rule, 70, noise, threshold=90, beside=naive, beside_name="rule ignored")
    assert found.verdict == "holds"
    e = np.arange(20, 400)
    half = noise.isf(0.025)
    expected = noise.pmf(e[e <= half]).sum() / noise.pmf(e).sum()
    spread = np.sqrt(expected * (1 - expected) / found.reps[0])
    assert abs(1 - found.beside_error_rate[0] - expected) <= 6 * spread
    assert found.beside == "rule ignored"
    with pytest.raises(NotEstimableError, match="nothing was published"):
        quick(by_rule, 70, dpi.Geometric(scale=0.1), threshold=90, reps=100)


def test_tests_of_counts():
    null = Poisson(rate=25.0)
    right = certify_test(
        lambda y: dpi.poisson_ztest(y, 1, 25.0, mechanism=LAPLACE),
        null,
        LAPLACE,
        margin=0.2,
        rng=1,
        beside=lambda y: 2 * stats.norm.sf(np.abs(y - 25) / 5),
        beside_name="noise ignored",
    )
    assert right.verdict == "holds"
    assert right.beside_error_rate[0] > 0.15
    assert right.mean_width is None
    wrong = certify_test(lambda y: 2 * stats.norm.sf(np.abs(y - 25) / 5), null, LAPLACE, rng=1)
    assert wrong.verdict == "fails"
    np.testing.assert_allclose(wrong.rate, right.beside_error_rate, atol=0.02)


def test_rates_of_a_size_study():
    model = Binomial(nobs=80, value=0.2)
    study = dpi.calibration.size_study(model, LAPLACE, alpha=0.05)
    aware, not_aware = certify_model(model, LAPLACE)
    np.testing.assert_array_equal([aware.rate, not_aware.rate], study.rate)
    assert (aware.verdict, not_aware.verdict) == ("holds", "fails")
    assert aware.exact
    assert aware.seed is None
    assert aware.bounds()[0] == aware.rate
    own = {"never": lambda y: np.ones(len(y))}
    (simulated,) = certify_model(model, LAPLACE, own, reps=2000, rng=4)
    assert simulated.verdict == "holds"
    assert simulated.reps.tolist() == [2000]


def test_a_release_with_overlap():
    release = dpi.Release(WORKLOAD @ [20.0, 5, 80], workload=WORKLOAD, mechanism=LAPLACE)
    values, combined, consistency = certify(release, margin=0.2, rng=1)
    assert [one.verdict for one in (values, combined, consistency)] == ["holds"] * 3
    fit = dpi.combine(release)
    width = np.asarray(fit.conf_int().width)
    np.testing.assert_allclose(combined.mean_width, width)
    assert (combined.mean_width[:5] < values.mean_width).all()


def test_combined_estimates_are_those_of_combine():
    """What is certified is what `combine` gives for each of the simulated releases."""
    release = dpi.Release(WORKLOAD @ [20.0, 5, 80], workload=WORKLOAD, mechanism=LAPLACE)

    def by_hand(y):
        return dpi.combine(y, workload=WORKLOAD, mechanism=LAPLACE).conf_int()

    fit = dpi.combine(release)
    target = fit.weights @ release.values
    black_box = certify_interval(
        by_hand, release.values, LAPLACE, target=target, one_by_one=True, reps=8, rng=8
    )
    combined = certify(release, procedures=["combined"], reps=8, rng=8)[0]
    np.testing.assert_array_equal(black_box.rate, combined.rate)
    np.testing.assert_allclose(black_box.mean_width, combined.mean_width)


def test_a_release_with_a_threshold():
    noise = [dpi.Geometric(scale=10.0), dpi.Geometric(scale=5.0)]
    release = dpi.Release([97, 120], mechanism=noise, threshold=90, labels=["a", "b"])
    (found,) = certify(release, truth=[80, 120], margin=0.2, rng=1)
    assert found.verdict == "holds"
    assert found.labels == ("a", "b")
    assert found.reps[0] < found.reps[1]
    assert found.beside_error_rate[0] > 0.06
    clamped = dpi.Release([0.0, 20.0], mechanism=LAPLACE, clamp=0)
    assert certify(clamped, margin=0.2, rng=1).verdict == "holds"
    with pytest.raises(InvalidParameterError, match=r"procedures must be \['values'\]"):
        certify(release, procedures=["combined"], reps=10)
    with pytest.raises(InvalidParameterError, match="without overlapping values"):
        certify(dpi.Release([1.0], mechanism=LAPLACE), procedures=["consistency"], reps=10)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_workers_do_not_matter(n_jobs):
    pytest.importorskip("joblib")
    once = quick(count, 40, LAPLACE)
    again = quick(count, 40, LAPLACE, n_jobs=n_jobs)
    assert once.to_json() == again.to_json()
    release = dpi.Release([3.0, 5.0, 9.0], workload=WORKLOAD[[0, 1, 3]], mechanism=LAPLACE)
    one, other = (certify(release, reps=9000, rng=5, n_jobs=jobs).to_json() for jobs in (1, n_jobs))
    assert one == other


def test_the_seed_gives_the_certificate_again():
    first = certify_interval(count, 40, LAPLACE, reps=1000, rng=np.random.default_rng(3))
    again = certify_interval(count, 40, LAPLACE, reps=1000, rng=first.seed)
    assert first.to_json() == again.to_json()
    other = certify_interval(count, 40, LAPLACE, reps=1000, rng=first.seed + 1)
    assert first.to_json() != other.to_json()
    assert certify_interval(count, 40, LAPLACE, reps=10).seed < 2**53


def test_progress(capsys):
    quick(count, 40, LAPLACE, reps=100, progress=True)
    assert "replicate" in capsys.readouterr().err


def test_what_it_says():
    found = quick(count, 40, LAPLACE, beside=partial(count, method="asymptotic"), name="counts")
    text = found.summary()
    assert text == str(found)
    for words in ("Coverage of intervals: counts", "holds", "Seed", "at least 0.94", "0.001"):
        assert words in text
    frame = found.summary_frame()
    assert frame.loc[0, "verdict"] == "holds"
    document = json.loads(found.to_json())
    assert document["dpinfer"] == dpi.__version__
    assert document["rate"] == found.rate.tolist()
    assert document["settings"]["mechanism"] == "Laplace(scale=4.0)"
    assert repr(found).startswith("Certificate(counts: coverage holds, rate 0.9")
    copy = pickle.loads(pickle.dumps(found))
    assert copy.to_json() == found.to_json()
    with pytest.raises(ValueError, match="read-only"):
        copy.error_rate[0] = 0.0
    several = Certificates([found, found])
    assert len(several.summary_frame()) == 2
    assert json.loads(several.to_json())["certificates"][1] == {
        name: value for name, value in document.items() if name != "dpinfer"
    }
    assert several.summary() == str(several)
    assert "no number" not in several.to_json()


def test_unbounded_widths_are_null_in_json():
    found = quick(lambda y: (y * 0, y + np.inf), 1.0, LAPLACE, reps=100)
    assert np.isposinf(found.mean_width).all()
    assert json.loads(found.to_json())["mean_width"] == [None]


BAD = {
    "interval must be a function": {"interval": None},
    "beside must be a function": {"beside": 3},
    "truth must not contain NaN": {"truth": np.nan},
    "truth must be a number or one-dimensional": {"truth": [[1.0]]},
    "mechanism must be a noise law": {"mechanism": 2.0},
    "alpha must be < 1": {"alpha": 1.0},
    "alpha must be that of the intervals, 0.05": {"alpha": 0.1},
    "margin must be >= 0": {"margin": -0.1},
    "margin must be below": {"margin": 19.0},
    "reps must be given where margin is 0": {"margin": 0.0, "reps": None},
    "reps must be >= 1": {"reps": 0},
    "error must be < 0.5": {"error": 0.5},
    "rng must be None, an int": {"rng": -1},
    "n_jobs must be >= 1": {"n_jobs": 0},
    "progress must be True or False": {"progress": 1},
    "one_by_one must be True or False": {"one_by_one": "no"},
    "together must be True or False": {"together": 1},
    "target must be finite": {"target": np.inf},
    "target must have the shape": {"target": [1.0, 2.0]},
    "target must return an answer": {"target": lambda counts: 1.0},
    "target must be a number or one": {"target": [[1.0]]},
    "truth must be one value where threshold": {"truth": [1.0, 2.0], "threshold": 0.0},
    "clamp must have lower < upper": {"clamp": (1.0, 1.0)},
    "interval must return intervals": {"interval": lambda y: 1.0},
    "the ends that interval returns must have one shape": {"interval": lambda y: (y, 1.0)},
    "the ends that interval returns must not contain NaN": {"interval": lambda y: (y, y * np.nan)},
    "interval must return an interval, or k of them": {
        "interval": lambda y: (0.0, 1.0),
        "target": 0,
    },
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    known = {"interval": count, "truth": 40.0, "mechanism": LAPLACE, "reps": 20} | BAD[message]
    with pytest.raises(InvalidParameterError) as raised:
        certify_interval(known.pop("interval"), known.pop("truth"), known.pop("mechanism"), **known)
    assert message in str(raised.value)


def test_bad_input_of_tests_and_releases():
    with pytest.raises(InvalidParameterError, match="test must be a function"):
        certify_test(0.5, 1.0, LAPLACE, reps=10)
    with pytest.raises(InvalidParameterError, match="what test returns must be <= 1"):
        certify_test(lambda y: 2 + 0 * y, 1.0, LAPLACE, reps=10)
    with pytest.raises(InvalidParameterError, match="test must return a p-value"):
        certify_test(lambda y: 0.5, 1.0, LAPLACE, reps=10)
    with pytest.raises(InvalidParameterError, match="beside must return as many"):
        certify_interval(
            count, [1.0, 2.0], LAPLACE, reps=9, beside=lambda y: (y[:, :1], y[:, :1]), target=0
        )
    with pytest.raises(InvalidParameterError, match="release must be a Release"):
        certify([1.0, 2.0])
    release = dpi.Release([1.0, 2.0], mechanism=LAPLACE)
    with pytest.raises(InvalidParameterError, match="procedures must be one of"):
        certify(release, procedures=["all"])
    with pytest.raises(InvalidParameterError, match="procedures must name one"):
        certify(release, procedures=[])
    with pytest.raises(DPInferError):
        certify(release, truth=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidParameterError, match="certificates must hold"):
        Certificates([1])


anything = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-5, 5),
    st.text(max_size=3),
    st.lists(st.floats(), max_size=3),
    st.complex_numbers(),
)


@given(
    name=st.sampled_from(
        ["truth", "target", "alpha", "threshold", "clamp", "margin", "error", "rng", "together"]
    ),
    value=anything,
)
@settings(derandomize=True, deadline=None, max_examples=40)
def test_only_stated_errors_escape(name, value):
    known = {"truth": 40.0, "reps": 5, "rng": 1} | {name: value}
    with contextlib.suppress(DPInferError):
        certify_interval(count, known.pop("truth"), LAPLACE, **known).summary()
