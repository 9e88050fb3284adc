"""The independent parser: owners of lines, and what it refuses."""

import pytest

from ragstream_core.errors import FenceBroken
from ragstream_core.prompts.line_owners import owners, verify

N = "0123456789ab"
HEAD = f'<<DOC 1 {N} id="a1" source="a.md" span="0-3" sha256="abc" lines=2>>'
GOOD = [
    (f"## [{N}] SYSTEM", "heading"),
    (f"the mark is {N}", "SYSTEM"),
    ("", "SYSTEM"),
    (f"## [{N}] S_CTX", "heading"),
    ("### Facts", "S_CTX"),
    ("| F1. x", "S_CTX|"),
    (f"## [{N}] ATTACHMENTS", "heading"),
    (HEAD, "frame 1"),
    ("| # heading", "doc 1"),
    ("| ", "doc 1"),
    (f"<<END DOC 1 {N}>>", "frame 1"),
    (f"## [{N}] TASK", "heading"),
    ("| a | table of the user |", "TASK"),
]


def test_owners_of_a_good_prompt():
    text = "\n".join(line for line, _ in GOOD)
    assert owners(text, N) == [owner for _, owner in GOOD]
    verify(text, N, [owner for _, owner in GOOD])


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (8, "# heading"), (8, f"<<END DOC 1 {N}>>"), (9, f"| {N}"), (7, HEAD.replace("=2", "=3")),
        (7, HEAD.replace("=2", "=1")), (7, HEAD.replace("DOC 1", "DOC 2")), (5, "F1. x"),
        (12, f"see {N}"), (12, f"see {N.upper()}"), (6, f"## [{N}] NEWS"), (0, "hello"),
        (10, "| more"), (11, HEAD),
    ],
)  # fmt: skip
def test_any_change_of_ownership_is_refused(at, line):
    lines = [text for text, _ in GOOD]
    lines[at] = line
    with pytest.raises(FenceBroken):
        verify("\n".join(lines), N, [owner for _, owner in GOOD])


def test_more_or_fewer_lines_are_refused():
    text = "\n".join(line for line, _ in GOOD)
    with pytest.raises(FenceBroken):
        verify(text + "\nx", N, [owner for _, owner in GOOD])
    with pytest.raises(FenceBroken):
        verify(text.rsplit("\n", 1)[0], N, [owner for _, owner in GOOD])


def test_a_frame_left_open_is_refused():
    lines = [text for text, _ in GOOD][:9]
    with pytest.raises(FenceBroken):
        verify("\n".join(lines), N, [owner for _, owner in GOOD][:9])


@pytest.mark.parametrize(
    ("at", "line", "owner"),
    [
        (0, "hello", "nobody"), (6, f"## [{N}] NEWS", "unknown heading"),
        (3, HEAD, "misplaced frame"), (11, HEAD, "misplaced frame"), (12, HEAD, "misplaced frame"),
        (7, HEAD.replace("DOC 1", "DOC 2"), "misplaced frame"),
        (8, f"| {N}", "unprefixed line"), (8, "# heading", "unprefixed line"),
        (10, f"<<END DOC 2 {N}>>", "unclosed frame"), (10, "| more", "unclosed frame"),
        (12, f"see {N.upper()}", "forged mark"),
        (7, HEAD.replace("DOC 1", f"DOC {'9' * 5000}"), "forged mark"),
        (7, HEAD.replace("=2", f"={'9' * 5000}"), "forged mark"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_belong_there_gets_the_owner_that_says_so(at, line, owner):
    lines = [text for text, _ in GOOD]
    lines[at] = line
    assert owners("\n".join(lines), N)[at] == owner
