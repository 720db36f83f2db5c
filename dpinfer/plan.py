"""Plans: the power of a test or the width of an interval, and what reaches the one wanted."""

from dpinfer.planning.planner import curve, describe, power, solve, width

__all__ = ["curve", "describe", "power", "solve", "width"]
