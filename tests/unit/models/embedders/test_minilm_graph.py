"""The graph that ships, and the export by torch that it was taken from.

`python -m tests.unit.models.embedders.test_minilm_graph` writes the graph anew, after a change of
torch's exporter that is wanted.
"""

import json
import zlib
from pathlib import Path

import pytest

from ragstream_core.errors import WeightsMismatch
from ragstream_core.models.embedders import onnx_export, shipped_model, weights
from ragstream_core.models.embedders.shipped_model import GRAPHS
from ragstream_core.records.identity import sha256_hex

SMALLEST = 1024
"""Bytes: smaller tensors of an export may stay in the graph."""
SHIPPED = Path(shipped_model.__file__).with_name(GRAPHS["float32"].file)


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
    assert sha256_hex(exported) == GRAPHS["float32"].sha256
    assert shipped_model.onnx_bytes(source / "model.safetensors") == exported
    arrays = shipped_model.tensors((source / "model.safetensors").read_bytes())
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
        shipped_model.onnx_bytes(changed)


def test_a_damaged_graph_is_named(tmp_path, monkeypatch):
    (tmp_path / GRAPHS["float32"].file).write_bytes(SHIPPED.read_bytes()[:-9])
    monkeypatch.setattr(shipped_model.resources, "files", lambda _: tmp_path)
    monkeypatch.setattr(shipped_model, "_graph", shipped_model._graph.__wrapped__)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(WeightsMismatch, match=GRAPHS["float32"].file) as caught:
        shipped_model.onnx_bytes(tmp_path / "model.safetensors")
    assert "force-reinstall" in caught.value.hint


if __name__ == "__main__":
    folder = weights.find_default(Path("data/models"))
    weights.verify_files(folder, onnx_export.SOURCE_FILES)
    model = onnx_export.exported_bytes(folder)
    held = shipped_model.tensors((folder / "model.safetensors").read_bytes())
    SHIPPED.write_bytes(without_weights(model, held))
    print(f"{SHIPPED.name}: {SHIPPED.stat().st_size:,} bytes; ONNX_SHA256 = {sha256_hex(model)}")
