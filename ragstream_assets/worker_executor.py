"""The executor of `embed_texts`: this process, processes of this machine, or Celery workers.

Celery is imported if its branch is chosen, and not before.
"""

from collections.abc import Mapping, Sequence

import dagster as dg


def _requirements(config: Mapping[str, object]) -> Sequence[dg.ExecutorRequirement]:
    return [] if "in_process" in config else dg.multiple_process_executor_requirements()


@dg.executor(
    name="here_or_workers",
    config_schema=dg.Field(
        dg.Selector(  # type: ignore[no-untyped-call]
            {
                "in_process": {},
                "multiprocess": {"max_concurrent": dg.Field(int, default_value=2)},
                "celery": {},
            }
        ),
        default_value={"in_process": {}},
        description="Where batches are embedded: `celery`: by the workers of `embeddings.broker`.",
    ),
    requirements=_requirements,
)
def here_or_workers(init_context: dg.InitExecutorContext) -> dg.Executor:
    """Run the steps here, in processes of this machine, or on the workers of a broker."""
    ((chosen, given),) = init_context.executor_config.items()
    if chosen == "celery":
        from ragstream_assets.celery_executor import CeleryWorkersExecutor

        return CeleryWorkersExecutor()
    made = dg.in_process_executor if chosen == "in_process" else dg.multiprocess_executor
    config = {"retries": {"enabled": {}}, **(given if isinstance(given, dict) else {})}
    creation = made.executor_creation_fn
    assert creation is not None
    return creation(init_context._replace(executor_config=config))
