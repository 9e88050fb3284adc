"""Fences that a document cannot break: normalise, name, frame and prefix untrusted text.

The nonce is a hash of everything it guards, so that it cannot be written in advance, and it is
lengthened while it occurs in what it guards. Do not change `line_owners` along with this file: it
re-reads the finished prompt and shares no code with this one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from ragstream_core.text.memo import remembered

FENCE_VERSION = "ragstream-fence-v1"
NONCE_DIGITS = 12
NONCE_STEP = 4
NAME_MAX = 200
PREFIX = "| "
BREAK = "·"

_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_DROPPED = {
    "control": "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f",
    "bidi": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "zero_width": "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065"
    "\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a",
    "tag": "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff",
    "variation": "\ufe00-\ufe0d\U000e0100-\U000e01ef",
    "surrogate": "\ud800-\udfff",
}
_JOINED = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\ufb50-\ufdff\ufe70-\ufefc"
_PICTURES = "\u2190-\u2bff\U0001f000-\U0001faff"
_SIGNS = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299"

# A (non-)joiner is part of a word in the scripts of Persia, India and Burma, and of a picture made
# of several; anywhere else it hides something.
_LOOSE_JOINER = (
    f"(?!(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])"
    f"|(?:(?<=[{_PICTURES}])|(?<=[{_PICTURES}]\ufe0f))\u200d(?=[{_PICTURES}]))"
    "[\u200c\u200d]"
)
# Directly behind a picture it says whether that has colours; anywhere else it hides something.
_LOOSE_SELECTOR = f"(?<![{_PICTURES}{_SIGNS}])[\ufe0e\ufe0f]"
_BY_KIND = {kind: re.compile(f"[{chars}]") for kind, chars in _DROPPED.items()}
_BY_KIND["zero_width"] = re.compile(f"[{_DROPPED['zero_width']}]|{_LOOSE_JOINER}")
_BY_KIND["variation"] = re.compile(f"[{_DROPPED['variation']}]|{_LOOSE_SELECTOR}")
_ANY_DROPPED = re.compile(f"[{''.join(_DROPPED.values())}]|{_LOOSE_JOINER}|{_LOOSE_SELECTOR}")

# Tokens of chat templates, which some local servers parse anywhere in a text, and the three
# citation forms, which only the prompt's author may issue.
_CONTROL_TOKEN = re.compile(
    r"(<(?=[|｜][^|｜<>\n]{1,64}[|｜]>)"
    r"|<(?=/?s>)|<(?=</?sys>>)|<(?=(?:start|end)_of_turn>)|<(?=/?(?:bos|eos|pad|unk)>)"
    r"|<(?=begin_of_text>|end_of_text>)|\[(?=/?INST\])|\[(?=/?SYSTEM_PROMPT\])"
    r"|\[(?=\s{0,8}source\s{0,8}:))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Clean:
    r"""Normalised text and what it lost."""

    text: str  # only ``\n`` ends a line; no control, bidi, zero-width, tag or variation characters
    # kind of character → how many were removed; empty if nothing was
    dropped: dict[str, int] = field(default_factory=dict)


@remembered  # a passage is framed again at every stage
def normalise(text: str) -> Clean:
    """Make one line end of all kinds and drop characters that people cannot see.

    The text is not NFKC-folded: that would change code.
    """
    text = _LINE_END.sub("\n", text)
    if _ANY_DROPPED.search(text) is None:
        return Clean(text)
    counts = {kind: len(pattern.findall(text)) for kind, pattern in _BY_KIND.items()}
    return Clean(_ANY_DROPPED.sub("", text), {k: n for k, n in counts.items() if n})


def break_tokens(text: str) -> str:
    """Put a visible ``·`` into chat-template tokens and citation markers of foreign text."""
    return _CONTROL_TOKEN.sub(lambda match: match.group(1) + BREAK, text)


def quote_lines(text: str) -> list[str]:
    """Normalise foreign text, break its tokens and prefix each line; at least one line."""
    return list(_quoted(text))


@remembered
def _quoted(text: str) -> tuple[str, ...]:
    return tuple(PREFIX + line for line in break_tokens(normalise(text).text).split("\n"))


def one_line(text: str) -> str:
    """Normalise foreign text, break its tokens and collapse all white space to single spaces."""
    return break_tokens(" ".join(normalise(text).text.split()))


@remembered
def safe_name(name: str) -> str:
    """Percent-encode a source name to ``[A-Za-z0-9._~/%-]`` and cut it at 200 characters."""
    encoded = quote(name.encode("utf-8", "replace"), safe="/._-~")
    if len(encoded) <= NAME_MAX:
        return encoded or "unnamed"
    cut = encoded[:NAME_MAX]
    at = cut.rfind("%", NAME_MAX - 2)
    return cut if at < 0 else cut[:at]


def make_nonce(blocks: Iterable[str]) -> str:
    """Return the mark that frames one prompt.

    nonce = first 12 hex digits of sha256("ragstream-fence-v1", length-prefixed blocks); 4 more
    while it occurs, whatever the case, in any block.
    """
    texts = [b.encode("utf-8", "surrogatepass") for b in blocks]
    digest = hashlib.sha256(FENCE_VERSION.encode())
    for data in texts:
        digest.update(b"%d:" % len(data))
        digest.update(data)
    full = digest.hexdigest()
    lowered = [data.lower() for data in texts]
    digits = NONCE_DIGITS
    while digits < len(full) and any(full[:digits].encode() in data for data in lowered):
        digits += NONCE_STEP
    return full[:digits]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a framed text comes from."""

    id: str  # citation id, ``[A-Za-z0-9_.-]+``
    name: str  # path of the source; encoded when framed
    span: tuple[int, int]  # start and end character offsets in the source
    sha256: str  # hash of the source's bytes; the first 12 digits are shown
    mode: str = ""  # ``FULL``, ``PACK``, ``CUT``, ``DIFF`` or empty
    # citation id and path of each passage that it is shown for as well
    also: tuple[tuple[str, str], ...] = ()
    context: str = ""  # what the text stands in, on one line; shown above the frame


def frame(index: int, nonce: str, *, source: Source, text: str) -> list[str]:
    """Frame one foreign text."""
    lines = quote_lines(text)
    mode = f' mode="{source.mode}"' if source.mode else ""
    head = (
        f'<<DOC {index} {nonce} id="{source.id}" source="{safe_name(source.name)}"'
        f' span="{source.span[0]}-{source.span[1]}" sha256="{source.sha256[:12]}"'
        f"{mode} lines={len(lines)}>>"
    )
    return [head, *lines, f"<<END DOC {index} {nonce}>>"]


def heading(name: str, nonce: str = "") -> str:
    """Return the heading of one of our own sections; without a nonce, a plain Markdown one."""
    return f"## [{nonce}] {name}" if nonce else f"## {name}"


def total_dropped(texts: Sequence[str]) -> dict[str, int]:
    """Add up what `normalise` removes from several texts, by kind."""
    total: dict[str, int] = {}
    for text in texts:
        for kind, n in normalise(text).dropped.items():
            total[kind] = total.get(kind, 0) + n
    return total
