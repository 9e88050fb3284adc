"""The page's door: on this machine alone, or behind a password, and never for a foreign page."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import stat
import subprocess
import sys
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_app.server import access
from ragstream_app.server.access import page_access
from ragstream_app.server.processes import HOST, answers
from ragstream_core.config import AppConfig
from ragstream_core.errors import Refused, UnknownSetting
from tests.processes import PATIENCE_S, free_port, opens_web_socket, until
from tests.workspaces import ROOT

SECRET = "four plain words here"
EVIL = "http://evil.example"


def load(**page) -> AppConfig:
    return AppConfig.load(explicit={f"page.{key}": value for key, value in page.items()})


# --- which doors there are ---


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_this_machine_needs_no_password(data, address):
    door = page_access(load(address=address, port=8999))
    assert door.password is None and door.url == f"http://{address}:8999"
    assert door.hosts == {"127.0.0.1:8999", "localhost:8999", f"{address}:8999"}


@pytest.mark.parametrize("page", [{"address": "0.0.0.0"}, {"address": "192.168.1.5"},
                                  {"hosts": ["notes.example:8503"]}])  # fmt: skip
def test_the_network_needs_a_setting_a_password_and_a_name(data, page):
    data.mkdir(exist_ok=True)
    with pytest.raises(Refused, match="would open the page") as first:
        page_access(load(**page))
    assert "page.allow_remote" in first.value.hint and "ragstream password" in first.value.hint
    page = {**page, "allow_remote": True}
    if page.get("address") == "0.0.0.0":
        with pytest.raises(Refused, match="every address"):
            page_access(load(**page))
        page["hosts"] = ["Notes.example:8503"]
    with pytest.raises(Refused, match="has no password"):
        page_access(load(**page))
    path = access.password_file(AppConfig.load())
    access.write_password(path, access.make_password(SECRET))
    door = page_access(load(**page))
    assert door.password is not None and door.password.matches(SECRET)
    assert all(host == host.lower() for host in door.hosts)
    path.chmod(0o640)
    with pytest.raises(Refused, match="others can read") as open_:
        page_access(load(**page))
    assert "chmod 600" in open_.value.hint


def test_the_command_that_closes_the_password_to_others_can_be_pasted(tmp_path):
    path = tmp_path / "my data"
    path.write_text("scrypt 00 00\n")
    path.chmod(0o640)
    with pytest.raises(Refused, match="others can read") as open_:
        access.read_password(path)
    assert open_.value.hint == f"chmod 600 '{path}'; ragstream password"


@pytest.mark.parametrize("address", ["", "::", "notes.example", "999.1.1.1", "unix:///tmp/x"])
def test_what_is_no_address_is_said_to_be_none(data, address):
    with pytest.raises(UnknownSetting, match="not an IPv4 address"):
        page_access(load(address=address, allow_remote=True))


def test_up_refuses_before_it_starts_anything(data, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PAGE__ADDRESS", "0.0.0.0")
    code, out, err = run("up", "--port", str(free_port()))
    assert (code, out) == (3, "") and "page.allow_remote" in err
    assert not (data / "logs").exists()


# --- passwords ---


@settings(max_examples=8, deadline=None)
@given(st.text(min_size=12, max_size=40), st.text(max_size=40))
def test_a_password_matches_itself_alone(text, other):
    kept = access.make_password(text)
    assert kept.matches(text)
    assert kept.matches(other) == (other == text)
    assert access.make_password(text).digest != kept.digest, "each has a salt of its own"


@pytest.mark.parametrize("content", ["", "scrypt", "scrypt zz zz", "md5 00 00", "a b c d", "é"])
def test_a_damaged_password_file_opens_nothing(tmp_path, content):
    path = tmp_path / "page-password"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(Refused, match="has been altered"):
        access.read_password(path)


def test_the_command_keeps_a_hash_for_its_owner_alone(data):
    command = [sys.executable, "-m", "ragstream_app.cli.main", "password"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    def give(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, input=text, text=True, capture_output=True, env=env, check=False
        )

    assert give("short\n").returncode == 3
    path = access.password_file(AppConfig.load())
    assert not path.exists()
    done = give(f"{SECRET}\n")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET not in path.read_text() + done.stdout + done.stderr
    assert access.read_password(path).matches(SECRET)


# --- the login alone ---


async def inside(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the page"})


async def visit(login, method="GET", path="/", body: bytes | None = b"", **headers):
    """Return status and headers of an answer; without a body the visitor never sends it."""
    rows = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": rows}
    sent: list = []

    async def receive():
        if body is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await login(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


def test_who_sends_half_a_form_keeps_nobody_out():
    login = access.Login(inside, access.make_password(SECRET))
    form = urlencode({"password": SECRET}).encode()

    async def both():
        slow = asyncio.create_task(visit(login, "POST", "/login", None))
        await asyncio.sleep(0)
        status, _ = await asyncio.wait_for(visit(login, "POST", "/login", form), PATIENCE_S)
        slow.cancel()
        return status

    assert asyncio.run(both()) == 303


@pytest.mark.parametrize("others", ['state={"open":true}; {}', "theme=a b; {}", "flag; {}",
                                    "a[b]=1; {}", 'a="half; {}', "{}; x=é"])  # fmt: skip
def test_cookies_of_other_servers_of_this_host_log_nobody_out(others):
    login = access.Login(inside, access.make_password(SECRET))
    form = urlencode({"password": SECRET}).encode()
    status, headers = asyncio.run(visit(login, "POST", "/login", form))
    own = headers[b"set-cookie"].decode().partition(";")[0]
    assert status == 303
    assert asyncio.run(visit(login, cookie=others.replace("{}", own)))[0] == 200
    assert asyncio.run(visit(login, cookie=others.replace("{}", own[:-1])))[0] == 401


# --- the page itself, as a process ---


@contextlib.contextmanager
def page_server(**settings_):
    port = free_port()
    given_ = {f"RAGSTREAM_PAGE__{key.upper()}": str(value) for key, value in settings_.items()}
    env = {**os.environ, "PYTHONPATH": str(ROOT), "RAGSTREAM_PAGE__PORT": str(port), **given_}
    process = subprocess.Popen(
        [sys.executable, "-m", "ragstream_app.server.page"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        health = f"http://{HOST}:{port}/_stcore/health"
        assert until(lambda: answers(health) or process.poll() is not None, 120)
        assert process.poll() is None, process.stdout.read()
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def ask(port, method="GET", path="/", headers=None, body=""):
    with contextlib.closing(
        http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    ) as connection:
        connection.request(
            method, path, body or None, {"Host": f"{HOST}:{port}", **(headers or {})}
        )
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode("utf-8", "replace")


def opens(port, **headers) -> bool:
    """Whether the page opens its WebSocket for a browser that sends these headers."""
    return opens_web_socket(port, "/_stcore/stream", headers)


def test_foreign_pages_reach_nothing_of_the_page(data):
    with page_server() as port:
        own = f"http://{HOST}:{port}"
        assert ask(port)[0] == 200 and opens(port, Origin=own)
        assert ask(port)[1].get_all("X-Frame-Options") == ["SAMEORIGIN"]
        for origin in (EVIL, "null", "http://localhost:1", f"http://{HOST}", f"{own}.evil.example"):
            assert not opens(port, Origin=origin), origin
        assert not opens(port, Host=f"evil.example:{port}", Origin=f"http://evil.example:{port}")
        status, _, told = ask(port, path="/_stcore/host-config")
        assert (status, json.loads(told)["allowedOrigins"]) == (200, [])
        assert ask(port, path="/_stcore/metrics")[0] == 403
        assert ask(port, path="/_stcore/agent/openapi.json")[0] == 403
        assert not opens(port), "a browser always names its Origin"
        for headers in (
            {"Host": "evil.example"},
            {"Origin": EVIL},
            {"Sec-Fetch-Site": "same-site"},
        ):
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
                path = "/_stcore/upload_file/any/any"
                assert ask(port, method, path, headers)[0] == 403, (method, headers)
        form = {"Content-Type": "multipart/form-data; boundary=x"}
        assert ask(port, "PUT", "/_stcore/upload_file/any/any", form)[0] == 403
        status, _, _ = ask(port, "PUT", "/_stcore/upload_file/any/any", {**form, "Origin": own})
        assert status == 403, "Streamlit's own token is asked for behind the guard"


def test_a_stranger_sees_a_form_and_nothing_else(data):
    data.mkdir(exist_ok=True)
    path = access.password_file(AppConfig.load())
    access.write_password(path, access.make_password(SECRET))
    with page_server(allow_remote="true", hosts="notes.example") as port:
        own = {"Host": "notes.example", "Origin": "http://notes.example"}
        assert not opens(port, **own)
        status, _, page = ask(port, headers={"Host": "notes.example"})
        assert status == 401 and 'type="password"' in page and "script" not in page
        for method in ("GET", "POST", "PUT"):
            assert ask(port, method, "/_stcore/host-config", own)[0] == 401
        wrong = urlencode({"password": "not the password"})
        status, headers, page = ask(port, "POST", "/login", own, wrong)
        assert status == 401 and "not the password." in page and "set-cookie" not in headers
        right = urlencode({"password": SECRET})
        assert ask(port, "POST", "/login", {"Host": "notes.example"}, right)[0] == 403
        assert ask(port, "POST", "/login", own, right + "&x=" + "y" * 5_000)[0] == 401
        status, headers, _ = ask(port, "POST", "/login", own, right)
        assert status == 303
        cookie = re.match(r"ragstream_login=[\w-]{43}", headers["set-cookie"]).group()
        assert {"HttpOnly", "SameSite=Strict"} <= set(headers["set-cookie"].split("; "))
        assert ask(port, headers={"Host": "notes.example", "Cookie": cookie})[0] == 200
        assert opens(port, **own, Cookie=cookie)
        assert not opens(port, Origin=EVIL, Cookie=cookie)
        assert not opens(port, **own, Cookie=cookie[:-1])


def test_guesses_come_one_at_a_time(data):
    from concurrent.futures import ThreadPoolExecutor

    data.mkdir(exist_ok=True)
    path = access.password_file(AppConfig.load())
    access.write_password(path, access.make_password(SECRET))
    with page_server(allow_remote="true", hosts="notes.example") as port:
        own = {"Host": "notes.example", "Origin": "http://notes.example"}
        wrong = urlencode({"password": "not the password"})
        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(lambda _: ask(port, "POST", "/login", own, wrong)[0], range(8)))
    assert codes.count(401) >= 1 and codes.count(429) >= 1 and set(codes) == {401, 429}
