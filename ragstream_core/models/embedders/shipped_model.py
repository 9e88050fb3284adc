"""The default model as ONNX: its graphs ship with this package, its weights are put into them.

`minilm_graph.bin` is the file that torch's exporter makes of all-MiniLM-L6-v2, without the bytes
of the weights. Put back from the verified weights, they give the same file to the byte, and
neither torch nor onnx is needed. A test makes the export with torch again and compares.

`minilm_int8.bin` is the same with whole numbers of 8 bits in its products. Each product first
divides the columns of its input by fixed factors, which were chosen on texts that judge nothing and
even out columns of different size; then each row, a token, by its own largest value. So a row's
bits depend on that row alone. What is left of the weights after the factors is rounded to
-127 … 127, a scale a column.

``python -m tests.unit.models.embedders.test_minilm_graph`` and ``…_int8`` write them anew.
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import RunProgram, SetSetting, UnknownSetting, WeightsMismatch
from ragstream_core.models.embedders.fingerprints import Precision
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.ports import F32


class Shipped(NamedTuple):
    """A graph of this package and the sha256 of the whole model that it becomes."""

    file: str
    sha256: str


GRAPHS: dict[Precision, Shipped] = {
    "float32": Shipped(
        "minilm_graph.bin", "970ced3cea064cd4508bb1bd81f8460ae97e7de306c3836b04a994c64586a585"
    ),
    "int8": Shipped(
        "minilm_int8.bin", "4f1430c47aaac212e0b10fb6a5355ac813d909dbb9db8d8163b03454bdc5a846"
    ),
}

# Of a rounded weight: -128 is left out, so that a weight and its negative round alike.
LARGEST = 127
CHECKED_TEXT = (
    "Rows of numbers are multiplied in steps of eight bits. Some processors keep sums of two "
    "products in sixteen bits, and cut them off: their vectors would be others than these."
)

# Between a processor's vector of `CHECKED_TEXT` and the expected one.
LEAST_COSINE = 0.9995
# A safetensors file begins with the length of its header, little-endian.
_LENGTH_BYTES = 8


class _Gap(NamedTuple):
    """Where bytes of the weights go."""

    length: int  # bytes of the graph before it
    name: str
    transposed: bool  # whether it stands there so
    factors: int = -1  # which factors its columns had before it was rounded; -1: it is not


class _Graph(NamedTuple):
    """What a graph's first line says, and the bytes between the gaps; arrays are in base64."""

    gaps: list[_Gap]
    factors: list[str]
    checked: str
    rest: bytes


def onnx_bytes(weights: Path, precision: Precision = "float32") -> bytes:
    """Return the default model as ONNX, from its verified ``model.safetensors``."""
    file, sha256 = GRAPHS[precision]
    try:
        model = _filled(_graph(file), weights.read_bytes())
    except (ValueError, KeyError) as error:
        raise _damaged(file, str(error)) from None
    if sha256_hex(model) != sha256:
        raise _damaged(file, "other bytes")
    return model


def tensors(data: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """Return the float32 arrays of a whole safetensors file."""
    import numpy as np

    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(data[_LENGTH_BYTES:start])
    arrays = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, end = entry["data_offsets"]
            flat = np.frombuffer(data, "<f4", (end - first) // 4, start + first)
            arrays[name] = flat.reshape(entry["shape"])
    return arrays


def rounded(
    weights: npt.NDArray[np.float32], factors: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Round (inputs, outputs) times the factors (inputs,) to 8 bits, with a scale an output."""
    import numpy as np

    wide = weights * factors[:, np.newaxis]
    scales = np.abs(wide).max(axis=0) / np.float32(LARGEST)
    return np.rint(wide / scales).astype(np.int8), scales


def require_same_products(vector: F32) -> None:
    """Refuse a processor whose 8-bit products made another vector of `CHECKED_TEXT`."""
    import numpy as np

    expected = np.frombuffer(base64.b64decode(_graph(GRAPHS["int8"].file).checked), "<f4")
    if not float(vector @ expected) >= LEAST_COSINE:
        raise UnknownSetting(
            "this processor cuts off sums of 8-bit products, its vectors would be worse",
            hint=SetSetting("embeddings.precision", "float32", lasting=True),
        )


@functools.cache
def _graph(file: str) -> _Graph:
    packed = resources.files(__package__).joinpath(file).read_bytes()
    try:
        line, _, rest = zlib.decompress(packed).partition(b"\n")
        described = json.loads(line)
    except (zlib.error, ValueError) as error:
        raise _damaged(file, str(error)) from None
    if isinstance(described, list):  # of float32 there are only gaps
        described = {"gaps": described, "factors": [], "checked": ""}
    gaps = [_Gap(*row) for row in described["gaps"]]
    return _Graph(gaps, described["factors"], described["checked"], rest)


def _filled(graph: _Graph, weights: bytes) -> bytes:
    """Put the weights into the gaps of a graph."""
    import numpy as np

    factors = [np.frombuffer(base64.b64decode(text), "<f4") for text in graph.factors]
    arrays, parts, at = tensors(weights), list[bytes](), 0
    for gap in graph.gaps:
        parts.append(graph.rest[at : at + gap.length])
        array = arrays[gap.name].T if gap.transposed else arrays[gap.name]
        whole = array if gap.factors < 0 else rounded(array, factors[gap.factors])[0]
        parts.append(whole.tobytes())
        at += gap.length
    return b"".join([*parts, graph.rest[at:]])


def _damaged(name: str, problem: str) -> WeightsMismatch:
    return WeightsMismatch(
        f"{name} of this installation is damaged: {problem}",
        hint=RunProgram("pip install --force-reinstall --no-deps ragstream"),
    )
