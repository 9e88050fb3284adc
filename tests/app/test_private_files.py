"""Whatever is written belongs to its owner alone, whoever writes it and whatever the umask was."""

import os

import pytest


@pytest.fixture
def open_umask(environment):
    """The usual umask: others may read."""
    old = os.umask(0o022)
    yield
    os.umask(old)


def modes(root):
    """Return the modes below a data root that let others in, by name; documents are yours."""
    own = [path for path in root.rglob("*") if "doc_raw" not in path.relative_to(root).parts]
    assert len(own) > 20
    return {str(p.relative_to(root)): oct(p.lstat().st_mode) for p in own if p.stat().st_mode & 63}


def test_files_of_runs_are_private(data, spawn, open_umask, monkeypatch):
    assert spawn("ingest", "manual", "--dagster").returncode == 0
    asked = ("prompt", "What does the lock do?", "-p", "manual", "--file", "settings.yaml")
    done = spawn(*asked, "--dagster")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in data.iterdir()}
    assert {"index", "prompts", "dagster_home"} <= names
    assert modes(data) == {}


def test_every_file_and_folder_has_the_exact_mode(data, spawn, open_umask):
    assert spawn("ingest", "manual").returncode == 0
    for path in (data / "index").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_the_command_line_sets_the_umask(indexed, run, open_umask):
    os.umask(0o022)  # `indexed` went through it already
    assert run("status")[0] == 0
    assert os.umask(0o077) == 0o077


def test_the_page_sets_the_umask(indexed, open_umask):
    import streamlit as st
    from streamlit import config
    from streamlit.testing.v1 import AppTest

    from tests.app.page_driver import PAGE

    config.set_option("server.address", "127.0.0.1")
    st.cache_resource.clear()
    os.umask(0o022)
    assert not AppTest.from_file(PAGE, default_timeout=60).run().exception
    assert os.umask(0o077) == 0o077
