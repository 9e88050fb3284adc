"""Off unless asked for: no import, no port, no file; and under `ragstream up` like the others."""

import contextlib
import json
import os
import stat

import pytest

from ragstream_app.cli.commands import up
from ragstream_app.server.processes import HOST, Servers, is_free
from ragstream_core.config import AppConfig
from tests.processes import free_port

OURS = ("ragstream_app.api", "ragstream_app.mcp", "starlette", "uvicorn", "mcp")
RUN = f"""
import json, sys
from ragstream_app.cli.main import main
code = main(sys.argv[1:])
found = sorted(m for m in sys.modules if m.startswith({OURS!r}))
print(json.dumps([code, found]), file=sys.stderr)
"""


@pytest.mark.parametrize("words", [
    ["status"], ["prompt", "Who may write?", "-p", "manual"], ["ask", "Who?", "-p", "manual"],
    ["search", "lock", "-p", "manual"], ["config", "show"],
])  # fmt: skip
def test_other_commands_load_nothing_of_it(indexed, spawn, monkeypatch, words):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
    result = spawn(*words, code=RUN)
    assert json.loads(result.stderr.strip().splitlines()[-1]) == [0, []], result.stderr
    assert not (indexed / "api-token").exists()


def test_the_token_is_shown_without_a_server(data, spawn):
    result = spawn("serve", "--show-token", code=RUN)
    code, loaded = json.loads(result.stderr.strip().splitlines()[-1])
    assert code == 0 and not {"starlette", "uvicorn", "mcp"} & set(loaded), loaded


class Planned(Exception):
    """What `up` would have started."""


@pytest.fixture
def planned(data, monkeypatch):
    """The names of the servers that `ragstream up` starts."""
    found = []

    @contextlib.contextmanager
    def running(servers, environment, config):
        found.extend(servers)
        raise Planned
        yield

    monkeypatch.setattr(up, "_running", running)

    def call(run):
        run("up", "--no-page", "--port", str(free_port()))
        return {server.name: server for server in found}

    return call


def test_up_starts_none_of_it_unless_the_settings_say_so(data, run, planned):
    assert list(planned(run)) == ["Dagster", "Dagster daemon"]
    assert not (data / "api-token").exists()


def test_up_starts_it_if_the_settings_say_so(data, run, planned, monkeypatch):
    port = free_port()
    monkeypatch.setenv("RAGSTREAM_API__ENABLED", "true")
    monkeypatch.setenv("RAGSTREAM_API__PORT", str(port))
    server = planned(run)["API"]
    assert server.url == f"http://{HOST}:{port}" and server.probe == f"{server.url}/health"
    assert stat.S_IMODE((data / "api-token").stat().st_mode) == 0o600


def test_a_port_that_is_taken_is_refused_by_the_name_of_its_setting(data, run, monkeypatch):
    port = str(free_port())
    monkeypatch.setenv("RAGSTREAM_API__ENABLED", "true")
    monkeypatch.setenv("RAGSTREAM_API__PORT", port)
    code, out, err = run("up", "--no-page", "--port", port)
    assert (code, out) == (3, "") and "api.port" in err


@pytest.mark.slow
def test_it_starts_and_ends_with_the_rest(data, monkeypatch, tmp_path):
    port = free_port()
    monkeypatch.setenv("RAGSTREAM_API__PORT", str(port))
    running = Servers([up._api(AppConfig.load())], dict(os.environ), tmp_path)
    try:
        running.start()
        (server,) = running.servers
        running.wait_until(server)
    finally:
        running.stop()
    assert is_free(port) and server.process.returncode is not None
