"""Filters in a prompt: what is one, what is none, and what it closes."""

import datetime as dt
import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.filters import read_filters
from ragstream_core.agents.headers import default_alias_text, parse_aliases
from ragstream_core.errors import EmptyPrompt
from ragstream_core.index.rows import FileEntry
from ragstream_core.records import SuperPrompt, to_json

ALIASES = parse_aliases(default_alias_text())
NOW = dt.datetime(2026, 10, 20, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
DAY_NS = 86_400 * 10**9
NOW_NS = int(NOW.timestamp()) * 10**9


def read(raw):
    found = read_filters(raw, ALIASES)
    assert len(found.text) == len(raw)
    return found


def entry(path, age_days=0):
    suffix = path.rsplit(".", 1)[-1]
    return FileEntry(path, "0" * 64, 1, NOW_NS - int(age_days * DAY_NS), suffix, "ingested")


DOCS = {
    "demo/docs/gate.md": entry("docs/gate.md"),
    "demo/docs/old/gate.md": entry("docs/old/gate.md", 40),
    "demo/my notes.txt": entry("my notes.txt", 10),
    "demo/conf/app.yaml": entry("conf/app.yaml", 20),
}


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        ("file:docs/*.md why?", {"file": ("docs/*.md",)}),
        ("why? (see above) file:gate.md.", {"file": ("gate.md",)}),
        ('file:"my notes.txt", why', {"file": ("my notes.txt",)}),
        ("file:'my notes.txt' why", {"file": ("my notes.txt",)}),
        ("file:.\\docs\\gate.md why", {"file": ("docs/gate.md",)}),
        ('why type:"ignore" file:"line"', {"type": ("ignore",), "file": ("line",)}),
        ('why tag:"latest"', {"tag": ("latest",)}),
        ("Type:.MD,yaml why", {"type": ("md", "yaml")}),
        (
            "why since:2026-10-01 tag:GOLD tag:x-1",
            {"since": ("2026-10-01",), "tag": ("GOLD", "x-1")},
        ),
        ("why tag:gold,Blue,Mine", {"tag": ("GOLD", "BLUE", "Mine")}),
        ("# Task\nwhy\ntype:md\n# Format\ntype:txt", {"type": ("md",)}),
        ("type:md\n# Context\nwhy", {"type": ("md",)}),
        ('{"task": "why \\"so\\" file:\\"my notes.txt\\""}', {"file": ("my notes.txt",)}),
    ],
)
def test_filters_are_read_and_blanked(raw, values):
    found = read(raw)
    assert {f.kind: found.values(f.kind) for f in found.filters} == values
    assert not found.warnings
    for one in found.filters:
        shown = raw[slice(*one.span)]
        assert (json.loads(f'"{shown}"') if raw.startswith("{") else shown) == one.written
        assert set(found.text[slice(*one.span)]) == {" "}


@pytest.mark.parametrize(
    "raw",
    [
        "What does `type:md` do?",
        "Explain `ragstream prompt file:a.md` please",
        "Explain\n```\nfile:a.md why\n```\n",
        "In this file: everything. The type: md, since: ever",
        "see https://example.org/file:a.md and std::vector, 12:30, profile:x",
        "# Task\nwhy\n# Log\nfile:a.md failed",
    ],
)
def test_what_is_no_filter_stays_without_a_word(raw):
    found = read(raw)
    assert (found.text, found.filters, found.warnings) == (raw, (), ())


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("why since:yesterday", "since:30d"),
        ("why since:2026-13-01", "since:2026-13-01"),
        ("why since:123456d", "since:30d"),
        ('why file:"my notes', "quoted"),
        ('why file:""', "quoted"),
        ("why file:/etc/passwd", "relative"),
        ("why file:" + "x" * 300, "quoted"),
        ("why type:m-d", "type:md"),
        ("why type:md,", "why"),
        ("why tag:a/b", "tag:GOLD"),
        ("What does a type:ignore comment do in mypy?", 'type:"ignore"'),
        ("Which field has type:string in the schema?", 'type:"string"'),
        ("How is file:line printed?", 'file:"line"'),
        ("What does the tag:latest mean?", 'tag:"latest"'),
        ("why files:a.md", "no filter 'files'"),
        ("why before:2026-10-01", "no filter 'before'"),
    ],
)
def test_a_malformed_or_unknown_one_is_warned_about_and_left(raw, word):
    found = read(raw)
    if raw == "why type:md,":  # the comma belongs to the sentence
        assert found.values("type") == ("md",)
        return
    assert (found.text, found.filters) == (raw, ())
    assert len(found.warnings) == 1 and word in found.warnings[0]
    assert len(found.warnings[0]) < 400


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ("file:docs/gate.md", ["docs/gate.md"]),
        ("file:gate.md", ["docs/gate.md", "docs/old/gate.md"]),
        ("file:docs/old", ["docs/old/gate.md"]),
        ("file:demo/conf/*", ["conf/app.yaml"]),
        ("file:*.md file:*.txt", ["docs/gate.md", "docs/old/gate.md", "my notes.txt"]),
        ("file:*.md type:yaml", []),
        ("type:md,txt since:2w", ["docs/gate.md", "my notes.txt"]),
        ("since:2026-09-30", ["docs/gate.md", "my notes.txt", "conf/app.yaml"]),
        ("since:240h", ["docs/gate.md", "my notes.txt"]),
        ("since:30d since:5d", ["docs/gate.md"]),
        ("tag:GOLD", ["docs/gate.md", "docs/old/gate.md", "my notes.txt", "conf/app.yaml"]),
    ],
)
def test_which_documents_are_left(filters, left):
    closed = read(f"why {filters}").closed(DOCS, NOW)
    assert {name.removeprefix("demo/") for name in DOCS.keys() - closed} == set(left)


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("glob", ["über.md", "docs/ü*", "Größe"])
def test_a_name_with_accents_is_left_however_they_are_written(glob, written):
    row = next(iter(DOCS.values()))
    paths = ["docs/u\u0308ber.md", "docs/über.md", "Gro\u0308ße/a.md"]
    docs = {f"demo/{path}": replace(row, path=path) for path in paths}
    left = docs.keys() - read(f"why file:{unicodedata.normalize(written, glob)}").closed(docs, NOW)
    wanted = paths[2:] if glob == "Größe" else paths[:2]
    assert left == {f"demo/{path}" for path in wanted}


def test_a_date_begins_at_its_midnight_in_the_prompts_zone():
    midnight = int(dt.datetime(2026, 10, 20, tzinfo=NOW.tzinfo).timestamp()) * 10**9
    docs = {
        f"demo/{name}.md": FileEntry(f"{name}.md", "", 1, ns, "md", "ingested")
        for name, ns in (("before", midnight - 1), ("after", midnight))
    }
    assert read("why since:2026-10-20").closed(docs, NOW) == {"demo/before.md"}


@pytest.mark.parametrize(
    ("filters", "tags", "since", "changes"),
    [
        ("type:md", (), "", {}),
        ("tag:GOLD", (), "", {"history.tags": ("GOLD",)}),
        ("tag:GOLD tag:RED", ("RED", "BLACK"), "", {"history.tags": ("RED",)}),
        ("tag:GOLD", ("RED",), "", {"history.enabled": False}),
        ("since:30d", (), "", {"history.since": "2026-09-20T00:00:00+02:00"}),
        ("since:2w", (), "2026-10-01", {"history.since": "2026-10-06T00:00:00+02:00"}),
        ("since:30d", (), "2026-10-13", {"history.since": "2026-10-13"}),
        ("since:12h", (), "", {"history.since": "2026-10-20T00:00:00+02:00"}),
        ("since:2027-01-01", (), "", {"history.since": "2027-01-01T00:00:00+02:00"}),
    ],
)
def test_the_conversation_is_narrowed_never_widened(filters, tags, since, changes):
    assert read(f"why {filters}").past(tags, since, NOW) == changes


UNITS = {"h": "%Y-%m-%d %H", "d": "%Y-%m-%d", "w": "%Y-%m-%d"}


@given(
    st.sampled_from(sorted(UNITS)),
    st.integers(0, 400),
    st.integers(0, 3 * 86_400),
    st.integers(0, 3 * 86_400),
)
def test_an_age_begins_at_the_same_time_all_day_or_all_hour(unit, age, first, later):
    asked = read(f"why since:{age}{unit}")
    one, other = (NOW + dt.timedelta(seconds=s) for s in (first, later))
    alike = one.strftime(UNITS[unit]) == other.strftime(UNITS[unit])
    assert (asked.since(one) == asked.since(other)) is alike
    whole = (
        dt.timedelta(hours=age) if unit == "h" else dt.timedelta(days=age * (1 + 6 * (unit == "w")))
    )
    spare = dt.timedelta(hours=1 if unit == "h" else 24)
    assert whole <= one - asked.since(one) < whole + spare


def a0(raw, **kwargs):
    stage = Preprocessing(ALIASES, lambda text: len(text.split()), window_tokens=60, **kwargs)
    return stage(SuperPrompt(body={"text": raw}))


def notes(prompt, kind):
    return " | ".join(row.message for row in getattr(prompt.extras, kind))


def test_a0_searches_without_the_filters_and_says_so():
    raw = "type:md How does the gate drop chunks? file:gate.md since:soon"
    prompt = a0(raw, left=3)
    assert " ".join(prompt.body["task"].split()) == "How does the gate drop chunks? since:soon"
    assert "md" not in str(prompt.extras.query_pieces)
    assert prompt.extras.raw_text == raw
    assert [f.written for f in prompt.extras.filters] == ["type:md", "file:gate.md"]
    assert "filters: type:md file:gate.md; 3 documents left" in notes(prompt, "events")
    assert "'since:soon' is left in the text" in notes(prompt, "warnings")
    again = Preprocessing(ALIASES, lambda text: len(text.split()), window_tokens=60, left=3)(prompt)
    assert to_json(again) == to_json(prompt)


def test_filters_that_no_document_fits_are_a_warning():
    assert "no document fits type:rs" in notes(a0("why so type:rs", left=0), "warnings")


def test_a_prompt_of_filters_alone_is_refused():
    with pytest.raises(EmptyPrompt, match="only filters"):
        a0("type:md since:30d")


def test_a_task_that_holds_only_filters_falls_back_to_the_next_section():
    prompt = a0("# Task\ntype:md\n# Purpose\nUnderstand the gate.")
    assert prompt.body["task"] == "Understand the gate."
