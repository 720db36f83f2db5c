import pickle

import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.priors import FlatPrior, FunctionPrior, NegativeBinomialPrior, PoissonPrior, TablePrior


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PoissonPrior(-1.0), "rate must be >= 0"),
        (lambda: PoissonPrior([1.0, np.nan]), "rate must not contain NaN"),
        (lambda: PoissonPrior(np.inf), "rate must be finite"),
        (lambda: PoissonPrior(1e-200), "rate must be 0 or within"),
        (lambda: PoissonPrior("five"), "rate must hold real numbers"),
        (lambda: PoissonPrior(5.0, empirical=1), "empirical must be True or False"),
        (lambda: NegativeBinomialPrior(2.0, -0.1), "dispersion must be >= 0"),
        (lambda: NegativeBinomialPrior(2.0, 1e7), "dispersion must be <= 1e"),
        (lambda: NegativeBinomialPrior(-2.0, 1.0), "mean must be >= 0"),
        (lambda: TablePrior([0.0, 0.0]), "pmf must have a positive entry"),
        (lambda: TablePrior([0.5, -0.5]), "pmf must be >= 0"),
        (lambda: TablePrior([[0.5], [0.5]]), "pmf must be one-dimensional"),
        (lambda: TablePrior([0.5, 0.5], first=0.5), "first must be a whole number"),
        (lambda: TablePrior([0.5, 0.5], first=2**60), "first must be <="),
        (lambda: FunctionPrior(3.0), "logpmf must be a function"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InvalidParameterError, match=words):
        make()


def test_tables_are_normalised_and_read_only():
    prior = TablePrior([2e300, 0.0, 6e300], first=-3)
    np.testing.assert_allclose(prior.pmf, [0.25, 0.0, 0.75])
    for held in (prior, pickle.loads(pickle.dumps(prior))):
        with pytest.raises(ValueError, match="read-only"):
            held.pmf[0] = 1.0
        assert held.first == -3


def test_descriptions():
    assert FlatPrior().description == "flat"
    assert PoissonPrior([1.0, 2.5]).description == "Poisson, mean 1 to 2.5"
    assert "dispersion 0.5" in NegativeBinomialPrior(4.0, 0.5).description
    assert TablePrior([1, 1], first=7).description == "table of 2 probabilities, from 7 on"
