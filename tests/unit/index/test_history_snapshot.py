"""The published snapshot: what goes in comes out, once, checked, and published whole."""

import dataclasses
import threading

import numpy as np
import pytest

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import IntegrityError, OperationFailed
from ragstream_core.index import selection, snapshot
from ragstream_core.index.selection import build, encode, publish
from ragstream_core.index.snapshot import forget_snapshots, held, open_snapshot
from ragstream_core.retrieval.retriever import Retriever
from ragstream_core.text.bm25 import Bm25
from ragstream_core.text.terms import terms
from tests.history_rows import EMBEDDER, mark, row, vectors_of

ROWS = [
    row(1, tags=("GOLD", "a"), projects=("x",), active_dbs=("docs",), importance=0.5),
    row(2, source="external", prompt_key="k" * 64, versions='[{"path":"a.md","sha256":"0"}]'),
    row(3, session="other", text="[2026-10-05 14:07] user: Ä日本\ud800 and 🙂"),
    row(3, session="other", idx=1),
]


@pytest.fixture(autouse=True)
def fresh():
    forget_snapshots()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "vectors" / "history_store.arrow"


def put(path, rows=ROWS, *, cap=100, **given):
    return publish(build(rows, vectors_of(rows), mark=mark(**given), cap=cap), path)


def test_there_is_none_before_the_first(path):
    assert open_snapshot(path) is None


def test_everything_comes_back(path):
    report = put(path, seq=3)
    view = open_snapshot(path)
    view.verify()
    ids = sorted(r.chunk_id for r in ROWS)
    by_id = {r.chunk_id: r for r in ROWS}
    assert list(view.chunk_ids) == ids == [view.chunk_ids[i] for i in range(4)]
    assert list(view.paths) == [f"{by_id[i].session}/{by_id[i].seq}" for i in ids]
    assert view.paths[0] == "other/3" and view.paths[1:3] == ["other/3", "s/1"]
    assert (view.project, view.generation, view.embed_fp) == (HISTORY, 1, EMBEDDER.fingerprint)
    assert view.mark == mark(seq=3) and view.digest == report.digest
    wanted = vectors_of([by_id[i] for i in ids])
    assert view.vectors.tobytes() == wanted.tobytes()
    for chunk, identifier in zip(view.chunks(ids), ids, strict=True):
        given = by_id[identifier]
        assert (chunk.id, chunk.snippet, chunk.source) == (
            identifier, given.text, f"history/{given.session}/{given.seq}",
        )  # fmt: skip
        assert chunk.meta["tags"] == sorted(given.tags)
        assert chunk.meta["importance"] == given.importance
        assert chunk.meta["sha256"] == given.sha256
    answered = view.chunks(["history::s::2-2::0"])[0].meta
    assert answered["source"] == "external" and answered["prompt_key"] == "k" * 64
    assert answered["versions"] == [{"path": "a.md", "sha256": "0"}]
    assert view.columns.seq.tolist() == [3, 3, 1, 2]
    assert [view.columns.tags[i] for i in range(4)] == [(), (), ("GOLD", "a"), ()]
    with pytest.raises(KeyError):
        view.chunks(["history::s::9-9::0"])
    with pytest.raises(ValueError, match="read-only"):
        view.vectors[0, 0] = 1.0


def test_it_is_one_arrow_file_that_anybody_can_read(path):
    pa = pytest.importorskip("pyarrow")
    put(path)
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    assert {"chunk_id", "text", "vector", "seq", "session", "timestamp_ns", "tags", "projects",
            "active_dbs", "source", "importance", "versions", "sha256"} <= set(
        table.column_names
    )  # fmt: skip
    assert table["session"].to_pylist() == ["other", "other", "s", "s"]
    assert len(table["vector"][0].as_py()) == EMBEDDER.dimension
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_same_rows_have_the_same_digest_in_any_order(path):
    digests = {
        build(rows, vectors_of(rows), mark=mark(seq=n), cap=9).digest
        for n, rows in enumerate([ROWS, ROWS[::-1], [ROWS[2], *ROWS[:2], ROWS[3]]], 1)
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"text": "[2026-10-05 14:07] user: other"}, {"tags": ("SILVER",)}, {"projects": ()},
        {"importance": 0.25}, {"timestamp_ns": 5}, {"source": "file"}, {"session": "t"},
        {"versions": "[1]"}, {"sha256": "1"}, {"turn_id": "id-9"}, {"prompt_key": "k"},
        {"start": 1}, {"end": 1}, {"active_dbs": ("z",)}, {"terms": b""}, {"seq": 9},
        {"chunk_idx": 3}, {"seq_last": 2}, {"chunk_id": "history::s::1-1::9"},
    ],
)  # fmt: skip
def test_every_column_is_part_of_the_digest(change):
    before = build(ROWS, vectors_of(ROWS), mark=mark(), cap=9).digest
    rows = [ROWS[0]._replace(**change), *ROWS[1:]]
    assert build(rows, vectors_of(ROWS), mark=mark(), cap=9).digest != before


def test_a_vector_and_the_model_are_part_of_the_digest():
    vectors = vectors_of(ROWS)
    before = build(ROWS, vectors, mark=mark(), cap=9).digest
    other = vectors.copy()
    other[0] = -other[0]
    assert build(ROWS, other, mark=mark(), cap=9).digest != before
    model = dataclasses.replace(mark(), embed_fp="another")
    assert build(ROWS, vectors, mark=model, cap=9).digest != before


def test_the_cap_evicts_the_least_important_and_their_words_stay(path):
    rows = [row(n, importance=1.0 if n > 20 else 0.0) for n in range(1, 121)]
    report = put(path, rows, cap=100)
    view = open_snapshot(path)
    assert (report.rows, report.turns, report.evicted) == (100, 100, 20)
    assert sorted(view.columns.seq.tolist()) == list(range(21, 121))
    assert view.meta["evicted"] == 20 and view.meta["cap"] == 100


def test_a_question_that_left_still_finds_its_answer(path):
    rows = [row(1, "user: torque of the wheel bolt"), row(2, "user: 120 Nm", importance=0.1)]
    put(path, rows, cap=1)
    view = open_snapshot(path)
    assert Bm25([view.lexical]).scores(terms("wheel bolt"))[0] > 0


@pytest.mark.parametrize("dimension", [0, EMBEDDER.dimension])
def test_an_empty_history_can_be_published(path, dimension):
    put(path)
    empty = np.zeros((0, dimension), "<f4")
    report = publish(build([], empty, mark=mark(seq=9), cap=5), path)
    view = open_snapshot(path)
    view.verify()
    assert (report.rows, list(view.chunk_ids), view.mark.position.seq) == (0, [], 9)
    assert len(view.lexical.lengths) == 0 and len(view.columns) == 0
    assert Retriever(EMBEDDER).search([view], "topic", pieces=["topic"]) == []


def test_the_retriever_searches_it_like_any_index(path):
    rows = [row(n) for n in range(1, 40)]
    put(path, rows)
    view = open_snapshot(path)
    (best, *_) = Retriever(EMBEDDER).search([view], rows[4].text, pieces=[rows[4].text])
    assert best.chunk_id == rows[4].chunk_id and best.best_cosine == pytest.approx(1.0)


def test_nothing_new_is_not_written_again_and_a_new_mark_is(path):
    assert put(path).written
    first = path.stat()
    again = put(path)
    assert not again.written and path.stat().st_ino == first.st_ino
    assert again.size == first.st_size
    moved = put(path, seq=7)
    assert moved.written and moved.digest == again.digest
    assert open_snapshot(path).mark.position.seq == 7


def test_a_view_stays_as_it_was_opened(path):
    put(path)
    old = open_snapshot(path)
    assert open_snapshot(path) is old
    put(path, ROWS[:1], seq=2)
    new = open_snapshot(path)
    assert new is not old and held(old.digest) is old and held(new.digest) is new
    old.verify()
    assert len(old.chunk_ids) == 4 and len(new.chunk_ids) == 1
    assert old.chunks(["history::s::2-2::0"])[0].snippet == ROWS[1].text


def test_old_staging_files_are_swept_and_a_reader_never_sees_one(path):
    put(path)
    litter = path.parent / f".{path.name}.abc.tmp"
    litter.write_bytes(b"half")
    put(path, ROWS[:2])
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_readers_beside_a_publisher_see_old_or_new(path):
    put(path)
    digests = {n: build(ROWS[:n], vectors_of(ROWS[:n]), mark=mark(), cap=9).digest for n in (1, 4)}
    seen, stop = set(), threading.Event()

    def read():
        while not (stop.is_set() and seen):
            forget_snapshots()
            view = open_snapshot(path)
            view.verify()
            seen.add((view.digest, len(view.chunk_ids)))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(40):
        put(path, ROWS[: 1 if n % 2 else 4], seq=n + 1)
    stop.set()
    reader.join()
    assert seen and seen <= {(digests[1], 1), (digests[4], 4)}


def test_a_damaged_text_is_refused_when_it_is_loaded(path):
    put(path)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"turn 2 speaks")
    raw[at] ^= 1
    path.write_bytes(raw)
    forget_snapshots()
    view = open_snapshot(path)
    with pytest.raises(IntegrityError, match="does not have its hash") as caught:
        view.chunks(["history::s::2-2::0"])
    assert "ragstream history backfill" in caught.value.hint
    with pytest.raises(IntegrityError, match="digest"):
        view.verify()
    assert put(path).written
    open_snapshot(path).verify()


@pytest.mark.parametrize("data", [b"", b"ARROW1\0\0", b"no arrow at all", b"ARROW1" * 100])
def test_what_is_no_snapshot_is_refused_and_published_again(path, data):
    put(path)
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="history_store.arrow") as caught:
        open_snapshot(path)
    assert "backfill" in caught.value.hint
    assert put(path).written
    open_snapshot(path).verify()


def test_another_arrow_file_and_another_format_are_refused(path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    path.parent.mkdir()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([])):
        pass
    with pytest.raises(IntegrityError):
        open_snapshot(path)
    for name, value in (("version", 99), ("lexical", "other-rules")):
        with monkeypatch.context() as patch:
            patch.setitem(snapshot.STAMP, name, value)
            data = encode(build(ROWS, vectors_of(ROWS), mark=mark(), cap=9))
        path.unlink()
        path.write_bytes(data)
        with pytest.raises(IntegrityError, match=f"of {name} {value}, this program reads"):
            open_snapshot(path)
    assert put(path).written


def test_a_full_disk_leaves_the_old_one(path, monkeypatch):
    put(path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(selection, "replace_bytes", full)
    with pytest.raises(OperationFailed, match="history_store.arrow"):
        put(path, ROWS[:1])
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", [b'"cap":100', b'"generation":1', b'"seq":1', b'"evicted":0'])
def test_what_the_file_says_of_itself_is_sealed(path, what):
    put(path)
    raw = path.read_bytes()
    at = raw.rindex(what) + len(what) - 1
    path.unlink()
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    with pytest.raises(IntegrityError, match="description is damaged"):
        open_snapshot(path)
