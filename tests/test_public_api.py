"""The names that users see, pinned: a change here is a change for them."""

import dpinfer

PUBLIC = {
    "AdjustedTests",
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
    "GoodnessOfFitPower",
    "HypothesisResult",
    "IncompatibleReleaseError",
    "IndependencePower",
    "IndependentNoise",
    "Intervals",
    "InvalidParameterError",
    "Laplace",
    "LinearPower",
    "MissingExtraError",
    "NoiseLaw",
    "NotEstimableError",
    "PoissonPower",
    "ProportionPower",
    "RandomizedResponse",
    "Release",
    "ResponseEstimate",
    "SizeStudy",
    "Tulap",
    "TwoProportionsPower",
    "WeightedSum",
    "Workload",
    "adjust_pvalues",
    "chi2_contingency",
    "chisquare",
    "chisquare_fit",
    "clipped_mean_sensitivity",
    "combine",
    "count_confint",
    "counts_2indep",
    "counts_paired",
    "counts_trend",
    "datasets",
    "l1_sensitivity",
    "l2_sensitivity",
    "linear_confint",
    "linear_ztest",
    "mcnemar",
    "null_distribution",
    "poisson_2indep",
    "poisson_ztest",
    "proportions_2indep",
    "proportions_trend",
    "proportions_ztest",
    "read_release",
    "response_counts",
    "response_proportions",
    "rows_ztest",
    "size_study",
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
