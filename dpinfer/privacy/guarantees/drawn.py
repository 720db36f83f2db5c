"""What was drawn with noise from confidential data, and whether that keeps a guarantee."""

from __future__ import annotations

from dpinfer.mechanisms.samplers import Sampler
from dpinfer.privacy.guarantees._guarantee import Guarantee


class Drawn:
    """What carries its guarantee only where its noise came from a sampler made for releases."""

    sampler: Sampler
    nominal: Guarantee

    @property
    def simulated(self) -> bool:
        """Whether the noise is that of a simulation, in floating point: not to be published."""
        return self.sampler == "simulated"

    @property
    def guarantee(self) -> Guarantee | None:
        """What is guaranteed: ``nominal`` for a release, nothing (None) if simulated."""
        return None if self.simulated else self.nominal

    def _facts(self, spent: str) -> list[tuple[str, object]]:
        """Return the lines of a summary that say what was spent, or that nothing is guaranteed."""
        relation = ("Neighbours", self.nominal.neighbours)
        if self.simulated:
            return [
                ("Noise drawn by", "simulation: carries no guarantee, not for publication"),
                (f"Would be: {spent.lower()}", self.nominal.in_words()),
                relation,
            ]
        return [("Noise drawn by", "OpenDP"), (spent, self.nominal.in_words()), relation]
