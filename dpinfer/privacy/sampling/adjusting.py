"""The noise that a target for the population allows on a secret sample of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpinfer._validation import check_integer, check_option, check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace
from dpinfer.privacy.guarantees import ApproxDP, PureDP
from dpinfer.privacy.guarantees.amplified import Scheme
from dpinfer.privacy.sampling.amplification import amplify_inverse

NoiseKind = Literal["laplace", "geometric", "gaussian"]
Noise = Laplace | Geometric | Gaussian

MAX_RELEASES = 10**9


@dataclass(frozen=True)
class SampleAdjustment:
    """Noise for releases from a secret sample, beside what the same target costs without secrecy.

    Parameters
    ----------
    target : ApproxDP
        The guarantee for the population.
    sample_budget : ApproxDP
        The guarantee that all releases from the sample keep together.
    rate : float
        The sampling rate β.
    mechanism : Laplace, Geometric or Gaussian
        The noise of each release that the secrecy of the sample allows.
    unsampled : Laplace, Geometric or Gaussian
        The noise of each release that the target needs without it.

    See Also
    --------
    adjust_for_sampling : what builds it.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> adjustment = adjust_for_sampling(PureDP(0.1), rate=0.05)
    >>> round(adjustment.scale_ratio, 6)
    0.0883
    """

    target: ApproxDP
    sample_budget: ApproxDP
    rate: float
    mechanism: Noise
    unsampled: Noise

    @property
    def variance_ratio(self) -> float:
        """Variance of the noise relative to that without secrecy: at most 1; 1 if both are 0."""
        return _ratio(self.mechanism.variance, self.unsampled.variance)

    @property
    def scale_ratio(self) -> float:
        """Standard deviation of the noise relative to that without secrecy, as for the variance."""
        return _ratio(self.mechanism.std, self.unsampled.std)

    @property
    def weighted_variance(self) -> float:
        """Variance that the noise gives to a count of the sample that is weighted by 1/β."""
        return float(self.mechanism.variance) / self.rate**2


def adjust_for_sampling(
    target: PureDP | ApproxDP,
    *,
    rate: float,
    scheme: Scheme = "poisson",
    noise: NoiseKind = "laplace",
    sensitivity: float = 1.0,
    releases: int = 1,
) -> SampleAdjustment:
    """Noise that a target for the population allows on a secret sample.

    Parameters
    ----------
    target : PureDP or ApproxDP
        The guarantee that the population is to have.
    rate : float
        The sampling rate β, within [1e-100, 1].
    scheme : {"poisson", "without-replacement"}, default "poisson"
        How the sample is drawn, as for :func:`amplify`; it demands its neighbour relation.
    noise : {"laplace", "geometric", "gaussian"}, default "laplace"
        The law of the noise. Gaussian noise needs a target with δ > 0.
    sensitivity : float, default 1
        The sensitivity > 0 of each release on the sample under the neighbour relation of the
        target: L1, or L2 for Gaussian noise.
    releases : int, default 1
        The number >= 1 of releases from the one sample, which share its budget equally.

    Returns
    -------
    SampleAdjustment
        The noise of each release, with and without the secrecy of the sample.

    Raises
    ------
    IncompatibleReleaseError
        If the neighbour relation is not that of the scheme.
    InvalidParameterError
        If an argument is out of range, ε of the target is 0, or Gaussian noise is asked for a
        target with δ = 0.

    Notes
    -----
    All releases together get ε₁ = ln(1 + (e^{ε₂} - 1)/β), that is (ε₁, δ₁) with δ₁ = δ₂/β. Laplace
    and geometric noise have the scale kΔ/ε₁ for k releases, Gaussian noise √k times the exact σ of
    (ε₁, δ₁). The variance falls to about β² of that without secrecy where ε₂ is small against β.
    A count of the sample that estimates one of the population is weighted by 1/β, which multiplies
    the variance of the noise by 1/β²: secrecy about makes up for the weight, and pays off for what
    is inferred about rates and shares.

    References
    ----------
    Balle, B., Barthe, G. and Gaboardi, M. (2018). arXiv:1807.01647, Theorems 8 and 9.

    Examples
    --------
    >>> from dpinfer import count_confint
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> adjustment = adjust_for_sampling(PureDP(0.0824), rate=0.05)
    >>> [round(law.scale, 3) for law in (adjustment.mechanism, adjustment.unsampled)]
    [1.0, 12.136]

    A noisy count of 40.3 in the sample, with the 90 % interval for the count it stands for:

    >>> for law in (adjustment.mechanism, adjustment.unsampled):
    ...     lower, upper = count_confint(40.3, law, alpha=0.1)
    ...     print(round(float(lower), 2), round(float(upper), 2))
    38.0 42.6
    12.36 68.24
    """
    calibrate = _CALIBRATIONS[check_option(noise, "noise", _CALIBRATIONS)]
    change = check_scalar(sensitivity, "sensitivity", gt=0)
    shared = check_integer(releases, "releases", ge=1, le=MAX_RELEASES)
    budget = amplify_inverse(target, rate=rate, scheme=scheme)
    goal = target.to_approx_dp() if isinstance(target, PureDP) else target
    if goal.epsilon == 0:
        raise InvalidParameterError("target must have epsilon > 0: at 0 no noise is enough")
    return SampleAdjustment(
        goal,
        budget,
        check_scalar(rate, "rate"),
        calibrate(budget, change, shared),
        calibrate(goal, change, shared),
    )


def _ratio(part: Any, whole: Any) -> float:
    return float(part / whole) if whole > 0 else 1.0


def _laplace(budget: ApproxDP, sensitivity: float, releases: int) -> Laplace:
    return Laplace.from_epsilon(budget.epsilon / releases, sensitivity=sensitivity)


def _geometric(budget: ApproxDP, sensitivity: float, releases: int) -> Geometric:
    if not float(sensitivity).is_integer():
        raise InvalidParameterError(
            f"sensitivity must be a whole number for geometric noise, got {sensitivity}"
        )
    return Geometric.from_epsilon(budget.epsilon / releases, sensitivity=sensitivity)


def _gaussian(budget: ApproxDP, sensitivity: float, releases: int) -> Gaussian:
    if budget.delta == 0:
        raise InvalidParameterError(
            "target must have delta > 0 for Gaussian noise, which is never ε-DP: give an ApproxDP, "
            'or use noise="laplace"'
        )
    # k releases with √k·σ are, together, one with σ
    return Gaussian.from_epsilon_delta(
        budget.epsilon, budget.delta, sensitivity=sensitivity * np.sqrt(releases)
    )


_CALIBRATIONS: dict[str, Callable[[ApproxDP, float, int], Any]] = {
    "laplace": _laplace,
    "geometric": _geometric,
    "gaussian": _gaussian,
}
