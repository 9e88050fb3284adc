"""The token counter of a prompt, of settings without a prompt, and of a prompt that was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.build.models import models_dir
from ragstream_core.models.token_counters import counter_for, counter_named
from ragstream_core.settings import ChainSettings

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptInputs
    from ragstream_core.ports import TokenCounter
    from ragstream_core.records import SuperPrompt

_CHOOSE = {"token_counter", "chars_per_token", "model_target"}


def counter_of(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings | None = None
) -> TokenCounter:
    """Return the counter that a prompt is pinned to.

    Args:
        workspace: The data root.
        inputs: Of the prompt.
        settings: Those of the stage that counts; where they choose another counter than the
            prompt's, it is that one.

    Raises:
        InputUnavailable: What it counts with is not on this machine any more.
        WeightsMissing: The settings of the stage name an encoding whose file is not here.
        WeightsMismatch: It is damaged.
    """
    pinned = ChainSettings.model_validate(inputs.settings).prompt
    if settings is not None:
        chosen = settings.prompt
        if chosen.model_dump(include=_CHOOSE) != pinned.model_dump(include=_CHOOSE):
            return counter_for(chosen, models_dir(workspace.config))
    return counter_named(inputs.models["counter"], models_dir(workspace.config))


def counter_of_prompt(workspace: Workspace, prompt: SuperPrompt) -> TokenCounter:
    """Return the counter of a prompt at any stage.

    Raises:
        InputUnavailable: What it counts with is not on this machine any more.
    """
    name = str(prompt.extras["inputs"]["models"]["counter"])
    return counter_named(name, models_dir(workspace.config))


def counter_of_settings(workspace: Workspace, settings: ChainSettings) -> TokenCounter:
    """Return the counter that settings mean now, for what belongs to no prompt yet.

    Raises:
        WeightsMissing: They name an encoding whose file is not here.
        WeightsMismatch: It is damaged.
    """
    return counter_for(settings.prompt, models_dir(workspace.config))
