"""Intervals for functions of the cells of overlapping tables, none of which is below zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, special

from dpinfer._check import (
    RNG,
    FloatArray,
    as_table,
    check_alpha,
    check_flag,
    check_option,
    check_reps,
    check_rng,
    check_scalar,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.estimation.design import find_design, find_solver
from dpinfer.estimation.gls import combine
from dpinfer.estimation.pivots import clean_weights
from dpinfer.estimation.targets import checked_weights
from dpinfer.intervals._bounded_cells import (
    SOFT,
    UNEVEN,
    Functions,
    Side,
    cells_of,
    soft_family,
    soft_quantile,
    steps_of,
    threshold_of,
    to_lattice,
)
from dpinfer.intervals.bounded import SOFT_NOTE, BoundedIntervals, refuse_profiles
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import IndependentNoise, Mechanism, groups
from dpinfer.mechanisms.laws import Exact
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries.workload import Workload
from dpinfer.releases.noises import positions_of
from dpinfer.releases.release import Release
from dpinfer.results.labels import split_labels

TableMethod = Literal["auto", "exact", "region", "sparse"]

_METHODS: tuple[TableMethod, ...] = ("auto", "exact", "region", "sparse")

_REGION = 0.2
"""Share of alpha that the region has beside the unbiased estimate."""

_ROUNDS = 8  # of choosing the values that are soft
_DIGITS = 40  # binary ones, of weights of which the noise is taken to be alike
_FEW = 4  # cells in a contrast of few
_MOST_ROWS = 3_000
_SIGN = 1e-9
_RESIDUAL = 1e-11  # rounding of what is summed in a bound, relative to its terms
_BLOCK = 20_000_000
_PENALTY = 1e4
_SCALES = 0.25  # standard deviations that values are tested together over
_MOST_TESTS = 400


_NO_ESTIMATE = (
    "functions that the published values do not determine have no unbiased estimate: the middle of "
    "the interval, or its finite end, stands in its place"
)


@dataclass(frozen=True, eq=False)
class Polytope:
    """The tables x >= 0 with Cx = c, and Gx <= h."""

    cells: int
    equal: Any  # C, csr (p, n)
    equal_to: FloatArray
    most: FloatArray  # (n,): bounds of the cells that hold anyway, infinite where there are none
    below: Any = None  # G, csr
    below_by: FloatArray = field(default_factory=lambda: np.empty(0))

    def least(self, weights: FloatArray, *further: tuple[FloatArray, float]) -> float | None:
        """Return a lower bound of weights'x over the set, near the least value; None if empty.

        ``further``: rows and what they are at most. The bound is that of the dual solution, less
        what rounding in it can be worth, so that it holds whatever the accuracy of the solver.
        """
        below, by = self.below, self.below_by
        if further:
            rows = np.stack([row for row, _ in further])
            below = rows if below is None else sparse.vstack([below, rows]).tocsr()
            by = np.append(by, [end for _, end in further])
        found = optimize.linprog(
            weights,
            A_ub=below,
            b_ub=None if below is None else by,
            A_eq=self.equal if self.equal.shape[0] else None,
            b_eq=self.equal_to if self.equal.shape[0] else None,
            bounds=(0, None),
            method="highs",
        )
        if found.status == 2:
            return None
        if found.status != 0:
            return -np.inf
        left, bound, size = weights.astype(np.float64), 0.0, 0.0
        if below is not None:
            dual = np.minimum(found.ineqlin.marginals, 0.0)
            left = left - below.T @ dual
            bound, size = bound + float(dual @ by), size + float(np.abs(dual) @ np.abs(by))
        if self.equal.shape[0]:
            dual = found.eqlin.marginals
            left = left - self.equal.T @ dual
            bound += float(dual @ self.equal_to)
            size += float(np.abs(dual) @ np.abs(self.equal_to))
        short = np.minimum(left, 0.0)
        lost = short < 0
        with np.errstate(over="ignore"):
            return bound + float(short[lost] @ self.most[lost]) - _RESIDUAL * size

    def within(self, rows: Any, low: FloatArray, high: FloatArray) -> Polytope:
        """Return the part in which rows are between bounds."""
        below = sparse.vstack([rows, -rows]).tocsr()
        return Polytope(
            self.cells, self.equal, self.equal_to, self.most, below, np.concatenate([high, -low])
        )


class Ends(NamedTuple):
    """Lower and upper ends of functions, (k,)."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class TableSums(Functions):
    """Linear functions of the cells of a table, and the errors of their unbiased estimates."""

    release: Release
    weights: FloatArray  # (k, n)
    facts: Polytope
    noisy: NDArray[np.intp]  # rows with noise
    whole: bool
    _found: dict[float, FloatArray] = field(default_factory=dict)

    @cached_property
    def determined(self) -> NDArray[np.bool_]:
        """Which functions have unbiased estimates."""
        workload = self.release.workload
        if workload.is_identity:
            return np.ones(len(self.weights), dtype=np.bool_)
        return find_design(workload.matrix, self.release.variance).estimable(self.weights)

    @cached_property
    def _fit(self) -> Any:
        return combine(self.release, target=self.weights[self.determined])

    @cached_property
    def estimate(self) -> FloatArray:  # type: ignore[override]
        """Unbiased estimates, NaN where there are none."""
        found = np.full(len(self.weights), np.nan)
        if self.determined.any():
            found[self.determined] = np.asarray(self._fit.params)
        return found

    def halves(self, q: float) -> FloatArray:
        """Return the smallest t with P(error > t) <= q, infinite where there is no estimate."""
        if q not in self._found:
            half = np.full(len(self.weights), np.inf)
            if self.determined.any():
                ends = self._fit.conf_int(2.0 * q)
                half[self.determined] = np.asarray(ends.upper) - np.asarray(ends.estimate)
            self._found[q] = half
        return self._found[q]

    @cached_property
    def lattice(self) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Values, steps of which functions of whole tables are away, and which have one value."""
        weights = self.weights
        origin, free = np.zeros(len(weights)), self.facts.most > 0
        equal = self.facts.equal.toarray()[:, free]
        of_all = np.flatnonzero((equal == 1).all(axis=1))
        if free.any() and of_all.size:
            surely = weights[:, free].min(axis=1)
            origin = surely * self.facts.equal_to[of_all[0]]
            weights = weights - surely[:, None]
        constant = np.asarray(~weights[:, free].any(axis=1), dtype=np.bool_)
        return origin, steps_of(weights[:, free]), constant

    @cached_property
    def possible(self) -> Ends:
        """The range that the functions have whatever was published, rounded to what they can be."""
        return self.ends_over(self.facts)

    def ends_over(self, region: Polytope) -> Ends:
        """Return the ranges of the functions over a set; (inf, -inf) where it is empty."""
        ends = []
        for sign in (1.0, -1.0):
            found = [region.least(sign * row) for row in self.weights]
            low = np.array([np.inf if one is None else one for one in found])
            if self.whole:
                origin, steps, constant = self.lattice
                known = constant & np.isfinite(low)
                low = np.where(known, sign * origin, to_lattice(low, sign * origin, steps))
            ends.append(sign * low + 0.0)
        return Ends(ends[0], ends[1])

    def _side(self, sign: float, soft: bool) -> Side:
        least = self.possible.lower if sign > 0 else -self.possible.upper
        estimate = np.where(self.determined, self.estimate, 0.0)

        def linear(q: float) -> FloatArray:
            return sign * estimate - self.halves(q)

        found: Callable[[float], FloatArray] = linear
        if soft and self.determined.any():
            rows = SoftRows(self.release, sign * self.weights, self.determined, self.noisy)
            found = soft_family(linear, rows.bound, rows.several)
        return Side(least, sign * self.lattice[0], self.lattice[1], found)

    # What can be gained.

    @cached_property
    def of_cells(self) -> tuple[FloatArray, FloatArray] | None:
        """Weights of the estimates of all cells on the noises and variances of these."""
        design = find_design(self.release.workload.matrix, self.release.variance)
        if not design.estimable_cells().all() or len(self.release) > _MOST_ROWS:
            return None
        fit = combine(self.release, target=np.eye(self.facts.cells))
        return _dense(fit.__noisy__()), self.release.variance

    def signs(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return for which functions lower, and upper, ends can gain in a neighbourhood of zero.

        Along d = Cov(f, c'f)/Var(c'f) the test by the unbiased estimate is the best one: where d
        has no part below zero, upper ends cannot gain, where it has none above, lower ones.
        """
        none = np.zeros(len(self.weights), dtype=bool)
        if self.of_cells is None:
            return none, none
        on, variance = self.of_cells
        d = (self.weights @ on * variance) @ on.T
        size = np.abs(d).max(axis=1, keepdims=True)
        return (d > _SIGN * size).any(axis=1), (d < -_SIGN * size).any(axis=1)


@dataclass(frozen=True)
class SoftRows:
    """Lower bounds of functions by sums in which values of cells count above a threshold only."""

    release: Release
    weights: FloatArray  # (k, n)
    use: NDArray[np.bool_]  # (k,)
    noisy: NDArray[np.intp]

    @cached_property
    def several(self) -> NDArray[np.bool_]:
        """Which functions have two soft rows or more."""
        soft = [self._is_soft(self.on_values(times)).sum(axis=1) > 1 for times in SOFT]
        return np.asarray(np.all(soft, axis=0) & self.use)

    @cached_property
    def _of_cells(self) -> NDArray[np.bool_]:
        """Which rows are noisy values of a cell."""
        matrix = sparse.csr_array(self.release.workload.matrix)
        single = (np.diff(matrix.indptr) == 1) & (self.release.variance > 0)
        single[single] = matrix.data[matrix.indptr[:-1][single]] > 0
        return np.asarray(single)

    def _is_soft(self, on: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(self._of_cells & (on > 0), dtype=np.bool_)

    def on_values(self, times: float) -> FloatArray:
        """Return weights (k, m) of unbiased estimates, best if counts of soft rows are zero."""
        return self._all[SOFT.index(times)]

    @cached_property
    def _all(self) -> list[FloatArray]:
        return [self._on_values(times) for times in SOFT]

    def _on_values(self, times: float) -> FloatArray:
        tail, density = special.ndtr(-times), np.exp(-0.5 * times**2) / np.sqrt(2.0 * np.pi)
        left = (1.0 + times**2) * tail - times * density - (density - times * tail) ** 2
        variance = self.release.variance
        design = find_design(self.release.workload.matrix, variance)
        target = design.coordinates(self.weights[self.use])
        found = find_solver(design.matrix, variance).weights(target)
        for at, row in enumerate(target):
            for _ in range(_ROUNDS):
                soft = self._is_soft(found[at])
                solver = find_solver(design.matrix, np.where(soft, left, 1.0) * variance)
                found[at] = clean_weights(solver.weights(row[None]))[0]
                if (self._is_soft(found[at]) == soft).all():
                    break
        out = np.zeros((len(self.weights), len(variance)))
        out[self.use] = found
        return out

    def bound(self, times: float, q: float) -> FloatArray:
        """Return what is below the functions with probability 1 - q, -inf for those not used."""
        on, y = self.on_values(times), self.release.values
        law, size = self.release.mechanism, len(y)
        kind = kinds(groups(law, size), size)
        which, at = np.unique(kind, return_index=True)
        laws = [law.take(int(place)) if law.shape else law for place in at]
        kind = np.searchsorted(which, kind)
        above = np.array([threshold_of(one, times) for one in laws])[kind]
        soft = self._is_soft(on)
        terms = on * np.where(soft, np.maximum(y - above, 0.0), y)
        # weights of noises in their law; of those that are not soft, which are symmetric, below 0
        noise = np.where(soft, on, -np.abs(on))[:, self.noisy]
        found = np.full(len(on), -np.inf)
        for row in np.flatnonzero(self.use):
            largest = np.abs(noise[row]).max()
            grid = 2.0 ** (np.ceil(np.log2(largest)) - _DIGITS)
            cells = cells_of(grid * np.rint(noise[row] / grid), kind[self.noisy], laws)
            quantile = soft_quantile(cells, times, q)
            slack = UNEVEN * (np.abs(terms[row]).sum() + abs(quantile))
            found[row] = terms[row].sum() - quantile - slack
        return found


@dataclass(frozen=True)
class Box:
    """What published rows, and the unbiased estimates of them, say together."""

    rows: Any  # csr (r, n)
    centre: FloatArray
    std: FloatArray
    largest: FloatArray  # simulated largest studentised errors

    def half_widths(self, beta: float) -> FloatArray:
        """Return half-widths within which all errors are with probability 1 - beta."""
        number = len(self.largest)
        rank = int(np.ceil((1.0 - beta) * (number + 1) * (1.0 - 1e-12)))
        return float(np.partition(self.largest, rank - 1)[rank - 1]) * self.std

    def consistency(self, facts: Polytope) -> float:
        """Return the p-value of the facts: how many errors are as large as they need."""
        moved = sparse.vstack([self.rows, -self.rows]).tocsr()
        wide = sparse.hstack([moved, -np.concatenate([self.std, self.std])[:, None]]).tocsr()
        equal = facts.equal
        found = optimize.linprog(
            np.append(np.zeros(facts.cells), 1.0),
            A_ub=wide,
            b_ub=np.concatenate([self.centre, -self.centre]),
            A_eq=sparse.hstack([equal, sparse.csr_array((equal.shape[0], 1))]).tocsr()
            if equal.shape[0]
            else None,
            b_eq=facts.equal_to if equal.shape[0] else None,
            bounds=(0, None),
        )
        needed = float(found.fun) * (1.0 - 1e-9)
        return float((1 + np.count_nonzero(self.largest >= needed)) / (len(self.largest) + 1))


def table_confint(
    values: Any,
    weights: Any,
    *,
    workload: Any = None,
    mechanism: Mechanism | None = None,
    total: float | None = None,
    zeros: Any = None,
    alpha: float = 0.05,
    method: TableMethod = "auto",
    guess: Any = None,
    simultaneous: bool = False,
    integer: bool = True,
    reps: int = 10_000,
    rng: RNG = None,
) -> BoundedIntervals:
    """Confidence intervals for linear functions of the cells of a table, none below zero.

    Parameters
    ----------
    values : array of float, shape (m,), Series or Release
        What was published: a release with its workload, or values described by the next
        arguments, each with one independent noise. Values with
        :class:`~dpinfer.mechanisms.Exact` noise hold exactly.
    weights : array of float, shape (n,) or (k, n), Series, DataFrame or mapping
        The weights of one function of the n cells, or of k functions, one a row.
    workload : Workload or matrix, shape (m, n), optional
        The queries that the values answer; by default each value is a cell.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise; left out where ``values`` carries it.
    total : float, optional
        The sum of all cells, where it is known exactly.
    zeros : array of bool, shape (n,), Series, slice or list of labels, optional
        Cells that are known to be zero: structural zeros.
    alpha : float, default 0.05
        One minus the confidence level, in (0, 1/2).
    method : {"auto", "exact", "region", "sparse"}
        ``"exact"``: the interval around the best linear unbiased estimate within what is possible,
        never wider than that interval. ``"region"``: that at 4α/5, within the range over all
        tables that agree with all values together at α/5; narrower where cells beside the
        function are near zero, up to 5 % wider elsewhere. ``"sparse"``: narrower for sums of many
        cells of which few are large, whose other values need not bound them; up to 4 % wider
        elsewhere. Choose it beforehand, not by the widths. ``"auto"``: the region for cells and
        contrasts of at most four cells, where something can be gained; this is decided by the
        queries and laws, never by the values.
    guess : array of float, shape (n,) or Series, optional
        A table from another source, such as that of the year before: intervals are shortest if it
        is the truth, and cover whatever the truth is. They use half of alpha, the unbiased
        estimate the other half. Not to be made from these values.
    simultaneous : bool, default False
        Whether all functions, those chosen after a look at the results included, are covered
        together with probability 1 - alpha; by the region alone.
    integer : bool, default True
        Whether the cells are whole numbers; ends are then rounded inward.
    reps : int, default 10_000
        Number of simulated errors for the region, 5/alpha - 1 at least; the intervals cover for
        every number, the simulation included.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; an int is a seed.

    Returns
    -------
    BoundedIntervals
        One interval for each function, with the unbiased one beside, infinite where there is none;
        ``estimate`` is the middle of the interval there.
        Empty ones are marked, and part of the stated coverage. ``consistency``, of intervals by the
        region, is the p-value of what is said to be known.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or values share noises.
    IncompatibleReleaseError
        If values were selected, clamped or rounded, or no table agrees with what is exact.

    See Also
    --------
    dpinfer.intervals.bounded_confint : disjoint counts; sums of many counts of which few are large.
    dpinfer.table_posterior : the same table under a prior.
    dpinfer.combine : the unbiased estimates.

    Notes
    -----
    Coverage is at least 1 - α for *every* table x >= 0 with these exact sums, for every law.

    *Region.* The errors of all published rows, and of their unbiased estimates, stay within κ
    standard deviations together with probability 1 - β; κ is the ⌈(1 - β)(R + 1)⌉-th smallest of R
    simulated maxima. A function is between its least and largest value over the tables x >= 0 that
    do, two linear programmes, whose ends are taken from dual solutions, so that they hold whatever
    the solver's accuracy. At β = α that holds for all functions at once.

    *Sparse.* Let the values have weights w with A'w + C'λ = c for the exact rows C. For values of
    single cells with wᵣ > 0 put φ(x) = max(x - τ, 0), which rises by no more than x does, so that
    φ(f + e) <= f + φ(e) for f >= 0. Then Σ wᵣφ(yᵣ) over these and Σ wᵣyᵣ over the others, plus λ'c
    and less the upper q quantile of the same sum of noises, is at most c'f with probability 1 - q,
    whatever the counts. w is best for cells that are zero; it depends on queries and laws only.
    The lower end is the largest of three: the unbiased one with 80 % of the error of that end, and
    τ at 1 and 2 standard deviations with 10 % each; the upper end is that of -c'f. Mean widths of
    the unbiased interval within what is possible and of this one, for the sum of 200 cells (σ = 5)
    with ten sums of 20 (σ = 20): 184 and 133 if one cell is 300 and the others are zero, 184 and
    174 if ten are 30, 184 and 188 if all are 30 or about 2.

    *Auto.* Let d = Cov(f̂, c'f̂)/Var(c'f̂) with f̂ the unbiased estimates of the cells. Under
    Gaussian noise, where no part of d is below zero, no interval with this coverage has a lower
    upper end than the unbiased one: the table could be larger by multiples of d, and the best
    test of that is the one by c'f̂. Likewise lower ends, where none is above. Where d has both
    signs, cells beside the function compete with it, and ends gain where these are near zero.

    *Guess.* Values s of the function are tested in blocks from the ends of the unbiased interval
    inward. With g₀ the table nearest to the guess that has such a value and w = V⁻¹A(g₀ - g) the
    test rejects where w'y is below the least value of w'Ax over all possible tables of the block
    by more than the α/2 quantile of w'e: at each of them its level holds, whatever the guess.

    The χ² critical value for the likelihood ratio over x >= 0 does not hold the level: see
    :func:`~dpinfer.intervals.bounded_confint`.

    References
    ----------
    Stark, P. B. (1992). Inference in infinite-dimensional inverse problems: discretization and
    duality. Journal of Geophysical Research 97(B10), 14055-14082. doi:10.1029/92JB00739.

    Examples
    --------
    Three cells of a known total. All values together bound each function:

    >>> import dpinfer as dpi
    >>> found = table_confint(
    ...     [2, -3, 10], [[1, 0, 0], [1, 1, 0], [1, 0, -1]], mechanism=dpi.Geometric(scale=2.0),
    ...     total=8, simultaneous=True, rng=1,
    ... )
    >>> found.lower, found.upper
    (array([ 0.,  0., -8.]), array([4., 4., 1.]))
    """
    alpha = check_scalar(check_alpha(alpha), "alpha", gt=0, lt=0.5)
    refuse_profiles(method, _METHODS)
    chosen = check_option(method, "method", _METHODS)
    together, whole = check_flag(simultaneous, "simultaneous"), check_flag(integer, "integer")
    if together and (guess is not None or chosen in ("exact", "sparse")):
        raise InvalidParameterError(
            "simultaneous must be False with a guess or method 'exact' or 'sparse': all functions "
            "together are covered by the region alone"
        )
    if guess is not None and chosen == "sparse":
        raise InvalidParameterError(
            "guess must be left out with method 'sparse', whose bounds use all of alpha"
        )
    release = _given(values, workload, mechanism, total, zeros, whole)
    table = as_table(weights, "weights")
    matrix = checked_weights(table, release.workload.columns, release.workload.shape[1])
    rows = np.atleast_2d(matrix)
    sums = _sums(release, rows, whole)
    lower_gains, upper_gains = sums.signs()
    told = sums.determined & (sums.of_cells is not None)
    without_gain = told & ~lower_gains, told & ~upper_gains
    generator = check_rng(rng)
    use = np.full(len(rows), (together or chosen == "region") and sums.noisy.size > 0)
    if chosen == "auto" and not together and guess is None:
        few = np.count_nonzero(rows, axis=1) <= _FEW
        # nothing but the region bounds what has no unbiased estimate
        undetermined = ~sums.determined & (len(release) <= _MOST_ROWS) & (sums.noisy.size > 0)
        use = few & ((lower_gains & upper_gains) | undetermined)
    beta = alpha if together else _REGION * alpha
    fewest = int(np.ceil(1.0 / max(beta, 1e-18))) - 1 if use.any() else 1
    number = check_reps(reps, ge=fewest)
    used, consistency = alpha, None
    if guess is not None and chosen != "region":
        used = 0.5 * alpha
    elif use.any() and not together:
        used = (1.0 - _REGION) * alpha
    box = _box(release, sums, number, generator) if use.any() else None
    if together:
        lower, upper = sums.possible if box is None else _over_region(sums, box, beta)
    else:
        lower, upper = sums.ends(alpha, soft=chosen == "sparse")
        if use.any():
            narrow = _met(Ends(*sums.ends(used)), _over_region(sums, box, beta))
            lower, upper = np.where(use, narrow.lower, lower), np.where(use, narrow.upper, upper)
    if guess is not None:
        known = _checked_guess(guess, release)
        lower, upper = _by_guess(sums, known, alpha)
    if box is not None:
        consistency = box.consistency(sums.facts)
    half = sums.halves(0.5 * alpha)
    estimate = np.where(sums.determined, sums.estimate, _middle(lower, upper))
    form = matrix.shape[:-1]
    return BoundedIntervals(
        estimate=estimate.reshape(form),
        lower=lower.reshape(form),
        upper=upper.reshape(form),
        unbiased_lower=np.where(sums.determined, estimate - half, -np.inf).reshape(form),
        unbiased_upper=np.where(sums.determined, estimate + half, np.inf).reshape(form),
        alpha=alpha,
        method="guess" if guess is not None else chosen,
        uncertainty="noise",
        simultaneous=together,
        labels=table.index if hasattr(table, "columns") else None,
        notes=(
            *_notes(use, guess is not None, together, *without_gain, consistency),
            *((SOFT_NOTE,) if chosen == "sparse" else ()),
            *(() if sums.determined.all() else (_NO_ESTIMATE,)),
        ),
        consistency=consistency,
    )


def _middle(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the middle of intervals, or the finite end of those that have one, or 0."""
    low, high = (
        np.where(np.isfinite(lower), lower, upper),
        np.where(np.isfinite(upper), upper, lower),
    )
    with np.errstate(invalid="ignore"):
        found = 0.5 * low + 0.5 * high
    return np.where(np.isfinite(found), found, 0.0)


# From arguments to functions.


def _given(
    values: Any, workload: Any, mechanism: Any, total: Any, zeros: Any, whole: bool
) -> Release:
    """Return what was published, with what is known as rows without noise."""
    if isinstance(values, Release):
        if workload is not None or mechanism is not None:
            raise InvalidParameterError(
                "workload and mechanism must be left out where a Release is given: it has its own"
            )
        release = values
    else:
        release = Release(values, workload=workload, mechanism=mechanism)
    release._refuse_ruled("bounded")
    if release.weights is not None:
        raise InvalidParameterError(
            "values must have independent noises, one each, got a release whose values share "
            "noises: give the values that they were made from"
        )
    cells = release.workload.shape[1]
    rows, held = [], []
    if total is not None:
        number = check_scalar(total, "total", ge=0)
        if whole and number != np.rint(number):
            raise InvalidParameterError(f"total must be a whole number, got {number:g}")
        rows.append(np.ones((1, cells)))
        held.append(np.array([number]))
    if zeros is not None:
        none = np.zeros(cells, dtype=bool)
        none[positions_of(zeros, cells, release.workload.columns, "zeros")] = True
        rows.append(np.eye(cells)[none])
        held.append(np.zeros(int(none.sum())))
    if not rows:
        return release
    added = sparse.csr_array(np.concatenate(rows))
    matrix = sparse.vstack([sparse.csr_array(release.workload.matrix), added]).tocsr()
    size, more = len(release), added.shape[0]
    laws = [
        *groups(release.mechanism, size),
        (Exact(), np.arange(size, size + more)),
    ]
    columns = release.workload.columns
    return Release(
        np.concatenate([release.values, *held]),
        workload=Workload(matrix.toarray() if matrix.shape[0] <= 200 else matrix, columns=columns),
        mechanism=IndependentNoise.from_groups(laws, size + more),
    )


def _sums(release: Release, weights: FloatArray, whole: bool) -> TableSums:
    matrix = sparse.csr_array(release.workload.matrix)
    noisy = release.variance > 0
    equal, to = matrix[~noisy], release.values[~noisy]
    cells = matrix.shape[1]
    most = np.full(cells, np.inf)
    for row, value in zip(range(equal.shape[0]), to, strict=True):
        at = slice(equal.indptr[row], equal.indptr[row + 1])
        if (equal.data[at] >= 0).all():
            on, share = equal.indices[at], equal.data[at]
            held = share > 0
            most[on[held]] = np.minimum(most[on[held]], max(value, 0.0) / share[held])
    facts = Polytope(cells, equal, to, most)
    if facts.least(np.zeros(cells)) is None:
        raise IncompatibleReleaseError(
            "values without noise, total and zeros must be those of some table of counts >= 0: no "
            "table agrees with them"
        )
    return TableSums(release, weights, facts, np.flatnonzero(noisy), whole)


def _dense(x: Any) -> FloatArray:
    """Return the weights of values on noises."""
    if x.weights is None:
        return np.eye(len(x))
    at = np.arange(len(x))
    found = x._rows(at).toarray() if hasattr(x.weights, "indices") else x.weights.dense(at)
    return np.asarray(found)


# Regions.


def _box(release: Release, sums: TableSums, reps: int, rng: np.random.Generator) -> Box:
    """Return the rows with noise and their unbiased estimates, with simulated maxima."""
    if len(release) > _MOST_ROWS:
        raise InvalidParameterError(
            f"values must be at most {_MOST_ROWS} for a region, got {len(release)}: use method "
            "'exact'"
        )
    rows = sparse.csr_array(release.workload.matrix)[sums.noisy]
    std = np.sqrt(release.variance[sums.noisy])
    fit = combine(release, target=rows)
    on = _dense(fit.__noisy__())[:, sums.noisy]
    better = np.asarray(fit.bse)
    apart = (better > 1e-9 * std) & (better < std * (1.0 - 1e-9))
    law = release.mechanism
    law = law.take(sums.noisy) if law.shape else law
    size = len(std)
    largest = np.empty(reps)
    block = max(1, _BLOCK // max(size, 1))
    for start in range(0, reps, block):
        stop = min(start + block, reps)
        errors = law.rvs((stop - start, size), rng=rng)
        combined = errors @ on[apart].T
        largest[start:stop] = np.maximum(
            (np.abs(errors) / std).max(axis=1, initial=0.0),
            (np.abs(combined) / better[apart]).max(axis=1, initial=0.0),
        )
    return Box(
        sparse.vstack([rows, rows[np.flatnonzero(apart)]]).tocsr(),
        np.concatenate([release.values[sums.noisy], np.asarray(fit.params)[apart]]),
        np.concatenate([std, better[apart]]),
        largest,
    )


def _over_region(sums: TableSums, box: Any, beta: float) -> Ends:
    half = box.half_widths(beta)
    slack = _RESIDUAL * (np.abs(box.centre) + half)
    low, high = box.centre - half - slack, box.centre + half + slack
    coo = box.rows.tocoo()
    positive = np.ones(box.rows.shape[0], dtype=bool)
    positive[coo.row[coo.data < 0]] = False
    most = sums.facts.most.copy()
    use = positive[coo.row] & (coo.data > 0)
    np.minimum.at(most, coo.col[use], np.maximum(high[coo.row[use]], 0.0) / coo.data[use])
    facts = Polytope(sums.facts.cells, sums.facts.equal, sums.facts.equal_to, most)
    return sums.ends_over(facts.within(box.rows, low, high))


def _met(one: Ends, other: Ends) -> Ends:
    low, high = np.maximum(one.lower, other.lower), np.minimum(one.upper, other.upper)
    empty = low > high
    return Ends(np.where(empty, np.inf, low), np.where(empty, -np.inf, high))


# A guess.


def _checked_guess(guess: Any, release: Release) -> FloatArray:
    cells = release.workload.shape[1]
    known, own = split_labels(guess, "guess", ge=0)
    columns = release.workload.columns
    if own is not None and columns is not None:
        alike = own.is_unique and own.nlevels == columns.nlevels
        rows = own.get_indexer(columns) if alike else np.full(cells, -1)
        if rows.min() < 0:
            raise InvalidParameterError("guess must be labelled like the cells, each label once")
        known = known[rows]
    if known.shape != (cells,):
        raise InvalidParameterError(
            f"guess must have {cells} entries, one for each cell, got shape {known.shape}"
        )
    return known


def _by_guess(sums: TableSums, guess: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return what both the unbiased estimate and the tests that a guess points to leave."""
    lower, upper = sums.ends(0.5 * alpha)
    steps = sums.lattice[1] if sums.whole else np.zeros(len(lower))
    with np.errstate(invalid="ignore"):
        std = (sums.halves(0.25 * alpha)) / 3.0
    for at, row in enumerate(sums.weights):
        if not (np.isfinite(lower[at]) and np.isfinite(upper[at]) and lower[at] < upper[at]):
            continue
        test = _GuessTest(sums, row, guess, 0.5 * alpha)
        step = max(float(steps[at]), 0.0)
        wide = max(_SCALES * float(std[at]), (upper[at] - lower[at]) / _MOST_TESTS)
        if step:
            wide = max(np.floor(wide / step), 1.0) * step
        lower[at], upper[at] = _scanned(test.rejects, lower[at], upper[at], wide, step)
    return lower, upper


def _scanned(
    rejects: Callable[[float, float], bool], low: float, high: float, wide: float, step: float
) -> tuple[float, float]:
    """Return the range of what is left when blocks are rejected from both ends inward."""
    while low <= high:
        end = min(low + (wide - step if step else wide), high)
        if not rejects(low, end):
            break
        low = end + step if step or end < high else np.inf
    while low <= high:
        start = max(high - (wide - step if step else wide), low)
        if not rejects(start, high):
            break
        high = start - step if step or start > low else -np.inf
    return (low, high) if low <= high else (np.inf, -np.inf)


@dataclass(frozen=True)
class _GuessTest:
    """Tests of values of one function against a guess."""

    sums: TableSums
    row: FloatArray
    guess: FloatArray
    alpha: float

    @cached_property
    def _rows(self) -> tuple[Any, FloatArray, FloatArray, Any]:
        release, noisy = self.sums.release, self.sums.noisy
        matrix = sparse.csr_array(release.workload.matrix)[noisy]
        law = release.mechanism
        law = law.take(noisy) if law.shape else law
        return matrix, release.values[noisy], release.variance[noisy], law

    def rejects(self, low: float, high: float) -> bool:
        """Whether no table with such a value agrees with what was published."""
        matrix, y, variance, law = self._rows
        at = float(self.row @ self.guess)
        if low <= at <= high:
            return False
        near = self._nearest(high if at > high else low)
        weights = (matrix @ (near - self.guess)) / variance
        size = np.abs(weights).max(initial=0.0)
        if size == 0 or not np.isfinite(size):
            return False
        weights = np.where(np.abs(weights) > 1e-6 * size, weights / size, 0.0)
        facts, on = self.sums.facts, matrix.T @ weights
        least = facts.least(on, (self.row, high), (-self.row, -low))
        if least is None:
            return True
        error = WeightedSum(-weights, law)
        found = float(weights @ y)
        slack = _RESIDUAL * (float(np.abs(weights) @ np.abs(y)) + abs(least))
        return bool(found < least - float(error.isf(self.alpha)) - slack)

    def _nearest(self, value: float) -> FloatArray:
        """Return a table near the guess with a value of the function; about is enough."""
        matrix, _, variance, _ = self._rows
        facts, scale = self.sums.facts, 1.0 / np.sqrt(variance)
        sharp = _PENALTY * float(scale.max())
        left = [matrix.toarray() * scale[:, None], sharp * self.row[None]]
        right = [scale * (matrix @ self.guess), np.array([sharp * value])]
        if facts.equal.shape[0]:
            left.append(sharp * facts.equal.toarray())
            right.append(sharp * facts.equal_to)
        found = optimize.lsq_linear(
            np.concatenate(left), np.concatenate(right), bounds=(0.0, np.inf), method="bvls"
        )
        return np.asarray(found.x)


def _notes(
    use: NDArray[np.bool_],
    guessed: bool,
    together: bool,
    lower_alike: NDArray[np.bool_],
    upper_alike: NDArray[np.bool_],
    consistency: float | None,
) -> tuple[str, ...]:
    said = []
    if together:
        said.append("ranges over all tables that agree with all values together at alpha")
    elif guessed:
        said.append("half of alpha is used by the unbiased estimate, half by tests for the guess")
    elif use.any():
        said.append(
            f"{np.count_nonzero(use)} of {use.size} functions: 4/5 of alpha is used by the "
            "unbiased estimate, 1/5 by the region of all values together"
        )
    for name, alike in (("lower", lower_alike), ("upper", upper_alike)):
        if alike.any():
            said.append(
                f"{name} ends of {np.count_nonzero(alike)} of {alike.size} functions: no gain "
                "over the unbiased ones is possible, but for what bounds the function itself"
            )
    if consistency is not None and consistency < 0.001:
        said.append(
            f"the stated facts contradict the noise: p = {consistency:.2g} for errors as large as "
            "they need"
        )
    return tuple(said)
