"""Connects the library with settings, models and folders of one data root."""
