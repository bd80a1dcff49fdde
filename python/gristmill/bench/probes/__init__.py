"""What executors can do, each thing tried on them."""
