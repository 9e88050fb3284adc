"""Web pages without the menus, notices and footers around their text."""

import re

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.page_frame import leave_out_frame
from tests.unit.ingestion.office_files import packed, text_of

NAV = (
    "<nav><ul><li><a href=/>Home</a><li><a href=/jobs>Careers</a><li><a href=/s>Shop</a></ul></nav>"
)
MENU = "<ul><li><a href=/>Home</a><li><a href=/jobs>Careers</a><li><a href=/s>Shop</a></ul>"
COOKIES = (
    "<div class='cookie-bar' role=dialog>We use cookies and similar techniques to make this site "
    "better, see <a href=/privacy>privacy</a>. <button>Accept all</button></div>"
)
FOOTER = "<footer><p>© 2026 Nordhaus GmbH. All rights reserved.</p><a href=/i>Imprint</a></footer>"
SHARE = (
    "<div class='share-buttons'><a href=//f>Share on Facebook</a> <a href=//x>Post on X</a></div>"
)
PROSE = "<p>Goods may be sent back within 30 days, in the box in which they came.</p>"
MORE = "<p>The shop pays for the way back when the goods weigh more than 40 kg.</p>" * 3
FRAME = ("Home", "Careers", "cookies", "Accept", "Nordhaus", "Imprint", "Facebook", "Post on X")


def page(html):
    return text_of(html.encode(), "html")


def assert_without_frame(html, *wanted):
    text = page(html)
    assert [word for word in FRAME if word in text] == []
    assert [words for words in wanted if words not in " ".join(text.split())] == []


class TestFrames:
    @pytest.mark.parametrize("main", ["main", "article", "div role=main"])
    def test_the_text_of_a_page_is_in_its_one_main_part(self, main):
        end = main.split()[0]
        html = f"{NAV}{COOKIES}<{main}><h1>Returns</h1>{PROSE}</{end}>{SHARE}{FOOTER}"
        assert page(html) == (
            "# Returns\n\nGoods may be sent back within 30 days, in the box in which they came."
        )

    def test_a_heading_above_the_main_part_is_its_heading(self):
        html = f"<header><h1>Returns</h1>{NAV}</header><main>{PROSE}</main>{FOOTER}"
        assert page(html).startswith("# Returns\n\nGoods")

    @pytest.mark.parametrize(
        "html",
        [
            f"{NAV}{COOKIES}<div id=content><h1>Returns</h1>{PROSE}{MORE}</div>{SHARE}{FOOTER}",
            f"<div>{MENU}</div><h1>Returns</h1>{PROSE}{MORE}{SHARE}<div id=footer>© 2026 Nordhaus "
            "<a href=/i>Imprint</a></div>",
            f"<div id=header><div class=topNav>{MENU}</div></div><div class=content>{PROSE}{MORE}"
            f"</div><div class=sidebar><h3>Pages</h3>{MENU}</div>{FOOTER}",
            f"<table><tr><td width=120>{MENU}<td><h1>Returns</h1>{PROSE}{MORE}</table>",
            f"<a href=#c class=skip-link>x</a><p><a href=/>Home</a> | <a href=/jobs>Careers</a> | "
            f"<a href=/i>Imprint</a></p><h2>Returns</h2>{PROSE}{MORE}",
            f"{NAV}<aside><h2>More</h2>{MENU}</aside><section>{PROSE}</section><section>{MORE}"
            f"</section>{FOOTER}",
        ],
        ids=["blocks", "no names", "old documentation", "tables", "bars", "sections"],
    )  # fmt: skip
    def test_without_a_main_part_menus_notices_and_footers_go(self, html):
        assert_without_frame(html, "within 30 days", "more than 40 kg")

    def test_a_forum_keeps_what_everybody_wrote(self):
        posts = "".join(
            f"<article><header><a href=/u{n}>user {n}</a></header><p>Answer {n} to the question how"
            f" a pump is vented.</p><footer>posted on day {n}</footer></article>"
            for n in range(5)
        )
        html = f"{NAV}<h1>Vent a pump</h1>{posts}{FOOTER}"
        wanted = [f"Answer {n} to the question" for n in range(5)]
        assert_without_frame(html, "Vent a pump", "user 3", "posted on day 4", *wanted)

    def test_a_shop_keeps_its_goods(self):
        cards = "".join(
            f"<li class=card><a href=/p{n}><h3>Pump K-{n}</h3></a><p>{n}0 litres a minute</p>"
            f"<div class=card-footer>{n}99 €</div></li>"
            for n in range(1, 5)
        )
        html = f"{NAV}{COOKIES}<h1>Pumps</h1><ul>{cards}</ul>{FOOTER}"
        assert_without_frame(html, "Pump K-3", "30 litres a minute", "399 €")

    def test_a_menu_inside_of_the_main_part_goes_and_its_links_in_texts_stay(self):
        html = f"<main>{NAV}<h1>Returns</h1>{PROSE}{MENU.replace('Home', 'Form')}</main>"
        text = page(html)
        assert "Home" not in text
        assert "[Form](/)" in text


class TestNothingIsLost:
    @pytest.mark.parametrize(
        "html",
        [
            "<title>Bookmarks</title><h1>Bookmarks</h1><dl><dt><h3>Pumps</h3><dl>"
            "<dt><a href=//a>Maker A</a><dt><a href=//b>Maker B</a><dt><a href=//c>Maker C</a></dl>"
            "</dl>",
            "<h1>Index of /docs</h1><pre><a href=a>a.pdf</a>  2026-01-05\n<a href=b>b.pdf</a>",
            "<ul><li><a href=1>Chapter 1</a><li><a href=2>Chapter 2</a><li><a href=3>Notes</a>",
            "<nav><h1>Contents</h1><ol><li><a href=1>Pumps</a><li><a href=2>Valves</a></ol></nav>",
            "<div class=menu><h2>Menu</h2><ul><li>Soup 5 €<li>Fish 12 €<li>Cake 4 €</ul></div>",
            "<h1>Results</h1>" + "".join(
                f"<div class=result><a href=/{n}>Pump {n}</a> found in catalogue {n}</div>"
                for n in range(9)
            ),
            "<body hidden><p>This page shows itself when its program runs, and never without.</p>",
            "<noscript>Turn on scripts.</noscript>",
            "<div class=cookie-recipe><h1>Cookies</h1><p>Accept no butter older than a week.</div>",
            "<footer>Only a footer</footer>",
        ],
        ids=["bookmarks", "folder", "links", "contents", "menu card", "results", "hidden body",
             "scripts only", "recipe", "footer"],
    )  # fmt: skip
    def test_a_page_that_would_be_left_with_little_stays_whole(self, html):
        soup = BeautifulSoup(html, "lxml")
        before = list(soup.stripped_strings)
        assert leave_out_frame(soup) == 0
        assert list(soup.stripped_strings) == before

    @pytest.mark.parametrize("main", ["<main></main>", "<main>Loading …</main>"])
    def test_a_main_part_without_text_is_not_the_text(self, main):
        assert "within 30 days" in page(f"{NAV}{main}<div>{PROSE}{MORE}</div>")

    def test_what_something_opens_is_not_hidden(self):
        html = (
            f"{PROSE}{MORE}<h3>May I?</h3><div style='display:none'>folded one</div>"
            "<button aria-controls=p2>T</button><p>x<div id=p2 hidden>folded two</div>"
            "<div role=tabpanel hidden>folded three</div><p>y<div hidden=until-found>folded four"
            "</div><details><summary>Why?</summary>folded five</details>"
            "<p>z<div style='DISPLAY : none'>secret one</div><p hidden>secret two</p>"
            "<dialog>secret three</dialog><template>secret four</template>"
            "<noscript>secret five</noscript>"
        )
        text = page(html)
        assert re.findall(r"folded \w+", text) == [
            f"folded {n}" for n in ("one", "two", "three", "four", "five")
        ]
        assert "secret" not in text

    def test_the_link_beside_a_heading_of_a_wiki_is_none_of_it(self):
        edit = "<span class=mw-editsection>[<a href=e>edit</a>]</span>"
        assert page(f"<h2>Pumps{edit}</h2>{PROSE}").startswith("## Pumps\n\nGoods")

    def test_a_part_of_a_shadow_tree_is_shown(self):
        html = "<x-card><template shadowrootmode=open><p>shown</p></template></x-card><p>x"
        assert page(html) == "shown\n\nx"

    def test_prose_in_an_aside_and_a_contact_in_a_header_stay(self):
        html = (
            f"<header>Call 030 1234 at any time of the day.</header>{PROSE}{MORE}"
            "<aside class=sidebar><p>Never open the valve at more than 9 bar; wait until it cools."
            "</aside><div class='note related'>See the drawing of the valve before you begin.</div>"
        )
        text = page(html)
        assert "030 1234" in text
        assert "more than 9 bar" in text
        assert "See the drawing" in text


@pytest.mark.parametrize("kind", ["mail", "book"])
def test_what_comes_in_another_file_has_no_frame(kind):
    html = f"{NAV}<div hidden>unseen</div><main>{PROSE}</main><footer>Kind regards, Ann</footer>"
    if kind == "mail":
        data, file_type = f"Subject: x\nContent-Type: text/html\n\n{html}".encode(), "eml"
    else:
        data, file_type = packed({"a.xhtml": html}), "epub"
    text = text_of(data, file_type)
    assert [w for w in ("Careers", "unseen", "30 days", "Kind regards") if w not in text] == []


WORDS = st.sampled_from(["oil", "belt", "Monday", "M-1", "x", "the valve opens at 9 bar"])
LINK = WORDS.map(lambda word: f"<a href='/{word[0]}'>{word}</a>")
PLAIN = st.one_of(
    WORDS.map(lambda word: f"<p>{word}</p>"),
    WORDS.map(lambda word: f"<h2>{word}</h2>"),
    st.lists(LINK, min_size=1, max_size=5).map(
        lambda links: f"<ul>{''.join(f'<li>{link}</li>' for link in links)}</ul>"
    ),
    st.lists(WORDS, min_size=2, max_size=3).map(
        lambda words: f"<table><tr>{''.join(f'<td>{word}</td>' for word in words)}</tr></table>"
    ),
    WORDS.map(lambda word: f"<details><summary>{word}</summary>{word}</details>"),
    WORDS.map(lambda word: f"<section id={word[0]}><header>{word}</header></section>"),
)
NAMED_LIKE_FRAMES = WORDS.flatmap(
    lambda word: st.sampled_from(
        [f"<aside class=share>{word}</aside>", f"<footer>{word}</footer>",
         f"<div class='cookie menu'>{word}</div>", f"<div id=footer>{word}</div>"]
    )
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(PLAIN | NAMED_LIKE_FRAMES, min_size=1, max_size=8),
    st.sampled_from(["main", "article"]),
    st.lists(st.sampled_from([NAV, COOKIES, FOOTER, SHARE, PROSE, MORE]), max_size=4),
)
def test_no_text_inside_the_main_part_is_lost(texts, name, around):
    inner = f"<{name}>{''.join(texts)}</{name}>"
    wanted = list(BeautifulSoup(inner, "lxml").stripped_strings)
    soup = BeautifulSoup("".join([*around, inner, *around]), "lxml")
    leave_out_frame(soup)
    assert list(soup.find(name).stripped_strings) == wanted


@settings(max_examples=100, deadline=None)
@given(st.lists(PLAIN, max_size=8))
def test_a_page_without_a_frame_stays_as_it_is(texts):
    soup = BeautifulSoup(f"<h1>T</h1>{''.join(texts)}", "lxml")
    before = str(soup)
    assert leave_out_frame(soup) == 0
    assert str(soup) == before
