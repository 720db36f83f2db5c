"""A made-up population in states, counties, tracts, block groups and blocks, of any size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpinfer._check import check_integer, freeze
from dpinfer.errors import InvalidParameterError
from dpinfer.queries import Domain
from dpinfer.releases.census.geography import PL94_DOMAIN, spine_codes

EMPTY = 0.3
"""Share of blocks without anybody."""

QUARTERS = 0.02
"""Share of blocks with a facility of each type of group quarters."""

HOUSEHOLDS, FACILITY = 55.0, 80.0
"""Mean number of persons in households of an inhabited block, and in a facility."""

_STATES, _COUNTIES, _TRACTS, _GROUPS, _BLOCKS = 56, 499, 999999, 9, 999

_LARGEST = 10**8
"""Units of a level at most."""

_HHGQ, *_OTHERS = PL94_DOMAIN.shape
_CELLS = int(np.prod(_OTHERS))
_NURSING = PL94_DOMAIN.levels["hhgq"].index("nursing")


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticPopulation:
    """True tables of the blocks of a made-up population, which can be written as a census.

    Attributes
    ----------
    codes : array of str, shape (n,)
        The codes of the blocks, sorted; their beginnings name the units above.
    domain : Domain
        The attributes of the tables with their levels.
    """

    codes: NDArray[np.str_]
    domain: Domain
    _starts: NDArray[np.intp] = field(repr=False)
    _seed: int = field(repr=False)

    def tables(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Return the true tables of some blocks.

        Parameters
        ----------
        start : int, default 0
            The first block.
        stop : int, optional
            The block after the last; by default all that follow.

        Returns
        -------
        array of int, shape (m, 8, 2, 2, 63)
            Persons in each cell. Those of a block are the same whichever blocks are asked for.
        """
        size = len(self.codes)
        first = check_integer(start, "start", ge=0, le=size)
        last = size if stop is None else check_integer(stop, "stop", ge=first, le=size)
        ends = np.append(self._starts[1:], size)
        tracts = np.flatnonzero((self._starts < last) & (ends > first))
        found = np.zeros((last - first, *self.domain.shape), dtype=np.int64)
        for tract in tracts:
            begin, end = int(self._starts[tract]), int(ends[tract])
            rng = np.random.default_rng([self._seed, int(tract) + 1])
            blocks = slice(max(first - begin, 0), min(last, end) - begin)
            place = slice(max(begin, first) - first, min(last, end) - first)
            found[place] = _tract(end - begin, rng)[blocks]
        return found

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"SyntheticPopulation({len(self)} blocks in {len(self._starts)} tracts)"


def synthetic_population(
    *,
    states: int = 1,
    counties: int = 3,
    tracts: int = 5,
    block_groups: int = 4,
    blocks: int = 10,
    seed: int = 0,
) -> SyntheticPopulation:
    """Make up a population by place, type of quarters, age, Hispanic origin and race.

    Parameters
    ----------
    states : int, default 1
        Number of states, at most 56.
    counties, tracts, block_groups, blocks : int
        Mean numbers of counties in a state, tracts in a county, block groups in a tract (at most
        9) and blocks in a block group. The actual numbers differ from unit to unit, and are at
        least 1.
    seed : int, default 0
        Seed of the population.

    Returns
    -------
    SyntheticPopulation
        The codes of the blocks, and their true tables, made as they are asked for: a population of
        any size takes no more memory than its codes.

    Raises
    ------
    InvalidParameterError
        If a number is not a whole number in its range.

    See Also
    --------
    dpinfer.releases.census.write_census_measurements : Write noisy measurements of it.

    Notes
    -----
    Tracts have their own composition by age, origin and race; three in ten blocks are empty, and
    one in fifty has a facility of each type of group quarters. Nothing is fitted to any place.

    Examples
    --------
    >>> population = synthetic_population(counties=2, tracts=2)
    >>> population
    SyntheticPopulation(111 blocks in 2 tracts)
    >>> population.tables(0, 3).sum(axis=(1, 2, 3, 4))
    array([22,  0, 41])
    """
    number = check_integer(seed, "seed", ge=0)
    rng = np.random.default_rng([number, 0])
    top = check_integer(states, "states", ge=1, le=_STATES)
    means = (
        ("counties", counties, _COUNTIES, 3),
        ("tracts", tracts, _TRACTS, 6),
        ("block_groups", block_groups, _GROUPS, 1),
        ("blocks", blocks, _BLOCKS, 3),
    )
    codes = [f"{state + 1:02d}" for state in range(top)]
    for name, mean, most, digits in means:
        expected = check_integer(mean, name, ge=1, le=most)
        counts = np.minimum(1 + rng.poisson(expected - 1, len(codes)), most)
        if int(counts.sum()) > _LARGEST:
            raise InvalidParameterError(
                f"{name} must not lead to more than {_LARGEST} units, got {mean}"
            )
        codes = [
            f"{code}{unit + 1:0{digits}d}"
            for code, count in zip(codes, counts.tolist(), strict=True)
            for unit in range(count)
        ]
    spine = spine_codes(codes)
    tract = spine.astype("U14")
    starts = np.flatnonzero(np.append(True, tract[1:] != tract[:-1]))
    return SyntheticPopulation(freeze(spine), PL94_DOMAIN, freeze(starts), number)


def _tract(blocks: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the tables of the blocks of a tract."""
    minors = rng.beta(6.0, 20.0)
    hispanic = rng.beta(0.8, 4.0)
    weights = np.concatenate([[6.0, 1.5, 0.2, 0.8, 0.1, 1.0], np.full(57, 0.02)])
    race = rng.dirichlet(weights, 2)
    origin = np.array([1.0 - hispanic, hispanic])
    by_age = np.array([minors, 1.0 - minors])
    chance = by_age[:, None, None] * (origin[:, None] * race)
    inhabited = rng.random(blocks) >= EMPTY
    persons = np.where(inhabited, rng.geometric(1.0 / HOUSEHOLDS, blocks), 0)
    found = np.zeros((blocks, _HHGQ, _CELLS), dtype=np.int64)
    found[:, 0] = rng.multinomial(persons, chance.reshape(-1))
    facility = rng.random((blocks, _HHGQ - 1)) < QUARTERS
    adults = np.stack([np.zeros(race.shape), origin[:, None] * race]).reshape(-1)
    for block, kind in zip(*np.nonzero(facility), strict=True):
        mix = adults if kind + 1 == _NURSING else chance.reshape(-1)
        found[block, kind + 1] = rng.multinomial(1 + rng.poisson(FACILITY - 1), mix)
    return found.reshape((blocks, *PL94_DOMAIN.shape))
