"""Laws of the noise, of weighted sums of it, and of channels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
