"""The graph that ships, and the export by torch that it was taken from.

`python -m tests.unit.models.embedders.test_minilm_graph` writes the graph anew, after a change of
torch's exporter that is wanted.
"""

import json
import zlib
from pathlib import Path

import pytest

from ragstream_core.errors import WeightsMismatch
from ragstream_core.models.embedders import minilm_graph, onnx_export, weights
from ragstream_core.models.embedders.minilm_graph import GRAPH_FILE, ONNX_SHA256
from ragstream_core.records.identity import sha256_hex

SMALLEST = 1024
"""Bytes: smaller tensors of an export may stay in the graph."""
SHIPPED = Path(minilm_graph.__file__).with_name(GRAPH_FILE)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return weights.find_default(tmp_path_factory.mktemp("models"))


def without_weights(model, arrays):
    """Return an export without the bytes of its weights, which are looked for in its bytes."""
    found = []
    for name, array in arrays.items():
        if array.nbytes >= SMALLEST:
            ways = [(False, array.tobytes())]
            ways += [(True, array.T.tobytes())] if array.ndim == 2 else []
            at, way, size = next(
                ((model.find(raw), way, len(raw)) for way, raw in ways if raw in model),
                (None, None, None),
            )
            if at is not None:
                assert model.find(array.tobytes(), at + 1) < 0, f"{name} stands there twice"
                found.append((at, size, name, way))
    gaps, rest, last = [], b"", 0
    for at, size, name, way in sorted(found):
        gaps.append([at - last, name, way])
        rest += model[last:at]
        last = at + size
    return zlib.compress(json.dumps(gaps).encode() + b"\n" + rest + model[last:], 9)


@pytest.mark.model
def test_the_graph_with_the_weights_is_the_export_of_torch(source):
    exported = onnx_export.exported_bytes(source)
    assert sha256_hex(exported) == ONNX_SHA256
    assert minilm_graph.onnx_bytes(source / "model.safetensors") == exported
    arrays = minilm_graph.tensors((source / "model.safetensors").read_bytes())
    assert zlib.decompress(without_weights(exported, arrays)) == zlib.decompress(
        SHIPPED.read_bytes()
    )


@pytest.mark.model
def test_other_weights_do_not_pass(source, tmp_path):
    data = bytearray((source / "model.safetensors").read_bytes())
    data[len(data) // 2] ^= 1
    changed = tmp_path / "model.safetensors"
    changed.write_bytes(data)
    with pytest.raises(WeightsMismatch, match="other bytes"):
        minilm_graph.onnx_bytes(changed)


def test_a_damaged_graph_is_named(tmp_path, monkeypatch):
    (tmp_path / GRAPH_FILE).write_bytes(SHIPPED.read_bytes()[:-9])
    monkeypatch.setattr(minilm_graph.resources, "files", lambda _: tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(WeightsMismatch, match=GRAPH_FILE) as caught:
        minilm_graph.onnx_bytes(tmp_path / "model.safetensors")
    assert "force-reinstall" in caught.value.hint


if __name__ == "__main__":
    folder = weights.find_default(Path("data/models"))
    weights.verify_files(folder, onnx_export.SOURCE_FILES)
    model = onnx_export.exported_bytes(folder)
    held = minilm_graph.tensors((folder / "model.safetensors").read_bytes())
    SHIPPED.write_bytes(without_weights(model, held))
    print(f"{SHIPPED.name}: {SHIPPED.stat().st_size:,} bytes; ONNX_SHA256 = {sha256_hex(model)}")
