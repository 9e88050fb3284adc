"""Compose the Super-Prompt of a `SuperPrompt`: which blocks, in which order, with which mark.

A5 measures what this returns and the prompt builder writes it, so both see the same bytes. Reads
``body``, ``recentConversation``, ``base_context_chunks``, ``final_selection_ids`` and, of
``extras``: ``headers``, ``files``, ``diffs``, ``pool``, ``s_ctx``, ``cuts``, ``windows``,
``repeats``, ``short_ids``, ``nothing_relevant``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstream_core.prompts import render
from ragstream_core.prompts.citations import shown_name
from ragstream_core.prompts.fences import Source, frame, make_nonce, normalise, safe_name
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.s_ctx import IN_CONVERSATION, IssuedCitation
from ragstream_core.records.stage_results import InjectedFile, Span, UnknownHeader
from ragstream_core.text import contexts

HISTORY_PREFIX = "history::"
SNIPPET_CHARS = 200
LEFT_OUT = "[…]"

# The ids under which a prompt shows its newest turns, and their rolling digest.
RECENT, MEMORY_DIGEST = "recent", "digest"
Texts = list[tuple[Source, str]]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the rendering needs beside the prompt itself."""

    hard_rules: str = ""  # text of ``hard_rules.md``; stands verbatim and first
    project_memory: str = ""  # text of ``project_memory.md``
    # ``authority`` (seed 000) or ``classic`` (seed 001: the task before S_CTX)
    block_order: Literal["authority", "classic"] = "authority"
    recent_history: bool = True  # whether the RECENT HISTORY block is shown if there is one
    user_template: str = ""  # text around the task, with ``{task}``; empty: the task alone


@dataclass(frozen=True, slots=True)
class Composed:
    """A finished prompt."""

    nonce: str  # its mark
    blocks: tuple[render.Block, ...]  # its sections in order

    @property
    def text(self) -> str:
        """Return the Super-Prompt."""
        return render.join(self.blocks) + "\n"

    @property
    def owners(self) -> list[str]:
        """Return the owner of each line of `text`."""
        result: list[str] = []
        for block in self.blocks:
            result += [owner for owner, _ in block.lines]
            result.append(block.name)  # the empty line behind each block, or the last line end
        return result

    def part(self, *names: str) -> str:
        """Return the sections of these names as one text."""
        return render.join(block for block in self.blocks if block.name in names)


def is_locked(prompt: SuperPrompt) -> bool:
    """Return whether Exact File Lock is on: only ❖ FILES are injected."""
    return prompt.extras.pool.lock


def injected(prompt: SuperPrompt) -> list[InjectedFile]:
    """Return the rows of A1 that ❖ FILES shows: whole files, then changes of files."""
    return [*prompt.extras.files, *prompt.extras.diffs]


def file_texts(prompt: SuperPrompt) -> Texts:
    """Return what ❖ FILES shows: one entry an injected file, then one a `git diff`."""
    short = prompt.extras.short_ids
    return [
        (
            Source(
                short.get(file.id, sha256_hex(file.id)[:8]),
                file.path,
                (0, file.chars),
                file.sha256,
                file.mode,
            ),
            file.text,
        )
        for file in injected(prompt)
    ]


def repeated_texts(prompt: SuperPrompt) -> dict[str, Texts]:
    """Return for each selected passage those that are not shown since it says all that they say.

    One that is cut may not say it any more: it stands for none.
    """
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    short = prompt.extras.short_ids
    found: dict[str, Texts] = {i: [] for i in prompt.final_selection_ids}
    partial = {*prompt.extras.cuts, *prompt.extras.windows}
    for chunk_id, shown in prompt.extras.repeats.items():
        if shown in found and chunk_id in chunks and shown not in partial:
            chunk, name = chunks[chunk_id], short.get(chunk_id, sha256_hex(chunk_id)[:8])
            sha256 = str(chunk.meta.get("sha256", ""))
            source = Source(name, chunk.source, chunk.span, sha256)
            found[shown].append((source, chunk.snippet))
    return found


def shown_parts(prompt: SuperPrompt, chunk: Chunk) -> tuple[Span, ...]:
    """Return which parts of a selected passage a prompt shows; empty: all of it."""
    extras = prompt.extras
    if chunk.id in extras.cuts:
        return ((0, extras.cuts[chunk.id]),)
    return extras.windows.get(chunk.id, ())


def shown_text(prompt: SuperPrompt, chunk: Chunk) -> str:
    """Return what a prompt shows of a selected passage; what is cut at the budget has no mark."""
    cut = prompt.extras.cuts.get(chunk.id)
    if cut is not None:
        return chunk.snippet[:cut]
    return shown_of(chunk.snippet, prompt.extras.windows.get(chunk.id, ()))


def shown_of(text: str, parts: Sequence[Span]) -> str:
    """Return the shown parts of a text, with a mark for each one that is left out."""
    if not parts:
        return text
    said = f"\n{LEFT_OUT}\n".join(text[start:end] for start, end in parts)
    before = f"{LEFT_OUT}\n" if text[: parts[0][0]].strip() else ""
    behind = f"\n{LEFT_OUT}" if text[parts[-1][1] :].strip() else ""
    return f"{before}{said}{behind}"


def selected_texts(prompt: SuperPrompt, *, history: bool) -> Texts:
    """Return the selected excerpts in rank order, of documents or of the history.

    An excerpt in ``extras.cuts`` or ``extras.windows`` is shown in part; its span says which.
    """
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    short = prompt.extras.short_ids
    same = repeated_texts(prompt)
    result: Texts = []
    for chunk_id in prompt.final_selection_ids:
        if chunk_id.startswith(HISTORY_PREFIX) is not history or chunk_id not in chunks:
            continue
        chunk = chunks[chunk_id]
        parts = shown_parts(prompt, chunk)
        start = chunk.span[0]
        source = Source(
            short.get(chunk_id, sha256_hex(chunk_id)[:8]),
            chunk.source,
            (start + parts[0][0], start + parts[-1][1]) if parts else chunk.span,
            str(chunk.meta.get("sha256", "")),
            "CUT" if parts else "",
            tuple((other.id, other.name) for other, _ in same[chunk_id]),
            contexts.shown(chunk.context),
        )
        result.append((source, shown_text(prompt, chunk)))
    return result


def citations_of(prompt: SuperPrompt) -> dict[str, IssuedCitation]:
    """Return what this prompt issues: short id → chunk or file, source, snippet, page."""
    short = prompt.extras.short_ids
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    shown, issued = list(prompt.final_selection_ids), {}
    same = repeated_texts(prompt)
    shown += [i for i, twin in prompt.extras.repeats.items() if same.get(twin)]
    for chunk in (chunks[i] for i in shown):
        page = int(chunk.meta.get("page_number") or 0)
        snippet = chunk.snippet[:SNIPPET_CHARS]
        issued[short[chunk.id]] = IssuedCitation(chunk.id, chunk.source, snippet, page)
    for file in injected(prompt):
        snippet = file.text[:SNIPPET_CHARS]
        issued[short[file.id]] = IssuedCitation(file.id, file.path, snippet, page_number=0)
    return issued


def history_texts(prompt: SuperPrompt) -> Texts:
    """Return the recent conversation, its digest, and the selected excerpts of older turns."""
    body = str(prompt.recentConversation.get("body", ""))
    recent = (
        [(Source(RECENT, "conversation", (0, len(body)), sha256_hex(body)), body)]
        if body.strip()
        else []
    )
    digest = str(prompt.recentConversation.get("digest", ""))
    brief = [(digest_source(digest), digest)] if digest.strip() else []
    return [*recent, *brief, *selected_texts(prompt, history=True)]


def digest_source(digest: str) -> Source:
    """Return under which name the rolling digest of the conversation is shown."""
    return Source(MEMORY_DIGEST, "conversation-digest", (0, len(digest)), sha256_hex(digest))


def digest_tokens(digest: str, count: Callable[[str], int]) -> int:
    """Return the tokens of a digest with its frame, 0 for none."""
    if not digest.strip():
        return 0
    return count("\n".join(frame(1, "0" * 12, source=digest_source(digest), text=digest)))


def _headers(prompt: SuperPrompt, prompt_md: str) -> list[UnknownHeader]:
    found = prompt.extras.headers
    return [h for h in found if h.text.strip() and h.text.strip() not in prompt_md]


def _nonce(prompt: SuperPrompt, layout: Layout, framed: Texts) -> str:
    foreign = [text for _, text in framed] + [safe_name(source.name) for source, _ in framed]
    for items in prompt.extras.s_ctx.parts:
        foreign += [f"{item.heading} {item.text}" for item in items]
        cited = [passage.source for item in items for passage in item.citations]
        foreign += [safe_name(name) for name in cited]
        last = [(safe_name(name), shown_name(name)) for name in cited]
        foreign += [name for path, name in last if name not in path]  # the path was cut before it
    foreign += [shown_name(path) for source, _ in framed for _, path in source.also]
    foreign += [source.context for source, _ in framed if source.context]
    own = [layout.hard_rules, layout.project_memory, layout.user_template]
    own += prompt.body.values()
    own += [f"{header.name}\n{header.text}" for header in prompt.extras.headers]
    return make_nonce([*(normalise(text).text for text in foreign), *own])


def _framers(prompt: SuperPrompt, layout: Layout) -> list[tuple[str, Texts, str]]:
    """Return (section, texts, note) of the framed sections that are shown."""
    files = (render.FILES, file_texts(prompt), "")
    if is_locked(prompt):
        return [files]
    past = history_texts(prompt) if layout.recent_history else []
    note = "For orientation only; it outranks nothing in this prompt."
    return [
        files,
        (render.ATTACHMENTS, selected_texts(prompt, history=False), ""),
        (render.RECENT_HISTORY, past, note),
    ]


def compose(prompt: SuperPrompt, layout: Layout) -> Composed:
    """Build the Super-Prompt in authority order.

    Hard Rules → Project Memory → (role) → ❖ FILES → S_CTX → attachments → RECENT HISTORY → Task.
    Where conversations alone answer, RECENT HISTORY stands before the attachments.
    With ``block_order="classic"`` the task stands before S_CTX. Locked: ❖ FILES and the task only.
    """
    framed = _framers(prompt, layout)
    nonce = _nonce(prompt, layout, [pair for _, texts, _ in framed for pair in texts])
    prompt_md = render.render_prompt_md(prompt.body)
    cite = any(texts for _, texts, _ in framed)
    rules = (layout.hard_rules, layout.project_memory)
    blocks = render.system_blocks(_voice(prompt), rules, nonce=nonce, cite=cite)
    asked = render.wrapped(layout.user_template, prompt_md, prompt.body)
    task = render.task_block(asked, _headers(prompt, prompt_md), nonce=nonce)
    sections: dict[str, Callable[[], render.Block]] = {render.TASK: lambda: task}
    if not is_locked(prompt):
        sections[render.S_CTX] = lambda: _s_ctx(prompt, nonce)
    by_name = {name: (texts, note) for name, texts, note in framed if texts}
    first = 1
    for name in _order(prompt, layout):
        if name in by_name:
            texts, note = by_name[name]
            blocks.append(render.framed_block(name, texts, nonce=nonce, first=first, note=note))
            first += len(texts)
        elif name in sections:
            blocks.append(sections[name]())
    return Composed(nonce, tuple(blocks))


def _voice(prompt: SuperPrompt) -> dict[str, str]:
    proposed = prompt.extras.shape.proposed.get("format", "")
    return {**prompt.body, "form": "" if prompt.body.get("format") else proposed}


def _s_ctx(prompt: SuperPrompt, nonce: str) -> render.Block:
    warning = ""
    if prompt.extras.nothing_relevant:
        shown = selected_texts(prompt, history=False)
        warning = render.NEAREST_ONLY if shown else render.NOTHING_ATTACHED
        if any(answer.word == IN_CONVERSATION for answer in prompt.extras.answers):
            warning = render.SAID_BEFORE
    return render.s_ctx_block(prompt.extras.s_ctx, nonce=nonce, warning=warning)


def _order(prompt: SuperPrompt, layout: Layout) -> list[str]:
    shown = [render.ATTACHMENTS, render.RECENT_HISTORY]
    if {answer.word for answer in prompt.extras.answers} == {IN_CONVERSATION}:
        shown.reverse()  # what answers stands before what is merely nearest
    context = [render.S_CTX, *shown]
    if layout.block_order == "classic":
        return [render.FILES, render.TASK, *context]
    return [render.FILES, *context, render.TASK]
