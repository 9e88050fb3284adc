"""What each format's records become; fixtures by hand (`exports`)."""

from __future__ import annotations

import datetime as dt
import json
import warnings
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.importers import (
    agent_logs,
    chatgpt,
    claude_ai,
    gemini,
    markdown,
    reader,
)
from ragstream_core.conversations.importers.exchange import exchanges, turn_of
from ragstream_core.errors import UsageError
from tests.unit.conversations.importers import exports

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def turns(conversation):
    return [turn_of(conversation, exchange, now=NOW) for exchange in exchanges(conversation)]


def texts(conversation):
    return [(turn.user_text, turn.assistant_text) for turn in turns(conversation)]


def log(rows, name="log"):
    return agent_logs.conversation([json.dumps(row) + "\n" for row in rows], name=name)


def test_chatgpt_keeps_title_model_time_and_ids():
    first, second = turns(chatgpt.conversation(exports.two_turns()))
    assert (first.user_text, first.assistant_text) == ("How is the file locked?", "By flock.")
    assert first.timestamp == "2024-06-01T12:00:00+00:00"
    assert first.speakers == ("user", "gpt-4o")
    assert dict(second.imported) == {
        "format": "chatgpt", "conversation": "c-1", "title": "Locks", "message": "c-1q2",
        "model": "gpt-4o",
    }  # fmt: skip


def test_chatgpt_names_tools_images_and_attachments_and_passes_over_what_is_hidden():
    row = exports.chatgpt(
        exports.node("s", None, "system", metadata={"is_visually_hidden_from_conversation": True}),
        exports.node("i", "s", "user", content={"content_type": "user_editable_context"}),
        exports.node("q", "i", "user", content={"content_type": "multimodal_text", "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}, "This?"]},
            metadata={"attachments": [{"name": "pump.png", "size": 9}]}),
        exports.node("k", "q", "assistant", content={"content_type": "thoughts", "thoughts": []}),
        exports.node("c", "k", "assistant", recipient="python",
                     content={"content_type": "code", "text": "print(1)"}),
        exports.node("t", "c", "tool", "1", name="python"),
        exports.node("v", "t", "user", content={"content_type": "multimodal_text", "parts": [
            {"content_type": "audio_transcription", "text": "and aloud"}]}),
        exports.node("a", "v", "assistant", "One."),
    )  # fmt: skip
    assert texts(chatgpt.conversation(row)) == [
        (
            "[attachment: pump.png]\n\nThis?",
            "```python\nprint(1)\n```\n\n[tool: python]\n\nResult of python:\n\n```\n1\n```",
        ),
        ("and aloud", "One."),
    ]


def test_chatgpt_a_broken_message_is_one_problem():
    row = exports.two_turns()
    row["mapping"]["c-1a1"]["message"]["author"] = None
    row["mapping"]["x"] = "?"
    conversation = chatgpt.conversation(row)
    assert len(conversation.problems) == 2
    assert texts(conversation) == [("How is the file locked?", ""), ("And on NFS?", "Not at all.")]


def test_claude_ai_joins_blocks_and_names_files_and_tools():
    assert texts(claude_ai.conversation(exports.claude_ai())) == [
        ("[attachment: pump.pdf]\n\nWhat does the sheet say?\n\n…",
         "[tool: web_search]\n\nAt most 6 bar."),
    ]  # fmt: skip


def test_claude_ai_follows_parents_where_they_are_given():
    row = exports.claude_ai()
    again = {**row["chat_messages"][1], "uuid": "m3", "parent_message_uuid": "m1",
             "content": [{"type": "text", "text": "8 bar."}]}  # fmt: skip
    row["chat_messages"] = [
        {**m, "parent_message_uuid": p}
        for m, p in zip(row["chat_messages"], ("0000", "m1"), strict=True)
    ]
    row["chat_messages"].append(again)
    assert [answer for _, answer in texts(claude_ai.conversation(row))][1] == "8 bar."
    assert dict(turns(claude_ai.conversation(row))[0].imported)["branch"] == "other"


def test_gemini_makes_a_conversation_a_day_oldest_first():
    rows = [exports.gemini("Second?", "2025-06-08T13:00:00Z"), exports.gemini(),
            exports.gemini("Next day?", "2025-06-09T00:00:01Z"),
            {**exports.gemini(), "title": "Gave feedback", "safeHtmlItem": []}]  # fmt: skip
    first, second = gemini.conversations(rows)
    assert [q for q, _ in texts(first)] == ["What is a catalog?", "Second?"]
    assert texts(first)[0][1] == "A list:\n\n- of rows\n- of files"
    assert [q for q, _ in texts(second)] == ["Next day?"]


@pytest.mark.parametrize(
    ("html", "plain"),
    [("<p>a &lt;b&gt;</p>", "a <b>"), ("<pre><code>x\n  y</code></pre>", "```\nx\n  y\n```"),
     ("a<br>b", "a\nb"), ("<b>open", "open"), ("</pre>", ""), ("<script", "<script")],
)  # fmt: skip
def test_html_becomes_plain_text(html, plain):
    assert gemini.plain_text(html) == plain


def test_claude_code_follows_the_session_and_names_tools():
    rows = exports.claude_code(
        exports.user("<command-name>/clear</command-name>"),
        exports.user("Caveat: hidden", isMeta=True),
        exports.user("Fix the pump."),
        exports.agent(
            exports.words("Looking."), exports.tool("Read", file_path="/p/a.py"), stop="tool_use"
        ),
        exports.user([{"type": "tool_result", "tool_use_id": "t", "content": "…"}]),
        exports.agent(exports.words("a sub-agent"), isSidechain=True),
        exports.agent(exports.tool("Bash", command="pytest -q\nrm x"), stop="tool_use"),
        exports.agent(exports.words("Fixed.")),
    )  # fmt: skip
    found = log([{"type": "summary", "summary": "Pump fixed", "leafUuid": "cc8"}, *rows])
    assert (found.format, found.id, found.title) == ("claude-code", "s-1", "Pump fixed")
    (turn,) = turns(found)
    assert turn.user_text == "Fix the pump."
    assert turn.assistant_text == (
        "[tool: Read /p/a.py]\n\nLooking.\n\n[tool: Bash pytest -q rm x]\n\nFixed."
    )
    assert dict(turn.imported)["project"] == "/home/me/pumps"
    assert dict(turn.imported)["model"] == "claude-opus-4"
    assert turn.status == "complete"


def test_claude_code_2_1_197_with_what_stands_between_the_messages():
    """As the program wrote it in November 2026, shortened."""
    tool = "mcp__ragstream__search"
    head = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s-1",
            "timestamp": "2026-11-23T11:41:10Z", "content": "How much pressure?"}  # fmt: skip
    rows = exports.claude_code(
        exports.user("How much pressure?", promptSource="sdk", version="2.1.197"),
        {"type": "attachment", "attachment": {"type": "skill_listing", "content": "- x"}},
        exports.agent(exports.tool(tool, query="pressure"), stop="tool_use"),
        exports.user([{"type": "tool_result", "tool_use_id": "t", "content": "…"}], mcpMeta={}),
        {"type": "attachment", "attachment": {"type": "mcp_instructions_delta", "names": ["r"]}},
        exports.agent(exports.words("6 bar."), attributionMcpServer="ragstream"),
    )
    last = {"type": "last-prompt", "lastPrompt": "How much pressure?", "sessionId": "s-1"}
    (turn,) = turns(log([head, *rows, last]))
    assert (turn.user_text, turn.status) == ("How much pressure?", "complete")
    assert turn.assistant_text == f"[tool: {tool} pressure]\n\n6 bar."


def test_claude_code_what_follows_the_result_of_one_of_several_calls_is_no_branch():
    def row(uuid, parent, row, message_id=""):
        row = {"uuid": uuid, "parentUuid": parent, "sessionId": "s",
               "timestamp": "2025-11-05T10:00:00Z", **row}  # fmt: skip
        row["message"].update({"id": message_id} if message_id else {})
        return row

    def result():
        return exports.user([{"type": "tool_result", "tool_use_id": "t", "content": "…"}])

    rows = [
        row("q", None, exports.user("Look at both.")),
        row("c1", "q", exports.agent(exports.tool("Read", path="a.py"), stop="tool_use"), "m1"),
        row("c2", "c1", exports.agent(exports.tool("Read", path="b.py"), stop="tool_use"), "m1"),
        row("r1", "c1", result()),
        row("r2", "c2", result()),
        row("a", "r1", exports.agent(exports.words("Both are fine.")), "m2"),
    ]
    assert texts(log(rows)) == [
        ("Look at both.", "[tool: Read a.py]\n\n[tool: Read b.py]\n\nBoth are fine.")
    ]


CHAT = """---
title: "Locks"
date: 2024-06-01
model: gpt-4o
---
# A heading that is not the title

## User

How is the file locked?

### ChatGPT said:
By flock:

```markdown
## User
**Claude:** nobody speaks here
```

**You:** And on NFS?
**Not a speaker:** so this is still the question.

**Assistant**

Not at all.
"""


def test_markdown_reads_who_speaks_from_headings_and_bold_words():
    found = markdown.conversation(CHAT.splitlines(keepends=True), name="locks")
    first, second = turns(found)
    assert (found.title, first.timestamp) == ("Locks", "2024-06-01T00:00:00+00:00")
    assert first.user_text == "How is the file locked?"
    assert first.assistant_text.startswith("By flock:") and "nobody speaks" in first.assistant_text
    assert second.user_text == "And on NFS?\n**Not a speaker:** so this is still the question."
    assert second.assistant_text == "Not at all."
    assert (second.speakers, second.status) == (("user", "gpt-4o"), "complete")


@given(st.lists(st.tuples(st.sampled_from(["ab: c", "x\n\n> y", "# one", "*a*"]),
                          st.sampled_from(["1", "2\n3", "`4`", ""])), min_size=1, max_size=6),
       st.sampled_from([("## User", "## Assistant"), ("**You:**", "**Claude**"),
                        ("### You said:", "### ChatGPT said:")]))  # fmt: skip
def test_markdown_gives_back_what_was_said_and_more_of_it_adds_to_it(said, marks):
    def of(rows):
        text = "".join(f"{marks[0]}\n{q}\n\n{marks[1]}\n{a}\n\n" for q, a in rows)
        return markdown.conversation(text.splitlines(keepends=True), name="x")

    assert texts(of(said)) == said
    shorter = [turn.id for turn in turns(of(said[:-1]))] if len(said) > 1 else []
    assert [turn.id for turn in turns(of(said))][: len(shorter)] == shorter


@pytest.mark.parametrize("text", ["", "# Notes\n\nwords\n", "## User\n\nalone\n", "---\n"])
def test_markdown_without_two_sides_is_no_conversation(text, tmp_path):
    assert markdown.conversation(text.splitlines(keepends=True), name="x") is None
    path = tmp_path / "notes.md"
    path.write_text(text)
    (problem,) = reader.conversations(*reader.export_files(path))
    assert "no conversation found: expected headings such as ## User" in problem.what


def test_an_export_as_html_is_refused_in_words(tmp_path):
    path = tmp_path / "My Activity.html"
    path.write_text("<html>")
    (problem,) = reader.conversations(*reader.export_files(path))
    assert "is HTML: ask Google Takeout for My Activity as JSON" in problem.what


def test_markdown_is_looked_for_in_folders_only_by_name(tmp_path):
    (tmp_path / "chat.md").write_text(CHAT)
    exports.write_json(tmp_path / "conversations.json", [exports.two_turns()])
    assert [file.stem for file in reader.export_files(tmp_path)] == ["conversations"]
    assert [file.stem for file in reader.export_files(tmp_path, "markdown")] == ["chat"]


def test_codex_follows_the_session_and_passes_over_what_the_program_wrote():
    found = log(exports.codex(
        exports.item("user", "<environment_context>cwd</environment_context>"),
        ("turn_context", {"model": "gpt-5-codex", "cwd": "/home/me/pumps"}),
        exports.item("user", "Why does it leak?"),
        ("event_msg", {"type": "user_message", "message": "Why does it leak?"}),
        ("response_item", {"type": "reasoning", "encrypted_content": "…"}),
        ("response_item", {"type": "function_call", "name": "shell", "call_id": "1",
                           "arguments": json.dumps({"command": ["bash", "-lc", "ls"]})}),
        ("response_item", {"type": "function_call_output", "call_id": "1", "output": "…"}),
        exports.item("assistant", "The seal is worn."),
        ("event_msg", {"type": "task_complete"}),
    ))  # fmt: skip
    (turn,) = turns(found)
    assert (turn.user_text, turn.speakers) == ("Why does it leak?", ("user", "gpt-5-codex"))
    assert turn.assistant_text == "[tool: shell ls]\n\nThe seal is worn."
    assert turn.status == "complete"


def test_codex_0_169_with_what_stands_between_the_messages():
    """As the program wrote it in November 2026, shortened."""
    words = {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "x"}],
    }
    done = {"type": "item_completed", "item": {"type": "McpToolCall", "server": "ragstream"}}
    found = log(exports.codex(
        ("event_msg", {"type": "task_started"}),
        ("response_item", words),
        exports.item("user", "<environment_context>\n  <cwd>/home/me</cwd>"),
        ("world_state", {"full": True, "state": {"agents_md": {}}}),
        ("turn_context", {"model": "toy-1", "turn_id": "1"}),
        exports.item("user", "How much pressure?"),
        ("response_item", {"type": "function_call", "name": "search", "call_id": "c1",
                           "namespace": "mcp__ragstream", "arguments": '{"query": "pressure"}'}),
        ("token_usage_record", {"thread_id": "019a"}),
        ("event_msg", done),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": "…"}),
        exports.item("assistant", "6 bar."),
        ("event_msg", {"type": "task_complete", "last_agent_message": "6 bar."}),
    ))  # fmt: skip
    (turn,) = turns(found)
    assert (turn.user_text, turn.status) == ("How much pressure?", "complete")
    assert turn.assistant_text == "[tool: search pressure]\n\n6 bar."
    assert not found.problems


def test_codex_of_early_2025_has_bare_records():
    rows = [{"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": ""},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "Hello"}]}]  # fmt: skip
    found = log(rows)
    assert (found.format, found.id, texts(found)) == ("codex", "old", [("Hi", "Hello")])


def test_a_torn_last_line_is_left_for_the_next_time_and_a_broken_one_is_named():
    rows = exports.claude_code(
        exports.user("One?"), exports.agent(exports.words("1.")), exports.user("Two?")
    )
    lines = [json.dumps(row) + "\n" for row in rows]
    found = agent_logs.conversation([*lines[:2], "{broken}\n", lines[2][:-9]], name="x")
    assert texts(found) == [("One?", "1.")]
    assert found.problems == ("line 3 is not JSON",)


def read(path, form=""):
    return [
        found for file in reader.export_files(path) for found in reader.conversations(file, form)
    ]


def test_a_zip_is_read_in_place_by_what_it_holds(tmp_path):
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("user.json", "{}")
        out.writestr("conversations.json", json.dumps([exports.two_turns(), exports.claude_ai()]))
        out.writestr(
            "Takeout/My Activity/Gemini Apps/My Activity.json", json.dumps([exports.gemini()])
        )
        out.writestr("logs/s.jsonl", "".join(
            json.dumps(r) + "\n" for r in exports.claude_code(exports.user("Hm?"))))  # fmt: skip
    assert [c.format for c in read(archive)] == ["gemini", "chatgpt", "claude", "claude-code"]
    assert sorted(tmp_path.iterdir()) == [archive]


def test_a_file_that_breaks_off_gives_what_was_whole(tmp_path):
    path = exports.write_json(
        tmp_path / "conversations.json", [exports.two_turns(), exports.claude_ai()]
    )
    whole = path.read_text()
    path.write_text(whole[: len(whole) - 40])
    first, problem = read(path)
    assert first.id == "c-1"
    assert "record 2" in problem.where and "the file ends inside of it" in problem.what


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "[1, {}]", "\x00", "<html>", "[[[[", "nan"]
)
def test_what_is_no_export_is_a_problem(tmp_path, text):
    path = tmp_path / "conversations.json"
    path.write_text(text)
    found = read(path)
    assert found
    assert all(isinstance(one, reader.Problem) for one in found)


def test_another_format_than_the_named_one_is_a_problem(tmp_path):
    path = exports.write_json(tmp_path / "conversations.json", [exports.two_turns()])
    (problem,) = read(path, "claude")
    assert "is a conversation of chatgpt, not of claude" in problem.what


def test_a_bomb_an_empty_folder_and_no_file_are_refused(tmp_path):
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("conversations.json", b" " * (8 << 20))
    (tmp_path / "empty").mkdir()
    for path, words in ((bomb, "it may be a bomb"), (tmp_path / "empty", "holds no conversations"),
                        (tmp_path / "none.json", "No such file.*\n  next: name")):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            reader.export_files(path)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    exports.write_json(tmp_path / "elsewhere.json", [exports.two_turns()])
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UsageError, match="holds no conversations"):
        reader.export_files(folder)


def test_a_mark_of_the_encoding_capitals_and_a_last_line_without_its_end(tmp_path):
    rows = exports.claude_code(exports.user("One?"), exports.agent(exports.words("1.")))
    text = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "S.JSONL").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "conversations.json").write_bytes(
        b"\xef\xbb\xbf" + json.dumps([exports.claude_ai()]).encode()
    )
    log, chat = read(tmp_path)
    assert texts(log) == [("One?", "1.")]
    assert chat.id == "u-1"


def test_members_of_one_name_are_both_read(tmp_path):
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for row in (exports.two_turns("c-1"), exports.two_turns("c-2")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out.writestr("conversations.json", json.dumps([row]))
    assert [conversation.id for conversation in read(archive)] == ["c-1", "c-2"]


def test_a_damaged_zip_gives_what_was_whole_and_a_problem(tmp_path):
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("conversations.json", json.dumps([exports.two_turns()] * 50))
    whole = archive.read_bytes()
    archive.write_bytes(whole[:200] + bytes(40) + whole[240:])
    assert read(archive)[-1].unread


@pytest.mark.parametrize(
    "change",
    [{"title": 5}, {"attachedFiles": 5}, {"safeHtmlItem": 5}, {"time": "soon"},
     {"safeHtmlItem": [{"html": "<![x]>"}]}],
)  # fmt: skip
def test_a_broken_entry_of_gemini_is_one_problem_at_most(tmp_path, change):
    rows = [{**exports.gemini(), **change}, exports.gemini("Whole?")]
    found = read(exports.write_json(tmp_path / "My Activity.json", rows))
    assert "Whole?" in [q for c in found if not isinstance(c, reader.Problem) for q, _ in texts(c)]


def test_messages_without_ids_of_two_chats_are_not_the_same():
    row = exports.claude_ai()
    row["chat_messages"] = [{"sender": "human", "text": "?"}, {"sender": "assistant", "text": "!"}]
    (one,), (other,) = (turns(claude_ai.conversation({**row, "uuid": u})) for u in ("a", "b"))
    assert one.id != other.id


def test_chats_of_claude_without_any_id_are_told_apart_and_known_again():
    def chat(*said):
        sides = zip(("human", "assistant") * 9, said, strict=False)
        return {"chat_messages": [{"sender": who, "text": text} for who, text in sides]}

    first, other, longer = (
        claude_ai.conversation(row)
        for row in (chat("?", "one"), chat("?", "two"), chat("?", "one", "!", "three"))
    )
    ids = [{turn.id for turn in turns(found)} for found in (first, other, longer)]
    assert ids[0].isdisjoint(ids[1]) and ids[0] < ids[2]
    assert first.session == longer.session != other.session
