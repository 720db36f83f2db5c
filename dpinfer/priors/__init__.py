"""What is believed of confidential counts before their noisy values are seen, as values."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
