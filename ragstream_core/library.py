"""`RAGstream`: ingest, search, prompt and ask from Python, without Dagster and without a shell.

It stands on the services that the command line calls, so the same question gives the same prompt
under the same key. What is made here is kept like everything else, but no Dagster run is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from ragstream_core.errors import UsageError, worded
from ragstream_core.prompts.chain import OPS, last_op
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Answer
    from ragstream_core.conversations.sessions import HistoryTurn
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.prompts.replay import ReplayVerdict
    from ragstream_core.services.explain import Explanation
    from ragstream_core.services.search import SearchResult

__all__ = ["History", "PromptOptions", "RAGstream"]


class PromptOptions(TypedDict, total=False):
    """What `RAGstream.prompt` and `RAGstream.ask` may be told besides the question.

    Attributes:
        files: Paths to inject, ``path`` or ``project/path``.
        diffs: Paths whose changes since the last commit are shown.
        off: ``project/path`` of files to leave out.
        lock: Exact File Lock: nothing but ``files``.
        settings: Dotted setting → value, for this call.
        task: Name of a task profile.
        as_of: Generation to read, for one project; 0: the newest.
        session: The conversation that the question belongs to; empty: none.
    """

    files: Sequence[str]
    diffs: Sequence[str]
    off: Sequence[str]
    lock: bool
    settings: Mapping[str, Any]
    task: str
    as_of: int
    session: str


@dataclass(frozen=True, slots=True)
class History:
    """The conversations of a data root.

    Attributes:
        workspace: The data root.
    """

    workspace: Workspace

    def append(
        self,
        user: str,
        assistant: str = "",
        *,
        session: str = "",
        tags: Sequence[str] = (),
        projects: str | Sequence[str] = (),
        answers: str = "",
        importance: float = 0.0,
    ) -> HistoryTurn:
        """Keep one turn; when this returns it is on the disk.

        Args:
            user: What was asked.
            assistant: What was answered.
            session: The conversation; default: that of the answered prompt, or a new one.
            tags: GOLD, SILVER, BLUE or your own.
            projects: Projects whose prompts may use it; none: those of the answered prompt, else
                only its own conversation does, until it is adopted.
            answers: Key of the prompt that it answers, if it comes from another program; the turn's
                ``citations`` say which ones that prompt issued.
            importance: In [0, 1]; raises its rank.

        Raises:
            UsageError: No text, or a value that is not valid.
            UnknownPrompt: No prompt under that key.
            Refused: `history.persist` is off.
            ProjectLocked: Another process kept writing for 5 seconds.
            OperationFailed: Disk full or failing; the turn is not kept.
        """
        from ragstream_core.conversations.journal.records import OWN_PROJECTS, Turn
        from ragstream_core.conversations.sessions import HistoryTurn
        from ragstream_core.services import external_reply
        from ragstream_core.wiring import journal

        space = self.workspace
        named = session or (external_reply.prompt_session(space, answers) if answers else "")
        turn = Turn(
            "", named or journal.new_session(space), "", user, assistant,
            tags=tuple(tags), projects=_names(projects), importance=importance,
            used_in=OWN_PROJECTS,
        )  # fmt: skip
        if not answers:
            return HistoryTurn.of(journal.append_turn(space, turn))
        return HistoryTurn.of(external_reply.append_external(space, turn, answers=answers)[0])

    def show(
        self, session: str = "", *, tags: Sequence[str] = (), last: int = 0
    ) -> tuple[HistoryTurn, ...]:
        """Return turns in their order.

        Args:
            session: Only this conversation; "": all.
            tags: Only turns with all of these.
            last: Only so many, the newest; 0: all.

        Raises:
            IntegrityError: A newer version of the program wrote the journal.
        """
        from ragstream_core.wiring import journal

        return tuple(journal.show(self.workspace, session, tags=tags, last=last))

    def search(
        self, text: str, *, session: str = "", tags: Sequence[str] = (), k: int = 10
    ) -> tuple[HistoryTurn, ...]:
        """Return the turns that share most words with a text, the best first; no model is needed.

        Args:
            text: What is looked for.
            session: Only this conversation; "": all.
            tags: Only turns with all of these.
            k: At most so many, at least 1.

        Raises:
            UsageError: Nothing to look for, or ``k`` is below 1.
        """
        from ragstream_core.services.search import require_search, search_turns

        require_search(text, k)
        return search_turns(self.workspace, text, session=session, tags=tags, k=k)


class RAGstream:
    """A data root: its documents, its prompts and its conversations.

    Args:
        data_dir: The data root; default: as configured, else ``./data``.
        settings: Dotted setting → value, stronger than the configuration file and environment.
        config: A configuration file.
        task: Name of a task profile.

    Raises:
        UnknownSetting: A setting that does not exist or has a bad value.
        Refused: A settings file that nobody has confirmed says what cannot be left out.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        config: str | Path | None = None,
        task: str = "",
    ) -> None:
        path = Path(config) if config is not None else None
        self._workspace = open_workspace(
            data_dir, config_path=path, task=task, explicit=dict(settings or {})
        )
        for message, advice in self._workspace.notices():
            warnings.warn(f"{message}; next: {worded(advice)}", stacklevel=2)

    @property
    def data_dir(self) -> Path:
        """The data root."""
        return self._workspace.data_dir

    @property
    def history(self) -> History:
        """The conversations."""
        return History(self._workspace)

    def projects(self) -> tuple[str, ...]:
        """Return the names of the projects: the folders below ``doc_raw``, sorted."""
        return tuple(self._workspace.projects())

    def ingest(
        self,
        project: str,
        *,
        verify: bool = False,
        rebuild: bool = False,
        progress: PhaseProgress | None = None,
    ) -> IngestionStats:
        """Bring a project's index up to date with its folder.

        Args:
            project: Its name.
            verify: Hash every file and check every vector.
            rebuild: Start a new index; after a change of the model, or damage.
            progress: Called with (phase, done, total).

        Raises:
            UnknownProject: There is no such folder.
            ProjectLocked: Another process is writing it.
            ModelMismatch: The index was built by another model.
            RagstreamError: The index is damaged, or the model cannot be used.
        """
        from ragstream_core.services.ingest import ingest

        if verify and rebuild:
            raise UsageError("verify and rebuild exclude each other", hint="give one of them")
        return ingest(self._workspace, project, verify=verify, rebuild=rebuild, progress=progress)

    def search(self, text: str, projects: str | Sequence[str], *, k: int = 10) -> SearchResult:
        """Rank the chunks of projects for a text, without a prompt around it.

        Args:
            text: What is looked for.
            projects: One or more names.
            k: At most so many chunks, at least 1.

        Raises:
            UsageError: Nothing to look for, nowhere to look, or ``k`` is below 1.
            RagstreamError: Unknown project, damaged index, missing model.
        """
        from ragstream_core.services import search

        return search.search(self._workspace, text, _names(projects), k=k)

    def prompt(
        self,
        text: str,
        projects: str | Sequence[str],
        *,
        through: str = OPS[-1],
        fresh: bool = False,
        progress: PhaseProgress | None = None,
        **options: Unpack[PromptOptions],
    ) -> MadePrompt:
        """Turn a question into a Super-Prompt: evidence, files and rules, cited, within a budget.

        Args:
            text: The question.
            projects: One or more names.
            through: Stop after this stage or op; then nothing is kept.
            fresh: Run the chain also if the kept prompt is unchanged.
            progress: Called with (op, done, total) after each op.
            **options: As `PromptOptions`.

        Raises:
            RagstreamError: A wrong request, or a stage that refused or failed; nothing is kept.
        """
        request = _request(text, projects, options)
        return _made(self._workspace, request, progress, through=through, fresh=fresh)

    def ask(
        self,
        text: str,
        projects: str | Sequence[str],
        *,
        model: str = "",
        allow_secrets: bool = False,
        show: Callable[[str], object] | None = None,
        fresh: bool = False,
        progress: PhaseProgress | None = None,
        **options: Unpack[PromptOptions],
    ) -> Answer:
        """Answer a question from documents; citations are checked, and the turn is kept.

        If no language model can be reached, the answer is an extract of the documents, and its
        ``origin`` is ``extract``.

        Args:
            text: The question.
            projects: One or more names.
            model: Ask this model instead of `provider.model`.
            allow_secrets: Send it even if it seems to contain keys or passwords.
            show: Called with each piece of the answer as it comes.
            fresh: As `prompt`.
            progress: As `prompt`.
            **options: As `PromptOptions`.

        Raises:
            Refused: It seems to contain secrets, and they would leave this machine.
            ChatFailed: There is no answer; the question is kept.
            RagstreamError: As `prompt`.
        """
        from ragstream_core.services.choose_model import with_model_to_ask
        from ragstream_core.wiring import answering

        given = {"prompt.model_target": model} if model else {}
        request = _request(text, projects, options)
        request = replace(request, settings={**given, **request.settings})
        workspace = with_model_to_ask(self._workspace, model)
        made = _made(workspace, request, progress, fresh=fresh)
        prepared = answering.prepare(
            workspace,
            made.super_prompt,
            prompt_key=made.key,
            session=request.session,
            or_extract=True,
        )
        found = answering.answer(workspace, prepared, allow_secrets=allow_secrets, show=show)
        return replace(found, warnings=(*made.warnings, *found.warnings))

    def replay(self, key: str, *, live: bool = False) -> ReplayVerdict:
        """Make a kept prompt again from its inputs and compare the bytes.

        Args:
            key: Its key or the first 6 digits.
            live: Ask the language model again and compare its answers as well.

        Raises:
            UnknownPrompt: No such prompt.
            IntegrityError: Its record is damaged.
        """
        from ragstream_core.services.replay import replay_prompt

        return replay_prompt(self._workspace, self._workspace.store.find(key), live=live)

    def explain(self, key: str, *, chunk: str = "") -> Explanation:
        """Return why each candidate is in a kept prompt or is not.

        Args:
            key: Its key or the first 6 digits.
            chunk: Only this candidate: its id, its citation or a part of its path.

        Raises:
            UsageError: No such prompt, or no such candidate in it.
            RagstreamError: Its ledger is gone and cannot be made again.
        """
        from ragstream_core.services.explain import explanation

        return explanation(self._workspace, key, chunk=chunk)

    def __repr__(self) -> str:
        """Return the data root."""
        return f"RAGstream(data_dir={str(self.data_dir)!r})"


def _made(
    workspace: Workspace,
    request: PromptRequest,
    progress: PhaseProgress | None,
    *,
    through: str = OPS[-1],
    fresh: bool = False,
) -> MadePrompt:
    """Return the prompt of a request, with what changed since the last ingest and its cost."""
    from ragstream_core.wiring.ingestion import changed_files
    from ragstream_core.wiring.make_prompt import make_prompt, with_cost

    ops = OPS[: OPS.index(last_op(through)) + 1]

    def on_step(op: str, _: MadePrompt) -> None:
        if progress is not None:
            progress(op, ops.index(op) + 1, len(ops))

    changed = () if request.as_of else changed_files(workspace, request.projects)
    made = make_prompt(workspace, request, through=ops[-1], fresh=fresh, on_step=on_step)
    return with_cost(workspace, made, changed)


def _request(text: str, projects: str | Sequence[str], options: PromptOptions) -> PromptRequest:
    unknown = sorted(options.keys() - PromptOptions.__annotations__.keys())
    if unknown:
        raise UsageError(
            f"no such option: {', '.join(unknown)}",
            hint=f"one of: {', '.join(PromptOptions.__annotations__)}",
        )
    given: dict[str, Any] = {
        name: _names(cast("Sequence[str]", value)) if name in ("files", "diffs", "off") else value
        for name, value in options.items()
    }
    return PromptRequest(text=text, projects=_names(projects), **given)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return names without doubles; a single text is one name."""
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
