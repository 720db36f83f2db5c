"""What the pages of the built site show, and what their search finds."""

import colorsys
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

import dpinfer

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "vignettes" / "extensions"))

IMAGE = re.compile(r"<img\b[^>]*>")
CELL = re.compile(r'<div class="cell_input.*?<pre>(.*?)</pre>', re.DOTALL)


def pages(site, ours=True):
    return [path for path in site.rglob("*.html") if not ours or "_modules" not in path.parts]


def attribute(tag, name):
    found = re.search(rf'\b{name}="([^"]*)"', tag)
    return found[1] if found else ""


def test_every_picture_says_what_it_shows(site):
    texts = []
    for path in pages(site):
        for tag in IMAGE.findall(path.read_text(encoding="utf-8")):
            text = attribute(tag, "alt")
            assert len(text) >= 30, f"{path.relative_to(site)}: {tag}"
            texts.append(text)
    assert len(texts) > 60


def test_pictures_are_there_for_light_and_dark_pages(site):
    for path in pages(site):
        tags = IMAGE.findall(path.read_text(encoding="utf-8"))
        shown = {
            theme: [attribute(tag, "alt") for tag in tags if theme in attribute(tag, "class")]
            for theme in ("only-light", "only-dark")
        }
        assert shown["only-light"] == shown["only-dark"], path.relative_to(site)
        assert len(shown["only-light"]) * 2 == len(tags), path.relative_to(site)


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_for_dark_pages_stand_out():
    pytest.importorskip("docutils", reason="the extra [docs] is not installed")
    from dpinfer._style import COLOURS, INK, REFERENCE

    darkened = importlib.import_module("light_and_dark").darkened
    ground = "#131416"  # of the theme
    for colour in (*COLOURS, REFERENCE):
        assert contrast(darkened(colour), ground) >= 3
        hues = [
            colorsys.rgb_to_hls(*(int(c[at : at + 2], 16) for at in (1, 3, 5)))[0]
            for c in (colour, darkened(colour))
        ]
        assert min(abs(hues[0] - hues[1]), 1 - abs(hues[0] - hues[1])) < 0.02
    assert contrast(darkened(INK), ground) >= 7
    assert contrast(darkened("#ffffff"), ground) < 1.2


def test_checks_are_not_shown(site):
    shown = 0
    for path in pages(site):
        for cell in CELL.findall(path.read_text(encoding="utf-8")):
            shown += 1
            words = re.findall(r"\w+", re.sub(r"<[^>]+>", "", cell))
            assert not {"assert", "AssertionError"} & set(words), path.relative_to(site)
    assert shown > 100


def test_frames_are_tables(site):
    framed = [path for path in pages(site) if 'class="dataframe' in path.read_text("utf-8")]
    assert len(framed) > 12
    for path in pages(site):
        assert not re.search(r"\[\d+ rows x \d+ columns\]\s*</pre>", path.read_text("utf-8")), path


def test_the_version_is_shown_and_listed(site):
    listed = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert [one["version"] for one in listed].count(dpinfer.__version__) == 1
    for path in pages(site):
        if path.name not in {"search.html"}:
            text = path.read_text(encoding="utf-8")
            assert f"Version {dpinfer.__version__}" in text, path.relative_to(site)


def test_the_citation_is_of_this_version(site):
    yaml = pytest.importorskip("yaml", reason="the extra [docs] is not installed")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == dpinfer.__version__
    text = (site / "about" / "citation.html").read_text(encoding="utf-8")
    assert cited["title"] in text
    assert "@software" in text


def test_search_finds_what_people_look_for(site):
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))

    def found(stem):
        hits = set()
        for kind in ("terms", "titleterms"):
            places = index[kind].get(stem, [])
            hits.update(places if isinstance(places, list) else [places])
        return {index["docnames"][hit] for hit in hits}

    assert "quickstart" in found("quickstart")
    assert "quickstart" in found("latex")
    assert len(found("confid")) > 10  # the stem of confidence
    assert "guide/from_r" in found("reticul")
    assert "guide/from_stata_spss" in found("stata")


def test_documented_names_lead_to_their_source(site):
    linked = [
        path
        for path in (site / "reference").glob("*.html")
        if 'class="viewcode-link"' in path.read_text(encoding="utf-8")
    ]
    assert len(linked) > 20
