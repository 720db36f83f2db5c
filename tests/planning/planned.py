"""A plan of a procedure with what is fixed of it, of which tests ask several things."""

from dpinfer import plan


class Planned:
    def __init__(self, procedure, **fixed):
        self.procedure, self.fixed = procedure, fixed

    def width(self, **numbers):
        return plan.width(self.procedure, **self.fixed, **numbers)

    def solve(self, **numbers):
        return plan.solve(self.procedure, **self.fixed, **numbers)

    def curve(self, **numbers):
        return plan.curve(self.procedure, **self.fixed, **numbers)
