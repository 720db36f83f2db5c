"""What was published: values, mechanism, queries and publishing rule; readers and writers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
