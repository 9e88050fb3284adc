"""Pages without a text layer, and pictures: read by OCR, marked as such, and bounded."""

import io
import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.answers.citations import Citation, issued_by
from ragstream_core.index.look import origin
from ragstream_core.index.rows import pages_without_text, read_by_ocr, reading_remark
from ragstream_core.ingestion import loader
from ragstream_core.ingestion.parsers import engines, scans
from ragstream_core.ingestion.parsers.engines import Limits, Parsed, ocr_phrase
from ragstream_core.ingestion.parsers.isolated import parse
from ragstream_core.ingestion.parsers.ocr import OcrLine, laid_out
from ragstream_core.ingestion.parsers.scans import read_scans
from ragstream_core.ingestion.scan import scan
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.ingestion import status
from tests.unit.ingestion.pdf_files import drawn, paragraph
from tests.workspaces import ask, hashed_workspace, write_docs

LINES = ["The torque of the wheel nut is 12 Nm.", "Grease the thread before it is mounted."]
LIMITS = Limits()
WORDS = [(60, 700, "Cover of the manual of the loader.")]


def picture(*lines, size=(595, 842), angle=0):
    """Return a picture with lines of print."""
    import pypdfium2

    page = pypdfium2.PdfDocument(drawn(paragraph(60, 760, *lines, step=20)))[0]
    return page.render(scale=2).to_pil().convert("RGB").rotate(angle, expand=True)


def bytes_of(image, kind="PNG", **given):
    out = io.BytesIO()
    image.save(out, kind, **given)
    return out.getvalue()


def scanned(*lines):
    """Return what draws a page that is a picture."""
    from reportlab.lib.utils import ImageReader

    image = ImageReader(picture(*lines))
    return lambda made: made.drawImage(image, 0, 0, 595, 842)


@pytest.fixture
def without_ocr(monkeypatch):
    real = engines._installed()
    left = {name: version for name, version in real.items() if name != "rapidocr"}
    monkeypatch.setattr(engines, "_installed", lambda: left)
    return lambda: monkeypatch.setattr(engines, "_installed", lambda: real)


class TestRead:
    def test_a_scanned_page_is_found_cited_and_marked_everywhere(self, tmp_path):
        write_docs(tmp_path)
        (tmp_path / "doc_raw/demo/manual.pdf").write_bytes(drawn(WORDS, scanned(*LINES), WORDS))
        space = hashed_workspace(tmp_path)
        told = "page 2 of 3 was read by OCR"
        assert f"manual.pdf: {told}" in ingest_project(space, "demo").warnings
        assert ("manual.pdf", told) in status(space, "demo").to_json()["assumed"]
        manifest = (tmp_path / "index/demo/file_manifest.json").read_text()
        assert told in manifest
        shown = ask(space, "What is the torque of the wheel nut?")
        marked = [c for c in shown.base_context_chunks if "read_by" in c.meta]
        assert [(c.source, c.meta["page_number"]) for c in marked] == [("manual.pdf", 2)]
        assert "12 Nm" in marked[0].snippet
        home, generation = space.index_dir("demo"), marked[0].meta["generation"]
        read_by = {c.id: origin(home, c.id, generation).read_by for c in shown.base_context_chunks}
        assert {name for name, by in read_by.items() if by} == {marked[0].id}
        issued = issued_by(shown)
        assert {one.read_by for one in issued.values() if one.locator == marked[0].id} == {"OCR"}
        warning = "manual.pdf was read by OCR: compare figures with the page"
        assert warning in [one.message for one in shown.extras.warnings]

    def test_pictures_are_read_also_upside_down_and_over_several_pages(self):
        first, second = picture(*LINES), picture("Second page of it.", angle=180)
        parsed = parse(bytes_of(first, "JPEG"), file_type="jpg", limits=LIMITS)
        assert parsed == (((0, "\n".join(LINES)),), "read by OCR")
        many = bytes_of(first, "TIFF", save_all=True, append_images=[second])
        parsed = parse(many, file_type="tif", limits=LIMITS)
        assert parsed.note == "2 pages; pages 1-2 of 2 were read by OCR"
        assert parsed.pages == ((1, "\n".join(LINES)), (2, "Second page of it."))

    def test_what_has_no_text_is_refused_with_the_reason(self):
        from PIL import Image

        blank = bytes_of(picture())
        white, box = Image.new("RGB", (1190, 1684), "white"), Image.new("RGB", (1000, 500), "black")
        white.paste(box, (100, 400))
        black = bytes_of(white)
        for data, reason in [
            (b"no picture", "not a readable picture"),
            (blank[:200], "cannot be read: "),
            (blank, "a picture in which OCR found no text"),
            (black, "a picture in which OCR found no text"),
        ]:
            parsed = parse(data, file_type="png", limits=LIMITS)
            assert parsed.pages is None and parsed.note.startswith(reason)

    @pytest.mark.parametrize("kind", ["PNG", "TIFF"])
    def test_a_huge_picture_is_refused_before_it_is_unpacked(self, kind):
        from PIL import Image

        packed = {"compression": "tiff_deflate"} if kind == "TIFF" else {}
        bomb = bytes_of(Image.new("1", (30_000, 30_000)), kind, **packed)
        parsed = parse(bomb, file_type=kind.lower(), limits=LIMITS)
        assert parsed == (
            None,
            "30000 × 30000 points, more than the limit of 100000000; scale it down",
        )

    def test_many_pictures_end_with_their_time_and_what_was_read_stays(self):
        page = scanned(*LINES)
        data = drawn(WORDS, *[page] * 300)
        limits = Limits(memory_bytes=1_500_000_000, cpu_s=8, wall_s=120)
        parsed = read_scans(data, "pdf", Parsed(((1, "Cover."),), "301 pages"), limits)
        assert parsed.note.endswith("OCR took all of its 8 s of CPU")
        read = [number for number, _ in parsed.pages]
        assert read[0] == 1 and read == list(range(1, len(read) + 1)) and 1 < len(read) < 300
        assert f"pages {len(read) + 1}-301 of 301 have no text" in parsed.note


class TestWithoutTheExtra:
    def test_scans_name_the_command_and_pictures_are_left_out(self, bench, without_ocr):
        bench.write("scan.pdf", drawn(scanned(*LINES)))
        bench.write("part.pdf", drawn(WORDS, scanned(*LINES)))
        bench.write("photo.jpg", bytes_of(picture(*LINES), "JPEG"))
        bench.write("a.md", "text")
        stats = bench.run()
        reasons = dict(stats.skipped_reasons)
        command = "pip install 'ragstream[ocr]'"
        assert reasons["scan.pdf"] == (
            f"no text layer on any of its 1 pages: OCR needs the extra 'ocr': {command}"
        )
        assert reasons["photo.jpg"] == f"type not supported without the extra 'ocr': {command}"
        assert "part.pdf: page 2 of 2 has no text, so nothing on it is found" in stats.warnings
        assert stats.documents == 2

    def test_installing_it_reads_what_it_concerns_and_removing_it_likewise(
        self, bench, without_ocr, monkeypatch
    ):
        bench.write("part.pdf", drawn(WORDS, scanned(*LINES)))
        bench.write("whole.pdf", drawn(WORDS))
        bench.write("photo.png", bytes_of(picture(*LINES)))
        bench.run()
        before = dict(engines._installed())

        def read_again():
            read = []
            monkeypatch.setattr(
                loader, "parse",
                lambda data, **given: (read.append(given["file_type"]), parse(data, **given))[1],
            )  # fmt: skip
            assert bench.pending().reason == "settings changed"
            bench.run()
            view = bench.view()
            return read, {c.source for c in view.chunks(view.chunk_ids) if "12 Nm" in c.snippet}

        without_ocr()
        assert read_again() == (["pdf", "png"], {"part.pdf", "photo.png"})
        assert not bench.run().committed
        monkeypatch.setattr(engines, "_installed", lambda: before)
        assert read_again() == (["pdf"], set())

    def test_nothing_of_it_is_asked_where_all_pages_have_text(self, monkeypatch):
        monkeypatch.setattr(scans, "run_child", lambda *_, **__: pytest.fail("asked"))
        assert parse(drawn(WORDS), file_type="pdf", limits=LIMITS).note == "1 pages"


def told(*lines):
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


HEAD = {"count": 4, "pages": [2, 3, 4]}


class TestWhatTheChildDoes:
    @pytest.fixture
    def answers(self, monkeypatch):
        asked = []

        def use(*given):
            rest = iter(given)
            monkeypatch.setattr(scans, "_asked", lambda *a: (asked.append(a[2]), next(rest))[1])
            return asked

        return use

    def read(self):
        return read_scans(
            b"", "pdf", Parsed(((1, "One."),), "4 pages; pages 2-4 of 4 have no text")
        )

    def test_a_page_that_ends_it_is_named_and_the_others_are_read(self, answers):
        asked = answers(
            (-signal.SIGSEGV, told(HEAD, {"page": 2, "text": "Two."}) + b'{"page": 3, "te'),
            (0, told({"count": 4, "pages": [4]}, {"page": 4, "text": "Four."})),
        )
        parsed = self.read()
        assert asked == [-1, 3]
        assert parsed.pages == ((1, "One."), (2, "Two."), (4, "Four."))
        assert parsed.note == (
            "4 pages; page 3 of 4 has no text; pages 2, 4 of 4 were read by OCR; "
            "OCR crashed on page 3"
        )
        assert pages_without_text(parsed.note) == "page 3 of 4 has no text"

    @pytest.mark.parametrize(
        ("code", "says"), [(None, "1800 s"), (-signal.SIGXCPU, "600 s of CPU")]
    )
    def test_when_its_time_is_over_nothing_more_is_asked(self, answers, code, says):
        answers((code, told(HEAD, {"page": 2, "text": "Two."})))
        parsed = self.read()
        assert parsed.pages == ((1, "One."), (2, "Two."))
        assert "pages 3-4 of 4 have no text" in parsed.note
        assert parsed.note.endswith(f"OCR took all of its {says}")

    @pytest.mark.parametrize("answer", [b"nonsense\n", b"[1]\n", b'{"page": "x", "text": 1}\n'])
    def test_an_answer_that_is_none_loses_nothing(self, answers, answer):
        answers((0, answer))
        assert self.read().pages == ((1, "One."),)

    def test_it_is_not_started_for_ever(self, answers):
        asked = answers(*[(-signal.SIGSEGV, b"")] * 9)
        assert self.read().pages == ((1, "One."),)
        assert len(asked) <= scans.CHILDREN


def line(x, y, text, wide=200, high=20):
    corners = [[x, y], [x + wide, y], [x + wide, y + high], [x, y + high]]
    return OcrLine(corners, text, 0.99)


class TestLayout:
    def test_columns_are_read_one_after_the_other_and_cells_in_their_row(self):
        left = ["The warranty of the cooling", "unit ends after five years,", "when it is cleaned."]
        right = ["Refunds are paid within ten", "days if the goods come back", "in their box."]
        lines = [
            one
            for n, (a, b) in enumerate(zip(left, right, strict=True))
            for one in (line(60, 100 + 25 * n, a), line(400, 100 + 25 * n, b))
        ]
        assert laid_out(lines) == "\n".join(left + right)
        cells = [line(60, 100, "Pump"), line(400, 103, "12 kN"), line(60, 130, "Cap")]
        assert laid_out(cells[::-1]) == "Pump 12 kN\nCap"

    def test_words_broken_at_the_end_of_a_line_are_whole(self):
        assert laid_out([line(60, 100, "the tempe-"), line(60, 125, "rature")]) == "the temperature"


@given(st.sets(st.integers(1, 400), min_size=1), st.integers(1, 401))
def test_a_page_is_marked_if_and_only_if_ocr_read_it(pages, page):
    note = f"400 pages; {ocr_phrase(sorted(pages), 400)}; running lines left out: read by OCR"
    assert read_by_ocr(note, page) == (page in pages)
    assert reading_remark(note).startswith(ocr_phrase(sorted(pages), 400))


def test_a_picture_is_marked_and_a_citation_says_so():
    assert read_by_ocr("read by OCR [rapidocr-3.10.0 ocr-1]", 0)
    assert not read_by_ocr("3 pages", 1)
    cited = Citation("a", "scan.pdf", page_number=2, read_by="OCR")
    assert cited.where() == "scan.pdf p. 2, read by OCR"
    assert Citation("a", "scan.pdf", page_number=2).where(", page ") == "scan.pdf, page 2"


def test_a_scan_without_the_extra_lists_pictures_as_not_supported(tmp_path, without_ocr):
    (tmp_path / "a.png").write_bytes(b"x")
    assert not scan(tmp_path).files
    without_ocr()
    assert list(scan(tmp_path).files) == ["a.png"]
