"""What the rows of contexts run: a network, a heavy environment, a slow file system."""
