"""Plans of the tests of one proportion and of one rate of events."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    ALTERNATIVES,
    Alternative,
    FloatArray,
    check_array,
    check_integer_array,
    check_option,
    check_scalar,
)
from dpinfer._numerics.roots import find_root
from dpinfer._planning.engine import Columns, PowerRow, check_method, is_alternative
from dpinfer._planning.search import LARGEST_SIZE
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.published import SMALLEST_VALUE
from dpinfer.hypothesis_tests._one_count import LARGEST_RATE, OneCount, collapse
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson, work_at_a_point
from dpinfer.mechanisms.independent import integer_cells
from dpinfer.mechanisms.law import NoiseLaw

_EDGE = 1e-9
"""How near to 0 and 1 proportions are looked for."""

_NARROW = 0.4
"""Width of a bracket in which there is at most one atom on each side of the expectation."""

_PRECISION = 1e-13

_TAILS = 60.0
"""About how many tails the search for a critical value takes."""

_MOST_WORK, _WORK_FOR_EACH = float(1 << 27), float(1 << 19)
"""Work of all of them, some 15 s, and that which each of many rows may take, some 50 ms."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _OneCountPower(PowerRow):
    """Power of a test of one count, by the law of the noisy count at the truth."""

    value: float
    alternative: Alternative = "two-sided"
    method: Literal["exact", "asymptotic"] = "exact"

    dips = True

    def prepare(self) -> None:
        check_option(self.alternative, "alternative", ALTERNATIVES)
        check_method(self.method, ("exact", "asymptotic"))

    @abstractmethod
    def _laws(self, law: NoiseLaw, columns: Columns) -> tuple[OneCount, NoisyCount]:
        """Return the test, and the law of the published count at the truth."""

    def at(self, law: NoiseLaw, alpha: float, columns: Columns) -> tuple[Any, Any]:
        test, truth = self._laws(law, columns)
        distance = self._distance(test, alpha)
        power = np.zeros(next(iter(columns.values())).shape)
        if self.alternative != "smaller":
            point = np.broadcast_to(test.centre + distance, power.shape)
            power = power + truth.upper(point, test.slack(point))
        if self.alternative != "larger":
            point = np.broadcast_to(test.centre - distance, power.shape)
            power = power + truth.lower(point, test.slack(point))
        return np.minimum(power, 1.0), 0.0

    def has_effect(self, known: Columns) -> bool:
        return is_alternative(self.alternative, float(known[self.own[1]]) - self.value)

    def _distance(self, test: OneCount, alpha: float) -> FloatArray:
        if self.method == "exact":
            return critical_distance(test, alpha, self.alternative)
        z = test.limit().critical_value(alpha, self.alternative)
        return np.asarray((-z if self.alternative == "smaller" else z) * test.spread)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionPower(_OneCountPower):
    """Power of the test of one proportion, :func:`dpinfer.proportions_ztest`.

    - ``nobs``: number n of trials, whole, at least 1. It is known: simulate a noisy one.
    - ``proportion``: the true proportion p, in (0, 1); solved for above ``value``, below it for the
      alternative ``"smaller"``.
    - ``value``: the proportion under the null hypothesis, in (0, 1).
    - ``alternative``, ``method``: ``"exact"`` or ``"asymptotic"``, as for the test.

    The test rejects where its p-value is at most α, which is a set of published counts T beyond one
    or two critical values. The power is the probability of that set where T = X + e, X ~
    Binomial(n, p) and e is the noise: sums of the kind that the p-value itself is, exact for both
    methods. At p = ``value`` it is the size of the test.

    A number of trials is tried with its neighbours. With ``"exact"`` that takes a minute for
    numbers of some 100,000, and is refused for much larger ones: solve with ``"asymptotic"``.
    """

    size = "nobs"
    own = ("nobs", "proportion")

    def prepare(self) -> None:
        super().prepare()
        self.set(value=check_scalar(self.value, "value", ge=SMALLEST_VALUE, lt=1))

    def check(self, name: str, value: Any) -> FloatArray:
        if name == "nobs":
            return check_integer_array(value, name, ge=1, le=LARGEST_SIZE)
        return check_array(value, name, ge=SMALLEST_VALUE, lt=1)

    def _laws(self, law: NoiseLaw, columns: Columns) -> tuple[OneCount, NoisyCount]:
        nobs = collapse(columns["nobs"])
        test = OneCount.of_trials(nobs, np.asarray(self.value), law)
        value = collapse(columns["proportion"])
        return test, NoisyBinomial(nobs=nobs, value=value, noise=law)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name != "proportion":
            return super().range(name, known)
        return self.value, _EDGE if self.alternative == "smaller" else 1.0 - _EDGE


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PoissonPower(_OneCountPower):
    """Power of the test of one rate of events, :func:`dpinfer.poisson_ztest`.

    - ``exposure``: time, or whatever the rate is per, > 0; solved for as the smallest from which on
      the power is reached, as far as a grid of steps of 0.1 % shows.
    - ``rate``: the true rate, > 0; solved for above ``value``, below it for the alternative
      ``"smaller"``.
    - ``value``: the rate under the null hypothesis, > 0.
    - ``alternative``, ``method``: ``"exact"`` or ``"asymptotic"``, as for the test.

    As for a proportion, with a Poisson count of mean exposure·rate.
    """

    size = "exposure"
    whole = False
    own = ("exposure", "rate")
    logarithmic = PowerRow.logarithmic | {"rate"}

    def prepare(self) -> None:
        super().prepare()
        self.set(value=check_scalar(self.value, "value", gt=0, le=LARGEST_RATE))

    def check(self, name: str, value: Any) -> FloatArray:
        return check_array(value, name, gt=0, le=LARGEST_RATE)

    def _laws(self, law: NoiseLaw, columns: Columns) -> tuple[OneCount, NoisyCount]:
        exposure = collapse(columns["exposure"])
        test = OneCount.of_events(_expected(exposure, self.value, "exposure * value"), law)
        mean = _expected(columns["exposure"], columns["rate"], "exposure * rate")
        return test, NoisyPoisson(rate=mean, noise=law)

    def range(self, name: str, known: Columns) -> tuple[float, float]:
        if name != "rate":
            return super().range(name, known)
        if self.alternative == "smaller":
            return self.value, max(_EDGE * self.value, SMALLEST_VALUE)
        return self.value, 0.5 * LARGEST_RATE / max(float(known["exposure"]), 1.0)


def _expected(exposure: FloatArray, rate: Any, name: str) -> FloatArray:
    with np.errstate(over="ignore", under="ignore"):
        expected = np.asarray(exposure * rate)
    check_array(expected, name, ge=SMALLEST_VALUE, le=LARGEST_RATE, finite=False)
    return collapse(expected)


def critical_distance(test: OneCount, alpha: float, alternative: Alternative) -> FloatArray:
    """Return the smallest distances, in counts, at which the exact test rejects.

    For the alternative ``"smaller"`` distances are counted downwards. Where the noise is
    whole-numbered they are those of whole numbers.
    """
    centre = np.atleast_1d(test.centre)
    _check_work(test, centre)
    rows = np.arange(centre.size)
    spread = np.sqrt(np.square(np.atleast_1d(test.spread)) + test.law.noise.variance)
    is_lattice = bool(integer_cells(test.law.noise, 1)[0])

    def margin(distance: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        part = _rows(test, index)
        tail = _tail(part, np.broadcast_to(part.centre, distance.shape), distance, alternative)
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(tail), -1e6) - np.log(alpha))

    _, high = find_root(
        margin,
        np.zeros(rows.size) if alternative == "two-sided" else -spread,
        spread,
        rtol=0.0 if is_lattice else _PRECISION,
        atol=_NARROW if is_lattice else 0.0,
        expand=True,
    )
    if not is_lattice:
        return high.reshape(test.centre.shape)
    above = np.floor(centre + high) - centre
    below = centre - np.ceil(centre - high)
    sides = {"larger": [above], "smaller": [below], "two-sided": [above, below]}[alternative]
    atoms = [np.where(margin(side, rows) <= 0.0, side, np.inf) for side in sides]
    nearest = np.min(atoms, axis=0)
    return np.where(np.isfinite(nearest), nearest, high).reshape(test.centre.shape)


def _check_work(test: OneCount, centre: FloatArray) -> None:
    """Refuse to look for a critical value if its tails are sums of too many terms."""
    low, high = test.law._window(centre, "upper")
    work = _TAILS * float(np.sum(high - low + 1.0)) * work_at_a_point(test.law.noise)
    if work > max(_MOST_WORK, _WORK_FOR_EACH * centre.size):
        raise InvalidParameterError(
            f"{' and '.join(test.law.parameters)}, or the noise, must be smaller for the power of "
            f"the exact test, which would take some {1e-7 * work:.2g} s: use method='asymptotic'"
        )


def _tail(
    test: OneCount, centre: FloatArray, distance: FloatArray, alternative: Alternative
) -> FloatArray:
    if alternative == "larger":
        return test.larger(centre + distance)
    if alternative == "smaller":
        return test.smaller(centre - distance)
    return test.further(centre + distance)


def _rows(test: OneCount, index: NDArray[np.intp]) -> OneCount:
    if test.centre.ndim == 0:
        return test
    own: dict[str, Any] = {
        name: x[index] if x.ndim else x for name, x in test.law.parameters.items()
    }
    law = replace(test.law, **own)
    return replace(test, law=law, centre=test.centre[index], spread=test.spread[index])
