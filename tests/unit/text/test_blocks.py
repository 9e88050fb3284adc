import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.text.blocks import Markup
from ragstream_core.text.chunk_profiles import chunk_profile
from ragstream_core.text.chunker import Chunker


def plain(text):
    return Markup(text).without(0, len(text))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("# Title #", "Title"),
        ("### Deep", "Deep"),
        ("Title\n=====\nbody", "Title\nbody"),
        ("a **bold** b", "a bold b"),
        ("a *it* b _u_ c __s__ ~~d~~", "a it b u c s d"),
        ("***both***", "both"),
        ("**over\ntwo lines**", "over\ntwo lines"),
        ("`code` and ``more``", "code and more"),
        ("`a * b`", "a * b"),
        ("[label](http://x.y/z_w)", "label"),
        ("![alt](pic.png)", "alt"),
        ("[**bold** label](x)", "bold label"),
        ("* item\n- item\n+ item", "item\nitem\nitem"),
        ("- [x] done", "done"),
        ("1. first", "1. first"),
        ("> quoted\n> > twice", "quoted\ntwice"),
        ("above\n\n---\n\nbelow", "above\n\n\nbelow"),
        ("| a | b |\n|---|:-:|\n| 1 | **2** |", "a\tb\n1\t2"),
        ("```py\n# keep *this*\n```\nafter", "# keep *this*\nafter"),
        ("~~~\n**x**\n~~~", "**x**"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
        ('exclude: ["**/*.md", "a/**"]', 'exclude: ["**/*.md", "a/**"]'),
        (r"\*literal\* \# not", "*literal* # not"),
        ("line<br>break <b>x</b>", "linebreak x"),
        ("a < b and c > d", "a < b and c > d"),
    ],
)
def test_markup_goes_and_words_stay(source, words):
    assert plain(source) == words


@given(st.text(alphabet="ab *_`#>|-[]()!\\~\n<", max_size=80))
def test_only_markup_and_breaks_go(text):
    letters = re.sub(r"[^ab]", "", text)
    kept = re.sub(r"[^ab]", "", plain(text))
    # targets of links and tags are markup as well
    assert len(kept) <= len(letters)
    if not re.search(r"[\[<]|[`~]{3}", text):
        assert kept == letters


@given(st.text(alphabet="ab *_`#>|-\n", max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_part_is_a_part_of_the_whole(text, start, end):
    start, end = sorted((min(start, len(text)), min(end, len(text))))
    said = Markup(text).without(start, end)
    assert set(re.sub(r"\s", "", said)) <= set(re.sub(r"\s", "", text[start:end]))


PAGE = "# Guide\n\n" + "\n\n".join(
    f"## Part {n}\n\n* An **important** point about `thing_{n}`, see [there](x.md).\n"
    + "Some prose that makes it longer, with *stress* on words. " * 12
    for n in range(8)
)


def test_chunks_have_no_markup_and_their_spans_are_of_the_source():
    stripped = Chunker(chunk_profile("default"), strip_markdown=True)
    usual = Chunker(chunk_profile("default"))
    pieces = stripped.chunk(PAGE, file_type="md")
    assert [(p.start, p.end, p.heading) for p in pieces] == [
        (p.start, p.end, p.heading) for p in usual.chunk(PAGE, file_type="md")
    ]
    for piece in pieces:
        assert not set("#*`[]") & set(piece.chunk_text)
        source = re.sub(r"\W+", " ", PAGE[piece.start : piece.end]).split()
        words = re.sub(r"\W+", " ", piece.chunk_text).split()
        assert [w for w in source if w not in ("x", "md")] == words
    assert [p.chunk_idx for p in pieces] == list(range(len(pieces)))


def test_it_is_part_of_the_fingerprint_and_other_types_are_left_alone(bench):
    stripped = Chunker(chunk_profile("default"), strip_markdown=True)
    assert stripped.version != Chunker(chunk_profile("default")).version
    assert stripped.chunk("# not a heading", file_type="txt")[0].chunk_text == "# not a heading"
    bench.write("a.md", "# Head\n\n**bold** words")
    bench.run()
    stats = bench.manager(chunkers=lambda _: stripped).run(
        bench.project, __import__(
            "ragstream_core.ingestion.ingestion_config", fromlist=["x"]
        ).IngestionConfig(strip_markdown=True)
    )  # fmt: skip
    assert stats.committed
    view = bench.fresh_view()
    (chunk,) = view.chunks(view.chunk_ids)
    assert (chunk.snippet, chunk.span) == ("Head\n\nbold words", (0, 22))


def test_a_row_of_empty_cells_is_told_from_a_rule_at_once():
    row = "| -- " + ("|" + " " * 12) * 20 + "| 12 |"
    text = f"| a | b |\n|---|---|\n{row}\n"
    assert Markup(text).without(0, len(text)).split() == ["a", "b", "--", "12"]
    for rule in ("|---|", "| :--: | --: |", "--|--", "|--|  |:|", "--- | -"):
        assert Markup(rule).without(0, len(rule)) == "", rule
