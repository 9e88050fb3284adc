"""A2 · audit 2: did the evidence change what is asked? At most one re-run, and only if material.

Reads S_ctx, the shape, the pieces, ❖ FILES and the pool after A4. Writes ``extras.audit``; when
rescoped also ``extras.shape``, the new
``query_pieces`` and ``extras.pass_no = 2``. Scope changes in two cases: (1) some piece found no
support, nothing firm said the domain, and the kept evidence has one dominant topic, or the older
turns that were selected have one: the domain settles to it and those pieces are asked again with
it; (2) code, tests or configuration are wanted and a fact names an eligible project file that is
not in scope. Refines the headers that A2 fills in (`refine`); that alone is no change of scope.
Each refined header, the domain among them, is a row of the ledger with its reason. A language model
may name the topic, among the titles' words, the files, and role and form, among ours, instead;
if its answer is not valid, the rules do. Never touches what the person wrote, Hard Rules, Project
Memory, the lock or what is OFF; an attempt is noted and ignored. In pass 2 it changes nothing.

Role and format follow if the evidence is source code, which the words of the task may leave open.
What the person, the settings, Hard Rules or Project Memory settled stays, and the attempt is a row
of the ledger like every refinement. Nothing is searched again for a header (R-164).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragstream_core.agents.a1_file_injector import candidates
from ragstream_core.agents.a2_prompt_shaper import Audited, asked_of, audited
from ragstream_core.agents.context.condensed_rows import NEAREST, STAGE
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import Terms
from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.agents.llm_call import Ask
from ragstream_core.prompts.blocks import is_locked
from ragstream_core.prompts.classification import (
    CODE_SUFFIX,
    DOMAINS,
    UNDETERMINED,
    asks_for_text,
    deliverable_of,
    domain_of,
    free_keys,
    material_change,
    path_tokens,
    propose_headers,
    settled_by,
)
from ragstream_core.prompts.trail import pass_number, pieces_of, put_decisions, put_notes
from ragstream_core.records import Chunk, Decision, SuperPrompt, evolve
from ragstream_core.records.s_ctx import Fact
from ragstream_core.records.stage_results import AuditResult, Shape
from ragstream_core.records.super_prompt import HEADERS

CODE_SHARE = 0.6
CODE_SOURCES = 2

# Intents whose role and form are sure if the evidence is code.
_DOES = ("fix", "implement", "review", "test")
_BY_CODE = ("evidence_is_code", "the evidence, most of it source code,")
_BY_MODEL = ("language_model", "the evidence, as the language model reads it,")

# Header → the part of the shape that it follows; who edits that has settled the header.
_SHAPES = {"role": "intent", "format": "deliverable"}


def row_of(header: str, rule: str, reason: str, *, kept: bool = True) -> Decision:
    """Return what the audit decided about a header, as a row of the ledger.

    Args:
        header: ``domain``, ``format`` or ``role``.
        rule: ``evidence_is_code``, ``evidence_topic``, ``language_model``; ``settled`` if not kept.
        reason: One sentence for people.
        kept: Whether it was refined; else it was settled before, and stays.
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
    """Refine the headers that are not settled, in a copy that the caller owns.

    Args:
        prompt: After A4; its body and ``extras.shape`` are changed.
        shape: What is asked for, as A2 has it.
        said: A language model's answer; None: by rules.
        texts: ``Hard Rules``, ``Project Memory`` → their text.

    Returns:
        A row for each header that was refined, or was not since it was settled before; none
        if the evidence says nothing new.
    """
    row = prompt.extras.shape
    own, before = dict(row.proposed), dict(row.refined or {})
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
        prompt.extras.shape = replace(row, headers=own, refined=before)
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
    edited = {edit.target for edit in prompt.extras.edits}
    free = {key for key in free_keys(prompt) if _SHAPES.get(key) not in edited}
    return {**{key: "you" for key in _SHAPES if key not in free}, **settled_by(texts)}


def _is_code(prompt: SuperPrompt) -> bool:
    """Return whether most of the evidence is code: selected passages and injected files."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    kept = (chunks[i] for i in _shown(prompt))
    names = [
        *(chunk.source for chunk in kept if not is_past(chunk)),
        *(file.path for file in prompt.extras.files),
    ]
    code = sum(CODE_SUFFIX.search(name) is not None for name in names)
    return code >= max(CODE_SOURCES, CODE_SHARE * len(names))


OP = "a2_audit"
DOMINANT_SHARE = 0.6
DOMINANT_DOCUMENTS = 2
MAX_PIECES = 10
ASK_CHARS = 160
_BUILDS = ("code", "config", "tests")
_WORD = re.compile(r"[^\W\d_][\w-]{2,40}")
PROJECT_MEMORY = "Project Memory"

# What the audit has to say: ``events`` and ``warnings``.
Notes = dict[str, list[str]]


def dominant_topic(titles: Sequence[str], asked: frozenset[str], terms: Terms) -> str:
    """Return the word that the names and headings of most documents share, or an empty text.

    Dominant: in at least 60 % of the titles and in two of them: what one file is called is no
    subject. Words of the question do not count: they tell nothing new.

    Args:
        titles: File name and headings of each document that was selected.
        asked: Terms of the query pieces.
        terms: Stems a text.
    """
    surface: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for title in titles:
        here = {stem: w.lower() for w in _WORD.findall(title) for stem in terms(w)[:1]}
        counts.update(set(here))
        for stem, word in here.items():
            surface.setdefault(stem, word)
    needed = max(DOMINANT_DOCUMENTS, DOMINANT_SHARE * len(titles))
    fitting = [(-n, stem) for stem, n in counts.items() if n >= needed and stem not in asked]
    return surface[min(fitting)[1]] if fitting else ""


@dataclass(frozen=True)
class Audit:
    """End of stage ``a4``.

    Attributes:
        eligible: Names of the project's files, as A1 calls them.
        texts: ``Hard Rules``, ``Project Memory`` → their text: what they settle stays.
        session: The prompt's own conversation; older turns of others say nothing about it.
        terms: Stems a text.
        ask: Asks a language model for topic and files; None, or no good answer: by rules.
        enabled: Off: always settled.
    """

    eligible: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    terms: Terms = stemmed_terms
    ask: Ask | None = None
    enabled: bool = True

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Audit the scope."""
        result = evolve(prompt)
        if pass_number(prompt) > 1:
            return result
        shape = prompt.extras.shape
        if not (self.enabled and shape.intent):
            return _settle(result, shape, "switched off", _notes())
        before = shape.scope
        if is_locked(prompt):
            return _settle(result, before, "the file lock is on: scope stays", _notes())
        notes = _notes()
        said = self._said(prompt, notes)
        after, settled = self._settle_domain(prompt, before, said)
        rows = [*settled, *refine(result, before, said, self.texts)]
        put_rows(result, rows)
        notes["events"] += [row.reason for row in rows if not (row in settled and row.kept)]
        after, files = self._add_artefacts(prompt, after, said, notes)
        if not material_change(before, after):
            return _settle(result, before, "no second search is needed", notes)
        why = [row.reason for row in settled if row.kept]
        reason = "; ".join([*why, *(f"{_who(said)} names {f}" for f in files)])
        return self._rescope(result, before, after, (reason, files, notes))

    def _said(self, prompt: SuperPrompt, notes: Notes) -> Audited | None:
        """Return a language model's answer, None if the rules decide."""
        if self.ask is None or not _shown(prompt):
            return None
        words = sorted({w.lower() for title in _titles(prompt) for w in _WORD.findall(title)})
        ask = "\n".join(pieces_of(prompt))
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        kept = [chunks[i] for i in _shown(prompt)]
        said, missed = audited(self.ask, ask, kept, words=words, eligible=self.eligible)
        if missed:
            notes["warnings"].append(f"the language model did not audit ({missed}): by rules")
        return said

    def _settle_domain(
        self, prompt: SuperPrompt, before: Shape, said: Audited | None
    ) -> tuple[Shape, list[Decision]]:
        if not _unsupported(prompt):
            return before, []
        pieces = " ".join(pieces_of(prompt))
        asked = frozenset(self.terms(pieces))
        topic = dominant_topic(_titles(prompt), asked, self.terms) or self._older_topic(prompt)
        topic = "" if asked.issuperset(self.terms(topic)) else topic
        if said is not None:
            topic = "" if asked.issuperset(self.terms(said.topic)) else said.topic.lower()
        if not topic or topic == before.domain:
            return before, []
        if self._is_firm(prompt, before):
            told = f"the domain stays {before.domain}; the evidence is about {topic}"
            return before, [row_of("domain", "settled", told, kept=False)]
        rule = "evidence_topic" if said is None else "language_model"
        told = f"the evidence settles the domain: {topic}"
        return replace(before, domain=topic), [row_of("domain", rule, told)]

    def _older_topic(self, prompt: SuperPrompt) -> str:
        """Return what the selected older turns of the conversation are about, or an empty text."""
        mine = [c for c in _kept(prompt, past=True) if c.source.startswith(f"{self.session}/")]
        topic = domain_of("\n".join(c.snippet for c in mine), least=2) if self.session else ""
        return "" if topic == UNDETERMINED else topic

    def _is_firm(self, prompt: SuperPrompt, shape: Shape) -> bool:
        """Return whether the domain stands whatever the evidence: a named one, or the person's."""
        by_hand = any(edit.target == "domain" for edit in prompt.extras.edits)
        memory = domain_of(self.texts.get(PROJECT_MEMORY, ""), least=2)
        named = shape.domain in DOMAINS or shape.domain == memory
        return by_hand or (named and shape.domain != UNDETERMINED)

    def _add_artefacts(
        self, prompt: SuperPrompt, shape: Shape, said: Audited | None, notes: Notes
    ) -> tuple[Shape, list[str]]:
        if shape.deliverable not in _BUILDS:
            return shape, []
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        kept = [chunks[i] for i in _shown(prompt)]
        in_scope = {c.source for c in kept} | {f"{c.meta.get('project')}/{c.source}" for c in kept}
        in_scope |= {file.path for file in prompt.extras.files}
        off = set(prompt.extras.pool.off)
        found: list[str] = []
        by_facts = [token for item in _items(prompt) for token in path_tokens(item.text)]
        for token in by_facts if said is None else said.files:
            fits = candidates(token, self.eligible)
            if len(fits) != 1 or fits[0] in in_scope or fits[0] in shape.artefacts:
                continue
            if fits[0] in off:
                told = f"{_who(said)} names {fits[0]}, which is switched OFF: it stays off"
                notes["warnings"].append(told)
            else:
                found.append(fits[0])
        found = sorted(set(found))
        return replace(shape, artefacts=tuple(sorted({*shape.artefacts, *found}))), found

    def _rescope(
        self,
        result: SuperPrompt,
        before: Shape,
        after: Shape,
        why: tuple[str, list[str], Notes],
    ) -> SuperPrompt:
        reason, files, notes = why
        missing = set(_unsupported(result)) if after.domain != before.domain else set()
        pieces = [
            replace(piece, text=f"{after.domain}: {piece.text}", asked=piece.text)
            if piece.id in missing
            else piece
            for piece in result.extras.query_pieces
        ]
        ask = " ".join(result.body.get("task", "").split())[:ASK_CHARS]
        for path in files[: MAX_PIECES - len(pieces)]:
            added = replace(pieces[0], id=f"q{len(pieces) + 1}", text=f"{path} {ask}", asked="")
            pieces.append(added)
        told = [f"rescoped, one re-run: {reason}", *notes["events"]]
        put_notes(result, OP, events=told, warnings=notes["warnings"])
        extras, shape = result.extras, result.extras.shape
        extras.audit = AuditResult("rescoped", reason, before, after)
        extras.shape = replace(after, headers=shape.headers, refined=shape.refined)
        extras.query_pieces = tuple(pieces)
        extras.pass_no = 2
        return result


def _notes() -> Notes:
    return {"events": [], "warnings": []}


def _who(said: Audited | None) -> str:
    return "a fact" if said is None else "the language model"


def _settle(result: SuperPrompt, shape: Shape, reason: str, notes: Notes) -> SuperPrompt:
    result.extras.audit = AuditResult("settled", reason, shape, shape)
    told = [f"settled: {reason}", *notes["events"]]
    put_notes(result, OP, events=told, warnings=notes["warnings"])
    return result


def _items(prompt: SuperPrompt) -> tuple[Fact, ...]:
    return (*prompt.extras.s_ctx.facts, *prompt.extras.s_ctx.constraints)


def _unsupported(prompt: SuperPrompt) -> list[str]:
    issues = prompt.extras.s_ctx.open_issues
    return [issue.piece_id for issue in issues if issue.kind == "unsupported"]


def _shown(prompt: SuperPrompt) -> list[str]:
    """Return the selected passages; what is only the nearest says nothing of the scope."""
    now = (STAGE, NEAREST, pass_number(prompt))
    rows = prompt.extras.decisions
    nearest = {row.chunk_id for row in rows if (row.stage, row.rule, row.pass_no) == now}
    return [i for i in prompt.final_selection_ids if i not in nearest]


def _kept(prompt: SuperPrompt, *, past: bool = False) -> list[Chunk]:
    """Return the selected chunks of documents, or those of older turns."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    found = [chunks[i] for i in _shown(prompt)]
    return [chunk for chunk in found if is_past(chunk) is past]


def _titles(prompt: SuperPrompt) -> list[str]:
    """Return the name and the headings of each document that was selected."""
    found: dict[str, list[str]] = {}
    for chunk in _kept(prompt):
        name = chunk.source.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        found.setdefault(chunk.source, [name]).append(str(chunk.meta.get("heading") or ""))
    return [" ".join(words) for words in found.values()]
