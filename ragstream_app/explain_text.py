"""How a prompt is explained on a terminal: its candidates' ways, where it comes from, its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ragstream_app.rendering import KEY_DIGITS, NAME_WIDTH, print_usage, printable
from ragstream_app.session import note
from ragstream_core.prompting.reparse import SUPER_PROMPT
from ragstream_core.records import STAGES
from ragstream_core.records.identity import shown_name

if TYPE_CHECKING:
    from ragstream_core.build.explaining.explanation import Explanation
    from ragstream_core.build.explaining.lines import Ancestor
    from ragstream_core.orchestration.again import Asking
    from ragstream_core.orchestration.prompt_store import PromptRecord

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
    print_explained(key, found.candidates, locked=found.locked, detailed=detailed)
    if not detailed:
        _print_injected(found.files)
    print_usage(found.usage)


def print_explained(
    key: str,
    ways: Sequence[Mapping[str, Any]],
    *,
    locked: bool,
    detailed: bool,
    most_out: int | None = None,
) -> None:
    """Print each candidate's way: a line with its scores and ranks, or every step of it.

    Args:
        key: Of the prompt.
        ways: From `ways`.
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
    left_out = [way["chunk_id"] for way in ways if not way["kept"]]
    unshown = set(left_out[most_out:]) if most_out is not None else set()
    ways = [way for way in ways if way["chunk_id"] not in unshown]
    names = [printable(shown_name(way["chunk_id"])) for way in ways]
    width = min(max(map(len, names), default=0), NAME_WIDTH)
    if ways:
        heads = "".join(f"{name:>8}" for name in _COLUMNS)
        typer.echo(f"     {'':<{width}}{heads}  ranks           ended at")
    for way, name in zip(ways, names, strict=True):
        last = way["steps"][-1]
        mark = "in " if way["kept"] else "out"
        numbers = "".join(_cell(value) for value in _scores(way["steps"]))
        ranked = [step for step in way["steps"] if step["pass"] == last["pass"]]
        ranks = "→".join(str(step["rank"]) for step in ranked[:4])
        end = f"{last['stage']}  {last['rule']}: {printable(last['reason'])}"
        typer.echo(f"{mark}  {name:<{width}}{numbers}  {ranks:<14}  {end}")
    if unshown:
        note(f"and {len(unshown)} more that are not in it")
    if ways:
        note(LEGEND)
        note(f"next: ragstream explain {key[:KEY_DIGITS]} --chunk ID shows every step of one")


def _print_asked(asked: Sequence[Asking]) -> None:
    """Print every time that a prompt was asked for, and whether its record answered."""
    for asking in asked:
        how = "the chain ran" if asking.ran else "answered from the record"
        note(f"asked {asking.at[:19].replace('T', ' ')}  {how}")


def _print_notes(record: PromptRecord) -> None:
    """Print what the stages reported and warned of; nothing for a record of an older version."""
    for row in record.notes:
        again = f" (pass {row['pass_no']})" if row["pass_no"] > 1 else ""
        warning = "warning: " if row["kind"] == "warning" else ""
        note(f"{row['stage']}{again}  {warning}{printable(row['message'])}")


def _summed_up(ways: Sequence[Mapping[str, Any]]) -> str:
    """Say how many candidates are in a prompt, and at which stages the others ended."""
    kept = sum(bool(way["kept"]) for way in ways)
    ends = Counter(way["steps"][-1]["stage"] for way in ways if not way["kept"])
    told = ", ".join(f"{ends[stage]} ended at {stage}" for stage in STAGES if ends[stage])
    return f"{kept} of {len(ways)} candidates are in it" + (f"; {told}" if told else "")


def _print_injected(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the files, and the changes of files, that a prompt injected, by their citation ids."""
    for row in rows:
        name = printable(f"{row['project']}/{row['path']}")
        typer.echo(f"in   {row['short_id']}  ❖ {row['kind']} {name}  sha256 {row['sha256'][:12]}")


def _print_line(line: Sequence[Ancestor]) -> None:
    """Print which prompts a prompt goes on from, a line each; nothing where it began anew."""
    for ancestor in line:
        changes = [f"{name} = {printable(str(value))} from {op} on"
                   for op, name, value in ancestor.changes]  # fmt: skip
        gone = "" if ancestor.kept else ", which is not kept any more"
        said = ", ".join(changes) or "the same settings"
        typer.echo(f"goes on from {ancestor.prompt_key[:KEY_DIGITS]}{gone}: {said}")


def _print_edits(record: PromptRecord) -> None:
    """Print what a person changed by hand in a kept prompt; nothing where nobody did."""
    for edit in record.edits:
        what = f"{edit.target}: {' '.join(printable(edit.value).split()) or 'nothing'}"
        if edit.target == SUPER_PROMPT:
            what = f"the Super-Prompt, as built under key {record.parent[:KEY_DIGITS]}"
        typer.echo(f"edited by hand {edit.when}  {what}")


def _scores(steps: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Return the columns of a candidate's last pass; None where a stage gave no number."""
    last = {step["stage"]: step for step in steps if step["pass"] == steps[-1]["pass"]}
    found = last.get("retrieval", {}).get("scores", {})
    closer = last.get("reranked", {}).get("scores", {})
    reranked = next((number for name, number in closer.items() if name != "retrieval"), None)
    row = [found.get(name) for name in ("dense", "lexical", "score")]
    return [*row, reranked, found.get("best_cosine")]


def _cell(value: float | None) -> str:
    return f"{'–' if value is None else f'{value:.3f}':>8}"


def _print_steps(way: Mapping[str, Any]) -> None:
    typer.echo(f"{printable(way['chunk_id'])}  ({'in' if way['kept'] else 'out'})")
    for step in way["steps"]:
        again = f" (pass {step['pass']})" if step["pass"] > 1 else ""
        score = f"{step['score']:.3f}" if step["score"] else "-"
        parts = ", ".join(f"{name} {value:.3f}" for name, value in step["scores"].items())
        why = f"{step['rule']}: {printable(step['reason'])}" + (f"  ({parts})" if parts else "")
        typer.echo(f"  {step['stage'] + again:<10} rank {step['rank']:>3}  {score:>6}  {why}")
