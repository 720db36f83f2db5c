"""Tables of polars and pyarrow give the estimates that those of pandas give."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import NoisyMarginal, StructuralZeros

NOISE = dpi.Laplace(scale=2.0)
WORKLOAD = dpi.Workload(
    [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]],
    labels=["first", "second", "third", "all"],
    columns=["x", "y", "z"],
)
VALUES = [3.0, 5.0, 7.0, 11.0]
PARENT = pd.Series({"state": None, "north": "state", "south": "state"})


def same_summaries(found, wanted):
    pd.testing.assert_frame_equal(
        found.summary_frame(), wanted.summary_frame(), check_index_type=False, check_names=False
    )


def combined(target):
    return dpi.combine(VALUES, workload=WORKLOAD, mechanism=NOISE, target=target)


class TestTargets:
    def test_a_row_for_each_target(self, foreign):
        frame = pd.DataFrame({"name": ["p", "q"], "z": [1.0, 0.5], "x": [2.0, -1.0]})
        found = combined(foreign(frame))
        same_summaries(found, combined(frame.set_index("name")))
        np.testing.assert_array_equal(found.targets.matrix, [[2, 0, 1], [-1, 0, 0.5]])

    def test_rows_without_names(self, foreign):
        frame = pd.DataFrame({"z": [1.0, 0.5], "x": [2.0, -1.0]})
        same_summaries(combined(foreign(frame)), combined(frame))

    def test_labels_of_cells_beside_weights_are_one_target(self, foreign):
        frame = pd.DataFrame({"cell": ["z", "x"], "weight": [1.0, -1.0]})
        wanted = combined(frame.set_index("cell")["weight"])
        same_summaries(combined(foreign(frame)), wanted)
        same_summaries(
            combined({"gap": foreign(frame)}), combined({"gap": frame.set_index("cell")["weight"]})
        )

    def test_a_column_of_weights_goes_by_position(self, foreign):
        column = foreign(pd.DataFrame({"weight": [1.0, 0.0, -1.0]}))
        for target in (column, column["weight"]):
            same_summaries(combined(target), combined([1.0, 0.0, -1.0]))

    def test_labels_of_targets(self, foreign):
        frame = foreign(pd.DataFrame({"target": ["all", "y"]}))
        for target in (frame, frame["target"], np.array(["all", "y"])):
            same_summaries(combined(target), combined(pd.Index(["all", "y"])))

    def test_labels_with_several_parts(self, foreign):
        domain = dpi.Domain({"sex": ["F", "M"], "adult": ["no", "yes"]})
        workload = dpi.Workload.from_marginals(domain, [("sex",), ("sex", "adult")])
        labels = pd.MultiIndex.from_tuples([("F", "*"), ("M", "yes")], names=["sex", "adult"])
        options = {"workload": workload, "mechanism": NOISE}
        values = [9.0, 8.0, 4.0, 6.0, 3.0, 5.0]
        found = dpi.combine(values, target=foreign(labels.to_frame()), **options)
        same_summaries(found, dpi.combine(values, target=labels, **options))
        weights = pd.Series(
            [1.0, -1.0], index=pd.MultiIndex.from_tuples([("M", "no"), ("F", "no")])
        )
        frame = pd.DataFrame({"sex": ["M", "F"], "adult": ["no", "no"], "weight": [1.0, -1.0]})
        found = dpi.combine(values, target=foreign(frame), **options)
        same_summaries(found, dpi.combine(values, target=weights, **options))

    def test_unknown_cells_are_named(self, foreign):
        frame = pd.DataFrame({"name": ["p"], "x": [1.0], "w": [1.0]})
        with pytest.raises(InvalidParameterError, match="cells of the workload, got 'w'"):
            combined(foreign(frame))
        with pytest.raises(InvalidParameterError, match="'w' must be the label"):
            combined(foreign(pd.DataFrame({"target": ["w"]})))

    def test_a_query_that_was_not_run_is_refused(self):
        pl = pytest.importorskip("polars", reason="polars is not installed")
        with pytest.raises(InvalidParameterError, match=r"target must be a table .* LazyFrame"):
            combined(pl.LazyFrame({"x": [1.0]}))


def test_published_values(foreign):
    frame = pd.DataFrame({"count": ["p", "q"], "value": [3.0, 5.0]})
    found = dpi.combine(foreign(frame), mechanism=NOISE)
    same_summaries(found, dpi.combine(frame.set_index("count")["value"], mechanism=NOISE))


def test_randomized_answers(foreign):
    frame = pd.DataFrame({"answer": ["no", "yes"], "reports": [45, 55]})
    channel = dpi.RandomizedResponse(p=0.75)
    for estimate in (dpi.estimation.response_counts, dpi.estimation.response_proportions):
        found = estimate(foreign(frame), mechanism=channel)
        wanted = estimate(frame.set_index("answer")["reports"], mechanism=channel)
        same_summaries(found, wanted)
        assert found.params.index.to_list() == ["no", "yes"]


class TestHierarchies:
    FRAME = pd.DataFrame(
        {"unit": ["south", "state", "north", "south"], "value": [39.0, 106.0, 61.0, 41.0]}
    )

    def fit(self):
        series = self.FRAME.set_index("unit")["value"]
        return dpi.combine_hierarchy(series, PARENT, mechanism=NOISE)

    def test_values(self, foreign):
        found = dpi.combine_hierarchy(foreign(self.FRAME), PARENT, mechanism=NOISE)
        same_summaries(found, self.fit())

    def test_columns_of_values_and_units(self, foreign):
        frame = foreign(self.FRAME)
        found = dpi.combine_hierarchy(frame["value"], PARENT, mechanism=NOISE, units=frame["unit"])
        same_summaries(found, self.fit())

    def test_some_units(self, foreign):
        fit, units = self.fit(), foreign(self.FRAME)["unit"][1:3]
        pd.testing.assert_frame_equal(fit.cov_params(units), fit.cov_params(["state", "north"]))
        np.testing.assert_array_equal(fit.weights(units), fit.weights(["state", "north"]))

    def test_functions(self, foreign):
        frame = pd.DataFrame({"name": ["gap", "sum"], "north": [1.0, 1.0], "south": [-1.0, 1.0]})
        fit = self.fit()
        wanted = fit.contrast(frame.set_index("name"))
        pd.testing.assert_frame_equal(
            fit.contrast(foreign(frame)).summary_frame(), wanted.summary_frame()
        )
        long = pd.DataFrame({"unit": ["south", "north"], "weight": [-1.0, 1.0]})
        found = fit.contrast(foreign(long))
        assert (float(found.params), float(found.bse)) == (
            wanted.params["gap"],
            wanted.bse["gap"],
        )

    def test_functions_of_unknown_units_are_refused(self, foreign):
        long = pd.DataFrame({"unit": ["west", "north"], "weight": [-1.0, 1.0]})
        with pytest.raises(InvalidParameterError, match="weights must hold labels"):
            self.fit().contrast(foreign(long))


class TestTables:
    DOMAIN = dpi.Domain({"sex": ["F", "M"], "age": [17, 18, 19]})
    UNITS = ("south", "state", "north")

    @property
    def by_sex(self):
        """Values with the columns in another order than the levels."""
        return pd.DataFrame(
            {"M": [20.0, 52.0, 30.0], "F": [21.0, 50.0, 28.0]},
            index=pd.Index(list(self.UNITS), name="unit"),
        )

    @property
    def by_cell(self):
        """Values labelled by unit and level, in no order."""
        index = pd.MultiIndex.from_product(
            [self.UNITS, self.DOMAIN.levels["age"], self.DOMAIN.levels["sex"]],
            names=["unit", "age", "sex"],
        )
        values = np.random.default_rng(4).integers(0, 30, len(index)).astype(float)
        return pd.Series(values, index=index, name="value").sample(frac=1.0, random_state=1)

    def fit(self, *marginals):
        return dpi.combine_marginals(marginals, PARENT, domain=self.DOMAIN)

    def same(self, *pairs):
        """Estimate from values and their twins in another library; return both results."""
        wanted = self.fit(*(NoisyMarginal(names, own, NOISE) for names, own, _ in pairs))
        found = self.fit(*(NoisyMarginal(names, other, NOISE) for names, _, other in pairs))
        for names in (("sex", "age"), "sex", ()):
            np.testing.assert_array_equal(found.marginal(names), wanted.marginal(names))
            np.testing.assert_array_equal(found.marginal_bse(names), wanted.marginal_bse(names))
        return found

    def test_a_column_for_each_cell(self, foreign):
        cells = (("age", "sex"), self.by_cell, foreign(self.by_cell.reset_index()))
        self.same(cells, ("sex", self.by_sex, foreign(self.by_sex.reset_index())))

    def test_a_column_for_each_cell_of_all_units_in_order(self, foreign):
        cells = (("age", "sex"), self.by_cell, foreign(self.by_cell.reset_index()))
        in_order = self.by_sex.loc[PARENT.index]
        self.same(cells, ("sex", in_order, foreign(in_order)))

    def test_a_row_for_each_cell(self, foreign):
        long = self.by_cell.reset_index()
        # columns of attributes in any order, also before that of the units
        other = foreign(long[["sex", "unit", "age", "value"]])
        self.same((("age", "sex"), self.by_cell, other))

    def test_totals(self, foreign):
        total = pd.Series({"south": 41.0, "state": 102.0, "north": 58.0}, name="value")
        total.index.name = "unit"
        cells = (("age", "sex"), self.by_cell, foreign(self.by_cell.reset_index()))
        self.same(cells, ((), total, foreign(total.reset_index())))
        in_order = total.loc[PARENT.index]
        frame = foreign(in_order.reset_index()[["value"]])
        self.same(cells, ((), in_order, frame))
        self.same(cells, ((), in_order, frame["value"]))

    def test_contrasts(self, foreign):
        fit = self.fit(NoisyMarginal(("age", "sex"), self.by_cell, NOISE))
        weights = pd.Series({("F", 18): 1.0, ("M", 17): -1.0})
        long = pd.DataFrame({"age": [18, 17], "sex": ["F", "M"], "weight": [1.0, -1.0]})
        assert (
            fit.unit_contrast("north", foreign(long)).estimate
            == fit.unit_contrast("north", weights).estimate
        )
        wide = pd.DataFrame({"name": ["gap", "sum"], "M": [1.0, 1.0], "F": [-1.0, 1.0]})
        found = fit.unit_contrast("north", foreign(wide), "sex")
        wanted = fit.unit_contrast("north", wide.set_index("name"), "sex")
        pd.testing.assert_series_equal(found.estimate, wanted.estimate)
        pd.testing.assert_series_equal(found.std_err, wanted.std_err)

    def test_units_of_zeros_and_of_marginals(self, foreign):
        zeros = StructuralZeros({"sex": "F"}, units=foreign(self.by_sex.reset_index())["unit"][:1])
        values = NoisyMarginal(("age", "sex"), self.by_cell, NOISE)
        fit = dpi.combine_marginals(values, PARENT, domain=self.DOMAIN, zeros=[zeros])
        assert fit.marginal("sex").loc["south", "F"] == 0.0
        assert fit.marginal("sex").loc["north", "F"] > 0.0

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (["unit", "value", "age", "sex"], "numbers in the last column"),
            (["unit", "sex", "value"], "must have a column for each of"),
        ],
    )
    def test_other_columns_are_refused(self, foreign, columns, message):
        frame = self.by_cell.reset_index()[columns]
        with pytest.raises(InvalidParameterError, match=message):
            self.fit(NoisyMarginal(("age", "sex"), foreign(frame), NOISE))

    def test_columns_of_one_name_are_refused(self):
        table = pa.table([["state"], [1.0], [2.0]], names=["unit", "F", "F"])
        with pytest.raises(InvalidParameterError, match="each column once, got 'unit', 'F', 'F'"):
            self.fit(NoisyMarginal("sex", table, NOISE))
