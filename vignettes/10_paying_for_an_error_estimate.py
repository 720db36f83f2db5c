# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Paying for an error estimate: when is it worth it?
#
# Noise has a known law, and an interval for what was published with noise alone costs nothing. But
# published values are often processed: negative counts are set to zero, tables are made to add up.
# How far off such a value is depends on the confidential data. The curator can tell, for more
# privacy budget. This vignette does so, asks when it pays, and goes on to the more general
# question: how should a budget be divided over what is published?

# %%
import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.curation import (
    best_split,
    compare_spending,
    multiplicative_weights,
    optimal_shares,
    plan_release,
    spend_on_error,
    usefulness,
)
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.privacy import ZCDP, BudgetLedger, PureDP, compose

# %% [markdown]
# ## A town with three men
#
# A town has 3 men and 5 women in the data. With Laplace noise of ε = 1 the counts came out as
# -2.9 and 7.2. As there is no negative number of men, and no fraction of one, (0, 7) was published.
#
# What is the variance of a count that is raised to zero like this? Otherwise it is 2. Here it
# depends on the confidential count θ: the mean is θ + ½e^-θ and the mean square θ² + 2 - e^-θ.

# %%
law = dpi.Laplace.from_epsilon(1.0)
theta = np.array([0.0, 3.0, 7.0, 1000.0])
variance = theta**2 + 2 - np.exp(-theta) - (theta + 0.5 * np.exp(-theta)) ** 2
rng = np.random.default_rng(42)
simulated = np.maximum(theta + law.rvs((400_000, 4), rng=rng), 0.0).var(axis=0)
pd.DataFrame({"exact": variance, "simulated": simulated}, index=theta).round(3)
assert variance.round(2).tolist() == [0.75, 1.8, 1.99, 2.0]
# the standard deviation of a simulated variance is below 0.01: six of them
assert abs(simulated - variance).max() < 0.06

# %% [markdown]
# To publish this variance would give the count away. So the curator publishes the error itself,
# with noise: the three men less the published 0. That 0 is known to everybody and does not count as
# confidential. If one man more or less is in the data, the error changes by 1. This is the
# sensitivity, and Laplace noise with another ε = 1 protects it. The ledger holds both expenses.

# %%
ledger = BudgetLedger(PureDP(2.0))
ledger.record("counts by sex", PureDP(1.0))
error = spend_on_error(
    [3, 5],
    [0, 7],
    mechanism=law,
    release=PureDP(1.0),
    ledger=ledger,
    name="errors by sex",
    rng=1,
)
print(error.summary(alpha=0.1))
ledger
assert error.sensitivity == 1.0
assert compose([PureDP(1.0), error.nominal]) == PureDP(2.0)
assert error.simulated
assert error.guarantee is None
assert ledger.remaining.epsilon == 0.0

# %% [markdown]
# The 90 % interval of an error is its estimate ± ln 10. Added to what was published it is one for
# the confidential count. The budget spent is 2: yes, the protection has become weaker. And nothing
# is left for a third release.
#
# The noise here is simulated, with a seed, so that this page comes out the same each time; the
# result says so, and carries no guarantee. Floating-point noise can tell neighbouring data apart.
# With `sampler="opendp"`, and without a seed, the noise is drawn exactly, the error estimate is fit
# to be published, and `error.guarantee` and `error.spent` say what it cost.

# %%
lower, upper = error.conf_int(alpha=0.1)
assert np.allclose(upper - lower, 2 * np.log(10))
values = error.value_conf_int(alpha=0.1, lower=0)
values.summary_frame().round(3)

# %%
try:
    spend_on_error([3, 5], [0, 7], mechanism=law, ledger=ledger, name="once more")
except IncompatibleReleaseError as refusal:
    print(refusal)

# %% [markdown]
# ## What has been bought?
#
# The published value plus its noisy error is the confidential count plus noise: 3 + noise. The
# published 0 has dropped out. The same budget would have bought a second noisy count, or, from the
# start, one count with ε = 2 and half the noise. If the noisy value before the rounding is
# published as well, both can be combined.

# %%
corrected = error.corrected()
both = error.corrected([-2.9, 7.2], mechanism=law)
print(both.summary(alpha=0.1))
assert np.allclose(corrected.params, np.asarray(error.published) + np.asarray(error.estimate))
assert np.allclose(np.asarray(corrected.bse) ** 2, 2.0)
assert np.allclose(np.asarray(both.bse) ** 2, 1.0)
half = dpi.Laplace.from_epsilon(2.0)
assert float(half.variance) == 0.5

# %% [markdown]
# The combined value has the variance 1, that of a single count with ε = 2 has ½. And of a value
# that was rounded up to zero one knows the rule. The published 0 says that the noisy count was
# negative, and from that there is an exact 90 % interval for no further budget. The noisy counts
# were rounded to whole numbers, which the law has to say. Here it ends at 2 and misses the three
# men, as any interval from the first release would: noise of -6 or less has a probability of
# 0.12 %.

# %%
rounded = dpi.mechanisms.Rounded(law)
known_rule = dpi.count_confint([0, 7], mechanism=rounded, clamp=0, alpha=0.1, lower=0)
known_rule.summary_frame().round(3)
assert np.allclose(known_rule.upper, [2, 9])
assert round(float(law.cdf(-6.0)), 4) == 0.0012

# %% [markdown]
# The widths that are to be expected from a budget of ε = 2 in all, for small and large counts:

# %%
comparison = compare_spending(PureDP(2.0), [0, 3, 100], alpha=0.1)
comparison

# %%
widths = comparison.summary_frame()
assert (widths["undivided"] < widths["both"]).all()
assert (widths["both"] < widths["error"]).all()
assert (widths["clamped"] - widths["undivided"]).max() < 0.3
assert np.isclose(widths["error"].iloc[-1], 2 * np.log(10), atol=1e-6)

# %% [markdown]
# For a single count whose processing is known, an error estimate is money thrown away.
#
# ## The best split
#
# If it must be, how should the budget be divided? Where the unprocessed value is published too, all
# of it should go into one of the two: half and half is the worst of all divisions. Where it is not
# published, only the error estimate bears on the confidential value, and the release should get no
# more than it needs to be of use itself. With zero-concentrated privacy and Gaussian noise, the
# precisions of the two add up to the same in every division.

# %%
split = best_split(PureDP(2.0), alpha=0.1)
split

# %%
assert split.release_share == 1.0
assert split.shares[np.argmax(split.widths)] == 0.5

needed = best_split(PureDP(2.0), alpha=0.1, unprocessed=False, release_at_least=0.5)
assert (needed.release_share, needed.error_share) == (0.5, 0.5)
assert np.isclose(needed.width, 2 * np.log(10))

gaussian = best_split(ZCDP(0.5), alpha=0.1)
assert np.ptp(gaussian.widths) < 1e-9 * gaussian.width

# %% [markdown]
# ## Where it is worth its budget
#
# Now 400 counts of small places get noise with ε = 1 and are fitted before they are published: none
# is negative, and they add up to what the noisy counts add up to. What such a fit does to the
# errors has no law that is free of the truth. Users want one number: how far off are these counts,
# on the whole?
#
# The L1 error, the sum of all absolute errors, answers that. One person moves it by 1 at most, no
# matter how many counts there are. So it takes very little budget: here a tenth.

# %%
rng = np.random.default_rng(7)
truth = rng.negative_binomial(0.5, 0.1, size=400).astype(float)


def fit_total(noisy, total):
    """Nearest values that are not negative and add up to a total."""
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, noisy.size + 1)
    return np.maximum(noisy - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)


noisy = truth + law.rvs(truth.size, rng=rng)
fitted = fit_total(noisy, noisy.sum())
assert np.isclose(fitted.sum(), noisy.sum())
assert fitted.min() == 0.0

summary = spend_on_error(
    truth,
    fitted,
    mechanism=dpi.Laplace.from_epsilon(0.1),
    measure="l1",
    release=PureDP(1.0),
    rng=8,
)
print(summary.summary(alpha=0.1))
low, high = (float(end) for end in summary.conf_int(alpha=0.1))
actual = np.abs(truth - fitted).sum()
naive = truth.size * 1.0  # the mean absolute error of Laplace noise of scale 1 is 1
print(
    f"actual L1 error {actual:.0f}, interval {low:.0f} to {high:.0f}, without the fit {naive:.0f}"
)
assert summary.sensitivity == 1.0
assert np.isclose(compose([PureDP(1.0), summary.nominal]).epsilon, 1.1)
assert np.isclose(high - low, 2 * 10 * np.log(10))
assert low <= actual <= high
assert high < naive

# %% [markdown]
# The interval is ± 23, and below 400, the error to be expected without the fit: users learn that
# the fit has made the counts better. For errors of every count with that budget, each would have
# got noise of a standard deviation of 14, and nobody would have learned anything about counts of
# which most are below 5.
#
# Under the other neighbour relation, where a person moves from one count to another, the
# sensitivity is 2. For a squared error there is none, as the square of a large error can move by
# any amount: it has to be cut off at a bound that is stated beforehand.

# %%
assert (truth < 5).mean() > 0.5
moved = spend_on_error(
    truth,
    fitted,
    mechanism=dpi.Laplace.from_epsilon(0.1, sensitivity=2),
    measure="l1",
    neighbours="replace",
    rng=8,
)
assert (moved.sensitivity, round(moved.nominal.epsilon, 12)) == (2.0, 0.1)

squared = spend_on_error(
    truth,
    fitted,
    mechanism=dpi.Laplace.from_epsilon(0.1, sensitivity=7),
    measure="squared",
    clip=4,
    rng=8,
)
print(squared.summary(alpha=0.1))
assert squared.sensitivity == 2 * 4 - 1

# %% [markdown]
# How much does an L1 error cost? Its half-width relative to the error itself, for more and for
# fewer counts, with an error of about 0.8 in each:

# %%
sizes = np.array([10, 30, 100, 400, 2_000, 10_000])
cost = pd.DataFrame(
    {f"ε = {epsilon:g}": np.log(10) / epsilon / (0.8 * sizes) for epsilon in (0.01, 0.1, 1.0)},
    index=pd.Index(sizes, name="counts"),
)
cost.round(3)

# %%
assert round(actual / truth.size, 1) == 0.8
assert cost.loc[400, "ε = 0.1"] < 0.1 < cost.loc[100, "ε = 0.1"]

# %%
#| alt: Half-width of the interval relative to the error, by the number of counts, for three ε: it
#| falls in proportion to their number. A dotted line marks a tenth.
axis = cost.plot(marker="o", loglog=True, ylabel="half-width of the interval / error")
axis.axhline(0.1, color="k", linestyle=":")

# %% [markdown]
# From some hundreds of values on, a tenth of the budget tells the error to within a tenth. So: an
# error estimate is worth its budget where the processing has no law that can be inverted, where
# there are many values, and where one number for all of them is what is wanted.
#
# ## Planning the release itself
#
# The same question comes up for every budget: which share should go where? A table of sex, age and
# region is to be published, with its margins. All cells add up to their margins, so that each
# measurement helps the estimates of the others; the variances after combination depend on the noise
# alone, and are known before anything is measured.

# %%
domain = dpi.Domain({"sex": ["F", "M"], "age": ["0-17", "18-64", "65+"], "region": range(8)})
tables = [("sex", "age", "region"), ("sex", "age"), ("region",), ()]
equal = plan_release(tables, domain=domain, budget=ZCDP(0.5))
best = optimal_shares(tables, domain=domain, budget=ZCDP(0.5))
plans = pd.DataFrame(
    {
        "equal share": equal.shares,
        "variance": equal.variance,
        "best share": best.shares,
        "variance then": best.variance,
    }
)
plans.round(3)

# %%
print(f"sum over all cells: {equal.total:.1f}, and {best.total:.1f} with the best shares")
assert np.isclose(equal.total, 192.0)
assert round(best.total, 1) == 121.8
assert best.shares.round(2).to_list() == [0.63, 0.16, 0.17, 0.04]
assert best.gap < 1e-5 * best.total

# %% [markdown]
# With equal shares every cell of every table has the variance 3.05. Most of the budget belongs to
# the cells, of which there are 48; with the best shares their variance is 1.31. What is best
# depends on what is wanted. If only the regions matter, nothing is measured but the regions.

# %%
regions = optimal_shares(tables, domain=domain, budget=ZCDP(0.5), target=[("region",)])
regions.measurement_frame().round(3)
assert np.allclose(equal.variance, 3.05, atol=0.005)
assert round(best.variance.iloc[0], 2) == 1.31
assert regions.shares.round(6).to_list() == [0, 0, 1, 0]

# %% [markdown]
# ## Very many queries
#
# Where thousands of queries are to be answered, each with noise of its own, the noise of each grows
# with the square root of their number. Private multiplicative weights keep a hypothesis of the
# whole table and correct it only where it is furthest off. The bound on the largest error hardly
# grows with the number of queries, but it starts high, and grows with the number of records. Here
# are 5,000 records in 64 cells, and queries that each count half of the cells, at ρ = 0.5. The
# third way is to publish the noisy cells and to add up.

# %%
records, cells = 5_000, 64
rng = np.random.default_rng(3)
histogram = rng.multinomial(records, rng.dirichlet(np.full(cells, 0.2)))
bounds = {}
for number in (100, 1_000, 10_000, 100_000):
    queries = (rng.random((number, cells)) < 0.5).astype(float)
    answered = multiplicative_weights(
        histogram, queries, guarantee=ZCDP(0.5, neighbours="replace"), rng=1
    )
    # σ² = Δ²/(2ρ): Δ² is the number of queries, or 2 for the cells
    each = dpi.Gaussian(sigma=np.sqrt(number / (2 * 0.5)))
    adding = dpi.Gaussian(sigma=np.sqrt(cells * 2 / (2 * 0.5)))
    bounds[number] = {
        "each query": usefulness(each, queries=number, beta=0.05).alpha,
        "weights": answered.accuracy,
        "weights, actual": np.abs(np.asarray(answered.answers) - queries @ histogram).max(),
        "updates": answered.updates,
        "cells": usefulness(adding, queries=number, beta=0.05, method="union").alpha,
    }
errors = pd.DataFrame(bounds).T.rename_axis("queries")
errors.round(0).astype(int)
assert (errors["weights, actual"] <= errors["weights"]).all()
assert errors.loc[100_000, "weights"] < 1.2 * errors.loc[100, "weights"]
assert errors.loc[10_000, "each query"] < errors.loc[10_000, "weights"]
assert errors.loc[100_000, "each query"] > errors.loc[100_000, "weights"]
assert (errors["cells"] < 0.1 * errors["weights"]).all()

# %% [markdown]
# The bounds hold for all queries together with a probability of 95 %. Between 10,000 and 100,000
# queries the weights overtake the noise of each query. The cells are better than both: a table of
# 64 cells is small. The method is for domains with so many more cells than records that nobody
# could publish them.
