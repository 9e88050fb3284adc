"""Subtitles (SRT, WebVTT) as sentences, each with the time at which it begins."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from ragstream_core.ingestion.parsers.engines import decoded
from ragstream_core.ingestion.parsers.nesting import nested

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}"
_CUE = re.compile(rf"\s*{_TIME}[ \t]*-->[ \t]*{_TIME}")
_REMARK = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_SPEAKER = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]{1,100})>")
_MARKUP = re.compile(r"</?[a-zA-Z\d][^<>]{0,200}>|\{\\[^{}]{1,100}\}")
_ROLLING = re.compile(r"<\d{1,2}:\d{2}[:.]\d{2}")
_ENDS = re.compile(r"[.!?…。！？♪][\"'”’»)\]]*$")
_PAUSE_S, _LONGEST = 3, 600


class _Cue(NamedTuple):
    """What is shown at a time: seconds from the beginning, who speaks, and words."""

    start: int
    end: int
    speaker: str
    lines: list[str]


def subtitles_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the sentences of subtitles, as paragraphs like ``[00:01:05] Ann: It opens.``."""
    text = decoded(data)
    cues = list(_cues(text))
    if not cues:
        return nested(text, 0), "no line with two times: read as text"
    return "\n\n".join(_sentences(cues)), ""


def _cues(text: str) -> Iterator[_Cue]:
    """Yield the cues; in rolling captions each line comes twice or more, and is taken once."""
    lines, is_rolling, before = text.splitlines(), _ROLLING.search(text) is not None, [""]
    found = [(n, times) for n, line in enumerate(lines) if (times := _CUE.match(line))]
    ends = [n - _named(lines, n) for n, _ in found[1:]]
    for (n, times), end in zip(found, [*ends, len(lines)], strict=False):
        shown = list(_without_remarks(lines[n + 1 : end]))
        speaker = next((who[1].strip() for line in shown if (who := _SPEAKER.search(line))), "")
        words = [" ".join(html.unescape(_MARKUP.sub("", line)).split()) for line in shown]
        new = [line for line in words if line and not (is_rolling and line in before)]
        before = words if is_rolling else before
        if new:
            yield _Cue(_seconds(times.groups()[:3]), _seconds(times.groups()[3:]), speaker, new)


def _named(lines: list[str], n: int) -> int:
    """Return 1 if the line above a cue is its number or name, else 0."""
    above = lines[n - 1].strip() if n else ""
    return int(bool(above) and (above.isdigit() or n < 2 or not lines[n - 2].strip()))


def _without_remarks(lines: list[str]) -> Iterator[str]:
    remark = False
    for n, line in enumerate(lines):
        begins_block = n > 0 and not lines[n - 1].strip()
        remark = bool(line.strip()) and (remark or (begins_block and bool(_REMARK.match(line))))
        if not remark:
            yield line


def _seconds(parts: tuple[str | None, ...]) -> int:
    hours, minutes, seconds = (int(part or 0) for part in parts)
    return hours * 3600 + minutes * 60 + seconds


def _sentences(cues: list[_Cue]) -> Iterator[str]:
    """Join cues until a sentence ends, somebody else speaks, or nobody does for a while."""
    said, start = "", 0
    for n, cue in enumerate(cues):
        if not said:
            start, said = cue.start, f"{cue.speaker}: " if cue.speaker else ""
        said += " ".join(cue.lines)
        after = cues[n + 1] if n + 1 < len(cues) else None
        pauses = after is None or not 0 <= after.start - cue.end <= _PAUSE_S
        pauses = pauses or (after is not None and after.speaker != cue.speaker)
        if pauses or _ENDS.search(said) or len(said) > _LONGEST:
            yield f"[{start // 3600:02}:{start // 60 % 60:02}:{start % 60:02}] {said}"
            said = ""
        else:
            said += " "
