"""What Dagster's web server says of the runs, asked as its own pages ask."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Container
from typing import Any

from tests.browser.sites import Site

RUN_S = 180.0
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
EVERY_S = 0.5
WHY = """{ logsForRun(runId: "%s") { ... on EventConnection { events {
  ... on MessageEvent { message }
  ... on ExecutionStepFailureEvent { error { message } }
  ... on RunFailureEvent { error { message } } } } } }"""
RUNS = "{ runsOrError { ... on Runs { results { runId status jobName } } } }"


def ask(site: Site, query: str) -> dict[str, Any]:
    """Return the data of a query."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(
        f"{site.dagster}/graphql", body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer)["data"])
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()[:4000]) from error


def runs(site: Site) -> dict[str, tuple[str, str]]:
    """Return the job and the status of each run, the newest first."""
    rows = ask(site, RUNS)["runsOrError"]["results"]
    return {row["runId"]: (row["jobName"], row["status"]) for row in rows}


def parent_of(site: Site, run: str) -> str:
    """Return the run that a run goes on from."""
    query = f'{{ runOrError(runId: "{run}") {{ ... on Run {{ parentRunId }} }} }}'
    return str(ask(site, query)["runOrError"]["parentRunId"])


def new_run(site: Site, before: Container[str], job: str) -> str:
    """Wait until a run that was not there before has ended well; return its id.

    Args:
        site: Asked twice a second.
        before: The runs that were there.
        job: Name of its job; of a backfill's, its beginning. Sensors launch others meanwhile.
    """
    deadline = time.monotonic() + RUN_S
    while time.monotonic() < deadline:
        for run, (name, status) in runs(site).items():
            if run not in before and name.startswith(job):
                assert status not in ENDED[1:], ask(site, WHY % run)
                if status == "SUCCESS":
                    return run
        time.sleep(EVERY_S)
    raise AssertionError(f"no run of {job} succeeded: {runs(site)}")
