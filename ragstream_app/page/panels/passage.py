"""The passage behind a citation, with the words taken from it marked, and its page of a PDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from ragstream_app.output.markup import literal, passage_html
from ragstream_app.output.words import moment
from ragstream_app.page.panels.shared import run_link, shown_errors, workspace
from ragstream_app.session import describe
from ragstream_core.ingestion.stats import reading_phrase
from ragstream_core.prompts.traced import TracedChunk, TracedConversation, TracedFile
from ragstream_core.records.identity import parse_chunk_id
from ragstream_core.services.passages import has_pages, page_picture

if TYPE_CHECKING:
    from ragstream_core.answers.citations import Citation, Issued
    from ragstream_core.prompts.traced import Trace


class PageOf(NamedTuple):
    """A page of one version of a document.

    Attributes:
        project: Its project.
        path: Relative to the project.
        sha256: Of the bytes that were indexed.
        page: Its number, from 1; 0 where the document has none.
    """

    project: str
    path: str
    sha256: str
    page: int


def offer(place: PageOf, *, key: str) -> None:
    """Draw the button that opens a page; nothing where a document has none to show.

    Args:
        place: The page.
        key: Of the button.
    """
    if place.page < 1 or not has_pages(place.path):
        return
    about = f"Shows the page as it is printed in {literal(place.path)}."
    if st.button(f"Open page {place.page}", key=key, help=about):
        st.dialog(f"{literal(place.path)} · page {place.page}", width="medium")(_picture)(place)


def at_home(path: str, sha256: str, *, page: int) -> PageOf | None:
    """Return a page of the project that holds these bytes now; None where none does.

    Args:
        path: Relative to the project.
        sha256: Of the bytes that were indexed.
        page: Its number, from 1.
    """
    from ragstream_core.wiring.file_states import CURRENT, state_now

    space = workspace()
    holders = (n for n in space.projects() if state_now(space, n, path, sha256) == CURRENT)
    home = next(holders, None)
    return PageOf(home, path, sha256, page) if home else None


def _picture(place: PageOf) -> None:
    with shown_errors():
        picture = page_picture(
            workspace(), place.project, place.path, sha256=place.sha256, page=place.page
        )
        st.image(picture, width="stretch", alt=f"page {place.page}")


MAX_ISSUED_CHARS = 20_000
HEIGHT = 460

# Lines from which a passage scrolls.
TALL = 30


def show(
    cited: Citation,
    issued: Issued,
    key: str,
    *,
    words: Sequence[str] = (),
    keys: str = "citation",
) -> None:
    """Show the words behind a citation, marked, and what has become of their file since.

    Args:
        cited: One that the prompt issued.
        issued: What the prompt showed under its id.
        key: The prompt's key; empty where it is not kept.
        words: What was said to stand there; it is marked if it does.
        keys: What the keys of its widgets begin with; another one for each place of the page.
    """
    from ragstream_core.answers.citations import spans_of
    from ragstream_core.services import passages, trace

    run_id, page, lines = "", _unkept(cited), list[passages.Line]()
    facts = ["The prompt is not kept: these are the words that it showed."]
    if key:
        try:
            found = trace.trace(workspace(), cited.id, key)
            lines = passages.passage(workspace(), found)
            run_id = found.run_id if isinstance(found, TracedChunk) else ""
            facts, page = facts_of(found), _page(found)
        except Exception as error:  # the page's error boundary; the prompt's words are still here
            facts = [describe(error).message, "These are the words that the prompt showed."]
    st.text(f"[{cited.id}] " + "\n".join(facts))
    opens, leads = st.columns(2, gap="small")
    with opens:
        if page is not None:
            offer(page, key=f"{keys} page")
    with leads:
        run_link(run_id, key=f"{keys} run")
    shown = issued.text[:MAX_ISSUED_CHARS].split("\n")
    lines = lines or [passages.Line(0, line, cited=True) for line in shown]
    text = "\n".join(line.text for line in lines if line.cited)
    with st.container(height=HEIGHT if len(lines) >= TALL else "content", border=False):
        st.html(passage_html(lines, spans_of(text, words)))


_SINCE = {
    "current": "file unchanged since",
    "changed": "the file has changed and is indexed anew",
    "no longer": "the file is no longer in the index",
}


def facts_of(found: Trace) -> list[str]:
    """Return what a trace says, as lines for people."""
    if isinstance(found, TracedConversation):
        first, last = found.seqs
        return [f"the conversation, records {first}–{last}: {found.now}"]
    if not isinstance(found, TracedFile):
        return [f"a turn of the conversation, {found.source}: {found.now}"]
    moved = f", its bytes are now {found.moved_to}" if found.moved_to else ""
    state = f"{found.now}{moved} · sha256 {found.sha256[:12]}"
    lines = [f"{found.project}/{found.path}: {state}"]
    lines += [f"in place: {found.location}"] if found.location else []
    if not isinstance(found, TracedChunk):
        return lines
    if found.span is not None:
        page = f" · page {found.page}" if found.page else ""
        heading = f" · {found.heading}" if found.heading else ""
        lines.append(f"characters {found.span[0]:,}–{found.span[1]:,}{page}{heading}")
    if found.remark:
        lines.append(reading_phrase(found.remark))
    made = found.generation
    when = f"indexed {moment(made.created)}" if made.created else "indexed"
    kept = "" if made.kept else ", no longer kept"
    since = _SINCE.get(found.indexed, found.indexed)
    lines.append(f"{when} (index version {made.since or made.n}{kept}); {since}")
    return lines


def _page(found: Trace) -> PageOf | None:
    """Return the page that a traced chunk lies in; None where it is none of a document."""
    if not isinstance(found, TracedChunk):
        return None
    return PageOf(found.project, found.path, found.sha256, found.page or 0)


def _unkept(citation: Citation) -> PageOf | None:
    """Return the page of a citation whose prompt nothing is kept of."""
    if not citation.page_number:
        return None
    path, sha256, _ = parse_chunk_id(citation.locator)
    return at_home(path, sha256, page=citation.page_number)
