# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Levels and power of chi-squared tests of noisy tables
#
# Gaboardi, Lim, Rogers and Vadhan (2016, arXiv:1602.03090) asked what becomes of the chi-squared
# tests when the counts are published with noise. Two things: the test that ignores the noise
# rejects far too often, and the test that knows it needs more observations than one without noise.
# Here are both, for four laws of noise.
#
# A person who changes the answer moves one count down and another one up: the table has the
# sensitivity 2 in the sum of absolute changes, and √2 in Euclidean length. All tables are published
# with ε = 0.1, the Gaussian ones with δ = 10⁻⁶.

# %%
import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.hypothesis_tests import Independence, Multinomial

epsilon, delta = 0.1, 1e-6
gaussian = dpi.Gaussian.from_epsilon_delta(epsilon, delta, sensitivity=np.sqrt(2))
noises = {
    "Laplace": dpi.Laplace.from_epsilon(epsilon, sensitivity=2),
    "geometric": dpi.Geometric.from_epsilon(epsilon, sensitivity=2),
    "Gaussian": gaussian,
    "discrete Gaussian": dpi.DiscreteGaussian(sigma=gaussian.sigma),
}
stds = pd.Series({name: float(law.std) for name, law in noises.items()})
stds.round(2)
assert stds.round(1).to_list() == [28.3, 28.3, 51.3, 51.3]

# %% [markdown]
# ## Goodness of fit: the level
#
# Four cells with the probabilities 1/2, 1/6, 1/6, 1/6. The hypothesis is true, so a test at the
# level 5 % should reject 5 % of tables. `size_study` runs the tests on the same simulated tables,
# and takes exact rates where there are any.

# %%
value = np.array([1 / 2, 1 / 6, 1 / 6, 1 / 6])
sizes = (1_000, 10_000, 100_000)
reps = 2_000


def level_table(models):
    """Rejection rates at 5 %: one row for each model and noise, one column for each test."""
    rows = {}
    for nobs, model in models.items():
        for noise, law in noises.items():
            study = dpi.calibration.size_study(model, law, alpha=0.05, reps=reps, rng=1)
            rates = study.summary_frame().set_index("test")["rate"]
            rows[nobs, noise] = {column(test): rate for test, rate in rates.items()}
    return pd.DataFrame(rows).T.rename_axis(["nobs", "noise"])


def column(test):
    """Short name of a test."""
    if "ignored" in test:
        return "naive"
    return "projected" if "projected" in test else "pearson"


levels = level_table({nobs: Multinomial(nobs, value) for nobs in sizes})
levels.round(3)

# %% [markdown]
# The naive test rejects most true hypotheses at n = 1,000, and does so at n = 10,000 still much too
# often. The tests that know the noise keep the level. Pearson's statistic has its exact law, or
# simulated critical values; the projected statistic has those of its limit, χ², which are a little
# small where there are few observations and the noise has heavier tails than a normal law.

# %%
error = np.sqrt(0.05 * 0.95 / reps)
assert (levels.loc[1_000, "naive"] > 0.6).all()
assert (levels.loc[10_000, "naive"] > 0.1).all()
assert (abs(levels["pearson"] - 0.05) < 6 * error).all()
assert (levels.loc[10_000:, "projected"] < 0.05 + 6 * error).all()
assert (levels["projected"] < 0.08).all()

# %% [markdown]
# At other levels than 5 % the picture is the same. The result of a study draws it: rates beside the
# nominal levels.

# %%
#| alt: Rejection rates beside nominal levels from 1 % to 20 %. The tests that know the noise lie on
#| the diagonal, the one that ignores it far above.
study = dpi.calibration.size_study(
    Multinomial(10_000, value), noises["geometric"], alpha=np.linspace(0.01, 0.2, 20), rng=1
)
study.plot()

# %% [markdown]
# ## Goodness of fit: the power
#
# Now the first cell loses 0.03 to the others. How many observations show it, with which noise? A
# plan answers in the manner of `statsmodels.stats.power`: give all arguments but one.

# %%
shifted = value + 0.01 * np.array([-3, 1, 1, 1])
laws = {"no noise": dpi.Exact(), **noises}
fit = {"procedure": dpi.chisquare, "value": value, "truth": shifted, "rng": 1}
nobs = np.array([500, 1_000, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000])
power = pd.DataFrame(
    {name: dpi.plan.power(**fit, nobs=nobs, mechanism=law) for name, law in laws.items()},
    index=nobs,
)
power.index.name = "nobs"
power.round(3)

# %%
#| alt: Power of the goodness-of-fit test by number of observations. Without noise it is 80 % near
#| 3,100, with Laplace and geometric noise near 5,600, with Gaussian noise near 8,100.
power.plot(marker="o", ylabel="power at 5 %", title="Goodness of fit, four cells")

# %% [markdown]
# The plan for Gaussian noise and the one without noise give exact powers, the others simulate, with
# the same random numbers for all n. How many observations give a power of 80 %?

# %%
needed = pd.Series(
    {name: dpi.plan.solve(**fit, power=0.8, nobs=None, mechanism=law) for name, law in laws.items()}
)
needed.astype(int)

assert 2_500 < needed["no noise"] < 3_200
assert needed["no noise"] < needed[["Laplace", "geometric"]].min()
assert needed[["Laplace", "geometric"]].max() < needed[["Gaussian", "discrete Gaussian"]].min()

# %% [markdown]
# Or the other way round: which ε does a survey of 5,000 people need? A plan takes a function that
# makes the noise from a budget.

# %%
epsilon_needed = dpi.plan.solve(
    **fit,
    power=0.8,
    nobs=5_000,
    mechanism=lambda epsilon: dpi.Geometric.from_epsilon(epsilon, sensitivity=2),
    budget=None,
)
print(f"ε = {epsilon_needed:.3f}")
assert 0.05 < epsilon_needed < 0.2

# %% [markdown]
# ## Independence: the level
#
# A table of 3 × 4 cells in which rows and columns are independent. The margins are estimated from
# the same noisy table, by `chi2_contingency`.

# %%
rows, columns = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.3, 0.2, 0.1])
levels = level_table({nobs: Independence(nobs, rows, columns) for nobs in sizes})
levels.round(3)

# %% [markdown]
# The naive test is useless again. The test that knows the noise refers the projected statistic to
# its limit, χ² with 6 degrees of freedom. At n = 1,000 the smallest cell holds 10 people under a
# noise of 28 or 51: the level is near 5 % or below it, below because the test does not decide
# where it expects fewer than 5 people in a cell. With heavier tails than the normal law's, Laplace
# and geometric noise take it above 5 % where the noise is as large as the cells
# (`method="monte-carlo"` simulates the critical value instead).

# %%
assert (levels.loc[:10_000, "naive"] > 0.5).all()
assert (levels["projected"] < 0.085).all()
assert (levels.loc[100_000, "projected"] < 0.05 + 6 * error).all()

# %% [markdown]
# ## Independence: the power
#
# Now the first row prefers the first column. `effect` says how far the truth is on the way from
# independence to this table, and Cohen's w comes with it.

# %%
dependent = np.outer(rows, columns)
dependent[:2, :2] += 0.03 * np.array([[1, -1], [-1, 1]])
table = {"procedure": dpi.chi2_contingency, "truth": dependent, "rng": 1}
nobs = np.array([500, 1_000, 2_000, 4_000, 8_000, 16_000])
curves = {name: dpi.plan.curve(**table, nobs=nobs, mechanism=law) for name, law in laws.items()}
power = pd.DataFrame({name: curve["power"].to_numpy() for name, curve in curves.items()}, nobs)
power.index.name = "nobs"
print(f"Cohen's w = {curves['no noise'].attrs['effect_size']:.3f}")
power.round(3)

# %%
#| alt: Power of the test of independence by number of observations, on a logarithmic axis. Noise
#| moves the curve to the right.
power.plot(marker="o", logx=True, ylabel="power at 5 %", title="Independence, 3 × 4 cells")

assert (power["no noise"] >= power.max(axis=1) - 0.03).all()
assert (power.diff().dropna() > -0.03).all(axis=None)
assert (power.loc[16_000] > 0.9).all()

# %% [markdown]
# The price of privacy is a factor in n: under this noise a survey has to be a few times as large,
# until it is so large that its own sampling error outweighs the noise.

# %%
needed = pd.Series(
    {
        name: dpi.plan.solve(**table, power=0.8, nobs=None, mechanism=law)
        for name, law in laws.items()
    }
)
(needed / needed["no noise"]).round(2)
assert (needed.drop("no noise") > 1.5 * needed["no noise"]).all()
