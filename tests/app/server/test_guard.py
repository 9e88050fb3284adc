"""The guard before the web servers: foreign requests change nothing, our own go through.

The probe is sent to Dagster's web server with the guard and without it; without it the same
requests launch runs and report assets, so that a guard that lets them through is seen here.
"""

import asyncio
import contextlib
import http.client
import json
import threading
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.server.guard import Guard, own_hosts, refusal
from ragstream_assets.instance import WORKSPACE, dagster_home, instance_of
from ragstream_assets.schedules import retention_job
from tests.processes import (
    PATIENCE_S,
    free_port,
    opens_web_socket,
    until,
)

PORT = 3000
OWN = own_hosts(PORT)
LAUNCH = f"""mutation {{ launchRun(executionParams: {{
  selector: {{repositoryLocationName: "ragstream", repositoryName: "__repository__",
              jobName: "{retention_job.name}"}},
  runConfigData: {{}}, mode: "default"}}) {{ __typename }} }}"""
REPORT = "/report_asset_materialization/planted/asset"
EVIL = "http://evil.example"
JSON = {"Content-Type": "application/json"}
IMAGE = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
LINK = {
    "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
}  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """One request; `changes` says that it has an effect where no guard stands."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    changes: bool = False


def _probes(query: str) -> dict[str, Probe]:
    """Requests as other pages, rebound names and images of an answer can have a browser send."""
    by_get = f"/graphql?query={quote(query)}"
    body = json.dumps({"query": query})
    return {
        "image of an answer": Probe("GET", by_get, IMAGE, changes=True),
        "link to a query": Probe("GET", by_get, changes=True),
        "get, foreign Origin": Probe("GET", by_get, {"Origin": EVIL}, changes=True),
        "get, foreign Host": Probe("GET", by_get, {"Host": "evil.example"}, changes=True),
        "get, rebound name": Probe("GET", by_get, {"Host": "evil.example:{port}"}, changes=True),
        "head": Probe("HEAD", by_get),
        "head, foreign Origin": Probe("HEAD", by_get, {"Origin": EVIL}),
        "json, foreign Origin": Probe(
            "POST", "/graphql", {**JSON, "Origin": EVIL}, body, changes=True
        ),
        "json, Origin null": Probe(
            "POST", "/graphql", {**JSON, "Origin": "null"}, body, changes=True
        ),
        "json, foreign Host": Probe(
            "POST", "/graphql", {**JSON, "Host": "evil.example"}, body, changes=True
        ),
        "json, another port of this machine": Probe(
            "POST", "/graphql", {**JSON, "Origin": "http://127.0.0.1:1"}, body, changes=True
        ),
        "json, cross-site": Probe(
            "POST", "/graphql", {**JSON, "Sec-Fetch-Site": "cross-site"}, body, changes=True
        ),
        "text that calls itself json": Probe(
            "POST", "/graphql", {"Content-Type": "text/plain; application/json"}, body, changes=True
        ),
        "form in the address": Probe(
            "POST", by_get, {"Content-Type": "application/x-www-form-urlencoded"}, changes=True
        ),
        "graphql as text": Probe(
            "POST", "/graphql", {"Content-Type": "application/graphql"}, query, changes=True
        ),
        "upload": Probe(
            "POST", by_get, {"Content-Type": "multipart/form-data; boundary=x"}, changes=True
        ),
        "report": Probe("POST", REPORT, changes=True),
        "report, foreign Origin": Probe("POST", REPORT, {"Origin": EVIL}, changes=True),
        "report, as if it were ours": Probe(
            "POST", REPORT, {**JSON, "Origin": "http://{own}"}, "{}", changes=True
        ),
        "report of a check": Probe("POST", "/report_asset_check/planted/asset", JSON, "{}"),
        "report of an observation": Probe(
            "POST", "/report_asset_observation/planted/asset", changes=True
        ),
        "put": Probe("PUT", "/graphql", {}, body),
        "delete": Probe("DELETE", "/graphql", {}, ""),
        "link to a notebook": Probe("GET", "/notebook?path=a.ipynb&repoLocName=ragstream", LINK),
        "notebook of old": Probe("GET", "/dagit/notebook/?path=a.ipynb", LINK),
        "notebook by a program": Probe("GET", "/notebook?path=a.ipynb&repoLocName=ragstream"),
        "metrics": Probe("GET", "/_stcore/metrics"),
        "metrics by a link": Probe("GET", "/_stcore/metrics/", LINK),
        "page for programs": Probe("POST", "/_stcore/agent/mcp", JSON, "{}"),
        "options": Probe("OPTIONS", "/graphql", {"Origin": EVIL}),
    }


PROBES = _probes(LAUNCH)


@dataclass
class Running:
    """Dagster's web server on a port, with what it stores."""

    port: int
    instance: object

    def send(self, probe: Probe) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        own = f"127.0.0.1:{self.port}"
        given = {k: v.format(port=self.port, own=own) for k, v in probe.headers.items()}
        connection.putrequest(probe.method, probe.path, skip_host=True)
        for name, value in {"Host": own, **given, "Content-Length": str(len(probe.body))}.items():
            connection.putheader(name, value)
        connection.endheaders(probe.body.encode())
        with contextlib.closing(connection):
            answer = connection.getresponse()
            return answer.status, answer.read()

    def socket_opens(self, origin: str = "", host: str = "") -> bool:
        """Whether the server opens a WebSocket for a page of this Origin."""
        given = {"Host": host, "Origin": origin}
        headers = {name: text for name, text in given.items() if text}
        headers["Sec-WebSocket-Protocol"] = "graphql-ws"
        return opens_web_socket(self.port, "/graphql", headers)

    def state(self) -> tuple[int, int]:
        """Runs, and events of assets."""
        from dagster import AssetKey

        keys = self.instance.all_asset_keys()
        return self.instance.get_runs_count(), len(keys) + sum(
            len(self.instance.fetch_materializations(AssetKey(list(key.path)), limit=99).records)
            + len(self.instance.fetch_observations(AssetKey(list(key.path)), limit=99).records)
            for key in keys
        )


@contextlib.contextmanager
def _listening(app):
    import uvicorn

    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(app(port), host="127.0.0.1", port=port, log_level="error")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert until(lambda: server.started or not thread.is_alive()) and thread.is_alive()
    yield port
    server.should_exit = True
    thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """The same application guarded and not, over one instance and one code server."""
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_webserver.app import create_app_from_workspace_process_context

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "")
        root = tmp_path_factory.mktemp("guard") / "data"
        patch.setenv("RAGSTREAM_DATA_DIR", str(root))
        home = dagster_home(root)
        (home / "workspace.yaml").write_text(WORKSPACE)
        instance = instance_of(root)
        target = WorkspaceFileTarget([str(home / "workspace.yaml")])
        with contextlib.ExitStack() as stack:
            context = stack.enter_context(WorkspaceProcessContext(instance, target))
            app = create_app_from_workspace_process_context(context)
            guarded = stack.enter_context(_listening(lambda port: Guard(app, own_hosts(port))))
            open_ = stack.enter_context(_listening(lambda _: app))
            yield Running(guarded, instance), Running(open_, instance), context


@pytest.mark.parametrize("name", PROBES)
def test_a_foreign_request_changes_nothing(servers, name):
    guarded, open_, _ = servers
    before = guarded.state()
    status, _ = guarded.send(PROBES[name])
    assert status == 403
    assert guarded.state() == before, name
    if PROBES[name].changes:
        answer = open_.send(PROBES[name])
        assert open_.state() != before, f"without a guard it has an effect: {answer}"


def test_a_foreign_page_gets_no_web_socket(servers):
    guarded, open_, _ = servers
    own = f"http://127.0.0.1:{guarded.port}"
    assert guarded.socket_opens(own)
    assert guarded.socket_opens(f"http://localhost:{guarded.port}", f"localhost:{guarded.port}")
    rebound = f"evil.example:{guarded.port}"
    foreign = [
        (EVIL, ""),
        ("null", ""),
        ("", ""),
        ("http://127.0.0.1:1", ""),
        (own, "evil.example"),
    ]
    for origin, host in [*foreign, (f"http://{rebound}", rebound)]:
        assert not guarded.socket_opens(origin, host), (origin, host)
        assert open_.socket_opens(origin, host), (origin, host)


def test_our_own_requests_go_through(servers):
    guarded, _, _ = servers
    own = {"Origin": "http://{own}", "Sec-Fetch-Site": "same-origin"}
    asked = json.dumps({"query": "{ version }"})
    for headers in (JSON, {**JSON, **own}):
        status, answer = guarded.send(Probe("POST", "/graphql", headers, asked))
        assert status == 200 and b"version" in answer
    link = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    for dest, status in (("document", 200), ("iframe", 403)):
        assert guarded.send(Probe("GET", "/runs", {**link, "Sec-Fetch-Dest": dest}))[0] == status
    before = guarded.state()
    status, answer = guarded.send(
        Probe("POST", "/graphql", {**JSON, **own}, json.dumps({"query": LAUNCH}))
    )
    assert b"LaunchRunSuccess" in answer and guarded.state() != before


def test_no_other_site_may_frame_the_pages(servers):
    guarded, _, _ = servers
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", guarded.port)) as connection:
        connection.request("GET", "/")
        assert connection.getresponse().headers.get_all("X-Frame-Options") == ["SAMEORIGIN"]


# --- the rules themselves, without a server ---

some = st.sampled_from
hosts = some([*sorted(OWN), "evil.example", "127.0.0.1", "127.0.0.1:80", "evil.example:3000", ""])
origins = some([*(f"http://{h}" for h in sorted(OWN)), "http://evil.example", "null", "", None])
sites = some([None, "same-origin", "none", "same-site", "cross-site", "new-word"])
PATHS = ["/", "/graphql", "/graphql/", "/runs", "/report_asset_check/a", "/server_info",
         "/notebook", "/dagit/notebook/", "/_stcore/metrics", "/_stcore/health"]  # fmt: skip
types = some([None, "application/json", "Application/JSON; charset=utf-8", "text/plain",
              "text/plain; application/json", "multipart/form-data; boundary=x"])  # fmt: skip
scopes = st.builds(
    lambda **given: given,
    kind=some(["http", "http", "websocket"]),
    method=some(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]),
    path=some(PATHS),
    query=some([b"", b"query=mutation"]),
    host=st.lists(hosts, max_size=2),
    origin=origins,
    site=sites,
    mode=some([None, "navigate", "cors", "no-cors"]),
    dest=some([None, "document", "image", "iframe"]),
    content=types,
)


def _scope(given):
    named = {"origin": given["origin"], "sec-fetch-site": given["site"],
             "sec-fetch-mode": given["mode"], "sec-fetch-dest": given["dest"],
             "content-type": given["content"]}  # fmt: skip
    headers = [(b"host", host.encode()) for host in given["host"]]
    headers += [(k.encode(), v.encode()) for k, v in named.items() if v is not None]
    return {"type": given["kind"], "method": given["method"], "path": given["path"],
            "query_string": given["query"], "headers": headers}  # fmt: skip


@given(scopes)
def test_what_is_let_through_is_ours_or_harmless(given):
    if refusal(_scope(given), OWN):
        return
    (host,) = given["host"]
    assert host in OWN
    own = given["origin"] == f"http://{host}"
    assert own or given["origin"] is None
    refused = ("/report_", "/notebook", "/dagit", "/_stcore/metrics")
    assert not given["path"].startswith(refused) or given["kind"] == "websocket"
    if given["kind"] == "websocket":
        assert own
    elif given["method"] in ("GET", "HEAD"):
        assert not (given["query"] and given["path"].startswith("/graphql"))
        assert given["site"] in (None, "same-origin", "none") or given["dest"] == "document"
    else:
        assert given["site"] in (None, "same-origin", "none")
        assert own or given["content"].lower().startswith("application/json")


@given(scopes, st.data())
def test_more_headers_never_open_the_door(given, data):
    scope = _scope(given)
    if not refusal(scope, OWN):
        return
    again = data.draw(st.sampled_from([b"host", b"origin", b"content-type", b"sec-fetch-dest"]))
    value = data.draw(st.sampled_from([b"127.0.0.1:3000", b"http://127.0.0.1:3000", b"image"]))
    if any(name == again for name, _ in scope["headers"]):
        scope["headers"].append((again, value))
        assert refusal(scope, OWN)


@given(scopes)
def test_what_is_refused_never_reaches_the_application(given):
    reached, sent = [], []

    async def app(scope, receive, send):
        reached.append(scope)

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = _scope(given)
    asyncio.run(Guard(app, OWN)(scope, receive, send))
    assert bool(reached) == (not refusal(scope, OWN))
    if not reached:
        first = {"http": "http.response.start", "websocket": "websocket.close"}[scope["type"]]
        assert sent[0]["type"] == first and sent[0].get("status", 403) == 403
