"""The product by onnxruntime against one in float64: near enough that nobody sees who made it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.models.onnx_session import row_products


def unit(rng, rows, dimension):
    made = rng.standard_normal((rows, dimension)) + 0.05
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 17), st.integers(1, 1100), st.integers(0, 99))
def test_every_product_is_within_a_millionth(rows, queries, dimension, seed):
    rng = np.random.default_rng(seed)
    vectors, asked = unit(rng, rows, dimension), unit(rng, queries, dimension)
    vectors.flags.writeable = False  # as those of an index are
    for part in (vectors, vectors[rows // 2 :]):
        found = row_products(part, np.ascontiguousarray(asked.T))
        assert (found.shape, found.dtype) == ((queries, len(part)), np.float32)
        exact = asked.astype(np.float64) @ part.astype(np.float64).T
        assert float(np.abs(found - exact).max()) < 1e-6
