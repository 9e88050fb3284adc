"""What in foreign text looks like an attempt to command a language model: counted, never removed.

The defence is the fence: retrieved text stands quoted in the user message, whatever it says. These
figures show people where to look. Text is read as the prompt shows it (`fences.normalise`), so
that invisible characters do not hide a phrase. Every pattern is bounded: linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ragstream_core.prompts.fences import BREAK, break_tokens, normalise

_GAP = r"[\s\W]{1,6}"
_FEW = r"(?:\w{1,12}[\s\W]{1,6}){0,4}?"
_TOLD = r"(?:instructions?|rules|prompts?|directions|directives|guidelines|commands|messages)\b"
_PHRASES = (
    rf"(?:ignore|disregard|forget|override|bypass|skip|drop){_GAP}{_FEW}"
    rf"(?:previous|prior|above|earlier|preceding|former|foregoing|system|your|these|any other)"
    rf"{_GAP}{_FEW}{_TOLD}",
    rf"(?:ignore|disregard|forget){_GAP}(?:everything|all){_GAP}(?:\w{{1,12}}{_GAP}){{0,2}}?"
    r"(?:above|before|previous|prior|said|told|so far)\b",
    rf"(?:ignore|disregard|forget){_GAP}{_FEW}{_TOLD[:-2]}{_GAP}(?:above|before)\b",
    rf"(?:reveal|print|repeat|output|show|leak|expose|recite|display){_GAP}{_FEW}"
    rf"(?:system{_GAP}prompt|(?:initial|hidden|secret|original){_GAP}(?:prompt|{_TOLD}))",
    rf"(?:you{_GAP}are{_GAP}now{_GAP}(?:a|an|in|the|no)|(?:act|behave){_GAP}now{_GAP}(?:as|like))\b",
    rf"from{_GAP}now{_GAP}on{_GAP}you\b",
    rf"pretend{_GAP}(?:that{_GAP})?you{_GAP}(?:are|have)\b",
    rf"(?:new|updated|real|actual){_GAP}(?:system{_GAP})?(?:instructions?|rules|prompt|orders?)"
    r"\s{0,4}(?::|follow|are as)",
    rf"(?:do{_GAP}not|don.?t|never){_GAP}(?:tell|mention|inform|reveal|alert|warn|disclose)"
    rf"{_GAP}{_FEW}(?:the{_GAP})?(?:user|human|person|reader)s?\b",
    rf"(?:attention{_GAP}|(?:note|message|important){_GAP}(?:to|for){_GAP})(?:the{_GAP}|any{_GAP}|all{_GAP})?"
    rf"(?:ai|llm|assistant|language{_GAP}model|chatbot)s?\b",
    rf"(?:developer|debug|god|dan|jailbreak|unrestricted|sudo){_GAP}mode\b",
    rf"without{_GAP}(?:any{_GAP})?(?:restrictions|filters|guardrails|safety{_GAP}rules)\b",
)
_KINDS = {
    "instruction": re.compile("|".join(rf"\b{p}" for p in _PHRASES), re.IGNORECASE),
    "role": re.compile(
        r"^[ \t>#*_-]{0,8}(?:system|assistant|human|developer)[ \t*_]{0,4}:"
        r"|^[ \t>#*_-]{0,8}(?:system|instruction)[ \t*_]{0,4}:?[ \t*_]{0,4}$"
        r"|[\"']role[\"'][ \t]{0,4}:[ \t]{0,4}[\"'](?:system|developer)[\"']"
        r"|^[ \t]{0,8}[\"']?role[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?(?:system|developer)\b"
        r"|</?(?:system|assistant|instructions?|developer)>",
        re.IGNORECASE | re.MULTILINE,
    ),
    "fence": re.compile(
        r"<<(?:END )?DOC\b|^#{1,6} {1,4}\[[0-9a-f]{12,64}\]|❖|^[ \t]{0,4}(?:#{1,6} {1,4}|= ?)"
        r"(?:HARD RULES|PROJECT MEMORY|SYSTEM|TASK|RECENT HISTORY|ATTACHMENTS)\b"
        r"|^HARD RULES[ \t]{0,4}$",
        re.MULTILINE,
    ),
    "exfiltration": re.compile(
        r"!\[[^\]\n]{0,200}\]\(\s{0,4}https?://[^)\s]{1,400}[?&=][^)\n]{0,400}\)"
        r"|<img\b[^>\n]{0,200}src=[\"']?https?://[^\"'>\s]{1,400}[?&=]"
        r"|<script\b|\bjavascript:",
        re.IGNORECASE,
    ),
}
_LONG_RUN = re.compile(r"(?<![\w+/=,])[A-Za-z0-9+/]{120,}")
_MIXED = (re.compile("[0-9]"), re.compile("[a-z]"), re.compile("[A-Z]"))

# Of the kinds that are dropped; variation selectors are part of ordinary emoji.
_UNSEEN = ("bidi", "tag", "zero_width", "control")
KINDS = ("instruction", "role", "token", "fence", "exfiltration", "encoded", "unseen")


def suspicions(text: str) -> dict[str, int]:
    """Return how often a text shows each kind of `KINDS`; empty for nothing.

    ``instruction``: phrases that command a model; ``role``: turns of a chat; ``token``: tokens of
    chat templates and citation markers; ``fence``: frames and headings like those of our prompts;
    ``exfiltration``: images and scripts that call home; ``encoded``: long base64; ``unseen``:
    characters that people cannot see.
    """
    clean = normalise(text)
    plain = clean.text
    found = {kind: sum(1 for _ in seen.finditer(plain)) for kind, seen in _KINDS.items()}
    found["encoded"] = sum(
        all(kind.search(run[0]) for kind in _MIXED) for run in _LONG_RUN.finditer(plain)
    )
    found["token"] = break_tokens(plain).count(BREAK) - plain.count(BREAK)
    found["unseen"] = sum(clean.dropped.get(kind, 0) for kind in _UNSEEN)
    return {kind: found[kind] for kind in KINDS if found[kind]}


@dataclass
class Tally:
    """Figures over many texts."""

    texts: int = 0  # how many were read
    suspicious: int = 0  # how many of them show any kind
    kinds: Counter[str] = field(default_factory=Counter)  # kind → how many of them show it
    # (name, kinds) of the first suspicious ones
    places: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def add(self, name: str, text: str, *, most: int = 50) -> None:
        """Read one more text."""
        self.texts += 1
        found = suspicions(text)
        self.suspicious += bool(found)
        self.kinds.update(dict.fromkeys(found, 1))
        if found and len(self.places) < most:
            self.places.append((name, tuple(found)))

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "texts": self.texts,
            "suspicious": self.suspicious,
            "kinds": {kind: self.kinds[kind] for kind in KINDS if self.kinds[kind]},
            "places": [{"place": name, "kinds": list(kinds)} for name, kinds in self.places],
        }


def tally(texts: Iterable[tuple[str, str]]) -> Tally:
    """Return the figures over (name, text) pairs."""
    found = Tally()
    for name, text in texts:
        found.add(name, text)
    return found
