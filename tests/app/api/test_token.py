"""The token: made once, its owner's alone, and compared as a whole."""

import os
import stat
import threading

import pytest

from ragstream_app.api.token import ensure_token, is_token, read_token, replace_token
from ragstream_core.errors import Refused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my data" / "api-token"


def test_the_first_call_makes_it_and_the_next_ones_return_it(path):
    before = os.umask(0o022)
    try:
        token = ensure_token(path)
    finally:
        os.umask(before)
    assert len(token) > 40 and ensure_token(path) == read_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_two_that_make_it_at_once_get_the_same(path):
    found, gate = [], threading.Barrier(8)

    def make():
        gate.wait()
        found.append(ensure_token(path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and set(found) == {read_token(path)}


def test_a_new_one_ends_the_old_one(path):
    old = ensure_token(path)
    new = replace_token(path)
    assert new != old and ensure_token(path) == new
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert is_token(new, new) and not is_token(old, new)
    assert not any(is_token(wrong, new) for wrong in ("", new[:-1], f"{new}x", "ü", new.upper()))


@pytest.mark.parametrize("content", [b"", b"rs-", b"rs-short\n", b"\xff" * 60, b"x" * 60])
def test_a_damaged_file_opens_nothing(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(Refused, match="has been altered") as error:
        ensure_token(path)
    assert "serve --new-token" in error.value.hint


def test_one_that_others_can_read_is_refused(path):
    ensure_token(path)
    path.chmod(0o640)
    with pytest.raises(Refused, match="others can read") as error:
        ensure_token(path)
    assert f"chmod 600 '{path}'" in error.value.hint


def test_the_command_prints_it(data, run):
    code, out, _ = run("serve", "--show-token")
    assert (code, out.strip()) == (0, read_token(data / "api-token"))
    code, new, said = run("serve", "--new-token")
    assert code == 0 and new != out and "restart" in said
    assert run("serve", "--show-token")[1] == new
    assert run("serve", "--show-token", "--new-token")[0] == 2
