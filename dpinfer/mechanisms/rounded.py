"""Noise that was rounded to whole numbers after it had been added."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import ComplexArray, FloatArray, show
from dpinfer.errors import InvalidParameterError, RoundedValuesWarning
from dpinfer.mechanisms.independent import IndependentNoise, groups
from dpinfer.mechanisms.law import INTEGER_RANGE, ContinuousLaw, IntegerLaw, NoiseLaw
from dpinfer.mechanisms.laws import Gaussian, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap, log_sinhc, rounded_variance, truncated_log_mgf

NARROW_SIGMA = 0.5
"""Below it sums over atoms converge fastest, from there on sums over images: three are exact."""

LARGEST_FRACTION = 2.0**52
"""From here on all floats are whole."""

_BLOCK = 1 << 13
"""Values looked at at a time."""

_PACKAGE = "dpinfer."

_SUPPOSING = ("dpinfer._planning.", "dpinfer.calibration.")
"""Modules that put supposed values in the place of published ones."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_OFFSETS = range(-6, 7)


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(IntegerLaw):
    """Noise with a density, rounded to whole numbers: P(k) = F(k + 1/2) - F(k - 1/2), k whole.

    Parameters
    ----------
    law : Laplace, Gaussian or Tulap
        The law of the noise before it was rounded.

    Raises
    ------
    InvalidParameterError
        If ``law`` is another one, or its scale is above 1e15.

    Notes
    -----
    It is the law of the error where the noisy value was rounded to the nearest whole number *and
    the confidential value is a whole number*, as a count is: round(f + e) - f = round(e). Halves
    have no probability, so that it does not matter which way they are rounded. Of a confidential
    value that is a fraction, the error depends on the fraction; there take the law of the noise
    itself and widen its intervals by 1/2 on either side, which holds for every value.

    Where values were rounded to multiples of another unit u, of which all confidential values are
    multiples, too, the noise is u times rounded noise: ``WeightedSum([u], Rounded(Laplace(scale=b /
    u)))``. For other confidential values widen the intervals of the law of the noise by u/2.

    Rounding is post-processing: the guarantee is that of ``law``. For Laplace noise of scale b,
    P(k) = sinh(1/(2b))·exp(-abs(k)/b) for k ≠ 0 and P(0) = 1 - exp(-1/(2b)), which is not the
    geometric law; its variance is cosh(1/(2b))/(2sinh²(1/(2b))). Rounded Tulap noise without
    truncation *is* the geometric law. Probabilities are computed without cancellation, to about 13
    digits.

    Examples
    --------
    >>> from dpinfer.mechanisms import Laplace
    >>> noise = Rounded(Laplace.from_epsilon(3))
    >>> noise.pmf([0, 1, 2]).round(6), noise.variance.round(6)
    (array([0.77687 , 0.106011, 0.005278]), np.float64(0.259428))
    >>> noise.isf(0.05)
    np.float64(1.0)
    """

    law: ContinuousLaw

    def __post_init__(self) -> None:
        if type(self.law) not in _CELLS:
            raise InvalidParameterError(
                "law must be Laplace, Gaussian or Tulap noise to be rounded, got "
                f"{show(self.law)}: whole-numbered noise does not need it"
            )
        scale = next(iter(self.law._parameters()))
        if np.max(getattr(self.law, scale), initial=0.0) > INTEGER_RANGE["le"]:
            raise InvalidParameterError(
                f"{scale} of rounded noise must be <= {INTEGER_RANGE['le']:g}, got {show(self.law)}"
            )

    def __repr__(self) -> str:
        return f"Rounded({self.law!r})"

    @property
    def _kind(self) -> Any:
        return type(self), type(self.law)

    def _parameters(self) -> dict[str, Any]:
        return self.law._parameters()

    def _with(self, parameters: dict[str, Any]) -> Self:
        law = object.__new__(type(self))
        object.__setattr__(law, "law", self.law._with(parameters))
        return law

    @property
    def _cells(self) -> _Cells:
        return _CELLS[type(self.law)]

    def _variance(self) -> FloatArray:
        return self._cells.variance(self.law)

    def _logpmf(self, k: FloatArray) -> FloatArray:
        return self._cells.logpmf(self.law, np.abs(k))

    def _tail(self, k: FloatArray) -> FloatArray:
        return self.law._sf(k + 0.5)

    def _logtail(self, k: FloatArray) -> FloatArray:
        return self.law._logsf(k + 0.5)

    def _isf_start(self, q: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(np.ceil(self.law._isf(q) - 0.5), 0.0))

    def _cf(self, t: FloatArray) -> FloatArray:
        return self._cells.cf(self.law, t)

    @property
    def _abscissa(self) -> FloatArray:
        return self.law._abscissa

    def _cgf(self, s: ComplexArray) -> ComplexArray:
        return self._cells.cgf(self.law, s)

    def _rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(np.rint(self.law._rvs(shape, rng)), dtype=np.int64)


def warn_of_rounding(values: FloatArray, noise: NoiseLaw, name: str) -> None:
    """Warn where noise with a density is said to have left whole numbers only.

    The noise is of shape ``()``, or has an entry for each value along their last axis.
    """
    mixed = isinstance(noise, IndependentNoise)
    for law, cells in groups(noise, values.size) if mixed else ((noise, np.empty(0, np.intp)),):
        if not isinstance(law, ContinuousLaw):
            continue
        part = values.reshape(-1, *noise.shape)[:, cells] if mixed else values
        whole = part.size and _are_whole(part)
        if whole and not _are_supposed():
            shown = show(law._take((0,) * len(law.shape)))
            warnings.warn(
                f"{name} must not be whole numbers only under noise with a density, which does "
                f"not leave any: intervals and tests that take {shown} as it is are wrong. Give "
                f"mechanism=Rounded({shown}) if the noisy values were rounded, or a discrete law "
                "if the noise was whole",
                RoundedValuesWarning,
                stacklevel=_outside(),
            )
            return


def _are_whole(values: FloatArray) -> bool:
    """Whether all values are whole numbers where floats need not be; most often the first tells."""
    blocks = np.nditer(
        values,
        flags=("external_loop", "buffered"),  # values may be narrow: no copy of them as a whole
        op_dtypes="f8",
        casting="unsafe",
        buffersize=_BLOCK,
    )
    return all(
        ((part == np.floor(part)) & (np.abs(part) < LARGEST_FRACTION)).all() for part in blocks
    )


def _are_supposed() -> bool:
    """Whether the values are those of a plan or a study, which nobody published."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_SUPPOSING):
            return True
        frame = frame.f_back
    return False


def _outside() -> int:
    """Return the level of the first caller outside of the package, as seen from the one here."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


class _Cells(NamedTuple):
    """What there is to know of the masses of a law on the unit intervals around whole numbers."""

    logpmf: Callable[[Any, FloatArray], FloatArray]
    variance: Callable[[Any], FloatArray]
    cf: Callable[[Any, FloatArray], FloatArray]
    cgf: Callable[[Any, ComplexArray], ComplexArray]


def _laplace_logpmf(law: Laplace, k: FloatArray) -> FloatArray:
    half = 0.5 / np.asarray(law.scale)
    beyond = (1.0 - 2.0 * k) * half + np.log(-np.expm1(-2.0 * half)) - np.log(2.0)
    return np.where(k == 0, np.log(-np.expm1(-half)), beyond)


def _laplace_variance(law: Laplace) -> FloatArray:
    half = 0.5 / np.asarray(law.scale)
    return np.asarray(
        np.exp(-half) * (1.0 + np.exp(-2.0 * half)) / np.square(np.expm1(-2.0 * half))
    )


def _laplace_ratio(law: Laplace) -> tuple[FloatArray, FloatArray]:
    """1/(2cosh²(x/2)) and 1/sinh²(x) at x = 1/(2b)."""
    fall = np.exp(-0.5 / np.asarray(law.scale))
    double = np.expm1(-1.0 / np.asarray(law.scale))
    return np.asarray(2.0 * fall / np.square(1.0 + fall)), np.square(2.0 * fall / double)


def _laplace_cf(law: Laplace, t: FloatArray) -> FloatArray:
    # cosh(x) times the characteristic function of the geometric law, less cosh(x) - 1
    wave = np.square(np.sin(0.5 * t))
    drop, rise = _laplace_ratio(law)
    return np.asarray((1.0 - drop * wave) / (1.0 + rise * wave))


def _laplace_cgf(law: Laplace, s: ComplexArray) -> ComplexArray:
    # the same at t = -is, its denominator a product of two factors: accurate near the abscissa
    s = np.where(s.real < 0, -s, s)
    half = 0.5 / np.asarray(law.scale)
    ratio = np.exp(0.5 * s - half) * special.expm1(-s) / np.expm1(-2.0 * half)
    drop, _ = _laplace_ratio(law)
    # drop·sinh²(s/2), of which the growing factor comes last
    lift = 0.25 * drop * np.square(special.expm1(-s)) * np.exp(s)
    return np.asarray(special.log1p(lift) - special.log1p(-ratio) - special.log1p(ratio))


def _gaussian_logpmf(law: Gaussian, k: FloatArray) -> FloatArray:
    sigma = np.asarray(law.sigma)
    upper = law._logsf(k - 0.5)
    fall = law._logsf(k + 0.5) - upper
    apart = upper + np.log(-np.expm1(np.minimum(fall, -1e-300)))
    # where the tails at both ends are alike, by quadrature relative to the density in the middle
    near = np.asarray(fall > -1.0)
    slope = np.where(near, k, 0.0) / np.square(sigma)
    wide = np.where(near, sigma, 1.0)
    total = sum(
        weight * np.exp(-0.5 * node * slope - 0.125 * np.square(node / wide))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True)
    )
    alike = law._logpdf(k) + np.log(0.5 * np.asarray(total))
    centre = np.log(special.erf(np.sqrt(0.125) / sigma))
    return np.where(k == 0, centre, np.where(near, alike, apart))


def _gaussian_variance(law: Gaussian) -> FloatArray:
    sigma = np.asarray(law.sigma)
    narrow, wide = np.minimum(sigma, NARROW_SIGMA), np.maximum(sigma, NARROW_SIGMA)
    # E[k²] = 2·Σ (2k + 1)·P(e > k + 1/2), or Poisson's summation formula
    tails = sum((2.0 * k + 1.0) * special.ndtr(-(k + 0.5) / narrow) for k in range(20))
    images = sum(
        (-1.0) ** j * _image(wide, j) * (4.0 * np.square(wide) + 1.0 / (np.pi * j) ** 2)
        for j in range(1, 4)
    )
    return np.where(
        sigma < NARROW_SIGMA, 2.0 * np.asarray(tails), np.square(wide) + 1.0 / 12.0 + images
    )


def _image(sigma: FloatArray, j: int) -> FloatArray:
    return np.exp(-2.0 * np.square(np.pi * j * sigma))


def _gaussian_cf(law: Gaussian, t: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(_gaussian_cgf(law, np.asarray(1j * t))).real)


def _gaussian_cgf(law: Gaussian, s: ComplexArray) -> ComplexArray:
    """Log Σ P(k)·exp(ks): the normal density smoothed over unit intervals, by Poisson summation.

    With s_j = s + 2πij, the images are exp(σ²s_j²/2)·sinh(s_j/2)/(s_j/2), all relative to j = 0.
    """
    sigma = np.asarray(law.sigma)
    s = s.real + 1j * (s.imag - 2.0 * np.pi * np.rint(s.imag / (2.0 * np.pi)))
    wide = np.maximum(sigma, NARROW_SIGMA)
    images = np.ones(np.broadcast_shapes(s.shape, sigma.shape), dtype=np.complex128)
    for j in (1, -1, 2, -2, 3, -3):
        turn = 2j * np.pi * j
        wave = np.exp(np.square(wide) * (turn * s - 2.0 * np.square(np.pi * j)))
        images = images + (-1.0) ** j * wave * s / (s + turn)
    dual = 0.5 * np.square(wide * s) + log_sinhc(0.5 * s) + np.log(images)
    narrow = sigma < NARROW_SIGMA
    if not narrow.any():
        return np.asarray(dual)
    # the largest term is next to the mode σ² Re s of the tilted density
    small = Gaussian(sigma=np.minimum(sigma, NARROW_SIGMA))
    mode = np.rint(np.square(small.sigma) * s.real)
    terms = [_gaussian_logpmf(small, np.abs(mode + d)) + (mode + d) * s for d in _OFFSETS]
    peak = terms[len(terms) // 2].real
    with np.errstate(under="ignore"):
        direct = peak + np.log(sum(np.exp(term - peak) for term in terms))
    return np.where(narrow, direct, dual)


def _tulap_logpmf(law: Tulap, k: FloatArray) -> FloatArray:
    # the density is constant on the interval, but for the one in which the support ends
    bound = np.asarray(law._bound)
    inside = np.where(k == 0, np.minimum(2.0 * bound, 1.0), np.clip(bound - k + 0.5, 0.0, 1.0))
    with np.errstate(divide="ignore"):
        return law._logpdf(np.minimum(k, bound)) + np.log(inside)


def _tulap_variance(law: Tulap) -> FloatArray:
    truncated = np.isfinite(law._bound)
    bound = np.where(truncated, law._bound, 0.5)
    return np.where(
        truncated,
        rounded_variance(law._rate, bound),
        Geometric(scale=law.scale)._variance(),
    )


def _tulap_cf(law: Tulap, t: FloatArray) -> FloatArray:
    truncated = np.isfinite(law._bound)
    untruncated = Geometric(scale=law.scale)._cf(t)
    if not truncated.any():
        return untruncated
    with np.errstate(divide="ignore"):
        return np.where(truncated, np.exp(_tulap_cgf(law, np.asarray(1j * t))).real, untruncated)


def _tulap_cgf(law: Tulap, s: ComplexArray) -> ComplexArray:
    truncated = np.isfinite(law._bound)
    untruncated = Geometric(scale=law.scale)._cgf(np.where(truncated, 0.0, s))
    if not truncated.any():
        return np.asarray(untruncated)
    bound = np.where(truncated, law._bound, 0.5)
    zero = np.zeros((), dtype=np.complex128)
    scaled, mass = (truncated_log_mgf(x, law._rate, bound, whole=True) for x in (s, zero))
    return np.where(truncated, scaled - mass, untruncated)


_CELLS: dict[type[ContinuousLaw], _Cells] = {
    Laplace: _Cells(_laplace_logpmf, _laplace_variance, _laplace_cf, _laplace_cgf),
    Gaussian: _Cells(_gaussian_logpmf, _gaussian_variance, _gaussian_cf, _gaussian_cgf),
    Tulap: _Cells(_tulap_logpmf, _tulap_variance, _tulap_cf, _tulap_cgf),
}
