"""What explain, diff, trace, why-not, verify-prompt and leave-one-out print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ragstream_app.output.tables import MAX_SHOWN, NAME_WIDTH, print_places, print_usage
from ragstream_app.output.words import KEY_DIGITS, REPLACEMENT, printable
from ragstream_app.session import note
from ragstream_core.ingestion.stats import reading_phrase, remarks
from ragstream_core.prompts.compare import Changes
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT
from ragstream_core.prompts.traced import TracedChunk, TracedConversation, TracedFile, TracedTurn
from ragstream_core.prompts.verdicts import EVIDENCE, PLACES, TOKENS
from ragstream_core.records import STAGES
from ragstream_core.records.identity import shown_name, with_names
from ragstream_core.records.s_ctx import ANSWERED, NOT_FOUND, PERHAPS
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_core.prompts.compare import OutputChanges
    from ragstream_core.prompts.explain import Way
    from ragstream_core.prompts.recorded import Asking
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.prompts.traced import Trace
    from ragstream_core.prompts.verdicts import Lack, WhyNot
    from ragstream_core.records import Decision
    from ragstream_core.retrieval.list_ranks import ListRank
    from ragstream_core.services.diff_prompts import PromptDiff
    from ragstream_core.services.explain import Ancestor, Explanation
    from ragstream_core.services.verify_prompt import ShownFiles
    from ragstream_core.services.what_if import Compared, LeaveOneOut
    from ragstream_core.wiring.kept_prompt import InjectedFile


LOCKED = "Exact File Lock is on: nothing is retrieved, the prompt holds ❖ FILES only"
_COLUMNS = ("dense", "lexical", "score", "rerank", "cosine")
LEGEND = (
    "dense and lexical: meaning and words, 0 to 1 within this prompt; score: both together; "
    "rerank: what the reranker says; cosine: to the nearest piece of the question; "
    "ranks: retrieval→reranked→a3→a4"
)


def print_explanation(found: Explanation, *, detailed: bool) -> None:
    """Print all that is known of a prompt; of one candidate every step.

    Args:
        found: Of the prompt.
        detailed: Print every step, and nothing of what all candidates share.
    """
    key = found.record.prompt_key
    _print_line(found.line)
    _print_edits(found.record)
    if not detailed:
        _print_asked(found.asked)
        _print_notes(found.record)
        _print_answers(found.answers)
    print_explained(key, found.candidates, locked=found.locked, detailed=detailed)
    if not detailed:
        _print_injected(found.files)
    for line in remarks(tuple(found.remarks.items())):
        typer.echo(printable(line))
    _print_locations(found, detailed=detailed)
    print_usage(found.usage)


def print_explained(
    key: str,
    ways: Sequence[Way],
    *,
    locked: bool,
    detailed: bool,
    most_out: int | None = None,
) -> None:
    """Print each candidate's way: a line with its scores and ranks, or every step of it.

    Args:
        key: Of the prompt.
        ways: Of the candidates.
        locked: Whether the prompt had the Exact File Lock.
        detailed: Print every step.
        most_out: So many lines of candidates that are not in it, the first; None: all.
    """
    if locked and not ways:
        typer.echo(f"prompt {key[:KEY_DIGITS]}: {LOCKED}")
        return
    if detailed:
        for way in ways:
            _print_steps(way)
        return
    typer.echo(f"prompt {key[:KEY_DIGITS]}: {_summed_up(ways)}")
    left_out = [way.chunk_id for way in ways if not way.kept]
    unshown = set(left_out[most_out:]) if most_out is not None else set()
    ways = [way for way in ways if way.chunk_id not in unshown]
    names = [printable(shown_name(way.chunk_id)) for way in ways]
    width = min(max(map(len, names), default=0), NAME_WIDTH)
    if ways:
        heads = "".join(f"{name:>8}" for name in _COLUMNS)
        typer.echo(f"     {'':<{width}}{heads}  ranks           ended at")
    for way, name in zip(ways, names, strict=True):
        last = way.last
        mark = "in " if way.kept else "out"
        numbers = "".join(_cell(value) for value in _scores(way.steps))
        ranked = [step for step in way.steps if step.pass_no == last.pass_no]
        ranks = "→".join(str(step.rank) for step in ranked[:4])
        end = f"{last.stage}  {last.rule}: {printable(way.ended)}"
        typer.echo(f"{mark}  {name:<{width}}{numbers}  {ranks:<14}  {end}")
    if unshown:
        note(f"and {len(unshown)} more that are not in it")
    if ways:
        note(LEGEND)
        note(f"next: ragstream explain {key[:KEY_DIGITS]} --chunk ID shows every step of one")


def _print_asked(asked: Sequence[Asking]) -> None:
    """Print every time that a prompt was asked for, and whether its record answered."""
    for asking in asked:
        how = "built anew" if asking.ran else "answered from the record"
        note(f"asked {asking.at[:19].replace('T', ' ')}  {how}")


def _print_answers(answers: Sequence[Decision]) -> None:
    """Print whether the passages answer each query piece, and what speaks for and against it."""
    for row in answers:
        part = row.chunk_id.replace("q", "Part ", 1)
        note(f"{part}: {_SAID.get(row.rule, row.rule)}; {printable(row.reason)}")


_SAID = {
    ANSWERED: "probably answered",
    PERHAPS: "possibly answered",
    NOT_FOUND: "probably not answered",
}


def _print_notes(record: PromptRecord) -> None:
    """Print what the stages reported and warned of; nothing for a record of an older version."""
    for row in record.notes:
        again = f" (pass {row['pass_no']})" if row["pass_no"] > 1 else ""
        warning = "warning: " if row["kind"] == "warning" else ""
        note(f"{row['stage']}{again}  {warning}{printable(row['message'])}")


def _summed_up(ways: Sequence[Way]) -> str:
    """Say how many candidates are in a prompt, and at which stages the others ended."""
    kept = sum(way.kept for way in ways)
    ends = Counter(way.last.stage for way in ways if not way.kept)
    told = ", ".join(f"{ends[stage]} ended at {stage}" for stage in STAGES if ends[stage])
    return f"{kept} of {len(ways)} candidates are in it" + (f"; {told}" if told else "")


def _print_injected(rows: Sequence[InjectedFile]) -> None:
    """Print the files, and the changes of files, that a prompt injected, by their citation ids."""
    for row in rows:
        name = printable(f"{row.project}/{row.path}")
        typer.echo(f"in   {row.short_id}  ❖ {row.kind} {name}  sha256 {row.sha256[:12]}")


def _print_locations(found: Explanation, *, detailed: bool) -> None:
    """Print where the files lie that are read in place: of what is in the prompt, or was asked."""
    shown = [way.chunk_id for way in found.candidates if way.kept or detailed]
    shown += [] if detailed else [row.id for row in found.files]
    print_places(found.locations[i] for i in shown if i in found.locations)


def _print_line(line: Sequence[Ancestor]) -> None:
    """Print which prompts a prompt goes on from, a line each; nothing where it began anew."""
    for ancestor in line:
        changes = [f"{name} = {printable(str(value))} from {op} on"
                   for op, name, value in ancestor.changes]  # fmt: skip
        gone = "" if ancestor.kept else ", which is not kept any more"
        said = ", ".join(changes) or "the same settings"
        typer.echo(f"goes on from {ancestor.prompt_key[:KEY_DIGITS]}{gone}: {said}")


def _print_edits(record: PromptRecord) -> None:
    """Print what a person changed by hand in a kept prompt; nothing if there is no edit."""
    for edit in record.edits:
        what = f"{edit.target}: {' '.join(printable(edit.value).split()) or 'nothing'}"
        if edit.target == SUPER_PROMPT:
            what = f"the Super-Prompt, as built under key {record.parent[:KEY_DIGITS]}"
        typer.echo(f"edited by hand {edit.when}  {what}")


def _scores(steps: Sequence[Decision]) -> list[float | None]:
    """Return the columns of a candidate's last pass; None where a stage gave no number."""
    last = {step.stage: step.scores for step in steps if step.pass_no == steps[-1].pass_no}
    found, closer = last.get("retrieval", {}), dict(sorted(last.get("reranked", {}).items()))
    reranked = next((number for name, number in closer.items() if name != "retrieval"), None)
    row = [found.get(name) for name in ("dense", "lexical", "score")]
    return [*row, reranked, found.get("best_cosine")]


def _cell(value: float | None) -> str:
    return f"{'–' if value is None else f'{value:.3f}':>8}"


def _print_steps(way: Way) -> None:
    typer.echo(f"{printable(way.chunk_id)}  ({'in' if way.kept else 'out'})")
    for step in way.steps:
        again = f" (pass {step.pass_no})" if step.pass_no > 1 else ""
        score = f"{step.score:.3f}" if step.score else "-"
        parts = ", ".join(f"{name} {value:.3f}" for name, value in sorted(step.scores.items()))
        why = f"{step.rule}: {printable(with_names(step.reason))}" + (
            f"  ({parts})" if parts else ""
        )
        typer.echo(f"  {step.stage + again:<10} rank {step.rank:>3}  {score:>6}  {why}")


PIECE_CHARS = 100
_STATES = {"current": "green", "changed": "yellow"}
_INDEXED = {
    "current": "holds this version of the file",
    "changed": "holds another version of the file",
    "no longer": "does not hold the file any more",
}


def print_diff(found: PromptDiff) -> None:
    """Print what differs in the output, then each input that differs with what it did."""
    output = found.output
    pair = f"{found.before[:KEY_DIGITS]} → {found.after[:KEY_DIGITS]}"
    typer.echo(f"{pair}: {'the same bytes' if output.identical else 'other bytes'}")
    _print_output(output)
    for cause in found.causes:
        typer.echo(f"input {cause.input}: caused {cause.effect}")
        _indented(cause.details)
    for project, changes in found.documents.items():
        typer.echo(f"documents of {project} between the generations")
        for kind, paths in changes._asdict().items():
            _indented([f"{path} {kind}" for path in paths])
    for line in found.environment:
        typer.echo(f"environment: {printable(line)}")


def _print_output(output: OutputChanges) -> None:
    items = {"fact": output.facts, "constraint": output.constraints,
             "open issue": output.open_issues, "file": output.files}  # fmt: skip
    for sign, side in (("+", 0), ("-", 1)):
        _indented([f"{sign} chunk {shown_name(i)}" for i in output.selection[:2][side]])
        for label, changes in items.items():
            _indented([f"{sign} {label}: {text}" for text in changes[side]])
    if output.selection.reordered:
        typer.echo("  the selected chunks stand in another order")
    if output.blocks:
        typer.echo(f"  blocks that differ: {', '.join(output.blocks)}")


def print_trace(found: Trace) -> None:
    """Print the way of a citation: chunk, file, generation, ingest run."""
    state = typer.style(found.now, fg=_STATES.get(found.now, "red"))
    issued = "" if found.issued else "  (a candidate; the prompt does not show it)"
    typer.echo(f"{found.short_id}  {printable(found.id)}{issued}")
    if isinstance(found, TracedConversation):
        session = printable(found.session_id) or "all conversations"
        typer.echo(f"  turns       {session}, records {'–'.join(map(str, found.seqs))}: {state}")
    elif isinstance(found, TracedTurn):
        session = printable(found.source if found.session_id is None else found.session_id)
        number = "–" if found.seq is None else found.seq
        typer.echo(f"  turn        {session}, record {number}: {state}")
    elif isinstance(found, TracedFile):
        _print_file(found, state)


def _print_file(found: TracedFile, state: str) -> None:
    chunk = found if isinstance(found, TracedChunk) else None
    if chunk and chunk.span:
        page = f", page {chunk.page}" if chunk.page else ""
        page += f", read by {chunk.read_by}" if chunk.read_by else ""
        heading = f", {printable(chunk.heading)}" if chunk.heading else ""
        span = f"characters {chunk.span[0]}–{chunk.span[1]}"
        typer.echo(f"  chunk       {chunk.chunk_idx}: {span}{page}{heading}")
    if chunk and chunk.remark:
        typer.echo(f"  read        {printable(reading_phrase(chunk.remark))}")
    path = f"{printable(found.project)}/{printable(found.path)}"
    state += f"; the same bytes are now {printable(found.moved_to)}" if found.moved_to else ""
    if found.kind == "diff":
        typer.echo(f"  changes     of {path} since its last commit: {state}")
    else:
        injected = ", injected" if found.kind == "file" else ""
        typer.echo(f"  file        {path}{injected}: {state}")
    if found.location:
        typer.echo(f"  in place    {printable(found.location)}")
    typer.echo(f"  sha256      {found.sha256}")
    if chunk:
        _print_generation(chunk)


def _print_generation(chunk: TracedChunk) -> None:
    made = chunk.generation
    kept = "" if made.kept else "; no longer kept as it was"
    typer.echo(f"  generation  {made.n} ({made.digest[:12]}){kept}")
    if made.since is not None:
        run = f", run {chunk.run_id}" if chunk.run_id else ""
        when = made.created or "before the oldest kept generation"
        typer.echo(f"  ingested    generation {made.since}, {when}{run}")
    typer.echo(f"  index now   {_INDEXED[chunk.indexed]}")


def print_why_not(found: WhyNot) -> None:
    """Print where each chunk ended, what it lacks, and its places in the lists of retrieval."""
    if found.note:
        note(f"warning: {printable(found.note)}")
    shown = found.verdicts[:MAX_SHOWN]
    for verdict in shown:
        name = shown_name(verdict.chunk_id) if verdict.chunk_id else verdict.path
        where = "is in the prompt" if verdict.kept else f"ended at {verdict.stage}"
        why = f"{verdict.rule}: {printable(verdict.reason)}"
        typer.echo(f"{printable(name)} {where}  {why}")
        if verdict.lack is not None:
            typer.echo(f"  {_lacking(verdict.lack, found.prompt_key)}")
        for place in verdict.places:
            typer.echo(f"  {_place(place)}")
    more = len(found.verdicts) - MAX_SHOWN
    if more > 0:
        note(f"{more:,} more chunks (--json lists all)")
    if any(verdict.places for verdict in shown):
        note("dense: cosine with the question; lexical: BM25, its words")
        pieces = found.pieces if len(found.pieces) > 1 else []
        for n, piece in enumerate(pieces, start=1):
            note(f"q{n}: {printable(' '.join(piece.split()))[:PIECE_CHARS]}")


def _lacking(lack: Lack, key: str) -> str:
    if lack.measure == TOKENS:
        return f"It lacks {lack.distance:,} tokens of budget, those left out before it included."
    if lack.measure == EVIDENCE:
        said = f"It comes {lack.distance:.2%} of the evidence too late."
    elif lack.measure == PLACES:
        said = f"It missed the limit by {counted(int(lack.distance), 'place')}."
    else:
        said = f"It missed the limit by {lack.distance:.2g} ({lack.measure})."
    if not lack.setting:
        return said
    stage = "a4" if lack.setting.startswith("retrieval.evidence") else "a3"
    stage = "retrieval" if lack.setting.startswith("retrieval.min_score") else stage
    return f"{said} To let it in: ragstream rerun {key[:KEY_DIGITS]} {stage} --set {lack.setting}"


def _place(place: ListRank) -> str:
    if not place.rank:
        return f"{place.signal:<12} no word of the question"
    at = f"{place.signal:<12} rank {place.rank:,} of {place.of:,}  {place.score:.3f}"
    depth = min(place.depth, place.of)
    if place.rank <= depth:
        return f"{at}  within the first {depth}"
    return f"{at}  rank {depth} has {place.last:.3f}, {place.distance:.6f} away"


def print_receipts(found: ShownFiles) -> None:
    """Print a line a file: how the prompt uses it and what has become of it."""
    for file in found.files:
        state = typer.style(f"{file.state:<10}", fg=_STATES.get(file.state, "red"))
        path = f"{file.project}/{file.path}" if file.project else file.path
        name = printable(path.replace("\n", REPLACEMENT))  # a name cannot forge another file's line
        typer.echo(f"{state}  {file.use:<8}  {file.sha256[:12]}  {name}")
    moved = sum(file.state != "current" for file in found.files)
    key = found.prompt_key[:KEY_DIGITS] or "a prompt that is not on record"
    note(f"{key}: {moved} of {len(found.files)} files changed since")


def print_leave_one_out(found: LeaveOneOut) -> None:
    """Print a table: what changes in the prompt when a file is off."""
    typer.echo(f"prompt {found.prompt_key[:KEY_DIGITS]}: {found.tokens:,} tokens")
    if found.note:
        note(found.note)
    if not found.files:
        typer.echo("no document is selected")
        return
    names = [printable(f"{row.project}/{row.path}") for row in found.files]
    width = max(len("without"), *map(len, names))
    heads = ("chunks", "come in", "facts -", "facts +", "open +", "tokens")
    typer.echo(f"{'without':<{width}}{''.join(f'{head:>9}' for head in heads)}")
    for row, name in zip(found.files, names, strict=True):
        output = row.effect.output
        if output is None:
            typer.echo(f"{name:<{width}}  {printable(row.effect.error)}")
            continue
        lost = len(output.facts.removed) + len(output.constraints.removed)
        won = len(output.facts.added) + len(output.constraints.added)
        come = len(output.selection.added)
        open_ = len(output.open_issues.added)
        counts = f"{row.chunks:>9}{come:>9}{lost:>9}{won:>9}{open_:>9}{row.effect.tokens:>+9,}"
        typer.echo(f"{name:<{width}}{counts}")


def print_compared(found: Compared) -> None:
    """Say on stderr what leaving files out changes."""
    names, output = printable(", ".join(found.without)), found.effect.output
    if output is None:
        note(f"the prompt with {names} cannot be made: {printable(found.effect.error)}")
        return
    if output.identical:
        note(f"without {names}: the same prompt")
        return
    told = []
    chunks = Changes(*output.selection[:2])
    lists = {"chunks": chunks, "facts": output.facts,
             "constraints": output.constraints, "open issues": output.open_issues}  # fmt: skip
    for label, changes in lists.items():
        sides = [("-", len(changes.removed)), ("+", len(changes.added))]
        numbers = " ".join(f"{sign}{n}" for sign, n in sides if n)
        told += [f"{label} {numbers}"] if numbers else []
    told.append(f"tokens {found.effect.tokens:+,}")
    note(f"without {names}: {', '.join(told)}")


def _indented(lines: Sequence[str]) -> None:
    for line in lines[:MAX_SHOWN]:
        typer.echo(f"  {printable(line)}")
    if len(lines) > MAX_SHOWN:
        typer.echo(f"  … {len(lines) - MAX_SHOWN:,} more (--json lists all)")
