"""Draws the embedded release from the 1996 American National Election Study.

``python -m dpinfer.datasets._make_anes96`` in a checkout writes the files anew.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.mechanisms import DiscreteGaussian, Exact, Geometric, Laplace, NoiseLaw
from dpinfer.queries import Domain, Workload
from dpinfer.releases import Release, write_release

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent
SEED = 1996

# attribute: (column of the survey, level: the largest code that belongs to it)
RECODED: dict[str, tuple[str, dict[str, int]]] = {
    "education": ("educ", {"High school or less": 3, "Some college": 4, "College degree": 7}),
    "party": ("PID", {"Democrat": 1, "Independent": 4, "Republican": 6}),
    "vote": ("vote", {"Clinton": 0, "Dole": 1}),
}

# One respondent's record may change and their number is public: a table of disjoint counts has
# L1 sensitivity 2 and L2 sensitivity √2.
L1, L2 = 2.0, sqrt(2.0)
PUBLISHED: list[tuple[tuple[str, ...], NoiseLaw]] = [
    (("education", "party", "vote"), Geometric.from_epsilon(1.0, sensitivity=L1)),
    (("party", "vote"), DiscreteGaussian.from_rho(0.2, sensitivity=L2)),
    (("education",), Laplace.from_epsilon(0.5, sensitivity=L1)),
    ((), Exact()),
]
# ε-DP implies ε²/2-zCDP, and ρ adds up
GUARANTEE = {"rho": 1.0**2 / 2 + 0.2 + 0.5**2 / 2}


def respondents() -> pd.DataFrame:
    """Return the records of the survey: education, party identification and intended vote."""
    import pandas as pd
    from statsmodels.datasets import anes96

    survey = anes96.load_pandas().data
    columns = {
        attribute: pd.cut(survey[source], [-np.inf, *last.values()], labels=list(last))
        for attribute, (source, last) in RECODED.items()
    }
    return pd.DataFrame(columns)


def draw() -> tuple[Release, pd.Series]:
    """Return the release and the confidential answers that it hides."""
    import pandas as pd

    domain = Domain({attribute: list(last) for attribute, (_, last) in RECODED.items()})
    cells = domain.histogram(respondents())
    tables = [Workload.from_marginals(domain, [margin]) for margin, _ in PUBLISHED]
    workload = Workload.vstack(tables)
    laws = [
        law for table, (_, law) in zip(tables, PUBLISHED, strict=True) for _ in range(len(table))
    ]
    drawn = Release.draw(cells, workload=workload, mechanism=laws, rng=SEED)
    # a release as an agency would have made it: the guarantee is what its noise stands for
    release = Release(
        drawn.values,
        workload=workload,
        mechanism=laws,
        neighbours="replace",
        unit="respondent",
        sensitivity={"l1": L1, "l2": L2},
        guarantee=GUARANTEE,
        name="anes96",
    )
    return release, pd.Series(workload.answer(cells), index=release.labels, name="count")


def write(folder: Path) -> None:
    """Draw the release and write its files, and that of the confidential answers."""
    drawn, truth = draw()
    write_release(drawn, folder / "anes96.csv")
    truth.astype(int).to_csv(folder / "anes96_truth.csv", lineterminator="\n")


if __name__ == "__main__":
    write(FOLDER)
