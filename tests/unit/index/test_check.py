"""Each kind of damage is found, part by part, and derived files are repaired."""

import json
import sqlite3

import numpy as np
import pytest

from ragstream_core.errors import UsageError
from ragstream_core.index.check import Part, parse_part, repair_derived, verify_data
from ragstream_core.index.schema import project_lock
from ragstream_core.index.view import forget_views

ALL = Part(1, 1)


@pytest.fixture
def filled(bench):
    for n in range(30):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody words number {n}")
    bench.run()
    bench.write("0.md", "# Heading\n\nreplaced")
    bench.run()
    return bench


def execute(bench, statement):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    db.execute(statement)
    db.commit()
    db.close()
    forget_views()


def test_a_sound_index_has_no_findings_in_any_part(filled):
    assert verify_data(filled.index, ALL) == []
    assert all(verify_data(filled.index, Part(n, 7)) == [] for n in range(1, 8))


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE texts SET text = text || 'x' WHERE text LIKE '%number 3%'", "texts"),
        ("UPDATE texts SET text = 'x' WHERE text LIKE '%number 0'", "texts"),  # only in the past
        ("UPDATE texts SET terms = x'00'", "texts"),
        ("UPDATE chunks SET heading_terms = x'0001' WHERE path = '4.md'", "texts"),
        ("DELETE FROM texts WHERE text LIKE '%number 0'", "texts"),
        ("UPDATE files SET mtime_ns = 1 WHERE path = '3.md'", "catalog"),
        ("UPDATE chunks SET page = 4 WHERE to_gen = 2", "digest"),
        ("UPDATE vectors SET crc32 = 1", "vectors"),
        ("UPDATE vectors SET row = row + 1", "vectors"),
        ("DELETE FROM vectors WHERE row = 3", "vectors"),
    ],
)
def test_every_kind_of_damage_is_found(filled, statement, kind):
    execute(filled, statement)
    assert kind in {f.check for f in verify_data(filled.index, ALL)}
    parts = [verify_data(filled.index, Part(n, 3)) for n in (1, 2, 3)]
    assert any(parts)


def test_each_damaged_vector_is_found_in_exactly_one_part(filled):
    path = filled.vector_file()
    raw = bytearray(path.read_bytes())
    raw[5 * filled.embedder.dimension * 4 + 2] ^= 1
    path.write_bytes(raw)
    found = [verify_data(filled.index, Part(n, 5)) for n in range(1, 6)]
    assert sum(any("crc: " in f.message and f.check == "vectors" for f in fs) for fs in found) == 1


def test_vectors_of_almost_one_length_and_one_direction_are_sound(bench, monkeypatch):
    """The shorter one is not its own nearest, within the tolerance of lengths: no damage."""

    def of_both_ends(texts, *, progress=None):
        rows = np.zeros((len(texts), bench.embedder.dimension), dtype=np.float32)
        rows[:, 0] = [0.99995 if "number 1" in text else 1.00005 for text in texts]
        return rows

    monkeypatch.setattr(bench.embedder, "embed_documents", of_both_ends)
    for n in range(8):
        bench.write(f"{n}.md", f"body words number {n}")
    bench.run()
    assert verify_data(bench.index, ALL) == []


@pytest.mark.parametrize("bad", ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/3", "1/2/3", "¹/2"])
def test_only_real_parts_are_accepted(bad):
    with pytest.raises(UsageError):
        parse_part(bad)


def test_parts_divide_everything():
    hashes = [f"{n:08x}{'0' * 56}" for n in range(0, 10**9, 10**7)]
    for of in (1, 2, 7):
        held = [sum(Part(n, of).holds(h) for n in range(1, of + 1)) for h in hashes]
        assert held == [1] * len(hashes)
    assert parse_part("3/7") == Part(3, 7)


def test_derived_files_are_made_again_by_content(filled):
    assert repair_derived(filled.index) == []
    lexical = filled.index / "lexical-latest" / "arrays.bin"
    manifest = filled.index / "file_manifest.json"
    sound = lexical.read_bytes(), manifest.read_bytes()
    for path in (lexical, manifest):
        raw = bytearray(path.read_bytes())
        raw[-20] ^= 1
        path.write_bytes(raw)
    assert repair_derived(filled.index) == ["lexical-latest/arrays.bin", "file_manifest.json"]
    assert (lexical.read_bytes(), manifest.read_bytes()) == sound
    lexical.unlink()
    manifest.write_text("[]")
    assert len(repair_derived(filled.index)) == 2
    assert (lexical.read_bytes(), manifest.read_bytes()) == sound


def test_a_repair_keeps_what_the_scan_refused(filled):
    (filled.docs / "link.md").symlink_to(filled.docs / "1.md")
    filled.write("1.md", "changed")
    filled.run()
    manifest = filled.index / "file_manifest.json"
    sound = manifest.read_bytes()
    data = json.loads(sound)
    assert any(row["decision"] == "refused" for row in data["files"])
    for row in data["files"]:
        row["size"] = 1
    manifest.write_text(json.dumps(data))
    assert repair_derived(filled.index) == ["file_manifest.json"]
    assert manifest.read_bytes() == sound


def test_nothing_is_repaired_while_another_process_writes(filled):
    (filled.index / "file_manifest.json").unlink()
    with project_lock(filled.index):
        assert repair_derived(filled.index) == []
    assert repair_derived(filled.index) == ["file_manifest.json"]
