"""Every result in every form: text, HTML, Markdown and LaTeX with the same numbers; its rows."""

import pkgutil
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from public_names import public
from valid_below import CALLS_BELOW
from valid_calls import NOISE, SMOOTH, THREE, VALID
from valid_methods import FIT, LAWS, MARGINALS, POSTERIOR, TREE

import dpinfer as dpi
from dpinfer.errors import InvalidParameterError
from dpinfer.results import HypothesisResult, NullDistribution
from dpinfer.results.presentation import Facts, Listed, Plotted, Presented, Rows

AGES = pd.MultiIndex.from_tuples([("F", "20-29"), ("F", "30_39"), ("M", "20|29")], names=["a", "b"])
LABELLED = pd.Series([20.5, -3.25, 130.0], index=AGES)
COUNTS = pd.Series([20, -3, 130], index=AGES)


def made(name, **more):
    """Return the result of a public function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpi.DPInferWarning)
        return public(name)(**VALID[name] | more)


def below(module, name):
    """Return the result of a function of a package."""
    return getattr(import_module(module), name)(**CALLS_BELOW[module][name])


def three_tests(nobs=1000):
    """Return three tests, one of which has a p-value near zero."""
    return dpi.proportions_ztest(LABELLED * [1, 1, 4], nobs, 0.03, mechanism=SMOOTH)


def study():
    """Return a study of two tests."""
    rate = np.array([[0.012, 0.049], [0.01, 0.05]])
    return dpi.calibration.SizeStudy(
        tests=("a_1", "b"), alpha=np.array([0.01, 0.05]), rate=rate, reps=np.array([1000, 0])
    )


def certificates(count=2):
    """Return certificates of so many procedures."""
    facts = {"error_rate": np.array([0.049, 0.06]), "reps": np.array([1000, 10])}
    one = dpi.calibration.Certificate(
        procedure="t & z", kind="size", alpha=0.05, labels=("x", "y"), **facts
    )
    return one if count == 1 else dpi.calibration.Certificates([one] * count)


def library():
    """Return certificates of the library, with controls."""
    return dpi.calibration.LibraryCertificates(certificates(), certificates(), certificates())


def ledger():
    """Return a ledger with two releases."""
    book = dpi.BudgetLedger(dpi.PureDP(1.0))
    book.record("total", mechanism=dpi.Geometric(scale=2.0))
    book.record("by_age", dpi.PureDP(0.25))
    return book


def regression():
    """Return a regression with named columns."""
    exog = pd.DataFrame({"const": 1.0, "x_1": [0.1, 0.8, 2.2, 3.1, 3.8]})
    return dpi.noisy_ols([1.0, 2.9, 5.2, 7.1, 8.8], exog, noise={"x_1": 0.2})


RESULTS = {
    "Intervals": lambda: dpi.count_confint(LABELLED, mechanism=SMOOTH),
    "Intervals, long": lambda: dpi.count_confint(np.arange(100.0), mechanism=NOISE),
    "Intervals, one": lambda: dpi.count_confint(3, mechanism=NOISE),
    "Intervals, empty": lambda: dpi.count_confint([0.4, -9.0], mechanism=SMOOTH).restrict(lower=0),
    "CredibleIntervals": lambda: POSTERIOR.interval(0.1),
    "ConfidenceSets": lambda: dpi.ratio_confint(
        COUNTS, [1, 70, 80], mechanism=NOISE, method="asymptotic"
    ),
    "BoundedIntervals": lambda: dpi.intervals.bounded_confint(
        LABELLED, np.eye(len(LABELLED)), mechanism=SMOOTH
    ),
    "PrivateMeanInterval": lambda: made("normal_mean_confint"),
    "HypothesisResult": three_tests,
    "HypothesisResult, own laws": lambda: three_tests([1000, 900, 800]),
    "HypothesisResult, simulated": lambda: dpi.counts_2indep(
        COUNTS, [1, 2, 900], mechanism=NOISE, method="monte-carlo", reps=99, rng=1
    ),
    "ContingencyResult": lambda: made("chi2_contingency"),
    "CompositeFitResult": lambda: made("chisquare_fit"),
    "AdjustedTests": lambda: dpi.adjust_pvalues(three_tests()),
    "ExactNull": lambda: three_tests()[0].null_distribution,
    "_SomeLaws": lambda: three_tests([1000, 900, 800])[1:].null_distribution,
    "AsymptoticNull": dpi.results.AsymptoticNull.normal,
    "MonteCarloNull": lambda: (
        dpi.poisson_ztest(
            30, 1.0, 18.0, mechanism=NOISE, method="monte-carlo", reps=99, rng=1
        ).null_distribution
    ),
    "CombinedEstimate": lambda: FIT,
    "CombinedEstimate, labelled": lambda: dpi.combine(LABELLED, mechanism=SMOOTH),
    "ClippedEstimate": lambda: FIT.clip(lower=0),
    "Selection": lambda: dpi.combine(LABELLED, mechanism=SMOOTH)["F"],
    "HierarchyEstimate": lambda: TREE,
    "LinearEstimate": lambda: TREE.contrast([[1, 0, -1], [0, 1, 1]]),
    "RatioEstimate": lambda: (  # of normal noise: others take a second an interval
        dpi.combine_hierarchy([106.5, 61, 39], [-1, 0, 0], mechanism=dpi.Gaussian(sigma=2.0))
    ).ratio([1, 2], 0),
    "MarginalsEstimate": lambda: MARGINALS,
    "TableContrast": lambda: MARGINALS.unit_contrast(0, [[1, -1], [1, 1]]),
    "ResponseEstimate": lambda: made("response_counts"),
    "CountPosterior": lambda: POSTERIOR,
    "FunctionPosterior": lambda: dpi.table_posterior(LABELLED, mechanism=SMOOTH, rng=1).linear(
        pd.DataFrame(np.eye(len(LABELLED)), LABELLED.index, LABELLED.index)
    ),
    "PooledEstimate": lambda: dpi.pool([LABELLED, LABELLED + 1.0], uncertainty="noise"),
    "TablePosterior": lambda: dpi.table_posterior(LABELLED, mechanism=SMOOTH, rng=1),
    "NoisyGLM": lambda: made("noisy_glm"),
    "NoisyRegression": regression,
    "AssociationFit": lambda: made("association"),
    "LocalLevel": lambda: made("local_level"),
    "LoglinearFit": lambda: made("loglinear"),
    "MomentsRegression": lambda: made("ols_from_moments"),
    "SmallAreaEstimates": lambda: made("fay_herriot"),
    "ThresholdedRegression": lambda: made("thresholded_glm"),
    "SurveyEstimate": lambda: made("survey_total"),
    "SurveyEstimate, stratified": lambda: made("stratified_total"),
    "FunctionEstimate": lambda: dpi.unbiased(np.sqrt, LABELLED, mechanism=SMOOTH),
    "IndexIntervals": lambda: made("dissimilarity_confint"),
    "SurvivalCurve": lambda: made("survival_confint"),
    "QuantileSets": lambda: made("histogram_quantile_confint"),
    "IdentifiedBounds": lambda: made("ecological_bounds"),
    "IdentifiedBounds, a curve": lambda: made("grouped_lorenz_bands"),
    "IndexIntervals, a life table": lambda: made("life_table_confint"),
    "Ranking": lambda: dpi.intervals.ranking(LABELLED, mechanism=SMOOTH),
    "ReplicateIntervals": lambda: dpi.intervals.replicate_confint(
        COUNTS, COUNTS.to_numpy() + np.arange(12.0)[:, None] - 5.0
    ),
    "Release": lambda: dpi.Release(LABELLED, mechanism=LAWS["Laplace"]),
    "NoisyValues": lambda: dpi.noisy(LABELLED, mechanism=SMOOTH),
    "SizeStudy": study,
    "Certificate": lambda: certificates(1),
    "Certificates": certificates,
    "LibraryCertificates": library,
    "DifferenceAudit": lambda: dpi.curation.audit_differences(
        [[1, 1, 1], [1, 1, 0], [1, 0, 0]], mechanism=dpi.Laplace(scale=2)
    ),
    "ReconstructionAudit": lambda: made("audit_reconstruction"),
    "MembershipAudit": lambda: made("audit_membership"),
    "ErrorEstimate": lambda: made("spend_on_error"),
    "CorrectedEstimate": lambda: made("spend_on_error").corrected(),
    "ProcessingError": lambda: made("processing_error"),
    "Usefulness": lambda: made("usefulness"),
    "GeneralizationBound": lambda: made("generalization_bound"),
    "SampleAdjustment": lambda: made("adjust_for_sampling"),
    "PosteriorBounds": lambda: dpi.privacy.posterior_bounds(dpi.PureDP(1.0)),
    "MultiplicativeWeightsRelease": lambda: made("multiplicative_weights"),
    "BudgetSplit": lambda: made("best_split"),
    "SpendingComparison": lambda: made("compare_spending"),
    "StrategyComparison": lambda: made("compare_strategies"),
    "ReleasePlan": lambda: made("plan_release"),
    "BudgetLedger": ledger,
    "BudgetAllocation": lambda: dpi.privacy.BudgetAllocation(**VALID["BudgetAllocation"]),
}
"""A result of every class, some of them with labels that have to be escaped."""

MADE = {}


def result_of(name):
    """Return a result, made once."""
    if name not in MADE:
        MADE[name] = RESULTS[name]()
    return MADE[name]


every = pytest.mark.parametrize("name", RESULTS)


def classes(base=Presented):
    """Return the classes of results that there are."""
    for kind in base.__subclasses__():
        if not kind.__subclasses__():
            yield kind
        yield from classes(kind)


def test_every_class_of_results_is_tested():
    for module in pkgutil.walk_packages(dpi.__path__, "dpinfer."):
        if "plotting" not in module.name and not module.name.endswith(("__main__", "anes96")):
            import_module(module.name)
    abstract = {Facts, Listed, Rows}
    found = {kind.__name__ for kind in classes() if kind not in abstract}
    found.discard("ThreeTails")  # other tails of an ExactNull, whose critical values take seconds
    with_kinds = {"Intervals", "IndexIntervals", "HypothesisResult"}
    assert found | with_kinds == {name.split(",")[0] for name in RESULTS}
    for name in RESULTS:
        assert type(result_of(name)).__name__ == name.split(",")[0]


class Cells(HTMLParser):
    """Reads the rows of the tables of a page, and refuses tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.open = [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and "tbody" in self.open:
            self.tables[-1].append([])
        elif tag in ("td", "th") and "tbody" in self.open:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "tbody" in self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def markdown_tables(text):
    """Return the rows of the tables of a Markdown text, by the rules of GitHub."""
    tables, lines = [], text.splitlines()
    for place, line in enumerate(lines):
        if re.fullmatch(r"\|( :--| --:)( \|( :--| --:))* \|", line):
            tables.append([])
            width = line.count("|")
            assert len(re.findall(r"(?<!\\)\|", lines[place - 1])) == width
            for row in lines[place + 1 :]:
                if not row.startswith("|"):
                    break
                cells = re.split(r"(?<!\\)\|", row)[1:-1]
                assert len(cells) == width - 1
                tables[-1].append([re.sub(r"\\(.)", r"\1", cell.strip()) for cell in cells])
    return tables


LATEX = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^"}
LATEX |= {"{[}": "[", r"\dots{}": "…", r"\varepsilon": "ε", r"\delta": "δ", r"\infty": "inf"}
LATEX |= {f"\\{letter}": letter for letter in "&%#_{}"} | {"$": ""}


def plain(cell):
    """Return a cell of LaTeX as it was."""
    for shown, letter in LATEX.items():
        cell = cell.replace(shown, letter)
    return re.sub(r"\\times10\^\{(-?\d+)\}", lambda m: f"e{int(m[1]):+03d}", cell)


def latex_tables(text):
    """Return the rows of the tables of a LaTeX text, and check that it is balanced."""
    bare = text.replace(r"\\", "").replace(r"\{", "").replace(r"\}", "").replace(r"\$", "")
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        assert kind == "begin" or opened.pop() == name
        opened += [name] * (kind == "begin")
    assert not opened
    assert not re.search(r"(?<!\\)[#%]|[^\x00-ÿ]", bare)
    tables = []
    for form, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\bottomrule", text, re.DOTALL):
        rows = body.rpartition(r"\midrule")[2].replace(r"\toprule", "").split(" \\\\\n")[:-1]
        cells = [re.split(r"(?<!\\)&", row) for row in rows]
        assert {len(row) for row in cells} <= {len(form)}
        tables.append([[plain(cell.strip()) for cell in row] for row in cells])
    return tables


@every
def test_all_forms_show_the_same_numbers(name):
    result = result_of(name)
    shown = Cells(result._repr_html_()).tables
    whole = [[row for row in table if "left out" not in row[0]] for table in shown]
    marked, typeset = markdown_tables(result.to_markdown()), latex_tables(result.to_latex())
    assert marked == typeset
    for some, every_row in zip(whole, marked, strict=True):
        half = len(some) // 2
        assert some == (every_row if len(some) == len(every_row) else
                        every_row[:half] + every_row[-half:])  # fmt: skip
    text = str(result).replace(" ", "")
    assert text == result.summary().replace(" ", "")
    lines = set(text.split("\n"))
    for table in whole:
        for row in table:
            joined = "".join(row).replace(",", "").replace(" ", "")
            assert joined in {line.replace(",", "") for line in lines} or all(
                cell.replace(" ", "") in text for cell in row
            )
    assert ("left out" in str(shown)) == (len(whole[0]) < len(marked[0]))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path):
    body = "\n\\clearpage\n".join(result_of(name).to_latex() for name in RESULTS)
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    page = head + body + r"\end{document}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def same(result, expected):
    """Assert that the frame of a result has these rows."""
    found = result.summary_frame()
    shared = [column for column in expected if column in found]  # "empty" may be in one of them
    pd.testing.assert_frame_equal(
        found[shared].reset_index(drop=True),
        expected[shared].reset_index(drop=True),
        check_exact=True,
        check_dtype=False,
    )


SEQUENCES = ("Certificates", "LibraryCertificates")


@every
def test_rows_are_those_of_the_frame(name):
    result = result_of(name)
    frame = result.summary_frame()
    assert isinstance(frame, pd.DataFrame)
    if name in SEQUENCES or not hasattr(result, "__getitem__"):
        return
    assert len(result) == len(frame)
    kind = type(result[:1])
    labelled = frame.index.dtype.kind in "iu" and not isinstance(frame.index, pd.RangeIndex)
    if not labelled:
        same(result[0], frame.iloc[[0]])
        same(result[-1], frame.iloc[[-1]])
        same(result[[len(frame) - 1, 0]], frame.iloc[[-1, 0]])
    same(result[:2], frame.iloc[:2])
    mask = np.arange(len(frame)) % 2 == 0
    same(result[mask], frame[mask])
    same(result[list(mask)], frame[mask])
    assert type(result[mask]) is kind
    labels = [] if isinstance(frame.index, pd.RangeIndex) else list(dict.fromkeys(frame.index))
    for label in labels[:2] + labels[2:][-1:]:
        same(result[label], frame.loc[[label]])
        same(result[[label]], frame.loc[[label]])
        if isinstance(label, tuple):
            same(result[label[0]], frame.loc[[label[0]]])
    for bad in (
        None,
        2.5,
        "nobody",
        [True] * 99,
        {"a": 1},
        (1, 2, 3),
        len(frame) + 9999,
        ["nobody"],
    ):
        with pytest.raises(InvalidParameterError, match=r"^index must be"):
            result[bad]
    if not hasattr(result, "__iter__") or result.__iter__ is None:
        with pytest.raises(TypeError, match="not iterable"):
            iter(result)


@every
def test_drawings(name):
    result = result_of(name)
    if not isinstance(result, Plotted):
        assert (
            not hasattr(result, "plot")
            or name == "SizeStudy"
            or isinstance(result, NullDistribution)
        )
        return
    if find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    from matplotlib import pyplot

    if isinstance(result, HypothesisResult):
        result = result[0] if np.ndim(result.statistic) else result
    axes = result.plot()
    assert result.plot(axes) is axes
    pyplot.close("all")


def test_options_of_a_paper():
    intervals = result_of("Intervals")
    text = intervals.to_latex(caption="50 % of A_1", label="tab:a_1", digits=1, brackets=True)
    assert r"\caption{50 \% of A\_1}" in text
    assert r"\label{tab:a_1}" in text
    assert r"a & b & Estimate & 95 \% CI \\" in text
    assert r"F & 30\_39 & $-3.2$ & $[-9.2, 2.7]$ \\" in text
    assert "| F | 20-29 | 20.5 | \\[" in intervals.to_markdown(digits=1, brackets=True)
    assert "**Mine**" in intervals.to_markdown(caption="Mine")
    assert "90 % CI" in FIT.to_markdown(0.1, brackets=True)
    assert "90 % CI" in FIT.to_markdown(alpha=0.1, method="asymptotic", brackets=True)
    tests = three_tests()
    assert "< 0.001" in tests.to_markdown(digits=3).replace("\\", "")
    assert "$< 0.001$" in tests.to_latex(digits=3)
    assert "empty" in result_of("Intervals, empty").to_markdown(brackets=True)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"digits": -1}, "digits"),
        ({"digits": "two"}, "digits"),
        ({"digits": 99}, "digits"),
        ({"brackets": "yes"}, "brackets"),
        ({"caption": 3}, "caption"),
        ({"label": "a b"}, "label"),
        ({"label": r"\input"}, "label"),
        ({"label": ""}, "label"),
        ({"label": 3}, "label"),
    ],
)
def test_bad_options_are_named(options, argument):
    intervals = result_of("Intervals")
    with pytest.raises(InvalidParameterError, match=f"^{argument} must"):
        intervals.to_latex(**options)
    if argument != "label":
        with pytest.raises(InvalidParameterError, match=f"^{argument} must"):
            intervals.to_markdown(**options)


def test_one_row_by_name_unpacks_as_numbers():
    intervals = result_of("Intervals")
    lower, upper = intervals["F", "20-29"]
    assert (lower, upper) == (intervals.lower.iloc[0], intervals.upper.iloc[0])
    assert isinstance(lower, float)
    statistic, pvalue = three_tests()["M"][0]
    assert isinstance(pvalue, float)
    assert statistic > 10
    assert isinstance(FIT[1].params, float)


def test_rows_of_a_test_keep_their_laws():
    for name in ("HypothesisResult", "HypothesisResult, simulated", "HypothesisResult, own laws"):
        tests = result_of(name)
        for row in range(3):
            one = tests[row]
            law = one.null_distribution
            assert law.pvalue(one.statistic) == pytest.approx(one.pvalue, rel=1e-12)
            assert np.ndim(law.critical_value(0.1)) == 0
            whole = np.broadcast_to(tests.null_distribution.critical_value(0.1), 3)
            assert law.critical_value(0.1) == whole[row]
        some = tests[1:]
        np.testing.assert_allclose(
            some.null_distribution.pvalue(some.statistic), some.pvalue, rtol=1e-12
        )


def test_rows_of_an_estimate_are_noisy_values_that_share_noise():
    fit = dpi.combine(THREE, workload=[[1, 0], [0, 1], [1, 1]], mechanism=NOISE)
    one = dpi.linear_confint(fit, [1, 0, -1], mechanism=None)
    pair = dpi.linear_confint(fit[[0, 2]], [1, -1], mechanism=None)
    assert (one.lower, one.upper) == (pair.lower, pair.upper)
    np.testing.assert_array_equal(fit[1:].bse, fit.bse[1:])
    with pytest.raises(AttributeError, match="whole"):
        _ = fit[1:].release
    with pytest.raises(AttributeError, match="no nothing"):
        _ = fit[1:].nothing


def test_rows_of_an_array_are_indexed_as_it_is():
    table = dpi.count_confint(np.arange(6.0).reshape(2, 3), mechanism=NOISE)
    assert len(table) == 6
    assert table[1, 2].estimate == 5
    assert table[4].estimate == 4
    assert table[:, 1].estimate.tolist() == [1, 4]
    assert table[np.asarray(table.estimate) > 3].estimate.tolist() == [4, 5]


def test_whole_numbers_are_labels_where_labels_are():
    years = pd.Series([1.0, 2, 3], index=pd.Index([2019, 2020, 2021], name="year"))
    intervals = dpi.count_confint(years, mechanism=NOISE)
    assert intervals[2020].estimate == 2
    assert intervals[[2021, 2019]].estimate.tolist() == [3, 1]
    assert intervals[:2].estimate.tolist() == [1, 2]
    with pytest.raises(InvalidParameterError, match="index must be"):
        intervals[0]


def test_masks_have_the_labels_of_the_rows():
    intervals = result_of("Intervals")
    large = intervals.estimate > 0
    assert len(intervals[large]) == 2
    with pytest.raises(InvalidParameterError, match="labels of the rows"):
        intervals[large[::-1]]
    with pytest.raises(InvalidParameterError, match="3 rows"):
        intervals[np.array([True, False])]


def test_slices_of_labels():
    intervals = result_of("Intervals")
    assert len(intervals["F":"F"]) == 2
    assert len(intervals[:, "20-29"]) == 1
    assert len(intervals[("F", "30_39") :]) == 2
