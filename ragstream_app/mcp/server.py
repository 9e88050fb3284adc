"""The MCP server: what it offers, and what is done for each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)

from ragstream_app.mcp import resources
from ragstream_app.mcp.calls import Call, Worker, error_text
from ragstream_app.mcp.excerpts import READING_RULE
from ragstream_app.mcp.tools import (
    BuildPrompt,
    Explain,
    ListProjects,
    OpenPassage,
    Search,
    ToolCall,
)
from ragstream_app.mcp.writing import Ingest, Remember
from ragstream_core import __version__
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import ServerRequestContext

    from ragstream_app.mcp.desk import Desk

T = TypeVar("T")
INSTRUCTIONS = (
    "RAGstream answers from a person's own documents. Look for passages with `search` and open "
    "one whole with `open_passage`; for a whole answer call `build_prompt` and answer from what it "
    f"returns. Cite passages as results show it: [source: FILE, chunk: ID]. {READING_RULE}"
)
READING: tuple[type[ToolCall], ...] = (Search, BuildPrompt, OpenPassage, Explain, ListProjects)
_SETTINGS = {Remember.name: "mcp.allow_remember", Ingest.name: "mcp.allow_ingest"}


def tools_of(desk: Desk) -> dict[str, type[ToolCall]]:
    """Return the tools that the settings allow, by name."""
    allowed = desk.workspace.config.settings.mcp
    tools = list(READING)
    if allowed.allow_remember:
        tools.append(Remember)
    if allowed.allow_ingest:
        tools.append(Ingest)
    return {tool.name: tool for tool in tools}


class Handlers:
    """What is done for the requests of clients, each in a thread.

    Args:
        desk: What all clients share.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk, self._tools, self._worker = desk, tools_of(desk), Worker()

    async def list_tools(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Return the tools."""
        return ListToolsResult(tools=[tool.described() for tool in self._tools.values()])

    async def call_tool(
        self, ctx: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult:
        """Return what a tool found, or why it did not.

        Raises:
            MCPError: There is no such tool.
        """
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, self._no_tool(params.name))
        call = Call(ctx.session)
        try:
            asked = tool.model_validate(params.arguments or {})
            result = await self._worker.run(lambda: asked.run(self._desk, call))
        except Exception as error:
            return CallToolResult(content=[_text(error_text(error))], is_error=True)
        return CallToolResult(
            content=[_text(text) for text in result.texts()],
            structured_content=result.model_dump(mode="json"),
        )

    def _no_tool(self, name: str) -> str:
        setting = _SETTINGS.get(name)
        if setting:
            return f"{name} is switched off; the user can set {setting}: true in ragstream.yaml"
        return f"there is no tool {name[:80]!r}; there are: {', '.join(self._tools)}"

    async def list_templates(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return how resources are addressed."""
        return ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def list_resources(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return a page of the kept Super-Prompts, the newest first."""
        cursor = (params.cursor if params else None) or ""
        found, following = await self._asked(lambda: resources.list_resources(self._desk, cursor))
        return ListResourcesResult(resources=found, next_cursor=following or None)

    async def read_resource(
        self, ctx: ServerRequestContext, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """Return a Super-Prompt or a passage."""
        found = await self._asked(lambda: resources.read_resource(self._desk, params.uri))
        return ReadResourceResult(contents=[found])

    async def list_prompts(
        self, ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """Return the task profiles."""
        return ListPromptsResult(prompts=resources.list_prompts(self._desk))

    async def get_prompt(
        self, ctx: ServerRequestContext, params: GetPromptRequestParams
    ) -> GetPromptResult:
        """Return the Super-Prompt of a question by a task profile."""
        call, given = Call(ctx.session), dict(params.arguments or {})
        return await self._asked(lambda: resources.get_prompt(self._desk, call, params.name, given))

    async def _asked(self, work: Callable[[], T]) -> T:
        """Run work whose errors are those of the protocol.

        Raises:
            MCPError: It failed.
        """
        try:
            return await self._worker.run(work)
        except Exception as error:
            wrong = isinstance(error, UsageError)
            code = INVALID_PARAMS if wrong else INTERNAL_ERROR
            raise MCPError(code, error_text(error)) from None


def make_server(desk: Desk) -> Server:
    """Return a server over a workspace; nothing is opened or loaded before a call needs it.

    Args:
        desk: What all its clients share.
    """
    handlers = Handlers(desk)
    return Server(
        "ragstream",
        version=__version__,
        title="RAGstream",
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)
