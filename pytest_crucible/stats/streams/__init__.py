"""Statistics of more values than fit into memory: they are added batch by batch, in any order and split, and give the same bits."""
