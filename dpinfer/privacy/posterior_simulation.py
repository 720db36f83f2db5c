"""What an attacker with a stated prior learns from a mechanism, by simulation or from outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpinfer._check import (
    RNG,
    FloatArray,
    Locked,
    check_array,
    check_integer,
    check_integer_array,
    check_items,
    check_length,
    check_reps,
    check_rng,
    freeze,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.mechanisms.channels import Channel, ExponentialMechanism, RandomizedResponse
from dpinfer.mechanisms.law import ContinuousLaw, IntegerLaw, NoiseLaw

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class _Channel(ABC):
    """The answers on m possible data sets, shape (m, q), and the mechanism behind them."""

    mechanism: Any
    answers: FloatArray
    flat: bool
    """Whether the answers came without a second axis, as the outputs then do."""

    def check_outputs(self, outputs: ArrayLike) -> NDArray[Any]:
        """Return observed outputs as an array with one row, or one entry, each."""
        array, width = check_array(outputs, "outputs"), self.answers.shape[1]
        flat = self.flat or isinstance(self, _ChoiceChannel)
        if array.ndim != 2 - flat or not (flat or array.shape[1] == width):
            shape = "(n,)" if flat else f"(n, {width})"
            raise InvalidParameterError(f"outputs must have shape {shape}, got {array.shape}")
        return self.check_values(array, "outputs")

    def check_values(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        """Return values of outputs, as far as the mechanism can put them out."""
        return values

    @abstractmethod
    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        """Return ln P(output | data set), shape (n, m)."""

    @abstractmethod
    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        """Return one output for each chosen data set."""

    def _beside(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return outputs in the shape (n, 1, q), beside the answers."""
        return outputs.reshape(len(outputs), 1, -1)

    def _shaped(self, outputs: NDArray[Any]) -> NDArray[Any]:
        return outputs[:, 0] if self.flat else outputs


class _NoiseChannel(_Channel):
    """Independent noise on every answer."""

    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        noise, law = self._beside(outputs) - self.answers, self.mechanism
        density = law.logpmf(noise) if law.is_integer else law.logpdf(noise)
        return np.asarray(density.sum(axis=2))

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        answers = self.answers[chosen]
        return self._shaped(answers + self.mechanism.rvs(answers.shape, rng=rng))


class _ResponseChannel(_Channel):
    """A report of every respondent."""

    def check_values(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        most = self.mechanism.categories - 1
        if name == "outputs" and isinstance(self.mechanism, Channel):
            most = len(self.mechanism.reports) - 1
        whole = check_integer_array(values, name, ge=0)
        if (whole > most).any():
            raise InvalidParameterError(f"{name} must be coded 0 to {most}, got {whole.max():g}")
        return whole

    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        channel = self.mechanism
        if isinstance(channel, Channel):
            with np.errstate(divide="ignore"):
                table = np.log(channel.matrix)
            seen, truths = self._beside(outputs).astype(np.intp), self.answers.astype(np.intp)
            return np.asarray(table[truths, seen].sum(axis=2))
        kept = self._beside(outputs) == self.answers
        return np.asarray(np.where(kept, np.log(channel.p), np.log(channel.q)).sum(axis=2))

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        return self._shaped(self.mechanism.randomize(self.answers[chosen], rng=rng))


class _ChoiceChannel(_Channel):
    """The option that the exponential mechanism chooses; an output is its position."""

    def check_values(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        most = self.answers.shape[1] - 1
        whole = check_integer_array(values, name, ge=0)
        if (whole > most).any():
            raise InvalidParameterError(f"{name} must be options 0 to {most}, got {whole.max():g}")
        return whole

    def log_likelihood(self, outputs: NDArray[Any]) -> FloatArray:
        table = self.mechanism.log_probabilities(self.answers)
        return np.asarray(table.T[outputs.astype(np.intp)])

    def draw(self, chosen: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
        # by the Gumbel-max trick
        table = self.mechanism.log_probabilities(self.answers)[chosen]
        return np.asarray(np.argmax(table + rng.gumbel(size=table.shape), axis=1))


def _channel_of(mechanism: Any, answers: ArrayLike, name: str) -> _Channel:
    """Return the channel of a mechanism, with its answers checked."""
    array = check_array(answers, name, finite=not isinstance(mechanism, ExponentialMechanism))
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidParameterError(
            f"{name} must have one row, or one entry, for each data set, got shape {array.shape}"
        )
    flat, table = array.ndim == 1, array.reshape(len(array), -1)
    if isinstance(mechanism, RandomizedResponse | Channel):
        channel = _ResponseChannel(mechanism, table, flat)
        channel.check_values(table, name)
        return channel
    if isinstance(mechanism, ExponentialMechanism):
        if flat:
            raise InvalidParameterError(
                f"{name} must be scores of shape (m, options) for the exponential mechanism"
            )
        return _ChoiceChannel(mechanism, table, flat)
    if not isinstance(mechanism, NoiseLaw):
        raise InvalidParameterError(
            "mechanism must be a law of noise with a density or probabilities, a "
            f"RandomizedResponse, a Channel or an ExponentialMechanism, got {show(mechanism)}"
        )
    if not isinstance(mechanism, (ContinuousLaw, IntegerLaw)):
        raise InvalidParameterError(
            f"mechanism must have a density or probabilities for a likelihood, got "
            f"{show(mechanism)}"
        )
    if mechanism.shape not in ((), (1,), (table.shape[1],)):
        raise InvalidParameterError(
            f"mechanism must be one law, or have one scale for each of {table.shape[1]} answers, "
            f"got scales of shape {mechanism.shape}"
        )
    if mechanism.is_integer:
        check_integer_array(table, name)
    return _NoiseChannel(mechanism, table, flat)


_BLOCK = 4_000_000
"""Log likelihoods that are held at a time."""


@dataclass(frozen=True, eq=False)
class _Worlds:
    """Possible data sets, their prior, their secrets, and the world without the record."""

    prior: FloatArray
    channel: _Channel
    secrets: tuple[Any, ...]
    group: NDArray[np.intp]
    without: _Channel | None
    rest: NDArray[np.intp] | None

    @property
    def secret_prior(self) -> FloatArray:
        """Prior probability of each secret."""
        count = len(self.secrets)
        return np.asarray(np.bincount(self.group, weights=self.prior, minlength=count) * 1.0)

    def believe(self, outputs: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Return the posterior of the secrets after each output, with the record and without."""
        size = max(1, _BLOCK // self.channel.answers.size)
        pairs = [
            self._block(outputs[start : start + size]) for start in range(0, len(outputs), size)
        ]
        return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])

    def _block(self, outputs: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        likelihood = self.channel.log_likelihood(outputs)
        posterior = self._posterior(likelihood)
        if self.without is not None:
            return posterior, self._posterior(self.without.log_likelihood(outputs))
        if self.rest is not None:
            return posterior, self._posterior(self._drawn(likelihood, self.rest))
        return posterior, np.broadcast_to(self.secret_prior, posterior.shape)

    def _posterior(self, likelihood: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            joint = likelihood + np.log(self.prior)
        top = joint.max(axis=1, keepdims=True)
        if np.isneginf(top).any():
            raise InvalidParameterError(
                "outputs must be possible for some data set with a positive prior"
            )
        weight = np.exp(joint - top)
        weight /= weight.sum(axis=1, keepdims=True)
        return self._sum(weight, self.group, len(self.secrets))

    def _drawn(self, likelihood: FloatArray, rest: NDArray[np.intp]) -> FloatArray:
        """Log likelihood with the record drawn from the prior given the rest."""
        with np.errstate(divide="ignore"):
            joint = likelihood + np.log(self.prior)
            top = joint.max(axis=1, keepdims=True)
            mixed = self._sum(np.exp(joint - top), rest, int(rest.max()) + 1)
            total = np.bincount(rest, weights=self.prior)
            log_mixed = np.log(mixed) - np.log(np.where(total > 0, total, 1.0)) + top
        return np.asarray(log_mixed[:, rest])

    @staticmethod
    def _sum(weight: FloatArray, group: NDArray[np.intp], count: int) -> FloatArray:
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(count))
        return np.asarray(np.add.reduceat(weight[:, order], starts, axis=1))


def _numbered(names: Sequence[Any], name: str) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Return the different names in the order of their first appearance, and their numbers."""
    numbers: dict[Any, int] = {}
    try:
        group = [numbers.setdefault(item, len(numbers)) for item in names]
    except TypeError as error:
        raise InvalidParameterError(f"{name} must hold hashable values: {error}") from error
    return tuple(numbers), np.array(group, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SecretPosterior(Locked):
    """What an attacker believes of a secret after each of many outputs.

    It is what :func:`simulate_posterior` and :func:`secret_posterior` return.

    Parameters
    ----------
    secrets : tuple
        The values of the secret, s of them.
    prior : array of float, shape (s,)
        What the attacker believed before.
    posterior : array of float, shape (n, s)
        What they believe after each output.
    baseline : array of float, shape (n, s)
        What they would believe in the world without the record; without such a world, the prior.
    outputs : array, shape (n, ...)
        The outputs.
    truth : array of int, shape (n,), optional
        The position of the true secret of each simulated output.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> found = secret_posterior([0.5, 0.5], [0.0, 1.0], Laplace(scale=1.0), [2.0, -0.5])
    >>> found.posterior.round(4)
    array([[0.2689, 0.7311],
           [0.7311, 0.2689]])
    """

    secrets: tuple[Any, ...]
    prior: FloatArray
    posterior: FloatArray
    baseline: FloatArray
    outputs: NDArray[Any]
    truth: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        for name in ("prior", "posterior", "baseline", "outputs"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @property
    def ratio(self) -> FloatArray:
        """Posterior over baseline for each output and secret, shape (n, s); 1 where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.posterior / self.baseline
        return np.where((self.posterior == 0) & (self.baseline == 0), 1.0, ratio)

    @property
    def true_ratio(self) -> FloatArray:
        """Posterior over baseline of the true secret for each simulated output, shape (n,)."""
        return np.asarray(self._of_truth(self.ratio))

    @property
    def true_posterior(self) -> FloatArray:
        """Posterior probability of the true secret for each simulated output, shape (n,)."""
        return np.asarray(self._of_truth(self.posterior))

    def tail(self, epsilon: ArrayLike, secret: Any = None) -> tuple[Any, Any]:
        """Share of outputs at which a secret becomes more credible by a factor of e^ε or more.

        Parameters
        ----------
        epsilon : float or array of float
            The log ratio.
        secret : optional
            One of the secrets; by default the true one of each output, which is known of simulated
            outputs only.

        Returns
        -------
        share, standard_error : float or array of float
            The share of the outputs, and its Monte Carlo standard error.
        """
        loss = check_array(epsilon, "epsilon")
        ratio = self.true_ratio if secret is None else self.ratio[:, self._position(secret)]
        with np.errstate(divide="ignore"):
            ordered = np.sort(np.log(ratio))
        # a ratio within rounding of the bound counts as reaching it
        below = np.searchsorted(ordered, loss - 1e-9 * np.maximum(1.0, np.abs(loss)))
        share = 1.0 - below / ordered.size
        return share[()], np.sqrt(share * (1.0 - share) / ordered.size)[()]

    def frame(self, quantiles: ArrayLike = (0.01, 0.25, 0.5, 0.75, 0.99)) -> pd.DataFrame:
        """Distribution of the posterior over the outputs: one row for each secret.

        The columns are the prior, and the quantiles, at probabilities within [0, 1], of the
        posterior and of its ratio.
        """
        import pandas as pd

        at = np.atleast_1d(check_array(quantiles, "quantiles", ge=0, le=1))
        parts: dict[Any, Any] = {("prior", ""): self.prior}
        for name, values in (("posterior", self.posterior), ("ratio", self.ratio)):
            cut = np.quantile(values, at, axis=0)
            parts |= {(name, float(q)): row for q, row in zip(at, cut, strict=True)}
        frame = pd.DataFrame(parts, index=pd.Index(list(self.secrets), name="secret"))
        frame.columns = pd.MultiIndex.from_tuples(list(parts))
        return frame

    def _of_truth(self, values: FloatArray) -> FloatArray:
        if self.truth is None:
            raise InvalidParameterError(
                "secret must be given where outputs were observed: the true one is not known"
            )
        return np.asarray(np.take_along_axis(values, self.truth[:, None], axis=1)[:, 0])

    def _position(self, secret: Any) -> int:
        positions = {value: position for position, value in enumerate(self.secrets)}
        try:
            return positions[secret]
        except (KeyError, TypeError) as error:
            raise InvalidParameterError(
                f"secret must be one of {show_some(self.secrets)}, got {show(secret)}"
            ) from error


def secret_posterior(
    prior: ArrayLike,
    answers: ArrayLike,
    mechanism: Any,
    outputs: ArrayLike,
    *,
    secret: Any = None,
    without: ArrayLike | None = None,
    rest: Any = None,
) -> SecretPosterior:
    """Posterior of a secret after observed outputs, for a stated prior over possible data sets.

    Parameters
    ----------
    prior : array of float, shape (m,)
        The prior probabilities of m possible data sets; they are scaled to add up to 1.
    answers : array, shape (m,) or (m, q)
        What the query returns on each of them: q values that get noise, the categories of q
        respondents of randomized response, or the scores of q options of the exponential mechanism.
    mechanism : NoiseLaw, RandomizedResponse, Channel or ExponentialMechanism
        What makes an output of an answer; it must have a density or probabilities.
    outputs : array, shape (n,) or (n, q)
        The outputs, each on its own, and each possible under the prior.
    secret : sequence of length m, optional
        The value of the secret in each data set; by default every data set has its own, 0 to m-1.
    without : array, shape of ``answers``, optional
        What the query returns in the world without the record, deleted or replaced by a default.
    rest : sequence of length m, optional
        A name for the other records of each data set. In the world without the record it is then
        a draw from the prior given these. Not together with ``without``.

    Returns
    -------
    SecretPosterior
        Prior, posterior, and posterior in the world without the record.

    Examples
    --------
    >>> from dpinfer import RandomizedResponse
    >>> channel = RandomizedResponse(p=0.75)
    >>> found = secret_posterior([0.9, 0.1], [0, 1], channel, [1], secret=["no", "yes"])
    >>> found.posterior.round(4), found.ratio.round(4)
    (array([[0.75, 0.25]]), array([[0.8333, 2.5   ]]))
    """
    worlds = _worlds(prior, answers, mechanism, secret, without, rest)
    seen = worlds.channel.check_outputs(outputs)
    return _believed(worlds, seen, None)


def simulate_posterior(
    prior: ArrayLike,
    answers: ArrayLike,
    mechanism: Any,
    *,
    secret: Any = None,
    without: ArrayLike | None = None,
    rest: Any = None,
    truth: int | None = None,
    reps: int = 10_000,
    rng: RNG = None,
) -> SecretPosterior:
    """Distribution of the posterior of a secret, for a stated prior and mechanism.

    Data sets are drawn from the prior, or one is held fixed; outputs are drawn from the mechanism;
    and the attacker updates their belief on each.

    Parameters
    ----------
    prior : array of float, shape (m,)
        The prior probabilities of m possible data sets; they are scaled to add up to 1.
    answers : array, shape (m,) or (m, q)
        What the query returns on each of them; see :func:`secret_posterior`.
    mechanism : NoiseLaw, RandomizedResponse, Channel or ExponentialMechanism
        What makes an output of an answer.
    secret, without, rest : optional
        The secret and the world without the record, as for :func:`secret_posterior`.
    truth : int, optional
        The position of the data set that is true. By default it is drawn from the prior.
    reps : int, default 10000
        The number of outputs.
    rng : None, int or numpy.random.Generator
        The source of randomness, or its seed.

    Returns
    -------
    SecretPosterior
        Posteriors, and their ratios to the prior or to the world without the record.

    Examples
    --------
    >>> from dpinfer import Laplace
    >>> found = simulate_posterior([0.98, 0.02], [0, 1], Laplace(scale=1.0), truth=1, rng=1)
    >>> bool(found.ratio.max() <= np.exp(1.0)), float(found.tail(0.9)[0])
    (True, 0.5194)
    """
    worlds = _worlds(prior, answers, mechanism, secret, without, rest)
    generator = check_rng(rng)
    draws = check_reps(reps)
    if truth is None:
        chosen = generator.choice(worlds.prior.size, size=draws, p=worlds.prior)
    else:
        position = check_integer(truth, "truth", ge=0, le=worlds.prior.size - 1)
        chosen = np.full(draws, position)
    outputs = worlds.channel.draw(chosen, generator)
    return _believed(worlds, outputs, worlds.group[chosen])


def _worlds(
    prior: ArrayLike, answers: ArrayLike, mechanism: Any, secret: Any, without: Any, rest: Any
) -> _Worlds:
    weights = check_array(prior, "prior", ge=0, ndim=1)
    total = float(weights.sum())
    if not (total > 0 and np.isfinite(total)):
        raise InvalidParameterError("prior must have a positive, finite sum")
    channel = _channel_of(mechanism, answers, "answers")
    check_length(channel.answers, "answers", weights.size, "the data sets of prior")
    if without is not None and rest is not None:
        raise InvalidParameterError(
            "without and rest must not both be given: they are two worlds without the record"
        )
    other = None if without is None else _channel_of(mechanism, without, "without")
    if other is not None and other.answers.shape != channel.answers.shape:
        raise InvalidParameterError(
            f"without must have the shape {channel.answers.shape} of answers, got "
            f"{other.answers.shape}"
        )
    names = list(range(weights.size)) if secret is None else check_items(secret, "secret", "values")
    check_length(names, "secret", weights.size, "the data sets of prior")
    others = None if rest is None else check_items(rest, "rest", "names")
    if others is not None:
        check_length(others, "rest", weights.size, "the data sets of prior")
    secrets, group = _numbered(names, "secret")
    numbers = None if others is None else _numbered(others, "rest")[1]
    return _Worlds(weights / total, channel, secrets, group, other, numbers)


def _believed(
    worlds: _Worlds, outputs: NDArray[Any], truth: NDArray[np.intp] | None
) -> SecretPosterior:
    posterior, baseline = worlds.believe(outputs)
    return SecretPosterior(worlds.secrets, worlds.secret_prior, posterior, baseline, outputs, truth)
