"""A browser's session with the page, without a browser: it draws, types, presses and waits."""

import time
from typing import Literal

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets import Origin
from websockets.sync.client import connect

WAIT_S = 120.0
LOOK_S = 0.3


class PageError(Exception):
    """The page showed an error."""


class PageSession:
    """One tab: a web socket as Streamlit's own page opens it.

    Args:
        port: Of the page, on loopback.
    """

    def __init__(self, port: int) -> None:
        address = f"127.0.0.1:{port}"
        self._socket = connect(
            f"ws://{address}/_stcore/stream", origin=Origin(f"http://{address}"), proxy=None,
            max_size=None, open_timeout=WAIT_S,
        )  # fmt: skip
        self.elements: list[Element] = []
        self.draw()

    def close(self) -> None:
        """Close the tab."""
        self._socket.close()

    def draw(self, typed: tuple[str, str] | None = None, pressed: str | None = None) -> None:
        """Have the page drawn, with a text that was typed and a button that was pressed.

        Args:
            typed: Label of a text area, and the text.
            pressed: Label of a button.

        Raises:
            PageError: It shows one.
        """
        asked = BackMsg()
        asked.rerun_script.query_string = ""
        states = asked.rerun_script.widget_states.widgets
        if typed is not None:
            states.add(id=self._id("text_area", typed[0]), string_value=typed[1])
        if pressed is not None:
            states.add(id=self._id("button", pressed), trigger_value=True)
        self._socket.send(asked.SerializeToString())
        self._read()
        for one in self.elements:
            if one.HasField("exception"):
                raise PageError(one.exception.message)
            if one.HasField("alert") and one.alert.format == one.alert.ERROR:
                raise PageError(one.alert.body)

    def ask(self, text: str) -> str:
        """Type a question, press Build prompt, and return the prompt when it is there.

        Raises:
            PageError: The page shows one, or the prompt did not come.
        """
        self.draw(typed=("Prompt", text))
        self.draw(pressed="Build prompt")
        until = time.monotonic() + WAIT_S
        while self._is_busy():
            if time.monotonic() > until:
                raise PageError(f"no prompt in {WAIT_S:.0f} s")
            time.sleep(LOOK_S)
            self.draw()
        areas = [one.text_area for one in self.elements if one.HasField("text_area")]
        prompt = next((one for one in areas if one.label == "Super-Prompt"), None)
        shown = prompt.value or prompt.default if prompt is not None else ""
        if text not in shown:
            raise PageError("the press ended without a prompt")
        return str(shown)

    def _read(self) -> None:
        """Take what is drawn, to the end of a run of the page that was not cut off for another."""
        self.elements = []
        while True:
            got = self._next()
            if got.HasField("delta") and got.delta.HasField("new_element"):
                self.elements.append(got.delta.new_element)
            elif got.WhichOneof("type") == "script_finished":
                if got.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    return
                self.elements = []

    def _is_busy(self) -> bool:
        buttons = [one.button for one in self.elements if one.HasField("button")]
        return not any(one.label == "Build prompt" and not one.disabled for one in buttons)

    def _id(self, kind: Literal["button", "text_area"], label: str) -> str:
        found = [getattr(one, kind) for one in self.elements if one.HasField(kind)]
        return str(next(one.id for one in found if one.label == label))

    def _next(self) -> ForwardMsg:
        got = ForwardMsg()
        got.ParseFromString(self._socket.recv(timeout=WAIT_S))
        return got
