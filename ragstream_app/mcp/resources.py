"""Kept Super-Prompts and passages as resources, and task profiles as prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from mcp_types import (
    GetPromptResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.prompts.fences import one_line

if TYPE_CHECKING:
    from ragstream_app.mcp.calls import Call
    from ragstream_app.mcp.desk import Desk

SCHEME, PROMPTS, PASSAGES = "ragstream", "prompts", "passages"
MARKDOWN = "text/markdown"

# Super-Prompts on one page of the list.
LISTED = 20
# Of so many one page is made; a page may be short while more follow.
LOOKED_AT = 1_000
TITLE_CHARS = 80

# The prompt without a task profile.
ANY_PROFILE = "answer"
TEMPLATES = [
    ResourceTemplate(
        name="super_prompt",
        title="A kept Super-Prompt",
        uri_template=f"{SCHEME}://{PROMPTS}/{{key}}",
        description="By its key or the first 6 digits of it, or more.",
        mime_type=MARKDOWN,
    ),
    ResourceTemplate(
        name="passage",
        title="A passage",
        uri_template=f"{SCHEME}://{PASSAGES}/{{project}}/{{citation}}",
        description="By the ID of its citation; framed, since it is untrusted text.",
        mime_type=MARKDOWN,
    ),
]


def list_resources(desk: Desk, cursor: str = "") -> tuple[list[Resource], str]:
    """Return a page of the kept Super-Prompts, the newest first, and where the next one begins.

    Args:
        desk: Those that quote other projects than it serves are left out.
        cursor: As returned with the page before; empty: the first page.

    Returns:
        The page, and the cursor of the next one; empty if there is none.

    Raises:
        UsageError: The cursor is of no page, or what it names has been cleared.
    """
    keys = desk.workspace.store.keys()[::-1]
    if cursor and cursor not in keys:
        raise UsageError(f"no page begins at {cursor[:80]!r}", hint="list from the beginning")
    later = keys[keys.index(cursor) + 1 :] if cursor else keys
    rows: list[Resource] = []
    last = ""
    for key in later[:LOOKED_AT]:
        last = key
        try:
            question = one_line(str(desk.kept(key).inputs["text"]))
        except RagstreamError:  # damaged, cleared just now, or of another project
            continue
        rows.append(
            Resource(
                name=key[:12],
                title=question[:TITLE_CHARS],
                uri=f"{SCHEME}://{PROMPTS}/{key}",
                mime_type=MARKDOWN,
            )
        )
        if len(rows) == LISTED:
            break
    return rows, last if later and last != later[-1] else ""


def read_resource(desk: Desk, uri: str) -> TextResourceContents:
    """Return a Super-Prompt or a passage.

    Raises:
        UsageError: There is nothing under that address.
        RagstreamError: It cannot be read.
    """
    names = [unquote(name) for name in uri.removeprefix(f"{SCHEME}://").split("/")]
    if uri.startswith(f"{SCHEME}://{PROMPTS}/") and len(names) == 2:
        text = _prompt(desk, names[1])
    elif uri.startswith(f"{SCHEME}://{PASSAGES}/") and len(names) == 3:
        text = _passage(desk, *names[1:])
    else:
        known = " or ".join(template.uri_template for template in TEMPLATES)
        raise UsageError(f"there is no resource {uri[:200]!r}", hint=f"read {known}")
    return TextResourceContents(uri=uri, mime_type=MARKDOWN, text=text)


def _prompt(desk: Desk, key: str) -> str:
    from ragstream_core.wiring.kept_prompt import KeptPrompt

    return KeptPrompt(desk.workspace, desk.kept(key)).text


def _passage(desk: Desk, project: str, citation: str) -> str:
    from ragstream_app.mcp.excerpts import READING_RULE, Quote, framed
    from ragstream_core.services.passages import open_passage

    found = open_passage(desk.workspace, citation, [desk.project(project)])
    chunks = [passage.chunk for passage in found]
    quotes = framed(Quote(c.id, c.source, c.span, c.snippet) for c in chunks)
    return "\n\n".join([*quotes, READING_RULE])


def list_prompts(desk: Desk) -> list[Prompt]:
    """Return one prompt a task profile, and one without."""
    arguments = [
        PromptArgument(name="question", description="What is to be answered.", required=True),
        PromptArgument(name="project", description="May be left out if there is only one."),
    ]
    profiles = sorted(desk.workspace.config.tasks.keys() - {ANY_PROFILE})
    return [
        Prompt(
            name=name,
            title="Answer from documents" + (f": {name}" if name != ANY_PROFILE else ""),
            description="A Super-Prompt of cited evidence, within a token budget"
            + (f", by the task profile {name}." if name != ANY_PROFILE else "."),
            arguments=arguments,
        )
        for name in (ANY_PROFILE, *profiles)
    ]


def get_prompt(desk: Desk, call: Call, name: str, arguments: dict[str, str]) -> GetPromptResult:
    """Return the Super-Prompt of a question by a task profile; it is kept like any other.

    Raises:
        UsageError: No such prompt, no question, one that is too long, or an argument that it does
            not take.
        RagstreamError: As `ragstream_app.mcp.prompting.build`.
    """
    from ragstream_app.mcp.prompting import build
    from ragstream_app.mcp.tools import MOST_CHARS

    known = [prompt.name for prompt in list_prompts(desk)]
    if name not in known:
        raise UsageError(f"there is no prompt {name[:80]!r}", hint=f"one of: {', '.join(known)}")
    unknown = sorted(arguments.keys() - {"question", "project"})
    if unknown or not arguments.get("question", "").strip():
        what = f"no argument {unknown[0][:80]!r}" if unknown else "no question"
        raise UsageError(what, hint="give `question`, and `project` if you want")
    if len(arguments["question"]) > MOST_CHARS:
        raise UsageError(
            f"a question of {len(arguments['question']):,} characters",
            hint=f"at most {MOST_CHARS:,}; long texts belong into the project, as files",
        )
    project = desk.project(arguments.get("project", ""))
    made = build(
        desk, call, arguments["question"], project, task="" if name == ANY_PROFILE else name
    )
    text = TextContent(type="text", text=made.super_prompt)
    return GetPromptResult(
        description=f"Super-Prompt {made.prompt_key[:12]}, {made.tokens} tokens",
        messages=[PromptMessage(role="user", content=text)],
    )
