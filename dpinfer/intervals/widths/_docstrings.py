"""What the docstrings of the plans of intervals share, by the names that it has there."""

from dpinfer.planning.documentation import MECHANISMS

TEXTS = {
    **MECHANISMS,
    "alpha_and_budget": """\
alpha : float or array of float, default 0.05
    One minus the confidence level, in (0, 1).
budget : float or array of float, optional
    Privacy budget > 0, where ``mechanism`` is a function of it.""",
    "raises": """\
Raises
------
InvalidParameterError
    If an argument is outside what is allowed.""",
    "wanted": """\
width : float
    The width that is wanted, > 0.""",
    "raises_unsolved": """\
Raises
------
InvalidParameterError
    If not exactly one argument is None, or if the width cannot be reached.""",
}
