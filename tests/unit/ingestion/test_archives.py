import io
import os
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion import archives
from ragstream_core.ingestion.document_tree import DocumentTree, Root
from ragstream_core.ingestion.loader import DocumentLoader, Reading
from ragstream_core.ingestion.scan import Scan, ScanRules, compare, scan
from ragstream_core.platform.zips import MOST_MEMBERS

ID = "0123456789abcdef0123456789abcdef"
OTHER_ID = "fedcba9876543210fedcba9876543210"


def zipped(members, method=zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as package:
        for name, content in members.items() if isinstance(members, dict) else members:
            package.writestr(name, content)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "demo").mkdir()
    return tmp_path / "demo"


def read(folder, path, **given):
    return DocumentLoader(folder.parent, "demo", **given).read(path)


def reasons(found: Scan) -> dict[str, str]:
    return dict(found.refused)


def test_what_lies_in_a_zip_is_read_as_if_it_lay_in_a_folder(folder):
    members = {"a.md": "# A\n\nbee", "sub/b.txt": "ant", "sub/c.docx": b"PK", "d.gif": b"GIF89a"}
    (folder / "e.zip").write_bytes(zipped(members))
    found = scan(folder)
    assert sorted(found.files) == ["e.zip/a.md", "e.zip/sub/b.txt", "e.zip/sub/c.docx"]
    assert reasons(found)["e.zip/d.gif"].startswith("type not supported: a picture")
    document = read(folder, "e.zip/a.md")
    assert document.text == "# A\n\nbee"
    assert document.signature == found.files["e.zip/a.md"]
    assert (document.entry.size, document.entry.type) == (8, "md")


def test_deny_list_and_junk_hold_in_it(folder):
    members = {
        ".env": "KEY=1", "id_rsa": "x", ".git/config": "x", "package.json": "{}",
        "node_modules/a/b.js": "x", "dist/out.js": "x", "vendor/offers.md": "x",
        "__MACOSX/._a.md": "x", "package-lock.json": "{}", "lib/.DS_Store": "x",
        ".trash/old.md": "x", ".obsidian/app.json": "{}",
    }  # fmt: skip
    (folder / "e.zip").write_bytes(zipped(members))
    assert sorted(scan(folder).files) == ["e.zip/package.json"]


def test_patterns_of_ignore_files_and_settings_hold_in_it(folder):
    (folder / "e.zip").write_bytes(zipped({"a.md": "x", "b.txt": "x", "drafts/c.md": "x"}))
    (folder / ".ragignore").write_text("drafts/\n")
    assert sorted(scan(folder).files) == ["e.zip/a.md", "e.zip/b.txt"]
    assert sorted(scan(folder, ScanRules(include=("*.txt",))).files) == ["e.zip/b.txt"]
    (folder / ".gitignore").write_text("*.zip\n")
    found = scan(folder)
    assert not found.files
    assert reasons(found)["e.zip/"] == "ignored by .gitignore"


def test_what_is_junk_in_it_can_be_taken_back(folder):
    members = {"package-lock.json": '{"a": 1}', "made.py": "# @generated\nx = 1\n"}
    (folder / "e.zip").write_bytes(zipped(members))
    assert read(folder, "e.zip/made.py").text is None
    (folder / ".ragignore").write_text("!package-lock.json\n!made.py\n")
    assert "e.zip/package-lock.json" in scan(folder).files
    assert read(folder, "e.zip/made.py").text == members["made.py"]


def test_an_ignore_file_in_it_is_obeyed_below_it(folder):
    members = {".gitignore": "drafts/\n*.log\n", "a.md": "x", "drafts/b.md": "x", "c/d.log": "x",
               "c/.ragignore": "!d.log\n/e.md\n", "c/e.md": "x", "e.md": "x"}  # fmt: skip
    (folder / "e.zip").write_bytes(zipped(members))
    (folder / "d.log").write_text("x")
    found = scan(folder)
    assert sorted(found.files) == ["d.log", "e.zip/a.md", "e.zip/c/d.log", "e.zip/e.md"]
    assert reasons(found)["e.zip/drafts/"] == "ignored by e.zip/.gitignore"
    assert reasons(found)["e.zip/c/e.md"] == "ignored by e.zip/c/.ragignore"


def test_a_hostile_ignore_file_in_it_is_named_and_not_used(folder):
    members = {".gitignore": "*\n" * 60_000, "s/.ragignore": "**/" * 50 + "\n", "a.md": "x"}
    (folder / "e.zip").write_bytes(zipped(members))
    found = scan(folder)
    assert list(found.files) == ["e.zip/a.md"]
    assert "cannot be used" in reasons(found)["e.zip/.gitignore"]
    assert "too many wildcards" in reasons(found)["e.zip/s/.ragignore"]


NAMES = [
    ("plain.md", "plain.md"),
    ("./a/./b.md", "a/b.md"),
    ("/etc/c.md", "etc/c.md"),
    ("C:\\Users\\d.md", "Users/d.md"),
    ("win\\e.md", "win/e.md"),
    ("//host//f.md", "host/f.md"),
    ("50%25.md", "50%2525.md"),
]


@pytest.mark.parametrize(("name", "path"), NAMES)
def test_a_name_is_a_label_below_the_archive(folder, name, path):
    (folder / "e.zip").write_bytes(zipped({name: "bee"}))
    assert list(scan(folder).files) == [f"e.zip/{path}"]
    assert read(folder, f"e.zip/{path}").text == "bee"


@pytest.mark.parametrize("name", ["../up.md", "a/../../up.md", "a\\..\\up.md", "/../up.md"])
def test_a_name_that_leads_out_is_refused(folder, name):
    (folder / "up.md").write_text("mine")
    (folder / "e.zip").write_bytes(zipped({name: "theirs", "a.md": "bee"}))
    found = scan(folder)
    assert sorted(found.files) == ["e.zip/a.md", "up.md"]
    assert "its name in the ZIP leads out of it" in reasons(found).values()
    with pytest.raises(OSError, match="."):
        read(folder, "e.zip/../up.md")


@pytest.mark.parametrize(("encoding", "name"), [("utf-8", "Prüfung.md"), ("cp437", "Größe.md")])
def test_names_without_a_mark_are_utf_8_or_of_the_code_page_of_the_format(folder, encoding, name):
    stands_in = "x" * (len(name.encode(encoding)) - 3) + ".md"
    data = zipped({stands_in: "bee"}).replace(stands_in.encode(), name.encode(encoding))
    (folder / "e.zip").write_bytes(data)
    assert list(scan(folder).files) == [f"e.zip/{name}"]
    assert read(folder, f"e.zip/{name}").text == "bee"


def test_a_clock_elsewhere_dates_no_document_behind_its_archive(folder):
    info = zipfile.ZipInfo("a.md", (2100, 1, 1, 0, 0, 0))
    (folder / "e.zip").write_bytes(zipped([(info, "bee"), (zipfile.ZipInfo("b.md"), "ant")]))
    latest = (folder / "e.zip").stat().st_mtime_ns
    assert {row[1] for row in scan(folder).files.values()} == {latest}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_of_one_name_the_last_is_read_and_it_is_said(folder):
    (folder / "e.zip").write_bytes(zipped([("a.md", "first"), ("a.md", "second"), ("b.md", "b")]))
    assert read(folder, "e.zip/a.md").text == "second"
    assert reasons(scan(folder)) == {"e.zip/a.md": "twice in the ZIP; the last one is read"}


def test_a_file_where_a_folder_is_is_refused_by_name(folder):
    (folder / "e.zip").write_bytes(zipped([("a/b.md", "x"), ("a", "y")]))
    found = scan(folder)
    assert list(found.files) == ["e.zip/a/b.md"]
    assert reasons(found) == {"e.zip/a": "in the ZIP as a file and as a folder"}


def test_names_of_notion_lose_their_ids_where_they_stay_apart(folder):
    members = {
        f"Wiki {ID}.md": "w", f"Wiki {ID}/Pump {OTHER_ID}.md": "p", f"Tasks {ID}_all.csv": "a",
        f"Twin {ID}.md": "1", f"Twin {OTHER_ID}.md": "2", f"{ID}.md": "only an id",
    }  # fmt: skip
    (folder / "e.zip").write_bytes(zipped(members))
    assert set(scan(folder).files) >= {
        "e.zip/Wiki.md", "e.zip/Wiki/Pump.md", f"e.zip/Twin {ID}.md", f"e.zip/Twin {OTHER_ID}.md",
        f"e.zip/{ID}.md",
    }  # fmt: skip
    assert read(folder, "e.zip/Wiki/Pump.md").text == "p"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_in_a_zip_is_a_folder_in_it(folder, method):
    inner = zipped({f"Pump {ID}.md": "bee" * 1000})
    (folder / "e.zip").write_bytes(zipped({"Part-1.zip": inner, "b.md": "ant"}, method))
    assert sorted(scan(folder).files) == ["e.zip/Part-1.zip/Pump.md", "e.zip/b.md"]
    assert read(folder, "e.zip/Part-1.zip/Pump.md").text == "bee" * 1000


def test_one_deeper_is_named_however_deep_they_go(folder):
    data = zipped({"core.md": "x"})
    for depth in range(200):
        data = zipped({"in.zip": data, f"{depth}.md": "x"}, zipfile.ZIP_STORED)
    (folder / "e.zip").write_bytes(data)
    found = scan(folder)
    assert sorted(found.files) == ["e.zip/199.md", "e.zip/in.zip/198.md"]
    assert reasons(found)["e.zip/in.zip/in.zip"].startswith("a ZIP in a ZIP in a ZIP")


def test_a_folder_or_link_named_like_a_zip_is_what_it_is(folder):
    (folder / "f.zip").mkdir()
    (folder / "f.zip" / "a.md").write_text("bee")
    (folder / "real.zip").write_bytes(zipped({"b.md": "ant"}))
    (folder / "l.zip").symlink_to(folder / "real.zip")
    found = scan(folder)
    assert sorted(found.files) == ["f.zip/a.md", "real.zip/b.md"]
    assert reasons(found) == {"l.zip": "symbolic link; only regular files are read"}
    assert read(folder, "f.zip/a.md").text == "bee"
    with pytest.raises(OSError, match="."):
        read(folder, "l.zip/b.md")


def test_a_zip_among_the_files_of_a_flat_project_is_entered_and_no_folder(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "a.md").write_text("x")
    (folder / "e.zip").write_bytes(zipped({"sub/b.md": "x"}))
    assert list(scan(folder, ScanRules(flat=True)).files) == ["e.zip/sub/b.md"]


def test_it_is_read_below_a_label(folder):
    (folder / "e.zip").write_bytes(zipped({"a.md": "bee"}))
    tree = DocumentTree((Root("docs", folder), Root("more", folder.parent)), in_place=True)
    assert "docs/e.zip/a.md" in tree.scan().files
    assert os.read(tree.open("docs/e.zip/a.md"), 9) == b"bee"
    assert tree.archive_of("docs/e.zip/a.md") == "e.zip"
    assert not tree.archive_of("docs/a.md")


def test_its_documents_change_with_it_and_only_then(folder):
    (folder / "e.zip").write_bytes(zipped({"a.md": "bee", "b.md": "ant"}))
    before = scan(folder)
    later = time.time_ns() + 10_000_000_000
    assert not compare(scan(folder), before.files, last_started_ns=later).any()
    (folder / "e.zip").write_bytes(zipped({"a.md": "bee", "c.md": "fly"}))
    changes = compare(scan(folder), before.files, last_started_ns=later)
    assert (changes.new, changes.changed) == (["e.zip/c.md"], ["e.zip/a.md"])
    assert changes.removed == ["e.zip/b.md"]


def encrypted(members) -> bytes:
    data = bytearray(zipped(members, zipfile.ZIP_STORED))
    at = 0
    while (at := data.find(b"PK\1\2", at)) >= 0:
        data[at + 8] |= 1
        at += 4
    return bytes(data)


BAD = {
    "no ZIP": (b"PK nonsense", "damaged or no ZIP"),
    "empty file": (b"", "damaged or no ZIP"),
    "cut off": (zipped({"a.md": "bee" * 100})[:-30], "damaged or no ZIP"),
    "encrypted": (encrypted({"a.md": "bee", "b.md": "ant"}), "encrypted"),
    "bomb": (zipped({"a.md": bytes(50_000_000)}), "would unpack to 50000000 bytes"),
    "many small bombs": (
        zipped({f"{n}.md": bytes(1_000_000) for n in range(40)}),
        "would unpack to more than 200 times its size",
    ),
    "other method": (zipped({"a.md": "bee"}, zipfile.ZIP_LZMA), "packed by a method"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_what_cannot_be_used_is_named_with_the_next_step(folder, data, reason):
    (folder / "e.zip").write_bytes(data)
    (folder / "plain.md").write_text("stays")
    found = scan(folder)
    assert list(found.files) == ["plain.md"]
    assert reasons(found)["e.zip"].startswith(reason)
    assert "unpack" in reasons(found)["e.zip"]
    with pytest.raises(OSError, match="."):
        read(folder, "e.zip/a.md")


def test_one_bad_file_does_not_keep_the_others_out(folder):
    data = zipped({"a.md": bytes(50_000_000), "b.md": os.urandom(400_000).hex()})
    (folder / "e.zip").write_bytes(data)
    found = scan(folder)
    assert list(found.files) == ["e.zip/b.md"]
    assert reasons(found)["e.zip/a.md"].startswith("would unpack to 50000000 bytes")


def test_bytes_that_were_changed_are_noticed_where_they_are_read(folder):
    data = zipped({"a.md": "the bee hums", "b.md": "ant"}, zipfile.ZIP_STORED)
    (folder / "e.zip").write_bytes(data.replace(b"bee", b"fly"))
    assert read(folder, "e.zip/b.md").text == "ant"
    with pytest.raises(OSError, match="damaged in its ZIP"):
        read(folder, "e.zip/a.md")


def test_a_size_that_is_a_lie_is_noticed(folder):
    data = bytearray(zipped({"a.md": "bee" * 10_000}))
    at = data.find(b"PK\1\2")
    data[at + 24 : at + 28] = (5).to_bytes(4, "little")
    (folder / "e.zip").write_bytes(bytes(data))
    with pytest.raises(OSError, match="damaged in its ZIP"):
        read(folder, "e.zip/a.md")


def test_more_members_than_are_plausible_are_refused(folder, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 6)
    inner = zipped({f"{n}.md": "x" for n in range(3)})
    (folder / "e.zip").write_bytes(zipped({"a.zip": inner, "b.zip": inner, "c.md": "x"}))
    found = scan(folder)
    assert reasons(found)["e.zip/b.zip"].startswith("holds more than 6 files")
    assert len(found.files) == 4


def test_forty_thousand_members_are_all_found(folder):
    (folder / "e.zip").write_bytes(zipped({f"d{n % 100}/{n}.md": "" for n in range(40_000)}))
    assert len(scan(folder).files) == 40_000 < MOST_MEMBERS


def test_a_list_that_is_larger_than_any_is_not_read(folder, monkeypatch):
    monkeypatch.setattr(archives, "_LIST_BYTES", 70_000)
    (folder / "e.zip").write_bytes(zipped({f"{n}{'x' * 200}.md": "" for n in range(500)}))
    assert reasons(scan(folder))["e.zip"].startswith("its list of files has more than")


def test_a_member_without_a_name_costs_no_other(folder):
    data = zipped({"a.md": "bee", "b.md": "fly"})
    at = data.index(b"PK\1\2")
    nameless = bytearray(data)
    nameless[at + 28 : at + 30], nameless[at + 32 : at + 34] = b"\0\0", b"\0\0"
    nameless[at + 46 : at + 50] = b""
    end = nameless.index(b"PK\5\6")
    size = int.from_bytes(nameless[end + 12 : end + 16], "little")
    nameless[end + 12 : end + 16] = (size - 4).to_bytes(4, "little")
    (folder / "e.zip").write_bytes(bytes(nameless))
    found = scan(folder)
    assert list(found.files) == ["e.zip/b.md"]
    assert "e.zip/(no name)" in reasons(found)


def test_a_large_document_is_refused_before_it_is_unpacked(folder):
    (folder / "e.zip").write_bytes(zipped({"a.md": os.urandom(2000).hex()}))
    document = read(folder, "e.zip/a.md", reading=Reading(max_text_bytes=100))
    told = "4000 bytes, more than the limit of 100; raise discovery.max_text_bytes"
    assert document.entry.reason == told


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=12),
    cut=st.integers(0, 2000),
)
def test_whatever_the_bytes_are_each_document_is_read_or_refused(tmp_path: Path, changes, cut):
    folder = tmp_path / "demo"
    folder.mkdir(exist_ok=True)
    inner = zipped({"c.md": "fly " * 20, "d/e.txt": "moth"})
    data = bytearray(zipped({"a.md": "bee " * 20, "in.zip": inner, "b/f.txt": "ant"}))
    for at, value in changes:
        data[at % len(data)] = value
    (folder / "e.zip").write_bytes(bytes(data[: len(data) - cut % len(data) // 4]))
    found = scan(folder)
    told = [path for path, _ in (*found.refused, *found.unreadable)]
    assert found.files or told or b"PK\1\2" not in data[-400:]
    for path in found.files:
        try:
            document = read(folder, path)
        except OSError:
            continue
        assert document.entry.decision in ("ingested", "skipped")
