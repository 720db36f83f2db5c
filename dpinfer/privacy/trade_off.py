"""How well an attacker can tell neighbouring data sets apart: level, power and their trade-off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_flag, check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy._divergences import Curve, DivergenceCurve
from dpinfer.privacy._protection import curve_of, guarantee_for, pure_epsilon
from dpinfer.privacy.guarantees import RDP, Guarantee

if TYPE_CHECKING:
    import pandas as pd


_LEAST_LOSS = 1e-300
_GRID = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class TradeOff:
    """The largest power of any test between neighbouring data sets, at every level.

    Parameters
    ----------
    protection : Guarantee, mechanism, PrivacyLoss, PairLoss, pair of laws or function
        What protects the data; laws and functions as :func:`privacy_loss` takes them. A statement
        is about the neighbours of the guarantee: data sets that differ by one record more or less,
        or by one that is replaced; for a mechanism, about those for which the sensitivity holds,
        and for a channel about two truths.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records in which the data sets differ.

    Notes
    -----
    The trade-off function f of a level α, the least probability of the error of the second kind,
    is one minus the power. The curves of guarantees and of noise are concave and symmetric: the
    least level of a power β is 1 - power(1 - β). That of a channel or of a pair of laws is, at each
    level, the largest of those of its ordered pairs of truths, and need not be concave; of one
    pair, ``privacy_loss(..., pair=)``, it is concave and need not be symmetric. All are
    exact for mechanisms and privacy losses, Gaussian differential privacy, and pure and approximate
    differential privacy, each of which has a mechanism that attains the whole curve. Of Rényi and
    zero-concentrated differential privacy they are what the divergences allow a decision to do.
    Each of their points is attained, by a mechanism that releases that decision and nothing else,
    but no mechanism attains all of them, and most have much less power.

    References
    ----------
    Wasserman and Zhou (2010), A statistical framework for differential privacy,
    doi:10.1198/jasa.2009.tm08651, Theorem 2.4. Dong, Roth and Su (2022), doi:10.1111/rssb.12454,
    Definitions 1 to 3. Kifer et al. (2022), Bayesian and frequentist semantics for common
    variations of differential privacy, arXiv:2209.03310, Section 6.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> curve = TradeOff(PureDP(1.0))
    >>> curve.power([0.01, 0.05, 0.1]).round(3)
    array([0.027, 0.136, 0.272])
    >>> round(float(curve.level(0.136)), 3)
    0.05
    >>> round(float(curve.pbdp_delta(0.5)), 6)
    0.813676
    """

    protection: Any
    sensitivity: float = 1.0
    group: int = 1
    _curve: Curve = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        curve = curve_of(self.protection, self.sensitivity, self.group)
        object.__setattr__(self, "_curve", curve)

    def power(self, alpha: ArrayLike) -> Any:
        """Largest power of a test at a level within [0, 1], in the shape of ``alpha``.

        It is at least ``alpha``; at level 0 the probability with which the data sets can be told
        apart for certain.
        """
        level = check_array(alpha, "alpha", ge=0, le=1)
        found = np.maximum(_inside(self._curve.power, level), level)
        return np.where(level > 0, found, self._curve.at_zero)[()]

    def type_two_error(self, alpha: ArrayLike) -> Any:
        """Smallest probability of an error of the second kind at a level: one minus `power`."""
        return 1.0 - self.power(alpha)

    def level(self, power: ArrayLike) -> Any:
        """Smallest level, at most ``power``, at which a test has a power within [0, 1]."""
        wanted = check_array(power, "power", ge=0, le=1)
        found = np.minimum(_inside(self._curve.level, wanted), wanted)
        return np.where(wanted < 1, found, self._curve.at_one)[()]

    def pbdp_delta(self, epsilon: ArrayLike, *, strict: bool = False) -> Any:
        """Largest probability that the odds of the truth rise e^ε times; see :func:`pbdp_delta`."""
        loss = check_array(epsilon, "epsilon", ge=0, le=1e100)
        return rises(self._curve, loss, strict=check_flag(strict, "strict"))

    def pbdp_epsilon(self, delta: ArrayLike) -> Any:
        """Factor e^ε by which the odds rise but with probability δ; see :func:`pbdp_epsilon`."""
        probability = check_array(delta, "delta", gt=0, le=1)
        with np.errstate(divide="ignore"):
            log_level = np.full(probability.shape, np.log(self._curve.at_one))
        if (inside := probability < 1).any():
            log_level[inside] = self._curve.log_level(np.atleast_1d(probability[inside]).ravel())
        return np.maximum(np.log(probability) - log_level, 0.0)[()]

    def frame(self, alpha: ArrayLike | None = None) -> pd.DataFrame:
        """Table of levels and powers.

        Parameters
        ----------
        alpha : array of float, optional
            The levels; by default 0, 0.01, …, 1.

        Returns
        -------
        pandas.DataFrame
            Columns ``level``, ``power`` and ``type_two_error``.
        """
        import pandas as pd

        level = np.atleast_1d(check_array(_GRID if alpha is None else alpha, "alpha", ge=0, le=1))
        if level.ndim > 1:
            raise InvalidParameterError(f"alpha must be one-dimensional, got {show(alpha)}")
        power = np.asarray(self.power(level))
        return pd.DataFrame({"level": level, "power": power, "type_two_error": 1.0 - power})


def rises(curve: Curve, loss: FloatArray, *, strict: bool) -> Any:
    """Largest power that is e^ε times its level or more, or its supremum with more."""
    if strict:
        found = curve.strict_crossing(np.maximum(loss, _LEAST_LOSS).ravel()).reshape(loss.shape)
        return np.where(loss > _LEAST_LOSS, found, np.where(found > 0, 1.0, 0.0))[()]
    # a ratio closer to 1 is one that every output has
    positive = loss > _LEAST_LOSS
    found = np.ones(loss.shape)
    if positive.any():
        found[positive] = curve.crossing(np.atleast_1d(loss[positive]).ravel())
    return found[()]


def max_power(
    protection: Any, alpha: ArrayLike, *, sensitivity: float = 1.0, group: int = 1
) -> Any:
    """Largest power of any test that tells neighbouring data sets apart, at a level.

    The hypotheses are that the data are x, and that they are a neighbour x' of x: with
    ``neighbours="replace"``, "the record was a" against "it was b".

    Parameters
    ----------
    protection : Guarantee, mechanism, PrivacyLoss, PairLoss, pair of laws or function
        What protects the data: a guarantee, such as ``PureDP(1.0)``; a mechanism, whose own curve
        is exact; a privacy loss, such as that of several mechanisms together; a pair (P, Q) of laws
        of the output; or a trade-off function f, for which the power is 1 - f(α).
    alpha : float or array of float
        The level: the probability of wrongly rejecting the null hypothesis, within [0, 1].
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records in which the data sets differ.

    Returns
    -------
    float or array of float
        The power, of the shape of ``alpha``.

    See Also
    --------
    TradeOff : the whole curve as a value, and its inverse.
    pbdp_delta : how probable a large change of the odds is.

    Notes
    -----
    With level α the power is at most

    - ε-DP and (ε, δ)-DP: min(e^ε·α + δ, 1 - e^{-ε}(1 - α - δ), 1);
    - μ-GDP, and the Gaussian mechanism: Φ(μ + Φ⁻¹(α));
    - RDP: the largest π for which Bernoulli(π) and Bernoulli(α) diverge within the bounds, at
      every given order and in both directions;
    - ρ-zCDP: the same over all orders λ > 1 with the bounds λρ. The order that decides is found,
      not looked for on a grid;
    - other mechanisms: the power of the likelihood ratio test, from their privacy loss.

    Nothing that is computed from the release can have more power.

    References
    ----------
    Kairouz, Oh and Viswanath (2017), doi:10.1109/TIT.2017.2685505, Theorem 2.1. Balle, Barthe,
    Gaboardi, Hsu and Sato (2020), Hypothesis testing interpretations and Rényi differential
    privacy, arXiv:1905.09982. Kifer et al. (2022), arXiv:2209.03310, Theorems 6.1 to 6.3.

    Examples
    --------
    >>> from dpinfer import Gaussian
    >>> from dpinfer.privacy import GDP, PureDP, ZCDP
    >>> max_power(PureDP(0.5), [0.01, 0.05, 0.1]).round(3)
    array([0.016, 0.082, 0.165])
    >>> max_power(ZCDP(2.63), [0.01, 0.05, 0.1]).round(2)
    array([0.7 , 0.95, 0.96])
    >>> max_power(Gaussian.from_rho(2.63), [0.01, 0.05, 0.1]).round(2)
    array([0.49, 0.74, 0.84])
    """
    return TradeOff(protection, sensitivity, group).power(alpha)


def _inside(function: Any, probability: FloatArray) -> FloatArray:
    """Apply a function to probabilities strictly between 0 and 1, which map to themselves."""
    found = np.array(probability)
    inside = (probability > 0) & (probability < 1)
    if inside.any():
        found[inside] = function(np.atleast_1d(probability[inside]).ravel())
    return found


Method = Literal["exact", "tail-bound"]
METHODS: tuple[Method, ...] = ("exact", "tail-bound")


def pbdp_delta(
    protection: Any,
    epsilon: ArrayLike,
    *,
    method: Method = "exact",
    strict: bool = False,
    sensitivity: float = 1.0,
    group: int = 1,
) -> Any:
    """Largest probability with which a release raises the odds of the truth e^ε times or more.

    It is the δ of (ε, δ)-probabilistically bounded differential privacy. Let x be the data and x'
    a neighbour. To see an output, or anything computed from it, multiplies the odds of x against
    x' by the ratio of its probabilities under the two. Under x, this ratio is e^ε or more with
    probability δ at most, for all x and x' and whatever is computed.

    Parameters
    ----------
    protection : Guarantee, mechanism, PrivacyLoss, PairLoss, pair of laws or function
        What protects the data, against the neighbours that :class:`TradeOff` tells of.
    epsilon : float or array of float
        The log ratio ε, within [0, 1e100].
    method : {"exact", "tail-bound"}
        ``"exact"``: from the curve of powers. ``"tail-bound"``: Markov's inequality for a Rényi
        divergence, a formula that is never smaller; for RDP, zCDP and what implies zCDP.
    strict : bool, default False
        Whether the odds are to rise by more than e^ε: ε-DP has δ = 0 at its own ε then. The tail
        bound holds for both.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records in which the data sets differ.

    Returns
    -------
    float or array of float
        The δ within [0, 1], of the shape of ``epsilon``. At ε = 0 it is 1, and with ``strict`` if
        anything can be told at all.

    See Also
    --------
    pbdp_epsilon : the inverse.
    posterior_tail : the same for what an attacker believes.

    Notes
    -----
    δ is the largest power β that some level α gives and for which β ≥ e^ε·α: the point at which
    the curve of powers meets the line of slope e^ε. The odds of the truth fall as well, by e^ε or
    more with probability e^{-ε}·δ at most. Two other numbers are never larger than δ:

    - the δ of (ε, δ)-differential privacy, which is the largest vertical distance of curve and
      line;
    - the probability that the privacy loss of the output itself is ε or more, the δ of
      probabilistic differential privacy. Who merges outputs of larger and of smaller loss into
      one has something whose own loss is ε or more with a larger probability, up to δ.

    For 0.5-GDP and ε = 1 the three are 0.0933, 0.0068 and 0.0401. In closed form

    - ε₀-DP: (1 - e^{-ε₀})/(1 - e^{-ε₀-ε}) for ε ≤ ε₀, and 0 beyond;
    - μ-GDP: δ solves Φ(μ + Φ⁻¹(α)) = e^ε·α = δ;
    - ρ-zCDP, ``"tail-bound"``: exp(-(ε-ρ)²/(4ρ)) for ε ≥ ρ, and 1 below;
    - RDP of order λ with bound γ, ``"tail-bound"``: exp((λ-1)(γ-ε)).

    It is no convex notion of privacy: of two mechanisms, one of which is chosen at random and
    shown, it may be larger than of each. With ε = 1 it is, with ``strict``, 0 for randomized
    response of ε = 1 and .158 for a record that is shown with probability .1, and .445 for that
    mixture.

    References
    ----------
    Kifer et al. (2022), arXiv:2209.03310, Definitions 5.2 to 5.4, Examples 5.6 and 5.10 and
    Section 5.3.
    Meiser (2018), Approximate and probabilistic differential privacy definitions, Cryptology ePrint
    Archive 2018/277 (what probabilistic differential privacy leaves open). Bun and Steinke (2016),
    doi:10.1007/978-3-662-53641-4_24, Lemma 3.5.

    Examples
    --------
    >>> from dpinfer.privacy import GDP, ZCDP
    >>> round(float(pbdp_delta(GDP(0.5), 1.0)), 6)
    0.093269
    >>> exact = pbdp_delta(ZCDP(0.125), 1.0)
    >>> bound = pbdp_delta(ZCDP(0.125), 1.0, method="tail-bound")
    >>> round(float(exact), 6), round(float(bound), 6)
    (0.197139, 0.216265)
    """
    if check_option(method, "method", METHODS) == "exact":
        return TradeOff(protection, sensitivity, group).pbdp_delta(epsilon, strict=strict)
    check_flag(strict, "strict")
    loss = check_array(epsilon, "epsilon", ge=0, le=1e100)
    # δ = e^ε times the level of the same bound
    log_level = markov_log_level(guarantee_for(protection, sensitivity, group), loss)
    return np.exp(np.minimum(log_level + loss, 0.0))[()]


def pbdp_epsilon(
    protection: Any, delta: ArrayLike, *, sensitivity: float = 1.0, group: int = 1
) -> Any:
    """Smallest ε such that the odds of the truth rise more than e^ε times with probability <= δ.

    It is the ε of (ε, δ)-probabilistically bounded differential privacy; see :func:`pbdp_delta`.

    Parameters
    ----------
    protection : Guarantee, mechanism, PrivacyLoss, PairLoss, pair of laws or function
        What protects the data, against the neighbours that :class:`TradeOff` tells of.
    delta : float or array of float
        The probability δ, within (0, 1].
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records in which the data sets differ.

    Returns
    -------
    float or array of float
        The ε >= 0, of the shape of ``delta``: infinite where data sets are told apart for certain
        with that probability or more.

    Notes
    -----
    It is the logarithm of δ over the smallest level α at which a test has the power δ: no other
    event of that probability says more for the truth. At δ = 1 it is 0, unless something can
    tell that the data are not x'.

    References
    ----------
    Kifer et al. (2022), arXiv:2209.03310, Definitions 5.2 to 5.4.

    Examples
    --------
    >>> from dpinfer.privacy import GDP
    >>> round(float(pbdp_epsilon(GDP(0.5), 0.093269)), 4)
    1.0
    """
    return TradeOff(protection, sensitivity, group).pbdp_epsilon(delta)


def markov_log_level(guarantee: Guarantee, epsilon: FloatArray) -> FloatArray:
    """Log of the Markov bound on a level whose power is e^ε times as large, at most -ε."""
    curve = curve_of(guarantee if isinstance(guarantee, RDP) else guarantee.to_zcdp())
    if isinstance(curve, DivergenceCurve):
        return curve.markov_log_level(epsilon.ravel()).reshape(epsilon.shape)
    # no divergence at all: no power is larger than its level
    return np.where(epsilon > 0, -np.inf, 0.0)


def utility_bounds(
    protection: Any,
    expected: ArrayLike,
    *,
    lower: float = 0.0,
    upper: float = np.inf,
    sensitivity: float = 1.0,
    group: int = 1,
) -> tuple[Any, Any]:
    """Bounds on the expected utility of a person who takes part, given that without them.

    The utility is any function of what is released, and so of all that follows from it.

    Parameters
    ----------
    protection : Guarantee, mechanism, PrivacyLoss, PairLoss, pair of laws or function
        What protects the data, against the neighbours that :class:`TradeOff` tells of.
    expected : float or array of float
        The expected utility of the release on a neighbouring data set, without the record or, for
        ``neighbours="replace"``, with another in its place; within [``lower``, ``upper``].
    lower, upper : float, default 0 and infinity
        The smallest and the largest utility that any release can have. ``lower`` is finite, and
        ``upper`` too where the guarantee implies no ε-DP: a small probability may then carry any
        utility.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records that take part, or do not, together.

    Returns
    -------
    lower, upper : float or array of float
        The bounds, of the shape of ``expected``.

    Notes
    -----
    A utility scaled to [0, 1] is a test, its expectations a level and a power: the bounds are the
    largest power at the level ``expected``, and the smallest level of which ``expected`` is the
    power. Both are attained by some utility where the curve of powers is. Without ``upper``, ε-DP
    gives the factors e^{-ε} and e^ε for what is above ``lower``.

    References
    ----------
    Dwork and Roth (2014), doi:10.1561/0400000042, Section 2.3.1.

    Examples
    --------
    >>> from dpinfer.privacy import ApproxDP, PureDP
    >>> low, high = utility_bounds(PureDP(0.1), 50.0)
    >>> round(float(low), 6), round(float(high), 6)
    (45.241871, 55.258546)
    >>> low, high = utility_bounds(ApproxDP(0.1, 1e-3), 50.0, upper=100.0)
    >>> round(float(low), 6), round(float(high), 6)
    (45.151387, 54.848613)
    """
    least = check_scalar(lower, "lower")
    most = check_scalar(upper, "upper", finite=False)
    if not most > least:
        raise InvalidParameterError(f"upper must be > lower = {least}, got {most}")
    utility = check_array(expected, "expected", ge=least, le=most)
    above = utility - least
    if np.isinf(most):
        epsilon = pure_epsilon(guarantee_for(protection, sensitivity, group))
        with np.errstate(over="ignore", invalid="ignore"):
            high = np.where(above > 0, above * np.exp(epsilon), 0.0)
        return (least + above * np.exp(-epsilon))[()], (least + high)[()]
    curve = TradeOff(protection, sensitivity, group)
    share = np.minimum(above / (most - least), 1.0)
    low, high = np.asarray(curve.level(share)), np.asarray(curve.power(share))
    return (least + (most - least) * low)[()], (least + (most - least) * high)[()]
