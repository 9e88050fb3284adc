"""The launcher of runs: Dagster's own, which can also say whether the process of a run lives.

Dagster's monitoring asks it about every run that has begun, and fails one whose process is gone.
A code server reports the death of its runs itself; this notices what no server is left to report.
"""

import os
import socket
import time
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

from ragstream_core.platform.locks import pid_namespace

# Where the process of a run lives; Dagster's pages show no tag that begins so.
MACHINE_TAG = ".dagster/ragstream_machine"
# A process that is younger than its run by more has the pid of one that is gone. Two clocks are
# compared, so a few seconds say nothing; a machine takes longer to come to a pid again.
MARGIN_S = 60.0


def machine() -> str:
    """Return the host and the pid namespace of this process: elsewhere its pid names another."""
    return f"{socket.gethostname()} {pid_namespace()}".strip()


class LocalLauncher(dg.DefaultRunLauncher):
    """Launches runs in processes of their own, and knows those of this machine."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Dagster's monitoring asks this launcher."""
        return True

    def launch_run(self, context: Any) -> None:
        """Note the machine, then launch; a run that is repeated has the note of the one before."""
        self._instance.add_run_tags(context.dagster_run.run_id, {MACHINE_TAG: machine()})
        super().launch_run(context)

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Say that a run has failed if its process was one of this machine and is gone."""
        pid, age_s = self._process_of(run)
        if pid and _is_gone(pid, age_s):
            return CheckRunHealthResult(WorkerStatus.FAILED, f"its process {pid} is gone")
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def _process_of(self, run: dg.DagsterRun) -> tuple[int, float]:
        """Return the pid of a run and for how long it has been known; 0 if it cannot be judged."""
        if run.tags.get(MACHINE_TAG) == machine():
            engine = dg.DagsterEventType.ENGINE_EVENT
            for entry in self._instance.all_logs(run.run_id, of_type=engine):
                # the first that names one names the process of the whole run, not of a step
                pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
                if pid is not None:
                    return int(str(pid.value)), time.time() - entry.timestamp
        return 0, 0.0

    def get_run_worker_debug_info(
        self, run: dg.DagsterRun, include_container_logs: bool | None = True
    ) -> str:
        """Say what to do about a run that was failed so; Dagster adds it to its own message."""
        return "next: launch it again; what it committed is kept, and it goes on from there"


def _is_gone(pid: int, age_s: float) -> bool:
    """Whether the process that had a pid some seconds ago has ended; False if nobody can tell."""
    if not Path("/proc/self/stat").exists():
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    state, *fields = stat.rpartition(")")[2].split()
    began_s = int(fields[18]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), since the boot
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return state in "ZX" or now_s - began_s < age_s - MARGIN_S
