"""Files that other tools have written, with what is right about them."""
