# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Thresholds, shares and ratios: page views again
#
# The page views of [vignette 02](02_a_real_release_page_views.py) are published only where the
# *noisy* count reaches a threshold. Three questions:
#
# - What was the count behind a row that is near its threshold? Such rows are in the file because
#   their noise was large, so the usual interval is too high.
# - What does it say that a row is *not* in the file?
# - What share of the readers came from one country, and how many times as many as from another?
#
# **The data** are those of vignette 02, which says where they come from. They are not part of the
# package: this page looks for them in the folder that the environment variable `DPINFER_DATA`
# names.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpinfer as dpi

if "DPINFER_DATA" not in os.environ:
    raise SystemExit("Skipped: set DPINFER_DATA to the folder that holds wikimedia_pageviews/.")

file = Path(os.environ["DPINFER_DATA"]) / "wikimedia_pageviews" / "pageviews_dp_mpox.csv"
rows = pd.read_csv(file)
gaussian = rows["mechanism"] != "discrete_laplace"
laws = {
    "geometric": dpi.Geometric(scale=30.0),
    "discrete Gaussian": dpi.DiscreteGaussian(sigma=rows.loc[gaussian, "noise_scale"].iloc[0]),
}
thresholds = {"geometric": 450.0, "discrete Gaussian": 90.0}

# %% [markdown]
# ## Rows near the threshold
#
# Whatever the confidential count f, a row is in the file only if y ≥ τ. Given that, y has the tail
# P(Y ≥ y)/P(Y ≥ τ), and the interval holds the f for which y is not extreme under that law. Far
# above the threshold it is the usual interval. Near it, it reaches further down, and the estimate
# of maximum likelihood is lower than y.

# %%
recent = rows[gaussian]
counts = recent["noisy_count"].to_numpy(float)
rule = {"mechanism": laws["discrete Gaussian"], "threshold": 90.0, "lower": 0}
conditional = dpi.count_confint(counts, **rule)
naive = dpi.count_confint(counts, **rule, method="naive")

above = pd.cut(counts - 90, [0, 5, 20, 40, 80, 160, np.inf], right=False)
shown = pd.DataFrame(
    {
        "estimate": conditional.estimate,
        "lower": conditional.lower,
        "upper": conditional.upper,
        "naive lower": naive.lower,
        "naive upper": naive.upper,
    }
)
means = shown.groupby(above, observed=True).mean()
means.insert(0, "rows", np.bincount(above.codes))
means.index.name = "above τ"
means.round(1)

assert means["lower"].iloc[0] < 1 < 50 < means["naive lower"].iloc[0]
assert np.allclose(
    means.iloc[-1][["lower", "upper"]], means.iloc[-1][["naive lower", "naive upper"]]
)
assert (conditional.lower <= naive.lower).all()
assert (conditional.upper <= naive.upper).all()

# %% [markdown]
# One row in five lies less than 20 above the threshold. Of a row published as 92 one knows that its
# count was not above 115 or so, and next to nothing about how small it was.

# %%
near = (counts < 110).mean()
print(f"{near:.1%} of rows are less than 20 above the threshold")
assert 0.15 < near < 0.25

# %% [markdown]
# ## How often the intervals are right
#
# Both intervals, for counts around the threshold, with the coverage among the releases that are
# published. It is exact: a sum over all values that can be published.


# %%
def coverage(law, threshold, method, counts):
    """Probability that the interval of a published value holds the count behind it."""
    reach = int(np.ceil(law.isf(1e-12)))
    y = np.arange(threshold, counts.max() + reach)
    lower, upper = dpi.count_confint(y, mechanism=law, threshold=threshold, method=method)
    rates = []
    for count in counts:
        chance = law.pmf(y - count)
        inside = (lower <= count) & (count <= upper)
        rates.append(chance[inside].sum() / chance.sum())
    return np.array(rates)


# %%
#| alt: Coverage of 95 % intervals by the confidential count, for both laws. The exact interval
#| stays at 95 %. The naive one falls to 0 below the threshold.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True, layout="constrained")
smallest = {}
for ax, (name, law) in zip(axes, laws.items(), strict=True):
    around = np.arange(thresholds[name] - 100, thresholds[name] + 150, 10.0)
    rates = {
        method: coverage(law, thresholds[name], method, around) for method in ("exact", "naive")
    }
    for method, rate in rates.items():
        ax.plot(around, rate, label=method)
    ax.set(title=name, xlabel="confidential count")
    smallest[name] = {method: rate.min() for method, rate in rates.items()}
axes[0].set_ylabel("coverage of 95 % intervals")
axes[0].legend()

# %%
smallest = pd.DataFrame(smallest).T
smallest.round(3)
assert (smallest["exact"] > 0.95 - 1e-9).all()
assert (smallest["naive"] < 0.01).all()

# %% [markdown]
# The naive interval misses nearly always where the count is far below the threshold: the only
# published values are wrong by more than its half-width.
#
# ## Rows that are not in the file
#
# A missing row is information as well. If the count had been much larger than the threshold, the
# row would have been published. The bound holds with 95 % confidence.

# %%
for name, law in laws.items():
    bound = dpi.unpublished_bound(mechanism=law, threshold=thresholds[name], lower=0)
    print(f"{name}: not published, so at most {float(bound.upper):.0f}")

# a count above the bound stays unpublished with a probability of at most 5 %
assert law.cdf(thresholds[name] - 1 - float(bound.upper) - 1) <= 0.05

# %% [markdown]
# ## Shares and ratios
#
# Far above the threshold the publishing rule does nothing, and the values are what they seem: the
# counts plus noise. Here is the article on mpox in three languages, 20 to 24 May 2022. Which share
# of the views of the three came from each country? Numerator and denominator are linear functions
# of the same fifteen values, and for every share s the error of (country) − s·(all three) has an
# exact law. The confidence set holds the s for which that difference may be 0.

# %%
week = rows[
    (rows["wikidata_id"] == "Q382370")
    & rows["date"].between("2022-05-20", "2022-05-24")
    & (rows["country"] + " " + rows["project"]).isin(
        ["Ukraine ru.wikipedia", "Denmark da.wikipedia", "Canada fr.wikipedia"]
    )
]
assert (len(week), week["noisy_count"].min()) == (15, 977)
law = laws["geometric"]
assert law.sf(week["noisy_count"].min() - 450) < 1e-7

views = week["noisy_count"].to_numpy(float)
countries = sorted(week["country"].unique())
of = {name: (week["country"] == name).to_numpy(float) for name in countries}
shares = {
    name: dpi.linear_ratio_confint(views, of[name], np.ones(15), mechanism=law)
    for name in countries
}
frame = pd.concat([sets.summary_frame() for sets in shares.values()], keys=countries)
frame.droplevel(1).round(4)
assert abs(frame["estimate"].sum() - 1) < 1e-12
assert ((frame["ci_upper"] - frame["ci_lower"]) < 0.02).all()

# %% [markdown]
# And how many times as many views did Ukraine have as Denmark?

# %%
times = dpi.linear_ratio_confint(views, of["Ukraine"], of["Denmark"], mechanism=law)
times

# %%
lower, upper = times
assert lower < of["Ukraine"] @ views / (of["Denmark"] @ views) < upper

# %% [markdown]
# A set need not be an interval. Where the denominator may be 0 as far as the noise lets one see,
# very large ratios of either sign are possible. Then the set is the complement of an interval, or
# everything, and says so.

# %%
dpi.ratio_confint([3000.0, 300.0, 20.0], [800.0, 30.0, 30.0], mechanism=law)

# %% [markdown]
# By how much did the views fall from one day to the next? A relative change is a ratio less one.

# %%
days = week[week["country"] == "Denmark"].set_index("date")["noisy_count"].astype(float)
new, old = days.iloc[1:], days.iloc[:-1].set_axis(days.index[1:])
change = dpi.relative_change_confint(new, old, mechanism=law)
change.summary_frame().round(3)
