"""What a person starts now and then: map, test specification, weather, facts.

Dagster keeps figures, names of files and numbers of turns of them, and no words: those of
conversations would outlive their clearing. So the map here holds no conversations; the one that
does is drawn by `ragstream index tsne` and on the page.
"""

import base64
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
from pydantic import Field

from ragstream_assets.documents import INDEX
from ragstream_assets.failures import chosen, reporter, short_errors
from ragstream_assets.metadata import Metadata, joined, table
from ragstream_assets.resources import Run, WorkspaceResource
from ragstream_assets.specs import OWNERS, asset_spec, check_result, project_check, projects
from ragstream_core.maps.drawing import draw
from ragstream_core.records.identity import sha256_hex, shown_name
from ragstream_core.services import chunk_maps, inspect_index
from ragstream_core.services.specifications import (
    SpecRequest,
    unknown_requirements,
    write_kept,
)
from ragstream_core.services.weather import look_up
from ragstream_core.weather.records import MAX_DAYS, MIN_DAYS, DaySummary, WeatherAnalysis
from ragstream_core.weather.words import day_text

if TYPE_CHECKING:
    from ragstream_core.wiring.fact_proposals import FoundFact

INSPECTION, DOCUMENTATION = "inspection", "documentation"

# Pixels: Dagster keeps the picture in its event log, so it is no larger than needed.
SIZE = (1000, 700)
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
    kinds={"image"}, owners=OWNERS, code_version="1",
)  # fmt: skip
def draw_project_map(
    context: dg.AssetExecutionContext, config: MapConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """What lies together in a project's index, what is nearest to what, how long its chunks are."""
    space = workspace.open()
    with short_errors():
        (project,) = chosen(context)
        request = chunk_maps.MapRequest(
            (project,), False, config.method, config.limit, config.seed, config.perplexity
        )
        version = chunk_maps.state(space, request)
        drawn = chunk_maps.draw(space, request, reporter(context))
        picture = base64.b64encode(draw(drawn, size=SIZE)).decode("ascii")
        near = chunk_maps.nearest(space, [project], anchors=ANCHORS, k=NEIGHBOURS, seed=config.seed)
        report = inspect_index.report(space, project)
    rows = [
        (shown_name(anchor.chunk_id), round(other.score, 3), shown_name(other.chunk_id))
        for anchor in near
        for other in anchor.neighbours
    ]
    lengths = [(f"{b.low} to {b.high}", b.count) for b in report.tokens.histogram]
    findings = [(row.check, row.message) for row in report.findings]
    return dg.MaterializeResult(
        metadata={
            "map": dg.MetadataValue.md(f"![map](data:image/png;base64,{picture})"),
            "points": len(drawn.places),
            "method": drawn.method,
            "notes": joined(drawn.notes),
            "generation": report.generation,
            "chunks": report.chunks,
            "different_texts": report.texts,
            "repeated_chunks": report.repeated.chunks,
            "tokens_a_chunk": report.tokens.mean,
            "lengths": table(("tokens", "chunks"), lengths),
            "findings": len(findings),
            "what": table(("check", "message"), findings),
            "neighbours": table(("chunk", "cosine", "near"), rows),
        },
        data_version=dg.DataVersion(version),
    )


draw_map = dg.define_asset_job(
    "draw_map",
    selection=dg.AssetSelection.groups(INSPECTION),
    description="Draw the map of one project; about half a minute for 5,000 chunks.",
)


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
    kinds={"markdown"}, owners=OWNERS, code_version="1",
)  # fmt: skip
def test_spec(
    context: dg.AssetExecutionContext, config: TestSpecConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Test cases with their sources, and which requirement has one: `specs/<project>`."""
    progress = functools.partial(reporter(context), "requirements")
    with short_errors():
        (project,) = chosen(context)
        request = SpecRequest(
            project, tuple(config.requirements), config.pattern, form=config.form, renew=True
        )
        kept = write_kept(workspace.open(), request, progress=progress)
    spec = kept.spec
    rows = [
        (row.requirement, ", ".join(row.cases) or "-", row.defined or "-", row.state)
        for row in spec.coverage
    ]
    none = f"no document defines a requirement id like {spec.pattern}"
    return dg.MaterializeResult(
        metadata={
            "requirements": len(rows),
            "with_a_case": sum(bool(row.cases) for row in spec.coverage),
            "cases": len(spec.cases) + len(spec.kept),
            "states": ", ".join(f"{n} {state}" for state, n in spec.counts.items()) or none,
            "changed": kept.changed,
            "coverage": table(("requirement", "cases", "defined", "state"), rows),
            "generation": spec.generation,
            "file": dg.MetadataValue.path(str(kept.path)),
        },
        data_version=dg.DataVersion(sha256_hex(kept.markdown)),
    )


@dg.multi_asset_check(
    name="test_spec_check",
    specs=[
        project_check(
            EXIST, SPEC_KEY, "No case names a requirement that the documents do not have."
        )
    ],
)
def test_spec_check(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    """Look up every requirement that one project's specification names."""
    with short_errors():
        unknown = unknown_requirements(workspace.open(), context.partition_key)
    return check_result(EXIST, SPEC_KEY, ("case",), [(text,) for text in unknown])


write_test_spec = dg.define_asset_job(
    "write_test_spec",
    selection=dg.AssetSelection.groups(DOCUMENTATION),
    description="Write test cases for the requirements of one project; they keep their ids.",
)
DAY_COLUMNS = ("day", "mean", "coldest", "warmest", "three_days", "rain_mm", "wind_kmh", "unusual")


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
    context: dg.OpExecutionContext, config: WeatherConfig, workspace: WorkspaceResource, run: Run
) -> None:
    """Asks Open-Meteo's two hosts, at most 15 seconds, and explains the figures.

    Where it cannot be reached the run succeeds and says so.
    """
    with short_errors(run):
        weather = look_up(
            workspace.open(),
            config.city,
            config.days,
            country=config.country,
            explain=config.explain,
        )
    if weather.problem:
        context.log.warning(f"no weather: {weather.problem}")
    context.add_output_metadata(weather_metadata(weather))


def weather_metadata(weather: WeatherAnalysis) -> Metadata:
    """Return the days as a table and the explanation, or what went wrong; plain text throughout."""
    every = weather.overall
    shown: Metadata = {
        "place": weather.place.label if weather.place else weather.city,
        "explanation": weather.explanation,
        "explained_by": weather.explained_by,
        "problem": weather.problem or "-",
        "warnings": joined(weather.warnings),
        "source": weather.source,
        "other_places": joined(f"{p.label} {p.position}" for p in weather.alternatives),
    }
    if every is None:
        return shown
    return {
        **shown,
        "days": table(DAY_COLUMNS, map(_day_row, weather.daily)),
        "mean_c": round(every.avg_c, 2),
        "coldest_c": every.min_c,
        "warmest_c": every.max_c,
        "volatility_c": round(every.volatility_c, 2),
        "unusual_days": len(every.anomalies),
    }


def _day_row(day: DaySummary) -> tuple[str | float, ...]:
    maybe = (day.rolling_avg_c, day.precipitation_mm, day.avg_wind_kmh)
    return (
        day_text(day.date),
        round(day.avg_c, 1),
        day.min_c,
        day.max_c,
        *("–" if value is None else round(value, 1) for value in maybe),
        "unusual" if day.anomaly else "",
    )


@dg.job(executor_def=dg.in_process_executor)
def weather_report() -> None:
    """The weather of a city with figures, unusual days and an explanation; asks Open-Meteo."""
    report_weather()


IN_MEMORY = "in_memory"
FACTS_SPEC = asset_spec(
    ("memory", "facts"),
    "What is remembered of what was said: `memory/USER_MEMORY.md` and `memory/COMPANY_MEMORY.md`. "
    "The job `remember_facts` looks for new ones, which wait until a person accepts them: "
    "`ragstream memory candidates`.",
    "markdown",
)

# Not given is a skip, not a failure. What users said passes in memory alone.
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
        yield dg.Output(analysis, "analysis", metadata=facts_metadata(analysis.found))


@dg.op(out={"fresh": WAY})
def deduplicate(
    context: dg.OpExecutionContext, workspace: WorkspaceResource, analysis: Any
) -> Iterator[dg.Output[Any]]:
    """Drops what is remembered or was proposed before; gives nothing where nothing is new."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        facts = fact_proposals.deduplicate(workspace.open(), analysis.found)
    new = sum(not fact.why for fact in facts)
    context.log.info(f"{new} facts are new of {len(facts)}")
    if new:
        yield dg.Output(facts, "fresh", metadata=facts_metadata(facts))


@dg.op(out=dg.Out(dg.Nothing))
def write(context: dg.OpExecutionContext, workspace: WorkspaceResource, fresh: Any) -> None:
    """Proposes what is left, in the journal; it waits there, or is accepted as the settings say."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        written = fact_proposals.write(workspace.open(), fresh)
    metadata = facts_metadata(written)
    context.add_output_metadata(metadata)
    context.log_event(dg.AssetMaterialization(FACTS_SPEC.key, metadata=metadata))


@dg.job(executor_def=dg.in_process_executor)
def remember_facts() -> None:
    """Look through turns for what is worth remembering."""
    write(deduplicate(analyze()))


def facts_metadata(facts: "Sequence[FoundFact]") -> Metadata:
    """Return the facts by turn, class and outcome; their words stay in the journal."""
    columns = ("turn", "fact", "about", "kind", "form", "confidence", "overlap", "skipped")
    rows = [
        (
            fact.seq,
            fact.fact[-8:] or "-",
            fact.candidate.target,
            fact.candidate.kind or "-",
            fact.candidate.form,
            fact.candidate.confidence,
            round(fact.overlap, 2),
            fact.why.partition(":")[0] or "-",
        )
        for fact in facts
    ]
    return {
        "facts": len(facts),
        "new": sum(not fact.why for fact in facts),
        "candidates": table(columns, rows),
    }
