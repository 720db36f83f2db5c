"""Estimating equations of generalised linear models with noisy columns, and their roots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from dpinfer._check import FloatArray
from dpinfer.errors import ConvergenceError, InvalidParameterError, NotEstimableError
from dpinfer.regression._corrected_scores import (
    ConditionalScores,
    CorrectedScores,
    GlmFamily,
    Law,
    Root,
    Rows,
    Source,
    finite_moment,
    sandwich,
    settled_dispersion,
    solve,
)
from dpinfer.regression._formula import Design
from dpinfer.regression._moments import (
    Covariance,
    Moments,
    add_by_group,
    cluster_correction,
    weakness,
)
from dpinfer.regression._polynomials import PolynomialScores, corrected_sources, of_rows
from dpinfer.regression.least_squares import reliability
from dpinfer.results.intervals import Uncertainty

COUNTS = ("poisson", "negative-binomial")
_FEW_ROWS = 50
_WIDE: dict[str, float] = {"identity": np.inf, "logit": 1.2} | dict.fromkeys(
    ("probit", "cloglog", "log"), 0.8
)
_TOO_WIDE: dict[str, float] = {"identity": np.inf, "logit": 2.0} | dict.fromkeys(
    ("probit", "cloglog", "log"), 1.2
)
"""Standard deviations of the noise in a linear predictor: for a remark, and for a refusal."""

_MOST_NOISES = 4
_NAIVE_REACH, _REACH = 2.0, 0.5
_SAME_ROOT = 1e-6
_DISPERSION_STEPS = 100


def _response_variance(design: Design) -> FloatArray:
    size = len(design.endog)
    if 0 not in design.noisy:
        return np.zeros(size)
    place = int(np.flatnonzero(design.noisy == 0)[0])
    found = design.error_covariance(slice(None))[:, place, place]
    return np.broadcast_to(found, size)


def _check_response(family: GlmFamily, response: FloatArray, variance: FloatArray) -> None:
    exact = response[variance == 0]
    most = 1.0 if family == "binomial" else np.inf
    least = -np.inf if family == "gaussian" else 0.0
    if ((exact < least) | (exact > most)).any():
        allowed = "from 0 to 1" if family == "binomial" else "0 or more"
        raise InvalidParameterError(
            f"endog must be {allowed} for family={family!r} where it has no noise, got "
            f"{exact.min():g} to {exact.max():g}: give response_noise if it was published with some"
        )


def to_units(moments: Moments) -> FloatArray:
    """Return what makes coefficients from those of covariates with mean products 1."""
    return np.asarray(moments.to_units * np.sqrt(len(moments.design.endog)))


def scaled(scores: FloatArray, cov_type: Covariance, groups: Any) -> FloatArray:
    """Add scores up within groups, and scale them so that their products sum to a covariance."""
    rows, columns = scores.shape
    if groups is not None:
        count = int(groups.max()) + 1
        sums = np.zeros((count, columns))
        add_by_group(sums, groups, scores)
        return np.asarray(np.sqrt(cluster_correction(count, rows, columns)) * sums)
    return scores * np.sqrt(rows / (rows - columns)) if cov_type == "HC1" else scores


@dataclass(frozen=True)
class Model:
    """A design, in coordinates in which the mean of w·x·xᵀ is the identity."""

    design: Design
    law: Law
    moments: Moments
    exposure: FloatArray
    offset: FloatArray
    to_units: FloatArray
    rows: Rows
    sources: list[Source]

    @classmethod
    def of(
        cls,
        design: Design,
        law: Law,
        exposure: FloatArray,
        exposure_variance: FloatArray,
        offset: FloatArray,
    ) -> Model:
        response_variance = _response_variance(design)
        _check_response(law.family, design.endog, response_variance)
        moments = Moments.of(design)
        units = to_units(moments)
        sources = [of_rows(x, slice(None), units) for x in corrected_sources(design, law)]
        rows = Rows(
            design.exog @ units,
            design.endog,
            response_variance,
            exposure,
            exposure_variance,
            design.weights,
            offset + np.log(exposure) if law.family == "negative-binomial" else offset,
        )
        return cls(design, law, moments, exposure, offset, units, rows, sources)

    @property
    def family(self) -> GlmFamily:
        return self.law.family

    @cached_property
    def is_conditional(self) -> bool:
        """Whether scores are conditional, not corrected."""
        kinds = {x.kind for x in self.sources}
        if self.family != "binomial" or "gaussian" not in kinds:
            return False
        if kinds != {"gaussian"}:
            raise InvalidParameterError(
                "noise must be Gaussian in all covariates or in none for family='binomial', got "
                "laws of both kinds: no exact scores are known for the two together"
            )
        response = self.rows.response
        if self.rows.response_variance.any() or not np.isin(response, (0.0, 1.0)).all():
            raise InvalidParameterError(
                "endog must be 0 and 1, without noise, for family='binomial' with Gaussian noise "
                "in covariates: give a row for each trial, or use shares with covariates that have "
                "geometric or Laplace noise"
            )
        return True

    def equations(self) -> CorrectedScores | ConditionalScores | PolynomialScores:
        """Return the estimating equations for the confidential coefficients."""
        if self.is_conditional:
            spread = [x.slopes * np.sqrt(x.variance)[:, np.newaxis] for x in self.sources]
            return ConditionalScores(self.rows, spread)
        if self.family not in ("gaussian", "poisson") and len(self.sources) > _MOST_NOISES:
            raise InvalidParameterError(
                f"noise must be that of at most {_MOST_NOISES} columns for family="
                f"{self.family!r}, got {len(self.sources)}: each triples the terms"
            )
        return self.corrected(self.law)

    def corrected(self, law: Law) -> CorrectedScores | PolynomialScores:
        """Return the corrected scores of a law of the response."""
        if not self.design.curves:
            return CorrectedScores(law, self.rows, self.sources)
        curves = {pair: curve @ self.to_units for pair, curve in self.design.curves.items()}
        return PolynomialScores(law, self.rows, self.sources, curves)

    def naive_root(self, near: FloatArray | None = None) -> Root:
        """Fit the published values as if they were confidential, from a root of a near law."""
        rows = self.rows
        if near is not None:
            return solve(CorrectedScores(self.law, rows, []), near, _NAIVE_REACH)
        start = np.zeros(rows.exog.shape[1])
        if self.family in COUNTS:
            size = self.exposure * np.exp(self.offset)
            total, exposed = rows.weights @ rows.response, rows.weights @ size
            if total <= 0 or exposed <= 0:
                raise NotEstimableError(
                    f"endog and exposure must have sums above 0 for family={self.family!r}, got "
                    f"{total:g} and {exposed:g}"
                )
            share = rows.weights / rows.weights.sum()
            start = np.log(total / exposed) * (share @ rows.exog)
        reach = np.inf if self.family == "gaussian" else _NAIVE_REACH
        try:
            return solve(CorrectedScores(self.law, rows, []), start, reach)
        except ConvergenceError as error:
            raise ConvergenceError(
                "not even the fit without correction was found: look for covariates that separate "
                "responses of 0 from others, and for exposures that are mostly noise"
            ) from error

    def found_roots(self, naive: FloatArray, near: FloatArray | None = None) -> list[Root]:
        """Roots of the equations, nearest first to the naive fit without attenuation.

        From a root of a near law, where there is one, in place of that fit.
        """
        equations = self.equations()
        if not self.sources:
            return []
        share, _direction = self.moments.noise_shares()
        if share > 1.0 - 1e-9:
            raise NotEstimableError(
                "the noise drowns the covariates: it would explain "
                f"{share:.3g} times the variation of a combination of the noisy columns. Leave a "
                "column out, or use rows with less noise"
            )
        calibrated = linalg.solve(np.eye(len(naive)) - self.moments.noise, naive)
        reach = np.inf if self.family == "gaussian" else _REACH
        roots: list[Root] = []
        first = calibrated if near is None else near
        for start in [first] if self.family == "gaussian" else [first, naive]:
            try:
                root = solve(equations, start, reach)
            except ConvergenceError:
                continue
            apart = [np.linalg.norm(root.beta - x.beta) for x in roots]
            if all(gap > _SAME_ROOT * (1.0 + np.linalg.norm(root.beta)) for gap in apart):
                roots.append(root)
        if not roots:
            raise ConvergenceError(
                "no root of the corrected equations was found: the noise is too wide for these "
                f"rows (reliability {np.min(reliability(self.moments)):.3g}). Use more rows, or a "
                "coarser table with less noise beside its values"
            )
        return sorted(roots, key=lambda x: float(np.linalg.norm(x.beta - calibrated)))

    def width(self, root: Root) -> float:
        """Return the largest standard deviation of the noise in a linear predictor.

        Its root mean square where it grows with the published values, as that of a square does.
        """
        deltas = [x.slopes @ root.beta for x in self.sources]
        pairs = list(zip(self.sources, deltas, strict=True))
        found = np.sqrt(sum((x.variance * delta**2 for x, delta in pairs), np.zeros(1)))
        if self.design.curves:
            weights = self.rows.weights
            mean = weights @ np.broadcast_to(np.square(found), weights.shape) / weights.sum()
            found = np.sqrt(mean)
        width, most = float(np.max(found)), _TOO_WIDE[self.law.link]
        self._check_bends(root)
        if self._is_steep and not all(finite_moment(x, d, 2) for x, d in pairs):
            raise ConvergenceError(
                "the corrected equations have no finite variance at their root: the coefficient "
                "of a column with Laplace or geometric noise is above half of one over its scale. "
                "Use a coarser table with less noise beside its values"
            )
        if width > most:
            raise NotEstimableError(
                f"the noise of a linear predictor has standard deviation {width:.3g} at the "
                f"estimates, above {most:g}, where intervals do not hold their level: leave "
                "out rows or columns with so much noise"
            )
        return width

    @property
    def _is_steep(self) -> bool:
        """Whether scores grow with exp(η), and no square in η comes in between."""
        return (self.family == "poisson" or self.law.link == "cloglog") and not self.design.curves

    def _check_bends(self, root: Root) -> None:
        if self.family != "poisson" and self.law.link != "cloglog":
            return
        curves = {
            pair: curve @ (self.to_units @ root.beta) for pair, curve in self.design.curves.items()
        }
        if any((i != j and curve.any()) or (curve > 0.0).any() for (i, j), curve in curves.items()):
            raise ConvergenceError(
                "the exponential of a product of two noisy columns, or of a square with a "
                "coefficient above 0, has no mean over the noise: leave the term out, or use "
                "family='negative-binomial' or the logit link, whose scores do not grow so"
            )

    def settled(self, naive: Root | None) -> tuple[Law, Root]:
        """Estimate coefficients and dispersion in turn; the former hardly move with the latter."""
        law, near = self.law, None
        log: float | None = None
        for _ in range(_DISPERSION_STEPS):
            model = replace(self, law=law)
            if naive is None:
                root = model.naive_root(near)
            elif near is None:
                root = model.found_roots(naive.beta)[0]
            else:
                root = solve(model.equations(), near, _REACH)
            near = root.beta
            at = CorrectedScores(law, self.rows, []) if naive is None else self.corrected(law)

            def excess(log: float, at: Any = at, beta: FloatArray = root.beta) -> float:
                other = at.law._replace(dispersion=float(np.exp(log)))
                return float(replace(at, law=other).excess(beta))

            log = settled_dispersion(excess, log)
            before, law = law, law._replace(dispersion=float(np.exp(log)))
            if abs(law.dispersion - before.dispersion) <= 1e-10 * law.dispersion:
                return law, root
        raise ConvergenceError("coefficients and dispersion did not settle together")

    def covariance(self, root: Root, cov_type: Covariance, groups: Any) -> FloatArray:
        scores = scaled(root.scores, cov_type, groups)
        return sandwich(root.slope, scores.T @ scores)

    def remarks(self, roots: list[Root], width: float, uncertainty: Uncertainty) -> tuple[str, ...]:
        design, found = self.design, list(self.design.notes)
        if self.sources:
            _, direction = self.moments.noise_shares()
            found += weakness(self.moments, direction)
            if len(design.endog) < _FEW_ROWS:
                found.append(
                    f"fewer than {_FEW_ROWS} rows: intervals are limits for many, and may cover "
                    "too rarely"
                )
        if width > _WIDE[self.law.link]:
            found.append(
                f"the noise of a linear predictor has standard deviation {width:.2g}, above "
                f"{_WIDE[self.law.link]:g}: intervals may cover too rarely"
            )
        if self._is_steep and not all(
            finite_moment(x, x.slopes @ roots[0].beta, 4) for x in self.sources
        ):
            found.append(
                "the equations have no fourth moment, as the coefficient of a column is above a "
                "quarter of one over the scale of its noise: intervals may cover too rarely"
            )
        if len(roots) > 1:
            found.append(
                f"the equations have {len(roots)} roots: the one nearest the naive fit with its "
                "attenuation taken off was taken"
            )
        if uncertainty == "noise" and None in design.errors.laws and self.family == "gaussian":
            found.append(
                "errors without a law are taken to have the fourth moment of Gaussian ones"
            )
        return tuple(found)
