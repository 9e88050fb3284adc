"""A2 · Prompt Shaper, pass 1: intent, domain and header proposals before anything is retrieved.

Reads ``body``, ``extras.explicit``, Hard Rules, Project Memory, and of the prompt's own
conversation Layer G and the older turns that share most words with the ask (Layer E); what others
said says nothing about this prompt. Writes ``extras.shape`` (intent, domain, deliverable,
artefacts, and the headers it proposed) and fills role, only if it is sure, and depth, if they are
not settled; a proposed format stays in the shape, so that Prompt_MD, which the reranker reads,
holds the person's words only. Never changes a word the person wrote, Hard Rules, Project Memory or
the file lock. Switched off, it passes the prompt through with an event.

A language model, if it is asked, chooses from words that are there. Shaper: intent and deliverable
by name, the domain by name or in words of the task and its anchors. Audit: a topic that the
passages' own titles hold, eligible files, the intent whose role fits, the deliverable whose form
fits. What it may not decide (a domain that Project Memory settles, a file that is off, a header
that is settled) stays, and the attempt is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from ragstream_core.agents.a3_nli_gate import MAX_CHARS
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.history_conflicts import words_of
from ragstream_core.agents.llm_call import Answer, Ask, own, passage, question
from ragstream_core.prompts.classification import (
    DELIVERABLES,
    DOMAINS,
    INTENTS,
    MAX_DOMAIN,
    UNDETERMINED,
    classify,
    free_keys,
    propose_headers,
    role_is_sure,
    settled_by,
)
from ragstream_core.prompts.trail import advance, put_notes
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.stage_results import Shape

# So much of Project Memory, of the newest turns and of older ones is shown.
MAX_ANCHOR_CHARS = 4_000
MAX_DOMAIN_WORDS = 4

# So many eligible files are shown to the audit.
MAX_FILES = 200
_SHAPE = (
    "You classify what somebody asks for in the text named task, knowing Project Memory, the"
    " newest turns of the conversation and older ones (memory, recent, older) where they are"
    " given.\n"
    f"intent: one of {', '.join(INTENTS)}. deliverable: one of {', '.join(DELIVERABLES)}.\n"
    f"domain: what it is about in one to four words of these texts, or one of"
    f" {', '.join(DOMAINS)}, or {UNDETERMINED}."
)
_AUDIT = (
    "Passages were found for the task. Say whether they show that something else is meant.\n"
    "topic: the one word from the passages' titles (the text named titles) that says what the task"
    " is about, or an empty text. files: those of the text named files that must be looked at as"
    " well and that no passage comes from; usually none. role: who is best asked, by what that"
    f" person does, one of {', '.join(INTENTS)}; an empty text unless you are sure. form: what is"
    f" best handed over, one of {', '.join(DELIVERABLES)}; an empty text unless you are sure."
)


class Shaped(Answer):
    """What is asked for."""

    intent: str = Field(max_length=40, json_schema_extra={"enum": list(INTENTS)})
    domain: str = Field(max_length=MAX_DOMAIN)
    deliverable: str = Field(max_length=40, json_schema_extra={"enum": list(DELIVERABLES)})


class Audited(Answer):
    """What the passages show."""

    topic: str = Field(max_length=41)
    files: list[str] = Field(max_length=10)
    role: str = Field("", max_length=40)
    form: str = Field("", max_length=40)


def shaped(ask: Ask, task: str, anchors: Sequence[str], rules: Shape) -> tuple[Shape | None, str]:
    """Ask what is asked for.

    Args:
        ask: Asks the model.
        task: The person's words.
        anchors: Project Memory, the newest turns, older turns.
        rules: The shape by rules; its artefacts stay.

    Returns:
        The shape and an empty text, or None and why there is none.
    """
    parts = [own("task", task)]
    named = zip(("memory", "recent", "older"), anchors, strict=True)
    parts += [own(name, text[:MAX_ANCHOR_CHARS]) for name, text in named if text.strip()]
    shown = frozenset(stemmed_terms("\n".join((task, *anchors))))
    said, missed = ask(question(_SHAPE, parts), Shaped, lambda answer: _unknown_word(answer, shown))
    if said is None:
        return None, missed
    return Shape(said.intent, said.domain, said.deliverable, rules.artefacts), ""


def _unknown_word(said: Shaped, shown: frozenset[str]) -> str:
    if said.intent not in INTENTS or said.deliverable not in DELIVERABLES:
        return "it names what is not on the list"
    own_words = stemmed_terms(said.domain)
    grounded = own_words and len(said.domain.split()) <= MAX_DOMAIN_WORDS
    if said.domain in (*DOMAINS, UNDETERMINED) or (grounded and shown >= frozenset(own_words)):
        return ""
    return "it names a domain that no text holds"


def audited(
    ask: Ask, task: str, chunks: Sequence[Chunk], *, words: Sequence[str], eligible: Sequence[str]
) -> tuple[Audited | None, str]:
    """Ask whether the evidence changes the scope.

    Args:
        ask: Asks the model.
        task: The query pieces.
        chunks: The selected chunks.
        words: The words of their file names and headings.
        eligible: Names of the project's files.

    Returns:
        The answer and an empty text, or None and why there is none.
    """
    parts = [own("task", task), own("titles", " ".join(words))]
    parts.append(own("files", "\n".join(eligible[:MAX_FILES]) or "none"))
    parts += [passage(number, chunk, MAX_CHARS) for number, chunk in enumerate(chunks, start=1)]
    return ask(question(_AUDIT, parts), Audited, lambda said: _not_there(said, words, eligible))


def _not_there(said: Audited, words: Collection[str], eligible: Collection[str]) -> str:
    if said.role not in ("", *INTENTS):
        return "it names a role that is not on the list"
    if said.form not in ("", *DELIVERABLES):
        return "it names a form that is not on the list"
    if said.topic and said.topic.lower() not in words:
        return "it names a topic that no title holds"
    return "" if set(said.files) <= set(eligible) else "it names a file that is not there"


OP = "a2_prompt_shaper"


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
        result.extras.shape = replace(shape, headers=headers)
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
