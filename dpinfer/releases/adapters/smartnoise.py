"""Releases from SmartNoise SQL."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpinfer._interchange import as_pandas
from dpinfer._validation import check_items, check_scalar, one_line, show
from dpinfer.errors import ApproximationWarning, InvalidParameterError
from dpinfer.mechanisms import Gaussian, Geometric, Laplace, NoiseLaw
from dpinfer.releases.release import Release

ALPHAS = (0.05, 0.5)
"""Two levels tell the laws apart, whose quantiles grow differently."""

AGREEMENT = 1e-6


def smartnoise_laws(reader: Any, query: str) -> list[NoiseLaw | None]:
    """Return the law of the noise in each column that a SmartNoise query returns.

    Parameters
    ----------
    reader : snsql.sql.private_reader.PrivateReader
        The reader that ran the query, or another with the same privacy parameters and metadata.
    query : str
        The query.

    Returns
    -------
    list of NoiseLaw and None
        In the order of the columns: None for grouping columns and for what is computed from
        several noisy numbers, such as ``AVG``.

    Raises
    ------
    InvalidParameterError
        If the reader does not know the query, or states an accuracy of no known law.

    Notes
    -----
    The laws are found from the accuracies that ``reader.get_simple_accuracy(query, alpha)``
    states, which spends no budget. An expression of one noisy number has the accuracy, and here
    the law, of that number: right for ``COUNT(*) * 1.0``, wrong for ``COUNT(*) * 2``.

    Checked against smartnoise-sql 1.0.10.
    """
    try:
        stated = [list(reader.get_simple_accuracy(query, alpha)) for alpha in ALPHAS]
    except Exception as error:  # of whatever kind its parser and its database raise
        raise InvalidParameterError(
            f"reader must be a PrivateReader of SmartNoise that knows the query {show(query)}: "
            f"{one_line(error)}"
        ) from error
    return [None if None in pair else _law(*pair) for pair in zip(*stated, strict=True)]


def from_smartnoise(
    reader: Any,
    query: str,
    result: Any,
    *,
    value: str,
    attributes: str | Sequence[str] | None = None,
    **details: Any,
) -> Release:
    """Build a release from what a SmartNoise query returned.

    Parameters
    ----------
    reader : snsql.sql.private_reader.PrivateReader
        The reader that ran the query.
    query : str
        The query.
    result : list of rows, or DataFrame
        What ``reader.execute(query)``, whose first row holds the names of the columns, or
        ``reader.execute_df(query)`` returned.
    value : str
        The column of noisy counts or sums.
    attributes : str or sequence of str, optional
        The grouping columns.
    **details
        The further arguments of :meth:`~dpinfer.releases.Release.from_frame`: ``clamp=0`` where
        the metadata say ``clamp_counts: True``.

    Returns
    -------
    Release
        The values of the column, with the law of their noise.

    Raises
    ------
    InvalidParameterError
        If a column is missing, or ``value`` is not one number with one noise.

    Warns
    -----
    ApproximationWarning
        For a column of whole numbers. SmartNoise adds continuous noise to counts and then cuts the
        decimals off, so that they are half a unit too close to zero on average. The release has
        them moved back by a half; what is left is a rounding error of at most a half, which the law
        of the noise does not hold. Ask for ``COUNT(*) * 1.0`` to get counts that are not cut.

    Notes
    -----
    With ``censor_dims: True`` SmartNoise leaves out groups whose noisy number of people, which
    another draw of noise hides, is below a threshold. Where the column is that number itself, give
    ``threshold=``.

    Checked against smartnoise-sql 1.0.10.
    """
    frame = _frame(result)
    names = [str(name) for name in frame.columns]
    if not isinstance(value, str) or names.count(value) != 1:
        raise InvalidParameterError(f"value must be one of the columns {names}, got {show(value)}")
    laws = smartnoise_laws(reader, query)
    if len(laws) != len(names):
        raise InvalidParameterError(
            f"result must have the {len(laws)} columns of the query, got {len(names)}"
        )
    law = laws[names.index(value)]
    if law is None:
        raise InvalidParameterError(
            f"value must be a column with noise of its own, got {show(value)}: it is a group, or "
            "is computed from several noisy numbers"
        )
    frame.columns = names
    if frame[value].dtype.kind in "iu" and not law.is_integer:
        frame[value] = frame[value] + 0.5 * np.sign(frame[value])
        warnings.warn(
            f"{value} holds whole numbers, from which SmartNoise has cut the decimals: they were "
            "moved away from zero by 0.5, and have a rounding error of up to 0.5 left; "
            "COUNT(*) * 1.0 is not cut",
            ApproximationWarning,
            stacklevel=2,
        )
    return Release.from_frame(frame, value=value, mechanism=law, attributes=attributes, **details)


def _frame(result: Any) -> Any:
    """Return the rows of a result as a new DataFrame."""
    import pandas as pd

    table = as_pandas(result, "result")
    if isinstance(table, pd.DataFrame):
        return table.copy()
    rows = [
        check_items(row, "rows of result", "values") for row in check_items(table, "result", "rows")
    ]
    named = bool(rows) and all(isinstance(name, str) for name in rows[0])
    if not named or len(rows) < 2 or len({len(row) for row in rows}) > 1:
        raise InvalidParameterError(
            "result must hold a row of names and rows of values of the same length, got "
            f"{show(result)}"
        )
    return pd.DataFrame(rows[1:], columns=rows[0])


def _law(narrow: Any, wide: Any) -> NoiseLaw:
    """Return the law whose accuracies are stated: P(abs(e) > accuracy) = alpha."""
    small, large = (check_scalar(found, "accuracy", gt=0, le=1e15) for found in (wide, narrow))
    steps = np.log(ALPHAS[1] / ALPHAS[0])
    candidates: tuple[tuple[NoiseLaw, Callable[[float], float]], ...] = (
        _laplace(large / np.log(1.0 / ALPHAS[0])),
        _geometric((large - small) / steps),
        _gaussian(large / -float(ndtri(0.5 * ALPHAS[0]))),
    )
    for law, accuracy in candidates:
        if np.allclose(
            [accuracy(alpha) for alpha in ALPHAS], [large, small], rtol=AGREEMENT, atol=0.0
        ):
            return law
    raise InvalidParameterError(
        f"reader must state the accuracy of Laplace, geometric or Gaussian noise, got {large:g} at "
        f"the level {ALPHAS[0]} and {small:g} at {ALPHAS[1]}"
    )


def _laplace(scale: float) -> tuple[NoiseLaw, Callable[[float], float]]:
    return Laplace(scale=scale), lambda alpha: float(scale * np.log(1.0 / alpha))


def _geometric(scale: float) -> tuple[NoiseLaw, Callable[[float], float]]:
    """OpenDP's accuracy of discrete Laplace noise: b log(2/(alpha (exp(1/b) + 1))) + 1."""
    size = max(scale, 1e-2)  # below, no accuracy at two levels tells the scale

    def accuracy(alpha: float) -> float:
        return float(size * (np.log(2.0 / alpha) - np.logaddexp(0.0, 1.0 / size)) + 1.0)

    return Geometric(scale=size), accuracy


def _gaussian(sigma: float) -> tuple[NoiseLaw, Callable[[float], float]]:
    return Gaussian(sigma=sigma), lambda alpha: float(-sigma * ndtri(0.5 * alpha))
