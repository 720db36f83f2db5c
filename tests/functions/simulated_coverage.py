"""How often simulated intervals cover, and what their refusal leaves: the table of its docstring.

Run as ``python tests/functions/simulated_coverage.py [repeats]``; takes about three minutes.
"""

import sys

import numpy as np
from people import people
from scipy import special

import dpinfer as dpi
from dpinfer.errors import NotEstimableError
from dpinfer.functions import function_confint


def dissimilarity(b, w):
    b, w = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1.0) for x in (b, w))
    return 0.5 * np.abs(b - w).sum(axis=-1)


def theil(b, w):
    def mixed(b, w):
        return special.xlogy(b + w, b + w) - special.xlogy(b, b) - special.xlogy(w, w)

    whole = mixed(b.sum(axis=-1), w.sum(axis=-1))
    return 1.0 - mixed(b, w).sum(axis=-1) / np.maximum(whole, 1e-9)


def gini(b, w):
    order = np.argsort(b / np.maximum(b + w, 1e-9), axis=-1)
    b, w = (np.take_along_axis(x, order, axis=-1) for x in (b, w))
    b, w = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1.0) for x in (b, w))
    return 1.0 - ((2.0 * np.cumsum(b, axis=-1) - b) * w).sum(axis=-1)


def entropy(b, w):
    share = b / np.maximum(b.sum(axis=-1, keepdims=True), 1.0)
    return -special.xlogy(share, share).sum(axis=-1)


def variation(b, w):
    return b.std(axis=-1) / np.maximum(b.mean(axis=-1), 1.0)


def roots(b, w):
    return np.sqrt(b) + np.sqrt(w)


def largest(b, w):
    return b.max(axis=-1)


def ratio(b, w):
    return b[..., 0] / np.maximum(w[..., 0], 1.0)


def zeros(b, w):
    return (b < 0.5).astype(float)


def settings():
    """Return name, counts of two groups, function and law of each setting."""
    levels = {}
    for level in ("Tract", "Block_Group", "Block"):
        cells = people(level)[["black", "white"]].to_numpy().T
        levels[level] = cells[:, cells.sum(axis=0) > 0]
    groups, blocks, tracts = levels["Block_Group"], levels["Block"], levels["Tract"]
    for name, function in (("dissimilarity", dissimilarity), ("Theil", theil), ("Gini", gini)):
        for sigma in (5.0, 15.0, 60.0):
            yield f"{name}, 28, σ {sigma:g}", groups, function, dpi.DiscreteGaussian(sigma=sigma)
    for sigma in (1.0, 3.0):
        law = dpi.DiscreteGaussian(sigma=sigma)
        yield f"dissimilarity, 209, σ {sigma:g}", blocks, dissimilarity, law
    for scale in (10.0, 40.0):
        law = dpi.Laplace(scale=scale)
        yield f"dissimilarity, 7, b {scale:g}", tracts, dissimilarity, law
        yield f"entropy, 28, b {scale:g}", groups, entropy, law
        yield f"variation, 28, b {scale:g}", groups, variation, law
        yield f"largest, 28, b {scale:g}", groups, largest, law
    equal = np.full((2, 30), 100)
    for function in (dissimilarity, gini, variation, largest):
        yield f"{function.__name__}, 30 equal, s 7", equal, function, dpi.Geometric(scale=7.0)
    for function in (roots, zeros):
        for cells, name in ((groups, "28"), (blocks, "209")):
            law = dpi.Geometric(scale=2.0)
            yield f"{function.__name__}, {name}, s 2", cells, function, law
    for count, scale in ((3, 2.0), (30, 7.0), (100, 7.0)):
        cells = np.full((2, 1), count)
        yield f"ratio, 1 of {count}, s {scale:g}", cells, ratio, dpi.Geometric(scale=scale)


def measure(cells, function, law, repeats, rng):
    """Return the shares of intervals that cover, and of those refused; of percentile ones too."""
    truth = function(*(x[np.newaxis].astype(float) for x in cells))
    truth = float(np.sum(truth))
    passed = covered = basic = 0
    for _ in range(repeats):
        y = cells + law.rvs(cells.shape, rng=rng)
        try:
            found = function_confint(
                tuple(y), function, method="simulate", mechanism=(law, law), rng=rng
            )
            passed += 1
            covered += bool(found.contains(truth))
        except NotEstimableError:
            pass
        start = np.maximum(y, 0)
        drawn = np.maximum(start + law.rvs((400, *cells.shape), rng=rng), 0.0)
        values = function(drawn[:, 0], drawn[:, 1])
        values = values.sum(axis=-1) if values.ndim == 2 else values
        own = float(np.sum(function(*(x[np.newaxis].astype(float) for x in start))))
        low, high = np.quantile(values, [0.025, 0.975])
        basic += 2 * own - high <= truth <= 2 * own - low
    return basic / repeats, passed / repeats, covered / max(passed, 1), passed


if __name__ == "__main__":
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    source = np.random.default_rng(1)
    total = inside = 0.0
    for name, cells, function, law in settings():
        few = max(10, many // 5) if cells.shape[1] > 100 else many
        basic, passed, covers, number = measure(cells, function, law, few, source)
        total, inside = total + number, inside + covers * number
        shown = f"{covers:.2f}" if number else "-"
        print(f"{name:38s}  {basic:5.2f}  {passed:6.2f}  {shown:>6s}", flush=True)
    print(f"all that pass: {inside / total:.3f} of {total:.0f}")
