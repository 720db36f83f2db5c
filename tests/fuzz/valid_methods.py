"""Methods of public classes that compute, each with good arguments."""

import numpy as np
from valid_calls import CHANNEL, NOISE, PURE, RELEASE, SMOOTH, SWAP, THREE, VALID
from valid_plans import PLANS

import dpinfer
from dpinfer import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Gaussian,
    Geometric,
    Laplace,
    RandomizedResponse,
    Release,
    Tulap,
    WeightedSum,
)
from dpinfer.mechanisms import (
    Channel,
    ExponentialMechanism,
    NoisyMax,
    SparseVector,
    UnaryEncoding,
)
from dpinfer.privacy import SmoothNoise, TradeOff

LAWS = {
    "Laplace": SMOOTH,
    "Geometric": NOISE,
    "Gaussian": Gaussian(sigma=2.0),
    "DiscreteGaussian": dpinfer.DiscreteGaussian(sigma=2.0),
    "Tulap": Tulap(scale=2.0, truncation=0.05),
    "Exact": dpinfer.Exact(),
    "WeightedSum": WeightedSum([1.0, 2.0], NOISE),
}
GUARANTEES = {
    "PureDP": PURE,
    "ApproxDP": ApproxDP(1.0, 1e-6),
    "ZCDP": ZCDP(0.5),
    "GDP": GDP(1.0),
    "RDP": RDP([2.0, 8.0], [0.2, 0.8]),
    "RenyiCurve": dpinfer.privacy.renyi_curve(SMOOTH),
}
AT = {"x": 1.5}
LOSS = dpinfer.privacy.privacy_loss(SMOOTH, compositions=3)
GAUSSIAN_LOSS = dpinfer.privacy.privacy_loss(Gaussian(sigma=2.0))
WHOLE_LOSS = dpinfer.privacy.privacy_loss(NOISE, compositions=3)
FIT = dpinfer.combine(THREE, workload=[[1, 0], [0, 1], [1, 1]], mechanism=NOISE)
TREE = dpinfer.combine_hierarchy([106, 61, 39], [-1, 0, 0], mechanism=NOISE)
MARGINALS = dpinfer.combine_marginals(**VALID["combine_marginals"])
POSTERIOR = dpinfer.count_posterior(**VALID["count_posterior"])
JOINT = dpinfer.table_posterior(**VALID["table_posterior"] | {"draws": 800, "warmup": 100})
POOLED = dpinfer.pool(**VALID["pool"])
CURVE = TradeOff(PURE)
MATRIX = Channel(**VALID["Channel"])
REPORTED = dpinfer.estimation.response_counts([60, 40], mechanism=CHANNEL)
PAIRS = dpinfer.privacy.privacy_loss(MATRIX, compositions=3)
BITS = UnaryEncoding(p=0.5, q=0.2, categories=3)
MEDIAN = dpinfer.privacy.smooth_median_sensitivity(**VALID["smooth_median_sensitivity"])
ROOTS, OTHER_ROOTS = (dpinfer.unbiased(np.sqrt, THREE, mechanism=NOISE) for _ in range(2))
MANY_ROOTS = dpinfer.unbiased(np.sqrt, np.full((2, 50), 9), mechanism=NOISE).sum()
SURVIVAL = dpinfer.functions.survival_confint(**VALID["survival_confint"])
ORDINARY = dpinfer.count_confint(THREE, mechanism=NOISE)
VECTOR = SparseVector(threshold_scale=2.0, query_scale=4.0)
ORDER = dpinfer.intervals.ranking(THREE, mechanism=NOISE)
AREAS = dpinfer.regression.fay_herriot(**VALID["fay_herriot"])
MOMENTS = dpinfer.regression.ols_from_moments(**VALID["ols_from_moments"])
LEVEL = dpinfer.regression.local_level(**VALID["local_level"])
WALK = dpinfer.regression.local_level(
    **VALID["local_level"]
    | {"values": np.arange(52) % 5 + 20, "threshold": None}
    | {"shift": None, "method": "kalman"}
)
ASSOCIATION = dpinfer.regression.association(**VALID["association"])
LOGLINEAR = dpinfer.regression.loglinear(**VALID["loglinear"])
SETS = dpinfer.ratio_confint(THREE, [60, 70, 80], mechanism=NOISE, method="asymptotic")


METHODS = {
    f"{name}.{method}": (getattr(law, method), arguments)
    for name, law in LAWS.items()
    for method, arguments in {
        "cdf": AT,
        "sf": AT,
        "logcdf": AT,
        "logsf": AT,
        "pmf": {"k": 2},
        "pdf": AT,
        "cf": {"t": 0.3},
        "ppf": {"q": 0.3},
        "isf": {"q": 0.3},
        "rvs": {"size": 3, "rng": 1},
    }.items()
    if hasattr(law, method) and (name, method) != ("WeightedSum", "pdf")
}
METHODS |= {
    "WeightedSum.pdf": (WeightedSum([1.0, 2.0], SMOOTH).pdf, AT),
    "WeightedSum.logpdf": (WeightedSum([1.0, 2.0], SMOOTH).logpdf, AT),
    "WeightedSum.logpmf": (LAWS["WeightedSum"].logpmf, {"k": 2}),
    "WeightedSum.stats": (LAWS["WeightedSum"].stats, {"moments": "mvsk"}),
}
METHODS |= {
    f"{name}.{method}": (getattr(guarantee, method), arguments)
    for name, guarantee in GUARANTEES.items()
    for method, arguments in {
        "delta_at": {"epsilon": 1.0},
        "epsilon_at": {"delta": 1e-6},
        "group": {"size": 2},
        "to_approx_dp": {"delta": 1e-5},
        "to_rdp": {"order": 4.0},
    }.items()
    if (name, method) != ("ApproxDP", "to_rdp")  # which it never implies
}
METHODS |= PLANS
METHODS |= {
    "Laplace.from_epsilon": (Laplace.from_epsilon, {"epsilon": 1.0, "sensitivity": 2.0}),
    "Geometric.from_epsilon": (Geometric.from_epsilon, {"epsilon": 1.0, "sensitivity": 2.0}),
    "Gaussian.from_rho": (Gaussian.from_rho, {"rho": 1.0, "sensitivity": 2.0}),
    "Gaussian.from_mu": (Gaussian.from_mu, {"mu": 1.0, "sensitivity": 2.0}),
    "Gaussian.from_epsilon_delta": (
        Gaussian.from_epsilon_delta,
        {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 2.0, "calibration": "analytic"},
    ),
    "DiscreteGaussian.from_rho": (
        dpinfer.DiscreteGaussian.from_rho,
        {"rho": 1.0, "sensitivity": 2.0},
    ),
    "Tulap.from_epsilon": (Tulap.from_epsilon, {"epsilon": 1.0, "delta": 1e-6}),
    "RandomizedResponse.from_epsilon": (
        RandomizedResponse.from_epsilon,
        {"epsilon": 1.0, "categories": 3},
    ),
    "RandomizedResponse.randomize": (CHANNEL.randomize, {"answers": [0, 1, 1], "rng": 1}),
    "RandomizedResponse.randomize_counts": (CHANNEL.randomize_counts, {"counts": [3, 4], "rng": 1}),
    "Channel.name_and_shame": (Channel.name_and_shame, {"delta": 0.1, "truths": 3}),
    "Channel.released_sample": (
        Channel.released_sample,
        {"size": 2, "population": 5, "truths": 3},
    ),
    "Channel.mixture": (Channel.mixture, {"channels": [CHANNEL, CHANNEL], "weights": [0.4, 0.6]}),
    "Channel.delta_at": (MATRIX.delta_at, {"epsilon": 0.5}),
    "Channel.divergence": (MATRIX.divergence, {"order": 2.0}),
    "Channel.randomize": (MATRIX.randomize, {"answers": [0, 1, 1], "rng": 1}),
    "Channel.randomize_counts": (MATRIX.randomize_counts, {"counts": [3, 4], "rng": 1}),
    "UnaryEncoding.symmetric": (UnaryEncoding.symmetric, {"epsilon": 1.0, "categories": 3}),
    "UnaryEncoding.optimised": (UnaryEncoding.optimised, {"epsilon": 1.0, "categories": 3}),
    "UnaryEncoding.rappor": (
        UnaryEncoding.rappor,
        {"f": 0.5, "p": 0.3, "q": 0.6, "categories": 3},
    ),
    "UnaryEncoding.randomize": (BITS.randomize, {"answers": [0, 1, 1], "rng": 1}),
    "UnaryEncoding.randomize_counts": (BITS.randomize_counts, {"counts": [3, 4, 5], "rng": 1}),
    "ExponentialMechanism.rvs": (
        ExponentialMechanism(epsilon=1.0).rvs,
        {"scores": [1.0, 2.0], "size": 3, "rng": 1},
    ),
    "ExponentialMechanism.probabilities": (
        ExponentialMechanism(epsilon=1.0).probabilities,
        {"scores": [1.0, 2.0]},
    ),
    "NoisyMax.probabilities": (NoisyMax(epsilon=1.0).probabilities, {"scores": [1.0, 2.0]}),
    "NoisyMax.shortfall": (NoisyMax(epsilon=1.0).shortfall, {"options": 5, "alpha": 0.1}),
    "NoisyMax.rvs": (NoisyMax(epsilon=1.0).rvs, {"scores": [1.0, 2.0], "size": 3, "rng": 1}),
    "SparseVector.from_epsilon": (
        SparseVector.from_epsilon,
        {"epsilon": 1.0, "count": 2, "sensitivity": 1.0, "monotonic": True},
    ),
    "SparseVector.probability": (
        VECTOR.probability,
        {"above": [False, True], "queries": [1.0, 2.0], "threshold": 1.5},
    ),
    "SparseVector.stopping_law": (
        VECTOR.stopping_law,
        {"queries": [1.0, 2.0], "threshold": 1.5},
    ),
    "SparseVector.accuracy": (VECTOR.accuracy, {"queries": 5, "alpha": 0.1}),
    "SparseVector.rvs": (VECTOR.rvs, {"queries": [1.0, 2.0], "threshold": 1.5, "rng": 1}),
    "Ranking.ranks": (ORDER.ranks, {"simultaneous": True}),
    "Ranking.top": (ORDER.top, {"m": 1}),
    "SmoothNoise.rvs": (
        SmoothNoise("laplace", 0.5, 2.0).rvs,
        {"sensitivity": MEDIAN, "size": 3, "rng": 1},
    ),
    "SmoothNoise.isf": (SmoothNoise("laplace", 0.5, 2.0).isf, {"q": 0.1, "sensitivity": MEDIAN}),
    "SmoothNoise.for_guarantee": (SmoothNoise.for_guarantee, {"guarantee": SWAP, "share": 0.5}),
    "RenyiCurve.divergence": (GUARANTEES["RenyiCurve"].divergence, {"order": 2.0}),
    "PrivacyLoss.delta_at": (LOSS.delta_at, {"epsilon": 0.5}),
    "PrivacyLoss.epsilon_at": (LOSS.epsilon_at, {"delta": 1e-3}),
    "PrivacyLoss.power": (LOSS.power, {"alpha": 0.05}),
    "PrivacyLoss.cdf": (LOSS.cdf, {"x": 0.5}),
    "PrivacyLoss.isf": (LOSS.isf, {"q": 0.5}),
    "PrivacyLoss.logcdf": (LOSS.logcdf, {"x": 0.5}),
    "PrivacyLoss.logsf": (LOSS.logsf, {"x": 0.5}),
    "PrivacyLoss.pdf": ((LOSS + GAUSSIAN_LOSS).pdf, {"x": 0.5}),
    "PrivacyLoss.pmf": (WHOLE_LOSS.pmf, {"x": 0.5}),
    "PrivacyLoss.ppf": (LOSS.ppf, {"q": 0.5}),
    "PrivacyLoss.sf": (LOSS.sf, {"x": 0.5}),
    "PrivacyLoss.rvs": (LOSS.rvs, {"size": 3, "rng": 1}),
    "TradeOff.power": (CURVE.power, {"alpha": 0.05}),
    "TradeOff.level": (CURVE.level, {"power": 0.3}),
    "TradeOff.pbdp_delta": (CURVE.pbdp_delta, {"epsilon": 0.5, "strict": True}),
    "PairLoss.delta_at": (PAIRS.delta_at, {"epsilon": 0.5}),
    "PairLoss.delta_bounds": (PAIRS.delta_bounds, {"epsilon": 0.5}),
    "PairLoss.worst_pair": (PAIRS.worst_pair, {"epsilon": 0.5}),
    "PairLoss.epsilon_at": (PAIRS.epsilon_at, {"delta": 0.1}),
    "PairLoss.epsilon_bounds": (PAIRS.epsilon_bounds, {"delta": 0.1}),
    "PairLoss.power": (PAIRS.power, {"alpha": 0.1}),
    "PairLoss.divergence": (PAIRS.divergence, {"order": 2.0}),
    "TradeOff.pbdp_epsilon": (CURVE.pbdp_epsilon, {"delta": 0.1}),
    "TradeOff.frame": (CURVE.frame, {"alpha": [0.1, 0.2]}),
    "CombinedEstimate.conf_int": (
        FIT.conf_int,
        {"alpha": 0.1, "method": "asymptotic", "simultaneous": False, "reps": 20, "rng": 1},
    ),
    "CombinedEstimate.consistency_test": (
        FIT.consistency_test,
        {"method": "monte-carlo", "reps": 20, "rng": 1, "progress": False},
    ),
    "CombinedEstimate.clip": (FIT.clip, {"lower": 0.0, "upper": 50.0}),
    "CombinedEstimate.noise": (FIT.noise, {"target": 1}),
    "CombinedEstimate.simulate_errors": (FIT.simulate_errors, {"reps": 5, "rng": 1}),
    "ResponseEstimate.conf_int": (REPORTED.conf_int, {"alpha": 0.1, "method": "minimal"}),
    "HierarchyEstimate.conf_int": (
        TREE.conf_int,
        {"alpha": 0.1, "units": [1], "method": "asymptotic"},
    ),
    "HierarchyEstimate.cov_params": (TREE.cov_params, {"units": [1]}),
    "HierarchyEstimate.contrast": (TREE.contrast, {"weights": [[1, 0, -1]]}),
    "HierarchyEstimate.noise": (TREE.noise, {"unit": 1}),
    "HierarchyEstimate.disagreements": (TREE.disagreements, {"most": 3}),
    "MarginalsEstimate.marginal": (MARGINALS.marginal, {"attributes": "sex"}),
    "MarginalsEstimate.marginal_bse": (MARGINALS.marginal_bse, {"attributes": "sex"}),
    "TablePosterior.quantile": (JOINT.quantile, {"q": 0.3, "unmixed": "raise"}),
    "TablePosterior.interval": (
        JOINT.interval,
        {"alpha": 0.1, "kind": "hdi", "unmixed": "raise"},
    ),
    "TablePosterior.predictive_pvalue": (JOINT.predictive_pvalue, {"rng": 1}),
    "TablePosterior.function": (JOINT.function, {"f": lambda x: x[:, 0]}),
    "TablePosterior.linear": (JOINT.linear, {"weights": [1, -1, 0]}),
    "TablePosterior.imputations": (
        JOINT.imputations,
        {"m": 3, "as_": "frequencies", "unmixed": "raise"},
    ),
    "TablePosterior.quantile_error": (JOINT.quantile_error, {"q": 0.3}),
    "FunctionPosterior.unbiased": (JOINT.linear([1, 1, 1]).unbiased, {"alpha": 0.1}),
    "FunctionPosterior.quantile": (
        JOINT.linear([1, 1, 1]).quantile,
        {"q": 0.3, "unmixed": "raise"},
    ),
    "FunctionPosterior.quantile_error": (JOINT.linear([1, 1, 1]).quantile_error, {"q": 0.3}),
    "FunctionPosterior.interval": (
        JOINT.linear([1, 1, 1]).interval,
        {"alpha": 0.1, "kind": "hdi", "unmixed": "raise"},
    ),
    "PooledEstimate.conf_int": (POOLED.conf_int, {"alpha": 0.1}),
    "CountPosterior.pmf": (POSTERIOR.pmf, {"k": 20}),
    "CountPosterior.cdf": (POSTERIOR.cdf, {"k": 20}),
    "CountPosterior.quantile": (POSTERIOR.quantile, {"q": 0.3}),
    "CountPosterior.interval": (POSTERIOR.interval, {"alpha": 0.1, "kind": "hdi"}),
    "Intervals.contains": (ORDINARY.contains, {"value": 20.0}),
    "Intervals.unbinned": (ORDINARY.unbinned, {"bin_size": 2}),
    "Intervals.restrict": (ORDINARY.restrict, {"lower": 0.0, "upper": 90.0, "integer": True}),
    "ConfidenceSets.contains": (SETS.contains, {"value": 0.3}),
    "ConfidenceSets.restrict": (SETS.restrict, {"lower": 0.0, "upper": 1.0}),
    "Release.draw": (Release.draw, {"histogram": [3, 4, 5], "mechanism": NOISE, "rng": 1}),
    "CombinedEstimate.sum": (FIT.sum, {"by": [0, 1]}),
    "CombinedEstimate.contrast": (FIT.contrast, {"weights": [[1.0, -1.0, 0.0]]}),
    "CombinedEstimate.ratio": (FIT.ratio, {"numerator": 0, "denominator": 2}),
    "CombinedEstimate.share": (FIT.share, {"part": [0, 1], "of": 2}),
    "LinearEstimate.conf_int": (
        TREE.contrast([[1.0, 0.0, -1.0], [0.0, 1.0, 1.0]]).conf_int,
        {"alpha": 0.1, "method": "exact", "simultaneous": True, "reps": 20, "rng": 1},
    ),
    "LinearEstimate.noise": (TREE.contrast([1.0, 0.0, -1.0]).noise, {"function": 0}),
    "RatioEstimate.conf_int": (
        TREE.ratio([1, 2], 0).conf_int,
        {"alpha": 0.1, "method": "envelope", "alternative": "larger", "simultaneous": True},
    ),
    "SmallAreaEstimates.conf_int": (AREAS.conf_int, {"alpha": 0.1, "method": "reml"}),
    "SmallAreaEstimates.mse": (AREAS.mse, {"method": "moments"}),
    "SmallAreaEstimates.variance": (AREAS.variance, {"method": "moments"}),
    "LocalLevel.conf_int": (LEVEL.conf_int, {"alpha": 0.1}),
    "LocalLevel.shift_confint": (LEVEL.shift_confint, {"alpha": 0.1}),
    "LocalLevel.break_test": (WALK.break_test, {"reps": 9, "rng": 1}),
    "LocalLevel.break_days": (WALK.break_days, {"alpha": 0.1, "reps": 9, "rng": 1}),
    "AssociationFit.conf_int": (ASSOCIATION.conf_int, {"alpha": 0.1}),
    "AssociationFit.test": (
        ASSOCIATION.test,
        {"model": "saturated", "statistic": "score", "method": "asymptotic", "reps": 19, "rng": 1},
    ),
    "LoglinearFit.conf_int": (LOGLINEAR.conf_int, {"alpha": 0.1}),
    "LoglinearFit.test": (
        LOGLINEAR.test,
        {"formula": "C(row) * C(column)", "statistic": "score", "method": "asymptotic"}
        | {"reps": 19, "rng": 1},
    ),
    "MomentsRegression.conf_int": (MOMENTS.conf_int, {"alpha": 0.1}),
    "MomentsRegression.test": (MOMENTS.test, {"params": [0.5, 1.0]}),
    "MomentsRegression.wald": (MOMENTS.wald, {"alpha": 0.1}),
    "FunctionEstimate.sum": (ROOTS.sum, {"by": [0, 2]}),
    "FunctionEstimate.times": (ROOTS.times, {"other": OTHER_ROOTS}),
    "FunctionEstimate.conf_int": (MANY_ROOTS.conf_int, {"alpha": 0.1}),
    "SurvivalCurve.restricted_mean": (SURVIVAL.restricted_mean, {"until": 2.0}),
    "SurvivalCurve.contains": (SURVIVAL.contains, {"value": 0.5}),
    "Release.select": (RELEASE.select, {"where": [0, 2]}),
    "Release.where": (RELEASE.where, {"condition": "label > 0"}),
    "Release.sum": (Release(THREE, mechanism=NOISE).sum, {"by": [0, 2]}),
    "Release.sum over": (Release(THREE, mechanism=NOISE).sum, {"over": "label"}),
    "Release.noise": (RELEASE.noise, {"value": 1}),
    "Release of shared noises": (
        Release,
        {"values": THREE, "mechanism": SMOOTH, "weights": [[1, 0], [1, 1], [0, 2]]},
    ),
    "Release of known covariance": (
        Release,
        {"values": THREE, "covariance": [[2, 1, 0], [1, 2, 1], [0, 1, 2]]},
    ),
    "noisy of shared noises": (
        dpinfer.noisy,
        {"values": THREE, "mechanism": SMOOTH, "weights": [[1, 0], [1, 1], [0, 2]]},
    ),
    "CombinedEstimate of shared noises": (
        dpinfer.combine(
            Release(
                THREE,
                workload=[[1, 0], [0, 1], [1, 1]],
                weights=[[1, 0], [1, 1], [0, 2]],
                mechanism=SMOOTH,
            )
        ).conf_int,
        {"alpha": 0.1, "method": "exact", "simultaneous": True, "reps": 20, "rng": 1},
    ),
    "Workload.prefixes": (dpinfer.Workload.prefixes, {"cells": 4}),
    "Workload.ranges": (dpinfer.Workload.ranges, {"cells": 4}),
    "Workload.tree": (dpinfer.Workload.tree, {"cells": 4, "branching": 3, "root": False}),
    "Workload.haar": (dpinfer.Workload.haar, {"cells": 4}),
    "Workload.square_root": (dpinfer.Workload.square_root, {"cells": 4}),
}
"""Methods of public classes, each with good arguments."""
