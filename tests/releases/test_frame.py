import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import (
    DiscreteGaussian,
    Exact,
    Gaussian,
    Geometric,
    Laplace,
    Rounded,
    Tulap,
)
from dpinfer.queries import Domain
from dpinfer.releases import Release

FRAME = pd.DataFrame(
    {
        "country": ["PL", "FR", "NA", None],
        "year": [2022, 2022, 2022, 2022],
        "views": [506, 968, 630, 2100],
        "law": ["discrete_laplace", "discrete_gaussian", "Discrete Laplace", "exact"],
        "size": [30.0, 18.5, 15.0, np.nan],
        "published from": [450.0, 90, np.nan, np.nan],
    }
)
COLUMNS = {
    "mechanism": {"column": "law"},
    "scale": {"column": "size"},
    "sigma": {"column": "size"},
}


def release_of(frame=FRAME, **changes):
    arguments = {"value": "views", "attributes": ["country", "year"], "mechanism": COLUMNS}
    return Release.from_frame(frame, **(arguments | changes))


def test_laws_and_rules_from_columns():
    release = release_of(threshold={"column": "published from"}, clamp=(0, None), name="views")
    assert release.values.tolist() == [506, 968, 630, 2100]
    laws = [Geometric(scale=30.0), DiscreteGaussian(sigma=18.5), Geometric(scale=15.0), Exact()]
    assert release.variance.tolist() == [law.variance for law in laws]
    assert release.threshold.tolist() == [450, 90, -np.inf, -np.inf]
    assert release.clamp == (0.0, np.inf)
    assert release.name == "views"


def test_empty_cells_sum_over_an_attribute():
    release = release_of()
    assert release.labels.to_list() == [("PL", 2022), ("FR", 2022), ("NA", 2022), ("*", 2022)]
    assert release.workload.matrix.toarray().tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [1, 1, 1],
    ]
    for mark in ("*", np.nan, pd.NA):
        frame = FRAME.assign(country=["PL", "FR", "NA", mark])
        assert release_of(frame).labels.equals(release.labels)


def test_only_finest_cells_are_their_own_unknowns():
    release = release_of(FRAME.iloc[:3])
    assert release.workload.is_identity
    assert release.labels.to_list() == [("PL", 2022), ("FR", 2022), ("NA", 2022)]


def test_one_attribute_and_a_domain():
    domain = Domain({"country": ["FR", "PL", "NA", "DE"]})
    release = release_of(attributes="country", domain=domain)
    assert release.workload.shape == (4, 4)
    assert release.workload.matrix.toarray()[-1].tolist() == [1] * 4
    with pytest.raises(InvalidParameterError, match="country must be one of 'FR', got 'PL'"):
        release_of(attributes="country", domain=Domain({"country": ["FR"]}))


def test_without_attributes_labels_come_from_a_named_index():
    assert release_of(attributes=None).labels is None
    indexed = FRAME.set_index("views", drop=False).rename_axis("row")
    assert release_of(indexed, attributes=None).labels.to_list() == [506, 968, 630, 2100]


def test_laws_with_one_parameter_for_all():
    spec = {"mechanism": "laplace", "scale": 2.0}
    assert release_of(mechanism=spec).mechanism == Laplace(scale=2.0)
    assert release_of(mechanism=Laplace(scale=2.0)).mechanism == Laplace(scale=2.0)
    spec = {"mechanism": "tulap", "scale": 2.0, "truncation": 0.01}
    assert release_of(mechanism=spec).mechanism == Tulap(scale=2.0, truncation=0.01)
    spec = {"mechanism": "laplace", "scale": {"column": "year"}}
    assert release_of(mechanism=spec).mechanism == Laplace(scale=[2022.0] * 4)


@pytest.mark.parametrize(
    ("mechanism", "given", "law"),
    [
        ("laplace", {"epsilon": 0.5, "sensitivity": 3}, Laplace(scale=6.0)),
        (Laplace, {"epsilon": 0.5, "sensitivity": {"l1": 3, "l2": 2}}, Laplace(scale=6.0)),
        ("Discrete Laplace", {"epsilon": 1, "sensitivity": 30}, Geometric(scale=30.0)),
        (Geometric, {"scale": 30}, Geometric(scale=30.0)),
        (
            "discrete_gaussian",
            {"rho": 0.015, "sensitivity": {"l1": 10, "l2": 10**0.5}},
            DiscreteGaussian(sigma=(10 / 0.03) ** 0.5),
        ),
        (Gaussian, {"rho": 0.5, "sensitivity": 7}, Gaussian(sigma=7.0)),
        (Gaussian, {"mu": 0.5, "sensitivity": 7}, Gaussian(sigma=14.0)),
        ("gaussian", {"sigma": 7.0}, Gaussian(sigma=7.0)),
        (
            "laplace",
            {"epsilon": 2, "sensitivity": 3, "rounding": True},
            Rounded(Laplace(scale=1.5)),
        ),
        (
            "laplace",
            {"epsilon": {"column": "size"}, "sensitivity": 30},
            Laplace(scale=[1.0, 30 / 18.5, 2.0]),
        ),
    ],
)
def test_noise_from_a_budget_or_a_parameter(mechanism, given, law):
    release = release_of(FRAME.iloc[:3], mechanism=mechanism, **given)
    assert type(release.mechanism) is type(law)
    assert release.variance == pytest.approx(np.broadcast_to(law.variance, 3), rel=1e-14)
    assert release.sensitivity == given.get("sensitivity")


def test_budgets_in_columns_with_several_laws():
    frame = FRAME.assign(rho=[np.nan, 0.015, np.nan, np.nan], epsilon=[1.0, np.nan, 2.0, np.nan])
    release = release_of(
        frame,
        mechanism={"mechanism": {"column": "law"}},
        epsilon={"column": "epsilon"},
        rho={"column": "rho"},
        sensitivity={"l1": 30.0, "l2": 10**0.5},
    )
    laws = [
        Geometric.from_epsilon(1, sensitivity=30),
        DiscreteGaussian.from_rho(0.015, sensitivity=10**0.5),
        Geometric.from_epsilon(2, sensitivity=30),
        Exact(),
    ]
    assert release.variance.tolist() == [law.variance for law in laws]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.5}, "sensitivity must be given with epsilon, its L1 norm: how far one"),
        ({"epsilon": 0.5, "sensitivity": {"l2": 1}}, "sensitivity must be given with epsilon"),
        ({"epsilon": 0, "sensitivity": 1}, "epsilon of laplace noise must be|epsilon must be > 0"),
        ({"epsilon": 0.5, "sensitivity": -1}, "sensitivity must be > 0, got -1"),
        ({"epsilon": {"column": "size"}, "sensitivity": 1}, "epsilon of laplace.*row 3"),
        ({"epsilon": 1, "scale": 1}, "epsilon must be left out beside scale"),
        ({"rho": 1, "sensitivity": 1}, "rho must be left out: .*scale or epsilon"),
        ({"mechanism": "gaussian", "epsilon": 1, "sensitivity": 1}, "from_epsilon_delta"),
        (
            {"mechanism": "gaussian", "rho": 1, "mu": 1, "sensitivity": 1},
            "left out beside mu",
        ),
        ({"mechanism": "exact", "epsilon": 1, "sensitivity": 1}, "fixed by its name alone"),
        ({"mechanism": Laplace(scale=2.0), "epsilon": 1}, "left out beside a law"),
        (
            {"mechanism": {"mechanism": "laplace", "scale": 2}, "scale": 1},
            "not be given twice",
        ),
        ({"mechanism": Tulap, "epsilon": 1, "sensitivity": 1}, "fixed by its scale"),
        ({"mechanism": object}, "noise law"),
    ],
)
def test_budgets_that_do_not_fix_the_noise_are_explained(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        release_of(**({"mechanism": "laplace"} | given))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": "count"}, "frame must have a column 'count', got 'country', 'year'"),
        ({"value": "country"}, "country must hold real numbers"),
        ({"attributes": ["county"]}, "column 'county'"),
        ({"threshold": {"column": "tau"}}, "column 'tau'"),
        ({"threshold": {"colum": "tau"}}, "threshold must be {'column': name}"),
        ({"clamp": (0, {"column": "top"})}, "column 'top'"),
        ({"clamp": (0, 1, 2)}, "pair"),
        ({"mechanism": {"scale": 1.0}}, "entry 'mechanism'"),
        ({"mechanism": {"mechanism": "laplace"}}, "mechanism laplace must have a scale"),
        ({"mechanism": {"mechanism": "laplace", "scal": 1}}, "got 'scal'"),
        ({"mechanism": {"mechanism": "cauchy"}}, "one of laplace, geometric.*got 'cauchy'"),
        ({"mechanism": {"mechanism": 3}}, "name or {'column': name}"),
        ({"mechanism": {"mechanism": {"column": "year"}}}, "got 2022"),
        ({"mechanism": {"mechanism": {"column": "country"}}}, "name in every row, got none in 3"),
        ({"mechanism": COLUMNS | {"scale": -1.0}}, "scale must be > 0"),
        ({"mechanism": "laplace"}, "mechanism laplace must have a scale or epsilon"),
        (
            {"mechanism": {"mechanism": "laplace", "scale": {"column": "size"}}},
            "scale of laplace noise must be a finite number > 0, got nan in row 3",
        ),
    ],
)
def test_bad_columns_are_named(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        release_of(**changes)


def test_bad_rows_are_named():
    with pytest.raises(IncompatibleReleaseError, match=r"\('PL', 2022\) is published twice"):
        release_of(pd.concat([FRAME, FRAME.iloc[:1]]))
    with pytest.raises(IncompatibleReleaseError, match=r"row 0 .* below the threshold .* 600"):
        release_of(threshold=600)
    with pytest.raises(IncompatibleReleaseError, match=r"whole numbers .* row 1"):
        release_of(FRAME.assign(views=[1.0, 2.5, 3, 4]))
    with pytest.raises(InvalidParameterError, match="views must not contain NaN at position 1"):
        release_of(FRAME.assign(views=[1.0, np.nan, 3, 4]))


def test_a_column_is_named_as_such():
    mechanism = {"mechanism": "laplace", "scale": "size"}
    with pytest.raises(
        InvalidParameterError, match=r"scale must be a number or \{'column': name\}"
    ):
        Release.from_frame(FRAME, value="views", mechanism=mechanism)


def test_numbers_of_a_column_with_gaps():
    """Columns of numbers with missing cells, in the kinds of column that can have them."""
    for column in (
        pd.array([3, None, 5, 7], dtype="Int64"),
        np.array([3.0, np.nan, 5.0, 7.0]),
        pd.Series([3, None, 5, 7], dtype=object),
    ):
        frame = pd.DataFrame({"n": [5.0, 6, 7, 8], "least": column})
        release = Release.from_frame(
            frame, value="n", mechanism=Laplace(scale=1.0), threshold={"column": "least"}
        )
        assert release.threshold.tolist() == [3, -np.inf, 5, 7]


def test_parameters_for_each_row():
    frame = pd.DataFrame({"n": [5.0, 6.0]})
    law = {"mechanism": "laplace", "scale": [1.0, 2.0]}
    release = Release.from_frame(frame, value="n", mechanism=law)
    assert release.mechanism.scale.tolist() == [1, 2]
    with pytest.raises(InvalidParameterError, match=r"have 2 entries, .* got shape \(3,\)"):
        Release.from_frame(frame, value="n", mechanism=law | {"scale": [1.0, 2.0, 3.0]})


def test_names_that_do_not_compare_are_no_columns():
    for name in ([1], {"a": 1}, np.array([1, 2])):
        with pytest.raises(InvalidParameterError, match="frame must have a column"):
            Release.from_frame(FRAME, value=name, mechanism=Laplace(scale=1.0))
