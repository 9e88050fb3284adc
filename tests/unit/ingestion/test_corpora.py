"""Hostile folders made by script: names, encodings, links, sizes, and text that is a bomb."""

import codecs
import json
import os
import socket
import sys

import pytest

from ragstream_core.ingestion.file_types import decode_name
from ragstream_core.records.identity import parse_chunk_id
from ragstream_core.text.decoding import decode
from tests.lengths import by_length

NAMES = [
    b"plain.md", b"two words.md", b" leading.md", b"trailing .md", b"-dash.md", b"--rf.md",
    b"new\nline.md", b"tab\there.md", b"cr\rname.md", b"quote'.md", b'double".md', b"back`tick.md",
    b"back\\slash.md", b"dollar$HOME.md", b"semi;colon.md", b"pipe|.md", b"amp&.md", b"star*.md",
    b"question?.md", b"[brackets].md", b"{braces}.md", b"<angle>.md", b"a::b.md", b"::.md",
    b"x::" + b"a" * 64 + b"::7.md", b"hash#1.md", b"at@.md", b"comma,.md", b"equals=.md",
    b"percent%.md", b"percent%25.md", b"percent%FF.md", b"percent%2525.md", b"100%.md",
    b"\xff.md", b"\xfe\xff.md", b"half\xc3.md", b"surrogate\xed\xa0\x80.md", b"latin\xe9.md",
    "größe.md".encode(), "e\u0301.md".encode(), "\xe9.md".encode(), "日本語.md".encode(),
    "\u202ertl.md".encode(), "עברית.md".encode(), "🙂.md".encode(), "zero\u200bwidth.md".encode(),
    "nbsp\xa0.md".encode(), "line\u2028separator.md".encode(), "bom\ufeff.md".encode(),
    b"con.md", b"aux.txt", b"nul.json", b"case.md", b"Case.md", b"CASE.MD", b"..dots.md",
    b"a" * 252 + b".md", b"\x01control.md", b"escape\x1b[31m.md",
]  # fmt: skip


def test_sixty_names_are_ingested_and_come_back(bench):
    assert len(NAMES) == len(set(NAMES)) == 60
    root = os.fsencode(bench.docs)
    for n, name in enumerate(NAMES):
        with open(root + b"/" + name, "wb") as handle:
            handle.write(b"text number %d" % n)
    stats = bench.run()
    assert (stats.files["new"], stats.chunks["live"]) == (60, 60)
    view = bench.view()
    assert len(set(view.chunk_ids)) == 60
    found = {}
    for chunk in view.chunks(view.chunk_ids):
        path, sha256, index = parse_chunk_id(chunk.id)
        assert (path, sha256, index) == (chunk.source, chunk.meta["sha256"], 0)
        path.encode("utf-8")  # printable to any file
        found[os.fsencode(decode_name(path))] = chunk.snippet
    assert found == {name: f"text number {n}" for n, name in enumerate(NAMES)}
    json.loads((bench.index / "file_manifest.json").read_text("utf-8"))
    assert bench.pending() is None or bench.pending().changes.racy
    assert bench.health() == []


E = "é".encode
ENCODINGS = [
    ("ascii", b"plain", "plain", "utf-8"),
    ("utf-8", "naïve €".encode(), "naïve €", "utf-8"),
    ("utf-8-bom", codecs.BOM_UTF8 + "é".encode(), "é", "utf-8"),
    ("utf-16-le-bom", codecs.BOM_UTF16_LE + E("utf-16-le"), "é", "utf-16-le"),
    ("utf-16-be-bom", codecs.BOM_UTF16_BE + E("utf-16-be"), "é", "utf-16-be"),
    ("utf-32-le-bom", codecs.BOM_UTF32_LE + E("utf-32-le"), "é", "utf-32-le"),
    ("utf-32-be-bom", codecs.BOM_UTF32_BE + E("utf-32-be"), "é", "utf-32-be"),
    ("bom-alone", codecs.BOM_UTF8, "", "utf-8"),
    ("utf-16-bom-alone", codecs.BOM_UTF16_LE, "", "utf-16-le"),
    ("bom-inside", "a\ufeffb".encode(), "a\ufeffb", "utf-8"),
    ("crlf", b"a\r\nb\r\n", "a\r\nb\r\n", "utf-8"),
    ("cr", b"a\rb\r", "a\nb\n", "utf-8"),
    ("line-separator", "a\u2028b\u2029c".encode(), "a\u2028b\u2029c", "utf-8"),
    ("next-line", "a\x85b".encode(), "a\x85b", "utf-8"),
    ("form-feed", b"a\x0cb", "a\x0cb", "utf-8"),
    ("astral", "🙂𝔘".encode(), "🙂𝔘", "utf-8"),
    ("noncharacter", "\ufffe".encode(), "\ufffe", "utf-8"),
    ("replacement", "\ufffd".encode(), "\ufffd", "utf-8"),
    ("latin-1", b"caf\xe9", "café", "latin-1 (declared fallback), 0 characters replaced"),
    ("latin-1-c1", b"a\x93b", "a\x93b", "latin-1 (declared fallback), 0 characters replaced"),
    ("cut-utf-8", "x€".encode()[:-1], "xâ\x82", "latin-1 (declared"),
    ("overlong", b"\xc0\xafetc", "À¯etc", "latin-1 (declared"),
    ("surrogate-utf-8", b"\xed\xa0\x80xxxx", "í\xa0\x80xxxx", "latin-1 (declared"),
    ("surrogate-utf-16", b"\xff\xfe\x00\xd8a\x00", None, "not utf-16-le"),
    ("odd-utf-16", b"\xff\xfea", None, "not utf-16-le"),
    ("bad-after-bom", codecs.BOM_UTF8 + b"\xff", None, "not utf-8: undecodable byte at offset 3"),
    ("utf-16-no-bom", "wide".encode("utf-16-le"), "wide", "utf-16-le (assumed)"),
    ("nul", b"a\0b", None, "binary: holds NUL"),
    ("nul-utf-16", "a\0".encode("utf-16"), None, "binary: holds NUL"),
    ("controls", b"\x01\x02\x03abc", None, "binary: more than 10 %"),
]


def test_thirty_encodings_are_decided_as_declared(bench):
    assert len(ENCODINGS) == 30
    for name, raw, _, _ in ENCODINGS:
        bench.write(f"{name}.txt", raw)
    stats = bench.run(fallback_encoding="latin-1")
    rows = json.loads((bench.index / "file_manifest.json").read_text("utf-8"))["files"]
    found = {row["path"]: (row["decision"], row["reason"]) for row in rows}
    for name, raw, text, note in ENCODINGS:
        decision, reason = found[f"{name}.txt"]
        assert decision == ("skipped" if text is None else "ingested"), name
        assert reason.startswith(note), name
        assert decode(raw, fallback="latin-1")[0] == text, name
    assert stats.files["skipped"] == sum(text is None for _, _, text, _ in ENCODINGS)
    view = bench.view()
    texts = {f"{name}.txt": text for name, _, text, _ in ENCODINGS}
    for chunk in view.chunks(view.chunk_ids):
        assert chunk.snippet == texts[chunk.source][slice(*chunk.span)]
        chunk.snippet.encode("utf-8")
    assert bench.health() == []


def test_replaced_characters_are_counted():
    text, note = decode(b"a\x81\x8db\xe9", fallback="cp1252")
    assert text == "a\ufffd\ufffdbé"
    assert note == "cp1252 (declared fallback), 2 characters replaced"


def test_another_fallback_reads_the_file_again(bench):
    bench.write("a.txt", b"caf\xe9")
    (warned,) = bench.run().warnings
    assert warned.startswith("a.txt: read as cp1252 (assumed)") and "fallback_encoding" in warned
    for encoding, text in (("cp1251", "cafй"), ("latin-1", "café")):
        assert bench.pending(fallback_encoding=encoding).reason == "settings changed"
        assert bench.run(fallback_encoding=encoding).committed
        view = bench.fresh_view()
        assert [c.snippet for c in view.chunks(view.chunk_ids)] == [text]


def links_and_special_files(bench):
    """Make fifteen things that are no documents, and three that are; return the names of those."""
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("CANARY")
    docs = bench.docs
    bench.write("real.md", "inside")
    bench.write("sub/real.md", "inside too")
    links = {
        "to-file.md": outside / "secret.md",
        "to-folder": outside,
        "to-itself.md": docs / "to-itself.md",
        "to-parent": docs,
        "sub/up": docs,
        "dangling.md": docs / "nothing.md",
        "relative.md": "../outside/secret.md",
        "chain-1.md": docs / "chain-2.md",
        "chain-2.md": outside / "secret.md",
        "to-sibling.md": docs / "real.md",
        "to-device.md": "/dev/zero",
        "to-proc.md": "/proc/self/environ",
    }
    for name, target in links.items():
        (docs / name).symlink_to(target)
    os.mkfifo(docs / "pipe.md")
    os.mkfifo(docs / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.fspath(docs / "s.md"))
    server.close()
    os.link(docs / "real.md", docs / "hard.md")
    return [*links, "pipe.md", "pipe", "s.md"]


def test_fifteen_links_and_special_files_are_refused_once_each(bench):
    names = links_and_special_files(bench)
    stats = bench.run()
    refused = [path for path, _ in stats.skipped_reasons]
    assert sorted(refused) == sorted(names)
    assert len(refused) == 15
    rows = json.loads((bench.index / "file_manifest.json").read_text("utf-8"))["files"]
    listed = [row["path"] for row in rows if row["decision"] == "refused"]
    assert sorted(listed) == sorted(refused)
    assert {row["path"] for row in rows} - set(listed) == {"real.md", "sub/real.md", "hard.md"}
    assert b"CANARY" not in (bench.index / "catalog.sqlite").read_bytes()


def sizes_and_binaries(bench):
    """Write twelve files, from nothing to a terabyte."""

    def sparse(name, size):
        with bench.write(name, b"").open("wb") as handle:
            handle.truncate(size)

    bench.write("empty.md", b"")
    bench.write("blank.md", b" \n\t\r\n ")
    bench.write("at-limit.md", b"word " * 200)
    bench.write("over-limit.md", b"word " * 200 + b".")
    sparse("two-gigabytes.md", 2 << 30)
    sparse("one-terabyte.md", 1 << 40)
    sparse("one-terabyte.pdf", 1 << 40)
    sparse("zeros.md", 1000)
    bench.write("binary.md", bytes(range(256)))
    bench.write("png.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    bench.write("ten-percent.md", b"\x01" * 10 + b"a" * 90)
    bench.write("eleven-percent.md", b"\x01" * 11 + b"a" * 89)


def test_twelve_sizes_and_binaries_have_the_expected_verdict(bench):
    sizes_and_binaries(bench)
    stats = bench.run(max_text_bytes=1000)
    reasons = dict(stats.skipped_reasons)
    expected = {
        "over-limit.md": "limit of 1000", "two-gigabytes.md": "limit of 1000",
        "one-terabyte.md": "limit of 1000", "one-terabyte.pdf": "limit of 100000000",
        "zeros.md": "NUL", "binary.md": "NUL", "png.txt": "NUL", "eleven-percent.md": "control",
    }  # fmt: skip
    assert set(reasons) == set(expected)
    assert all(word in reasons[path] for path, word in expected.items())
    assert stats.documents == 4
    assert stats.files["new"] + len(reasons) == 12


def aliases(depth):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, depth)]
    return "\n".join(lines)


LONG = by_length(100_000, 1_000_000, 1_000_000)
BOMBS = {
    "deep-array.json": "[" * 100_000,
    "deep-closed.json": "[" * 100_000 + "]" * 100_000,
    "deep-object.json": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "long-number.json": "1" * LONG,
    "long-exponent.json": '{"x": 1e' + "9" * 200_000 + "}",
    "long-string.json": '"' + "a" * LONG + '"',
    "many-keys.json": "{" + ",".join(f'"k{n}":{n}' for n in range(20_000)) + "}",
    "lone-surrogate.json": '"\\ud800"' * 1000,
    "aliases.yaml": aliases(30),
    "deep-flow.yaml": "a: " + "[" * 100_000,
    "deep-indent.yml": "\n".join(" " * n + "a:" for n in range(1000)),
    "python-tag.yaml": "!!python/object/apply:os.system ['touch PWNED']\n" * 100,
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", BOMBS)
def test_json_and_yaml_bombs_are_text(bench, name):
    assert len(BOMBS) == 12
    bench.write(name, BOMBS[name])
    limit = sys.getrecursionlimit()
    stats = bench.run()
    assert (stats.files["new"], stats.skipped_reasons) == (1, ())
    view = bench.view()
    covered = sorted(c.span for c in view.chunks(view.chunk_ids))
    reached = 0
    for start, end in covered:
        assert not BOMBS[name][reached:start].strip()
        reached = max(reached, end)
    assert not BOMBS[name][reached:].strip()
    assert sys.getrecursionlimit() == limit
    assert not (bench.docs / "PWNED").exists()
