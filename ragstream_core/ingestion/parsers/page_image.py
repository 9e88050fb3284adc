"""`page_png`: a page of a PDF as a picture, drawn in a child process with limits.

The child is ``python -m … NUMBER MEMORY CPU PAGES BYTES``; whatever goes wrong is its exit code.
"""

from __future__ import annotations

import functools
import io
import sys

from ragstream_core.ingestion.parsers.engines import Limits, missing
from ragstream_core.ingestion.parsers.isolated import ask_child
from ragstream_core.platform.sandbox import answer_stdin, limit_process

CHILD = "ragstream_core.ingestion.parsers.page_image"
PNG = b"\x89PNG\r\n\x1a\n"
PICTURE_LIMITS = Limits(wall_s=30, text_bytes=4_000_000)

# Pixels that a page is drawn into: A4 at 150 dpi; no page is drawn larger.
WIDTH, HEIGHT = 1240, 1754
NO_SUCH_PAGE = 4


def page_png(data: bytes, number: int, limits: Limits = PICTURE_LIMITS) -> tuple[bytes, str]:
    """Return a page as a PNG, or why there is none; never raises for what the file holds."""
    lacking = missing("pdf")
    if lacking:
        return b"", lacking
    picture, problem = ask_child(["-m", CHILD, str(number)], data, limits)
    if not problem and not picture.startswith(PNG):
        problem = "its parser gave no picture"
    return (b"", problem) if problem else (picture, "")


def draw(data: bytes, number: int) -> bytes:
    """Return a page as a PNG; for the child."""
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
    number, memory, cpu, _, size = map(int, argv)
    limit_process(memory_bytes=memory, cpu_s=cpu, output_bytes=size * 6 + 1_000_000)
    answer_stdin(functools.partial(draw, number=number))


if __name__ == "__main__":
    main(sys.argv[1:])
