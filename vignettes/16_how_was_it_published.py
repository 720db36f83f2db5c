# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # How was it published?
#
# The same counts, published in four ways, and then a real release: each time the producer's words
# lead to what is said once, and what is said decides which call is right. The [guide of the same
# name](guide/how_was_it_published.md) lists all the words.
#
# First the visits to two sites on 28 days, made up: Poisson counts whose mean falls by a tenth each
# week, with geometric noise of scale 10. The seed is 5.

# %%
import os
import shlex
import sys
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.__main__ import main
from dpinfer.intervals import thresholded_ratio_confint, thresholded_sum_confint


def shell(line):
    """Run a command as in a terminal."""
    print(f"$ {line}")
    with redirect_stderr(sys.stdout):
        return main(shlex.split(line)[1:])


rng = np.random.default_rng(5)
days = pd.MultiIndex.from_product([["north", "south"], range(1, 29)], names=["site", "day"])
means = np.outer([140.0, 70.0], 0.9 ** (np.arange(28) / 7)).ravel()
visits = pd.Series(rng.poisson(means), days)
truth = visits.groupby("site").sum()
law = dpi.Geometric(scale=10.0)
noise = law.rvs(56, rng=rng)
os.chdir(tempfile.mkdtemp())
truth

# %% [markdown]
# ## "Rounded to the nearest 5, negative values set to 0"
#
# Both were done after the noise. The sidecar says so, and `analyze` takes it from there: sums are
# bounded, as no law tells what was rounded away.

# %%
rounded = (np.rint((visits + noise) / 5) * 5).clip(lower=0).astype(int)
rounded.rename("visits").reset_index().to_csv("rounded.csv", index=False)
shell("dpinfer init rounded.csv --mechanism geometric --scale 10 --rounding 5 --clamp 0")
status = shell("dpinfer analyze rounded.csv --by site")
assert status == 0

# %% [markdown]
# Tests know it as well: did the north have more visits in the first week than in the last?

# %%
release = dpi.read_release("rounded.csv")
first, last = ([("north", day) for day in range(at, at + 7)] for at in (1, 22))
fall = dict.fromkeys(first, 1) | dict.fromkeys(last, -1)
test = dpi.linear_ztest(release, fall, alternative="larger")
test
weights = pd.DataFrame(np.kron(np.eye(2), np.ones(28)), index=truth.index, columns=days)
bounded = dpi.linear_confint(release, weights)
assert bounded.contains(truth.to_numpy()).all()
assert test.pvalue < 0.05

# %% [markdown]
# ## "Counts were rounded to base 5, then noise was added"
#
# The other order. Each count may be 2 below or above its bin, whatever the noise; of 28 days that
# is 56 on either side, which no average removes. (A little of it comes back, as the sum of the bins
# is a multiple of 5.)

# %%
binned = dpi.Release(
    np.rint(visits / 5) * 5 + noise, labels=days, mechanism=law, bin_size=(5, "nearest")
)
wide = dpi.linear_confint(binned, weights)
plain = dpi.linear_confint(visits + noise, weights, mechanism=law)
print(wide.width - plain.width)
assert wide.contains(truth.to_numpy()).all()
assert (wide.width - plain.width <= 112).all()
assert (wide.width - plain.width > 100).all()

# %% [markdown]
# ## "Days with fewer than 90 were not published"
#
# The noisy value was compared. The list of days was made beforehand and holds every day, so that a
# day that is missing is known to have been below: `target="cells"`. Of the south, most days are
# missing, and what is known of them is a range.

# %%
published = (visits + noise).where(visits + noise >= 90)
rule = {"mechanism": law, "threshold": 90}
totals = thresholded_sum_confint(published, target="cells", by="site", **rule)
totals
assert totals.contains(truth.to_numpy()).all()
assert published["south"].isna().sum() > 14

# %% [markdown]
# A trend with unpublished days is a sum with weights. Those of the slope of a straight line over
# the 28 days of the north give its fall in visits a day; a missing day has a place in it, between
# the least and the most that it may have been.

# %%
day = np.arange(1.0, 29.0)
slope = (day - day.mean()) / ((day - day.mean()) ** 2).sum()
trend = thresholded_sum_confint(published["north"], target="cells", weights=slope, **rule)
print(f"{published['north'].isna().sum()} of 28 days of the north are missing")
trend
true_slope = float(slope @ visits["north"].to_numpy())
assert trend.contains(true_slope)

# %% [markdown]
# The plain sum of what is there, and the slope of the days that are there, are about other days:
# the noise chose them.

# %%
naive = published.groupby("site").sum()
pd.DataFrame({"true": truth, "sum of what is there": naive})
assert naive["south"] < 0.7 * truth["south"]

# %% [markdown]
# ## "Made consistent and non-negative", with replicates
#
# A fitting step leaves no law. Whoever can run it makes replicates with the published table as its
# input; [published tables](guide/published_tables.md) says what they are worth, and when noisy
# measurements are better.


# %%
def producer(table, generator):
    """Add noise, keep the total, leave nothing negative, round."""
    fitted = table + law.rvs(table.shape, rng=generator)
    fitted = np.clip(fitted + (table.sum() - fitted.sum()) / fitted.size, 0.0, None)
    return np.rint(fitted * (table.sum() / fitted.sum()))


table = visits["south"].groupby((np.arange(28) // 7) + 1).sum().to_numpy(float)
fitted = producer(table, np.random.default_rng(1))
replicates = dpi.intervals.replicate(producer, fitted, n=25, rng=2)
dpi.intervals.replicate_confint(fitted, replicates, integer=True, lower=0)

# %% [markdown]
# ## A real release under two regimes
#
# Daily [page views](https://analytics.wikimedia.org/published/datasets/country_project_page/) of
# articles on 38 subjects: until February 2023 geometric noise of scale 30, published from 450 on;
# since then discrete Gaussian noise with σ = 18.23, published from 90 on. Law and threshold are
# columns. The file is `wikimedia_pageviews/pageviews_dp_mpox.csv` in the folder that the
# environment variable `DPINFER_DATA` names; [an earlier page](02_a_real_release_page_views.py) says
# what is in it.

# %%
if "DPINFER_DATA" not in os.environ:
    raise SystemExit("Skipped: set DPINFER_DATA to the folder that holds wikimedia_pageviews/.")

rows = pd.read_csv(
    Path(os.environ["DPINFER_DATA"]) / "wikimedia_pageviews" / "pageviews_dp_mpox.csv"
)
own = rows["country"].map({"France": "fr", "Germany": "de", "Japan": "ja"}) + ".wikipedia"
rows = rows[(rows["wikidata_id"] == "Q12214") & (rows["project"] == own)]
rows = rows.assign(
    week=pd.to_datetime(rows["date"]).dt.to_period("W-SUN").dt.start_time.astype(str)
)
size = {"column": "noise_scale"}
views = dpi.Release.from_frame(
    rows,
    value="noisy_count",
    attributes=["country", "week", "date"],
    mechanism={"mechanism": {"column": "mechanism"}, "scale": size, "sigma": size},
    threshold={"column": "release_threshold"},
)
views[:5]

# %% [markdown]
# ### Are the missing days below the threshold?
#
# That has to be asked before a target is named. Of the days from 1 March 2023 to the end, about
# half are missing in each of the three countries. In Japan the values that are there are hardly
# ever near 90: if days were missing because they were below it, others would be close above it.

# %%
late = rows[rows["date"] >= "2023-03-01"]
calendar = pd.date_range("2023-03-01", "2024-02-27")
by_country = late.groupby("country")["noisy_count"]
missing = 1 - by_country.size() / len(calendar)
least = {"least": by_country.min(), "tenth": by_country.quantile(0.1)}
pd.DataFrame({"missing": missing} | least)

# %%
assert ((missing > 0.4) & (missing < 0.6)).all()
assert least["tenth"]["Japan"] > 250

# %% [markdown]
# So rows are missing from this file for another reason, too, and nothing is known of them:
# `target="cells"` would be wrong. What can be asked is about the days that are here,
# `target="published"`. It holds where whatever else removed rows did not look at their noise.
#
# ### Weekly sums by country
#
# One series, two regimes, each day with its own law and threshold. The geometric weeks are wide:
# near 450, values have no memory of how far below it the count was.

# %%
season = views.where("'2023-01-16' <= week <= '2023-03-13'")
weekly = thresholded_sum_confint(season, target="published", by=["country", "week"])
weekly.summary_frame().loc["Japan"]
assert np.isfinite(np.asarray(weekly)).all()

# %% [markdown]
# ### Two countries
#
# The ratio of the views in Germany to those in France under either regime, of the days that were
# published in both. Which days these are depends on the noise, and the bounds hold whichever they
# are.

# %%
labels = views.labels
country, week = labels.get_level_values("country"), labels.get_level_values("week")
is_late = week >= "2023-03-01"
ratios = {}
for regime, chosen in {
    "geometric, 2022": week < "2023-01-01",
    "Gaussian, from March 2023": is_late,
}.items():
    part = views.select(chosen & (country != "Japan"))
    dates = part.labels.get_level_values("date")
    part = part.select(dates.duplicated(keep=False))
    where = part.labels.get_level_values("country")
    ratio = thresholded_ratio_confint(
        part, (where == "Germany") * 1.0, (where == "France") * 1.0, target="published"
    )
    ratios[regime] = [float(end) for end in ratio]
pd.DataFrame(ratios, index=["lower", "upper"]).T
widths = {regime: upper - lower for regime, (lower, upper) in ratios.items()}
assert widths["Gaussian, from March 2023"] < widths["geometric, 2022"]
assert rows.groupby("country")["date"].nunique().sum() == len(rows)

# %% [markdown]
# ### A trend with missing days
#
# Sums of months with 18 published days and of months with 12 are no trend; means are. How many days
# were published is known, so that the ratio of two sums gives that of two means: views on a
# published day from September 2023 on, relative to March to August. (The early regime is left out,
# as its days are those above 450: the noise is allowed for, and the change of the threshold is
# not.)

# %%
later = views.select(is_late)
second = later.labels.get_level_values("date") >= "2023-09-01"
change = thresholded_ratio_confint(
    later, second * 1.0, ~second * 1.0, target="published", by="country"
)
number = pd.Series(second, later.labels.get_level_values("country")).groupby(level=0, sort=False)
per_day = (number.size() - number.sum()) / number.sum()
trend = change.summary_frame().mul(per_day, axis=0)
trend.round(3)

# %%
assert (trend.loc[["France", "Germany"], "ci_lower"] > 1.05).all()
assert trend.loc["Japan", "ci_upper"] < 0.9

# %% [markdown]
# Up in France and Germany, down in Japan. Each interval holds by itself, and is for the days that
# are here. Whether interest fell beyond them is not asked, and the file does not say.
