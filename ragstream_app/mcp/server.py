"""The MCP server: which tools there are, and what happens when one is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from ragstream_app.mcp.calls import Call, Worker, error_text
from ragstream_app.mcp.quotes import READING_RULE
from ragstream_app.mcp.tools import (
    BuildPrompt,
    Explain,
    ListProjects,
    OpenPassage,
    Search,
    ToolCall,
)

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from ragstream_app.mcp.desk import Desk

INSTRUCTIONS = (
    "RAGstream answers from a person's own documents. Look for passages with `search` and open "
    "one whole with `open_passage`; for a whole answer call `build_prompt` and answer from what it "
    f"returns. Cite passages as results show it: [source: FILE, chunk: ID]. {READING_RULE}"
)
READING: tuple[type[ToolCall], ...] = (Search, BuildPrompt, OpenPassage, Explain, ListProjects)


def tools_of(desk: Desk) -> dict[str, type[ToolCall]]:
    """Return the tools that the settings allow, by name."""
    return {tool.name: tool for tool in READING}


def make_server(desk: Desk) -> Server:
    """Return a server over a workspace; nothing is opened or loaded before a call needs it.

    Args:
        desk: What all its clients share.
    """
    from ragstream_core import __version__

    tools, worker = tools_of(desk), Worker()

    async def list_tools(
        ctx: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[tool.described() for tool in tools.values()])

    async def call_tool(ctx: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            known = ", ".join(tools)
            raise MCPError(INVALID_PARAMS, f"no tool {params.name[:80]!r}; there are: {known}")
        call = Call(ctx.session)
        try:
            asked = tool.model_validate(params.arguments or {})
            result = await worker.run(lambda: asked.run(desk, call))
        except Exception as error:
            return CallToolResult(
                content=[TextContent(type="text", text=error_text(error))], is_error=True
            )
        return CallToolResult(
            content=[TextContent(type="text", text=text) for text in result.texts()],
            structured_content=result.model_dump(mode="json"),
        )

    return Server(
        "ragstream",
        version=__version__,
        title="RAGstream",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
