"""Write noise_laws.json: tails, quantiles, variances and characteristic functions of noise laws.

Every number comes from the definition of the law in mpmath, with enough digits that nothing
cancels: sums of the probabilities, or for a discrete Gaussian of large sigma the Euler-Maclaurin
formula at the whole number m (the library uses its midpoint form), checked here against the sum.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 60
SCALES = [1e-3, 0.05, 0.4, 1.0, 1.9, 3.9, 4.1, 30.0, 1e3, 1e6, 1e9]
LOG_TAILS = [-0.9, -2.0, -7.0, -23.0, -115.0, -345.0, -690.0]
FAR_LOG_TAILS = [-5e3, -1e6]
PROBABILITIES = [1e-300, 1e-100, 1e-17, 1e-9, 0.025, 0.3, 0.4999999999, 0.5000000001, 0.7, 1 - 1e-9]
HARD = 1e-11
"""A quantile is asked for at a tail probability times 1 - HARD, 1 + HARD."""

Tail = Callable[[Any], Any]


def laplace(scale: float) -> dict[str, Any]:
    b = mp.mpf(scale)
    points = [-b * (log + mp.log(2)) for log in LOG_TAILS + FAR_LOG_TAILS]
    return entry(
        lambda x: mp.exp(-x / b) / 2 if x >= 0 else 1 - mp.exp(x / b) / 2,
        points,
        variance=2 * b**2,
        cf=lambda t: 1 / (1 + (b * t) ** 2),
        scale=scale,
    )


def gaussian(sigma: float) -> dict[str, Any]:
    s = mp.mpf(sigma)
    points = [s * mp.sqrt(-2 * log) for log in LOG_TAILS + FAR_LOG_TAILS]
    points[-3] = s * mp.mpf(36.9)
    return entry(
        lambda x: mp.erfc(x / s / mp.sqrt(2)) / 2,
        points,
        variance=s**2,
        cf=lambda t: mp.exp(-((s * t) ** 2) / 2),
        scale=sigma,
    )


def geometric(scale: float) -> dict[str, Any]:
    a = mp.exp(-1 / mp.mpf(scale))

    def tail(k: Any) -> Any:
        return a ** (k + 1) / (1 + a) if k >= 0 else 1 - a ** (-k) / (1 + a)

    points = [mp.floor(-scale * log) for log in LOG_TAILS[:-1] + FAR_LOG_TAILS]
    return entry(
        tail,
        [p for p in points if mp.log(tail(p)) > -1e7],
        variance=2 * a / (1 - a) ** 2,
        cf=lambda t: (1 - a) ** 2 / (1 - 2 * a * mp.cos(t) + a**2),
        scale=scale,
        quantiles=integer_quantiles(tail, -scale),
    )


def discrete_gaussian(sigma: float) -> dict[str, Any]:
    s = mp.mpf(sigma)
    terms = range(1, max(8, int(20 * sigma)) if sigma <= 100 else 8)
    if sigma <= 100:
        total = 1 + 2 * mp.fsum(mp.exp(-((k / s) ** 2) / 2) for k in terms)
        variance = 2 * mp.fsum(k**2 * mp.exp(-((k / s) ** 2) / 2) for k in terms) / total
    else:
        # the dual terms are below exp(-2π²·100²)
        total, variance = s * mp.sqrt(2 * mp.pi), s**2

    def tail(k: Any) -> Any:
        return discrete_gaussian_tail(int(k), s) / total if k >= 0 else 1 - tail(-k - 1)

    def cf(t: Any) -> Any:
        with mp.workdps(400):
            if sigma > 100:
                return mp.exp(-((s * t) ** 2) / 2)
            weights = {k: mp.exp(-((k / s) ** 2) / 2) for k in range(1, 3 + int(45 * s))}
            waves = [weight * mp.cos(k * t) for k, weight in weights.items()]
            return (1 + 2 * mp.fsum(waves)) / (1 + 2 * mp.fsum(weights.values()))

    points = sorted({mp.floor(s * mp.sqrt(-2 * log)) for log in LOG_TAILS + FAR_LOG_TAILS})
    points = [mp.mpf(-1), *points]
    return entry(
        tail,
        [p for p in points if (p / s) ** 2 < 2e7],
        variance=variance,
        cf=cf,
        scale=sigma,
        quantiles=integer_quantiles(tail, 0.0, sigma),
        times=[0.1 / sigma, 1.0 / sigma, *([0.5, 3.0, 3.14159] if sigma < 10 else [])],
    )


def discrete_gaussian_tail(k: int, s: Any) -> Any:
    """Sum over j > k >= 0 of exp(-j²/(2s²))."""
    if s < 50:
        return direct_sum(k + 1, s)
    return euler_maclaurin(k + 1, s)


def direct_sum(m: int, s: Any) -> Any:
    total, j = mp.mpf(0), m
    while True:
        term = mp.exp(-((j / s) ** 2) / 2)
        total += term
        if term < total * mp.mpf(10) ** -30:
            return total
        j += 1


def euler_maclaurin(m: int, s: Any) -> Any:
    z = m / s
    density = mp.exp(-(z**2) / 2)
    total = s * mp.sqrt(mp.pi / 2) * mp.erfc(z / mp.sqrt(2)) + density / 2
    hermite = [mp.mpf(1), z]
    for n in range(1, 60):
        hermite.append(z * hermite[n] - n * hermite[n - 1])
    for i in range(1, 30):
        derivative = -hermite[2 * i - 1] / s ** (2 * i - 1) * density
        total -= mp.bernoulli(2 * i) / mp.factorial(2 * i) * derivative
    return total


def tulap(scale: float, truncation: float) -> dict[str, Any]:
    b, q = mp.exp(-1 / mp.mpf(scale)), mp.mpf(truncation)

    def untruncated(x: Any) -> Any:
        k = mp.nint(x)
        above = b ** (k + 1) / (1 + b) if k >= 0 else 1 - b ** (-k) / (1 + b)
        return above + (1 - b) / (1 + b) * b ** abs(k) * (k + mp.mpf(1) / 2 - x)

    def tail(x: Any) -> Any:
        if x < 0:
            return 1 - tail(-x)
        return (untruncated(x) - q / 2) / (1 - q)

    if truncation:
        bound = (
            mp.findroot(
                lambda x: mp.log(untruncated(x) / (q / 2)),
                -scale * mp.log(q),
                tol=1e-40,
                verify=False,
            )
            if scale > 20
            else bisect(lambda x: untruncated(x) <= q / 2, mp.mpf(0), mp.mpf(60000))
        )
        points = [bound * share for share in (0, 0.1, 0.5, 0.9)]
    else:
        points = [mp.mpf(0), *(-scale * log for log in LOG_TAILS[:-1] + FAR_LOG_TAILS)]
        points = [p for p in points if -p / scale > -2e6]
    variance = 2 * b / (1 - b) ** 2 + mp.mpf(1) / 12
    if truncation:
        variance = truncated_variance(b, bound) if bound < 1e5 else None
    return entry(tail, points, variance=variance, cf=None, scale=scale, truncation=truncation)


def bisect(holds: Callable[[Any], bool], low: Any, high: Any) -> Any:
    for _ in range(250):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def truncated_variance(b: Any, bound: Any) -> Any:
    """Ratio of the integrals of x²·b^abs(k) and b^abs(k) over (0, bound)."""
    half, last = mp.mpf(1) / 2, int(mp.nint(bound))
    ends = [mp.mpf(0), *(j + half for j in range(last)), bound]
    weights = [b**j for j in range(last + 1)]
    pieces = list(zip(weights, ends[:-1], ends[1:], strict=True))
    square = mp.fsum(w * (high**3 - low**3) / 3 for w, low, high in pieces)
    return square / mp.fsum(w * (high - low) for w, low, high in pieces)


def integer_quantiles(tail: Tail, slope: float, sigma: float = 0.0) -> dict[str, list[float]]:
    """Smallest k with P(e > k) <= q, by bisection, at plain and at nearly tied q."""
    probabilities = list(PROBABILITIES)
    width = abs(slope) + sigma
    for k in sorted({0, 1, int(0.5 * width), int(3 * width)}):
        tied = tail(mp.mpf(k))
        probabilities += [float(tied * (1 - mp.mpf(HARD))), float(tied * (1 + mp.mpf(HARD)))]
    probabilities = [q for q in probabilities if 1e-300 <= q < 1]
    quantiles = []
    for q in probabilities:
        low, high = -int(800 * width + 50), int(800 * width + 50)
        if sigma:
            low, high = -int(40 * width + 5), int(40 * width + 5)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if tail(mp.mpf(middle)) <= mp.mpf(q) else (middle, high)
        quantiles.append(float(high))
    return {"q": probabilities, "k": quantiles}


def entry(
    tail: Tail,
    points: list[Any],
    *,
    variance: Any,
    cf: Callable[[Any], Any] | None,
    times: list[float] | None = None,
    quantiles: dict[str, list[float]] | None = None,
    **parameters: float,
) -> dict[str, Any]:
    """Evaluate at the floats next to the points, so that no rounding of x enters."""
    x = [float(p) for p in points]
    with mp.workdps(400):
        values = [tail(mp.mpf(p)) for p in x]
        logs = [float(mp.log(value)) for value in values]
    if times is None:
        times = [0.1 / parameters["scale"], 1.0 / parameters["scale"], 0.5, 3.0]
    record: dict[str, Any] = {
        "parameters": parameters,
        "x": x,
        "sf": [float(value) for value in values],
        "logsf": logs,
        "variance": None if variance is None else float(variance),
    }
    if cf is not None:
        record |= {"t": times, "cf": [float(cf(mp.mpf(t))) for t in times]}
    if quantiles is not None:
        record["isf"] = quantiles
    return record


def main() -> None:
    for k in (3, 400, 5000):
        relative = euler_maclaurin(k, mp.mpf(200)) / direct_sum(k, mp.mpf(200)) - 1
        assert abs(relative) < mp.mpf(10) ** -28, (k, relative)
    laws = {
        "Laplace": [laplace(scale) for scale in SCALES],
        "Gaussian": [gaussian(scale) for scale in SCALES],
        "Geometric": [geometric(scale) for scale in SCALES],
        "DiscreteGaussian": [discrete_gaussian(scale) for scale in SCALES],
        "Tulap": [tulap(scale, 0.0) for scale in SCALES]
        + [tulap(s, q) for s in (0.4, 1.0, 4.1, 30.0, 1e3, 1e6) for q in (1e-100, 1e-4, 0.1, 0.99)],
    }
    header = {
        "command": "python tests/reference/noise_laws.py",
        "tool": "mpmath",
        "version": mp.__version__,
        "python": platform.python_version(),
        "laws": laws,
    }
    target = Path(__file__).with_suffix(".json")
    target.write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
