"""E-books: chapters in the order of the book, whatever the file looks like."""

import pytest

from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.office import read_office
from tests.unit.ingestion.office_files import packed, parsed, text_of

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/>'
    "</rootfiles></container>"
)
XHTML = "application/xhtml+xml"
SECOND = "<h1>Second</h1><p>Two.</p>"


def page(body, head="<title>The Pump Book</title>"):
    return (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" '
        f'"http://x/"><html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head>'
        f"<body>{body}</body></html>"
    )


def book(pages, *, spine=(), more="", **files):
    """Make a book; pages by file name, in the order of ``spine``."""
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="{XHTML}"/>' for n in pages)
    order = "".join(f'<itemref idref="{n}"/>' for n in spine or pages)
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Pump Book</dc:title>'
        f"<dc:creator>Ann Bell</dc:creator></metadata><manifest>{items}{more}</manifest>"
        f"<spine>{order}</spine></package>"
    )
    whole = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    whole |= {"OPS/book.opf": opf} | {f"OPS/{n}.xhtml": page(b) for n, b in pages.items()}
    return packed(whole | {name.replace("__", "/"): text for name, text in files.items()})


class TestChapters:
    def test_order_is_that_of_the_book_and_titles_stand_above(self):
        data = book({"a": SECOND, "b": "<h1>First</h1><p>One.</p>"}, spine=["b", "a"])
        assert text_of(data, "epub") == (
            "# The Pump Book\n\nAnn Bell\n\n## First\n\nOne.\n\n## Second\n\nTwo."
        )

    def test_a_chapter_without_a_heading_is_called_as_in_the_contents(self):
        ncx = (
            '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>'
            'Of Valves</text></navLabel><content src="a%20b.xhtml#x"/></navPoint></navMap></ncx>'
        )
        more = '<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        more += f'<item id="v" href="a%20b.xhtml" media-type="{XHTML}"/>'
        files = {"OPS__toc.ncx": ncx, "OPS__a b.xhtml": page("<p>Open.</p>")}
        assert "## Of Valves\n\nOpen." in text_of(book({}, spine=["v"], more=more, **files), "epub")

    def test_the_table_of_contents_is_no_chapter_but_names_them(self):
        nav = '<nav><ol><li><a href="a.xhtml">Of Seals</a></li></ol></nav>'
        more = f'<item id="nav" href="nav.xhtml" properties="nav" media-type="{XHTML}"/>'
        made = text_of(
            book({"a": "<p>Tight.</p>"}, spine=["nav", "a"], more=more,
                 **{"OPS__nav.xhtml": page(nav)}), "epub",
        )  # fmt: skip
        assert made.endswith("Ann Bell\n\n## Of Seals\n\nTight.")

    def test_empty_elements_of_xml_hide_nothing(self):
        body = '<script src="a.js"/><a id="p1"/><img src="x.png" alt="Fig"/>'
        body += "<p>Open at&nbsp;9 bar.</p><p/><i/><p>Well</p>"
        made = text_of(book({"a": body}), "epub")
        assert (
            "x.png" not in made
            and "Fig" in made
            and "Open at" in made
            and "9 bar." in made
            and made.endswith("Well")
        )

    def test_scripts_entities_and_titles_are_left_out(self):
        bomb = (
            '<!DOCTYPE html [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;">]><html>'
            "<head><title>Untitled</title></head><body><script>steal()</script><p>Said &b;</p>"
            "</body></html>"
        )
        made = text_of(book({"a": "x"}, **{"OPS__a.xhtml": bomb}), "epub")
        assert "Said &b;" in made
        assert not [word for word in ("steal", "Untitled", "aaaa", "ENTITY") if word in made]

    @pytest.mark.parametrize("broken", ["META-INF__container.xml", "OPS__book.opf"])
    @pytest.mark.parametrize("content", ["", "<a", "\0\1"])
    def test_without_a_list_of_chapters_all_are_read(self, broken, content):
        made = text_of(book({"a": "<p>One.</p>", "b": SECOND}, **{broken: content}), "epub")
        assert made.index("One.") < made.index("Two.")

    def test_chapters_that_are_missing_are_named(self):
        data = book({"a": "<p>One.</p>"}, spine=["a", "gone"],
                    more=f'<item id="gone" href="gone.xhtml" media-type="{XHTML}"/>')  # fmt: skip
        assert "chapters that are missing or broken: 1" in read_office(data, "epub", Limits())[1]


class TestRefused:
    def test_a_protected_book(self):
        said = (
            '<encryption><EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#">'
            '<EncryptionMethod Algorithm="{}"/></EncryptedData></encryption>'
        )
        name = "META-INF__encryption.xml"
        locked = book({"a": "x"}, **{name: said.format("http://www.w3.org/2001/04/xmlenc#aes128")})
        with pytest.raises(Refusal, match="protected against copying"):
            text_of(locked, "epub")
        fonts = book({"a": "x"}, **{name: said.format("http://www.idpf.org/2008/embedding")})
        assert "x" in text_of(fonts, "epub")

    def test_what_unpacks_to_too_much_and_what_is_no_package(self):
        bomb = book({"a": "<p>" + "0" * 30_000_000 + "</p>"})
        assert "more than the limit" in parsed(bomb, "epub", text_bytes=1_000_000).note
        assert "holds more than" in parsed(bomb, "epub", text_bytes=5_000_000).note
        assert parsed(b"PK\3\4 junk", "epub").note.startswith("not a readable EPUB file")
        assert parsed(packed({"mimetype": "application/epub+zip"}), "epub").note == "holds no text"
