"""Width of the private interval for the mean of a normal population."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpinfer._check import FloatArray, check_array, check_flag, check_integer_array
from dpinfer.intervals.normal_mean import (
    LARGEST,
    SMALLEST_STD,
    HalfWidth,
    HistogramMode,
    KnownStd,
    UnknownStd,
    checked_method,
    checked_plan,
    scale_bins,
)
from dpinfer.intervals.normal_mean import Plan as Steps
from dpinfer.intervals.widths._draws import mean, uniforms
from dpinfer.intervals.widths._plan import WidthBySetting
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import BUDGETS, Columns
from dpinfer.planning.search import LARGEST_SIZE

_RELEASES = 1 << 12
"""Number of releases that are simulated, where the standard deviation is not known."""

_LOWEST, _HIGHEST = 64, 5
"""How far from that of the standard deviation bins of differences have a probability at all."""


@final
@dataclass(frozen=True)
class NormalMeanWidth(WidthBySetting):
    """Expected width of the private interval for a normal mean; the n or ε for a wanted width.

    Parameters
    ----------
    known_std : bool, default True
        Whether the standard deviation of the population is known, so that it is given to
        :func:`dpinfer.normal_mean_confint`.
    mean_bounds, std_bounds : (float, float), optional
        Public bounds, as for :func:`dpinfer.normal_mean_confint`.
    delta : float, default 0
        Budget, in [0, 1).
    method : {"exact", "tail-bound"}, optional
        How the interval is made; by default exactly for a known standard deviation.
    split : array of float, optional
        Shares of the budget, as for :func:`dpinfer.normal_mean_confint`.

    See Also
    --------
    dpinfer.normal_mean_confint : the interval.
    ClippedMeanWidth : the plan for a mean of any law, clipped to known bounds.

    Notes
    -----
    The mechanism is part of the interval: the budget is the argument ``epsilon`` of :meth:`width`.

    Intervals are intersected with ``mean_bounds``. What is planned is the width where the noisy
    mean is in the middle of the bounds, and the widest. It is that of the bounds themselves,
    infinite without bounds, where n is too small for an interval; see
    :func:`dpinfer.normal_mean_confint`. Releases in which a stability-based histogram shows no bin
    are left out: they have the bounds as interval, and are rarer than alpha/4.

    With a known standard deviation the width is then the same for all samples. Otherwise it depends
    on the bound on the standard deviation that the first histogram finds, and on the noisy
    variance. What is planned is the average over 4096 simulated releases, always from the same
    draws; :meth:`width_frame` has the standard error. The histogram and the sample variance are
    drawn independently of each other, and the sample variance as that of the unclipped sample.

    The size that is solved for reaches the width, and the size that is smaller by one does not.

    Examples
    --------
    How many persons tell a mean weight in kg to ± 1 at ε = 1, if the standard deviation is 15, and
    which ε does it with 2000?

    >>> plan = NormalMeanWidth(mean_bounds=(0, 300))
    >>> plan.solve_width(width=2.0, std=15.0, alpha=0.05, epsilon=1.0)
    1212.0
    >>> round(plan.solve_width(width=2.0, std=15.0, alpha=0.05, nobs=2000), 4)
    0.492
    >>> plan.width(2000, 15.0, epsilon=[0.1, 1.0, 10.0]).round(2)
    array([300.  ,   1.48,   1.35])
    """

    known_std: bool = field(default=True, kw_only=True)
    mean_bounds: tuple[float, float] | None = field(default=None, kw_only=True)
    std_bounds: tuple[float, float] | None = field(default=None, kw_only=True)
    delta: float = field(default=0.0, kw_only=True)
    method: HalfWidth | None = field(default=None, kw_only=True)
    split: tuple[float, ...] | None = field(default=None, kw_only=True)

    # the noise is made by the interval itself
    mechanism = Exact()

    _size = "nobs"
    _own = ("nobs", "std", "epsilon")
    _given = ("std",)
    _logarithmic = frozenset({"alpha", "epsilon"})

    def __post_init__(self) -> None:
        check_flag(self.known_std, "known_std")
        self._set(method=checked_method(self.method, known=self.known_std))
        for name in ("mean_bounds", "std_bounds", "split"):
            if (value := getattr(self, name)) is not None:
                array = check_array(value, name, ndim=1, finite=False)
                self._set(**{name: tuple(array.tolist())})
        # the interval checks what the plan has in common with it
        self._steps(1000, LARGEST, 1.0, 0.05)

    def width(
        self,
        nobs: ArrayLike,
        std: ArrayLike,
        epsilon: ArrayLike,
        alpha: ArrayLike = 0.05,
    ) -> Any:
        """Return the expected width where the noisy mean is in the middle of the bounds.

        Parameters
        ----------
        nobs : int or array of int
            Size n of the sample, at least 2, or 4 where ``std`` is not known.
        std : float or array of float
            Standard deviation of the population, > 0 and within ``std_bounds``.
        epsilon : float or array of float
            Budget of the interval, in [1e-10, 1e10].
        alpha : float or array of float, default 0.05
            One minus the confidence level, in (0, 1).

        Returns
        -------
        float or array of float
            Upper end less lower end on the average, in the shape to which the arguments broadcast.

        %(raises)s
        """
        return self._evaluate(nobs=nobs, std=std, epsilon=epsilon, alpha=alpha)

    def solve_width(
        self,
        *,
        std: float,
        nobs: float | None = None,
        epsilon: float | None = None,
        alpha: float | None = None,
        width: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``epsilon`` or ``alpha``, or an ``nobs``, that makes the
            interval as narrow; see the notes.

        %(raises_unsolved)s
        """
        return self._solve(nobs=nobs, std=std, epsilon=epsilon, alpha=alpha, width=width)

    @property
    def _least(self) -> float:
        """Smallest sample size."""
        return 2.0 if self.known_std else 4.0

    def _check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_integer_array(value, name, ge=self._least, le=LARGEST_SIZE)
        if name == "epsilon":
            return check_array(value, name, ge=1e-10, le=1e10)
        low, high = self.std_bounds or (SMALLEST_STD, LARGEST)
        return check_array(value, name, ge=low, le=high)

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        return BUDGETS if name == "epsilon" else super()._range(name, columns)

    def _steps(self, nobs: int, std: float, epsilon: float, alpha: float) -> Steps:
        """Return the steps of the interval."""
        return checked_plan(
            nobs,
            epsilon,
            self.delta,
            std if self.known_std else None,
            self.mean_bounds,
            self.std_bounds,
            alpha,
            self.split,
        )

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        nobs, std, epsilon = own
        steps = self._steps(int(nobs), std, epsilon, alpha)
        bounds = steps.mean_bounds[1] - steps.mean_bounds[0]
        if steps.failure > steps.affordable(alpha):
            return bounds, 0.0
        if isinstance(steps, KnownStd):
            assert self.method is not None
            _, half = steps.half_widths(alpha, self.method)
            return min(2.0 * half * std, bounds), 0.0
        assert isinstance(steps, UnknownStd)
        # as failures are rare, some releases show a bin
        found, releases = np.unique(_bounds_found(steps, std), return_counts=True)
        each = [mean(np.minimum(_widths(steps, float(b), std, alpha), bounds)) for b in found]
        widths, errors = np.array(each).T
        share = releases / releases.sum()
        expected = share @ widths
        variance = share @ np.square(widths - expected) / releases.sum()
        return float(expected), float(np.sqrt(variance) + share @ errors)

    def _find(self, name: str, known: Columns, target: float) -> float:
        if name != self._size:
            return super()._find(name, known, target)
        search = self._search(name, known, target)
        # sampling alone needs so many
        z = -float(special.ndtri(0.5 * known["alpha"]))
        root = min(2.0 * z * float(known["std"]) / target, np.sqrt(LARGEST_SIZE))
        return search.near(root**2, self._least, LARGEST_SIZE, integer=True)


def _widths(steps: UnknownStd, largest: float, std: float, alpha: float) -> FloatArray:
    """Return widths that are equally probable, for a bound on the standard deviation."""
    variance = std**2 * _relative_variances(steps.nobs)
    _, noise = steps.noises(largest, alpha)
    noisy = variance + np.asarray(noise.isf(uniforms(_RELEASES, 2)[:, 1]))
    sampling, rest = steps.half_widths(largest, noisy, alpha)
    return 2.0 * (sampling + rest)


@lru_cache(maxsize=8)
def _relative_variances(nobs: int) -> FloatArray:
    """Return draws of the sample variance over that of the population."""
    from scipy import stats

    drawn = np.asarray(stats.chi2.ppf(uniforms(_RELEASES, 2)[:, 0], nobs - 1)) / (nobs - 1.0)
    drawn.setflags(write=False)
    return drawn


def _bounds_found(steps: UnknownStd, std: float) -> FloatArray:
    """Return the bounds on the standard deviation that releases find, without those of no bin."""
    centre = np.floor(np.log2(std))
    first, last = centre - _LOWEST, centre + _HIGHEST
    if steps.scale.delta == 0:
        first, last = scale_bins(steps.std_bounds)
    bins = np.arange(first, last + 1.0)
    found = _modes(steps.scale, steps.nobs // 2, std, float(first), float(last))
    return steps.largest_stds(bins[found])


@lru_cache(maxsize=8)
def _modes(
    histogram: HistogramMode, pairs: int, std: float, first: float, last: float
) -> NDArray[np.intp]:
    """Draw which of the bins (2^j, 2^(j+1)] of differences are shown with the largest count."""
    rng = np.random.default_rng(0)
    # the difference of a pair has the standard deviation √2·std
    below = special.erf(2.0 ** np.arange(first, last + 2.0) / (2.0 * std))
    probability = np.append(np.diff(below), 0.0)
    probability[-1] = max(1.0 - probability.sum(), 0.0)
    counts = rng.multinomial(pairs, probability, size=_RELEASES)[:, :-1]
    noisy = counts + histogram.noise.rvs(counts.shape, rng=rng)
    if histogram.delta > 0:
        noisy = np.where((counts > 0) & (noisy >= histogram.threshold), noisy, -np.inf)
    best = noisy.argmax(axis=1)
    return np.asarray(best[np.isfinite(noisy.max(axis=1))])
