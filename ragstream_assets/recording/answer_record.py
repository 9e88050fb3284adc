"""An answer's figures as an observation in Dagster, written behind it: never its words.

What was asked and said is in the conversation, where it can be cleared.
"""

from functools import partial

from ragstream_assets.instance import drop_instances, instance_of
from ragstream_assets.recorder import is_on
from ragstream_assets.recording.runs import one_run
from ragstream_assets.recording.writer import Recording, writer
from ragstream_core.answering.answer import Answer
from ragstream_core.build.workspace import Workspace

ANSWERS = ("history", "answers")


def record_answer(workspace: Workspace, answer: Answer, *, run_id: str = "") -> Recording | None:
    """Have an answer observed in Dagster, behind the run of its prompt; delays and fails nothing.

    Args:
        workspace: The data root.
        answer: To a prompt of the command line or the page.
        run_id: The run of its prompt, where there is one.

    Returns:
        What is to be written; None where nothing is: the prompt or the answer is not kept, or the
        settings ask for no runs.
    """
    if not (is_on(workspace) and answer.prompt_key and answer.session):
        return None
    recording = Recording()
    writer.submit(recording, partial(_observe, workspace, answer, run_id))
    return recording


def _observe(workspace: Workspace, answer: Answer, run_id: str) -> str:
    """Write the observation.

    Raises:
        Exception: Whatever is wrong with Dagster.
    """
    import dagster as dg

    usage = answer.usage
    known = {
        "prompt_key": answer.prompt_key,
        "prompt_run": run_id or None,
        "session": answer.session,
        "status": answer.status,
        "model": answer.model or None,
        "citations": len(answer.citations),
        "unverified_citations": sum(not citation.verified for citation in answer.citations),
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "cost_usd": answer.cost_usd,
        "total_cost_usd": answer.total_cost_usd,
    }
    metadata = {name: value for name, value in known.items() if value is not None}
    try:
        with one_run:
            instance_of(workspace.data_dir).report_runless_asset_event(
                dg.AssetObservation(dg.AssetKey(ANSWERS), metadata=metadata)
            )
    except Exception:
        drop_instances()
        raise
    return ""
