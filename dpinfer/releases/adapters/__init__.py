"""Noise laws from what people already have, one small file a source."""
