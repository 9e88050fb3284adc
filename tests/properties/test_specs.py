"""Laws of test specifications: ids, verbatim quotes, Markdown that gives back what it holds."""

import re
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from ragstream_core.records import Chunk
from ragstream_core.testspecs import markdown, specification
from ragstream_core.testspecs.deterministic import Sentence, drafted, statement
from ragstream_core.testspecs.identifiers import IdFormat, id_pattern
from ragstream_core.testspecs.requirements import Document, documents_of, find
from ragstream_core.testspecs.specification import COVERED, GONE, Coverage, covered
from ragstream_core.testspecs.specification import Specification as Spec

_BLOCK = re.compile(r"(?ms)^(`{3,})(\w*)\n(.*?)\n\1$")

PATTERN = id_pattern(r"[A-Z]{1,6}-\d{1,5}")
literal = st.from_regex(r"[A-Za-z._-]{0,6}", fullmatch=True)
formats = st.builds(IdFormat, before=literal, width=st.integers(1, 9), after=literal)
hostile = st.sampled_from(
    ["## TC-001: x", "```", "````\nx\n```json\n{}\n```", "![x](http://a/b.png)", "a|b", "`", "\\|",
     "Requirements: `R-9`", "<script>", "\n", "# ", "| R-3 | must |", "~~~", "  "]
)  # fmt: skip
plain = st.sampled_from(
    ["R-1", "R-22", "UTF-8", "AB-3.4", " must ", "The lock", " when ", ", ", ". ", ": ", "\n\n",
     "\n- ", "\n| ", " | ", "\n# ", " shall return ", "If ", "```\n", "stays", "é", "\t", "**"]
)  # fmt: skip
texts = st.lists(st.one_of(plain, hostile), max_size=30).map("".join)
quotes = st.one_of(texts, st.text(max_size=60)).filter(lambda text: 0 < len(text) <= 900)


@given(formats, st.integers(1, 10**8))
def test_a_number_comes_back_from_its_id(made, number):
    assert made.number(made.make(number)) == number
    assert re.fullmatch(r"[A-Za-z0-9._-]+", made.make(number))


@given(formats, st.sets(st.integers(1, 60)), st.integers(0, 60))
def test_fresh_ids_are_new_ascending_and_of_the_format(made, numbers, start):
    taken = {made.make(number) for number in numbers}
    fresh = made.fresh(taken, start)
    ids = [next(fresh) for _ in range(20)]
    counted = [made.number(one) for one in ids]
    assert not taken & set(ids) and counted == sorted(set(counted))
    assert counted[0] >= (start or max(numbers, default=0) + 1)


@given(texts)
def test_what_is_found_stands_in_the_text(text):
    document = Document("a.md", "md", text)
    found = find([document], PATTERN)
    for one in found.definitions:
        assert one.ids and one.title
        for name in one.ids:
            assert name in document.at(one.span)
        for span in (*one.sentences, *one.checks):
            assert one.span[0] <= span[0] < span[1] <= one.span[1]
            assert document.at(span) == document.at(span).strip()
    spans = [one.span for one in found.definitions]
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    for name, places in found.mentions.items():
        assert all(name in document.at(place.span) for place in places)
    assert set(found.ids) <= {match[0] for match in PATTERN.finditer(text)}
    assert find([document], PATTERN) == found


@given(texts)
def test_a_statement_is_made_of_the_sentences_own_words(text):
    found = statement(text)
    if found is not None:
        assert all(part in text for part in (found.given, found.when, found.subject, found.then))
        assert found.then


@given(texts, st.lists(st.tuples(st.integers(0, 200), st.integers(1, 80)), max_size=8))
def test_chunks_give_the_text_back_where_they_lie(text, cuts):
    chunks = []
    for n, (start, length) in enumerate(cuts):
        end = min(len(text), start + length)
        if start < end:
            meta = {"file_type": "md"}
            chunks.append(
                Chunk(f"a.md::{'0' * 64}::{n}", "a.md", text[start:end], (start, end), meta)
            )
    for document in documents_of(chunks):
        assert all(document.at(chunk.span) == chunk.snippet for chunk in chunks)


def source(quote):
    return specification.Source(
        "[source: a.md, chunk: 0a1b2c3d]", "a.md::0::0", "", "a.md", (1, 2), 0, quote
    )


@st.composite
def sentences(draw):
    found = draw(st.lists(st.tuples(quotes, st.booleans()), min_size=1, max_size=20))
    return [Sentence(source(quote), is_check) for quote, is_check in found]


@given(sentences())
def test_every_expected_result_is_a_quotation(given_):
    case = drafted(("R-1",), "Locks", given_, form_notes=())
    if case is None:
        assert not any(one.is_check for one in given_)
        assert not any(statement(one.source.quote) for one in given_)
        return
    assert len(case.actions) == len(case.expected) and case.requirements == ("R-1",)
    for then in case.expected:
        assert any(then in one.quote for one in case.sources)
    assert {one.quote for one in case.sources} <= {one.source.quote for one in given_}
    assert specification.case_from(specification.case_json(case)) == case


@st.composite
def written(draw):
    quote = draw(quotes)
    words = st.one_of(quotes, st.just("none stated"))
    steps = draw(st.integers(1, 4))
    return specification.TestCase(
        id="",
        title=draw(quotes),
        precondition=draw(words),
        actions=tuple(draw(quotes) for _ in range(steps)),
        expected=tuple(draw(quotes) for _ in range(steps)),
        postcondition=draw(words),
        requirements=tuple(draw(st.lists(st.sampled_from(["R-1", "R-2", "AB-3"]), min_size=1,
                                         max_size=3, unique=True))),
        sources=(source(quote), *(source(q) for q in draw(st.lists(quotes, max_size=2)))),
        quote=quote,
        notes=tuple(draw(st.lists(quotes, max_size=2))),
    )  # fmt: skip


def whole(spec, sections):
    return markdown.document(spec, sections)


@given(st.lists(written(), max_size=4), st.booleans())
@example([], True)
def test_markdown_gives_back_its_sections_and_its_json(drafts, embed):
    made = [replace(case, id=f"TC-{n:03d}") for n, case in enumerate(drafts, start=1)]
    sections = [markdown.section(case, embed_json=embed) for case in made]
    rows = tuple(Coverage(name, "a.md:1", (), "x", "words") for name in ("R-1", "R-2"))
    spec = Spec("demo", 1, "0" * 64, "[A-Z]+", tuple(made),
                covered(rows, {one.id: one.requirements for one in sections}))  # fmt: skip
    text = whole(spec, sections)
    assert markdown.sections_of(text) == sections
    json = [found[3] for found in _BLOCK.finditer(text) if found[2] == "json"]
    assert [specification.case_from(one) for one in json] == (made if embed else [])
    assert whole(spec, markdown.sections_of(text)) == text


@given(st.dictionaries(st.sampled_from(["TC-1", "TC-2", "TC-3"]),
                       st.lists(st.sampled_from(["R-1", "R-2", "R-9"]), unique=True)))  # fmt: skip
def test_coverage_names_each_requirement_once_with_all_its_cases(named):
    table = covered([Coverage("R-1", "", (), "x"), Coverage("R-2", "", (), "x")], named)
    assert len({row.requirement for row in table}) == len(table)
    pairs = {(row.requirement, case) for row in table for case in row.cases}
    assert pairs == {(name, case) for case, names in named.items() for name in names}
    for row in table:
        assert row.state == (GONE if row.requirement == "R-9" else COVERED if row.cases else "x")
