"""The report in headless Chromium without a network, on a telephone and on a desk.

Set DPINFER_SCREENSHOTS to a folder to keep pictures.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import datasets
from dpinfer.reporting import Analysis
from dpinfer.reporting.report import write_html


def long_release():
    labels = [f"<script>document.title = 'x'</script> row {at}" for at in range(2000)]
    table = pd.Series(np.arange(2000.0), pd.Index(labels, name="<b>row</b>"))
    return dpi.Release.from_tables([table], mechanism=dpi.Laplace(scale=3.0), name="long")


RELEASES = {"anes96": lambda: datasets.load_anes96().release, "long": long_release}


@pytest.mark.parametrize("name", RELEASES)
def test_the_report_opens_offline_and_fits(chromium, tmp_path, name):
    report = tmp_path / "report.html"
    write_html(Analysis.of(RELEASES[name](), alpha=0.05, method="exact", seed=0), report)
    for width in (390, 1400):
        context = chromium.new_context(offline=True, viewport={"width": width, "height": 900})
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(report.as_uri())
        assert said == []
        assert asked == [report.as_uri()]
        assert page.title() == name
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # letters of the drawing are as large as those of a caption, whatever the width
        size = page.evaluate("document.querySelector('svg text').getBoundingClientRect().height")
        assert size >= 12
        drawn = page.evaluate(
            "[...document.querySelectorAll('svg *')].map(e => e.getBoundingClientRect())"
            ".reduce((most, box) => Math.max(most, box.right), 0)"
        )
        assert drawn <= width
        # the head of the table stays in sight while its rows move
        moved = page.evaluate(
            "() => { const box = document.querySelector('.scroll');"
            " box.scrollTop = 500;"
            " const head = box.querySelector('thead th').getBoundingClientRect();"
            " return [box.scrollTop, head.top - box.getBoundingClientRect().top]; }"
        )
        assert moved[0] > 0
        assert abs(moved[1]) < 2
        if folder := os.environ.get("DPINFER_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"report_{name}_{width}.png", full_page=True)
        context.close()
