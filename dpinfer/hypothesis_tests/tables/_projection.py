"""What a table has left of its deviations once those that other margins explain are taken out.

Tables have the shape (r, c, m): m tables, the innermost axis, of r rows and c columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpinfer._validation import FloatArray
from dpinfer.hypothesis_tests.tables._noise_form import NoiseForm, dot

SMALLEST_EXPECTED = 1e-9
"""Smaller expected counts are taken to be this, so that weights stay finite."""


def outer(rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Return the products aᵢ·bⱼ, SMALLEST_EXPECTED at least."""
    product = rows[:, np.newaxis] * columns
    if product.min() < SMALLEST_EXPECTED:  # to look takes a sixth of the time
        np.maximum(product, SMALLEST_EXPECTED, out=product)
    return np.asarray(product)


def project_out(
    form: NoiseForm, tables: FloatArray, rows: FloatArray, columns: FloatArray
) -> FloatArray:
    """Return the minimum over x of the form of d - A·x, where d = z - a·bᵀ, for each table.

    The weights are those at a·bᵀ, and A holds its derivatives by a and b. This is Neyman's C(α)
    statistic: errors of the margins change it in second order only, so that margins that are near
    will do, and nothing is iterated.

    As γ(Σ w V d)² is the extreme value over t of Σ w (d - t·V)² - Σ w d² - t²/g, the shared noise
    makes V one more column of A, with -1/g added to its diagonal. The equations of a are diagonal
    and are eliminated first. Those of b, the shorter margin, follow, made definite by a multiple of
    b·bᵀ: the scale of b is also that of a. The pivot of V comes last, and is negative.

    Parameters
    ----------
    form : NoiseForm
        The form.
    tables : array of float, shape (r, c, m)
        The adjusted tables z.
    rows, columns : array of float, shape (r, m) and (c, m)
        Margins a and b >= 0, neither of them all 0.
    """
    if len(columns) > len(rows):
        turned = replace(form, variance=form.variance.T)
        return project_out(turned, tables.swapaxes(0, 1), columns, rows)
    size, others = len(columns), len(columns) + (form.shared > 0.0)
    expected = outer(rows, columns)
    weights = form.diagonal(expected)
    deviations = tables - expected
    weighted = weights * deviations
    left = dot(weighted, deviations)

    loads = np.empty((others, *rows.shape))
    cross = np.multiply(weights, expected, out=loads[:size].swapaxes(0, 1))
    square, right = np.zeros((others, others, left.size)), np.empty((others, left.size))
    by_row = np.einsum("ijm,jm->im", weights, np.square(columns))
    by_column = np.einsum("ijm,im->jm", weights, np.square(rows))
    right_of_rows = np.einsum("ijm,jm->im", weighted, columns)
    right[:size] = np.einsum("ijm,im->jm", weighted, rows)
    multiple = by_column.sum(axis=0) / np.square(columns).sum(axis=0)
    for j in range(size):
        np.multiply(multiple * columns[j], columns[j:], out=square[j, j:size])
        square[j, j] += by_column[j]
    if form.shared > 0.0:
        # in a unit in which neither narrow nor wide noise leaves the range of floats when squared
        unit = max(float(form.variance.max()), 1.0)
        ratio = form.variance / unit
        loaded = weights if form.is_even else weights * ratio[..., np.newaxis]
        scale = float(ratio.flat[0]) if form.is_even else 1.0
        loads[size] = scale * np.einsum("ijm,jm->im", loaded, columns)
        square[:size, size] = scale * np.einsum("ijm,im->jm", loaded, rows)
        # Σ w V² - 1/g, without cancellation
        reduced = form.inflation * unit * dot(ratio, cross) + form.slack / form.shared
        square[size, size] = -reduced / unit / unit
        right[size] = dot(ratio, weighted)
    _eliminate_rows(by_row, loads, right_of_rows, square, right, left)
    _eliminate(square, right, left)
    return np.maximum(left, 0.0, out=left)


def _eliminate_rows(
    diagonal: FloatArray,
    loads: FloatArray,
    right_of_rows: FloatArray,
    square: FloatArray,
    right: FloatArray,
    left: FloatArray,
) -> None:
    """Eliminate the unknowns whose equations are diagonal; subtract what they explain."""
    right_of_rows = right_of_rows / diagonal
    for j in range(len(loads)):
        right[j] -= np.einsum("im,im->m", right_of_rows, loads[j])
        scaled = loads[j] / diagonal
        square[j, j:] -= np.einsum("im,kim->km", scaled, loads[j:])
    right_of_rows *= right_of_rows
    left -= np.einsum("im,im->m", right_of_rows, diagonal)


def _eliminate(square: FloatArray, right: FloatArray, left: FloatArray) -> None:
    """Eliminate the rest, of which the upper half is given; subtract what it explains."""
    ratio = np.empty(square.shape)
    for j in range(len(right)):
        square[j, j:] -= np.einsum("im,ikm->km", ratio[:j, j], square[:j, j:])
        pivot = square[j, j]
        np.divide(square[j, j:], pivot, out=ratio[j, j:])
        right[j + 1 :] -= ratio[j, j + 1 :] * right[j]
        left -= np.square(right[j]) / pivot
