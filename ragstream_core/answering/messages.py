"""The messages of a finished prompt: our own blocks as System, everything that is quoted as user.

No retrieved text ever stands in the System message. What is added there is said once and is part of
the product: cite by the marker, or say the one sentence that means "not in the documents"; the
settings may word it otherwise. A text that a person edited is sent as it stands, cut in two and
nothing added: what was seen is sent.
"""

from __future__ import annotations

from ragstream_core.answering.grounding import REFUSAL, Grounding
from ragstream_core.errors import FenceBroken
from ragstream_core.prompting.parser import owners
from ragstream_core.prompting.reparse import is_edited, split_system
from ragstream_core.records import SuperPrompt
from ragstream_core.records.chat import ChatMessage
from ragstream_core.settings.wording import REFUSAL_PLACE

_RULES: dict[Grounding, str] = {
    "documents": (
        "Put `[source: <filename>, chunk: <chunk_id>]` directly behind every claim, with the file "
        "name and the id that stand with the material it comes from, and cite nothing else. "
        "Where the material does not answer the question, reply with exactly this sentence and "
        f"without a citation: {REFUSAL}"
    ),
    "memory": (
        "This prompt holds no document. Answer from PROJECT MEMORY and RECENT HISTORY alone and "
        "write no citation markers, whatever else is said about citing. Where they do not answer "
        f"the question, reply with exactly this sentence: {REFUSAL}"
    ),
    "nothing": f"Reply with exactly this sentence: {REFUSAL}",
}
_OURS = ("heading", "HARD RULES", "PROJECT MEMORY", "SYSTEM")


def messages_of(
    prompt: SuperPrompt, grounding: Grounding, *, wording: str = ""
) -> list[ChatMessage]:
    """Return the System and the user message of a prompt.

    Args:
        prompt: After the prompt builder.
        grounding: What the answer may rest on; decides the last paragraph of the System message.
        wording: That paragraph in the user's own words, with `REFUSAL_PLACE`; empty: in ours.

    Raises:
        FenceBroken: A line of the System part is not ours or the user's.
    """
    text, system = str(prompt.extras["super_prompt"]), prompt.System_MD
    nonce = str(prompt.extras["fence"]["nonce"])
    if is_edited(prompt):
        own, rest = split_system(text, nonce)
        return [*([ChatMessage("system", own)] if own else []), ChatMessage("user", rest)]
    foreign = set(owners(system, nonce)) - set(_OURS)
    if foreign or not text.startswith(f"{system}\n"):
        raise FenceBroken(
            f"the System message would hold lines of {', '.join(sorted(foreign)) or 'nobody'}",
            hint="build the prompt again; report it if that does not help",
        )
    user = text[len(system) :].strip("\n")
    rules = wording.replace(REFUSAL_PLACE, REFUSAL) or _RULES[grounding]
    return [ChatMessage("system", f"{system}\n\n{rules}"), ChatMessage("user", user)]
