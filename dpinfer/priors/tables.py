"""What is believed of all cells of a table together, before their noisy values are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpinfer._check import check_array, check_scalar, show
from dpinfer.errors import InvalidParameterError
from dpinfer.priors.counts import (
    LARGEST_DISPERSION,
    NegativeBinomialPrior,
    Prior,
    check_mean,
    shown,
)
from dpinfer.results.labels import attach_labels, check_order, split_labels

_CONCENTRATIONS = (1e-6, 1e9)
_MEANS = (1e-9, 1e12)
_SMALLEST_DISPERSION = 1e-9


@dataclass(frozen=True, eq=False)
class DirichletMultinomialPrior(Prior):
    """Cells share a known total by shares that are Dirichlet.

    π(x) ∝ Π Γ(xᵢ + αᵢ)/xᵢ! on the tables with that total. With α = 1 all of them are equally
    likely; α near 0 favours tables of few large cells. It is the law of independent negative
    binomial counts of size α given their sum.

    Parameters
    ----------
    concentration : float, array or Series
        Parameter α within [1e-6, 1e9]: one for all cells, or one for each.

    Raises
    ------
    InvalidParameterError
        If a concentration is outside what is allowed.

    Examples
    --------
    >>> DirichletMultinomialPrior(0.5).description
    'Dirichlet-multinomial, concentration 0.5'
    """

    concentration: Any

    def __post_init__(self) -> None:
        low, high = _CONCENTRATIONS
        array, _ = split_labels(self.concentration, "concentration", ge=low, le=high)
        _check_vector(array, "concentration")

    @property
    def description(self) -> str:
        """The prior in words."""
        return f"Dirichlet-multinomial, concentration {shown(self.concentration)}"


@dataclass(frozen=True, eq=False)
class HierarchicalPrior(Prior):
    """Cells vary about means with an unknown common factor, drawn together with the cells.

    Given the factor m and the dispersion φ, cell i is negative binomial with mean m·wᵢ and
    variance m·wᵢ + φ(m·wᵢ)². The logarithms of m and φ are uniform between their ends: what the
    release says of them is part of the posterior, and so is what it leaves open. A prior that is
    estimated from the release and then held fixed gives intervals that are too short.

    Parameters
    ----------
    mean : pair of float
        Ends of m, within [1e-9, 1e12].
    dispersion : float or pair of float, default 0.0
        Ends of φ, within [1e-9, 1e6]; or its value in [0, 1e6], where it is known: 0 is Poisson.
    shape : float, array or Series, default 1.0
        The relative means wᵢ, 0 or within [1e-100, 1e15]: one for all cells, or one for each, such
        as another year's table or the populations of the cells.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Examples
    --------
    >>> HierarchicalPrior((0.1, 100.0), (0.01, 10.0)).description
    'negative binomial, mean within 0.1 to 100, dispersion within 0.01 to 10'
    """

    mean: Any
    dispersion: Any = 0.0
    shape: Any = 1.0

    def __post_init__(self) -> None:
        _check_ends(self.mean, "mean", *_MEANS)
        if check_array(self.dispersion, "dispersion").ndim:
            _check_ends(self.dispersion, "dispersion", _SMALLEST_DISPERSION, LARGEST_DISPERSION)
        else:
            check_scalar(self.dispersion, "dispersion", ge=0, le=LARGEST_DISPERSION)
        check_mean(self.shape, "shape")
        shape, _ = split_labels(self.shape, "shape")
        _check_vector(shape, "shape")
        if not shape.any():
            raise InvalidParameterError("shape must have a positive entry, got zeros only")

    @property
    def description(self) -> str:
        """The prior in words."""
        if np.ndim(self.dispersion):
            return (
                f"negative binomial, mean within {shown(self.mean)}, dispersion within "
                f"{shown(self.dispersion)}"
            )
        if self.dispersion == 0:
            return f"Poisson, mean within {shown(self.mean)}"
        return (
            f"negative binomial, mean within {shown(self.mean)}, dispersion "
            f"{shown(self.dispersion)}"
        )


def previous_table_prior(
    counts: Any, *, growth: Any = 1.0, weight: float = 1.0
) -> NegativeBinomialPrior:
    """Return the prior that another year's table gives for the cells of this one.

    Parameters
    ----------
    counts : array, Series or DataFrame
        That year's counts zᵢ, known without noise, within [0, 1e12].
    growth : float, array or Series, default 1.0
        Rates of this year over those of that one, within [1e-6, 1e6].
    weight : float, default 1.0
        How much a count of that year says of this one's, in (0, 1]: w = 1 where the rates grew by
        just ``growth``; less where they may have changed otherwise, too.

    Returns
    -------
    NegativeBinomialPrior
        One negative binomial law for each cell, with the labels of ``counts``.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    If zᵢ is Poisson with rate λᵢ, of which the prior is that of Jeffreys, λᵢ^(-½), and the
    likelihood of zᵢ counts to the power w, then λᵢ given zᵢ is gamma with shape w·zᵢ + ½ and rate
    w. A Poisson count with the rate growth·λᵢ is then negative binomial with mean
    growth·(zᵢ + 1/(2w)) and dispersion 1/(w·zᵢ + ½). A cell that was empty may be filled now.

    References
    ----------
    Ibrahim, J. G. and Chen, M.-H. (2000). Power prior distributions for regression models.
    Statistical Science 15(1), 46-60. doi:10.1214/ss/1009212673.

    Examples
    --------
    >>> prior = previous_table_prior([0, 12])
    >>> prior.mean, prior.dispersion
    (array([ 0.5, 12.5]), array([2.  , 0.08]))
    """
    before, labels = split_labels(counts, "counts", ge=0, le=1e12)
    rate, own = split_labels(growth, "growth", ge=1e-6, le=1e6)
    w = check_scalar(weight, "weight", gt=1e-9, le=1)
    check_order(own, labels, "growth", "counts")
    if rate.ndim and rate.shape != before.shape:
        raise InvalidParameterError(
            f"growth must be a number or have one entry for each of {before.size} counts, got "
            f"shape {rate.shape}"
        )
    mean, size = rate * (before + 0.5 / w), w * before + 0.5
    return NegativeBinomialPrior(
        attach_labels(mean, labels),
        attach_labels(1.0 / size, labels),
    )


def _check_vector(array: Any, name: str) -> None:
    if array.ndim > 1 or not array.size:
        raise InvalidParameterError(
            f"{name} must be a number, or one-dimensional with one entry for each cell, got shape "
            f"{array.shape}"
        )


def _check_ends(value: Any, name: str, ge: float, le: float) -> None:
    ends = check_array(value, name, ge=ge, le=le)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise InvalidParameterError(
            f"{name} must be a pair of ends, the first of which is smaller, got {show(value)}"
        )
