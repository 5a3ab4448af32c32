"""Sample sizes, power and smallest detectable effects."""
