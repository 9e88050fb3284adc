"""What every command prints with ``--json``, over one small data root."""

import difflib

import pytest

from tests.nets import commands


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return commands.lived(tmp_path_factory.mktemp("life"))


def test_every_command_prints_as_recorded(printed):
    now = commands.by_command(printed)
    then = {path.name: path.read_text(encoding="utf-8") for path in commands.RECORDED.iterdir()}
    differences = [
        "\n".join(
            difflib.unified_diff(
                then.get(name, "").splitlines(), now.get(name, "").splitlines(),
                f"recorded {name}", "now", n=2, lineterm="",
            )
        )
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]  # fmt: skip
    assert not differences, "\n".join("\n".join(differences).splitlines()[:120])


def test_no_command_is_forgotten(printed):
    ran = {name for name, *_ in printed}
    there = set(commands.names())
    assert ran | commands.LEFT_OUT.keys() == there
    assert not ran & commands.LEFT_OUT.keys()


def test_nothing_of_it_failed(printed):
    assert not [(words, value) for _, words, code, value in printed if code]
