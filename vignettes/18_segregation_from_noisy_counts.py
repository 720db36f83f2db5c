# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Segregation from noisy counts
#
# Noise moves an index of segregation, and which way depends on what is done with it: shares that
# noise spreads apart look segregated, and cells that are empty and get people of both groups,
# once negative counts are cut off at zero, look mixed. How much of a published index is people
# and how much is noise depends on the level. Here the same city is measured by tract, by block
# group and by block, naively and right.
#
# Where the environment variable `DPINFER_DATA` names the folder of the published files, the truth
# is a public one: black and white persons of seven tracts of Providence County, Rhode Island,
# from the prototype files of the 2018 test of the census. Otherwise it is a made-up one. The
# noise is ours.

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.functions import (
    dissimilarity_confint,
    function_confint,
    information_index,
    lorenz_bands,
    top_share_confint,
)

LEVELS = {"Tract": 11, "Block_Group": 12, "Block": 15}


def public_truth(folder):
    """Black and white persons, neither of Hispanic origin, by block."""
    path = folder / "ri_prototype" / "ri_truth_votingage_hispanic_cenrace_long.csv"
    cells = pd.read_csv(path, dtype={"geoid": str})
    cells = cells[(cells["level"] == "Block") & (cells["hispanic"] == 0)]
    cells = cells[cells["cenrace"].isin(["black", "white"])]
    return cells.pivot_table(
        index="geoid", columns="cenrace", values="count", aggfunc="sum", fill_value=0
    )


def made_up_truth():
    """Blocks of a made-up city whose tracts differ in their composition."""
    rng = np.random.default_rng(7)
    codes = [
        f"44007{tract:06d}{group}{block:03d}"
        for tract in range(7)
        for group in range(1, 5)
        for block in range(12)
    ]
    share = np.repeat(rng.uniform(0.2, 0.8, 7), 48) * 0.6 + 0.4 * rng.beta(0.4, 0.4, len(codes))
    size = rng.negative_binomial(0.7, 0.03, len(codes))
    black = rng.binomial(size, share)
    index = pd.Index(codes, name="geoid")
    return pd.DataFrame({"black": black, "white": size - black}, index)


folder = os.environ.get("DPINFER_DATA")
blocks = made_up_truth() if folder is None else public_truth(Path(folder))
levels = {name: blocks.groupby(blocks.index.str[:digits]).sum() for name, digits in LEVELS.items()}
pd.Series({name: len(cells) for name, cells in levels.items()}, name="cells")

# %% [markdown]
# ## What noise does at each level
#
# The same noise, of standard deviation 7, is added to every cell of every level. The index of
# dissimilarity of what comes out, and the proved interval, with the sizes of both groups
# published without noise:

# %%
noise = dpi.Geometric(scale=5.0)
rows = []
published = {}
for seed, (name, cells) in enumerate(levels.items()):
    black, white = (
        cells[group] + noise.rvs(len(cells), rng=10 * seed + at)
        for at, group in enumerate(("black", "white"))
    )
    published[name] = black, white
    sizes = (cells["black"].sum(), cells["white"].sum())
    truth = dissimilarity_confint(cells["black"], cells["white"], mechanism=dpi.Exact()).estimate
    found = dissimilarity_confint(black, white, totals=sizes, mechanism=noise, rng=1)
    rows.append([truth, found.plug_in, found.lower, found.upper])
dissimilarity = pd.DataFrame(
    rows, pd.Index(levels, name="level"), ["truth", "plug-in", "lower", "upper"]
)
dissimilarity.round(3)

# %% tags=["remove-cell"]
assert (dissimilarity["lower"] <= dissimilarity["truth"]).all()
assert (dissimilarity["truth"] <= dissimilarity["upper"]).all()
# the interval of blocks is several times wider than that of tracts
width = dissimilarity["upper"] - dissimilarity["lower"]
assert width["Block"] > 4 * width["Tract"]

# %% [markdown]
# By tract the noise hardly matters. By block it does: the interval is wide, as no narrow one is
# valid there. An index of a coarser level is never above that of a finer one, so that the lower
# end of the tracts holds for blocks as well.
#
# ## An index with an unbiased estimate
#
# The information index is a sum over cells of a function of two counts, and under geometric or
# Laplace noise it has an unbiased estimate at every level. Its standard error grows as cells
# shrink.

# %%
rows = []
for name, cells in levels.items():
    sizes = (cells["black"].sum(), cells["white"].sum())
    found = information_index(published[name], totals=sizes, mechanism=noise)
    truth = information_index((cells["black"], cells["white"]), mechanism=dpi.Exact()).params
    rows.append([truth, found.plug_in, found.params, found.bse])
information = pd.DataFrame(
    rows, pd.Index(levels, name="level"), ["truth", "plug-in", "unbiased", "std. error"]
)
information.round(3)

# %% tags=["remove-cell"]
gap = (information["unbiased"] - information["truth"]).abs() / information["std. error"]
assert (gap.dropna() < 4).all()

# %% [markdown]
# ## An index of your own
#
# `function_confint` takes any function. By simulation it removes the bias and the error that a
# second level of draws shows, and refuses where that shows that it would not cover: here by
# block, where the usual bootstrap covers the truth in no case.


# %%
def own_index(b, w):
    b, w = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1.0) for x in (b, w))
    return 0.5 * np.abs(b - w).sum(axis=-1)


print(function_confint(published["Tract"], own_index, method="simulate", mechanism=noise, rng=1))
try:
    function_confint(
        published["Block"], own_index, method="simulate", mechanism=noise, rng=1, reps=200
    )
    refused = ""
except dpi.errors.NotEstimableError as error:
    refused = str(error)
print(refused)

# %% tags=["remove-cell"]
assert "refuses to simulate" in refused

# %% [markdown]
# ## Where a group lives
#
# How large a share of the black persons live in the three block groups with most of them, and how
# unequal are the numbers? Both have proved bounds: a sum of the largest is the maximum over sets
# of cells, so that noise makes it too large.

# %%
cells, (black, _) = levels["Block_Group"], published["Block_Group"]
total = cells["black"].sum()
top = top_share_confint(black, 3, total=total, mechanism=noise, rng=1)
print("truth", round(cells["black"].nlargest(3).sum() / total, 3), top)

# %%
#| alt: Lorenz curve of black persons by block group with its band below the diagonal.
band = lorenz_bands(black, total=total, mechanism=noise, rng=1)
axes = dpi.plotting.plot_lorenz(band)

# %% tags=["remove-cell"]
assert top.contains(cells["black"].nlargest(3).sum() / total)
curve = np.sort(cells["black"]).cumsum() / total
assert ((band.lower <= curve + 1e-9) & (curve <= band.upper + 1e-9)).all()
