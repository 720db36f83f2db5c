"""The law of a loss itself: masses, densities, both tails on the log scale and quantiles."""

import mpmath as mp
import numpy as np
import pytest
from scipy import signal, special, stats

from dpinfer.errors import ConvergenceError, InvalidParameterError
from dpinfer.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, RandomizedResponse
from dpinfer.privacy import PrivacyLoss, privacy_loss


def by_convolution(*parts):
    """Values of a sum of lattice losses of one step, and their masses, term by term."""
    values, masses = 0.0, np.ones(1)
    for law, count in parts:
        if isinstance(law, DiscreteGaussian):
            x = np.arange(-40.0, 41.0) * np.ceil(law.sigma)
            x = np.arange(x[0], x[-1] + 1.0)
            at, one = 0.5 / law.sigma**2 - x[::-1] / law.sigma**2, law.pmf(x)[::-1]
        else:
            rate = 1.0 / law.scale
            low = 1.0 / (1.0 + np.exp(rate))
            at, one = np.array([-rate, rate]), np.array([low, 1.0 - low])
        for _ in range(count):
            masses = np.convolve(masses, one)
        values += count * at[0]
        step = (at[-1] - at[0]) / (at.size - 1)
    return values + step * np.arange(masses.size), masses


CASES = {
    "discrete": [(DiscreteGaussian(sigma=3.0), 6)],
    "narrow": [(DiscreteGaussian(sigma=0.4), 3)],
    "response": [(Geometric(scale=2.5), 300)],
    "two": [(DiscreteGaussian(sigma=2.0), 2), (Geometric(scale=8.0), 9)],
}


def loss_of(parts):
    return sum(privacy_loss(law, compositions=count) for law, count in parts)


@pytest.mark.parametrize("parts", CASES.values(), ids=CASES)
def test_masses_by_convolution(parts):
    values, masses = by_convolution(*parts)
    loss = loss_of(parts)
    kept = np.flatnonzero(masses > 1e-250)
    kept = kept[np.linspace(0, kept.size - 1, 60).astype(int)]
    # exponents of some hundreds, and values of a law that are rounded as ε is
    exact, at = masses[kept], values[kept]
    assert loss.pmf(at) == pytest.approx(exact, rel=1e-11, abs=0)
    assert (loss.pmf(at + 1e-4) == 0).all()
    upper = np.array([masses[i + 1 :].sum() for i in kept[:-1]])
    half = at + 0.5 * (values[1] - values[0])
    assert loss.sf(half[:-1]) == pytest.approx(upper, rel=1e-11, abs=0)
    assert loss.logsf(half[:-1]) == pytest.approx(np.log(upper), rel=1e-12, abs=1e-11)
    # at x > 0 it is 1 less the other tail
    lower = np.array([masses[: i + 1].sum() for i in kept])
    assert loss.cdf(half) == pytest.approx(lower, rel=1e-10, abs=0)
    assert loss.logcdf(half) == pytest.approx(np.log(lower), rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("parts", CASES.values(), ids=CASES)
def test_quantiles_are_atoms(parts):
    values, masses = by_convolution(*parts)
    loss = loss_of(parts)
    upper = np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0)
    lower = np.cumsum(masses)
    for q in (1e-200, 1e-11, 1e-3, 0.2, 0.5, 0.77, 1 - 1e-9):
        if q > 1e-100 or upper[0] > 1e-200:
            top = values[np.argmax(upper <= q)]
            assert loss.isf(q) == pytest.approx(top, rel=1e-13, abs=1e-13)
        below = values[np.argmax(lower >= q * (1 - 1e-13))]
        assert loss.ppf(q) == pytest.approx(below, rel=1e-13, abs=1e-13)
    assert loss.pmf(loss.ppf(0.3)) > 0.0


def test_density_beside_few_values_and_beside_laplace():
    # a mixture of normal densities
    response = RandomizedResponse(p=0.7, categories=3)
    loss = privacy_loss(Gaussian(sigma=2.0), compositions=3) + privacy_loss(response)
    mu = np.sqrt(3) / 2
    q = 0.15
    values = np.array([1.0, 0.0, -1.0]) * response.epsilon
    x = np.linspace(-6.0, 6.0, 25)
    each = stats.norm.pdf(x[:, None], 0.5 * mu**2 + values, mu)
    assert loss.pdf(x) == pytest.approx(each @ [0.7, q, q], rel=1e-12)
    # with a Laplace loss: its two atoms and what is between, by Gauss-Legendre
    t, mu = 0.8, 0.5
    loss = privacy_loss(Laplace(scale=1 / t)) + privacy_loss(Gaussian(sigma=1 / mu))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    inner = stats.norm.pdf(x[:, None], 0.5 * mu**2 + t * nodes, mu) * np.exp((t * nodes - t) / 2)
    ends = stats.norm.pdf(x[:, None], 0.5 * mu**2 + np.array([t, -t]), mu)
    exact = inner @ weights * t / 4 + ends @ [0.5, 0.5 * np.exp(-t)]
    assert loss.pdf(x) == pytest.approx(exact, rel=1e-10)
    # and with discrete noise, by the convolution of that density with its masses
    noise = DiscreteGaussian(sigma=3.0)
    at = np.arange(-40, 41)
    shifts, masses = 0.5 / 9 - at / 9, noise.pmf(at)
    both = loss + privacy_loss(noise)
    assert both.pdf(x) == pytest.approx(
        [masses @ loss.pdf(point - shifts) for point in x], rel=1e-10
    )


def test_gaussian_tails_far_out():
    mu = 3.0
    loss = privacy_loss(Gaussian(sigma=1.0), 3.0)
    for x in (10.0, 100.0, 1e4, 1e6):
        with mp.workdps(60):
            upper = float(mp.log(mp.erfc((mp.mpf(x) - 4.5) / (3 * mp.sqrt(2))) / 2))
            lower = float(mp.log(mp.erfc((mp.mpf(x) + 4.5) / (3 * mp.sqrt(2))) / 2))
        assert loss.logsf(x) == pytest.approx(upper, rel=1e-13)
        assert loss.logcdf(-x) == pytest.approx(lower, rel=1e-13)
    q = np.array([1e-300, 1e-11, 0.3, 0.5, 0.999])
    assert loss.isf(q) == pytest.approx(4.5 + mu * stats.norm.isf(q), rel=1e-13)
    assert loss.ppf(q) == pytest.approx(4.5 + mu * stats.norm.ppf(q), rel=1e-12)
    assert loss.pdf([0.3, -7.0]) == pytest.approx(stats.norm.pdf([0.3, -7.0], 4.5, mu), rel=1e-13)


def test_tails_of_discrete_gaussian_losses_far_out():
    # sums of 20 discrete Gaussians by their masses on a lattice, in 30 digits, tilted
    sigma, count = 2.0, 20
    loss = privacy_loss(DiscreteGaussian(sigma=sigma), compositions=count)
    for deviations in (40.0, 90.0):
        total = int(deviations * sigma * np.sqrt(count))
        # the conditional law of one given the sum is next to normal: tilt each by total/count
        centre = total / count
        k = np.arange(-40.0, 41.0) + np.round(centre)
        one = np.exp(-0.5 * np.square((k - centre) / sigma))
        with mp.workdps(40):
            scale = mp.jtheta(3, 0, mp.exp(-mp.mpf(1) / (2 * mp.mpf(sigma) ** 2)))
        masses = np.ones(1)
        for _ in range(count):
            masses = np.convolve(masses, one)
        values = np.arange(masses.size) + count * k[0]
        # Π exp(-k²/2σ²) = exp(-Σ(k-c)²/2σ² - cΣk/σ² + count·c²/2σ²)
        log_mass = np.log(np.maximum(masses, 1e-300)) - centre * values / sigma**2
        log_mass += 0.5 * count * (centre / sigma) ** 2
        x = values >= total
        top = log_mass[x].max()
        exact = top + np.log(np.exp(log_mass[x] - top).sum()) - count * float(mp.log(scale))
        # L > ε where the sum of the noises is below some value, which is symmetric
        at = count / (2 * sigma**2) + (total - 0.5) / sigma**2
        assert loss.logsf(at) == pytest.approx(exact, rel=1e-12)
        at = count / (2 * sigma**2) - (total - 0.5) / sigma**2
        assert loss.logcdf(at) == pytest.approx(exact, rel=1e-12)


def test_tails_of_many_bounded_losses():
    # all losses at their largest: (1/2)^k for Laplace noise
    loss = privacy_loss(Laplace(scale=2.0), compositions=3000)
    # and just below, where one or two of them are in the density 1/4 beside an atom of 1/2
    gap = 1500.0 - 1500.0 * (1 - 1e-9)
    near = 1 + 1500 * gap + 3000 * 2999 / 4 * (gap / 2) ** 2
    exact = -3000 * np.log(2) + np.log(near)
    assert loss.logsf(1500.0 - gap) == pytest.approx(exact, rel=1e-9)
    assert loss.logsf(1500.0) == -np.inf
    assert loss.logcdf(-1500.0) == pytest.approx(-3000 * np.log(2) - 1500.0, rel=1e-12)
    assert loss.logcdf(1500.0) == 0.0
    # half of 4000 answers and 700 more are true
    rate, count = 0.3, 4000
    loss = privacy_loss(Geometric(scale=1 / rate), compositions=count)
    p = 1 / (1 + np.exp(-rate))
    for lies in (3, 40):
        exact = special.logsumexp(stats.binom.logpmf(np.arange(lies), count, 1 - p))
        assert loss.logsf(rate * (count - 2 * lies)) == pytest.approx(exact, rel=1e-12)


def test_laplace_quantiles_in_closed_form():
    t = 1.5
    loss = privacy_loss(Laplace(scale=2.0), 3.0)
    # P(L > x) = 1 - e^((x-t)/2)/2 between the atoms
    q = np.array([0.501, 0.6, 0.8, 1 - np.exp(-t) / 2 - 1e-3])
    assert loss.isf(q) == pytest.approx(t + 2 * np.log(2 * (1 - q)), rel=1e-11, abs=1e-12)
    assert loss.isf([0.0, 1e-9, 0.499, 0.95]) == pytest.approx([t, t, t, -t], rel=2e-13)
    assert loss.ppf([1.0, 0.51, 0.1]) == pytest.approx([t, t, -t], rel=2e-13)
    assert loss.isf(1.0) == loss.ppf(0.0) == -np.inf


def test_quantiles_invert_tails():
    loss = privacy_loss(Laplace(scale=5.0), compositions=40) + privacy_loss(Gaussian(sigma=2.0))
    loss = loss + privacy_loss(DiscreteGaussian(sigma=4.0), compositions=3)
    q = np.geomspace(1e-290, 0.6, 30)
    assert loss.sf(loss.isf(q)) == pytest.approx(q, rel=1e-10, abs=0)
    assert loss.cdf(loss.ppf(q)) == pytest.approx(q, rel=1e-10, abs=0)
    assert loss.isf(q.reshape(5, 6)).shape == (5, 6)
    # the density is the slope of the tails
    x, h = np.linspace(-8.0, 12.0, 11), 1e-4
    slope = (loss.cdf(x + h) - loss.cdf(x - h)) / (2 * h)
    assert loss.pdf(x) == pytest.approx(slope, rel=1e-6, abs=1e-11)


def test_census_tail_by_a_tilted_transform():
    shares = {20: 10, 274: 10, 85: 10, 262: 20, 238: 10, 118: 10, 3: 10}
    rho, width = 3.65, 2 * 3.65 / 1000 / 10
    loss, theta = PrivacyLoss(()), 2.5
    sums, log_m, first = np.ones(1), 0.0, 0.0
    for share, uses in shares.items():
        sigma = np.sqrt(uses / (2 * rho * share / 1000))
        loss += privacy_loss(DiscreteGaussian(sigma=sigma), compositions=uses)
        step = share * 10 // uses
        # tilted by θ the noise is about normal around θ steps: its masses, uses times
        x = np.arange(-int(14 * sigma), int(14 * sigma) + 1) + round(theta)
        one = np.exp(-0.5 * np.square((x - theta) / sigma))
        frequency = np.fft.rfft(np.pad(one / one.sum(), (0, (uses - 1) * (x.size - 1))))
        tilted = np.fft.irfft(frequency**uses, uses * (x.size - 1) + 1)
        flat = np.exp(
            -0.5 * np.square(np.arange(-int(40 * sigma) - 1, int(40 * sigma) + 2) / sigma)
        )
        log_m += uses * (np.log(one.sum() / flat.sum()) + 0.5 * (theta / sigma) ** 2)
        spread = np.zeros((tilted.size - 1) * step + 1)
        spread[::step] = tilted
        sums = signal.fftconvolve(sums, spread)
        first += uses * x[0] * step
    # noise of total j steps has loss mean + width·j, and a tilt of e^(θ·width·j)
    total = np.arange(sums.size) + first
    above = total[:, None] * width + loss.mean > np.array([21.7686, 24.0])
    exact = [np.sum(sums[k] * np.exp(log_m - theta * width * total[k])) for k in above.T]
    assert loss.sf([21.7686, 24.0]) == pytest.approx(exact, rel=1e-9, abs=0)
    assert loss.isf(exact[0]) == pytest.approx(21.7686, abs=2 * width)


@pytest.mark.parametrize(
    ("loss", "name", "use"),
    [
        (privacy_loss(Laplace(scale=1.0)), "pmf", "use cdf and sf"),
        (privacy_loss(Laplace(scale=1.0)), "pdf", "use cdf and sf"),
        (privacy_loss(Gaussian(sigma=1.0)), "pmf", "use pdf"),
        (privacy_loss(Geometric(scale=1.0)), "pdf", "use pmf"),
        (
            privacy_loss(DiscreteGaussian(sigma=300.0), compositions=90_000)
            + privacy_loss(DiscreteGaussian(sigma=417.77), compositions=10_000),
            "pmf",
            "use cdf and sf",
        ),
        (
            privacy_loss(Laplace(scale=1.0)) + privacy_loss(Gaussian(sigma=1e6)),
            "pdf",
            "use cdf and sf",
        ),
    ],
)
def test_what_has_no_masses_or_no_density_says_so(loss, name, use):
    with pytest.raises(InvalidParameterError, match=use):
        getattr(loss, name)(0.5)


def test_nothing_lost():
    loss = PrivacyLoss(())
    assert loss.pmf([0.0, 1.0]).tolist() == [1.0, 0.0]
    assert loss.logsf([-1.0, 0.0]).tolist() == [0.0, -np.inf]
    assert loss.logcdf([-1.0, 0.0]).tolist() == [-np.inf, 0.0]
    assert loss.isf([0.3, 1.0]).tolist() == [0.0, -np.inf]
    assert loss.ppf([0.0, 0.7]).tolist() == [-np.inf, 0.0]
    assert isinstance(privacy_loss(Gaussian(sigma=1.0)).isf(0.1), float)


def test_lower_tails_of_which_rounding_leaves_nothing_are_refused():
    # P(L <= 30) is of the order of 1e-80, and found as 1 - sf
    loss = privacy_loss(Laplace(scale=0.16), compositions=43)
    for call in (lambda: loss.logcdf(30.0), lambda: loss.ppf(1e-60), lambda: loss.isf(1 - 1e-12)):
        with pytest.raises(ConvergenceError, match="between 0 and the mean"):
            call()
    # P(L <= -x) is at most e^-x
    assert -100.0 < loss.logcdf(-30.0) < -30.0
    assert 0.0 < loss.ppf(1e-9) < loss.mean
