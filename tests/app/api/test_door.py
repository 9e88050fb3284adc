"""Who may come in: a program of this machine that knows the token, and nobody else."""

import json

import pytest

from tests.app.serving import error_of, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("door") / "data"
    (root / "doc_raw" / "manual").mkdir(parents=True)
    (root / "doc_raw" / "notes").mkdir()
    with serving(root, "--project", "manual", api__hosts="gate.example:80") as found:
        yield found


def test_the_base_url_the_way_to_the_token_and_one_line_to_try_are_printed(served):
    assert f"{served.url}/v1\n" in served.said and served.url.startswith("http://127.0.0.1:")
    assert "serve --show-token" in served.said and "curl -s -H" in served.said
    assert served.token not in served.said


@pytest.mark.parametrize("header", [
    {}, {"Authorization": "Bearer"}, {"Authorization": "Basic eDp5"},
    {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xff"}, {"X-Api-Key": "TOKEN"},
    {"Cookie": "token=TOKEN"},
])  # fmt: skip
def test_without_the_token_nothing_is_said(served, header):
    header = {name: text.replace("TOKEN", served.token) for name, text in header.items()}
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/mcp"),
                         ("GET", "/nonsense")):  # fmt: skip
        headers = {name: text.encode("latin-1") for name, text in header.items()}
        headers["Content-Type"] = b"application/json"
        response = served.request(method, path, headers=headers)
        assert error_of(response)[0] == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert served.token not in response.text


def test_two_tokens_are_none(served):
    headers = [("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {served.token}")]
    assert error_of(served.request("GET", "/v1/models", headers=headers))[0] == 401


@pytest.mark.parametrize("header", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"},
    {"Host": "127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"},
])  # fmt: skip
def test_a_web_page_is_refused_even_with_the_token(served, header):
    headers = {"Authorization": f"Bearer {served.token}", **header}
    for path in ("/v1/models", "/health", "/openapi.json"):
        assert error_of(served.request("GET", path, headers=headers)) == (403, "refused")


def test_a_named_host_is_let_in(served):
    headers = {"Authorization": f"Bearer {served.token}", "Host": "Gate.example:80"}
    assert served.request("GET", "/v1/models", headers=headers).status_code == 200


def test_health_needs_no_token_and_says_nothing(served):
    response = served.request("GET", "/health", headers={})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_what_is_not_here_is_an_error_of_the_same_form(served):
    assert error_of(served.request("GET", "/v1/nonsense")) == (404, "not_found")
    response = served.request("DELETE", "/v1/models", headers={
        "Authorization": f"Bearer {served.token}", "Content-Type": "application/json"
    })  # fmt: skip
    assert error_of(response)[0] == 405 and "GET" in response.headers["allow"]


def test_models_are_projects_and_their_profiles(served):
    listed = served.request("GET", "/v1/models").json()
    names = [model["id"] for model in listed["data"]]
    assert listed["object"] == "list" and names[0] == "ragstream/manual"
    assert "ragstream/manual:short" in names
    assert not any("notes" in name for name in names), "--project leaves the others out"
    for path in ("ragstream/manual:short", "ragstream%2Fmanual%3Ashort", "manual:short"):
        found = served.request("GET", f"/v1/models/{path}").json()
        assert (found["id"], found["object"]) == ("ragstream/manual:short", "model")
        assert found["created"] == 0, "an ingest makes no new model"
    missing = served.request("GET", "/v1/models/ragstream/manul")
    assert error_of(missing) == (404, "model_not_found")
    assert "did you mean ragstream/manual?" in json.dumps(missing.json())


def test_a_project_that_is_not_there_is_refused_before_it_serves(data, run):
    code, out, err = run("serve", "--port", "0", "--project", "manul")
    assert (code, out) == (2, "") and "did you mean manual?" in err
