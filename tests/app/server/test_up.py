"""Servers start together, stop together, listen on loopback only, and leave nothing behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ragstream_app.cli.commands import up
from ragstream_app.server.access import page_access
from ragstream_app.server.dagster_servers import triggers_at
from ragstream_app.server.processes import HOST, Server, Servers, answers, end_groups, is_free
from ragstream_core.config import AppConfig
from ragstream_core.errors import OperationFailed
from tests.processes import alive, children, free_port, until
from tests.workspaces import ROOT

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def busy_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


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


def test_stopping_ends_the_whole_group_even_if_it_does_not_want_to(watched):
    (server,) = watched(STUBBORN).servers
    assert until(lambda: server.log.read_bytes().strip())
    grandchild = int(server.last_words())
    end_groups([server.process.pid], [server.process], grace_s=0.5)
    assert server.process.returncode == -signal.SIGKILL
    assert until(lambda: not alive(grandchild))


BRIEF = "print('no space left'); raise SystemExit(7)"


@pytest.fixture
def watched(tmp_path):
    """The servers of an `up`, one that runs given code first; stopped afterwards."""
    made = []

    def make(*codes: str, probe: str = "") -> Servers:
        servers = [
            Server(f"number {n}", [sys.executable, "-c", code], probe=probe)
            for n, code in enumerate(codes)
        ]
        made.append(Servers(servers, dict(os.environ), tmp_path))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_a_server_that_ends_while_we_wait_is_reported_with_its_last_words(watched):
    running = watched(BRIEF, probe=f"http://{HOST}:{free_port()}/")
    with pytest.raises(OperationFailed, match="number 0 ended with code 7: no space left"):
        running.wait_until(running.servers[0])


def test_what_an_error_of_ours_says_is_the_message_and_the_next_step(watched):
    code = "print('error: the database is away\\n  next: start it'); raise SystemExit(1)"
    running = watched(code, probe=f"http://{HOST}:{free_port()}/")
    with pytest.raises(OperationFailed) as raised:
        running.wait_until(running.servers[0])
    assert raised.value.message == "number 0 ended with code 1: the database is away"
    assert raised.value.hint.startswith("start it; its output is in ")


def test_one_that_is_killed_ends_the_watch_and_the_end_is_that_of_all(watched):
    running = watched(WILLING, "import time; print('ready', flush=True); time.sleep(600)")
    first, second = running.servers
    assert until(lambda: first.log.read_bytes().strip() and second.log.read_bytes().strip())
    orphan = int(first.last_words())
    os.kill(first.process.pid, signal.SIGKILL)
    with pytest.raises(OperationFailed, match="number 0 ended by SIGKILL") as raised:
        running.watch()
    assert str(first.log) in raised.value.hint
    assert alive(orphan) and alive(second.process.pid)
    running.stop()
    assert until(lambda: not alive(orphan)) and not alive(second.process.pid)


WILLING = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""
HASTY = """
import sys
from ragstream_app.server.processes import end_groups

end_groups(map(int, sys.stdin.read().split()), grace_s=0.5)
"""
KILLED = """
import os, sys
from pathlib import Path
from ragstream_app.server import processes

if sys.argv[3]:
    processes.reaper = lambda: [sys.executable, "-c", sys.argv[3]]
servers = [processes.Server(n, [sys.executable, "-c", sys.argv[1]]) for n in ("one", "two")]
running = processes.Servers(servers, dict(os.environ), Path(sys.argv[2]))
running.start()
print(*(server.process.pid for server in servers), flush=True)
running.watch()
"""


@pytest.mark.parametrize(
    ("code", "reaper_code"), [(WILLING, ""), (STUBBORN, HASTY)], ids=["ends at once", "no SIGTERM"]
)
def test_a_killed_up_leaves_no_server_behind(tmp_path, code, reaper_code):
    command = [sys.executable, "-c", KILLED, code, str(tmp_path), reaper_code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    pids = [int(word) for word in process.stdout.readline().split()]
    logs = [tmp_path / f"{name}.log" for name in ("one", "two")]
    assert until(lambda: all(log.exists() and log.read_bytes().strip() for log in logs))
    everything = {*pids, *(int(log.read_text()) for log in logs), *children(process.pid)}
    assert len(everything) == 5 and all(map(alive, everything))
    process.kill()
    process.wait()
    assert until(lambda: not any(map(alive, everything)))


def test_after_an_orderly_end_the_reaper_is_gone_as_well(watched):
    running = watched("import time; time.sleep(600)")
    assert alive(reaper := running._reaper.pid)
    running.stop()
    assert not alive(reaper)


MANY = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from ragstream_app.cli.commands import up
from ragstream_app.server.processes import Server

words = [sys.executable, "-S", "-c", sys.argv[2]]
servers = [Server(f"number {n}", words) for n in range(int(sys.argv[3]))]
environment = {**os.environ, "OF": sys.argv[1]}
config = SimpleNamespace(layout=SimpleNamespace(server_logs=Path(sys.argv[1]) / "logs"))
with up._signals_stop(), up._running(servers, environment, config) as running:
    running.watch()
"""


def _up_of(tmp_path: Path, code: str, count: int) -> subprocess.Popen[str]:
    """What `up` does around its servers, with servers of ours that carry our mark."""
    return subprocess.Popen(
        [sys.executable, "-c", MANY, str(tmp_path), code, str(count)],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def _of(tmp_path: Path) -> list[int]:
    found, mark = [], f"OF={tmp_path}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("servers", [1, 7, 25])
def test_a_signal_while_the_servers_start_loses_none(tmp_path, number, servers):
    """It comes while the process that was just made has no number here yet."""
    process = _up_of(tmp_path, "import time; time.sleep(600)", 40)
    try:
        assert until(lambda: len(_of(tmp_path)) >= servers)
        process.send_signal(number)
        process.communicate(timeout=120)
        assert until(lambda: not _of(tmp_path))
    finally:
        for pid in _of(tmp_path):
            os.kill(pid, signal.SIGKILL)
    assert process.returncode in (-number, 128 + number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_while_they_end_changes_nothing(tmp_path, number):
    """Servers that take a second to end have ended when `up` has, asked twice or not."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), print('done'), sys.exit()))\n"
        "print('ready', flush=True)\ntime.sleep(600)"
    )
    process = _up_of(tmp_path, code, 2)
    logs = [tmp_path / "logs" / f"number-{n}.log" for n in range(2)]
    assert until(lambda: all(log.exists() and log.read_text() == "ready\n" for log in logs))
    process.send_signal(number)
    assert until(lambda: "stopping" in process.stderr.readline())
    time.sleep(0.2)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert _of(tmp_path) == []
    assert [log.read_text() for log in logs] == ["ready\ndone\n"] * 2


def test_everything_is_told_to_listen_on_loopback(data):
    config = AppConfig.load(explicit={"dagster.port": 3999, "page.port": 8999})
    servers = [
        *up._dagster(config, read_only=True, with_daemon=True),
        up._page(page_access(config)),
    ]
    web, daemon, page = servers
    assert "--read-only" in web.command
    assert (web.url, page.url) == (f"http://{HOST}:3999", f"http://{HOST}:8999")
    assert daemon.url == "" and all(server.command[0] == sys.executable for server in servers)


def test_the_servers_read_the_ports_and_the_settings_of_the_call(data, tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("retrieval:\n  top_k: 9\n")
    config = AppConfig.load(own, explicit={"dagster.port": 3999, "page.port": 8999})
    given = up._environment(config)
    assert (given["RAGSTREAM_DAGSTER__PORT"], given["RAGSTREAM_PAGE__PORT"]) == ("3999", "8999")
    assert given["RAGSTREAM_DATA_DIR"] == str(data)
    assert given["RAGSTREAM_CONFIG"] == str(own)


def test_dagster_finds_the_definitions_from_any_directory(data):
    up._dagster(AppConfig.load(), read_only=False, with_daemon=True)
    written = yaml.safe_load((data / "dagster_home" / "workspace.yaml").read_text())
    assert written == yaml.safe_load((ROOT / "workspace.yaml").read_text())


def test_nothing_is_named_where_nobody_answers():
    assert triggers_at(f"http://{HOST}:{free_port()}", timeout_s=0) == {}


@pytest.mark.slow
def test_up_starts_all_three_and_a_signal_stops_all_three(data, tmp_path):
    ports = free_port(), free_port()
    command = [sys.executable, "-m", "ragstream_app.cli.main", "up", "--port", str(ports[0])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            [*command, "--page-port", str(ports[1])], stdout=out, stderr=out, env=environment
        )
    try:
        assert until(lambda: b"Ctrl-C" in (tmp_path / "out").read_bytes(), 90)
        printed = (tmp_path / "out").read_text()
        assert all(f"http://{HOST}:{port}" in printed for port in ports) and str(data) in printed
        assert "folder_sensor" in printed.partition("sensors on")[2].partition("\n")[0]
        assert "nightly_history" in printed.partition("schedules on")[2].partition("\n")[0]
        assert answers(f"http://{HOST}:{ports[0]}/server_info")
        assert answers(f"http://{HOST}:{ports[1]}/_stcore/health")
        started = children(process.pid)
        assert len(started) == 4  # three servers and the reaper
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
    assert code == 128 + signal.SIGTERM
    assert all(is_free(port) for port in ports)
    assert until(lambda: not any(alive(pid) for pid in started))
