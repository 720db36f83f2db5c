"""The names that users see, pinned: a change here is a change for them."""

from inspect import ismodule

import dpinfer

PUBLIC = {
    "ApproxDP",
    "BudgetLedger",
    "DPInferError",
    "DPInferWarning",
    "DiscreteGaussian",
    "Domain",
    "Exact",
    "GDP",
    "Gaussian",
    "Geometric",
    "Hierarchy",
    "Laplace",
    "PureDP",
    "RDP",
    "RandomizedResponse",
    "NoisyValues",
    "Release",
    "Tulap",
    "WeightedSum",
    "Workload",
    "ZCDP",
    "adjust_pvalues",
    "amplify",
    "calibration",
    "chi2_contingency",
    "chisquare",
    "chisquare_fit",
    "clipped_mean_confint",
    "combine",
    "combine_hierarchy",
    "combine_marginals",
    "compose",
    "count_confint",
    "count_posterior",
    "counts_2indep",
    "counts_paired",
    "counts_trend",
    "curation",
    "datasets",
    "errors",
    "estimation",
    "guarantee_of",
    "hypothesis_tests",
    "intervals",
    "linear_confint",
    "linear_ratio_confint",
    "linear_ztest",
    "mcnemar",
    "mechanisms",
    "noisy",
    "noisy_ols",
    "normal_mean_confint",
    "odds_ratio_confint",
    "plan",
    "planning",
    "plotting",
    "poisson_2indep",
    "poisson_confint",
    "poisson_ztest",
    "privacy",
    "proportion_confint",
    "proportions_2indep",
    "proportions_trend",
    "proportions_ztest",
    "queries",
    "ratio_confint",
    "read_release",
    "regression",
    "relative_change_confint",
    "releases",
    "reporting",
    "results",
    "risk_difference_confint",
    "risk_ratio_confint",
    "rows_ztest",
    "share_confint",
    "survey_mean",
    "survey_total",
    "unpublished_bound",
    "with_labels",
    "write_release",
}


def test_public_names_are_pinned():
    assert set(dir(dpinfer)) - {"__version__"} == PUBLIC


def test_every_public_name_loads_and_is_documented():
    for name in PUBLIC:
        value = getattr(dpinfer, name)
        assert value.__doc__, name
        where = value.__name__ if ismodule(value) else getattr(value, "__module__", "dpinfer")
        assert where.startswith("dpinfer"), name
