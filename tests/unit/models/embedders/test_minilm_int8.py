"""The graph with products of 8 bits: that it can be made again, and what its vectors are.

`python -m tests.unit.models.embedders.test_minilm_int8` writes the graph anew, with the factors
that it has; with the argument ``--choose`` it chooses factors on the pages of the handbook.
"""

import base64
import itertools
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import UnknownSetting, UsageError, WeightsMismatch
from ragstream_core.models.embedders import onnx_encoder, onnx_export, shipped_model, weights
from ragstream_core.models.embedders.registry import (
    EmbeddingOptions,
    create_embeddings,
    embed_fingerprint,
)
from ragstream_core.models.embedders.shipped_model import GRAPHS, onnx_bytes, tensors
from ragstream_core.records.identity import sha256_hex

SHIPPED = Path(shipped_model.__file__).with_name(GRAPHS["int8"].file)
LOWEST_GELU = 0.17
"""GELU is never below minus this; added, its rows need no sign."""
POWERS = {"self": 0.65, "attention/output": 0.5, "intermediate": 0.6, "output": 0.5}
"""How much of the differences between columns goes into the weights, by kind of product."""


def kind_of(node):
    """Return the key of `POWERS` for a product."""
    return next(kind for kind in POWERS if f"/{kind}/" in node.name)


def products(graph):
    """Return the products with weights, by their input, in order."""
    held = {each.name for each in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in held:
            found.setdefault(node.input[0], []).append(node)
    return found


class Maker:
    """Puts products of 8 bits into the exported graph."""

    def __init__(self, model, factors):
        from onnx import numpy_helper

        self.model, self.graph, self.factors = model, model.graph, factors
        self.held = {each.name: each for each in self.graph.initializer}
        self.arrays = {k: numpy_helper.to_array(each) for k, each in self.held.items()}
        self.users, self.replaced, self.gone, self.made = {}, {}, set(), []
        for node in self.graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)

    def run(self):
        """Change the model."""
        from onnx import helper

        self.without_mask()
        groups = zip(products(self.graph).items(), self.factors, strict=True)
        for group, ((x, nodes), factors) in enumerate(groups):
            self.input_of(x, nodes, factors)
            for node in nodes:
                self.made.append((self.product(x, node, factors), node.input[1], group))
        kept = [n for n in self.graph.node if id(n) not in self.gone]
        kept = list(itertools.chain(*(self.replaced.get(id(n), [n]) for n in kept)))
        del self.graph.node[:]
        self.graph.node.extend(needed(kept, [o.name for o in self.graph.output]))
        used = {name for node in self.graph.node for name in node.input}
        for each in list(self.graph.initializer):
            if each.name not in used:
                self.graph.initializer.remove(each)
        for each in list(self.graph.input):
            if each.name not in used:
                self.graph.input.remove(each)
        self.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return self.model.SerializeToString(deterministic=True)

    def without_mask(self):
        """One text a call has no padding: nothing is added to the scores."""
        made_by = {name: node for node in self.graph.node for name in node.output}
        for node in self.graph.node:
            if node.op_type == "Softmax":
                added = made_by[node.input[0]]
                (node.input[0],) = [
                    name for name in added.input if made_by[name].op_type in ("Mul", "Div")
                ]

    def constant(self, name, array):
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def input_of(self, x, nodes, factors):
        """Divide the input of products by columns and by rows, and round it."""
        from onnx import helper

        inverse = self.constant(f"{x}_inverse", (1 / factors).astype(np.float32))
        made = [helper.make_node("Mul", [x, inverse], [f"{x}_even"])]
        if kind_of(nodes[0]) == "output":
            shift = self.constant(f"{x}_shift", shift_of(factors))
            made.append(helper.make_node("Add", [f"{x}_even", shift], [f"{x}_up"]))
            top, at, scale, zero = f"{x}_up", f"{x}_up", 1 / 255, 0
        else:
            made.append(helper.make_node("Abs", [f"{x}_even"], [f"{x}_abs"]))
            top, at, scale, zero = f"{x}_abs", f"{x}_even", 1 / 127, 128
        step = self.constant(f"{x}_step", np.float32(scale))
        middle = self.constant(f"{x}_zero", np.uint8(zero))
        made += [
            helper.make_node("ReduceMax", [top], [f"{x}_top"], axes=[-1], keepdims=1),
            helper.make_node("Div", [at, f"{x}_top"], [f"{x}_share"]),
            helper.make_node("QuantizeLinear", [f"{x}_share", step, middle], [f"{x}_8bit"]),
        ]
        self.replaced[id(nodes[0])] = made

    def product(self, x, node, factors):
        """Replace a product and the addition of its bias; return the rounded weights."""
        from onnx import helper

        name = node.input[1]
        numbers, scales = shipped_model.rounded(self.arrays[name], factors)
        (add,) = self.users[node.output[0]]
        (bias_name,) = [each for each in add.input if each in self.arrays]
        bias = self.arrays[bias_name].astype(np.float64)
        if kind_of(node) == "output":
            bias = bias - shift_of(factors).astype(np.float64) @ (
                numbers.astype(np.float64) * scales.astype(np.float64)
            )
        out = add.output[0]
        given_ = [f"{x}_8bit", self.constant(f"{name}_8bit", numbers), f"{x}_step",
                  self.constant(f"{name}_scales", scales), f"{x}_zero"]  # fmt: skip
        added = self.constant(f"{name}_bias", bias.astype(np.float32))
        self.gone.add(id(add))
        self.replaced.setdefault(id(node), []).extend(
            [
                helper.make_node(
                    "MatMulIntegerToFloat", given_, [f"{out}_a"], domain="com.microsoft"
                ),
                helper.make_node("Mul", [f"{out}_a", f"{x}_top"], [f"{out}_b"]),
                helper.make_node("Add", [f"{out}_b", added], [out]),
            ]
        )
        return numbers


def shift_of(factors):
    """Return what lifts the rows behind GELU to 0 and above."""
    return (np.float32(LOWEST_GELU) / factors).astype(np.float32)


def needed(nodes, outputs):
    """Return the nodes that the outputs depend on."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]


def made_with(source, factors):
    """Return the model as ONNX, and of each product the rounded weights, their name and factors."""
    import onnx

    maker = Maker(onnx.load_from_string(onnx_bytes(source / "model.safetensors")), factors)
    return maker.run(), maker.made


def chosen_factors(source, texts):
    """Choose factors on token ids of some texts."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_from_string(onnx_bytes(source / "model.safetensors"))
    found = products(model.graph)
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for name in found:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    largest = dict.fromkeys(found, np.float32(0))
    for ids in texts:
        row = np.array([[101, *ids, 102]])
        feed = dict(zip(onnx_export.INPUT_NAMES, (row, row * 0 + 1, row * 0), strict=True))
        for name, rows in zip(found, session.run(list(found), feed), strict=True):
            largest[name] = np.maximum(largest[name], np.abs(rows[0]).max(axis=0))
    made = []
    for name, nodes in found.items():
        power = POWERS[kind_of(nodes[0])]
        column = np.max([np.abs(arrays[n.input[1]]).max(axis=1) for n in nodes], axis=0)
        even = np.maximum(largest[name], 1e-5) ** power / np.maximum(column, 1e-5) ** (1 - power)
        made.append((even / np.exp(np.log(even).mean())).astype(np.float32))
    return made


def packed(model, numbers, source, factors, checked):
    """Return the shipped file: the model without its large weights."""
    arrays = tensors((source / "model.safetensors").read_bytes())
    found = []
    for name, array in arrays.items():
        if array.nbytes >= 1 << 16 and (at := model.find(array.tobytes())) >= 0:
            found.append((at, array.nbytes, name, False, -1))
    tensors_by_bytes = {a.T.tobytes(): name for name, a in arrays.items() if a.ndim == 2}
    exported = exported_weights(source)
    for array, name, group in numbers:
        at, tensor = model.find(array.tobytes()), tensors_by_bytes[exported[name].tobytes()]
        found.append((at, array.nbytes, tensor, True, group))
    gaps, rest, last = [], b"", 0
    for at, size, name, way, factor in sorted(found):
        gaps.append((at - last, name, way, factor))
        rest, last = rest + model[last:at], at + size
    texts = [base64.b64encode(each.astype("<f4").tobytes()).decode() for each in factors]
    line = {"gaps": gaps, "factors": texts,
            "checked": base64.b64encode(checked.astype("<f4").tobytes()).decode()}  # fmt: skip
    return zlib.compress(json.dumps(line).encode() + b"\n" + rest + model[last:], 9)


def exported_weights(source):
    """Return the weights of products as the export has them."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load_from_string(onnx_bytes(source / "model.safetensors")).graph
    wanted = {n.input[1] for nodes in products(graph).values() for n in nodes}
    return {e.name: numpy_helper.to_array(e) for e in graph.initializer if e.name in wanted}


def shipped_line():
    """Return what the shipped file says of itself."""
    return json.loads(zlib.decompress(SHIPPED.read_bytes()).partition(b"\n")[0])


def shipped_factors():
    """Return the factors of the shipped file."""
    return [np.frombuffer(base64.b64decode(each), "<f4") for each in shipped_line()["factors"]]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return weights.find_default(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def embedders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    opened = onnx_encoder.open_model
    return opened(folder, workers=1), opened(folder, precision="int8", workers=3), folder


@pytest.mark.model
def test_the_graph_with_the_weights_is_what_its_maker_makes(source):
    pytest.importorskip("onnx")
    model, numbers = made_with(source, shipped_factors())
    assert sha256_hex(model) == GRAPHS["int8"].sha256
    assert shipped_model.onnx_bytes(source / "model.safetensors", "int8") == model
    checked = np.frombuffer(base64.b64decode(shipped_line()["checked"]), "<f4")
    again = packed(model, numbers, source, shipped_factors(), checked)
    assert zlib.decompress(again) == zlib.decompress(SHIPPED.read_bytes())


def test_a_damaged_graph_is_named(tmp_path, monkeypatch):
    (tmp_path / GRAPHS["int8"].file).write_bytes(SHIPPED.read_bytes()[:-9])
    monkeypatch.setattr(shipped_model.resources, "files", lambda _: tmp_path)
    monkeypatch.setattr(shipped_model, "_graph", shipped_model._graph.__wrapped__)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(WeightsMismatch, match=GRAPHS["int8"].file) as caught:
        shipped_model.onnx_bytes(tmp_path / "model.safetensors", "int8")
    assert "force-reinstall" in caught.value.hint


@pytest.mark.model
def test_vectors_are_close_to_those_of_float32(embedders):
    exact, int8, _ = embedders
    texts = [shipped_model.CHECKED_TEXT, "a", "", "def f(x): return x", "Größe 漢字 🙂 " * 40]
    cosines = np.sum(exact.embed_documents(texts) * int8.embed_documents(texts), axis=1)
    assert cosines.min() > 0.99
    assert int8.fingerprint != exact.fingerprint
    assert (exact.precision, int8.precision) == ("float32", "int8")


@pytest.mark.model
@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(max_size=200), min_size=1, max_size=3), st.data())
def test_a_vector_depends_on_its_text_alone(embedders, texts, data):
    _, int8, _ = embedders
    others = data.draw(st.permutations([*texts, "another text", *texts]))
    alone = {text: int8.embed_documents([text]).tobytes() for text in texts}
    for text, row in zip(others, int8.embed_documents(others), strict=True):
        if text in alone:
            assert row.tobytes() == alone[text]


@pytest.mark.model
def test_a_processor_of_any_kind_makes_the_same_vector(embedders):
    """Without VNNI x86 would cut off sums of products: there the weights are made unsigned."""
    expected = np.frombuffer(base64.b64decode(shipped_line()["checked"]), "<f4")
    found = embedders[1].embed_documents([shipped_model.CHECKED_TEXT])[0]
    assert np.abs(found - expected).max() < 1e-5


@pytest.mark.model
def test_a_processor_with_other_products_is_refused(embedders):
    shipped_model.require_same_products(
        embedders[1].embed_documents([shipped_model.CHECKED_TEXT])[0]
    )
    other = embedders[1].embed_documents(["something else"])[0]
    with pytest.raises(UnknownSetting, match="cuts off sums") as caught:
        shipped_model.require_same_products(other)
    assert "float32" in caught.value.hint


def test_int8_is_there_for_the_default_model_alone(tmp_path):
    wrong = [("onnx", "other/model"), ("hashed", weights.DEFAULT_MODEL)]
    for backend, model in wrong:
        for call in (create_embeddings, embed_fingerprint):
            with pytest.raises(UsageError, match="int8") as caught:
                call(
                    backend,
                    EmbeddingOptions(model=model, models_dir=tmp_path, precision="int8"),
                )
            assert "embeddings.precision" in caught.value.hint


if __name__ == "__main__":
    folder = weights.find_default(Path("data/models"))
    weights.verify_files(folder, onnx_export.SOURCE_FILES)
    held = shipped_factors() if "--choose" not in sys.argv else []
    if not held:
        from tests.benchmarks.bench_encoder import chunks

        encoder = onnx_encoder.open_model(Path("data/models"), workers=1)
        held = chosen_factors(
            folder, [encoder._windows(text)[0] for text in chunks(encoder.token_offsets)[::2]]
        )
    made, rounded_weights = made_with(folder, held)
    once = packed(made, rounded_weights, folder, held, np.zeros(384, np.float32))
    place = Path("data/models/int8-new")
    place.mkdir(parents=True, exist_ok=True)
    (place / onnx_export.MODEL_FILE).write_bytes(made)
    (place / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    new = onnx_encoder.OnnxEmbedder(
        place, onnx_encoder.fingerprints.DEFAULT_RECIPE, name="new", fingerprint="new"
    )
    vector = new.embed_documents([shipped_model.CHECKED_TEXT])[0]
    SHIPPED.write_bytes(packed(made, rounded_weights, folder, held, vector))
    print(f"{SHIPPED.name}: {SHIPPED.stat().st_size:,} bytes; ONNX_SHA256 = {sha256_hex(made)}")
