"""No noise: the law of a value that was published as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.mechanisms._law import IntegerLaw


@dataclass(frozen=True, kw_only=True, eq=False)
class Exact(IntegerLaw):
    """Noise that is always zero: the law of a published invariant.

    A release marks with it the values that carry no noise. In a combined estimate they are
    constraints that hold exactly. It protects nothing, so it has no privacy guarantee.

    Examples
    --------
    >>> Exact().variance
    np.float64(0.0)
    """

    def _variance(self) -> FloatArray:
        return np.zeros(())

    def _logpmf(self, k: FloatArray) -> FloatArray:
        return np.where(k == 0, 0.0, -np.inf)

    def _tail(self, k: FloatArray) -> FloatArray:
        return np.where(k < 0, 1.0, 0.0)

    def _logtail(self, k: FloatArray) -> FloatArray:
        return np.where(k < 0, 0.0, -np.inf)

    def _isf_start(self, q: FloatArray) -> FloatArray:
        return np.zeros_like(q)

    def _cf(self, t: FloatArray) -> FloatArray:
        return np.ones_like(t)

    @property
    def _abscissa(self) -> FloatArray:
        return np.full((), np.inf)

    def _cgf(self, s: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.zeros_like(s)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return np.zeros(shape, dtype=np.int64)
