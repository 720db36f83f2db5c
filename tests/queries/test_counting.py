import numpy as np
import pytest
import scipy.sparse as sp

from dpinfer.errors import IncompatibleReleaseError
from dpinfer.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, as_noise
from dpinfer.queries import Workload, check_counting

FRACTIONAL = np.array([[1.0, 0], [0.5, 0.5], [1, 1]])


@pytest.mark.parametrize("build", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("law", [Geometric(scale=2.0), DiscreteGaussian(sigma=2.0)])
def test_integer_noise_on_fractional_queries_is_refused(build, law):
    with pytest.raises(IncompatibleReleaseError, match=r"row 1.*disjoint supports"):
        check_counting(Workload(build(FRACTIONAL)), law)
    labelled = Workload(build(FRACTIONAL), labels=["a", "mean", "c"])
    with pytest.raises(IncompatibleReleaseError, match="'mean'"):
        check_counting(labelled, law)


@pytest.mark.parametrize("law", [Laplace(scale=2.0), Gaussian(sigma=1.0), Exact()])
def test_continuous_and_absent_noise_go_with_any_query(law):
    check_counting(Workload(FRACTIONAL), law)


def test_each_query_is_judged_by_its_own_noise():
    workload = Workload(FRACTIONAL)
    whole, real = Geometric(scale=1.0), Laplace(scale=1.0)
    check_counting(workload, as_noise([whole, real, whole], 3))
    check_counting(workload, as_noise([whole, Exact(), whole], 3))
    with pytest.raises(IncompatibleReleaseError, match=r"Geometric noise.*row 1"):
        check_counting(workload, as_noise([real, whole, real], 3))
    check_counting(Workload([[2, -1], [0, 3]]), whole)
