"""Hostile mails, books, notebooks and other files: contained, named, the good read."""

import base64
import io
import json
import random
import struct
import zipfile
from email.message import EmailMessage

import pytest

from ragstream_core.ingestion.parsers.isolated import kept_engines
from tests.faults.hostile_pdfs import corpus as hostile_pdfs
from tests.unit.ingestion.office_files import packed, parsed
from tests.unit.ingestion.test_books import CONTAINER, book, page
from tests.unit.ingestion.test_mail import mail

HEAD = b"From: a@x.org\nSubject: s\n"
ENVELOPE = b"From a@x.org Wed Mar  4 10:12:00 2026\n"


@pytest.fixture(autouse=True, scope="module")
def engines_kept():
    with kept_engines():
        yield


def with_documents(**documents):
    made = EmailMessage()
    made["From"] = "a@x.org"
    made.set_content("zebra before")
    for name, data in documents.items():
        stem, _, ending = name.rpartition("_")
        made.add_attachment(
            data, maintype="application", subtype="octet-stream", filename=f"{stem}.{ending}"
        )
    made.add_attachment("zebra after", filename="last.txt")
    return made.as_bytes()


def word_bomb():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", b" " * 300_000_000)
    return out.getvalue()


def with_broken(data, ending, at, value):
    """Return a package in which the listing of a file lies."""
    made, place = bytearray(data), data.find(b"PK\1\2")
    while place >= 0:
        length = struct.unpack("<H", data[place + 28 : place + 30])[0]
        if data[place + 46 : place + 46 + length].endswith(ending):
            made[place + at : place + at + 4] = struct.pack("<I", value)
        place = data.find(b"PK\1\2", place + 4)
    return bytes(made)


def entities(root):
    told = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "lol"}">' for n in range(10))
    return f'<!DOCTYPE {root} [{told}<!ENTITY file SYSTEM "file:///etc/passwd">]>'


def bomb_of_entities():
    opf = (
        f'{entities("package")}<package xmlns="http://www.idpf.org/2007/opf"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>&a9;&file;</dc:title></metadata>'
        '<manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    chapter = f"{entities('html')}<html><body><p>zebra &a9; &file; kept</p></body></html>"
    return packed(
        {"META-INF/container.xml": CONTAINER, "OPS/book.opf": opf, "OPS/a.xhtml": chapter}
    )


def notebook(*cells):
    told = {"cell_type": "markdown", "source": "zebra"}
    return json.dumps({"cells": [told, *cells]}).encode()


def output(**forms):
    return {"cell_type": "code", "source": "x", "outputs": [{"data": forms}]}


PACKED = base64.b64encode(random.Random(1).randbytes(100_000)).decode()
READ = {
    "mails nested 200 deep": (
        "eml", b"".join([(HEAD + b"Content-Type: message/rfc822\n\n") * 200, HEAD, b"\nzebra\n"])
    ),
    "a head of megabytes": (
        "eml", HEAD + b"To: " + b"=?utf-8?q?a?= <a@x.org>, " * 90_000 + b"\n\nzebra\n"
    ),
    "brackets without end": ("eml", b"From: " + b"(" * 90_000 + b"\n\nzebra\n"),
    "an encoding that no text has": (
        "eml", HEAD + b'Content-Type: text/plain; charset="idna"\n\nzebra \xff\xfe\n'
    ),
    "a broken transfer coding": (
        "eml",
        HEAD + b"Content-Transfer-Encoding: base64\n\n"
        + base64.b64encode(b"zebra " * 9) + b"\n-- \nlist",
    ),
    "a mail in UTF-16": ("eml", (HEAD + b"\nzebra\n").decode().encode("utf-16")),
    "tables in tables of a mail": (
        "eml", HEAD + b"Content-Type: text/html\n\n<p>zebra" + b"<table><tr><td>" * 3_000
    ),
    "an attached bomb": ("eml", with_documents(a_docx=word_bomb())),
    "an attached page without end": ("eml", with_documents(a_html=b"<table><tr><td>" * 4_000)),
    "lines From that separate nothing": (
        "mbox", ENVELOPE + HEAD + b"\nzebra\n" + b"\nFrom here on it goes at 10:12\n" * 20_000
    ),
    "a broken mail among others": (
        "mbox",
        ENVELOPE + HEAD + b"\nfirst\n\n" + ENVELOPE
        + (HEAD + b"Content-Type: message/rfc822\n\n") * 9_000 + b"\n\n" + ENVELOPE + mail("zebra"),
    ),
    "entities in a book": ("epub", bomb_of_entities()),
    "scripts in a book": (
        "epub", book({"a": "<script>steal()</script><p>zebra</p><script src='x'/><p>kept</p>"})
    ),
    "a chapter that is broken": (
        "epub", with_broken(book({"a": "<p>zebra</p>", "b": "<p>b</p>"}), b"b.xhtml", 16, 7)
    ),
    "a chapter that lies about its size": (
        "epub",
        with_broken(book({"a": "<p>zebra</p>", "b": "y" * 90_000}), b"b.xhtml", 24, 10),
    ),
    "doctypes without end": (
        "epub", book({"a": "<p>zebra</p>", "b": "<!DOCTYPE " * 90_000})
    ),
    "groups of RTF without end": ("rtf", b"{\\rtf1 " + b"{" * 100_000 + b"zebra"),
    "RTF that lies about its bytes": ("rtf", b"{\\rtf1 {\\pict\\bin999999999 x} zebra\\par}"),
    "RTF of numbers of characters": ("rtf", b"{\\rtf1 zebra " + b"\\u945?" * 100_000 + b"}"),
    "RTF of notes": ("rtf", b"{\\rtf1 zebra " + b"x{\\footnote n}" * 30_000 + b"}"),
    "pictures of a notebook": ("ipynb", notebook(output(**{"image/png": "A" * 9_000_000}))),
    "a table of a notebook without end": (
        "ipynb", notebook(output(**{"text/html": "<table><tr><td>" * 4_000, "text/plain": "x"}))
    ),
    "packed bytes in a notebook": (
        "ipynb",
        notebook({"cell_type": "markdown", "source": f"![](data:image/png;base64,{PACKED})"}),
    ),
    "JSON without end": ("jsonl", b'{"a": "zebra"}\n' + b"[" * 500_000 + b"\n"),
    "subtitles without times": ("srt", b"Only zebra words.\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_is_good_is_read(name):
    kind, data = READ[name]
    found = parsed(data, kind, cpu_s=30)
    assert found.pages, found.note
    text = "".join(text for _, text in found.pages)
    assert "zebra" in text and "root:" not in text and "lollol" not in text and "steal" not in text
    assert len(text) < 2_000_000


def test_no_attached_document_costs_the_words_around_it():
    """Of each hostile PDF: one that crashes its engine, takes for ever or all memory."""
    pdfs = {f"p{n}_pdf": data for n, (data, _) in enumerate(hostile_pdfs().values())}
    found = parsed(with_documents(**dict(list(pdfs.items())[:12])), "eml", cpu_s=14)
    assert found.pages, found.note
    assert "zebra before" in found.pages[0][1] and "zebra after" in found.pages[0][1]


REFUSED = {
    "a mail of nothing but beginnings": (
        "eml", (HEAD + b"Content-Type: message/rfc822\n\n") * 9_000, "nested too deep"
    ),
    "a book that unpacks without end": (
        "epub", book({"a": "x"}, OPS__b=" " * 300_000_000), "unpacks to"
    ),
    "a book of broken chapters": (
        "epub", with_broken(book({"a": "<p>b</p>"}), b"a.xhtml", 16, 7), "missing or broken: 1"
    ),
    "a book that is cut": ("epub", book({"a": page("zebra")})[:-30], "not a readable EPUB file"),
    "rows and columns of RTF": (
        "rtf", b"{\\rtf1 \\trowd " + b"\\intbl a\\cell" * 20_000 + b"\\row "
        + b"\\trowd\\intbl a\\cell\\row " * 20_000 + b"}", "bytes of text"
    ),
    "a notebook that is no JSON": ("ipynb", b'{"cells":' + b"[" * 200_000, "broken JSON"),
    "Parquet that ends too early": (
        "parquet", b"PAR1" + b"\0" * 90 + b"\xff\xff\xff\x7fPAR1", "Parquet"
    ),
    "one line of 8 MB": ("jsonl", b'{"a": "' + b"x" * 8_000_000 + b'"}', "bytes of text"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_reason(name):
    kind, data, reason = REFUSED[name]
    found = parsed(data, kind, cpu_s=30, text_bytes=5_000_000)
    assert found.pages is None and reason in found.note


def test_their_neighbours_are_ingested(bench):
    broken = [(kind, data) for kind, data, reason in REFUSED.values() if "bytes" not in reason]
    broken = [(kind, data) for kind, data in broken if len(data) < 1_000_000 and kind != "epub"]
    for n, (kind, data) in enumerate(broken):
        bench.write(f"bad{n}.{kind}", data)
    bench.write("good.md", "An innocent neighbour.\n")
    stats = bench.run()
    assert stats.files["new"] == 1 and len(stats.skipped_reasons) == len(broken) > 2
    assert bench.health() == []


def test_parquet_whose_footer_lies_is_read_or_refused():
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": ["zebra"] * 10, "b": list(range(10))}), out)
    whole = out.getvalue()
    for seed in range(12):
        data, chance = bytearray(whole), random.Random(seed)
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(4, len(data) - 4)] = chance.randrange(256)
        found = parsed(bytes(data), "parquet", cpu_s=10)
        assert found.pages or found.note
