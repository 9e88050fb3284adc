"""The default model with whole numbers of 8 bits in its products: its graph, and its weights in it.

`minilm_int8.bin` is the graph without its large weights. Each product first divides the columns of
its input by fixed factors, which were chosen on texts that judge nothing and even out columns of
different size; then each row, a token, by its own largest value. So a row's bits depend on that row
alone. What is left of the weights after the factors is rounded to -127 … 127, a scale a column.
``python -m tests.unit.models.embedders.test_minilm_int8`` writes the graph anew.
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from ragstream_core.errors import SetSetting, UnknownSetting
from ragstream_core.models.embedders.minilm_graph import damaged, tensors
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.ports import F32

GRAPH_FILE = "minilm_int8.bin"
ONNX_SHA256 = "4f1430c47aaac212e0b10fb6a5355ac813d909dbb9db8d8163b03454bdc5a846"
"""Of the whole file."""
LARGEST = 127
"""Of a rounded weight."""
CHECKED_TEXT = (
    "Rows of numbers are multiplied in steps of eight bits. Some processors keep sums of two "
    "products in sixteen bits, and cut them off: their vectors would be others than these."
)
LEAST_COSINE = 0.9995
"""Between a processor's vector of `CHECKED_TEXT` and the expected one."""


class _Gap(NamedTuple):
    """Where bytes of the weights go.

    Attributes:
        length: Bytes of the graph before it.
        name: Of the tensor.
        transposed: Whether it stands there so.
        factors: Which factors its columns had before it was rounded; -1: it is not.
    """

    length: int
    name: str
    transposed: bool
    factors: int


class _Described(TypedDict):
    """First line of the graph; arrays are float32, in base64."""

    gaps: list[tuple[int, str, bool, int]]
    factors: list[str]
    checked: str


def onnx_bytes(weights: Path) -> bytes:
    """Return the default model with products of 8 bits as ONNX."""
    try:
        made = _filled(weights.read_bytes())
    except (zlib.error, ValueError, KeyError) as error:
        raise damaged(GRAPH_FILE, str(error)) from None
    if sha256_hex(made) != ONNX_SHA256:
        raise damaged(GRAPH_FILE, "other bytes")
    return made


def rounded(
    weights: npt.NDArray[np.float32], factors: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Round weights to 8 bits."""
    import numpy as np

    wide = weights * factors[:, np.newaxis]
    scales = np.abs(wide).max(axis=0) / np.float32(LARGEST)
    return np.rint(wide / scales).astype(np.int8), scales


def require_same_products(vector: F32) -> None:
    """Refuse a processor whose products of 8 bits are others than those of the graph."""
    import numpy as np

    expected = np.frombuffer(base64.b64decode(_graph()[0]["checked"]), "<f4")
    if not float(vector @ expected) >= LEAST_COSINE:
        raise UnknownSetting(
            "this processor cuts off sums of 8-bit products, its vectors would be worse",
            hint=SetSetting("embeddings.precision", "float32", lasting=True),
        )


@functools.cache
def _graph() -> tuple[_Described, bytes]:
    packed = resources.files(__package__).joinpath(GRAPH_FILE).read_bytes()
    try:
        line, _, rest = zlib.decompress(packed).partition(b"\n")
        return json.loads(line), rest
    except (zlib.error, ValueError) as error:
        raise damaged(GRAPH_FILE, str(error)) from None


def _filled(weights: bytes) -> bytes:
    """Put the weights into the gaps of the graph."""
    import numpy as np

    described, rest = _graph()
    factors = [np.frombuffer(base64.b64decode(text), "<f4") for text in described["factors"]]
    arrays, parts, at = tensors(weights), list[bytes](), 0
    for gap in (_Gap(*row) for row in described["gaps"]):
        parts.append(rest[at : at + gap.length])
        array = arrays[gap.name].T if gap.transposed else arrays[gap.name]
        whole = array if gap.factors < 0 else rounded(array, factors[gap.factors])[0]
        parts.append(whole.tobytes())
        at += gap.length
    return b"".join([*parts, rest[at:]])
