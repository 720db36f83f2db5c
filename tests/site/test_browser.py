"""Every page in headless Chromium, on a phone and on a desk: it loads, without errors, and fits.

Set DPINFER_SCREENSHOTS to a folder to keep pictures of all pages.
"""

import os
import shutil
from pathlib import Path

import pytest

WIDTHS = {"phone": 390, "desk": 1400}


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as driver:
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("Chromium is not installed")
        with driver.chromium.launch(executable_path=path, args=["--no-sandbox"]) as browser:
            yield browser


@pytest.mark.parametrize("device", WIDTHS)
def test_every_page_loads_and_fits(chromium, site, device):
    width = WIDTHS[device]
    page = chromium.new_page(viewport={"width": width, "height": 900})
    troubles = []
    page.on("console", lambda said: said.type == "error" and troubles.append(said.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    pages = sorted(site.rglob("*.html"))
    assert pages
    for path in pages:
        page.goto(path.as_uri())
        name = path.relative_to(site)
        assert page.title(), name
        assert page.locator("body").inner_text().strip(), name
        needed = page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            troubles.append(f"{needed} px wide")
        if folder := os.environ.get("DPINFER_SCREENSHOTS"):
            picture = Path(folder) / device / name.with_suffix(".png")
            picture.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=picture, full_page=True)
        assert troubles == [], name
    page.close()
