"""Joint posterior draws of a table of counts given everything that was published of it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dpinfer._check import RNG, FloatArray, check_integer, check_option, show
from dpinfer.errors import InvalidParameterError
from dpinfer.intervals.priors import CountPrior, FlatPrior, FunctionPrior, TablePrior
from dpinfer.mechanisms.independent import Mechanism
from dpinfer.posterior._chain import Drawn, Problem, Task, run_chains
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
from dpinfer.posterior.result import TablePosterior
from dpinfer.results.simulation import Simulation, child_seed, count_workers, run_tasks

Sampler = Literal["auto", "chain"]
SAMPLERS: tuple[Sampler, ...] = ("auto", "chain")

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
    prior: CountPrior | None = None,
    moves: Any = None,
    draws: int = 1000,
    chains: int = 4,
    warmup: int | None = None,
    sampler: Sampler = "auto",
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
    prior : FlatPrior, optional
        What is believed of the cells beforehand: flat on the whole numbers >= 0.
    moves : array of int, shape (k, n), optional
        Further moves of the chain, each a change of the cells that keeps every exact row. They
        are needed where no set of moves is known that leads everywhere.
    draws : int, default 1000
        Tables drawn by each chain.
    chains : int, default 4
        Number of chains, from 1 to 4096.
    warmup : int, optional
        Draws of each chain that are left out at the beginning, in which the widths of steps are
        adapted, at most 10⁷; by default half of ``draws``, and 200 at least.
    sampler : {"auto", "chain"}
        How tables are drawn; ``"auto"`` is the chain.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; an int is a seed.
    n_jobs : int, default 1
        Number of workers, as joblib takes it, for the chains; the draws do not depend on it.

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
    if not isinstance(belief, FlatPrior):
        raise InvalidParameterError(f"prior must be None or FlatPrior() so far, got {show(prior)}")
    check_option(sampler, "sampler", SAMPLERS)
    count = check_integer(chains, "chains", ge=1, le=_MOST_CHAINS)
    size = check_integer(draws, "draws", ge=4, le=_MOST_DRAWS)
    simulation = Simulation.checked(1, rng, n_jobs=n_jobs)
    burn = (
        max(200, size // 2)
        if warmup is None
        else check_integer(warmup, "warmup", ge=0, le=_MOST_WARMUP)
    )
    model = table_model(Arguments(values, workload, mechanism, threshold, clamp, total, zeros))
    if size * count * model.cells > _MOST_DRAWS:
        raise InvalidParameterError(
            f"draws must be at most {_MOST_DRAWS // (count * model.cells)} for {count} chains of "
            f"{model.cells} cells, for memory, got {size}"
        )
    model = model.within(*_ends(model, belief))
    if isinstance(belief, (FlatPrior, FunctionPrior)):
        check_proper(model)
    drawn, connectivity = _by_chain(model, None, moves, size, burn, count, simulation)
    return TablePosterior(
        draws=drawn.tables,
        model=model,
        prior=belief,
        sampler="chain",
        connectivity=connectivity,
        thin=_thin(model),
        notes=(_UNVERIFIED,) if connectivity == "unverified" else (),
    )


def _ends(model: TableModel, prior: Any) -> tuple[Whole, Whole]:
    """Return ends of the cells from the prior, and from noise that reaches only so far."""
    lower, upper = np.zeros(model.cells, dtype=np.int64), np.full(model.cells, NO_END)
    if isinstance(prior, TablePrior):
        there = np.flatnonzero(np.asarray(prior.pmf))
        if (np.diff(there) > 1).any():
            raise InvalidParameterError(
                "prior must give all counts between its ends a probability, got none for "
                f"{prior.first + there[np.diff(there) > 1][0] + 1}: a chain does not cross it"
            )
        ends = prior.first + there[[0, -1]]
        open_ = ~model.zeros
        lower[open_], upper[open_] = np.maximum(ends[0], 0), ends[1]
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


def _by_chain(
    model: TableModel,
    prior: Any,
    moves: Any,
    draws: int,
    warmup: int,
    chains: int,
    simulation: Simulation,
) -> tuple[Drawn, Connectivity]:
    steps = given_moves(moves, model)
    connectivity, steps = find_connection(model, steps)
    if connectivity == "unverified" and moves is None:
        raise InvalidParameterError(
            "moves must be given for these exact rows, zeros and bounded noises, as no set of "
            "moves is known that leads from every table to every other, and there are too many to "
            "list: give changes of the cells that keep every exact row, such as a Markov basis "
            "from 4ti2"
        )
    start = start_table(model, None)
    source = MoveSource(model, steps, 1.0 / model.variance, _precision(model, prior, start))
    root = simulation.draw_seed()
    plan = int(child_seed(root, chains).generate_state(1, np.uint64)[0])
    problem = Problem(model, prior, source, start, plan)
    seeds = [child_seed(root, number) for number in range(chains)]
    parts = min(count_workers(simulation.n_jobs), chains)
    tasks = [
        Task(problem, tuple(seeds[part[0] : part[-1] + 1]), draws, warmup, _thin(model))
        for part in np.array_split(np.arange(chains), parts)
    ]
    found = list(run_tasks(run_chains, tasks, simulation.n_jobs, lambda _: parts, each=10.0))
    tables = np.concatenate([one.tables for one in found])
    hyper = None if found[0].hyper is None else np.concatenate([one.hyper for one in found])
    return Drawn(tables, hyper), connectivity


def _thin(model: TableModel) -> int:
    """Return the number of sweeps from one draw to the next."""
    return int(np.clip(np.ceil(_FEWEST_MOVES / max(model.free.size, 1)), 2, 16))


def _precision(model: TableModel, prior: Any, start: Whole) -> FloatArray:
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
        near = prior.log_cells(np.stack([start + step for step in (2, 1, 0)]))
        curve = -(near[0] - 2.0 * near[1] + near[2])
        out = out + np.where(np.isfinite(curve), np.maximum(curve, 0.0), 0.0)
    return np.asarray(out)
