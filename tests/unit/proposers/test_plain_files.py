"""The two files of a FAISS store: written whole, read back, refused when they do not fit."""

import json
import sys

import numpy as np
import pytest

from ragstream_core.errors import ExtraMissing, IntegrityError
from ragstream_core.proposers.plain import FaissStore


def unit(n):
    raw = np.random.default_rng(0).standard_normal((n, 8))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def saved(tmp_path):
    store = FaissStore(tmp_path, 8, name="docs")
    store.add([f"{i}" for i in range(20)], unit(20))
    store.delete(["3", "7"])
    store.save()
    return store


def test_both_files_are_written_and_read_back(saved, tmp_path):
    assert sorted(p.name for p in tmp_path.iterdir()) == ["docs.faiss", "docs_meta.json"]
    again = FaissStore(tmp_path, 8, name="docs")
    assert again.ids() == saved.ids()
    for row in unit(20):
        assert again.search(row, 5) == saved.search(row, 5)
    again.add(["3"], unit(4)[3:])
    assert again.search(unit(4)[3], 1)[0][0] == "3"


def test_other_tools_can_read_the_index(saved, tmp_path):
    import faiss

    index = faiss.read_index(str(tmp_path / "docs.faiss"))
    assert (index.ntotal, index.d) == (18, 8)


def test_a_save_that_was_killed_between_its_files_is_noticed(saved, tmp_path):
    old = (tmp_path / "docs_meta.json").read_bytes()
    saved.add(["new"], unit(1))
    saved.save()
    (tmp_path / "docs_meta.json").write_bytes(old)
    with pytest.raises(IntegrityError, match=r"docs\.faiss") as caught:
        FaissStore(tmp_path, 8, name="docs")
    assert "delete" in caught.value.hint


@pytest.mark.parametrize("name", ["docs.faiss", "docs_meta.json"])
def test_every_flip_and_every_cut_is_noticed(saved, tmp_path, name):
    path = tmp_path / name
    whole = path.read_bytes()
    ids = saved.ids()
    for at in range(0, len(whole), 7):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]):
            path.write_bytes(data)
            try:
                found = FaissStore(tmp_path, 8, name="docs")
            except IntegrityError:
                continue
            assert found.ids() == ids, "a change that answers differently went unnoticed"


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ExtraMissing, match="needs faiss") as caught:
        FaissStore(tmp_path, 8)
    assert "ragstream[faiss]" in caught.value.hint


def test_the_json_says_what_the_index_is(saved, tmp_path):
    meta = json.loads((tmp_path / "docs_meta.json").read_text())
    assert meta["dimension"] == 8
    assert len(meta["ids"]) == 18
