"""Which noises a law is about: estimates from the same published values have dependent errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpinfer._validation import FloatArray
from dpinfer.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpinfer.mechanisms._law import NoiseLaw


@final
class Origin:
    """The noises of one set of published values: not which law they have, but which they are.

    Copies, and what was pickled, are the same origin.
    """

    def __init__(self, values: FloatArray) -> None:
        self._values = values
        self._token = os.urandom(16)

    @cached_property
    def digest(self) -> bytes:
        """What equal values have in common, were they read twice."""
        return blake2b(np.ascontiguousarray(self._values).tobytes(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self._token == other._token

    def __hash__(self) -> int:
        return hash(self._token)

    def __getstate__(self) -> dict[str, Any]:
        return {"digest": self.digest, "_token": self._token}


class Share(NamedTuple):
    """The part that noises of one origin have in a sum: Σ weights · noise at the positions."""

    origin: Origin
    positions: NDArray[np.intp]
    weights: FloatArray
    law: NoiseLaw
    """The law of these noises, of shape () or one for each position."""


def are_dependent(laws: Sequence[NoiseLaw]) -> bool:
    """Whether two of the errors are known to share a noise; what may do so is refused."""
    shares = [share for law in laws for share in law._shares]
    if len(shares) < 2:
        return False
    found: dict[Origin, list[NDArray[np.intp]]] = {}
    for share in shares:
        found.setdefault(share.origin, []).append(share.positions)
    if len({origin.digest for origin in found} if len(found) > 1 else found) < len(found):
        raise InvalidParameterError(
            "mechanism must be laws of estimates whose dependence is known, got those of two fits "
            "of equal values: make one Release of what was published, and fit that"
        )
    return any(
        len(np.unique(np.concatenate(positions))) < sum(map(len, positions))
        for positions in found.values()
        if len(positions) > 1
    )


def refuse_dependent(laws: Sequence[NoiseLaw], name: str) -> None:
    """Refuse errors that share a noise, where they have to be independent."""
    if are_dependent(laws):
        raise InvalidParameterError(
            f"{name} must be laws of independent errors, got those of estimates that share "
            "published values: use linear_confint, linear_ztest, counts_2indep, ratio_confint or "
            "share_confint, which know how they depend"
        )


def refuse_same(laws: Sequence[NoiseLaw], name: str) -> None:
    """Refuse the error of one estimate as that of several values."""
    seen = set()
    for law in laws:
        key = tuple(
            (hash(share.origin), share.positions.tobytes(), share.weights.tobytes())
            for share in law._shares
        )
        if key and key in seen:
            raise InvalidParameterError(
                f"{name} must be the law of each value, got that of one estimate for several: "
                "take the law of each from the fit"
            )
        seen.add(key)
