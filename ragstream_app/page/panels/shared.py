"""What the panels share: the workspace, the desk of the tab, its request, and its messages."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, assert_never

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.prompt_session import PromptSession
from ragstream_app.server.processes import HOST
from ragstream_app.session import Problem, describe
from ragstream_core.config import quiet_environment
from ragstream_core.errors import (
    Action,
    AddOption,
    AllowSecrets,
    ChooseProject,
    FreeSpace,
    InjectFile,
    RagstreamError,
    RunCommand,
    RunProgram,
    SetSetting,
    SetVariable,
    SwitchOff,
    TryAgain,
    on_the_command_line,
    worded,
)
from ragstream_core.settings.reading import CHAT_TASK

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.settings import ChainSettings
    from ragstream_core.wiring.workspace import Workspace


AS_OF_KEY = "as_of"
DIFFS_KEY = "diffs"
INJECT_KEY = "inject"
LOCK_KEY = "lock"
MODEL_KEY = "answer_model"
OFF_KEY = "files_off"
OTHERS_KEY = "other_settings"
PERSIST_KEY = "persist"
PROJECTS_KEY = "projects"
PROMPT_KEY = "prompt_text"
SESSION_KEY = "session"

# What the keys of the controls begin with that change a setting; its dotted name follows.
SETTING = "set "
SHOWN_KEY = "super_prompt_shown"
TASK_KEY = "task"


@st.cache_resource  # type: ignore[untyped-decorator]
def workspace() -> Workspace:
    """Return the process's workspace; models are loaded once, at the first stage that needs one."""
    from ragstream_core.wiring.workspace import open_workspace

    os.umask(0o077)
    quiet_environment()
    return open_workspace()


def desk() -> PromptSession:
    """Return the prompt of this tab on its way."""
    found: PromptSession = st.session_state.setdefault("desk", PromptSession())
    return found


def super_prompt_key() -> str:
    """Return the key of the Super-Prompt's text area, another one for each text that we put there.

    Under one key, what a browser sends before it has drawn the new text would be taken for an edit.
    """
    return f"super_prompt {st.session_state.get(SHOWN_KEY, 0)}"


def configured() -> AppConfig:
    """Return the settings under the chosen task profile: what the controls start from."""
    config: AppConfig = workspace().with_settings({}, task=task_now()).config
    return config


def task_now() -> str:
    """Return the chosen task profile, empty for none; the page begins with that of chats."""
    chosen: str = st.session_state.setdefault(TASK_KEY, CHAT_TASK)
    return chosen


def given(name: str) -> Any:
    """Return what a chain setting is before the page changes it.

    Args:
        name: Its dotted name.
    """
    return _value(configured().chain(), name)


def _value(settings: ChainSettings, name: str) -> Any:
    section, _, key = name.partition(".")
    return getattr(getattr(settings, section), key)


def changed_settings() -> dict[str, Any]:
    """Return the settings that the page's controls changed, dotted name → value.

    Raises:
        UnknownSetting: A line of the other settings is no ``name = value``.
    """
    from ragstream_core.config import parse_assignments

    state = st.session_state
    chosen = {
        str(key).removeprefix(SETTING): value
        for key, value in state.to_dict().items()  # at once: each key alone is a search
        if str(key).startswith(SETTING)
    }
    before = configured().chain()  # merged once, not once a control
    changed = {
        name: value for name, value in sorted(chosen.items()) if value != _value(before, name)
    }
    lines = [line for line in state.get(OTHERS_KEY, "").splitlines() if line.strip()]
    return {**changed, **parse_assignments(lines)}


def request_now(default: str = "") -> PromptRequest:
    """Return what the page asks for at this moment.

    Args:
        default: Text where the prompt's box is empty.

    Raises:
        EmptyPrompt: The prompt holds no word.
        UnknownSetting: A line of the other settings is no ``name = value``.
        UsageError: No project is chosen, or an older generation is asked of several.
    """
    from ragstream_core.prompts.inputs import PromptRequest

    state = st.session_state
    projects = tuple(state[PROJECTS_KEY])
    several = len(projects) > 1
    inject, diffs = (
        tuple(name if several else name.partition("/")[2] for name in state.get(key, []))
        for key in (INJECT_KEY, DIFFS_KEY)
    )
    kept = {} if state.get(PERSIST_KEY, True) else {"history.persist": False}
    return PromptRequest(
        text=state[PROMPT_KEY] or default,
        projects=projects,
        files=inject,
        diffs=diffs,
        off=tuple(sorted(n for n in state.get(OFF_KEY, set()) if n.partition("/")[0] in projects)),
        lock=bool(state.get(LOCK_KEY, False)),
        settings={**target(), **changed_settings(), **kept},
        task=task_now(),
        as_of=0 if several else int(state.get(AS_OF_KEY, 0)),
        session=state.get(SESSION_KEY, ""),
    )


def target() -> dict[str, Any]:
    """Return the model that was picked, as the one that the prompt is meant for."""
    picked = str(st.session_state.get(MODEL_KEY) or "")
    own = str(workspace().config.settings.provider.model)
    return {"prompt.model_target": picked} if picked not in ("", own) else {}


def stale() -> list[str]:
    """Return what the page asks for otherwise than the first stage took it in, by its own names."""
    try:
        return desk().stale(request_now())
    except RagstreamError:  # an emptied prompt is a change as well
        return ["text"] if desk().steps else []


def run_link(run_id: str, *, key: str) -> None:
    """Draw a link to a run's place in Dagster's UI; nothing where Dagster did not do the work.

    Args:
        run_id: May be empty.
        key: Of the widget.
    """
    if run_id:
        url = f"http://{HOST}:{workspace().config.settings.dagster.port}/runs/{run_id}"
        st.link_button(
            f"Run {run_id[:8]}", url, key=key, width="stretch", help="Opens the run in Dagster."
        )


def pick_row(
    table: str,
    rows: Mapping[str, Mapping[str, object]],
    *,
    height: int,
    columns: Mapping[str, object],
    order: Sequence[str] | None = None,
) -> str:
    """Draw a table of rows to choose one from; return the id of the chosen row, "" for none.

    Other rows make another table, in which the chosen row is chosen again: no choice slips to
    another row.

    Args:
        table: What is in it.
        rows: Id → what is shown.
        height: In pixels.
        columns: Name → how the column is drawn.
        order: Which columns are drawn; None: all.
    """
    state, ids, kept = st.session_state, list(rows), f"chosen {table}"
    key = f"{table} {hashlib.sha256(' '.join(ids).encode()).hexdigest()[:16]}"
    if key not in state and state.get(kept) in ids:
        state[key] = {"selection": {"rows": [ids.index(state[kept])]}}
    event = st.dataframe(
        list(rows.values()), key=key, hide_index=True, on_select="rerun",
        selection_mode="single-row", height=height, column_config=columns, column_order=order,
    )  # fmt: skip
    picked = event["selection"]["rows"]
    state[kept] = ids[picked[0]] if picked else ""
    return str(state[kept])


def report(error: BaseException | None) -> None:
    """Remember an error, shown by `show_reported`; None forgets the last one."""
    st.session_state["problem"] = (describe(error), _asked()) if error is not None else None


def _asked() -> tuple[object, ...]:
    """Return what the page is asked with: an error that was told of something else is stale."""
    state = st.session_state
    projects = tuple(state.get(PROJECTS_KEY, ()))
    return projects, state.get(PROMPT_KEY) or "", state.get(SESSION_KEY) or ""


@contextlib.contextmanager
def shown_errors(tell: Callable[[BaseException], None] | None = None) -> Iterator[None]:
    """Show an error that is raised inside, or tell it otherwise; the page goes on.

    Args:
        tell: What is done with the error instead.
    """
    try:
        yield
    except Exception as error:  # the error boundary of the page
        (tell or show_error)(error)


def reported_errors() -> AbstractContextManager[None]:
    """Forget the error that was reported last, and report one that is raised inside."""
    report(None)
    return shown_errors(report)


def show_reported() -> None:
    """Show the last error that was reported, until something else is asked for."""
    told: tuple[Problem, tuple[object, ...]] | None = st.session_state.get("problem")
    if told and told[1] != _asked():
        report(None)
    elif told:
        show_problem(told[0])


def show_notices() -> None:
    """Show what does not count of the settings files, and what to do about it."""
    for message, advice in workspace().config.notices():
        st.warning(literal(message) + f"  \nNext: {literal(worded(advice, on_the_page))}")


def show_error(error: BaseException) -> None:
    """Show an error as a message and the next step."""
    show_problem(describe(error))


def show_problem(problem: Problem) -> None:
    """Show what went wrong as plain text, and the next step in the words of the page."""
    hint = literal(worded(problem.advice, on_the_page)) if problem.advice else ""
    st.error(literal(problem.message) + (f"  \nNext: {hint}" if hint else ""))


def on_the_page(action: Action, *, alone: bool) -> str:
    """Return the words of the page; what only a terminal can do is said to be that.

    Args:
        action: What to do.
        alone: Whether it is the whole advice.
    """
    match action:
        case RunCommand("prompt") if alone:
            return "write into Prompt what you want to know"
        case RunCommand("ingest", project) if "--" not in project:
            return f"press Ingest Folder{project and f' of {project}'} in the sidebar"
        case RunCommand("project sync", project) if "--" not in project:
            return f"press Sync of {project} in the sidebar"
        case RunCommand() | RunProgram() | SetVariable():
            said = on_the_command_line(action, alone=True)
            return f"in a terminal: {said}" if alone else f"`{said}` in a terminal"
        case AddOption(option):
            return f"{option} on the command line"
        case SetSetting(name, value, lasting=False):
            return f"write {name} = {value} under Other settings in the sidebar"
        case SwitchOff(files):
            return f"switch {files} OFF under Files"
        case SetSetting() | FreeSpace():
            return on_the_command_line(action, alone=alone)
        case ChooseProject() | AllowSecrets() | InjectFile() | TryAgain():
            return _ON_THE_PAGE[type(action)]
        case _:
            assert_never(action)


_ON_THE_PAGE = {
    ChooseProject: "choose one under Projects in the sidebar",
    AllowSecrets: "choose “Send it even though it seems to contain secrets”",
    InjectFile: "choose it under Inject instead",
    TryAgain: "try it again",
}
