"""Blocks: which field goes where, authority order, what is shown when."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.prompts.line_owners import verify
from ragstream_core.prompts.render import (
    NEAREST_ONLY,
    join,
    number_lines,
    pack,
    render_prompt_md,
    s_ctx_block,
    system_blocks,
    trusted,
)
from ragstream_core.records import Chunk, Extras, SuperPrompt
from ragstream_core.records.s_ctx import SCtx
from ragstream_core.text.token_estimates import HeuristicTokenCounter

BODY = {
    "system": "SYS", "role": "ROLE", "tone": "TONE", "depth": "DEPTH", "audience": "AUD",
    "task": "TASKTEXT", "purpose": "PURP", "context": "SETTING", "format": "as JSON", "text": "TXT",
}  # fmt: skip


def test_fields_go_to_their_blocks():
    system = join(system_blocks(BODY, ("HARD", "MEMORY"), nonce=""))
    prompt = render_prompt_md(BODY)
    for word in ("SYS", "ROLE", "TONE", "DEPTH", "AUD", "HARD", "MEMORY"):
        assert word in system
        assert word not in prompt
    for word in ("TASKTEXT", "PURP", "SETTING", "as JSON", "TXT"):
        assert word in prompt
        assert word not in system
    assert system.index("HARD") < system.index("MEMORY") < system.index("ROLE")


def test_a_plain_prompt_is_its_own_prompt_md():
    assert render_prompt_md({"task": "How?", "text": "How?"}) == "How?"


def test_the_three_headings_always_stand():
    text = s_ctx_block(SCtx(), nonce="0" * 12, warning=NEAREST_ONLY).text
    assert re.findall("^### (.*)$", text, re.MULTILINE) == ["Facts", "Constraints", "Open Issues"]
    assert NEAREST_ONLY in text


def _prompt(**extras):
    prompt = SuperPrompt(body={"task": "Do it"})
    prompt.base_context_chunks = [
        Chunk("a.md::x::0", "a.md", "Alpha is one.", (5, 18), {"sha256": "c" * 64}),
        Chunk("history::chat::1-1::0", "history", "we said beta", (0, 12), {}),
    ]
    prompt.final_selection_ids = [c.id for c in prompt.base_context_chunks]
    prompt.recentConversation = {"body": "user: hi", "pairs_count": 1, "range": (0, 1)}
    cited = [{"chunk_id": "a.md::x::0", "short_id": "aaaaaaaa", "source": "a.md"}]
    fact = {"text": "Alpha is one.", "heading": "", "citations": cited}
    prompt.extras = Extras.from_json(
        {
        "files": [{"id": "f", "path": "c.yml", "chars": 4, "sha256": "d" * 64, "mode": "FULL",
                   "text": "k: v"}],
        "short_ids": {"a.md::x::0": "aaaaaaaa"}, "headers": [{"name": "Log", "text": "boom"}],
        "s_ctx": {"facts": [fact], "constraints": [], "open_issues": []}, **extras,
        }
    )  # fmt: skip
    return prompt


def names(composed):
    return [block.name for block in composed.blocks]


def test_authority_order_and_owners():
    composed = compose(_prompt(), Layout("HARD", "MEMORY"))
    assert names(composed) == [
        "HARD RULES", "PROJECT MEMORY", "SYSTEM", "❖ FILES", "S_CTX", "ATTACHMENTS",
        "RECENT HISTORY (non-authoritative)", "TASK",
    ]  # fmt: skip
    verify(composed.text, composed.nonce, composed.owners)
    assert composed.text.split("\n")[1] == "HARD"
    assert "| F1. Alpha is one. [source: a.md, chunk: aaaaaaaa]" in composed.text
    assert 'source="a.md" span="5-18" sha256="cccccccccccc"' in composed.part("ATTACHMENTS")
    assert "### Log\nboom" in composed.part("TASK")


def test_history_is_a_block_of_its_own_with_a_toggle():
    composed = compose(_prompt(), Layout())
    assert "beta" not in composed.part("ATTACHMENTS")
    assert "beta" in composed.part("RECENT HISTORY (non-authoritative)")
    hidden = compose(_prompt(), Layout(recent_history=False))
    assert "RECENT HISTORY (non-authoritative)" not in names(hidden)
    assert "beta" not in hidden.text


def test_classic_order_puts_the_task_before_s_ctx():
    found = names(compose(_prompt(), Layout(block_order="classic")))
    assert found.index("TASK") < found.index("S_CTX") < found.index("ATTACHMENTS")


def test_locked_shows_files_and_task_only():
    found = names(compose(_prompt(pool={"lock": True}), Layout("HARD")))
    assert found == ["HARD RULES", "SYSTEM", "❖ FILES", "TASK"]


def test_a_cut_excerpt_says_so():
    composed = compose(_prompt(cuts={"a.md::x::0": 5}), Layout())
    assert 'span="5-10" sha256="cccccccccccc" mode="CUT"' in composed.text


def test_pack_keeps_head_tail_signatures_and_says_what_is_missing():
    lines = [f"x{i} = {i}" for i in range(200)]
    lines[100] = "def middle(a):"
    packed = pack("\n".join(lines), "a.py").split("\n")
    assert packed[0] == "  1  x0 = 0"
    assert "101  def middle(a):" in packed
    assert packed[-1] == "200  x199 = 199"
    assert "… 70 lines omitted (31-100) …" in packed
    shown = sum(not line.startswith("…") for line in packed)
    missing = sum(int(line.split()[1]) for line in packed if line.startswith("…"))
    assert shown + missing == 200


def test_pack_cuts_a_giant_line():
    assert len(pack("x" * 100_000, "a.json")) < 400


def test_line_numbers():
    assert number_lines("a\nb") == "1  a\n2  b"


def test_the_estimate_is_labelled_and_monotone():
    counter = HeuristicTokenCounter()
    assert "estimate" in counter.name
    assert [counter.count("x" * n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_the_nonce_depends_on_the_persons_own_words():
    from ragstream_core.prompts.blocks import Layout, compose
    from ragstream_core.records import SuperPrompt

    layout = Layout("Rules.", "")
    one = compose(SuperPrompt(body={"task": "one"}), layout).nonce
    other = compose(SuperPrompt(body={"task": "other"}), layout).nonce
    assert one != other
    assert compose(SuperPrompt(body={"task": f"write {one}"}), layout).nonce not in f"write {one}"


@settings(deadline=None)
@given(st.text(st.sampled_from("ab \r\n\t\x85\u2028\ud800\udfff|#\u202e"), max_size=40))
def test_ones_own_words_stay_but_for_line_ends_and_what_utf_8_cannot_hold(text):
    kept = trusted(text)
    assert kept.encode("utf-8").decode("utf-8") == kept == trusted(kept)
    assert "\r" not in kept and kept == kept.strip("\n")
    same = re.sub("\r\n?", "\n", text).strip("\n")
    assert kept == re.sub("[\ud800-\udfff]", "?", same)


def test_a_section_that_the_prompt_says_already_is_not_said_twice():
    headers = [{"name": "Log", "text": "Do it"}, {"name": "Other", "text": "new words"}]
    task = compose(_prompt(headers=headers), Layout()).part("TASK")
    assert task.count("Do it") == 1 and "### Log" not in task
    assert "### Other\nnew words" in task


def test_nobody_is_asked_to_cite_where_nothing_is_quoted():
    assert "Cite what you use" in compose(_prompt(), Layout()).text
    assert "Cite what you use" not in compose(SuperPrompt(body={"task": "x"}), Layout()).text
