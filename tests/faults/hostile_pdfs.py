"""Twenty-six PDF files that try to break a parser, made by script; nothing binary is kept."""

import io
import zlib

from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas


def assembled(objects, *, trailer="", startxref=None):
    """Return a PDF of numbered objects; object 1 is the catalog."""
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    at = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer.encode())
    out += b"startxref\n%d\n%%%%EOF\n" % (at if startxref is None else startxref)
    return bytes(out)


def stream(data, *, extra="", packed=True):
    body = zlib.compress(data) if packed else data
    kind = "/Filter /FlateDecode" if packed else ""
    return f"<< /Length {len(body)} {kind} {extra} >>\nstream\n".encode() + body + b"\nendstream"


FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
PAGES = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"


def page(box="0 0 612 792", contents="4 0 R", extra=""):
    return (
        f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Contents {contents} "
        f"/Resources << /Font << /F1 5 0 R >> {extra} >> >>"
    ).encode()


def one_page(content, **given):
    return assembled([CATALOG, PAGES, page(**given), stream(content), FONT])


def said(text):
    return f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET\n".encode()


def written(*pages, encrypt=None, javascript=False):
    out = io.BytesIO()
    made = canvas.Canvas(out, encrypt=encrypt)
    for text in pages:
        made.drawString(72, 700, text)
        made.showPage()
    made.save()
    return out.getvalue()


def slow(millions):
    """Return a page whose content is so many million pairs of operators that come to nothing."""
    packer, part = zlib.compressobj(1), b"q Q " * 1_000_000
    body = b"".join([*(packer.compress(part) for _ in range(millions)), packer.flush()])
    head = f"<< /Length {len(body)} /Filter /FlateDecode >>\nstream\n".encode()
    return assembled([CATALOG, PAGES, page(), head + body + b"\nendstream", FONT])


def _deep_tree(depth):
    objects = [CATALOG]
    for level in range(2, depth + 2):
        objects.append(f"<< /Type /Pages /Kids [{level + 1} 0 R] /Count 1 >>".encode())
    objects.append(b"<< /Type /Page /MediaBox [0 0 612 792] >>")
    return assembled(objects)


def _many_pages(count, text="again"):
    kids = " ".join(["3 0 R"] * count)
    pages = f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode()
    return assembled([CATALOG, pages, page(), stream(said(text)), FONT])


def _twice_packed(size):
    body = zlib.compress(zlib.compress(b" " * size, 9), 9)
    filters = f"<< /Length {len(body)} /Filter [/FlateDecode /FlateDecode] >>\nstream\n".encode()
    content = filters + body + b"\nendstream"
    return assembled([CATALOG, PAGES, page(), content, FONT])


def _hostile_cmap():
    cmap = b"""/CIDInit /ProcSet findresource begin begincmap
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0000> <FFFF> <D800> endbfrange
endcmap end"""
    font = (
        b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 6 0 R "
        b"/DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>"
    )
    content = b"BT /F1 12 Tf 72 700 Td <00000001000200030041> Tj ET"
    return assembled([CATALOG, PAGES, page(), stream(content), font, stream(cmap)])


def _javascript():
    catalog = (
        b"<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (app.alert\\(1\\)) >> "
        b"/Names << /EmbeddedFiles << /Names [(evil.exe) << /Type /Filespec /F (evil.exe) "
        b"/EF << /F 6 0 R >> >>] >> >> >>"
    )
    payload = stream(b"MZ this is no text of the page", extra="/Type /EmbeddedFile")
    return assembled([catalog, PAGES, page(), stream(said("harmless words")), FONT, payload])


def _recursive_form():
    form = stream(
        b"/Fm0 Do /Fm0 Do",
        extra="/Type /XObject /Subtype /Form /BBox [0 0 9 9] "
        "/Resources << /XObject << /Fm0 6 0 R >> >>",
    )
    content = stream(said("outer") + b"/Fm0 Do")
    body = page(extra="/XObject << /Fm0 6 0 R >>")
    return assembled([CATALOG, PAGES, body, content, FONT, form])


def corpus():
    """Return name → (bytes, expected); expected: a word of the reason, "text:…", or "" for any."""
    good = written("first page words", "second page words")
    one = page(contents=f"[{' '.join(['4 0 R'] * 20_000)}]")
    return {
        "empty": (b"", "not a readable"),
        "junk": (b"this is no PDF at all " * 50, "not a readable"),
        "header-only": (b"%PDF-1.7\n", "not a readable"),
        "cut-in-half": (good[: len(good) // 2], ""),
        "encrypted": (written("x", encrypt=StandardEncryption("user", "owner")), "encrypted"),
        "unknown-encryption": (
            assembled([CATALOG, PAGES, page(), stream(said("x")), FONT],
                      trailer="/Encrypt << /Filter /Nobody /V 9 >> /ID [<00> <00>]"),
            "",
        ),
        "page-tree-loop": (
            assembled([CATALOG, b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"]), ""),
        "deep-page-tree": (_deep_tree(20_000), ""),
        "50000-pages": (_many_pages(50_000), "limit of"),
        "count-lies": (
            assembled([CATALOG, b"<< /Type /Pages /Kids [3 0 R] /Count 2000000000 >>", page(),
                       stream(said("x")), FONT]), ""),
        "million-operators": (one_page(b"BT /F1 9 Tf (a) Tj ET\n" * 1_000_000), ""),
        "operators-for-nothing": (slow(90), "CPU"),
        "packed-twice": (_twice_packed(3_000_000_000 // 2), ""),
        "xref-loop": (
            assembled([CATALOG, PAGES, page(), stream(said("x")), FONT], trailer="/Prev 9"), ""),
        "wrong-startxref": (
            assembled([CATALOG, PAGES, page(), stream(said("recovered words")), FONT],
                      startxref=99_999_999),
            "text:recovered words",
        ),
        "javascript-and-file": (_javascript(), "text:harmless words"),
        "huge-box": (one_page(said("wide"), box="0 0 1e30 1e30"), ""),
        "no-box": (one_page(said("narrow"), box="nan -5 -5 nan"), ""),
        "recursive-form": (_recursive_form(), ""),
        "picture-only": (one_page(b"0 0 1 rg 10 10 100 100 re f"), "no text layer"),
        "too-much-text": (_many_pages(300, "word " * 2_000), "bytes of text"),
        "no-pages": (assembled([b"<< /Type /Catalog >>"]), ""),
        "hostile-cmap": (_hostile_cmap(), ""),
        "same-stream-20000-times": (
            assembled([CATALOG, PAGES, one, stream(said("again")), FONT]), ""),
        "nested-arrays": (one_page(b"[" * 500_000 + b"]" * 500_000 + said("after")), ""),
        "trailing-garbage": (good + b"\xff" * 1_000_000, "text:first page words"),
    }  # fmt: skip
