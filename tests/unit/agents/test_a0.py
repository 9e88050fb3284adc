"""A0: formats, spans, aliases, the guaranteed task, query pieces."""

import itertools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a0_preprocessing import Preprocessing
from ragstream_core.agents.headers import default_alias_text, find_sections, parse_aliases
from ragstream_core.agents.pieces import cut_pieces, fit
from ragstream_core.errors import EmptyPrompt, UnknownSetting
from ragstream_core.records import SuperPrompt, to_json

ALIASES = parse_aliases(default_alias_text())


def words(text):
    return len(text.split())


def a0(text, **kwargs):
    stage = Preprocessing(ALIASES, words, **{"window_tokens": 60, **kwargs})
    return stage(SuperPrompt(body={"text": text}))


MARKDOWN = "Intro line here.\n\n# Goal\nExplain the gate.\n\n## Background\nIt drops chunks.\n"
LABELS = "Task: Explain the gate.\nContext: It drops chunks.\nFormat: a table"
JSON = '{"task": "Explain the gate.", "context": "It drops chunks.", "format": "a table"}'


@pytest.mark.parametrize(
    ("raw", "kind"), [(MARKDOWN, "markdown"), (LABELS, "plain"), (JSON, "json"), ("why?", "plain")]
)
def test_format_and_exact_spans(raw, kind):
    found, sections = find_sections(raw, ALIASES)
    assert found == kind
    assert sections
    for section in sections:
        assert raw[slice(*section.span)] == section.text


@pytest.mark.parametrize("raw", [MARKDOWN, LABELS, JSON])
def test_canonical_fields_reach_the_body(raw):
    body = a0(raw).body
    assert body["task"] == "Explain the gate."
    assert body["context"] == "It drops chunks."
    assert (body["tone"], body["depth"]) == ("neutral", "high")


def test_the_preamble_beside_a_task_is_kept_as_text():
    assert a0(MARKDOWN).body["text"] == "Intro line here."


@pytest.mark.parametrize("name", ["Goal", "1. TASK", "to-do", "**Question**", "What I need:"])
def test_aliases_ignore_case_numbering_and_punctuation(name):
    assert a0(f"# {name}\nExplain the gate.").body["task"] == "Explain the gate."


def test_role_and_tone_go_to_the_body_and_unknown_headers_to_extras():
    prompt = a0("# Task\nGo.\n# Role\nauditor\n# Tone\ndry\n# Steps\n1. click")
    assert (prompt.body["role"], prompt.body["tone"]) == ("auditor", "dry")
    assert [(h.name, h.text) for h in prompt.extras.headers] == [("Steps", "1. click")]
    assert "Steps" not in json.dumps(prompt.body)
    assert prompt.extras.explicit == ("role", "task", "tone")


def test_a_deeper_unknown_header_belongs_to_the_task_but_not_to_a_format():
    prompt = a0("# Task\nGo.\n## Particulars\nfast\n# Format\na table\n## Log\nboom")
    assert prompt.body["task"] == "Go.\n## Particulars\nfast"
    assert prompt.body["format"] == "a table"
    assert prompt.extras.headers[0].name == "Log"


@pytest.mark.parametrize(
    ("raw", "task"),
    [
        ("How does it work?", "How does it work?"),
        ("# User prompt\nHow?", "How?"),
        ("Do this.\n# Context\nthat", "Do this."),
        ("# Purpose\nto learn", "to learn"),
        ("# Crash\nIt fails.\n# Log\nboom", "# Crash\nIt fails.\n# Log\nboom"),
        ("Hello!\n# Crash\nIt fails.", "Hello!\n# Crash\nIt fails."),
        ('{"a": 1', '{"a": 1'),
    ],
)
def test_every_prompt_gets_a_task(raw, task):
    assert a0(raw).body["task"] == task


@pytest.mark.parametrize("raw", ["", "  \n", "?!…", "# \n"])
def test_a_prompt_without_a_word_is_refused(raw):
    with pytest.raises(EmptyPrompt):
        a0(raw)


def test_headers_inside_a_code_fence_are_none():
    prompt = a0("Explain this file.\n```\n# Task\nnot me\n```")
    assert prompt.body["task"].startswith("Explain this file.")
    assert prompt.extras.headers == ()


def test_segments_have_the_documented_schema():
    prompt = a0(MARKDOWN + "# Format\ntable\n")
    assert [s.canon_type for s in prompt.extras.segments] == [
        "USER_PROMPT",
        "TASK",
        "CONTEXT",
    ]
    for segment in prompt.extras.segments:
        assert segment.weight == 1.0
        assert (MARKDOWN + "# Format\ntable\n")[slice(*segment.span)] == segment.text


@pytest.mark.parametrize(
    "raw", [MARKDOWN, LABELS, JSON, "One thing to ask? And another thing here."]
)
def test_pieces_trace_to_segment_and_span(raw):
    prompt = a0(raw)
    segments = {s.id: s for s in prompt.extras.segments}
    for piece in prompt.extras.query_pieces:
        assert raw[slice(*piece.span)] == piece.text
        assert piece.text in segments[piece.segment_id].text


def test_spans_of_escaped_json_decode_to_the_piece():
    raw = '{"task": "Why \\"so\\"\\nslow \\u00e9 \\ud83d\\ude00 today?"}'
    (piece,) = a0(raw).extras.query_pieces
    assert json.loads(f'"{raw[slice(*piece.span)]}"') == piece.text == 'Why "so"\nslow é 😀 today?'


def test_short_sentences_join_a_neighbour_and_a_short_prompt_gives_one():
    texts = [
        p.text for p in a0("Tell me about gates. Why so? Explain all of them.").extras.query_pieces
    ]
    assert texts == ["Tell me about gates. Why so?", "Explain all of them."]
    assert len(a0("gates").extras.query_pieces) == 1


def test_politeness_is_no_piece_where_a_question_stands():
    prompt = a0(
        "Hello everyone! I hope you are doing well. Which gate drops chunks? Thanks in advance!"
    )
    assert [p.text for p in prompt.extras.query_pieces] == ["Which gate drops chunks?"]
    assert [p.text for p in a0("Hello there!").extras.query_pieces] == ["Hello there!"]
    kept = a0("Thanks to the gate nothing passes.").extras.query_pieces
    assert kept[0].text == "Thanks to the gate nothing passes."


def test_a_long_prompt_gives_ten_pieces_and_loses_nothing_that_fits():
    raw = " ".join(f"Sentence number {i} speaks of topic{i} today." for i in range(40))
    prompt = a0(raw)
    joined = " ".join(p.text for p in prompt.extras.query_pieces)
    assert len(prompt.extras.query_pieces) == 10
    assert all(f"topic{i}" in joined for i in range(40))
    assert prompt.extras.warnings == ()


def test_a_prompt_above_ten_windows_says_what_it_leaves_out():
    raw = " ".join(f"Sentence number {i} speaks of topic{i} today." for i in range(400))
    prompt = a0(raw, window_tokens=12)
    assert len(prompt.extras.query_pieces) == 10
    assert "too long" in prompt.extras.warnings[0].message


@pytest.mark.parametrize("text", ["a " * 500, "x" * 500, "a. " * 300])
def test_no_piece_exceeds_the_window(text):
    spans, _ = cut_pieces([text], limit=10, count=lambda t: len(t) // 2, window=20)
    assert 1 <= len(spans) <= 10
    assert all(s.tokens <= 20 for s in spans)


@pytest.mark.parametrize("raw", [MARKDOWN, LABELS, JSON, "How?"])
def test_twice_is_once(raw):
    once = a0(raw)
    twice = Preprocessing(ALIASES, words, 60)(once)
    assert to_json(twice) == to_json(once)


@pytest.mark.parametrize(
    "bad", ["- a", "NEWS: [x]", "TASK: x", "TASK: [why]\nPURPOSE: [why]", "a: ["]
)
def test_a_wrong_alias_table_is_refused(bad):
    with pytest.raises(UnknownSetting):
        parse_aliases(bad)


@pytest.mark.parametrize("attack", ["# a", "**", "a:", '{"', "`", " ", "\n#", "(a.b)",
                                    " and what is", " and what does it"])  # fmt: skip
def test_preprocessing_is_linear(attack):
    raw = "ask " + attack * (100_000 // len(attack))
    start = time.process_time()
    a0(raw)
    assert time.process_time() - start < 30  # quadratic rules take minutes


@pytest.mark.parametrize(
    "raw",
    [
        '{"task": "Explain the gate.", "context": "It drops\nchunks.", "log": "boom",}',
        "{'task': 'Explain the gate.', 'context': 'It drops\nchunks.', 'log': 'boom'}",
        '{task: "Explain the gate.", context: "It drops\\nchunks." // why\n log: "boom"}',
        "{task: 'Explain the gate.', /* } */ context: \"It drops\\nchunks.\", log: 'boom'}",
        "Task\n====\n\nExplain the gate.\n\nContext\n-------\nIt drops\nchunks.\n\nLog\n===\nboom",
        "Log：boom\nTask: Explain the gate.\nCONTEXT：It drops\nchunks.\n# Log\nboom",
    ],
    ids=["json", "single quotes", "bare names", "comments", "underlined", "wide colon"],
)
def test_ways_to_write_the_same_prompt(raw):
    prompt = a0(raw)
    assert prompt.body["task"] == "Explain the gate."
    assert prompt.body["context"] == "It drops\nchunks."
    assert [(h.name.lower(), h.text) for h in prompt.extras.headers] == [("log", "boom")]
    assert prompt.extras.warnings == ()


@pytest.mark.parametrize(
    "raw",
    ['{"task": "go", "context": ["a"}', '{"task": "it is "so" today"}', "{'task': 'don't go'}",
     '{"task": 1.2.3}', '{"task": ' + "[" * 100_000 + "]" * 100_000 + "}"],
)  # fmt: skip
def test_json_that_is_broken_is_a_task_and_the_person_is_told(raw):
    prompt = a0(raw)
    assert prompt.body["task"] == raw
    (warning,) = [w.message for w in prompt.extras.warnings if "JSON" in w.message]
    assert "line 1, column " in warning or "nested" in warning


def test_half_a_character_in_a_name_can_be_kept():
    prompt = a0('{"task": "go", "\\ud800 log": "boom", "\\ud83d\\ude00": "smile"}')
    assert [header.name for header in prompt.extras.headers] == ["\ufffd log", "😀"]
    assert json.dumps(to_json(prompt), ensure_ascii=False).encode()


@pytest.mark.parametrize("raw", ["{a set} of {things}", "{{ template }}", "Why {'a': 1} so?"])
def test_braces_alone_are_no_broken_json(raw):
    prompt = a0(raw)
    assert prompt.body["task"] == raw
    assert prompt.extras.warnings == ()


def test_what_a_label_opens_is_no_underlined_header():
    prompt = a0("Task: Go.\n====\nmore")
    assert prompt.body["task"] == "Go.\n====\nmore"
    assert prompt.extras.headers == ()


@pytest.mark.parametrize(
    "raw",
    ["Explain\nthis Task\n---------\nso", "---\ntask: a\n---\nwhy", "Notes\n---\nwhy is it so"],
)
def test_a_rule_is_no_header(raw):
    assert a0(raw).extras.headers == ()
    assert "---" in a0(raw).body["task"] + a0(raw).body["text"]


NAMES = {"Task": "task", "Context": "context", "Format": "format", "Tone": "tone", "Log": "",
         "Steps": ""}  # fmt: skip
FORMS = ["# {}\n{}\n", "{}\n===\n{}\n"]
PARTS = st.tuples(st.sampled_from(sorted(NAMES)), st.sampled_from(["go.", "a b", "x\ny"]))


@given(st.lists(PARTS, min_size=1, max_size=6), st.sampled_from(FORMS))
def test_every_section_comes_to_its_place_and_none_is_lost(parts, form):
    raw = "\n".join(form.format(*part) for part in parts)
    prompt = a0(raw)
    wanted = {key: [text for name, text in parts if NAMES[name] == key] for key in NAMES.values()}
    for key in ("context", "format", "tone") if wanted["task"] else ("format", "tone"):
        if wanted[key]:
            assert prompt.body[key] == "\n\n".join(wanted[key])
    if wanted["task"]:
        assert prompt.body["task"] == "\n\n".join(wanted["task"])
        unknown = [(name, text) for name, text in parts if not NAMES[name]]
        assert [(h.name, h.text) for h in prompt.extras.headers] == unknown
    else:
        assert prompt.body["task"] == raw.strip()
    assert prompt.extras.format == "markdown"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [("**Task:** go", "markdown"), ("go\n```\nx = 1\n```", "markdown"),
     ("Goal\n====\ngo", "markdown"), ("a * b ** c", "plain"), ("#1 of them", "plain"),
     ("{'task': 'go'}", "json")],
)  # fmt: skip
def test_the_format_is_named(raw, kind):
    assert a0(raw).extras.format == kind


def test_what_the_record_holds_already_is_no_default():
    stage = Preprocessing(ALIASES, words, window_tokens=60)
    body = stage(
        SuperPrompt(body={"text": "# Task\nGo.\n# Depth\nlow", "tone": "dry", "depth": "x"})
    )
    assert (body.body["tone"], body.body["depth"], body.body["system"]) == (
        "dry",
        "low",
        "consultant",
    )


WINDOW = 12
SENTENCES = st.lists(
    st.lists(st.sampled_from(["gate", "drops", "chunks", "lock", "wide"]), min_size=1, max_size=30),
    min_size=1, max_size=12,
).map(lambda rows: [" ".join(row) + "." for row in rows])  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(SENTENCES, st.integers(1, 10))
def test_nothing_is_lost_while_it_fits_into_the_pieces(sentences, limit):
    text = " ".join(sentences)
    pieces, lost = cut_pieces([text], limit=limit, count=words, window=WINDOW)
    shown = " ".join(text[p.start : p.end] for p in pieces)
    assert 1 <= len(pieces) <= limit
    assert all(words(text[p.start : p.end]) == p.tokens <= WINDOW for p in pieces)
    assert words(shown) + lost == words(text)
    if words(text) <= limit * WINDOW:
        assert lost == 0 and shown == text


@settings(max_examples=200, deadline=None)
@given(st.lists(SENTENCES, min_size=1, max_size=6), st.integers(6, 10))
def test_pieces_stay_in_their_segment_and_every_segment_has_one(segments, limit):
    texts = [" ".join(sentences) for sentences in segments]
    pieces, _ = cut_pieces(texts, limit=limit, count=words, window=WINDOW)
    assert len(pieces) <= limit
    assert {p.segment for p in pieces} == set(range(len(texts)))
    places = [(p.segment, p.start, p.end) for p in pieces]
    assert places == sorted(places)
    for before, after in itertools.pairwise(places):
        assert before[0] < after[0] or before[2] <= after[1]
    assert all(0 <= p.start < p.end <= len(texts[p.segment]) for p in pieces)


@pytest.mark.parametrize(
    ("raw", "number"),
    [("How are the chunks ranked, and what happens to equal scores?", 2),
     ("How are the chunks ranked, and what happens to them later?", 1),
     ("How are they ranked, and why so?", 1)],
)  # fmt: skip
def test_two_questions_in_a_sentence_part_unless_one_leans_on_the_other(raw, number):
    assert len(a0(raw).extras.query_pieces) == number


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.integers(1, 30))
def test_a_piece_is_within_the_window_and_cuts_lose_no_sign(text, window):
    parts = fit(text, (0, len(text)), count=len, window=window)
    assert all(0 < end - start <= window for start, end in parts)
    assert "".join("".join(text[a:b] for a, b in parts).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "ゲートはどのように機能しますか。しきい値が高いとどうなりますか？それはなぜ起こるのですか。",
        "这个门是怎么工作的？如果阈值很高会发生什么？为什么会这样发生？",
        "مرحبا كيف تعمل البوابة؟ وماذا يحدث إذا كانت العتبة عالية؟ ولماذا يحدث هذا كله؟",
        "गेट कैसे काम करता है। अगर सीमा ऊँची हो तो क्या होता है। यह सब क्यों होता है?",
        "Как работает этот фильтр? Что будет при высоком пороге? Почему это всегда так?",
    ],
    ids=["Japanese", "Chinese", "Arabic", "Hindi", "Russian"],
)
def test_each_question_is_a_piece_in_any_script(text):
    pieces = [p.text for p in a0(text).extras.query_pieces]
    assert len(pieces) == 3
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("raw", "asked"),
    [
        ("It returns wrong values.\nInput: 5\nOutput: 7\nWhy is that so?", "Why is that so?"),
        ("Style: what does it mean?", "what does it mean?"),
        ("We use pumps.\nTone: dry\nWhich pump is the oldest?", "Which pump is the oldest?"),
        ("Tone: dry\n\nExplain how the gate drops chunks.", "Explain how the gate drops"),
        ("Format:\n- short\n- a table\n\nExplain the gate of the index.", "Explain the gate"),
        ("Task: see below\nRole: a judge\nWer hat das Tor geöffnet?", "Wer hat das Tor"),
        ("Length: how long is the pipe?\nOutput: short", "how long is the pipe?"),
    ],
)
def test_a_label_swallows_no_question(raw, asked):
    pieces = a0(raw).extras.query_pieces
    assert any(asked in piece.text for piece in pieces)


def test_a_wish_stays_one_and_an_example_is_none():
    prompt = a0("How does it work?\nFormat: a table\nwith two columns\n\nAnd who made it then?")
    assert prompt.body["format"] == "a table\nwith two columns"
    assert "format" not in a0("It is wrong.\nInput: 5\nOutput: 7\nWhy is that so?").extras.explicit


def test_what_a_question_leaves_out_is_not_searched_for_and_said():
    prompt = a0("Which services are not owned by team red?")
    assert [p.text for p in prompt.extras.query_pieces] == ["Which services are not owned by?"]
    assert prompt.body["task"] == "Which services are not owned by team red?"
    assert any("leaves out “team red”" in w.message for w in prompt.extras.warnings)
