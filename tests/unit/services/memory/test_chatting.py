"""A chat: one path for every answer, the extract where nobody is there, the session it is in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.answers.answer import REFUSAL, REFUSALS
from ragstream_core.answers.extract import EXTRACT, MOST_LINES, extract_of
from ragstream_core.conversations.journal.records import Asked, Turn
from ragstream_core.errors import (
    ChatBroken,
    ChatBusy,
    ChatRefused,
    ChatTimeout,
    ChatUnreachable,
    EmptyPrompt,
    Refused,
)
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.chat import ChatDelta
from ragstream_core.services.chat import ChatSession, with_model
from ragstream_core.services.ingest import ingest_project
from ragstream_core.settings.prompts import MemoryConfig
from ragstream_core.wiring.digest import newest_turns
from ragstream_core.wiring.journal import append_turn, show
from ragstream_core.wiring.make_prompt import make_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.services.memory.conftest import (
    MEMORY,
    QUESTION,
    SAID,
    Spy,
    change,
    chat,
    turns,
    unreachable,
)
from tests.workspaces import write_docs

PLAIN: dict[str, object] = {}
KEY = "AKIA" + "QX7PLM2ZR5T9VB3N"


@pytest.fixture
def no_passage(monkeypatch):
    """Make prompts that show no passage."""

    def bare(workspace, request):
        made = make_prompt(workspace, request)
        return replace(made, super_prompt=evolve(made.super_prompt, final_selection_ids=[]))

    monkeypatch.setattr("ragstream_core.services.chat.make_prompt", bare)


def test_without_a_language_model_the_answer_is_the_cited_extract(space):
    told, shown = [], []
    talk = chat(space, unreachable(), settings=PLAIN, session="s")
    turn = talk.ask(QUESTION, show=shown.append, on_origin=told.append)
    assert (turn.origin, told, turn.answer.status) == ("extract", ["extract"], "complete")
    assert turn.trace == ("documents", "persist")
    assert "so here are the closest sentences from your documents." in turn.answer.text
    assert "ragstream models list" in turn.answer.text
    facts = turn.prompt.extras.s_ctx.facts
    assert facts and all(fact.text in turn.answer.text for fact in facts)
    assert turn.answer.citations and all(c.verified for c in turn.answer.citations)
    assert "".join(shown) == turn.answer.text and "[source" not in turn.answer.text
    assert (turn.answer.model, turn.answer.cost_usd) == ("", 0.0)
    (row,) = show(space)
    assert (row.turn.origin, row.turn.status) == ("extract", "complete")
    assert "[source: catalog.md" in row.assistant
    again = talk.ask(QUESTION)
    assert [c.id for c in again.answer.citations] == [c.id for c in turn.answer.citations]


def test_where_nothing_is_condensed_the_best_passage_stands_in(space):
    talk = chat(space, unreachable(), settings={"agents.a4": False})
    found = talk.ask(QUESTION).answer
    assert found.citations[0].verified and "SQLite" in found.text + found.citations[0].snippet


def test_of_a_locked_file_the_paragraphs_with_the_words_of_the_question_are_the_extract(space):
    told = "Bread is baked at dawn."
    text = f"# Locks\n\nNobody waits.\n\n{told}\n\nA lock is held.\n\nDawn and the lock.\n"
    write_docs(space.data_dir, docs={"oven.md": text})
    ingest_project(space, "demo")
    talk = chat(space, unreachable(), settings=PLAIN, files=("oven.md",), lock=True)
    turn = talk.ask("When is bread baked, at dawn or at the lock?")
    assert (turn.origin, turn.prompt.extras.s_ctx.facts) == ("extract", ())
    kept = turn.answer.text.split("\n\n")[1]
    assert [line[2:] for line in kept.split("\n")] == [
        told,
        "Dawn and the lock.",
        "A lock is held.",
    ]
    assert {c.source for c in turn.answer.citations} == {"oven.md"}
    assert turn.answer.citations and all(c.verified for c in turn.answer.citations)


def test_in_a_file_a_rare_word_counts_more_than_two_common_ones(space):
    common = "".join(f"The lock number {n} at dawn.\n\n" for n in range(3))
    write_docs(space.data_dir, docs={"oven.md": f"{common}An oven is hot.\n"})
    ingest_project(space, "demo")
    talk = chat(space, unreachable(), settings=PLAIN, files=("oven.md",), lock=True)
    kept = talk.ask("Is the oven a lock of the dawn?").answer.text.split("\n\n")[1]
    assert kept.startswith("- An oven is hot.")


def test_a_model_that_goes_away_within_its_answer_is_no_extract(space):
    class Gone(Spy):
        def stream(self, messages):
            yield ChatDelta("Half of ")
            raise ChatUnreachable("gone")

    told = []
    turn = chat(space, Gone(), settings=PLAIN).ask(QUESTION, on_origin=told.append)
    assert (told, turn.origin, turn.answer.status) == (["model"], "model", "partial")
    assert turn.answer.text.strip() == "Half of"


def test_a_locked_file_that_has_no_word_of_the_question_is_a_refusal(space):
    talk = chat(space, unreachable(), settings=PLAIN, files=("retrieval.md",), lock=True)
    turn = talk.ask("zzqx plonk?")
    assert (turn.origin, turn.answer.status) == ("extract", "complete")
    assert turn.answer.text.endswith(REFUSAL) and not turn.answer.citations
    assert not newest_turns(space, MemoryConfig())  # the digest does not tell of it


def test_an_injected_file_comes_before_the_facts_of_others(space):
    talk = chat(space, unreachable(), settings=PLAIN, files=("retrieval.md",))
    turn = talk.ask(f"{QUESTION} And the dense signal?")
    facts = turn.prompt.extras.s_ctx.facts
    lines = turn.answer.text.split("\n\n", 1)[1].split("\n")
    assert turn.answer.citations[0].source == "retrieval.md"
    assert facts and facts[0].text in turn.answer.text and len(lines) <= MOST_LINES


def test_an_endpoint_that_is_not_there_is_met_in_a_second_and_over_http(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
    write_docs(tmp_path)
    explicit = {"embeddings.backend": "hashed", "rerank.backend": "none"}
    for model in ("toy-1", ""):
        monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", model)
        space = open_workspace(tmp_path, explicit=explicit)
        ingest_project(space, "demo")
        turn = ChatSession(space, PromptRequest("any", ("demo",))).ask(QUESTION)
        assert turn.origin == "extract" and "127.0.0.1:9" in turn.answer.text
        assert turn.answer.citations[0].verified


class NoModel(Spy):
    """An endpoint that is there and has no model."""

    @property
    def name(self):
        raise ChatRefused("the endpoint lists no model")

    def list_models(self):
        return []

    def stream(self, messages):
        raise ChatRefused("the endpoint lists no model")
        yield


def test_an_endpoint_without_a_model_is_nobody_too(space):
    assert chat(space, NoModel(), settings=PLAIN).ask(QUESTION).origin == "extract"


@pytest.mark.parametrize("error", [ChatBusy, ChatRefused, ChatTimeout, ChatBroken])
def test_a_model_that_is_there_and_fails_is_an_error(space, error):
    class There(Spy):
        def list_models(self):
            return ["spy-1"]

    talk = chat(space, There(error=error("no")), settings=PLAIN, session="s")
    with pytest.raises(error):
        talk.ask(QUESTION)
    assert [row.turn.status for row in show(space)] == ["unanswered"]
    assert talk.prepared is not None and talk.prepared.session == "s"


def test_without_documents_and_memory_it_is_the_refusal_and_nobody_is_asked(space, no_passage):
    model, told = Spy(), []
    talk = ChatSession(space, PromptRequest("any", ("demo",)), model=model)
    turn = talk.ask(QUESTION, on_origin=told.append)
    assert (turn.answer.text, turn.origin, told) == (REFUSAL, "refused", ["refused"])
    assert not turn.answer.citations and not model.asked
    again = talk.ask("And what else?")  # a refusal is nothing to answer from
    assert again.origin == "refused" and not model.asked
    append_turn(space, Turn("", talk.request.session, "", "Who else?", "The night shift."))
    assert talk.ask("And why?").origin == "model" and len(model.asked) == 1


def test_with_memory_alone_its_lines_are_the_extract_without_markers(space, no_passage):
    said = f"A person holds it [source: catalog.md, chunk: 1a2b3c4d].\nA fox is {'very ' * 90}red."
    for n, (asked, answered) in enumerate(
        [("Who is the fox?", said), ("Is a fox red?", REFUSAL), ("The fox is at home.", "Noted.")]
    ):
        append_turn(space, Turn("", "s", f"2026-10-05T00:00:0{n}Z", asked, answered))
    talk = ChatSession(space, PromptRequest("any", ("demo",), session="s"), model=unreachable())
    for question in ("Which red fox is at home?", "Which red fox is at home?"):
        answer = talk.ask(question).answer
        assert (answer.origin, answer.citations, answer.status) == ("extract", (), "complete")
        why, lines = answer.text.split("\n\n")
        assert "so here are the closest sentences from your memory." in why
        red, at_home = lines.split("\n")
        assert at_home.endswith(": The fox is at home.") and red.startswith("- A fox is very")
        assert red.endswith(" …") and len(red) < 310
    refused = talk.ask("zzqx plonk?").answer
    assert refused.text.endswith(f"\n\n{REFUSAL}") and not refused.citations
    assert all(turn.scope == "" for turn in turns(space))


TOLD = ["The fox is red.", "[source: a.md, chunk: 12345678]", "<<DOC", "A fox?", REFUSAL, "",
        REFUSALS[1], "No model is here, so here are the closest sentences from your fox.",
        "# Fox", "- fox", "[1a2b3c4d] fox", "bot: No language model answered (fox)."]  # fmt: skip


@given(lines=st.lists(st.sampled_from(TOLD), max_size=12))
def test_an_extract_of_memory_has_only_its_lines_and_is_the_same_again(lines):
    prompt = SuperPrompt(body={"text": "Where is the red fox?"})
    found = extract_of(prompt, {}, "Nobody is there. Wait", ["\n".join(lines)])
    assert found == extract_of(prompt, {}, "Nobody is there. Wait", ["\n".join(lines)])
    head, _, rest = found.partition("\n\n")
    if not any(line.strip() for line in lines):
        assert found == ""
    elif rest != REFUSAL:
        lead = "so here are the closest sentences from your memory. Wait."
        assert head == f"Nobody is there, {lead}"
        shown = [line.removeprefix("- ") for line in rest.split("\n")]
        assert len(set(shown)) == len(shown) <= MOST_LINES
        assert {line for line in shown} <= {line.removeprefix("- ") for line in lines}
        assert not {"A fox?", *REFUSALS, "# Fox", "<<DOC", "", TOLD[-1], TOLD[7]} & set(shown)


def test_the_first_question_begins_a_session_and_the_next_ones_stay_in_it(space):
    talk = chat(space, Spy(), settings=PLAIN)
    first, second = talk.ask(QUESTION), talk.ask("And who waits for it?")
    assert first.answer.session == second.answer.session == talk.request.session != ""
    assert SAID in second.prompt.recentConversation["body"]
    assert "memory" not in first.trace and "memory" in second.trace
    change(talk, session="other")
    assert talk.ask(QUESTION).answer.session == "other"


def test_files_lock_and_settings_change_between_two_turns(space):
    talk = chat(space, Spy(), settings=PLAIN)
    talk.ask(QUESTION)
    change(talk, files=("retrieval.md",), lock=True)
    locked = talk.ask("What is the dense signal?")
    assert [row.path for row in locked.prompt.extras.files] == ["retrieval.md"]
    assert not locked.prompt.final_selection_ids and "memory" not in locked.trace
    with pytest.raises(EmptyPrompt):
        talk.ask(" ?")
    assert len(turns(space)) == 2


def test_another_model_is_the_one_that_is_asked(space, monkeypatch):
    asked = []
    from ragstream_core.wiring import models

    def chosen(config):
        asked.append(config.settings.provider.model)
        return Spy()

    monkeypatch.setattr(models, "chat_model", chosen)
    for name in ("bigger", ""):
        ChatSession(*with_model(space, PromptRequest("any", ("demo",)), name)).ask(QUESTION)
    assert asked == ["bigger", "llama3.2"]


def test_secrets_stay_here_also_where_an_extract_could_be_made(space):
    write_docs(space.data_dir, docs={"key.md": f"# Project lock key\n\nThe lock key is {KEY}.\n"})
    ingest_project(space, "demo")
    model = unreachable()
    model.is_local = False
    with pytest.raises(Refused, match="secrets"):
        chat(space, model, settings=PLAIN).ask("What is the project lock key of the catalog?")
    assert not model.asked and not turns(space)


def test_an_answer_that_breaks_off_is_partial_and_never_given_again(space):
    class Cut(Spy):
        def stream(self, messages):
            yield from (d for d in super().stream(messages) if d.reply is None)

    talk = chat(space, Cut(), session="s")
    turn = talk.ask(QUESTION)
    assert (turn.answer.status, turn.origin) == ("partial", "model")
    assert talk.ask(QUESTION).origin == "model"


def test_timings_add_up_and_name_every_step(space):
    turn = chat(space, Spy()).ask(QUESTION)
    parts = {"cache", "prompt", "model", "persist"}
    assert set(turn.timings_ms) == {*parts, "total"}
    assert sum(turn.timings_ms[name] for name in parts) <= turn.timings_ms["total"]
    assert all(turn.timings_ms[name] >= 0 for name in parts)


def test_the_question_is_on_the_disk_before_the_model_is_asked(space):
    from ragstream_core.wiring.journal import journal

    class Looking(Spy):
        def stream(self, messages):
            newest = list(journal(space).entries())[-1].record
            assert isinstance(newest, Asked) and newest.user_text == QUESTION
            yield from super().stream(messages)

    assert chat(space, Looking(), settings=MEMORY).ask(QUESTION).origin == "model"
    assert EXTRACT not in show(space)[0].assistant


def test_the_four_names_stand_for_one_thing_each():
    from ragstream_core import memory

    homes = {name: getattr(memory, name).__module__ for name in memory.__all__}
    assert homes == {
        "EpisodicIndex": "ragstream_core.index.snapshot",
        "FactMemory": "ragstream_core.wiring.remembered_facts",
        "Journal": "ragstream_core.conversations.journal.journal",
        "RagstackMemory": "ragstream_core.wiring.ragstack_memory",
    }
    with pytest.raises(AttributeError, match="ConversationMemory"):
        _ = memory.ConversationMemory
