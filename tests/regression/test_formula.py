import numpy as np
import pandas as pd
import pytest
import statsmodels.formula
import statsmodels.formula.api as smf

from dpinfer import Laplace
from dpinfer.errors import InvalidParameterError
from dpinfer.regression import noisy_ols

ENGINES = ["patsy", "formulaic"]


@pytest.fixture(params=ENGINES)
def engine(request):
    """The libraries that statsmodels can use; before 0.15 there is one."""
    options = getattr(statsmodels.formula, "options", None)
    if options is None:
        if request.param != "patsy":
            pytest.skip("this statsmodels reads formulas by patsy")
        yield request.param
        return
    pytest.importorskip(request.param)
    before = options.formula_engine
    options.formula_engine = request.param
    yield request.param
    options.formula_engine = before


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    n = 60
    x = rng.normal(10.0, 2.0, n)
    return pd.DataFrame(
        {
            "y": 1.0 + 2.0 * x + rng.normal(size=n),
            "x": x + rng.normal(0.0, 0.8, n),
            "u": rng.normal(5.0, 2.0, n),
            "z": rng.normal(size=n),
            "g": rng.choice(["a", "b", "c"], n),
            "sd": rng.uniform(0.5, 1.0, n),
            "w": rng.uniform(1.0, 2.0, n),
        },
        index=[f"r{i}" for i in range(n)],
    )


def slopes(fit, row):
    """Slopes of response and columns in the noisy data, in one row."""
    design = fit.design
    found = np.zeros((1 + len(design.names), len(design.errors.columns)))
    found[design.noisy] = design.loadings[row if len(design.loadings) > 1 else 0]
    return found


def loadings(fit, term, row=0):
    """Loadings of a column of the design matrix on the noisy columns of the data."""
    return slopes(fit, row)[1 + fit.design.names.index(term)]


def test_the_matrices_are_those_of_statsmodels(engine, table):
    formula = "y ~ x * C(g) + z"
    fit = noisy_ols(formula, table, noise={"x": 0.0, "y": 0.0}, weights="w", cov_type="HC1")
    peer = smf.wls(formula, table, weights=table["w"]).fit(cov_type="HC1", use_t=True)
    assert list(fit.params.index) == list(peer.params.index)
    pd.testing.assert_series_equal(fit.params, peer.params)
    pd.testing.assert_series_equal(fit.bse, peer.bse)
    pd.testing.assert_series_equal(fit.pvalues, peer.pvalues)
    np.testing.assert_allclose(fit.conf_int(), peer.conf_int(), rtol=1e-12)
    assert list(fit.conf_int().labels) == list(peer.conf_int().index)
    pd.testing.assert_series_equal(fit.resid, peer.resid)
    new = table.iloc[:4].drop(columns="y")
    pd.testing.assert_series_equal(fit.predict(new), peer.predict(new))


def test_it_is_the_fit_of_the_arrays(engine, table):
    laws = {"x": Laplace(scale=0.5), "y": 0.3}
    fit = noisy_ols("y ~ x + z", table, noise=laws)
    exog = np.column_stack([np.ones(60), table["x"], table["z"]])
    plain = noisy_ols(table["y"].to_numpy(), exog, noise={"x1": laws["x"], "y": 0.3})
    assert fit.params.to_numpy() == pytest.approx(plain.params)
    assert fit.bse.to_numpy() == pytest.approx(plain.bse)
    named = noisy_ols("y ~ x", table, noise={"x": "sd"})
    given = noisy_ols("y ~ x", table, noise={"x": table["sd"]})
    assert named.bse.to_numpy() == pytest.approx(given.bse.to_numpy())


def test_terms_linear_in_the_noise_have_exact_errors(engine, table):
    noise = {"x": 0.8, "u": 0.5, "y": 0.2}
    formula = "I(y / 2) ~ I(x + 2 * u) + x:z + I((x - u) / 7.5) - 1"
    fit = noisy_ols("I(y / 2) ~ I(x + 2 * u) + x:z + I(u * 2)", table, noise=noise)
    row = table.iloc[3]
    assert slopes(fit, 3)[0] == pytest.approx([0.0, 0.0, 0.5])
    joined = next(name for name in fit.design.names if "2 * u" in name)
    doubled = next(name for name in fit.design.names if "u * 2" in name)
    assert loadings(fit, joined, 3) == pytest.approx([1.0, 2.0, 0.0])
    assert loadings(fit, doubled, 3) == pytest.approx([0.0, 2.0, 0.0])
    assert loadings(fit, "x:z", 3) == pytest.approx([row["z"], 0.0, 0.0])
    covariance = fit.design.error_covariance(slice(3, 4))[0]
    held = list(fit.design.noisy)
    first, second = (held.index(1 + fit.design.names.index(name)) for name in (joined, doubled))
    assert covariance[first, first] == pytest.approx(0.8**2 + 4 * 0.5**2)
    assert covariance[first, second] == pytest.approx(4 * 0.5**2)
    by_group = noisy_ols("y ~ x:g", table, noise={"x": 0.5})
    slots = by_group.design.loadings[:, :, 0]
    assert slots.sum(axis=1) == pytest.approx(1.0)
    assert noisy_ols(formula, table, noise=noise, method="fuller").params.notna().all()


def test_interactions_are_the_fit_within_groups(engine, table):
    """With everything by group, each group is its own regression."""
    fit = noisy_ols("y ~ 0 + C(g) + C(g):x", table, noise={"x": 0.6, "y": 0.1}, cov_type="HC0")
    for level in "abc":
        part = table[table["g"] == level]
        own = noisy_ols("y ~ x", part, noise={"x": 0.6, "y": 0.1}, cov_type="HC0")
        name = next(n for n in fit.params.index if "x" in n and f"{level}]" in n)
        assert fit.params[name] == pytest.approx(own.params["x"])
        assert fit.bse[name] == pytest.approx(own.bse["x"])


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + I(x**3)",
        "y ~ I(x**2):u",
        "I(y**2) ~ x",
        "y ~ np.log(x)",
        "y ~ np.sqrt(x)",
        "y ~ np.abs(x)",
        "y ~ I(x > 10)",
        "y ~ I(x > 13)",
        "y ~ I(x / u)",
        "y ~ I(1.0 * (x // 1))",
        "y ~ np.maximum(x, u)",
        "y ~ np.round(x)",
        "np.log(y) ~ z",
        "I(y / x) ~ z",
        "y ~ np.sin(6.283185307179586 * x / 3)",
    ],
)
def test_terms_that_are_not_linear_are_refused(engine, table, formula):
    noise = {name: 0.5 for name in ("x", "u", "y") if name in formula}
    with pytest.raises(InvalidParameterError, match=r"linear in the noisy columns.*delta"):
        noisy_ols(formula, table, noise=noise)


def test_nonlinear_terms_without_noise_are_allowed(engine, table):
    fit = noisy_ols("y ~ x + I(z**2) + np.exp(z)", table, noise={"x": 0.5})
    assert fit.params.notna().all()
    assert noisy_ols("I(y / w) ~ I(x / w)", table, noise={"x": 0.5, "y": 0.2}).params.notna().all()


def test_shares_with_a_noisy_denominator(engine):
    """The delta method by hand: a covariate and the response share the denominator."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "a": rng.uniform(100, 300, 50),
            "b": rng.uniform(200, 500, 50),
            "n": rng.uniform(1000, 2000, 50),
        }
    )
    noise = {"a": 5.0, "b": 4.0, "n": 20.0, ("a", "n"): 30.0}
    fit = noisy_ols("I(b / n) ~ I(a / n)", frame, noise=noise, nonlinear="delta")
    a, b, n = (frame[c].to_numpy() for c in "abn")
    gradient = np.zeros((50, 2, 3))
    gradient[:, 0] = np.column_stack([0 * a, 1 / n, -b / n**2])
    gradient[:, 1] = np.column_stack([1 / n, 0 * a, -a / n**2])
    source = np.array([[25.0, 0, 30.0], [0, 16.0, 0], [30.0, 0, 400.0]])
    expected = gradient @ source @ np.swapaxes(gradient, 1, 2)
    found = fit.design.error_covariance(slice(None))
    assert found == pytest.approx(expected, rel=1e-6)
    assert "approximate" in fit.summary()
    exog = np.column_stack([np.ones(50), a / n])
    errors = {
        "y": np.sqrt(expected[:, 0, 0]),
        "x1": np.sqrt(expected[:, 1, 1]),
        ("y", "x1"): expected[:, 0, 1],
    }
    plain = noisy_ols(b / n, exog, noise=errors)
    assert fit.params.to_numpy() == pytest.approx(plain.params, rel=1e-6)
    assert fit.bse.to_numpy() == pytest.approx(plain.bse, rel=1e-6)


def test_wide_noise_under_the_delta_method_is_said(engine, table):
    fine = noisy_ols("y ~ np.log(x)", table, noise={"x": 0.5}, nonlinear="delta")
    assert "in 60 of 60" not in fine.summary()
    assert "linearised (delta method): approximate" in fine.notes[0]
    wide = noisy_ols(
        "y ~ I(1 / u)",
        table.assign(u=table["u"].abs() + 1),
        noise={"u": 0.9},
        nonlinear="delta",
        method="fuller",
    )
    assert "rows the noise is so wide" in wide.notes[0]
    table.loc["r3", "x"] = 0.0
    with pytest.raises(InvalidParameterError, match="smooth at the published values"):
        noisy_ols("y ~ np.sqrt(x)", table, noise={"x": 0.5}, nonlinear="delta")


def test_shares_by_simulation():
    # 20 tables of 300 rows; 6-sigma bounds around what the delta method neglects, 0.2 %
    rng = np.random.default_rng(3)
    law = Laplace(scale=20.0)
    found, naive = [], []
    for _ in range(20):
        n = rng.uniform(1000, 2000, 300)
        share = rng.uniform(0.1, 0.2, 300)
        frame = pd.DataFrame(
            {"a": n * share, "b": n * (0.1 + 0.5 * share + rng.normal(0, 0.01, 300)), "n": n}
        )
        frame += law.rvs(frame.shape, rng=rng)
        noise = dict.fromkeys("abn", law)
        fit = noisy_ols("I(b / n) ~ I(a / n)", frame, noise=noise, nonlinear="delta")
        found.append(fit.params.iloc[1])
        naive.append(fit.naive.params.iloc[1])
    limit = 6.0 * np.std(found) / np.sqrt(20) + 0.001
    assert abs(np.mean(found) - 0.5) < limit < abs(np.mean(naive) - 0.5)


def test_variables_of_the_caller(table):
    shift = 4.0

    def scaled(values):
        return values * 3.0 + shift

    fit = noisy_ols("y ~ scaled(x)", table, noise={"x": 0.5})
    assert loadings(fit, "scaled(x)") == pytest.approx([3.0])


def test_stateful_transforms_keep_their_state(table):
    centred = noisy_ols("y ~ center(x)", table, noise={"x": 0.5})
    plain = noisy_ols("y ~ x", table, noise={"x": 0.5})
    assert centred.params["center(x)"] == pytest.approx(plain.params["x"])
    assert centred.predict(table.head(3)).to_numpy() == pytest.approx(
        plain.predict(table.head(3)).to_numpy()
    )


def test_weights_and_groups_by_name(table):
    named = noisy_ols("y ~ x", table, noise={"x": 0.5}, weights="w", cov_type="cluster", groups="g")
    given = noisy_ols(
        "y ~ x",
        table,
        noise={"x": 0.5},
        weights=table["w"],
        cov_type="cluster",
        groups=table["g"],
    )
    assert named.bse.to_numpy() == pytest.approx(given.bse.to_numpy())
    assert named.df_inference == 2
    with pytest.raises(InvalidParameterError, match="must be a column"):
        noisy_ols("y ~ x", table, noise={"x": 0.5}, cov_type="cluster", groups="state")


def test_rounding_is_no_bend(engine, table):
    far = table.assign(x=table["x"] + 1e9)
    fit = noisy_ols("y ~ I(x - 1e9) + I((x - 1e9) / 3):z", far, noise={"x": 0.1})
    near = noisy_ols("y ~ x + I(x / 3):z", table, noise={"x": 0.1})
    assert fit.params.iloc[1] == pytest.approx(near.params.iloc[1], rel=1e-4)


def test_the_data_stay_as_they_are(table):
    counts = table.assign(x=table["x"].round().astype(int))
    before = counts.copy()
    noisy_ols("y ~ x", counts, noise={"x": 0.5})
    pd.testing.assert_frame_equal(counts, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"endog": "y ~ nothing"}, "formula must be one that statsmodels reads"),
        ({"endog": "y ~ x +* z"}, "formula must be one that statsmodels reads"),
        ({"endog": "y"}, "formula must be one that statsmodels reads"),
        ({"endog": "g ~ x"}, "formula must be one that statsmodels reads"),
        ({"endog": ""}, "formula must be one"),
        ({"exog": [[1.0], [2.0]]}, "exog must be a DataFrame"),
        ({"noise": {"people": 1.0}}, "columns of the data"),
        ({"noise": {}}, "noise must be a mapping"),
        ({"noise": 3.0}, "noise must be a mapping"),
        ({"noise": {"x": "nothing"}}, "'nothing' must be a column"),
        ({"noise": {"x": "g"}}, "must hold real numbers"),
        ({"noise": {"g": 1.0}}, "must hold real numbers"),
        ({"noise": {"x": -1.0}}, "must be >= 0"),
        ({"noise": {"x": 1.0, ("x", "z"): 0.1}}, "pairs of columns"),
        ({"noise": {"x": 1.0, "y": 1.0, ("x", "y"): 1.1}}, "covariances that fit"),
        ({"noise": {"x": 0.0, "y": 1.0, ("x", "y"): 0.1}}, "covariances that fit"),
        ({"noise": {"x": 1.0, "y": 1.0, ("x", "y"): 0.1, ("y", "x"): 0.1}}, "once"),
        ({"weights": "x"}, "free of noise"),
        ({"weights": "z"}, "must be > 0"),
        ({"weights": [1.0]}, "weights must have 60 entries"),
        ({"nonlinear": "second"}, "nonlinear must be one of"),
    ],
)
def test_bad_input(table, change, message):
    given = {"endog": "y ~ x", "exog": table, "noise": {"x": 0.5}} | change
    endog, exog = given.pop("endog"), given.pop("exog")
    with pytest.raises(InvalidParameterError, match=message):
        noisy_ols(endog, exog, **given)


def test_frames_that_will_not_do(table):
    for data, message in (
        (table.head(0), "at least one row"),
        (pd.concat([table, table[["x"]]], axis=1), "different names"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            noisy_ols("y ~ x", data, noise={"x": 0.5})


def test_categories_of_noisy_values_are_refused(engine, table):
    rounded = table.assign(x=table["x"].round())
    with pytest.raises(InvalidParameterError, match="linear in the noisy columns"):
        noisy_ols("y ~ C(x)", rounded, noise={"x": 0.5})


def test_missing_values_are_not_dropped_silently(engine, table):
    table.loc["r3", "z"] = np.nan
    with pytest.raises(InvalidParameterError, match="missing='drop'"):
        noisy_ols("y ~ x + z", table, noise={"x": 0.5})
    noisy_ols("y ~ x", table, noise={"x": 0.5})
    table.loc["r3", "x"] = np.nan
    with pytest.raises(InvalidParameterError, match="'x' must not contain NaN"):
        noisy_ols("y ~ x", table, noise={"x": 0.5})


def test_predict_refuses_what_does_not_fit(engine, table):
    fit = noisy_ols("y ~ x + C(g)", table, noise={"x": 0.5})
    for data in (table[["x"]], table.assign(g="new"), table["x"], 3.0, table.assign(x=np.nan)):
        with pytest.raises(InvalidParameterError, match="exog must"):
            fit.predict(data)
