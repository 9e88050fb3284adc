"""The job `weather_report`: a run with figures, and a run that says why there are none."""

import pytest

from ragstream_assets.definitions import defs
from ragstream_core.weather.open_meteo import OpenMeteo
from tests.model_server import raw, status
from tests.weather_api import BERLIN, forecast, places

IMAGE = "![](http://127.0.0.1:3000/graphql?query=mutation)"


@pytest.fixture
def report(root, server, monkeypatch):
    """Run the job against a server; return its metadata."""
    url = server.url
    monkeypatch.setattr(
        "ragstream_core.weather.tool.OpenMeteo",
        lambda: OpenMeteo(geocoding_url=url, forecast_url=url),
    )

    def call(*answers, **config):
        server.answers = list(answers)
        result = defs.resolve_job_def("weather_report").execute_in_process(
            run_config={
                "resources": {"workspace": {"config": {"data_dir": str(root)}}},
                **({"ops": {"report_weather": {"config": config}}} if config else {}),
            }
        )
        assert result.success
        (event,) = [
            e for e in result.events_for_node("report_weather")
            if e.event_type_value == "STEP_OUTPUT"
        ]  # fmt: skip
        return event.step_output_data.metadata

    return call


def test_it_runs_as_it_stands_with_a_table(report):
    found = report(raw(places(BERLIN)), raw(forecast(temperature=lambda day, hour: 4.0 + day)))
    assert found["place"].value == "Berlin (State of Berlin, Germany)"
    assert len(found["days"].records) == 7
    assert found["mean_c"].value == 7.0 and found["volatility_c"].value == 2.0
    assert found["days"].records[0].data["three_days"] == "–"
    assert found["problem"].value == "-"


def test_where_nobody_answers_the_run_succeeds_and_says_so(report):
    found = report(status(503), city="Berlin", days=3)
    assert "status 503" in found["problem"].value and "days" not in found


def test_names_of_places_are_never_markdown(report):
    found = report(
        raw(places({**BERLIN, "name": IMAGE}, {**BERLIN, "admin1": IMAGE})), raw(forecast(2)),
        days=2,
    )  # fmt: skip
    shown = {name for name, value in found.items() if IMAGE in str(value.value)}
    assert shown == {"place", "explanation", "other_places"}
    for name in shown:
        assert type(found[name]).__name__ == "TextMetadataValue"


def test_nothing_starts_it_but_a_person():
    jobs = {sensor.job_name for sensor in defs.sensors if sensor.has_jobs}
    jobs |= {schedule.job_name for schedule in defs.schedules}
    assert "weather_report" not in jobs
    assert defs.resolve_job_def("weather_report").executor_def.name == "in_process"
