"""A good call of every public callable."""

from fractions import Fraction

import numpy as np
import pandas as pd

import dpinfer
from dpinfer import (
    ApproxDP,
    Domain,
    Gaussian,
    Geometric,
    Hierarchy,
    Laplace,
    PureDP,
    RandomizedResponse,
    Release,
)
from dpinfer.datasets import anes96_path
from dpinfer.estimation import NoisyMarginal
from dpinfer.hypothesis_tests import Multinomial
from dpinfer.mechanisms import Channel

NOISE, SMOOTH = Geometric(scale=3.0), Laplace(scale=2.0)
ABOVE = [160, 131, None, 120, 260, 205, None, 181, 330, 236, 240, 101]
CHANNEL = RandomizedResponse(p=0.75)
THREE, SHARES, TABLE = [18, 25, 33], [0.2, 0.3, 0.5], [[60, 45], [52, 70]]
PURE, SWAP = PureDP(1.0), PureDP(1.0, neighbours="replace")
SEX = Domain({"sex": ["F", "M"]})
RELEASE = Release(THREE, mechanism=NOISE, threshold=10)
SURVEY = {"mechanism": NOISE, "population_size": [900, 800, 700], "sample_size": [90, 80, 70]}
ONE_SAMPLE = SURVEY | {"count": THREE, "rate": None, "design": "srs"}
STRATA = SURVEY | {"counts": THREE, "rate": None, "design": "srs"}
FEW = {"reps": 20, "rng": 1, "n_jobs": 1}
QUICK = FEW | {"precision": None, "progress": False}
PLAN = {"mechanism": NOISE, "method": "normal"}
TWO_BY_TWO = {"table": TABLE, "mechanism": NOISE, "row_totals": None, "method": "asymptotic"}
TWO_BY_TWO |= {
    "alternative": "two-sided",
    "row_totals_mechanism": None,
    "alpha": 0.1,
    "uncertainty": "noise",
    "simultaneous": False,
}
PAIR = {"mechanism": NOISE, "alpha": 0.1, "method": "asymptotic", "simultaneous": False}
PAIR |= {"alternative": "larger"}
REPORTS = {"alpha": 0.1, "integer": False, "lower": 0, "upper": 90, "simultaneous": False}
PROTECTED = {"protection": PURE, "sensitivity": 1.0, "group": 1}
MEASURED = {"measured": {"cells": np.eye(2), "sum": [[1, 1]]}, "budget": PURE, "target": None}
MEASURED |= {"domain": None, "weights": None, "mechanism": None}


def one_more(table, rng):
    """Return an algorithm's table: one person more in each cell."""
    return table + 1.0


def in_equilibrium(theta):
    """Genotypes AA, Aa and aa where the allele A has the share theta[0]."""
    p = theta[0]
    return np.array([p**2, 2 * p * (1 - p), (1 - p) ** 2])


def top_part():
    """Return a tree of one part."""
    units = Hierarchy.from_codes(["4", "44"])
    return units, [NoisyMarginal("sex", [[51.0, 49.0], [30.0, 31.0]], Gaussian(sigma=2.0))], None


CENSORED = {"values": [18.0, 25.0, np.nan], "target": "cells", "mechanism": NOISE, "threshold": 10}
CENSORED |= {"cells": 3, "by": [1, 1, 2], "upper": 90.0, "width": None, "alpha": 0.1}
CENSORED |= {"alternative": "larger", "simultaneous": True, "method": "bound"}

AREA = {"by": None, "mechanism": NOISE, "uncertainty": "noise"}
TWO_GROUPS = {"group": THREE, "other": [30, 9, 21], "totals": None, "signs": [1, 1, -1]}
TWO_GROUPS |= AREA | {"alpha": 0.1, "reps": 99, "rng": 1}
RATES = {"events": THREE, "population": [600, 700, 800], "weights": [3.0, 2.0, 1.0], "by": None}
RATES |= {"mechanism": NOISE, "uncertainty": "noise", "method": "bound", "alpha": 0.1}
LIVES = {"deaths": [40, 30, 20], "censored": [20, 10, 900], "times": [1.0, 2.0, 4.0], "by": None}
LIVES |= {"mechanism": NOISE, "uncertainty": "noise", "method": "bound", "scale": "log"}
LIVES |= {"simultaneous": True, "alpha": 0.1}
COLUMNS = {"columns": (list(range(100)), [i * 7 % 100 for i in range(100)]), "mechanism": NOISE}
COLUMNS |= {"uncertainty": "noise+sampling", "alpha": 0.1}
CONCENTRATION = {"total": 76, "alpha": 0.1, "reps": 99, "rng": 1} | AREA
BRACKETS = {"counts": THREE, "edges": [0.0, 1.0, 2.0, 3.0], "total": 76, "alpha": 0.1}
BRACKETS |= {"reps": 99, "rng": 1} | AREA
MANY = [80, 70, 60, 40, 20, 10, 75, 65, 30, 15, 50, 44]
OF_GROUP = {"group": THREE, "rest": [30, 9, 21], "total": 76} | AREA

VALID = {
    "ApproxDP": {"epsilon": 1.0, "delta": 1e-6, "neighbours": "replace"},
    "Binomial": {"nobs": 10, "value": 0.3},
    "bounded_confint": {"values": THREE, "weights": [1, 1, -1], "mechanism": NOISE, "total": 50}
    | {"zeros": [False, False, True], "alpha": 0.1, "method": "sparse", "integer": True}
    | {"rule": "central"},
    "BudgetAllocation": {
        "rho": Fraction(2),
        "levels": {"State": Fraction(1)},
        "queries": {"State": {"total": Fraction(1)}},
    },
    "BudgetLedger": {"budget": PURE, "accounting": None},
    "Channel": {"matrix": [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], "truths": ["no", "yes"]}
    | {"reports": ["a", "b", "c"], "pairs": [("no", "yes")]},
    "DirichletMultinomialPrior": {"concentration": 0.5},
    "DiscreteGaussian": {"sigma": 2.0},
    "Domain": {"levels": {"sex": ["F", "M"]}},
    "Exact": {},
    "Exponential": {"rate": -0.1},
    "ExponentialMechanism": {"epsilon": 1.0, "sensitivity": 2.0, "monotonic": True},
    "FlatPrior": {},
    "FunctionPrior": {"logpmf": lambda k: -np.asarray(k)},
    "GDP": {"mu": 1.0, "neighbours": "replace"},
    "Gaussian": {"sigma": 2.0},
    "Geometric": {"scale": 2.0},
    "Hierarchy": {"parent": {"a": None, "b": "a"}, "not_exhausted": ()},
    "HierarchicalPrior": {"mean": (1.0, 90.0), "dispersion": (0.1, 2.0), "shape": [1.0, 2.0, 3.0]},
    "IndependentNoise": {"laws": [NOISE, SMOOTH]},
    "Independence": {"nobs": 10, "rows": [0.4, 0.6], "columns": [0.3, 0.7]},
    "Laplace": {"scale": 2.0},
    "Multinomial": {"nobs": 10, "value": SHARES},
    "NegativeBinomialPrior": {"mean": 20.0, "dispersion": 0.5, "empirical": False},
    "NoisyMax": {"epsilon": 1.0, "noise": "laplace", "sensitivity": 2.0, "monotonic": True},
    "NoisyMarginal": {"attributes": "sex", "values": TABLE, "mechanism": NOISE, "units": None},
    "OnlineMultiplicativeWeights": {"histogram": [900, 50, 30], "guarantee": SWAP, "queries": 5}
    | {"beta": 0.1, "max_updates": 3, "ledger": None, "name": "queries", "rng": 1}
    | {"sampler": "simulated"},
    "Poisson": {"rate": [20.0, 30.0]},
    "PoissonPrior": {"rate": 20.0, "empirical": False},
    "ProductMultinomial": {"nobs": [10, 20], "value": SHARES},
    "PureDP": {"epsilon": 1.0, "neighbours": "replace"},
    "RDP": {"order": [2.0, 8.0], "bound": [0.2, 0.8], "neighbours": "replace"},
    "RandomizedResponse": {"p": 0.75, "categories": 3},
    "Release": {"values": THREE, "mechanism": NOISE, "workload": np.eye(3), "labels": list("abc")}
    | {"neighbours": "replace", "sensitivity": 1.0, "guarantee": {"epsilon": 1.0}, "unit": "person"}
    | {"threshold": 10, "clamp": (0, 50), "rounding": 1, "bin_size": 2, "name": "release"}
    | {"weights": None, "covariance": None, "missing": "drop"},
    "Rounded": {"law": SMOOTH},
    "SmoothNoise": {"kind": "laplace", "beta": 0.1, "factor": 2.0},
    "StructuralZeros": {"levels": {"sex": ["F"]}, "units": ["44"]},
    "SparseVector": {"threshold_scale": 2.0, "query_scale": 4.0, "count": 2}
    | {"sensitivity": 1.0, "monotonic": False},
    "SubsampledLoss": {"mechanism": SMOOTH, "rate": 0.1, "count": 5, "sensitivity": 1.0}
    | {"others": ()},
    "TablePrior": {"pmf": [0.2, 0.3, 0.5], "first": 2},
    "TradeOff": PROTECTED,
    "TreePart": {"load": top_part, "parent": None, "version": ""},
    "Tulap": {"scale": 2.0, "truncation": 0.05},
    "UnaryEncoding": {"p": 0.5, "q": 0.2, "categories": 4},
    "WeightedSum": {"weights": [1.0, 2.0], "mechanism": NOISE},
    "Workload": {"matrix": [[1, 0], [1, 1]], "labels": ["a", "b"], "columns": ["x", "y"]}
    | {"domain": None},
    "ZCDP": {"rho": 0.5, "neighbours": "replace"},
    "adjust_for_sampling": {"target": PURE, "rate": 0.05, "scheme": "poisson", "noise": "laplace"}
    | {"sensitivity": 1.0, "releases": 2},
    "adjust_pvalues": {"tests": [0.01, 0.2], "alpha": 0.1, "method": "holm"},
    "amplify": {"guarantee": ApproxDP(1.0, 1e-6), "rate": 0.1, "scheme": "poisson"}
    | {"delta": None, "sample": "s"},
    "amplify_inverse": {"target": PURE, "rate": 0.05, "scheme": "poisson"},
    "amplified_epsilon": {"epsilon": 1.0, "rate": 0.1},
    "sample_epsilon": {"epsilon": 1.0, "rate": 0.1},
    "as_frozen": {"law": SMOOTH, "loc": 3.0},
    "audit_differences": {"release": [[1, 1, 1], [1, 1, 0]], "mechanism": SMOOTH}
    | {"groups": None, "largest": 2},
    "audit_membership": {"shares": [0.4, 0.6], "n": 50, "mechanism": Gaussian(sigma=0.1)}
    | {"alpha": 0.1, "reps": 100, "rng": 1},
    "audit_reconstruction": {"release": [[1, 1], [1, 0], [0, 1]], "mechanism": SMOOTH}
    | {"truth": [0, 1], "upper": 1, "method": "boxed", "reps": 2, "rng": 1},
    "best_split": {"budget": PURE, "mechanism": None, "sensitivity": 1.0, "alpha": 0.1}
    | {"unprocessed": True, "release_at_least": 0.1},
    "census_parts": {"root": "no folder", "cut": "State", "memory": 1e9, "states": None}
    | {"state_totals": None},
    "chi2_contingency": {"table": TABLE, "mechanism": NOISE, "nobs": 227, "nobs_mechanism": NOISE}
    | {"row_totals": None, "statistic": "projected", "method": "monte-carlo"}
    | {"small_expected": "refuse"}
    | QUICK,
    "chisquare": {"f_obs": THREE, "f_exp": [20.0, 25.0, 30.0], "ddof": 0, "mechanism": NOISE}
    | {"nobs": 75, "statistic": "pearson", "method": "monte-carlo"}
    | QUICK,
    "chisquare_fit": {"f_obs": [41, 95, 64], "model": in_equilibrium, "start": [0.5]}
    | {"mechanism": NOISE, "nobs": 200, "nobs_mechanism": None, "bounds": [(0.01, 0.99)]}
    | {"statistic": "projected", "method": "asymptotic", "small_expected": "refuse"}
    | QUICK,
    "clipped_mean_confint": {"mean": 3.0, "nobs": 60, "bounds": (0, 9), "mechanism": SMOOTH}
    | {"std": 1.0, "alpha": 0.1, "method": "asymptotic", "uncertainty": "noise+sampling"},
    "clipped_mean_sensitivity": {"lower": 0.0, "upper": 9.0, "n": 60},
    "combine": {"release": THREE, "workload": [[1, 0], [0, 1], [1, 1]], "mechanism": NOISE}
    | {"target": [[1, 0]]},
    "combine_hierarchy": {"values": [106, 61, 39], "parent": [-1, 0, 0], "mechanism": NOISE}
    | {"units": None, "not_exhausted": (), "unestimable": "raise"},
    "combine_marginals": {"marginals": [NoisyMarginal("sex", [[50, 52], [28, 30]], SMOOTH)]}
    | {"hierarchy": [-1, 0], "domain": SEX, "groupings": None, "zeros": None}
    | {"unestimable": "nan"},
    "compare_spending": {"budget": PURE, "truth": THREE, "release_share": 0.5, "mechanism": None}
    | {"sensitivity": 1.0, "alpha": 0.1, "lower": 0.0},
    "compare_strategies": {"target": [[1, 0, 0], [1, 1, 0]], "budget": PURE, "objective": "largest"}
    | {"strategies": {"cells": np.eye(3)}, "mechanism": None},
    "compose": {"guarantees": [PURE, ApproxDP(1.0, 1e-6)], "delta": 1e-6, "method": "sum"},
    "compose_advanced": {"guarantees": [PURE] * 9, "delta": 1e-6, "method": "kairouz"},
    "compose_optimal": {"guarantee": PURE, "count": 5},
    "half_width": {"mechanism": NOISE, "alpha": 0.1},
    "for_half_width": {"family": dpinfer.Geometric, "half_width": 4.0, "alpha": 0.1},
    "calibrate": {
        "family": dpinfer.Laplace,
        "target": ApproxDP(1.0, 1e-6),
        "power": None,
        "alpha": 0.05,
        "sensitivity": 2.0,
        "uses": 3,
        "rate": 1.0,
        "categories": 2,
    },
    "renyi_curve": {
        "mechanism": SMOOTH,
        "sensitivity": 2.0,
        "rate": 0.5,
        "compositions": 3,
    },
    "cochran_mantel_haenszel": {"table": np.arange(12.0).reshape(2, 2, 3) + 20}
    | {"mechanism": NOISE, "method": "asymptotic", "reps": 19, "rng": 1},
    "compose_parallel": {"guarantees": [PURE, PURE]},
    "count_confint": {"count": THREE, "mechanism": NOISE, "method": "naive", "bin_size": 2}
    | {"threshold": 10, "clamp": 0, "alternative": "larger", "estimate": "maximum-likelihood"}
    | {"reps": 20, "rng": 1}
    | REPORTS,
    "count_posterior": {"count": THREE, "mechanism": NOISE, "prior": None, "lower": 0, "upper": 90}
    | {"threshold": 5.0, "clamp": (0.0, 95.0), "prior_of": "published"},
    "counts_2indep": {"count1": THREE, "count2": [20, 30, 40], "value": 0.0, "mechanism": NOISE}
    | {"alternative": "larger", "method": "monte-carlo"}
    | QUICK,
    "counts_paired": {"count1": THREE, "count2": [20, 30, 40], "mechanism": NOISE}
    | {"statistic": "max", "method": "monte-carlo"}
    | QUICK,
    "counts_trend": {"count": THREE, "nobs": 76, "scores": [0, 1, 2], "mechanism": NOISE}
    | {"shares": [1, 1, 1], "alternative": "larger", "method": "monte-carlo"}
    | QUICK,
    "empirical_prior": {"count": THREE, "mechanism": NOISE, "family": "negative-binomial"},
    "epsilon_for_odds": {"limit": 1.2, "baseline": 1.1, "counterfactual": "deleted"}
    | {"neighbours": "add-remove", "group": 1},
    "epsilon_for_rise": {"rise": 0.25, "baseline": 0.02, "counterfactual": "deleted"}
    | {"neighbours": "add-remove", "group": 1},
    "fay_herriot": {"endog": [9.1, 12.4, 10.6, 7.8, 11.3, 14.9, 9.6, 10.2, 8.7]}
    | {"exog": np.ones((9, 1)), "sampling_variance": 1.5, "mechanism": SMOOTH, "nobs": None},
    "from_long": {
        "frame": pd.DataFrame({"k": ["a", "a"], "ITERATION": [0, 1], "n": [3, 4]}),
        "replicate": "ITERATION",
        "published": 0,
        "value": "n",
    },
    "generalization_bound": {"guarantee": SWAP, "alpha": 0.1, "beta": 0.01, "failure": 0.05},
    "guarantee_of": {"mechanism": NOISE, "sensitivity": 1.0, "neighbours": None, "kind": "zcdp"},
    "guarantee_of_workload": {"workload": [[1, 0], [1, 1]], "mechanism": SMOOTH}
    | {"weights": [[1, 0, 1], [0, 1, 1]], "neighbours": "replace"},
    "l1_sensitivity": {"workload": TABLE, "neighbours": "replace"},
    "l2_sensitivity": {"workload": TABLE, "neighbours": "replace"},
    "linear_confint": {"values": THREE, "weights": [1, 1, -1], "mechanism": NOISE, "alpha": 0.1}
    | {
        "method": "asymptotic",
        "simultaneous": False,
        "bin_assumption": "uniform",
        "alternative": "larger",
        "reps": 20,
        "rng": 1,
    },
    "linear_ratio_confint": PAIR
    | {"values": THREE, "numerator": [1, 0, 0], "denominator": [1, 1, 1]},
    "linear_ztest": {"values": THREE, "weights": [1, 1, -1], "value": 0.0, "mechanism": NOISE}
    | {"alternative": "larger", "method": "asymptotic"}
    | QUICK,
    "local_level": {"values": np.arange(16) % 5 + 20, "mechanism": NOISE, "threshold": 10}
    | {"missing": "raise", "method": "grid", "trend": False, "shift": 8, "same_definition": False},
    "local_level_ratio": {"numerator": np.arange(16) % 5 + 20, "denominator": np.full(16, 90)}
    | {"mechanism": NOISE, "same_definition": False},
    "association": {"table": [[41, 27, 30], [62, 118, 80], [30, 70, 90]], "model": "row"}
    | {"row_scores": [1, 2, 4], "column_scores": [1, 2, 3], "mechanism": NOISE},
    "loglinear": {"table": [[41, 27, 30], [62, 118, 80]], "formula": "C(row) + C(column)"}
    | {"mechanism": NOISE},
    "max_power": PROTECTED | {"alpha": 0.05},
    "mcnemar": {"table": [[30, 12], [5, 40]], "mechanism": NOISE, "alternative": "larger"}
    | {"method": "asymptotic", "nuisance_alpha": 1e-4}
    | {"nobs": 100, "value": 0.1, "compare": "diff"}
    | QUICK,
    "multiplicative_weights": {"histogram": [900, 50, 30], "workload": np.eye(3), "rng": 1}
    | {"guarantee": SWAP, "form": "offline", "beta": 0.1, "max_updates": 3}
    | {"ledger": None, "name": "queries", "sampler": "simulated"},
    "noisy": {"values": THREE, "mechanism": NOISE, "labels": None, "weights": None}
    | {"covariance": None, "threshold": 10, "clamp": 0, "rounding": None, "bin_size": 2}
    | {"name": "values", "called": "mechanism", "missing": "drop"},
    "thresholded_glm": {"endog": ABOVE, "exog": np.ones(12), "universe": "known"}
    | {"mechanism": NOISE, "threshold": 90, "family": "negative-binomial", "exposure": None}
    | {"cov_type": "HC0", "groups": None},
    "noisy_glm": {"endog": np.arange(40.0) % 7, "exog": 9.0 * np.arange(40.0) / 100.0}
    | {"family": "poisson", "noise": {"x1": Laplace(scale=0.1)}, "weights": None, "exposure": 3.0}
    | {"exposure_noise": None, "response_noise": 0.5, "cov_type": "HC1", "groups": None}
    | {"uncertainty": "noise+sampling", "use_t": True, "link": "log", "dispersion": None}
    | {"offset": 0.1},
    "noisy_ols": {"endog": np.arange(40.0) % 7, "exog": 9.0 * np.arange(40.0)}
    | {"noise": {"x1": SMOOTH}, "weights": None, "method": "moments", "cov_type": "HC1"}
    | {"groups": None, "uncertainty": "noise+sampling", "nonlinear": "refuse", "use_t": True}
    | {"missing": "raise", "instrument": None, "absorb": None},
    "normal_mean_confint": {"data": np.linspace(-2, 2, 200), "epsilon": 1.0, "delta": 0.0}
    | {"std": 1.0, "mean_bounds": (-9, 9), "std_bounds": None, "alpha": 0.1}
    | {"method": "exact", "split": [1, 2], "sampler": "simulated", "rng": 1},
    "null_distribution": {"model": Multinomial(10, SHARES), "mechanism": NOISE}
    | {"statistic": "pearson", "observed": 1.5, "alternative": None, "method": "monte-carlo"}
    | QUICK,
    "odds_ratio_confint": TWO_BY_TWO,
    "ols_from_moments": {"xtx": [[100.0, 49.5], [49.5, 33.1]], "xty": [100.3, 56.1]}
    | {"mechanism": SMOOTH, "nobs": 100, "reps": 99, "rng": 1},
    "optimal_shares": MEASURED | {"rng": 0},
    "pbdp_delta": PROTECTED | {"epsilon": 0.5, "method": "exact", "strict": True},
    "pbdp_epsilon": PROTECTED | {"delta": 0.1},
    "plan_release": MEASURED | {"shares": [0.5, 0.5]},
    "poisson_2indep": {"count1": 18, "exposure1": 6.0, "count2": 20, "exposure2": 9.0}
    | {"mechanism": NOISE, "value": 1.0, "alternative": "larger", "method": "asymptotic"}
    | {"nuisance_alpha": 1e-4, "compare": "diff"}
    | QUICK,
    "poisson_confint": PAIR | {"count": THREE, "exposure": 6.0, "alternative": "larger"},
    "poisson_ztest": {"count": 18, "exposure": 6.0, "value": 3.0, "mechanism": NOISE}
    | {"alternative": "larger", "method": "asymptotic"}
    | QUICK,
    "pool": {"estimates": [[1.2, 3.0], [0.9, 2.5], [1.1, 2.9]]}
    | {"variances": [[0.1, 0.2], [0.1, 0.3], [0.2, 0.2]]}
    | {"uncertainty": "noise+sampling", "df_complete": 30.0},
    "posterior_bounds": PROTECTED | {"counterfactual": "draw"},
    "posterior_tail": PROTECTED
    | {"epsilon": 0.5, "rest": "arbitrary", "about": "true", "method": "exact"},
    "previous_table_prior": {"counts": THREE, "growth": [1.0, 1.1, 0.9], "weight": 0.5},
    "prior_predictive": {"values": THREE, "workload": np.eye(3), "mechanism": NOISE, "total": 76}
    | {"zeros": [False, False, False], "prior": dpinfer.priors.PoissonPrior(20.0)}
    | {"draws": 8, "rng": 1},
    "privacy_loss": {"mechanism": ([0.7, 0.3], [0.4, 0.6]), "sensitivity": 1.0, "compositions": 5}
    | {"pair": (0, 1)},
    "proportion_confint": PAIR
    | {"count": THREE, "nobs": 60, "nobs_mechanism": NOISE, "nobs_is_total": False}
    | {"alternative": "larger", "nuisance_alpha": 1e-4},
    "proportions_2indep": {"count1": 4, "nobs1": 9, "count2": 3, "nobs2": 6, "mechanism": NOISE}
    | {"nobs_mechanism": None, "nobs_is_total": False, "alternative": "larger"}
    | {"value": 0.1, "compare": "diff", "method": "plug-in", "nuisance_alpha": 1e-4}
    | QUICK,
    "proportions_trend": {"count": THREE, "nobs": [60, 70, 80], "scores": [0, 1, 2]}
    | {"mechanism": NOISE, "alternative": "larger", "method": "monte-carlo"}
    | QUICK,
    "proportions_ztest": {"count": 18, "nobs": 60, "value": 0.3, "mechanism": NOISE}
    | {"nobs_mechanism": NOISE, "nobs_is_total": False, "alternative": "larger"}
    | {"method": "asymptotic", "nuisance_alpha": 1e-4}
    | QUICK,
    "processing_error": {"truth": [0.0, 3.0], "mechanism": NOISE, "lower": 0, "upper": 9}
    | {"rounding": 1},
    "ranking": {"values": THREE, "mechanism": NOISE, "alpha": 0.1},
    "ratio_confint": PAIR | {"numerator": THREE, "denominator": [60, 70, 80]},
    "read_marginals_parquet": {"folder": "no folder", "max_bytes": 10**6},
    "read_release": {"path": anes96_path(), "metadata": None, "field": None} | {"max_bytes": 10**6},
    "relative_change_confint": PAIR | {"new": THREE, "old": [60, 70, 80]},
    "replicate": {"function": one_more, "published": THREE, "n": 1, "rng": 1, "n_jobs": 1}
    | {"resume": None, "progress": False},
    "replicate_confint": {"published": THREE, "replicates": [[19, 22, 33], [16, 27, 30]] * 5}
    | {"function": None, "method": "t", "df": 5, "alpha": 0.1, "integer": True, "lower": 0}
    | {"invariant": None, "min_count": 5, "min_ratio": 0.5, "min_count_positive": 25},
    "response_counts": {"counts": [60, 40], "mechanism": CHANNEL, "nobs": 100}
    | {"method": "plain"},
    "response_proportions": {
        "counts": [60, 40, 20],
        "mechanism": Channel([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
    }
    | {"uncertainty": "noise", "nobs": 120, "method": "weighted"},
    "risk_difference_confint": TWO_BY_TWO,
    "risk_ratio_confint": TWO_BY_TWO,
    "secret_posterior": {"prior": [0.9, 0.1], "answers": [0, 1], "mechanism": CHANNEL}
    | {"outputs": [1], "secret": ["no", "yes"], "without": None, "rest": None},
    "share_confint": PAIR | {"part": THREE, "rest": [60, 70, 80], "total": None},
    "simulate_posterior": {"prior": [0.9, 0.1], "answers": [0, 1], "mechanism": SMOOTH}
    | {"secret": None, "without": None, "rest": None, "truth": 1, "reps": 20, "rng": 1},
    "size_study": {"model": Multinomial(10, SHARES), "mechanism": NOISE, "tests": None}
    | {"truth": None, "alpha": 0.05, "progress": False}
    | FEW,
    "smooth_count_sensitivity": {"beta": 0.1},
    "smooth_median_sensitivity": {"values": [1.0, 2.0, 9.0], "lower": 0.0, "upper": 10.0}
    | {"beta": 0.5, "rank": 2},
    "spend_on_error": {"truth": [3, 5], "published": [0, 7], "mechanism": SMOOTH, "rng": 1}
    | {"measure": "signed", "clip": None, "neighbours": "add-remove", "workload": None}
    | {"budget": None, "sensitivity": None, "release": PURE, "ledger": None, "name": "error"}
    | {"sampler": "simulated"},
    "stratified_mean": STRATA,
    "stratified_total": STRATA,
    "stream_marginals": {
        "parts": {"top": dpinfer.estimation.TreePart(top_part)},
        "folder": "stream",
    }
    | {"domain": SEX, "groupings": None, "zeros": None, "zero_attributes": ()}
    | {"marginals_wanted": None, "unestimable": "raise", "n_jobs": 1, "progress": False},
    "survey_mean": ONE_SAMPLE,
    "survey_total": ONE_SAMPLE,
    "table_confint": {"values": THREE, "weights": [1, -1, 0], "workload": np.eye(3)}
    | {"mechanism": NOISE, "total": 50, "zeros": None, "alpha": 0.1, "method": "region"}
    | {"guess": None, "simultaneous": False, "integer": True, "reps": 99, "rng": 1},
    "table_posterior": {"values": THREE, "workload": np.eye(3), "mechanism": NOISE}
    | {"threshold": None, "clamp": None, "total": 76, "zeros": [False, False, False]}
    | {"prior": dpinfer.priors.FlatPrior(), "moves": None, "draws": 8, "chains": 2}
    | {"warmup": 4, "sampler": "auto", "engine": "numpy", "rng": 1, "n_jobs": 1},
    "thresholded_ratio_confint": {"numerator": [1, 0, 0], "denominator": [0, 1, 1]} | CENSORED,
    "thresholded_sum_confint": {"weights": [1, 1, -1]} | CENSORED,
    "dissimilarity_confint": TWO_GROUPS,
    "gini_confint": TWO_GROUPS,
    "function_confint": {"values": THREE, "function": np.sqrt, "method": "bound"}
    | AREA
    | {"monotone": 1, "lower": 0.0, "alpha": 0.1, "reps": 99, "rng": 1},
    "grouped_gini_confint": BRACKETS,
    "grouped_lorenz_bands": BRACKETS | {"points": [0.5, 1.0]},
    "life_table_confint": {"deaths": [40, 30, 20], "population": [6000, 700, 80]}
    | {"ages": [0.0, 20.0, 60.0], "ax": [8.0, 20.0], "method": "bound", "radix": 1.0}
    | {"alpha": 0.1}
    | AREA,
    "histogram_quantile_confint": {"counts": THREE, "p": 0.5, "edges": [0.0, 1.0, 2.0, 3.0]}
    | {"total": 76, "alpha": 0.1}
    | AREA,
    "cdf_bands": {"counts": THREE, "total": 76, "scale": "share", "alpha": 0.1, "reps": 99}
    | AREA
    | {"rng": 1},
    "top_share_confint": {"values": THREE, "k": 1, "chosen": [0, 1, 0]} | CONCENTRATION,
    "lorenz_bands": {"values": THREE} | CONCENTRATION,
    "ecological_bounds": {"group": THREE, "rest": [30, 9, 21], "outcome": [20.0, 9.0, 30.0]}
    | {"sizes": None, "method": "bound", "alpha": 0.1, "reps": 99, "rng": 1}
    | AREA,
    "goodman": {"group": MANY, "rest": MANY[::-1], "outcome": [0.4 * 90] * 12}
    | {"assume": "constant rates", "sizes": None, "mechanism": NOISE, "alpha": 0.1},
    "location_quotient_confint": {"group": THREE, "rest": [30, 9, 21], "totals": (76, 60)}
    | {"mechanism": NOISE, "alpha": 0.1, "simultaneous": True, "uncertainty": "noise"},
    "isolation": OF_GROUP,
    "exposure": OF_GROUP,
    "information_index": {"groups": (THREE, [30, 9, 21]), "totals": (76, 60)} | AREA,
    "correlation_confint": COLUMNS,
    "covariance_confint": COLUMNS,
    "ordinal_correlation_confint": {"table": [[41, 27, 30], [62, 118, 80], [30, 70, 90]]}
    | {"statistic": "pearson", "row_scores": [1, 2, 4], "column_scores": [1, 2, 3]}
    | {"mechanism": NOISE, "uncertainty": "noise", "alpha": 0.1},
    "moments": {"values": [i * 7 % 100 for i in range(500)], "mechanism": NOISE}
    | {"uncertainty": "noise", "alpha": 0.1},
    "smr_confint": {"events": THREE, "population": [600, 700, 800], "rates": [0.01, 0.03, 0.05]}
    | {"by": None, "mechanism": NOISE, "uncertainty": "noise+sampling", "alpha": 0.1},
    "standardized_rate_confint": RATES | {"per": 1000.0},
    "standardized_rate_ratio_confint": RATES
    | {"other_events": [30, 19, 21], "other_population": [650, 720, 810]},
    "survival_confint": LIVES,
    "herfindahl": {"values": THREE, "total": 76} | AREA,
    "herfindahl_confint": {"values": THREE, "alpha": 0.1} | AREA,
    "entropy": {"values": THREE, "total": 76} | AREA,
    "unbiased": {"function": np.sqrt, "values": THREE, "mechanism": NOISE, "lower": 0},
    "unpublished_bound": {"mechanism": NOISE, "threshold": 10} | REPORTS,
    "usefulness": {"mechanism": SMOOTH, "alpha": None, "beta": 0.05, "queries": 3}
    | {"workload": None, "method": "exact", "reps": 20, "rng": 1},
    "utility_bounds": PROTECTED | {"expected": 50.0, "lower": 0.0, "upper": 100.0},
    "validate_release": {"path": anes96_path(), "metadata": None, "max_bytes": 10**6},
    "write_marginals_parquet": {"folder": "parts", "name": "top", "parent": None}
    | {"hierarchy": top_part()[0], "marginals": top_part()[1]},
    "winner_confint": {"values": THREE, "mechanism": NOISE, "alpha": 0.1, "method": "adjusted"},
    "with_labels": {"table": pd.DataFrame({"k": [1, 2], "n": [3, 4]}), "labels": ["k"]},
    "write_release": {"release": RELEASE, "path": "table.csv", "field": "value", "title": "T"},
}
"""A good call of every public callable."""
