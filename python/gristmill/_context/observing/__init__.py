"""A folder for the path of programs that are observed: they find its ``sitecustomize`` as they start."""
