import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragstream_core.errors import ProjectLocked
from ragstream_core.index.schema import project_lock
from ragstream_core.platform.locks import HOLDER_NAME, process_start

ROOT = Path(__file__).parents[3]
HOLD = """
import sys, time
from pathlib import Path
from ragstream_core.index.schema import project_lock
with project_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "demo")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_is_refused_at_once_and_told_who(tmp_path, holder):
    with pytest.raises(ProjectLocked) as caught, project_lock(tmp_path / "demo"):
        pass
    assert f"process {holder.pid}" in caught.value.message
    assert "demo" in caught.value.message


def test_a_killed_owner_leaves_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with project_lock(tmp_path / "demo"):
        row = json.loads((tmp_path / "demo" / HOLDER_NAME).read_text())
        assert row["pid"] == os.getpid()
        assert row["start"] == process_start(os.getpid())


def test_free_after_use_and_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), project_lock(tmp_path):
        raise RuntimeError
    with project_lock(tmp_path):
        pass


def test_refused_within_one_process_too(tmp_path):
    with project_lock(tmp_path), pytest.raises(ProjectLocked), project_lock(tmp_path):
        pass
