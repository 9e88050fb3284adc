"""Where prompts lie: requests by digest, injected bytes by digest, one folder a finished prompt.

prompts/inbox/<sha256>.json     requests; Dagster config carries only their reference
prompts/blobs/<sha256>          bytes of injected files; query vectors and exchanges with a language
                                model, which cannot be made again
prompts/runs/<run>/             stage JSON (derived); from-<run>: it read that run's
prompts/<prompt_key>/           record.json (truth), super_prompt.md, decisions.parquet (derived);
                                what `recorded` needs
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ragstream_core.errors import IntegrityError, RunCommand, UnknownPrompt
from ragstream_core.platform.files import make_private_dir, replace_bytes, replace_text
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT
from ragstream_core.prompts.edits import by_reader, edits_from, edits_key
from ragstream_core.prompts.inputs import PromptRequest, inputs_of, request_from
from ragstream_core.prompts.recorded import STATES_NAME
from ragstream_core.prompts.trail import notes_of
from ragstream_core.records import Decision, SuperPrompt
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex
from ragstream_core.records.json_form import Json
from ragstream_core.records.stage_results import Edit

RECORD_VERSION = 1
RECORD_NAME = "record.json"

# Marker beside a prompt's record: it and its generations are not dropped by age.
KEPT_NAME = "kept"
# Empty file in a run's folder; the rest of its name is a run whose stage JSON was read.
PARENT_PREFIX = "from-"
# Columns of the kept ledger and their types; the parts of a score are JSON.
LEDGER = {
    "pass_no": "int64", "stage": "string", "rank": "int64", "chunk_id": "string", "score": "double",
    "kept": "bool", "rule": "string", "reason": "string", "tokens": "int64", "scores": "string",
}  # fmt: skip
MIN_PREFIX = 6

# In the place of a key: the newest record.
LATEST = "latest"
_WHOLE = re.compile(r"[0-9a-f]{64}")
_LAST = (RunCommand("status"), " lists the last prompts")
_GONE = (
    "a prompt goes when words in it are forgotten or cleared, and after retention.prompt_days days "
    "unless ",
    RunCommand("keep"),
    " holds it",
)


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """What is kept of a finished prompt: enough to make it again."""

    # digest of (input_key, LLM exchanges, human edits, output sha256); empty where nothing was kept
    prompt_key: str
    input_key: str  # digest of ``inputs``
    inputs: Mapping[str, Json]  # the pinned inputs, JSON form
    output_sha256: str  # sha256 of the Super-Prompt's UTF-8 bytes
    trail: Sequence[Sequence[str]]  # op and digest of the prompt after it, in order
    environment: Mapping[str, str]  # library versions and CPU features; recorded, not part of a key
    run_id: str  # Dagster run, empty if it was not recorded
    timings_ms: Mapping[str, float]  # op → milliseconds
    tokens: int  # tokens of the Super-Prompt
    # digests of the exchanges with a language model, by name of the stage
    exchanges: Sequence[str] = ()
    # what a person changed by hand, text included; empty if nothing was
    edits: tuple[Edit, ...] = ()
    # what the stages reported and warned of, as `notes_of`; not part of a key
    notes: Sequence[Mapping[str, Json]] = ()
    resumed: str = ""  # key of the prompt whose stages this one goes on from; empty for none
    # sha256 of what the stages left, as `pack_states`; empty if that is not kept
    states_sha256: str = ""

    @property
    def parent(self) -> str:
        """The key of the prompt whose finished text was edited; empty if it was not."""
        text = next((edit for edit in self.edits if edit.target == SUPER_PROMPT), None)
        if text is None:
            return ""
        return _key(self, [edit for edit in self.edits if edit is not text], text.before)


def _key(record: PromptRecord, edits: Sequence[Edit], output_sha256: str) -> str:
    inputs_key, exchanges = digest_of(record.inputs), list(record.exchanges)
    return digest_of([inputs_key, exchanges, edits_key(edits), output_sha256])


def make_record(
    prompt: SuperPrompt,
    *,
    environment: Mapping[str, str],
    timings_ms: Mapping[str, float],
    run_id: str = "",
    resumed: str = "",
) -> PromptRecord:
    """Make the record of a prompt that went through the whole chain."""
    inputs = inputs_of(prompt)
    output = sha256_hex(prompt.extras.super_prompt)
    exchanges = [digest for _, digest in sorted(prompt.extras.exchanges.items())]
    record = PromptRecord(
        prompt_key="",
        input_key=inputs.key,
        inputs=inputs.to_json(),
        output_sha256=output,
        trail=[(step.op, step.digest) for step in prompt.extras.trail],
        environment=dict(environment),
        run_id=run_id,
        timings_ms={op: round(ms, 3) for op, ms in timings_ms.items()},
        tokens=prompt.extras.token_tree.total,
        exchanges=exchanges,
        edits=prompt.extras.edits,
        notes=notes_of(prompt),
    )
    key = _key(record, record.edits, output)
    return replace(record, prompt_key=key, resumed=resumed if resumed != key else "")


def key_of(prompt: SuperPrompt) -> str:
    """Return the key of a finished prompt."""
    return make_record(prompt, environment={}, timings_ms={}).prompt_key


@dataclass(frozen=True, slots=True)
class PromptStore:
    """Reads and writes below ``<data>/prompts``; every file is the old one or the new one."""

    root: Path

    def put_request(self, request: PromptRequest) -> str:
        """Keep a request; return its reference ``sha256:…``."""
        data = asdict(request)
        if not request.conversation:
            del data["conversation"]  # as before there were any: references stay what they were
        text = canonical_json(data)
        digest = sha256_hex(text)
        self._put_once(self.root / "inbox" / f"{digest}.json", text.encode("utf-8"))
        return f"sha256:{digest}"

    def request(self, reference: str) -> PromptRequest:
        """Load a request by its reference."""
        digest = reference.removeprefix("sha256:")
        path = self.root / "inbox" / f"{Path(digest).name}.json"
        if not path.is_file():
            raise UnknownPrompt(f"no prompt request {reference}", hint=RunCommand("prompt", "TEXT"))
        text = path.read_text(encoding="utf-8")
        if sha256_hex(text) != digest:
            raise IntegrityError(f"{path} does not have the digest in its name")
        return request_from(json.loads(text))

    def put_blob(self, data: bytes) -> str:
        """Keep bytes under their sha256; return it."""
        digest = sha256_hex(data)
        self._put_once(self.root / "blobs" / digest, data)
        return digest

    def blob(self, digest: str) -> bytes:
        """Load bytes by their sha256."""
        path = self.root / "blobs" / Path(digest).name
        if not path.is_file():
            raise UnknownPrompt(f"the bytes {digest[:12]} of an injected file are not kept")
        data = path.read_bytes()
        if sha256_hex(data) != digest:
            raise IntegrityError(f"{path} does not have the digest in its name")
        return data

    def put(self, record: PromptRecord, prompt: SuperPrompt, *, states: bytes = b"") -> Path:
        """Keep a finished prompt: derived files first, the record last; return its folder."""
        folder = make_private_dir(self.root / record.prompt_key)
        replace_text(folder / "super_prompt.md", prompt.extras.super_prompt, durable=False)
        decisions = _parquet(prompt.extras.decisions)
        replace_bytes(folder / "decisions.parquet", decisions, durable=False)
        if states:
            replace_bytes(folder / STATES_NAME, states, durable=False)
        data = {"version": RECORD_VERSION, **asdict(record)}
        replace_text(folder / RECORD_NAME, json.dumps(data, ensure_ascii=False, indent=1))
        return folder

    def record(self, key: str) -> PromptRecord:
        """Load a record by its key or an unambiguous prefix of at least 6 digits."""
        path = self.root / self.find(key) / RECORD_NAME
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            version = data.pop("version")
            record = PromptRecord(**{**data, "edits": edits_from(data.get("edits", ()))})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise IntegrityError(
                f"{path} is damaged", hint=(RunCommand("prompt", "…"), " makes it again")
            ) from None
        expected = _key(record, record.edits, record.output_sha256)
        altered = len({record.prompt_key, path.parent.name, expected}) > 1
        altered = altered or record.input_key != digest_of(record.inputs)
        if version != RECORD_VERSION or altered:
            raise IntegrityError(
                f"{path} does not belong to its key {path.parent.name[:12]}: it was altered",
                hint=(
                    "take it from a backup (",
                    RunCommand("restore"),
                    "), or make the prompt again",
                ),
            )
        return record

    def find(self, key: str) -> str:
        """Return the full key that a prefix names; `LATEST` is that of the newest record."""
        if _WHOLE.fullmatch(key) and (self.root / key / RECORD_NAME).is_file():
            return key
        if key == LATEST and (newest := self.keys()[-1:]):
            return newest[0]
        if key == LATEST:
            raise UnknownPrompt("no prompt is kept yet", hint=RunCommand("prompt", "…"))
        if len(key) < MIN_PREFIX:
            raise UnknownPrompt(
                f"{key!r} is not a key: give its first {MIN_PREFIX} digits or more, or `{LATEST}`",
                hint=_LAST,
            )
        found = [known for known in self.keys() if known.startswith(key.lower())]
        if len(found) > 1:
            raise UnknownPrompt(
                f"{len(found)} prompts have a key that begins with {key!r}",
                hint=f"one of: {', '.join(sorted(found)[:3])}",
            )
        if not found:
            raise UnknownPrompt(f"no prompt has the key {key!r}", hint=(*_LAST, "; ", *_GONE))
        return found[0]

    def _put_once(self, path: Path, data: bytes) -> None:
        """Write a file unless it is there; its time says when it was last asked for."""
        try:
            os.utime(path)
        except FileNotFoundError:
            replace_bytes(path, data)

    def keys(self) -> list[str]:
        """Return the keys of all kept prompts, oldest record first; of one moment, by key."""
        found = []
        for path in self.root.glob(f"*/{RECORD_NAME}"):
            with contextlib.suppress(FileNotFoundError):  # cleared just now
                found.append((path.stat().st_mtime_ns, path.parent.name))
        return [key for _, key in sorted(found)]


def raw_record(folder: Path) -> Mapping[str, Json]:
    """Return a record as it lies in a folder, unchecked; empty if it cannot be read as one."""
    try:
        record = json.loads((folder / RECORD_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    is_one = isinstance(record, dict) and isinstance(record.get("inputs"), dict)
    return record if is_one else {}


def exchange_files(folder: Path) -> list[Path]:
    """Return where exchanges and edits of a prompt lie; they may quote its sources."""
    record = raw_record(folder)
    named = [*record.get("exchanges", ())]
    try:
        named += map(sha256_hex, by_reader(edits_from(record.get("edits", ()))).values())
    except IntegrityError:
        return []
    return [folder.parent / "blobs" / Path(str(digest)).name for digest in named]


def _parquet(rows: Sequence[Decision]) -> bytes:
    import pyarrow as pa
    import pyarrow.json as pj
    import pyarrow.parquet as pq

    flat = [
        canonical_json({**row._asdict(), "scores": canonical_json(dict(row.scores))})
        for row in rows
    ]
    lines = "\n".join(flat).encode()
    schema = pa.schema([pa.field(name, kind) for name, kind in LEDGER.items()])
    # Arrow's own reader: a table made of lists would import pandas, 0.3 s of a command
    reading = pj.ReadOptions(use_threads=False, block_size=len(lines) or 1)
    parsing = pj.ParseOptions(explicit_schema=schema)
    source = pa.BufferReader(lines)
    table = pj.read_json(source, reading, parsing) if rows else schema.empty_table()
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def pinned(prompts: Path, project: str) -> dict[int, list[str]]:
    """Return the generations of a project that kept prompts need, with those prompts' keys."""
    found: dict[int, list[str]] = {}
    for marker in sorted(prompts.glob(f"*/{KEPT_NAME}")):
        path = marker.with_name(RECORD_NAME)
        try:
            pins = raw_record(marker.parent)["inputs"]["pins"]
            mine = [int(pin["generation"]) for pin in pins if pin["project"] == project]
        except (ValueError, KeyError, TypeError):
            raise IntegrityError(
                f"{path} is damaged, so the generations that it needs are not known",
                hint=f"remove {marker} if the prompt is not needed any more",
            ) from None
        for n in mine:
            found.setdefault(n, []).append(marker.parent.name)
    return found
