"""Laws of passages that repeat one another: what is not shown stands, word for word, in what is."""

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.agents.context.repeats import repeats
from ragstream_core.records import Chunk, Extras, SuperPrompt

SENTENCES = st.sampled_from(
    ["Pump seven moves 400 litres.", "It must not run dry.", "Close the *left* valve first.",
     "Der Deckel bleibt zu.", "- an item with two words", "1. the first step", "| a | 5 |",
     "```\nrun --all\n```", "## Limits", "中文的句子。"]
)  # fmt: skip
TEXTS = st.lists(SENTENCES, min_size=1, max_size=6).map("\n\n".join)
WORDS = re.compile(r"\w+")


def chunk(text, name="a.md", n=0):
    return Chunk(f"{name}::x::{n}", name, text, (0, len(text)), {"project": "demo"})


@given(TEXTS, TEXTS)
def test_a_repeat_adds_no_word_and_no_number(one, other):
    if repeats(chunk(one), chunk(other)):
        assert set(WORDS.findall(one)) <= set(WORDS.findall(other))
        assert repeats(chunk(one), chunk(f"{other}\n\nMore."))


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_repeats_itself_and_what_surrounds_it(one, before, after):
    assert repeats(chunk(one), chunk(one))
    whole = f"{before}\n\n{one}\n\n{after}"
    assert repeats(chunk(one), chunk(whole))
    assert not repeats(chunk(whole), chunk(one))


@given(TEXTS, st.data())
def test_any_further_word_or_other_number_makes_it_none(text, data):
    places = [0, *(match.end() for match in re.finditer(r"\s", text)), len(text)]
    at = data.draw(st.sampled_from(places))
    new = data.draw(st.sampled_from(["not", "401", "Berlin", "v2", "nicht"]))
    assert not repeats(chunk(f"{text[:at]} {new} {text[at:]}"), chunk(text))
    digits = list(re.finditer(r"\d", text))
    assume(digits)
    where = data.draw(st.sampled_from(digits)).start()
    assert not repeats(chunk(f"{text[:where]}9{text[where + 1 :]}"), chunk(text))


@given(st.lists(SENTENCES, min_size=3, max_size=6, unique=True))
def test_a_gap_or_another_order_makes_it_none(parts):
    gap = "\n\n".join([parts[0], *parts[2:]])
    assert not repeats(chunk(gap), chunk("\n\n".join(parts)))
    assert not repeats(chunk("\n\n".join(parts[::-1])), chunk("\n\n".join(parts)))


def test_form_may_differ_and_meaning_may_not():
    said = "## Limits\n\nA prompt holds at most 5 files. It is **never** cut."
    for same in (
        "Limits\n======\n\nA prompt holds at most\n5 files. It is never cut.",
        "A prompt holds at most *5 files*.",
        "* It is never cut",
    ):
        assert repeats(chunk(same), chunk(said))
    for other in (
        "A prompt holds at most 50 files.", "A prompt holds at most -5 files.",
        "It is cut.", "A prompt holds files.", "Is it never cut?", "1. It is never cut.",
        "a prompt holds at most 5 files", "",
    ):  # fmt: skip
        assert not repeats(chunk(other), chunk(said))


def test_programs_are_compared_line_by_line_as_they_stand():
    code = "class Pump:\n    RATE = 400\n\n    def run(self):\n        return self.RATE * 2\n"
    assert repeats(chunk("    RATE = 400\n", "b.py"), chunk(code, "a.py"))
    assert not repeats(chunk("RATE = 400\n", "b.py"), chunk(code, "a.py"))
    assert not repeats(chunk("    RATE = *400*\n", "b.py"), chunk(code, "a.py"))
    assert not repeats(chunk("class Pump:\n    def run(self):", "b.py"), chunk(code, "a.py"))


@given(st.lists(st.tuples(TEXTS, st.integers(0, 20)), min_size=1, max_size=6), st.integers(0, 20))
def test_what_the_gate_leaves_out_stands_in_a_kept_one_that_names_it_if_it_says_the_same(
    drawn, theta
):
    prompt = SuperPrompt(body={"task": "Which text?"})
    prompt.stage = "reranked"
    prompt.base_context_chunks = [chunk(text, f"f{n}.md") for n, (text, _) in enumerate(drawn)]
    ids = prompt.views_by_stage["reranked"] = [c.id for c in prompt.base_context_chunks]
    scores = {i: {"best_cosine": s / 20, "piece_cosines": [s / 20]}
              for i, (_, s) in zip(ids, drawn, strict=True)}  # fmt: skip
    prompt.extras = Extras.from_json(
        {"query_pieces": [{"id": "q1", "text": "Which text?"}], "scores": scores}
    )
    done = NliGate(theta / 20, 1)(prompt)
    chunks = {c.id: c for c in prompt.base_context_chunks}
    kept, shown_for = done.views_by_stage["a3"], done.extras.repeats
    rows = {d.chunk_id: d for d in done.extras.decisions if d.stage == "a3"}
    for repeat, shown in shown_for.items():
        assert shown in kept and repeat not in kept
        assert repeats(chunks[repeat], chunks[shown])
        assert rows[repeat].rule in ("near_duplicate", "duplicate_text")
        assert len(chunks[shown].snippet) <= 1.25 * len(chunks[repeat].snippet)
    for i in {i for i, row in rows.items() if row.rule == "near_duplicate"} - set(shown_for):
        holders = [chunks[one] for one in kept if repeats(chunks[i], chunks[one])]
        assert any(len(c.snippet) > 1.25 * len(chunks[i].snippet) for c in holders)
    for at, one in enumerate(kept):
        assert not any(repeats(chunks[one], chunks[other]) for other in kept[:at])
        longer = [chunks[i] for i in kept[at + 1 :] if repeats(chunks[one], chunks[i])]
        assert all(len(c.snippet) > 1.25 * len(chunks[one].snippet) for c in longer)
