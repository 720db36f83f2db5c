"""Dissimilarity at three levels, under three laws of three sizes: the table of the guide.

Run as ``python tests/functions/segregation_study.py [repeats]``; takes about a minute.
"""

import sys

import numpy as np
from people import people

import dpinfer as dpi
from dpinfer.functions import dissimilarity_confint, information_index

LAWS = {
    "geometric": lambda sd: dpi.Geometric(scale=sd / np.sqrt(2.0)),
    "Laplace": lambda sd: dpi.Laplace(scale=sd / np.sqrt(2.0)),
    "discrete Gaussian": lambda sd: dpi.DiscreteGaussian(sigma=sd),
}


def dissimilarity(b, w):
    b, w = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1.0) for x in (b, w))
    return 0.5 * np.abs(b - w).sum(axis=-1)


def measure(b, w, law, repeats, rng):
    """Return what plugging in, a percentile bootstrap and the proved interval give."""
    y, z = (f + law.rvs((repeats, len(f)), rng=rng) for f in (b, w))
    truth = dissimilarity(b * 1.0, w * 1.0)
    found = dissimilarity_confint(
        y, z, totals=(b.sum(), w.sum()), mechanism=(law, law), rng=rng
    )  # fmt: skip
    few = min(repeats, 100)
    boot = 0
    for one, two in zip(y[:few], z[:few], strict=True):
        drawn = [
            np.maximum(np.maximum(x, 0) + law.rvs((200, len(x)), rng=rng), 0) for x in (one, two)
        ]
        low, high = np.quantile(dissimilarity(*drawn), [0.025, 0.975])
        boot += low <= truth <= high
    return truth, found, boot / few, (y, z)


if __name__ == "__main__":
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    source = np.random.default_rng(1)
    for level in ("Tract", "Block_Group", "Block"):
        cells = people(level)[["black", "white"]]
        b, w = cells[cells.sum(axis=1) > 0].to_numpy().T
        for name, make in LAWS.items():
            for sd in (1.0, 3.0, 10.0):
                law = make(sd)
                truth, found, boot, (y, z) = measure(b, w, law, many, source)
                covered, width = found.contains(truth).mean(), np.mean(found.width)
                row = f"| {level}, {len(b)} | {name} | {sd:g} | {truth:.3f} "
                row += f"| {found.plug_in.mean():.3f} | {boot:.2f} "
                row += f"| {covered:.3f} | {width:.3f} "
                if name != "discrete Gaussian":
                    h = information_index(
                        (y, z), totals=(b.sum(), w.sum()), mechanism=(law, law)
                    )  # fmt: skip
                    exact = information_index((b, w), mechanism=dpi.Exact()).params
                    ends = h.conf_int() if (np.asarray(h.effective) >= 30).any() else None
                    row += f"| {exact:.3f} | {h.plug_in.mean():.3f} | {h.params.mean():.3f} "
                    row += "| - " if ends is None else f"| {ends.contains(exact).mean():.3f} "
                else:
                    row += "| | | | "
                print(row + "|", flush=True)
