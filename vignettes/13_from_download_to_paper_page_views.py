# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # From download to paper: page views
#
# In May 2022 mpox broke out far from where it is at home. Who looked it up, and did smallpox, its
# deadly relative, come back to mind? Daily [page views by
# country](https://analytics.wikimedia.org/published/datasets/country_project_page/) are published
# with noise, under two mechanisms and two thresholds. Five questions, from the downloaded file to a
# table and a figure.
#
# The file is `wikimedia_pageviews/pageviews_dp_mpox.csv` in the folder that the environment
# variable `DPINFER_DATA` names; [an earlier page](02_a_real_release_page_views.py) says what is in
# it.

# %%
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

import dpinfer as dpi
from dpinfer.__main__ import main


def shell(line):
    """Run a command as in a terminal."""
    print(f"$ {line}")
    with redirect_stderr(sys.stdout):
        return main(shlex.split(line)[1:])


if "DPINFER_DATA" not in os.environ:
    raise SystemExit("Skipped: set DPINFER_DATA to the folder that holds wikimedia_pageviews/.")

source = Path(os.environ["DPINFER_DATA"]) / "wikimedia_pageviews" / "pageviews_dp_mpox.csv"
folder = Path(tempfile.mkdtemp())
shutil.copyfile(source, folder / "views.csv")
os.chdir(folder)

# %% [markdown]
# ## Describe the file, once
#
# Numbers with noise need a sidecar that says how they were made. `dpinfer init` reads the columns
# and says what is missing: that the column `noise_scale` holds σ where the noise is Gaussian.

# %%
status = shell("dpinfer init views.csv")
assert status != 0

# %%
shell("dpinfer init views.csv --sigma noise_scale --labels country,project,page_title,date")
shell("dpinfer validate views.csv")
status = shell("dpinfer explain views.csv")
assert status == 0

# %%
views = dpi.read_release("views.csv")
smallpox = views.select(country="France", project="fr.wikipedia", page_title="Variole")
smallpox[:5]
assert len(views) == 14_597
assert len(smallpox) == 380

# %% [markdown]
# ## 1. What does a published day say?
#
# Its interval knows the noise of its day and its threshold. Just above a threshold, a value says
# little: its noise may be what brought it there, and the band reaches down to 0. In February 2023
# one mechanism gives way to the other: bands become narrow, and days with fewer views appear. Line
# and band end where a day was not published.

# %%
#| alt: Daily views of the French article on smallpox in France, December 2022 to March 2023, with
#| bands. Values above 450 with wide bands, some of which reach down to 0, turn into values between
#| 160 and 400 with narrow bands in February.
winter = smallpox.where("'2022-12-15' <= date <= '2023-03-31'")
days = dpi.count_confint(winter, lower=0)
axes = dpi.plotting.plot_series(days, unit="views a day")

# %% [markdown]
# ## 2. And a day that is not there?
#
# A day that is missing had, most likely, few views: with more than the bound below, it would have
# been published with a probability of at least 95 %. That takes for granted that the day was looked
# at: the German article on smallpox lacks four days in the week of the outbreak, between days of
# 7,971 views and more. No threshold does that, and no bound is to be had for them.

# %%
laws = [dpi.Geometric(scale=30.0), dpi.DiscreteGaussian(sigma=18.23)]
unpublished = dpi.unpublished_bound(mechanism=laws, threshold=[450, 90], lower=0, integer=True)
unpublished
assert unpublished.upper.tolist() == [518, 119]
german = views.select(country="Germany", project="de.wikipedia", page_title="Pocken")
german = german.where("'2022-05-20' <= date <= '2022-05-26'")
assert (len(german), german.values.min()) == (3, 7971)

# %% [markdown]
# ## 3. How many views in the first week?
#
# The article on the virus, in English, in three countries, 20 to 26 May 2022. All 21 values are
# there, and the smallest is 2,491 above its threshold: under this noise all of them would have been
# published in practically every release. So they are plain numbers, and the law of their noise says
# the rest. (Days close to a threshold must not be summed, and the library refuses to.)

# %%
week = views.select(
    country=["India", "United Kingdom", "United States"],
    project="en.wikipedia",
    page_title="Monkeypox virus",
).where("'2022-05-20' <= date <= '2022-05-26'")
plain = dpi.Release(week.values, labels=week.labels, mechanism=dpi.Geometric(scale=30.0))
weeks = plain.sum("country")
totals = dpi.count_confint(weeks)
totals
assert len(week) == 21
assert (week.values - week.threshold).min() == 2491

# %% [markdown]
# ## 4. How do the countries compare?
#
# The ratio of two of these sums has a confidence set of its own, for any noise (Fieller's idea with
# the law of the sums).

# %%
fit = dpi.combine(weeks)
ratios = fit.ratio(["United Kingdom", "India"], "United States")
ratios.conf_int()

# %% [markdown]
# ## 5. On which days were there more than 300 views?
#
# Back to smallpox in France, in the first two weeks of February 2024. The test knows the thresholds
# too. Each result has its effect with the interval that inverts the test, and p-values of several
# days are adjusted together.

# %%
later = smallpox.where("'2024-02-01' <= date <= '2024-02-14'")
tests = dpi.linear_ztest(later, value=300, alternative="larger")
adjusted = dpi.adjust_pvalues(tests)
adjusted

# %% [markdown]
# ## The table for the paper
#
# Each result writes itself: `to_latex`, `to_markdown`, or `summary_frame` for a table of your own.

# %%
caption = "Views of the article on the virus of mpox, 20 to 26 May 2022."
print(totals.to_latex(caption=caption, label="tab:views", digits=0, brackets=True))
