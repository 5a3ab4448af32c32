"""Files of graphs and timelines, each format by the ending of its name."""
