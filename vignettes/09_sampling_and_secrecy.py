# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Sampling and secrecy: what a secret sample adds to privacy
#
# Most statistics come from samples. Somebody who is not in the sample has nothing to fear from what
# is computed on it, and if nobody knows who is in it, this helps those who are. How much it helps
# has an exact formula. It also has conditions that are easy to miss: the sample must stay secret,
# it must be drawn in the right way, and everything computed on it counts together.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import DPInferError
from dpinfer.privacy import (
    GDP,
    ApproxDP,
    BudgetLedger,
    PureDP,
    adjust_for_sampling,
    amplified_epsilon,
    amplify,
    amplify_inverse,
    compose,
    sample_epsilon,
)

# %% [markdown]
# ## The formula
#
# One person in twenty is drawn, each independently of the others (β = 0.05), and what is computed
# on the sample is ε₁ = 1 for those in it. For the population it is
#
# ε₂ = ln(1 + β(e^ε₁ - 1)) = ln(1 + 0.05(e - 1)) = 0.0824.

# %%
amplified = amplify(PureDP(1.0), rate=0.05)
print(amplified)
assert abs(amplified.epsilon - np.log(1 + 0.05 * (np.e - 1))) < 1e-15
assert round(amplified.epsilon, 4) == 0.0824

# %% [markdown]
# The inverse says what may be spent on the sample for a given ε of the population.

# %%
budget = amplify_inverse(PureDP(amplified.epsilon), rate=0.05)
print(budget)
assert abs(budget.epsilon - 1.0) < 1e-14

# %% [markdown]
# For small ε₁ the gain is the factor β. For large ε₁ it is a mere difference of ln(1/β), here 3.0:
# a mechanism that gives nearly everything away does so for whoever is drawn.

# %%
spent = np.array([0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
table = pd.DataFrame(
    {f"β = {rate:g}": amplified_epsilon(spent, rate) for rate in (0.5, 0.05, 0.01, 0.001)},
    index=pd.Index(spent, name="ε₁"),
)
table.round(4)

# %%
assert np.allclose(sample_epsilon(table["β = 0.01"], 0.01), spent, rtol=1e-12, atol=0)
assert abs(table.loc[0.1, "β = 0.001"] / (0.001 * 0.1) - 1) < 0.06
assert abs(table.loc[8.0, "β = 0.05"] - (8.0 - np.log(20))) < 0.01
assert round(np.log(20), 1) == 3.0

# %%
#| alt: ε for the population by ε on the sample, for sampling rates from 1 to 0.001. Small ε are
#| multiplied by the rate, large ones are lowered by a constant.
figure, axis = plt.subplots()
grid = np.linspace(0.01, 8.0, 200)
for rate in (1.0, 0.5, 0.05, 0.01, 0.001):
    axis.plot(grid, amplified_epsilon(grid, rate), label=f"β = {rate:g}")
axis.set(xlabel="ε₁ on the sample", ylabel="ε₂ for the population", yscale="log")
axis.legend()

# %% [markdown]
# With a δ, δ₂ = βδ₁. Guarantees of other kinds are turned into a pair first, at a δ that has to be
# stated. Gaussian noise with μ = ½ has ε = 2.25 at δ = 10⁻⁶; for a sample of one in a hundred that
# is ε = 0.0437 at the same δ.

# %%
gaussian = amplify(GDP(0.5), rate=0.01, delta=1e-6)
print(f"{GDP(0.5).epsilon_at(1e-6):.4f} becomes {gaussian.epsilon:.4f} at δ = {gaussian.delta:g}")
assert round(GDP(0.5).epsilon_at(1e-6), 2) == 2.25
assert round(gaussian.epsilon, 4) == 0.0437
pair = GDP(0.5).to_approx_dp(1e-4)
assert np.isclose(amplify(pair, rate=0.01).delta, 1e-6, rtol=1e-14, atol=0)
assert abs(amplify(pair, rate=0.01).epsilon - gaussian.epsilon) < 1e-12

# %% [markdown]
# ## When it holds
#
# A sample that is drawn person by person has a random size, and goes with adding or removing a
# person. A sample of fixed size goes with replacing one. For designs in which one person changes
# the chances of others there is no such formula. And a guarantee is amplified once.

# %%
refused = {
    "fixed size, add-remove": lambda: amplify(PureDP(1.0), rate=0.05, scheme="without-replacement"),
    "strata": lambda: amplify(PureDP(1.0), rate=0.05, scheme="stratified"),
    "clusters": lambda: amplify(PureDP(1.0), rate=0.05, scheme="cluster"),
    "twice": lambda: amplify(amplified, rate=0.05),
}
for name, call in refused.items():
    try:
        call()
    except DPInferError as error:
        print(f"{name}: {error}\n")

fixed = amplify(PureDP(1.0, neighbours="replace"), rate=0.05, scheme="without-replacement")
assert fixed.epsilon == amplified.epsilon

# %% [markdown]
# The condition that no code can check is secrecy. If it is known who was asked, for instance
# because people tell, then ε₁ is what protects them.
#
# ## Compose first, amplify once
#
# Ten releases with ε = ½ each are made from one sample. It is tempting to amplify each and to add
# up: 10 · 0.0319 = 0.319. That is wrong. Whoever is in the sample is in it for all ten releases, so
# that the ten together, with ε = 5, are one thing that happens with probability β. The answer is
# ln(1 + 0.05(e⁵ - 1)) = 2.12.

# %%
rate, epsilon, count = 0.05, 0.5, 10
wrong = count * amplified_epsilon(epsilon, rate)
right = amplify([PureDP(epsilon)] * count, rate=rate).epsilon
print(f"amplified and added: {wrong:.3f}; added and amplified: {right:.3f}")
assert round(amplified_epsilon(epsilon, rate), 4) == 0.0319
assert round(wrong, 3) == 0.319
assert round(right, 2) == 2.12

# %% [markdown]
# To see that the wrong sum is not merely unproven, take ten answers that are attained by a
# mechanism: each is 1 with probability e^ε/(1 + e^ε) if the person is in the sample, and with 1/(1
# + e^ε) otherwise. The probability of k ones can be written down, with the person in the population
# and without. Their largest log ratio is the ε that holds.

# %%
ones = np.arange(count + 1)
yes = np.exp(epsilon) / (1 + np.exp(epsilon))
drawn, not_drawn = stats.binom.pmf(ones, count, yes), stats.binom.pmf(ones, count, 1 - yes)
with_person = rate * drawn + (1 - rate) * not_drawn
ratio = np.log(with_person / not_drawn)
print(f"largest log ratio {ratio.max():.4f}")
assert abs(ratio.max() - right) < 1e-12
assert ratio.max() > 6 * wrong

# %% [markdown]
# With ten ones, the odds that the person is in the population rise by a factor of 8.4, where the
# wrong sum promised 1.4 at most. The library does not let it happen by accident: amplified
# guarantees remember their sample, and those that may be for the same one do not compose.

# %%
assert round(np.exp(ratio.max()), 1) == 8.4
assert round(np.exp(wrong), 1) == 1.4

one = amplify(PureDP(epsilon), rate=rate)
try:
    compose([one, one])
except DPInferError as error:
    print(error)

waves = [amplify(PureDP(epsilon), rate=rate, sample=f"wave {wave}") for wave in range(count)]
print(compose(waves).epsilon)
assert abs(compose(waves).epsilon - wrong) < 1e-12

# %% [markdown]
# With ten samples that are drawn anew and independently of each other, as the names say here, the
# sum is right.
#
# In practice: keep a ledger for the sample, and amplify what was spent.

# %%
target = PureDP(0.1)
ledger = BudgetLedger(amplify_inverse(target, rate=rate))
ledger.record("smokers", mechanism=dpi.Geometric.from_epsilon(0.5))
ledger.record("smokers by age", mechanism=dpi.Geometric.from_epsilon(0.6))
ledger

# %%
total = amplify(ledger.spent, rate=rate)
print(f"for the population ε = {total.epsilon:.4f}")
assert round(ledger.budget.epsilon, 4) == 1.1325
assert total.epsilon <= 0.1
assert round(total.epsilon, 4) == 0.0955
assert not ledger.affords(PureDP(0.05))

# %% [markdown]
# ## The noise saved, and what it does to an interval
#
# A survey asks 1,000 of 20,000 pupils, drawn at random without replacement, and 200 say yes. The
# population is to have ε = 0.1. How much noise must the count get? If the sample is no secret, a
# scale of 10. If it is, ε₁ = 1.13 will do, and with it a scale of 0.88.

# %%
size, population = 1_000, 20_000
adjusted = adjust_for_sampling(
    PureDP(0.1, neighbours="replace"),
    rate=size / population,
    scheme="without-replacement",
    noise="geometric",
)
laws = {
    "not secret": adjusted.unsampled,
    "secret": adjusted.mechanism,
    "no noise": dpi.Exact(),
}
print(
    f"ε₁ = {adjusted.sample_budget.epsilon:.4f}, scales {adjusted.unsampled.scale:.2f} and "
    f"{adjusted.mechanism.scale:.2f}, variance {adjusted.variance_ratio:.4f} of the other"
)
assert round(adjusted.sample_budget.epsilon, 2) == 1.13
assert round(adjusted.mechanism.scale, 2) == 0.88
assert abs(adjusted.unsampled.scale - 10.0) < 1e-12

# %% [markdown]
# An interval for the proportion of all pupils has to cover noise and sampling error. The exact 95 %
# intervals for a published count of 200, and the widths to be expected:


# %%
def expected_width(nobs, law):
    """Return that of the interval for a proportion of about 0.2."""
    interval = dpi.proportion_confint
    return dpi.plan.width(interval, nobs=nobs, proportion=0.2, mechanism=law)


rows = {}
for name, law in laws.items():
    interval = dpi.proportion_confint(200, size, mechanism=law)
    rows[name] = {
        "lower": float(interval.lower),
        "upper": float(interval.upper),
        "expected width": expected_width(size, law),
    }
intervals = pd.DataFrame(rows).T
intervals.round(4)

# %%
longer = intervals["expected width"] / intervals.loc["no noise", "expected width"]
longer.round(3)
assert round(longer["not secret"], 2) == 1.52
assert longer["secret"] < 1.005

# %% [markdown]
# If the sample is no secret the noise makes the interval half as long again. If it is, the noise
# can hardly be seen beside the sampling error.
#
# ## What it does not do
#
# The number of all pupils who would say yes is estimated by twenty times the count. The noise is
# multiplied too, and all that secrecy had saved is lost again: the noise of the total has a
# standard deviation of 23.7, where the same ε for a question to all 20,000 pupils takes noise of
# 14.1, and there would be no sampling error at all.

# %%
estimate = dpi.survey_total(
    200, mechanism=adjusted.mechanism, sample_size=size, population_size=population
)
estimate

# %%
weighted = np.sqrt(adjusted.weighted_variance)
everybody = dpi.Geometric.from_epsilon(0.1)
print(f"noise of the total {weighted:.1f}, of a census {float(everybody.std):.1f}")
assert round(weighted, 1) == 23.7
assert round(float(everybody.std), 1) == 14.1

# %% [markdown]
# So nobody should draw a sample for the sake of privacy alone. Where a sample is all there is, as
# in nearly every survey, its secrecy is worth a lot and costs nothing. How the widths compare, for
# samples of other sizes from the same 20,000:

# %%
goal = PureDP(0.1, neighbours="replace")
widths = {}
for n in (100, 200, 500, 1_000, 2_000, 5_000, 10_000):
    plan = adjust_for_sampling(
        goal, rate=n / population, scheme="without-replacement", noise="geometric"
    )
    widths[n] = {
        name: expected_width(n, law)
        for name, law in (("not secret", plan.unsampled), ("secret", plan.mechanism))
    } | {"no noise": expected_width(n, dpi.Exact())}
frame = pd.DataFrame(widths).T.rename_axis("n")
frame.round(4)

# %%
extra = frame.div(frame["no noise"], axis=0)
assert (extra["secret"] < extra["not secret"]).all()
assert (extra["secret"] < 1.02).all()
assert extra.loc[100, "not secret"] > 2.9

# %%
#| alt: Expected width of the 95 % interval by sample size. With a secret sample it is that without
#| noise; with one that is known it is up to three times as wide.
frame.plot(marker="o", logx=True, logy=True, ylabel="expected width of the 95 % interval")

# %% [markdown]
# With several releases from the sample the budget ε₁ is shared. With Gaussian noise the scale grows
# with the square root of their number only: four releases have twice the σ of one.

# %%
goal = ApproxDP(0.1, 1e-6)
sigmas = {
    releases: adjust_for_sampling(
        goal, rate=0.05, noise="gaussian", releases=releases
    ).mechanism.sigma
    for releases in (1, 4)
}
print({releases: round(sigma, 3) for releases, sigma in sigmas.items()})
assert abs(sigmas[4] / sigmas[1] - 2.0) < 1e-9
