"""Confidence sets for ratios of confidential values, and for what is made of ratios."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
