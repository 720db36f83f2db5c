"""Design-based totals and means from the noisy counts of probability samples."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
