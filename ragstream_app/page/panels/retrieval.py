"""The retrieval settings of the next prompt, and which agents take part or ask a language model."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.page.panels.shared import (
    AS_OF_KEY,
    OTHERS_KEY,
    PROJECTS_KEY,
    SETTING,
    TASK_KEY,
    changed_settings,
    configured,
    given,
    shown_errors,
    task_now,
    workspace,
)
from ragstream_core.errors import UnknownSetting
from ragstream_core.settings import SECTIONS

if TYPE_CHECKING:
    from ragstream_core.settings.prompts import GateConfig, RerankConfig


@dataclass(frozen=True, slots=True)
class Control:
    """One number that people change often.

    Attributes:
        name: Dotted name of the setting.
        label: For people.
        step: Of the control; an integer for whole numbers.
        low: Least value.
        high: Largest value.
        slider: Drawn as a slider, else as a number.
    """

    name: str
    label: str
    step: float
    low: float
    high: float
    slider: bool = False


CONTROLS = (
    Control("retrieval.dense_weight", "BM25 ↔ semantic", 0.05, 0.0, 1.0, slider=True),
    Control("rerank.keep", "Top-K", 1, 0, 1000),
    Control("retrieval.min_score", "Minimum similarity", 0.05, -1.0, 1.0),
    Control("prompt.budget_tokens", "Token budget", 500, 200, 1_000_000),
    Control("retrieval.max_context_tokens", "Context tokens", 500, 50, 1_000_000),
    Control("gate.theta", "Gate strictness", 0.05, -1.0, 1.0),
    Control("gate.keep_top", "Keep at least", 1, 0, 100),
)


def show() -> None:
    """Draw the settings, what ranks and judges, and what else can be changed."""
    changed = changes()
    with st.expander(f"Retrieval ({len(changed)} changed)" if changed else "Retrieval"):
        _task()
        draw(CONTROLS[0])
        for left, right in zip(CONTROLS[1::2], CONTROLS[2::2], strict=True):
            for column, control in zip(st.columns(2, gap="small"), (left, right), strict=True):
                with column:
                    draw(control)
        _evidence()
        _as_of()
        _others()
        st.button(
            "Reset",
            key="reset settings",
            on_click=reset,
            width="stretch",
            disabled=not changed,
            help="Back to the configuration: retrieval, agents and the other settings.",
        )
        st.text(engines_now())


def draw(control: Control) -> None:
    """Draw one control.

    It begins with its value, which is not put into the session: a browser that has not yet drawn
    the control when the page is drawn again would take the least value for it, and send that.
    """
    kind = int if isinstance(control.step, int) else float
    configured_now = kind(given(control.name))
    make: Any = st.slider if control.slider else st.number_input
    make(
        control.label,
        min_value=kind(control.low),
        max_value=max(kind(control.high), configured_now),  # a setting may have no upper bound
        value=configured_now,
        step=kind(control.step),
        key=SETTING + control.name,
        help=help_of(control.name),
    )


def help_of(name: str) -> str:
    """Return a setting's description and its dotted name.

    Args:
        name: The dotted name.
    """
    section, _, key = name.partition(".")
    return f"{SECTIONS[section].model_fields[key].description} Setting `{name}`."


def changes() -> dict[str, Any]:
    """Return what the controls changed; a line that is no setting counts as none."""
    try:
        return changed_settings()
    except UnknownSetting:  # said where it stands, and again when a button is pressed
        return {"": ""}


def reset() -> None:
    """Let every control show what the configuration, with its task profile, says."""
    for key in [str(key) for key in st.session_state if str(key).startswith(SETTING)]:
        st.session_state[key] = given(key.removeprefix(SETTING))
    st.session_state[OTHERS_KEY] = ""
    st.session_state[AS_OF_KEY] = 0


def engines_now() -> str:
    """Return what reranks and judges under the settings of this moment, a wrong one left out."""
    from ragstream_core.config import overlay

    chain = configured().chain()
    with contextlib.suppress(Exception):  # said where it stands
        chain = overlay(chain, changed_settings())
    lines: str = engines(chain.rerank, chain.gate)
    return lines


@st.cache_data(ttl=60.0)  # type: ignore[untyped-decorator]
def engines(rerank: RerankConfig, gate: GateConfig) -> str:
    """Return in a few lines what reranks and what judges, and how to get better ones.

    Args:
        rerank: Settings of the reranker.
        gate: Settings of the gate.
    """
    from ragstream_core.wiring import models

    config = workspace().config
    names = (models.reranker_name(config, rerank), models.gate_name(config, gate))
    free = any(name in models.MODEL_FREE for name in names)
    lines = [f"Reranker: {_engine(names[0])}", f"Gate: {_engine(names[1])}"]
    waiting = models.unmeasured_gate(config, gate)
    if waiting:
        lines.append(f"{waiting} is here, not measured: ragstream eval gate PROJECT")
    better = "Better ones, in a terminal: ragstream models pull"
    return "\n".join([*lines, *([better] if free and not waiting else [])])


def _engine(name: str) -> str:
    from ragstream_core.wiring.models import MODEL_FREE

    return f"{name} (model-free)" if name in MODEL_FREE else name


def _task() -> None:
    tasks = ["", *sorted(workspace().config.tasks)]
    task = task_now()  # the page's own, before there is a choice
    if len(tasks) > 1:
        st.selectbox(
            "Task profile",
            tasks,
            index=tasks.index(task) if task in tasks else 0,
            key=TASK_KEY,
            format_func=lambda name: name or "none",
            on_change=reset,
            help="A named set of settings; choosing one sets the controls to its values.",
        )


EVIDENCE = "retrieval.evidence"
ENDS = {"tight": "where the evidence ends", "full": "where the budget ends"}


def _evidence() -> None:
    st.selectbox(
        "Stop adding passages",
        list(ENDS),
        index=list(ENDS).index(given(EVIDENCE)),
        key=SETTING + EVIDENCE,
        format_func=ENDS.__getitem__,
        help=help_of(EVIDENCE),
    )


def _as_of() -> None:
    if len(st.session_state[PROJECTS_KEY]) == 1:
        st.number_input(
            "Index version",
            min_value=0,
            step=1,
            key=AS_OF_KEY,
            help="Reads an older version of the project's index, as it was then; 0 is the newest.",
        )


def _others() -> None:
    st.text_area(
        "Other settings",
        key=OTHERS_KEY,
        height=70,
        placeholder="retrieval.tau = 6",
        help="One `name = value` a line; `ragstream config show` lists the names.",
    )
    from ragstream_core.config import overlay

    with shown_errors():
        overlay(configured().chain(), changed_settings())


# Label, setting of the toggle, setting of the form; empty where there is none.
AGENTS = (
    ("A1 Files", "agents.a1", ""),
    ("A2 Shaper", "agents.a2", "agents.a2_form"),
    ("A3 Gate", "agents.a3", "agents.a3_form"),
    ("A4 Condenser", "agents.a4", "agents.a4_form"),
    ("Audit", "", "agents.audit_form"),
)
FORMS = {"deterministic": "rules", "llm": "LLM"}


def show_agent_choice() -> None:
    """Draw a toggle an agent, and the form of those that have two."""
    names = [name for row in AGENTS for name in row[1:] if name]
    off = sum(st.session_state.get(SETTING + name, given(name)) is False for name in names)
    ready = model_configured()
    with st.expander(f"Agents ({off} off)" if off else "Agents"):
        for label, toggle, form in AGENTS:
            left, right = st.columns([3, 2], gap="small", vertical_alignment="center")
            if toggle:
                left.toggle(label, value=given(toggle), key=SETTING + toggle, help=help_of(toggle))
            else:
                left.text(label)
            if form:
                right.selectbox(
                    f"Form of {label}",
                    list(FORMS),
                    index=list(FORMS).index(given(form)),
                    key=SETTING + form,
                    format_func=FORMS.__getitem__,
                    label_visibility="collapsed",
                    disabled=not ready,
                )
        st.text(
            "LLM asks the language model; if it fails, the rules decide."
            if ready
            else "The form LLM needs a language model:\nset provider.model in ragstream.yaml"
        )


def model_configured() -> bool:
    """Whether a language model was chosen; the default one is never contacted unasked."""
    origin = workspace().config.origin
    return any(where != "default" for name, where in origin.items() if name.startswith("provider."))
