"""Help texts and the settings reference are pinned: what people read is what the code does.

After a wanted change: ``python -m tests.app.test_reference`` writes both files anew.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ragstream_app.cli.main import app, main
from ragstream_app.output.settings_reference import settings_reference
from ragstream_core.settings import known_keys

HERE = Path(__file__).parent
HELP = HERE / "help.txt"
REFERENCE = HERE.parents[1] / "data" / "doc_raw" / "handbook" / "settings-reference.md"


def commands(command: Any = None, *words: str) -> Iterator[list[str]]:
    """Yield the words of every command and group there is, the program itself first."""
    command = command or typer.main.get_command(app)
    yield [*words]
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *words, name)


def help_texts() -> str:
    os.environ.update(COLUMNS="100", TERMINAL_WIDTH="100", TERM="dumb", NO_COLOR="1")
    parts = []
    for words in commands():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main([*words, "--help"]) == 0
        lines = [line.rstrip() for line in out.getvalue().strip().splitlines()]
        parts.append("\n".join([" ".join(["$ ragstream", *words, "--help"]), "", *lines]))
    return "\n\n\n".join(parts) + "\n"


def test_help_is_as_pinned():
    assert help_texts() == HELP.read_text(encoding="utf-8")


def test_settings_reference_is_as_generated():
    assert settings_reference() == REFERENCE.read_text(encoding="utf-8")


def test_every_setting_is_explained():
    text = settings_reference()
    for key in known_keys():
        row = next(line for line in text.splitlines() if f"`{key}`" in line)
        assert len(row.split("|")[4].strip()) > 10, key


def test_every_command_there_is_is_pinned():
    registered = [*app.registered_commands]
    for group in app.registered_groups:
        registered += group.typer_instance.registered_commands
    callbacks = [one.typer_instance.registered_callback for one in app.registered_groups]
    assert len(list(commands())) == 1 + len(registered) + len(callbacks)
    assert HELP.read_text(encoding="utf-8").count("$ ragstream") == len(list(commands()))


def test_every_command_and_option_is_explained():
    for line in HELP.read_text(encoding="utf-8").splitlines():
        if line.startswith("│ --"):
            assert len(line.strip("│ ").split("  ")) > 1, line


if __name__ == "__main__":
    HELP.write_text(help_texts(), encoding="utf-8")
    REFERENCE.write_text(settings_reference(), encoding="utf-8")
