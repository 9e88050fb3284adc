"""Small JSON files: whole and of the type that is asked for, or none."""

from dataclasses import dataclass

import pytest

from ragstream_core.platform import sidecar


@dataclass(frozen=True, slots=True)
class Note:
    """A record of a sidecar."""

    seq: int
    names: tuple[str, ...] = ()
    share: float = 1.0


def test_a_whole_file_is_read_as_its_type(tmp_path):
    """Tuples come from lists, a whole number stands for a float, other fields are passed over."""
    path = tmp_path / "note.json"
    path.write_text('{"seq": 3, "names": ["a"], "share": 0, "later": true}', encoding="utf-8")
    assert sidecar.read(path, Note) == Note(3, ("a",), 0.0)
    assert sidecar.read(path, dict[str, object])["later"] is True


@pytest.mark.parametrize(
    "text",
    ["", "[", "null", "[3]", '{"names": []}', '{"seq": "3"}', '{"seq": true}', '{"seq": 3.5}',
     '{"seq": 3, "names": [1]}', "[" * 100_000, '{"seq": 3, "names": ["\\ud800"]}', "\xff"],
)  # fmt: skip
def test_a_damaged_one_counts_as_none(tmp_path, text):
    """Cut off, of another type, without a field, too deep, not UTF-8."""
    path = tmp_path / "note.json"
    path.write_bytes(text.encode("latin-1"))
    assert sidecar.read(path, Note) is None


def test_one_that_is_not_there_or_no_file_counts_as_none(tmp_path):
    """Nothing raises: what a sidecar says is derived."""
    assert sidecar.read(tmp_path / "none.json", Note) is None
    assert sidecar.read(tmp_path, Note) is None
