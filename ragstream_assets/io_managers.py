"""Stage JSON: each op's SuperPrompt as a file of its run, from which any stage can go on.

    <data>/prompts/runs/<run>/<step>.<output>.json.gz
    <data>/prompts/runs/<run>/from-<run>                where it read another run's files

Derived: replay never reads it. A re-execution loads from the run that really produced an input; an
op subset of the Launchpad from the run that its first step names.
"""

import contextlib
import re
from pathlib import Path

import dagster as dg

from ragstream_assets.failures import failure
from ragstream_assets.launchpad import FROM_RUN
from ragstream_assets.run_retention import PARENT_TAG
from ragstream_core.errors import RagstreamError
from ragstream_core.platform.files import replace_bytes
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.chain_steps import outputs_before
from ragstream_core.prompts.recorded import SUFFIX, packed, unpacked
from ragstream_core.prompts.store import PARENT_PREFIX, key_of
from ragstream_core.records import SuperPrompt, from_json, to_json
from ragstream_core.records.identity import sha256_hex
from ragstream_core.wiring.workspace import Workspace

STAGE_JSON = "stage_json"
STAGE_JSON_VERSION = 1
ROOT_TAG = "dagster/root_run_id"
_RUN = re.compile(r"[0-9a-f-]{8,36}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class StageJsonIOManager(dg.IOManager):
    """Keeps SuperPrompts between the ops of a run, and for re-executions of it."""

    def __init__(self, workspace: Workspace) -> None:
        self._runs = workspace.layout.prompts / "runs"

    def handle_output(self, context: dg.OutputContext, obj: SuperPrompt) -> None:
        """Write one stage's prompt atomically."""
        value = {"version": STAGE_JSON_VERSION, "step": context.step_key, "prompt": to_json(obj)}
        data = packed(value)
        replace_bytes(self._path(context), data, durable=False)
        context.add_output_metadata({"bytes": len(data), "sha256": sha256_hex(data)})

    def load_input(self, context: dg.InputContext) -> SuperPrompt:
        """Load a prompt from the run that produced it."""
        run, upstream = context.step_context, context.upstream_output
        key, named = run.step.key, str((run.op_config or {}).get(FROM_RUN, ""))
        if upstream is None:
            return self.taken_over(key, named, run.dagster_run, run.instance)
        if named and upstream.run_id == run.run_id:
            raise failure(
                f"{FROM_RUN} is where an op subset begins", f"choose {key}* as the subset"
            )
        if upstream.run_id != run.run_id:
            self._note_parent(run.run_id, str(upstream.run_id))
        return read_stage(self._path(upstream))

    def taken_over(
        self, step: str, named: str, run: dg.DagsterRun, instance: dg.DagsterInstance
    ) -> SuperPrompt:
        """Load what the first step of an op subset reads, and tag its run with where it is from."""
        parent, path = self._before(step, named)
        prompt = read_stage(path)
        self._note_parent(run.run_id, parent)
        before = instance.get_run_by_id(parent)
        if before is not None:
            root = before.root_run_id or before.tags.get(ROOT_TAG, parent)
            instance.add_run_tags(run.run_id, {PARENT_TAG: parent, ROOT_TAG: root})
        return prompt

    def _before(self, step: str, named: str) -> tuple[str, Path]:
        """Return the run that is named, and the file that a step reads of it or of its parents."""
        found = sorted(self._runs.glob(f"{named}*")) if _RUN.fullmatch(named) else []
        if len(found) != 1:
            said = f"{len(found) or 'no'} runs with stage JSON begin with {named!r}"
            said = said if named else f"no step runs before {step}"
            raise failure(said, f"name the run to go on from, or its first 8 digits, as {FROM_RUN}")
        for run in self._line(found[0].name):
            for output in outputs_before(step):
                if (path := self._runs / run / f"{output}{SUFFIX}").is_file():
                    return found[0].name, path
        said = f"the run {found[0].name[:8]} has nothing that {step} reads"
        raise failure(said, "name a run that got that far, or begin the subset earlier")

    def resumed(self, run_id: str) -> str:
        """Return the key of the finished prompt that a run goes on from, empty for none."""
        for run in self._line(run_id)[1:]:
            with contextlib.suppress(dg.Failure, RagstreamError):
                return key_of(read_stage(self._runs / run / f"{OPS[-1]}.result{SUFFIX}"))
        return ""

    def _line(self, run_id: str) -> list[str]:
        """Return a run and those whose files it reads, the nearest first."""
        line = [run_id]
        for run in line:
            notes = (self._runs / run).glob(f"{PARENT_PREFIX}*")
            parents = sorted(note.name.removeprefix(PARENT_PREFIX) for note in notes)
            line += [parent for parent in parents if parent not in line]
        return line

    def _note_parent(self, run_id: str, parent: str) -> None:
        """Note in a re-execution's folder which run it reads from: that run's files are needed."""
        replace_bytes(self._runs / run_id / f"{PARENT_PREFIX}{parent}", b"", durable=False)

    def _path(self, context: dg.OutputContext) -> Path:
        name = _UNSAFE.sub("_", f"{context.step_key}.{context.name}{SUFFIX}")
        return self._runs / context.run_id / name


def read_stage(path: Path) -> SuperPrompt:
    """Return the prompt in a file."""
    try:
        data = unpacked(path)
        if data["version"] == STAGE_JSON_VERSION:
            return from_json(data["prompt"])
        what = f"is of version {data['version']!r}, and this is {STAGE_JSON_VERSION}"
    except FileNotFoundError:
        what = "is gone"
    except (
        RagstreamError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError
    ):  # fmt: skip
        what = "cannot be read"
    where = f"the stage JSON {path.parent.name}/{path.name}"
    raise failure(f"{where} {what}", "re-execute all steps of the run")


@dg.io_manager(required_resource_keys={"workspace"})
def stage_json(context: dg.InitResourceContext) -> StageJsonIOManager:
    """Keeps each stage's SuperPrompt as JSON under the data root."""
    return StageJsonIOManager(context.resources.workspace.open())
