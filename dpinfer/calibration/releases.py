"""Certificates of what the library says about a release, from its own settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_array, check_items, check_option, show
from dpinfer.calibration._judges import ConsistencyJudge, LinearJudge, ValuesJudge
from dpinfer.calibration._tally import ROUNDING, Terms
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.collection import Certificates
from dpinfer.calibration.scene import Scene
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation import CombinedEstimate, combine
from dpinfer.estimation.consistency import Disagreement
from dpinfer.estimation.pivots import Method
from dpinfer.intervals import release_confint
from dpinfer.releases import Release
from dpinfer.results._rejections import largest_replicates
from dpinfer.results.monte_carlo_null import beyond_ties
from dpinfer.results.simulation import BLOCK, Simulation

Procedure = Literal["values", "combined", "consistency"]

_NULL_REPS = 10
"""Replicates behind a critical value, for each release."""

_NOISES_IN_BLOCK = 1 << 20
"""Noises drawn at a time for it."""

_SHOWN_LABELS = 1000
"""Released values whose labels are listed; there may be millions."""


def certify(
    release: Release,
    *,
    truth: Any = None,
    procedures: Sequence[Procedure] | None = None,
    alpha: float = 0.05,
    reps: int | None = None,
    margin: float = 0.1,
    error: float = 1e-3,
    rng: RNG = None,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> Certificates:
    """Certify what can be said about a release, by simulating releases like it.

    Parameters
    ----------
    release : Release
        What was published: its mechanism, queries, and publishing rule are those simulated.
    truth : array of float, shape (n,), optional
        Confidential values of the n cells to assume. By default what the release estimates them
        to be, rounded where its noise takes whole numbers, and the published value where that is
        not finite.
    procedures : sequence of {"values", "combined", "consistency"}, optional
        What to certify; by default all that apply.

        - ``"values"``: :func:`dpinfer.release_confint`, the interval of each published value, by
          the publishing rule;
        - ``"combined"``: the intervals of :func:`dpinfer.combine` for every published query and
          estimable cell, where no publishing rule is in the way;
        - ``"consistency"``: the test whether overlapping values agree, where there are such.
    alpha : float, default 0.05
        One minus the level of the intervals, and the level of the test, in (0, 1).
    reps, margin, error, rng, n_jobs, progress
        As for :func:`certify_interval`; ``error`` is for each procedure.

    Returns
    -------
    Certificates
        One for each procedure, with a rate for each interval. Beside them is the interval that
        ignores the publishing rule, or takes the noise as Gaussian.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or a procedure does not apply to the release.
    NotEstimableError
        If no simulated value reaches its threshold.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Notes
    -----
    A combined estimate is a linear function of the published values, and its interval adds
    quantiles of a law that does not depend on them: both are found once, and applied to each
    simulated release. The critical value of the consistency test is found once, too, where its
    law is not known from ten times as many replicates.

    The certificate is about the assumed truth. Intervals of values without a publishing rule, and
    combined ones, have the same coverage whatever it is.

    Examples
    --------
    >>> from dpinfer import Laplace, Release
    >>> release = Release([31.2, 28.4, 61.9], workload=[[1, 0], [0, 1], [1, 1]],
    ...                   mechanism=Laplace(scale=2.0))
    >>> for found in certify(release, margin=0.2, rng=1):
    ...     print(found.procedure, found.verdict, found.rate.round(3))
    release_confint holds [0.948 0.947 0.954]
    combine, conf_int holds [0.947 0.952 0.95 ]
    consistency_test, monte-carlo holds [0.049]
    """
    if not isinstance(release, Release):
        raise InvalidParameterError(f"release must be a Release, got {show(release)}")
    if np.greater(release.bin_size, 1).any():
        raise InvalidParameterError(
            "release must have no bin_size, as what is certified are intervals for what the noise "
            "was added to: certify the same release without it; intervals for the counts cover as "
            "often"
        )
    study = _ReleaseStudy.of(release, truth)
    terms = Terms.checked(
        alpha=alpha,
        margin=margin,
        error=error,
        reps=reps,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
        rates=len(release),
        published=study.scene(rounded=True).published_share(),
    )
    if procedures is None:
        chosen = [name for name in _STUDIES if study.applies(name)]
    else:
        listed = check_items(procedures, "procedures", "names")
        chosen = [check_option(name, "procedures", _STUDIES) for name in listed]
        if not chosen:
            raise InvalidParameterError("procedures must name one procedure or more, got none")
    return Certificates(tuple(_STUDIES[name](study, terms) for name in chosen))


@dataclass(frozen=True)
class _ReleaseStudy:
    """A release, and the confidential values assumed behind its queries."""

    release: Release
    answers: FloatArray
    fit: CombinedEstimate | None

    @classmethod
    def of(cls, release: Release, truth: Any) -> _ReleaseStudy:
        fit = None if release.has_rule.any() else combine(release)
        if truth is not None:
            cells = check_array(truth, "truth", ndim=1)
            answers = np.asarray(release.workload.answer(cells), dtype=np.float64)
        elif fit is not None:
            answers = np.asarray(fit.fitted, dtype=np.float64)
        else:
            found = np.asarray(release_confint(release).estimate, dtype=np.float64)
            # what was clamped may be infinitely far beyond: it is taken as it was published
            answers = np.where(np.isfinite(found), found, release.values)
        return cls(release, answers, fit)

    def applies(self, name: Procedure) -> bool:
        """Whether a procedure is there for this release."""
        if name == "values":
            return True
        return self.fit is not None and (name == "combined" or self._overlap is not None)

    @property
    def combined(self) -> CombinedEstimate:
        """The combined estimates, or an error."""
        if self.fit is None:
            raise InvalidParameterError(
                "procedures must be ['values'] for a release with a threshold or a clamp, which "
                "combined estimates do not allow for"
            )
        return self.fit

    @property
    def overlap(self) -> Disagreement:
        """The statistic of the consistency test, or an error."""
        if self.combined and (found := self._overlap) is not None:
            return found
        raise InvalidParameterError(
            "procedures must not have 'consistency' for a release without overlapping values, "
            "which cannot disagree"
        )

    @property
    def _overlap(self) -> Disagreement | None:
        fit = self.fit
        if fit is None or fit._design is None:
            return None
        found = Disagreement(self.release, fit._design, fit._solver)
        return found if found.degrees else None

    def scene(self, *, rounded: bool) -> Scene:
        """Return how such releases arise."""
        release = self.release
        answers = self.answers
        if rounded and release.mechanism.is_integer:
            answers = np.rint(answers)
        return Scene.checked(answers, release.mechanism, release.threshold, release.clamp)

    def facts(self) -> dict[str, str]:
        """Describe the release."""
        return {"release": show(self.release), **self.scene(rounded=True).facts()}


def _of_values(study: _ReleaseStudy, terms: Terms) -> Certificate:
    release, ruled = study.release, study.fit is None
    methods: tuple[Literal["conditional", "naive"], ...] = ("conditional", "naive")
    return terms.certificate(
        scene=study.scene(rounded=True),
        judges=[ValuesJudge(release, terms.alpha, method) for method in methods[: 1 + ruled]],
        procedure="release_confint",
        kind="coverage",
        beside="publishing rule ignored" if ruled else None,
        labels=_labels(release.labels, len(release)),
        settings=study.facts(),
        notes=("coverage is given publication",) if release.threshold is not None else (),
    )


def _of_combined(study: _ReleaseStudy, terms: Terms) -> Certificate:
    fit, weights = study.combined, study.combined.weights
    methods: tuple[Method, ...] = ("exact", "normal")
    upper = [np.asarray(fit.conf_int(terms.alpha, method).upper) for method in methods]
    return terms.certificate(
        scene=study.scene(rounded=False),
        judges=[
            LinearJudge(weights, weights @ study.answers, end - np.asarray(fit.params))
            for end in upper
        ],
        procedure="combine, conf_int",
        kind="coverage",
        beside="normal intervals",
        labels=_labels(fit.targets.labels, len(fit)),
        settings=study.facts(),
    )


def _of_consistency(study: _ReleaseStudy, terms: Terms) -> Certificate:
    overlap = study.overlap
    test = study.combined.consistency_test(reps=1)  # tells the method, and the law if it is known
    if exact := test.method == "exact":
        critical = float(test.null_distribution.critical_value(terms.alpha, "larger"))
    else:
        critical = _simulated_critical(overlap, terms)
    return terms.certificate(
        scene=study.scene(rounded=False),
        judges=[ConsistencyJudge(overlap, critical)],
        procedure=f"consistency_test, {test.method}",
        kind="size",
        settings=study.facts(),
        notes=()
        if exact
        else (
            f"one critical value, from {_NULL_REPS} times as many replicates, served all releases: "
            f"that adds {50 / _NULL_REPS:g} % to the Monte Carlo error",
        ),
    )


def _simulated_critical(overlap: Disagreement, terms: Terms) -> float:
    """Value from which on Monte Carlo p-values are at most the level; inf where none is."""
    reps = _NULL_REPS * terms.simulation.reps
    # 1 + b of them may be as large, with (1 + b)/(reps + 1) <= alpha
    allowed = int(terms.alpha * (reps + 1) * (1.0 + ROUNDING))
    if not allowed:
        return np.inf
    # the certificate draws from the seed itself: this has to be another one
    simulation = Simulation.checked(reps, terms.seed + 1, n_jobs=terms.simulation.n_jobs)
    block = min(BLOCK, max(1, _NOISES_IN_BLOCK // overlap.size))
    largest = largest_replicates(overlap.draw, allowed, simulation, block)
    return float(beyond_ties(largest[-1]))


_STUDIES: dict[Procedure, Callable[[_ReleaseStudy, Terms], Certificate]] = {
    "values": _of_values,
    "combined": _of_combined,
    "consistency": _of_consistency,
}


def _labels(labels: Any, size: int) -> list[str]:
    """Return a name for each of several values."""
    if labels is None or size > _SHOWN_LABELS:
        return [str(place) for place in range(size)]
    return [
        ", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels
    ]
