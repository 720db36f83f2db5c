"""Whether the interval of a test inverts it."""

import numpy as np

ALTERNATIVES = ("two-sided", "larger", "smaller")


def check_dual(test, values, alpha=0.05, near=1e-9):
    """A value outside of the interval is rejected; one inside is not, unless there are gaps.

    ``test(value)`` is a result; values within ``near`` of an end are left out.
    """
    held = test(values[len(values) // 2]).conf_int(alpha)
    lower, upper = float(held.lower), float(held.upper)
    assert held.alpha == alpha
    inside = (values >= lower) & (values <= upper)
    away = np.minimum(abs(values - lower), abs(values - upper)) > near * (1 + abs(values))
    pvalue = np.array([float(test(value).pvalue) for value in values])
    assert (pvalue[away & ~inside] < alpha).all()
    if not any("gaps" in note for note in held.notes):
        assert (pvalue[away & inside] >= alpha).all()
    return held
