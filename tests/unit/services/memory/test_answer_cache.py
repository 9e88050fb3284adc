"""The answer cache: what is asked again is answered again, and never across a border."""

from urllib.parse import unquote

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.errors import ChatFailed
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.clear_history import clear
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import show, tag
from ragstream_core.wiring.ragstack_memory import RagstackMemory
from tests.unit.services.memory.conftest import (
    MEMORY,
    QUESTION,
    SAID,
    Spy,
    change,
    chat,
    opened,
    turns,
    unreachable,
)
from tests.workspaces import DOCS, docs_of, write_docs

STEPS = ("cache", "memory", "documents", "model", "persist")


def test_what_is_asked_again_is_answered_from_the_earlier_turn(space):
    model, told, shown = Spy(), [], []
    talk = chat(space, model, session="s")
    first = talk.ask(QUESTION)
    again = talk.ask(QUESTION, show=shown.append, on_origin=told.append)
    assert len(model.asked) == 1
    assert (again.origin, told, again.prompt) == ("cached", ["cached"], None)
    assert again.answer.text == first.answer.text == "".join(shown) != ""
    assert again.answer.citations == first.answer.citations
    assert first.answer.citations[0].verified
    source, copy = turns(space)
    assert again.answer.source_turn == source.id == copy.origin_turn
    assert (copy.origin, copy.scope, copy.assistant_text) == ("cached", "", source.assistant_text)
    assert again.answer.to_json()["origin"] == "cached"
    assert [row.turn.origin for row in show(space)] == ["", "cached"]
    assert [row.turn.origin_turn for row in show(space)] == ["", source.id]


@pytest.mark.parametrize("projects", [("demo",), ("demo", "other")])
def test_citations_of_files_and_of_several_projects_are_those_of_the_first_answer(space, projects):
    class Everything(Spy):
        """Cites all that the prompt shows."""

        def stream(self, messages):
            heads = [x for x in messages[1].text.split("\n") if x.startswith("<<DOC ")]
            rows = [[h.split(f'{k}="')[1].split('"')[0] for k in ("source", "id")] for h in heads]
            marks = [answer_marker(unquote(name), short) for name, short in rows]
            model._entries = [{"say": f"All of it {' '.join(marks)}."}]
            yield from ScriptedChat.stream(self, messages)

    write_docs(space.data_dir, project="other", docs={"a b [1].md": DOCS["catalog.md"]})
    ingest_project(space, "other")
    name = "settings.yaml" if len(projects) == 1 else "demo/settings.yaml"
    model = Everything()
    talk = chat(space, model, session="s", projects=projects, files=(name,))
    first, again = talk.ask(QUESTION).answer, talk.ask(QUESTION).answer
    assert again.origin == "cached" and len(first.citations) >= 3
    assert again.citations == first.citations and all(c.verified for c in first.citations)
    assert {c.locator.partition("/")[0] for c in first.citations} >= {"files"}


def test_the_order_is_cache_memory_documents_model_persist(space):
    talk = chat(space, session="s")
    assert talk.ask(QUESTION).trace == ("cache", "documents", "model", "persist")
    assert talk.ask("How is the catalog written by several people?").trace == STEPS
    assert talk.ask(QUESTION).trace == ("cache", "persist")
    change(talk, settings={**MEMORY, "memory.cache": False})
    assert talk.ask(QUESTION).trace == STEPS[1:]


def test_it_is_off_by_default(space):
    model = Spy()
    talk = chat(space, model, settings={}, session="s")
    talk.ask(QUESTION)
    assert talk.ask(QUESTION).origin == "model"
    assert len(model.asked) == 2 and not space.layout.memory.exists()
    assert [turn.scope for turn in turns(space)] == ["", ""]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What does top_k=5 do to the project lock?", "What does top_k=6 do to the project lock?"),
        (
            "Is the project lock of the catalog held?",
            "Is the project lock of the catalog not held?",
        ),
        (
            "Who may enable the project lock of the catalog?",
            "Who may disable the project lock of the catalog?",
        ),
        (
            "Who moves the project lock from reader to writer?",
            "Who moves the project lock from writer to reader?",
        ),
        (
            "Who holds the lock of Alice in the catalog?",
            "Who holds the lock of Bob in the catalog?",
        ),
        ("When is the project lock taken?", "Why is the project lock taken?"),
        ("Does the lock have two writers?", "Does the lock have three writers?"),
    ],
)
def test_what_an_embedder_does_not_see_is_no_hit(space, one, other):
    model = Spy()
    talk = chat(space, model, settings={**MEMORY, "memory.cache_min_score": 0.0}, session="s")
    talk.ask(one)
    assert talk.ask(other).origin == "model"
    assert talk.ask(one).origin == "cached"
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    "text",
    ["And with two writers?", "Who holds it in the catalog?", "What about the project lock?",
     "Is the same true of the catalog?", "What is the latest change of the catalog?",
     "Why the lock?", "Who holds the project lock and does that?"],
)  # fmt: skip
def test_a_question_that_points_back_or_to_now_is_asked_each_time(space, text):
    model = Spy()
    talk = chat(space, model, session="s")
    talk.ask(text)
    assert talk.ask(text).origin == "model" and len(model.asked) == 2


BORDERS = {
    "lock": {"lock": True, "files": ("locks.md",)},
    "files": {"files": ("locks.md",)},
    "off": {"off": ("locks.md",)},
    "project": {"projects": ("demo", "other")},
    "settings": {"settings": {**MEMORY, "retrieval.top_k": 7}},
    "task": {"task": "long_form"},
    "rules": {"settings": {**MEMORY, "prompt.max_facts": 3}},
}


@pytest.mark.parametrize("border", BORDERS)
def test_no_answer_crosses_a_border(space, border):
    name = "retrieval.md"
    write_docs(space.data_dir, project="other")
    ingest_project(space, "other")
    options = {
        key: tuple(name if v == "locks.md" else v for v in value)
        if isinstance(value, tuple)
        else value
        for key, value in BORDERS[border].items()
    }
    talk = chat(space, model := Spy(), session="s")
    talk.ask(QUESTION)
    change(talk, **options)
    assert talk.ask(QUESTION).origin == "model"
    assert talk.ask(QUESTION).origin == ("cached")
    assert len(model.asked) == 2


def test_no_answer_crosses_a_generation_a_model_or_a_rule_text(space):
    talk = chat(space, model := Spy(), session="s")
    talk.ask(QUESTION)
    write_docs(space.data_dir, docs={"new.md": "# New\n\nThe project lock is held by nobody now."})
    ingest_project(space, "demo")
    assert talk.ask(QUESTION).origin == "model"
    rules = space.data_dir / "projects" / "demo" / "hard_rules.md"
    rules.parent.mkdir(parents=True)
    rules.write_text("Answer in one word.\n")
    assert talk.ask(QUESTION).origin == "model"
    assert talk.ask(QUESTION).origin == "cached"
    other = Spy()
    other.name = "spy-2"
    assert chat(space, other, session="s").ask(QUESTION).origin == "model"
    assert (len(model.asked), len(other.asked)) == (3, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0.7), ("max_output_tokens", 77), ("base_url", "http://127.0.0.1:2/v1")],
)
def test_no_answer_crosses_how_a_model_is_asked(space, name, value):
    chat(space, Spy(), session="s").ask(QUESTION)
    other = opened(space.data_dir, **{f"provider.{name}": value})
    assert chat(other, Spy(), session="s").ask(QUESTION).origin == "model"
    assert chat(other, Spy(), session="s").ask(QUESTION).origin == "cached"


def test_a_file_that_changed_since_is_a_border_before_it_is_ingested(space):
    name = next(iter(sorted(DOCS)))
    talk = chat(space, model := Spy(), session="s", files=(name,))
    talk.ask(QUESTION)
    assert talk.ask(QUESTION).origin == "cached"
    path = docs_of(space) / name
    path.write_text(path.read_text() + "\nThe lock is gone.\n")
    assert talk.ask(QUESTION).origin == "model" and len(model.asked) == 2


def test_blue_turns_broken_answers_and_extracts_are_never_given_again(space):
    talk = chat(space, Spy(), session="s")
    talk.ask(QUESTION)
    tag(space, turns(space)[0].id, add=["BLUE"])
    assert talk.ask(QUESTION).origin == "model"
    tag(space, turns(space)[1].id, add=["blue"])
    tag(space, turns(space)[1].id, remove=["BLUE"])
    assert talk.ask(QUESTION).answer.source_turn == turns(space)[1].id
    gone = chat(space, unreachable(), session="t", settings={**MEMORY, "retrieval.top_k": 9})
    assert [gone.ask(QUESTION).origin for _ in range(2)] == ["extract", "extract"]
    assert [turn.scope for turn in turns(space) if turn.origin == "extract"] == ["", ""]


def test_an_answer_of_which_no_citation_holds_is_not_given_again(space):
    class Vague(Spy):
        def stream(self, messages):
            yield from ScriptedChat.stream(self, messages)

    model = Vague()
    model._entries = [{"say": "One writer [source: nowhere.md, chunk: deadbeef]."}]
    talk = chat(space, model, session="s")
    assert [talk.ask(QUESTION).origin for _ in range(2)] == ["model", "model"]


def test_an_imported_answer_is_never_given_again(space, tmp_path):
    from ragstream_core.services.history_transfer import export_jsonl, import_jsonl

    talk = chat(space, model := Spy(), session="s")
    talk.ask(QUESTION)
    lines = list(export_jsonl(space))
    clear(space, Choice(everything=True))
    assert import_jsonl(space, lines).added == 2
    assert talk.ask(QUESTION).origin == "model" and len(model.asked) == 2


def test_the_best_score_wins_and_of_equals_the_newest(space):
    talk = chat(space, Spy(), session="s", settings={**MEMORY, "memory.cache": False})
    for _ in range(2):
        talk.ask(QUESTION)
    change(talk, settings=MEMORY)
    assert talk.ask(QUESTION).answer.source_turn == turns(space)[1].id


def test_it_holds_over_restarts_and_a_lost_or_damaged_file_is_made_again(space, tmp_path):
    chat(space, Spy(), session="s").ask(QUESTION)
    (path,) = space.layout.memory.glob("*.vectors")
    whole = path.read_bytes()
    assert QUESTION.encode() not in whole and SAID.encode() not in whole
    for damaged in (whole, b"", whole[:-7], whole.replace(b'"seq"', b'"sex"', 1), None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        fresh = chat(opened(tmp_path), model := Spy(), session="s")
        assert fresh.ask(QUESTION).origin == "cached" and not model.asked
        assert path.read_bytes()


def test_clearing_takes_the_answer_its_copies_and_the_files(space):
    talk = chat(space, model := Spy("The canary zanzibar sings of the project lock"), session="s")
    talk.ask(QUESTION)
    change(talk, session="t")
    assert talk.ask(QUESTION).origin == "cached"
    report = clear(space, Choice("s"))
    assert sorted(report.sessions) == ["s", "t"] and report.turns == 2
    assert not [
        p for p in space.data_dir.rglob("*") if p.is_file() and b"zanzibar" in p.read_bytes()
    ]
    assert not list(space.layout.memory.glob("*.vectors"))
    assert talk.ask(QUESTION).origin == "model" and len(model.asked) == 2


def test_a_prompt_that_expired_leaves_the_rows_of_the_turn(space):
    import shutil

    talk = chat(space, Spy(), session="s")
    first = talk.ask(QUESTION)
    shutil.rmtree(space.store.root / first.answer.prompt_key)
    again = talk.ask(QUESTION)
    (citation,) = again.answer.citations
    assert again.origin == "cached" and citation.known and not citation.verified
    assert "not kept any more" in citation.reason
    assert citation.id == first.answer.citations[0].id


def test_without_persistence_nothing_is_looked_up_or_written(space):
    before = {p: p.read_bytes() for p in space.data_dir.rglob("*") if p.is_file()}
    talk = chat(space, model := Spy(), settings={**MEMORY, "history.persist": False})
    found = [talk.ask(QUESTION) for _ in range(2)]
    assert [turn.origin for turn in found] == ["model", "model"] and len(model.asked) == 2
    assert "persist" not in found[0].trace and found[0].answer.session == ""
    assert {p: p.read_bytes() for p in space.data_dir.rglob("*") if p.is_file()} == before


def test_the_facade_answers_and_tells_what_memory_adds(space):
    talk = chat(space, Spy(), session="s")
    talk.ask(QUESTION)
    request = PromptRequest(QUESTION, ("demo",), settings=MEMORY, session="s")
    memory = RagstackMemory(space, request, model=Spy())
    found = memory.maybe_answer(QUESTION)
    assert found is not None and found.score == 1.0 and SAID in found.answer.text
    assert memory.maybe_answer("Where do the penguins of the south live?") is None
    assert SAID in memory.build_memory_context(QUESTION)


def test_a_failing_model_is_an_error_and_the_question_is_kept(space):
    class Busy(Spy):
        def stream(self, messages):
            raise ChatFailed("too many requests")
            yield

    talk = chat(space, Busy(), session="s")
    with pytest.raises(ChatFailed, match="too many"):
        talk.ask(QUESTION)
    assert [row.turn.status for row in show(space)] == ["unanswered"]
