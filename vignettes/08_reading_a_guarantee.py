# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Reading a guarantee: what ε, (ε, δ), ρ and μ say about a person
#
# A release comes with a number or two, such as ε = 1 or ρ = 2.63. They are statements about what
# somebody who sees the release can find out about one record. This vignette turns them into such
# statements: how well any test can do, how far any belief can move, how often it moves far. At the
# end these are read off the budget of the 2020 redistricting data, for one secret after another.

# %%
import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    compose,
    compose_advanced,
    epsilon_for_odds,
    epsilon_for_rise,
    guarantee_of,
    max_power,
    pbdp_delta,
    posterior_bounds,
    posterior_tail,
    privacy_loss,
    simulate_posterior,
)
from dpinfer.releases.census import SCENARIOS, WHOLE_RELEASE, attributes, build_scenario

# %% [markdown]
# ## Four kinds of numbers
#
# Everything compares two data sets that are neighbours: they differ by one record more
# (`"add-remove"`), or by one record that is changed (`"replace"`). A guarantee without this
# relation says nothing, so each of them carries it.
#
# - **ε**: no output is more than e^ε times as probable on one of them as on the other.
# - **(ε, δ)**: the same, but for a probability δ that the promise fails.
# - **ρ** (zero-concentrated): the log ratio of the two probabilities has no larger exponential
#   moments than that of Gaussian noise with this ρ. It has no upper limit, but large values are
#   rare.
# - **μ** (Gaussian): the two are at least as hard to tell apart as N(0, 1) and N(μ, 1).
#
# Which of them a mechanism has, follows from its noise and from how far one record moves the
# answer. Here are four laws with a variance of about 2, for a count.

# %%
laws = {
    "Laplace": dpi.Laplace(scale=1.0),
    "geometric": dpi.Geometric(scale=1.0),
    "Gaussian": dpi.Gaussian(sigma=np.sqrt(2)),
    "discrete Gaussian": dpi.DiscreteGaussian(sigma=np.sqrt(2)),
}
guarantees = {name: guarantee_of(law) for name, law in laws.items()}
for name, guarantee in guarantees.items():
    print(f"{name:18} variance {float(laws[name].variance):.2f}   {guarantee}")

assert guarantees["Laplace"] == guarantees["geometric"] == PureDP(1.0)
assert abs(guarantees["Gaussian"].mu - np.sqrt(0.5)) < 1e-12
assert abs(guarantees["discrete Gaussian"].rho - 0.25) < 1e-12

# %% [markdown]
# ## From one kind to another
#
# The kinds are ordered. ε-DP implies all others, μ-GDP implies zCDP, and all of them imply a pair
# (ε, δ) for every δ. Each such step is exact where it can be. From ε = 1 follows ρ = 0.462, not the
# ½ of the textbook bound ε²/2. And ρ = ½ implies ε = 5.22 at δ = 10⁻⁶ by the best known formula,
# where the simple one gives 5.76. If the noise is known to be Gaussian, μ = 1 says more: 4.89.

# %%
delta = 1e-6
steps = pd.Series(
    {
        "ε = 1 to ρ, simple": PureDP(1.0).to_zcdp(method="simple").rho,
        "ε = 1 to ρ": PureDP(1.0).to_zcdp().rho,
        "ε = 1 to μ": PureDP(1.0).to_gdp().mu,
        "ρ = 1/2 to ε, simple": ZCDP(0.5).to_approx_dp(delta, method="simple").epsilon,
        "ρ = 1/2 to ε": ZCDP(0.5).epsilon_at(delta),
        "μ = 1 to ε": GDP(1.0).epsilon_at(delta),
    }
)
steps.round(4)
assert steps.round(4).to_list() == [0.5, 0.4621, 1.232, 5.7565, 5.2215, 4.8866]

# %% [markdown]
# Against the order nothing follows, and the library says why instead of giving a number.

# %%
for guarantee, method in (
    (ZCDP(0.5), "to_pure_dp"),
    (ApproxDP(1.0, 1e-6), "to_zcdp"),
    (ZCDP(0.5), "to_gdp"),
):
    try:
        getattr(guarantee, method)()
    except InvalidParameterError as error:
        print(error)

# %% [markdown]
# A single pair (ε, δ) tells little about a mechanism that has one pair for each δ. Of μ = 1, the
# pairs at δ = 10⁻³ and at δ = 10⁻⁹ are both true, and the curve is the whole truth.

# %%
curve = pd.DataFrame(
    {name: guarantee.epsilon_at(np.logspace(-9, -1, 5)) for name, guarantee in guarantees.items()},
    index=pd.Index(np.logspace(-9, -1, 5), name="δ"),
)
curve.round(3)
assert (curve["Laplace"] <= 1.0).all()
assert (curve["discrete Gaussian"] >= curve["Gaussian"]).all()

# %% [markdown]
# ## How well can a test do?
#
# Somebody wants to know whether a person is in the data, and tests "they are not" against "they
# are". The level α is the share of those who are wrongly said to be in. The guarantee bounds the
# power, the share of those who are found, for whatever test and whatever else is known.

# %%
levels = [0.01, 0.05, 0.1]
powers = pd.DataFrame(
    {f"ε = {epsilon:g}": max_power(PureDP(epsilon), levels) for epsilon in (0.5, 1.0, 2.0, 4.0)},
    index=pd.Index(levels, name="level"),
).T
powers.round(3)
assert powers.loc["ε = 0.5"].round(3).to_list() == [0.016, 0.082, 0.165]
assert powers.loc["ε = 1"].round(3).to_list() == [0.027, 0.136, 0.272]
assert powers.loc["ε = 2"].round(3).to_list() == [0.074, 0.369, 0.739]
assert powers.loc["ε = 4"].round(3).to_list() == [0.546, 0.983, 0.984]

# %% [markdown]
# With ε = ½ a test at the 5 % level finds at most 8.2 %, which is hardly better than to guess. With
# ε = 4 it may find 98 %. Between them lies what most people would call protection.
#
# A bound from a guarantee holds for all mechanisms that have it. The curve of a mechanism itself is
# exact, and may be lower: discrete Gaussian noise gives less away than the worst mechanism with the
# same ρ.

# %%
at_five = pd.DataFrame(
    {
        "by the guarantee": {n: float(max_power(g, 0.05)) for n, g in guarantees.items()},
        "of the mechanism": {n: float(max_power(law, 0.05)) for n, law in laws.items()},
    }
)
at_five.round(4)

# %%
gap = at_five["by the guarantee"] - at_five["of the mechanism"]
assert gap[["Laplace", "geometric", "Gaussian"]].abs().max() < 1e-12
assert at_five.loc["discrete Gaussian"].round(3).to_list() == [0.214, 0.17]

# %%
#| alt: The smallest probability of a miss by the level of a test, for four guarantees. All lie
#| below the diagonal of no information; only that with a δ starts below one.
dpi.plotting.plot_trade_off(
    {
        "ε = 1": PureDP(1.0),
        "(1, 0.05)": ApproxDP(1.0, 0.05),
        "μ = 0.71, Gaussian noise": laws["Gaussian"],
        "ρ = 0.25, any noise": ZCDP(0.25),
    }
)

# %% [markdown]
# Only (ε, δ) starts below one: with probability δ it allows that somebody is found at no risk of
# an error.
#
# ## Many releases
#
# A hundred counts with ε = 0.1 each add up to ε = 10, at which a test could do nearly anything. But
# that is what a hundred worst cases would do. The privacy loss, the log ratio of the two
# probabilities, is a random variable, and those of independent noises add up like any other. Its
# law gives the exact ε at δ = 10⁻⁶, and the exact power.

# %%
hundred = privacy_loss(dpi.Laplace(scale=10.0), compositions=100)
totals = pd.Series(
    {
        "sum of the ε": compose([PureDP(0.1)] * 100).epsilon,
        "advanced composition": compose_advanced([PureDP(0.1)] * 100, delta).epsilon,
        "by ρ": compose([PureDP(0.1).to_zcdp()] * 100).epsilon_at(delta),
        "exact": hundred.epsilon_at(delta),
    }
)
totals.round(3)

# %%
lower, upper = hundred.epsilon_bounds(delta)
print(f"the exact one is certainly within {lower:.9f} and {upper:.9f}")
print(f"power at 5 %: {hundred.power(0.05):.3f}, by the sum {max_power(PureDP(10.0), 0.05):.5f}")

assert totals.round(3).to_list() == [10.0, 5.757, 5.219, 4.693]
assert lower <= totals["exact"] <= upper
assert upper - lower < 1e-9
assert round(hundred.power(0.05), 3) == 0.254
assert max_power(PureDP(10.0), 0.05) > 0.9999

# %% [markdown]
# ## How often do the odds move far?
#
# The δ of a pair (ε, δ) is often read as the probability that the odds change by more than e^ε. It
# is smaller than that. The δ of *probabilistically bounded* differential privacy (pbdp) bounds that
# probability: with no more than this chance does the output, or anything that is computed from it,
# change the odds by a factor of e^ε or more.

# %%
epsilons = np.array([0.25, 0.5, 1.0, 2.0])
tails = pd.DataFrame(
    {
        "δ of (ε, δ), μ = 0.5": GDP(0.5).delta_at(epsilons),
        "pbdp δ, μ = 0.5": pbdp_delta(GDP(0.5), epsilons),
        "pbdp δ, ρ = 0.125": pbdp_delta(ZCDP(0.125), epsilons),
        "its tail bound": pbdp_delta(ZCDP(0.125), epsilons, method="tail-bound"),
    },
    index=pd.Index(epsilons, name="ε"),
)
tails.round(6)

# %%
assert tails.loc[1.0].round(4).to_list() == [0.0068, 0.0933, 0.1971, 0.2163]
assert (tails.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)

loss = privacy_loss(dpi.Gaussian(sigma=2.0))
print(f"the log ratio of the output itself is above 1 with probability {1 - loss.cdf(1.0):.4f}")
assert round(1 - loss.cdf(1.0), 4) == 0.0401

# %% [markdown]
# At μ = ½ the pair is (1, 0.0068). Still the output changes the odds by more than a factor of e
# with a probability of 4.0 %. And there is a yes-or-no message, computed from it, of which the
# answer "yes" changes them by a factor of e and is given with a probability of 9.3 %.
#
# ## Bob and the survey
#
# Bob answers a survey if it raises the probability that somebody tells his race from the results by
# no more than 25 %. He compares with a world in which the results are published without his answer.
# Taking his record out moves the probability of an output by a factor of at most e^ε, once where
# the race is the one that is asked about and once on average: the belief rises by e^{2ε} at most.
# So he needs ε = ½·ln 1.25.

# %%
bob = epsilon_for_rise(0.25)
print(f"ε = {bob:.4f}")
assert abs(bob - np.log(1.25) / 2) < 1e-15
assert round(float(bob), 4) == 0.1116

# %% [markdown]
# He thinks that his neighbours would guess his race with a probability of 2 %. The answer does not
# depend on that, but if it is a lower bound on what they believe anyhow, ε may be a bit larger.

# %%
print(f"ε = {epsilon_for_rise(0.25, baseline=0.02):.4f}")
assert round(float(epsilon_for_rise(0.25, baseline=0.02)), 4) == 0.1141

# %% [markdown]
# An attacker who happens to know all other answers is simulated here. The survey publishes a table
# of two cells, race R and others, and to this attacker Bob is the one unknown in it. With his
# answer the table is (1, 0) or (0, 1) plus noise, without it (0, 0). The belief may rise to
# 0.02488, which is 24.4 % more than 2 %, and it does so in some of the runs. A count of race R
# alone, which moves by one step between the two answers instead of two, moves the logarithm of a
# belief half as far at most.

# %%
prior = [0.98, 0.02]
law = dpi.Laplace.from_epsilon(bob)
table = simulate_posterior(
    prior,
    [[1, 0], [0, 1]],
    law,
    secret=["other", "race R"],
    without=[[0, 0], [0, 0]],
    truth=1,
    rng=1,
)
count = simulate_posterior(prior, [0, 1], law, without=[0, 0], truth=1, rng=1)
for name, seen in (("table", table), ("count", count)):
    low, high = seen.true_posterior.min(), seen.true_posterior.max()
    print(f"{name}: belief in the truth between {low:.5f} and {high:.5f}")

most = 1.25 * 0.02 / (0.98 + 1.25 * 0.02)
assert round(most, 5) == 0.02488
assert round(most / 0.02 - 1, 3) == 0.244
assert abs(table.true_posterior.max() - most) < 1e-12
assert count.ratio.max() <= np.exp(bob) * (1 + 1e-12)

# %% [markdown]
# Had the survey used Gaussian noise, no rise would be excluded for certain, and Bob would have to
# ask for a probability. There is a bound for the comparison with a world in which his answer is
# replaced by a draw from what the attacker would expect of it. With noise of the same variance in
# both cells, the belief in the truth rises by a quarter or more with a probability of at most 6.5
# %, and by a half or more with one of at most 0.05 %.

# %%
gaussian = dpi.Gaussian(sigma=float(law.std))
chances = posterior_tail(gaussian, np.log([1.25, 1.5, 2.0]), sensitivity=np.sqrt(2))
print(chances.round(5))
assert chances[:2].round(4).tolist() == [0.0648, 0.0005]

# %% [markdown]
# ## Alice and the insurer
#
# A medical study finds that polluted air causes a rare disease. Whether Alice takes part or not, an
# insurer who knows her address will then hold the odds 1.1 that she has it: 1.1 to 1. The insurer
# asks \$500 times what the odds are above 1, that is \$50. How much more can it be if she does take
# part? The odds move by e^{2ε} at most.

# %%
rows = []
for epsilon in (0.01, 0.1, 0.5, 1.0):
    odds = posterior_bounds(PureDP(epsilon), counterfactual="deleted").odds(1.1)[1]
    rows.append({"ε": epsilon, "largest odds": odds, "largest premium": 500 * (odds - 1)})
premium = pd.DataFrame(rows).set_index("ε")
premium.round(2)
assert round(premium.loc[0.01, "largest odds"], 4) == 1.1222
assert premium["largest premium"].round().to_list() == [61, 172, 995, 3564]

# %% [markdown]
# At ε = 0.01 she cannot be charged more than \$61.11 instead of \$50. The other way round: a limit
# of \$100, which is odds of 1.2, needs ε = 0.0435.

# %%
alice = epsilon_for_odds(1.2, 1.1)
print(f"ε = {alice:.4f}")
assert round(500 * (1.1 * np.exp(0.02) - 1), 2) == 61.11
assert round(float(alice), 4) == 0.0435

# %% [markdown]
# Large factors are not large probabilities. If the odds are one in a billion without Alice's
# record, ε = 8 leaves them below 1 %.

# %%
remote = posterior_bounds(PureDP(8.0), counterfactual="deleted").odds(1e-9)[1]
print(f"{remote:.4f}")
assert 0.008 < remote < 0.01

# %% [markdown]
# ## The 2020 redistricting data
#
# The budget of these data is ρ = 2.63, of which persons have 2.56 and housing units 0.07. It is
# divided over levels of geography and, in each, over queries, in exact fractions. Of anything in a
# person's record a test can find out this much:

# %%
whole = WHOLE_RELEASE.power_frame(levels)
print(f"ρ = {WHOLE_RELEASE.rho}")
whole.round(2)
assert str(WHOLE_RELEASE.rho) == "263/100"
assert whole["gaussian"].round(2).to_list() == [0.49, 0.74, 0.84]
assert whole["zcdp"].round(2).to_list() == [0.70, 0.95, 0.96]
assert (whole["discrete-gaussian"] - whole["gaussian"]).abs().max() < 1e-6

# %% [markdown]
# That sounds like little protection. But a secret is rarely "anything". If the block within the
# block group is to be kept secret (scenario A), only queries about blocks can betray it: the others
# have the same answer whatever the block. What protects a secret is the sum of the ρ of the queries
# that it touches.

# %%
block = SCENARIOS["A"]
print(block.frame().to_string(index=False))
print(f"ρ = {block.rho} = {float(block.rho):.13f}")
assert round(float(block.rho), 13) == 0.1115007437864
block.power_frame(levels).round(3)
assert block.max_power(levels).round(2).tolist() == [0.03, 0.12, 0.21]
assert block.max_power(levels, noise="zcdp").round(2).tolist() == [0.04, 0.14, 0.24]

# %% [markdown]
# At the 5 % level a test finds the block with a probability of 12 %, where guessing gives 5 %. The
# noise that was used is discrete. Its exact curve, from its privacy losses, agrees with that of
# continuous Gaussian noise to many digits, so that this is what the other tables show. Eight
# secrets of a published study (Kifer et al. 2022, arXiv:2209.03310):

# %%
overview = pd.DataFrame(
    {
        name: {
            "secret": scenario.secret,
            "queries": len(scenario.queries),
            "ρ": float(scenario.rho),
            **{f"α = {level:g}": float(scenario.max_power(level)) for level in levels},
        }
        for name, scenario in SCENARIOS.items()
    }
).T
print(overview.to_string(formatters={"ρ": "{:.4f}".format}, float_format="{:.2f}".format))
rho = overview["ρ"].astype(float).round(4).to_list()
assert rho == [0.1115, 0.9260, 1.0103, 1.0022, 1.3787, 0.6116, 1.0265, 1.0258]
assert overview["α = 0.05"].astype(float).round(2).to_list() == [
    0.12, 0.39, 0.41, 0.41, 0.51, 0.29, 0.42, 0.42,
]  # fmt: skip

# %% [markdown]
# And how much can a belief move? For scenario A: the probability that the belief in the true block
# rises by a factor of e^ε or more, with Gaussian noise, exactly, and by a bound that holds for any
# noise with this ρ.

# %%
belief = block.belief_frame([0.25, 0.5, 1.0, 2.0])
belief.round(5)
assert round(belief.loc[1.0, "gaussian"], 3) == 0.071
assert round(belief.loc[1.0, "arbitrary_prior"], 3) == 0.17
assert (belief["gaussian"] < belief["arbitrary_prior"]).all()

# %% [markdown]
# A factor of e or more has a probability of 7 %, of e² or more one of less than 1 in 10,000.
#
# Everybody has a scenario of their own: a function of level and query that says whether the answer
# could change. Somebody who minds only that their age group becomes known for places smaller than a
# county has this one.

# %%
below_county = {"Tract", "Block_Group", "Block"}
own = build_scenario(
    lambda level, query: level in below_county and "votingage" in attributes(query),
    secret="voting age, below the county",
)
print(
    f"{len(own.queries)} queries, ρ = {float(own.rho):.4f}, power at 5 %: {own.max_power(0.05):.3f}"
)
assert len(own.queries) == 15
assert own.rho < SCENARIOS["F"].rho

# %%
#| alt: The smallest probability of a miss by the level of a test, for anything in a record and for
#| three secrets. The block within its block group is protected best.
dpi.plotting.plot_trade_off(
    {
        f"{scenario.secret}: ρ = {float(scenario.rho):.2f}": scenario
        for scenario in (WHOLE_RELEASE, SCENARIOS["E"], SCENARIOS["F"], SCENARIOS["A"])
    }
)
