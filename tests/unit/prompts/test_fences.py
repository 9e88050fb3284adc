"""Fences: normalise, break, name, frame."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.prompts.fences import (
    Source,
    break_tokens,
    frame,
    make_nonce,
    normalise,
    one_line,
    safe_name,
    total_dropped,
)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_every_line_end_becomes_a_newline(end):
    assert normalise(f"a{end}b").text == "a\nb"


@pytest.mark.parametrize(
    ("char", "kind"),
    [
        ("\x00", "control"), ("\x1b", "control"), ("\x9b", "control"), ("\u202e", "bidi"),
        ("\u2066", "bidi"), ("\u200b", "zero_width"), ("\ufeff", "zero_width"),
        ("\U000e0041", "tag"), ("\ufe0f", "variation"), ("\ud800", "surrogate"),
    ],
)  # fmt: skip
def test_invisible_characters_go_and_are_counted(char, kind):
    clean = normalise(f"a{char}b{char}c")
    assert clean.text == "abc"
    assert clean.dropped == {kind: 2}


@pytest.mark.parametrize(
    "text",
    ["می\u200cخواهم", "क्\u200dष", "👩\u200d💻", "👨\u200d👩\u200d👧", "❤\ufe0f", "☎\ufe0e 5",
     "©\ufe0f", "👁\ufe0f\u200d🗨\ufe0f"],
)  # fmt: skip
def test_a_joiner_stays_where_it_is_part_of_a_word_or_a_picture(text):
    assert normalise(text).text == text
    assert normalise(text).dropped == {}


@pytest.mark.parametrize(
    "text", ["ig\u200cnore", "a \u200d b", "\u200cمی", "x\u200d💻", "می\u200c"]
)
def test_anywhere_else_it_goes(text):
    assert normalise(text).dropped == {"zero_width": 1}


@pytest.mark.parametrize(
    "text", ["a\ufe0f", "#\ufe0f\u20e3 TASK", "❤\ufe0f\ufe0f", "\ufe0e", "漢\ufe00"]
)
def test_a_selector_goes_but_for_one_behind_a_picture(text):
    assert normalise(text).dropped == {"variation": 1}


@given(st.text("a❤👩می\u200d\u200c\ufe0f\ufe0e©# ", max_size=12))
def test_what_was_made_clean_stays_as_it_is(text):
    clean = normalise(text)
    assert normalise(clean.text).text == clean.text
    assert len(text) - len(clean.text) == sum(clean.dropped.values())


def test_ordinary_text_stays_whatever_the_script():
    text = "def f(x):\n\treturn x  # ≥ é 漢字 ﬁ ①\n"
    assert normalise(text) == normalise(text)
    assert normalise(text).text == text
    assert normalise(text).dropped == {}


@pytest.mark.parametrize(
    "token",
    ["<|im_start|>", "<|endoftext|>", "[INST]", "[/INST]", "</s>", "<s>", "<<SYS>>", "<</SYS>>",
     "<start_of_turn>", "<end_of_turn>", "<eos>", "<｜begin▁of▁sentence｜>",
     "[source: x, chunk: y]",
     "[ SOURCE : x, chunk: y]"],
)  # fmt: skip
def test_chat_tokens_and_markers_are_broken_visibly(token):
    broken = break_tokens(f"a {token} b")
    assert token not in broken
    assert "·" in broken
    assert broken.replace("·", "") == f"a {token} b"


@pytest.mark.parametrize("code", ["a < b", "x |> f", "a <| b", "list[str]", "[sources]", "<span>"])
def test_code_that_is_no_token_stays(code):
    assert break_tokens(code) == code


def test_nonce_is_pure_and_never_occurs_in_what_it_guards():
    blocks = ["one", "two"]
    nonce = make_nonce(blocks)
    assert re.fullmatch(r"[0-9a-f]{12}", nonce)
    assert make_nonce(blocks) == nonce
    assert make_nonce(["onetwo"]) != nonce
    assert make_nonce(["on", "etwo"]) != nonce


def test_nonce_grows_while_it_occurs(monkeypatch):
    import hashlib

    from ragstream_core.prompts import fences

    real = fences.hashlib.sha256

    class Fixed:
        def __init__(self, *args):
            self.inner = real(*args)

        def update(self, data):
            pass

        def hexdigest(self):
            return "abcdef123456" + "7890" + "f" * 48

    monkeypatch.setattr(fences.hashlib, "sha256", Fixed)
    assert make_nonce(["see ABCDEF123456 here"]) == "abcdef1234567890"
    assert make_nonce(["nothing"]) == "abcdef123456"
    monkeypatch.undo()
    assert hashlib.sha256(b"").hexdigest().startswith("e3b0")


@pytest.mark.parametrize(
    "name", ['a"b.md', "a\nb", "../x", "x" * 999, "é漢" * 90, "", "a b.md", ">>", "\ud800.md"]
)
def test_safe_names_are_safe(name):
    safe = safe_name(name)
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]{1,200}", safe)
    assert not re.search(r"%[0-9A-F]?$", safe)


def test_frame_has_the_documented_form():
    source = Source("a3f1c92b", "docs/a b.md", (3, 9), "f" * 64)
    assert frame(1, "0123456789ab", source=source, text="x\n\n# y") == [
        '<<DOC 1 0123456789ab id="a3f1c92b" source="docs/a%20b.md" span="3-9"'
        ' sha256="ffffffffffff" lines=3>>',
        "| x",
        "| ",
        "| # y",
        "<<END DOC 1 0123456789ab>>",
    ]


def test_one_line_holds_no_line_end_and_no_marker():
    assert one_line("a\n [source: b]\u2028c") == "a [·source: b] c"


def test_dropped_characters_add_up():
    assert total_dropped(["a\u200b", "\u200b\x00"]) == {"zero_width": 2, "control": 1}
