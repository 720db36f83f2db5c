"""The HTML report: whole, by itself, the same each time, and safe whatever the labels are."""

import html
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import datasets
from dpinfer.reporting import Analysis
from dpinfer.reporting.report import MOST_DRAWN, MOST_ROWS, page_of

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "</title></style></svg></table>",
    "-->",
    "{title}{0}%s",
    "&lt;b&gt;",
    "=HYPERLINK(1)",
    "a\x00b\u202ec\ud800",
    "x" * 500,
    "",
]
VOID = {"meta", "link", "br", "img", "input", "hr"}


def analysis_of(release, alpha=0.05, method="exact"):
    return Analysis.of(release, alpha=alpha, method=method, seed=3)


def release_of(labels, column, name):
    """Return a release of eleven labelled values."""
    index = pd.Index(labels, dtype=object, name=column)
    noise = dpi.Laplace(scale=2.0)
    return dpi.Release(np.arange(10.0, 21.0), labels=index, mechanism=noise, name=name)


class Outline(HTMLParser):
    """Collects the elements with their attributes, and checks that they are closed in order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.text = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def skeleton(page):
    """Return the elements and the names of their attributes."""
    return [(tag, sorted(attrs)) for tag, attrs in Outline(page).elements]


@pytest.fixture(scope="module")
def page():
    return page_of(analysis_of(datasets.load_anes96().release))


def test_the_page_says_what_it_must(page):
    shown = html.unescape(page)
    for words in (
        "noise (inference on the confidential values)",
        "They do not cover the error of sampling",
        "95 %, exact",
        "best linear unbiased",
        f"dpinfer {dpi.__version__}, seed 3.",
        "High school or less, Democrat, Clinton",
        "Do the published values agree?",
    ):
        assert words in shown
    assert page.count("<svg") == 1


def test_the_page_needs_nothing_else_and_runs_nothing(page):
    outline = Outline(page)
    assert {"script", "link", "img", "iframe", "object", "a"}.isdisjoint(
        tag for tag, _ in outline.elements
    )
    for _, attrs in outline.elements:
        assert not {"src", "href", "style"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    assert re.findall(r"https?://[^\"]*", page) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in page


def test_the_same_analysis_is_the_same_page(page):
    assert page_of(analysis_of(datasets.load_anes96().release)) == page
    assert re.search(r"\b20\d\d-\d\d-\d\d|\d\d:\d\d", page) is None


def test_labels_stay_text():
    hostile = release_of(HOSTILE, "</th><script>", "<b>&amp;")
    page = page_of(analysis_of(hostile))
    harmless = release_of([f"row {at}" for at in range(11)], "row", "name")
    expected = skeleton(page_of(analysis_of(harmless)))
    found = skeleton(page)
    assert found.count(("title", [])) == 2  # one is the whole of the label that is shortened
    assert [part for part in found if part != ("title", [])] == [
        part for part in expected if part != ("title", [])
    ]
    text = "".join(Outline(page).text)
    for label in HOSTILE[:8]:
        assert label in text
    assert r"a\x00b\u202ec\ud800" in text
    assert "x" * 201 not in page


def test_the_table_holds_the_rounded_estimates(page):
    frame = dpi.combine(datasets.load_anes96().release).summary_frame()
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>((?:<td>[^<]*</td>)+)</tr>', page)
    rows = [(label, re.findall("<td>([^<]*)</td>", cells)) for label, cells in rows]
    table = [cells for _, cells in rows if len(cells) == frame.shape[1]]
    assert len(table) == len(frame)
    for shown, exact in zip(table, frame.to_numpy(), strict=True):
        assert [float(cell) for cell in shown] == pytest.approx(exact, abs=0.006)


def test_the_drawing_has_the_intervals_to_scale(page):
    fit = dpi.combine(datasets.load_anes96().release)
    lines = re.findall(
        r'<line x1="([\d.]+)%" x2="([\d.]+)%" y1="(\d+)" y2="\3" stroke="#10243e"', page
    )
    ends = np.array([[float(x) for x in line[:2]] for line in lines])
    assert len(ends) == len(fit)
    # all are centred at their estimates: the lengths are those of the intervals up to one factor
    width = np.asarray(fit.conf_int().width)
    factor = (ends[0, 1] - ends[0, 0]) / width[0]
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], factor * width, atol=0.02)
    dashed = re.findall(r'x1="([\d.]+)%" x2="([\d.]+)%"[^/]*stroke-dasharray', page)
    own = dpi.count_confint(fit.release.values, mechanism=fit.release.mechanism)
    lengths = [float(high) - float(low) for low, high in dashed]
    np.testing.assert_allclose(lengths, factor * np.asarray(own.width), atol=0.02)


def test_long_tables_are_cut_and_say_so():
    release = dpi.Release(np.arange(MOST_ROWS + 5.0), mechanism=dpi.Laplace(scale=1.0))
    page = page_of(analysis_of(release))
    assert page.count("<td>1.414</td>") == 2 * MOST_ROWS
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 5} rows." in page
    assert f"The first {MOST_DRAWN} of {MOST_ROWS + 5} rows." in page
    assert "position: sticky" in page
    assert len(page) < 1_000_000


@pytest.mark.parametrize("method", ["exact", "asymptotic", "tail-bound"])
def test_every_method_is_explained(method):
    release = dpi.Release([3.0, 4.0], mechanism=dpi.Laplace(scale=1.0))
    page = page_of(analysis_of(release, alpha=0.1, method=method))
    assert f"90 %, {method}" in page
    assert ("all intervals together" in page) == (method == "tail-bound")
    assert "nothing can disagree" in page


def test_warnings_stand_in_the_page():
    analysis = analysis_of(dpi.Release([3.0], mechanism=dpi.Laplace(scale=1.0)))
    object.__setattr__(analysis, "warnings", ("<i>beware</i>",))
    assert "Warning: &lt;i&gt;beware&lt;/i&gt;" in page_of(analysis)


@pytest.mark.parametrize(
    "values",
    [[0.0], [1e300, -1e300], [1e17, 1e17], [1e-300, 0.0], [5.0, 5.0, 5.0], [-1e-9, 1e15]],
)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_numbers_of_any_size_are_drawn_within_the_page(values, scale):
    release = dpi.Release(values, mechanism=dpi.Laplace(scale=scale))
    page = page_of(analysis_of(release))
    places = [float(x) for x in re.findall(r'(?:x|x1|x2|cx)="(-?[\d.]+)%"', page)]
    assert places
    assert min(places) >= 0
    assert max(places) <= 100
    assert not re.search(r"\bnan\b|\binf\b", page.lower())


def test_exact_values_have_no_error():
    release = dpi.Release([3.0, 4.0], mechanism=[dpi.Exact(), dpi.Laplace(scale=1.0)])
    page = page_of(analysis_of(release))
    assert "… without noise" in page


def test_the_text_commands_nothing_to_a_terminal():
    labels = ["\x1b]0;title\x07", "\x1b[2J", "\u202e", "\ud800", *"abcdefg"]
    text = analysis_of(release_of(labels, "row", "name")).text()
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert r"\x1b]0;title\x07" in text


@pytest.mark.parametrize(
    "rule", [{"threshold": 90}, {"rounding": 5, "clamp": (0, 200)}, {"bin_size": (4, "nearest")}]
)
def test_sums_of_values_with_a_rule_are_those_of_its_own_function(rule):
    labels = pd.MultiIndex.from_product([["DE", "FR"], [1, 2]], names=["country", "day"])
    law = dpi.Geometric(scale=5.0)
    release = dpi.Release([100, 120, 95, 200], labels=labels, mechanism=law, **rule)
    found = Analysis.of(release, alpha=0.1, method="exact", seed=3, by="country")
    if "threshold" in rule:
        same = dpi.intervals.thresholded_sum_confint(
            release, target="published", by="country", alpha=0.1
        )
        words = "target='cells'"
    else:
        weights = pd.DataFrame(
            [[1, 1, 0, 0], [0, 0, 1, 1]], index=["DE", "FR"], columns=release.labels
        )
        same = dpi.linear_confint(release, weights, alpha=0.1)
        words = "in the middle of what is possible"
    np.testing.assert_array_equal(np.asarray(found.intervals), np.asarray(same))
    assert list(found.labels) == ["DE", "FR"]
    for text in (found.text(), html.unescape(page_of(found))):
        assert "Sums of 4 published values" in text
        assert words in " ".join(text.split())
    if "threshold" in rule:
        with pytest.raises(dpi.errors.InvalidParameterError, match="method must be left out"):
            Analysis.of(release, alpha=0.1, method="asymptotic", seed=3, by="country")
    with pytest.raises(dpi.errors.InvalidParameterError, match="target must be left out with by"):
        Analysis.of(release, alpha=0.1, method="exact", seed=3, by="country", target=["DE"])


def test_sums_by_rule_count_each_cell_once():
    tables = [pd.Series({"F": 30.5, "M": 28.9}).rename_axis("sex"), 61.2]
    release = dpi.Release.from_tables(tables, mechanism=dpi.Laplace(scale=2.0), clamp=0)
    release = dpi.Release(
        release.values, workload=release.workload, mechanism=dpi.Laplace(scale=2.0), clamp=0,
        labels=pd.MultiIndex.from_product([["all"], ["F", "M", "*"]], names=["place", "sex"]),
    )  # fmt: skip
    with pytest.raises(dpi.errors.InvalidParameterError, match="count each cell once"):
        Analysis.of(release, alpha=0.1, method="exact", seed=3, by="place")
