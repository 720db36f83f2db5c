# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # From download to paper: a geography
#
# The shape of a census: blocks in block groups, tracts and counties of a state, and a noisy count
# of adults and of minors for each unit. Here the state is made up, by
# `dpinfer.datasets.synthetic_population`, and the noise is ours: discrete Gaussian with σ = 1 for
# the state, 3 for a county, 5 for a tract and 8 for a block. [An earlier
# page](07_a_whole_geography.py) has the parameters of the census of 2020.

# %%
import os
import shlex
import tempfile

import geopandas
import pandas as pd
from shapely.geometry import box

import dpinfer as dpi
from dpinfer.__main__ import main
from dpinfer.datasets import synthetic_population
from dpinfer.releases.census import block_geoid


def shell(line):
    """Run a command as in a terminal."""
    print(f"$ {line}")
    return main(shlex.split(line)[1:])


population = synthetic_population(counties=2, tracts=8, blocks=6, seed=7)
blocks = pd.Series(block_geoid(population.codes), name="geoid").astype(str)
people = pd.DataFrame(population.tables().sum(axis=(1, 3, 4)), columns=["minor", "adult"])
sigma = {2: 1.0, 5: 3.0, 11: 5.0, 15: 8.0}
parts = [people.groupby(blocks.str[:length]).sum().reset_index() for length in sigma]
table = pd.concat(parts).melt("geoid", var_name="age", value_name="truth")
table["sigma"] = table["geoid"].str.len().map(sigma)
noise = dpi.DiscreteGaussian(sigma=table["sigma"].to_numpy())
table["noisy_count"] = (table["truth"] + noise.rvs(len(table), rng=1)).astype(int)
os.chdir(tempfile.mkdtemp())
table.drop(columns="truth").to_csv("people.csv", index=False)

# %% [markdown]
# ## Describe the file, once
#
# Codes such as `01001` stay texts, with their zeros.

# %%
shell("dpinfer init people.csv --mechanism discrete_gaussian --unit person")
shell("dpinfer validate people.csv")
status = shell("dpinfer explain people.csv")
assert status == 0

# %% [markdown]
# ## 1. How many adults has each county?
#
# The codes say which unit is in which. One call uses the numbers of all levels; that of the county
# itself is only one of them.

# %%
release = dpi.read_release("people.csv")
tree = dpi.Hierarchy.from_codes(blocks.tolist(), list(sigma))
adults = dpi.combine_hierarchy(release.select(age="adult").sum("geoid"), tree)
counties = ["01001", "01002", "01003", "01004"]
adults[counties]
frame = adults.summary_frame().loc[counties]
assert (frame["std_err"] < frame["published_std_err"]).all()

# %% [markdown]
# ## 2. How many in a district of your own?
#
# A school district of two tracts and 20 blocks of a third is no unit of the census. The error of
# such a sum follows from that of the whole fit.

# %%
units = pd.Series(tree.labels)
tracts = units[units.str.len() == 11].tolist()
inside = [block for block in blocks if block.startswith(tracts[2])][:20]
adults.sum({"district": [*tracts[:2], *inside]})

# %% [markdown]
# ## 3. Which share of the adults lives in the largest county?

# %%
adults.share(["01002"], of="01")

# %% [markdown]
# ## 4. Has county 01004 at least 1,900 adults more than county 01003?
#
# The test has the estimate with the interval that inverts it.

# %%
test = dpi.linear_ztest(adults, {"01004": 1, "01003": -1}, value=1900, alternative="larger")
test
assert 0 < test.pvalue < 1

# %% [markdown]
# ## 5. Where do numbers disagree with one another?
#
# A question to ask first: a unit whose code changed, or a number in a wrong row, is at the top of
# the list. Here the numbers agree as well as this noise lets them.

# %%
print(f"p-value {float(adults.consistency_test(method='asymptotic').pvalue):.2f}")
adults.disagreements(3)

# %% [markdown]
# ## The figure and the table for the paper
#
# A map needs the places: a shapefile of the census, read by GeoPandas, or squares, as here.

# %%
#| alt: A map of 29 tracts as squares, coloured by the number of adults, from about 240 to 2,170.
places = geopandas.GeoDataFrame(
    {"tract": tracts},
    geometry=[box(at % 6, -(at // 6), at % 6 + 1, 1 - at // 6) for at in range(29)],
)
axes = dpi.plotting.plot_map(places, adults, on="tract", unit="adults")

# %%
caption = "Adults by county."
print(adults[counties].to_latex(caption=caption, label="tab:adults", digits=1, brackets=True))
