"""Combined estimates moved into bounds, no longer unbiased."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpinfer._validation import check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd

BIAS = "Clipped: no longer unbiased, and without a standard error that holds."
"""What every rendering of a clipped estimate says."""


class Unclipped(Protocol):
    """Unbiased estimates with intervals, such as a :class:`CombinedEstimate`."""

    @property
    def params(self) -> Any:
        """The estimates."""

    def conf_int(self, *args: Any, **kwargs: Any) -> Intervals:
        """Their intervals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClippedEstimate:
    """Combined estimates moved into known bounds; made by :meth:`CombinedEstimate.clip`.

    The estimates are not unbiased, so that sums of many of them may be far off, and the error of
    one depends on the confidential value: there is no ``bse``. The intervals are those of the
    unclipped estimates intersected with the bounds, which keeps their coverage.

    Parameters
    ----------
    unclipped : CombinedEstimate
        The unbiased estimates.
    lower, upper : float, optional
        The bounds, at least one of them, in units of the estimates.

    Raises
    ------
    InvalidParameterError
        If there is no bound, or ``lower`` exceeds ``upper``.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> fit = dpi.combine([-1.5, 4.0], mechanism=dpi.Laplace(scale=1.0))
    >>> fit.clip(lower=0).params
    array([0., 4.])
    """

    unclipped: Unclipped
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        bounds = [
            None if bound is None else check_scalar(bound, name)
            for name, bound in (("lower", self.lower), ("upper", self.upper))
        ]
        low, high = bounds
        if low is None and high is None:
            raise InvalidParameterError("lower or upper must be given, got neither")
        if low is not None and high is not None and low > high:
            raise InvalidParameterError(f"lower must be <= upper, got {low:g} and {high:g}")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def params(self) -> Any:
        """The estimates, clipped: a Series where they have labels."""
        return self.unclipped.params.clip(self.lower, self.upper)

    @property
    def is_unbiased(self) -> bool:
        """Whether the estimates are unbiased: no."""
        return False

    def conf_int(self, *args: Any, **kwargs: Any) -> Intervals:
        """Intersect the intervals of :meth:`CombinedEstimate.conf_int` with the bounds.

        Parameters
        ----------
        *args, **kwargs
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        Intervals
            One interval a target, never wider than the unclipped one and covering as often. It
            may turn out empty, and is then marked as such.
        """
        intervals = self.unclipped.conf_int(*args, **kwargs)
        clipped = intervals.restrict(lower=self.lower, upper=self.upper)
        return replace(clipped, estimate=self.params, notes=(*intervals.notes, BIAS))

    def summary_frame(self, alpha: float = 0.05, method: Any = "exact") -> pd.DataFrame:
        """Return clipped estimates and intervals, with the unbiased estimates beside them.

        Parameters
        ----------
        alpha, method
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``estimate``, ``ci_lower``, ``ci_upper``, ``empty`` where an interval is, and
            ``unbiased_estimate``.
        """
        frame = self.conf_int(alpha, method).summary_frame()
        frame["unbiased_estimate"] = np.asarray(self.unclipped.params)
        return frame

    def summary(self, alpha: float = 0.05, method: Any = "exact") -> str:
        """Return the intervals as a plain-text table, which says that it is not unbiased.

        Parameters
        ----------
        alpha, method
            As for :meth:`CombinedEstimate.conf_int`.

        Returns
        -------
        str
            The table.
        """
        return self.conf_int(alpha, method).summary()

    def __str__(self) -> str:
        return self.summary()
