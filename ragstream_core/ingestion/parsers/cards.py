"""Calendars (iCalendar) and address books (vCard) as Markdown: what a person reads in them.

Both are lines ``NAME;PARAMETER=…:value`` (RFC 5545, RFC 6350), folded after 75 bytes, in the middle
of a word.
"""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator

from ragstream_core.ingestion.parsers.engines import decoded
from ragstream_core.ingestion.parsers.nesting import heading, nested
from ragstream_core.text.decoding import decode

_FOLD = re.compile(r"\n[ \t]")
_LINE = re.compile(
    r"(?:[\w-]+\.)?(?P<name>[\w-]+)(?P<more>(?:;(?:[^\":;]|\"[^\"]*\")*)*):(?P<value>.*)", re.DOTALL
)
_PARAMETER = re.compile(r";(?:(CN|TYPE|TZID)=)?(?:\"([^\"]*)\"|([^;\"]*))", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d{0,2}(Z?))?")
_PARTED = re.compile(r"(?<!\\);")
_FOR_PROGRAMS = """
uid dtstamp created last-modified sequence prodid version calscale method transp class photo logo
sound key rev fburl caluri caladruri source clientpidmap agent mailer n profile kind
"""
_LEFT_OUT = frozenset(_FOR_PROGRAMS.split())
_UNREAD = frozenset(["valarm", "vtimezone", "standard", "daylight", "vfreebusy"])
_TITLES = ("summary", "fn", "n", "org", "nickname")
_NAMES = {
    "dtstart": "from", "dtend": "to", "rrule": "repeats", "org": "organization", "adr": "address",
    "bday": "birthday", "tel": "phone", "exdate": "not on",
}  # fmt: skip
_KINDS = frozenset(["home", "work", "cell", "fax"])


def cards_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return each event, task or person under a heading, with what is said of it."""
    text = decoded(data)
    text = _FOLD.sub("", text.replace("\r\n", "\n"))
    if not re.match(r"\s*BEGIN:", text, re.IGNORECASE):
        return nested(text, 0), "no calendar or address book: read as text"
    return "\n\n".join(filter(None, map(_card, _cards(text)))), ""


def _cards(text: str) -> Iterator[list[tuple[str, str, str]]]:
    """Yield the lines of each event or person: name, parameters and value."""
    open_ones: list[tuple[str, list[tuple[str, str, str]]]] = [("", [])]
    for line in _lines(text):
        found = _LINE.fullmatch(line)
        if not found:
            continue
        name, value = found["name"].lower(), found["value"]
        if name == "begin":
            open_ones.append((value.strip().lower(), []))
        elif name != "end":
            open_ones[-1][1].append((name, found["more"], value))
        elif len(open_ones) > 1:
            what, held = open_ones.pop()
            if what not in _UNREAD:
                yield held
    yield from (held for what, held in open_ones if what not in _UNREAD)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines; in old address books a line goes on after its last sign ``=``."""
    lines = iter(text.split("\n"))
    for line in lines:
        parts = [line]
        if ";ENCODING=QUOTED-PRINTABLE" in line.upper():
            while parts[-1].endswith("="):
                parts[-1] = parts[-1][:-1]
                parts.append(next(lines, ""))
        yield "".join(parts)


def _card(lines: list[tuple[str, str, str]]) -> str:
    """Return the Markdown of an event or a person; of a whole calendar its name alone."""
    said = dict[str, list[str]]()
    for name, more, value in lines:
        if text := _shown(name, more, value):
            said.setdefault(name, []).append(text)
    title = next((name for name in _TITLES if name in said), "")
    made = [heading(said.pop(title)[0], 1)] if title else []
    about = said.pop("description", []) + said.pop("note", [])
    names = [name for name in said if name not in _LEFT_OUT and not name.startswith("x-")]
    listed = [f"{_NAMES.get(name, name)}: {text}" for name in names for text in said[name]]
    made += ["\n".join(listed)] if listed else []
    return "\n\n".join([*made, *(nested(text, 1) for text in about)])


def _shown(name: str, more: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in more.upper():
        text, _ = decode(quopri.decodestring(value.encode("utf-8", "replace")))
        value = text or value
    given = [(key.upper(), (a or b).strip()) for key, a, b in _PARAMETER.findall(more)]
    if time := _TIME.fullmatch(value.strip()):
        day, zone = "-".join(time.groups()[:3]), " UTC" if time[6] else ""
        zone = zone or next((f" {text}" for key, text in given if key == "TZID"), "")
        return f"{day} {time[4]}:{time[5]}{zone}" if time[4] else day
    parts = _PARTED.split(value) if name in ("adr", "org", "n") else [value]
    text = ", ".join(filter(None, (_ESCAPED.sub(_unescaped, part).strip() for part in parts)))
    text = re.sub(r"^(?:mailto|tel):", "", text.strip(), flags=re.IGNORECASE)
    who = next((said for key, said in given if key == "CN"), "")
    kinds = [k for _, said in given for k in said.lower().split(",") if k in _KINDS]
    text = f"{who} <{text}>" if who and who != text else text
    return f"{text} ({', '.join(kinds)})" if text and kinds else text


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] in "nN" else found[1]
