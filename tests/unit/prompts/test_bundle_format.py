"""The container of a bundle: what was packed comes out, and nothing else is taken."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import IntegrityError, Refused
from ragstream_core.prompts import bundle_format

KEY = "ab" * 32
BLOB = "blobs/" + "0" * 64
PARTS = {"record": b"{}", BLOB: b"bytes", "index/demo/vectors": b"\0" * 8}
names = st.sampled_from([*PARTS, "history/journal", "history/snapshot", "index/x.y-z/chunks"])


def sealed(head, body=b""):
    """Return a bundle with a true seal around any head and body."""
    line = head if isinstance(head, bytes) else json.dumps(head).encode() + b"\n"
    data = bundle_format.MAGIC + line + body
    return data + hashlib.sha256(data).hexdigest().encode() + b"\n"


def row(name, data):
    return [name, len(data), hashlib.sha256(data).hexdigest()]


@given(st.dictionaries(names, st.binary(max_size=40)))
def test_what_is_packed_comes_out(parts):
    data = bundle_format.pack(KEY, parts)
    found = bundle_format.unpack(data)
    assert found.prompt_key == KEY
    assert {name: bytes(part) for name, part in found.parts.items()} == parts
    assert bundle_format.pack(KEY, dict(reversed(parts.items()))) == data


def test_every_single_byte_counts():
    data = bundle_format.pack(KEY, PARTS)
    for at in range(len(data)):
        with pytest.raises(IntegrityError):
            bundle_format.unpack(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for end in range(len(data)):
        with pytest.raises(IntegrityError):
            bundle_format.unpack(data[:end])
    with pytest.raises(IntegrityError):
        bundle_format.unpack(data + b"x")


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_and_never_crash(data):
    for found in (data, bundle_format.MAGIC + data, sealed(data)):
        with pytest.raises(IntegrityError):
            bundle_format.unpack(found)


HOSTILE = {
    "a zip": b"PK\x03\x04" + b"\0" * 100,
    "nothing": b"",
    "no seal": bundle_format.MAGIC + b"{}\n",
    "another form": sealed([KEY, []]),
    "a key too much": sealed({"prompt_key": KEY, "parts": [], "x": 1}),
    "a key twice": sealed(b'{"parts":[],"prompt_key":"%s","parts":[]}\n' % KEY.encode()),
    "no key": sealed({"prompt_key": "../../etc", "parts": []}),
    "a path upwards": sealed({"prompt_key": KEY, "parts": [row("../../x", b"a")]}, b"a"),
    "an absolute path": sealed({"prompt_key": KEY, "parts": [row("/etc/passwd", b"a")]}, b"a"),
    "a project upwards": sealed(
        {"prompt_key": KEY, "parts": [row("index/../vectors", b"a")]}, b"a"
    ),
    "a part twice": sealed({"prompt_key": KEY, "parts": [row("record", b"a")] * 2}, b"aa"),
    "a negative size": sealed({"prompt_key": KEY, "parts": [["record", -1, "0" * 64]]}),
    "a size that is no number": sealed({"prompt_key": KEY, "parts": [["record", True, "0" * 64]]}),
    "a size behind the end": sealed({"prompt_key": KEY, "parts": [["record", 1 << 60, "0" * 64]]}),
    "another digest": sealed({"prompt_key": KEY, "parts": [["record", 1, "0" * 64]]}, b"a"),
    "bytes behind": sealed({"prompt_key": KEY, "parts": [row("record", b"a")]}, b"ab"),
    "a link": sealed(
        {"prompt_key": KEY, "parts": [[*row("record", b"a"), "link", "/etc/passwd"]]}, b"a"
    ),
    "NaN": sealed(b'{"prompt_key":"%s","parts":[["record",NaN,"0"]]}\n' % KEY.encode()),
    "deep": sealed(b"[" * 200_000 + b"]" * 200_000 + b"\n"),
    "a long number": sealed(b"1" * 100_000 + b"\n"),
    "too many parts": sealed({"prompt_key": KEY, "parts": [[]] * (bundle_format.MAX_PARTS + 1)}),
    "a head without end": sealed(b" " * (bundle_format.MAX_HEAD + 10)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_whole(name):
    with pytest.raises(IntegrityError, match="damaged or was tampered with"):
        bundle_format.unpack(HOSTILE[name])


def test_what_a_reader_would_refuse_is_not_written(monkeypatch):
    monkeypatch.setattr(bundle_format, "MAX_BYTES", 100)
    with pytest.raises(Refused, match="GB"):
        bundle_format.pack(KEY, PARTS)
