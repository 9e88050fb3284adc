"""Where a secret stands in what would leave: section, source and line, by the marks in it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.answers.answer import places_of, secret_places
from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.prompts.fences import safe_name
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.chat import ChatMessage
from ragstream_core.records.stage_results import InjectedFile

KEY = "AKIA" + "QX7PLM2ZR5T9VB3N"
CLEAN = st.lists(st.sampled_from(["Alpha.", "## TASK", "<<END DOC 1 abc>>", ""]), max_size=4)
NAMES = st.sampled_from(["a.md", "deep/b c.md", "x\ny.md", "é.md", '"q".md'])


@settings(max_examples=300, deadline=None)
@given(CLEAN, CLEAN, NAMES, st.integers(0, 3), st.booleans())
def test_a_planted_key_is_named_by_its_source_section_and_line(before, after, name, at, injected):
    texts = ["alpha"] * 4
    texts[at] = "\n".join([*before, f"key {KEY} end", *after])
    names = [f"{n}.md" for n in range(4)]
    names[at] = name
    prompt = SuperPrompt(body={"task": "Explain it"})
    rows = list(zip(names, texts, strict=True))
    if injected:
        prompt.extras.files = tuple(
            InjectedFile(id=path, path=path, chars=1, sha256="0", text=text) for path, text in rows
        )
    else:
        prompt.base_context_chunks = [
            Chunk(f"{path}::0", path, text, (0, 1), {}) for path, text in rows
        ]
        prompt.final_selection_ids = [chunk.id for chunk in prompt.base_context_chunks]
    text = compose(prompt, Layout("Rules.")).text
    line = text[: text.index(KEY)].count("\n") + 1
    section = "❖ FILES" if injected else "ATTACHMENTS"
    assert len(safe_name(name)) <= 200
    assert places_of(text) == [f"aws-key in {name} ({section}, line {line})"]


def test_a_key_in_ones_own_words_is_named_by_its_section():
    prompt = SuperPrompt(body={"task": f"Why does {KEY} fail?"})
    prompt.base_context_chunks = [Chunk("a::0", "a.md", "alpha", (0, 5), {})]
    prompt.final_selection_ids = ["a::0"]
    composed = compose(prompt, Layout(f"Never say {KEY}."))
    lines = composed.text.split("\n")
    last = next(n for n, line in enumerate(lines, start=1) if line.startswith("Why"))
    said = places_of(composed.text)
    assert said == ["aws-key in HARD RULES (line 2)", f"aws-key in TASK (line {last})"]
    head, end, rest = composed.text.partition("<<END DOC 1 ")
    typed = head + end + rest.replace("\n", f"\ntyped {KEY}\n", 1)
    number = typed[: typed.index("typed")].count("\n") + 1
    assert f"aws-key in ATTACHMENTS (line {number})" in places_of(typed)
    messages = [ChatMessage("system", "no mark"), ChatMessage("user", f"\n{KEY}")]
    assert secret_places(messages) == ["aws-key in the prompt (line 2)"]
    assert places_of(f"{KEY} and {KEY}") == ["aws-key in the prompt (line 1)"]
    assert not any(KEY in place for place in said)
