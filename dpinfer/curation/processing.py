"""What rounding and clamping do to a noisy value: its bias, variance and mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    FloatArray,
    Numbers,
    check_array,
    check_broadcast,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.law import NoiseLaw, ParametricLaw
from dpinfer.mechanisms.laws import Exact
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.results.presentation import Listed
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 48.0
"""Times the scale: e^-48 of a tail is left."""

_PANEL = 1.0
"""Width of a panel of the quadrature, in standard deviations."""

_MOST = 1 << 22
_BLOCK = 1 << 18


@dataclass(frozen=True)
class ProcessingError(Listed):
    """Error of a noisy value that was rounded or clamped; made by :func:`processing_error`.

    All arrays have the shape to which the truths broadcast with the parameters of the noise, and
    are numbers where both are.

    Attributes
    ----------
    truth : float or array of float
        The confidential values f.
    bias : float or array of float
        E[y] - f, in units of the query.
    variance : float or array of float
        Var[y], in squared units of the query.
    mae : float or array of float
        E abs(y - f), the mean absolute error, in units of the query.
    noise : float or array of float
        The variance of the noise alone, for comparison.
    """

    truth: Numbers
    bias: Numbers
    variance: Numbers
    mae: Numbers
    noise: Numbers

    @property
    def mse(self) -> Numbers:
        """E[(y - f)²] = variance + bias², in squared units of the query."""
        return self.variance + np.square(self.bias)

    def summary_frame(self) -> pd.DataFrame:
        """One row a truth: ``truth``, ``bias``, ``variance``, ``mse``, ``mae``, ``noise``."""
        import pandas as pd

        names = ("truth", "bias", "variance", "mse", "mae", "noise")
        return pd.DataFrame({name: np.ravel(getattr(self, name)) for name in names})

    def _rows(self) -> tuple[int, pd.Index | None]:
        return np.size(self.bias), None

    def _table(self) -> Table:
        frame = self.summary_frame()
        return Table("Error of processed values", [("Truths", len(frame))], frame)


def processing_error(
    truth: ArrayLike,
    *,
    mechanism: NoiseLaw,
    lower: float | None = None,
    upper: float | None = None,
    rounding: float | None = None,
) -> ProcessingError:
    """Bias, variance and mean squared error of a noisy value that was rounded, then clamped.

    Parameters
    ----------
    truth : float or array of float
        The confidential value f, or several: the error depends on it, so that a curve over those
        that may be is the answer, not the error at the noisy value.
    mechanism : NoiseLaw
        The law of the noise e: Laplace, Gaussian, geometric, discrete Gaussian, Tulap or rounded
        noise, whose parameters broadcast with ``truth``.
    lower, upper : float, optional
        The range to which values are clamped, in units of the query; 0 and nothing for counts.
    rounding : float, optional
        The u > 0 to multiples of which values are rounded first, halves to even multiples.

    Returns
    -------
    ProcessingError
        ``bias``, ``variance``, ``mse``, ``mae``, and the variance of the noise alone. Where nothing
        was done to the value, ``mae`` is E abs(e), which is b for Laplace noise.

    Raises
    ------
    InvalidParameterError
        If ``lower`` is not below ``upper``, the law is another one, or the noise is wider than
        4,194,304 steps of its lattice or of ``rounding``.

    Notes
    -----
    With y = min(max(round(f + e), lower), upper) and any r within the range, the mean of (y - r)₊
    is ∫ P(y > r + s) ds, and that of its square ∫ 2s·P(y > r + s) ds, and likewise below r: sums
    and integrals of positive terms, with r where most of y is, so that nothing cancels however
    far f is outside of the range. Integrals are by Gauss's rule on panels of a standard deviation
    (exact for Tulap noise, whose tail is linear between halves). For Laplace noise of scale b and
    ``lower=0`` they are in closed form: bias (b/2)·e^(-f/b), mean squared error
    2b² - b(b + f)·e^(-f/b) at f ≥ 0: clamping a count saves half of the variance at most, and
    nothing where f is large. Rounding alone adds u²/12 only where noise is wide and smooth.

    References
    ----------
    Ashmead, R., Leclerc, P. and Sexton, W. (2019). An introduction to differential privacy. Joint
    Statistical Meetings: Example 2.11 and question 14.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> found = processing_error([0, 3, 1000], mechanism=Laplace(scale=1.0), lower=0)
    >>> found.bias.round(7), found.variance.round(7)
    (array([0.5      , 0.0248935, 0.       ]), array([0.75    , 1.800232, 2.      ]))
    >>> float(round(processing_error(0, mechanism=Laplace(scale=1.0), rounding=1).variance, 7))
    2.0763509
    """
    values = check_array(truth, "truth")
    ends = _range(lower, upper)
    step = None if rounding is None else check_scalar(rounding, "rounding", gt=0)
    if step is not None and step < 1e-300 * np.abs(values).max(initial=1.0):
        raise InvalidParameterError(
            f"rounding must be at least 1e-300 of the largest truth, got {step}: leave it out "
            "where nothing was rounded"
        )
    if not isinstance(mechanism, ParametricLaw):
        raise InvalidParameterError(
            "mechanism must be Laplace, Gaussian, geometric, discrete Gaussian, Tulap or rounded "
            f"noise, got {show(mechanism)}"
        )
    shape = check_broadcast(truth=values.shape, mechanism=mechanism.shape)
    f = np.broadcast_to(values, shape)
    found = np.empty((3, *shape))
    for law, cells in _laws(mechanism, shape):
        found[:, cells] = _moments(law, f[cells], ends, step)
    noise = np.broadcast_to(np.asarray(mechanism.variance), shape)
    return ProcessingError(*(freeze(x)[()] for x in (f.copy(), *found, noise.copy())))


def _range(lower: float | None, upper: float | None) -> tuple[float, float]:
    low = -np.inf if lower is None else check_scalar(lower, "lower")
    high = np.inf if upper is None else check_scalar(upper, "upper")
    if low >= high:
        raise InvalidParameterError(f"lower must be below upper = {high}, got {low}")
    return low, high


def _laws(law: ParametricLaw, shape: tuple[int, ...]) -> list[tuple[ParametricLaw, Any]]:
    """Different laws, and the cells of each."""
    if not law.shape:
        return [(law, ...)]
    columns = [np.broadcast_to(x, law.shape).ravel() for x in law._parameters().values()]
    firsts, kinds = np.unique(
        np.column_stack(columns), axis=0, return_index=True, return_inverse=True
    )[1:]
    flat = law._take(np.unravel_index(firsts, law.shape))
    kinds = np.broadcast_to(kinds.reshape(law.shape), shape)
    return [(flat._take(j), kinds == j) for j in range(len(firsts))]


def _moments(
    law: ParametricLaw, f: FloatArray, ends: tuple[float, float], step: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the bias, the variance and the mean absolute error."""
    low, high = ends
    r = np.clip(f if step is None else step * np.rint(f / step), low, high)
    if isinstance(law, Exact):
        return r - f, np.zeros(f.shape), np.abs(r - f)
    side = _between if step is None and not law.is_integer else _levels

    def both(f: FloatArray, r: FloatArray) -> tuple[FloatArray, ...]:
        return (*side(law, f, r, high, step), *side(law, -f, -r, -low, step))

    above, above2, below, below2 = both(f, r)
    bias = np.asarray(r - f + (above - below))
    variance = above2 + below2 - np.square(above - below)
    inside = (f > low) & (f < high)
    mae = np.where(inside, above + below, np.abs(bias))
    if step is not None and inside.any():
        over, _, under, _ = both(f[inside], f[inside])
        mae[inside] = over + under
    elif inside.any():
        # what is cut off has the digits that the difference of two halves has not
        cut = [
            side(law, sign * f[inside], np.full(f[inside].shape, end), np.inf, step)[0]
            if np.isfinite(end)
            else 0.0
            for sign, end in ((-1.0, -low), (1.0, high))
        ]
        bias[inside] = cut[0] - cut[1]
    return bias, variance, mae


def _between(
    law: ParametricLaw, f: FloatArray, r: FloatArray, high: float, _: float | None
) -> tuple[FloatArray, FloatArray]:
    """E[(y - r)₊] and E[(y - r)₊²] of y = min(f + e, high), noise with a density."""
    width = 1.0 if isinstance(law, Tulap) else _PANEL * float(law.std)
    panels = int(np.ceil(_REACH * float(law.std) / width)) + 2
    _affordable(panels, law)
    first, second = np.zeros((2, f.size))
    start, flat = (r - f).ravel(), (high - f).ravel()
    rows = max(_BLOCK // (panels * _NODES.size), 1)
    for i in range(0, f.size, rows):
        c, last = start[i : i + rows, None], flat[i : i + rows, None]
        # the density of Tulap noise leaps at halves
        begin = np.floor(c + 0.5) - 0.5 if isinstance(law, Tulap) else c
        edges = np.clip(begin + width * np.arange(panels + 1.0), c, np.maximum(last, c))
        half = 0.5 * np.diff(edges)[..., None]
        s = 0.5 * (edges[:, 1:] + edges[:, :-1])[..., None] - c[..., None] + half * _NODES
        mass = law._sf(s + c[..., None]) * (half * _WEIGHTS)
        first[i : i + rows] = mass.sum(axis=(1, 2))
        second[i : i + rows] = 2.0 * (s * mass).sum(axis=(1, 2))
    return first.reshape(f.shape), second.reshape(f.shape)


def _levels(
    law: ParametricLaw, f: FloatArray, r: FloatArray, high: float, step: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return the same where values are multiples of a step, or whole numbers from f."""
    u = 1.0 if step is None else step
    number = int(np.ceil(_REACH * float(law.std) / u)) + 3
    _affordable(number, law)
    # from r, so that no digits are lost where all are large
    start = np.floor(r / u) if step is not None else np.floor(r - f)
    offset = start * u - r if step is not None else start - (r - f)
    first, second = np.zeros((2, f.size))
    rows = max(_BLOCK // number, 1)
    for i in range(0, f.size, rows):
        part = slice(i, i + rows)
        truth, at, low, left = (x.ravel()[part, None] for x in (f, r, start, offset))
        k = np.arange(float(number))
        with np.errstate(over="ignore"):
            if step is None:
                mass = law._sf(low + k)
            else:
                edge = (low * u - truth) + u * (k + 0.5)
                mass = _rounded_above(law, edge, (low % 2.0 + k) % 2.0 == 1.0)
        ends = np.clip(left + u * np.stack([k, k + 1.0])[:, None], 0.0, np.maximum(high - at, 0.0))
        first[part] = (mass * (ends[1] - ends[0])).sum(axis=1)
        second[part] = (mass * (ends[1] - ends[0]) * (ends[1] + ends[0])).sum(axis=1)
    return first.reshape(f.shape), second.reshape(f.shape)


def _rounded_above(law: ParametricLaw, edge: FloatArray, up: NDArray[np.bool_]) -> FloatArray:
    """P(e > edge), or at the edge where it is rounded up."""
    if not law.is_integer:
        return law._sf(edge)
    return law._sf(np.where(up, np.ceil(edge) - 1.0, np.floor(edge)))


def _affordable(number: int, law: ParametricLaw) -> None:
    if number > _MOST:
        raise InvalidParameterError(
            f"mechanism must be at most {_MOST:,} steps wide, got {number:,} for {show(law)}: "
            "noise so wide has the moments of its limit with a density, or take a coarser rounding"
        )
