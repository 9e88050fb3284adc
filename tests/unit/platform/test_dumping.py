"""Values as text: bounded, one line, the same each time, without secrets, whatever they are."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.secrets import find_secrets, redact
from ragstream_core.platform.debug_log import ELLIPSIS, HIDDEN, Redactor, about, dump

PLAIN = Redactor((), lambda text: text)
SECRETS = Redactor(["S3CRET-value"], lambda text: redact(text, find_secrets(text)))


class Broken:
    def __repr__(self):
        raise RuntimeError("no repr")


class Unsized(list):
    def __len__(self):
        raise OSError("gone")

    def __iter__(self):
        raise OSError("gone")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=30) | st.binary(max_size=9)
    | st.builds(Broken) | st.builds(object) | st.builds(np.arange, st.integers(0, 9)),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=5)
    | st.tuples(inner, inner),
    max_leaves=12,
)  # fmt: skip


@given(value=values, limit=st.integers(1, 60))
def test_laws(value, limit):
    line = dump(value, limit, PLAIN)
    assert line == dump(value, limit, PLAIN)
    assert len(line.splitlines()) <= 1 and line.isprintable()
    head, cut, _ = line.partition(f"{ELLIPSIS} (len=")
    assert len(head) <= limit if cut else len(line) <= limit
    assert " at 0x" not in line and about(value).isprintable()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii")),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text(st.characters(codec="ascii")), inner, max_size=4)
        ),
        max_leaves=9,
    ).filter(lambda value: not isinstance(value, str))
)
def test_what_json_can_say_is_json(value):
    line = dump(value, 100_000, PLAIN)
    if "\x7f" not in json.dumps(value, ensure_ascii=False):  # the one that JSON lets through
        assert json.loads(line) == value


@pytest.mark.parametrize(
    ("value", "shown", "kind"),
    [
        ({"b": 1, "a": [True, None]}, '{"b": 1, "a": [true, null]}', "dict of 2"),
        ((1, "x"), '[1, "x"]', "tuple of 2"),
        ({3, 1, 2}, "[1, 2, 3]", "set of 3"),
        ({1: "x"}, '{"1": "x"}', "dict of 1"),
        ("two\nlines\t\x1b[31m", "two\\nlines\\t\\x1b[31m", "str of 15"),
        (b"\x00ab", "b'\\x00ab'", "bytes of 3"),
        (np.zeros((3, 4), np.float32), "<ndarray (3, 4) float32 [0.0, 0.0, 0.0, 0.0, 0.0]>",
         "ndarray (3, 4) float32"),
        (np.float32(1.5), "<float32 () float32 [1.5]>", "float32 () float32"),
        (pd.DataFrame({"n": range(9)}), "<DataFrame (9, 1) {'n': [0, 1, 2, 3, 4]}>",
         "DataFrame (9, 1)"),
        (pd.Series([1, 2]), "<Series (2,) int64 [1, 2]>", "Series (2,) int64"),
        (pd.DataFrame([[1, 2]], columns=["n", "n"]),
         "<DataFrame (1, 2) without a preview: AttributeError>", "DataFrame (1, 2)"),
        (Broken(), "<Broken: its repr raised RuntimeError>", "Broken"),
        ([Broken(), 1], "[<Broken: its repr raised RuntimeError>, 1]", "list of 2"),
        (Unsized(), "<OSError>", "Unsized"),
        (object(), "<object object>", "object"),
    ],
)  # fmt: skip
def test_types(value, shown, kind):
    assert dump(value, 200, PLAIN) == shown
    assert about(value) == kind


def test_a_tensor_shows_shape_and_first_values():
    torch = pytest.importorskip("torch")
    value = torch.arange(6, dtype=torch.float32, requires_grad=True).reshape(2, 3)
    shown = "<Tensor (2, 3) torch.float32 [0.0, 1.0, 2.0, 3.0, 4.0]>"
    assert dump(value, 200, PLAIN) == shown


def test_cuts_name_the_length_of_the_whole():
    assert dump("x" * 300, 200, PLAIN) == "x" * 200 + f"{ELLIPSIS} (len=300)"
    assert dump("x" * 200, 200, PLAIN) == "x" * 200
    assert dump(list(range(1000)), 9, PLAIN) == f"[0, 1, 2,{ELLIPSIS} (len=1000)"


def test_only_what_is_shown_is_looked_at():
    seen = []

    class Counting:
        def __repr__(self):
            seen.append(self)
            return "c" * 500

    dump([Counting() for _ in range(10_000)], 10, PLAIN)
    assert len(seen) < 50


def test_cycles_and_depths_end():
    value: list = [1]
    value.append(value)
    assert dump(value, 200, PLAIN) == f"[1, {ELLIPSIS}]"
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    assert dump(deep, 200, PLAIN).startswith("[[[[")


KEY = "sk-" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8x"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow" * 300 + "\n-----END RSA PRIVATE KEY-----"


@given(before=st.integers(0, 260), secret=st.sampled_from(["S3CRET-value", KEY, PEM]),
       nested=st.booleans())  # fmt: skip
def test_no_part_of_a_secret_is_shown_wherever_the_cut_is(before, secret, nested):
    text = "." * before + " " + secret + " and more"
    line = dump({"a": [text]} if nested else text, 200, SECRETS)
    shown = secret.removeprefix("-----BEGIN RSA PRIVATE KEY-----\n")
    assert not any(shown[i : i + 4] in line for i in range(0, len(shown) - 4, 3))
    if before < 150:
        assert "[redacted" in line


def test_a_password_is_known_by_its_name_in_a_dict():
    assert "hunter2x9Q" not in dump({"password": "hunter2x9Q"}, 200, SECRETS)


def test_a_redactor_that_fails_shows_nothing():
    def fails(text):
        raise ValueError

    assert Redactor((), fails)("the text") == "[8 characters, not shown: ValueError]"
    assert Redactor(["abcd", ""], str)("xabcdx") == f"x{HIDDEN}x"
