"""Mails that Outlook saved (msg), made mails as they were sent and read as such, [MS-OXMSG]."""

from __future__ import annotations

import datetime
import io
import re
from email.encoders import encode_base64
from email.header import Header
from email.message import Message
from email.mime.base import MIMEBase
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime, formataddr
from struct import unpack_from

from olefile import OleFileIO

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.mail import mail_markdown

_SUBJECT, _BODY, _HTML, _SENT, _RECEIVED = "0037", "1000", "1013", 0x0039, 0x0E06
_NAME, _SMTP, _ADDRESS, _TO, _CC = "0C1A", "5D01", "0C1F", "0E04", "0E03"
_DATA, _FILE, _SHORT_FILE, _MIME = "3701", "3707", "3704", "370E"
_TIME, _EMBEDDED = 0x40, "000D"
_EPOCH = datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)


def outlook_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a mail with all that is attached, and what was left out of it."""
    with OleFileIO(io.BytesIO(data)) as package:
        if not package.exists("__properties_version1.0"):
            raise Refusal("not a readable Outlook mail")
        return mail_markdown(_Storage(package, ()).mail().as_bytes(), limit)


class _Storage:
    """A mail, or an attachment, in the package: what its properties say."""

    def __init__(self, package: OleFileIO, path: tuple[str, ...]) -> None:
        self._package, self._path = package, path

    def mail(self) -> Message:
        """Return the mail of this storage."""
        made = MIMEMultipart()
        address = self._text(_SMTP) or self._text(_ADDRESS)
        made["From"] = _person(self._text(_NAME) or address, address)
        for name, field in (("To", _TO), ("Cc", _CC)):
            people = [person for person in self._text(field).split(";") if person.strip()]
            if people:
                made[name] = ", ".join(_person(person) for person in people)
        made["Subject"] = Header(" ".join(self._text(_SUBJECT).split()), "utf-8").encode()
        if sent := self._sent():
            made["Date"] = sent
        body, html = self._text(_BODY), self._bytes(f"{_HTML}0102").decode("utf-8", "replace")
        both = MIMEMultipart("alternative")
        if body or not html:
            both.attach(MIMEText(body, "plain", "utf-8"))
        if html := html or self._text(_HTML):
            both.attach(MIMEText(html, "html", "utf-8"))
        made.attach(both)
        for part in self._attachments():
            made.attach(part)
        return made

    def _attachments(self) -> list[Message]:
        found, depth = dict[str, None](), len(self._path)
        for entry in self._package.listdir(streams=True, storages=True):
            is_below = tuple(entry[:depth]) == self._path and len(entry) > depth
            if is_below and entry[depth].startswith("__attach"):
                found[entry[depth]] = None
        return [_Storage(self._package, (*self._path, name))._attached() for name in found]

    def _attached(self) -> Message:
        inner = (*self._path, f"__substg1.0_{_DATA}{_EMBEDDED}")
        if self._package.exists(list(inner)) and self._package.get_type(list(inner)) == 1:
            return MIMEMessage(_Storage(self._package, inner).mail())
        kind = self._text(_MIME).partition("/")
        part = MIMEBase(kind[0] or "application", kind[2] or "octet-stream")
        part.set_payload(self._bytes(f"{_DATA}0102"))
        encode_base64(part)
        name = self._text(_FILE) or self._text(_SHORT_FILE) or "attachment"
        part.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
        return part

    def _text(self, field: str) -> str:
        wide = self._bytes(f"{field}001F")
        said = wide.decode("utf-16-le", "replace") if wide else ""
        return (said or self._bytes(f"{field}001E").decode("cp1252", "replace")).strip("\0 \r\n")

    def _bytes(self, field: str) -> bytes:
        stream = [*self._path, f"__substg1.0_{field}"]
        if not self._package.exists(stream):
            return b""
        return bytes(self._package.openstream(stream).read())

    def _sent(self) -> str:
        stream = self._package.openstream([*self._path, "__properties_version1.0"]).read()
        times = dict[int, int]()
        for at in range(24 if self._path else 32, len(stream) - 15, 16):
            kind, number, _, ticks = unpack_from("<2HIQ", stream, at)
            if kind == _TIME:
                times[number] = ticks
        ticks = times.get(_SENT) or times.get(_RECEIVED) or 0
        try:
            return format_datetime(_EPOCH + datetime.timedelta(microseconds=ticks // 10))
        except OverflowError:
            return ""


def _person(name: str, address: str = "") -> str:
    is_address = "@" in address and address.isascii() and not re.search(r"[\s<>]", address)
    return formataddr((" ".join(name.split()), address if is_address else ""))
