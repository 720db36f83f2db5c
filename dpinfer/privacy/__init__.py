"""What a release protects: guarantees, their composition, sampling, and what they mean."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
