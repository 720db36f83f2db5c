"""Intervals for proportions and rates of a population, from counts published with noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
