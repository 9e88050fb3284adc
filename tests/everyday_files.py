"""A folder as people have it: a file of each everyday kind, each with a sentence of its own."""

from __future__ import annotations

import base64
import io
import json
import mailbox
import tempfile
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from itertools import product
from pathlib import Path
from typing import Any

from tests.unit.ingestion.office_files import docx, packed, paragraph
from tests.unit.ingestion.pdf_files import drawn
from tests.unit.ingestion.test_books import book
from tests.unit.ingestion.test_documents import pptx_of
from tests.unit.ingestion.test_open_document import cell, open_document, row

_WORDS = ["".join(parts) for parts in product(("ba", "do", "fi"), ("ku", "la", "me"), "nprstvz")]


def everyday_files() -> dict[str, tuple[bytes, str]]:
    """Return the bytes and the sentence of each file by its name."""
    made = {}
    for number, (name, make) in enumerate(_FILES.items()):
        word = f"{_WORDS[number % len(_WORDS)]}{'aeiou'[number // len(_WORDS)]}x"
        sentence = _FOREIGN.get(name, "The {} pump stands in room {} of the old hall.")
        sentence = sentence.format(word, 100 + number)
        data = make(sentence)
        made[name] = (data if isinstance(data, bytes) else data.encode(), sentence)
    return made


def _around(before: str, after: str = "\n") -> Callable[[str], str]:
    return lambda sentence: before + sentence + after


_NOTE = _around("# Pumps\n\n## Rooms\n\nAnn wrote this down.\n\n")
_HASH = _around("# ", "\nkey = value\n")
_SLASHES = _around("// ", "\n")


def _function(head: str, body: str, end: str = "") -> Callable[[str], str]:
    """Return what makes a program whose sentence is a comment inside of a function."""
    return lambda sentence: f"{head}\n{body.format(sentence)}\n{end}\n"


def _mail(sentence: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Ann Bell <ann@x.org>", "bob@x.org"
    message["Subject"], message["Date"] = "Rooms", "Wed, 04 Mar 2026 10:12:00 +0100"
    message.set_content(f"Hello Bob,\n\n{sentence}\n\nAnn\n")
    return message


def _mailbox(sentence: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "box"
        box = mailbox.mbox(path)
        box.add(_mail("First."))
        box.add(_mail(sentence))
        box.close()
        return path.read_bytes()


def _web_archive(sentence: str) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "<Saved by Blink>", "Rooms"
    message["Snapshot-Content-Location"] = "https://x.org/rooms"
    message.set_content(_page(sentence), subtype="html", cte="quoted-printable")
    message.make_related()
    message.add_related(b"\x89PNG" * 20, "image", "png", cid="logo")
    return message.as_bytes()


def _page(sentence: str) -> str:
    return f"<!doctype html><html><title>Rooms</title><body><main><p>{sentence}</main></html>"


def _workbook(sentence: str) -> bytes:
    import openpyxl

    made, out = openpyxl.Workbook(), io.BytesIO()
    made.active.append(["Pump", "Remark"])
    made.active.append(["K-10", sentence])
    made.save(out)
    return out.getvalue()


def _columns(sentence: str) -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"pump": ["K-10"], "remark": [sentence]}), out)
    return out.getvalue()


def _notebook(sentence: str) -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": [f"{sentence}\n"]},
        {"cell_type": "code", "source": "print(1)", "metadata": {}, "execution_count": 1,
         "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]},
    ]  # fmt: skip
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _slides(sentence: str) -> bytes:
    return open_document(
        f'<draw:page draw:name="1"><draw:frame><draw:text-box><text:p>{sentence}</text:p>'
        "</draw:text-box></draw:frame></draw:page>",
        "presentation",
    )


def _folded(text: str, eol: str = "\r\n") -> str:
    """Return lines as calendars write them: after 75 bytes each goes on in the next."""
    lines = []
    for line in text.splitlines():
        lines.append(line[:75])
        lines += [f" {line[at : at + 74]}" for at in range(75, len(line), 74)]
    return eol.join([*lines, ""])


def _calendar(sentence: str) -> str:
    return _folded(
        "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:1@x.org\nDTSTART:20260304T101200Z\n"
        f"SUMMARY:Rooms\nDESCRIPTION:This is what we have agreed on with Bob and Ann\\, so far: "
        f"{sentence}\nEND:VEVENT\nEND:VCALENDAR\n"
    )


def _card(sentence: str) -> str:
    return _folded(
        "BEGIN:VCARD\nVERSION:3.0\nFN:Ann Bell\nTEL;TYPE=WORK:+49 30 1234\n"
        f"NOTE:She knows the halls\\, and is the one to ask about pumps. {sentence}\nEND:VCARD\n"
    )


def _packed_folder(sentence: str) -> bytes:
    return packed({"notes/rooms.md": f"# Rooms\n\n{sentence}\n"})


def _slide_show(sentence: str) -> bytes:
    """Return a presentation as PowerPoint saves it to be shown at once."""
    with zipfile.ZipFile(io.BytesIO(pptx_of(sentence))) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    types = parts["[Content_Types].xml"]
    parts["[Content_Types].xml"] = types.replace(b"presentation.main", b"slideshow.main")
    return packed(parts)


_FILES: dict[str, Callable[[str], Any]] = {
    # notes and documents
    "notes.md": _NOTE, "page.mdx": _NOTE, "old.markdown": _NOTE, "study.qmd": _NOTE,
    "letter.txt": _around("Dear Bob,\n\n"), "README": _around("Pumps\n\n"),
    "LICENSE": _around("Terms\n\n"), "guide.rst": _around("Pumps\n=====\n\n"),
    "plan.org": _around("* Pumps\n** Rooms\n"), "manual.adoc": _around("= Pumps\n\n== Rooms\n\n"),
    "paper.tex": _around("\\section{Pumps}\n"), "refs.bib": _around("@misc{k10, note = {", "}}\n"),
    "page.wiki": _around("== Pumps ==\n"),
    # what a developer has
    "Dockerfile": _HASH, "Makefile": _HASH, "Jenkinsfile": _SLASHES, ".editorconfig": _HASH,
    "app.ini": _HASH, "setup.cfg": _HASH, "nginx.conf": _HASH, "pyproject.toml": _HASH,
    "app.properties": _HASH, ".env.example": _HASH, "service.log": _around("2026-03-04 INFO "),
    "pom.xml": _around("<project>\n  <description>", "</description>\n</project>\n"),
    "site.css": _around("/* ", " */\nbody { color: red }\n"),
    "App.vue": _around("<template>\n  <p>", "</p>\n</template>\n"),
    "App.svelte": _around("<p>", "</p>\n"), "rooms.proto": _SLASHES, "rooms.graphql": _HASH,
    "main.tf": _HASH, "rooms.sql": _around("-- ", "\nSELECT 1;\n"),
    "fix.patch": _around("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+"),
    "deploy.sh": _HASH, "deploy.ps1": _HASH, "deploy.bat": _around("rem "),
    "app.py": _function("def rooms():", '    """{}"""', "    return 1"),
    "app.js": _function("function rooms() {{".replace("{{", "{"), "  // {}", "}"),
    "app.ts": _function("export class Rooms {", "  // {}\n  n: number = 1;", "}"),
    "app.go": _function("package a\n\nfunc rooms() {", "\t// {}", "}"),
    "app.rs": _function("fn rooms() {", "    // {}", "}"),
    "App.java": _function("class App {", "  // {}\n  int n = 1;", "}"),
    "App.cs": _function("class App {", "  // {}\n  int n = 1;", "}"),
    "App.kt": _function("class App {", "  // {}\n  val n = 1", "}"),
    "App.swift": _function("class App {", "  // {}\n  var n = 1", "}"),
    "app.rb": _function("def rooms", "  # {}", "end"),
    "app.php": _function("<?php\nfunction rooms() {", "  // {}", "}"),
    "app.lua": _function("function rooms()", "  -- {}", "end"),
    "app.R": _function("rooms <- function() {", "  # {}", "}"),
    "App.scala": _function("object App {", "  // {}\n  val n = 1", "}"),
    "app.c": _function("int rooms(void) {", "  /* {} */\n  return 1;", "}"),
    # data
    "rooms.json": lambda said: json.dumps({"pump": "K-10", "remark": said}, indent=1),
    "rooms.jsonl": lambda said: json.dumps({"pump": "K-10", "remark": said}) + "\n",
    "rooms.yaml": _around("pumps:\n  k10:\n    remark: "),
    "rooms.csv": _around("pump,remark\nK-10,"), "rooms.tsv": _around("pump\tremark\nK-10\t"),
    "rooms.xlsx": _workbook, "rooms.xlsm": _workbook, "rooms.parquet": _columns,
    "rooms.ods": lambda said: open_document(
        f"<table:table>{row(cell('pump'), cell(said))}</table:table>", "spreadsheet"
    ),
    "rooms.ipynb": _notebook,
    # what an office has
    "letter.docx": lambda said: docx(paragraph(said)),
    "letter.docm": lambda said: docx(paragraph(said)),
    "letter.odt": lambda said: open_document(f"<text:p>{said}</text:p>"),
    "letter.rtf": _around(r"{\rtf1\ansi ", r"\par}"),
    "talk.pptx": lambda said: pptx_of(said), "talk.ppsx": _slide_show, "talk.odp": _slides,
    "report.pdf": lambda said: drawn([(72, 700, said)]),
    "page.html": _page, "page.mhtml": _web_archive,
    "book.epub": lambda said: book({"a": f"<h1>Rooms</h1><p>{said}</p>"}),
    "mail.eml": lambda said: _mail(said).as_bytes(), "mails.mbox": _mailbox,
    "film.srt": _around("1\n00:00:01,000 --> 00:00:03,000\n"),
    "film.vtt": _around("WEBVTT\n\n00:01.000 --> 00:03.000\n"),
    "dates.ics": _calendar, "ann.vcf": _card,
    "rooms.zip": _packed_folder,
    # old encodings
    "utf16.txt": lambda said: said.encode("utf-16"),
    "utf16-bare.txt": lambda said: f"{said}\r\n".encode("utf-16-le"),
    "cp1252.txt": lambda said: f"Liebe Grüße aus Köln.\n\n{said}\n".encode("cp1252"),
    "koi8.txt": lambda said: said.encode("koi8_r"),
    "shift-jis.txt": lambda said: said.encode("cp932"),
    "gb18030.txt": lambda said: said.encode("gb18030"),
}  # fmt: skip
_FOREIGN = {
    "cp1252.txt": "Die Pumpe {} steht für die Prüfung in Raum {} der großen Halle.",
    "koi8.txt": "Насос {} стоит в комнате {} старого зала, и ключ лежит рядом с ним.",
    "shift-jis.txt": "ポンプ {} は古い建物の部屋 {} にあります。鍵は机の上です。",
    "gb18030.txt": "水泵 {} 放在旧大厅的 {} 号房间，钥匙在桌子上。",
}
PICTURE = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
REFUSED = {"logo.gif": PICTURE, "song.mp3": b"ID3\3", "program.exe": b"MZ\0", ".env": b"KEY=1"}
"""Files that hold no text, or what nobody should read."""


def write_everyday_folder(folder: Path) -> dict[str, str]:
    """Write all of them; return the sentence of each file that holds one, by its name."""
    files = everyday_files()
    for name, (data, _) in files.items():
        (folder / name).write_bytes(data)
    for name, data in REFUSED.items():
        (folder / name).write_bytes(data)
    return {name: sentence for name, (_, sentence) in files.items()}
