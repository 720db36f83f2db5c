"""Which attributes of tables are transformed, and which form a block, with their groupings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray, check_items, show, show_some
from dpinfer.errors import InvalidParameterError
from dpinfer.estimation.tables._axes import Axes
from dpinfer.queries import Domain

if TYPE_CHECKING:
    import pandas as pd

Names = tuple[str, ...]

_MOST_TRANSFORMED = 16

_MOST_LEVELS = 1024


@dataclass(frozen=True, eq=False)
class Grouping:
    """Coarser levels of an attribute.

    Parameters
    ----------
    attribute : str
        The attribute.
    groups : tuple
        The coarser levels, in the order in which the levels of the attribute have them.
    matrix : array of float, shape (groups, levels)
        1 where a level is in a group.
    """

    attribute: str
    groups: tuple[Hashable, ...]
    matrix: FloatArray

    @classmethod
    def of(cls, name: str, given: Any, domain: Domain) -> Grouping:
        """Read a pair of attribute and mapping of its levels to groups."""
        if not isinstance(name, str) or name in domain.attributes:
            raise InvalidParameterError(
                "groupings must have names of their own, which are strings and not those of "
                f"attributes, got {show(name)}"
            )
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)):
            raise InvalidParameterError(
                f"groupings must map {show(name)} to a pair of an attribute and a mapping of its "
                f"levels to groups, got {show(given)}"
            )
        attribute, group = given
        domain.check_attributes([attribute])
        levels = domain.levels[attribute]
        if set(group) != set(levels):
            raise InvalidParameterError(
                f"groupings must give a group to each level of {attribute}, {show_some(levels)}, "
                f"got {show_some(group)} for {show(name)}"
            )
        found = [group[level] for level in levels]
        if not all(isinstance(each, Hashable) for each in found):
            raise InvalidParameterError(
                f"groupings must have groups that are labels, got {show_some(found)} for "
                f"{show(name)}"
            )
        groups = Domain({name: list(dict.fromkeys(found))}).levels[name]
        matrix = np.array([[float(each == one) for each in found] for one in groups])
        return cls(attribute, groups, matrix)


@dataclass(frozen=True, eq=False)
class TableSchema:
    """The attributes of tables.

    Parameters
    ----------
    domain : Domain
        All of them.
    block : tuple of str
        Those that are not transformed, of g joint levels.
    groupings : mapping of str to Grouping
        Coarser levels, by the name under which marginals have them.
    axes : Axes
        Those that are transformed.
    """

    domain: Domain
    block: Names
    groupings: Mapping[str, Grouping]
    axes: Axes

    @classmethod
    def of(cls, domain: Domain, groupings: Any, blocked: Iterable[Any]) -> TableSchema:
        """Read groupings; further attributes, or those of groupings, are in the block."""
        if groupings is not None and not isinstance(groupings, Mapping):
            raise InvalidParameterError(
                "groupings must be a mapping of names to pairs of an attribute and a mapping of "
                f"its levels to groups, got {show(groupings)}"
            )
        found = {name: Grouping.of(name, one, domain) for name, one in (groupings or {}).items()}
        apart = {one.attribute for one in found.values()}
        for name in blocked:
            if not isinstance(name, str) or name not in found:
                domain.check_attributes([name])
                apart.add(name)
        sizes = dict(zip(domain.attributes, domain.shape, strict=True))
        wide = sum(size > 1 and name not in apart for name, size in sizes.items())
        if wide > _MOST_TRANSFORMED:
            raise InvalidParameterError(
                f"domain must have at most {_MOST_TRANSFORMED} attributes of several levels, got "
                f"{wide}: the subsets of them are gone through one by one"
            )
        levels = prod(sizes[name] for name in apart)
        if levels > _MOST_LEVELS:
            raise InvalidParameterError(
                "the attributes with groupings or zeros must have at most "
                f"{_MOST_LEVELS} joint levels, got {levels} for {', '.join(sorted(apart))}"
            )
        return cls(
            domain,
            tuple(name for name in domain.attributes if name in apart),
            found,
            Axes.of({name: size for name, size in sizes.items() if name not in apart}),
        )

    @property
    def levels(self) -> int:
        """Number g of joint levels of the block; 1 without any."""
        return prod(len(self.domain.levels[name]) for name in self.block)

    def check_names(self, attributes: Any) -> Names:
        """Return attributes and groupings that a marginal keeps, each attribute once."""
        if isinstance(attributes, str):
            attributes = (attributes,)
        names = tuple(check_items(attributes, "attributes", "names of attributes"))
        for name in names:
            if not isinstance(name, str) or name not in self.groupings:
                self.domain.check_attributes([name])
        if len({self._attribute(name) for name in names}) < len(names):
            raise InvalidParameterError(f"attributes must be named once each, got {show(names)}")
        return names

    def shape(self, names: Names) -> tuple[int, ...]:
        """Return the number of levels of each of these names."""
        return tuple(len(self.levels_of(name)) for name in names)

    def levels_of(self, name: str) -> tuple[Hashable, ...]:
        """Return the levels of an attribute or grouping."""
        found = self.groupings.get(name)
        return self.domain.levels[name] if found is None else found.groups

    def cells(self, names: Names) -> pd.Index:
        """Return the labels of the cells of a marginal, in row-major order of its names."""
        return Domain({name: self.levels_of(name) for name in names}).cells()

    def kept(self, names: Names) -> int:
        """Return which axes a marginal keeps."""
        return self.axes.set_of(name for name in names if name in self.axes.names)

    def matrix(self, names: Names) -> FloatArray:
        """Return the levels of the block in a marginal, shape (r, g), as sums of its joint ones."""
        by_attribute = {self._attribute(name): name for name in names}
        parts = []
        for attribute in self.block:
            name = by_attribute.get(attribute)
            size = len(self.domain.levels[attribute])
            if name is None:
                parts.append(np.ones((1, size)))
            else:
                found = self.groupings.get(name)
                parts.append(np.eye(size) if found is None else found.matrix)
        joint: FloatArray = np.ones((1, 1))
        for part in parts:
            joint = np.asarray(np.kron(joint, part), dtype=np.float64)
        return joint

    def inward(self, values: NDArray[Any], names: Names) -> NDArray[Any]:
        """Return tables, shape (m, levels of each name), in the order of block and axes.

        The result, shape (m, r, ...), is a view where that is possible.
        """
        order = self._order(names)
        moved = values.transpose((0, *(1 + at for at in order)))
        return moved.reshape((len(values), -1, *self.axes.shape(self.kept(names))))

    def outward(self, tables: NDArray[Any], names: Names) -> NDArray[Any]:
        """Return marginals, shape (m, r, ...), with the levels of each name in their axes."""
        order = self._order(names)
        shape = self.shape(names)
        found = tables.reshape((len(tables), *(shape[at] for at in order)))
        return found.transpose((0, *(1 + int(at) for at in np.argsort(order))))

    def levels_at(self, names: Names, cell: int) -> dict[str, Hashable]:
        """Return the level of each name in a cell of a marginal, counted as `inward` puts them."""
        order, shape = self._order(names), self.shape(names)
        at = np.unravel_index(cell, tuple(shape[each] for each in order))
        return {
            names[each]: self.levels_of(names[each])[int(level)]
            for each, level in zip(order, at, strict=True)
        }

    def _attribute(self, name: Any) -> Any:
        found = self.groupings.get(name)
        return name if found is None else found.attribute

    def _order(self, names: Names) -> list[int]:
        """Return the positions of names in the order of block and axes."""
        rank = [*self.block, *self.axes.names]
        return sorted(range(len(names)), key=lambda at: rank.index(self._attribute(names[at])))
