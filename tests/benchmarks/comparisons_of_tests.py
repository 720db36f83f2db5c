"""Tests, plans and privacy beside what a user would do without them."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy import stats

sys.path.append(str(Path(__file__).parent))  # for pytest, which imports this file by its path

import test_composition
import test_contingency
import test_counts
import test_goodness_of_fit
import test_import
import test_optimal_composition
import test_power
import test_proportions
from comparing import LOOSE, SAME, Calls, adding_to, close

import dpinfer as dpi
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.privacy import calibrate, privacy_loss, renyi_curve

ROWS = []
comparison = adding_to(ROWS)

# Tests

EXAMPLE, NOISE = test_proportions.EXAMPLE, test_proportions.NOISE


def exact_pvalue():
    return dpi.proportions_ztest(*EXAMPLE, mechanism=NOISE).pvalue


@comparison(
    "Tests",
    "proportions_ztest",
    "one exact p-value",
    "the tutorial's loop, 10,000 replicates one at a time",
    "with simulation error",
    "p-values",
    1,
)
def one_pvalue(_size, _peer_size):
    # six standard errors of a share of 10,000
    return Calls(
        exact_pvalue,
        lambda: test_proportions.tutorial_loop(10_000),
        lambda ours, theirs: abs(ours - theirs) < 6 * np.sqrt(ours * (1 - ours) / 10_000),
    )


@comparison(
    "Tests",
    "proportions_ztest",
    "one exact p-value",
    "statsmodels `proportions_ztest`",
    "noise ignored",
    "p-values",
    1,
)
def one_pvalue_without_noise(_size, _peer_size):
    from statsmodels.stats.proportion import proportions_ztest

    count, nobs, value = EXAMPLE
    return Calls(
        exact_pvalue,
        lambda: proportions_ztest(count, nobs, value, prop_var=value)[1],
        lambda ours, theirs: theirs < ours < 1.0,
    )


for law, scipy_law, name in (
    (NOISE, stats.laplace(scale=2.0), "Laplace"),
    (Gaussian(sigma=5.0), stats.norm(scale=5.0), "Gaussian"),
    (Gaussian(sigma=1.0), stats.norm(scale=1.0), "narrow Gaussian"),
):

    def own_trials(size, peer_size, law, scipy_law):
        counts, nobs = test_proportions.rows_of_their_own(size, law)
        summed, first = test_proportions.sum_over_counts, slice(peer_size)
        pairs = list(zip(counts[first], nobs[first], strict=True))
        return Calls(
            lambda: dpi.proportions_ztest(counts, nobs, 0.255, mechanism=law).pvalue,
            lambda: [summed(t, n, 0.255, scipy_law) for t, n in pairs],
            lambda ours, theirs: close(ours[first], theirs, rtol=1e-9, atol=0.0),
        )

    what = f"exact p-values, each count with its own number of trials, {name} noise"
    row = ("Tests", "proportions_ztest", what, "a sum over the counts for each, SciPy", SAME)
    comparison(*row, "p-values", 100_000, 200, law=law, scipy_law=scipy_law)(own_trials)


@comparison(
    "Tests",
    "proportions_ztest",
    "an exact p-value of a billion trials",
    "a sum over ten standard deviations, SciPy",
    SAME,
    "p-values",
    1,
)
def billion_trials(_size, _peer_size):
    rows = (255_020_000.5, 10**9, 0.255)
    return Calls(
        lambda: dpi.proportions_ztest(*rows, mechanism=NOISE).pvalue,
        lambda: test_proportions.sum_over_counts(*rows, stats.laplace(scale=2.0)),
        lambda ours, theirs: close(ours, theirs, rtol=1e-6, atol=0.0),
    )


@comparison(
    "Tests",
    "proportions_ztest",
    "one simulated p-value",
    "the random draws alone, NumPy",
    "draws only",
    "replicates",
    1_000_000,
)
def simulated_pvalue(size, _peer_size):
    options = {"mechanism": NOISE, "method": "monte-carlo", "reps": size, "rng": 1}
    return Calls(
        lambda: dpi.proportions_ztest(*EXAMPLE, **options).pvalue,
        lambda: test_proportions.numpy_draws(size),
        lambda ours, _theirs: abs(ours - exact_pvalue()) < 6 * np.sqrt(0.25 / size),
    )


@comparison(
    "Tests",
    "counts_2indep",
    "exact tests of two counts, geometric noise",
    "the z test, SciPy",
    "approximate, the noise taken as normal",
    "rows",
    test_counts.ROWS,
)
def two_counts(_size, _peer_size):
    (a, b), noise = test_counts.published(), Geometric(scale=10.0)
    return Calls(
        lambda: dpi.counts_2indep(a, b, mechanism=noise).pvalue,
        lambda: test_counts.z_test(a, b, noise.variance),
        lambda ours, theirs: np.abs(ours - theirs).max() < 0.1,
    )


def gof_simulation(observed, expected, scale, reps=10_000):
    """The p-value of Pearson's statistic by simulation in NumPy, without a loop."""
    rng, nobs = np.random.default_rng(1), round(expected.sum())
    counts = rng.multinomial(nobs, expected / expected.sum(), reps)
    noisy = counts + rng.laplace(0.0, scale, counts.shape)
    statistic = np.sum((noisy - expected) ** 2 / expected, axis=1)
    return (1 + np.sum(statistic >= np.sum((observed - expected) ** 2 / expected))) / (reps + 1)


for cells, even in ((4, False), (100, True), (100, False)):

    def goodness_of_fit(size, _peer_size, even):
        observed, expected = test_goodness_of_fit.table(size, even=even, noise=NOISE)
        return Calls(
            lambda: dpi.chisquare(observed, expected, mechanism=NOISE).pvalue,
            lambda: gof_simulation(observed, expected, 2.0),
            lambda ours, theirs: abs(ours - theirs) < 6 * np.sqrt(0.25 / 10_000),
        )

    what = f"one exact p-value, {'equal' if even else 'unequal'} expected counts"
    row = ("Tests", "chisquare", what, "10,000 replicates, NumPy without a loop")
    comparison(*row, "with simulation error", "cells", cells, even=even)(goodness_of_fit)


def few_cells(size, _peer_size, noise):
    observed, expected = test_goodness_of_fit.few_cells(size, noise)
    return Calls(
        lambda: dpi.chisquare(observed, expected, mechanism=noise).pvalue,
        lambda: test_goodness_of_fit.replicates(observed, expected, noise),
        lambda ours, theirs: abs(ours - theirs) < 6 * np.sqrt(0.25 / 100_000),
    )


for law in test_goodness_of_fit.FOUR_NOISES:
    for cells in (2, 4, 10):
        what = f"one exact p-value, {law!r} noise, unequal expected counts"
        row = ("Tests", "chisquare", what, "100,000 replicates, NumPy without a loop")
        comparison(*row, "with simulation error", "cells", cells, noise=law)(few_cells)


@comparison(
    "Tests",
    "chisquare",
    "one asymptotic p-value, unequal expected counts",
    "eigenvalues and Imhof's integral, SciPy",
    SAME,
    "cells",
    1_000,
)
def weighted_chi_squared(size, _peer_size):
    noise = Gaussian(sigma=3.0)
    observed, expected = test_goodness_of_fit.table(size, even=False, noise=noise)

    def theirs():
        root = np.sqrt(expected / expected.sum())
        matrix = np.diag(1.0 + noise.variance / expected) - np.outer(root, root)
        statistic = np.sum((observed - expected) ** 2 / expected)
        return test_goodness_of_fit.imhof(np.linalg.eigvalsh(matrix), statistic)

    def ours():
        return dpi.chisquare(observed, expected, mechanism=noise, method="asymptotic").pvalue

    return Calls(ours, theirs, close)


def table_loop(shape, reps):
    """Null statistics of a two-way table, one replicate at a time with SciPy."""
    rng, cells = np.random.default_rng(1), shape[0] * shape[1]
    share, found = np.full(cells, 1.0 / cells), np.empty(reps)
    for at in range(reps):
        noisy = rng.multinomial(50 * cells, share) + rng.laplace(0.0, 2.0, cells)
        noisy = np.maximum(noisy, 0.0).reshape(shape)
        found[at] = stats.chi2_contingency(noisy, correction=False).statistic
    return found


@comparison(
    "Tests",
    "chi2_contingency",
    "a 3 × 4 table, simulated",
    "a loop with SciPy's `chi2_contingency`",
    SAME,
    "replicates",
    100_000,
    1_000,
)
def contingency_by_loop(size, peer_size):
    shape = (3, 4)
    return Calls(
        lambda: test_contingency.simulated(shape, "pearson", "public n", cells=12 * size),
        lambda: table_loop(shape, peer_size),
        lambda ours, theirs: 0.0 < ours.pvalue <= 1.0 and theirs.shape == (peer_size,),
    )


@comparison(
    "Tests",
    "chi2_contingency",
    "a 3 × 4 table, simulated",
    "the random draws alone, NumPy",
    "draws only",
    "replicates",
    100_000,
)
def contingency_by_draws(size, _peer_size):
    shape = (3, 4)
    return Calls(
        lambda: test_contingency.simulated(shape, "pearson", "public n", cells=12 * size),
        lambda: test_contingency.bare_draws(shape, 12 * size),
        lambda ours, _theirs: 0.0 < ours.pvalue <= 1.0,
    )


# Planning


@comparison(
    "Planning",
    "plan.power",
    "exact power at 100 sample sizes",
    "1,000 simulated counts at each",
    "with simulation error",
    "points",
    100,
)
def power_curve(_size, _peer_size):
    noise = test_power.NOISES[0]
    return Calls(
        lambda: test_power.planned_power(test_power.NOBS, noise),
        lambda: test_power.simulated_curve(noise, 1_000),
        lambda ours, theirs: np.abs(ours - theirs).max() < 6 * np.sqrt(0.25 / 1_000),
    )


# Privacy

AGREE = {SAME: close, LOOSE: lambda ours, theirs: 1.05 < theirs / ours < 1.15}


def accounted(size, _peer_size, law, distribution, agree):
    def theirs():
        pld = test_composition.accounting()
        return distribution(pld).self_compose(size).get_epsilon_for_delta(test_composition.DELTA)

    return Calls(
        lambda: privacy_loss(law, compositions=size).epsilon_at(test_composition.DELTA),
        theirs,
        agree,
    )


for law, name, count, distribution, gives in (
    (
        DiscreteGaussian(sigma=100.0),
        "discrete Gaussian, σ = 100",
        10_000,
        lambda pld: pld.from_discrete_gaussian_mechanism(100.0, sensitivity=1),
        LOOSE,
    ),
    (
        Laplace(scale=10.0),
        "Laplace, scale 10",
        100,
        lambda pld: pld.from_laplace_mechanism(10.0),
        SAME,
    ),
    (
        Geometric(scale=100.0),
        "geometric, scale 100",
        10_000,
        lambda pld: pld.from_discrete_laplace_mechanism(0.01),
        SAME,
    ),
):
    row = ("Privacy", "privacy.privacy_loss", f"ε at δ = 10⁻⁶: {name}", "dp-accounting", gives)
    options = {"law": law, "distribution": distribution, "agree": AGREE[gives]}
    comparison(*row, "compositions", count, **options)(accounted)


def accounted_of_samples(size, _peer_size, noise):
    return Calls(
        lambda: test_composition.sampled(noise, size),
        lambda: test_composition.sampled_dp_accounting(noise, size),
        lambda ours, theirs: 0 <= theirs - ours < 1e-3,
    )


for noise in test_composition.SAMPLED:
    comparison(
        "Privacy",
        "privacy.SubsampledLoss",
        f"ε at δ = 10⁻⁶ on Poisson samples: {noise}",
        "dp-accounting",
        "an upper bound, up to 1e-3 above, on its default grid",
        "steps",
        test_composition.STEPS,
        noise=noise,
    )(accounted_of_samples)


# σ of the seven queries of a table, each asked so many times: shares of ρ = 3.65, in tenths of a
# percent, whose steps have a common one
SHARES, USES = (20, 274, 85, 262, 238, 118, 3), (10, 10, 10, 20, 10, 10, 10)
SEVEN = [
    (DiscreteGaussian(sigma=float(np.sqrt(uses / (2 * 3.65e-3 * share)))), uses)
    for share, uses in zip(SHARES, USES, strict=True)
]
SCALES = np.linspace(10.0, 40.0, 121)
MIX = [
    ((Laplace(scale=s), DiscreteGaussian(sigma=s), Geometric(scale=s))[i * 3 // 121], 1)
    for i, s in enumerate(SCALES.tolist())
]


def mixed(_size, _peer_size, parts, delta):
    def theirs():
        pld, total = test_composition.accounting(), None
        makers = {
            Laplace: lambda law: pld.from_laplace_mechanism(float(law.scale)),
            Geometric: lambda law: pld.from_discrete_laplace_mechanism(1.0 / float(law.scale)),
            DiscreteGaussian: lambda law: pld.from_discrete_gaussian_mechanism(float(law.sigma)),
        }
        for law, uses in parts:
            one = makers[type(law)](law).self_compose(uses)
            total = one if total is None else total.compose(one)
        return total.get_epsilon_for_delta(delta)

    def ours():
        return sum(privacy_loss(law, compositions=uses) for law, uses in parts).epsilon_at(delta)

    return Calls(ours, theirs, lambda ours, theirs: 1.0 < theirs / ours < 1.003)


for parts, name, delta in (
    (SEVEN, "δ = 10⁻¹⁰: seven discrete Gaussians, 80 uses", 1e-10),
    (MIX, "δ = 10⁻⁶: Laplace, discrete Gaussian and geometric of 121 scales", 1e-6),
):
    row = ("Privacy", "privacy.PrivacyLoss", f"ε at {name}", "dp-accounting")
    gives = "an upper bound, up to 0.3 % above"
    comparison(*row, gives, "laws", len(parts), parts=parts, delta=delta)(mixed)


@comparison(
    "Privacy",
    "privacy.renyi_curve",
    "ε at δ = 10⁻⁶: sampled Gaussian, σ = 1, rate 0.01, 1,000 steps",
    "dp-accounting",
    "an upper bound, over 156 orders",
    "curves",
    1,
)
def renyi(_size, _peer_size):
    def theirs():
        import dp_accounting
        from dp_accounting import rdp

        peer = rdp.RdpAccountant()
        step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
        return peer.compose(step, 1000).get_epsilon(1e-6)

    return Calls(
        lambda: renyi_curve(Gaussian(sigma=1.0), rate=0.01, compositions=1000).epsilon_at(1e-6),
        theirs,
        lambda ours, theirs: 1.0 < theirs / ours < 1.001,
    )


@comparison(
    "Privacy",
    "privacy.calibrate",
    "least scale of Laplace noise used 100 times at (1, 10⁻⁶)",
    "dp-accounting",
    "up to 0.01 % above, within its tolerance",
    "scales",
    1,
)
def calibration(_size, _peer_size):
    def theirs():
        import dp_accounting
        from dp_accounting.pld import PLDAccountant

        return dp_accounting.calibrate_dp_mechanism(
            PLDAccountant,
            lambda b: dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(b), 100),
            1.0,
            1e-6,
            dp_accounting.ExplicitBracketInterval(10.0, 100.0),
            tol=1e-4,
        )

    return Calls(
        lambda: calibrate(Laplace, dpi.ApproxDP(1.0, 1e-6), uses=100).scale,
        theirs,
        lambda ours, theirs: 1.0 < theirs / ours < 1.0001,
    )


@comparison(
    "Privacy",
    "privacy.compose_optimal",
    "ε at δ = 10⁻⁶ of any mechanisms of 0.01-DP",
    "dp-accounting",
    LOOSE,
    "compositions",
    10_000,
)
def optimal_composition(size, _peer_size):
    return Calls(
        lambda: test_optimal_composition.by_dpinfer(0.01, size),
        lambda: test_optimal_composition.by_dp_accounting(0.01, size),
        AGREE[LOOSE],
    )


# Start


COMPILED = TemporaryDirectory(prefix="dpinfer-")


def fresh(code):
    """Run code in a fresh process, with compiled modules as after an installation."""
    own = {"PYTHONPYCACHEPREFIX": COMPILED.name, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, env=os.environ | own).returncode


def importing(_size, _peer_size, first, statement):
    return Calls(
        lambda: fresh(first), lambda: fresh(statement), lambda ours, theirs: ours == theirs == 0
    )


for first, name, statement, gives in (
    ("from dpinfer import count_confint", "", "import statsmodels.api", "another library"),
    ("from dpinfer import count_confint", "", "import numpy, scipy.special", "what any use needs"),
    (test_import.FIRST_TEST, "a first z test", "import numpy, scipy.special", "what any use needs"),
):
    row = ("Start", "", name or f"`{first}`", f"`{statement}`", gives)
    comparison(*row, "imports", 1, first=first, statement=statement)(importing)
