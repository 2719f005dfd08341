"""A stand-in for the module `expecttest`, which Debian does not have and torch's test helpers import: nothing we run uses its comparisons."""

import unittest

ACCEPT = False


class TestCase(unittest.TestCase):
    """Only the names."""

    longMessage = True

    def assertExpectedInline(self, actual, expect, skip=0):
        self.assertEqual(actual, expect)

    def assertExpectedRaisesInline(self, kind, call, expect, *args, skip=0, **kwargs):
        with self.assertRaises(kind) as caught:
            call(*args, **kwargs)
        self.assertEqual(str(caught.exception), expect)
