"""The tokens of a prompt by section and quotation, counted in one pass or part by part."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.prompts.edited_prompt import BEFORE, text_tokens
from ragstream_core.prompts.fences import Source, frame
from ragstream_core.text.token_estimates import ScriptTokenCounter

NONCE = "0123456789ab"
WORDS = st.text("ab c\né的\u2028", max_size=12)
QUOTED = st.tuples(WORDS, st.sampled_from(["a.md", "folder/b c.md"]))
SECTIONS = st.lists(st.tuples(st.sampled_from(["SYSTEM", "TASK"]), WORDS, st.lists(QUOTED)))


class Apart:
    """The same counter, by another class: it can count whole texts only."""

    name = ScriptTokenCounter().name

    def count(self, text):
        return ScriptTokenCounter().count(text)


def written(before, sections):
    lines, number = [before] if before else [], 0
    for name, own, quoted in sections:
        lines += [f"## [{NONCE}] {name}", own]
        for text, path in quoted:
            number += 1
            lines += frame(number, NONCE, source=Source("id", path, (0, 1), "a" * 12), text=text)
    return "\n".join(lines)


@given(WORDS, SECTIONS)
def test_one_pass_gives_the_tree_that_counting_part_by_part_gives(before, sections):
    text = written(before, sections)
    tree = text_tokens(text, NONCE, ScriptTokenCounter())
    assert tree == text_tokens(text, NONCE, Apart())
    assert tree.total == ScriptTokenCounter().count(text)
    assert sum(block.tokens for block in tree.blocks) == tree.total


def test_a_section_names_its_quotations():
    text = written("before", [("SYSTEM", "own", [("said", "folder/b c.md")])])
    before, system = text_tokens(text, NONCE, ScriptTokenCounter()).blocks
    assert (before.name, system.name) == (BEFORE, "SYSTEM")
    assert [part.name for part in system.parts] == ["folder/b c.md"]
