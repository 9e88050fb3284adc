"""`why-not`: every chunk and every file has one stage and one rule, down to the last rank."""

import pytest

from ragstream_core.agents.context.passage_selection import framed_tokens
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UsageError
from ragstream_core.index.view import open_view
from ragstream_core.prompts.edits import COUNTER
from ragstream_core.prompts.inputs import PromptRequest, inputs_of
from ragstream_core.records import Chunk, SuperPrompt, evolve
from ragstream_core.records.identity import sha256_hex, shown_name
from ragstream_core.records.json_form import report_of
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.what_if import compared_with, leave_one_out
from ragstream_core.services.why_not import tokens_short, why_not
from ragstream_core.wiring.conversation_memory import ConversationMemory
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, write_docs

QUESTION = (
    "One writer holds the project lock: must other writers wait or give up, and what is the token "
    "budget of a prompt?"
)
DEPTH = 10


@pytest.fixture
def space(tmp_path):
    write_docs(tmp_path)
    numbered = {
        f"rows/r{i:02}.md": f"# Row {i}\n\nThe row {i} is about {i * 7} ships.\n" for i in range(40)
    }
    write_docs(tmp_path, docs=numbered)
    (tmp_path / "doc_raw" / "demo" / "empty.md").write_text("")
    (tmp_path / "doc_raw" / "demo" / "photo.gif").write_bytes(b"\x89PNG")
    workspace = hashed_workspace(tmp_path, {"retrieval.depth": DEPTH, "retrieval.top_k": 4})
    ingest_project(workspace, "demo")
    return workspace


def made(space, text=QUESTION, **more):
    prompt = run_prompt(
        space, pin_inputs(space, PromptRequest(text=text, projects=("demo",), **more))
    )
    return prompt, save_prompt(space, prompt).prompt_key


def only(found):
    (verdict,) = report_of(found)["verdicts"]
    return verdict


def test_every_chunk_of_the_index_has_a_verdict_and_it_is_that_of_the_ledger(space):
    prompt, key = made(space)
    ledger = {row.chunk_id: row for row in prompt.extras.decisions}
    below = 0
    for identifier in open_view(space.index_dir("demo")).chunk_ids:
        verdict = only(why_not(space, identifier, key))
        assert verdict["kept"] == (identifier in prompt.final_selection_ids)
        if identifier in ledger:
            assert verdict["rule"] == ledger[identifier].rule
        else:
            below += 1
            assert verdict["rule"] == "not_listed"
            dense = next(p for p in verdict["places"] if p["signal"] == "dense")
            assert dense["rank"] > DEPTH and dense["of"] == len(
                open_view(space.index_dir("demo")).chunk_ids
            )
            ranked = [place for place in verdict["places"] if place["rank"]]
            nearest = min(ranked, key=lambda place: place["rank"])
            assert verdict["distance"] == nearest["distance"]
            assert nearest["distance"] > 0 or nearest["score"] == nearest["last"]  # lost by its id
    assert below > 10


def test_what_is_behind_top_k_says_how_far(space):
    prompt, key = made(space)
    rows = [r for r in prompt.extras.decisions if r.stage == "retrieval"]
    last = min(r.score for r in rows if r.kept)
    dropped = [r for r in rows if not r.kept]
    assert dropped
    for row in dropped:
        verdict = only(why_not(space, row.chunk_id, key))
        assert (verdict["stage"], verdict["rule"]) == ("retrieval", "top_k")
        assert verdict["distance"] == pytest.approx(last - row.score, abs=1e-6)


GATES = {
    "similarity_gate": ("gate.theta", {"gate.theta": 0.9, "gate.relative": 0, "gate.words": 1}),
    "relative_score": ("gate.relative", {"gate.theta": -1, "gate.relative": 0.99}),
    "min_score": ("retrieval.min_score", {"retrieval.min_score": 0.9}),
}


@pytest.mark.parametrize("rule", GATES)
def test_a_threshold_lower_by_the_distance_lets_it_through(space, rule):
    setting, given = GATES[rule]
    given = {"gate.keep_top": 0, "retrieval.top_k": 40, "retrieval.depth": 40, **given}
    prompt, key = made(space, settings=given)
    dropped = [r for r in prompt.extras.decisions if r.rule == rule and not r.kept]
    assert len(dropped) > 3
    for row in dropped[::7]:
        verdict = only(why_not(space, row.chunk_id, key))
        assert verdict["distance"] > 0 and verdict["measure"]
        for share, passes in ((1.001, True), (0.98, False)):
            lower = {**given, setting: given[setting] - verdict["distance"] * share}
            again = made(space, settings=lower)[0]
            steps = [r for r in again.extras.decisions if r.chunk_id == row.chunk_id]
            stage = next(r for r in steps if r.stage == row.stage)
            assert stage.kept is passes, (stage.reason, verdict)


def test_a_budget_larger_by_the_distance_takes_it_in(space):
    given = {"agents.a3": False, "agents.a4": False, "retrieval.top_k": 12}
    small = {**given, "retrieval.depth": 40, "retrieval.max_context_tokens": 300}
    prompt, key = made(space, settings=small)
    rows = [r for r in prompt.extras.decisions if r.rule == "over_budget"]
    assert len(rows) > 2
    before = 0.0
    for row in rows:
        verdict = only(why_not(space, row.chunk_id, key))
        assert verdict["measure"] == "tokens" and verdict["distance"] > before
        before = verdict["distance"]
        more = {**small, "retrieval.max_context_tokens": 300 + before}
        assert row.chunk_id in made(space, settings=more)[0].final_selection_ids


def test_turns_and_documents_have_budgets_of_their_own():
    def chunk(identifier):
        return Chunk(identifier, "a.md", f"Words of {identifier}. " * 9, (0, 9), {})

    ids = ["a.md::x::0", "history::s::1-1::0", "a.md::x::1", "history::s::2-2::0"]
    chunks = [chunk(i) for i in ids]
    prompt = evolve(SuperPrompt(), base_context_chunks=chunks, views_by_stage={"a3": ids})
    own = [framed_tokens(chunk(i), COUNTER) for i in ids]
    expected = [own[0], own[1], own[0] + own[2], own[1] + own[3]]
    assert [tokens_short(prompt, i, COUNTER).distance for i in ids] == expected
    picked = evolve(prompt, final_selection_ids=ids[:1])
    assert tokens_short(picked, ids[2], COUNTER).distance == own[2]


def test_a_chunk_and_a_file_can_be_named_in_several_ways(space):
    _, key = made(space)
    identifier = next(
        i for i in open_view(space.index_dir("demo")).chunk_ids if i.startswith("rows/r07.md")
    )
    expected = only(why_not(space, identifier, key))
    for name in (sha256_hex(identifier)[:8], "rows/r07.md#0", "rows/r07.md", "demo/rows/r07.md",
                 "r07.md"):  # fmt: skip
        assert only(why_not(space, name, key)) == expected
    assert len(why_not(space, "catalog.md", key).verdicts) >= 1


def test_off_lock_and_injection_are_rules_of_their_own(space):
    _, key = made(space, off=("demo/catalog.md",))
    assert only(why_not(space, "catalog.md#0", key))["rule"] == "off"
    below = only(why_not(space, "rows/r39.md#0", key))
    held = [
        i for i in open_view(space.index_dir("demo")).chunk_ids if not i.startswith("catalog.md::")
    ]
    assert {p["of"] for p in below["places"] if p["signal"].startswith("dense")} == {len(held)}
    _, key = made(space, f"{QUESTION} file:notes/*")
    left_out = only(why_not(space, "catalog.md#0", key))
    assert left_out["rule"] == "off" and "file:notes/*" in left_out["reason"]
    _, key = made(space, files=("settings.yaml",), lock=True)
    assert only(why_not(space, "catalog.md#0", key))["rule"] == "lock"
    injected = only(why_not(space, "settings.yaml", key))
    assert (injected["rule"], injected["kept"]) == ("injected", True)


def test_files_without_a_chunk_say_why(space, tmp_path):
    _, key = made(space)
    photo = only(why_not(space, "photo.gif", key))
    assert photo["stage"] == "ingestion" and "not supported" in photo["reason"]
    assert only(why_not(space, "empty.md", key))["rule"] in ("no_chunk", "skipped")
    (tmp_path / "doc_raw" / "demo" / "late.md").write_text("# Late\n\nA writer came late.\n")
    waiting = only(why_not(space, "late.md", key))
    assert waiting["rule"] == "not_indexed" and "ragstream ingest demo" in waiting["reason"]
    ingest_project(space, "demo")
    assert only(why_not(space, "late.md", key))["rule"] == "later"
    with pytest.raises(UsageError, match="know nothing called") as error:
        why_not(space, "catalg.md", key)
    assert "catalog.md" in error.value.hint


def test_without_the_generation_the_recorded_ledger_answers(space, tmp_path):
    prompt, key = made(space)
    for path in (tmp_path / "index" / "demo").glob("catalog*"):
        path.unlink()
    found = why_not(space, prompt.final_selection_ids[0], key)
    assert "nothing could be recomputed" in found.note and only(found)["kept"]


def test_leaving_a_file_out_is_what_a_prompt_without_it_is(space):
    prompt, key = made(space)
    found = leave_one_out(space, key)
    sources = {c.source for c in prompt.base_context_chunks if c.id in prompt.final_selection_ids}
    assert {row.path for row in found.files} == sources
    assert sum(row.chunks for row in found.files) == len(prompt.final_selection_ids)
    for row in found.files:
        other, _ = made(space, off=(f"demo/{row.path}",))
        output = row.effect.output
        assert output.identical == (other.extras.super_prompt == prompt.extras.super_prompt)
        added = set(other.final_selection_ids) - set(prompt.final_selection_ids)
        assert set(output.selection.added) == added
        difference = other.extras.token_tree.total - prompt.extras.token_tree.total
        assert row.effect.tokens == difference


def test_questions_are_embedded_once_whatever_is_left_out(space, monkeypatch):
    from ragstream_core.wiring import models

    _, key = made(space)
    embedder = models.embedder(space.config)
    asked = []
    plain = embedder.embed_queries

    def counted(texts):
        asked.extend(texts)
        return plain(texts)

    monkeypatch.setattr(embedder, "embed_queries", counted)
    assert len(leave_one_out(space, key).files) > 1
    assert asked and len(asked) == len(set(asked))


def test_a_prompt_without_a_file_is_compared_with_the_one_that_has_it(space):
    whole, _ = made(space)
    prompt, _ = made(space, off=("catalog.md", "rows/r01.md"))
    found = compared_with(space, prompt, ("catalog.md", "rows/r01.md"))
    assert found.without == ["demo/catalog.md", "demo/rows/r01.md"] and not found.effect.error
    gone = set(whole.final_selection_ids) - set(prompt.final_selection_ids)
    assert set(found.effect.output.selection.removed) == gone
    kept_off = compared_with(space, prompt, ("rows/r01.md",))
    assert kept_off.effect.output.identical == ("rows/r01.md" not in str(whole.final_selection_ids))


def test_older_turns_are_questioned_like_documents(space):
    for n in range(30):
        when = f"2026-10-{1 + n // 5:02d}T10:00:00+00:00"
        said = f"The robot {n} named Pegasus saw {n * 3} ships."
        append_turn(space, Turn("", "talk", when, f"What about ship {n}?", said))
    embed(space)
    prompt, key = made(space, session="talk")
    ledger = {row.chunk_id for row in prompt.extras.decisions}
    view = ConversationMemory(space, inputs_of(prompt), "retrieval").view
    older = ConversationMemory(space, inputs_of(prompt), "a2_prompt_shaper").older
    assert "ship 12?" in older("Pegasus and ship 12").split("\n")[0]  # Layer E, an anchor of A2
    assert older("zebra") == "" and "ship 29" not in older("ship 29")  # that one is in Layer G
    rules = {i: only(why_not(space, i, key))["rule"] for i in view.chunk_ids if i not in ledger}
    assert set(rules.values()) == {"not_listed", "not_eligible"}
    shown = [i for i, rule in rules.items() if rule == "not_eligible"]
    assert len(shown) == prompt.recentConversation["pairs_count"]
    for identifier in view.chunk_ids:
        name = shown_name(identifier)
        for meant in (name, name.partition("#")[0]):
            assert only(why_not(space, meant, key))["chunk_id"] == identifier
