"""Laws of A0 over any text: spans slice what they say, filters only ever narrow."""

import datetime as dt
import json
import string

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.filters import Filtered, read_filters
from ragstream_core.agents.headers import default_alias_text, find_sections, parse_aliases
from ragstream_core.conversations.journal.records import moment_ns
from ragstream_core.errors import EmptyPrompt
from ragstream_core.index.rows import FileEntry
from ragstream_core.records import SuperPrompt

ALIASES = parse_aliases(default_alias_text())
NOW = dt.datetime(2026, 10, 20, 12, tzinfo=dt.UTC)
FILTERS = ["file:*.md", "file:'a b.txt'", "type:md", "type:txt,md", "since:30d", "since:2026-10-01",
           "tag:GOLD", "tag:RED", "since:never", "files:x", 'file:"open']  # fmt: skip
WORDS = st.sampled_from(
    [*FILTERS, "# Task", "## Log", "Context:", "```", "`", "\n", "\n\n", "why?", "The gate drops.",
     "\n\nTitle\n===\n", "\n\nTask\n---\n", "\n===\n", '{"a": 1', "}",
     '"', "\\", "é😀", "\r\n", "- item", "Hello!"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(WORDS, st.text(max_size=12)), max_size=14).map(" ".join)
VALUES = st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=5).map(" ".join)
NAMES = st.sampled_from(["task", "context", "format", "log", "Goal", "é\n"])
OBJECTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)


def preprocess(raw):
    stage = Preprocessing(ALIASES, lambda text: len(text.split()), window_tokens=40)
    return stage(SuperPrompt(body={"text": raw}))


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_section_spans_slice_the_raw_text(raw):
    kind, sections = find_sections(raw, ALIASES)
    for section in sections:
        if kind != "json" or not section.offsets:
            assert raw[slice(*section.span)] == section.text
    edges = [offset for section in sections for offset in section.span]
    assert edges == sorted(edges)


@settings(max_examples=300, deadline=None)
@given(OBJECTS, st.booleans(), st.sampled_from(["", ","]), st.sampled_from([None, 2]))
def test_json_like_prompts_are_found_and_their_spans_decode(members, ascii_only, comma, indent):
    raw = json.dumps(members, ensure_ascii=ascii_only, indent=indent)
    raw = raw[:-1] + comma + "}"
    kind, sections = find_sections(raw, ALIASES)
    assert kind == "json"
    assert [s.text for s in sections] == [v for v in members.values() if v.strip()]
    for section in sections:
        shown = raw[slice(*section.span)]
        assert json.loads(f'"{shown}"') == section.text
        middle = len(section.text) // 2
        for start, end in ((0, middle), (middle, len(section.text))):
            part = raw[slice(*section.raw_span(start, end))]
            assert json.loads(f'"{part}"') == section.text[start:end]


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_filters_leave_every_other_character_and_every_span_true(raw):
    found = read_filters(raw, ALIASES)
    covered = {i for f in found.filters for i in range(*f.span)}
    assert [c for i, c in enumerate(found.text) if i not in covered] == [
        c for i, c in enumerate(raw) if i not in covered
    ]
    assert all(found.text[i] == " " for i in covered)
    try:
        prompt = preprocess(raw)
    except EmptyPrompt:
        return
    for row in [*prompt.extras.segments, *prompt.extras.query_pieces]:
        shown = found.text[slice(*row.span)]
        assert shown == row.text or json.loads(f'"{shown}"') == row.text


CODE = st.sampled_from(
    ["```\n{}\n```", "```yaml\n{}\n```", "~~~\n```\n{}\n~~~", "````\n```\n{}\n```\n````", "```\n{}",
     "`{}`", "``  {} ``", "\n\n    {}\n\n", "\n \n\t{}\n", "\n\n    x = 1\n\n        {}\nso\n",
     "https://x.org/?q={}", "({}", "a/{}"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(CODE, st.sampled_from(FILTERS), st.sampled_from(["Why?", "# Task\nWhy?", "# Log\nboom"]))
def test_in_code_and_addresses_nothing_is_a_filter(code, written, before):
    raw = f"{before}\n{code.replace('{}', written)}"
    assert read_filters(raw, ALIASES) == Filtered(raw)
    if code != "```\n{}" and not before.startswith("# Log"):
        assert len(read_filters(f"{raw}\ntype:md", ALIASES).filters) == 1


DOCS = {
    f"demo/{stem}.{kind}": FileEntry(
        f"{stem}.{kind}", "", 1, (1_760_000_000 + i * 10**7) * 10**9, kind, "ingested"
    )
    for i, (stem, kind) in enumerate([("a b", "txt"), ("c", "md"), ("d/e", "md"), ("f", "yaml")])
}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FILTERS), max_size=4), st.sampled_from(FILTERS))
@example(["since:30d", 'file:"open', "file:*.md"], 'file:"open')
def test_a_filter_of_another_kind_never_opens_a_document(written, more):
    before = read_filters(" ".join(["why", *written]), ALIASES)
    after = read_filters(" ".join(["why", *written, more]), ALIASES)
    assume(after.filters[: len(before.filters)] == before.filters)  # `more` may close a quote
    kinds = {f.kind for f in before.filters}
    if after.filters[-1:] and after.filters[-1].kind not in kinds - {"since"}:
        assert before.closed(DOCS, NOW) <= after.closed(DOCS, NOW)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(FILTERS), max_size=4),
    st.lists(st.sampled_from(["GOLD", "RED", "BLACK"]), unique=True),
    st.sampled_from(["", "2026-10-19", "2026-10-01T08:00+02:00", "2020-02-02"]),
)
def test_the_conversation_never_gets_wider(written, tags, since):
    changes = read_filters(" ".join(["why", *written]), ALIASES).past(tags, since, NOW)
    if tags and "history.tags" in changes:
        assert set(changes["history.tags"]) <= set(tags)
    if since:
        assert moment_ns(changes.get("history.since", since)) >= moment_ns(since)
    assert changes.get("history.enabled", False) is False


@settings(max_examples=200, deadline=None)
@given(st.text(string.ascii_letters + " :,.'\"`\\*/\n", max_size=80))
def test_any_text_is_read(raw):
    assert len(read_filters(f"file:{raw}", ALIASES).text) == len(raw) + 5
