"""A look-up of the weather in a thread of its own: the page waits for nobody.

Nothing here knows Streamlit.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ragstream_app.failures import describe

if TYPE_CHECKING:
    from ragstream_core.build.weather import Explain
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.weather.records import WeatherAnalysis


class WeatherJob:
    """One look-up; it begins at once.

    Args:
        workspace: Says which language model may explain.
        city: Which city.
        days: 1 to 16.
        country: Empty: any.
        explain: ``text`` or ``llm``.
    """

    def __init__(
        self,
        workspace: Workspace,
        city: str,
        days: int,
        *,
        country: str = "",
        explain: Explain = "text",
    ) -> None:
        self.city = city
        self.found: WeatherAnalysis | None = None
        self.problem: dict[str, str] = {}
        self.done = threading.Event()
        self._asked = (workspace, city, days, country, explain)
        threading.Thread(target=self._run, name="weather", daemon=True).start()

    def _run(self) -> None:
        from ragstream_core.build.weather import look_up

        workspace, city, days, country, explain = self._asked
        try:
            self.found = look_up(workspace, city, days, country=country, explain=explain)
        except Exception as error:  # the page's error boundary: wrong settings of the provider
            self.problem = describe(error)
        finally:
            self.done.set()
