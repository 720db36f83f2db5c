"""Functions of many noisy counts: unbiased estimates, indices, and their intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
