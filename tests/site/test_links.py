"""Links of the built site lead somewhere: to a page, a file, and a place on the page."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links, ids, and what a page loads."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.loads = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.update(found[key] for key in ("id", "name") if found.get(key))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        loaded = "href" if tag == "link" else "src"
        if tag in {"link", "script", "img", "iframe"} and found.get(loaded):
            self.loads.append(found[loaded])


def target_of(page: Path, link: str) -> Path | None:
    """Return the file that a link names, if it is one of the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    return (page.parent / unquote(parts.path)).resolve() if parts.path else page


def test_no_internal_link_is_broken(site):
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    assert len(pages) > 30
    broken, links = [], 0
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            target, place = target_of(path, link), unquote(urlsplit(link).fragment)
            if target is None:
                continue
            links += 1
            there = target.is_file()
            if there and place and target in pages:
                there = place in pages[target].ids
            if not there:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    assert links > 1_000


def test_nothing_is_loaded_from_elsewhere(site):
    # the site works offline, and does not tell others who reads it
    for path in site.rglob("*.html"):
        foreign = [link for link in Page(path).loads if urlsplit(link).netloc]
        assert foreign == [], path.relative_to(site)


def test_pages_name_what_they_could_not_render(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for sign in ("system-message", 'class="problematic"', "Traceback (most recent"):
            assert sign not in text, path.relative_to(site)
