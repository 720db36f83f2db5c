"""Small releases that ship with the package, each with its provenance."""
