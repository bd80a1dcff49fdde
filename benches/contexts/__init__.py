"""What the rows of contexts run: a network, a chemistry, a heavy environment, a slow file system."""
