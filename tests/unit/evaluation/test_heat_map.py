"""Heat maps: a PNG that any reader opens, a cell a number."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.evaluation.sweep import CELL, heat_map

NAMES = ("tokens", "theta", "relative")
image = pytest.importorskip("PIL.Image")


def read(png):
    return np.asarray(image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def ground(pixels, row, column):
    """Return the colour of a value's lower right corner, where no number stands."""
    return pixels[(row + 3) * CELL[0] - 1, (column + 3) * CELL[1] - 1]


def cells(pixels, line, first, last):
    """Return a piece of a line of cells."""
    return pixels[line * CELL[0] : (line + 1) * CELL[0], first * CELL[1] : last * CELL[1]]


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.none() | st.floats(0, 1), min_size=n, max_size=n), min_size=1, max_size=4
        )
    )
)
def test_the_larger_the_darker(values):
    rows, columns = list(range(len(values))), list(range(len(values[0])))
    png = heat_map(values, names=NAMES, columns=columns, rows=rows, low=0, high=1, form=".3f")
    pixels = read(png)
    wide = max(4, len(columns) + 2)
    assert pixels.shape == ((len(rows) + 4) * CELL[0], wide * CELL[1], 3)
    head = pixels[CELL[0] - 1, [1, (len(columns) + 2) * CELL[1] - 1]]
    assert (head[0] == head[1]).all()  # the name stands above all columns
    found = [
        (value, ground(pixels, r, c)) for r, row in enumerate(values) for c, value in enumerate(row)
    ]
    assert all(tuple(at) == (255, 255, 255) for value, at in found if value is None)
    shown = sorted(((v, tuple(at)) for v, at in found if v is not None), key=lambda cell: cell[0])
    for (_, before), (_, after) in zip(shown, shown[1:], strict=False):
        assert all(b >= a for b, a in zip(before, after, strict=True))
    if any(v == 0 for v, _ in shown) and any(v == 1 for v, _ in shown):
        assert shown[0][1] != shown[-1][1]


def test_a_very_small_threshold_is_written():
    assert heat_map([[0.5]], names=NAMES, columns=[1e-5], rows=[1e-7], low=0, high=1, form=".3f")


def drawn(value=0.5, *, names=NAMES, low=0, high=1, form=".2f"):
    one = heat_map([[value]], names=names, columns=[0], rows=[0], low=low, high=high, form=form)
    return read(one)


def test_numbers_are_written_and_differ():
    found = [
        cells(drawn(value, high=0), 2, 2, 3)
        for value in (0.12, 0.34, 0.56, 0.78, 0.9, 1234.5, -0.5)
    ]
    assert all((one != other).any() for i, one in enumerate(found) for other in found[:i])
    assert all(len(np.unique(each.reshape(-1, 3), axis=0)) == 3 for each in found)


@pytest.mark.parametrize(("at", "line", "first"), [(0, 0, 0), (1, 0, 2), (2, 1, 0)])
def test_each_name_has_a_place_of_its_own(at, line, first):
    names = [*NAMES]
    names[at] = "kept relevant"
    was, now = drawn(), drawn(names=tuple(names))
    assert (cells(was, line, first, first + 2) != cells(now, line, first, first + 2)).any()
    cells(was, line, first, first + 2)[:] = cells(now, line, first, first + 2)
    assert (was == now).all()


def test_no_two_letters_look_the_same_and_no_name_is_cut():
    letters = [
        cells(drawn(names=(each, "a", "a")), 0, 0, 2) for each in "aeghiklnoprstvw0123456789"
    ]
    assert all((one != other).any() for i, one in enumerate(letters) for other in letters[:i])
    for name in ("kept relevant", "relative"):
        longer = drawn(names=(name + "e", "a", "a"))
        assert (longer != drawn(names=(name, "a", "a"))).any()


def test_the_legend_goes_from_the_least_to_the_greatest():
    pixels = drawn(2, low=1, high=3, form=".0f")
    legend = cells(pixels, -1 + len(pixels) // CELL[0], 0, 4)
    edge = legend[-1][1:].sum(axis=1)
    assert (np.diff(edge[: 3 * CELL[1] - 1]) <= 0).all() and edge[0] > edge[-1]
    for value, at in ((1, 0), (3, 3)):
        alike = cells(drawn(value, low=1, high=3, form=".0f"), 2, 2, 3)
        assert (legend[:, at * CELL[1] : (at + 1) * CELL[1]] == alike).all()
    assert (cells(drawn(1, low=1, high=1), 4, 1, 4) == 255).all()  # one value, one colour
