"""Noise in proportion to a smooth sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_array,
    check_integer,
    check_option,
    check_rng,
    check_scalar,
    check_shape,
    show,
)
from dpinfer._numerics.roots import find_root
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.privacy.guarantees import ApproxDP, Guarantee, PureDP

_FLOOR = 1e-100
"""Smooth bounds are not below this share of the range, where e^-β(j - i) would end at 0."""

_SMALLEST_RANGE = 1e-100

_LARGEST = 1e300


@dataclass(frozen=True)
class SmoothSensitivity:
    """Local sensitivity of a query at a data set, and a β-smooth upper bound on it.

    It depends on the confidential data: it is a curator's tool, and is not published.

    Parameters
    ----------
    value : float
        The smooth bound, at least ``local``: e^{-βd} times the largest local sensitivity at
        distance d, over all d.
    local : float
        The local sensitivity >= 0: the largest change of the answer when one record is replaced.
    beta : float
        The β >= 0: between neighbours the bound changes by a factor of at most e^β.

    Examples
    --------
    >>> SmoothSensitivity(value=2.0, local=1.0, beta=0.1).value
    2.0
    """

    value: float
    local: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("value", "local", "beta"):
            object.__setattr__(self, name, check_scalar(getattr(self, name), name, ge=0))
        if self.value < self.local:
            raise InvalidParameterError(
                f"value must be at least local = {self.local}, got {self.value}"
            )


def smooth_median_sensitivity(
    values: ArrayLike,
    lower: float,
    upper: float,
    *,
    beta: float,
    rank: int | None = None,
) -> SmoothSensitivity:
    """Smooth sensitivity of the median, or of another order statistic, of bounded records.

    The number n of records is public, and neighbours replace one record.

    Parameters
    ----------
    values : array of float, shape (n,)
        The confidential records, within [``lower``, ``upper``], in any order.
    lower, upper : float
        The range of a record, known before the data, of a length of at least 1e-100. The global
        sensitivity of the median is ``upper - lower``, or half of that for an even number of
        records.
    beta : float
        The smoothness, within [0, 1e100]; see :class:`SmoothNoise` for that which a noise needs.
    rank : int, optional
        The order statistic, 1 for the smallest record. By default the median: the middle record,
        or the average of the middle two, as in :func:`numpy.median`.

    Returns
    -------
    SmoothSensitivity
        The local sensitivity and its smallest β-smooth upper bound.

    Notes
    -----
    With the records sorted, x₀ = lower and xₙ₊₁ = upper, that of rank m has

        max over i ≤ m ≤ j, i < j, of (xⱼ - xᵢ)·exp(-β(j - i - 1)),

    as a gap from xᵢ to xⱼ opens when the j - i - 1 records between them but one, and one more, are
    replaced. It is never less than 1e-100 of the range: a bound of 0 would mean no noise at all,
    and the larger of a constant and a smooth bound is a smooth bound. For the average of ranks m
    and m+1 it is the largest
    (xⱼ - xᵢ)/2·exp(-β(j - i - 2)) over i ≤ m < j, j - i ≥ 2. The best j does not fall as i grows,
    so that divide and conquer finds the maximum in n·log n steps.

    References
    ----------
    Nissim, Raskhodnikova and Smith (2007), Smooth sensitivity and sampling in private data
    analysis, doi:10.1145/1250790.1250803, Definition 2.2 and Section 3.1.

    Examples
    --------
    >>> found = smooth_median_sensitivity([1.0, 2.0, 2.5, 4.0, 9.0], 0.0, 10.0, beta=0.5)
    >>> found.local, round(found.value, 6)
    (1.5, 3.942449)
    """
    low = check_scalar(lower, "lower", ge=-_LARGEST, le=_LARGEST)
    high = check_scalar(upper, "upper", ge=-_LARGEST, le=_LARGEST)
    if low >= high:
        raise InvalidParameterError(f"upper must be > lower = {low}, got {high}")
    if high - low < _SMALLEST_RANGE:
        raise InvalidParameterError(
            f"upper must be >= lower + {_SMALLEST_RANGE:g}, got lower = {low}, upper = {high}: "
            "give the records in smaller units"
        )
    records = np.sort(check_array(values, "values", ge=low, le=high, ndim=1))
    smoothness = check_scalar(beta, "beta", ge=0, le=1e100)
    n = records.size
    x = np.concatenate([[low], records, [high]])
    # the answer is the average of records m to m + extra
    extra = 1 if rank is None and n % 2 == 0 else 0
    m = (n + 1) // 2 if rank is None else check_integer(rank, "rank", ge=1, le=n)
    width = 1 + extra
    near = np.array([m - 1, m])
    near = near[near + width < x.size]
    local = float((x[near + width] - x[near]).max()) / width
    log_best = _best_gap(x, m, m + extra, width, smoothness)
    value = max(float(np.exp(log_best)) / width, local, _FLOOR * (high - low))
    return SmoothSensitivity(value, local, smoothness)


def smooth_count_sensitivity(*, beta: float) -> SmoothSensitivity:
    """Smooth sensitivity of a count: 1, whatever the data.

    Local sensitivity and smooth bound are both the global sensitivity: at every data set some
    record can be added, removed or replaced so that the count changes. There is nothing to gain
    over :class:`~dpinfer.mechanisms.Geometric` noise.

    Parameters
    ----------
    beta : float
        The smoothness, within [0, 1e100], which does not matter.

    Returns
    -------
    SmoothSensitivity
        The value 1 for both.

    Examples
    --------
    >>> smooth_count_sensitivity(beta=0.1).value
    1.0
    """
    return SmoothSensitivity(1.0, 1.0, check_scalar(beta, "beta", ge=0, le=1e100))


def _best_gap(x: FloatArray, last: int, first: int, width: int, beta: float) -> float:
    """Largest ln(x_j - x_i) - β(j - i - width) over i ≤ last, j ≥ first and j - i ≥ width.

    Rows i are halved, and the best j of the middle row limits that of the rows on its two sides;
    all rows of one depth are done together.
    """
    from_i, to_i = np.array([0]), np.array([last])
    from_j, to_j = np.array([first]), np.array([x.size - 1])
    best = -np.inf
    while from_i.size:
        i = (from_i + to_i) // 2
        lengths = to_j - from_j + 1
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        j = np.arange(lengths.sum()) + np.repeat(from_j - starts, lengths)
        gap = j - np.repeat(i, lengths)
        with np.errstate(divide="ignore"):
            score = np.log(np.maximum(x[j] - np.repeat(x[i], lengths), 0.0))
        score = np.where(gap >= width, score - beta * (gap - width), -np.inf)
        top = np.maximum.reduceat(score, starts)
        best = max(best, float(top.max()))
        hits = np.flatnonzero(score == np.repeat(top, lengths))
        at = j[hits[np.searchsorted(hits, starts)]]
        # a row that is flat limits nothing on its left
        at = np.where(top > -np.inf, at, to_j)
        from_i, to_i, from_j, to_j = (
            np.concatenate(pair)
            for pair in ((from_i, i + 1), (i - 1, to_i), (from_j, at), (at, to_j))
        )
        kept = from_i <= to_i
        from_i, to_i, from_j, to_j = from_i[kept], to_i[kept], from_j[kept], to_j[kept]
    return best


Kind = Literal["cauchy", "laplace"]
_LEAST = 1e-100


@dataclass(frozen=True)
class SmoothNoise:
    """Noise whose scale is a smooth sensitivity times a factor.

    Parameters
    ----------
    kind : {"cauchy", "laplace"}
        The law of the noise.
    beta : float
        The smoothness β > 0 that the sensitivity has to have at least.
    factor : float
        The scale of the noise for a smooth sensitivity of 1, > 0.

    Notes
    -----
    The noise moves by at most 1/factor of its scale between neighbours, and its scale by a factor
    of at most e^β. With S the smooth sensitivity and Z standard noise, f + S·factor·Z is

    - Cauchy: ε-DP for ε = 1/factor + β, as the log density has a slope of at most 1, and changes
      by at most β when the scale does;
    - Laplace: (ε, δ)-DP for ε = 1/factor + η, η ≥ β and
      δ = (1 - e^{-β})·exp(-(η + β)/(e^β - 1)), what two Laplace laws of scales 1 and e^{-β} have
      at η.

    The scale depends on the confidential data and is not published, so that no interval for the
    answer follows from the release alone.

    References
    ----------
    Nissim, Raskhodnikova and Smith (2007), doi:10.1145/1250790.1250803, Lemmas 2.6 to 2.9, with
    larger factors.

    Examples
    --------
    >>> from dpinfer.privacy import ApproxDP, PureDP
    >>> SmoothNoise.for_guarantee(PureDP(1.0, neighbours="replace"))
    SmoothNoise(kind='cauchy', beta=0.5, factor=2.0)
    >>> noise = SmoothNoise.for_guarantee(ApproxDP(1.0, 1e-6, neighbours="replace"))
    >>> noise.kind, round(noise.beta, 6)
    ('laplace', 0.049694)
    """

    kind: Kind
    beta: float
    factor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", check_option(self.kind, "kind", ("cauchy", "laplace")))
        for name in ("beta", "factor"):
            value = check_scalar(getattr(self, name), name, gt=0, le=1e100)
            object.__setattr__(self, name, value)

    @classmethod
    def for_guarantee(cls, guarantee: Guarantee, *, share: float = 0.5) -> SmoothNoise:
        """Noise that gives a guarantee: Cauchy for ε-DP, Laplace for (ε, δ)-DP.

        Parameters
        ----------
        guarantee : PureDP or ApproxDP
            The guarantee, with ``neighbours="replace"`` and ε > 0.
        share : float, default 0.5
            The share, within (0, 1), of ε that pays for the answer's move; the rest pays for the
            change of the scale. A larger share makes the factor smaller, and β too.
        """
        part = check_scalar(share, "share", gt=0, lt=1)
        if not isinstance(guarantee, (PureDP, ApproxDP)):
            raise InvalidParameterError(
                f"guarantee must be a PureDP or an ApproxDP, got {show(guarantee)}"
            )
        if guarantee.neighbours != "replace":
            raise IncompatibleReleaseError(
                'guarantee must have neighbours="replace", got "add-remove": the sensitivities '
                "here are for a public number of records"
            )
        move, rest = part * guarantee.epsilon, (1.0 - part) * guarantee.epsilon
        if min(move, rest) < _LEAST:
            raise InvalidParameterError(
                f"epsilon must be > 0, and both of its shares at least {_LEAST:g}, got "
                f"{guarantee.epsilon} with shares {move} and {rest}"
            )
        delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
        if delta == 0:
            return cls("cauchy", rest, 1.0 / move)
        return cls("laplace", _laplace_beta(rest, delta), 1.0 / move)

    def scale(self, sensitivity: SmoothSensitivity) -> float:
        """Scale of the noise: the smooth bound times ``factor``. It is confidential.

        A sensitivity that is less smooth than ``beta`` is refused.
        """
        if not isinstance(sensitivity, SmoothSensitivity):
            raise InvalidParameterError(
                f"sensitivity must be a SmoothSensitivity, got {show(sensitivity)}"
            )
        if sensitivity.beta > self.beta * (1.0 + 1e-12):
            raise InvalidParameterError(
                f"sensitivity must be smooth with beta <= {self.beta}, got {sensitivity.beta}: "
                "compute it with the beta of the noise"
            )
        return sensitivity.value * self.factor

    def rvs(
        self,
        sensitivity: SmoothSensitivity,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: RNG = None,
    ) -> Any:
        """Draw noise, for simulation: not hardened against floating-point or timing attacks.

        Parameters
        ----------
        sensitivity : SmoothSensitivity
            The smooth sensitivity at the data.
        size : int or tuple of int, optional
            The shape; by default one draw.
        rng : None, int or numpy.random.Generator
            The source of randomness, or its seed.
        """
        shape = () if size is None else check_shape(size)
        generator = check_rng(rng)
        draw = generator.standard_cauchy if self.kind == "cauchy" else generator.laplace
        return (self.scale(sensitivity) * np.asarray(draw(size=shape)))[()]

    def isf(self, q: ArrayLike, sensitivity: SmoothSensitivity) -> Any:
        """Upper quantile of the noise, for the curator: the scale is confidential.

        Parameters
        ----------
        q : float or array of float
            The probability, within [1e-300, 1), that the noise is larger.
        sensitivity : SmoothSensitivity
            The smooth sensitivity at the data.
        """
        tail = check_array(q, "q", gt=0, ge=1e-300, lt=1)
        least = np.minimum(tail, 1.0 - tail)
        cauchy = self.kind == "cauchy"
        standard = 1.0 / np.tan(np.pi * least) if cauchy else -np.log(2.0 * least)
        signed = np.where(tail < 0.5, standard, np.where(tail > 0.5, -standard, 0.0))
        return (self.scale(sensitivity) * signed)[()]


def _laplace_beta(rest: float, delta: float) -> float:
    """Largest β ≤ η, η = ``rest``, for which two Laplace laws have at most δ at η."""

    def spare(log_beta: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        # ln δ at ε = η of Laplace laws of scales 1 and e^{-β}
        beta = np.exp(log_beta)
        log_delta = np.log(-np.expm1(-beta)) - (rest + beta) / np.expm1(beta)
        return np.asarray(np.log(delta) - log_delta)

    # small enough even where δ is the smallest float
    low, high = np.array([np.log(rest) - 10.0 - np.log1p(rest)]), np.array([np.log(rest)])
    if spare(high, np.array([0]))[0] >= 0:
        return rest
    return float(np.exp(find_root(spare, low, high, expand=True)[0][0]))
