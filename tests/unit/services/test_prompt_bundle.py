"""A bundle replays in an empty data root, and one that was changed is refused whole."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import (
    GenerationGone,
    InputUnavailable,
    IntegrityError,
    RagstreamError,
    UsageError,
)
from ragstream_core.index.snapshot import forget_snapshots
from ragstream_core.prompts import bundle_format
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_bundle, write_bundle
from ragstream_core.services.trace import trace
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, ingested_workspace, write_docs

QUESTION = (
    "The catalog is a SQLite database: must other writers wait for the project lock, and what does "
    "settings.yaml say?"
)


@pytest.fixture
def space(tmp_path):
    return ingested_workspace(tmp_path / "one")


@pytest.fixture
def empty(tmp_path):
    return hashed_workspace(tmp_path / "two")


def bundled(space, tmp_path, projects=("demo",), text=QUESTION, **more):
    prompt = run_prompt(
        space, pin_inputs(space, PromptRequest(text=text, projects=projects, **more))
    )
    key = save_prompt(space, prompt).prompt_key
    write_bundle(space, key, tmp_path / "p.bundle")
    return key, tmp_path / "p.bundle"


def test_what_a_prompt_does_not_show_of_a_conversation_stays_at_home(space, tmp_path):
    for n in range(4):
        when = f"2026-10-01T10:00:0{n}+00:00"
        append_turn(space, Turn("", "talk", when, f"Question {n}?", f"Secret answer {n}."))
    path = bundled(space, tmp_path, settings={"prompt.recent_history": False})[1]
    assert b"Secret answer 2" not in path.read_bytes()
    assert b"Secret answer 2" in bundled(space, tmp_path)[1].read_bytes()


def test_it_replays_where_nothing_of_it_ever_was(space, empty, tmp_path):
    (tmp_path / "one" / "doc_raw" / "demo" / "catalog.md").write_text("# Other\n\nOther.\n")
    ingest_project(space, "demo")  # generation 2 replaced a file of the first
    key, path = bundled(space, tmp_path, as_of=1)
    assert path.stat().st_mode & 0o777 == 0o600
    found, verdict = replay_bundle(empty, path)
    assert (found, verdict.verdict) == (key, "identical"), verdict
    assert [p.name for p in empty.data_dir.iterdir()] == ["models"]
    first = path.read_bytes()
    write_bundle(space, key, path)
    assert path.read_bytes() == first


def test_it_replays_in_another_process_after_the_first_machine_is_gone(space, tmp_path):
    key, path = bundled(space, tmp_path)
    (tmp_path / "one").rename(tmp_path / "gone")
    code = (
        "import sys; from pathlib import Path; from ragstream_core.wiring.workspace import *;"
        "from ragstream_core.services.replay import replay_bundle;"
        "w = open_workspace(sys.argv[1], explicit={'embeddings.backend': 'hashed'});"
        "print(replay_bundle(w, Path(sys.argv[2]), key=sys.argv[3]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "two"), str(path), key[:8]],
        capture_output=True, text=True, env=dict(os.environ), check=True,
    )  # fmt: skip
    assert "verdict='identical'" in done.stdout


def test_several_projects_a_lock_and_settings_changed_on_the_way(space, empty, tmp_path):
    write_docs(tmp_path / "one", "other", {"a.md": "# A\n\nOther writers must wait as well.\n"})
    ingest_project(space, "other")
    for more in ({}, {"lock": True, "files": ("demo/settings.yaml",)}, {"off": ("other/a.md",)}):
        key, path = bundled(space, tmp_path, projects=("demo", "other"), **more)
        assert replay_bundle(empty, path)[1].verdict == "identical"


def say(space, user, assistant, day=1):
    when = f"2026-10-{day:02d}T10:00:00+00:00"
    return append_turn(space, Turn("", "talk", when, user, assistant))


def test_what_the_prompt_saw_of_the_conversation_travels_with_it(space, empty, tmp_path):
    said = "Must other writers wait for the project lock? The robot named Pegasus holds it."
    say(space, "Which project lock do other writers wait for?", said)
    for n in range(8):
        say(space, f"Small talk {n}", f"Weather and lunch {n}.", day=2)
    embed(space)
    key, path = bundled(space, tmp_path, session="talk")
    ledger = {row.chunk_id for row in KeptPrompt.of(space, key).ledger}
    assert any(i.startswith("history::") for i in ledger)
    say(space, "A secret later", "It stays at home.", day=3)
    embed(space)  # another selection is published meanwhile
    forget_snapshots()
    write_bundle(space, key, path)
    data = path.read_bytes()
    assert b"Small talk 7" in data and b"A secret later" not in data
    forget_snapshots()
    assert replay_bundle(empty, path)[1].verdict == "identical"
    forged(path, lambda parts: parts.update({"history/journal": parts["history/journal"][:-9]}))
    forget_snapshots()
    assert replay_bundle(empty, path)[1].verdict == "input unavailable"
    one = next(i for i in ledger if i.startswith("history::"))
    found = trace(space, one, key)
    assert (found.kind, found.session_id, found.now) == ("turn", "talk", "current")


def test_turns_that_are_not_theirs_are_refused(space, empty, tmp_path):
    say(space, "Which project lock do other writers wait for?", "The lock of the project.")
    for n in range(8):
        say(space, f"Small talk {n}", f"Weather and lunch {n}.", day=2)
    embed(space)
    _, path = bundled(space, tmp_path, session="talk")

    def flip(parts):
        data = bytearray(parts["history/snapshot"])
        data[len(data) // 3] ^= 1
        parts["history/snapshot"] = bytes(data)

    forged(path, flip)
    forget_snapshots()
    with pytest.raises(IntegrityError):
        replay_bundle(empty, path)


def test_what_cannot_travel_is_refused_before_anything_is_written(space, tmp_path):
    key, path = bundled(space, tmp_path)
    path.unlink()
    with pytest.raises(UsageError, match="is a folder"):
        write_bundle(space, key, tmp_path)
    for blob in (space.store.root / "blobs").iterdir():
        kept = blob.read_bytes()
        blob.unlink()
        with pytest.raises(UsageError, match="not kept"):
            write_bundle(space, key, path)
        blob.write_bytes(kept)
    for file in (tmp_path / "one" / "index" / "demo").glob("catalog*"):
        file.unlink()
    with pytest.raises(GenerationGone):
        write_bundle(space, key, path)
    assert not path.exists()


def test_a_store_that_is_no_function_of_the_rows_does_not_travel(space, tmp_path):
    from ragstream_core.prompts.bundle_format import require_exact

    inputs = pin_inputs(space, PromptRequest(text=QUESTION, projects=("demo",)))
    require_exact(inputs)
    for changes in ({"models": {"store": "chroma abc"}},
                    {"settings": {"retrieval": {"store": "evil:Store"}}},
                    {"changes": (("retrieval", "retrieval.store", "evil:Store"),)}):  # fmt: skip
        with pytest.raises(InputUnavailable):
            require_exact(dataclasses.replace(inputs, **changes))


def test_another_model_here_is_a_named_difference(space, tmp_path):
    _, path = bundled(space, tmp_path)
    other = hashed_workspace(tmp_path / "two", {"embeddings.model": "other"})
    _, verdict = replay_bundle(other, path)
    assert verdict.verdict in ("environment differs", "identical")


# --- hostile bundles: every one keeps its seal, so only what is read afterwards can refuse it


def forged(path, change, *, key=""):
    """Write a bundle again, its parts changed, with true digests and a true seal."""
    found = bundle_format.unpack(path.read_bytes())
    parts = {name: bytes(part) for name, part in found.parts.items()}
    change(parts)
    path.write_bytes(bundle_format.pack(key or found.prompt_key, parts))


def lines(parts, name, edit):
    rows = [json.loads(line) for line in parts[name].splitlines()]
    parts[name] = b"".join(json.dumps(row).encode() + b"\n" for row in edit(rows))


def record(parts, edit):
    data = json.loads(parts["record"])
    edit(data)
    parts["record"] = json.dumps(data).encode()


def sealed_record(parts, edit):
    """Change the record and compute its keys again, as somebody would who knows how."""
    from ragstream_core.records.identity import digest_of

    def whole(data):
        edit(data)
        data["input_key"] = digest_of(data["inputs"])
        data["prompt_key"] = digest_of([data["input_key"], [], [], data["output_sha256"]])

    record(parts, whole)
    return json.loads(parts["record"])["prompt_key"]


CHUNKS, TEXTS, FILES = (f"index/demo/{kind}" for kind in ("chunks", "texts", "files"))
HEAD, VECTORS = "index/demo/generation", "index/demo/vectors"


def other_text(rows):
    text = rows[0][2] + " Trust me."
    return [[hashlib.sha256(text.encode()).hexdigest(), rows[0][1], text], *rows[1:]]


HOSTILE = {
    "no record": lambda p: p.pop("record"),
    "no chunks": lambda p: p.pop(CHUNKS),
    "a part too much": lambda p: p.update({"history/journal": b""}),
    "a blob too much": lambda p: p.update({"blobs/" + "1" * 64: b"x"}),
    "a project too much": lambda p: p.update({"index/more/chunks": b""}),
    "another output": lambda p: record(p, lambda r: r.update(output_sha256="0" * 64)),
    "another setting": lambda p: record(p, lambda r: r["inputs"].update(now="then")),
    "a record that is a list": lambda p: p.update({"record": b"[]"}),
    "a record of another version": lambda p: record(p, lambda r: r.update(version=99)),
    "a text with another hash": lambda p: lines(p, TEXTS, lambda r: [[*r[0][:2], "x"], *r[1:]]),
    "a text nobody has": lambda p: lines(p, TEXTS, other_text),
    "a text that is a number": lambda p: lines(p, TEXTS, lambda r: [[*r[0][:2], 7], *r[1:]]),
    "a chunk less": lambda p: lines(p, CHUNKS, lambda r: r[1:]),
    "a chunk twice": lambda p: lines(p, CHUNKS, lambda r: [*r, r[0]]),
    "a chunk elsewhere": lambda p: lines(p, CHUNKS, lambda r: [[r[0][0], "../x", *r[0][2:]],
                                                               *r[1:]]),
    "a chunk with a float": lambda p: lines(p, CHUNKS, lambda r: [[*r[0][:3], 0.5, *r[0][4:]],
                                                                  *r[1:]]),
    "a huge number": lambda p: lines(p, CHUNKS, lambda r: [[*r[0][:3], 1 << 80, *r[0][4:]],
                                                           *r[1:]]),
    "a file less": lambda p: lines(p, FILES, lambda r: r[1:]),
    "a vector less": lambda p: p.update({VECTORS: p[VECTORS][:-4]}),
    "vectors that are no numbers": lambda p: p.update({VECTORS: b"\xff" * len(p[VECTORS])}),
    "vectors of no length": lambda p: p.update({VECTORS: b"\0" * len(p[VECTORS])}),
    "another model": lambda p: p.update(
        {HEAD: json.dumps({**json.loads(p[HEAD]), "embed_fp": "x"}).encode()}),
    "a huge dimension": lambda p: p.update(
        {HEAD: json.dumps({**json.loads(p[HEAD]), "dimension": 1 << 40}).encode()}),
    "deep rows": lambda p: p.update({CHUNKS: b"[" * 100_000 + b"\n"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_changed_part_is_refused_though_every_digest_is_right(space, empty, tmp_path, name,
                                                                monkeypatch):  # fmt: skip
    _, path = bundled(space, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    forged(path, HOSTILE[name])
    with pytest.raises(RagstreamError) as error:
        replay_bundle(empty, path)
    assert isinstance(error.value, IntegrityError)
    assert list((tmp_path / "temp").iterdir()) == []


FORGED = {
    "a store from anywhere": lambda r: r["inputs"]["settings"]["retrieval"].update(store="os:x"),
    "a model by path": lambda r: r["inputs"]["settings"]["rerank"].update(model="../../evil"),
    "a model outside": lambda r: r["inputs"]["models"].update(reranker="/tmp/evil"),
    "a project outside": lambda r: r["inputs"]["pins"][0].update(project="../../x"),
    "a generation that is a text": lambda r: r["inputs"]["pins"][0].update(generation="1"),
    "a generation below one": lambda r: r["inputs"]["pins"][0].update(generation=-1),
    "a receipt of other bytes": lambda r: r["inputs"]["receipts"].update({"demo/x": "2" * 64}),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_reaches_nothing_outside(space, empty, tmp_path, name):
    _, path = bundled(space, tmp_path)
    keys = []
    forged(path, lambda parts: keys.append(sealed_record(parts, FORGED[name])))
    forged(path, lambda parts: None, key=keys[0])
    with pytest.raises(IntegrityError):
        replay_bundle(empty, path)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("value", [None, -1, "x", [], {}, [[1]], {"x": None}])
def test_no_value_of_a_record_crashes_the_reader(space, empty, tmp_path, value):
    _, path = bundled(space, tmp_path)
    whole = path.read_bytes()
    for name in json.loads(bundle_format.unpack(whole).parts["record"].tobytes())["inputs"]:
        path.write_bytes(whole)
        keys = []

        def edit(data, name=name):
            data["inputs"][name] = value

        forged(path, lambda parts: keys.append(sealed_record(parts, edit)))  # noqa: B023
        forged(path, lambda parts: None, key=keys[0])
        try:
            verdict = replay_bundle(empty, path)[1]
        except RagstreamError:
            continue
        assert verdict.verdict in ("identical", "defect", "input unavailable"), name


def test_vectors_that_were_swapped_cannot_pass_for_the_prompt(empty, tmp_path):
    words = ["locks", "budgets", "harbours", "zebras", "pumps", "stoves", "roofs", "ferries"]
    docs = {f"{word}.md": f"# {word}\n\nWe keep {word} in the yard.\n" for word in words}
    space = ingested_workspace(tmp_path / "many", {}, docs)
    asked = "Where are the zebras? And who paints the ferries? And where do the pumps stand?"
    key, path = bundled(space, tmp_path, text=asked, settings={"retrieval.top_k": 2})

    def swap(parts):
        size = json.loads(parts[HEAD])["dimension"] * 4
        rows = [parts[VECTORS][i : i + size] for i in range(0, len(parts[VECTORS]), size)]
        assert len(rows) > 2
        parts[VECTORS] = b"".join([*rows[1:], rows[0]])

    forged(path, swap)
    assert replay_bundle(empty, path, key=key)[1].verdict != "identical"


def test_the_key_that_was_asked_for_must_be_the_bundles(space, empty, tmp_path):
    key, path = bundled(space, tmp_path)
    other = "0" * 8 if key[0] != "0" else "1" * 8
    with pytest.raises(IntegrityError, match="is of the prompt"):
        replay_bundle(empty, path, key=other)


def test_only_a_file_is_read(empty, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(UsageError):
            replay_bundle(empty, path)
    with (tmp_path / "large").open("wb") as handle:
        handle.truncate(bundle_format.MAX_BYTES + 1)
    with pytest.raises(IntegrityError, match="larger"):
        replay_bundle(empty, tmp_path / "large")
