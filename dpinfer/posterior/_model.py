"""What is known of the cells of a table: the noisy rows, the exact ones, and the bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import FloatArray, check_array, check_integer, show
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, NotEstimableError
from dpinfer.intervals._windows import bound, check_law, log_density
from dpinfer.mechanisms._sums.terms import kinds
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.queries.hierarchy import Hierarchy
from dpinfer.queries.workload import Workload
from dpinfer.releases.coerce import listed_cells, noisy
from dpinfer.releases.noises import Rule, positions_of
from dpinfer.releases.values import NoisyValues

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.queries.domain import Domain

Whole = NDArray[np.int64]
Fact = Literal["value", "below", "above", "between"]

NO_END = 2**62
"""An upper bound of a cell that has none."""

_LARGEST = 2.0**52
_MOST_SOLVED = 20_000
"""Cells up to which whole-numbered starts and directions are looked for by HiGHS."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """The likelihood of a table of n whole numbers x >= 0.

    Of the r-th of m noisy rows it is known that low <= (Ax)_r + e_r <= high, or, where both are
    equal, the value itself; of the k exact rows, Cx = c.
    """

    cells: int
    labels: pd.Index | None
    domain: Domain | None
    rows: Any  # A, csr int64 (m, n)
    y: FloatArray  # (m,): what was published; the last value that is not, of an unpublished one
    low: FloatArray
    high: FloatArray
    law: NoiseLaw  # of shape () or (m,)
    exact: Any  # C, csr int64 (k, n)
    exact_values: Whole
    zeros: NDArray[np.bool_]
    lower: Whole  # (n,)
    upper: Whole  # (n,): NO_END where there is none
    bins: tuple[FloatArray, str] | None = None  # (m,): steps to which answers were rounded, and how
    as_drawn: bool = False  # whether all values were published as they were drawn

    @cached_property
    def kind(self) -> NDArray[np.str_]:
        """The fact known of each row: "value", "below", "above" or "between", (m,)."""
        found = np.where(self.low == self.high, "value", "between")
        found = np.where(np.isneginf(self.low), "below", found)
        return np.where(np.isposinf(self.high), "above", found)

    @cached_property
    def groups(self) -> list[tuple[NoiseLaw, NDArray[np.intp]]]:
        """The laws of the noisy rows, each with the rows that have it."""
        return list(groups(self.law, len(self.y))) if len(self.y) else []

    @cached_property
    def law_kinds(self) -> NDArray[np.intp]:
        """Numbers that are equal for rows of one law, (m,)."""
        return kinds(self.groups, len(self.y))

    @cached_property
    def variance(self) -> FloatArray:
        """Variance of the noise of each row, (m,)."""
        return np.array(np.broadcast_to(self.law.variance, len(self.y)))

    @cached_property
    def support(self) -> FloatArray:
        """How far the noise of each row can reach, (m,); mostly infinite."""
        out = np.empty(len(self.y))
        for law, cells in self.groups:
            out[cells] = bound(law)
        return out

    def answers(self, x: Whole) -> Whole:
        """Return Ax of tables (..., n), as (..., m)."""
        flat = x.reshape(-1, self.cells)
        return np.asarray(self.rows @ flat.T, dtype=np.int64).T.reshape(*x.shape[:-1], len(self.y))

    def noise(self, draws: int, seed: np.random.SeedSequence) -> FloatArray:
        """Draw the noise of all rows, (draws, m)."""
        rng = np.random.default_rng(seed)
        out = np.zeros((draws, len(self.y)))
        for law, rows in self.groups:
            out[:, rows] = law.rvs((draws, len(rows)), rng=rng)
        return out

    def row_logpdf(self, rows: NDArray[Any], answers: NDArray[Any]) -> FloatArray:
        """Return the log likelihood of answers (..., p) to p rows."""
        s = np.broadcast_to(answers, np.broadcast_shapes(answers.shape, rows.shape))
        s = s.astype(np.float64)
        if self.bins is not None:
            s = binned(s, self.bins[0][rows], self.bins[1])
        out = np.zeros(s.shape)
        group, place = self._places
        for number, (law, _) in enumerate(self.groups):
            use = np.flatnonzero(group[rows] == number)
            if use.size:
                at = rows[use]
                own = law.take(place[at]) if law.shape else law
                out[..., use] = log_fact(own, s[..., use], self.low[at], self.high[at])
        return out

    def log_likelihood(self, x: Whole) -> FloatArray:
        """Return the log likelihood of tables (..., n), -inf for those that are impossible."""
        x = np.asarray(x, dtype=np.int64)
        found = self.row_logpdf(np.arange(len(self.y)), self.answers(x)).sum(axis=-1)
        possible = ((x >= self.lower) & (x <= self.upper)).all(axis=-1)
        if self.exact.shape[0]:
            sums = (self.exact @ x.reshape(-1, self.cells).T).T
            met = (sums == self.exact_values).all(axis=1)
            possible &= met.reshape(x.shape[:-1])
        return np.where(possible, found, -np.inf)

    def within(self, lower: Whole, upper: Whole) -> TableModel:
        """Return the model of cells that are also within other bounds, as far as rows tell them."""
        low, high = np.maximum(self.lower, lower), np.minimum(self.upper, upper)
        ends = _tightened(self.exact, self.exact_values, low, high, self.labels)
        return replace(self, lower=ends["lower"], upper=ends["upper"])

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """The cells that are not known."""
        return np.flatnonzero(self.lower < self.upper)

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        group = np.zeros(len(self.y), dtype=np.intp)
        place = np.zeros(len(self.y), dtype=np.intp)
        for number, (_, cells) in enumerate(self.groups):
            group[cells], place[cells] = number, np.arange(len(cells))
        return group, place


def log_fact(law: NoiseLaw, s: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low <= s + e <= high), or the log density at a value where both are equal."""
    value = low == high
    known = log_density(law, np.where(value, low, s) - s)
    if value.all():
        return known
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = np.broadcast_arrays(low - s, high - s)
        a, b = np.where(a + b < 0, -b, a), np.where(a + b < 0, -a, b)
        reached = law._logcdf(-a)
        beyond = np.where(np.isinf(b), -np.inf, law._logsf(np.where(np.isinf(b), 0.0, b)))
        between = reached + np.log(-np.expm1(np.minimum(beyond - reached, 0.0)))
        between = np.where(np.isneginf(reached), -np.inf, between)
    # one end is infinite: a + b is, and a is finite or the larger tail
    return np.where(value, known, between)


def binned(s: FloatArray, step: FloatArray, way: str) -> FloatArray:
    """Return whole numbers rounded to multiples of steps."""
    rounding: Any = {"up": np.ceil, "down": np.floor, "nearest": np.rint}[way]
    return np.asarray(rounding(s / step) * step)


# From arguments to a model.


class Arguments(NamedTuple):
    """What a model is made of."""

    values: Any
    workload: Any = None
    mechanism: Any = None
    threshold: Any = None
    clamp: Any = None
    total: Any = None
    zeros: Any = None


def table_model(given: Arguments) -> TableModel:
    """Return the model of published values, checked."""
    x, there, last = _published(given)
    workload, labels = _queries(given, x)
    matrix = _whole_matrix(workload)
    cells = matrix.shape[1]
    low, high = _facts(x, there, last)
    exact = np.zeros(len(x), dtype=bool)
    for law, rows in x.laws():
        exact[rows] = isinstance(law, Exact)
    lower, upper = np.zeros(cells, dtype=np.int64), np.full(cells, NO_END)
    zeros = np.zeros(cells, dtype=bool)
    if given.zeros is not None:
        zeros[positions_of(given.zeros, cells, labels, "zeros")] = True
        upper[zeros] = 0
    held = _exact_rows(x, matrix, low, high, exact, lower, upper)
    if given.total is not None:
        held = _with_total(held, check_integer(given.total, "total", ge=0, le=int(_LARGEST)), cells)
    rest = np.flatnonzero(~exact)
    law = x.marginal
    bins = None
    if x.rule is not None and np.greater(x.rule.before, 1).any():
        steps = np.broadcast_to(np.asarray(x.rule.before, dtype=np.float64), len(x))
        bins = steps[rest], x.rule.before_way
        if x.rule.before_way == "nearest" and (steps[rest] % 2 == 0).any():
            raise InvalidParameterError(
                "bin_size must be odd where counts were rounded to the nearest multiples before "
                "the noise: which way halves went is not known"
            )
    return TableModel(
        cells,
        labels,
        workload.domain,
        matrix[rest],
        np.where(np.isneginf(low), high, np.where(np.isposinf(high), low, x.values))[rest],
        low[rest],
        high[rest],
        law_of(law, rest, len(x)),
        held[0],
        held[1],
        zeros,
        **_tightened(held[0], held[1], lower, upper, labels),
        bins=bins,
        as_drawn=x.rule is None and given.threshold is None,
    )


def law_of(law: NoiseLaw, rows: NDArray[np.intp], size: int) -> NoiseLaw:
    """Return the law of some of so many values."""
    if not law.shape or not rows.size:
        return law if rows.size else Exact()
    place = np.full(size, -1)
    place[rows] = np.arange(rows.size)
    parts = []
    for own, cells in groups(law, size):
        kept = np.flatnonzero(place[cells] >= 0)
        if kept.size:
            parts.append((own.take(kept) if own.shape else own, place[cells[kept]]))
    return IndependentNoise.from_groups(parts, rows.size)


def _published(given: Arguments) -> tuple[NoisyValues, NDArray[np.bool_], FloatArray]:
    """Return values, which of them were published, and the largest that is not, of the others."""
    values, carried = given.values, hasattr(given.values, "__noisy__")
    if carried or given.threshold is None:
        x = noisy(values, mechanism=given.mechanism, threshold=given.threshold, clamp=given.clamp)
        there, last = np.ones(len(x), dtype=bool), np.full(len(x), -np.inf)
    else:
        if given.clamp is not None:
            raise InvalidParameterError(
                "clamp must be left out where values have a threshold: give noisy values with one "
                "of the two"
            )
        found = listed_cells(values, given.mechanism, given.threshold)
        x, there, last = found.x, found.there, found.last
    if not x.are_independent() or x.weights is not None:
        raise InvalidParameterError(
            "values must have independent noises, one each, got values that share noises: give "
            "the release that they were made from, with its workload"
        )
    check_array(x.values, "values", ge=-_LARGEST, le=_LARGEST)
    for law, _ in x.laws():
        check_law(law)
    return x, there, last


def _queries(given: Arguments, x: NoisyValues) -> tuple[Any, pd.Index | None]:
    """Return what the values answer, and the labels of the cells."""
    own = getattr(given.values, "workload", None)
    if own is not None and given.workload is not None:
        raise InvalidParameterError(
            "workload must be left out where a Release is given, which has its own"
        )
    queries = own if given.workload is None else given.workload
    if queries is None:
        return Workload.identity(len(x), x.labels), x.labels
    if isinstance(queries, Hierarchy):
        found = _of_units(queries, x)
        return found, found.columns
    queries = queries if isinstance(queries, Workload) else Workload(queries)
    if len(queries) != len(x):
        raise IncompatibleReleaseError(
            f"workload must have {len(x)} queries, one for each value, got {len(queries)}"
        )
    labelled = x.labels is not None and queries.labels is not None
    if own is None and labelled and not x.labels.equals(queries.labels):  # type: ignore[union-attr]
        raise InvalidParameterError(
            "workload must have the labels of the values in the same order: reindex it first"
        )
    columns = queries.columns
    if columns is None and queries.is_identity:
        columns = x.labels
    return queries, columns


def _of_units(hierarchy: Hierarchy, x: NoisyValues) -> Workload:
    """Return sums of leaves, and of the rests of units that are not exhausted, for units."""
    import pandas as pd
    from scipy import sparse

    size = len(hierarchy)
    if x.labels is None or hierarchy.labels is None:
        if len(x) != size:
            raise IncompatibleReleaseError(
                f"values must have one entry for each of the {size} units of the hierarchy, or "
                f"labels of units as the hierarchy has, got {len(x)}"
            )
        units = np.arange(size)
    else:
        units = hierarchy.positions(x.labels, "values")
    tree = hierarchy.tree
    parent, order = tree.parent, tree.numbered(np.arange(len(tree)))
    inner = np.zeros(len(tree) + 1, dtype=bool)
    inner[parent] = True
    leaves = np.flatnonzero(~inner[:-1])
    column = np.full(len(tree), -1)
    numbers = np.arange(len(tree)) if tree.order is None else tree.order
    leaves = leaves[np.argsort(numbers[leaves], kind="stable")]
    column[leaves] = np.arange(leaves.size)
    below, at = leaves, leaves
    rows, columns = [leaves], [leaves]
    while True:
        up = parent[at]
        at, below = up[up >= 0], below[up >= 0]
        if not at.size:
            break
        rows.append(at)
        columns.append(below)
    above = np.concatenate(rows)
    entries = np.ones(above.size), (above, column[np.concatenate(columns)])
    matrix = sparse.csr_array(entries, shape=(len(tree), leaves.size))[order[units]]
    names = hierarchy.labels
    own = numbers[leaves]
    if names is not None:
        opened = hierarchy._open[hierarchy._has_children()[hierarchy._open]]
        rest = own >= size
        named = np.empty(own.size, dtype=object)
        named[~rest] = names.to_numpy(dtype=object)[own[~rest]]
        for place in np.flatnonzero(rest):
            named[place] = f"rest of {names[opened[own[place] - size]]}"
        names = pd.Index(named, name=names.name) if rest.any() else names[own]
    return Workload(matrix, columns=names)


def _whole_matrix(workload: Workload) -> Any:
    from scipy import sparse

    if not workload.is_integer:
        raise InvalidParameterError(
            "workload must have whole coefficients, as the posterior is one of whole numbers, got "
            "fractions: leave out these queries, or scale them and their noise"
        )
    matrix = sparse.csr_array(workload.matrix)
    if matrix.nnz and np.abs(matrix.data).max() > 2**31:
        raise InvalidParameterError(
            f"workload must have coefficients within ±2^31, got {np.abs(matrix.data).max():g}"
        )
    return matrix.astype(np.int64)


def _facts(
    x: NoisyValues, there: NDArray[np.bool_], last: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of what is known of each noisy answer."""
    rule = x.rule or Rule()
    below, above = (np.broadcast_to(reach, len(x)) for reach in x.rounding_reach())
    low, high = x.values - below, x.values + above
    low = np.where(x.values == rule.lowest, -np.inf, low)
    high = np.where(x.values == rule.highest, np.inf, high)
    low, high = np.where(there, low, -np.inf), np.where(there, high, last)
    for law, rows in x.laws():
        if law.is_integer:
            low[rows], high[rows] = np.ceil(low[rows]), np.floor(high[rows])
    if (empty := low > high).any():
        at = int(empty.argmax())
        raise IncompatibleReleaseError(
            f"values must be possible, got {x._named(at)}: no whole number is rounded to it"
        )
    return low, high


def _exact_rows(
    x: NoisyValues,
    matrix: Any,
    low: FloatArray,
    high: FloatArray,
    exact: NDArray[np.bool_],
    lower: Whole,
    upper: Whole,
) -> tuple[Any, Whole]:
    """Return the exact rows and their values; put what is known of single cells into bounds."""
    below, above = (x.rule or Rule()).bin_reach()
    below, above = np.broadcast_to(below, len(x)), np.broadcast_to(above, len(x))
    equal = []
    for row in np.flatnonzero(exact):
        first, past = matrix.indptr[row : row + 2]
        a, b = low[row] - below[row], high[row] + above[row]
        if a == b:
            if a != np.rint(a):
                raise IncompatibleReleaseError(
                    "values without noise must be whole numbers, as the cells are, got "
                    f"{x._named(int(row))}"
                )
            equal.append(row)
            continue
        if past - first != 1 or matrix.data[first] != 1:
            raise InvalidParameterError(
                f"values without noise must be cells where they were rounded, clamped or left out "
                f"below a threshold, got {x._named(int(row))}, which is a sum of cells"
            )
        cell = matrix.indices[first]
        lower[cell] = max(lower[cell], int(max(np.ceil(a), 0)))
        upper[cell] = min(upper[cell], int(min(np.floor(b), NO_END)))
    at = np.array(equal, dtype=np.intp)
    return matrix[at], x.values[at].astype(np.int64)


def _with_total(held: tuple[Any, Whole], total: int, cells: int) -> tuple[Any, Whole]:
    from scipy import sparse

    ones = sparse.csr_array(np.ones((1, cells), dtype=np.int64))
    rows = sparse.csr_array(sparse.vstack([held[0], ones]), dtype=np.int64)
    return rows, np.append(held[1], total)


def _tightened(
    exact: Any, values: Whole, lower: Whole, upper: Whole, labels: pd.Index | None
) -> dict[str, Whole]:
    """Return the bounds of cells that follow from exact rows, and refuse what cannot be."""
    lower, upper = lower.copy(), upper.copy()
    coo = exact.tocoo()
    row, column, weight = coo.row, coo.col, coo.data
    if ((empty := np.diff(exact.indptr) == 0) & (values != 0)).any():
        at = int(np.flatnonzero(empty & (values != 0))[0])
        raise IncompatibleReleaseError(
            f"a sum of no cells must be 0, got {values[at]} without noise"
        )
    for _ in range(50):
        _refuse_empty(lower, upper, labels)
        # in floats for the sums: an end that is far away may be off, but not by a cell that matters
        high = np.where(upper == NO_END, np.inf, upper.astype(np.float64))
        small = np.where(weight > 0, weight * lower[column], weight * high[column])
        large = np.where(weight > 0, weight * high[column], weight * lower[column])
        least, lost = _row_sums(row, small, len(values))
        most, open_ = _row_sums(row, large, len(values))
        others_least = np.where(
            lost[row] - np.isinf(small) > 0,
            -np.inf,
            least[row] - np.where(np.isinf(small), 0, small),
        )
        others_most = np.where(
            open_[row] - np.isinf(large) > 0,
            np.inf,
            most[row] - np.where(np.isinf(large), 0, large),
        )
        end = (values[row] - others_least) / weight, (values[row] - others_most) / weight
        top = np.where(weight > 0, end[0], end[1])
        bottom = np.where(weight > 0, end[1], end[0])
        new_upper, new_lower = upper.astype(np.float64), lower.astype(np.float64)
        np.minimum.at(new_upper, column, np.floor(top + 1e-9))
        np.maximum.at(new_lower, column, np.ceil(bottom - 1e-9))
        changed_upper = new_upper < np.where(upper == NO_END, np.inf, upper)
        changed_lower = new_lower > lower
        if not (changed_upper.any() or changed_lower.any()):
            break
        upper = np.where(changed_upper, np.maximum(new_upper, -1.0), upper).astype(np.int64)
        lower = np.where(changed_lower, np.minimum(new_lower, _LARGEST), lower).astype(np.int64)
    _refuse_empty(lower, upper, labels)
    return {"lower": lower, "upper": upper}


def _row_sums(
    row: NDArray[Any], part: FloatArray, size: int
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the sums of what is finite, and how many are not."""
    infinite = np.isinf(part)
    finite = np.bincount(row, np.where(infinite, 0.0, part), minlength=size)
    return finite.astype(np.float64), np.bincount(row, infinite, minlength=size).astype(np.intp)


def _refuse_empty(lower: Whole, upper: Whole, labels: pd.Index | None) -> None:
    if (bad := lower > upper).any():
        at = int(bad.argmax())
        name = f"cell {at}" if labels is None else f"the cell {show(labels[at])}"
        raise IncompatibleReleaseError(
            f"values without noise, total and zeros must leave room for counts >= 0: {name} would "
            f"have to be >= {lower[at]} and <= {upper[at]}"
        )


# Whether the posterior is proper, and a table from which to start.


def check_proper(model: TableModel) -> None:
    """Refuse directions in which neither the rows nor the prior bring the posterior down.

    For a prior that does not fall faster than the noise, the posterior is proper where the
    likelihood falls, geometrically or faster, in every direction v >= 0 that keeps Cv = 0.
    """
    open_ = np.flatnonzero(model.upper == NO_END)
    down = np.flatnonzero(model.high < np.inf)  # the likelihood falls as the answer rises
    matrix = model.rows[down][:, open_]
    if not open_.size:
        return
    if not (model.rows.data < 0).any() and not (model.exact.data < 0).any():
        held = np.bincount(matrix.indices, minlength=open_.size) > 0
        loose = open_[~held]
    else:
        loose = open_[_recession(model, open_)]
    if loose.size:
        cell = int(loose[0])
        name = f"cell {cell}" if model.labels is None else f"the cell {show(model.labels[cell])}"
        raise NotEstimableError(
            f"prior must be a probability, such as PoissonPrior(5.0), where the values do not "
            f"bound every cell: nothing published is against large counts of {name}"
            + (f" and {loose.size - 1} others" if loose.size > 1 else "")
            + "; or give the threshold below which unpublished values were, or a total"
        )


def _recession(model: TableModel, open_: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which cells can grow for ever without the likelihood falling."""
    from scipy import optimize, sparse

    a, c = model.rows[:, open_], model.exact[:, open_]
    rises, falls = np.isposinf(model.high), np.isneginf(model.low)
    value = ~rises & ~falls
    equal = sparse.vstack([c, a[value]]).tocsr()
    bounded = sparse.vstack([a[falls], -a[rises]]).tocsr()
    found = optimize.linprog(
        -np.ones(open_.size),
        A_ub=bounded if bounded.shape[0] else None,
        b_ub=np.zeros(bounded.shape[0]) if bounded.shape[0] else None,
        A_eq=equal if equal.shape[0] else None,
        b_eq=np.zeros(equal.shape[0]) if equal.shape[0] else None,
        bounds=(0, 1),
    )
    return np.asarray(found.x) > 1e-7


def start_table(model: TableModel, weak: FloatArray | None) -> Whole:
    """Return a possible table near the clipped least-squares fit.

    ``weak``: what cells that no row is about are expected to be.
    """
    from scipy import sparse
    from scipy.sparse.linalg import lsmr

    n = model.cells
    expected = np.zeros(n) if weak is None else weak
    expected = np.clip(expected, model.lower, np.minimum(model.upper, _LARGEST))
    std = np.sqrt(np.maximum(model.variance, 1e-12))
    target = np.where(model.kind == "below", model.high - 0.5 * std, model.low)
    target = np.where(model.kind == "between", 0.5 * (model.low + model.high), target)
    largest = max(float(std.max(initial=1.0)), 1.0)
    ridge = 1e-3 / largest
    sharp = 1e3 / max(float(std.min(initial=1.0)), 1e-3)
    stacked = sparse.vstack(
        [
            model.rows.astype(np.float64).multiply((1.0 / std)[:, np.newaxis]),
            sharp * model.exact.astype(np.float64),
            ridge * sparse.eye_array(n),
        ]
    ).tocsr()
    right = np.concatenate([target / std, sharp * model.exact_values, ridge * expected])
    fit = lsmr(stacked, right, atol=1e-8, btol=1e-8, conlim=1e12, maxiter=2000)[0]
    near: Whole = np.rint(np.clip(fit, model.lower, np.minimum(model.upper, _LARGEST))).astype(
        np.int64
    )
    if np.isfinite(model.log_likelihood(near)):
        return near
    return _repaired(model, near)


def _repaired(model: TableModel, near: Whole) -> Whole:
    """Return the nearest whole table that meets the exact rows and the ends of bounded noise."""
    from scipy import optimize, sparse

    free = model.free
    if free.size > _MOST_SOLVED:
        raise InvalidParameterError(
            f"values must be of at most {_MOST_SOLVED} cells where exact rows overlap, got "
            f"{free.size}: draw the parts that share no exact row one by one"
        )
    fixed = model.lower.copy()
    fixed[free] = 0
    bounded = np.isfinite(model.support)
    if model.bins is not None and bounded.any():
        raise InvalidParameterError(
            "mechanism must be noise without an end where counts were rounded before the noise"
        )
    a, c = model.rows[bounded][:, free], model.exact[:, free]
    of_known = (model.rows[bounded] @ fixed), (model.exact @ fixed)
    reach = model.support[bounded]
    low = np.ceil(model.low[bounded] - reach - of_known[0] - 1e-9)
    high = np.floor(model.high[bounded] + reach - of_known[0] + 1e-9)
    both = sparse.vstack([sparse.hstack([c, -c]), sparse.hstack([a, -a])]).tocsr()
    moved = (c @ near[free], a @ near[free])
    gap = model.exact_values - of_known[1] - moved[0]
    ends = (
        np.concatenate([gap, low - moved[1]]).astype(np.float64),
        np.concatenate([gap, high - moved[1]]).astype(np.float64),
    )
    up = np.where(model.upper[free] == NO_END, np.inf, model.upper[free] - near[free])
    down = (near[free] - model.lower[free]).astype(np.float64)
    found = optimize.milp(
        np.ones(2 * free.size),
        constraints=optimize.LinearConstraint(both.astype(np.float64), *ends),
        bounds=optimize.Bounds(0.0, np.concatenate([up, down])),
        integrality=np.ones(2 * free.size),
    )
    out = near.copy()
    known = model.lower == model.upper
    out[known] = model.lower[known]
    if found.x is not None:
        steps = np.rint(found.x).astype(np.int64)
        out[free] += steps[: free.size] - steps[free.size :]
    if found.x is None or not np.isfinite(model.log_likelihood(out)):
        raise IncompatibleReleaseError(
            "values without noise, total and zeros must be those of some table of counts >= 0, "
            "and bounded noise must reach the others: no such table was found"
        )
    return out
