"""What two prompts have in common and what not: what came out, and what they were made from."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.prompts.edited_prompt import sections_of
from ragstream_core.prompts.frames import mark_of
from ragstream_core.prompts.inputs import inputs_of
from ragstream_core.records import SuperPrompt
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.settings import ChainSettings

if TYPE_CHECKING:
    pass

# The inputs of a prompt by the names that people give them; every field is in one group.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "generation": ("pins",),
    "files": ("named", "names", "receipts"),
    "off": ("off",),
    "lock": ("lock",),
    "settings": ("settings", "changes"),
    "texts": ("texts",),
    "time": ("now", "time_zone"),
    "models": ("models",),
    "query vectors": ("query_vectors",),
    "history": ("history",),
    "code": ("code",),
}
ITEMS = {"F": "facts", "C": "constraints", "O": "open_issues"}
_ITEM = re.compile(r"\| ([FCO])\d+\. (.+)")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Output:
    """What came out of the chain."""

    text: str  # the Super-Prompt
    selection: tuple[str, ...] = ()  # ids of the selected chunks, best first
    # ``project/path`` of every injected file → sha256
    receipts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, prompt: SuperPrompt) -> Output:
        """Return the output of a prompt at any stage; before the builder its text is empty."""
        text = prompt.extras.super_prompt
        return cls(text, tuple(prompt.final_selection_ids), inputs_of(prompt).receipts)


class Changes(NamedTuple):
    """What one list has that another one has not, and the other way round."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class SelectionChanges(NamedTuple):
    """`Changes` of the selected chunks, and whether those of both stand in another order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    reordered: bool


@dataclass(frozen=True, slots=True)
class OutputChanges:
    """What one output has that another one has not."""

    identical: bool  # whether text and selection are the same
    selection: SelectionChanges  # ids of the selected chunks
    facts: Changes  # of S_CTX, without their numbers
    constraints: Changes
    open_issues: Changes
    files: Changes  # ``project/path`` and the first digits of the sha256 of each injected file
    blocks: tuple[str, ...]  # names of the sections whose text differs


def blocks_of(text: str) -> dict[str, str]:
    """Return the sections of a Super-Prompt by name, without their mark, in order."""
    nonce = mark_of(text)
    if not nonce:
        return {"": text} if text else {}
    found: dict[str, str] = {}
    for section in sections_of(text, nonce):
        body = section.text.partition("\n")[2].replace(nonce, "")
        found[section.name] = found.get(section.name, "") + body
    return {name: body.strip("\n") for name, body in found.items()}


def items_of(text: str) -> dict[str, list[str]]:
    """Return facts, constraints and open issues of a Super-Prompt, without their numbers."""
    found: dict[str, list[str]] = {name: [] for name in ITEMS.values()}
    for line in blocks_of(text).get("S_CTX", "").split("\n"):
        match = _ITEM.fullmatch(line)
        if match:
            found[ITEMS[match[1]]].append(match[2])
    return found


def compare_outputs(before: Output, after: Output) -> OutputChanges:
    """Return what one output has that another has not."""
    old, new = items_of(before.text), items_of(after.text)
    was, now = blocks_of(before.text), blocks_of(after.text)
    both = set(before.selection) & set(after.selection)
    order = [[i for i in output.selection if i in both] for output in (before, after)]
    files = [
        [f"{path} {sha256[:12]}" for path, sha256 in sorted(output.receipts.items())]
        for output in (before, after)
    ]
    return OutputChanges(
        identical=before.text == after.text and before.selection == after.selection,
        selection=SelectionChanges(
            *_changes(before.selection, after.selection), reordered=order[0] != order[1]
        ),
        files=_changes(*files),
        blocks=tuple(n for n in dict.fromkeys([*was, *now]) if was.get(n) != now.get(n)),
        **{name: _changes(old[name], new[name]) for name in ITEMS.values()},
    )


def _changes(before: Sequence[str], after: Sequence[str]) -> Changes:
    return Changes(
        tuple(x for x in after if x not in before), tuple(x for x in before if x not in after)
    )


def differing(before: PromptInputs, after: PromptInputs) -> dict[str, list[str]]:
    """Return the groups of inputs that differ, each with what differs, for people."""
    old, new = before.to_json(), after.to_json()
    for side in (old, new):
        side["settings"] = ChainSettings.completed(side["settings"])
    found = {
        group: [line for name in fields for line in _details(name, old[name], new[name])]
        for group, fields in GROUPS.items()
    }
    return {group: details for group, details in found.items() if details}


def swapped(inputs: PromptInputs, other: PromptInputs, group: str) -> PromptInputs:
    """Return inputs with one group taken from other ones.

    Vectors of questions are joined: each is named by its text, so none can stand for another.
    """
    if group == "query vectors":
        return replace(inputs, query_vectors={**inputs.query_vectors, **other.query_vectors})
    changed: dict[str, Any] = {name: getattr(other, name) for name in GROUPS[group]}
    if group == "files":  # the files of both can be read
        changed["receipts"] = {**inputs.receipts, **other.receipts}
    if group == "text":
        joined = {**inputs.query_vectors, **other.query_vectors}
        return replace(inputs, **changed, query_vectors=joined)
    return replace(inputs, **changed)


def _details(name: str, before: Any, after: Any) -> Iterable[str]:
    if before == after:
        return
    if name == "pins":
        yield from _pins(before, after)
    elif name == "texts":
        for key in sorted({*before, *after}):
            yield from _lines(key, before.get(key, ""), after.get(key, ""))
    elif isinstance(before, Mapping):
        for key in sorted({*before, *after}):
            yield from _details(f"{name}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) or isinstance(after, (list, tuple)):
        for sign, rows in (("without", before), ("with", after)):
            other = after if rows is before else before
            for row in rows or ():
                if row not in (other or ()):
                    yield f"{name} {sign} {_short(row)}"
    else:
        yield f"{name.removeprefix('settings.')}: {_short(before)} → {_short(after)}"


def _pins(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    old, new = ({pin["project"]: pin for pin in pins} for pins in (before, after))
    for project in sorted({*old, *new}):
        was, now = old.get(project), new.get(project)
        if was is None or now is None:
            yield f"{project} is {'added' if was is None else 'left out'}"
        elif was["generation"] != now["generation"]:
            yield f"{project}: generation {was['generation']} → {now['generation']}"
        elif was != now:
            yield f"{project}: generation {now['generation']} was rebuilt"


def _lines(name: str, before: str, after: str) -> Iterable[str]:
    if before == after:
        return
    changes = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    gone, new = (sum(line.startswith(sign) for line in changes) for sign in ("- ", "+ "))
    yield f"{name}: {gone} lines out, {new} lines in"


def _short(value: object) -> str:
    text = " ".join(str(value).split()) if value is not None else "none"
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return text[:12]
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
