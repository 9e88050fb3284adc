"""OpenDocument: texts, presentations and sheets as their program shows them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.office import read_office
from tests.unit.ingestion.office_files import packed, parsed, rows_of, text_of

NAMES = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in {
        "office": "office", "text": "text", "table": "table", "draw": "drawing", "style": "style",
        "svg": "svg-compatible", "presentation": "presentation",
    }.items()
) + ' xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip
STYLES = (
    '<style:style style:name="P1" style:parent-style-name="Title"/>'
    '<style:style style:name="T1"><style:text-properties style:text-position="super 58%"/>'
    '</style:style><style:style style:name="T2"><style:text-properties '
    'style:text-position="-33% 58%"/></style:style>'
    '<text:list-style style:name="L1"><text:list-level-style-number text:level="1"/>'
    '<text:list-level-style-bullet text:level="2"/></text:list-style>'
)


def open_document(body, kind="text", page="", **files):
    content = (
        f"<office:document-content {NAMES}><office:automatic-styles>{STYLES}"
        f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
        "</office:body></office:document-content>"
    )
    styles = (
        f"<office:document-styles {NAMES}><office:master-styles><style:master-page>{page}"
        "</style:master-page></office:master-styles></office:document-styles>"
    )
    whole = {"mimetype": "application/vnd.oasis.opendocument", "content.xml": content}
    return packed(whole | {"styles.xml": styles} | files)


def odt(body, **more):
    return text_of(open_document(body, **more), "odt")


def ods(*rows, name="Data"):
    body = f'<table:table table:name="{name}">{"".join(rows)}</table:table>'
    return text_of(open_document(body, "spreadsheet"), "ods")


def row(*cells, more=""):
    return f"<table:table-row{more}>{''.join(cells)}</table:table-row>"


def cell(text="", more=""):
    inner = f"<text:p>{text}</text:p>" if text else ""
    return f"<table:table-cell {more}>{inner}</table:table-cell>"


def number(shown, value, kind="float"):
    name = {"date": "date-value", "boolean": "boolean-value"}.get(kind, "value")
    return cell(shown, f'office:value-type="{kind}" office:{name}="{value}"')


class TestTexts:
    def test_titles_headings_paragraphs_and_spaces(self):
        body = (
            '<text:p text:style-name="P1">Pumps</text:p><text:h text:outline-level="2">Limits'
            "</text:h><text:p>Opens at<text:s/>9<text:tab/>bar,<text:line-break/>never at 10 "
            '<text:a xlink:href="https://x.org/a">see</text:a>.</text:p>'
        )
        made = odt(body)
        assert made.startswith("# Pumps\n\n## Limits\n\nOpens at 9 bar,")
        assert "never at 10 [see](https://x.org/a)." in made

    def test_lists_are_numbered_as_their_style_says_and_go_on(self):
        items = "".join(f"<text:list-item><text:p>{w}</text:p></text:list-item>" for w in "ab")
        goes_on = '<text:list text:style-name="L1" text:continue-numbering="true">'
        body = (
            f'<text:list text:style-name="L1">{items}</text:list><text:p>between</text:p>'
            f"{goes_on}<text:list-item><text:p>c</text:p><text:list><text:list-item><text:p>deep"
            "</text:p></text:list-item></text:list></text:list-item></text:list>"
        )
        lines = [line for line in odt(body).splitlines() if line.strip()]
        assert [line.strip() for line in lines] == ["1. a", "2. b", "between", "3. c", "* deep"]

    def test_raised_digits_notes_comments_and_tracked_changes(self):
        note = (
            "<text:note><text:note-citation>2</text:note-citation><text:note-body><text:p>Of 2024."
            "</text:p></text:note-body></text:note>"
        )
        body = (
            "<text:tracked-changes><text:changed-region><text:deletion><text:p>30 bar</text:p>"
            "</text:deletion></text:changed-region></text:tracked-changes>"
            '<text:p>10<text:span text:style-name="T1">6</text:span> Pa, 101<text:span '
            f'text:style-name="T2">2</text:span>, well{note}'
            "<office:annotation><text:p>why?</text:p></office:annotation>.</text:p>"
        )
        data = open_document(body)
        assert text_of(data, "odt") == "10^6 Pa, 101\\_2, well [2].\n\n[2] Of 2024."
        assert read_office(data, "odt", Limits())[1].endswith("; comments left out: 1")

    def test_tables_pictures_and_boxes(self):
        tall = cell("VK-1", 'table:number-rows-spanned="2"')
        head = (
            f"<table:table-header-rows>{row(cell('Part'), cell('Bar'))}</table:table-header-rows>"
        )
        rows = row(tall, cell("9")) + row("<table:covered-table-cell/>", cell("12"))
        body = (
            f"<table:table>{head}{rows}</table:table>"
            "<text:p>See<draw:frame><draw:object/><draw:image/><svg:desc>the valve</svg:desc>"
            "</draw:frame>"
            "<draw:frame><draw:text-box><text:p>Boxed.</text:p></draw:text-box></draw:frame>"
            "</text:p>"
        )
        made = odt(body)
        assert rows_of(made) == [["Part", "Bar"], ["VK-1", "9"], ["VK-1", "12"]]
        note = read_office(open_document(body), "odt", Limits())[1]
        assert note.endswith("; embedded objects left out: 1")
        assert "See the valve" in made and "Boxed." in made

    def test_headers_and_footers_stand_once_without_page_numbers(self):
        page = (
            "<style:header><text:p>ACME, confidential</text:p></style:header><style:footer><text:p>"
            "Page <text:page-number>1</text:page-number> of <text:page-count>9</text:page-count>"
            "</text:p><text:p>Form 12</text:p></style:footer>"
        )
        assert odt("<text:p>x</text:p>", page=page * 2) == "ACME, confidential\n\nx\n\nForm 12"


class TestSlides:
    def test_each_slide_is_a_page_with_its_title_and_notes(self):
        frame = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
        title = frame.format(' presentation:class="title"', "Pumps")
        notes = f"<presentation:notes>{frame.format('', 'Say hello.')}</presentation:notes>"
        slide = f"<draw:page>{title}{notes}</draw:page>"
        second = f"<draw:page>{frame.format('', 'End')}</draw:page>"
        pages, note = read_office(open_document(slide + second, "presentation"), "odp", Limits())
        assert note == "2 slides"
        assert [(n, " ".join(text.split())) for n, text in pages] == [
            (1, "# Pumps ### Notes: Say hello."), (2, "End"),
        ]  # fmt: skip


class TestSheets:
    def test_cells_are_read_as_the_sheet_shows_them(self):
        made = ods(
            row(cell("what"), cell("value")),
            row(cell("pi"), number("3,14", "3.14159265")),
            row(cell("whole"), number("4.000.123.000.000.005", "4000123000000005")),
            row(cell("code"), number("00042", "42")),
            row(cell("cost"), number("1.234,50 €", "1234.5", "currency")),
            row(cell("day"), number("05.01.26", "2026-01-05", "date")),
            row(cell("ok"), number("WAHR", "true", "boolean")),
            row(cell("sum"), cell("", 'table:formula="of:=SUM([.B2:.B3])"')),
        )
        assert made.startswith("## Data\n\n")
        assert [value for _, value in rows_of(made)] == [
            "value", "3.14159265", "4000123000000005", "00042", "1.234,50 €", "2026-01-05", "TRUE",
            "=SUM([.B2:.B3]) (not computed)",
        ]  # fmt: skip

    @settings(deadline=None, max_examples=50)
    @given(st.lists(st.tuples(st.sampled_from(["", "a", "bb"]), st.integers(1, 4)), max_size=6))
    def test_repeated_cells_are_those_written_out(self, runs):
        def cells(runs):
            return [
                cell("x"),
                cell("y"),
                *(cell(t, f'table:number-columns-repeated="{n}"') for t, n in runs),
            ]

        out = [(text, 1) for text, count in runs for _ in range(count)]
        head = row(cell("h"), cell("i"))
        assert ods(head, row(*cells(runs))) == ods(head, row(*cells(out)))

    def test_a_sheet_filled_to_its_end_costs_nothing(self):
        blank = cell("", 'table:number-columns-repeated="16384"')
        rest = row(blank, more=' table:number-rows-repeated="1048576"')
        made = ods(
            row(cell("a"), cell("b")),
            rest,
            row(cell("c", 'table:number-columns-repeated="999999"')),
        )
        assert len(rows_of(made)) == 2 and len(made) < 20_000


class TestRefused:
    def test_what_is_encrypted_broken_or_unpacks_to_too_much(self):
        listing = {"META-INF/manifest.xml": "<m><manifest:encryption-data/></m>"}
        assert parsed(open_document("<text:p/>", **listing), "odt").note == "encrypted"
        assert "its XML is broken" in parsed(open_document("<text:p>"), "odt").note
        assert "holds no content" in parsed(packed({"a": "b"}), "ods").note
        bomb = open_document("<text:p>" + "0" * 30_000_000 + "</text:p>")
        assert "more than the limit" in parsed(bomb, "odt", text_bytes=1_000_000).note

    def test_sections_in_sections_are_read_or_the_file_is_refused(self):
        def deep(depth):
            body = "<text:section>" * depth + "<text:p>core</text:p>" + "</text:section>" * depth
            return parsed(open_document(body), "odt")

        assert deep(200).pages == ((0, "core"),)
        assert deep(1_500).note == "is nested too deep"
        assert deep(20_000).note.endswith("(its XML is broken or nested too deep)")

    def test_entities_do_not_grow(self):
        bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
        content = (
            f"{bomb}<office:document-content {NAMES}><office:body><office:text><text:p>Said &b; x"
            "</text:p></office:text></office:body></office:document-content>"
        )
        found = parsed(packed({"content.xml": content}), "odt")
        assert found.pages and "Said" in found.pages[0][1] and "aaaa" not in found.pages[0][1]


def test_blanks_without_end_and_xml_that_nests_too_deep():
    blanks = '<text:s text:c="999999"/>' * 30_000
    assert odt(f"<text:p>zebra{blanks}kept</text:p>") == "zebra kept"
    found = parsed(open_document("<text:span>" * 9_000 + "</text:span>" * 9_000), "odt")
    assert found.note.startswith("not a readable OpenDocument file (its XML is broken or nested")
