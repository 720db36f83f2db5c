"""Plans: the power of a test or the width of an interval, and what reaches the one wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._check import show
from dpinfer._planning.engine import Row
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curve", "describe", "power", "solve", "width"]

Quantity = Literal["power", "width"]
Procedure = Callable[..., Any]

_INDEX: dict[str, tuple[str, ...]] = {
    "chi2_contingency": ("row_totals", "tables.HomogeneityPower", "tables.IndependencePower"),
    "chisquare": ("tables.GoodnessOfFitPower",),
    "chisquare_fit": ("tables.CompositeFitPower",),
    "counts_2indep": ("counts.LinearPower",),
    "counts_paired": ("counts.PairedCountsPower",),
    "counts_trend": ("counts.TrendPower",),
    "linear_ztest": ("counts.LinearPower",),
    "mcnemar": ("two_counts.McNemarPower",),
    "poisson_2indep": ("two_counts.TwoRatesPower",),
    "poisson_ztest": ("counts.PoissonPower",),
    "proportions_2indep": ("two_counts.TwoProportionsPower",),
    "proportions_trend": ("counts.ProportionsTrendPower",),
    "proportions_ztest": ("counts.ProportionPower",),
    "count_confint": ("threshold", "widths.ThresholdedWidth", "widths.CountWidth"),
    "unpublished_bound": ("widths.UnpublishedWidth",),
    "linear_confint": ("widths.LinearWidth",),
    "ratio_confint": ("widths.RatioWidth",),
    "linear_ratio_confint": ("widths.LinearRatioWidth",),
    "clipped_mean_confint": ("widths.ClippedMeanWidth",),
    "survey_total": ("widths.SurveyWidth",),
    "survey_mean": ("widths.SurveyWidth",),
    "stratified_total": ("widths.StratifiedWidth",),
    "stratified_mean": ("widths.StratifiedWidth",),
    "proportion_confint": ("expected_widths.ProportionWidth",),
    "poisson_confint": ("expected_widths.PoissonWidth",),
    "risk_ratio_confint": ("expected_widths.TwoByTwoWidth",),
    "odds_ratio_confint": ("expected_widths.TwoByTwoWidth",),
    "risk_difference_confint": ("expected_widths.TwoByTwoWidth",),
    "normal_mean_confint": ("expected_widths.NormalMeanWidth",),
    "count_posterior": ("posterior_widths.PosteriorWidth",),
}
"""The rows of procedures by their names.

Of several, the first is for plans with the argument that stands before it.
"""


def power(
    procedure: Procedure,
    *,
    mechanism: Any = None,
    budget: Any = None,
    alpha: Any = 0.05,
    **arguments: Any,
) -> Any:
    """Probability that a test rejects at a stated truth.

    Parameters
    ----------
    procedure : callable
        The test, such as :func:`dpinfer.proportions_ztest`.
    mechanism : NoiseLaw, sequence of NoiseLaw or callable
        The law of the noise: one for all published values or, where there are several, one for
        each. Or a function that makes it from a privacy budget, such as
        :meth:`Laplace.from_epsilon`.
    budget : float or array of float, optional
        Privacy budget > 0, where ``mechanism`` is a function of it.
    alpha : float or array of float, default 0.05
        Level of the test, in (0, 1).
    **arguments
        Arguments of the test, under the names that they have there, and what is assumed of the
        truth, such as ``proportion``: :func:`describe` lists them for each test. Numbers may be
        arrays.

    Returns
    -------
    float or array of float
        The power, in the shape to which the numbers broadcast. :func:`curve` has its Monte Carlo
        error, too, where it is simulated.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, missing or not one of the plan, or if there is no
        plan of the procedure.

    Warns
    -----
    ApproximationWarning
        If the power is that of a limit which is far off.

    Notes
    -----
    A test that has no plan of its own, and any other on demand, is planned by simulating itself
    with ``method="simulate"``: ``model(rng, mechanism, **numbers)`` draws one release and returns
    the arguments of the procedure as a dictionary. The power is the share of ``reps`` releases
    (default 1,000) whose p-value is at most ``alpha``; the releases are drawn from the seed ``rng``
    (default 0), the same at all numbers.

    Examples
    --------
    How probable is it that 1147 trials show a proportion of 0.30, not 0.25, under noise?

    >>> import dpinfer as dpi
    >>> dpi.plan.power(dpi.proportions_ztest, nobs=1147, value=0.25, proportion=0.30,
    ...                mechanism=dpi.Laplace.from_epsilon, budget=[0.05, 0.1, 1.0]).round(3)
    array([0.386, 0.8  , 0.967])

    A test with a noisy number of trials, which has no plan of its own:

    >>> def release(rng, mechanism, nobs, share):
    ...     count = rng.binomial(nobs, share) + mechanism.rvs(rng=rng)
    ...     noisy = nobs + mechanism.rvs(rng=rng)
    ...     return {"count": count, "nobs": noisy, "value": 0.25, "nobs_mechanism": mechanism,
    ...             "method": "asymptotic"}
    >>> dpi.plan.power(dpi.proportions_ztest, method="simulate", model=release, nobs=400, share=0.4,
    ...                mechanism=dpi.Geometric(scale=5.0), reps=50)
    np.float64(1.0)
    """
    given = {"mechanism": mechanism, "budget": budget, "alpha": alpha, **arguments}
    return _values("power", procedure, given)


def width(
    procedure: Procedure,
    *,
    mechanism: Any = None,
    budget: Any = None,
    alpha: Any = 0.05,
    **arguments: Any,
) -> Any:
    """Width of an interval at a stated truth.

    Parameters
    ----------
    procedure : callable
        The interval, such as :func:`dpinfer.count_confint`.
    mechanism, budget
        As for :func:`power`.
    alpha : float or array of float, default 0.05
        One minus the confidence level, in (0, 1).
    **arguments
        Arguments of the interval, under the names that they have there, and what is assumed of the
        truth: :func:`describe` lists them for each interval, and says whether the width is an
        expected one, a median, or that at published values which equal the truth.

    Returns
    -------
    float or array of float
        Upper end less lower end, in the shape to which the numbers broadcast. :func:`curve` has an
        estimate of its numerical error, too.

    Raises
    ------
    InvalidParameterError
        As :func:`power`.

    Notes
    -----
    With ``method="simulate"``, as for :func:`power`, it is the mean width of ``reps`` intervals.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> dpi.plan.width(dpi.count_confint, mechanism=dpi.Laplace.from_epsilon,
    ...                budget=[0.1, 0.5, 1], cells=50).round(2)
    array([137.65,  27.53,  13.77])
    """
    given = {"mechanism": mechanism, "budget": budget, "alpha": alpha, **arguments}
    return _values("width", procedure, given)


def solve(
    procedure: Procedure,
    *,
    mechanism: Any = None,
    budget: float | None = None,
    alpha: float | None = 0.05,
    power: float | None = None,
    width: float | None = None,
    **arguments: Any,
) -> float:
    """Solve a plan for the one number that is None.

    Parameters
    ----------
    procedure : callable
        The test or the interval.
    mechanism : NoiseLaw, sequence of NoiseLaw or callable
        As for :func:`power`.
    budget, alpha : float, optional
        As for :func:`power`.
    power : float, optional
        The power to be reached by a test, in (0, 1).
    width : float, optional
        The width wanted of an interval, > 0.
    **arguments
        As for :func:`power`, numbers as single ones.

    Returns
    -------
    float
        The smallest number that reaches what is wanted; for an effect the one nearest to no effect.
        A number of observations is a whole number where the truth has whole numbers of them: the
        one from which on the power is reached at all larger ones within 8·√n, at most 2,048, if it
        is quick to be had; otherwise one that reaches it while the number before it does not.

    Raises
    ------
    InvalidParameterError
        If not exactly one of the numbers is None, if the one that is wanted cannot be reached, or
        as :func:`power`.

    Warns
    -----
    ApproximationWarning
        As :func:`power`.

    Examples
    --------
    How many trials show that a proportion is 0.30, not 0.25, under noise of ε = 0.1?

    >>> import dpinfer as dpi
    >>> noise = dpi.Laplace.from_epsilon
    >>> dpi.plan.solve(dpi.proportions_ztest, power=0.8, nobs=None, value=0.25, proportion=0.30,
    ...                mechanism=noise, budget=0.1)
    1147.0

    Which ε makes the intervals for 50 counts ± 20 wide, all together?

    >>> round(dpi.plan.solve(dpi.count_confint, width=40, cells=50, mechanism=noise), 4)
    0.3441
    """
    targets = {"power": power, "width": width}
    given = {"mechanism": mechanism, "budget": budget, "alpha": alpha, **arguments}
    asked = [name for name, target in targets.items() if target is not None]
    if len(asked) > 1:
        raise InvalidParameterError(
            "power and width must not both be given: a plan has one of them"
        )
    row, numbers = _row(asked[0] if asked else None, procedure, given)
    found = row.solve(numbers, targets[row.quantity])
    row.warn(row.columns({n: found if v is None else v for n, v in numbers.items()})[0])
    return found


def curve(
    procedure: Procedure,
    *,
    mechanism: Any = None,
    budget: Any = None,
    alpha: Any = 0.05,
    quantity: Quantity | None = None,
    **arguments: Any,
) -> pd.DataFrame:
    """Power or width for all combinations of numbers, as a table and for a picture.

    Parameters
    ----------
    procedure, mechanism, budget, alpha, **arguments
        As for :func:`power` and :func:`width`; each number is one value or an array of shape (m,).
    quantity : {"power", "width"}, optional
        Which of them; needed with ``method="simulate"`` only.

    Returns
    -------
    DataFrame
        One row a combination, with a column for each number, and ``power`` with its Monte Carlo
        standard error ``mc_error``, 0 where nothing was simulated, or ``width`` with its estimated
        numerical ``error``. :func:`dpinfer.plotting.plot_curve` draws it. Its ``attrs`` have, where
        there is an ``effect``, Cohen's ``effect_size`` of ``truth`` and the ``largest_effect``.

    Raises
    ------
    InvalidParameterError
        As :func:`power`.

    Warns
    -----
    ApproximationWarning
        As :func:`power`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> frame = dpi.plan.curve(dpi.proportions_ztest, nobs=[500, 1000], value=0.25,
    ...                        proportion=0.3, mechanism=dpi.Laplace.from_epsilon, budget=[0.1, 1])
    >>> frame.round(3)
         nobs  proportion  alpha  budget  power  mc_error
    0   500.0         0.3   0.05     0.1  0.271       0.0
    1   500.0         0.3   0.05     1.0  0.712       0.0
    2  1000.0         0.3   0.05     0.1  0.714       0.0
    3  1000.0         0.3   0.05     1.0  0.944       0.0
    """
    import pandas as pd

    given = {"mechanism": mechanism, "budget": budget, "alpha": alpha, **arguments}
    row, numbers = _row(quantity, procedure, given)
    axes = {}
    for name, value in numbers.items():
        axis = row.columns({name: value})[0][name]
        if np.ndim(value) > 1:
            raise InvalidParameterError(
                f"{name} must be a number or one-dimensional, got shape {np.shape(value)}"
            )
        axes[name] = axis
    columns = dict(zip(axes, np.array(list(product(*axes.values()))).T, strict=True))
    values, errors = row.evaluate(columns)
    row.warn(columns)
    extra = row.extra(columns, errors)
    frame = pd.DataFrame({**columns, row.quantity: values, row.error: errors, **extra})
    varied = [name for name, axis in axes.items() if axis.size > 1]
    frame.attrs = {"x": varied, "y": row.quantity, "error": row.error, **row.facts()}
    return frame


def describe(procedure: Procedure, **design: Any) -> str:
    r"""Say what a plan of a procedure takes and how it is computed.

    Parameters
    ----------
    procedure : callable
        The test or the interval.
    **design
        An argument by which its plans differ, such as ``row_totals=True`` of
        :func:`dpinfer.chi2_contingency`.

    Returns
    -------
    str
        Its numbers, which can be solved for, what is fixed, and what is assumed.

    Raises
    ------
    InvalidParameterError
        If there is no plan of the procedure.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> print(dpi.plan.describe(dpi.proportions_ztest).partition("\n\n")[0])
    power of proportions_ztest
    numbers: nobs, proportion, alpha, budget
    fixed: mechanism, value, alternative='two-sided', method='exact'
    """
    row = _row_class(None, procedure, design)
    fixed = [
        x.name if x.default is MISSING or x.name == "mechanism" else f"{x.name}={x.default!r}"
        for x in fields(row)
        if x.init and x.name != "procedure"
    ]
    numbers = [*row.own, "alpha", *(["budget"] if row.has_mechanism else [])]
    return (
        f"{row.quantity} of {procedure.__name__}\nnumbers: {', '.join(numbers)}\n"
        f"fixed: {', '.join(fixed)}\n\n{inspect.getdoc(row)}"
    )


def _values(quantity: Quantity, procedure: Procedure, given: dict[str, Any]) -> Any:
    row, numbers = _row(quantity, procedure, given)
    columns, shape = row.columns(numbers)
    values, _ = row.evaluate(columns)
    row.warn(columns)
    return values.reshape(shape)[()]


def _row(
    quantity: str | None, procedure: Procedure, given: dict[str, Any]
) -> tuple[Row, dict[str, Any]]:
    """Return the row of a procedure with what is fixed, and its numbers."""
    kind = _row_class(quantity, procedure, given)
    known = {x.name: x for x in fields(kind) if x.init}
    fixed = {name: value for name, value in given.items() if name in known}
    for name, x in known.items():
        if name not in fixed and x.default is MISSING and name != "procedure":
            raise InvalidParameterError(f"{name} must be given to plan {procedure.__name__}")
    rest = {name: value for name, value in given.items() if name not in known}
    if "numbers_of" in known:  # whatever the model takes
        fixed["numbers_of"] = tuple(name for name in rest if name not in ("alpha", "budget"))
    row = kind(procedure=procedure, **fixed)
    return row, row.numbers({**row.optional, **rest})


def _row_class(quantity: str | None, procedure: Procedure, given: Mapping[str, Any]) -> type[Row]:
    """Return the kind of row that plans a procedure with these arguments."""
    if not callable(procedure):
        raise InvalidParameterError(
            "procedure must be a test or an interval, such as dpinfer.proportions_ztest, got "
            f"{show(procedure)}"
        )
    name = getattr(procedure, "__name__", "")
    if isinstance(given.get("method"), str) and given["method"] == "simulate":
        places: tuple[str, ...] = (f"replicates.Simulated{(quantity or 'power').capitalize()}",)
    elif name in _INDEX and getattr(procedure, "__module__", "").startswith("dpinfer."):
        places = _INDEX[name]
    else:
        raise InvalidParameterError(
            f"procedure must be one that has a plan, {', '.join(_INDEX)}, got {show(procedure)}: "
            "plan others by method='simulate' with model=, a function that draws releases"
        )
    *splits, last = places
    place = last
    for argument, split in zip(splits[::2], splits[1::2], strict=True):
        if given.get(argument) is not None:
            place = split
            break
    module, kind = place.split(".")
    row: type[Row] = getattr(import_module(f"dpinfer._planning.{module}"), kind)
    if quantity not in (None, row.quantity):
        raise InvalidParameterError(
            f"{name} has a {row.quantity} to be planned, not a {quantity}: give {row.quantity}= to "
            f"solve, or call dpinfer.plan.{row.quantity}"
        )
    return row
