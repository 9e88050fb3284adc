"""Rich Text Format as Markdown: paragraphs, headings, tables and notes; pictures are left out."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.nesting import heading
from ragstream_core.ingestion.parsers.raised import subscript, superscript
from ragstream_core.ingestion.parsers.tables import Grid, markdown_table

_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<byte>[0-9a-fA-F]{2})"
    rb"|\\(?P<sign>[^a-zA-Z'])|(?P<brace>[{}])|[\r\n]+|(?P<text>[^\\{}\r\n]+)|\\",
    re.DOTALL,
)
_SKIPPED = frozenset(
    ["colortbl", "info", "pict", "objdata", "sn", "sv", "shprslt", "nonshppict", "filetbl",
     "revtbl", "themedata", "xmlnstbl", "fldinst", "annotation", "atnid", "atnauthor", "template"]
)  # fmt: skip
_READ_THOUGH_STARRED = frozenset(["shpinst", "shptxt", "fldrslt"])
_ASIDES = {
    **dict.fromkeys(("header", "headerl", "headerr", "headerf"), "header"),
    **dict.fromkeys(("footer", "footerl", "footerr", "footerf"), "footer"),
    "footnote": "note",
}
_WRITTEN = {
    "tab": " ", "line": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘",
    "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ",
    "nestcell": " ", "nestrow": "\n",
}  # fmt: skip
_SIGNS = {b"~": " ", b"_": "-", b"-": "", b"\n": "\n", b"\r": "\n"}
_CHARSETS = {
    0: "cp1252", 77: "mac-roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256",
    186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_PAGES = {"ansi": "cp1252", "mac": "mac-roman", "pc": "cp437", "pca": "cp850"}


def rtf_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a file in Rich Text Format, and what was left out of it.

    Args:
        data: The whole file.
        limit: The most bytes of text of a table.

    Raises:
        Refusal: It is no such file, or a table is larger than the limit.
    """
    if not data.lstrip()[:5].startswith(b"{\\rtf"):
        raise Refusal("not a readable RTF file")
    reader = _Reader(data, limit)
    reader.read()
    comments = reader.comments
    return reader.markdown(), f"comments left out: {comments}" if comments else ""


@dataclass(slots=True)
class _State:
    """What holds in a group: it ends with the group."""

    skipped: bool = False
    table: str = ""  # fonttbl or stylesheet
    codec: str = "cp1252"
    replaced: int = 1  # characters behind a Unicode one that stand for it
    hidden: bool = False
    raised: str = ""


@dataclass(slots=True)
class _Flow:
    """Text that flows by itself: the body, a note, a header."""

    blocks: list[str] = field(default_factory=list)
    words: str = ""
    level: int = 0
    in_table: bool = False
    rows: list[dict[int, str]] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    continued: list[bool] = field(default_factory=list)  # a cell goes on from the row above


class _Reader:
    """Reads the file once, from its first byte to its last."""

    def __init__(self, data: bytes, limit: int) -> None:
        self.comments = 0
        self._data, self._limit = data, limit
        self._state, self._states = _State(), list[_State]()
        self._flow, self._flows = _Flow(), list[tuple[_Flow, str, int]]()
        self._fonts, self._font, self._default = dict[int, str](), 0, "cp1252"
        self._styles, self._style = dict[int, int](), 0
        self._bytes, self._left, self._starred, self._row = bytearray(), 0, False, list[bool]()
        self._asides: dict[str, list[str]] = {"header": [], "footer": [], "note": []}

    def read(self) -> None:
        """Read all of it."""
        at = 0
        while (found := _TOKEN.match(self._data, at)) is not None:
            at = found.end()
            if found["byte"]:
                self._add(bytes.fromhex(found["byte"].decode()))
            elif found["text"]:
                self._add(found["text"])
            elif found["word"]:
                number = int(found["number"]) if found["number"] else None
                if found["word"] == b"bin":
                    at += max(0, number or 0)
                else:
                    self._word(found["word"].decode(), number)
            elif found["brace"] or found["sign"]:
                self._sign(found["brace"] or found["sign"], is_brace=bool(found["brace"]))
        self._flush()
        self._end_asides(-1)
        self._end_paragraph()

    def markdown(self) -> str:
        """Return headers, body, notes and footers; a line of a margin stands once."""
        self._end_table()
        above, below = (list(dict.fromkeys(self._asides[k])) for k in ("header", "footer"))
        return "\n\n".join([*above, *self._flow.blocks, *self._asides["note"], *below])

    def _add(self, text: bytes) -> None:
        left = min(self._left, len(text))
        self._left -= left
        if not self._state.skipped:
            self._bytes += text[left:]

    def _flush(self) -> None:
        """Take the bytes so far as text of the present font."""
        if self._bytes:
            text = self._bytes.decode(self._state.codec, "replace")
            self._bytes.clear()
            self._say(text)

    def _say(self, text: str) -> None:
        state, flow = self._state, self._flow
        if state.skipped or state.hidden or not text:
            return
        if state.table:
            named = (
                re.fullmatch(r"\s*heading (\d);?", text) if state.table == "stylesheet" else None
            )
            if named:
                self._styles[self._style] = int(named[1])
        elif state.raised:
            raise_it = superscript if state.raised == "super" else subscript
            flow.words += raise_it(text, flow.words[-24:])
        else:
            if flow.rows and not flow.in_table and text.strip():
                self._end_table()
            flow.words += text

    def _sign(self, sign: bytes, *, is_brace: bool) -> None:
        self._flush()
        if is_brace and sign == b"{":
            self._states.append(self._state)
            self._state = replace(self._state)
            self._left = 0
        elif is_brace:
            self._close()
        elif sign == b"*":
            self._starred = True
            return
        else:
            self._say(_SIGNS.get(sign, sign.decode("latin-1")))
        self._starred = False

    def _close(self) -> None:
        self._left = 0
        self._state = self._states.pop() if self._states else _State()
        self._end_asides(len(self._states))

    def _end_asides(self, depth: int) -> None:
        """Put away notes and margins that began deeper than so many groups."""
        while self._flows and self._flows[-1][2] > depth:
            self._end_paragraph()
            self._end_table()
            text = "\n\n".join(self._flow.blocks)
            self._flow, kind, _ = self._flows.pop()
            if kind == "note":
                text = f"[{len(self._asides[kind]) + 1}] {text}"
            self._asides[kind] += [text] if any(map(str.isalnum, text)) else []

    def _word(self, word: str, number: int | None) -> None:
        self._flush()
        starred, self._starred = self._starred, False
        left, self._left = self._left, 0
        if left and word in _WRITTEN:
            self._left = left - 1
            return
        if word == "u" and number is not None:
            self._left = self._state.replaced
            self._say(chr(number & 0xFFFF))  # surrogates are joined when the text is tidied
        elif word in _SKIPPED or (starred and word not in _READ_THOUGH_STARRED):
            self.comments += word == "annotation" and not self._state.skipped
            self._state.skipped = True
        elif self._state.skipped:
            return
        elif word in ("fonttbl", "stylesheet"):
            self._state.table = word
        elif word in _ASIDES:
            self._begin_aside(_ASIDES[word])
        elif word in _WRITTEN:
            self._say(_WRITTEN[word])
        elif not self._characters(word, number):
            self._paragraphs(word, number)

    def _begin_aside(self, kind: str) -> None:
        if kind == "note":
            self._say(f" [{len(self._asides['note']) + 1}]")
        self._state.raised = ""
        self._flows.append((self._flow, kind, len(self._states)))
        self._flow = _Flow()

    def _characters(self, word: str, number: int | None) -> bool:
        """Do what a word says of characters; return whether it does."""
        state = self._state
        if word in _PAGES or word == "ansicpg":
            name = _PAGES.get(word, f"cp{number}")
            self._default = state.codec = _codec(name, self._default)
        elif word == "f" and number is not None:
            self._font = number
            state.codec = self._fonts.get(number, self._default)
        elif word == "fcharset" and state.table:
            known = _CHARSETS.get(number or 0, self._default) if number else self._default
            self._fonts[self._font] = _codec(known, self._default)
            state.codec = self._fonts[self._font]
        elif word == "uc":
            state.replaced = max(0, min(number or 0, 100))
        elif word in ("v", "deleted"):
            state.hidden = number != 0
        elif word in ("super", "sub", "nosupersub"):
            state.raised = "" if word == "nosupersub" or number == 0 else word
        elif word == "plain":
            state.hidden, state.raised = False, ""
        elif word == "s" and state.table:
            self._style = number or 0
        elif word == "outlinelevel" and state.table:
            self._styles[self._style] = (number or 0) + 1
        else:
            return False
        return True

    def _paragraphs(self, word: str, number: int | None) -> None:
        flow = self._flow
        if word in ("par", "sect", "page"):
            if flow.in_table and word == "par":
                flow.words += "\n"
            else:
                self._end_paragraph()
        elif word == "pard":
            flow.level, flow.in_table = 0, False
        elif word == "intbl":
            flow.in_table = True
        elif word == "s":
            flow.level = self._styles.get(number or 0, 0)
        elif word == "outlinelevel":
            flow.level = (number or 0) + 1 if (number or 0) < 6 else 0
        elif word == "trowd":
            flow.continued.clear()
            self._row = [False]
        elif word == "clvmrg" and self._row:
            self._row[-1] = True
        elif word == "cellx" and self._row:
            flow.continued.append(self._row[-1])
            self._row[-1] = False
        elif word == "cell":
            flow.cells.append(flow.words.strip())
            flow.words = ""
        elif word == "row":
            self._end_row()

    def _end_row(self) -> None:
        flow = self._flow
        above = flow.rows[-1] if flow.rows else {}
        goes_on = dict(enumerate(flow.continued))
        flow.rows.append(
            {
                n: above.get(n, "") if goes_on.get(n) and not text else text
                for n, text in enumerate(flow.cells)
            }
        )
        flow.cells.clear()

    def _end_paragraph(self) -> None:
        self._flush()
        flow = self._flow
        text = "\n".join(_lines(flow.words))
        if text:
            self._end_table()
            is_title = flow.level and len(text) < 200
            flow.blocks.append(heading(text, flow.level) if is_title else text)
        flow.words = ""

    def _end_table(self) -> None:
        flow = self._flow
        if flow.rows:
            flow.blocks.append(markdown_table(Grid([*flow.rows]), self._limit))
            flow.rows.clear()


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if words := " ".join(line.split()):
            yield words


def _codec(name: str, otherwise: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return otherwise
