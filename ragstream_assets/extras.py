"""What a person starts now and then: map, test specification, weather, facts, agents' logs.

Dagster keeps figures, names of files and numbers of turns of them, and no words.
"""

import base64
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
from pydantic import Field

from ragstream_assets.documents import INDEX
from ragstream_assets.failures import RETRIES, chosen, reporter, short_errors, unattended
from ragstream_assets.metadata import Metadata, bar, bars, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec, partitioned_check, projects
from ragstream_core.maps.chunk_map import ChunkMap
from ragstream_core.maps.drawing import draw
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services import chunk_maps, inspect_index, neighbours
from ragstream_core.services import import_conversations as importing
from ragstream_core.services.inspect_index import IndexReport
from ragstream_core.services.neighbours import Anchor, Neighbour
from ragstream_core.services.test_specs import Kept, SpecRequest, unknown_requirements, write_kept
from ragstream_core.services.weather import look_up
from ragstream_core.weather.records import MAX_DAYS, MIN_DAYS, DaySummary, WeatherAnalysis
from ragstream_core.weather.words import day_text

if TYPE_CHECKING:
    from ragstream_core.wiring.fact_proposals import FoundFact


INSPECTION = "inspection"
MAP_VERSION = "1"
SIZE = (1000, 700)
"""Pixels: Dagster keeps the picture in its event log, so it is no larger than needed."""

ANCHORS, NEIGHBOURS = 10, 3


class MapConfig(dg.Config):
    """How the map is drawn."""

    method: str = Field(
        default="tsne", description="tsne keeps neighbours, pca the overall layout."
    )
    limit: int = Field(
        default=chunk_maps.LIMIT,
        ge=1,
        description="Maximum number of points; beyond it a fair sample.",
    )
    seed: int = Field(default=0, ge=0, description="The same seed draws the same map.")
    perplexity: float = Field(
        default=chunk_maps.PERPLEXITY,
        gt=0,
        description="About how many neighbours count, for tsne.",
    )


@dg.asset(
    key=[INSPECTION, "map"], deps=[INDEX.key], group_name=INSPECTION, partitions_def=projects,
    kinds={"image"}, owners=["team:ragstream"], code_version=MAP_VERSION,
)  # fmt: skip
def draw_project_map(
    context: dg.AssetExecutionContext, config: MapConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """What lies together in a project's index, what is nearest to what, how long its chunks are."""
    space, progress = workspace.open(), reporter(context.log.info, None)
    with short_errors():
        (project,) = chosen(context)
        request = chunk_maps.MapRequest(
            (project,), False, config.method, config.limit, config.seed, config.perplexity
        )
        version = chunk_maps.state(space, request)
        found = chunk_maps.draw(space, request, progress)
        near = neighbours.nearest(space, [project], anchors=ANCHORS, k=NEIGHBOURS, seed=config.seed)
        shown = {**_picture(found), **_map_figures(inspect_index.report(space, project))}
    rows = [_row(anchor, other) for anchor in near for other in anchor.neighbours]
    return dg.MaterializeResult(
        metadata={**shown, "neighbours": table(rows, "chunk", "cosine", "near")},
        data_version=dg.DataVersion(version),
    )


draw_map = dg.define_asset_job(
    "draw_map",
    selection=dg.AssetSelection.groups(INSPECTION),
    description="Draw the map of one project; about half a minute for 5,000 chunks.",
)


def _picture(found: ChunkMap) -> Metadata:
    code = base64.b64encode(draw(found, size=SIZE)).decode("ascii")
    return {
        "map": dg.MetadataValue.md(f"![map](data:image/png;base64,{code})"),
        "points": len(found.places),
        "method": found.method,
        "notes": "; ".join(found.notes) or "-",
    }


def _map_figures(report: IndexReport) -> Metadata:
    lengths = [(f"{b.low} to {b.high}", b.count) for b in report.tokens.histogram]
    findings = [finding.to_json() for finding in report.findings]
    return {
        "generation": report.generation,
        "chunks": report.chunks,
        "different_texts": report.texts,
        "repeated_chunks": report.repeated.chunks,
        "tokens_a_chunk": report.tokens.mean,
        "lengths": dg.MetadataValue.md(bars(lengths, name="tokens", unit="chunks")),
        "findings": len(findings),
        "what": table(findings, "check", "message"),
    }


def _row(anchor: Anchor, other: Neighbour) -> dict[str, str | float]:
    return {
        "chunk": _name(anchor),
        "cosine": round(other.score, 3),
        "near": _name(other),
    }


def _name(row: Anchor | Neighbour) -> str:
    return f"{row.source} #{row.chunk_id.rpartition('::')[2]}"


DOCUMENTATION = "documentation"
SPEC_JOB = "write_test_spec"
EXIST = "every_referenced_requirement_exists"
SPEC_KEY = dg.AssetKey([DOCUMENTATION, "test_spec"])


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
    key=SPEC_KEY, deps=[INDEX.key], group_name=DOCUMENTATION, partitions_def=projects,
    kinds={"markdown"}, owners=["team:ragstream"], code_version="1",
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
    EXIST, SPEC_KEY, "No case names a requirement that the documents do not have.", projects
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
        asset_key=SPEC_KEY,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "findings": len(unknown),
            "what": table([{"case": text} for text in unknown], "case"),
        },
    )


write_test_spec = dg.define_asset_job(
    SPEC_JOB,
    selection=dg.AssetSelection.groups(DOCUMENTATION),
    description="Write test cases for the requirements of one project; they keep their ids.",
)
DAY_COLUMNS = ("day", "mean", "coldest", "warmest", "three_days", "rain_mm", "wind_kmh", "unusual")
UNKNOWN = "–"


class WeatherConfig(dg.Config):
    """Whose weather."""

    city: str = Field(default="Berlin", description="The name of a city or place.")
    country: str = Field(default="", description="Such as DE or Germany; empty: any.")
    days: int = Field(default=7, ge=MIN_DAYS, le=MAX_DAYS, description="How many, today first.")
    explain: Literal["text", "llm"] = Field(
        default="text", description="`llm`: the configured language model explains the figures."
    )


@dg.op(out=dg.Out(dg.Nothing))
def report_weather(
    context: dg.OpExecutionContext, config: WeatherConfig, workspace: WorkspaceResource
) -> None:
    """Asks Open-Meteo's two hosts, at most 15 seconds, and explains the figures."""
    with short_errors(context.run_id):
        found = look_up(
            workspace.open(),
            config.city,
            config.days,
            country=config.country,
            explain=config.explain,
        )
    if found.problem:
        context.log.warning(f"no weather: {found.problem}")
    context.add_output_metadata(weather_metadata(found))


def weather_metadata(found: WeatherAnalysis) -> Metadata:
    """Return the days as a table and a chart, the explanation, or what went wrong."""
    every = found.overall
    shown: Metadata = {
        "place": dg.MetadataValue.text(found.place.label if found.place else found.city),
        "explanation": dg.MetadataValue.text(found.explanation),
        "explained_by": dg.MetadataValue.text(found.explained_by),
        "problem": dg.MetadataValue.text(found.problem or "-"),
        "warnings": dg.MetadataValue.text("; ".join(found.warnings) or "-"),
        "source": dg.MetadataValue.text(found.source),
        "other_places": dg.MetadataValue.text(
            "; ".join(f"{place.label} {place.position}" for place in found.alternatives) or "-"
        ),
    }
    if every is None:
        return shown
    return {
        **shown,
        "days": table([_day_row(day) for day in found.daily], *DAY_COLUMNS),
        "chart": dg.MetadataValue.md(_chart(found.daily)),
        "mean_c": round(every.avg_c, 2),
        "coldest_c": every.min_c,
        "warmest_c": every.max_c,
        "volatility_c": round(every.volatility_c, 2),
        "unusual_days": len(every.anomalies),
    }


def _day_row(day: DaySummary) -> dict[str, str | int | float]:
    return {
        "day": day_text(day.date),
        "mean": round(day.avg_c, 1),
        "coldest": day.min_c,
        "warmest": day.max_c,
        "three_days": _known(day.rolling_avg_c),
        "rain_mm": _known(day.precipitation_mm),
        "wind_kmh": _known(day.avg_wind_kmh),
        "unusual": "unusual" if day.anomaly else "",
    }


def _chart(days: tuple[DaySummary, ...]) -> str:
    """Return a Markdown table with a bar a day: how far its mean is above the coldest hour."""
    low, high = min(day.min_c for day in days), max(day.max_c for day in days)
    lines = [
        f"| {day_text(day.date)} | {day.avg_c:.1f} | {bar(day.avg_c - low, high - low)} | "
        f"{'unusual' if day.anomaly else ''} |"
        for day in days
    ]
    return "\n".join([f"| day | mean °C | from {low:.1f} to {high:.1f} °C | |",
                      "|---|--:|---|---|", *lines])  # fmt: skip


def _known(value: float | None) -> str | float:
    return UNKNOWN if value is None else round(value, 1)


@dg.job(executor_def=dg.in_process_executor)
def weather_report() -> None:
    """The weather of a city with figures, unusual days and an explanation; asks Open-Meteo."""
    report_weather()


FACTS_JOB = "remember_facts"
IN_MEMORY = "in_memory"
ASSET = ("memory", "facts")
FACTS_SPEC = asset_spec(
    ASSET,
    "What is remembered of what was said: `memory/USER_MEMORY.md` and `memory/COMPANY_MEMORY.md`. "
    "The job `remember_facts` looks for new ones, which wait until a person accepts them: "
    "`ragstream memory candidates`.",
    "markdown",
)
WAY = dg.Out(dg.Any, io_manager_key=IN_MEMORY, is_required=False)


class FactsConfig(dg.Config):
    """Which turns are read."""

    since: int = Field(default=0, description="Number of the last turn that is passed over.")
    upto: int = Field(default=0, description="Number of the last turn that is read; 0: all.")
    form: str = Field(
        default="", description="`rules` or `llm`; empty: `facts.form`, `rules` if it is off."
    )


@dg.op(out={"analysis": WAY})
def analyze(
    context: dg.OpExecutionContext, config: FactsConfig, workspace: WorkspaceResource
) -> Iterator[dg.Output[Any]]:
    """Finds facts in turns; gives nothing where no fact is sure enough."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        analysis = fact_proposals.analyze(
            workspace.open(), since=config.since, upto=config.upto, form=config.form
        )
    context.log.info(f"{analysis.turns} turns, {len(analysis.found)} facts looked at")
    for line in analysis.notes:
        context.log.warning(line)
    if analysis.writable:
        yield dg.Output(analysis, "analysis", metadata=found_metadata(analysis.found))


@dg.op(out={"fresh": WAY})
def deduplicate(
    context: dg.OpExecutionContext, workspace: WorkspaceResource, analysis: Any
) -> Iterator[dg.Output[Any]]:
    """Drops what is remembered or was proposed before; gives nothing where nothing is new."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        fresh = fact_proposals.deduplicate(workspace.open(), analysis.found)
    context.log.info(f"{sum(not row.why for row in fresh)} facts are new of {len(fresh)}")
    if any(not row.why for row in fresh):
        yield dg.Output(fresh, "fresh", metadata=found_metadata(fresh))


@dg.op(out=dg.Out(dg.Nothing))
def write(context: dg.OpExecutionContext, workspace: WorkspaceResource, fresh: Any) -> None:
    """Proposes what is left, in the journal; it waits there, or is accepted as the settings say."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        written = fact_proposals.write(workspace.open(), fresh)
    metadata = found_metadata(written)
    context.add_output_metadata(metadata)
    context.log_event(dg.AssetMaterialization(FACTS_SPEC.key, metadata=metadata))


@dg.job(name=FACTS_JOB, executor_def=dg.in_process_executor)
def remember_facts() -> None:
    """Look through turns for what is worth remembering."""
    write(deduplicate(analyze()))


def found_metadata(found: "Sequence[FoundFact]") -> Metadata:
    """Return the facts by turn, class and outcome; their words stay in the journal."""
    rows: list[Mapping[str, str | int | float]] = [
        {
            "turn": row.seq,
            "fact": row.fact[-8:] or "-",
            "about": row.candidate.target,
            "kind": row.candidate.kind or "-",
            "form": row.candidate.form,
            "confidence": row.candidate.confidence,
            "overlap": round(row.overlap, 2),
            "skipped": row.why.partition(":")[0] or "-",
        }
        for row in found
    ]
    columns = ("turn", "fact", "about", "kind", "form", "confidence", "overlap", "skipped")
    return {
        "facts": len(rows),
        "new": sum(not row.why for row in found),
        "candidates": table(rows, *columns),
    }


LOGS_JOB = "import_agent_logs"
AGENT_LOGS_SPEC = asset_spec(
    ("history", "agent_logs"),
    "Turns of coding agents' sessions, read from the folders of `paths.agent_logs` into the "
    "journal as the logs grow. The logs are only read.",
    "json",
)


@dg.op(out=dg.Out(dg.Nothing), retry_policy=RETRIES)
def follow_agent_logs(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Adds what is new in the logs to the journal."""
    with short_errors(again=unattended(context)):
        done = importing.follow_logs(workspace.open())
    added: Counter[str] = Counter()
    for row in done.conversations:
        added[row.format] += row.added
    rows: list[Mapping[str, str | int | float]] = [
        {"agent": name, "turns": count} for name, count in sorted(added.items())
    ]
    context.log_event(
        dg.AssetMaterialization(
            AGENT_LOGS_SPEC.key,
            metadata={
                "turns": done.added,
                "not answered yet": done.unfinished,
                "not read": len(done.problems),
                "sessions with secrets": len(done.secrets),
                "agents": table(rows, "agent", "turns"),
            },
        )
    )
    if done.problems:
        context.log.warning(
            f"{len(done.problems)} records of logs could not be read: "
            "`ragstream history import FOLDER --dry-run` names them"
        )
    if done.secrets:
        context.log.warning(
            f"{len(done.secrets)} sessions seem to hold secrets: `ragstream history sessions`"
        )


@dg.job(name=LOGS_JOB, executor_def=dg.in_process_executor)
def import_agent_logs() -> None:
    """Read what coding agents' logs hold since the last time."""
    follow_agent_logs()
