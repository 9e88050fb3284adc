"""The child process that draws a page: ``python -m … NUMBER MEMORY CPU PAGES BYTES``.

Reads a PDF from stdin and writes one page as a PNG to stdout; whatever goes wrong is its exit code.
"""

from __future__ import annotations

import io
import os
import sys

from ragstream_core.ingestion.parsers.child import limit
from ragstream_core.ingestion.parsers.engines import Limits

WIDTH, HEIGHT = 1240, 1754
"""Pixels that a page is drawn into: A4 at 150 dpi; no page is drawn larger."""
NO_SUCH_PAGE = 4


def draw(data: bytes, number: int) -> bytes:
    """Return a page as a PNG.

    Args:
        data: A PDF.
        number: The page, from 1.

    Raises:
        SystemExit: It has no such page.
        Exception: Whatever the engine raises on a broken file.
    """
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    if not 1 <= number <= len(document):
        raise SystemExit(NO_SUCH_PAGE)
    page = document[number - 1]
    width, height = page.get_size()
    scale = min(WIDTH / max(width, 1), HEIGHT / max(height, 1))
    picture = page.render(scale=scale).to_pil()
    made = io.BytesIO()
    picture.convert("RGB").save(made, "PNG")
    return made.getvalue()


def main(argv: list[str]) -> None:
    """Run as the child: see the module."""
    number, memory, cpu, pages, size = map(int, argv)
    limit(Limits(memory, cpu, pages=pages, text_bytes=size))
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an engine prints is no part of the answer
    with os.fdopen(0, "rb", closefd=False) as given:
        data = given.read()
    with stream:
        stream.write(draw(data, number))
    os._exit(0)  # engines may hang or crash while they are taken down; the answer is complete


if __name__ == "__main__":
    main(sys.argv[1:])
