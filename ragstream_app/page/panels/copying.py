"""A button that puts a text on the clipboard with one click; where it may not, the text is shown.

The script is ours and stands in the page; nothing is fetched. The text comes to it as data and is
never part of the page.
"""

from __future__ import annotations

import streamlit as st

HEIGHT = 250
_REFUSED = "copy refused "
_HTML = '<button type="button"></button><span role="status"></span>'
_CSS = """
button {
  width: 100%;
  min-height: 2rem;
  padding: 0.1rem 0.25rem;
  font: inherit;
  font-size: 0.82rem;
  letter-spacing: -0.01em;
  color: inherit;
  background: transparent;
  border: 1px solid var(--st-border-color, rgba(128, 128, 128, 0.4));
  border-radius: var(--st-button-radius, 0.5rem);
  cursor: pointer;
}
button:hover { color: var(--st-primary-color); border-color: var(--st-primary-color); }
button:focus-visible { outline: 2px solid currentColor; outline-offset: 1px; }
span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""
_JS = """
const SHOWN_MS = 2000;

function byHand(text) {  // without a secure connection there is no navigator.clipboard
  const box = document.createElement("textarea");
  box.value = text;
  box.style.position = "fixed";
  box.style.opacity = "0";
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  if (!done) throw new Error("refused");
}

export default function ({ parentElement, data, setTriggerValue }) {
  const button = parentElement.querySelector("button");
  const told = parentElement.querySelector("span");
  if (!button.textContent) button.textContent = "Copy";
  button.onclick = async () => {
    try {
      if (navigator.clipboard) await navigator.clipboard.writeText(data);
      else byHand(data);
    } catch {
      setTriggerValue("refused", true);
      return;
    }
    button.textContent = told.textContent = "Copied";
    clearTimeout(button.back);
    button.back = setTimeout(() => {
      button.textContent = "Copy";
      told.textContent = "";
    }, SHOWN_MS);
  };
}
"""
_BUTTON = st.components.v2.component("ragstream_copy", html=_HTML, css=_CSS, js=_JS)


def offer(text: str, *, key: str) -> None:
    """Draw the button; where the browser refuses, what shows the text to be copied by hand.

    Args:
        text: What is copied.
        key: Of the widget.
    """
    refused = _REFUSED + key

    def on_refused() -> None:
        st.session_state[refused] = True

    if not st.session_state.get(refused):
        _BUTTON(key=key, data=text, on_refused_change=on_refused)
        return
    shown = st.popover("Copy", width="stretch", on_change="rerun")
    if shown.open:
        with shown:
            st.text("Your browser does not let this page copy. Use the button in the text.")
            st.code(text, language=None, wrap_lines=True, height=HEIGHT)
