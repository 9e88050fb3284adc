"""Help texts and the settings reference are pinned: what people read is what the code does.

After a wanted change: ``python -m tests.app.test_reference`` writes both files anew.
"""

import contextlib
import io
import os
from pathlib import Path

from ragstream_app.cli.main import main
from ragstream_app.output.settings_reference import settings_reference
from ragstream_core.settings import known_keys

HERE = Path(__file__).parent
HELP = HERE / "help.txt"
REFERENCE = HERE.parents[1] / "data" / "doc_raw" / "handbook" / "settings-reference.md"
COMMANDS = (
    "", "demo", "ingest", "status", "prompt", "ask", "chat", "search", "explain", "why-not",
    "replay", "rerun", "diff", "trace", "verify-prompt", "leave-one-out", "bundle", "up",
    "serve", "password", "doctor", "config", "config show", "config reference", "models",
    "models list", "models pull", "models verify", "eval", "eval retrieval", "eval sweep", "keep",
    "du", "backup", "restore", "forget", "weather", "index",
    "index generations", "index check", "index diff", "index gc", "index import-pkl",
    "prompts", "prompts gc", "runs", "runs gc", "history", "history adopt",
    "history append", "history show", "history sessions", "history tag", "history import",
    "history export", "history embed", "history backfill", "history check", "history clear", "mcp",
    "mcp install", "init", "project", "project add", "project list", "project sync",
    "project remove", "worker", "embeddings", "embeddings status", "embeddings clear",
)  # fmt: skip


def help_texts() -> str:
    os.environ.update(COLUMNS="100", TERMINAL_WIDTH="100", TERM="dumb", NO_COLOR="1")
    parts = []
    for command in COMMANDS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main([*command.split(), "--help"]) == 0
        lines = [line.rstrip() for line in out.getvalue().strip().splitlines()]
        parts.append("\n".join([f"$ ragstream {command} --help".replace("  ", " "), "", *lines]))
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


def test_every_command_and_option_is_explained():
    for line in HELP.read_text(encoding="utf-8").splitlines():
        if line.startswith("│ --"):
            assert len(line.strip("│ ").split("  ")) > 1, line


if __name__ == "__main__":
    HELP.write_text(help_texts(), encoding="utf-8")
    REFERENCE.write_text(settings_reference(), encoding="utf-8")
