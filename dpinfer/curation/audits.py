"""What a release gives away: attacks on it, beside what its noise allows at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_integer,
    check_integer_array,
    check_option,
    check_reps,
    check_rng,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.independent import groups as groups_of
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.privacy.loss import PrivacyLoss, privacy_loss
from dpinfer.queries.workload import Workload, check_counting
from dpinfer.releases.release import Release
from dpinfer.results.presentation import Facts, Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

Attack = Literal["least-squares", "boxed", "integer"]

_LARGEST = 3_000
"""Cells up to which the null space of a workload is found."""

_MOST_TRIPLES = 400
_TOLERANCE = 1e-8
_TIE = 1e-9
_WITH_LOSS = (Laplace, Geometric, Gaussian, DiscreteGaussian)
_NOTES = (
    "An attack is a lower bound on the risk: that this one fails proves nothing.",
    "'most' is the upper bound: the best that any attack on this noise can do that holds both"
    " cases alike likely.",
)


class _Target:
    """A workload, dense, with the law of the noise of each of its rows, and values if published."""

    def __init__(self, release: Any, mechanism: Mechanism | None) -> None:
        self.values: FloatArray | None = None
        if isinstance(release, Release):
            if mechanism is not None:
                raise InvalidParameterError("mechanism must be left out: the release has its own")
            x = release.__noisy__()
            x.need(independent=True, unruled=True, who="an audit")
            if x.weights is not None:
                raise InvalidParameterError(
                    "release must have a noise of its own in each value, got one whose values "
                    "share noises"
                )
            workload, law, self.values = release.workload, x.marginal, x.values
        else:
            workload = release if isinstance(release, Workload) else Workload(release)
            if mechanism is None:
                raise InvalidParameterError(
                    "mechanism must be given for a workload: the noise that is planned for it, "
                    "Exact() for none"
                )
            law = as_noise(mechanism, len(workload))
            if law.is_integer:
                check_counting(workload, law)
        rows, cells = workload.shape
        if max(rows, cells) > 2 * _LARGEST or cells > _LARGEST:
            raise InvalidParameterError(
                f"release must have at most {_LARGEST:,} cells and {2 * _LARGEST:,} queries for "
                f"an audit, got {cells:,} and {rows:,}: audit parts of it"
            )
        matrix = workload.matrix
        self.matrix = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
        self.law: NoiseLaw = law
        self.variance = np.array(np.broadcast_to(law.variance, rows), dtype=np.float64)
        self.labels = workload.columns
        self._losses: dict[bytes, float] = {}

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        shape = (size, len(self.variance))
        return np.asarray(self.law._rvs(shape, rng), dtype=np.float64)

    def most(self, cell: int) -> float:
        """Best chance to tell whether one record more is in a cell, both alike likely before.

        It is (1 + δ(0))/2, with the total variation δ(0) of the outputs; 1 where a row that counts
        the cell has no noise, NaN where the law of the loss is not known.
        """
        change = np.abs(self.matrix[:, cell])
        key = change.tobytes()
        if key not in self._losses:
            self._losses[key] = _best_success(self.law, change)
        return self._losses[key]


def _best_success(law: NoiseLaw, change: FloatArray) -> float:
    total: PrivacyLoss | None = None
    for part, rows in groups_of(law, change.size):
        used = np.flatnonzero(change[rows])
        if not used.size:
            continue
        if isinstance(part, Exact):
            return 1.0
        if not isinstance(part, _WITH_LOSS):
            return float("nan")
        scales = part._take(used) if part.shape else part
        loss = privacy_loss(scales, change[rows][used])
        total = loss if total is None else total + loss
    return 0.5 if total is None else 0.5 * (1.0 + float(total.delta_at(0.0)))


@dataclass(frozen=True)
class DifferenceAudit(Listed, Plotted):
    """Small groups of cells that differences of published queries lay open.

    Attributes
    ----------
    groups : tuple of tuple of int
        The cells of each group whose sum is a linear function of the queries.
    weights : array of float, shape (g, m)
        The weights of the published values in the best linear estimate of each sum.
    sd : array of float, shape (g,)
        Its standard deviation, in records.
    success : array of float, shape (g,)
        The chance that it tells rightly whether one record more is in the group: P(e < 1/2), and
        half of P(e = 1/2).
    most : array of float, shape (g,)
        The best chance of any attack that knows all other records, which is never smaller.
    estimate : array of float, shape (g,), or None
        The estimates, where values were published.
    labels : Index or None
        Labels of the cells.
    """

    _drawing: ClassVar[str] = "plot_audit"

    groups: tuple[tuple[int, ...], ...]
    weights: FloatArray
    sd: FloatArray
    success: FloatArray
    most: FloatArray
    estimate: FloatArray | None
    labels: pd.Index | None

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self.groups), self.summary_frame().index

    def summary_frame(self) -> pd.DataFrame:
        """One row a group, the most exposed first."""
        import pandas as pd

        def names(group: tuple[int, ...]) -> str:
            found = group if self.labels is None else [self.labels[i] for i in group]
            return " + ".join(map(str, found))

        frame = pd.DataFrame(
            {
                "cells": [len(group) for group in self.groups],
                **({} if self.estimate is None else {"estimate": self.estimate}),
                "sd": self.sd,
                "success": self.success,
                "most": self.most,
            },
            index=pd.Index([names(group) for group in self.groups], name="group"),
        )
        return frame.sort_values(["success", "cells"], ascending=[False, True], kind="stable")

    def _table(self) -> Table:
        frame = self.summary_frame()
        return Table(
            "Groups that differences lay open",
            [("Groups", len(frame))],
            frame,
            index=list(frame.index),
            notes=_NOTES,
        )


def audit_differences(
    release: Any,
    *,
    mechanism: Mechanism | None = None,
    groups: ArrayLike | None = None,
    largest: int = 2,
) -> DifferenceAudit:
    """Find small groups whose counts are differences of published queries, and how well.

    Parameters
    ----------
    release : Release, Workload or matrix, shape (m, n)
        What was published, or the queries that are planned, on n cells: at most 3,000.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The noise of a plan: one law for all queries, or one for each.
    groups : array of 0 and 1, shape (g, n), optional
        Groups at risk to look at. By default all groups of up to ``largest`` cells that are laid
        open and have no smaller one in them.
    largest : int, default 2
        The largest number of cells of a group that is searched for: 1, 2 or 3.

    Returns
    -------
    DifferenceAudit
        The groups, the best linear estimate of each and its error, beside the best that any attack
        can do.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed; if a group given is not a linear function of the
        queries, or there are more than 400 open cells to be searched for groups of three.

    Notes
    -----
    A group with indicator t is laid open if t'N = 0, with N a basis of the null space of the
    queries A: cells with a zero row of N, pairs with opposite rows. Its best linear unbiased
    estimate w'y has A'w = t and the smallest w'Vw. Success is exact, by the law of w'e. Sizes are
    in cells: a cell of 40 records is no risk.

    Examples
    --------
    A table of 2 x 3 cells of which the total, the sums of both rows and two columns, and the total
    less the last cell were published: two cells are laid open.

    >>> from dpinfer import Laplace
    >>> queries = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1],
    ...            [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 0]]
    >>> found = audit_differences(queries, mechanism=Laplace(scale=2), largest=1)
    >>> found.summary_frame()[["sd", "success", "most"]].round(4).T
    group         5       2
    sd       3.6515  4.8990
    success  0.5639  0.5467
    most     0.6209  0.6642
    """
    target = _Target(release, mechanism)
    n = target.matrix.shape[1]
    # each query in its own unit: what is laid open does not depend on it
    unit = np.abs(target.matrix).max(axis=1)
    unit[unit == 0] = 1.0
    u, s, vt = np.linalg.svd(target.matrix / unit[:, None])
    rank = int((s > s[0] * max(target.matrix.shape) * 1e-14).sum())
    null = vt[rank:].T
    if groups is None:
        size = check_integer(largest, "largest", ge=1, le=3)
        found = tuple(_laid_open(null, size))
    else:
        chosen = check_integer_array(groups, "groups", ge=0, le=1)
        if chosen.ndim != 2 or chosen.shape[1] != n or not chosen.any(axis=1).all():
            raise InvalidParameterError(
                f"groups must have a row of 0 and 1 for each group and {n} columns, got "
                f"{show(groups)}"
            )
        hidden = np.abs(chosen @ null).max(axis=1, initial=0.0) > _TOLERANCE * n
        if hidden.any():
            raise InvalidParameterError(
                f"groups must be sums that the queries determine, and row {int(hidden.argmax())} "
                "is not: no unbiased estimate of it exists"
            )
        found = tuple(tuple(np.flatnonzero(row).tolist()) for row in chosen)
    t = np.zeros((len(found), n))
    for k, group in enumerate(found):
        t[k, list(group)] = 1.0
    w = (u[:, :rank] @ ((vt[:rank] @ t.T) / s[:rank, None])).T
    # what the queries say of each other takes variance away
    std = np.sqrt(target.variance) / unit
    free = u[:, rank:] * std[:, None]
    if free.shape[1] and len(found):
        w = w - (u[:, rank:] @ np.linalg.lstsq(free, (w * std).T, rcond=None)[0]).T
    w[np.abs(w) < 1e-13] = 0.0
    w /= unit
    sd = np.sqrt(np.square(w) @ target.variance)
    success = np.array([_tells(row, target.law) for row in w])
    most = np.array([max(target.most(i) for i in group) for group in found])
    return DifferenceAudit(
        found,
        w,
        sd,
        success,
        most,
        None if target.values is None else w @ target.values,
        target.labels,
    )


def _laid_open(null: FloatArray, size: int) -> Iterator[tuple[int, ...]]:
    """Yield groups of cells whose rows add up to zero, without smaller ones in them."""
    length = np.linalg.norm(null, axis=1) if null.shape[1] else np.zeros(len(null))
    alone = np.flatnonzero(length <= _TOLERANCE)
    yield from ((int(i),) for i in alone)
    left = np.flatnonzero(length > _TOLERANCE)
    if size == 1 or not left.size:
        return
    # random projections tell which sums may be zero
    seen = null @ np.random.default_rng(0).standard_normal((null.shape[1], 2))
    pairs = set()
    for i, j in _opposite(seen[left], seen[left]):
        one, other = int(left[i]), int(left[j])
        if one < other and np.linalg.norm(null[one] + null[other]) <= _TOLERANCE:
            pairs.add((one, other))
    yield from sorted(pairs)
    if size == 2:
        return
    if left.size > _MOST_TRIPLES:
        raise InvalidParameterError(
            f"largest must be at most 2 for {left.size} cells that are not laid open themselves, "
            f"got 3: groups of three are searched among {_MOST_TRIPLES}"
        )
    couples = np.array([p for p in combinations(left.tolist(), 2) if p not in pairs])
    if not couples.size:
        return
    sums = seen[couples[:, 0]] + seen[couples[:, 1]]
    triples = set()
    for k, j in _opposite(sums, seen[left]):
        group = tuple(sorted((int(couples[k, 0]), int(couples[k, 1]), int(left[j]))))
        if len(set(group)) < 3 or any(p in pairs for p in combinations(group, 2)):
            continue
        if np.linalg.norm(null[list(group)].sum(axis=0)) <= _TOLERANCE:
            triples.add(group)
    yield from sorted(triples)


def _opposite(first: FloatArray, second: FloatArray) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows that add up to about zero."""
    order = np.argsort(second[:, 0])
    values = second[order, 0]
    low = np.searchsorted(values, -first[:, 0] - 1e-6)
    high = np.searchsorted(values, -first[:, 0] + 1e-6)
    for k in np.flatnonzero(high > low):
        for j in order[low[k] : high[k]]:
            if abs(first[k, 1] + second[j, 1]) <= 1e-6:
                yield int(k), int(j)


def _tells(weights: FloatArray, law: NoiseLaw) -> float:
    error = WeightedSum(weights, law)
    if error.variance == 0:
        return 1.0
    # weights are rounded, and errors of exactly 1/2 with them
    return 1.0 - 0.5 * float(error.sf(0.5 - _TIE) + error.sf(0.5 + _TIE))


@dataclass(frozen=True)
class ReconstructionAudit(Facts):
    """How many cells an attack that solves for them gets right; made by ``audit_reconstruction``.

    Attributes
    ----------
    rate : float
        The share of cells that it gets exactly right.
    mc_error : float
        Its standard error from one simulation to another; 0 for a published release.
    baseline : float
        The share right by giving every cell the commonest value.
    expected : float
        What the normal law of the errors says of least squares: the mean of P(abs(e) < 1/2), and of
        P(e < 1/2) at the ends of the range; NaN where the queries do not determine the cells.
    most : float
        The mean, over the cells, of the best chance to tell 0 from 1 of any attack that knows all
        others, both alike likely before; NaN unless ``upper`` is 1. Of a ``truth`` with more of one
        than of the other, ``rate`` can be above it, as ``baseline`` can.
    method : str
        The attack.
    reps : int
        The number of simulated releases, or 1.
    """

    _title: ClassVar[str] = "Reconstruction"
    _notes: ClassVar[tuple[str, ...]] = _NOTES

    rate: float
    mc_error: float
    baseline: float
    expected: float
    most: float
    method: str
    reps: int


def audit_reconstruction(
    release: Any,
    *,
    mechanism: Mechanism | None = None,
    truth: ArrayLike | None = None,
    upper: int = 1,
    method: Attack = "least-squares",
    reps: int = 20,
    rng: RNG = None,
) -> ReconstructionAudit:
    """Solve the published queries for the cells, and tell how many come out right.

    Parameters
    ----------
    release : Release, Workload or matrix, shape (m, n)
        What was published, or the queries that are planned: each cell is a person with a secret
        bit, or counts from 0 to ``upper``.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The noise of a plan; ``Exact()`` for none.
    truth : array of int, shape (n,), optional
        The confidential cells, needed for a published release, whose values are attacked. Of a plan
        they are drawn anew for each simulated release by default, all values alike likely.
    upper : int, default 1
        The largest value of a cell, which the attacker knows.
    method : {"least-squares", "boxed", "integer"}
        Weighted least squares, rounded into the range; the same within the range; or whole numbers
        with the least sum of residuals, an integer program that may take long beyond some 50 cells.
    reps : int, default 20
        The number of simulated releases.
    rng : None, int or numpy.random.Generator, optional
        Source of the simulation.

    Returns
    -------
    ReconstructionAudit
        The share right, beside what guessing reaches, what theory says, and the bound.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``truth`` does not fit.

    Notes
    -----
    With m random subset queries and noise of standard deviation s on n < m bits, least squares gets
    a share of about Φ(√(m - n)/(4s)) right (Dinur and Nissim 2003 prove that noise of order √n is
    needed). Dividing a budget among more queries does not help the attacker: noise grows faster.

    References
    ----------
    Dinur, I. and Nissim, K. (2003). Revealing information while preserving privacy. PODS, 202-210.
    doi:10.1145/773153.773173.

    Examples
    --------
    >>> import numpy as np
    >>> from dpinfer import Exact, Gaussian
    >>> subsets = np.random.default_rng(1).integers(0, 2, (128, 64))
    >>> audit_reconstruction(subsets, mechanism=Exact(), rng=2).rate
    1.0
    >>> found = audit_reconstruction(subsets, mechanism=Gaussian(sigma=8.0), rng=2)
    >>> round(found.rate, 2), round(found.expected, 2), round(found.most, 2)
    (0.62, 0.6, 0.69)
    """
    target = _Target(release, mechanism)
    matrix, n = target.matrix, target.matrix.shape[1]
    top = check_integer(upper, "upper", ge=1, le=10**6)
    attack = _ATTACKS[check_option(method, "method", _ATTACKS)]
    number, generator = check_reps(reps), check_rng(rng)
    cells: FloatArray | None = None
    if truth is not None:
        cells = check_integer_array(truth, "truth", ge=0)
        if cells.shape != (n,) or cells.max() > top:
            raise InvalidParameterError(
                f"truth must have one entry from 0 to upper = {top} for each of the {n} cells, got "
                f"{show(truth)}"
            )
    elif target.values is not None:
        raise InvalidParameterError("truth must be given for a published release, to compare with")
    if target.values is not None:
        assert cells is not None
        truths, values = cells[None], target.values[None]
    else:
        shape = (number, n)
        truths = (
            np.broadcast_to(cells, shape)
            if cells is not None
            else generator.integers(0, top, shape, endpoint=True).astype(np.float64)
        )
        values = truths @ matrix.T + target.draw(number, generator)
    std = np.sqrt(target.variance)
    # exact rows weigh most, and all of them alike
    small = std[std > 0].min(initial=1.0) * 1e-3
    std = np.where(std > 0, std, small)
    found = attack(matrix / std[:, None], values / std, top)
    right = (np.rint(np.clip(found, 0, top)) == truths).mean(axis=1)
    common = float(np.unique(truths, return_counts=True)[1].max() / truths.size)
    return ReconstructionAudit(
        rate=float(right.mean()),
        mc_error=float(right.std(ddof=1) / np.sqrt(len(right))) if len(right) > 1 else 0.0,
        baseline=common,
        expected=_expected(matrix, target.variance, truths, top),
        most=float(np.mean([target.most(i) for i in range(n)])) if top == 1 else float("nan"),
        method=method,
        reps=len(right),
    )


def _least_squares(matrix: FloatArray, values: FloatArray, top: int) -> FloatArray:
    middle = 0.5 * top
    centred = values.T - matrix.sum(axis=1)[:, None] * middle
    return np.asarray(middle + np.linalg.lstsq(matrix, centred, rcond=None)[0].T)


def _boxed(matrix: FloatArray, values: FloatArray, top: int) -> FloatArray:
    from scipy import optimize

    return np.array([optimize.lsq_linear(matrix, y, bounds=(0.0, top)).x for y in values])


def _integer(matrix: FloatArray, values: FloatArray, top: int) -> FloatArray:
    from scipy import optimize

    m, n = matrix.shape
    eye = np.eye(m)
    # minimise Σr with -r <= y - Ax <= r
    rows = np.block([[matrix, eye], [-matrix, eye]])
    cost = np.concatenate([np.zeros(n), np.ones(m)])
    bounds = optimize.Bounds(0.0, np.concatenate([np.full(n, top), np.full(m, np.inf)]))
    whole = np.concatenate([np.ones(n), np.zeros(m)])
    out = np.empty((len(values), n))
    for k, y in enumerate(values):
        limits = optimize.LinearConstraint(rows, np.concatenate([y, -y]), np.inf)
        found = optimize.milp(cost, integrality=whole, bounds=bounds, constraints=limits)
        if found.x is None:
            raise InvalidParameterError(
                f"method 'integer' found no solution ({found.message}): use 'boxed'"
            )
        out[k] = found.x[:n]
    return out


_ATTACKS = {"least-squares": _least_squares, "boxed": _boxed, "integer": _integer}


def _expected(matrix: FloatArray, variance: FloatArray, truths: FloatArray, top: int) -> float:
    n = matrix.shape[1]
    if np.linalg.matrix_rank(matrix) < n:
        return float("nan")
    if not (variance > 0).all():
        return 1.0 if not (variance > 0).any() else float("nan")
    sd = np.sqrt(np.diag(np.linalg.inv(matrix.T @ (matrix / variance[:, None]))))
    one_side = special.ndtr(0.5 / sd)
    end = (truths == 0) | (truths == top)
    return float(np.where(end, one_side, 2.0 * one_side - 1.0).mean())


@dataclass(frozen=True)
class MembershipAudit(Facts):
    """How well published means tell who is in the data; made by :func:`audit_membership`.

    Attributes
    ----------
    power : float
        The chance that a member is recognised, by simulation.
    mc_error : float
        Its standard error from one simulation to another.
    expected : float
        What the normal law of the score says.
    most : float
        The largest power of any test at this level that knows all other records, from the law of
        the privacy loss; 1 without noise.
    alpha : float
        The chance that somebody else is taken for a member.
    reps : int
        The number of simulated data sets.
    """

    _title: ClassVar[str] = "Membership"
    _notes: ClassVar[tuple[str, ...]] = _NOTES

    power: float
    mc_error: float
    expected: float
    most: float
    alpha: float
    reps: int


def audit_membership(
    shares: ArrayLike,
    n: int,
    *,
    mechanism: NoiseLaw,
    alpha: float = 0.05,
    reps: int = 10_000,
    rng: RNG = None,
) -> MembershipAudit:
    """Test who is among n persons from the published means of their attributes.

    Parameters
    ----------
    shares : array of float, shape (m,)
        The share p_j, within (0, 1), of persons of the population who have each attribute, which
        the attacker knows. Attributes are independent.
    n : int
        The number of persons of the data set, at least 2.
    mechanism : Laplace, Gaussian or Exact
        The law of the noise of the means, one for all or one for each.
    alpha : float, default 0.05
        The level of the test, in (0, 1).
    reps : int, default 10,000
        The number of simulated data sets, at least 100.
    rng : None, int or numpy.random.Generator, optional
        Source of the simulation.

    Returns
    -------
    MembershipAudit
        The power of the test, beside what the normal law says, and the bound.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The score of a person x is Σ (x_j - p_j)(y_j - p_j)/(n v_j), with v_j = p_j(1-p_j)/n + Var[e_j],
    the best linear one; its power is about Φ(μ - z), μ² = Σ p_j(1-p_j)/(n²v_j), which is m/n
    without noise (Sankararaman and others 2009). Attributes that depend on each other, or shares
    that are known roughly, make it weaker. The bound is for an attacker who knows everybody else.

    References
    ----------
    Sankararaman, S., Obozinski, G., Jordan, M. I. and Halperin, E. (2009). Genomic privacy and
    limits of individual detection in a pool. Nature Genetics 41, 965-967. doi:10.1038/ng.436.

    Examples
    --------
    >>> import numpy as np
    >>> from dpinfer import Gaussian
    >>> found = audit_membership(np.full(400, 0.5), 100, mechanism=Gaussian(sigma=0.05), rng=1)
    >>> round(found.power, 2), round(found.expected, 3), round(found.most, 3)
    (0.41, 0.409, 0.991)
    """
    p = check_array(shares, "shares", ndim=1, gt=0, lt=1)
    number, level = check_integer(n, "n", ge=2, le=10**9), check_alpha(alpha)
    rounds, generator = check_reps(reps, ge=100), check_rng(rng)
    if not isinstance(mechanism, (Laplace, Gaussian, Exact)):
        raise InvalidParameterError(
            f"mechanism must be Laplace, Gaussian or Exact, of means, got {show(mechanism)}"
        )
    law = as_noise(mechanism, p.size)
    noise = np.broadcast_to(law.variance, p.size)
    v = p * (1.0 - p) / number + noise
    weight = 1.0 / (number * v)
    inside, outside = np.empty(rounds), np.empty(rounds)
    block = max(1, (1 << 21) // p.size)
    for start in range(0, rounds, block):
        size = min(block, rounds - start)
        member, other = (generator.random((2, size, p.size)) < p).astype(np.float64)
        rest = generator.binomial(number - 1, p, (size, p.size))
        centred = (rest + member) / number + law._rvs((size, p.size), generator) - p
        inside[start : start + size] = ((member - p) * centred) @ weight
        outside[start : start + size] = ((other - p) * centred) @ weight
    cut = np.quantile(outside, 1.0 - level, method="higher")
    power = float((inside > cut).mean())
    mu = np.sqrt(np.sum(p * (1.0 - p) / (number**2 * v)))
    most = 1.0
    if not isinstance(law, Exact):
        most = float(privacy_loss(law, np.full(p.size, 1.0 / number)).power(level))
    # the cut is estimated too, from as many scores
    steeper = special.ndtri(level) ** 2 - special.ndtri(power or 0.5 / rounds) ** 2
    cut_part = np.exp(min(steeper + np.log(level) + np.log1p(-level), 0.0))
    spread = power * (1.0 - power) + cut_part
    return MembershipAudit(
        power=power,
        mc_error=float(np.sqrt(spread / rounds)),
        expected=float(special.ndtr(mu + special.ndtri(level))),
        most=most,
        alpha=level,
        reps=rounds,
    )
