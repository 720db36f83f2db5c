"""Only DPInferError leaves, whatever comes in, and never a warning."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpinfer import DPInferError, Gaussian, Laplace
from dpinfer.errors import InvalidParameterError, NotEstimableError
from dpinfer.regression import noisy_ols

Y = [1.0, 2.5, 2.9, 4.2, 5.1, 5.8]
X = [[1.0, 0.2], [1.0, 1.1], [1.0, 2.3], [1.0, 2.8], [1.0, 4.1], [1.0, 5.2]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"endog": []}, InvalidParameterError, "endog must hold at least one value"),
        ({"endog": Y[:5]}, InvalidParameterError, "exog must have 5 entries"),
        ({"endog": [Y]}, InvalidParameterError, "endog must be one-dimensional"),
        ({"endog": [*Y[:5], np.nan]}, InvalidParameterError, "endog must not contain NaN"),
        ({"endog": [*Y[:5], np.inf]}, InvalidParameterError, "endog must be finite"),
        ({"endog": [*Y[:5], 1e60]}, InvalidParameterError, "endog must be <= 1e\\+50"),
        ({"endog": [1j] * 6}, InvalidParameterError, "endog must be real"),
        ({"endog": ["a"] * 6}, InvalidParameterError, "endog must hold real numbers"),
        ({"endog": pd.DataFrame({"a": Y, "b": Y})}, InvalidParameterError, "one column"),
        ({"exog": np.array(X) * [1.0, 1e-60]}, InvalidParameterError, "rescale"),
        ({"exog": [[1.0, 2.0]] * 6}, NotEstimableError, "linearly dependent"),
        ({"exog": np.array(X) * [1.0, 0.0]}, NotEstimableError, "linearly dependent"),
        ({"exog": np.eye(6)}, NotEstimableError, "more than 6 rows"),
        ({"exog": np.array(X) * [1.0, 1e-20]}, InvalidParameterError, "rescale"),
        ({"exog": np.ones((6, 2, 1))}, InvalidParameterError, "two-dimensional"),
        ({"exog": np.ones((6, 0))}, InvalidParameterError, "at least one value"),
        ({"exog": "x"}, InvalidParameterError, "exog must"),
        ({"noise": {}}, InvalidParameterError, "noise must be a mapping"),
        ({"noise": Laplace(scale=1.0)}, InvalidParameterError, "noise must be a mapping"),
        ({"noise": {"x7": 1.0}}, InvalidParameterError, "columns of the data"),
        ({"noise": {"x1": None}}, InvalidParameterError, "noise\\['x1'\\] must"),
        ({"noise": {"x1": "sd"}}, InvalidParameterError, "noise\\['x1'\\] must"),
        ({"noise": {"x1": [0.1, 0.2]}}, InvalidParameterError, "noise\\['x1'\\] must"),
        ({"noise": {"x1": Laplace(scale=[1.0, 2.0])}}, InvalidParameterError, "noise\\['x1'\\]"),
        ({"noise": {"x1": [Laplace(scale=1.0), 3.0]}}, InvalidParameterError, "noise laws"),
        ({"noise": {"x1": Laplace(scale=1e60)}}, InvalidParameterError, "must be <= 1e\\+50"),
        ({"noise": {"x1": 0.1, ("x1", "x1"): 0.1}}, InvalidParameterError, "pairs of columns"),
        ({"noise": {"x1": 0.1, ("x1",): 0.1}}, InvalidParameterError, "pairs of columns"),
        ({"noise": {"x1": 0.1, "y": 0.1, ("x1", "y"): "a"}}, InvalidParameterError, "real"),
        ({"noise": {"x1": 9.0}}, NotEstimableError, "drowns the covariates, 'x1'"),
        ({"weights": [1.0] * 5}, InvalidParameterError, "weights must have 6 entries"),
        (
            {"endog": pd.Series(Y), "weights": pd.Series([1.0] * 6, index=list("abcdef"))},
            InvalidParameterError,
            "weights must have the labels",
        ),
        ({"weights": 2.0}, InvalidParameterError, "weights must be one-dimensional"),
        ({"weights": [1e-30] + [1.0] * 5}, InvalidParameterError, "factor of 4e15"),
        ({"weights": pd.Series([1.0] * 6)}, None, ""),
        ({"method": "tls"}, InvalidParameterError, "method must be one of"),
        ({"cov_type": "HC2"}, InvalidParameterError, "cov_type must be one of"),
        ({"cov_type": 3}, InvalidParameterError, "cov_type must be one of"),
        ({"cov_type": "cluster"}, InvalidParameterError, "groups must be given"),
        ({"groups": [1] * 6}, InvalidParameterError, "groups must be given for"),
        ({"uncertainty": "sampling"}, InvalidParameterError, "uncertainty must be one of"),
        ({"use_t": 1}, InvalidParameterError, "use_t must be True or False"),
    ],
)
def test_arguments(change, error, message):
    given = {"endog": Y, "exog": X, "noise": {"x1": 0.1}} | change
    endog, exog = given.pop("endog"), given.pop("exog")
    if error is None:
        noisy_ols(endog, exog, **given)
        return
    with pytest.raises(error, match=message):
        noisy_ols(endog, exog, **given)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 1, 1, 2, 2], "groups must have 6 entries"),
        ([1] * 6, "at least two different"),
        ([1, 1, None, 2, 2, 2], "missing values"),
        ([[1, 2]] * 6, "one for each row"),
        (3, "one for each row"),
        (pd.Series([1, 2] * 3, index=list("abcdef")), "labels of the data"),
    ],
)
def test_groups(groups, message):
    with pytest.raises(InvalidParameterError, match=message):
        noisy_ols(pd.Series(Y), pd.DataFrame(X), noise={1: 0.1}, cov_type="cluster", groups=groups)
    with pytest.raises(InvalidParameterError, match="independent"):
        noisy_ols(
            Y, X, noise={"x1": 0.1}, cov_type="cluster", groups=[1, 2] * 3, uncertainty="noise"
        )


def test_names_that_clash():
    with pytest.raises(InvalidParameterError, match="different names"):
        noisy_ols(pd.Series(Y, name="a"), pd.DataFrame(X, columns=["b", "a"]), noise={"a": 0.1})


def test_too_few_rows_to_tell_the_noise():
    rng = np.random.default_rng(1)
    raised = 0
    for _ in range(60):
        x, y = rng.normal(size=5), rng.normal(size=5)
        try:
            noisy_ols(y, x, noise={"x1": 0.9, "y": 0.9}, uncertainty="noise", method="fuller")
        except NotEstimableError as error:
            raised += "too few" in str(error)
    assert raised > 0


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-10, 10),
    st.sampled_from([0.0, 1e-320, 1e49, -1e49, 1e-49, 1e51, 2**70]),
)
anything = st.one_of(
    numbers,
    st.none(),
    st.booleans(),
    st.text(max_size=4),
    st.complex_numbers(),
    st.lists(numbers, max_size=7),
    st.builds(lambda s: Laplace(scale=s), st.floats(1e-90, 1e90)),
    st.builds(lambda s: Gaussian(sigma=s), st.lists(st.floats(1e-3, 1e3), max_size=7)),
    st.just(object()),
)


def everything(fit):
    for name in ("params", "bse", "tvalues", "pvalues", "scale", "resid", "reliability"):
        assert not np.isnan(np.asarray(getattr(fit, name))).any(), name
    assert np.isfinite(fit.params).all()
    fit.summary()
    fit.cov_params()
    assert not np.isnan(fit.attenuation).any()


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.lists(numbers, min_size=6, max_size=6),
    st.lists(st.tuples(numbers, numbers), min_size=6, max_size=6),
    st.dictionaries(st.sampled_from(["y", "x1", "x2", "const", ("x1", "x2")]), anything),
    st.sampled_from(["moments", "fuller"]),
    st.sampled_from(["HC0", "HC1", "HC3"]),
    st.sampled_from(["noise", "noise+sampling"]),
)
@example([1e49] * 6, [(1e-49, 1.0), *[(0.0, 2.0)] * 5], {"x1": 1e-50}, "moments", "HC1", "noise")
def test_numbers(y, x, noise, method, cov_type, uncertainty):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            fit = noisy_ols(
                y, x, noise=noise, method=method, cov_type=cov_type, uncertainty=uncertainty
            )
        except DPInferError:
            return
        everything(fit)


scale = st.sampled_from([1e-49, 1e-20, 1e-5, 1.0, 1e3, 1e20, 1e49])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6),
    scale,
    scale,
    st.one_of(st.floats(0, 1.5), st.sampled_from([1e-30, 1e30])),
    st.one_of(st.floats(0, 1.5), st.sampled_from([1e-30, 10.0, 1e4, 1e30])),
    st.sampled_from(["moments", "fuller"]),
    st.sampled_from(["HC0", "HC1", "HC3"]),
    st.sampled_from(["noise", "noise+sampling"]),
)
def test_units(seed, unit_y, unit_x, noise_y, noise_x, method, cov_type, uncertainty):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            fit = noisy_ols(
                (x + rng.normal(size=8)) * unit_y,
                np.column_stack([np.ones(8), x * unit_x]),
                noise={"y": Gaussian(sigma=max(noise_y * unit_y, 1e-90)), "x1": noise_x * unit_x},
                method=method,
                cov_type=cov_type,
                uncertainty=uncertainty,
            )
        except DPInferError:
            return
        everything(fit)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(anything, anything, anything, anything, anything)
def test_things(first, second, third, fourth, fifth):
    for call in (
        lambda: noisy_ols(first, second, noise=third),
        lambda: noisy_ols(Y, X, noise={"x1": first}, weights=second),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}, cov_type="cluster", groups=first),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}, method=first),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}, cov_type=fourth),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}, uncertainty=fifth),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}, nonlinear=fifth),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}, use_t=fourth),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}).conf_int(third),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}).predict(second),
        lambda: noisy_ols(Y, X, noise={"x1": 0.1}).summary(first),
        lambda: noisy_ols("y ~ x", pd.DataFrame({"y": Y, "x": 1.0}), noise=first),
    ):
        with contextlib.suppress(DPInferError):
            call()


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.text(alphabet="yxzg~+*:()-1I|, ", max_size=12), st.booleans())
def test_formulas(formula, delta):
    frame = pd.DataFrame(
        {
            "y": Y,
            "x": [0.3, 1.0, 2.2, 3.1, 4.0, 5.0],
            "z": [1.0, 0, 2, 1, 0, 1],
            "g": list("aabbab"),
        }
    )
    try:
        fit = noisy_ols(formula, frame, noise={"x": 0.1}, nonlinear="delta" if delta else "refuse")
    except DPInferError:
        return
    everything(fit)
