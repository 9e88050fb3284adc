"""The table of formats: each type of a file that becomes Markdown has a reader, and the reverse."""

import subprocess
import sys

from ragstream_core.ingestion.file_types import OFFICE, SLACK
from ragstream_core.ingestion.parsers import engines, office
from ragstream_core.ingestion.parsers.slack import framed
from tests.unit.ingestion.test_books import book
from tests.unit.ingestion.test_documents import chunks_of
from tests.unit.ingestion.test_mail import INLINE, mail
from tests.unit.ingestion.test_open_document import cell, open_document, row

ENGINES = ("bs4", "lxml", "markdownify", "markitdown", "mammoth", "openpyxl")
ALONE = """
import sys
sys.modules.update(dict.fromkeys({engines}))
from ragstream_core.ingestion.parsers.child import answer, leave_out, load
from ragstream_core.ingestion.parsers.engines import Limits
leave_out()
load("office")
for kind, data in {files}.items():
    found = answer("office", data, file_type=kind, limits=Limits())
    assert found.pages and "zebra" in found.pages[0][1], (kind, found)
"""
FILES = {
    "ipynb": b'{"cells":[{"cell_type":"code","source":"zebra","outputs":'
    b'[{"data":{"text/html":"<table><tr><td>a</table>","text/plain":"a"}}]}]}',
    "jsonl": b'{"a":"zebra"}',
    "ndjson": b'{"a":"zebra"}',
    "csv": b"part,name\n1,zebra\n",
    "tsv": b"part\tname\n1\tzebra\n",
    "srt": b"1\n00:00:01,000 --> 00:00:02,000\nzebra\n",
    "vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\nzebra\n",
    "ics": b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:zebra\nEND:VEVENT\nEND:VCALENDAR\n",
    "vcf": b"BEGIN:VCARD\nFN:zebra\nEND:VCARD\n",
    "rtf": rb"{\rtf1 zebra\par\trowd\intbl a\cell\row}",
}


def test_every_type_has_a_reader_and_every_reader_a_type():
    assert set(office._READERS) == {*OFFICE, SLACK}
    assert all(callable(office._imported(reader)) for reader in office._READERS.values())


def test_what_needs_nothing_is_read_without_any_engine():
    rows = b'[{"type":"message","ts":"1714564800.1","user":"U1","text":"zebra"}]'
    day = framed(rows, channel="general", day="2024-05-01", names={})
    assert {*FILES, SLACK, "parquet"} == engines._NEEDS_NOTHING
    code = ALONE.format(engines=ENGINES, files={**FILES, SLACK: day})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_ingest_reads_them_all_and_each_chunk_knows_where_it_stands(bench):
    sheet = f"<table:table>{row(cell('part'), cell('zebra'))}</table:table>"
    box = b"From bob@x.org Wed Mar  4 10:12:00 2026\n" + mail(INLINE.replace("12 bar", "zebra"))
    given = {
        **FILES,
        "epub": book({"a": "<h1>Of Valves</h1><p>zebra</p>"}),
        "odt": open_document(
            '<text:h text:outline-level="1">Limits</text:h><text:p>zebra</text:p>'
        ),
        "ods": open_document(sheet, "spreadsheet"),
        "eml": mail("zebra"),
        "mbox": box,
    }
    for kind, data in given.items():
        bench.write(f"file.{kind}", data)
    stats = bench.run()
    assert stats.files["new"] == len(given), stats.skipped_reasons
    chunks = [chunk for chunk in chunks_of(bench) if "zebra" in chunk.snippet]
    headings = {chunk.source: chunk.meta["heading"] for chunk in chunks}
    assert set(headings) == {f"file.{kind}" for kind in given}
    assert headings["file.epub"] == "The Pump Book"
    assert headings["file.odt"] == "Limits"
    assert headings["file.eml"].startswith("Bob Lee, 2026-03-04")
