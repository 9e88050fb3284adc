"""Web pages that a browser saved with all they show in one file (MHTML): the page alone."""

from __future__ import annotations

import contextlib
import email

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.web_page import READ_AS, read_page

_PAGES = ("text/html", "application/xhtml+xml")


def archived_page(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a saved page, and what was left out around its text."""
    parts = email.message_from_bytes(data).walk()
    page = next((part for part in parts if part.get_content_type() in _PAGES), None)
    content = None if page is None else page.get_payload(decode=True)
    if page is None or not isinstance(content, bytes):
        raise Refusal("not a readable web archive (it holds no page)")
    with contextlib.suppress(LookupError, UnicodeError):  # the page itself may say what it is in
        said = str(page.get_content_charset() or "")
        content = content.decode(READ_AS.get(said, said)).encode()
    return read_page(content, limit)
