"""The conversation in a prompt: G verbatim, E by one scale, replayable, never a fact."""

import hashlib
import json

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Cleared, Turn
from ragstream_core.index.snapshot import forget_snapshots
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.stage_results import Scores
from ragstream_core.services.clear_history import clear
from ragstream_core.services.external_reply import append_external
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.journal import append_turn, journal, tag
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import QUESTION, ask, hashed_workspace, write_docs

SAID = "The catalog is written by the nightly robot named Pegasus and by nobody else."


def open_root(root, **settings):
    explicit = {f"history.{name}": value for name, value in settings.items()}
    return hashed_workspace(root, explicit)


@pytest.fixture
def root(tmp_path):
    data = tmp_path / "data"
    write_docs(data)
    ingest_project(open_root(data), "demo")
    return data


def say(space, session, user, assistant="", *, day=1, **more):
    when = f"2026-10-{day:02d}T10:00:00+00:00"
    turn = Turn("", session, when, user, assistant, **more)
    return append_turn(space, turn)


def fill(space, turns=8, session="old"):
    """One turn that answers the question, then small talk that does not."""
    first = say(space, session, "Who writes the catalog?", SAID)
    for n in range(turns):
        say(space, session, f"Small talk number {n}", f"Weather and lunch {n}", day=2)
    return first


def block(prompt):
    text = prompt.extras.super_prompt
    head, _, tail = text.partition("RECENT HISTORY (non-authoritative)")
    return tail.partition("\n## ")[0] if tail else ""


def messages(prompt, key):
    return [row.message for row in getattr(prompt.extras, key)]


def past_ids(prompt, stage="retrieval"):
    return [i for i in prompt.views_by_stage[stage] if i.startswith("history::")]


def test_without_a_conversation_nothing_of_it_is_in_the_prompt(root):
    prompt = ask(open_root(root))
    assert block(prompt) == ""
    assert prompt.recentConversation["pairs_count"] == 0
    assert prompt.extras.inputs.history.seq == 0
    assert not (root / "history").exists()


def test_layer_g_is_the_newest_pairs_verbatim_of_the_own_session(root):
    space = open_root(root, recency_k=3)
    say(space, "mine", "My own question", "My own answer")
    fill(space)
    prompt = ask(space, session="mine")
    assert prompt.recentConversation["pairs_count"] == 1
    assert "| [1 October 2026, 10:00] user: My own question" in block(prompt)
    assert "Small talk" not in prompt.recentConversation["body"]
    later = say(space, "mine", "And another one", "Yes")
    assert "And another one" in ask(space, session="mine").recentConversation["body"]
    assert later.seq > 0


@pytest.mark.parametrize("enabled", [True, False])
def test_what_others_said_is_in_no_prompt_without_a_session(root, enabled):
    space = open_root(root, enabled=enabled)
    say(space, "me", "Keep this in mind.", "The password of the sql database is Quetzal9.")
    for session in ("", "audit"):
        prompt = ask(space, "Why is it so?", session=session)
        assert "Quetzal9" not in prompt.extras.super_prompt
        assert prompt.recentConversation["pairs_count"] == 0
        assert prompt.extras.shape.domain == "undetermined"


@pytest.mark.parametrize(
    ("fill", "shown"), [("none", ""), ("projects", "demo"), ("all", "demo else")]
)
def test_a_session_is_filled_up_by_others_only_where_that_is_set(root, fill, shown):
    space = open_root(root, recent_fill=fill)
    say(space, "mine", "Mine?", "Own words")
    say(space, "one", "Which sql?", "The words of demo", projects=("demo",))
    say(space, "two", "Which sql?", "The words of else", projects=("else",))
    prompt = ask(space, "Why is it so?", session="mine")
    body = prompt.recentConversation["body"]
    assert [p for p in ("demo", "else") if f"words of {p}" in body] == shown.split()
    assert body.endswith("Own words")
    assert prompt.extras.shape.domain == "undetermined"
    assert ask(space, "Why is it so?").recentConversation["pairs_count"] == 0


def test_a_blue_turn_is_not_recent(root):
    space = open_root(root)
    first = say(space, "mine", "Where is the key?", "Under the mat.")
    say(space, "mine", "And now?", "Still there.")
    tag(space, str(first.seq), add=["BLUE"])
    hidden = ask(space, session="mine")
    assert hidden.recentConversation["pairs_count"] == 1
    assert "Under the mat" not in hidden.extras.super_prompt
    key = save_prompt(space, hidden).prompt_key
    tag(space, str(first.seq), remove=["BLUE"])
    assert "Under the mat" in ask(space, session="mine").recentConversation["body"]
    assert replay_prompt(open_root(root), key).verdict == "identical"


def test_older_turns_are_found_with_the_documents_and_never_become_facts(root):
    space = open_root(root)
    first = fill(space)
    embed(space)
    prompt = ask(space)
    (found, *_) = past_ids(prompt)
    assert found == f"history::old::{first.seq}-{first.seq}::0"
    assert any(i.startswith("history::") for i in prompt.final_selection_ids)
    assert "Pegasus" in block(prompt)
    items = [item for part in prompt.extras.s_ctx.parts for item in part]
    cited = [passage.chunk_id for item in items for passage in item.citations]
    assert not any(i.startswith("history::") for i in cited)
    assert "Pegasus" not in prompt.S_CTX_MD
    assert "pieces of older turns searched" in " ".join(messages(prompt, "events"))


def test_facts_of_the_conversation_only_where_switched_on(root):
    space = open_root(root, allow_in_s_ctx=True)
    fill(space)
    embed(space)
    assert "Pegasus" in ask(space).S_CTX_MD


def test_what_is_shown_verbatim_is_not_selected_again(root):
    space = open_root(root)
    fill(space, turns=0)
    embed(space)
    prompt = ask(space, session="old")
    assert "Pegasus" in prompt.recentConversation["body"]
    assert past_ids(prompt) == []


def test_blue_never_and_the_tags_of_now_count_without_a_new_snapshot(root):
    space = open_root(root)
    first = fill(space)
    embed(space)
    assert past_ids(ask(space))
    tag(space, str(first.seq), add=["BLUE"])
    hidden = ask(space)
    assert f"history::old::{first.seq}-{first.seq}::0" not in past_ids(hidden)
    tag(space, str(first.seq), remove=["BLUE"], add=["GOLD"])
    gold = ask(space)
    row = gold.extras.scores[f"history::old::{first.seq}-{first.seq}::0"]
    assert row.parts["tag"] == 0.3


def test_what_is_around_orders_turns_and_leaves_documents_where_they_were(root):
    space = open_root(root)
    fill(space)
    embed(space)
    prompts = [ask(open_root(root, around=on)) for on in ("true", "false")]
    (with_it, scores), (without, _) = (
        (p.views_by_stage["retrieval"], p.extras.scores) for p in prompts
    )
    assert set(with_it) == set(without)
    places = [
        [i if not i.startswith("history::") else "" for i in ids] for ids in (with_it, without)
    ]
    assert places[0] == places[1]
    assert all("own" in scores[i].parts for i in past_ids(prompts[0]))
    assert not any("own" in s.parts for s in prompts[1].extras.scores.values())


def test_a_notice_hides_its_turns_before_anything_is_erased(root):
    space = open_root(root)
    first = fill(space)
    embed(space)
    assert past_ids(ask(space))
    notice = Cleared("c", "2026-10-03T00:00:00+00:00", ((first.seq, first.seq),), "range", turns=1)
    journal(space).append([notice])
    hidden = ask(space)
    assert f"history::old::{first.seq}-{first.seq}::0" not in past_ids(hidden)
    assert any("1 cleared" in m for m in messages(hidden, "events"))


def test_what_is_tagged_after_the_pin_changes_nothing(root):
    space = open_root(root)
    first = fill(space)
    embed(space)
    inputs = pin_inputs(space, PromptRequest(text=QUESTION, projects=("demo",)))
    before = run_prompt(space, inputs)
    tag(space, str(first.seq), add=["BLUE"])
    after = run_prompt(open_root(root), inputs)
    assert past_ids(before) and past_ids(after) == past_ids(before)
    assert after.extras.super_prompt == before.extras.super_prompt


@pytest.mark.parametrize("fault", ["shorter", "another"])
def test_a_journal_that_was_replaced_is_noticed(root, fault):
    space = open_root(root)
    fill(space)
    embed(space)
    key = save_prompt(space, ask(space)).prompt_key
    log = root / "history" / "logs" / "conversation.log"
    kept = log.read_bytes().splitlines(keepends=True)[:5]
    log.write_bytes(b"".join(kept if fault == "shorter" else []))
    other = open_root(root)
    if fault == "another":
        fill(other, session="else")
    verdict = replay_prompt(other, key)
    assert verdict.verdict == "input unavailable"
    assert "is not what it was" in verdict.reason
    if fault == "shorter":
        prompt = ask(other)
        assert past_ids(prompt) == []
        assert any("ahead of the journal" in m for m in messages(prompt, "warnings"))


def test_filters_bound_what_is_searched(root):
    space = open_root(root)
    fill(space)
    say(space, "new", "Who writes the catalog now?", SAID.replace("Pegasus", "Hermes"), day=9)
    fill(space, session="filler")
    embed(space)
    only = ask(open_root(root, sessions=["new"]))
    assert {i.split("::")[1] for i in past_ids(only)} == {"new"}
    none = ask(open_root(root, projects=["current"]))
    assert past_ids(none) == []


def test_synonyms_of_the_lexicon_find_turns_and_leave_documents_alone(root, tmp_path):
    lexicon = tmp_path / "words.yaml"
    lexicon.write_text("- [Zorblax, catalog, cosine]\n")
    space = open_root(root)
    say(space, "old", "Zorblax", "It hums at night.")
    fill(space, session="talk")
    embed(space)
    plain = ask(space)
    wide = ask(open_root(root, lexicon=str(lexicon)))
    turn = "history::old::1-1::0"
    before = plain.extras.scores.get(turn, Scores()).bm25
    assert wide.extras.scores[turn].bm25 > before == 0.0
    told = [i for i in plain.extras.scores if not i.startswith("history::")]
    assert any("cosine" in c.snippet for c in plain.base_context_chunks if c.id in told)
    for chunk in told:
        assert wide.extras.scores[chunk].bm25 == plain.extras.scores[chunk].bm25


def test_the_prompt_replays_after_more_was_said_and_published(root):
    space = open_root(root)
    fill(space)
    embed(space)
    key = save_prompt(space, ask(space)).prompt_key
    say(space, "later", "Who writes the catalog?", "Somebody new does, says the manager.", day=20)
    tag(space, "1", add=["GOLD"])
    embed(space)
    forget_snapshots()
    verdict = replay_prompt(open_root(root), key)
    assert (verdict.verdict, verdict.reason) == ("identical", "")


@pytest.mark.parametrize("searched", [False, True])
def test_a_prompt_survives_a_clearing_unless_it_searched_what_is_gone(root, searched):
    space = open_root(root, enabled=searched, max_tokens=0)
    fill(space, turns=0)  # turns that say the same would be named in the record's notes
    for n in range(4):
        say(space, "keep", f"Something else {n}", "Entirely", day=3)
    embed(space)
    key = save_prompt(space, ask(space)).prompt_key
    assert replay_prompt(space, key).verdict == "identical"
    clear(space, Choice("old"))
    forget_snapshots()
    verdict = replay_prompt(open_root(root), key)
    assert verdict.verdict == ("input unavailable" if searched else "identical")
    assert ("cleared" in verdict.reason) is searched


def test_a_clearing_that_takes_the_folder_of_a_prompt_while_it_is_written_is_named(
    root, monkeypatch
):
    from ragstream_core.errors import InputUnavailable
    from ragstream_core.prompts import recorded

    space = open_root(root)
    fill(space)
    embed(space)
    prompt = ask(space)
    note_asked = recorded.note_asked

    def cleared_before(folder, asking):
        clear(space, Choice("old"))
        note_asked(folder, asking)

    monkeypatch.setattr(recorded, "note_asked", cleared_before)
    with pytest.raises(InputUnavailable, match="cleared while the prompt was made"):
        save_prompt(space, prompt)


@pytest.mark.parametrize("fault", ["missing", "torn", "other model"])
def test_a_prompt_goes_on_without_older_turns_and_says_so(root, fault):
    space = open_root(root)
    fill(space)
    embed(space)
    path = space.layout.history_snapshot
    if fault == "missing":
        path.unlink()
    elif fault == "torn":
        path.write_bytes(path.read_bytes()[:200])
    else:
        from ragstream_core.index import snapshot

        snapshot.open_snapshot(path).embed_fp = "0" * 64
    forget_snapshots() if fault != "other model" else None
    prompt = ask(space, session="old")
    forget_snapshots()
    assert past_ids(prompt) == []
    assert "Small talk number 7" in prompt.recentConversation["body"]
    said = [m for m in messages(prompt, "warnings") if "backfill" in m]
    assert any("older turns" in m or "Earlier conversations" in m for m in said)


def test_turns_that_are_not_embedded_yet_are_counted_not_waited_for(root):
    space = open_root(root)
    fill(space)
    embed(space)
    for n in range(6):
        say(space, "new", f"Fresh {n}", "Yes")
    prompt = ask(space, session="new")
    told = "2 turns of earlier conversations are not searchable yet"
    assert any(m.startswith(told) for m in messages(prompt, "warnings"))


def test_a_locked_prompt_has_nothing_of_the_conversation(root):
    space = open_root(root)
    fill(space)
    embed(space)
    prompt = ask(space, files=("settings.yaml",), lock=True)
    assert block(prompt) == ""
    assert prompt.extras.inputs.history.seq == 0
    assert json.dumps(prompt.extras.inputs.to_json()).count("Pegasus") == 0


def test_the_block_is_off_by_its_switch(root):
    space = hashed_workspace(root, {"prompt.recent_history": "false"})
    fill(space)
    embed(space)
    prompt = ask(space)
    assert block(prompt) == "" and past_ids(prompt) == []


def test_long_pairs_are_cut_and_the_person_is_told(root):
    space = open_root(root, recent_max_tokens=330)
    for n in range(4):
        say(space, "chat", f"Question {n}", "One more sentence. " * 60)
    prompt = ask(space, session="chat")
    assert prompt.recentConversation["pairs_count"] == prompt.recentConversation["cut_pairs"] == 3
    assert "Question 3" in prompt.recentConversation["body"]
    assert any("shows 3 of 4 pairs" in m for m in messages(prompt, "warnings"))
    assert any("3 pairs, 3 of them in part" in m for m in messages(prompt, "events"))
    told = "Earlier conversations are not searchable yet"
    assert any(told in m for m in messages(prompt, "warnings"))


@pytest.mark.parametrize("embedded", [True, False])
def test_that_turns_are_not_searchable_is_said_once_and_again_after_the_next_embedding(
    root, embedded
):
    space = open_root(root, recency_k=1)
    if embedded:
        fill(space)
        embed(space)
    said = []
    for n in range(8):
        prompt = ask(space, session=f"s{n}")
        said.append(sum("not searchable yet" in m for m in messages(prompt, "warnings")))
        turn = Turn("", f"s{n}", "", f"Question {n}", "Yes", prompt_key=f"{n:064x}")
        append_turn(space, turn)
    assert sum(said) == 1


def test_what_recent_history_does_not_show_is_searched(root):
    space = open_root(root, recent_max_tokens=150)
    long = "Nothing but small talk of the weather and of lunch was had here today. " * 30
    say(space, "chat", "Anything new?", f"{long} {SAID}")
    embed(space)
    prompt = ask(space, "Which nightly robot is named Pegasus?", session="chat")
    assert "Pegasus" not in prompt.recentConversation["body"]
    assert "Pegasus" in block(prompt)
    key = save_prompt(space, prompt).prompt_key
    forget_snapshots()
    assert replay_prompt(open_root(root), key).verdict == "identical"


def test_recent_history_leaves_half_of_a_small_prompt_free(root):
    small = {"prompt.budget_tokens": 1_200, "history.recent_max_tokens": 8_000}
    space = hashed_workspace(root, small)
    for n in range(4):
        say(space, "chat", f"Question {n}", "One more sentence. " * 200)
    prompt = ask(space, session="chat")
    body = prompt.recentConversation["body"]
    assert len(body) <= 600 * 5  # characters a token of English
    assert prompt.extras.enforced.total_tokens <= 1_200


def test_the_journal_is_read_at_every_prompt(root):
    space = open_root(root)
    say(space, "a", "First", "One")
    assert "First" in ask(space, session="a").recentConversation["body"]
    other = open_root(root)
    say(other, "a", "Second", "Two")
    assert "Second" in ask(space, session="a").recentConversation["body"]
    assert journal(space).newest().seq == 2


def test_an_external_reply_is_checked_and_found_like_any_turn(root):
    space = open_root(root)
    asked = ask(space, "Which signal is a cosine, and which signal is BM25?")
    key = save_prompt(space, asked).prompt_key
    (short, *_) = asked.extras.citations
    reply = f"{SAID} [source: catalog.md, chunk: {short}] [source: made-up.md, chunk: 00000000]"
    entry, unknown = append_external(
        space, Turn("", "pasted", "", "", assistant_text=reply), answers=key[:8]
    )
    assert [c["known"] for c in entry.record.citations] == [True, False]
    assert "made-up.md" in unknown[0]
    assert (entry.record.source, entry.record.prompt_key) == ("external", key)
    fill(space, session="talk")
    embed(space)
    found = f"history::pasted::{entry.seq}-{entry.seq}::0"
    again = ask(space)
    assert found in past_ids(again)
    chunk = next(c for c in again.base_context_chunks if c.id == found)
    assert (chunk.meta["source"], chunk.meta["prompt_key"]) == ("external", key)


def test_a_turn_about_an_older_version_of_an_injected_file_gives_way(root):
    space = open_root(root)
    said = "top_k of retrieval is fifty and theta of the gate is a quarter, see settings.yaml"
    turn = say(space, "old", "What is in the settings?", said,
               versions=({"path": "settings.yaml", "sha256": "0" * 64},))  # fmt: skip
    fill(space, session="talk")
    embed(space)
    text = "Which settings do retrieval and gate have?"
    prompt = ask(space, text, files=("settings.yaml",))
    (conflict,) = [c for c in prompt.extras.conflicts if "::old::" in c.loser]
    assert (conflict.winner, conflict.rule) == ("settings.yaml", "conflicts_with_files")
    assert f"history::old::{turn.seq}-{turn.seq}::0" not in prompt.final_selection_ids
    assert any("settings.yaml wins over" in m for m in messages(prompt, "events"))


def test_a_pasted_reply_carries_the_versions_of_the_files_it_answered_about(root):
    space = open_root(root)
    key = save_prompt(space, ask(space, files=("settings.yaml",))).prompt_key
    reply = Turn("", "chat", "", "", assistant_text="Use top_k 50, as settings.yaml says.")
    entry, _ = append_external(space, reply, answers=key)
    (version,) = entry.record.versions
    kept = (root / "doc_raw" / "demo" / "settings.yaml").read_bytes()
    assert version == {"path": "settings.yaml", "sha256": hashlib.sha256(kept).hexdigest()}


def test_a_prompt_waits_neither_for_the_worker_nor_for_a_writer(root):
    from ragstream_core.index.schema import project_lock

    space = open_root(root)
    fill(space)
    embed(space)
    with project_lock(root / "history" / "index"), journal(space).locked():
        prompt = ask(open_root(root), session="old")
    assert past_ids(prompt)
    assert prompt.recentConversation["pairs_count"] == 4
