"""How probable it is that a record moves what an attacker believes by more than a factor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import check_array, check_option
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import ExponentialMechanism
from dpinfer.privacy.guarantees import Guarantee, guarantee_of
from dpinfer.privacy.semantics._protection import guarantee_for
from dpinfer.privacy.semantics.pbdp import METHODS, Method, markov_log_level
from dpinfer.privacy.semantics.trade_off import TradeOff

Rest = Literal["known", "arbitrary"]
About = Literal["true", "any"]


def posterior_tail(
    protection: Any,
    epsilon: ArrayLike,
    *,
    rest: Rest = "arbitrary",
    about: About = "true",
    method: Method = "exact",
    sensitivity: float = 1.0,
    group: int = 1,
) -> Any:
    """Probability that a record raises what an attacker believes of it by a factor of e^ε or more.

    Compared are the posterior probabilities of a value of the record, with the record and in a
    world in which it is replaced by a draw from what the attacker would believe of it given all
    other records. The prior is that from which the data are, as otherwise no bound holds.

    Parameters
    ----------
    protection : Guarantee, mechanism or PrivacyLoss
        What protects the data. A guarantee for adding or removing records is first turned into
        that for replacing them; of a mechanism ``sensitivity`` is that to a replacement.
    epsilon : float or array of float
        The log ratio ε >= 0.
    rest : {"arbitrary", "known"}
        What the attacker knows of all other records: anything, by an arbitrary prior, or
        everything.
    about : {"true", "any"}
        Of which value of the record: the true one, or any given value, true or not, which needs
        ``rest="known"``.
    method : {"exact", "tail-bound"}
        ``"exact"``: from the curve of powers. ``"tail-bound"``: Markov's inequality for a Rényi
        divergence, a formula that is never smaller; for RDP, zCDP and what implies zCDP.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query to a replacement.
    group : int, default 1
        The number of records about which the attacker learns together.

    Returns
    -------
    float or array of float
        The probability, over data and noise, of the shape of ``epsilon``.

    Raises
    ------
    InvalidParameterError
        If an argument is not as described.

    See Also
    --------
    posterior_bounds : for ε-differential privacy, where the ratio itself is bounded.
    pbdp_delta : the curve from which this is.

    Notes
    -----
    About the true value the probability is at most δ(ε), that of :func:`pbdp_delta`, and about a
    given value e^{-ε}·δ(ε). Both hold for whatever is computed from the release too, and are
    attained, in the limit of an attacker who finds the value improbable, by what only tells
    whether the likelihood ratio passes a threshold. The tail bounds of ρ-zCDP are, for ε ≥ ρ,
    exp(-(ε-ρ)²/(4ρ)) for the true value and exp(-(ε+ρ)²/(4ρ)) for a given one; those of RDP of
    order λ and bound γ are exp((λ-1)(γ-ε)) and exp((λ-1)γ - λε).

    With an arbitrary prior the output given the true value, and that of the world without it, are
    mixtures of outputs on neighbouring data, with the same weights. As the curve of powers is
    concave they are no easier to tell apart, so that δ(ε) holds there too.

    References
    ----------
    Kifer, D. et al. (2022). Bayesian and frequentist semantics for common variations of
    differential privacy. arXiv:2209.03310, Theorems 7.4.1 and 7.4.2 and the one between them.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import ZCDP
    >>> guarantee = ZCDP(0.1115, neighbours="replace")
    >>> posterior_tail(guarantee, [0.5, 1.0], method="tail-bound").round(6)
    array([0.712901, 0.170328])
    >>> posterior_tail(guarantee, [0.5, 1.0], rest="known", about="any").round(6)
    array([0.358665, 0.057993])
    """
    known = check_option(rest, "rest", ("known", "arbitrary"))
    value = check_option(about, "about", ("true", "any"))
    how = check_option(method, "method", METHODS)
    if value == "any" and known == "arbitrary":
        raise InvalidParameterError(
            'about must be "true" for rest="arbitrary", got "any": of other values than the true '
            "one no bound is known unless the attacker knows all other records"
        )
    loss = check_array(epsilon, "epsilon", ge=0, le=1e100)
    target = _for_replacement(protection)
    factor = loss if value == "true" else np.zeros(loss.shape)
    if how == "tail-bound":
        log_level = markov_log_level(guarantee_for(target, sensitivity, group), loss)
        return np.exp(np.minimum(log_level + factor, 0.0))[()]
    chance = TradeOff(target, sensitivity, group).pbdp_delta(loss)
    return (chance * np.exp(factor - loss))[()]


def _for_replacement(protection: Any) -> Any:
    """Return what protects against a replacement; the law of a noise does not depend on it."""
    if isinstance(protection, ExponentialMechanism):
        return guarantee_of(protection, neighbours="replace")
    return protection.to_replace() if isinstance(protection, Guarantee) else protection
