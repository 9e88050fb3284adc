"""The workspace as the faces use it: projects, files, locks, pools, bad input."""

import dataclasses
import sqlite3

import pytest

from ragstream_core.errors import (
    IntegrityError,
    InvalidName,
    ModelMismatch,
    ProjectLocked,
    UnknownProject,
    UsageError,
)
from ragstream_core.index.schema import project_lock
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.models.embedders.registry import EMBEDDERS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.search import search
from ragstream_core.wiring import ingestion, prompt_inputs
from ragstream_core.wiring.file_sources import injectable
from ragstream_core.wiring.prompt_inputs import DEFAULT_HARD_RULES, pin_inputs, resolved_models
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import ask, hashed_workspace, ingested_workspace, write_docs


def messages(prompt, kind="warnings"):
    return " | ".join(row.message for row in getattr(prompt.extras, kind))


@pytest.mark.parametrize(
    "name", ["..", ".", "../demo", "de/mo", "-x-", "con", "a..b", "x" * 65, ""]
)
def test_names_that_could_lead_outside_are_refused(space, name):
    with pytest.raises(InvalidName, match="cannot be a project name"):
        space.require_project(name)
    with pytest.raises(InvalidName):
        space.index_dir(name)


def test_an_unknown_project_is_named_with_the_nearest_one(space, tmp_path):
    with pytest.raises(UnknownProject, match="did you mean demo"):
        space.require_project("demi")
    with pytest.raises(UnknownProject):
        ingest_project(space, "nothing")
    assert not (tmp_path / "index" / "nothing").exists()


def test_flat_files_are_the_project_default_and_nothing_else(tmp_path):
    write_docs(tmp_path)
    (tmp_path / "doc_raw" / "flat.md").write_text("# Flat\n\nA flat file about writers.\n")
    workspace = hashed_workspace(tmp_path)
    assert workspace.projects() == ["default", "demo"]
    stats = ingest_project(workspace, "default")
    assert (stats.files["new"], stats.skipped_reasons) == (1, ())
    assert [c.source for c in ask(workspace, projects=("default",)).base_context_chunks] == [
        "flat.md"
    ]


def test_status_tells_what_an_ingest_would_do(space, tmp_path):
    assert ingestion.status(space, "demo").generation == 1
    (tmp_path / "doc_raw" / "demo" / "more.md").write_text("# More\n")
    (tmp_path / "doc_raw" / "demo" / "catalog.md").unlink()
    found = ingestion.status(space, "demo")
    assert (found.pending.new, found.pending.removed) == (["more.md"], ["catalog.md"])
    assert ingestion.unchanged(space, "demo") is None


def test_a_named_code_file_is_injected_with_its_receipt_and_notes_are_not(space, tmp_path):
    code = "def write():\n    return 1\n"
    (tmp_path / "doc_raw" / "demo" / "writer.py").write_text(code)
    prompt = ask(space, "What does writer.py do, and catalog.md?")
    (row,) = prompt.extras.files
    assert (row.path, row.mode, row.text) == ("writer.py", "FULL", code.rstrip())
    assert space.store.blob(row.sha256) == code.encode()
    assert "notes stay with retrieval (--file forces them): catalog.md" in messages(
        prompt, "events"
    )
    forced = ask(space, files=("catalog.md",))
    assert [r.path for r in forced.extras.files] == ["catalog.md"]
    assert not any(i.startswith("catalog.md::") for i in forced.final_selection_ids)


def test_a_long_file_is_packed_and_a_changed_one_is_said(space, tmp_path):
    path = tmp_path / "doc_raw" / "demo" / "settings.yaml"
    path.write_text("\n".join(f"key_{n}: {n}" for n in range(2000)))
    prompt = ask(space, "Explain settings.yaml")
    (row,) = prompt.extras.files
    assert row.mode == "PACK"
    assert "changed since ingestion" in messages(prompt)


def test_the_folder_is_read_once_at_most_however_many_files_are_off(space, tmp_path, monkeypatch):
    names, read = sorted(set(open_view(space.index_dir("demo"), generation=0).paths)), []

    def counted(*args):
        read.append(args)
        return injectable(*args)

    monkeypatch.setattr(prompt_inputs, "injectable", counted)
    write_docs(tmp_path, docs={"fresh.md": "Not in the index yet."})
    for count in range(1, len(names) + 1):
        for new in ((), ("fresh.md",)):
            read.clear()
            off = (*names[:count], *new)
            pinned = pin_inputs(
                space, PromptRequest(text="What is it?", projects=("demo",), off=off)
            )
            assert pinned.off == tuple(sorted(f"demo/{name}" for name in off))
            assert len(read) == len(new)  # for what the index does not know


def test_a_file_to_switch_off_is_named_by_its_whole_path(space, tmp_path):
    with pytest.raises(
        UsageError, match=r"limits\.txt is named to be left out: give its full path"
    ) as found:
        ask(space, off=("limits.txt",))
    assert "demo/notes/limits.txt" in str(found.value.hint)
    write_docs(tmp_path, docs={"demo/catalog.md": "Another catalog."})
    ingest_project(space, "demo")
    pinned = pin_inputs(space, PromptRequest("What is it?", ("demo",), off=("demo/catalog.md",)))
    assert pinned.off == ("demo/demo/catalog.md",)  # inside of the project, before its own name
    with pytest.raises(UsageError, match="no such file") as found:
        ask(space, off=("qqq",))
    assert found.value.hint


def test_an_ambiguous_name_is_asked_back(space, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / "doc_raw" / "demo" / folder).mkdir()
        (tmp_path / "doc_raw" / "demo" / folder / "conf.json").write_text("{}")
    prompt = ask(space, "What is in conf.json?")
    assert prompt.extras.files == ()
    assert "which 'conf.json'? 2 files" in messages(prompt)
    assert "a/conf.json, b/conf.json" in messages(prompt)
    with pytest.raises(UsageError, match="may mean 2 files"):
        ask(space, files=("conf.json",))
    with pytest.raises(UsageError, match="no file of the project"):
        ask(space, files=("nope.py",))


def test_whole_files_carry_line_numbers_where_that_is_wished(space):
    wanted = {"files.line_numbers": True}
    for settings, first in (({}, "| retrieval:"), (wanted, "| 1  retrieval:")):
        prompt = ask(space, "What is in settings.yaml?", settings=settings)
        assert prompt.extras.files[0].mode == "FULL"
        assert f"\n{first}\n" in prompt.extras.super_prompt


def test_a_search_obeys_the_least_cosine(space, tmp_path):
    rows = search(space, "Who may write to the catalog?", ["demo"], k=50)
    for least in (-1.0, rows[1].dense, 1.0):
        narrow = hashed_workspace(tmp_path, {"retrieval.min_score": least})
        found = search(narrow, "Who may write to the catalog?", ["demo"], k=50)
        assert list(found) == [row for row in rows if row.dense >= least]


def test_the_lock_shows_only_files_and_searches_nothing(space):
    prompt = ask(space, "What is in settings.yaml?", lock=True)
    assert [r.path for r in prompt.extras.files] == ["settings.yaml"]
    for stage in ("retrieval", "reranked", "a3"):
        assert prompt.views_by_stage[stage] == []
    assert prompt.final_selection_ids == []
    text = prompt.extras.super_prompt
    assert "❖ FILES" in text
    assert "ATTACHMENTS" not in text
    assert "S_CTX\n" not in text


def test_a_file_that_is_off_is_in_no_view(space):
    prompt = ask(space, off=("catalog.md",))
    assert prompt.base_context_chunks
    for view in prompt.views_by_stage.values():
        assert not any(i.startswith("catalog.md::") for i in view)


def test_two_projects_answer_together(space, tmp_path):
    write_docs(tmp_path, "other", {"journal.md": "# Journal\n\nThe journal is append only.\n"})
    ingest_project(space, "other")
    prompt = ask(space, "Is the journal append only, and who may write to the catalog?",
                 projects=("other", "demo"))  # fmt: skip
    assert {c.meta["project"] for c in prompt.base_context_chunks} == {"demo", "other"}


def test_agents_can_be_switched_off_one_by_one(space):
    for agent in ("a1", "a2", "a3", "a4"):
        prompt = ask(space, "What is in settings.yaml?", settings={f"agents.{agent}": "false"})
        assert prompt.stage == "a5"
        rules = {row.rule for row in prompt.extras.decisions if row.stage == "a3"}
        assert "switched off" in messages(prompt, "events") or rules <= {
            "pass_through",
            "duplicates_files",
        }


def test_another_model_is_refused_and_rebuilt_on_request(space, tmp_path, request):
    class Other(HashedEmbedder):
        fingerprint = "f" * 64

    EMBEDDERS.register("other", Other)
    request.addfinalizer(lambda: EMBEDDERS.unregister("other"))
    other = open_workspace(tmp_path, explicit={"embeddings.backend": "other"})
    with pytest.raises(ModelMismatch, match="--rebuild"):
        ingest_project(other, "demo")
    with pytest.raises(ModelMismatch, match="--rebuild"):
        ask(other)
    key = save_prompt(space, ask(space)).prompt_key
    verdict = replay_prompt(other, key)
    assert verdict.verdict == "environment differs" and "embedded by model" in verdict.reason
    assert "hashed" in verdict.hint and "--rebuild" not in verdict.hint
    rebuilt = ingest_project(other, "demo", rebuild=True)
    assert rebuilt.committed
    assert rebuilt.chunks["embedded"] == rebuilt.chunks["live"]
    with pytest.raises(ModelMismatch):
        ask(space)


def test_another_precision_is_another_model_and_is_named(space, tmp_path):
    chosen = {"embeddings.backend": "onnx", "embeddings.precision": "int8"}
    other = open_workspace(tmp_path, explicit=chosen)
    with pytest.raises(ModelMismatch, match="MiniLM-L6-v2 in int8") as caught:
        ask(other)
    assert "embeddings.*" in caught.value.hint
    exact = open_workspace(tmp_path, explicit={**chosen, "embeddings.precision": "float32"})
    named = [resolved_models(s.config, s.config.chain())["embedder"] for s in (exact, other)]
    assert named[0] == f"onnx:{exact.config.settings.embeddings.model}"
    assert named[1] == f"{named[0]} in int8"


def test_a_damaged_catalog_names_the_command_and_rebuilds(space, tmp_path):
    forget_views()
    path = tmp_path / "index" / "demo" / "catalog.sqlite"
    path.write_bytes(b"not a database" * 100)
    for call in (lambda: ask(space), lambda: ingest_project(space, "demo")):
        with pytest.raises(IntegrityError, match="--rebuild"):
            call()
    assert ingest_project(space, "demo", rebuild=True).committed
    assert ask(space).base_context_chunks


def test_a_damaged_vector_file_is_noticed_and_healed(space, tmp_path):
    forget_views()
    (path,) = (tmp_path / "index" / "demo").glob("vectors-*.f32")
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match="ragstream ingest demo"):
        ask(space)
    ingest_project(space, "demo", verify=True)
    forget_views()
    assert ask(space).base_context_chunks


def test_a_locked_project_says_who_holds_it(space, tmp_path):
    (tmp_path / "doc_raw" / "demo" / "new.md").write_text("# New\n")
    with project_lock(tmp_path / "index" / "demo"), pytest.raises(ProjectLocked, match="process"):
        ingest_project(space, "demo")
    assert ingest_project(space, "demo").committed


def test_one_bad_file_never_stops_the_others(space, tmp_path):
    folder = tmp_path / "doc_raw" / "demo"
    (folder / "binary.md").write_bytes(b"\x00\x01" * 500)
    (folder / "sound.txt").write_bytes(b"\x80\x81\x8d\x90\xff" * 50)
    (folder / "good.md").write_text("# Good\n\nA good file about fences.\n")
    stats = ingest_project(space, "demo")
    assert stats.committed
    reasons = dict(stats.skipped_reasons)
    assert {"binary.md", "sound.txt"} <= set(reasons)
    assert all(reasons.values())
    assert any(c.source == "good.md" for c in ask(space, "What about fences?").base_context_chunks)


def test_as_of_reads_an_older_generation(space, tmp_path):
    (tmp_path / "doc_raw" / "demo" / "catalog.md").write_text("# Catalog\n\nAll may write now.\n")
    assert ingest_project(space, "demo").generation == 2
    old = ask(space, as_of=1)
    assert any("One writer holds" in c.snippet for c in old.base_context_chunks)
    new = ask(space)
    assert not any("One writer holds" in c.snippet for c in new.base_context_chunks)
    with pytest.raises(UsageError, match="no generation 3; its newest is 2"):
        ask(space, as_of=3)


def test_search_needs_no_prompt(space):
    rows = search(space, "token budget", ["demo"], k=2)
    assert rows[0].source == "notes/limits.txt"
    shown = {"chunk_id", "source", "score", "dense", "lexical", "snippet", "span", "lines"}
    assert set(rows[0].to_json()) == shown


def test_keep_one_generation_when_replaced_rows_are_to_go(tmp_path):
    workspace = ingested_workspace(tmp_path, {"ingestion.delete_replaced": "true"})
    (tmp_path / "doc_raw" / "demo" / "catalog.md").write_text("# Catalog\n\nOther words.\n")
    ingest_project(workspace, "demo")
    db = sqlite3.connect(tmp_path / "index" / "demo" / "catalog.sqlite")
    texts = " ".join(row[0] for row in db.execute("SELECT text FROM texts"))
    db.close()
    assert "One writer holds" not in texts


def test_hard_rules_stand_first_and_verbatim(space, tmp_path):
    rules = tmp_path / "projects" / "demo" / "hard_rules.md"
    rules.parent.mkdir(parents=True)
    rules.write_text("Never guess a path.\nAnswer in English.\n")
    (rules.parent / "project_memory.md").write_text("We ship on Fridays.\n")
    text = ask(space).extras.super_prompt
    places = [
        text.index(part)
        for part in (
            "Never guess a path.\nAnswer in English.",
            "We ship on Fridays.",
            "S_CTX",
            "TASK\n",
        )
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["hard_rules.md", "project_memory.md"])
@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_bytes(b"Never \xff guess."), lambda path: path.mkdir(),
     lambda path: path.symlink_to("gone.md")],
    ids=["not UTF-8", "a folder", "a dead link"],
)  # fmt: skip
def test_rules_that_cannot_be_read_are_never_left_out(space, tmp_path, name, spoil):
    path = tmp_path / "projects" / "demo" / name
    path.parent.mkdir(parents=True)
    spoil(path)
    with pytest.raises(IntegrityError, match="cannot be read") as caught:
        ask(space)
    assert str(path) in caught.value.message and "UTF-8" in caught.value.hint


@pytest.mark.parametrize("text", [None, "", " \n\n"])
def test_without_rules_of_its_own_a_project_has_the_default_ones(space, tmp_path, text):
    path = tmp_path / "projects" / "demo" / "hard_rules.md"
    path.parent.mkdir(parents=True)
    if text is not None:
        path.write_text(text)
    made = ask(space).extras.super_prompt
    assert made.split("\n", 1)[1].startswith(DEFAULT_HARD_RULES)


def test_the_request_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PromptRequest("x", ("demo",)).text = "y"
