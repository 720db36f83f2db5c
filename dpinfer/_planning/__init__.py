"""Plans: what follows from given arguments, and the argument that reaches what is wanted."""
