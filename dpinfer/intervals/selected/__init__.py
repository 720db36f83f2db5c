"""Intervals for values that were published, or moved, by a rule on the noisy value."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
