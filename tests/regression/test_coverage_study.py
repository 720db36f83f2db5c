"""Coverage of the intervals across noise levels, sizes and methods."""

from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.errors import ConvergenceError, NotEstimableError
from dpinfer.regression import noisy_glm, noisy_ols

TRUTH = np.array([10.0, 0.5, 3.0])


def confidential(n, rng):
    """Counts that vary by a gamma law, a covariate that goes along, errors that grow."""
    people = rng.gamma(4.0, 50.0, n)
    other = 0.01 * people + rng.normal(size=n)
    visits = TRUTH[0] + TRUTH[1] * people + TRUTH[2] * other
    visits += rng.normal(size=n) * (5.0 + 0.05 * people)
    return visits, np.column_stack([np.ones(n), people, other])


def coverage(n, reliability, reps, rng, fixed=False, **options):
    """Shares of 95 % intervals that cover, ours and (n = 1000) naive ones, and of refusals."""
    people_variance = 4.0 * 50.0**2
    law = Laplace(scale=np.sqrt(people_variance * (1.0 / reliability - 1.0) / 2.0))
    y, exog = confidential(n, rng)
    covered, naive, refused = [], [], 0
    for _ in range(reps):
        if not fixed:
            y, exog = confidential(n, rng)
        truth = sm.OLS(y, exog).fit().params if fixed else TRUTH
        noisy = exog.copy()
        noisy[:, 1] += law.rvs(n, rng=rng)
        response = y + law.rvs(n, rng=rng)
        try:
            fit = noisy_ols(response, noisy, noise={"x1": law, "y": law}, **options)
        except NotEstimableError:
            refused += 1
            continue
        fits = [(covered, fit), *([(naive, fit.naive)] if n == 1000 else [])]
        for found, fitted in fits:
            ends = np.asarray(fitted.conf_int())
            found.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    naively = np.mean(naive, axis=0) if naive else None
    return np.mean(covered, axis=0), naively, refused / reps


CORNERS = list(product((50, 1000), (0.95, 0.6)))
OPTIONS: list[dict] = [
    {"method": "moments", "cov_type": "HC1"},
    {"method": "fuller", "cov_type": "HC1"},
    {"method": "fuller", "cov_type": "HC3"},
    {"method": "moments", "uncertainty": "noise", "fixed": True},
]
BETWEEN = [(200, 0.95), (200, 0.8), (200, 0.6), (50, 0.8), (1000, 0.8)]


@pytest.mark.parametrize(
    ("n", "reliability", "options", "reps"),
    [
        pytest.param(*one, options, reps, marks=mark)
        for turn, options in enumerate(OPTIONS)
        for place, one in enumerate(CORNERS + BETWEEN)
        # each size and reliability once, and all of them in the study
        for reps, mark in [(300, pytest.mark.study), (180, pytest.mark.slow)][
            : 1 + (place in ((0, 3), (1, 2))[turn % 2])
        ]
    ],
    ids=lambda one: "-".join(map(str, one.values())) if isinstance(one, dict) else str(one),
)
def test_coverage(n, reliability, options, reps):
    rng = np.random.default_rng([n, int(100 * reliability)])
    covered, naive, refused = coverage(n, reliability, reps, rng, **options)
    # six standard errors below what was measured with other seeds: 92.5 % in small tables with
    # HC1, 94 % elsewhere; a false alarm has probability 1e-7
    low = 0.925 if n == 50 and options.get("cov_type") != "HC3" else 0.94
    assert (covered > low - 6.0 * np.sqrt(low * (1.0 - low) / reps)).all()
    assert (covered < 0.98 + 6.0 * np.sqrt(0.98 * 0.02 / reps)).all()
    assert refused < (0.1 if n == 50 else 0.01)
    if n == 1000:
        assert naive[1] < 0.1


# Models, sizes, reliabilities, laws and uncertainties, for the table in the reference.

SPREAD = 10.0
MODELS = {
    "least squares": (0.1, lambda eta, rng: eta + rng.normal(size=len(eta)), {}),
    "logistic": (
        0.08,
        lambda eta, rng: (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))) * 1.0,
        {"family": "binomial"},
    ),
    "Poisson": (0.03, lambda eta, rng: rng.poisson(np.exp(eta)) * 1.0, {"family": "poisson"}),
    "negative binomial": (
        0.03,
        lambda eta, rng: rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, len(eta))) * 1.0,
        {"family": "negative-binomial"},
    ),
}
LAWS = {
    "Laplace": lambda std: Laplace(scale=std / np.sqrt(2.0)),
    "geometric": lambda std: Geometric(scale=1.0 / (2.0 * np.arcsinh(np.sqrt(0.5) / std))),
    "Gaussian": lambda std: Gaussian(sigma=std),
    "discrete Gaussian": lambda std: DiscreteGaussian(sigma=std),
}


def fitted(name, response, exog, noise, **options):
    own = MODELS[name][2]
    if not own:
        return noisy_ols(response, exog, noise={"x1": noise}, **options)
    return noisy_glm(response, exog, noise={"x1": noise}, **own, **options)


def study(name, law, n, reliability, repeats):
    """Return tables, refusals, tables with infinite ends, and how many slopes were covered.

    For ``"noise+sampling"``, and for ``"noise"``, where there is one.
    """
    rng = np.random.default_rng([n, int(100 * reliability), sum(map(ord, name + law))])
    slope, draw, _ = MODELS[name]
    noise = LAWS[law](SPREAD * np.sqrt(1.0 / reliability - 1.0))
    alone = name != "negative binomial" and (name, law[-8:]) not in {
        ("logistic", "Gaussian"),
    }
    counts = np.zeros((2, 4), dtype=int)
    for _ in range(repeats):
        z = np.round(rng.normal(0.0, SPREAD, n))
        response = draw(0.5 + slope * z, rng)
        plain = np.column_stack([np.ones(n), z])
        noisy = plain + np.column_stack([np.zeros(n), noise.rvs(n, rng=rng)])
        for kind, uncertainty in enumerate(("noise+sampling", "noise")[: 1 + alone]):
            counts[kind, 0] += 1
            truth = slope
            try:
                if kind:
                    truth = fitted(name, response, plain, 0.0).params[1]
                fit = fitted(name, response, noisy, noise, uncertainty=uncertainty)
            except (NotEstimableError, ConvergenceError):
                counts[kind, 1] += 1
                continue
            method = "wald" if MODELS[name][2] else None
            lower, upper = (x[1] for x in map(np.asarray, fit.conf_int(method=method)))
            counts[kind, 2] += np.isinf(lower)
            counts[kind, 3] += lower <= truth <= upper
    return counts


REPEATS = {100: 100, 1000: 60, 5000: 24}
RELIABILITIES = (0.95, 0.6, 0.3)


@pytest.mark.study
def test_all_models_and_laws():
    """About thirteen minutes of processor time; the lines printed are those of the table."""
    for name in MODELS:
        for n, repeats in REPEATS.items():
            for reliability in RELIABILITIES:
                total = np.zeros((2, 4), dtype=int)
                for law in LAWS:
                    if name == "negative binomial" and "Gaussian" in law:
                        continue
                    found = study(name, law, n, reliability, repeats)
                    print("#", name, law, n, reliability, found.tolist(), flush=True)
                    total += found
                cells = [name, f"{n:,}", f"{reliability:g}"]
                for tables, refused, infinite, covered in total:
                    fits = tables - refused
                    cells += [
                        f"{100 * covered / fits:.1f}" if fits else "-",
                        f"{100 * refused / tables:.1f}" if tables else "-",
                        f"{100 * infinite / fits:.0f}" if fits else "-",
                    ]
                print("|", " | ".join(cells), "|", flush=True)
                fits = total[0, 0] - total[0, 1]
                assert total[0, 3] >= 0.85 * fits


SETS = [
    ("logistic", "Laplace+Gaussian", 30, 0.8, 60, "noise+sampling"),
    ("logistic", "Laplace+geometric", 100, 0.3, 60, "noise+sampling"),
    ("logistic", "Gaussian", 100, 0.3, 100, "noise+sampling"),
    ("logistic, skew", "Laplace+geometric+Gaussian", 100, 0.6, 70, "noise+sampling"),
    ("Poisson", "Laplace+geometric+Gaussian", 100, 0.3, 70, "noise+sampling"),
    ("Poisson", "Laplace+geometric", 100, 0.6, 100, "noise+sampling"),
    ("Poisson", "Laplace+Gaussian", 100, 0.95, 80, "noise+sampling"),
    ("Poisson", "Laplace", 1000, 0.3, 50, "noise+sampling"),
    ("negative binomial", "Laplace+geometric", 100, 0.3, 60, "noise+sampling"),
    ("negative binomial", "Laplace", 100, 0.6, 80, "noise+sampling"),
    ("logistic", "Laplace", 30, 0.8, 120, "noise"),
    ("logistic", "Laplace+geometric", 100, 0.3, 150, "noise"),
    ("logistic, skew", "Laplace+geometric", 100, 0.6, 100, "noise"),
    ("logistic", "Laplace", 1000, 0.3, 100, "noise"),
    ("Poisson", "Laplace+geometric+Gaussian", 100, 0.3, 150, "noise"),
    ("Poisson", "Laplace+geometric", 100, 0.6, 120, "noise"),
    ("Poisson", "Laplace+Gaussian", 100, 0.95, 100, "noise"),
    ("Poisson", "Laplace+Gaussian", 1000, 0.3, 100, "noise"),
    ("negative binomial", "Laplace+geometric", 100, 0.3, 120, "noise"),
    ("negative binomial", "Laplace+geometric", 100, 0.6, 120, "noise"),
]


@pytest.mark.study
@pytest.mark.parametrize("row", SETS, ids=lambda row: "-".join(map(str, row)))
def test_score_sets_of_models(row):
    """About five minutes of processor time; the lines printed are those of the last two tables."""
    name, laws, n, reliability, repeats, uncertainty = row
    model, _, skew = name.partition(", ")
    slope, draw, _ = MODELS[model]
    truth, found, tables = np.array([0.5, slope]), [], 0
    own = {"uncertainty": uncertainty}
    if model == "negative binomial" and uncertainty == "noise":
        own["dispersion"] = 0.5
    for law in laws.split("+"):
        rng = np.random.default_rng([7, n, int(100 * reliability)])
        noise = LAWS[law](SPREAD * np.sqrt(1.0 / reliability - 1.0))
        for _ in range(repeats):
            tables += 1
            z = SPREAD / 2 * (rng.gamma(4.0, 1.0, n) - 4.0) if skew else rng.normal(0.0, SPREAD, n)
            z = np.round(z)
            response = draw(0.5 + slope * z, rng)
            plain = np.column_stack([np.ones(n), z])
            exog = np.column_stack([np.ones(n), z + noise.rvs(n, rng=rng)])
            try:
                if uncertainty == "noise":
                    truth = fitted(model, response, plain, 0.0, **own).params
                fit = fitted(model, response, exog, noise, **own)
            except (NotEstimableError, ConvergenceError):
                continue
            sets, wald = np.asarray(fit.conf_int()), np.asarray(fit.conf_int(method="wald"))
            covered = [(x[:, 0] <= truth) & (truth <= x[:, 1]) for x in (sets, wald)]
            found.append([*covered[0][::-1], *covered[1][::-1], *np.isinf(sets).any(axis=1)[::-1]])
    shares = 100.0 * np.mean(found, axis=0)
    cells = [name, n, reliability, len(found), *(f"{x:.1f}" for x in shares[:4])]
    cells += [*(f"{x:.0f}" for x in shares[4:]), f"{100 - 100 * len(found) / tables:.1f}"]
    print("|", " | ".join(map(str, cells)), "|", flush=True)
    assert shares[0] >= 90.0
