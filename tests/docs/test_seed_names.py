"""Every name on the page of names leads to something that can be imported."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seed_names.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
NAMED = (
    "Controller", "LLMClient", "TestSpecGenerator", "IndexBuilder", "MarkdownCorpus",
    "VectorRecord", "SupportsModels", "FaissVectorStore",
)  # fmt: skip


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w.]+:\w+)`", "\n".join(ROWS)))))
def test_a_mapped_name_can_be_imported(path):
    module, _, name = path.partition(":")
    assert getattr(importlib.import_module(module), name)


def test_every_row_names_both_sides():
    for row in ROWS:
        there, here = row.split("|")[1:3]
        assert re.findall(r"`\w+`", there), row
        assert re.fullmatch(r" `[\w.]+:\w+` ", here), row


def test_the_names_that_are_not_ours_are_there():
    first = "\n".join(row.split("|")[1] for row in ROWS)
    assert [name for name in NAMED if f"`{name}`" not in first] == []
