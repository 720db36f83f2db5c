"""The least noise: against closed forms, and that less noise does not meet the target."""

from dataclasses import replace

import numpy as np
import pytest

from dpinfer import (
    GDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    PureDP,
    RandomizedResponse,
    amplify,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy import (
    SubsampledLoss,
    calibrate,
    for_half_width,
    guarantee_of,
    half_width,
    max_power,
    privacy_loss,
    renyi_curve,
)

TIGHT = ApproxDP(1.0, 1e-6)


def scale_of(law):
    return float(law.sigma if isinstance(law, (Gaussian, DiscreteGaussian)) else law.scale)


@pytest.mark.parametrize(
    ("family", "target", "options", "scale"),
    [
        (Laplace, ApproxDP(1.0, 0.01), {}, 0.9802954039),
        (Laplace, ApproxDP(0.1, 0.05), {}, 4.9361609080),
        (Geometric, ApproxDP(1.0, 0.01), {}, 0.9864633747),
        (Gaussian, ApproxDP(1.0, 1e-5), {}, 3.7306316348),
        (Gaussian, TIGHT, {}, 4.2246788893),
        (Gaussian, ApproxDP(0.5, 1e-6), {}, 8.0576184807),
        (Gaussian, TIGHT, {"uses": 10}, 13.3596076731),
        (Gaussian, TIGHT, {"uses": 100}, 42.246788893),
        (Gaussian, TIGHT, {"rate": 0.1}, 1.4325859097),
        (Gaussian, TIGHT, {"rate": 0.01}, 0.7764364062),
        (DiscreteGaussian, TIGHT, {}, 4.2307788612),
        (Laplace, TIGHT, {}, 0.999998),
        (Laplace, TIGHT, {"uses": 10}, 9.9897913268),
        (Laplace, TIGHT, {"uses": 100}, 41.4874828286),
        (Laplace, PureDP(1.0), {"uses": 10}, 10.0),
        (Laplace, PureDP(1.0), {"rate": 0.1}, 0.3447708657),
        (Laplace, PureDP(1.0), {"rate": 0.01}, 0.1940881548),
        (Laplace, ApproxDP(1.0, 0.0), {"sensitivity": 3.0}, 3.0),
        (DiscreteGaussian, ZCDP(0.125), {"sensitivity": 2, "uses": 4}, 8.0),
        (Gaussian, GDP(0.5), {"uses": 4}, 4.0),
        # power 0.1 at the level 0.05: e^ε = 2
        (Laplace, None, {"power": 0.1, "alpha": 0.05}, 1.0 / np.log(2.0)),
    ],
)
def test_known_scales(family, target, options, scale):
    found = scale_of(calibrate(family, target, **options))
    assert found == pytest.approx(scale, rel=1e-9, abs=6e-11)


@pytest.mark.slow
def test_a_gaussian_on_a_sample_needs_less_than_its_renyi_curve_says():
    found = calibrate(Gaussian, TIGHT, rate=0.01, uses=1000)
    assert 1.5626 < found.sigma < 1.6595111776
    loss = SubsampledLoss(found, 0.01, 1000)
    assert loss.delta_at(1.0) <= 1e-6
    assert renyi_curve(found, rate=0.01, compositions=1000).epsilon_at(1e-6) > 1.0


CASES = [
    (Laplace, {"uses": 3, "sensitivity": 2.5}),
    (Geometric, {"uses": 5, "sensitivity": 3}),
    (Geometric, {}),
    (Gaussian, {"uses": 7, "sensitivity": 0.1}),
    (Laplace, {"rate": 0.5}),
    (Geometric, {"rate": 0.5, "sensitivity": 2}),
]


def losses(law, options):
    options = {"uses": 1, "rate": 1.0, "sensitivity": 1.0} | options
    if options["rate"] < 1:
        return SubsampledLoss(law, options["rate"], options["uses"], options["sensitivity"])
    return privacy_loss(law, options["sensitivity"], options["uses"])


@pytest.mark.thinned("family", "target", every=3)
@pytest.mark.parametrize(("family", "options"), CASES)
@pytest.mark.parametrize("target", [ApproxDP(0.3, 1e-8), ApproxDP(2.0, 0.01), ApproxDP(0.0, 0.2)])
def test_a_little_less_noise_is_not_enough(family, options, target):
    scale = scale_of(calibrate(family, target, **options))
    name = "sigma" if family is Gaussian else "scale"
    enough = losses(family(**{name: scale}), options).delta_bounds(target.epsilon)[1]
    assert enough <= target.delta
    less = losses(family(**{name: scale * (1 - 1e-7)}), options).delta_bounds(target.epsilon)[0]
    assert less > target.delta


@pytest.mark.parametrize("categories", [2, 5])
def test_randomized_response(categories):
    target = ApproxDP(1.0, 1e-3, neighbours="replace")
    found = calibrate(RandomizedResponse, target, uses=20, categories=categories)
    assert found.categories == categories
    assert privacy_loss(found, compositions=20).delta_at(1.0) <= 1e-3
    more = replace(found, p=found.p * (1 + 1e-9))
    assert privacy_loss(more, compositions=20).delta_at(1.0) > 1e-3
    # once: δ = p - e^ε(1-p)/(k-1)
    once = calibrate(RandomizedResponse, target, categories=categories)
    rest = categories - 1
    assert once.p == pytest.approx((1e-3 * rest + np.e) / (rest + np.e), rel=1e-12)
    pure = calibrate(RandomizedResponse, PureDP(1.0, neighbours="replace"), uses=4)
    assert pure.epsilon == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("family", "sensitivity"), [(Laplace, 1.5), (Geometric, 2), (Geometric, 1)]
)
def test_concentrated_and_gaussian_targets_are_attained(family, sensitivity):
    found = calibrate(family, ZCDP(0.02), sensitivity=sensitivity, uses=3)
    rho = guarantee_of(found, sensitivity, kind="zcdp").rho
    assert 0.02 * (1 - 1e-11) < 3 * rho <= 0.02
    # μ: no test has more power than against N(μ, 1), and one has as much
    found = calibrate(family, GDP(0.7), sensitivity=sensitivity)
    levels = np.linspace(1e-4, 1 - 1e-4, 101)
    if family is Geometric:
        # at the corners of the curve
        edges = found.sf(np.arange(-30.0, 31.0))
        levels = edges[(edges > 1e-12) & (edges < 1 - 1e-12)]
    else:
        levels = np.append(levels, found.sf(0.5 * sensitivity))
    slack = max_power(GDP(0.7), levels) - max_power(found, levels, sensitivity=sensitivity)
    assert slack.min() == pytest.approx(0.0, abs=1e-12)


def test_power_is_bounded_on_a_sample_too():
    found = calibrate(Gaussian, power=0.2, alpha=0.05, rate=0.3)
    # removal: N(0, 1) against the mixture, by the rule of Neyman and Pearson on a fine grid
    x = np.linspace(-12.0, 13.0, 500_001)
    mu = 1.0 / found.sigma
    null, moved = np.exp(-0.5 * x**2), np.exp(-0.5 * (x - mu) ** 2)
    for p, q in ((null, 0.7 * null + 0.3 * moved), (0.7 * null + 0.3 * moved, null)):
        order = np.argsort(p / q)
        level = np.cumsum(p[order]) / p.sum()
        power = np.interp(0.05, level, np.cumsum(q[order]) / q.sum())
        assert power <= 0.2 + 1e-5
    several = calibrate(Laplace, power=0.3, alpha=0.1, uses=4)
    assert max_power(privacy_loss(several, compositions=4), 0.1) == pytest.approx(0.3, rel=1e-9)


@pytest.mark.parametrize(
    ("target", "sensitivity", "uses"),
    [
        (ApproxDP(1.0, 0.19), 1, 1),
        (ApproxDP(1.0, 0.1922), 1, 1),
        (ApproxDP(10.0, 1e-4), 1, 1),
        (ApproxDP(1.0, 0.01), 3, 1),
        (ApproxDP(1.0, 0.3), 1, 2),
    ],
)
def test_all_larger_sigma_of_a_discrete_gaussian_are_enough(target, sensitivity, uses):
    found = calibrate(DiscreteGaussian, target, sensitivity=sensitivity, uses=uses).sigma

    def delta(sigma):
        return privacy_loss(DiscreteGaussian(sigma=sigma), sensitivity, uses).delta_at(
            target.epsilon
        )

    assert all(delta(found * f) <= target.delta for f in np.geomspace(1.0, 2.0, 8))
    assert delta(found * (1 - 1e-9)) > target.delta


def test_delta_of_a_discrete_gaussian_rises_in_places():
    found = [privacy_loss(DiscreteGaussian(sigma=s)).delta_at(1.0) for s in (0.7071, 0.75, 0.8)]
    assert found == pytest.approx([0.18967, 0.19226, 0.18990], abs=6e-6)
    # a smaller σ would do as well, but not all up to where it falls again
    assert calibrate(DiscreteGaussian, ApproxDP(1.0, 0.19)).sigma > 0.75
    assert privacy_loss(DiscreteGaussian(sigma=4.2246788893)).delta_at(1.0) == pytest.approx(
        1.01967e-6, rel=1e-5
    )


REPLACE = PureDP(1.0, neighbours="replace")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate(Laplace), "target or power must be given"),
        (lambda: calibrate(Laplace, TIGHT, power=0.1), "target or power must be given"),
        (lambda: calibrate("laplace", TIGHT), "family must be one of"),
        (lambda: calibrate(Laplace, power=0.01), "power must be"),
        (lambda: calibrate(Gaussian, PureDP(1.0)), "allow a delta > 0"),
        (lambda: calibrate(Laplace, PureDP(0.0)), "epsilon > 0"),
        (lambda: calibrate(Geometric, TIGHT, sensitivity=0.5), "sensitivity must be"),
        (lambda: calibrate(Laplace, renyi_curve(Laplace(scale=1.0))), "target must be PureDP"),
        (lambda: calibrate(Laplace, amplify(PureDP(1.0), rate=0.5)), "target must be PureDP"),
        (lambda: calibrate(RandomizedResponse, PureDP(1.0)), 'neighbours="replace"'),
        (lambda: calibrate(RandomizedResponse, REPLACE, rate=0.5), "rate must be 1"),
        (lambda: calibrate(RandomizedResponse, REPLACE, sensitivity=2.0), "left at 1"),
        (lambda: calibrate(Laplace, REPLACE, rate=0.5), 'neighbours="add-remove"'),
        (lambda: calibrate(Laplace, TIGHT, categories=3), "categories must be left"),
        (lambda: calibrate(DiscreteGaussian, TIGHT, rate=0.5), "rate must be 1"),
        (lambda: calibrate(DiscreteGaussian, power=0.1), "DiscreteGaussian with power"),
        (lambda: calibrate(DiscreteGaussian, GDP(1.0)), "target must be ApproxDP"),
        (lambda: calibrate(Laplace, GDP(1.0), uses=2), "uses must be 1"),
        (lambda: calibrate(Laplace, ZCDP(1.0), rate=0.5), "rate must be 1"),
        (lambda: calibrate(Laplace, ApproxDP(0.0, 0.2), rate=0.2), "target must be stricter"),
        (lambda: calibrate(Laplace, ZCDP(0.0)), "rho > 0"),
        (lambda: calibrate(Laplace, GDP(0.0)), "mu > 0"),
    ],
)
def test_refuses_what_cannot_be_met(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()


@pytest.mark.parametrize("alpha", [1e-9, 0.05, 0.4])
@pytest.mark.parametrize("width", [0.3, 1.0, 7.5, 4000.0])
def test_half_widths_and_scales_are_inverse(width, alpha):
    for family in (Laplace, Gaussian, Geometric, DiscreteGaussian):
        made = for_half_width(family, width, alpha)
        found = half_width(made, alpha)
        if made.is_integer:
            assert found == np.floor(width)
        else:
            assert found == pytest.approx(width, rel=1e-12)
        assert 2 * made.sf(found) <= alpha * (1 + 1e-14)
        name = "sigma" if family in (Gaussian, DiscreteGaussian) else "scale"
        more = family(**{name: scale_of(made) * (1 + 1e-6)})
        assert 2 * more.sf(np.floor(width) if made.is_integer else width) > alpha
    assert for_half_width(Laplace, width, alpha).scale == pytest.approx(width / -np.log(alpha))


def test_half_widths_agree_with_opendp():
    accuracy = pytest.importorskip("opendp.accuracy")
    for scale, alpha in ((0.7, 0.05), (3.3, 0.2), (25.0, 1e-4)):
        peer = accuracy.laplacian_scale_to_accuracy(scale, alpha)
        assert half_width(Laplace(scale=scale), alpha) == pytest.approx(peer, rel=1e-12)
        peer = accuracy.gaussian_scale_to_accuracy(scale, alpha)
        assert half_width(Gaussian(sigma=scale), alpha) == pytest.approx(peer, rel=1e-6)
        peer = accuracy.discrete_laplacian_scale_to_accuracy(scale, alpha)
        assert half_width(Geometric(scale=scale), alpha) == np.ceil(peer) - 1
        back = accuracy.accuracy_to_laplacian_scale(5.0, alpha)
        assert for_half_width(Laplace, 5.0, alpha).scale == pytest.approx(back, rel=1e-12)


def test_half_widths_of_vectors_and_of_none():
    found = half_width(Laplace(scale=[1.0, 2.0]), 0.1)
    assert found == pytest.approx(np.log(10.0) * np.array([1.0, 2.0]))
    # noise of which 0 has a probability above the level
    assert half_width(Geometric(scale=0.1)) == 0.0
    with pytest.raises(InvalidParameterError, match="half_width must be"):
        for_half_width(Laplace, 0.0)
    with pytest.raises(InvalidParameterError, match="family must be one of"):
        for_half_width(RandomizedResponse, 1.0)
    with pytest.raises(InvalidParameterError, match="mechanism must be a law of noise"):
        half_width(TIGHT)
