"""The view *Evaluation*: how well a project's gold questions are answered, as tables and plots.

Nothing runs without a click. The same figures come from `ragstream eval` and Dagster's group
`evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ragstream_app.page.jobs.background import BackgroundJob, Report
from ragstream_app.page.panels.chat_state import VIEW_KEY
from ragstream_app.page.panels.notices import follow
from ragstream_app.page.panels.shared import PROJECTS_KEY, show_error, workspace

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from ragstream_core.evaluation import faithfulness
    from ragstream_core.evaluation.prompt_quality import PromptReport
    from ragstream_core.evaluation.sweep import Point, Variant
    from ragstream_core.services.eval_gold import GoldReport
    from ragstream_core.wiring.workspace import Workspace

NAME = "Evaluation"
EXAMPLE = """{"question": "How long are logs kept?", "file": "operations/logs.md"}
{"question": "What is the limit of an upload?", "passage": "at most 25 MB per file"}"""
PROJECT_KEY, KIND_KEY, JOBS_KEY = "eval_project", "eval_kind", "eval_jobs"
HEIGHT = 240
LINE = "#3389a8"
VARIED = {
    "retrieval.evidence": ("tight", "full"),
    "prompt.max_facts": ("6", "12"),
    "retrieval.dense_weight": ("0.3", "0.5", "0.7"),
}
"""What the settings sweep varies: dotted key → its values."""


class Kind(NamedTuple):
    """One evaluation that the view offers.

    Attributes:
        press: Name of its button.
        about: What it does, in one sentence.
        work: Does it for a project.
        show: Draws what came of it.
    """

    press: str
    about: str
    work: Callable[[Workspace, str, Report], object]
    show: Callable[[Any], None]


def show() -> None:
    """Draw the view."""
    from ragstream_core.wiring.quality_gate import gold_path

    space = workspace()
    names = [name for name in space.projects() if gold_path(space, name).is_file()]
    if not names:
        st.text(
            "Here you see how well your documents answer questions that you know the answers to.\n"
            "There are none yet. Write some into the file projects/NAME/gold.jsonl of the data "
            "folder, NAME being the project: one question a line, with the file that answers it."
        )
        st.text(EXAMPLE)
        return
    kind, job = choose(names)
    if job is None:
        st.text(kind.about)
    elif job.running:
        follow(job, stop="stop evaluation")
    elif job.error:
        show_error(job.error)
    elif job.result is not None and st.session_state.get(VIEW_KEY, NAME) == NAME:
        kind.show(job.result)


def choose(names: list[str]) -> tuple[Kind, BackgroundJob[object] | None]:
    """Draw what is chosen; return the kind of evaluation, and its newest job for the project.

    Args:
        names: Projects with gold questions, at least one.
    """
    state = st.session_state
    wanted = [state.get(PROJECT_KEY), *(state.get(PROJECTS_KEY) or []), names[0]]
    state[PROJECT_KEY] = next(name for name in wanted if name in names)
    first, press, _ = st.columns([4, 2, 6], gap="small", vertical_alignment="bottom")
    project = first.selectbox("Project to evaluate", names, key=PROJECT_KEY)
    name = st.segmented_control(
        "Evaluation", [*KINDS], key=KIND_KEY, default=next(iter(KINDS)), required=True
    )
    kind = KINDS[name]
    jobs: dict[tuple[str, str], BackgroundJob[object]] = state.setdefault(JOBS_KEY, {})
    job = jobs.get((name, project))

    def start() -> None:
        job = BackgroundJob("the evaluation", partial(kind.work, workspace(), project))
        jobs[name, project] = job.start()

    running = job is not None and job.running
    press.button(
        kind.press, type="primary", width="stretch", disabled=running, on_click=start,
        help=kind.about,
    )  # fmt: skip
    return kind, job


def ask_gold(workspace: Workspace, project: str, report: Report) -> GoldReport:
    """Ask the gold questions of the newest generation, and rank what they expect."""
    from ragstream_core.services import eval_gold

    return eval_gold.ask_gold(workspace, project, progress=partial(report, "question"))


def sweep_thresholds(workspace: Workspace, project: str, report: Report) -> list[Point]:
    """Ask the gold questions under every pair of thresholds, and keep the figures."""
    from ragstream_core.evaluation.sweep import RELATIVES, THETAS, write_point
    from ragstream_core.services import eval_sweep

    pairs = [(theta, relative) for theta in THETAS for relative in RELATIVES]
    points = list(eval_sweep.sweep(workspace, project, pairs, progress=partial(report, "prompt")))
    for point in points:
        write_point(eval_sweep.points_dir(workspace, project), point)
    return points


def vary_settings(workspace: Workspace, project: str, report: Report) -> list[Variant]:
    """Build and measure the prompts of the gold questions under every combination of `VARIED`."""
    from ragstream_core.services import eval_prompts

    told = partial(report, "prompt")
    return list(eval_prompts.vary_settings(workspace, project, VARIED, progress=told))


def judge_answers(workspace: Workspace, project: str, report: Report) -> faithfulness.Report:
    """Judge the cited extract of every gold question's prompt, and keep the figures."""
    from ragstream_core.services import eval_faithfulness

    return eval_faithfulness.of_gold(workspace, project, progress=partial(report, "answer"))


def measure_prompts(workspace: Workspace, project: str, report: Report) -> PromptReport:
    """Build and measure the prompt of every gold question."""
    from ragstream_core.services import eval_prompts

    told = partial(report, "prompt")
    return eval_prompts.measure_prompts(workspace, project, progress=told)


def show_gold(report: GoldReport) -> None:
    """Draw the ranks of what the gold questions expect."""
    from ragstream_core.evaluation.tables import gold_table

    found = report.figures
    st.text(
        f"generation {report.generation} · {found.questions} questions · recall@{found.k} "
        f"{found.recall:.3f} · MRR@{found.k} {found.mrr:.3f} · {report.missed} expected items not "
        f"among the first {found.k}"
    )
    st.dataframe(gold_table(report.questions, report.ranks), hide_index=True, width="stretch")


def show_sweep(points: list[Point]) -> None:
    """Draw the figures of a threshold sweep, as heat maps and as a table."""
    from ragstream_core.evaluation.tables import sweep_table

    table = sweep_table(points)
    st.text("To the right: gate.theta. Downwards: gate.relative. Darker is higher.")
    columns = st.columns(3, gap="small")
    shown = (("kept_relevant", ".3f"), ("shown", ".3f"), ("tokens", ",.0f"))
    for column, (field, form) in zip(columns, shown, strict=True):
        column.altair_chart(heat_map(table, field, form), width="stretch", height=HEIGHT)
    st.dataframe(table, hide_index=True, width="stretch")


def show_variants(variants: list[Variant]) -> None:
    """Draw what stands in the prompts, what they cost and what was saved, a row a combination."""
    from ragstream_core.evaluation.tables import variants_table

    st.text("tokens_saved: behind the end of the evidence, repeated, or outside of a window.")
    st.dataframe(variants_table(variants), hide_index=True, width="stretch")


def show_prompts(report: PromptReport) -> None:
    """Draw what stands in the prompts: the figures, and a row a question."""
    from ragstream_core.evaluation.tables import prompts_table

    known = {name: value for name, value in report.figures.to_json().items() if value is not None}
    st.text(" · ".join(f"{name.replace('_', ' ')} {value:,.4g}" for name, value in known.items()))
    st.dataframe(prompts_table(report.rows), hide_index=True, width="stretch")


def show_faithfulness(report: faithfulness.Report) -> None:
    """Draw how faithful the answers are, over generations and one by one."""
    from ragstream_core.evaluation.faithfulness import kept
    from ragstream_core.evaluation.tables import faithfulness_table
    from ragstream_core.services.eval_faithfulness import figures_dir

    found = report.totals
    score = "no answer claims anything" if report.score is None else f"{report.score:.3f}"
    st.text(
        f"faithfulness {score} · {found.supported} of {found.claims} claims supported · "
        f"judge {report.judge} · generation {report.generation}"
    )
    past = [
        (row.generation, row.score)
        for row in kept(figures_dir(workspace(), report.project), report.series)
        if row.score is not None
    ]
    if len(past) > 1:
        st.altair_chart(over_generations(past), width="stretch", height=HEIGHT)
    st.dataframe(faithfulness_table(report.answers), hide_index=True, width="stretch")


KINDS = {
    "Gold questions": Kind(
        "Ask",
        "Asks every gold question and shows the rank of each file and passage that it expects.",
        ask_gold,
        show_gold,
    ),
    "Prompts": Kind(
        "Measure",
        "Builds the prompt of every gold question and shows whether the answer is in it, what it "
        "costs in tokens, and how its facts and open issues fare.",
        measure_prompts,
        show_prompts,
    ),
    "Threshold sweep": Kind(
        "Sweep",
        "Builds the prompt of every gold question under 28 pairs of the gate's thresholds, and "
        "shows what is kept and how long the prompts get. Takes a minute or more.",
        sweep_thresholds,
        show_sweep,
    ),
    "Settings sweep": Kind(
        "Vary",
        "Builds the prompt of every gold question with tight and full evidence, 6 and 12 facts, "
        "and three weights of meaning against words; shows where the answers stand, the tokens "
        "that were saved, and what is answered, perhaps or not found. Takes a minute or more.",
        vary_settings,
        show_variants,
    ),
    "Faithfulness": Kind(
        "Judge",
        "Shows which share of the claims of each question's cited extract is supported by the "
        "passages that it cites. No language model is asked, unless evaluation.judge is llm.",
        judge_answers,
        show_faithfulness,
    ),
}


def heat_map(table: pd.DataFrame, field: str, form: str) -> alt.LayerChart:
    """Return one figure of a sweep as a heat map with its numbers.

    Args:
        table: From `sweep_table`.
        field: Its column.
        form: How numbers are written, as d3-format names it.
    """
    import altair as alt

    low, high = float(table[field].min()), float(table[field].max())
    base = alt.Chart(table, title=field.replace("_", " ")).encode(
        alt.X("theta:O", title="θ", axis=alt.Axis(labelAngle=0)), alt.Y("relative:O")
    )
    cells = base.mark_rect().encode(
        alt.Color(f"{field}:Q", scale=alt.Scale(scheme="blues"), legend=None)
    )
    dark = alt.datum[field] > low + 0.6 * (high - low)
    numbers = base.mark_text(fontSize=11).encode(
        text=alt.Text(f"{field}:Q", format=form),
        color=alt.condition(dark, alt.value("white"), alt.value("black")),
    )
    chart: alt.LayerChart = cells + numbers
    return chart


def over_generations(past: list[tuple[int, float]]) -> alt.Chart:
    """Return faithfulness over generations as a line.

    Args:
        past: (generation, score), ascending; at least one.
    """
    import altair as alt
    import pandas as pd

    rows = pd.DataFrame(past, columns=["generation", "faithfulness"])
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_line(point=True, color=LINE)
        .encode(
            alt.X("generation:O", axis=alt.Axis(labelAngle=0)),
            alt.Y("faithfulness:Q", scale=alt.Scale(domain=[0, 1])),
            tooltip=["generation", "faithfulness"],
        )
    )
    return chart
