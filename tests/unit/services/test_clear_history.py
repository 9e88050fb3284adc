"""Clearing conversations: no byte of them is left, and nothing else is gone."""

import json
import random
import sqlite3
import stat
import time

import numpy as np
import pytest

from ragstream_core.conversations.clearing import Choice, choice_of
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Asked, Cleared, Turn
from ragstream_core.errors import InputUnavailable, IntegrityError, UsageError
from ragstream_core.index.check import Part
from ragstream_core.index.history import open_history_catalog
from ragstream_core.index.rows import TextRow
from ragstream_core.index.schema import PAGE_BYTES
from ragstream_core.index.selection import selection_rows
from ragstream_core.index.snapshot import open_snapshot
from ragstream_core.index.view import open_view
from ragstream_core.models.embedders.token_cache import TokenVectorCache
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.recorded import packed
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.clear_history import clear
from ragstream_core.services.history_transfer import export_jsonl, import_jsonl, read_lines
from ragstream_core.services.history_update import embed
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring import models
from ragstream_core.wiring.erase_turns import ClearedTurns, finish, is_due
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import (
    append_records,
    append_turn,
    journal,
    show,
    tag,
)
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.text_copies import CopyEraser
from tests.copies import holders
from tests.workspaces import docs_of, hashed_workspace, ingested_workspace

SECRET = (
    "The quarterly canary of Zebulon Quatermain is worth 918273 doubloons in the treasury.",
    "Noted: the vault opens with umbrella-marzipan-cathedral, and Quatermain keeps the key.",
)
SHORT = ("Zebulon?", "918273!")
CANARIES = ("Quatermain", "918273", "marzipan", "Zebulon")
DAY = "2026-10-{:02}T10:00:00+02:00"


@pytest.fixture
def space(tmp_path):
    return ingested_workspace(tmp_path, {"rerank.backend": "maxsim"})


def say(space, session, user, assistant, day=1, **more):
    return append_turn(space, Turn("", session, DAY.format(day), user, assistant, **more))


def ask(space, text, session="", **history):
    changes = {f"history.{name}": value for name, value in history.items()}
    request = PromptRequest(text, ("demo",), session=session, settings=changes)
    prompt = run_prompt(space, pin_inputs(space, request))
    return save_prompt(space, prompt).prompt_key


def grep(root, canaries=CANARIES):
    """Every file below a root, but the archive, that holds one of the canaries."""
    return [name for name in holders(root, *canaries) if "archive" not in name.split("/")]


def kept(space):
    return set(space.store.keys())


def words(space):
    return [(row.user, row.assistant) for row in show(space)]


def lines(space):
    """The bytes of all lines of turns in the journal, in order."""
    folder = journal(space).folder
    files = sorted(folder.glob("conversation-*.log")) + [folder / "conversation.log"]
    raw = b"".join(path.read_bytes() for path in files if path.exists())
    return [line for line in raw.splitlines(keepends=True) if b'"kind":"cleared"' not in line]


def talk(space):
    """Two conversations in turn; `secret` is the one that is cleared."""
    say(space, "plain", "Who may write to the catalog?", "One writer, who holds the lock.", 1)
    say(space, "secret", *SECRET, 2, tags=("GOLD",))
    say(space, "plain", "And who waits?", "Other writers wait or give up.", 3)
    say(space, "secret", *SHORT, 4)
    append_records(space, [Asked("", "secret", DAY.format(5), "Is Quatermain still there?")])
    tag(space, str(show(space)[1].seq), add=["SILVER"])


def test_nothing_of_a_cleared_session_is_left_anywhere(space):
    talk(space)
    embed(space)
    keys = {
        "own": ask(space, "What does the treasury hold, and what was it worth?", "secret"),
        "filled up": ask(space, "Which rule holds for it?", "newer", recent_fill="all"),
        "asked": ask(space, "Zebulon?"),
    }
    say(space, "secret", "Zebulon again?", "Quatermain it is.", 6, prompt_key=keys["asked"])
    scatter(space)
    before = [line for line in lines(space) if b'"session_id":"plain"' in line]
    assert len(grep(space.data_dir)) >= 8
    report = clear(space, Choice("secret"))
    assert grep(space.data_dir) == []
    assert (report.turns, report.questions, report.tags) == (3, 1, 1)
    assert report.rows >= 2 and report.left == [] and report.sessions == ["secret"]
    assert lines(space) == before
    assert words(space) == [
        ("Who may write to the catalog?", "One writer, who holds the lock."),
        ("And who waits?", "Other writers wait or give up."),
    ]
    assert set(keys.values()).isdisjoint(kept(space))
    assert History(space).check(Part(1, 1)) == []
    assert not is_due(space) and journal(space).check().sound
    notices = [e.record for e in journal(space).entries() if isinstance(e.record, Cleared)]
    assert [(n.reason, n.turns, n.archived) for n in notices] == [("session", 3, False)]
    assert embed(space).embedded == 0
    assert grep(space.data_dir) == []


def test_what_a_kill_left_of_a_sessions_log_holds_up_no_clearing(space):
    talk(space)
    embed(space)
    logs = journal(space).folder
    for name in (".session-secret.log.x7.tmp", ".conversation.log.x8.tmp"):
        (logs / name).write_bytes((logs / "session-secret.log").read_bytes())
    clear(space, Choice("secret"))
    assert grep(space.data_dir) == [] and not list(logs.glob(".*.tmp"))


def scatter(space):
    """Put copies where real use puts them."""
    root = space.data_dir
    run = root / "prompts" / "runs" / "r1"
    run.mkdir(parents=True)
    (run / "retrieval.json.gz").write_bytes(packed({"chunks": list(SECRET)}))
    home = root / "dagster_home" / "storage"
    home.mkdir(parents=True)
    db = sqlite3.connect(home / "runs.db")
    db.execute("CREATE TABLE event_logs(id INTEGER PRIMARY KEY, event TEXT NOT NULL)")
    db.execute("INSERT INTO event_logs(event) VALUES(?)", (json.dumps({"preview": SECRET[0]}),))
    db.execute("INSERT INTO event_logs(event) VALUES('harmless')")
    db.commit()
    db.close()
    logs = journal(space).folder
    head = b'{"v":1,"seq":9,"len":300,"crc":"0","prev":"0","rec":{"kind":"turn","id":"x",'
    torn = head + b'"session_id":"'
    (logs / "conversation.log.torn-1").write_bytes(torn + b'secret","user_text":"Quatermain')
    (logs / "conversation.log.torn-2").write_bytes(torn + b'plain","user_text":"Other words')
    (logs / ".conversation.log.x7.tmp").write_bytes(b"Quatermain")
    (space.layout.history_index / "catalog.sqlite.damaged-1").write_bytes(SECRET[0].encode())


@pytest.fixture
def berlin(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def spoken(space):
    return [row.user for row in show(space)]


@pytest.mark.parametrize(
    ("what", "stays"),
    [
        ({"since": "2026-10-03"}, [1, 2]),
        ({"until": "2026-10-03"}, [3, 4]),
        ({"since": "2026-10-02", "until": "2026-10-04"}, [1, 4]),
        ({"session": "secret", "since": "2026-10-03"}, [1, 2, 3]),
        ({"since": "2026-10-02T09:00:00+01:00", "session": "secret"}, [1, 3]),
        ({"since": "2027-01-01"}, [1, 2, 3, 4]),
        ({"everything": True}, []),
    ],
)
def test_ranges_and_sessions_hold_together(space, berlin, what, stays):
    for day in range(1, 5):
        say(space, ("plain", "secret")[day % 2 == 0], f"Question of day {day}?", "Answer.", day)
    embed(space)
    assert clear(space, choice_of(**what), dry_run=True).turns == 4 - len(stays)
    assert len(spoken(space)) == 4 and not is_due(space)
    report = clear(space, choice_of(**what))
    assert spoken(space) == [f"Question of day {day}?" for day in stays]
    assert report.turns == 4 - len(stays)
    assert History(space).check(Part(1, 1)) == []
    assert embed(space).embedded == 0
    if not stays:
        assert grep(space.data_dir, ["Question of day"]) == []
        assert not any(journal(space).folder.glob("session-*.log"))
    say(space, "new", "What comes afterwards?", "A new turn.")
    stats = embed(space)
    assert stats.turns == 1 and len(spoken(space)) == len(stays) + 1
    assert History(space).check(Part(1, 1)) == []


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"everything": True, "session": "a"},
        {"session": "../x"},
        {"since": "yesterday"},
        {"until": "2026-13-01"},
    ],
)
def test_what_cannot_be_meant_is_refused(space, what):
    say(space, "a", "A question?", "An answer.")
    before = lines(space)
    with pytest.raises(UsageError):
        clear(space, choice_of(**what))
    assert lines(space) == before and len(spoken(space)) == 1


def test_an_archive_is_private_and_comes_back(space):
    talk(space)
    before = words(space)
    tags = [row.tags for row in show(space)]
    report = clear(space, Choice("secret"), archive=True)
    (archive,) = (space.layout.history_archive).iterdir()
    assert report.archive == str(archive)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert stat.S_IMODE(archive.parent.stat().st_mode) == 0o700
    assert grep(space.data_dir) == []
    done = import_jsonl(space, read_lines(archive))
    assert (done.added, done.skipped) == (4, 0)
    assert sorted(words(space)) == sorted(before)
    assert sorted(map(sorted, [row.tags for row in show(space)])) == sorted(map(sorted, tags))


def test_export_and_import_after_clearing(space, tmp_path):
    talk(space)
    clear(space, Choice("secret"))
    exported = list(export_jsonl(space))
    other = hashed_workspace(tmp_path / "other")
    import_jsonl(other, exported)
    assert words(other) == words(space) and len(words(other)) == 2
    assert [json.loads(x)["rec"] for x in export_jsonl(other)] == [
        json.loads(x)["rec"] for x in exported
    ]


def test_words_that_stand_elsewhere_too_take_nothing_with_them(space):
    """A turn that quotes a document, and one that another session has said as well."""
    quote = (docs_of(space) / "catalog.md").read_text()
    same = "One and the same long sentence was said in both of these conversations, word by word."
    say(space, "plain", same, "Yes, it was.")
    say(space, "secret", quote, same)
    embed(space)
    key = ask(space, "Who may write to the catalog of the index?", "other")
    space.store.record(key)
    clean = ask(space, "What does the settings file say of the gate?", "plain")
    report = clear(space, Choice("secret"))
    assert clean not in kept(space)  # its Layer G was filled up with the other session
    assert report.left == [] and words(space) == [(same, "Yes, it was.")]
    assert open_view(space.index_dir("demo")).digest and (docs_of(space) / "catalog.md").exists()
    stays = ask(space, "Who may write to the catalog of the index?", "plain")
    say(space, "later", quote, "something else")
    clear(space, Choice("later"))
    assert stays in kept(space)
    assert replay_prompt(space, stays).verdict == "identical"


@pytest.mark.parametrize("words", [8, 60, 2000])
def test_turns_in_the_same_few_words_are_told_apart(space, words):
    """What stands in other turns too, or comes about between two of them, is no copy."""
    chance = random.Random(7)

    def text(count):
        return " ".join(f"word{chance.randrange(words)}" for _ in range(count))

    append_records(
        space,
        [Turn("", "ab"[n % 3 == 0], DAY.format(1), text(3 + n % 9), text(30)) for n in range(150)],
    )
    embed(space)
    before = [row for row in show(space) if row.session == "a"]
    report = clear(space, Choice("b"))
    assert report.turns == 50 and report.left == [] and show(space) == before
    assert History(space).check(Part(1, 1)) == []


def test_a_summary_of_cleared_turns_goes_with_them(space):
    rolled = hashed_workspace(space.data_dir, {"history.summaries": "true"})
    for n in range(13):
        say(rolled, "plain", f"Who may write to catalog {n}?", f"One writer with lock {n}.")
        when = f"2020-01-{n + 1:02}T10:00:00+02:00"
        append_turn(rolled, Turn("", "secret", when, SECRET[0], SECRET[1]))
    embed(rolled)
    view = open_snapshot(rolled.layout.history_snapshot)
    assert "summary" in view.columns.sources.values
    clear(rolled, Choice("secret"))
    assert grep(space.data_dir) == []
    assert History(rolled).check(Part(1, 1)) == []


def test_yours_is_reported_and_not_touched(space):
    talk(space)
    note = docs_of(space) / "note.md"
    note.write_text("# Treasury\n\n" + SECRET[0])
    report = clear(space, Choice("secret"))
    assert report.left == ["doc_raw/demo/note.md"] and note.exists()


def test_cached_token_vectors_of_the_turns_go(space):
    talk(space)
    embed(space)
    folder = space.index_dir("demo") / "tokens-0123456789abcdef"
    rows = selection_rows(space.layout.history_index).rows
    for row in rows:
        TokenVectorCache(folder).put(sha256_hex(row.text), np.ones((2, 3), np.float16))
    clear(space, Choice("secret"))
    kept = {sha256_hex(row.text) for row in rows if "secret" not in row.chunk_id}
    assert {path.stem for path in folder.rglob("*.f16")} == kept != set()


def test_without_an_index_only_the_journal_is_rewritten(space):
    talk(space)
    report = clear(space, Choice("secret"))
    assert report.rows == 0 and report.segments == ["conversation.log"]
    assert grep(space.data_dir) == []
    assert not (space.layout.history_index / "catalog.sqlite").exists()


def test_nothing_recorded_is_no_error(tmp_path):
    space = hashed_workspace(tmp_path)
    report = clear(space, Choice(everything=True))
    assert report.turns == 0 and report.segments == []
    assert finish(space).removed == [] and not is_due(space)
    assert not (tmp_path / "history").exists()


def test_with_a_damaged_catalog_turns_are_hidden_and_go_after_the_rebuild(space):
    talk(space)
    embed(space)
    catalog = space.layout.history_index / "catalog.sqlite"
    raw = bytearray(catalog.read_bytes())
    raw[PAGE_BYTES : PAGE_BYTES + 64] = bytes(64)
    catalog.write_bytes(raw)
    with pytest.raises(IntegrityError) as caught:
        clear(space, Choice("secret"))
    assert "backfill --rebuild" in caught.value.hint
    assert len(spoken(space)) == 2 and is_due(space)
    embed(space, rebuild=True)
    finish(space)
    assert grep(space.data_dir) == [] and not is_due(space)
    assert embed(space).embedded == 0 and History(space).check(Part(1, 1)) == []


@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("what", ["text", "head"])
def test_damage_that_may_be_of_a_cleared_line_goes_and_other_damage_stays(space, at, what):
    for n in range(6):
        say(space, "secret" if n == 2 else "plain", f"Question number {n}?", SECRET[n % 2], n + 1)
    log = journal(space).folder / "conversation.log"
    damaged = log.read_bytes().splitlines(keepends=True)
    hurt = {"text": (b"Question", b"Quest1on"), "head": (b'{"v":1,"seq"', b'{"v":1,"sex"')}[what]
    damaged[at] = damaged[at].replace(*hurt)
    log.write_bytes(b"".join(damaged))
    clear(space, Choice("secret"))
    left = b"".join(path.read_bytes() for path in log.parent.glob("conversation*"))
    stays = at == 4 or (at != 2 and what == "text")
    assert (hurt[1] in left) == stays
    assert [n for n in range(6) if f"Question number {n}?" in spoken(space)] == [
        n for n in range(6) if n not in (2, at)
    ]


def test_a_prompt_that_was_under_way_is_not_kept(space):
    talk(space)
    embed(space)
    request = PromptRequest("What does the treasury hold?", ("demo",), session="secret")
    under_way = run_prompt(space, pin_inputs(space, request))
    assert "Quatermain" in under_way.extras.super_prompt
    clear(space, Choice("secret"))
    with pytest.raises(InputUnavailable, match="cleared while"):
        save_prompt(space, under_way)
    assert grep(space.data_dir) == [] and not kept(space)
    assert save_prompt(space, run_prompt(space, pin_inputs(space, request))).prompt_key
    assert grep(space.data_dir) == []


def test_clearing_again_finds_nothing(space):
    talk(space)
    embed(space)
    clear(space, Choice("secret"))
    before = {p: p.read_bytes() for p in journal(space).folder.glob("conversation*")}
    report = clear(space, Choice("secret"))
    assert (report.turns, report.segments, report.rows) == (0, [], 0)
    assert {p: p.read_bytes() for p in journal(space).folder.glob("conversation*")} == before


def test_texts_of_a_killed_embedding_go_too(space):
    """They were recorded for a commit that never came: no row names them."""
    say(space, "plain", "A first question?", "A first answer.")
    embed(space)
    talk(space)
    embedder = models.embedder(space.config)
    text = f"[2026-10-02 10:00] user: {SECRET[0]}"
    row = TextRow(sha256_hex(text), text, 20, b"")
    with open_history_catalog(space.layout.history_index) as catalog:
        vectors = embedder.embed_documents([text])
        catalog.record_texts([row], vectors, embed_fp=embedder.fingerprint)
    assert "history/index/catalog.sqlite" in grep(space.data_dir)
    clear(space, Choice("secret"))
    assert grep(space.data_dir) == []
    assert embed(space).turns == 2 and History(space).check(Part(1, 1)) == []


@pytest.mark.parametrize("by", ["embed", "clear", "finish"])
@pytest.mark.parametrize(
    "step", ["hide", "publish", "purge_copies", "purge_journal", "erase_texts", "left"]
)
def test_whoever_comes_next_finishes_a_killed_clearing(space, monkeypatch, step, by):
    talk(space)
    embed(space)
    ask(space, "What does the treasury hold?", "secret")
    home = {
        "purge_copies": (CopyEraser, "purge"),
        "left": (CopyEraser, "left"),
        "purge_journal": (Journal, "purge"),
    }
    target, name = home.get(step, (ClearedTurns, step))

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(target, name, killed)
        with pytest.raises(KeyboardInterrupt):
            clear(space, Choice("secret"))
    assert spoken(space) == ["Who may write to the catalog?", "And who waits?"]
    finishing = {
        "embed": lambda: embed(space),
        "clear": lambda: clear(space, Choice("nobody")),
        "finish": lambda: finish(space),
    }
    assert is_due(space) or step == "left"
    finishing[by]()
    assert not is_due(space)
    left = [name for name in grep(space.data_dir) if ".tmp" not in name]
    assert left == []
    embed(space)
    assert History(space).check(Part(1, 1)) == []
