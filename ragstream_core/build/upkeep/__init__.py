"""Keeping a data root whole: backup, restore, forgetting, expiry, garbage, disk usage."""
