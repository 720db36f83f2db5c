"""A release in plain words: what was published, with what noise, and what that protects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np

from dpinfer._check import one_line
from dpinfer.errors import DPInferError
from dpinfer.mechanisms.independent import groups
from dpinfer.mechanisms.law import in_short
from dpinfer.mechanisms.laws import DiscreteGaussian, Exact, Gaussian
from dpinfer.mechanisms.rounded import Rounded
from dpinfer.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpinfer.privacy.of_mechanisms import guarantee_of
from dpinfer.privacy.trade_off import max_power, pbdp_epsilon
from dpinfer.releases.frames import kind_of, parameters
from dpinfer.releases.release import Release

LEVEL = 0.05
"""The share of wrong accusations in what is said about protection, and of errors left out."""

RARE = 0.01
"""A probability that is left out of what is said about odds."""

WIDTH = 92

CHANGES = {
    "add-remove": ("adding or removing one {unit}", "whether {a} {unit} is in the data"),
    "replace": ("replacing one {unit} by another", "which of two records {a} {unit} has"),
}

AN = re.compile(r"(?!one\b|once|eu|ewe|us[aeu]|uti|uni(?!n|[dm][ei]))[aeiou]|hour|heir|hono", re.I)
"""The beginnings of words that have *an* before them."""


def explanation(release: Release) -> str:
    """Return what there is to know about a release, in paragraphs of plain words."""
    parts = {
        "What was published": _published(release),
        "What noise was added": noise_in_words(release),
        "What else was done": _rules(release),
        "What it protects": protection_in_words(release),
    }
    shown = [f"{title}\n{_lines(lines)}" for title, lines in parts.items()]
    return "\n\n".join(text for text in shown if "\n " in text)


def _lines(sentences: Iterator[str]) -> str:
    broken = partial(
        fill,
        width=WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )
    return "\n".join(broken(one_line(one, 1000)) for one in sentences)


def _published(release: Release) -> Iterator[str]:
    name = "" if release.name is None else f"{release.name}: "
    labels = release.labels
    named = (
        [str(level) for level in labels.names if level is not None] if labels is not None else []
    )
    by = f", by {' and '.join([', '.join(named[:-1])] * (len(named) > 1) + named[-1:])}"
    yield f"{name}{_count(len(release), 'value')}{by if named else ''}."
    sums = _sums(release)
    if sums:
        yield (
            f"{_count(sums, 'of them is a sum', 'of them are sums')} over other cells, so that "
            "values overlap: combined estimates use all that bears on each."
        )
    if exact := int(np.count_nonzero(release.variance == 0)):
        yield f"{_count(exact, 'value was', 'values were')} published without any noise."


def _sums(release: Release) -> int:
    """Return how many values are sums of several cells."""
    queries = release.workload
    if queries.codes is not None:
        return int(np.count_nonzero((np.asarray(queries.codes) < 0).any(axis=1)))
    if queries.is_identity:
        return 0
    return int(np.count_nonzero(np.ravel((queries.matrix != 0).sum(axis=1)) > 1))


def noise_in_words(release: Release) -> Iterator[str]:
    """Say, for each law, how large errors are."""
    if release.weights is not None:
        yield (
            f"Values share {release.weights.shape[1]} noises of the law "
            f"{in_short(release.mechanism)}; the standard deviation of an error is "
            f"{_range(np.sqrt(release.variance))}."
        )
    else:
        noisy: dict[tuple[str, bool], list[tuple[Any, int]]] = {}
        for law, cells in groups(release.mechanism, len(release)):
            if not isinstance(law, Exact):
                name = kind_of(law).replace("_", " ").replace("gaussian", "Gaussian")
                own = name[0].upper() + name[1:], isinstance(law, Rounded)
                noisy.setdefault(own, []).append((law, len(cells)))
        for (kind, rounded), laws in noisy.items():
            name = next(iter(parameters(laws[0][0])))
            size = np.concatenate([np.ravel(parameters(law)[name]) for law, _ in laws])
            std = np.concatenate([np.ravel(law.std) for law, _ in laws])
            reach = np.concatenate([np.ravel(law.isf(0.5 * LEVEL)) for law, _ in laws])
            yield (
                f"{kind} noise of {name} {_range(size)} on "
                f"{_count(sum(count for _, count in laws), 'value')}"
                f"{', then rounded to whole numbers' if rounded else ''}: the standard deviation "
                f"is {_range(std)}, and {1 - LEVEL:.0%} of the errors are within ±{_range(reach)}."
            )
    std = np.sqrt(release.variance)
    middle = float(np.median(np.abs(release.values[std > 0]))) if (std > 0).any() else 0.0
    if middle > 0:
        share = float(np.median(std[std > 0])) / middle
        yield f"The middle value is {middle:g}; a typical error is {share:.2g} times as large."


def _rules(release: Release) -> Iterator[str]:
    if release.threshold is not None:
        bounds = np.ravel(release.threshold)
        yield (
            f"Values below a threshold of {_range(bounds[np.isfinite(bounds)])} were not "
            "published: those that are here are too large on average, which intervals allow for."
        )
    if release.clamp is not None:
        lower, upper = (np.ravel(bound) for bound in release.clamp)
        ends = [
            f"{words} {_range(bound[np.isfinite(bound)])}"
            for words, bound in (("up to", lower), ("down to", upper))
            if np.isfinite(bound).any()
        ]
        yield f"Values beyond a bound were moved to it, {' and '.join(ends)}."
    step, way = release.rounding or (1.0, "nearest")
    if isinstance(step, float) and (step, way) != (1.0, "nearest"):
        yield f"Noisy values were rounded {_ways(way)} multiples of {step:g}."
    if np.greater(release.bin_size, 1).any():
        sizes = _range(np.ravel(release.bin_size))
        words = _ways(release.bin_rounding)
        yield f"Counts were rounded {words} multiples of {sizes} before the noise."


def _ways(way: str) -> str:
    return "to the nearest" if way == "nearest" else f"{way} to"


def guarantee_in_words(release: Release) -> str:
    """Return the guarantee on one line, with the change of the data that it is for."""
    found, source = _guarantee(release)
    if found is None:
        return "no guarantee is stated"
    change = _change(release, found)[0]
    return f"{found.in_words()} {source}for {change}"


def _change(release: Release, found: Guarantee) -> tuple[str, str]:
    """Return the change of the data that a guarantee is for, and what it keeps from being seen."""
    unit = release.unit or "record"
    change, seen = (
        words.format(unit=unit, a="an" if AN.match(unit) else "a")
        for words in CHANGES[found.neighbours]
    )
    return change, seen


def _guarantee(release: Release) -> tuple[Guarantee | None, str]:
    """Return the guarantee that is stated, or follows from the law and the sensitivity."""
    stated = release.guarantee or {}
    near: Any = {} if release.neighbours is None else {"neighbours": release.neighbours}
    if "epsilon" in stated:
        delta = stated.get("delta", 0.0)
        pure = PureDP(stated["epsilon"], **near)
        return (ApproxDP(stated["epsilon"], delta, **near) if delta else pure), ""
    if "rho" in stated:
        return ZCDP(stated["rho"], **near), ""
    if "mu" in stated:
        return GDP(stated["mu"], **near), ""
    return _of_law(release.mechanism, release), "from the noise and the stated sensitivity, "


def _of_law(law: Any, release: Release) -> Guarantee | None:
    """Return the guarantee of a law with the stated sensitivity, None where there is none."""
    norms = release.sensitivity
    base = law.law if isinstance(law, Rounded) else law
    norm = "l2" if isinstance(base, (Gaussian, DiscreteGaussian)) else "l1"
    change = norms.get(norm) if isinstance(norms, Mapping) else norms
    if change is None or release.weights is not None:
        return None
    try:
        return guarantee_of(law, change, release.neighbours)
    except DPInferError:  # of several laws together, or of none
        return None


def _by_law(release: Release) -> Iterator[str]:
    """Say what values with one law each protect by themselves, where laws differ."""
    for law, cells in groups(release.mechanism, len(release)):
        if release.weights is None and (found := _of_law(law, release)) is not None:
            change = _change(release, found)[0]
            yield (
                f"{_count(len(cells), 'value')} with {kind_of(law).replace('_', ' ')} noise, by "
                f"themselves: {found.in_words()}, for {change}."
            )


def protection_in_words(release: Release) -> Iterator[str]:
    """Say what the guarantee keeps somebody from finding out who knows all other records."""
    found, _ = _guarantee(release)
    if found is None and (alone := list(_by_law(release))):
        yield from alone
        return
    if found is None:
        yield (
            "Neither a guarantee nor a sensitivity is stated that fixes one: ask the publisher, "
            "and add `guarantee`, or `sensitivity`, to the sidecar."
        )
        return
    unit = release.unit or "record"
    what = _change(release, found)[1]
    yield f"Guarantee: {guarantee_in_words(release)}."
    if release.neighbours is None:
        yield "The neighbours are not stated, and taken to be add-remove."
    power = float(np.asarray(max_power(found, LEVEL)))
    yield (
        f"Suppose that somebody knows everything else, and wants to find out {what}. A test by "
        f"this release that is wrong for {LEVEL:.0%} of those for whom it is not so finds at most "
        f"{_percent(power)} of those for whom it is; without the release it is {LEVEL:.0%}."
    )
    if isinstance(found, PureDP):
        odds = np.exp(min(found.epsilon, 700.0))
        yield (
            f"The odds that they give it change by a factor of at most {odds:.4g}: from 50% to at "
            f"most {_percent(odds / (1.0 + odds))}."
        )
    elif np.isfinite(limit := float(np.asarray(pbdp_epsilon(found, RARE)))):
        yield (
            f"The odds that they give the truth rise by a factor of more than "
            f"{np.exp(min(limit, 700.0)):.4g} with a probability of at most {RARE:.0%}."
        )
    yield (
        "It says nothing about what many have in common, which a release is there to show, nor "
        f"about more than one {unit} at a time, such as a family."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 0.995 else f"{100 * share:.6g}%"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _range(numbers: Any) -> str:
    least, most = float(np.min(numbers)), float(np.max(numbers))
    return f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
