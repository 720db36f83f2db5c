import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.intervals import (
    odds_ratio_confint,
    ratio_confint,
    relative_change_confint,
    risk_difference_confint,
    risk_ratio_confint,
    share_confint,
)
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Tulap,
    WeightedSum,
)


def fieller(y1, y2, v1, v2, alpha=0.05):
    """The roots of (y1 - r y2)² = z²(v1 + r² v2), as textbooks have them."""
    z2 = stats.norm.isf(alpha / 2) ** 2
    a, b, c = y2**2 - z2 * v2, y1 * y2, y1**2 - z2 * v1
    discriminant = b * b - a * c
    if discriminant <= 0:
        return "line", -np.inf, np.inf
    ends = np.sort((b + np.array([-1, 1]) * np.sqrt(discriminant)) / a)
    return ("interval" if a > 0 else "complement"), *ends


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_gaussian_noise_gives_the_textbook_formula(method):
    rng = np.random.default_rng(1)
    y1, y2 = rng.normal(size=(2, 300)) * 8
    noise = (Gaussian(sigma=1.0), Gaussian(sigma=3.0))
    sets = ratio_confint(y1, y2, mechanism=noise, method=method)
    wanted = [fieller(*pair, 1.0, 9.0) for pair in zip(y1, y2, strict=True)]
    assert list(sets.kind) == [kind for kind, _, _ in wanted]
    np.testing.assert_allclose(sets.lower, [low for _, low, _ in wanted], rtol=1e-9)
    np.testing.assert_allclose(sets.upper, [high for _, _, high in wanted], rtol=1e-9)
    assert set(sets.kind) == {"interval", "complement", "line"}


def laplace_tail(x, b, c):
    """P(abs(bE₁ - cE₂) >= x) for standard Laplace noises, from its partial fractions."""
    return (b * b * np.exp(-x / b) - c * c * np.exp(-x / c)) / (b * b - c * c)


def test_laplace_sets_hold_what_a_grid_of_ratios_accepts():
    rng = np.random.default_rng(2)
    y1, y2 = rng.normal(size=(2, 200)) * 10
    sets = ratio_confint(y1, y2, mechanism=(Laplace(scale=1.3), Laplace(scale=2.1)))
    angles = np.linspace(-1.57, 1.57, 1501)
    for r in np.tan(angles):
        p_value = laplace_tail(np.abs(y1 - r * y2), 1.3, abs(r) * 2.1 + 1e-300)
        np.testing.assert_array_equal(sets.contains(r), p_value > 0.05)
    assert set(sets.kind) == {"interval", "complement", "line"}


@pytest.mark.thinned("noise", "alpha", every=2)
@pytest.mark.parametrize(
    "noise",
    [
        (Laplace(scale=1.0), Laplace(scale=1.0)),
        (Laplace(scale=0.01), Laplace(scale=50.0)),
        (Laplace(scale=2.0), Gaussian(sigma=1.0)),
        (Gaussian(sigma=30.0), Laplace(scale=1.0)),
    ],
)
@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-6])
def test_ends_satisfy_their_equation(noise, alpha):
    y = np.array([[400.0, 700.0], [60.0, -1e9], [-1e5, 90.0], [20.0, 3.0]])
    sets = ratio_confint(*y.T, mechanism=noise, alpha=alpha)
    for row, (y1, y2) in enumerate(y):
        for r in {sets.lower[row], sets.upper[row]} - {np.inf, -np.inf}:
            error = WeightedSum([1.0, -r], list(noise))
            # relative to the ratio, the equation is solved to 1e-9
            slack = 1e-9 * max(abs(r * y2), float(error.std))
            d = abs(y1 - r * y2)
            assert 2 * error.sf(d + slack) <= alpha <= 2 * error.sf(max(d - slack, 0.0))


def test_little_noise_leaves_the_ratio():
    sets = ratio_confint(3.0, 7.0, mechanism=Laplace(scale=1e-9))
    assert sets.lower < 3 / 7 < sets.upper
    assert sets.width < 1e-8


def direct_p_value(noise, r, d, reach):
    """P(abs(e₁ - r·e₂) >= d), all pairs of values counted."""
    k = np.arange(-reach, reach + 1)
    joint = np.multiply.outer(noise[0].pmf(k), noise[1].pmf(k))
    error = np.abs(np.subtract.outer(k, r * k))
    # rounding must not lose an atom at d
    return joint[error >= d - 1e-9].sum()


WHOLE = [
    (Geometric(scale=0.4), Geometric(scale=0.4)),
    (Geometric(scale=1.0), Geometric(scale=2.0)),
    (DiscreteGaussian(sigma=1.5), Geometric(scale=0.8)),
    (Geometric(scale=1e-3), Geometric(scale=1.0)),
]


@pytest.mark.thinned("noise", "alpha", every=2)
@pytest.mark.parametrize("noise", WHOLE)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_whole_numbered_noise_covers_by_enumeration(noise, alpha):
    k = np.arange(-40, 41)
    joint = np.multiply.outer(noise[0].pmf(k), noise[1].pmf(k)).ravel()
    e1, e2 = (part.ravel() for part in np.meshgrid(k, k, indexing="ij"))
    used = joint > 1e-13
    for f1, f2 in [(0, 1), (1, 1), (1, 3), (2, 1), (-3, 5), (7, 2), (40, 60), (13, 1)]:
        sets = ratio_confint(f1 + e1[used], f2 + e2[used], mechanism=noise, alpha=alpha)
        covered = joint[used][sets.contains(f1 / f2)].sum()
        assert covered >= 1 - alpha - 1e-10


@pytest.mark.parametrize("noise", WHOLE)
def test_whole_numbered_sets_hold_all_that_is_accepted(noise):
    rng = np.random.default_rng(4)
    y1, y2 = rng.integers(-12, 13, size=(2, 16))
    sets = ratio_confint(y1, y2, mechanism=noise)
    simple = np.unique([p / q for p in range(-6, 7) for q in range(1, 7)])
    for r in np.concatenate([simple, np.tan(rng.uniform(-1.55, 1.55, 15))]):
        p_value = [direct_p_value(noise, r, d, 45) for d in np.abs(y1 - r * y2)]
        accepted = np.array(p_value) > 0.05 + 1e-12
        assert sets.contains(r)[accepted].all()
    # and no more than need be: just beyond an end there is something rejected
    for row in np.flatnonzero(np.isfinite(sets.lower)):
        between = sets.kind[row] == "complement"
        for end, side in ((sets.lower[row], -1), (sets.upper[row], 1)):
            if np.isinf(end):
                continue
            beyond = end + side * (-1 if between else 1) * 1e-7 * max(1.0, abs(end))
            d = abs(y1[row] - beyond * y2[row])
            assert direct_p_value(noise, beyond, d, 45) <= 0.05 + 1e-12


def test_ends_at_fractions_are_the_same_floats():
    # rational numbers round to the same floats, however they come about
    k = np.arange(-8, 9)
    e1, e2 = (part.ravel() for part in np.meshgrid(k, k, indexing="ij"))
    sets = ratio_confint(3 + e1, 7 + e2, mechanism=Geometric(scale=1.0))
    assert (sets.lower == 3 / 7).any() | (sets.upper == 3 / 7).any()


@pytest.mark.parametrize(
    "noise",
    [
        (Geometric(scale=60.0), Geometric(scale=45.0)),
        (Geometric(scale=2.0), Laplace(scale=3.0)),
        (DiscreteGaussian(sigma=40.0), Geometric(scale=1.0)),
        (Gaussian(sigma=2.0), DiscreteGaussian(sigma=1.1)),
    ],
)
def test_bounded_noise_is_a_little_wider_than_need_be(noise):
    scale = [float(law.std) for law in noise]
    y1, y2 = np.rint([30 * scale[0], 20 * scale[1]])
    sets = ratio_confint(y1, y2, mechanism=noise)
    for r in sets:
        error = WeightedSum([1.0, -r], list(noise))
        assert error.cdf(-abs(y1 - r * y2)) <= 0.025
        assert error.cdf(-0.75 * abs(y1 - r * y2)) > 0.025


@pytest.mark.thinned("noise", "values", every=2)
@pytest.mark.parametrize(
    "noise",
    [Laplace(scale=1.0), Geometric(scale=12.0), (Laplace(scale=1.0), DiscreteGaussian(sigma=2.0))],
)
@pytest.mark.parametrize("values", [(3.0, 1.0), (50.0, 2.0), (0.0, 4.0), (5.0, -20.0)])
def test_simulated_coverage(noise, values):
    rng = np.random.default_rng(5)
    laws = noise if isinstance(noise, tuple) else (noise, noise)
    y1, y2 = (value + law.rvs(10_000, rng=rng) for value, law in zip(values, laws, strict=True))
    covered = ratio_confint(y1, y2, mechanism=noise, alpha=0.1).contains(values[0] / values[1])
    bound = 6 * np.sqrt(0.09 / 10_000)  # six standard deviations: 1e-9 for each of the 12
    assert covered.mean() >= 0.9 - bound
    if noise == Laplace(scale=1.0):
        assert covered.mean() <= 0.9 + bound


@pytest.mark.parametrize(
    "reps",
    [pytest.param(3000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.study)],
)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
@pytest.mark.parametrize(
    "noise",
    [
        (Laplace(scale=1.0), Laplace(scale=1.0)),
        (Laplace(scale=10.0), Laplace(scale=0.1)),
        (Laplace(scale=2.0), Gaussian(sigma=2.0)),
        (Geometric(scale=1.0), Geometric(scale=1.0)),
        (Geometric(scale=10.0), Geometric(scale=3.0)),
        (Geometric(scale=60.0), DiscreteGaussian(sigma=50.0)),
        (DiscreteGaussian(sigma=1.0), DiscreteGaussian(sigma=1.0)),
        (Geometric(scale=1.0), Laplace(scale=1.0)),
    ],
)
def test_coverage_on_a_grid(noise, alpha, reps):
    rng = np.random.default_rng(9)
    # six standard deviations: 1e-9 for each of the 24 × 20
    bound = 6 * np.sqrt(alpha * (1 - alpha) / reps)
    for row, f1 in enumerate((0, 1, 7, 100)):
        for column, f2 in enumerate((1, -3, 15, 90, 1000)):
            if reps < 100_000 and (row + column) % 2 == (alpha == 0.05):
                continue  # each second pair of counts, the others at the next level
            y1, y2 = (f + law.rvs(reps, rng=rng) for f, law in zip((f1, f2), noise, strict=True))
            covered = ratio_confint(y1, y2, mechanism=noise, alpha=alpha).contains(f1 / f2).mean()
            assert covered >= 1 - alpha - bound
            if not any(law.is_integer for law in noise):
                assert covered <= 1 - alpha + bound


@pytest.mark.parametrize(
    "noise",
    [
        (Laplace(scale=1.0), Laplace(scale=4.0)),
        (Gaussian(sigma=1.0), Laplace(scale=2.0)),
        (Geometric(scale=1.0), Geometric(scale=2.0)),
        (Geometric(scale=7.0), Geometric(scale=7.0)),
        (Geometric(scale=90.0), Geometric(scale=2.0)),
        (Exact(), Laplace(scale=2.0)),
    ],
)
def test_swapped_values_have_the_inverse_set(noise):
    rng = np.random.default_rng(6)
    y1, y2 = np.rint(rng.normal(size=(2, 300)) * 10 * float(noise[1].std))
    there = ratio_confint(y1, y2, mechanism=noise)
    back = ratio_confint(y2, y1, mechanism=noise[::-1])
    for r in np.tan(rng.uniform(-1.57, 1.57, 40)):
        np.testing.assert_array_equal(there.contains(r), back.contains(1 / r))
    mirrored = ratio_confint(-y1, y2, mechanism=noise)
    np.testing.assert_allclose(mirrored.lower, -there.upper, rtol=1e-9)


def test_values_published_as_they_are():
    noise = (Laplace(scale=2.0), Exact())
    half = 2.0 * np.log(20)
    lower, upper = ratio_confint([10.0, 10.0], [4.0, -4.0], mechanism=noise)
    np.testing.assert_allclose(lower, [(10 - half) / 4, -(10 + half) / 4], rtol=1e-12)
    np.testing.assert_allclose(upper, [(10 + half) / 4, -(10 - half) / 4], rtol=1e-12)
    sets = ratio_confint([10.0, 1.0], 0.0, mechanism=noise)
    assert list(sets.kind) == ["empty", "line"]
    assert list(sets.empty) == [True, False]
    sets = ratio_confint([3.0, 3.0, 0.0], [4.0, 0.0, 0.0], mechanism=Exact())
    assert list(sets.kind) == ["interval", "empty", "line"]
    assert sets.lower[0] == sets.upper[0] == 0.75
    assert list(sets.estimate) == [0.75, np.inf, 0.0]
    sets = ratio_confint(0.0, [90.0, 1.0], mechanism=(Exact(), Laplace(scale=2.0)))
    assert list(sets.kind) == ["interval", "line"]
    assert sets.lower[0] == sets.upper[0] == 0.0


def test_each_row_may_have_its_own_law():
    y1, y2 = np.array([30.0, 40.0, 50.0, 60.0]), np.array([70.0, 80.0, 90.0, 95.0])
    first = [Laplace(scale=2.0), Geometric(scale=1.0), Geometric(scale=2.0), Tulap(scale=1.0)]
    second = Geometric(scale=[1.0, 2.0, 3.0, 4.0])
    together = ratio_confint(y1, y2, mechanism=(first, second))
    for row in range(4):
        alone = ratio_confint(y1[row], y2[row], mechanism=(first[row], second.take(row)))
        assert tuple(alone) == (together.lower[row], together.upper[row])


def test_shares_and_changes_are_functions_of_the_ratio():
    rng = np.random.default_rng(7)
    y1, y2 = rng.normal(size=(2, 200)) * 10
    noise = (Laplace(scale=1.0), Laplace(scale=2.0))
    ratios = ratio_confint(y1, y2, mechanism=noise)
    shares = share_confint(y1, y2, mechanism=noise)
    changes = relative_change_confint(y1, y2, mechanism=noise)
    for r in np.tan(rng.uniform(-1.57, 1.57, 50)):
        np.testing.assert_array_equal(ratios.contains(r), shares.contains(r / (1 + r)))
        np.testing.assert_array_equal(ratios.contains(r), changes.contains(r - 1))
    np.testing.assert_allclose(shares.estimate, y1 / (y1 + y2))
    totals = share_confint(y1, total=y2, mechanism=noise)
    np.testing.assert_array_equal(totals.lower, ratios.lower)
    kept = share_confint(30.0, 70.0, mechanism=noise).restrict(lower=0, upper=1)
    assert 0 < kept.lower < 0.3 < kept.upper < 1


def test_simultaneous_levels():
    noise = Laplace(scale=1.0)
    y1, y2 = np.array([5.0, 6.0, 7.0]), np.array([9.0, 8.0, 7.0])
    own = ratio_confint(y1, y2, mechanism=noise, simultaneous=True)
    each = ratio_confint(y1, y2, mechanism=noise, alpha=sidak(0.05, 3))
    np.testing.assert_array_equal(own.lower, each.lower)
    # the denominator is in every row: the union bound
    shared = ratio_confint(y1, 9.0, mechanism=noise, simultaneous=True)
    bound = ratio_confint(y1, 9.0, mechanism=noise, alpha=0.05 / 3)
    np.testing.assert_array_equal(shared.lower, bound.lower)
    assert shared.simultaneous


def test_labels_travel_and_match():
    new = pd.Series({"a": 60.0, "b": 30.0})
    old = pd.Series({"b": 100.0, "a": 200.0})
    sets = ratio_confint(new, old, mechanism=Laplace(scale=1.0))
    assert sets.estimate.to_dict() == {"a": 0.3, "b": 0.3}
    assert list(sets.summary_frame().index) == ["a", "b"]
    assert ratio_confint(5.0, old, mechanism=Laplace(scale=1.0)).lower.index.tolist() == ["b", "a"]
    with pytest.raises(InvalidParameterError, match="have the labels of numerator"):
        ratio_confint(new, old.rename({"a": "c"}), mechanism=Laplace(scale=1.0))
    twice = pd.Series([1.0, 2.0, 3.0], index=["a", "a", "b"])
    with pytest.raises(InvalidParameterError, match="distinct labels"):
        ratio_confint(twice, twice[::-1], mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="one length, or be scalars"):
        ratio_confint(new, np.ones((3, 2)), mechanism=Laplace(scale=1.0))
    # a law goes with its value
    turned = ratio_confint(new, old, mechanism=(Laplace(scale=1.0), Laplace(scale=[1.0, 2.0])))
    assert (
        turned.upper["a"]
        == ratio_confint(60, 200, mechanism=(Laplace(scale=1.0), Laplace(scale=2.0))).upper
    )
    grid = ratio_confint(np.ones((2, 3)), np.full((2, 3), 9.0), mechanism=Laplace(scale=0.1))
    assert grid.lower.shape == grid.kind.shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"numerator": [np.nan, 1.0]}, "numerator"),
        ({"numerator": []}, "numerator"),
        ({"denominator": 1e200}, "denominator"),
        ({"denominator": [1.0, 2.0, 3.0], "numerator": [1.0, 2.0]}, "one length"),
        ({"mechanism": 3.0}, "mechanism"),
        ({"mechanism": (Laplace(scale=1.0),) * 3}, "mechanism"),
        ({"mechanism": Laplace(scale=[1.0, 2.0, 3.0])}, "mechanism"),
        ({"alpha": 1.0}, "alpha"),
        ({"method": "wald"}, "method"),
        ({"simultaneous": 1}, "simultaneous"),
    ],
)
def test_bad_arguments(arguments, message):
    good = {"numerator": 1.0, "denominator": 2.0, "mechanism": Laplace(scale=1.0)}
    with pytest.raises(InvalidParameterError, match=message):
        ratio_confint(**(good | arguments))


def test_shares_want_the_rest_or_the_total():
    with pytest.raises(InvalidParameterError, match="rest or total"):
        share_confint(1.0, mechanism=Laplace(scale=1.0))
    with pytest.raises(InvalidParameterError, match="rest or total"):
        share_confint(1.0, 2.0, total=3.0, mechanism=Laplace(scale=1.0))


@settings(derandomize=True, deadline=None, max_examples=37)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=3),
    st.lists(st.floats(min_value=-1e6, max_value=1e6), max_size=3),
    st.sampled_from(
        [
            Laplace(scale=1.0),
            Laplace(scale=1e-90),
            Gaussian(sigma=1e90),
            Geometric(scale=1e-3),
            Geometric(scale=2.0),
            Geometric(scale=1e14),
            Exact(),
            (Geometric(scale=1e14), Geometric(scale=0.5)),
            (DiscreteGaussian(sigma=0.3), Gaussian(sigma=1.0)),
        ]
    ),
    st.floats(min_value=-0.1, max_value=1.1),
    st.sampled_from(["exact", "asymptotic"]),
)
def test_any_arguments(numerator, denominator, noise, alpha, method):
    try:
        sets = share_confint(numerator, denominator, mechanism=noise, alpha=alpha, method=method)
    except DPInferError:
        return
    for part in (sets.estimate, sets.lower, sets.upper, sets.width):
        assert not np.isnan(part).any()
    assert ((sets.lower <= sets.upper) | sets.empty).all()
    sets.summary()


@pytest.mark.parametrize(
    "mechanism",
    [
        Tulap(scale=1.0, truncation=0.05),
        (Tulap(scale=2.0, truncation=0.01), Tulap(scale=3.0, truncation=0.1)),
        Tulap(scale=30.0),
    ],
    ids=repr,
)
def test_a_pair_with_tulap_noise(mechanism):
    lower, upper = share_confint(74, 186, mechanism=mechanism)
    laws = mechanism if isinstance(mechanism, tuple) else (mechanism, mechanism)
    for share in (float(lower), float(upper)):
        # (1 - s)*a - s*b of a share s: beyond what is seen with probability 1/40
        law = WeightedSum([1.0 - share, share], list(laws))
        assert law.sf(abs(74 - share * 260)) == pytest.approx(0.025, rel=1e-8)


def test_rounding_takes_no_attained_end_away():
    """Ends lie on atoms; 75/57 - 1 and 18/57 are not the same float."""
    noise = DiscreteGaussian(sigma=3.0)
    e = np.arange(-16.0, 17.0)
    first, second = (g.ravel() for g in np.meshgrid(e, e, indexing="ij"))
    mass = np.outer(noise.pmf(e), noise.pmf(e)).ravel()
    ratio = ratio_confint(60.0 + first, 90.0 + second, mechanism=noise)
    change = relative_change_confint(60.0 + first, 90.0 + second, mechanism=noise)
    share = share_confint(60.0 + first, total=90.0 + second, mechanism=noise)
    held = [ratio.contains(60 / 90), change.contains(60 / 90 - 1), change.contains(-30 / 90)]
    for one in (*held, share.contains(60 / 90)):
        np.testing.assert_array_equal(one, held[0])
    assert mass @ held[0] >= 0.95


@pytest.mark.parametrize("noise", [Laplace(scale=2.0), Geometric(scale=1.0), Gaussian(sigma=2.0)])
def test_one_sided_sets_leave_out_what_is_rejected_on_one_side(noise):
    rng = np.random.default_rng(8)
    y1, y2 = np.rint(rng.normal(size=(2, 300)) * 8) + (0.25 if not noise.is_integer else 0.0)
    two, above, below = (
        ratio_confint(y1, y2, mechanism=noise, alpha=alpha, alternative=side)
        for alpha, side in ((0.1, "two-sided"), (0.05, "greater"), (0.05, "less"))
    )
    assert set(above.kind) == {"interval", "complement", "line"}
    for r in np.tan(rng.uniform(-1.57, 1.57, 60)):
        positive = y1 > r * y2
        np.testing.assert_array_equal(above.contains(r), two.contains(r) | ~positive)
        np.testing.assert_array_equal(below.contains(r), two.contains(r) | positive)
    sure = ratio_confint(60.0, 120.0, mechanism=Laplace(scale=1.0), alternative="larger")
    assert (sure.lower > 0.45, sure.upper) == (True, np.inf)
    with pytest.raises(InvalidParameterError, match=r"alpha must be < 0.5"):
        ratio_confint(y1, y2, mechanism=noise, alpha=0.5, alternative="larger")


@pytest.mark.thinned("known", "measure", every=2)
@pytest.mark.parametrize(
    "known", [{}, {"row_totals": [200, 300]}, {"method": "asymptotic"}], ids=str
)
@pytest.mark.parametrize(
    "measure", [risk_ratio_confint, odds_ratio_confint, risk_difference_confint]
)
def test_one_sided_limits_of_tables(measure, known):
    noise, truth = Laplace(scale=3.0), np.array([[60.0, 140.0], [60.0, 240.0]])
    tables = truth + noise.rvs((4_000, 2, 2), rng=3)
    p = truth[:, 0] / truth.sum(axis=1)
    value = {
        risk_ratio_confint: p[0] / p[1],
        odds_ratio_confint: p[0] / p[1] * (1 - p[1]) / (1 - p[0]),
        risk_difference_confint: p[0] - p[1],
    }[measure]
    least = -1.0 if measure is risk_difference_confint else 0.0
    for side in ("larger", "smaller"):
        found = measure(tables, mechanism=noise, alpha=0.1, alternative=side, **known)
        # seven standard errors of a coverage of .9: by accident less than once in 1e11
        assert (
            (found.lower <= value) & (value <= found.upper)
        ).mean() >= 0.9 - 7 * 0.3 / 4_000**0.5
        end = found.upper if side == "larger" else found.lower
        assert (end == ((1.0 if least else np.inf) if side == "larger" else least)).all()
    two = measure(tables[0], mechanism=noise, alpha=0.1, **known)
    assert (
        measure(tables[0], mechanism=noise, alpha=0.1, alternative="larger", **known).lower
        > two.lower
    )
