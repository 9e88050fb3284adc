"""No byte leaves: the main job in a network namespace without a route, the servers under strace.

``LENGTH=full`` watches the servers for ten minutes, else for half a minute.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ragstream_app.server.processes import HOST
from ragstream_core.models.embedders.onnx_encoder import ensure_export
from tests.lengths import FULL
from tests.processes import free_port
from tests.workspaces import write_docs

ROOT = Path(__file__).parents[2]
STRACE, SS = shutil.which("strace"), shutil.which("ss")
SESSION_S = 600.0 if FULL else 30.0
TICKS_S = 90.0
VISIT_S = 5.0
WATCH = [str(STRACE), "-f", "--seccomp-bpf", "-qq", "-s", "80"]
WATCH += ["-e", "trace=connect,sendto,sendmsg,sendmmsg"]
SENT = re.compile(r"(connect|sendto|sendmsg|sendmmsg)\(.*?sa_family=AF_INET6?,.*")
LOOPBACK = re.compile(r'inet_addr\("127\.|"::1"|"::ffff:127\.')
UNSHARE = shutil.which("unshare")
ALLOWED = UNSHARE is not None and not subprocess.run(
    [UNSHARE, "-n", "true"], capture_output=True, check=False
).returncode  # fmt: skip


@pytest.mark.model
@pytest.mark.skipif(not ALLOWED, reason="needs the right to make a network namespace")
def test_ingest_and_prompt_work_without_any_network(tmp_path, models_dir):
    write_docs(tmp_path)
    weights = ensure_export(models_dir).folder
    shutil.copytree(weights, tmp_path / "models" / weights.name)
    base = [UNSHARE, "-n", sys.executable, "-m", "ragstream_app.cli.main", "--data", str(tmp_path)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAGSTREAM_")}
    for words in (
        ["ingest", "demo", "--json"],
        ["prompt", "How many writers hold the project lock?", "-p", "demo", "--json"],
    ):
        done = subprocess.run([*base, *words], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
    assert "One writer holds the project lock" in answer["super_prompt"]


def test_nothing_looks_up_or_connects_to_another_host(tmp_path):
    """An audit hook sees every connect and look-up of a plain ingest and prompt."""
    write_docs(tmp_path)
    code = """
import sys
calls = []
sys.addaudithook(lambda event, args: calls.append((event, args[1:]))
                 if event in ("socket.connect", "socket.getaddrinfo") else None)
from ragstream_core.config import quiet_environment; quiet_environment()
from ragstream_core.wiring.workspace import open_workspace
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.prompts.inputs import PromptRequest
space = open_workspace(sys.argv[1], explicit={"embeddings.backend": "hashed"})
ingest_project(space, "demo")
inputs = pin_inputs(space, PromptRequest("Who may write?", ("demo",)))
save_prompt(space, run_prompt(space, inputs))
print(calls)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None or SS is None, reason="needs strace and ss")
def test_the_servers_ask_nobody_and_listen_to_this_machine_alone(tmp_path):
    """Page, web server, daemon and the runs they start, used as a person would, and knocked at."""
    write_docs(tmp_path)
    trace, log = tmp_path / "trace", tmp_path / "up.log"
    ports = free_port(), free_port()
    command = [*WATCH, "-o", str(trace), sys.executable, "-m", "ragstream_app.cli.main"]
    command += ["--data", str(tmp_path), "up"]
    command += ["--port", str(ports[0]), "--page-port", str(ports[1])]
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAGSTREAM_")}
    env |= {"PYTHONPATH": str(ROOT), "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed"}
    with log.open("wb") as out:
        up = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)
    try:
        while b"Ctrl-C" not in log.read_bytes():
            assert up.poll() is None, log.read_text()
            time.sleep(0.2)
        began, visits = time.monotonic(), 0
        while time.monotonic() < began + SESSION_S or not _runs(ports[0]):
            assert time.monotonic() < began + SESSION_S + TICKS_S, "no sensor ingested the project"
            _visit(*ports)
            visits += 1
            time.sleep(VISIT_S)
        listening = _listeners(up.pid)
    finally:
        os.killpg(up.pid, signal.SIGTERM)
        up.wait(240)
    sent, outside = _sent(trace)
    print(
        f"{visits} visits, {len(sent)} connects on loopback, {len(outside)} elsewhere, {listening}"
    )
    assert sent, "what is sent is seen"
    assert outside == []
    assert listening == {f"{HOST}:{port}" for port in ports}


@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_the_watch_would_see_a_look_up_and_a_connection(tmp_path):
    """Both of a grandchild, to an address that belongs to nobody."""
    inner = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        "s.setblocking(False); hosts = ('192.0.2.1', 53), ('192.0.2.2', 443), ('127.0.0.1', 9)\n"
        "for call, host in zip((lambda h: s.sendto(b'x', h), s.connect, s.connect), hosts):\n"
        "    try: call(host)\n"
        "    except OSError: pass"  # a machine without any network refuses at once
    )
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    trace = tmp_path / "trace"
    subprocess.run([*WATCH, "-o", str(trace), sys.executable, "-c", code], check=True)
    sent, outside = _sent(trace)
    assert (len(sent), len(outside)) == (3, 2)


def _sent(trace: Path) -> tuple[list[str], list[str]]:
    """What was sent to any address, and of that what was not for this machine."""
    sent = [line for line in trace.read_text(errors="replace").splitlines() if SENT.search(line)]
    return sent, [line for line in sent if not LOOPBACK.search(line)]


def _visit(dagster: int, page: int) -> None:
    """Open both, have the page drawn, ask Dagster, and knock as a foreign page would."""
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    for port in (dagster, page):
        urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=60).read()
    stream = f"ws://{HOST}:{page}/_stcore/stream"
    drawn = BackMsg()
    drawn.rerun_script.query_string = ""
    with connect(stream, origin=f"http://{HOST}:{page}", proxy=None, max_size=None) as browser:
        browser.send(drawn.SerializeToString())
        while b"Super-Prompt" not in browser.recv(timeout=60):
            pass
    with pytest.raises(InvalidStatus), connect(stream, origin="http://evil.example", proxy=None):
        pass
    _runs(dagster)


def _runs(port: int) -> list[dict]:
    query = "{ runsOrError { ... on Runs { results { runId status } } } }"
    request = urllib.request.Request(
        f"http://{HOST}:{port}/graphql",
        json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]["runsOrError"]["results"]


def _listeners(pid: int) -> set[str]:
    """The addresses that a process and its descendants listen on."""
    tree, found = {pid}, set()
    for _ in range(6):
        for one in list(tree):
            for task in Path(f"/proc/{one}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    tree |= {int(child) for child in task.read_text().split()}
    table = subprocess.run([SS, "-ltnpH"], capture_output=True, text=True, check=True).stdout
    for line in table.splitlines():
        if {int(number) for number in re.findall(r"pid=(\d+)", line)} & tree:
            found.add(line.split()[3])
    return found
