"""What clients' files say of the server: everything else in them stays, or nothing is changed."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.cli.main import main
from ragstream_app.mcp.clients import CLIENTS, merged, snippet, usual_file
from ragstream_core.errors import Refused
from tests.workspaces import write_docs

CODE, CODEX = CLIENTS["claude-code"], CLIENTS["codex"]
ENTRY = CODE.entry(["/bin/rag stream", "--data", "/tmp/ü\"'\\", "mcp"])
TABLE = CODEX.entry(["/bin/rag stream", "--data", "/tmp/ü\"'\\", "mcp"])
PATH = Path("settings")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def put(client, data, entry=None):
    return merged(client, "ragstream", entry or client.entry(["x"]), data=data, path=PATH)


@given(st.dictionaries(TEXTS.filter(lambda key: key != "mcpServers"), VALUES, max_size=4),
       st.dictionaries(TEXTS.filter(lambda key: key != "ragstream"), VALUES, max_size=3),
       st.sampled_from([None, 2, "\t"]), st.booleans())  # fmt: skip
def test_all_else_in_json_stays_and_the_second_time_nothing_changes(rest, servers, indent, ascii_):
    tree = {**rest, "mcpServers": servers}
    data = json.dumps(tree, indent=indent, ensure_ascii=ascii_).encode()
    made = put(CODE, data, ENTRY)
    assert json.loads(made) == {**tree, "mcpServers": {**servers, "ragstream": ENTRY}}
    assert list(json.loads(made)) == list(tree)
    assert put(CODE, made, ENTRY) == made


SCALARS = st.integers(-(2**40), 2**40) | st.booleans() | TEXTS
TABLES = st.dictionaries(
    st.from_regex(r"[a-z_-]{1,8}", fullmatch=True).filter(lambda key: key != "mcp_servers"),
    st.dictionaries(st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True), SCALARS, max_size=3),
    max_size=4,
)


def toml(tables):
    """Return tables as TOML, with comments."""
    rows = ["# my settings"]
    for name, table in tables.items():
        rows += ["", f"[{name}] # kept"]
        rows += [f"{key} = {toml_value(value)}" for key, value in table.items()]
    return "\n".join([*rows, ""])


def toml_value(value):
    shown = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return shown if isinstance(value, str) else str(value).lower()


@given(TABLES, st.booleans())
def test_all_else_in_toml_stays_with_its_comments(tables, there):
    if there:
        tables = {**tables, "mcp_servers.other": {"command": "y"}}
        tables = {**tables, "mcp_servers.ragstream": {"command": "old", "startup_timeout_sec": 9}}
    text = toml(tables)
    made = put(CODEX, text.encode(), TABLE).decode()
    before, after = tomllib.loads(text), tomllib.loads(made)
    own = {"startup_timeout_sec": 9} if there else {}
    assert after.pop("mcp_servers").pop("ragstream") == {**own, **TABLE}
    before.pop("mcp_servers", None)
    assert after == before
    assert made.count("#") == text.count("#") - there
    assert put(CODEX, made.encode(), TABLE) == made.encode()


@pytest.mark.parametrize(
    ("client", "data", "said"),
    [
        (CODE, b'{"mcpServers": {},}', "line 1"),
        (CODE, b'// mine\n{"mcpServers": {}}', "no JSON"),
        (CODE, b"[]", "no object 'mcpServers'"),
        (CODE, b'{"mcpServers": []}', "no object 'mcpServers'"),
        (CODE, b'{"a": 1, "a": 2}', "twice"),
        (CODE, b"\xff{}", "UTF-8"),
        (CODE, b"[" * 200_000, "nested"),
        (CODE, b" " * 10_000_001, "larger"),
        (CODEX, b"[mcp_servers", "no TOML"),
        (CODEX, b"mcp_servers = {}\n", "without a doubt"),
        (CODEX, b'mcp_servers = "x"\n', "without a doubt"),
        (CODEX, b'[mcp_servers]\nragstream = {command = "x"}\n', "without a doubt"),
    ],
)
def test_what_cannot_be_changed_safely_is_left(client, data, said):
    with pytest.raises(Refused, match=said) as refused:
        put(client, data)
    assert "by hand" in refused.value.hint


def test_what_a_person_added_to_our_entry_stays():
    mine = {"mcpServers": {"ragstream": {"command": "old", "env": {"A": "1"}}}}
    made = json.loads(put(CODE, json.dumps(mine).encode(), ENTRY))
    assert made["mcpServers"]["ragstream"] == {"command": ENTRY["command"], "env": {"A": "1"},
                                               "type": "stdio", "args": ENTRY["args"]}  # fmt: skip
    text = '[mcp_servers.ragstream]\ncommand = "old"\n\n[mcp_servers.ragstream.env]\nA = "1"\n'
    found = tomllib.loads(put(CODEX, text.encode(), TABLE).decode())["mcp_servers"]["ragstream"]
    assert found == {**TABLE, "env": {"A": "1"}}


def test_form_of_a_json_file_stays():
    data = '\ufeff{\r\n\t"b": "ü",\r\n\t"a": 1\r\n}\r\n'.encode()
    made = put(CODE, data).decode()
    assert made.startswith('\ufeff{\r\n\t"b": "ü",\r\n\t"a": 1,\r\n\t"mcpServers"')
    assert made.endswith("}\r\n")
    assert put(CODE, b"") == snippet(CODE, "ragstream", CODE.entry(["x"])).encode()


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_docs(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def install(*words):
    return main(["mcp", "install", *words])


@pytest.mark.parametrize("client", CLIENTS)
def test_without_write_it_is_printed_and_nothing_is_written(here, capsys, client):
    assert install(client, "-p", "demo") == 0
    said = capsys.readouterr()
    parsed = tomllib.loads(said.out) if client == "codex" else json.loads(said.out)
    entry = parsed[CLIENTS[client].section]["ragstream"]
    assert entry["args"][-5:] == ["--data", str(here / "data"), "mcp", "--project", "demo"]
    assert Path(entry["command"]).is_absolute()
    assert str(usual_file(client, here)) in said.err
    assert sorted(path.name for path in here.iterdir()) == ["data"]


@pytest.mark.parametrize("client", CLIENTS)
def test_with_write_and_yes_the_change_is_shown_and_made_once(here, capsys, client):
    assert install(client, "--write", "--yes") == 0
    said = capsys.readouterr()
    assert "+" in said.out and "next: " in said.err
    path = usual_file(client, here)
    made = path.read_bytes()
    assert made
    assert path.is_relative_to(here)
    assert install(client, "--write", "--yes") == 0
    assert "already" in capsys.readouterr().err
    assert path.read_bytes() == made


def test_nothing_is_written_unless_somebody_says_yes(here, capsys):
    (here / ".mcp.json").write_text('{"a": 1}')
    assert install("claude-code", "--write") == 2  # nobody is there to ask
    assert "--yes" in capsys.readouterr().err
    assert (here / ".mcp.json").read_text() == '{"a": 1}'


def test_the_old_file_is_kept_and_its_mode_and_link_stay(here, capsys):
    real = here / "dotfiles.json"
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    (here / ".mcp.json").symlink_to(real)
    assert install("claude-code", "--write", "--yes") == 0
    assert (here / ".mcp.json").is_symlink()
    assert json.loads(real.read_text())["a"] == 1
    assert real.stat().st_mode & 0o777 == 0o640
    assert (here / "dotfiles.json.before-ragstream").read_text() == '{"a": 1}'


def test_a_broken_file_is_one_line_and_stays(here, capsys):
    (here / ".mcp.json").write_text("{,")
    assert install("claude-code", "--write", "--yes") == 3
    said = capsys.readouterr().err
    assert "is left as it is" in said
    assert "Traceback" not in said
    assert (here / ".mcp.json").read_text() == "{,"


def test_a_file_that_cannot_be_written_stays(here, capsys, monkeypatch):
    from ragstream_core.platform import files

    (here / ".mcp.json").write_text("{}")

    def full(*_args, **_more):
        raise OSError(28, "No space left on device", str(here / ".mcp.json"))

    monkeypatch.setattr(files, "replace_bytes", full)
    assert install("claude-code", "--write", "--yes") == 1
    assert "No space left" in capsys.readouterr().err
    assert (here / ".mcp.json").read_text() == "{}"


def test_the_configuration_in_use_is_named_and_the_environment_told_of(here, capsys, monkeypatch):
    (here / "ragstream.yaml").write_text("retrieval:\n  top_k: 9\n")
    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__DEPTH", "9")
    assert main(["--config", "ragstream.yaml", "mcp", "install", "cursor"]) == 0
    said = capsys.readouterr()
    args = json.loads(said.out)["mcpServers"]["ragstream"]["args"]
    assert args[2:4] == ["--config", str(here / "ragstream.yaml")]
    assert "retrieval.depth" in said.err


@pytest.mark.parametrize("below", [".", "src/deep"])
def test_beside_a_project_its_folder_and_its_settings_are_meant(
    tmp_path, capsys, monkeypatch, below
):
    monkeypatch.delenv("RAGSTREAM_DATA_DIR", raising=False)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "ragstream.yaml").write_text("mcp:\n  allow_remember: true\n")
    assert main(["init", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path / below)
    assert install("vscode", "--write", "--yes") == 0
    made = json.loads((tmp_path / ".vscode" / "mcp.json").read_text())
    assert made["servers"]["ragstream"]["args"] == [
        *("--data", str(tmp_path / ".ragstream"), "mcp"),
    ], "the root leads to its settings; named, they would count without being confirmed"


def test_a_data_root_without_projects_is_told_of(here, capsys):
    assert main(["--data", str(here / "nix"), "mcp", "install", "cursor"]) == 0
    assert f"no projects under {here / 'nix'}" in capsys.readouterr().err
    assert install("cursor") == 0
    assert "no projects" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nix"], ["cursor", "--name", "a b"], ["cursor", "-p", "nix"]])
def test_wrong_words_are_refused(here, capsys, words):
    assert install(*words) == 2
    assert "Traceback" not in capsys.readouterr().err
