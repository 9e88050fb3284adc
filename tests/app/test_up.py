"""Servers start together, stop together, listen on loopback only, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ragstream_app.commands import up
from ragstream_app.ports import HOST, answers, is_free
from ragstream_app.servers import Server, start, stop_all
from ragstream_core.config import AppConfig
from ragstream_core.errors import OperationFailed

ROOT = Path(__file__).parents[2]
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def busy_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("option", ["--port", "--page-port"])
def test_a_busy_port_is_refused_by_name(data, run, busy_port, option):
    other = "--page-port" if option == "--port" else "--port"
    code, out, err = run("up", option, str(busy_port), other, str(free_port()))
    assert (code, out) == (3, "")
    assert f"port {busy_port} is in use" in err and option in err
    assert not (data / "dagster_home").exists()


def test_one_port_for_both_is_refused(data, run):
    port = str(free_port())
    assert run("up", "--port", port, "--page-port", port)[0] == 3


def test_a_free_and_a_busy_port(busy_port):
    assert not is_free(busy_port) and is_free(free_port())
    assert not answers(f"http://{HOST}:{free_port()}/")


def test_stopping_ends_the_whole_group_even_if_it_does_not_want_to(tmp_path):
    server = Server("stubborn one", [sys.executable, "-c", STUBBORN])
    start(server, dict(os.environ), tmp_path)
    assert until(lambda: server.log.read_bytes().strip())
    grandchild = int(server.last_words())
    began = time.monotonic()
    stop_all([server], grace_s=0.5)
    assert time.monotonic() - began < 5
    assert server.process.returncode == -signal.SIGKILL
    assert until(lambda: not alive(grandchild))


def test_a_server_that_ends_is_reported_with_its_last_words(tmp_path):
    server = Server("brief", [sys.executable, "-c", "print('no space left'); raise SystemExit(7)"])
    start(server, dict(os.environ), tmp_path)
    with pytest.raises(OperationFailed, match="brief ended with code 7: no space left"):
        until(lambda: up._require_alive([server]))
    stop_all([server])


def test_everything_is_told_to_listen_on_loopback(data):
    config = AppConfig.load()
    servers = [*up._dagster(config, 3999, read_only=True), up._page(8999)]
    web, daemon, page = (server.command for server in servers)
    assert web[web.index("-h") + 1] == HOST and "--read-only" in web
    assert "--server.address=127.0.0.1" in page and "-h" not in daemon
    assert all(server.url.startswith(f"http://{HOST}:") for server in servers if server.url)
    assert all(command[0] == sys.executable for command in (web, daemon, page))


def test_dagster_finds_the_definitions_from_any_directory(data):
    up._dagster(AppConfig.load(), 3999, read_only=False)
    written = yaml.safe_load((data / "dagster_home" / "workspace.yaml").read_text())
    assert written == yaml.safe_load((ROOT / "workspace.yaml").read_text())


@pytest.mark.slow
def test_up_starts_all_three_and_a_signal_stops_all_three(data, tmp_path):
    ports = free_port(), free_port()
    command = [sys.executable, "-m", "ragstream_app.cli", "up", "--port", str(ports[0])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            [*command, "--page-port", str(ports[1])], stdout=out, stderr=out, env=environment
        )
    try:
        assert until(lambda: b"Ctrl-C" in (tmp_path / "out").read_bytes(), 90)
        assert answers(f"http://{HOST}:{ports[0]}/server_info")
        assert answers(f"http://{HOST}:{ports[1]}/_stcore/health")
        children = _children(process.pid)
        assert len(children) == 3
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    assert code == 128 + signal.SIGTERM
    assert all(is_free(port) for port in ports)
    assert until(lambda: not any(alive(pid) for pid in children))


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
