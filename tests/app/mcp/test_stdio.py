"""`ragstream mcp` as clients start it: a child process, the SDK's client, or bare lines."""

import json
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND, PARSE_ERROR

from ragstream_app.mcp.stdio import MAX_MESSAGE_BYTES
from ragstream_core.library import History
from ragstream_core.services.replay import replay_prompt
from tests.app.mcp.mcp_clients import MODULE, environment, server, text_of, with_client
from tests.lengths import by_length
from tests.workspaces import (
    QUESTION,
    ask_and_keep,
    hashed_workspace,
    ingested_workspace,
    write_docs,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("mcp")
    ingested_workspace(root)
    return root


@pytest.fixture(scope="module")
def answers(root):
    """What one client got for one call of each tool, in a session."""

    async def use(session):
        told = []

        async def progress(done, total, text):
            told.append((done, total, text))

        found = await session.call_tool("search", {"query": QUESTION, "limit": 2})
        citation = found.structured_content["passages"][0]["citation"]
        made = await session.call_tool(
            "build_prompt", {"question": QUESTION}, progress_callback=progress
        )
        key = made.structured_content["prompt_key"]
        return {
            "tools": (await session.list_tools()).tools,
            "search": found,
            "open_passage": await session.call_tool(
                "open_passage", {"citation": citation, "neighbours": 1}
            ),
            "build_prompt": made,
            "progress": told,
            "again": await session.call_tool("build_prompt", {"question": QUESTION}),
            "then": await session.call_tool(
                "open_passage", {"citation": citation, "prompt_key": key[:8]}
            ),
            "explain": await session.call_tool("explain", {"prompt_key": key}),
            "explain one": await session.call_tool("explain", {"citation": citation}),
            "list_projects": await session.call_tool("list_projects", {}),
        }

    return with_client(server(root), use)


def test_tools_say_what_they_take_give_and_change(answers):
    tools = {tool.name: tool for tool in answers["tools"]}
    assert set(tools) == {"search", "build_prompt", "open_passage", "explain", "list_projects"}
    for tool in tools.values():
        assert len(tool.description) > 40
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert tool.annotations.read_only_hint is (tool.name != "build_prompt")
        assert tool.annotations.destructive_hint is False


def test_no_call_failed(answers):
    results = [a for a in answers.values() if hasattr(a, "is_error")]
    assert len(results) == 8
    assert not [text_of(result) for result in results if result.is_error]


def test_a_search_quotes_in_frames_and_says_how_to_cite(answers):
    first = answers["search"].structured_content["passages"][0]
    assert first["file"] == "catalog.md"
    assert first["citation"].startswith("[source: catalog.md, chunk: ")
    lines = first["quote"].split("\n")
    assert lines[0].startswith("<<DOC 1 ")
    assert lines[-1].startswith("<<END DOC 1 ")
    assert all(line.startswith("| ") for line in lines[1:-1])
    assert first["quote"] in text_of(answers["search"])


def test_a_citation_opens_its_passage_now_and_as_a_prompt_saw_it(answers):
    for name in ("open_passage", "then"):
        found = answers[name].structured_content
        (cited,) = [p for p in found["passages"] if p["cited"]]
        assert cited["citation"] == answers["search"].structured_content["passages"][0]["citation"]
        assert "One writer holds the project lock" in cited["quote"]


def test_a_prompt_is_that_of_the_command_line_kept_and_told_of(answers, root):
    made = answers["build_prompt"].structured_content
    space = hashed_workspace(root)
    record = space.store.record(made["prompt_key"])
    assert record.inputs["text"] == QUESTION
    kept = root / "prompts" / record.prompt_key / "super_prompt.md"
    assert kept.read_text(encoding="utf-8") == made["super_prompt"]
    assert answers["build_prompt"].content[0].text == made["super_prompt"]
    assert not made["from_record"]
    assert answers["again"].structured_content["prompt_key"] == made["prompt_key"]
    assert answers["again"].structured_content["from_record"]
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_progress_rises(answers):
    done = [step for step, _, _ in answers["progress"]]
    assert done == sorted(set(done))
    assert "retrieval" in [text for _, _, text in answers["progress"]]


def test_explain_takes_a_key_or_a_citation(answers):
    key = answers["build_prompt"].structured_content["prompt_key"]
    whole, one = (answers[n].structured_content for n in ("explain", "explain one"))
    assert whole["prompt_key"] == one["prompt_key"] == key
    assert whole["kept"] + whole["dropped"] == len(whole["candidates"])
    assert [row["file"] for row in one["candidates"]] == ["catalog.md"]


def test_projects_say_what_is_indexed(answers):
    found = answers["list_projects"].structured_content
    (demo,) = found["projects"]
    assert (demo["indexed"], demo["files"], demo["changed"]) == (True, 4, 0)


WRONG = [
    ("search", {"query": QUESTION, "limitt": 3}, "limitt"),
    ("search", {}, "query"),
    ("search", {"query": "…"}, "empty"),
    ("search", {"query": QUESTION, "limit": 0}, "limit"),
    ("search", {"query": QUESTION, "project": "nix"}, "`list_projects`"),
    ("search", {"query": QUESTION, "project": "../demo"}, "no project"),
    ("build_prompt", {"question": QUESTION, "profile": "nix"}, "nix"),
    ("open_passage", {"citation": "nix"}, "the tool `search`"),
    ("open_passage", {"citation": "nix", "prompt_key": "000000"}, "000000"),
    ("explain", {}, "prompt_key"),
    ("explain", {"prompt_key": "12"}, "6 digits"),
    ("explain", {"citation": "nix"}, "`build_prompt`"),
]


def test_a_wrong_call_says_what_to_do(root):
    async def use(session):
        with pytest.raises(MCPError, match="search, build_prompt"):
            await session.call_tool("rm", {})
        return [await session.call_tool(tool, arguments) for tool, arguments, _ in WRONG]

    for result, (tool, arguments, said) in zip(with_client(server(root), use), WRONG, strict=True):
        assert result.is_error, (tool, arguments)
        assert said in text_of(result), (tool, arguments)
        assert "next: " in text_of(result)
        assert "Traceback" not in text_of(result)


def test_what_another_process_ingests_is_found_by_the_next_call(tmp_path):
    space = ingested_workspace(tmp_path)

    async def use(session):
        async def files():
            found = await session.call_tool("search", {"query": "zebra crossings", "limit": 9})
            return {p["file"] for p in found.structured_content["passages"]}

        before = await files()
        write_docs(tmp_path, docs={"zebra.md": "# Zebras\n\nZebra crossings are striped.\n"})
        from ragstream_core.services.ingest import ingest_project

        ingest_project(space, "demo")
        return before, await files()

    before, after = with_client(server(tmp_path), use)
    assert "zebra.md" not in before
    assert "zebra.md" in after


def test_with_several_projects_a_call_names_one_or_the_server_does(tmp_path):
    ingested_workspace(tmp_path)
    write_docs(tmp_path, "other")

    def search(session):
        return session.call_tool("search", {"query": QUESTION})

    assert "demo, other" in text_of(with_client(server(tmp_path), search))
    assert not with_client(server(tmp_path, "--project", "demo"), search).is_error
    refused = talk(tmp_path, "", words=("--project", "nix"))
    assert refused.returncode == 2
    assert "nix" in refused.stderr


def talk(root, lines, words=()):
    """Send lines to a server; return what it wrote until it ended."""
    return subprocess.run(
        [sys.executable, *MODULE, "--data", str(root), "mcp", *words],
        input=lines,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


def answers_to(root, lines, last):
    """Send lines, and close stdin once the answer with the number `last` is there.

    Returns all answers in their order. What is under way when stdin is closed ends unanswered.
    """
    answers = []
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
        [sys.executable, *MODULE, "--data", str(root), "mcp"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(),
    ) as server:  # fmt: skip
        server.stdin.write("\n".join([*lines, ""]))
        server.stdin.flush()
        while (answer := server.stdout.readline()) and json.loads(answer).get("id") != last:
            answers.append(json.loads(answer))
        server.stdin.close()
        assert server.wait(240) == 0
        errors.seek(0)
        assert "Traceback" not in errors.read()
    return [*answers, json.loads(answer)]


def line(number, method, params=None):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})


HELLO = line(
    1,
    "initialize",
    {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
)
READY = '{"jsonrpc": "2.0", "method": "notifications/initialized"}'


BAD = {
    "cut": "{",
    "a list": "[]",
    "a text": '"x"',
    "no method": '{"jsonrpc": "2.0"}',
    "a null": "\0",
    "no UTF-8": b"\xe9".decode("utf-8", "replace"),
    "too long": "x" * (MAX_MESSAGE_BYTES + 10),
}


def test_a_bad_line_is_answered_and_the_next_one_works(root):
    """One server reads them all, each with a question behind it."""
    numbered = dict(enumerate(BAD.items(), start=2))
    lines = [text for n, (_, bad) in numbered.items() for text in (bad, line(n, "tools/list"))]
    answers = answers_to(root, [HELLO, READY, *lines], last=max(numbered))
    good = {row["id"]: row for row in answers if row.get("id") is not None}
    for number, (kind, _) in numbered.items():
        assert len(good[number]["result"]["tools"]) == 5, kind
    refused = [row["error"] for row in answers if row.get("id") is None]
    assert len(refused) == len(BAD)
    for error in refused:
        assert error["code"] == PARSE_ERROR
        assert "4 MiB" in error["message"]


HOSTILE = [
    "[" * 1_000_000,
    line(3, "tools/call", {"name": "search", "arguments": "x"}),
    line(4, "tools/call", {"name": 5}),
    '{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": [1]}',
    '{"jsonrpc": "2.0", "id": %s, "method": "ping"}' % ("9" * 5000),
    '{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    '{"jsonrpc": "2.0", "id": 6, "result": {}}',
    '{"jsonrpc": "1.0", "id": 7, "method": "ping"}',
    f"[{line(8, 'ping')}]",
    line(9, "tools/call", {"name": "search", "arguments": {"query": "\ud800 x"}}),
    line(10, "resources/read", {"uri": "ragstream://[x/"}),
    line(11, "tools/call", {"name": "search", "arguments": {"query": "who " * 20_000}}),
    '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nix"}}',
    '{"jsonrpc": "2.0", "method": "notifications/nix", "params": {}}',
]


def test_after_hostile_lines_the_server_still_answers(root):
    answers = answers_to(root, [HELLO, READY, *HOSTILE, line(99, "tools/list")], last=99)
    assert len(answers[-1]["result"]["tools"]) == 5
    assert sum(row.get("id") is None for row in answers) >= 4


def test_only_the_protocol_goes_to_stdout(root):
    calls = [line(2, "tools/call", {"name": "list_projects"}), line(3, "nix/nix")]
    answers = answers_to(root, [HELLO, READY, *calls], last=3)
    assert answers[-1]["error"]["code"] == METHOD_NOT_FOUND
    assert {row["jsonrpc"] for row in answers} == {"2.0"}


@pytest.mark.sweep
def test_a_client_that_dies_in_the_middle_of_a_call_leaves_nothing_half_done(tmp_path):
    ingested_workspace(tmp_path)
    ask = {"name": "build_prompt", "arguments": {"question": QUESTION}}
    for wait in by_length((0.0, 0.1), (0.0, 0.02, 0.1, 0.3), (0.0, 0.02, 0.1, 0.3)):
        process = start(tmp_path)
        say(process, HELLO, READY)
        assert process.stdout.readline()
        say(process, line(2, "tools/call", ask))
        time.sleep(wait)
        process.stdin.close()
        assert process.wait(240) == 0
        assert "Traceback" not in process.stderr.read()
        process.stdout.close()
        process.stderr.close()
    sound(tmp_path)


@pytest.mark.sweep
def test_a_server_that_is_killed_in_the_middle_of_a_call_loses_nothing_that_was_kept(tmp_path):
    space = ingested_workspace(tmp_path)
    key = ask_and_keep(space, "What is the dense signal?")
    turn = {"name": "remember", "arguments": {"user": "Which port?", "assistant": "8503."}}
    waits = by_length((0.0, 0.05), (0.0, 0.05, 0.2), (0.0, 0.05, 0.2))
    for wait in waits:
        process = start(tmp_path, RAGSTREAM_MCP__ALLOW_REMEMBER="true")
        say(process, HELLO, READY, line(2, "tools/call", turn))
        answers = [process.stdout.readline() for _ in range(2)]
        assert '"isError":false' in answers[1].replace(" ", "")
        ask = {"name": "build_prompt", "arguments": {"question": QUESTION}}
        say(process, line(3, "tools/call", ask))
        time.sleep(wait)
        process.kill()
        process.communicate()
    assert [turn.user for turn in History(space).show()] == ["Which port?"] * len(waits)
    assert space.store.find(key) == key
    sound(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("closed", [True, False], ids=["stdin closed", "stdin open"])
def test_a_client_ends_the_server_by_a_signal(tmp_path, closed, number):
    process = start(tmp_path)
    say(process, HELLO, READY)
    assert process.stdout.readline()
    if closed:
        process.stdin.close()
    process.send_signal(number)
    assert process.wait(240) in ((-number, 0) if closed else (-number,))
    for one in (process.stdin, process.stdout, process.stderr):
        one.close()


def test_a_cancelled_call_is_not_answered_and_keeps_nothing(tmp_path):
    ingested_workspace(tmp_path)
    process = start(tmp_path)
    say(process, HELLO, READY)
    process.stdout.readline()
    ask = {"name": "build_prompt", "arguments": {"question": QUESTION}}
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    say(process, line(2, "tools/call", ask), json.dumps(gone), line(3, "tools/list"))
    assert json.loads(process.stdout.readline())["id"] == 3
    out, errors = process.communicate(timeout=240)
    assert out == ""
    assert "Traceback" not in errors
    assert not list((tmp_path / "prompts").glob("*/record.json"))


def start(root, words=(), **env):
    """Start a server to talk to line by line."""
    return subprocess.Popen(
        [sys.executable, *(words or [*MODULE, "--data", str(root), "mcp"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )


def say(process, *lines):
    process.stdin.write("\n".join([*lines, ""]))
    process.stdin.flush()


def sound(root):
    """Every kept prompt is whole and replays, and a new server answers."""
    space = hashed_workspace(root)
    keys = space.store.keys()
    for key in keys:
        assert replay_prompt(space, key).verdict == "identical"
    result = with_client(server(root), lambda s: s.call_tool("search", {"query": QUESTION}))
    assert not result.is_error
