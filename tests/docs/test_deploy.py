"""What `deploy/` says works: plain commands, the compose file and the Dockerfile agree."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest
import yaml

from ragstream_core.config import AppConfig
from ragstream_core.platform import extras
from tests.processes import free_port, until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
WAIT_S = 240


def procfile():
    lines = (DEPLOY / "Procfile").read_text().splitlines()
    return {name: shlex.split(command) for name, _, command in (x.partition(": ") for x in lines)}


def shared_environment():
    lines = (DEPLOY / "ragstream.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def instructions():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.strip().split(None, 1)) for line in lines]


def test_the_compose_file_runs_the_plain_commands_with_their_environment():
    services = compose()["services"]
    assert set(services) == {*procfile(), "postgres"}
    for name, command in procfile().items():
        service = services[name]
        assert service["command"] == command
        assert service["env_file"] == "ragstream.env"
        assert set(service["environment"]) == {"PGPASSWORD"}
        assert service["volumes"] == ["data:/data", "${DOCUMENTS:-../data/doc_raw}:/documents:ro"]
        # one host to its services: a run of one is not taken for dead by another
        assert service["network_mode"] == service["pid"] == "host" and "init" not in service
        # built once, under the name that the others wait for
        assert service["image"] == "ragstream" and service["pull_policy"] == "never"
        assert ("build" in service) == (name == "web")
        assert set(service["depends_on"]) == {"postgres"}
        assert service["healthcheck"]["test"]
    assert set(compose()["volumes"]) == {"data", "postgres"}
    assert "--host=127.0.0.1" in services["postgres"]["healthcheck"]["test"]
    for name in ("postgres",):  # nothing of it is open to the network
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])
        assert services[name]["healthcheck"]["test"]


def test_every_variable_is_a_setting_and_no_file_holds_a_password(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in shared_environment().items():
        monkeypatch.setenv(name, value)
    config = AppConfig.load()
    assert config.settings.dagster.max_runs == 4
    for section, key in (("dagster", "storage"), ("embeddings", "shared"), ("vector_store", "url")):
        found = getattr(getattr(config.settings, section), key).get_secret_value()
        assert found.startswith("postgresql://ragstream@127.0.0.1")
    for path in DEPLOY.iterdir():
        assert not re.search(r"//[^/@\s]*:[^/@\s]+@", path.read_text()), path
    passwords = [
        value
        for service in compose()["services"].values()
        for key, value in service.get("environment", {}).items()
        if "PASSWORD" in key
    ]
    assert passwords and set(passwords) == {"${POSTGRES_PASSWORD:?choose one}"}


@pytest.mark.parametrize("given", [{}, {"PORT": "4711"}])
def test_a_health_check_asks_at_the_port_of_the_settings(given, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = {}
    for name, section in (("web", "dagster"), ("page", "page"), ("api", "api")):
        kind, command = compose()["services"][name]["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
        env = {f"RAGSTREAM_{section.upper()}__{key}": value for key, value in given.items()}
        shown = command.replace("$$", "$").replace("python -P -c", "echo")
        told = subprocess.check_output(["sh", "-c", shown], env=env, text=True)
        asked[section] = int(re.search(r"//127\.0\.0\.1:(\d+)/", told)[1])
        for key, value in env.items():
            monkeypatch.setenv(key, value)
    settings = AppConfig.load().settings
    assert asked == {name: getattr(settings, name).port for name in asked}


def test_the_image_runs_as_nobody_special_and_copies_what_is_here():
    found = instructions()
    kinds = [kind for kind, _ in found]
    assert kinds[0] == "FROM" and set(kinds) <= {
        "FROM", "ARG", "RUN", "COPY", "USER", "ENV", "WORKDIR", "VOLUME", "HEALTHCHECK", "CMD",
    }  # fmt: skip
    first = dict(reversed(found))
    assert first["USER"] == "ragstream" and kinds.index("USER") < kinds.index("CMD")
    assert "RUN" not in kinds[kinds.index("USER") :]
    assert first["VOLUME"] == '["/data"]' and "HEALTHCHECK" in kinds
    wanted = first["ARG"].removeprefix("EXTRAS=").split(",")
    known = {*extras.EXTRAS, "s3"}
    assert set(wanted) <= known and "distributed" in wanted
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv", ".env", "deploy/.env", "ragstream.yaml", "data/*"} <= set(ignored)
    kept = {f"data/{folder}" for folder in ("doc_raw/handbook", "projects/handbook")}
    assert kept == {line[1:] for line in ignored if line.startswith("!") and line.count("/") == 2}


def test_what_the_image_needs_is_installed_before_the_sources_come(tmp_path):
    """Else each change of a line would install everything anew, and be a layer of its own."""
    runs = [argument for kind, argument in instructions() if kind == "RUN"]
    copies = [argument.split() for kind, argument in instructions() if kind == "COPY"]
    assert copies == [["pyproject.toml", "constraints.txt", "/needs/"], [".", "/src"]]
    listing = next(run for run in runs if "tomllib" in run)
    code = shlex.split(listing)[2].replace("/needs/", f"{ROOT}/")
    extras_wanted = dict(reversed(instructions()))["ARG"].removeprefix("EXTRAS=")
    listed = subprocess.check_output([sys.executable, "-c", code, extras_wanted], text=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        name
        for extra in extras_wanted.split(",")
        for name in project["optional-dependencies"][extra]
    }
    assert set(listed.split("\n")[:-1]) == wanted | set(project["dependencies"])
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}
    named = {re.split(r"[^\w.-]", name)[0].lower() for name in listed.split()}
    assert named <= pinned
    assert not {name for name in named if name in ("torch", "sentence-transformers")}


@pytest.mark.slow
def test_the_plain_commands_run_side_by_side(database, tmp_path):
    ports = {name: free_port() for name in ("web", "page", "api")}
    env = {
        **os.environ,
        **{name: database for name in shared_environment() if "STORAGE" in name or "URL" in name},
        "RAGSTREAM_EMBEDDINGS__SHARED": database,
        "RAGSTREAM_DAGSTER__MAX_RUNS": "4",
        "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
        "RAGSTREAM_DATA_DIR": str(tmp_path / "data"),
        "RAGSTREAM_DAGSTER__PORT": str(ports["web"]),
        "RAGSTREAM_PAGE__PORT": str(ports["page"]),
        "RAGSTREAM_API__PORT": str(ports["api"]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    assert set(shared_environment()) <= set(env)
    running = {}
    try:
        for name, command in procfile().items():
            log = (tmp_path / f"{name}.log").open("wb")
            running[name] = subprocess.Popen(
                command, env=env, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
            )
        for name, path in (("web", "server_info"), ("page", "_stcore/health"), ("api", "health")):
            address = f"http://127.0.0.1:{ports[name]}/{path}"
            assert until(lambda a=address: answers(a), WAIT_S), said(tmp_path, name)
        log = tmp_path / "worker.log"
        assert until(lambda: b"takes batches from" in log.read_bytes(), WAIT_S), log.read_text()
        assert until(lambda: alive(tmp_path, env, database), WAIT_S), said(tmp_path, "daemon")
        assert {name for name, one in running.items() if one.poll() is not None} == set()
        asking = compose()["services"]["worker"]["healthcheck"]["test"][1:]
        said_of_it = subprocess.run(
            asking, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert said_of_it.returncode == 0, said_of_it.stderr
        assert "takes batches from cpu" in said_of_it.stdout
    finally:
        for one in running.values():
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGTERM)
        for one in running.values():
            one.wait(WAIT_S)


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status == 200
    except OSError:
        return False


def alive(folder, env, database):
    """Ask as the health check of the daemon does."""
    asking = {**env, "DAGSTER_HOME": str(folder / "data" / "dagster_home")}
    asking["DAGSTER_POSTGRES_URL"] = f"postgresql+psycopg2://{database.partition('://')[2]}"
    command = ["dagster-daemon", "liveness-check"]
    return subprocess.run(command, env=asking, cwd=folder, capture_output=True).returncode == 0


def said(folder, name):
    return (folder / f"{name}.log").read_text()[-3000:]


def test_what_is_remembered_of_a_person_lies_on_the_volume():
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    given = dict(re.findall(r"(RAGSTREAM_\w+)=(\S+)", text))
    assert given == {"RAGSTREAM_DATA_DIR": "/data", "RAGSTREAM_STATE_DIR": "/data/state"}
