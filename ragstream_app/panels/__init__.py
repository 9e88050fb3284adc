"""The parts of the page, a module a panel; each draws itself by `show` and owns its keys."""
