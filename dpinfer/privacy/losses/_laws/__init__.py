"""Laws of the privacy loss of one use of a mechanism."""
