"""PDF and Office files: pages, tables, slides, and what happens without their engines."""

import io
import zipfile

import pytest

from ragstream_core.ingestion import ingestion_manager
from ragstream_core.ingestion.loader import Reading, read_content
from ragstream_core.ingestion.parsers import engines, pdf
from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.isolated import kept_engines, parse
from ragstream_core.ingestion.survey import Surveyor
from ragstream_core.text.bm25 import Bm25
from ragstream_core.text.terms import terms

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def pdf_of(*pages):
    """Make a PDF: a page is a text, or rows of a table with a frame."""
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table, TableStyle

    style, story = getSampleStyleSheet()["Normal"], []
    for page in pages:
        if isinstance(page, str):
            story.append(Paragraph(page, style))
        else:
            grid = TableStyle([("GRID", (0, 0), (-1, -1), 1, "black")])
            story += [Paragraph("A table.", style), Table(page, style=grid)]
        story.append(PageBreak())
    out = io.BytesIO()
    SimpleDocTemplate(out).build(story)
    return out.getvalue()


def with_running_lines(count):
    """Make a PDF whose pages have a header, a body of one line, and a footer with their number."""
    from reportlab.pdfgen import canvas

    out = io.BytesIO()
    made = canvas.Canvas(out)
    for number in range(1, count + 1):
        made.drawString(72, 800, "ACME valve manual")
        made.drawString(72, 600, f"Body of page {number} with a valve.")
        made.drawString(72, 40, f"Page {number} of {count}")
        made.showPage()
    made.save()
    return out.getvalue()


def docx_of(*paragraphs):
    """Make the smallest Word file."""
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/'
        'content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-'
        'package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="'
        'application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
        "</Types>",
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
        'relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/'
        'officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>'
        "</Relationships>",
        "word/document.xml": f'<w:document xmlns:w="{WORD[1:-1]}"><w:body>{body}</w:body>'
        "</w:document>",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, text)
    return out.getvalue()


def xlsx_of(rows):
    import openpyxl

    book, out = openpyxl.Workbook(), io.BytesIO()
    book.active.title = "Prices"
    for row in rows:
        book.active.append(row)
    book.save(out)
    return out.getvalue()


def pptx_of(*titles):
    from pptx import Presentation

    deck, out = Presentation(), io.BytesIO()
    for title in titles:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"what {title} says"
    deck.save(out)
    return out.getvalue()


def chunks_of(bench):
    view = bench.fresh_view()
    return view.chunks(view.chunk_ids)


@pytest.fixture(autouse=True, scope="module")
def engines_kept():
    with kept_engines():
        yield


@pytest.fixture
def without_engines(monkeypatch):
    monkeypatch.setattr(engines, "_installed", dict)


class TestPdf:
    def test_a_chunk_of_page_three_says_so(self, bench):
        bench.write("a.pdf", pdf_of("The first page.", "The second.", "Anvils are on the third."))
        stats = bench.run()
        assert stats.files["new"] == 1
        pages = {c.meta["page_number"]: c.snippet for c in chunks_of(bench)}
        assert set(pages) == {1, 2, 3}
        assert "Anvils" in pages[3]

    def test_chunks_never_cross_pages_and_spans_are_of_the_joined_text(self, bench):
        bench.write("a.pdf", pdf_of(*(f"Page {n} says word{n}. " * 60 for n in range(4))))
        bench.run()
        content = read_content(
            (bench.docs / "a.pdf").read_bytes(), file_type="pdf", reading=Reading()
        )
        places = {page.number: page for page in content.pages}
        indices = []
        for chunk in chunks_of(bench):
            page = places[chunk.meta["page_number"]]
            assert page.start <= chunk.span[0] < chunk.span[1] <= page.end
            assert content.text[slice(*chunk.span)] == chunk.snippet
            indices.append(chunk.meta["chunk_index"])
        assert sorted(indices) == list(range(len(indices)))
        assert len(indices) > 4

    def test_rows_of_a_table_are_found(self, bench):
        rows = [["item", "price"], ["anvil", "42.50"], ["zwieback", "7.25"]]
        bench.write("prices.pdf", pdf_of("Nothing here.", rows))
        bench.write("other.md", "A text about other things.")
        bench.run()
        hits = [c for c in chunks_of(bench) if "| zwieback | 7.25 |" in c.snippet]
        assert [c.meta["page_number"] for c in hits] == [2]
        view = bench.view()
        scores = Bm25([view.lexical]).scores(terms("zwieback price"))
        assert view.chunk_ids[int(scores.argmax())] == hits[0].id

    def test_tables_of_a_long_one_are_read_page_by_page(self):
        rows = [["item", "price"], ["zwieback", "7.25"]]
        many = pdf_of(*(f"page {n} of many" for n in range(160)), rows)
        parsed = parse(many, file_type="pdf", limits=Limits())
        assert parsed.note == "161 pages, 1 tables"
        assert parsed.pages[159] == (160, "page 159 of many")
        assert parsed.pages[160][0] == 161 and "| zwieback | 7.25 |" in parsed.pages[160][1]

    def test_what_was_read_before_the_time_was_over_is_kept(self, monkeypatch):
        rows = [["item", "price"], ["zwieback", "7.25"]]
        data = pdf_of(rows, "words", rows)
        late = iter([False, False, True])
        monkeypatch.setattr(pdf._Reader, "_late", lambda *_: next(late, True))
        pages, note = pdf.read_pdf(data, "pdf", Limits())
        assert [number for number, _ in pages] == [1, 2]
        assert note.startswith("3 pages, 1 tables; only 2 pages read: they took most of its time")

    def test_running_lines_leave_the_text_and_the_note_names_them(self, bench):
        bench.write("a.pdf", with_running_lines(5))
        bench.run()
        found = {c.meta["page_number"]: c.snippet for c in chunks_of(bench)}
        assert set(found) == {1, 2, 3, 4, 5}
        assert found[4] == "Body of page 4 with a valve."
        parsed = parse(with_running_lines(5), file_type="pdf", limits=Limits())
        assert parsed.note == "5 pages; running lines left out: Page 1 of 5 | ACME valve manual"
        assert "ACME" in parse(with_running_lines(2), file_type="pdf", limits=Limits()).pages[1][1]

    def test_more_pages_than_allowed_are_refused(self):
        parsed = parse(pdf_of("a", "b", "c"), file_type="pdf", limits=Limits(pages=2))
        assert parsed == (None, "3 pages, more than the limit of 2; split it into smaller files")

    def test_pages_without_text_are_named_and_numbers_stay(self, bench):
        import io as streams

        from reportlab.pdfgen import canvas

        out = streams.BytesIO()
        made = canvas.Canvas(out)
        made.rect(10, 10, 50, 50)
        made.showPage()
        made.drawString(72, 700, "words")
        made.save()
        parsed = parse(out.getvalue(), file_type="pdf", limits=Limits())
        assert [number for number, _ in parsed.pages] == [2]
        assert parsed.note == "2 pages; page 1 of 2 has no text"
        bench.write("a.pdf", out.getvalue())
        stats = bench.run()
        assert stats.warnings == ("a.pdf: page 1 of 2 has no text, so nothing on it is found",)
        (chunk,) = chunks_of(bench)
        assert chunk.meta["without_text"] == "page 1 of 2 has no text"
        assert bench.run().warnings == ()

    def test_over_the_size_limit_is_refused_unread(self, bench):
        bench.write("a.pdf", b"%PDF" + b"x" * 100)
        bench.write("a.md", "x" * 100)
        stats = bench.run(max_parsed_bytes=50)
        told = "104 bytes, more than the limit of 50; raise discovery.max_pdf_bytes"
        assert dict(stats.skipped_reasons) == {"a.pdf": told}


class TestOffice:
    def test_word_excel_powerpoint_and_html_become_chunks(self, bench):
        bench.write("a.docx", docx_of("Anvils in Word.", "A second paragraph."))
        bench.write("b.xlsx", xlsx_of([["item", "price"], ["anvil", 42.5]]))
        bench.write("c.pptx", pptx_of("Opening", "Closing"))
        bench.write("d.html", b"<h1>Head</h1><script>alert(1)</script><p>Some words.</p>")
        stats = bench.run()
        assert stats.files["new"] == 4, stats.skipped_reasons
        texts = {}
        for chunk in chunks_of(bench):
            key = (chunk.source, chunk.meta["page_number"])
            texts[key] = texts.get(key, "") + chunk.snippet
            assert chunk.meta["file_type"] == chunk.source.rpartition(".")[2]
        assert "Anvils in Word." in texts["a.docx", 0]
        assert "42.5" in texts["b.xlsx", 0]
        assert "what Closing says" in texts["c.pptx", 2]
        assert "Opening" not in texts["c.pptx", 2]
        assert "Some words." in texts["d.html", 0]
        assert "alert" not in texts["d.html", 0]

    def test_headings_of_a_converted_file_are_headings(self, bench):
        bench.write("d.html", b"<h1>Title</h1><h2>Part</h2><p>Some words about it.</p>")
        bench.run()
        assert any("Title" in c.meta["heading"] for c in chunks_of(bench))

    @pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx"])
    def test_broken_ones_are_refused_and_never_read_as_something_else(self, kind):
        cut = docx_of("text " * 100)[:300]
        for data in (b"", b"plain text", cut):
            parsed = parse(data, file_type=kind, limits=Limits())
            assert parsed.pages is None
            assert "not a readable Office file" in parsed.note
        other = io.BytesIO()
        with zipfile.ZipFile(other, "w") as package:
            package.writestr("readme.txt", "inner words")
        assert parse(other.getvalue(), file_type=kind, limits=Limits()).pages is None

    def test_a_packed_bomb_is_refused_before_it_is_unpacked(self):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr("word/document.xml", b" " * 30_000_000)
        parsed = parse(out.getvalue(), file_type="docx", limits=Limits(text_bytes=1_000_000))
        assert parsed.pages is None
        assert "unpacks to 30000000 bytes" in parsed.note


class TestEngines:
    def test_without_the_extra_the_file_is_skipped_by_its_name_and_others_go_on(
        self, bench, without_engines
    ):
        bench.write("a.pdf", b"%PDF-1.7")
        bench.write("b.docx", b"PK")
        bench.write("c.md", "text")
        stats = bench.run()
        reasons = dict(stats.skipped_reasons)
        assert "needs the extra 'pdf'" in reasons["a.pdf"]
        assert "ragstream[convert]" in reasons["b.docx"]
        assert stats.documents == 1

    def test_installing_the_extra_makes_the_file_due_and_only_it_is_chunked(
        self, bench, monkeypatch
    ):
        real = engines._installed
        monkeypatch.setattr(engines, "_installed", dict)
        bench.write("a.pdf", pdf_of("words of the file"))
        bench.write("b.md", "text")
        bench.run()
        monkeypatch.setattr(engines, "_installed", real)
        assert bench.pending().reason == "settings changed"
        bench.embedder.seen.clear()
        stats = bench.run()
        assert stats.changed["updated"] == ("a.pdf",)
        assert bench.embedder.seen == ["words of the file"]
        assert bench.pending().changes is not None

    def test_another_version_reads_its_own_files_again_and_no_other(self, bench, monkeypatch):
        bench.write("a.pdf", pdf_of("words of the file"))
        bench.write("b.md", "text")
        bench.write("c.py", "def f():\n    return 1\n")
        bench.run()
        real = engines._installed()
        monkeypatch.setattr(engines, "_installed", lambda: real | {"pypdfium2": "99.0"})
        assert bench.pending().reason == "settings changed"
        taken = []
        read = Surveyor.survey

        def watched(self, found):
            take = self.take
            object.__setattr__(self, "take", lambda d, s: (taken.append(d.entry.path), take(d, s)))
            return read(self, found)

        monkeypatch.setattr(Surveyor, "survey", watched)
        bench.run()
        assert taken == ["a.pdf"]
        taken.clear()
        bench.run()
        assert taken == []
        assert bench.health() == []

    def test_a_touched_pdf_is_not_parsed_again(self, bench, monkeypatch):
        bench.write("a.pdf", pdf_of("words"), mtime=1000)
        bench.run()
        monkeypatch.setattr(
            "ragstream_core.ingestion.loader.parse", lambda *_, **__: pytest.fail("was parsed")
        )
        bench.write("a.pdf", (bench.docs / "a.pdf").read_bytes(), mtime=2000)
        stats = bench.run()
        assert (stats.files["touched"], stats.committed) == (1, False)
        assert bench.run(verify=True).committed is False

    def test_people_read_reasons_without_the_tag(self, bench):
        bench.write("a.pdf", b"junk")
        stats = bench.run()
        assert stats.skipped_reasons == (("a.pdf", "not a readable PDF"),)
        assert engines.untagged("words [not a tag]") == "words [not a tag]"

    def test_text_has_no_tag_and_code_has_that_of_its_grammar(self):
        assert engines.tag("md") == ""
        assert engines.tagged("utf-8", "md") == "utf-8"
        assert engines.is_current("utf-8", "md")
        note = engines.tagged("utf-8; odd [brackets]", "py")
        assert engines.is_current(note, "py")
        assert not engines.is_current(note.replace("code-2", "code-1"), "py")
        assert not engines.is_current("utf-8", "py")

    def test_the_manager_passes_every_reading_setting_on(self):
        config = ingestion_manager.IngestionConfig(
            max_text_bytes=1, max_parsed_bytes=2, fallback_encoding="latin-1", secrets="skip"
        )
        found = ingestion_manager.reading_of(config)
        assert (found.max_bytes("md"), found.max_bytes("pdf")) == (1, 2)
        assert (found.fallback_encoding, found.secrets) == ("latin-1", "skip")
