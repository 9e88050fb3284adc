"""Models of one process: resolved once, cached by what identifies them, never loaded unasked."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    InputUnavailable,
    ModelMismatch,
    RunCommand,
    SetSetting,
    UnknownSetting,
    WeightsMissing,
    quoted,
)
from ragstream_core.models.embedders import registry
from ragstream_core.models.embedders.fingerprints import known_dimension
from ragstream_core.models.rerankers import (
    PREFIX,
    CrossEncoderReranker,
    FlashRankReranker,
    NliModel,
    find_cross_encoder,
    find_flashrank,
    weights_digest,
)
from ragstream_core.platform import extras
from ragstream_core.platform.endpoint_address import CHAT_SETTING, endpoint_at, provider_key
from ragstream_core.prompts.chain import OPS

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.models.chat.endpoint_chat import ChatOptions
    from ragstream_core.platform.endpoint_address import Endpoint
    from ragstream_core.ports import ChatModel, Embedder, Reranker
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.settings.prompts import GateConfig, RerankConfig

# Settings that say where texts and keys go.
PLACES = (
    "provider.backend",
    "provider.base_url",
    "provider.api_key",
    "provider.api_key_file",
    "provider.script",
)
# Rerankers, and the gate, that need no weights of their own.
MODEL_FREE = ("none", "maxsim", "reembed", "similarity")


def embedder(config: AppConfig) -> Embedder:
    """Return the process's embedder for these settings, loading it at the first call."""
    return registry.same_embeddings(*_embedding(config))


def fingerprint(config: AppConfig) -> str:
    """Return ``embed_fp`` of the configured model, without loading it where that is possible."""
    return registry.embed_fingerprint(*_embedding(config))


def _embedding(config: AppConfig) -> tuple[str, registry.EmbeddingOptions]:
    """Return the backend of the settings and what it may ask for."""
    chosen = config.settings.embeddings
    options = registry.EmbeddingOptions(
        model=chosen.model, models_dir=config.layout.models, device=chosen.device,
        workers=chosen.workers, endpoint=endpoint(config), precision=chosen.precision,
    )  # fmt: skip
    return chosen.backend, options


def model_name(config: AppConfig) -> str:
    """Return which embedding model the settings name, for people."""
    chosen = config.settings.embeddings
    rounded = "" if chosen.precision == "float32" else f" ({chosen.precision})"
    return f"{chosen.backend}/{chosen.model}{rounded}"


def endpoint(config: AppConfig) -> Endpoint | None:
    """Return where the embedding endpoint is, None for the backends that need none."""
    chosen, provider = config.settings.embeddings, config.settings.provider
    if chosen.backend != "openai" and not chosen.base_url:
        return None
    return endpoint_at(
        chosen.base_url or provider.base_url,
        setting="embeddings.base_url" if chosen.base_url else CHAT_SETTING,
        key=_key(config),
        key_url=_home_of_key(config),
        timeout_s=chosen.timeout_s,
        budget_s=chosen.budget_s,
    )


def chat_model(config: AppConfig) -> ChatModel:
    """Return the process's language model; nobody is contacted before it is asked something.

    Where it is and whose code it runs comes from ragstream.yaml and the environment: what a run
    config or a task profile says about that is refused.
    """
    # late: a prompt without a language model, and an ingest, do without TLS
    from ragstream_core.models.chat.endpoint_chat import ChatOptions
    from ragstream_core.models.chat.prices import Prices
    from ragstream_core.models.chat.providers import PROVIDERS

    for name in PLACES:
        if config.origin[name] == "explicit" or config.origin[name].startswith("task "):
            raise UnknownSetting(
                f"{name} is not taken from a run or a task profile",
                hint="set it in ragstream.yaml or in the environment",
            )
    chosen = config.settings.provider
    where = endpoint_at(
        chosen.base_url,
        key=_key(config),
        key_url=chosen.base_url,
        timeout_s=chosen.timeout_s,
        budget_s=chosen.budget_s,
    )
    options = ChatOptions(
        model=chosen.model,
        endpoint=where,
        prices=Prices(where, chosen.input_usd_per_mtok, chosen.output_usd_per_mtok),
        temperature=chosen.temperature,
        max_output_tokens=chosen.max_output_tokens,
        script=chosen.script,
    )
    if chosen.backend == "openai":
        return _endpoint_chat(options)
    return PROVIDERS.create(chosen.backend, options)


@functools.lru_cache(maxsize=4)
def _endpoint_chat(options: ChatOptions) -> ChatModel:
    """Keep one a process: it remembers an endpoint that is down."""
    from ragstream_core.models.chat.providers import PROVIDERS

    return PROVIDERS.create("openai", options)


def _key(config: AppConfig) -> str:
    provider = config.settings.provider
    return provider_key(provider.api_key, provider.api_key_file).get_secret_value()


def _home_of_key(config: AppConfig) -> str:
    """Return where the key belongs: no run and no task profile can move it to another host."""
    default = type(config.settings.provider).model_fields["base_url"].default
    homes = [layer.get("provider", {}).get("base_url") for _, layer in config.base]
    return str(next((home for home in reversed(homes) if home), default))


def require_replayable(config: AppConfig) -> None:
    """Refuse to run a prompt again where even opening the embedder would contact an endpoint."""
    chosen, remote = config.settings.embeddings, endpoint(config)
    if chosen.backend != "openai" or remote is None:
        return
    if not known_dimension(config.layout.models, remote, chosen.model):
        raise InputUnavailable(
            f"the dimension of {chosen.model} is not kept, and a replay asks no endpoint",
            hint=(RunCommand("ingest"), " asks for it"),
        )


def reranker_name(config: AppConfig, settings: RerankConfig) -> str:
    """Return which reranker these settings resolve to: one of `MODEL_FREE`, or a model's name."""
    if settings.backend in MODEL_FREE:
        return settings.backend
    if settings.backend == "flashrank":
        return f"{PREFIX}{settings.flashrank_model}"
    if settings.backend == "cross_encoder" or is_usable(config, settings.model):
        return settings.model
    return "maxsim"


def reranker_weights(config: AppConfig, name: str) -> str:
    """Return the digest of a reranking model's files, empty where the name is none that is here."""
    folder = weights_folder(config, name)
    return weights_digest(folder) if folder is not None else ""


def weights_folder(config: AppConfig, name: str) -> Path | None:
    """Return the folder of a model by its name of `reranker_name` or `gate_name`, if it has one."""
    if name in MODEL_FREE:
        return None
    find = find_flashrank if name.startswith(PREFIX) else find_cross_encoder
    return find(name.removeprefix(PREFIX), config.layout.models)


def is_usable(config: AppConfig, model: str) -> bool:
    """Say whether the weights of a reranking or NLI model are here, and what runs it."""
    return weights_folder(config, model) is not None and extras.is_here("torch")


def gate_name(config: AppConfig, settings: GateConfig) -> str:
    """Return which gate these settings resolve to: ``similarity`` or an NLI model's name.

    With ``auto`` the model needs its weights, and a measurement that says that it is better.
    """
    if settings.backend == "nli":
        return settings.model
    measured = settings.backend == "auto" and _is_better(config, settings)
    return settings.model if measured else "similarity"


def unmeasured_gate(config: AppConfig, settings: GateConfig) -> str:
    """Return the NLI model that is here and not taken, since no measurement is behind it."""
    waits = settings.backend == "auto" and is_usable(config, settings.model)
    return settings.model if waits and not _is_better(config, settings) else ""


def _is_better(config: AppConfig, settings: GateConfig) -> bool:
    from ragstream_core.evaluation.sweep import read_measurement

    if not is_usable(config, settings.model):
        return False
    weights = reranker_weights(config, settings.model)
    found = read_measurement(config.layout.models, weights)
    return found is not None and found.is_better and found.nli_theta == settings.nli_theta


def cross_encoder(config: AppConfig, model: str, *, weights: str = "") -> Reranker:
    """Return the process's cross-encoder; `weights`: the digest that its files must have."""
    return _cross_encoder(*_present(config, model, weights, SetSetting("rerank.backend", "maxsim")))


def nli(config: AppConfig, model: str, *, weights: str = "") -> NliModel:
    """Return the process's NLI model; `weights`: the digest that its files must have."""
    return _nli(*_present(config, model, weights, SetSetting("gate.backend", "similarity")))


def _present(
    config: AppConfig, model: str, weights: str, instead: SetSetting
) -> tuple[Path, str, str]:
    """Return a model's folder, its name and the digest of its files."""
    path = weights_folder(config, model)
    if path is None:
        place = config.layout.models / model.replace(":", "/")
        raise WeightsMissing(
            f"the weights of {model} are not on this machine",
            hint=(
                RunCommand("models pull", quoted(model)),
                f", or put them into {place}, or ",
                instead,
            ),
        )
    found = weights_digest(path)
    if weights and found != weights:
        raise ModelMismatch(
            f"the weights of {model} have changed: {weights[:12]} then, {found[:12]} now",
            hint=f"put the original ones into {path}, or make the prompt again",
        )
    return path, model, found


@functools.lru_cache(maxsize=2)
def _cross_encoder(path: Path, model: str, weights: str) -> Reranker:
    if model.startswith(PREFIX):
        return FlashRankReranker(path, model=model.removeprefix(PREFIX))
    return CrossEncoderReranker(path, model=model)


@functools.lru_cache(maxsize=2)
def _nli(path: Path, model: str, weights: str) -> NliModel:
    return NliModel(path, model=model)


def model_to_load(op: str, config: AppConfig) -> str:
    """Return the model that a stage loads before it can begin; empty if it needs none any more."""
    chain, name = config.chain(), ""
    if op == OPS[0] and not registry.same_embeddings.cache_info().currsize:
        name = config.settings.embeddings.model
    elif op == "reranker" and not _cross_encoder.cache_info().currsize:
        name = reranker_name(config, chain.rerank)
    elif op == "a3_nli_gate" and not _nli.cache_info().currsize:
        name = gate_name(config, chain.gate)
    return "" if name in MODEL_FREE else name


def ranking_device(op: str, inputs: PromptInputs) -> str:
    """Return where the reranker of a prompt computed in this process; empty where none did."""
    name = inputs.models.get("reranker", "none")
    if op != "reranker" or name in ("none", "reembed"):
        return ""
    if name == "maxsim" or name.startswith(PREFIX):
        return "cpu"
    if "torch" not in sys.modules:
        return ""  # the prompt was answered from its record: no model ran
    from ragstream_core.models.embedders.sentence_transformers import resolve_device

    return resolve_device("auto")  # as the cross-encoder's library chooses
