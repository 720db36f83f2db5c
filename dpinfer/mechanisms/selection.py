"""Mechanisms that publish which option is best, or which queries reach a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_flag,
    check_integer,
    check_option,
    check_rng,
    check_scalar,
    check_shape,
    show,
)
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import ExponentialMechanism
from dpinfer.mechanisms.laws import Laplace

Noise = Literal["laplace", "gumbel", "exponential"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 45.0
"""In scales: e^-45 of the noise is left out."""

_DEEPEST = 700.0
"""An option so many scales below the best has a probability that is hardly a float."""

_BLOCK = 1 << 20
_MOST_QUERIES = 10**15
_MOST = 10_000
"""Options up to which the law of Laplace noise takes seconds."""


def _panels(edges: FloatArray, widest: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of Gauss's rule between edges, on panels of at most a width."""
    width = np.diff(edges)
    edges, width = edges[:-1][width > 0], width[width > 0]
    count = np.ceil(width / widest).astype(np.intp)
    part = np.repeat(width / count, count)
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    half = 0.5 * part[:, None]
    middle = (np.repeat(edges, count) + part * place)[:, None] + half
    return (middle + half * _NODES).ravel(), np.broadcast_to(
        half * _WEIGHTS, (half.size, 16)
    ).ravel()


def _log_laplace_cdf(x: FloatArray) -> FloatArray:
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, np.minimum(x, 0.0) - np.log(2.0), np.log1p(-half))


@dataclass(frozen=True, kw_only=True)
class NoisyMax:
    """Report the option whose score is the largest after noise was added to each.

    Parameters
    ----------
    epsilon : float
        The budget ε > 0.
    noise : {"laplace", "gumbel", "exponential"}, default "exponential"
        What is added to each score, of one scale b. Gumbel noise makes it the exponential
        mechanism; one-sided exponential noise makes it permute-and-flip, which is never worse.
    sensitivity : float, default 1
        The largest change Δ > 0 of any one score between neighbouring databases.
    monotonic : bool, default False
        Whether one record more moves all the scores in the same direction, as with counts under
        add-remove neighbours. Then b = Δ/ε is enough, and b = 2Δ/ε otherwise.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    Only the number of the option is paid for. Its noisy score is a further release, unless all
    noisy scores were paid for; see :func:`dpinfer.intervals.winner_confint`. With scores q, and
    p_j = exp((q_j - max q)/b), option i is reported with probability

        ∫ g(x - q_i)·Π_{j≠i} G(x - q_j) dx (Laplace noise of density g and cdf G),
        p_i/Σp_j (Gumbel),  p_i ∫₀¹ Π_{j≠i} (1 - p_j t) dt (exponential),

    all of them sums of positive terms, right to about 13 digits relatively.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Claim 3.9.

    McKenna, R. and Sheldon, D. (2020). Permute-and-flip: a new mechanism for differentially
    private selection. arXiv:2010.12603.

    Ding, Z., Kifer, D., Steinke, T., Wang, Y., Xiao, Y. and Zhang, D. (2021). The permute-and-flip
    mechanism is identical to report-noisy-max with exponential noise. arXiv:2105.07260.

    Examples
    --------
    The most common disease of four (Zhu and others 2017, Table 2.3), at ε = .1:

    >>> scores = [24, 8, 28, 5]
    >>> NoisyMax(epsilon=0.1, noise="gumbel").probabilities(scores).round(3)
    array([0.327, 0.147, 0.399, 0.126])
    >>> NoisyMax(epsilon=0.1).probabilities(scores).round(3)
    array([0.324, 0.122, 0.45 , 0.104])

    At ε = 1 the best of ten options has at most 8.9 more than the one reported, with 95 %:

    >>> round(NoisyMax(epsilon=1.0).shortfall(10), 4)
    8.9388
    """

    epsilon: float
    noise: Noise = "exponential"
    sensitivity: float = 1.0
    monotonic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_scalar(self.epsilon, "epsilon", gt=0))
        check_option(self.noise, "noise", _PROBABILITIES)
        object.__setattr__(self, "sensitivity", check_scalar(self.sensitivity, "sensitivity", gt=0))
        object.__setattr__(self, "monotonic", check_flag(self.monotonic, "monotonic"))

    @property
    def scale(self) -> float:
        """The scale b of the noise, in units of the scores."""
        return (1.0 if self.monotonic else 2.0) * self.sensitivity / self.epsilon

    def probabilities(self, scores: ArrayLike) -> FloatArray:
        """Probability of each option.

        Parameters
        ----------
        scores : array of float, shape (k,)
            The scores of k options, at most 10,000 for Laplace noise.

        Returns
        -------
        array of float, shape (k,)
            The probabilities; 0 where they are below 1e-300.
        """
        q = check_array(scores, "scores", ndim=1) / self.scale
        with np.errstate(over="ignore"):
            return _PROBABILITIES[self.noise](self, np.maximum(q - q.max(), -1e300))

    def shortfall(self, options: int, *, alpha: float = 0.05) -> float:
        """How much the best score exceeds that of the reported option, at most.

        Parameters
        ----------
        options : int
            The number K >= 2 of options.
        alpha : float, default 0.05
            The probability, in (0, 1), that the best score exceeds it by more, at most.

        Returns
        -------
        float
            The g >= 0 with max q - q_reported <= g with probability 1 - ``alpha``, in units of the
            scores.

        Notes
        -----
        Whatever the scores are: an option g below the best is reported most often where all others
        are as far below. For Gumbel noise g = b·ln((K - 1)(1 - α)/α); for exponential noise
        p = e^(-g/b) solves (1 - (1-p)^K)/(Kp) = 1 - α; for Laplace noise ∫ g(x)G(x + c)^(K-1) dx
        = 1 - α at c = g/b.
        """
        number, alpha = (
            check_integer(options, "options", ge=2, le=_MOST_QUERIES),
            check_alpha(alpha),
        )

        def missed(c: FloatArray, _: NDArray[np.intp]) -> FloatArray:
            return np.array([_REPORTED[self.noise](float(x), number) for x in c]) - alpha

        start = np.zeros(1)
        if missed(start, np.zeros(1, dtype=np.intp))[0] <= 0:
            return 0.0
        return self.scale * float(find_root(missed, start, start + 1.0, expand=True)[1][0])

    def rvs(
        self, scores: ArrayLike, size: int | tuple[int, ...] | None = None, *, rng: RNG = None
    ) -> np.intp | NDArray[np.intp]:
        """Draw reports, for simulation: not hardened against floating-point or timing attacks.

        Parameters
        ----------
        scores : array of float, shape (k,)
            The scores of k options.
        size : int or tuple of int, optional
            The shape of the answer; by default one report.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        int or array of int
            Positions of the reported options, 0 to k-1.
        """
        q = check_array(scores, "scores", ndim=1) / self.scale
        shape = () if size is None else check_shape(size)
        draw = getattr(check_rng(rng), self.noise)
        return np.asarray(np.argmax(q + draw(size=(*shape, q.size)), axis=-1))[()]


def _laplace(mechanism: NoisyMax, q: FloatArray) -> FloatArray:
    if q.size > _MOST:
        raise InvalidParameterError(
            f"scores must be of at most {_MOST:,} options for Laplace noise, got {q.size:,}: "
            "take noise='exponential' or simulate with rvs"
        )
    levels, kind, times = np.unique(q, return_inverse=True, return_counts=True)
    low = max(levels[0], -_DEEPEST)
    edges = np.concatenate([[low - _REACH], levels[levels > low], [low, _REACH]])
    x, weight = _panels(np.sort(edges), 1.0)
    found = np.zeros(levels.size)
    rows = max(_BLOCK // levels.size, 1)
    for i in range(0, x.size, rows):
        gap = x[i : i + rows, None] - levels
        log_cdf = _log_laplace_cdf(gap)
        total = (log_cdf @ times)[:, None] - log_cdf - np.abs(gap) - np.log(2.0)
        found += weight[i : i + rows] @ np.exp(total)
    return found[kind] if q.size > 1 else np.ones(1)


def _gumbel(mechanism: NoisyMax, q: FloatArray) -> FloatArray:
    return ExponentialMechanism(epsilon=2.0).probabilities(q)


def _exponential(mechanism: NoisyMax, q: FloatArray) -> FloatArray:
    levels, kind, times = np.unique(np.exp(q), return_inverse=True, return_counts=True)
    # the product falls at least as fast as e^(-t·Σp)
    fall = float(levels @ times)
    t, weight = _panels(np.array([0.0, min(1.0, _REACH / fall)]), 1.0 / fall)
    found = np.zeros(levels.size)
    rows = max(_BLOCK // levels.size, 1)
    for i in range(0, t.size, rows):
        left = np.log1p(-t[i : i + rows, None] * levels)
        found += weight[i : i + rows] @ np.exp((left @ times)[:, None] - left)
    return (levels * found)[kind]


_PROBABILITIES = {"laplace": _laplace, "gumbel": _gumbel, "exponential": _exponential}


def _reported_laplace(c: float, number: int) -> float:
    x, weight = _panels(np.sort([-_REACH, -c, 0.0, _REACH]), 1.0)
    mass = weight * 0.5 * np.exp(-np.abs(x))
    return float(mass @ -np.expm1((number - 1) * _log_laplace_cdf(x + c)))


def _reported_gumbel(c: float, number: int) -> float:
    return float(special.expit(np.log(number - 1) - c))


def _reported_exponential(c: float, number: int) -> float:
    p = np.exp(-c)
    if number * p > 1.0:
        return (
            float(1.0 + np.expm1(number * np.log1p(-p)) / (number * p))
            if p < 1
            else (1.0 - 1.0 / number)
        )
    # the same as an integral of positive terms, where the difference from one has no digits
    t, weight = _panels(np.array([0.0, 1.0]), 1.0)
    return float(weight @ -np.expm1((number - 1) * np.log1p(-p * t)))


_REPORTED = {
    "laplace": _reported_laplace,
    "gumbel": _reported_gumbel,
    "exponential": _reported_exponential,
}
"""Probability that one of the options is reported that are c scales below the best, as all are."""


@dataclass(frozen=True, kw_only=True)
class SparseVector:
    """Answer whether queries reach a threshold, one after the other, and pay for those that do.

    A query is answered "above" if q_i + V_i >= T + Z, with noise Z of the threshold and V_i of each
    query; after ``count`` such answers it stops.

    Parameters
    ----------
    threshold_scale, query_scale : float
        The scales of the Laplace noises Z and V_i, > 0, in units of the queries.
    count : int, default 1
        The number c >= 1 of answers "above" after which it stops.
    sensitivity : float, default 1
        The largest change Δ > 0 of any one query between neighbouring databases.
    monotonic : bool, default False
        Whether one record more moves all queries in the same direction.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    It is ε-differentially private with ε = Δ/b_T + 2cΔ/b_V, and Δ/b_T + cΔ/b_V where queries move
    together. Published variants that are not, and that this class cannot be made into (Lyu, Su and
    Li 2017): without noise of the queries, or without a limit c, or with noise of the queries that
    does not grow with c; and those that also publish q_i + V_i of a query that was above, which
    needs a further release of its own.

    Given Z = z the answers are independent, so that the law of a pattern of them is one integral
    over z, with probabilities P(V_i >= T + z - q_i).

    References
    ----------
    Lyu, M., Su, D. and Li, N. (2017). Understanding the sparse vector technique for differential
    privacy. Proceedings of the VLDB Endowment 10(6), 637-648. doi:10.14778/3055330.3055331.

    Examples
    --------
    >>> mechanism = SparseVector.from_epsilon(1.0, count=2)
    >>> round(mechanism.epsilon, 12), round(mechanism.threshold_scale, 4)
    (1.0, 3.5198)
    >>> SparseVector(threshold_scale=2, query_scale=4).stopping_law([0, 2, 5], 3).round(4)
    array([0.2777, 0.2685, 0.2587, 0.195 ])
    """

    threshold_scale: float
    query_scale: float
    count: int = 1
    sensitivity: float = 1.0
    monotonic: bool = False

    def __post_init__(self) -> None:
        for name in ("threshold_scale", "query_scale", "sensitivity"):
            object.__setattr__(self, name, check_scalar(getattr(self, name), name, gt=0))
        object.__setattr__(
            self, "count", check_integer(self.count, "count", ge=1, le=_MOST_QUERIES)
        )
        object.__setattr__(self, "monotonic", check_flag(self.monotonic, "monotonic"))

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, count: int = 1, sensitivity: float = 1.0, monotonic: bool = False
    ) -> Self:
        """Split a budget so that the noise of a comparison varies least.

        Parameters
        ----------
        epsilon : float
            The budget ε > 0 in all.
        count, sensitivity, monotonic
            As for the class.

        Notes
        -----
        Threshold and queries have shares 1 : (2c)^(2/3) of ε, and 1 : c^(2/3) where queries move
        together, which minimises the variance of V_i - Z.
        """
        budget = check_scalar(epsilon, "epsilon", gt=0, ge=1e-100, le=1e100)
        times = check_integer(count, "count", ge=1, le=_MOST_QUERIES) * (
            1 if check_flag(monotonic, "monotonic") else 2
        )
        change = check_scalar(sensitivity, "sensitivity", gt=0)
        first = budget / (1.0 + times ** (2.0 / 3.0))
        return cls(
            threshold_scale=change / first,
            query_scale=times * change / (budget - first),
            count=count,
            sensitivity=change,
            monotonic=monotonic,
        )

    @property
    def epsilon(self) -> float:
        """The privacy loss ε of all answers together."""
        times = self.count * (1 if self.monotonic else 2)
        return self.sensitivity * (1.0 / self.threshold_scale + times / self.query_scale)

    def probability(self, above: ArrayLike, queries: ArrayLike, threshold: float) -> float:
        """Probability of a pattern of answers.

        Parameters
        ----------
        above : array of bool, shape (m,)
            The answers to the first m queries: all k of them, or those up to the c-th "above".
        queries : array of float, shape (k,)
            The confidential answers.
        threshold : float
            The public threshold T.

        Returns
        -------
        float
            The probability; 0 where it is no pattern that can come out.
        """
        q, x, weight = self._integral(queries, threshold)
        try:
            pattern = np.asarray(above)
        except ValueError:  # lists of different lengths
            pattern = np.empty((0, 0))
        if pattern.dtype != np.bool_ or pattern.ndim != 1 or pattern.size > q.size:
            raise InvalidParameterError(
                f"above must hold a bool for each of at most {q.size} queries, got {show(above)}"
            )
        ups = int(pattern.sum())
        stopped = ups == self.count and bool(pattern[-1])
        if not stopped and (ups >= self.count or pattern.size < q.size):
            return 0.0
        noise, chance = Laplace(scale=self.query_scale), weight.copy()
        for value, up in zip(q, pattern, strict=False):
            chance *= noise._sf(x - value if up else value - x)
        return float(chance.sum())

    def stopping_law(self, queries: ArrayLike, threshold: float) -> FloatArray:
        """Probabilities of stopping after each query, and of never stopping.

        Parameters
        ----------
        queries : array of float, shape (k,)
            The confidential answers.
        threshold : float
            The public threshold T.

        Returns
        -------
        array of float, shape (k + 1,)
            That the c-th "above" is at each query; the last is that there are fewer than c.
        """
        q, nodes, weights = self._integral(queries, threshold)
        noise, count = Laplace(scale=self.query_scale), min(self.count, q.size + 1)
        found = np.zeros(q.size + 1)
        rows = max(_BLOCK // count, 1)
        for start in range(0, nodes.size, rows):
            x, weight = nodes[start : start + rows], weights[start : start + rows]
            # by the number of "above" so far
            state = np.zeros((count, x.size))
            state[0] = weight
            for i, value in enumerate(q):
                moved = state * noise._sf(x - value)
                found[i] += moved[-1].sum()
                state *= noise._sf(value - x)
                state[1:] += moved[:-1]
            found[-1] += state.sum()
        return found

    def accuracy(self, queries: int, *, alpha: float = 0.05) -> float:
        """How far a wrongly answered query can be from the threshold, at most.

        Parameters
        ----------
        queries : int
            The number m >= 1 of queries that are answered.
        alpha : float, default 0.05
            The probability, in (0, 1), that one of them is off by more, at most.

        Returns
        -------
        float
            The a >= 0 for which, with probability 1 - ``alpha``, every query answered "above" is
            at least T - a and every other one at most T + a; in units of the queries.

        Notes
        -----
        It solves ∫ g_Z(z)·[G_V(z + a) - G_V(z - a)]^m dz = 1 - α: then no V_i differs from Z by
        more than a, which is enough whatever the queries are, even if they are chosen by the
        answers before. As a query can be wrong in one direction only it is more than is needed: for
        one query the chance is α/2. The textbook's b ln(k/α) for each noise is about twice as wide.
        """
        number, alpha = (
            check_integer(queries, "queries", ge=1, le=_MOST_QUERIES),
            check_alpha(alpha),
        )
        second = Laplace(scale=self.query_scale)

        def missed(a: FloatArray, _: NDArray[np.intp]) -> FloatArray:
            found = []
            for c in a:
                z, mass = self._thresholds(np.array([-c, c]), self.query_scale)
                out = second._sf(z + c) + second._sf(c - z)
                with np.errstate(divide="ignore"):
                    found.append(float(mass @ -np.expm1(number * np.log1p(-out))) - alpha)
            return np.array(found)

        start = np.zeros(1)
        return float(find_root(missed, start, start + self.query_scale, expand=True)[1][0])

    def rvs(self, queries: ArrayLike, threshold: float, *, rng: RNG = None) -> NDArray[np.bool_]:
        """Draw answers, for simulation: not hardened against floating-point or timing attacks.

        Parameters
        ----------
        queries : array of float, shape (k,)
            The confidential answers.
        threshold : float
            The public threshold T.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.

        Returns
        -------
        array of bool, shape (m,)
            Whether each query is answered "above", up to the c-th that is.
        """
        q = check_array(queries, "queries", ndim=1) - check_scalar(threshold, "threshold")
        generator = check_rng(rng)
        noise = generator.laplace(scale=self.query_scale, size=q.size)
        above = q + noise >= generator.laplace(scale=self.threshold_scale)
        stop = np.flatnonzero(np.cumsum(above) == self.count)
        return np.asarray(above[: int(stop[0]) + 1] if stop.size else above)

    def _integral(
        self, queries: ArrayLike, threshold: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return queries less the threshold, and nodes and masses of the noise of the latter."""
        q = check_array(queries, "queries", ndim=1) - check_scalar(threshold, "threshold")
        return q, *self._thresholds(q, 2.0 * self.query_scale)

    def _thresholds(self, bends: FloatArray, width: float) -> tuple[FloatArray, FloatArray]:
        """Nodes and masses, with panels of a width where the noise of a query bends."""
        scale = self.threshold_scale
        reach = _REACH * scale
        parts, widest = [bends, np.array([-reach, 0.0, reach])], scale
        if 2.0 * reach <= 100.0 * width * bends.size:
            widest = min(scale, width)
        elif width < scale:
            steps = np.arange(-_REACH * self.query_scale, _REACH * self.query_scale, width)
            parts.append((bends[:, None] + steps).ravel())
        z, weight = _panels(np.sort(np.clip(np.concatenate(parts), -reach, reach)), widest)
        return z, weight * np.exp(Laplace(scale=scale)._logpdf(z))
