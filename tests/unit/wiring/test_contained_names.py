"""Eighty names × every entry where a person or a page gives one: nothing outside the data root."""

import contextlib

import pytest

from ragstream_core.conversations.journal.records import Turn, uuid7
from ragstream_core.errors import RagstreamError
from ragstream_core.index.view import open_view
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.external_reply import append_external
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.uploads import create_project, save_upload
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace

PLACES = (
    "../../etc/passwd", "..\\..\\boot", "/etc/shadow", "C:\\Windows\\win", "//host/share/x",
    "~/x", "a/../../b", "....//x", "..", ".", "", " ", "-", "--help", "x\x00y", "x\ny", "x\x1b[2J",
    "\u202egpj", "CON", "nul", "com1", "LPT9.tar", "aux.", "x" * 300, "日本", "é ü ñ", "%2e%2e%2f",
    "$(id)", "`id`", "a;rm -rf", "a|b", "<img src=x>", "![i](http://h/x)", "x:y", "x*?", "id_rsa",
    ".env", ".git", "\ud800", "good-name",
)  # fmt: skip
NAMES = [*PLACES, *(f"../{place}" for place in PLACES)]


def prompt(space, **given):
    """Ask with hostile names; what is finished is kept, so that it may reach the disk."""
    request = PromptRequest(**{"text": "Which lock?", "projects": ("demo",), **given})
    space.store.put_request(request)
    save_prompt(space, run_prompt(space, pin_inputs(space, request)))


def turn(session):
    """A reply from outside in a conversation of that name."""
    now = "2026-11-20T10:00:00+00:00"
    return Turn(uuid7(1, b"0123456789"), session, now, "q", "a", source="external")


ENTRIES = {
    "ingest": lambda space, name: ingest_project(space, name, collection=False),
    "new project": create_project,
    "project of a prompt": lambda space, name: prompt(space, projects=(name,)),
    "file of a prompt": lambda space, name: prompt(space, files=(name,)),
    "file switched off": lambda space, name: prompt(space, off=(name,)),
    "diff of a prompt": lambda space, name: prompt(space, diffs=(name,)),
    "session of a prompt": lambda space, name: prompt(space, session=name),
    "session of a turn": lambda space, name: append_external(
        space,
        Turn(
            uuid7(1, b"0123456789"), name, "2026-11-20T10:00:00+00:00", "q", "a", source="external"
        ),
    ),
    "upload": lambda space, name: save_upload(space, "demo", f"{name}.md", b"text"),
    "project of an upload": lambda space, name: save_upload(space, name, "a.md", b"text"),
    "prompt key": lambda space, name: space.store.record(name),
    "replay": lambda space, name: replay_prompt(space, name),
    "request": lambda space, name: space.store.request(name),
    "generation": lambda space, name: open_view(space.index_dir(name)),
}


@pytest.fixture
def space(tmp_path):
    docs = tmp_path / "outer" / "data" / "doc_raw" / "demo"
    docs.mkdir(parents=True)
    (docs / "lock.md").write_text("# Lock\n\nThe lock is one file.\n")
    (tmp_path / "outer" / "b.md").write_text("CANARY outside of the root\n")
    space = open_workspace(tmp_path / "outer" / "data", explicit={"embeddings.backend": "hashed"})
    ingest_project(space, "demo", collection=False)
    return space


def outside(tmp_path):
    """Everything beside the data root, with its bytes."""
    root = tmp_path / "outer" / "data"
    files = (p for p in tmp_path.rglob("*") if not p.is_relative_to(root))
    return {p: p.read_bytes() if p.is_file() else None for p in files}


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_name_leads_out_of_the_data_root(space, tmp_path, entry):
    assert len(NAMES) == 80
    before, accepted = outside(tmp_path), []
    for name in NAMES:
        with contextlib.suppress(RagstreamError):  # anything else would be shown as a traceback
            ENTRIES[entry](space, name)
            accepted.append(name)
    assert outside(tmp_path) == before
    inside = [p for p in (tmp_path / "outer" / "data").rglob("*") if p.is_file()]
    assert not [p for p in inside if b"CANARY outside" in p.read_bytes()]
    assert not any(".." in name for name in accepted if entry not in LENIENT)


LENIENT = ("file switched off", "upload")
"""Entries that take any name: one that no file has switches nothing off, an upload gets ours."""
