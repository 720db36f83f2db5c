"""Values that share noises, y = A x + W z: what is combined, and its exact law."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

import dpinfer as dpi
from dpinfer import Gaussian, Geometric, Laplace, Release, Workload, combine, noisy
from dpinfer.errors import IncompatibleReleaseError, InvalidParameterError, NotEstimableError

PREFIXES = Workload.prefixes(8)
PREFIX_OF_5 = 4
TREE = Workload.tree(8, root=False)


def tree_prefixes(y, law):
    """Prefix sums of a matrix mechanism: P S⁺ y, which have noise P S⁺ z."""
    weights = PREFIXES.matrix.toarray() @ np.linalg.pinv(TREE.matrix.toarray())
    return Release(weights @ y, workload=PREFIXES, weights=weights, mechanism=law)


def dense_gls(release, target):
    """Weights of the best estimates from the equations of Lagrange, in least-norm form."""
    a = np.asarray(sp.csr_array(release.workload.matrix).toarray())
    w = release.weights.toarray()
    v = w * np.broadcast_to(release.mechanism.variance, w.shape[1]) @ w.T
    m, n = a.shape
    scale = max(v.max(), 1.0)
    equations = np.block([[v / scale, a], [a.T, np.zeros((n, n))]])
    right = np.vstack([np.zeros((m, len(target))), target.T])
    return np.linalg.lstsq(equations, right, rcond=1e-12)[0][:m].T, v


def test_random_releases_against_dense_algebra():
    rng = np.random.default_rng(3)
    for _ in range(40):
        m, n, q = rng.integers(1, 9), rng.integers(1, 7), rng.integers(1, 10)
        a = rng.integers(-1, 3, (m, n)).astype(float)
        w = rng.normal(size=(m, q)) * (rng.random((m, q)) < 0.7)
        law = Laplace(scale=rng.uniform(0.5, 2.0, q))
        y = a @ rng.normal(size=n) * 10 + w @ law.rvs(q, rng=rng)
        target = rng.normal(size=(3, m)) @ a
        if not (w.any() and np.abs(target).max() > 1e-6):
            continue
        release = Release(y, workload=a, weights=w, mechanism=law)
        fit = combine(release, target=target)
        best, v = dense_gls(release, target)
        size = (1 + np.square(target).max()) * v.max()
        np.testing.assert_allclose(fit.params, best @ y, atol=1e-9 * (1 + np.abs(y).max()))
        np.testing.assert_allclose(fit.cov_params(), best @ v @ best.T, atol=1e-9 * size)
        np.testing.assert_allclose(np.square(fit.bse), np.diag(best @ v @ best.T), atol=1e-9 * size)
        np.testing.assert_allclose(fit.weights @ a, target, atol=1e-9 * np.abs(target).max())
        np.testing.assert_allclose(
            noisy(fit).weights.toarray(), fit.weights @ w, atol=1e-9 * np.abs(fit.weights).max()
        )


def test_the_answers_of_a_matrix_mechanism_say_what_its_measurements_say():
    law = Laplace(scale=3.0)
    y = TREE @ np.arange(8.0) + law.rvs(14, rng=2)
    measured = Release(y, workload=TREE, mechanism=law)
    answered = tree_prefixes(y, law)
    for target in (PREFIXES, Workload.ranges(8)):
        direct, derived = combine(measured, target=target), combine(answered, target=target)
        np.testing.assert_allclose(derived.params, direct.params, rtol=1e-10)
        np.testing.assert_allclose(derived.cov_params(), direct.cov_params(), atol=1e-10)
    assert derived.overlap == 0
    assert derived.rank == 8


def test_exact_laws_of_prefixes():
    release = tree_prefixes(TREE @ np.ones(8), Laplace(scale=3.0))
    # check value by Fourier inversion; the normal quantile is 2 % short
    for law in (
        release.noise(PREFIX_OF_5),
        combine(release).noise((0, 4)),
        combine(release, target=[1, 1, 1, 1, 1, 0, 0, 0]).noise(0),
        noisy(release).law_of(np.eye(8)[PREFIX_OF_5]),
    ):
        assert law.std == pytest.approx(4.6291005, abs=5e-8)
        assert law.isf(0.025) == pytest.approx(9.25002494, abs=5e-9)
    own = dpi.count_confint(release)
    np.testing.assert_allclose(own.upper.to_numpy()[PREFIX_OF_5], 5 + 9.25002494, atol=1e-8)
    np.testing.assert_allclose(combine(release).conf_int().upper[:8], own.upper, atol=1e-8)
    assert stats.norm.isf(0.025) * 4.6291005 == pytest.approx(9.0729, abs=5e-5)


def test_intervals_and_tests_of_linear_functions():
    # a range is a difference of prefixes: most of the noise cancels
    release = tree_prefixes(TREE @ np.full(8, 10.0), Laplace(scale=3.0))
    c = np.zeros(8)
    c[[3, 5]] = -1.0, 1.0
    node = Workload.ranges(8).labels.get_loc((4, 5))
    want = combine(TREE @ np.full(8, 10.0), workload=TREE, mechanism=Laplace(scale=3.0),
                   target=Workload.ranges(8).matrix[[node]])  # fmt: skip
    found = dpi.linear_confint(release, c)
    np.testing.assert_allclose(found.lower, want.conf_int().lower, rtol=1e-9)
    test = dpi.linear_ztest(release, c, value=want.conf_int().upper[0])
    assert test.pvalue == pytest.approx(0.05, abs=1e-9)
    joint = np.array([0.0, 0, 0, 0, 1, 0, 0, 0])
    ratio = dpi.linear_ratio_confint(release, c, joint)
    assert ratio.contains(20 / 50)


def test_covariance_of_gaussian_noise():
    rng = np.random.default_rng(4)
    root = rng.normal(size=(6, 6))
    c = root @ root.T
    a = np.vstack([np.eye(3), [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]])
    y = rng.normal(size=6)
    fit = combine(Release(y, workload=a, covariance=c), target=np.eye(3))
    precision = a.T @ np.linalg.solve(c, a)
    want = np.linalg.solve(precision, a.T @ np.linalg.solve(c, y))
    np.testing.assert_allclose(fit.params, want, rtol=1e-10)
    np.testing.assert_allclose(fit.cov_params(), np.linalg.inv(precision), rtol=1e-9)
    np.testing.assert_allclose(noisy(y, covariance=c).cov(), c, rtol=1e-12)
    half = stats.norm.isf(0.025) * fit.bse
    np.testing.assert_allclose(fit.conf_int().upper - fit.params, half, rtol=1e-10)
    # the statistic of consistency is that of generalised least squares
    off = y - a @ want
    statistic = off @ np.linalg.solve(c, off)
    test = fit.consistency_test()
    assert test.method == "exact"
    assert test.nobs == 6
    assert test.statistic == pytest.approx(statistic, rel=1e-10)
    assert test.pvalue == pytest.approx(stats.chi2.sf(statistic, 3), rel=1e-9)


def test_independent_noise_given_as_shared_is_the_same():
    a = np.vstack([np.eye(4), np.ones((1, 4)), [[1, 1, 0, 0]]])
    y = np.array([3, 5, 1, 7, 19, 6])
    law = Geometric(scale=[1.0, 2.0, 3.0, 1.0, 2.0, 1.0])
    plain = combine(Release(y, workload=a, mechanism=law))
    shared = combine(Release(y, workload=a, weights=np.eye(6), mechanism=law))
    np.testing.assert_allclose(shared.params, plain.params, rtol=1e-13)
    np.testing.assert_allclose(shared.cov_params(), plain.cov_params(), atol=1e-13)
    np.testing.assert_allclose(shared.conf_int().lower, plain.conf_int().lower, rtol=1e-10)
    np.testing.assert_allclose(shared.fitted, plain.fitted, rtol=1e-12)
    np.testing.assert_allclose(shared.residuals, plain.residuals, atol=1e-12)
    assert (shared.rank, shared.overlap) == (plain.rank, plain.overlap) == (4, 2)
    one, other = (fit.consistency_test(rng=1, reps=999) for fit in (plain, shared))
    assert one.statistic == pytest.approx(other.statistic, rel=1e-12)
    assert other.method == "monte-carlo"
    assert "Noises that they share" in shared.summary()


def test_coverage_and_size_under_shared_noise():
    # 4,000 draws: 4.9 standard errors of rates .95 and .05 are .017; two-sided chance 1e-6 each
    law = Laplace(scale=2.0)
    w = np.tril(np.ones((5, 5)))
    a = np.vstack([np.eye(4), np.ones(4)])
    x = np.array([40.0, 10.0, 25.0, 5.0])
    fit = combine(Release(a @ x, workload=a, weights=w, mechanism=law), target=np.eye(4)[:2])
    errors = law.rvs((4000, 5), rng=5) @ w.T
    half = fit.conf_int().upper - fit.params
    covered = (np.abs(errors @ fit.weights.T) <= half).mean(axis=0)
    np.testing.assert_allclose(covered, 0.95, atol=0.017)
    together = fit.conf_int(simultaneous=True, rng=1).upper - fit.params
    assert (np.abs(errors @ fit.weights.T) <= together).all(axis=1).mean() > 0.933
    drawn = fit.simulate_errors(4000, rng=6)
    np.testing.assert_allclose(np.cov(drawn.T), fit.cov_params(), atol=0.75)
    null = fit.consistency_test(rng=1, reps=4000).null_distribution
    off = np.linalg.lstsq(np.linalg.solve(w, a), np.linalg.solve(w, errors.T), rcond=None)[1]
    critical = float(null.critical_value(0.05, "larger"))
    assert (off / 8.0 >= critical).mean() == pytest.approx(0.05, abs=0.025)  # two simulations


def test_values_whose_noise_cancels_are_constraints():
    w = np.array([[1.0], [1.0], [2.0]])  # one noise in all three
    a = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    law = Gaussian(sigma=3.0)
    fit = combine(Release([5.5, 2.5, 8.0], workload=a, weights=w, mechanism=law))
    np.testing.assert_allclose(fit.params, [5.5, 2.5, 8.0])
    np.testing.assert_allclose(fit.bse, [3, 3, 6])
    difference = combine(Release([5.5, 2.5, 8.0], workload=a, weights=w, mechanism=law),
                         target=[1, -1])  # fmt: skip
    assert difference.params == pytest.approx(3.0)
    assert difference.bse == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(IncompatibleReleaseError, match="that share their noise must not contra"):
        combine(Release([5.5, 2.5, 9.0], workload=a, weights=w, mechanism=law))


def test_cells_of_their_own_need_no_equations():
    w = np.tril(np.ones((3, 3)))
    release = Release([1.5, 2.5, 4.25], weights=w, mechanism=Laplace(scale=1.0), labels=list("abc"))
    fit = combine(release)
    np.testing.assert_array_equal(fit.params, release.values)
    np.testing.assert_allclose(fit.cov_params(), 2 * w @ w.T)
    total = combine(release, target={"all": [1, 1, 1], "step": [0, -1, 1]})
    np.testing.assert_allclose(total.bse, [np.sqrt(2 * (9 + 4 + 1)), np.sqrt(2)])
    assert total.noise("step").isf(0.01) == pytest.approx(Laplace(scale=1.0).isf(0.01))
    with pytest.raises(NotEstimableError, match="no overlapping values"):
        fit.consistency_test()
    # over the same noises as the release
    gap = noisy(release).beside(noisy(total)).law_of([1, 1, 1, -1, 0])
    assert gap.std == 0


def test_targets_that_are_not_measured_are_named():
    release = Release([4.5, 9.5], workload=[[1, 1, 0], [0, 0, 1]], weights=[[1, 0, 1], [0, 1, 1]],
                      mechanism=Laplace(scale=1.0))  # fmt: skip
    fit = combine(release)
    np.testing.assert_allclose(fit.params, [4.5, 9.5])
    with pytest.raises(NotEstimableError, match="target 0"):
        combine(release, target=[1, 0, 0])


def test_estimates_of_one_release_know_what_they_share():
    release = tree_prefixes(TREE @ np.ones(8), Laplace(scale=3.0))
    one, two = (
        combine(release, target=[1, 1, 1, 1, 0, 0, 0, 0]),
        combine(release, target=np.ones(8)),
    )
    joint = noisy(one).beside(noisy(two))
    rest = combine(release, target=[0, 0, 0, 0, 1, 1, 1, 1])
    assert joint.law_of([-1, 1]).std == pytest.approx(float(rest.bse[0]), rel=1e-10)
    again = pickle.loads(pickle.dumps(rest))
    np.testing.assert_array_equal(again.params, rest.params)
    np.testing.assert_allclose(again.conf_int().lower, rest.conf_int().lower)


def test_weights_that_are_inverted_give_what_equations_with_the_noises_do():
    rng = np.random.default_rng(8)
    for law in (Laplace(scale=2.0), Geometric(scale=2.0), Gaussian(sigma=[1.0, 2, 3, 4, 5, 6])):
        a = np.vstack([np.eye(4), [[1, 1, 0, 0], [1, 1, 1, 1]]])
        w = np.tril(np.ones((6, 6)))
        y = a @ rng.integers(0, 50, 4) + w @ np.rint(law.rvs(6, rng=rng)) + 0.5 * (law.shape != ())
        wider = np.hstack([w, np.zeros((6, 1))])
        further = law if not law.shape else Gaussian(sigma=[1.0, 2, 3, 4, 5, 6, 7])
        one = combine(Release(y, workload=a, weights=w, mechanism=law))
        two = combine(Release(y, workload=a, weights=wider, mechanism=further))
        for name in ("params", "bse", "fitted", "residuals", "weights"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), atol=1e-11)
        np.testing.assert_allclose(one.cov_params(), two.cov_params(), atol=1e-10)
        np.testing.assert_allclose(one.conf_int().lower, two.conf_int().lower, atol=1e-8)
        assert (one.rank, one.overlap) == (two.rank, two.overlap)
        tests = [fit.consistency_test(rng=1, reps=200) for fit in (one, two)]
        assert tests[0].statistic == pytest.approx(tests[1].statistic, rel=1e-10)


@pytest.mark.slow
def test_more_unknowns_than_dense_factors_take():
    n = 1100  # 3,299 unknowns, sparse: there are more noises than values
    tree = Workload.tree(n, root=False)
    w = tree.matrix[np.argsort(tree.matrix.sum(axis=1), kind="stable")[-2 * n // 2 :]]
    a = sp.csr_array(w)
    y = a @ np.ones(n)
    law = Laplace(scale=1.0)
    chain = sp.eye_array(len(y), 2 * n, k=0) + sp.eye_array(len(y), 2 * n, k=1)
    fit = combine(Release(y, workload=a, weights=chain, mechanism=law), target=a[:2])
    np.testing.assert_allclose(fit.params, y[:2], atol=1e-8)
    assert (fit.bse <= np.sqrt([2, 4]) + 1e-9).all()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_array])
def test_weights_of_any_kind_are_copied_and_held(kind):
    w = kind(np.array([[1.0, 0.0], [1.0, 1.0]]))
    release = Release([1.5, 2.5], weights=w, mechanism=Laplace(scale=1.0))
    assert release.weights.toarray().tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        release.weights.data[0] = 2.0
    assert "sums of 2 noises" in repr(release)
    assert release.mechanism == Laplace(scale=1.0)
    np.testing.assert_allclose(release.variance, [2, 4])
    np.testing.assert_allclose(release.to_frame()["noise_std"], np.sqrt([2, 4]))
    assert release.select([1]).noise(0).variance == pytest.approx(4.0)


def test_covariances_that_are_singular_or_sparse():
    block = np.array([[2.0, 1.0], [1.0, 2.0]])
    c = sp.block_diag([block, [[0.0]], np.ones((2, 2))])
    x = noisy([1.5, 2.5, 3.5, 4.5, 4.5], covariance=c)
    np.testing.assert_allclose(x.cov(), c.toarray(), atol=1e-15)
    assert x.weights.shape == (5, 3)
    assert x.variance[2] == 0
    labels = pd.Index(list("ab"))
    frame = pd.DataFrame(block, labels, labels)
    release = Release(pd.Series([1.5, 2.5], labels), covariance=frame)
    assert release.weights.shape == (2, 2)
    polars = pytest.importorskip("polars").DataFrame(block)
    assert Release(pd.Series([1.5, 2.5], labels), covariance=polars).weights.shape == (2, 2)
    with pytest.raises(InvalidParameterError, match="reindex it first"):
        Release(pd.Series([1.5, 2.5], labels), covariance=frame.loc[["b", "a"], ["b", "a"]])


@pytest.mark.parametrize("make", [Release, noisy])
def test_weights_with_labels_are_those_of_the_values(make):
    values, law = pd.Series([1.5, 2.5], list("ab")), Laplace(scale=1.0)
    frame = pd.DataFrame([[1.0, 0.0], [1.0, 1.0]], list("ab"))
    assert make(values, weights=frame, mechanism=law).weights.toarray().tolist() == [[1, 0], [1, 1]]
    with pytest.raises(InvalidParameterError, match="weights must have the labels"):
        make(values, weights=frame.loc[["b", "a"]], mechanism=law)
    assert make(values.to_numpy(), weights=frame, mechanism=law).weights.shape == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": np.eye(3)}, r"shape \(2, 2\)"),
        ({"covariance": [[1, 2], [2, 1]]}, "no negative eigenvalues"),
        ({"covariance": [[1, 0.5], [0, 1]]}, "symmetric"),
        ({"covariance": np.zeros((2, 2))}, "Exact"),
        ({"covariance": np.eye(2), "mechanism": Laplace(scale=1.0)}, "mechanism must be left out"),
        ({"covariance": np.eye(2), "weights": np.eye(2)}, "weights must be left out"),
        ({"weights": np.eye(2)}, "mechanism must be"),
        ({"weights": np.eye(3), "mechanism": Laplace(scale=1.0)}, "2 rows"),
        ({"weights": np.eye(2), "mechanism": Laplace(scale=[1.0, 2.0, 3.0])}, "each of the 2"),
        ({"weights": np.eye(2), "mechanism": Laplace(scale=1.0), "threshold": 0}, "selected"),
        ({"weights": [[np.nan, 1], [1, 1]], "mechanism": Laplace(scale=1.0)}, "NaN"),
    ],
)
@pytest.mark.parametrize("make", [Release, noisy])
def test_what_does_not_fit_is_refused(make, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        make([1.5, 2.5], **options)


def test_laws_of_estimates_keep_their_noises():
    first = combine(
        [3.5, 5.25, 8.0], workload=[[1, 0], [0, 1], [1, 1]], mechanism=Laplace(scale=1.0)
    )
    laws = [first.noise(0), first.noise(1)]
    release = Release([3.5, 9.0], weights=[[1, 0], [1, 1]], mechanism=laws)
    want = np.array([[1, 0], [1, 1]]) @ first.cov_params()[:2, :2] @ [[1, 1], [0, 1]]
    np.testing.assert_allclose(noisy(release).cov(), want, atol=1e-12)
    np.testing.assert_allclose(combine(release, target=np.eye(2)).cov_params(), want, atol=1e-12)


def test_cells_of_running_totals_have_the_noise_of_one():
    totals = Workload.prefixes(5)
    release = Release.draw(
        [3, 1, 4, 1, 5],
        workload=totals,
        weights=totals.matrix,
        mechanism=Geometric(scale=2.0),
        rng=3,
    )
    fit = combine(release, target=np.eye(5))
    np.testing.assert_array_equal(fit.params, np.diff(release.values, prepend=0.0))
    for cell in range(5):
        assert fit.noise(cell).isf(0.025) == Geometric(scale=2.0).isf(0.025)
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.weights, np.eye(5) - np.eye(5, k=-1))
    np.testing.assert_array_equal(again.bse, fit.bse)


def test_drawn_releases_share_their_noises():
    w = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    release = Release.draw(np.zeros(3), weights=w, mechanism=Laplace(scale=1.0), rng=1)
    assert release.values[0] - release.values[1] + release.values[2] == pytest.approx(0, abs=1e-12)
    with pytest.raises(InvalidParameterError, match="opendp"):
        Release.draw(np.zeros(3), weights=w, mechanism=Laplace(scale=1.0), sampler="opendp")


SHARED = Release([20.5, 31.2, 40.3, 25.1], weights=np.tril(np.ones((4, 4))),
                 mechanism=Laplace(scale=2.0))  # fmt: skip
TABLE = noisy([[20.5, 31.2], [40.3, 25.1]], weights=SHARED.weights, mechanism=Laplace(scale=2.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: dpi.combine_hierarchy(SHARED, [-1, 0, 0, 0]),
        lambda: dpi.mcnemar(TABLE),
        lambda: dpi.risk_difference_confint(TABLE),
        lambda: dpi.proportions_trend(SHARED, [100] * 4),
        lambda: dpi.counts_2indep(SHARED, SHARED),
        lambda: dpi.counts_paired(SHARED, [20.5, 30, 40, 20], mechanism=Laplace(scale=2.0)),
        lambda: dpi.chisquare(SHARED, nobs=120, method="exact"),
        lambda: dpi.count_posterior(SHARED, prior=dpi.priors.PoissonPrior(20.0)),
        lambda: dpi.noisy_ols(SHARED, np.ones((4, 1)), method="fuller"),
        lambda: dpi.calibration.certify(SHARED),
    ],
)
def test_what_needs_independent_errors_refuses_them(call):
    with pytest.raises((InvalidParameterError, IncompatibleReleaseError),
                       match=r"share noises|dependent|independent|known density"):  # fmt: skip
        call()


def test_simulated_nulls_use_the_joint_law():
    # three cells with one noise in common and their known total: it leaves the others' contrast
    w = np.array([[1.0], [1.0], [1.0]])
    told = noisy([40.5, 30.5, 31.5], weights=w, mechanism=Gaussian(sigma=50.0))
    plain = noisy([40.5, 30.5, 31.5], mechanism=Gaussian(sigma=50.0))
    shared = dpi.chisquare(told, nobs=90, statistic="projected", method="asymptotic")
    alone = dpi.chisquare(plain, nobs=90, statistic="projected", method="asymptotic")
    exact = dpi.chisquare([36, 26, 28], nobs=90, mechanism=dpi.Exact(), method="asymptotic")
    assert alone.pvalue > 0.9
    assert shared.pvalue < 0.5
    assert shared.pvalue == pytest.approx(exact.pvalue, abs=0.1)
