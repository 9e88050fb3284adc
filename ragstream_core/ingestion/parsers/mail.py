"""Mails and mailboxes as Markdown: who wrote what and when, with attached mails and documents.

The packages of `email` are given bytes and the policy that raises for nothing they hold.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import email
import mimetypes
import re
from collections.abc import Iterator
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any

from ragstream_core.ingestion.file_types import PICTURES, denial, file_type, kind_of
from ragstream_core.ingestion.parsers import engines
from ragstream_core.ingestion.parsers.child import answer, apart
from ragstream_core.ingestion.parsers.engines import Limits, Parsed, Refusal, too_long
from ragstream_core.ingestion.parsers.mail_quotes import told_apart
from ragstream_core.ingestion.parsers.nesting import DEEPEST, fenced, heading, nested
from ragstream_core.ingestion.parsers.peek import html_text
from ragstream_core.ingestion.parsers.web_page import (
    READ_AS,
    decoded_page,
    html_markdown,
    words_only,
)
from ragstream_core.text.decoding import decode

_BEGINS = re.compile(  # a line "From " of an envelope has a time, a year, and a head below
    rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]{0,200}\d:\d\d[^\n]{0,40}\b(?:19|20)\d\d\b"
    rb"[^\n]{0,40}\n(?=>?From |[!-9;-~]+:)"
)
_ESCAPED = re.compile(rb">+From ")
_HEAD = re.compile(rb"\s*(?:From [^\n]{0,300}\d:\d\d[^\n]{0,80}\n)?[!-9;-~]+:")
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN = ("To", "Cc")
_NO_CONTENT = ("application/pgp-signature", "application/pkcs7-signature",
               "application/x-pkcs7-signature", "application/pgp-encrypted")  # fmt: skip
_LONGEST_HEADER = 20_000  # bytes: thousands of recipients are no text

# What `email` raises at broken mails.
_BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_PACKED = re.compile(rb"\s*(?:[A-Za-z0-9+/]{4}\s*){6,}={0,2}")
_LARGE_PAGE = 50_000  # letters: one that nests without end takes long
_MORE_WORDS = 5  # times more in the HTML than in the plain text: that only says to look there


def mail_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a mail with all that is attached, and what was left out of it."""
    if data.startswith(_MARKS):
        data = (decode(data)[0] or "").encode()
    if not _HEAD.match(data):
        raise Refusal("not a readable mail (it begins with no header)")
    return _written([data], limit)


def mailbox_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of all mails of a mailbox, and what was left out of them."""
    found = [line.span() for line in _BEGINS.finditer(data)]
    ends = [*(start for start, _ in found), len(data)]
    mails = [data[: ends[0]], *(data[at:end] for (_, at), end in zip(found, ends[1:], strict=True))]
    mails = [mail for mail in mails if mail.strip()]
    if not mails or not _HEAD.match(mails[0]):
        raise Refusal("not a readable mailbox (it begins with no mail)")
    text, noted = _written([_unescaped(mail) for mail in mails], limit)
    return text, "; ".join(filter(None, [f"{len(mails)} mail{'s' * (len(mails) > 1)}", noted]))


def _unescaped(mail: bytes) -> bytes:
    """Return a mail as it was sent: ``From`` where ``>From`` was written for it, not quoted."""
    if b"\n>" not in mail:
        return mail
    lines, is_quoted = mail.splitlines(keepends=True), False
    for n, line in enumerate(lines):
        if not is_quoted and _ESCAPED.match(line):
            lines[n] = line[1:]
        else:
            is_quoted = line.startswith(b">")
    return b"".join(lines)


def _written(mails: list[bytes], limit: int) -> tuple[str, str]:
    made, size, writer = list[str](), 0, _Writer(limit)
    for mail in mails:
        for text in writer.mails(mail):
            made.append(text)
            size += len(text)
            if size > limit:
                raise too_long(limit)
    if not made:
        raise Refusal("not a readable mail (it is broken, or nested too deep)")
    noted = [f"pictures left out: {writer.pictures}"] if writer.pictures else []
    noted += [f"mails that cannot be read: {writer.broken}"] if writer.broken else []
    return "\n\n".join(made), "; ".join(noted)


class _Writer:
    """Writes mails; one that is attached follows the mail that it is attached to."""

    def __init__(self, limit: int) -> None:
        self.pictures = self.broken = 0
        self._limit = limit
        self._attached = list[Message | bytes]()

    def mails(self, data: bytes) -> Iterator[str]:
        """Yield the Markdown of a mail and of each mail in it, however deep."""
        waiting: list[tuple[Message | bytes, int]] = [(data, 1)]
        while waiting:
            mail, level = waiting.pop()
            self._attached = []
            try:
                mail = email.message_from_bytes(mail) if isinstance(mail, bytes) else mail
                yield self._mail(mail, level)
            except _BROKEN:
                self.broken += 1
            below = min(level + 1, DEEPEST - 2)
            waiting += [(attached, below) for attached in reversed(self._attached)]

    def _mail(self, message: Message, level: int) -> str:
        author, address = next(iter(_people(_raw(message, "From"))), ("", ""))
        author = _decoded(author) or address or "an unknown sender"
        subject = _decoded(_raw(message, "Subject")) or "Mail without a subject"
        date = _date(_raw(message, "Date"))
        title = f"{author}{f', {date}' if date else ''}: {subject}"
        lines = [f"From: {author}{f' <{address}>' if address and address != author else ''}"]
        for name in _SHOWN:
            people = _people(_raw(message, name))
            shown = [_decoded(who) or at for who, at in people if who or at]
            lines += [f"{name}: {', '.join(shown)}"] if shown else []
        lines += [f"Date: {date}"] if date else []
        bodies, attachments = list[str](), list[str]()
        for part in _leaves(message):
            if _is_body(part):
                bodies.append(told_apart(_body(part, self._limit), author, level))
            else:
                attachments.append(self._attachment(part, level + 1))
        whole = [heading(title, level), "\n".join(lines), *bodies, *attachments]
        return "\n\n".join(filter(None, whole))

    def _attachment(self, part: Message, level: int) -> str:
        kind, name = part.get_content_type(), _name(part)
        if kind == "message/rfc822" and isinstance(part.get_payload(), list):
            self._attached += part.get_payload()  # type: ignore[arg-type]  # it is a list
            return ""
        if kind.split("/")[0] in ("image", "audio", "video"):
            self.pictures += 1
            return f"Attachment that is not read: {name} ({kind})" if name else ""
        data = _payload(part)
        if kind in _NO_CONTENT or not data:
            return ""
        is_text = kind.startswith(("text/", "message/"))
        kind = file_type(name) or file_type(f"x{mimetypes.guess_extension(kind) or ''}")
        kind = kind or ("txt" if is_text else "")
        if kind == "eml":
            self._attached.append(data)
            return ""
        name = name or part.get_content_type()
        text, reason = self._document(data, name, kind)
        if reason:
            return f"Attachment that is not read: {name} ({reason})"
        return f"{heading(f'Attachment: {name}', level)}\n\n{nested(text, level)}"

    def _document(self, data: bytes, name: str, kind: str) -> tuple[str, str]:
        """Return the text of an attached document, or why it is not read."""
        if denied := denial(name):
            return "", denied
        if kind_of(kind) in ("pdf", "office"):
            reason = engines.missing(kind)
            if reason:
                return "", reason
            limits = Limits(text_bytes=self._limit)
            found = apart(lambda: answer(kind_of(kind), data, file_type=kind, limits=limits))
            if found.pages is None:
                return "", found.note
            return "\n\n".join(text for _, text in found.pages), ""
        if not kind or kind in PICTURES:
            return "", "type not supported"
        text, note = decode(data)
        if text is None:
            return "", note
        return (fenced(text.strip("\n"), kind) if kind_of(kind) == "code" else text), ""


def _leaves(message: Message) -> Iterator[Message]:
    """Yield the parts of a mail that hold no others, in order; of two forms of a text the better.

    An attached mail is one part.
    """
    waiting = [message]
    while waiting:
        part = waiting.pop()
        inner: Any = part.get_payload() if part.is_multipart() else []
        if not part.is_multipart() or part.get_content_maintype() == "message":
            yield part
        elif part.get_content_type() == "multipart/alternative":
            waiting += reversed(_best([leaf for each in inner for leaf in _leaves(each)]))
        else:
            waiting += reversed(inner)


def _best(parts: list[Message]) -> list[Message]:
    """Leave out the HTML form of a text, or a plain form that says next to nothing."""
    plain = [part for part in parts if part.get_content_type() == "text/plain"]
    pages = [part for part in parts if part.get_content_type() == "text/html"]
    words = sum(len(_text(part).split()) for part in plain)
    shown = sum(len(html_text(_payload(part)).split()) for part in pages)
    left_out = pages if words and words * _MORE_WORDS >= shown else plain
    others = [part for part in parts if part.get_content_type() == "text/calendar"]
    return [part for part in parts if part not in left_out and (part not in others or not words)]


def _is_body(part: Message) -> bool:
    is_text = part.get_content_type() in ("text/plain", "text/html")
    is_text = is_text or part.get_content_maintype() == "multipart"  # its parts are not told apart
    return is_text and part.get_content_disposition() != "attachment" and not _name(part)


def _body(part: Message, limit: int) -> str:
    if part.get_content_type() != "text/html":
        return _text(part)
    html = _text(part) if part.get_content_charset() else decoded_page(_payload(part))[0]
    if len(html) < _LARGE_PAGE:
        return html_markdown(words_only(html), limit)
    found = apart(lambda: Parsed(((0, html_markdown(words_only(html), limit)),), ""))
    return found.pages[0][1] if found.pages else html_text(html.encode())


def _payload(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return str(part).encode("utf-8", "replace")
    coding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if coding != "base64" or str(part.get_payload()).encode("utf-8", "surrogateescape") != data:
        return data
    packed = _PACKED.match(data)
    if packed is None:
        return data
    # `email` gives up where something stands behind it, as the footer of a list
    bare = b"".join(packed[0].split())
    return base64.b64decode(bare[: len(bare) // 4 * 4]) + b"\n" + data[packed.end() :]


def _text(part: Message) -> str:
    data = _payload(part)
    with contextlib.suppress(LookupError, UnicodeError):
        return data.decode(_codec(str(part.get_content_charset() or "utf-8")))
    return decode(data)[0] or data.decode("cp1252", "replace")


def _raw(message: Message, name: str) -> str:
    """Return a header on one line as it was sent, bytes that no header may hold decoded."""
    value = next((v for n, v in message.raw_items() if n.lower() == name.lower()), "")
    data = str(value).encode("utf-8", "surrogateescape")[:_LONGEST_HEADER]
    with contextlib.suppress(UnicodeError):
        return " ".join(data.decode().split())
    return " ".join(data.decode("cp1252", "replace").split())


def _people(text: str) -> list[tuple[str, str]]:
    """Return the names and addresses in a header; what is nested without end has neither."""
    try:
        return getaddresses([text])
    except RecursionError:
        return [("", text)]


def _decoded(text: str) -> str:
    """Return text of a header without the encoding of RFC 2047; what is broken stays."""
    try:
        parts = [
            part.decode(_codec(charset or "raw-unicode-escape"))
            if isinstance(part, bytes)
            else part
            for part, charset in decode_header(text)
        ]
        return " ".join("".join(parts).split())
    except (MessageError, LookupError, UnicodeError, ValueError):
        return text


def _codec(charset: str) -> str:
    name = codecs.lookup(charset).name
    return READ_AS.get(name, name)


def _name(part: Message) -> str:
    try:
        return " ".join(_decoded(part.get_filename() or "").split()).rpartition("/")[2]
    except (LookupError, UnicodeError, ValueError):
        return "a name that cannot be read"


def _date(text: str) -> str:
    try:
        return f"{parsedate_to_datetime(text):%Y-%m-%d %H:%M %z}".strip()
    except (TypeError, ValueError, OverflowError, IndexError):
        return text
