"""A0 · PreProcessing: what did the person write, and by which texts is it looked up?

Reads ``extras.raw_text`` (or, on a fresh prompt, ``body["text"]``). Writes ``body`` from the
canonical headers and, if they leave it open, from the persona; in ``extras``: ``raw_text``,
``format``, ``headers`` (unknown ones, kept and shown, not searched for), ``explicit`` (body keys
the person set), ``segments``, ``query_pieces``, and if there are any ``filters`` and ``persona``
(body keys that the settings set); and Layer G, the newest turns verbatim, as
``recentConversation``. A follow-up ("And its weight?") is looked up with what was asked before it;
the task says so below it. Never touches the wording; blanks stand where a filter stood. A prompt
without a word is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ragstream_core.agents.filters import Filtered, read_filters
from ragstream_core.agents.headers import (
    CONTENT,
    Section,
    find_sections,
    guarantee_task,
    json_fault,
)
from ragstream_core.agents.pieces import cut_pieces
from ragstream_core.conversations.follow_ups import FollowUp
from ragstream_core.errors import EmptyPrompt
from ragstream_core.prompts.trail import advance, put_notes
from ragstream_core.records import BODY_DEFAULTS, SuperPrompt
from ragstream_core.records.json_form import Json
from ragstream_core.records.stage_results import QueryPiece, Segment, UnknownHeader
from ragstream_core.text.exclusions import without_excluded

OP = "a0_preprocessing"
_WORD = re.compile(r"\w")
_BODY_KEY = {"USER_PROMPT": "text"}


def body_from(sections: list[Section]) -> dict[str, str]:
    """Return the body fields that the prompt's headers set; repeated headers are joined."""
    body: dict[str, str] = {}
    for section in sections:
        if section.canon:
            key = _BODY_KEY.get(section.canon, section.canon.lower())
            body[key] = f"{body[key]}\n\n{section.text}" if key in body else section.text
    return body


def segment_table(sections: list[Section], task_rule: str) -> tuple[Segment, ...]:
    """Build the segment table (Task 3): content sections only, weight 1.0, with trace."""
    content = [s for s in sections if s.canon in CONTENT]
    rules = [task_rule if s.canon == "TASK" else s.canon for s in content]
    return tuple(
        Segment(f"s{i}", s.canon, s.text, 1.0, s.span, {"header": s.name, "rule": rule})
        for i, (s, rule) in enumerate(zip(content, rules, strict=True), start=1)
    )


@dataclass(frozen=True)
class Preprocessing:
    """Stage ``preprocessed``.

    Attributes:
        aliases: Folded header name → canonical header.
        count: Counts tokens as the embedder does.
        window_tokens: The embedder's window.
        max_pieces: Most query pieces, 1–10.
        recent: Layer G: ``{"body", "pairs_count", "range"}``, if they are not 0 ``cut_pairs``
            (pairs shown in part) and ``own_start`` (where the prompt's own conversation begins
            in the body); empty if there is none.
        notes: What the person should know about the conversation.
        left: Documents that the filters leave to search; None: not counted.
        follow_up: How the question is read if it leans on the one before it.
        persona: ``system``, ``role``, ``tone`` if no header says them; empty ones do not count.
    """

    aliases: Mapping[str, str]
    count: Callable[[str], int]
    window_tokens: int
    max_pieces: int = 10
    recent: Mapping[str, Json] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    left: int | None = None
    follow_up: FollowUp | None = None
    persona: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Preprocess the raw prompt.

        Raises:
            EmptyPrompt: The prompt holds no word.
        """
        raw = prompt.extras.raw_text or prompt.body.get("text", "")
        filtered = read_filters(raw, self.aliases)
        if not _WORD.search(filtered.text):
            what = "only filters" if filtered.filters else "no word"
            raise EmptyPrompt(f"the prompt holds {what}", hint="write what you want to know")
        kind, found = find_sections(filtered.text, self.aliases)
        sections, rule = guarantee_task(filtered.text, found)
        body = body_from(sections)
        segments = segment_table(sections, rule)
        pieces, lost, excluded = self._pieces([s for s in sections if s.canon in CONTENT])
        read_as = self.follow_up if list(body) == ["task"] else None
        if read_as:
            pieces = (replace(pieces[0], text=read_as.query),)
            body["text"] = f"(read as: {body['task'].strip()} ({read_as.about}))"
        result = advance(prompt, "preprocessed")
        persona = self._persona(body)
        result.body = {**BODY_DEFAULTS, **prompt.body, **persona, "text": "", **body}
        unknown = [s for s in sections if not s.canon and s.name]
        extras = result.extras
        extras.raw_text, extras.format = raw, kind
        extras.headers = tuple(UnknownHeader(s.name, s.text, s.span) for s in unknown)
        extras.explicit = tuple(sorted(key for key in body if key != "text" or not read_as))
        extras.segments, extras.query_pieces = segments, pieces
        if persona:
            extras.persona = tuple(sorted(persona))
        if filtered.filters:
            extras.filters = filtered.filters
        if self.recent:
            result.recentConversation = dict(self.recent)
        told, warned = _told(filtered, self.left)
        fault = json_fault(filtered.text) if kind != "json" else ""
        warnings = [*_warnings(fault, lost, excluded), *warned, *self.notes]
        told = [*_events(kind, rule, unknown), *_followed(read_as), *told, *_shown(self.recent)]
        put_notes(result, OP, events=told, warnings=warnings)
        return result

    def _persona(self, body: Mapping[str, str]) -> dict[str, str]:
        """Return what the settings say and the prompt does not; SYSTEM says the role as well."""
        said = {*body, *(("role",) if "system" in body else ())}
        return {key: text for key, text in self.persona.items() if text and key not in said}

    def _pieces(
        self, content: list[Section]
    ) -> tuple[tuple[QueryPiece, ...], int, tuple[str, ...]]:
        """Return the pieces, how many tokens are in none, and what the question leaves out."""
        texts = [section.text for section in content]
        spans, lost = cut_pieces(
            texts, limit=self.max_pieces, count=self.count, window=self.window_tokens
        )
        said = [without_excluded(texts[s.segment][s.start : s.end]) for s in spans]
        pieces = (
            QueryPiece(
                f"q{i}",
                said[i - 1][0],
                f"s{s.segment + 1}",
                content[s.segment].raw_span(s.start, s.end),
            )
            for i, s in enumerate(spans, start=1)
        )
        return tuple(pieces), lost, tuple(what for _, left_out in said for what in left_out)


def _events(kind: str, rule: str, unknown: list[Section]) -> list[str]:
    names = ", ".join(section.name for section in unknown)
    events = [f"the prompt is {kind}; the task comes from: {rule}"]
    if names:
        events.append(f"sections without a canonical name are shown, not searched for: {names}")
    return events


def _followed(read_as: FollowUp | None) -> list[str]:
    about = "a follow-up: searched with what was asked before it, as"
    return [f"{about} {read_as.query!r} (history.follow_ups)"] if read_as else []


def _shown(recent: Mapping[str, Json]) -> list[str]:
    pairs, cut = recent.get("pairs_count", 0), recent.get("cut_pairs", 0)
    return [f"RECENT HISTORY shows {pairs} pairs, {cut} of them in part"] if cut else []


def _told(filtered: Filtered, left: int | None) -> tuple[list[str], list[str]]:
    """Return events and warnings about the filters."""
    if not filtered.filters:
        return [], list(filtered.warnings)
    written = " ".join(f.written for f in filtered.filters)
    events = [f"filters: {written}" + (f"; {left} documents left" if left is not None else "")]
    none = [f"no document fits {written}"] if left == 0 else []
    return events, [*filtered.warnings, *none]


def _warnings(fault: str, lost: int, excluded: tuple[str, ...]) -> list[str]:
    long = (
        f"the prompt is too long to be searched for as a whole: about {lost} tokens of it are in "
        "no query piece; put the question under a heading TASK and shorten the rest"
    )
    broken = f"the prompt looks like JSON but is read as one plain text ({fault})"
    named = ", ".join(f"“{what}”" for what in dict.fromkeys(excluded))
    others = (
        f"the question leaves out {named}: these words are not searched for, and passages about "
        "them may still be shown; check which of the others fit"
    )
    told = ((fault, broken), (lost, long), (excluded, others))
    return [words for is_so, words in told if is_so]
