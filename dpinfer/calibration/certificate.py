"""What a simulation found about the coverage of intervals or the size of a test."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpinfer._check import (
    MAX_REPS,
    FloatArray,
    Locked,
    check_alpha,
    check_items,
    check_scalar,
    freeze,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.results.null import clopper_pearson
from dpinfer.results.presentation import Listed, Plotted, Presented
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


Verdict = Literal["holds", "fails", "undecided"]
Kind = Literal["coverage", "size"]

_TITLES: dict[Kind, str] = {"coverage": "Coverage of intervals", "size": "Size of a test"}

SMALLEST_ERROR = 1e-12
"""Error probability of a verdict below which tails of binomial laws lose their digits."""

EQUAL_RATES = 1e-9
"""Relative difference between an exact rate and its limit that may be rounding."""

_DECIDING = 0.99
"""Probability with which the planned number of replicates decides."""


def largest_rate(alpha: float, margin: float) -> float:
    """Return the largest error probability with which a procedure still holds."""
    if (limit := alpha * (1.0 + margin)) >= 1.0:
        raise InvalidParameterError(
            f"margin must be below {1.0 / alpha - 1.0:g} for alpha = {alpha:g}, got {margin:g}"
        )
    return limit


def replicates_to_decide(alpha: float, *, margin: float = 0.1, error: float = 1e-3) -> int:
    """Return how many replicates find a procedure to hold whose error probability is as stated.

    Parameters
    ----------
    alpha : float
        The nominal error probability, which is also the true one, in (0, 1).
    margin : float, default 0.1
        By which part of it the true one may exceed it, > 0.
    error : float, default 1e-3
        Probability, at most, with which the verdict is wrong, in [1e-12, 1/2).

    Returns
    -------
    int
        Number of replicates with which the verdict is "holds" with probability 0.99 or more.

    Raises
    ------
    InvalidParameterError
        If an argument is outside what is allowed, or more than 1e9 replicates would be needed.

    Examples
    --------
    >>> replicates_to_decide(0.05), replicates_to_decide(0.05, margin=0.2)
    (58712, 15553)
    """
    alpha = check_alpha(alpha)
    limit = largest_rate(alpha, check_scalar(margin, "margin", gt=0))
    error = check_scalar(error, "error", ge=SMALLEST_ERROR, lt=0.5)
    spread = special.ndtri(1.0 - error) * np.sqrt(limit * (1.0 - limit))
    spread += special.ndtri(_DECIDING) * np.sqrt(alpha * (1.0 - alpha))
    apart = limit - alpha  # 0 where the margin is below rounding
    reps = np.square(spread / apart) if apart > 0 else np.inf  # by the normal law
    while reps <= MAX_REPS:
        number = float(np.ceil(reps))
        # the most errors with which the verdict is "holds"
        most = _largest_count(number, limit, error)
        if most >= 0.0 and _at_most(most, number, alpha) >= _DECIDING:
            return int(number)
        reps = number * 1.01
    raise InvalidParameterError(
        f"margin must be larger for alpha = {alpha:g}, got {margin:g}: more than {MAX_REPS} "
        "replicates would be needed"
    )


def _largest_count(trials: float, limit: float, error: float) -> float:
    """Return the largest x with P(X <= x) <= error, or -1, by bisection."""
    low, high = -1.0, np.ceil(trials * limit)
    while high - low > 1.0:
        middle = np.floor(0.5 * (low + high))
        if _at_most(middle, trials, limit) <= error:
            low = middle
        else:
            high = middle
    return float(low)


def _at_most(x: float, n: float, p: float) -> float:
    """P(X <= x) of a binomial variable, 0 <= x <= n; 1 where x = n."""
    return float(special.betaincc(x + 1.0, n - x, p)) if x < n else 1.0


def as_json(content: dict[str, Any]) -> str:
    """Return strict JSON that starts with the version: what is no finite number is null."""
    from dpinfer import __version__

    document = {"dpinfer": __version__, **_finite(content)}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def joint_verdict(found: set[Any]) -> Verdict:
    """Return the verdict on several: "fails" where one fails, "holds" where all hold."""
    return "fails" if "fails" in found else "holds" if found == {"holds"} else "undecided"


_ARRAYS = ("error_rate", "reps", "mean_width", "beside_error_rate", "beside_width")


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Certificate(Locked, Listed, Plotted):
    """Coverage of intervals, or size of a test, as simulated; made by :func:`certify_interval`.

    Errors are intervals that miss, or true null hypotheses that are rejected.

    Parameters
    ----------
    procedure : str
        What was studied.
    kind : {"coverage", "size"}
        Whether the rates are the coverage of intervals or the size of a test.
    alpha : float
        The nominal error probability: one minus the level of the intervals, or the level of the
        test.
    labels : tuple of str
        What each of the k rates is about.
    error_rate : array of float, shape (k,)
        Relative frequencies of errors; NaN where nothing was published.
    reps : array of int, shape (k,)
        Replicates behind each rate: those that were published. 0 where a rate is ``exact``.
    exact : bool
        Whether the rates are known without simulation.
    margin : float
        By which part of ``alpha`` the true error probability may exceed it.
    error : float
        Probability, at most, with which the verdict on the whole is wrong.
    mean_width : array of float, shape (k,), optional
        Mean widths of the intervals; inf where some are unbounded.
    beside : str, optional
        The procedure that was looked at beside, such as the normal interval.
    beside_error_rate, beside_width : array of float, shape (k,), optional
        Its relative frequencies of errors and mean widths, from the same replicates.
    seed : int or None
        ``rng=seed`` gives the same certificate again; None where nothing was drawn.
    settings : mapping of str to str
        The truth, the noise and the publishing rule.
    notes : tuple of str
        What else the reader has to know, one remark each.

    Notes
    -----
    The verdict on a rate is "holds" where the exact upper bound of the error probability is at
    most the limit α·(1 + margin), "fails" where the lower bound is above the limit, and otherwise
    "undecided". Both are one-sided bounds of Clopper and Pearson (1934,
    doi:10.1093/biomet/26.4.404) that miss with probability ``error``/k at most. The verdict on the
    whole is "fails" where one rate fails, and "holds" where all hold. So with probability at
    most ``error`` it says "fails" of a procedure that keeps the limit everywhere, and with
    probability at most ``error`` "holds" of one that does not.

    A procedure whose error probability is α exactly, such as an interval under continuous noise,
    needs a margin: no number of replicates tells α from a little more. With ``margin=0``, "holds"
    is proof of an error probability of at most α, which only conservative procedures can have.

    Examples
    --------
    >>> found = Certificate(procedure="a test", kind="size", alpha=0.05, labels=("",),
    ...                     error_rate=np.array([0.0983]), reps=np.array([10_000]))
    >>> found.verdict, found.mc_error.round(4), [bound.round(3) for bound in found.bounds()]
    ('fails', array([0.003]), [array([0.089]), array([0.108])])
    """

    _drawing: ClassVar[str] = "plot_certificates"

    procedure: str
    kind: Kind
    alpha: float
    labels: tuple[str, ...]
    error_rate: FloatArray
    reps: NDArray[np.int64]
    exact: bool = False
    margin: float = 0.1
    error: float = 1e-3
    mean_width: FloatArray | None = None
    beside: str | None = None
    beside_error_rate: FloatArray | None = None
    beside_width: FloatArray | None = None
    seed: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, freeze(np.asarray(value)))
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    @property
    def nominal(self) -> float:
        """The nominal rate: 1 - ``alpha`` of intervals, ``alpha`` of a test."""
        return 1.0 - self.alpha if self.kind == "coverage" else self.alpha

    @property
    def rate(self) -> FloatArray:
        """The k rates: coverage of intervals, size of a test."""
        return self._as_rate(self.error_rate)

    @property
    def mc_error(self) -> FloatArray:
        """Monte Carlo standard errors of the rates, √(r(1 - r)/R); 0 where they are exact."""
        spread = np.sqrt(self.error_rate * (1.0 - self.error_rate) / np.maximum(self.reps, 1))
        return np.asarray(np.where(self.exact, 0.0, spread))

    @property
    def limit(self) -> float:
        """The rate that decides: 1 - α(1 + margin) for intervals, α(1 + margin) for a test."""
        limit = largest_rate(self.alpha, self.margin)
        return 1.0 - limit if self.kind == "coverage" else limit

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bounds of Clopper and Pearson of the true rates, shape (k,).

        Each misses with probability ``error``/k at most. Rates that are exact are their own bounds.
        """
        low, high = self._error_bounds()
        return (1.0 - high, 1.0 - low) if self.kind == "coverage" else (low, high)

    @property
    def verdicts(self) -> NDArray[np.str_]:
        """The verdict on each rate: "holds", "fails" or "undecided"."""
        limit = largest_rate(self.alpha, self.margin) * (1.0 + EQUAL_RATES * self.exact)
        low, high = self._error_bounds()
        decided = np.where(high <= limit, "holds", "undecided")
        return np.asarray(np.where(low > limit, "fails", decided))

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole; see the notes."""
        return joint_verdict(set(self.verdicts.tolist()))

    def summary_frame(self) -> pd.DataFrame:
        """Return a DataFrame with one row a rate.

        Its columns are ``procedure``, ``about`` (the label), ``kind``, ``nominal``, ``rate``,
        ``mc_error``, ``bound_lower``, ``bound_upper``, ``limit``, ``verdict``, ``reps`` (0 where
        the rate is exact), ``mean_width``, ``beside``, ``beside_rate`` and ``beside_width``.
        """
        import pandas as pd

        lower, upper = self.bounds()
        unknown = np.full(len(self.labels), np.nan)
        other = self.beside_error_rate
        return pd.DataFrame(
            {
                "procedure": self.procedure,
                "about": list(self.labels),
                "kind": self.kind,
                "nominal": self.nominal,
                "rate": self.rate,
                "mc_error": self.mc_error,
                "bound_lower": lower,
                "bound_upper": upper,
                "limit": self.limit,
                "verdict": self.verdicts,
                "reps": self.reps,
                "mean_width": unknown if self.mean_width is None else self.mean_width,
                "beside": self.beside or "",
                "beside_rate": unknown if other is None else self._as_rate(other),
                "beside_width": unknown if self.beside_width is None else self.beside_width,
            }
        )

    def _rows(self) -> tuple[int, pd.Index | None]:
        import pandas as pd

        return len(self.labels), pd.Index(self.labels)

    def _table(self) -> Table:
        frame = self.summary_frame()
        names = ["rate", "mc_error", "bound_lower", "bound_upper"]
        names += [
            name for name in ("mean_width", "beside_width") if getattr(self, name) is not None
        ]
        columns: dict[str, Any] = {name: frame[name].to_numpy() for name in names}
        columns["verdict"] = frame["verdict"].to_numpy()
        return Table(
            f"{_TITLES[self.kind]}: {self.procedure}",
            self._facts(),
            columns,
            index=frame["about"].to_numpy() if len(self.labels) > 1 or self.labels[0] else None,
            notes=(*self._rule(), *self.notes),
            alike=("rate", "mc_error", "bound_lower", "bound_upper"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and what follows from them as numbers, strings, lists and dicts."""
        lower, upper = self.bounds()
        other = self.beside_error_rate
        return {
            "procedure": self.procedure,
            "kind": self.kind,
            "alpha": self.alpha,
            "nominal": self.nominal,
            "margin": self.margin,
            "limit": self.limit,
            "error": self.error,
            "verdict": self.verdict,
            "exact": self.exact,
            "seed": self.seed,
            "settings": dict(self.settings),
            "labels": list(self.labels),
            "rate": self.rate.tolist(),
            "mc_error": self.mc_error.tolist(),
            "bound_lower": lower.tolist(),
            "bound_upper": upper.tolist(),
            "verdicts": self.verdicts.tolist(),
            "reps": self.reps.tolist(),
            "mean_width": None if self.mean_width is None else self.mean_width.tolist(),
            "beside": self.beside,
            "beside_rate": None if other is None else self._as_rate(other).tolist(),
            "beside_width": None if self.beside_width is None else self.beside_width.tolist(),
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON with the version of dpinfer; null is for no number."""
        return as_json(self.to_dict())

    def _error_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the probabilities of errors."""
        if self.exact:
            return self.error_rate, self.error_rate
        events = np.round(np.where(self.reps > 0, self.error_rate, 0.0) * self.reps)
        return clopper_pearson(events, self.reps, self.error / len(self.labels))

    def _as_rate(self, error_rate: FloatArray) -> FloatArray:
        return 1.0 - error_rate if self.kind == "coverage" else error_rate

    def _facts(self) -> list[tuple[str, object]]:
        low, high = int(self.reps.min()), int(self.reps.max())
        replicates = (
            "none, exact" if self.exact else f"{low}" if low == high else f"{low} to {high}"
        )
        facts: list[tuple[str, object]] = [
            ("Verdict", self.verdict),
            ("Nominal rate", f"{self.nominal:.6g}"),
            ("Replicates", replicates),
            ("Seed", "none" if self.seed is None else self.seed),
        ]
        facts += [(name.capitalize(), value) for name, value in self.settings.items()]
        return facts if self.beside is None else [*facts, ("Beside", self.beside)]

    def _rule(self) -> list[str]:
        side, bound = ("least", "lower") if self.kind == "coverage" else ("most", "upper")
        rule = f"holds: a true rate of at {side} {self.limit:.6g}"
        if self.exact:
            return [f"{rule}; the rate is exact"]
        rule += f", by the exact {bound} bound; wrong with probability at most {self.error:g}"
        if self.beside_error_rate is None:
            return [rule]
        rates = self._as_rate(self.beside_error_rate)
        low, high = (f"{end(rates):.4f}" for end in (np.nanmin, np.nanmax))
        return [rule, f"{self.beside}: rate {low if low == high else f'{low} to {high}'}"]

    def __repr__(self) -> str:
        rates = f"{len(self.labels)} rates" if len(self.labels) > 1 else f"rate {self.rate[0]:.4f}"
        return f"Certificate({self.procedure}: {self.kind} {self.verdict}, {rates})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Certificates(Presented, Plotted):
    """Certificates of several procedures; made by :func:`certify`.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates, one or more.

    Raises
    ------
    InvalidParameterError
        If there is none, or one is something else.

    Examples
    --------
    >>> import numpy as np
    >>> one = Certificate(procedure="a test", kind="size", alpha=0.05, labels=("",),
    ...                   error_rate=np.array([0.05]), reps=np.array([0]), exact=True)
    >>> Certificates([one, one])
    Certificates(2: 2 hold, 0 fail, 0 undecided)
    """

    _drawing: ClassVar[str] = "plot_certificates"

    certificates: tuple[Certificate, ...]

    def __post_init__(self) -> None:
        held = tuple(check_items(self.certificates, "certificates", "Certificate"))
        if not held or not all(isinstance(one, Certificate) for one in held):
            raise InvalidParameterError("certificates must hold one Certificate or more, and only")
        object.__setattr__(self, "certificates", held)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all: "fails" where one fails, "holds" where all hold."""
        return joint_verdict({one.verdict for one in self})

    def summary_frame(self) -> pd.DataFrame:
        """Return the rows of :meth:`Certificate.summary_frame`, with ``seed`` and ``settings``."""
        import pandas as pd

        parts = []
        for one in self:
            settings = "; ".join(f"{name} {value}" for name, value in one.settings.items())
            seed = "" if one.seed is None else str(one.seed)
            parts.append(one.summary_frame().assign(seed=seed, settings=settings))
        return pd.concat(parts, ignore_index=True)

    def _table(self) -> Table:
        worst = [int(np.nan_to_num(one.error_rate, nan=-1.0).argmax()) for one in self]
        pairs = list(zip(self, worst, strict=True))
        columns = {
            "nominal": [f"{one.nominal:g}" for one in self],
            "rate": [f"{one.rate[row]:.4f}" for one, row in pairs],
            "mc_error": [f"{one.mc_error[row]:.4f}" for one, row in pairs],
            "reps": [int(one.reps[row]) for one, row in pairs],
            "verdict": [one.verdict for one in self],
        }
        counts = Counter(one.verdict for one in self)
        mechanisms = [one.settings.get("mechanism", "") for one in self]
        if len(set(mechanisms)) == 1:  # that of all need not stand in each row
            mechanisms = [""] * len(self)
        pairs_of_names = zip([one.procedure for one in self], mechanisms, strict=True)
        return Table(
            "Certificates",
            [(name.capitalize(), counts[name]) for name in ("holds", "fails", "undecided")],
            columns,
            index=[", ".join(filter(None, pair)) for pair in pairs_of_names],
            notes=("of several rates, that with the most errors; 0 reps: the rate is exact",),
        )

    def to_json(self) -> str:
        """Return JSON with the version of dpinfer, and :meth:`Certificate.to_dict` of each."""
        return as_json({"certificates": [one.to_dict() for one in self]})

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, index: int) -> Certificate:
        return self.certificates[index]

    def __repr__(self) -> str:
        counts = Counter(one.verdict for one in self)
        return (
            f"Certificates({len(self)}: {counts['holds']} hold, {counts['fails']} fail, "
            f"{counts['undecided']} undecided)"
        )
