"""The job `answer_question`: the query job, one op that asks the language model, and the append.

An op that failed would look as if there were no prompt: where the model gives no answer the run
succeeds and says so (R-212). Its words stand in the conversation only: `ragstream history show`.
"""

import dagster as dg
from pydantic import Field

from ragstream_assets.failures import short_errors
from ragstream_assets.launchpad import FROM_RUN_MEANS
from ragstream_assets.metadata import Metadata, table, usd
from ragstream_assets.query_job import IN, through_chain
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import EVENT_ID, asset_spec
from ragstream_core.answers.answer import Answer
from ragstream_core.prompts.store import key_of
from ragstream_core.records import SuperPrompt
from ragstream_core.services.made_since import last_answer
from ragstream_core.wiring.answering import attempt, prepare

JOB = "answer_question"
ANSWERS = ("history", "answers")
ANSWERS_SPEC = asset_spec(
    ANSWERS,
    "The answers of `ragstream ask` and the page: which prompt, model, tokens, cost and citations. "
    "Their words are in the conversation only.",
    "text",
)


class AnswerConfig(dg.Config):
    """How a prompt is answered."""

    session: str = Field(
        default="", description="The conversation that it is kept in; empty: the prompt's own."
    )
    allow_secrets: bool = Field(
        default=False, description="Send it even if it seems to contain keys or passwords."
    )
    from_run: str = Field(default="", description=FROM_RUN_MEANS)


@dg.op(out=dg.Out(dg.Nothing), ins={"prompt": IN})
def answer(
    context: dg.OpExecutionContext,
    config: AnswerConfig,
    workspace: WorkspaceResource,
    prompt: SuperPrompt,
) -> None:
    """Asks the language model; the answer is checked and kept in the conversation."""
    space = workspace.open()
    with short_errors(context.run_id):
        prepared = prepare(space, prompt, prompt_key=key_of(prompt), session=config.session)
        found = attempt(space, prepared, allow_secrets=config.allow_secrets)
        turn = last_answer(space, found.prompt_key, found.session)
    shown = answer_metadata(found)
    context.add_output_metadata(shown)
    if turn:
        figures = {name: value for name, value in shown.items() if name != "citations"}
        context.log_event(
            dg.AssetObservation(ANSWERS_SPEC.key, metadata=figures | {EVENT_ID: turn})
        )


def answer_metadata(found: Answer) -> Metadata:
    """Return how long the answer is, where it is kept, its citations, and what it took."""
    usage = found.usage
    return {
        "characters": len(found.text),
        "status": found.status,
        "citations": table(
            [
                {"id": c.id, "source": c.source, "verified": c.verified, "reason": c.reason}
                for c in found.citations
            ],
            "id", "source", "verified", "reason",
        ),
        "model": found.model or "none was asked",
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "cost_usd": usd(usage.cost_usd if usage else None),
        "total_cost_usd": usd(found.total_cost_usd),
        "session": found.session,
        "warnings": dg.MetadataValue.text("; ".join(found.warnings) or "-"),
    }  # fmt: skip


@dg.job(name=JOB, executor_def=dg.in_process_executor)
def answer_question() -> None:
    """One answer to a request: the Super-Prompt stage by stage, then the language model."""
    answer(through_chain())
