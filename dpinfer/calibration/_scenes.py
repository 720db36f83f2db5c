"""Simulated releases, what procedures say about them, and what of that is an error.

Judges and what they hold can be pickled, so that other processes can be sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    check_alpha,
    check_array,
    check_reps,
    check_rng,
    check_scalar,
    freeze,
    show,
)
from dpinfer.calibration.certificate import (
    SMALLEST_ERROR,
    Certificate,
    Kind,
    largest_rate,
    replicates_to_decide,
)
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.hypothesis_tests.models import Independence, Model, NullModel
from dpinfer.intervals.counts import count_confint
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.releases.coerce import rule_of
from dpinfer.releases.noises import Bound, Noises
from dpinfer.releases.release import Release
from dpinfer.releases.values import NoisyValues
from dpinfer.results.null import beyond_ties
from dpinfer.results.simulation import (
    Draw,
    SeededBlock,
    Simulation,
    largest_replicates,
    run_blocks,
)

StudyModel = Model | Independence

_REPS_IN_BLOCK = 4096
_VALUES_IN_BLOCK = 1 << 18
"""Releases, and values, drawn at a time."""

_LARGEST_SEED = 1 << 53
"""Seeds below it are whole numbers in every reader of JSON."""

_SMALLEST_SHARE = 0.02
"""With a smaller share of published replicates their number is not raised further."""

NULL_REPS = 10
"""Replicates behind a simulated critical value, for each release: its error adds 5 % to the Monte
Carlo error of a rate."""

ROUNDING = 1e-12
"""Relative difference between a p-value and its level that may be rounding."""


class Drawn(NamedTuple):
    """Confidential values, what was published, and where: arrays of shape (r,) or (r, m)."""

    counts: FloatArray
    published: FloatArray
    shown: NDArray[np.bool_]


@dataclass(frozen=True)
class Scene:
    """How releases arise.

    The m values are ``truth``, of shape () or (m,), or drawn anew for each release from a model.
    Noisy ones are moved within the bounds of ``clamp`` and published if they reach ``threshold``.
    """

    truth: FloatArray | StudyModel
    noise: NoiseLaw
    threshold: Bound = -np.inf
    clamp: tuple[Bound, Bound] = (-np.inf, np.inf)

    @classmethod
    def checked(
        cls, truth: Any, mechanism: Mechanism, threshold: Any = None, clamp: Any = None
    ) -> Self:
        known = truth if isinstance(truth, get_args(StudyModel)) else _checked_values(truth)
        size = max(1, prod(known.shape))
        noise = as_noise(mechanism, size, selected=True)
        if not known.shape and noise.shape:
            noise = noise.take(0)
        values = NoisyValues(np.zeros(size), Noises(noise, size))
        rule = rule_of(values, threshold=threshold, clamp=clamp)
        return cls(known, noise, rule.threshold, (rule.lowest, rule.highest))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.truth.shape

    @property
    def block(self) -> int:
        return min(_REPS_IN_BLOCK, max(1, _VALUES_IN_BLOCK // max(1, prod(self.shape))))

    def draw(self, size: int, seed: np.random.SeedSequence) -> Drawn:
        rng = np.random.default_rng(seed)
        if isinstance(self.truth, NullModel):
            counts = self.truth.draw(size, rng)
        else:
            counts = np.array(np.broadcast_to(self.truth, (size, *self.shape)))
        noisy = np.clip(counts + self.noise.rvs(counts.shape, rng=rng), *self.clamp)
        for array in (counts, noisy):
            array.flags.writeable = False  # no procedure shall change what the next one looks at
        return Drawn(counts, noisy, np.asarray(noisy >= self.threshold))

    def published_share(self) -> float:
        """Probability that a value is published, that of the least likely one of several."""
        if not np.any(np.isfinite(self.threshold)):
            return 1.0
        known = self.truth
        if isinstance(known, NullModel):  # about, from some of them
            known = known.draw(_REPS_IN_BLOCK, np.random.default_rng(0))
        reached = np.where(
            np.asarray(self.clamp[0]) >= self.threshold,
            1.0,
            self.noise.cdf(known - self.threshold),  # P(e >= x) = P(e <= -x)
        )
        return float(reached.reshape(-1, *self.shape).mean(axis=0).min())

    def facts(self) -> dict[str, str]:
        known = self.truth
        truth = show(known) if isinstance(known, NullModel) else show(known.tolist())
        facts = {"truth": truth, "mechanism": show(self.noise)}
        if np.any(np.isfinite(self.threshold)):
            facts["threshold"] = show(np.asarray(self.threshold).tolist())
        if np.any(np.isfinite(self.clamp[0])) or np.any(np.isfinite(self.clamp[1])):
            facts["clamp"] = show(tuple(np.asarray(end).tolist() for end in self.clamp))
        return facts


def _checked_values(truth: Any) -> FloatArray:
    try:
        values = check_array(truth, "truth")
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"{error}; truth is confidential values, or a model of dpinfer.hypothesis_tests"
        ) from error
    if values.ndim > 1:
        raise InvalidParameterError(
            f"truth must be a number or one-dimensional, got shape {values.shape}"
        )
    return freeze(values)


# Errors and widths of procedures, counted block by block.


Judge = Callable[[Drawn], FloatArray | None]
"""Applies a procedure to a block of releases, and returns the numbers of trials and of errors and
the sum of the widths, shape (3, k); None where nothing was published."""

Procedure = Callable[[FloatArray], Any]
"""A function of published values: of many releases at once, or of one."""


@dataclass(frozen=True)
class Terms:
    """The nominal error probability, the rule of the verdict, and how to simulate."""

    alpha: float
    margin: float
    error: float
    seed: int
    simulation: Simulation

    @classmethod
    def checked(
        cls,
        alpha: Any,
        margin: Any,
        error: Any,
        reps: Any,
        rng: RNG,
        n_jobs: int | None,
        progress: bool,
        rates: int = 1,
        published: float = 1.0,
    ) -> Self:
        """Plan the replicates if their number is not given: for so many rates, and that share."""
        level = check_alpha(alpha)
        allowed = check_scalar(margin, "margin", ge=0)
        largest_rate(level, allowed)
        chance = check_scalar(error, "error", ge=SMALLEST_ERROR, lt=0.5)
        if reps is None and allowed == 0.0:
            raise InvalidParameterError("reps must be given where margin is 0, got None")
        if reps is None:
            each = max(SMALLEST_ERROR, chance / rates)
            needed = replicates_to_decide(level, margin=allowed, error=each)
            reps = int(np.ceil(needed / max(published, _SMALLEST_SHARE)))
        generator = check_rng(rng)
        given = rng is not None and not isinstance(rng, np.random.Generator)
        seed = int(rng) if given else int(generator.integers(_LARGEST_SEED))  # type: ignore[arg-type]
        simulation = Simulation.checked(check_reps(reps), seed, progress, n_jobs)
        return cls(level, allowed, chance, seed, simulation)

    def certificate(
        self,
        scene: Scene,
        judges: Sequence[Judge],
        procedure: str,
        kind: Kind,
        settings: dict[str, str],
        beside: str | None = None,
        labels: Sequence[str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Certificate:
        """Simulate a procedure and, if there is a second judge, what is looked at beside."""
        sums = count_errors(scene, judges, self.simulation, scene.block)
        trials, errors, widths = sums[0]
        with np.errstate(invalid="ignore"):  # 0/0, where nothing was published, is NaN on purpose
            rates, mean = errors / trials, widths / trials
            others = sums[-1, 1:] / sums[-1, 0]
        wide, two = kind == "coverage", len(judges) > 1
        about = [str(place) for place in range(trials.size)] if trials.size > 1 else [""]
        return Certificate(
            procedure=procedure,
            kind=kind,
            alpha=self.alpha,
            labels=tuple(about if labels is None else labels),
            error_rate=rates,
            reps=trials.astype(np.int64),
            margin=self.margin,
            error=self.error,
            mean_width=mean if wide else None,
            beside=beside if two else None,
            beside_error_rate=others[0] if two else None,
            beside_width=others[1] if two and wide else None,
            seed=self.seed,
            settings=settings,
            notes=notes,
        )


def count_errors(
    scene: Scene, judges: Sequence[Judge], simulation: Simulation, block: int
) -> FloatArray:
    """Return the sums of each judge, shape (judges, 3, k)."""
    total: FloatArray | None = None
    for sums in run_blocks(partial(_judge, scene, tuple(judges)), simulation, block):
        if sums is not None:
            if total is not None and total.shape != sums.shape:
                raise InvalidParameterError(
                    "procedures must return as many intervals or p-values for each release, got "
                    f"{total.shape[-1]} and {sums.shape[-1]}"
                )
            total = sums if total is None else total + sums
    if total is None or not total[0, 0].any():
        raise NotEstimableError(
            f"nothing was published in {simulation.reps} replicates: the threshold is too far "
            "above truth for this noise"
        )
    return total


def _judge(scene: Scene, judges: tuple[Judge, ...], block: SeededBlock) -> FloatArray | None:
    drawn = scene.draw(*block)
    sums = [one for judge in judges if (one := judge(drawn)) is not None]
    if not sums:
        return None
    if len({one.shape for one in sums}) > 1:
        raise InvalidParameterError(
            "beside must return as many intervals or p-values as the procedure, got "
            f"{sums[1].shape[-1]} instead of {sums[0].shape[-1]}"
        )
    return np.array(sums)


def _sums(wrong: NDArray[np.bool_], width: Any = 0.0, counted: Any = True) -> FloatArray:
    """Return what a judge does of rows of errors, shape (r, k), of which some may not count."""
    columns = (np.broadcast_to(part, wrong.shape) for part in (counted, wrong, width))
    return np.array([np.sum(column, axis=0, dtype=np.float64) for column in columns])


def name_of(function: Any, name: str | None) -> str:
    """Return the name of a procedure: that given, or that of the function, which may be partial."""
    if name is not None:
        if not isinstance(name, str):
            raise InvalidParameterError(f"name must be a string, got {show(name)}")
        return name
    inner = getattr(function, "func", function)
    found = str(getattr(inner, "__name__", type(inner).__name__))
    return "as given" if found == "<lambda>" else found


@dataclass(frozen=True)
class IntervalJudge:
    """Counts intervals that miss what they are about: ``target``, or by default the counts."""

    function: Procedure
    which: str
    target: Any
    alpha: float
    one_by_one: bool
    together: bool

    def __call__(self, drawn: Drawn) -> FloatArray | None:
        counts, published = drawn.counts, drawn.published
        if published.ndim == 1:
            counts, published = counts[drawn.shown], published[drawn.shown]
        if not len(published):
            return None
        aim = self._aim(counts)
        if self.one_by_one:
            each = aim if self._is_drawn else np.broadcast_to(aim, (len(published), *aim.shape))
            rows = [self._measured(*pair) for pair in zip(published, each, strict=True)]
            inside, width = (np.array(part) for part in zip(*rows, strict=True))
        else:
            inside, width = self._measured(published, aim)
        inside, width = (
            _by_release(part, len(published), self.which, "an interval") for part in (inside, width)
        )
        if self.together:
            inside = np.asarray(inside.all(axis=1, keepdims=True))
            width = width.mean(axis=1, keepdims=True)
        return _sums(~inside, width)

    @property
    def _is_drawn(self) -> bool:
        """Whether each release has a target of its own."""
        return self.target is None or callable(self.target)

    def _aim(self, counts: FloatArray) -> FloatArray:
        """Return what is to be covered, in a shape that broadcasts against the intervals."""
        if self.target is None:
            return counts
        if not callable(self.target):
            return np.asarray(self.target)
        aim = check_array(self.target(counts), "target(counts)")
        if aim.ndim not in (1, 2) or len(aim) != len(counts):
            raise InvalidParameterError(
                f"target must return an answer for each of {len(counts)} releases, got shape "
                f"{aim.shape}"
            )
        return aim

    def _measured(self, published: FloatArray, aim: FloatArray) -> tuple[NDArray[Any], FloatArray]:
        """Return which intervals hold what they are about, and their widths."""
        found = self.function(published)
        stated = getattr(found, "alpha", self.alpha)
        if not np.isclose(stated, self.alpha, rtol=1e-9, atol=0.0):
            raise InvalidParameterError(
                f"alpha must be that of the intervals, {stated:g}, got {self.alpha:g}"
            )
        if hasattr(found, "contains"):
            width = np.asarray(found.width)
        else:
            lower, upper = self._ends(found)
            with np.errstate(invalid="ignore"):  # of two infinite ends on one side
                width = np.where(lower < upper, upper - lower, 0.0)
        shape, own = width.shape, np.shape(aim)
        if not (own == shape if self._is_drawn else own in (shape, shape[-1:], ())):
            raise InvalidParameterError(
                f"target must have the shape of the intervals that {self.which} returns, {shape}, "
                f"got {own}: give what the intervals are about"
            )
        if hasattr(found, "contains"):
            return np.asarray(found.contains(aim)), width
        return (lower <= aim) & (aim <= upper), width

    def _ends(self, found: Any) -> tuple[FloatArray, FloatArray]:
        try:
            low, high = found
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"{self.which} must return intervals, or a pair of their ends, got {show(found)}"
            ) from error
        name = f"the ends that {self.which} returns"
        lower, upper = (check_array(end, name, finite=False) for end in (low, high))
        if lower.shape != upper.shape:
            raise InvalidParameterError(
                f"{name} must have one shape, got {lower.shape} and {upper.shape}"
            )
        return lower, upper


def judge_test(
    function: Procedure, which: str, alpha: float, one_by_one: bool, drawn: Drawn
) -> FloatArray:
    """Count rejections of a hypothesis that is true."""

    def pvalues(published: FloatArray) -> FloatArray:
        found = function(published)
        pvalue: Any = getattr(found, "pvalue", found)
        return check_array(pvalue, f"what {which} returns", ge=0, le=1)

    rows = drawn.published
    found = np.array([pvalues(row) for row in rows]) if one_by_one else pvalues(rows)
    return _sums(_by_release(found, len(rows), which, "a p-value") <= alpha * (1.0 + ROUNDING))


def judge_rule(
    statistic: Callable[[FloatArray], FloatArray], critical: FloatArray, drawn: Drawn
) -> FloatArray:
    """Count statistics, shape (r,), that reach the critical value of each level, shape (a,)."""
    return _sums(statistic(drawn.published)[:, np.newaxis] >= critical)


def judge_values(
    release: Release, alpha: float, method: Literal["exact", "naive"], drawn: Drawn
) -> FloatArray | None:
    """Count misses of the intervals of those values of a release that were published."""
    shown = drawn.shown
    if not shown.any():
        return None
    column = np.nonzero(shown)[1]

    def each(bound: Any) -> Any:
        return bound if np.ndim(bound) == 0 else bound[column]

    law = release.mechanism
    published = Release(
        drawn.published[shown],
        mechanism=law.take(column) if law.shape else law,
        threshold=None if release.threshold is None else each(release.threshold),
        clamp=None if release.clamp is None else tuple(each(end) for end in release.clamp),
    )
    found = count_confint(published, alpha=alpha, method=method)
    wrong, width = np.zeros(shown.shape, dtype=bool), np.zeros(shown.shape)
    wrong[shown] = ~np.asarray(found.contains(drawn.counts[shown]))
    width[shown] = found.width
    return _sums(wrong, width, shown)


def judge_linear(weights: Any, target: FloatArray, half: FloatArray, drawn: Drawn) -> FloatArray:
    """Count misses of estimates that are linear, with intervals of a fixed width."""
    errors = np.abs(np.asarray(weights @ drawn.published.T).T - target)
    return _sums(errors > half, 2.0 * half)


def _by_release(found: NDArray[Any], releases: int, which: str, what: str) -> NDArray[Any]:
    """Return answers as rows, one for each release; refuse those of another shape."""
    if found.ndim not in (1, 2) or len(found) != releases:
        raise InvalidParameterError(
            f"{which} must return {what}, or k of them, for each of {releases} releases, got shape "
            f"{found.shape}"
        )
    return found.reshape(releases, -1)


def simulated_critical(
    draw: Draw, alpha: FloatArray, simulation: Simulation, block: int
) -> FloatArray:
    """Values from which on Monte Carlo p-values are at most the levels; inf where none is."""
    # 1 + b of the replicates may be as large, with (1 + b)/(reps + 1) <= alpha
    allowed = np.floor(alpha * (simulation.reps + 1) * (1.0 + ROUNDING)).astype(np.intp)
    allowed = np.minimum(allowed, simulation.reps)
    largest = largest_replicates(draw, max(1, int(allowed.max())), simulation, block)
    return np.where(allowed > 0, beyond_ties(largest[np.maximum(allowed, 1) - 1]), np.inf)
