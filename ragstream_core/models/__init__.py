"""Models and where they come from: the hub, downloads and token counters."""
