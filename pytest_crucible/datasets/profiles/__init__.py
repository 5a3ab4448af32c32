"""Profiles of datasets: the types, values, outliers, associations and quality of their fields."""

from pytest_crucible.datasets.profiles.profile import Profile, profile_samples

__all__ = ["Profile", "profile_samples"]
