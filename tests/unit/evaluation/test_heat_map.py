"""Heat maps: a PNG that any reader opens, a cell a number."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.evaluation.heat_map import CELL, heat_map

image = pytest.importorskip("PIL.Image")


def read(png):
    return np.asarray(image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def ground(pixels, row, column):
    """Return the colour of a cell's lower right corner, where no number stands."""
    return pixels[(row + 1) * CELL[0] - 1, (column + 1) * CELL[1] - 1]


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.none() | st.floats(0, 1), min_size=n, max_size=n), min_size=1, max_size=4
        )
    )
)
def test_the_larger_the_darker(values):
    rows, columns = list(range(len(values))), list(range(len(values[0])))
    png = heat_map(values, columns=columns, rows=rows, low=0, high=1, form=".3f")
    pixels = read(png)
    assert pixels.shape == ((len(rows) + 1) * CELL[0], (len(columns) + 1) * CELL[1], 3)
    cells = [
        (value, ground(pixels, r + 1, c + 1))
        for r, row in enumerate(values)
        for c, value in enumerate(row)
    ]
    assert all(tuple(at) == (255, 255, 255) for value, at in cells if value is None)
    shown = sorted(((v, tuple(at)) for v, at in cells if v is not None), key=lambda cell: cell[0])
    for (_, before), (_, after) in zip(shown, shown[1:], strict=False):
        assert all(b >= a for b, a in zip(before, after, strict=True))
    if any(v == 0 for v, _ in shown) and any(v == 1 for v, _ in shown):
        assert shown[0][1] != shown[-1][1]


def test_numbers_are_written_and_differ():
    def cell(value):
        drawn = read(heat_map([[value]], columns=[0], rows=[0], low=0, high=0, form=".2f"))
        return drawn[CELL[0] :, CELL[1] :]

    cells = [cell(value) for value in (0.12, 0.34, 0.56, 0.78, 0.9, 1234.5, -0.5)]
    assert all((one != other).any() for i, one in enumerate(cells) for other in cells[:i])
    assert all(len(np.unique(each.reshape(-1, 3), axis=0)) == 3 for each in cells)
