import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import combine
from dpinfer.intervals import count_confint, linear_confint
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.queries import Workload

A = np.array([[1.0, 0], [0, 1], [1, 1]])
LABELS = ["a", "b", "total"]
VALUES = [3.0, 5.0, 11.0]


@pytest.fixture
def fit():
    return combine(VALUES, workload=Workload(A, labels=LABELS), mechanism=Laplace(scale=2.0))


def test_estimates_carry_labels(fit):
    assert list(fit.params.index) == LABELS
    np.testing.assert_allclose(fit.params, [4, 6, 10], rtol=1e-14)
    np.testing.assert_allclose(fit.bse**2, [16 / 3, 16 / 3, 16 / 3], rtol=1e-14)
    np.testing.assert_allclose(fit.fitted, fit.params, rtol=1e-14)
    np.testing.assert_allclose(fit.residuals, [-1, -1, 1], rtol=1e-13)


def test_covariance_is_that_of_the_weights(fit):
    covariance = fit.cov_params()
    assert list(covariance.index) == list(covariance.columns) == LABELS
    np.testing.assert_allclose(covariance, 8 * fit.weights @ fit.weights.T, rtol=1e-13)
    np.testing.assert_allclose(np.diag(covariance), fit.bse**2, rtol=1e-13)


def test_covariance_of_too_many_estimates_is_refused():
    many = combine(np.zeros(20_001), mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="at most 20000 rows"):
        many.cov_params()


def test_covariance_of_an_identity_workload_is_diagonal():
    fit = combine([1.0, 2.0], mechanism=Laplace(scale=[1.0, 2.0]))
    np.testing.assert_allclose(fit.cov_params(), np.diag([2.0, 8.0]), rtol=1e-15)


def test_exact_intervals_are_quantiles_of_the_law_of_the_error(fit):
    lower, upper = fit.conf_int(alpha=0.1)
    for label in LABELS:
        law = fit.noise(label)
        assert law.variance == pytest.approx(fit.bse[label] ** 2)
        assert 2 * law.sf(upper[label] - fit.params[label]) == pytest.approx(0.1, abs=1e-9)
    np.testing.assert_allclose(fit.params - lower, upper - fit.params, rtol=1e-12)


def test_intervals_are_those_of_the_linear_functions(fit):
    for method in ("exact", "tail-bound", "asymptotic"):
        direct = linear_confint(VALUES, fit.weights, mechanism=Laplace(scale=2.0), method=method)
        combined = fit.conf_int(method=method)
        np.testing.assert_allclose(np.asarray(combined), np.asarray(direct), rtol=1e-7)


def test_intervals_without_overlap_are_those_of_the_counts():
    law = [Laplace(scale=2.0), Geometric(scale=3.0), Exact()]
    fit = combine([1, 2, 3], mechanism=law)
    for method in ("exact", "tail-bound", "asymptotic"):
        for together in (False, True):
            arguments = {"method": method, "simultaneous": together}
            np.testing.assert_array_equal(
                np.asarray(fit.conf_int(**arguments)),
                np.asarray(count_confint([1, 2, 3], mechanism=law, **arguments)),
            )


def test_simultaneous_intervals_are_reproducible_and_wider(fit):
    joint = fit.conf_int(simultaneous=True, reps=2000, rng=3)
    again = fit.conf_int(simultaneous=True, reps=2000, rng=3)
    np.testing.assert_array_equal(np.asarray(joint), np.asarray(again))
    assert (joint.width > fit.conf_int().width).all()
    assert (joint.width < fit.conf_int(method="tail-bound").width).all()


def test_simulated_errors_have_the_stated_covariance(fit):
    errors = fit.simulate_errors(100_000, rng=1)
    assert errors.shape == (100_000, 3)
    # the error of a sample covariance here has standard deviation below 0.05; 6 sigma
    np.testing.assert_allclose(np.cov(errors.T), fit.cov_params(), atol=0.3)
    np.testing.assert_allclose(errors[:, 0] + errors[:, 1], errors[:, 2], atol=1e-12)


def test_noise_by_position_where_there_are_no_labels():
    fit = combine(VALUES, workload=A, mechanism=Laplace(scale=2.0))
    assert fit.noise(2).variance == pytest.approx(16 / 3)
    assert isinstance(fit.params, np.ndarray)
    for bad in (3, -1, "a"):
        with pytest.raises(InvalidParameterError, match="target must"):
            fit.noise(bad)


def test_noise_of_an_unknown_label(fit):
    with pytest.raises(InvalidParameterError, match="must be a label of the estimate, got 'c'"):
        fit.noise("c")
    assert combine([1.0, 2.0], mechanism=Laplace(scale=1.0)).noise(1).variance == 2.0


def test_summary_frame_shows_what_combining_gained(fit):
    frame = fit.summary_frame(alpha=0.1)
    assert list(frame.columns) == [
        "estimate",
        "std_err",
        "ci_lower",
        "ci_upper",
        "published",
        "published_std_err",
    ]
    assert (frame["std_err"] < frame["published_std_err"]).all()
    assert frame.attrs["alpha"] == 0.1
    assert frame.attrs["uncertainty"] == "noise"


def test_summary_renders_the_frame(fit):
    text = fit.summary(alpha=0.1)
    for part in ("Error covered", "noise (inference on the confidential values)", "0.9, exact"):
        assert part in text
    for label in LABELS:
        assert label in text
    assert text == fit.summary(alpha=0.1)


def test_targets_that_were_not_published_have_no_published_value():
    target = {"difference": [1.0, -1.0]}
    fit = combine(VALUES, workload=A, mechanism=Gaussian(sigma=1.0), target=target)
    assert "published" not in fit.summary_frame()
    assert "difference" in fit.summary()
    mixed = combine(
        [3.0, 8.0],
        workload=Workload([[1.0, 0], [1, 1]], columns=["a", "b"]),
        mechanism=Gaussian(sigma=1.0),
    )
    assert np.isnan(mixed.summary_frame()["published"]["b"])


def test_results_cannot_be_changed(fit):
    with pytest.raises(AttributeError):
        fit.release = None
    unlabelled = combine(VALUES, workload=A, mechanism=Laplace(scale=2.0))
    with pytest.raises(ValueError, match="read-only"):
        unlabelled.params[0] = 0.0


def test_rank_and_overlap(fit):
    assert (fit.rank, fit.overlap) == (2, 1)
    assert "3 values" in repr(fit)
    assert str(fit) == fit.summary()


def test_weights_of_too_many_targets_are_refused(monkeypatch, fit):
    monkeypatch.setattr("dpinfer.estimation.combined._WEIGHTS_LIMIT", 8)
    with pytest.raises(InvalidParameterError, match="target must be given for the weights"):
        print(combine(VALUES, workload=A, mechanism=Laplace(scale=1.0)).weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be > 0"),
        ({"method": "bayes"}, "method must be one of"),
        ({"simultaneous": 1}, "simultaneous must be True or False"),
        ({"simultaneous": True, "reps": 3}, "reps must be >= 19"),
        ({"simultaneous": True, "rng": "seed"}, "rng must be None"),
    ],
)
def test_bad_arguments_of_conf_int(fit, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit.conf_int(**arguments)


def test_series_targets_follow_the_labels_of_the_cells():
    workload = Workload(A, columns=["x", "y"])
    target = pd.DataFrame({"y": [1.0, 0.0], "x": [2.0, 1.0]}, index=["p", "q"])
    fit = combine(VALUES, workload=workload, mechanism=Laplace(scale=1.0), target=target)
    np.testing.assert_allclose(fit.params[["p", "q"]], [2 * 4 + 6, 4], rtol=1e-13)
    one = combine(VALUES, workload=workload, mechanism=Laplace(scale=1.0), target=target.loc["p"])
    np.testing.assert_allclose(one.params, [14.0], rtol=1e-13)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_intervals_keep_ends_that_are_attained(simultaneous):
    # errors are on atoms; ends that rounding takes away would cost the probability of an atom
    matrix = np.vstack([np.eye(3), [[1.0, 1, 1], [1, 1, 0]]])
    noise, truth = DiscreteGaussian(sigma=0.6), matrix @ [3.0, 5.0, 7.0]
    rng = np.random.default_rng(9)
    kept = 0
    for _ in range(30):
        fit = combine(truth + noise.rvs(5, rng=rng), workload=matrix, mechanism=noise)
        lower, upper = fit.conf_int(0.1, simultaneous=simultaneous, reps=99, rng=1)
        near = (np.abs(lower - truth) < 1e-9) | (np.abs(upper - truth) < 1e-9)
        assert ((lower <= truth) & (truth <= upper))[near].all()
        kept += np.count_nonzero(near)
    assert kept > 0


def test_values_that_are_all_cells_have_the_target_itself_as_weights():
    target = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -2.0]])
    fit = combine([1.0, 2.0, 4.0], mechanism=Laplace(scale=[1.0, 2.0, 3.0]), target=target)
    np.testing.assert_array_equal(fit.weights, target)
    errors = fit.simulate_errors(3, rng=5)
    noise = Laplace(scale=[1.0, 2.0, 3.0]).rvs((3, 3), rng=5)
    np.testing.assert_allclose(errors, noise @ target.T, rtol=1e-12)


def test_simulated_errors_of_single_values_are_their_noise():
    fit = combine([1.0, 2.0], mechanism=Laplace(scale=[1.0, 2.0]))
    noise = Laplace(scale=[1.0, 2.0]).rvs((4, 2), rng=3)
    np.testing.assert_array_equal(fit.simulate_errors(4, rng=3), noise)


@pytest.mark.parametrize("block", [1, 2, 256])
def test_independent_estimates_have_the_level_of_sidak(block, monkeypatch):
    # two cells, each published twice: no value bears on both
    monkeypatch.setattr("dpinfer.estimation.combined.BLOCK", block)
    workload = [[1.0, 0], [1, 0], [0, 1], [0, 1]]
    fit = combine([3, 4, 8, 7], workload=workload, mechanism=Laplace(scale=2.0), target=np.eye(2))
    together = fit.conf_int(0.1, simultaneous=True)
    assert together.mc_error == 0.0  # nothing was simulated
    np.testing.assert_allclose(
        np.asarray(together), np.asarray(fit.conf_int(1 - np.sqrt(0.9))), rtol=1e-9
    )


@pytest.mark.parametrize("law", [Laplace(scale=1.0), Geometric(scale=1.0)])
def test_values_near_the_end_of_the_range(law):
    fit = combine([1e308, 1e308], mechanism=law)
    lower, upper = fit.conf_int()
    assert (np.isfinite(lower) & (lower <= 1e308) & (upper >= 1e308)).all()
    assert "1.0000e+308" in fit.summary()


REPORTS = dpi.RandomizedResponse.from_epsilon(1.0, categories=2)
FITS = {
    "values": lambda: dpi.combine([4.5], mechanism=dpi.Laplace(scale=1.0)),
    "units": lambda: dpi.combine_hierarchy([4.5], [-1], mechanism=dpi.Laplace(scale=1.0)),
    "tables": lambda: dpi.estimation.combine_marginals(
        dpi.estimation.NoisyMarginal((), [4.5], dpi.Laplace(scale=1.0)),
        [-1],
        domain=dpi.Domain({"sex": ["F", "M"]}),
    ),
    "answers": lambda: dpi.estimation.response_counts([40, 60], mechanism=REPORTS),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_the_limit_has_one_name(fit):
    with pytest.raises(InvalidParameterError, match=r"method .* the limit is 'asymptotic'"):
        fit().conf_int(method="normal")
    assert fit().conf_int(method="asymptotic").method == "asymptotic"
