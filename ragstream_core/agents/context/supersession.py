"""Which documents say that another has taken their place, by the passages that were found.

The words are data (``supersession.yaml``). A statement counts where it opens a line or stands in a
field of a head ("Status: superseded by ADR 7", "Supersedes ADR 2", "superseded_by: adr-7.md"), and
links two documents only if the other one was found and its name or title is the one that is named.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import PurePosixPath
from typing import NamedTuple

from ragstream_core.records import Chunk

TABLE = "supersession.yaml"
MAX_NAME = 80
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_VERSION = re.compile(r"^(?P<stem>.*?)[ _.-]*v(?P<number>\d{1,4})(?P<rest>\D*)$", re.IGNORECASE)
_TITLE = re.compile(r"^(?:#{1,6}[ \t]+|title:[ \t]*)(.{1,200})$", re.MULTILINE | re.IGNORECASE)
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\([^)\n]{0,300}\)")
_LEAD = r"^[ \t>*_#\-|]*(?:(?:status|statut|estado|zustand|stand)\W{1,6})?"
_DOCUMENT = (
    r"(?:(?:this|dieses|diese|dieser|ce|cette|este|esta) \w{1,20}"
    r" (?:(?:is|was|has been|wird|wurde|ist|est|a été|es|ha sido|fue) )?)?"
)


SUPERSEDED, LATER, ALSO = "superseded by", "there is a later version:", "there is also"
_INTERFACE_WORDS = (
    "api apis rest graphql sdk schema schemas proto protocol protocols endpoint endpoints interface"
    " interfaces openapi swagger schnittstelle schnittstellen"
)

# Where a path has such a word, an earlier version often goes on beside a later one.
_INTERFACES = frozenset(_INTERFACE_WORDS.split())


class Replaced(NamedTuple):
    """A document that has been superseded, or of which there is another version.

    Attributes:
        by: Path of the newer one if it was found, else what the document calls it; may be empty.
        found: Whether ``by`` is a path among the passages.
        word: `SUPERSEDED`: a document says so; `LATER`: only the names do; `ALSO`: only the names
            do, and both may be current.
    """

    by: str
    found: bool
    word: str = SUPERSEDED

    @property
    def told(self) -> str:
        """Say it in a few words."""
        return f"{self.word} {self.by}" if self.by else "superseded"

    @property
    def is_outdated(self) -> bool:
        """Whether what it says no longer counts."""
        return self.word != ALSO


class _Rules(NamedTuple):
    older: re.Pattern[str]
    newer: re.Pattern[str]
    status: re.Pattern[str]
    current: re.Pattern[str]


@functools.lru_cache(maxsize=1)
def _rules() -> _Rules:
    import yaml

    text = (resources.files(__package__) / TABLE).read_text(encoding="utf-8")
    rows: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(text)
    older, newer, status, current = (
        "|".join(form for row in rows.values() for form in row[kind])
        for kind in ("older", "newer", "status", "current")
    )
    flags = re.MULTILINE | re.IGNORECASE
    name = rf"[ \t:*_\"']*([^\n]{{1,{MAX_NAME}}})"
    return _Rules(
        re.compile(rf"{_LEAD}{_DOCUMENT}(?:{older}){name}", flags),
        re.compile(rf"{_LEAD}{_DOCUMENT}(?:{newer})\b{name}", flags),
        re.compile(r"^[ \t>*_\-|]*(?:status|statut|estado)\W{1,6}"
                   rf"(?:{status})[ \t.*_\"'|]*$", flags),
        re.compile(rf"\b(?:{current})\b", flags),
    )  # fmt: skip


def _tokens(text: str) -> tuple[str, ...]:
    """Split words from numbers, leading zeros off: ADR 7, adr-0007.md and ADR007 are one name."""
    return tuple(t.lower().lstrip("0") or "0" for t in _TOKEN.findall(text))


def _opens(name: tuple[str, ...], other: tuple[str, ...]) -> bool:
    least = 1 if len(name) == 1 and len(name[0]) > 2 else 2
    return len(name) >= least and other[: len(name)] == name


def _is_named(said: tuple[str, ...], names: Sequence[tuple[str, ...]]) -> bool:
    """Return whether what is said after "superseded by" begins with a name of a document.

    Or is the beginning of its title or file name: "ADR 7" of "ADR 7: Kafka".
    """
    short = said[: next((i + 1 for i, t in enumerate(said) if t.isdigit()), len(said))]
    return any(_opens(short, name) or _opens(name, said) for name in names)


def superseded(chunks: Sequence[Chunk]) -> dict[str, Replaced]:
    """Return the superseded documents: path → what took its place.

    Args:
        chunks: All passages that were found; of a document, those are all that is read.
    """
    texts: dict[str, list[str]] = {}
    for chunk in chunks:
        texts.setdefault(chunk.source, []).append(_LINK.sub(r"\1", chunk.snippet))
    names = {source: _names(source, said) for source, said in texts.items()}
    found: dict[str, Replaced] = dict(_versions(texts))
    for source, parts in texts.items():
        text = "\n".join(parts)
        if _rules().status.search(text):
            found.setdefault(source, Replaced("", False))
        for match in _rules().newer.finditer(text):
            said = _tokens(match[1])
            olds = [s for s in texts if s != source and _is_named(said, names[s])]
            found.update((old, Replaced(source, True)) for old in olds)
    for source, parts in texts.items():
        older = _rules().older.search("\n".join(parts))
        if older:
            said = _tokens(older[1])
            new = next((s for s in texts if s != source and _is_named(said, names[s])), "")
            known = found.get(source)
            if new or not (known and known.found):
                by = re.split(r"[.;,](?:\s|$)|[|*\"')]", older[1])[0].strip(" _`")
                found[source] = Replaced(new or by, bool(new))
    return found


def _names(source: str, parts: Sequence[str]) -> list[tuple[str, ...]]:
    path = PurePosixPath(source)
    titles = [m[1] for part in parts if (m := _TITLE.search(part))][:1]
    return [row for row in map(_tokens, (path.name, path.stem, *titles)) if row]


def _versions(texts: Mapping[str, Sequence[str]]) -> dict[str, Replaced]:
    """Return files whose name differs from another's of one folder by a lower v-number alone.

    Of interfaces, and where a version is called current, the earlier one goes on.
    """
    groups: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for source in texts:
        path = PurePosixPath(source)
        if match := _VERSION.match(path.stem):
            key = (str(path.parent), match["stem"].lower(), match["rest"].lower(), path.suffix)
            groups.setdefault(key, []).append((int(match["number"]), source))
    found: dict[str, Replaced] = {}
    for rows in groups.values():
        newest = max(rows)
        goes_on = not _INTERFACES.isdisjoint(_tokens(newest[1])) or any(
            _rules().current.search(text) for _, source in rows for text in texts[source]
        )
        row = Replaced(newest[1], True, ALSO if goes_on else LATER)
        found.update((source, row) for number, source in rows if number < newest[0])
    return found


def with_successors(
    kept: Sequence[Chunk], chunks: Sequence[Chunk], replaced: Mapping[str, Replaced]
) -> list[Chunk]:
    """Put the best passage of each successor behind the first passage of the older document.

    Args:
        kept: What is to be shown, in rank order.
        chunks: All passages that were found, best first.
        replaced: As of `superseded`.
    """
    result = list(kept)
    olds = list(dict.fromkeys(chunk.source for chunk in kept))
    for old in olds:  # grows: what takes the place of one may have been superseded as well
        row = replaced.get(old)
        if row is None or not row.found:
            continue
        at = next(i for i, chunk in enumerate(result) if chunk.source == old)
        here = next((i for i, chunk in enumerate(result) if chunk.source == row.by), None)
        if here is not None and here < at:
            continue
        best = result.pop(here) if here is not None else next(
            (chunk for chunk in chunks if chunk.source == row.by), None
        )  # fmt: skip
        if best is not None:
            result.insert(at + 1, best)
            olds += [row.by] if row.by not in olds else []
    return result


def best_of_successors(kept: Sequence[Chunk], replaced: Mapping[str, Replaced]) -> dict[str, str]:
    """Return the first passage of each shown document's successor: its id → the older document.

    Args:
        kept: As of `with_successors`.
        replaced: As of `superseded`.
    """
    first: dict[str, str] = {}
    for chunk in kept:
        first.setdefault(chunk.source, chunk.id)
    olds = (old for old in first if old in replaced and replaced[old].by in first)
    return {first[replaced[old].by]: old for old in olds}
