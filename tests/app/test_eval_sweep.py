"""`ragstream eval sweep`: the table, the JSON, the pictures, and what is refused."""

import json

import pytest


@pytest.fixture
def gold(indexed, run):
    data = indexed.data_dir if hasattr(indexed, "data_dir") else indexed
    path = data / "projects" / "manual" / "gold.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    question = {"question": "How does the exact file lock work?", "file": "guide/locks.md"}
    path.write_text(json.dumps(question))
    return path
