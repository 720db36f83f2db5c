"""Priors of tables: against all tables listed, single counts, and laws known in closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dpinfer as dpi
from dpinfer import table_posterior
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.posterior import prior_predictive
from dpinfer.priors import (
    DirichletMultinomialPrior,
    FlatPrior,
    FunctionPrior,
    HierarchicalPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    TablePrior,
    previous_table_prior,
)

LAW = dpi.DiscreteGaussian(sigma=1.5)
VALUES, DRAWS = np.array([3.0, -1.0, 2.0, 5.0]), 40_000
CHAIN = {"draws": 20, "warmup": 30, "chains": 100, "sampler": "chain", "rng": 3}

PRIORS = {
    "Poisson": (PoissonPrior([1.0, 2.0, 0.5, 4.0]), stats.poisson([1.0, 2.0, 0.5, 4.0]).logpmf),
    "negative binomial": (
        NegativeBinomialPrior([1.0, 2.0, 0.5, 4.0], [4.0, 0.5, 1e-9, 4.0]),
        lambda x: np.stack(
            [
                stats.nbinom.logpmf(x[:, 0], 0.25, 1 / 5),
                stats.nbinom.logpmf(x[:, 1], 2.0, 1 / 2),
                stats.poisson.logpmf(x[:, 2], 0.5),
                stats.nbinom.logpmf(x[:, 3], 0.25, 1 / 17),
            ],
            axis=1,
        ),
    ),
    "table": (TablePrior([3, 1, 0, 1, 1, 1, 1], first=0), None),
    "function": (FunctionPrior(lambda k: -np.sqrt(k)), lambda x: -np.sqrt(x)),
}


def exact_means(log_prior):
    x = np.stack([one.ravel() for one in np.indices((8,) * 4)], axis=1)
    x = x[x.sum(axis=1) == 7]
    log_p = LAW.logpmf(VALUES - x).sum(axis=1) + log_prior(x).sum(axis=1)
    p = np.exp(log_p - special.logsumexp(log_p))
    return p @ x, np.sqrt(p @ np.square(x - p @ x))


@pytest.mark.thinned("sampler", "name", every=2)
@pytest.mark.parametrize("sampler", ["exact", "enumeration", "chain"])
@pytest.mark.parametrize("name", PRIORS)
def test_samplers_agree_with_all_tables(name, sampler):
    prior, log_prior = PRIORS[name]
    if log_prior is None:
        with np.errstate(divide="ignore"):
            weights = np.log([3, 1, 0, 1, 1, 1, 1, 0])
        log_prior = weights.__getitem__
    mean, std = exact_means(log_prior)
    if sampler == "chain":
        if name == "table":
            with pytest.raises(InvalidParameterError, match="all counts between its ends"):
                table_posterior(VALUES, mechanism=LAW, total=7, prior=prior, **CHAIN)
            return
        found = table_posterior(VALUES, mechanism=LAW, total=7, prior=prior, **CHAIN)
        # as good as 1,000 independent draws: beyond once in 1e9
        assert (np.abs(found.mean - mean) < 0.2 * std).all()
        return
    how = {"draws": DRAWS, "sampler": sampler, "rng": 3}
    found = table_posterior(VALUES, mechanism=LAW, total=7, prior=prior, **how)
    error = 6.5 * std / np.sqrt(DRAWS)  # beyond once in 1e10
    assert (np.abs(found.mean - mean) < error).all()


@pytest.mark.slow
def test_hierarchical_priors_agree_with_integrals_over_all_parameters():
    values = np.array([3.0, -1.0, 2.0])
    x = np.stack([one.ravel() for one in np.indices((14,) * 3)], axis=1)
    log_p = LAW.logpmf(values - x).sum(axis=1)
    shape, k = np.array([1.0, 0.5, 2.0]), np.arange(14)[:, None]
    for ends in (None, (0.2, 2.0)):
        prior = HierarchicalPrior((0.5, 5.0), 0.0 if ends is None else ends, shape)
        total, moment, rate = 0.0, 0.0, 0.0
        logs = [np.linspace(*np.log(one), 41) for one in ((0.5, 5.0), ends or (1.0, 1.0))]
        ends_half = np.where((np.arange(41) % 40) == 0, 0.5, 1.0)
        for m, by_m in zip(np.exp(logs[0]), ends_half, strict=True):
            for phi, by_phi in zip(np.exp(logs[1]), ends_half, strict=True):
                if ends is None:
                    cells = stats.poisson.logpmf(k, m * shape)
                else:
                    cells = stats.nbinom.logpmf(k, 1 / phi, 1 / (1 + phi * m * shape))
                w = by_m * by_phi * np.exp(log_p + cells[x, np.arange(3)].sum(axis=1))
                total, moment, rate = total + w.sum(), moment + w @ x, rate + m * w.sum()
                if ends is None:
                    break
        found = table_posterior(values, mechanism=LAW, prior=prior, **CHAIN | {"draws": 40})
        # of 4,000 draws, as good as 800: beyond once in 1e8
        assert (np.abs(found.mean - moment / total) < 0.2 * found.std).all()
        drawn = found.hyper["mean"]
        assert drawn.shape == (100, 40)
        assert abs(drawn.mean() - rate / total) < 0.2 * drawn.std()
        assert ("dispersion" in found.hyper) == (ends is not None)


def test_single_cells_are_those_of_count_posterior():
    values, law = np.array([-2.0, 0.0, 3.0, 12.0]), dpi.Geometric(scale=2.0)
    for prior in (FlatPrior(), PoissonPrior([1.0, 2, 3, 4]), NegativeBinomialPrior(4.0, 3.0)):
        found = table_posterior(values, mechanism=law, prior=prior, draws=DRAWS, rng=1)
        known = dpi.count_posterior(values, mechanism=law, prior=prior)
        assert (np.abs(found.mean - known.mean) < 6.5 * known.std / np.sqrt(DRAWS)).all()
        for k in (0, 1, 5):
            share = (found.draws[0] <= k).mean(axis=0)
            assert np.abs(share - known.cdf(k)).max() < 3.5 / np.sqrt(DRAWS)  # Hoeffding: 1e-10


def test_negative_binomial_cells_given_their_sum_are_dirichlet_multinomial():
    how = {"mechanism": LAW, "total": 7, "draws": DRAWS, "rng": 5}
    one = table_posterior(VALUES, prior=NegativeBinomialPrior(2.0, 4.0), **how)
    other = table_posterior(VALUES, prior=DirichletMultinomialPrior(0.25), **how)
    assert (np.abs(one.mean - other.mean) < 9.0 * one.std / np.sqrt(DRAWS)).all()


def test_the_order_of_the_cells_does_not_matter():
    order = [2, 0, 3, 1]
    rate = pd.Series([1.0, 2.0, 0.5, 4.0], index=list("abcd"))
    values = pd.Series(VALUES, index=list("abcd"))
    how = {"mechanism": LAW, "total": 7, "draws": DRAWS, "rng": 5}
    one = table_posterior(values, prior=PoissonPrior(rate), **how)
    other = table_posterior(values.iloc[order], prior=PoissonPrior(rate.iloc[order]), **how)
    gap = np.abs(one.mean - other.mean[list("abcd")])
    assert (gap < 9.0 * one.std / np.sqrt(DRAWS)).all()
    with pytest.raises(InvalidParameterError, match="same order"):
        table_posterior(values.iloc[order], prior=PoissonPrior(rate), **how)


def test_another_years_table_is_the_predictive_law_of_its_rates():
    # Σ over λ ~ gamma(z + ½, 1) of a Poisson count with mean 2·λ
    rng = np.random.default_rng(1)
    prior = previous_table_prior(pd.Series({"a": 3, "b": 0}), growth=2.0)
    x = rng.poisson(2.0 * rng.gamma([3.5, 0.5], size=(200_000, 2)))
    assert prior.mean.to_dict() == {"a": 7.0, "b": 1.0}
    variance = prior.mean + prior.dispersion * prior.mean**2
    assert (np.abs(x.mean(axis=0) - prior.mean) < 6.5 * np.sqrt(variance / 200_000)).all()
    assert x.var(axis=0) == pytest.approx(variance.to_numpy(), rel=0.05)
    with pytest.raises(InvalidParameterError, match="same order"):
        previous_table_prior(pd.Series({"a": 3.0}), growth=pd.Series({"b": 1.0}))


def test_prior_and_values_are_compared():
    law, rates = dpi.Geometric(scale=1.0), [2.0, 30.0]
    drawn = prior_predictive([2, 31], mechanism=law, prior=PoissonPrior(rates), draws=4000, rng=1)
    std = np.sqrt(np.array(rates) + law.variance)
    assert (np.abs(drawn.mean(axis=0) - rates) < 6.5 * std / np.sqrt(4000)).all()
    rows = [[1, 0, 0], [0, 1, 1], [1, 1, 1]]
    laws = [law, law, dpi.Exact()]
    how = {"workload": rows, "mechanism": laws, "draws": 4000, "rng": 1}
    drawn = prior_predictive([2, 5, 9], prior=DirichletMultinomialPrior(1.0), **how)
    assert drawn.shape == (4000, 2)
    assert abs(drawn[:, 0].mean() - 3.0) < 0.4
    with pytest.raises(NotEstimableError, match="prior must be a probability"):
        prior_predictive([2, 31], mechanism=law)

    def pvalue(values, rate):
        found = table_posterior(values, mechanism=law, prior=PoissonPrior(rate), rng=1)
        return found.predictive_pvalue(rng=2)

    assert 0.05 < pvalue([2, 31, 4, 9], [2.0, 30.0, 5.0, 9.0]) < 0.999
    assert pvalue([90, 31, 4, 9], [2.0, 30.0, 5.0, 9.0]) < 0.01
    assert pvalue([2, 31, 4, 9], [2.0, 30.0, 5.0, 9.0]) == pvalue([2, 31, 4, 9], [2.0, 30, 5, 9])
    clamped = dpi.noisy([0, 8], mechanism=law, clamp=(0, None))
    with pytest.raises(InvalidParameterError, match="published as they are"):
        table_posterior(clamped, rng=1).predictive_pvalue()


@pytest.mark.parametrize(
    ("error", "prior", "words"),
    [
        (NotEstimableError, DirichletMultinomialPrior(1.0), "total must be given"),
        (NotEstimableError, FunctionPrior(lambda k: -k), "no upper end"),
        (InvalidParameterError, PoissonPrior([1.0, 2.0]), "each of the 4 cells"),
        (InvalidParameterError, "flat", "prior must be None or a prior"),
    ],
)
def test_priors_that_do_not_fit_are_refused(error, prior, words):
    with pytest.raises(error, match=words):
        table_posterior(VALUES, mechanism=LAW, prior=prior)


def test_priors_of_tables_are_no_priors_of_counts():
    with pytest.raises(InvalidParameterError, match="table_posterior"):
        dpi.count_posterior(VALUES, mechanism=LAW, prior=DirichletMultinomialPrior(1.0))
    with pytest.raises(InvalidParameterError, match="first of which is smaller"):
        HierarchicalPrior((5.0, 1.0))


def test_hierarchical_priors_are_drawn_as_they_are_without_values():
    """Share of 2,000 tables that is off by 6 standard errors: chance 2e-9."""
    prior = dpi.priors.HierarchicalPrior((0.01, 10000.0))
    draws = dpi.posterior.prior_predictive(
        np.zeros(50), mechanism=dpi.Geometric(scale=1.0), prior=prior, draws=2000, rng=1
    )
    means = draws.mean(axis=1)
    error = 6 * np.sqrt(2 / 9 / 2000)
    assert abs((means > 100).mean() - 1 / 3) < error
    with pytest.raises(InvalidParameterError, match="no parameters that are drawn"):
        dpi.posterior.prior_predictive(
            np.zeros(50), mechanism=dpi.Geometric(scale=1.0), prior=prior, total=9, rng=1
        )


def test_predictions_are_of_values_as_they_were_drawn():
    with pytest.raises(InvalidParameterError, match="none of them rounded, binned or clamped"):
        dpi.posterior.prior_predictive(
            dpi.noisy([10.0, 20], mechanism=dpi.Geometric(scale=1.0), bin_size=5),
            prior=dpi.priors.PoissonPrior(1.0),
        )
