"""A release before it is made: the variances that a division of the budget would give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._interchange import as_table
from dpinfer._validation import (
    FloatArray,
    Locked,
    check_array,
    check_length,
    check_scalar,
    freeze,
    show,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, NoiseLaw
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.queries import Domain
from dpinfer.results.labels import attach_labels
from dpinfer.results.tables import render_table
from dpinfer.spending._families import Family, find_family
from dpinfer.spending._measurements import Measurements, read_measurements

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-9
"""What shares may add up to beyond 1."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleasePlan(Locked):
    """Variances under a division of a budget; made by ``plan_release`` and ``optimal_shares``.

    Attributes
    ----------
    shares : Series
        The share of the budget that goes into each measurement, by its name.
    mechanism : tuple of NoiseLaw
        The noise of each measurement; None where nothing is spent, ``Exact()`` where no record can
        change the answers.
    sensitivity : array of float
        How far one record can move each measurement, in the norm that its noise needs.
    budget : Guarantee
        The guarantee of everything together, if all shares are spent.
    variance : array of float, shape (k,), or Series
        Variances of the best linear unbiased estimates of the targets. For a target marginal, that
        of each of its cells.
    total : float
        Σ weight · variance over all targets, all cells of a marginal included.
    gap : float or None
        How far ``total`` can be above the smallest possible, at most. None where nothing was
        optimised, and where the sum need not be convex in the shares.
    notes : tuple of str
        What else the reader has to know.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> from dpinfer.spending import plan_release
    >>> domain = dpi.Domain({"sex": ["F", "M"], "age": ["0-17", "18-64", "65+"]})
    >>> plan = plan_release([("sex", "age"), ()], domain=domain, budget=PureDP(1.0))
    >>> plan.variance.round(3).to_dict()
    {'sex × age': 6.857, 'total': 6.857}
    """

    shares: pd.Series
    mechanism: tuple[NoiseLaw | None, ...]
    sensitivity: FloatArray
    budget: Guarantee
    variance: Any
    total: float
    labels: pd.Index | None
    gap: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def std(self) -> Any:
        """Standard errors of the targets."""
        return attach_labels(np.sqrt(np.asarray(self.variance)), self.labels)

    def measurement_frame(self) -> pd.DataFrame:
        """Return what would be measured.

        Returns
        -------
        DataFrame
            A row for each measurement, with the columns ``share``, ``sensitivity`` and
            ``noise_std``: infinite where nothing is spent.
        """
        import pandas as pd

        std = [np.inf if law is None else float(law.std) for law in self.mechanism]
        columns = {"share": self.shares.to_numpy(), "sensitivity": self.sensitivity}
        return pd.DataFrame({**columns, "noise_std": std}, index=self.shares.index)

    def summary_frame(self) -> pd.DataFrame:
        """Return the targets.

        Returns
        -------
        DataFrame
            A row for each target, with the columns ``variance`` and ``std_err``.
        """
        import pandas as pd

        columns = {"variance": np.asarray(self.variance), "std_err": np.asarray(self.std)}
        return pd.DataFrame(columns, index=self.labels)

    def summary(self) -> str:
        """Return measurements and targets as two plain-text tables."""
        measured, targets = self.measurement_frame(), self.summary_frame()
        first = render_table(
            "Planned measurements",
            [("Budget", self.budget), ("Measurements", len(measured))],
            {name: measured[name].to_numpy() for name in measured.columns},
            index=measured.index,
        )
        second = render_table(
            "Best estimates from them",
            [("Targets", len(targets)), ("Weighted sum of variances", f"{self.total:.6g}")],
            {name: targets[name].to_numpy() for name in targets.columns},
            index=None if self.labels is None else targets.index,
            notes=self.notes,
        )
        return f"{first}\n{second}"

    def __repr__(self) -> str:
        return f"ReleasePlan({len(self.shares)} measurements, {self.budget}, {self.total:.6g})"

    def __str__(self) -> str:
        return self.summary()


def plan_release(
    measured: Any,
    *,
    budget: Guarantee,
    target: Any = None,
    domain: Domain | None = None,
    shares: Any = None,
    weights: Any = None,
    mechanism: type[NoiseLaw] | None = None,
) -> ReleasePlan:
    """Plan a release: the variance of every target under a division of the budget.

    Parameters
    ----------
    measured : sequence or mapping of measurements
        What is to be measured, each with its own noise: marginals of the domain (``"sex"``,
        ``("sex", "age")``, ``()`` for the total), workloads or matrices. The keys of a mapping name
        them. Disjoint parts of one partition belong into one measurement, which pays for them once.
    budget : PureDP, ZCDP or GDP
        The guarantee of all measurements together, with its neighbour relation.
    target : optional
        What is to be estimated: marginals, or whatever :func:`dpinfer.combine` takes. By default
        what is measured.
    domain : Domain, optional
        The domain of marginals.
    shares : array of float, shape (G,), Series or mapping, optional
        The share of each of the G measurements, >= 0 and at most 1 in all: of ε, of ρ, or of
        μ². A measurement without a share is not made. By default equal.
    weights : array of float, optional
        The importance of each target, or target marginal, in ``total``; 1 by default.
    mechanism : type, optional
        The class of the noise: :class:`~dpinfer.Laplace` (default) or :class:`~dpinfer.Geometric`
        under a PureDP budget, :class:`~dpinfer.Gaussian` (default) or
        :class:`~dpinfer.DiscreteGaussian` under ZCDP, :class:`~dpinfer.Gaussian` under GDP.

    Returns
    -------
    ReleasePlan
        Variances and standard errors of the targets, and the noise to be used.

    Raises
    ------
    NotEstimableError
        If what is measured does not determine a target.
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    The targets T x are estimated by generalised least squares from all measurements, with the
    covariance T (AᵀV⁻¹A)⁺Tᵀ of :func:`dpinfer.combine`, which depends on the noise alone: the plan
    needs no data (the matrix mechanism of Li et al. 2015, with given queries). The measurements
    compose sequentially. For marginals of a domain no matrix is formed: they are independent in the
    basis of means and deviations, see :func:`dpinfer.combine_marginals`.

    References
    ----------
    Li, C., Miklau, G., Hay, M., McGregor, A. and Rastogi, V. (2015). The matrix mechanism:
    optimizing linear counting queries under differential privacy. The VLDB Journal 24, 757-781.
    doi:10.1007/s00778-015-0398-x.

    Xiao, Y., He, G., Zhang, D. and Kifer, D. (2023). An optimal and scalable matrix mechanism for
    noisy marginals under convex loss functions. arXiv:2305.08175.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import ZCDP
    >>> plan = plan_release({"cells": [[1, 0], [0, 1]], "sum": [[1, 1]]}, budget=ZCDP(0.5),
    ...                     target={"first": [1, 0], "sum": [1, 1]}, shares=[0.5, 0.5])
    >>> plan.variance.round(4).to_dict()
    {'first': 1.3333, 'sum': 1.3333}
    """
    whole, family = find_family(budget, mechanism)
    queries = read_measurements(measured, domain, target)
    change = queries.sensitivities(family.order, whole.neighbours)
    importance = check_weights(weights, queries)
    return make_plan(queries, change, whole, family, _check_shares(shares, queries), importance)


def make_plan(
    queries: Measurements,
    change: FloatArray,
    budget: Guarantee,
    family: Family,
    shares: FloatArray,
    weights: FloatArray,
    gap: float | None = None,
    notes: tuple[str, ...] = (),
) -> ReleasePlan:
    """Return the plan for given shares, with the variances of the noise as it will be drawn."""
    import pandas as pd

    laws = [_law(budget, family, one, part) for one, part in zip(change, shares, strict=True)]
    with np.errstate(divide="ignore"):
        precision = 1.0 / np.array([np.inf if law is None else float(law.variance) for law in laws])
    with np.errstate(over="ignore", invalid="ignore"):
        variance = check_array(queries.variances(precision), "the variances of the targets")
        total = check_scalar((weights * queries.cells) @ variance, "the sum of the variances")
    return ReleasePlan(
        shares=pd.Series(shares, index=pd.Index(queries.names, tupleize_cols=False)),
        mechanism=tuple(laws),
        sensitivity=freeze(change),
        budget=budget,
        variance=attach_labels(freeze(variance), queries.labels),
        total=total,
        labels=queries.labels,
        gap=gap,
        notes=notes,
    )


def check_weights(weights: Any, queries: Measurements) -> FloatArray:
    """Return the importance of each target."""
    if weights is None:
        return np.ones(len(queries.cells))
    checked = check_array(weights, "weights", ndim=1, ge=0, le=1e50)
    check_length(checked, "weights", len(queries.cells), "the targets")
    if not checked.any():
        raise InvalidParameterError("weights must have at least one entry above 0, got none")
    return checked


def _check_shares(shares: Any, queries: Measurements) -> FloatArray:
    groups = len(queries.names)
    if shares is None:
        return np.full(groups, 1.0 / groups)
    shares = as_table(shares, "shares")
    if isinstance(shares, Mapping) or hasattr(shares, "iloc"):
        given = {str(name): share for name, share in shares.items()}
        if set(given) != set(queries.names) or len(given) != groups:
            raise InvalidParameterError(
                f"shares must have one entry for each of {show(queries.names)}, got "
                f"{show(list(given))}"
            )
        shares = [given[name] for name in queries.names]
    checked = check_array(shares, "shares", ndim=1, ge=0, le=1 + _ROUNDING)
    check_length(checked, "shares", groups, "the measurements")
    if checked.sum() > 1.0 + _ROUNDING:
        raise InvalidParameterError(f"shares must add up to at most 1, got {checked.sum():.12g}")
    return checked


def _law(budget: Guarantee, family: Family, change: float, share: float) -> NoiseLaw | None:
    if change == 0:
        return Exact()
    if share == 0:
        return None
    return family.law(float(share * family.unit(budget, float(change))))
