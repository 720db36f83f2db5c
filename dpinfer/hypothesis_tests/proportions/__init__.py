"""Tests about proportions and rates of which noisy counts are published."""

from dpinfer.hypothesis_tests.proportions.mcnemar import mcnemar
from dpinfer.hypothesis_tests.proportions.one_sample import proportions_ztest
from dpinfer.hypothesis_tests.proportions.rates import poisson_2indep, poisson_ztest
from dpinfer.hypothesis_tests.proportions.two_samples import proportions_2indep

__all__ = [
    "mcnemar",
    "poisson_2indep",
    "poisson_ztest",
    "proportions_2indep",
    "proportions_ztest",
]
