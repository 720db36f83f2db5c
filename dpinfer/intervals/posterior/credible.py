"""Credible intervals as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpinfer._validation import check_array, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.results.intervals import Intervals
from dpinfer.results.labels import attach_labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CredibleIntervals(Intervals):
    """Credible intervals: probability statements under a prior, not about repeated releases.

    An interval that holds 95 % of each posterior covers 95 % or more of counts that are drawn
    from the prior. It may cover counts of one size less often than that.

    Parameters
    ----------
    estimate, lower, upper, alpha, method, uncertainty, simultaneous, labels, notes, mc_error
        As for :class:`~dpinfer.Intervals`; ``alpha`` is one minus the posterior probability that
        each interval holds at least.
    prior : str
        The prior in words.
    probability : array of float
        The posterior probability of each interval, 1 - alpha or more because counts are whole.

    Examples
    --------
    >>> from dpinfer.intervals.posterior.count_posterior import count_posterior
    >>> from dpinfer.mechanisms import Geometric
    >>> intervals = count_posterior(2, mechanism=Geometric(scale=1.0)).interval(0.1)
    >>> intervals
    CredibleIntervals([0, 4], level 0.9, posterior, hdi)
    >>> intervals.probability.round(4)
    np.float64(0.9622)
    """

    title: ClassVar[str] = "Credible intervals"
    prior: str
    probability: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        probability = freeze(check_array(self.probability, "probability", ge=0, le=1))
        object.__setattr__(self, "probability", attach_labels(probability, self.labels))

    def restrict(
        self,
        *,
        lower: float | None = None,
        upper: float | None = None,
        integer: bool = False,
    ) -> Self:
        """Refuse: bounds belong in the posterior, from which the probabilities come.

        Parameters
        ----------
        lower, upper : float, optional
            Bounds; to be given to ``count_posterior``.
        integer : bool
            Whether to round inwards, which changes nothing.

        Returns
        -------
        CredibleIntervals
            These intervals, if no bound is given.

        Raises
        ------
        InvalidParameterError
            If a bound is given.
        """
        if lower is not None or upper is not None:
            raise InvalidParameterError(
                "lower and upper must not be given for credible intervals: give them to "
                "count_posterior"
            )
        return super().restrict(integer=integer)

    def summary_frame(self) -> pd.DataFrame:
        """Return means and intervals as a DataFrame.

        Returns
        -------
        DataFrame
            As for :class:`~dpinfer.Intervals`, with the column ``probability``, and ``prior`` in
            ``attrs``.
        """
        frame = super().summary_frame()
        frame["probability"] = self._flat_probability
        frame.attrs["prior"] = self.prior
        return frame

    @property
    def facts(self) -> list[tuple[str, object]]:
        """What the head of the summary says: the prior as well."""
        return [("Prior", self.prior), *super().facts]

    @property
    def _flat_probability(self) -> Any:
        return check_array(self.probability, "probability").ravel()
