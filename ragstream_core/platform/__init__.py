"""What every layer stands on: durable files, locks, disk space, HTTP, plugins and the debug log."""
