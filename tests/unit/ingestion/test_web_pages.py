"""Web pages as a browser shows them."""

import re
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.file_types import file_type
from ragstream_core.ingestion.junk import junk_folder
from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.text.chunk_profiles import PROFILES
from ragstream_core.text.chunker import Chunker
from tests.unit.ingestion.office_files import parsed, rows_of, text_of

OMITTABLE = re.compile("</(?:td|th|tr|thead|tbody|tfoot|li|dt|dd|p|option|body|html)>")


def page(html, encoding="utf-8"):
    return text_of(html.encode(encoding), "html")


WORDS = st.sampled_from(["oil", "belt", "Mon", "M-1", "x"])
PARAGRAPHS = WORDS.map(lambda w: f"<p>about {w}</p>")
ITEMS = st.lists(WORDS, min_size=1, max_size=3)
BLOCKS = st.one_of(
    PARAGRAPHS,
    ITEMS.map(lambda words: f"<ul>{''.join(f'<li>{w}</li>' for w in words)}</ul>"),
    ITEMS.map(lambda words: f"<dl>{''.join(f'<dt>{w}</dt><dd>of {w}</dd>' for w in words)}</dl>"),
    ITEMS.map(lambda words: f"<dl><dt>t</dt>{''.join(f'<dd>{w}</dd>' for w in words)}</dl>"),
    ITEMS.map(
        lambda words: (
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>"
            f"{''.join(f'<tr><td>{w}</td><td>1</td></tr>' for w in words)}</tbody></table>"
        )
    ),
    ITEMS.map(
        lambda words: f"<ol><li>one<ul>{''.join(f'<li>{w}</li>' for w in words)}</ul></li></ol>"
    ),
)


class TestStructure:
    @settings(deadline=None)
    @given(st.lists(BLOCKS, min_size=1, max_size=4))
    def test_end_tags_that_may_be_omitted_change_nothing(self, blocks):
        whole = f"<html><body>{''.join(blocks)}</body></html>"
        assert page(OMITTABLE.sub("", whole)) == page(whole)

    def test_definitions_are_paragraphs_of_their_own_and_never_code(self):
        html = (
            "<dl><dt>timeout<dd>30 s<dt>a<dt>b<dd><p>one</p><p>two</p><dt>list<dd><ul><li>x</ul>"
            "<dt>alone</dl>"
        )
        assert page(html) == "timeout: 30 s\n\na, b: one\n\ntwo\n\nlist:\n\n* x\n\nalone"

    def test_numbers_of_items_are_those_of_the_page(self):
        html = "<ol start=3><li>c<ol type=a><li>x<li>y</ol><li value=9>d<li>e</ol>"
        assert page(html) == "3. c\n   a. x\n   b. y\n9. d\n10. e"

    def test_an_item_in_a_link_that_leads_nowhere_has_its_number(self):
        html = '<ol><a href="javascript:x()"><li>a</li></a><li>b</ol>'
        assert page(html) == "1. a\n2. b"

    def test_text_outside_of_the_body_is_read(self):
        html = "<html><head><title>T</title></head><body><p>in</p></body><p>out</p></html>end"
        assert page(html) == "# T\n\nin\n\nout\n\nend"

    @pytest.mark.parametrize(
        ("html", "text"),
        [("<title>Valves</title><p>x", "# Valves\n\nx"),
         ("<title>Valves</title><h1>All valves</h1>", "# All valves"),
         ("<title>Valves | Shop</title><h1>Valves</h1>", "Valves | Shop\n\n# Valves"),
         ("<title>V</title><meta name=Description content='About it'><p>x", "# V\n\nAbout it\n\nx"),
         ("<title>V</title><meta name=description content='x'><p>x y", "# V\n\nx y"),
         ("<svg><title>icon</title></svg><p>x", "x")],
    )  # fmt: skip
    def test_the_title_and_the_description_come_first(self, html, text):
        assert page(html) == text

    def test_a_deeply_nested_page_keeps_its_words(self):
        assert page("<div>" * 5000 + "deep<p>x" + "</div>" * 5000 + "<p>after") == "deep\nx\nafter"

    def test_what_a_page_shows_in_fields_and_abbreviations_is_read(self):
        html = "<input value=5><input type=hidden value=h> <abbr title='Hyper Text'>HT</abbr>"
        assert page(html) == "5 HT (Hyper Text)"

    def test_pictures_give_their_words_and_never_their_bytes(self):
        html = "<p>a <img alt='Pump' src='data:image/png;base64,AAAA'> <img alt=b src=b.png>"
        assert page(html) == "a Pump ![b](b.png)"

    def test_links_go_to_pages_only(self):
        html = "<a href='javascript:x'>js</a> <a href='a b%20c'>q</a><h2>H<a href='#h'>¶</a></h2>"
        assert page(html) == "js [q](a%20b%20c)\n\n## H"


@st.composite
def merged_tables(draw):
    """Return rows of (text, rows, columns) that fill a rectangle, and the rectangle."""
    height, width = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    shown, rows = [[""] * width for _ in range(height)], [[] for _ in range(height)]
    for y in range(height):
        for x in range(width):
            if shown[y][x]:
                continue
            room = next((n for n in range(x, width) if shown[y][n]), width) - x
            wide = draw(st.integers(1, room)) if y else 1
            tall = draw(st.integers(1, height - y)) if y else 1
            for row in shown[y : y + tall]:
                row[x : x + wide] = [f"c{y}{x}"] * wide
            rows[y].append((f"c{y}{x}", tall, wide))
    return rows, shown


class TestTables:
    @settings(deadline=None)
    @given(merged_tables())
    def test_every_cell_keeps_its_place_and_a_merged_one_is_repeated(self, made):
        rows, shown = made
        html = "".join(
            "<tr>" + "".join(f"<td rowspan={t} colspan={w}>{text}" for text, t, w in row)
            for row in rows
        )
        assert rows_of(page(f"<table>{html}</table>")) == shown

    def test_no_table_has_an_empty_header(self):
        assert page("<table><tr><td>a<td>b<tr><td>c<td>d</table>").startswith("| a | b |\n| ---")

    def test_titles_and_captions_stand_above(self):
        html = "<table><caption>Cap</caption><tr><td colspan=2>Title<tr><td>a<td>b</table>"
        assert page(html) == "**Cap**\n\n**Title**\n\n| a | b |\n| --- | --- |"

    def test_bars_stay_in_their_cell(self):
        assert rows_of(page("<table><tr><td>a|b<td><code>x|y</code></table>")) == [
            ["a\\|b", "`x\\|y`"],
        ]  # fmt: skip

    def test_a_long_merged_cell_is_written_once(self):
        html = f"<table><tr><td>a<td>b<tr><td rowspan=2>{'long ' * 50}<td>c<tr><td>d</table>"
        assert rows_of(page(html))[2] == ["", "d"]

    def test_tables_that_lay_out_a_page_are_its_blocks(self):
        inner = "<table><tr><td>a<td>b<tr><td>c<td>d</table>"
        text = page(f"<table><tr><td><h2>Nav</h2>{inner}<p>more</table><table><tr><td>box</table>")
        assert text == "## Nav\n\n| a | b |\n| --- | --- |\n| c | d |\n\nmore\n\nbox"

    @pytest.mark.parametrize(
        ("html", "text"),
        [("<table><thead><td>a<td>b</thead><tbody><td>1<td>2</table>",
          "| a | b |\n| --- | --- |\n| 1 | 2 |"),
         ("<table>above<form><tr>stray<td>a<td>b<tr><td>c<td>d</form></table>",
          "above stray\n\n| a | b |\n| --- | --- |\n| c | d |"),
         ("<tr><td>a<td>b</tr>", "a  b"),
         ("<select><option>a<option>b</select> c", "a  b  c")],
    )  # fmt: skip
    def test_words_in_odd_places_are_kept(self, html, text):
        assert page(html) == text

    def test_spans_without_end_are_bounded(self):
        html = "<table><tr><td>a<td>b<tr><td colspan=999999 rowspan=999999>x<td>y</table>"
        assert rows_of(page(html)) == [["a", "b", ""], ["x", "x", "y"]]
        many = "<table><tr>" + "<td>x" * 300 + "".join(f"<tr><td rowspan=0>{n}" for n in range(300))
        with pytest.raises(Refusal, match="bytes of text"):
            read_office(many.encode(), "html", Limits(text_bytes=50_000))

    def test_several_rows_of_heads_are_one(self):
        html = (
            "<table><thead><tr><th colspan=5>Pumps<tr><th rowspan=2>Pump<th colspan=2>2024"
            "<th colspan=2>2025<tr><th>Load<th>Price<th>Load<th>Price<tbody>"
            "<tr><th rowspan=2>K-1<td>1<td>2<td>3<td>4<tr><td>5<td>6<td>7<td>8</table>"
        )
        text = page(html)
        assert text.replace("*", "").startswith("Pumps\n\n| Pump |")
        assert rows_of(text) == [
            ["Pump", "2024 Load", "2024 Price", "2025 Load", "2025 Price"],
            ["K-1", "1", "2", "3", "4"], ["K-1", "5", "6", "7", "8"],
        ]  # fmt: skip

    def test_heads_without_a_thead_are_joined_too_and_the_foot_comes_last(self):
        html = (
            "<table><tfoot><tr><td>sum<td>3<td>4</tfoot><tr><th><th colspan=2>Load"
            "<tr><th>Pump<th>min<th>max<tr><td>K-1<td>1<td>2</table>"
        )
        assert rows_of(page(html)) == [
            ["Pump", "Load min", "Load max"], ["K-1", "1", "2"], ["sum", "3", "4"],
        ]  # fmt: skip

    def test_a_title_among_the_rows_is_no_head_and_stands_once(self):
        html = (
            "<table><tr><th>Part<th>Load<tr><th colspan=2>Pumps<tr><td>a<td>1"
            "<tr><th colspan=2>Valves<tr><td>b<td>2</table>"
        )
        assert rows_of(page(html)) == [
            ["Part", "Load"], ["Pumps", ""], ["a", "1"], ["Valves", ""], ["b", "2"],
        ]  # fmt: skip

    def test_a_sign_in_a_cell_is_what_it_stands_for(self):
        html = (
            "<table><tr><th>A<th>B<th>C<th>D<tr><td>x<td><svg><title>yes</title></svg>"
            "<td><i class=icon-no title=no></i><td>✓<tr><td>y<td><img alt=yes src=t.png><td><td>"
            "<input type=checkbox checked></table>"
        )
        assert rows_of(page(html))[1:] == [["x", "yes", "no", "✓"], ["y", "yes", "", "[x]"]]

    def test_names_beside_their_values_are_lines_of_both(self):
        html = (
            "<table><caption>Ada Lovelace</caption><tr><td colspan=2>a portrait<tr><th>Born:"
            "<td>1815<tr><th colspan=2>Work<tr><th>Known for<td>notes<br>on the engine"
            "<tr><th>Died<td></table>"
        )
        assert page(html) == (
            "**Ada Lovelace**\n\na portrait\n- Born: 1815\n\n**Work**\n\n"
            "- Known for: notes on the engine\n- Died"
        )

    def test_a_table_in_a_cell_keeps_its_names(self):
        inner = "<table><tr><th>Load<th>Price<tr><td>5<td>9<tr><td>6<td>10</table>"
        html = f"<table><tr><th>Pump<th>Sold<th>Note<tr><td>K-1<td>{inner}<td>{'good ' * 9}</table>"
        assert rows_of(page(html))[1][1] == "Load: 5, Price: 9; Load: 6, Price: 10"

    @pytest.mark.parametrize(
        "html",
        ["<table role=presentation><tr><td>a<td>b<tr><td>c<td>d</table>",
         "<table><tr><td><a href=x>a</a><td><h1>b</h1><p>c</p><p>d</p></table>",
         f"<table><tr><td>a<td>{'b ' * 150}c d</table>"],
        ids=["said", "heading", "one row"],
    )  # fmt: skip
    def test_more_tables_that_are_none(self, html):
        text = page(html)
        assert "|" not in text
        assert text.index("a") < text.index("b") < text.index("c") < text.index("d")

    @pytest.mark.parametrize(
        "html",
        ["<table><tr><th>Id<th>Rule<tr><td>1<td><h3>Pumps</h3><p>of steel</table>",
         "<table><tr><td><h3>Id</h3><td><h3>Rule</h3><tr><td>1<td>Pumps of steel</table>"],
    )  # fmt: skip
    def test_headings_alone_make_no_layout(self, html):
        assert [row[0] for row in rows_of(page(html))] == ["Id", "1"]

    def test_a_list_in_a_cell_is_apart(self):
        html = "<table><tr><th>A<th>B<tr><td>1<td><ul><li>x<li>y</ul><tr><td>2<td>&nbsp;</table>"
        assert rows_of(page(html)) == [["A", "B"], ["1", "x; y"], ["2", ""]]

    def test_every_chunk_of_a_long_table_names_its_columns(self):
        rows = "".join(f"<tr><td>VK-{n}<td>{n}.5 bar<td>{n * 7} kg" for n in range(300))
        head = "<caption>Valves of hall 3</caption><tr><th>Valve<th>Opens at<th>Weight"
        html = f"<table>{head}{rows}</table>"
        pieces = Chunker(PROFILES["default"]).chunk(page(html), file_type="html")
        assert len(pieces) > 5
        said = [piece.context + piece.chunk_text for piece in pieces]
        assert all("Opens at" in text and "Valves of hall 3" in text for text in said)


class TestText:
    def test_what_is_preformatted_keeps_its_white_space(self):
        html = (
            "<p>a<pre>\ndef f():\n    return  1\n\n\n\n  x</pre><ul><li>b<pre>  c\n    d</pre></ul>"
        )
        assert page(html) == (
            "a\n\n```\ndef f():\n    return  1\n\n\n\n  x\n```\n\n"
            "* b\n\n  ```\n    c\n      d\n  ```"
        )

    @pytest.mark.parametrize(
        "html",
        ["<pre>x = 1<br>  y = 2</pre>", "<pre><div>x = 1</div><div>  y = 2</div></pre>",
         "<table><tr><td><pre>1\n2</pre><td><pre>x = 1\n  y = 2</pre></table>",
         "<pre><span class=linenos>1</span>x = 1\n<span class=linenos>2</span>  y = 2\n</pre>"],
        ids=["breaks", "blocks", "numbers beside", "numbers within"],
    )  # fmt: skip
    def test_the_lines_of_a_program_are_its_lines(self, html):
        assert page(html) == "```\nx = 1\n  y = 2\n```"

    def test_a_fence_in_a_program_ends_nothing(self):
        assert page("<pre>```\nx\n```</pre>") == "````\n```\nx\n```\n````"

    def test_a_program_in_a_cell_is_on_one_line(self):
        html = "<table><tr><th>A<th>B<tr><td>1<td><pre>x\n  y</pre></table>"
        assert rows_of(page(html))[1] == ["1", "`x y`"]

    def test_what_folds_out_is_read_below_its_title(self):
        html = "a<details><summary>Why?</summary>Because <b>so</b>.</details>b"
        assert page(html) == "a\n\nWhy?\n\nBecause **so**.\n\nb"


class TestSavedPages:
    BODY = "<title>Fans</title><nav><a href=/>Home</a></nav><main><h1>Fans</h1><p>25 °C at most."

    def archive(self, charset, text):
        mail = MIMEMultipart("related", type="text/html")
        mail["Subject"] = "Fans"
        mail.attach(MIMEText(text, "html", charset))
        mail.attach(MIMEText("body { color: red }", "css"))
        mail.attach(MIMEText("<p>an advertisement", "html"))
        return mail.as_bytes()

    @pytest.mark.parametrize("ending", ["mht", "mhtml"])
    @pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
    def test_a_page_saved_in_one_file_is_read_as_the_page(self, ending, charset):
        assert file_type(f"a.{ending}") == ending
        data = self.archive(charset, self.BODY)
        assert text_of(data, ending) == "# Fans\n\n25 °C at most."

    def test_an_archive_without_a_page_is_refused(self):
        with pytest.raises(Refusal, match="holds no page"):
            read_office(b"Subject: x\n\nhello", "mhtml", Limits())

    def test_the_folder_beside_a_saved_page_is_no_document(self):
        there = {"Fans.html", "Pumps.htm"}.__contains__
        assert junk_folder("Fans_files", there) == "junk: of a saved page"
        assert junk_folder("Pumps.files", there)
        assert junk_folder("Fans2_files", there) == ""


class TestRaised:
    @pytest.mark.parametrize(
        ("html", "text"),
        [("10<sup>-6</sup> germs at 45<sup>2</sup> bar", "10^-6 germs at 45^2 bar"),
         ("Done.<sup>2</sup> <i>m<sup>2</sup></i>", "Done. [2] *m²*"),
         ("1990<sup><a href='#n3'>3</a></sup>", "1990 [3]"), ("H<sub>2</sub>O", "H2O"),
         ("word<sup id=r><a href='#c'>[1]</a></sup>.", "word [1]."),
         ("<p>a</p><p><sup>1</sup> Note", "a\n\n[1] Note"),
         ("3<sup>1</sup>/<sub>2</sub> in", "3 1/2 in"), ("x<br><sup>2</sup>y", "x\n[2]y"),
         ("<math><msup><mn>10</mn><mn>6</mn></msup></math>", "10^6"),
         ("<math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mi>c</mi></mrow></mfrac></math>",
          "a/(b+c)"),
         ("<math><mfrac><msup><mn>10</mn><mn>6</mn></msup><mn>2</mn></mfrac></math>", "10^6/2"),
         ("<p>10<sup>6 germs <p>next", "10^6 germs\n\nnext"),
         ("<div>10<sup>6 germs <p>next</div>", "10^6 germs\n\nnext"),
         ("<math>zz<annotation encoding='application/x-tex'>x^2</annotation></math>", "$x^2$")],
    )  # fmt: skip
    def test_no_exponent_or_mark_joins_a_number(self, html, text):
        assert page(html) == text


class TestEncodings:
    @pytest.mark.parametrize(
        ("label", "encoding", "text"),
        [("iso-8859-1", "cp1252", "5 € – “fixed”"), ("latin1", "cp1252", "5 €"),
         ("us-ascii", "cp1252", "5 €"), ("iso-8859-9", "cp1254", "İğ €"),
         ("latin5", "cp1254", "ş€"),
         ("windows-1251", "cp1251", "Привет"), ("gb2312", "gb18030", "你好镕"),
         ("x-sjis", "cp932", "①東京"), ("iso-2022-jp", "iso2022_jp", "東京"),
         ("iso-8859-15", "iso8859_15", "5 €"), ("iso-8859-1", "utf-8", "5 €"),
         ("utf-8", "utf-8-sig", "5 €"), ("utf-16", "utf-16", "hé")],
    )  # fmt: skip
    def test_a_page_is_read_as_browsers_do(self, label, encoding, text):
        assert page(f"<meta charset={label}><p>{text}", encoding) == text

    def test_a_byte_that_means_nothing_costs_no_other(self):
        data = "<meta charset=latin1><p>5 €".encode("cp1252") + b" \x81 \x00x"
        assert text_of(data, "html").startswith("5 €")

    @pytest.mark.parametrize(
        ("text", "encoding"),
        [
            ("Smörgåsbord på Åland är gott", "cp1252"),
            ("Żółta zupa jest gorąca", "cp1250"),
            ("Привет мир, это текст", "koi8_r"),
            ("日本語の文書です。よろしく", "cp932"),
        ],
    )
    def test_an_encoding_that_no_page_names_is_assumed_and_said(self, text, encoding):
        pages, note = read_office(f"<p>{text}</p>".encode(encoding), "html", Limits())
        assert pages == [(0, text)] and f"{encoding} (assumed)" in note
        named = f"<meta charset={encoding}><p>{text}</p>".encode(encoding)
        assert "assumed" not in read_office(named, "html", Limits())[1]

    @pytest.mark.parametrize("label", ["base64", "rot13", "idna", "unicode_escape", "nonsense", ""])
    def test_odd_labels_stop_nothing(self, label):
        data = f"<meta charset={label}><p>Fällt bei 100 °C und kühler".encode("cp1252")
        assert "bei 100" in text_of(data, "html")


TAGS = (
    "table|tr|td|td rowspan=3|td colspan=2|/td|/table|ul|ol|li|/ul|dl|dt|dd|/dl|p|sup|/sup|sub|"
    "/sub|a href='#x'|/a|math|msup|/math|caption|svg|title|h1|pre|/pre|br"
)
PIECES = ["10", "words", "¶", *(f"<{tag}>" for tag in TAGS.split("|"))]


@settings(max_examples=60, deadline=None)
@example(["<math>", "<msup>", "words"])
@example(["<math>", "<msup>", "<mi>words</mi>", "<mi>words</mi>", "<mi>words</mi>"])
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_no_heap_of_tags_breaks_the_reading_or_loses_a_word(tags):
    text = page(f"begin {' '.join(tags)} end")
    inner = re.sub(r"\W", "", text)
    assert "begin" in inner
    assert inner.count("words") >= tags.count("words") or "<title>" in tags


def test_a_page_is_read_in_a_child_with_limits():
    hostile = "<table>" * 200_000 + "<sup>" * 200_000
    note = parsed(hostile.encode(), "html", cpu_s=3).note
    assert note
