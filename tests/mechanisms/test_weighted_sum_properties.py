"""Properties of every weighted sum, over random mixes of kinds, scales and weights."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Tulap, WeightedSum
from dpinfer.mechanisms._sums import series as fourier
from dpinfer.mechanisms._sums.series import FourierSum

FUZZ = settings(derandomize=True, deadline=None, max_examples=12)

scales = st.one_of(st.sampled_from([1e-3, 0.1, 1.0, 10.0, 1e6]), st.floats(0.05, 50.0))
laws = st.one_of(
    scales.map(lambda s: Laplace(scale=s)),
    scales.map(lambda s: Geometric(scale=s)),
    scales.map(lambda s: Gaussian(sigma=s)),
    st.floats(0.2, 50.0).map(lambda s: DiscreteGaussian(sigma=s)),
    st.floats(0.2, 20.0).map(lambda s: Tulap(scale=s)),
)
factors = st.one_of(
    st.integers(1, 6).map(float),
    st.integers(1, 12).map(lambda k: k / 11),
    st.sampled_from([2**0.5, np.pi, 1e-3, 1e3]),
    st.floats(0.1, 10.0),
)
terms = st.lists(st.tuples(factors, laws), min_size=1, max_size=5)


def build(pairs):
    return WeightedSum([c for c, _ in pairs], [law for _, law in pairs])


@pytest.fixture(scope="module", autouse=True)
def short_series():
    """Keep the bracket cheap: it is then wide, and must still hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fourier, "MAX_DEGREE", 1 << 12)
        yield


@FUZZ
@given(terms)
def test_cdf_is_monotone_within_bounds_and_symmetric(pairs):
    total = build(pairs)
    x = np.linspace(-4, 4, 81) * total.std
    cdf, sf = total.cdf(x), total.sf(x)
    slack = 2 * total.error_bound
    assert np.all((cdf >= 0) & (cdf <= 1) & (sf >= 0) & (sf <= 1))
    assert np.all(np.diff(cdf) >= -slack)
    assert np.all(np.diff(sf) <= slack)
    assert np.allclose(cdf + sf, 1.0, rtol=0, atol=slack + 1e-14)
    # P(S <= x) = P(S >= -x), the complement of P(S < -x) <= P(S <= -x)
    assert np.all(cdf >= 1 - cdf[::-1] - slack - 1e-14)
    assert np.allclose(total.cdf(-x), total.cdf(x)[::-1], rtol=0, atol=1e-14)


@FUZZ
@given(terms)
def test_tails_go_on_falling(pairs):
    total = build(pairs)
    assume(total.variance > 0)
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 30.0]) * total.std
    logsf = total.logsf(x)
    assert np.all(np.isfinite(logsf))
    assert np.all(np.diff(logsf) <= 1e-9 + (total.error_bound > 1e-9))
    chernoff = total.chernoff(np.clip(np.exp(logsf), 1e-300, 0.49))
    known = (logsf > np.log(total.error_bound) + 3) & (logsf < -1)
    assert np.all(chernoff[known] >= x[known] * (1 - 1e-6) - 2 * total.std)


@FUZZ
@given(terms, st.lists(st.floats(1e-6, 0.499), min_size=1, max_size=4))
def test_quantiles_invert_tails(pairs, probabilities):
    total = build(pairs)
    q = np.array(probabilities)
    assume(total.error_bound < 1e-3)
    x = total.isf(q)
    # never too small a quantile ...
    slack = 1e-12 + total.error_bound
    assert np.all(total.sf(x) <= q * (1 + 1e-12) + slack)
    # ... and not larger than need be: a step back, past the atom if there is one
    # what has no noise left has no spacing either, and is taken to lie on the whole numbers
    coarsest = max(c for c, _ in pairs) if total.std > 0 else 1.0
    before = x - 1e-7 * np.maximum(np.abs(x), total.std) - 1e-6 * coarsest
    assert np.all(total.sf(before) >= q * (1 - 1e-4) - 3 * slack)
    y = total.ppf(q)
    assert np.all(total.cdf(y) >= q * (1 - 1e-12) - 2 * slack)
    assert np.all(y <= 0)


@settings(FUZZ, max_examples=20)
@given(terms, st.randoms(use_true_random=False), st.sampled_from([2.0, 0.125, 1024.0]))
def test_order_signs_and_units_do_not_matter(pairs, random, unit):
    total = build(pairs)
    shuffled = random.sample(pairs, len(pairs))
    other = build([(random.choice([-1, 1]) * unit * c, law) for c, law in shuffled])
    x = np.array([-2.0, -0.3, 0.0, 0.6, 3.0]) * total.std
    slack = 1e-11 + total.error_bound * (total.error_bound > 1e-9)
    assert np.allclose(other.sf(unit * x), total.sf(x), rtol=1e-9, atol=slack)
    assert np.isclose(other.variance, unit**2 * total.variance, rtol=1e-13)
    if total.error_bound < 1e-9:
        assert np.allclose(other.isf(0.1), unit * total.isf(0.1), rtol=1e-9, atol=1e-9 * total.std)


@FUZZ
@given(terms)
def test_error_bounds_hold_against_the_rigorous_bracket(pairs):
    total = build(pairs)
    assume(total.variance > 0)
    bracket = FourierSum(total._terms)
    assume(bracket.error_bound < 0.1)
    x = np.concatenate([[0.0], np.linspace(0.01, 5, 60)]) * total.std
    allowed = total.error_bound + bracket.error_bound
    assert np.max(np.abs(total.sf(x) - bracket.tail(x))) <= allowed
    assert np.max(np.abs(total.cdf(-x) - bracket.tail(x, closed=True))) <= allowed


@FUZZ
@given(terms, st.integers(1, 4))
def test_repeated_terms_are_counted(pairs, times):
    repeated = build(pairs * times)
    assert repeated.variance == pytest.approx(times * build(pairs).variance, rel=1e-12)
    assert sum(len(block) for block in repeated._terms.blocks) <= 2 * len(pairs)


@pytest.mark.parametrize(
    "small", [Geometric(scale=1e-3), Laplace(scale=1e-3), Gaussian(sigma=1e-3)]
)
@pytest.mark.parametrize("large", [Geometric(scale=1e6), Laplace(scale=1e6), Gaussian(sigma=1e6)])
def test_extreme_ratios_of_scales(small, large):
    total = WeightedSum([1, 1], [small, large])
    alone = WeightedSum([1], large)
    assert total.error_bound < 1e-9
    x = np.array([0.5, 1e3 + 0.5, 1e6 + 0.5, 5e6 + 0.5])  # between the atoms
    # the small noise moves x by 1e-2 at most (with chance 1 - e^-10): 1e-8 of the scale
    assert np.allclose(total.sf(x), alone.sf(x), rtol=0, atol=1e-8)
    assert total.isf(0.025) == pytest.approx(alone.isf(0.025), rel=1e-6)
