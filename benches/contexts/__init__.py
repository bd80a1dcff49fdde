"""The workloads of the rows of contexts: a network, a heavy environment, a slow file system."""
