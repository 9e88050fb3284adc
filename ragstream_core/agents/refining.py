"""What the evidence makes of the headers that A2 fills in: role and format, each with its reason.

Evidence that is source code makes sure what the words of the task left open: who is best asked, and
in which form the answer is handed over. A language model may choose both from our lists instead.
What the person, the settings, Hard Rules or Project Memory settled stays, and the attempt is a row
of the ledger like every refinement. A header is the answer's form and no scope: nothing is searched
again for it (R-164).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragstream_core.agents.a2_prompt_shaper import asked_of, free_keys
from ragstream_core.agents.past import is_past
from ragstream_core.agents.shape import Shape, deliverable_of, propose_headers
from ragstream_core.agents.shaping import Audited
from ragstream_core.agents.subject import CODE_SUFFIX, asks_for_text, settled_by
from ragstream_core.agents.trail import put_decisions
from ragstream_core.records import Decision, SuperPrompt
from ragstream_core.records.decision import HEADERS

CODE_SHARE = 0.6
CODE_SOURCES = 2
_DOES = ("fix", "implement", "review", "test")
"""Intents whose role and form are sure where the evidence is code."""
_BY_CODE = ("evidence_is_code", "the evidence, most of it source code,")
_BY_MODEL = ("language_model", "the evidence, as the language model reads it,")
_SHAPES = {"role": "intent", "format": "deliverable"}
"""Header → the part of the shape that it follows; who edits that has settled the header."""


def row_of(header: str, rule: str, reason: str, *, kept: bool = True) -> Decision:
    """Return what the audit decided about a header, as a row of the ledger.

    Args:
        header: ``domain``, ``format`` or ``role``.
        rule: ``evidence_is_code``, ``evidence_topic``, ``language_model``; ``settled`` if not kept.
        reason: One sentence for people.
        kept: Whether it was refined; else somebody had settled it, and it stays.
    """
    return Decision(HEADERS, header, 0, 0.0, kept, rule, reason)


def put_rows(prompt: SuperPrompt, rows: Sequence[Decision]) -> None:
    """Write the rows about headers into a copy that the caller owns, ranked as they come."""
    if rows:
        ranked = [row._replace(rank=rank) for rank, row in enumerate(rows, start=1)]
        put_decisions(prompt, HEADERS, ranked)


def refine(
    prompt: SuperPrompt, shape: Shape, said: Audited | None, texts: Mapping[str, str]
) -> list[Decision]:
    """Refine the headers that nobody settled, in a copy that the caller owns.

    Args:
        prompt: After A4; its body and ``extras["shape"]`` are changed.
        shape: What is asked for, as A2 has it.
        said: A language model's answer; None: by rules.
        texts: ``Hard Rules``, ``Project Memory`` → their text.

    Returns:
        A row for each header that was refined, or was not since somebody had settled it; none
        where the evidence says nothing new.
    """
    row = prompt.extras["shape"]
    own, before = dict(row.get("headers", {})), dict(row.get("refined", {}))
    settled, found = _settled(prompt, texts), []
    for header, value in _wanted(prompt, shape, said).items():
        was = before.get(header, prompt.body.get(header, "") or own.get(header, ""))
        if value == was:
            continue
        who = settled.get(header, "")
        if who:
            told = f"the evidence asks for the {header} “{value}”; {who} settled it: ignored"
            found.append(row_of(header, "settled", told, kept=False))
            continue
        rule, because = _BY_CODE if said is None else _BY_MODEL
        found.append(row_of(header, rule, f"{because} settles the {header}: {value}"))
        own[header], before[header] = value, was
    if before:
        prompt.extras["shape"] = {**row, "headers": own, "refined": before}
        prompt.body |= {header: own[header] for header in before if header != "format"}
    return found


def _wanted(prompt: SuperPrompt, shape: Shape, said: Audited | None) -> dict[str, str]:
    """Return the headers that the evidence makes sure."""
    asked = asked_of(prompt)
    if asks_for_text(asked):
        return {}
    sure = {"role": shape.intent, "format": deliverable_of(asked, shape.intent, software=True)}
    if said is not None:
        sure = {"role": said.role, "format": said.form}
    elif shape.intent not in _DOES or not _is_code(prompt):
        return {}
    meant = replace(
        shape, intent=sure["role"] or shape.intent, deliverable=sure["format"] or shape.deliverable
    )
    return {k: v for k, v in propose_headers(meant, "").items() if sure[k]}


def _settled(prompt: SuperPrompt, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that stay: header → who settled it."""
    edited = {edit["target"] for edit in prompt.extras.get("edits", ())}
    free = {key for key in free_keys(prompt) if _SHAPES.get(key) not in edited}
    return {**{key: "you" for key in _SHAPES if key not in free}, **settled_by(texts)}


def _is_code(prompt: SuperPrompt) -> bool:
    """Say whether most of the evidence is code: selected passages and injected files."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    kept = (chunks[i] for i in prompt.final_selection_ids)
    names = [
        *(chunk.source for chunk in kept if not is_past(chunk)),
        *(str(row["path"]) for row in prompt.extras.get("files", [])),
    ]
    code = sum(CODE_SUFFIX.search(name) is not None for name in names)
    return code >= max(CODE_SOURCES, CODE_SHARE * len(names))
