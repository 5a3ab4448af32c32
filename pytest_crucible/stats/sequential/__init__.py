"""Confidence sequences and paced bets: statistics that stay valid under early looks."""
