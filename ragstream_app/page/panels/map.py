"""The view *Map*: chunks as points, those with similar texts together; nothing without a click.

A map belongs to the generations it was drawn from: if one of them changes, or turns are cleared, it
goes and has to be drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.page.jobs.background import BackgroundJob, Report
from ragstream_app.page.panels.chat_state import VIEW_KEY
from ragstream_app.page.panels.notices import follow
from ragstream_app.page.panels.shared import PROJECTS_KEY, show_error, shown_errors, workspace

if TYPE_CHECKING:
    import altair as alt

    from ragstream_core.maps.chunk_map import ChunkMap, PlacedChunk
    from ragstream_core.services.chunk_maps import MapRequest
    from ragstream_core.wiring.workspace import Workspace

JOB_KEY = "map_job"
OF_KEY, HISTORY_KEY, METHOD_KEY, LIMIT_KEY, SEED_KEY, BY_KEY = (
    f"map_{name}" for name in ("projects", "history", "method", "limit", "seed", "by")
)
CHART_KEY = "map_chart"
HEIGHT = 500

# Half transparent, for light and dark pages.
OTHERS = "#8a909980"
# Of the view; where another one is open the chart is not drawn: that takes a tenth of a second.
NAME = "Map"
POINT = "point"
METHODS = {"tsne": "t-SNE: neighbours stay together", "pca": "PCA: fast, keeps the overall layout"}
SNIPPET_CHARS = 200


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """A map with what it was drawn from.

    Attributes:
        request: What was asked for.
        state: Digest of what it was drawn from.
        chunks: The map.
        snippets: The first characters of each place's text, in the order of its places.
    """

    request: MapRequest
    state: str
    chunks: ChunkMap
    snippets: list[str]


def start(workspace: Workspace, request: MapRequest) -> BackgroundJob[DrawnMap]:
    """Start drawing a map in the background.

    Args:
        workspace: The data root.
        request: What is drawn.
    """
    from ragstream_core.services import chunk_maps

    def draw(report: Report) -> DrawnMap:
        state = chunk_maps.state(workspace, request)
        found = chunk_maps.draw(workspace, request, report)
        snippets = [text[:SNIPPET_CHARS] for text in chunk_maps.texts(workspace, found)]
        return DrawnMap(request, state, found, snippets)

    return BackgroundJob("the map", draw).start()


def show() -> None:
    """Draw the view."""
    choose()
    found = job()
    if found is None:
        st.text("A map shows what an index is about: each dot is a passage. Draw one.")
    elif found.running:
        follow(found, stop="stop map")
    elif found.error:
        show_error(found.error)
    elif found.result is None or not is_current(found.result):
        st.session_state[JOB_KEY] = None
        st.info("What was shown has changed since. Draw the map again.")
    elif st.session_state.get(VIEW_KEY, NAME) == NAME:
        st.fragment(drawn)(found.result)


def job() -> BackgroundJob[DrawnMap] | None:
    """Return the newest map of this tab, on its way or here."""
    found: BackgroundJob[DrawnMap] | None = st.session_state.get(JOB_KEY)
    return found


def choose() -> None:
    """Draw what is chosen before a map is drawn."""
    names = workspace().projects()
    known = st.session_state.get(PROJECTS_KEY, names[:1])
    state = st.session_state
    state[OF_KEY] = [n for n in state.get(OF_KEY, known) if n in names]
    first, second, third, press = st.columns([4, 3, 2, 1], gap="small", vertical_alignment="bottom")
    first.multiselect("Projects on the map", names, key=OF_KEY, placeholder="Choose projects")
    second.selectbox("Method", [*METHODS], key=METHOD_KEY, format_func=METHODS.__getitem__)
    with third.popover("More", width="stretch"):
        st.checkbox("Conversations", key=HISTORY_KEY, help="Also the turns that prompts search.")
        st.number_input(
            "Most points", 10, 20_000, 5_000, 500, key=LIMIT_KEY,
            help="If there are more chunks, a sample is shown in which each file keeps its share.",
        )  # fmt: skip
        st.number_input("Seed", 0, 2**31, 0, key=SEED_KEY, help="The same seed gives the same map.")
    running = (found := job()) is not None and found.running
    nothing = not (state[OF_KEY] or state.get(HISTORY_KEY))
    press.button(
        "Draw", type="primary", width="stretch", disabled=running or nothing, on_click=on_draw,
        help="5,000 passages take about half a minute; you can go on working.",
    )  # fmt: skip


def on_draw() -> None:
    """Start a map; a second press while one is on its way does nothing."""
    found = job()
    if found is None or not found.running:
        st.session_state[JOB_KEY] = start(workspace(), wanted())


def wanted() -> MapRequest:
    """Return what map the controls ask for."""
    from ragstream_core.services.chunk_maps import MapRequest

    state = st.session_state
    return MapRequest(
        tuple(state[OF_KEY]),
        history=bool(state.get(HISTORY_KEY)),
        method=state.get(METHOD_KEY, "tsne"),
        limit=int(state.get(LIMIT_KEY, 5_000)),
        seed=int(state.get(SEED_KEY, 0)),
    )


def is_current(found: DrawnMap) -> bool:
    """Whether a map would be drawn from the same chunks now."""
    from ragstream_core.services import chunk_maps

    try:
        return chunk_maps.state(workspace(), found.request) == found.state
    except Exception:  # what it showed cannot be read any more
        return False


def drawn(found: DrawnMap) -> None:
    """Draw a map, what can be taken away of it, and the passage of a chosen point."""
    from ragstream_core.maps.chunk_map import FILES, PROJECTS
    from ragstream_core.maps.drawing import draw

    result = found.chunks
    by, head = st.columns([1, 4], gap="small", vertical_alignment="center")
    colour = by.selectbox(
        "Colours",
        [FILES, PROJECTS],
        index=int(result.by == PROJECTS),
        key=BY_KEY,
        format_func="Colours by {}".format,
        label_visibility="collapsed",
    )
    head.text(result.title)
    for line in result.notes:
        st.info(line)
    event = st.altair_chart(
        chart(result, found.snippets, colour),
        width="stretch",
        key=CHART_KEY,
        on_select="rerun",
        selection_mode=POINT,
        height=HEIGHT,
    )
    place = chosen(event, result)
    line, png, table = st.columns([8, 1, 1], gap="small", vertical_alignment="center")
    line.text(_named(place))
    png.download_button(
        "PNG", lambda: draw(result, by=colour), "map.png", "image/png", width="stretch"
    )
    table.download_button(
        "CSV", lambda: _csv(result), "map.csv", "text/csv", width="stretch",
        help="One line for each point, with its whole text.",
    )  # fmt: skip
    if place is not None:
        passage(result, place)


def chart(result: ChunkMap, snippets: list[str], by: str) -> alt.Chart:
    """Return the map as a chart: a dot a chunk, its text where the pointer is.

    Args:
        result: The map.
        snippets: What the pointer shows of each place's text.
        by: What the colours distinguish.
    """
    import altair as alt
    import pandas as pd

    from ragstream_core.maps.chunk_map import labels, largest
    from ragstream_core.maps.drawing import PALETTE

    names = labels(result.places, by)
    legend = [*largest(names, len(PALETTE))]
    rest = len(set(names)) - len(legend)
    others = f"{rest} others"
    rows = pd.DataFrame(
        {
            "x": [place.x for place in result.places],
            "y": [place.y for place in result.places],
            "place": range(len(result.places)),
            "group": [name if name in legend else others for name in names],
            "file": [f"{place.home}/{place.path}" for place in result.places],
            "chunk": [place.number for place in result.places],
            "passage": snippets,
        }
    )
    domain = [*legend, *([others] if rest else [])]
    colours = [*PALETTE[: len(legend)], *([OTHERS] if rest else [])]
    near = alt.selection_point(name=POINT, fields=["place"], on="click", empty=True)
    chart: alt.Chart = (
        alt.Chart(rows)
        .mark_circle(size=_size(len(rows)), opacity=0.85)
        .encode(
            x=alt.X("x:Q", axis=None, scale=alt.Scale(zero=False, padding=8)),
            y=alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False, padding=8)),
            color=alt.Color(
                "group:N",
                scale=alt.Scale(domain=domain, range=colours),
                legend=alt.Legend(title=None, orient="right", labelLimit=220, symbolOpacity=1),
            ),
            opacity=alt.condition(near, alt.value(0.85), alt.value(0.25)),
            tooltip=["file:N", "chunk:Q", "passage:N"],
        )
        .add_params(near)
        .interactive()
        .configure_view(strokeWidth=0)
    )
    return chart


def chosen(event: Any, result: ChunkMap) -> PlacedChunk | None:
    """Return the place that was clicked, None where there is none.

    Args:
        event: What the chart returned.
        result: Its map.
    """
    picked = (event.selection.get(POINT) or []) if event else []
    number = picked[0].get("place") if picked else None
    if not isinstance(number, int | float) or not 0 <= int(number) < len(result.places):
        return None
    return result.places[int(number)]


def passage(result: ChunkMap, place: PlacedChunk) -> None:
    """Draw the text of a place."""
    from ragstream_core.services import chunk_maps

    with shown_errors():
        (text,) = chunk_maps.texts(workspace(), result, [place])
        st.code(text, language=None, wrap_lines=True)


def _named(place: PlacedChunk | None) -> str:
    if place is None:
        return "Point at a dot to see what it is; click it to read the whole passage."
    return f"{place.home}/{place.path} · chunk {place.number}"


def _csv(result: ChunkMap) -> bytes:
    from ragstream_core.maps.chunk_map import as_csv
    from ragstream_core.services import chunk_maps

    return as_csv(result.places, chunk_maps.texts(workspace(), result)).encode("utf-8")


def _size(count: int) -> float:
    """Return a dot's area in square pixels: smaller where there are many."""
    return min(90.0, max(14.0, 60_000 / max(count, 1)))
