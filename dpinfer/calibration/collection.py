"""Several certificates as one value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from dpinfer._validation import check_items
from dpinfer.calibration._json import as_json
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.verdict import Verdict
from dpinfer.errors import InvalidParameterError
from dpinfer.results.tables import render_table

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False, repr=False)
class Certificates:
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

    certificates: tuple[Certificate, ...]

    def __post_init__(self) -> None:
        held = tuple(check_items(self.certificates, "certificates", "Certificate"))
        if not held or not all(isinstance(one, Certificate) for one in held):
            raise InvalidParameterError("certificates must hold one Certificate or more, and only")
        object.__setattr__(self, "certificates", held)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all: "fails" where one fails, "holds" where all hold."""
        found = {one.verdict for one in self}
        if "fails" in found:
            return "fails"
        return "holds" if found == {"holds"} else "undecided"

    def summary_frame(self) -> pd.DataFrame:
        """Return all rates as a DataFrame.

        Returns
        -------
        DataFrame
            The rows of :meth:`Certificate.summary_frame`, with ``seed`` and ``settings``.
        """
        import pandas as pd

        parts = []
        for one in self:
            settings = "; ".join(f"{name} {value}" for name, value in one.settings.items())
            seed = "" if one.seed is None else str(one.seed)
            parts.append(one.summary_frame().assign(seed=seed, settings=settings))
        return pd.concat(parts, ignore_index=True)

    def summary(self) -> str:
        """Return the certificates as a plain-text table, a row for each.

        Returns
        -------
        str
            For each certificate the rate closest to its limit or beyond it.
        """
        worst = [int(np.nan_to_num(one.error_rate, nan=-1.0).argmax()) for one in self]
        pairs = list(zip(self, worst, strict=True))
        columns = {
            "nominal": [f"{one.nominal:g}" for one in self],
            "rate": [f"{one.rate[row]:.4f}" for one, row in pairs],
            "mc_error": [f"{one.mc_error[row]:.4f}" for one, row in pairs],
            "reps": [int(one.reps[row]) for one, row in pairs],
            "verdict": [one.verdict for one in self],
        }
        counts = self._counts()
        return render_table(
            "Certificates",
            [(name.capitalize(), counts[name]) for name in ("holds", "fails", "undecided")],
            columns,
            index=self._names(),
            notes=("of several rates, that with the most errors; 0 reps: the rate is exact",),
        )

    def to_json(self) -> str:
        """Return all certificates as one JSON object, with the version of dpinfer.

        Returns
        -------
        str
            A JSON object: the list ``certificates`` has :meth:`Certificate.to_dict` of each.
        """
        return as_json({"certificates": [one.to_dict() for one in self]})

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, index: int) -> Certificate:
        return self.certificates[index]

    def __repr__(self) -> str:
        counts = self._counts()
        return (
            f"Certificates({len(self)}: {counts['holds']} hold, {counts['fails']} fail, "
            f"{counts['undecided']} undecided)"
        )

    def __str__(self) -> str:
        return self.summary()

    def _counts(self) -> Counter[str]:
        return Counter(one.verdict for one in self)

    def _names(self) -> list[str]:
        """Return what each is about: with the mechanism where that is not one for all."""
        mechanisms = [one.settings.get("mechanism", "") for one in self]
        if len(set(mechanisms)) == 1:
            return [one.procedure for one in self]
        pairs = zip(self, mechanisms, strict=True)
        return [", ".join(filter(None, (one.procedure, law))) for one, law in pairs]
