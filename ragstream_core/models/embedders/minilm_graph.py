"""The default model as ONNX: its graph ships with this package, its weights are put into it.

`minilm_graph.bin` is the file that torch's exporter makes of all-MiniLM-L6-v2, without the bytes
of the weights. Put back from the verified weights, they give the same file to the byte, and
neither torch nor onnx is needed. A test makes the export with torch again and compares;
``python -m tests.unit.models.embedders.test_minilm_graph`` writes the graph anew.
"""

from __future__ import annotations

import json
import zlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import RunProgram, WeightsMismatch
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GRAPH_FILE = "minilm_graph.bin"
ONNX_SHA256 = "970ced3cea064cd4508bb1bd81f8460ae97e7de306c3836b04a994c64586a585"
"""Of the whole file."""
_LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header, little-endian."""


def onnx_bytes(weights: Path) -> bytes:
    """Return the default model as ONNX."""
    packed = resources.files(__package__).joinpath(GRAPH_FILE).read_bytes()
    try:
        made = _filled(zlib.decompress(packed), weights.read_bytes())
    except (zlib.error, ValueError, KeyError) as error:
        raise damaged(GRAPH_FILE, str(error)) from None
    if sha256_hex(made) != ONNX_SHA256:
        raise damaged(GRAPH_FILE, "other bytes")
    return made


def tensors(data: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """Return the float32 arrays of a safetensors file."""
    import numpy as np

    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(data[_LENGTH_BYTES:start])
    found = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, end = entry["data_offsets"]
            flat = np.frombuffer(data, "<f4", (end - first) // 4, start + first)
            found[name] = flat.reshape(entry["shape"])
    return found


def _filled(graph: bytes, weights: bytes) -> bytes:
    """Put the weights into the gaps of the graph."""
    described, _, rest = graph.partition(b"\n")
    arrays = tensors(weights)
    parts: list[bytes] = []
    at = 0
    for length, name, transposed in json.loads(described):
        parts.append(rest[at : at + length])
        parts.append((arrays[name].T if transposed else arrays[name]).tobytes())
        at += length
    return b"".join([*parts, rest[at:]])


def damaged(name: str, problem: str) -> WeightsMismatch:
    """Return the error of a graph that is not what was installed."""
    return WeightsMismatch(
        f"{name} of this installation is damaged: {problem}",
        hint=RunProgram("pip install --force-reinstall --no-deps ragstream"),
    )
