"""The library's own certificates: its intervals and tests over a grid of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from scipy import special

from dpinfer._check import RNG, FloatArray, check_flag, check_option, check_rng, show
from dpinfer.calibration.certificate import Certificate, Certificates, Verdict, as_json
from dpinfer.calibration.certification import certify, certify_interval, certify_model, certify_test
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests.counts import counts_2indep
from dpinfer.hypothesis_tests.models import (
    Binomial,
    Independence,
    Multinomial,
    Poisson,
    ProductMultinomial,
)
from dpinfer.hypothesis_tests.two_samples import poisson_2indep, proportions_2indep
from dpinfer.intervals.counts import count_confint
from dpinfer.intervals.proportions import poisson_confint, proportion_confint
from dpinfer.intervals.ratios import ratio_confint, relative_change_confint, share_confint
from dpinfer.intervals.two_by_two import (
    odds_ratio_confint,
    risk_difference_confint,
    risk_ratio_confint,
)
from dpinfer.mechanisms.law import NoiseLaw
from dpinfer.mechanisms.laws import DiscreteGaussian, Gaussian, Geometric, Laplace
from dpinfer.mechanisms.tulap import Tulap
from dpinfer.releases.release import Release
from dpinfer.results.files import check_output, write_whole
from dpinfer.results.presentation import Presented
from dpinfer.results.simulation import progress_bar
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


_PROPORTION = 0.3
_ROWS, _COLUMNS = np.array([0.6, 0.4]), np.array([0.5, 0.3, 0.2])
_QUERIES = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
"""Three cells, the sum of two of them, and their total."""


@dataclass(frozen=True)
class Setting:
    """Noise, a size of the data, and a nominal error probability."""

    noise: NoiseLaw
    nobs: int
    alpha: float


Role = Literal["procedure", "approximation", "control"]
"""What the library says holds, what it calls an approximation, and what it warns of."""

Case = Callable[..., list[tuple[Role, Certificate]]]
"""Makes certificates; takes the keywords ``margin, error, rng, n_jobs`` of ``certify_interval``."""


def cases(setting: Setting) -> Iterator[Case]:
    """Yield everything that is certified in a setting."""
    for part in (_of_counts, _of_populations, _releases, _tests):
        yield from part(setting)
    if not isinstance(setting.noise, Tulap):  # with it, sets of ratios are for a few pairs
        yield from _of_ratios(setting)


Split = Callable[[FloatArray], tuple[FloatArray, ...]]
"""Makes the first arguments of a function of simulated releases."""


def _whole(published: FloatArray) -> tuple[FloatArray, ...]:
    return (published,)


def _columns(published: FloatArray) -> tuple[FloatArray, ...]:
    return tuple(published.T)


def _tables(published: FloatArray) -> tuple[FloatArray, ...]:
    return (published.reshape(-1, 2, 2),)


def _call(function: Callable[..., Any], split: Split, published: FloatArray, **known: Any) -> Any:
    return function(*split(published), **known)


def _certified(
    setting: Setting,
    certify_one: Callable[..., Certificate],
    procedure: Any,
    truth: Any,
    name: str,
    role: Role = "procedure",
    **more: Any,
) -> Case:
    def run(**terms: Any) -> list[tuple[Role, Certificate]]:
        known = {"alpha": setting.alpha, "name": name, **more, **terms}
        return [(role, certify_one(procedure, truth, setting.noise, **known))]

    return run


def _interval(
    setting: Setting,
    function: Callable[..., Any],
    truth: Any,
    target: Any = None,
    *,
    name: str | None = None,
    split: Split = _whole,
    beside: str = "asymptotic",
    beside_name: str = "normal intervals",
    rule: dict[str, Any] | None = None,
    **known: Any,
) -> Case:
    """Certify an interval, with one by another method beside it."""
    own = rule or {}
    known = {"mechanism": setting.noise, "alpha": setting.alpha, **known, **own}
    made = partial(_call, function, split, **known)
    return _certified(
        setting,
        certify_interval,
        made,
        truth,
        name or function.__name__,
        target=target,
        beside=partial(made, method=beside),
        beside_name=beside_name,
        **own,
    )


def _of_counts(setting: Setting) -> Iterator[Case]:
    """Yield counts; one a little below a threshold, where that matters most; clamped ones."""
    yield _interval(setting, count_confint, 40.0)
    spread = float(np.ceil(setting.noise.std))
    reached: dict[str, Any] = {"threshold": 90.0}
    truth, ignored = reached["threshold"] - spread, "threshold ignored"
    yield _interval(
        setting,
        count_confint,
        truth,
        name="count_confint, threshold",
        rule=reached,
        beside="naive",
        beside_name=ignored,
    )
    known = {"mechanism": setting.noise, "alpha": setting.alpha, "method": "naive", **reached}
    naive = partial(count_confint, **known)
    yield _certified(setting, certify_interval, naive, truth, ignored, "control", **reached)
    yield _interval(
        setting,
        count_confint,
        np.ceil(0.5 * spread),
        name="count_confint, clamp",
        rule={"clamp": 0.0},
        beside="naive",
        beside_name="clamp ignored",
    )


def _of_populations(setting: Setting) -> Iterator[Case]:
    nobs, alpha = setting.nobs, setting.alpha
    trials, rate = Binomial(nobs=nobs, value=_PROPORTION), 0.2 * nobs
    events = Poisson(rate=np.array(rate))
    ignorant = partial(_wilson, nobs=nobs, alpha=alpha), partial(_garwood, alpha=alpha)
    names = [f"{who} interval, noise ignored" for who in ("Wilson's", "Garwood's")]
    yield _interval(setting, proportion_confint, trials, _PROPORTION, nobs=nobs)
    control = partial(_certified, setting, certify_interval)
    yield control(ignorant[0], trials, names[0], "control", target=_PROPORTION)
    yield _interval(setting, poisson_confint, events, rate)
    yield control(ignorant[1], events, names[1], "control", target=rate)


def _wilson(y: FloatArray, nobs: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    z = special.ndtri(1.0 - 0.5 * alpha)
    p = np.clip(y / nobs, 0.0, 1.0)
    centre = (p + 0.5 * z**2 / nobs) / (1.0 + z**2 / nobs)
    half = z * np.sqrt(p * (1.0 - p) / nobs + 0.25 * (z / nobs) ** 2) / (1.0 + z**2 / nobs)
    return centre - half, centre + half


def _garwood(y: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    events = np.maximum(np.rint(y), 0.0)
    lower = np.where(events > 0, special.gammaincinv(np.maximum(events, 1.0), 0.5 * alpha), 0.0)
    return lower, special.gammainccinv(events + 1.0, 0.5 * alpha)


def _of_ratios(setting: Setting) -> Iterator[Case]:
    part, rest = np.rint(_PROPORTION * setting.nobs), np.rint(0.7 * setting.nobs)
    for function, target in (
        (ratio_confint, part / rest),
        (share_confint, part / (part + rest)),
        (relative_change_confint, part / rest - 1.0),
    ):
        yield _interval(setting, function, [part, rest], target, split=_columns)
    counts = np.rint(setting.nobs * np.array([0.3, 0.7, 0.4, 0.6]))
    a, b, c, d = counts
    for by_table, target in (
        (risk_difference_confint, a / (a + b) - c / (c + d)),
        (risk_ratio_confint, a / (a + b) / (c / (c + d))),
        (odds_ratio_confint, a * d / (b * c)),
    ):
        yield _interval(setting, by_table, counts, target, split=_tables)


def _releases(setting: Setting) -> Iterator[Case]:
    cells = np.rint(setting.nobs * np.array([0.2, 0.3, 0.5]))
    release = Release(_QUERIES @ cells, workload=_QUERIES, mechanism=setting.noise)

    def run(**terms: Any) -> list[tuple[Role, Certificate]]:
        names: Any = ("combined", "consistency")
        found = certify(release, truth=cells, procedures=names, alpha=setting.alpha, **terms)
        return [("procedure", one) for one in found]

    yield run


def _tests(setting: Setting) -> Iterator[Case]:
    nobs = setting.nobs
    for model in (
        Binomial(nobs=nobs, value=_PROPORTION),
        Poisson(rate=np.array(0.2 * nobs)),
        Multinomial(nobs=nobs, value=np.full(4, 0.25)),
        Independence(nobs=8 * nobs, rows=_ROWS, columns=_COLUMNS),
    ):
        yield partial(_of_model, setting, model)
    two_cells = partial(_call, counts_2indep, _columns, mechanism=setting.noise)
    yield _certified(setting, certify_test, two_cells, [40.0, 40.0], "counts_2indep")
    groups = ProductMultinomial(np.full(2, float(nobs)), np.array([_PROPORTION, 1.0 - _PROPORTION]))
    limit: dict[str, Any] = {"mechanism": setting.noise, "method": "asymptotic"}
    for name, test, truth in (
        ("poisson_2indep", partial(_two_rates, **limit), Poisson(rate=np.full(2, 0.2 * nobs))),
        ("proportions_2indep", partial(_two_proportions, nobs=nobs, **limit), groups),
    ):
        name = f"{name}, asymptotic"
        yield _certified(setting, certify_test, test, truth, name, "approximation")


def _two_rates(y: FloatArray, **known: Any) -> Any:
    return poisson_2indep(y[:, 0], 1.0, y[:, 1], 1.0, **known)


def _two_proportions(y: FloatArray, nobs: int, **known: Any) -> Any:
    return proportions_2indep(y[:, 0], nobs, y[:, 2], nobs, **known)


def _of_model(setting: Setting, model: Any, /, **terms: Any) -> list[tuple[Role, Certificate]]:
    found = certify_model(model, setting.noise, alpha=setting.alpha, **terms)
    return [(_role(one.procedure), one) for one in found]


def _role(test: str) -> Role:
    """Tell from the name that a size study gives a test what is claimed of it."""
    if "noise ignored" in test:
        return "control"
    return "approximation" if "asymptotic" in test else "procedure"


# The library's own certificates, over a grid of settings.


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

GRIDS: dict[GridName, _Grid] = {
    "small": _Grid(_LAWS, (0.2,), (100,), (0.05,), 0.2),
    "full": _Grid(
        (*_LAWS, Tulap.from_epsilon), (0.1, 0.5, 2.0), (50, 1000), (0.01, 0.05, 0.1), 0.2
    ),
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class LibraryCertificates(Presented):
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
        """The verdict on the procedures."""
        return self.procedures.verdict

    def summary_frame(self) -> pd.DataFrame:
        """Return :meth:`Certificates.summary_frame` of all, with ``role`` as the first column.

        A role is ``"procedure"``, ``"approximation"`` or ``"control"``.
        """
        import pandas as pd

        frames = {role: held.summary_frame() for role, held in self._parts().items()}
        return pd.concat(frames, names=["role", None]).reset_index("role").reset_index(drop=True)

    def _table(self) -> Table:
        tables = [
            replace(held._table(), title=f"Certificates of {role}s")
            for role, held in self._parts().items()
        ]
        return reduce(lambda after, before: replace(before, after=after), reversed(tables))

    def to_json(self) -> str:
        """Return JSON with the version of dpinfer and the certificates of each role."""
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
    chosen = GRIDS[check_option(grid, "grid", GRIDS)]
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


AnyCertificates = Certificate | Certificates | LibraryCertificates

WRITERS: dict[str, Callable[[AnyCertificates], str]] = {
    ".json": lambda found: found.to_json(),
    ".csv": lambda found: str(found.summary_frame().to_csv(index=False)),
}


def check_certificates_path(path: str | Path) -> Path:
    """Refuse a file that could not be written, before any work is done.

    Parameters
    ----------
    path : str or Path
        The file, which ends in .json or .csv.

    Returns
    -------
    Path
        The same.

    Raises
    ------
    InvalidParameterError
        If the ending is another, the folder does not exist, or there is a folder of that name.

    Examples
    --------
    >>> check_certificates_path("certificates.json").suffix
    '.json'
    """
    if not isinstance(path, str | Path):
        raise InvalidParameterError(f"path must be a str or a Path, got {show(path)}")
    check_output(Path(path), WRITERS)
    return Path(path)


def write_certificates(found: AnyCertificates, path: str | Path) -> None:
    """Write certificates as JSON or CSV, all of the file or nothing.

    Parameters
    ----------
    found : Certificate, Certificates or LibraryCertificates
        What is to be written.
    path : str or Path
        The file: one that ends in .json has ``found.to_json()``, one that ends in .csv has
        ``found.summary_frame()``.

    Raises
    ------
    InvalidParameterError
        If the file cannot be written, or ``found`` is something else.

    Examples
    --------
    >>> from dpinfer.calibration import certify_library
    >>> write_certificates(certify_library("small"), "certificates.csv")  # doctest: +SKIP
    """
    place = check_certificates_path(path)
    if not isinstance(found, AnyCertificates):
        raise InvalidParameterError(f"found must be certificates, got {show(found)}")
    text = WRITERS[place.suffix](found)
    write_whole([(place, lambda draft: draft.write_text(text, encoding="utf-8"))])
