"""Certificates of tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_flag, show
from dpinfer.calibration._judges import TestJudge, name_of, procedures
from dpinfer.calibration._tally import Terms
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.collection import Certificates
from dpinfer.calibration.scene import Scene
from dpinfer.hypothesis_tests._size_tests import StudyModel
from dpinfer.hypothesis_tests.size_study import Tests, size_study
from dpinfer.mechanisms import Mechanism


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
        Confidential values, or a model of :mod:`dpinfer.hypothesis_tests.models`, under which the
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
    certify_model : The tests that the library offers for a null model, with exact rates where
        they are known.

    Notes
    -----
    The rule of the verdict and its error probability are those of :class:`Certificate`. A p-value
    that exceeds ``alpha`` by rounding, 1e-12 of it, rejects.

    Examples
    --------
    A z test that ignores the noise, of counts where it has twice their variance:

    >>> from scipy import stats
    >>> from dpinfer import Laplace, poisson_ztest
    >>> from dpinfer.hypothesis_tests.models import Poisson
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
    terms = Terms.checked(
        alpha=alpha,
        margin=margin,
        error=error,
        reps=reps,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
    )
    flag = check_flag(one_by_one, "one_by_one")
    judges = [
        TestJudge(function, which, terms.alpha, flag)
        for function, which in procedures(test, "test", beside)
    ]
    return terms.certificate(
        scene=scene,
        judges=judges,
        procedure=name_of(test, name),
        kind="size",
        beside=None if beside is None else name_of(beside, beside_name),
    )


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
        The null hypothesis, which is true; see :mod:`dpinfer.hypothesis_tests.models`.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noise: one for all counts, or one for each.
    tests : mapping of str to callable, optional
        Tests of one's own, as for :func:`dpinfer.size_study`.
    alpha, reps, margin, error, rng, n_jobs, progress
        As for :func:`certify_interval`.

    Returns
    -------
    Certificates
        One for each test of :func:`dpinfer.size_study`, whose rates they are. Where a rate is known
        exactly, nothing is simulated.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or a test returns something else than p-values.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> from dpinfer.hypothesis_tests.models import Binomial
    >>> for found in certify_model(Binomial(nobs=100, value=0.255), Laplace.from_epsilon(0.5)):
    ...     print(repr(found))
    Certificate(proportions_ztest, exact: size holds, rate 0.0500)
    Certificate(z test, noise ignored: size fails, rate 0.0984)
    """
    terms = Terms.checked(
        alpha=alpha,
        margin=margin,
        error=error,
        reps=reps,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
    )
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
