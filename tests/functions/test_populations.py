"""Which functions are about populations, and how often those that are cover."""

import inspect

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer import functions
from dpinfer.errors import InvalidParameterError

PI = np.array([0.2, 0.25, 0.04, 0.3, 0.15, 0.06])
NOISE = dpi.Geometric(scale=1.0)
X = np.array([30, 5, 65, 40])
PAIR = {"group": X, "rest": X[::-1]}
GROUPS = {"group": X, "other": X[::-1], "totals": (140, 140), "rng": 1}

REFUSED = {
    "dissimilarity_confint": GROUPS,
    "gini_confint": GROUPS,
    "location_quotient_confint": PAIR | {"totals": (140, 140)},
    "information_index": {"groups": (X, X[::-1]), "totals": (140, 140)},
    "isolation": PAIR | {"total": 140},
    "exposure": PAIR | {"total": 140},
    "herfindahl": {"values": X, "total": 140},
    "herfindahl_confint": {"values": X},
    "entropy": {"values": X, "total": 140},
    "function_confint": {"values": X, "function": np.sqrt, "method": "bound", "monotone": 1},
    "top_share_confint": {"values": X, "k": 1},
    "lorenz_bands": {"values": X},
    "ecological_bounds": PAIR | {"outcome": X},
}
HAVE_IT = {
    *("standardized_rate_confint", "standardized_rate_ratio_confint", "smr_confint"),
    *("survival_confint", "life_table_confint", "moments", "covariance_confint"),
    *("correlation_confint", "ordinal_correlation_confint", "histogram_quantile_confint"),
    "cdf_bands",
    *("grouped_gini_confint", "grouped_lorenz_bands"),
}


def test_every_function_says_which_it_is():
    named = {
        name
        for name in functions.__all__
        if inspect.isfunction(call := getattr(functions, name))
        and "uncertainty" in inspect.signature(call).parameters
    }
    assert named == HAVE_IT | set(REFUSED)
    rest = {name for name in functions.__all__ if inspect.isfunction(getattr(functions, name))}
    assert rest - named == {"goodman", "unbiased"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_defined_is_refused_with_the_reason(name):
    call, options = getattr(functions, name), REFUSED[name] | {"mechanism": NOISE}
    call(**options)
    with pytest.raises(InvalidParameterError, match=f"'noise' for {name}, which is about"):
        call(**options, uncertainty="noise+sampling")


@pytest.mark.thinned("known", "size", every=2)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("size", "law"),
    [(200, dpi.Geometric(scale=3.0)), (60, dpi.Laplace(scale=0.5)), (90, dpi.Exact())],
)
def test_distributions_of_populations_are_covered(size, law, known):
    """Of 150 at level 0.8 at least 92: fewer by chance in 1 of 10⁷. Those of noise only do not.

    Draws are shared by all areas, which moves the level by 0.004.
    """
    rng = np.random.default_rng(size)
    y = rng.multinomial(size, PI, 150) + law.rvs((150, 6), rng=rng)
    common = {"total": size if known and law.std else None, "mechanism": law, "alpha": 0.2}
    both = {"uncertainty": "noise+sampling"}
    for p, place in ((0.5, 3), (0.25, 1), (0.46, 2), (0.2, 0)):
        found = functions.histogram_quantile_confint(y, p, **common, **both)
        assert ((found.lower <= place) & (place <= found.upper)).sum() >= 92
        assert found.guarantee == "proved, conservative"
    short = functions.histogram_quantile_confint(y, 0.46, **common)
    if size < 100:
        assert ((short.lower <= 2) & (short.upper >= 2)).mean() < 0.6
    band = functions.cdf_bands(y, **common, **both, rng=1)
    inside = (band.lower <= PI.cumsum() + 1e-12) & (PI.cumsum() - 1e-12 <= band.upper)
    assert inside.all(axis=1).sum() >= 92
    edges = [0, 1, 3, 4, 6, 9, 12]
    truth = functions.grouped_gini_confint(1e6 * PI, edges, mechanism=dpi.Exact())
    found = functions.grouped_gini_confint(y, edges, **common, **both, rng=1)
    assert ((found.lower <= truth.least) & (truth.most <= found.upper)).sum() >= 92


def test_binomial_points_are_exact_without_noise():
    """Bins kept of 100 persons are those whose binomial tail is above a quarter of alpha."""
    from scipy import stats

    counts = np.array([30, 25, 45])
    found = functions.histogram_quantile_confint(
        counts, 0.4, total=100, mechanism=dpi.Exact(), uncertainty="noise+sampling", alpha=0.1
    )
    first = stats.binom.cdf(30, 100, 0.4) >= 0.025
    second = stats.binom.sf(54, 100, 0.4) >= 0.025
    assert list(np.isin(["0", "2"], [str(found.kept)[0], str(found.kept)[-1]])) == [first, second]
    with pytest.raises(InvalidParameterError, match="use scale='share'"):
        functions.cdf_bands(
            counts, mechanism=NOISE, scale="count", uncertainty="noise+sampling"
        )  # fmt: skip
