"""Word and Excel files made by hand for tests, and what the readers give for any Office file."""

import io
import zipfile

import openpyxl

from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.isolated import parse
from ragstream_core.ingestion.parsers.office import read_office

_SCHEMAS = "http://schemas.openxmlformats.org"
NAMES = (
    f'xmlns:w="{_SCHEMAS}/wordprocessingml/2006/main" '
    f'xmlns:r="{_SCHEMAS}/officeDocument/2006/relationships" '
    f'xmlns:m="{_SCHEMAS}/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
_RELATED = f"{_SCHEMAS}/officeDocument/2006/relationships"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def text_of(data, file_type):
    """Read a file in this process; return its text."""
    pages, _ = read_office(data, file_type, Limits())
    return "\n\f\n".join(body for _, body in pages)


def parsed(data, file_type, **limits):
    """Read a file as an ingest does: in a child with limits."""
    return parse(data, file_type=file_type, limits=Limits(**limits))


def run(text, look=""):
    """Return a run of text."""
    look = f"<w:rPr>{look}</w:rPr>" if look else ""
    return f'<w:r>{look}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(content, style="", *, number=None, level=0):
    """Return a paragraph; content is text or XML."""
    look = f'<w:pStyle w:val="{style}"/>' if style else ""
    if number is not None:
        look += f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    inner = content if content.startswith("<") else run(content)
    return f"<w:p><w:pPr>{look}</w:pPr>{inner}</w:p>"


def raised(text, how="superscript"):
    """Return a run of raised text."""
    return run(text, f'<w:vertAlign w:val="{how}"/>')


def table(*rows):
    """Return a table; a cell is text, or (text, its properties)."""
    made = "<w:tbl><w:tblPr/><w:tblGrid/>"
    for row in rows:
        before, cells = row if isinstance(row, tuple) else ("", row)
        made += f"<w:tr>{before}"
        for cell in cells:
            text, look = cell if isinstance(cell, tuple) else (cell, "")
            made += f"<w:tc><w:tcPr>{look}</w:tcPr>{paragraph(text)}</w:tc>"
        made += "</w:tr>"
    return f"{made}</w:tbl>"


def level(at, text, number_format="decimal", extra=""):
    """Return a level of a list."""
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{number_format}"/>{extra}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def numbering(*levels, nums='<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'):
    """Return the lists of a document: one abstract list, and its numbers."""
    return f'<w:abstractNum w:abstractNumId="0">{"".join(levels)}</w:abstractNum>{nums}'


def docx(*body, section="", main="word/document.xml", **parts):
    """Make a Word file.

    Args:
        body: Paragraphs and tables.
        section: The properties of its section.
        main: The path of the document.
        parts: What other parts hold, by kind: ``numbering``, ``styles``, ``header``, …
    """
    roots = {"header": "hdr", "footer": "ftr"}
    types, related, files = "", "", {}
    for name, inner in parts.items():
        kind = name.rstrip("0123456789")
        root = roots.get(kind, kind)
        types += f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
        related += f'<Relationship Id="{name}" Type="{_RELATED}/{kind}" Target="{name}.xml"/>'
        files[f"word/{name}.xml"] = f"<w:{root} {NAMES}>{inner}</w:{root}>"
    package = f"{_SCHEMAS}/package/2006"
    folder, _, file = main.rpartition("/")
    files |= {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
        f'PartName="/{main}" ContentType="{_TYPE}.document.main+xml"/>{types}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
        f'Type="{_RELATED}/officeDocument" Target="{main}"/></Relationships>',
        f"{folder}/_rels/{file}.rels": f'<Relationships xmlns="{package}/relationships">{related}'
        "</Relationships>",
        main: f"<w:document {NAMES}><w:body>{''.join(body)}<w:sectPr>{section}</w:sectPr>"
        "</w:body></w:document>",
    }
    return packed(files)


def packed(files):
    """Return a package of files by path."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in files.items():
            package.writestr(name, text)
    return out.getvalue()


def repacked(data, **changes):
    """Return a package with what functions make of the parts whose name ends so."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        files = {name: package.read(name) for name in package.namelist()}
    for name in files:
        for ending, change in changes.items():
            if name.endswith(f"{ending}.xml"):
                files[name] = change(files[name])
    return packed(files)


def xlsx(*rows, change=None):
    """Make a workbook of one sheet; ``change`` is given the sheet before it is saved."""
    book, out = openpyxl.Workbook(), io.BytesIO()
    book.active.title = "Data"
    for row in rows:
        book.active.append(row)
    if change:
        change(book.active)
    book.save(out)
    return out.getvalue()


def rows_of(text):
    """Return the cells of the rows of the Markdown tables of a text, without rules and blanks."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line[1:-1].split(" |")] for line in lines]
    return [row for row in cells if set("".join(row)) - {"-"}]
