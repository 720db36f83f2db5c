"""Small releases whose confidential counts are known, for learning and for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.mechanisms import Geometric
from dpinfer.queries import Domain, Workload
from dpinfer.releases import Release, read_release

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class EmbeddedRelease:
    """A release together with what it hides.

    Attributes
    ----------
    release : Release
        What a researcher would see.
    truth : Series
        The confidential answer behind each published value, under the same labels.
    provenance : str
        Where the data come from and how the noise was drawn.
    """

    release: Release
    truth: pd.Series
    provenance: str


def load_anes96() -> EmbeddedRelease:
    """Load noisy tables of the 1996 American National Election Study.

    944 respondents by education (3 levels), party identification (3) and intended vote (2). Four
    overlapping tables were published under the ``replace`` neighbour relation: all 18 cells with
    geometric noise of scale 2 (ε = 1), party by vote with discrete Gaussian noise of σ² = 5
    (ρ = 0.2), education with Laplace noise of scale 4 (ε = 0.5), and the total, which is public
    and exact. Together they satisfy 0.825-zCDP.

    Returns
    -------
    EmbeddedRelease
        28 published values and the confidential counts.

    References
    ----------
    The American National Election Studies, public domain, as packaged in
    ``statsmodels.datasets.anes96``.

    Examples
    --------
    >>> data = load_anes96()
    >>> len(data.release), int(data.truth.iloc[-1])
    (28, 944)
    """
    import pandas as pd

    path = anes96_path()
    release = read_release(path)
    truth = pd.read_csv(path.with_name("anes96_truth.csv"))["count"]
    return EmbeddedRelease(
        release=release,
        truth=pd.Series(truth.to_numpy(), index=release.labels, name="count"),
        provenance=(
            "1996 American National Election Study (public domain, from statsmodels.datasets); "
            "noise drawn by dpinfer.datasets._make_anes96"
        ),
    )


def anes96_path() -> Path:
    """Return the path of the CSV file behind :func:`load_anes96`.

    Returns
    -------
    pathlib.Path
        The table; its sidecar lies beside it.

    Examples
    --------
    >>> anes96_path().name
    'anes96.csv'
    """
    return FOLDER / "anes96.csv"


def load_example_4_1() -> EmbeddedRelease:
    """Load Example 4.1 of the JSM tutorial: six cells and two of their sums, geometric noise.

    Eight people by sex (2) and marital status (3); the workload is the identity and the counts of
    the married and of the female. The sensitivity is 3 under ``add-remove`` neighbours, and the
    budget ε = 1.

    Returns
    -------
    EmbeddedRelease
        8 published values and the confidential counts.

    References
    ----------
    R. Ashmead, P. Leclerc and W. Sexton, *An Introduction to Differential Privacy*, Joint
    Statistical Meetings 2019, Examples 2.1 and 4.1.

    Examples
    --------
    >>> load_example_4_1().release.values
    array([ 3.,  0., -1.,  4.,  2.,  4.,  2.,  7.])
    """
    import pandas as pd

    domain = Domain({"sex": ["Male", "Female"], "mar": ["Married", "Single", "Other"]})
    sums = {"married": {"mar": "Married"}, "female": {"sex": "Female"}}
    cells = {f"{sex}, {mar}": {"sex": sex, "mar": mar} for sex, mar in domain.cells()}
    workload = Workload.from_predicates(domain, cells | sums)
    release = Release(
        [3, 0, -1, 4, 2, 4, 2, 7],
        workload=workload,
        mechanism=Geometric.from_epsilon(1, sensitivity=3),
        neighbours="add-remove",
        sensitivity=3,
        guarantee={"epsilon": 1},
        name="example 4.1",
    )
    confidential = np.array([1.0, 0.0, 2.0, 2.0, 3.0, 0.0])
    return EmbeddedRelease(
        release=release,
        truth=pd.Series(workload.answer(confidential), index=release.labels, name="count"),
        provenance="An Introduction to Differential Privacy, JSM 2019, Example 4.1",
    )
