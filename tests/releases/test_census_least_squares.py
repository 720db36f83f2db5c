from contextlib import suppress

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import DPInferError, IncompatibleReleaseError, InvalidParameterError
from dpinfer.intervals import count_confint
from dpinfer.mechanisms import Gaussian
from dpinfer.releases.census import read_census_least_squares

HEAD = "geocode|query|estimate|std_dev|query_description\n"

# three published lines, of tract 01001020100
PUBLISHED = HEAD + (
    "01001020100|P0010001|1773.9018031885519|1.6418324422474149|Total\n"
    "01001020100|P0010002|1652.0434293502806|5.507541967888987|Population of one race\n"
    "01001020100|P0010003|1385.2280337755335|2.34418748822052|White alone\n"
)


@pytest.fixture
def place(tmp_path):
    def put(text, name="estimates.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


def test_published_lines(place):
    release = read_census_least_squares(place(PUBLISHED))
    assert release.labels.names == ["geocode", "query"]
    assert release.labels[2] == ("01001020100", "P0010003")
    assert release.values.tolist() == [1773.9018031885519, 1652.0434293502806, 1385.2280337755335]
    assert release.mechanism == Gaussian(
        sigma=[1.6418324422474149, 5.507541967888987, 2.34418748822052]
    )


@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.32])
def test_the_convention_of_its_intervals(place, alpha):
    release = read_census_least_squares(place(PUBLISHED + "010|P0010004|0.7|2.0|none\n"))
    lower, upper = count_confint(
        release.values, mechanism=release.mechanism, alpha=alpha, integer=True, lower=0
    )
    half = stats.norm.isf(alpha / 2) * release.mechanism.sigma
    np.testing.assert_array_equal(lower, np.maximum(np.ceil(release.values - half), 0))
    np.testing.assert_array_equal(upper, np.floor(release.values + half))
    if alpha == 0.1:
        assert lower.tolist() == [1772, 1643, 1382, 0]
        assert upper.tolist() == [1776, 1661, 1389, 3]


def test_a_folder_of_units(place, tmp_path):
    tree = "us/Tract/State=001/County=001"
    place(PUBLISHED, f"{tree}/Tract=020100/part-0.csv")
    place(HEAD + "01001020200|P0010001|-0.5|0|Total\n", f"{tree}/Tract=020200/part-0.csv")
    place("", f"{tree}/Tract=020200/_SUCCESS")
    release = read_census_least_squares(tmp_path / "us")
    assert len(release) == 4
    assert release.labels[3] == ("01001020200", "P0010001")
    np.testing.assert_allclose(release.mechanism.std[[0, 3]], [1.6418324422474149, 0.0])
    assert release.values[3] == -0.5


def test_descriptions_as_they_come(place):
    text = HEAD + '1|P1|1.5|2|a "quoted\n2|P1|2.5|2|\n2|NA|3.5|2|é\n'
    release = read_census_least_squares(place(text))
    assert release.labels.tolist() == [("1", "P1"), ("2", "P1"), ("2", "NA")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a table of columns apart by"),
        (HEAD, "at least one estimate"),
        ("a,b\n1,2\n", "missing are geocode, query, estimate, std_dev"),
        (HEAD + "1|P1|x|2|d\n", "must have numbers in estimate, got 'x' for P1 of 1"),
        (HEAD + "1|P1||2|d\n", "numbers in estimate, got ''"),
        (HEAD + "1|P1|inf|2|d\n", "numbers in estimate, got 'inf'"),
        (HEAD + "1|P1|3|-2|d\n", "numbers >= 0 in std_dev, got '-2' for P1 of 1"),
        (HEAD + "1|P1|3|2|d\n1|P1|3|2|d\n", "repeated is P1 of 1"),
        (HEAD + "1|P1|3|2|d|e|f|g\n", "lines longer than the first"),
        (HEAD + "1|P1|3|2|d\n1|P1|3|2|d|e|f|g\n", "table of columns apart by"),
        (b"\xff\xfe\x00", "must"),
    ],
)
def test_files_that_are_none(place, text, message):
    path = place(text)
    with pytest.raises(IncompatibleReleaseError, match=message) as caught:
        read_census_least_squares(path)
    assert "estimates.txt" in str(caught.value)


def test_paths_that_are_none(tmp_path):
    for path in (tmp_path, tmp_path / "no", 3, None):
        with pytest.raises(InvalidParameterError, match="path must be"):
            read_census_least_squares(path)


def test_bytes_at_random(place):
    rng = np.random.default_rng(1)
    for _ in range(40):
        text = bytearray(PUBLISHED.encode())
        for at in rng.integers(0, len(text), 3):
            text[at] = rng.integers(0, 256)
        with suppress(DPInferError):
            read_census_least_squares(place(bytes(text)))
