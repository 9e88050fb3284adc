"""Rich Text Format as Markdown: paragraphs, headings, tables and notes; pictures are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.nesting import DEEPEST, heading
from ragstream_core.ingestion.parsers.raised import subscript, superscript
from ragstream_core.ingestion.parsers.tables import Grid, markdown_table
from ragstream_core.text.decoding import codec_of

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
_MARGINS = frozenset(
    ["header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"]
)
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
_LONGEST_TITLE = 200
_PAGES = {"ansi": "cp1252", "mac": "mac-roman", "pc": "cp437", "pca": "cp850"}


def rtf_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a file in Rich Text Format, and what was left out of it."""
    if not data.lstrip()[:5].startswith(b"{\\rtf"):
        raise Refusal("not a readable RTF file")
    reader = _Reader(data, limit)
    text, comments = reader.markdown(), reader.comments
    return text, f"comments left out: {comments}" if comments else ""


@dataclass(slots=True)
class _State:
    """What holds in a group: it ends with the group."""

    skipped: bool = False
    table: str = ""  # fonttbl or stylesheet
    codec: str = "cp1252"
    replaced: int = 1  # characters behind a Unicode one that stand for it
    hidden: bool = False
    raised: str = ""
    aside: str = ""  # a note, or the text of a margin


class _Reader:
    """Reads the file once, from its first byte to its last; notes and margins stay in place."""

    def __init__(self, data: bytes, limit: int) -> None:
        self.comments = 0
        self._data, self._limit = data, limit
        self._state, self._states = _State(), list[_State]()
        self._fonts, self._font, self._default = dict[int, str](), 0, "cp1252"
        self._styles, self._style = dict[int, int](), 0
        self._bytes, self._left, self._starred = bytearray(), 0, False
        self._blocks, self._words, self._level = list[str](), list[str](), 0
        self._in_table, self._rows, self._cells = False, list[dict[int, str]](), list[str]()

    def markdown(self) -> str:
        """Return all of its text."""
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
                    skipped = at + max(0, number or 0)
                    at = skipped if skipped <= len(self._data) else at  # else it lies
                else:
                    self._word(found["word"].decode(), number)
            elif found["brace"] or found["sign"]:
                self._sign(found["brace"] or found["sign"], is_brace=bool(found["brace"]))
        self._flush()
        if self._cells:
            self._end_row()
        self._end_paragraph()
        self._end_table()
        return "\n\n".join(self._blocks)

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
        state = self._state
        if state.skipped or state.hidden or not text:
            return
        if state.table:
            named = re.fullmatch(r"\s*heading (\d);?", text)
            if named and state.table == "stylesheet":
                self._styles[self._style] = int(named[1])
        elif state.raised:
            raise_it = superscript if state.raised == "super" else subscript
            self._words.append(raise_it(text, "".join(self._words[-24:])[-24:]))
        else:
            self._words.append(text)

    def _sign(self, sign: bytes, *, is_brace: bool) -> None:
        self._flush()
        if is_brace and sign == b"{":
            self._states.append(self._state)
            self._state, self._left = replace(self._state, aside=""), 0
        elif is_brace:
            self._close()
        elif sign == b"*":
            self._starred = True
            return
        else:
            self._say(_SIGNS.get(sign, sign.decode("latin-1")))
        self._starred = False

    def _close(self) -> None:
        aside, self._left = self._state.aside, 0
        self._state = self._states.pop() if self._states else _State()
        if aside == "footnote":
            while self._words and not self._words[-1].strip():
                self._words.pop()
            self._words[-1:] = [f"{''.join(self._words[-1:]).rstrip()}]"]
        elif aside:
            self._end_paragraph()

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
        elif word == "footnote":
            self._say(" [")
            self._state.aside, self._state.raised = word, ""
        elif word in _MARGINS:
            self._end_paragraph()
            self._state.aside = word
        elif word in _WRITTEN:
            self._say(_WRITTEN[word])
        elif not self._characters(word, number):
            self._paragraphs(word, number)

    def _characters(self, word: str, number: int | None) -> bool:
        """Do what a word says of characters; return whether it does."""
        state = self._state
        if word in _PAGES or word == "ansicpg":
            name = _PAGES.get(word, f"cp{number}")
            self._default = state.codec = codec_of(name, self._default)
        elif word == "f" and number is not None:
            self._font = number
            state.codec = self._fonts.get(number, self._default)
        elif word == "fcharset" and state.table:
            known = _CHARSETS.get(number or 0, self._default) if number else self._default
            self._fonts[self._font] = codec_of(known, self._default)
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
        if word in ("par", "sect", "page"):
            if (self._in_table and word == "par") or self._state.aside == "footnote":
                self._words.append("\n")
            else:
                self._end_paragraph()
        elif word == "pard":
            self._level, self._in_table = 0, False
        elif word == "intbl":
            self._in_table = True
        elif word == "s":
            self._level = self._styles.get(number or 0, 0)
        elif word == "outlinelevel":
            self._level = (number or 0) + 1 if (number or 0) < DEEPEST else 0
        elif word == "cell":
            self._cells.append("".join(self._words).strip())
            self._words.clear()
        elif word == "row":
            self._end_row()

    def _end_row(self) -> None:
        self._rows.append(dict(enumerate(self._cells)))
        self._cells.clear()

    def _end_paragraph(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self._words).split("\n"))
        text = "\n".join(filter(None, lines))
        self._words.clear()
        if text:
            self._end_table()
            is_title = self._level and len(text) < _LONGEST_TITLE
            self._blocks.append(heading(text, self._level) if is_title else text)

    def _end_table(self) -> None:
        if self._rows:
            self._blocks.append(markdown_table(Grid([*self._rows]), self._limit))
            self._rows.clear()
