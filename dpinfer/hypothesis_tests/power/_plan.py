"""What the plans of tests share: a power, and the argument that reaches a power."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from dpinfer._check import Alternative, FloatArray
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.power._docstrings import TEXTS
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.planning.plan import Columns, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd


class PowerPlan(Plan):
    """Power of a test, as a function of named arguments; see the plans themselves."""

    _quantity = "power"
    _rises = True
    _bounds = (0.0, 1.0)
    _error = "mc_error"
    _texts = TEXTS

    @abstractmethod
    def _reject(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        """Return probabilities of a rejection, shape (m,), and their Monte Carlo errors."""

    @abstractmethod
    def _effects(self, name: str, columns: Columns) -> tuple[float, float]:
        """Return values of an effect with the smallest and the largest power."""

    def _has_effect(self, columns: Columns) -> bool:
        """Whether with more observations there would be more power."""
        return True

    def power_frame(self, **arguments: Any) -> pd.DataFrame:
        """Return the power for all combinations of the arguments as a DataFrame.

        Parameters
        ----------
        **arguments
            The arguments of ``power``; each is one value or an array of shape (m,).

        Returns
        -------
        DataFrame
            One row a combination, with a column for each argument, and the columns ``power`` and
            ``mc_error``, the Monte Carlo standard error, which is 0 where nothing was simulated.
        """
        return self._frame(arguments)

    def _at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[FloatArray, Any]:
        return self._reject(law, alpha, columns)

    def _drawn(self, arguments: Mapping[str, Any]) -> pd.DataFrame:
        return self.power_frame(**arguments)

    def _range(self, name: str, columns: Columns) -> tuple[float, float]:
        if name in ("alpha", "budget"):
            return super()._range(name, columns)
        return self._effects(name, columns)

    def _find(self, name: str, known: Columns, target: float) -> float:
        if name == self._size:
            self._check_effect(known, target)
        return super()._find(name, known, target)

    def _check_effect(self, known: Columns, target: float) -> None:
        """Refuse a power that no number of observations reaches."""
        if target > known["alpha"] and not self._has_effect(known):
            raise InvalidParameterError(
                f"power must be at most alpha where there is no effect in the direction of the "
                f"alternative, got {target} for alpha = {known['alpha']:g}"
            )


def is_alternative(alternative: Alternative, effect: float) -> bool:
    """Whether an effect lies in the direction in which a test looks."""
    return (effect > 0.0 and alternative != "smaller") or (effect < 0.0 and alternative != "larger")
