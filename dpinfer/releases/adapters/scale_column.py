"""Releases from tables that state the size of the noise in a bare column."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer._validation import FloatArray, check_array, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms import Exact, Gaussian, Geometric, IndependentNoise, Laplace, NoiseLaw
from dpinfer.releases._frame import check_frame, column
from dpinfer.releases._laws import KINDS, canonical_kind, parameters_of_kind
from dpinfer.releases.release import Release

if TYPE_CHECKING:
    import pandas as pd

FROM_VARIANCE: dict[str, Callable[[FloatArray], NoiseLaw]] = {
    "laplace": lambda variance: Laplace(scale=np.sqrt(variance / 2)),
    "gaussian": lambda variance: Gaussian(sigma=np.sqrt(variance)),
    # variance = 1/(2 sinh²(1/(2 scale))), solved for the scale
    "geometric": lambda variance: Geometric(scale=0.5 / np.arcsinh(np.sqrt(0.5 / variance))),
}

MEANINGS = ("parameter", "std", "variance")


def from_scale_column(
    frame: pd.DataFrame,
    mechanism: str,
    *,
    value: str,
    scale: str = "scale",
    given: str = "parameter",
    **details: Any,
) -> Release:
    """Build a release from a table that has the size of the noise in a column.

    Parameters
    ----------
    frame : DataFrame of pandas, polars, pyarrow or the like
        One published value in each row.
    mechanism : {"laplace", "geometric", "gaussian", "discrete_gaussian", "tulap"}
        The kind of noise.
    value : str
        The column of published values.
    scale : str
        The column of the size of the noise, >= 0; a value with size 0 is exact.
    given : {"parameter", "std", "variance"}
        What the column holds: the parameter of the law (``scale`` or ``sigma``), the standard
        deviation of the noise or its variance. A discrete Gaussian or Tulap law is given by its
        parameter only.
    **details
        The further arguments of :meth:`~dpinfer.releases.Release.from_frame`.

    Returns
    -------
    Release
        The values with the noise of each row, in the order of the rows.

    Raises
    ------
    InvalidParameterError
        If a column is missing, or the size of the noise is negative or not a number.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"count": [10.5, 20.1], "sd": [2.0, 4.0]})
    >>> from_scale_column(frame, "gaussian", value="count", scale="sd", given="std").mechanism
    Gaussian(sigma=array([2., 4.]))
    """
    frame = check_frame(frame)
    kind = canonical_kind(mechanism) if isinstance(mechanism, str) else ""
    meaning = check_option(given, "given", MEANINGS)
    if kind not in KINDS or kind == "exact":
        raise InvalidParameterError(
            f"mechanism must be the name of a noise law, got {show(mechanism)}"
        )
    if meaning != "parameter" and kind not in FROM_VARIANCE:
        raise InvalidParameterError(
            f"given must be 'parameter' for {kind} noise, got {show(given)}: its {given} does not "
            "determine the law in closed form"
        )
    size = check_array(column(frame, scale).to_numpy(), scale, ndim=1, ge=0)
    noisy, exact = np.flatnonzero(size > 0), np.flatnonzero(size == 0)
    law = _law(kind, size[noisy], meaning)
    joint = IndependentNoise.from_groups([(law, noisy), (Exact(), exact)], len(size))
    return Release.from_frame(frame, value=value, mechanism=joint, **details)


def _law(kind: str, size: FloatArray, meaning: str) -> NoiseLaw:
    if meaning == "parameter":
        first = next(iter(parameters_of_kind(kind)))
        return KINDS[kind](**{first: size})
    return FROM_VARIANCE[kind](size if meaning == "variance" else np.square(size))
