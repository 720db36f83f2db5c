"""Probabilistically bounded differential privacy: how probable a large rise of the odds is."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, check_array, check_option
from dpinfer.privacy.guarantees import RDP, Guarantee
from dpinfer.privacy.guarantees._divergence_curve import DivergenceCurve
from dpinfer.privacy.semantics._protection import curve_of, guarantee_for
from dpinfer.privacy.semantics.trade_off import TradeOff

Method = Literal["exact", "tail-bound"]
METHODS: tuple[Method, ...] = ("exact", "tail-bound")


def pbdp_delta(
    protection: Any,
    epsilon: ArrayLike,
    *,
    method: Method = "exact",
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
    protection : Guarantee, mechanism or PrivacyLoss
        What protects the data. A statement is about the neighbours of the guarantee: data sets that
        differ by one record more or less, or by one that is replaced; for a mechanism, about those
        for which the sensitivity holds.
    epsilon : float or array of float
        The log ratio ε >= 0.
    method : {"exact", "tail-bound"}
        ``"exact"``: from the curve of powers. ``"tail-bound"``: Markov's inequality for a Rényi
        divergence, a formula that is never smaller; for RDP, zCDP and what implies zCDP.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query; a guarantee accounts for it already.
    group : int, default 1
        The number of records in which the data sets differ.

    Returns
    -------
    float or array of float
        The δ within [0, 1], of the shape of ``epsilon``. At ε = 0 it is 1.

    Raises
    ------
    InvalidParameterError
        If ``epsilon`` is negative or not finite, or ``method`` does not fit the guarantee.

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

    References
    ----------
    Kifer, D. et al. (2022). Bayesian and frequentist semantics for common variations of
    differential privacy. arXiv:2209.03310, Definitions 5.2 to 5.4, Example 5.10 and Section 5.3.

    Meiser, S. (2018). Approximate and probabilistic differential privacy definitions. Cryptology
    ePrint Archive, Report 2018/277 (what probabilistic differential privacy leaves open).

    Bun, M. and Steinke, T. (2016). Concentrated differential privacy: simplifications, extensions,
    and lower bounds. doi:10.1007/978-3-662-53641-4_24, Lemma 3.5.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import GDP, ZCDP
    >>> round(float(pbdp_delta(GDP(0.5), 1.0)), 6)
    0.093269
    >>> exact = pbdp_delta(ZCDP(0.125), 1.0)
    >>> bound = pbdp_delta(ZCDP(0.125), 1.0, method="tail-bound")
    >>> round(float(exact), 6), round(float(bound), 6)
    (0.197139, 0.216265)
    """
    if check_option(method, "method", METHODS) == "exact":
        return TradeOff(protection, sensitivity, group).pbdp_delta(epsilon)
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
    protection : Guarantee, mechanism or PrivacyLoss
        What protects the data. A statement is about the neighbours of the guarantee: data sets that
        differ by one record more or less, or by one that is replaced; for a mechanism, about those
        for which the sensitivity holds.
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

    Raises
    ------
    InvalidParameterError
        If ``delta`` is outside (0, 1].

    See Also
    --------
    pbdp_delta : the inverse, and the definition.

    Notes
    -----
    It is the logarithm of δ over the smallest level α at which a test has the power δ: no other
    event of that probability says more for the truth. At δ = 1 it is 0, unless something can
    tell that the data are not x'.

    References
    ----------
    Kifer, D. et al. (2022). Bayesian and frequentist semantics for common variations of
    differential privacy. arXiv:2209.03310, Definitions 5.2 to 5.4.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import GDP
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
