"""A settings file that nobody has confirmed: what of it counts, what not, and who says so."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from ragstream_core import config
from ragstream_core.config import AppConfig, child_environment, is_confirmed, state_dir
from ragstream_core.errors import Refused, UnknownSetting
from ragstream_core.platform import confirmed_files
from ragstream_core.settings import SECTIONS, known_keys, reading
from ragstream_core.settings.confirmation import Asks, leads_out, mark_of, own_folder, sift
from tests.workspaces import confirm

FIELDS = {key: SECTIONS[key.split(".")[0]].model_fields[key.split(".")[1]] for key in known_keys()}
HARMLESS = {
    "agents.a1", "agents.a2", "agents.a3", "agents.a4", "api.sources", "chunking.profile",
    "chunking.strip_markdown", "chunking.unit", "debug.min_level", "discovery.exclude",
    "discovery.fallback_encoding", "discovery.include", "documentation.embed_json",
    "documentation.id_format", "documentation.requirement_pattern", "embeddings.device",
    "embeddings.precision", "embeddings.queue", "files.line_numbers", "gate.backend",
    "history.allow_in_s_ctx", "history.always_tags", "history.around", "history.chunk_unit",
    "history.enabled", "history.exclude_tags", "history.follow_ups", "history.projects",
    "history.recent_fill",
    "history.sessions", "history.since", "history.summaries", "history.tags", "memory.cache",
    "memory.cache_match", "memory.enabled", "memory.index_name", "page.weather",
    "prompt.block_order",
    "prompt.recent_history", "prompt.token_counter", "provider.model", "rerank.backend",
    "retrieval.evidence", "retrieval.fusion", "vector_store.collection"
}  # fmt: skip
"""Decided: at worst a stranger makes a prompt worse with them. Numbers within bounds likewise."""


@pytest.fixture
def clean(tmp_path, monkeypatch):
    for name in list(config.os.environ):
        if name.startswith(("RAGSTREAM_", "MEMORY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    here = tmp_path / "clone"
    here.mkdir()
    monkeypatch.chdir(here)
    yield here
    reading._dotenv.cache_clear()


def test_each_setting_is_decided():
    """A new setting that is no number fails here until it has a mark or is named above."""
    undecided = {
        key
        for key, field in FIELDS.items()
        if mark_of(field) is None and field.annotation not in (int, float)
    }
    assert undecided == HARMLESS


@pytest.mark.parametrize("word", ["url", "address", "path", "dir", "host", "key", "file", "secret"])
def test_what_sounds_dangerous_is_marked(word):
    sounds = [
        key
        for key, field in FIELDS.items()
        if word in key.split(".")[1].split("_") and field.annotation not in (int, float)
    ]
    sounds += [key for key, field in FIELDS.items() if field.annotation is SecretStr]
    assert sounds and not [key for key in sounds if mark_of(FIELDS[key]) is None]


def test_what_takes_an_import_path_or_an_address_is_marked():
    told = ("or a path", "https", "://", "folder", "YAML file")
    named = [key for key, field in FIELDS.items() if any(t in field.description for t in told)]
    unmarked = [key for key in named if mark_of(FIELDS[key]) is None]
    assert len(named) > 10 and not unmarked


DANGEROUS = {
    "provider.base_url": "http://127.0.0.1:9",
    "provider.backend": "evil:Chat",
    "provider.api_key_file": "/etc/hostname",
    "provider.script": "script.yaml",
    "embeddings.backend": "openai",
    "embeddings.base_url": "https://evil.example/v1",
    "embeddings.shared": "postgresql://me@evil.example/x",
    "embeddings.model": "/etc",
    "vector_store.url": "postgresql://me@evil.example/x",
    "vector_store.backend": "evil:Store",
    "retrieval.store": "evil.store:Store",
    "dagster.storage": "postgresql://me@evil.example/x",
    "hub.url": "https://evil.example",
    "paths.logs": "/tmp/elsewhere",
    "paths.agent_logs": ["~/.claude/projects"],
    "history.lexicon": "../other.yaml",
    "discovery.secrets": "off",
    "page.address": "0.0.0.0",
    "page.allow_remote": True,
    "page.hosts": ["evil.example:8503"],
    "api.enabled": True,
    "mcp.allow_remember": True,
    "retention.prompt_days": 1,
    "ingestion.delete_replaced": True,
    "agents.a3_form": "llm",
    "facts.accept": "auto",
    "prompt.user_template": "Run this first. {task}",
    "prompt.answer_rules": "Say: {refusal}",
}


def written(folder, values, name="ragstream.yaml"):
    nested = {}
    for dotted, value in values.items():
        section, _, key = dotted.partition(".")
        nested.setdefault(section, {})[key] = value
    path = folder / name
    path.write_text(json.dumps(nested))
    return path


@pytest.mark.parametrize("key", DANGEROUS)
def test_a_strangers_file_cannot_set_it_and_a_confirmed_one_can(clean, key):
    before = AppConfig.load()
    path = written(clean, {key: DANGEROUS[key], "retrieval.top_k": 7})
    found = AppConfig.load()
    assert found.settings.retrieval.top_k == 7, "what can do no harm counts"
    assert found.origin[key] == "default"
    section, _, name = key.partition(".")
    assert getattr(found.settings, section) == getattr(before.settings, section).model_copy(
        update={"top_k": 7} if section == "retrieval" else {}
    )
    ((message, advice),) = found.notices()
    assert key in message and str(path) in message
    assert advice[0].verb == "config trust" and str(path) in advice[0].arguments
    confirm(path)
    told = AppConfig.load()
    assert told.origin[key] == "ragstream.yaml" and not told.notices()
    path.write_text(path.read_text() + "\n")
    assert AppConfig.load().origin[key] == "default", "a changed file is another one"


@pytest.mark.parametrize("key", DANGEROUS)
def test_a_strangers_task_profile_cannot_either(clean, key):
    section, _, name = key.partition(".")
    path = clean / "ragstream.yaml"
    path.write_text(json.dumps({"tasks": {"fast": {section: {name: DANGEROUS[key]}}}}))
    found = AppConfig.load()
    assert not found.notices(), "nobody has asked for it"
    with pytest.raises(Refused, match=f"fast of .*{key}"):
        found.with_task("fast")
    with pytest.raises(Refused, match=f"fast of .*{key}"):
        AppConfig.load(task="fast")
    confirm(path)
    assert AppConfig.load(task="fast").origin[key] == "task fast"


def test_a_shipped_profile_that_a_stranger_rewrites_stays_harmless_and_usable(clean):
    (clean / "ragstream.yaml").write_text(
        '{"tasks": {"chat": {"retrieval": {"top_k": 3}, "prompt": {"role": "a thief"}}}}'
    )
    found = AppConfig.load(task="chat")
    assert (found.settings.retrieval.top_k, found.settings.prompt.role) == (3, "")
    assert "tasks.chat.prompt.role" in found.notices()[0][0]


@pytest.mark.parametrize(
    ("key", "value"),
    [("history.persist", False), ("paths.data_dir", "/var/x"), ("paths.index_dir", "../index")],
)
def test_what_can_neither_count_nor_be_left_out_stops(clean, monkeypatch, key, value):
    path = written(clean, {key: value})
    with pytest.raises(Refused, match=f"{key}: .*not confirmed") as refused:
        AppConfig.load()
    variable = f"RAGSTREAM_{key.replace('.', '__')}".upper()
    assert variable in refused.value.hint and f"config trust {path}" in refused.value.hint
    monkeypatch.setenv(variable, str(value))
    if key != "paths.data_dir":  # which leads to other settings
        assert AppConfig.load().origin[key] == "environment"
    monkeypatch.delenv(variable)
    confirm(path)
    assert AppConfig.load().origin[key] == "ragstream.yaml"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("embeddings.backend", "hashed"), ("embeddings.model", "org/name"),
        ("retrieval.store", "faiss"), ("discovery.secrets", "redact"), ("paths.logs", "data/logs"),
        ("paths.data_dir", "notes"), ("provider.base_url", "http://127.0.0.1:11434/v1"),
        ("history.persist", True), ("agents.a3_form", "deterministic"),
    ],
)  # fmt: skip
def test_harmless_values_of_such_settings_count(clean, key, value):
    written(clean, {key: value})
    found = AppConfig.load()
    assert found.origin[key] == "ragstream.yaml" and not found.notices()


def test_a_dotenv_file_is_a_strangers_too(clean, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    path = clean / ".env"
    path.write_text(
        "RAGSTREAM_PROVIDER__BASE_URL=https://evil.example/v1\nHF_ENDPOINT=https://evil.example\n"
        "RAGSTREAM_PROVIDER__API_KEY=sk-theirs\nRAGSTREAM_RETRIEVAL__TOP_K=7\n"
        "RAGSTREAM_HISTORY__TAGS=${AWS_SECRET_ACCESS_KEY}\nRAGSTREAM_CONFIG=/evil.yaml\n"
        "RAGSTREAM_STATE_DIR=/evil\n"
    )
    found = AppConfig.load()
    assert found.settings.retrieval.top_k == 7
    assert {one.name for one in found.files[0].left_out} == {
        "provider.base_url", "hub.url", "provider.api_key",
    }  # fmt: skip
    assert "sk-theirs" not in str(found.notices()) + str(found.files)
    assert "canary" not in str(found.settings), "no variable is read into its values"
    assert state_dir() != config.Path("/evil")
    confirm(path)
    told = AppConfig.load().settings
    assert told.provider.base_url == "https://evil.example/v1" and told.history.tags == ("canary",)


def test_what_the_person_names_counts(clean, monkeypatch):
    written(clean, {"provider.base_url": "https://mine.example/v1"}, name="own.yaml")
    for named in ("option", "variable"):
        if named == "variable":
            monkeypatch.setenv("RAGSTREAM_CONFIG", "own.yaml")
        found = AppConfig.load(config.Path("own.yaml") if named == "option" else None)
        assert found.settings.provider.base_url == "https://mine.example/v1"
        assert found.file.state == "named" and not found.notices()
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://other.example/v1")
    assert AppConfig.load().settings.provider.base_url == "https://other.example/v1"


def test_what_a_stronger_layer_sets_is_not_told_of(clean, monkeypatch):
    written(clean, {"provider.base_url": "https://evil.example/v1"})
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://mine.example/v1")
    assert not AppConfig.load().notices()


@pytest.mark.parametrize("how", ["option", "variable", "library"])
def test_another_data_root_has_other_settings(clean, tmp_path, monkeypatch, how):
    """`--data` elsewhere means the settings there; those of the working directory are told of."""
    written(clean, {"retrieval.top_k": 3})
    (clean / ".env").write_text("RAGSTREAM_RETRIEVAL__DEPTH=3\n")
    root = tmp_path / "work" / "data"
    root.mkdir(parents=True)
    explicit = {"paths.data_dir": str(root)} if how != "variable" else {}
    if how == "variable":
        monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(root))
    found = AppConfig.load(explicit=explicit)
    assert (found.settings.retrieval.top_k, found.settings.retrieval.depth) == (50, 100)
    assert str(clean / "ragstream.yaml") in found.notices()[0][0]
    written(root.parent, {"retrieval.top_k": 5})
    assert AppConfig.load(explicit=explicit).settings.retrieval.top_k == 5, "beside it"
    written(root, {"retrieval.top_k": 6})
    assert AppConfig.load(explicit=explicit).settings.retrieval.top_k == 6, "in it"
    monkeypatch.chdir(root.parent)
    assert AppConfig.load(explicit={"paths.data_dir": "data"}).settings.retrieval.top_k == 6


def test_children_read_the_same_files_by_the_same_rules(clean, tmp_path, monkeypatch):
    path = written(clean, {"provider.base_url": "https://evil.example/v1", "retrieval.top_k": 7})
    (clean / ".env").write_text("RAGSTREAM_RETRIEVAL__DEPTH=9\n")
    environment = child_environment(AppConfig.load())
    monkeypatch.chdir(tmp_path)
    for name in environment.keys() - os.environ.keys():
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", environment["RAGSTREAM_DATA_DIR"])
    for explicit in ({}, {"paths.data_dir": environment["RAGSTREAM_DATA_DIR"]}):
        found = AppConfig.load(explicit=explicit)
        assert (found.settings.retrieval.top_k, found.settings.retrieval.depth) == (7, 9)
        assert found.origin["provider.base_url"] == "default" and len(found.notices()) == 1
    confirm(path)
    assert AppConfig.load().settings.provider.base_url == "https://evil.example/v1"


@given(
    st.lists(st.sampled_from(["a", "..", ".", "b c", "~", "~/x", "/", "/etc"]), max_size=5).map(
        "/".join
    )
)
def test_a_path_within_never_leads_out(tmp_path_factory, named):
    own = config.Path(os.path.realpath(tmp_path_factory.getbasetemp())) / "own"
    if not leads_out(named, own):
        assert (own / named).resolve().is_relative_to(own)
    assert leads_out(named, None)


def test_a_link_leads_out_and_home_is_nobodys_own(clean, tmp_path, monkeypatch):
    (clean / "data").symlink_to(tmp_path)
    own = own_folder(clean / "ragstream.yaml")
    assert own == clean and leads_out("data/logs", own) and not leads_out("logs", own)
    monkeypatch.setenv("HOME", str(clean / "me"))
    assert own_folder(clean / "ragstream.yaml") is None
    assert own_folder(clean / "me" / "x" / "ragstream.yaml") == clean / "me" / "x"


@given(st.sampled_from(sorted(FIELDS)), st.one_of(st.text(), st.booleans(), st.integers()))
def test_sifting_loses_and_invents_nothing(key, value):
    section, _, name = key.partition(".")
    kept, left = sift({section: {name: value}}, SECTIONS, None, task="t")
    counted = kept == {section: {name: value}}
    assert counted != bool(left)
    mark = mark_of(FIELDS[key])
    assert counted == (mark is None or value in mark.free)
    assert all(c.isprintable() or c == "\n" for one in left for c in one.value)


def test_every_mark_says_what_it_decides():
    marks = {mark_of(field) for field in FIELDS.values()} - {None}
    assert len(marks) > 10 and all(isinstance(mark, Asks) and mark.what for mark in marks)


def test_the_memory_is_private_and_of_this_person(clean, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_STATE_DIR", str(tmp_path / "state"))
    path = written(clean, {"hub.url": "https://evil.example"})
    confirm(path)
    memory = tmp_path / "state" / confirmed_files.NAME
    assert memory.stat().st_mode & 0o777 == 0o600
    assert memory.parent.stat().st_mode & 0o777 == 0o700
    assert is_confirmed(path, path.read_bytes())
    memory.chmod(0o622)
    assert not is_confirmed(path, path.read_bytes()), "others could have written it"
    memory.chmod(0o600)
    other = clean / "sub" / "ragstream.yaml"
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    assert not is_confirmed(other, other.read_bytes()), "the same words mean others elsewhere"
    assert confirmed_files.forget(state_dir(), path) and not is_confirmed(path, path.read_bytes())
    for damage in ("", "[]", '{"format": 1}', '{"format": 2, "files": {}}', "\0", "[" * 9_999):
        memory.write_text(damage)
        assert not is_confirmed(path, path.read_bytes())
    confirm(path)
    assert is_confirmed(path, path.read_bytes())


def test_the_memory_has_a_place_without_a_home(clean, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_dir() == config.Path(os.environ["HOME"]) / ".local" / "state" / "ragstream"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_dir() == config.Path(os.environ["HOME"]) / ".local" / "state" / "ragstream"


def test_a_task_profile_stays_when_settings_are_put_over_it(clean):
    loaded = AppConfig.load(task="long_form")
    again = loaded.with_task(explicit={"provider.model": "x"})
    assert again.settings.retrieval.top_k == 80 and again.settings.prompt.budget_tokens == 12_000
    assert again.origin["retrieval.top_k"] == "task long_form" and again.task == "long_form"
    assert again.with_task("short").settings.prompt.budget_tokens == 2_500
    assert loaded.with_task().settings == loaded.settings


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("retrieval.top_k", "abc", "it takes: integer ≥ 1 ≤ 1000"),
        ("retrieval.top_k", "0", "it takes: integer ≥ 1 ≤ 1000"),
        ("gate.theta", "warm", "it takes: number ≥ -1 ≤ 1"),
        ("history.persist", "maybe", "it takes: true, false"),
        ("gate.backend", "llm", "it takes: `auto`, `similarity`, `nli`"),
        ("discovery.include", 5, "it takes: list of texts"),
        ("history.since", "soon", "write a date or a time"),
    ],
)
def test_a_bad_value_is_told_in_our_words(key, value, words):
    with pytest.raises(UnknownSetting) as error:
        AppConfig.load(explicit={key: value})
    said = str(error.value)
    assert words in said and f"setting {key} = {value!r} (explicit)" in said
    assert not [word for word in ("Input should", "unable to parse", "valid") if word in said]


def test_a_settings_file_that_is_not_there_is_named(clean, monkeypatch):
    with pytest.raises(UnknownSetting, match=r"there is no settings file nofile\.yaml\n.*--config"):
        AppConfig.load(config.Path("nofile.yaml"))
    monkeypatch.setenv("RAGSTREAM_CONFIG", str(clean))
    with pytest.raises(UnknownSetting, match="cannot be read: is a directory"):
        AppConfig.load()
