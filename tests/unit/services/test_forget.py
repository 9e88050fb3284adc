"""Forgetting: no byte of the text is left in any file, whatever was made from it."""

import contextlib
import json
import sqlite3
import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from ragstream_core.errors import OperationFailed, Refused, UsageError
from ragstream_core.index import derived, remove
from ragstream_core.index.check import Part
from ragstream_core.index.generation_rows import ROWS_FILE
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion import staging
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.prompts.recorded import packed
from ragstream_core.services import generations, verify
from ragstream_core.services.forget import FileSubject, forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.text.bm25 import LexicalArrays
from ragstream_core.text.fingerprints import LEAST, RUN, TextFingerprints, common, reduce
from ragstream_core.text.terms import term_id
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.text_copies import CopyEraser
from tests.copies import holders
from tests.workspaces import ask_and_keep, docs_of, hashed_workspace, write_docs

SECRET = (
    "# Salaries\n\nThe quarterly canary of Zebulon Quatermain is worth 918273 doubloons, "
    'naïvely "quoted" in the ledger of the treasury.\n\n## Vault\n\nThe vault opens with the '
    "phrase umbrella-marzipan-cathedral, spoken twice by the keeper.\n"
)
CANARIES = ("Quatermain", "918273", "marzipan")


@pytest.fixture
def space(tmp_path):
    write_docs(tmp_path)
    (tmp_path / "doc_raw" / "demo" / "secret.md").write_text(SECRET)
    workspace = hashed_workspace(tmp_path)
    ingest_project(workspace, "demo")
    return workspace


def kept(space):
    return set(space.store.keys())


def grep(root, *, but=()):
    """Every file below a root that holds one of the canaries, in any simple encoding."""
    return holders(root, *CANARIES, but=but)


def vectors_of(space, path):
    """The bytes of each vector that a file had in the first generation."""
    view = open_view(space.index_dir("demo"), generation=1)
    rows = [view.vectors[i].tobytes() for i, p in enumerate(view.paths) if p == path]
    assert rows
    return rows


def raw_holders(root, needle):
    return [p for p in root.rglob("*") if p.is_file() and needle in p.read_bytes()]


def scatter(space):
    """Put copies where real use puts them: prompts, runs, Dagster's databases, caches."""
    root = space.data_dir
    question = "What opens the vault, and what is the canary of Zebulon Quatermain worth?"
    key = ask_and_keep(space, question)
    other = ask_and_keep(space, "Which file may hold the lock of the project?", off=("secret.md",))
    run = root / "prompts" / "runs" / "r1"
    run.mkdir(parents=True)
    (run / "retrieval.json.gz").write_bytes(packed({"chunks": [SECRET]}))
    home = root / "dagster_home" / "storage"
    home.mkdir(parents=True)
    db = sqlite3.connect(home / "runs.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE event_logs(id INTEGER PRIMARY KEY, event TEXT NOT NULL)")
    db.execute("CREATE TABLE asset_keys(id INTEGER PRIMARY KEY, last TEXT)")
    inner = json.dumps({"preview": SECRET})
    db.execute("INSERT INTO event_logs(event) VALUES(?)", (json.dumps({"meta": inner}),))
    db.execute("INSERT INTO event_logs(event) VALUES('harmless')")
    db.execute("INSERT INTO asset_keys(last) VALUES(?)", (inner,))
    db.commit()
    db.close()
    token = space.index_dir("demo") / "tokens-0123"
    token.mkdir()
    (space.index_dir("demo") / "catalog.sqlite.damaged-1").write_bytes(SECRET.encode())
    return key, other


def test_no_term_of_it_is_left_in_the_arrays_of_rows_that_ended_or_came(space, monkeypatch):
    monkeypatch.setattr(derived, "WHOLE_BELOW", 1)
    monkeypatch.setattr(derived, "MOST_CHANGED", 9.0)
    word, docs = term_id("marzipan").to_bytes(8, "little", signed=True), docs_of(space)
    files = [
        space.index_dir("demo") / name for name in (derived.LEXICAL_FILE, derived.CHANGES_FILE)
    ]
    (docs / "other.md").write_text(SECRET.replace("Vault", "Cellar"))
    (docs / "secret.md").unlink()
    ingest_project(space, "demo")  # a row that ended in the one file, a row that came in the other
    assert all(word in path.read_bytes() for path in files)
    forget(space, "demo", "secret.md")
    assert [path.exists() for path in files] == [True, False]
    (docs / "other.md").unlink()
    ingest_project(space, "demo")
    assert files[1].exists() and word in files[0].read_bytes()
    forget(space, "demo", "other.md")
    assert not files[1].exists() and word not in files[0].read_bytes()
    forget_views()
    assert isinstance(open_view(space.index_dir("demo")).lexical, LexicalArrays)


def test_nothing_of_it_is_left_anywhere(space):
    key, other = scatter(space)
    assert key in kept(space)
    assert len(grep(space.data_dir)) >= 6
    rows = space.index_dir("demo") / ROWS_FILE
    assert b"secret.md::" in rows.read_bytes()
    (docs_of(space) / "secret.md").unlink()
    ingest_project(space, "demo")
    forget_views()
    vectors = vectors_of(space, "secret.md")
    assert all(raw_holders(space.data_dir, vector) for vector in vectors)
    report = forget(space, "demo", "secret.md")
    assert grep(space.data_dir) == []
    assert not any(raw_holders(space.data_dir, vector) for vector in vectors)
    assert report.generations == 1 and report.texts > 0 and report.left == []
    assert not rows.exists()
    assert key not in kept(space)
    assert other in kept(space)
    assert not (space.data_dir / "prompts" / "runs" / "r1").exists()
    db = sqlite3.connect(space.data_dir / "dagster_home" / "storage" / "runs.db")
    assert db.execute("SELECT event FROM event_logs").fetchall() == [("harmless",)]
    assert db.execute("SELECT id, last FROM asset_keys").fetchall() == [(1, None)]
    db.close()
    forget_views()
    verdict = replay_prompt(space, other)  # its generation says something else now, and it says so
    assert verdict.verdict != "identical" and "generation 1" in verdict.reason
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []
    assert all(path != "secret.md" for path in open_view(space.index_dir("demo")).paths)
    assert (
        ingestion.unchanged(space, "demo") is not None
        or not ingest_project(space, "demo").committed
    )


def test_older_generations_lose_it_too_and_keep_the_rest(space):
    for n in range(3):
        (docs_of(space) / "catalog.md").write_text(f"# Catalog\n\nversion number {n}\n")
        ingest_project(space, "demo")
    forget(space, "demo", "secret.md", delete=True)
    assert not (docs_of(space) / "secret.md").exists()
    forget_views()
    for row in generations.generations(space, "demo"):
        view = open_view(space.index_dir("demo"), generation=row.n)
        assert "secret.md" not in view.paths
        assert len(set(view.paths)) == row.files == 4
        assert len(view.chunk_ids) == row.chunks
    assert grep(space.data_dir) == []


def test_the_newest_generation_is_what_a_fresh_index_would_be(space, tmp_path):
    forget(space, "demo", "secret.md", delete=True)
    forget_views()
    fresh = hashed_workspace(space.data_dir, {"paths.index_dir": str(tmp_path / "elsewhere")})
    ingest_project(fresh, "demo")
    assert open_view(space.index_dir("demo")).digest == open_view(fresh.index_dir("demo")).digest


def test_a_file_that_still_lies_there_is_refused(space):
    before = grep(space.data_dir)
    with pytest.raises(Refused) as caught:
        forget(space, "demo", "secret.md")
    assert "--delete" in caught.value.hint
    assert grep(space.data_dir) == before
    for path in ("never.md", "../demo/secret.md", ""):
        with pytest.raises(UsageError):
            forget(space, "demo", path)


def test_texts_that_another_file_has_too_stay(space):
    shared = "# Vault\n\nThe keeper has the key, and nobody else in this house has one.\n"
    (docs_of(space) / "a.md").write_text(shared)
    (docs_of(space) / "b.md").write_text(shared)
    ingest_project(space, "demo")
    report = forget(space, "demo", "a.md", delete=True)
    assert (report.texts, report.shared) == (0, 1)
    forget_views()
    assert "b.md" in open_view(space.index_dir("demo")).paths
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def test_your_own_copies_are_named_and_not_touched(space):
    memory = space.data_dir / "projects" / "demo" / "project_memory.md"
    memory.parent.mkdir(parents=True)
    memory.write_text(SECRET)
    report = forget(space, "demo", "secret.md", delete=True)
    assert report.left == ["projects/demo/project_memory.md"]
    assert memory.read_text() == SECRET


STEPS = {
    "publish": FileSubject,
    "erase_known": FileSubject,
    "purge": CopyEraser,
    "purge_texts": remove,
    "vacuum": remove,
    "left": CopyEraser,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_step_it_is_resumed(space, monkeypatch, step, after):
    scatter(space)
    (docs_of(space) / "secret.md").unlink()
    owner = STEPS[step]
    real = getattr(owner, step)

    def dies(*given, **more):
        if after:
            real(*given, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dies)
        with pytest.raises(KeyboardInterrupt):
            forget(space, "demo", "secret.md")
    forget_views()
    assert "secret.md" not in open_view(space.index_dir("demo")).paths
    finished = step == "left" or (step == "purge_texts" and after)
    findings = verify.verify_project(space, "demo").findings
    assert [f.run for f in findings] == ([] if finished else ["ragstream forget secret.md -p demo"])
    if not finished:
        forget(space, "demo", "secret.md")
    assert grep(space.data_dir) == []
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


def test_a_tombstone_keeps_its_format(space, monkeypatch):
    """An erasure that an earlier version began is finished by this one."""
    (docs_of(space) / "secret.md").unlink()
    there = open_view(space.index_dir("demo")).chunk_ids
    chunk_ids = sorted(c for c in there if c.startswith("secret.md"))

    def dies(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileSubject, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            forget(space, "demo", "secret.md")
    with contextlib.closing(sqlite3.connect(space.index_dir("demo") / "catalog.sqlite")) as db:
        query = "SELECT value FROM meta WHERE key = 'erasing:secret.md'"
        mark = json.loads(db.execute(query).fetchone()[0])
    assert mark.pop("hashes") and mark == {
        "name": "secret.md", "chunk_ids": chunk_ids, "generations": 1, "chunks": len(chunk_ids),
    }  # fmt: skip


def test_the_chroma_collection_is_made_again_without_it(tmp_path):
    write_docs(tmp_path)
    (tmp_path / "doc_raw" / "demo" / "secret.md").write_text(SECRET)
    space = hashed_workspace(tmp_path, {"vector_store.collection": "true"})
    ingest_project(space, "demo")
    assert any("chroma_db" in name for name in grep(tmp_path))
    forget(space, "demo", "secret.md", delete=True)
    assert grep(tmp_path) == []
    (tmp_path / "doc_raw" / "demo" / "new.md").write_text("# New\n\nThe collection is back.\n")
    assert not ingest_project(space, "demo").warnings
    assert any((tmp_path / "chroma_db" / "demo").rglob("*.sqlite3"))
    assert grep(tmp_path) == []


def test_the_chroma_collection_of_another_project_keeps_its_own_copy(tmp_path):
    write_docs(tmp_path)
    write_docs(tmp_path, "other")
    space = hashed_workspace(tmp_path, {"vector_store.collection": "true"})
    for project in ("demo", "other"):
        (docs_of(space, project) / "secret.md").write_text(SECRET)
        ingest_project(space, project)
    theirs = {name for name in grep(tmp_path) if "other" in name.split("/")}
    assert any(name.startswith("chroma_db/other/") for name in theirs)
    report = forget(space, "demo", "secret.md", delete=True)
    assert set(grep(tmp_path)) == set(report.left) == theirs
    assert not ingest_project(space, "other").warnings


def test_what_a_killed_ingest_read_of_it_goes_too(space, monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 4)
    real, batches = HashedEmbedder.embed_documents, iter(range(2))

    def killed(self, texts, **given):
        if next(batches, None) is None:
            raise KeyboardInterrupt
        return real(self, texts, **given)

    monkeypatch.setattr(HashedEmbedder, "embed_documents", killed)
    paragraph = "The vault of Quatermain number {} holds marzipan on shelf {}. " * 20
    (docs_of(space) / "secret.md").write_text(
        "\n\n".join(paragraph.replace("{}", str(n)) for n in range(40))
    )
    with pytest.raises(KeyboardInterrupt):
        ingest_project(space, "demo")
    catalog = space.index_dir("demo") / "catalog.sqlite"
    assert b"Quatermain number 1 " in catalog.read_bytes()
    monkeypatch.setattr(HashedEmbedder, "embed_documents", real)
    report = forget(space, "demo", "secret.md", delete=True)
    assert grep(space.data_dir) == [] and report.shared == 0
    assert report.texts == report.chunks > 0
    assert ingest_project(space, "demo").documents == 4


def test_a_name_is_found_however_its_accents_are_written(space):
    decomposed = unicodedata.normalize("NFD", "Gehälter.md")
    (docs_of(space) / decomposed).write_text(SECRET.replace("Salaries", "Gehälter"))
    (docs_of(space) / "secret.md").unlink()
    ingest_project(space, "demo")
    forget(space, "demo", "secret.md")
    report = forget(space, "demo", "Gehälter.md", delete=True)
    assert report.path == decomposed and grep(space.data_dir) == []
    with pytest.raises(UsageError, match="Gehalter"):
        forget(space, "demo", "Gehalter.md")


def test_a_busy_database_is_no_completion(space, monkeypatch):
    from ragstream_core.wiring import text_copies

    monkeypatch.setattr(text_copies, "_BUSY_S", 0.05)
    scatter(space)
    db = sqlite3.connect(space.data_dir / "dagster_home" / "storage" / "runs.db")
    db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OperationFailed, match=r"runs\.db"):
        forget(space, "demo", "secret.md", delete=True)
    db.rollback()
    db.close()
    forget(space, "demo", "secret.md")
    assert grep(space.data_dir) == []


def test_copies_are_found_in_every_form():
    traces = TextFingerprints([SECRET])
    plain = SECRET.encode()
    forms = [
        plain,
        json.dumps(SECRET).encode(),
        json.dumps({"a": json.dumps(SECRET)}).encode(),
        json.dumps(SECRET, ensure_ascii=False).encode(),
        b"".join(b"| " + line + b"\n" for line in plain.splitlines()),
        plain.upper(),
        b"x" * 12_345 + plain[30:110],
        b"quarterly canary of Zebulon Quatermain is worth 918273 doubloons",
    ]
    assert all(traces.found_in(form) for form in forms)
    assert not traces.found_in(b"The vault of the treasury opens at nine o'clock every day.")
    for start in range(60):
        assert traces.found_in(plain[start : start + 70])


def test_other_scripts_are_found_as_well():
    text = "Пароль хранилища — «зонтик, марципан, собор», его произносят дважды."
    traces = TextFingerprints([text])
    assert traces.found_in(text.encode()) and traces.found_in(json.dumps(text).encode())
    emoji = "🦓" * 12
    assert TextFingerprints([emoji]).found_in(json.dumps(emoji).encode())


def test_what_stands_elsewhere_too_is_nobodys_secret():
    boiler = "This document is the property of the company and must not be copied."
    found = TextFingerprints([boiler]).found_in(boiler.encode())
    assert found and common(found, [f"x {boiler} y"]) == found
    assert common(found, ["other words"]) == set()
    assert reduce(b'"A\\nb\\u00e9 C"') == "abéc".encode()


@settings(deadline=None)
@given(
    st.text("abcde12", min_size=LEAST, max_size=RUN - 1),
    st.text("abcde12", max_size=60),
    st.text("abcde12", max_size=60),
)
def test_a_short_text_is_found_wherever_it_begins(text, before, after):
    found = TextFingerprints([text]).found_in((before + text + after).encode())
    assert text.encode() in found
    assert all(run in (before + text + after).encode() for run in found)
    assert (text.encode() in TextFingerprints([text]).found_in((before + after).encode())) == (
        text in before + after
    )
