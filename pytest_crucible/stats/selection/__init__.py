"""Choosing among several arms: the winner's estimate corrected for selection, and intervals for ranks."""
