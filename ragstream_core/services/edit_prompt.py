"""Edits by hand on a prompt at hand: made, kept as a prompt of their own, and looked at."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ragstream_core.answers.answer import places_of
from ragstream_core.errors import InputUnavailable, UnknownPrompt
from ragstream_core.ingestion.secrets import phrase
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.edited_prompt import broken_lines, is_edited
from ragstream_core.prompts.edits import apply_edits, by_reader, edited, edits_from
from ragstream_core.prompts.inputs import inputs_of, settings_at
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.token_budget import counter_of

if TYPE_CHECKING:
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace


def edit(
    workspace: Workspace,
    prompt: SuperPrompt,
    values: Mapping[str, str],
    *,
    run_id: str = "",
    timings_ms: Mapping[str, float] | None = None,
) -> tuple[SuperPrompt, str]:
    """Edit a prompt as the chain left it; an edited Super-Prompt is kept as a prompt of its own.

    Args:
        workspace: The data root.
        prompt: After the op at which the targets are edited; it is not changed.
        values: Target → new value; those that are there already are no edits.
        run_id: The Dagster run that the prompt was made in.
        timings_ms: Op → milliseconds, of the prompt.

    Returns:
        The prompt, and its key: empty before the builder, and where nothing of it may be kept.

    Raises:
        UsageError: A target is none there, or a value cannot be it.
        InputUnavailable: Turns that it could read were cleared meanwhile.
        OSError: Disk full, permission denied.
    """
    when = dt.datetime.now().astimezone().isoformat(timespec="seconds")
    made = edited(prompt, values, when=when, counter=counter_of(workspace, prompt.extras.inputs))
    persist = workspace.config.settings.history.persist
    if made is prompt or not made.extras.super_prompt or not persist:
        return made, ""
    record = save_prompt(workspace, made, run_id=run_id, timings_ms=dict(timings_ms or {}))
    return made, record.prompt_key


def put_edits(workspace: Workspace, prompt: SuperPrompt) -> dict[str, str]:
    """Keep the edits that stages after them have read, for whoever runs those again.

    Args:
        workspace: The data root.
        prompt: At any stage.

    Returns:
        The op that reads the edited prompt → reference ``sha256:…`` for `with_edits`.

    Raises:
        OSError: Disk full, permission denied.
    """
    rows = by_reader(prompt.extras.edits)
    return {op: f"sha256:{workspace.store.put_blob(data)}" for op, data in rows.items()}


def with_edits(workspace: Workspace, prompt: SuperPrompt, reference: str) -> SuperPrompt:
    """Return what a stage reads with the edits of a reference; those in it already are not made.

    Args:
        workspace: The data root.
        prompt: As the stage before left it.
        reference: From `put_edits`; empty: none.

    Raises:
        InputUnavailable: They are not kept.
        IntegrityError: They are not what they were.
    """
    if not reference:
        return prompt
    try:
        data = workspace.store.blob(reference.removeprefix("sha256:"))
    except UnknownPrompt:
        raise InputUnavailable(f"the edits {reference[:19]} are not kept") from None
    return apply_edits(
        prompt, edits_from(json.loads(data)), counter=counter_of(workspace, prompt.extras.inputs)
    )


def doubts(prompt: SuperPrompt, *, quoted: Callable[[str], str] = str) -> list[str]:
    """Say what a person should know before a Super-Prompt is taken away; nothing is refused.

    Args:
        prompt: At any stage.
        quoted: Makes names of files harmless where the lines are shown.

    Returns:
        A line a matter: likely secrets and, where a person edited the text, broken structure and a
        text over the budget. Empty before the prompt builder.
    """
    text = prompt.extras.super_prompt
    secrets = places_of(text)
    said = [f"It seems to contain secrets: {quoted(phrase(secrets))}"] if secrets else []
    if not is_edited(prompt):
        return said
    total = prompt.extras.token_tree.total
    found = broken_lines(text, prompt.extras.fence.nonce)
    said += [f"The edit changed the structure, {where}" for where in found]
    budget = settings_at(inputs_of(prompt), OPS[-1]).prompt.budget_tokens
    if total > budget:
        said.append(f"{total:,} tokens are more than the budget of {budget:,}")
    return said
