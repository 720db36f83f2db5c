"""Noise laws against the numbers that tests/reference/noise_laws.py computes in mpmath."""

import json
from pathlib import Path

import numpy as np
import pytest

import dpinfer.mechanisms as mechanisms

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "reference" / "noise_laws.json").read_text(encoding="utf-8")
)
RTOL = 1e-12


def build(name, parameters):
    scale = parameters["scale"]
    if name in ("Gaussian", "DiscreteGaussian"):
        return getattr(mechanisms, name)(sigma=scale)
    return getattr(mechanisms, name)(**parameters)


CASES = [
    pytest.param(build(name, record["parameters"]), record, id=f"{name}-{record['parameters']}")
    for name, records in REFERENCE["laws"].items()
    for record in records
]


@pytest.mark.parametrize(("law", "record"), CASES)
def test_tails(law, record):
    x, sf, logsf = (np.array(record[key]) for key in ("x", "sf", "logsf"))
    kept = sf >= 1e-300
    np.testing.assert_allclose(law.sf(x[kept]), sf[kept], rtol=RTOL)
    np.testing.assert_allclose(law.logsf(x), logsf, rtol=RTOL)
    mirrored = -x[kept] - (1.0 if law.is_integer else 0.0)
    np.testing.assert_allclose(law.cdf(mirrored), sf[kept], rtol=RTOL)
    np.testing.assert_allclose(law.logcdf(-x - (1.0 if law.is_integer else 0.0)), logsf, rtol=RTOL)


@pytest.mark.parametrize(
    ("law", "record"), [case for case in CASES if case.values[1]["variance"] is not None]
)
def test_variance(law, record):
    np.testing.assert_allclose(law.variance, record["variance"], rtol=RTOL, atol=0)


@pytest.mark.parametrize(("law", "record"), [case for case in CASES if "cf" in case.values[1]])
def test_characteristic_function(law, record):
    # a transform below 1e-300 is a rounding error of nothing
    np.testing.assert_allclose(law.cf(record["t"]), record["cf"], rtol=RTOL, atol=1e-300)


@pytest.mark.parametrize(("law", "record"), [case for case in CASES if "isf" in case.values[1]])
def test_integer_quantiles_are_exact(law, record):
    q, k = (np.array(record["isf"][key]) for key in ("q", "k"))
    np.testing.assert_array_equal(law.isf(q), k)
    # no q of the reference is tied with a tail, so that ppf is the mirror image
    np.testing.assert_array_equal(law.ppf(q), -k)
    upper = q >= 0.5
    np.testing.assert_array_equal(law.ppf(1.0 - q[upper]), k[upper])


@pytest.mark.parametrize("name", ["Geometric", "DiscreteGaussian", "Laplace", "Gaussian", "Tulap"])
def test_an_array_of_parameters_is_as_accurate(name):
    records = [r for r in REFERENCE["laws"][name] if not r["parameters"].get("truncation")]
    field = "sigma" if "Gaussian" in name else "scale"
    law = getattr(mechanisms, name)(**{field: [r["parameters"]["scale"] for r in records]})
    x, sf = np.array([(r["x"][1], r["sf"][1]) for r in records]).T
    np.testing.assert_allclose(law.sf(x), sf, rtol=RTOL, atol=1e-300)
    np.testing.assert_allclose(law.variance, [r["variance"] for r in records], rtol=RTOL)


@pytest.mark.parametrize(
    "law", [case.values[0] for case in CASES if not case.values[0].is_integer], ids=str
)
def test_continuous_quantiles_invert_the_tail(law):
    q = np.array([1e-300, 1e-100, 1e-12, 0.01, 0.3, 0.5, 0.7, 0.99])
    x = law.isf(q)
    # the quantile as a float lies between neighbours whose tails enclose q
    assert (law.sf(x + 4 * np.spacing(x)) <= q * (1 + RTOL)).all()
    assert (law.sf(x - 4 * np.spacing(x)) >= q * (1 - RTOL)).all()
    np.testing.assert_array_equal(law.ppf(q), -x)
