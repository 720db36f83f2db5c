"""How often the default method of every public interval and test errs at its worst.

``python tests/calibration/defaults.py --output vignettes/about/defaults.json`` finds for each of
them the largest probability of an error over a grid of truths and laws of noise, in multiples of
the nominal level, and writes what the page of defaults shows. Every possible release is listed,
with its probability; continuous noise is cut into cells, by which a figure is off by three per cent
at most. What cannot be listed is simulated, and says so.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import dpinfer as dpi

ALPHA = 0.05
LEFT_OUT = 1e-7
"""Probability of the noise that is further out than any value that is listed."""
REPS = 4000
"""Simulated releases, where they cannot be listed."""

LATTICES = (
    dpi.Geometric(scale=0.45),
    dpi.Geometric(scale=2.0),
    dpi.DiscreteGaussian(sigma=0.6),
    dpi.DiscreteGaussian(sigma=3.0),
)
NARROW = (dpi.Geometric(scale=0.45), dpi.DiscreteGaussian(sigma=0.6))
CONTINUOUS = (dpi.Laplace(scale=0.5), dpi.Laplace(scale=4.0), dpi.Gaussian(sigma=2.0))
ALL = LATTICES + CONTINUOUS

Found = Iterator[tuple[str, float]]
"""Truths, described, and the probability of an error there."""
Study = Callable[[Any], Found]
"""Goes through the truths under one law of noise."""


@dataclass(frozen=True)
class Procedure:
    """A public interval or test, with the study that finds how often it errs."""

    name: str
    default: str
    grid: str
    study: Study
    laws: tuple[Any, ...] = ALL
    simulated: bool = False


def atoms(
    noise: dpi.mechanisms.NoiseLaw,
    left_out: float = LEFT_OUT,
    *,
    above: float = -np.inf,
    fine: int = 800,
) -> tuple[np.ndarray, np.ndarray]:
    """Return values of the noise from a bound on, and their probabilities given the bound."""
    share = 1.0 if above == -np.inf else float(noise.sf(np.nextafter(above, -np.inf)))
    if noise.is_integer:
        reach = int(noise.isf(left_out * share / 2))
        e = np.arange(max(-reach, np.ceil(above)), reach + 1.0)
        return e, noise.pmf(e) / share
    few = fine // 8
    tails = [np.geomspace(left_out, 0.02, few), np.linspace(0.02, 0.06, fine)[1:]]
    edges = np.concatenate([*tails, np.linspace(0.06, 0.5, few)[1:]])
    edges = np.concatenate([[0.0], edges, (1.0 - edges)[-2::-1], [1.0]])
    return noise.isf(0.5 * share * (edges[1:] + edges[:-1])), np.diff(edges)


def pairs(
    noise: dpi.mechanisms.NoiseLaw, left_out: float = 1e-5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all pairs of values of two noises, with their probabilities."""
    e, mass = atoms(noise, left_out, fine=40)
    first, second = np.meshgrid(e, e, indexing="ij")
    return first.ravel(), second.ravel(), np.outer(mass, mass).ravel()


ENDS = ("lower", "upper")


class Ends(NamedTuple):
    """The ends of intervals."""

    lower: np.ndarray
    upper: np.ndarray


def missed(intervals: Any, truth: float) -> np.ndarray:
    """Tell which intervals leave out the truth by more than rounding."""
    slack = 1e-9 * (1 + abs(truth))
    lower, upper = np.asarray(intervals.lower), np.asarray(intervals.upper)
    return ~((lower <= truth + slack) & (truth - slack <= upper))


def rejected(test: Any) -> np.ndarray:
    """Tell which tests reject, up to rounding."""
    return np.asarray(test.pvalue) <= ALPHA * (1 + 1e-9)


# One count.


def shifted(interval: Callable[..., Any]) -> Study:
    """Study an interval for a confidential count, whose width does not depend on the count."""

    def study(noise: dpi.mechanisms.NoiseLaw) -> Found:
        e, mass = atoms(noise)
        yield "any count", float(mass @ missed(interval(e, mechanism=noise), 0.0))

    return study


def sums(noise: dpi.mechanisms.NoiseLaw) -> Found:
    first, second, mass = pairs(noise)
    half = dpi.linear_confint([0.0, 0.0], [1.0, -2.0], mechanism=noise).upper
    yield "a - 2b", float(mass @ (np.abs(first - 2 * second) > half * (1 + 1e-9)))


def of_overlaps(noise: dpi.mechanisms.NoiseLaw) -> Found:
    fit = dpi.combine(np.zeros(3), workload=[[1, 0], [0, 1], [1, 1]], mechanism=noise)
    e, mass = atoms(noise, 1e-5, fine=40)
    errors = np.stack(np.meshgrid(e, e, e, indexing="ij"), axis=-1).reshape(-1, 3) @ fit.weights.T
    weight = np.einsum("i,j,k->ijk", mass, mass, mass).ravel()
    half = fit.conf_int().upper
    for target in range(3):
        yield (
            f"two cells and their total, target {target}",
            float(weight @ (np.abs(errors[:, target]) > half[target] * (1 + 1e-9))),
        )


def clamped(noise: dpi.mechanisms.NoiseLaw) -> Found:
    e, mass = atoms(noise)
    for truth in (0.0, 1.0, 2.0, 5.0):
        found = dpi.count_confint(np.maximum(truth + e, 0.0), mechanism=noise, clamp=0.0)
        yield f"count {truth:g}, clamped at 0", float(mass @ missed(found, truth))


def thresholded(noise: dpi.mechanisms.NoiseLaw) -> Found:
    for away in (-3, -1, 0, 1, 4):
        truth = 50.0 + np.rint(away * noise.std)
        e, mass = atoms(noise, above=50.0 - truth)
        found = dpi.count_confint(truth + e, mechanism=noise, threshold=50.0)
        yield f"count {truth:g}, published from 50", float(mass @ missed(found, truth))


def unpublished(noise: dpi.mechanisms.NoiseLaw) -> Found:
    bound = float(dpi.unpublished_bound(mechanism=noise, threshold=50.0).upper)
    above = np.floor(bound) + 1.0 if noise.is_integer else np.nextafter(bound, np.inf)
    short = 50.0 - above - (1.0 if noise.is_integer else 0.0)
    yield f"count {above:.4g}, unpublished below 50", float(noise.cdf(short))


# One count of a population.

SIZES = (4, 15, 60)
SHARES = (0.001, 0.02, *np.linspace(0.05, 0.95, 19), 0.98, 0.999)
RATES = (0.01, 0.2, 0.7, 1.5, 3.0, 7.3, 15.0, 40.0)


def of_trials(interval: Callable[..., Any], sizes: tuple[int, ...] = SIZES) -> Study:
    def study(noise: dpi.mechanisms.NoiseLaw) -> Found:
        e, mass = atoms(noise)
        for n in sizes:
            x = np.arange(n + 1)
            found = interval((x[:, None] + e).ravel(), n, noise)
            for p in SHARES:
                each = missed(found, p).reshape(n + 1, -1) @ mass
                yield f"n = {n}, p = {p:.3g}", float(stats.binom.pmf(x, n, p) @ each)

    return study


def proportion(y: np.ndarray, n: int, noise: dpi.mechanisms.NoiseLaw) -> Any:
    return dpi.proportion_confint(y, n, mechanism=noise)


def of_events(noise: dpi.mechanisms.NoiseLaw) -> Found:
    e, mass = atoms(noise)
    x = np.arange(90)
    found = dpi.poisson_confint((x[:, None] + e).ravel(), mechanism=noise)
    for rate in RATES:
        each = missed(found, rate).reshape(x.size, -1) @ mass
        yield f"rate {rate:g}", float(stats.poisson.pmf(x, rate) @ each)


def of_samples(noise: dpi.mechanisms.NoiseLaw) -> Found:
    """A simple random sample of 20 from populations of 60."""
    e, mass = atoms(noise)
    x = np.arange(21)
    y = (x[:, None] + e).ravel()
    fit = dpi.survey_total(y, mechanism=noise, sample_size=20, population_size=60)
    found = fit.conf_int()
    for total in (0, 1, 3, 10, 25, 30, 50, 59, 60):
        each = missed(found, float(total)).reshape(x.size, -1) @ mass
        weight = stats.hypergeom.pmf(x, 60, total, 20)
        yield f"{total} of 60, sample of 20", float(weight @ each)


def of_strata(noise: dpi.mechanisms.NoiseLaw) -> Found:
    """Simple random samples of 6 and 8 from strata of 12 and 30."""
    first, second, mass = pairs(noise, 1e-3)
    x1, x2 = (g.ravel() for g in np.mgrid[:7, :9])
    y = np.stack([(x1[:, None] + first).ravel(), (x2[:, None] + second).ravel()])
    seen, back = np.unique(y, axis=1, return_inverse=True)
    found = [
        dpi.intervals.stratified_total(
            one, mechanism=noise, sample_size=[6, 8], population_size=[12, 30]
        ).conf_int()
        for one in seen.T
    ]
    lower, upper = (np.array([float(getattr(f, end)) for f in found]) for end in ("lower", "upper"))
    for t1, t2 in product((0, 2, 6, 11), (0, 1, 8, 15, 29)):
        truth = float(t1 + t2)
        wrong = ((lower > truth + 1e-9) | (upper < truth - 1e-9))[back].reshape(x1.size, -1) @ mass
        weight = stats.hypergeom.pmf(x1, 12, t1, 6) * stats.hypergeom.pmf(x2, 30, t2, 8)
        yield f"{t1} of 12 and {t2} of 30", float(weight @ wrong)


def z_test(noise: dpi.mechanisms.NoiseLaw) -> Found:
    e, mass = atoms(noise)
    for n, p in product(SIZES, (0.02, 0.1, 0.3, 0.5)):
        x = np.arange(n + 1)
        test = dpi.proportions_ztest((x[:, None] + e).ravel(), n, p, mechanism=noise)
        each = rejected(test).reshape(n + 1, -1) @ mass
        yield f"n = {n}, p = {p:.3g}", float(stats.binom.pmf(x, n, p) @ each)


def rate_test(noise: dpi.mechanisms.NoiseLaw) -> Found:
    e, mass = atoms(noise)
    x = np.arange(90)
    for rate in RATES:
        test = dpi.poisson_ztest((x[:, None] + e).ravel(), 1.0, rate, mechanism=noise)
        each = rejected(test).reshape(x.size, -1) @ mass
        yield f"rate {rate:g}", float(stats.poisson.pmf(x, rate) @ each)


# Two counts, and tables of four.


def of_pairs(interval: Callable[..., Any], target: Callable[..., float]) -> Study:
    """Study an interval for a function of two confidential counts."""

    def study(noise: dpi.mechanisms.NoiseLaw) -> Found:
        first, second, mass = pairs(noise, 1e-3)
        for a, b in ((5.0, 5.0), (3.0, 40.0), (60.0, 90.0)):
            found = interval(a + first, b + second, mechanism=noise)
            wrong = ~np.asarray(found.contains(target(a, b)))
            yield f"counts {a:g} and {b:g}", float(mass @ wrong)

    return study


def of_tables(interval: Callable[..., Any], target: Callable[..., float]) -> Study:
    """Study a measure of the confidential 2 × 2 table, from noise in all four cells."""

    def study(noise: dpi.mechanisms.NoiseLaw) -> Found:
        e, mass = atoms(noise, 1e-4)
        errors = np.stack(np.meshgrid(e, e, e, e, indexing="ij"), axis=-1).reshape(-1, 2, 2)
        weight = np.einsum("i,j,k,l->ijkl", mass, mass, mass, mass).ravel()
        for cells in ((12, 18, 20, 10), (3, 30, 6, 30)):
            truth = np.reshape(cells, (2, 2)).astype(float)
            found = interval(truth + errors, mechanism=noise, uncertainty="noise")
            wrong = missed(found, target(*cells))
            yield f"cells {', '.join(map(str, cells))}", float(weight @ wrong)

    return study


def difference(a: float, b: float, c: float, d: float) -> float:
    return a / (a + b) - c / (c + d)


def risk_ratio(a: float, b: float, c: float, d: float) -> float:
    return a / (a + b) / (c / (c + d))


def odds_ratio(a: float, b: float, c: float, d: float) -> float:
    return a * d / (b * c)


N1, N2 = 8, 12
GROUPS = f"n = {N1} and {N2}"


def every_pair(
    noise: dpi.mechanisms.NoiseLaw, x1: np.ndarray, x2: np.ndarray, left_out: float = 1e-4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct published pairs, which of them each outcome is, and its probability."""
    first, second, mass = pairs(noise, left_out)
    y = np.stack([(x1[:, None] + first).ravel(), (x2[:, None] + second).ravel()])
    seen, back = np.unique(y, axis=1, return_inverse=True)
    return seen, back, mass


def of_groups(interval: Callable[..., Any], target: Callable[..., float]) -> Study:
    """Study a measure of two populations from noisy 2 × 2 tables of samples of known sizes.

    With the sizes known, the measure depends on what the two cells of a sample differ by.
    """

    def study(noise: dpi.mechanisms.NoiseLaw) -> Found:
        e, mass = atoms(noise, 1e-3)
        both, at = np.unique(e[:, None] - e, return_inverse=True)
        of_both = np.bincount(at.ravel(), np.outer(mass, mass).ravel())
        first, second = (d.ravel() for d in np.meshgrid(both, both, indexing="ij"))
        mass = np.outer(of_both, of_both).ravel()
        x1, x2 = (g.ravel() for g in np.mgrid[: N1 + 1, : N2 + 1])
        y = np.stack([(2 * x1[:, None] + first).ravel(), (2 * x2[:, None] + second).ravel()])
        seen, back = np.unique(y, axis=1, return_inverse=True)
        one = np.floor(seen / 2)
        table = np.stack([one[0], N1 - (seen - one)[0], one[1], N2 - (seen - one)[1]], axis=1)
        known = {"mechanism": noise, "row_totals": [N1, N2], "uncertainty": "noise+sampling"}
        tables = table.reshape(-1, 2, 2)
        parts = [interval(tables[i : i + 400], **known) for i in range(0, len(tables), 400)]
        found = Ends(*(np.concatenate([getattr(part, end) for part in parts]) for end in ENDS))
        for p1, p2 in product((0.02, 0.1, 0.3, 0.6, 0.95), repeat=2):
            wrong = missed(found, target(p1, 1 - p1, p2, 1 - p2))[back].reshape(x1.size, -1) @ mass
            weight = stats.binom.pmf(x1, N1, p1) * stats.binom.pmf(x2, N2, p2)
            yield f"{GROUPS}, p = {p1:g} and {p2:g}", float(weight @ wrong)

    return study


def two_proportions(noise: dpi.mechanisms.NoiseLaw) -> Found:
    x1, x2 = (g.ravel() for g in np.mgrid[: N1 + 1, : N2 + 1])
    seen, back, mass = every_pair(noise, x1, x2)
    test = dpi.proportions_2indep(seen[0], N1, seen[1], N2, mechanism=noise)
    wrong = rejected(test)[back].reshape(x1.size, -1) @ mass
    for p in (0.01, 0.05, 0.2, 0.4, 0.5, 0.9):
        weight = stats.binom.pmf(x1, N1, p) * stats.binom.pmf(x2, N2, p)
        yield f"{GROUPS}, p = {p:g}", float(weight @ wrong)


def two_rates(noise: dpi.mechanisms.NoiseLaw) -> Found:
    x1, x2 = (g.ravel() for g in np.mgrid[:16, :28])
    seen, back, mass = every_pair(noise, x1, x2, 1e-3)
    test = dpi.poisson_2indep(seen[0], 1.0, seen[1], 2.0, mechanism=noise)
    wrong = rejected(test)[back].reshape(x1.size, -1) @ mass
    for rate in (0.05, 0.5, 2.0, 5.0):
        weight = stats.poisson.pmf(x1, rate) * stats.poisson.pmf(x2, 2 * rate)
        yield f"exposures 1 and 2, rate {rate:g}", float(weight @ wrong)


def paired_answers(noise: dpi.mechanisms.NoiseLaw) -> Found:
    """Twenty pairs of answers, the off-diagonal cells published with noise."""
    n = 20
    x1, x2 = (g.ravel() for g in np.mgrid[: n + 1, : n + 1])
    keep = x1 + x2 <= n
    x1, x2 = x1[keep], x2[keep]
    seen, back, mass = every_pair(noise, x1, x2, 1e-3)
    found = [
        dpi.mcnemar([[5.0, a], [b, 5.0]], mechanism=noise).pvalue <= ALPHA * (1 + 1e-9)
        for a, b in seen.T
    ]
    wrong = np.asarray(found)[back].reshape(x1.size, -1) @ mass
    for p in (0.02, 0.1, 0.3, 0.5):
        outcomes = np.stack([x1, x2, n - x1 - x2], axis=1)
        weight = stats.multinomial.pmf(outcomes, n, [p, p, 1 - 2 * p])
        yield f"n = {n}, p = {p:g} twice", float(weight @ wrong)


def two_counts(noise: dpi.mechanisms.NoiseLaw) -> Found:
    first, second, mass = pairs(noise)
    test = dpi.counts_2indep(20.0 + first, 20.0 + second, mechanism=noise)
    yield "equal counts", float(mass @ rejected(test))


def linear_test(noise: dpi.mechanisms.NoiseLaw) -> Found:
    first, second, mass = pairs(noise, 1e-3)
    kinds, back = np.unique(first - second, return_inverse=True)
    found = [
        dpi.linear_ztest([20 + x, 20.0], [1, -1], mechanism=noise).pvalue <= ALPHA for x in kinds
    ]
    yield "a - b", float(mass @ np.asarray(found)[back])


def of_reports(categories: int) -> Study:
    """Study the proportions of a population from the reports of 12 sampled people."""

    def study(channel: dpi.RandomizedResponse) -> Found:
        n = 12
        reports = np.array([c for c in product(range(n + 1), repeat=categories) if sum(c) == n])
        found = [
            dpi.estimation.response_proportions(c, mechanism=channel).conf_int() for c in reports
        ]
        lower, upper = (np.array([np.asarray(getattr(f, k)) for f in found]) for k in ENDS)
        for p in product((0.0, 0.1, 0.3, 0.6, 1.0), repeat=categories - 1):
            if sum(p) > 1.0 + 1e-12:
                continue
            truth = np.array([*p, 1.0 - sum(p)])
            weight = stats.multinomial.pmf(reports, n, truth @ channel.matrix)
            wrong = (lower > truth + 1e-9) | (upper < truth - 1e-9)
            yield f"n = {n}, {np.round(truth, 2).tolist()}", float((weight @ wrong).max())

    return study


CHANNELS = {
    k: tuple(dpi.RandomizedResponse.from_epsilon(epsilon, categories=k) for epsilon in (0.5, 2.0))
    for k in (2, 3)
}


# What is simulated.


def simulated(study: Callable[[Any, np.random.Generator], float], at: str) -> Study:
    """Study what is too much to list."""

    def run(noise: Any) -> Found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpi.DPInferWarning)
            yield at, study(noise, np.random.default_rng(2026))

    return run


def of_trees(noise: dpi.mechanisms.NoiseLaw, rng: np.random.Generator) -> float:
    fit = dpi.combine_hierarchy(np.zeros(4), [-1, 0, 0, 0], mechanism=noise)
    errors = np.abs(noise.rvs((40 * REPS, 4), rng=rng) @ fit.weights().T)
    return float((errors > np.asarray(fit.conf_int().upper) * (1 + 1e-9)).mean(axis=0).max())


def parents(noise: dpi.mechanisms.NoiseLaw, rng: np.random.Generator) -> float:
    values = noise.rvs((FEW, 4), rng=rng).astype(float)
    found = [
        dpi.combine_hierarchy(v, [-1, 0, 0, 0], mechanism=noise).parent_tests()["pvalue"].min()
        for v in values
    ]
    return float(np.mean(np.asarray(found) <= ALPHA))


def fit_test(noise: dpi.mechanisms.NoiseLaw, rng: np.random.Generator) -> float:
    first = dpi.chisquare([51, 50, 50, 49], np.full(4, 50.0), mechanism=noise, rng=rng)
    tables = rng.multinomial(200, np.full(4, 0.25), REPS) + noise.rvs((REPS, 4), rng=rng)
    statistic = np.square(tables - 50.0).sum(axis=1) / 50.0
    return float(np.mean(first.null_distribution.pvalue(statistic, "larger") <= ALPHA))


def each(test: Callable[..., Any], cells: Any) -> Callable[[Any, np.random.Generator], float]:
    """Reject table by table."""
    p = np.asarray(cells)

    def study(noise: dpi.mechanisms.NoiseLaw, rng: np.random.Generator) -> float:
        tables = rng.multinomial(200, p.ravel(), FEW).reshape(FEW, *p.shape).astype(float)
        tables += noise.rvs(tables.shape, rng=rng)
        return float(np.mean([test(t, noise, rng).pvalue <= ALPHA for t in tables]))

    return study


def two_way_test(table: np.ndarray, noise: Any, rng: np.random.Generator) -> Any:
    return dpi.chi2_contingency(table, mechanism=noise, nobs=200, rng=rng, reps=999)


def trend_test(table: np.ndarray, noise: Any, rng: np.random.Generator) -> Any:
    return dpi.counts_trend(table, 200, mechanism=noise, rng=rng, reps=999)


FEW = 1500
WIDE = (dpi.Geometric(scale=2.0), dpi.Laplace(scale=4.0), dpi.Gaussian(sigma=2.0))
EVEN = np.full(4, 0.25)
INDEPENDENT = np.outer([0.6, 0.4], [0.5, 0.3, 0.2])
TREE = "three leaves and their root"


RISKS = (
    (dpi.risk_difference_confint, difference),
    (dpi.risk_ratio_confint, risk_ratio),
    (dpi.odds_ratio_confint, odds_ratio),
)
RATIOS = (
    (dpi.ratio_confint, lambda a, b: a / b),
    (dpi.share_confint, lambda a, b: a / (a + b)),
    (dpi.relative_change_confint, lambda a, b: a / b - 1),
)
P = Procedure
PROCEDURES = (
    P("count_confint", "exact", "any count", shifted(dpi.count_confint)),
    P("linear_confint", "exact", "a - 2b", sums),
    P("combine().conf_int", "exact", "two cells and their total", of_overlaps, LATTICES),
    P("combine_hierarchy().conf_int", "exact", TREE, simulated(of_trees, TREE), ALL, True),
    P("count_confint, clamp", "exact", "counts 0 to 5, clamped at 0", clamped),
    P("count_confint, threshold", "exact", "counts around the threshold 50", thresholded),
    P("unpublished_bound", "exact", "the least count above the bound", unpublished),
    P("proportion_confint", "exact", "n 4 to 60, p .001 to .999", of_trials(proportion)),
    P("poisson_confint", "exact", "rates 0.01 to 40", of_events),
    P("survey_total", "exact", "samples of 20 from 60", of_samples, LATTICES),
    P("stratified_total", "exact", "samples of 6 and 8 from 12 and 30", of_strata, NARROW),
    P("response_proportions, k = 2", "exact", "n = 12", of_reports(2), CHANNELS[2]),
    P("response_proportions, k = 3", "exact", "n = 12", of_reports(3), CHANNELS[3]),
    *(P(f.__name__, "exact", "counts 3 to 90", of_pairs(f, target)) for f, target in RATIOS),
    *(P(f"{f.__name__}, noise", "exact", "two tables", of_tables(f, t), NARROW) for f, t in RISKS),
    *(
        P(f"{f.__name__}, noise+sampling", "exact", GROUPS, of_groups(f, t), NARROW)
        for f, t in RISKS
    ),
    P("proportions_ztest", "exact", "n 4 to 60, p .02 to .5", z_test),
    P("poisson_ztest", "exact", "rates 0.01 to 40", rate_test),
    P("proportions_2indep", "exact", f"{GROUPS}, p .01 to .9", two_proportions, LATTICES),
    P("poisson_2indep", "exact", "rates .05 to 5", two_rates, NARROW),
    P("mcnemar", "exact", "20 pairs, p .02 to .5", paired_answers, NARROW),
    P("counts_2indep", "exact", "equal counts", two_counts),
    P("linear_ztest", "exact", "a - b", linear_test),
    P("parent_tests, least p-value", "exact", TREE, simulated(parents, TREE), WIDE, True),
    P("chisquare", "exact", "4 even cells, n = 200", simulated(fit_test, "n = 200"), WIDE, True),
    P(
        "counts_trend",
        "exact",
        "4 even cells, n = 200",
        simulated(each(trend_test, EVEN), "n = 200"),
        WIDE,
        True,
    ),
    P(
        "chi2_contingency",
        "monte-carlo",
        "2 × 3, n = 200",
        simulated(each(two_way_test, INDEPENDENT), "n = 200"),
        WIDE,
        True,
    ),
)


def worst(procedure: Procedure) -> dict[str, Any]:
    """Return the most errors of a procedure, over its laws and truths."""
    found = [
        (rate / ALPHA, f"{noise!r}, {at}")
        for noise in procedure.laws
        for at, rate in procedure.study(noise)
    ]
    rate, at = max(found)
    return {
        "procedure": procedure.name,
        "default": procedure.default,
        "grid": procedure.grid,
        "laws": len(procedure.laws),
        "settings": len(found),
        "how": "simulated" if procedure.simulated else "listed",
        "times_alpha": round(rate, 4),
        "at": at,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rows = []
    for procedure in PROCEDURES:
        if not options.names or any(name in procedure.name for name in options.names):
            rows.append(worst(procedure))
            print("{times_alpha:7.4f}  {procedure}  ({at})".format(**rows[-1]), flush=True)
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
