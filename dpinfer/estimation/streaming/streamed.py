"""Combined estimates of a tree of tables that are in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer._validation import FloatArray, check_option, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.pivots import ManyErrors
from dpinfer.estimation.streaming._files import columns_of, read_bound, read_estimates
from dpinfer.estimation.streaming._part import PartTask, Plan, fitted
from dpinfer.estimation.tables._schema import Names
from dpinfer.estimation.tables.estimate import MarginalsEstimate
from dpinfer.results.intervals import Intervals

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StreamedMarginals:
    """Estimates in files; made by :func:`dpinfer.stream_marginals`.

    The folder ``estimates`` in ``folder`` has a Parquet file for each part with a row for each
    unit, its roots among them: its label ``unit``, and for the j-th wanted marginal the lists
    ``estimate-j``, its cells in row-major order, and ``variance-j``, of one number for all cells,
    or for those of each joint level of the attributes that have groupings or zeros.

    Attributes
    ----------
    seconds : mapping of str to float
        The seconds that each task took which was run: ``"up ..."`` and ``"down ..."`` by part.
    """

    tasks: Mapping[str, PartTask]
    seconds: Mapping[str, float]

    @property
    def folder(self) -> str:
        """The working folder."""
        return self._plan.folder.root

    @property
    def marginals_wanted(self) -> tuple[Names, ...]:
        """The marginals that were written."""
        return self._plan.wanted

    @property
    def files(self) -> dict[str, Path]:
        """The file of the estimates of each part."""
        return {name: self._plan.folder.estimates(name) for name in self.tasks}

    @cached_property
    def top(self) -> MarginalsEstimate:
        """The estimates of the top part, from the values of all parts.

        They have everything but a test of consistency, for which residuals of all parts count.
        """
        return self.part(next(name for name, task in self.tasks.items() if task.top))

    def part(self, name: str) -> MarginalsEstimate:
        """Return the estimates of one part, from the values of all, made anew in memory.

        Parameters
        ----------
        name : str
            The part.

        Returns
        -------
        MarginalsEstimate
            Any marginal, cell or contrast of the units of the part with its variance.
        """
        (found,) = self._chosen([name])
        return MarginalsEstimate(_fit=fitted(self.tasks[found])[0], _refuse=self._plan.refuse)

    def marginal(self, attributes: Any = (), parts: Any = None) -> pd.DataFrame | pd.Series:
        """Read estimates of a marginal.

        Parameters
        ----------
        attributes : str or sequence of str, default ()
            The attributes of a marginal that was wanted, in any order.
        parts : str or list of str, optional
            The parts whose units to read; by default all.

        Returns
        -------
        DataFrame or Series
            A row for each unit, a column for each cell; for the total a Series.
        """
        return self._read(attributes, parts, 0)

    def marginal_variance(
        self, attributes: Any = (), parts: Any = None
    ) -> pd.DataFrame | pd.Series:
        """Read variances due to the noise of the estimates of a marginal.

        Parameters
        ----------
        attributes, parts
            As for :meth:`marginal`.

        Returns
        -------
        DataFrame or Series
            In the form of :meth:`marginal`.
        """
        return self._read(attributes, parts, 1)

    def marginal_bse(self, attributes: Any = (), parts: Any = None) -> pd.DataFrame | pd.Series:
        """Return standard errors due to the noise of the estimates of a marginal.

        Parameters
        ----------
        attributes, parts
            As for :meth:`marginal`.

        Returns
        -------
        DataFrame or Series
            The square roots of :meth:`marginal_variance`, in the same form.
        """
        return self._read(attributes, parts, 1).pow(0.5)

    def conf_int(
        self,
        attributes: Any = (),
        parts: Any = None,
        alpha: float = 0.05,
        method: Literal["bound", "normal"] = "bound",
    ) -> Intervals:
        """Confidence intervals for the cells of a marginal.

        Parameters
        ----------
        attributes, parts
            As for :meth:`marginal`.
        alpha : float, default 0.05
            One minus the confidence level of each interval.
        method : {"bound", "normal"}
            ``"bound"``: half-widths that hold for all cells, from the noises of all parts, as for
            :meth:`MarginalsEstimate.conf_int`; where all noise is Gaussian, normal ones, which are
            exact then. ``"normal"``: normal quantiles, approximate for other noise. Exact laws of
            other noise need all values in memory: :func:`dpinfer.combine_marginals`.

        Returns
        -------
        Intervals
            One interval a cell, labelled by unit and levels. Unpacks as ``lower, upper``.
        """
        import pandas as pd

        estimate = self.marginal(attributes, parts)
        std_err = self.marginal_bse(attributes, parts).to_numpy().ravel()
        names = self._plan.schema.check_names(attributes)
        levels = [self._plan.schema.levels_of(name) for name in names]
        units = estimate.index.rename("unit")
        labels = (
            pd.MultiIndex.from_product([units, *levels], names=["unit", *names]) if names else units
        )
        check_option(method, "method", ("bound", "normal"))
        bound = read_bound(self._plan.folder)
        errors = ManyErrors(
            std_errors=std_err,
            law=None,
            terms=0,
            gaussian=bound.is_gaussian,
            integer=any(law.is_integer for law in bound.laws),
            bound=lambda: bound,
            magnitude=float(np.nanmax(np.abs(estimate.to_numpy()), initial=0.0)),
        )
        values = estimate.to_numpy().ravel()
        return errors.intervals(values, np.arange(values.size), alpha, method, labels)

    def __repr__(self) -> str:
        return (
            f"StreamedMarginals({len(self.tasks)} parts, {len(self.marginals_wanted)} marginals, "
            f"{show(self.folder)})"
        )

    @property
    def _plan(self) -> Plan:
        return next(iter(self.tasks.values())).plan

    def _chosen(self, parts: Any) -> list[str]:
        listed = list(self.tasks) if parts is None else [parts] if isinstance(parts, str) else parts
        unknown = [name for name in listed if name not in self.tasks]
        if unknown or not len(listed):
            raise InvalidParameterError(
                f"parts must name one or more of {show_some(self.tasks)}, got {show(parts)}"
            )
        return list(listed)

    def _read(self, attributes: Any, parts: Any, which: int) -> pd.DataFrame | pd.Series:
        import pandas as pd

        schema = self._plan.schema
        names = schema.check_names(attributes)
        alike = [at for at, one in enumerate(self.marginals_wanted) if set(one) == set(names)]
        if not alike:
            raise InvalidParameterError(
                "attributes must be one of the marginals that were wanted, "
                f"{show_some(self.marginals_wanted)}, got {show(names)}"
            )
        (number,) = alike
        written = self.marginals_wanted[number]
        files = [self.files[name] for name in self._chosen(parts)]
        units, (found,) = read_estimates(files, [columns_of(number)[which]])
        index = pd.Index(units, name=None)
        if not names:
            return pd.Series(found[:, 0], index=index)
        table = self._table(found, written, spread=which == 1)
        moved = table.transpose((0, *(1 + written.index(name) for name in names)))
        return pd.DataFrame(
            moved.reshape((len(found), -1)), index=index, columns=schema.cells(names)
        )

    def _table(self, found: FloatArray, names: Names, spread: bool) -> FloatArray:
        """Return numbers as tables, shape (units, levels of each name)."""
        schema = self._plan.schema
        if not spread:
            return found.reshape((len(found), *schema.shape(names)))
        axes = schema.axes.shape(schema.kept(names))
        wide = np.broadcast_to(
            found.reshape((*found.shape, *(1,) * len(axes))), (*found.shape, *axes)
        )
        return schema.outward(wide, names)
