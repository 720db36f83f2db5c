"""Indices: without noise the published values; with noise, unbiased or covered."""

import numpy as np
import pandas as pd
import pytest
from people import NEEDS_DATA, people
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions import (
    dissimilarity_confint,
    entropy,
    exposure,
    gini_confint,
    herfindahl,
    herfindahl_confint,
    information_index,
    isolation,
    location_quotient_confint,
)

RNG = np.random.default_rng(23)
BLACK, WHITE = RNG.poisson(8, (2, 12)), RNG.poisson(15, (2, 12))
EXACT = dpi.Exact()
LAW = dpi.Geometric(scale=2.0)


def by_hand(b, w):
    """Return D, G, Theil's H and the isolation of two groups, from their definitions."""
    p, q, t = b / b.sum(), w / w.sum(), b + w
    share, whole = b / np.maximum(t, 1), b.sum() / t.sum()

    def own(x):
        return -sum(y * np.log(np.where(y > 0, y, 1.0)) for y in (x, 1 - x))

    gaps = np.abs(share[:, np.newaxis] - share) * t[:, np.newaxis] * t
    return {
        "D": 0.5 * np.abs(p - q).sum(),
        "G": gaps.sum() / (2 * t.sum() ** 2 * whole * (1 - whole)),
        "H": (t * (own(whole) - own(share))).sum() / (own(whole) * t.sum()),
        "P": (p * share).sum(),
    }


@pytest.mark.parametrize("area", [0, 1])
def test_without_noise_they_are_the_definitions(area):
    b, w = BLACK[area], WHITE[area]
    b[3] = w[3] = w[5] = 0
    hand = by_hand(b, w)
    for name, call in (("D", dissimilarity_confint), ("G", gini_confint)):
        found = call(b, w, mechanism=EXACT)
        np.testing.assert_allclose(
            [found.estimate, found.lower, found.upper, found.plug_in], hand[name], rtol=1e-12
        )
    assert information_index((b, w), mechanism=EXACT).params == pytest.approx(hand["H"], rel=1e-12)
    assert isolation(b, w, mechanism=EXACT).params == pytest.approx(hand["P"], rel=1e-12)
    assert exposure(b, w, mechanism=EXACT).params == pytest.approx(1 - hand["P"], rel=1e-12)
    p = b / b.sum()
    assert herfindahl(b, mechanism=EXACT).params == pytest.approx((p**2).sum(), rel=1e-12)
    found = entropy(b, mechanism=EXACT).params
    assert found == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), rel=1e-12)


@NEEDS_DATA
def test_published_values():
    """Those that PySAL segregation 2.5.4 gives for 28 block groups, 7 tracts and 354 blocks."""
    cells = people("Block_Group")
    b, w, h = (cells[name].to_numpy() for name in ("black", "white", "hispanic"))
    assert dissimilarity_confint(b, w, mechanism=EXACT).lower == pytest.approx(
        0.3857836334, abs=1e-10
    )
    assert dissimilarity_confint(h, w, mechanism=EXACT).lower == pytest.approx(
        0.4249533057524233, abs=1e-10
    )
    assert gini_confint(b, w, mechanism=EXACT).upper == pytest.approx(0.5319385255, abs=1e-10)
    two = information_index((b, w), mechanism=EXACT).params
    assert two == pytest.approx(0.1851927858, abs=1e-10)
    four = information_index(tuple(cells.to_numpy().T), mechanism=EXACT).params
    assert four == pytest.approx(0.0985902575, abs=1e-10)
    totals = cells.sum()
    assert herfindahl(totals, mechanism=EXACT).params == pytest.approx(0.3912659624, abs=1e-10)
    assert entropy(totals, mechanism=EXACT).params == pytest.approx(1.1441565203, abs=1e-10)
    for level, *values in (
        ("Tract", 0.34224154030371046, 0.460306786432262, 0.1313118529579732, 0.6399411759051805),
        ("Block", 0.8209438437041892, 0.9545212488724678, 0.7391083731130803, 0.895084263201389),
    ):
        cells = people(level)
        pair = cells["black"].to_numpy(), cells["white"].to_numpy()
        found = [
            dissimilarity_confint(*pair, mechanism=EXACT).estimate,
            gini_confint(*pair, mechanism=EXACT).estimate,
            information_index(pair, mechanism=EXACT).params,
            isolation(*pair, mechanism=EXACT).params,
        ]
        assert found == pytest.approx(values, abs=1e-10)
    four = information_index(tuple(people("Block").to_numpy().T), mechanism=EXACT).params
    assert four == pytest.approx(0.5230493552573161, abs=1e-10)


def is_unbiased(found, truth):
    """Whether the mean is within 4.5 standard errors, which it misses by chance in 1 of 10⁵."""
    found = np.asarray(found.params)
    return abs(found.mean() - truth) < 4.5 * found.std() / np.sqrt(found.size)


@pytest.mark.parametrize("law", [LAW, dpi.Laplace(scale=2.0)], ids=repr)
def test_with_noise_they_are_unbiased(law):
    b, w = BLACK[0], WHITE[0]
    y, z = (f + law.rvs((4000, 12), rng=seed) for seed, f in enumerate((b, w)))
    hand, size, sizes = by_hand(b, w), b.sum(), (b.sum(), w.sum())
    assert is_unbiased(information_index((y, z), totals=sizes, mechanism=law), hand["H"])
    assert is_unbiased(isolation(y, z, total=size, mechanism=law), hand["P"])
    assert is_unbiased(exposure(y, z, total=size, mechanism=law), 1 - hand["P"])
    shares = b / size
    assert is_unbiased(herfindahl(y, total=size, mechanism=law), (shares**2).sum())
    found = entropy(y, total=size, mechanism=law)
    assert is_unbiased(found, -np.sum(shares * np.log(np.where(shares > 0, shares, 1))))
    # the plug-in values are far off, and the variances right to a tenth
    bias = abs(found.plug_in.mean() - found.params.mean())
    assert bias > 10 * found.params.std() / np.sqrt(4000)
    assert found.variance.mean() == pytest.approx(found.params.var(), rel=0.1)


LAWS = {
    "small": (dpi.DiscreteGaussian(sigma=2.0), 1),
    "large": (dpi.Laplace(scale=10.0), 2),
    "of two laws": ((dpi.Geometric(scale=3.0), dpi.Gaussian(sigma=1.0)), 3),
}


def test_a_noisy_total_leaves_the_formula_of_fieller():
    """The ends are where the error of T - rD, whose variance is known, is z standard errors."""
    y, sigma = np.array([[120.0, 64.0, 16.0, 3.0], [45.0, 40.0, 41.0, 40.0]]), 2.0
    found = herfindahl_confint(y, mechanism=dpi.Gaussian(sigma=sigma))
    v, k = sigma**2, y.shape[1]
    total = y.sum(axis=1)
    for r in (found.lower, found.upper):
        error = (y**2 - v).sum(axis=1) - r * (total**2 - k * v)
        # slopes 2f - 2rN in the noise, and what its squares add, which have the matrix I - r11'
        slopes = 4 * v * (y - r[:, None] * total[:, None]) ** 2
        bias = 4 * v**2 * ((1 - r) ** 2 + (k - 1) * r**2)
        bend = 2 * v**2 * (k * (1 - r) ** 2 + k * (k - 1) * r**2)
        variance = slopes.sum(axis=1) - k * bias + bend
        inside = (found.lower > 1 / k) & (found.upper < 1)
        assert inside[0]
        ratio = np.abs(error) / np.sqrt(variance)
        np.testing.assert_allclose(ratio[inside], stats.norm.isf(0.025), rtol=1e-8)


@pytest.mark.parametrize("law", [dpi.Geometric(scale=2.0), dpi.DiscreteGaussian(sigma=3.0)])
def test_intervals_with_a_noisy_total_cover(law):
    """In 94.4 to 95.3 % of 4,000 areas; below 0.915 of 2,000 by chance in fewer than 1 of 10⁷."""
    for f in (np.array([120, 64, 16]), np.r_[300, np.full(60, 2)]):
        y = f + law.rvs((2000, len(f)), rng=7)
        found = herfindahl_confint(y, mechanism=law)
        truth = (f**2).sum() / f.sum() ** 2
        assert np.mean((found.lower <= truth) & (truth <= found.upper)) > 0.915
    exact = herfindahl_confint([3, 2, 5], mechanism=EXACT)
    assert [exact.lower, exact.estimate, exact.upper] == pytest.approx([0.38] * 3, rel=1e-12)
    with pytest.raises(NotEstimableError, match="away from 0"):
        herfindahl_confint([3, -2, 1], mechanism=law)


@pytest.mark.parametrize("case", LAWS)
def test_dissimilarity_is_covered(case):
    """Of 700 intervals of level 0.9, at least 590: fewer by chance in 1 of 10⁴ at most.

    Draws are shared by all areas, which makes the share that one call covers vary by 0.01 more:
    700 · (0.9 - 3.8 · hypot(0.0113, 0.0095)) is 590 for 999 draws.
    """
    laws, seed = LAWS[case]
    each = laws if isinstance(laws, tuple) else (laws, laws)
    b, w = BLACK[1], WHITE[1]
    rng = np.random.default_rng(seed)
    y, z = (f + law.rvs((700, 12), rng=rng) for law, f in zip(each, (b, w), strict=True))
    hand = by_hand(b, w)
    common = {"totals": (b.sum(), w.sum()), "mechanism": laws, "alpha": 0.1, "rng": seed}
    for signs in (None, np.tile(RNG.choice([-1, 1], 12), (700, 1))):
        found = dissimilarity_confint(y, z, signs=signs, **common)
        assert found.contains(hand["D"]).sum() >= 590
        assert (found.lower >= 0).all()
        assert (found.upper <= 1).all()
    wide = gini_confint(y, z, **common)
    assert wide.contains(hand["G"]).sum() >= 590
    assert found.estimate.mean() > hand["D"]
    assert found.guarantee == "proved, conservative"


@pytest.mark.parametrize("totals", ["sums", "published", "one of them"])
def test_dissimilarity_of_noisy_totals_is_covered(totals):
    """Of 100 at level 0.8, at least 60: fewer by chance in 1 of 10⁵ if they covered in 0.8.

    They cover in more than 0.97 of cases, also where counts are small next to the noise.
    """
    rng = np.random.default_rng(4)
    for law, b, w in (
        (dpi.Geometric(scale=2.0), BLACK[1] * 4, WHITE[1] * 4),
        (dpi.Gaussian(sigma=3.0), np.array([2, 0, 5]), np.array([0, 3, 3])),
        (dpi.Laplace(scale=np.tile([1.0, 4.0], (100, 6))), BLACK[1] * 4, WHITE[1] * 4),
    ):
        y, z = (f + law.rvs((100, len(f)), rng=rng) for f in (b, w))
        given = None
        if totals != "sums":
            own = dpi.Laplace(scale=5.0)
            given = tuple(dpi.noisy(f.sum() + own.rvs(100, rng=rng), mechanism=own) for f in (b, w))
        if totals == "one of them":
            given = (b.sum(), given[1])
        common = {"mechanism": (law, law), "totals": given, "alpha": 0.2, "reps": 199, "rng": rng}
        truth = by_hand(b, w)["D"]
        signs = np.tile(np.where(b / b.sum() > w / w.sum(), 1, -1), (100, 1))
        for pattern in (None, signs):
            found = dissimilarity_confint(y, z, signs=pattern, **common)
            assert found.contains(truth).sum() >= 60
            assert (found.lower <= found.estimate).all()
            assert (found.estimate <= found.upper).all()
    assert "noisy" in found.notes[1]


def test_noisy_totals_by_brute_force():
    """Ends over a grid of totals and over other draws, within 5 % of the width."""
    law, rng = dpi.Geometric(scale=3.0), np.random.default_rng(6)
    b, w = BLACK[1] * 10, WHITE[1] * 10
    found = dissimilarity_confint(b, w, mechanism=law, reps=9999, rng=1)
    e, u = law.rvs((2, 20000, 12), rng=rng)
    reach = np.quantile(np.abs(e.sum(axis=1)), 0.995)
    grid = np.linspace(-reach, reach, 21)
    ends = []
    e, u = (one - one.mean(axis=1, keepdims=True) for one in (e, u))
    first, second = b - b.mean(), w - w.mean()
    for size, other in ((b.sum() + one, w.sum() + two) for one in grid for two in grid):
        ends.append(0.5 * np.abs(first / size - second / other).sum())
    size, other = b.sum() - reach, w.sum() - reach
    sums = [(e / size - u / other)[:, :k].sum(axis=1) for k in range(1, 12)]
    upper = max(ends) + max(np.quantile(one, 0.98) for one in sums)
    lower = min(ends) - np.quantile(0.5 * np.abs(e / size - u / other).sum(axis=1), 0.98)
    assert found.upper == pytest.approx(upper, abs=0.05 * found.width)
    assert found.lower == pytest.approx(lower, abs=0.05 * found.width)
    small = dissimilarity_confint(b, w, mechanism=dpi.Geometric(scale=0.01), rng=1)
    assert list(small) == pytest.approx([by_hand(b, w)["D"]] * 2, rel=1e-12)
    assert gini_confint(b, w, mechanism=law, rng=1).contains(by_hand(b, w)["G"])


def test_true_signs_raise_the_lower_end():
    b, w = BLACK[1], WHITE[1]
    y, z = (f + LAW.rvs((200, 12), rng=seed) for seed, f in enumerate((b, w)))
    common = {"totals": (b.sum(), w.sum()), "mechanism": LAW, "rng": 1}
    signs = np.where(b / b.sum() > w / w.sum(), 1, -1)
    plain = dissimilarity_confint(y, z, **common)
    sharper = dissimilarity_confint(y, z, signs=np.tile(signs, (200, 1)), **common)
    assert sharper.lower.mean() > plain.lower.mean()
    assert sharper.contains(by_hand(b, w)["D"]).mean() > 0.9
    np.testing.assert_array_equal(sharper.upper, plain.upper)


def test_dissimilarity_of_swapped_groups_and_permuted_cells():
    b, w, order = BLACK[0], WHITE[0], RNG.permutation(12)
    common = {"mechanism": dpi.Gaussian(sigma=1.0), "reps": 9999, "rng": 1}
    first = dissimilarity_confint(b + 0.5, w + 0.25, totals=(90, 170), **common)
    for found in (
        dissimilarity_confint(w + 0.25, b + 0.5, totals=(170, 90), **common),
        dissimilarity_confint(b[order] + 0.5, w[order] + 0.25, totals=(90, 170), **common),
    ):
        assert found.estimate == pytest.approx(first.estimate, rel=1e-12)
        np.testing.assert_allclose(np.asarray(found), np.asarray(first), atol=0.01)


def test_areas_by_label():
    labels = pd.MultiIndex.from_product([["n", "s"], range(12)], names=["area", "cell"])
    b, w = (pd.Series(f.ravel(), index=labels) for f in (BLACK, WHITE))
    sizes = tuple(f.groupby("area").sum() for f in (b, w))
    index = information_index((b, w), totals=sizes, by="area", mechanism=LAW)
    plain = information_index((BLACK, WHITE), totals=tuple(map(np.array, sizes)), mechanism=LAW)
    assert list(index.params.index) == ["n", "s"]
    np.testing.assert_allclose(index.params, plain.params)
    found = dissimilarity_confint(b, w, totals=sizes, by="area", mechanism=LAW, rng=1)
    same = dissimilarity_confint(
        BLACK, WHITE, totals=tuple(map(np.array, sizes)), mechanism=LAW, rng=1
    )
    np.testing.assert_allclose(found.lower, same.lower)
    assert list(found.summary_frame().columns)[-1] == "plug_in"
    assert found["s"].plug_in == same.plug_in[1]


def test_laws_of_each_cell():
    scales = np.linspace(0.1, 1.0, 12)
    law = dpi.Laplace(scale=scales)
    b, w = BLACK[0] + 0.5, WHITE[0] + 0.25
    found = dissimilarity_confint(b, w, totals=(90, 170), mechanism=law, reps=9999, rng=1)
    delta = np.random.default_rng(5).laplace(scale=scales, size=(2, 20000, 12))
    delta = delta[0] / 90 - delta[1] / 170
    upper = np.quantile(0.5 * delta.sum(axis=1), 0.975)
    lower = np.quantile(0.5 * np.abs(delta).sum(axis=1), 0.975)
    assert found.upper - found.estimate == pytest.approx(upper, rel=0.05)
    assert found.estimate - found.lower == pytest.approx(lower, rel=0.05)


def test_location_quotients_are_scaled_shares():
    """Of 400 at level 0.9, 328 or more: fewer by chance in 1 of 10⁶."""
    x, w = 30 + LAW.rvs(400, rng=1), 50 + LAW.rvs(400, rng=2)
    found = location_quotient_confint(x, w, totals=(100, 300), mechanism=LAW, alpha=0.1)
    share = dpi.share_confint(x, w, mechanism=LAW, alpha=0.1)
    np.testing.assert_allclose(found.upper, 4.0 * np.minimum(share.upper, 1.0), rtol=1e-12)
    assert found.contains(30 / 80 / (100 / 400)).sum() >= 328
    exact = location_quotient_confint([30, 0], [50, 10], totals=(30, 60), mechanism=EXACT)
    np.testing.assert_allclose(exact.estimate, [30 / 80 * 3, 0.0], rtol=1e-12)
    with pytest.raises(InvalidParameterError, match="totals"):
        location_quotient_confint(x, w, totals=(0, 300), mechanism=LAW)


SHARED = dpi.noisy(BLACK[0], mechanism=LAW)
REFUSED = {
    "too few draws for noisy totals": {"totals": None, "reps": 198},
    "a total that shares noises": {"group": SHARED, "mechanism": (None, LAW)}
    | {"totals": (SHARED.linear(np.ones((1, 12))), 170)},
    "one total": {"totals": (90,)},
    "a total of 0": {"totals": (90, 0)},
    "lengths": {"other": [3, 4]},
    "signs": {"signs": np.zeros(12)},
    "too few draws": {"reps": 38},
    "a threshold": {"group": dpi.Release(BLACK[0], mechanism=LAW, threshold=0), "mechanism": None},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call = {"group": BLACK[0], "other": WHITE[0], "totals": (90, 170), "mechanism": LAW}
    with pytest.raises(InvalidParameterError):
        dissimilarity_confint(**call | REFUSED[name])


def test_indices_refuse_what_has_no_unbiased_estimate():
    with pytest.raises(InvalidParameterError, match="total must be given"):
        entropy(BLACK[0], mechanism=LAW)
    with pytest.raises(InvalidParameterError, match="geometric and Laplace"):
        entropy(BLACK[0], total=90, mechanism=dpi.DiscreteGaussian(sigma=2.0))
    with pytest.raises(InvalidParameterError, match="totals must be a tuple"):
        information_index((BLACK[0], WHITE[0]), totals=(90,), mechanism=LAW)
    assert herfindahl(BLACK[0], total=90, mechanism=dpi.DiscreteGaussian(sigma=2.0)).params > 0
