"""Stage JSON: each op's SuperPrompt as a file of its run, from which any stage can go on.

    <data>/prompts/runs/<run>/<step>.<output>.json.gz
    <data>/prompts/runs/<run>/from-<run>                where it read another run's files

Derived: replay never reads it. A re-execution loads from the run that really produced an input.
"""

import re
from pathlib import Path

import dagster as dg

from ragstream_assets.recording.outcomes import outcome
from ragstream_core.atomic import replace_bytes
from ragstream_core.build.workspace import Workspace
from ragstream_core.orchestration.prompt_store import PARENT_PREFIX
from ragstream_core.orchestration.stage_files import SUFFIX, packed, unpacked
from ragstream_core.records import SuperPrompt, from_json, to_json
from ragstream_core.records.identity import sha256_hex

STAGE_JSON = "stage_json"
STAGE_JSON_VERSION = 1
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class StageJsonIOManager(dg.IOManager):
    """Keeps SuperPrompts between the ops of a run, and for re-executions of it."""

    def __init__(self, workspace: Workspace) -> None:
        self._runs = workspace.data_dir / "prompts" / "runs"

    def handle_output(self, context: dg.OutputContext, obj: SuperPrompt) -> None:
        """Write one stage's prompt atomically.

        Raises:
            OSError: Disk full, permission denied.
        """
        value = {"version": STAGE_JSON_VERSION, "step": context.step_key, "prompt": to_json(obj)}
        data = packed(value)
        replace_bytes(self._path(context), data, durable=False)
        context.add_output_metadata({"bytes": len(data), "sha256": sha256_hex(data)})

    def load_input(self, context: dg.InputContext) -> SuperPrompt:
        """Load a prompt from the run that produced it, or as it is at hand where it just was.

        Raises:
            Failure: The file is gone or of another version; the message says where to start.
            OSError: Disk full, permission denied.
        """
        upstream = context.upstream_output
        if upstream is None:
            raise dg.Failure("this input comes from no step", allow_retries=False)
        self._note_parent(context, upstream)
        made = outcome(context.step_context.run_id).read(upstream.step_key)
        if made is not None:
            return made
        path = self._path(upstream)
        try:
            data = unpacked(path)
            if data["version"] == STAGE_JSON_VERSION:
                return from_json(data["prompt"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        raise dg.Failure(
            f"the stage JSON {path.parent.name}/{path.name} is gone or cannot be read",
            metadata={"next": "re-execute all steps of the run"},
            allow_retries=False,
        )

    def _note_parent(self, context: dg.InputContext, upstream: dg.OutputContext) -> None:
        """Note in a re-execution's folder which run it reads from: that run's files are needed."""
        run_id = context.step_context.run_id
        if run_id != upstream.run_id:
            note = self._runs / run_id / f"{PARENT_PREFIX}{upstream.run_id}"
            replace_bytes(note, b"", durable=False)

    def _path(self, context: dg.OutputContext) -> Path:
        name = _UNSAFE.sub("_", f"{context.step_key}.{context.name}{SUFFIX}")
        return self._runs / context.run_id / name


@dg.io_manager(required_resource_keys={"workspace"})
def stage_json(context: dg.InitResourceContext) -> StageJsonIOManager:
    """Keeps each stage's SuperPrompt as JSON under the data root."""
    return StageJsonIOManager(context.resources.workspace.open())
