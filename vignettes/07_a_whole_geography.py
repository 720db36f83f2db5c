# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # A whole geography: every unit from everything that was published
#
# A census publishes the same people many times: by block, by block group, by tract, by county and
# by state, and at each level in several overlapping tables, each with its own noise. Blocks add up
# to their block group, block groups to their tract. So each of these numbers says something about
# all others, and the best estimate of any of them uses all.
#
# Where the environment variable `DPINFER_DATA` names the folder of the published files, the truth
# here is a public one: seven tracts of Providence County, Rhode Island, from the prototype files of
# the 2018 test of the census. Otherwise it is a made-up one. The noise is ours, drawn with the
# parameters of the 2020 redistricting files.

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.datasets import synthetic_population
from dpinfer.releases.census import PL94_PERSONS_ALLOCATION, block_geoid

LEVELS = {2: "State", 5: "County", 11: "Tract", 12: "Block_Group", 15: "Block"}
domain = dpi.Domain(
    {"votingage": ["minor", "adult"], "hispanic": ["no", "yes"], "cenrace": range(63)}
)
# %% [markdown]
# ## The truth
#
# A table of 2 × 2 × 63 cells for each block: voting age, Hispanic origin, and the combination of
# six races. The tables of the units above are sums. Only people in households are looked at, so
# that the eighth attribute of these files, the kind of quarters, drops out.


# %%
def public_truth(folder):
    """Inhabited blocks of the prototype."""
    path = folder / "ri_prototype" / "ri_truth_votingage_hispanic_cenrace_long.csv"
    cells = pd.read_csv(path, dtype={"geoid": str})
    cells = cells[cells["level"] == "Block"]
    race = {name: at for at, name in enumerate(sorted(cells["cenrace"].unique()))}
    codes = sorted(cells["geoid"].unique())
    tables = np.zeros((len(codes), *domain.shape))
    at = {code: row for row, code in enumerate(codes)}
    rows = cells["geoid"].map(at), cells["votingage"], cells["hispanic"], cells["cenrace"].map(race)
    tables[tuple(np.asarray(column, dtype=int) for column in rows)] = cells["count"]
    return codes, tables


def made_up_truth():
    """Blocks of one county of a made-up state."""
    population = synthetic_population(counties=1, tracts=7, blocks=12, seed=7)
    return block_geoid(population.codes).tolist(), population.tables().sum(axis=1)


folder = os.environ.get("DPINFER_DATA")
codes, blocks = public_truth(Path(folder)) if folder else made_up_truth()
hierarchy = dpi.Hierarchy.from_codes(codes, list(LEVELS))
units = hierarchy.labels
level = pd.Series([LEVELS[len(code)] for code in units], index=units)

truth = np.zeros((len(units), *domain.shape))
truth[hierarchy.positions(codes)] = blocks
for depth in range(int(hierarchy.depth.max()), 0, -1):
    at = np.flatnonzero(hierarchy.depth == depth)
    np.add.at(truth, hierarchy.parent[at], truth[at])
print(hierarchy)
level.value_counts()

# %% [markdown]
# ## What is published
#
# In each unit eight marginals of the table. A share of the budget ρ goes to each level and, in it,
# to each marginal; the noise is discrete Gaussian with σ² = 1/ρ for the share of the marginal.

# %%
MARGINALS = (
    "total",
    "votingage",
    "hispanic",
    "cenrace",
    "votingage * hispanic",
    "hispanic * cenrace",
    "votingage * cenrace",
    "votingage * hispanic * cenrace",
)


def sigma(marginal):
    """Scale of the noise of a marginal in each unit."""
    rho = {name: PL94_PERSONS_ALLOCATION.query_rho(name, marginal) for name in LEVELS.values()}
    return np.sqrt(1.0 / level.map(rho).to_numpy(dtype=float))


def attributes(marginal):
    return () if marginal == "total" else tuple(marginal.split(" * "))


def true_marginal(names):
    summed = tuple(1 + at for at, name in enumerate(domain.attributes) if name not in names)
    return truth.sum(axis=summed)


def publish(rng):
    """All marginals of all units, with noise."""
    released = []
    for marginal in MARGINALS:
        exact = true_marginal(attributes(marginal))
        law = dpi.DiscreteGaussian(sigma=sigma(marginal))
        noise = np.moveaxis(law.rvs((*exact.shape[1:], len(units)), rng=rng), -1, 0)
        released.append(
            dpi.estimation.NoisyMarginal(attributes(marginal), exact + noise, law, units)
        )
    return released


scales = pd.DataFrame({name: pd.Series(sigma(name), index=level) for name in MARGINALS})
scales.groupby(level=0).first().loc[list(LEVELS.values())].round(1).T

# %% [markdown]
# ## How much sharper each level becomes
#
# `combine_hierarchy` uses one number of each unit: here the published totals. The variance of an
# estimate depends on the noise alone, so the gain is known before anything is published.

# %%
rng = np.random.default_rng(2020)
released = publish(rng)
totals = pd.Series(np.asarray(released[0].values), index=units)
by_total = dpi.combine_hierarchy(
    totals, hierarchy, mechanism=dpi.DiscreteGaussian(sigma=sigma("total"))
)
fit = dpi.combine_marginals(released, hierarchy, domain=domain)

gain = pd.DataFrame(
    {
        "published": sigma("total"),
        "all totals": np.asarray(by_total.bse),
        "all tables": np.asarray(fit.marginal_bse()),
    },
    index=level,
)
gain = gain.groupby(level=0).mean().loc[list(LEVELS.values())]
print("Standard error of the total")
gain.round(2)
assert (gain["all tables"] <= gain["all totals"]).all()
assert (gain["all totals"] <= gain["published"]).all()

# %% [markdown]
# The total of a block has noise of standard deviation 89, as almost nothing of the budget is spent
# on it; the other tables of the block bring that down to 55, as their cells add up to the
# total. What the block groups say helps little there, as blocks differ in it; for the total of a
# block group, its own measurement does nearly all.

# %%
assert round(gain.loc["Block", "published"]) == 89
assert 50 < gain.loc["Block", "all tables"] < 60
fit.summary_frame((), units=hierarchy.labels[hierarchy.depth < 3]).round(1)

# %% [markdown]
# ## Do the intervals hold?
#
# 90 % intervals for all cells of several marginals of all units, in 20 further releases: the quick
# envelope, which is at most half a person wider to each side than normal intervals. (Without
# `method`, they are exact where that takes seconds.) The errors within a release depend on each
# other, so the share of intervals that hold the truth varies by more than it would for independent
# ones.

# %%
wanted = [(), ("votingage",), ("hispanic", "votingage"), ("cenrace",)]
REPS = 20
held = {" * ".join(names) or "total": {name: [] for name in LEVELS.values()} for names in wanted}
for _ in range(REPS):
    again = dpi.combine_marginals(publish(rng), hierarchy, domain=domain)
    for names in wanted:
        order = sorted(names, key=domain.attributes.index)
        inside = again.conf_int(order, alpha=0.1, method="envelope")
        inside = inside.contains(true_marginal(order).ravel())
        share = np.asarray(inside).reshape(len(units), -1).mean(axis=1)
        for name in LEVELS.values():
            held[" * ".join(names) or "total"][name].append(share[level == name].mean())
coverage = pd.DataFrame(held).map(np.mean)
coverage.round(3)

# 20 releases of one state: the mean of 20 shares, of which each is 0 or 1 for the total, has a
# standard deviation of at most 0.067, and of 0.004 for the races of all blocks
assert (coverage.to_numpy() > 0.9 - 6 * 0.067).all()
assert 0.89 < coverage.loc["Block", "cenrace"] < 0.92

# %% [markdown]
# ## Where the numbers disagree
#
# The statistic of all residuals tells whether the noise is what it is said to be. A single wrong
# number stands out, with the unit and the marginal.

# %%
agreement = fit.consistency_test(method="asymptotic")
print(f"statistic {float(agreement.statistic):.0f}, p-value {float(agreement.pvalue):.2f}")
assert agreement.pvalue > 1e-4

wrong = list(released)
values = np.array(released[0].values, dtype=float)
values[np.flatnonzero(level == "Tract")[2]] += 60.0
wrong[0] = dpi.estimation.NoisyMarginal((), values, released[0].mechanism, units)
suspect = dpi.combine_marginals(wrong, hierarchy, domain=domain).disagreements(3)
suspect.round(2)

# %% [markdown]
# ## The widths, level by level

# %%
#| alt: Widths of 90 % intervals of the totals from state to block, on a logarithmic axis: as
#| published, from all totals, and from all tables, which are narrowest everywhere.
std_errors = {
    "published": sigma("total"),
    "all totals": by_total.bse,
    "all tables": fit.marginal_bse(),
}
dpi.plotting.plot_level_widths(std_errors, level, alpha=0.1, unit="people")

# %% [markdown]
# A unit may lack some of its tables, numbers that were published without noise count as exact, and
# children that are not all there are named in `not_exhausted`. The files of the census themselves
# are read by `dpinfer.releases.census`; what does not fit into memory is streamed.
