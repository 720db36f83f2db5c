"""Pictures of results, with the extra ``[plot]``: one look, legible in grey."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
