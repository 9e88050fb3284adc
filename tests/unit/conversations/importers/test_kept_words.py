"""What a person wrote or got is kept, and what a program wrote in their place is not."""

from __future__ import annotations

import datetime as dt
import json
import zipfile

import pytest

from ragstream_core.conversations.importers import agent_logs, chatgpt, claude_ai, gemini, reader
from ragstream_core.conversations.importers.exchange import (
    Conversation,
    Message,
    TooManyBranches,
    exchanges,
    turn_of,
)
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UsageError
from ragstream_core.services.import_conversations import follow_logs, import_conversations
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.conversations.importers import exports

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def texts(conversation):
    turns = (turn_of(conversation, e, now=NOW) for e in exchanges(conversation))
    return [(turn.user_text, turn.assistant_text) for turn in turns]


def log(rows):
    return agent_logs.conversation([json.dumps(row) + "\n" for row in rows], name="log")


def called(recipient, given, answer="done", **content):
    given = given if isinstance(given, str) else json.dumps(given)
    return exports.chatgpt(
        exports.node("q", None, "user", "Please."),
        exports.node("c", "q", "assistant", recipient=recipient, end_turn=False,
                     content={"content_type": "code", "text": given}),
        exports.node("t", "c", "tool", answer, name=recipient,
                     **({"content": content} if content else {})),
        exports.node("a", "t", "assistant", "There."),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("recipient", "given", "words"),
    [
        ("canmore.create_textdoc", {"name": "Letter", "type": "document", "content": "Dear Kim"},
         "Document: Letter\n\nDear Kim"),
        ("canmore.create_textdoc", {"name": "p", "type": "code/python", "content": "print(1)"},
         "```\nprint(1)\n```"),
        ("canmore.update_textdoc", {"updates": [{"pattern": ".*", "replacement": "Dear Lee"}]},
         "Dear Lee"),
        ("canmore.comment_textdoc", {"comments": [{"pattern": "Kim", "comment": "or Lee?"}]},
         "Comment on “Kim”: or Lee?"),
        ("dalle.text2im", {"prompt": "a red pump", "size": "1024x1024"}, "a red pump"),
        ("dalle.text2im", {"prompts": ["a red pump", "a blue one"]}, "a blue one"),
        ("python", "print(6 * 7)", "```python\nprint(6 * 7)\n```"),
        ("canmore.create_textdoc", '{"name": "cut off, "content": "Dear Kim', "Dear Kim"),
    ],
)  # fmt: skip
def test_chatgpt_what_a_tool_wrote_is_part_of_the_answer(recipient, given, words):
    ((_, answer),) = texts(chatgpt.conversation(called(recipient, given)))
    assert words in answer and answer.endswith("There.")


def test_chatgpt_what_a_program_printed_is_kept_and_pages_of_a_search_are_counted():
    printed = chatgpt.conversation(
        called("python", "1", content_type="execution_output", text="the limit is 12 Nm")
    )
    assert "the limit is 12 Nm" in texts(printed)[0][1]
    searched = chatgpt.conversation(called("web.search", "{}", "a page of others"))
    assert "a page of others" not in texts(searched)[0][1]
    assert searched.left_out == {"result of web.search": 1}


def test_chatgpt_a_kind_that_is_not_known_keeps_its_words_and_is_named():
    row = exports.chatgpt(
        exports.node("q", None, "user", "Why?"),
        exports.node("a", "q", "assistant", content={"content_type": "hologram", "text": "So."}),
    )
    found = chatgpt.conversation(row)
    assert texts(found) == [("Why?", "[content of the kind hologram]\n\nSo.")]
    assert found.left_out == {"content of the kind hologram": 1}


def claude(question, answer):
    return claude_ai.conversation({"uuid": "u", "name": "Pump", "chat_messages": [
        {"uuid": "1", "sender": "human", "text": "", **question},
        {"uuid": "2", "sender": "assistant", "text": "", "content": answer},
    ]})  # fmt: skip


@pytest.mark.parametrize("name", ["", "notes.txt"])
def test_claude_ai_a_pasted_text_is_part_of_the_question(name):
    file = {"file_name": name, "extracted_content": "The torque is 12 Nm."}
    found = claude({"text": "What does it say?", "attachments": [file]}, [exports.words("12 Nm.")])
    assert texts(found) == [(
        f"[attachment: {name or 'pasted text'}]\n\nWhat does it say?\n\nThe torque is 12 Nm.",
        "12 Nm.",
    )]  # fmt: skip


@pytest.mark.parametrize(
    "block",
    [
        exports.tool("artifacts", command="create", title="Letter", content="Dear Kim"),
        exports.tool("artifacts", command="update", id="l", old_str="Lee", new_str="Dear Kim"),
        exports.tool("create_file", path="letter.md", file_text="Dear Kim"),
        exports.tool("repl", code="say('Dear Kim')"),
        exports.words('<antThinking>hm</antThinking><antArtifact title="Letter">Dear Kim'
                      "</antArtifact>"),
        {"type": "tool_result", "name": "repl", "content": [{"type": "text", "text": "Dear Kim"}]},
        {"type": "hologram", "text": "Dear Kim"},
    ],
)  # fmt: skip
def test_claude_ai_artefacts_and_results_are_part_of_the_answer(block):
    found = claude({"text": "A letter."}, [block])
    ((_, answer),) = texts(found)
    assert "Dear Kim" in answer
    assert "<ant" not in answer and "hm" not in answer
    assert found.left_out == (
        {"block of the kind hologram": 1} if block["type"] == "hologram" else {}
    )


QUEUED = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s-1",
          "timestamp": "2025-11-05T10:01:30Z", "content": "also the valve"}  # fmt: skip
SENT = {"type": "attachment",
        "attachment": {"type": "queued_command", "prompt": "also the valve"}}  # fmt: skip


@pytest.mark.parametrize("rows", [[QUEUED], [SENT], [QUEUED, SENT]])
def test_what_is_typed_while_the_agent_works_is_a_question_once(rows):
    found = exports.claude_code(
        exports.user("Fix the pump."),
        exports.agent(
            exports.words("I look."), exports.tool("Bash", command="ls"), stop="tool_use"
        ),
        *(row for row in rows if row is SENT),
        exports.agent(exports.words("Both are fixed.")),
    )  # fmt: skip
    if QUEUED in rows:
        found.insert(2, QUEUED)
    assert texts(log(found)) == [
        ("Fix the pump.", "[tool: Bash ls]\n\nI look."), ("also the valve", "Both are fixed.")
    ]  # fmt: skip


def test_what_was_queued_and_taken_back_was_never_asked():
    rows = exports.claude_code(exports.user("One?"), exports.agent(exports.words("1.")))
    back = {"type": "queue-operation", "operation": "popAll", "sessionId": "s-1"}
    assert texts(log([rows[0], QUEUED, back, rows[1]])) == [("One?", "1.")]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("<command-message>review</command-message>\n<command-name>/review</command-name>\n"
         "<command-args>the torque</command-args>", "/review the torque"),
        ("<command-name>/model</command-name>\n<command-args>opus</command-args>", ""),
        ("<command-name>/clear</command-name>\n<command-args></command-args>", ""),
        ("<bash-input>make test</bash-input>", ""),
        ("<bash-stdout>5 passed</bash-stdout><bash-stderr></bash-stderr>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("<system-reminder>be kind</system-reminder>\nAnd the gasket?", "And the gasket?"),
        ("And the gasket?\n<system-reminder>be kind</system-reminder>", "And the gasket?"),
        ("<ide_opened_file>a.py</ide_opened_file>And the gasket?", "And the gasket?"),
        ("<user-memory-input>use SI units</user-memory-input>", "use SI units"),
        ("What does <system-reminder> mean?", "What does <system-reminder> mean?"),
        ("Caveat: The messages below were generated by the user", ""),
    ],
)  # fmt: skip
def test_claude_code_a_question_is_what_the_person_typed(text, question):
    found = log(exports.claude_code(exports.user(text), exports.agent(exports.words("Yes."))))
    assert texts(found) == [(question, "Yes.")]


def test_claude_code_what_a_person_says_to_a_call_is_a_question():
    refused = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell "
        "you how to proceed, the user said:\nuse the valve script"
    )
    rows = exports.claude_code(
        exports.user("Fix it."),
        exports.agent(exports.tool("Bash", command="rm x"), stop="tool_use"),
        exports.user([{"type": "tool_result", "tool_use_id": "t", "content": refused}]),
        exports.agent({**exports.tool("AskUserQuestion", questions=[]), "id": "ask"},
                      stop="tool_use"),
        exports.user([{"type": "tool_result", "tool_use_id": "ask", "content": "…"}],
                     toolUseResult={"answers": {"Which seal?": "The blue one"}}),
        exports.agent(exports.tool("ExitPlanMode", plan="First the seal."), stop="tool_use"),
        exports.agent(exports.words("Done.")),
    )  # fmt: skip
    assert [q for q, _ in texts(log(rows))] == [
        "Fix it.", "use the valve script", "Which seal?\nThe blue one",
    ]  # fmt: skip
    assert "First the seal." in texts(log(rows))[-1][1]


def test_what_a_program_says_in_the_models_place_is_no_answer():
    rows = exports.claude_code(
        exports.user("One?"), exports.agent(exports.words("No response requested."))
    )
    rows[1]["message"]["model"] = "<synthetic>"
    assert texts(log(rows)) == [("One?", "")]


IDE = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nRename it"


def test_codex_the_question_and_the_title_are_what_was_asked():
    found = log(exports.codex(
        exports.item("user", IDE), exports.item("assistant", "Renamed."),
        exports.item("user", "<user_shell_command>\n<command>ls</command></user_shell_command>"),
        exports.item("user", "<skill>\n<name>x</name></skill>"),
        exports.item("user", "Now test it"), exports.item("assistant", "Tests pass."),
        ("event_msg", {"type": "task_complete"}),
    ))  # fmt: skip
    assert found.title == "Rename it"
    assert texts(found) == [("Rename it", "Renamed."), ("Now test it", "Tests pass.")]


@pytest.mark.parametrize("packed", [False, True])
def test_gemini_as_html_in_a_folder_or_zip_is_told_what_to_ask_for(tmp_path, packed):
    name = "Takeout/My Activity/Gemini Apps/MyActivity.html"
    path = tmp_path / "x.zip"
    if packed:
        with zipfile.ZipFile(path, "w") as out:
            out.writestr(name, "<html>")
    else:
        path = tmp_path / "folder"
        (path / name).parent.mkdir(parents=True)
        (path / name).write_text("<html>")
    (problem,) = (p for file in reader.export_files(path) for p in reader.conversations(file))
    assert "as JSON" in problem.what


def test_projects_and_memories_of_claude_ai_are_named(tmp_path):
    project = {"name": "Pumps", "prompt_template": "Be short.", "docs": [{"content": "x"}] * 2}
    exports.write_json(tmp_path / "a" / "projects.json", [project])
    with pytest.raises(UsageError, match="holds no conversations"):
        reader.export_files(tmp_path)
    exports.write_json(tmp_path / "a" / "memories.json", [{"conversations_memory": "Likes SI."}])
    exports.write_json(tmp_path / "a" / "conversations.json", [exports.claude_ai()])
    found = [p.what for f in reader.export_files(tmp_path) for p in reader.conversations(f)
             if isinstance(p, reader.Problem)]  # fmt: skip
    assert any("1 projects with 2 documents and 1 instructions" in what for what in found)
    assert any("1 texts that Claude.ai remembers" in what for what in found)


def test_branches_that_repeat_their_beginning_too_often_are_refused(monkeypatch):
    monkeypatch.setattr("ragstream_core.conversations.importers.exchange.MOST_OF_ALL_WAYS", 9000)
    line = [Message(f"n{n}", f"n{n - 1}", "assistant", "x" * 50) for n in range(100)]
    ends = [Message(f"u{n}", f"n{n}", "user", "?") for n in range(100)]
    with pytest.raises(TooManyBranches):
        list(exchanges(Conversation("chatgpt", "c", "", [*line, *ends])))
    assert list(exchanges(Conversation("chatgpt", "c", "", [*line[:50], ends[49]])))


@pytest.mark.parametrize("html", ["<a " * 50_000, "<!--" * 50_000, "<a b='" * 50_000, "&" * 99_999])
def test_html_of_strangers_is_read_in_one_pass(html):
    assert gemini.plain_text(html) is not None


# --- imported before by an earlier version ---


@pytest.fixture
def space(tmp_path):
    return open_workspace(tmp_path / "data", explicit={"embeddings.backend": "hashed"})


def kept(space):
    turns = (e.record for e in journal(space).entries() if isinstance(e.record, Turn))
    return [(turn.user_text, turn.assistant_text) for turn in turns]


def as_before(space, monkeypatch, path):
    """Import as an earlier version did, which kept no text beside the words of a message."""
    from dataclasses import replace

    from ragstream_core.services import import_conversations as importing

    def earlier(found):
        before = [replace(m, role=m.role_before or m.role, given=()) for m in found.messages]
        return exchanges(replace(found, messages=before))

    with monkeypatch.context() as patched:
        patched.setattr(importing, "exchanges", earlier)
        import_conversations(space, path, now=NOW)


def test_an_export_that_an_earlier_version_imported_adds_what_that_left_out_alone(
    space, tmp_path, monkeypatch
):
    canvas = called("canmore.create_textdoc", {"name": "Letter", "content": "Dear Kim"})
    path = exports.write_json(tmp_path / "conversations.json", [canvas, exports.two_turns("c-2")])
    as_before(space, monkeypatch, path)
    before = kept(space)
    assert before[0] == ("Please.", "[tool: canmore.create_textdoc]\n\nThere.")
    done = import_conversations(space, path, now=NOW)
    assert (done.added, done.existing) == (1, 2)
    assert kept(space) == [*before, ("", "Document: Letter\n\nDear Kim")]
    assert import_conversations(space, path, now=NOW).added == 0


def test_questions_that_an_earlier_version_left_out_come_without_what_it_kept(
    space, tmp_path, monkeypatch
):
    rows = exports.claude_code(
        exports.user("Fix the pump."), exports.agent(exports.words("I look."), stop="tool_use"),
        SENT, exports.agent(exports.words("Both are fixed.")),
    )  # fmt: skip
    path = exports.write_jsonl(tmp_path / "log" / "s.jsonl", rows)
    as_before(space, monkeypatch, path)
    assert kept(space) == [("Fix the pump.", "I look.\n\nBoth are fixed.")]
    following = open_workspace(space.data_dir, explicit={"paths.agent_logs": str(path.parent)})
    assert follow_logs(following, now=NOW).added == 0
    assert import_conversations(space, path, now=NOW).added == 1
    assert kept(space)[1:] == [("also the valve", "")]
    assert import_conversations(space, path, now=NOW).added == 0


def test_the_report_names_what_is_not_kept_by_conversation(space, tmp_path):
    path = exports.write_json(
        tmp_path / "conversations.json", [called("web.search", "{}", "a page of others")]
    )
    done = import_conversations(space, path, now=NOW)
    assert done.conversations[0].left_out == {"result of web.search": 1}
    from ragstream_app.output.imported import left_out

    assert list(left_out(done, rest="")) == ["not kept of Locks: 1 × result of web.search"]
