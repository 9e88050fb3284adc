"""Asset group `documentation`: test cases for the requirements in one project's documents."""

import functools

import dagster as dg
from pydantic import Field

from ragstream_assets.document_assets import INDEX
from ragstream_assets.failures import chosen, reporter, short_errors
from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import partitioned_check, projects
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.test_specs import Kept, SpecRequest, unknown_requirements, write_kept

GROUP = "documentation"
JOB = "write_test_spec"
EXIST = "every_referenced_requirement_exists"
KEY = dg.AssetKey([GROUP, "test_spec"])


class TestSpecConfig(dg.Config):
    """What is written, and how."""

    __test__ = False  # no test of pytest's

    requirements: list[str] = Field(default=[], description="Only these ids; empty: all.")
    pattern: str = Field(
        default="", description="What an id looks like; empty: documentation.requirement_pattern."
    )
    form: str = Field(
        default="", description="`deterministic` or `llm`; empty: documentation.form."
    )


@dg.asset(
    key=KEY, deps=[INDEX.key], group_name=GROUP, partitions_def=projects, kinds={"markdown"},
    owners=["team:ragstream"], code_version="1",
)  # fmt: skip
def test_spec(
    context: dg.AssetExecutionContext, config: TestSpecConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Test cases with their sources, and which requirement has one: `specs/<project>`."""
    progress = functools.partial(reporter(context.log.info, None), "requirements")
    with short_errors():
        (project,) = chosen(context)
        request = SpecRequest(
            project, tuple(config.requirements), config.pattern, form=config.form, renew=True
        )
        kept = write_kept(workspace.open(), request, progress=progress)
    version = dg.DataVersion(sha256_hex(kept.markdown))
    return dg.MaterializeResult(metadata=spec_metadata(kept), data_version=version)


def spec_metadata(kept: Kept) -> Metadata:
    """Return how many requirements have a case, the coverage table, and where the file lies."""
    rows = [
        {
            "requirement": row.requirement,
            "cases": ", ".join(row.cases) or "-",
            "defined": row.defined or "-",
            "state": row.state,
        }
        for row in kept.spec.coverage
    ]
    found = f"no document defines a requirement id like {kept.spec.pattern}"
    return {
        "requirements": len(rows),
        "with_a_case": sum(bool(row.cases) for row in kept.spec.coverage),
        "cases": len(kept.spec.cases) + len(kept.spec.kept),
        "states": ", ".join(f"{n} {state}" for state, n in kept.spec.counts.items()) or found,
        "changed": kept.changed,
        "coverage": table(rows, "requirement", "cases", "defined", "state"),
        "generation": kept.spec.generation,
        "file": dg.MetadataValue.path(str(kept.path)),
    }


_EXIST = partitioned_check(
    EXIST, KEY, "No case names a requirement that the documents do not have.", projects
)


@dg.multi_asset_check(name="test_spec_check", specs=[_EXIST])
def test_spec_check(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    """Look up every requirement that one project's specification names."""
    with short_errors():
        unknown = unknown_requirements(workspace.open(), context.partition_key)
    return dg.AssetCheckResult(
        passed=not unknown,
        check_name=EXIST,
        asset_key=KEY,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "findings": len(unknown),
            "what": table([{"case": text} for text in unknown], "case"),
        },
    )


write_test_spec = dg.define_asset_job(
    JOB,
    selection=dg.AssetSelection.groups(GROUP),
    description="Write test cases for the requirements of one project; they keep their ids.",
)
