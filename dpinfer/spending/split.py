"""How to divide a budget between a release and an estimate of its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer._validation import (
    FloatArray,
    Locked,
    check_alpha,
    check_array,
    check_flag,
    check_scalar,
    freeze,
)
from dpinfer.mechanisms import NoiseLaw, WeightedSum
from dpinfer.privacy.guarantees import Guarantee
from dpinfer.results.tables import render_table
from dpinfer.spending._families import Family, find_family

if TYPE_CHECKING:
    import pandas as pd

_GRID = 32
"""Shares at which widths are compared before the best is refined."""

_REFINED = 1e-6
_TIE = 1e-9
"""Widths this close, relatively, count as the same."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BudgetSplit(Locked):
    """The division of a budget with the narrowest final interval; made by ``best_split``.

    Attributes
    ----------
    release_share, error_share : float
        Shares of the budget for the release and for the error estimate.
    release_mechanism, error_mechanism : NoiseLaw or None
        Their noise; None where nothing is spent.
    width : float
        Width of the final interval, before it is restricted to possible values.
    shares, widths : array of float
        Shares of the release and the widths that they lead to; infinite where there is no interval.
    budget : Guarantee
        The budget in all.
    alpha : float
        One minus the level of the interval.
    unprocessed : bool
        Whether the unprocessed noisy value is published as well.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> from dpinfer.spending import best_split
    >>> split = best_split(PureDP(2.0), unprocessed=False, release_at_least=0.5, alpha=0.1)
    >>> split.release_share, split.error_share, round(split.width, 4)
    (0.5, 0.5, 4.6052)
    """

    release_share: float
    error_share: float
    release_mechanism: NoiseLaw | None
    error_mechanism: NoiseLaw | None
    width: float
    shares: FloatArray
    widths: FloatArray
    budget: Guarantee
    alpha: float
    unprocessed: bool

    def summary_frame(self) -> pd.DataFrame:
        """Return the shares that were compared, with the columns ``release_share`` and ``width``.

        A third column, ``error_share``, is what is left for the error estimate.
        """
        import pandas as pd

        return pd.DataFrame(
            {"release_share": self.shares, "error_share": 1.0 - self.shares, "width": self.widths}
        )

    def summary(self) -> str:
        """Return the best division and some others as a plain-text table."""
        some = np.unique(np.linspace(0, len(self.shares) - 1, 9).round().astype(int))
        frame = self.summary_frame().iloc[some]
        published = "release, error estimate" + ", unprocessed" * self.unprocessed
        return render_table(
            "Division of a budget",
            [
                ("Budget", self.budget),
                ("Published", published),
                ("Level", f"{1 - self.alpha:.6g}"),
                ("Best share of the release", f"{self.release_share:.6g}"),
                ("Width there", f"{self.width:.6g}"),
            ],
            {name: frame[name].to_numpy() for name in frame.columns},
        )

    def __repr__(self) -> str:
        return (
            f"BudgetSplit(release_share={self.release_share:.6g}, "
            f"error_share={self.error_share:.6g}, width={self.width:.6g})"
        )

    def __str__(self) -> str:
        return self.summary()


def best_split(
    budget: Guarantee,
    *,
    mechanism: type[NoiseLaw] | None = None,
    sensitivity: float = 1.0,
    alpha: float = 0.05,
    unprocessed: bool = True,
    release_at_least: float = 0.0,
) -> BudgetSplit:
    """Divide a budget between a release and its error estimate: the narrowest final interval.

    Parameters
    ----------
    budget : PureDP, ZCDP or GDP
        What may be spent in all; the shares are those of ε, of ρ, or of μ².
    mechanism : type, optional
        The class of the noise of both; see :func:`plan_release`.
    sensitivity : float, default 1
        The sensitivity of the query, in the norm that the noise needs.
    alpha : float, default 0.05
        One minus the level of the interval for a confidential value.
    unprocessed : bool, default True
        Whether the noisy value before the processing is published as well, so that the final
        interval combines it with the corrected value by inverse variance.
    release_at_least : float, default 0
        The share that the release needs to be of use itself, within [0, 1].

    Returns
    -------
    BudgetSplit
        The best division, and the widths of others. Of divisions that are as good, the one that
        gives most to the release.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.

    Notes
    -----
    Without the unprocessed value only the error estimate bears on the confidential value, and all
    that the release does not need belongs there. With it, precisions of Gaussian noise add up to
    the same whatever the division, under ZCDP and GDP; under pure differential privacy they go with
    ε₁² + ε₂², which is largest where everything is spent on one of the two, and every division has
    a wider interval than the undivided budget. What an error estimate buys is an interval for a
    value whose processing is not known or has no law that is free of the truth; it does not make
    one narrower that can be had without.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> best_split(PureDP(2.0))
    BudgetSplit(release_share=1, error_share=0, width=2.99573)
    """
    whole, family = find_family(budget, mechanism)
    unit = family.unit(whole, check_scalar(sensitivity, "sensitivity", gt=0, le=1e50))
    level = check_alpha(alpha)
    both = check_flag(unprocessed, "unprocessed")
    least = check_scalar(release_at_least, "release_at_least", ge=0, le=1)
    shares = np.linspace(least, 1.0, _GRID + 1) if least < 1 else np.ones(1)
    widths = _widths(family, unit, shares, level, both)
    best = _best(shares, widths)
    shares, widths = _refine(family, unit, level, both, shares, widths, best)
    best = _best(shares, widths)
    share = float(shares[best])
    return BudgetSplit(
        release_share=share,
        error_share=1.0 - share,
        release_mechanism=_law(family, unit, share),
        error_mechanism=_law(family, unit, 1.0 - share),
        width=float(widths[best]),
        shares=freeze(shares),
        widths=freeze(widths),
        budget=whole,
        alpha=level,
        unprocessed=both,
    )


def final_law(release: NoiseLaw | None, error: NoiseLaw | None) -> NoiseLaw | None:
    """Return the law of the best estimate from an unprocessed and a corrected value."""
    if release is None or error is None:
        return error if release is None else release
    variance = check_array([release.variance, error.variance], "variance")
    if variance.min() == 0.0:
        return release if variance[0] == 0.0 else error
    precision = variance.min() / variance
    return WeightedSum(precision / precision.sum(), [release, error])


def _widths(
    family: Family, unit: float, shares: FloatArray, alpha: float, unprocessed: bool
) -> FloatArray:
    """Return the width of the final interval for each share of the release."""
    out = np.full(len(shares), np.inf)
    for at, share in enumerate(shares):
        release = _law(family, unit, share) if unprocessed else None
        law = final_law(release, _law(family, unit, 1.0 - share))
        if law is not None:
            out[at] = 2.0 * float(law.isf(0.5 * alpha))
    return out


def _best(shares: FloatArray, widths: FloatArray) -> int:
    """Return the largest share among those with the smallest width."""
    return int(np.flatnonzero(widths <= widths.min() * (1.0 + _TIE))[-1])


def _refine(
    family: Family,
    unit: float,
    alpha: float,
    unprocessed: bool,
    shares: FloatArray,
    widths: FloatArray,
    best: int,
) -> tuple[FloatArray, FloatArray]:
    """Add shares ever closer to the best, unless it is one of the ends."""
    low, high = shares[max(best - 1, 0)], shares[min(best + 1, len(shares) - 1)]
    while 0 < best < len(shares) - 1 and high - low > _REFINED:
        new = np.linspace(low, high, 7)[1:-1]
        shares, order = np.unique(np.concatenate([shares, new]), return_index=True)
        found = _widths(family, unit, new, alpha, unprocessed)
        widths = np.concatenate([widths, found])[order]
        best = _best(shares, widths)
        low, high = shares[max(best - 1, 0)], shares[min(best + 1, len(shares) - 1)]
    return shares, widths


def _law(family: Family, unit: float, share: float) -> NoiseLaw | None:
    return family.law(float(share * unit)) if share > 0 else None
