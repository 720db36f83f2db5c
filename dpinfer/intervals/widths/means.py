"""Width of the interval for the mean of a clipped variable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, final

from numpy.typing import ArrayLike

from dpinfer._check import FloatArray, check_array, check_integer_array, check_option, check_scalar
from dpinfer.intervals.clipped_mean import ClippedMethod, clipped_mean_confint
from dpinfer.intervals.widths._plan import WidthBySetting
from dpinfer.mechanisms import Exact
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.mechanisms import NoisePlan, check_plan
from dpinfer.planning.search import LARGEST_SIZE
from dpinfer.results.intervals import Uncertainty

_LARGEST = 1e25
"""Largest bound in size: sums of the most values that are planned for do not overflow."""


@final
@dataclass(frozen=True)
class ClippedMeanWidth(WidthBySetting):
    """Width of the interval for a clipped mean; the sample size or budget for a wanted width.

    Parameters
    ----------
    mechanism : NoiseLaw or callable
        The law of the noise, or a function that makes it from a privacy budget. With a function
        ``budget`` is one of the arguments.
    bounds : (float, float)
        The bounds a < b of the clipping.
    std : float, optional
        Standard deviation of the clipped variable, at most (b - a)/2, where it is known.
    method : {"exact", "normal", "tail-bound"}, optional
        How the interval is made; see :func:`dpinfer.clipped_mean_confint`, also for the default.
    uncertainty : {"noise+sampling", "noise"}
        What the interval covers.
    noise_in : {"mean", "sum"}
        Whether ``mechanism`` is the law of the noise in the mean, as for
        :func:`dpinfer.clipped_mean_confint`, or of that in the sum of the n values. Noise in the
        sum has one law whatever n is; in the mean it is n times smaller. To plan n, this is what
        is wanted: one value moves the sum by b - a at most, so that the function is, for example,
        ``lambda budget: Laplace.from_epsilon(budget, sensitivity=b - a)``.

    See Also
    --------
    dpinfer.clipped_mean_confint : the interval.

    Notes
    -----
    The half-width does not depend on the published mean, but intervals are intersected with the
    bounds. What is planned is the width where the published mean is the middle of the bounds. It
    is the largest one: 2t with t the half-width, or b - a where that is less.

    Examples
    --------
    How many values, clipped to [0, 100], tell their mean to ± 2 at ε = 1, and which ε does it
    with 600?

    >>> from dpinfer import Laplace
    >>> plan = ClippedMeanWidth(
    ...     lambda budget: Laplace.from_epsilon(budget, sensitivity=100),
    ...     bounds=(0, 100),
    ...     std=20.0,
    ...     noise_in="sum",
    ... )
    >>> plan.solve_width(width=4.0, alpha=0.05, budget=1.0)
    430.0
    >>> round(plan.solve_width(width=4.0, alpha=0.05, nobs=600), 4)
    0.3928
    >>> plan.width(600, budget=[0.1, 0.5, 1.0]).round(2)
    array([10.39,  3.71,  3.33])
    """

    mechanism: NoisePlan
    bounds: tuple[float, float]
    std: float | None = field(default=None, kw_only=True)
    method: ClippedMethod | None = field(default=None, kw_only=True)
    uncertainty: Uncertainty = field(default="noise+sampling", kw_only=True)
    noise_in: Literal["mean", "sum"] = field(default="mean", kw_only=True)

    _size = "nobs"
    _sawtooth = False
    _own = ("nobs",)

    def __post_init__(self) -> None:
        check_plan(self.mechanism)
        check_option(self.noise_in, "noise_in", ("mean", "sum"))
        bounds = check_array(self.bounds, "bounds", ndim=1, ge=-_LARGEST, le=_LARGEST)
        self._set(bounds=tuple(bounds.tolist()))
        if self.std is not None:
            self._set(std=check_scalar(self.std, "std"))
        # the interval checks what the plan has in common with it
        clipped_mean_confint(
            0.0,
            1,
            bounds=self.bounds,
            mechanism=Exact(),
            std=self.std,
            method=self.method,
            uncertainty=self.uncertainty,
        )

    def width(
        self, nobs: ArrayLike, alpha: ArrayLike = 0.05, budget: ArrayLike | None = None
    ) -> Any:
        """Return the width where the published mean is the middle of the bounds.

        Parameters
        ----------
        nobs : int or array of int
            Number n of the values.
        %(alpha_and_budget)s

        Returns
        -------
        float or array of float
            Upper end less lower end, in the shape to which the arguments broadcast.

        %(raises)s
        """
        return self._evaluate(nobs=nobs, alpha=alpha, budget=budget)

    def solve_width(
        self,
        *,
        nobs: float | None = None,
        alpha: float | None = None,
        width: float | None = None,
        budget: float | None = None,
    ) -> float:
        """Solve for the one argument that is None.

        Parameters
        ----------
        %(arguments)s

        Returns
        -------
        float
            ``width``; or the smallest ``nobs``, ``alpha`` or ``budget`` that makes the interval
            as narrow.

        %(raises_unsolved)s
        """
        return self._solve(nobs=nobs, alpha=alpha, width=width, budget=budget)

    def _check(self, name: str, value: Any) -> FloatArray:
        return check_integer_array(value, name, ge=1, le=LARGEST_SIZE)

    def _width_at(self, law: NoiseLaw, alpha: float, *own: float) -> tuple[float, float]:
        (nobs,) = own
        # the interval is in units of what the noise was added to
        unit = nobs if self.noise_in == "sum" else 1.0
        half = 0.5 * unit * (self.bounds[1] - self.bounds[0])
        intervals = clipped_mean_confint(
            0.0,
            nobs,
            bounds=(-half, half),
            mechanism=law,
            std=None if self.std is None else unit * self.std,
            alpha=alpha,
            method=self.method,
            uncertainty=self.uncertainty,
        )
        return float(intervals.width) / unit, 0.0
