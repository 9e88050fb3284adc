"""The sentence that asks for a format: by its name, and only where it is wanted."""

import pytest

from ragstream_core.prompts.render import format_instruction

KNOWN = {
    "JSON": "one JSON value", "YAML": "one YAML document", "yml": "one YAML document",
    "Table": "a Markdown table", "tabular": "a Markdown table", "Bullets": "a bulleted list",
    "list": "as a list", "diff": "a unified diff",
    "patch": "a unified diff", "Markdown": "in Markdown",
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("wording", ["{}", "as a {}, please", "a short\n{}.", "{} (complete)"])
def test_a_format_is_asked_for_by_its_name(name, wording):
    assert KNOWN[name] in format_instruction(wording.format(name))


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("wording", ["no {}", "not a {}", "avoid any {}, please", "never {}",
                                     "rather than {}", "x{}", "{}x"])  # fmt: skip
def test_a_format_to_be_avoided_or_part_of_a_word_is_none(name, wording):
    assert format_instruction(wording.format(name)) == ""


def test_of_two_formats_the_one_that_is_wanted():
    assert "table" in format_instruction("a table, not JSON")
    assert "JSON" in format_instruction("not a table but JSON")
