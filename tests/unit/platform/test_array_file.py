"""A sealed file of arrays: what went in comes out, or the file is refused."""

import numpy as np
import pytest

from ragstream_core.platform.array_file import MARK, decode, description, encode, has_stamp

DTYPES = {"numbers": "<i8", "bytes": "|u1", "none": "<f4"}
ARRAYS = {
    "numbers": np.array([3, -1, 1 << 40], dtype="<i8"),
    "bytes": np.frombuffer(b"five!", dtype=np.uint8),
    "none": np.zeros(0, dtype="<f4"),
}
STAMP = {"digest": "ab" * 32, "version": 3}
FILE = encode({**STAMP, "name": "Ä"}, ARRAYS)


def same(data, dtypes=DTYPES, stamp=STAMP):
    """Whether a file holds all that was written."""
    meta, arrays = decode(data, dtypes, stamp)
    assert all(not array.flags.writeable for array in arrays.values())
    return meta["name"] == "Ä" and all(np.array_equal(arrays[n], ARRAYS[n]) for n in dtypes)


def test_what_is_written_is_read_and_the_same_content_gives_the_same_bytes():
    assert same(FILE) and same(memoryview(FILE))
    assert encode({"name": "Ä", **STAMP}, ARRAYS) == FILE


def test_every_flipped_bit_is_found_or_changes_nothing():
    found = 0
    for at in range(len(FILE)):
        for bit in range(8):
            data = bytearray(FILE)
            data[at] ^= 1 << bit
            try:
                assert same(bytes(data))
            except ValueError:
                found += 1
    assert found >= 8 * (len(FILE) - 4), "the four bytes of a length may be larger than they were"


def test_every_cut_is_found():
    for end in range(len(FILE)):
        with pytest.raises(ValueError):
            decode(FILE[:end], DTYPES, STAMP)
        with pytest.raises(ValueError):
            decode(FILE[:end] + bytes(len(FILE) - end), DTYPES, STAMP)


@pytest.mark.parametrize(
    ("dtypes", "stamp", "message"),
    [
        (DTYPES, {"version": 4}, "of version 3, this program reads 4"),
        (DTYPES, {"other": 1}, "of other None"),
        ({"more": "<i8"}, STAMP, "array more is missing"),
    ],
)
def test_another_stamp_and_other_arrays_are_refused(dtypes, stamp, message):
    with pytest.raises(ValueError, match=message):
        decode(FILE, dtypes, stamp)


@pytest.mark.parametrize("text", [b"5", b"[]", b"{", b'{"a":1}', b"", b"\xff", b"[" * 99_999])
def test_a_description_without_its_seal_is_refused(text):
    told = MARK + text
    with pytest.raises(ValueError):
        decode(told + len(told).to_bytes(4, "little") + b"SEALED", {}, {})
    with pytest.raises(ValueError):
        decode(b"no description" + (14).to_bytes(4, "little") + b"SEALED", {}, {})


def test_a_description_is_found_in_another_file_and_names_arrays_there():
    told = description({"name": "Ä", **STAMP}, {"numbers": (3, 24)})
    inner = b"any" + ARRAYS["numbers"].tobytes() + b"its own" + told + b"   more"
    data = inner + (len(told) + 7).to_bytes(4, "little") + b"ARROW1"
    assert same(data, {"numbers": "<i8"})


def test_a_stamp_is_looked_at_without_the_arrays(tmp_path):
    path = tmp_path / "file"
    assert not has_stamp(path, STAMP)
    path.write_bytes(FILE)
    assert has_stamp(path, STAMP) and has_stamp(path, {}) and not has_stamp(path, {"version": 4})
    path.write_bytes(bytes(32) + FILE[32:])
    assert has_stamp(path, STAMP)
    for data in (FILE[:-1], b"", b"short", FILE[-20:]):
        path.write_bytes(data)
        assert not has_stamp(path, {})
