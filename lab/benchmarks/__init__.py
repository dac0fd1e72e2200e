"""What the product costs: each figure a ratio against a peer or a floor, taken in one run."""
