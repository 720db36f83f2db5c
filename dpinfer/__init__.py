"""Valid statistical inference from differentially private noisy counts.

The public names are listed in ``__init__.pyi``; each is loaded when it is first used, so that
``import dpinfer`` costs next to nothing. What is not needed with a published table at hand is in
the packages: ``dpinfer.privacy``, ``dpinfer.curation`` and the others.
"""

import threading
from importlib import import_module

import lazy_loader

__version__ = "0.1.0"

_resolve, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_one_thread = threading.Lock()

_PARTS = [
    "intervals",
    "hypothesis_tests",
    "estimation",
    "regression",
    "functions",
    "posterior",
    "releases",
    "mechanisms",
    "queries",
    "results",
    "priors",
    "privacy",
    "curation",
    "calibration",
    "plotting",
    "reporting",
    "datasets",
    "errors",
]
_WIDTHS = {
    "ClippedMeanWidth": "clipped_mean_confint",
    "CountWidth": "count_confint",
    "LinearRatioWidth": "linear_ratio_confint",
    "LinearWidth": "linear_confint",
    "NormalMeanWidth": "normal_mean_confint",
    "PoissonWidth": "poisson_confint",
    "PosteriorWidth": "count_posterior",
    "ProportionWidth": "proportion_confint",
    "RatioWidth": "ratio_confint",
    "StratifiedWidth": "intervals.stratified_total",
    "SurveyWidth": "survey_total",
    "ThresholdedWidth": "count_confint, threshold=...",
    "TwoByTwoWidth": "risk_ratio_confint",
    "UnpublishedWidth": "unpublished_bound",
}
_POWERS = {
    "CompositeFitPower": "chisquare_fit",
    "GoodnessOfFitPower": "chisquare",
    "HomogeneityPower": "chi2_contingency, row_totals=...",
    "IndependencePower": "chi2_contingency",
    "LinearPower": "linear_ztest",
    "McNemarPower": "mcnemar",
    "PairedCountsPower": "counts_paired",
    "PoissonPower": "poisson_ztest",
    "ProportionPower": "proportions_ztest",
    "ProportionsTrendPower": "proportions_trend",
    "TrendPower": "counts_trend",
    "TwoProportionsPower": "proportions_2indep",
    "TwoRatesPower": "poisson_2indep",
}
_NOW: dict[str, str] = {
    name: f"plan.{quantity}(dpinfer.{procedure}, ...), or plan.solve for what reaches a {quantity}"
    for quantity, names in (("width", _WIDTHS), ("power", _POWERS))
    for name, procedure in names.items()
} | {
    "rows_ztest": "adjust_pvalues(dpinfer.linear_ztest(release, value=...))",
    "release_confint": "count_confint(release)",
    "thresholded_confint": "count_confint(count, mechanism=..., threshold=...)",
    "clamped_confint": "count_confint(count, mechanism=..., clamp=...)",
    "zcdp_of": 'guarantee_of(..., kind="zcdp")',
    "query_release": "curation",
    "spending": "curation",
}
"""What is written today for a name that is gone."""


def __getattr__(name: str) -> object:
    """Load a name; NumPy, which two threads cannot import at once, is loaded by one before."""
    with _one_thread:
        import numpy.typing  # noqa: F401
    if name in __all__:
        return _resolve(name)
    if name in _NOW:
        raise AttributeError(f"dpinfer.{name} is no more: write dpinfer.{_NOW[name]}")
    for part in () if name.startswith("_") else _PARTS:
        if name in dir(import_module(f"dpinfer.{part}")):
            raise AttributeError(f"dpinfer.{name} is dpinfer.{part}.{name}")
    return _resolve(name)
