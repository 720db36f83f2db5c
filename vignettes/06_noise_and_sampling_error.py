# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Noise against sampling error: when does the noise matter?
#
# A published count of a sample errs twice: the sample is not the population, and noise was added.
# Both are known, so an interval for the population can hold for both. Which of the two matters
# depends on n alone once ε is fixed: the sampling error of a count grows with √n, the noise does
# not grow.

# %%
import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi

proportion = 0.2
epsilons = (0.05, 0.2, 1.0)
sizes = np.array([50, 100, 200, 500, 1_000, 2_000, 5_000, 20_000, 100_000])

# %% [markdown]
# ## Where they are equal
#
# The count of n answers has the sampling variance np(1 - p), the geometric noise of ε a variance
# near 2/ε². They are equal at n = 2/(ε²p(1 - p)); beyond it sampling dominates.

# %%
laws = {epsilon: dpi.Geometric.from_epsilon(epsilon) for epsilon in epsilons}
equal = {e: float(law.variance) / (proportion * (1 - proportion)) for e, law in laws.items()}
pd.Series(equal, name="n with equal variances").round(0)
assert [round(n) for n in equal.values()] == [4999, 311, 12]

# %% [markdown]
# ## The width of the exact interval
#
# `plan.width` gives the expected width of the exact 95 % interval, over everything that can be
# published. Without noise that is the interval of Clopper and Pearson.

# %%
noises = {"no noise": dpi.Exact()} | {f"ε = {epsilon:g}": law for epsilon, law in laws.items()}


def planned(nobs, law):
    """Return the expected width of the exact interval."""
    interval = dpi.proportion_confint
    return dpi.plan.width(interval, nobs=nobs, proportion=proportion, mechanism=law)


widths = pd.DataFrame({name: planned(sizes, law) for name, law in noises.items()}, sizes)
widths.index.name = "n"
widths.round(4)

# %%
longer = widths.div(widths["no noise"], axis=0).drop(columns="no noise")
longer.round(2)

# %%
#| alt: Width of the exact interval as a multiple of the one without noise, by n, for three ε. Each
#| curve falls to 1, through √2 where the variances are equal, marked by a cross.
ax = longer.plot(marker="o", logx=True, ylabel="width, times that without noise")
ax.scatter(equal.values(), [np.sqrt(2)] * len(equal), marker="+", s=200, color="black")

# %% [markdown]
# At equal variances the interval is about √2 times as long as without noise, at ten times that n it
# is 5 % longer. From there on the noise costs next to nothing. (For tiny n the interval under much
# noise is nearly the whole range from 0 to 1, and cannot become longer.)

# %%
assert (longer.loc[200:].diff().dropna() < 0).all(axis=None)
for epsilon, n in equal.items():
    once, tenfold = (
        planned(size, laws[epsilon]) / planned(size, dpi.Exact())
        for size in (round(n), 10 * round(n))
    )
    if n > 100:
        assert abs(once - 1.41) < 0.06
    assert abs(tenfold - 1.05) < 0.02

# %% [markdown]
# ## What happens if the noise is ignored
#
# The interval of Clopper and Pearson for the published count, as if it were the true one, against
# the one that knows the noise. The coverage is exact: a sum over the values that can be published.


# %%
def coverage(law, n):
    """Coverage of the interval that knows the noise, and of the one that ignores it."""
    reach = int(np.ceil(law.isf(1e-10)))
    noise = np.arange(-reach, reach + 1)
    published = np.arange(-reach, n + reach + 1)
    chance = np.convolve(stats.binom.pmf(np.arange(n + 1), n, proportion), law.pmf(noise))
    kept = chance > 1e-12
    y, chance = published[kept], chance[kept]
    aware = dpi.proportion_confint(y, n, mechanism=law).contains(proportion)
    ignorant = dpi.proportion_confint(np.clip(y, 0, n), n, mechanism=dpi.Exact())
    return float(chance[aware].sum()), float(chance[ignorant.contains(proportion)].sum())


rows = {(e, n): coverage(laws[e], n) for e in epsilons for n in (50, 200, 1_000, 5_000)}
covered = pd.DataFrame(rows, index=["noise known", "noise ignored"]).T.rename_axis(["ε", "n"])
covered.round(3)
assert (covered["noise known"] > 0.95 - 1e-9).all()
assert covered.loc[(0.05, 200), "noise ignored"] < 0.5
assert covered.loc[(1.0, 5_000), "noise ignored"] > 0.94

# %% [markdown]
# ## Planning
#
# How large does the sample have to be for an interval of ± 3 points? And with 2,000 people, how
# much privacy can be had for ± 2.5 points?

# %%
wanted = {"proportion": proportion, "alpha": 0.05}
needed = {
    name: dpi.plan.solve(dpi.proportion_confint, width=0.06, nobs=None, mechanism=law, **wanted)
    for name, law in noises.items()
}
pd.Series(needed, name="n")

# %%
budget = dpi.plan.solve(
    dpi.proportion_confint,
    width=0.05,
    nobs=2_000,
    mechanism=dpi.Geometric.from_epsilon,
    budget=None,
    **wanted,
)
print(f"ε = {budget:.3f}")
assert needed["no noise"] < needed["ε = 1"] < needed["ε = 0.2"] < needed["ε = 0.05"]
assert 0.05 < budget < 0.2

# %% [markdown]
# ## A finite population
#
# If the sample is a large part of its population, less of it is left to guess. Of 1,000 pupils 400
# were asked, and 83 said yes, noise included. The estimate of the total has two components of
# variance; which of them an interval has to cover depends on the question.

# %%
total = dpi.survey_total(
    83, mechanism=dpi.Geometric.from_epsilon(0.2), sample_size=400, population_size=1_000
)
total

# %%
for uncertainty in ("noise", "noise+sampling"):
    lower, upper = total.conf_int(uncertainty=uncertainty)
    print(f"{uncertainty}: {float(lower):.0f} to {float(upper):.0f}")
