"""What a terminal is given of an answer: its text and colours, never a command to the terminal."""

import contextlib
import io
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from ragstream_app.cli.chat.screens import AnswerMarkdown, Coming, picked
from ragstream_app.output.explain import print_explained
from ragstream_core.prompts.explain import Way
from ragstream_core.records import Decision
from tests.app.hostile_answers import PAYLOADS

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\n\n".join(PAYLOADS) + "\x1b]8;;http://tracker.invalid\x07x\x1b[2J\x9b2J\x08\x7f\r"
TEXT = st.text() | st.lists(st.sampled_from([*PAYLOADS, "\x1b[", "\x9b", "\n", "`", "*"])).map(
    "".join
)


def shown(renderable) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=60, height=20)
    console.print(renderable)
    return out.getvalue()


def steers(text: str) -> list[str]:
    """Return what is left of control characters without colours and line ends."""
    return re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", COLOUR.sub("", text))


@settings(deadline=None)
@example(HOSTILE)
@given(TEXT)
def test_an_answer_never_steers_the_terminal(text):
    assert steers(shown(AnswerMarkdown(text))) == []


@settings(deadline=None)
@example(HOSTILE)
@given(TEXT)
def test_an_answer_on_its_way_never_does_and_fits_the_screen(text):
    coming = Coming()
    coming.words(text)
    drawn = shown(coming)
    assert steers(drawn.replace("\t", "")) == [] and drawn.count("\n") <= 20


@settings(deadline=None)
@given(st.lists(st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=12)))
def test_the_words_of_an_answer_are_all_shown(words):
    drawn = re.sub(r"\s+", "", COLOUR.sub("", shown(AnswerMarkdown(" ".join(words)))))
    assert "".join(words) in drawn or not words


def test_a_model_is_picked_by_number_by_name_or_not_at_all(monkeypatch):
    typed = iter(["0", "x", "2", "beta", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    console = Console(file=io.StringIO())
    assert [picked(console, ["alpha", "beta"], "alpha") for _ in range(3)] == [
        "beta",
        "beta",
        "alpha",
    ]


@given(st.lists(st.booleans(), max_size=30), st.none() | st.integers(0, 12))
def test_a_chat_shows_all_that_is_in_a_prompt_and_the_first_of_the_rest(kept, most_out):
    ids = [f"p/f{n}.md::{n:064x}::{n}" for n in range(len(kept))]
    ways = [Way(i, there, [Decision("a3", i, 1, 0.0, there, "gate", "far")])
            for i, there in zip(ids, kept, strict=True)]  # fmt: skip
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        print_explained("k" * 12, ways, locked=False, detailed=False, most_out=most_out)
    lines = out.getvalue().splitlines()
    dropped = kept.count(False)
    shown = dropped if most_out is None else min(dropped, most_out)
    assert sum(line.startswith("in ") for line in lines) == kept.count(True)
    assert sum(line.startswith("out") for line in lines) == shown
    assert any(f"{dropped - shown} more" in line for line in lines) is (dropped > shown)
