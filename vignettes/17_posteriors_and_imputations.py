# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Posteriors and imputations
#
# The posterior of a noisy table gives every function of the table at once, and completed tables for
# software that knows of no noise. It also gives wrong answers with confidence where its prior is
# wrong. Here is one of each, beside the truth, which is public: the answers of 6,366 women to a
# survey of *Redbook* magazine (Fair 1978), as statsmodels ships them.

# %%
import numpy as np
import pandas as pd
from statsmodels.datasets import fair
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM

import dpinfer as dpi

survey = fair.load_pandas().data
persons = pd.DataFrame(
    {
        "affair": np.where(survey["affairs"] > 0, "yes", "no"),
        "marriage": survey["rate_marriage"].astype(int),
        "religious": survey["religious"].astype(int),
    }
)
truth = persons.groupby(["affair", "marriage", "religious"]).size()
assert len(persons) == 6366
truth.to_frame("persons").T

# %% [markdown]
# ## What is published
#
# How many answered each combination: 2 × 5 × 4 cells with discrete Gaussian noise of σ = 10, and
# how many answered at all, exactly.

# %%
noise = dpi.DiscreteGaussian(sigma=10.0)
published = truth + noise.rvs(len(truth), rng=17)
posterior = dpi.table_posterior(published, mechanism=noise, total=len(persons), draws=1600, rng=17)
print(posterior.summary())

# %% [markdown]
# The unbiased estimates and their intervals stand beside the posterior: they use no prior, and hold
# for every table. In small cells the posterior is narrower, as it knows that no count is below
# zero. What it promises is another thing: 95 % of the tables *that are drawn from its prior*.
#
# ## How good are the draws?
#
# With one exact total, tables are drawn without a chain: the draws are independent, and as many as
# they seem. There is no R-hat then, and what is left is the Monte Carlo error of each mean. Where
# values overlap without being nested, a chain is run; R-hat should be near 1 then, with some
# hundred effective draws of every cell, and intervals are refused where chains have not mixed.

# %%
diagnostics = posterior.diagnostics()
assert len(diagnostics) == 40
assert posterior.sampler == "exact"
assert (diagnostics["ess_bulk"] == 1600).all()
diagnostics.describe().loc[["min", "max"]].round(3)

# %%
#| alt: The draws of one cell, one after the other, without a trend or dependence.
ax = posterior.plot(row=("yes", 1, 1))

# %% [markdown]
# ## Any function of the table
#
# The share of affairs among those who rate their marriage 3 or worse, with its Monte Carlo error.

# %%
cells = truth.index
unhappy = (cells.get_level_values("marriage") <= 3).astype(int)
affair = (cells.get_level_values("affair") == "yes").astype(int)
share = posterior.function(lambda tables: tables @ (unhappy * affair) / (tables @ unhappy))
true_share = (truth * unhappy * affair).sum() / (truth * unhappy).sum()
assert abs(share.mean - true_share) < 5 * share.std
assert share.std < 0.02
print(share.summary())
print(f"The true one is {true_share:.4f}.")

# %% [markdown]
# ## A logistic regression on imputations
#
# Twenty draws of the table, as cells with frequency weights; the same model is fitted to each, by
# software that takes them for data, and the fits are pooled.


# %%
def fit(cells):
    """Logistic regression of affairs on the rating of the marriage and on religiousness."""
    x = pd.DataFrame({"const": 1.0, "marriage": cells["marriage"], "religious": cells["religious"]})
    y = (cells["affair"] == "yes").astype(float)
    return GLM(y, x, family=Binomial(), freq_weights=cells["count"]).fit()


def as_cells(counts):
    """A table as rows with counts, those below zero as zero."""
    held = counts.clip(lower=0).rename("count").reset_index()
    return held[held["count"] > 0]


fits = [fit(one) for one in posterior.imputations(20, "frequencies")]
pooled = dpi.pool(fits, uncertainty="noise+sampling")
print(pooled.summary())

# %% [markdown]
# Beside the fit to the true table, which no reader of the published one has, and the one to the
# noisy table taken for the truth:

# %%
true_fit, naive = fit(as_cells(truth)), fit(as_cells(published))
compared = pd.DataFrame(
    {
        "pooled": pooled.params,
        "pooled std. error": pooled.bse,
        "noise ignored": naive.params,
        "its std. error": naive.bse,
        "true table": true_fit.params,
        "std. error there": true_fit.bse,
    }
)
assert (pooled.bse > true_fit.bse).all()
assert (np.abs(pooled.params - true_fit.params) < 4 * pooled.bse).all()
assert ((pooled.fmi > 1 / 3) & (pooled.fmi < 0.8)).all()
compared.round(4)

# %% [markdown]
# Pooled standard errors are larger than those of the true table, as they should be: they hold the
# noise too. The column `fmi` of the summary says what share of the variance is due to it, here more
# than a third. The fit to the noisy table states the standard errors of a table without noise.
#
# Two questions, two rules. What would the *true table* have given? Then sampling is no source of
# error, and the intervals are about the fit to the confidential table:

# %%
about_the_table = dpi.pool(fits, uncertainty="noise")
assert (about_the_table.bse < pooled.bse).all()
print(about_the_table.summary())

# %% [markdown]
# ## The direct method
#
# With one covariate of two levels the coefficient is a log odds ratio, for which there is an
# interval by the law of the noise, without prior and imputations.

# %%
happy = cells.get_level_values("marriage") >= 4
groups = [
    happy & (affair == 1),
    happy & (affair == 0),
    ~happy & (affair == 1),
    ~happy & (affair == 0),
]


def log_odds(tables):
    """Log odds ratio of an affair, good marriages to others."""
    a, b, c, d = (tables @ group for group in groups)
    return np.log(a * d / (b * c))


# sums of eight or twelve noises, whose law is that of one with the sum of their variances
sigma = 10.0 * np.sqrt([group.sum() for group in groups])
summed = np.array([published[group].sum() for group in groups]).reshape(2, 2)
direct = dpi.odds_ratio_confint(summed, mechanism=dpi.DiscreteGaussian(sigma=sigma))
drawn = posterior.function(log_odds)
both = pd.DataFrame(
    {
        "direct, noise": np.log([direct.lower, direct.upper]),
        "posterior": np.asarray(drawn.interval(kind="equal-tailed")),
        "true table": log_odds(truth.to_numpy()),
    },
    index=["lower", "upper"],
)
assert both.loc["lower"].max() == both.loc["lower", "true table"]
assert both.loc["upper"].min() == both.loc["upper", "true table"]
assert np.ptp(both["posterior"]) < 1.1 * np.ptp(both["direct, noise"])
both.round(3)

# %% [markdown]
# With counts of hundreds and more the prior hardly matters, and both say the same.
#
# ## Where it fails
#
# The same posterior, of fifty cells that are nearly empty. For each cell alone it is fine. Their
# sum is another matter: each cell's posterior mean is above zero, and fifty of these do not cancel.
# The picture shows how often the 95 % interval for the sum holds it, over 200 releases with σ = 5,
# by the mean of the counts.

# %%
small = dpi.DiscreteGaussian(sigma=5.0)
rng = np.random.default_rng(50)
means = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0]
half = dpi.WeightedSum(np.ones(50), small).isf(0.025)
covered = {}
for mean in means:
    counts = rng.poisson(mean, (200, 50))
    noisy = counts + small.rvs(counts.shape, rng=rng)
    cell = dpi.count_posterior(noisy.ravel(), mechanism=small)
    # cells are independent given what was published: means and variances add up
    middle = np.asarray(cell.mean).reshape(counts.shape).sum(axis=1)
    spread = np.sqrt(np.square(np.asarray(cell.std)).reshape(counts.shape).sum(axis=1))
    total = counts.sum(axis=1)
    covered[mean] = {
        "flat prior": np.mean(np.abs(middle - total) <= 1.96 * spread),
        "unbiased": np.mean(np.abs(noisy.sum(axis=1) - total) <= half),
    }
coverage = pd.DataFrame(covered).T.rename_axis("mean count of a cell")
assert (coverage.loc[[0.0, 1.0, 2.0], "flat prior"] == 0).all()
assert coverage.loc[5.0, "flat prior"] < 0.1
assert coverage.loc[30.0, "flat prior"] > 0.88
assert (coverage["unbiased"] > 0.88).all()
coverage

# %%
#| alt: Coverage of sums: flat prior 0 for small counts, 95 % for large ones; unbiased 95 % always.
ax = dpi.plotting.plot_coverage(coverage, nominal=0.95, reps=200)

# %% [markdown]
# Up to a mean of 2 a cell, the posterior interval for the sum never holds it, and at 5 rarely.
# Nothing in the draws warns of that: they are independent, and as many as asked for. What warns is
# the unbiased interval beside:

# %%
empty = small.rvs(50, rng=51)
nothing = dpi.table_posterior(empty, mechanism=small, draws=1200, rng=51).linear(np.ones(50))
beside = nothing.unbiased()
assert nothing.mean > beside.upper
assert beside.contains(0)
print(
    f"posterior mean {nothing.mean:.0f}, unbiased interval {beside.lower:.0f} to {beside.upper:.0f}"
)

# %% [markdown]
# `interval`, `summary` and `imputations` say so too, by a `PriorConflictWarning`. The advice: for
# sums of small cells use the unbiased interval, or {func}`~dpinfer.intervals.bounded_confint` and
# {func}`~dpinfer.intervals.table_confint`, which use that no count is below zero and hold for every
# table; publish the sums themselves; or take a prior that the cells are like, such as last year's
# counts. An exact total does not cure it: it is shared out among the cells by the same prior. [What
# a posterior promises](guide/what_a_posterior_promises.md) has the figures.
