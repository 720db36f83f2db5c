"""Every page in headless Chromium, on a phone and on a desk, light and dark, and on paper.

It loads without errors, and it fits. Set DPINFER_SCREENSHOTS to a folder to keep pictures of all
pages.
"""

import os
from pathlib import Path

import pytest

WIDTHS = {"phone": 390, "desk": 1400}


def pages_of(site):
    """All pages, and of the listings of source code, which are alike, one."""
    listings = sorted(site.rglob("_modules/**/*.html"))
    assert listings
    return [*sorted(set(site.rglob("*.html")) - set(listings)), listings[-1]]


def picture_of(page, folder, name):
    picture = Path(folder) / name.with_suffix(".png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=picture, full_page=True)


@pytest.mark.parametrize("device", WIDTHS)
def test_every_page_loads_and_fits(chromium, site, device):
    width = WIDTHS[device]
    page = chromium.new_page(viewport={"width": width, "height": 900})
    troubles = []
    page.on("console", lambda said: said.type == "error" and troubles.append(said.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    for path in pages_of(site):
        page.goto(path.as_uri())
        name = path.relative_to(site)
        assert page.title(), name
        assert page.locator("body").inner_text().strip(), name
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        needed = page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            troubles.append(f"{needed} px wide")
        if folder := os.environ.get("DPINFER_SCREENSHOTS"):
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                picture_of(page, f"{folder}/{device}-{scheme}", name)
        assert troubles == [], name
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_theme_shows_its_own_pictures(chromium, site, scheme):
    page = chromium.new_page(color_scheme=scheme)
    for name in ("quickstart", "guide/gallery"):
        page.goto((site / f"{name}.html").as_uri())
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        seen = [picture for picture in page.locator("article img").all() if picture.is_visible()]
        assert len(seen) >= 3
        assert all(f"only-{scheme}" in picture.get_attribute("class") for picture in seen)
    page.close()


def test_the_tree_of_questions_is_followed_by_clicking(chromium, site):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "guide" / "which_function.html").as_uri())
    answer = page.get_by_role("link", name="ratio_confint()", exact=True).first
    assert not answer.is_visible()
    page.get_by_text("One noisy number, or a few").click()
    page.get_by_text("How do two compare?").click()
    answer.click()
    assert page.url.endswith("reference/ratios.html#dpinfer.ratio_confint")
    context.close()


def test_pages_print_on_paper(chromium, site):
    page = chromium.new_page(color_scheme="dark")
    for name in ("index", "quickstart", "guide/which_function", "guide/gallery"):
        page.goto((site / f"{name}.html").as_uri())
        document = page.pdf(format="A4")
        assert document.startswith(b"%PDF-"), name
        assert len(document) > 10_000, name
        page.emulate_media(media="print")
        # between the margins of a page, at 96 px to the inch
        page.set_viewport_size({"width": 720, "height": 1000})
        assert page.evaluate("document.documentElement.scrollWidth") <= 720, name
        ink, ground = page.evaluate(
            "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])"
        )
        assert ink != ground, name
        page.emulate_media(media="screen")
    page.close()
