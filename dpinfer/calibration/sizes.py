"""How often tests reject a true null hypothesis or a false one, with and without the noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, final, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import RNG, FloatArray, check_array, freeze, show
from dpinfer._numerics.roots import find_root
from dpinfer._planning.counts import critical_distance
from dpinfer._style import REFERENCE, add_legend, marker, series, styled_axes
from dpinfer.calibration._scenes import (
    NULL_REPS,
    Judge,
    Scene,
    StudyModel,
    count_errors,
    judge_rule,
    simulated_critical,
)
from dpinfer.calibration.certificate import EQUAL_RATES
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests._fitted_tables import Margins, ProductMargins, RowMargins, TableModel
from dpinfer.hypothesis_tests._noisy_tables import (
    SMALL_EXPECTED,
    NoiseForm,
    NoisyTable,
    SimulatedStatistic,
    projected,
)
from dpinfer.hypothesis_tests._one_count import OneCount
from dpinfer.hypothesis_tests._quadratic.law import QuadraticLaw
from dpinfer.hypothesis_tests.models import (
    Binomial,
    Independence,
    Multinomial,
    Poisson,
    ProductMultinomial,
    draws_in_block,
)
from dpinfer.hypothesis_tests.null import null_distribution
from dpinfer.mechanisms._noisy_count import NoisyBinomial, NoisyCount, NoisyPoisson
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.results.null import clopper_pearson
from dpinfer.results.presentation import Listed
from dpinfer.results.simulation import Simulation
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


Tests = Mapping[str, Callable[[FloatArray], Any]]

_MISSED = 0.05
"""Probability with which an interval for a rejection rate misses it."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SizeStudy(Listed):
    """Rejection rates of tests; made by :func:`dpinfer.calibration.size_study`.

    Parameters
    ----------
    tests : tuple of str
        Names of the t tests.
    alpha : array of float, shape (a,)
        The nominal levels.
    rate : array of float, shape (t, a)
        The rates at which the tests reject.
    reps : array of int, shape (t,)
        Number of simulated releases behind the rates of each test; 0 where they are exact.
    under_null : bool
        Whether the null hypothesis was true, so that the rates are to be compared with the levels.
        Otherwise they are the power.
    notes : tuple of str
        What else the reader has to know, one remark each.

    Examples
    --------
    >>> study = SizeStudy(tests=("z test",), alpha=np.array([0.05]), rate=np.array([[0.056]]),
    ...                   reps=np.array([10_000]))
    >>> study.excess.round(2), study.mc_error.round(4)
    (array([[2.75]]), array([[0.0023]]))
    """

    tests: tuple[str, ...]
    alpha: FloatArray
    rate: FloatArray
    reps: NDArray[np.int64]
    under_null: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("alpha", "rate", "reps"):
            object.__setattr__(self, name, freeze(np.asarray(getattr(self, name))))

    @property
    def mc_error(self) -> FloatArray:
        """Monte Carlo standard errors of the rates, shape (t, a); 0 where they are exact."""
        return self._error(self.rate)

    @property
    def excess(self) -> FloatArray:
        """By how many standard errors the rates exceed the levels, shape (t, a).

        The standard errors are those of a test whose rate is the level, √(α(1 - α)/R). Where a
        rate is exact it is infinite, or 0 if the rate is the level.
        """
        above, error = (
            self.rate - self.alpha,
            self._error(np.broadcast_to(self.alpha, self.rate.shape)),
        )
        above = np.where(np.abs(above) > EQUAL_RATES * self.alpha, above, 0.0)
        exact = np.where(above == 0.0, 0.0, np.copysign(np.inf, above))
        return np.where(error > 0.0, above / np.where(error > 0.0, error, 1.0), exact)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of 95 % intervals for the rates, shape (t, a).

        Those of Clopper and Pearson (1934, doi:10.1093/biomet/26.4.404); exact rates as they are.
        """
        reps = np.broadcast_to(self.reps[:, np.newaxis], self.rate.shape)
        low, high = clopper_pearson(np.round(self.rate * reps), reps, 0.5 * _MISSED)
        simulated = reps > 0
        return np.where(simulated, low, self.rate), np.where(simulated, high, self.rate)

    def summary_frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each test and level.

        Its columns are ``test``, ``alpha``, ``rate``, ``mc_error``, ``ci_lower``, ``ci_upper``,
        ``reps`` (0 where the rate is exact) and, under the null hypothesis, ``excess``.
        """
        import pandas as pd

        lower, upper = self.bounds()
        levels = self.alpha.size
        columns: dict[str, Any] = {
            "test": np.repeat(np.array(self.tests, dtype=object), levels),
            "alpha": np.tile(self.alpha, len(self.tests)),
            "rate": self.rate.ravel(),
            "mc_error": self.mc_error.ravel(),
            "ci_lower": lower.ravel(),
            "ci_upper": upper.ravel(),
            "reps": np.repeat(self.reps, levels),
        }
        if self.under_null:
            columns["excess"] = self.excess.ravel()
        return pd.DataFrame(columns)

    def _rows(self) -> tuple[int, pd.Index | None]:
        import pandas as pd

        return self.rate.size, pd.Index(
            np.repeat(np.array(self.tests, dtype=object), self.alpha.size)
        )

    def _table(self) -> Table:
        frame = self.summary_frame()
        shown = {"alpha": [f"{level:g}" for level in frame["alpha"]]}
        names = ("rate", "mc_error", *(("excess",) if self.under_null else ()))
        columns = {**shown, **{name: frame[name].to_numpy() for name in names}}
        what = "Size of tests" if self.under_null else "Power of tests"
        facts: list[tuple[str, object]] = [
            ("Null hypothesis", "true" if self.under_null else "false"),
            ("Releases", f"{self.reps.max()}" if self.reps.any() else "none, the rates are exact"),
        ]
        notes = list(self.notes)
        if exact := [name for name, n in zip(self.tests, self.reps, strict=True) if n == 0]:
            notes.insert(0, f"exact rates: {'; '.join(exact)}")
        if self.under_null:
            notes.insert(0, "excess: rate above alpha, in standard errors")
        alike = ("rate", "mc_error")
        return Table(what, facts, columns, index=frame["test"], notes=notes, alike=alike)

    def plot(self, ax: Any = None) -> Any:
        """Draw rejection rates with 95 % intervals against levels; needs the extra ``[plot]``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.
        """
        axes = styled_axes(ax)
        order = np.argsort(self.alpha)
        levels = self.alpha[order]
        rows = zip(self.tests, self.rate, *self.bounds(), strict=True)
        for place, (name, rate, low, high) in enumerate(rows):
            bars = np.maximum([rate - low, high - rate], 0.0)[:, order]
            look = {**series(place), **marker(place), "capsize": 2}
            axes.errorbar(levels, rate[order], yerr=bars, label=name, **look)
        ends = [0.0, float(levels[-1])]
        axes.plot(ends, ends, color=REFERENCE, linewidth=1.0, label="nominal level")
        axes.set_xlabel("nominal level α")
        axes.set_ylabel("rejection rate" if self.under_null else "power")
        add_legend(axes)
        return axes

    def _error(self, rate: FloatArray) -> FloatArray:
        reps = self.reps[:, np.newaxis]
        return np.where(reps > 0, np.sqrt(rate * (1.0 - rate) / np.maximum(reps, 1)), 0.0)

    def __repr__(self) -> str:
        tests, levels = len(self.tests), self.alpha.size
        how = f"{self.reps.max()} releases" if self.reps.any() else "exact"
        return (
            f"SizeStudy({tests} test{'s' * (tests > 1)} at {levels} level{'s' * (levels > 1)}, "
            f"{how})"
        )


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
        The null hypothesis; see :mod:`dpinfer.hypothesis_tests`.
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
    dpinfer.hypothesis_tests.null_distribution : the law of any statistic under a null model.

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
    >>> from dpinfer.hypothesis_tests import Binomial, Multinomial
    >>> noise = Laplace.from_epsilon(0.5)
    >>> study = size_study(Binomial(nobs=100, value=0.255), noise, alpha=0.05)
    >>> study.summary_frame()[["test", "alpha", "rate"]].round(4)
                           test  alpha    rate
    0  proportions_ztest, exact   0.05  0.0500
    1     z test, noise ignored   0.05  0.0984

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
    scene = Scene.checked(drawn, mechanism)
    simulation = Simulation.checked(reps, rng, progress, n_jobs)
    levels = check_array(alpha, "alpha", gt=0, lt=1)
    if levels.ndim > 1:
        raise InvalidParameterError(
            f"alpha must be a number or one-dimensional, got shape {levels.shape}"
        )
    levels = np.atleast_1d(levels)
    if tests is None:
        studied = _default_tests(null, scene, levels, simulation)
    else:
        studied = _own_tests(tests, levels)
    simulated = {name: how for name, how in studied.items() if callable(how)}
    rates = {name: how for name, how in studied.items() if not callable(how)}
    if simulated:
        block = draws_in_block(prod(drawn.shape))
        sums = count_errors(scene, [*simulated.values()], simulation, block)
        rates |= zip(simulated, sums[:, 1] / simulation.reps, strict=True)
    return SizeStudy(
        tests=tuple(studied),
        alpha=levels,
        rate=np.array([rates[name] for name in studied]),
        reps=np.array([simulation.reps if name in simulated else 0 for name in studied]),
        under_null=truth is None,
    )


def _checked_model(model: Any, name: str) -> StudyModel:
    if isinstance(model, get_args(StudyModel)):
        return model  # type: ignore[no-any-return]
    raise InvalidParameterError(
        f"{name} must be a Binomial, Poisson, Multinomial, ProductMultinomial or Independence of "
        f"dpinfer.hypothesis_tests, got {show(model)}"
    )


def _own_tests(tests: Any, alpha: FloatArray) -> Studied:
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
    return {
        name: partial(judge_rule, partial(_negative_pvalues, name, test), -alpha)
        for name, test in tests.items()
    }


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


# The tests of the library, and those that ignore the noise.


_PEARSON_IGNORANT = "Pearson's test, noise ignored"

_PRECISION = 1e-10
"""Relative precision of exact critical values."""

Studied = dict[str, FloatArray | Judge]
"""Rates of tests at each level where they are known, and judges of releases for the others."""


def _default_tests(
    model: StudyModel, scene: Scene, alpha: FloatArray, simulation: Simulation
) -> Studied:
    if isinstance(model, Multinomial):
        return _goodness_of_fit(model, scene, alpha, simulation)
    if isinstance(model, ProductMultinomial | Independence):
        return _contingency(model, scene.noise, alpha)
    if isinstance(model, Poisson) and model.shape:
        return _independent_counts(model, scene.noise, alpha)
    return _one_count(model, scene, alpha)


def _one_count(model: Binomial | Poisson, scene: Scene, alpha: FloatArray) -> Studied:
    """Return tests of one count: all rates are sums over the counts."""
    noise, drawn = scene.noise, scene.truth
    if isinstance(model, Binomial):
        name = "proportions_ztest"
        test = OneCount.of_trials(np.asarray(float(model.nobs)), np.asarray(model.value), noise)
    else:
        name, test = "poisson_ztest", OneCount.of_events(model.expected, noise)
    truth: NoisyCount
    if isinstance(drawn, Binomial):
        nobs, value = np.asarray(float(drawn.nobs)), np.asarray(drawn.value)
        truth = NoisyBinomial(nobs=nobs, value=value, noise=noise)
    else:
        assert isinstance(drawn, Poisson)
        truth = NoisyPoisson(rate=drawn.expected, noise=noise)

    def rate_beyond(distance: FloatArray) -> FloatArray:
        """Probability of a count at least so far from what the null hypothesis expects."""
        high, low = test.centre + distance, test.centre - distance
        tails = truth.upper(high, test.slack(high)) + truth.lower(low, test.slack(low))
        return np.minimum(tails, 1.0)

    aware = np.array([float(critical_distance(test, level, "two-sided")) for level in alpha])
    ignorant = special.ndtri(1.0 - 0.5 * alpha) * test.spread
    return {
        f"{name}, exact": rate_beyond(aware),
        "z test, noise ignored": rate_beyond(ignorant),
    }


def _goodness_of_fit(
    model: Multinomial, scene: Scene, alpha: FloatArray, simulation: Simulation
) -> Studied:
    """Return tests of given probabilities, with exact rates where Pearson's law is known."""
    expected, noise, drawn = model.expected, scene.noise, scene.truth
    null = QuadraticLaw(model.nobs, model.value, expected, 1.0 / expected, noise)
    truth: QuadraticLaw | None = None
    if isinstance(drawn, Multinomial | Independence):
        same = drawn.nobs == null.nobs and np.array_equal(drawn.value, null.value)
        truth = (
            null if same else QuadraticLaw(drawn.nobs, drawn.value, null.centre, null.weight, noise)
        )
    pearson = partial(_pearson_statistic, expected)

    def by_pearson(critical: FloatArray) -> FloatArray | Judge:
        if truth is not None and truth.is_accurate(critical).all():
            return np.asarray(truth.upper(critical))
        return partial(judge_rule, pearson, critical)

    chi2 = special.chdtri(float(expected.size - 1), alpha)
    table = NoisyTable(model.nobs, expected, noise)
    studied: Studied = {}
    critical = _critical(null, alpha, _limiting_critical(model, noise, alpha))
    if critical is None:
        more = replace(simulation, reps=NULL_REPS * simulation.reps)
        block = draws_in_block(expected.size)
        draw = SimulatedStatistic(table, "pearson")
        rule = partial(judge_rule, pearson, simulated_critical(draw, alpha, more, block))
        studied["chisquare, pearson, monte-carlo"] = rule
    else:
        studied["chisquare, pearson, exact"] = by_pearson(critical)
    aware = partial(judge_rule, partial(_projected, table), chi2)
    return studied | {
        "chisquare, projected, asymptotic": aware,
        _PEARSON_IGNORANT: by_pearson(chi2),
    }


def _independent_counts(model: Poisson, noise: NoiseLaw, alpha: FloatArray) -> Studied:
    limit = _limiting_critical(model, noise, alpha)
    chi2 = special.chdtri(float(model.expected.size), alpha)
    statistic = partial(_pearson_statistic, model.expected)
    return {
        "Pearson's test, asymptotic": partial(judge_rule, statistic, limit),
        _PEARSON_IGNORANT: partial(judge_rule, statistic, chi2),
    }


def _limiting_critical(
    model: Multinomial | Poisson, noise: NoiseLaw, alpha: FloatArray
) -> FloatArray:
    law = null_distribution(model, noise, "pearson", method="asymptotic")
    return np.array([law.critical_value(level, "larger") for level in alpha])


def _critical(law: QuadraticLaw, alpha: FloatArray, near: FloatArray) -> FloatArray | None:
    """Return exact critical values, if the law is accurate enough there."""
    if not law.is_accurate(near).all():
        return None

    def margin(q: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(law.upper(q)), -1e6) - np.log(alpha[index]))

    _, critical = find_root(margin, 0.5 * near, 1.5 * near, rtol=_PRECISION, expand=True)
    return np.asarray(critical) if law.is_accurate(critical).all() else None


def _contingency(
    model: ProductMultinomial | Independence, noise: NoiseLaw, alpha: FloatArray
) -> Studied:
    variance = np.broadcast_to(noise.variance, model.expected.shape)
    margins: Margins
    if isinstance(model, Independence):
        shape = (model.rows.size, model.columns.size)
        margins = ProductMargins(NoiseForm.published(variance.reshape(shape), 0.0))
    else:
        shape = (model.value.shape[0], model.value.shape[1])
        if shape[0] < 2 or (model.value != model.value[0]).any():
            raise InvalidParameterError(
                "model must have two rows or more with the same probabilities, the hypothesis of "
                "homogeneity; give another model as truth, or tests of your own"
            )
        margins = RowMargins(variance.reshape(shape), model.nobs)
    fitted = TableModel(shape, margins, noise)
    critical = special.chdtri(float(margins.dof), alpha)
    aware = partial(_fitted_projected, fitted, float(np.sum(model.nobs)))
    plain = partial(_plain_pearson, shape)
    return {
        "chi2_contingency, projected, asymptotic": partial(judge_rule, aware, critical),
        _PEARSON_IGNORANT: partial(judge_rule, plain, critical),
    }


# Statistics of releases, shape (m, k): functions of the module, so that they can be pickled.


def _pearson_statistic(expected: FloatArray, releases: FloatArray) -> FloatArray:
    return np.asarray(np.square(releases - expected) @ (1.0 / expected))


def _projected(table: NoisyTable, releases: FloatArray) -> FloatArray:
    return projected(table)(releases - table.expected)


def _fitted_projected(model: TableModel, nobs: float, releases: FloatArray) -> FloatArray:
    """Statistic of each table; 0, which rejects nothing, where the test does not decide."""
    tables = np.ascontiguousarray(releases.T).reshape(*model.shape, len(releases))
    total = np.full(len(releases), nobs)
    decided = model.fit(tables, total).expected.min(axis=(0, 1)) >= SMALL_EXPECTED
    return np.where(decided, model.projected(tables, total), 0.0)


def _plain_pearson(shape: tuple[int, ...], releases: FloatArray) -> FloatArray:
    """Statistic of each table as if it had no noise; 0 where a margin is not positive."""
    tables = releases.reshape(-1, *shape)
    rows, columns = tables.sum(axis=2, keepdims=True), tables.sum(axis=1, keepdims=True)
    possible = (rows > 0.0).all(axis=(1, 2)) & (columns > 0.0).all(axis=(1, 2))
    positive = np.where(possible, rows.sum(axis=(1, 2)), 1.0)[:, np.newaxis, np.newaxis]
    expected = np.where(possible[:, np.newaxis, np.newaxis], rows * columns / positive, 1.0)
    statistic = (np.square(tables - expected) / expected).sum(axis=(1, 2))
    return np.where(possible, statistic, 0.0)
