from __future__ import annotations

import pytest

from ragstream_core.errors import ModelMismatch, UnknownSetting, UsageError
from ragstream_core.index.lock import Stamp
from ragstream_core.vector_stores import registry
from ragstream_core.vector_stores.exact import ExactStore
from ragstream_core.vector_stores.registry import StoreOptions, create_vector_store


@pytest.fixture
def options(tmp_path):
    return StoreOptions(tmp_path, 4, embed_fp="1" * 64, model="m")


@pytest.fixture
def toy():
    class Toy(ExactStore):
        def __init__(self, dimension, model):
            super().__init__(dimension)
            self.given = (dimension, model)

    registry.register_vector_store("toy", Toy)
    yield Toy
    registry.unregister_vector_store("toy")


def test_a_registered_store_is_selected_by_name(toy, options):
    made = create_vector_store("toy", options)
    assert isinstance(made, toy)
    assert made.given == (4, "m")
    assert "toy" in registry.vector_stores()
    for taken in ("toy", "exact", "catalog"):
        with pytest.raises(UsageError, match="exists"):
            registry.register_vector_store(taken, toy)


def test_an_import_path_is_selected(options):
    for path in (
        "ragstream_core.vector_stores.exact:ExactStore",
        "ragstream_core.vector_stores.exact.ExactStore",
    ):
        registry.check_vector_store(path)
        assert isinstance(create_vector_store(path, options), ExactStore)


@pytest.mark.parametrize(
    "bad", [dict, "text", type("Half", (), {"add": len}), lambda depth: 0, lambda folder, /: 0]
)
def test_what_is_no_store_is_refused_at_registration(bad):
    with pytest.raises(UsageError):
        registry.register_vector_store("bad", bad)
    assert "bad" not in registry.vector_stores()


def test_what_a_function_returns_is_checked_at_creation(options):
    registry.register_vector_store("bad", lambda: object())
    try:
        with pytest.raises(UsageError, match="VectorStore port: add"):
            create_vector_store("bad", options)
    finally:
        registry.unregister_vector_store("bad")


@pytest.mark.parametrize("path", ["no.such:thing", "ragstream_core.vector_stores.exact:Nothing"])
def test_paths_that_lead_nowhere(path, options):
    for use in (
        lambda: registry.check_vector_store(path),
        lambda: create_vector_store(path, options),
    ):
        with pytest.raises(UnknownSetting, match="import"):
            use()


def test_a_class_of_something_else_is_refused_at_start():
    with pytest.raises(UsageError, match="does not satisfy"):
        registry.check_vector_store("collections:Counter")
    with pytest.raises(UnknownSetting, match="catalog, chroma, exact, faiss"):
        registry.check_vector_store("nothing")


def test_stamps():
    mine = Stamp("a" * 64, "mine", 4)
    mine.require(mine, what="store")
    mine.require(Stamp("a" * 64), what="store")
    for other in (Stamp("b" * 64, "theirs", 4), Stamp("a" * 64, "theirs", 5), Stamp()):
        with pytest.raises(ModelMismatch, match="mine") as caught:
            mine.require(other, what="the store", project="demo")
        assert caught.value.hint == "ragstream ingest demo --rebuild"
    assert Stamp.of(mine.to_json()) == mine
