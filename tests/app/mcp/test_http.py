"""MCP over HTTP: the SDK's client against a real `ragstream serve`, and who may not come in."""

import asyncio
import json

import anyio
import httpx
import pytest

from tests.app.mcp.mcp_clients import http_client
from tests.app.serving import serving
from tests.workspaces import QUESTION, ingested_workspace, write_docs

SETTINGS = {"embeddings__backend": "hashed"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
BOTH = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("http") / "data"
    ingested_workspace(root)
    with serving(root, "--data", str(root), **SETTINGS) as server:
        yield server


def post(served, body, **headers):
    own = {"Authorization": f"Bearer {served.token}", **BOTH}
    found = {name: value for name, value in {**own, **headers}.items() if value}
    return served.request("POST", "/mcp", json=body, headers=found)


def test_a_client_finds_opens_and_builds_with_progress(served):
    async def use():
        async with http_client(served) as session:
            told = []

            async def progress(done, total, text):
                told.append(text)

            found = await session.call_tool("search", {"query": QUESTION})
            made = await session.call_tool(
                "build_prompt", {"question": QUESTION}, progress_callback=progress
            )
            return found, made, told, (await session.list_tools()).tools

    found, made, told, tools = asyncio.run(use())
    assert found.structured_content["passages"][0]["file"] == "catalog.md"
    assert made.structured_content["prompt_key"]
    assert "retrieval" in told
    assert len(tools) == 5


def test_clients_at_the_same_time_get_their_own_answers(served):
    async def one(number, found):
        async with http_client(served) as session:
            for _ in range(5):
                words = ("catalog", "BM25")[number % 2]
                result = await session.call_tool("search", {"query": words, "limit": 1})
                found.append((words, result.structured_content["passages"][0]["file"]))

    async def use():
        found = []
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number, found)
        return found

    found = asyncio.run(use())
    assert len(found) == 40
    assert set(found) == {("catalog", "catalog.md"), ("BM25", "retrieval.md")}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
    ids=["no token", "wrong token", "foreign origin", "foreign host", "opaque origin"],
)
def test_who_is_not_meant_stays_outside(served, headers, status):
    answer = post(served, HELLO, **headers)
    assert answer.status_code == status
    assert "result" not in answer.text


def test_the_same_request_with_the_token_is_answered(served):
    answer = post(served, HELLO)
    assert answer.status_code == 200
    assert '"name":"ragstream"' in answer.text


def test_a_client_ends_its_session_without_naming_a_content(served):
    session = {"mcp-session-id": post(served, HELLO).headers["mcp-session-id"]}
    own = {"Authorization": f"Bearer {served.token}", **session}
    foreign = {**own, "Origin": "https://evil.example"}
    assert served.request("DELETE", "/mcp", headers=foreign).status_code == 403
    assert served.request("DELETE", "/mcp", headers=own).status_code == 200
    assert post(served, HELLO, **session).status_code == 404


def test_bad_bodies_are_refused_and_the_server_goes_on(served):
    assert post(served, "x" * (5 * 1024 * 1024)).status_code == 413
    own = {"Authorization": f"Bearer {served.token}", **BOTH, "Content-Type": "application/json"}
    broken = served.request("POST", "/mcp", content=b"{", headers=own)
    assert broken.status_code == 400
    assert json.loads(broken.text)["error"]["code"] == -32700
    gone = post(served, HELLO, **{"mcp-session-id": "0" * 32})
    assert gone.status_code == 404
    assert post(served, HELLO).status_code == 200
    assert "Traceback" not in served.log.read_text()


def test_a_body_of_100_mb_is_refused_before_it_is_read(served):
    sent = 0

    def body():
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x" * (1024 * 1024)

    own = {"Authorization": f"Bearer {served.token}", **BOTH, "Content-Type": "application/json"}
    try:
        answer = served.request("POST", "/mcp", content=body(), headers=own)
    except Exception as error:  # the connection may be closed while we still write
        assert "httpx" in type(error).__module__
    else:
        assert answer.status_code == 413
    assert post(served, HELLO).status_code == 200


def test_a_client_that_goes_in_the_middle_of_a_call_harms_nobody(served):
    async def use():
        with anyio.move_on_after(0.05):
            async with http_client(served) as session:
                await session.call_tool("build_prompt", {"question": "What is the budget?"})
        async with http_client(served) as session:
            return await session.call_tool("search", {"query": QUESTION})

    assert not asyncio.run(use()).is_error


@pytest.fixture
def writable(tmp_path):
    """A server whose project has so many new files that their ingest is seen at work."""
    root = tmp_path / "data"
    ingested_workspace(root)
    docs = {
        f"n{n}.md": f"# Note {n}\n\nZebra {n} is striped.\n\n## More\n\nOf {n}.\n"
        for n in range(1500)
    }
    write_docs(root, docs=docs)
    with serving(root, "--data", str(root), mcp__allow_ingest="true", **SETTINGS) as server:
        yield server


async def changed_files(session):
    found = await session.call_tool("list_projects", {})
    return found.structured_content["projects"][0]["changed"]


def test_a_client_that_cancels_ends_the_work(writable):
    async def use():
        async with http_client(writable) as session, anyio.create_task_group() as group:

            async def progress(done, total, text):
                if done > 1:
                    group.cancel_scope.cancel()

            await session.call_tool("ingest", {}, progress_callback=progress)
            pytest.fail("it was not cancelled")
        async with http_client(writable) as session:
            assert await changed_files(session) == 1500
            done = await session.call_tool("ingest", {})
            while done.is_error:  # the other one holds the project until it has seen that it ends
                assert "is being written" in done.content[0].text, done.content
                done = await session.call_tool("ingest", {})
            return done.structured_content["files"]["new"], await changed_files(session)

    assert asyncio.run(use()) == (1500, 0)
    assert "Traceback" not in writable.log.read_text()


def test_a_notice_of_cancelling_ends_the_work_of_an_older_client(writable):
    own = {**BOTH, "Authorization": f"Bearer {writable.token}"}
    own["mcp-session-id"] = post(writable, HELLO).headers["mcp-session-id"]
    post(writable, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **own)
    ask = {"name": "ingest", "arguments": {}, "_meta": {"progressToken": 1}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ask}
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    said = []
    with httpx.stream(
        "POST", f"{writable.url}/mcp", json=body, headers=own, timeout=60, trust_env=False
    ) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                said.append(json.loads(line.removeprefix("data: ")))
                if len(said) == 2:
                    assert post(writable, gone, **own).status_code == 202
    assert not [row for row in said if "result" in row]
    listed = {
        "jsonrpc": "2.0",
        "id": 8,
        "method": "tools/call",
        "params": {"name": "list_projects"},
    }
    assert '"changed":1500' in post(writable, listed, **own).text.replace(" ", "")
