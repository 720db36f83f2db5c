"""What is read off draws: functions with intervals beside, imputations, pooled estimates."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer import plotting
from dpinfer.errors import (
    ApproximationWarning,
    ConvergenceError,
    InvalidParameterError,
    NotEstimableError,
    PriorConflictWarning,
)
from dpinfer.posterior import FunctionPosterior, diagnostics

LAW = dpi.Geometric(scale=2.0)
SHORT = {"draws": 40, "warmup": 10, "sampler": "chain", "rng": 2}
CELLS = pd.MultiIndex.from_product([["F", "M"], ["young", "old"]], names=["sex", "age"])
COUNTS = pd.Series([30, 12, 44, 25], CELLS)
ROWS = pd.DataFrame([[1, 1, 0, 0], [1, 0, 0, -1]], ["women", "difference"], CELLS)


@pytest.fixture(scope="module")
def joint():
    how = {"draws": 500, "warmup": 60, "sampler": "chain", "rng": 1}
    return dpi.table_posterior(COUNTS, mechanism=LAW, total=110, **how)


@pytest.fixture(scope="module")
def sparse():
    noisy = pd.Series(LAW.rvs(30, rng=1), pd.Index(range(30), name="block"))
    return dpi.table_posterior(noisy, mechanism=LAW, draws=1000, rng=1)


def independent(draws, **more):
    """Draws of one chain that is none."""
    prior = dpi.priors.FlatPrior()
    return FunctionPosterior(draws=draws, prior=prior, sampler="total", **more)


def test_linear_functions_have_the_intervals_of_combine_beside(joint):
    found = joint.linear(ROWS)
    np.testing.assert_array_equal(found.draws[..., 0], joint.draws[..., :2].sum(axis=2))
    np.testing.assert_array_equal(found.draws[..., 1], joint.draws[..., 0] - joint.draws[..., 3])
    release = dpi.Release(
        [*COUNTS, 110], workload=[*np.eye(4), np.ones(4)], mechanism=[LAW] * 4 + [dpi.Exact()]
    )
    fit = dpi.combine(release, target=ROWS.to_numpy())
    beside = found.unbiased(0.1)
    np.testing.assert_allclose(beside.estimate, fit.params)
    np.testing.assert_allclose(np.asarray(beside), np.asarray(fit.conf_int(0.1)))
    frame = found.summary_frame(0.1)
    np.testing.assert_allclose(frame["unbiased_lower"], beside.lower)
    assert frame.index.tolist() == ["women", "difference"]
    assert "hold for every table" in " ".join(found.summary().split())
    assert "drawn from the prior" in " ".join(found.summary().split())


def test_cells_have_them_too_where_they_are_determined(joint):
    frame = joint.summary_frame()
    assert (frame["unbiased_lower"] < frame["mean"]).all()
    assert (frame["mean"] < frame["unbiased_upper"]).all()
    rows = [[1, 1, 0], [0, 0, 1]]
    sums = dpi.table_posterior([5, 9], workload=rows, mechanism=LAW, **SHORT)
    with pytest.warns(ApproximationWarning):
        frame = sums.summary_frame(unmixed="warn")
    assert np.isnan(frame["unbiased"]).tolist() == [True, True, False]
    with pytest.raises(NotEstimableError, match="only the prior tells of"):
        sums.linear([1, 0, 0]).unbiased()
    assert sums.linear([1, 1, 0]).unbiased().estimate == 5.0


def test_values_with_a_rule_have_none(joint):
    clamped = dpi.noisy([4, 8], mechanism=LAW, clamp=0)
    found = dpi.table_posterior(clamped, **SHORT)
    with pytest.warns(ApproximationWarning):
        assert "unbiased" not in found.summary_frame(unmixed="warn")
    for functions in (found.linear([1, 1]), joint.function(lambda x: x[:, 0])):
        with pytest.raises(InvalidParameterError, match="published as they were drawn"):
            functions.unbiased()


def test_prior_and_data_conflict_on_sparse_sums(sparse):
    with pytest.warns(PriorConflictWarning, match="prior and data conflict.*total"):
        sparse.interval()
    total = sparse.linear(np.ones(30))
    with pytest.warns(PriorConflictWarning, match="function 0"):
        said = total.summary()
    assert "do not use the posterior" in " ".join(said.split())
    assert total.mean > total.unbiased().upper
    with pytest.warns(PriorConflictWarning):
        sparse.imputations(2)


def test_what_fits_is_not_a_conflict(joint):
    assert not [note for note in joint.interval().notes if "conflict" in note]
    # the mean of a known total is that total
    assert joint.linear(np.ones(4)).interval().contains(110)


def test_any_function_has_a_posterior(joint):
    found = joint.function(lambda x: x[:, 0] / x.sum(axis=1))
    assert found.draws.shape == (4, 500)
    assert found.mean == pytest.approx(joint.mean.iloc[0] / 110)
    assert found.interval(0.1).contains(found.mean)
    frame = found.summary_frame()
    assert frame["mc_error"].iloc[0] < frame["std"].iloc[0] / 15
    several = joint.function(lambda x: pd.DataFrame(x[:, :2], columns=["a", "b"]))
    assert several.summary_frame().index.tolist() == ["a", "b"]
    assert several.quantile([0.1, 0.9]).shape == (2, 2)
    assert several["b"].mean == several.mean["b"]
    with pytest.raises(InvalidParameterError, match="for each of 2000 tables"):
        joint.function(lambda x: x[:5, 0])


def test_independent_draws_need_no_chains():
    x = np.random.default_rng(1).normal(size=(1, 900))
    found = independent(x)
    frame = found.diagnostics()
    assert np.isnan(frame["rhat"].iloc[0])
    assert frame["ess_bulk"].iloc[0] == 900
    assert frame["mc_error"].iloc[0] == pytest.approx(x.std(ddof=1) / 30)
    assert "900 independent" in found.summary()
    # 1/(φ(0)·√n)/2, within seven standard deviations of its own error
    assert found.quantile_error(0.5) == pytest.approx(np.sqrt(np.pi / 2 / 900), rel=0.5)


def test_errors_of_means_and_quantiles_are_those_of_arviz():
    """arviz-stats 0.8.0 on the same draws: mcse with method="mean" and "quantile"."""
    e = np.random.default_rng(0).normal(size=(4, 1000))
    x = e.copy()
    for t in range(1, 1000):
        x[:, t] = 0.8 * x[:, t - 1] + 0.6 * e[:, t]
    assert round(diagnostics.mean_error(x), 6) == MEAN_ERROR
    found = [round(diagnostics.quantile_error(x, q), 6) for q in (0.05, 0.5, 0.95)]
    assert found == QUANTILE_ERRORS


MEAN_ERROR = 0.047767
QUANTILE_ERRORS = [0.059905, 0.060841, 0.089289]


def test_arviz_reads_a_data_tree(joint):
    pytest.importorskip("xarray")
    tree = joint.to_datatree()
    held = tree["posterior"]["table"]
    assert held.dims == ("chain", "draw", "cell")
    np.testing.assert_array_equal(held.sel(cell="F, old"), joint.draws[..., 1])
    one = joint.linear(np.ones(4)).to_datatree()
    assert one["posterior"]["function"].dims == ("chain", "draw")


def test_pictures_of_chains(joint):
    axes = plotting.plot_trace(joint, ("F", "old"))
    assert axes.get_ylabel() == "F, old"
    drawn = [line.get_ydata() for line in axes.get_lines()]
    np.testing.assert_array_equal(drawn, joint.draws[..., 1])
    axes = joint.linear(ROWS).plot(row="women")
    assert axes.get_ylabel() == "women"
    axes = plotting.plot_ranks(joint, 2, bins=10)
    heights = np.array([line.get_ydata()[:-1] for line in axes.get_lines()[:4]])
    np.testing.assert_allclose(heights.mean(axis=0), 1.0)
    np.testing.assert_allclose(heights.mean(axis=1), 1.0)
    for bad in (0.5, ("F", "none"), [0, 1]):
        with pytest.raises(InvalidParameterError):
            plotting.plot_trace(joint, bad)
    with pytest.raises(InvalidParameterError, match="posterior must be"):
        plotting.plot_ranks(COUNTS)


def test_imputations_are_draws_in_every_form(joint):
    tables = joint.imputations(8)
    assert len({tuple(one) for one in tables}) > 4
    flat = joint.draws.reshape(-1, 4)
    records, cells = joint.imputations(8, "records"), joint.imputations(8, "frequencies")
    for table, persons, weighted in zip(tables, records, cells, strict=True):
        assert (flat == table.to_numpy()).all(axis=1).any()
        assert table.index.equals(CELLS)
        assert len(persons) == 110
        counted = persons.value_counts(["sex", "age"]).reindex(CELLS, fill_value=0)
        assert counted.tolist() == table.tolist()
        again = weighted.set_index(["sex", "age"])["count"].reindex(CELLS, fill_value=0)
        assert again.tolist() == table.tolist()
    with pytest.raises(ConvergenceError, match="effective number of draws"):
        joint.imputations(2000)
    with pytest.raises(InvalidParameterError, match="as_ must be one of"):
        joint.imputations(4, "persons")


# Pooling.


def test_rubins_rules_by_hand():
    q, u = np.array([1.2, 0.9, 1.1, 1.4]), np.array([0.04, 0.05, 0.04, 0.03])
    found = dpi.pool(q, u, uncertainty="noise+sampling")
    between, within = q.var(ddof=1), u.mean()
    grown = 1.25 * between
    assert found.bse == pytest.approx(np.sqrt(within + grown))
    assert found.df == pytest.approx(3 * (1 + within / grown) ** 2)
    share = grown / (within + grown)
    assert found.fmi == pytest.approx(share)
    small = dpi.pool(q, u, uncertainty="noise+sampling", df_complete=12)
    observed = 13 / 15 * 12 * (1 - share)
    assert small.df == pytest.approx(1 / (1 / found.df + 1 / observed))
    noise = dpi.pool(q, uncertainty="noise")
    assert noise.bse == pytest.approx(np.sqrt(grown))
    assert noise.df == 3
    lower, upper = noise.conf_int(0.1)  # t with 3 degrees of freedom: 2.353363
    assert (upper - lower) / 2 / noise.bse == pytest.approx(2.353363, abs=1e-6)
    assert found.pvalues < small.pvalues


def test_labels_covariances_and_frames_are_kept():
    names = pd.Index(["a", "b"])
    rng = np.random.default_rng(2)
    q = [pd.Series(row, names) for row in rng.normal(size=(5, 2))]
    u = [pd.DataFrame(np.eye(2) + 0.3, names, names) for _ in q]
    found = dpi.pool(q, u, uncertainty="noise+sampling")
    expected = np.eye(2) + 0.3 + 1.2 * np.cov(np.array(q).T)
    np.testing.assert_allclose(found.cov_params(), expected)
    np.testing.assert_allclose(found.bse**2, np.diagonal(expected))
    assert found.summary_frame().index.equals(names)
    frame = dpi.pool(pd.DataFrame(q), uncertainty="noise")
    np.testing.assert_allclose(frame.cov_params(), 1.2 * np.cov(np.array(q).T))
    same = dpi.pool([3.0, 3.0], uncertainty="noise")
    assert same.conf_int().width == 0
    assert np.isinf(same.df)


def test_results_of_statsmodels_are_pooled(joint):
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    fits = []
    for table in joint.imputations(4, "frequencies"):
        x = pd.DataFrame({"const": 1.0, "old": (table["age"] == "old").astype(float)})
        y = (table["sex"] == "F").astype(float)
        fits.append(GLM(y, x, family=Binomial(), freq_weights=table["count"]).fit())
    found = dpi.pool(fits, uncertainty="noise+sampling")
    by_hand = dpi.pool(
        [fit.params for fit in fits],
        [fit.bse**2 for fit in fits],
        uncertainty="noise+sampling",
    )
    np.testing.assert_allclose(found.bse, by_hand.bse)
    assert found.cov_params().loc["old", "old"] == pytest.approx(found.bse["old"] ** 2)
    assert (found.bse > fits[0].bse * 0.9).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variances": [1, 1]}, "variances must be left out for 'noise'"),
        ({"uncertainty": "noise+sampling"}, "variances must be given"),
        ({"uncertainty": "partially synthetic"}, "rules for synthetic data"),
        ({"uncertainty": "sampling"}, "uncertainty must be one of"),
        ({"estimates": [1.0]}, "at least 2 imputations"),
        ({"df_complete": 5}, "df_complete must be left out"),
        ({"estimates": [[1, 2], [1, 2, 3]]}, "one shape"),
        ({"estimates": [pd.Series([1.0]), pd.Series([1.0], ["x"])]}, "same labels"),
        ({"uncertainty": "noise+sampling", "variances": [1, -1]}, "variances must be >= 0"),
        ({"uncertainty": "noise+sampling", "variances": [1, 1, 1]}, "shape of estimates"),
        ({"estimates": 3.0}, "a sequence"),
    ],
)
def test_what_is_not_right_is_refused(change, message):
    how = {"estimates": [1.0, 2.0], "uncertainty": "noise"} | change
    with pytest.raises(InvalidParameterError, match=message):
        dpi.pool(how.pop("estimates"), **how)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "sigma", "m", "population", "counted", "misused"),
    [
        (100, 10.0, 5, 0.946, 0.951, 0.892),
        (100, 10.0, 20, 0.947, 0.950, 0.846),
        (100, 4.0, 20, 0.947, 0.951, 0.565),
        (400, 5.0, 20, 0.950, 0.950, 0.394),
    ],
)
def test_each_target_is_covered_by_its_rule(rate, sigma, m, population, counted, misused):
    reps, rng = 20_000, np.random.default_rng(11)
    law = dpi.DiscreteGaussian(sigma=sigma)
    x = rng.poisson(rate, reps)
    # far from zero the posterior under the flat prior is the published value less a noise
    drawn = x + law.rvs(reps, rng=rng) - law.rvs((m, reps), rng=rng)
    drawn = np.maximum(drawn, 0).astype(float)
    rubin = dpi.pool(drawn, drawn, uncertainty="noise+sampling").conf_int()
    noise = dpi.pool(drawn, uncertainty="noise").conf_int()
    # six standard deviations of a share, and the rounding of the known ones
    for found, truth, known in (
        (rubin, rate, population),
        (noise, x, counted),
        (noise, rate, misused),
    ):
        slack = 6 * np.sqrt(2 * known * (1 - known) / reps) + 5e-4
        assert np.mean(found.contains(truth)) == pytest.approx(known, abs=slack)


def test_records_of_one_label():
    counts = pd.Series([3, 9], index=pd.Index(["no", "yes"], name="smokes"))
    drawn = dpi.table_posterior(counts, mechanism=dpi.Geometric(scale=1.0), rng=1)
    records, frequencies = (drawn.imputations(2, form)[0] for form in ("records", "frequencies"))
    assert list(records.columns) == ["smokes"]
    held = frequencies.set_index("smokes")["count"]
    for name, size in records.groupby("smokes").size().items():
        assert held[name] == size
    clash = counts.rename_axis("count")
    with pytest.raises(InvalidParameterError, match="different names"):
        dpi.table_posterior(clash, mechanism=dpi.Geometric(scale=1.0), rng=1).imputations(
            2, "frequencies"
        )


def test_no_variance_within_needs_no_correction():
    found = dpi.pool(
        [[1, 1], [2, 2], [1, 4]], [[0, 1]] * 3, uncertainty="noise+sampling", df_complete=10
    )
    assert np.asarray(found.df)[0] == 2.0
    assert found.summary()


def test_series_of_numbers():
    plain, series = (
        dpi.pool(one, uncertainty="noise") for one in ([1.0, 2, 3], pd.Series([1.0, 2, 3]))
    )
    assert plain.params == series.params
    with pytest.raises(InvalidParameterError, match="sequence with one entry"):
        dpi.pool(np.array(3.0), uncertainty="noise")


def test_values_that_speak_against_the_total_are_told_of():
    how = {"mechanism": dpi.DiscreteGaussian(sigma=1.0), "rng": 1, "draws": 500}
    found = dpi.table_posterior([50, 50, 50], total=3, **how)
    with pytest.warns(PriorConflictWarning, match="farther from the drawn tables"):
        assert "farther from the drawn tables" in found.summary()
    assert "conflict" not in dpi.table_posterior([2, 0, 1], total=3, **how).summary()


def test_few_draws_are_told_of():
    how = {"mechanism": dpi.DiscreteGaussian(sigma=1.0), "rng": 1}
    few = dpi.table_posterior([4, 5, 1], draws=100, **how)
    assert "few draws" in few.summary()
    assert "few draws" not in dpi.table_posterior([4, 5, 1], draws=400, **how).summary()
    one = dpi.table_posterior([4, 5, 1], sampler="chain", chains=1, draws=50, warmup=4, **how)
    assert repr(one) == "TablePosterior(3 cells, 1 chain of 50 draws)"


def test_a_chain_starts_at_the_last_count_of_a_prior():
    prior, law = dpi.priors.TablePrior([1.0, 1.0, 1.0]), dpi.DiscreteGaussian(sigma=1.0)
    how = {"mechanism": law, "prior": prior, "draws": 4, "rng": 1}
    found = dpi.table_posterior([3, 4], sampler="chain", warmup=20, chains=200, **how)
    assert found.draws.max() == 2
