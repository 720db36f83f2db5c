"""Releases and noisy values as arguments of combined estimates, whose noises these keep."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import NoisyMarginal, StructuralZeros
from dpinfer.queries import Hierarchy

PARENT = pd.Series({"state": None, "north": "state", "south": "state"})
LAWS = [dpi.Laplace(scale=2.0), dpi.Gaussian(sigma=1.5), dpi.Laplace(scale=3.0)]
SEX = dpi.Domain({"sex": ["F", "M"]})
CELLS = pd.MultiIndex.from_product([PARENT.index, ["F", "M"]])


def test_a_hierarchy_keeps_the_noises_of_a_release():
    values = pd.Series([106.3, 60.9, 39.3], index=PARENT.index)
    release = dpi.Release(values, mechanism=LAWS)
    fit = dpi.combine_hierarchy(release, PARENT)
    plain = dpi.combine_hierarchy(values, PARENT, mechanism=LAWS)
    pd.testing.assert_series_equal(fit.params, plain.params)
    pd.testing.assert_series_equal(fit.bse, plain.bse)
    both = dpi.noisy(fit).beside(dpi.noisy(release))
    # the covariance of an estimate and a value is the weight of that times its variance
    expected = fit.weights() * dpi.noisy(release).variance
    np.testing.assert_allclose(both.cov()[:3, 3:], expected, rtol=1e-12)
    change = dpi.linear_confint(both, np.array([[0, 1, 0, 0, -1, 0]]))
    assert np.all(change.width > 0)
    part = dpi.combine_hierarchy(release.__noisy__().take(["south", "north"]), PARENT)
    assert part.params["state"] == pytest.approx(60.9 + 39.3)


def test_laws_may_stand_under_the_labels_of_units():
    values = pd.Series([106.3, 60.9, 39.3], index=PARENT.index)
    scales = pd.Series([3.0, 1.0, 2.0], index=["south", "state", "north"])
    found = dpi.combine_hierarchy(values, PARENT, mechanism={"laplace": scales})
    expected = dpi.combine_hierarchy(values, PARENT, mechanism=dpi.Laplace(scale=[1.0, 2.0, 3.0]))
    pd.testing.assert_series_equal(found.bse, expected.bse)


@pytest.mark.parametrize(
    ("values", "mechanism", "message"),
    [
        ([1.0, 2.0, 3.0], None, "mechanism must be given"),
        (dpi.Release([1.2, 2.1, 3.1], mechanism=LAWS), LAWS[0], "mechanism must be left out"),
        (dpi.Release([5.2, 6.1, 7.1], mechanism=LAWS, threshold=5.0), None, "threshold"),
        (dpi.noisy([1.5, 2.5], mechanism=LAWS[0]).linear([[1, 0], [1, 1], [0, 1]]), None, "share"),
        ([1.5, 2.0, 3.0], dpi.Geometric(scale=1.0), "whole numbers"),
    ],
)
def test_what_a_hierarchy_cannot_take_is_refused(values, mechanism, message):
    with pytest.raises(InvalidParameterError, match=message):
        dpi.combine_hierarchy(values, [-1, 0, 0], mechanism=mechanism)


@pytest.mark.parametrize("zeros", [None, StructuralZeros({"sex": "M"}, units=["south"])])
def test_marginals_keep_the_noises_of_a_release(zeros):
    cells = pd.Series([50.2, 51.9, 28.1, 30.4, 20.8, 1.1], index=CELLS)
    totals = pd.Series([106.2, 60.9, 39.1], index=PARENT.index)
    laws = [dpi.Laplace(scale=scale) for scale in (1.0, 1.0, 2.0, 2.0, 3.0, 3.0)]
    first = dpi.Release(cells, mechanism=laws)
    second = dpi.Release(totals, mechanism=LAWS[1])
    read = [NoisyMarginal("sex", first), NoisyMarginal((), second)]
    fit = dpi.combine_marginals(read, PARENT, domain=SEX, zeros=zeros)
    given = [
        NoisyMarginal("sex", cells, dpi.Laplace(scale=[1.0, 2.0, 3.0])),
        NoisyMarginal((), totals, LAWS[1]),
    ]
    plain = dpi.combine_marginals(given, PARENT, domain=SEX, zeros=zeros)
    pd.testing.assert_frame_equal(fit.marginal("sex"), plain.marginal("sex"))
    pd.testing.assert_frame_equal(fit.marginal_bse("sex"), plain.marginal_bse("sex"))
    contrast = fit.unit_contrast("state", [[1.0, -1.0], [1.0, 1.0]])
    x = dpi.noisy(contrast)
    np.testing.assert_allclose(x.std, contrast.std_err, rtol=1e-9)
    np.testing.assert_allclose(
        x.cov(), dpi.noisy(fit).linear(np.eye(6)[:2]).linear([[1, -1], [1, 1]]).cov(), atol=1e-9
    )
    # an estimate is uncorrelated with what a value differs from its own estimate by
    every = x.beside(dpi.noisy(fit)).beside(dpi.noisy(second))
    weights = np.zeros((2, len(every)))
    weights[0, 1] = weights[1, 8] = 1.0
    weights[1, [2, 3]] = -1.0
    assert every.linear(weights).cov()[0, 1] == pytest.approx(0.0, abs=1e-9)


def test_what_marginals_cannot_take_is_refused():
    values = dpi.noisy(np.arange(6.0) + 0.1, mechanism=dpi.Laplace(scale=np.arange(1.0, 7.0)))
    numbers = dpi.noisy([100.1, 60.2, 39.9], mechanism=LAWS[0])
    for marginals, message in (
        ([NoisyMarginal("sex", values.relabelled(CELLS))], "one law of noise in all cells"),
        ([NoisyMarginal((), numbers)] * 2, "each published value once"),
        ([NoisyMarginal((), numbers, LAWS[0])], "mechanism must be left out"),
        ([NoisyMarginal((), [100.1, 60.2, 39.9])], "mechanism .* must be given"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            dpi.combine_marginals(marginals, PARENT, domain=SEX)


def test_noises_of_other_parts_are_not_made_up(tmp_path):
    def top():
        units = Hierarchy.from_codes(["4", "44"])
        return units, [NoisyMarginal("sex", [[51.2, 49.1]], LAWS[0], ["4"])], None

    def below():
        units = Hierarchy.from_codes(["44", "441", "442"])
        values = [[50.2, 51.9], [28.1, 30.4], [20.8, 20.1]]
        return units, [NoisyMarginal("sex", values, LAWS[0])], None

    part = dpi.estimation.TreePart
    parts = {"top": part(top), "44": part(below, "top")}
    found = dpi.estimation.stream_marginals(parts, tmp_path, domain=SEX)
    for one in (found.top, found.top.unit_contrast("4", [1.0, -1.0])):
        with pytest.raises(InvalidParameterError, match="noises are not in memory"):
            dpi.noisy(one)
