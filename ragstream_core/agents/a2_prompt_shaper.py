"""A2 · Prompt Shaper, pass 1: intent, domain and header proposals before anything is retrieved.

Reads ``body``, ``extras["explicit"]``, Hard Rules, Project Memory, and of the prompt's own
conversation Layer G and the older turns that share most words with the ask (Layer E); what others
said says nothing about this prompt. Writes ``extras["shape"]`` (intent, domain, deliverable,
artefacts, and the headers it proposed) and fills role, only where it is sure, and depth where
nobody has settled them; a proposed format stays in the shape, so that Prompt_MD, which the reranker
reads, holds the person's words only. Never changes a word the person wrote, Hard Rules, Project
Memory or the file lock. Switched off, it passes the prompt through with an event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ragstream_core.agents.asking import Ask
from ragstream_core.agents.past import words_of
from ragstream_core.agents.shape import Shape, classify, propose_headers, role_is_sure, shape_row
from ragstream_core.agents.shaping import shaped
from ragstream_core.agents.subject import UNDETERMINED, settled_by
from ragstream_core.agents.trail import advance, put_notes
from ragstream_core.records import BODY_DEFAULTS, SuperPrompt

OP = "a2_prompt_shaper"


def free_keys(prompt: SuperPrompt) -> set[str]:
    """Return the body keys the person left open, be they settled by the rules or not.

    A key is free when it is empty, still has its default, or holds A2's own earlier proposal, and
    neither a header of the prompt nor the settings set it; who says SYSTEM has said the role too.
    """
    explicit = {*prompt.extras.get("explicit", []), *prompt.extras.get("persona", [])}
    explicit |= {"role"} if "system" in explicit else set()
    own = prompt.extras.get("shape", {}).get("headers", {})
    return {
        key
        for key in ("role", "format", "depth")
        if key not in explicit
        and prompt.body.get(key, "") in ("", BODY_DEFAULTS.get(key, ""), own.get(key, ""))
    }


def asked_of(prompt: SuperPrompt) -> str:
    """Return the person's words that say what is asked."""
    keys = ("task", "text", "purpose")
    return "\n".join(prompt.body[key] for key in keys if prompt.body.get(key))


@dataclass(frozen=True)
class PromptShaper:
    """Stage ``a2``.

    Attributes:
        project_memory: Text of the project's memory; may settle the domain, and headers.
        hard_rules: Text of the hard rules; may settle headers.
        older: The person's words → the older turns that share most of them, as one text.
        ask: Asks a language model what is asked for; None, or no good answer: by rules.
        enabled: Off: pass-through.
    """

    project_memory: str = ""
    hard_rules: str = ""
    older: Callable[[str], str] = lambda ask: ""
    ask: Ask | None = None
    enabled: bool = True

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Shape the prompt."""
        result = advance(prompt, "a2")
        if not self.enabled:
            put_notes(result, OP, events=["switched off: the prompt goes on as it is"])
            return result
        ask = asked_of(prompt)
        past = prompt.recentConversation
        recent = words_of(str(past.get("body", ""))[int(past.get("own_start", 0)) :])
        older = words_of(self.older(ask))
        shape, notes = self._shape(ask, (self.project_memory, recent, older))
        settled = settled_by({"Hard Rules": self.hard_rules, "Project Memory": self.project_memory})
        free = free_keys(prompt) - set(settled) - (set() if role_is_sure(ask) else {"role"})
        headers = {k: v for k, v in propose_headers(shape, ask).items() if k in free}
        result.body |= {k: v for k, v in headers.items() if k != "format"}
        result.extras["shape"] = {**shape_row(shape), "headers": headers}
        filled = ", ".join(sorted(headers)) or "nothing"
        notes["events"] += [f"{name} says the {key}" for key, name in settled.items()]
        put_notes(
            result,
            OP,
            events=[
                f"intent {shape.intent}, domain {shape.domain}, deliverable {shape.deliverable}; "
                f"filled in: {filled}",
                *notes["events"],
            ],
            warnings=notes["warnings"],
        )
        return result

    def _shape(
        self, task: str, anchors: tuple[str, str, str]
    ) -> tuple[Shape, dict[str, list[str]]]:
        """Return the shape of an ask, and the events and warnings of how it was found."""
        rules = classify(task, *anchors)
        if self.ask is None:
            return rules, {"events": [], "warnings": []}
        said, missed = shaped(self.ask, task, anchors, rules)
        if said is None:
            why = f"the language model did not classify ({missed}): by rules"
            return rules, {"events": [], "warnings": [why]}
        settled = classify("", self.project_memory).domain
        if classify(task).domain == UNDETERMINED and settled not in (UNDETERMINED, said.domain):
            told = f"the language model says {said.domain}; Project Memory settles it: {settled}"
            tried = [told] if said.domain != UNDETERMINED else []
            said = replace(said, domain=settled)
            return said, {"events": ["classified by the language model"], "warnings": tried}
        return said, {"events": ["classified by the language model"], "warnings": []}
