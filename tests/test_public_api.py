"""The names that users see, pinned: a change here is a change for them."""

import dpinfer

PUBLIC = {
    "ApproximationWarning",
    "ClippedEstimate",
    "CombinedEstimate",
    "ConvergenceError",
    "DPInferError",
    "DPInferWarning",
    "DiscreteGaussian",
    "Domain",
    "Exact",
    "ExponentialMechanism",
    "Gaussian",
    "Geometric",
    "HypothesisResult",
    "IncompatibleReleaseError",
    "IndependentNoise",
    "Intervals",
    "InvalidParameterError",
    "Laplace",
    "MissingExtraError",
    "NoiseLaw",
    "NotEstimableError",
    "RandomizedResponse",
    "Release",
    "ResponseEstimate",
    "Tulap",
    "WeightedSum",
    "Workload",
    "chisquare",
    "clipped_mean_sensitivity",
    "combine",
    "count_confint",
    "datasets",
    "l1_sensitivity",
    "l2_sensitivity",
    "linear_confint",
    "proportions_ztest",
    "read_release",
    "response_counts",
    "response_proportions",
    "validate_release",
    "write_release",
}


def test_public_names_are_pinned():
    assert set(dir(dpinfer)) - {"__version__"} == PUBLIC


def test_every_public_name_loads_and_is_documented():
    for name in PUBLIC:
        value = getattr(dpinfer, name)
        assert value.__doc__, name
        assert getattr(value, "__module__", "dpinfer").startswith("dpinfer"), name
