"""Labels of two arguments that do not match: refused, or put in order."""

import numpy as np
import pandas as pd
import pytest
from public_names import public

from dpinfer import DPInferError, Geometric

THREE = [18, 25, 33]
PAIRS = {
    "proportion_confint": {"count": THREE, "nobs": [60, 70, 80]},
    "poisson_confint": {"count": THREE, "exposure": [6.0, 7.0, 8.0]},
    "ratio_confint": {"numerator": THREE, "denominator": [60, 70, 80]},
    "share_confint": {"part": THREE, "rest": [60, 70, 80]},
    "relative_change_confint": {"new": THREE, "old": [60, 70, 80]},
    "linear_ratio_confint": {"values": THREE, "numerator": [1, 0, 0]},
    "survey_total": {"count": THREE, "sample_size": [100, 120, 140]},
    "stratified_mean": {"counts": THREE, "population_size": [1000, 2000, 3000]},
    "clipped_mean_confint": {"mean": [1, 2, 3], "nobs": [60, 70, 80]},
}
"""Two arguments of each function that may both have labels."""

OTHERS = {
    "linear_ratio_confint": {"denominator": [1, 1, 1], "method": "asymptotic"},
    "survey_total": {"population_size": [1000, 2000, 3000]},
    "stratified_mean": {"sample_size": [100, 120, 140]},
    "clipped_mean_confint": {"std": [1, 1, 2], "bounds": (-9, 9)},
}
ALIGNED = {"ratio_confint", "share_confint", "relative_change_confint", "linear_ratio_confint"}


def estimate(name, **pair):
    """Estimate of one of the functions."""
    call = public(name)
    found = call(mechanism=Geometric(scale=3.0), **pair, **OTHERS.get(name, {}))
    return found.params if name.startswith(("survey", "strat")) else found.estimate


@pytest.mark.thinned("name", "labels", every=2)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("labels", ["cab", "abd", "aab"])
def test_labels_that_do_not_match_are_refused(name, labels):
    (one, first), (two, second) = PAIRS[name].items()
    labelled = pd.Series(first, index=list("abc"))
    assert np.isfinite(estimate(name, **{one: labelled, two: second})).all()
    other = pd.Series(second, index=list(labels))
    if labels == "cab" and name in ALIGNED:
        found = estimate(name, **{one: labelled, two: other})
        expected = estimate(name, **{one: labelled, two: other.reindex(labelled.index)})
        np.testing.assert_array_equal(found, expected)
    else:
        with pytest.raises(DPInferError, match=r"label|index"):
            estimate(name, **{one: labelled, two: other})
