"""Life tables: a published one without noise, coverage with it, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from speed import gain

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import life_table_confint

# males, Austria, 1992: Preston, Heuveline and Guillot (2001), box 3.1
PERSONS = np.fromstring(
    "47925 189127 234793 238790 254996 326831 355086 324222 269963 261971 238011 261612 181385 "
    "187962 153832 105169 73694 57512 32248",
    sep=" ",
)
DEATHS = np.fromstring(
    "419 70 36 46 249 420 403 441 508 769 1154 1866 2043 3496 4366 4337 5279 6460 6146", sep=" "
)
LIVED = np.fromstring(
    "0.068 1.626 2.5 3.143 2.724 2.52 2.481 2.601 2.701 2.663 2.698 2.676 2.645 2.624 2.619 2.593 "
    "2.518 2.423",
    sep=" ",
)
AGES = np.r_[0, 1, np.arange(5, 90, 5)]


def by_hand(deaths, persons):
    """Return d, e, l and q age by age, of 100,000 born."""
    alive, q, lives, years = 1.0, [], [], []
    for k in range(len(deaths) - 1):
        n, m = AGES[k + 1] - AGES[k], deaths[k] / persons[k]
        q.append(n * m / (1 + (n - LIVED[k]) * m))
        lives.append(alive)
        years.append(n * alive * (1 - q[k]) + LIVED[k] * alive * q[k])
        alive *= 1 - q[k]
    q, lives = np.array([*q, 1.0]), np.array([*lives, alive])
    left = np.cumsum([*years, alive * persons[-1] / deaths[-1]][::-1])[::-1]
    return np.array([1e5 * lives * q, left / lives, 1e5 * lives, q])


def test_without_noise_it_is_the_published_one():
    found = life_table_confint(DEATHS, PERSONS, AGES, ax=LIVED, mechanism=dpi.Exact())
    truth = by_hand(DEATHS, PERSONS)
    for column in (found.estimate, found.lower, found.upper, found.plug_in):
        np.testing.assert_allclose(np.reshape(column, (4, -1)), truth, rtol=1e-12)
    assert found["e", 0.0].estimate == pytest.approx(72.889, abs=5e-4)
    assert found["q", 0.0].estimate == pytest.approx(0.008672, abs=1e-6)
    assert found["l", 85.0].estimate == pytest.approx(21134, abs=0.5)
    assert found.estimate.unstack("column").shape == (19, 4)  # noqa: PD010


@pytest.mark.thinned("method", "uncertainty", "law", every=2)
@pytest.mark.parametrize("method", ["bound", "asymptotic"])
@pytest.mark.parametrize("uncertainty", ["noise", "noise+sampling"])
@pytest.mark.parametrize(
    ("law", "part"),
    [(dpi.Geometric(scale=5.0), 1), (dpi.Gaussian(sigma=20.0), 1), (dpi.Laplace(scale=2.0), 100)],
    ids=["geometric", "Gaussian", "few deaths"],
)
def test_it_covers(law, part, uncertainty, method):
    """Of 120 at level 0.95 at least 96 for each number: fewer by chance in 1 of 10⁷.

    Asymptotic ones of few deaths in an age may cover less: 90 there.
    """
    rng = np.random.default_rng(part)
    rates, persons = DEATHS / PERSONS, PERSONS // part
    deaths = np.rint(rates * persons)
    truth = by_hand(deaths, persons)
    if uncertainty == "noise+sampling":
        truth = by_hand(rates * persons, persons)
        deaths = rng.poisson(rates * persons, (120, 19))
    y, z = deaths + law.rvs((120, 19), rng=rng), persons + law.rvs((120, 19), rng=rng)
    found = life_table_confint(
        y, z, AGES, ax=LIVED, mechanism=(law, law), uncertainty=uncertainty, method=method
    )
    low, high = (np.reshape(end, (120, 4, 19)) for end in found)
    covered = ((low <= truth * (1 + 1e-12)) & (truth * (1 - 1e-12) <= high)).sum(axis=0)
    assert covered.min() >= (96 if method == "bound" or part == 1 else 90)
    assert found.guarantee == ("proved, conservative" if method == "bound" else "asymptotic")


def test_one_rate_has_nearly_the_interval_of_its_deaths():
    """Of an exact population q rises with deaths alone: within 7 % of the interval of these."""
    law = dpi.Gaussian(sigma=4.0)
    found = life_table_confint([100.5, 60.5], [10000, 300], [0, 10], mechanism=(law, dpi.Exact()))
    ends = np.array(list(dpi.count_confint(100.5, mechanism=law)))
    wanted = 10 * ends / (10000 + 5 * ends)
    row = found["q", 0.0]
    assert row.lower <= wanted[0]
    assert wanted[1] <= row.upper
    assert row.width < 1.07 * np.diff(wanted)[0]


def test_areas_by_label_and_radix():
    index = pd.MultiIndex.from_product([["A", "B"], AGES], names=["area", "age"])
    deaths = pd.Series(np.r_[DEATHS, DEATHS // 2], index)
    persons = pd.Series(np.r_[PERSONS, PERSONS], index)
    found = life_table_confint(
        deaths, persons, AGES, by="area", mechanism=dpi.Gaussian(sigma=3.0), radix=1
    )
    assert found.labels.names == ["area", "column", "age"]
    assert found["B", "l", 0.0].estimate == 1.0
    alone = life_table_confint(DEATHS, PERSONS, AGES, mechanism=dpi.Gaussian(sigma=3.0))
    assert found["A", "e"].lower.to_numpy() == pytest.approx(alone["e"].lower.to_numpy(), rel=0.02)


def test_many_areas_are_quicker_than_one_by_one():
    law, persons = dpi.DiscreteGaussian(sigma=3.0), np.tile(PERSONS, (200, 1))
    deaths = np.tile(DEATHS, (200, 1))
    assert gain(lambda y: life_table_confint(y, persons[: len(y)], AGES, mechanism=law), deaths) > 5


def test_a_fit_brings_in_totals():
    law = dpi.Gaussian(sigma=30.0)
    queries = np.vstack([np.eye(6), np.repeat(np.eye(2), 3, axis=1)])
    truth = np.array([400, 300, 900, 90000, 70000, 20000])
    fit = dpi.noisy(
        dpi.combine(queries @ truth + law.rvs(8, rng=3), workload=queries, mechanism=law)
    )
    found = life_table_confint(fit.take(range(3)), fit.take(range(3, 6)), [0, 20, 60], alpha=1e-4)
    exact = life_table_confint(truth[:3], truth[3:], [0, 20, 60], mechanism=dpi.Exact())
    assert found.contains(np.asarray(exact.estimate)).all()


def test_what_is_not_known_is_left_open():
    law = dpi.Gaussian(sigma=3.0)
    found = life_table_confint([30.5, 20.5, 1.5], [9000.5, 4000.5, 5.5], [0, 30, 60], mechanism=law)
    assert np.isinf(found["e"].upper).all()
    assert (found["l"].lower > 0).all()
    assert "of 3 of 12 rows" in found.notes[0]
    with pytest.raises(NotEstimableError, match="merge ages"):
        life_table_confint([3.5, 2.5], [4.5, 1.5], [0, 30], mechanism=law)


REFUSED = {
    "ages": {"ages": [0, 5, 5]},
    "one age": {"ages": [0]},
    "number of ages": {"ages": [0, 5]},
    "ax": {"ax": [1.0, 30.0]},
    "length of ax": {"ax": [1.0]},
    "persons": {"population": [100, 0, 20], "mechanism": dpi.Exact()},
    "radix": {"radix": 0},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"deaths": [3, 4, 5], "population": [100, 90, 20], "ages": [0, 5, 20]}
    with pytest.raises(InvalidParameterError):
        life_table_confint(**{"mechanism": dpi.Geometric(scale=1.0)} | call | REFUSED[name])
