"""`ragstream init`: a data root beside a project, found from its folders as git finds its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragstream_core.config import AppConfig, child_environment
from ragstream_core.errors import InvalidName, Refused, UsageError
from ragstream_core.index.look import manifest_of
from ragstream_core.platform import data_root
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import init_folder
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import confirm

HASHED = {"embeddings.backend": "hashed"}


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    monkeypatch.delenv("RAGSTREAM_DATA_DIR", raising=False)
    monkeypatch.delenv("RAGSTREAM_CONFIG", raising=False)


@pytest.fixture
def shop(tmp_path):
    folder = tmp_path / "shop"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("shop words")
    (folder / "build").mkdir()
    (folder / "build" / "made.md").write_text("made words")
    return folder


def test_what_it_makes_reads_the_folder_and_moves_with_it(shop, tmp_path, monkeypatch):
    made = init_folder(shop)
    assert (made.project, made.above) == ("shop", "")
    monkeypatch.chdir(shop / "src" / "deep")
    space = open_workspace(explicit=HASHED)
    assert space.data_dir == shop / ".ragstream"
    assert space.config.origin["paths.data_dir"] == str(shop / ".ragstream")
    first = ingest_project(space, "shop")
    assert list(manifest_of(space.index_dir("shop"), 0)) == ["a.md"]
    moved = shop.rename(tmp_path / "moved")
    monkeypatch.chdir(moved)
    again = open_workspace(explicit=HASHED)
    assert again.data_dir == moved / ".ragstream"
    assert ingest_project(again, "shop").digest == first.digest


def test_git_sees_nothing_of_it(shop):
    init_folder(shop)
    subprocess.run(["git", "init", "-q", str(shop)], check=True)
    status = ["git", "-C", str(shop), "status", "--porcelain", "-uall"]
    seen = subprocess.run(status, check=True, capture_output=True, text=True).stdout
    assert ".ragstream" not in seen and "a.md" in seen


def test_a_root_that_is_named_goes_first(shop, tmp_path, monkeypatch):
    init_folder(shop)
    monkeypatch.chdir(shop)
    named = shop / "ragstream.yaml"
    named.write_text(f"paths:\n  data_dir: {tmp_path / 'by-file'}\n")
    with pytest.raises(Refused, match="not confirmed"):
        open_workspace()
    confirm(named)
    assert open_workspace().data_dir == tmp_path / "by-file"
    assert open_workspace(tmp_path / "by-option").data_dir == tmp_path / "by-option"
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(tmp_path / "by-variable"))
    assert open_workspace().data_dir == tmp_path / "by-variable"


def test_the_settings_beside_it_hold_below_it_as_well(shop, monkeypatch):
    init_folder(shop)
    (shop / "ragstream.yaml").write_text("embeddings:\n  backend: hashed\n")
    for folder in (shop, shop / "src"):
        monkeypatch.chdir(folder)
        assert open_workspace().config.settings.embeddings.backend == "hashed"


def test_a_data_folder_beside_the_command_stays_what_it_was(shop, monkeypatch):
    init_folder(shop)
    (shop / "src" / "data" / "doc_raw").mkdir(parents=True)
    monkeypatch.chdir(shop / "src")
    assert open_workspace().data_dir == shop / "src" / "data"
    assert open_workspace().config.origin["paths.data_dir"] == "default"
    monkeypatch.chdir(shop / "src" / "deep")
    assert open_workspace().data_dir == shop / ".ragstream"


def test_the_nearest_is_found_and_one_of_another_user_is_not(shop, monkeypatch):
    outer = init_folder(shop)
    inner = init_folder(shop / "src")
    assert inner.above == outer.data_dir
    assert data_root.find(shop / "src" / "deep") == shop / "src" / ".ragstream"
    (shop / "src" / "deep" / ".ragstream").mkdir()
    assert data_root.find(shop / "src" / "deep") == shop / "src" / ".ragstream", "not complete"
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert data_root.find(shop) is None


def test_a_second_call_is_refused_and_one_that_was_killed_goes_on(shop):
    (shop / ".ragstream").mkdir()
    (shop / ".ragstream" / ".gitignore").write_text("half")
    init_folder(shop)
    said = (shop / ".ragstream" / "projects" / "shop" / "project.yaml").read_bytes()
    with pytest.raises(Refused, match="already"):
        init_folder(shop, "other")
    assert (shop / ".ragstream" / "projects" / "shop" / "project.yaml").read_bytes() == said


@pytest.mark.parametrize(("folder", "name", "error"), [
    ("none", "", UsageError), ("a.md", "", UsageError), ("/", "", UsageError),
    (".", "a/b", InvalidName),
])  # fmt: skip
def test_what_cannot_be_one_is_refused_and_nothing_is_made(shop, folder, name, error):
    with pytest.raises(error):
        init_folder(shop / folder, name)
    assert not (shop / ".ragstream").exists() and not Path("/.ragstream").exists()


def test_finding_it_loads_nothing_heavy(shop):
    init_folder(shop)
    code = (
        "import sys; from ragstream_core.config import AppConfig; print(AppConfig.load().data_dir);"
        "print({'numpy', 'pathspec', 'dagster'} & sys.modules.keys())"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAGSTREAM_")}
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=shop / "src", capture_output=True, text=True, check=True,
        env={**environment, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == [str(shop / ".ragstream"), "set()"]


def test_servers_of_a_call_from_below_read_the_settings_beside_the_root(shop, monkeypatch):
    init_folder(shop)
    (shop / "ragstream.yaml").write_text("retrieval:\n  top_k: 9\n")
    monkeypatch.chdir(shop / "src")
    environment = child_environment(AppConfig.load().with_task())
    assert "RAGSTREAM_CONFIG" not in environment, (
        "a file that was found is not named: it would count"
    )
    for name in ("RAGSTREAM_DATA_DIR", "RAGSTREAM_SETTINGS_DIRS"):
        monkeypatch.setenv(name, environment[name])
    told = AppConfig.load()
    assert (told.data_dir, told.settings.retrieval.top_k) == (shop / ".ragstream", 9)


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to(path.parent / "nix")])
def test_something_else_of_that_name_is_named_and_stays(shop, make):
    make(shop / ".ragstream")
    with pytest.raises(Refused, match="is no folder") as refused:
        init_folder(shop)
    assert "move it away" in refused.value.hint
    assert not (shop / "nix").exists()


def test_a_folder_that_is_missing_is_named_once(tmp_path):
    with pytest.raises(UsageError) as refused:
        init_folder(tmp_path / "nix")
    assert refused.value.message == f"there is no folder {tmp_path / 'nix'}"
