"""Certificates of intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpinfer._validation import RNG, FloatArray, check_array, check_flag, show
from dpinfer.calibration._judges import IntervalJudge, name_of, procedures
from dpinfer.calibration._tally import Terms
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.scene import Scene
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Mechanism


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
        The confidential values. With a model of :mod:`dpinfer.hypothesis_tests.models` they are
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
        such as those with ``method="normal"``.
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
    ...     lambda y: count_confint(y, noise, alpha=0.01), 40, noise, alpha=0.01, rng=1,
    ...     beside=lambda y: count_confint(y, noise, alpha=0.01, method="normal"),
    ...     name="count_confint", margin=0.2,
    ... )
    >>> found
    Certificate(count_confint: coverage holds, rate 0.9899)

    At this level the normal interval is narrower than it may be:

    >>> found.mean_width.round(2), found.beside_width.round(2), found.beside_error_rate.round(3)
    (array([18.42]), array([14.57]), array([0.025]))
    """
    scene = Scene.checked(truth, mechanism, threshold, clamp)
    if threshold is not None and scene.shape:
        raise InvalidParameterError(
            f"truth must be one value where threshold is given, got {scene.shape[0]}: use certify "
            "for a release of several"
        )
    terms = Terms.checked(
        alpha=alpha,
        margin=margin,
        error=error,
        reps=reps,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
        published=scene.published_share(),
    )
    aim = _checked_target(target)
    one, all_of_them = check_flag(one_by_one, "one_by_one"), check_flag(together, "together")
    judges = [
        IntervalJudge(function, which, aim, terms.alpha, one, all_of_them)
        for function, which in procedures(interval, "interval", beside)
    ]
    facts = scene.facts()
    if target is not None and not callable(target):
        facts["target"] = show(np.asarray(target).tolist())
    return terms.certificate(
        scene=scene,
        judges=judges,
        procedure=name_of(interval, name),
        kind="coverage",
        beside=None if beside is None else name_of(beside, beside_name),
        settings=facts,
    )


def _checked_target(target: Any) -> Any:
    """Return what is to be covered: an array, a function, or None for the confidential values."""
    if target is None or callable(target):
        return target
    aim = check_array(target, "target")
    if aim.ndim > 1:
        raise InvalidParameterError(f"target must be a number or one-dimensional, got {aim.shape}")
    return aim
