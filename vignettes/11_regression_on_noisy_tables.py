# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Regression when the covariates were published with noise
#
# How does the number of children in a block depend on who else lives there? The counts of the
# blocks come with noise, and they are the covariates. Noise in a covariate does not average out:
# it pulls the coefficients to wrong values, the more so the wider it is beside the differences
# between blocks, and more blocks do not help. But the variance of the noise is published, and that
# is enough to take it off.
#
# The counts are the persons in households of the public prototype of the redistricting file of
# Rhode Island (2018 End-to-End Census Test) where `DPINFER_DATA` points to it, otherwise those of a
# made-up county. They play the confidential data here, so that every answer can be held against the
# truth.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.datasets import synthetic_population

COLUMNS = ["children", "adults", "hispanic"]


# %%
def public_truth(folder):
    """Counts of the inhabited blocks of the prototype."""
    path = folder / "ri_prototype" / "ri_truth_votingage_hispanic_cenrace_long.csv"
    cells = pd.read_csv(path, dtype={"geoid": str})
    cells = cells[cells["level"] == "Block"]
    chosen = [cells["votingage"] == 0, cells["votingage"] == 1, cells["hispanic"] == 1]
    counts = [cells["count"].where(rows, 0).groupby(cells["geoid"]).sum() for rows in chosen]
    return pd.DataFrame(dict(zip(COLUMNS, counts, strict=True)))


def made_up_truth():
    """Counts of the blocks of a made-up county."""
    population = synthetic_population(counties=1, tracts=7, blocks=12, seed=7)
    tables = population.tables().sum(axis=(1, 4))  # block, voting age, Hispanic origin
    counts = [tables[:, 0].sum(axis=1), tables[:, 1].sum(axis=1), tables[:, :, 1].sum(axis=1)]
    return pd.DataFrame(dict(zip(COLUMNS, counts, strict=True)))


folder = os.environ.get("DPINFER_DATA")
truth = public_truth(Path(folder)) if folder else made_up_truth()
truth.describe().loc[["count", "mean", "std", "max"]].round(1)

# %% [markdown]
# ## What is published
#
# Each of the three counts of each block, with discrete Gaussian noise. Its σ is two fifths of the
# standard deviation of the counts of Hispanic persons: small noise, one might think.

# %%
noise = dpi.DiscreteGaussian(sigma=round(0.4 * truth["hispanic"].std()))
rng = np.random.default_rng(20201)


def publish():
    """Draw one release of the counts."""
    return truth + noise.rvs(truth.shape, rng=rng)


published = publish()
print(noise)
published.head()

# %% [markdown]
# ## The fit, and the fit that takes the noise for people
#
# `noise` says which columns carry noise, and its law. The formula is read as statsmodels reads it.

# %%
formula = "children ~ adults + hispanic"
fit = dpi.noisy_ols(formula, published, noise=dict.fromkeys(COLUMNS, noise), uncertainty="noise")
fit

# %%
confidential = smf.ols(formula, truth).fit().params
pd.DataFrame(
    {
        "confidential": confidential,
        "noise taken off": fit.params,
        "noise ignored": fit.naive.params,
    }
).round(3)

# %% [markdown]
# `reliability` is the share of a published covariate's variance that is not noise. `attenuation` is
# the matrix by which ordinary least squares multiplies the coefficients: because adults and
# Hispanic persons go together, the noise of each also leaks into the coefficient of the other.

# %%
fit.reliability.round(3)

# %%
fit.attenuation.round(3)

# %% [markdown]
# ## Does the interval hold?
#
# With `uncertainty="noise"` the intervals are about the coefficients that least squares would give
# for the confidential counts of these very blocks. Here those are known, and the noise can be drawn
# again and again.

# %%
TIMES = 100
kept = {"noise taken off": [], "noise ignored": []}
estimates = {name: [] for name in kept}
for _ in range(TIMES):
    again = dpi.noisy_ols(
        formula, publish(), noise=dict.fromkeys(COLUMNS, noise), uncertainty="noise"
    )
    for name, one in zip(kept, (again, again.naive), strict=True):
        ends = np.asarray(one.conf_int())
        kept[name].append((ends[:, 0] <= confidential) & (confidential <= ends[:, 1]))
        estimates[name].append(one.params)

coverage = pd.DataFrame({name: np.mean(rows, axis=0) for name, rows in kept.items()})
coverage.index = confidential.index
means = pd.DataFrame({name: np.mean(rows, axis=0) for name, rows in estimates.items()})
means.index = confidential.index
print("share of 95 % intervals that hold the confidential coefficient")
coverage.round(3)

# %%
print("average coefficient, over the confidential one")
means.div(confidential, axis=0).round(2)

# %%
# fewer than 0.8 of 100 have a chance below 1e-7 where 0.95 is right
assert (coverage["noise taken off"] > 0.8).all()
error = means.sub(confidential, axis=0).abs().loc["hispanic"]
assert error["noise taken off"] < error["noise ignored"] / 4

# %% [markdown]
# The intervals without correction are meant for a population of blocks, so that they are wider than
# these; but they are around another number, and with more blocks they would close in on it.

# %%
#| alt: Histograms of two coefficients over 100 releases. With the noise taken off they stand around
#| the confidential coefficient; with the noise ignored they stand beside it.
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for ax, name in zip(axes, ["adults", "hispanic"], strict=True):
    for label in kept:
        ax.hist([one[name] for one in estimates[label]], bins=30, alpha=0.8, label=label)
    ax.axvline(confidential[name], color="black", linestyle="--", label="confidential")
    ax.set(xlabel=f"coefficient of {name} (children per person)", yticks=[])
axes[0].set_ylabel("releases")
axes[1].legend()

# %% [markdown]
# ## A population instead of these blocks
#
# The default, `uncertainty="noise+sampling"`, takes the blocks for a sample: its standard errors
# are those of the sandwich estimator, with the noise in it. They are wider, and no narrower noise
# makes them vanish.

# %%
wider = dpi.noisy_ols(formula, published, noise=dict.fromkeys(COLUMNS, noise))
pd.DataFrame({"noise": fit.bse, "noise+sampling": wider.bse}).round(4)
assert (wider.bse > fit.bse).all()

# %% [markdown]
# ## Shares
#
# A share of noisy counts is not linear in the noise, and `noisy_ols` refuses it unless told to
# linearise. That is an approximation for denominators well above the noise, and the notes of the
# summary count the rows where it is not good. With the noise above it would be good in few blocks;
# here is a release with less, and its larger blocks. They are chosen by their published size, far
# enough from zero for its noise not to matter much.

# %%
little = dpi.DiscreteGaussian(sigma=2)
precise = truth + little.rvs(truth.shape, rng=rng)
large = precise[precise["children"] + precise["adults"] > 40]
shares = dpi.noisy_ols(
    "I(children / (children + adults)) ~ I(hispanic / (children + adults))",
    large,
    noise=dict.fromkeys(COLUMNS, little),
    nonlinear="delta",
)
shares

# %% [markdown]
# ## What to remember
#
# - Coefficients on noisy covariates are wrong without a correction, in every sample size; a noisy
#   response alone only widens the intervals.
# - The correction needs the variance of the noise and nothing else; intervals for the confidential
#   fit need its fourth moment as well, which the law gives.
# - To *predict* from counts that will be published with the same noise, the uncorrected fit is the
#   right one.
