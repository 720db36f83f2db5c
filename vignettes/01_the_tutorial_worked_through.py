# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # The tutorial, worked through
#
# At the 2019 Joint Statistical Meetings, Robert Ashmead, Philip Leclerc and William Sexton taught
# *An Introduction to Differential Privacy* with sixteen questions and a dozen examples in R. This
# page answers the questions with dpinfer. Where the handout is wrong, it says so.
#
# Every number that the text states is checked when this page is built.

# %%
import warnings

import numpy as np
import pandas as pd

import dpinfer as dpi

# %% [markdown]
# ## The database
#
# Eight people, two attributes. A database over a finite set of possible records is a histogram
# $x$: one count for each kind of record, here `sex × mar` in row-major order.

# %%
people = dpi.Domain({"sex": ["Male", "Female"], "mar": ["Married", "Single", "Other"]})
records = pd.DataFrame(
    [
        ("Female", "Married"),
        ("Male", "Other"),
        ("Female", "Single"),
        ("Male", "Married"),
        ("Female", "Single"),
        ("Female", "Single"),
        ("Male", "Other"),
        ("Female", "Married"),
    ],
    columns=["sex", "mar"],
)
x = people.histogram(records)
pd.Series(x, index=people.cells())
assert x.tolist() == [1, 0, 2, 2, 3, 0]

# %% [markdown]
# A linear query is a row of weights, and a workload is a matrix of them (Example 2.5: how many
# people are married, how many are female, how many are both?).

# %%
three_counts = dpi.Workload.from_predicates(
    people,
    {
        "married": {"mar": "Married"},
        "female": {"sex": "Female"},
        "married female": {"sex": "Female", "mar": "Married"},
    },
)
pd.Series(three_counts.answer(x), index=three_counts.labels)
assert three_counts.answer(x).tolist() == [3, 5, 2]

# %% [markdown]
# ## Sensitivity: questions 1 to 3
#
# **Question 1.** What is the L1 sensitivity of the identity query, which asks for all six cells?
# Adding or removing a record moves one cell by one. Changing a record moves two cells.

# %%
cells = dpi.Workload.identity(people)
for neighbours in ("add-remove", "replace"):
    print(neighbours, dpi.queries.l1_sensitivity(cells, neighbours=neighbours))
assert dpi.queries.l1_sensitivity(cells, neighbours="add-remove") == 1
assert dpi.queries.l1_sensitivity(cells, neighbours="replace") == 2

# %% [markdown]
# **Question 2.** And of any workload $A$? The largest L1 norm of a column when records are added
# or removed, the largest L1 distance between two columns when a record is changed. Neither depends
# on the data.

# %%
for neighbours in ("add-remove", "replace"):
    print(neighbours, dpi.queries.l1_sensitivity(three_counts, neighbours=neighbours))

# %% [markdown]
# **Question 3.** The sensitivity of a mean of $n$ records, $n$ public? Infinite, unless the
# analyst states bounds and clips the records to them; then it is $(U-L)/n$.

# %%
ages = dpi.queries.clipped_mean_sensitivity(0, 110, n=25)
print(ages)
assert ages == 110 / 25
try:
    dpi.queries.clipped_mean_sensitivity(0, np.inf, n=25)
except dpi.DPInferError as error:
    print(error)

# %% [markdown]
# ## Mechanisms: questions 4 to 6
#
# **Question 4.** The three counts of Example 2.5 have sensitivity 3: a married woman is counted
# three times. Is the variance of Laplace noise larger at $\varepsilon = 1$ or at 10?
#
# > *Erratum.* The handout's answer says that $\varepsilon = 1$ has the smaller variance. The
# > variance $2(\Delta/\varepsilon)^2$ falls with $\varepsilon$: it is 18 at 1 and 0.18 at 10.

# %%
delta = dpi.queries.l1_sensitivity(three_counts)
low, high = (dpi.Laplace.from_epsilon(epsilon, sensitivity=delta) for epsilon in (1, 10))
print(low.variance, high.variance)
assert delta == 3
assert np.isclose(low.variance, 18)
assert np.isclose(high.variance, 0.18)

# %% [markdown]
# **Question 5.** Privacy loss against accuracy: one law with an array of scales draws the curve.

# %%
epsilons = np.array([0.01, 0.1, 0.5, 1.0, 2.0])
curve = dpi.Laplace.from_epsilon(epsilons, sensitivity=3)
pd.DataFrame({"epsilon": epsilons, "standard error": curve.std})
assert np.allclose(curve.std, np.sqrt(2) * 3 / epsilons)

# %% [markdown]
# **Question 6.** A proportion among $n = 25$ records, records changed and not removed, so $n$ is
# public and the sensitivity is $1/n$. The standard error of the noise at $\varepsilon = 0.5$ is
# 0.113, and 0.028 at $n = 100$.

# %%
sizes = np.array([25, 100])
noise = dpi.Laplace.from_epsilon(0.5, sensitivity=1 / sizes)
print(noise.std.round(4))
assert noise.std.round(4).tolist() == [0.1131, 0.0283]

# %% [markdown]
# The geometric mechanism adds whole numbers, and is for counts only. On a query such as "one third
# of the married", neighbouring databases would have disjoint sets of possible answers and the
# release would not be private at all. A `Release` refuses that combination.

# %%
third = dpi.Workload(np.array([[1 / 3, 0, 0, 1 / 3, 0, 0]]))
try:
    dpi.Release([1.0], workload=third, mechanism=dpi.Geometric.from_epsilon(1))
except dpi.DPInferError as error:
    print(error)

# %% [markdown]
# ## Composition: questions 7 and 8
#
# **Question 7.** Two counts asked one by one at $\varepsilon/2$ each, or as one query of two rows
# at $\varepsilon$: the noise is the same when the counts overlap. When they are disjoint, the
# two-row query still has sensitivity 1, and the split would waste half of the budget.

# %%
overlapping = dpi.Workload.from_predicates(
    people, {"married": {"mar": "Married"}, "female": {"sex": "Female"}}
)
disjoint = dpi.Workload.from_predicates(
    people, {"male": {"sex": "Male"}, "female": {"sex": "Female"}}
)
print([dpi.queries.l1_sensitivity(pair) for pair in (overlapping, disjoint)])
assert dpi.queries.l1_sensitivity(overlapping) == 2
assert dpi.queries.l1_sensitivity(disjoint) == 1

# %% [markdown]
# **Question 8.** Which pairs of counts compose in parallel? Those that no possible record enters
# together, which the sensitivity of the pair tells: 1 for married and single (question 8.6), 2 for
# Germans and Europeans (8.1). For girls and Eagle Scouts (8.4) the answer depends on which records
# are possible, that is, on the domain that the curator declares.

# %%
europe = dpi.Domain({"country": ["Germany", "elsewhere in Europe", "outside Europe"]})
nested = dpi.Workload.from_predicates(
    europe,
    {
        "Germans": {"country": "Germany"},
        "Europeans": {"country": ["Germany", "elsewhere in Europe"]},
    },
)
married_or_single = dpi.Workload.from_predicates(
    people, {"married": {"mar": "Married"}, "single": {"mar": "Single"}}
)
print([dpi.queries.l1_sensitivity(pair) for pair in (nested, married_or_single)])
assert dpi.queries.l1_sensitivity(nested) == 2
assert dpi.queries.l1_sensitivity(married_or_single) == 1

# %% [markdown]
# ## Combining what was published: questions 9 and 10
#
# Example 4.1 publishes the six cells and two of the counts, with geometric noise at
# $\varepsilon = 1$.
#
# **Question 9.** The sensitivity is 3: a married woman enters one cell and both counts.

# %%
example = dpi.datasets.load_example_4_1()
release = example.release
release.to_frame()
assert dpi.queries.l1_sensitivity(release.workload) == 3

# %% [markdown]
# **Question 10.** How many people are married? One published value says 2. The two married cells
# say 3 + 4 = 7, with twice the variance. Weighted by inverse variance, the three values together
# say 11/3.
#
# > *Erratum.* The handout gives the variance of the two-sided geometric noise as $(1-p)/p^2$. It
# > is twice that, 17.834 here. The weights 2/3 and 1/3 and the estimate do not change; the
# > variance of the estimate is ⅔ of 17.834.

# %%
one = float(np.asarray(release.variance)[0])
three_values = dpi.combine(
    [2, 3, 4],
    workload=[[1, 1], [1, 0], [0, 1]],
    mechanism=dpi.Geometric.from_epsilon(1, sensitivity=3),
    target=[1, 1],
)
three_values
assert round(one, 10) == 17.8342551925
assert np.isclose(three_values.params, 11 / 3)
assert np.isclose(np.square(three_values.bse), one * 2 / 3)

# %% [markdown]
# That uses three of the eight published values. The other five also carry information: they say
# something of the cells that the second count contains. The best estimate from all eight is 39/11,
# with 7/11 of the variance of one value.

# %%
everything = dpi.combine(release, target="married")
print(everything.summary(alpha=0.1))
assert np.isclose(everything.params, 39 / 11)
assert np.isclose(np.square(everything.bse), one * 7 / 11)

# %% [markdown]
# Without a target, every published count and every cell is estimated. The consistency test asks
# whether the overlapping values disagree more than their stated noise allows. They do not.

# %%
fit = dpi.combine(release)
fit

# %%
agreement = fit.consistency_test(rng=1)
agreement
assert agreement.pvalue > 0.05

# %%
#| alt: The eight counts with 90 % intervals, as published and combined. The combined intervals are
#| shorter, and all values that overlap agree.
dpi.plotting.plot_forest(fit, alpha=0.1)

# %% [markdown]
# ## Intervals: questions 11 to 13
#
# **Question 11.** A count published as 4 with Laplace noise at $\varepsilon = 1$: the 90 % interval
# is $4 \pm \ln 10$, or (1.70, 6.30). **Question 12.** At $\varepsilon = 10$ it is (3.77, 4.23).
#
# The tutorial's published values are whole for the eye of the reader. Of a real release dpinfer
# would ask whether they were rounded, which changes the law of their noise; here they were not.

# %%
warnings.simplefilter("ignore", dpi.errors.RoundedValuesWarning)
both = dpi.Laplace.from_epsilon(np.array([1.0, 10.0]))
intervals = dpi.count_confint([4, 4], mechanism=both, alpha=0.1)
intervals
assert np.round(intervals, 2).tolist() == [[1.70, 6.30], [3.77, 4.23]]

# %% [markdown]
# **Question 13.** Three counts, sensitivity 3, intervals that hold together with probability 95 %.
# The tail bound of Theorem 4.1 gives ± 12.28. The noises are independent, so the exact simultaneous
# interval is a little narrower at the same coverage. The sensitivity is 3 under both neighbour
# relations, so the answer is the same for both.

# %%
z = [5, -3, 1]
noise = dpi.Laplace.from_epsilon(1, sensitivity=3)
bound = dpi.count_confint(z, mechanism=noise, method="tail-bound", simultaneous=True)
exact = dpi.count_confint(z, mechanism=noise, simultaneous=True)
bound

# %%
exact
assert dpi.queries.l1_sensitivity(three_counts, neighbours="replace") == 3
assert np.allclose(bound.lower, [-7.28, -15.28, -11.28], atol=0.005)
assert np.allclose(bound.upper, [17.28, 9.28, 13.28], atol=0.005)
assert (exact.width < bound.width).all()

# %% [markdown]
# ## Paying for an error estimate: questions 14 to 16
#
# A town publishes two counts with Laplace noise at $\varepsilon = 1$, and replaces the negative one
# by zero: (0, 7). **Question 14.** What is the variance of a published value after that step? It
# depends on the confidential count, so it cannot be published for free: 0.75 for a count of 0, and
# nearly the full 2 for a count of 7.

# %%
rounded_up = dpi.curation.processing_error(
    [0, 1, 3, 7, 1000], mechanism=dpi.Laplace(scale=1.0), lower=0
)
print(rounded_up.summary_frame().round(4).to_string(index=False))
assert rounded_up.variance.round(4).tolist() == [0.75, 1.2304, 1.8002, 1.9927, 2.0]

# %% [markdown]
# **Question 15.** So the curator spends another $\varepsilon = 1$ on the error itself: the
# confidential count of men is 3 and the published one is 0, which is a fixed number by now, so the
# sensitivity of the difference is that of the count, 1.

# %%
extra = dpi.Laplace.from_epsilon(1, sensitivity=1)
error_estimate = (3 - 0) + extra.rvs(rng=7)
print(f"published estimate of the error: {error_estimate:.2f}")

# %% [markdown]
# **Question 16.** The 90 % interval for the error is the estimate ± ln 10, and because the error is
# the count minus a published zero, it is an interval for the count as well. The budget spent is
# now 2: the guarantee is weaker than it was.

# %%
lower, upper = dpi.count_confint(error_estimate, mechanism=extra, alpha=0.1)
print(f"men: ({0 + lower:.2f}, {0 + upper:.2f})")
assert np.isclose(upper - lower, 2 * np.log(10))

# %% [markdown]
# ## A test that knows about the noise: example 4.3
#
# Of 100 sampled people, 34.21 have a disease, Laplace noise at $\varepsilon = 0.5$ included. Is the
# prevalence 25.5 %? The number of the sick is binomial, the noise is Laplace, and their sum has an
# exact law: no simulation is needed.

# %%
noise = dpi.Laplace.from_epsilon(0.5)
result = dpi.proportions_ztest(34.21, 100, 0.255, mechanism=noise)
result

# %%
assert abs(result.pvalue - 0.09224256391) < 1e-11

right = dpi.proportions_ztest(34.21, 100, 0.255, mechanism=noise, alternative="larger")
print(f"one-sided: p = {right.pvalue:.4f}")
assert abs(right.pvalue - 0.04824390891) < 1e-11

# %%
#| alt: The null distribution of the z statistic, with both tails beyond 1.998 filled. They hold
#| 9.2 % of it.
dpi.plotting.plot_null(result)

# %% [markdown]
# The handout simulates the null distribution instead.
#
# > *Erratum.* Its code computes `1 - mean(z_obs >= abs(z_dist))`, which prints $p = 0$ when no
# > replicate is as extreme. A Monte Carlo p-value is $(1 + b)/(R + 1)$, with $b$ the number of
# > replicates at least as extreme as the observation: never zero, and valid at any $R$.

# %%
simulated = dpi.proportions_ztest(
    34.21, 100, 0.255, mechanism=noise, method="monte-carlo", reps=1_000_000, rng=1
)
simulated

# %%
error = simulated.mc_error
assert abs(simulated.pvalue - result.pvalue) < 4 * error

# %% [markdown]
# What if the noise is ignored? The same statistic against the standard normal gives 0.0457 and
# rejects at 5 %. That test rejects a true hypothesis not in 5 but in 9.8 % of all samples.

# %%
from statsmodels.stats.proportion import proportions_ztest

_, naive = proportions_ztest(34.21, 100, 0.255, prop_var=0.255)
print(f"ignoring the noise: p = {naive:.4f}")
assert round(naive, 4) == 0.0457

edge = 1.959963984540054 * np.sqrt(100 * 0.255 * 0.745)
size = dpi.proportions_ztest(25.5 + edge, 100, 0.255, mechanism=noise).pvalue
print(f"true size of the test that ignores the noise: {size:.3f}")
assert round(size, 3) == 0.098
