"""The intervals and tests of the library's own grid, each in one setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import special

from dpinfer._validation import FloatArray
from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.intervals import certify_interval
from dpinfer.calibration.releases import certify
from dpinfer.calibration.sizes import certify_model, certify_test
from dpinfer.hypothesis_tests import counts_2indep, poisson_2indep, proportions_2indep
from dpinfer.hypothesis_tests.models import (
    Binomial,
    Independence,
    Multinomial,
    Poisson,
    ProductMultinomial,
)
from dpinfer.intervals import (
    clamped_confint,
    count_confint,
    odds_ratio_confint,
    poisson_confint,
    proportion_confint,
    ratio_confint,
    relative_change_confint,
    risk_difference_confint,
    risk_ratio_confint,
    share_confint,
    thresholded_confint,
)
from dpinfer.mechanisms import NoiseLaw, Tulap
from dpinfer.releases import Release
from dpinfer.results.intervals import Intervals

_BESIDE = "normal intervals"
_PROPORTION = 0.3
_ROWS, _COLUMNS = np.array([0.6, 0.4]), np.array([0.5, 0.3, 0.2])
_QUERIES = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
"""Three cells, the sum of two of them, and their total."""


@dataclass(frozen=True)
class Setting:
    """Noise, a size of the data, and a nominal error probability."""

    noise: NoiseLaw
    nobs: int
    alpha: float


Role = Literal["procedure", "approximation", "control"]
"""What the library says holds, what it calls an approximation, and what it warns of."""

Case = Callable[..., list[tuple[Role, Certificate]]]
"""Makes certificates; takes the keywords ``margin, error, rng, n_jobs`` of ``certify_interval``."""


def cases(setting: Setting) -> Iterator[Case]:
    """Yield everything that is certified in a setting."""
    for part in (_of_counts, _by_a_rule, _of_populations, _releases, _tests):
        yield from part(setting)
    if not isinstance(setting.noise, Tulap):  # with it, sets of ratios are for a few pairs
        yield from _of_ratios(setting)
        yield from _of_risks(setting)


# What is called: functions of the module, so that they can be pickled.


@dataclass(frozen=True)
class _Columns:
    """A function of the columns of simulated releases."""

    function: Callable[..., Any]
    fixed: dict[str, Any] = field(default_factory=dict)

    def __call__(self, published: FloatArray) -> Any:
        return self.function(*published.T, **self.fixed)


@dataclass(frozen=True)
class _Tables:
    """A function of 2 × 2 tables."""

    function: Callable[..., Any]
    fixed: dict[str, Any]

    def __call__(self, published: FloatArray) -> Any:
        return self.function(published.reshape(-1, 2, 2), **self.fixed)


def _interval(
    setting: Setting, name: str, interval: Any, truth: Any, role: Role = "procedure", **more: Any
) -> Case:
    def run(**terms: Any) -> list[tuple[Role, Certificate]]:
        known = {"alpha": setting.alpha, "name": name, "beside_name": _BESIDE, **more, **terms}
        return [(role, certify_interval(interval, truth, setting.noise, **known))]

    return run


def _of_counts(setting: Setting) -> Iterator[Case]:
    noise, alpha = setting.noise, setting.alpha
    one = partial(_count, noise, alpha)
    yield _interval(
        setting, "count_confint", partial(one, "exact"), 40.0, beside=partial(one, "normal")
    )


def _count(noise: NoiseLaw, alpha: float, method: Any, y: FloatArray) -> Intervals:
    return count_confint(y, noise, alpha=alpha, method=method)


def _by_a_rule(setting: Setting) -> Iterator[Case]:
    """Thresholded and clamped values; one of them a little below, where the rule matters most."""
    noise, alpha = setting.noise, setting.alpha
    threshold, spread = 90.0, float(np.ceil(noise.std))
    truth = threshold - spread
    by = {method: partial(_above, noise, alpha, threshold, method) for method in _RULED}
    yield _interval(
        setting,
        "thresholded_confint",
        by["conditional"],
        truth,
        threshold=threshold,
        beside=by["naive"],
        beside_name="threshold ignored",
    )
    yield _interval(
        setting,
        "threshold ignored",
        by["naive"],
        truth,
        threshold=threshold,
        role="control",
    )
    yield _interval(
        setting,
        "clamped_confint",
        partial(_within, noise, alpha, "exact"),
        np.ceil(0.5 * spread),
        clamp=0.0,
        beside=partial(_within, noise, alpha, "naive"),
        beside_name="clamp ignored",
    )


_RULED = ("conditional", "naive")


def _above(noise: NoiseLaw, alpha: float, threshold: float, method: Any, y: FloatArray) -> Any:
    return thresholded_confint(y, mechanism=noise, threshold=threshold, alpha=alpha, method=method)


def _within(noise: NoiseLaw, alpha: float, method: Any, y: FloatArray) -> Any:
    return clamped_confint(y, mechanism=noise, clamp=0.0, alpha=alpha, method=method)


def _of_populations(setting: Setting) -> Iterator[Case]:
    noise, nobs, alpha = setting.noise, setting.nobs, setting.alpha
    trials = Binomial(nobs=nobs, value=_PROPORTION)
    of_trials = partial(_proportion, noise, nobs, alpha)
    yield _interval(
        setting,
        "proportion_confint",
        partial(of_trials, "exact"),
        trials,
        target=_PROPORTION,
        beside=partial(of_trials, "normal"),
    )
    yield _interval(
        setting,
        "Wilson's interval, noise ignored",
        partial(_wilson, nobs, alpha),
        trials,
        target=_PROPORTION,
        role="control",
    )
    rate = np.array(0.2 * nobs)
    of_events = partial(_rate, noise, alpha)
    yield _interval(
        setting,
        "poisson_confint",
        partial(of_events, "exact"),
        Poisson(rate=rate),
        target=float(rate),
        beside=partial(of_events, "normal"),
    )
    yield _interval(
        setting,
        "Garwood's interval, noise ignored",
        partial(_garwood, alpha),
        Poisson(rate=rate),
        target=float(rate),
        role="control",
    )


def _proportion(noise: NoiseLaw, nobs: int, alpha: float, method: Any, y: FloatArray) -> Intervals:
    return proportion_confint(y, nobs, mechanism=noise, alpha=alpha, method=method)


def _wilson(nobs: int, alpha: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a published count, as if it had no noise."""
    z = special.ndtri(1.0 - 0.5 * alpha)
    p = np.clip(y / nobs, 0.0, 1.0)
    centre = (p + 0.5 * z**2 / nobs) / (1.0 + z**2 / nobs)
    half = z * np.sqrt(p * (1.0 - p) / nobs + 0.25 * (z / nobs) ** 2) / (1.0 + z**2 / nobs)
    return centre - half, centre + half


def _rate(noise: NoiseLaw, alpha: float, method: Any, y: FloatArray) -> Intervals:
    return poisson_confint(y, mechanism=noise, alpha=alpha, method=method)


def _garwood(alpha: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Garwood's interval of a published count, as if it had no noise."""
    events = np.maximum(np.rint(y), 0.0)
    lower = np.where(events > 0, special.gammaincinv(np.maximum(events, 1.0), 0.5 * alpha), 0.0)
    return lower, special.gammainccinv(events + 1.0, 0.5 * alpha)


def _of_ratios(setting: Setting) -> Iterator[Case]:
    known = {"mechanism": setting.noise, "alpha": setting.alpha}
    part, rest = np.rint(_PROPORTION * setting.nobs), np.rint(0.7 * setting.nobs)
    for function, target in (
        (ratio_confint, part / rest),
        (share_confint, part / (part + rest)),
        (relative_change_confint, part / rest - 1.0),
    ):
        yield _interval(
            setting,
            function.__name__,
            _Columns(function, known),
            [part, rest],
            target=target,
            beside=_Columns(function, {**known, "method": "normal"}),
        )


def _of_risks(setting: Setting) -> Iterator[Case]:
    known = {"mechanism": setting.noise, "alpha": setting.alpha}
    counts = np.rint(setting.nobs * np.array([0.3, 0.7, 0.4, 0.6]))
    a, b, c, d = counts
    for function, target in (
        (risk_difference_confint, a / (a + b) - c / (c + d)),
        (risk_ratio_confint, a / (a + b) / (c / (c + d))),
        (odds_ratio_confint, a * d / (b * c)),
    ):
        yield _interval(
            setting,
            function.__name__,
            _Tables(function, known),
            counts,
            target=target,
            beside=_Tables(function, {**known, "method": "normal"}),
        )


def _releases(setting: Setting) -> Iterator[Case]:
    cells = np.rint(setting.nobs * np.array([0.2, 0.3, 0.5]))
    release = Release(_QUERIES @ cells, workload=_QUERIES, mechanism=setting.noise)

    def run(**terms: Any) -> list[tuple[Role, Certificate]]:
        names: Any = ("combined", "consistency")
        found = certify(release, truth=cells, procedures=names, alpha=setting.alpha, **terms)
        return [("procedure", one) for one in found]

    yield run


def _tests(setting: Setting) -> Iterator[Case]:
    nobs = setting.nobs
    for model in (
        Binomial(nobs=nobs, value=_PROPORTION),
        Poisson(rate=np.array(0.2 * nobs)),
        Multinomial(nobs=nobs, value=np.full(4, 0.25)),
        Independence(nobs=8 * nobs, rows=_ROWS, columns=_COLUMNS),
    ):
        yield partial(_of_model, setting, model)
    known = {"mechanism": setting.noise}
    yield _test(setting, "counts_2indep", _Columns(counts_2indep, known), [40.0, 40.0])
    rates = Poisson(rate=np.full(2, 0.2 * nobs))
    test: Any = partial(_two_rates, setting.noise)
    yield _test(setting, "poisson_2indep, normal", test, rates, "approximation")
    groups = ProductMultinomial(np.full(2, float(nobs)), np.array([_PROPORTION, 1.0 - _PROPORTION]))
    test = partial(_two_proportions, setting.noise, nobs)
    yield _test(setting, "proportions_2indep, normal", test, groups, "approximation")


def _of_model(setting: Setting, model: Any, /, **terms: Any) -> list[tuple[Role, Certificate]]:
    found = certify_model(model, setting.noise, alpha=setting.alpha, **terms)
    return [(_role(one.procedure), one) for one in found]


def _role(test: str) -> Role:
    """Tell from the name that a size study gives a test what is claimed of it."""
    if "noise ignored" in test:
        return "control"
    return "approximation" if "asymptotic" in test else "procedure"


def _test(setting: Setting, name: str, test: Any, truth: Any, role: Role = "procedure") -> Case:
    def run(**terms: Any) -> list[tuple[Role, Certificate]]:
        known = {"alpha": setting.alpha, "name": name, **terms}
        return [(role, certify_test(test, truth, setting.noise, **known))]

    return run


def _two_rates(noise: NoiseLaw, y: FloatArray) -> Any:
    return poisson_2indep(y[:, 0], 1.0, y[:, 1], 1.0, mechanism=noise, method="normal")


def _two_proportions(noise: NoiseLaw, nobs: int, y: FloatArray) -> Any:
    return proportions_2indep(y[:, 0], nobs, y[:, 2], nobs, mechanism=noise, method="normal")
