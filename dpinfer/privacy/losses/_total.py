"""A sum of independent privacy losses, and the tilt at which its tail is best looked at."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.privacy.losses._laws.law import ComplexArray, LossLaw, slope

Parts = tuple[tuple[LossLaw, int], ...]

NEGLIGIBLE = 40.0
"""e^-40 = 4e-18 of the leading term is below rounding."""

FLAT = 60.0


class Total:
    """The sum of ``count`` losses of each law."""

    def __init__(self, parts: Iterable[tuple[LossLaw, int]]) -> None:
        self.parts: Parts = tuple(parts)
        self.mean = float(sum(count * law.mean for law, count in self.parts))
        self.variance = float(sum(count * law.variance for law, count in self.parts))
        self.largest = float(sum(count * law.largest for law, count in self.parts))

    def cgf(self, z: ComplexArray) -> ComplexArray:
        """Return ln E[e^(zL)]."""
        total = np.zeros(z.shape, dtype=np.complex128)
        for law, count in self.parts:
            # part by part, as inf times a complex number is not a number
            part = law.cgf(z)
            total.real += count * part.real
            total.imag += count * part.imag
        return total

    def real_cgf(self, theta: float) -> float:
        """Return ln E[e^(θL)] at one real θ."""
        return float(self.cgf(np.array([complex(theta)]))[0].real)

    def slope(self, theta: float) -> float:
        """Return the mean of the law tilted by θ."""
        return float(sum(count * slope(law, theta) for law, count in self.parts))

    def noise(self, z: ComplexArray) -> FloatArray:
        """Absolute error of :meth:`cgf`, in roundings."""
        theta = float(z.real.flat[0])
        total = np.zeros(z.shape)
        for law, count in self.parts:
            total += 4.0 * count * (np.abs(law.cgf(z).real) + law.noise(theta))
        return total

    def saddle(self, epsilon: float, width: float = 0.0) -> float:
        """Where θ > 0 minimises K(θ) - θε plus the logarithm of the payoff's transform.

        That is 1/(θ(θ+1)), or on a lattice of the given width, with ε its first atom of interest,
        1/((1-e^(-θh))(1-e^(-(θ+1)h))). It falls from its pole at 0, so that θ > 0 always exists.
        """
        from scipy.optimize import brentq

        def excess(log_theta: float) -> float:
            theta = float(np.exp(log_theta))
            return self.slope(theta) - epsilon - _pull(theta, width) - _pull(theta + 1.0, width)

        distance = epsilon - self.mean
        variance = max(self.variance, 1e-300)
        # the root of vθ² - dθ - 1, the law taken as normal
        root = float(np.hypot(distance, 2.0 * np.sqrt(variance)))
        guess = 0.5 * (distance + root) / variance if distance > 0 else 2.0 / (root - distance)
        lower = upper = float(np.log(guess))
        step = 0.5
        if excess(lower) > 0:
            while excess(lower := lower - step) > 0:
                step *= 2.0
            upper = min(lower + step, upper)
        else:
            while excess(upper := upper + step) < 0:
                step *= 2.0
                if np.exp(upper) * width > FLAT:  # nothing is above the atom
                    return float(np.exp(upper))
            lower = max(upper - step, lower)
        return float(np.exp(brentq(excess, lower, upper, xtol=1e-3, rtol=1e-3)))

    def reach(self, theta: float, epsilon: float) -> float:
        """Period R such that a trapezoid rule of step 2π/R errs by less than rounding.

        The rule adds up the payoff e^(-θ(x+mR)) over all m with x + mR > 0, where x = L - ε. For
        m > 0 it is at most e^(-λ(x+mR)) for every λ in (0, θ], and for m < 0 at most e^(ν(x+mR))
        for every ν > 0, whose means under the tilted law are known.
        """
        here = self.real_cgf(theta)
        # a payoff of δ is smaller than one of a probability, by 1/(1+θ) or so
        small = NEGLIGIBLE + float(np.log1p(theta))
        spread = 1.0 / np.sqrt(max(self.variance, 1e-300))
        before = [theta, 0.5 * theta, 0.25 * theta, 0.125 * theta]
        above = [theta * f for f in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)] + [spread, 4.0 * spread]
        left = min((self.real_cgf(theta - x) - here + x * epsilon + small) / x for x in before)
        right = min((self.real_cgf(theta + x) - here - x * epsilon + small) / x for x in above)
        return float(max(left, right))


def _pull(theta: float, width: float) -> float:
    """h/(e^(θh) - 1), which is 1/θ for a width of 0."""
    x = theta * width
    return 1.0 / theta if x == 0 else width / float(np.expm1(min(x, 700.0)))
