"""Joint posterior draws of a table of counts given everything that was published of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from dpinfer._check import RNG, FloatArray, check_integer, check_option, require
from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.mechanisms.laws import Exact
from dpinfer.posterior._chain import ENGINES, EXTRA, Engine, Problem, Task, run_chains
from dpinfer.posterior._model import (
    NO_END,
    Arguments,
    TableModel,
    Whole,
    check_proper,
    start_table,
    table_model,
)
from dpinfer.posterior._moves import Connectivity, MoveSource, find_connection, given_moves
from dpinfer.posterior._priors import CellPrior, SharedCells, TabledCells, cell_prior
from dpinfer.posterior._trees import MOST_STATES, enumerated_draws, exact_draws, forest_of
from dpinfer.posterior.result import TablePosterior
from dpinfer.priors.counts import FlatPrior, Prior
from dpinfer.results.simulation import Simulation, child_seed, count_workers, run_tasks

Sampler = Literal["auto", "exact", "enumeration", "chain"]
SAMPLERS: tuple[Sampler, ...] = ("auto", "exact", "enumeration", "chain")

_MOST_DRAWS = 2**30
"""Whole numbers in all draws together: 8 GiB."""

_MOST_CHAINS = 4096
_MOST_WARMUP = 10**7
_FEWEST_MOVES = 30
"""Cells that are tried to be moved between two draws, at least."""

_UNVERIFIED = (
    "connectivity=unverified: that the moves lead from every table to every other was not proved, "
    "and tables that they do not reach would be missing without a sign"
)


def table_posterior(
    values: Any,
    *,
    workload: Any = None,
    mechanism: Mechanism | None = None,
    threshold: Any = None,
    clamp: Any = None,
    total: int | None = None,
    zeros: Any = None,
    prior: Prior | None = None,
    moves: Any = None,
    draws: int = 1000,
    chains: int = 4,
    warmup: int | None = None,
    sampler: Sampler = "auto",
    engine: Engine = "numpy",
    rng: RNG = None,
    n_jobs: int | None = 1,
) -> TablePosterior:
    """Draw whole tables from their posterior, given all values that were published of them.

    Parameters
    ----------
    values : array of float, shape (m,), Series, DataFrame, Release or NoisyValues
        What was published: a release with its workload, or values described by the next
        arguments. Each value has one independent noise; values with
        :class:`~dpinfer.mechanisms.Exact` noise hold exactly.
    workload : Workload, Hierarchy or matrix, shape (m, n), optional
        The queries that the values answer, with whole coefficients; by default each value is a
        cell. The cells of a hierarchy are its leaves, and the rests of units that are not
        exhausted.
    mechanism : NoiseLaw or sequence of NoiseLaw, optional
        The law of the noise; left out where ``values`` carries it.
    threshold : float or array of float, optional
        Values were published where they reached this; those that did not are NaN in ``values``.
    clamp : float or pair, optional
        The values were moved into these bounds, as for :func:`~dpinfer.count_confint`.
    total : int, optional
        The sum of all cells, where it is known exactly.
    zeros : array of bool, shape (n,), Series, slice or list of labels, optional
        Cells that are known to be zero: structural zeros.
    prior : a prior of ``dpinfer.priors``, optional
        What is believed of the cells beforehand, with one value of each parameter for all cells or
        one for each; by default flat on the whole numbers >= 0. It says nothing of structural
        zeros. A function needs cells that all have an upper end, such as a total.
    moves : array of int, shape (k, n), optional
        Further moves of the chain, each a change of the cells that keeps every exact row. They
        are needed where no set of moves is known that leads everywhere.
    draws : int, default 1000
        Tables drawn, by each chain where there are several.
    chains : int, default 4
        Number of chains, from 1 to 4096, where there are chains.
    warmup : int, optional
        Draws of each chain that are left out at the beginning, in which the widths of steps are
        adapted, at most 10⁷; by default half of ``draws``, and 200 at least.
    sampler : {"auto", "exact", "enumeration", "chain"}
        How tables are drawn. ``"exact"``: without a chain, for values of cells and of sums that are
        nested or disjoint, such as one total or a tree; ``"enumeration"``: from the list of all
        tables, at most 10⁶; ``"chain"``: by Markov chains. ``"auto"``: by the first of them that
        there is. Hierarchical priors need a chain, and so do ``moves``.
    engine : {"numpy", "numba"}
        What tries the moves of chains. ``"numba"``, which needs the extra of this name, compiles
        the loops over them: the same draws, 2.5 to 17 times as fast for 6 to 2,016 cells. Under a
        prior with very large counts, whose probabilities it tabulates, it may be refused.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; an int is a seed.
    n_jobs : int, default 1
        Number of workers, as joblib takes it, for the chains, or for blocks of independent draws;
        the draws do not depend on it.

    Returns
    -------
    TablePosterior
        The draws, with what they say about cells and functions of them.

    Raises
    ------
    NotEstimableError
        If the posterior would be improper: nothing that was published speaks against large counts
        of a cell, and neither does the prior.
    IncompatibleReleaseError
        If no table of counts >= 0 agrees with the exact values, ``total`` and ``zeros``.
    InvalidParameterError
        If an argument is outside what is allowed, values share noises, or no moves are known that
        connect all tables.

    See Also
    --------
    dpinfer.count_posterior : one cell by itself, without draws.
    dpinfer.intervals.bounded_confint : intervals for sums that use no prior.

    Notes
    -----
    The posterior is proportional to exp(Σ log gᵣ(yᵣ - (Ax)ᵣ))·π(x) on the whole-numbered tables
    x >= 0 that meet the exact rows, with gᵣ the density or probability of the noise. Of a value
    that was moved to a bound, was rounded, or was not published as it did not reach the
    threshold, the probability of just that takes the place of gᵣ. The prior is that of all cells,
    published or not: of a published one with a threshold, the posterior is that of
    :func:`~dpinfer.count_posterior` with ``prior_of="all"``.

    A posterior interval covers in 1 - α of all tables *that are drawn from the prior*, and need
    not for any other. A flat prior is far from neutral for sums: of 50 cells that are all zero,
    with discrete Gaussian noise of σ = 5, the posterior of the sum is 212 too high on average,
    and its 95 % interval covers never. An exact total does not cure that.

    *Without a chain.* From the leaves up, the weights of counts are convolved and multiplied by
    what was measured of their sums; from the roots down, totals are drawn and split. Draws are
    independent, and what windows of counts leave out is at most 1e-12 of the posterior, by a bound
    that is proved of each answer and stands in ``left_out``.

    *The chain.* Moves change a few cells by d times a fixed pattern: one cell, one cell at the cost
    of another, two at the cost of two others, blocks of them. d is drawn from ±1, ..., ±W, and the
    move is made by the rule of Metropolis. W is adapted in the warm-up towards three of ten moves
    being made, and then stays. Moves that touch no common answer are tried at once. Every pattern
    keeps each exact row. That they lead from every table to every other is known where there are no
    exact rows; where each cell is in one at most; where the exact rows are whole margins of a
    decomposable model (Dobra 2003); for two-way tables with holes, from the circuits of their cells
    (Aoki and Takemura 2005); and otherwise found by listing all tables, where they are few. Else
    ``moves`` have to be given, and the result says that nothing was verified. Chains start from the
    clipped least-squares fit, dispersed by moves that heed the values little.

    References
    ----------
    Diaconis, P. and Sturmfels, B. (1998). Algebraic algorithms for sampling from conditional
    distributions. Annals of Statistics 26(1), 363-397. doi:10.1214/aos/1030563990.
    Dobra, A. (2003). Markov bases for decomposable graphical models. Bernoulli 9(6), 1093-1108.
    doi:10.3150/bj/1072215202.
    Aoki, S. and Takemura, A. (2005). Markov chain Monte Carlo exact tests for incomplete two-way
    contingency tables. Journal of Statistical Computation and Simulation 75(10), 787-812.
    doi:10.1080/00949650410001690079.

    Examples
    --------
    Four cells that share an exact total:

    >>> import dpinfer as dpi
    >>> found = dpi.table_posterior(
    ...     [3, -1, 2, 5], mechanism=dpi.DiscreteGaussian(sigma=1.5), total=7, rng=1
    ... )
    >>> found.draws.shape[-1], set(found.draws.sum(axis=-1).ravel().tolist())
    (4, {7})
    """
    belief = FlatPrior() if prior is None else prior
    check_option(sampler, "sampler", SAMPLERS)
    if check_option(engine, "engine", ENGINES) == "numba":
        require("numba", EXTRA)
    count = check_integer(chains, "chains", ge=1, le=_MOST_CHAINS)
    size = check_integer(draws, "draws", ge=4, le=_MOST_DRAWS)
    simulation = Simulation.checked(1, rng, n_jobs=n_jobs)
    burn = (
        max(200, size // 2)
        if warmup is None
        else check_integer(warmup, "warmup", ge=0, le=_MOST_WARMUP)
    )
    arguments = Arguments(values, workload, mechanism, threshold, clamp, total, zeros)
    model, cells = _believed(table_model(arguments), belief)
    wanted = Wanted(sampler, moves, size, burn, count, simulation, engine)
    found = _drawn(model, cells, wanted)
    return TablePosterior(
        draws=found.tables,
        model=model,
        prior=belief,
        sampler=found.sampler,
        left_out=found.left_out,
        hyper={} if found.hyper is None or cells is None else _named(found.hyper, cells),
        connectivity=found.connectivity,
        thin=_thin(model) if found.sampler == "chain" else 1,
        notes=(_UNVERIFIED,) if found.connectivity == "unverified" else (),
    )


def prior_predictive(
    values: Any,
    *,
    workload: Any = None,
    mechanism: Mechanism | None = None,
    total: int | None = None,
    zeros: Any = None,
    prior: Prior | None = None,
    draws: int = 1000,
    rng: RNG = None,
) -> FloatArray:
    """Draw what would have been published if the table were drawn from the prior.

    Parameters
    ----------
    values, workload, mechanism, total, zeros, prior
        As for :func:`table_posterior`. Of the values, only those without noise are used: they hold
        in every table that is drawn.
    draws : int, default 1000
        Number of tables.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; an int is a seed.

    Returns
    -------
    array of float, shape (draws, m)
        The values that have noise, in their order, as the mechanism would have given them for each
        table. A value that was published and is far outside of its column speaks against the prior.

    Raises
    ------
    NotEstimableError
        If the prior is improper, as a flat one is where no total bounds the cells.
    IncompatibleReleaseError, InvalidParameterError
        As for :func:`table_posterior`.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> law, prior = dpi.Geometric(scale=1.0), dpi.priors.PoissonPrior([2.0, 30.0])
    >>> published = prior_predictive([40, 31], mechanism=law, prior=prior, rng=1)
    >>> (published >= 40).mean(axis=0).round(2)  # 40 is not what this prior expects
    array([0.  , 0.06])
    """
    belief = FlatPrior() if prior is None else prior
    size = check_integer(draws, "draws", ge=4, le=_MOST_DRAWS)
    simulation = Simulation.checked(1, rng)
    given = table_model(Arguments(values, workload, mechanism, None, None, total, zeros))
    blank = replace(
        given,
        rows=given.rows[:0],
        y=given.y[:0],
        low=given.low[:0],
        high=given.high[:0],
        law=Exact(),
        bins=None,
    )
    if not given.as_drawn:
        raise InvalidParameterError(
            "values must be published as the mechanism gave them, none of them rounded, binned or "
            "clamped: give the values before that, which only their law and queries are taken from"
        )
    model, cells = _believed(blank, belief)
    seed = simulation.draw_seed()
    if isinstance(cells, SharedCells):
        if given.exact.shape[0]:
            raise InvalidParameterError(
                "prior must have no parameters that are drawn where values or the total are exact: "
                "take a prior with these parameters fixed"
            )
        tables = cells.draw(size, np.random.default_rng(seed))
        return given.answers(tables) + given.noise(size, child_seed(seed, 1))
    wanted = Wanted("auto", None, size, 200, 1, Simulation(1, np.random.default_rng(seed)))
    tables = _drawn(model, cells, wanted).tables.reshape(-1, model.cells)
    return given.answers(tables) + given.noise(len(tables), child_seed(seed, 1))


def _named(hyper: FloatArray, prior: CellPrior) -> dict[str, FloatArray]:
    return {name: hyper[:, :, number] for number, name in enumerate(prior.hyper)}


def _believed(model: TableModel, prior: Any) -> tuple[TableModel, CellPrior | None]:
    """Return the model of cells within the ends of noise and prior, and the prior, proper."""
    model = model.within(*_reached(model))
    cells = cell_prior(prior, model)
    if cells is None:
        check_proper(model)
        return model, None
    low, high = cells.ends(model.cells)
    zeros = model.zeros
    return model.within(np.where(zeros, 0, low), np.where(zeros, NO_END, high)), cells


def _reached(model: TableModel) -> tuple[Whole, Whole]:
    """Return ends of the cells from noise that reaches only so far."""
    lower, upper = np.zeros(model.cells, dtype=np.int64), np.full(model.cells, NO_END)
    bounded = np.isfinite(model.support)
    single = np.diff(model.rows.indptr) == 1
    if model.bins is not None:
        single &= model.bins[0] <= 1
    for row in np.flatnonzero(bounded & single):
        at = model.rows.indptr[row]
        if model.rows.data[at] == 1:
            cell = model.rows.indices[at]
            reach = float(model.support[row])
            if model.low[row] > -np.inf:
                lower[cell] = max(lower[cell], int(np.ceil(model.low[row] - reach - 1e-9)))
            if model.high[row] < np.inf:
                upper[cell] = min(upper[cell], int(np.floor(model.high[row] + reach + 1e-9)))
    return lower, upper


# How tables are drawn.


class Wanted(NamedTuple):
    """What is asked for."""

    sampler: Sampler
    moves: Any
    draws: int
    warmup: int
    chains: int
    simulation: Simulation
    engine: Engine = "numpy"


class Found(NamedTuple):
    """Tables (chains, draws, n), and how they were drawn."""

    tables: Whole
    sampler: str
    connectivity: Connectivity = "proved"
    left_out: float = 0.0
    hyper: FloatArray | None = None


def _drawn(model: TableModel, prior: CellPrior | None, wanted: Wanted) -> Found:
    """Draw by the sampler asked for, or the best that there is."""
    way = wanted.sampler
    independent = prior is None or not prior.hyper
    if way in ("exact", "enumeration"):
        if not independent:
            raise InvalidParameterError(
                f"sampler must be 'auto' or 'chain' for HierarchicalPrior, whose parameters are "
                f"drawn with the table, got {way!r}"
            )
        if wanted.moves is not None:
            raise InvalidParameterError(
                f"moves must be left out with sampler={way!r}, which makes none: they are those of "
                "sampler='chain'"
            )
    if way == "chain" or not independent or wanted.moves is not None:
        return _by_chain(model, prior, wanted)
    seed = wanted.simulation.draw_seed()
    if way in ("auto", "exact"):
        found = _exactly(model, prior, wanted, seed)
        if found is not None:
            return found
    _check_room(model, wanted.draws, 1)
    listed = enumerated_draws(model, wanted.draws, seed, prior)
    if listed is not None:
        return Found(listed.draws[None], "enumeration", "enumerated", listed.left_out)
    if way == "enumeration":
        raise InvalidParameterError(
            f"sampler must be 'auto', 'exact' or 'chain' where more than {MOST_STATES} tables are "
            "possible, got 'enumeration'"
        )
    return _by_chain(
        model,
        prior,
        wanted._replace(
            simulation=Simulation(1, np.random.default_rng(seed), n_jobs=wanted.simulation.n_jobs)
        ),
    )


def _exactly(
    model: TableModel, prior: CellPrior | None, wanted: Wanted, seed: np.random.SeedSequence
) -> Found | None:
    """Draw without a chain, where rows are nested or disjoint; refuse, if just that is wanted."""
    forest = forest_of(model)
    if forest is None:
        if wanted.sampler == "auto":
            return None
        raise InvalidParameterError(
            "sampler must be 'auto', 'enumeration' or 'chain' where values overlap without being "
            "nested, weigh cells differently, or were rounded before the noise, got 'exact'"
        )
    _check_room(model, wanted.draws, 1)
    try:
        found = exact_draws(forest, wanted.draws, seed, prior, wanted.simulation.n_jobs)
    except ConvergenceError:
        if wanted.sampler == "auto":
            return None
        raise
    return Found(found.draws[None], "exact", "proved", found.left_out)


def _check_room(model: TableModel, draws: int, chains: int) -> None:
    if draws * chains * model.cells > _MOST_DRAWS:
        raise InvalidParameterError(
            f"draws must be at most {_MOST_DRAWS // (chains * model.cells)} for {chains} chains of "
            f"{model.cells} cells, for memory, got {draws}"
        )


def _by_chain(model: TableModel, prior: CellPrior | None, wanted: Wanted) -> Found:
    chains, simulation = wanted.chains, wanted.simulation
    _check_room(model, wanted.draws, chains)
    if isinstance(prior, TabledCells) and prior.has_holes:
        raise InvalidParameterError(
            "prior must give all counts between its ends a probability where a chain is needed, "
            "which does not cross the others"
        )
    steps = given_moves(wanted.moves, model)
    connectivity, steps = find_connection(model, steps)
    if connectivity == "unverified" and wanted.moves is None:
        raise InvalidParameterError(
            "moves must be given for these exact rows, zeros and bounded noises, as no set of "
            "moves is known that leads from every table to every other, and there are too many to "
            "list: give changes of the cells that keep every exact row, such as a Markov basis "
            "from 4ti2"
        )
    start = start_table(model, None if prior is None else prior.centre())
    source = MoveSource(model, steps, 1.0 / model.variance, _precision(model, prior, start))
    root = simulation.draw_seed()
    plan = int(child_seed(root, chains).generate_state(1, np.uint64)[0])
    problem = Problem(model, prior, source, start, plan, wanted.engine)
    seeds = [child_seed(root, number) for number in range(chains)]
    parts = min(count_workers(simulation.n_jobs), chains)
    tasks = [
        Task(
            problem,
            tuple(seeds[part[0] : part[-1] + 1]),
            wanted.draws,
            wanted.warmup,
            _thin(model),
        )
        for part in np.array_split(np.arange(chains), parts)
    ]
    found = list(run_tasks(run_chains, tasks, simulation.n_jobs, lambda _: parts, each=10.0))
    tables = np.concatenate([one.tables for one in found])
    drawn = [one.hyper for one in found if one.hyper is not None]
    hyper = np.concatenate(drawn) if drawn else None
    return Found(tables, "chain", connectivity, 0.0, hyper)


def _thin(model: TableModel) -> int:
    """Return the number of sweeps from one draw to the next."""
    return int(np.clip(np.ceil(_FEWEST_MOVES / max(model.free.size, 1)), 2, 16))


def _precision(model: TableModel, prior: CellPrior | None, start: Whole) -> FloatArray:
    """Return about how sharply each cell is known beside the rows: its size, and the prior."""
    if not len(model.y):
        wide = start + 2.0
    else:
        least = np.full(model.cells, np.inf)
        coo = model.rows.tocoo()
        np.minimum.at(least, coo.col, np.sqrt(model.variance)[coo.row])
        wide = start + 2.0 + 2.0 * np.where(np.isfinite(least), least, 0.0)
    out = 0.25 / np.square(wide)
    if prior is not None:
        every = np.arange(model.cells)
        hyper = prior.start(start[None], np.random.default_rng(0)) if prior.hyper else None
        near = prior.log_cells(np.stack([start + step for step in (2, 1, 0)]), every, hyper)
        with np.errstate(invalid="ignore"):  # beyond the last count of a table
            curve = -(near[0] - 2.0 * near[1] + near[2])
        out = out + np.where(np.isfinite(curve), np.maximum(curve, 0.0), 0.0)
    return np.asarray(out)
