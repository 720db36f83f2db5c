"""The curator's side: a noisy error of what was published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpinfer._validation import (
    NEIGHBOURS,
    RNG,
    FloatArray,
    Neighbours,
    check_array,
    check_option,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms import Mechanism, NoiseLaw, as_noise, groups
from dpinfer.mechanisms.samplers import Sampler, noise_source
from dpinfer.privacy.composition import BudgetLedger
from dpinfer.privacy.guarantees import GDP, ZCDP, Guarantee, guarantee_of
from dpinfer.queries import Workload, check_counting
from dpinfer.results.labels import attach_labels, split_labels
from dpinfer.spending._families import find_family
from dpinfer.spending._measures import MEASURES, Measure, check_workload
from dpinfer.spending.error_estimate import ErrorEstimate, check_same_labels


def spend_on_error(
    truth: Any,
    published: Any,
    *,
    mechanism: Mechanism | type[NoiseLaw] | None = None,
    budget: Guarantee | None = None,
    measure: Measure = "signed",
    clip: float | None = None,
    neighbours: Neighbours | None = None,
    workload: Any = None,
    sensitivity: float | None = None,
    release: Guarantee | None = None,
    ledger: BudgetLedger | None = None,
    name: str = "error estimate",
    sampler: Sampler = "simulated",
    rng: RNG = None,
) -> ErrorEstimate:
    """Estimate the error of what was published, for more privacy budget.

    For the curator, who holds the confidential values. When published values were clipped, rounded
    or fitted, the law of their errors depends on the truth. A noisy error says how far off they
    are, for the budget of one more release.

    Parameters
    ----------
    truth : float, array of float, shape (k,), or Series
        The confidential values.
    published : float, array of float, shape (k,), or Series
        The values that were published for them, by whatever way.
    mechanism : NoiseLaw, sequence of NoiseLaw, or type
        The law of the noise of the error estimate; of each of the k for signed errors. With a
        ``budget`` the class of the noise, or nothing for that which goes with the budget; see
        :func:`plan_release`.
    budget : PureDP, ZCDP or GDP, optional
        What to spend, in place of a law: noise is scaled to the sensitivity of the measure.
    measure : {"signed", "l1", "squared"}
        What to publish with noise: the k errors truth - published; their sum of absolute values;
        or the sum of their squares, each error cut off at ``clip``.
    clip : float, optional
        The bound C > 0 of an error in the squared error, and only there: without it one record
        could move the square of a large error by any amount. State it before seeing the errors.
    neighbours : {"add-remove", "replace"}, optional
        Whether neighbouring data sets differ by one record more, or by one that is changed. By
        default that of the budget, and ``"add-remove"`` without one.
    workload : Workload or matrix, shape (k, n), optional
        The queries that the values answer. By default every record is counted in one value, at
        most, as in the cells of a table.
    sensitivity : float, optional
        How far one record can move the measure, where the values are no such counts: in the L2
        norm for signed errors under (discrete) Gaussian noise, in the L1 norm otherwise.
    release : Guarantee, optional
        The guarantee of what was published, for the budget spent in all.
    ledger : BudgetLedger, optional
        Where to enter the expense, by a name that says so if it is simulated. One that has too
        little left refuses it before any noise is drawn.
    name : str
        What the expense is called there.
    sampler : {"simulated", "opendp"}, default "simulated"
        ``"simulated"``: draws in floating point, for studies. The result carries no guarantee, as
        such outputs can rule out one of two neighbouring truths. ``"opendp"``: exact draws of
        OpenDP, of the extra ``release``, from the randomness of the operating system, for
        whole ``truth``, and whole ``published`` and ``clip`` too unless errors are signed.
    rng : None, int or numpy.random.Generator, optional
        Source of the noise of a simulation; None for ``"opendp"``.

    Returns
    -------
    ErrorEstimate
        The noisy error and what it says about the confidential values. It holds nothing that is
        confidential.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, the mechanism has no guarantee, or OpenDP does
        not have it, or values are not whole for ``sampler="opendp"``.
    MissingExtraError
        If OpenDP is not installed.
    IncompatibleReleaseError
        If noise that takes whole numbers only is to be added to something that does not, the
        ledger has too little left, or its guarantee, the budget or that of the release is for
        other neighbours.

    Notes
    -----
    The published values are known to everybody and count as fixed, so that the sensitivity of the
    error is that of the query itself, and release and error estimate compose sequentially. One
    record moves the signed errors of disjoint counts, and their L1 error, by 1; under
    ``"replace"`` it leaves one count and enters another, and moves them by 2 (√2 in the L2 norm).
    A squared error cut off at C moves by at most C² - (C - 1)² = 2C - 1 for each count that
    moves by 1 (C² where C < 1): it grows fastest just below the bound.

    The noisy signed error of a single count, plus the published value, is nothing but a noisy
    count; see :meth:`ErrorEstimate.corrected`, and :func:`dpinfer.spending.compare_spending` for
    when it is worth its budget.

    References
    ----------
    Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy.
    doi:10.1561/0400000042, Theorems 3.6 and 3.16.

    Examples
    --------
    Two counts (3, 5) were published with noise, and the negative one rounded up to zero:

    >>> from dpinfer import Laplace
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> error = spend_on_error([3, 5], [0, 7], mechanism=Laplace.from_epsilon(1.0),
    ...                        release=PureDP(1.0), rng=1)
    >>> error.conf_int(alpha=0.1).width.round(4)
    array([4.6052, 4.6052])
    >>> error.value_conf_int(alpha=0.1).contains([3, 5])
    array([ True,  True])
    >>> error.sensitivity, error.nominal, error.guarantee
    (1.0, PureDP(epsilon=1.0, neighbours='add-remove'), None)

    It was simulated, and so carries no guarantee. A release has one, and no seed:

    >>> error = spend_on_error([3, 5], [0, 7], mechanism=Laplace.from_epsilon(1.0),
    ...                        release=PureDP(1.0), sampler="opendp")  # doctest: +SKIP
    >>> error.spent  # doctest: +SKIP
    PureDP(epsilon=2.0, neighbours='add-remove')

    The sum of the squares of both errors, each of them at most 3², for ε = 1/2:

    >>> total = spend_on_error([3, 5], [0, 7], budget=PureDP(0.5), measure="squared", clip=3.0)
    >>> total.sensitivity, total.mechanism.scale, total.nominal
    (5.0, 10.0, PureDP(epsilon=0.5, neighbours='add-remove'))
    """
    source = noise_source(sampler, rng)
    kind = MEASURES[check_option(measure, "measure", MEASURES)]
    relation = _check_neighbours(neighbours, budget)
    bound = _check_clip(clip, measure)
    true, known, labels = _check_values(truth, published)
    queries = check_workload(workload, true.size, measure)
    order, noise = _read_noise(mechanism, budget, true.size if kind.vector else 1)
    change = kind.sensitivity(queries, true.size, relation, bound, order)
    if sensitivity is not None:
        if workload is not None:
            raise InvalidParameterError("sensitivity must be left out where a workload is given")
        change = check_scalar(sensitivity, "sensitivity", gt=0)
    law = noise(change)
    guarantee = guarantee_of(law, change, relation)
    check_relation(budget, guarantee)
    check_relation(release, guarantee)
    _check_whole(law, true, known, bound, queries, kind.vector)
    if not source.simulated and not kind.vector:
        _check_sums(known, bound)
    with np.errstate(over="ignore"):
        value = check_array(kind.reduce(true - known, bound), "truth - published")
    if ledger is not None:
        _record(ledger, f"{name} (simulated)" if source.simulated else name, law, change, guarantee)
    # what was published is known, and is taken off the noisy truth for a release: it may be no
    # whole number
    exact = kind.vector and not source.simulated
    noisy = source.add(true, law) - known if exact else source.add(value, law)
    return ErrorEstimate(
        published=attach_labels(freeze(known), labels),
        estimate=attach_labels(freeze(noisy), labels if kind.vector else None),
        mechanism=law,
        measure=measure,
        clip=None if measure != "squared" else bound,
        sensitivity=change,
        sampler=source.sampler,
        nominal=guarantee,
        release=release,
        labels=labels,
    )


def _record(
    ledger: object, name: str, law: NoiseLaw, sensitivity: float, guarantee: Guarantee
) -> None:
    """Enter the expense into a ledger, which may refuse it."""
    if not isinstance(ledger, BudgetLedger):
        raise InvalidParameterError(f"ledger must be a BudgetLedger, got {show(ledger)}")
    check_relation(ledger.budget, guarantee)
    ledger.record(name, mechanism=law, sensitivity=sensitivity)


def check_relation(release: object, guarantee: Guarantee) -> None:
    """Refuse another guarantee, of the release or a ledger, for another neighbour relation."""
    if release is None:
        return
    if not isinstance(release, Guarantee):
        raise InvalidParameterError(
            f"release must be a guarantee, such as PureDP(1.0), got {show(release)}"
        )
    if release.neighbours != guarantee.neighbours:
        raise IncompatibleReleaseError(
            f"neighbours must be {release.neighbours!r}, as for {release}, got "
            f"{guarantee.neighbours!r}: guarantees for different relations do not compose"
        )


def _check_neighbours(neighbours: object, budget: object) -> Neighbours:
    if neighbours is None:
        return budget.neighbours if isinstance(budget, Guarantee) else "add-remove"
    return check_option(neighbours, "neighbours", NEIGHBOURS)


def _read_noise(
    mechanism: Any, budget: Guarantee | None, size: int
) -> tuple[int, Callable[[float], NoiseLaw]]:
    """Return the order of the norm of the sensitivity, and the law of the noise by it."""
    if budget is not None:
        whole, family = find_family(budget, mechanism)
        return family.order, lambda change: as_noise(family.law(family.unit(whole, change)), size)
    if mechanism is None:
        raise InvalidParameterError("mechanism must be given, or else the budget to spend")
    law = as_noise(mechanism, size)
    return 2 if isinstance(guarantee_of(law), (GDP, ZCDP)) else 1, lambda _: law


def _check_clip(clip: object, measure: Measure) -> float:
    if measure == "squared":
        if clip is None:
            raise InvalidParameterError(
                "clip must be given for measure='squared': without a bound on each error one "
                "record can move its square by any amount, and no finite noise makes it private"
            )
        return check_scalar(clip, "clip", gt=0, le=1e50)
    if clip is not None:
        raise InvalidParameterError(f"clip must be None for measure={measure!r}, got {show(clip)}")
    return np.inf


def _check_values(truth: Any, published: Any) -> tuple[FloatArray, FloatArray, Any]:
    """Return both vectors, and the labels of either."""
    true, labels = split_labels(truth, "truth")
    known, own = split_labels(published, "published")
    if true.ndim > 1 and labels is None:
        raise InvalidParameterError(
            f"truth must be a number or one-dimensional, got shape {true.shape}"
        )
    if true.shape != known.shape:
        raise InvalidParameterError(
            f"published must have the shape {true.shape} of truth, got {known.shape}"
        )
    check_same_labels(labels, own, "truth")
    return true, known, own if labels is None else labels


def _check_sums(known: FloatArray, bound: float) -> None:
    """Refuse sums of errors that are no whole numbers, which are not computed exactly."""
    for name, values in (("published", known), ("clip", np.asarray(bound))):
        if not np.isinf(values).any() and (values != np.floor(values)).any():
            raise InvalidParameterError(
                f"{name} must hold whole numbers for sampler='opendp' and a sum of errors, which "
                "is otherwise rounded: round what was published, or use measure='signed'"
            )


def _check_whole(
    law: NoiseLaw,
    true: FloatArray,
    known: FloatArray,
    bound: float,
    queries: Workload | None,
    vector: bool,
) -> None:
    """Refuse whole-numbered noise where outputs of neighbouring data sets had no value in common.

    Signed errors of whole counts differ from whole numbers by what was published, which is known.
    """
    if queries is not None:
        check_counting(queries, law)
    if not any(part.is_integer for part, _ in groups(law, 1)):
        return
    for name, values in (("truth", true), ("published", known), ("clip", np.asarray(bound))):
        if name != "truth" and (vector or np.isinf(values).any()):
            continue
        if (values != np.floor(values)).any():
            raise IncompatibleReleaseError(
                f"{name} must hold whole numbers under {type(law).__name__} noise, which takes "
                "whole numbers only: outputs of neighbouring data sets would have no value in "
                "common, which is not private; use continuous noise"
            )
