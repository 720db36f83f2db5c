"""Answers of private multiplicative weights as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import Locked
from dpinfer.mechanisms.samplers import Sampler
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.privacy.guarantees.drawn import Drawn
from dpinfer.results.intervals import Intervals
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MultiplicativeWeightsRelease(Drawn, Locked):
    """Answers to queries from one budget; made by ``multiplicative_weights``.

    Everything in it is public, unless it is ``simulated``: then it carries no ``guarantee``.

    Attributes
    ----------
    answers : array of float, shape (k,), or Series
        The answers, in records.
    measured : array of bool, shape (k,)
        Which of them are noisy answers of the data, rather than answers of the hypothesis.
    histogram : array of float, shape (n,), or Series
        The hypothesis in the end: a table with the number of records, from which any further query
        can be answered. The bound on the accuracy is for the k queries only.
    sampler : {"simulated", "opendp"}
        What drew the noise.
    nominal : Guarantee
        What was to be spent, whether or not all updates were used: the ``guarantee`` if the noise
        was drawn by OpenDP.
    updates, max_updates : int
        How often the hypothesis was corrected, and how often it could have been.
    accuracy : float
        Bound on the errors of all k answers together, in records.
    beta : float
        The probability that one of them exceeds it, at most.
    form : {"offline", "online"}
        How they were found.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> from dpinfer.query_release import multiplicative_weights
    >>> release = multiplicative_weights([90_000, 10_000], [[1, 0], [0, 1]], rng=1,
    ...                                  guarantee=PureDP(1.0, neighbours="replace"))
    >>> release.conf_int().contains([90_000, 10_000])
    array([ True,  True])
    >>> release.updates, release.histogram.sum().round(6)
    (1, np.float64(100000.0))
    """

    answers: Any
    measured: Any
    histogram: Any
    sampler: Sampler
    nominal: Guarantee
    updates: int
    max_updates: int
    accuracy: float
    beta: float
    form: str
    labels: pd.Index | None

    def conf_int(self) -> Intervals:
        """Return answers ± accuracy: intervals that hold together with probability 1 - beta."""
        answers = np.asarray(self.answers)
        return Intervals(
            estimate=answers,
            lower=answers - self.accuracy,
            upper=answers + self.accuracy,
            alpha=self.beta,
            method="tail-bound",
            uncertainty="noise",
            simultaneous=True,
            labels=self.labels,
        )

    def summary_frame(self) -> pd.DataFrame:
        """Return the answers with their intervals, and whether they were measured."""
        frame = self.conf_int().summary_frame()
        frame["measured"] = np.asarray(self.measured)
        return frame

    def summary(self) -> str:
        """Return the answers as a plain-text table that says what they cost."""
        frame = self.summary_frame()
        total = float(np.sum(np.asarray(self.histogram)))
        vacuous = ("the bound is no smaller than the number of records: it says nothing",)
        return render_table(
            "Private multiplicative weights",
            [
                ("Form", self.form),
                ("Queries", len(frame)),
                ("Updates", f"{self.updates} of {self.max_updates}"),
                ("Records", f"{total:.6g}"),
                ("Accuracy of all answers", f"{self.accuracy:.6g}"),
                ("With probability", f"{1 - self.beta:.6g}"),
                *self._facts("Spent"),
            ],
            {
                "estimate": frame["estimate"].to_numpy(),
                "from": np.where(frame["measured"], "data", "hypothesis"),
            },
            index=None if self.labels is None else frame.index,
            notes=vacuous if self.accuracy >= total else (),
        )

    def __repr__(self) -> str:
        return (
            f"MultiplicativeWeightsRelease({len(np.asarray(self.answers))} answers, "
            f"{self.updates} updates, accuracy {self.accuracy:.6g}, "
            f"{'simulated: no guarantee' if self.simulated else self.guarantee})"
        )

    def __str__(self) -> str:
        return self.summary()
