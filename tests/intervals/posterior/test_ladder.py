"""Posteriors under Poisson and negative binomial priors, beside SciPy's laws of the priors."""

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.intervals import count_posterior
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.priors import NegativeBinomialPrior, PoissonPrior

COUNTS = np.arange(0.0, 6000.0)
PARAMETERS = [(0.3, 0.0), (7.5, 0.0), (7.5, 0.4), (7.5, 1.0), (7.5, 3.0), (0.3, 20.0), (60.0, 2.0)]
NOISES = [Laplace(scale=3.0), Gaussian(sigma=40.0), Geometric(scale=9.0), Laplace(scale=1e6)]


def given(mean, dispersion):
    """Return the prior, and the logarithms of the probabilities that SciPy has for it."""
    if not dispersion:
        return PoissonPrior(mean), stats.poisson(mean).logpmf(COUNTS)
    size = 1 / dispersion
    law = stats.nbinom(size, size / (size + mean))
    return NegativeBinomialPrior(mean, dispersion), law.logpmf(COUNTS)


@pytest.mark.thinned("mean", "noise", "published", every=2)
@pytest.mark.parametrize(("mean", "dispersion"), PARAMETERS)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("published", [-4.0, 8.0, 300.0])
def test_posteriors_by_enumeration(mean, dispersion, noise, published):
    prior, logs = given(mean, dispersion)
    logs = logs + (noise.logpmf if noise.is_integer else noise.logpdf)(published - COUNTS)
    pmf = np.exp(logs - special.logsumexp(logs))
    found = count_posterior(published, mechanism=noise, prior=prior)
    own = found.pmf(COUNTS[:400])
    np.testing.assert_allclose(own, pmf[:400], rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(found.cdf(COUNTS[:400]), np.cumsum(pmf)[:400], rtol=0, atol=1e-11)
    assert float(found.mean) == pytest.approx(pmf @ COUNTS, rel=1e-9)
    assert float(found.std) == pytest.approx(
        np.sqrt(pmf @ np.square(COUNTS - pmf @ COUNTS)), rel=1e-7
    )
    assert pmf[int(found.mode)] == pytest.approx(pmf.max(), rel=1e-9)
    for q in (1e-9, 0.3, 0.999):
        at = int(found.quantile(q))
        assert np.cumsum(pmf)[at] >= q * (1 - 1e-9)
        assert at == 0 or np.cumsum(pmf)[at - 1] < q * (1 + 1e-9)


@pytest.mark.parametrize("dispersion", [None, 0.5, [0.5, 4.0]])
def test_rows_have_their_own_parameters(dispersion):
    mean, noise = np.array([2.0, 9.0]), Laplace(scale=3.0)

    def prior(row=...):
        if dispersion is None:
            return PoissonPrior(mean[row])
        return NegativeBinomialPrior(mean[row], np.broadcast_to(dispersion, 2)[row])

    rows = count_posterior([5.0, 5.0], mechanism=noise, prior=prior())
    for row in range(2):
        alone = count_posterior(5.0, mechanism=noise, prior=prior(row))
        for k in (0, 3, 20):
            np.testing.assert_allclose(rows.pmf(k)[row], alone.pmf(k), rtol=1e-12)
