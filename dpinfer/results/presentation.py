"""What every result can do: show itself in a notebook and a paper, and give some of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import check_flag, check_integer, show
from dpinfer.errors import InvalidParameterError
from dpinfer.results.labels import find_rows
from dpinfer.results.tables import Table

if TYPE_CHECKING:
    import pandas as pd


class Presented(ABC):
    """A result that shows itself: as plain text, HTML, Markdown and LaTeX."""

    __slots__ = ()

    @abstractmethod
    def _table(self, *args: Any, **kwargs: Any) -> Table:
        """Return what is shown, from which all renderings are made."""

    def summary(self, *args: Any, **kwargs: Any) -> str:
        """Return ``summary_frame``, with the same arguments, as a plain-text table.

        The head says how it was made and which error it covers; of more than 60 rows the first and
        last are shown.
        """
        return self._table(*args, **kwargs).text()

    def to_markdown(
        self,
        *args: Any,
        caption: str | None = None,
        digits: int | None = None,
        brackets: bool = False,
        **kwargs: Any,
    ) -> str:
        """Return the table of :meth:`summary` with all rows in Markdown, as GitHub reads it.

        Parameters
        ----------
        *args, **kwargs
            As for ``summary_frame``.
        caption : str, optional
            The title; by default that of the summary.
        digits : int, optional
            Decimals of all numbers that are not whole, from 0 to 15; a p-value that they do not
            show is a bound, "< 0.001". By default as many as the summary has.
        brackets : bool, default False
            Whether the ends of intervals stand in one column, "[1.2, 3.4]".
        """
        return self._table(*args, **kwargs).markdown(
            caption=_words(caption, "caption"),
            digits=_decimals(digits),
            brackets=check_flag(brackets, "brackets"),
        )

    def to_latex(
        self,
        *args: Any,
        caption: str | None = None,
        label: str | None = None,
        digits: int | None = None,
        brackets: bool = False,
        **kwargs: Any,
    ) -> str:
        r"""Return the table of :meth:`summary` with all rows in LaTeX.

        It is a ``table`` environment that needs the package booktabs, with notes below. Letters
        that LaTeX takes for orders are escaped, Greek ones are written in mathematics. Latin ones
        such as ą and ð need the package fontenc with T1, all others LuaLaTeX or XeLaTeX.

        Parameters
        ----------
        *args, **kwargs
            As for ``summary_frame``.
        caption : str, optional
            The caption, as plain text; by default the title of the summary.
        label : str, optional
            What ``\ref`` calls the table: letters, digits and ``: . - _ /``.
        digits, brackets
            As for :meth:`to_markdown`.
        """
        name = _words(label, "label")
        if name is not None and not (name and set(name) <= _OF_LABELS):
            raise InvalidParameterError(
                f"label must be of letters, digits and : . - _ /, got {show(name)}"
            )
        return self._table(*args, **kwargs).latex(
            caption=_words(caption, "caption"),
            label=name,
            digits=_decimals(digits),
            brackets=check_flag(brackets, "brackets"),
        )

    def _repr_html_(self) -> str:
        return self._table().html()

    def __str__(self) -> str:
        return self.summary()


class Plotted:
    """A result that a function of :mod:`dpinfer.plotting` draws."""

    __slots__ = ()

    _drawing: ClassVar[str] = "plot_forest"

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the result, by the function of :mod:`dpinfer.plotting` that is for it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        **options
            As for that function: :func:`dpinfer.plotting.plot_forest` for estimates and intervals.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the drawing.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        # drawings are in a layer above
        return getattr(import_module("dpinfer.plotting"), self._drawing)(self, ax=ax, **options)


class Indexed:
    """A result whose rows are results, and which is no sequence of numbers."""

    __slots__ = ()

    __iter__: Any = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = np.empty((), dtype=object)
        whole[()] = self
        return whole.astype(dtype or object, copy=False)


class Rows(Presented, Indexed):
    """A result with a row for each of several values, some of which can be chosen."""

    __slots__ = ()

    _by_row: ClassVar[tuple[str, ...]] = ()
    """The fields that have an entry for each row, or one for all; the first has one for each."""

    labels: pd.Index | None

    def __len__(self) -> int:
        return int(np.size(getattr(self, self._by_row[0])))

    def __getitem__(self, which: Any) -> Self:
        """Return the result of some rows.

        ``which`` is a label, or its first parts; a list or a slice of labels; positions, where
        labels are not whole numbers themselves; a slice of positions; or a mask. One row that is
        named by itself has numbers in the place of arrays.
        """
        return self._take(find_rows(which, np.shape(getattr(self, self._by_row[0])), self.labels))

    def _take(self, rows: NDArray[np.intp]) -> Self:
        labels = self.labels
        held = {name: self._taken(getattr(self, name), rows) for name in self._by_row}
        held["labels"] = None if labels is None or not rows.ndim else labels[rows]
        return replace(self, **held)  # type: ignore[type-var]

    def _taken(self, value: Any, rows: NDArray[np.intp]) -> Any:
        """Return the rows of a field: of what has one entry for all, that."""
        if isinstance(value, Rows):
            return value._take(rows)
        if value is None or np.size(value) != len(self):
            return value
        return np.ravel(np.asarray(value))[rows]


class Facts(Presented):
    """A result of a few numbers, the fields of its class."""

    __slots__ = ()

    _title: ClassVar[str]
    _notes: ClassVar[tuple[str, ...]] = ()

    def summary_frame(self) -> pd.DataFrame:
        """Return the numbers as a DataFrame with one row."""
        import pandas as pd

        return pd.DataFrame({name: [value] for name, value in self._named()})

    def _named(self) -> list[tuple[str, object]]:
        return [(one.name, getattr(self, one.name)) for one in fields(self)]  # type: ignore[arg-type]

    def _table(self) -> Table:
        facts: list[tuple[str, object]] = [
            (name, f"{value:.6g}" if isinstance(value, float) else value)
            for name, value in self._named()
        ]
        return Table(self._title, facts, notes=self._notes)


class Listed(Presented, Indexed):
    """A result with rows that are made together: of some of them there is a :class:`Selection`."""

    __slots__ = ()

    @abstractmethod
    def _rows(self) -> tuple[int, pd.Index | None]:
        """Return the number of rows and their labels."""

    @abstractmethod
    def summary_frame(self, *args: Any, **kwargs: Any) -> pd.DataFrame:
        """Return a DataFrame with a row for each."""

    def __len__(self) -> int:
        return self._rows()[0]

    def __getitem__(self, which: Any) -> Selection:
        """Return some rows, named as those of :class:`~dpinfer.Intervals` are."""
        size, labels = self._rows()
        return Selection(self, find_rows(which, (size,), labels))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Selection(Presented, Indexed, Plotted):
    """Some rows of a result, made by indexing it: ``fit["F", "20-29"]``, ``fit[3]``, ``fit[:10]``.

    Attributes with an entry for each row, such as ``params`` and ``bse``, are those of these rows,
    numbers for one row that was named by itself; ``conf_int`` gives their intervals, and functions
    that take noisy values take them. What is about all rows together is had from ``whole``.

    Attributes
    ----------
    whole : result
        The result of all rows.
    rows : array of int
        The positions of these among them.
    """

    whole: Listed
    rows: NDArray[np.intp]

    def __len__(self) -> int:
        return self.rows.size

    def __getitem__(self, which: Any) -> Selection:
        """Return some of these rows, named as those of ``whole`` are."""
        if not self.rows.ndim:
            raise InvalidParameterError(
                f"index must be left out of one row, which has no rows, got {show(which)}"
            )
        labels = self.whole._rows()[1]
        own = None if labels is None else labels[self.rows.ravel()]
        return Selection(self.whole, self.rows.ravel()[find_rows(which, self.rows.shape, own)])

    def __getattr__(self, name: str) -> Any:
        if name == "__noisy__" and hasattr(self.whole, name):
            return self._noisy
        if name in ("whole", "rows") or name.startswith("_"):
            raise AttributeError(f"a selection has no {name}")
        if not hasattr(self.whole, name):
            raise AttributeError(f"{type(self.whole).__name__} has no {name}")
        value = getattr(self.whole, name)
        if np.ndim(value) != 1 or len(value) != len(self.whole):
            raise AttributeError(
                f"{name} is not one value for each row: take it from .whole, which has all rows"
            )
        return value.iloc[self.rows] if hasattr(value, "iloc") else np.asarray(value)[self.rows]

    def conf_int(self, *args: Any, **kwargs: Any) -> Any:
        """Return the intervals of these rows, of the level and method that ``whole`` gives them."""
        found = self.whole.conf_int(*args, **kwargs)  # type: ignore[attr-defined]
        return self._these(found)._take(self.rows)

    def summary_frame(self, *args: Any, **kwargs: Any) -> pd.DataFrame:
        """Return these rows of ``whole.summary_frame()``, which takes the same arguments."""
        frame = self._these(self.whole.summary_frame(*args, **kwargs))
        taken = frame.iloc[self.rows.ravel()]
        taken.attrs = frame.attrs
        return taken

    def _table(self, *args: Any, **kwargs: Any) -> Table:
        table: Table = self._these(self.whole._table(*args, **kwargs))
        return table.take(self.rows)

    def _noisy(self) -> Any:
        found = self._these(self.whole.__noisy__())  # type: ignore[attr-defined]
        taken = found.take(self.rows.ravel())
        return taken if self.rows.ndim else replace(taken, shape=(), labels=None)

    def _these(self, found: Any) -> Any:
        """Return what has the rows of the whole result, and refuse what has others."""
        if len(found) != len(self.whole):
            raise InvalidParameterError(
                f"these arguments give {len(found)} rows, other ones than the {len(self.whole)} "
                "of which some were chosen: pass them to .whole, and choose from its frame"
            )
        return found

    def __repr__(self) -> str:
        return f"{self.rows.size} of {self.whole!r}"


_OF_LABELS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:.-_/")


def _decimals(digits: int | None) -> int | None:
    return None if digits is None else check_integer(digits, "digits", ge=0, le=15)


def _words(text: str | None, name: str) -> str | None:
    if text is not None and not isinstance(text, str):
        raise InvalidParameterError(f"{name} must be a string, got {show(text)}")
    return text
