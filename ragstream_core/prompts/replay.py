"""Make a prompt again from its inputs and say whether the bytes are the same.

Replay reads the record's inputs, the pinned generations and the kept bytes of injected files. It
reads neither stage JSON nor the stored rendering, and never calls out.
"""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata

from ragstream_core.config import blas_core_type
from ragstream_core.errors import (
    GenerationGone,
    InputUnavailable,
    IntegrityError,
    ModelMismatch,
    RagstreamError,
    UnknownPrompt,
    WeightsMissing,
)
from ragstream_core.prompts.inputs import inputs_of
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.records import SuperPrompt
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.prompt_inputs import PromptInputs

# Runs the whole chain for pinned inputs, files read from the record.
Runner = Callable[[PromptInputs], SuperPrompt]

REPORT = "please report it, with the output of `ragstream doctor`"
LIBRARIES = (
    "numpy",
    "onnxruntime",
    "tokenizers",
    "semantic-text-splitter",
    "PyStemmer",
    "torch",
    "sentence-transformers",
)


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The outcome of a replay."""

    verdict: str  # ``identical``, ``input unavailable``, ``environment differs`` or ``defect``
    reason: str  # what is missing or different, for people; empty when identical
    first_difference: str  # first op whose state differs, empty when none
    output_sha256: str  # sha256 of the bytes made now, empty when none were
    hint: str = ""  # what to do about it, for people; may be empty

    def to_json(self) -> dict[str, str]:
        """Return its fields."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the verdict and its reason."""
        return f"{self.verdict}: {self.reason}" if self.reason else self.verdict


@functools.cache
def environment() -> dict[str, str]:
    """Return what the numbers of a prompt could depend on besides its inputs."""
    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"]  # what this CPU runs, not the build
    versions = {name: _version(name) for name in LIBRARIES}
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": sys.platform,
        "cpu_features": " ".join(sorted({*found["baseline"], *found["found"]})),
        "blas_core": blas_core_type(),
        **versions,
    }


def replay(record: PromptRecord, run: Runner, differences: Sequence[str] = ()) -> ReplayVerdict:
    """Recompute a recorded prompt and classify the result: an input that is gone is a verdict, too.

    ``differences`` is what a model that is asked again says otherwise; ``run`` fills it.
    """
    inputs = PromptInputs.from_json(record.inputs)
    try:
        prompt = run(inputs)
    except (GenerationGone, InputUnavailable, UnknownPrompt, IntegrityError) as error:
        return ReplayVerdict("input unavailable", error.message, "", "", error.hint)
    except (ModelMismatch, WeightsMissing) as error:
        rows = [*_differences(record, inputs), error.message]
        hint = error.hint
        if isinstance(error, ModelMismatch):  # its own advice would make another index
            hint = f"the model was {inputs.models.get('embedder', '?')}: set embeddings.* back"
        return ReplayVerdict("environment differs", "; ".join(rows), "", "", hint)
    except RagstreamError as error:
        differing = _differences(record, inputs)
        kind, hint = ("environment differs", error.hint) if differing else ("defect", REPORT)
        return ReplayVerdict(kind, "; ".join([*differing, error.message]), "", "", hint)
    output = sha256_hex(prompt.extras.super_prompt)
    first = _first_difference(record.trail, prompt.extras.trail)
    same = inputs_of(prompt).receipts == inputs.receipts and prompt.extras.edits == record.edits
    if output == record.output_sha256 and same:
        return ReplayVerdict("identical", "", "", output)
    differing = [*_differences(record, inputs), *differences]
    if differing:
        return ReplayVerdict("environment differs", "; ".join(differing), first, output)
    return ReplayVerdict("defect", "same inputs, different bytes", first, output, REPORT)


def _differences(record: PromptRecord, inputs: PromptInputs) -> list[str]:
    now, then = environment(), record.environment
    rows = [
        f"{name}: {then.get(name, '-')} then, {now.get(name, '-')} now"
        for name in sorted({*now, *then})
        if now.get(name) != then.get(name)
    ]
    return [*rows, *_other_versions(inputs)]


def _other_versions(inputs: PromptInputs) -> list[str]:
    """Return which stages have another version now than in a record, for people."""
    if not inputs.code:
        return ["the stages' code: of a program that gave them no versions"]
    return [
        f"stage {op}: version {inputs.code.get(op, '-')} then, {STAGE_VERSIONS.get(op, '-')} now"
        for op in dict.fromkeys([*STAGE_VERSIONS, *inputs.code])
        if inputs.code.get(op) != STAGE_VERSIONS.get(op)
    ]


def _first_difference(then: Sequence[Sequence[str]], now: Sequence[Sequence[str]]) -> str:
    for before, after in zip(then, now, strict=False):
        if list(before) != list(after):
            return before[0]
    return ""


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "-"
