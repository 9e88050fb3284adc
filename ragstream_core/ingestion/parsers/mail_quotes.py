"""The text of a mail, told apart by who wrote it: its author, or somebody whose mail it quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragstream_core.ingestion.parsers.nesting import DEEPEST, heading, nested

_MARKS = re.compile(r" ?(?:>[ \t]?)+")
_WROTE = re.compile(
    r"\b(?:wrote|writes|schrieb|écrit|escribió|scritto|schreef|escreveu|skrev|napisał|pisze|"
    r"kirjoitti|написал|пишет|yazdı)\b|写道|寫道|のメール|さんは|작성"
)
_WHEN_OR_WHO = re.compile(r"@|\d{1,4}[./-]\d|\d{1,2}:\d{2}|\b(?:19|20)\d{2}\b")
_DIVIDER = re.compile(
    r"\W*(?:original message|forwarded message|begin forwarded message|original appointment|"
    r"ursprüngliche nachricht|weitergeleitete nachricht|message d'origine|message transféré|"
    r"mensaje original|mensaje reenviado|messaggio originale|messaggio inoltrato|"
    r"oorspronkelijk bericht|mensagem original|originalmeddelande|исходное сообщение|转发邮件"
    r"|原始邮件)\W*",
    re.IGNORECASE,
)
_FROM = re.compile(
    r"\W*(?:from|von|de|da|van|från|fra|od|от|发件人|寄件者|差出人|보낸 사람)\W*[:：][\s*_]*"
    r"(?P<said>\S.*)",
    re.IGNORECASE,
)
_SENT = re.compile(
    r"\W*(?:sent|date|gesendet|datum|envoyé|enviado|fecha|inviato|data|verzonden|skickat|sendt|"
    r"отправлено|дата|发送时间|日期|送信日時|보낸 날짜)\W*[:：][\s*_]*(?P<said>\S.*)",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\W*(?:subject|betreff|objet|asunto|oggetto|onderwerp|assunto|ämne|emne|temat|тема|主题|主旨|件名"
    r"|제목)\W*[:：]",
    re.IGNORECASE,
)
_FIELDS = 8  # lines that the head of a quoted mail may have
_ATTRIBUTION_LINES, _ATTRIBUTION = 3, 300


@dataclass(slots=True)
class _Section:
    """Lines of one author; depth 0 is the author of the mail."""

    depth: int
    title: str
    lines: list[str] = field(default_factory=list)


def told_apart(text: str, author: str, level: int) -> str:
    """Return the text of a mail with a heading above all that its author only quotes."""
    made = list[str]()
    for section in _sections(text.splitlines(), author):
        body = "\n".join(section.lines).strip("\n")
        if not body.strip():
            continue
        below = level
        if section.title:
            below = min(DEEPEST, level + max(1, section.depth))
            made.append(heading(section.title, below))
        made.append(nested(body, below))
    return "\n\n".join(made)


def _sections(lines: Sequence[str], author: str) -> Iterator[_Section]:
    section, forwarded = _Section(0, ""), list[int]()  # depths at which another mail began
    titles = {0: f"{author} goes on"}
    for n, line in enumerate(lines):
        content, quoted = _unmarked(line)
        if not content.strip():
            section.lines.append("")
            continue
        while forwarded and forwarded[-1] > quoted:
            forwarded.pop()
        head = _head(lines[n : n + _FIELDS]) if _FROM.fullmatch(content) else ""
        if head or _DIVIDER.fullmatch(content):
            if not forwarded or forwarded[-1] < quoted:
                forwarded.append(quoted)
            yield section
            depth = quoted + len(forwarded)
            section = _Section(depth, head or f"Quoted by {author}")
            titles[depth] = section.title
        depth = quoted + len(forwarded)
        if depth > section.depth and (said := _attribution(section)):
            titles = {above: titles[above] for above in titles if above < depth} | {depth: said}
        if depth != section.depth:
            yield section
            section = _Section(depth, titles.get(depth) or f"Quoted by {author}")
        section.lines.append(content)
    yield section


def _unmarked(line: str) -> tuple[str, int]:
    """Return a line without its marks of quotation, and how many they were."""
    marks = _MARKS.match(line)
    return (line[marks.end() :], marks[0].count(">")) if marks else (line, 0)


def _head(lines: Sequence[str]) -> str:
    """Return what a quoted mail is called whose head begins here; empty: it is no head."""
    lines = [_unmarked(line)[0] for line in lines]
    if not any(_SUBJECT.match(line) for line in lines):
        return ""
    sender = _FROM.fullmatch(lines[0])
    sent = next((found for line in lines if (found := _SENT.fullmatch(line))), None)
    said = [" ".join(found["said"].strip(" *_").split()) for found in (sender, sent) if found]
    return f"Quoted: from {', '.join(said)}"


def _attribution(section: _Section) -> str:
    """Take the line above a quotation that says whose it is, if there is one."""
    lines = section.lines
    while lines and not lines[-1]:
        lines.pop()
    start = len(lines)
    while start and lines[start - 1].strip():
        start -= 1
    for first in (start, len(lines) - 1):
        said = " ".join(" ".join(lines[first:]).split()).strip("*_ ")
        fits = 0 <= len(lines) - 1 - first < _ATTRIBUTION_LINES and len(said) <= _ATTRIBUTION
        names = _WHEN_OR_WHO.search(said) or (_WROTE.search(said) and " " in said)
        if fits and said.endswith((":", "：")) and names:
            del lines[first:]
            return f"Quoted: {said[:-1]}"
    return ""
