"""What was published: noisy values with everything that is known about them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    NEIGHBOURS,
    RNG,
    FloatArray,
    Locked,
    Neighbours,
    Way,
    as_table,
    as_values,
    check_array,
    check_option,
    check_scalar,
    freeze,
    rounded_to,
    show,
    step_and_way,
)
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError
from dpinfer.mechanisms.independent import (
    IndependentNoise,
    Mechanism,
    as_noise,
    groups,
    refuse_selected,
)
from dpinfer.mechanisms.law import NoiseLaw, Origin, in_short, marked
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.mechanisms.samplers import LARGEST_WHOLE, Sampler, noise_source
from dpinfer.mechanisms.weighted_sum import WeightedSum
from dpinfer.queries.domain import Domain, check_distinct
from dpinfer.queries.workload import Workload, check_counting
from dpinfer.releases.by_label import counted_twice, groups_of, having, meeting, without_levels
from dpinfer.releases.coerce import (
    Missing,
    check_fit,
    drop_missing,
    of_shared_noises,
    refuse_missing,
    refuse_rule_of_shared,
    rule_of,
    with_rule,
)
from dpinfer.releases.frames import is_counting, is_single_column
from dpinfer.releases.noises import Bound, Noises, Rule, positions_of
from dpinfer.releases.values import HELD, NoisyValues
from dpinfer.results.labels import find_rows, stack_labels
from dpinfer.results.presentation import Indexed, Plotted, Presented
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


SENSITIVITIES = ("l1", "l2")
GUARANTEES = ("epsilon", "delta", "rho", "mu")

_NO_LAW = (
    "mechanism must be a noise law, such as Laplace(scale=2.0), unless the covariance of Gaussian "
    "noise is given, got None"
)


def unlabel(values: Any) -> tuple[Any, pd.Index | None]:
    """Split a Series or DataFrame into values, row by row, and labels; 0, 1, ... are none."""
    import pandas as pd

    values = as_values(values)
    if not hasattr(values, "iloc"):
        return values, None
    if isinstance(values, pd.DataFrame) and not is_single_column(values):
        return values.to_numpy().ravel(), stack_labels(values)
    labels = values.index
    return values.to_numpy().reshape(-1), None if is_counting(labels) else labels


def _check_workload(workload: Any, labels: Any, size: int) -> Workload:
    """Return the queries of ``size`` values: the given ones, or one unknown for each value."""
    if workload is None:
        return Workload.identity(size, labels)
    queries = workload if isinstance(workload, Workload) else Workload(workload)
    if len(queries) != size:
        raise IncompatibleReleaseError(
            f"values must have {len(queries)} entries, one for each query of the workload, "
            f"got {size}"
        )
    named = labels is not None and hasattr(workload, "iloc")
    if named and not (is_counting(workload.index) or workload.index.equals(labels)):
        raise InvalidParameterError(
            "workload must have the labels of the values in the same order: reindex it first"
        )
    if labels is not None:
        return queries.with_labels(labels)
    if not queries.is_identity and queries.labels is not None:
        check_distinct(queries.labels, "labels")
    return queries


def _check_mapping(
    given: Mapping[str, Any] | None, name: str, keys: tuple[str, ...]
) -> Mapping[str, float] | None:
    """Return a read-only mapping of some of the keys to numbers >= 0."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise InvalidParameterError(
            f"{name} must be a mapping of {', '.join(keys)} to numbers, got {show(given)}"
        )
    checked = {
        check_option(key, f"key of {name}", keys): check_scalar(value, f"{name} {key}", ge=0)
        for key, value in given.items()
    }
    return MappingProxyType(checked)


def _check_sensitivity(sensitivity: Any) -> float | Mapping[str, float] | None:
    if sensitivity is None or isinstance(sensitivity, Mapping):
        return _check_mapping(sensitivity, "sensitivity", SENSITIVITIES)
    return check_scalar(sensitivity, "sensitivity", gt=0)


def _check_text(text: object, name: str) -> str | None:
    if text is None or isinstance(text, str):
        return text
    raise InvalidParameterError(f"{name} must be a string, got {show(text)}")


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Release(Locked, Presented, Indexed, Plotted):
    """Published noisy values y = A x + W z with the law of the noise and the publishing rule.

    Parameters
    ----------
    values : array of float, shape (m,), Series or DataFrame
        The published values. A DataFrame is read row by row. Series and DataFrames give the
        labels of the values; for those of polars and pyarrow, columns without numbers do.
    mechanism : NoiseLaw or sequence of NoiseLaw
        The law of the noises z: one for all values, an array-valued one, or one for each value.
    workload : Workload or matrix, shape (m, n), optional
        The queries A that the values answer. By default each value answers its own query.
    weights : array, sparse array or DataFrame, shape (m, q), optional
        The matrix W where values share noises, as running totals and other outputs of a matrix
        mechanism do: ``mechanism`` is the law of the q independent noises z then. By default each
        value has a noise of its own.
    covariance : array, sparse array or DataFrame, shape (m, m), optional
        The covariance matrix of Gaussian noise, in place of ``weights`` and ``mechanism``.
    labels : sequence of length m, optional
        Labels of the values; by default those of ``values`` or of the workload.
    neighbours : {"add-remove", "replace"}, optional
        The neighbour relation of the privacy guarantee.
    sensitivity : float or mapping, optional
        The sensitivity of the queries, or ``{"l1": ..., "l2": ...}``.
    guarantee : mapping, optional
        The stated guarantee: any of ``epsilon``, ``delta``, ``rho`` and ``mu``.
    unit : str, optional
        What the guarantee protects one of, such as ``"person"``, ``"household"`` or ``"user-day"``.
    threshold : float, array of float of shape (m,), or Series under their labels, optional
        The value was published only because it reached this bound; -inf where there is none.
    clamp : float or pair, optional
        The values were moved into these bounds before publication: a lower bound, or
        ``(lower, upper)``, each a number or an array of shape (m,).
    rounding : float, bool or pair, optional
        The noisy values were rounded to the nearest multiples of this number *after* the noise;
        True is 1, an array of 1 and 0 says which were rounded to whole numbers. ``(5, "down")``,
        ``(5, "up")`` and ``(5, "toward zero")`` say another way.
    bin_size : int, array of int of shape (m,), or pair, default 1
        The counts were rounded up to multiples of this number *before* the noise was added, as Tor
        does. ``(5, "nearest")`` and ``(5, "down")`` say another way.
    name : str, optional
        A name for the release.
    missing : {"raise", "drop"}
        What to do where values are missing; see :func:`dpinfer.noisy`.

    Attributes
    ----------
    values : array of float64, shape (m,)
        The published values, read-only.
    workload : Workload
        The queries on n cells that they answer.
    mechanism : NoiseLaw
        The law of the noises, of shape () or (m,), which is refused for values as drawn where they
        have a publishing rule; of shape () or (q,) where values share q noises.
    weights : sparse array, shape (m, q), or None
        How much of each noise is in each value; None where each has a noise of its own.

    Raises
    ------
    InvalidParameterError
        If an argument by itself is not allowed.
    IncompatibleReleaseError
        If the parts do not fit together: the numbers of values and queries, integer noise on
        fractional queries or values, a value below its threshold or outside its clamping bounds.

    Warns
    -----
    RoundedValuesWarning
        If all values under noise with a density are whole numbers: they were rounded.

    See Also
    --------
    Release.from_tables, Release.from_frame, dpinfer.releases.read_release

    Examples
    --------
    >>> from dpinfer.mechanisms import Geometric
    >>> Release([3, 5, 9], workload=[[1, 0], [0, 1], [1, 1]], mechanism=Geometric(scale=2.0))
    Release(3 values, 2 cells, Geometric(scale=2.0))

    Running totals of two noisy counts: the second has the noise of the first too.

    >>> totals = [[1, 0], [1, 1]]
    >>> Release([3, 8], workload=totals, weights=totals, mechanism=Geometric(scale=2.0))
    Release(2 values, 2 cells, sums of 2 noises Geometric(scale=2.0))
    """

    workload: Workload
    neighbours: Neighbours | None
    sensitivity: float | Mapping[str, float] | None
    guarantee: Mapping[str, float] | None
    unit: str | None
    name: str | None
    _noisy: NoisyValues

    def __init__(
        self,
        values: ArrayLike | pd.Series | pd.DataFrame,
        *,
        mechanism: Mechanism | None = None,
        workload: Workload | ArrayLike | None = None,
        weights: Any = None,
        covariance: Any = None,
        labels: Sequence[Hashable] | pd.Index | None = None,
        neighbours: Neighbours | None = None,
        sensitivity: float | Mapping[str, float] | None = None,
        guarantee: Mapping[str, float] | None = None,
        unit: str | None = None,
        threshold: ArrayLike | None = None,
        clamp: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
        rounding: ArrayLike | tuple[ArrayLike, Way] | None = None,
        bin_size: ArrayLike | tuple[ArrayLike, Way] = 1,
        name: str | None = None,
        missing: Missing = "raise",
    ) -> None:
        if type(missing) is not str or missing != "raise":
            each = {"labels": labels, "mechanism": mechanism, "workload": workload}
            each |= {"weights": weights, "covariance": covariance, "threshold": threshold}
            each |= {"clamp": clamp, "bin_size": bin_size, "rounding": rounding}
            values, each = drop_missing(values, missing, "values", each)
            labels, mechanism, workload, weights, *rest = each.values()
            covariance, threshold, clamp, bin_size, rounding = rest
        plain, found = unlabel(values)
        try:
            published = freeze(check_array(plain, "values", ndim=1))
        except InvalidParameterError as error:
            refuse_missing(values, "values", error)
            raise
        size = len(published)
        queries = _check_workload(workload, found if labels is None else labels, size)
        bins = None if type(bin_size) is int and bin_size == 1 else bin_size
        if weights is not None or covariance is not None:
            plain = threshold is None and clamp is None and bins is None and rounding is None
            refuse_rule_of_shared("values", plain)
            if mechanism is None and covariance is None:
                raise InvalidParameterError(_NO_LAW)
            origin = Origin(published)
            given = published, queries.labels, weights, covariance, mechanism
            x = of_shared_noises(*given, "values", origin=origin)
        else:
            if mechanism is None:
                raise InvalidParameterError(_NO_LAW)
            law = as_noise(mechanism, size, selected=True)
            noises = Noises(marked(law, selected=False), size, [(Origin(published), None, size)])
            x = with_rule(
                NoisyValues(published, noises, labels=queries.labels),
                threshold=as_table(threshold, "threshold"),
                clamp=clamp,
                rounding=rounding,
                bin_size=bins,
            )
            if x.rule is None:
                refuse_selected([law])
            check_counting(queries, x._own_law())
        self._hold(
            {
                "workload": queries,
                "neighbours": None
                if neighbours is None
                else check_option(neighbours, "neighbours", NEIGHBOURS),
                "sensitivity": _check_sensitivity(sensitivity),
                "guarantee": _check_mapping(guarantee, "guarantee", GUARANTEES),
                "unit": _check_text(unit, "unit"),
                "name": _check_text(name, "name"),
                "_noisy": x,
            }
        )
        check_fit(x, error=IncompatibleReleaseError)

    @classmethod
    def _of(cls, values: NoisyValues, workload: Any) -> Self:
        """Return the release of noisy values."""
        if values.weights is not None and not hasattr(values.weights, "indices"):
            raise InvalidParameterError(
                f"{values.name} must have at most {HELD} weights on the noises that they share to "
                "be combined again: combine the release that they were made from"
            )
        found = object.__new__(cls)
        queries = _check_workload(workload, values.labels, len(values))
        if values.weights is None:
            check_counting(queries, values._own_law())
        found._hold({field.name: None for field in fields(cls)})
        found._hold({"workload": queries, "_noisy": values})
        return found

    def _hold(self, known: Mapping[str, Any]) -> None:
        for field, value in known.items():
            object.__setattr__(self, field, value)

    def __noisy__(self) -> NoisyValues:
        return self._noisy

    @property
    def values(self) -> FloatArray:
        """The published values, shape (m,), read-only."""
        return self._noisy.values

    @property
    def mechanism(self) -> NoiseLaw:
        """The law of the noises, of shape () or (m,), which says where values have a rule.

        Of shape () or (q,) where values share q noises.
        """
        if self._noisy.weights is not None:
            return self._noisy.noises.law
        return marked(self._noisy.marginal, self._noisy.rule is not None)

    @property
    def weights(self) -> Any:
        """How much of q noises is in each value, a sparse array (m × q).

        None where each value has a noise of its own.
        """
        return self._noisy.weights

    @property
    def threshold(self) -> Bound | None:
        """The bound that the published values reached, -inf for those without; None for none."""
        rule = self._noisy.rule
        return None if rule is None or not np.isfinite(rule.threshold).any() else rule.threshold

    @property
    def clamp(self) -> tuple[Bound, Bound] | None:
        """The bounds into which values were moved, infinite where there are none."""
        rule = self._noisy.rule
        if rule is None or not (np.isfinite(rule.lowest) | np.isfinite(rule.highest)).any():
            return None
        return rule.lowest, rule.highest

    @property
    def bin_size(self) -> Bound:
        """The number to multiples of which the counts were rounded before the noise."""
        return 1.0 if self._noisy.rule is None else self._noisy.rule.before

    @property
    def bin_rounding(self) -> Way:
        """Which way they were: ``"up"``, ``"down"`` or ``"nearest"``."""
        return (self._noisy.rule or Rule()).before_way

    @property
    def rounding(self) -> tuple[Bound, Way] | None:
        """The step to multiples of which noisy values were rounded, and which way; None for none.

        An array of 1 and 0 where only some values were rounded to whole numbers.
        """
        rule = self._noisy.rule
        if rule is not None and rule.after > 0:
            return rule.after, rule.after_way
        return self._rounded_noise()

    def _rounded_noise(self) -> tuple[Bound, Way] | None:
        if self.weights is not None:
            return None
        law = self._noisy._own_law()
        if not isinstance(law, IndependentNoise):
            return (1.0, "nearest") if isinstance(law, Rounded) else None
        steps = np.zeros(len(self))
        for part, cells in groups(law, len(self)):
            steps[cells] = isinstance(part, Rounded)
        if not steps.any():
            return None
        return (1.0 if steps.all() else freeze(steps)), "nearest"

    @classmethod
    def from_tables(
        cls,
        tables: Sequence[Any],
        *,
        mechanism: Mechanism,
        domain: Domain | None = None,
        **details: Any,
    ) -> Self:
        """Build a release from labelled tables of the same records.

        Parameters
        ----------
        tables : sequence of Series, DataFrames and numbers
            Tables labelled by attributes: the names of their index levels and columns. A table sums
            over the attributes that it does not name; a number is a total. A missing value in a
            DataFrame is a cell that was not published. A frame of polars or pyarrow has its values
            in the last column.
        mechanism : NoiseLaw or sequence of NoiseLaw
            The law of the noise: one for all values, one for each table, or one for each value.
        domain : Domain, optional
            The attributes and levels. By default the union of those in the tables, in order of
            appearance (of the categories, for a categorical): a level that no table shows is taken
            not to exist.
        **details
            The further arguments of :class:`Release`.

        Raises
        ------
        InvalidParameterError
            If a table is not labelled by attributes of the domain, or holds NaN.
        IncompatibleReleaseError
            If a cell is published twice under the same label.

        Notes
        -----
        Where no table sums over an attribute, no domain is given and some cells were not published,
        the unknowns are the published cells only.

        Examples
        --------
        >>> import pandas as pd
        >>> from dpinfer.mechanisms import Laplace
        >>> by_sex = pd.Series({"F": 30.5, "M": 28.9}).rename_axis("sex")
        >>> release = Release.from_tables([by_sex, 61.2], mechanism=Laplace(scale=2.0))
        >>> release.labels.to_list()
        ['F', 'M', '*']
        >>> release.workload.matrix.toarray()
        array([[1., 0.],
               [0., 1.],
               [1., 1.]])
        """
        from dpinfer.releases.frames import rows_of_tables

        values, workload, law = rows_of_tables(tables, mechanism, domain)
        return cls(values, workload=workload, mechanism=law, **details)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        value: str,
        mechanism: Mechanism | Mapping[str, Any] | type[NoiseLaw] | str,
        attributes: str | Sequence[str] | None = None,
        epsilon: Any = None,
        rho: Any = None,
        mu: Any = None,
        sensitivity: float | Mapping[str, float] | None = None,
        scale: Any = None,
        sigma: Any = None,
        rounding: Any = None,
        domain: Domain | None = None,
        threshold: Any = None,
        clamp: Any = None,
        bin_size: Any = 1,
        missing: Missing = "raise",
        **details: Any,
    ) -> Self:
        """Build a release from a long table with one published value in each row.

        Parameters
        ----------
        frame : DataFrame of pandas, polars, pyarrow or the like
            The table.
        value : str
            The column of published values.
        mechanism : str, type of NoiseLaw, NoiseLaw, sequence of NoiseLaw, or mapping
            The name of the law (``"laplace"``, ``"geometric"``, ``"gaussian"``,
            ``"discrete_gaussian"``, ``"tulap"``, ``"exact"``) or its class, with a budget or
            parameters below; the law itself; or a mapping of ``mechanism`` to the name and of
            parameters and budgets to numbers, in which ``{"column": name}`` reads any of these
            from a column.
        attributes : sequence of str, optional
            The columns that label the rows. A missing value or ``"*"`` says that the row sums over
            the attribute. By default each row is its own query, labelled by the index if that has
            names.
        epsilon, rho, mu : float or column, optional
            The budget of the noise, > 0, with ``sensitivity``: Laplace and geometric noise have the
            scale Δ₁/ε, (discrete) Gaussian noise σ = Δ₂/√(2ρ), and Gaussian noise σ = Δ₂/μ. A
            column is written ``{"column": name}``.
        sensitivity : float or mapping, optional
            How far one person, or what else is protected, can move all values together, Δ₁ or Δ₂;
            or both as ``{"l1": ..., "l2": ...}``. It must be given with a budget.
        scale, sigma : float or column, optional
            The parameter of the noise, > 0, in place of a budget.
        domain : Domain, optional
            The attributes and levels; see :meth:`from_tables`.
        threshold, clamp, rounding, bin_size : optional
            The publishing rule as for :class:`Release`; ``{"column": name}`` stands for a number,
            and a missing value in the column for no bound, no rounding, or no bin.
        missing : {"raise", "drop"}
            What to do with rows without a value; see :func:`dpinfer.noisy`.
        **details
            The further arguments of :class:`Release`.

        Raises
        ------
        InvalidParameterError
            If a column is missing or does not hold what it should; the message names the row.
        IncompatibleReleaseError
            If the rows do not fit together, such as two with the same labels.

        Examples
        --------
        >>> import pandas as pd
        >>> counts = pd.DataFrame({"sex": ["F", "M"], "count": [30.5, 28.9]})
        >>> Release.from_frame(
        ...     counts,
        ...     value="count",
        ...     attributes="sex",
        ...     mechanism="laplace",
        ...     epsilon=0.5,
        ...     sensitivity=1,
        ... )
        Release(2 values, 2 cells, Laplace(scale=2.0))

        With the size of the noise in a column, and a threshold:

        >>> columns = {"country": ["PL", "FR"], "views": [506, 968], "noise": [30.0, 15.0]}
        >>> law = {"mechanism": "geometric", "scale": {"column": "noise"}}
        >>> Release.from_frame(
        ...     pd.DataFrame(columns),
        ...     value="views",
        ...     attributes="country",
        ...     mechanism=law,
        ...     threshold=450,
        ... ).variance.round(2)
        array([1799.83,  449.83])
        """
        from dpinfer.releases import frames as _frame

        frame = _frame.check_frame(frame)
        stated = {"epsilon": epsilon, "rho": rho, "mu": mu}
        stated |= {"scale": scale, "sigma": sigma}
        given = {name: spec for name, spec in stated.items() if spec is not None}
        norms = _check_sensitivity(sensitivity)
        if type(missing) is not str or missing != "raise":
            each = {"mechanism": mechanism, "threshold": threshold, "clamp": clamp}
            column = _frame.column(frame, value).reset_index(drop=True)
            each |= {"bin_size": bin_size, "rounding": rounding} | given
            kept, each = drop_missing(column, missing, value, each)
            mechanism, threshold, clamp, bin_size, rounding, *rest = each.values()
            given = dict(zip(given, rest, strict=True))
            frame = frame.iloc[kept.index]
        rule = threshold, clamp, bin_size, rounding
        published = _frame.published_in_frame(frame, value, mechanism, *rule, given, norms)
        queries = _frame.workload_of_frame(frame, attributes, domain)
        return cls(**published, workload=queries, sensitivity=norms, **details)

    @classmethod
    def draw(
        cls,
        histogram: ArrayLike | pd.Series,
        *,
        mechanism: Mechanism | None = None,
        workload: Workload | ArrayLike | None = None,
        sampler: Sampler = "simulated",
        rng: RNG = None,
        **details: Any,
    ) -> Self:
        """Draw a release of confidential counts: a simulation, or with OpenDP to be published.

        Parameters
        ----------
        histogram : array of float, shape (n,), or Series
            The true counts of the cells; the index of a Series labels them.
        mechanism : NoiseLaw or sequence of NoiseLaw
            The law of the noise of each of the m queries.
        workload : Workload or matrix, shape (m, n), optional
            The queries; by default the cells.
        sampler : {"simulated", "opendp"}, default "simulated"
            ``"simulated"``: draws in floating point, for studies, which keep no guarantee.
            ``"opendp"``: exact draws of OpenDP, of the extra ``release``, from the randomness of
            the operating system, for whole counts and coefficients.
        rng : None, int or numpy.random.Generator, optional
            Source of randomness of a simulation; None for ``"opendp"``.
        **details
            The further arguments of :class:`Release`; ``clamp``, ``rounding`` and ``bin_size`` are
            applied, and a ``threshold`` must be met by all of the drawn values. A ``guarantee``
            only with OpenDP.

        Raises
        ------
        InvalidParameterError
            If an argument is outside what is allowed, or values are not whole for OpenDP.
        MissingExtraError
            If OpenDP is not installed.

        Examples
        --------
        >>> from dpinfer.mechanisms import Geometric
        >>> Release.draw([10, 20], mechanism=Geometric(scale=1.0), rng=0).values.shape
        (2,)
        """
        shared = details.get("weights") is not None or details.get("covariance") is not None
        if shared and sampler == "opendp":
            raise InvalidParameterError(
                "weights and covariance must be left out with sampler='opendp', whose draws are "
                "exact for whole numbers only: draw the values that each have noise of their own, "
                "and make sums of what is published"
            )
        source = noise_source(sampler, rng)
        if source.simulated and details.get("guarantee") is not None:
            raise InvalidParameterError(
                "guarantee must be left out of a simulation, whose noise keeps none: use "
                "sampler='opendp'"
            )
        counts, labels = unlabel(histogram)
        if workload is None:
            truth = check_array(counts, "histogram", ndim=1)
            details.setdefault("labels", labels)
        else:
            queries = workload if isinstance(workload, Workload) else Workload(workload)
            truth = np.asarray(queries.answer(histogram))
            if not source.simulated:
                _check_exact(check_array(counts, "histogram", ndim=1), queries)
        if shared:
            details["workload"] = workload
            exact = cls(truth, mechanism=mechanism, **details)
            errors = exact._noisy.draw(1, rng=rng)[0]
            return cls(truth + errors, mechanism=mechanism, **details)
        if mechanism is None:
            raise InvalidParameterError(_NO_LAW)
        law = marked(as_noise(mechanism, len(truth), selected=True), selected=False)
        plain = NoisyValues(np.zeros(len(truth)), Noises(law, len(truth)))
        rule = rule_of(plain, **{key: details.get(key) for key in ("clamp", "bin_size")})
        if np.greater(rule.before, 1).any():
            truth = rounded_to(truth, rule.before, rule.before_way)
        drawn = source.add(truth, law)
        if details.get("rounding") is not None:
            step, way = step_and_way(details["rounding"], "rounding", "nearest")
            step = float(step) if isinstance(step, bool) else step
            drawn = rounded_to(drawn, plain.setting(step, "rounding", ge=0), way)
        drawn = np.clip(drawn, rule.lowest, rule.highest)
        return cls(drawn, workload=workload, mechanism=law, **details)

    @property
    def labels(self) -> pd.Index | None:
        """Labels of the values, or None."""
        return self.workload.labels

    @property
    def domain(self) -> Domain | None:
        """The domain whose cells are counted, if the release was built from one."""
        return self.workload.domain

    @property
    def variance(self) -> FloatArray:
        """Variance of the noise of each value, shape (m,)."""
        return np.array(self._noisy.variance)

    def noise(self, value: Any) -> WeightedSum:
        """Return the law of the noise in one value, by label or position; it knows which it is.

        Beside the laws of estimates from this release (:meth:`CombinedEstimate.noise`), functions
        know how the errors depend.

        Examples
        --------
        The share that a combined total makes of a published value:

        >>> import dpinfer as dpi
        >>> law = dpi.Laplace(scale=2.0)
        >>> release = Release([60.2, 38.9, 97.5], workload=[[1, 0], [0, 1], [1, 1]], mechanism=law)
        >>> total = dpi.combine(release, target=[1, 1])
        >>> dpi.share_confint(
        ...     60.2, total=total.params[0], mechanism=(release.noise(0), total.noise(0))
        ... ).lower.round(4)
        np.float64(0.5596)
        """
        [row] = positions_of([value], len(self), self.labels)
        found = self._noisy._law_of(np.ones(1), np.array([row]))
        return marked(found, bool(self.has_rule[row]))

    @property
    def has_rule(self) -> NDArray[np.bool_]:
        """Whether each value has a threshold, a clamping bound, a coarse step or a bin, (m,).

        No linear function of such a value is unbiased; :func:`dpinfer.count_confint` gives each its
        own interval. Rounding to the nearest whole number is part of the law of the noise.
        """
        rule = self._noisy.rule
        return np.zeros(len(self), dtype=bool) if rule is None else rule.of(len(self))

    def _names(self, rows: NDArray[np.intp]) -> str:
        """Name the first of some values in a message."""
        few = [str(row) if self.labels is None else show(self.labels[row]) for row in rows[:5]]
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        return ("value " if self.labels is None else "") + f"{', '.join(few)}{more}"

    def _refuse_ruled(self, what: str) -> None:
        """Refuse values of which their noise decided what is published."""
        ruled = np.flatnonzero(self.has_rule)
        if not len(ruled):
            return
        free = len(self) - len(ruled)
        rest = (
            f"; combine values without a rule, {free} here, by release.select(~release.has_rule)"
            if free
            else ""
        )
        raise IncompatibleReleaseError(
            f"{len(ruled)} of {len(self)} values must not be {what}, because some "
            f"{cast('Rule', self._noisy.rule).kind()}, and are not the count plus noise: "
            f"{self._names(ruled)}; count_confint has an interval for each of them, "
            "intervals.thresholded_sum_confint for sums of cells with a threshold, and "
            f"linear_confint for sums of those that were rounded, binned or clamped{rest}"
        )

    def select(self, where: Any = None, **levels: Any) -> Release:
        """Return the release of some of the values, about the same cells.

        Parameters
        ----------
        where : array of bool or int, slice, list of labels, or mapping, optional
            A mask of m booleans, positions, or labels; a mapping of levels to labels stands for
            ``levels`` whose names are no words.
        **levels
            A label, or a list of labels, of each level by its name: all have to agree. A level
            without a name is ``label``, or ``level_0``, ``level_1``, ... of several.

        Returns
        -------
        Release
            Values, laws and publishing rule of these, with the guarantee of all. A level of which
            one label was chosen is left out of their labels, as by ``Series.xs``, unless no level
            would be left.

        Raises
        ------
        InvalidParameterError
            If there is no such level or label, or nothing is left.

        Notes
        -----
        Choose values by what they are about, not by what was published of them: the noise of values
        chosen because they are large, or because they are not at a clamping bound, does not have
        its law any more. :meth:`where` takes conditions, on labels only.

        Examples
        --------
        >>> import pandas as pd
        >>> from dpinfer.mechanisms import Geometric
        >>> days = pd.MultiIndex.from_product([["DE", "FR"], [1, 2]], names=["country", "day"])
        >>> views = pd.Series([12, 9, 30, 28], index=days)
        >>> release = Release(views, mechanism=Geometric(scale=2.0))
        >>> release.select(country="FR").values
        array([30., 28.])
        >>> release.select(country=["DE", "FR"], day=2).values
        array([ 9., 28.])
        """
        wanted = {**where, **levels} if isinstance(where, Mapping) else levels
        if where is None and not wanted:
            raise InvalidParameterError(
                "where must be given, or levels by name: a mask, positions, labels, or country='DE'"
            )
        if where is None or isinstance(where, Mapping):
            rows = having(self.labels, len(self), wanted)
        else:
            rows = self._noisy._rows_of(where)
        if levels:
            rows = rows[np.isin(rows, having(self.labels, len(self), levels))]
        part = self._part(rows)
        labels = without_levels(part.labels, wanted)
        if labels is part.labels:
            return part
        values = replace(part._noisy, labels=labels)
        return part._with(values, part.workload.with_labels(labels))

    def where(self, condition: str | Callable[[pd.DataFrame], Any]) -> Release:
        """Return the release of the values whose labels meet a condition.

        Parameters
        ----------
        condition : str or callable
            Comparisons of levels of the labels with values, joined by ``and``, ``or`` and ``not``:
            ``"3 <= week < 7 and country in ['DE', 'FR']"``. A name with spaces or the like stands
            in backticks, as for ``DataFrame.query``. Or a function of the table of labels, a column
            for each level, that returns a boolean for each.

        Returns
        -------
        Release
            As of :meth:`select`.

        Raises
        ------
        InvalidParameterError
            If the condition is about anything but labels, or no value meets it.

        Notes
        -----
        Published values are not there to be compared: the noise of values that are chosen for their
        size does not have its law any more (among 1,000 counts of 0, those above 10 are all noise).
        Fix a list beforehand; or have :func:`dpinfer.count_confint` with ``threshold=`` allow for
        the choice, and :func:`dpinfer.intervals.thresholded_sum_confint` for sums.

        Examples
        --------
        >>> import pandas as pd
        >>> from dpinfer.mechanisms import Geometric
        >>> weeks = pd.Series([12, 9, 30, 28], index=pd.Index([1, 2, 3, 4], name="week"))
        >>> release = Release(weeks, mechanism=Geometric(scale=2.0))
        >>> release.where("week > 1 and week not in [3]").values
        array([ 9., 28.])
        >>> release.where(lambda labels: labels["week"] % 2 == 0).values
        array([ 9., 28.])
        """
        return self._part(meeting(self.labels, len(self), condition))

    def sum(self, by: Any = None, *, over: Any = None) -> Release:
        """Return the release of sums of values, with the exact law of the noise in them.

        Parameters
        ----------
        by : str, list, mapping or Series, optional
            A level of the labels, or levels, to keep: a sum for each label there. Or a list of
            labels, for their sum; a mapping or Series of labels to groups, such as blocks to
            districts, where labels that are not there, or have no group, are left out; or a mapping
            of groups, which may overlap, to lists of labels; or a list of levels, and Series whose
            index is named after one, for each combination. By default the sum of all.
        over : str or list of str, optional
            In place of ``by``, the levels to sum over: the others are kept.

        Returns
        -------
        Release
            The sums, in the order in which groups appear, with the queries that they answer, the
            laws of their errors (of a sum of noises, :class:`~dpinfer.mechanisms.WeightedSum`), and
            how these depend, among one another and on the values. The guarantee is that of the
            values: sums of what was published add nothing to it.

        Raises
        ------
        InvalidParameterError
            If a value in a sum has a publishing rule: no sum of values that were selected, clamped
            or binned has a simple law. If values in a group count the same cell, as a table and its
            own totals do.

        See Also
        --------
        dpinfer.combine : unbiased estimates of sums from all that bears on them, totals too.
        dpinfer.intervals.thresholded_sum_confint : sums of cells that reached a threshold, or not.

        Notes
        -----
        The error of Σ yᵢ is Σ zᵢ, of variance Σ Var(zᵢ) where noises are not shared: it is that
        of the sum, not that of a total published with noise of its own. A sum is about the values
        that are here; days that were not published are not in that of their week.

        Examples
        --------
        >>> import dpinfer as dpi
        >>> import pandas as pd
        >>> days = pd.MultiIndex.from_product([["DE", "FR"], range(7)], names=["country", "day"])
        >>> views = pd.Series(range(14), index=days)
        >>> release = dpi.Release(views, mechanism=dpi.Geometric(scale=2.0))
        >>> weeks = release.sum("country")
        >>> weeks.values, weeks.noise("FR")
        (array([21., 70.]), WeightedSum(7 × Geometric; by lattice))
        >>> dpi.count_confint(weeks).upper
        country
        DE    36.0
        FR    85.0
        dtype: float64
        >>> release.sum(over="day").values, release.sum().values
        (array([21., 70.]), array([91.]))
        """
        coefficients, labels = groups_of(self.labels, len(self), by, over)
        x = self._noisy.linear(coefficients, labels=labels)
        queries = self.workload
        held = coefficients
        if not queries.is_identity:
            held = coefficients @ queries.matrix
            if (twice := counted_twice(coefficients, queries.matrix, held)) is not None:
                self._refuse_overlap(*twice, labels)
        columns: dict[str, Any] = {"domain": queries.domain}
        if queries.domain is None:
            columns = {"columns": queries.columns}
        found = self._with(x, Workload(held, labels, **columns))
        found._hold({"sensitivity": None})
        return found

    def _refuse_overlap(self, row: int, one: int, other: int, labels: pd.Index | None) -> NoReturn:
        whose = "" if labels is None else f" for {show(labels[row])}"
        raise InvalidParameterError(
            f"a sum must count each cell once, got {self._names(np.array([one]))} and "
            f"{self._names(np.array([other]))}{whose}, which count the same: choose one table "
            "first, by select or where, as with where(\"level != '*'\"), or combine them, which "
            "uses all values"
        )

    def _part(self, rows: NDArray[np.intp]) -> Release:
        if not len(rows):
            raise InvalidParameterError("where must select at least one value, got none")
        return self._with(self._noisy._take(rows), self.workload.take(rows))

    def _with(self, values: NoisyValues, workload: Workload) -> Release:
        """Return the release of other values, with all else that is known."""
        found = object.__new__(Release)
        found._hold({field.name: getattr(self, field.name) for field in fields(self)})
        found._hold({"workload": workload, "_noisy": values})
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return the values with the law of their noise, one row a value.

        Columns are ``value``, ``mechanism``, the parameters of the mechanisms, and ``threshold``,
        ``lower``, ``upper``, ``rounding`` and ``bin_size`` where the release has them. Where values
        share noises, they are ``value`` and ``noise_std``.
        """
        import pandas as pd

        from dpinfer.releases.frames import columns_of_law

        if self.weights is not None:
            shown = {"value": self.values, "noise_std": self._noisy.std}
            return pd.DataFrame(shown, index=self.labels)
        columns = {"value": self.values} | columns_of_law(self.mechanism, len(self))
        if self.threshold is not None:
            columns["threshold"] = self.threshold
        if self.clamp is not None:
            columns["lower"], columns["upper"] = self.clamp
        if self.rounding is not None:
            columns["rounding"] = self.rounding[0]
        if np.greater(self.bin_size, 1).any():
            columns["bin_size"] = self.bin_size
        return pd.DataFrame(columns, index=self.labels)

    def summary_frame(self) -> pd.DataFrame:
        """Return :meth:`to_frame`."""
        return self.to_frame()

    def _table(self) -> Table:
        facts: list[tuple[str, object]] = [
            ("Values", len(self)),
            ("Cells", self.workload.shape[1]),
            ("Noise", in_short(self.mechanism)),
        ]
        if self.guarantee is not None:
            facts.append(("Guarantee", self.guarantee))
        title = "Published values" if self.name is None else self.name
        return Table(title, facts, self.to_frame(), index=self.labels)

    def __getitem__(self, which: Any) -> Release:
        """Return the release of some values, named as rows of :class:`~dpinfer.Intervals` are."""
        return self._part(find_rows(which, (len(self),), self.labels).ravel())

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name!r}, "
        size = f"{len(self)} values, {self.workload.shape[1]} cells"
        shared = "" if self.weights is None else f"sums of {self.weights.shape[1]} noises "
        return f"Release({name}{size}, {shared}{in_short(self.mechanism)})"


def _check_exact(counts: FloatArray, queries: Workload) -> None:
    """Refuse answers that are rounded sums, by which one record can move them further."""
    matrix = queries.matrix
    entries = matrix if isinstance(matrix, np.ndarray) else matrix.data
    for name, values in (("histogram", counts), ("workload", entries)):
        if (values != np.floor(values)).any():
            raise InvalidParameterError(
                f"{name} must hold whole numbers for sampler='opendp': other sums are rounded"
            )
    if (abs(matrix) @ np.abs(counts)).max() > LARGEST_WHOLE:
        raise InvalidParameterError(
            "histogram must have answers below 2^53 for sampler='opendp': others are rounded"
        )
