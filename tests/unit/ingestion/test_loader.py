import hashlib
import os
import threading
import time

import pytest

from ragstream_core.errors import FileChanging
from ragstream_core.ingestion import document_tree, loader
from ragstream_core.ingestion.folder_files import open_beneath
from ragstream_core.ingestion.loader import DocumentLoader, Reading
from ragstream_core.text.decoding import decode


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "demo").mkdir()
    return tmp_path / "demo"


def read(folder, name, content, **given):
    (folder / name).write_bytes(content)
    return DocumentLoader(folder.parent, "demo", **given).read(name)


def test_load_yields_absolute_path_relative_path_and_text(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("bee")
    (folder / "a.md").write_text("ay")
    (folder / "c.gif").write_bytes(b"\x89PNG")
    triples = list(DocumentLoader(folder.parent, "demo").load())
    assert triples == [
        (str(folder / "a.md"), "a.md", "ay"),
        (str(folder / "sub" / "b.txt"), "sub/b.txt", "bee"),
    ]


def test_hash_size_and_text_are_of_the_same_bytes(folder):
    raw = "héllo\r\n\u2028".encode()
    document = read(folder, "a.md", raw)
    assert document.entry.sha256 == hashlib.sha256(raw).hexdigest()
    assert document.entry.size == len(raw)
    assert document.text == raw.decode()  # line ends as they stand


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b" \n\t", " \n\t"),
        (b"plain", "plain"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("wide".encode("utf-16"), "wide"),
        (b"\xff\xfe" + "le".encode("utf-16-le"), "le"),
        (b"\xfe\xff" + "be".encode("utf-16-be"), "be"),
        (b"\xff\xfe\0\0" + "le".encode("utf-32-le"), "le"),
        (b"\0\0\xfe\xff" + "be".encode("utf-32-be"), "be"),
        (b"a\r\nb\rc\xe2\x80\xa8", "a\r\nb\nc\u2028"),  # a lone CR ends a line
        (b"[" * 100_000, "[" * 100_000),
        (b"form\x0cfeed", "form\x0cfeed"),
        ("🙂".encode(), "🙂"),
    ],
)
def test_decodes(raw, text):
    assert decode(raw)[0] == text


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x80\x81\x8d\x90\xff" * 9, "offset 0; no other encoding fits"),
        (b"\xef\xbb\xbfbad\xff", "offset 6"),
        (b"\xff\xfe\x00\xd8a\x00", "utf-16"),  # a lone one
        (b"nul\0byte", "NUL"),
        (b"\x89PNG\r\n\x1a\n\0\0", "NUL"),
        ("nul\0".encode("utf-16"), "NUL"),
        (b"\x01" * 11 + b"a" * 89, "control"),
        (b"\xff\xfea", "utf-16"),
    ],
)
def test_skips_with_a_reason(raw, reason):
    text, why = decode(raw)
    assert text is None
    assert reason in why


def test_ten_percent_control_characters_are_still_text():
    assert decode(b"\x01" * 10 + b"a" * 90)[0] is not None


def test_too_large_is_refused_before_reading(folder, monkeypatch):
    with (folder / "huge.md").open("wb") as handle:
        handle.truncate(1 << 40)  # sparse
    monkeypatch.setattr(loader, "_pread", lambda *_: pytest.fail("was read"))
    document = DocumentLoader(folder.parent, "demo").read("huge.md")
    assert document.text is None
    assert document.entry.sha256 == ""
    assert "limit" in document.entry.reason


def test_the_limit_itself_is_allowed(folder):
    assert read(folder, "a.md", b"12345", reading=Reading(max_text_bytes=5)).text == "12345"
    assert read(folder, "b.md", b"123456", reading=Reading(max_text_bytes=5)).text is None


def test_a_file_that_never_holds_still_is_reported(folder, monkeypatch):
    path = folder / "a.md"
    path.write_text("0")
    real, times = loader._pread, []

    def growing(fd, limit):
        times.append(1)
        path.write_text("0" * (len(times) + 1))
        return real(fd, limit)

    opened = []
    monkeypatch.setattr(loader, "_pread", growing)
    monkeypatch.setattr(
        document_tree, "open_beneath", lambda *a: opened.append(1) or open_beneath(*a)
    )
    with pytest.raises(FileChanging, match=r"a\.md"):
        DocumentLoader(folder.parent, "demo").read("a.md")
    assert len(opened) == 3


def test_a_file_that_changed_once_is_read_again(folder, monkeypatch):
    path = folder / "a.md"
    path.write_text("old")
    real, times = loader._pread, []

    def once(fd, limit):
        times.append(1)
        if len(times) == 1:
            path.write_text("newer")
        return real(fd, limit)

    monkeypatch.setattr(loader, "_pread", once)
    document = DocumentLoader(folder.parent, "demo").read("a.md")
    assert document.text == "newer"
    assert document.entry.sha256 == hashlib.sha256(b"newer").hexdigest()


def test_text_is_always_one_whole_version_while_a_writer_rewrites(folder):
    path = folder / "a.md"
    versions = {(c * 20_000) for c in "abcdefgh"}
    path.write_text("a" * 20_000)
    stop = threading.Event()

    def rewrite():
        while not stop.is_set():
            for version in sorted(versions):
                with path.open("r+") as handle:
                    handle.write(version)
                time.sleep(0.004)

    writer = threading.Thread(target=rewrite)
    writer.start()
    seen, changing = 0, 0
    try:
        for _ in range(60):
            try:
                text = DocumentLoader(folder.parent, "demo").read("a.md").text
            except FileChanging:
                changing += 1
            else:
                seen += 1
                assert text in versions
    finally:
        stop.set()
        writer.join()
    assert seen + changing == 60


@pytest.mark.parametrize("path", ["../x.md", "a/../../x.md", "/etc/passwd", "", "a//b.md"])
def test_open_beneath_stays_beneath(folder, path):
    (folder.parent / "x.md").write_text("outside")
    with pytest.raises(OSError):
        os.close(open_beneath(folder, path))


def test_a_link_or_pipe_put_in_the_files_place_is_not_followed(folder):
    (folder.parent / "x.md").write_text("outside")
    (folder / "a.md").symlink_to(folder.parent / "x.md")
    (folder / "d").symlink_to(folder.parent)
    os.mkfifo(folder / "p.md")
    loader = DocumentLoader(folder.parent, "demo")
    for name in ("a.md", "d/x.md", "p.md"):
        with pytest.raises(OSError):
            loader.read(name)


def test_a_write_of_equal_length_during_the_read_is_noticed(folder, monkeypatch):
    path = folder / "a.md"
    path.write_text("old")
    os.utime(path, (1000, 1000))
    time.sleep(0.06)  # old enough to be read once only
    real, times = loader._pread, []

    def read_then_write(fd, limit):
        data = real(fd, limit)
        times.append(1)
        if len(times) == 1:
            path.write_text("new")
        return data

    monkeypatch.setattr(loader, "_pread", read_then_write)
    assert DocumentLoader(folder.parent, "demo").read("a.md").text == "new"
