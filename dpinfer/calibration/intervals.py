"""Certificates of intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import RNG, FloatArray, check_array, check_flag, show
from dpinfer.calibration._tally import Judge, Judged, Terms
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.scene import Drawn, Scene
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
    judges: list[Judge] = [
        _IntervalJudge(
            function=_callable(function, which),
            which=which,
            target=_checked_target(target, scene),
            alpha=terms.alpha,
            one_by_one=check_flag(one_by_one, "one_by_one"),
            together=check_flag(together, "together"),
        )
        for function, which in ((interval, "interval"), (beside, "beside"))
        if which == "interval" or function is not None
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


def name_of(function: Any, name: str | None) -> str:
    """Return the name of a procedure: that given, or that of the function, which may be partial."""
    if name is not None:
        return str(name)
    inner = getattr(function, "func", function)
    found = str(getattr(inner, "__name__", type(inner).__name__))
    return "as given" if found == "<lambda>" else found


def _callable(function: Any, name: str) -> Callable[[FloatArray], Any]:
    if not callable(function):
        raise InvalidParameterError(
            f"{name} must be a function of published values, got {show(function)}"
        )
    return function  # type: ignore[no-any-return]


def _checked_target(target: Any, scene: Scene) -> Any:
    """Return what is to be covered: an array, a function, or None for the confidential values."""
    if target is None or callable(target):
        return target
    aim = check_array(target, "target")
    if aim.ndim > 1:
        raise InvalidParameterError(f"target must be a number or one-dimensional, got {aim.shape}")
    return aim


@dataclass(frozen=True)
class _IntervalJudge:
    """Counts misses; an object, so that other processes can be sent it."""

    function: Callable[[FloatArray], Any]
    which: str
    target: Any
    alpha: float
    one_by_one: bool
    together: bool

    def __call__(self, drawn: Drawn) -> Judged | None:
        counts, published = drawn.counts, drawn.published
        if not published.ndim > 1:
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
        if inside.ndim not in (1, 2) or len(inside) != len(published):
            raise InvalidParameterError(
                f"{self.which} must return an interval, or k of them, for each of "
                f"{len(published)} releases, got shape {inside.shape}"
            )
        inside, width = (part.reshape(len(published), -1) for part in (inside, width))
        if self.together:
            inside = np.asarray(inside.all(axis=1, keepdims=True))
            width = width.mean(axis=1, keepdims=True)
        return Judged(~inside, width)

    @property
    def _is_drawn(self) -> bool:
        """Whether each release has a target of its own."""
        return self.target is None or callable(self.target)

    def _aim(self, counts: FloatArray) -> FloatArray:
        """Return what is to be covered, in a shape that broadcasts against the intervals."""
        if self.target is None:
            return counts
        if callable(self.target):
            aim = check_array(self.target(counts), "target(counts)")
            if aim.ndim not in (1, 2) or len(aim) != len(counts):
                raise InvalidParameterError(
                    f"target must return an answer for each of {len(counts)} releases, got shape "
                    f"{aim.shape}"
                )
            return aim
        return np.asarray(self.target)

    def _measured(
        self, published: FloatArray, aim: FloatArray
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """Return which intervals hold what they are about, and their widths."""
        found = self.function(published)
        stated = getattr(found, "alpha", self.alpha)
        if not np.isclose(stated, self.alpha, rtol=1e-9, atol=0.0):
            raise InvalidParameterError(
                f"alpha must be that of the intervals, {stated:g}, got {self.alpha:g}"
            )
        if not hasattr(found, "contains"):
            lower, upper = self._ends(found)
            self._check_shapes(lower.shape, np.shape(aim))
            with np.errstate(invalid="ignore"):  # of two infinite ends on one side
                width = np.where(lower < upper, upper - lower, 0.0)
            return (lower <= aim) & (aim <= upper), width
        width = np.asarray(found.width)
        self._check_shapes(width.shape, np.shape(aim))
        return np.asarray(found.contains(aim)), width

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

    def _check_shapes(self, found: tuple[int, ...], aim: tuple[int, ...]) -> None:
        """Refuse intervals that do not fit what they are about, one for each."""
        fits = aim == found if self._is_drawn else aim in (found, found[-1:], ())
        if not fits:
            raise InvalidParameterError(
                f"target must have the shape of the intervals that {self.which} returns, {found}, "
                f"got {aim}: give what the intervals are about"
            )
