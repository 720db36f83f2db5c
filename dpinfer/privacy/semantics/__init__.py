"""What a guarantee means: for tests, for beliefs, for decisions and for a median's noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
