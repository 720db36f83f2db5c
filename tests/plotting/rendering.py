"""Pictures as small arrays of greys, which do not depend on fonts.

Run as a script, it draws the baselines: ``python tests/plotting/rendering.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

BASELINES = Path(__file__).parent / "baselines"
SIDE = 4
"""Pixels that are averaged, in each direction."""


def render(draw):
    """Return the greys, in [0, 1], of a picture without its letters."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    with mpl.rc_context(mpl.rcParamsDefault):
        mpl.use("agg")
        figure = pyplot.figure(figsize=(4.0, 3.0), dpi=80)
        axes = draw(figure.add_axes((0.05, 0.05, 0.9, 0.9)))
        for part in figure.axes:  # letters and ticks differ between versions of matplotlib
            part.tick_params(which="both", length=0, labelcolor="none")
            part.grid(visible=False, which="both")
            part.set(xlabel="", ylabel="", title="")
            for text in part.texts:
                text.set_visible(False)
        if axes.get_legend() is not None:
            axes.get_legend().remove()
        axes.set_position((0.05, 0.05, 0.8, 0.9))
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba(), dtype=float)[..., :3] / 255.0
        pyplot.close(figure)
    grey = pixels @ [0.299, 0.587, 0.114]
    height, width = (length // SIDE for length in grey.shape)
    blocks = grey[: height * SIDE, : width * SIDE].reshape(height, SIDE, width, SIDE)
    return blocks.mean(axis=(1, 3))


def difference(grey, baseline):
    """Return how much two pictures differ, as a share of the ink of the second."""
    return np.abs(grey - baseline).sum() / (1.0 - baseline).sum()


def stored(name):
    """Return the greys of a baseline."""
    from matplotlib import image

    pixels = image.imread(BASELINES / f"{name}.png")
    return pixels[..., 0].astype(float) if pixels.ndim == 3 else pixels.astype(float)


def main():
    """Draw all baselines."""
    from matplotlib import image
    from pictures import PICTURES

    BASELINES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        grey = render(draw)
        # no metadata, so that the files are the same each time
        image.imsave(
            BASELINES / f"{name}.png", grey, cmap="gray", vmin=0, vmax=1, metadata={"Software": ""}
        )


if __name__ == "__main__":
    main()
