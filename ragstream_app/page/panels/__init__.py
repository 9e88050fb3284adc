"""The parts of the page."""
