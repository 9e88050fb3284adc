"""A clearing killed at random moments or at any call, and one in a race with writers (R28)."""

import shutil
import time
from functools import partial

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Cleared, Turn
from ragstream_core.errors import RagstreamError
from ragstream_core.index.check import Part
from ragstream_core.index.view import forget_views
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.recorded import packed
from ragstream_core.services.clear_history import clear
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.erase_turns import finish, is_due
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_turn, journal, show
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.copies import holders
from tests.faults.harness import DONE, Child, Killer, hindered, need_strace
from tests.lengths import by_length

KILLS = by_length(3, 8, 100)
CANARY = "umbrella marzipan cathedral"
WHEN = "2026-10-{:02}T10:{:02}:00+02:00"


def open_root(root):
    return open_workspace(root, explicit={"embeddings.backend": "hashed"})


def say(space, session, n, text):
    return append_turn(space, Turn("", session, WHEN.format(n % 28 + 1, n % 60), text, f"re {n}"))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Two conversations in three segments, embedded, and a prompt that shows one of them."""
    root = tmp_path_factory.mktemp("clearing") / "data"
    (root / "doc_raw" / "demo").mkdir(parents=True)
    (root / "doc_raw" / "demo" / "a.md").write_text("# Vault\n\nThe vault has a door.\n")
    space = open_root(root)
    ingest_project(space, "demo")
    journal(space)._segment_bytes = 4_000
    for n in range(24):
        secret = n % 3 == 1
        text = f"The phrase of the vault, says he, is {CANARY} number {n}." if secret else "plain"
        say(space, "secret" if secret else "plain", n, f"{text} {n}")
    embed(space)
    prompt = run_prompt(
        space, pin_inputs(space, PromptRequest("Which phrase?", ("demo",), session="secret"))
    )
    save_prompt(space, prompt)
    run = root / "prompts" / "runs" / "r"
    run.mkdir(parents=True)
    text = f"The phrase of the vault, says he, is {CANARY} number 4."
    (run / "a.json.gz").write_bytes(packed({"chunks": [text]}))
    forget_views()
    assert len(holders(root, CANARY)) > 6
    return root


def plain(space):
    """Number and bytes of what is not to be cleared."""
    log = journal(space)
    return [
        (entry.seq, raw)
        for entry, raw in log.lines()
        if isinstance(entry.record, Turn) and entry.record.session_id == "plain"
    ]


def copied(template, tmp_path, n):
    root = tmp_path / f"n{n}"
    shutil.copytree(template, root)
    return open_root(root)


def require_finished(space, before, by):
    """Whoever comes next finishes it; what was not cleared is there as it was written."""
    forget_views()
    begun = any(isinstance(e.record, Cleared) for e in journal(space).entries())
    if begun:
        assert {row.session for row in show(space)} == {"plain"}
    {
        "embed": lambda: embed(space),
        "clear": lambda: clear(space, Choice("secret")),
        "finish": lambda: finish(space),
    }[by]()
    if not begun:
        clear(space, Choice("secret"))
    assert not is_due(space)
    clear(space, Choice("secret"))
    assert holders(space.data_dir, CANARY) == []
    assert plain(space) == before
    assert journal(space).check().sound
    embed(space)
    assert History(space).check(Part(1, 1)) == []
    assert [row.session for row in show(space)] == ["plain"] * 16


@pytest.mark.sweep
def test_killed_at_random_moments(template, tmp_path):
    killer, before = Killer(28), plain(open_root(template))
    for n in killer.times(KILLS):
        space = copied(template, tmp_path, n)
        killer.strike(Child(lambda space=space: clear(space, Choice("secret")), tmp_path / "said"))
        require_finished(space, before, ("embed", "clear", "finish")[n % 3])
        shutil.rmtree(space.data_dir)
    print(f"\n{killer.line()}, all finished by whoever came next")


@pytest.mark.sweep
@pytest.mark.parametrize("effect", ["signal=KILL", "error=EIO"])
def test_every_call_may_be_the_last(template, tmp_path, effect):
    """The same by strace, call by call; a sample of them in the short form."""
    need_strace()
    before, points, hits = plain(open_root(template)), 0, 0
    for call in ("pwrite64", "fsync", "unlink", "unlinkat", "rename"):
        n, hit = 1, True
        while hit:
            space = copied(template, tmp_path, points)
            task = partial(clear, space, Choice("secret"))
            hit = hindered(task, call, effect, n, tmp_path)
            require_finished(space, before, ("embed", "clear", "finish")[points % 3])
            shutil.rmtree(space.data_dir)
            points, hits, n = points + 1, hits + hit, n + by_length(47, 17, 1)
    print(f"\nclear {effect}: {points} runs, {hits} hit, all finished by whoever came next")
    assert hits > 4


@pytest.mark.sweep
def test_in_a_race_with_appends_and_embeddings(template, tmp_path):
    """Writers append to both conversations, a worker embeds, and three clearings come between."""
    space = copied(template, tmp_path, 0)
    turns = by_length(12, 25, 60)

    def write(name):
        mine = open_root(space.data_dir)
        for n in range(turns):
            secret = n % 2
            text = f"{name} says {CANARY} again, number {n}." if secret else f"{name} is plain {n}"
            entry = say(mine, "secret" if secret else "plain", n, text)
            with (tmp_path / f"acked-{name}").open("a") as acked:
                acked.write(f"{entry.seq} {entry.record.id} {secret}\n")

    def work():
        mine = open_root(space.data_dir)
        for _ in range(6):
            try:
                embed(mine)
            except RagstreamError:
                time.sleep(0.05)

    def wipe():
        mine = open_root(space.data_dir)
        for _ in range(3):
            try:
                clear(mine, Choice("secret"))
            except RagstreamError as error:
                if "still hold" not in error.message:
                    raise
            time.sleep(0.1)

    children = [
        Child(lambda: write("one"), tmp_path / "said-1"),
        Child(lambda: write("two"), tmp_path / "said-2"),
        Child(work, tmp_path / "said-3"),
        Child(wipe, tmp_path / "said-4"),
    ]
    for child in children:
        child.go()
    for child in children:
        assert child.wait() == DONE, child.words()
    acked = [
        line.split()
        for name in ("one", "two")
        for line in (tmp_path / f"acked-{name}").read_text().splitlines()
    ]
    log = journal(space)
    present = {e.record.id: e.seq for e in log.entries() if isinstance(e.record, Turn)}
    lost = [row for row in acked if row[2] == "0" and present.get(row[1]) != int(row[0])]
    assert lost == [] and len(acked) == 2 * turns
    forget_views()
    clear(space, Choice("secret"))
    assert holders(space.data_dir, CANARY) == []
    assert log.check().sound
    embed(space)
    assert History(space).check(Part(1, 1)) == []
    print(f"\n{len(acked)} turns acknowledged meanwhile, none lost, none of the cleared left")
