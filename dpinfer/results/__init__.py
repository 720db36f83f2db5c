"""Result objects and their tables; nothing here knows of privacy."""
