import numpy as np
import pandas as pd
import pytest

from dpinfer import count_confint, linear_ztest
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.releases import from_smartnoise, smartnoise_laws

QUERY = "SELECT sex, COUNT(*) AS n, SUM(income) AS i, AVG(age) AS m FROM d.t GROUP BY sex"
ROWS = [["sex", "n", "i", "m"], ["F", 299, 4599.4, 38.2], ["M", -2, 45639.9, 39.2]]


class Reader:
    """Stands in for a PrivateReader: the accuracies that it states for the columns of a query."""

    def __init__(self, *columns):
        self.columns = columns

    def get_simple_accuracy(self, query, alpha):
        if query != QUERY:
            raise ValueError("token recognition error")
        return [None if column is None else column(alpha) for column in self.columns]


def laplace(scale):
    return lambda alpha: scale * np.log(1 / alpha)


def geometric(scale):
    # OpenDP: discrete_laplacian_scale_to_accuracy
    return lambda alpha: scale * np.log(2 / (alpha * (np.exp(1 / scale) + 1))) + 1


def gaussian(sigma):
    return lambda alpha: Gaussian(sigma=sigma).isf(alpha / 2)


READER = Reader(None, laplace(1.5), gaussian(100.0), None)


def test_the_laws_are_told_by_their_accuracies():
    reader = Reader(None, laplace(1.5), gaussian(3.0), geometric(2.5))
    none, first, second, third = smartnoise_laws(reader, QUERY)
    assert none is None
    assert (type(first), first.scale) == (Laplace, pytest.approx(1.5, rel=1e-12))
    assert (type(second), second.sigma) == (Gaussian, pytest.approx(3.0, rel=1e-12))
    assert (type(third), third.scale) == (Geometric, pytest.approx(2.5, rel=1e-12))


def test_gaussian_accuracy():
    # 8.880356050472873 at 0.05 and 3.0560302033005575 at 0.5: smartnoise-sql 1.0.10, sigma 4.5308…
    stated = {0.05: 8.880356050472873, 0.5: 3.0560302033005575}
    (law,) = smartnoise_laws(Reader(stated.get), QUERY)
    assert isinstance(law, Gaussian)
    assert law.sigma == pytest.approx(4.5308771592335315, rel=1e-9)


def test_whole_numbers_were_cut_toward_zero():
    release = from_smartnoise(READER, QUERY, ROWS, value="n", attributes="sex")
    assert release.values.tolist() == [299, -2]
    assert release.rounding == (1.0, "toward zero")
    assert release.labels.to_list() == ["F", "M"]
    assert release.mechanism.scale == pytest.approx(1.5)
    with pytest.raises(InvalidParameterError, match=r"threshold must be None .* COUNT\(\*\) \* 1"):
        from_smartnoise(READER, QUERY, ROWS, value="n", threshold=-2)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("clamp", [None, 0])
def test_intervals_and_tests_of_cut_counts_hold_their_level(scale, clamp):
    """By the law of trunc(f + e): it is k > 0 for e in [k - f, k + 1 - f), 0 in (-1 - f, 1 - f)."""
    law, truths = Laplace(scale=scale), np.arange(31)
    cut = np.arange(-60, 121)
    low, high = cut - (cut <= 0), cut + (cut >= 0)
    frame = pd.DataFrame({"n": np.maximum(cut, -200 if clamp is None else clamp)})
    release = from_smartnoise(Reader(laplace(scale)), QUERY, frame, value="n", clamp=clamp)
    # what is beyond has a probability of at most exp(-60/4)/2
    chance = law.cdf(high - truths[:, None]) - law.cdf(low - truths[:, None])
    for alpha in (0.02, 0.1, 0.5):
        ends = count_confint(release, alpha=alpha)
        covers = (ends.lower <= truths[:, None]) & (truths[:, None] <= ends.upper)
        assert ((chance * covers).sum(axis=1) >= 1 - alpha - 2e-7).all()
        for truth in (0, 1, 7):
            rejected = linear_ztest(release, value=truth).pvalue <= alpha
            assert chance[truth] @ rejected <= alpha + 1e-12


def test_sums_are_taken_as_they_are():
    frame = pd.DataFrame(ROWS[1:], columns=ROWS[0])
    for result in (ROWS, frame, [tuple(row) for row in ROWS]):
        release = from_smartnoise(READER, QUERY, result, value="i", name="income")
        assert release.values.tolist() == [4599.4, 45639.9]
        assert release.mechanism.sigma == pytest.approx(100.0)
        assert release.name == "income"
    assert frame.equals(pd.DataFrame(ROWS[1:], columns=ROWS[0]))


@pytest.mark.parametrize(
    ("reader", "query", "result", "value", "message"),
    [
        (None, QUERY, ROWS, "n", "PrivateReader"),
        (READER, "SELECT", ROWS, "n", "token recognition error"),
        (READER, QUERY, 3, "n", "result must be a sequence"),
        (READER, QUERY, [], "n", "row of names"),
        (READER, QUERY, [1, 2], "n", "rows of result"),
        (READER, QUERY, [["n", "i"], [1]], "n", "row of names"),
        (READER, QUERY, ROWS, "count", "value must be one of the columns"),
        (READER, QUERY, ROWS, ["n"], "value must be one of the columns"),
        (READER, QUERY, ROWS, "m", "noise of its own"),
        (READER, QUERY, [["n"], [3]], "n", "4 columns of the query"),
        (Reader(None, lambda alpha: 1.0, None, None), QUERY, ROWS, "n", "accuracy of"),
        (Reader(None, lambda alpha: -alpha, None, None), QUERY, ROWS, "n", "accuracy must be"),
        (Reader(None, lambda alpha: "x", None, None), QUERY, ROWS, "n", "accuracy must"),
    ],
)
def test_bad_input(reader, query, result, value, message):
    with pytest.raises(InvalidParameterError, match=message):
        from_smartnoise(reader, query, result, value=value)


class LaplaceOfSmartNoise:
    """Stands in for the mechanism of smartnoise-sql 1.0.10, which states OpenDP's accuracy."""

    def __init__(self, epsilon, sensitivity, max_contrib):
        self.scale = sensitivity * max_contrib / epsilon

    def accuracy(self, alpha):
        return self.scale * np.log(1.0 / alpha)


class PrivateReader:
    """Stands in for a reader of smartnoise-sql 1.0.10 that was made from a frame."""

    def __init__(self, rows, mechanisms):
        self.rows, self.mechanisms = rows, mechanisms

    def _rewrite(self, query_string):
        if not str(query_string).startswith("SELECT"):
            raise ValueError("Lexer error at line 0 column 0")

    def get_simple_accuracy(self, query_string, alpha):
        self._rewrite(query_string)
        return [one.accuracy(alpha) if one else None for one in self.mechanisms]

    def execute(self, query_string):
        self._rewrite(query_string)
        return self.rows

    def execute_df(self, query_string):
        return pd.DataFrame(self.execute(query_string)[1:], columns=self.rows[0])


LaplaceOfSmartNoise.__module__ = "snsql.sql._mechanisms.laplace"
PrivateReader.__module__ = "snsql.sql.private_reader"


@pytest.mark.parametrize("read", ["execute", "execute_df"])
def test_a_reader_like_those_of_smartnoise(read):
    query = "SELECT sex, COUNT(*) * 1.0 AS n, SUM(income) AS i FROM d.t GROUP BY sex"
    count = LaplaceOfSmartNoise(0.5, 1, 1)
    total = LaplaceOfSmartNoise(0.5, 100.0, 3)
    rows = [("sex", "n", "i"), ("F", 498.25, 24811.5), ("M", 503.5, 25290.0)]
    reader = PrivateReader(rows, [None, count, total])
    result = getattr(reader, read)(query)
    release = from_smartnoise(reader, query, result, value="n", attributes="sex")
    assert release.values.tolist() == [498.25, 503.5]  # as they are: they were not cut
    assert release.labels.to_list() == ["F", "M"]
    assert release.mechanism.scale == pytest.approx(2.0, rel=1e-12)
    none, first, second = smartnoise_laws(reader, query)
    assert none is None
    assert [first.scale, second.scale] == pytest.approx([2.0, 600.0], rel=1e-12)
    with pytest.raises(InvalidParameterError, match="Lexer error at line 0"):
        smartnoise_laws(reader, "COUNT")


@pytest.mark.parametrize("scale", [0.3, 1.5, 40.0])
@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_the_stated_accuracies_are_those_of_opendp(scale, alpha):
    accuracy = pytest.importorskip("opendp.accuracy", reason="OpenDP is not installed")
    assert laplace(scale)(alpha) == pytest.approx(
        accuracy.laplacian_scale_to_accuracy(scale, alpha), rel=1e-9
    )
    assert geometric(scale)(alpha) == pytest.approx(
        accuracy.discrete_laplacian_scale_to_accuracy(scale, alpha), rel=1e-9
    )
    assert gaussian(scale)(alpha) == pytest.approx(
        accuracy.gaussian_scale_to_accuracy(scale, alpha), rel=1e-9
    )


def test_a_reader_of_smartnoise():
    snsql = pytest.importorskip("snsql", reason="SmartNoise is not installed")
    people = pd.DataFrame({"sex": ["F", "M"] * 500, "income": np.linspace(0, 100, 1000)})
    table = {
        "row_privacy": True,
        "rows": 1000,
        "censor_dims": False,
        "clamp_counts": False,
        "sex": {"type": "string", "cardinality": 2},
        "income": {"type": "float", "lower": 0, "upper": 100},
    }
    reader = snsql.from_df(
        people,
        privacy=snsql.Privacy(epsilon=0.5, delta=1e-6),
        metadata={"": {"d": {"t": table}}},
    )
    query = "SELECT sex, COUNT(*) * 1.0 AS n, SUM(income) AS i FROM d.t GROUP BY sex"
    release = from_smartnoise(reader, query, reader.execute(query), value="n", attributes="sex")
    assert release.mechanism.scale == pytest.approx(2.0, rel=1e-6)
    assert (release.values != np.floor(release.values)).any()
    laws = smartnoise_laws(reader, query)
    assert laws[0] is None
    assert laws[2].scale == pytest.approx(200.0, rel=1e-6)
