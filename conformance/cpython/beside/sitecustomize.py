"""Extension of the package ``test`` by a folder of tests, for interpreters that lack them; also loaded in workers."""

import os

import test

test.__path__.append(os.environ["GRISTMILL_TESTS_BESIDE"])
