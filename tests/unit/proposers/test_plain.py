import pytest

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.proposers.plain import (
    MADE_FROM_AN_INDEX,
    VECTOR_STORES,
    ExactStore,
    StoreOptions,
    create_vector_store,
)


@pytest.fixture
def options(tmp_path):
    return StoreOptions(tmp_path, 4, embed_fp="1" * 64, model="m")


@pytest.fixture
def toy():
    class Toy(ExactStore):
        def __init__(self, dimension, model):
            super().__init__(dimension)
            self.given = (dimension, model)

    VECTOR_STORES.register("toy", Toy)
    yield Toy
    VECTOR_STORES.unregister("toy")


def test_a_registered_store_is_selected_by_name(toy, options):
    made = create_vector_store("toy", options)
    assert isinstance(made, toy)
    assert made.given == (4, "m")
    assert "toy" in VECTOR_STORES.names()
    for taken in ("toy", "exact", "catalog"):
        with pytest.raises(UsageError, match="exists"):
            VECTOR_STORES.register(taken, toy)


def test_what_is_no_store_is_refused(options):
    for use in (VECTOR_STORES.check, lambda name: create_vector_store(name, options)):
        with pytest.raises(UsageError, match="VectorStore port: add, delete, search, ids missing"):
            use("builtins:object")
        with pytest.raises(UnknownSetting) as caught:
            use("nothing")
        assert caught.value.hint.endswith(
            "one of catalog, chroma, exact, faiss, faiss_ivf, pgvector"
        )


def test_what_is_made_from_an_index_is_selected_by_name_and_filled_by_nobody(options):
    for name in MADE_FROM_AN_INDEX:
        VECTOR_STORES.check(name)
        with pytest.raises(UsageError, match="made from an index") as caught:
            create_vector_store(name, options)
        assert f"retrieval.store={name}" in caught.value.hint
