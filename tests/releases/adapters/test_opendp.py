import numpy as np
import pytest

from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.releases import from_opendp


@pytest.mark.parametrize(
    ("constructor", "answer", "law"),
    [
        ("make_laplace", "int", Geometric(scale=2.5)),
        ("make_laplace", int, Geometric(scale=2.5)),
        ("make_laplace", "i64", Geometric(scale=2.5)),
        ("make_geometric", "u32", Geometric(scale=2.5)),
        ("then_laplace", float, Laplace(scale=2.5)),
        ("make_gaussian", "f64", Gaussian(sigma=2.5)),
        ("then_gaussian", "i32", DiscreteGaussian(sigma=2.5)),
    ],
)
def test_from_parameters(constructor, answer, law):
    assert from_opendp({"constructor": constructor, "scale": 2.5, "T": answer}) == law


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"constructor": "make_laplace"}, "without: T, scale"),
        ({"constructor": "make_alp", "scale": 1.0, "T": int}, "constructor must be one of"),
        ({"constructor": "make_laplace", "scale": -1.0, "T": int}, "scale must be > 0"),
        ({"constructor": "make_laplace", "scale": 1.0, "T": "String"}, "integers or floats"),
        (3, "OpenDP measurement or a mapping"),
        (None, "OpenDP measurement or a mapping"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        from_opendp(parameters)


@pytest.fixture(scope="module")
def dp():
    pytest.importorskip("opendp", reason="OpenDP is not installed")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def spaces(dp):
    return {
        "int": (dp.atom_domain(T=int), dp.absolute_distance(T=int)),
        "float": (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)),
        "ints": (dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)),
    }


def test_from_measurements(dp):
    at = spaces(dp)
    assert from_opendp(dp.m.make_laplace(*at["int"], scale=2.5)) == Geometric(scale=2.5)
    assert from_opendp(dp.m.make_laplace(*at["ints"], scale=2.5)) == Geometric(scale=2.5)
    assert from_opendp(dp.m.make_laplace(*at["float"], scale=2.5)) == Laplace(scale=2.5)
    assert from_opendp(dp.m.make_gaussian(*at["int"], scale=2.5)) == DiscreteGaussian(sigma=2.5)
    assert from_opendp(dp.m.make_gaussian(*at["float"], scale=2.5)) == Gaussian(sigma=2.5)
    assert from_opendp(dp.m.make_geometric(*at["int"], scale=2.5)) == Geometric(scale=2.5)
    noise = dp.m.make_noise(*at["int"], dp.max_divergence(), scale=2.5)
    assert from_opendp(noise) == Geometric(scale=2.5)
    noise = dp.m.make_noise(*at["float"], dp.zero_concentrated_divergence(), scale=2.5)
    assert from_opendp(noise) == Gaussian(sigma=2.5)
    records = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    chain = records >> dp.t.then_count() >> dp.m.then_laplace(scale=2.5)
    assert from_opendp(chain) == Geometric(scale=2.5)


def test_what_is_not_additive_noise_is_refused(dp):
    at = spaces(dp)
    laplace = dp.m.make_laplace(*at["int"], scale=2.0)
    counts = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))
    distance = dp.l01inf_distance(dp.absolute_distance(T=int))
    for measurement, message in (
        (dp.m.make_geometric(*at["int"], scale=2.0, bounds=(0, 10)), "must not clamp"),
        (dp.m.make_laplace(*at["float"], scale=2.0, k=3), "must not round"),
        (dp.m.make_laplace_threshold(counts, distance, scale=2.0, threshold=9), "threshold"),
        (dp.c.make_composition([laplace, laplace]), "make_composition"),
        (dp.m.make_randomized_response_bool(prob=0.75), "make_randomized_response_bool"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            from_opendp(measurement)


def test_opendp_draws_from_the_law(dp):
    # OpenDP's own draws of discrete Laplace noise around 0, against the law's probabilities
    measurement = dp.m.make_laplace(*spaces(dp)["ints"], scale=2.0)
    draws = np.array(measurement([0] * 4000))
    law = from_opendp(measurement)
    for k in range(-3, 4):
        share, p = np.mean(draws == k), law.pmf(k)
        # 7 standard errors, 7 cells: fails by accident with probability < 1e-9
        assert abs(share - p) < 7 * np.sqrt(p * (1 - p) / len(draws))


class Measurement:
    """Stands in for a measurement of OpenDP 0.14 or later, which remembers how it was built."""

    def __init__(self, function, **arguments):
        self.__opendp_dict__ = {"__function__": function, "__kwargs__": arguments}


Measurement.__module__ = "opendp.mod"
INTEGERS, FLOATS = "VectorDomain(AtomDomain(T=i32))", "AtomDomain(nan=false, T=f64)"


@pytest.mark.parametrize(
    ("constructor", "arguments", "law"),
    [
        ("make_laplace", {"input_domain": INTEGERS}, Geometric(scale=2.5)),
        ("make_laplace", {"input_domain": FLOATS, "k": None}, Laplace(scale=2.5)),
        ("make_geometric", {"input_domain": INTEGERS, "bounds": None}, Geometric(scale=2.5)),
        ("make_gaussian", {"input_domain": FLOATS}, Gaussian(sigma=2.5)),
        (
            "make_noise",
            {"input_domain": INTEGERS, "output_measure": "ZeroConcentratedDivergence"},
            DiscreteGaussian(sigma=2.5),
        ),
        (
            "make_noise",
            {"input_domain": FLOATS, "output_measure": "MaxDivergence"},
            Laplace(scale=2.5),
        ),
    ],
)
def test_from_objects_like_measurements(constructor, arguments, law):
    measurement = Measurement(constructor, scale=2.5, **arguments)
    assert from_opendp(measurement) == law
    chain = Measurement("make_chain_mt", measurement1=measurement, transformation0=None)
    assert from_opendp(chain) == law


@pytest.mark.parametrize(
    ("constructor", "arguments", "message"),
    [
        ("make_geometric", {"bounds": (0, 10)}, "must not clamp"),
        ("make_laplace", {"k": 3}, "must not round"),
        ("make_laplace_threshold", {"threshold": 9}, "must not threshold"),
        ("make_noise", {"output_measure": "RenyiDivergence"}, "one built by make_noise"),
        ("make_composition", {}, "one built by make_composition"),
        ("make_laplace", {"input_domain": "AtomDomain(T=String)"}, "integers or floats"),
    ],
)
def test_objects_like_measurements_without_a_law(constructor, arguments, message):
    measurement = Measurement(constructor, **{"scale": 2.5, "input_domain": INTEGERS} | arguments)
    with pytest.raises(InvalidParameterError, match=message):
        from_opendp(measurement)


@pytest.mark.parametrize(
    ("distribution", "law"),
    [
        ("Integer Laplace", Geometric(scale=2.5)),
        ("Float Laplace", Laplace(scale=2.5)),
        ("Integer Gaussian", DiscreteGaussian(sigma=2.5)),
        ("Float Gaussian", Gaussian(sigma=2.5)),
    ],
)
def test_rows_of_a_summary(distribution, law):
    row = {"column": "len", "aggregate": "Sum", "distribution": distribution, "scale": 2.5}
    assert from_opendp(row) == law
    assert from_opendp(row | {"threshold": None}) == law
    with pytest.raises(InvalidParameterError, match="must not threshold its output"):
        from_opendp(row | {"threshold": 31})


@pytest.mark.parametrize("distribution", ["Laplace", None, "Integer Tulap"])
def test_unknown_distributions_of_a_summary(distribution):
    with pytest.raises(InvalidParameterError, match="distribution must be one of"):
        from_opendp({"distribution": distribution, "scale": 1.0})
    with pytest.raises(InvalidParameterError, match="without: scale"):
        from_opendp({"distribution": "Integer Laplace"})


@pytest.mark.filterwarnings("ignore")  # OpenDP announces other defaults
def test_the_summary_of_a_query_on_frames():
    prelude = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    prelude.enable_features("contrib")
    try:
        context = prelude.Context.compositor(
            data=pl.LazyFrame({"sex": ["F", "M"] * 50}),
            privacy_unit=prelude.unit_of(contributions=1),
            privacy_loss=prelude.loss_of(epsilon=1.0),
            split_evenly_over=2,
            margins=[prelude.polars.Margin(by=["sex"], invariant="keys", max_length=100)],
        )
        query = context.query().group_by("sex").agg(prelude.len())
        [row] = query.summarize().to_dicts()
    except Exception as error:
        if "polars version" not in str(error):
            raise
        pytest.skip(f"OpenDP needs another version of polars: {str(error)[:60]!r}")
    assert from_opendp(row) == Geometric.from_epsilon(0.5)
