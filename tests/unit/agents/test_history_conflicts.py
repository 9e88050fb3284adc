"""The conversation in the chain: ❖ FILES > newer > older, no place of its own, its own budget."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.history_conflicts import against_files, superseded
from ragstream_core.prompts.render import number_lines
from ragstream_core.records import Chunk, Extras, SuperPrompt
from ragstream_core.records.extras import entry_from
from ragstream_core.text.token_estimates import HeuristicTokenCounter

CODE = "def retry(times):\n    for attempt in range(times):\n        call_the_server(attempt)\n"
FILE = {"path": "retry.py", "home": ["demo", "retry.py"], "text": CODE, "sha256": "a" * 64}


def turn(seq: int, text: str, **meta) -> Chunk:
    snippet = f"[2026-10-0{seq % 9 + 1} 10:00] user: {text}"
    about = {"turn_id_start": seq, "turn_id_end": seq, "project": "~history", **meta}
    return Chunk(f"history::chat::{seq}-{seq}::0", f"chat/{seq}", snippet, (0, 9), about)


def document(name: str, text: str) -> Chunk:
    return Chunk(f"{name}::{'0' * 64}::0", name, text, (0, len(text)), {"project": "demo"})


def candidates(*chunks: Chunk, cosine=0.5, **extras) -> SuperPrompt:
    prompt = SuperPrompt(body={"task": "How does retry work?"})
    prompt.base_context_chunks = list(chunks)
    prompt.views_by_stage = {"reranked": [c.id for c in chunks], "a3": [c.id for c in chunks]}
    scores = {"score": 0.5, "best_cosine": cosine, "piece_cosines": [cosine]}
    prompt.extras = Extras.from_json(
        {
            "scores": {c.id: scores for c in chunks},
            "query_pieces": [{"id": "q1", "text": "How does retry work?"}],
            **extras,
        }
    )
    return prompt


def rules(prompt: SuperPrompt, stage: str) -> dict[str, str]:
    return {d.chunk_id: d.rule for d in prompt.extras.decisions if d.stage == stage}


def against(chunk: Chunk, row: dict):
    return against_files(chunk, entry_from("files", [row]))


def test_a_fragment_that_shows_a_file_in_another_version_gives_way_and_is_a_conflict():
    old = turn(3, "here is retry.py", versions=({"path": "retry.py", "sha256": "b" * 64},))
    done = NliGate(-1.0)(candidates(old, files=[FILE]))
    assert done.views_by_stage["a3"] == []
    assert rules(done, "a3") == {old.id: "conflicts_with_files"}
    (conflict,) = done.extras.conflicts
    assert (conflict.winner, conflict.loser) == ("retry.py", old.id)
    assert any("retry.py wins over" in row.message for row in done.extras.events)


def test_the_numbers_of_a_files_lines_hide_nothing_from_the_comparison():
    for text in (CODE, "The retries of the server are three,\nand no more.\n"):
        said = Chunk("history::chat::1-1::0", "log", text, (0, 9), {"turn_id_end": 1})
        plain = {**FILE, "text": text}
        numbered = {**plain, "text": number_lines(text), "numbered": True}
        assert against(said, plain) == against(said, numbered)
        assert against(said, plain).rule == "duplicates_files"


def test_the_same_version_of_a_file_is_no_conflict():
    same = turn(3, "I like this file", versions=({"path": "retry.py", "sha256": "a" * 64},))
    assert against(same, FILE) is None


def test_a_file_of_another_folder_is_known_by_the_name_that_it_has_at_home():
    old = turn(3, "here is it", versions=({"path": "retry.py", "sha256": "b" * 64},))
    injected = {**FILE, "path": "demo/retry.py"}
    assert against(old, injected).rule == "conflicts_with_files"


def test_a_high_rank_keeps_a_document_but_no_fragment_of_the_conversation():
    past, page = turn(3, "what was said once"), document("a.md", "what a document says")
    done = NliGate(0.9, keep_top=2)(candidates(past, page, cosine=0.5))
    assert done.views_by_stage["a3"] == [page.id]
    assert rules(done, "a3") == {past.id: "similarity_gate", page.id: "keep_top"}


def test_pasted_code_that_differs_in_a_line_conflicts_and_equal_code_duplicates():
    changed = turn(4, "\n" + CODE.replace("call_the_server", "ping_the_client"))
    equal = turn(5, "\n" + CODE)
    assert against(changed, FILE).rule == "conflicts_with_files"
    assert against(equal, FILE).rule == "duplicates_files"
    assert against(turn(6, "What does the retry do in general?"), FILE) is None


def test_what_dates_and_speakers_have_in_common_makes_no_two_turns_alike():
    when = "[20 November 2026, 13:53]"
    said = [
        turn(n, f"The torque of bolt {n}?\n{when} assistant: {90 + n} Nm, cold") for n in (1, 2)
    ]
    assert superseded(said, stemmed_terms) == {}


def test_the_same_words_at_another_time_are_no_conflict():
    said = "The timeout of the retry loop is set to thirty seconds\n[{}] assistant: So it is."
    turns = [turn(n, said.format(f"{n} October 2026, 10:00")) for n in (1, 2)]
    (verdict,) = superseded(turns, stemmed_terms).values()
    assert (verdict.winner, verdict.conflict) == (turns[1].id, False)


def test_the_newer_of_two_turns_that_say_nearly_the_same_stays_whatever_their_ranks():
    first = turn(1, "The timeout of the retry loop is set to thirty seconds in production")
    second = turn(8, "The timeout of the retry loop is set to ninety seconds in production")
    for order in ([first, second], [second, first]):
        done = NliGate(-1.0)(candidates(*order))
        assert done.views_by_stage["a3"] == [second.id]
        assert done.extras.conflicts[0].winner == second.id


def test_a_turn_that_holds_what_is_asked_gives_way_to_none_that_does_not():
    said = "Lunch was good and the weather was fine and the meeting about {} went on for long"
    turns = [turn(1, said.format("Zebulon")), turn(2, said.format("pumps"))]
    assert list(superseded(turns, stemmed_terms)) == [turns[0].id]
    assert superseded(turns, stemmed_terms, stemmed_terms("Who met Zebulon?")) == {}
    assert list(superseded(turns, stemmed_terms, stemmed_terms("What of lunch?"))) == [turns[0].id]


def test_pieces_of_one_turn_never_replace_each_other():
    whole = "The timeout of the retry loop is thirty seconds and nobody may change it"
    pieces = [turn(1, whole), turn(1, whole)]
    assert superseded(pieces, stemmed_terms) == {}


@given(st.lists(st.sampled_from(["retry timeout thirty seconds production limit loop", "b c d"]),
                min_size=1, max_size=6))  # fmt: skip
def test_every_text_survives_in_its_newest_turn(texts):
    chunks = [turn(seq, text) for seq, text in enumerate(texts, 1)]
    gone = superseded(chunks, stemmed_terms)
    newest = {text: chunk.id for text, chunk in zip(texts, chunks, strict=True)}
    assert set(newest.values()).isdisjoint(gone)
    assert {c.id for c in chunks} - set(gone) == set(newest.values())


def test_a_far_turn_is_dropped_though_it_ranks_first_and_a_far_document_is_not():
    past, told = turn(1, "Lunch was good"), document("a.md", "Something else entirely")
    done = NliGate(0.4, keep_top=3)(candidates(past, told, cosine=0.1))
    assert done.views_by_stage["a3"] == [told.id]


@given(st.integers(0, 400), st.integers(0, 12), st.integers(0, 12))
def test_the_conversation_never_exceeds_its_budget_nor_starves_the_documents(
    history_tokens, turns, pages
):
    chunks = [turn(n, f"We said that retry number {n} waits {n} seconds. " * 4)
              for n in range(1, turns + 1)]  # fmt: skip
    chunks += [document(f"{n}.md", f"The retry of page {n} waits. " * 6) for n in range(pages)]
    counter = HeuristicTokenCounter()
    done = Condenser(counter, budget_tokens=3000, history_tokens=history_tokens)(
        candidates(*chunks)
    )
    tokens = {d.chunk_id: d.tokens for d in done.extras.decisions if d.kept}
    past = sum(n for i, n in tokens.items() if i.startswith("history::"))
    assert past <= history_tokens
    assert done.final_selection_ids == [c.id for c in chunks if c.id in tokens]
    if pages:
        assert any(not i.startswith("history::") for i in tokens)


def test_facts_come_from_the_conversation_only_where_it_is_switched_on():
    said = turn(2, "The retry waits thirty seconds before it works again.")
    page = document("a.md", "The retry works three times and waits between them.")
    for switched_on in (False, True):
        done = Condenser(HeuristicTokenCounter(), past_facts=switched_on)(
            candidates(said, page, cosine=0.9)
        )
        cited = {c.chunk_id for f in done.extras.s_ctx.facts for c in f.citations}
        assert (said.id in cited) is switched_on
        assert said.id in done.final_selection_ids
