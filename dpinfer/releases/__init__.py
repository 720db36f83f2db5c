"""What was published: values, mechanism, queries and publishing rule; readers and writers."""
