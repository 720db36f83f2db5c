# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
# ---

# %% [markdown]
# # The source documents, line by line
#
# Five texts stand behind this library: a tutorial, a textbook chapter, two sets of lecture notes
# and a paper. Here is each of their definitions, theorems, examples, tables and figures that has a
# number in it, with the call that gives the number. What is shown under "call" is what is run, and
# the page is not built unless each result is the one beside it. Where a text is wrong, the last
# column has what it says.
#
# 1. Ashmead, Leclerc and Sexton (2019), *An introduction to differential privacy*, tutorial at the
#    Joint Statistical Meetings. [The same, worked through](01_the_tutorial_worked_through.py).
# 2. Zhu, Li, Zhou and Yu (2017), *Differential privacy and applications*, chapter 2.
# 3. Bun (2017), *A teaser for differential privacy*.
# 4. Smith and Ullman (2021), lecture notes, chapter 5: properties of differential privacy.
# 5. Kifer, Abowd, Ashmead, Cumings-Menon, Leclerc, Machanavajjhala, Sexton and Zhuravlev (2022),
#    *Bayesian and frequentist semantics for common variations of differential privacy*,
#    arXiv:2209.03310.

# %% tags=["remove-input"]
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpinfer.mechanisms import Channel, ExponentialMechanism, NoisyMax, SparseVector
from dpinfer.privacy import privacy_loss, renyi_curve
from dpinfer.queries import clipped_mean_sensitivity, l1_sensitivity, l2_sensitivity
from dpinfer.releases.census import SCENARIOS, WHOLE_RELEASE

# the published values of these texts are whole for the eye of the reader
warnings.simplefilter("ignore", dpi.errors.RoundedValuesWarning)
pd.set_option("display.max_colwidth", None)
pd.set_option("display.max_rows", None)

rows = []


def line(item, call, result, text="", digits=None):
    """Run a call, compare what it gives, and keep a row for the table."""
    given = eval(call, globals())
    if digits is None:
        same = (
            np.array_equal(given, result) if not isinstance(result, str) else str(given) == result
        )
    else:
        same = np.allclose(given, result, rtol=0, atol=0.5000001 * 10.0**-digits)
    assert same, f"{item}: {call} gives {given}, not {result}"
    rows.append({"item": item, "call": call, "result": show(result), "text says": text})


def show(result):
    if isinstance(result, (bool, str)):
        return str(result)
    flat = [f"{x:.10g}" for x in np.ravel(result)]
    return flat[0] if np.ndim(result) == 0 else ", ".join(flat)


def refused(item, call, why):
    """Keep a row for what has no answer."""
    said = None
    try:
        eval(call, globals())
    except dpi.DPInferError as error:
        said = str(error)
    assert said is not None, f"{item}: {call} was not refused"
    assert why in said, said
    rows.append({"item": item, "call": call, "result": "refused", "text says": ""})


def table():
    """Return the rows so far as a table, and begin another."""
    frame = pd.DataFrame(rows).set_index("item")
    rows.clear()
    return frame if (frame["text says"] != "").any() else frame.drop(columns="text says")


# %% [markdown]
# ## 1. The tutorial
#
# Sections 2.1 and 2.2: databases, queries, sensitivity.

# %% tags=["hide-input"]
people = dpi.Domain({"sex": ["Male", "Female"], "mar": ["Married", "Single", "Other"]})
records = pd.DataFrame(
    {
        "sex": ["Female", "Male", "Female", "Male", "Female", "Female", "Male", "Female"],
        "mar": ["Married", "Other", "Single", "Married", "Single", "Single", "Other", "Married"],
    }
)
x = people.histogram(records)
B = dpi.Workload([[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 0]])
identity = dpi.Workload.identity(people)
total_and_part = dpi.Release([8.3, 3.1], mechanism=dpi.Laplace(scale=2.0))

line("Example 2.1", "people.histogram(records)", [1, 0, 2, 2, 3, 0])
line("Example 2.2, Definition 2", "l1_sensitivity(identity)", 1.0)
line("Example 2.3, Definition 3", "l1_sensitivity(identity, 'replace')", 2.0)
line("Definition 4", "PureDP(1.0).delta_at(1.0)", 0.0)
line("Theorem 2.1", "PureDP(0.5).group(3).epsilon", 1.5)
line("Example 2.4", "dpi.Workload([[1, 0, 0, 1, 0, 0]]).answer(x)", [3.0])
line("Example 2.5", "B.answer(x)", [3.0, 5.0, 2.0])
line("Example 2.6", "dpi.Workload([[1/8, 0, 0, 1/8, 0, 0]]).answer(x)", [3 / 8])
line("Example 2.6, sensitivity", "l1_sensitivity([[1/8, 0, 0, 1/8, 0, 0]], 'replace')", 1 / 8)
line("Example 2.7", "dpi.Workload([[1] * 6, [1, 0, 0, 1, 0, 0]]).answer(x)", [8.0, 3.0])
line("Definition 6", "identity.answer(x)", [1.0, 0.0, 2.0, 2.0, 3.0, 0.0])
line("Question 2", "[l1_sensitivity(B, way) for way in ('add-remove', 'replace')]", [3.0, 3.0])
line("Example 2.8, question 3", "clipped_mean_sensitivity(0, 110, n=25)", 4.4)
refused("the same, not clipped", "clipped_mean_sensitivity(0, np.inf, n=25)", "upper")
table()

# %% [markdown]
# Sections 2.3 and 2.4: mechanisms, post-processing, composition.

# %% tags=["hide-input"]
laplace = dpi.Laplace.from_epsilon(1.0)
noise = dpi.Geometric.from_epsilon(1.0)
p = 1 - np.exp(-1.0)
third = [[1 / 3, 0, 0, 1 / 3, 0, 0]]

line("Definition 7", "laplace.pdf(2.0)", 0.5 * np.exp(-2.0), digits=15)
line("Definition 8", "dpi.Laplace.from_epsilon(0.5, sensitivity=3).variance", 72.0, digits=12)
line(
    "Question 4",
    "dpi.Laplace.from_epsilon([1, 10], sensitivity=3).variance",
    [18.0, 0.18],
    "ε = 1 has the smaller variance",
    digits=12,
)
line(
    "Question 5",
    "dpi.Laplace.from_epsilon([0.1, 1.0, 2.0], sensitivity=3).std",
    [42.4264, 4.2426, 2.1213],
    digits=4,
)
line(
    "Question 6",
    "[dpi.Laplace.from_epsilon(0.5, sensitivity=1/n).std for n in (25, 100)]",
    [0.1131, 0.0283],
    digits=4,
)
line("Theorem 2.2", "str(dpi.guarantee_of(laplace))", str(PureDP(1.0)))
line("Definition 9", "noise.pmf(3)", p / (2 - p) * (1 - p) ** 3, digits=15)
line("Definition 10", "noise.variance", 2 * (1 - p) / p**2, "in question 10: (1-p)/p²", digits=12)
line("Theorem 2.3", "str(dpi.guarantee_of(noise))", str(PureDP(1.0)))
refused("a third of a count", "dpi.Release([1], workload=third, mechanism=noise)", "whole")
line(
    "2.3.1, noisy max",
    "NoisyMax(epsilon=0.1, noise='laplace').probabilities([24, 8, 28, 5])",
    [0.3344, 0.1351, 0.4162, 0.1143],
    digits=4,
)
line(
    "2.3.1, sparse vector",
    "SparseVector(threshold_scale=2, query_scale=4).stopping_law([0, 2, 5], 3)",
    [0.2777, 0.2685, 0.2587, 0.1950],
    digits=4,
)
line(
    "Example 2.11",
    "dpi.curation.processing_error([0, 2, 5], mechanism=laplace, lower=0).variance",
    [0.75, 1.5894, 1.9596],
    digits=4,
)
line("Theorem 2.5", "dpi.compose([PureDP(0.5), PureDP(1.5)]).epsilon", 2.0)
line("Theorem 2.6", "dpi.privacy.compose_parallel([PureDP(2.0), PureDP(3.0)]).epsilon", 3.0)
line("Question 7", "l1_sensitivity([[1, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]])", 2.0)
line("the same, disjoint", "l1_sensitivity([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])", 1.0)
line("Question 8.1, nested", "l1_sensitivity([[1, 0, 0], [1, 1, 0]])", 2.0)
line("Question 8.6, disjoint", "l1_sensitivity([[1, 0, 0], [0, 1, 0]])", 1.0)
table()

# %% [markdown]
# Section 3: what a guarantee means. The table of figure 3.3.1 is p·e^(2ε), for odds p without the
# record; its printed entries at large ε are off by a factor of ten here and there.

# %%
risks = pd.DataFrame(
    {
        epsilon: [
            dpi.privacy.posterior_bounds(PureDP(epsilon), counterfactual="deleted").odds(odds)[1]
            for odds in (1e-9, 1.1, 2, 4, 8, 16)
        ]
        for epsilon in (0.01, 0.1, 1.0, 2.0, 4.0, 8.0, 16.0)
    },
    index=pd.Index([1e-9, 1.1, 2, 4, 8, 16], name="p"),
)
assert np.allclose(risks, np.outer(risks.index, np.exp(2.0 * risks.columns.to_numpy())))
risks.map("{:.4g}".format)

# %% tags=["hide-input"]
bound = dpi.privacy.posterior_bounds(PureDP(0.01), counterfactual="deleted")

line("Theorem 3.1", "bound.odds(1.0)", [np.exp(-0.02), np.exp(0.02)], digits=14)
line(
    "Theorem 3.1, a group of 3",
    "dpi.privacy.posterior_bounds(PureDP(0.01), counterfactual='deleted', group=3).odds(1.0)[1]",
    np.exp(0.06),
    digits=14,
)
line("Alice: the largest premium", "500 * (bound.odds(1.1)[1] - 1)", 61.11, "$60", digits=2)
line("Alice: ε for a limit of $100", "dpi.privacy.epsilon_for_odds(1.2, 1.1)", 0.0435, digits=4)
line("Bob", "dpi.privacy.epsilon_for_rise(0.25)", 0.1116, "0.11", digits=4)
table()

# %% [markdown]
# Section 4: estimates, intervals, error estimates, tests; section 5: samples.

# %% tags=["hide-input"]
example = dpi.datasets.load_example_4_1().release
three = dpi.combine([2, 3, 4], workload=[[1, 1], [1, 0], [0, 1]], target=[1, 1],
                    mechanism=dpi.Geometric.from_epsilon(1, sensitivity=3))  # fmt: skip
eight = dpi.combine(example, target="married")
one = float(np.asarray(example.variance)[0])
z = dpi.Laplace.from_epsilon(1, sensitivity=3)
law = dpi.Laplace.from_epsilon(0.5)
truth, published = [3, 5], [0, 7]
spent = dpi.curation.spend_on_error(truth, published, mechanism=laplace, rng=1)

line("Question 9", "l1_sensitivity(example.workload)", 3.0)
line("Question 10, three values", "three.params", 11 / 3, digits=12)
line("the same, variance", "three.bse**2 / one", 2 / 3, "half of it", digits=12)
line("the same, all eight values", "eight.params", 39 / 11, "11/3", digits=12)
line("the same, variance", "eight.bse**2 / one", 7 / 11, digits=12)
line(
    "Theorem 4.1",
    "dpi.curation.usefulness(z, beta=0.05, queries=3, method='union').alpha",
    3 * np.log(60),
    digits=12,
)
line(
    "Question 11",
    "list(dpi.count_confint(4, mechanism=laplace, alpha=0.1))",
    [1.70, 6.30],
    digits=2,
)
line(
    "Question 12",
    "list(dpi.count_confint(4, mechanism=dpi.Laplace.from_epsilon(10), alpha=0.1))",
    [3.77, 4.23],
    digits=2,
)
line(
    "Question 13, lower ends",
    "dpi.count_confint([5, -3, 1], mechanism=z, method='tail-bound').lower",
    [-7.28, -15.28, -11.28],
    digits=2,
)
line(
    "the same, upper ends",
    "dpi.count_confint([5, -3, 1], mechanism=z, method='tail-bound').upper",
    [17.28, 9.28, 13.28],
    digits=2,
)
line(
    "Question 14",
    "dpi.curation.processing_error([0, 7, 1000], mechanism=laplace, lower=0).variance",
    [0.75, 1.9927, 2.0],
    "2(1/0.1)², which is for ε = 0.1",
    digits=4,
)
line("Question 15, width", "spent.conf_int(alpha=0.1).width[0]", 2 * np.log(10), digits=12)
line("Question 16, budget", "dpi.compose([PureDP(1.0), PureDP(1.0)]).epsilon", 2.0)
line(
    "Example 4.3",
    "dpi.proportions_ztest(34.21, 100, 0.255, mechanism=law).pvalue",
    0.09224256391,
    "1 - mean(...), which may be 0",
    digits=11,
)
line(
    "the same, right tail",
    "dpi.proportions_ztest(34.21, 100, 0.255, mechanism=law, alternative='larger').pvalue",
    0.04824390891,
    digits=11,
)
line("5.2", "dpi.privacy.amplified_epsilon(1.0, 0.05)", 0.0824, digits=4)
line("5.3", "ApproxDP(1.0, 1e-6).delta_at(1.0)", 1e-6, digits=18)
table()

# %% [markdown]
# The type I error of the simulated test, which the tutorial estimates by 1,000 runs, is exactly the
# level up to the lattice of simulated p-values; that of the test that ignores the noise is not.

# %%
edge = 1.959963984540054 * np.sqrt(100 * 0.255 * 0.745)
size = dpi.proportions_ztest(25.5 + edge, 100, 0.255, mechanism=law).pvalue
assert round(size, 3) == 0.098
size

# %% [markdown]
# ## 2. The textbook chapter

# %% tags=["hide-input"]
scores = [24, 8, 28, 5]
median = dpi.privacy.smooth_median_sensitivity([1.0, 2.0, 2.5, 4.0, 9.0], 0.0, 10.0, beta=0.5)

line("Definition 2.1", "ApproxDP(0.5, 1e-5).epsilon_at(1e-5)", 0.5)
line("Theorem 2.1", "dpi.privacy.compose_parallel([PureDP(0.1), PureDP(0.4)]).epsilon", 0.4)
line("Theorem 2.2", "dpi.compose([PureDP(0.25), PureDP(0.5)]).epsilon", 0.75)
line(
    "Kairouz and others, k = 100",
    "dpi.privacy.compose_optimal(PureDP(0.1), 100).epsilon_at(1e-6)",
    4.774568,
    digits=6,
)
line("Definition 2.2", "l1_sensitivity([[1, 1, 1]])", 1.0)
line("Definition 2.3", "median.local", 1.5)
line("Definition 2.4", "median.value >= median.local", True)
line("Definition 2.5", "str(dpi.guarantee_of(dpi.Laplace(scale=2.0), 3.0))", str(PureDP(1.5)))
line("Definition 2.6", "l2_sensitivity([[1, 0], [0, 1], [1, 1]])", np.sqrt(2), digits=14)
line(
    "Definition 2.7",
    "dpi.Gaussian.from_epsilon_delta(0.5, 1e-6, calibration='classical').sigma",
    10.5976,
    "2 for 1.25 in the constant",
    digits=4,
)
line("the same, smallest", "dpi.Gaussian.from_epsilon_delta(0.5, 1e-6).sigma", 8.0576, digits=4)
for epsilon, chances in (
    (0.0, [0.25, 0.25, 0.25, 0.25]),
    (0.1, [0.3271, 0.1470, 0.3995, 0.1265]),
    (1.0, [0.1192, 0.0000, 0.8808, 0.0000]),
):
    line(
        f"Table 2.3, ε = {epsilon:g}",
        f"ExponentialMechanism(epsilon={epsilon}).probabilities(scores)",
        chances,
        digits=4,
    )
line(
    "Table 2.3, the smallest",
    "ExponentialMechanism(epsilon=1.0).probabilities(scores)[[1, 3]]",
    [4.0e-5, 8.9e-6],
    digits=7,
)
line(
    "Definition 2.9",
    "list(dpi.curation.usefulness(dpi.Laplace(scale=2.0), alpha=10, queries=5))",
    [10.0, 1 - (1 - np.exp(-5)) ** 5],
    digits=12,
)
table()

# %% [markdown]
# ## 3. The teaser

# %% tags=["hide-input"]
predicates = {"fans": {"fan": "yes"}, "not Matt": {"fan": "yes", "name": "others"}}
fans = dpi.Domain({"fan": ["yes", "no"], "name": ["Matt", "others"]})
bieber = dpi.Workload.from_predicates(fans, predicates)
response = dpi.RandomizedResponse(p=0.75)
subsets = np.random.default_rng(1).integers(0, 2, (128, 64))

line("Definition 1, example 2", "dpi.Workload.identity(4).shape", [4, 4])
line(
    "The difference of two queries",
    "dpi.curation.audit_differences(bieber, mechanism=dpi.Exact()).success[0]",
    1.0,
)
line(
    "the same, with noise",
    "dpi.curation.audit_differences(bieber, mechanism=dpi.Laplace(scale=2.0)).success[0]",
    0.5619,
    digits=4,
)
line(
    "Dinur and Nissim, no noise",
    "dpi.curation.audit_reconstruction(subsets, mechanism=dpi.Exact(), rng=1).rate",
    1.0,
)
line(
    "Definition 4",
    "dpi.curation.usefulness(dpi.Laplace(scale=1.0), beta=0.05, queries=10).alpha",
    5.2753,
    digits=4,
)
line(
    "Proposition 6",
    "dpi.privacy.posterior_bounds(PureDP(0.1), counterfactual='deleted').ratio",
    [np.exp(-0.2), np.exp(0.2)],
    digits=14,
)
line(
    "Economic interpretation",
    "dpi.privacy.utility_bounds(PureDP(0.5), expected=10.0)[0]",
    10 * np.exp(-0.5),
    digits=12,
)
line(
    "Randomized response",
    "dpi.estimation.response_proportions([50, 50], mechanism=response, uncertainty='noise').bse[0]",
    np.sqrt(0.75 * 0.25) / 0.5 / 10,
    "√(p(1-p)/(2p-1))·√n",
    digits=12,
)
line("Proposition 7", "response.epsilon", np.log(3), digits=14)
line("the same, p for ε", "dpi.RandomizedResponse.from_epsilon(1.0).p", 0.7310585786, digits=10)
line("Proposition 8", "dpi.Laplace.from_epsilon(1.0, sensitivity=1/100).std", 0.0141, digits=4)
line(
    "Propositions 10 and 11",
    "[PureDP(0.1).group(4).epsilon, dpi.compose([PureDP(0.1)] * 4).epsilon]",
    [0.4, 0.4],
    digits=14,
)
line(
    "Proposition 13",
    "dpi.privacy.compose_advanced([PureDP(0.1)] * 100, 1e-6).epsilon",
    0.5 + 0.1 * np.sqrt(200 * np.log(1e6)),
    digits=12,
)
line(
    "the same, exactly",
    "privacy_loss(dpi.Laplace(scale=10.0), compositions=100).epsilon_at(1e-6)",
    4.693,
    digits=3,
)
table()

# %% [markdown]
# Algorithm 2 (private multiplicative weights) is {func}`~dpinfer.curation.multiplicative_weights`,
# and theorems 17 and 18 (false discovery) are {func}`~dpinfer.curation.generalization_bound`; what
# they give at ordinary sample sizes is in
# [vignette 10](10_paying_for_an_error_estimate.py). Theorem 20 is about what no efficient algorithm
# can do, and has no number.
#
# ## 4. The lecture notes

# %% tags=["hide-input"]
shame = Channel.name_and_shame(0.01)
changed = PureDP(0.5, neighbours="replace")

line("Lemmas 1.1 and 1.2", "dpi.compose([PureDP(0.5), PureDP(0.25), PureDP(0.25)]).epsilon", 1.0)
line("Exercise 1.4", "dpi.Laplace.from_epsilon(1.0 / 5).scale", 5.0)
line(
    "Exercise 1.5",
    "dpi.Laplace.from_epsilon(1.0 / 10).scale / dpi.Laplace.from_epsilon(1.0, sensitivity=2).scale",
    5.0,
)
line("Lemma 1.7", "PureDP(0.1).group(3).epsilon", 0.3, digits=14)
line(
    "Theorem 2.1",
    "dpi.privacy.posterior_bounds(changed, counterfactual='default').ratio",
    [np.exp(-1.0), np.exp(1.0)],
    digits=14,
)
line("Equation (8)", "ApproxDP(0.0, 0.01).delta_at(0.0)", 0.01)
line("Exercise 2.3", "shame.delta_at([0.0, 1.0, 50.0])", [0.01, 0.01, 0.01], digits=14)
line("the same, ε", "shame.epsilon", np.inf)
line("the same, a test at 5 %", "dpi.privacy.max_power(shame, 0.05)", 0.06, digits=12)
table()

# %% [markdown]
# ## 5. The paper

# %% tags=["hide-input"]
answer = dpi.RandomizedResponse.from_epsilon(0.5)
twice = privacy_loss(answer, compositions=2)
sample = Channel.released_sample(2, 5)
rr = dpi.RandomizedResponse.from_epsilon(1.0)
ten = Channel.name_and_shame(0.1)
both = Channel.mixture([Channel(rr.matrix), ten], [0.5, 0.5])
levels = [0.01, 0.05, 0.10]

line("Example 4.3", "privacy_loss(answer).mean", 0.5 * np.tanh(0.25), digits=14)
line(
    "Example 4.4",
    "[privacy_loss(dpi.Geometric(scale=2.0)).sf(0.49), privacy_loss(answer).sf(0.49)]",
    [np.exp(0.5) / (1 + np.exp(0.5))] * 2,
    digits=13,
)
line(
    "Example 4.5",
    "[privacy_loss(dpi.Gaussian(sigma=2.0)).mean, privacy_loss(dpi.Gaussian(sigma=2.0)).variance]",
    [0.125, 0.25],
    digits=14,
)
line(
    "Example 4.6",
    "(privacy_loss(answer) + privacy_loss(dpi.Gaussian(sigma=2.0))).mean",
    0.5 * np.tanh(0.25) + 0.125,
    digits=13,
)
line("Example 4.7", "sample.delta_at([0.0, 1.0, 10.0])", [0.4, 0.4, 0.4], digits=14)
line(
    "Example 4.9",
    "[twice.sf(0.99), twice.sf(-0.01) - twice.sf(0.99)]",
    [answer.p**2, 2 * answer.p * (1 - answer.p)],
    digits=12,
)
line("Definition 5.1", "GDP(0.5).delta_at(1.0)", 0.0068, digits=4)
line("Definition 5.2", "dpi.privacy.pbdp_delta(GDP(0.5), 1.0)", 0.0933, digits=4)
line(
    "Example 5.6, odds that move by more than e",
    "[dpi.privacy.pbdp_delta(c, 1.0, strict=True) for c in (rr, ten, both)]",
    [0.0, 0.1581976707, 0.4446281247],
    digits=10,
)
line(
    "Example 5.6, convexity of δ(ε)",
    "[c.delta_at(1.0) for c in (Channel(rr.matrix), ten, both)]",
    [0.0, 0.1, 0.05],
    digits=12,
)
line("Definition 5.7", "dpi.privacy.TradeOff(GDP(1.0)).power(0.05)", 0.2595, digits=4)
line(
    "Example 5.10",
    "dpi.guarantee_of(dpi.Gaussian(sigma=[2.0, 4.0]), [1.0, 2.0]).mu",
    np.sqrt(0.5),
    digits=14,
)
line("Definition 5.11", "renyi_curve(dpi.Laplace(scale=1.0)).to_rdp(2.0).bound", 0.6191, digits=4)
line("Definition 5.12", "RDP([2.0], [0.5]).to_rdp(2.0).bound", 0.5)
line("Definition 5.13", "dpi.guarantee_of(dpi.Gaussian(sigma=2.0)).to_zcdp().rho", 0.125)
line(
    "Lemma 3.5 of Bun and Steinke",
    "dpi.privacy.pbdp_delta(ZCDP(0.125), 1.0, method='tail-bound')",
    np.exp(-((1 - 0.125) ** 2) / 0.5),
    digits=14,
)
for epsilon, powers, says in (
    (0.1, [0.011, 0.055, 0.111], ""),
    (0.5, [0.016, 0.082, 0.165], "0.820 at 0.05"),
    (1.0, [0.027, 0.136, 0.272], ""),
    (2.0, [0.074, 0.369, 0.739], "0.370 at 0.05"),
    (4.0, [0.546, 0.983, 0.984], "0.550 at 0.01"),
):
    line(
        f"Table 1, ε = {epsilon:g}",
        f"dpi.privacy.max_power(PureDP({epsilon}), levels)",
        powers,
        says,
        digits=3,
    )
line(
    "Theorem 6.2", "dpi.privacy.max_power(ApproxDP(1.0, 0.01), 0.05)", 0.05 * np.e + 0.01, digits=13
)
line("Theorem 6.3", "dpi.privacy.max_power(ZCDP(2.63), levels)", [0.70, 0.95, 0.96], digits=2)
line("Table 2, Gaussian", "WHOLE_RELEASE.max_power(levels)", [0.49, 0.74, 0.84], digits=2)
line(
    "Table 2, discrete Gaussian",
    "WHOLE_RELEASE.max_power(levels, noise='discrete-gaussian')",
    [0.49, 0.74, 0.84],
    digits=2,
)
line(
    "Theorem 7.3",
    "dpi.privacy.posterior_bounds(changed, counterfactual='draw').ratio",
    [np.exp(-0.5), np.exp(0.5)],
    digits=14,
)
table()

# %% [markdown]
# Section 8: the budget of the 2020 redistricting data, and what it says of single secrets.

# %% tags=["hide-input"]
for letter, rho, powers in (
    ("A", 0.1115, [0.03, 0.12, 0.21]),
    ("B", 0.9260, [0.17, 0.39, 0.53]),
    ("C", 1.0103, [0.18, 0.41, 0.56]),
    ("D", 1.0022, [0.18, 0.41, 0.55]),
    ("E", 1.3787, [0.25, 0.51, 0.65]),
    ("F", 0.6116, [0.11, 0.29, 0.43]),
    ("G", 1.0265, [0.19, 0.42, 0.56]),
    ("H", 1.0258, [0.19, 0.42, 0.56]),
):
    line(f"Scenario {letter}, ρ", f"float(SCENARIOS['{letter}'].rho)", rho, digits=4)
    line(f"Scenario {letter}, power", f"SCENARIOS['{letter}'].max_power(levels)", powers, digits=2)
line(
    "Table 6, zCDP", "SCENARIOS['A'].max_power(levels, noise='zcdp')", [0.04, 0.14, 0.24], digits=2
)
line("Tables 3 to 5", "WHOLE_RELEASE.rho == Fraction(263, 100)", True)
line(
    "Theorem 7.4.1, at ε = 1",
    "SCENARIOS['A'].belief_frame(1.0).loc[1.0, 'known_rest']",
    np.exp(-((1 + 0.1115007437864) ** 2) / (4 * 0.1115007437864)),
    digits=9,
)
line(
    "Theorem 7.4.2, at ε = 1",
    "SCENARIOS['A'].belief_frame(1.0).loc[1.0, 'arbitrary_prior']",
    np.exp(-((1 - 0.1115007437864) ** 2) / (4 * 0.1115007437864)),
    digits=9,
)
table()

# %%
#| alt: The smallest probability of a miss by the level of a test, for scenarios A, B, E and F
#| of the redistricting data.
dpi.plotting.plot_trade_off({letter: SCENARIOS[letter] for letter in "ABEF"})
