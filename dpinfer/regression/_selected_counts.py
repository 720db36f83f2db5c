"""Likelihood of noisy values above a threshold, where counts vary about their means.

A value is a sum over nodes of P(node | mean, dispersion) times a weight that the noise gives it.
Nodes are the counts themselves (negative binomial), or logarithms of Poisson rates (lognormal).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw, ParametricLaw

Positions = NDArray[np.intp]

_BLOCK = 1 << 20
"""Terms that are held together."""

_KEPT = 1 << 24
"""Terms whose weights are kept from one step to the next."""

_MOST = 1 << 28
"""Terms of all cells."""

_NEGLIGIBLE = 42.0
"""Terms are left out that are exp(-42) of the largest, at the estimates before."""

_EDGE = 1e-12
"""What the last terms of a sum may be of it."""

_SPACING = 0.75
"""Of nodes, in standard deviations of what is integrated: the error is 2·exp(-2π²/0.75²)."""


_RARE = 1e-6
"""Probability with which a noise reaches beyond where the search for terms begins."""


# What is observed: a value y, or that a value is at most y.


class Cells(NamedTuple):
    """Values with noise of one law, or bounds that values with it did not exceed."""

    law: ParametricLaw
    y: FloatArray
    below: bool

    def log_weights(self, rows: Positions, f: NDArray[Any]) -> FloatArray:
        """Log probability (density) of what is observed in some rows, where the count is f."""
        law = cast("IntegerLaw | ContinuousLaw", self.law)
        if law.shape:
            law = law.take(np.repeat(rows, f.shape[1]))
        gap = self.y[rows, np.newaxis] - f
        points = gap.ravel() if law.shape else gap
        if self.below:
            found = law.logcdf(points)
        else:
            found = law.logpmf(points) if isinstance(law, IntegerLaw) else law.logpdf(points)
        return np.where(f < 0, -np.inf, np.reshape(found, gap.shape))

    def reach(self) -> FloatArray:
        """Return what a noise rarely exceeds, for each row."""
        return np.broadcast_to(np.asarray(self.law.isf(_RARE)), self.y.shape).astype(np.float64)

    def ends(self, reach: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest count that the noise can have moved to y."""
        high = np.maximum(np.floor(self.y + reach), 0.0)
        low = np.zeros_like(high) if self.below else np.ceil(self.y - reach)
        return np.minimum(np.maximum(low, 0.0), high), high


class Runs(NamedTuple):
    """For each row a run of nodes, and what gives the logarithms of their weights."""

    start: Positions
    size: Positions
    weigh: Callable[[Positions, Positions], FloatArray]
    closed: NDArray[np.bool_]
    """Whether nothing is beyond the run of a row."""
    held: list[tuple[Positions, FloatArray]]

    def blocks(self) -> Iterator[tuple[Positions, FloatArray]]:
        """Yield rows with their weights, (rows, longest run); -inf beyond the run of a row."""
        if self.held:
            yield from self.held
            return
        keep = int(self.size.sum()) <= _KEPT
        order = np.argsort(self.size, kind="stable")
        first = 0
        while first < len(order):
            last = min(len(order), first + max(1, _BLOCK // int(self.size[order[first]])))
            while (last - first) * self.size[order[last - 1]] > 2 * _BLOCK and last > first + 1:
                last = first + (last - first + 1) // 2
            rows = order[first:last]
            place = np.arange(self.size[rows[-1]])
            weights = self.weigh(rows, self.start[rows, np.newaxis] + place)
            weights[place >= self.size[rows, np.newaxis]] = -np.inf
            if keep:
                self.held.append((rows, weights))
            yield rows, weights
            first = last


class Moments(NamedTuple):
    """Of n sums: logarithms, and moments of b, d and e under the terms."""

    log: FloatArray
    b: FloatArray
    d: FloatArray
    e: FloatArray
    bb: FloatArray  # variances and covariance
    bd: FloatArray
    dd: FloatArray
    edge: FloatArray
    """The larger of the shares of the first and the last term, where there could be more."""


class Scores(NamedTuple):
    """Logarithms of n probabilities, with derivatives by η and by the logarithm of α."""

    log: FloatArray
    first: FloatArray  # (n, 2)
    second: FloatArray  # (n, 3): ηη, ηα, αα
    edge: FloatArray


class Family(ABC):
    """How counts vary about their means μ = exp(η), with variance μ + αμ²."""

    begins: ClassVar[int]
    """The node before which there is none, -1 where there could be more."""

    @abstractmethod
    def runs(self, cells: Cells, scale: FloatArray) -> Runs:
        """Nodes that the noise gives weight, as far as it reaches times a scale for each row."""

    @abstractmethod
    def tables(self, alpha: float) -> tuple[FloatArray, ...]:
        """Return T and B at all nodes, the log mass being T + B·u + c, and D and E if needed."""

    @abstractmethod
    def linear(self, eta: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return u and c."""

    @abstractmethod
    def scores(self, found: Moments, at: Positions, eta: FloatArray, alpha: float) -> Scores:
        """Return derivatives from the moments; b is counted from the nodes ``at``."""

    @abstractmethod
    def is_fine(self, eta: FloatArray, alpha: float) -> bool:
        """Whether the nodes are close enough together."""

    def evaluate(self, runs: Runs, eta: FloatArray, alpha: float) -> Scores:
        """Return the probabilities of what is observed in n rows, with derivatives."""
        longest = int(runs.size.max(initial=1))
        tables = [np.pad(one, (0, longest), mode="edge") for one in self.tables(alpha)]
        mass, b, *more = tables
        u, c = self.linear(eta, alpha)
        out = np.zeros((len(Moments._fields), len(eta)))
        for rows, weights in runs.blocks():
            first, width = runs.start[rows], weights.shape[1]
            own = sliding_window_view(b, width)[first]
            terms = sliding_window_view(mass, width)[first] + own * u[rows, np.newaxis]
            terms += weights
            most = terms.max(axis=1)
            terms -= np.where(most == -np.inf, 0.0, most)[:, np.newaxis]
            share = np.exp(terms, out=terms)
            total = share.sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                share /= total[:, np.newaxis]
                out[0, rows] = most + np.log(total) + c[rows]
            own = own - own[:, :1]
            other = np.square(own)
            if more:
                other, bend = (sliding_window_view(one, width)[first] for one in more)
                out[3, rows] = np.einsum("ij,ij->i", share, bend)
            out[1, rows] = np.einsum("ij,ij->i", share, own)
            out[2, rows] = np.einsum("ij,ij->i", share, other)
            own -= out[1, rows, np.newaxis]
            other = other - out[2, rows, np.newaxis]
            out[4, rows] = np.einsum("ij,ij,ij->i", share, own, own)
            out[5, rows] = np.einsum("ij,ij,ij->i", share, own, other)
            out[6, rows] = np.einsum("ij,ij,ij->i", share, other, other)
            last = share[np.arange(len(rows)), runs.size[rows] - 1]
            edge = np.maximum(last, np.where(first > self.begins, share[:, 0], 0.0))
            out[7, rows] = np.where(runs.closed[rows], 0.0, edge)
        return self.scores(Moments(*out), runs.start, eta, alpha)

    def trimmed(self, runs: Runs, eta: FloatArray, alpha: float) -> Runs:
        """Return the runs without terms that do not matter."""
        longest = int(runs.size.max(initial=1))
        mass, b, *_ = (np.pad(one, (0, longest), mode="edge") for one in self.tables(alpha))
        u, _ = self.linear(eta, alpha)
        start, size = runs.start.copy(), runs.size.copy()
        for rows, weights in runs.blocks():
            first, width = runs.start[rows], weights.shape[1]
            terms = sliding_window_view(b, width)[first] * u[rows, np.newaxis]
            terms += sliding_window_view(mass, width)[first]
            terms += weights
            kept = terms > terms.max(axis=1, keepdims=True) - _NEGLIGIBLE
            low = kept.argmax(axis=1)
            start[rows] += low
            size[rows] = width - kept[:, ::-1].argmax(axis=1) - low
        return runs._replace(start=start, size=np.maximum(size, 1), held=[])


@dataclass
class _OnCounts(Family):
    """Sums over the counts themselves."""

    begins: ClassVar[int] = 0

    most: int = 0

    def runs(self, cells: Cells, scale: FloatArray) -> Runs:
        reach = scale * cells.reach()
        low, high = (end.astype(np.intp) for end in cells.ends(reach))
        self.most = max(self.most, int(high.max(initial=0)) + 1)
        return Runs(low, high - low + 1, cells.log_weights, reach == 0, [])

    def is_fine(self, eta: FloatArray, alpha: float) -> bool:
        return True


@dataclass
class PoissonCounts(_OnCounts):
    """Counts without overdispersion: log α has no part, and a curvature that leaves it alone."""

    def tables(self, alpha: float) -> tuple[FloatArray, ...]:
        f = np.arange(self.most, dtype=np.float64)
        return -special.gammaln(f + 1.0), f

    def linear(self, eta: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        return eta, -np.exp(eta)

    def scores(self, found: Moments, at: Positions, eta: FloatArray, alpha: float) -> Scores:
        mu, none = np.exp(eta), np.zeros_like(eta)
        first = np.column_stack([at + found.b - mu, none])
        second = np.column_stack([found.bb - mu, none, none - 1.0])
        return Scores(found.log, first, second, found.edge)


@dataclass
class NegativeBinomial(_OnCounts):
    """Gamma rates."""

    def tables(self, alpha: float) -> tuple[FloatArray, ...]:
        f, r = np.arange(self.most, dtype=np.float64), 1.0 / alpha
        mass = -np.log(f + r) - special.betaln(f + 1.0, r)
        slope = special.digamma(f + r) - special.digamma(r)
        bend = special.polygamma(1, f + r) - special.polygamma(1, r)
        return mass, f, slope, bend

    def linear(self, eta: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        spread = np.logaddexp(0.0, eta + np.log(alpha))  # log(1 + αμ)
        return eta + np.log(alpha) - spread, -spread / alpha

    def scores(self, found: Moments, at: Positions, eta: FloatArray, alpha: float) -> Scores:
        mu, r = np.exp(eta), 1.0 / alpha
        f, part = at + found.b, 1.0 / (1.0 / alpha + np.exp(eta))
        of_r = found.d - np.log1p(alpha * mu) + (mu - f) * part
        both = found.bd - found.bb * part
        rr = found.e + mu * part / r - (mu - f) * part**2
        rr += found.dd - part * (found.bd + both)
        mixed = (f - mu) * mu * part**2 + r * part * both
        within = -r * mu * (r + f) * part**2 + (r * part) ** 2 * found.bb
        first = np.column_stack([r * (f - mu) * part, -r * of_r])
        second = np.column_stack([within, -r * mixed, r**2 * rr + r * of_r])
        return Scores(found.log, first, second, found.edge)


@dataclass
class LognormalPoisson(Family):
    """Integrals over the logarithm x of the Poisson rate, normal about η - τ/2, τ = log(1 + α).

    Nodes are at equal steps of x/σ + 2·exp(x/2): close beside both the law of x and a Poisson
    probability, of which the width in x is exp(-x/2). The trapezoid rule is exact but for rounding.
    """

    begins: ClassVar[int] = -1

    lowest: float
    sigma: float
    x: FloatArray = field(default_factory=lambda: np.zeros(0))

    def _place(self, x: Any) -> Any:
        return (x / self.sigma + 2.0 * np.exp(x / 2.0)) / _SPACING

    def _extend(self, highest: float) -> None:
        """Have nodes up to a logarithm of a rate."""
        first = float(self._place(self.lowest))
        count = int(np.ceil(self._place(highest) - first)) + 1
        if count > len(self.x):
            goal = first + np.arange(count)
            x = np.minimum(
                goal * _SPACING * self.sigma,
                2.0 * np.log(np.maximum(goal * _SPACING / 2.0, 1e-300)),
            )
            x = np.where(goal > 0, x, goal * _SPACING * self.sigma)
            for _ in range(60):  # from above after a step, as the function is convex
                slope = (1.0 / self.sigma + np.exp(x / 2.0)) / _SPACING
                x = x - (self._place(x) - goal) / slope
            self.x = x

    def runs(self, cells: Cells, scale: FloatArray) -> Runs:
        spread = cells.reach() + 5.0 * np.sqrt(np.maximum(cells.y, 0.0)) + 10.0
        reach = scale * spread
        low, high = cells.ends(reach)  # of rates; counts reach further
        self._extend(float(np.log(high.max(initial=1.0))))
        with np.errstate(divide="ignore"):
            start = np.searchsorted(self.x, np.log(low))
            stop = np.minimum(np.searchsorted(self.x, np.log(high)) + 1, len(self.x))
        start = np.minimum(start, stop - 1)

        def weigh(rows: Positions, nodes: Positions) -> FloatArray:
            return self._weights(cells, reach, rows, np.minimum(nodes, len(self.x) - 1))

        return Runs(start, stop - start, weigh, np.zeros(len(start), dtype=bool), [])

    def _weights(
        self, cells: Cells, reach: FloatArray, rows: Positions, nodes: Positions
    ) -> FloatArray:
        """Log of the probability of what is observed at each rate, times the width of a node."""
        law = cells.law
        shapes = [law.take(rows)._parameters()[k] for k in law._parameters()] if law.shape else []
        keys = np.column_stack([cells.y[rows], reach[rows], *shapes])
        _, once, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        out, which = np.empty(nodes.shape), np.ravel(which)
        low, high = cells.ends(reach)
        low = np.maximum(low - np.ceil(9.0 * np.sqrt(low)), 0.0)
        high = high + np.ceil(9.0 * np.sqrt(high)) + 40.0
        order = np.argsort(nodes[:, 0], kind="stable")
        for part in np.array_split(order, max(1, len(order) // 256)):
            kinds, own = np.unique(which[part], return_inverse=True)
            chosen = rows[once[kinds]]
            least, most = low[chosen].min(), high[chosen].max()
            first, last = nodes[part].min(), nodes[part].max()
            x = self.x[first : last + 1]
            found = np.zeros((len(chosen), len(x)))
            for begin in np.arange(least, most + 1.0, 2048.0):
                f = np.arange(begin, min(begin + 2048.0, most + 1.0))
                given = cells.log_weights(chosen, np.broadcast_to(f, (len(chosen), len(f))))
                rates = f[:, np.newaxis] * x - np.exp(x) - special.gammaln(f + 1.0)[:, np.newaxis]
                found += np.exp(given) @ np.exp(rates)
            with np.errstate(divide="ignore"):
                logs = np.log(found) - np.log((1.0 / self.sigma + np.exp(x / 2.0)) / _SPACING)
            out[part] = logs[own.ravel()[:, np.newaxis], nodes[part] - first]
        return out

    def tables(self, alpha: float) -> tuple[FloatArray, ...]:
        return -np.square(self.x) / (2.0 * np.log1p(alpha)), self.x

    def linear(self, eta: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
        tau = np.log1p(alpha)
        mean = eta - tau / 2.0
        return mean / tau, -np.square(mean) / (2.0 * tau) - 0.5 * np.log(2.0 * np.pi * tau)

    def scores(self, found: Moments, at: Positions, eta: FloatArray, alpha: float) -> Scores:
        tau, rate = np.log1p(alpha), alpha / (1.0 + alpha)
        base = self.x[at] - eta
        z = base + found.b  # the mean of x - η, which is base + b
        square = found.bb + z**2
        cross = found.bd + 2.0 * base * found.bb
        spread = found.dd + 4.0 * base * found.bd + 4.0 * base**2 * found.bb
        of_tau = square / (2.0 * tau**2) - 0.125 - 0.5 / tau
        within = found.bb / tau**2 - 1.0 / tau
        mixed = -z / tau**2 + cross / (2.0 * tau**3)
        both = -square / tau**3 + 0.5 / tau**2 + spread / (4.0 * tau**4)
        first = np.column_stack([z / tau + 0.5, rate * of_tau])
        second = np.column_stack(
            [within, rate * mixed, rate**2 * both + rate / (1.0 + alpha) * of_tau]
        )
        return Scores(found.log, first, second, found.edge)

    def is_fine(self, eta: FloatArray, alpha: float) -> bool:
        sigma = np.sqrt(np.log1p(alpha))
        least = float(eta.min()) - sigma**2 / 2.0 - 8.0 * sigma
        return bool(sigma >= 0.8 * self.sigma and least >= self.lowest)


# Many cells, and the estimates.


class Part(NamedTuple):
    """Cells that are observed in one way, under noise of one kind."""

    rows: Positions
    cells: Cells
    hidden: bool
    """Whether it is the probability of not being published, of cells that were."""


@dataclass
class Likelihood:
    """Of θ = (γ, log α), with η = basis·γ + offset."""

    basis: FloatArray
    offset: FloatArray
    parts: list[Part]
    family: Family
    scales: list[FloatArray] = field(default_factory=list)
    runs: list[Runs] = field(default_factory=list)
    _last: tuple[bytes, Any] | None = None

    def widen(self, theta: FloatArray) -> None:
        """Take the terms that matter at some estimates."""
        eta, alpha = self._at(theta)
        self._last = None
        if not self.scales:
            self.scales = [np.ones(len(part.rows)) for part in self.parts]
        self.runs = []
        for place, part in enumerate(self.parts):
            for _ in range(_DOUBLED):
                runs = self.family.runs(part.cells, self.scales[place])
                if (size := float(runs.size.sum(dtype=np.float64))) > _MOST:
                    raise InvalidParameterError(
                        f"mechanism must not spread {len(part.rows)} cells over so many counts, "
                        f"got {size:.1e} terms in all, more than {_MOST:.1e}: fit fewer cells, or "
                        "sums of them"
                    )
                found = self.family.evaluate(runs, eta[part.rows], alpha)
                short = ~(found.edge <= 0.1 * _EDGE)
                if part.hidden:
                    short &= np.exp(found.log) > _EDGE
                if not short.any():
                    break
                self.scales[place] = np.where(short, 2.0, 1.0) * self.scales[place]
            self.runs.append(self.family.trimmed(runs, eta[part.rows], alpha))

    def holds(self, theta: FloatArray) -> bool:
        """Whether no term that matters was left out."""
        return float(self.rows(theta).edge.max()) <= _EDGE and self.family.is_fine(*self._at(theta))

    def rows(self, theta: FloatArray) -> Scores:
        """Return what each cell gives to the likelihood."""
        key = theta.tobytes()
        if self._last is not None and self._last[0] == key:
            return cast("Scores", self._last[1])
        eta, alpha = self._at(theta)
        size = len(eta)
        out = Scores(np.zeros(size), np.zeros((size, 2)), np.zeros((size, 3)), np.zeros(size))
        for part, runs in zip(self.parts, self.runs, strict=True):
            found = self.family.evaluate(runs, eta[part.rows], alpha)
            if part.hidden:
                found = _published(found)
            for total, own in zip(out, found, strict=True):
                total[part.rows] += own
        self._last = key, out
        return out

    def value(self, theta: FloatArray) -> float:
        found = float(self.rows(theta).log.sum())
        return -found if np.isfinite(found) else _IMPOSSIBLE

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of each cell, shape (n, p + 1)."""
        first = self.rows(theta).first
        return np.column_stack([first[:, :1] * self.basis, first[:, 1]])

    def gradient(self, theta: FloatArray) -> FloatArray:
        return np.asarray(-np.nan_to_num(self.scores(theta).sum(axis=0)))

    def hessian(self, theta: FloatArray) -> FloatArray:
        own, mixed, shape = np.nan_to_num(self.rows(theta).second).T
        out = np.empty((len(theta), len(theta)))
        out[:-1, :-1] = self.basis.T @ (own[:, np.newaxis] * self.basis)
        out[:-1, -1] = out[-1, :-1] = mixed @ self.basis
        out[-1, -1] = shape.sum()
        return -out

    def _at(self, theta: FloatArray) -> tuple[FloatArray, float]:
        eta = np.clip(self.basis @ theta[:-1] + self.offset, -_LARGEST, _LARGEST)
        return eta, float(np.exp(np.clip(theta[-1], -_LARGEST_SHAPE, _LARGEST_SHAPE)))


_DOUBLED = 12
_LARGEST = 60.0
_LARGEST_SHAPE = 16.0
_IMPOSSIBLE = 1e300
_ROUNDS = 8
_STEPS = 20
_DECREMENT = 1e-14


def _published(hidden: Scores) -> Scores:
    """Turn log C, that a cell is not published, into -log(1 - C)."""
    with np.errstate(divide="ignore"):
        log = -np.log1p(-np.minimum(np.exp(hidden.log), 1.0))
    odds = np.where(hidden.log == -np.inf, 0.0, np.expm1(log))[:, np.newaxis]
    g, h = np.nan_to_num(hidden.first), np.nan_to_num(hidden.second)
    squares = np.column_stack([g[:, 0] ** 2, g[:, 0] * g[:, 1], g[:, 1] ** 2])
    edge = np.where(np.exp(hidden.log) > _EDGE, hidden.edge, 0.0)
    return Scores(log, odds * g, odds * (h + (1.0 + odds) * squares), edge)


def maximised(likelihood: Likelihood, theta: FloatArray) -> FloatArray:
    """Return the maximum, by a trust region with exact second derivatives, then Newton's steps."""
    from scipy import optimize

    found = optimize.minimize(
        likelihood.value,
        theta,
        method="trust-exact",
        jac=likelihood.gradient,
        hess=likelihood.hessian,
        options={"gtol": 1e-5 * np.sqrt(len(likelihood.offset)), "maxiter": 200},
    )
    return _stepped(likelihood, np.asarray(found.x), 1.0)[0]


def _stepped(likelihood: Likelihood, theta: FloatArray, most: float) -> tuple[FloatArray, bool]:
    """Take Newton's steps while their decrements are below ``most``, and say if they ended."""
    for _ in range(_STEPS):
        gradient, hessian = likelihood.gradient(theta), likelihood.hessian(theta)
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            return theta, False
        decrement = float(gradient @ step)
        if not 0 <= decrement < most:
            return theta, False
        theta = theta - step
        if decrement < _DECREMENT:
            return theta, True
    return theta, False


FAMILIES = ("negative-binomial", "lognormal-poisson")

_VANISHED = -14.0
"""Logarithm of a mean that stands for 0."""

_SAME = 1e-4
"""Share of overdispersion in the largest variance below which there is none to be told."""

_WILD = 1e4
_UNSEEN = 1e-7
"""Smallest probability of being published that the estimates may rest on."""


class Estimates(NamedTuple):
    """Estimates of (β, log α), their information matrix, and what each cell gives."""

    theta: FloatArray
    information: FloatArray
    scores: FloatArray
    llf: float

    @property
    def influence(self) -> FloatArray:
        """What each cell adds to the estimates."""
        return np.asarray(np.linalg.solve(self.information, self.scores.T).T)


def estimated(exog: FloatArray, offset: FloatArray, parts: list[Part], family: str) -> Estimates:
    """Return the estimates, or say why there are none."""
    size = len(exog)
    triangle = np.linalg.qr(exog, mode="r") / np.sqrt(size)
    basis = np.linalg.solve(triangle.T, exog.T).T
    theta = _start(basis, offset, parts)
    likelihood = Likelihood(basis, offset, parts, NegativeBinomial())
    for _ in range(_ROUNDS):
        eta, alpha = likelihood._at(theta)
        own = isinstance(likelihood.family, LognormalPoisson)
        if family == "lognormal-poisson" and not (own and likelihood.family.is_fine(eta, alpha)):
            likelihood.family = _lognormal(eta, alpha)
            likelihood.scales = []
        _widened(likelihood, theta)
        theta = maximised(likelihood, theta)
        _refuse(likelihood, theta)
        if likelihood.holds(theta):
            break
    else:
        raise ConvergenceError("the sums over counts did not settle: some values are far from all")
    information = _information(
        likelihood, theta, "leave out columns, or use family='negative-binomial'"
    )
    back = np.eye(len(theta))  # from (γ, log α) to (β, log α)
    back[:-1, :-1] = triangle
    coefficients = np.asarray(np.linalg.solve(back, theta), dtype=np.float64)
    return Estimates(
        coefficients,
        back.T @ information @ back,
        likelihood.scores(theta) @ back,
        -likelihood.value(theta),
    )


def poisson_maximum(
    exog: FloatArray, parts: list[Part], start: FloatArray | None = None
) -> tuple[FloatArray, Likelihood]:
    """Return the maximum for Poisson means exp(exog β), and the likelihood of (β, 0) about it."""
    size = len(exog)
    triangle = np.linalg.qr(exog, mode="r") / np.sqrt(size)
    basis, offset = np.linalg.solve(triangle.T, exog.T).T, np.zeros(size)
    gamma = _start(basis, offset, parts)[:-1] if start is None else triangle @ start
    theta, likelihood = np.append(gamma, 0.0), Likelihood(basis, offset, parts, PoissonCounts())
    for _ in range(_ROUNDS):
        _widened(likelihood, theta)
        near, ended = _stepped(likelihood, theta, _NEAR * len(theta))
        lower = ended and likelihood.value(near) <= likelihood.value(theta)
        theta = near if lower else maximised(likelihood, theta)
        if likelihood._at(theta)[0].min() < _VANISHED:
            raise NotEstimableError(
                "some means are estimated as 0, where the model has no estimates: a sum of cells "
                "that it fits is no more than noise. Merge categories, or leave out terms"
            )
        if likelihood.holds(theta):
            break
    _information(likelihood, theta, "leave out terms")
    likelihood.basis = exog
    likelihood._last = None
    return np.asarray(np.linalg.solve(triangle, theta[:-1])), likelihood


def poisson_information(parts: list[Part], eta: FloatArray) -> FloatArray:
    """Return E[(E[f given y] - μ)²] of each cell, by a sum over y at its scale."""
    out, family = np.exp(eta), PoissonCounts()
    for part in parts:
        law, mu = part.cells.law, np.exp(eta[part.rows])
        spread = np.broadcast_to(np.sqrt(mu + law.variance), mu.shape)
        noisy = np.flatnonzero(np.broadcast_to(law.variance, mu.shape) > 0)
        if not noisy.size:
            continue
        step, centre = _OF_SPREAD * spread[noisy], mu[noisy]
        if law.is_integer:
            step, centre = np.maximum(np.floor(step), 1.0), np.rint(centre)
        far = np.ceil(_SPREADS * spread[noisy] / step).max()
        y = centre[:, np.newaxis] + step[:, np.newaxis] * np.arange(-far, far + 1.0)
        at = np.repeat(noisy, y.shape[1])
        cells = Cells(law.take(at) if law.shape else law, y.ravel(), False)
        reach, mean = cells.reach(), mu[at]
        scale = 1.0 + (np.abs(cells.y - mean) + 9.0 * np.sqrt(mean)) / reach
        found = family.evaluate(family.runs(cells, scale), np.log(mean), 1.0)
        weight = np.exp(found.log).reshape(y.shape)
        square = np.square(np.nan_to_num(found.first[:, 0])).reshape(y.shape)
        out[part.rows[noisy]] = (weight * square).sum(axis=1) / weight.sum(axis=1)
    return out


_OF_SPREAD, _SPREADS = 0.6, 8.0
_NEAR = 8.0


def derivatives(
    exog: FloatArray, offset: FloatArray, parts: list[Part], family: str, theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scores of cells and the information matrix at given (β, log α)."""
    likelihood = Likelihood(exog, offset, parts, NegativeBinomial())
    if family == "lognormal-poisson":
        likelihood.family = _lognormal(*likelihood._at(theta))
    likelihood.widen(theta)
    return likelihood.scores(theta), likelihood.hessian(theta)


def _lognormal(eta: FloatArray, alpha: float) -> LognormalPoisson:
    sigma = 0.9 * np.sqrt(np.log1p(alpha))
    return LognormalPoisson(float(eta.min()) - 12.0 * sigma - sigma**2, sigma)


def _start(basis: FloatArray, offset: FloatArray, parts: list[Part]) -> FloatArray:
    guess = np.zeros(len(basis))
    for part in parts:
        if not part.hidden:
            share = 0.5 if part.cells.below else 1.0
            guess[part.rows] = np.log(np.maximum(share * part.cells.y, 0.5))
    guess -= offset
    gamma = basis.T @ guess / len(basis)
    rest = min(float(np.var(guess - basis @ gamma)), 5.0)
    return np.append(gamma, np.log(np.clip(np.expm1(rest), 0.05, 5.0)))


def _widened(likelihood: Likelihood, theta: FloatArray) -> None:
    """Widen the sums over counts, and refuse values that none of these can have."""
    likelihood.widen(theta)
    if not np.isfinite(likelihood.rows(theta).log).all():
        raise NotEstimableError(
            "some of the values cannot be counts with this noise under any mean, such as "
            "negative values without noise: check mechanism"
        )


def _information(likelihood: Likelihood, theta: FloatArray, advice: str) -> FloatArray:
    """Return the information where the likelihood has a maximum."""
    gradient, information = likelihood.gradient(theta), likelihood.hessian(theta)
    if np.linalg.eigvalsh(information)[0] <= 0 or not (
        0 <= gradient @ np.linalg.solve(information, gradient) < 1e-10
    ):
        raise ConvergenceError(f"the likelihood has no maximum that was found: {advice}")
    return information


def _refuse(likelihood: Likelihood, theta: FloatArray) -> None:
    eta, alpha = likelihood._at(theta)
    if alpha * np.exp(eta.max()) < _SAME:
        raise NotEstimableError(
            "the values vary no more than Poisson counts with this noise do: alpha, the "
            "overdispersion, is estimated as 0, at the end of what is possible, where standard "
            "errors do not hold. Check mechanism, or leave out columns"
        )
    chance = published_chance(likelihood, theta)
    if alpha > _WILD or chance < _UNSEEN:
        raise NotEstimableError(
            "the published values do not determine the model: estimates run off to ever wider laws "
            f"(alpha {alpha:.1e}, smallest probability of publication {chance:.1e}). Leave out "
            "columns, or list the unpublished cells with universe='known'"
        )


def published_chance(likelihood: Likelihood, theta: FloatArray) -> float:
    """Return the smallest probability of publication that the likelihood rests on."""
    eta, alpha = likelihood._at(theta)
    least = 1.0
    for part, runs in zip(likelihood.parts, likelihood.runs, strict=True):
        if part.hidden:
            log = likelihood.family.evaluate(runs, eta[part.rows], alpha).log
            least = min(least, float(-np.expm1(log.max(initial=-np.inf))))
    return least
