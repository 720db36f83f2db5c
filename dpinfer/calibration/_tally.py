"""Errors and widths of procedures, counted block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import (
    RNG,
    FloatArray,
    check_alpha,
    check_reps,
    check_rng,
    check_scalar,
)
from dpinfer.calibration.certificate import Certificate, Kind
from dpinfer.calibration.scene import Drawn, Scene
from dpinfer.calibration.verdict import SMALLEST_ERROR, largest_rate, replicates_to_decide
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.results.simulation import SeededBlock, Simulation, run_blocks

_LARGEST_SEED = 1 << 53
"""Seeds below it are whole numbers in every reader of JSON."""

_SMALLEST_SHARE = 0.02
"""With a smaller share of published replicates their number is not raised further."""

ROUNDING = 1e-12
"""Relative difference between a p-value and its level that may be rounding."""


@dataclass(frozen=True)
class Judged:
    """Errors in a block of releases, shape (r, k), with their widths if they have any.

    ``counted`` says which of them are about something that was published: all where it is None.
    """

    wrong: NDArray[np.bool_]
    width: FloatArray | None = None
    counted: NDArray[np.bool_] | None = None

    def sums(self) -> FloatArray:
        """Numbers of trials and of errors, and the sum of the widths, shape (3, k)."""
        counted = np.ones(self.wrong.shape, dtype=bool) if self.counted is None else self.counted
        width = np.zeros(self.wrong.shape) if self.width is None else self.width
        columns = (counted, self.wrong & counted, np.where(counted, width, 0.0))
        return np.array([np.sum(column, axis=0, dtype=np.float64) for column in columns])


Judge = Callable[[Drawn], Judged | None]
"""Applies a procedure to a block of releases; None where none of them was published."""


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
        *,
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
        """Check the arguments of a study, and plan its replicates if their number is not given.

        That is for so many ``rates``, when a share ``published`` of all replicates counts.
        """
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
        *,
        scene: Scene,
        judges: Sequence[Judge],
        procedure: str,
        kind: Kind,
        beside: str | None = None,
        labels: Sequence[str] | None = None,
        settings: dict[str, str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Certificate:
        """Simulate a procedure and, if there is a second judge, what is looked at beside."""
        sums = _count(scene, judges, self.simulation)
        trials, errors, widths = sums[0]
        with np.errstate(invalid="ignore"):  # 0/0, where nothing was published, is NaN on purpose
            rates, mean = errors / trials, widths / trials
            others = sums[-1, 1:] / sums[-1, 0]
        wide = kind == "coverage"
        two = len(judges) > 1
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
            settings=scene.facts() if settings is None else settings,
            notes=notes,
        )


def _count(scene: Scene, judges: Sequence[Judge], simulation: Simulation) -> FloatArray:
    """Return the sums of each judge, shape (judges, 3, k)."""
    total: FloatArray | None = None
    for sums in run_blocks(partial(_judge, scene, tuple(judges)), simulation, scene.block):
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
    """Draw a block of releases and judge it: the task of a worker."""
    drawn = scene.draw(*block)
    found = [judge(drawn) for judge in judges]
    sums = [one.sums() for one in found if one is not None]
    if not sums:
        return None
    if len({one.shape for one in sums}) > 1:
        raise InvalidParameterError(
            "beside must return as many intervals or p-values as the procedure, got "
            f"{sums[1].shape[-1]} instead of {sums[0].shape[-1]}"
        )
    return np.array(sums)
