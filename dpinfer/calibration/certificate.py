"""What a simulation found about the coverage of intervals or the size of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, Locked, freeze
from dpinfer.calibration._json import as_json
from dpinfer.calibration.verdict import Verdict, exact_verdicts, largest_rate, verdicts
from dpinfer.results.binomial_bounds import clopper_pearson
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["coverage", "size"]

_TITLES: dict[Kind, str] = {"coverage": "Coverage of intervals", "size": "Size of a test"}

_ARRAYS = ("error_rate", "reps", "mean_width", "beside_error_rate", "beside_width")


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Certificate(Locked):
    """Coverage of intervals, or size of a test, as simulated; made by :func:`certify_interval`.

    The errors that are counted are intervals that miss, or true null hypotheses that are rejected.

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
        """Return exact bounds of the true rates.

        Returns
        -------
        lower, upper : array of float, shape (k,)
            Bounds of Clopper and Pearson, each of which misses with probability ``error``/k at
            most; the rates themselves where these are exact.
        """
        low, high = clopper_pearson(self._events, self.reps, self._error_of_each)
        if self.exact:
            low = high = self.error_rate
        return (1.0 - high, 1.0 - low) if self.kind == "coverage" else (low, high)

    @property
    def verdicts(self) -> NDArray[np.str_]:
        """The verdict on each rate: "holds", "fails" or "undecided"."""
        limit = largest_rate(self.alpha, self.margin)
        if self.exact:
            return exact_verdicts(self.error_rate, limit)
        return verdicts(self._events, self.reps, limit, self._error_of_each)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole; see the notes."""
        found = self.verdicts
        if (found == "fails").any():
            return "fails"
        return "holds" if (found == "holds").all() else "undecided"

    def summary_frame(self) -> pd.DataFrame:
        """Return the rates as a DataFrame.

        Returns
        -------
        DataFrame
            One row a rate: ``procedure``, ``about`` (its label), ``kind``, ``nominal``, ``rate``,
            ``mc_error``, ``bound_lower``, ``bound_upper``, ``limit``, ``verdict``, ``reps`` (0
            where the rate is exact), ``mean_width``, and of what was looked at beside ``beside``,
            ``beside_rate`` and ``beside_width``.
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

    def summary(self) -> str:
        """Return the certificate as a plain-text table.

        Returns
        -------
        str
            :meth:`summary_frame` with the settings and the rule, rounded for reading.
        """
        frame = self.summary_frame()
        names = ["rate", "mc_error", "bound_lower", "bound_upper"]
        names += [
            name for name in ("mean_width", "beside_width") if getattr(self, name) is not None
        ]
        columns: dict[str, Any] = {name: frame[name].to_numpy() for name in names}
        columns["verdict"] = frame["verdict"].to_numpy()
        return render_table(
            f"{_TITLES[self.kind]}: {self.procedure}",
            self._facts(),
            columns,
            index=frame["about"].to_numpy() if len(self.labels) > 1 or self.labels[0] else None,
            notes=(*self._rule(), *self.notes),
            alike=("rate", "mc_error", "bound_lower", "bound_upper"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts.

        Returns
        -------
        dict
            The fields and what follows from them; arrays as lists.
        """
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
        """Return :meth:`to_dict` as JSON with the version of dpinfer; null is for no number.

        Returns
        -------
        str
            A JSON object.
        """
        return as_json(self.to_dict())

    @property
    def _events(self) -> FloatArray:
        return np.round(np.where(self.reps > 0, self.error_rate, 0.0) * self.reps)

    @property
    def _error_of_each(self) -> float:
        return self.error / len(self.labels)

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

    def __str__(self) -> str:
        return self.summary()
