"""`ragstream up` beside its servers: the instance files it writes, and what it refuses."""

import pytest
import yaml

from ragstream_app.cli.commands import up
from ragstream_core.config import AppConfig


@pytest.fixture(autouse=True)
def restored(monkeypatch, tmp_path):
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(tmp_path / "data"))
    for name in ("DAGSTER_HOME", "DAGSTER_POSTGRES_URL"):
        monkeypatch.setenv(name, "")  # set by what is tested


def test_config_writes_the_instance_files_and_starts_nothing(run, tmp_path, monkeypatch):
    home = tmp_path / "data" / "dagster_home"
    code, out, _ = run("up", "--write-config")
    assert code == 0 and f"SQLite in {home}" in out
    assert "storage" not in yaml.safe_load((home / "dagster.yaml").read_text())
    secret = "hunter" + "2secret"
    url = f"postgresql://me:{secret}@db.example.org/records"
    monkeypatch.setenv("RAGSTREAM_DAGSTER__STORAGE", url)
    code, out, err = run("up", "--write-config")
    assert code == 0 and "postgresql://me@db.example.org/records" in out
    assert "DAGSTER_POSTGRES_URL" in out and secret not in out + err
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    assert settings["storage"]["postgres"] == {"postgres_url": {"env": "DAGSTER_POSTGRES_URL"}}
    assert secret not in (home / "dagster.yaml").read_text()
    assert "ragstream_assets.definitions" in (home / "workspace.yaml").read_text()


def test_a_wrong_address_is_refused_with_what_to_do(run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_DAGSTER__STORAGE", "mysql://somewhere/x")
    code, _, err = run("up", "--write-config")
    assert code == 2 and "dagster.storage is no address of a database" in err
    assert "postgresql://USER@HOST" in err


def test_a_password_in_the_shared_file_is_refused(run, monkeypatch, tmp_path):
    file = tmp_path / "team.yaml"
    file.write_text("dagster:\n  storage: postgresql://me:word@db.example.org/records\n")
    monkeypatch.setenv("RAGSTREAM_CONFIG", str(file))
    code, _, err = run("up", "--write-config")
    assert code == 2 and "dagster.storage holds a password" in err and "word@" not in err


def test_another_machine_leaves_the_daemon_out():
    config = AppConfig.load()
    names = [s.name for s in up._dagster(config, read_only=False, with_daemon=False)]
    assert names == ["Dagster"]
    names = [s.name for s in up._dagster(config, read_only=False, with_daemon=True)]
    assert names == ["Dagster", "Dagster daemon"]
