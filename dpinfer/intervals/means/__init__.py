"""Intervals for means: of a normal sample, and of clipped values published with noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
