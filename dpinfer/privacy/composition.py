"""Composition: several releases from the same data, or each from its own part of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import Any, Literal, Self

import numpy as np
from scipy import special

from dpinfer._check import (
    FloatArray,
    Neighbours,
    check_integer,
    check_items,
    check_option,
    check_scalar,
    show,
)
from dpinfer._numerics.counts import bernstein_radius, binom_pmf
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy._loss_laws import GaussianLoss, LossLaw, ResponseLoss
from dpinfer.privacy.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PairGuarantee,
    PureDP,
    add_kinds,
    add_up,
    check_delta_within,
    check_one_relation,
)
from dpinfer.privacy.loss import PrivacyLoss

# The sum of k privacy losses of randomized response: (k - 2i)ε with i lies, i binomial.


_LOG_NEGLIGIBLE = 80.0
"""Terms below e^-80 of the largest probability are left out: the smallest factor is about e^-40."""

_SMALL = 0.05
"""Below this ε a lie is so close to probability 1/2 that its difference from 1/2 matters."""

_LARGE = 50.0
"""Above this ε no lie is expected, among however many answers."""


def losses_delta(at: FloatArray, epsilon: float, count: int) -> FloatArray:
    """δ at each ε: Σ P(i)·(1 - e^(ε - loss)) over the losses above ε."""
    if epsilon == 0:
        return np.zeros(at.shape)
    with np.errstate(over="ignore"):
        last = np.ceil(0.5 * (count - at / epsilon)) - 1.0
    return np.array([_excess(*pair, epsilon, count) for pair in zip(last, at, strict=True)])


def _losses_epsilon(delta: float, epsilon: float, count: int) -> float:
    """ε >= 0 at a δ in [0, 1): in closed form between the neighbouring losses around it."""
    if epsilon == 0 or losses_delta(np.zeros(1), epsilon, count)[0] <= delta:
        return 0.0
    # δ at the loss of i lies is at most the given one for i = low, and above it for i = high
    low, high = 0, count // 2 + 1
    while high - low > 1:
        middle = (low + high) // 2
        at = (count - 2 * middle) * epsilon
        below = _excess(middle - 1.0, at, epsilon, count) <= delta
        low, high = (middle, high) if below else (low, middle)
    at = (count - 2 * low) * epsilon
    least = _excess(low - 1.0, at, epsilon, count)
    # with s = loss - ε, δ = least + (1 - e^-s)·slope
    lies, pmf = _terms(low, epsilon, count)
    slope = (pmf * np.exp(-2.0 * (low - lies) * epsilon)).sum()
    return float(at + np.log1p(-min((delta - least) / slope, 1.0)))


def _excess(last: float, at: float, epsilon: float, count: int) -> float:
    """Sum of P(i)·(1 - e^(at - loss)) over at most ``last`` lies."""
    if last < 0:
        return 0.0
    lies, pmf = _terms(last, epsilon, count)
    return float((pmf * -np.expm1(np.minimum(at - (count - 2.0 * lies) * epsilon, 0.0))).sum())


def _terms(last: float, epsilon: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Numbers of lies up to ``last`` that matter, and their probabilities."""
    lie = float(special.expit(-epsilon))
    centre = min(last, count * lie)
    radius = float(bernstein_radius(np.array(count * lie * (1.0 - lie) + 1.0), _LOG_NEGLIGIBLE))
    lies = np.arange(max(np.floor(centre - radius), 0.0), min(last, centre + radius) + 1.0)
    trials = np.array(float(count))
    if epsilon > _LARGE:
        # few lies, each of tiny probability: ratios of neighbouring probabilities
        ratios = np.log((count - lies[1:] + 1.0) / lies[1:]) - epsilon
        log_pmf = np.concatenate([[0.0], np.cumsum(ratios)]) - count * np.log1p(np.exp(-epsilon))
        return lies, np.exp(log_pmf)
    if epsilon >= _SMALL:
        return lies, binom_pmf(lies, trials, np.array(lie))
    # i - k·P(lie) = (i - k/2) + k·tanh(ε/2)/2, without rounding the probability of a lie
    excess = (lies - 0.5 * count) + 0.5 * count * np.tanh(0.5 * epsilon)
    return lies, binom_pmf(lies, trials, np.array(lie), excess=excess)


def check_guarantee(value: Any, name: str) -> Guarantee:
    """Return ``value`` if it is a guarantee."""
    if isinstance(value, Guarantee):
        return value
    raise InvalidParameterError(
        f"{name} must be a guarantee such as PureDP(1.0), got {show(value)}: that of a mechanism "
        "is guarantee_of(mechanism, sensitivity)"
    )


def check_guarantees(value: Any) -> list[Guarantee]:
    """Return at least one guarantee, all of one neighbour relation, as a list."""
    found = check_items(value, "guarantees", "guarantees")
    if not found:
        raise InvalidParameterError("guarantees must hold at least one guarantee, got none")
    for at, item in enumerate(found):
        if not isinstance(item, Guarantee):
            check_guarantee(item, f"guarantees[{at}]")
    check_one_relation(found)
    return found


def check_pairs(value: Any) -> tuple[FloatArray, FloatArray, Neighbours]:
    """Return ε and δ of guarantees that are each a pair and not amplified, and their relation."""
    found: list[Any] = check_guarantees(value)
    for guarantee in found:
        if isinstance(guarantee, ApproxDP) and guarantee._samples:
            raise IncompatibleReleaseError(
                f"guarantees must not be amplified here, got {show(guarantee)}: compose what was "
                "computed on one sample first and amplify once; for steps on fresh samples use "
                "SubsampledLoss"
            )
        if not isinstance(guarantee, (PureDP, ApproxDP)):
            raise InvalidParameterError(
                f"guarantees must be PureDP or ApproxDP here, got {show(guarantee)}: use compose"
            )
    pairs = [(one.epsilon, getattr(one, "delta", 0.0)) for one in found]
    epsilons, deltas = np.array(pairs).T
    return epsilons, deltas, found[0].neighbours


MAX_COUNT = 10**9


@dataclass(frozen=True, repr=False)
class RepeatedDP(PairGuarantee):
    """All the (ε', δ') of k mechanisms, each (ε, δ)-DP, that are run one after the other.

    Parameters
    ----------
    epsilon, delta : float
        The ε, within [0, 1e100], and the δ, within [0, 1), of each mechanism.
    count : int
        The number k of mechanisms, from 1 to 10⁹.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    The worst case is k times randomized response with ε, each of which tells everything with
    probability δ. With J truthful answers its privacy loss is (2J - k)ε, J binomial, so that

        δ' = 1 - (1-δ)ᵏ·(1 - Σ P(J = j)·max(1 - exp(ε' - (2j-k)ε), 0)).

    No smaller δ' holds for all such mechanisms; a given mechanism may do better. The sum has
    positive terms only, and is accurate relative to itself. Between two values of the loss
    exp(ε') is linear in δ', so that :meth:`epsilon_at` is exact as well.

    References
    ----------
    Kairouz, Oh and Viswanath (2017), The composition theorem for differential privacy,
    doi:10.1109/TIT.2017.2685505, Theorem 3.3.

    Examples
    --------
    >>> total = RepeatedDP(0.1, 0.0, 100)
    >>> round(total.epsilon_at(1e-6), 6), round(total.delta_at(10.0), 12)
    (4.774568, 0.0)
    """

    count: int

    def _check(self) -> None:
        object.__setattr__(self, "count", check_integer(self.count, "count", ge=1, le=MAX_COUNT))

    @property
    def _times(self) -> int:
        return self.count

    @property
    def _told(self) -> float:
        """Probability 1 - (1-δ)ᵏ that some mechanism tells everything."""
        return float(-np.expm1(self.count * np.log1p(-self.delta)))

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        inner = losses_delta(epsilon.ravel(), self.epsilon, self.count).reshape(epsilon.shape)
        return self._told + (1.0 - self._told) * inner

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        left = check_delta_within(delta, self._told, self)
        # (δ' - s)/(1 - s) with s = 1 - (1-δ)ᵏ
        inner = left * np.exp(-self.count * np.log1p(-self.delta))
        found = [_losses_epsilon(one, self.epsilon, self.count) for one in inner.flat]
        return np.reshape(found, delta.shape)

    def _group(self, size: int) -> Self:
        single = ApproxDP(self.epsilon, self.delta).group(size)
        return replace(self, epsilon=single.epsilon, delta=single.delta)


_LEAST_LOSS = 1e-12
_PARTS = (PureDP, ApproxDP, GDP, RepeatedDP)


@dataclass(frozen=True, repr=False)
class ComposedDP(Guarantee):
    """All the (ε', δ') of mechanisms with guarantees that differ, run one after the other.

    It is what :func:`compose` returns with ``method="optimal"``.

    Parameters
    ----------
    parts : tuple of Guarantee
        The guarantee of each mechanism: PureDP, ApproxDP, RepeatedDP or GDP, not amplified.
    neighbours : {"add-remove", "replace"}, default "add-remove"
        Whether neighbouring data sets differ by one record more, or by one that is changed.

    Notes
    -----
    The worst case of (ε, δ) tells everything with probability δ, and else is randomized response
    with ε; that of GDP is the Gaussian. δ' is that of all of these together,

        δ' = 1 - Π(1-δᵢ)·(1 - E[(1 - e^(ε' - L))₊]),

    with L the sum of their losses: no smaller δ' holds for all such mechanisms (Murtagh and
    Vadhan). The sum over all outcomes is exponentially long; L is summed by its transform
    instead, and the upper of the bounds of :class:`~dpinfer.privacy.PrivacyLoss` is given.

    References
    ----------
    Murtagh and Vadhan (2016), The complexity of computing the optimal composition of differential
    privacy, doi:10.1007/978-3-662-49096-9_7, Theorem 1.5. Zhu, Dong and Wang (2022),
    arXiv:2106.08567, Theorem 10.

    Examples
    --------
    >>> from dpinfer.privacy import ApproxDP, PureDP, compose
    >>> total = compose([PureDP(0.1)] * 30 + [ApproxDP(0.3, 1e-8)] * 5, method="optimal")
    >>> round(total.epsilon_at(1e-6), 6)
    3.541743
    """

    parts: tuple[Guarantee, ...]

    def _check(self) -> None:
        for part in self.parts:
            amplified = isinstance(part, ApproxDP) and part._samples
            if amplified or not isinstance(part, _PARTS):
                raise InvalidParameterError(
                    "guarantees must be PureDP, ApproxDP, RepeatedDP or GDP, not amplified, for "
                    f'their optimal composition, got {show(part)}: use method="sum"'
                )

    @cached_property
    def _told(self) -> float:
        """The probability with which some mechanism tells everything."""
        kept = [
            part._times * np.log1p(-part.delta)
            for part in self.parts
            if isinstance(part, PairGuarantee)
        ]
        return float(-np.expm1(fsum(kept)))

    @cached_property
    def _added(self) -> float:
        """Losses too small for a law of their own, which add up."""
        return fsum(count * epsilon for epsilon, count in self._responses if epsilon < _LEAST_LOSS)

    @property
    def _responses(self) -> list[tuple[float, int]]:
        return [
            (part.epsilon, part._times if isinstance(part, PairGuarantee) else 1)
            for part in self.parts
            if isinstance(part, (PureDP, PairGuarantee))
        ]

    @cached_property
    def _loss(self) -> PrivacyLoss:
        losses: list[tuple[LossLaw, int]] = [
            (ResponseLoss(epsilon, float(special.expit(epsilon))), count)
            for epsilon, count in self._responses
            if epsilon >= _LEAST_LOSS
        ]
        squared = fsum(part.mu**2 for part in self.parts if isinstance(part, GDP))
        return PrivacyLoss([*losses, (GaussianLoss(squared), 1)] if squared else losses)

    def _delta_at(self, epsilon: FloatArray) -> FloatArray:
        inner = self._loss.delta_bounds(np.maximum(epsilon - self._added, 0.0))[1]
        return self._told + (1.0 - self._told) * np.asarray(inner)

    def _epsilon_at(self, delta: FloatArray) -> FloatArray:
        left = check_delta_within(delta, self._told, self)
        inner = np.minimum(left / (1.0 - self._told), np.nextafter(1.0, 0.0))
        return np.asarray(self._loss.epsilon_bounds(inner)[1]) + self._added

    def _group(self, size: int) -> Self:
        return replace(self, parts=tuple(part.group(size) for part in self.parts))


def compose_optimal(guarantee: PureDP | ApproxDP, count: int) -> RepeatedDP:
    """Optimal composition of k mechanisms with one and the same (ε, δ).

    Parameters
    ----------
    guarantee : PureDP or ApproxDP
        The guarantee of each mechanism, not amplified. The mechanisms may differ, and be chosen
        adaptively.
    count : int
        The number k of mechanisms, from 1 to 10⁹.

    Returns
    -------
    RepeatedDP
        The curve of all (ε', δ') that follow; ``.to_approx_dp(delta)`` is one of them.

    See Also
    --------
    compose : the sum of guarantees of any kind.
    compose_advanced : a bound for pairs (ε, δ) that differ.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> round(compose_optimal(PureDP(0.1), 100).epsilon_at(1e-6), 6)
    4.774568
    """
    (epsilon,), (delta,), relation = check_pairs([guarantee])
    return RepeatedDP(epsilon, delta, count, neighbours=relation)


def compose(
    guarantees: Iterable[Guarantee],
    *,
    delta: float | None = None,
    method: Literal["sum", "optimal"] = "sum",
) -> Guarantee:
    """Guarantee of several releases from the same data, each chosen with a view to those before.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        The guarantee of each release, all for one neighbour relation.
    delta : float, optional
        The total δ, within [0, 1), at which the answer is to be an :class:`ApproxDP`. It must be
        given where (ε, δ) guarantees with δ > 0 meet GDP, zCDP or RDP, and covers all of them.
    method : {"sum", "optimal"}, default "sum"
        The sum of the parameters; or, for PureDP, ApproxDP and GDP that may differ, all the (ε, δ)
        that hold for every such choice of mechanisms, of which none can be improved.

    Returns
    -------
    Guarantee
        Of the weakest kind among the releases, in the order PureDP, GDP, ZCDP, RenyiCurve, RDP.
        :class:`ApproxDP` with ``delta``, or where all releases are pairs (ε, δ) or pure;
        :class:`AmplifiedDP` where a release is; :class:`ComposedDP` with ``method="optimal"``.

    Raises
    ------
    IncompatibleReleaseError
        If neighbour relations are mixed, or amplified guarantees may be for the same sample.
    InvalidParameterError
        If there is no guarantee, or ``delta`` is missing or too small.

    Notes
    -----
    Σε, Σδ; Σρ; √Σμ²; Σγ at each order. What holds with more than one kind is first converted to
    the weakest of them, which loses something: a numerical total of the mechanisms is smaller.
    Amplified guarantees are only composed for different samples, drawn independently of each
    other: several releases from one sample are composed first, and amplified once.

    References
    ----------
    Dwork and Roth (2014), doi:10.1561/0400000042, Theorem 3.16. Bun and Steinke (2016),
    doi:10.1007/978-3-662-53641-4_24, Lemma 1.7. Dong, Roth and Su (2022), doi:10.1111/rssb.12454,
    Corollary 2. Mironov (2017), doi:10.1109/CSF.2017.11, Proposition 1.

    Examples
    --------
    >>> from dpinfer.privacy import GDP, ZCDP, ApproxDP, PureDP
    >>> compose([PureDP(0.5), PureDP(1.0)])
    PureDP(epsilon=1.5, neighbours='add-remove')
    >>> compose([ZCDP(0.5), GDP(1.0)])
    ZCDP(rho=1.0, neighbours='add-remove')
    >>> total = compose([ZCDP(0.5), ApproxDP(1.0, 1e-7)], delta=1e-6)
    >>> round(total.epsilon, 4), total.delta
    (6.243, 1e-06)
    >>> best = compose([PureDP(0.1), PureDP(0.2)] * 20, delta=1e-6, method="optimal")
    >>> round(best.epsilon, 6)
    4.516148
    """
    at = None if delta is None else check_scalar(delta, "delta", ge=0, lt=1)
    parts = check_guarantees(guarantees)
    if check_option(method, "method", ("sum", "optimal")) == "sum":
        return add_up(parts, at)
    total = ComposedDP(tuple(parts), neighbours=parts[0].neighbours)
    return total if at is None else total.to_approx_dp(at)


def compose_parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Guarantee of releases from disjoint parts of the data.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        The guarantee of the release from each part, all of one kind and one neighbour relation,
        none amplified. Which part a record belongs to must be a property of the record itself.

    Returns
    -------
    Guarantee
        Of the same kind. For adding or removing a record the largest; for replacing one what the
        two largest give together, as the record can leave one part and enter another.

    Notes
    -----
    Under ``"replace"`` each guarantee is that of the release as a function of all the data: a
    record that enters or leaves its part is a replacement too. Of pairs (ε, δ) the largest ε and
    the largest δ are taken, whichever release they come from.

    References
    ----------
    McSherry (2009), Privacy integrated queries, doi:10.1145/1559845.1559850, Theorem 4.
    Guerra-Balboa, Miranda-Pascual, Parra-Arnau and Strufe (2024), arXiv:2308.14649 (other neighbour
    relations).

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> compose_parallel([PureDP(0.5), PureDP(1.0), PureDP(0.75)])
    PureDP(epsilon=1.0, neighbours='add-remove')
    >>> compose_parallel([PureDP(e, neighbours="replace") for e in (0.5, 1.0, 0.75)])
    PureDP(epsilon=1.75, neighbours='replace')
    """
    parts = check_guarantees(guarantees)
    kind = type(parts[0])
    if any(type(part) is not kind for part in parts):
        listed = ", ".join(sorted({type(part).__name__ for part in parts}))
        raise InvalidParameterError(
            f"guarantees must be of one kind to be composed in parallel, got {listed}: convert them"
        )
    if any(isinstance(part, ApproxDP) and part._samples for part in parts):
        raise IncompatibleReleaseError(
            "guarantees must not be amplified here: compose what was computed on the parts of one "
            "sample first, and amplify once"
        )
    affected = 1 if parts[0].neighbours == "add-remove" else 2
    if kind is ApproxDP:
        *pairs, relation = check_pairs(parts)
        epsilon, delta = (fsum(np.sort(values)[-affected:]) for values in pairs)
        return ApproxDP(epsilon, delta, neighbours=relation)
    if kind not in (PureDP, GDP, ZCDP, RDP):
        raise InvalidParameterError(
            f"guarantees of kind {kind.__name__} cannot be composed in parallel: convert them with "
            "to_approx_dp(delta) or to_zcdp()"
        )
    return add_kinds(parts, affected)


def compose_advanced(
    guarantees: Iterable[PureDP | ApproxDP],
    delta: float,
    *,
    method: Literal["standard", "kairouz"] = "standard",
) -> ApproxDP:
    """Advanced composition: an ε that grows with the root of the number of releases.

    Parameters
    ----------
    guarantees : iterable of PureDP or ApproxDP
        The guarantee of each release, all for one neighbour relation, none amplified.
    delta : float
        The total δ, within (0, 1): more than the releases use by themselves.
    method : {"standard", "kairouz"}, default "standard"
        ε' = Σε²/2 + √(2·Σε²·ln(1/δ'')), or the smallest of three bounds of Kairouz, Oh and
        Viswanath, which is never larger.

    Returns
    -------
    ApproxDP
        The guarantee (ε', δ). It can be worse than the plain sum with ``"standard"``.

    Notes
    -----
    δ'' is what is left of δ: 1 - δ = (1 - δ'')·Π(1 - δᵢ). The three bounds of ``"kairouz"`` are Σε
    and D + √(2·Σε²·ln(1/δ'')) and D + √(2·Σε²·ln(e + √(Σε²)/δ'')) with D = Σ ε·tanh(ε/2). For equal
    guarantees :func:`compose_optimal` is exact.

    References
    ----------
    Dwork, Rothblum and Vadhan (2010), Boosting and differential privacy, doi:10.1109/FOCS.2010.12.
    Bun and Steinke (2016), doi:10.1007/978-3-662-53641-4_24, Propositions 1.3 and 1.4, whose
    combination is the standard bound. Kairouz, Oh and Viswanath (2017),
    doi:10.1109/TIT.2017.2685505, Theorem 3.5.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> round(compose_advanced([PureDP(0.1)] * 100, 1e-6).epsilon, 6)
    5.756522
    >>> round(compose_advanced([PureDP(0.1)] * 100, 1e-6, method="kairouz").epsilon, 6)
    5.756106
    """
    losses, own, relation = check_pairs(guarantees)
    total = check_scalar(delta, "delta", gt=0, lt=1)
    kairouz = check_option(method, "method", ("standard", "kairouz")) == "kairouz"
    left = total
    if own.any():
        # 1 - (1 - δ)/Π(1 - δᵢ), without cancellation
        left = -float(np.expm1(np.log1p(-total) - fsum(np.log1p(-own))))
    if left <= 0:
        raise InvalidParameterError(
            f"delta must be larger than what the guarantees use by themselves, got {total}"
        )
    return ApproxDP(_advanced(losses, -np.log(left), kairouz), total, neighbours=relation)


@np.errstate(over="ignore")  # an infinite bound is refused by the guarantee
def _advanced(losses: FloatArray, log_inverse: float, kairouz: bool) -> float:
    squared = fsum(np.square(losses))
    if not kairouz:
        return 0.5 * squared + float(np.sqrt(2.0 * squared) * np.sqrt(log_inverse))
    drift = fsum(losses * np.tanh(0.5 * losses))
    # ln(e + √(Σε²)/δ)
    other = log_inverse + 0.5 * np.log(squared) if squared else -np.inf
    smaller = min(log_inverse, float(np.logaddexp(1.0, other)))
    return min(fsum(losses), drift + float(np.sqrt(2.0 * squared) * np.sqrt(smaller)))
