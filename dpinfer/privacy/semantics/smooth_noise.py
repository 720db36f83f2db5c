"""Noise in proportion to a smooth sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._numerics.roots import find_root
from dpinfer._validation import (
    RNG,
    FloatArray,
    check_array,
    check_option,
    check_rng,
    check_scalar,
    check_shape,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.guarantees import ApproxDP, Guarantee, PureDP
from dpinfer.privacy.semantics.smooth_sensitivity import SmoothSensitivity

Kind = Literal["cauchy", "laplace"]
KINDS: tuple[Kind, ...] = ("cauchy", "laplace")
_LEAST = 1e-100


@dataclass(frozen=True)
class SmoothNoise:
    """Noise whose scale is a smooth sensitivity times a factor.

    Parameters
    ----------
    kind : {"cauchy", "laplace"}
        The law of the noise.
    beta : float
        The smoothness β > 0 that the sensitivity has to have at least.
    factor : float
        The scale of the noise for a smooth sensitivity of 1, > 0.

    Raises
    ------
    InvalidParameterError
        If a field is out of range.

    Notes
    -----
    The noise moves by at most 1/factor of its scale between neighbours, and its scale by a factor
    of at most e^β. With S the smooth sensitivity and Z standard noise, f + S·factor·Z is

    - Cauchy: ε-DP for ε = 1/factor + β, as the log density has a slope of at most 1, and changes
      by at most β when the scale does;
    - Laplace: (ε, δ)-DP for ε = 1/factor + η, η ≥ β and
      δ = (1 - e^{-β})·exp(-(η + β)/(e^β - 1)), what two Laplace laws of scales 1 and e^{-β} have
      at η.

    The scale depends on the confidential data and is not published, so that no interval for the
    answer follows from the release alone.

    References
    ----------
    Nissim, K., Raskhodnikova, S. and Smith, A. (2007). Smooth sensitivity and sampling in private
    data analysis. doi:10.1145/1250790.1250803, Lemmas 2.6 to 2.9, with larger factors.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import ApproxDP, PureDP
    >>> SmoothNoise.for_guarantee(PureDP(1.0, neighbours="replace"))
    SmoothNoise(kind='cauchy', beta=0.5, factor=2.0)
    >>> noise = SmoothNoise.for_guarantee(ApproxDP(1.0, 1e-6, neighbours="replace"))
    >>> noise.kind, round(noise.beta, 6)
    ('laplace', 0.049694)
    """

    kind: Kind
    beta: float
    factor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", check_option(self.kind, "kind", KINDS))
        for name in ("beta", "factor"):
            value = check_scalar(getattr(self, name), name, gt=0, le=1e100)
            object.__setattr__(self, name, value)

    @classmethod
    def for_guarantee(cls, guarantee: Guarantee, *, share: float = 0.5) -> SmoothNoise:
        """Noise that gives a guarantee: Cauchy for ε-DP, Laplace for (ε, δ)-DP.

        Parameters
        ----------
        guarantee : PureDP or ApproxDP
            The guarantee, with ``neighbours="replace"`` and ε > 0.
        share : float, default 0.5
            The share, within (0, 1), of ε that pays for the answer's move; the rest pays for the
            change of the scale. A larger share makes the factor smaller, and β too.

        Returns
        -------
        SmoothNoise
            The noise.

        Raises
        ------
        InvalidParameterError
            If the guarantee is of another kind, or ε is 0.
        IncompatibleReleaseError
            If the guarantee is for adding or removing records.
        """
        part = check_scalar(share, "share", gt=0, lt=1)
        if not isinstance(guarantee, (PureDP, ApproxDP)):
            raise InvalidParameterError(
                f"guarantee must be a PureDP or an ApproxDP, got {show(guarantee)}"
            )
        if guarantee.neighbours != "replace":
            raise IncompatibleReleaseError(
                'guarantee must have neighbours="replace", got "add-remove": the sensitivities '
                "here are for a public number of records"
            )
        move, rest = part * guarantee.epsilon, (1.0 - part) * guarantee.epsilon
        if min(move, rest) < _LEAST:
            raise InvalidParameterError(
                f"epsilon must be > 0, and both of its shares at least {_LEAST:g}, got "
                f"{guarantee.epsilon} with shares {move} and {rest}"
            )
        delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
        if delta == 0:
            return cls("cauchy", rest, 1.0 / move)
        return cls("laplace", _laplace_beta(rest, delta), 1.0 / move)

    def scale(self, sensitivity: SmoothSensitivity) -> float:
        """Scale of the noise for a sensitivity, which is confidential.

        Parameters
        ----------
        sensitivity : SmoothSensitivity
            The smooth sensitivity, of a smoothness of at most ``beta``.

        Returns
        -------
        float
            The smooth bound times ``factor``.

        Raises
        ------
        InvalidParameterError
            If the sensitivity is less smooth than this noise needs.
        """
        if not isinstance(sensitivity, SmoothSensitivity):
            raise InvalidParameterError(
                f"sensitivity must be a SmoothSensitivity, got {show(sensitivity)}"
            )
        if sensitivity.beta > self.beta * (1.0 + 1e-12):
            raise InvalidParameterError(
                f"sensitivity must be smooth with beta <= {self.beta}, got {sensitivity.beta}: "
                "compute it with the beta of the noise"
            )
        return sensitivity.value * self.factor

    def rvs(
        self,
        sensitivity: SmoothSensitivity,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: RNG = None,
    ) -> Any:
        """Draw noise, for simulation: not hardened against floating-point or timing attacks.

        Parameters
        ----------
        sensitivity : SmoothSensitivity
            The smooth sensitivity at the data.
        size : int or tuple of int, optional
            The shape; by default one draw.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        float or array of float
            The noise.
        """
        shape = () if size is None else check_shape(size)
        draws = {"cauchy": "standard_cauchy", "laplace": "laplace"}[self.kind]
        generator = check_rng(rng)
        noise = getattr(generator, draws)(size=shape)
        return (self.scale(sensitivity) * np.asarray(noise))[()]

    def isf(self, q: ArrayLike, sensitivity: SmoothSensitivity) -> Any:
        """Upper quantile of the noise, for the curator: the scale is confidential.

        Parameters
        ----------
        q : float or array of float
            The probability, within [1e-300, 1), that the noise is larger.
        sensitivity : SmoothSensitivity
            The smooth sensitivity at the data.

        Returns
        -------
        float or array of float
            The quantile.
        """
        tail = check_array(q, "q", gt=0, ge=1e-300, lt=1)
        least = np.minimum(tail, 1.0 - tail)
        cauchy = self.kind == "cauchy"
        standard = 1.0 / np.tan(np.pi * least) if cauchy else -np.log(2.0 * least)
        signed = np.where(tail < 0.5, standard, np.where(tail > 0.5, -standard, 0.0))
        return (self.scale(sensitivity) * signed)[()]


def _laplace_beta(rest: float, delta: float) -> float:
    """Largest β ≤ η, η = ``rest``, for which two Laplace laws have at most δ at η."""

    def spare(log_beta: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        return np.asarray(np.log(delta) - _laplace_log_delta(np.exp(log_beta), rest))

    # small enough even where δ is the smallest float
    low, high = np.array([np.log(rest) - 10.0 - np.log1p(rest)]), np.array([np.log(rest)])
    if spare(high, np.array([0]))[0] >= 0:
        return rest
    return float(np.exp(find_root(spare, low, high, expand=True)[0][0]))


def _laplace_log_delta(beta: FloatArray, rest: float) -> FloatArray:
    """Ln δ at ε = η of Laplace laws of scales 1 and e^{-β}."""
    return np.asarray(np.log(-np.expm1(-beta)) - (rest + beta) / np.expm1(beta))
