"""What streaming refuses, with a message that says why."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, NotEstimableError
from dpinfer.estimation import NoisyMarginal, StructuralZeros, TreePart, stream_marginals
from dpinfer.queries import Hierarchy

DOMAIN = dpi.Domain({"sex": ["F", "M"], "home": ["x", "y", "z"]})
GROUPINGS = {"group": ("home", {"x": "own", "y": "other", "z": "other"})}


class Given:
    """A function that returns what it is given."""

    def __init__(self, hierarchy, marginals, zeros=None):
        self.found = hierarchy, marginals, zeros

    def __call__(self):
        return self.found


def known(units):
    """All cells of some units."""
    law = dpi.Laplace(scale=1.0)
    return NoisyMarginal(DOMAIN.attributes, np.ones((len(units), *DOMAIN.shape)), law, units)


def two_parts():
    """A unit of two children, one of which is the root of a part with two more."""
    top, below = Hierarchy.from_codes(["0", "01", "02"]), Hierarchy.from_codes(["01", "011", "012"])
    load = Given(below, [known(["01", "011", "012"])])
    return {"0": TreePart(Given(top, [known(["0", "02"])])), "01": TreePart(load, "0")}


def test_what_is_not_determined(tmp_path):
    load = Given(Hierarchy.from_codes(["0", "01", "02"]), [])
    noise = dpi.Gaussian(sigma=1.0)
    below = [Hierarchy.from_codes([f"0{at}"]) for at in (1, 2)]
    known = NoisyMarginal("sex", np.ones((1, 2)), noise)
    parts = {
        "0": TreePart(load),
        "01": TreePart(Given(below[0], [known]), "0"),
        "02": TreePart(Given(below[1], [NoisyMarginal((), [3.0], noise)]), "0"),
    }
    options = {"domain": DOMAIN, "marginals_wanted": [(), "sex"]}
    with pytest.raises(NotEstimableError, match="'0'"):
        stream_marginals(parts, tmp_path / "work", **options)
    found = stream_marginals(parts, tmp_path / "other", unestimable="nan", **options)
    assert found.marginal("sex").isna().all(axis=1).tolist() == [True, False, True]
    assert np.isinf(found.marginal_bse("sex", "02")).all(axis=None)
    np.testing.assert_allclose(found.marginal(()), [5.0, 2.0, 3.0])


@pytest.mark.parametrize("grouped", [False, True])
def test_exact_values_of_different_parts_that_contradict(grouped, tmp_path):
    top, below = Hierarchy.from_codes(["0", "01"]), Hierarchy.from_codes(["01"])
    parts = {
        "0": TreePart(Given(top, [NoisyMarginal((), [4.0], dpi.Exact(), ["0"])])),
        "01": TreePart(Given(below, [NoisyMarginal((), [5.0], dpi.Exact())]), "0"),
    }
    groupings = GROUPINGS if grouped else None
    with pytest.raises(IncompatibleReleaseError, match="'0'"):
        stream_marginals(parts, tmp_path / "work", domain=DOMAIN, groupings=groupings)


def test_bad_input(tmp_path):
    good = two_parts()
    names = list(good)
    low = names[1]
    tree, given, _ = good[low].load()
    top, above, _ = good["0"].load()
    also = NoisyMarginal((), [3.0], dpi.Laplace(scale=1.0), [low])
    unlabelled = Given(Hierarchy([-1]), [])
    cases = [
        ([], {}, "parts must be a mapping"),
        ({}, {}, "parts must be a mapping"),
        ({1: good["0"]}, {}, "named by str"),
        ({"0": 3}, {}, "TreeParts"),
        ({"0": TreePart(print, version=3)}, {}, "version"),
        ({low: good[low]}, {}, "parent must name"),
        ({"0": good["0"], "1": good["0"]}, {}, "one of the parts must be without parent"),
        ({**good, "x": TreePart(print, "y"), "y": TreePart(print, "x")}, {}, "lead from every"),
        ({**good, low: TreePart(Given(tree, given), "0"), "x": good[low]}, {}, "belong to one"),
        ({**good, "0": TreePart(Given(tree, given))}, {}, "must be leaves"),
        ({**good, "0": TreePart(Given(top, [*above, also]))}, {}, "measured in their own part"),
        ({"0": TreePart(list)}, {}, "must return"),
        ({"0": TreePart(unlabelled)}, {}, "must have labels"),
        (
            {"0": TreePart(Given(tree, given, StructuralZeros({"home": "x"})))},
            {},
            "zero_attributes",
        ),
        (good, {"zeros": StructuralZeros({"home": "x"}, units=["0"])}, "belong to their part"),
        (good, {"zero_attributes": "hat"}, "hat"),
        (good, {"zero_attributes": 3}, "zero_attributes"),
        (good, {"marginals_wanted": []}, "marginals_wanted"),
        (good, {"marginals_wanted": ["sex", ("sex",)]}, "marginals_wanted"),
        (good, {"marginals_wanted": 3}, "marginals_wanted"),
        (good, {"unestimable": "maybe"}, "unestimable"),
        (good, {"progress": 2}, "progress"),
        (good, {"n_jobs": 0}, "n_jobs"),
        (good, {"n_jobs": "two"}, "n_jobs"),
        (good, {"domain": {"sex": 2}}, "domain"),
    ]
    for number, (parts, options, match) in enumerate(cases):
        with pytest.raises(InvalidParameterError, match=match):
            stream_marginals(parts, tmp_path / str(number), **{"domain": DOMAIN, **options})
    for folder in (3, ""):
        with pytest.raises(InvalidParameterError, match="folder"):
            stream_marginals(good, folder, domain=DOMAIN)
    found = stream_marginals(good, tmp_path / "good", domain=DOMAIN)
    with pytest.raises(InvalidParameterError, match="wanted"):
        found.marginal("sex")
    with pytest.raises(InvalidParameterError, match="parts must name"):
        found.marginal(DOMAIN.attributes, "nowhere")
    assert repr(found).startswith(f"StreamedMarginals({len(good)} parts, 1 marginals")
