"""The store of prompts while others write to it."""

import os
from pathlib import Path

from ragstream_core.prompts.store import RECORD_NAME, PromptStore


def test_keys_are_in_the_order_of_time_and_what_goes_meanwhile_is_none(tmp_path, monkeypatch):
    paths = [tmp_path / key / RECORD_NAME for key in ("c", "a", "b", "gone")]
    for n, path in enumerate(paths[:3]):
        path.parent.mkdir()
        path.touch()
        os.utime(path, (7, 7 - (n == 0)))
    monkeypatch.setattr(Path, "glob", lambda *_: iter(paths[::-1]))
    assert PromptStore(tmp_path).keys() == ["c", "a", "b"]
