"""Test specifications from the index to the file: through the chain, traced, kept, continued."""

import json
import shutil
import stat
from dataclasses import replace

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import InputUnavailable, Refused, UnknownProject, UsageError
from ragstream_core.index.view import forget_views
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.exchanges import Exchanges
from ragstream_core.services import spec_drafts, specifications
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.spec_drafts import OP, Context, Drafter, inputs_of_unit, read_project
from ragstream_core.services.specifications import SpecRequest, generate
from ragstream_core.services.trace import trace
from ragstream_core.testspecs.identifiers import id_pattern
from ragstream_core.testspecs.markdown import sections_of
from ragstream_core.testspecs.specification import (
    COVERED,
    DUE,
    GONE,
    LEFT_OUT,
    MENTIONED,
    NOT_TESTABLE,
)
from ragstream_core.wiring import models
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.stages import run_prompt
from tests.model_server import said, status
from tests.workspaces import docs_of, hashed_workspace

REQUIREMENTS = """# Locks

| # | Requirement | Acceptance check |
|---|---|---|
| R-1 | One ingest at a time holds the lock of a project | A second ingest stops at once |
| R-2 | Figures that people like | |

## R-3: Damaged files

While an ingest runs, the old generation is read. If a file is damaged, the ingest must leave it
out and say so. The last generation stays as it was.

- R-4: the command `ingest` returns 3 when the lock is held.
"""
NOTES = "# Notes\n\nThe page must show what R-4 says. Nobody wrote R-9. Everything is UTF-8 here.\n"
PATTERN = id_pattern(r"[A-Z]{1,6}-\d{1,5}")


def make(root, text=REQUIREMENTS):
    folder = root / "doc_raw" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements.md").write_text(text)
    (folder / "notes.md").write_text(NOTES)
    return root


def opened(root, **settings):
    return hashed_workspace(root, {"rerank.backend": "none", **settings})


@pytest.fixture
def space(tmp_path):
    found = opened(make(tmp_path / "data"))
    ingest_project(found, "demo")
    yield found
    forget_views()


def spec(space, **given):
    return generate(space, SpecRequest("demo", **given))


def test_each_requirement_has_its_case_or_the_reason_why_not(space):
    found = spec(space).spec
    rows = {row.requirement: row for row in found.coverage}
    assert {name: row.state for name, row in rows.items()} == {
        "R-1": COVERED, "R-2": NOT_TESTABLE, "R-3": COVERED, "R-4": COVERED, "R-9": MENTIONED,
    }  # fmt: skip
    assert rows["R-2"].words == "Figures that people like" and rows["R-2"].cases == ()
    assert rows["R-3"].defined == "requirements.md:8"
    first, third, fourth = found.cases
    assert [case.id for case in found.cases] == ["TC-001", "TC-002", "TC-003"]
    assert first.expected == ("A second ingest stops at once",)
    assert first.actions == ("Check: One ingest at a time holds the lock of a project",)
    assert third.precondition == "While an ingest runs"
    assert "If a file is damaged" in third.actions
    assert third.postcondition == "The last generation stays as it was."
    assert fourth.actions[0] == "when the lock is held."
    assert fourth.sources[-1].path == "notes.md"  # what else mentions it


def test_every_source_is_a_verbatim_quotation_that_can_be_traced(space):
    for case in spec(space).spec.cases:
        assert set(case.requirements) <= {"R-1", "R-2", "R-3", "R-4", "R-9"}
        for source in case.sources:
            text = (docs_of(space) / source.path).read_text()
            first, last = source.lines
            shown = "\n".join(text.split("\n")[first - 1 : last])
            assert source.quote in shown
            head, tail = shown.split("\n")[0], shown.split("\n")[-1]
            assert source.quote.split("\n")[0] in head and source.quote.split("\n")[-1] in tail
            found = trace(space, source.marker, source.prompt_key)
            assert (found.id, found.now) == (source.chunk_id, "current")
        assert replay_prompt(space, case.sources[0].prompt_key).verdict == "identical"


def test_the_same_inputs_give_the_same_bytes_also_elsewhere_and_after_a_conversation(
    space, tmp_path
):
    once = spec(space).markdown
    append_turn(space, Turn("", "talk", "2026-03-01T12:00:00+01:00", "What is R-1?", "A lock."))
    assert spec(space).markdown == once
    drafts_dir = spec_drafts.specs_dir(space, "demo") / "drafts"
    for path in drafts_dir.iterdir():
        path.unlink()
    assert spec(space).markdown == once
    assert stat.S_IMODE(next(drafts_dir.iterdir()).stat().st_mode) == 0o600
    assert stat.S_IMODE(drafts_dir.stat().st_mode) == 0o700


def test_a_file_is_continued_and_what_a_person_wrote_stays(space, tmp_path):
    out = tmp_path / "spec.md"
    part = spec(space, requirements=("R-3",), start=7)
    assert specifications.write(out, part.markdown) and not specifications.write(out, part.markdown)
    out.write_text(out.read_text() + "\nMy own words.\n")
    held = specifications.read_sections(out)
    rest = generate(space, SpecRequest("demo"), sections=held)
    assert [case.id for case in rest.spec.cases] == ["TC-008", "TC-009"]
    assert rest.spec.kept == ("TC-007",) and "My own words." in rest.markdown
    assert {r.requirement: r.cases for r in rest.spec.coverage}["R-3"] == ("TC-007",)
    specifications.write(out, rest.markdown)
    again = generate(space, SpecRequest("demo"), sections=specifications.read_sections(out))
    assert again.markdown == rest.markdown and again.spec.cases == ()
    renewed = generate(
        space, SpecRequest("demo", renew=True), sections=specifications.read_sections(out)
    )
    assert sorted(c.id for c in renewed.spec.cases) == ["TC-007", "TC-008", "TC-009"]
    assert "My own words." not in renewed.markdown


def test_a_part_of_a_file_that_is_renewed_leaves_the_rest_as_it_was(space):
    whole = spec(space)
    held = sections_of(whole.markdown)
    for renew in (False, True):
        request = SpecRequest("demo", requirements=("R-1",), renew=renew)
        part = generate(space, request, sections=held)
        assert {row.requirement: row.state for row in part.spec.coverage} == {
            "R-1": COVERED, "R-2": LEFT_OUT, "R-3": COVERED, "R-4": COVERED, "R-9": MENTIONED,
        }  # fmt: skip
        assert sections_of(part.markdown) == held
        assert part.spec.coverage[2].defined == "requirements.md:8"


def test_a_precondition_holds_beside_a_column_of_checks(tmp_path):
    text = REQUIREMENTS.replace("One ingest", "While a disk is full, one ingest always")
    space = opened(make(tmp_path / "data", text))
    ingest_project(space, "demo")
    (case,) = spec(space, requirements=("R-1",)).spec.cases
    assert case.precondition == "While a disk is full"
    assert case.expected == ("A second ingest stops at once",)


def test_more_statements_than_steps_are_counted_and_a_pronoun_stays_in_its_file(tmp_path):
    many = " ".join(f"The door must open for guest {n}." for n in range(15))
    notes = "# Notes\n\nIt must ring, R-1 says.\n"
    root = make(tmp_path / "data", f"# Doors\n\n## R-1 Guests\n\n{many}\n")
    (root / "doc_raw" / "demo" / "notes.md").write_text("# Notes\n")
    space = opened(root)
    ingest_project(space, "demo")
    (case,) = spec(space).spec.cases
    assert len(case.actions) == 12 and case.notes == ("3 further statements are not part of it",)
    make(root, "# Doors\n\n- R-1: the door must open.\n")
    (root / "doc_raw" / "demo" / "notes.md").write_text(notes)
    ingest_project(space, "demo")
    (case,) = spec(space).spec.cases
    assert case.actions == ("Exercise: the door", "Check: It must ring, R-1 says.")


def test_a_file_that_is_not_ours_is_refused_and_replaced_only_by_force(space, tmp_path):
    out = tmp_path / "mine.md"
    out.write_text("## TC-005: mine\n")
    with pytest.raises(Refused, match="not a test specification"):
        specifications.read_sections(out)
    assert specifications.read_sections(out, force=True) == []
    assert specifications.read_sections(tmp_path / "none.md") == []


def test_an_interrupted_specification_goes_on_where_it_was(space):
    done = []

    def stop(at, total):
        done.append((at, total))
        if at == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(space, SpecRequest("demo"), progress=stop)
    kept = spec_drafts.specs_dir(space, "demo") / "drafts"
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert len(before) == 2 and done == [(0, 4), (1, 4), (2, 4)]
    spec(space)
    after = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert len(after) == 4 and before.items() <= after.items()


def test_a_dry_run_writes_nothing(space):
    before = {p: p.stat().st_mtime_ns for p in space.data_dir.rglob("*")}
    found = spec(space, dry_run=True).spec
    assert [row.state for row in found.coverage] == [DUE, NOT_TESTABLE, DUE, DUE, MENTIONED]
    assert {p: p.stat().st_mtime_ns for p in space.data_dir.rglob("*")} == before


def test_where_nothing_may_be_kept_nothing_is(space):
    silent = opened(space.data_dir, **{"history.persist": "false"})
    before = {p: p.stat().st_mtime_ns for p in space.data_dir.rglob("*")}
    found = spec(silent).spec
    assert len(found.cases) == 3 and {s.prompt_key for c in found.cases for s in c.sources} == {""}
    assert {p: p.stat().st_mtime_ns for p in space.data_dir.rglob("*")} == before
    with pytest.raises(Refused, match=r"history\.persist"):
        specifications.write_kept(silent, SpecRequest("demo"))


def test_unknown_names_are_refused_with_the_nearest(space):
    with pytest.raises(UsageError, match="R-1"):
        spec(space, requirements=("R-11",))
    with pytest.raises(UnknownProject):
        generate(space, SpecRequest("nobody"))
    assert spec(space, pattern="ZZ-[0-9]+").spec.coverage == ()


def test_the_kept_specification_follows_the_documents(space):
    first = specifications.write_kept(space, SpecRequest("demo", renew=True))
    assert first.changed and first.path.read_text() == first.markdown
    assert specifications.unknown_requirements(space, "demo") == []
    make(space.data_dir, REQUIREMENTS.replace("R-3", "R-5").replace("at once", "after a second"))
    ingest_project(space, "demo")
    assert specifications.unknown_requirements(space, "demo") == ["TC-002: R-3"]
    second = specifications.write_kept(space, SpecRequest("demo", renew=True))
    rows = {row.requirement: row for row in second.spec.coverage}
    assert rows["R-1"].cases == ("TC-001",) and "after a second" in second.markdown
    assert rows["R-5"].cases == ("TC-004",) and rows["R-3"].state == GONE


def test_forgetting_a_document_takes_its_words_out_of_the_specification(space):
    specifications.write_kept(space, SpecRequest("demo", renew=True))
    (docs_of(space) / "requirements.md").unlink()
    forget(space, "demo", "requirements.md")
    held = [p for p in space.data_dir.rglob("*") if p.is_file() and b"holds the lock of a" in
            p.read_bytes()]  # fmt: skip
    assert held == []


GOOD = {
    "title": "A second ingest", "precondition": "", "actions": ["Start an ingest twice."],
    "expected": ["The second one stops."], "postcondition": "", "requirements": ["R-1", "R-77"],
    "quote": "A second ingest stops at once",
}  # fmt: skip


@pytest.fixture
def scripted(space, script):
    """The same project with a language model that follows a script."""

    def opened_with(*entries):
        script(*entries)
        return opened(space.data_dir)

    return opened_with


@pytest.fixture
def endpoint(space, server, monkeypatch):
    """The same project with a language model on loopback; returns both."""
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", server.url)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "toy")
    return opened(space.data_dir), server


def test_a_model_writes_the_case_and_what_it_invents_is_dropped(scripted):
    asking = scripted({"say": GOOD})
    (case,) = spec(asking, form="llm", requirements=("R-1",)).spec.cases
    assert (case.form, case.model, case.requirements) == ("llm", "scripted", ("R-1",))
    assert case.expected == ("The second one stops.",) and "R-77" in case.notes[0]
    assert case.sources[0].quote == GOOD["quote"] == case.quote
    found = trace(asking, case.sources[0].marker, case.sources[0].prompt_key)
    assert found.issued and found.id == case.sources[0].chunk_id


def test_a_case_that_covers_another_requirement_does_not_take_its_id(scripted):
    both = {**GOOD, "requirements": ["R-1", "R-3"]}
    asking = scripted({"say": both, "once": True}, {"say": "no"})
    first = spec(asking, form="llm")
    assert first.spec.cases[0].requirements == ("R-1", "R-3")
    request = SpecRequest("demo", renew=True)
    renewed = generate(asking, request, sections=sections_of(first.markdown)).spec
    ids = {case.requirements[0]: case.id for case in renewed.cases}
    assert ids == {"R-1": "TC-001", "R-3": "TC-002", "R-4": "TC-003"} and renewed.kept == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {**GOOD, "quote": "The moon is made of green cheese."},
        {**GOOD, "expected": []},
        {**GOOD, "actions": ["a", "b"]},
        {**GOOD, "extra": 1},
        json.dumps({**GOOD, "title": "half a \ud800 sign"}),
        "no JSON at all",
    ],
)
def test_a_wrong_answer_is_asked_for_once_more_and_then_done_without(scripted, wrong):
    again = scripted({"say": wrong, "once": True}, {"say": GOOD})
    (case,) = spec(again, form="llm", requirements=("R-1",)).spec.cases
    assert case.form == "llm"
    never = scripted({"say": wrong}, {"say": "unused"})
    (case,) = spec(never, form="llm", requirements=("R-3",)).spec.cases
    assert case.form == "deterministic" and "was not taken" in case.notes[0]
    assert case.expected == spec(never, requirements=("R-3",)).spec.cases[0].expected


def redrafted(project, unit, draft):
    """Write a kept draft again from its record; the language model is not asked."""
    prompt = run_prompt(project.workspace, inputs_of_unit(project, unit, ""))
    context = Context.of(project, prompt, draft.prompt_key)
    drafter = Drafter(project, "llm", "", frozenset(project.found.ids))
    return replace(drafter.written(unit, context, Exchanges(None, draft.exchanges)), key=draft.key)


def test_a_model_is_asked_once_and_its_answer_replayed_from_the_record(endpoint):
    asking, server = endpoint
    server.answers = [said("no"), said(json.dumps(GOOD))]
    once = spec(asking, form="llm", requirements=("R-1",))
    assert len(server.seen) == 2 and "R-77" in once.markdown
    assert spec(asking, form="llm", requirements=("R-1",)).markdown == once.markdown
    (path,) = (spec_drafts.specs_dir(asking, "demo") / "drafts").iterdir()
    draft = spec_drafts.kept(asking, "demo", path.stem)
    project = read_project(asking, "demo", PATTERN)
    (unit,) = project.units(["R-1"])
    assert redrafted(project, unit, draft) == draft
    assert len(server.seen) == 2 and [e.op for e in draft.exchanges] == [OP, OP]
    with pytest.raises(InputUnavailable):
        redrafted(project, unit, replace(draft, exchanges=draft.exchanges[:1]))


def test_a_silent_model_is_not_asked_for_every_requirement_and_nothing_of_it_is_kept(endpoint):
    asking, server = endpoint
    server.answers = [status(401)]
    found = spec(asking, form="llm").spec
    assert len(server.seen) == 2
    assert [case.form for case in found.cases] == ["deterministic"] * 3
    assert all("was not taken" in case.notes[0] for case in found.cases)
    assert not (spec_drafts.specs_dir(asking, "demo") / "drafts").exists()


def test_another_model_is_asked_anew(endpoint, monkeypatch):
    asking, server = endpoint
    server.answers = [said(json.dumps(GOOD))]
    spec(asking, form="llm", requirements=("R-1",))
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "another")
    (case,) = spec(opened(asking.data_dir), form="llm", requirements=("R-1",)).spec.cases
    assert len(server.seen) == 2 and case.model == "another"


class Far(ScriptedChat):
    """As if it stood on another machine."""

    name, host, is_local = "far", "api.example.org:443", False


def test_a_secret_is_sent_to_no_other_machine(tmp_path, monkeypatch):
    text = REQUIREMENTS.replace("holds the lock", f"uses the key {'AKIA' + 'QX7PLM2ZR5T9VB3N'}")
    space = opened(make(tmp_path / "data", text))
    far = Far(entries=[{"say": "[]"}])
    monkeypatch.setattr(models, "chat_model", lambda config: far)
    ingest_project(space, "demo")
    (case,) = spec(space, form="llm", requirements=("R-1",)).spec.cases
    assert far.asked == [] and "secret" in case.notes[0]


def test_a_damaged_draft_is_made_again(space):
    once = spec(space).markdown
    for path in (spec_drafts.specs_dir(space, "demo") / "drafts").iterdir():
        path.write_text("{")
    assert spec(space).markdown == once


def test_a_draft_whose_prompt_is_gone_gets_it_again(space):
    once = spec(space)
    key = once.spec.cases[0].sources[0].prompt_key
    shutil.rmtree(space.store.root / key)
    assert spec(space).markdown == once.markdown
    assert replay_prompt(space, key).verdict == "identical"
