"""What the planner can be asked, each with good arguments."""

from functools import partial

from public_names import public
from valid_calls import NOISE, SMOOTH, THREE, in_equilibrium

from dpinfer import Geometric, plan
from dpinfer.priors import PoissonPrior

QUICK = {"mechanism": Geometric.from_epsilon, "budget": 2.0, "alpha": 0.1}
NORMAL = QUICK | {"method": "asymptotic"}
WIDTHS = {
    "clipped_mean_confint": NORMAL
    | {"mechanism": SMOOTH, "budget": None, "bounds": (0, 9), "std": 1.0, "noise_in": "mean"}
    | {"nobs": 60, "uncertainty": "noise+sampling", "method": "asymptotic"},
    "count_confint": NORMAL | {"cells": 3},
    "linear_confint": NORMAL | {"weights": [1, -1, 1], "simultaneous": False, "reps": 20, "rng": 0},
    "linear_ratio_confint": NORMAL
    | {"values": THREE, "numerator": [1, 0, 0], "denominator": [1, 1, 1], "size": 2.0}
    | {"simultaneous": False},
    "normal_mean_confint": {"known_std": True, "mean_bounds": (-9, 9), "std_bounds": None}
    | {"delta": 0.0, "method": "exact", "split": (1, 2), "nobs": 900, "std": 2.0, "budget": 1.0},
    "poisson_confint": NORMAL | {"exposure": 6.0, "rate": 3.0},
    "count_posterior": QUICK
    | {"prior": PoissonPrior, "kind": "hdi", "lower": 0, "upper": 90, "mean": 9.0},
    "proportion_confint": NORMAL
    | {"nobs": 60, "proportion": 0.3, "nobs_mechanism": NOISE, "nobs_is_total": False}
    | {"nuisance_alpha": 1e-4},
    "ratio_confint": NORMAL | {"numerator": 30, "denominator": 90},
    "stratified_total": NORMAL
    | {"population_size": [900, 800], "proportion": [0.3, 0.2], "allocation": [1, 2]}
    | {"design": "srs", "uncertainty": "noise", "sample_size": 90, "method": "asymptotic"},
    "survey_total": NORMAL
    | {"population_size": 900, "uncertainty": "noise", "sample_size": 90, "proportion": 0.3}
    | {"method": "asymptotic"},
    "count_confint, thresholded": QUICK
    | {"threshold": 10, "method": "naive", "lower": 0, "count": 40},
    "risk_ratio_confint": NORMAL
    | {"scale": None, "ratio": 1.5, "row_totals": False, "uncertainty": "noise"}
    | {"nobs1": 90, "prop1": 0.4, "prop2": 0.3},
    "unpublished_bound": QUICK | {"threshold": 10, "lower": 0, "cells": 2},
}
LIMIT = QUICK | {"method": "asymptotic", "alternative": "larger"}
FEW = {"reps": 20, "rng": 1, "n_jobs": 1}
SHARES = [0.5, 0.3, 0.2]
SIMULATED = QUICK | FEW | {"method": "monte-carlo"}
POWERS = {
    "chi2_contingency": SIMULATED
    | {"truth": [[0.2, 0.3], [0.1, 0.4]], "nobs_mechanism": NOISE, "statistic": "projected"}
    | {"nobs": 60, "effect": 1.0},
    "chi2_contingency, by rows": SIMULATED
    | {"truth": [[0.4, 0.6], [0.5, 0.5]], "row_totals": [40, 60], "statistic": "projected"}
    | {"nobs": 60, "effect": 1.0},
    "chisquare": SIMULATED
    | {"value": SHARES, "truth": SHARES[::-1], "statistic": "pearson", "nobs": 60, "effect": 1.0},
    "chisquare_fit": SIMULATED
    | {"model": in_equilibrium, "start": [0.5], "truth": SHARES, "nobs_mechanism": NOISE}
    | {"bounds": [(0.01, 0.99)], "nobs": 60, "effect": 1.0},
    "counts_2indep": LIMIT | {"shift": 5.0},
    "counts_paired": SIMULATED | {"difference": [1, 2, 3], "statistic": "max", "effect": 1.0},
    "counts_trend": SIMULATED
    | {"truth": SHARES, "shares": [1, 1, 1], "scores": [0, 1, 2], "alternative": "larger"}
    | {"nobs": 60, "effect": 1.0},
    "linear_ztest": LIMIT | {"weights": [1, -1, 1], "shift": 5.0},
    "mcnemar": LIMIT | FEW | {"nuisance_alpha": 1e-4, "nobs": 60, "prop12": 0.3, "prop21": 0.2},
    "poisson_2indep": LIMIT
    | FEW
    | {"value": 1.0, "ratio": 1.5, "nuisance_alpha": 1e-4}
    | {"exposure1": 6.0, "rate1": 4.0, "rate2": 3.0},
    "poisson_ztest": LIMIT | {"value": 3.0, "exposure": 6.0, "rate": 4.0},
    "proportions_2indep": LIMIT
    | FEW
    | {"ratio": 1.5, "nuisance_alpha": 1e-4, "method": "plug-in"}
    | {"nobs1": 60, "prop1": 0.4, "prop2": 0.3},
    "proportions_trend": SIMULATED
    | {"truth": SHARES, "ratios": [1, 1, 1], "scores": [0, 1, 2], "alternative": "smaller"}
    | {"nobs": 60, "effect": 1.0},
    "proportions_ztest": LIMIT | {"value": 0.3, "nobs": 60, "proportion": 0.4},
}
PLANS = {
    f"plan.width of {name}": (partial(plan.width, public(name.partition(",")[0])), arguments)
    for name, arguments in WIDTHS.items()
}
PLANS |= {
    f"plan.solve of {name}": (
        partial(plan.solve, public(name)),
        WIDTHS[name] | {"budget": None, "width": wanted},
    )
    for name, wanted in {"count_confint": 9.0, "unpublished_bound": 30.0}.items()
}
PLANS |= {
    f"plan.power of {name}": (partial(plan.power, public(name.partition(",")[0])), arguments)
    for name, arguments in POWERS.items()
}
PLANS["plan.power"] = (
    plan.power,
    POWERS["counts_2indep"] | {"procedure": public("counts_2indep")},
)
PLANS["plan.width"] = (plan.width, NORMAL | {"procedure": public("count_confint")})
PLANS["plan.curve"] = (plan.curve, NORMAL | {"procedure": public("count_confint")})
PLANS["plan.describe"] = (plan.describe, {"procedure": public("count_confint")})
