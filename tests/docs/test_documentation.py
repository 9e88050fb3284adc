"""The documentation is checked: commands, settings, links, pictures, button labels are real."""

import ast
import functools
import re
import shlex
import struct
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from ragstream_app.cli.main import app
from ragstream_app.page.prompt_session import BUILD, LABELS
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
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)#\s]+)(?:#([^)\s]*))?\)")
PICTURE = re.compile(r"!\[([^\]\n]*)\]\(([^)\s]+)\)")
IMAGES = ROOT / "docs" / "images"
MAX_PICTURE_BYTES = 200_000
SETTING = re.compile(rf"`((?:{'|'.join(SECTIONS)})\.[a-z_]+)(?:=[^`]*)?`")
FILES = {"config.py", "dagster.yaml"}


def commands(text):
    for line in COMMAND.findall(re.sub(r"\s*\\\n\s*", " ", text)):
        line = re.split(r"\s{2,}|\s#\s|\s\|\s|\s[<>]\s|\s&&\s", line)[0]
        if "…" not in line and "..." not in line and "·" not in line:
            yield line.strip()


@functools.cache
def program():
    """The program as a tree of commands, made once."""
    return typer.main.get_command(app)


def parse(words):
    """Parse a command line as the program would, without running it."""
    command, context = program(), None
    while True:
        context = command.make_context(words[0], list(words[1:]), parent=context)
        if not isinstance(command, TyperGroup):
            return
        words = [*context._protected_args, *context.args]
        if not words and command.invoke_without_command:
            return
        name, command, words = command.resolve_command(context, words)
        words = [name, *words]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_command_that_is_shown_can_be_typed(path):
    for line in commands(path.read_text(encoding="utf-8")):
        if "-completion" in line:  # these write into the home folder or print, and end the process
            continue
        try:
            parse(shlex.split(line))
        except typer.Exit:
            pass  # --help and --version end here
        except (TyperException, ValueError) as error:
            pytest.fail(f"{path.name}: {line}: {error}")


def anchors(path):
    """Return the names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def pictures():
    """Yield page, description and path of every picture that is shown."""
    for page in DOCUMENTS:
        for described, target in PICTURE.findall(page.read_text(encoding="utf-8")):
            yield page, described, (page.parent / target).resolve()


def test_every_picture_exists_and_can_be_looked_at():
    for page, described, path in pictures():
        assert len(described.split()) >= 4, f"{page.name}: {path.name} is not described"
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR", path.name
        width, height = struct.unpack(">II", data[16:24])
        assert 600 <= width <= 2600 and 300 <= height <= 2000, (path.name, width, height)
        assert len(data) <= MAX_PICTURE_BYTES, (path.name, len(data))


def test_every_picture_is_shown_somewhere():
    shown = {path for _, _, path in pictures()}
    assert shown and shown == set(IMAGES.glob("*"))


def test_pictures_leave_only_their_description_in_the_index():
    from ragstream_core.text.blocks import Markup

    text = "![The page at its start](../../../docs/images/page-first.png)"
    assert Markup(text).without(0, len(text)) == "The page at its start"


def test_every_page_and_decision_is_listed():
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = {target for target, _ in LINK.findall(text)}
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        assert f"decisions/{path.name}" in listed, path.name
    for page in PAGES:
        assert f"../data/doc_raw/handbook/{page.name}" in listed, page.name


def test_the_page_has_what_its_walk_names():
    panels = ROOT / "ragstream_app" / "page" / "panels"
    code = "".join(
        p.read_text(encoding="utf-8") for p in [*panels.glob("*.py"), panels / "../main.py"]
    )
    labels = {*re.findall(r'"([^"\n]+)"', code), *LABELS.values(), BUILD}
    for name in re.findall(r"\*\*([^*\n]+)\*\*", (HANDBOOK / "the-page.md").read_text("utf-8")):
        assert name in labels, name


def test_every_command_is_described():
    text = (HANDBOOK / "command-line.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        names = [name] if not isinstance(command, TyperGroup) else command.commands
        for word in names:
            assert re.search(rf"\b{word}\b", text), f"{name}: {word}"


def test_the_parser_of_this_test_can_fail():
    with pytest.raises(TyperException):
        parse(["ragstream", "prompt", "x", "--no-such-option"])
    with pytest.raises(TyperException):
        parse(["ragstream", "no-such-command"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_resolve_and_settings_exist(path):
    text = path.read_text(encoding="utf-8")
    for target, anchor in LINK.findall(text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), f"{path.name} → {target}"
            assert not anchor or anchor in anchors(path.parent / target), f"{path.name} → {anchor}"
    unknown = set(SETTING.findall(text)) - set(known_keys()) - FILES
    assert not unknown, f"{path.name}: {unknown}"


TREE = [
    path.relative_to(ROOT).as_posix() + "/" * path.is_dir()
    for name in ("ragstream_core", "ragstream_assets", "ragstream_app", "tests", "docs")
    for path in [ROOT / name, *(ROOT / name).rglob("*")]
    if "__pycache__" not in path.parts
]
FOR_DEVELOPERS = [p for p in DOCUMENTS if p.parent != HANDBOOK and p.name != "CHANGELOG.md"]
NAMED = re.compile(r"`([\w./-]*(?:/|\.py))(?::([\w.]+))?`")


@pytest.mark.parametrize("path", FOR_DEVELOPERS, ids=lambda path: path.name)
def test_the_code_and_the_tests_that_are_named_exist(path):
    named = NAMED.findall(path.read_text(encoding="utf-8"))
    assert not [name for name, _ in named if not any(f"/{at}".endswith(f"/{name}") for at in TREE)]
    for name, thing in named:
        if thing:
            assert is_defined(ROOT / name, thing), f"{name}:{thing}"


def is_defined(path, thing):
    """Whether a module defines a function, class, constant or, behind a dot, a method."""
    found = ast.parse(path.read_text(encoding="utf-8")).body
    for part in thing.split("."):
        nodes = [n for n in found if part in names_of(n)]
        if not nodes:
            return False
        found = getattr(nodes[0], "body", [])
    return True


def names_of(node):
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [getattr(node.target, "id", "")]
    return [getattr(node, "name", "")]


@pytest.mark.parametrize(("page", "least"), [("journeys.md", 30), ("glossary.md", 45)])
def test_pages_that_lead_to_code_name_it_at_each_entry(page, least):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    entries = re.findall(r"^(?:\d+\.|\| (?!word|---)).*(?:\n   .*)*", text, re.MULTILINE)
    assert len(entries) >= least
    assert not [entry for entry in entries if not NAMED.search(entry)]


def test_the_finder_of_names_can_fail():
    here = Path(__file__)
    assert is_defined(here, "is_defined") and is_defined(here, "ROOT")
    assert not is_defined(here, "is_not_defined") and not is_defined(here, "is_defined.nothing")


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
    for target in ("demo", "test", "check", "up", "bench", "pictures", "lock", "clean"):
        assert re.search(rf"^{target}:.*## ", text, re.MULTILINE), target


def test_the_example_files_are_what_they_say(tmp_path, monkeypatch):
    import json

    from ragstream_core.config import AppConfig
    from ragstream_core.prompts.inputs import request_from

    monkeypatch.chdir(tmp_path)
    AppConfig.load(HANDBOOK / "settings-example.yaml")
    request_from(json.loads((HANDBOOK / "prompt-request-example.json").read_text()))
