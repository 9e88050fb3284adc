"""`trace` and `verify-prompt`: from a citation to the ingest run, and the files as they are now."""

import shutil
import subprocess

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UsageError
from ragstream_core.prompts.citations import parse_markers
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.trace import trace
from ragstream_core.services.verify_prompt import verify_key, verify_text
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, write_docs

QUESTION = (
    "The catalog is a SQLite database: must other writers wait for the project lock, and what does "
    "settings.yaml say?"
)

WHEN = "2026-10-01T10:00:00+00:00"


@pytest.fixture
def space(tmp_path):
    write_docs(tmp_path)
    workspace = hashed_workspace(tmp_path)
    ingest_project(workspace, "demo", provenance={"run_id": "run-7"})
    return workspace


def made(space, text=QUESTION, projects=("demo",), **more):
    prompt = run_prompt(
        space, pin_inputs(space, PromptRequest(text=text, projects=projects, **more))
    )
    return prompt, save_prompt(space, prompt).prompt_key


def test_every_citation_of_a_prompt_leads_to_its_file_and_its_ingest(space, tmp_path):
    prompt, key = made(space)
    markers = parse_markers(prompt.extras.super_prompt)
    assert {m.form for m in markers} == {"answer", "fence"}
    for marker in markers:
        text = prompt.extras.super_prompt[slice(*marker.span)]
        found = trace(space, text if marker.form == "answer" else marker.id, key[:8])
        path = tmp_path / "doc_raw" / "demo" / found.path
        assert (found.issued, found.now) == (True, "current")
        assert found.sha256 == sha256_hex(path.read_bytes())
        if found.kind == "chunk":
            generation = found.generation
            assert (generation.n, generation.since) == (1, 1)
            assert generation.provenance["run_id"] == "run-7"
            chunk = next(c for c in prompt.base_context_chunks if c.id == found.id)
            assert found.span == chunk.span and found.indexed == "current"


def test_a_file_that_changed_moved_on_or_went_away_is_said_to_have(space, tmp_path):
    prompt, key = made(space)
    (one,) = {i for i in prompt.final_selection_ids if i.startswith("catalog.md")}
    path = tmp_path / "doc_raw" / "demo" / "catalog.md"
    path.write_text(path.read_text() + "\nMore.\n")
    found = trace(space, one, key)
    assert (found.now, found.indexed) == ("changed", "current")
    ingest_project(space, "demo", provenance={"run_id": "run-8"})
    found = trace(space, one, key)
    assert (found.now, found.indexed) == ("changed", "changed")
    assert found.generation.provenance["run_id"] == "run-7"
    path.unlink()
    ingest_project(space, "demo")
    found = trace(space, one, key)
    assert (found.now, found.indexed) == ("deleted", "no longer")


def test_a_file_that_was_renamed_is_found_under_its_new_name(space, tmp_path):
    prompt, key = made(space, files=("settings.yaml",))
    (one,) = {i for i in prompt.final_selection_ids if i.startswith("catalog.md")}
    (file,) = KeptPrompt.of(space, key).injected
    folder = tmp_path / "doc_raw" / "demo"
    for name in ("catalog.md", "settings.yaml"):
        (folder / name).rename(folder / f"new-{name}")
    asked = {"catalog.md": one, "settings.yaml": file.short_id}
    for ingested in (False, True):
        if ingested:
            ingest_project(space, "demo")
        for name, citation in asked.items():
            found = trace(space, citation, key)
            assert (found.now, found.moved_to) == ("deleted", f"new-{name}" * ingested)
    (folder / "new-catalog.md").unlink()
    assert trace(space, one, key).moved_to == ""


def test_every_id_that_a_prompt_gives_out_can_be_followed(space, tmp_path):
    for n in range(7):
        append_turn(space, Turn("", "talk", WHEN, f"Who waits for the lock {n}?", f"Writer {n}."))
    embed(space)
    given = {"memory.enabled": True, "history.recency_k": 2}
    text = f"Who waits for the lock 1? Is it writer 1? {QUESTION}"
    key = made(space, text, session="talk", files=("settings.yaml",), settings=given)[1]
    ids = KeptPrompt.of(space, key).issued
    assert {"recent", "digest"} < ids
    kinds = set()
    for identifier in ids:
        found = trace(space, f"As said [source: a.md, chunk: {identifier}].", key)
        assert (found.short_id, found.issued, found.now) == (identifier, True, "current")
        kinds.add(found.kind)
    assert kinds == {"chunk", "file", "turn", "conversation"}
    assert trace(space, "recent", key).seqs == (6, 7)
    assert trace(space, "digest", key).seqs == (1, 7)
    alone = made(space, text, settings={"prompt.recent_history": False})[1]
    for name in ("recent", "digest"):
        with pytest.raises(UsageError, match="means nothing"):
            trace(space, name, alone)
    log = tmp_path / "history" / "logs" / "conversation.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    again = hashed_workspace(tmp_path)
    assert trace(again, "recent", key).now == "no longer there"


def test_a_link_in_the_place_of_a_file_is_not_followed(space, tmp_path):
    prompt, key = made(space)
    (one,) = {i for i in prompt.final_selection_ids if i.startswith("catalog.md")}
    path = tmp_path / "doc_raw" / "demo" / "catalog.md"
    path.rename(tmp_path / "kept.md")
    path.symlink_to(tmp_path / "kept.md")
    assert trace(space, one, key).now == "unreadable"


def test_a_generation_that_is_gone_leaves_what_the_id_says(space, tmp_path):
    prompt, key = made(space)
    for path in (tmp_path / "index" / "demo").glob("catalog*"):
        path.unlink()
    found = trace(space, prompt.final_selection_ids[0], key)
    assert found.generation.kept is False and found.span is None
    assert (found.now, found.indexed) == ("current", "no longer")


def test_another_generation_under_its_number_is_not_taken_for_it(space, tmp_path):
    prompt, key = made(space)
    one = next(i for i in prompt.final_selection_ids if i.startswith("catalog.md"))
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "doc_raw" / "demo" / "more.md").write_text("# More\n\nAnother first one.\n")
    assert ingest_project(space, "demo").generation == 1
    found = trace(space, one, key)
    assert found.generation.kept is False and found.span is None
    assert (found.now, found.indexed) == ("current", "current")
    (tmp_path / "doc_raw" / "demo" / "catalog.md").write_bytes(b"\0\0\0")
    ingest_project(space, "demo")
    found = trace(space, one, key)
    assert (found.now, found.indexed) == ("changed", "no longer")  # there, but not read


def test_the_project_is_found_among_several(space, tmp_path):
    write_docs(tmp_path, "other", {"catalog.md": "# Other\n\nNobody may write a catalog here.\n"})
    ingest_project(space, "other")
    prompt, key = made(space, projects=("demo", "other"))
    homes = {c.id: c.meta["project"] for c in prompt.base_context_chunks}
    assert set(homes.values()) == {"demo", "other"}
    for identifier, home in homes.items():
        assert trace(space, identifier, key).project == home


def test_a_file_of_two_projects_is_current_while_one_of_them_has_it(space, tmp_path):
    write_docs(tmp_path, "other")
    ingest_project(space, "other")
    key = made(space, projects=("demo", "other"))[1]
    (tmp_path / "doc_raw" / "demo" / "catalog.md").write_text("# Changed\n")
    rows = {row.path: row for row in verify_key(space, key).files if row.use == "quoted"}
    assert (rows["catalog.md"].project, rows["catalog.md"].state) == ("other", "current")
    (tmp_path / "doc_raw" / "other" / "catalog.md").unlink()
    rows = {row.path: row for row in verify_key(space, key).files if row.use == "quoted"}
    assert rows["catalog.md"].state != "current"


@pytest.mark.parametrize("citation", ["", "zz", "00000000", "[source: x.md, chunk: 00000000]"])
def test_what_the_prompt_does_not_know_is_refused(space, citation):
    with pytest.raises(UsageError, match="means"):
        trace(space, citation, made(space)[1])


def states(found):
    return {(row.use, row.path): row.state for row in found.files}


def test_receipts_against_the_disk_by_key_by_file_and_without_a_record(space, tmp_path):
    prompt, key = made(space)
    text = prompt.extras.super_prompt
    by_key = verify_key(space, key)
    assert states(by_key)[("injected", "settings.yaml")] == "current"
    assert ("quoted", "catalog.md") in states(by_key)
    assert verify_text(space, text) == verify_text(space, text + "\n") == by_key
    (tmp_path / "doc_raw" / "demo" / "settings.yaml").write_text("changed: true\n")
    (tmp_path / "doc_raw" / "demo" / "catalog.md").unlink()
    expected = {("injected", "settings.yaml"): "changed", ("quoted", "catalog.md"): "deleted"}
    assert states(verify_key(space, key)).items() >= expected.items()
    (space.store.root / key / "record.json").unlink()
    framed = verify_text(space, text, ("demo",))
    assert framed.prompt_key == ""
    assert states(framed)[("injected", "settings.yaml")] == "changed"
    assert states(framed)[("quoted", "catalog.md")] in ("deleted", "unreadable")
    with pytest.raises(UsageError, match="frames no file"):
        verify_text(space, "Just a text.\n")


def test_of_two_projects_with_one_path_the_one_that_was_quoted_is_meant(space, tmp_path):
    other = {"catalog.md": "# Catalog\n\nA catalog of garden tools, spades and rakes.\n"}
    write_docs(tmp_path, "alpha", other)
    ingest_project(space, "alpha")
    prompt, key = made(space, projects=("alpha", "demo"))
    homes = {
        c.id: c.meta["project"] for c in prompt.base_context_chunks if c.source == "catalog.md"
    }
    assert set(homes.values()) == {"alpha", "demo"}
    for chunk_id, project in homes.items():
        assert trace(space, chunk_id, key).project == project
    quoted = {row.sha256: row for row in verify_key(space, key).files}
    for chunk_id, project in homes.items():
        if chunk_id in prompt.final_selection_ids:
            assert quoted[chunk_id.split("::")[1]].project == project


def test_of_the_same_file_in_two_projects_the_one_that_is_still_there_is_named(space, tmp_path):
    for project in ("alpha", "zeta"):
        write_docs(tmp_path, project)
        ingest_project(space, project)
    _, key = made(space, projects=("alpha", "demo", "zeta"))
    for project, left in (("alpha", "demo"), ("demo", "zeta")):
        (tmp_path / "doc_raw" / project / "catalog.md").write_text("Gone.\n")
        rows = [r for r in verify_key(space, key).files if r.path == "catalog.md"]
        assert [(r.project, r.state) for r in rows] == [(left, "current")]
    (tmp_path / "doc_raw" / "zeta" / "catalog.md").unlink()
    rows = [r for r in verify_key(space, key).files if r.path == "catalog.md"]
    assert [r.state for r in rows] == ["changed"]


def test_a_diff_is_a_citation_of_its_own(space, tmp_path):
    docs = tmp_path / "doc_raw" / "demo"
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *words], cwd=docs, check=True)
    (docs / "settings.yaml").write_text("gate:\n  theta: 0.5\n")
    prompt, key = made(space, "What changed in the gate?", diffs=("settings.yaml",))
    (row,) = prompt.extras.diffs
    found = trace(space, row.id, key)
    assert (found.kind, found.path, found.now) == ("diff", "settings.yaml", "current")
    assert found.issued and states(verify_key(space, key))[("diff", "settings.yaml")] == "current"
    (docs / "settings.yaml").write_text("gate:\n  theta: 0.6\n")
    assert trace(space, row.id, key).now == "changed"
    assert states(verify_key(space, key))[("diff", "settings.yaml")] == "changed"
