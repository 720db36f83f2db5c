from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.contingency_tables import Table2x2
from statsmodels.stats.proportion import confint_proportions_2indep

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.intervals import (
    odds_ratio_confint,
    ratio_confint,
    risk_difference_confint,
    risk_ratio_confint,
    share_confint,
)
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace

TABLE = np.array([[60.0, 140.0], [30.0, 170.0]])
MEASURES = {
    risk_ratio_confint: lambda p, q: p / q,
    odds_ratio_confint: lambda p, q: p * (1 - q) / (q * (1 - p)),
    risk_difference_confint: lambda p, q: p - q,
}


def test_without_noise_sampling_intervals_are_those_of_statsmodels():
    known = {"mechanism": Exact(), "method": "asymptotic", "uncertainty": "noise+sampling"}
    table = Table2x2(TABLE)
    np.testing.assert_allclose(
        tuple(odds_ratio_confint(TABLE, **known)), table.oddsratio_confint(), rtol=1e-9
    )
    np.testing.assert_allclose(
        tuple(risk_ratio_confint(TABLE, **known)), table.riskratio_confint(), rtol=1e-9
    )
    wald = confint_proportions_2indep(60, 200, 30, 200, method="wald", compare="diff")
    np.testing.assert_allclose(tuple(risk_difference_confint(TABLE, **known)), wald, rtol=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
def test_exact_ends_follow_from_the_shares(measure):
    noise = Laplace(scale=1.0)
    (l1, h1), (l2, h2) = (
        share_confint(*row, mechanism=noise, alpha=1 - np.sqrt(0.95)) for row in TABLE
    )
    value = MEASURES[measure]
    interval = measure(TABLE, mechanism=noise)
    np.testing.assert_allclose(tuple(interval), [value(l1, h2), value(h1, l2)], rtol=1e-9)
    assert interval.estimate == pytest.approx(value(0.3, 0.15))


@pytest.mark.parametrize("measure", MEASURES)
def test_delta_method_by_differences(measure):
    variances = np.array([1.0, 4.0, 9.0, 16.0])
    noise = [Gaussian(sigma=s) for s in (1.0, 2.0, 3.0, 4.0)]

    def statistic(cells):
        a, b, c, d = cells
        value = MEASURES[measure](a / (a + b), c / (c + d))
        return value if measure is risk_difference_confint else np.log(value)

    cells, h = TABLE.ravel(), 1e-4
    slopes = [
        (statistic(cells + h * unit) - statistic(cells - h * unit)) / (2 * h) for unit in np.eye(4)
    ]
    half = 1.959963984540054 * np.sqrt(np.square(slopes) @ variances)
    ends = statistic(cells) + np.array([-half, half])
    wanted = ends if measure is risk_difference_confint else np.exp(ends)
    interval = measure(TABLE, mechanism=noise, method="asymptotic")
    np.testing.assert_allclose(tuple(interval), wanted, rtol=1e-6)
    assert "approximate" in interval.notes[0]


@pytest.mark.thinned("measure", "noise", "known", every=2)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Geometric(scale=1.0)])
@pytest.mark.parametrize("known", [False, True])
def test_simulated_coverage(measure, noise, known):
    rng = np.random.default_rng(11)
    truth = np.array([[3.0, 9.0], [5.0, 2.0]])
    tables = truth + noise.rvs((4000, 2, 2), rng=rng)
    totals = truth.sum(axis=1) if known else None
    intervals = measure(tables, mechanism=noise, row_totals=totals, alpha=0.2)
    wanted = MEASURES[measure](3 / 12, 5 / 7)
    # six standard deviations: 1e-9 for each of the twelve
    assert intervals.contains(wanted).mean() >= 0.8 - 6 * np.sqrt(0.16 / 4000)


def test_known_totals_combine_both_cells():
    noise = Laplace(scale=1.0)
    totals = [200.0, 200.0]
    narrow = risk_difference_confint(TABLE, mechanism=noise, row_totals=totals)
    one = [Laplace(scale=1.0), Laplace(scale=1e6), Laplace(scale=1.0), Laplace(scale=1e6)]
    wide = risk_difference_confint(TABLE, mechanism=one, row_totals=totals)
    assert narrow.width < 0.8 * wide.width
    # one cell of each row counts only: P(e₁ - e₂ > q) = exp(-q)(1 + q/2)/2 for Laplace noise
    quantile = brentq(lambda q: np.exp(-q) * (1 + q / 2) / 2 - 0.025, 0, 20)
    assert wide.width == pytest.approx(2 * quantile / 200, rel=1e-4)


LINEAR = [
    Laplace(scale=1.0),
    Gaussian(sigma=2.0),
    Geometric(scale=2.0),
    DiscreteGaussian(sigma=30.0),
    [Laplace(scale=1.0), Gaussian(sigma=2.0), Laplace(scale=3.0), Geometric(scale=1.0)],
]


@pytest.mark.parametrize("noise", LINEAR)
def test_with_known_totals_the_law_is_that_of_the_linear_statistic(noise):
    # P(abs(p̂₁ - r·p̂₂) is at most what the interval allows) by draws of the four errors
    rng = np.random.default_rng(4)
    truth, totals = np.array([[600.0, 1400.0], [450.0, 1050.0]]), np.array([2000.0, 1500.0])
    laws = noise if isinstance(noise, list) else [noise] * 4
    errors = np.stack([law.rvs(10_000, rng=rng) for law in laws], axis=1).reshape(-1, 2, 2)
    for measure, wanted in ((risk_ratio_confint, 1.0), (risk_difference_confint, 0.0)):
        found = measure(truth + errors, mechanism=noise, row_totals=totals, alpha=0.2)
        # six standard deviations; beside densities, narrow lattices leave something over
        covered = found.contains(wanted).mean()
        assert covered >= 0.8 - 0.024
        if noise in (LINEAR[0], LINEAR[1], LINEAR[3]):
            assert covered <= 0.824 + 0.01 * (noise == LINEAR[3])


@pytest.mark.thinned("noise", "measure", every=2)
@pytest.mark.parametrize("noise", LINEAR)
@pytest.mark.parametrize("measure", [risk_ratio_confint, risk_difference_confint])
def test_tables_with_totals_of_their_own(noise, measure):
    totals = 200.0 + np.arange(80).reshape(40, 2)
    tables = np.broadcast_to(np.array([[60.0, 140.0], [30.0, 170.0]]), (40, 2, 2))
    many = np.asarray(measure(tables, mechanism=noise, row_totals=totals))
    alone = [measure(TABLE, mechanism=noise, row_totals=own) for own in totals[[0, 7, 39]]]
    slack = 0.03 if noise == LINEAR[3] else 2e-4
    np.testing.assert_allclose(many[[0, 7, 39]], np.asarray(alone), rtol=slack, atol=slack)


def pmf(law, k):
    """Probabilities of whole-numbered noise, also where there is none."""
    return law.cdf(k) - law.cdf(k - 1.0)


@pytest.mark.parametrize(
    ("law", "sizes", "measure"),
    [
        *((Exact(), (2, 3), one) for one in MEASURES),
        *(
            pytest.param(Geometric(scale=0.5), (3, 5), one, marks=pytest.mark.slow)
            for one in MEASURES
        ),
        # that of which the least is nearest to the level
        pytest.param(Exact(), (8, 7), risk_difference_confint, marks=pytest.mark.slow),
        *(
            pytest.param(law, sizes, one, marks=pytest.mark.study)
            for law, *several in [
                (Exact(), (10, 8), (20, 15)),
                (Geometric(scale=0.5), (6, 9)),
            ]
            for sizes, one in product(several, MEASURES)
        ),
    ],
)
def test_default_intervals_cover_noise_and_sampling_by_enumeration(measure, law, sizes):
    # one noisy cell counts in each row, and the other has noise of no use; public sizes. Large
    # tables see a little more: the least for differences is .907 for 20 and 15, .914 for 10 and 8
    reach = int(law.isf(1e-3))
    noise = pmf(law, np.arange(-reach, reach + 1.0))
    values = [np.arange(-reach, n + reach + 1.0) for n in sizes]
    tables = [
        [[one, sizes[0] - one], [other, sizes[1] - other]]
        for one in values[0]
        for other in values[1]
    ]
    laws = law if law == Exact() else [law, Geometric(scale=1e4)] * 2
    found = measure(
        tables, mechanism=laws, row_totals=sizes, uncertainty="noise+sampling", alpha=0.1
    )
    assert (found.method, found.notes) == ("exact", ())
    for p in (0.002, 0.02, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.97):
        for q in (0.002, 0.05, 0.1, 0.2, 0.3, 0.45, 0.55, 0.7, 0.8, 0.95):
            chances = [
                np.convolve(stats.binom(n, risk).pmf(np.arange(n + 1)), noise)
                for n, risk in zip(sizes, (p, q), strict=True)
            ]
            hit = found.contains(MEASURES[measure](p, q))
            # what is beyond the reach of the noise may be missed
            assert np.outer(*chances).ravel() @ hit >= 0.9 - 4 * law.sf(reach)


@pytest.mark.study
@pytest.mark.parametrize("measure", MEASURES)
def test_intervals_with_unknown_sizes_cover_noise_and_sampling(measure):
    # of 100 tables with 0.9 or more, below 0.7 by accident with probability 1e-8
    rng, law, sizes, risks = np.random.default_rng(8), Laplace(scale=0.5), (25, 40), (0.1, 0.04)
    events = np.stack([rng.binomial(n, p, 100) for n, p in zip(sizes, risks, strict=True)], axis=1)
    tables = np.stack([events, sizes - events], axis=2) + law.rvs((100, 2, 2), rng=rng)
    found = measure(tables, mechanism=law, uncertainty="noise+sampling", alpha=0.1)
    assert found.contains(MEASURES[measure](*risks)).mean() >= 0.7


@pytest.mark.thinned("noise", "measure", every=3)
@pytest.mark.parametrize(
    "noise",
    [
        Exact(),
        Laplace(scale=1.0),
        Gaussian(sigma=2.0),
        [Geometric(scale=1.0), Laplace(scale=2.0)] * 2,
    ],
)
@pytest.mark.parametrize("measure", MEASURES)
def test_exact_intervals_with_sampling_are_about_as_wide_as_normal_ones(measure, noise):
    table = np.array([[600.0, 1400.0], [350.0, 1650.0]])
    given = {"mechanism": noise, "uncertainty": "noise+sampling"}
    exact = measure(table, row_totals=[2000, 2000], **given)
    normal = measure(table, row_totals=[2000, 2000], method="asymptotic", **given)
    assert 0.99 < exact.width / normal.width < 1.03
    if noise == Exact():
        unknown = measure(table, **given)
        np.testing.assert_allclose(tuple(unknown), tuple(exact), rtol=1e-2)


def test_without_noise_it_is_near_the_score_interval():
    found = risk_difference_confint(
        [[7, 13], [1, 19]], mechanism=Exact(), row_totals=[20, 20], uncertainty="noise+sampling"
    )
    score = confint_proportions_2indep(7, 20, 1, 20, method="score", compare="diff")
    np.testing.assert_allclose(tuple(found), score, atol=0.03)
    swapped = risk_difference_confint(
        [[1, 19], [7, 13]], mechanism=Exact(), row_totals=[20, 20], uncertainty="noise+sampling"
    )
    np.testing.assert_allclose(-np.asarray(swapped)[::-1], np.asarray(found), atol=1e-9)
    none = risk_ratio_confint(
        [[0, 20], [0, 20]], mechanism=Exact(), row_totals=[20, 20], uncertainty="noise+sampling"
    )
    assert tuple(none) == (0.0, np.inf)
    noisy = {"mechanism": Laplace(scale=1e4), "uncertainty": "noise+sampling"}
    assert tuple(risk_difference_confint(TABLE, **noisy)) == (-1.0, 1.0)
    assert tuple(odds_ratio_confint(TABLE, **noisy)) == (0.0, np.inf)


def test_small_counts_give_the_whole_range():
    table = [[1.0, -2.0], [30.0, 170.0]]
    noise = Laplace(scale=2.0)
    for method in ("exact", "asymptotic"):
        interval = odds_ratio_confint(table, mechanism=noise, method=method)
        assert (interval.lower, interval.upper) == (0.0, np.inf)
    assert "outside (0, 1)" in interval.notes[1]
    assert tuple(risk_difference_confint(table, mechanism=noise, method="asymptotic")) == (
        -1.0,
        1.0,
    )


def test_many_tables_at_once():
    rng = np.random.default_rng(3)
    tables = TABLE + rng.laplace(size=(500, 2, 2))
    many = risk_ratio_confint(tables, mechanism=Laplace(scale=1.0), simultaneous=True)
    alone = risk_ratio_confint(
        tables[7], mechanism=Laplace(scale=1.0), alpha=-np.expm1(np.log(0.95) / 500)
    )
    np.testing.assert_allclose([many.lower[7], many.upper[7]], tuple(alone), rtol=1e-9)


@pytest.mark.parametrize("columns", [1, 2])
def test_noisy_totals_cover_noise_and_sampling(columns):
    # of 3 with .998 or more, none by accident with probability 1e-8
    rng, law, own = np.random.default_rng(4), Geometric(scale=1.0), Geometric(scale=2.0)
    sizes, risks = np.array([200, 300]), np.array([0.3, 0.2])
    events = rng.binomial(sizes, risks, (3, 2))
    tables = np.stack([events, sizes - events], axis=2) + law.rvs((3, 2, 2), rng=rng)
    found = risk_difference_confint(
        tables[..., :columns],
        mechanism=law,
        row_totals=sizes + own.rvs((3, 2), rng=rng),
        row_totals_mechanism=own,
        uncertainty="noise+sampling",
        alpha=0.002,
    )
    assert found.contains(0.1).any()


@pytest.mark.parametrize("measure", MEASURES)
def test_exact_totals_as_noisy_ones(measure):
    # the sum of cells without noise says the same
    given = {"mechanism": Exact(), "uncertainty": "noise+sampling"}
    own = {"row_totals": [200, 200], "row_totals_mechanism": Exact()}
    known = tuple(measure(TABLE, **given))
    for table in (TABLE, TABLE[:, :1]):
        np.testing.assert_allclose(tuple(measure(table, **own, **given)), known, rtol=1e-6)


@pytest.mark.parametrize("measure", MEASURES)
def test_noisy_totals_cover_noise(measure):
    # of 500 with .8 or more, below .685 by accident with probability 1e-9; of 7
    # with .95, none: 8e-10
    rng, law, own = np.random.default_rng(5), Laplace(scale=1.0), Laplace(scale=3.0)
    value = MEASURES[measure](0.3, 0.15)
    tables = TABLE + law.rvs((500, 2, 2), rng=rng)
    totals = 200.0 + own.rvs((500, 2), rng=rng)
    known = {"mechanism": law, "row_totals_mechanism": own, "alpha": 0.2}
    for method in ("exact", "asymptotic"):
        found = measure(tables[..., :1], row_totals=totals, method=method, **known)
        assert found.contains(value).mean() >= 0.685
    few = measure(tables[:7], row_totals=totals[:7], **known | {"alpha": 0.05})
    without = measure(tables[:7], mechanism=law, alpha=0.05)
    assert few.contains(value).sum() >= 1
    assert few.width.mean() < without.width.mean()


def test_noisy_totals_are_between_public_and_unknown_ones():
    table, totals = TABLE + 0.25, np.array([200.3, 199.8])
    law, own = Laplace(scale=1.0), Laplace(scale=0.5)
    for uncertainty in ("noise", "noise+sampling"):
        given = {"mechanism": law, "uncertainty": uncertainty}
        public = risk_difference_confint(table, row_totals=[200, 200], **given)
        noisy = risk_difference_confint(
            table, row_totals=totals, row_totals_mechanism=[own, own], **given
        )
        assert public.width < noisy.width < risk_difference_confint(table, **given).width
    # the first column alone: a rectangle of the two ratios
    alone = risk_difference_confint(
        table[:, :1], mechanism=law, row_totals=totals, row_totals_mechanism=own
    )
    low, high = ratio_confint(
        table[:, 0], totals, mechanism=(law, own), alpha=-np.expm1(np.log(0.95) / 2)
    )
    np.testing.assert_allclose(tuple(alone), [low[0] - high[1], high[0] - low[1]], rtol=1e-9)
    # totals that are all noise leave every value
    lost = {"row_totals": totals, "row_totals_mechanism": Laplace(scale=1e4)}
    for uncertainty in ("noise", "noise+sampling"):
        given = {"mechanism": law, "uncertainty": uncertainty}
        assert risk_difference_confint(table[:, :1], **lost, **given).width > 1.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"row_totals_mechanism": Laplace(scale=1.0)}, "without row_totals"),
        ({"table": np.ones((2, 1))}, "table must have the shape"),
        (
            {"row_totals": [3.0, 4.0], "row_totals_mechanism": [Laplace(scale=1.0)] * 3},
            "row_totals_mechanism",
        ),
        (
            {
                "table": np.full((61, 2, 2), 7.5),
                "row_totals": [15.5, 15.5],
                "row_totals_mechanism": Laplace(scale=1.0),
            },
            "at most 60 tables",
        ),
        (
            {
                "uncertainty": "noise+sampling",
                "row_totals": [15.5, 15.5],
                "row_totals_mechanism": Geometric(scale=1.0),
            },
            "row_totals must hold whole numbers",
        ),
        ({"table": np.ones((2, 3))}, "table"),
        ({"table": [[np.nan, 1], [1, 1]]}, "table"),
        ({"mechanism": Laplace(scale=[1.0, 2.0])}, "mechanism"),
        ({"row_totals": [1.0, 0.0]}, "row_totals"),
        ({"row_totals": [1.0, 2.0, 3.0]}, "row_totals"),
        ({"uncertainty": "noise+sampling", "row_totals": [2.5, 3.0]}, "row_totals"),
        (
            {
                "uncertainty": "noise+sampling",
                "table": [[1.5, 2.0], [3.0, 4.0]],
                "mechanism": Geometric(scale=1.0),
            },
            "whole numbers",
        ),
        ({"uncertainty": "noise+sampling", "table": np.ones((501, 2, 2))}, "at most 500 tables"),
        ({"uncertainty": "noise+sampling", "table": np.full((2, 2), 1e40)}, "sum to less"),
        ({"uncertainty": "all"}, "uncertainty"),
        ({"alpha": 0}, "alpha"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        risk_ratio_confint(**({"table": TABLE, "mechanism": Laplace(scale=1.0)} | arguments))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([-3.0, 0.0, 1.0, 5.0, 1e150, -1e9]), min_size=4, max_size=4),
    st.sampled_from([Laplace(scale=1.0), Geometric(scale=1.0), Exact(), Gaussian(sigma=1e-80)]),
    st.sampled_from(list(MEASURES)),
    st.sampled_from(["exact", "asymptotic"]),
    st.sampled_from(["noise", "noise+sampling"]),
    st.sampled_from([None, [3.0, 5.0], [1e-100, 1e100]]),
)
def test_any_arguments(cells, noise, measure, method, uncertainty, totals):
    table = np.reshape(cells, (2, 2))
    try:
        interval = measure(
            table, mechanism=noise, method=method, uncertainty=uncertainty, row_totals=totals
        )
    except DPInferError:
        return
    assert not np.isnan([interval.estimate, interval.lower, interval.upper]).any()
    assert not np.isnan(interval.width)
