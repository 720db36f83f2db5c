"""Laws of the noise: one file a mechanism, and the law of weighted sums of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
