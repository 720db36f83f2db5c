"""The library's own certificates, over a grid of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal, final

from dpinfer._validation import RNG, check_flag, check_option, check_rng
from dpinfer.calibration._cases import Role, Setting, cases
from dpinfer.calibration._json import as_json
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.collection import Certificates
from dpinfer.calibration.verdict import Verdict
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, NoiseLaw, Tulap
from dpinfer.results.simulation import progress_bar

if TYPE_CHECKING:
    import pandas as pd

GridName = Literal["small", "full"]

_ERROR = 1e-3
"""Probability, at most, with which any verdict of a grid is wrong."""

_MOST_IN_CASE = 2
"""Most procedures of one case, for the error probability that all share."""

_SEEDS = 1 << 53


@dataclass(frozen=True)
class _Grid:
    """Laws of the noise for each ε, sizes of the data, levels, and the margin of the verdicts."""

    laws: tuple[Callable[[float], NoiseLaw], ...]
    epsilons: tuple[float, ...]
    nobs: tuple[int, ...]
    alphas: tuple[float, ...]
    margin: float

    def settings(self) -> Iterator[Setting]:
        for epsilon, nobs, alpha in product(self.epsilons, self.nobs, self.alphas):
            for law in self.laws:
                yield Setting(law(epsilon), nobs, alpha)


_LAWS: tuple[Callable[[float], NoiseLaw], ...] = (
    lambda epsilon: Laplace(scale=1.0 / epsilon),
    lambda epsilon: Geometric(scale=1.0 / epsilon),
    lambda epsilon: Gaussian(sigma=2.0 / epsilon),
    lambda epsilon: DiscreteGaussian(sigma=2.0 / epsilon),
)
"""Laws of about the same spread."""

_GRIDS: dict[GridName, _Grid] = {
    "small": _Grid(_LAWS, (0.2,), (100,), (0.05,), 0.2),
    "full": _Grid(
        (*_LAWS, Tulap.from_epsilon), (0.1, 0.5, 2.0), (50, 1000), (0.01, 0.05, 0.1), 0.2
    ),
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class LibraryCertificates:
    """Certificates of the library, and of controls; made by :func:`certify_library`.

    Parameters
    ----------
    procedures : Certificates
        What the library says holds.
    approximations : Certificates
        What it says is a limit for many observations, or an approximation.
    controls : Certificates
        What it warns of: the noise or the publishing rule ignored. They show what certificates
        find of wrong procedures; where there is little noise, they may hold.
    """

    procedures: Certificates
    approximations: Certificates
    controls: Certificates

    @property
    def verdict(self) -> Verdict:
        """The verdict on the procedures: "fails" where one fails, "holds" where all hold."""
        return self.procedures.verdict

    def summary_frame(self) -> pd.DataFrame:
        """Return all rates as a DataFrame.

        Returns
        -------
        DataFrame
            That of :meth:`Certificates.summary_frame`, with the column ``role`` in front:
            ``"procedure"``, ``"approximation"`` or ``"control"``.
        """
        import pandas as pd

        parts = []
        for role, held in self._parts().items():
            part = held.summary_frame()
            part.insert(0, "role", role)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def summary(self) -> str:
        """Return all as plain-text tables.

        Returns
        -------
        str
            A table for each role.
        """
        return "\n\n".join(f"{role}s\n{held.summary()}" for role, held in self._parts().items())

    def to_json(self) -> str:
        """Return all as one JSON object, with the version of dpinfer.

        Returns
        -------
        str
            A JSON object with the lists ``procedures``, ``approximations`` and ``controls``.
        """
        lists = {
            f"{role}s": [one.to_dict() for one in held] for role, held in self._parts().items()
        }
        return as_json({"verdict": self.verdict, **lists})

    def _parts(self) -> dict[Role, Certificates]:
        return {
            "procedure": self.procedures,
            "approximation": self.approximations,
            "control": self.controls,
        }

    def __repr__(self) -> str:
        return f"LibraryCertificates({self.procedures!r}, {len(self.controls)} controls)"

    def __str__(self) -> str:
        return self.summary()


def certify_library(
    grid: GridName = "small",
    *,
    rng: RNG = 0,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> LibraryCertificates:
    """Certify the intervals and tests of the library over a grid of settings.

    Parameters
    ----------
    grid : {"small", "full"}
        ``"small"``: four laws of noise for ε = 0.2, 100 observations and α = 0.05, in seconds.
        ``"full"``: five laws for three ε, two sizes of data and three α, in some five minutes.
    rng : None, int or numpy.random.Generator, default 0
        Source of the releases; an int is a seed.
    n_jobs : int or None, default 1
        Number of workers as joblib takes it; the answer does not depend on it.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    LibraryCertificates
        The certificates, each with a seed by which it can be had again, and controls.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed.
    MissingExtraError
        If there are to be several workers and joblib is not installed.

    Notes
    -----
    The verdicts share an error probability of 1e-3: with that, at most, one on any procedure of
    the grid is wrong. The command ``dpinfer certify --grid small --output certificates.json``
    writes the same certificates. The margin is a fifth of α in both grids.
    """
    chosen = _GRIDS[check_option(grid, "grid", _GRIDS)]
    generator = check_rng(rng)
    work = [case for setting in chosen.settings() for case in cases(setting)]
    error = _ERROR / (_MOST_IN_CASE * len(work))
    found: dict[Role, list[Certificate]] = {"procedure": [], "approximation": [], "control": []}
    with progress_bar(len(work), check_flag(progress, "progress"), "case") as advance:
        for case in work:
            seed = int(generator.integers(_SEEDS))
            made = case(margin=chosen.margin, error=error, rng=seed, n_jobs=n_jobs)
            for role, certificate in made:
                found[role].append(certificate)
            advance(1)
    return LibraryCertificates(*(Certificates(tuple(part)) for part in found.values()))
