"""A plan of a procedure with what is fixed of it, of which tests ask several things."""

import warnings

import numpy as np

from dpinfer import plan
from dpinfer.errors import ApproximationWarning

ALTERNATIVES = ("two-sided", "larger", "smaller")


class Planned:
    def __init__(self, procedure, **fixed):
        self.procedure, self.fixed = procedure, fixed

    def width(self, **numbers):
        return plan.width(self.procedure, **self.fixed, **numbers)

    def solve(self, **numbers):
        return plan.solve(self.procedure, **self.fixed, **numbers)

    def curve(self, **numbers):
        return plan.curve(self.procedure, **self.fixed, **numbers)


class PlannedPower(Planned):
    """Numbers may go by position in the order of the plan; solves for the one not named."""

    def __init__(self, procedure, **fixed):
        super().__init__(procedure, **fixed)
        listed = plan.describe(procedure, **fixed).split("\n")[1]
        self.names = listed.removeprefix("numbers: ").split(", ")

    def power(self, *numbers, **named):
        given = dict(zip(self.names, numbers, strict=False)) | named
        return plan.power(self.procedure, **self.fixed, **given)

    def solve(self, **numbers):
        return super().solve(**dict.fromkeys(self.names) | numbers)

    def assert_rejects(self, hits, runs, *, blur=0.0, **numbers):
        """Six standard errors of both simulations: a chance of 2e-9. Returns the error."""
        power, error = self.curve(**numbers).loc[0, ["power", "mc_error"]]
        spread = np.sqrt(max(power * (1 - power), 1 / runs) / runs)
        assert abs(hits / runs - power) <= 6 * np.hypot(error, spread) + blur
        return error


def quiet(function, *args, **options):
    """Call what may warn that it does not decide."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        return function(*args, **options)
