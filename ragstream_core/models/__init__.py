"""Adapters of optional models: cross-encoders."""
