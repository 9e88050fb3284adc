"""Word files as Word prints them."""

import io
import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.index.rows import pages_without_text
from ragstream_core.ingestion.file_types import file_type
from ragstream_core.ingestion.parsers.child import answer
from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.ingestion.parsers.word_numbers import in_format
from ragstream_core.text.chunk_profiles import PROFILES
from ragstream_core.text.chunker import Chunker
from tests.unit.ingestion.office_files import (
    docx,
    level,
    numbering,
    packed,
    paragraph,
    parsed,
    raised,
    rows_of,
    run,
    table,
    text_of,
)

DOTTED = numbering(level(0, "%1."), level(1, "%1.%2"), level(2, "(%3)", "lowerLetter"))
HEADINGS = "".join(
    f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/><w:pPr>'
    f'<w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    for n in (1, 2)
)
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> {} </w:instrText></w:r><w:r>'
    '<w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r><w:r>'
    '<w:fldChar w:fldCharType="end"/></w:r>'
)
BOTH = (
    '<w:headerReference w:type="default" r:id="header1"/>'
    '<w:headerReference w:type="first" r:id="header2"/>'
    '<w:footerReference w:type="default" r:id="footer1"/>'
)


def word(*body, **parts):
    return text_of(docx(*body, **parts), "docx")


def listed(*items, lists=DOTTED, **parts):
    """Return the lines of a document of items (text, level) and plain paragraphs."""
    body = [
        paragraph(item) if isinstance(item, str) else paragraph(item[0], number=1, level=item[1])
        for item in items
    ]
    return word(*body, numbering=lists, **parts).splitlines()


class TestNumbers:
    def test_a_list_goes_on_after_a_paragraph_and_a_table(self):
        body = [paragraph("one", number=1), paragraph("two", number=1), paragraph("At night only."),
                paragraph("three", number=1), table(["a", "b"], ["c", "d"]),
                paragraph("four", number=1)]  # fmt: skip
        text = word(*body, numbering=DOTTED)
        assert text.startswith("1. one\n2. two\n\nAt night only.\n\n3. three\n\n| a | b |")
        assert text.endswith("\n\n4. four")

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(0, 2), min_size=1, max_size=9))
    def test_every_level_counts_on_and_begins_again_below_a_higher_one(self, levels):
        levels, counts, wanted = [0, *levels], [0, 0, 0], []
        for at in levels:
            counts[at] += 1
            counts[at + 1 :] = [0] * (2 - at)
            first = max(1, counts[1])
            wanted.append(
                (f"{counts[0]}.", f"{counts[0]}.{first}", f"({'abcdefghij'[counts[2] - 1]})")[at]
            )
        lines = listed(*[(f"item {n}", at) for n, at in enumerate(levels)])
        assert [line.split()[0] for line in lines] == wanted
        assert [(len(line) - len(line.lstrip())) // 3 for line in lines] == levels

    def test_headings_carry_the_number_that_their_style_gives(self):
        own = numbering(
            level(0, "Article %1:", extra='<w:pStyle w:val="Heading1"/>'),
            level(1, "%1.%2", extra='<w:pStyle w:val="Heading2"/>'),
        )
        body = [paragraph("Scope", "Heading1"), paragraph("Who", "Heading2"), paragraph("text"),
                paragraph("What", "Heading2"), paragraph("Fees", "Heading1")]  # fmt: skip
        assert word(*body, numbering=own, styles=HEADINGS) == (
            "# Article 1: Scope\n\n## 1.1 Who\n\ntext\n\n## 1.2 What\n\n# Article 2: Fees"
        )

    def test_bullets_are_bullets_and_a_number_alone_counts_nothing(self):
        mixed = numbering(level(0, "%1"), level(1, "o", "bullet"))
        assert listed(("pumps", 0), ("small", 1), ("valves", 0), lists=mixed) == [
            "1. pumps", "   - small", "2. valves",
        ]  # fmt: skip

    def test_lists_of_one_kind_count_on_unless_told_to_begin_anew(self):
        nums = "".join(
            f'<w:num w:numId="{n}"><w:abstractNumId w:val="0"/>{more}</w:num>'
            for n, more in (
                (1, ""), (2, ""),
                (3, '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'),
            )
        )  # fmt: skip
        body = [paragraph("x", number=n) for n in (1, 2, 3, 3, 0, 9)]
        text = word(*body, numbering=numbering(level(0, "%1."), nums=nums))
        assert text == "1. x\n2. x\n7. x\n8. x\n\nx\n\nx"

    def test_a_deeper_level_may_go_on_and_legal_numbers_are_arabic(self):
        own = numbering(
            level(0, "%1.", "upperRoman"),
            level(1, "%1.%2", extra='<w:lvlRestart w:val="0"/><w:isLgl/>'),
        )
        lines = listed(("a", 0), ("b", 1), ("c", 0), ("d", 1), lists=own)
        assert [line.split()[0] for line in lines] == ["I.", "1.1", "II.", "2.2"]

    def test_a_deleted_paragraph_is_not_counted(self):
        gone = (
            '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr><w:del/>'
            "</w:rPr></w:pPr><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        )
        body = [paragraph("a", number=1), gone, paragraph("b", number=1)]
        assert word(*body, numbering=DOTTED) == "1. a\n2. b"

    def test_lists_that_name_each_other_in_a_circle_end(self):
        styles = (
            '<w:style w:type="paragraph" w:styleId="A"><w:basedOn w:val="B"/></w:style>'
            '<w:style w:type="paragraph" w:styleId="B"><w:basedOn w:val="A"/></w:style>'
            '<w:style w:type="numbering" w:styleId="L"><w:pPr><w:numPr>'
            '<w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        )
        own = numbering('<w:numStyleLink w:val="L"/>')
        body = [paragraph("a", "A"), paragraph("b", number=1)]
        assert word(*body, numbering=own, styles=styles) == "a\n\nb"

    @pytest.mark.parametrize(
        ("number", "number_format", "text"),
        [(3, "decimal", "3"), (4, "lowerRoman", "iv"), (1994, "upperRoman", "MCMXCIV"),
         (27, "lowerLetter", "aa"), (3, "upperLetter", "C"), (5, "decimalZero", "05"),
         (11, "ordinal", "11th"), (22, "ordinal", "22nd"), (3, "none", ""),
         (3, "chineseCounting", "3"),
         (0, "lowerRoman", "0"), (9999, "lowerRoman", "9999")],
    )  # fmt: skip
    def test_formats_of_numbers(self, number, number_format, text):
        assert in_format(number, number_format) == text


class TestMargins:
    def test_headers_and_footers_are_read_once_each_without_page_numbers(self):
        page_number = paragraph(
            f"{run('Page ')}{FIELD.format('PAGE')}{run(' of ')}{FIELD.format('NUMPAGES')}"
        )
        footer = paragraph(f"{run('Confidential until 2030 – Seite ')}{FIELD.format('PAGE')}")
        section = f"{BOTH}<w:titlePg/>"
        text = word(
            paragraph("Two pumps."), section=section, header1=paragraph("Contract KV-2291"),
            header2=table(["Doc", "X-1"]) + paragraph("Contract KV-2291") + page_number,
            footer1=footer + page_number,
        )  # fmt: skip
        assert text == "Contract KV-2291\n\nDoc | X-1\n\nTwo pumps.\n\nConfidential until 2030"

    def test_a_header_that_is_not_printed_is_not_read(self):
        text = word(paragraph("x"), section=BOTH, header1=paragraph("on"), header2=paragraph("off"),
                    footer1=paragraph(""))  # fmt: skip
        assert text == "on\n\nx"

    def test_a_page_number_that_is_a_simple_field_is_left_out(self):
        field = '<w:fldSimple w:instr="PAGE"><w:r><w:t>3</w:t></w:r></w:fldSimple>'
        header = paragraph(f"{run('ACME 42, p. ')}{field}")
        text = word(paragraph("x"), section=BOTH, header1=header, footer1=paragraph(field))
        assert text == "ACME 42\n\nx"

    def test_no_exponent_in_a_header_joins_a_number(self):
        header = paragraph(run("10") + raised("6") + run(" cycles"))
        text = word(paragraph("x"), section=BOTH, header1=header, footer1=paragraph(""))
        assert text == "10^6 cycles\n\nx"


class TestTables:
    def test_cells_below_a_merged_one_keep_their_column(self):
        text = word(table(
            ["Machine", "Day", "Check"],
            [("M-1", '<w:vMerge w:val="restart"/>'), "Mon", "oil"],
            [("", "<w:vMerge/>"), "Tue", "belt"],
            [("all", '<w:gridSpan w:val="2"/>'), "grease"],
        ))  # fmt: skip
        assert rows_of(text) == [["Machine", "Day", "Check"], ["M-1", "Mon", "oil"],
                                 ["M-1", "Tue", "belt"], ["all", "all", "grease"]]  # fmt: skip

    def test_a_row_that_begins_further_right_keeps_its_columns(self):
        before = '<w:trPr><w:gridBefore w:val="1"/></w:trPr>'
        text = word(table(["a", "b"], ["c", "d"], (before, ["e"])))
        assert rows_of(text)[-1] == ["", "e"]

    def test_a_frame_around_a_paragraph_is_no_table(self):
        assert word(table(["Warning: hot."]), paragraph("x")) == "Warning: hot.\n\nx"

    def test_a_caption_is_the_title_of_its_table_in_every_chunk(self):
        styles = '<w:style w:type="paragraph" w:styleId="Cap"><w:name w:val="caption"/></w:style>'
        rows = [[f"VK-{n}", f"{n}.5 bar"] for n in range(300)]
        head = ("<w:trPr><w:tblHeader/></w:trPr>", ["Valve", "Opens at"])
        for body in (
            [paragraph("Valves of hall 3", "Cap"), table(head, *rows)],
            [table(head, *rows), paragraph("Valves of hall 3", "Cap")],
            [paragraph("Valves of hall 3", "Cap"), table(*([["Valve", "Opens at"]] + rows))],
        ):
            text = word(*body, styles=styles)
            assert text.startswith("**Valves of hall 3**\n\n| Valve | Opens at |")
            pieces = Chunker(PROFILES["default"]).chunk(text, file_type="docx")
            said = [piece.context + piece.chunk_text for piece in pieces]
            assert len(said) > 5
            assert all("Opens at" in t and "Valves of hall 3" in t for t in said)

    def test_several_rows_of_heads_are_one(self):
        head = "<w:trPr><w:tblHeader/></w:trPr>"
        wide, tall = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>'
        for mark in (head, ""):
            text = word(table(
                (mark, [("Pump", tall), ("2024", wide), ("2025", wide)]),
                (mark, [("", "<w:vMerge/>"), "Load", "Price", "Load", "Price"]),
                ["K-1", "1", "2", "3", "4"],
            ))  # fmt: skip
            assert rows_of(text) == [
                ["Pump", "2024 Load", "2024 Price", "2025 Load", "2025 Price"],
                ["K-1", "1", "2", "3", "4"],
            ]  # fmt: skip


class TestText:
    def test_no_exponent_joins_a_number(self):
        text = word(paragraph(run("lasts 10") + raised("6") + run(" cycles at 45") + raised("2")
                              + run(" bar, m") + raised("-") + raised("2")))  # fmt: skip
        assert text == "lasts 10^6 cycles at 45^2 bar, m⁻²"

    def test_a_character_style_raises_too(self):
        styles = (
            '<w:style w:type="character" w:styleId="Up"><w:name w:val="Up"/><w:rPr>'
            '<w:vertAlign w:val="superscript"/></w:rPr></w:style>'
        )
        body = paragraph(run("10") + run("6", '<w:rStyle w:val="Up"/>'))
        assert word(body, styles=styles) == "10^6"

    def test_notes_are_kept_with_their_marks(self):
        def note(n):
            return f'<w:footnote w:id="{n}">{paragraph(f"Note {n}.")}</w:footnote>'

        def mark(n):
            return f'<w:r><w:footnoteReference w:id="{n}"/></w:r>'

        text = word(paragraph(f"{run('In 1990')}{mark(2)}{run(' and later.')}{mark(3)}"),
                    footnotes=note(2) + note(3))  # fmt: skip
        assert text == "In 1990 [1] and later. [2]\n\n[1] Note 2.\n\n[2] Note 3."

    def test_formulas_are_tex(self):
        base, power = (f"<m:r><m:t>{text}</m:t></m:r>" for text in ("10", "6"))
        formula = f"<m:sSup><m:e>{base}</m:e><m:sup>{power}</m:sup></m:sSup>"
        text = word(paragraph(f"{run('about ')}<m:oMath>{formula}</m:oMath>"))
        assert text.replace(" ", "") == "about$10^{6}$"

    @pytest.mark.parametrize(
        ("formula", "text"),
        [("<m:oMathPara><m:oMath>{a}</m:oMath></m:oMathPara>", "$a$"),
         ("<m:oMath><m:f><m:num>{a}</m:num><m:den>{b}</m:den></m:f></m:oMath>", "$\\frac{a}{b}$"),
         ("<m:oMath><m:d><m:e>{a}</m:e></m:d></m:oMath>", "$\\left(a\\right)$"),
         ("<m:oMath>{a}<m:borderBox><m:e>{b}</m:e></m:borderBox></m:oMath>", "a b")],
        ids=["paragraph", "fraction", "brackets", "unknown"],
    )  # fmt: skip
    def test_no_part_of_a_formula_is_lost(self, formula, text):
        a, b = (f"<m:r><m:t>{letter}</m:t></m:r>" for letter in "ab")
        made = formula.replace("{a}", a).replace("{b}", b)
        assert word(paragraph(made)) == text

    @pytest.mark.parametrize("ending", ["docm", "dotx"])
    def test_files_with_macros_and_templates_are_read(self, ending):
        assert file_type(f"a.{ending}") == ending
        assert text_of(docx(paragraph("x")), ending) == "x"

    def test_a_document_of_another_name_is_found(self):
        assert word(paragraph("x"), main="word/document2.xml") == "x"


def noted(*body, **parts):
    """Return the text of a document, and what its note says besides that it was converted."""
    pages, note = read_office(docx(*body, **parts), "docx", Limits())
    return pages[0][1], note.removeprefix("converted to Markdown").removeprefix("; ")


def comment(number, text, author="Ann Bell", date="2026-01-05T10:00:00Z"):
    return (
        f'<w:comment w:id="{number}" w:author="{author}" w:date="{date}">{paragraph(text)}'
        "</w:comment>"
    )


def about(number, text):
    """Return a run that a comment is about."""
    return (
        f'<w:commentRangeStart w:id="{number}"/>{run(text)}<w:commentRangeEnd w:id="{number}"/>'
        f'<w:r><w:commentReference w:id="{number}"/></w:r>'
    )


class TestComments:
    def test_a_comment_stands_behind_what_it_is_about_with_its_author(self):
        body = paragraph(f"{run('Pay in ')}{about(3, '45 days')}{run('.')}")
        told = comment(3, "Why not 30?") + comment(9, "Lost.", "Bob")
        assert noted(body, paragraph("Next."), comments=told) == (
            "Pay in 45 days.\n\nComment by Ann Bell (2026-01-05) on “45 days”: Why not 30?\n\n"
            "Next.\n\nComment by Bob (2026-01-05): Lost.",
            "",
        )

    def test_answers_follow_in_order_and_a_long_quote_is_cut(self):
        body = paragraph(about(1, "valve " * 40) + '<w:r><w:commentReference w:id="2"/></w:r>')
        lines = word(body, comments=comment(1, "Which?") + comment(2, "All.", "Bob", "")).split(
            "\n"
        )
        assert lines[2].startswith("Comment by Ann Bell (2026-01-05) on “valve valve")
        assert lines[2].endswith("…”: Which?")
        assert lines[4] == "Comment by Bob: All."

    def test_in_a_cell_and_in_a_list_it_stands_in_brackets(self):
        cell = "<w:tc><w:tcPr/>" + paragraph(about(1, "12 bar")) + "</w:tc>"
        rows = table(["Valve", "Opens at"]).replace(
            "</w:tbl>", f"<w:tr><w:tc><w:tcPr/>{paragraph('V9')}</w:tc>{cell}</w:tr></w:tbl>"
        )
        item = paragraph(about(2, "oil"), number=1)
        text = word(item, paragraph("belt", number=1), rows, numbering=DOTTED,
                    comments=comment(1, "9?") + comment(2, "which?"))  # fmt: skip
        said = "Comment by Ann Bell (2026-01-05) on"
        assert text.startswith(f"1. oil [{said} “oil”: which?]\n2. belt")
        assert rows_of(text)[1] == ["V9", f"12 bar [{said} “12 bar”: 9?]"]


BOX = (
    '<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx '
    'xmlns:wps="urn:wps"><w:txbxContent>{0}</w:txbxContent></wps:txbx></w:drawing></mc:Choice>'
    "{1}</mc:AlternateContent></w:r>"
)
OLD_BOX = (
    '<w:pict><v:{1} xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox><w:txbxContent>{0}'
    "</w:txbxContent></v:textbox></v:{1}></w:pict>"
)


class TestBoxes:
    @pytest.mark.parametrize(
        "shape",
        [
            BOX.format(paragraph("In the box."), ""),
            BOX.format(paragraph("In the box."), "<mc:Fallback>"
                       + OLD_BOX.format(paragraph("In the box."), "shape") + "</mc:Fallback>"),
            f"<w:r>{OLD_BOX.format(paragraph('In the box.'), 'oval')}</w:r>",
            "<w:r><mc:AlternateContent><mc:Fallback>"
            + OLD_BOX.format(paragraph("In the box."), "rect")
            + "</mc:Fallback></mc:AlternateContent></w:r>",
        ],
        ids=["new", "both", "old shape", "old alone"],
    )  # fmt: skip
    def test_the_text_of_a_box_is_read_once_behind_its_paragraph(self, shape):
        assert word(paragraph(run("Before.") + shape), paragraph("After.")) == (
            "Before.\n\nIn the box.\n\nAfter."
        )

    def test_tables_and_boxes_in_a_box_are_read(self):
        inner = BOX.format(paragraph("deep"), "")
        held = table(["a", "b"], ["c", "d"]) + paragraph(run("x") + inner)
        text = word(paragraph(BOX.format(held, "")), paragraph("y"))
        assert rows_of(text) == [["a", "b"], ["c", "d"]]
        assert text.endswith("x\n\ndeep\n\ny")

    def test_the_words_of_a_diagram_are_read(self):
        shape = (
            '<w:r><w:drawing><d:relIds r:dm="diagramData" '
            'xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram"/></w:drawing></w:r>'
        )
        data = (
            '<a:x xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
            "<a:p><a:r><a:t>Order</a:t></a:r></a:p><a:p/><a:p><a:r><a:t>Deliver</a:t></a:r></a:p>"
            "</a:x>"
        )
        assert word(paragraph(run("x") + shape), diagramData=data) == "x\n\nOrder\n\nDeliver"


class TestChanges:
    def test_tracked_changes_are_read_as_accepted_and_counted(self):
        moved = paragraph(f"<w:moveTo>{run('moved ')}</w:moveTo>")
        left = "<w:p><w:pPr><w:rPr><w:moveFrom/></w:rPr></w:pPr><w:moveFrom>{}</w:moveFrom></w:p>"
        text, note = noted(
            paragraph(f"{run('in ')}<w:del><w:r><w:delText>30</w:delText></w:r></w:del>"
                      f"<w:ins>{run('45')}</w:ins>{run(' days')}"),
            left.format(run("moved ")), moved,
        )  # fmt: skip
        assert text == "in 45 days\n\nmoved"
        assert note == "tracked changes read as accepted: 3"

    def test_those_of_a_footnote_too(self):
        note = f"<w:ins>{run('new')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        mark = '<w:r><w:footnoteReference w:id="2"/></w:r>'
        inner = f'<w:footnote w:id="2">{paragraph(note)}</w:footnote>'
        text, told = noted(paragraph(run("x") + mark), footnotes=inner)
        assert text == "x [1]\n\n[1] new"
        assert told == "tracked changes read as accepted: 2"

    def test_a_moved_item_is_counted_once_in_its_list(self):
        gone = (
            '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr>'
            f"<w:moveFrom/></w:rPr></w:pPr><w:moveFrom>{run('a')}</w:moveFrom></w:p>"
        )
        body = [gone, paragraph("b", number=1),
                paragraph(f"<w:moveTo>{run('a')}</w:moveTo>", number=1)]  # fmt: skip
        assert word(*body, numbering=DOTTED) == "1. b\n2. a"


class TestFields:
    @pytest.mark.parametrize(
        "content",
        [
            f'{run("Table ")}<w:fldSimple w:instr=" SEQ Table ">{run("7")}</w:fldSimple>',
            run("Table ") + FIELD.format("SEQ Table"),
            f"{run('Table ')}<w:sdt><w:sdtPr/><w:sdtContent>{run('7')}</w:sdtContent></w:sdt>",
            f'{run("Table ")}<w:customXml w:element="n"><w:customXmlPr/>{run("7")}</w:customXml>',
            f'<w:bdo w:val="ltr">{run("Table ")}</w:bdo>{run("7")}',
            "<w:r><w:t>Table</w:t><w:cr/><w:t>7</w:t></w:r>",
            f"{run('Table ')}<w:r><w:ruby><w:rubyPr/><w:rt>{run('seven')}</w:rt><w:rubyBase>"
            f"{run('7')}</w:rubyBase></w:ruby></w:r>",
            f'{run("Table ")}<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result '
            'w:val="1"/><w:listEntry w:val="6"/><w:listEntry w:val="7"/></w:ddList></w:ffData>'
            '</w:fldChar></w:r><w:r><w:instrText> FORMDROPDOWN </w:instrText></w:r>'
            '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        ],
        ids=["simple", "complex", "control", "xml", "direction", "line", "ruby", "choice"],
    )  # fmt: skip
    def test_what_a_field_or_a_control_shows_is_text(self, content):
        assert " ".join(word(paragraph(content)).split()) == "Table 7"

    def test_hidden_text_is_left_out_and_counted(self):
        text, note = noted(paragraph(run("seen") + run(" unseen", "<w:vanish/>")
                                     + run(" too", '<w:vanish w:val="0"/>')))  # fmt: skip
        assert text == "seen too"
        assert note == "hidden passages left out: 1"


AROUND_RUNS = [
    "<w:ins>{}</w:ins>",
    "<w:moveTo>{}</w:moveTo>",
    '<w:smartTag w:element="x">{}</w:smartTag>',
    '<w:fldSimple w:instr=" REF x ">{}</w:fldSimple>',
    "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>",
    '<w:hyperlink w:anchor="x">{}</w:hyperlink>',
    '<w:customXml w:element="x">{}</w:customXml>',
    '<w:bdo w:val="rtl">{}</w:bdo>',
    '<w:commentRangeStart w:id="1"/>{}<w:commentRangeEnd w:id="1"/>',
    "<w:r><w:ruby><w:rt><w:r><w:t>zz</w:t></w:r></w:rt><w:rubyBase>{}</w:rubyBase></w:ruby></w:r>",
]
GONE = [
    "<w:del>{}</w:del>",
    "<w:moveFrom>{}</w:moveFrom>",
    "{}<w:del><w:r><w:delText>zz</w:delText></w:r></w:del>",
]


@st.composite
def marked_runs(draw):
    """Return XML of runs in whatever Word puts around them, and the words that a reader sees."""
    made, seen = "", []
    for n in range(draw(st.integers(1, 4))):
        word, inner = f"w{n}x", run(f" w{n}x ")
        for wrapper in draw(st.lists(st.sampled_from(AROUND_RUNS), max_size=3)):
            inner = wrapper.format(inner)
        if draw(st.integers(0, 4)) == 0:
            gone = draw(st.sampled_from(GONE))
            inner = gone.format(inner)
            word = word if gone.startswith("{}") else ""
        seen += [word] if word else []
        made += inner
    return made, seen


@settings(max_examples=80, deadline=None)
@given(marked_runs(), st.sampled_from(["paragraph", "cell", "box", "old box", "control"]))
def test_every_word_that_a_reader_sees_is_read_once_and_no_other(made, place):
    content, seen = made
    inner = f"<w:p>{content}</w:p>"
    body = {
        "paragraph": inner,
        "cell": table(["a", "b"]).replace(paragraph("b"), inner),
        "box": paragraph(BOX.format(inner, "<mc:Fallback>" + OLD_BOX.format(inner, "rect")
                                    + "</mc:Fallback>")),
        "old box": paragraph(f"<w:r>{OLD_BOX.format(inner, 'oval')}</w:r>"),
        "control": f"<w:sdt><w:sdtContent>{inner}</w:sdtContent></w:sdt>",
    }[place]  # fmt: skip
    text = word(paragraph("begin"), body)
    assert re.findall(r"w\dx|zz", text) == seen


class TestWhatIsNotRead:
    def test_pictures_charts_and_objects_are_named(self):
        drawing = '<w:r><w:drawing><a:x xmlns:a="{}">{}</a:x></w:drawing></w:r>'
        names = "http://schemas.openxmlformats.org/drawingml/2006/"
        picture = drawing.format(f"{names}main", "<a:blip/>")
        chart = drawing.format(f"{names}chart", "<a:chart/>")
        preview = '<v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:imagedata/></v:shape>'
        embedded = (
            f"<w:r><w:object>{preview}<o:OLEObject "
            'xmlns:o="urn:schemas-microsoft-com:office:office"/></w:object></w:r>'
        )
        both = (
            f"<w:r><mc:AlternateContent><mc:Choice>{picture}</mc:Choice><mc:Fallback><w:pict>"
            f"{preview}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
        )
        _, note = noted(paragraph(run("x") + picture + both + chart + embedded))
        assert note == "2 pictures, 1 chart and 1 embedded object are not read"
        assert pages_without_text(f"converted to Markdown; {note} [office-4]") == note
        _, note = noted(paragraph(run("x") + chart))
        assert note == "1 chart is not read"
        assert pages_without_text(note) == note


class TestHostile:
    def test_an_entity_is_not_unfolded_and_no_file_is_read(self):
        head = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd"><!ENTITY a "aaaa">]>'
        data = packed({
            "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
            'relationships"><Relationship Id="r" Type="x/officeDocument" Target="d.xml"/>'
            "</Relationships>",
            "d.xml": head + '<w:document xmlns:w="http://schemas.openxmlformats.org/'
            'wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>x&e;&a;</w:t></w:r></w:p></w:body>'
            "</w:document>",
        })  # fmt: skip
        found = parsed(data, "docx")
        assert found.pages is None or "root" not in found.pages[0][1]

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_parts_that_are_missing_or_cut_are_a_reason_or_a_text(self, data):
        whole = docx(paragraph("x", number=1), numbering=DOTTED, section=BOTH,
                     header1=paragraph("h"), footer1=paragraph("f"))  # fmt: skip
        with zipfile.ZipFile(io.BytesIO(whole)) as package:
            files = {name: package.read(name) for name in package.namelist()}
        name = data.draw(st.sampled_from(sorted(files)))
        if data.draw(st.booleans()):
            del files[name]
        else:
            files[name] = files[name][: data.draw(st.integers(0, len(files[name])))]
        found = answer("office", packed(files), file_type="docx", limits=Limits())
        assert found.pages is None or "x" in found.pages[0][1]
        assert found.note
