"""Approximate differential privacy of a population of which a secret sample was used."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn

from dpinfer._validation import check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.guarantees._guarantee import Guarantee
from dpinfer.privacy.guarantees.approximate import ApproxDP

Scheme = Literal["poisson", "without-replacement"]
SCHEMES: tuple[Scheme, ...] = ("poisson", "without-replacement")


@dataclass(frozen=True)
class Amplification:
    """What an amplified guarantee came from.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee for the sample: of everything that was computed on it.
    rate : float
        The sampling rate, within (0, 1].
    scheme : {"poisson", "without-replacement"}
        How the sample was drawn.
    sample : str, optional
        A name for the sample.

    Raises
    ------
    InvalidParameterError
        If a field is not as described.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> Amplification(PureDP(1.0), 0.05, "poisson").sample is None
    True
    """

    guarantee: Guarantee
    rate: float
    scheme: Scheme
    sample: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidParameterError(f"guarantee must be one, got {show(self.guarantee)}")
        if self.sample is not None and not isinstance(self.sample, str):
            raise InvalidParameterError(f"sample must be a name or None, got {show(self.sample)}")
        object.__setattr__(self, "rate", check_scalar(self.rate, "rate", gt=0, le=1))
        object.__setattr__(self, "scheme", check_option(self.scheme, "scheme", SCHEMES))


@dataclass(frozen=True, repr=False)
class AmplifiedDP(ApproxDP):
    """(ε, δ)-differential privacy for a population, by the secrecy of the samples that were used.

    It is what :func:`~dpinfer.privacy.sampling.amplify` returns. It cannot be amplified again, and
    is composed only with what was computed on other samples or on the population.

    Parameters
    ----------
    epsilon, delta : float
        The ε >= 0 and the δ within [0, 1), for the population.
    sources : tuple of Amplification
        What was computed on which sample.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring populations differ by one record more, or by one that is changed.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or ``sources`` holds no :class:`Amplification`.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> from dpinfer.privacy.sampling import amplify
    >>> amplified = amplify(PureDP(1.0), rate=0.05)
    >>> round(amplified.epsilon, 6), amplified.sources[0].rate
    (0.082422, 0.05)
    >>> AmplifiedDP(0.25, 0.0, amplified.sources)
    AmplifiedDP(epsilon=0.25, delta=0.0, neighbours='add-remove', sources=<1 sample, rate 0.05>)
    """

    sources: tuple[Amplification, ...] = field(repr=False)

    def __repr__(self) -> str:
        count, rates = len(self.sources), [source.rate for source in self.sources]
        samples = f"1 sample, rate {rates[0]:g}"
        if count > 1:
            samples = f"{count} samples, rates from {min(rates):g} to {max(rates):g}"
        return f"{super().__repr__()[:-1]}, sources=<{samples}>)"

    def _check(self) -> None:
        super()._check()
        ok = isinstance(self.sources, (tuple, list)) and len(self.sources) > 0
        if not ok or not all(isinstance(source, Amplification) for source in self.sources):
            raise InvalidParameterError(
                f"sources must hold at least one Amplification, got {show(self.sources)}"
            )
        object.__setattr__(self, "sources", tuple(self.sources))

    def to_approx_dp(self, delta: float) -> AmplifiedDP:
        """(ε', δ')-differential privacy at another δ', which remembers the samples.

        Parameters
        ----------
        delta : float
            The δ', at least that of the guarantee.

        Returns
        -------
        AmplifiedDP
            The guarantee (ε', δ').

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [0, 1), or no finite ε holds at it.
        """
        chance = check_scalar(delta, "delta", ge=0, lt=1)
        return replace(self, epsilon=self.epsilon_at(chance), delta=chance)

    def _as_pure(self, kind: str) -> NoReturn:
        self._refuse(
            kind,
            "it holds for a population by the secrecy of a sample, and that must stay on record; "
            "convert the guarantee for the sample before it is amplified",
        )
