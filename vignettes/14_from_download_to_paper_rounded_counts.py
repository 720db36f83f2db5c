# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # From download to paper: counts that were rounded first
#
# Some publishers round the counts, and add noise then. The relays of Tor do so: each reports, once
# a day, how many onion services it saw, rounded up to a multiple of 8, with Laplace noise for
# ε = 0.3 and a sensitivity of 8 ([proposal
# 238](https://spec.torproject.org/proposals/238-hs-relay-stats.html)). Rounding is no noise: it
# always errs upwards, and averages do not remove it.
#
# The parameters here are Tor's, and the counts are made up: three relays, 28 days, Poisson counts
# whose means grow by a half within the month. The seed is 3.

# %%
import os
import shlex
import tempfile

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.__main__ import main


def shell(line):
    """Run a command as in a terminal."""
    print(f"$ {line}")
    return main(shlex.split(line)[1:])


rng = np.random.default_rng(3)
dates = [f"2026-03-{day:02d}" for day in range(1, 29)]
index = pd.MultiIndex.from_product([["A", "B", "C"], dates], names=["relay", "day"])
means = np.outer([420.0, 300.0, 160.0], np.linspace(1, 1.5, 28)).ravel()
counts = pd.Series(rng.poisson(means), index)
laplace = dpi.Laplace.from_epsilon(0.3, sensitivity=8)
noisy = np.rint(np.ceil(counts / 8) * 8 + laplace.rvs(84, rng=rng)).astype(int)
os.chdir(tempfile.mkdtemp())
noisy.rename("onions").reset_index().to_csv("onions.csv", index=False)

# %% [markdown]
# ## Describe the file, once

# %%
shell(
    "dpinfer init onions.csv --mechanism laplace --epsilon 0.3 --sensitivity 8 --bin-size 8 "
    "--rounding yes --unit service"
)
shell("dpinfer validate onions.csv")
status = shell("dpinfer explain onions.csv")
assert status == 0

# %% [markdown]
# ## 1. How many onion services did each relay see?
#
# The intervals are for the counts themselves, before they were rounded.

# %%
#| alt: Daily counts of three relays over four weeks as lines with bands of about 80 to each side.
#| All three grow by about a half.
release = dpi.read_release("onions.csv")
seen = dpi.count_confint(release)
axes = dpi.plotting.plot_series(seen, unit="onion services")
assert seen.contains(counts.to_numpy()).sum() >= 70

# %% [markdown]
# ## 2. What would it cost to overlook the rounding?
#
# Estimates would be 3.5 too high, the middle of what rounding adds; for a single day that is little
# beside noise of standard deviation 38. For a month it adds up to 98.

# %%
noise = dpi.mechanisms.Rounded(laplace)
overlooked = dpi.count_confint(release.values, mechanism=noise)
bias = (overlooked.estimate - seen.estimate).mean()
print(f"{bias} a day, {28 * bias:.0f} a month")
assert bias == 3.5

# %% [markdown]
# ## 3. How many in all four weeks?
#
# Sums of rounded counts have noise with an exact law, so their intervals are exact, for the sums of
# the *rounded* counts. Each of the 28 true counts is 0 to 7 smaller: the lower end moves down by
# 28 · 7, and the upper end stays. That holds for whatever the rounding did.

# %%
rounded = dpi.Release(release.values, labels=release.labels, mechanism=noise)
months = rounded.sum("relay")
frame = dpi.count_confint(months).summary_frame()
frame["ci_lower"] -= 28 * 7
frame["estimate"] -= 28 * 3.5
frame
truth = counts.groupby("relay").sum()
assert (frame["ci_lower"] <= truth).all()
assert (truth <= frame["ci_upper"]).all()

# %% [markdown]
# ## 4. Which relay grew fastest?
#
# The ratio of the last week to the first, of rounded counts, with intervals for the noise. Rounding
# adds at most 49 to each sum, and about the same to both; it moves the ratio by less than 5 %, and
# mostly by far less.

# %%
#| alt: Growth of relays A, B and C from the first to the last week with 95 % intervals, all above 1
#| and widest for C, which has the smallest counts.
first = rounded.where("day <= '2026-03-07'").sum("relay")
last = rounded.where("day >= '2026-03-22'").sum("relay")
growth = dpi.ratio_confint(last, first)
axes = growth.plot(unit="last week / first week")
assert (growth.lower > 1).all()
true_first = counts[counts.index.get_level_values("day") <= "2026-03-07"].groupby("relay").sum()
assert (49 / true_first < 0.05).all()

# %% [markdown]
# ## 5. Did relay C see 200 on the last day?
#
# The test of a single value knows the rounding: counts of 193 to 200 are all published as 200 and
# noise, so that no test tells them apart. The effect comes with the interval that inverts the test.

# %%
day = release.select(relay="C", day="2026-03-28")
test = dpi.linear_ztest(day, value=200)
test
same = dpi.linear_ztest(day, value=193)
assert np.isclose(test.pvalue, same.pvalue)

# %% [markdown]
# ## The table for the paper

# %%
caption = "Growth of the counts of three relays, rounding left aside."
print(growth.to_latex(caption=caption, label="tab:growth", digits=2, brackets=True))
