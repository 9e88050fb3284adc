"""The System message is ours: however a prompt were cut, no quoted line comes into it."""

import pytest

from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.answers.answer import messages_of
from ragstream_core.errors import FenceBroken
from ragstream_core.prompts.blocks import Layout
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.stage_results import InjectedFile
from ragstream_core.text.token_estimates import HeuristicTokenCounter

HIDDEN = "\u200b"


def built(**layout):
    prompt = SuperPrompt(body={"task": "Explain it"})
    prompt.base_context_chunks = [
        Chunk("a::0", "a.md", f"al{HIDDEN}pha", (0, 6), {}),
        Chunk("history::a::0", "chat", f"be{HIDDEN}ta", (0, 5), {}),
    ]
    prompt.final_selection_ids = [chunk.id for chunk in prompt.base_context_chunks]
    prompt.recentConversation = {"body": f"user: h{HIDDEN}i", "pairs_count": 1, "range": (0, 1)}
    file = InjectedFile(id="f", path="f.md", chars=6, sha256="0", text=f"ga{HIDDEN}mma")
    prompt.extras.files = (file,)
    layout = Layout("Rule one.", "Memory line.", **layout)
    return PromptBuilder(HeuristicTokenCounter(), layout)(prompt)


@pytest.mark.parametrize("order", ["authority", "classic"])
def test_system_holds_rules_memory_and_voice_and_user_all_the_rest(order):
    prompt = built(block_order=order)
    system, user = messages_of(prompt, "documents")
    text = prompt.extras.super_prompt
    assert (system.role, user.role) == ("system", "user")
    assert system.text.startswith(text[: text.index("\n\n## [", text.index("] SYSTEM"))])
    assert not [line for line in system.text.split("\n") if line.startswith(("|", "<<"))]
    assert "Rule one." in system.text and "Memory line." in system.text
    for word in ("alpha", "beta", "gamma", "user: hi", "Explain it"):
        assert word in user.text and word not in system.text
    assert text == f"{prompt.System_MD}\n\n{user.text}\n"


def test_no_cut_of_a_prompt_brings_a_foreign_line_into_the_system_message():
    prompt = built()
    text = prompt.extras.super_prompt
    quoted = text.index("\n<<DOC 1")
    ends = [at for at, char in enumerate(text) if char == "\n"]
    assert len(ends) > 30
    for at in ends:
        prompt.System_MD = text[:at]
        if at <= quoted:
            assert messages_of(prompt, "documents")[0].text.startswith(prompt.System_MD)
            continue
        with pytest.raises(FenceBroken):
            messages_of(prompt, "documents")
    for other in ("## Another\ntext", built().System_MD.replace("one", "two")):
        prompt.System_MD = other
        with pytest.raises(FenceBroken):
            messages_of(prompt, "documents")


def test_what_was_taken_out_of_any_quotation_is_counted():
    assert built().extras.fence.dropped == {"zero_width": 4}
