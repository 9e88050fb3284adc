"""The sealed collection `history_main`: derived from the history catalog, never in its way."""

import json
import subprocess
import sys

import numpy as np
import pytest

from ragstream_core.conversations.journal.records import HISTORY, TagEdit, Turn
from ragstream_core.errors import GenerationGone
from ragstream_core.index.view import open_view
from ragstream_core.proposers import kept
from ragstream_core.proposers.chroma import collection, names, seal
from ragstream_core.proposers.chroma.collection import Collection
from ragstream_core.proposers.chroma.names import HISTORY_MAIN, REQUIRED
from ragstream_core.proposers.collections import COLLECTION, collection_of, compare, resting
from ragstream_core.services import history_update
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.journal import append_records
from ragstream_core.wiring.workspace import open_workspace


def opened(root, **settings):
    known = {"embeddings.backend": "hashed", "vector_store.collection": "true"}
    return open_workspace(root, explicit={**known, **settings})


def keep_up(space):
    (done,) = kept.bring_up_to_date(space, HISTORY, stores=[COLLECTION])
    return done


def say(space, n, **given):
    when = f"2026-10-{n + 1:02}T10:00:00+02:00"
    turn = Turn(f"turn-{n}", f"s{n % 2}", when, f"What is {n}?", f"Number {n * 7}.", **given)
    append_records(space, [turn])


@pytest.fixture
def space(tmp_path):
    """Four turns of two conversations, embedded."""
    made = opened(tmp_path)
    for n in range(4):
        say(made, n, tags=("GOLD",) if n == 1 else (), projects=("alpha",) if n else ())
    embed(made)
    return made


def folder(space):
    return seal.current(space.layout.history / "vectors" / HISTORY_MAIN)


def plain(space):
    """Return id → (metadata, text, vector) as a process that knows only chromadb reads them."""
    code = (
        f"import chromadb, json\nclient = chromadb.PersistentClient({str(folder(space))!r})\n"
        f"rows = client.get_collection({HISTORY_MAIN!r}, embedding_function=None)\n"
        "got = rows.get(include=['metadatas', 'documents', 'embeddings'])\n"
        "print(json.dumps([got['ids'], got['metadatas'], got['documents'], "
        "got['embeddings'].tolist()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    ids, *columns = json.loads(done.stdout.splitlines()[-1])
    return dict(zip(ids, zip(*columns, strict=True), strict=True))


def test_it_is_made_updated_and_opens_in_plain_chromadb(space):
    """R-227, R-228: only what changed is written, a new tag too; nothing is embedded."""
    first = collection_of(space, HISTORY).sync()
    assert (first.made, first.added, first.verified) == ("rebuilt", 4, 4)
    assert (first.receipt.collection, first.receipt.project) == ("history_main", HISTORY)
    rows, view = plain(space), open_view(space.layout.history_index, project=HISTORY)
    assert sorted(rows) == list(view.chunk_ids)
    for i, identifier in enumerate(view.chunk_ids):
        meta, text, vector = rows[identifier]
        assert meta.keys() >= REQUIRED
        assert identifier == f"history::{meta['session_id']}::{meta['turn_id_start']}-" + (
            f"{meta['turn_id_end']}::{meta['chunk_idx']}"
        )
        assert meta["turn"] in ("turn-0", "turn-1", "turn-2", "turn-3") and "What is" in text
        assert np.allclose(vector, view.vectors[i], atol=1e-6)
    assert [m["turn"] for m, *_ in rows.values() if m.get("tag_GOLD")] == ["turn-1"]

    say(space, 4)
    append_records(space, [TagEdit("", "turn-2", "", ("SILVER",), ())])
    assert history_update.catch_up(space).stats.embedded == 1
    assert "of generation 1, the newest is 2" in compare(space, HISTORY)[0]
    second = collection_of(space, HISTORY).sync()
    assert (second.made, second.added, second.deleted, second.verified) == ("updated", 2, 1, 5)
    assert compare(space, HISTORY) == []
    assert [m["turn"] for m, *_ in plain(space).values() if m.get("tag_SILVER")] == ["turn-2"]
    assert keep_up(space).made == "unchanged"
    assert "left for later" in resting(space, HISTORY, 600).reason


def test_a_commit_in_between_makes_it_again(space, monkeypatch):
    """Tags are read as they are: rows of one generation never get those of the next."""
    before = open_view(space.layout.history_index, project=HISTORY).generation
    with pytest.raises(GenerationGone, match="now at generation"):
        names.describer(space.layout.history_index, before - 1)
    sync, tries = Collection.sync, []

    def interrupted(collection, **given):
        tries.append(1)
        if len(tries) == 1:
            raise GenerationGone("a newer one by now")
        return sync(collection, **given)

    monkeypatch.setattr(Collection, "sync", interrupted)
    assert keep_up(space).made == "rebuilt"
    assert len(tries) == 2


def test_hundreds_of_turns_with_equal_words_and_minute_are_sealed(tmp_path):
    made = opened(tmp_path)
    when = "2026-10-05T10:00:00+02:00"
    turns = [Turn(f"turn-{n:03}", "s", when, "Is it done?", "It is done.") for n in range(300)]
    append_records(made, turns)
    embed(made)
    report = keep_up(made)
    assert (report.made, report.details["rows"], report.details["self_recall"]) == (
        "rebuilt",
        300,
        1.0,
    )
    assert keep_up(made).made == "unchanged"


def test_what_failed_is_not_tried_again_and_harms_no_turn(space, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(collection, "publish_dir", refuse)
        first = keep_up(space)
        full.setattr(collection, "ChromaProcess", None)
        again = keep_up(space)
    assert "the history was left as it was" in first.problem
    assert "not tried again" in again.problem
    assert again.next.endswith("then `ragstream index check`")
    assert keep_up(space).warning == again.warning
    say(space, 4)
    assert history_update.catch_up(space).stats.embedded == 1
    assert keep_up(space).made == "rebuilt"


def test_nothing_embedded_or_switched_off_makes_nothing(tmp_path):
    empty = opened(tmp_path)
    assert "the history has no generation yet" in keep_up(empty).reason
    assert compare(empty, HISTORY) == []
    with pytest.raises(GenerationGone, match="the history"):
        collection_of(empty, HISTORY).sync()
    off = opened(tmp_path, **{"vector_store.collection": "false"})
    assert "switched off" in keep_up(off).reason
    assert compare(off, HISTORY) == []
    assert not (off.layout.history / "vectors" / HISTORY_MAIN / "CURRENT").exists()
