"""Size and power studies: how often tests reject, with and without regard to the noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, get_args

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_array, show
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._blocks import draws_in_block
from dpinfer.hypothesis_tests._size_tests import (
    Question,
    StudiedTest,
    StudyModel,
    default_tests,
)
from dpinfer.mechanisms._law import NoiseLaw
from dpinfer.mechanisms.independent import Mechanism, as_noise
from dpinfer.results._rejections import Rule, Study
from dpinfer.results.simulation import Simulation
from dpinfer.results.size_study import SizeStudy

Tests = Mapping[str, Callable[[FloatArray], Any]]


def size_study(
    model: StudyModel,
    mechanism: Mechanism,
    tests: Tests | None = None,
    *,
    truth: StudyModel | None = None,
    alpha: Any = (0.01, 0.05, 0.1),
    reps: int = 10_000,
    rng: RNG = None,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> SizeStudy:
    """Find how often tests reject a true null hypothesis, or a false one.

    Parameters
    ----------
    model : Binomial, Poisson, Multinomial, ProductMultinomial or Independence
        The null hypothesis; see :mod:`dpinfer.hypothesis_tests.models`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    tests : mapping of str to callable, optional
        Tests of one's own, instead of the default ones of the Notes: functions of simulated
        releases, shape (reps, k), or (reps,) where the model is of one count, that return
        p-values in [0, 1], shape (reps,). They get the releases block by block.
    truth : Binomial, Poisson, Multinomial, ProductMultinomial or Independence, optional
        What the counts are drawn from, if not from ``model``, in the shape of ``model``. The
        rates are then the power of the tests.
    alpha : float or array of float, shape (a,)
        The nominal levels, in (0, 1).
    reps : int, default 10_000
        Number of simulated releases. Rates that are known exactly need none.
    rng : None, int or numpy.random.Generator
        Source of the releases; an int is a seed. A generator is asked for a seed once.
    n_jobs : int or None, default 1
        Number of workers as joblib takes it; the answer does not depend on it.
    progress : bool, default False
        Whether to show a progress bar while simulating.

    Returns
    -------
    SizeStudy
        The rates with their Monte Carlo errors; has ``summary``, ``summary_frame`` and ``plot``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the shapes of ``model`` and ``truth`` differ,
        or a test returns something else than p-values.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    See Also
    --------
    dpinfer.null_distribution : the law of any statistic under a null model.

    Notes
    -----
    By default these are studied, all of them two-sided or against any alternative:

    - Binomial, and Poisson with one rate: :func:`dpinfer.proportions_ztest` or
      :func:`dpinfer.poisson_ztest`, exact, beside the z test (y - E)/√Var X of the published count
      y. All rates are exact.
    - Multinomial: :func:`dpinfer.chisquare` with Pearson's statistic and with the projected one,
      beside Pearson's with the χ² table of k - 1 degrees of freedom. The exact law gives the
      critical values of the first where it is accurate to 1e-8; otherwise ten times as many tables
      as releases are drawn for them, which adds 5 % to the standard errors of the rates under the
      null hypothesis. The name of the test says which. The projected one has the critical values of
      its limit, χ². Rates of Pearson's statistic are exact where its law is, under a multinomial
      truth.
    - Poisson with k rates: Pearson's statistic with the weighted sum of χ², beside that with the
      χ² table of k degrees of freedom.
    - Independence, with n public, and ProductMultinomial with one law for all rows, the hypothesis
      of homogeneity: :func:`dpinfer.chi2_contingency` with the projected statistic and its limit,
      χ², beside Pearson's test of the published table, which rejects nothing where a row or a
      column has a sum <= 0. Where the former does not decide, as it does not with an estimated
      expected count below 5, it does not reject.

    A test that simulates in itself is given as one of ``tests``. Let it seed a generator of its own
    in each call, so that the answer does not depend on the order of the blocks.

    Releases are drawn in blocks, each from its own child of the seed, and all tests look at the
    same ones: their rates differ by less than their errors suggest.

    Examples
    --------
    A test of one proportion that ignores the noise of ε = 0.5 rejects twice as often as it says:

    >>> from dpinfer import Laplace
    >>> from dpinfer.hypothesis_tests.models import Binomial, Multinomial
    >>> study = size_study(Binomial(nobs=100, value=0.255), Laplace.from_epsilon(0.5))
    >>> study.summary_frame()[["test", "alpha", "rate"]].round(4)
                           test  alpha    rate
    0  proportions_ztest, exact   0.01  0.0100
    1  proportions_ztest, exact   0.05  0.0500
    2  proportions_ztest, exact   0.10  0.1000
    3     z test, noise ignored   0.01  0.0326
    4     z test, noise ignored   0.05  0.0984
    5     z test, noise ignored   0.10  0.1631

    The power of tests of one's own, of the largest deviation of a cell here:

    >>> def largest_cell(counts):
    ...     return np.minimum(1.0, 3 * np.exp(-np.abs(counts - 20.0).max(axis=-1) / 5.0))
    >>> size_study(Multinomial(nobs=60, value=[1 / 3] * 3), Laplace(scale=2.0),
    ...            {"largest cell": largest_cell}, alpha=0.05, reps=1000, rng=1,
    ...            truth=Multinomial(nobs=60, value=[0.2, 0.2, 0.6]))
    SizeStudy(1 test at 1 level, 1000 releases)
    """
    null = _checked_model(model, "model")
    drawn = null if truth is None else _checked_model(truth, "truth")
    if drawn.shape != null.shape:
        raise InvalidParameterError(
            f"truth must have the shape of model, {null.shape}, got {drawn.shape}"
        )
    noise = as_noise(mechanism, max(1, prod(null.shape)), selected=True)
    if not null.shape and noise.shape:
        noise = noise.take(0)
    simulation = Simulation.checked(reps, rng, progress, n_jobs)
    question = Question(drawn, noise, _checked_levels(alpha), simulation)
    studied = default_tests(null, question) if tests is None else _own_tests(tests, question)
    return _result(studied, question, under_null=truth is None)


def _checked_model(model: Any, name: str) -> StudyModel:
    if isinstance(model, get_args(StudyModel)):
        return model  # type: ignore[no-any-return]
    raise InvalidParameterError(
        f"{name} must be a Binomial, Poisson, Multinomial, ProductMultinomial or Independence of "
        f"dpinfer.hypothesis_tests.models, got {show(model)}"
    )


def _checked_levels(alpha: Any) -> FloatArray:
    levels = check_array(alpha, "alpha", gt=0, lt=1)
    if levels.ndim > 1:
        raise InvalidParameterError(
            f"alpha must be a number or one-dimensional, got shape {levels.shape}"
        )
    return np.atleast_1d(levels)


def _own_tests(tests: Any, question: Question) -> list[StudiedTest]:
    """Return rules by which p-values, with their signs changed, are compared with levels."""
    if not isinstance(tests, Mapping) or not tests:
        raise InvalidParameterError(
            "tests must be a mapping from names to functions of published counts, got "
            f"{show(tests)}"
        )
    for name, test in tests.items():
        if not isinstance(name, str) or not callable(test):
            raise InvalidParameterError(
                "tests must map names to functions of published counts, got "
                f"{show(name)}: {show(test)}"
            )
    critical = -question.alpha
    return [
        StudiedTest(name, Rule(partial(_negative_pvalues, name, test), critical))
        for name, test in tests.items()
    ]


def _negative_pvalues(
    name: str, test: Callable[[FloatArray], Any], releases: FloatArray
) -> FloatArray:
    pvalues = check_array(test(releases), f"tests[{name!r}]", ge=0, le=1)
    if pvalues.shape != releases.shape[:1]:
        raise InvalidParameterError(
            f"tests[{name!r}] must map counts of shape {releases.shape} to p-values of shape "
            f"{releases.shape[:1]}, got {pvalues.shape}"
        )
    return -pvalues


@dataclass(frozen=True)
class _Releases:
    """Draws releases; an object, so that other processes can be sent it."""

    model: StudyModel
    noise: NoiseLaw

    def __call__(self, size: int, rng: np.random.Generator) -> FloatArray:
        counts = self.model.draw(size, rng)
        counts += self.noise.rvs(counts.shape, rng=rng)
        return counts


def _result(studied: list[StudiedTest], question: Question, *, under_null: bool) -> SizeStudy:
    """Simulate the rates that are not known exactly."""
    simulation = question.simulation
    rules = tuple(test.how for test in studied if isinstance(test.how, Rule))
    rates: Iterator[FloatArray] = iter(())
    if rules:
        draw = _Releases(question.truth, question.noise)
        block = draws_in_block(prod(question.truth.shape))
        rates = iter(Study(draw, rules).count(simulation, block) / simulation.reps)
    simulated = [isinstance(test.how, Rule) for test in studied]
    return SizeStudy(
        tests=tuple(test.name for test in studied),
        alpha=question.alpha,
        rate=np.array([next(rates) if isinstance(t.how, Rule) else t.how for t in studied]),
        reps=np.where(simulated, simulation.reps, 0),
        under_null=under_null,
    )
