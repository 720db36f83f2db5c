"""dpinfer.estimation._tree."""
