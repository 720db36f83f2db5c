"""Which of several noisy counts is the largest, their ranks, and the value of the winner."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer._check import FloatArray, check_alpha, check_flag, check_integer, check_option
from dpinfer._numerics.lattice import smallest_whole
from dpinfer._numerics.roots import find_root
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import sidak
from dpinfer.intervals.counts import count_confint
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw, ParametricLaw
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.releases.coerce import noisy, with_rule
from dpinfer.releases.noises import Noises
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import ERROR_COVERED, Intervals
from dpinfer.results.labels import labelled_frame
from dpinfer.results.presentation import Listed, Plotted
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NEGLIGIBLE = 1e-18
_BLOCK = 1 << 20
_MOST = 1 << 20
"""Panels or atoms of one law."""

WinnerMethod = Literal["adjusted", "conditional", "simultaneous"]


class _Noises:
    """Independent noises, by kind: K values of a few laws, all with a density or none."""

    def __init__(self, x: NoisyValues, who: str) -> None:
        x.need(independent=True, unruled=True, marginal=True, who=who).column()
        if len(x) < 2:
            raise InvalidParameterError(f"{x.name} must be at least two values, got {len(x)}")
        firsts, self.kind = x.key()
        self.laws = [self._law(x, int(i)) for i in firsts]
        self.times = np.bincount(self.kind, minlength=len(firsts)).astype(np.float64)
        self.whole = isinstance(self.laws[0], IntegerLaw)
        if any(law.variance == 0 for law in self.laws):
            raise InvalidParameterError(
                f"{who} needs noise in every value, got {x.name} of which one is exact: compare "
                "the others with it by count_confint"
            )
        if any(isinstance(law, IntegerLaw) is not self.whole for law in self.laws):
            raise InvalidParameterError(
                f"{who} needs errors that all have a density, or all take whole numbers, got "
                f"{x.name} with both: compare two of them with counts_2indep"
            )

    @staticmethod
    def _law(x: NoisyValues, i: int) -> ParametricLaw:
        law = x.marginal.take(i) if x.marginal.shape else x.marginal
        assert isinstance(law, ParametricLaw)
        return law

    def mean(self, kind: int, shifts: FloatArray, f: Callable[..., FloatArray]) -> FloatArray:
        """E[f(e, shift)] over the noise of a kind, one for each shift, shape (n,).

        ``f`` takes points and shifts of shape (n, nodes), and is smooth but where the points, or
        those moved by a shift, are at a leap of some density.
        """
        law = self.laws[kind]
        reach = float(law._isf(np.asarray(_NEGLIGIBLE)))
        out: FloatArray = np.empty(shifts.size)
        if self.whole:
            self._affordable(2.0 * reach + 1.0, law)
            x = np.arange(-reach, reach + 1.0)
            mass = np.exp(law._logpmf(x))  # type: ignore[attr-defined]
            rows = max(_BLOCK // x.size, 1)
            for i in range(0, shifts.size, rows):
                c = shifts[i : i + rows, None]
                out[i : i + rows] = f(np.broadcast_to(x, (c.size, x.size)), c) @ mass
            return out
        assert isinstance(law, ContinuousLaw)
        self._affordable(
            2.0 * reach if any(isinstance(one, Tulap) for one in self.laws) else 0, law
        )
        base = self._leaps(reach)
        rows = max(_BLOCK // (48 * base.size), 1)
        for i in range(0, shifts.size, rows):
            c = shifts[i : i + rows, None]
            edges = [np.broadcast_to(base, (c.size, base.size)), base - c, base + c]
            points = np.sort(np.clip(np.concatenate(edges, axis=1), -reach, reach), axis=1)
            half = 0.5 * np.diff(points)[..., None]
            at = (points[:, :-1, None] + half * (1.0 + _NODES)).reshape(c.size, -1)
            weight = (half * _WEIGHTS).reshape(c.size, -1) * np.exp(law._logpdf(at))
            out[i : i + rows] = (f(at, c) * weight).sum(axis=1)
        return out

    def _leaps(self, reach: float) -> FloatArray:
        """Edges of panels: where a density leaps or bends, and not too far apart.

        A narrow law is constant beyond its own reach, so that each law cuts only what is beyond
        the reach of the narrower ones.
        """
        parts, done = [np.array([0.0, reach])], 0.0
        for law in sorted(self.laws, key=lambda law: float(law.std)):
            end = min(float(law._isf(np.asarray(_NEGLIGIBLE))), reach)
            if isinstance(law, Tulap):
                parts.append(np.append(np.arange(np.floor(end)) + 0.5, end))
            elif end > done:
                number = int(np.ceil((end - done) / float(law.std)))
                parts.append(np.linspace(done, end, number + 1))
                done = end
        half = np.unique(np.concatenate(parts))
        return np.concatenate([-half[:0:-1], half])

    @staticmethod
    def _affordable(number: float, law: ParametricLaw) -> None:
        if number > _MOST:
            raise InvalidParameterError(
                f"mechanism must take at most {_MOST:,} values worth a mention, got {law!r}: in "
                "coarser units, or as Laplace or Gaussian noise, it is nearly the same"
            )

    def log_below(self, x: FloatArray, less: int, strictly: bool = False) -> FloatArray:
        """Σ ln P(e_j <= x), or < x, over all noises but one of a kind."""
        total = np.zeros(x.shape)
        at = np.ceil(x) - 1.0 if strictly and self.whole else x
        with np.errstate(divide="ignore", invalid="ignore"):
            for kind, law in enumerate(self.laws):
                times = self.times[kind] - (kind == less)
                if times:
                    total += times * law._logcdf(at)
        return total

    def log_between(self, low: FloatArray, high: FloatArray, less: int) -> FloatArray:
        """Σ ln P(low <= e_j <= high) over all noises but one of a kind."""
        total = np.zeros(low.shape)
        before = np.ceil(low) - 1.0 if self.whole else low
        with np.errstate(divide="ignore", invalid="ignore"):
            for kind, law in enumerate(self.laws):
                times = self.times[kind] - (kind == less)
                if times:
                    upper = before > 0  # differences of the smaller tails
                    tail = np.where(upper, law._sf(before) - law._sf(high), 0.0)
                    head = np.where(upper, 0.0, law._cdf(high) - law._cdf(before))
                    total += times * np.log(np.maximum(tail + head, 0.0))
        return total

    def critical(self, chance: Callable[[FloatArray], FloatArray]) -> float:
        """Return the smallest c with ``chance(c)`` <= 0, a decreasing function of c >= 0."""
        if self.whole:
            return float(smallest_whole(np.zeros(1), lambda c: (c >= 0) & (chance(c) <= 0))[0])
        start = np.zeros(1)
        width = np.full(1, 4.0 * max(float(law.std) for law in self.laws))
        return float(find_root(lambda c, _: chance(c), start, width, rtol=1e-12, expand=True)[1][0])


class Ranking(Listed, Plotted):
    """What noisy values say about the order of the confidential ones; made by :func:`ranking`.

    Attributes
    ----------
    alpha : float
        One minus the level of all its statements.
    """

    _drawing: ClassVar[str] = "plot_ranking"

    def __init__(self, x: NoisyValues, noises: _Noises, alpha: float) -> None:
        self._x, self._noises, self.alpha = x, noises, alpha

    def summary_frame(self) -> pd.DataFrame:
        """Return :meth:`best` with the interval of each rank, ``lower`` and ``upper``."""
        ranks = self.ranks()
        return self.best().assign(lower=ranks["lower"], upper=ranks["upper"])

    def _rows(self) -> tuple[int, pd.Index | None]:
        return len(self._x), self._x.labels

    def _table(self) -> Table:
        frame = self.summary_frame()
        return Table(
            "Ranks of confidential values",
            [
                ("Values", len(frame)),
                ("Level", f"{1 - self.alpha:.6g}"),
                ("Error covered", ERROR_COVERED["noise"]),
            ],
            frame,
            index=self._x.labels,
            notes=("pvalue, best: whether it may be the largest; lower, upper: its rank, each",),
        )

    def __repr__(self) -> str:
        number = int(self.best()["best"].sum())
        return f"Ranking({len(self)} values, {number} of which may be the largest)"

    def best(self) -> pd.DataFrame:
        """Return the set that holds the largest confidential value with probability 1 - α.

        Of several equal ones it holds each with that probability, not all of them together.

        Returns
        -------
        DataFrame
            A row for each value: ``value``, the ``pvalue`` of the hypothesis that it is the
            largest, and whether it is in the set, ``best``.

        Notes
        -----
        Value i is tested by how far it is behind, d = max y - y_i: if f_i is the largest, d is at
        most max_j e_j - e_i, whose law is known, P(max_j e_j - e_i >= d) = 1 - E[Π_{j≠i}
        G_j((e_i + d)-)]. The level is exact where all are equal and noise has a density (Gupta
        1965; Hsu 1984).
        """
        y, noises = self._x.values, self._noises
        behind = y.max() - y
        pvalue = np.ones(len(y))
        for kind in range(len(noises.laws)):
            at = np.flatnonzero((noises.kind == kind) & (behind > 0))
            gaps, place = np.unique(behind[at], return_inverse=True)

            def missed(e: FloatArray, d: FloatArray, kind: int = kind) -> FloatArray:
                return -np.expm1(noises.log_below(e + d, kind, strictly=True))

            if at.size:
                pvalue[at] = np.clip(noises.mean(kind, gaps, missed), 0.0, 1.0)[place]
        return self._frame(pvalue=pvalue, best=pvalue > self.alpha)

    def ranks(self, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return intervals for the ranks of the confidential values, 1 for the largest.

        Parameters
        ----------
        simultaneous : bool, default False
            Whether all ranks are covered together with probability 1 - α, rather than each.

        Returns
        -------
        DataFrame
            A row for each value: ``value``, ``lower`` and ``upper`` rank. Of equal confidential
            values every order is covered.

        Notes
        -----
        Value j is above i if y_j - y_i exceeds c, with P(max_j abs(e_j - e_i) > c) = α for one
        rank, and the range of all noises in the place of the maximum for all of them.
        """
        y, noises = self._x.values, self._noises
        together = check_flag(simultaneous, "simultaneous")
        kinds = range(len(noises.laws))
        width = (
            np.full(len(noises.laws), self._range())
            if together
            else np.array([self._spread(kind) for kind in kinds])
        )
        c, ordered = width[noises.kind], np.sort(y)
        slack = self._slack()
        above = len(y) - np.searchsorted(ordered, y + c + slack, side="right")
        below = np.searchsorted(ordered, y - c - slack, side="left")
        return self._frame(lower=1 + above, upper=len(y) - below)

    def top(self, m: int) -> pd.DataFrame:
        """Return which values are among the m largest, surely or possibly, with level 1 - α.

        Parameters
        ----------
        m : int
            The size of the group, from 1 to K - 1.

        Returns
        -------
        DataFrame
            A row for each value: ``value``, and whether it is ``surely`` and ``possibly`` among the
            m largest. All statements hold together with probability 1 - α.

        Notes
        -----
        With probability 1 - α, no noise outside of the true group exceeds one inside of it by more
        than c, ∫ m·g(x)·S(x)^(m-1)·G(x + c)^(K-m) dx = 1 - α for noises of one law. Then a value
        with m others that are more than c above it is not in the group, and one with fewer than m
        others at or above itself less c is. The noises must have one law: which of several are in
        the group is not known.
        """
        y, noises = self._x.values, self._noises
        size = check_integer(m, "m", ge=1, le=len(y) - 1)
        if len(noises.laws) > 1:
            raise InvalidParameterError(
                f"top needs noises of one law, got {len(noises.laws)} laws in {self._x.name}: use "
                "ranks(simultaneous=True), whose lower and upper ranks tell as much"
            )
        law, others = noises.laws[0], float(len(y) - size)

        def chance(c: FloatArray) -> FloatArray:
            def missed(e: FloatArray, c: FloatArray) -> FloatArray:
                # the smallest of m, given by the tail: P(min >= e) - P(min > e) for whole numbers
                with np.errstate(divide="ignore"):
                    beyond = others * law._logcdf(e + c)
                if noises.whole:
                    at, after = law._sf(e - 1.0), law._sf(e)
                    share = np.exp(law._logpmf(e))  # type: ignore[attr-defined]
                    weight = sum(at**i * after ** (size - 1 - i) for i in range(size))
                    return np.where(share > 0, weight, 0.0) * -np.expm1(beyond)
                return size * law._sf(e) ** (size - 1) * -np.expm1(beyond)

            return noises.mean(0, c, missed) - self.alpha

        c, slack, ordered = noises.critical(chance), self._slack(), np.sort(y)
        above = len(y) - np.searchsorted(ordered, y + c + slack, side="right")
        reach = len(y) - np.searchsorted(ordered, y - c - slack, side="left") - 1
        return self._frame(surely=reach < size, possibly=above < size)

    def _slack(self) -> float:
        """Return what rounding makes of differences, so that one of c is not taken to be more."""
        return 0.0 if self._noises.whole else 1e-14 * float(np.abs(self._x.values).max())

    def _spread(self, kind: int) -> float:
        noises = self._noises

        def chance(c: FloatArray) -> FloatArray:
            def missed(e: FloatArray, c: FloatArray) -> FloatArray:
                return -np.expm1(noises.log_between(e - c, e + c, kind))

            return noises.mean(kind, c, missed) - self.alpha

        return noises.critical(chance)

    def _range(self) -> float:
        noises = self._noises

        def chance(c: FloatArray) -> FloatArray:
            inside = np.zeros(c.size)
            for kind, times in enumerate(noises.times):

                def lowest(e: FloatArray, c: FloatArray, kind: int = kind) -> FloatArray:
                    return np.exp(noises.log_between(e, e + c, kind))

                inside += times * noises.mean(kind, c, lowest)
            return 1.0 - inside - self.alpha

        def whole(c: FloatArray) -> FloatArray:
            # the smallest is e: P(all in [e, e + c]) - P(all in [e + 1, e + c])
            widest = max(noises.laws, key=lambda law: float(law.std))
            reach = float(widest._isf(np.asarray(_NEGLIGIBLE)))
            noises._affordable(2.0 * reach + 1.0, widest)
            e = np.broadcast_to(np.arange(-reach, reach + 1.0), (c.size, int(2 * reach + 1)))
            every = noises.log_between(e, e + c[:, None], -1)
            more = noises.log_between(e + 1.0, e + c[:, None], -1)
            with np.errstate(invalid="ignore"):
                inside = (np.exp(every) - np.exp(more)).sum(axis=1)
            return np.asarray(1.0 - inside - self.alpha)

        return noises.critical(whole if noises.whole else chance)

    def _frame(self, **columns: Any) -> pd.DataFrame:
        return labelled_frame({"value": self._x.values, **columns}, self._x.labels)


def ranking(values: Any, *, mechanism: Mechanism | None = None, alpha: float = 0.05) -> Ranking:
    """Which of several confidential values is the largest, which are the top m, and their ranks.

    Parameters
    ----------
    values : array, Series, Release or estimate
        At least two published values with independent noises, all with a density or all on the
        whole numbers (and then confidential values that are whole numbers, too).
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all values, or one for each.
    alpha : float, default 0.05
        One minus the level, in (0, 1).

    Returns
    -------
    Ranking
        With ``best()``, ``ranks()`` and ``top(m)``, each a frame with a row for each value.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or values share noises, were published by a
        threshold or clamp, or are of both kinds.

    See Also
    --------
    winner_confint : the confidential value behind the largest published one.

    Notes
    -----
    Every set has the stated coverage whatever the confidential values are, by monotonicity: it is
    smallest where they are equal. Stepwise procedures may be shorter; this one does not drop pairs
    that are decided. A set ``best()`` of one element says, at level 1 - α, that it is the largest.

    References
    ----------
    Gupta, S. S. (1965). On some multiple decision (selection and ranking) rules. Technometrics
    7(2), 225-245. doi:10.1080/00401706.1965.10490251.

    Hsu, J. C. (1984). Constrained simultaneous confidence intervals for multiple comparisons with
    the best. Annals of Statistics 12(3), 1136-1144. doi:10.1214/aos/1176346732.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpinfer import Laplace
    >>> counts = pd.Series({"flu": 101.3, "cold": 98.2, "mumps": 62.4, "polio": 11.9})
    >>> found = ranking(counts, mechanism=Laplace(scale=2.0))
    >>> found.best().round(4)
           value  pvalue   best
    flu    101.3  1.0000   True
    cold    98.2  0.3673   True
    mumps   62.4  0.0000  False
    polio   11.9  0.0000  False
    >>> found.ranks(simultaneous=True)[["lower", "upper"]].T
           flu  cold  mumps  polio
    lower    1     1      3      4
    upper    2     2      3      4
    """
    alpha = check_alpha(alpha)
    x = noisy(values, mechanism=mechanism)
    return Ranking(x, _Noises(x, "ranking"), alpha)


def winner_confint(
    values: Any,
    *,
    mechanism: Mechanism | None = None,
    alpha: float = 0.05,
    method: WinnerMethod = "adjusted",
) -> Intervals:
    """Interval for the confidential value behind the largest of several published ones.

    The largest of noisy values is too large on the average, as it was chosen with its own noise.
    A value that was drawn anew for the winner needs no correction: use
    :func:`~dpinfer.count_confint`.

    Parameters
    ----------
    values : array, Series, Release or estimate
        All published values, at least two, with independent noises.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise: one for all values, or one for each.
    alpha : float, default 0.05
        One minus the level, in (0, 1).
    method : {"adjusted", "conditional", "simultaneous"}
        ``"adjusted"``: the lower end pays for all K values, the upper end for none.
        ``"conditional"``: given which value is the largest, and the second largest; under Laplace
        noise it has no lower end unless the lead exceeds b·ln(2/α). ``"simultaneous"``: that of the
        winner among intervals that hold for all values together, for comparison.

    Returns
    -------
    Intervals
        One interval, about the noise only, with the label of the winner.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or values share noises, or were published by a
        threshold or clamp; or, for ``"conditional"``, the noise is of a law that
        :func:`~dpinfer.count_confint` has no conditional interval for.

    Notes
    -----
    The adjusted interval is [y - c, y + u] with P(e > u) = α/2 and P(e > c) = 1 - (1 - α/2)^(1/K):
    the error of the winner is above c only if some error is, and P(e < -u, i wins) <= P(e < -u)·P(i
    wins) for every i, as its chance to win grows with its own error. It holds at level 1 - α for
    every law of independent noises. The conditional one inverts P(Y >= y | Y >= y₂), where the
    first of equal values wins.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> counts = [100.4, 97.9, 80.2, 61.0, 55.5]
    >>> winner_confint(counts, mechanism=Laplace(scale=2.0))
    Intervals([91.2099, 106.391], level 0.95, adjusted)
    """
    alpha = check_alpha(alpha)
    check_option(method, "method", ("adjusted", "conditional", "simultaneous"))
    x = noisy(values, mechanism=mechanism)
    x.need(independent=True, unruled=True, marginal=True, who="winner_confint").column()
    if len(x) < 2:
        raise InvalidParameterError(f"{x.name} must be at least two values, got {len(x)}")
    winner = int(np.argmax(x.values))
    alone = x.take([winner])
    note = f"of the largest of {len(x)} values{_named(alone)}"
    if method == "conditional":
        law = alone.marginal.take(0) if alone.marginal.shape else alone.marginal
        others = np.delete(x.values, winner)
        second = float(others.max())
        if law.is_integer and (others[:winner] == second).any():
            second += 1.0  # it would not have won with the value of one before it
        # all values were checked together: that the winner alone is whole says nothing
        only = NoisyValues(alone.values, Noises(law, 1), shape=(1,), name=x.name)
        found = count_confint(with_rule(only, threshold=second), alpha=alpha)
        return Intervals(
            estimate=np.ravel(found.estimate)[0],
            lower=np.ravel(found.lower)[0],
            upper=np.ravel(found.upper)[0],
            alpha=alpha,
            method=method,
            uncertainty="noise",
            # its estimate and ends may be infinite, and there are no lower= and upper= here
            notes=(note, *(one for one in found.notes if "lower=" not in one)),
        )
    half = alpha / 2.0
    with_noise = max(int(np.count_nonzero(x.variance)), 1)
    each = sidak(half, with_noise) if method == "adjusted" else sidak(alpha, with_noise) / 2.0
    lower = alone.values - alone.marginal.isf(each)
    upper = alone.values + alone.marginal.isf(half if method == "adjusted" else each)
    return Intervals(
        estimate=alone.values[0],
        lower=np.ravel(lower)[0],
        upper=np.ravel(upper)[0],
        alpha=alpha,
        method=method,
        uncertainty="noise",
        notes=(note,),
    )


def _named(x: NoisyValues) -> str:
    return "" if x.labels is None else f", {x.labels[0]}"
