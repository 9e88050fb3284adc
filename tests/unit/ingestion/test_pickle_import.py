"""Foreign pickles: honest ones become documents, hostile ones are refused without any effect."""

import builtins
import collections
import copyreg
import io
import os
import pickle
import pickletools
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ragstream_core.errors import UsageError
from ragstream_core.ingestion import pickle_import
from ragstream_core.ingestion.pickle_import import (
    PickleLimits,
    PickleRefused,
    import_pickle,
    read_pickle,
)

TEXTS = ["First text.", "Second text\nwith two lines.", "Dritter Text: größer."]
VECTORS = np.eye(3, 8, dtype=np.float32)
LIMITS = PickleLimits(memory_bytes=2**30, cpu_s=3, wall_s=30)


def save(tmp_path, value, protocol=4):
    path = tmp_path / "store.pkl"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


# --- honest ones ---

HONEST = {
    "columns": {
        "ids": ["a", "b", "c"], "vectors": VECTORS, "texts": TEXTS,
        "metadata": [{"source": "x.md"}] * 3,
    },
    "arrays of texts": {"ids": np.array(["a", "b", "c"]), "vectors": VECTORS,
                        "texts": np.array(TEXTS)},
    "arrays of objects": {"ids": np.array(["a", "b", "c"], dtype=object), "embeddings": VECTORS,
                          "documents": np.array(TEXTS, dtype=object)},
    "big-endian": {"ids": np.array(["a", "b", "c"]).astype(">U1"), "texts": TEXTS,
                   "vectors": VECTORS.astype(">f8")},
    "records": [{"id": i, "text": t, "vector": v, "metadata": {"n": np.int64(1)}}
                for i, t, v in zip("abc", TEXTS, VECTORS, strict=True)],
    "by id": {i: {"text": t, "embedding": v}
              for i, t, v in zip("abc", TEXTS, VECTORS, strict=True)},
    "ordered": collections.OrderedDict(zip("abc", TEXTS, strict=True)),
    "names in the metadata": {"texts": TEXTS, "metadatas": [{"path": p} for p in "abc"],
                              "extra": {1, 2}, "vectors": VECTORS[:, ::2]},
    "array of records": np.array([{"id": i, "text": t} for i, t in zip("abc", TEXTS, strict=True)]),
    "numpy texts": [{"id": np.str_(i), "text": str(t)} for i, t in zip("abc", TEXTS, strict=True)],
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("protocol", range(2, 6))
def test_honest_pickles_become_documents(tmp_path, name, protocol):
    docs = tmp_path / "doc_raw" / "old"
    found = import_pickle(save(tmp_path, HONEST[name], protocol), docs)
    assert found.written == ("imported/a.md", "imported/b.md", "imported/c.md")
    assert [(docs / path).read_text() for path in found.written] == [t + "\n" for t in TEXTS]
    again = import_pickle(tmp_path / "store.pkl", docs)
    assert (again.written, again.unchanged) == ((), found.written)


def test_it_counts_vectors_and_empty_texts(tmp_path):
    value = {"texts": [*TEXTS, " "], "vectors": np.zeros((4, 8))}
    found = import_pickle(save(tmp_path, value), tmp_path / "docs")
    assert found.written == ("imported/0.md", "imported/1.md", "imported/2.md")
    assert (found.vectors, found.empty) == (4, 1)


def test_names_stay_inside_and_apart(tmp_path):
    names = ["../../etc/passwd", "a/b.md", "a-b", "A-B", "", "CON", "ä", "x" * 200, "a-b"]
    value = [{"id": name, "text": f"text {n}"} for n, name in enumerate(names)]
    found = import_pickle(save(tmp_path, value), tmp_path / "docs")
    assert len({path.lower() for path in found.written}) == len(names)
    inside = tmp_path / "docs" / "imported"
    assert {p.parent for p in (tmp_path / "docs").rglob("*.md")} == {inside}
    assert sorted(p.read_text() for p in inside.iterdir()) == [f"text {n}\n" for n in range(9)]


def test_another_text_of_that_name_is_never_replaced(tmp_path):
    docs = tmp_path / "docs"
    (docs / "imported").mkdir(parents=True)
    (docs / "imported" / "b.md").write_text("mine")
    with pytest.raises(UsageError, match="holds another text"):
        import_pickle(save(tmp_path, HONEST["columns"]), docs)
    assert [p.name for p in (docs / "imported").iterdir()] == ["b.md"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"texts": ["a"], "ids": ["1", "2"]}, "different lengths"),
        ({"texts": [b"bytes"]}, "has no text"),
        ([], "neither a dict"),
        ("text", "neither a dict"),
        ([{"vector": VECTORS}], "has no text"),
        ({"texts": np.zeros(3)}, "has no text"),
        ({"texts": np.zeros(3, dtype=[("a", "f4")])}, "type"),
        (b"no pickle", "not a readable pickle"),
        (pickle.dumps(TEXTS)[:-5], "not a readable pickle"),
    ],
)
def test_what_holds_no_texts_says_so(tmp_path, value, says):
    with pytest.raises(PickleRefused, match=says):
        read_pickle(save(tmp_path, value), LIMITS)


# --- hostile ones: each would leave a trace if any of it ran ---


class Call:
    def __init__(self, call, *args):
        self.what = (call, args)

    def __reduce__(self):
        return self.what


def nested(make, depth=2):
    value = make
    for _ in range(depth):
        value = {"texts": ["a"], "metadata": [value]}
    return value


def forged_object_array():
    """An object array whose buffer would be taken for pointers."""
    good = pickle.dumps(np.array(["x"], dtype=object), 2)
    assert b"X\x01\x00\x00\x00xq" in good
    return good.replace(b"]q", b"U\x08AAAAAAAA0]q", 1)


def memo_bomb():
    return b"\x80\x04r" + struct.pack("<I", 2**32 - 1) + b"."


def billion_laughs():
    """One text of a megabyte, a hundred thousand times."""
    return {"texts": ["ha" * 500_000] * 100_000}


def text_bomb():
    """Few bytes, endless work: the same long list extended over and over."""
    inner = b"]" + b"".join(b"(" + b"h\x00" * 50 + b"e" for _ in range(50)) + b"."
    return b"\x80\x04](" + b"X\x01\x00\x00\x00a" * 100 + b"e\x94" + inner


def hostile(canary):
    command = f"touch {canary}"
    return {
        "os.system": Call(os.system, command),
        "posix.system": b"cposix\nsystem\n(S'" + command.encode() + b"'\ntR.",
        "subprocess": Call(subprocess.check_call, ["touch", str(canary)]),
        "popen": Call(subprocess.Popen, ["touch", str(canary)]),
        "eval": Call(builtins.eval, f"open({str(canary)!r}, 'w')"),
        "exec": Call(builtins.exec, f"open({str(canary)!r}, 'w')"),
        "open": Call(builtins.open, str(canary), "w"),
        "import": Call(builtins.__import__, "antigravity"),
        "getattr": b"cbuiltins\ngetattr\n(cos\npath\nS'os'\ntR.",
        "io.open": Call(io.open, str(canary), "w"),
        "os.remove": Call(os.remove, __file__ + ".none"),
        "socket": Call(socket.create_connection, ("127.0.0.1", 9), 1),
        "numpy.load": Call(np.load, str(canary)),
        "numpy.memmap": b"cnumpy\nmemmap\n(S'" + str(canary).encode() + b"'\ntR.",
        "numpy runs code": b"cnumpy.testing._private.utils\nruncode\n(S'" + command.encode()
        + b"'\ntR.",
        "copyreg": b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR.",
        "extension registry": b"\x80\x02\x82\x01.",
        "persistent id": b"Psecret\n.",
        "codec": b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
        "subclass of an array": b"cnumpy.core.multiarray\n_reconstruct\n"
        b"(cos\nsystem\n(I0\ntS'b'\ntR.",
        "attribute walk": b"\x80\x04\x8c\x05numpy\x8c\x1adtype.__init__.__globals__\x93.",
        "inside of a column": nested(Call(os.system, command)),
        "in an object array": {"texts": np.array([Call(os.system, command)], dtype=object)},
        "state of a recorder": b"cnumpy\ndtype\n(S'f4'\nI0\nI1\ntRcos\nsystem\n}b.",
        "code of a recorder": b"cnumpy.core.multiarray\nscalar\n(N}S'__code__'\ncos\nsystem\nstb.",
        "forged pointers": forged_object_array(),
        "memo bomb": memo_bomb(),
        "endless laughs": billion_laughs(),
        "repeated lists": text_bomb(),
        "deep": b"\x80\x04" + b"]" * 200_000 + b"a" * 199_999 + b".",
    }  # fmt: skip


NAMES = sorted(hostile("x"))


def test_there_are_twenty_and_more():
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_hostile_pickles_are_refused_without_effect(tmp_path, name):
    canary = tmp_path / "canary"
    value = hostile(canary)[name]
    path = save(tmp_path, value)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PickleRefused):
        import_pickle(path, tmp_path / "docs", limits=LIMITS)
    assert not canary.exists()
    assert sorted(tmp_path.rglob("*")) == before


def test_the_hostile_ones_would_have_worked(tmp_path):
    """The trace is real: an ordinary unpickler leaves it."""
    canary = tmp_path / "canary"
    for name in ("os.system", "posix.system", "eval", "inside of a column"):
        value = hostile(canary)[name]
        pickle.loads(value if isinstance(value, bytes) else pickle.dumps(value))
        assert canary.exists()
        canary.unlink()


def test_the_child_cannot_open_connect_or_start_anything():
    """The second line of defence, should a recorder ever be tricked."""
    code = (
        "import os, socket, subprocess, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import pickle_child\n"
        "pickle_child.confine(2**31, 5)\n"
        "for number, act in enumerate([lambda: open('/etc/hostname'),\n"
        "        lambda: os.system('true'), lambda: subprocess.Popen(['true']),\n"
        "        lambda: socket.socket(), lambda: __import__('wave'), lambda: os.remove('x'),\n"
        "        lambda: os.fork(), lambda: compile('1', 'x', 'eval')]):\n"
        "    try:\n"
        "        act()\n"
        "        os.write(1, b'%d happened ' % number)\n"
        "    except pickle_child.NotAllowed:\n"
        "        pass\n"
        "os.write(1, b'end')\n"
        "os._exit(0)\n"
    )
    folder = str(Path(pickle_import.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, folder], capture_output=True, text=True, check=False
    )
    assert done.stdout == "end", done.stderr


def test_a_file_over_the_limit_is_refused_unread(tmp_path):
    path = save(tmp_path, HONEST["columns"])
    with pytest.raises(PickleRefused, match="larger than 10 bytes"):
        read_pickle(path, PickleLimits(file_bytes=10))
    with pytest.raises(UsageError):
        read_pickle(tmp_path / "none.pkl", LIMITS)


def test_the_forged_ones_are_pickles():
    for name in ("memo bomb", "codec", "attribute walk"):
        assert list(pickletools.genops(hostile("x")[name]))
    assert copyreg.dispatch_table is not None
