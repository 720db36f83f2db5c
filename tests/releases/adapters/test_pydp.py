import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import DPInferError, InvalidParameterError
from dpinfer.mechanisms import Gaussian, Laplace, Rounded
from dpinfer.releases import from_pydp
from dpinfer.releases.adapters import google_sigma

COUNT = {"algorithm": "Count", "epsilon": 0.5, "l0_sensitivity": 2, "linf_sensitivity": 3}
SUM = COUNT | {"algorithm": "BoundedSum"}
GAUSSIAN = {"algorithm": "GaussianMechanism", "epsilon": 1.0, "delta": 1e-5, "sensitivity": 2.0}


def test_from_parameters():
    laplace = {"algorithm": "LaplaceMechanism", "epsilon": 0.5, "sensitivity": 3.0}
    assert from_pydp(laplace) == Laplace(scale=6.0)
    assert from_pydp(COUNT, whole=False) == Laplace(scale=12.0)
    assert from_pydp(SUM, bounds=(-4, 3)) == Laplace(scale=48.0)
    assert from_pydp(GAUSSIAN) == Gaussian(sigma=7.46484375)


def test_whole_numbers_have_rounded_noise():
    assert from_pydp(COUNT) == Rounded(Laplace(scale=12.0))
    assert from_pydp(GAUSSIAN, whole=True) == Rounded(Gaussian(sigma=7.46484375))


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "sigma"),
    # the std of pydp.algorithms.numerical_mechanisms.GaussianMechanism in python-dp 1.1.5
    [
        (1.0, 1e-5, 2.0, 7.46484375),
        (0.5, 1e-6, 1.0, 8.0625),
        (3.0, 1e-10, 7.3, 15.056249999999999),
        (1.0, 0.01, 0.1, 0.18779296875),
    ],
)
def test_the_sigma_is_that_of_google(epsilon, delta, sensitivity, sigma):
    assert google_sigma(epsilon, delta, sensitivity) == sigma
    # and lies at most the accuracy of the bisection above what is just enough
    enough = Gaussian.from_epsilon_delta(epsilon, delta, sensitivity=sensitivity).sigma
    assert enough <= sigma <= enough * 1.0011


def test_the_sigma_of_a_very_large_epsilon():
    """Where exp(epsilon) has no float: against the analytic formula in 60 digits."""
    sigma = google_sigma(800.0, 1e-5, 1.0)
    with mpmath.workdps(60):
        a, b = mpmath.mpf(0.5) / sigma, 800 * mpmath.mpf(sigma)
        delta = mpmath.ncdf(a - b) - mpmath.exp(800) * mpmath.ncdf(-a - b)
        assert delta <= 1e-5
        a, b = a * 1.0011, b / 1.0011
        assert mpmath.ncdf(a - b) - mpmath.exp(800) * mpmath.ncdf(-a - b) > 1e-5


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        (3, {}, "object of PyDP or a mapping"),
        ({}, {}, "algorithm must be one of"),
        ({"algorithm": ["Count"]}, {}, "algorithm must be one of"),
        ({"algorithm": "BoundedMean", "epsilon": 1}, {}, "BoundedMean"),
        ({"algorithm": "Count", "epsilon": 1}, {}, "entry l0_sensitivity"),
        (COUNT | {"epsilon": 0}, {}, "epsilon must be"),
        (COUNT | {"epsilon": "1"}, {}, "epsilon must hold real"),
        (COUNT, {"bounds": (0, 1)}, "bounds must be None"),
        (COUNT, {"whole": 3}, "whole must be True or False"),
        (SUM, {}, "bounds must be the pair"),
        (SUM, {"bounds": (2, 1)}, "lower < upper"),
        (GAUSSIAN | {"delta": 0}, {}, "delta must be"),
    ],
)
def test_bad_input(algorithm, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        from_pydp(algorithm, **options)


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    base=st.sampled_from([COUNT, SUM, GAUSSIAN]),
    changes=st.dictionaries(
        st.sampled_from(["epsilon", "delta", "sensitivity", "l0_sensitivity", "dtype", "std"]),
        JUNK,
    ),
    bounds=st.one_of(st.none(), JUNK, st.tuples(JUNK, JUNK)),
)
def test_only_errors_of_the_library_escape(base, changes, bounds):
    try:
        law = from_pydp(base | changes, bounds=bounds)
    except DPInferError:
        return
    assert np.isfinite(law.variance)


class LaplaceMechanism:
    """Stands in for what python-dp 1.1.5 binds: no more attributes than these."""

    def __init__(self, epsilon, sensitivity=1.0):
        self.epsilon, self.sensitivity = epsilon, sensitivity
        self.diversity = sensitivity / epsilon


class GaussianMechanism:
    def __init__(self, epsilon, delta, l2_sensitivity):
        self.epsilon, self.delta, self.l2_sensitivity = epsilon, delta, l2_sensitivity

    @property
    def std(self):
        known = {(1.0, 1e-5, 2.0): 7.46484375, (0.5, 1e-6, 1.0): 8.0625}
        return known[self.epsilon, self.delta, self.l2_sensitivity]


class MetaAlgorithm:
    """Its bounds go to the compiled part and are not kept; what is not given is "Not set"."""

    def __init__(self, epsilon=1.0, dtype="int", **options):
        self.epsilon, self.delta, self.dtype = epsilon, 0.0, dtype
        self._l0_sensitivity = options.get("l0_sensitivity", "Not set")
        self._linf_sensitivity = options.get("linf_sensitivity", "Not set")

    @property
    def l0_sensitivity(self):
        return self._l0_sensitivity

    @property
    def linf_sensitivity(self):
        return self._linf_sensitivity


class Count(MetaAlgorithm):
    pass


class BoundedSum(MetaAlgorithm):
    pass


class BoundedMean(MetaAlgorithm):
    pass


for kind in (LaplaceMechanism, GaussianMechanism):
    kind.__module__ = "pydp"
for kind in (BoundedSum, BoundedMean):
    kind.__module__ = "pydp.algorithms.laplacian._bounded_algorithms"
Count.__module__ = "pydp.algorithms.laplacian._count"
SENSITIVITIES = {"l0_sensitivity": 2, "linf_sensitivity": 3}


def test_objects_like_those_of_pydp():
    assert from_pydp(LaplaceMechanism(0.5, 3.0)) == Laplace(scale=6.0)
    gaussian = GaussianMechanism(1.0, 1e-5, 2.0)
    assert from_pydp(gaussian) == Gaussian(sigma=7.46484375)
    # as the library itself would find it, where an object does not say
    assert google_sigma(0.5, 1e-6, 1.0) == GaussianMechanism(0.5, 1e-6, 1.0).std
    assert from_pydp(gaussian, whole=True) == Rounded(Gaussian(sigma=7.46484375))
    total = BoundedSum(0.5, dtype="float", lower_bound=-1, upper_bound=4, **SENSITIVITIES)
    assert from_pydp(total, bounds=(-1, 4)) == Laplace(scale=48.0)


@pytest.mark.parametrize("dtype", ["int", "int64"])
def test_both_kinds_of_whole_numbers_of_pydp(dtype):
    assert from_pydp(Count(0.5, dtype=dtype, **SENSITIVITIES)) == Rounded(Laplace(scale=12.0))
    total = BoundedSum(0.5, dtype=dtype, **SENSITIVITIES)
    assert from_pydp(total, bounds=(-1, 4)) == Rounded(Laplace(scale=48.0))
    assert from_pydp(Count(0.5, dtype="float", **SENSITIVITIES)) == Laplace(scale=12.0)


def test_objects_that_do_not_add_one_noise():
    with pytest.raises(InvalidParameterError, match="got 'BoundedMean'"):
        from_pydp(BoundedMean(1.0, lower_bound=0, upper_bound=1))
    with pytest.raises(InvalidParameterError, match="l0_sensitivity must hold real"):
        from_pydp(Count(1.0))
    with pytest.raises(InvalidParameterError, match="object of PyDP or a mapping"):
        from_pydp(object())


def test_the_objects_of_pydp():
    mechanisms = pytest.importorskip(
        "pydp.algorithms.numerical_mechanisms", reason="PyDP is not installed"
    )
    algorithms = pytest.importorskip("pydp.algorithms.laplacian")
    assert from_pydp(mechanisms.LaplaceMechanism(0.5, 3.0)) == Laplace(scale=6.0)
    gaussian = mechanisms.GaussianMechanism(1.0, 1e-5, 2.0)
    assert from_pydp(gaussian) == Gaussian(sigma=gaussian.std)
    count = algorithms.Count(epsilon=1.0, l0_sensitivity=1, linf_sensitivity=1, dtype="int")
    assert from_pydp(count) == Rounded(Laplace(scale=1.0))
    total = algorithms.BoundedSum(
        epsilon=1.0, lower_bound=-1, upper_bound=4, l0_sensitivity=2, linf_sensitivity=3
    )
    law = from_pydp(total, bounds=(-1, 4), whole=False)
    assert law == Laplace(scale=24.0)
    with pytest.raises(InvalidParameterError, match="BoundedMean"):
        from_pydp(algorithms.BoundedMean(epsilon=1.0, lower_bound=0, upper_bound=1))


def test_the_draws_of_pydp_are_rounded():
    mechanisms = pytest.importorskip(
        "pydp.algorithms.numerical_mechanisms", reason="PyDP is not installed"
    )
    mechanism = mechanisms.LaplaceMechanism(1.0, 1.0)
    draws = np.array([mechanism.add_noise(0) for _ in range(20_000)])
    law = Laplace(scale=1.0)
    for k in range(4):
        p = law.cdf(k + 0.5) - law.cdf(k - 0.5)
        # 7 standard errors, 4 cells: fails by accident with probability < 1e-10
        assert abs(np.mean(draws == k) - p) < 7 * np.sqrt(p * (1 - p) / len(draws))
