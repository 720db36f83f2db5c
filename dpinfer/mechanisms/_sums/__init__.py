"""The law of a weighted sum of noises, by route: ``routing`` says which sum takes which."""
