"""What a lexicon adds to a question, and which files are refused."""

import time
from pathlib import Path

import pytest

import ragstream_core
from ragstream_core.conversations.lexicon import (
    default_lexicon_text,
    expand,
    lexicon_of,
    parse_lexicon,
    read_lexicon_text,
)
from ragstream_core.errors import UnknownSetting

OWN = "- [HVB, high voltage battery, traction battery]\n- [IT, information technology]\n"


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("What did we say about NVH?", {"noise vibration harshness", "vehicle acoustics"}),
        ("vehicle acoustics at 80 km/h", {"NVH", "noise vibration harshness"}),
        ("nvh", {"noise vibration harshness", "vehicle acoustics"}),
        ("large language models", {"LLM"}),
        ("nothing of that kind", set()),
        ("", set()),
    ],
)
def test_the_built_in_lexicon(text, added):
    assert set(expand(text).splitlines()) == added


def test_a_persons_lexicon_extends_it():
    texts = (default_lexicon_text(), OWN)
    assert set(expand("the traction battery and NVH", *texts).splitlines()) == {
        "HVB", "high voltage battery", "noise vibration harshness", "vehicle acoustics",
    }  # fmt: skip
    assert expand("the traction battery") == ""


def test_an_acronym_that_is_a_common_word_counts_in_capitals_only():
    assert expand("is it there?", OWN) == ""
    assert expand("ask IT, please", OWN) == "information technology"


def test_the_longest_entry_counts_and_what_was_said_is_not_added():
    own = "- [test, trial]\n- [test bench, rig]\n"
    assert expand("the test bench", own) == "rig"
    assert expand("the test bench rig", own) == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- [a, b", "not YAML"),
        ("a: b", "list of lists"),
        ("- [alone]", "group 1"),
        ("- [one, two]\n- just text", "group 2"),
        ("- [one, 2]", "'2'"),
        ("- [one, '...']", "1 to 8 words"),
        ("- [one, a b c d e f g h i]", "1 to 8 words"),
        ("- [x, !!python/object/apply:os.system [true]]", "not YAML"),
        ("- [x, " + "y" * 1_000_001 + "]", "larger than"),
        ("[" * 2_000, "not YAML"),
        (f"- &a [{', '.join(['word'] * 9_000)}]\n" + "- *a\n" * 9_000, "more than 20000"),
    ],
)
def test_what_is_no_lexicon_is_refused_quickly(text, says):
    began = time.process_time()
    with pytest.raises(UnknownSetting, match=says) as caught:
        parse_lexicon(text)
    named = caught.value.hint.rpartition(" ")[2]
    assert (Path(ragstream_core.__file__).parents[1] / named).read_text() == default_lexicon_text()
    assert time.process_time() - began < 30  # an alias bomb would take hours


def test_a_file_is_read_whole_or_refused(tmp_path):
    path = tmp_path / "own.yaml"
    with pytest.raises(UnknownSetting, match="own.yaml"):
        read_lexicon_text(path)
    path.write_text(OWN)
    assert read_lexicon_text(path) == OWN
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UnknownSetting, match="cannot be read"):
        read_lexicon_text(path)
    path.write_text("a: b")
    with pytest.raises(UnknownSetting, match="own.yaml must be"):
        read_lexicon_text(path)


def test_an_empty_file_adds_nothing():
    assert parse_lexicon("") == [] == parse_lexicon("# nothing yet\n")
    assert lexicon_of("").expand("NVH") == ""


def test_entries_of_the_built_in_lexicon_are_unique():
    groups = parse_lexicon(default_lexicon_text())
    entries = [entry.casefold() for group in groups for entry in group]
    assert len(entries) == len(set(entries))
