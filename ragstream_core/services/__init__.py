"""One module a use case: what the command line, the page and Dagster call."""
