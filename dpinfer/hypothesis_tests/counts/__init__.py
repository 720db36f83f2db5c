"""Tests about the confidential counts themselves, in pairs, in order and row by row."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
