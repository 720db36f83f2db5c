"""What was asked of the data: domain, workload matrix, sensitivity."""
