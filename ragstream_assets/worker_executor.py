"""The executor of `embed_texts`: this process, processes of this machine, workers, or Kubernetes.

Celery and dagster-k8s are imported if their branch is chosen, and not before.
"""

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from importlib import metadata, util

import dagster as dg

from ragstream_core.errors import ExtraMissing, RunProgram, UnknownSetting

JOB = "embed_texts"
PLAN_OP = "plan"


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
                "k8s": dg.Permissive(),  # type: ignore[no-untyped-call]
            }
        ),
        default_value={"in_process": {}},
        description="Where batches are embedded: `celery`: by the workers of `embeddings.broker`; "
        "`k8s`: each step by a Kubernetes job, with the options of dagster-k8s' executor.",
    ),
    requirements=_requirements,
)
def here_or_workers(init_context: dg.InitExecutorContext) -> dg.Executor:
    """Run the steps here, in processes of this machine, on workers of a broker, or as k8s jobs.

    Raises:
        ExtraMissing: The executor's package is not installed.
        UnknownSetting: It has no such option.
    """
    ((chosen, given),) = init_context.executor_config.items()
    if chosen == "celery":
        from ragstream_assets.celery_executor import CeleryWorkersExecutor

        return CeleryWorkersExecutor()
    if chosen == "k8s":
        made = _of_kubernetes(given if isinstance(given, dict) else {})
    else:
        made = dg.in_process_executor if chosen == "in_process" else dg.multiprocess_executor
    config = {"retries": {"enabled": {}}, **(given if isinstance(given, dict) else {})}
    creation = made.executor_creation_fn
    assert creation is not None
    return creation(init_context._replace(executor_config=config))


def _of_kubernetes(options: Mapping[str, object]) -> dg.ExecutorDefinition:
    """Return the executor of dagster-k8s, after a look at its options."""
    if util.find_spec("dagster_k8s") is None:
        wanted = "dagster-k8s"
        for package in ("dagster-celery", "dagster-postgres"):  # they go along with one Dagster
            with contextlib.suppress(metadata.PackageNotFoundError):
                wanted = f"dagster-k8s=={metadata.version(package)}"
        raise ExtraMissing(
            "the executor k8s needs the package dagster-k8s: it is not installed",
            hint=RunProgram(f"pip install {wanted}"),
        )
    found: dg.ExecutorDefinition = importlib.import_module("dagster_k8s").k8s_job_executor
    known: Mapping[str, object] = getattr(found.config_schema.as_field().config_type, "fields", {})
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UnknownSetting(
            f"the executor k8s has no option {', '.join(unknown)}",
            hint=f"its options are {', '.join(sorted(known))}",
        )
    return found
