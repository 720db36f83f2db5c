"""Private multiplicative weights for queries that come one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_array,
    check_integer,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Laplace
from dpinfer.mechanisms.samplers import NoiseSource, Sampler, noise_source
from dpinfer.privacy.composition import BudgetLedger
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.privacy.guarantees.drawn import Drawn
from dpinfer.query_release._hypothesis import Hypothesis
from dpinfer.query_release._noise_plan import (
    MOST_UPDATES,
    check_failure,
    online_plan,
    plan_noise,
    read_setting,
)
from dpinfer.results.labels import attach_labels, split_labels

MOST_CELLS = 2**26
MOST_QUERIES = 10**9

_STEPS = 2**20
"""Steps of a record in which errors are compared with the threshold, in whole numbers."""


class OnlineMultiplicativeWeights(Drawn):
    """Answer counting queries one by one, each perhaps chosen after the answers before it.

    For the curator: the object holds the confidential histogram. What its methods and attributes
    give is public, unless it is ``simulated``: then it carries no ``guarantee``.

    Parameters
    ----------
    histogram : array of whole numbers, shape (n,), or Series
        The confidential counts of n >= 2 cells.
    guarantee : PureDP, ZCDP or ApproxDP
        What may be spent in all, for ``neighbours="replace"``: the number of records is public.
    queries : int
        The number of queries that may be asked.
    beta : float, default 0.05
        The probability that the accuracy is missed, at most.
    max_updates : int, optional
        How often the hypothesis may be corrected; by default the number with the best accuracy.
    ledger : BudgetLedger, optional
        Where to enter the expense, before any query is answered.
    name : str
        What the expense is called there.
    sampler : {"simulated", "opendp"}, default "simulated"
        ``"simulated"``: draws in floating point, for studies. The result carries no guarantee, as
        such outputs can rule out one of two neighbouring truths. ``"opendp"``: exact draws of
        OpenDP, of the extra ``release``, from the randomness of the operating system, for
        queries that count each record as 0 or 1.
    rng : None, int or numpy.random.Generator, optional
        Source of the noise of a simulation; None for ``"opendp"``.

    Attributes
    ----------
    sampler : {"simulated", "opendp"}
        What draws the noise.
    nominal : Guarantee
        What is to be spent in all: the ``guarantee`` if the noise is drawn by OpenDP.
    beta : float
        The probability that an answer misses the accuracy, at most.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    IncompatibleReleaseError
        If the ledger has too little left.

    See Also
    --------
    multiplicative_weights : for queries that are known beforehand.

    Notes
    -----
    A hypothesis about the data, uniform at first, answers a query unless the sparse vector
    technique says that its error exceeds a threshold; then the data answer with Laplace noise,
    and the hypothesis is corrected by the multiplicative weights rule. Only corrections use up the
    budget, and c = ln N/(2γ²) of them suffice to be accurate to n·γ without noise. With
    probability 1 - β all draws of noise are within their quantiles, and then all answers are
    accurate to n·γ + 2·(bounds on the noises of threshold and comparisons).

    Under pure budgets ε₁ + ε₂ + ε₃ = ε goes into threshold (scale 1/ε₁), comparisons (2c/ε₂) and
    answers (c/ε₃), Algorithm 7 of Lyu, Su and Li (2017). Otherwise each correction renews
    the threshold and is (ε₁ + ε₂)²/2 + ε₃²/2 zero-concentrated, which adds up (Bun and
    Steinke 2016), and is converted to (ε, δ).

    References
    ----------
    Hardt, M. and Rothblum, G. N. (2010). A multiplicative weights mechanism for privacy-preserving
    data analysis. 51st IEEE Symposium on Foundations of Computer Science, 61-70.
    doi:10.1109/FOCS.2010.85.

    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Section 4.2.

    Lyu, M., Su, D. and Li, N. (2017). Understanding the sparse vector technique for differential
    privacy. Proceedings of the VLDB Endowment 10(6), 637-648. doi:10.14778/3055330.3055331.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> curator = OnlineMultiplicativeWeights([90_000, 5_000, 3_000, 2_000], queries=10, rng=1,
    ...                                       guarantee=PureDP(1.0, neighbours="replace"))
    >>> round(curator.accuracy), curator.max_updates
    (11493, 109)
    >>> abs(curator.answer([1, 1, 0, 0]) - 95_000) <= curator.accuracy
    True
    """

    def __init__(
        self,
        histogram: Any,
        *,
        guarantee: Guarantee,
        queries: int,
        beta: float = 0.05,
        max_updates: int | None = None,
        ledger: BudgetLedger | None = None,
        name: str = "multiplicative weights",
        sampler: Sampler = "simulated",
        rng: RNG = None,
    ) -> None:
        counts, self._columns = check_histogram(histogram)
        self._counts = counts
        self._records = float(counts.sum())
        self._most = check_integer(queries, "queries", ge=1, le=MOST_QUERIES)
        self.beta = check_failure(beta)
        setting = read_setting(guarantee, self._records, counts.size, self._most, self.beta)
        self._plan = plan_noise(online_plan, setting, check_updates(max_updates))
        self.nominal = guarantee
        self._source = noise_source(sampler, rng)
        self.sampler = self._source.sampler
        record(ledger, name, guarantee, self._source)
        self._hypothesis = Hypothesis(counts.size)
        self._threshold = self._noisy_threshold()
        self._asked = self._updates = 0

    @property
    def asked(self) -> int:
        """Number of queries answered so far."""
        return self._asked

    @property
    def updates(self) -> int:
        """How often the hypothesis was corrected so far."""
        return self._updates

    @property
    def accuracy(self) -> float:
        """Bound on the errors of all answers together, in records."""
        return self._plan.accuracy + 8.0 / _STEPS

    @property
    def max_updates(self) -> int:
        """How often the hypothesis can be corrected."""
        return self._plan.updates

    @property
    def histogram(self) -> Any:
        """The hypothesis so far: a table with the number of records."""
        return attach_labels(self._records * self._hypothesis.weights, self._columns)

    def answer(self, query: Any) -> float:
        """Answer one counting query.

        Parameters
        ----------
        query : array of float, shape (n,)
            How much each record of a cell counts, between 0 and 1.

        Returns
        -------
        float
            The answer, in records.

        Raises
        ------
        IncompatibleReleaseError
            If all queries have been asked.
        """
        return self.answer_noting(query)[0]

    def answer_noting(self, query: Any) -> tuple[float, bool]:
        """Answer one counting query, and say whether the data answered, rather than the hypothesis.

        Parameters
        ----------
        query : array of float, shape (n,)
            As for :meth:`answer`.
        """
        values = check_array(query, "query", ndim=1, ge=0, le=1)
        if values.size != self._counts.size:
            raise InvalidParameterError(
                f"query must have {self._counts.size} entries, one for each cell, got {values.size}"
            )
        if self.asked >= self._most:
            raise IncompatibleReleaseError(
                f"queries must be at most {self._most}, as stated in the beginning: all have been "
                "asked"
            )
        if not self.simulated:
            check_whole(values, "query")
        self._asked += 1
        guess = self._records * float(values @ self._hypothesis.weights)
        if self.updates >= self._plan.updates:
            return guess, False
        true = values @ self._counts
        error = abs(_steps(float(true)) - _steps(guess))
        if error + self._source.steps(self._plan.query_scale * _STEPS) < self._threshold:
            return guess, False
        noisy = float(self._source.add(true, Laplace(scale=self._plan.answer_scale)))
        self._updates += 1
        if self._plan.renewed:
            self._threshold = self._noisy_threshold()
        self._learn(values, noisy - guess)
        return noisy, True

    def __repr__(self) -> str:
        return (
            f"OnlineMultiplicativeWeights({self.asked} of {self._most} queries asked, "
            f"{self.updates} of {self.max_updates} updates, "
            f"{'simulated: no guarantee' if self.simulated else self.guarantee})"
        )

    def _learn(self, query: FloatArray, noisy_error: float) -> None:
        """Correct the hypothesis by the least error that the noisy one allows."""
        size = max(self._plan.least, abs(noisy_error) - self._plan.answer_bound)
        share = min(size / self._records, 1.0)
        self._hypothesis.update(query, float(np.copysign(share, noisy_error)))

    def _noisy_threshold(self) -> int:
        # three steps more, so that rounding makes no error that is answered for a smaller one
        noise = self._source.steps(self._plan.threshold_scale * _STEPS)
        return int(np.ceil(self._plan.threshold * _STEPS)) + 3 + noise


def _steps(records: float) -> int:
    return round(records * _STEPS)


def record(ledger: object, name: str, guarantee: Guarantee, source: NoiseSource) -> None:
    """Enter the expense into a ledger, if there is one; it may refuse."""
    if ledger is None:
        return
    if not isinstance(ledger, BudgetLedger):
        raise InvalidParameterError(f"ledger must be a BudgetLedger, got {show(ledger)}")
    ledger.record(f"{name} (simulated)" if source.simulated else name, guarantee)


def check_whole(coefficients: FloatArray, name: str) -> None:
    """Refuse queries whose true answers are no whole numbers, computed exactly."""
    if not np.isin(coefficients, (0.0, 1.0)).all():
        raise InvalidParameterError(
            f"{name} must count each record as 0 or 1 for sampler='opendp': other sums are rounded"
        )


def check_histogram(histogram: Any) -> tuple[FloatArray, Any]:
    """Return whole, non-negative counts of at least two cells, and their labels."""
    counts, labels = split_labels(histogram, "histogram")
    if counts.ndim != 1 or not 2 <= counts.size <= MOST_CELLS:
        raise InvalidParameterError(
            f"histogram must be one-dimensional with 2 to {MOST_CELLS} cells, got shape "
            f"{counts.shape}"
        )
    if (counts < 0).any() or (counts != np.floor(counts)).any():
        raise InvalidParameterError("histogram must hold whole numbers >= 0")
    if not 0 < counts.max() <= 1e15 or counts.sum() > 1e15:
        raise InvalidParameterError("histogram must hold between 1 and 1e15 records")
    return counts, labels


def check_updates(max_updates: int | None) -> int | None:
    """Return the number of updates, if it is given."""
    if max_updates is None:
        return None
    return check_integer(max_updates, "max_updates", ge=1, le=MOST_UPDATES)
