"""Pure classification of an ask: intent, domain, deliverable, artefacts; the rubric of R-164.

Rules, not a model: the same words give the same shape everywhere. First rule that fits wins, so the
order of the tables is part of the rule; `intents` has one of its own. A role is proposed only where
it is surely right: the ask is about software and does not ask for a mail, a summary or another text
for people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ragstream_core.agents.intents import intent_of
from ragstream_core.agents.subject import UNDETERMINED, asks_for_text, domain_of, is_software

_DELIVERABLES = (
    ("tests", r"\b(?:unit tests?|test cases?|write (?:\w{1,30} ){0,3}tests?|test plan)\b"),
    ("spec", r"\b(?:spec|specification|requirements? document|design document|adr)\b"),
    ("plan", r"\b(?:plan|roadmap|milestones|steps to migrate|checklist)\b"),
    ("review", r"\b(?:review|audit|critique)\b"),
    ("docs", r"\b(?:readme|changelog|documentation page|docs page|docstrings?|tutorial)\b"),
    ("config", r"\b(?:config(?:uration)? file|ya?ml|toml|dockerfile|workflow file)\b"),
    ("code", r"\b(?:code|function|class|script|snippet|patch|implement\w*|refactor\w*|fix)\b"),
)
_ROLES = {
    "compare": "a technical consultant who weighs options evenly",
    "review": "a careful senior reviewer",
    "fix": "a debugging engineer who finds the cause before the cure",
    "test": "a test engineer",
    "plan": "a technical lead who plans in small steps",
    "specify": "a systems analyst who writes testable requirements",
    "document": "a technical writer",
    "implement": "a senior software engineer",
    "configure": "an operations engineer who knows this system",
    "locate": "a maintainer who knows where everything is",
    "explain": "a maintainer who explains this system to a colleague",
}
_FORMATS = {
    "tests": "test code in one block, then what it covers",
    "spec": "numbered, testable requirements",
    "plan": "numbered steps, each with its result",
    "review": "findings by severity, each with its place and a remedy",
    "docs": "Markdown ready to be committed",
    "config": "the file in one code block, then one line a changed key",
    "code": "code in one block, then a short explanation",
    "answer": "the direct answer first, then the reasons",
    "text": "the text itself, ready to be used",
}
INTENTS = tuple(_ROLES)
DELIVERABLES = tuple(_FORMATS)
_SHORT = re.compile(
    r"\b(?:brief(?:ly)?|short(?:ly)?|concise(?:ly)?|in one sentence|tl;?dr)\b", re.IGNORECASE
)
_PATH_CHARS = re.compile(r"[A-Za-z0-9_~.*?\[\]/\\-]+")
_SUFFIX = re.compile(r"[A-Za-z0-9_*\]-]\.[A-Za-z0-9]{1,8}$")
MAX_PATH = 200
_BUILT = ("tests", "code", "config")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked for.

    Attributes:
        intent: ``explain``, ``fix``, ``implement``, ``review``, ``compare``, ``plan``, ….
        domain: A subject in free text, or ``undetermined``.
        deliverable: ``answer``, ``text``, ``code``, ``spec``, ``plan``, ``tests``, ``docs``, ….
        artefacts: Paths the answer is about, sorted.
    """

    intent: str
    domain: str
    deliverable: str
    artefacts: tuple[str, ...] = ()


def _named_deliverable(text: str) -> str:
    found = (name for name, words in _DELIVERABLES if re.search(words, text, re.IGNORECASE))
    return next(found, "answer")


def path_tokens(text: str) -> list[str]:
    """Return what looks like a path or a glob in a text, in order, each once."""
    found: dict[str, None] = {}
    for match in _PATH_CHARS.finditer(text):
        token = match.group().replace("\\", "/").strip("[]").rstrip(".?-").removeprefix("./")
        inner = "/" in token.strip("/")
        named = any(c.isalpha() or c in "*?" for c in token.rsplit(".", 1)[0])  # not "1.x"
        if len(token) <= MAX_PATH and (inner or _SUFFIX.search(token)) and named:
            found[token] = None
    return list(found)


def classify(task: str, *anchors: str) -> Shape:
    """Shape an ask.

    Args:
        task: The person's words.
        anchors: In falling authority (Project Memory, the newest turns, older turns): the first
            one that has a domain settles it where the task has none.
    """
    intent = intent_of(task) or "explain"
    domains = (domain_of(task, near=anchors), *(domain_of(text, least=2) for text in anchors))
    domain = next((found for found in domains if found != UNDETERMINED), UNDETERMINED)
    return Shape(intent, domain, deliverable_of(task, intent), tuple(sorted(path_tokens(task))))


def deliverable_of(task: str, intent: str, *, software: bool = False) -> str:
    """Return what is to be handed over; code only where the ask is surely about software.

    Args:
        task: The person's words.
        intent: What they want done.
        software: It is about software whatever its words show.
    """
    if asks_for_text(task):
        return "text"
    found = _named_deliverable(task) if intent != "explain" else "answer"
    return found if found not in _BUILT or software or is_software(task) else "answer"


def role_is_sure(task: str) -> bool:
    """Say whether the role by the intent is surely right for a task; else none is better.

    The intent must stand in its words, and not be the default.
    """
    return intent_of(task) != "" and is_software(task) and not asks_for_text(task)


def propose_headers(shape: Shape, task: str) -> dict[str, str]:
    """Propose role, format and depth for a shape; the caller fills only what is free and sure."""
    proposal = {"role": _ROLES[shape.intent], "format": _FORMATS[shape.deliverable]}
    if _SHORT.search(task):
        proposal["depth"] = "low"
    return proposal


def shape_from(row: Mapping[str, Any]) -> Shape:
    """Rebuild a shape from ``extras["shape"]``; further keys are ignored."""
    return Shape(row["intent"], row["domain"], row["deliverable"], tuple(row["artefacts"]))


def shape_row(shape: Shape) -> dict[str, Any]:
    """Return the JSON form of a shape."""
    return {**asdict(shape), "artefacts": list(shape.artefacts)}


def material_change(before: Shape, after: Shape) -> bool:
    """Decide whether a change of scope is material (R-164).

    True for another intent, domain, deliverable type, or target artefact set; a change of tone,
    audience or format never comes here, because a shape does not hold them.
    """
    return before != after
