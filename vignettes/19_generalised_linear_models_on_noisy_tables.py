# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Logistic, Poisson and quadratic models of noisy counts
#
# Which blocks have many children, how many are there, and does their number grow in proportion?
# Three models answer, each with the number of Hispanic persons of a block as the covariate. If that
# number comes with noise, the ordinary fits are wrong, however many blocks there are. Equations
# whose mean over the noise is that of the confidential ones are right for the fit on the
# confidential counts.
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
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.datasets import synthetic_population

COLUMNS = ["children", "hispanic"]


# %%
def public_truth(folder):
    """Counts of the inhabited blocks of the prototype."""
    path = folder / "ri_prototype" / "ri_truth_votingage_hispanic_cenrace_long.csv"
    cells = pd.read_csv(path, dtype={"geoid": str})
    cells = cells[cells["level"] == "Block"]
    chosen = [cells["votingage"] == 0, cells["hispanic"] == 1]
    counts = [cells["count"].where(rows, 0).groupby(cells["geoid"]).sum() for rows in chosen]
    return pd.DataFrame(dict(zip(COLUMNS, counts, strict=True)))


def made_up_truth():
    """Counts of the blocks of a made-up county."""
    population = synthetic_population(counties=1, tracts=7, blocks=12, seed=7)
    tables = population.tables().sum(axis=(1, 4))  # block, voting age, Hispanic origin
    counts = [tables[:, 0].sum(axis=1), tables[:, :, 1].sum(axis=1)]
    return pd.DataFrame(dict(zip(COLUMNS, counts, strict=True)))


folder = os.environ.get("DPINFER_DATA")
truth = public_truth(Path(folder)) if folder else made_up_truth()
truth = truth[truth["hispanic"] < truth["hispanic"].quantile(0.95)]
middle = truth["children"].median()
truth["many"] = (truth["children"] > middle) * 1.0
print(f"{len(truth)} blocks; many children: more than {middle:g}")

# %% [markdown]
# ## What is published
#
# The number of Hispanic persons of each block, with geometric noise whose standard deviation is
# about half that of the number itself; and the number of children with narrower noise. Whether a
# block has many children is known without noise, as from another source.

# %%
spread = truth["hispanic"].std()
noise = dpi.Geometric(scale=round(0.35 * spread, 1))
response_noise = dpi.Geometric(scale=2.0)
rng = np.random.default_rng(19)


def publish():
    """Draw one release of the counts."""
    published = truth.copy()
    published["hispanic"] += noise.rvs(len(truth), rng=rng)
    published["children"] += response_noise.rvs(len(truth), rng=rng)
    return published


published = publish()
published.head()

# %% [markdown]
# ## Three fits
#
# The confidential ones, by statsmodels; the naive ones, which take published values for
# confidential ones; and the corrected ones. `uncertainty="noise"` asks for errors around the
# confidential fit, those that the noise alone makes.

# %%
MODELS = {
    "many ~ hispanic": ({"family": "binomial"}, sm.families.Binomial()),
    "children ~ hispanic": ({"family": "poisson"}, sm.families.Poisson()),
    "children ~ hispanic + I(hispanic**2)": ({"family": "gaussian"}, sm.families.Gaussian()),
}


def fitted(formula, data):
    """Fit a published table."""
    laws = {"hispanic": noise}
    if formula.startswith("children"):
        laws["children"] = response_noise
    return dpi.noisy_glm(formula, data, noise=laws, uncertainty="noise", **MODELS[formula][0])


rows = []
for formula, (_, family) in MODELS.items():
    fit = fitted(formula, published)
    confidential = smf.glm(formula, truth, family=family).fit().params
    ends = fit.summary_frame()
    rows.extend(
        {
            "model": f"{fit.family}, {name}",
            "confidential": confidential[name],
            "naive": fit.naive.params[name],
            "corrected": fit.params[name],
            "lower": ends.loc[name, "ci_lower"],
            "upper": ends.loc[name, "ci_upper"],
            "reliability": fit.reliability[name],
        }
        for name in confidential.index[1:]
    )
table = pd.DataFrame(rows).set_index("model")
table.round(4)

# %% [markdown]
# The naive slopes of the logistic and the Poisson model are pulled towards zero. The corrected ones
# are near those of the confidential counts. The square carries the noise of the same count as its
# neighbour; the naive fit confuses the two, and the wide intervals of the corrected one say how
# little one noisy table tells of a bend.

# %%
slopes_of_counts = table.iloc[:2]
assert (slopes_of_counts["naive"] < slopes_of_counts["confidential"]).all()
assert (table["lower"] < table["confidential"]).all()
assert (table["confidential"] < table["upper"]).all()

# %% [markdown]
# ## Over many releases
#
# One release may be lucky. In many, the corrected slopes lie around the confidential one, and the
# intervals for the noise alone cover it about as often as they should. The naive ones are all wrong
# in the same way.

# %%
FORMULA = "many ~ hispanic"
confidential = smf.glm(FORMULA, truth, family=sm.families.Binomial()).fit().params["hispanic"]
slopes, covered = [], 0
for _ in range(40):
    fit = fitted(FORMULA, publish())
    lower, upper = np.asarray(fit.conf_int())[1]
    covered += lower <= confidential <= upper
    slopes.append({"corrected": fit.params["hispanic"], "naive": fit.naive.params["hispanic"]})
slopes = pd.DataFrame(slopes)
print(f"{covered} of {len(slopes)} intervals cover the confidential slope")

# %%
assert covered >= 32
assert abs(slopes["corrected"].median() / confidential - 1) < 0.15
assert slopes["naive"].median() < 0.9 * confidential

# %%
#| alt: Two histograms of slopes over forty releases. The corrected ones spread around a line at
#| the confidential slope, the naive ones are narrow and all far below it.
figure, axes = plt.subplots(figsize=(6, 3))
axes.hist(slopes["naive"], bins=8, alpha=0.6, label="naive")
axes.hist(slopes["corrected"], bins=16, alpha=0.6, label="corrected")
axes.axvline(confidential, color="black", label="confidential")
axes.set_xlabel("slope of the logistic model")
axes.set_ylabel("releases")
axes.legend()
plt.show()

# %% [markdown]
# ## What the model says of other blocks
#
# Without `uncertainty="noise"` the errors are those of a model of which the blocks are a sample.
# Negative binomial responses leave the variance of the counts open.

# %%
model = dpi.noisy_glm(
    "many ~ hispanic", published, family="binomial", link="probit", noise={"hispanic": noise}
)
print(model.summary())

# %%
new = pd.DataFrame({"hispanic": [5, 20, 60]})
model.predict(new).round(3)
