"""Five layers, one winner; every name checked; the environment read in one place."""

import sys

import pytest

from ragstream_core import config
from ragstream_core.config import AppConfig, nested, overlay, parse_assignments
from ragstream_core.errors import UnknownSetting
from ragstream_core.settings import SECTIONS, ChainSettings, known_keys, reading
from ragstream_core.settings.layers import file_bytes, layer_of


@pytest.fixture
def clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(config.os.environ):
        if name.startswith(("RAGSTREAM_", "MEMORY_")):
            monkeypatch.delenv(name)
    return tmp_path


def test_each_layer_beats_the_one_before(clean, monkeypatch):
    def top_k(**more):
        return AppConfig.load(**more).settings.retrieval.top_k

    assert top_k() == 50
    (clean / "ragstream.yaml").write_text(
        "retrieval: {top_k: 41}\ntasks:\n  mine:\n    retrieval: {top_k: 43}\n"
    )
    assert top_k() == 41
    (clean / ".env").write_text("RAGSTREAM_RETRIEVAL__TOP_K=42\n")
    reading._dotenv.cache_clear()
    assert top_k() == 42
    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__TOP_K", "44")
    assert top_k() == 44
    assert top_k(task="mine") == 43
    assert top_k(task="mine", explicit={"retrieval.top_k": "45"}) == 45
    loaded = AppConfig.load(task="mine", explicit={"gate.theta": "0.1"})
    assert loaded.origin["retrieval.top_k"] == "task mine"
    assert loaded.origin["gate.theta"] == "explicit"
    assert loaded.origin["retrieval.tau"] == "default"


def test_explicit_settings_beat_a_task_chosen_later(clean):
    base = AppConfig.load(explicit={"retrieval.top_k": "9"})
    assert base.with_task("long_form").settings.retrieval.top_k == 9
    retrieval, prompt = base.resolve_task("long_form")
    assert (retrieval.top_k, prompt.budget_tokens) == (9, 12_000)


def test_a_task_changes_only_what_it_lists(clean):
    base, task = AppConfig.load().settings, AppConfig.load(task="long_form").settings
    changed = {
        f"{s}.{k}"
        for s in SECTIONS
        for k, v in getattr(task, s).model_dump().items()
        if v != getattr(base, s).model_dump()[k]
    }
    assert changed == {
        "retrieval.top_k", "retrieval.max_context_chars", "retrieval.max_context_tokens",
        "prompt.budget_tokens", "prompt.max_facts",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "section", "key", "expected"),
    [
        ("RAGSTREAM_DATA_DIR", "/tmp/x", "paths", "data_dir", "/tmp/x"),
        ("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed", "embeddings", "backend", "hashed"),
        ("RAGSTREAM_EMBEDDINGS__MODEL", "a/b", "embeddings", "model", "a/b"),
        ("RAGSTREAM_EMBEDDINGS__DEVICE", "cpu", "embeddings", "device", "cpu"),
        ("RAGSTREAM_RETRIEVAL__DEPTH", "30", "retrieval", "depth", 30),
        ("RAGSTREAM_DISCOVERY__EXCLUDE", '["*.json"]', "discovery", "exclude", ("*.json",)),
        ("MEMORY_TOP_K", "3", "memory", "top_k", 3),
        ("MEMORY_ENABLED", "true", "memory", "enabled", True),
    ],
)
def test_environment_variables(clean, monkeypatch, name, value, section, key, expected):
    monkeypatch.setenv(name, value)
    assert getattr(getattr(AppConfig.load().settings, section), key) == expected


@pytest.mark.parametrize("name", ["RAGSTREAM_DATA_DIR", "RAGSTREAM_CONFIG", "HF_ENDPOINT"])
def test_an_empty_name_of_a_place_is_none(clean, monkeypatch, name):
    (clean / ".ragstream" / "projects").mkdir(parents=True)
    (clean / "ragstream.yaml").write_text("gate: {theta: 0.31}")
    usual = AppConfig.load()
    monkeypatch.setenv(name, "")
    assert AppConfig.load() == usual and usual.settings.gate.theta == 0.31


def test_the_dotenv_file_is_opened_once(clean):
    path = clean / ".env"
    path.write_text("RAGSTREAM_GATE__THETA=0.31\n")
    reading._dotenv.cache_clear()
    opened = []
    sys.addaudithook(lambda event, args: opened.append(args[0])
                     if event == "open" and str(args[0]) == str(path) else None)  # fmt: skip
    for _ in range(5):
        assert AppConfig.load().settings.gate.theta == 0.31
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retrieval: {topk: 5}", r"retrieval\.topk.*\n.*retrieval\.top_k"),
        ("retreival: {top_k: 5}", "unknown setting 'retreival'"),
        ("retrieval: {top_k: many}", r"retrieval\.top_k = 'many' \(ragstream\.yaml\)"),
        ("gate: {theta: 7}", "gate.theta"),
        ("- a list", "top level"),
        ("retrieval: [", r"ragstream\.yaml:1: cannot be read as YAML: expected [^\n]+\n[^\n]+$"),
        ("retreival: {top_k: 5}", r"did you mean retrieval\?"),
        ("provider: {api_key: sk-1}", "does not belong"),
        ("tasks: {t: {retrieval: {nope: 1}}}", "nope"),
        ("tasks: {t: {provider: {api_key: sk-1}}}", "task t: provider.api_key does not belong"),
        ("tasks: 5", "tasks must map names to sections"),
        ("tasks: {t: 5}", "tasks must map names to sections"),
        ("tasks: {7: {}}", "tasks must map names to sections"),
        ("tasks: {t: {tasks: {}}}", "unknown setting 'tasks'"),
        ("retrieval: 5", "key: value"),
        ("provider: 5", "key: value"),
        ("5: 6", "unknown setting '5'"),
        ("paths: {data_dir: 2026-13-45}", "cannot be read as YAML: month must be"),
        ("retrieval: " + "[" * 5_000, "cannot be read as YAML"),
    ],
)
def test_bad_files_are_refused_with_the_place(clean, text, message):
    (clean / "ragstream.yaml").write_text(text)
    with pytest.raises(UnknownSetting, match=message) as caught:
        AppConfig.load()
    assert "sk-1" not in str(caught.value)


def test_a_task_without_lines_changes_nothing(clean):
    (clean / "ragstream.yaml").write_text("tasks:\n  later:\n")
    assert AppConfig.load(task="later").settings == AppConfig.load().settings


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_every_number_is_finite(clean, text):
    numbers = [
        f"{section}.{key}"
        for section, model in SECTIONS.items()
        for key, field in model.model_fields.items()
        if field.annotation in (float, int)
    ]
    assert "provider.input_usd_per_mtok" in numbers
    for name in numbers:
        with pytest.raises(UnknownSetting, match=f"setting {name} = '{text}'"):
            AppConfig.load(explicit={name: text})


def test_unknown_names_anywhere_are_refused(clean, monkeypatch):
    with pytest.raises(UnknownSetting, match="unknown task"):
        AppConfig.load(task="nope")
    with pytest.raises(UnknownSetting, match="did you mean gate.theta"):
        nested({"gate.teta": 1})
    with pytest.raises(UnknownSetting, match="not a setting"):
        parse_assignments(["gate.theta"])
    with pytest.raises(UnknownSetting, match="not a setting that one prompt or run can have"):
        overlay(ChainSettings(), {"page.port": 1})
    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__TOPK", "5")
    with pytest.raises(UnknownSetting, match="top_k"):
        AppConfig.load()


def test_a_key_never_shows(clean, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", "canary-key")
    loaded = AppConfig.load()
    assert loaded.settings.provider.api_key.get_secret_value() == "canary-key"
    assert "canary-key" not in repr(loaded)
    assert "canary-key" not in str(loaded.chain().model_dump())


def test_every_key_has_a_meaning():
    for section, model in SECTIONS.items():
        assert model.__doc__, section
        for key, field in model.model_fields.items():
            assert field.description, f"{section}.{key}"
    assert len(known_keys()) == len(set(known_keys()))


def test_every_network_switch_is_set_for_this_process_and_its_children(clean, monkeypatch):
    import os

    from ragstream_core.config import AppConfig, child_environment, quiet_environment

    wanted = {
        "ANONYMIZED_TELEMETRY": "False", "DAGSTER_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1",
        "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
    }  # fmt: skip
    for name in wanted:
        monkeypatch.delenv(name, raising=False)
    assert wanted.items() <= child_environment(AppConfig.load()).items()
    quiet_environment()
    assert wanted.items() <= os.environ.items()


@pytest.mark.parametrize(
    ("key", "address"),
    [
        ("embeddings.shared", "postgresql://me:pa55@host/name"),
        ("vector_store.url", "postgresql://host/name?user=me&password=pa55"),
        ("dagster.storage", "postgresql://me@host/name?sslpassword=pa55"),
    ],
)
def test_a_file_holds_no_password_of_a_server(tmp_path, key, address):
    section, _, name = key.partition(".")
    path = tmp_path / "config.yaml"
    path.write_text(f"{section}:\n  {name}: {address}\n")
    with pytest.raises(UnknownSetting, match=f"{key} holds a password") as error:
        layer_of(file_bytes(path), path)
    assert "pa55" not in str(error.value)
    path.write_text(f"tasks: {{far: {{{section}: {{{name}: '{address}'}}}}}}\n")
    with pytest.raises(UnknownSetting, match=f"task far: {key} holds a password"):
        AppConfig.load(path)
    path.write_text(f"{section}:\n  {name}: {address.replace('pa55', '').replace(':@', '@')}\n")
    assert layer_of(file_bytes(path), path)[section][name]
