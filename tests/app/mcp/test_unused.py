"""With MCP unused nothing of it is imported, and its own start loads no engine."""

import pytest

OWN = ("mcp", "mcp_types", "ragstream_app.mcp", "starlette", "uvicorn")
ENGINES = ("numpy", "onnxruntime", "torch", "chromadb", "dagster", "pyarrow", "streamlit")


def modules(spawn, code):
    """Return the names of all modules that a process has loaded after some code."""
    done = spawn(code=f"{code}\nimport sys; print('MODULES', *sys.modules)")
    return done.stdout.partition("MODULES ")[2].split()


@pytest.mark.parametrize(
    "code",
    [
        "import ragstream_app.cli.main",
        "import ragstream_core.library",
        "import ragstream_app.page.prompt_session, ragstream_core.services.ingest",
        "from ragstream_app.cli.main import main; main(['status'])",
        "from ragstream_app.cli.main import main; main(['mcp', '--help'])",
        "from ragstream_app.cli.main import main; main(['mcp', 'install', 'cursor'])",
    ],
)
def test_nothing_else_imports_it(environment, spawn, code):
    loaded = modules(spawn, code)
    allowed = {"ragstream_app.mcp", "ragstream_app.mcp.clients", "ragstream_app.mcp.desk"}
    found = {name for name in loaded if name in OWN or name.startswith(tuple(f"{o}." for o in OWN))}
    assert found <= (allowed if "install" in code else set())


def test_a_server_over_http_imports_the_sdk_with_the_first_request(environment, spawn):
    code = "import ragstream_app.api.server, ragstream_app.mcp.http"
    assert "mcp" not in modules(spawn, code)


def test_its_own_start_loads_no_engine(environment, spawn):
    code = (
        "from ragstream_app.mcp.stdio import make_server\n"
        "from ragstream_app.mcp.desk import Desk\n"
        "from ragstream_core.wiring.workspace import open_workspace\n"
        "make_server(Desk(open_workspace()))"
    )
    loaded = modules(spawn, code)
    assert "mcp" in loaded
    assert not set(ENGINES) & set(loaded)
