"""What lies beside a prompt's record, so that it can be given again without running the chain.

prompts/<prompt_key>/states.json.gz   the prompt after each step, as what the step changed (derived)
prompts/<prompt_key>/asked.jsonl      when it was asked for, and whether the chain ran
prompts/asked/<question>              the key of the prompt that came of these inputs (derived)

Only the states hold a text, and they go with the prompt's folder. Stage JSON is compressed on the
disk, since a run keeps its prompt once a stage.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.errors import IntegrityError
from ragstream_core.platform.files import append_text, replace_text
from ragstream_core.records import Chunk, SuperPrompt, from_json
from ragstream_core.records.extras import entry_from
from ragstream_core.records.identity import canonical_json
from ragstream_core.records.json_form import Json, json_of
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.records.super_prompt import JSON_VERSION

SUFFIX = ".json.gz"
_LEVEL = 6


def packed(value: Mapping[str, Json], *, level: int = _LEVEL) -> bytes:
    """Return the bytes of a file; equal values give equal bytes."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return gzip.compress(text, level, mtime=0)


def text_of(path: Path) -> bytes:
    """Return what a file says, as JSON in UTF-8."""
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error) as error:
        raise OSError(f"{path.name} is damaged: {error}") from None


def unpacked(path: Path) -> dict[str, Json]:
    """Return the object in a file."""
    value = json.loads(text_of(path))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no object")
    return value


STATES_VERSION = 1
STATES_NAME = "states.json.gz"
ASKED_NAME = "asked.jsonl"
POINTERS = "asked"

# Of the compression: a quarter larger than the usual one, in a third of the time.
_RECORD_LEVEL = 1
_APART = ("extras", "views_by_stage")
_CHUNKS = "base_context_chunks"


@dataclass(frozen=True, slots=True)
class Asking:
    """One time that a prompt was asked for."""

    at: str  # ISO 8601, with a zone
    ran: bool  # whether the chain ran; else its record answered


class _Chunks:
    """The chunks of all states, each once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Json]] = []
        self._numbers: dict[str, int] = {}
        self._seen: dict[int, int] = {}

    def number(self, chunk: Chunk) -> int:
        """Return a chunk's place; the states share most of them as objects."""
        if id(chunk) not in self._seen:
            row = {"id": chunk.id, "source": chunk.source, "snippet": chunk.snippet,
                   "span": list(chunk.span), "meta": dict(chunk.meta)}  # fmt: skip
            number = self._numbers.setdefault(canonical_json(row), len(self.rows))
            self._seen[id(chunk)] = number
            self.rows += [row] if number == len(self.rows) else []
        return self._seen[id(chunk)]


def pack_states(passed: Mapping[str, SuperPrompt]) -> bytes:
    """Return the bytes of all states of one prompt; equal states give equal bytes."""
    chunks = _Chunks()
    rows, before = [], dict[str, Json]()
    for step, prompt in passed.items():
        fields = _fields(prompt, chunks)
        changed = {k: v for k, v in fields.items() if k not in before or before[k] != v}
        grown = {k: n for k, v in changed.items() if (n := _shared(before.get(k), v))}
        ends = {k: v[grown[k] :] if k in grown else v for k, v in changed.items()}
        rows.append([step, json_of(ends), grown, sorted(before.keys() - fields.keys())])
        before = fields
    value = {"version": STATES_VERSION, "chunks": chunks.rows, "steps": rows}
    return packed(value, level=_RECORD_LEVEL)


def unpack_states(data: bytes, inputs: PromptInputs) -> dict[str, SuperPrompt]:
    """Return the prompt after each step; the inverse of `pack_states`."""
    try:
        value = json.loads(gzip.decompress(data))
        if value["version"] != STATES_VERSION:
            raise ValueError
        return dict(_states(value["steps"], value["chunks"], inputs))
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError):
        raise IntegrityError("the states of the prompt cannot be read") from None


def _shared(before: object, after: object) -> int:
    """Return how many entries two sequences share at their beginning; 0 for anything else."""
    if not (isinstance(before, (list, tuple)) and isinstance(after, (list, tuple))):
        return 0
    pairs = enumerate(zip(before, after, strict=False))
    most = min(len(before), len(after))
    return next((n for n, (old, new) in pairs if old is not new and old != new), most)


def _fields(prompt: SuperPrompt, chunks: _Chunks) -> dict[str, Json]:
    """Return the fields of a prompt, entries of containers one by one and chunks by number."""
    data = {name: getattr(prompt, name) for name in SuperPrompt.__slots__}
    parts = {"extras": vars(data.pop("extras")), "views_by_stage": data.pop("views_by_stage")}
    numbers = [chunks.number(chunk) for chunk in data.pop(_CHUNKS)]
    entries = {f"{n}.{k}": v for n, held in parts.items() for k, v in held.items()}
    entries.pop("extras.inputs", None)
    return {**data, **entries, _CHUNKS: numbers}


def _states(
    rows: Sequence[Json], chunks: Sequence[Json], inputs: PromptInputs
) -> Iterator[tuple[str, SuperPrompt]]:
    fields: dict[str, Json] = {}
    for step, ends, grown, gone in rows:
        new = {name: _entry(name, value) for name, value in ends.items()}
        whole = {k: fields[k][: grown[k]] + v if k in grown else v for k, v in new.items()}
        fields = {k: v for k, v in fields.items() if k not in gone} | whole
        data: dict[str, Json] = {"version": JSON_VERSION, **{name: {} for name in _APART}}
        entries: dict[str, Json] = {"inputs": inputs}
        for name, value in fields.items():
            part, dot, entry = name.partition(".")
            if part == "extras":
                entries[entry] = value
            elif dot:
                data[part][entry] = value
            else:
                data[name] = value
        data[_CHUNKS] = [chunks[number] for number in fields[_CHUNKS]]
        prompt = from_json(data)
        vars(prompt.extras).update(entries)
        yield step, prompt


def _entry(name: str, value: Json) -> Json:
    part, _, entry = name.partition(".")
    return entry_from(entry, value) if part == "extras" else value


def note_asked(folder: Path, asking: Asking) -> None:
    """Note that a prompt was asked for; one write at the end of a file."""
    line = json.dumps({"at": asking.at, "ran": asking.ran}) + "\n"
    append_text(folder / ASKED_NAME, line, create=asking.ran)


def times_asked(folder: Path) -> list[Asking]:
    """Return every time that a prompt was asked for, in order; a torn line is left out."""
    try:
        lines = (folder / ASKED_NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            row = json.loads(line)
            found.append(Asking(str(row["at"]), bool(row["ran"])))
    return found


def point(root: Path, question: str, key: str) -> None:
    """Note which prompt came of some inputs."""
    replace_text(root / POINTERS / question, key, durable=False)


def pointed(root: Path, question: str) -> str:
    """Return the key of the prompt that came of some inputs, empty if none is known."""
    try:
        return (root / POINTERS / question).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
