"""`ragstream why-not`: the stage and the rule that kept a chunk or a file out of a prompt.

The prompt is run again from its inputs, so the ledger is exact; a chunk that no list held is scored
against the pinned generations. Where the inputs are gone, the recorded ledger answers alone.

Why a file has no chunk in the generations that a prompt was made from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ragstream_core.agents.context.condensed_rows import EVIDENCE_ENDS, NOTHING_RELEVANT
from ragstream_core.agents.context.evidence_end import ENOUGH
from ragstream_core.agents.context.passage_selection import framed_tokens
from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.ingestion.parsers.engines import untagged
from ragstream_core.prompts.explain import Way, named, ways
from ragstream_core.prompts.inputs import settings_at
from ragstream_core.prompts.trail import latest_view, pieces_of
from ragstream_core.prompts.verdicts import (
    COSINE,
    EVIDENCE,
    PLACES,
    SCORE,
    SHARE,
    TOKENS,
    Lack,
    Verdict,
    WhyNot,
)
from ragstream_core.records import Decision
from ragstream_core.wiring import ingestion, search
from ragstream_core.wiring.kept_prompt import KeptPrompt
from ragstream_core.wiring.query_vectors import recorded_queries
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import FileEntry
    from ragstream_core.ports import IndexView, TokenCounter
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.prompt_inputs import Pin, PromptInputs
    from ragstream_core.retrieval.list_ranks import ListRank
    from ragstream_core.settings import ChainSettings
    from ragstream_core.wiring.workspace import Workspace


OVER_BUDGET = "over_budget"
_DIGITS = 6


def missing(settings: ChainSettings, step: Decision, ways: Iterable[Way]) -> Lack | None:
    """Return what a candidate lacks at the stage where it ended, None where no number tells.

    Args:
        settings: As the gate saw them.
        step: Its last step.
        ways: All candidates.
    """
    rule, scores = step.rule, step.scores
    if rule in ("top_k", "keep"):
        same = (step.stage, step.pass_no)
        kept = [
            other.score
            for way in ways
            for other in way.steps
            if other.kept and (other.stage, other.pass_no) == same
        ]
        short = min(kept, default=0.0) - step.score
        return _lack(short, SCORE) if short >= 0 else None  # a later pass has another scale
    if rule == "min_score":
        least = settings.retrieval.min_score
        return _below(scores["cosine"], least, COSINE, "retrieval.min_score")
    if rule == "similarity_gate":
        return _below(step.score, settings.gate.theta, COSINE, "gate.theta")
    if rule == "relative_score" and "both" in scores:
        return _below(scores["both"], settings.gate.relative, SHARE, "gate.relative")
    if rule == EVIDENCE_ENDS and "before" in scores:
        return _lack(scores["before"] - ENOUGH, EVIDENCE, "retrieval.evidence=full")
    if rule == NOTHING_RELEVANT and "place" in scores:
        place = int(scores["place"])
        return Lack(place - settings.gate.keep_top, PLACES, f"gate.keep_top={place}")
    if rule in ("nli_gate", "llm_gate"):
        measure = "entailment" if rule == "nli_gate" else "relevance"
        return _below(step.score, settings.gate.nli_theta, measure, "gate.nli_theta")
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
    also: dict[str, list[str]] = {}
    for repeat, shown in prompt.extras.repeats.items():
        also.setdefault(shown, []).append(chunks[repeat].source)
    need = (framed_tokens(chunk, counter, also=also.get(chunk.id, ())) for chunk in left)
    return Lack(sum(need), TOKENS)


def _lack(distance: float, measure: str, setting: str = "") -> Lack:
    return Lack(round(float(distance), _DIGITS), measure, setting)


def _below(number: float, least: float, measure: str, key: str) -> Lack:
    """Return what a number lacks to a threshold, and the threshold of two digits it would pass."""
    return _lack(least - number, measure, f"{key}={math.floor(100 * number) / 100:g}")


INGESTION = "ingestion"


def absent_file(workspace: Workspace, inputs: PromptInputs, target: str) -> Verdict:
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
            return Verdict("", pin.project, path, False, INGESTION, rule, reason)
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
    refused = dict(status.skipped)
    if path in refused:
        return "refused", refused[path]
    if path in status.pending.paths:
        return "not_indexed", f"{when} and waits for `ragstream ingest {pin.project}`"
    return None


def _manifest(workspace: Workspace, project: str, n: int) -> dict[str, FileEntry]:
    from ragstream_core.index.look import manifest_of

    try:
        return manifest_of(workspace.index_dir(project), n)
    except RagstreamError:
        return {}


POOL, RETRIEVAL = "pool", "retrieval"


def why_not(workspace: Workspace, target: str, key: str) -> WhyNot:
    """Say why a chunk, or every chunk of a file, is not in a prompt.

    Args:
        workspace: The data root.
        target: A chunk id, a marker, a short id, ``path#index``, ``path`` or ``project/path``.
        key: The prompt's key or its first digits.

    Raises:
        UnknownPrompt: No prompt under that key.
        UsageError: The target names nothing, or several files.
        IntegrityError: The record or the index is damaged.
        RagstreamError: Neither the inputs nor the ledger are there.
    """
    case = _case(KeptPrompt.of(workspace, key))
    path, ids = _resolved(case, target)
    verdicts = [_verdict(case, project, i) for project, i in ids]
    if not verdicts:
        verdicts = [absent_file(workspace, case.kept.inputs, path)]
    pieces = pieces_of(case.prompt) if case.prompt is not None else []
    verdicts = _with_places(case, verdicts)
    return WhyNot(case.kept.key, target, case.note, pieces, verdicts)


@dataclass(frozen=True, slots=True)
class _Case:
    """A prompt made again, as far as that is possible."""

    kept: KeptPrompt
    ways: dict[str, Way]
    prompt: SuperPrompt | None = None
    views: Sequence[IndexView] = ()
    note: str = ""

    def known(self) -> Iterable[tuple[str, str, str]]:
        """Yield (project, path, chunk id) of all that could be searched: documents, turns."""
        past = self.kept.memory(RETRIEVAL).view if self.prompt is not None else None
        for view in [*self.views, *([past] if past is not None else [])]:
            for identifier, path in zip(view.chunk_ids, view.paths, strict=True):
                yield view.project, path, identifier


def _case(kept: KeptPrompt) -> _Case:
    try:
        return _Case(kept, _ways(kept.again.extras.decisions), kept.again, kept.views)
    except RagstreamError as error:
        note = f"nothing could be recomputed: {error.message}"
        return _Case(kept, _ways(kept.ledger), note=note)


def _ways(rows: Sequence[Decision]) -> dict[str, Way]:
    return {way.chunk_id: way for way in ways(rows)}


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


def _verdict(case: _Case, project: str, identifier: str) -> Verdict:
    path = _path(identifier)
    way = case.ways.get(identifier)
    if way is not None:
        step = way.last
        lack = None if step.kept else _missing(case, way)
        return Verdict(identifier, project, path, step.kept, step.stage, step.rule, way.ended, lack)
    stage, rule, reason = POOL, "", ""
    if f"{project}/{path}" in case.kept.inputs.receipts:
        stage, rule, reason = "a1_file_injector", "injected", f"{path} is in ❖ FILES"
    elif case.kept.inputs.lock:
        rule, reason = "lock", "Exact File Lock: only ❖ FILES, no retrieval"
    elif f"{project}/{path}" in case.kept.inputs.off:
        filters = case.prompt.extras.filters if case.prompt is not None else ()
        written = " ".join(found.written for found in filters)
        why = f"switched off, or left out by {written}" if written else "switched off"
        rule, reason = "off", f"{path} is {why}"
    else:
        stage, rule = RETRIEVAL, "not_listed"
        reason = "no list of retrieval reaches down to it"
    return Verdict(identifier, project, path, rule == "injected", stage, rule, reason)


def _missing(case: _Case, way: Way) -> Lack | None:
    """Return what a candidate lacks to go on, where one number decides."""
    gate = settings_at(case.kept.inputs, "a3_nli_gate")
    found = missing(gate, way.last, case.ways.values())
    if found is None and way.last.rule == OVER_BUDGET and case.prompt is not None:
        return tokens_short(
            case.prompt, way.chunk_id, counter_of(case.kept.workspace, case.kept.inputs)
        )
    return found


def _with_places(case: _Case, verdicts: list[Verdict]) -> list[Verdict]:
    """Add the places of the chunks that were searched for and are not in."""
    asked = {v.chunk_id for v in verdicts if not v.kept and v.stage == RETRIEVAL}
    places = _places(case, asked - {""})
    return [_placed(verdict, places.get(verdict.chunk_id, [])) for verdict in verdicts]


def _placed(verdict: Verdict, places: list[ListRank]) -> Verdict:
    verdict = replace(verdict, places=places)
    if verdict.rule != "not_listed":
        return verdict
    if not places and verdict.project == HISTORY:
        reason = "the turn is shown already, cleared, or outside of the filters of the history"
        return replace(verdict, rule="not_eligible", reason=reason)
    if not places:
        return verdict
    if any(place.listed for place in places):
        reason = "the vector store that proposes candidates did not name it"
        return replace(verdict, rule="not_proposed", reason=reason)
    first = min(places, key=lambda place: (place.rank == 0, place.rank))
    where = f"{first.signal} rank {first.rank} of {first.of:,}"
    reason = f"{where}; the list ends at {first.depth} with {first.last:.3f}"
    return replace(verdict, reason=reason, lack=Lack(first.distance, first.signal))


def _places(case: _Case, wanted: set[str]) -> dict[str, list[ListRank]]:
    from ragstream_core.retrieval.list_ranks import list_ranks

    prompt = case.prompt
    if prompt is None or not wanted:
        return {}
    pieces, inputs, workspace = pieces_of(prompt), case.kept.inputs, case.kept.workspace
    off = prompt.extras.pool.off
    alone = case.views[0].project if len(case.views) == 1 else ""
    closed = {f"{alone}/{path}" if alone else path for path in off}
    return list_ranks(
        search.retriever(
            workspace,
            settings_at(inputs, "retrieval"),
            embedder=recorded_queries(workspace, inputs),
            inputs=inputs,
        ),
        case.views,
        " ".join(pieces),
        pieces=pieces,
        wanted=wanted,
        off=closed,
        past=case.kept.memory(RETRIEVAL).past(),
    )
