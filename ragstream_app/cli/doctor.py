"""What `ragstream doctor` looks at; each check says ok, warn or fail and the next step.

The provider is shown and not contacted, ports are tried on loopback only; databases that
the settings name are asked (`doctor_servers`).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING

from ragstream_app.cli.doctor_servers import SERVERS, Check
from ragstream_core.errors import RagstreamError, WeightsMismatch, WeightsMissing, quoted

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig

PACKAGES = (
    "dagster", "dagster-webserver", "onnxruntime", "tokenizers", "numpy",
    "semantic-text-splitter", "PyStemmer", "pyarrow",
)  # fmt: skip
OLDEST = (3, 11)
LOW_DISK_BYTES = 2_000_000_000


def examine(config: AppConfig) -> list[Check]:
    """Run all checks; one that breaks is a finding itself."""
    models = (_embedder, _reranker, _gate)
    looks = (
        _python, _packages, _extras, _settings_files, *models, _data_root, _languages, _history,
        _ports, _provider,
    )  # fmt: skip
    return _examined((*looks, *SERVERS), config)


def examine_models(config: AppConfig) -> list[Check]:
    """Check every file of the models on this machine."""
    return _examined(
        (_embedder, _embedder_files, _reranker, _gate, _ranking_files, _token_files), config
    )


def _examined(
    looks: Iterable[Callable[[AppConfig], Iterator[Check]]], config: AppConfig
) -> list[Check]:
    checks: list[Check] = []
    for look in looks:
        try:
            checks += list(look(config))  # all of them, or the error alone
        except RagstreamError as error:
            checks.append(Check(look.__name__.strip("_"), "fail", error.message, error.hint))
        except OSError as error:
            checks.append(Check(look.__name__.strip("_"), "fail", str(error)))
    return checks


def _python(_: AppConfig) -> Iterator[Check]:
    version = platform.python_version()
    if sys.version_info[:2] < OLDEST:
        yield Check("python", "fail", version, "install Python 3.11 or newer")
    else:
        yield Check("python", "ok", f"{version} on {platform.machine()}, {os.cpu_count()} cores")


def _packages(_: AppConfig) -> Iterator[Check]:
    versions: list[str] = []
    missing: list[str] = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        step = "install RAGstream again: these come with it"
        yield Check("packages", "fail", f"missing: {', '.join(missing)}", step)
    else:
        yield Check("packages", "ok", ", ".join(versions))


def _extras(config: AppConfig) -> Iterator[Check]:
    """Say which extras are installed, and which one the settings need that is not."""
    from ragstream_core.platform import extras

    absent = [extra for extra in extras.EXTRAS if not extras.is_here(extra)]
    here = ", ".join(extra for extra in extras.EXTRAS if extra not in absent)
    yield Check("extras", "ok", here or "none; each brings what the base install leaves out")
    needed = extras.STORES.get(config.chain().retrieval.store, "")
    for extra in absent:
        level = "fail" if extra == needed else "ok"
        what = f"not installed: {extras.USES[extra]}"
        yield Check(f"extra {extra}", level, what, extras.install(extra).line)


def _settings_files(config: AppConfig) -> Iterator[Check]:
    """Say which settings files are read, and what of them does not count."""
    from ragstream_app.output.settings_files import STATES

    for file in config.files:
        names = [f"tasks.{one.task}.{one.name}" if one.task else one.name for one in file.left_out]
        said = f"{file.path}: {STATES[file.state]}"
        step = f"ragstream config trust {quoted(file.path)}"
        if names:
            yield Check("settings", "warn", f"{said}; left out: {', '.join(names)}", step)
        else:
            yield Check("settings", "ok", said)


def _embedder(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.models.embedders import weights
    from ragstream_core.models.embedders.onnx_encoder import known_export
    from ragstream_core.models.embedders.onnx_export import SOURCE_FILES
    from ragstream_core.wiring import models

    settings = config.settings.embeddings
    if settings.backend == "hashed":
        step = "unset embeddings.backend: hashed vectors do not capture meaning"
        yield Check("embedding model", "warn", "hashed: made for tests", step)
        return
    if settings.backend == "openai":
        at = models.endpoint(config)
        where = at.host if at else "nowhere"
        detail = f"{settings.model} at {where} (not contacted now; an ingest sends it your texts)"
        yield Check("embedding model", "ok", detail)
        return
    if settings.backend == "fastembed" or not weights.is_default(settings.model):
        yield _other_embedder(config)
        return
    try:
        folder = weights.find_default(config.layout.models)
        weights.verify_files(folder, SOURCE_FILES)
    except (WeightsMissing, WeightsMismatch) as error:
        yield Check("embedding model", "fail", error.message, error.hint)
        return
    verified = f"{settings.model} in {folder}, sha256 verified"
    if settings.backend != "onnx":
        from ragstream_core.models.embedders.sentence_transformers import resolve_device

        how = f"by torch on {resolve_device(settings.device)}"
        yield Check("embedding model", "ok", f"{verified}, {how}")
        return
    yield Check("embedding model", "ok", f"{verified}, by onnxruntime on cpu, {settings.precision}")
    export = known_export(settings.model, config.layout.models, settings.precision)
    if export.made:
        yield Check("ONNX model", "ok", str(export.folder))
    else:
        yield Check("ONNX model", "ok", "not made yet; the first ingest makes it in a second")


def _other_embedder(config: AppConfig) -> Check:
    """Say where another model than the default one lies, what runs it, and where it computes."""
    from ragstream_core.models.embedders.onnx_encoder import known_export
    from ragstream_core.models.embedders.sentence_transformers import resolve_device
    from ragstream_core.models.embedders.weights import find_model
    from ragstream_core.platform import extras

    settings = config.settings.embeddings
    if settings.backend == "fastembed":
        from ragstream_core.models.embedders.fastembed import local_model

        local = local_model(settings.model, config.layout.models)
        detail = f"{local.name} in {local.folder}, by FastEmbed on cpu"
        return Check("embedding model", "ok", detail)
    folder = find_model(settings.model, config.layout.models)
    export = (
        known_export(settings.model, config.layout.models) if settings.backend == "onnx" else None
    )
    if export is not None and export.made:
        return Check(
            "embedding model", "ok", f"{settings.model} in {folder}, by onnxruntime on cpu"
        )
    extras.require(f"{settings.model} without an export", "torch")
    how = f"torch on {resolve_device(settings.device)}"
    if export is not None:
        how = "onnxruntime on cpu (exported by the first ingest)"
        if export.refused:
            how = f"torch on {resolve_device(settings.device)}, since {export.refused}"
    return Check("embedding model", "ok", f"{settings.model} in {folder}, by {how}")


def _embedder_files(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.models.embedders import weights

    settings = config.settings.embeddings
    others = ("hashed", "openai", "fastembed")
    if settings.backend in others or not weights.is_default(settings.model):
        return
    weights.verify_files(weights.find_default(config.layout.models), weights.SHA256)
    yield Check("embedding model files", "ok", f"all {len(weights.SHA256)} have their sha256")


def _ranking_files(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.models.downloads import pulled, verify_pulled
    from ragstream_core.models.rerankers import weights_digest
    from ragstream_core.wiring.models import gate_name, reranker_name, weights_folder

    roles = {
        "reranker": reranker_name(config, config.settings.rerank),
        "gate": gate_name(config, config.settings.gate),
    }
    for role, name in roles.items():
        folder = weights_folder(config, name)
        if folder is None:
            continue
        source, files = pulled(folder), verify_pulled(folder)
        detail = f"{name}: {weights_digest(folder)[:12]} (nothing to compare it with)"
        if source is not None:
            at = f"{source.host} at {source.commit[:12]}"
            detail = f"{name}: all {files} files have the sha256 that they had at {at}"
        yield Check(f"{role} files", "ok", detail)


def _token_files(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.models.token_counters import TOKEN_FILES, token_folder, verified

    for file in TOKEN_FILES.values():
        if not (token_folder(config.layout.models) / file.file_name).exists():
            continue
        try:
            verified(file, config.layout.models)
        except WeightsMismatch as error:
            yield Check(f"token file {file.name}", "fail", error.message, error.hint)
        else:
            yield Check(f"token file {file.name}", "ok", "its sha256 matches")


def _reranker(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.wiring.models import MODEL_FREE, reranker_name, weights_folder

    settings = config.settings.rerank
    name = reranker_name(config, settings)
    if name not in MODEL_FREE:
        yield _weighed(config, "reranker", name, "rerank.backend")
        return
    if settings.backend != "auto":
        yield Check("reranker", "ok", f"{name} (rerank.backend={settings.backend})")
        return
    detail, step = f"{name}; the cross-encoder {settings.model} is", f"models pull {settings.model}"
    if weights_folder(config, settings.model) is None:
        yield Check("reranker", "warn", f"{detail} not on this machine", f"ragstream {step}")
        return
    from ragstream_core.platform import extras

    step = extras.install("torch").line
    yield Check("reranker", "warn", f"{detail} here, but the extra 'torch' is not", step)


def _gate(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.wiring.models import MODEL_FREE, gate_name, unmeasured_gate, weights_folder

    settings = config.settings.gate
    name = gate_name(config, settings)
    if name not in MODEL_FREE:
        yield _weighed(config, "gate", name, "gate.backend")
        return
    told = f"{name} (gate.backend={settings.backend})"
    if unmeasured_gate(config, settings):
        why = f"; {settings.model} is here, but no measurement shows that it is better"
        yield Check("gate", "ok", f"{told}{why}: ragstream eval gate PROJECT")
        return
    if settings.backend != "auto":
        yield Check("gate", "ok", told)
        return
    here = weights_folder(config, settings.model) is not None
    lacking = "here, but the extra 'torch' is not" if here else "not on this machine"
    yield Check("gate", "ok", f"{told}; {settings.model} is {lacking}")


def _weighed(config: AppConfig, what: str, name: str, setting: str) -> Check:
    """Say whether the weights of a chosen model are here, and which they are."""
    from ragstream_core.wiring.models import reranker_weights

    weights = reranker_weights(config, name)
    if weights:
        return Check(what, "ok", f"{name}, sha256 {weights[:12]}")
    place = config.layout.models / name.replace(":", "/")
    step = f"put its folder into {place}, or set {setting} to auto"
    if ":" not in name:  # FlashRank's are no models of a hub
        step = f"ragstream models pull {name}, or {step}"
    return Check(what, "fail", f"the weights of {name} are not here", step)


def _data_root(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.wiring.projects import unfit

    root = config.data_dir
    if not root.is_dir():
        make = quoted("mkdir", "-p", config.layout.doc_raw / "PROJECT")
        step = f"ragstream init, or {make} and put documents there"
        yield Check("data root", "fail", f"{root} does not exist", step)
        return
    if not os.access(root, os.W_OK | os.X_OK):
        yield Check("data root", "fail", f"{root} is not writable", quoted("chmod", "u+wx", root))
        return
    free = shutil.disk_usage(root).free
    level = "warn" if free < LOW_DISK_BYTES else "ok"
    step = "free some space; an ingest needs room for new vectors" if level == "warn" else ""
    origin = config.origin["paths.data_dir"]
    chosen = "found from the working directory up" if origin == str(root) else f"set by {origin}"
    why = "" if origin == "default" else f" ({chosen})"
    yield Check("data root", level, f"{root}{why}, {free / 1e9:.1f} GB free", step)
    yield from _folders_in_place(config)
    for name, reason in unfit(config.layout):
        yield Check("projects", "warn", f"{config.layout.doc_raw / name} is not a project", reason)
    home = config.layout.dagster_home
    state = "there" if home.is_dir() else "made by `ragstream up` or --dagster"
    yield Check("dagster home", "ok", f"{home} ({state})")


def _folders_in_place(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.wiring.projects import in_place
    from ragstream_core.wiring.workspace import Workspace

    for name in in_place(config.layout):
        try:
            roots = Workspace(config).documents(name).roots
        except RagstreamError as error:
            yield Check("projects", "fail", error.message, error.hint)
            continue
        missing = [str(root.path) for root in roots if not root.path.is_dir()]
        step = f"mount it; or ragstream project remove {name}"
        if missing:
            yield Check("projects", "warn", f"{', '.join(missing)} of {name} is not there", step)


def _languages(config: AppConfig) -> Iterator[Check]:
    """Say which projects are mostly in a language that the default model was not made for."""
    from ragstream_core.models.embedders.weights import is_default
    from ragstream_core.services.inspect_index import language_of_texts
    from ragstream_core.wiring.projects import indexed
    from ragstream_core.wiring.workspace import Workspace

    chosen = config.settings.embeddings
    if chosen.backend == "hashed" or not is_default(chosen.model):
        return
    workspace = Workspace(config)
    for name in indexed(config.layout):
        if language := language_of_texts(workspace, name):
            yield Check(
                "languages", "warn", f"most of {name} is in {language}; {chosen.model} was made "
                "for English: what says it in other words may not be found",
                "name a model of that language as embeddings.model, and ingest again",
            )  # fmt: skip


def _history(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.text.plurals import counted
    from ragstream_core.wiring.history_index import History
    from ragstream_core.wiring.workspace import Workspace

    if not config.settings.history.persist:
        yield Check("history", "ok", "history.persist is off: nothing of a prompt is kept")
        return
    now = History(Workspace(config)).status()
    if not now.records and not now.damaged:
        yield Check("history", "ok", "no conversation yet")
        return
    detail = f"{counted(now.turns, 'turn')} embedded, {now.pending:,} waiting"
    if now.damaged:
        yield Check("history", "fail", now.damaged[0], "ragstream history check")
    elif now.other_model:
        step = "ragstream history backfill --rebuild"
        yield Check("history", "warn", f"{detail}; embedded by another model", step)
    elif now.pending:
        yield Check("history", "warn", detail, "ragstream history embed")
    else:
        yield Check("history", "ok", detail)


def _ports(config: AppConfig) -> Iterator[Check]:
    from ragstream_app.server.processes import is_free

    wanted = (("Dagster", "--port", config.settings.dagster.port),
              ("the page", "--page-port", config.settings.page.port))  # fmt: skip
    for name, option, port in wanted:
        if is_free(port):
            yield Check(f"port {port}", "ok", f"free for {name}")
        else:
            step = f"fine if `ragstream up` is running; otherwise: ragstream up {option} N"
            yield Check(f"port {port}", "warn", f"in use, but {name} needs it", step)


def _provider(config: AppConfig) -> Iterator[Check]:
    from ragstream_core.platform.endpoint_address import provider_key

    provider = config.settings.provider
    found = provider_key(provider.api_key, provider.api_key_file).get_secret_value()
    key = "with a key" if found else "without a key"
    yield Check("provider", "ok", f"{provider.model} at {provider.base_url}, {key}; not contacted")
