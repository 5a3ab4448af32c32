"""How far the members of an ensemble differ, and what that is worth."""
