# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # A real release: Wikimedia page views
#
# Since 2023 the Wikimedia Foundation publishes daily page views by country, project and page with
# differential privacy, and has released the years before it in the same form. Two mechanisms are
# in use, and the file says which one made each row:
#
# - days up to 5 February 2023, a few days after it, and the United States until 19 September 2023:
#   two-sided geometric noise of scale 30, published where the noisy count reaches 450;
# - later days: discrete Gaussian noise with σ = 18.23, published where the noisy count reaches 90.
#
# This page reads the views of articles on 38 subjects, mpox and related diseases, in Wikipedias of
# many languages, adds them up across days and countries, and compares two countries, with
# intervals that know the noise.
#
# **The data** are rows of the daily files `country_project_page` and
# `country_project_page_historical` at <https://analytics.wikimedia.org/published/datasets/>, put
# together in `wikimedia_pageviews/pageviews_dp_mpox.csv` with columns for the documented noise. The
# file is not part of the package: this page looks for it in the folder that the environment
# variable `DPINFER_DATA` names.

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dpi

if "DPINFER_DATA" not in os.environ:
    raise SystemExit("Skipped: set DPINFER_DATA to the folder that holds wikimedia_pageviews/.")

file = Path(os.environ["DPINFER_DATA"]) / "wikimedia_pageviews" / "pageviews_dp_mpox.csv"
rows = pd.read_csv(file)
rows.groupby(["mechanism", "noise_scale", "release_threshold"]).size()

# %%
geometric = rows["mechanism"] == "discrete_laplace"
american = rows["country"] == "United States"
early = (rows["date"] <= "2023-02-05") | (american & (rows["date"] <= "2023-09-19"))
assert rows["wikidata_id"].nunique() == 38
assert set(rows.loc[geometric, "noise_scale"]) == {30}
assert set(rows.loc[geometric, "release_threshold"]) == {450}
assert set(rows.loc[~geometric, "noise_scale"].round(2)) == {18.23}
assert set(rows.loc[~geometric, "release_threshold"]) == {90}
assert geometric[early].all()
assert rows.loc[geometric & ~early, "date"].nunique() < 8

# %% [markdown]
# ## From the file to a release
#
# The kind of noise, its size and the threshold are columns, so each row has its own law and its
# own publishing rule. (The file calls the two-sided geometric law by its other name, discrete
# Laplace.)


# %%
def release_of(part):
    return dpi.Release.from_frame(
        part,
        value="noisy_count",
        attributes=["country", "project", "page_title", "date"],
        mechanism={
            "mechanism": {"column": "mechanism"},
            "scale": {"column": "noise_scale"},
            "sigma": {"column": "noise_scale"},
        },
        threshold={"column": "release_threshold"},
        neighbours="add-remove",
    )


everything = release_of(rows)
print(everything)
assert len(everything) == 14_597

# %% [markdown]
# ## What the threshold does
#
# A row is in the file because its *noisy* count reached the threshold. Near the threshold that
# selects rows whose noise was large, and their published values are too high on average. Far above
# it the selection does little: with noise of scale 30, a value 500 above the threshold would have
# been published under almost any noise. Here is the article on mpox in three languages, 20 to 24
# May 2022, the days in which the outbreak of that year made the news. The smallest of the 15 values
# is 977, and 527 above its threshold; noise as large as that has a probability below one in ten
# million.

# %%
first_week = rows[
    (rows["wikidata_id"] == "Q382370")
    & rows["date"].between("2022-05-20", "2022-05-24")
    & (
        (rows["country"] + " " + rows["project"]).isin(
            ["Ukraine ru.wikipedia", "Denmark da.wikipedia", "Canada fr.wikipedia"]
        )
    )
]
views = release_of(first_week)
margin = views.values - np.asarray(views.threshold)
first_week.pivot_table(index="date", columns="country", values="noisy_count")
assert len(views) == 15
assert (views.values.min(), margin.min()) == (977, 527)
assert (views.mechanism.sf(margin) < 1e-7).all()

# %% [markdown]
# Values with a threshold are not combined: in general nothing tells how much of a published value
# is the noise that brought it over the threshold, and a sum of such values may be far off. Each
# value has an interval of its own, which follows from the rule.

# %%
try:
    dpi.combine(views)
except dpi.errors.IncompatibleReleaseError as refusal:
    print(refusal)

least = float(dpi.count_confint(views, alpha=0.001, simultaneous=True).lower.min())
print(f"with 99.9 % confidence, each of the 15 counts is at least {least:.0f}")
assert least == 689

# %% [markdown]
# That is enough to do without the rule here. The fifteen rows were chosen beforehand, by article,
# language and day, and all of them are in the file. Of a count of 689, the noisy value reaches 450
# with a probability above 99.9 %, so that all fifteen are published in more than 99 of 100 releases
# of such counts. A 95 % interval that takes the fifteen as plain values misses in at most 5 of 100
# releases, published or not, hence in at most 5 of 99 of those in which all are. To say that a rule
# had no part in a list is up to the analyst: plain values and their law say so.


# %%
def law_of(part):
    return [
        dpi.Geometric(scale=size)
        if kind == "discrete_laplace"
        else dpi.DiscreteGaussian(sigma=size)
        for kind, size in zip(part["mechanism"], part["noise_scale"], strict=True)
    ]


law = dpi.Geometric(scale=30.0)
assert law_of(first_week) == [law] * 15
assert law.sf(450 - 1 - least) ** 15 > 0.99

# %% [markdown]
# ## Sums across days, and across countries
#
# The views of five days in one country are a sum of five published values, so their error is a sum
# of five independent noises with a known exact law. The intervals are for the confidential counts:
# they cover the noise and nothing else.

# %%
countries = sorted(first_week["country"].unique())
weights = np.array([(first_week["country"] == country).to_numpy(float) for country in countries])
weights = np.vstack([weights, weights.sum(axis=0)])
sums = dpi.linear_confint(views.values, weights, mechanism=law)
frame = sums.summary_frame().set_axis([*countries, "all three"])
frame
assert (frame["estimate"] == weights @ views.values).all()

# %%
#| alt: Intervals of the views of five days from Canada, Denmark, Ukraine and all three, as
#| differences from the estimates. Each country has ± 190, all three together ± 324.
dpi.plotting.plot_forest(frame, centred=True, unit="views")

# %% [markdown]
# The 95 % half-width for the sum of five days is 190 views. Adding up the five daily intervals
# instead would give five times that of a day, 450.

# %%
lower, upper = (np.asarray(end) for end in sums)
day_lower, day_upper = dpi.count_confint(views.values[0], mechanism=law)
print(upper[0] - np.asarray(sums.estimate)[0], 5 * (day_upper - views.values[0]))
assert upper[0] - np.asarray(sums.estimate)[0] == 190
assert 5 * (day_upper - views.values[0]) == 450

# %% [markdown]
# ## A ratio of two countries
#
# How many times more views did the page have in Ukraine than in Denmark? For any ratio $r$, the
# error of (Ukraine) − $r$·(Denmark) is a weighted sum of ten noises with an exact law. The values
# of $r$ for which zero is inside the 95 % interval of that difference are a 95 % confidence set for
# the ratio (Fieller's idea, with the exact law).

# %%
denmark, ukraine = weights[countries.index("Denmark")], weights[countries.index("Ukraine")]
ratio = dpi.linear_ratio_confint(views.values, ukraine, denmark, mechanism=law)
ratio

# %%

# just outside of its ends the difference is not compatible with zero any more
low, high = (float(end) for end in ratio)
for end, outside in ((low, low - 1e-6), (high, high + 1e-6)):
    difference = dpi.linear_confint(views.values, ukraine - end * denmark, mechanism=law)
    beyond = dpi.linear_confint(views.values, ukraine - outside * denmark, mechanism=law)
    assert abs(np.asarray(difference)).min() < 0.01
    assert not beyond.contains(0)

# %% [markdown]
# ## Across the two mechanisms
#
# Did Americans read about smallpox more often in October 2022 than in October 2023? The first month
# was published with geometric noise, the second with discrete Gaussian noise. Both are whole
# numbers, so the difference of the two means per published day has an exact law as well, on the
# multiples of 1/126.

# %%
smallpox = rows[
    (rows["wikidata_id"] == "Q12214")
    & (rows["country"] == "United States")
    & (rows["project"] == "en.wikipedia")
    & rows["date"].str[:7].isin(["2022-10", "2023-10"])
]
before = (smallpox["date"] < "2023").to_numpy()
octobers = release_of(smallpox)
smallpox.groupby([smallpox["date"].str[:7], "mechanism"])["noisy_count"].agg(["size", "mean"])

# %%
assert (before.sum(), (~before).sum()) == (14, 18)
assert np.lcm(14, 18) == 126

contrast = np.where(before, 1 / before.sum(), -1 / (~before).sum())
difference = dpi.linear_confint(octobers.values, contrast, mechanism=law_of(smallpox))
difference

# %% [markdown]
# Each of these days is far above its threshold, and the published days are what is compared: days
# below the threshold are in neither mean, so that this is not a comparison of two whole months.
# What the interval covers is the noise. Whether readers' interest changed, beyond these days, is a
# question about a population, which needs a model of the days and not only of the noise.

# %%
assert (octobers.mechanism.sf(octobers.values - np.asarray(octobers.threshold)) < 1e-7).all()
dpi.linear_confint(views.values, np.full(15, 1 / 15), mechanism=law)
