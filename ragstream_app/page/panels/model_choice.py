"""Who is asked and what that costs, before anything is sent; no model is contacted without a click.

The one exception: whether a model server of this machine is running is seen by knocking at its
port, and only once there is a prompt to send.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels.shared import (
    MODEL_KEY,
    TASK_KEY,
    changed_settings,
    reported_errors,
    target,
    workspace,
)

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Prepared
    from ragstream_core.ports import ChatModel

LISTED_KEY = "answer_models"
KNOCK_S = 0.3
MAX_LISTED = 500
HOW = "start one, e.g. `ollama serve`, or set provider.base_url and provider.model"


def chosen() -> str:
    """Return the name of the model that the page asks; empty where none is set."""
    return str(st.session_state.get(MODEL_KEY) or _configured())


def model() -> ChatModel:
    """Return the model that the page asks; nothing is contacted.

    Raises:
        RagstreamError: The provider's settings are wrong.
    """
    from ragstream_core.wiring.models import chat_model

    explicit = {"provider.model": chosen()} if chosen() != _configured() else {}
    return chat_model(workspace().with_settings(explicit).config)


def show(asked: ChatModel) -> None:
    """Draw the picker: the configured model, a name typed in, or what the endpoint lists.

    Args:
        asked: Who would be asked now.
    """
    listed: list[str] = st.session_state.get(LISTED_KEY, [])
    own = [name for name in (chosen(), _configured()) if name]
    picker, button = st.columns([3, 1], gap="small", vertical_alignment="bottom")
    names = sorted({*listed, *own})
    picker.selectbox(
        "Model",
        names,
        index=names.index(own[0]) if own else None,
        key=MODEL_KEY,
        accept_new_options=True,
        placeholder="List the models, or type a name",
        help="The prompt is built for it, within its window; agents follow provider.model.",
    )
    button.button(
        "List models",
        help=f"Asks {asked.host or 'the provider'} which models it has.",
        width="stretch",
        on_click=on_list,
    )


def on_list() -> None:
    """Ask the endpoint for its models and take the configured one, else the first that chats."""
    from ragstream_core.models.chat.endpoint_chat import chosen_model
    from ragstream_core.services.choose_model import asked_for_models

    with reported_errors():
        names = asked_for_models(workspace().config)
        st.session_state[MODEL_KEY] = chosen_model(chosen(), names)
        st.session_state[LISTED_KEY] = names[:MAX_LISTED]


def hindrance(asked: ChatModel) -> str:
    """Return why a model cannot be asked now and what to do; empty where it can."""
    if not asked.host:
        return ""
    if not chosen():
        return "No model is chosen: press List models, type a name, or set provider.model."
    if asked.is_local and not _is_up(asked.host):
        return f"No language model answers at {asked.host}: {HOW}."
    return ""


def tell(prepared: Prepared) -> None:
    """Say what is sent, where to and at what price."""
    asked = prepared.model
    if asked is None:
        st.text("There is nothing to answer from: no model is asked, the answer is a refusal.")
        return
    where = (
        f"to {asked.name} at {asked.host}" if asked.host else f"to {asked.name}, in this process"
    )
    sent = f"{len(prepared.messages)} messages, about {prepared.input_tokens:,} tokens, {where}"
    badge, line = st.columns([2, 5], gap="small", vertical_alignment="center")
    if asked.is_local:
        badge.badge("this machine", color="green")
    else:
        badge.badge("another machine", color="orange")
        sent += ": the question, the excerpts, files and conversation that the Super-Prompt shows"
    line.text(f"{sent}; {price(asked, prepared)}")


def expected() -> str:
    """Return which model a prompt is meant for and what it may take, before anything is built.

    Raises:
        RagstreamError: Wrong settings of the provider, or of the page.
    """
    from ragstream_app.output.budget import budget_line
    from ragstream_core.wiring.token_budget import estimate

    task = str(st.session_state.get(TASK_KEY, ""))
    explicit = {**target(), **changed_settings()}
    return budget_line(estimate(workspace().config.with_task(task, explicit=explicit)))


def price(asked: ChatModel, prepared: Prepared) -> str:
    """Return what sending costs, and what a long answer would add."""
    sent, answered = prepared.estimate_usd, asked.price(0, 1000)
    if sent is None or answered is None:
        return "price unknown: set provider.input_usd_per_mtok and provider.output_usd_per_mtok"
    if not sent and not answered:
        return "free"
    return f"about ${sent:.4f}, and ${answered:.4f} for each 1,000 tokens of the answer"


def secrets_allowed(prepared: Prepared) -> bool:
    """Show what seems to be a secret and would leave this machine; return whether it may."""
    if not prepared.secrets:
        return True
    from ragstream_core.ingestion.secrets import phrase

    st.warning(f"It seems to contain secrets: {literal(phrase(prepared.secrets))}")
    key = f"allow secrets {hash(prepared.messages)}"
    return bool(st.checkbox("Send it even though it seems to contain secrets", key=key))


def _configured() -> str:
    return str(workspace().config.settings.provider.model)


@st.cache_data(ttl=3.0, show_spinner=False)  # type: ignore[untyped-decorator]
def _is_up(host: str) -> bool:
    """Whether something takes connections at ``host:port``; nothing is sent."""
    name, _, port = host.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), timeout=KNOCK_S):
            return True
    except OSError:
        return False
