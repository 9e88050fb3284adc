"""Edits by hand: what a person changed of what the chain had made, kept with the prompt.

An edit replaces one value at one place of the chain and holds for the value it was made of. A
target has at most one edit, and those of a place are made in the order of `PLACES` on the prompt as
the chain left it: in which order a person made them does not matter, and a value that is there
already is no edit. Hard Rules, Project Memory, the task and the file lock are no targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from ragstream_core.errors import IntegrityError, UsageError
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.chain import OPS, Observer, StageFactory, run_chain
from ragstream_core.prompts.classification import (
    DELIVERABLES,
    DOMAINS,
    INTENTS,
    MAX_DOMAIN,
    UNDETERMINED,
    free_keys,
    propose_headers,
)
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT, text_tokens
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex
from ragstream_core.records.json_form import Json
from ragstream_core.records.stage_results import Edit
from ragstream_core.records.trail_step import TrailStep
from ragstream_core.text.token_estimates import ScriptTokenCounter

# What A2 classifies, and the words it knows for it; a domain may be any other text as well.
SHAPE: Mapping[str, tuple[str, ...]] = {
    "intent": INTENTS,
    "domain": (*DOMAINS, UNDETERMINED),
    "deliverable": DELIVERABLES,
}
# The headers that say how to answer. What is searched for is changed in the Prompt itself.
HEADERS = ("system", "role", "audience", "tone", "depth", "format")
# Target → the op after which it is edited, in the order in which edits are listed.
PLACES: Mapping[str, str] = {
    **dict.fromkeys((*SHAPE, *HEADERS), "a1_file_injector"),  # the end of the shaper's button
    SUPER_PROMPT: OPS[-1],
}
# Counts if it is not said which counter the prompt has.
COUNTER = ScriptTokenCounter()


def value_of(prompt: SuperPrompt, target: str) -> str:
    """Return what a prompt has now for a target; a format may be A2's proposal."""
    if target == SUPER_PROMPT:
        return prompt.extras.super_prompt
    shape = prompt.extras.shape
    if target in SHAPE:
        return str(getattr(shape, target))
    return prompt.body.get(target, "") or shape.proposed.get(target, "")


def edits_from(rows: Json) -> tuple[Edit, ...]:
    """Rebuild the edits of a record from their JSON form."""
    try:
        found = tuple(Edit(**row) for row in rows)
        places = [(edit.target, edit.after) for edit in found]
        texts = all(isinstance(x, str) for edit in found for x in asdict(edit).values())
        if not texts or places != [place for place in PLACES.items() if place in places]:
            raise ValueError("not as they are listed")
    except (TypeError, ValueError):
        raise IntegrityError("the edits of a prompt have another form") from None
    return found


def edits_key(edits: Iterable[Edit]) -> list[list[str]]:
    """Return what a prompt's key covers of its edits: place, target and both digests."""
    return [[e.after, e.target, e.before, sha256_hex(e.value)] for e in edits]


def by_reader(edits: Iterable[Edit]) -> dict[str, bytes]:
    """Return the edits of stages before the last one, for running the next stage alone."""
    rows: dict[str, list[dict[str, str]]] = {}
    for edit in edits:
        if edit.after != OPS[-1]:
            rows.setdefault(OPS[OPS.index(edit.after) + 1], []).append(asdict(edit))
    return {op: canonical_json(made).encode("utf-8") for op, made in rows.items()}


def edited(
    prompt: SuperPrompt,
    values: Mapping[str, str],
    *,
    when: str = "",
    counter: TokenCounter = COUNTER,
) -> SuperPrompt:
    """Return a prompt as the chain left it with some values replaced, target → new value.

    Values that it has already are no edits. All targets are of the op that it passed last.
    """
    place = prompt.extras.trail[-1][0] if prompt.extras.trail else ""
    wrong = [name for name in values if PLACES.get(name) != place]
    if wrong:
        at = PLACES.get(wrong[0])
        raise UsageError(
            f"{wrong[0]} cannot be edited after {place or 'nothing'}",
            hint=f"it is edited after {at}" if at else f"one of: {', '.join(PLACES)}",
        )
    result, made = evolve(prompt), []
    for target in (target for target in PLACES if target in values):
        before, value = value_of(result, target), _checked(result, target, values[target])
        if value != before:
            made.append(Edit(place, target, sha256_hex(before), value, when))
            _put(result, target, value, counter)
    return _noted(result, made) if made else prompt


def apply_edits(
    prompt: SuperPrompt, edits: Sequence[Edit], *, counter: TokenCounter = COUNTER
) -> SuperPrompt:
    """Return a prompt with those edits made that belong after its last op and fit its values."""
    op = prompt.extras.trail[-1][0]
    result, made = evolve(prompt), []
    for edit in (edit for edit in edits if edit.after == op):
        if sha256_hex(value_of(result, edit.target)) == edit.before:
            made.append(edit)
            _put(result, edit.target, edit.value, counter)
    return _noted(result, made) if made else prompt


def run_edited(
    make: StageFactory,
    prompt: SuperPrompt,
    edits: Sequence[Edit],
    *,
    first: str = OPS[0],
    through: str = OPS[-1],
    observe: Observer | None = None,
    counter: TokenCounter = COUNTER,
) -> SuperPrompt:
    """Run the chain as `run_chain` does and make the edits where they were made."""
    places = [op for op in OPS if any(edit.after == op for edit in edits)]
    last = OPS.index(through) if through in OPS else -1
    for place in places:
        at = OPS.index(place)
        if first in OPS and OPS.index(first) <= at <= last:
            prompt = run_chain(make, prompt, first=first, through=place, observe=observe)
            prompt = apply_edits(prompt, edits, counter=counter)
            if at == last:
                return prompt
            first = OPS[at + 1]
    return run_chain(make, prompt, first=first, through=through, observe=observe)


def _checked(prompt: SuperPrompt, target: str, value: str) -> str:
    r"""Return a value as it is kept: lines end with ``\n``, and UTF-8 can hold it."""
    plain = value.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()
    before = value_of(prompt, target)
    if target == SUPER_PROMPT:
        if not plain.strip():
            raise UsageError("the Super-Prompt is empty", hint="Revert brings it back")
        return plain
    if plain == before:
        return plain
    plain = plain.strip()
    if target == "domain" and not (0 < len(plain) <= MAX_DOMAIN and "\n" not in plain):
        raise UsageError(
            f"a domain has 1 to {MAX_DOMAIN} characters on one line, not {len(plain)}",
            hint=f"for example: {', '.join(DOMAINS[:3])}",
        )
    if target in SHAPE and target != "domain" and plain not in (*SHAPE[target], before):
        raise UsageError(
            f"A2 knows no {target} {plain!r}", hint=f"one of: {', '.join(SHAPE[target])}"
        )
    if target in SHAPE and not before:
        raise UsageError(f"there is no {target} to change: A2 is switched off", hint="agents.a2")
    return plain


def _put(prompt: SuperPrompt, target: str, value: str, counter: TokenCounter) -> None:
    """Set a value in a copy that the caller owns.

    What A2 proposes follows a changed shape, and who chooses the intent is sure of the role that
    goes with it; a header counts as written by the person.
    """
    if target == SUPER_PROMPT:
        prompt.extras.super_prompt = value
        prompt.extras.token_tree = text_tokens(value, prompt.extras.fence.nonce, counter)
        return
    shape = prompt.extras.shape
    own = shape.proposed
    if target in SHAPE:
        changed: dict[str, Json] = {target: value}
        shape = replace(shape, **changed)
        proposed = propose_headers(shape, "")
        follow = {*own, *({"role"} & free_keys(prompt) if target == "intent" else ())}
        fresh = {key: text for key, text in proposed.items() if key in follow}
        prompt.body |= {key: text for key, text in fresh.items() if key != "format"}
        prompt.extras.shape = replace(shape, headers={**own, **fresh})
        return
    prompt.body[target] = value
    prompt.extras.explicit = tuple(sorted({*prompt.extras.explicit, target}))
    if shape.intent:
        left = {key: text for key, text in own.items() if key != target}
        prompt.extras.shape = replace(shape, headers=left)


def _noted(prompt: SuperPrompt, made: Sequence[Edit]) -> SuperPrompt:
    """Write down what was edited in a copy that the caller owns; the trail covers it."""
    *trail, (op, digest) = prompt.extras.trail
    prompt.extras.edits = (*prompt.extras.edits, *made)
    prompt.extras.trail = (*trail, TrailStep(op, digest_of([digest, edits_key(made)])))
    return prompt
