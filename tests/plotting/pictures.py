"""The pictures that are compared with stored ones, small and from fixed numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer import plotting
from dpinfer.calibration import Certificate, Certificates, SizeStudy
from dpinfer.privacy import GDP, ZCDP, ApproxDP, BudgetAllocation, BudgetLedger, PureDP
from dpinfer.results import AsymptoticNull


def fit():
    """Two cells and their total, published with different noise."""
    tables = [
        pd.Series([30.5, 28.9], pd.Index(["F", "M"], name="sex")),
        pd.Series([61.2], pd.Index(["*"], name="sex")),
    ]
    noise = [dpi.Laplace(scale=4.0), dpi.Laplace(scale=2.0)]
    release = dpi.Release.from_tables([tables[0], 61.2], mechanism=noise)
    return dpi.combine(release)


def hierarchy():
    """A country of two regions with three towns each."""
    parent = [-1, 0, 0, 1, 1, 1, 2, 2, 2]
    noise = dpi.Gaussian(sigma=np.array([1.0, 2.0, 2.0, 5.0, 4.0, 6.0, 5.0, 5.0, 9.0]))
    values = [90.0, 40, 47, 11, 18, 12, 20, 9, 19]
    return dpi.combine_hierarchy(values, parent, mechanism=noise)


def ledger():
    """Three releases under a budget."""
    book = BudgetLedger(ZCDP(0.5))
    book.record("total", ZCDP(0.05))
    book.record("by age", mechanism=dpi.Gaussian(sigma=2.0))
    book.record("by $sex$ and age", ZCDP(0.2))
    return book


def study():
    """Rates of two tests, one of them exact."""
    return SizeStudy(
        tests=("exact test", "noise ignored"),
        alpha=np.array([0.01, 0.05, 0.1]),
        rate=np.array([[0.01, 0.05, 0.1], [0.03, 0.1, 0.16]]),
        reps=np.array([0, 1000]),
    )


def chains():
    """Two chains that are apart."""
    course = np.sin(np.arange(24.0) * [[0.7], [1.3]]) * [[3.0], [2.0]] + [[0.0], [2.5]]
    prior = dpi.priors.FlatPrior()
    return dpi.posterior.FunctionPosterior(draws=np.rint(course), prior=prior, sampler="chain")


def allocation():
    """Two levels, three queries."""
    half = Fraction(1, 2)
    table = {"State": (half, [4, 1, 0]), "County": (half, [1, 2, 3])}
    return BudgetAllocation.from_numerators(Fraction(1), ["total", "age", "race"], table)


COVERAGE = pd.DataFrame(
    {"exact": [0.951, 0.948, 0.95], "noise ignored": [0.62, 0.8, 0.94]},
    index=pd.Index([0.1, 0.5, 2.0], name="privacy budget ε"),
)
GUARANTEES = [PureDP(1.0), GDP(1.0), ApproxDP(0.5, 0.05)]

CERTIFICATES = Certificates(
    [
        Certificate(
            procedure="exact interval",
            kind="coverage",
            alpha=0.05,
            labels=("a", "b"),
            error_rate=np.array([0.049, 0.02]),
            reps=np.array([1000, 1000]),
            beside="normal",
            beside_error_rate=np.array([0.11, 0.07]),
        ),
        Certificate(
            procedure="exact test",
            kind="size",
            alpha=0.1,
            labels=("",),
            error_rate=np.array([0.1]),
            reps=np.array([0]),
            exact=True,
        ),
    ]
)

WEEKS = pd.date_range("2024-01-01", periods=6, freq="W-MON", name="week")
VIEWS = pd.Series(
    [12.0, 19, 15, 33, 30, 41, 60, 52, 49, 40, 44, 38],
    pd.MultiIndex.from_product([["DE", "FR"], WEEKS], names=["country", "week"]),
)

PICTURES = {
    "series": lambda ax: plotting.plot_series(
        dpi.count_confint(VIEWS, mechanism=dpi.Geometric(scale=4.0)), ax=ax
    ),
    "certificates": lambda ax: plotting.plot_certificates(CERTIFICATES, ax=ax),
    "forest": lambda ax: plotting.plot_forest(fit(), alpha=0.1, ax=ax),
    "forest_centred": lambda ax: plotting.plot_forest(fit(), centred=True, ax=ax),
    "null_larger": lambda ax: plotting.plot_null(
        AsymptoticNull.chi2(4), 7.0, alternative="larger", alpha=0.05, ax=ax
    ),
    "null_two_sided": lambda ax: plotting.plot_null(AsymptoticNull.normal(2.0), -1.5, ax=ax),
    "coverage": lambda ax: plotting.plot_coverage(COVERAGE, nominal=0.95, reps=400, ax=ax),
    "level_widths": lambda ax: plotting.plot_level_widths(hierarchy(), ax=ax),
    "trade_off": lambda ax: plotting.plot_trade_off(GUARANTEES, ax=ax),
    "delta": lambda ax: plotting.plot_delta([PureDP(1.0), GDP(0.3), ZCDP(0.02)], ax=ax),
    "pbdp": lambda ax: plotting.plot_pbdp([PureDP(1.0), GDP(0.3), ZCDP(0.02)], ax=ax),
    "ledger": lambda ax: plotting.plot_ledger(ledger(), ax=ax),
    "allocation": lambda ax: plotting.plot_allocation(allocation(), ax=ax),
    "size_study": lambda ax: study().plot(ax=ax),
    "null_distribution": lambda ax: AsymptoticNull.normal().plot(ax=ax, statistic=1.0),
    "audit": lambda ax: plotting.plot_audit(
        dpi.curation.audit_differences(
            [[1, 1, 1], [1, 1, 0], [0, 1, 1]], mechanism=dpi.Laplace(scale=2.0)
        ),
        ax=ax,
    ),
    "ranking": lambda ax: plotting.plot_ranking(
        dpi.intervals.ranking([40.5, 12.0, 44.0, 38.0], mechanism=dpi.Laplace(scale=1.0)), ax=ax
    ),
    "adjusted": lambda ax: plotting.plot_adjusted(
        dpi.adjust_pvalues([0.2, 0.001, 0.03, 0.012]), ax=ax
    ),
    "spending": lambda ax: plotting.plot_spending(
        dpi.curation.compare_spending(PureDP(1.0), [0.0, 3.0, 10.0]), ax=ax
    ),
    "trace": lambda ax: plotting.plot_trace(chains(), ax=ax),
    "ranks": lambda ax: plotting.plot_ranks(chains(), bins=6, ax=ax),
    "power": lambda ax: plotting.plot_curve(
        dpi.plan.curve(
            dpi.linear_ztest,
            weights=[1],
            mechanism=dpi.Laplace(scale=1.0),
            shift=np.linspace(0, 8, 9),
            alpha=[0.01, 0.05],
        ),
        x="shift",
        ax=ax,
    ),
}
