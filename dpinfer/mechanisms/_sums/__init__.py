"""The law of a weighted sum of noises, by route: ``choice`` says which sum takes which."""
