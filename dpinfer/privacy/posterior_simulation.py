"""What an attacker with a stated prior learns from a mechanism, by simulation or from outputs."""

from __future__ import annotations

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
    check_items,
    check_length,
    check_reps,
    check_rng,
    freeze,
    show,
    show_some,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.posteriors import Worlds, channel_of

if TYPE_CHECKING:
    import pandas as pd


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
            One of the secrets; by default the true one of each output.

        Returns
        -------
        share, standard_error : float or array of float
            The share of the outputs, and its Monte Carlo standard error.

        Raises
        ------
        InvalidParameterError
            If ``secret`` is none of the secrets, or is left out although outputs were observed.
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
        """Distribution of the posterior over the outputs.

        Parameters
        ----------
        quantiles : array of float
            Probabilities within [0, 1].

        Returns
        -------
        pandas.DataFrame
            One row for each secret: the prior, and quantiles of the posterior and of its ratio.
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
    mechanism : NoiseLaw, RandomizedResponse or ExponentialMechanism
        What makes an output of an answer.
    outputs : array, shape (n,) or (n, q)
        The outputs, each on its own.
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

    Raises
    ------
    InvalidParameterError
        If shapes do not fit, the prior is no distribution, the mechanism has no likelihood, or an
        output is impossible under the prior.

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
    mechanism : NoiseLaw, RandomizedResponse or ExponentialMechanism
        What makes an output of an answer.
    secret : sequence of length m, optional
        The value of the secret in each data set; by default every data set has its own, 0 to m-1.
    without : array, shape of ``answers``, optional
        What the query returns in the world without the record.
    rest : sequence of length m, optional
        A name for the other records of each data set; see :func:`secret_posterior`.
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

    Raises
    ------
    InvalidParameterError
        If shapes do not fit, the prior is no distribution, or the mechanism has no likelihood.

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
) -> Worlds:
    weights = check_array(prior, "prior", ge=0, ndim=1)
    total = float(weights.sum())
    if not (total > 0 and np.isfinite(total)):
        raise InvalidParameterError("prior must have a positive, finite sum")
    channel = channel_of(mechanism, answers, "answers")
    check_length(channel.answers, "answers", weights.size, "the data sets of prior")
    if without is not None and rest is not None:
        raise InvalidParameterError(
            "without and rest must not both be given: they are two worlds without the record"
        )
    other = None if without is None else channel_of(mechanism, without, "without")
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
    return Worlds.build(weights / total, channel, names, other, others)


def _believed(
    worlds: Worlds, outputs: NDArray[Any], truth: NDArray[np.intp] | None
) -> SecretPosterior:
    posterior, baseline = worlds.believe(outputs)
    return SecretPosterior(worlds.secrets, worlds.secret_prior, posterior, baseline, outputs, truth)
