"""Corners of certificates: few replicates, rare publication, answers that change their shape."""

import numpy as np
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.calibration import (
    Certificate,
    Certificates,
    LibraryCertificates,
    certify,
    certify_interval,
    certify_model,
    certify_test,
    write_certificates,
)
from dpinfer.errors import InvalidParameterError
from dpinfer.hypothesis_tests import Binomial, Poisson

LAPLACE = dpi.Laplace(scale=4.0)


def test_tests_one_by_one_are_the_same():
    def single(y):
        return dpi.poisson_ztest(y, 1, 20.0, mechanism=LAPLACE, method="asymptotic")

    common = {"reps": 300, "rng": 4}
    one = certify_test(single, Poisson(rate=20.0), LAPLACE, one_by_one=True, **common)
    assert one.error_rate == certify_test(single, Poisson(rate=20.0), LAPLACE, **common).error_rate


def test_a_law_in_a_sequence_is_the_law():
    def around(y):
        return y - 9.0, y + 9.0

    one = certify_interval(around, 5.0, LAPLACE, reps=300, rng=2)
    assert one.error_rate == certify_interval(around, 5.0, [LAPLACE], reps=300, rng=2).error_rate


def test_the_share_that_a_model_publishes():
    model = Binomial(nobs=50, value=0.3)
    found = certify_interval(
        lambda y: (y - 100.0, y + 100.0), model, LAPLACE, target=15.0, threshold=20.0, rng=1
    )
    assert found.verdict == "holds"
    planned = certify_interval(
        lambda y: (y - 100.0, y + 100.0), model, LAPLACE, target=15.0, rng=1
    ).reps[0]
    # 4096 draws, the same in each run, stand behind the share by which more are simulated
    assert found.reps[0] == pytest.approx(planned, rel=0.1)


def test_blocks_of_releases_in_which_nothing_is_published():
    rare = dpi.Release([41.0], mechanism=LAPLACE, threshold=33.0)
    (found,) = certify(rare, truth=[0.0], reps=40_000, rng=3)
    # binomial with a mean of 5: outside with probability below 1e-9
    low, high = stats.binom.ppf([1e-10, 1 - 1e-10], 40_000, LAPLACE.sf(33.0))
    assert max(low, 1) <= found.reps[0] <= high
    assert "coverage is given publication" in found.notes


def test_critical_values_that_no_replicate_can_reach():
    overlap = dpi.Release([4.0, 5, 10], workload=[[1, 0], [0, 1], [1, 1]], mechanism=LAPLACE)
    (found,) = certify(overlap, procedures=["consistency"], alpha=1e-6, reps=50, rng=1)
    assert found.error_rate[0] == 0.0
    assert found.verdict == "undecided"


def test_procedures_that_change_the_number_of_their_answers():
    def erratic(y):
        k = 1 + (len(y) < 4096)
        return np.tile(y[:, np.newaxis] - 9, k), np.tile(y[:, np.newaxis] + 9, k)

    with pytest.raises(InvalidParameterError, match="as many intervals or p-values for each"):
        certify_interval(erratic, 5.0, LAPLACE, target=5.0, reps=5000, rng=1)


def test_the_verdict_of_several():
    def one(errors, reps=1000):
        return Certificate(
            procedure="a test",
            kind="size",
            alpha=0.05,
            labels=("",),
            error_rate=np.array([errors / reps]),
            reps=np.array([reps]),
        )

    holds, open_, fails = one(20), one(52), one(400)
    assert [Certificates([one]).verdict for one in (holds, open_, fails)] == [
        "holds",
        "undecided",
        "fails",
    ]
    assert Certificates([holds, open_]).verdict == "undecided"
    assert Certificates([holds, open_, fails]).verdict == "fails"
    parts = [Certificates([part]) for part in (holds, open_, fails)]
    library = LibraryCertificates(*parts)
    assert library.verdict == "holds"
    assert repr(library) == (
        "LibraryCertificates(Certificates(1: 1 hold, 0 fail, 0 undecided), 1 controls)"
    )
    text = str(library)
    assert text.index("procedures") < text.index("approximations") < text.index("controls")


def test_exact_rates_say_so():
    first, second = certify_model(Binomial(nobs=100, value=0.255), dpi.Laplace.from_epsilon(0.5))
    assert "the rate is exact" in first.summary()
    assert "none, exact" in second.summary()


def test_folders_that_cannot_be_written(tmp_path, monkeypatch):
    (found,) = certify_model(Poisson(rate=20.0), LAPLACE, {"never": lambda y: 0 * y + 1}, reps=50)[
        :1
    ]

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InvalidParameterError, match="no space left on device"):
        write_certificates(found, tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []
