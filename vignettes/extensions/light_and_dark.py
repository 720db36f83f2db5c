"""Shows each drawing twice, for the light and for the dark theme.

Matplotlib's SVG of a light page becomes that of a dark one by turning the lightness of every
colour round: what stands out from white then stands out from the dark ground, in the same hue.
"""

import colorsys
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

COLOUR = re.compile(r"#[0-9a-f]{6}\b")
DARKEST, LIGHTEST = 0.08, 0.94
"""The lightness of what was white, and of what was black."""


def darkened(colour: str) -> str:
    """Return the colour that takes the place of one, both as #rrggbb."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    turned = LIGHTEST - (LIGHTEST - DARKEST) * lightness
    parts = colorsys.hls_to_rgb(hue, turned, saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def for_dark_pages(svg: str) -> str:
    """Return a drawing for a dark page; what has no colour is black in SVG."""
    inverted = COLOUR.sub(lambda found: darkened(found[0]), svg)
    return inverted.replace("<svg ", f'<svg fill="{darkened("#000000")}" ', 1)


def _show_both(app: Sphinx, doctree: nodes.document) -> None:
    for image in list(doctree.findall(nodes.image)):
        if not image["uri"].endswith(".svg"):
            continue
        light = Path(app.srcdir, image["uri"].lstrip("/"))
        dark = light.with_suffix(".dark.svg")
        dark.write_text(for_dark_pages(light.read_text(encoding="utf-8")), encoding="utf-8")
        other = image.deepcopy()
        other["uri"] = image["uri"].removesuffix(".svg") + ".dark.svg"
        for node, theme in ((image, "only-light"), (other, "only-dark")):
            node["classes"].append(theme)
        image.parent.insert(image.parent.index(image) + 1, other)


def setup(app: Sphinx) -> dict[str, bool]:
    """Double the drawings of a page when it has been read, before its files are collected."""
    app.connect("doctree-read", _show_both, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
