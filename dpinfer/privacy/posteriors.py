"""What an attacker can believe with a record, compared with what they would without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import (
    NEIGHBOURS,
    FloatArray,
    Neighbours,
    check_array,
    check_broadcast,
    check_integer,
    check_option,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.channels import ExponentialMechanism
from dpinfer.privacy._protection import curve_of, guarantee_for, pure_epsilon
from dpinfer.privacy.guarantees import MAX_GROUP, Guarantee
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.privacy.trade_off import METHODS, Method, markov_log_level, rises
from dpinfer.results.presentation import Facts
from dpinfer.results.tables import Table

Counterfactual = Literal["draw", "default", "deleted"]

_WORLDS: dict[str, str] = {
    "draw": "replaced, by a draw from what the rest tells",
    "default": "replaced, by a fixed record",
    "deleted": "deleted",
}
_CHANGES: dict[str, str] = {
    "add-remove": "adding or removing a record",
    "replace": "replacing a record",
}


@dataclass(frozen=True)
class PosteriorBounds(Facts):
    """Bounds on the ratio of two posteriors: with a record, and in a world without it.

    It is what :func:`posterior_bounds` returns. Printed, it says which change of the data the
    guarantee is for, and how often that change leads from one world to the other.

    Parameters
    ----------
    counterfactual : {"draw", "default", "deleted"}
        The world without the record.
    neighbours : {"add-remove", "replace"}
        The change of the data that the guarantee is for.
    steps : int
        How many such changes there are between both worlds: 2 where a record is replaced and the
        guarantee is for adding or removing one. For a group of k records k times as many.
    log_ratio : float
        Bound on the absolute log ratio of the posterior probabilities of any event.
    log_odds_ratio : float
        Bound on the absolute log ratio of the posterior odds of any two events.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> bounds = posterior_bounds(PureDP(0.01), counterfactual="deleted")
    >>> round(float(bounds.odds(1.1)[1]), 4)
    1.1222
    >>> lower, upper = bounds.probability(0.02)
    >>> round(float(lower), 6), round(float(upper), 6)
    (0.019612, 0.020396)
    >>> print(posterior_bounds(PureDP(1.0)))
                                Posterior bounds
    ========================================================================
    World without the record:   replaced, by a draw from what the rest tells
    Guarantee for:                  adding or removing a record (add-remove)
    Such changes between worlds:     2
    Ratio of probabilities:                              0.135335 to 7.38906
    Ratio of odds:                                      0.0183156 to 54.5982
    ========================================================================
    """

    counterfactual: Counterfactual
    neighbours: Neighbours
    steps: int
    log_ratio: float
    log_odds_ratio: float

    @property
    def ratio(self) -> tuple[float, float]:
        """Smallest and largest ratio of the posterior probabilities of an event."""
        return _factors(self.log_ratio)

    @property
    def odds_ratio(self) -> tuple[float, float]:
        """Smallest and largest ratio of the posterior odds of two events."""
        return _factors(self.log_odds_ratio)

    def _table(self) -> Table:
        (low, high), (least, most) = self.ratio, self.odds_ratio
        return Table(
            "Posterior bounds",
            [
                ("World without the record", _WORLDS[self.counterfactual]),
                ("Guarantee for", f"{_CHANGES[self.neighbours]} ({self.neighbours})"),
                ("Such changes between worlds", self.steps),
                ("Ratio of probabilities", f"{low:.6g} to {high:.6g}"),
                ("Ratio of odds", f"{least:.6g} to {most:.6g}"),
            ],
        )

    def probability(self, without: ArrayLike) -> tuple[Any, Any]:
        """Bounds on the posterior probability of an event with the record.

        Parameters
        ----------
        without : float or array of float
            The posterior probability of the event in the world without the record, in [0, 1].

        Returns
        -------
        lower, upper : float or array of float
            The tightest that follow from the bounds for the event, its complement, and their odds.
        """
        p = check_array(without, "without", ge=0, le=1)
        return self._bound(p, -1.0)[()], self._bound(p, 1.0)[()]

    def odds(self, without: ArrayLike) -> tuple[Any, Any]:
        """Bounds on the posterior odds of two events with the record.

        Parameters
        ----------
        without : float or array of float
            The posterior odds >= 0 in the world without the record.

        Returns
        -------
        lower, upper : float or array of float
            The odds divided and multiplied by the largest factor.
        """
        odds = check_array(without, "without", ge=0)
        low, high = self.odds_ratio
        with np.errstate(over="ignore", invalid="ignore"):
            upper = np.where(odds > 0, odds * high, 0.0)
        return (odds * low)[()], upper[()]

    def _bound(self, p: FloatArray, sign: float) -> FloatArray:
        """Upper bounds on a probability for the sign 1, lower ones for -1.

        Each is accurate relative to itself: where p is close to 0, 1 - (1 - p)e^-ε is the sum of
        p and -(1 - p)(e^-ε - 1).
        """
        tightest = np.minimum if sign > 0 else np.maximum
        rest = 1.0 - p
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ratio = np.where(p > 0, p * np.exp(sign * self.log_ratio), 0.0)
            complement = np.where(rest > 0, p - rest * np.expm1(-sign * self.log_ratio), 1.0)
            odds = p / (p + np.where(rest > 0, rest * np.exp(-sign * self.log_odds_ratio), 0.0))
        return np.asarray(tightest(tightest(ratio, complement), np.where(p > 0, odds, 0.0)))


def posterior_bounds(
    protection: Any,
    *,
    counterfactual: Counterfactual = "draw",
    sensitivity: float = 1.0,
    group: int = 1,
) -> PosteriorBounds:
    """How far a record can move what any attacker believes after seeing any release.

    Compared are the posterior with the record, and that in a world in which the record was not
    used, for the same prior and the same output. The bounds hold for every prior, right or wrong,
    and every output.

    Parameters
    ----------
    protection : Guarantee, mechanism, PairLoss, pair of laws or function
        What protects the data; laws and functions, as :func:`privacy_loss` takes them, for adding
        or removing a record. It has to imply ε-differential privacy: see :func:`posterior_tail`
        for zCDP, RDP, GDP and (ε, δ), where no ratio is certain.
    counterfactual : {"draw", "default", "deleted"}
        What is done in the world without the record: it is replaced by a draw from what the
        attacker would believe of it given all other records; it is replaced by a fixed record; or
        it is deleted, which a guarantee for replacing records says nothing of. Replacing is two
        steps of a guarantee for adding or removing records, the relation that guarantees have by
        default: ``PureDP(1.0)`` gives e² where ``PureDP(1.0, neighbours="replace")`` gives e.
    sensitivity : float, default 1
        Of a mechanism, the sensitivity of its query to adding or removing a record; a guarantee
        accounts for it already. For the sensitivity to a replacement pass
        ``guarantee_of(mechanism, sensitivity, "replace")``.
    group : int, default 1
        The number of records that are left out together.

    Returns
    -------
    PosteriorBounds
        The largest ratios of probabilities and of odds, and what they do to given ones.

    See Also
    --------
    epsilon_for_rise, epsilon_for_odds : the ε at which a stated rise is excluded.

    Notes
    -----
    With ε for one step between the two data sets, the ratio of posterior probabilities is within
    [e^{-ε}, e^ε] for a draw, as the probability of the output is then the same in both worlds, and
    within [e^{-2ε}, e^{2ε}] otherwise. The ratio of odds is within [e^{-2ε}, e^{2ε}] always. A
    guarantee for adding or removing a record counts two steps for a replacement. For a group of k
    records ε becomes kε.

    References
    ----------
    Kasiviswanathan and Smith (2014), On the 'semantics' of differential privacy: a Bayesian
    formulation, doi:10.29012/jpc.v6i1.634. Kifer et al. (2022), Bayesian and frequentist semantics
    for common variations of differential privacy, arXiv:2209.03310, Theorem 7.3.

    Examples
    --------
    >>> from dpinfer.privacy import PureDP
    >>> low, high = posterior_bounds(PureDP(1.0, neighbours="replace")).ratio
    >>> round(low, 6), round(high, 6)
    (0.367879, 2.718282)
    >>> posterior_bounds(PureDP(0.1), counterfactual="deleted", group=2).log_ratio
    0.4
    """
    check_option(counterfactual, "counterfactual", _WORLDS)
    guarantee = guarantee_for(protection, sensitivity)
    epsilon = pure_epsilon(guarantee)
    per_probability, per_odds = _steps(counterfactual, guarantee.neighbours, group)
    return PosteriorBounds(
        counterfactual=counterfactual,
        neighbours=guarantee.neighbours,
        # the odds compare two outputs' probabilities, and take two ε for each change
        steps=per_odds // 2,
        log_ratio=per_probability * epsilon,
        log_odds_ratio=per_odds * epsilon,
    )


def _steps(counterfactual: Counterfactual, neighbours: Neighbours, group: int) -> tuple[int, int]:
    """Return how many ε the log ratios of posterior probabilities and of odds can take."""
    world = check_option(counterfactual, "counterfactual", _WORLDS)
    size = check_integer(group, "group", ge=1, le=MAX_GROUP)
    if world == "deleted" and neighbours == "replace":
        raise IncompatibleReleaseError(
            'counterfactual must be "draw" or "default" for a guarantee with neighbours="replace", '
            'got "deleted": it says nothing of data sets with a record less'
        )
    between = 2 if neighbours == "add-remove" and world != "deleted" else 1
    return size * between * (1 if world == "draw" else 2), size * between * 2


def _factors(log_ratio: float) -> tuple[float, float]:
    with np.errstate(over="ignore"):
        return float(np.exp(-log_ratio)), float(np.exp(log_ratio))


def epsilon_for_rise(
    rise: ArrayLike,
    *,
    baseline: ArrayLike | None = None,
    counterfactual: Counterfactual = "deleted",
    neighbours: Neighbours = "add-remove",
    group: int = 1,
) -> Any:
    """Largest ε at which taking part raises what any attacker believes by no more than a share.

    "I take part if the probability that somebody tells my answer from the results rises by at
    most 25 %": ``epsilon_for_rise(0.25)``, which is ½·ln 1.25.

    Parameters
    ----------
    rise : float or array of float
        The rise >= 0 that is tolerated, relative to the posterior probability in a world without
        the record: 0.25 for 25 %.
    baseline : float or array of float, optional
        A lower bound, within (0, 1), on that posterior probability. Not needed; with it a larger ε
        may do.
    counterfactual : {"deleted", "default", "draw"}
        The world without the record; see :func:`posterior_bounds`.
    neighbours : {"add-remove", "replace"}
        The relation of the guarantee; ``"replace"`` goes with no deleted record.
    group : int, default 1
        The number of records that take part, or do not, together.

    Returns
    -------
    float or array of float
        The ε; infinite where the rise leads to a probability of 1 or more, which is no limit.

    Notes
    -----
    The posterior rises by a factor of at most e^{cε}, so that ε = ln(1 + rise)/c, where c = 2 for a
    deleted record; see :func:`posterior_bounds`. At a baseline q the odds bound gives
    ε = (logit((1 + rise)·q) - logit(q))/2, which is more, and grows with q.

    Examples
    --------
    >>> round(float(epsilon_for_rise(0.25)), 6)
    0.111572
    >>> round(float(epsilon_for_rise(0.25, baseline=0.02)), 6)
    0.114129
    >>> epsilon_for_rise([0.1, 1.0], counterfactual="draw", neighbours="replace").round(6)
    array([0.09531 , 0.693147])
    """
    tolerated = check_array(rise, "rise", ge=0)
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    per_probability, per_odds = _steps(counterfactual, relation, group)
    epsilon = np.log1p(tolerated) / per_probability
    if baseline is None:
        return epsilon[()]
    before = check_array(baseline, "baseline", gt=0, lt=1)
    check_broadcast(rise=tolerated.shape, baseline=before.shape)
    after = (1.0 + tolerated) * before
    with np.errstate(invalid="ignore", divide="ignore"):
        by_complement = (np.log1p(-before) - np.log1p(-after)) / per_probability
        by_odds = (special.logit(after) - special.logit(before)) / per_odds
    best = np.maximum(np.maximum(epsilon, by_complement), by_odds)
    return np.where(after < 1, best, np.inf)[()]


def epsilon_for_odds(
    limit: ArrayLike,
    baseline: ArrayLike,
    *,
    counterfactual: Counterfactual = "deleted",
    neighbours: Neighbours = "add-remove",
    group: int = 1,
) -> Any:
    """Largest ε at which the posterior odds stay within a limit.

    An insurer who would hold the odds of a disease at 1.1 without the record, and raises the
    premium in proportion to the odds above 1, cannot charge more than odds of 1.2 lead to if
    ε ≤ ``epsilon_for_odds(1.2, 1.1)``.

    Parameters
    ----------
    limit : float or array of float
        The odds that shall not be exceeded, > 0.
    baseline : float or array of float
        The posterior odds in the world without the record, > 0 and at most ``limit``.
    counterfactual : {"deleted", "default", "draw"}
        The world without the record; see :func:`posterior_bounds`, which is the way back.
    neighbours : {"add-remove", "replace"}
        The relation of the guarantee; ``"replace"`` goes with no deleted record.
    group : int, default 1
        The number of records that take part, or do not, together.

    Returns
    -------
    float or array of float
        ε = ln(limit/baseline)/2 for a deleted record.

    Examples
    --------
    >>> round(float(epsilon_for_odds(1.2, 1.1)), 6)
    0.043506
    """
    most = check_array(limit, "limit", gt=0)
    before = check_array(baseline, "baseline", gt=0)
    relation = check_option(neighbours, "neighbours", NEIGHBOURS)
    check_broadcast(limit=most.shape, baseline=before.shape)
    per_odds = _steps(counterfactual, relation, group)[1]
    gap = np.log(most) - np.log(before)
    if (gap < 0).any():
        raise InvalidParameterError(
            "baseline must be at most limit: odds that are above it without the record cannot be "
            "kept within it by any epsilon"
        )
    return (gap / per_odds)[()]


def posterior_tail(
    protection: Any,
    epsilon: ArrayLike,
    *,
    rest: Literal["known", "arbitrary"] = "arbitrary",
    about: Literal["true", "any"] = "true",
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
    protection : Guarantee, mechanism, PrivacyLoss, PairLoss, pair of laws or function
        What protects the data. A guarantee for adding or removing records is first turned into
        that for replacing them; of a mechanism ``sensitivity`` is that to a replacement.
    epsilon : float or array of float
        The log ratio ε, within [0, 1e100].
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
    Kifer et al. (2022), arXiv:2209.03310, Theorems 7.4.1 and 7.4.2 and the one between them.

    Examples
    --------
    >>> from dpinfer.privacy import ZCDP
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
    # what protects against a replacement; the law of a noise does not depend on it
    target = protection
    if isinstance(protection, ExponentialMechanism):
        target = guarantee_of(protection, neighbours="replace")
    elif isinstance(protection, Guarantee):
        target = protection.to_replace()
    factor = loss if value == "true" else np.zeros(loss.shape)
    if how == "tail-bound":
        log_level = markov_log_level(guarantee_for(target, sensitivity, group), loss)
        return np.exp(np.minimum(log_level + factor, 0.0))[()]
    curve = curve_of(target, sensitivity, group)
    # mixtures of several pairs of neighbours are bounded by the concave curve above all
    probability = rises(curve.hull() if known == "arbitrary" else curve, loss, strict=False)
    return (probability * np.exp(factor - loss))[()]
