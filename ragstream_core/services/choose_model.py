"""Which language model is asked: the configured one, the person's choice, or always the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ragstream_core.errors import ChatFailed
from ragstream_core.models.chat.endpoint_chat import chosen_model
from ragstream_core.wiring import models

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.wiring.workspace import Workspace

MODEL_SETTING = "provider.model"

# Seconds that a list of models may take.
LISTING_S = 10.0

# Given the names and the one that would be taken, returns the chosen one.
Pick = Callable[[Sequence[str], str], str]


def ensure_model(config: AppConfig, pick: Pick | None = None) -> str:
    """Return the model to ask (R-201); the settings' own, perhaps "", where nobody answers.

    One that somebody configured is taken as it is. Else the endpoint is asked for its list: the
    default model where it is there, what a person picks, or what `chosen_model` always takes.

    Args:
        config: The settings.
        pick: Asks a person; None where there is none to ask.
    """
    wanted = config.settings.provider.model
    if wanted and config.origin[MODEL_SETTING] != "default":
        return wanted
    names = listed(config)
    if not names:
        return wanted
    choice = chosen_model(wanted, names)
    is_wanted = bool(wanted) and choice.partition(":")[0] == wanted.partition(":")[0]
    return choice if pick is None or is_wanted or len(names) == 1 else pick(names, choice)


def with_model_to_ask(workspace: Workspace, model: str = "") -> Workspace:
    """Return the data root with the language model that is asked.

    Args:
        workspace: The data root.
        model: A model that was named; empty: the one of the settings.

    Raises:
        RagstreamError: The provider's settings are wrong.
    """
    # One that is named is looked up under the other settings, as a configured one is.
    named = workspace.with_settings({MODEL_SETTING: model} if model else {})
    return named.with_settings({MODEL_SETTING: ensure_model(named.config)})


def listed(config: AppConfig) -> list[str]:
    """Return the models of the endpoint, sorted; none where it cannot be asked."""
    try:
        return asked_for_models(config)
    except ChatFailed:
        return []


def asked_for_models(config: AppConfig) -> list[str]:
    """Return the models of the endpoint, sorted.

    Raises:
        ChatFailed: It does not answer.
        RagstreamError: The provider's settings are wrong.
    """
    limits = {"provider.timeout_s": LISTING_S, "provider.budget_s": LISTING_S}
    names = models.chat_model(config.with_task("", explicit=limits)).list_models()
    return sorted(name for name in names if name.isprintable())
