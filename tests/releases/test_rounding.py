"""Values rounded before or after the noise: warnings, intervals by enumeration, and files."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import Exact, Gaussian, Geometric, Laplace, Release, Tulap
from dpinfer.calibration import certify
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, RoundedValuesWarning
from dpinfer.mechanisms import Rounded
from dpinfer.releases import read_release, validate_release, write_release

LAPLACE = Laplace(scale=2.0)
WHOLE = [31.0, 29.0, 61.0]

strict = pytest.mark.filterwarnings(
    f"error::{RoundedValuesWarning.__module__}.RoundedValuesWarning"
)


@pytest.mark.thinned("law", "call", every=2)
@pytest.mark.parametrize("law", [LAPLACE, Gaussian(sigma=3.0), Tulap(scale=2.0)])
@pytest.mark.parametrize(
    "call",
    [
        lambda law: dpi.count_confint(4, mechanism=law),
        lambda law: dpi.count_confint([[4, 5], [6, 7]], mechanism=law),
        lambda law: dpi.linear_confint(WHOLE, [1, 1, -1], mechanism=law),
        lambda law: dpi.ratio_confint(30.0, 61.5, mechanism=law),
        lambda law: dpi.linear_ratio_confint(WHOLE, [1, 0, 0], [0, 0, 1], mechanism=law),
        lambda law: dpi.risk_difference_confint([[60, 140], [30, 170]], mechanism=law),
        lambda law: dpi.proportion_confint(34, 100, mechanism=law),
        lambda law: dpi.proportions_ztest(34, 100, 0.3, mechanism=law),
        lambda law: dpi.counts_2indep(34, 20, mechanism=law),
        lambda law: dpi.combine(WHOLE, mechanism=law),
        lambda law: dpi.combine_hierarchy([61, 31, 29], [-1, 0, 0], mechanism=law),
        lambda law: Release(WHOLE, mechanism=law),
        lambda law: Release([7.0, *WHOLE], mechanism=[Exact(), *[law] * 3]),
        lambda law: Release([0.0, *WHOLE], mechanism=law, clamp=0),
    ],
)
def test_whole_values_under_a_density_warn_where_the_user_called(call, law):
    with pytest.warns(RoundedValuesWarning, match=r"Give mechanism=Rounded\(") as found:
        call(law)
    assert {record.filename for record in found} == {__file__}


@strict
def test_other_values_do_not_warn():
    dpi.count_confint([4, 5.5], mechanism=LAPLACE)
    dpi.count_confint(4, mechanism=Geometric(scale=2.0))
    dpi.count_confint(4, mechanism=Rounded(LAPLACE))
    dpi.count_confint(2.0**60, mechanism=Laplace(scale=2.0**55))
    Release([7.0, 31.2], mechanism=[Exact(), LAPLACE])
    Release([0.0, 0.0, 31.2], mechanism=LAPLACE, clamp=0)
    # what is planned or simulated is nobody's release
    dpi.plan.solve(dpi.count_confint, width=5.0, mechanism=Laplace.from_epsilon)


@strict
def test_parts_of_a_release_do_not_warn_again():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = Release(WHOLE, mechanism=LAPLACE)
    assert (release.select([0, 2]).values == [31.0, 61.0]).all()
    dpi.count_confint(release)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 3.0])
@pytest.mark.parametrize("bin_size", [1, 8])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_intervals_of_binned_counts_cover_by_enumeration(epsilon, bin_size, alpha):
    law = Rounded(Laplace.from_epsilon(epsilon))
    reach = int(law.isf(1e-15)) + 1
    k = np.arange(-reach, reach + 1.0)
    pmf = law.pmf(k)
    for count in (48, 45, 40, 41):
        values = np.ceil(count / bin_size) * bin_size + k
        one = dpi.count_confint(values, mechanism=law, alpha=alpha, bin_size=bin_size)
        assert pmf @ one.contains(count) >= 1 - alpha - 1e-12
        release = Release(values, mechanism=law, bin_size=bin_size)
        same = dpi.count_confint(release, alpha=alpha)
        assert (same.lower == one.lower).all()
        assert (same.upper == one.upper).all()
        if bin_size > 1:
            # as if counts had not been rounded up, some are covered less often
            plain = pmf @ dpi.count_confint(values, mechanism=law, alpha=alpha).contains(count)
            pvalue = np.asarray(dpi.linear_ztest(release, value=count).pvalue)
            assert pmf @ (pvalue <= alpha) <= alpha + 1e-12
    if (epsilon, bin_size, alpha) == (3.0, 8, 0.05):
        assert plain < 0.5


def test_binned_counts_under_a_density_are_covered_as_often_as_their_bins():
    law, y = LAPLACE, np.linspace(20.05, 90.05, 141)
    plain = dpi.count_confint(y, mechanism=law)
    binned = plain.unbinned(8)
    for count in range(41, 49):
        assert (binned.contains(count) == plain.contains(48)).all()
    assert not binned.contains(40)[plain.contains(48) & ~plain.contains(40)].any()
    assert "rounded up" in binned.summary()
    with pytest.raises(dpi.errors.InvalidParameterError, match=r"^bin_size must be given once"):
        binned.unbinned(8)


def test_a_threshold_and_rounding_hold_together():
    # conditional coverage by enumeration, for counts on both sides of the threshold
    for law in (Rounded(Laplace(scale=1.5)), Rounded(Gaussian(sigma=2.0))):
        k = np.arange(-60, 61.0)
        for count in (14, 19, 20, 23):
            values = count + k
            shown = values >= 20
            release = Release(values[shown], mechanism=law, threshold=20)
            found = dpi.count_confint(release, alpha=0.1)
            pmf = law.pmf(k[shown])
            assert pmf @ found.contains(count) / pmf.sum() >= 0.9 - 1e-12
            # the estimates are the most likely whole numbers
            f = np.arange(0.0, 60.0)
            likelihood = law.logpmf(30.0 - f) - law.logsf(19.0 - f)
            best = found.estimate[np.flatnonzero(values[shown] == 30.0)[0]]
            assert likelihood[int(best)] == pytest.approx(likelihood.max(), abs=1e-9)


def test_what_bins_do_not_allow_is_refused():
    release = Release([16.5, 24.5], mechanism=LAPLACE, bin_size=[8, 1])
    assert release.has_rule.tolist() == [True, False]
    assert release.select([1]).bin_size == 1.0
    with pytest.raises(
        IncompatibleReleaseError, match="counts that were rounded up before the noise"
    ):
        dpi.combine(release)
    with pytest.raises(InvalidParameterError, match="release must have no bin_size"):
        certify(release)
    with pytest.raises(InvalidParameterError, match="proportions_ztest does not take values"):
        dpi.proportions_ztest(release, 100, 0.2)
    for wrong in (0, 2.5, -8, [8, 8, 8]):
        with pytest.raises(InvalidParameterError, match="bin_size must"):
            Release([16.5, 24.5], mechanism=LAPLACE, bin_size=wrong)
        with pytest.raises(InvalidParameterError, match="bin_size"):
            dpi.count_confint([16.5, 24.5], mechanism=LAPLACE, bin_size=wrong)


def test_rounded_noise_needs_whole_values_and_whole_queries():
    with pytest.raises(
        IncompatibleReleaseError, match="whole numbers where the noise takes whole numbers"
    ):
        Release([1.5], mechanism=Rounded(LAPLACE))
    with pytest.raises(IncompatibleReleaseError, match="error of a rounded fraction depends"):
        Release([1.0], workload=[[0.5, 0.5]], mechanism=Rounded(LAPLACE))


@pytest.mark.thinned("suffix", "law", every=2)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("law", "bin_size"),
    [
        (Rounded(LAPLACE), 8),
        (Rounded(Laplace(scale=[1.0, 2.0, 3.0])), [8, 1, 4]),
        ([Rounded(LAPLACE), Geometric(scale=1.0), Rounded(Gaussian(sigma=2.0))], 1),
        ([Rounded(LAPLACE), LAPLACE, Exact()], 1),
        (Rounded(Tulap(scale=1.0, truncation=0.1)), 1),
    ],
)
def test_files_say_how_values_were_rounded(tmp_path, suffix, law, bin_size):
    values = pd.Series([31.0, 29.0 + (suffix == "x"), 61.0], index=pd.Index(["a", "b", "c"]))
    values["b"] = 29.5 if isinstance(law, list) and law[1] is LAPLACE else 29.0
    release = Release(values, mechanism=law, bin_size=bin_size)
    path = tmp_path / f"table.{suffix}"
    write_release(release, path)
    assert validate_release(path) == []
    again = read_release(path)
    assert np.array_equal(again.bin_size, release.bin_size)
    assert (again.values == release.values).all()
    for row in range(3):
        assert again.mechanism.take([row]).take(0) == release.mechanism.take([row]).take(0)
    frame = again.to_frame()
    assert ("bin_size" in frame) == (bin_size != 1)


def test_whole_numbers_are_not_called_integers_beside_a_density(tmp_path):
    with pytest.warns(RoundedValuesWarning):
        release = Release(WHOLE, mechanism=LAPLACE)
    path = tmp_path / "table.csv"
    for law, kind in ((LAPLACE, "number"), (Rounded(LAPLACE), "integer")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = Release(WHOLE, mechanism=law)
        write_release(release, path)
        sidecar = json.loads((tmp_path / "table.csv-metadata.json").read_text("utf-8"))
        (field,) = [one for one in sidecar["schema"]["fields"] if "privacy" in one]
        assert field["type"] == kind
        assert field["privacy"].get("rounding", 0) == (kind == "integer")


def test_frames_say_how_values_were_rounded():
    frame = pd.DataFrame(
        {"n": [8, 17], "scale": [1.0, 2.0], "was": [1.0, np.nan], "bin": [8, None]}
    )
    frame.loc[1, "n"] = 17
    law = {"mechanism": "laplace", "scale": {"column": "scale"}}
    release = Release.from_frame(frame, value="n", mechanism=law | {"rounding": True})
    assert release.mechanism == Rounded(Laplace(scale=[1.0, 2.0]))
    frame["n"] = [8.0, 17.4]
    release = Release.from_frame(
        frame,
        value="n",
        mechanism=law | {"rounding": {"column": "was"}},
        bin_size={"column": "bin"},
    )
    assert release.mechanism.take(0) == Rounded(Laplace(scale=1.0))
    assert release.mechanism.take(1) == Laplace(scale=2.0)
    assert release.bin_size.tolist() == [8.0, 1.0]
    frame["was"] = [0.5, 1.0]
    with pytest.raises(InvalidParameterError, match="rounding must be 1 or 0"):
        Release.from_frame(frame, value="n", mechanism=law | {"rounding": {"column": "was"}})


def test_problems_of_rounding_in_files_are_listed(tmp_path):
    path = tmp_path / "table.csv"
    write_release(Release(WHOLE, mechanism=Rounded(LAPLACE), bin_size=4), path)
    text = path.read_text("utf-8")
    path.write_text(text.replace("29", "29.5"), "utf-8")
    (problem,) = validate_release(path)
    assert "multiple of the step" in problem.message


@pytest.mark.parametrize("way", ["nearest", "down", "up", "toward zero"])
def test_files_keep_steps_and_ways(tmp_path, way):
    path = tmp_path / "table.csv"
    before = way.replace("toward zero", "down")
    rule = {"rounding": (5, way), "bin_size": ([4, 1], before), "clamp": (0, 50)}
    release = Release([10.0, 25.0], mechanism=LAPLACE, **rule)
    write_release(release, path)
    assert validate_release(path) == []
    again = read_release(path)
    assert again.rounding == release.rounding == (5.0, way)
    assert (again.bin_size.tolist(), again.bin_rounding) == ([4.0, 1.0], before)
    assert again.clamp == release.clamp
    text = path.read_text("utf-8")
    path.write_text(text.replace("25", "26"), "utf-8")
    (problem,) = validate_release(path)
    assert "multiple of the step" in problem.message
