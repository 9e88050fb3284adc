"""Adapters of optional models: language models behind endpoints, cross-encoders."""
