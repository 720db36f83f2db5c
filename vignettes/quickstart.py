# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # Quickstart: five minutes to a table for a paper
#
# In 1996 the American National Election Study asked 944 voters for their education, their party and
# whether they would vote for Clinton or Dole. Four tables of the answers were published with random
# noise, to protect the voters. **Did education go with the vote?**
#
# The release comes with the package. Your own comes in by `read_release`, `Release.from_frame` or
# `Release.from_tables`.

# %%
import dpinfer as dpi

release = dpi.datasets.load_anes96().release
release.to_frame()[["value", "mechanism", "scale"]].head()
assert len(release) == 28

# %% [markdown]
# Each value knows its noise: here a whole number from the two-sided geometric law with scale 2. A
# star stands for "all"; other tables of the release have less detail and other noise.
#
# ## Sum what was published
#
# Nobody published education by vote. It is the sum over parties of the most detailed table, and the
# sum of the noises has a law of its own, which the library computes.

# %%
cells = release.where("education != '*' and vote != '*'")
by_vote = cells.sum(["education", "vote"])
summed = dpi.count_confint(by_vote)
summed

# %% [markdown]
# ## Use everything that was published
#
# The other tables are about the same voters: parties by vote, education alone, and the exact total.
# `combine` finds the best unbiased estimate from all four at once. Its intervals are a third
# shorter.

# %%
#| alt: Six counts of voters by education and vote, with 95 % intervals. Those from all tables are a
#| third shorter than those of the sums.
wanted = dpi.Workload.from_marginals(release.domain, [("education", "vote")])
fit = dpi.combine(release, target=wanted)
combined = fit.summary_frame().droplevel("party")
both = {"sums of cells": summed, "from all tables": combined}
dpi.plotting.plot_forest(both, unit="voters")
assert 0.64 < (combined["ci_upper"] - combined["ci_lower"]).mean() / summed.width.mean() < 0.70

# %% [markdown]
# ## Answer the question
#
# Is the vote independent of education in the population that these voters were drawn from? The test
# counts both errors, that of the sample and that of the noise.

# %%
test = dpi.chi2_contingency(by_vote, rng=1)
test

# %%
#| alt: The null distribution of the test statistic, falling from zero. The part beyond the observed
#| 6.99 is filled and holds 2.9 %.
test.plot()

# %% [markdown]
# Yes, at the level 5 %: p = 0.029. The usual chi-squared test takes the noise for voters and says
# 0.019. Here that would not change the answer. With more noise, or smaller tables, [it rejects most
# true hypotheses](03_levels_and_power.py).

# %%
from scipy.stats import chi2_contingency

print(f"{chi2_contingency(by_vote.values.reshape(3, 2)).pvalue:.3f}")
assert abs(test.pvalue - 0.029) < 0.006
assert round(chi2_contingency(by_vote.values.reshape(3, 2)).pvalue, 3) == 0.019

# %% [markdown]
# ## Say how much
#
# Clinton's share of each group of voters, with 95 % intervals that hold whatever the true counts
# are. They are about these 944 voters, so they cover the noise alone; every result says what it
# covers.

# %%
#| alt: Clinton's share by education with 95 % intervals. It is 65 % at high school or less, 58 % at
#| some college and 55 % with a college degree.
clinton = cells.select(vote="Clinton").sum("education")
dole = cells.select(vote="Dole").sum("education")
shares = dpi.share_confint(clinton, rest=dole)
shares.plot(unit="share of votes for Clinton")
assert shares.estimate.round(2).tolist() == [0.65, 0.58, 0.55]

# %% [markdown]
# ## Put it into the paper
#
# Every result writes itself as LaTeX (`to_latex`), as Markdown (`to_markdown`) and as a DataFrame
# (`summary_frame`).

# %%
caption = "Clinton's share of the vote by education, noise included in the intervals."
print(shares.to_latex(caption=caption, label="tab:education", digits=3, brackets=True))

# %% [markdown]
# ## Where to go from here
#
# - [Which call?](guide/which_function.md) finds the call for your question.
# - [Which error does an interval cover?](guide/errors_covered.md): the voters asked, or all voters.
# - [The gallery](guide/gallery.md) has all pictures; [from R](guide/from_r.md) and [from Stata and
#   SPSS](guide/from_stata_spss.md) have the same for other software.
