"""Certificates of intervals, of tests, and of what is said about a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from dpinfer._check import RNG, FloatArray, check_array, check_flag, check_items, check_option, show
from dpinfer.calibration._scenes import (
    NULL_REPS,
    IntervalJudge,
    Judge,
    Procedure,
    Scene,
    StudyModel,
    Terms,
    judge_linear,
    judge_rule,
    judge_test,
    judge_values,
    name_of,
    simulated_critical,
)
from dpinfer.calibration.certificate import Certificate, Certificates, Kind
from dpinfer.calibration.sizes import Tests, size_study
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.combined import CombinedEstimate
from dpinfer.estimation.consistency import Overlap
from dpinfer.estimation.gls import combine
from dpinfer.estimation.pivots import Method
from dpinfer.intervals.counts import count_confint
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.releases.release import Release
from dpinfer.results.simulation import BLOCK, Simulation


def certify_interval(
    interval: Callable[[FloatArray], Any],
    truth: Any,
    mechanism: Mechanism,
    *,
    target: Any = None,
    alpha: float = 0.05,
    beside: Callable[[FloatArray], Any] | None = None,
    threshold: float | None = None,
    clamp: Any = None,
    one_by_one: bool = False,
    together: bool = False,
    name: str | None = None,
    beside_name: str | None = None,
    reps: int | None = None,
    margin: float = 0.1,
    error: float = 1e-3,
    rng: RNG = None,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> Certificate:
    """Find by simulation how often intervals cover what they are about.

    Parameters
    ----------
    interval : callable
        The intervals, as a function of published values: of r simulated releases at once, shape
        (r,) or (r, m), or of one, shape () or (m,), with ``one_by_one``. It returns what the
        functions of dpinfer return, or a pair of ends ``(lower, upper)``: for each release one
        interval, shape (r,), or k of them, shape (r, k).
    truth : float, array of float, shape (m,), or a model
        The confidential values. With a model of :mod:`dpinfer.hypothesis_tests` they are
        drawn anew for each release, so that sampling error is part of what happens.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    target : float, array of float, shape (k,), or callable, optional
        What the intervals are about: a number that does not change, k of them, or a function of
        the confidential values, shape (r,) or (r, m), with answers of shape (r,) or (r, k). By
        default the confidential values themselves.
    alpha : float, default 0.05
        One minus the level that the intervals claim, in (0, 1).
    beside : callable, optional
        Other intervals for the same values, whose coverage and mean width are to be shown beside,
        such as those with ``method="asymptotic"``.
    threshold : float, optional
        For one value: only releases that reach it are published, and count.
    clamp : float or pair, optional
        Noisy values are moved into these bounds: a lower bound, or ``(lower, upper)``.
    one_by_one : bool, default False
        Whether the intervals are functions of one release, for those that do not take many.
    together : bool, default False
        Whether all k intervals of a release have to cover, instead of each of them.
    name, beside_name : str, optional
        What to call the intervals, and those beside; by default as their functions are called.
    reps : int, optional
        Number of replicates. By default as many as find intervals to hold, with probability 0.99
        for each, that cover with probability 1 - ``alpha`` exactly; see
        :func:`replicates_to_decide`. With a threshold it is more, up to 50 times, so that about as
        many are published.
    margin : float, default 0.1
        By which part of ``alpha`` the probability of a miss may exceed it.
    error : float, default 1e-3
        Probability, at most, with which the verdict is wrong, in [1e-12, 1/2).
    rng : None, int or numpy.random.Generator
        Source of the releases; an int is a seed. A generator is asked for a seed once, which the
        certificate states.
    n_jobs : int or None, default 1
        Number of workers as joblib takes it; the answer does not depend on it.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    Certificate
        Coverage with its Monte Carlo error, exact bounds, mean widths and the verdict.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``interval`` returns something else than
        intervals at the level 1 - ``alpha`` for each release.
    NotEstimableError
        If no simulated release reaches ``threshold``.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Notes
    -----
    The rule of the verdict and its error probability are those of :class:`Certificate`. An
    interval that is empty misses. Releases below a threshold are not part of the coverage, which
    is given publication; with their number fixed, misses among those published are binomial.

    Releases are drawn in blocks, each from its own child of the seed. An interval that simulates
    in itself is to seed a generator of its own in each call.

    Examples
    --------
    >>> from dpinfer import Laplace, count_confint
    >>> noise = Laplace.from_epsilon(0.5)
    >>> found = certify_interval(
    ...     lambda y: count_confint(y, mechanism=noise, alpha=0.01), 40, noise, alpha=0.01, rng=1,
    ...     beside=lambda y: count_confint(y, mechanism=noise, alpha=0.01, method="asymptotic"),
    ...     name="count_confint", margin=0.2,
    ... )
    >>> found
    Certificate(count_confint: coverage holds, rate 0.9899)
    >>> found.mean_width.round(2), found.beside_width.round(2), found.beside_error_rate.round(3)
    (array([18.42]), array([14.57]), array([0.025]))
    """
    scene = Scene.checked(truth, mechanism, threshold, clamp)
    if threshold is not None and scene.shape:
        raise InvalidParameterError(
            f"truth must be one value where threshold is given, got {scene.shape[0]}: use certify "
            "for a release of several"
        )
    share = scene.published_share()
    terms = Terms.checked(alpha, margin, error, reps, rng, n_jobs, progress, published=share)
    aim = target
    facts = scene.facts()
    if target is not None and not callable(target):
        aim = check_array(target, "target")
        if aim.ndim > 1:
            raise InvalidParameterError(
                f"target must be a number or one-dimensional, got {aim.shape}"
            )
        facts["target"] = show(np.asarray(target).tolist())
    one, all_of_them = check_flag(one_by_one, "one_by_one"), check_flag(together, "together")

    def judge(function: Procedure, which: str) -> Judge:
        return IntervalJudge(function, which, aim, terms.alpha, one, all_of_them)

    given = [(interval, name, "interval"), (beside, beside_name, "beside")]
    return _certified("coverage", scene, terms, judge, given, facts)


def _certified(
    kind: Kind,
    scene: Scene,
    terms: Terms,
    judge: Callable[[Procedure, str], Judge],
    given: list[tuple[Any, str | None, str]],
    facts: dict[str, str],
) -> Certificate:
    """Certify a procedure, and what is beside it if there is something."""
    given = given if given[1][0] is not None else given[:1]
    for function, _, which in given:
        if not callable(function):
            raise InvalidParameterError(
                f"{which} must be a function of published values, got {show(function)}"
            )
    names = [name_of(function, name) for function, name, _ in given]
    judges = [judge(function, which) for function, _, which in given]
    return terms.certificate(scene, judges, names[0], kind, facts, names[-1])


def certify_test(
    test: Callable[[FloatArray], Any],
    truth: Any,
    mechanism: Mechanism,
    *,
    alpha: float = 0.05,
    beside: Callable[[FloatArray], Any] | None = None,
    one_by_one: bool = False,
    name: str | None = None,
    beside_name: str | None = None,
    reps: int | None = None,
    margin: float = 0.1,
    error: float = 1e-3,
    rng: RNG = None,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> Certificate:
    """Find by simulation how often a test rejects a null hypothesis that is true.

    Parameters
    ----------
    test : callable
        The test, as a function of published values: of r simulated releases at once, shape (r,)
        or (r, m), or of one, shape () or (m,), with ``one_by_one``. It returns a result with
        ``pvalue``, or p-values: one for each release, shape (r,), or k of them, shape (r, k).
    truth : float, array of float, shape (m,), or a model
        Confidential values, or a model of :mod:`dpinfer.hypothesis_tests`, under which the
        null hypothesis is true.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all values, or one for each.
    alpha : float, default 0.05
        The nominal level, in (0, 1): p-values up to it reject.
    beside : callable, optional
        Another test of the same hypothesis, whose rate is to be shown beside.
    one_by_one : bool, default False
        Whether the test is a function of one release, for those that do not take many.
    name, beside_name : str, optional
        What to call the tests; by default as their functions are called.
    reps, margin, error, rng, n_jobs, progress
        As for :func:`certify_interval`.

    Returns
    -------
    Certificate
        The size with its Monte Carlo error, exact bounds and the verdict.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or ``test`` returns something else than
        p-values.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    See Also
    --------
    certify_model : The tests that the library offers for a null model.

    Notes
    -----
    The rule of the verdict is that of :class:`Certificate`. A p-value that exceeds ``alpha`` by
    rounding, 1e-12 of it, rejects.

    Examples
    --------
    A z test that ignores the noise, of counts where it has twice their variance:

    >>> from scipy import stats
    >>> from dpinfer import Laplace, poisson_ztest
    >>> from dpinfer.hypothesis_tests import Poisson
    >>> noise, null = Laplace(scale=5.0), Poisson(rate=25.0)
    >>> def ignorant(y):
    ...     return 2 * stats.norm.sf(abs(y - 25.0) / 5.0)
    >>> certify_test(lambda y: poisson_ztest(y, 1, 25.0, mechanism=noise), null, noise,
    ...              margin=0.2, rng=1, name="poisson_ztest")
    Certificate(poisson_ztest: size holds, rate 0.0506)
    >>> certify_test(ignorant, null, noise, margin=0.2, rng=1)
    Certificate(ignorant: size fails, rate 0.2300)
    """
    scene = Scene.checked(truth, mechanism)
    terms = Terms.checked(alpha, margin, error, reps, rng, n_jobs, progress)
    one = check_flag(one_by_one, "one_by_one")

    def judge(function: Procedure, which: str) -> Judge:
        return partial(judge_test, function, which, terms.alpha, one)

    given = [(test, name, "test"), (beside, beside_name, "beside")]
    return _certified("size", scene, terms, judge, given, scene.facts())


def certify_model(
    model: StudyModel,
    mechanism: Mechanism,
    tests: Tests | None = None,
    *,
    alpha: float = 0.05,
    reps: int | None = None,
    margin: float = 0.1,
    error: float = 1e-3,
    rng: RNG = None,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> Certificates:
    """Certify the tests of a null model, beside the one that ignores the noise.

    Parameters
    ----------
    model : Binomial, Poisson, Multinomial, ProductMultinomial or Independence
        The null hypothesis, which is true; see :mod:`dpinfer.hypothesis_tests`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    tests : mapping of str to callable, optional
        Tests of one's own, as for :func:`dpinfer.calibration.size_study`.
    alpha, reps, margin, error, rng, n_jobs, progress
        As for :func:`certify_interval`.

    Returns
    -------
    Certificates
        One for each test of :func:`dpinfer.calibration.size_study`, whose rates they are. Where a
        rate is known exactly, nothing is simulated.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or a test returns something else than p-values.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> from dpinfer.hypothesis_tests import Binomial
    >>> for found in certify_model(Binomial(nobs=100, value=0.255), Laplace.from_epsilon(0.5)):
    ...     print(repr(found))
    Certificate(proportions_ztest, exact: size holds, rate 0.0500)
    Certificate(z test, noise ignored: size fails, rate 0.0984)
    """
    terms = Terms.checked(alpha, margin, error, reps, rng, n_jobs, progress)
    study = size_study(
        model,
        mechanism,
        tests,
        alpha=terms.alpha,
        reps=terms.simulation.reps,
        rng=terms.seed,
        n_jobs=n_jobs,
        progress=progress,
    )
    rows = zip(study.tests, study.rate, study.reps, strict=True)
    return Certificates(
        tuple(
            Certificate(
                procedure=name,
                kind="size",
                alpha=terms.alpha,
                labels=("",),
                error_rate=rate,
                reps=np.array([replicates]),
                exact=bool(replicates == 0),
                margin=terms.margin,
                error=terms.error,
                seed=terms.seed if replicates else None,
                settings={"truth": show(model), "mechanism": show(mechanism)},
                notes=study.notes,
            )
            for name, rate, replicates in rows
        )
    )


Statement = Literal["values", "combined", "consistency"]

_NOISES_IN_BLOCK = 1 << 20
"""Noises drawn at a time for it."""

_SHOWN_LABELS = 1000
"""Released values whose labels are listed; there may be millions."""


def certify(
    release: Release,
    *,
    truth: Any = None,
    procedures: Sequence[Statement] | None = None,
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

        - ``"values"``: :func:`dpinfer.count_confint`, the interval of each published value, by
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
    count_confint holds [0.948 0.947 0.954]
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
    if release.weights is not None:
        raise InvalidParameterError(
            "release must have a noise of its own in each value to be certified, got values that "
            "share noises: certify the release that they were made from"
        )
    study = _ReleaseStudy.of(release, truth)
    share = study.scene(rounded=True).published_share()
    terms = Terms.checked(alpha, margin, error, reps, rng, n_jobs, progress, len(release), share)
    if procedures is None:
        overlaps = study.fit is not None and study.overlap is not None
        chosen = [*_STUDIES][: 1 if study.fit is None else 2 + overlaps]
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
            found = np.asarray(count_confint(release).estimate, dtype=np.float64)
            # what was clamped may be infinitely far beyond: it is taken as it was published
            answers = np.where(np.isfinite(found), found, release.values)
        return cls(release, answers, fit)

    @property
    def combined(self) -> CombinedEstimate:
        if self.fit is None:
            raise InvalidParameterError(
                "procedures must be ['values'] for a release with a threshold or a clamp, which "
                "combined estimates do not allow for"
            )
        return self.fit

    @cached_property
    def overlap(self) -> Overlap | None:
        found = self.combined._overlap()
        return None if found is None or not found.degrees else found

    def scene(self, *, rounded: bool) -> Scene:
        release, answers = self.release, self.answers
        if rounded and release.mechanism.is_integer:
            answers = np.rint(answers)
        return Scene.checked(answers, release.mechanism, release.threshold, release.clamp)

    def facts(self) -> dict[str, str]:
        return {"release": show(self.release), **self.scene(rounded=True).facts()}


def _of_values(study: _ReleaseStudy, terms: Terms) -> Certificate:
    release, ruled = study.release, study.fit is None
    methods: tuple[Literal["exact", "naive"], ...] = ("exact", "naive")
    return terms.certificate(
        study.scene(rounded=True),
        [partial(judge_values, release, terms.alpha, method) for method in methods[: 1 + ruled]],
        "count_confint",
        "coverage",
        study.facts(),
        "publishing rule ignored",
        _labels(release.labels, len(release)),
        ("coverage is given publication",) if release.threshold is not None else (),
    )


def _of_combined(study: _ReleaseStudy, terms: Terms) -> Certificate:
    fit, weights = study.combined, study.combined.weights
    methods: tuple[Method, ...] = ("exact", "asymptotic")
    upper = [np.asarray(fit.conf_int(terms.alpha, method).upper) for method in methods]
    target, params = weights @ study.answers, np.asarray(fit.params)
    return terms.certificate(
        study.scene(rounded=False),
        [partial(judge_linear, weights, target, end - params) for end in upper],
        "combine, conf_int",
        "coverage",
        study.facts(),
        "normal intervals",
        _labels(fit.targets.labels, len(fit)),
    )


def _of_consistency(study: _ReleaseStudy, terms: Terms) -> Certificate:
    fit, overlap = study.combined, study.overlap
    notes: tuple[str, ...] = ()
    if overlap is None:
        raise InvalidParameterError(
            "procedures must not have 'consistency' for a release without overlapping values, "
            "which cannot disagree"
        )
    test = fit.consistency_test(reps=1)  # tells the method, and the law if it is known
    if test.method == "exact":
        critical = test.null_distribution.critical_value(terms.alpha, "larger")
    else:
        # the certificate draws from the seed itself: this has to be another one
        reps, jobs = NULL_REPS * terms.simulation.reps, terms.simulation.n_jobs
        simulation = Simulation.checked(reps, terms.seed + 1, n_jobs=jobs)
        block = min(BLOCK, max(1, _NOISES_IN_BLOCK // overlap.size))
        critical = simulated_critical(overlap.draw, np.array([terms.alpha]), simulation, block)
        notes = (
            f"one critical value, from {NULL_REPS} times as many replicates, served all releases: "
            f"that adds {50 / NULL_REPS:g} % to the Monte Carlo error",
        )
    statistic = partial(_disagreement, overlap, study.answers)
    judge = partial(judge_rule, statistic, np.ravel(critical))
    name = f"consistency_test, {test.method}"
    return terms.certificate(
        study.scene(rounded=False), [judge], name, "size", study.facts(), notes=notes
    )


def _disagreement(overlap: Overlap, answers: FloatArray, published: FloatArray) -> FloatArray:
    assert overlap.of is not None
    return np.asarray(overlap.of((published - answers).T))


_STUDIES: dict[Statement, Callable[[_ReleaseStudy, Terms], Certificate]] = {
    "values": _of_values,
    "combined": _of_combined,
    "consistency": _of_consistency,
}


def _labels(labels: Any, size: int) -> list[str]:
    if labels is None or size > _SHOWN_LABELS:
        return [str(place) for place in range(size)]
    return [
        ", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels
    ]
