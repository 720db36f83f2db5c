"""What the docstrings of the plans of tests share, by the names that it has there."""

from dpinfer.planning.documentation import MECHANISMS, mechanism_text

TEXTS = {
    **MECHANISMS,
    "mechanism_of_pair": mechanism_text(
        "NoiseLaw, (NoiseLaw, NoiseLaw) or callable",
        "The law of the noise: one for both counts, or a pair. Or a function",
    ),
    "mechanism_of_table": mechanism_text(
        "NoiseLaw, sequence of NoiseLaw or callable",
        "The law of the noise: one for all counts, or one for each, row by row. Or a function",
    ),
    "replicates": """\
reps : int, default 10_000
    Number of replicates, where critical values or powers are simulated.
rng : None, int or numpy.random.Generator
    What the seed is drawn from, once: the powers of one plan are of the same replicates.
n_jobs : int or None, default 1
    Number of workers that simulate, as joblib takes it.""",
    "alpha_and_budget": """\
alpha : float or array of float, default 0.05
    Level of the test, in (0, 1).
budget : float or array of float, optional
    Privacy budget > 0, where ``mechanism`` is a function of it.""",
    "returns": """\
Returns
-------
float or array of float
    The power, in the shape to which the arguments broadcast. :meth:`power_frame` has its Monte
    Carlo error, too, where it is simulated.""",
    "raises": """\
Raises
------
InvalidParameterError
    If an argument is outside what is allowed.""",
    "wanted": """\
power : float
    The power to be reached, in (0, 1).""",
    "raises_unsolved": """\
Raises
------
InvalidParameterError
    If not exactly one argument is None, or if the power cannot be reached.""",
}
