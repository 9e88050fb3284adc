"""`ragstream why-not`: the stage and the rule that kept a chunk or a file out of a prompt.

The prompt is run again from its inputs, so the ledger is exact; a chunk that no list held is scored
against the pinned generations. Where the inputs are gone, the recorded ledger answers alone.

Why a file has no chunk in the generations that a prompt was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.agents.context.passage_selection import framed_tokens
from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.parsers.engines import untagged
from ragstream_core.prompts.explain import named, ways
from ragstream_core.prompts.inputs import settings_at
from ragstream_core.prompts.trail import latest_view, pieces_of
from ragstream_core.records import Decision
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import ingestion, prompt_inputs, saved_prompts, search
from ragstream_core.wiring.conversation_memory import ConversationMemory
from ragstream_core.wiring.file_sources import RecordedAnswers
from ragstream_core.wiring.query_vectors import recorded_queries
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import FileEntry
    from ragstream_core.ports import IndexView, TokenCounter
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.settings import ChainSettings
    from ragstream_core.wiring.workspace import Workspace


OVER_BUDGET = "over_budget"
SCORE, COSINE, SHARE, TOKENS = "score", "cosine", "share of the best candidate", "tokens"
_DIGITS = 6


class Lack(NamedTuple):
    """What a candidate lacks.

    Attributes:
        distance: How much, above 0.
        measure: Of what: `SCORE`, `COSINE`, `SHARE`, `TOKENS`, ``entailment`` or ``relevance``.
    """

    distance: float
    measure: str


def lacks(found: Lack | None) -> dict[str, Any]:
    """Return the JSON form of what a candidate lacks; None: no number decides."""
    return found._asdict() if found else {"distance": None, "measure": ""}


def missing(
    settings: ChainSettings, step: Mapping[str, Any], ways: Sequence[Mapping[str, Any]]
) -> Lack | None:
    """Return what a candidate lacks at the stage where it ended, None where no number tells.

    Args:
        settings: As the gate saw them.
        step: Its last step, of `ways`.
        ways: All candidates.
    """
    rule, scores = step["rule"], step["scores"]
    if rule in ("top_k", "keep"):
        same = (step["stage"], step["pass"])
        kept = [
            other["score"]
            for way in ways
            for other in way["steps"]
            if other["kept"] and (other["stage"], other["pass"]) == same
        ]
        short = min(kept, default=0.0) - step["score"]
        return _lack(short, SCORE) if short >= 0 else None  # a later pass has another scale
    if rule == "min_score":
        return _lack(settings.retrieval.min_score - scores["cosine"], COSINE)
    if rule == "similarity_gate":
        return _lack(settings.gate.theta - step["score"], COSINE)
    if rule == "relative_score" and "both" in scores:
        return _lack(settings.gate.relative - scores["both"], SHARE)
    if rule in ("nli_gate", "llm_gate"):
        measure = "entailment" if rule == "nli_gate" else "relevance"
        return _lack(settings.gate.nli_theta - step["score"], measure)
    return None


def tokens_short(prompt: SuperPrompt, chunk_id: str, counter: TokenCounter) -> Lack:
    """Return by how many tokens the budget is too small for a candidate: at most so many.

    Those of the candidates of its kind that were left out before it stand in its way as well.

    Args:
        prompt: After the condenser.
        chunk_id: A candidate that was over the budget.
        counter: As the condenser counts.
    """
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    order = latest_view(prompt, "a3", "reranked", "retrieval")
    before = order[: order.index(chunk_id) + 1]
    picked, kind = set(prompt.final_selection_ids), is_past(chunks[chunk_id])
    left = [chunks[i] for i in before if i not in picked and is_past(chunks[i]) is kind]
    return Lack(sum(framed_tokens(chunk, counter) for chunk in left), TOKENS)


def _lack(distance: float, measure: str) -> Lack:
    return Lack(round(float(distance), _DIGITS), measure)


INGESTION = "ingestion"


def absent_file(workspace: Workspace, inputs: PromptInputs, target: str) -> dict[str, Any]:
    """Return the verdict on a file without chunks: skipped, refused, later, or unchunked.

    Args:
        workspace: The data root.
        inputs: The prompt's.
        target: ``path`` or ``project/path``.

    Raises:
        UsageError: No project of the prompt has, or had, such a file.
        RagstreamError: An index cannot be read.
    """
    for pin in inputs.pins:
        path = target.removeprefix(f"{pin.project}/")
        found = _in_generation(workspace, pin, path) or _elsewhere(workspace, pin, path)
        if found is not None:
            rule, reason = found
            return {
                "chunk_id": "",
                "project": pin.project,
                "path": path,
                "kept": False,
                "stage": INGESTION,
                "rule": rule,
                "reason": reason,
                **lacks(None),
            }
    known = [path for pin in inputs.pins for path in _manifest(workspace, pin.project, 0)]
    near = get_close_matches(target, known, 3, 0.5)
    raise UsageError(
        f"the projects of this prompt know nothing called {target!r}",
        hint=f"one of: {', '.join(near)}" if near else "a chunk id, path#index, or a path",
    )


def _in_generation(workspace: Workspace, pin: Pin, path: str) -> tuple[str, str] | None:
    entry = _manifest(workspace, pin.project, pin.generation).get(path)
    if entry is None:
        return None
    if entry.decision == "skipped":
        return "skipped", untagged(entry.reason)
    return "no_chunk", f"it was read for generation {pin.generation} and holds no text"


def _elsewhere(workspace: Workspace, pin: Pin, path: str) -> tuple[str, str] | None:
    """Return what the newest generation and the folder say of a file that was not there then."""
    when = f"it was not in generation {pin.generation}"
    newest = _manifest(workspace, pin.project, 0)
    if path in newest:
        return "later", f"{when}; a later ingest brought it in"
    status = ingestion.status(workspace, pin.project)
    refused = dict(status["skipped"])
    if path in refused:
        return "refused", refused[path]
    if any(path in names for names in status["pending"].values()):
        return "not_indexed", f"{when} and waits for `ragstream ingest {pin.project}`"
    return None


def _manifest(workspace: Workspace, project: str, n: int) -> dict[str, FileEntry]:
    from ragstream_core.index.generations import manifest_of

    try:
        return manifest_of(workspace.index_dir(project), n)
    except RagstreamError:
        return {}


POOL, RETRIEVAL = "pool", "retrieval"


def why_not(workspace: Workspace, target: str, key: str) -> dict[str, Any]:
    """Say why a chunk, or every chunk of a file, is not in a prompt.

    Args:
        workspace: The data root.
        target: A chunk id, a marker, a short id, ``path#index``, ``path`` or ``project/path``.
        key: The prompt's key or its first digits.

    Returns:
        ``prompt_key``, ``target``, ``note`` (what could not be recomputed, or ""), ``pieces`` (the
        texts of the query pieces, q1 first), and ``verdicts``: a list of ``chunk_id`` ("" for a
        whole file), ``project``, ``path``, ``kept``, ``stage``, ``rule``, ``reason``, ``distance``
        (what is missing to go on; null where no number decides), ``measure`` (of what: see
        `Lack`, a signal's name, or "") and ``places``
        (``signal, rank, of, score, last, depth, distance``).

    Raises:
        UnknownPrompt: No prompt under that key.
        UsageError: The target names nothing, or several files.
        IntegrityError: The record or the index is damaged.
        RagstreamError: Neither the inputs nor the ledger are there.
    """
    record = workspace.store.record(key)
    case = _case(workspace, record)
    path, ids = _resolved(case, target)
    verdicts = [_verdict(case, project, i) for project, i in ids]
    if not verdicts:
        verdicts = [absent_file(workspace, case.inputs, path)]
    return {
        "prompt_key": record.prompt_key,
        "target": target,
        "note": case.note,
        "pieces": pieces_of(case.prompt) if case.prompt is not None else [],
        "verdicts": _with_places(case, verdicts),
    }


@dataclass(frozen=True, slots=True)
class _Case:
    """A prompt made again, as far as that is possible."""

    workspace: Workspace
    inputs: PromptInputs
    ways: dict[str, dict[str, Any]]
    prompt: SuperPrompt | None
    note: str
    views: Sequence[IndexView] = field(default_factory=tuple)

    @property
    def memory(self) -> ConversationMemory:
        """The conversation as the prompt saw it."""
        return ConversationMemory(self.workspace, self.inputs, RETRIEVAL)

    def known(self) -> Iterable[tuple[str, str, str]]:
        """Yield (project, path, chunk id) of all that could be searched: documents, turns."""
        past = self.memory.view if self.prompt is not None else None
        for view in [*self.views, *([past] if past is not None else [])]:
            for identifier, path in zip(view.chunk_ids, view.paths, strict=True):
                yield view.project, path, identifier


def _case(workspace: Workspace, record: PromptRecord) -> _Case:
    key, inputs = record.prompt_key, PromptInputs.from_json(record.inputs)
    try:
        prompt = prompt_inputs.rerun(workspace, inputs, RecordedAnswers.of(record))
        views = [
            open_view(workspace.index_dir(pin.project), generation=pin.generation)
            for pin in inputs.pins
        ]
    except RagstreamError as error:
        note = f"nothing could be recomputed: {error.message}"
        return _Case(workspace, inputs, _ways(saved_prompts.decisions(workspace, key)), None, note)
    return _Case(workspace, inputs, _ways(prompt.extras.decisions), prompt, "", views)


def _ways(rows: Sequence[Decision]) -> dict[str, dict[str, Any]]:
    return {way["chunk_id"]: way for way in ways(rows)}


def _resolved(case: _Case, target: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the path that was meant, "" for a chunk, and (project, chunk id) of its chunks.

    Raises:
        UsageError: Several files are meant.
    """
    rows = list(case.known())
    held = {row[2] for row in rows}
    rows += [("", _path(i), i) for i in case.ways if i not in held]
    chunk = named((row[2] for row in rows), target)[:1]
    if chunk:
        return "", [(project, i) for project, _, i in rows if i == chunk[0]][:1]
    homes = {(project, path) for project, path, _ in rows}
    exact = {n for n in homes if target in (n[1], f"{n[0]}/{n[1]}".removeprefix("~"))}
    near = exact or {n for n in homes if n[1].endswith(f"/{target}")}
    if len(near) > 1:
        shown = ", ".join(sorted(f"{project}/{path}" for project, path in near)[:5])
        raise UsageError(f"{target!r} may mean {len(near)} files", hint=f"one of: {shown}")
    return target, [(project, i) for project, path, i in rows if (project, path) in near]


def _path(identifier: str) -> str:
    return identifier.rsplit("::", 2)[0]


def _verdict(case: _Case, project: str, identifier: str) -> dict[str, Any]:
    path = _path(identifier)
    base = {"chunk_id": identifier, "project": project, "path": path, **lacks(None)}
    way = case.ways.get(identifier)
    if way is not None:
        step = way["steps"][-1]
        told = {name: step[name] for name in ("kept", "stage", "rule", "reason")}
        return {**base, **told, **lacks(None if step["kept"] else _missing(case, way))}
    out = {**base, "kept": False, "stage": POOL}
    if f"{project}/{path}" in case.inputs.receipts:
        told = {"stage": "a1_file_injector", "rule": "injected"}
        return {**base, **told, "kept": True, "reason": f"{path} is in ❖ FILES"}
    if case.inputs.lock:
        return {**out, "rule": "lock", "reason": "Exact File Lock: only ❖ FILES, no retrieval"}
    if f"{project}/{path}" in case.inputs.off:
        filters = case.prompt.extras.filters if case.prompt is not None else ()
        written = " ".join(found.written for found in filters)
        why = f"switched off, or left out by {written}" if written else "switched off"
        return {**out, "rule": "off", "reason": f"{path} is {why}"}
    reason = "no list of retrieval reaches down to it"
    return {**out, "stage": RETRIEVAL, "rule": "not_listed", "reason": reason}


def _missing(case: _Case, way: Mapping[str, Any]) -> Lack | None:
    """Return what a candidate lacks to go on, where one number decides."""
    gate = settings_at(case.inputs, "a3_nli_gate")
    found = missing(gate, way["steps"][-1], list(case.ways.values()))
    if found is None and way["steps"][-1]["rule"] == OVER_BUDGET and case.prompt is not None:
        return tokens_short(case.prompt, way["chunk_id"], counter_of(case.workspace, case.inputs))
    return found


def _with_places(case: _Case, verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the places of the chunks that were searched for and are not in."""
    asked = {v["chunk_id"] for v in verdicts if not v["kept"] and v["stage"] == RETRIEVAL}
    places = _places(case, asked - {""})
    return [{**v, **_placed(v, places.get(v["chunk_id"], []))} for v in verdicts]


def _placed(verdict: dict[str, Any], places: list[dict[str, Any]]) -> dict[str, Any]:
    if verdict["rule"] == "not_listed" and verdict["project"] == HISTORY and not places:
        reason = "the turn is shown already, cleared, or outside of the filters of the history"
        return {"places": [], "rule": "not_eligible", "reason": reason}
    if verdict["rule"] != "not_listed" or not places:
        return {"places": places}
    if any(0 < place["rank"] <= place["depth"] for place in places):
        reason = "the vector store that proposes candidates did not name it"
        return {"places": places, "rule": "not_proposed", "reason": reason}
    first = min(places, key=lambda place: (place["rank"] == 0, place["rank"]))
    where = f"{first['signal']} rank {first['rank']} of {first['of']:,}"
    reason = f"{where}; the list ends at {first['depth']} with {first['last']:.3f}"
    told = {"places": places, "reason": reason}
    return {**told, "distance": first["distance"], "measure": first["signal"]}


def _places(case: _Case, wanted: set[str]) -> dict[str, list[dict[str, Any]]]:
    from ragstream_core.retrieval.list_ranks import list_ranks

    prompt = case.prompt
    if prompt is None or not wanted:
        return {}
    pieces, inputs = pieces_of(prompt), case.inputs
    off = prompt.extras.pool.off
    alone = case.views[0].project if len(case.views) == 1 else ""
    closed = {f"{alone}/{path}" if alone else path for path in off}
    found = list_ranks(
        search.retriever(
            case.workspace,
            settings_at(inputs, "retrieval"),
            embedder=recorded_queries(case.workspace, inputs),
        ),
        case.views,
        " ".join(pieces),
        pieces=pieces,
        wanted=wanted,
        off=closed,
        past=case.memory.past(),
    )
    return {
        i: [{**place._asdict(), "distance": place.distance} for place in places]
        for i, places in found.items()
    }
