"""`page_png`: a page of a PDF as a picture, drawn in a child process with limits."""

from __future__ import annotations

from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.sandbox import ask_child, missing

CHILD = "ragstream_core.ingestion.parsers.page_child"
PNG = b"\x89PNG\r\n\x1a\n"
PICTURE_LIMITS = Limits(wall_s=30, text_bytes=4_000_000)


def page_png(data: bytes, number: int, limits: Limits = PICTURE_LIMITS) -> tuple[bytes, str]:
    """Return a page as a PNG, or why there is none; never raises for what the file holds.

    Args:
        data: A PDF.
        number: The page, from 1.
        limits: What drawing it may cost.

    Returns:
        The picture, empty where there is none; the reason, empty where there is one.

    Raises:
        OSError: No child process or temporary file can be made.
    """
    lacking = missing("pdf")
    if lacking:
        return b"", lacking
    picture, problem = ask_child([CHILD, str(number)], data, limits)
    if not problem and not picture.startswith(PNG):
        problem = "its parser gave no picture"
    return (b"", problem) if problem else (picture, "")
