"""Facts between journal and file: killed or out of space at any call; the next look heals."""

import shutil
from functools import partial

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.facts.records import NAMES
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import RagstreamError
from ragstream_core.services.clear_history import clear
from ragstream_core.wiring import fact_proposals, remembered_facts_files
from ragstream_core.wiring.journal import append_turn, journal
from ragstream_core.wiring.remembered_facts import FactMemory
from ragstream_core.wiring.workspace import open_workspace
from tests.copies import holders
from tests.faults.harness import hindered, need_strace
from tests.lengths import by_length

LINE = "- The company reviews the open incidents every Friday.\n"
OTHER = "- A line of mine.\n"


def open_root(root):
    return open_workspace(root, explicit={"embeddings.backend": "hashed"})


@pytest.fixture
def template(tmp_path):
    """One fact that waits, beside a line that a person wrote."""
    space = open_root(tmp_path / "template")
    text = "Every Friday we review the open incidents."
    append_turn(space, Turn("", "s", "", text, "Noted."))
    fact_proposals.remember(space, fact_proposals.analyze(space))
    FactMemory(space).add("A line of mine.", "company")
    return space.data_dir


def company(space):
    return remembered_facts_files.read(space, "company")


@pytest.mark.sweep
@pytest.mark.parametrize("effect", ["signal=KILL", "error=ENOSPC", "error=EIO"])
@pytest.mark.parametrize("step", ["accept", "undo"])
def test_every_call_may_be_the_last(template, tmp_path, effect, step):
    """Accept, and undo of what was accepted: record and line agree after the next look."""
    need_strace()
    points = hits = 0
    for call in ("pwrite64", "write", "fsync", "rename", "unlink"):
        n, hit = 1, True
        while hit:
            root = tmp_path / f"run-{points}"
            shutil.copytree(template, root)
            space = open_root(root)
            memory = FactMemory(space)
            (fact,) = memory.candidates()
            if step == "undo":
                memory.accept(fact.id)
            task = partial(getattr(FactMemory(space), step), fact.id)
            hit = hindered(task, call, effect, n, tmp_path)
            now = open_root(root)
            rows = [row.text for row in FactMemory(now).remembered()]
            status = FactMemory(now).facts()[0].status
            wanted = status == "accepted"
            assert (LINE[2:-1] in rows) is wanted and OTHER[2:-1] in rows
            lines = sorted([OTHER, LINE] if wanted else [OTHER])
            assert sorted(company(now).splitlines(keepends=True)) == lines
            assert journal(now).check().sound
            again = FactMemory(now).undo(fact.id) if wanted else FactMemory(now).accept(fact.id)
            assert (LINE in company(now)) is (again.status == "accepted")
            shutil.rmtree(root)
            points, hits, n = points + 1, hits + hit, n + by_length(3, 2, 1)
    print(f"\n{step} {effect}: {points} runs, {hits} hit")
    assert hits > 4


@pytest.mark.sweep
def test_a_clearing_killed_anywhere_takes_the_facts_along_in_the_end(template, tmp_path):
    """Its fact is accepted and edited by hand; whoever comes next finishes, and no word is left."""
    need_strace()
    base = open_root(template)
    memory = FactMemory(base)
    memory.accept(memory.candidates()[0].id)
    path = base.layout.facts / NAMES["company"]
    path.write_text(f"{path.read_text()}- We review the open incidents, every Friday at ten.\n")
    points = hits = 0
    for call in ("pwrite64", "fsync", "rename", "unlink"):
        n, hit = 1, True
        while hit:
            root = tmp_path / f"clear-{points}"
            shutil.copytree(template, root)
            space = open_root(root)
            task = partial(clear, space, Choice("s"))
            hit = hindered(task, call, "signal=KILL", n, tmp_path, clean=(RagstreamError,))
            clear(open_root(root), Choice("s"))
            assert holders(root, "incidents") == [] and company(open_root(root)) == OTHER
            shutil.rmtree(root)
            points, hits, n = points + 1, hits + hit, n + by_length(3, 2, 1)
    print(f"\nclear: {points} runs, {hits} killed")
    assert hits > 4
