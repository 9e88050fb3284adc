"""Work in the background of the page."""
