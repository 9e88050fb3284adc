"""The documentation is checked: commands parse, settings exist, links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from ragstream_app.cli import app
from ragstream_core.settings import SECTIONS, known_keys

ROOT = Path(__file__).parents[2]
HANDBOOK = ROOT / "data" / "doc_raw" / "handbook"
PAGES = sorted(HANDBOOK.glob("*.md"))
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *PAGES,
]
COMMAND = re.compile(r"^(?:    |\$ )?(ragstream [^\n]*)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
SETTING = re.compile(rf"`((?:{'|'.join(SECTIONS)})\.[a-z_]+)(?:=[^`]*)?`")
FILES = {"config.py", "dagster.yaml"}


def commands(text):
    for line in COMMAND.findall(re.sub(r"\s*\\\n\s*", " ", text)):
        line = re.split(r"\s{2,}|\s#\s|\s\|\s|\s[<>]\s|\s&&\s", line)[0]
        if "…" not in line and "..." not in line and "·" not in line:
            yield line.strip()


def parse(words):
    """Parse a command line as the program would, without running it."""
    command, context = typer.main.get_command(app), None
    while True:
        context = command.make_context(words[0], list(words[1:]), parent=context)
        if not isinstance(command, TyperGroup):
            return
        name, command, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        words = [name, *words]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_command_that_is_shown_can_be_typed(path):
    for line in commands(path.read_text(encoding="utf-8")):
        try:
            parse(shlex.split(line))
        except typer.Exit:
            pass  # --help and --version end here
        except (TyperException, ValueError) as error:
            pytest.fail(f"{path.name}: {line}: {error}")


def test_the_parser_of_this_test_can_fail():
    with pytest.raises(TyperException):
        parse(["ragstream", "prompt", "x", "--no-such-option"])
    with pytest.raises(TyperException):
        parse(["ragstream", "no-such-command"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_resolve_and_settings_exist(path):
    text = path.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), f"{path.name} → {target}"
    unknown = set(SETTING.findall(text)) - set(known_keys()) - FILES
    assert not unknown, f"{path.name}: {unknown}"


def test_the_handbook_has_its_pages_and_no_page_is_filler():
    assert len(PAGES) >= 20
    titles = [p.read_text(encoding="utf-8").splitlines()[0] for p in PAGES]
    assert len(set(titles)) == len(titles)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(text.split()) >= 400, page.name
        assert "{{" not in text, page.name


def test_the_makefile_lists_its_targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "check", "up", "bench", "lock", "clean"):
        assert re.search(rf"^{target}:.*## ", text, re.MULTILINE), target


def test_the_example_files_are_what_they_say(tmp_path, monkeypatch):
    import json

    from ragstream_core.config import AppConfig
    from ragstream_core.orchestration.inputs import request_from

    monkeypatch.chdir(tmp_path)
    AppConfig.load(HANDBOOK / "settings-example.yaml")
    request_from(json.loads((HANDBOOK / "prompt-request-example.json").read_text()))
