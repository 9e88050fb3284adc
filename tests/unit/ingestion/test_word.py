"""Word files as Word prints them."""

import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.child import answer
from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.ingestion.parsers.word_numbers import in_format
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

    def test_tracked_changes_are_read_as_accepted(self):
        text = word(paragraph(f"{run('in ')}<w:del><w:r><w:delText>30</w:delText></w:r></w:del>"
                              f"<w:ins>{run('45')}</w:ins>{run(' days')}"))  # fmt: skip
        assert text == "in 45 days"

    def test_formulas_are_tex(self):
        base, power = (f"<m:r><m:t>{text}</m:t></m:r>" for text in ("10", "6"))
        formula = f"<m:sSup><m:e>{base}</m:e><m:sup>{power}</m:sup></m:sSup>"
        text = word(paragraph(f"{run('about ')}<m:oMath>{formula}</m:oMath>"))
        assert text.replace(" ", "") == "about$10^{6}$"

    def test_comments_are_named_as_left_out(self):
        data = docx(paragraph("x"), comments=f'<w:comment w:id="0">{paragraph("why?")}</w:comment>')
        pages, note = read_office(data, "docx", Limits())
        assert pages == [(0, "x")]
        assert note == "converted to Markdown; comments left out: 1"

    def test_a_document_of_another_name_is_found(self):
        assert word(paragraph("x"), main="word/document2.xml") == "x"


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
