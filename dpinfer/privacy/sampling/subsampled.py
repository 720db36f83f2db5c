"""Many steps, each on its own Poisson sample: the privacy loss by the ``dp-accounting`` package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpinfer._validation import FloatArray, check_array, check_integer, check_scalar, require, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.privacy.guarantees import Amplification, AmplifiedDP, guarantee_of

MAX_COUNT = 10**7
MAX_POINTS = 10**7
SMALLEST_DELTA = 1e-10
"""Below it the rounding errors of a transform, about 1e-15 each, decide the answer."""


@dataclass(frozen=True)
class SubsampledLoss:
    """Privacy loss of many releases, each computed on a fresh Poisson sample of the population.

    Parameters
    ----------
    mechanism : Laplace, Geometric, Gaussian or DiscreteGaussian
        The noise of each step, with one scale.
    rate : float
        The sampling rate β of each step, within (0, 1].
    count : int, default 1
        The number of steps.
    sensitivity : float, default 1
        The sensitivity of the query on a sample when one record is added or removed.
    grid : float, default 1e-4
        The width of the grid onto which privacy losses are rounded; narrower is tighter and slower.

    Raises
    ------
    InvalidParameterError
        If an argument is out of range, or the mechanism has no such loss.
    MissingExtraError
        If ``dp-accounting`` is not installed: it comes with the extra ``accounting``.

    Notes
    -----
    The neighbours add or remove a record. Every step draws a sample of its own: for several
    releases from one sample use :func:`amplify`. Losses are rounded up for the upper bounds and
    down for the lower ones, so that the exact value lies between them but for rounding in
    transforms of about 1e-15 in δ; δ below 1e-10 is therefore refused.

    References
    ----------
    Koskela, A., Jälkö, J. and Honkela, A. (2020). Computing tight differential privacy guarantees
    using FFT. Proceedings of Machine Learning Research 108, 2560-2569. arXiv:1906.03049.

    Doroshenko, V., Ghazi, B., Kamath, P., Kumar, R. and Manurangsi, P. (2022). Connect the dots:
    tighter discrete approximations of privacy loss distributions. Proceedings on Privacy Enhancing
    Technologies 2022(4). arXiv:2207.04380.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> loss = SubsampledLoss(Laplace(scale=2.0), rate=0.01, count=1000)
    >>> loss.count, loss.grid
    (1000, 0.0001)
    >>> loss.to_approx_dp(1e-6).epsilon  # doctest: +SKIP
    0.6138850951658801
    """

    mechanism: Laplace | Geometric | Gaussian | DiscreteGaussian
    rate: float
    count: int = 1
    sensitivity: float = 1.0
    grid: float = 1e-4

    def __post_init__(self) -> None:
        kinds = tuple(_LAWS)
        if not isinstance(self.mechanism, kinds) or self.mechanism.shape:
            raise InvalidParameterError(
                f"mechanism must be {', '.join(kind.__name__ for kind in kinds)} noise with one "
                f"scale, got {show(self.mechanism)}"
            )
        checked = {
            "rate": check_scalar(self.rate, "rate", gt=0, le=1),
            "count": check_integer(self.count, "count", ge=1, le=MAX_COUNT),
            "sensitivity": check_scalar(self.sensitivity, "sensitivity", gt=0),
            "grid": check_scalar(self.grid, "grid", ge=1e-8, le=1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        # refuses, among others, integer noise on a query that is not whole
        guarantee_of(self.mechanism, self.sensitivity)
        self._check_grid()

    def delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Lower and upper bound of δ at ε.

        Parameters
        ----------
        epsilon : float or array of float
            The ε >= 0.

        Returns
        -------
        tuple of float or array of float
            Both bounds, each in the shape of ``epsilon``.

        Raises
        ------
        InvalidParameterError
            If ``epsilon`` is negative or not finite.
        """
        at = check_array(epsilon, "epsilon", ge=0)
        return _each(self._lower.get_delta_for_epsilon, at), _each(
            self._upper.get_delta_for_epsilon, at
        )

    def epsilon_bounds(self, delta: ArrayLike) -> tuple[Any, Any]:
        """Lower and upper bound of ε at δ.

        Parameters
        ----------
        delta : float or array of float
            The δ, within [1e-10, 1).

        Returns
        -------
        tuple of float or array of float
            Both bounds, each in the shape of ``delta``.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [1e-10, 1).
        """
        at = check_array(delta, "delta", ge=SMALLEST_DELTA, lt=1)
        return _each(self._lower.get_epsilon_for_delta, at), _each(
            self._upper.get_epsilon_for_delta, at
        )

    def to_approx_dp(self, delta: float, *, sample: str | None = None) -> AmplifiedDP:
        """(ε, δ)-differential privacy of the population, with the upper bound of ε.

        Parameters
        ----------
        delta : float
            The δ, within [1e-10, 1).
        sample : str, optional
            A name of the samples of all steps, as in :func:`amplify`. Guarantees compose only
            where each has a name of its own, which says that no sample served two of them.

        Returns
        -------
        AmplifiedDP
            The guarantee, which cannot be amplified again.

        Raises
        ------
        InvalidParameterError
            If ``delta`` is outside [1e-10, 1), no finite ε holds at it, or ``sample`` is no name.
        """
        chance = check_scalar(delta, "delta", ge=SMALLEST_DELTA, lt=1)
        source = Amplification(
            guarantee_of(self.mechanism, self.sensitivity),
            self.rate,
            "poisson",
            sample,
        )
        return AmplifiedDP(self.epsilon_bounds(chance)[1], chance, (source,))

    @cached_property
    def _lower(self) -> Any:
        return self._law(pessimistic=False)

    @cached_property
    def _upper(self) -> Any:
        return self._law(pessimistic=True)

    def _check_grid(self) -> None:
        """Refuse a grid with more points than memory and time allow."""
        ratio = self.sensitivity / float(np.max(self.mechanism.std))
        # the loss of one step: at most about √2 ratios for (geometric) Laplace noise, and within
        # ten deviations of its mean for Gaussian noise
        reach = max(2.0 * ratio, 10.0 * ratio + 0.5 * ratio * ratio)
        if reach > MAX_POINTS * self.grid:
            raise InvalidParameterError(
                f"grid must be >= {reach / MAX_POINTS:.2g} for losses up to about {reach:.2g}, got "
                f"{self.grid:g}"
            )

    def _law(self, *, pessimistic: bool) -> Any:
        package = require("dp_accounting.pld.privacy_loss_distribution", "accounting")
        build = _LAWS[type(self.mechanism)]
        # the grid may end where losses do: connecting the dots exists for upper bounds only
        law = build(
            package,
            self.mechanism,
            self.sensitivity,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
            value_discretization_interval=self.grid,
            sampling_prob=self.rate,
        )
        return law.self_compose(self.count) if self.count > 1 else law


def _each(function: Callable[[float], float], points: FloatArray) -> Any:
    values = np.array([function(float(point)) for point in points.ravel()])
    return float(values[0]) if points.ndim == 0 else values.reshape(points.shape)


def _laplace(package: ModuleType, law: Any, sensitivity: float, **options: Any) -> Any:
    return package.from_laplace_mechanism(float(law.scale), sensitivity, **options)


def _geometric(package: ModuleType, law: Any, sensitivity: float, **options: Any) -> Any:
    rate = 1.0 / float(law.scale)
    return package.from_discrete_laplace_mechanism(rate, round(sensitivity), **options)


def _gaussian(package: ModuleType, law: Any, sensitivity: float, **options: Any) -> Any:
    return package.from_gaussian_mechanism(float(law.sigma), sensitivity, **options)


def _discrete(package: ModuleType, law: Any, sensitivity: float, **options: Any) -> Any:
    return package.from_discrete_gaussian_mechanism(float(law.sigma), round(sensitivity), **options)


_LAWS: dict[type, Callable[..., Any]] = {
    Laplace: _laplace,
    Geometric: _geometric,
    Gaussian: _gaussian,
    DiscreteGaussian: _discrete,
}
