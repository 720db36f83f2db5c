"""Life tables of a period from noisy counts of deaths and of persons by age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from dpinfer._check import FloatArray, check_array, check_length, check_option, check_scalar, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.functions._worst import check_level, noise_within, worst_quantiles
from dpinfer.functions.rates import ASYMPTOTIC, METHODS, Laws, Method, check_counts, poisson_means
from dpinfer.functions.segregation import PROVED, IndexIntervals
from dpinfer.functions.unbiased import area_table, within_areas
from dpinfer.releases.coerce import noisy_pair
from dpinfer.releases.values import NoisyValues
from dpinfer.results.intervals import UNCERTAINTIES, Uncertainty

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("d", "e", "l", "q")
"""In their order in results, in which labels are sorted."""

_PLACES = [2, 3, 1, 0]
"""Where they are in tables here: q, l, d and e."""


_OF_BOX = 0.1
"""Part of alpha that is spent on where all rates are."""

_FEWEST_STD = 5.0
"""Standard deviations of their noise that persons are away from 0, to be linearised."""

_AREAS = 200
"""Areas that are worked on at once."""


def life_table_confint(
    deaths: Any,
    population: Any,
    ages: Any,
    *,
    ax: Any = None,
    by: Any = None,
    mechanism: Laws = None,
    uncertainty: Uncertainty = "noise",
    method: Method = "bound",
    radix: float = 100_000.0,
    alpha: float = 0.05,
) -> IndexIntervals:
    """Confidence intervals for the columns of period life tables of areas.

    Parameters
    ----------
    deaths, population : array, Series, DataFrame, Release or estimate
        The published counts D of deaths in the period and N of person-years lived in it, such as
        the persons in its middle, by age group in the order of age. Each row of two-dimensional
        arrays is an area of its own. A population known exactly has the law ``Exact()``.
    ages : array of float, shape (K,)
        Where the K >= 2 age groups begin, >= 0 and increasing, as 0, 1, 5, 10; the last is open.
    ax : array of float, shape (K - 1,) or (K,), optional
        How many years those who die in an age group have lived in it on average, from 0 to its
        width: by default half of it. The open group needs none.
    by : list, mapping, Series or str, optional
        Which counts are of one area, as for :meth:`FunctionEstimate.sum`.
    mechanism : NoiseLaw, sequence of NoiseLaw or pair
        The law of the noise of both, or that of deaths and that of the population; left out where
        they carry their own.
    uncertainty : {"noise", "noise+sampling"}
        ``"noise"``: the life table of the confidential counts. ``"noise+sampling"``: that of the
        rates λ behind them, of which D is Poisson with mean λN.
    method : {"bound", "asymptotic"}
        ``"bound"`` is proved. ``"asymptotic"`` takes errors for normal, and refuses populations
        below five standard deviations of their noise.
    radix : float, default 100000
        Of how many born ``l`` says who is left, and ``d`` who dies.
    alpha : float, default 0.05
        One minus the confidence level of each interval, in (0, 1), and at least 1e-50.

    Returns
    -------
    IndexIntervals
        Rows ``d``, ``e``, ``l`` and ``q`` by age under the labels (area, column, age):
        ``found["e"]`` is the expectation of life, and ``found.estimate.unstack("column")`` the
        table. An interval holds for itself, and not all together.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    NotEstimableError
        If nothing is known of any area.

    See Also
    --------
    survival_confint : a cohort that is followed from its beginning.

    Notes
    -----
    With rates m = D/N, widths n and years lived a by those who die in a group:

        q = n·m/(1 + (n - a)m),   l(x+n) = l(x)(1 - q),   d = l·q,   e(x) = Σ(y>=x) L(y)/l(x),

    L = n·l(x+n) + a·d, and l/m of the open group. Each number h of the table is a polynomial in the
    q and the 1/m of the open group, of degree 1 in each of them. So with published y and z, whose
    errors are e and u, it holds without any approximation that

        h(q̂) - h(q) = Σ gₖ·(q̂ₖ - qₖ),   q̂ₖ - qₖ = nₖ(eₖ - mₖuₖ)/[(zₖ + cₖyₖ)(1 + cₖmₖ)],

    cₖ = nₖ - aₖ, and gₖ the slope at q̂ in younger ages and at q in older ones. ``"bound"`` spends
    α/10 on bounds of all errors, and so of all rates. The sum with gₖ and denominators at the
    confidential counts is one of noises with weights within these bounds, and adds its largest
    quantile; what is left is bounded term by term. With sampling y - λN takes the place of e:
    Poisson deaths enter with their largest means, by Chernoff's bound. Intervals are within the
    tables of all least and all largest rates.

    ``"asymptotic"`` has the slopes at the published counts, and with sampling the variances of
    deaths as well: Chiang's formula for Poisson deaths. Proved intervals are about 1.1 times as
    wide under Gaussian noise that is small next to the counts, 1.6 times where there are many areas
    and noise of other laws, and several times where noise makes the rates themselves uncertain. Of
    100 releases each of a table of 19 ages, with four pairs of a law and a size of counts and
    either kind of uncertainty, asymptotic ones of level 95 % covered in 93 to 98 % on average over
    ages, and proved ones in 96 to 100 %.

    References
    ----------
    Chiang, C. L. (1984). The Life Table and Its Applications. Krieger.
    Preston, S. H., Heuveline, P. and Guillot, M. (2001). Demography: Measuring and Modeling
    Population Processes, chapter 3. Blackwell.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> deaths, persons = [41.2, 30.7, 118.0, 905.4], [9020.1, 51200.7, 60011.0, 21003.6]
    >>> noise = dpi.Laplace(scale=2.0)
    >>> found = dpi.functions.life_table_confint(
    ...     deaths, persons, [0, 1, 20, 60], ax=[0.1, 8, 25], mechanism=noise
    ... )
    >>> found["e"].lower.to_numpy().round(2), found["e"].upper.to_numpy().round(2)
    (array([78.83, 78.2 , 60.06, 23.03]), array([79.39, 78.75, 60.5 , 23.37]))
    """
    alpha = check_level(alpha)
    way = check_option(method, "method", METHODS)
    about = check_option(uncertainty, "uncertainty", UNCERTAINTIES)
    born = check_scalar(radix, "radix", gt=0, ge=1e-100, le=1e100)
    given = _Counts.of(deaths, population, ages, ax, by, mechanism)
    found = given.intervals(alpha, way, about)
    lower, upper = found[1], found[2]
    lost = np.isinf(upper) | ((lower == 0.0) & (upper == 1.0))
    lost[:, 3] = np.isinf(upper[:, 3])
    if (lost | (lower == upper)).all() and lost.any():
        raise NotEstimableError(
            "population must be away from 0 by what its noise can be, which it is in no age of an "
            "area: merge ages, or add areas up"
        )
    said = f"of {np.count_nonzero(lost)} of {lost.size} rows nothing, or no upper end, is known"
    scale = np.array([1.0, born, born, 1.0])[:, np.newaxis]
    estimate, lower, upper, plug_in = (scale * found)[:, :, _PLACES].reshape(4, -1)
    return IndexIntervals(
        estimate=estimate,
        lower=lower,
        upper=upper,
        plug_in=plug_in,
        alpha=alpha,
        method=way,
        uncertainty=about,
        labels=given.row_labels(),
        assurance="bound" if way == "bound" else None,
        guarantee=PROVED if way == "bound" else ASYMPTOTIC,
        notes=(said,) if lost.any() else (),
    )


@dataclass(frozen=True, eq=False)
class _Counts:
    """Deaths and persons of K ages of each area, as positions (areas, K)."""

    deaths: NoisyValues
    persons: NoisyValues
    cells: NDArray[np.intp]
    ages: FloatArray
    width: FloatArray  # of all but the last age, (K - 1,)
    beyond: FloatArray  # n - a, (K - 1,)
    shape: tuple[int, ...]
    labels: pd.Index | None

    @classmethod
    def of(
        cls, deaths: Any, population: Any, ages: Any, ax: Any, by: Any, mechanism: Laws
    ) -> _Counts:
        x, y = noisy_pair(deaths, population, mechanism, ("deaths", "population"))
        check_counts(x, y, "life_table_confint")
        starts = check_array(ages, "ages", ndim=1, ge=0, le=1e6)
        width = np.diff(starts)
        if len(starts) < 2 or not (width > 0.0).all():
            raise InvalidParameterError(
                f"ages must be where two age groups or more begin, increasing, got {show(ages)}"
            )
        table, shape, labels = area_table(x, by)
        if (sizes := np.diff(table.indptr)).min() != len(starts) or sizes.max() != len(starts):
            raise InvalidParameterError(
                f"deaths must be of the {len(starts)} age groups in each area, got "
                f"{int(sizes.min())} to {int(sizes.max())}"
            )
        lived = 0.5 * width
        if ax is not None:
            given = check_array(ax, "ax", ndim=1, ge=0)
            if len(given) != len(starts):
                check_length(given, "ax", len(width), "the closed age groups")
            lived = given[: len(width)]
            if (lived > width).any():
                raise InvalidParameterError(
                    f"ax must be at most the widths of the age groups, got {show(ax)}"
                )
        cells = np.sort(table.indices.reshape(table.shape[0], -1), axis=1)
        bad = (y.values <= 0.0) & (y.variance == 0.0)
        if bad.any():
            at = int(np.argmax(bad))
            raise InvalidParameterError(
                f"population must be > 0 where it has no noise, got {y.values[at]:g} at position "
                f"{at}"
            )
        return cls(x, y, cells, starts, width, width - lived, shape, labels)

    def row_labels(self) -> pd.Index:
        import pandas as pd

        places = pd.MultiIndex.from_product([_COLUMNS, self.ages], names=["column", "age"])
        return within_areas(self.labels, len(self.cells), places) if self.shape else places

    def intervals(self, alpha: float, method: Method, uncertainty: Uncertainty) -> FloatArray:
        """Return estimates, ends and plug-in values, each (areas, 4, K)."""
        sampled = uncertainty == "noise+sampling"
        y, z = self.deaths.values[self.cells], self.persons.values[self.cells]
        plain = self._of_rates(np.maximum(y, 0.0), np.where(z > 0.0, z, 1.0))
        if method == "asymptotic":
            lower, upper, estimate = self._asymptotic(y, z, alpha, sampled=sampled)
        else:
            lower, upper, estimate = self._bound(y, z, alpha, sampled=sampled)
        most = np.array([1.0, 1.0, 1.0, np.inf])[:, np.newaxis]
        lower, upper = np.clip(lower, 0.0, most), np.clip(upper, 0.0, most)
        upper = np.maximum(lower, upper)
        return np.array([np.clip(estimate, lower, upper), lower, upper, plain])

    def _rates(self, y: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return q of closed ages, and 1/m of the open one."""
        q = self.width * y[:, :-1] / (z[:, :-1] + self.beyond * y[:, :-1])
        last = y[:, -1]
        return q, z[:, -1] / np.where(last > 0.0, last, 1.0)

    def _of_rates(self, y: FloatArray, z: FloatArray) -> FloatArray:
        q, last = self._rates(y, z)
        return self._table(np.minimum(q, 1.0), last)

    def _table(self, q: FloatArray, last: FloatArray) -> FloatArray:
        """Return q, l, d and e, (areas, 4, K)."""
        found = np.ones((len(q), 4, len(self.ages)))
        found[:, 0, :-1] = q
        found[:, 1, 1:] = np.cumprod(1.0 - q, axis=1)
        found[:, 2] = found[:, 1] * found[:, 0]
        found[:, 3, -1] = last
        for at in range(len(self.width) - 1, -1, -1):
            lived = self.width[at] - self.beyond[at] * q[:, at]
            found[:, 3, at] = lived + (1.0 - q[:, at]) * found[:, 3, at + 1]
        return found

    def _slopes(self, table: FloatArray, share: FloatArray, e: FloatArray) -> FloatArray:
        """Return sizes of slopes of all numbers in q and in 1/m, (areas, 4, K, K).

        ``share`` has who survives each closed age, and ``table`` has q and ``e`` the expectations.
        """
        size = len(self.ages)
        up_to = np.zeros((len(table), size, size))  # who survives from x to y
        for at in range(size):
            up_to[:, at, at] = 1.0
            up_to[:, at, at + 1 :] = np.cumprod(share[:, at:], axis=1)
        found = np.zeros((len(table), 4, size, size))
        closed = np.arange(size - 1)
        found[:, 0, closed, closed] = 1.0
        from_birth = up_to[:, 0]
        after = np.zeros_like(up_to)  # from the end of y to x, for x > y
        after[:, 1:, :-1] = np.swapaxes(up_to[:, 1:, 1:], 1, 2)
        found[:, 1] = from_birth[:, np.newaxis] * after
        found[:, 2] = found[:, 1] * table[:, 0, :, np.newaxis]
        found[:, 2, closed, closed] = from_birth[:, :-1]
        found[:, 3, :, :-1] = up_to[:, :, :-1] * (self.beyond + e[:, 1:])[:, np.newaxis]
        found[:, 3, :, -1] = up_to[:, :, -1]
        return found

    def _signs(self) -> FloatArray:
        """Return the signs of the changes of all numbers with those of the rates, (4, K, K)."""
        signs = -np.ones((4, len(self.ages), len(self.ages)))
        signs[0] = 1.0
        signs[2] += 2.0 * np.eye(len(self.ages))
        return signs

    def _needed(self, there: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether all rates that a number is of are known, (areas, 4, K)."""
        found = np.ones((len(there), 4, len(self.ages)), dtype=np.bool_)
        upwards = np.logical_and.accumulate(there[:, :-1], axis=1)
        found[:, 0, :-1] = there[:, :-1]
        found[:, 1, 1:] = upwards
        found[:, 2, :-1] = upwards
        found[:, 2, -1] = upwards[:, -1]
        found[:, 3] = np.logical_and.accumulate(there[:, ::-1], axis=1)[:, ::-1]
        return found

    def _asymptotic(
        self, y: FloatArray, z: FloatArray, alpha: float, *, sampled: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        noise = self.persons.std[self.cells]
        q = self._rates(y, np.where(z > 0.0, z, 1.0))[0]
        there = (z > 0.0) & (z >= _FEWEST_STD * noise)
        there[:, :-1] &= q < 1.0
        there[:, -1] &= y[:, -1] > 0.0
        y, z = np.where(there, y, 0.5), np.where(there, z, 1e6)
        q, last = self._rates(y, z)
        table = self._table(q, last)
        slopes = self._slopes(table, 1.0 - q, table[:, 3]) * self._signs()
        weights = slopes * self._per_death(y, z)[:, np.newaxis, np.newaxis]
        std = np.empty((len(y), 4, len(self.ages)))
        for area in self._blocks():
            first, second, noises = self._noises(area)
            own = np.broadcast_to(np.asarray(noises.law.variance), noises.size)
            errors = _rows(weights[area]) @ first - _rows(weights[area], y[area] / z[area]) @ second
            variance = (errors.tocsr().power(2) @ own).reshape(std[area].shape)
            if sampled:
                deaths = np.maximum(y[area], 0.0)[:, np.newaxis, np.newaxis]
                variance = variance + (np.square(weights[area]) * deaths).sum(axis=-1)
            std[area] = np.sqrt(variance)
        half = np.where(self._needed(there), -special.ndtri(0.5 * alpha) * std, np.inf)
        return table - half, table + half, table

    def _bound(
        self, y: FloatArray, z: FloatArray, alpha: float, *, sampled: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        noisy_ones = bool(self.deaths.variance.any() or self.persons.variance.any())
        box = _OF_BOX * alpha if noisy_ones or sampled else 0.0
        size = len(self.ages)
        b = np.zeros(y.shape)
        if self.persons.variance.any():
            b = noise_within(self.persons, 0.25 * box / size)[self.cells]
        if sampled:
            least, most = (one[self.cells] for one in poisson_means(self.deaths, 0.5 * box / size))
            least, most = np.where(np.isfinite(least), least, 0.0), np.maximum(most, 0.0)
        else:
            a = np.zeros(y.shape)
            if self.deaths.variance.any():
                a = noise_within(self.deaths, 0.25 * box / size)[self.cells]
            least, most = np.maximum(y - a, 0.0), np.maximum(y + a, 0.0)
        a = np.maximum(np.abs(y - least), np.abs(most - y))
        low, high = z - b, z + b
        there = low > 0.0
        safe = np.where(there, low, 1.0)
        q_most = self._rates(most, safe)[0]
        there[:, :-1] &= (q_most < 1.0) & (self._rates(y, np.where(there, z, 1.0))[0] < 1.0)
        there[:, -1] &= least[:, -1] > 0.0
        needed = self._needed(there)
        y, least, most = (np.where(there, one, 0.5) for one in (y, least, most))
        z, low, high = (np.where(there, one, 1e6) for one in (z, low, high))
        a, b = np.where(there, a, 0.0), np.where(there, b, 0.0)
        tables = [self._table(*self._rates(*one)) for one in ((least, high), (most, low), (y, z))]
        lives, dies, middle = tables
        # the tables of all least and all largest rates
        lower, upper = dies.copy(), lives.copy()
        lower[:, 0], upper[:, 0] = lives[:, 0], dies[:, 0]
        lower[:, 2], upper[:, 2] = dies[:, 1] * lives[:, 0], lives[:, 1] * dies[:, 0]
        slopes = self._slopes(dies, 1.0 - lives[:, 0, :-1], lives[:, 3])
        # (N + cD)²/N is least at N = cD, and N/D² of the open age largest at the largest N
        worst = np.hstack(
            [np.clip(self.beyond * least[:, :-1], low[:, :-1], high[:, :-1]), high[:, -1:]]
        )
        weights = slopes * self._per_death(least, worst)[:, np.newaxis, np.newaxis]
        left = self._left(middle, lives, dies, (y, z), (least, most), a, b)
        error = a + most / low * b
        rest = (weights * left * error[:, np.newaxis, np.newaxis]).sum(axis=-1)
        reach = np.zeros((2, *middle.shape))
        for area in self._blocks():
            if not box:
                break
            first, second, noises = self._noises(area)
            sizes = _rows(weights[area]) @ abs(first) + _rows(
                weights[area], most[area] / low[area]
            ) @ abs(second)
            tail = 0.5 * (alpha - box)
            for at, sign in enumerate((1.0, -1.0)):
                poisson = None
                if sampled:
                    signed = _rows(sign * self._signs() * weights[area])
                    poisson = signed, most[area].ravel()
                found = worst_quantiles(sizes.tocsr(), noises, tail, poisson=poisson)
                reach[at, area] = found.reshape(middle[area].shape)
                if not sampled:
                    reach[1] = reach[0]
                    break
        lower = np.maximum(lower, middle - reach[0] - rest)
        upper = np.minimum(upper, middle + reach[1] + rest)
        return np.where(needed, lower, 0.0), np.where(needed, upper, np.inf), middle

    def _per_death(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Return how much q or 1/m changes with the error of a death, (areas, K)."""
        found = np.empty(y.shape)
        below, over = y[:, :-1], z[:, :-1]
        found[:, :-1] = self.width / (
            (over + self.beyond * below) * (1.0 + self.beyond * below / over)
        )
        found[:, -1] = z[:, -1] / np.square(y[:, -1])
        return found

    def _left(
        self,
        middle: FloatArray,
        lives: FloatArray,
        dies: FloatArray,
        published: tuple[FloatArray, FloatArray],
        deaths: tuple[FloatArray, FloatArray],
        a: FloatArray,
        b: FloatArray,
    ) -> FloatArray:
        """Bound how far weights at the published counts are from those at the others, as a part."""
        y, z = published
        count = z[:, :-1] + self.beyond * y[:, :-1]
        part = (b[:, :-1] + self.beyond * a[:, :-1]) / count
        low, high = np.empty(y.shape), np.empty(y.shape)
        low[:, :-1], high[:, :-1] = 1.0 - part, 1.0 + part
        last = np.where(y[:, -1] > 0.0, y[:, -1], 1.0)
        low[:, -1], high[:, -1] = deaths[0][:, -1] / last, deaths[1][:, -1] / last
        p, most, least = (1.0 - one[:, 0, :-1] for one in (middle, lives, dies))
        found = np.empty((len(y), 4, y.shape[1], y.shape[1]))
        ends = []
        for other in (least, most):
            logs = np.zeros(y.shape)
            logs[:, 1:] = np.cumsum(np.log(p) - np.log(other), axis=1)
            ends.append(logs)
        from_birth: list[Any] = [np.exp(logs)[:, np.newaxis] for logs in ends]
        between: list[Any] = [np.exp(logs[:, np.newaxis] - logs[:, :, np.newaxis]) for logs in ends]
        for at, (above, below) in enumerate(((1.0, 1.0), from_birth, from_birth, between)):
            found[:, at] = np.maximum(
                above * high[:, np.newaxis] - 1.0, 1.0 - below * low[:, np.newaxis]
            )
        return np.maximum(found, 0.0)

    def _blocks(self) -> list[slice]:
        return [slice(at, at + _AREAS) for at in range(0, len(self.cells), _AREAS)]

    def _noises(self, area: slice) -> tuple[Any, Any, Any]:
        """Weights of the errors of deaths and of persons on the noises."""
        joint, at = self.deaths.beside(self.persons), self.cells[area].ravel()
        return joint._rows(at), joint._rows(len(self.deaths) + at), joint.noises


def _rows(weights: FloatArray, times: FloatArray | None = None) -> sparse.csr_array:
    """Return weights of areas on the ages of each, as rows (areas·4·K, areas·K)."""
    areas, columns, size, ages = weights.shape
    data = weights * (1.0 if times is None else times[:, np.newaxis, np.newaxis])
    column = np.arange(areas * ages).reshape(areas, 1, 1, ages)
    places = np.array(np.broadcast_to(column, data.shape)).ravel()
    starts = ages * np.arange(areas * columns * size + 1)
    found = sparse.csr_array(
        (data.ravel(), places, starts), shape=(areas * columns * size, areas * ages)
    )
    found.eliminate_zeros()
    return found
