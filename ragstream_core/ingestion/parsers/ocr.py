"""The process that reads pictures by OCR: pages of a PDF that have no text, or a picture.

``python -m … TYPE AFTER MEMORY CPU PAGES TEXT`` reads standard input and answers with a line of
JSON for each page, as soon as it is read: whatever ends it, what was read before is there. The
first line says how many pages there are, and which are read; those up to ``AFTER`` are not.

The models come with the package. They are named by their path, so that none is ever fetched.
"""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragstream_core.ingestion.parsers.child import tidy
from ragstream_core.ingestion.parsers.engines import SPLIT, Limits, Refusal
from ragstream_core.ingestion.parsers.pdf_layout import Piece, clusters, page_text
from ragstream_core.ingestion.parsers.pdf_words import join_broken_words
from ragstream_core.platform.sandbox import answer_in_parts, limit_process

# Larger pictures are refused before they are unpacked.
MAX_PIXELS = 100_000_000

# CPU seconds of one page, after which the process ends.
PAGE_CPU_S = 60

_SIDE, _LOOKED_AT = 2_000, 960  # pixels of the longer side: to read lines, and to find them
_LEAST = 0.6  # a line that the model is less sure of is none
_LARGEST = 0.1  # of the longer side of a page: a letter that stands alone is no higher
_SURE = 0.85  # a page that it is less sure of may be upside down
_ESCAPED = 6

# A picture of Pillow.
Picture = Any


class Pages(NamedTuple):
    """What is to be read.

    Attributes:
        total: How many pages the file has.
        numbers: Those that are read, from 1; 0 where the file has no pages.
        picture: Gives one of them.
    """

    total: int
    numbers: Sequence[int]
    picture: Callable[[int], Picture]


def _of_pdf(data: bytes, limits: Limits) -> Pages:
    import pypdfium2

    from ragstream_core.ingestion.parsers.pdf import bare_pages

    numbers, count = bare_pages(data, limits)
    document = pypdfium2.PdfDocument(data)

    def picture(number: int) -> Picture:
        page = document[number - 1]
        found = page.render(scale=_SIDE / max(1.0, *page.get_size())).to_pil().convert("RGB")
        page.close()
        return found

    return Pages(count, numbers, picture)


def _of_picture(data: bytes, limits: Limits) -> Pages:
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # its own limit only warns below twice as much
    try:
        file = Image.open(io.BytesIO(data), formats=["PNG", "JPEG", "TIFF", "WEBP", "BMP"])
        count = getattr(file, "n_frames", 1) if file.format == "TIFF" else 1
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        raise Refusal("not a readable picture") from None
    if count > limits.pages:
        raise Refusal(f"{count} pages, more than the limit of {limits.pages}; {SPLIT}")

    def picture(number: int) -> Picture:
        file.seek(max(0, number - 1))
        wide, high = file.size
        if wide * high > MAX_PIXELS:
            raise Refusal(
                f"{wide} × {high} points, more than the limit of {MAX_PIXELS}; scale it down"
            )
        file.draft("RGB", (_SIDE, _SIDE))
        file.thumbnail((_SIDE, _SIDE))
        plain = ImageOps.exif_transpose(file).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", plain.size, "white"), plain).convert("RGB")

    return Pages(count, range(1, count + 1) if count > 1 else [0], picture)


def _engine() -> Callable[[Picture], str]:
    """Return what reads a picture.

    The package's model that finds lines upside down took some lines of upright pages for such; here
    a whole page is turned if it is hard to read, and stays turned if that is better.
    """
    import cv2
    import numpy as np
    import rapidocr

    cv2.setNumThreads(1)
    models = Path(rapidocr.__file__).parent / "models"
    paths = {part: next(models.glob(f"*_{part.lower()}_*.onnx")) for part in ("Det", "Rec")}
    engine = rapidocr.RapidOCR(
        params={
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Global.log_level": "critical",
            "Global.max_side_len": _SIDE,
            "Global.text_score": 0.0,
            "Det.limit_type": "max",  # at full size, short lines of an empty page are not found
            "Det.limit_side_len": _LOOKED_AT,
            "Global.use_cls": False,
            **{f"{part}.model_path": str(path) for part, path in paths.items()},
        }
    )

    def lines_of(picture: Picture, angle: int) -> list[OcrLine]:
        turned = picture.rotate(angle, expand=True) if angle else picture
        found = engine(np.ascontiguousarray(np.asarray(turned)[:, :, ::-1]))
        if found.txts is None:
            return []
        return list(map(OcrLine, found.boxes.tolist(), found.txts, map(float, found.scores)))

    def read(picture: Picture) -> str:
        best = lines_of(picture, 0)
        for angle in _turns(best):
            other = lines_of(picture, angle)
            best = other if _sureness(other) > _sureness(best) else best
        largest = max(picture.size) * _LARGEST
        return laid_out([line for line in best if line.is_print(largest)])

    return read


class OcrLine(NamedTuple):
    """A line of print.

    Attributes:
        corners: From the upper left one, clockwise, in pixels with y growing downwards.
        text: What it says.
        score: How sure the model is, 0 to 1.
    """

    corners: Sequence[Sequence[float]]
    text: str
    score: float

    def is_print(self, largest: float) -> bool:
        """Say whether it may be taken for print: a black box is no single large letter."""
        ys = [y for _, y in self.corners]
        alone = len(self.text.strip()) < 3 and max(ys) - min(ys) > largest
        return self.score >= _LEAST and not alone

    @property
    def is_upright(self) -> bool:
        """Whether it runs up or down."""
        (x, y), _, (u, v), _ = self.corners
        return abs(v - y) > 1.5 * abs(u - x) and len(self.text) > 2


def _turns(lines: Sequence[OcrLine]) -> tuple[int, ...]:
    """Return the degrees by which a page should be turned, to see whether it reads better."""
    if not lines:
        return ()
    if sum(line.is_upright for line in lines) * 2 > len(lines):
        return (90, 270)
    return (180,) if _sureness(lines) < _SURE else ()


def _sureness(lines: Sequence[OcrLine]) -> float:
    """Return how sure the model is of a letter; lines that run up or down count less."""
    letters = sum(len(line.text) for line in lines)
    sure = sum(len(line.text) * line.score * (0.5 if line.is_upright else 1) for line in lines)
    return sure / letters if letters else 0.0


def laid_out(lines: Sequence[OcrLine]) -> str:
    """Return lines of print in the order in which people read them."""
    boxes = []
    for line in lines:
        ys = [-y for _, y in line.corners]
        left, right = min(x for x, _ in line.corners), max(x for x, _ in line.corners)
        place = (left, (ys[2] + ys[3]) / 2, right, (ys[0] + ys[1]) / 2)
        boxes.append(Piece(0, 0, "", " ".join(line.text.split()), *place))
    pieces = list[Piece]()
    for number, row in enumerate(clusters(one for one in boxes if one.text)):
        for piece in sorted(row, key=lambda one: one.left):
            glue = " " if pieces and pieces[-1].line == number else "\n"
            pieces.append(piece._replace(at=len(pieces), line=number, glue=glue))
    return join_broken_words([page_text(pieces)])[0]


def pages_of(data: bytes, file_type: str, after: int, limits: Limits) -> Iterator[dict[str, Any]]:
    """Yield what is to be read, and then each page: its number, and its text or its problem."""
    try:
        found = _of_pdf(data, limits) if file_type == "pdf" else _of_picture(data, limits)
        numbers = [number for number in found.numbers if number > after]
        yield {"count": found.total, "pages": numbers}
    except Refusal as refusal:
        yield {"refused": str(refusal)}
        return
    left, read = limits.text_bytes, _engine()
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, PAGE_CPU_S)
        try:
            text = tidy(read(found.picture(number)))
        except Refusal as refusal:
            yield {"page": number, "problem": str(refusal)}
            continue
        except MemoryError:
            yield {"page": number, "problem": "needs more memory than it may have"}
            continue
        except Exception as error:  # engines raise anything; one page must not stop the others
            yield {"page": number, "problem": f"cannot be read: {type(error).__name__}"}
            continue
        left -= len(text.encode())
        if left < 0:
            yield {"page": number, "problem": f"more than {limits.text_bytes} bytes of text"}
            return
        yield {"page": number, "text": text}


def main(argv: list[str]) -> None:
    """Run as the child: see the module."""
    file_type = argv[0]
    after, memory, cpu, pages, text = map(int, argv[1:])
    limits = Limits(memory, cpu, pages=pages, text_bytes=text)
    limit_process(memory_bytes=memory, cpu_s=cpu, output_bytes=text * _ESCAPED + 1_000_000)

    def work(data: bytes) -> Iterator[bytes]:
        for told in pages_of(data, file_type, after, limits):
            yield json.dumps(told, ensure_ascii=False).encode() + b"\n"

    answer_in_parts(work)


if __name__ == "__main__":
    main(sys.argv[1:])
