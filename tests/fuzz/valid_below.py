"""A good call of every function that is public below the top level, by module."""

import atexit
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from scipy.stats import norm
from valid_calls import NOISE, PURE, SHARES, THREE, VALID

import dpinfer
from dpinfer.calibration import Certificate, Certificates
from dpinfer.hypothesis_tests import Multinomial
from dpinfer.releases.census import PERSONS, PL94_PERSONS_ALLOCATION, spine_codes

ROOT = Path(mkdtemp(prefix="dpinfer-fuzz-"))
"""Files to read, which are gone at the end."""

atexit.register(shutil.rmtree, ROOT, ignore_errors=True)

RELEASED = dpinfer.Release(THREE, mechanism=NOISE)
FEW = {"alpha": 0.1, "reps": 20, "margin": 0.1, "error": 0.001, "rng": 1, "n_jobs": 1}
FEW |= {"progress": False}
AUDIT = dpinfer.curation.audit_differences(
    [[1, 1, 1], [1, 1, 0]], mechanism=dpinfer.Laplace(scale=2)
)
JOINT = dpinfer.table_posterior([3, 9], mechanism=NOISE, draws=20, warmup=5, rng=1)
PART = {"states": "001", "max_bytes": 10**6}


def files():
    """Write a state of measurements, and a file of least-squares estimates."""
    folder = ROOT / "State.parquet" / "DPQuery" / "State=001"
    folder.mkdir(parents=True)
    rows = {"geocode": ["001"], "query_name": ["total_dpq"], "query_shape": [[1, 1, 1, 1]]}
    parquet.write_table(pa.table(rows | {"value": [[5]], "variance": [2.0]}), folder / "0.parquet")
    estimates = ROOT / "estimates.txt"
    estimates.write_text("geocode|query|estimate|std_dev|query_description\n1|P1|5.5|2|x\n")
    return estimates


def certificates():
    """Return a certificate."""
    facts = {"error_rate": np.array([0.049]), "reps": np.array([1000])}
    return Certificates(
        [Certificate(procedure="interval", kind="coverage", alpha=0.05, labels=("a",), **facts)]
    )


def interval(values):
    """Return normal intervals."""
    return dpinfer.count_confint(values, mechanism=NOISE, alpha=0.1, method="asymptotic")


def pvalues(values):
    """Return p-values of Wald tests of counts, of the shape of the counts."""
    return 2 * norm.sf(np.abs(values - 20.0) / np.sqrt(20.0 + NOISE.variance))


def people(start, stop):
    """Return tables of one person in each block."""
    tables = np.zeros((stop - start, 2016), dtype=int)
    tables[:, 0] = 1
    return tables


ESTIMATES = files()
BLOCKS = ["440070001011000", "440070001011001"]
TRADE_OFF = {"protections": PURE, "sensitivity": 1.0, "ax": None}
FRAME = pd.DataFrame({"n": [10.5, 20.1], "sd": [2.0, 4.0]})
SIMULATED = {"truth": THREE, "mechanism": NOISE, "beside": None, "one_by_one": False}
SIMULATED |= {"name": "one", "beside_name": None} | FEW


def places():
    """Return three places, of GeoPandas where it is installed."""
    if find_spec("geopandas") is None:
        return None
    from geopandas import GeoDataFrame
    from shapely.geometry import box

    return GeoDataFrame(geometry=[box(x, 0, x + 1, 1) for x in range(3)])


MAPPED = {"on": None, "shown": "width", "unclear": 0.5, "alpha": 0.1, "method": "asymptotic"}
MAPPED |= {"unit": "people", "ax": None}

CALLS_BELOW = {
    "dpinfer.calibration": {
        "Certificates": {"certificates": certificates().certificates},
        "certify": {"release": RELEASED, "truth": THREE, "procedures": None} | FEW,
        "certify_interval": SIMULATED
        | {"interval": interval, "target": None, "threshold": None, "clamp": None}
        | {"together": False},
        "certify_model": {"model": Multinomial(10, SHARES), "mechanism": NOISE, "tests": None}
        | FEW,
        "certify_test": SIMULATED | {"test": pvalues},
        "check_certificates_path": {"path": "certificates.csv"},
        "replicates_to_decide": {"alpha": 0.05, "margin": 0.1, "error": 0.001},
        "write_certificates": {"found": certificates(), "path": "certificates.csv"},
    },
    "dpinfer.plotting": {
        "plot_adjusted": {"tests": dpinfer.adjust_pvalues([0.2, 0.001]), "most": 40, "ax": None},
        "plot_ranking": {"ranking": dpinfer.intervals.ranking([3, 9], mechanism=NOISE), "most": 40}
        | {"ax": None},
        "plot_trace": {"posterior": JOINT, "row": 1, "ax": None},
        "plot_ranks": {"posterior": JOINT, "row": 1, "bins": 10, "ax": None},
        "plot_spending": {"spending": dpinfer.curation.best_split(PURE), "most": 40, "ax": None},
        "plot_allocation": {
            "allocation": dpinfer.privacy.BudgetAllocation(**VALID["BudgetAllocation"]),
            "ax": None,
        },
        "plot_audit": {"audit": AUDIT, "x": None, "x_label": "noise", "most": 40, "ax": None},
        "plot_certificates": {"certificates": certificates(), "most": 60, "ax": None},
        "plot_curve": {
            "frame": dpinfer.plan.curve(
                dpinfer.linear_ztest, weights=[1], shift=[0, 3, 9], mechanism=NOISE
            ),
            "x": "shift",
            "ax": None,
        },
        "plot_coverage": {
            "coverage": {"a": [0.94, 0.95]},
            "nominal": 0.95,
            "reps": 400,
            "x": [1, 2],
        }
        | {"x_label": "size", "ax": None},
        "plot_delta": TRADE_OFF | {"epsilon": [0.0, 1.0]},
        "plot_forest": {"results": dpinfer.combine(RELEASED), "alpha": 0.1, "method": "asymptotic"}
        | {"centred": False, "most": 40, "unit": "people", "ax": None},
        "plot_ledger": {"ledger": dpinfer.BudgetLedger(PURE), "most": 40, "ax": None},
        "plot_level_widths": {"std_errors": {"a": [1.0, 2.0]}, "levels": ["a", "b"], "alpha": 0.1}
        | {"unit": "people", "ax": None},
        "plot_lorenz": {
            "band": dpinfer.functions.lorenz_bands(THREE, mechanism=NOISE, rng=1),
            "ax": None,
        },
        "plot_map": {"geometries": places(), "results": dpinfer.combine(RELEASED)} | MAPPED,
        "plot_series": {"results": {"a": interval(THREE)}, "over": None, "alpha": None}
        | {"method": None, "most": 3, "unit": "people", "ax": None},
        "plot_survival": {"curve": dpinfer.functions.survival_confint(**VALID["survival_confint"])}
        | {"most": 3, "ax": None},
        "plot_null": {"test": dpinfer.poisson_ztest(30, 1.0, 18.0, mechanism=NOISE, reps=20, rng=1)}
        | {"statistic": None, "alternative": None, "alpha": 0.1, "bins": 20, "ax": None},
        "plot_pbdp": TRADE_OFF | {"epsilon": [0.0, 1.0], "group": 1},
        "plot_trade_off": TRADE_OFF | {"group": 1},
    },
    "dpinfer.releases.census": {
        "attributes": {"query": "total"},
        "build_scenario": {"affected": None, "within": ("Block",), "about": (), "secret": "a"}
        | {"allocations": (PERSONS,)},
        "block_geoid": {"codes": ["04410007000101014400700010111000"]},
        "census_codes": {"root": ROOT, "level": "State"} | PART,
        "census_subtrees": {"root": ROOT},
        "read_census_least_squares": {"path": ESTIMATES, "max_bytes": 10**6},
        "read_census_measurements": {"root": ROOT, "product": "pl94", "levels": "State"}
        | {"queries": "total", "prefix": "0", "state_totals": {"01": 7}, "not_exhausted": ()}
        | {"complete": True}
        | PART,
        "read_census_rows": {"root": ROOT, "product": "pl94", "levels": "State"}
        | {"queries": "total", "prefix": "0"}
        | PART,
        "spine_codes": {"blocks": BLOCKS, "inside": False},
        "write_census_measurements": {"root": "written", "truth": (spine_codes(BLOCKS), people)}
        | {"allocation": PL94_PERSONS_ALLOCATION}
        | {"rng": 1, "move_budget": False},
    },
    "dpinfer.releases.adapters": {
        "from_dp_event": {"event": None, "sensitivity": 1.0},
        "from_opendp": {"measurement": {"constructor": "make_laplace", "scale": 2.0, "T": "int"}},
        "from_pipeline_dp": {
            "params": {"noise_kind": "laplace", "max_partitions_contributed": 2}
            | {"max_contributions_per_partition": 3},
            "metric": "count",
            "budget": 0.5,
        },
        "from_pydp": {
            "algorithm": {"algorithm": "BoundedSum", "epsilon": 0.5, "l0_sensitivity": 1}
            | {"linf_sensitivity": 1},
            "bounds": (0, 1),
            "whole": False,
        },
        "from_scale_column": {"frame": FRAME, "mechanism": "gaussian", "value": "n"}
        | {"scale": "sd", "given": "std"},
        "from_smartnoise": {"reader": None, "query": "SELECT", "result": FRAME, "value": "n"}
        | {"attributes": None},
        "from_tumult": {"noise_info": {"noise_mechanism": "LAPLACE", "noise_parameter": 2.0}},
        "smartnoise_laws": {"reader": None, "query": "SELECT"},
    },
    "dpinfer.datasets": {
        "anes96_path": {},
        "load_anes96": {},
        "load_example_4_1": {},
        "synthetic_population": {"states": 1, "counties": 1, "tracts": 1, "block_groups": 1}
        | {"blocks": 2, "seed": 0},
    },
}
"""Arguments by module and name. Adapters without an object of the other library are refused."""

if find_spec("matplotlib") is None:
    CALLS_BELOW.pop("dpinfer.plotting")

MADE_BELOW = {
    "dpinfer.calibration.SizeStudy",
    "dpinfer.calibration.size_study",  # among the others
    "dpinfer.calibration.Certificate",
    "dpinfer.calibration.LibraryCertificates",
    "dpinfer.calibration.certify_library",  # which simulates for seconds whatever it is given
    "dpinfer.datasets.EmbeddedRelease",
    "dpinfer.datasets.SyntheticPopulation",
    "dpinfer.releases.census.AffectedQuery",
    "dpinfer.releases.census.CensusConstraint",
    "dpinfer.releases.census.CensusMeasurements",
    "dpinfer.releases.census.CensusRow",
    "dpinfer.releases.census.KnownZeros",
    "dpinfer.releases.census.QueryMeasurements",
    "dpinfer.releases.census.Scenario",
}
"""Made by the library, but for the one function."""

BELOW = {
    f"{module}.{name}": (getattr(import_module(module), name), arguments)
    for module, calls in CALLS_BELOW.items()
    for name, arguments in calls.items()
}
"""A good call of each, with what is called."""
