"""One planned number for each procedure: what the planner answers is held to these."""

import numpy as np
import pytest
from public_names import public

import dpinfer as dpi
from dpinfer import Gaussian, Geometric, Laplace
from dpinfer.priors import PoissonPrior

L, G, N = Laplace.from_epsilon, Geometric.from_epsilon, Gaussian.from_rho


def genotypes(theta):
    p = theta[0]
    return [p * p, 2 * p * (1 - p), (1 - p) ** 2]


GROUPS = {"truth": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]], "mechanism": N, "budget": 0.01}
TABLE = {"truth": [[0.3, 0.2], [0.2, 0.3]], "mechanism": N, "budget": 0.01}
RISKS = {"prop1": 0.3, "prop2": 0.15, "mechanism": L}

# what is asked, of which procedure, with which arguments, and the answer
CASES = {
    "a clipped mean": (
        "solve",
        "clipped_mean_confint",
        {"width": 4, "nobs": None, "bounds": (0, 100), "std": 20.0, "noise_in": "sum", "budget": 1}
        | {"mechanism": lambda b: Laplace.from_epsilon(b, sensitivity=100)},
        430,
    ),
    "a model": (
        "solve",
        "chisquare_fit",
        {"power": 0.8, "nobs": None, "model": genotypes, "start": 0.5, "budget": 0.01}
        | {"truth": [0.275, 0.45, 0.275], "mechanism": N, "method": "asymptotic"},
        911,
    ),
    "a count": (
        "solve",
        "count_confint",
        {"width": 40, "cells": 50, "mechanism": L, "budget": None},
        0.344136557178,
    ),
    "goodness of fit": (
        "power",
        "chisquare",
        {"nobs": 1000, "value": [0.5, 0.3, 0.2], "truth": [0.4, 0.35, 0.25]}
        | {"mechanism": N, "budget": [0.001, 0.01]},
        [0.937768564245, 0.999859831701],
    ),
    "homogeneity": (
        "solve",
        "chi2_contingency",
        {"power": 0.8, "nobs": None, "row_totals": True, "method": "asymptotic", **GROUPS},
        851,
    ),
    "homogeneity, simulated": (
        "power",
        "chi2_contingency",
        {"nobs": [400, 800], "row_totals": True, "rng": 1, **GROUPS},
        [0.3604, 0.7529],
    ),
    "independence": (
        "solve",
        "chi2_contingency",
        {"power": 0.8, "nobs": None, "method": "asymptotic", **TABLE},
        320,
    ),
    "independence, simulated": (
        "power",
        "chi2_contingency",
        {"nobs": [200, 400], "rng": 1, **TABLE},
        [0.5106, 0.9029],
    ),
    "a contrast": (
        "power",
        "linear_ztest",
        {"weights": [1, -1], "shift": 20, "mechanism": G, "budget": [0.1, 0.2, 0.5]},
        [0.125062081397, 0.426132177267, 0.99406757534],
    ),
    "a ratio of sums": (
        "solve",
        "linear_ratio_confint",
        {"width": 0.1, "values": [60, 90, 30], "numerator": [1, 0, 0], "denominator": [1, 1, 1]}
        | {"mechanism": L, "budget": None},
        0.263878552225,
    ),
    "a sum": (
        "solve",
        "linear_confint",
        {"width": 100, "weights": np.ones(12), "mechanism": L, "budget": None},
        0.19378402712,
    ),
    "three differences together": (
        "solve",
        "linear_confint",
        {"width": 40, "weights": [[1, -1, 0], [1, 0, -1], [0, 1, -1]], "simultaneous": True}
        | {"mechanism": L, "budget": None},
        0.255720761104,
    ),
    "pairs": (
        "power",
        "mcnemar",
        {"nobs": 150, "prop12": 0.15, "prop21": 0.05, "mechanism": G, "budget": [0.5, 2], "rng": 1},
        [0.6037, 0.765372772448],
    ),
    "pairs, plug-in": (
        "solve",
        "mcnemar",
        {"power": 0.8, "nobs": None, "prop12": 0.15, "prop21": 0.05, "mechanism": G, "budget": 2}
        | {"method": "plug-in"},
        163,
    ),
    "a normal mean": (
        "solve",
        "normal_mean_confint",
        {"width": 2, "nobs": None, "std": 15.0, "mean_bounds": (0, 300), "budget": 1},
        1212,
    ),
    "paired counts": (
        "power",
        "counts_paired",
        {"difference": [20] + 9 * [0], "mechanism": G, "budget": [0.1, 0.3, 0.5]},
        [0.0594257406429, 0.353228181483, 0.952857126434],
    ),
    "a rate": (
        "power",
        "poisson_ztest",
        {"exposure": [50, 100, 200], "value": 2.0, "rate": 2.5, "alternative": "larger"}
        | {"mechanism": Geometric(scale=10.0)},
        [0.412482423602, 0.791792406054, 0.987246579324],
    ),
    "an interval for a rate": (
        "solve",
        "poisson_confint",
        {"width": 0.5, "exposure": None, "rate": 2.0, "mechanism": G, "budget": 0.5},
        130.635570418,
    ),
    "a posterior": (
        "solve",
        "count_posterior",
        {"width": 4, "mean": 5, "prior": PoissonPrior, "mechanism": G, "budget": None},
        1.02922125394,
    ),
    "a proportion": (
        "solve",
        "proportions_ztest",
        {"power": 0.8, "nobs": None, "value": 0.25, "proportion": 0.3, "mechanism": L}
        | {"budget": 0.1},
        1147,
    ),
    "the power at this size": (
        "power",
        "proportions_ztest",
        {"nobs": 1147, "value": 0.25, "proportion": 0.3, "mechanism": L, "budget": 0.1},
        0.800057985619,
    ),
    "an interval for a proportion": (
        "solve",
        "proportion_confint",
        {"width": 0.1, "nobs": None, "proportion": 0.3, "mechanism": L, "budget": 0.1},
        755,
    ),
    "a proportion of a noisy total": (
        "solve",
        "proportion_confint",
        {"width": 0.1, "nobs": None, "proportion": 0.3, "mechanism": L, "budget": 0.1}
        | {"nobs_mechanism": L, "nobs_is_total": True, "method": "asymptotic"},
        614,
    ),
    "a trend of proportions": (
        "power",
        "proportions_trend",
        {"nobs": [100, 200], "truth": [0.10, 0.15, 0.20], "mechanism": G, "budget": 0.5, "rng": 1},
        [0.3375, 0.7035],
    ),
    "a ratio": (
        "solve",
        "ratio_confint",
        {"width": 0.1, "numerator": 60, "denominator": 120, "mechanism": L, "budget": None},
        0.546350651974,
    ),
    "strata": (
        "solve",
        "stratified_total",
        {"width": 1400, "sample_size": None, "population_size": [10_000, 4_000]}
        | {"proportion": [0.2, 0.15], "allocation": [1, 1], "mechanism": L, "budget": 0.5},
        450,
    ),
    "strata by convolution": (
        "solve",
        "stratified_total",
        {"width": 1400, "sample_size": None, "population_size": [10_000, 4_000]}
        | {"proportion": [0.2, 0.15], "allocation": [1, 1], "mechanism": L, "budget": 0.5}
        | {"method": "convolution"},
        362,
    ),
    "a survey": (
        "solve",
        "survey_total",
        {"width": 2000, "sample_size": None, "population_size": 50_000, "proportion": 0.2}
        | {"mechanism": L, "budget": 0.1},
        2323,
    ),
    "a value above a threshold": (
        "solve",
        "count_confint",
        {"width": 20, "count": 140, "threshold": 100, "mechanism": L, "budget": None},
        0.299576047642,
    ),
    "a trend of counts": (
        "solve",
        "counts_trend",
        {"power": 0.8, "nobs": None, "truth": [0.19, 0.23, 0.27, 0.31], "mechanism": G}
        | {"budget": 0.2},
        374,
    ),
    "a risk ratio": (
        "solve",
        "risk_ratio_confint",
        {"width": 2 * np.log(1.2), "nobs1": None, "budget": 1.0, **RISKS},
        165,
    ),
    "a risk difference": (
        "solve",
        "risk_difference_confint",
        {"width": 0.1, "nobs1": 400, "budget": None, **RISKS},
        0.293836058356,
    ),
    "two proportions": (
        "power",
        "proportions_2indep",
        {"nobs1": 6, "prop1": 0.90, "prop2": 0.10, "mechanism": G, "budget": 2.0},
        0.626169442018,
    ),
    "two proportions, plug-in": (
        "solve",
        "proportions_2indep",
        {"power": 0.8, "nobs1": None, "prop1": 0.45, "prop2": 0.30, "mechanism": G}
        | {"budget": 0.5, "method": "plug-in"},
        195,
    ),
    "two rates": (
        "solve",
        "poisson_2indep",
        {"power": 0.8, "exposure1": None, "rate1": 0.3, "rate2": 0.2, "mechanism": G}
        | {"budget": 1, "method": "plug-in"},
        406.179439343,
    ),
    "a value below a threshold": (
        "solve",
        "unpublished_bound",
        {"width": 120, "threshold": 100, "mechanism": L, "budget": None},
        0.115129254652,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_gives_the_number_that_is_known(case):
    asked, procedure, arguments, known = CASES[case]
    answer = getattr(dpi.plan, asked)(public(procedure), **arguments)
    # the power of two rates has steps of 1e-7
    assert answer == pytest.approx(known, rel=1e-6 if case == "two rates" else 1e-8)
