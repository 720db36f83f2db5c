"""Advanced composition: closed-form bounds for pairs (ε, δ) that may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import fsum
from typing import Literal

import numpy as np

from dpinfer._validation import FloatArray, check_option, check_scalar
from dpinfer.errors import InvalidParameterError
from dpinfer.privacy.composition._checks import check_pairs
from dpinfer.privacy.guarantees import ApproxDP, PureDP


def compose_advanced(
    guarantees: Iterable[PureDP | ApproxDP],
    delta: float,
    *,
    method: Literal["standard", "kairouz"] = "standard",
) -> ApproxDP:
    """Advanced composition: an ε that grows with the root of the number of releases.

    Parameters
    ----------
    guarantees : iterable of PureDP or ApproxDP
        The guarantee of each release, all for one neighbour relation.
    delta : float
        The total δ, within (0, 1): more than the releases use by themselves.
    method : {"standard", "kairouz"}, default "standard"
        ε' = Σε²/2 + √(2·Σε²·ln(1/δ'')), or the smallest of three bounds of Kairouz, Oh and
        Viswanath, which is never larger.

    Returns
    -------
    ApproxDP
        The guarantee (ε', δ). It can be worse than the plain sum with ``"standard"``.

    Raises
    ------
    InvalidParameterError
        If a guarantee has no single (ε, δ), or ``delta`` leaves nothing for the bound.
    IncompatibleReleaseError
        If neighbour relations are mixed, or a guarantee is amplified.

    Notes
    -----
    δ'' is what is left of δ: 1 - δ = (1 - δ'')·Π(1 - δᵢ). The three bounds of ``"kairouz"`` are Σε
    and D + √(2·Σε²·ln(1/δ'')) and D + √(2·Σε²·ln(e + √(Σε²)/δ'')) with D = Σ ε·tanh(ε/2). For equal
    guarantees :func:`compose_optimal` is exact.

    References
    ----------
    Dwork, C., Rothblum, G. N. and Vadhan, S. (2010). Boosting and differential privacy. 51st IEEE
    Symposium on Foundations of Computer Science, 51-60. doi:10.1109/FOCS.2010.12.

    Bun, M. and Steinke, T. (2016). doi:10.1007/978-3-662-53641-4_24, Propositions 1.3 and 1.4,
    whose combination is the standard bound.

    Kairouz, P., Oh, S. and Viswanath, P. (2017). doi:10.1109/TIT.2017.2685505, Theorem 3.5.

    Examples
    --------
    >>> from dpinfer.privacy.guarantees import PureDP
    >>> round(compose_advanced([PureDP(0.1)] * 100, 1e-6).epsilon, 6)
    5.756522
    >>> round(compose_advanced([PureDP(0.1)] * 100, 1e-6, method="kairouz").epsilon, 6)
    5.756106
    """
    losses, own, relation = check_pairs(guarantees)
    total = check_scalar(delta, "delta", gt=0, lt=1)
    bound = _BOUNDS[check_option(method, "method", _BOUNDS)]
    left = total
    if own.any():
        # 1 - (1 - δ)/Π(1 - δᵢ), without cancellation
        left = -float(np.expm1(np.log1p(-total) - fsum(np.log1p(-own))))
    if left <= 0:
        raise InvalidParameterError(
            f"delta must be larger than what the guarantees use by themselves, got {total}"
        )
    return ApproxDP(bound(losses, -np.log(left)), total, neighbours=relation)


@np.errstate(over="ignore")  # an infinite bound is refused by the guarantee
def _standard(losses: FloatArray, log_inverse: float) -> float:
    squared = fsum(np.square(losses))
    return 0.5 * squared + float(np.sqrt(2.0 * squared) * np.sqrt(log_inverse))


@np.errstate(over="ignore")
def _kairouz(losses: FloatArray, log_inverse: float) -> float:
    squared = fsum(np.square(losses))
    drift = fsum(losses * np.tanh(0.5 * losses))
    # ln(e + √(Σε²)/δ)
    other = log_inverse + 0.5 * np.log(squared) if squared else -np.inf
    smaller = min(log_inverse, float(np.logaddexp(1.0, other)))
    return min(fsum(losses), drift + float(np.sqrt(2.0 * squared) * np.sqrt(smaller)))


_BOUNDS: dict[str, Callable[[FloatArray, float], float]] = {
    "standard": _standard,
    "kairouz": _kairouz,
}
