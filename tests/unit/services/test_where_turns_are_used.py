"""What is imported or chatted is found by prompts of its own projects, until it is adopted."""

import datetime as dt
import json

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UnknownProject, UsageError
from ragstream_core.library import RAGstream
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.blocks import history_texts
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.json_form import report_of
from ragstream_core.services.chat import ChatSession
from ragstream_core.services.history_transfer import (
    TOLD,
    adopt,
    export_jsonl,
    import_jsonl,
    told_once,
)
from ragstream_core.services.history_update import embed
from ragstream_core.services.import_conversations import follow_logs, import_conversations
from ragstream_core.services.ingest import ingest_project
from ragstream_core.settings.prompts import MemoryConfig
from ragstream_core.wiring.digest import digest_text
from ragstream_core.wiring.journal import append_turn, journal, show, tag
from tests.unit.conversations.importers import exports
from tests.workspaces import ask, hashed_workspace, ingested_workspace, write_docs

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
ASKED = "How is the file locked?"
"""Of `exports.two_turns`."""
LOCK = "Who holds the project lock?"


@pytest.fixture
def space(tmp_path):
    found = ingested_workspace(tmp_path)
    write_docs(tmp_path, "client")
    ingest_project(found, "client")
    return found


def bring(space, tmp_path, *use_in):
    path = exports.write_json(
        tmp_path / "export" / "conversations.json", [exports.two_turns("c-1", "Trip to Lofoten")]
    )
    done = import_conversations(space, path, use_in=use_in, now=NOW)
    embed(space)
    return done


def found(space, *projects, session="", **settings):
    changed = {f"history.{name}": value for name, value in settings.items()}
    prompt = ask(space, ASKED, projects, session=session, settings=changed)
    return [i for i in prompt.views_by_stage["retrieval"] if i.startswith("history::")]


def test_an_import_is_used_nowhere_unless_somebody_says_so(space, tmp_path):
    done = bring(space, tmp_path)
    assert done.used_in == ("nowhere",) and report_of(done)["used_in"] == ["nowhere"]
    assert (
        not found(space, "demo")
        and not found(space, "client")
        and not found(space, "demo", "client")
    )
    assert show(space)[0].to_json()["used_in"] == ["nowhere"]


@pytest.mark.parametrize(
    ("use_in", "by"), [(["everywhere"], ["demo", "client"]), (["client"], ["client"]),
                       (["demo", "client"], ["demo", "client"]), (["nowhere"], [])],
)  # fmt: skip
def test_it_is_used_where_it_was_said(space, tmp_path, use_in, by):
    assert bring(space, tmp_path, *use_in).used_in == tuple(sorted(use_in))
    assert [name for name in ("demo", "client") if found(space, name)] == by


@pytest.mark.parametrize("use_in", [["nowhere", "demo"], ["everywhere", "nowhere"]])
def test_what_excludes_each_other_is_refused(space, tmp_path, use_in):
    with pytest.raises(UsageError, match="exclude each other"):
        bring(space, tmp_path, *use_in)
    with pytest.raises(UnknownProject):
        bring(space, tmp_path, "no-such")
    assert show(space) == []


def test_adopting_brings_it_in_at_once_and_undoing_takes_it_out(space, tmp_path):
    (row,) = bring(space, tmp_path).conversations
    adopt(space, "client", session=row.session)
    assert found(space, "client") and not found(space, "demo")
    embed(space)
    assert found(space, "client") and not found(space, "demo")
    adopt(space, "client", session=row.session, undo=True)
    assert not found(space, "client")


def test_its_own_conversation_and_whoever_names_it_finds_it(space, tmp_path):
    (row,) = bring(space, tmp_path).conversations
    kept = found(space, "demo", session=row.session, recency_k=0)
    assert kept and found(space, "demo", sessions=row.session) == kept
    assert not found(space, "demo", projects="client")
    for turn in show(space):
        tag(space, turn.id, add=["GOLD"])
    assert not found(space, "demo") and found(space, "demo", always_tags="GOLD") == kept


def test_a_chat_belongs_to_the_projects_it_is_about(space):
    for name in ("demo", "client"):
        model = ScriptedChat(entries=[{"say": f"The file of {name} is locked by flock."}])
        ChatSession(space, PromptRequest("any", (name,), session=name), model=model).ask(LOCK)
    embed(space)
    assert [i.split("::")[1] for i in found(space, "demo")] == ["demo"]
    assert [i.split("::")[1] for i in found(space, "client")] == ["client"]
    assert len(found(space, "demo", "client")) == 2


def test_no_other_way_into_a_prompt_leads_around_it(space, tmp_path):
    bring(space, tmp_path)
    upto = journal(space).newest().seq
    memory = MemoryConfig(enabled=True)
    assert "lock" not in digest_text(space, memory, upto=upto, count=len, projects=["demo"])
    assert "lock" in digest_text(space, memory, upto=upto, count=len)
    append_turn(space, Turn("", "mine", "", "Mine?", "Mine."))
    prompt = ask(space, ASKED, session="mine", settings={"history.recent_fill": "all"})
    assert "locked" not in " ".join(text for _, text in history_texts(prompt))
    whole = ask(space, ASKED, settings={"memory.enabled": True})
    assert not [i for i in whole.views_by_stage["retrieval"] if i.startswith("history::")]
    assert "locked" not in str(whole.recentConversation)


def test_rows_and_replies_from_outside_belong_to_what_is_said(space):
    row = json.dumps({"user": ASKED, "assistant": "By flock."})
    import_jsonl(space, [row], session="rows")
    import_jsonl(space, [row.replace("flock", "a lease")], session="leases", use_in=["demo"])
    embed(space)
    assert [i.split("::")[1] for i in found(space, "demo")] == ["leases"]
    rag = RAGstream(space.data_dir, settings={"embeddings.backend": "hashed"})
    key = rag.prompt(LOCK, "client").key
    kept = rag.history.append(ASKED, "By a lock file.", answers=key)
    assert kept.turn.projects == ("client",) and kept.to_json()["used_in"] == ["client"]
    assert rag.history.append(ASKED, "By hand.").to_json()["used_in"] == ["nowhere"]
    again = list(export_jsonl(space))
    other = hashed_workspace(space.data_dir / "other")
    import_jsonl(other, again, use_in=["everywhere"])
    assert list(export_jsonl(other)) == again


def test_a_followed_log_belongs_to_the_project_of_its_folder_alone(tmp_path):
    logs = tmp_path / "logs"
    for name in ("demo", "letters"):
        said = exports.user(ASKED), exports.agent(exports.words("By flock."))
        rows = exports.claude_code(*({**row, "cwd": f"/home/me/{name}"} for row in said))
        rows = [{**row, "uuid": f"{name}{n}", "sessionId": name} for n, row in enumerate(rows)]
        exports.write_jsonl(logs / f"{name}.jsonl", [{**r, "parentUuid": None} for r in rows[:1]])
    space = hashed_workspace(tmp_path / "data", {"paths.agent_logs": [str(logs)]})
    (space.data_dir / "doc_raw" / "demo").mkdir(parents=True)
    follow_logs(space, now=NOW)
    assert {row.to_json()["used_in"][0] for row in show(space)} == {"demo", "nowhere"}


def test_turns_of_an_earlier_version_stay_where_they_were_and_that_is_told_once(space):
    assert told_once(space) == "" and not space.layout.history.exists()
    append_turn(space, Turn("", "old", "", ASKED, "By flock.", projects=("client",)))
    embed(space)
    assert found(space, "demo") == found(space, "client") != []
    assert (told_once(space), told_once(space)) == (TOLD, "")


def test_nothing_is_told_where_there_is_nothing_to_tell(space, tmp_path):
    bring(space, tmp_path)
    assert told_once(space) == ""
    append_turn(space, Turn("", "choice", "", ASKED, "By flock."))
    assert told_once(space) == ""
