"""What an attacker can believe with a record, compared with what they would without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, Neighbours, check_array, check_integer, check_option
from dpinfer.errors import IncompatibleReleaseError
from dpinfer.privacy.semantics._protection import MAX_GROUP, guarantee_for, pure_epsilon
from dpinfer.results.tables import render_table

Counterfactual = Literal["draw", "default", "deleted"]
COUNTERFACTUALS: tuple[Counterfactual, ...] = ("draw", "default", "deleted")

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
class PosteriorBounds:
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
    >>> from dpinfer.privacy.guarantees import PureDP
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

    def summary(self) -> str:
        """Return the worlds, the relation and the bounds as a plain-text table."""
        (low, high), (least, most) = self.ratio, self.odds_ratio
        return render_table(
            "Posterior bounds",
            [
                ("World without the record", _WORLDS[self.counterfactual]),
                ("Guarantee for", f"{_CHANGES[self.neighbours]} ({self.neighbours})"),
                ("Such changes between worlds", self.steps),
                ("Ratio of probabilities", f"{low:.6g} to {high:.6g}"),
                ("Ratio of odds", f"{least:.6g} to {most:.6g}"),
            ],
        )

    def __str__(self) -> str:
        return self.summary()

    def probability(self, without: ArrayLike) -> tuple[Any, Any]:
        """Bounds on the posterior probability of an event with the record.

        Parameters
        ----------
        without : float or array of float
            The posterior probability of the event in the world without the record, in [0, 1].

        Returns
        -------
        lower, upper : float or array of float
            The tightest that follow from the bounds for the event, for its complement, and for
            their odds.
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
    protection : Guarantee or mechanism
        What protects the data. It has to imply ε-differential privacy.
    counterfactual : {"draw", "default", "deleted"}
        What is done in the world without the record: it is replaced by a draw from what the
        attacker would believe of it given all other records; it is replaced by a fixed record; or
        it is deleted. Replacing is two steps of a guarantee for adding or removing records, the
        relation that guarantees have by default: ``PureDP(1.0)`` gives e² where
        ``PureDP(1.0, neighbours="replace")`` gives e.
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

    Raises
    ------
    InvalidParameterError
        If the guarantee implies no ε-DP: see :func:`posterior_tail` for such guarantees.
    IncompatibleReleaseError
        If the records are deleted and the guarantee is for replacing records.

    See Also
    --------
    posterior_tail : for zCDP, RDP, GDP and (ε, δ), where no ratio is certain.
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
    Kasiviswanathan, S. P. and Smith, A. (2014). On the 'semantics' of differential privacy: a
    Bayesian formulation. Journal of Privacy and Confidentiality 6(1). doi:10.29012/jpc.v6i1.634.

    Kifer, D. et al. (2022). Bayesian and frequentist semantics for common variations of
    differential privacy. arXiv:2209.03310, Theorem 7.3.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> low, high = posterior_bounds(PureDP(1.0, neighbours="replace")).ratio
    >>> round(low, 6), round(high, 6)
    (0.367879, 2.718282)
    >>> posterior_bounds(PureDP(0.1), counterfactual="deleted", group=2).log_ratio
    0.4
    """
    world = check_option(counterfactual, "counterfactual", COUNTERFACTUALS)
    guarantee = guarantee_for(protection, sensitivity)
    epsilon = pure_epsilon(guarantee)
    per_probability, per_odds = steps(world, guarantee.neighbours, group)
    return PosteriorBounds(
        counterfactual=world,
        neighbours=guarantee.neighbours,
        # the odds compare two outputs' probabilities, and take two ε for each change
        steps=per_odds // 2,
        log_ratio=per_probability * epsilon,
        log_odds_ratio=per_odds * epsilon,
    )


def steps(
    counterfactual: Counterfactual, neighbours: Neighbours, group: int = 1
) -> tuple[int, int]:
    """Return how many ε the log ratios of posterior probabilities and of odds can take."""
    world = check_option(counterfactual, "counterfactual", COUNTERFACTUALS)
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
