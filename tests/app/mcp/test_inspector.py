"""The Inspector of the Model Context Protocol, from npm, as a client that is not ours."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.app.mcp.mcp_clients import MODULE, environment
from tests.app.serving import serving
from tests.workspaces import QUESTION, ingested_workspace

PACKAGE = "@modelcontextprotocol/inspector@latest"
pytestmark = pytest.mark.slow
CONNECT_MS = "100000"  # its own 15 s are too few beside other work


@pytest.fixture(scope="module")
def inspector(tmp_path_factory):
    if not (npm := shutil.which("npm")):
        pytest.skip("npm is not here")
    folder = tmp_path_factory.mktemp("inspector")
    words = ("install", "--no-fund", "--no-audit", "--ignore-scripts", PACKAGE)
    done = subprocess.run(
        [npm, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr[-200:]}")
    return folder / "node_modules" / ".bin" / "mcp-inspector"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "data"
    ingested_workspace(root)
    return root


def inspected(inspector, target, *words):
    own = environment(MCP_CATALOG_PATH=str(inspector.parent / "catalog.json"))
    passed_on = [f"-e{name}={own[name]}" for name in own if name.startswith("RAGSTREAM_")]
    done = subprocess.run(
        [str(inspector), "--cli", *target, *words, *passed_on, "--connect-timeout", CONNECT_MS],
        env=own,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def checked(inspector, target):
    tools = inspected(inspector, target, "--method", "tools/list", "--strict")["tools"]
    assert len(tools) == 5
    call = ("--method", "tools/call", "--tool-name")
    found = inspected(inspector, target, *call, "search", "--tool-arg", f"query={QUESTION}")
    assert found["structuredContent"]["passages"][0]["file"] == "catalog.md"
    asked = ("--tool-arg", f"question={QUESTION}", "--tool-arg", "profile=short")
    made = inspected(inspector, target, *call, "build_prompt", *asked)
    key = made["structuredContent"]["prompt_key"]
    listed = inspected(inspector, target, "--method", "resources/list")["resources"]
    assert listed[0]["uri"].endswith(key)
    templates = inspected(inspector, target, "--method", "resources/templates/list")
    assert len(templates["resourceTemplates"]) == 2
    prompts = inspected(inspector, target, "--method", "prompts/list")["prompts"]
    assert "short" in {prompt["name"] for prompt in prompts}


def test_over_pipes(inspector, root):
    checked(inspector, [sys.executable, *MODULE, "--data", str(root), "mcp"])


def test_over_http(inspector, root):
    settings = {"embeddings__backend": "hashed"}
    with serving(root, "--data", str(root), **settings) as served:
        token = ["--header", f"Authorization: Bearer {served.token}"]
        checked(inspector, [f"{served.url}/mcp", "--transport", "http", *token])
