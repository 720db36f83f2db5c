"""Priors of all cells of a table, in the form in which samplers ask for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray, show
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.posterior._model import NO_END, TableModel, Whole
from dpinfer.priors.counts import (
    FlatPrior,
    FunctionPrior,
    NegativeBinomialPrior,
    PoissonPrior,
    Prior,
    TablePrior,
)
from dpinfer.priors.tables import DirichletMultinomialPrior, HierarchicalPrior
from dpinfer.results.labels import split_labels

Places = NDArray[np.intp]

_POISSON_FROM = 1e20
"""A negative binomial law of this size or more is a Poisson law, to within rounding."""

_MOST_TABULATED = 1 << 22


class CellPrior(ABC):
    """The log prior of n cells; up to constants, unless hyper-parameters are drawn with them."""

    hyper: tuple[str, ...] = ()
    """Names of the hyper-parameters."""

    @property
    @abstractmethod
    def concave(self) -> bool:
        """Whether the log prior is concave but for ``residual``."""

    @abstractmethod
    def log_cells(
        self, x: NDArray[Any], cells: Places, hyper: FloatArray | None = None
    ) -> FloatArray:
        """Return the log prior of counts (c, k) of k cells; hyper-parameters (c, h) go by row."""

    def residual(self, x: FloatArray, cells: Places) -> FloatArray:
        """Return a part of the log prior that falls, what is left of it being concave."""
        return np.zeros(x.shape)

    def parameters(self) -> list[FloatArray]:
        """Return what the priors of cells differ in, (n,) each."""
        return []

    @abstractmethod
    def centre(self) -> FloatArray:
        """Return about what is expected of each cell, (n,) or ()."""

    def start(self, x: Whole, rng: np.random.Generator) -> FloatArray:
        """Return dispersed hyper-parameters (1, h) for a table (1, n)."""
        return np.empty((1, 0))

    def ends(self, size: int) -> tuple[Whole, Whole]:
        """Return the ends of the cells that have a probability."""
        return np.zeros(size, dtype=np.int64), np.full(size, NO_END)


@dataclass(frozen=True, eq=False)
class RisingCells(CellPrior):
    """log π(x) = x·slope + log Γ(x + size)/(Γ(size)·x!), or x·slope - log x! for infinite sizes."""

    slope: FloatArray  # (n,); -inf for cells that are 0
    size: FloatArray  # (n,)

    @property
    def concave(self) -> bool:
        return True

    def log_cells(
        self, x: NDArray[Any], cells: Places, hyper: FloatArray | None = None
    ) -> FloatArray:
        return log_rising(np.asarray(x, dtype=np.float64), self.slope[cells], self.size[cells])

    def parameters(self) -> list[FloatArray]:
        return [self.slope, self.size]

    def residual(self, x: FloatArray, cells: Places) -> FloatArray:
        size = self.size[cells]
        if (size >= 1).all():
            return np.zeros(x.shape)
        found = -special.betaln(np.where(size < 1, size, 1.0), x + 1.0) - np.log(x + size)
        return np.where(size < 1, found, 0.0)

    def centre(self) -> FloatArray:
        odds = np.exp(np.minimum(self.slope, 36.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = np.where(np.isinf(self.size), odds, self.size * odds / (1.0 - odds))
        return np.where(np.isfinite(mean), mean, 0.0)

    def ends(self, size: int) -> tuple[Whole, Whole]:
        lower, upper = super().ends(size)
        return lower, np.where(np.isneginf(self.slope), 0, upper)


def log_rising(x: FloatArray, slope: FloatArray, size: FloatArray) -> FloatArray:
    """Return x·slope + log Γ(x + size)/(Γ(size)·x!), which is -log B(size, x + 1)/(x + size)."""
    with np.errstate(invalid="ignore"):
        out = np.where(x == 0, 0.0, x * slope)
    poisson = np.isinf(size)
    if poisson.all():
        return np.asarray(out - special.gammaln(x + 1.0))
    held = np.where(poisson, 1.0, size)
    found = -special.betaln(held, x + 1.0) - np.log(x + held)
    if poisson.any():
        found = np.where(poisson, -special.gammaln(x + 1.0), found)
    return np.asarray(out + found)


def _slope_and_size(mean: FloatArray, dispersion: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log(φμ/(1 + φμ)) and 1/φ of negative binomial laws, log μ and inf of Poisson ones."""
    with np.errstate(divide="ignore", over="ignore"):
        size = 1.0 / dispersion
        size = np.where(size >= _POISSON_FROM, np.inf, size)
        odds = np.log(mean) + np.log(dispersion)
        slope = np.where(np.isinf(size), np.log(mean), -np.logaddexp(0.0, -odds))
    return np.where(mean == 0, -np.inf, slope), size


@dataclass(frozen=True, eq=False)
class TabledCells(CellPrior):
    """One table of logarithms for all cells."""

    first: int
    values: FloatArray  # from the first to the last that is finite

    @property
    def concave(self) -> bool:
        with np.errstate(invalid="ignore"):
            return bool((np.diff(self.values, 2) <= 1e-12).all())

    @property
    def has_holes(self) -> bool:
        """Whether counts between the ends are impossible."""
        return bool(np.isneginf(self.values).any())

    def log_cells(
        self, x: NDArray[Any], cells: Places, hyper: FloatArray | None = None
    ) -> FloatArray:
        place = np.asarray(x, dtype=np.int64) - self.first
        inside = (place >= 0) & (place < len(self.values))
        return np.where(inside, self.values[np.where(inside, place, 0)], -np.inf)

    def centre(self) -> FloatArray:
        return np.asarray(self.first + float(self.values.argmax()))

    def ends(self, size: int) -> tuple[Whole, Whole]:
        low, high = self.first, self.first + len(self.values) - 1
        return np.full(size, low, dtype=np.int64), np.full(size, high, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SharedCells(CellPrior):
    """Negative binomial cells about means m·wᵢ, with log m and log φ uniform between ends."""

    log_shape: FloatArray  # (n,): log wᵢ
    ends_of: tuple[tuple[float, float], ...]  # of log m, and of log φ where it is drawn
    dispersion: float  # where it is not
    open_: NDArray[np.bool_]  # (n,): cells that are not known to be zero

    @property
    def hyper(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("mean", "dispersion")[: len(self.ends_of)]

    @property
    def concave(self) -> bool:
        return False

    def log_cells(
        self, x: NDArray[Any], cells: Places, hyper: FloatArray | None = None
    ) -> FloatArray:
        assert hyper is not None
        mean, dispersion = self._laws(hyper, cells)
        slope, size = _slope_and_size(mean, dispersion)
        return log_rising(np.asarray(x, dtype=np.float64), slope, size)

    def parameters(self) -> list[FloatArray]:
        return [self.log_shape]

    def centre(self) -> FloatArray:
        return np.asarray(np.exp(0.5 * sum(self.ends_of[0]) + self.log_shape))

    def ends(self, size: int) -> tuple[Whole, Whole]:
        lower, upper = super().ends(size)
        return lower, np.where(np.isneginf(self.log_shape), 0, upper)

    def _laws(self, hyper: FloatArray, cells: Places) -> tuple[FloatArray, FloatArray]:
        mean = np.exp(np.log(hyper[:, :1]) + self.log_shape[cells])
        fixed = len(self.ends_of) == 1
        dispersion = np.array([[self.dispersion]]) if fixed else hyper[:, 1:]
        return mean, np.broadcast_to(dispersion, mean.shape)

    def draw(self, size: int, rng: np.random.Generator) -> Whole:
        """Draw hyper-parameters and tables (size, n), without regard to values."""
        cells = self._used
        hyper = np.exp(np.stack([rng.uniform(*ends, size) for ends in self.ends_of], axis=1))
        mean, dispersion = self._laws(hyper, cells)
        shape = 1.0 / np.maximum(dispersion, 1e-300)
        scattered = rng.gamma(np.minimum(shape, _POISSON_FROM)) / np.minimum(shape, _POISSON_FROM)
        found = np.zeros((size, len(self.log_shape)), dtype=np.int64)
        rate = np.where(shape >= _POISSON_FROM, mean, mean * scattered)
        found[:, cells] = rng.poisson(np.minimum(rate, 2.0**60))
        return found

    @property
    def _used(self) -> Places:
        return np.flatnonzero(self.open_ & np.isfinite(self.log_shape))

    def joint(self, x: Whole, hyper: FloatArray) -> FloatArray:
        """Return the log probabilities of tables (c, n) given hyper-parameters (c, h)."""
        cells = self._used
        mean, dispersion = self._laws(hyper, cells)
        slope, size = _slope_and_size(mean, dispersion)
        poisson = np.isinf(size)
        with np.errstate(over="ignore", invalid="ignore"):
            none = np.where(poisson, mean, size * np.log1p(dispersion * mean))
        found = log_rising(x[:, cells].astype(np.float64), slope, size) - none
        return np.asarray(found.sum(axis=1))

    def start(self, x: Whole, rng: np.random.Generator) -> FloatArray:
        low, high = self.ends_of[0]
        cells = self._used
        weight = np.exp(self.log_shape[cells]).sum()
        near = np.log(max(float(x[0, cells].sum()), 0.5) / weight) if cells.size else low
        drawn = [np.clip(near + rng.normal(), low, high)]
        drawn += [rng.uniform(*ends) for ends in self.ends_of[1:]]
        return np.asarray(np.exp(np.array([drawn])))

    def update(self, hyper: FloatArray, x: Whole, rngs: list[np.random.Generator]) -> FloatArray:
        """Draw hyper-parameters (c, h) given tables (c, n), each by its own generator.

        By slices of one parameter after the other, stepped out and shrunk (Neal 2003).
        """
        point = np.log(hyper)
        level = self.joint(x, np.exp(point))
        for number, ends in enumerate(self.ends_of):
            here = point[:, number].copy()
            bar = level - np.array([rng.exponential() for rng in rngs])
            low = here - np.array([rng.random() for rng in rngs])
            high = low + 1.0
            for side, step in ((low, -1.0), (high, 1.0)):
                out = np.ones(len(here), dtype=bool)
                while (out := out & (side > ends[0]) & (side < ends[1])).any():
                    tried = point.copy()
                    tried[:, number] = side
                    out &= self.joint(x, np.exp(tried)) > bar
                    side[out] += step
            low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
            rest = np.ones(len(here), dtype=bool)
            while rest.any():
                chance = np.array(
                    [rng.random() if on else 0.0 for rng, on in zip(rngs, rest, strict=True)]
                )
                point[rest, number] = (low + chance * (high - low))[rest]
                found = self.joint(x, np.exp(point))
                level = np.where(rest, found, level)
                rest &= found < bar
                below = point[:, number] < here
                low = np.where(rest & below, point[:, number], low)
                high = np.where(rest & ~below, point[:, number], high)
        return np.asarray(np.exp(point))


# From a prior to its form.


def cell_prior(prior: Any, model: TableModel) -> CellPrior | None:
    """Return the form of a prior for the cells of a model; None of one that is flat."""
    n = model.cells
    if isinstance(prior, FlatPrior):
        return None
    if isinstance(prior, PoissonPrior):
        mean = _setting(prior.rate, "rate", model)
        return RisingCells(*_slope_and_size(mean, np.zeros(n)))
    if isinstance(prior, NegativeBinomialPrior):
        mean = _setting(prior.mean, "mean", model)
        return RisingCells(*_slope_and_size(mean, _setting(prior.dispersion, "dispersion", model)))
    if isinstance(prior, DirichletMultinomialPrior):
        size = _setting(prior.concentration, "concentration", model)
        if not _has_total(model):
            raise NotEstimableError(
                "total must be given for DirichletMultinomialPrior, which says how the cells share "
                "one: the sum of all cells does not follow from the values without noise"
            )
        return RisingCells(np.zeros(n), size)
    if isinstance(prior, HierarchicalPrior):
        with np.errstate(divide="ignore"):
            log_shape = np.log(_setting(prior.shape, "shape", model))
        given = [prior.mean, prior.dispersion] if np.ndim(prior.dispersion) else [prior.mean]
        ends = tuple((float(np.log(low)), float(np.log(high))) for low, high in given)
        fixed = 0.0 if np.ndim(prior.dispersion) else float(prior.dispersion)
        return SharedCells(log_shape, ends, fixed, ~model.zeros)
    if isinstance(prior, TablePrior):
        with np.errstate(divide="ignore"):
            return _tabled(prior.first, np.log(np.asarray(prior.pmf)))
    if isinstance(prior, FunctionPrior):
        open_ = model.upper == NO_END
        if open_.any():
            raise NotEstimableError(
                f"prior must not be a function where cells have no upper end, as {open_.sum()} "
                "have here, since how it falls far out is not known: give it as TablePrior, or "
                "give the total of the cells"
            )
        last = int(model.upper.max(initial=0))
        if last >= _MOST_TABULATED:
            raise InvalidParameterError(
                f"prior must be of counts below {_MOST_TABULATED} where it is a function, got "
                f"cells up to {last}"
            )
        return _tabled(0, prior.values(np.arange(last + 1.0)))
    raise InvalidParameterError(
        f"prior must be None or a prior, such as priors.PoissonPrior(5.0), got {show(prior)}"
        if not isinstance(prior, Prior)
        else f"prior must be one of dpinfer.priors, got {show(prior)}"
    )


def _tabled(first: int, values: FloatArray) -> TabledCells:
    """Return a table without the impossible counts at its ends, and those below 0."""
    there = np.flatnonzero(np.isfinite(values) & (first + np.arange(values.size) >= 0))
    if not there.size:
        raise InvalidParameterError("prior must give some count >= 0 a probability, got none")
    return TabledCells(first + int(there[0]), values[there[0] : there[-1] + 1])


def _setting(value: Any, name: str, model: TableModel) -> FloatArray:
    """Return a parameter of a prior as one for each cell."""
    array, labels = split_labels(value, name)
    if labels is not None and model.labels is not None and not labels.equals(model.labels):
        raise InvalidParameterError(
            f"{name} of the prior must have the labels of the cells in the same order: reindex it "
            "first"
        )
    if array.ndim > 1 or array.size not in (1, model.cells):
        raise InvalidParameterError(
            f"{name} of the prior must be a number, or have one entry for each of the "
            f"{model.cells} cells, got shape {array.shape}"
        )
    return np.array(np.broadcast_to(array.reshape(-1), model.cells))


def _has_total(model: TableModel) -> bool:
    """Whether the sum of all cells follows from the exact rows and the known cells."""
    from scipy.sparse.linalg import lsmr

    free = model.free
    if not free.size:
        return True
    if not model.exact.shape[0]:
        return False
    rows = model.exact[:, free].astype(np.float64)
    whole = (np.diff(rows.indptr) == free.size) & (rows.sum(axis=1) == free.size)
    if whole.any():
        return True
    ones = np.ones(free.size)
    weights = lsmr(rows.T.tocsr(), ones, atol=1e-12, btol=1e-12, maxiter=10 * rows.shape[0])[0]
    return bool(np.abs(rows.T @ weights - ones).max() < 1e-6)
