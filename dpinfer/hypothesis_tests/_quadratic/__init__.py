"""The exact law of a quadratic statistic of multinomial counts with independent noise."""
