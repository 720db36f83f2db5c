"""The analysis of a release as text, HTML, CSV, JSON and Parquet."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
