"""Priors by their ratios: beside the probabilities that SciPy has for them."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.intervals.posterior._ladder import Flat, Panjer

COUNTS = np.arange(0.0, 400.0)
PARAMETERS = [(0.3, 0.0), (7.5, 0.0), (7.5, 0.4), (7.5, 1.0), (7.5, 3.0), (0.3, 20.0), (60.0, 2.0)]


def panjer(mean, dispersion):
    """Return the prior, and the law that SciPy has for it."""
    size = 1 / dispersion if dispersion else None
    law = stats.nbinom(size, size / (size + mean)) if dispersion else stats.poisson(mean)
    return Panjer(np.asarray(mean), np.asarray(dispersion)), law


@pytest.mark.parametrize(("mean", "dispersion"), PARAMETERS)
def test_steps_are_ratios_of_probabilities(mean, dispersion):
    prior, law = panjer(mean, dispersion)
    logpmf = law.logpmf(COUNTS)
    np.testing.assert_allclose(prior.logpmf(COUNTS), logpmf, rtol=1e-11, atol=1e-11)
    steps = np.exp(np.diff(logpmf))
    np.testing.assert_allclose(prior.step(COUNTS[:-1]), steps, rtol=1e-9)
    # log-concave: the steps fall
    assert prior.concave == (np.diff(steps) <= 1e-12).all()
    # a bound on later steps, from which the summit is found
    assert (prior.limit_step(COUNTS[:-1]) >= steps * (1 - 1e-9)).all()
    assert logpmf[int(prior.mode(COUNTS[:1])[()])] == pytest.approx(logpmf.max(), abs=1e-12)


@pytest.mark.parametrize(("mean", "dispersion"), PARAMETERS)
@pytest.mark.parametrize("log_mass", [-1.0, -5.0, -35.0])
def test_upper_ends_are_rarely_exceeded(mean, dispersion, log_mass):
    prior, law = panjer(mean, dispersion)
    end = float(prior.upper_end(np.asarray(log_mass)))
    assert law.logsf(end) <= log_mass
    assert np.isfinite(end) == (dispersion > 1)


def test_a_flat_prior_has_no_mode_and_no_end():
    flat = Flat()
    np.testing.assert_array_equal(flat.mode(COUNTS), COUNTS)
    np.testing.assert_array_equal(flat.logpmf(COUNTS), 0.0)
    assert flat.step(COUNTS) == flat.limit_step(COUNTS) == 1
    assert flat.radius(np.asarray(35.0)) == flat.upper_end(np.asarray(-35.0)) == np.inf
    assert flat.take(np.array([0, 0])) is flat


@pytest.mark.parametrize("dispersion", [0.0, [0.5, 4.0]])
def test_rows_have_their_own_parameters(dispersion):
    mean, spread = np.array([2.0, 9.0]), np.asarray(dispersion)
    rows = Panjer(mean, spread).take(np.array([1]))
    alone = Panjer(np.asarray(9.0), np.asarray(spread if spread.ndim == 0 else spread[1]))
    assert not rows.shared
    assert alone.shared
    np.testing.assert_array_equal(rows.step(COUNTS), alone.step(COUNTS))
